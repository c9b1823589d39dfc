use bytes::Bytes;

use super::batch::RecordBatch;
use super::error::{RecordsError, RecordsReason, Stage};
use super::record::{Base, end, int, length, read_record};
use super::{Compression, OwnedRecord, Record, compression, legacy};
use crate::embedded::ControlRecord;

/// What a batch may cost, and whether its checksum is compared.
///
/// A batch may inflate to `max_ratio` times its own size or to 2 MiB, whichever is more, but never to more than
/// `max_size`. Zstandard may besides reserve, not fill, a window of up to 128 MiB that the stream asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether the checksum is compared with the content, as Kafka's `check.crcs`; true by default. Off, damaged
    /// records may be read as others.
    pub check_crc: bool,
    /// The most bytes that the records of a batch may take once they are decompressed; 128 MiB by
    /// default, never more than 4 GiB.
    pub max_size: usize,
    /// The most bytes that may come out for one compressed byte; 1000 by default. LZ4 reaches 255 and gzip 1032 with
    /// nothing but zeros, Zstandard much more.
    pub max_ratio: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { check_crc: true, max_size: 128 << 20, max_ratio: 1000 }
    }
}

impl ReadOptions {
    const ALWAYS_ALLOWED: usize = 2 << 20;
    /// Positions in records have 32 bits.
    const MOST: usize = u32::MAX as usize;

    pub(super) fn limit(&self, compressed: usize) -> usize {
        compressed.saturating_mul(self.max_ratio).max(Self::ALWAYS_ALLOWED).min(self.max_size).min(Self::MOST)
    }
}

impl<'a> RecordBatch<'a> {
    /// Checks the batch and makes its records readable: compares the checksum, and decompresses within the limits of
    /// the default [`ReadOptions`].
    ///
    /// # Errors
    ///
    /// The checksum is wrong, the codec unknown or not enabled, the compressed stream damaged or larger than allowed.
    /// In the old formats also whatever is wrong with the records.
    #[inline]
    pub fn records(&self) -> Result<Records<'a>, RecordsError> {
        self.records_with(&ReadOptions::default())
    }

    /// The same with other limits, or without comparing the checksum.
    ///
    /// # Errors
    ///
    /// As [`records`](Self::records).
    pub fn records_with(&self, options: &ReadOptions) -> Result<Records<'a>, RecordsError> {
        if options.check_crc {
            self.verify()?;
        }
        if self.header().magic < 2 {
            return legacy::read(self, options);
        }
        let content = match self.compression()? {
            Compression::None => Content::Plain(self.content()),
            compression => Content::Inflated(self.inflate(compression, self.content(), options)?),
        };
        if self.header().records_count < 0 {
            return Err(self.miscounted(0, 0));
        }
        Ok(Records { batch: self.clone(), content, messages: None })
    }

    /// The codec of magic 2.
    pub(super) fn compression(&self) -> Result<Compression, RecordsError> {
        let id = self.header().attributes.compression_id();
        Compression::from_id(id)
            .ok_or_else(|| self.fault(Stage::Header, RecordsReason::UnknownCompression { id }))
    }

    /// Decompresses the content of the batch, or the value of an old message.
    pub(super) fn inflate(
        &self,
        compression: Compression,
        stream: &[u8],
        options: &ReadOptions,
    ) -> Result<Bytes, RecordsError> {
        compression::decompress(compression, self.header().magic, stream, options.limit(stream.len()))
            .map(Bytes::from)
            .map_err(|reason| self.fault(Stage::Records, reason))
    }

    #[cold]
    fn miscounted(&self, found: usize, left: usize) -> RecordsError {
        let announced = self.header().records_count;
        self.fault(Stage::Records, RecordsReason::Count { announced, found, left })
    }
}

/// The records of a batch, checked and decompressed.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    pub(super) batch: RecordBatch<'a>,
    pub(super) content: Content<'a>,
    /// Of the old formats, which have to be read to their end before an offset is known.
    pub(super) messages: Option<Vec<legacy::Message>>,
}

/// Where records are.
#[derive(Clone, Debug)]
pub(super) enum Content<'a> {
    /// In the batch.
    Plain(&'a [u8]),
    /// In a buffer of their own.
    Inflated(Bytes),
}

impl Content<'_> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Inflated(bytes) => bytes,
        }
    }
}

