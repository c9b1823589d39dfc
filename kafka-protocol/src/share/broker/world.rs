use std::collections::BTreeMap;

use super::config::{ClusterConfig, GroupConfig};
use super::group::Group;
use super::log::Log;
use crate::share::TopicIdPartition;
use crate::share::locks::PersistedState;
use crate::wire::{Str, Uuid};

/// What all nodes know: metadata, logs, groups, persisted state.
#[derive(Debug)]
pub(super) struct World {
    pub(super) config: ClusterConfig,
    /// By node id: whether it is up.
    pub(super) nodes: BTreeMap<i32, bool>,
    pub(super) topics: BTreeMap<Uuid, Topic>,
    pub(super) groups: BTreeMap<Str, Group>,
    pub(super) group_configs: BTreeMap<Str, GroupConfig>,
    pub(super) persisted: BTreeMap<(Str, TopicIdPartition), PersistedState>,
    /// Whether somebody has asked FindCoordinator.
    pub(super) coordinator_found: bool,
    topics_created: u128,
}

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Str,
    pub(super) partitions: Vec<Partition>,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32,
    pub(super) log: Log,
}

impl World {
    pub(super) fn new(config: ClusterConfig, nodes: impl Iterator<Item = i32>) -> Self {
        Self {
            coordinator_found: !config.find_coordinator_first,
            config,
            nodes: nodes.map(|node| (node, true)).collect(),
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            group_configs: BTreeMap::new(),
            persisted: BTreeMap::new(),
            topics_created: 0,
        }
    }

    pub(super) fn create_topic(&mut self, name: &str, leaders: &[i32]) -> Uuid {
        self.topics_created += 1;
        let topic_id = Uuid::from_u128(self.topics_created);
        let partition = |&leader| Partition { leader: Some(leader), leader_epoch: 0, log: Log::default() };
        let partitions = leaders.iter().map(partition).collect();
        self.topics.insert(topic_id, Topic { name: name.into(), partitions });
        topic_id
    }

    pub(super) fn delete_topic(&mut self, name: &str) -> Option<Uuid> {
        let topic_id = self.topic_id(name)?;
        self.topics.remove(&topic_id);
        self.persisted.retain(|(_, partition), _| partition.topic_id != topic_id);
        for group in self.groups.values_mut() {
            group.forget_topic(topic_id);
        }
        Some(topic_id)
    }

    pub(super) fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topics.iter().find(|(_, topic)| topic.name == name).map(|(id, _)| *id)
    }

    pub(super) fn partition(&self, of: TopicIdPartition) -> Option<&Partition> {
        self.topics.get(&of.topic_id)?.partitions.get(usize::try_from(of.partition).ok()?)
    }

    pub(super) fn partition_mut(&mut self, of: TopicIdPartition) -> Option<&mut Partition> {
        self.topics.get_mut(&of.topic_id)?.partitions.get_mut(usize::try_from(of.partition).ok()?)
    }

    pub(super) fn log_mut(&mut self, of: TopicIdPartition) -> Option<&mut Log> {
        self.partition_mut(of).map(|partition| &mut partition.log)
    }

    /// The leader of a partition, if it is up, with the leader epoch.
    pub(super) fn leader(&self, partition: &Partition) -> (Option<i32>, i32) {
        (partition.leader.filter(|leader| self.is_up(*leader)), partition.leader_epoch)
    }

    pub(super) fn group_config(&self, group_id: &str) -> &GroupConfig {
        self.group_configs.get(group_id).unwrap_or(&self.config.group)
    }

    pub(super) fn is_up(&self, node_id: i32) -> bool {
        self.nodes.get(&node_id) == Some(&true)
    }

    pub(super) fn set_up(&mut self, node_id: i32, up: bool) {
        if let Some(state) = self.nodes.get_mut(&node_id) {
            *state = up;
        }
    }

    /// The node that coordinates all groups.
    pub(super) fn coordinator(&self) -> Option<i32> {
        self.nodes.iter().find(|(_, up)| **up).map(|(node, _)| *node)
    }
}

/// The address that a node tells.
pub(super) fn host(node_id: i32) -> Str {
    format!("node-{node_id}").into()
}

/// The port that every node tells.
pub(super) const PORT: i32 = 9092;
