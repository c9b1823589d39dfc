//! What goes wrong at the coordinator, at leaders, and between.

use std::cell::Cell;
use std::rc::Rc;

use kafka_protocol::messages::share_acknowledge_response as acknowledged;
use kafka_protocol::messages::share_fetch_response as fetched;
use kafka_protocol::messages::{
    FindCoordinatorResponse, MetadataResponse, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupHeartbeatResponse, find_coordinator_response,
};
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::share::broker::ClusterConfig;
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Event, ShareConsumerConfig, ShareConsumerRequest, ShareConsumerResponse,
};
use kafka_protocol::share::{FetchSizes, ShareAcquireMode, TopicIdPartition};

use super::driver::{Driver, SessionRequest, append, cluster, config, ms};
use super::{ACCEPT, COORDINATOR, explicit, implicit, one_partition};

fn heartbeat_error(error_code: ErrorCode) -> ShareConsumerResponse {
    ShareGroupHeartbeatResponse { error_code, error_message: Some("why".into()), ..Default::default() }.into()
}

/// Answers the next heartbeat with an error.
fn fail_a_heartbeat(driver: &mut Driver, error: ErrorCode) {
    let mut left = 1;
    driver.answer = Box::new(move |request| {
        let is_heartbeat = request.api_key() == ApiKey::SHARE_GROUP_HEARTBEAT;
        (is_heartbeat && std::mem::take(&mut left) == 1).then(|| heartbeat_error(error))
    });
}

/// Member epoch of each heartbeat, and whether it told everything.
fn heartbeats(driver: &Driver) -> Vec<(i32, bool)> {
    let sent = driver.sent.iter().filter_map(|(_, request)| match request {
        ShareConsumerRequest::ShareGroupHeartbeat(heartbeat) => {
            Some((heartbeat.member_epoch, heartbeat.subscribed_topic_names.is_some()))
        }
        _ => None,
    });
    sent.collect()
}

fn count(driver: &Driver, api_key: ApiKey) -> usize {
    driver.sent.iter().filter(|(_, request)| request.api_key() == api_key).count()
}

#[test]
fn a_fenced_member_joins_again_at_once() {
    for error in [ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::GROUP_ID_NOT_FOUND]
    {
        let (cluster, partition) = one_partition(&[1]);
        let mut driver = implicit(cluster);
        driver.wait_for_records();
        fail_a_heartbeat(&mut driver, error);
        driver.sent.clear();
        driver.events.clear();
        driver.pass(ms(5000));
        let heartbeats = heartbeats(&driver);
        assert!(heartbeats[0].0 > 0 && heartbeats[1] == (0, true), "{error:?}: {heartbeats:?}");
        assert_eq!(driver.events[0], Event::Assigned { partitions: vec![] }, "{error:?}");
        driver.pass(ms(6000));
        assert!(driver.events.contains(&Event::Assigned { partitions: vec![partition] }), "{error:?}");
    }
}

#[test]
fn another_coordinator_is_looked_up() {
    for error in [ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_NOT_AVAILABLE] {
        let (cluster, _) = one_partition(&[1]);
        let mut driver = implicit(cluster);
        driver.wait_for_records();
        fail_a_heartbeat(&mut driver, error);
        driver.sent.clear();
        driver.disconnected.clear();
        driver.pass(ms(6000));
        assert_eq!(count(&driver, ApiKey::FIND_COORDINATOR), 1, "{error:?}");
        assert_eq!(driver.disconnected, [COORDINATOR], "{error:?}");
        let heartbeats = heartbeats(&driver);
        assert!(heartbeats[1].0 > 0 && heartbeats[1].1, "everything is told again: {heartbeats:?}");
    }
}

#[test]
fn a_coordinator_that_loads_is_asked_again_later() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.wait_for_records();
    driver.answer = Box::new(|request| {
        let is_heartbeat = request.api_key() == ApiKey::SHARE_GROUP_HEARTBEAT;
        is_heartbeat.then(|| heartbeat_error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS))
    });
    driver.pass(ms(5000));
    driver.sent.clear();
    driver.pass(ms(10_000));
    // 100 ms, doubled up to a second.
    let heartbeats = heartbeats(&driver).len();
    assert!((10..=14).contains(&heartbeats), "{heartbeats}");
    assert_eq!(count(&driver, ApiKey::FIND_COORDINATOR), 0);
}

