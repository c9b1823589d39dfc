use bytes::Bytes;

use super::error::{BatchPlace, RecordsError, RecordsReason, Stage};
use super::{Compression, checksum, legacy};

/// The bytes before the records of a batch of magic 2.
pub(super) const HEADER_SIZE: usize = 61;
/// The bytes that the length of a batch does not count: base offset and length itself.
pub(super) const LENGTH_END: usize = 12;
/// The most bytes of a batch: its length is an int32, and readers add what the length does not count.
pub(super) const MAX_SIZE: usize = i32::MAX as usize;
/// Where that begins what the checksum of a batch covers.
const CHECKSUM_END: usize = 21;

/// The record batches of a `records` field, one after another: headers only, nothing is checked or decompressed.
///
/// Ends at the first batch that is not all there: brokers cut the last batch of a Fetch response at the size asked
/// for. What is left then is [`trailing`](Self::trailing). Ends also after an error, if what follows cannot be found.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    source: Source<'a>,
    rest: &'a [u8],
    next: usize,
}

/// The whole input. Of a `Bytes`, owned records can be slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    all: &'a [u8],
    shared: Option<&'a Bytes>,
}

impl<'a> Batches<'a> {
    /// The batches of a field. [`Records::owned`](super::Records::owned) will share its memory.
    #[inline]
    pub fn new(records: &'a Bytes) -> Self {
        Self { source: Source { all: records, shared: Some(records) }, rest: records, next: 0 }
    }

    /// The batches in a slice, such as a mapped file. [`Records::owned`](super::Records::owned) will copy.
    #[inline]
    pub fn from_slice(records: &'a [u8]) -> Self {
        Self { source: Source { all: records, shared: None }, rest: records, next: 0 }
    }

    /// The bytes behind the last whole batch; before the iterator has ended, those that it has not read.
    #[inline]
    pub fn trailing(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start: &[u8; LENGTH_END] = self.rest.first_chunk()?;
        let (base_offset, length) = (i64::from_be_bytes(part(start, 0)), i32::from_be_bytes(part(start, 8)));
        let position = self.source.all.len() - self.rest.len();
        let place = BatchPlace { index: self.next, position, base_offset };
        if let Err(reason) = check_start(self.rest, length) {
            self.rest = &[];
            return Some(Err(RecordsError::new(place, Stage::Split, reason)));
        }
        let (bytes, rest) = self.rest.split_at_checked(LENGTH_END + length as usize)?;
        self.rest = rest;
        self.next += 1;
        Some(RecordBatch::read(bytes, self.source, place))
    }
}

impl std::iter::FusedIterator for Batches<'_> {}

/// What can be seen before all of a batch is there.
#[inline]
fn check_start(bytes: &[u8], length: i32) -> Result<(), RecordsReason> {
    let min = legacy::MIN_LENGTH;
    if length < min || length > i32::MAX - LENGTH_END as i32 {
        return Err(RecordsReason::Length { length, min });
    }
    match bytes.get(16).map(|magic| *magic as i8) {
        Some(magic) if !(0..=2).contains(&magic) => Err(RecordsReason::Magic { magic }),
        _ => Ok(()),
    }
}

/// A record batch, or a message of the formats before it, with its header read.
#[derive(Clone, Debug)]
pub struct RecordBatch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
    source: Source<'a>,
    place: BatchPlace,
}

