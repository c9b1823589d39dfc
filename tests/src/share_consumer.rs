//! The share consumer, call by call.

mod driver;
mod errors;
mod hostile;
mod leaders;
mod renewals;

use std::time::Duration;

use kafka_protocol::connection::{Config, Connection};
use kafka_protocol::messages::{MetadataResponse, ShareFetchResponse};
use kafka_protocol::protocol::{AcknowledgeType, ApiKey, ErrorCode};
use kafka_protocol::records::{BatchBuilder, NewRecord, ReadOptions};
use kafka_protocol::share::broker::{Cluster, ClusterConfig, GroupConfig};
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Event, ShareConsumer, ShareConsumerConfig, ShareConsumerError, ShareConsumerRequest,
};
use kafka_protocol::share::locks::LockConfig;
use kafka_protocol::share::{FetchSizes, ShareAcquireMode, TopicIdPartition};

use self::driver::{Driver, SessionRequest, append, cluster, config, ms, offsets};

const ACCEPT: AcknowledgeType = AcknowledgeType::ACCEPT;
const COORDINATOR: i32 = i32::MAX - 1;

fn explicit(cluster: Cluster) -> Driver {
    Driver::new(cluster, config(AcknowledgementMode::Explicit))
}

fn implicit(cluster: Cluster) -> Driver {
    Driver::new(cluster, config(AcknowledgementMode::Implicit))
}

/// One partition led by node 2 with these record batches.
fn one_partition(batches: &[usize]) -> (Cluster, TopicIdPartition) {
    let (mut cluster, partitions) = cluster(ClusterConfig::default(), &[2]);
    append(&mut cluster, partitions[0], batches);
    (cluster, partitions[0])
}

fn lock_config(lock: u64) -> GroupConfig {
    GroupConfig { locks: LockConfig { lock_duration: ms(lock), ..Default::default() }, ..Default::default() }
}

#[test]
fn a_consumer_joins_and_fetches_in_the_order_of_the_protocol() {
    let (cluster, partition) = one_partition(&[3]);
    let mut driver = implicit(cluster);
    assert_eq!(driver.consumer.acquisition_lock_timeout(), None);
    let records = driver.wait_for_records();
    assert_eq!(offsets(&records), [(partition, 0), (partition, 1), (partition, 2)]);
    assert_eq!((&records[0].topic[..], records[0].node), ("t", 2));
    for acquired in &records[0].records {
        assert_eq!((acquired.delivery_count, acquired.record.value()), (1, Some(&b"v"[..])));
        let fetched = acquired.lock_deadline.unwrap() - ms(30_000);
        assert!(fetched <= driver.now && fetched + ms(600) > driver.now);
    }
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(30_000)));
    assert!(driver.consumer.assignment().eq([partition]));

    let mut sent = driver.sent.iter();
    let Some((-1, ShareConsumerRequest::FindCoordinator(find))) = sent.next() else {
        panic!("first the coordinator")
    };
    assert_eq!((find.key_type, &find.coordinator_keys[..]), (0, &["g".into()][..]));
    let Some((-1, ShareConsumerRequest::Metadata(_))) = sent.next() else { panic!("then metadata") };
    let Some((COORDINATOR, ShareConsumerRequest::ShareGroupHeartbeat(join))) = sent.next() else {
        panic!("the coordinator has a connection of its own")
    };
    assert_eq!((join.member_epoch, &join.group_id[..], &join.member_id[..]), (0, "g", "m"));
    assert_eq!(join.subscribed_topic_names.as_deref(), Some(&["t".into()][..]));
    let heartbeat = sent.find_map(|(_, request)| match request {
        ShareConsumerRequest::ShareGroupHeartbeat(heartbeat) => Some(heartbeat),
        _ => None,
    });
    let heartbeat = heartbeat.expect("the assignment comes with a later one");
    assert!(heartbeat.member_epoch > 0 && heartbeat.subscribed_topic_names.is_none());

    let requests = driver.session_requests();
    let [SessionRequest::Fetch(2, open), ..] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((open.share_session_epoch, open.topics.len(), open.max_records), (0, 1, 500));
}

