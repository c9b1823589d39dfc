//! Topics, the leaders of their partitions, and where brokers are.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::messages::MetadataResponse;
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::wire::{Str, Uuid};

/// What metadata has told.
#[derive(Debug, Default)]
pub(super) struct Topics {
    names: BTreeMap<Uuid, Str>,
    leaders: BTreeMap<TopicIdPartition, Leadership>,
    addresses: BTreeMap<i32, (Str, i32)>,
    /// Partitions that are left alone for a while, and until when.
    paused: BTreeMap<TopicIdPartition, Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leadership {
    /// -1 if there is none.
    node: i32,
    epoch: i32,
}

impl Topics {
    pub(super) fn update(&mut self, response: &MetadataResponse) {
        for broker in &response.brokers {
            self.addresses.insert(broker.node_id, (broker.host.clone(), broker.port));
        }
        for topic in response.topics.iter().filter(|topic| topic.error_code.is_ok()) {
            let Some(name) = &topic.name else { continue };
            self.names.insert(topic.topic_id, name.clone());
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                let has_leader = row.error_code != ErrorCode::LEADER_NOT_AVAILABLE;
                let node = if has_leader { row.leader_id } else { -1 };
                self.lead(partition, Leadership { node, epoch: row.leader_epoch });
            }
        }
    }

    /// Takes what a leader of old, `from`, says of the new one; `false` if that is of no use.
    pub(super) fn moved(&mut self, partition: TopicIdPartition, from: i32, node: i32, epoch: i32) -> bool {
        let told = Leadership { node, epoch };
        if node < 0 || !self.addresses.contains_key(&node) {
            return false;
        }
        match self.leaders.get(&partition) {
            // It may have become known in the meantime. A leader that names itself would be asked again at once.
            Some(known) if known.epoch >= epoch => *known == told && node != from,
            _ => {
                self.leaders.insert(partition, told);
                true
            }
        }
    }

    /// Brokers answer from metadata that may be older than what is known, so the higher epoch wins.
    fn lead(&mut self, partition: TopicIdPartition, told: Leadership) {
        let known = self.leaders.entry(partition).or_insert(told);
        if told.epoch >= known.epoch || told.epoch < 0 {
            *known = told;
        }
    }

    pub(super) fn found(&mut self, node: i32, host: &Str, port: i32) {
        self.addresses.insert(node, (host.clone(), port));
    }

    pub(super) fn name(&self, topic_id: Uuid) -> Option<&Str> {
        self.names.get(&topic_id)
    }

    /// The leader of a partition; `None` if there is none, or it is not known.
    pub(super) fn leader(&self, partition: TopicIdPartition) -> Option<i32> {
        self.leaders.get(&partition).map(|leader| leader.node).filter(|node| *node >= 0)
    }

    pub(super) fn address(&self, node: i32) -> Option<&(Str, i32)> {
        self.addresses.get(&node)
    }

    /// Brokers whose address is known, ascending.
    pub(super) fn brokers(&self) -> impl ExactSizeIterator<Item = (i32, &(Str, i32))> {
        self.addresses.iter().map(|(node, address)| (*node, address))
    }

    pub(super) fn pause(&mut self, partition: TopicIdPartition, until: Duration) {
        self.paused.insert(partition, until);
    }

    pub(super) fn is_paused(&self, partition: TopicIdPartition) -> bool {
        self.paused.contains_key(&partition)
    }

    /// Ends the pauses that are over; `false` if there are none.
    pub(super) fn resume(&mut self, now: Duration) -> bool {
        let before = self.paused.len();
        self.paused.retain(|_, until| *until > now);
        self.paused.len() < before
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Duration> {
        self.paused.values().copied()
    }
}