impl<'a> RecordBatch<'a> {
    fn read(bytes: &'a [u8], source: Source<'a>, place: BatchPlace) -> Result<Self, RecordsError> {
        let header = match bytes.first_chunk() {
            Some(header) if bytes[16] == 2 => BatchHeader::read(header),
            None if bytes[16] == 2 => {
                let (length, min) = ((bytes.len() - LENGTH_END) as i32, (HEADER_SIZE - LENGTH_END) as i32);
                return Err(RecordsError::new(place, Stage::Checksum, RecordsReason::Length { length, min }));
            }
            _ => legacy::read_header(bytes),
        };
        Ok(Self { header, bytes, source, place })
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The bytes of the batch with its header.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The byte of the input at which the batch starts.
    #[inline]
    pub fn position(&self) -> usize {
        self.place.position
    }

    /// The bytes of the batch, in the memory of the input if that is a `Bytes`, else copied.
    #[inline]
    pub fn to_bytes(&self) -> Bytes {
        self.share(self.bytes)
    }

    /// Compares the checksum with the content: of magic 2 from the attributes on, so that base offset and partition
    /// leader epoch may change.
    ///
    /// # Errors
    ///
    /// [`RecordsReason::Checksum`].
    #[inline]
    pub fn verify(&self) -> Result<(), RecordsError> {
        let (stored, computed) = (self.header.crc, self.checksum());
        if stored == computed {
            return Ok(());
        }
        Err(self.fault(Stage::Checksum, RecordsReason::Checksum { stored, computed }))
    }

    #[inline]
    fn checksum(&self) -> u32 {
        match self.header.magic {
            2 => checksum_of(self.bytes),
            _ => legacy::checksum(self.bytes),
        }
    }

    /// What follows the header of magic 2: records, or the compressed stream of them.
    #[inline]
    pub(super) fn content(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }

    pub(super) fn place(&self) -> BatchPlace {
        self.place
    }

    #[cold]
    pub(super) fn fault(&self, stage: Stage, reason: RecordsReason) -> RecordsError {
        RecordsError::new(self.place, stage, reason)
    }

    /// The error of what is done with magic 2 only.
    #[cold]
    pub(super) fn old_format(&self) -> RecordsError {
        self.fault(Stage::Header, RecordsReason::OldFormat { magic: self.header.magic })
    }

    /// A part of the batch as `Bytes`.
    #[inline]
    pub(super) fn share(&self, part: &[u8]) -> Bytes {
        match self.source.shared {
            Some(all) => all.slice_ref(part),
            None => Bytes::copy_from_slice(part),
        }
    }
}

/// The header of a record batch.
///
/// The formats before magic 2 have messages instead of batches, and only some of these fields; the others have the
/// value that stands for "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset from which those of the records are counted. In the old formats the offset of the message: if it is
    /// compressed, mostly that of its last record.
    pub base_offset: i64,
    /// The bytes of the batch that follow this field.
    pub length: i32,
    /// The epoch of the leader that appended the batch; -1 before that, and in the old formats.
    pub partition_leader_epoch: i32,
    /// The format: 2; 0 or 1 for messages in the old formats.
    pub magic: i8,
    /// The checksum: CRC-32C of all that follows it, in the old formats CRC-32.
    pub crc: u32,
    /// Compression, timestamp type and what kind of batch it is.
    pub attributes: Attributes,
    /// What has to be added to the base offset for the last offset; may be more than that of the last record that is
    /// left after compaction. 0 in the old formats.
    pub last_offset_delta: i32,
    /// The timestamp from which those of the records are counted, in milliseconds since 1970; the delete horizon if
    /// the attributes say so; -1 if none. In the old formats the timestamp of the message.
    pub base_timestamp: i64,
    /// The largest timestamp of the records; the time of the append if the attributes say so; -1 if none.
    pub max_timestamp: i64,
    /// The id of an idempotent or transactional producer; -1 if none.
    pub producer_id: i64,
    /// The epoch of that producer; -1 if none.
    pub producer_epoch: i16,
    /// The sequence of the first record; -1 if none.
    pub base_sequence: i32,
    /// The number of records; in the old formats -1, as only the records tell.
    pub records_count: i32,
}

