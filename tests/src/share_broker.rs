//! Brokers in memory where several of them, or the log, are concerned.

use std::time::Duration;

use kafka_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    FindCoordinatorRequest, MetadataRequest, MetadataResponse, ShareAcknowledgeRequest,
    ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse, ShareGroupHeartbeatRequest,
    share_acknowledge_request,
};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::records::{BatchBuilder, Batches, NewRecord};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::{
    AppendError, AutoOffsetReset, BrokerResponse, Cluster, ClusterConfig, GroupConfig,
};
use kafka_protocol::share::sessions::ConnectionId;

use crate::walks::Range;

const GROUP: &str = "group";

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Two nodes; node 1 leads a partition with the offsets 0-4.
struct Pair {
    cluster: Cluster,
    partition: TopicIdPartition,
}

impl Pair {
    fn new() -> Self {
        let mut cluster = Cluster::new(ClusterConfig::default(), [1, 2]);
        cluster.create_group(GROUP);
        let partition = TopicIdPartition::new(cluster.create_topic("topic", &[1]), 0);
        let mut pair = Self { cluster, partition };
        assert_eq!(pair.append(5), 0);
        pair
    }

    fn append(&mut self, records: usize) -> i64 {
        self.cluster.append(self.partition, &record_batch(records)).unwrap()
    }

    fn fetch(&mut self, now: Duration, connection: ConnectionId, epoch: i32) -> ShareFetchResponse {
        let partitions = vec![FetchPartition::default()];
        let topic = FetchTopic { topic_id: self.partition.topic_id, partitions, ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some("m".into()),
            share_session_epoch: epoch,
            max_records: 500,
            batch_size: 500,
            topics: if epoch == 0 { vec![topic] } else { vec![] },
            ..Default::default()
        };
        assert!(self.cluster.send(now, connection, 2, request));
        let BrokerResponse::ShareFetch(response) = self.cluster.poll(now).unwrap().response else { panic!() };
        response
    }

    fn accept(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        epoch: i32,
        (first_offset, last_offset): (i64, i64),
        ty: AcknowledgeType,
    ) -> ShareAcknowledgeResponse {
        let batch = share_acknowledge_request::AcknowledgementBatch {
            first_offset,
            last_offset,
            acknowledge_types: [ty].into_iter().collect(),
            ..Default::default()
        };
        let partition = share_acknowledge_request::AcknowledgePartition {
            acknowledgement_batches: vec![batch],
            ..Default::default()
        };
        let topic = share_acknowledge_request::AcknowledgeTopic {
            topic_id: self.partition.topic_id,
            partitions: vec![partition],
            ..Default::default()
        };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.into()),
            member_id: Some("m".into()),
            share_session_epoch: epoch,
            topics: vec![topic],
            ..Default::default()
        };
        assert!(self.cluster.send(now, connection, 2, request));
        let BrokerResponse::ShareAcknowledge(response) = self.cluster.poll(now).unwrap().response else {
            panic!()
        };
        response
    }

    fn metadata(&mut self, node: i32) -> MetadataResponse {
        let connection = self.cluster.connect(node).unwrap();
        let all = MetadataRequest { topics: None, ..Default::default() };
        self.cluster.send(at(0), connection, 12, all);
        let BrokerResponse::Metadata(response) = self.cluster.poll(at(0)).unwrap().response else { panic!() };
        response
    }
}

fn record_batch(records: usize) -> Vec<u8> {
    let mut batch = BatchBuilder::new();
    for _ in 0..records {
        batch.append(&NewRecord { value: Some(b"value"), ..Default::default() }).unwrap();
    }
    batch.finish().unwrap().to_vec()
}

fn acquired(response: &ShareFetchResponse) -> Vec<Range> {
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions);
    rows.flat_map(|row| &row.acquired_records)
        .map(|range| (range.first_offset, range.last_offset, range.delivery_count))
        .collect()
}

