//! The messages that are measured, as values of krabka's plain structs, and what we want to reach with them.

use std::{fmt, iter};

use bytes::Bytes;
use krabka_protocol::{
    owned::{
        metadata_response, share_acknowledge_request, share_acknowledge_response, share_fetch_request,
        share_fetch_response,
    },
    primitives::uuid::Uuid,
    records::RecordsPayload,
};

use crate::harness::{Operation, Random};

/// A message to be measured.
pub struct Workload {
    /// A short name.
    pub name: &'static str,
    /// The name of the message.
    pub message: &'static str,
    /// Its version.
    pub version: i16,
    /// What is in it.
    pub content: &'static str,
    /// How many bytes ours writes.
    pub size: usize,
}

impl Workload {
    /// Whether `filter` is a part of `name/message/operation`.
    pub fn matches(&self, operation: Operation, filter: &str) -> bool {
        format!("{}/{}/{}", self.name, self.message, operation.name()).contains(filter)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, message, version, content, size } = self;
        write!(f, "{name}: {message} v{version}, {content}: {size} bytes")
    }
}

/// The most time that an operation may take, divided by that of the fastest peer in the same run.
pub fn goal(workload: &str, operation: Operation) -> Option<f64> {
    use Operation::{Decode, DecodeFrom, Encode, EncodedLen};
    match (workload, operation) {
        ("a", Encode) => Some(0.62),
        ("b", Encode) => Some(0.45),
        ("a" | "b", EncodedLen) => Some(0.55),
        ("a", Decode) => Some(0.45),
        ("b", Decode) => Some(0.55),
        ("a", DecodeFrom) => Some(0.14),
        ("e", Encode) => Some(0.55),
        ("e", Decode) => Some(0.45),
        _ => None,
    }
}

/// The most allocations that an operation may make once it is warm.
pub fn allocation_goal(workload: &str, operation: Operation) -> Option<u64> {
    match (workload, operation) {
        (_, Operation::Encode) | ("a", Operation::DecodeFrom) => Some(0),
        _ => None,
    }
}

const GROUP: &str = "my-share-group";
// UUIDs in base 64, as clients and clusters make them.
const MEMBER: &str = "Xk3mVdQ0R2q8uYJb1vT7Zw";
const CLUSTER: &str = "Qf7Lw2ZsT4uM9cXe0bHn1A";
const PARTITIONS: i32 = 10;
const TOPICS: i32 = 10;

