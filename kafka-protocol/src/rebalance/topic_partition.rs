//! Partitions and what is committed for them.

use std::fmt;

use crate::wire::Str;

/// A partition of a topic, by the topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Str,
    /// Zero-based index of the partition within its topic.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition of that index.
    pub fn new(topic: impl Into<Str>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

/// As Kafka's clients write it: `orders-3`.
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// What is committed for a partition.
///
/// From an `i64` it is that offset, without leader epoch and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// Offset of the next record to consume: one more than that of the last record processed. Not negative.
    pub offset: i64,
    /// Leader epoch of the last record processed, -1 when it is not known. Lost before `OffsetCommit` version 6.
    pub leader_epoch: i32,
    /// Free text stored with the offset, at most `offset.metadata.max.bytes` of the broker (4096).
    pub metadata: Str,
}

impl From<i64> for OffsetAndMetadata {
    fn from(offset: i64) -> Self {
        Self { offset, leader_epoch: -1, metadata: Str::const_new("") }
    }
}
