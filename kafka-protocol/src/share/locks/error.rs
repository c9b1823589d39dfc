use std::{error, fmt};

use crate::protocol::ErrorCode;

/// Why acknowledgements of a partition are refused: the first batch that fails, and why.
///
/// Nothing of the partition has been applied but renewals in front of what failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgeError {
    /// The index of the batch.
    pub batch: usize,
    /// What is wrong with it.
    pub reason: AcknowledgeReason,
}

impl AcknowledgeError {
    /// The code that a broker answers with.
    pub fn code(&self) -> ErrorCode {
        self.reason.code()
    }
}

impl error::Error for AcknowledgeError {}

impl fmt::Display for AcknowledgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acknowledgement_batches[{}]: {}", self.batch, self.reason)
    }
}

/// What is wrong with an acknowledgement batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeReason {
    /// It is not of the [form](crate::share::validate::batches) that a request must have.
    Malformed,
    /// It renews, and the group must not.
    RenewNotEnabled,
    /// Nothing is in flight.
    NothingInFlight,
    /// It starts behind all records in flight.
    FirstOffsetPastAcquired,
    /// It ends behind all records in flight.
    LastOffsetPastAcquired,
    /// Records that share a state, from this offset on, are not acquired.
    BatchNotAcquired {
        /// The first of them.
        first_offset: i64,
    },
    /// Records that share a state, from this offset on, are another member's.
    NotOwnerOfBatch {
        /// The first of them.
        first_offset: i64,
    },
    /// A record is not acquired.
    OffsetNotAcquired {
        /// Its offset.
        offset: i64,
    },
    /// A record is another member's.
    NotOwnerOfOffset {
        /// Its offset.
        offset: i64,
    },
    /// Nothing is in flight, and the batch starts below the start offset and ends at or above it: the whole request fails
    /// in a 4.4.0 broker. Only with [`imitate_defects`](super::LockConfig::imitate_defects).
    Defect,
}

impl AcknowledgeReason {
    /// The code that a broker answers with: of the partition, but for [`Defect`](Self::Defect).
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Malformed | Self::FirstOffsetPastAcquired | Self::LastOffsetPastAcquired => {
                ErrorCode::INVALID_REQUEST
            }
            Self::RenewNotEnabled
            | Self::NothingInFlight
            | Self::BatchNotAcquired { .. }
            | Self::NotOwnerOfBatch { .. }
            | Self::OffsetNotAcquired { .. }
            | Self::NotOwnerOfOffset { .. } => ErrorCode::INVALID_RECORD_STATE,
            Self::Defect => ErrorCode::UNKNOWN_SERVER_ERROR,
        }
    }
}

impl fmt::Display for AcknowledgeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not as many types as offsets, or no type that there is"),
            Self::RenewNotEnabled => f.write_str("the group is configured not to renew"),
            Self::NothingInFlight => f.write_str("nothing is in flight"),
            Self::FirstOffsetPastAcquired => f.write_str("starts behind all records in flight"),
            Self::LastOffsetPastAcquired => f.write_str("ends behind all records in flight"),
            Self::BatchNotAcquired { first_offset } => {
                write!(f, "the records from offset {first_offset} on are not acquired")
            }
            Self::NotOwnerOfBatch { first_offset } => {
                write!(f, "another member has acquired the records from offset {first_offset} on")
            }
            Self::OffsetNotAcquired { offset } => write!(f, "offset {offset} is not acquired"),
            Self::NotOwnerOfOffset { offset } => write!(f, "another member has acquired offset {offset}"),
            Self::Defect => f.write_str("nothing is in flight, and the start offset is inside the batch"),
        }
    }
}