#[test]
fn errors_that_no_retry_helps_against_end_the_consumer() {
    let fatal = [
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::GROUP_MAX_SIZE_REACHED,
        ErrorCode::UNSUPPORTED_VERSION,
    ];
    for error in fatal {
        let (cluster, _) = one_partition(&[1]);
        let mut driver = explicit(cluster);
        let records = driver.wait_for_records();
        driver.acknowledge(&records, ACCEPT);
        fail_a_heartbeat(&mut driver, error);
        driver.pass(ms(6000));
        let failed = Event::Failed { error, message: Some("why".into()) };
        assert_eq!(driver.events.last(), Some(&failed));
        assert!(driver.consumer.is_closed() && driver.links.is_empty() && driver.deadline.is_none());
    }
    // At epoch 0 the group is one of another type.
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    fail_a_heartbeat(&mut driver, ErrorCode::GROUP_ID_NOT_FOUND);
    driver.poll();
    driver.pass(ms(1000));
    assert!(matches!(driver.events.last(), Some(Event::Failed { error: ErrorCode::GROUP_ID_NOT_FOUND, .. })));
}

#[test]
fn a_member_that_may_not_read_a_topic_goes_on() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.wait_for_records();
    fail_a_heartbeat(&mut driver, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    driver.sent.clear();
    driver.pass(ms(11_000));
    let error = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    assert!(driver.events.contains(&Event::NodeError {
        node: COORDINATOR,
        error,
        message: Some("why".into())
    }));
    assert!(heartbeats(&driver).len() >= 2 && !driver.consumer.is_closed());
}

#[test]
fn share_groups_that_are_switched_off_end_the_consumer() {
    let config = ClusterConfig { share_version: 0, ..Default::default() };
    let (cluster, _) = cluster(config, &[2]);
    let mut driver = implicit(cluster);
    driver.poll();
    driver.pass(ms(1000));
    assert!(matches!(driver.events[..], [Event::Failed { error: ErrorCode::UNSUPPORTED_VERSION, .. }]));
}

#[test]
fn a_coordinator_that_cannot_be_found_is_asked_for_again() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    let mut left = 3;
    driver.answer = Box::new(move |request| {
        if request.api_key() != ApiKey::FIND_COORDINATOR || left == 0 {
            return None;
        }
        left -= 1;
        let error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        let row =
            find_coordinator_response::Coordinator { key: "g".into(), error_code, ..Default::default() };
        Some(FindCoordinatorResponse { coordinators: vec![row], ..Default::default() }.into())
    });
    driver.wait_for_records();
    assert_eq!(count(&driver, ApiKey::FIND_COORDINATOR), 4);

    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.answer = Box::new(|request| {
        let error_code = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        let row =
            find_coordinator_response::Coordinator { key: "g".into(), error_code, ..Default::default() };
        let is_find = request.api_key() == ApiKey::FIND_COORDINATOR;
        is_find.then(|| FindCoordinatorResponse { coordinators: vec![row], ..Default::default() }.into())
    });
    driver.poll();
    assert!(matches!(
        driver.events[..],
        [Event::Failed { error: ErrorCode::GROUP_AUTHORIZATION_FAILED, .. }]
    ));
}

/// A fetch answer with an error for a partition.
fn fetch_row(partition: TopicIdPartition, error_code: ErrorCode) -> ShareFetchResponse {
    let row = fetched::PartitionData {
        partition_index: partition.partition,
        error_code,
        error_message: Some("why".into()),
        ..Default::default()
    };
    let topic = fetched::ShareFetchableTopicResponse {
        topic_id: partition.topic_id,
        partitions: vec![row],
        ..Default::default()
    };
    ShareFetchResponse { responses: vec![topic], ..Default::default() }
}