#[test]
fn heartbeats_go_on_while_the_application_is_busy() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.wait_for_records();
    driver.sent.clear();
    driver.pass(ms(20_000));
    let heartbeats =
        driver.sent.iter().filter(|(_, request)| request.api_key() == ApiKey::SHARE_GROUP_HEARTBEAT);
    assert_eq!(heartbeats.count(), 4, "one each 5 seconds");
    assert!(driver.session_requests().is_empty(), "nothing is fetched that nobody asked for");
}

/// The epochs of the heartbeats that were sent since the last call.
fn heartbeat_epochs(driver: &mut Driver) -> Vec<i32> {
    let sent = std::mem::take(&mut driver.sent).into_iter();
    sent.filter_map(|(_, request)| match request {
        ShareConsumerRequest::ShareGroupHeartbeat(heartbeat) => Some(heartbeat.member_epoch),
        _ => None,
    })
    .collect()
}

#[test]
fn a_member_that_does_not_poll_leaves_and_joins_again_with_the_next_poll() {
    let (mut cluster, partition) = one_partition(&[2]);
    // Locks that outlast the poll interval.
    cluster.configure_group("g", lock_config(3_600_000));
    let interval = ms(12_000);
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig { max_poll_interval: interval, ..config(AcknowledgementMode::Explicit) },
    );
    let records = driver.wait_for_records();
    heartbeat_epochs(&mut driver);
    driver.events.clear();

    driver.pass(interval - ms(1));
    let epochs = heartbeat_epochs(&mut driver);
    assert!(!epochs.contains(&-1) && driver.events.is_empty(), "{epochs:?}, {:?}", driver.events);
    driver.pass(ms(1));
    assert_eq!(driver.events, [Event::PollIntervalExpired, Event::Assigned { partitions: vec![] }]);
    assert_eq!(driver.consumer.assignment().len(), 0);
    driver.events.clear();
    driver.pass(ms(60_000));
    assert_eq!(heartbeat_epochs(&mut driver), [-1], "it leaves once, and says no more");
    assert_eq!(driver.events, []);

    // What it has in hand is still its own.
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 1, 0)]);

    append(&mut driver.cluster, partition, &[1]);
    assert_eq!(offsets(&driver.wait_for_records()), [(partition, 2)]);
    assert_eq!(heartbeat_epochs(&mut driver)[0], 0);
}

#[test]
fn a_poll_before_leaving_is_answered_makes_the_member_join_again() {
    let (cluster, partition) = one_partition(&[1]);
    let interval = ms(12_000);
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig { max_poll_interval: interval, ..config(AcknowledgementMode::Implicit) },
    );
    driver.wait_for_records();
    driver.pass(interval - ms(1));
    driver.sent.clear();
    driver.now += ms(1);
    let leaving = driver.consumer.drive(driver.now);
    assert!(leaving.events.contains(&Event::PollIntervalExpired), "{leaving:?}");
    let mut poll = driver.consumer.poll(driver.now).unwrap();
    poll.actions.splice(0..0, leaving.actions);
    driver.follow(poll);
    append(&mut driver.cluster, partition, &[1]);
    assert_eq!(offsets(&driver.wait_for_records()), [(partition, 1)]);
    assert_eq!(heartbeat_epochs(&mut driver)[..2], [-1, 0]);
}

#[test]
fn a_consumer_without_a_poll_interval_has_all_the_time() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig { max_poll_interval: Duration::MAX, ..config(AcknowledgementMode::Implicit) },
    );
    driver.wait_for_records();
    driver.events.clear();
    driver.pass(ms(3_600_000));
    assert_eq!(driver.consumer.assignment().len(), 1);
    assert!(driver.events.is_empty(), "{:?}", driver.events);
}

