//! The clusters under test: their brokers, topics and configurations.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use driver::Client;
use driver::admin::{Topic, create_topic, describe_topic, eventually, none, produce};
use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest};
use kafka_protocol::share::consumer::ShareConsumerConfig;
use kafka_protocol::wire::Str;

/// The usual cluster, and what starts others for scenarios that need them.
pub struct Clusters {
    /// Of the version of Kafka whose messages these are.
    pub usual: Cluster,
    /// The program that has `broker start` and `broker kill`.
    pub xtask: PathBuf,
    /// Has a folder for each cluster. Whoever gave it stops them.
    pub folder: PathBuf,
}

/// A cluster that is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Special {
    /// One broker of Kafka 4.1, where share groups are a preview and have no renewals.
    Older,
    /// Brokers that are processes and can be killed, all but the first, which is the controller.
    Mortal,
}

/// Addresses of the brokers, and what Kafka's own consumer needs.
pub struct Cluster {
    brokers: Vec<(i32, String)>,
    pub(super) java: Java,
    started: u128,
    names: AtomicU32,
    /// What has started it, if that is known here.
    xtask: Option<Xtask>,
    killed: Mutex<BTreeSet<i32>>,
}

/// `cargo xtask broker` for the cluster in a folder.
struct Xtask {
    program: PathBuf,
    folder: PathBuf,
}

/// How Kafka's own consumer is started.
#[derive(Clone)]
pub struct Java {
    /// The path of `java`, or its name.
    pub command: String,
    /// Where its jars are.
    pub class_path: String,
}

impl Clusters {
    /// Starts a special cluster.
    pub(super) fn start(&self, special: Special) -> Result<Cluster> {
        let (name, options) = special.options();
        let xtask = Xtask { program: self.xtask.clone(), folder: self.folder.join(name) };
        let said = xtask.run("start", options)?;
        let address = said.trim().strip_prefix("ready ").with_context(|| format!("no address: {said}"))?;
        Ok(Cluster { xtask: Some(xtask), ..Cluster::new(address, self.usual.java.clone())? })
    }
}

impl Special {
    /// Its name, and what `cargo xtask broker start` has to be told.
    fn options(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Older => ("older", &["--kafka", "4.1.1", "--brokers", "1"]),
            Self::Mortal => (
                "mortal",
                &[
                    "--processes",
                    "--brokers",
                    "3",
                    "offsets.topic.replication.factor=2",
                    "share.coordinator.state.topic.replication.factor=2",
                    // How soon it is noticed that a broker is dead. A busy machine must not make a living one look so.
                    "broker.heartbeat.interval.ms=300",
                    "broker.session.timeout.ms=3000",
                ],
            ),
        }
    }
}

impl Xtask {
    /// Gives the output.
    fn run(&self, verb: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["broker", verb, "--folder"]).arg(&self.folder).args(arguments);
        let output = command.output().context("`cargo xtask broker` does not start")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`cargo xtask broker {verb}`: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }
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
        Ok(Self { brokers, java, started, names: AtomicU32::new(0), xtask: None, killed: Mutex::default() })
    }

    /// The ids of the brokers that were not killed, in ascending order.
    pub(super) fn nodes(&self) -> Vec<i32> {
        let killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        self.brokers.iter().map(|(id, _)| *id).filter(|id| !killed.contains(id)).collect()
    }

    /// Ends the process of a broker.
    pub(super) fn kill(&self, node: i32) -> Result<()> {
        let xtask = self.xtask.as_ref().context("nobody knows the processes of this cluster")?;
        xtask.run("kill", &[&node.to_string()])?;
        self.killed.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        Ok(())
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

    /// A member id that no run has used on this cluster, of the form that Kafka 4.1 asks for.
    pub(super) fn member_id(&self) -> Str {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let bytes = u128::from(number) << 96 | u128::from(process::id()) << 64 | self.started;
        ShareConsumerConfig::member_id(bytes.to_be_bytes())
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
