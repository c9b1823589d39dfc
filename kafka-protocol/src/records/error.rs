use std::{error, fmt};

use super::Compression;
use crate::embedded::EmbeddedError;
use crate::protocol::ErrorCode;

/// Why bytes are not record batches: which batch, which record, which byte.
///
/// ```
/// use kafka_protocol::records::Batches;
///
/// let error = Batches::from_slice(&[0; 20]).next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "record batch 0 at byte 0 (base offset 0): a length of 0, at least 14 needed");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RecordsError(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    place: BatchPlace,
    stage: Stage,
    record: Option<usize>,
    reason: RecordsReason,
}

/// Where a batch stands, for errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BatchPlace {
    pub index: usize,
    pub position: usize,
    pub base_offset: i64,
}

impl RecordsError {
    #[cold]
    pub(super) fn new(place: BatchPlace, stage: Stage, reason: RecordsReason) -> Self {
        Self(Box::new(Inner { place, stage, record: None, reason }))
    }

    /// The same, in a record of the batch.
    pub(super) fn in_record(mut self, record: usize) -> Self {
        self.0.record = Some(record);
        self
    }

    /// The batch, counted from 0 at the start of the input.
    pub fn batch(&self) -> usize {
        self.0.place.index
    }

    /// The byte of the input at which the batch starts.
    pub fn position(&self) -> usize {
        self.0.place.position
    }

    /// The base offset of the batch, as it stands in its first eight bytes.
    pub fn base_offset(&self) -> i64 {
        self.0.place.base_offset
    }

    /// The record in its batch, counted from 0; `None` if the fault is not in a record.
    pub fn record(&self) -> Option<usize> {
        self.0.record
    }

    /// What was being done.
    pub fn stage(&self) -> Stage {
        self.0.stage
    }

    /// What a broker answers to a producer of such batches.
    pub fn error_code(&self) -> ErrorCode {
        match self.reason() {
            RecordsReason::UnknownCompression { .. } | RecordsReason::CompressionDisabled { .. } => {
                ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
            }
            RecordsReason::Produce(ProduceRule::Timestamp { .. } | ProduceRule::LogAppendTime) => {
                ErrorCode::INVALID_TIMESTAMP
            }
            RecordsReason::OldFormat { .. } | RecordsReason::Produce(ProduceRule::Magic { .. }) => {
                ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            }
            RecordsReason::Produce(_) => ErrorCode::INVALID_RECORD,
            _ => ErrorCode::CORRUPT_MESSAGE,
        }
    }

    /// What is wrong.
    pub fn reason(&self) -> &RecordsReason {
        &self.0.reason
    }
}

impl error::Error for RecordsError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self.reason() {
            RecordsReason::Control(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchPlace { index, position, base_offset } = self.0.place;
        write!(f, "record batch {index} at byte {position} (base offset {base_offset}): ")?;
        if let Some(record) = self.0.record {
            write!(f, "record {record}: ")?;
        }
        self.0.reason.fmt(f)
    }
}

/// The steps in which record batches are read and judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding where a batch ends.
    Split,
    /// The checksum, and whether the batch has room for a header.
    Checksum,
    /// The header.
    Header,
    /// Decompression, and the records themselves.
    Records,
    /// Key and value of a control record.
    Control,
    /// What a broker asks of a batch that a client produces, beyond that it can be read.
    Produce,
}

/// What is wrong with record batches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RecordsReason {
    /// The length in the header is less than that of the smallest batch of its format, or more than an int32 holds
    /// once the 12 bytes before it are added.
    Length {
        /// The length.
        length: i32,
        /// The least it can be.
        min: i32,
    },
    /// A format that does not exist.
    Magic {
        /// The magic byte.
        magic: i8,
    },
    /// A message of an old format where only batches of magic 2 will do.
    OldFormat {
        /// The magic byte.
        magic: i8,
    },
    /// The content is not what was written.
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the content: CRC-32C, in the old formats CRC-32.
        computed: u32,
    },
    /// A codec that does not exist, or not in this format.
    UnknownCompression {
        /// Its number in the attributes.
        id: u8,
    },
    /// A codec that this build leaves out: its feature is off.
    CompressionDisabled {
        /// The codec; its feature has the same name.
        compression: Compression,
    },
    /// A compressed stream is damaged.
    Decompress {
        /// The codec.
        compression: Compression,
        /// What the codec says.
        message: String,
    },
    /// More bytes come out of a compressed stream than [`ReadOptions`](super::ReadOptions) allow.
    DecompressedSize {
        /// The bytes allowed.
        limit: usize,
    },
    /// The bytes end inside a value, or a length or count asks for more than is there.
    UnexpectedEnd {
        /// What was being read.
        field: &'static str,
        /// The bytes needed.
        needed: usize,
        /// The bytes left.
        left: usize,
    },
    /// A varint that is longer than its type, or has bits beyond it.
    Varint {
        /// What was being read.
        field: &'static str,
    },
    /// A length or count below what the field can have.
    Negative {
        /// What was being read.
        field: &'static str,
        /// Its value.
        value: i32,
    },
    /// A record has bytes behind its last header.
    RecordLength {
        /// Those bytes.
        left: usize,
    },
    /// The key of a header is not UTF-8.
    HeaderKey,
    /// The header of the batch announces more or fewer records than there are.
    Count {
        /// The number announced.
        announced: i32,
        /// The records found.
        found: usize,
        /// The bytes behind the last record.
        left: usize,
    },
    /// An offset beyond 64 bits.
    OffsetOverflow {
        /// The base offset.
        base_offset: i64,
        /// What was to be added.
        delta: i64,
    },
    /// A compressed message in a compressed message, in the old formats.
    Nested,
    /// A message of another format in a compressed one, in the old formats.
    InnerMagic {
        /// The format of the outer message.
        outer: i8,
        /// The format of the inner one.
        inner: i8,
    },
    /// A control record is not what its type says.
    Control(EmbeddedError),
    /// Something that a broker refuses, although it can be read.
    Produce(ProduceRule),
}