#[test]
fn in_implicit_mode_the_next_poll_accepts() {
    let (mut cluster, partition) = one_partition(&[3]);
    append(&mut cluster, partition, &[2]);
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig {
            fetch: FetchSizes { max_records: 3, ..Default::default() },
            ..config(AcknowledgementMode::Implicit)
        },
    );
    let first = driver.wait_for_records();
    assert_eq!(driver.consumer.acknowledge(partition, 0, ACCEPT), Err(ShareConsumerError::ImplicitMode));
    driver.session_requests();
    driver.poll();
    let requests = driver.session_requests();
    let [SessionRequest::Fetch(2, piggyback), ..] = &requests[..] else { panic!("{requests:?}") };
    let batches = &piggyback.topics[0].partitions[0].acknowledgement_batches;
    assert_eq!((batches[0].first_offset, batches[0].last_offset), (0, 2));
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 1, 0), (2, 1, 0)]);
    assert_eq!(offsets(&first).len(), 3);
    assert_eq!(driver.wait_for_records()[0].records.len(), 2);

    // A commit accepts too, and does not fetch.
    driver.session_requests();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert!(matches!(&driver.session_requests()[..], [SessionRequest::Acknowledge(2, _)]));
    assert_eq!(driver.outcomes(), [(3, 1, 0), (4, 1, 0)]);
    assert_eq!(driver.cluster.metrics(2).unwrap().meter(ACCEPT).unwrap().count(), 5);
    assert_eq!(driver.consumer.metrics().acknowledgements_send.total(), 5);
    assert_eq!(driver.consumer.metrics().acknowledgements_error.total(), 0);
}

#[test]
fn in_explicit_mode_every_record_is_acknowledged_before_the_next_poll() {
    let (cluster, partition) = one_partition(&[4]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    let consumer = &mut driver.consumer;
    assert_eq!(consumer.poll(driver.now).unwrap_err(), ShareConsumerError::Unacknowledged { records: 4 });
    for ty in [AcknowledgeType::GAP, AcknowledgeType(5), AcknowledgeType(-1)] {
        assert_eq!(consumer.acknowledge(partition, 0, ty), Err(ShareConsumerError::AcknowledgeType(ty)));
    }
    let unknown = Err(ShareConsumerError::NotAcquired { partition, offset: 4 });
    assert_eq!(consumer.acknowledge(partition, 4, ACCEPT), unknown);

    consumer.acknowledge(partition, 0, AcknowledgeType::REJECT).unwrap();
    consumer.acknowledge(partition, 0, ACCEPT).unwrap(); // replaces it
    consumer.acknowledge(partition, 1, AcknowledgeType::RELEASE).unwrap();
    let commit = consumer.commit(driver.now).unwrap();
    driver.drive();
    let of_commit = driver.events.iter().filter_map(|event| match event {
        Event::Acknowledged { commit, result } => Some((*commit, result.error)),
        _ => None,
    });
    assert!(of_commit.eq([(Some(commit), ErrorCode::NONE)]));
    assert_eq!(driver.events.last(), Some(&Event::Committed { commit }));
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 2, 0)]);

    // What was sent cannot be changed, and the others still have to be acknowledged.
    let sent = Err(ShareConsumerError::NotAcquired { partition, offset: 0 });
    assert_eq!(driver.consumer.acknowledge(partition, 0, ACCEPT), sent);
    let error = driver.consumer.poll(driver.now).unwrap_err();
    assert_eq!(error, ShareConsumerError::Unacknowledged { records: 2 });
    assert_eq!(error.to_string(), "2 records of the last poll are not acknowledged");
    for offset in [2, 3] {
        driver.consumer.acknowledge(partition, offset, ACCEPT).unwrap();
    }
    let again = driver.wait_for_records();
    assert_eq!((offsets(&again), again[0].records[0].delivery_count), (vec![(partition, 1)], 2));
}

