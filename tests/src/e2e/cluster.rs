//! The cluster under test: its brokers, topics and configurations.

use std::fmt::Display;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use driver::Client;
use driver::admin::{Topic, create_topic, describe_topic, eventually, none, produce};
use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest};
use kafka_protocol::wire::Str;

/// Addresses of the brokers, and what Kafka's own consumer needs.
pub struct Cluster {
    brokers: Vec<(i32, String)>,
    pub(super) java: Java,
    started: u128,
    names: AtomicU32,
}

/// How Kafka's own consumer is started.
pub struct Java {
    /// The path of `java`, or its name.
    pub command: String,
    /// Where its jars are.
    pub class_path: String,
}

impl Cluster {
    /// Asks the broker at `HOST:PORT` for the others.
    ///
    /// # Errors
    ///
    /// There is no broker.
    pub fn new(address: &str, java: Java) -> Result<Self> {
        let metadata = Client::connect(address)?.call(&MetadataRequest::default())?;
        let mut brokers: Vec<_> = metadata
            .brokers
            .iter()
            .map(|broker| (broker.node_id, format!("{}:{}", broker.host, broker.port)))
            .collect();
        ensure!(!brokers.is_empty(), "{address} knows no broker");
        brokers.sort();
        let started = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
        Ok(Self { brokers, java, started, names: AtomicU32::new(0) })
    }

    /// The ids of the brokers, in ascending order.
    pub(super) fn nodes(&self) -> Vec<i32> {
        self.brokers.iter().map(|(id, _)| *id).collect()
    }

    pub(super) fn address(&self, node: i32) -> Result<&str> {
        let broker = self.brokers.iter().find(|(id, _)| *id == node);
        Ok(&broker.with_context(|| format!("no broker {node}"))?.1)
    }

    pub(super) fn connect(&self, node: i32) -> Result<Client> {
        Client::connect(self.address(node)?)
    }

    /// To any broker, for requests that all of them take.
    pub(super) fn any(&self) -> Result<Client> {
        self.connect(self.brokers[0].0)
    }

    /// A name that no run has used on this cluster.
    pub(super) fn unique(&self, name: impl Display) -> Str {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{name}-{}-{}-{number}", self.started, process::id()).into()
    }

    /// Makes a topic whose partitions all have these replicas, the first of which leads, and waits until it does.
    pub(super) fn create_topic(
        &self,
        name: impl Display,
        partitions: i32,
        replicas: &[i32],
    ) -> Result<Topic> {
        let topic = create_topic(&mut self.any()?, self.unique(name), partitions, replicas)?;
        let topic = topic.context("a topic of that name")?;
        for partition in 0..partitions {
            self.await_leader(&topic, partition, replicas[0])?;
        }
        Ok(topic)
    }

    /// Waits until the brokers know of this leader.
    pub(super) fn await_leader(&self, topic: &Topic, partition: i32, leader: i32) -> Result<()> {
        for &node in &self.nodes() {
            let mut client = self.connect(node)?;
            eventually("the leader of a partition", || {
                let found = describe_topic(&mut client, topic)?;
                let mut partitions = found.partitions.iter();
                Ok(partitions
                    .any(|it| it.partition_index == partition && it.leader_id == leader)
                    .then_some(()))
            })?;
        }
        Ok(())
    }

    /// Writes a batch of so many records to each partition, all of which the node leads.
    pub(super) fn produce(&self, topic: &Topic, node: i32, records: usize) -> Result<()> {
        produce(&mut self.connect(node)?, topic, records)
    }

    /// The node that coordinates a group.
    pub(super) fn coordinator(&self, group: &Str) -> Result<i32> {
        let mut client = self.any()?;
        let request = FindCoordinatorRequest { coordinator_keys: vec![group.clone()], ..Default::default() };
        eventually("the coordinator of a group", || {
            let response = client.call(&request)?;
            let coordinator = response.coordinators.first().context("no coordinator in the response")?;
            if coordinator.error_code.is_retriable() {
                return Ok(None);
            }
            none(coordinator.error_code)?;
            Ok(Some(coordinator.node_id))
        })
    }
}
