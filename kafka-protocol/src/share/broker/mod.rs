//! Brokers in memory, for tests of share consumers: typed requests in, typed responses out, and time that stands still
//! until it is told to go on.
//!
//! A [`Cluster`] has nodes, topics whose logs the test fills, share groups with their coordinator, share sessions and
//! acquisition locks. It answers ApiVersions, Metadata, FindCoordinator, ShareGroupHeartbeat, ShareFetch and
//! ShareAcknowledge as Kafka 4.4.0 does as far as a share consumer can tell, and it can lose connections, leaders
//! and nodes. What is between the two, such as loss and delay, is the test's.
//!
//! ```
//! use std::time::Duration;
//!
//! use kafka_protocol::messages::{ShareFetchRequest, share_fetch_request::*};
//! use kafka_protocol::records::{BatchBuilder, NewRecord};
//! use kafka_protocol::share::TopicIdPartition;
//! use kafka_protocol::share::broker::{BrokerResponse, Cluster, ClusterConfig};
//!
//! let at = Duration::from_millis;
//! let mut cluster = Cluster::new(ClusterConfig::default(), [1, 2]);
//! let topic_id = cluster.create_topic("orders", &[2]);
//! let partition = TopicIdPartition::new(topic_id, 0);
//! cluster.create_group("workers");
//!
//! let connection = cluster.connect(2).expect("node 2 is up");
//! let topic = FetchTopic { topic_id, partitions: vec![FetchPartition::default()], ..Default::default() };
//! let fetch = ShareFetchRequest {
//!     group_id: Some("workers".into()),
//!     member_id: Some("Wrg4sTkRQIO_5w84LjMGGQ".into()),
//!     max_wait_ms: 500,
//!     min_bytes: 1,
//!     max_records: 100,
//!     batch_size: 100,
//!     topics: vec![topic],
//!     ..Default::default()
//! };
//! cluster.send(at(0), connection, 2, fetch);
//! assert_eq!(cluster.poll(at(0)), None); // waits for records
//! assert_eq!(cluster.next_deadline(), Some(at(500)));
//!
//! let mut batch = BatchBuilder::new();
//! batch.append(&NewRecord { value: Some(b"first order"), ..Default::default() })?;
//! cluster.append(partition, &batch.finish()?)?;
//! let reply = cluster.poll(at(20)).expect("there are records now");
//! let BrokerResponse::ShareFetch(response) = reply.response else { panic!("not asked for") };
//! assert_eq!(response.responses[0].partitions[0].acquired_records[0].last_offset, 0);
//! assert_eq!(cluster.next_deadline(), Some(at(30_020))); // of the lock
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is simpler than in Kafka
//!
//! - Share partitions are loaded at once, and what is acknowledged is persisted at once.
//! - A topic's partition has one replica that any node can lead.
//! - Records are not filtered by transaction.
//! - An unknown ShareAcquireMode is refused with `INVALID_REQUEST`; and see the end of [`locks`](super::locks). With
//!   [`imitate_defects`](super::locks::LockConfig::imitate_defects) both are as in a 4.4.0 broker.
//! - All sessions that a connection opened end with it; see [`sessions`](super::sessions). With
//!   [`ClusterConfig::imitate_defects`] the last one does at most, as in a 4.4.0 broker.

mod config;
mod connections;
mod fetch;
mod group;
mod log;
mod message;
mod metadata;
mod node;
mod rows;
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use config::{AutoOffsetReset, ClusterConfig, GroupConfig};
pub use log::AppendError;
pub use message::{BrokerRequest, BrokerResponse, Reply};

use connections::Connection;
use node::Node;
use world::World;

use super::locks::SharePartition;
use super::sessions::{ConnectionId, ShareSessionCache};
use super::{RecordAcknowledgements, TopicIdPartition};
use crate::wire::Uuid;

/// Brokers in memory. See the [module](self).
///
/// Everything that takes `now` first does what was due until then: locks run out, members of groups are removed.
#[derive(Debug)]
pub struct Cluster {
    world: World,
    nodes: BTreeMap<i32, Node>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    ready: VecDeque<Reply>,
}

/// What a test arranges.
impl Cluster {
    /// Nodes with these ids, all up. Their hosts are `node-ID`, their ports 9092. The first of them that is up
    /// coordinates all groups.
    pub fn new(config: ClusterConfig, nodes: impl IntoIterator<Item = i32>) -> Self {
        let nodes: BTreeMap<_, _> =
            nodes.into_iter().map(|id| (id, Node::new(id, config.share_sessions()))).collect();
        let world = World::new(config, nodes.keys().copied());
        Self { world, nodes, connections: BTreeMap::new(), next_connection: 1, ready: VecDeque::new() }
    }