#[test]
fn a_commit_of_nothing_is_committed_at_once() {
    let (cluster, _) = one_partition(&[]);
    let mut driver = explicit(cluster);
    let commit = driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert!(driver.events.contains(&Event::Committed { commit }));
}

#[test]
fn offsets_without_a_record_are_acknowledged_as_gaps() {
    let (mut cluster, partition) = one_partition(&[]);
    let mut batch = BatchBuilder::new().base_offset(0);
    for offset in [0, 2, 3] {
        batch.append(&NewRecord { offset: Some(offset), value: Some(b"v"), ..Default::default() }).unwrap();
    }
    cluster.append(partition, &batch.finish().unwrap()).unwrap();
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    assert_eq!(offsets(&records), [(partition, 0), (partition, 2), (partition, 3)]);
    driver.acknowledge(&records, ACCEPT);
    driver.poll();
    driver.pass(ms(600));
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 0, 0), (2, 1, 0), (3, 1, 0)]);
    assert_eq!(driver.cluster.share_partition("g", partition).unwrap().start_offset(), 4);
}

#[test]
fn a_fetch_of_gaps_alone_is_acknowledged_without_the_application() {
    let (mut cluster, partition) = one_partition(&[]);
    let mut control = BatchBuilder::new().producer(1, 0, 0).transactional().control();
    let marker =
        NewRecord { key: Some(&[0, 0, 0, 1]), value: Some(&[0, 0, 0, 0, 0, 0]), ..Default::default() };
    control.append(&marker).unwrap();
    cluster.append(partition, &control.finish().unwrap()).unwrap();
    let mut driver = explicit(cluster);
    driver.poll();
    driver.pass(ms(6000));
    assert_eq!(driver.outcomes(), [(0, 0, 0)]);
    assert_eq!(driver.cluster.share_partition("g", partition).unwrap().start_offset(), 1);
    assert_eq!(driver.consumer.acquisition_lock_timeout(), None, "no poll has given anything");
}

/// When a fetch that waits acquires records is not known. They must not count as expired because of that.
#[test]
fn records_that_come_late_in_a_long_wait_are_given() {
    for lock in [1000, 15_000] {
        let config = ClusterConfig { group: lock_config(lock), ..Default::default() };
        let (cluster, partitions) = cluster(config, &[2]);
        let fetch = FetchSizes { max_wait_ms: 60_000, ..Default::default() };
        let mut driver = Driver::new(
            cluster,
            ShareConsumerConfig { fetch, ..driver::config(AcknowledgementMode::Implicit) },
        );
        for offset in 0..5 {
            for _ in 0..700 {
                assert!(driver.poll().is_empty());
                driver.pass(ms(10));
            }
            append(&mut driver.cluster, partitions[0], &[1]);
            driver.pass(ms(10));
            let records = driver.wait_for_records();
            assert_eq!(offsets(&records), [(partitions[0], offset)]);
            let record = &records[0].records[0];
            assert_eq!(record.delivery_count, 1);
            let left = record.lock_deadline.unwrap() - driver.now;
            assert!(left >= ms(lock / 2), "{left:?} of {lock} ms");
        }
        let waits = driver.session_requests().into_iter().filter_map(|request| match request {
            SessionRequest::Fetch(_, fetch) => Some(fetch.max_wait_ms),
            SessionRequest::Acknowledge(..) => None,
        });
        let waits: Vec<_> = waits.collect();
        assert_eq!((waits[0], waits.iter().max()), (500, Some(&(lock / 4).max(500).try_into().unwrap())));
    }
}

