use std::{error, fmt};

use super::Compression;
use crate::protocol::EncodeError;

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