#[test]
fn records_are_those_of_the_log() {
    let mut pair = Pair::new();
    assert_eq!(pair.append(3), 5);
    let connection = pair.cluster.connect(1).unwrap();
    let response = pair.fetch(at(0), connection, 0);
    assert_eq!(acquired(&response), [(0, 7, 1)]);
    let records = response.responses[0].partitions[0].records.clone().unwrap();
    let offsets: Vec<_> = Batches::new(&records)
        .map(|batch| batch.unwrap())
        .map(|batch| (batch.header().base_offset, batch.records().unwrap().iter().count()))
        .collect();
    assert_eq!(offsets, [(0, 5), (5, 3)]);
}

#[test]
fn only_whole_record_batches_are_appended() {
    let mut pair = Pair::new();
    let unknown = TopicIdPartition::new(pair.partition.topic_id, 1);
    let batch = record_batch(1);
    assert_eq!(pair.cluster.append(unknown, &batch), Err(AppendError::UnknownPartition));
    assert_eq!(pair.cluster.append(pair.partition, &batch[..batch.len() - 1]), Err(AppendError::Trailing));
    assert_eq!(pair.cluster.append(pair.partition, &[]), Err(AppendError::Trailing));
    assert_eq!(pair.append(1), 5);
}

/// A new leader has what was persisted; the old one says who it is to those who fetch, and not to those who acknowledge.
#[test]
fn leaders_change() {
    let mut pair = Pair::new();
    let first = pair.cluster.connect(1).unwrap();
    assert_eq!(acquired(&pair.fetch(at(0), first, 0)), [(0, 4, 1)]);
    pair.accept(at(1), first, 1, (0, 1), AcknowledgeType::ACCEPT);
    pair.accept(at(1), first, 2, (2, 2), AcknowledgeType::RELEASE);
    pair.cluster.set_leader(at(2), pair.partition, Some(2));
    assert_eq!(pair.cluster.next_deadline(), None);

    let response = pair.fetch(at(3), first, 3);
    let row = &response.responses[0].partitions[0];
    assert_eq!(row.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!((row.current_leader.leader_id, row.current_leader.leader_epoch), (2, 1));
    let endpoint = &response.node_endpoints[0];
    assert_eq!((endpoint.node_id, endpoint.host.as_str(), endpoint.port), (2, "node-2", 9092));
    let response = pair.accept(at(3), first, 4, (3, 4), AcknowledgeType::ACCEPT);
    let row = &response.responses[0].partitions[0];
    assert_eq!(row.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!((row.current_leader.leader_id, response.node_endpoints.len()), (0, 0));

    let second = pair.cluster.connect(2).unwrap();
    assert_eq!(acquired(&pair.fetch(at(4), second, 0)), [(2, 2, 2), (3, 4, 1)]);
    let share = pair.cluster.share_partition(GROUP, pair.partition).unwrap();
    assert_eq!(share.start_offset(), 2);
}

/// What a node leads waits for it; sessions and locks do not.
#[test]
fn nodes_restart() {
    let mut pair = Pair::new();
    let first = pair.cluster.connect(1).unwrap();
    pair.fetch(at(0), first, 0);
    pair.accept(at(1), first, 1, (0, 0), AcknowledgeType::ACCEPT);
    assert_eq!(pair.cluster.stop(at(2), 1), [first]);
    assert_eq!(pair.cluster.connect(1), None);
    assert!(!pair.cluster.send(at(2), first, 2, ShareFetchRequest::default()));
    let metadata = pair.metadata(2);
    assert_eq!((metadata.brokers.len(), metadata.controller_id), (1, 2));
    let row = &metadata.topics[0].partitions[0];
    assert_eq!((row.leader_id, row.error_code), (-1, ErrorCode::LEADER_NOT_AVAILABLE));

    pair.cluster.start(1);
    assert_eq!(pair.metadata(2).topics[0].partitions[0].leader_id, 1);
    let again = pair.cluster.connect(1).unwrap();
    assert_eq!(pair.fetch(at(3), again, 2).error_code, ErrorCode::SHARE_SESSION_NOT_FOUND);
    assert_eq!(acquired(&pair.fetch(at(3), again, 0)), [(1, 4, 1)]);
}

/// Locks run out by themselves, and wake up a fetch that waits.
#[test]
fn time_goes_on() {
    let mut pair = Pair::new();
    let first = pair.cluster.connect(1).unwrap();
    pair.fetch(at(0), first, 0);
    let waits = ShareFetchRequest {
        group_id: Some(GROUP.into()),
        member_id: Some("m".into()),
        share_session_epoch: 1,
        max_wait_ms: 60_000,
        min_bytes: 1,
        max_records: 10,
        batch_size: 10,
        ..Default::default()
    };
    pair.cluster.send(at(1), first, 2, waits);
    assert_eq!(pair.cluster.poll(at(1)), None);
    assert_eq!(pair.cluster.next_deadline(), Some(at(30)));
    assert_eq!(pair.cluster.poll(at(29)), None);
    let BrokerResponse::ShareFetch(response) = pair.cluster.poll(at(30)).unwrap().response else { panic!() };
    assert_eq!(acquired(&response), [(0, 4, 2)]);
}

#[test]
fn holes_and_deleted_records() {
    let mut pair = Pair::new();
    pair.cluster.skip_offsets(pair.partition, 5);
    assert_eq!(pair.append(2), 10);
    let connection = pair.cluster.connect(1).unwrap();
    // What is read at once is acquired at once; the member finds the hole.
    assert_eq!(acquired(&pair.fetch(at(0), connection, 0)), [(0, 11, 1)]);
    pair.cluster.delete_records(at(1), pair.partition, 11);
    let share = pair.cluster.share_partition(GROUP, pair.partition).unwrap();
    assert_eq!((share.start_offset(), share.acquired_records()), (11, 1));
    let response = pair.accept(at(1), connection, 1, (0, 11), AcknowledgeType::ACCEPT);
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::NONE);
}

#[test]
fn a_group_can_start_at_the_end() {
    let mut pair = Pair::new();
    let config = GroupConfig { auto_offset_reset: AutoOffsetReset::Latest, ..Default::default() };
    pair.cluster.configure_group(GROUP, config);
    let connection = pair.cluster.connect(1).unwrap();
    assert_eq!(acquired(&pair.fetch(at(0), connection, 0)), []);
    pair.append(2);
    assert_eq!(acquired(&pair.fetch(at(0), connection, 1)), [(5, 6, 1)]);
}

#[test]
fn topics_are_deleted() {
    let mut pair = Pair::new();
    let connection = pair.cluster.connect(1).unwrap();
    pair.fetch(at(0), connection, 0);
    let again = pair.cluster.create_topic("topic", &[1]);
    assert_ne!(again, pair.partition.topic_id);
    let response = pair.fetch(at(0), connection, 1);
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    let response = pair.accept(at(0), connection, 2, (0, 4), AcknowledgeType::ACCEPT);
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(pair.cluster.next_deadline(), None);
}

/// A group may be configured never to let anything run out.
#[test]
fn durations_may_be_as_long_as_their_type() {
    let mut pair = Pair::new();
    let mut config = GroupConfig { session_timeout: Duration::MAX, ..Default::default() };
    config.locks.lock_duration = Duration::MAX;
    pair.cluster.configure_group(GROUP, config);
    let connection = pair.cluster.connect(1).unwrap();
    assert_eq!(acquired(&pair.fetch(at(1), connection, 0)), [(0, 4, 1)]);
    let heartbeat = ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "m".into(),
        subscribed_topic_names: Some(vec!["topic".into()]),
        ..Default::default()
    };
    let find =
        FindCoordinatorRequest { key_type: 0, coordinator_keys: vec![GROUP.into()], ..Default::default() };
    pair.cluster.send(at(1), connection, 4, find);
    pair.cluster.poll(at(1)).unwrap();
    pair.cluster.send(at(1), connection, 1, heartbeat);
    let BrokerResponse::ShareGroupHeartbeat(response) = pair.cluster.poll(at(1)).unwrap().response else {
        panic!()
    };
    assert_eq!(response.error_code, ErrorCode::NONE);
    assert_eq!(pair.cluster.next_deadline(), Some(Duration::MAX));
}