#[test]
fn damaged_batches_are_rejected_and_too_large_ones_released() {
    let (mut cluster, partition) = one_partition(&[2]);
    let mut damaged = BatchBuilder::new();
    damaged.append(&NewRecord { value: Some(b"damaged"), ..Default::default() }).unwrap();
    let mut damaged = damaged.finish().unwrap().to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    // The checksum does not cover the base offset, so it stays wrong.
    cluster.append(partition, &damaged).unwrap();
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    assert_eq!(offsets(&records).len(), 2);
    let unreadable = driver.events.iter().find_map(|event| match event {
        Event::Unreadable { partition, error, acknowledgements } => {
            Some((*partition, error.to_string(), acknowledgements.clone()))
        }
        _ => None,
    });
    let (at, error, acknowledgements) = unreadable.expect("it is told");
    assert_eq!((at, acknowledgements.get(2)), (partition, Some(AcknowledgeType::REJECT)));
    assert!(error.contains("record batch 1"), "{error}");
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 1, 0), (2, 3, 0)]);
}

#[test]
fn the_lock_timeout_is_known_even_if_nothing_of_a_fetch_can_be_read() {
    let (mut cluster, partition) = one_partition(&[]);
    let mut damaged = BatchBuilder::new();
    damaged.append(&NewRecord { value: Some(b"damaged"), ..Default::default() }).unwrap();
    let mut damaged = damaged.finish().unwrap().to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    cluster.append(partition, &damaged).unwrap();
    cluster.configure_group("g", lock_config(20_000));
    let mut driver = explicit(cluster);
    assert!(driver.poll().is_empty());
    driver.pass(ms(6000));
    assert!(driver.events.iter().any(|event| matches!(event, Event::Unreadable { .. })));
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(20_000)));
}

#[test]
fn records_that_wait_longer_than_their_locks_are_dropped() {
    let config = ClusterConfig { group: lock_config(1000), ..Default::default() };
    let (mut cluster, partitions) = cluster(config, &[1, 2]);
    for partition in &partitions {
        append(&mut cluster, *partition, &[3]);
    }
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig {
            fetch: FetchSizes { max_records: 3, ..Default::default() },
            ..driver::config(AcknowledgementMode::Explicit)
        },
    );
    let first = driver.wait_for_records();
    driver.acknowledge(&first, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.pass(ms(1500));
    driver.events.clear();
    let second = driver.poll();
    assert!(second.is_empty(), "the other node's records have waited for too long");
    assert!(matches!(driver.events[..], [Event::Dropped { records: 3, .. }, ..]), "{:?}", driver.events);
    let again = driver.wait_for_records();
    assert_eq!(again[0].records[0].delivery_count, 2);
}

#[test]
fn in_record_limit_mode_one_leader_at_a_time_is_fetched_from() {
    let (mut cluster, partitions) = cluster(ClusterConfig::default(), &[1, 2]);
    for partition in &partitions {
        append(&mut cluster, *partition, &[10]);
    }
    let fetch =
        FetchSizes { max_records: 4, acquire_mode: ShareAcquireMode::RecordLimit, ..Default::default() };
    let mut driver =
        Driver::new(cluster, ShareConsumerConfig { fetch, ..config(AcknowledgementMode::Implicit) });
    let mut nodes = Vec::new();
    for _ in 0..5 {
        let records = driver.wait_for_records();
        assert_eq!(records.len(), 1, "of one leader");
        nodes.push((records[0].node, records[0].records.len()));
    }
    nodes.sort_unstable();
    let each = [(1, 2), (1, 4), (1, 4), (2, 4), (2, 4)];
    let other = [(1, 4), (1, 4), (2, 2), (2, 4), (2, 4)];
    assert!(nodes == each || nodes == other, "{nodes:?}");
    let fetches = driver.session_requests();
    assert!(fetches.iter().all(|request| match request {
        SessionRequest::Fetch(_, fetch) =>
            fetch.share_acquire_mode == 1 && [0, 4].contains(&fetch.max_records),
        SessionRequest::Acknowledge(..) => true,
    }));
}