impl BatchHeader {
    /// The offset of the last record, also of one that compaction has removed.
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(self.last_offset_delta.into())
    }

    /// The offset to fetch next; `None` if the header is damaged: the offset overflows, or is not behind the base offset.
    #[inline]
    pub fn next_offset(&self) -> Option<i64> {
        let count = i64::from(self.last_offset_delta) + 1;
        if count > 0 { self.base_offset.checked_add(count) } else { None }
    }

    /// The sequence of the last record; -1 if there are none. Sequences wrap from 2147483647 to 0.
    #[inline]
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence {
            -1 => -1,
            base => sequence_after(base, self.last_offset_delta),
        }
    }

    /// What the timestamps of the records are; `None` in magic 0, which has no timestamps.
    #[inline]
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        match self.magic {
            0 => None,
            _ if self.attributes.0 & Attributes::LOG_APPEND_TIME == 0 => Some(TimestampType::CreateTime),
            _ => Some(TimestampType::LogAppendTime),
        }
    }

    /// The timestamp of all records, if it is that of the append.
    #[inline]
    pub(super) fn append_timestamp(&self) -> Option<i64> {
        (self.timestamp_type() == Some(TimestampType::LogAppendTime)).then_some(self.max_timestamp)
    }

    /// Whether the records belong to a transaction.
    #[inline]
    pub fn is_transactional(&self) -> bool {
        self.has(Attributes::TRANSACTIONAL)
    }

    /// Whether the records are [control records](crate::embedded::ControlRecord), which consumers do not show.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.has(Attributes::CONTROL)
    }

    /// The time in milliseconds from which on the cleaner may remove tombstones and markers of this batch, if it has
    /// been set.
    #[inline]
    pub fn delete_horizon(&self) -> Option<i64> {
        self.has(Attributes::DELETE_HORIZON).then_some(self.base_timestamp)
    }

    /// The old formats have no flags.
    #[inline]
    fn has(&self, flag: i16) -> bool {
        self.magic == 2 && self.attributes.0 & flag != 0
    }

    #[inline]
    fn read(bytes: &[u8; HEADER_SIZE]) -> Self {
        Self {
            base_offset: i64::from_be_bytes(part(bytes, 0)),
            length: i32::from_be_bytes(part(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(part(bytes, 12)),
            magic: bytes[16] as i8,
            crc: u32::from_be_bytes(part(bytes, 17)),
            attributes: Attributes(i16::from_be_bytes(part(bytes, 21))),
            last_offset_delta: i32::from_be_bytes(part(bytes, 23)),
            base_timestamp: i64::from_be_bytes(part(bytes, 27)),
            max_timestamp: i64::from_be_bytes(part(bytes, 35)),
            producer_id: i64::from_be_bytes(part(bytes, 43)),
            producer_epoch: i16::from_be_bytes(part(bytes, 51)),
            base_sequence: i32::from_be_bytes(part(bytes, 53)),
            records_count: i32::from_be_bytes(part(bytes, 57)),
        }
    }

    /// Length and checksum are filled in by [`seal`].
    pub(super) fn write(&self, out: &mut [u8; HEADER_SIZE]) {
        out[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        out[16] = 2;
        out[21..23].copy_from_slice(&self.attributes.0.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[57..61].copy_from_slice(&self.records_count.to_be_bytes());
    }
}

/// Writes length and checksum of a batch that is complete otherwise, and returns the checksum. The length fits, see
/// [`MAX_SIZE`].
pub(super) fn seal(batch: &mut [u8]) -> u32 {
    let length = (batch.len() - LENGTH_END) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = checksum_of(batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    crc
}

/// The checksum of a batch of magic 2.
#[inline]
pub(super) fn checksum_of(batch: &[u8]) -> u32 {
    checksum::crc_32c(&batch[CHECKSUM_END..])
}

/// `N` bytes from `at` on.
#[inline]
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// The sequence `delta` after another one, which wraps from 2147483647 to 0.
#[inline]
pub(super) fn sequence_after(base: i32, delta: i32) -> i32 {
    let sum = base.wrapping_add(delta);
    // This also gives what Kafka sees if the delta is negative, as it is in damaged batches only.
    if base > i32::MAX.wrapping_sub(delta) { sum.wrapping_add(i32::MIN) } else { sum }
}

/// The attributes of a batch.
///
/// | bits | meaning |
/// |---|---|
/// | 0-2 | compression |
/// | 3 | log append time |
/// | 4 | transactional |
/// | 5 | control batch |
/// | 6 | delete horizon |
///
/// The old formats have an int8 with the first three bits, magic 1 the fourth as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Timestamps are those of the append.
    pub const LOG_APPEND_TIME: i16 = 8;
    /// The records belong to a transaction.
    pub const TRANSACTIONAL: i16 = 16;
    /// The records are control records.
    pub const CONTROL: i16 = 32;
    /// The base timestamp is a delete horizon.
    pub const DELETE_HORIZON: i16 = 64;

    /// The number of the codec, 0 for none.
    #[inline]
    pub fn compression_id(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// The codec, if there is one of that number.
    #[inline]
    pub fn compression(self) -> Option<Compression> {
        Compression::from_id(self.compression_id())
    }

    pub(super) fn with_compression(self, compression: Compression) -> Self {
        Self(self.0 & !7 | i16::from(compression.id()))
    }
}

/// What the timestamps of records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The time that the producer gave.
    #[default]
    CreateTime,
    /// The time at which the broker appended the batch.
    LogAppendTime,
}
