use bytes::Bytes;

use super::batch::sequence_after;
use super::build_error::BuildError;
use super::compose::{check_codec, complete, put_compressed};
use super::content::Content;
use super::{Attributes, BatchHeader, Compression, Header, Record};
use crate::embedded::ControlRecord;

/// Builds record batches of magic 2: takes records as they come, compresses them, and writes header and checksum last.
///
/// After [`finish`](Self::finish) a builder begins the next batch with the same settings, its sequence behind the last
/// one. It keeps its buffers.
///
/// ```
/// use kafka_protocol::records::{BatchBuilder, Batches, Header, NewRecord};
///
/// let mut builder = BatchBuilder::new().producer(4711, 0, 0);
/// for value in [&b"a"[..], b"b"] {
///     builder.append(&NewRecord {
///         timestamp: 1_700_000_000_000,
///         value: Some(value),
///         headers: &[Header { key: "trace-id", value: Some(b"7") }],
///         ..Default::default()
///     })?;
/// }
/// let batch = builder.finish()?;
///
/// let read = Batches::new(&batch).next().unwrap()?;
/// assert_eq!((read.header().records_count, read.header().last_sequence()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    /// The header as it was set.
    settings: BatchHeader,
    fixed: Fixed,
    progress: Progress,
    level: Option<i32>,
    /// Room for the header, then the records.
    content: Content,
}

/// What is not found out from the records.
#[derive(Clone, Copy, Debug, Default)]
struct Fixed {
    base_offset: bool,
    base_timestamp: bool,
    max_timestamp: bool,
    /// The last offset too, whatever the records are. A batch without records is written then.
    all: bool,
}

/// What the records so far lead to.
#[derive(Clone, Debug)]
struct Progress {
    base_offset: i64,
    base_timestamp: i64,
    max_timestamp: i64,
    /// The offset delta of the next record, unless it has an offset.
    next_delta: i64,
    count: i32,
}

impl Progress {
    fn starting_with(settings: &BatchHeader) -> Self {
        let BatchHeader { base_offset, base_timestamp, max_timestamp, .. } = *settings;
        Self { base_offset, base_timestamp, max_timestamp, next_delta: 0, count: 0 }
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Its offset; `None` for the one after the last record, from the base offset on.
    pub offset: Option<i64>,
    /// Its timestamp in milliseconds since 1970; -1, the default, for none.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` deletes the key in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: &'a [Header<'a>],
}

impl Default for NewRecord<'_> {
    fn default() -> Self {
        Self { offset: None, timestamp: -1, key: None, value: None, headers: &[] }
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// A builder of batches as producers send them: uncompressed, base offset 0, no producer id.
    pub fn new() -> Self {
        Self::starting_with(BatchHeader {
            base_offset: 0,
            length: 0,
            partition_leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: -1,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: 0,
        })
    }

    /// A builder of one batch with this header, as when a batch is copied or records are taken out of it.
    ///
    /// Offsets, timestamps and all else are taken as they are; length, checksum and count are computed. The batch is
    /// written even if it has no records.
    pub fn from_header(header: &BatchHeader) -> Self {
        let fixed = Fixed { base_offset: true, base_timestamp: true, max_timestamp: true, all: true };
        Self { fixed, ..Self::starting_with(BatchHeader { magic: 2, ..*header }) }
    }

    fn starting_with(settings: BatchHeader) -> Self {
        let progress = Progress::starting_with(&settings);
        Self { settings, fixed: Fixed::default(), progress, level: None, content: Content::new() }
    }

    /// Compresses the records.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.attributes = self.settings.attributes.with_compression(compression);
        self
    }

    /// The level of compression: 1 to 9 for gzip (6 by default), -131072 to 22 for Zstandard (3 by default). The other
    /// codecs have none and ignore it.
    pub fn compression_level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// The offset of the first record. Producers leave it at 0. Records that have been appended move along.
    pub fn base_offset(mut self, base_offset: i64) -> Self {
        self.settings.base_offset = base_offset;
        self.progress.base_offset = base_offset;
        self.fixed.base_offset = true;
        self
    }

    /// The epoch of the partition's leader, which writes it when it appends the batch (KIP-101).
    pub fn partition_leader_epoch(mut self, epoch: i32) -> Self {
        self.settings.partition_leader_epoch = epoch;
        self
    }

