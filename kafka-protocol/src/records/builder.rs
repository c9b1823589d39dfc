use std::{error, fmt, mem};

use bytes::Bytes;

use super::batch::{HEADER_SIZE, MAX_SIZE, seal, sequence_after};
use super::compression::compress;
use super::varint::{len_i32, len_i64, put_i32, put_i64};
use super::{Attributes, BatchHeader, Compression, Header, Record};
use crate::embedded::ControlRecord;
use crate::protocol::EncodeError;

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
    /// What the header will say; count and last offset grow with the records.
    header: BatchHeader,
    /// The header as it was set: what the next batch starts from.
    settings: BatchHeader,
    fixed: Fixed,
    /// The offset delta of the record appended last, -1 before the first one.
    last_delta: i32,
    /// Whether a delete horizon was set when there were records already.
    is_late: bool,
    level: Option<i32>,
    /// Room for the header, then the records.
    content: Vec<u8>,
}

/// What is not found out from the records.
#[derive(Clone, Copy, Debug, Default)]
struct Fixed {
    base_offset: bool,
    base_timestamp: bool,
    max_timestamp: bool,
    last_offset: bool,
    /// A batch without records is written too.
    empty: bool,
}

/// Where a record goes: what it leads to in the header.
struct Place {
    base_offset: i64,
    base_timestamp: i64,
    max_timestamp: i64,
    offset_delta: i32,
    last_offset_delta: i32,
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
        let fixed = Fixed {
            base_offset: true,
            base_timestamp: true,
            max_timestamp: true,
            last_offset: true,
            empty: true,
        };
        Self { fixed, ..Self::starting_with(BatchHeader { magic: 2, records_count: 0, ..*header }) }
    }

    fn starting_with(settings: BatchHeader) -> Self {
        let content = vec![0; HEADER_SIZE];
        Self {
            header: settings,
            settings,
            fixed: Fixed::default(),
            last_delta: -1,
            is_late: false,
            level: None,
            content,
        }
    }

    /// Compresses the records.
    pub fn compression(self, compression: Compression) -> Self {
        self.set(|header| header.attributes = header.attributes.with_compression(compression))
    }

    /// The level of compression: 1 to 9 for gzip (6 by default), -131072 to 22 for Zstandard (3 by default). The other
    /// codecs have none and ignore it.
    pub fn compression_level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// The offset of the first record. Producers leave it at 0. Records that have been appended move along.
    pub fn base_offset(mut self, base_offset: i64) -> Self {
        self.fixed.base_offset = true;
        self.set(|header| header.base_offset = base_offset)
    }

    /// The epoch of the partition's leader, which writes it when it appends the batch (KIP-101).
    pub fn partition_leader_epoch(self, epoch: i32) -> Self {
        self.set(|header| header.partition_leader_epoch = epoch)
    }

    /// The id and epoch of an idempotent producer, and the sequence of the first record (KIP-98). The next batch goes on
    /// with the sequence behind the last one.
    pub fn producer(self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.set(|header| {
            (header.producer_id, header.producer_epoch) = (producer_id, producer_epoch);
            header.base_sequence = base_sequence;
        })
    }

    /// Marks the records as part of a transaction; needs a [`producer`](Self::producer) (KIP-98).
    pub fn transactional(self) -> Self {
        self.set(|header| header.attributes.0 |= Attributes::TRANSACTIONAL)
    }

    /// Marks the records as control records.
    pub fn control(self) -> Self {
        self.set(|header| header.attributes.0 |= Attributes::CONTROL)
    }

    /// Gives all records the time of the append, in milliseconds (KIP-32). Their own timestamps stay in the batch.
    pub fn log_append_time(mut self, timestamp: i64) -> Self {
        self.fixed.max_timestamp = true;
        self.set(|header| {
            header.max_timestamp = timestamp;
            header.attributes.0 |= Attributes::LOG_APPEND_TIME;
        })
    }

    /// Sets the time in milliseconds from which on the cleaner may remove tombstones and markers (KIP-534). Before the
    /// first record, as their timestamps are counted from it; [`finish`](Self::finish) fails otherwise.
    pub fn delete_horizon(mut self, timestamp: i64) -> Self {
        self.fixed.base_timestamp = true;
        self.is_late |= !self.is_empty();
        self.set(|header| {
            header.base_timestamp = timestamp;
            header.attributes.0 |= Attributes::DELETE_HORIZON;
        })
    }

    /// For the batch that has been begun, and for those that follow.
    fn set(mut self, set: impl Fn(&mut BatchHeader)) -> Self {
        set(&mut self.settings);
        set(&mut self.header);
        self
    }

    /// Begins the next batch.
    fn restart(&mut self) {
        if !self.fixed.empty && self.header.base_sequence >= 0 {
            let count = self.header.last_offset_delta.wrapping_add(1);
            self.settings.base_sequence = sequence_after(self.header.base_sequence, count);
        }
        self.is_late = false;
        self.last_delta = -1;
        self.header = self.settings;
        self.content.clear();
        self.content.resize(HEADER_SIZE, 0);
    }

    /// Appends a record.
    ///
    /// # Errors
    ///
    /// An offset that does not grow, or is more than 2^31 - 1 above the base offset; a timestamp below -1; more bytes
    /// than a batch can have. Except the last, none of these with [`from_header`](Self::from_header), as long as
    /// offsets fit into the batch. The builder is as before then.
    #[inline]
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
        if !self.header.is_control() {
            return Err(BuildError::NotControl);
        }
        let (key, value) = (record.encode_key()?, record.encode_value()?);
        self.append(&NewRecord { timestamp, key: Some(&key), value: value.as_deref(), ..Default::default() })
    }

    /// The records appended since the start of the batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.header.records_count as usize
    }

    /// Whether no record has been appended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.header.records_count == 0
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

    #[inline]
    fn append_parts<'h>(
        &mut self,
        offset: Option<i64>,
        timestamp: i64,
        attributes: i8,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Result<(), BuildError> {
        let place = self.place(offset, timestamp)?;
        let Place { base_timestamp, offset_delta, .. } = place;
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        if headers.len() > 0
            || !put_small(&mut self.content, attributes, timestamp_delta, offset_delta, key, value)
        {
            self.put_record(attributes, timestamp_delta, offset_delta, key, value, headers)?;
        }
        self.header.base_offset = place.base_offset;
        self.header.base_timestamp = base_timestamp;
        self.header.max_timestamp = place.max_timestamp;
        self.header.last_offset_delta = place.last_offset_delta;
        self.last_delta = offset_delta;
        self.header.records_count += 1;
        Ok(())
    }

    fn put_record<'h>(
        &mut self,
        attributes: i8,
        timestamp_delta: i64,
        offset_delta: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Result<(), BuildError> {
        let headers_size: usize =
            headers.clone().map(|(key, value)| size(Some(key.as_bytes())) + size(value)).sum();
        let length = 1
            + len_i64(timestamp_delta)
            + len_i32(offset_delta)
            + size(key)
            + size(value)
            + len_i32(headers.len() as i32)
            + headers_size;
        if self.content.len() + length + 5 > i32::MAX as usize {
            return Err(BuildError::TooLarge);
        }

        let out = &mut self.content;
        out.reserve(length + 5);
        put_i32(out, length as i32);
        out.push(attributes as u8);
        put_i64(out, timestamp_delta);
        put_i32(out, offset_delta);
        put_bytes(out, key);
        put_bytes(out, value);
        put_i32(out, headers.len() as i32);
        for (key, value) in headers {
            put_bytes(out, Some(key.as_bytes()));
            put_bytes(out, value);
        }
        Ok(())
    }

    /// Where another record goes, and what that makes of the header.
    #[inline]
    fn place(&self, offset: Option<i64>, timestamp: i64) -> Result<Place, BuildError> {
        let (header, fixed) = (&self.header, self.fixed);
        let BatchHeader { mut base_offset, mut base_timestamp, mut last_offset_delta, .. } = *header;
        if timestamp < -1 && !fixed.empty {
            return Err(BuildError::Timestamp { timestamp });
        }
        if header.records_count == 0 {
            if !fixed.base_offset {
                base_offset = offset.unwrap_or(0);
            }
            if !fixed.base_timestamp {
                base_timestamp = timestamp;
            }
        }
        let offset_delta = match offset {
            Some(offset) => offset
                .checked_sub(base_offset)
                .and_then(|delta| i32::try_from(delta).ok())
                .ok_or(BuildError::OffsetDelta { offset, base_offset })?,
            None => self.last_delta.checked_add(1).ok_or(BuildError::TooLarge)?,
        };
        if !fixed.last_offset {
            if offset_delta <= last_offset_delta {
                let [offset, last_offset] =
                    [offset_delta, last_offset_delta].map(|delta| base_offset.wrapping_add(delta.into()));
                return Err(BuildError::OffsetOrder { offset, last_offset });
            }
            last_offset_delta = offset_delta;
        }
        let max_timestamp = header.max_timestamp;
        let max_timestamp = if fixed.max_timestamp { max_timestamp } else { max_timestamp.max(timestamp) };
        Ok(Place { base_offset, base_timestamp, max_timestamp, offset_delta, last_offset_delta })
    }

    /// Finishes the batch and begins the next one. Without records there are no bytes, unless the builder is
    /// [`from_header`](Self::from_header).
    ///
    /// # Errors
    ///
    /// The codec is not enabled, does not have the level asked for or fails; a producer id without epoch or sequence,
    /// or the other way round; transactional without a producer id; a late delete horizon. The records stay then, so that the settings can
    /// be mended.
    pub fn finish(&mut self) -> Result<Bytes, BuildError> {
        if self.is_absent()? {
            return Ok(Bytes::new());
        }
        let batch = match self.codec()? {
            // The records are where they have to be.
            (Compression::None, _) => {
                // The next batch will be about as large.
                let next = Vec::with_capacity(self.content.capacity());
                let mut batch = mem::replace(&mut self.content, next);
                self.complete(&mut batch);
                batch
            }
            (compression, level) => {
                let mut batch = vec![0; HEADER_SIZE];
                self.compress_into(compression, level, &mut batch)?;
                self.complete(&mut batch);
                batch
            }
        };
        self.restart();
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
            (Compression::None, _) if start == 0 => mem::swap(out, &mut self.content),
            (Compression::None, _) => out.extend_from_slice(&self.content),
            (compression, level) => {
                out.resize(start + HEADER_SIZE, 0);
                if let Err(error) = self.compress_into(compression, level, out) {
                    out.truncate(start);
                    return Err(error);
                }
            }
        }
        self.complete(&mut out[start..]);
        self.restart();
        Ok(out.len() - start)
    }

    /// Whether there is nothing to write.
    fn is_absent(&self) -> Result<bool, BuildError> {
        if self.is_empty() && !self.fixed.empty {
            return Ok(true);
        }
        if self.is_late {
            return Err(BuildError::DeleteHorizon);
        }
        let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = self.header;
        // Control batches have no sequence.
        let has_sequence = base_sequence >= 0 || self.header.is_control();
        let is_idempotent = producer_id >= 0 && producer_epoch >= 0 && has_sequence;
        let is_plain = producer_id < 0 && producer_epoch < 0 && base_sequence < 0;
        if !self.fixed.empty && !is_idempotent && (!is_plain || self.header.is_transactional()) {
            return Err(BuildError::Producer { producer_id, producer_epoch, base_sequence });
        }
        Ok(false)
    }

    fn codec(&self) -> Result<(Compression, i32), BuildError> {
        let id = self.header.attributes.compression_id();
        let compression = Compression::from_id(id).ok_or(BuildError::UnknownCompression { id })?;
        check_codec(compression, self.level).map(|level| (compression, level))
    }

    fn compress_into(
        &self,
        compression: Compression,
        level: i32,
        out: &mut Vec<u8>,
    ) -> Result<(), BuildError> {
        let start = out.len() - HEADER_SIZE;
        compress(compression, level, &self.content[HEADER_SIZE..], out)
            .map_err(|message| BuildError::Compress { compression, message })?;
        if out.len() - start > MAX_SIZE { Err(BuildError::TooLarge) } else { Ok(()) }
    }

    fn complete(&self, batch: &mut [u8]) {
        if let Some(header) = batch.first_chunk_mut() {
            self.header.write(header);
        }
        seal(batch);
    }
}

