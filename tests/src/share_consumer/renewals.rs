//! Renew acknowledgements (KIP-1222).

use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::broker::ClusterConfig;
use kafka_protocol::share::consumer::{DropReason, Event, ShareConsumerConfig, ShareConsumerError};

use super::driver::{Driver, SessionRequest, append, cluster, ms, offsets};
use super::{ACCEPT, AcknowledgementMode, config, explicit, lock_config, one_partition};

#[test]
fn a_poll_renews_by_a_fetch_that_fetches_nothing_and_the_next_gives_the_record_again() {
    let (mut cluster, partition) = one_partition(&[2]);
    cluster.configure_group("g", lock_config(1000));
    let mut driver = explicit(cluster);
    let first = driver.wait_for_records();
    append(&mut driver.cluster, partition, &[5]);
    driver.session_requests();
    driver.pass(ms(500));
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.acknowledge(partition, 1, ACCEPT).unwrap();
    assert!(driver.poll().is_empty(), "the answer was not there yet");
    let requests = driver.session_requests();
    let [SessionRequest::Fetch(2, renew)] = &requests[..] else { panic!("{requests:?}") };
    assert!(renew.is_renew_ack);
    assert_eq!([renew.max_wait_ms, renew.min_bytes, renew.max_bytes, renew.max_records], [0; 4]);
    assert_eq!(driver.outcomes(), [(0, 4, 0), (1, 1, 0)]);

    let again = driver.poll();
    assert_eq!(offsets(&again), [(partition, 0)], "no others");
    assert_eq!(again[0].records[0].delivery_count, 1);
    assert_eq!(again[0].records[0].record, first[0].records[0].record);
    assert_eq!(again[0].records[0].lock_deadline, Some(driver.now + ms(1000)));
    assert!(driver.session_requests().is_empty());

    // The lock holds beyond the first deadline.
    driver.pass(ms(700));
    driver.consumer.acknowledge(partition, 0, ACCEPT).unwrap();
    let others = driver.wait_for_records();
    assert_eq!(offsets(&others).len(), 5);
    assert_eq!(driver.outcomes(), [(0, 1, 0)]);
    assert_eq!(driver.cluster.metrics(2).unwrap().meter(AcknowledgeType::RENEW).unwrap().count(), 1);
}

#[test]
fn a_commit_renews_by_share_acknowledge_and_the_lock_timeout_counts_from_the_next_poll() {
    let (mut cluster, partition) = one_partition(&[1]);
    cluster.configure_group("g", lock_config(15_000));
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(15_000)));
    driver.cluster.configure_group("g", lock_config(25_000));
    driver.session_requests();
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    let requests = driver.session_requests();
    let [SessionRequest::Acknowledge(2, renew)] = &requests[..] else { panic!("{requests:?}") };
    assert!(renew.is_renew_ack);
    assert_eq!(driver.outcomes(), [(0, 4, 0)]);
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(15_000)), "not yet");
    let again = driver.poll();
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(25_000)));
    assert_eq!(again[0].records[0].lock_deadline, Some(driver.now + ms(25_000)));

    // An acknowledgement that does not renew brings no other timeout.
    driver.cluster.configure_group("g", lock_config(35_000));
    driver.acknowledge(&again, ACCEPT);
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    driver.poll();
    assert_eq!(driver.consumer.acquisition_lock_timeout(), Some(ms(25_000)));
}

#[test]
fn a_renewed_record_can_be_acknowledged_without_another_poll() {
    let (cluster, partition) = one_partition(&[2]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    for offset in [0, 1] {
        driver.consumer.renew(partition, offset).unwrap();
    }
    driver.consumer.commit(driver.now).unwrap();
    // On its way.
    driver.consumer.acknowledge(partition, 0, ACCEPT).unwrap();
    driver.drive();
    // Renewed.
    driver.consumer.acknowledge(partition, 1, AcknowledgeType::RELEASE).unwrap();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 4, 0), (1, 4, 0), (0, 1, 0), (1, 2, 0)]);
    let again = driver.wait_for_records();
    assert_eq!((offsets(&again), again[0].records[0].delivery_count), (vec![(partition, 1)], 2));
}

#[test]
fn a_later_acknowledgement_replaces_a_renewal_that_was_not_sent() {
    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.acknowledge(partition, 0, ACCEPT).unwrap();
    driver.poll();
    driver.pass(ms(600));
    assert_eq!(driver.outcomes(), [(0, 1, 0)]);
    assert_eq!(driver.cluster.metrics(2).unwrap().meter(AcknowledgeType::RENEW).unwrap().count(), 0);
}

#[test]
fn a_node_without_renewals_refuses_them_at_once_and_the_session_goes_on() {
    let config = ClusterConfig { max_share_fetch_version: 1, ..Default::default() };
    let (mut cluster, partitions) = cluster(config, &[2]);
    append(&mut cluster, partitions[0], &[1]);
    let mut driver = explicit(cluster);
    let records = driver.wait_for_records();
    let refused = ShareConsumerError::RenewUnsupported { node: 2 };
    assert_eq!(driver.consumer.renew(partitions[0], 0), Err(refused));
    assert!(refused.to_string().starts_with("node 2 has no renew acknowledgements"));
    driver.session_requests();
    driver.acknowledge(&records, ACCEPT);
    driver.poll();
    let requests = driver.session_requests();
    let [SessionRequest::Fetch(2, next), ..] = &requests[..] else { panic!("{requests:?}") };
    assert!(next.share_session_epoch > 0, "the session goes on");
    driver.pass(ms(600));
    assert_eq!(driver.outcomes(), [(0, 1, 0)]);
}

