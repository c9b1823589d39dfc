//! Section 2.5: heartbeats; and what a member finds out before it sends one.

use std::time::Duration;

use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::{ApiVersionsRequest, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::share::broker::{BrokerResponse, ClusterConfig};

use super::Row;
use super::broker::{Broker, GROUP};

pub(super) const ROWS: &[Row] = &[
    ("2.5: FindCoordinator first", find_coordinator_first),
    ("2.5: what a member must send", what_a_member_must_send),
    ("2.5: unknown groups and members", unknown_groups_and_members),
    ("2.5: epochs and assignments", epochs_and_assignments),
    ("2.5: a topic that does not exist", a_topic_that_does_not_exist),
    ("2.5: a full group", a_full_group),
    ("9.1: a member that is silent", a_silent_member),
    ("9.2: several members", several_members),
    ("9.2: ApiVersions and Metadata", api_versions_and_metadata),
];

/// A heartbeat, after somebody has asked for the coordinator.
pub(super) fn heartbeat(
    broker: &mut Broker,
    member: &str,
    epoch: i32,
    topics: Option<&[&str]>,
) -> ShareGroupHeartbeatResponse {
    find_coordinator(broker);
    send(broker, request(member, epoch, topics))
}

fn request(member: &str, epoch: i32, topics: Option<&[&str]>) -> ShareGroupHeartbeatRequest {
    ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member.into(),
        member_epoch: epoch,
        subscribed_topic_names: topics.map(|names| names.iter().map(|name| (*name).into()).collect()),
        ..Default::default()
    }
}

fn send(broker: &mut Broker, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse {
    let connection = broker.connection("heartbeats");
    let BrokerResponse::ShareGroupHeartbeat(response) = broker.ask(connection, 1, request) else { panic!() };
    response
}

fn find_coordinator(broker: &mut Broker) -> (i32, String, i32) {
    let request = FindCoordinatorRequest { coordinator_keys: vec![GROUP.into()], ..Default::default() };
    let connection = broker.connection("heartbeats");
    let BrokerResponse::FindCoordinator(response) = broker.ask(connection, 4, request) else { panic!() };
    let found = &response.coordinators[0];
    assert_eq!((found.error_code, found.key.as_str()), (ErrorCode::NONE, GROUP));
    (found.node_id, found.host.to_string(), found.port)
}

/// The partitions of an assignment; `None` when it has not changed.
fn assigned(response: &ShareGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let assignment = response.assignment.as_ref()?;
    Some(assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.iter().copied()).collect())
}

fn find_coordinator_first() {
    let mut broker = Broker::new();
    assert_eq!(send(&mut broker, request("m", 0, Some(&["topic"]))).error_code.0, 16);
    assert_eq!(find_coordinator(&mut broker), (1, "node-1".to_owned(), 9092));
    assert_eq!(send(&mut broker, request("m", 0, Some(&["topic"]))).error_code, ErrorCode::NONE);
}

fn what_a_member_must_send() {
    let mut broker = Broker::new();
    find_coordinator(&mut broker);
    let (long, long_in_utf_16) = ("m".repeat(37), "😀".repeat(19));
    let wrong = [
        request("m", 0, None),
        request("m", 0, Some(&[])),
        ShareGroupHeartbeatRequest { rack_id: Some("".into()), ..request("m", 0, Some(&["topic"])) },
        request("", 0, Some(&["topic"])),
        request(&long, 0, Some(&["topic"])),
        request(&long_in_utf_16, 0, Some(&["topic"])),
        request("m", -2, None),
    ];
    for request in wrong {
        assert_eq!(send(&mut broker, request).error_code, ErrorCode::INVALID_REQUEST);
    }
}