    /// Creates a topic with a partition for each of the leaders, that are node ids, and gives its id. A topic of the
    /// same name is deleted before.
    pub fn create_topic(&mut self, name: &str, leaders: &[i32]) -> Uuid {
        self.delete_topic(name);
        self.world.create_topic(name, leaders)
    }

    /// Deletes a topic and all that groups know of it.
    pub fn delete_topic(&mut self, name: &str) {
        let Some(topic_id) = self.world.delete_topic(name) else { return };
        for node in self.nodes.values_mut() {
            node.forget(|_, partition| partition.topic_id == topic_id);
        }
    }

    /// Creates a share group without members, so that share fetches in its name succeed. The first member that joins does
    /// so too.
    pub fn create_group(&mut self, group_id: &str) {
        self.world.groups.entry(group_id.into()).or_default();
    }

    /// Appends record batches to the log of a partition and gives the offset of the first record. Their base offsets are
    /// set.
    ///
    /// # Errors
    ///
    /// There is no such partition, or the bytes are not whole record batches of the current format.
    pub fn append(&mut self, partition: TopicIdPartition, record_batches: &[u8]) -> Result<i64, AppendError> {
        let log = self.world.log_mut(partition).ok_or(AppendError::UnknownPartition)?;
        log.append(record_batches)
    }

    /// Leaves a hole of some offsets at the end of a log, as compaction does.
    pub fn skip_offsets(&mut self, partition: TopicIdPartition, offsets: i64) {
        if let Some(log) = self.world.log_mut(partition) {
            log.skip(offsets);
        }
    }

    /// Deletes the records of a partition below an offset.
    pub fn delete_records(&mut self, now: Duration, partition: TopicIdPartition, before: i64) {
        self.advance(now);
        let Some(log) = self.world.log_mut(partition) else { return };
        let start = log.delete(before);
        for node in self.nodes.values_mut() {
            node.advance_start_offset(partition, start);
        }
    }

    /// Makes a node the leader of a partition, with a new leader epoch; `None` for no leader. What the old one knew of
    /// it beyond the persisted state is lost: locks, renewals.
    pub fn set_leader(&mut self, now: Duration, partition: TopicIdPartition, leader: Option<i32>) {
        self.advance(now);
        self.unload(|_, of| of == partition);
        if let Some(row) = self.world.partition_mut(partition) {
            row.leader = leader;
            row.leader_epoch += 1;
        }
    }

    /// Stops a node: its connections and sessions end, and what it leads has no leader until it starts again or the leader
    /// is [set](Self::set_leader). Gives the connections.
    pub fn stop(&mut self, now: Duration, node_id: i32) -> Vec<ConnectionId> {
        self.advance(now);
        let Some(node) = self.nodes.get_mut(&node_id) else { return Vec::new() };
        node.unload(&mut self.world, |_, _| true);
        node.restart(self.world.config.share_sessions());
        self.world.set_up(node_id, false);
        let theirs = |connection: &Connection| connection.node == node_id;
        let lost: Vec<_> =
            self.connections.iter().filter(|(_, connection)| theirs(connection)).map(|(id, _)| *id).collect();
        self.connections.retain(|_, connection| !theirs(connection));
        self.ready.retain(|reply| !lost.contains(&reply.connection));
        lost
    }

    /// Starts a node that was stopped.
    pub fn start(&mut self, node_id: i32) {
        self.world.set_up(node_id, true);
    }

    /// Configures a group, from now on.
    pub fn configure_group(&mut self, group_id: &str, config: GroupConfig) {
        for node in self.nodes.values_mut() {
            node.set_lock_config(group_id, &config.locks);
        }
        self.world.group_configs.insert(group_id.into(), config);
    }

    /// What a share partition looks like on the node that has it loaded.
    pub fn share_partition(&self, group_id: &str, partition: TopicIdPartition) -> Option<&SharePartition> {
        self.nodes.values().find_map(|node| node.share_partition(group_id, partition))
    }

    /// The share sessions of a node.
    pub fn sessions(&self, node_id: i32) -> Option<&ShareSessionCache> {
        self.nodes.get(&node_id).map(|node| &node.sessions)
    }

    /// What a node counts of acknowledgements that succeeded.
    pub fn metrics(&self, node_id: i32) -> Option<&RecordAcknowledgements> {
        self.nodes.get(&node_id).map(|node| &node.metrics)
    }

    /// Writes share partitions back and forgets them.
    fn unload(&mut self, which: impl Fn(&str, TopicIdPartition) -> bool) {
        for node in self.nodes.values_mut() {
            node.unload(&mut self.world, &which);
        }
    }
}
