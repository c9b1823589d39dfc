//! What a consumer says of the records that it acquired, until it goes out as acknowledgement batches.

mod batches;
mod partition;

use std::collections::{BTreeMap, btree_map};

pub use batches::ExpandError;
pub use partition::PartitionAcknowledgements;

use super::TopicIdPartition;
use crate::protocol::AcknowledgeType;

/// Acknowledgements per topic and partition: for each offset an [`AcknowledgeType`].
///
/// ```
/// use kafka_protocol::protocol::AcknowledgeType;
/// use kafka_protocol::share::{Acknowledgements, TopicIdPartition};
/// use kafka_protocol::wire::Uuid;
///
/// let partition = TopicIdPartition::new(Uuid::from_u128(7), 0);
/// let mut acknowledgements = Acknowledgements::default();
/// acknowledgements.set(partition, 41, AcknowledgeType::RENEW);
/// acknowledgements.set(partition, 41, AcknowledgeType::ACCEPT); // replaces the renewal
/// assert!(!acknowledgements.has_renew());
/// assert_eq!(acknowledgements.get(partition).and_then(|of| of.get(41)), Some(AcknowledgeType::ACCEPT));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgements(BTreeMap<TopicIdPartition, PartitionAcknowledgements>);

impl Acknowledgements {
    /// Acknowledges an offset; replaces what was said of it before.
    pub fn set(&mut self, partition: TopicIdPartition, offset: i64, ty: AcknowledgeType) {
        self.partition_mut(partition).set(offset, ty);
    }

    /// The acknowledgements of a partition, to add to; from now on the partition is listed.
    pub fn partition_mut(&mut self, partition: TopicIdPartition) -> &mut PartitionAcknowledgements {
        self.0.entry(partition).or_default()
    }

    /// The acknowledgements of a partition; `None` if it is not listed.
    pub fn get(&self, partition: TopicIdPartition) -> Option<&PartitionAcknowledgements> {
        self.0.get(&partition)
    }

    /// Takes a partition off the list.
    pub fn remove(&mut self, partition: TopicIdPartition) -> Option<PartitionAcknowledgements> {
        self.0.remove(&partition)
    }

    /// Adds all of `later`, which replaces what was said of the same offsets before.
    pub fn merge(&mut self, later: Self) {
        for (partition, acknowledgements) in later {
            self.partition_mut(partition).merge(acknowledgements);
        }
    }

    /// The partitions, ascending.
    pub fn iter(&self) -> btree_map::Iter<'_, TopicIdPartition, PartitionAcknowledgements> {
        self.0.iter()
    }

    /// Whether no offset is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(PartitionAcknowledgements::is_empty)
    }

    /// How many offsets are acknowledged.
    pub fn len(&self) -> u64 {
        self.0.values().fold(0, |sum, of| sum.saturating_add(of.len()))
    }

    /// Whether any offset is renewed, so that the request has to set `is_renew_ack` (KIP-1222).
    pub fn has_renew(&self) -> bool {
        self.0.values().any(PartitionAcknowledgements::has_renew)
    }

    /// The lowest version of ShareFetch and ShareAcknowledge that can carry them: 2 with a renewal, else 1.
    pub fn required_version(&self) -> i16 {
        required_version(self.has_renew())
    }
}

impl IntoIterator for Acknowledgements {
    type Item = (TopicIdPartition, PartitionAcknowledgements);
    type IntoIter = btree_map::IntoIter<TopicIdPartition, PartitionAcknowledgements>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Acknowledgements {
    type Item = (&'a TopicIdPartition, &'a PartitionAcknowledgements);
    type IntoIter = btree_map::Iter<'a, TopicIdPartition, PartitionAcknowledgements>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(TopicIdPartition, PartitionAcknowledgements)> for Acknowledgements {
    fn from_iter<I: IntoIterator<Item = (TopicIdPartition, PartitionAcknowledgements)>>(
        partitions: I,
    ) -> Self {
        let mut all = Self::default();
        for (partition, acknowledgements) in partitions {
            all.partition_mut(partition).merge(acknowledgements);
        }
        all
    }
}

/// Type 4 came with version 2.
fn required_version(has_renew: bool) -> i16 {
    if has_renew { 2 } else { 1 }
}