fn unknown_groups_and_members() {
    let mut broker = Broker::new();
    find_coordinator(&mut broker);
    for epoch in [1, -1] {
        let unknown = ShareGroupHeartbeatRequest { group_id: "nobody".into(), ..request("m", epoch, None) };
        assert_eq!(send(&mut broker, unknown).error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    }
    heartbeat(&mut broker, "m", 0, Some(&["topic"]));
    for epoch in [1, -1] {
        assert_eq!(heartbeat(&mut broker, "n", epoch, None).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    }
}

fn epochs_and_assignments() {
    let mut broker = Broker::new();
    let all: Vec<i32> = (0..20).collect();
    let joined = heartbeat(&mut broker, "m", 0, Some(&["topic"]));
    assert_eq!((joined.member_epoch, joined.heartbeat_interval_ms), (2, 5000));
    assert_eq!((joined.member_id.as_deref(), assigned(&joined)), (Some("m"), Some(vec![])));
    let next = heartbeat(&mut broker, "m", 2, None);
    assert_eq!((next.member_epoch, assigned(&next)), (3, Some(all.clone())));
    let again = heartbeat(&mut broker, "m", 3, None);
    assert_eq!((again.member_epoch, assigned(&again)), (3, None));
    // The epoch before is good too, one that has not been given is not.
    let previous = heartbeat(&mut broker, "m", 2, None);
    assert_eq!((previous.member_epoch, assigned(&previous)), (3, None));
    assert_eq!(heartbeat(&mut broker, "m", 10, None).error_code, ErrorCode::FENCED_MEMBER_EPOCH);
    // Whoever names topics is told its assignment.
    assert_eq!(assigned(&heartbeat(&mut broker, "m", 3, Some(&["topic"]))), Some(all));
    let left = heartbeat(&mut broker, "m", -1, None);
    assert_eq!((left.member_epoch, left.heartbeat_interval_ms), (-1, 0));
}

fn a_topic_that_does_not_exist() {
    let mut broker = Broker::new();
    heartbeat(&mut broker, "m", 0, Some(&["topic", "missing"]));
    assert_eq!(assigned(&heartbeat(&mut broker, "m", 2, None)).map(|of| of.len()), Some(20));
}

fn a_full_group() {
    let mut broker = Broker::with(ClusterConfig { max_group_size: 2, ..Default::default() });
    for (member, code) in [("a", 0), ("b", 0), ("c", 81), ("a", 0)] {
        assert_eq!(heartbeat(&mut broker, member, 0, Some(&["topic"])).error_code.0, code);
    }
}

fn a_silent_member() {
    let mut broker = Broker::new();
    heartbeat(&mut broker, "m", 0, Some(&["topic"]));
    assert_eq!(broker.cluster.next_deadline(), Some(Duration::from_secs(45)));
    broker.now = Duration::from_secs(45);
    assert_eq!(heartbeat(&mut broker, "m", 2, None).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

fn several_members() {
    let mut broker = Broker::new();
    let one = broker.cluster.create_topic("one", &[1]);
    for member in ["a", "b"] {
        heartbeat(&mut broker, member, 0, Some(&["topic", "one"]));
    }
    let mut all = Vec::new();
    for member in ["a", "b"] {
        let epoch = heartbeat(&mut broker, member, 0, Some(&["topic", "one"])).member_epoch;
        let response = heartbeat(&mut broker, member, epoch, Some(&["topic", "one"]));
        let topics = response.assignment.unwrap().topic_partitions;
        // More members than partitions: all have it.
        assert!(topics.iter().any(|topic| topic.topic_id == one && topic.partitions[..] == [0]));
        let twenty = topics.iter().find(|topic| topic.topic_id != one).unwrap();
        assert_eq!(twenty.partitions.len(), 10);
        all.extend(twenty.partitions.iter().copied());
    }
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

fn api_versions_and_metadata() {
    let mut broker = Broker::with(ClusterConfig { max_share_fetch_version: 1, ..Default::default() });
    let connection = broker.connection("m");
    let response = broker.ask(connection, 4, ApiVersionsRequest::default());
    let BrokerResponse::ApiVersions(response) = response else { panic!() };
    let versions = |key: ApiKey| {
        let row = response.api_keys.iter().find(|row| row.api_key == key.0).unwrap();
        (row.min_version, row.max_version)
    };
    assert_eq!((versions(ApiKey::SHARE_FETCH), versions(ApiKey::SHARE_GROUP_HEARTBEAT)), ((1, 1), (1, 1)));
    assert_eq!(response.finalized_features[0].max_version_level, 2);

    let asked = |name: &str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request =
        MetadataRequest { topics: Some(vec![asked("topic"), asked("missing")]), ..Default::default() };
    let BrokerResponse::Metadata(response) = broker.ask(connection, 12, request) else { panic!() };
    assert_eq!(response.brokers[0].host, "node-1");
    let topic = &response.topics[0];
    assert_eq!((topic.topic_id, topic.partitions.len()), (broker.topic_id, 20));
    assert_eq!((topic.partitions[3].leader_id, topic.partitions[3].partition_index), (1, 3));
    assert_eq!(response.topics[1].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}