#[test]
fn a_partition_that_is_refused_is_left_alone_for_a_while() {
    // The error, how often it is asked for again within two seconds, and whether that is told.
    let table = [
        (ErrorCode::UNKNOWN_TOPIC_ID, 5..=25, false),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 5..=25, false),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, 5..=25, false),
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, 1..=3, true),
        (ErrorCode::UNKNOWN_SERVER_ERROR, 1..=3, true),
    ];
    for (error, often, is_told) in table {
        let (cluster, partition) = one_partition(&[1]);
        let mut driver = implicit(cluster);
        driver.wait_for_records();
        driver.answer = Box::new(move |request| match request {
            ShareConsumerRequest::ShareFetch(fetch) if fetch.max_records > 0 => {
                Some(fetch_row(partition, error).into())
            }
            _ => None,
        });
        driver.events.clear();
        driver.sent.clear();
        driver.poll();
        driver.pass(ms(2000));
        let fetches = driver.sent.iter().filter(
            |(_, request)| matches!(request, ShareConsumerRequest::ShareFetch(fetch) if fetch.max_records > 0),
        );
        let fetches = fetches.count();
        assert!(often.contains(&fetches), "{error:?}: {fetches} fetches");
        let told = Event::PartitionError { partition, error, message: Some("why".into()) };
        assert_eq!(driver.events.contains(&told), is_told, "{error:?}");
        let metadata = count(&driver, ApiKey::METADATA);
        let asks = error.is_retriable();
        assert!(if asks { (3..=25).contains(&metadata) } else { metadata == 0 }, "{error:?}: {metadata}");
    }
}

#[test]
fn a_session_that_is_gone_is_opened_again() {
    for error in [ErrorCode::SHARE_SESSION_NOT_FOUND, ErrorCode::INVALID_SHARE_SESSION_EPOCH] {
        let (cluster, partition) = one_partition(&[1]);
        let mut driver = explicit(cluster);
        let records = driver.wait_for_records();
        append(&mut driver.cluster, partition, &[1]);
        let mut left = 1;
        driver.answer = Box::new(move |request| {
            let is_fetch = request.api_key() == ApiKey::SHARE_FETCH;
            let fails = is_fetch && std::mem::take(&mut left) == 1;
            fails.then(|| ShareFetchResponse { error_code: error, ..Default::default() }.into())
        });
        driver.acknowledge(&records, ACCEPT);
        driver.session_requests();
        driver.poll();
        let requests = driver.session_requests();
        let [SessionRequest::Fetch(2, _), SessionRequest::Fetch(2, open), ..] = &requests[..] else {
            panic!("{requests:?}")
        };
        assert_eq!((open.share_session_epoch, open.topics.len()), (0, 1));
        assert_eq!(driver.outcomes(), [(0, 1, error.0)]);
        let more = driver.wait_for_records();
        assert_eq!(more[0].records[0].record.offset(), 1, "{error:?}");
    }
}

#[test]
fn a_full_node_is_asked_again_later() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.answer = Box::new(|request| {
        let error_code = ErrorCode::SHARE_SESSION_LIMIT_REACHED;
        let is_fetch = request.api_key() == ApiKey::SHARE_FETCH;
        is_fetch.then(|| ShareFetchResponse { error_code, ..Default::default() }.into())
    });
    driver.poll();
    driver.pass(ms(10_000));
    let fetches = count(&driver, ApiKey::SHARE_FETCH);
    assert!((5..=13).contains(&fetches), "{fetches}");
    driver.answer = Box::new(|_| None);
    driver.wait_for_records();
}

/// An answer to a ShareAcknowledge with one partition.
fn acknowledge_row(partition: TopicIdPartition, error_code: ErrorCode) -> ShareAcknowledgeResponse {
    let row = acknowledged::PartitionData {
        partition_index: partition.partition,
        error_code,
        ..Default::default()
    };
    let topic = acknowledged::ShareAcknowledgeTopicResponse {
        topic_id: partition.topic_id,
        partitions: vec![row],
        ..Default::default()
    };
    ShareAcknowledgeResponse { responses: vec![topic], ..Default::default() }
}

