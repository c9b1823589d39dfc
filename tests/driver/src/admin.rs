//! Topics, records and configurations for tests and examples.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, IncrementalAlterConfigsRequest, MetadataRequest, ProduceRequest,
};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{BatchBuilder, Compression, NewRecord};
use kafka_protocol::wire::{Bytes, Str, Uuid};

use crate::Client;

/// How long a cluster may take for what it does by and by, such as electing a leader for a new topic.
const PATIENCE: Duration = Duration::from_secs(30);

/// A topic that was made here.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Str,
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: i32,
}

/// Makes a topic whose partitions all have these replicas, the first of which leads; `None` if there is one of that
/// name.
///
/// # Errors
///
/// The broker refuses.
pub fn create_topic(
    client: &mut Client,
    name: Str,
    partitions: i32,
    replicas: &[i32],
) -> Result<Option<Topic>> {
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
    let response = client.call(&request)?;
    let topic = response.topics.first().context("no topic in the response")?;
    if topic.error_code == ErrorCode::TOPIC_ALREADY_EXISTS {
        return Ok(None);
    }
    none(topic.error_code)?;
    Ok(Some(Topic { name, id: topic.topic_id, partitions }))
}

/// What a broker knows of a topic.
///
/// # Errors
///
/// There is no answer.
pub fn describe_topic(client: &mut Client, topic: &Topic) -> Result<MetadataResponseTopic> {
    let name = MetadataRequestTopic { name: Some(topic.name.clone()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
    client.call(&request)?.topics.pop().context("no topic in the response")
}

/// A record batch with these values.
///
/// # Errors
///
/// The codec refuses.
pub fn record_batch(values: &[String], compression: Compression) -> Result<Bytes> {
    let mut builder = BatchBuilder::new().compression(compression);
    for value in values {
        builder.append(&NewRecord { value: Some(value.as_bytes()), ..Default::default() })?;
    }
    Ok(builder.finish()?)
}

/// The same record batch for each partition of a topic.
pub fn produce_request(topic: &Topic, records: &Bytes) -> ProduceRequest {
    let data = |index| PartitionProduceData { index, records: Some(records.clone()), ..Default::default() };
    let data = TopicProduceData {
        name: topic.name.clone(),
        topic_id: topic.id,
        partition_data: (0..topic.partitions).map(data).collect(),
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![data], ..Default::default() }
}

/// Writes a batch of so many records to each partition of a topic. The client is connected to the leader of all.
///
/// # Errors
///
/// The broker refuses, or is not the leader even after a while.
pub fn produce(client: &mut Client, topic: &Topic, records: usize) -> Result<()> {
    let values: Vec<_> = (0..records).map(|index| format!("value {index}")).collect();
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
///
/// # Errors
///
/// The broker refuses.
pub fn configure_group(client: &mut Client, group: &Str, configs: &[(&str, &str)]) -> Result<()> {
    /// The type of the resource.
    const GROUP: i8 = 32;
    /// The operation.
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
    let response = client.call(&request)?;
    response.responses.iter().try_for_each(|resource| none(resource.error_code))
}

/// Makes a topic with so many records in each partition, unless there is one of that name: something for an example to
/// consume.
///
/// # Errors
///
/// The broker at `address` cannot be reached, or refuses.
pub fn example_topic(address: &str, name: &str, partitions: i32, records: usize) -> Result<()> {
    let mut client = Client::connect(address)?;
    let brokers = client.call(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() })?.brokers;
    let leader = brokers.first().context("no broker")?;
    if let Some(topic) = create_topic(&mut client, name.into(), partitions, &[leader.node_id])? {
        produce(&mut Client::connect(&format!("{}:{}", leader.host, leader.port))?, &topic, records)?;
    }
    Ok(())
}

/// Asks again and again until there is something.
///
/// # Errors
///
/// That of `ask`, or there is nothing even after a while.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        match ask().with_context(|| format!("waiting for {what}"))? {
            Some(found) => return Ok(found),
            None if start.elapsed() > PATIENCE => bail!("waited {PATIENCE:?} for {what}"),
            None => sleep(Duration::from_millis(50)),
        }
    }
}

/// That there is no error.
///
/// # Errors
///
/// There is one.
pub fn none(code: ErrorCode) -> Result<()> {
    ensure!(code.is_ok(), "the broker answers with {code}");
    Ok(())
}