impl<'a> Records<'a> {
    /// The batch that they are from.
    #[inline]
    pub fn batch(&self) -> &RecordBatch<'a> {
        &self.batch
    }

    /// The base offset: that of the header, in the old formats the offset of the first record.
    #[inline]
    pub fn base_offset(&self) -> i64 {
        match &self.messages {
            Some(messages) => messages.first().map_or(self.batch.header().base_offset, |first| first.offset),
            None => self.batch.header().base_offset,
        }
    }

    /// The records as they stand in the batch, decompressed.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.content.bytes()
    }

    /// The records, one after another, borrowed: nothing is allocated.
    ///
    /// After an error in the content of a record the iterator goes on with the next record, so that a single bad one
    /// can be passed over. It ends after an error that hides where the next record starts, and after an error about
    /// the number of records.
    #[inline]
    pub fn iter(&self) -> RecordIter<'_> {
        let header = self.batch.header();
        RecordIter {
            records: self,
            rest: self.content.bytes(),
            base: Base {
                offset: header.base_offset,
                timestamp: header.base_timestamp,
                append_timestamp: header.append_timestamp(),
                sequence: header.base_sequence,
            },
            next: 0,
            count: match &self.messages {
                Some(messages) => messages.len(),
                // Not negative: see `records_with`.
                None => header.records_count as usize,
            },
        }
    }

    /// The records, one after another, living on their own. They share the input or the decompressed
    /// content, and keep it alive.
    ///
    /// # Errors
    ///
    /// Those of [`iter`](Self::iter).
    #[inline]
    pub fn owned(&self) -> impl Iterator<Item = Result<OwnedRecord, RecordsError>> {
        let content = self.shared();
        self.iter().map(move |record| Ok(OwnedRecord::of(&record?, self.as_bytes(), &content)))
    }

    /// All records at once, as [`owned`](Self::owned) gives them.
    ///
    /// # Errors
    ///
    /// The first one of [`iter`](Self::iter).
    #[inline]
    pub fn to_vec(&self) -> Result<Vec<OwnedRecord>, RecordsError> {
        // The count is a claim: what it reserves is no more than what a few thousand records need.
        let likely = self.iter().size_hint().1.unwrap_or(0).min(self.as_bytes().len() / 7);
        let mut records = Vec::with_capacity(likely.min(4096));
        let content = self.shared();
        for record in self {
            records.push(OwnedRecord::of(&record?, self.as_bytes(), &content));
        }
        Ok(records)
    }

    /// The records of a [control batch](super::BatchHeader::is_control) with what they say.
    ///
    /// # Errors
    ///
    /// Those of [`iter`](Self::iter), and of [`Record::control`].
    #[inline]
    pub fn control(&self) -> impl Iterator<Item = Result<(Record<'_>, ControlRecord), RecordsError>> {
        self.iter().enumerate().map(|(index, record)| {
            let record = record?;
            match record.control() {
                Ok(control) => Ok((record, control)),
                Err(error) => {
                    Err(self.batch.fault(Stage::Control, RecordsReason::Control(error)).in_record(index))
                }
            }
        })
    }

    fn shared(&self) -> Bytes {
        match &self.content {
            Content::Plain(bytes) => self.batch.share(bytes),
            Content::Inflated(bytes) => bytes.clone(),
        }
    }
}

impl<'r> IntoIterator for &'r Records<'_> {
    type Item = Result<Record<'r>, RecordsError>;
    type IntoIter = RecordIter<'r>;

    #[inline]
    fn into_iter(self) -> RecordIter<'r> {
        self.iter()
    }
}

/// The records of a batch, one after another; see [`Records::iter`].
#[derive(Clone, Debug)]
pub struct RecordIter<'r> {
    records: &'r Records<'r>,
    rest: &'r [u8],
    base: Base,
    next: usize,
    count: usize,
}

impl<'r> Iterator for RecordIter<'r> {
    type Item = Result<Record<'r>, RecordsError>;

    // A record that is returned through memory costs as much again as reading it.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return self.end();
        }
        if let Some(messages) = &self.records.messages {
            let message = &messages[self.next];
            self.next += 1;
            return Some(Ok(message.record(self.rest)));
        }
        let body = match self.body() {
            Ok(body) => body,
            Err(reason) => return Some(Err(self.stop(reason))),
        };
        self.next += 1;
        match read_record(body, &self.base) {
            Ok(record) => Some(Ok(record)),
            Err(reason) => Some(Err(self.fault(reason, self.next - 1))),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count.saturating_sub(self.next);
        match self.records.messages {
            Some(_) => (left, Some(left)),
            // A count is a claim, and an error may come instead of all that is left.
            None => (0, Some(left.saturating_add(1))),
        }
    }
}

impl std::iter::FusedIterator for RecordIter<'_> {}

impl<'r> RecordIter<'r> {
    /// The next record without its length.
    #[inline(always)]
    fn body(&mut self) -> Result<&'r [u8], RecordsReason> {
        let mut rest = self.rest;
        if rest.is_empty() {
            return Err(self.short());
        }
        let size = length(int(&mut rest, "length of a record")?, "length of a record")?;
        let Some((body, rest)) = rest.split_at_checked(size) else {
            return Err(end("record", size, rest.len()));
        };
        self.rest = rest;
        Ok(body)
    }

    /// All announced records have been read: is anything left?
    #[inline]
    fn end(&mut self) -> Option<Result<Record<'r>, RecordsError>> {
        if self.rest.is_empty() || self.records.messages.is_some() {
            return None;
        }
        let left = self.rest.len();
        self.rest = &[];
        Some(Err(self.records.batch.miscounted(self.next, left)))
    }

    #[cold]
    fn short(&self) -> RecordsReason {
        let announced = self.records.batch.header().records_count;
        RecordsReason::Count { announced, found: self.next, left: 0 }
    }

    #[cold]
    fn stop(&mut self, reason: RecordsReason) -> RecordsError {
        let fault = self.fault(reason, self.next);
        (self.rest, self.count) = (&[], 0);
        fault
    }

    #[cold]
    fn fault(&self, reason: RecordsReason, index: usize) -> RecordsError {
        self.records.batch.fault(Stage::Records, reason).in_record(index)
    }
}
