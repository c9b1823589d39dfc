//! Partitions that another broker leads, and acknowledgements to a broker that is gone.

use kafka_protocol::messages::ShareFetchResponse;
use kafka_protocol::messages::share_fetch_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchableTopicResponse,
};
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Event, ShareConsumerConfig, ShareConsumerRequest, ShareConsumerResponse,
};

use super::driver::{Driver, SessionRequest, append, config, ms, offsets};
use super::{ACCEPT, explicit, one_partition};

/// The fetch at the old leader tells; then the session there is closed.
const WITHOUT_METADATA: [ApiKey; 2] = [ApiKey::SHARE_FETCH, ApiKey::SHARE_ACKNOWLEDGE];

/// The keys of the APIs asked from the last `sent.clear()` on, up to the first fetch at a node.
fn asked_before_a_fetch_at(driver: &Driver, node: i32) -> Vec<ApiKey> {
    let is_fetch_there =
        |of: &(i32, ShareConsumerRequest)| of.0 == node && of.1.api_key() == ApiKey::SHARE_FETCH;
    let first = driver.sent.iter().position(is_fetch_there).expect("a fetch at the new leader");
    driver.sent[..first].iter().map(|(_, request)| request.api_key()).collect()
}

#[test]
fn a_new_leader_is_followed_without_metadata() {
    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    append(&mut driver.cluster, partition, &[1]);
    driver.cluster.set_leader(driver.now, partition, Some(1));
    driver.sent.clear();
    let more = driver.wait_for_records();
    assert_eq!((more[0].node, offsets(&more)), (1, vec![(partition, 1)]));
    assert_eq!(asked_before_a_fetch_at(&driver, 1), WITHOUT_METADATA);
    // The old leader is forgotten once nothing is left to do there, with its connection.
    assert!(driver.disconnected.contains(&2));
}

/// What a former leader answers: the new one leads, and acknowledgements fail with this error.
fn moved(partition: TopicIdPartition, leader_id: i32, acknowledge_error: ErrorCode) -> ShareConsumerResponse {
    let row = PartitionData {
        partition_index: partition.partition,
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
        acknowledge_error_code: acknowledge_error,
        current_leader: LeaderIdAndEpoch { leader_id, leader_epoch: 1, ..Default::default() },
        ..Default::default()
    };
    let topic = ShareFetchableTopicResponse {
        topic_id: partition.topic_id,
        partitions: vec![row],
        ..Default::default()
    };
    let endpoint = NodeEndpoint {
        node_id: leader_id,
        host: format!("node-{leader_id}").into(),
        port: 9092,
        ..Default::default()
    };
    ShareFetchResponse { responses: vec![topic], node_endpoints: vec![endpoint], ..Default::default() }.into()
}

#[test]
fn a_new_leader_is_followed_whatever_became_of_the_acknowledgements() {
    // The first is what brokers of release 4.4.0 answer.
    for error in [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::NONE] {
        let (cluster, partition) = one_partition(&[1]);
        let mut driver = explicit(cluster);
        let records = driver.wait_for_records();
        driver.cluster.set_leader(driver.now, partition, Some(1));
        let mut left = 1;
        driver.answer = Box::new(move |request| {
            let is_fetch = request.api_key() == ApiKey::SHARE_FETCH;
            (is_fetch && std::mem::take(&mut left) == 1).then(|| moved(partition, 1, error))
        });
        driver.sent.clear();
        driver.acknowledge(&records, ACCEPT);
        driver.poll();
        assert_eq!(asked_before_a_fetch_at(&driver, 1), WITHOUT_METADATA, "{error:?}");
        assert_eq!(driver.outcomes(), [(0, 1, error.0)]);
        assert_eq!(driver.wait_for_records()[0].node, 1);
    }
}

#[test]
fn a_leader_that_names_itself_is_not_asked_again_at_once() {
    let (cluster, partition) = one_partition(&[]);
    let mut driver = explicit(cluster);
    driver.answer = Box::new(move |request| match request {
        ShareConsumerRequest::ShareFetch(_) => Some(moved(partition, 2, ErrorCode::NONE)),
        _ => None,
    });
    driver.poll();
    driver.pass(ms(6000));
    driver.sent.clear();
    driver.pass(ms(1000));
    let fetches = driver
        .sent
        .iter()
        .filter(|of| matches!(&of.1, ShareConsumerRequest::ShareFetch(fetch) if fetch.max_records > 0));
    let fetches = fetches.count();
    assert!((5..=11).contains(&fetches), "{fetches}");
}

#[test]
fn acknowledgements_of_a_leader_that_is_known_to_have_changed_fail_at_once() {
    let (cluster, partition) = one_partition(&[1]);
    let config = ShareConsumerConfig { metadata_max_age: ms(1000), ..config(AcknowledgementMode::Explicit) };
    let mut driver = Driver::new(cluster, config);
    let records = driver.wait_for_records();
    driver.cluster.set_leader(driver.now, partition, Some(1));
    driver.pass(ms(2000));
    driver.sent.clear();
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 1, ErrorCode::NOT_LEADER_OR_FOLLOWER.0)]);
    // The session there is closed, without any acknowledgement.
    let requests = driver.session_requests();
    let [SessionRequest::Acknowledge(2, close)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((close.share_session_epoch, close.topics.len()), (-1, 0));
}

#[test]
fn acknowledgements_that_wait_behind_a_request_fail_with_the_connection() {
    let (cluster, partition) = one_partition(&[3]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    let now = driver.now;
    let consumer = &mut driver.consumer;
    consumer.acknowledge(partition, 0, ACCEPT).unwrap();
    consumer.commit(now).unwrap();
    assert_eq!(consumer.drive(now).actions.len(), 1, "the first commit is in flight");
    consumer.acknowledge(partition, 1, ACCEPT).unwrap();
    let behind = consumer.commit(now).unwrap();
    consumer.acknowledge(partition, 2, ACCEPT).unwrap();
    let poll = consumer.poll(now).unwrap();
    assert_eq!((poll.actions, poll.events), (vec![], vec![]), "the others wait");
    driver.stop(2);
    driver.drive();
    assert!(driver.events.contains(&Event::Committed { commit: behind }));
    let mut outcomes = driver.outcomes();
    outcomes.sort_unstable();
    let failed = ErrorCode::NETWORK_EXCEPTION.0;
    assert_eq!(outcomes, [(0, 1, failed), (1, 1, failed), (2, 1, failed)]);
    assert_eq!(driver.consumer.metrics().acknowledgements_error.total(), 3);
}

#[test]
fn acknowledgements_fail_over_another_connection_to_the_same_broker() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    // Without the broker to begin with, which coordinates the group too, the leader is the one to ask for metadata.
    driver.stop(1);
    driver.stop(2);
    driver.cluster.start(2);
    driver.pass(ms(5000));
    assert!(driver.links.contains_key(&2), "there is a connection again: {:?}", driver.links);
    driver.sent.clear();
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 1, ErrorCode::NETWORK_EXCEPTION.0)]);
    assert!(driver.session_requests().is_empty(), "nothing is sent");
}
