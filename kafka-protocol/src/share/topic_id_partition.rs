use std::fmt;

use crate::wire::Uuid;

/// A partition, with its topic named by id: the only way in which ShareFetch and ShareAcknowledge name topics.
///
/// Ordered by topic id, then by partition. Displayed as `id-partition`, as Kafka does with names.
///
/// ```
/// use kafka_protocol::{share::TopicIdPartition, wire::Uuid};
///
/// let partition = TopicIdPartition::new(Uuid::from_u128(7), 3);
/// assert_eq!(partition.to_string(), "00000000-0000-0000-0000-000000000007-3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicIdPartition {
    /// The topic's id, which a topic of the same name that is created later does not get again. Nil is no topic.
    pub topic_id: Uuid,
    /// The partition's index, from 0.
    pub partition: i32,
}

impl TopicIdPartition {
    /// The partition with this index of the topic with this id.
    pub const fn new(topic_id: Uuid, partition: i32) -> Self {
        Self { topic_id, partition }
    }
}

impl fmt::Display for TopicIdPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic_id, self.partition)
    }
}