/// What [`validate_for_produce`](super::validate_for_produce) asks of a batch beyond that it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProduceRule {
    /// There has to be exactly one batch.
    OneBatch,
    /// Bytes that are no whole batch: it is cut, or something follows it.
    TrailingBytes {
        /// Their number.
        count: usize,
    },
    /// The format has to be that of magic 2.
    Magic {
        /// The magic byte.
        magic: i8,
    },
    /// The base offset has to be 0: the broker assigns offsets.
    BaseOffset {
        /// The base offset.
        base_offset: i64,
    },
    /// Clients do not write control batches.
    ControlBatch,
    /// The last offset delta has to be one less than the number of records.
    LastOffsetDelta {
        /// The last offset delta.
        last_offset_delta: i32,
        /// The number of records.
        count: i32,
    },
    /// A batch without records.
    Empty {
        /// Their number in the header: 0 or less.
        count: i32,
    },
    /// Offsets have to count up from 0 without holes.
    Offset {
        /// The offset delta of the record.
        delta: i64,
        /// What it has to be.
        expected: i64,
    },
    /// A producer id needs an epoch and a sequence.
    Sequence {
        /// The producer id.
        producer_id: i64,
        /// The producer epoch.
        producer_epoch: i16,
        /// The base sequence.
        base_sequence: i32,
    },
    /// A transactional batch needs a producer id.
    Transactional,
    /// A timestamp below 0 other than -1.
    Timestamp {
        /// The timestamp in milliseconds.
        timestamp: i64,
    },
    /// A delete horizon is the log cleaner's business.
    DeleteHorizon,
    /// The timestamp type is the broker's business: clients send create time.
    LogAppendTime,
}

impl fmt::Display for RecordsReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { length, min } if length < min => {
                write!(f, "a length of {length}, at least {min} needed")
            }
            Self::Length { length, .. } => write!(f, "a length of {length} is too large"),
            Self::Magic { magic } => write!(f, "no format has the magic byte {magic}"),
            Self::OldFormat { magic } => write!(f, "not possible with magic {magic}, only with 2"),
            Self::Checksum { stored, computed } => {
                write!(f, "the checksum is {stored:#010x}, that of the content {computed:#010x}")
            }
            Self::UnknownCompression { id } => write!(f, "there is no codec {id} in this format"),
            Self::CompressionDisabled { compression } => {
                write!(f, "compressed with {compression}, the feature of that name is off")
            }
            Self::Decompress { compression, message } => {
                write!(f, "the {compression} stream is damaged: {message}")
            }
            Self::DecompressedSize { limit } => {
                write!(f, "more than {limit} bytes come out of the compressed stream")
            }
            Self::UnexpectedEnd { field, needed, left } => {
                write!(f, "{field}: need {needed} bytes, {left} left")
            }
            Self::Varint { field } => write!(f, "{field}: the varint is too long"),
            Self::Negative { field, value } => write!(f, "{field}: {value} is negative"),
            Self::RecordLength { left } => write!(f, "{left} bytes behind its last header"),
            Self::HeaderKey => write!(f, "the key of a header is not UTF-8"),
            Self::Count { announced, found, left } => {
                write!(f, "{announced} records announced, {found} found and {left} bytes behind them")
            }
            Self::OffsetOverflow { base_offset, delta } => {
                write!(f, "the offset {base_offset} + {delta} overflows")
            }
            Self::Nested => write!(f, "a compressed message in a compressed one"),
            Self::InnerMagic { outer, inner } => {
                write!(f, "a message of magic {inner} in a compressed one of magic {outer}")
            }
            Self::Control(error) => write!(f, "control record: {error}"),
            Self::Produce(rule) => write!(f, "{rule}"),
        }
    }
}

impl fmt::Display for ProduceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneBatch => write!(f, "exactly one batch may be produced"),
            Self::TrailingBytes { count } => write!(f, "{count} bytes that are no whole batch"),
            Self::Magic { magic } => write!(f, "magic {magic} cannot be produced, 2 can"),
            Self::BaseOffset { base_offset } => write!(f, "the base offset is {base_offset}, not 0"),
            Self::ControlBatch => write!(f, "clients may not write control batches"),
            Self::LastOffsetDelta { last_offset_delta, count } => {
                write!(f, "the last offset delta is {last_offset_delta} with {count} records")
            }
            Self::Empty { count } => write!(f, "{count} records"),
            Self::Offset { delta, expected } => write!(f, "the offset delta is {delta}, not {expected}"),
            Self::Sequence { producer_id, producer_epoch, base_sequence } => write!(
                f,
                "producer id {producer_id} with epoch {producer_epoch} and base sequence {base_sequence}",
            ),
            Self::Transactional => write!(f, "transactional without a producer id"),
            Self::Timestamp { timestamp } => write!(f, "the timestamp {timestamp} is negative"),
            Self::DeleteHorizon => write!(f, "clients may not set a delete horizon"),
            Self::LogAppendTime => write!(f, "clients may not set log append time"),
        }
    }
}
