use std::time::Duration;
use std::{error, fmt};

use super::Action;
use crate::protocol::{AcknowledgeType, ErrorCode};
use crate::records::{OwnedRecord, RecordsError};
use crate::share::{AcknowledgeResult, PartitionAcknowledgements, TopicIdPartition};
use crate::wire::Str;

/// What a call of a [`ShareConsumer`](super::ShareConsumer) gives. Nothing in it is allocated as long as it is empty.
#[derive(Clone, Debug, Default)]
pub struct Poll {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// Records for the application. Only a poll gives any.
    pub records: Vec<PartitionRecords>,
    /// What happened.
    pub events: Vec<Event>,
    /// When to call again at the latest; `None` if nothing but a response or the application has anything to do.
    pub deadline: Option<Duration>,
}

/// Records that were acquired together in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionRecords {
    /// The topic's name.
    pub topic: Str,
    /// The partition, for [`acknowledge`](super::ShareConsumer::acknowledge).
    pub partition: TopicIdPartition,
    /// The broker that delivered them, and to which alone they can be acknowledged.
    pub node: i32,
    /// The records, by ascending offset. Never empty.
    pub records: Vec<AcquiredRecord>,
}

/// A record, locked for this consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct AcquiredRecord {
    /// The record.
    pub record: OwnedRecord,
    /// How often it has been delivered, this time included. Renewals do not count.
    pub delivery_count: i16,
    /// When its acquisition lock runs out at the earliest: the lock timeout, counted from the time when the request was
    /// sent. Until then it has to be acknowledged or renewed. `None` if the broker did not say.
    pub lock_deadline: Option<Duration>,
}

/// A commit of a [`ShareConsumer`](super::ShareConsumer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(
    /// The number; later commits have higher ones.
    pub u64,
);

/// What happened to a [`ShareConsumer`](super::ShareConsumer).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Other partitions are assigned, or none any more. There is nothing to revoke in a share group: records in hand stay
    /// locked, and can be acknowledged.
    Assigned {
        /// All partitions from now on.
        partitions: Vec<TopicIdPartition>,
    },
    /// No poll came in time ([`max_poll_interval`](super::ShareConsumerConfig::max_poll_interval)). The member leaves the
    /// group, and joins again with the next poll. Records in hand stay locked, and can be acknowledged.
    PollIntervalExpired,
    /// What came of acknowledgements for a partition. An error, retriable ones too, means that the records will be
    /// delivered again, to whomever; of renewals it means that they may have happened or not.
    Acknowledged {
        /// The commit by which they were sent; `None` if by a poll or by closing.
        commit: Option<CommitId>,
        /// What was acknowledged, gaps and renewals included, and what came of it.
        result: AcknowledgeResult,
    },
    /// All of a commit has been [acknowledged](Self::Acknowledged), or has failed.
    Committed {
        /// The commit.
        commit: CommitId,
    },
    /// Records were acquired or renewed and are not given to the application, as their locks may have run out, or were
    /// lost, before they could be. They will be delivered again, to whomever.
    Dropped {
        /// The partition.
        partition: TopicIdPartition,
        /// How many records.
        records: usize,
        /// Why.
        reason: DropReason,
    },
    /// Records were acquired and cannot be read. They are acknowledged without the application.
    Unreadable {
        /// The partition.
        partition: TopicIdPartition,
        /// What is wrong.
        error: Box<RecordsError>,
        /// Offsets of damaged batches are rejected. Those behind them, or in a codec that this build lacks, are released.
        acknowledgements: PartitionAcknowledgements,
    },
    /// A broker refuses to give records of a partition; it is asked again later.
    PartitionError {
        /// The partition.
        partition: TopicIdPartition,
        /// The error.
        error: ErrorCode,
        /// The broker's words on it.
        message: Option<Str>,
    },
    /// There is no metadata for a topic, such as TOPIC_AUTHORIZATION_FAILED; it is asked for again later.
    TopicError {
        /// The topic's name.
        topic: Str,
        /// The error.
        error: ErrorCode,
    },
    /// The coordinator or a leader answers with an error; it is asked again later.
    NodeError {
        /// The node, with the number that [`Action`] gives it: the coordinator and bootstrap brokers have one of their own.
        node: i32,
        /// The error. UNSUPPORTED_VERSION if it lacks a version that is needed.
        error: ErrorCode,
        /// The broker's words on it.
        message: Option<Str>,
    },
    /// The consumer cannot go on, and has nothing more to do.
    Failed {
        /// The error: GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST, GROUP_MAX_SIZE_REACHED, UNSUPPORTED_VERSION (also if the
        /// cluster has share groups switched off), or another one that no retry helps against.
        error: ErrorCode,
        /// The broker's words on it.
        message: Option<Str>,
    },
    /// The consumer is closed, and has nothing more to do.
    Closed,
}

/// Why records that were acquired or renewed are not given to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// They waited for so long that their acquisition locks may have run out.
    LockExpired,
    /// The connection through which they were acquired is gone, and the locks with it.
    Disconnected,
    /// Another broker leads the partition now, which does not know the locks.
    LeaderChanged,
}

/// Why a call of a [`ShareConsumer`](super::ShareConsumer) is refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareConsumerError {
    /// Records of the last poll are not acknowledged yet (explicit mode).
    Unacknowledged {
        /// How many.
        records: usize,
    },
    /// The next poll acknowledges (implicit mode).
    ImplicitMode,
    /// The record was not delivered, or is acknowledged already and that was sent, or its renewal failed.
    NotAcquired {
        /// The partition.
        partition: TopicIdPartition,
        /// The offset.
        offset: i64,
    },
    /// No acknowledge type for an application: GAP, or a number without a name.
    AcknowledgeType(AcknowledgeType),
    /// The node that delivered the record lacks version 2 of ShareFetch or ShareAcknowledge (KIP-1222).
    RenewUnsupported {
        /// The node.
        node: i32,
    },
    /// No topics to subscribe to.
    NoTopics,
    /// The configuration is one with which nothing can work.
    InvalidConfig {
        /// The field of [`ShareConsumerConfig`](super::ShareConsumerConfig).
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The consumer is closed or has failed.
    Closed,
}

impl error::Error for ShareConsumerError {}

impl fmt::Display for ShareConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unacknowledged { records } => {
                write!(f, "{records} records of the last poll are not acknowledged")
            }
            Self::ImplicitMode => f.write_str("records are acknowledged by the next poll, not one by one"),
            Self::NotAcquired { partition, offset } => {
                write!(
                    f,
                    "offset {offset} of {partition} is not acquired, or its acknowledgement has been sent"
                )
            }
            Self::AcknowledgeType(ty) => write!(f, "{ty:?} is no type that an application can use"),
            Self::RenewUnsupported { node } => {
                write!(
                    f,
                    "node {node} has no renew acknowledgements (ShareFetch and ShareAcknowledge versions 2+)"
                )
            }
            Self::InvalidConfig { field, reason } => write!(f, "{field} {reason}"),
            Self::NoTopics => f.write_str("there are no topics to subscribe to"),
            Self::Closed => f.write_str("the share consumer is closed"),
        }
    }
}