#[test]
fn closing_sends_the_last_acknowledgements_and_leaves_the_group() {
    let (cluster, partition) = one_partition(&[3]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    driver.consumer.acknowledge(partition, 0, ACCEPT).unwrap();
    driver.consumer.renew(partition, 1).unwrap();
    driver.sent.clear();
    driver.consumer.close(driver.now);
    driver.pass(ms(600));
    assert!(driver.consumer.is_closed());
    assert_eq!(driver.events.last(), Some(&Event::Closed));
    let Some((COORDINATOR, ShareConsumerRequest::ShareGroupHeartbeat(leave))) = driver.sent.last() else {
        panic!("sessions first, then the group")
    };
    assert_eq!(leave.member_epoch, -1);
    let requests = driver.session_requests();
    let [SessionRequest::Acknowledge(2, close)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((close.share_session_epoch, close.is_renew_ack), (-1, false));
    assert_eq!(driver.outcomes(), [(0, 1, 0), (1, 2, 0)], "the renewal is a release");
    assert!(driver.links.is_empty());
    assert_eq!(driver.consumer.poll(driver.now).unwrap_err(), ShareConsumerError::Closed);

    let cluster = driver.cluster;
    let mut other = Driver::new(
        cluster,
        ShareConsumerConfig { member_id: "n".into(), ..config(AcknowledgementMode::Explicit) },
    );
    let records = other.wait_for_records();
    let counts: Vec<_> =
        records[0].records.iter().map(|of| (of.record.offset(), of.delivery_count)).collect();
    assert_eq!(counts, [(1, 2), (2, 2)]);
}

#[test]
fn a_consumer_that_never_joined_is_closed_at_once() {
    let mut consumer = ShareConsumer::new(config(AcknowledgementMode::Implicit));
    consumer.close(Duration::ZERO);
    let poll = consumer.drive(Duration::ZERO);
    assert_eq!((poll.actions, poll.events, poll.deadline), (vec![], vec![Event::Closed], None));
    assert_eq!(consumer.subscribe(Duration::ZERO, ["t"]), Err(ShareConsumerError::Closed));
    assert_eq!(
        ShareConsumer::new(config(AcknowledgementMode::Implicit)).subscribe(Duration::ZERO, [""; 0]),
        Err(ShareConsumerError::NoTopics)
    );
}

#[test]
fn a_configuration_with_which_nothing_can_work_is_refused() {
    let good = || config(AcknowledgementMode::Implicit);
    let table = [
        (ShareConsumerConfig { group_id: "".into(), ..good() }, "group_id is empty"),
        (ShareConsumerConfig { member_id: "".into(), ..good() }, "member_id is empty"),
        (
            ShareConsumerConfig { member_id: "\u{e9}".repeat(37).into(), ..good() },
            "member_id has more than 36 characters",
        ),
        // Brokers count in UTF-16 units.
        (
            ShareConsumerConfig { member_id: "😀".repeat(19).into(), ..good() },
            "member_id has more than 36 characters",
        ),
        (ShareConsumerConfig { rack_id: Some("".into()), ..good() }, "rack_id is empty"),
        (ShareConsumerConfig { bootstrap: vec![], ..good() }, "bootstrap has no broker"),
    ];
    for (config, expected) in table {
        let mut consumer = ShareConsumer::new(config);
        let error = consumer.subscribe(ms(0), ["t"]).unwrap_err();
        assert!(matches!(error, ShareConsumerError::InvalidConfig { .. }));
        assert_eq!(error.to_string(), expected);
        let poll = consumer.poll(ms(0)).unwrap();
        assert_eq!((poll.actions, poll.deadline), (vec![], None), "{expected}: nothing is sent");
    }
    let longest = ShareConsumerConfig { member_id: "\u{e9}".repeat(36).into(), ..good() };
    assert_eq!(ShareConsumer::new(longest).subscribe(ms(0), ["t"]), Ok(()));
}

#[test]
fn durations_without_a_limit_are_no_limit() {
    let (cluster, _) = one_partition(&[1]);
    let config = ShareConsumerConfig {
        request_timeout: Duration::MAX,
        api_timeout: Duration::MAX,
        retry_backoff: Duration::MAX,
        retry_backoff_max: Duration::MAX,
        metadata_max_age: Duration::MAX,
        ..config(AcknowledgementMode::Explicit)
    };
    let mut driver = Driver::new(cluster, config);
    // Retries would wait for ever, so nothing may fail on the way.
    let records = driver.wait_for_records();
    driver.acknowledge(&records, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 1, 0)]);
    driver.stop(2);
    driver.pass(ms(10_000));
    driver.consumer.close(driver.now);
    driver.pass(ms(1000));
    assert!(driver.consumer.is_closed());
}