    /// The id and epoch of an idempotent producer, and the sequence of the first record (KIP-98). The next batch goes on
    /// with the sequence behind the last one.
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.settings.producer_id = producer_id;
        self.settings.producer_epoch = producer_epoch;
        self.settings.base_sequence = base_sequence;
        self
    }

    /// Marks the records as part of a transaction; needs a [`producer`](Self::producer) (KIP-98).
    pub fn transactional(self) -> Self {
        self.flagged(Attributes::TRANSACTIONAL)
    }

    /// Marks the records as control records.
    pub fn control(self) -> Self {
        self.flagged(Attributes::CONTROL)
    }

    /// Gives all records the time of the append, in milliseconds (KIP-32). Their own timestamps stay in the batch.
    pub fn log_append_time(mut self, timestamp: i64) -> Self {
        self.settings.max_timestamp = timestamp;
        self.fixed.max_timestamp = true;
        self.flagged(Attributes::LOG_APPEND_TIME)
    }

    /// Sets the time in milliseconds from which on the cleaner may remove tombstones and markers (KIP-534). Before the
    /// first record, as their timestamps are counted from it; [`finish`](Self::finish) fails otherwise.
    pub fn delete_horizon(mut self, timestamp: i64) -> Self {
        self.settings.base_timestamp = timestamp;
        if self.is_empty() {
            self.progress.base_timestamp = timestamp;
        }
        self.fixed.base_timestamp = true;
        self.flagged(Attributes::DELETE_HORIZON)
    }

    fn flagged(mut self, flag: i16) -> Self {
        self.settings.attributes.0 |= flag;
        self
    }

    /// Begins the next batch.
    fn restart(&mut self) {
        if !self.fixed.all && self.settings.base_sequence >= 0 {
            let count = self.progress.next_delta as i32;
            self.settings.base_sequence = sequence_after(self.settings.base_sequence, count);
        }
        self.progress = Progress::starting_with(&self.settings);
        self.content.clear();
    }

    /// Appends a record.
    ///
    /// # Errors
    ///
    /// An offset that does not grow, or is more than 2^31 - 1 above the base offset; a timestamp below -1; more bytes
    /// than a batch can have. Except the last, none of these with [`from_header`](Self::from_header), as long as
    /// offsets fit into the batch. The builder is as before then.
    // Always: see `Content::append`.
    #[inline(always)]
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<(), BuildError> {
        let headers = record.headers.iter().map(|header| (header.key, header.value));
        self.append_parts(record.offset, record.timestamp, 0, record.key, record.value, headers)
    }

    /// Appends a record that was read from a batch, with its offset and the timestamp of its producer.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    #[inline]
    pub fn append_record(&mut self, record: &Record<'_>) -> Result<(), BuildError> {
        let headers = record.headers.iter().map(|header| (header.key, header.value));
        let Record { offset, create_timestamp, attributes, key, value, .. } = *record;
        self.append_parts(Some(offset), create_timestamp, attributes, key, value, headers)
    }

    /// Appends a control record; needs [`control`](Self::control).
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append), and those of encoding the record.
    pub fn append_control(&mut self, timestamp: i64, record: &ControlRecord) -> Result<(), BuildError> {
        if !self.settings.is_control() {
            return Err(BuildError::NotControl);
        }
        let (key, value) = (record.encode_key()?, record.encode_value()?);
        self.append(&NewRecord { timestamp, key: Some(&key), value: value.as_deref(), ..Default::default() })
    }

    /// The records appended since the start of the batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.progress.count as usize
    }

    /// Whether no record has been appended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.progress.count == 0
    }

    /// The bytes of the batch so far, before compression.
    #[inline]
    pub fn size(&self) -> usize {
        self.content.len()
    }

    /// The bytes that a record would add at most, before compression: what a producer compares with the room left in a
    /// batch.
    #[inline]
    pub fn size_of(record: &NewRecord<'_>) -> usize {
        let bytes = |bytes: Option<&[u8]>| 5 + bytes.map_or(0, <[u8]>::len);
        let headers = record.headers.iter().map(|header| 5 + header.key.len() + bytes(header.value));
        // Length, attributes, deltas, number of headers.
        5 + 1 + 10 + 5 + 5 + bytes(record.key) + bytes(record.value) + headers.sum::<usize>()
    }

    // Always: see `Content::append`.
    #[inline(always)]
    fn append_parts<'h>(
        &mut self,
        offset: Option<i64>,
        timestamp: i64,
        attributes: i8,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Result<(), BuildError> {
        if self.progress.count == 0 {
            self.start(offset, timestamp);
        }
        let Progress { base_offset, base_timestamp, next_delta, .. } = self.progress;
        let offset_delta = match offset {
            Some(offset) => offset.checked_sub(base_offset).unwrap_or(i64::MAX),
            None => next_delta,
        };
        if timestamp < -1 || offset_delta < next_delta || offset_delta > i32::MAX.into() {
            self.check(offset, offset_delta, timestamp)?;
        }
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        self.content
            .append(attributes, timestamp_delta, offset_delta, key, value, headers)
            .ok_or(BuildError::TooLarge)?;
        self.progress.max_timestamp = self.progress.max_timestamp.max(timestamp);
        self.progress.next_delta = offset_delta + 1;
        self.progress.count += 1;
        Ok(())
    }

    /// Lets the first record say where the batch starts.
    #[cold]
    fn start(&mut self, offset: Option<i64>, timestamp: i64) {
        if !self.fixed.base_offset {
            self.progress.base_offset = offset.unwrap_or(0);
        }
        if !self.fixed.base_timestamp {
            self.progress.base_timestamp = timestamp;
        }
    }

    /// Whether a record may have an unusual offset or timestamp.
    #[cold]
    fn check(&self, offset: Option<i64>, offset_delta: i64, timestamp: i64) -> Result<(), BuildError> {
        let Progress { base_offset, next_delta, .. } = self.progress;
        if timestamp < -1 && !self.fixed.all {
            return Err(BuildError::Timestamp { timestamp });
        }
        let Some(offset) = offset else {
            return if i32::try_from(offset_delta).is_ok() { Ok(()) } else { Err(BuildError::TooLarge) };
        };
        if i32::try_from(offset_delta).is_err() {
            return Err(BuildError::OffsetDelta { offset, base_offset });
        }
        if offset_delta < next_delta && !self.fixed.all {
            return Err(BuildError::OffsetOrder {
                offset,
                last_offset: base_offset.wrapping_add(next_delta - 1),
            });
        }
        Ok(())
    }

    /// What the header says, except what is found out from its bytes.
    fn header(&self) -> BatchHeader {
        let (settings, fixed) = (self.settings, self.fixed);
        let Progress { base_offset, base_timestamp, max_timestamp, next_delta, count } = self.progress;
        BatchHeader {
            base_offset,
            base_timestamp,
            max_timestamp: if fixed.max_timestamp { settings.max_timestamp } else { max_timestamp },
            last_offset_delta: if fixed.all { settings.last_offset_delta } else { (next_delta - 1) as i32 },
            records_count: count,
            ..settings
        }
    }

    /// Finishes the batch and begins the next one. Without records there are no bytes, unless the builder is
    /// [`from_header`](Self::from_header).
    ///
    /// # Errors
    ///
    /// The codec is not enabled, does not have the level asked for or fails; a producer id without epoch or sequence,
    /// or the other way round; transactional without a producer id; a late delete horizon. The records stay then, so
    /// that the settings can be mended.
    pub fn finish(&mut self) -> Result<Bytes, BuildError> {
        let mut batch = Vec::new();
        self.finish_into(&mut batch)?;
        Ok(batch.into())
    }

    /// The same, behind what is in a buffer, such as other batches of a partition. Returns the bytes appended.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish); the buffer is as before then.
    pub fn finish_into(&mut self, out: &mut Vec<u8>) -> Result<usize, BuildError> {
        let start = out.len();
        if self.is_absent()? {
            return Ok(0);
        }
        match self.codec()? {
            // The records are where they have to be, but in the other buffer.
            (Compression::None, _) if start == 0 => self.content.swap(out),
            (Compression::None, _) => out.extend_from_slice(self.content.as_slice()),
            (compression, level) => put_compressed(compression, level, self.content.records(), out)?,
        }
        complete(&self.header(), &mut out[start..]);
        self.restart();
        Ok(out.len() - start)
    }

    /// Whether there is nothing to write.
    fn is_absent(&self) -> Result<bool, BuildError> {
        if self.is_empty() && !self.fixed.all {
            return Ok(true);
        }
        if self.fixed.base_timestamp && self.progress.base_timestamp != self.settings.base_timestamp {
            return Err(BuildError::DeleteHorizon);
        }
        let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = self.settings;
        // Control batches have no sequence.
        let has_sequence = base_sequence >= 0 || self.settings.is_control();
        let is_idempotent = producer_id >= 0 && producer_epoch >= 0 && has_sequence;
        let is_plain = producer_id < 0 && producer_epoch < 0 && base_sequence < 0;
        if !self.fixed.all && !is_idempotent && (!is_plain || self.settings.is_transactional()) {
            return Err(BuildError::Producer { producer_id, producer_epoch, base_sequence });
        }
        Ok(false)
    }

    fn codec(&self) -> Result<(Compression, i32), BuildError> {
        let id = self.settings.attributes.compression_id();
        let compression = Compression::from_id(id).ok_or(BuildError::UnknownCompression { id })?;
        check_codec(compression, self.level).map(|level| (compression, level))
    }
}
