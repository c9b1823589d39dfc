//! Answers that no broker gives.

use kafka_protocol::messages::share_fetch_response as fetched;
use kafka_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    FindCoordinatorResponse, MetadataResponse, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupHeartbeatResponse, find_coordinator_response, metadata_response,
    share_acknowledge_response as acknowledged,
};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::consumer::{ShareConsumerError, ShareConsumerRequest, ShareConsumerResponse};
use kafka_protocol::wire::{Bytes, Uuid};

use super::driver::{Answer, append, cluster, ms, offsets};
use super::explicit;
use crate::random::Random;

#[test]
fn no_answer_makes_the_consumer_panic_or_keep_the_driver_busy() {
    for seed in 0..400 {
        let mut random = Random::new("hostile share", 0, seed);
        let (mut cluster, partitions) = cluster(Default::default(), &[1, 2]);
        for partition in &partitions {
            append(&mut cluster, *partition, &[3, 2]);
        }
        let topic_id = partitions[0].topic_id;
        let mut driver = explicit(cluster);
        let mut chance = Random::new("hostile answers", 0, seed);
        let often = chance.pick(&[2, 5, 20]);
        driver.answer =
            Box::new(move |request| chance.once_in(often).then(|| answer(request, topic_id, &mut chance)));
        for _ in 0..60 {
            if driver.consumer.is_closed() {
                break;
            }
            let records = driver.poll();
            for (partition, offset) in offsets(&records) {
                let ty = AcknowledgeType(1 + random.below(4) as i8);
                driver.consumer.acknowledge(partition, offset, ty).unwrap();
            }
            if random.once_in(3) {
                match driver.consumer.commit(driver.now) {
                    Ok(_) | Err(ShareConsumerError::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            driver.drive();
            let deadline = driver.deadline;
            assert!(deadline.is_none_or(|deadline| deadline > driver.now), "seed {seed}: {deadline:?}");
            driver.pass(ms(random.pick(&[1, 50, 700])));
            assert!(driver.sent.len() < 20_000, "seed {seed}: {} requests", driver.sent.len());
        }
    }
}

fn answer(request: &ShareConsumerRequest, topic_id: Uuid, random: &mut Random) -> ShareConsumerResponse {
    match request {
        ShareConsumerRequest::FindCoordinator(_) => FindCoordinatorResponse {
            coordinators: vec![find_coordinator_response::Coordinator {
                key: "g".into(),
                node_id: number(random),
                host: "node-1".into(),
                port: 9092,
                error_code: retriable(random),
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        ShareConsumerRequest::Metadata(_) => metadata(topic_id, random).into(),
        ShareConsumerRequest::ShareGroupHeartbeat(_) => ShareGroupHeartbeatResponse {
            error_code: retriable(random),
            member_epoch: number(random),
            heartbeat_interval_ms: number(random),
            assignment: (!random.once_in(3)).then(|| Assignment {
                topic_partitions: vec![TopicPartitions {
                    topic_id,
                    partitions: (0..random.below(4)).map(|_| number(random)).collect(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        }
        .into(),
        ShareConsumerRequest::ShareFetch(_) if random.once_in(20) => MetadataResponse::default().into(),
        ShareConsumerRequest::ShareFetch(_) => fetch(topic_id, random).into(),
        ShareConsumerRequest::ShareAcknowledge(_) => ShareAcknowledgeResponse {
            throttle_time_ms: random.pick(&[0, 0, -1, 100]),
            error_code: error(random),
            acquisition_lock_timeout_ms: number(random),
            responses: vec![acknowledged::ShareAcknowledgeTopicResponse {
                topic_id,
                partitions: vec![acknowledged::PartitionData {
                    partition_index: random.below(3) as i32,
                    error_code: error(random),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
    }
}

fn metadata(topic_id: Uuid, random: &mut Random) -> MetadataResponse {
    let partitions = (0..random.below(4)).map(|_| metadata_response::MetadataResponsePartition {
        partition_index: number(random),
        leader_id: number(random),
        leader_epoch: number(random),
        ..Default::default()
    });
    let partitions = partitions.collect();
    MetadataResponse {
        topics: vec![metadata_response::MetadataResponseTopic {
            name: Some("t".into()),
            topic_id,
            partitions,
            error_code: retriable(random),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch(topic_id: Uuid, random: &mut Random) -> ShareFetchResponse {
    let partitions = (0..random.below(3)).map(|_| fetched::PartitionData {
        partition_index: random.below(3) as i32,
        error_code: error(random),
        acknowledge_error_code: error(random),
        current_leader: fetched::LeaderIdAndEpoch {
            leader_id: number(random),
            leader_epoch: number(random),
            ..Default::default()
        },
        records: Some(records(random)),
        acquired_records: (0..random.below(4)).map(|_| acquired(random)).collect(),
        ..Default::default()
    });
    let partitions = partitions.collect();
    ShareFetchResponse {
        throttle_time_ms: random.pick(&[0, 0, -1, 100]),
        error_code: error(random),
        acquisition_lock_timeout_ms: number(random),
        responses: vec![fetched::ShareFetchableTopicResponse { topic_id, partitions, ..Default::default() }],
        ..Default::default()
    }
}

/// Whole batches, damaged ones, and bytes that are none; with offsets at the ends of what there is.
fn records(random: &mut Random) -> Bytes {
    let mut bytes = Vec::new();
    for _ in 0..random.below(3) {
        let mut batch = BatchBuilder::new().base_offset(offset(random));
        batch.append(&NewRecord { value: Some(b"v"), ..Default::default() }).unwrap();
        let Ok(batch) = batch.finish() else { continue };
        bytes.extend_from_slice(&batch);
        if random.once_in(4) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    }
    if random.once_in(4) {
        let n = random.below(100);
        bytes.extend(random.bytes(n));
    }
    bytes.into()
}

fn acquired(random: &mut Random) -> fetched::AcquiredRecords {
    fetched::AcquiredRecords {
        first_offset: offset(random),
        last_offset: offset(random),
        delivery_count: number(random) as i16,
        ..Default::default()
    }
}

fn offset(random: &mut Random) -> i64 {
    random.pick(&[0, 1, 2, 5, 100, -1, i64::MIN, i64::MAX - 1, i64::MAX])
}

fn number(random: &mut Random) -> i32 {
    random.pick(&[0, 1, 1, 2, 2, 3, 1000, -1, -2, i32::MIN, i32::MAX])
}

/// Now and then an error, but none that ends the consumer.
fn retriable(random: &mut Random) -> ErrorCode {
    let error = error(random);
    if error.is_retriable() { error } else { ErrorCode::NONE }
}

fn error(random: &mut Random) -> ErrorCode {
    if random.once_in(2) { ErrorCode::NONE } else { random.pick(ErrorCode::ALL) }
}

#[test]
fn acquired_ranges_that_overlap_or_are_negative_count_once() {
    let (cluster, partitions) = cluster(Default::default(), &[2]);
    let partition: TopicIdPartition = partitions[0];
    let mut driver = explicit(cluster);
    let ranges = [(0, 3, 1), (2, 4, 2), (-5, -1, 3), (9, 7, 4)];
    driver.answer = answer_once(partition, vec![row(&ranges)]);
    let records = driver.wait_for_records();
    let counts: Vec<_> =
        records[0].records.iter().map(|of| (of.record.offset(), of.delivery_count)).collect();
    assert_eq!(counts, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)]);
}

#[test]
fn a_partition_counts_once_in_a_response() {
    let (cluster, partitions) = cluster(Default::default(), &[2]);
    let mut driver = explicit(cluster);
    driver.answer = answer_once(partitions[0], vec![row(&[(0, 1, 1)]), row(&[(0, 5, 1)])]);
    let records = driver.wait_for_records();
    assert_eq!(offsets(&records), [(partitions[0], 0), (partitions[0], 1)]);
    driver.acknowledge(&records, AcknowledgeType::ACCEPT);
    assert!(driver.poll().is_empty(), "all is acknowledged");
}

/// Answers the first fetch with these rows of a partition.
fn answer_once(partition: TopicIdPartition, rows: Vec<fetched::PartitionData>) -> Answer {
    let mut left = Some(fetched::ShareFetchableTopicResponse {
        topic_id: partition.topic_id,
        partitions: rows,
        ..Default::default()
    });
    Box::new(move |request| {
        let ShareConsumerRequest::ShareFetch(_) = request else { return None };
        let responses = vec![left.take()?];
        Some(ShareFetchResponse { responses, ..Default::default() }.into())
    })
}

/// A batch of six records, of which these ranges are acquired: first and last offset, delivery count.
fn row(acquired: &[(i64, i64, i16)]) -> fetched::PartitionData {
    let mut batch = BatchBuilder::new().base_offset(0);
    for _ in 0..6 {
        batch.append(&NewRecord { value: Some(b"v"), ..Default::default() }).unwrap();
    }
    let range = |&(first_offset, last_offset, delivery_count)| fetched::AcquiredRecords {
        first_offset,
        last_offset,
        delivery_count,
        ..Default::default()
    };
    fetched::PartitionData {
        records: Some(batch.finish().unwrap()),
        acquired_records: acquired.iter().map(range).collect(),
        ..Default::default()
    }
}