/// Answers every ShareAcknowledge with an error of its partition.
fn refuse_acknowledgements(
    driver: &mut Driver,
    partition: TopicIdPartition,
    error: ErrorCode,
) -> Rc<Cell<usize>> {
    let refused = Rc::new(Cell::new(0));
    let counter = refused.clone();
    driver.answer = Box::new(move |request| {
        let is_acknowledge = request.api_key() == ApiKey::SHARE_ACKNOWLEDGE;
        is_acknowledge.then(|| {
            counter.set(counter.get() + 1);
            acknowledge_row(partition, error).into()
        })
    });
    refused
}

#[test]
fn a_commit_is_retried_unless_the_locks_are_gone() {
    let gone = [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::FENCED_LEADER_EPOCH,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::UNKNOWN_TOPIC_ID,
        ErrorCode::INVALID_RECORD_STATE,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ];
    for error in gone {
        let (cluster, partition) = one_partition(&[1]);
        let mut driver = explicit(cluster);
        let records = driver.wait_for_records();
        let refused = refuse_acknowledgements(&mut driver, partition, error);
        driver.acknowledge(&records, ACCEPT);
        let commit = driver.consumer.commit(driver.now).unwrap();
        driver.drive();
        assert_eq!(driver.events.last(), Some(&Event::Committed { commit }), "{error:?}");
        assert_eq!((driver.outcomes(), refused.get()), (vec![(0, 1, error.0)], 1), "{error:?}");
    }

    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    let refused = refuse_acknowledgements(&mut driver, partition, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    driver.acknowledge(&records, ACCEPT);
    let commit = driver.consumer.commit(driver.now).unwrap();
    driver.pass(ms(1000));
    assert!((8..=11).contains(&refused.get()), "{refused:?}");
    assert_eq!(driver.outcomes(), []);
    driver.answer = Box::new(|_| None);
    driver.pass(ms(200));
    assert_eq!(driver.events.last(), Some(&Event::Committed { commit }));
    assert_eq!(driver.outcomes(), [(0, 1, 0)]);
}

#[test]
fn a_commit_gives_up_in_the_end() {
    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    refuse_acknowledgements(&mut driver, partition, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    driver.acknowledge(&records, ACCEPT);
    let commit = driver.consumer.commit(driver.now).unwrap();
    driver.pass(ms(59_000));
    assert_eq!(driver.outcomes(), []);
    driver.pass(ms(2000));
    assert_eq!(driver.events.last(), Some(&Event::Committed { commit }));
    let errors = [ErrorCode::COORDINATOR_NOT_AVAILABLE.0, ErrorCode::REQUEST_TIMED_OUT.0];
    assert!(matches!(driver.outcomes()[..], [(0, 1, error)] if errors.contains(&error)));
}

#[test]
fn acknowledgements_without_a_connection_fail_at_once() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    driver.stop(2);
    driver.acknowledge(&records, ACCEPT);
    let commit = driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.events.last(), Some(&Event::Committed { commit }));
    assert_eq!(driver.outcomes(), [(0, 1, ErrorCode::NETWORK_EXCEPTION.0)]);
    driver.cluster.start(2);
    let again = driver.wait_for_records();
    assert_eq!(again[0].records[0].record.offset(), 0);
}

#[test]
fn a_node_that_does_not_answer_is_given_up() {
    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    let poll = driver.consumer.drive(driver.now);
    assert_eq!(poll.actions.len(), 1, "the request goes nowhere");
    driver.disconnected.clear();
    driver.pass(ms(29_000));
    assert_eq!((driver.outcomes(), driver.disconnected.len()), (vec![], 0));
    driver.pass(ms(2000));
    assert_eq!(driver.outcomes(), [(0, 1, ErrorCode::REQUEST_TIMED_OUT.0)]);
    assert_eq!(driver.disconnected, [2]);
    let again = driver.wait_for_records();
    assert_eq!((again[0].partition, again[0].records[0].record.offset()), (partition, 0));
}

#[test]
fn an_answer_of_another_api_ends_the_connection() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    let mut left = 1;
    driver.answer = Box::new(move |request| {
        let is_fetch = request.api_key() == ApiKey::SHARE_FETCH;
        (is_fetch && std::mem::take(&mut left) == 1).then(|| MetadataResponse::default().into())
    });
    driver.wait_for_records();
    assert_eq!(driver.disconnected, [2]);
}

