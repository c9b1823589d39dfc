//! The cluster under test: its brokers, topics and configurations.

use std::fmt::Display;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use driver::Client;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, FindCoordinatorRequest, IncrementalAlterConfigsRequest, MetadataRequest,
    ProduceRequest,
};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{BatchBuilder, Compression, NewRecord};
use kafka_protocol::wire::{Bytes, Str, Uuid};

/// How long a cluster may take for what it does by and by, such as electing a leader for a new topic.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// A topic that was made for a scenario.
pub(super) struct Topic {
    pub(super) name: Str,
    pub(super) id: Uuid,
    pub(super) partitions: i32,
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
        let name = self.unique(name);
        let assignment = |partition_index| CreatableReplicaAssignment {
            partition_index,
            broker_ids: replicas.into(),
            ..Default::default()
        };
        let topic = CreatableTopic {
            name: name.clone(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: (0..partitions).map(assignment).collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        let response = self.any()?.call(&request)?;
        let topic = response.topics.first().context("no topic in the response")?;
        none(topic.error_code)?;
        let topic = Topic { name, id: topic.topic_id, partitions };
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
                let found = describe(&mut client, topic)?;
                let mut partitions = found.partitions.iter();
                Ok(partitions
                    .any(|it| it.partition_index == partition && it.leader_id == leader)
                    .then_some(()))
            })?;
        }
        Ok(())
    }

    /// Writes a batch of so many records to each partition.
    pub(super) fn produce(&self, topic: &Topic, node: i32, records: usize) -> Result<()> {
        let values: Vec<_> = (0..records).map(|index| format!("value {index}")).collect();
        let mut client = self.connect(node)?;
        let mut request = produce_request(topic, &record_batch(&values, Compression::None)?);
        // A leader that does not know it yet answers with an error for the partition.
        eventually("a leader that takes records", || {
            let response = client.call(&request)?;
            let partitions = response.responses.into_iter().flat_map(|topic| topic.partition_responses);
            let (again, done): (Vec<_>, Vec<_>) = partitions.partition(|it| it.error_code.is_retriable());
            done.iter().try_for_each(|partition| none(partition.error_code))?;
            let again: Vec<_> = again.iter().map(|partition| partition.index).collect();
            request.topic_data[0].partition_data.retain(|data| again.contains(&data.index));
            Ok(again.is_empty().then_some(()))
        })
    }

    /// Sets configurations of a group, which need not exist yet.
    pub(super) fn configure_group(&self, group: &Str, configs: &[(&str, &str)]) -> Result<()> {
        /// The type of the resource, and the operation.
        const GROUP: i8 = 32;
        const SET: i8 = 0;
        let set = |(name, value): &(&str, &str)| AlterableConfig {
            name: (*name).into(),
            config_operation: SET,
            value: Some((*value).into()),
            ..Default::default()
        };
        let resource = AlterConfigsResource {
            resource_type: GROUP,
            resource_name: group.clone(),
            configs: configs.iter().map(set).collect(),
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let response = self.any()?.call(&request)?;
        response.responses.iter().try_for_each(|resource| none(resource.error_code))
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

/// What a broker knows of a topic.
pub(super) fn describe(client: &mut Client, topic: &Topic) -> Result<MetadataResponseTopic> {
    let name = MetadataRequestTopic { name: Some(topic.name.clone()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
    client.call(&request)?.topics.pop().context("no topic in the response")
}

/// A record batch with these values.
pub(super) fn record_batch(values: &[String], compression: Compression) -> Result<Bytes> {
    let mut builder = BatchBuilder::new().compression(compression);
    for value in values {
        builder.append(&NewRecord { value: Some(value.as_bytes()), ..Default::default() })?;
    }
    Ok(builder.finish()?)
}

/// The same record batch for each partition of a topic.
pub(super) fn produce_request(topic: &Topic, records: &Bytes) -> ProduceRequest {
    let data = |index| PartitionProduceData { index, records: Some(records.clone()), ..Default::default() };
    let data = TopicProduceData {
        name: topic.name.clone(),
        topic_id: topic.id,
        partition_data: (0..topic.partitions).map(data).collect(),
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![data], ..Default::default() }
}

/// Asks again and again until there is something.
pub(super) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        match ask().with_context(|| format!("waiting for {what}"))? {
            Some(found) => return Ok(found),
            None if start.elapsed() > PATIENCE => bail!("waited {PATIENCE:?} for {what}"),
            None => sleep(Duration::from_millis(50)),
        }
    }
}

/// No error is expected.
pub(super) fn none(found: ErrorCode) -> Result<()> {
    ensure!(found.is_ok(), "the broker answers with {found}");
    Ok(())
}