/// The level to use, if the codec is enabled and has it.
pub(super) fn check_codec(compression: Compression, level: Option<i32>) -> Result<i32, BuildError> {
    if !compression.is_enabled() {
        return Err(BuildError::CompressionDisabled { compression });
    }
    let Some((levels, default)) = compression.levels() else { return Ok(0) };
    let level = level.unwrap_or(default);
    if levels.contains(&level) { Ok(level) } else { Err(BuildError::Level { compression, level }) }
}

/// Appends a record without headers whose numbers all fit into two bytes, which is the usual one. Tells whether it is
/// such a record.
#[inline]
fn put_small(
    out: &mut Vec<u8>,
    attributes: i8,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> bool {
    // Whether the batch has room is not looked at.
    const MOST: usize = i32::MAX as usize - (1 << 16);
    let [timestamp_delta, offset_delta] =
        [timestamp_delta, offset_delta.into()].map(|delta: i64| (delta << 1 ^ delta >> 63) as u64);
    let [key_size, value_size] = [key, value].map(|bytes| bytes.map_or(1, |bytes| 2 * bytes.len() as u64));
    let [key, value] = [key, value].map(Option::unwrap_or_default);
    // The length of the record has to fit too.
    if (timestamp_delta | offset_delta) >> 14 != 0 || key_size + value_size > 0x3f00 || out.len() > MOST {
        return false;
    }
    let [timestamp_delta, offset_delta, key_size, value_size] =
        [timestamp_delta, offset_delta, key_size, value_size].map(Small::of);
    let length =
        2 + timestamp_delta.len + offset_delta.len + key_size.len + value_size.len + key.len() + value.len();
    let size = Small::of(2 * length as u64);
    // In a register: what is written in small pieces cannot be read as a whole at once.
    let deltas = timestamp_delta.bits | offset_delta.bits << (8 * timestamp_delta.len);
    let head = size.bits | (u64::from(attributes as u8) | deltas << 8) << (8 * size.len);
    let head_len = size.len + 1 + timestamp_delta.len + offset_delta.len;

    out.reserve(length + 16);
    append(out, head.to_le_bytes(), head_len);
    append(out, (key_size.bits as u16).to_le_bytes(), key_size.len);
    append_short(out, key);
    append(out, (value_size.bits as u16).to_le_bytes(), value_size.len);
    out.extend_from_slice(value);
    out.push(0);
    true
}

/// A varint of at most two bytes.
#[derive(Clone, Copy)]
struct Small {
    /// The bytes, the first one lowest.
    bits: u64,
    len: usize,
}

impl Small {
    /// Of a number of up to 14 bits.
    #[inline]
    fn of(zigzag: u64) -> Self {
        let high = zigzag & 0x3f80;
        let is_long = high != 0;
        Self { bits: zigzag + high + (u64::from(is_long) << 7), len: 1 + usize::from(is_long) }
    }
}

/// Appends bytes, of which there are mostly few.
#[inline]
fn append_short(out: &mut Vec<u8>, bytes: &[u8]) {
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        // Two parts that overlap.
        (Some(first), Some(last)) if bytes.len() <= 16 => {
            append(out, *first, bytes.len() - 8);
            out.extend_from_slice(last);
        }
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends so many of the bytes.
#[inline]
fn append<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N], len: usize) {
    let start = out.len();
    // With a size that is known it takes one instruction.
    out.extend_from_slice(&bytes);
    out.truncate(start + len);
}