/// Fetches from topics with as many partitions, and acknowledges three batches of each partition.
pub fn share_fetch_request(topics: i32, partitions: i32) -> share_fetch_request::ShareFetchRequest {
    use share_fetch_request::{AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest};
    let mut random = Random::new(1);
    let partition = |random: &mut Random, partition_index| FetchPartition {
        partition_index,
        acknowledgement_batches: acknowledgements(random)
            .map(|(first_offset, last_offset, acknowledge_types)| AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    ShareFetchRequest {
        group_id: Some(GROUP.into()),
        member_id: Some(MEMBER.into()),
        share_session_epoch: 17,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        max_records: 500,
        batch_size: 500,
        topics: (0..topics)
            .map(|_| FetchTopic {
                topic_id: uuid(&mut random),
                partitions: (0..partitions).map(|index| partition(&mut random, index)).collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// What a share fetch acquired: three ranges of each partition, with so many bytes of records.
///
/// The records look like no batch, so that no codec can be tempted to parse them.
pub fn share_fetch_response(records: usize) -> share_fetch_response::ShareFetchResponse {
    use share_fetch_response::{
        AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchResponse,
        ShareFetchableTopicResponse,
    };
    let mut random = Random::new(2);
    let partition = |random: &mut Random, partition_index| {
        let (leader_id, leader_epoch) = leader(random);
        PartitionData {
            partition_index,
            current_leader: LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() },
            records: Some(RecordsPayload::Raw(opaque(random, records))),
            acquired_records: (0..3)
                .map(|batch| {
                    let first_offset = offset(random, batch);
                    AcquiredRecords {
                        first_offset,
                        last_offset: first_offset + 9,
                        delivery_count: random.below(5) as i16 + 1,
                        ..Default::default()
                    }
                })
                .collect(),
            ..Default::default()
        }
    };
    ShareFetchResponse {
        acquisition_lock_timeout_ms: 30_000,
        responses: (0..TOPICS)
            .map(|_| ShareFetchableTopicResponse {
                topic_id: uuid(&mut random),
                partitions: (0..PARTITIONS).map(|index| partition(&mut random, index)).collect(),
                ..Default::default()
            })
            .collect(),
        node_endpoints: brokers(3)
            .map(|(node_id, host, rack)| NodeEndpoint {
                node_id,
                host,
                port: 9092,
                rack: Some(rack),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// Acknowledges three batches of each partition.
pub fn share_acknowledge_request() -> share_acknowledge_request::ShareAcknowledgeRequest {
    use share_acknowledge_request::{
        AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, ShareAcknowledgeRequest,
    };
    let mut random = Random::new(3);
    let partition = |random: &mut Random, partition_index| AcknowledgePartition {
        partition_index,
        acknowledgement_batches: acknowledgements(random)
            .map(|(first_offset, last_offset, acknowledge_types)| AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    ShareAcknowledgeRequest {
        group_id: Some(GROUP.into()),
        member_id: Some(MEMBER.into()),
        share_session_epoch: 17,
        topics: (0..TOPICS)
            .map(|_| AcknowledgeTopic {
                topic_id: uuid(&mut random),
                partitions: (0..PARTITIONS).map(|index| partition(&mut random, index)).collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// The answer to [`share_acknowledge_request()`].
pub fn share_acknowledge_response() -> share_acknowledge_response::ShareAcknowledgeResponse {
    use share_acknowledge_response::{
        LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeResponse,
        ShareAcknowledgeTopicResponse,
    };
    let mut random = Random::new(4);
    let partition = |random: &mut Random, partition_index| {
        let (leader_id, leader_epoch) = leader(random);
        PartitionData {
            partition_index,
            current_leader: LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() },
            ..Default::default()
        }
    };
    ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: 30_000,
        responses: (0..TOPICS)
            .map(|_| ShareAcknowledgeTopicResponse {
                topic_id: uuid(&mut random),
                partitions: (0..PARTITIONS).map(|index| partition(&mut random, index)).collect(),
                ..Default::default()
            })
            .collect(),
        node_endpoints: brokers(3)
            .map(|(node_id, host, rack)| NodeEndpoint {
                node_id,
                host,
                port: 9092,
                rack: Some(rack),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// A cluster of six brokers and a thousand topics, each with three partitions of three replicas.
pub fn metadata_response() -> metadata_response::MetadataResponse {
    use metadata_response::{
        MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    const BROKERS: i32 = 6;
    let mut random = Random::new(5);
    let partition = |random: &mut Random, partition_index| {
        let leader_id = random.below(BROKERS as u64) as i32;
        let replicas: Vec<i32> = (0..3).map(|replica| (leader_id + replica) % BROKERS).collect();
        MetadataResponsePartition {
            partition_index,
            leader_id,
            leader_epoch: random.below(300) as i32,
            replica_nodes: replicas.clone(),
            isr_nodes: replicas,
            ..Default::default()
        }
    };
    MetadataResponse {
        brokers: brokers(BROKERS)
            .map(|(node_id, host, rack)| MetadataResponseBroker {
                node_id,
                host,
                port: 9092,
                rack: Some(rack),
                ..Default::default()
            })
            .collect(),
        cluster_id: Some(CLUSTER.into()),
        controller_id: 3,
        topics: (0..1000)
            .map(|topic| MetadataResponseTopic {
                name: Some(format!("team-{}.events.topic-{topic:05}", random.below(10))),
                topic_id: uuid(&mut random),
                partitions: (0..3).map(|index| partition(&mut random, index)).collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn uuid(random: &mut Random) -> Uuid {
    let halves = [random.draw(), random.draw()].map(u64::to_be_bytes);
    Uuid(halves.concat().try_into().expect("two halves are 16 bytes"))
}

fn opaque(random: &mut Random, length: usize) -> Bytes {
    const MAGIC: usize = 16;
    let mut bytes: Vec<u8> = iter::repeat_with(|| random.draw() as u8).take(length).collect();
    if let Some(magic) = bytes.get_mut(MAGIC) {
        *magic = 1; // of batches that Kafka no longer has
    }
    bytes.into()
}

fn offset(random: &mut Random, batch: i64) -> i64 {
    1_000_000 + batch * 100 + random.below(50) as i64
}

/// First and last offset and the acknowledge types of three batches.
fn acknowledgements(random: &mut Random) -> impl Iterator<Item = (i64, i64, Vec<i8>)> {
    (0..3).map(|batch| {
        let count = random.below(10) + 1;
        let first = offset(random, batch);
        (first, first + count as i64 - 1, (0..count).map(|_| random.below(4) as i8).collect())
    })
}

/// Id and epoch.
fn leader(random: &mut Random) -> (i32, i32) {
    (random.below(6) as i32, random.below(100) as i32)
}

/// Id, host and rack of so many brokers.
fn brokers(count: i32) -> impl Iterator<Item = (i32, String, String)> {
    (0..count)
        .zip(["a", "b", "c"].into_iter().cycle())
        .map(|(id, zone)| (id, format!("broker-{id}.kafka.prod.example.com"), format!("us-east-1{zone}")))
}