#[test]
fn a_poll_with_nothing_to_do_allocates_nothing() {
    let (cluster, _) = one_partition(&[1]);
    let mut driver = implicit(cluster);
    driver.wait_for_records();
    driver.poll(); // a fetch waits for records now
    for _ in 0..3 {
        let (consumer, now) = (&mut driver.consumer, driver.now);
        let info = allocation_counter::measure(|| {
            let poll = consumer.poll(now).unwrap();
            assert!(poll.actions.is_empty() && poll.records.is_empty() && poll.deadline.is_some());
        });
        assert_eq!(info.count_total, 0);
    }
}

#[test]
fn requests_and_responses_go_through_a_connection() {
    let mut connection = Connection::new(Config::default());
    let mut out = Vec::new();
    let request = ShareConsumerRequest::ShareFetch(Default::default());
    assert_eq!(request.api_key(), ApiKey::SHARE_FETCH);
    let id = request.send(&mut connection, 2, &mut out).unwrap();
    assert_eq!(
        connection.in_flight().next().map(|of| (of.correlation_id, of.api_key)),
        Some((id, ApiKey::SHARE_FETCH))
    );

    let received = |api_key, version, body| kafka_protocol::connection::Received {
        correlation_id: 0,
        api_key,
        version,
        header: Default::default(),
        body,
    };
    use kafka_protocol::protocol::Message;
    use kafka_protocol::share::consumer::ShareConsumerResponse;
    let fetched = ShareFetchResponse { throttle_time_ms: 7, ..Default::default() };
    let body = fetched.encode(2).unwrap();
    let decoded = ShareConsumerResponse::decode(&received(ApiKey::SHARE_FETCH, 2, body)).unwrap();
    assert_eq!(decoded, Some(fetched.into()));
    let body = MetadataResponse::default().encode(12).unwrap();
    let decoded = ShareConsumerResponse::decode(&received(ApiKey::METADATA, 12, body.clone())).unwrap();
    assert!(matches!(decoded, Some(ShareConsumerResponse::Metadata(_))));
    assert_eq!(ShareConsumerResponse::decode(&received(ApiKey::FETCH, 12, body)).unwrap(), None);
}

#[test]
fn what_inflates_too_much_is_released() {
    let (mut cluster, partition) = one_partition(&[]);
    let mut batch = BatchBuilder::new().compression(kafka_protocol::records::Compression::Lz4);
    batch.append(&NewRecord { value: Some(&[0; 4096]), ..Default::default() }).unwrap();
    cluster.append(partition, &batch.finish().unwrap()).unwrap();
    let read = ReadOptions { max_size: 1000, ..Default::default() };
    let mut driver =
        Driver::new(cluster, ShareConsumerConfig { read, ..config(AcknowledgementMode::Explicit) });
    driver.poll();
    driver.pass(ms(6000));
    let unreadable = |event: &&Event| matches!(event, Event::Unreadable { .. });
    assert!(driver.events.iter().filter(unreadable).count() >= 1);
    assert!(driver.outcomes().contains(&(0, AcknowledgeType::RELEASE.0, 0)));
}