#[test]
fn a_renewal_that_fails_gives_the_record_up() {
    let (mut cluster, partition) = one_partition(&[2]);
    cluster.configure_group("g", lock_config(1000));
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    driver.pass(ms(1300));
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.renew(partition, 1).unwrap();
    driver.poll();
    let failed = ErrorCode::INVALID_RECORD_STATE.0;
    assert_eq!(driver.outcomes(), [(0, 4, failed), (1, 4, failed)]);
    let gone = Err(ShareConsumerError::NotAcquired { partition, offset: 0 });
    assert_eq!(driver.consumer.acknowledge(partition, 0, ACCEPT), gone);
    assert_eq!(driver.consumer.metrics().acknowledgements_error.total(), 2);
    let again = driver.wait_for_records();
    assert_eq!(again[0].records[0].delivery_count, 2, "acquired anew");
}

#[test]
fn one_nodes_renewals_do_not_hold_up_anothers() {
    let (mut cluster, partitions) = cluster(ClusterConfig::default(), &[1, 2]);
    for partition in &partitions {
        append(&mut cluster, *partition, &[1]);
    }
    let mut driver = Driver::new(cluster, config(AcknowledgementMode::Explicit));
    let mut records = driver.wait_for_records();
    while records.len() < 2 {
        // Both nodes' records in one poll.
        driver.acknowledge(&records, AcknowledgeType::RELEASE);
        driver.consumer.commit(driver.now).unwrap();
        driver.pass(ms(600));
        records = driver.wait_for_records();
    }
    driver.consumer.renew(records[0].partition, 0).unwrap();
    driver.consumer.acknowledge(records[1].partition, 0, ACCEPT).unwrap();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes().len(), 2);
    assert_eq!(offsets(&driver.poll()), [(records[0].partition, 0)]);
}

#[test]
fn renewals_are_lost_with_the_connection() {
    let (cluster, partition) = one_partition(&[1]);
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 4, 0)]);
    driver.stop(2);
    driver.cluster.start(2);
    driver.drive();
    assert!(driver.events.iter().any(|event| matches!(event, Event::Dropped { records: 1, .. })));
    let again = driver.wait_for_records();
    assert_eq!(offsets(&again), [(partition, 0)]);
}

#[test]
fn a_renewed_record_is_dropped_once_its_lock_may_have_run_out() {
    let (mut cluster, partition) = one_partition(&[2]);
    cluster.configure_group("g", lock_config(1000));
    let mut driver = explicit(cluster);
    driver.wait_for_records();
    for offset in [0, 1] {
        driver.consumer.renew(partition, offset).unwrap();
    }
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 4, 0), (1, 4, 0)]);
    // What is acknowledged before is not dropped: the broker says what became of it.
    driver.consumer.acknowledge(partition, 1, ACCEPT).unwrap();
    driver.pass(ms(1000));
    assert!(driver.poll().is_empty());
    let dropped = Event::Dropped { partition, records: 1, reason: DropReason::LockExpired };
    assert!(driver.events.contains(&dropped), "{:?}", driver.events);
    let gone = Err(ShareConsumerError::NotAcquired { partition, offset: 0 });
    assert_eq!(driver.consumer.acknowledge(partition, 0, ACCEPT), gone);
    assert_eq!(driver.outcomes(), [(1, 1, ErrorCode::INVALID_RECORD_STATE.0)]);
    let again = driver.wait_for_records();
    assert_eq!((offsets(&again).len(), again[0].records[0].delivery_count), (2, 2));
    assert!(again[0].records[0].lock_deadline > Some(driver.now));
}

#[test]
fn a_renewed_record_is_dropped_when_another_broker_is_known_to_lead() {
    let (cluster, partition) = one_partition(&[1]);
    let metadata_max_age = ms(1000);
    let mut driver = Driver::new(
        cluster,
        ShareConsumerConfig { metadata_max_age, ..config(AcknowledgementMode::Explicit) },
    );
    driver.wait_for_records();
    driver.consumer.renew(partition, 0).unwrap();
    driver.consumer.commit(driver.now).unwrap();
    driver.drive();
    assert_eq!(driver.outcomes(), [(0, 4, 0)]);
    driver.cluster.set_leader(driver.now, partition, Some(1));
    driver.pass(ms(2000));
    assert!(driver.poll().is_empty());
    let dropped = Event::Dropped { partition, records: 1, reason: DropReason::LeaderChanged };
    assert!(driver.events.contains(&dropped), "{:?}", driver.events);
    let again = driver.wait_for_records();
    assert_eq!((again[0].node, offsets(&again)), (1, vec![(partition, 0)]));
}