#[test]
fn the_next_bootstrap_broker_is_tried() {
    let (mut cluster, partitions) = cluster(ClusterConfig::default(), &[2]);
    append(&mut cluster, partitions[0], &[1]);
    cluster.stop(ms(0), 1);
    let mut config = config(AcknowledgementMode::Implicit);
    config.bootstrap.push(("node-2".into(), 9092));
    let mut consumer = kafka_protocol::share::ShareConsumer::new(config);
    consumer.subscribe(ms(0), ["t"]).unwrap();
    let mut poll = consumer.poll(ms(0)).unwrap();
    let mut hosts = Vec::new();
    for now in 0..20 {
        for action in std::mem::take(&mut poll.actions) {
            if let kafka_protocol::share::consumer::Action::Connect { node, host, .. } = action {
                hosts.push(host.to_string());
                consumer.disconnected(ms(now), node);
            }
        }
        poll = consumer.drive(ms(now));
    }
    assert_eq!(hosts, ["node-1", "node-2"], "then it waits");
    assert_eq!(poll.deadline, Some(ms(100)));
}

#[test]
fn a_leader_that_throttles_is_left_alone_for_so_long() {
    for acquire_mode in [ShareAcquireMode::BatchOptimized, ShareAcquireMode::RecordLimit] {
        let (mut cluster, partitions) = cluster(ClusterConfig::default(), &[2]);
        append(&mut cluster, partitions[0], &[1]);
        let fetch = FetchSizes { acquire_mode, ..Default::default() };
        let config = ShareConsumerConfig { fetch, ..config(AcknowledgementMode::Implicit) };
        let mut driver = Driver::new(cluster, config);
        driver.wait_for_records();
        let mut left = 1;
        driver.answer = Box::new(move |request| {
            let is_fetch = request.api_key() == ApiKey::SHARE_FETCH;
            let throttled = ShareFetchResponse { throttle_time_ms: 6000, ..Default::default() };
            (is_fetch && std::mem::take(&mut left) == 1).then(|| throttled.into())
        });
        driver.poll();
        driver.sent.clear();
        driver.pass(ms(5999));
        assert!(driver.session_requests().is_empty(), "{acquire_mode:?}");
        assert_eq!(driver.deadline.map(|at| at <= driver.now + ms(1)), Some(true));
        driver.poll();
        assert!(driver.session_requests().is_empty(), "{acquire_mode:?}");
        driver.pass(ms(1));
        assert!(!driver.session_requests().is_empty(), "{acquire_mode:?}");
    }
}

#[test]
fn a_coordinator_that_throttles_gets_its_heartbeats_later() {
    let (cluster, _) = cluster(ClusterConfig::default(), &[2]);
    let mut driver = Driver::new(cluster, config(AcknowledgementMode::Implicit));
    driver.answer = Box::new(|request| {
        let is_heartbeat = request.api_key() == ApiKey::SHARE_GROUP_HEARTBEAT;
        let throttle_time_ms = 8000;
        let accepted = ShareGroupHeartbeatResponse {
            throttle_time_ms,
            member_epoch: 1,
            heartbeat_interval_ms: 1000,
            ..Default::default()
        };
        is_heartbeat.then(|| accepted.into())
    });
    driver.pass(ms(39_000));
    assert_eq!(heartbeats(&driver).len(), 5, "one each 8 seconds");
}

#[test]
fn a_coordinator_that_fences_joining_members_for_ever_is_asked_with_pauses() {
    for error in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_MEMBER_EPOCH] {
        let (cluster, _) = cluster(ClusterConfig::default(), &[2]);
        let mut driver = Driver::new(cluster, config(AcknowledgementMode::Implicit));
        driver.answer = Box::new(move |request| {
            let is_heartbeat = request.api_key() == ApiKey::SHARE_GROUP_HEARTBEAT;
            is_heartbeat.then(|| heartbeat_error(error))
        });
        driver.pass(ms(10_000));
        let heartbeats = heartbeats(&driver).len();
        assert!((8..=15).contains(&heartbeats), "{heartbeats} after {error}");
    }
}