#[inline]
fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => put_i32(out, -1),
    }
}

/// The bytes that [`put_bytes`] writes. A length beyond int32 makes the record too large in any case.
#[inline]
fn size(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => len_i32(bytes.len() as i32) + bytes.len(),
        None => 1,
    }
}

/// Why a batch cannot be written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// An offset that is not above that of the record before.
    OffsetOrder {
        /// The offset.
        offset: i64,
        /// That of the record before, or one below the base offset.
        last_offset: i64,
    },
    /// An offset whose distance from the base offset is no int32.
    OffsetDelta {
        /// The offset.
        offset: i64,
        /// The base offset.
        base_offset: i64,
    },
    /// A timestamp below -1.
    Timestamp {
        /// The timestamp in milliseconds.
        timestamp: i64,
    },
    /// More bytes or records than a batch can have.
    TooLarge,
    /// Producer id, epoch and sequence do not go together, or are missing from a transactional batch.
    Producer {
        /// The producer id.
        producer_id: i64,
        /// The producer epoch.
        producer_epoch: i16,
        /// The base sequence.
        base_sequence: i32,
    },
    /// A control record for a batch that is not one of control records.
    NotControl,
    /// A delete horizon that was set after the first record.
    DeleteHorizon,
    /// A codec that does not exist.
    UnknownCompression {
        /// Its number in the attributes.
        id: u8,
    },
    /// A codec that this build leaves out: its feature is off.
    CompressionDisabled {
        /// The codec; its feature has the same name.
        compression: Compression,
    },
    /// A level that the codec does not have.
    Level {
        /// The codec.
        compression: Compression,
        /// The level.
        level: i32,
    },
    /// The codec failed.
    Compress {
        /// The codec.
        compression: Compression,
        /// What it says.
        message: String,
    },
    /// A control record cannot be encoded.
    Control(EncodeError),
}

