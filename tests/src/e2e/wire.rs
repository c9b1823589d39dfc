//! Connections, versions, and records that come back as they went.

use anyhow::{Context, Result, bail, ensure};
use driver::Client;
use driver::admin::{Topic, none, produce_request, record_batch};
use kafka_protocol::connection::{Config, Connection};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, MetadataRequest, ProduceRequest,
};
use kafka_protocol::protocol::{ApiKey, Request, Versions};
use kafka_protocol::records::{Batches, Compression};

use super::Scenario;
use super::cluster::Cluster;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("versions: ApiVersions, Metadata and FindCoordinator in each version", each_version),
    Scenario::new("versions: records in each version of Produce and Fetch", round_trips),
    Scenario::new("requests in flight together are answered in their order", pipelined),
];

/// The versions of a request that both ends have.
fn common<R: Request>(connection: &Connection) -> Result<std::ops::RangeInclusive<i16>> {
    let broker = connection.offered(R::API_KEY).unwrap_or(Versions::NONE);
    let common = broker.intersect(R::VERSIONS);
    ensure!(!common.is_empty(), "no common version of {:?}: ours {}, {broker}", R::API_KEY, R::VERSIONS);
    Ok(common.min()..=common.max())
}

pub(super) fn each_version(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.any()?;
    for version in common::<ApiVersionsRequest>(client.connection())? {
        let request = ApiVersionsRequest {
            client_software_name: "tests".into(),
            client_software_version: "1".into(),
            ..Default::default()
        };
        let response = client.call_in(&request, Some(version))?;
        ensure!(
            response.error_code.is_ok() && !response.api_keys.is_empty(),
            "ApiVersions v{version}: {response:?}"
        );
    }
    let leader = cluster.nodes()[0];
    let topic = cluster.create_topic("wire", 2, &[leader])?;
    for version in common::<MetadataRequest>(client.connection())? {
        let name = MetadataRequestTopic { name: Some(topic.name.clone()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![name]),
            // Up to version 3 a broker may do so whatever the request says.
            allow_auto_topic_creation: version < 4,
            ..Default::default()
        };
        let response = client.call_in(&request, Some(version))?;
        ensure!(response.brokers.len() == cluster.nodes().len(), "Metadata v{version}: {response:?}");
        let [found] = &response.topics[..] else { bail!("Metadata v{version}: {response:?}") };
        let mut leaders: Vec<_> =
            found.partitions.iter().map(|it| (it.partition_index, it.leader_id)).collect();
        leaders.sort_unstable();
        ensure!(
            found.name.as_ref() == Some(&topic.name)
                && leaders == [(0, leader), (1, leader)]
                && (version < 10 || found.topic_id == topic.id),
            "Metadata v{version}: {response:?}"
        );
    }
    let group = cluster.unique("group");
    let coordinator = cluster.coordinator(&group)?;
    for version in common::<FindCoordinatorRequest>(client.connection())? {
        let request = match version {
            0..=3 => FindCoordinatorRequest { key: group.clone(), ..Default::default() },
            _ => FindCoordinatorRequest { coordinator_keys: vec![group.clone()], ..Default::default() },
        };
        let response = client.call_in(&request, Some(version))?;
        let (error, node) = response
            .coordinators
            .first()
            .map_or((response.error_code, response.node_id), |found| (found.error_code, found.node_id));
        ensure!(error.is_ok() && node == coordinator, "FindCoordinator v{version}: {response:?}");
    }
    Ok(())
}

/// A batch in each version of Produce, by turns in each codec, and all of them in each version of Fetch.
pub(super) fn round_trips(cluster: &Cluster) -> Result<()> {
    let leader = cluster.nodes()[0];
    let topic = cluster.create_topic("wire", 1, &[leader])?;
    cluster.produce(&topic, leader, 1)?;
    let mut client = cluster.connect(leader)?;
    let mut written = vec!["value 0".to_owned()];
    for (version, codec) in common::<ProduceRequest>(client.connection())?.zip(CODECS.into_iter().cycle()) {
        let value = format!("Produce v{version} {codec:?}");
        // Zstandard came with version 7.
        let codec = if codec == Compression::Zstd && version < 7 { Compression::Gzip } else { codec };
        let request = produce_request(&topic, &record_batch(&[value.clone(), value.clone()], codec)?);
        let response = client.call_in(&request, Some(version))?;
        let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
        let partition = partition.with_context(|| format!("{value}: no partition"))?;
        none(partition.error_code).with_context(|| value.clone())?;
        ensure!(
            partition.base_offset == written.len() as i64,
            "{value}: base offset {}",
            partition.base_offset
        );
        written.extend([value.clone(), value]);
    }
    for version in common::<FetchRequest>(client.connection())? {
        let read = fetch(&mut client, &topic, version).with_context(|| format!("Fetch v{version}"))?;
        ensure!(read == written, "Fetch v{version} reads {read:?}, written is {written:?}");
    }
    Ok(())
}

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// The values of all records of partition 0, whose offsets have to be 0, 1, 2...
fn fetch(client: &mut Client, topic: &Topic, version: i16) -> Result<Vec<String>> {
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic {
        topic: topic.name.clone(),
        topic_id: topic.id,
        partitions: vec![partition],
        ..Default::default()
    };
    let request = FetchRequest { max_wait_ms: 500, min_bytes: 1, topics: vec![topic], ..Default::default() };
    let mut response = client.call_in(&request, Some(version))?;
    none(response.error_code)?;
    let partition =
        response.responses.pop().and_then(|mut topic| topic.partitions.pop()).context("no partition")?;
    none(partition.error_code)?;
    let mut values = Vec::new();
    for batch in Batches::new(&partition.records.context("no records")?) {
        for record in &batch?.records()? {
            let record = record?;
            ensure!(record.offset == values.len() as i64, "offset {} is out of turn", record.offset);
            values.push(String::from_utf8(record.value.context("no value")?.to_vec())?);
        }
    }
    Ok(values)
}

fn pipelined(cluster: &Cluster) -> Result<()> {
    let config = Config { first_correlation_id: i32::MAX - 20, max_in_flight: 50, ..Default::default() };
    let mut client = Client::connect_as(cluster.address(cluster.nodes()[0])?, config)?;
    let send = |_| client.send(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }, None);
    let sent = (0..50).map(send).collect::<Result<Vec<_>>>()?;
    ensure!(client.send(&MetadataRequest::default(), None).is_err(), "one too many in flight");
    for correlation_id in sent {
        let received = client.receive()?;
        let found = (received.correlation_id, received.api_key);
        ensure!(found == (correlation_id, ApiKey::METADATA), "received {found:?}, expected {correlation_id}");
    }
    Ok(())
}