impl From<EncodeError> for BuildError {
    fn from(error: EncodeError) -> Self {
        Self::Control(error)
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Control(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffsetOrder { offset, last_offset } => {
                write!(f, "offset {offset}: not above {last_offset}, the offset before")
            }
            Self::OffsetDelta { offset, base_offset } => {
                write!(f, "offset {offset}: too far from the base offset {base_offset}")
            }
            Self::Timestamp { timestamp } => write!(f, "timestamp {timestamp}: negative"),
            Self::TooLarge => write!(f, "the batch is too large"),
            Self::Producer { producer_id, producer_epoch, base_sequence } => write!(
                f,
                "producer id {producer_id}, epoch {producer_epoch} and base sequence {base_sequence} do not go together",
            ),
            Self::NotControl => write!(f, "a control record in a batch of other records"),
            Self::DeleteHorizon => write!(f, "the delete horizon was set after the first record"),
            Self::UnknownCompression { id } => write!(f, "there is no codec {id}"),
            Self::CompressionDisabled { compression } => {
                write!(f, "the feature {compression} is off")
            }
            Self::Level { compression, level } => write!(f, "{compression} has no level {level}"),
            Self::Compress { compression, message } => write!(f, "{compression}: {message}"),
            Self::Control(error) => write!(f, "{error}"),
        }
    }
}
