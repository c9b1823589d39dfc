//! Acknowledgements of a share consumer: what goes out as batches, and what comes back from them.

use std::collections::BTreeMap;

use kafka_protocol::messages::{share_acknowledge_request, share_fetch_request::AcknowledgementBatch};
use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::{Acknowledgements, PartitionAcknowledgements, TopicIdPartition};
use kafka_protocol::wire::Uuid;

use crate::random::Random;

const ACCEPT: AcknowledgeType = AcknowledgeType::ACCEPT;
const RENEW: AcknowledgeType = AcknowledgeType::RENEW;

/// First offset, last offset, types.
type Batch = (i64, i64, Vec<i8>);

fn batches(acknowledgements: &PartitionAcknowledgements) -> Vec<Batch> {
    acknowledgements.batches().iter().map(batch).collect()
}

fn batch(batch: &AcknowledgementBatch) -> Batch {
    (batch.first_offset, batch.last_offset, batch.acknowledge_types.iter().map(|ty| ty.0).collect())
}

/// Ranges of offsets, each with its type, and the batches that they become.
type Row = (&'static [(i64, i64, i8)], &'static [(i64, i64, &'static [i8])]);

/// What Kafka's Java client makes of these. The rule was read in its source, and two models of it agreed on all rows.
const COMPRESSION: &[Row] = &[
    (&[(0, 4, 1)], &[(0, 4, &[1])]),
    (&[(0, 0, 1), (1, 1, 2), (2, 2, 1)], &[(0, 2, &[1, 2, 1])]),
    (&[(0, 1, 1), (3, 4, 1)], &[(0, 1, &[1]), (3, 4, &[1])]),
    (&[(0, 1, 1), (2, 2, 0), (3, 4, 1)], &[(0, 4, &[1, 1, 0, 1, 1])]),
    (&[(0, 9, 1), (10, 10, 3)], &[(0, 10, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3])]),
    (&[(0, 10, 1), (11, 11, 3)], &[(0, 10, &[1]), (11, 11, &[3])]),
    (&[(0, 0, 3), (1, 11, 1)], &[(0, 0, &[3]), (1, 11, &[1])]),
    (&[(100, 101, 2), (102, 113, 1), (114, 116, 3)], &[(100, 101, &[2]), (102, 113, &[1]), (114, 116, &[3])]),
    (&[(0, 11, 1), (12, 23, 2)], &[(0, 11, &[1]), (12, 23, &[2])]),
    (&[(0, 499, 1)], &[(0, 499, &[1])]),
    (&[(0, 0, 1), (1, 1, 4), (2, 2, 1), (3, 3, 4)], &[(0, 3, &[1, 4, 1, 4])]),
    (&[(7, 9, 0)], &[(7, 9, &[0])]),
    (&[(0, 10, 1), (11, 11, 3), (12, 22, 1)], &[(0, 10, &[1]), (11, 11, &[3]), (12, 22, &[1])]),
    (
        &[(20, 22, 1), (23, 26, 2), (27, 37, 4), (38, 39, 1)],
        &[(20, 26, &[1, 1, 1, 2, 2, 2, 2]), (27, 37, &[4]), (38, 39, &[1])],
    ),
];

#[test]
fn compression_is_that_of_the_java_client() {
    for (ranges, expected) in COMPRESSION {
        let expected: Vec<Batch> = expected.iter().map(|(f, l, types)| (*f, *l, types.to_vec())).collect();

        let mut whole = PartitionAcknowledgements::default();
        for &(first, last, ty) in *ranges {
            whole.set_range(first, last, AcknowledgeType(ty));
        }
        let single: PartitionAcknowledgements = whole.iter().collect();
        let backwards: PartitionAcknowledgements =
            whole.iter().collect::<Vec<_>>().into_iter().rev().collect();
        for acknowledgements in [&whole, &single, &backwards] {
            assert_eq!(batches(acknowledgements), expected, "{ranges:?}");
            assert_eq!(acknowledgements, &whole, "{ranges:?}");
        }
        let again = PartitionAcknowledgements::from_batches(&whole.batches()).unwrap();
        assert_eq!(again, whole, "{ranges:?}");
    }
}

/// Section by section as the rule is written, on one entry per offset.
fn model(entries: &BTreeMap<i64, i8>) -> Vec<Batch> {
    let entries: Vec<(i64, i8)> = entries.iter().map(|(&offset, &ty)| (offset, ty)).collect();
    let mut batches = Vec::new();
    for run in entries.chunk_by(|a, b| a.0 + 1 == b.0) {
        let mut between: Vec<(i64, i8)> = Vec::new();
        let emit = |entries: &mut Vec<(i64, i8)>, batches: &mut Vec<Batch>| {
            if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
                let mut types: Vec<i8> = entries.iter().map(|entry| entry.1).collect();
                if types.iter().all(|&ty| ty == types[0]) {
                    types.truncate(1);
                }
                batches.push((first.0, last.0, types));
            }
            entries.clear();
        };
        for equal in run.chunk_by(|a, b| a.1 == b.1) {
            if equal.len() > 10 {
                emit(&mut between, &mut batches);
                emit(&mut equal.to_vec(), &mut batches);
            } else {
                between.extend(equal);
            }
        }
        emit(&mut between, &mut batches);
    }
    batches
}

#[test]
fn any_order_of_writes_ends_like_a_map_and_compresses_like_the_rule() {
    for seed in 0..4000 {
        let mut random = Random::new("acknowledgements", 0, seed);
        let mut map = BTreeMap::new();
        let mut ours = PartitionAcknowledgements::default();
        let spread = random.pick(&[20, 60, 300]);
        let mut next = 0;
        for _ in 0..random.below(60) {
            let types = random.pick(&[2, 5]);
            let ty = random.below(types) as i8;
            let length = random.pick(&[1, 1, 1, 2, 5, 10, 11, 12, 30]);
            let first = if random.once_in(3) { random.below(spread) as i64 } else { next };
            let last = first + length - 1;
            next = last + 1 + i64::from(random.once_in(6));
            map.extend((first..=last).map(|offset| (offset, ty)));
            if random.once_in(2) {
                ours.set_range(first, last, AcknowledgeType(ty));
            } else {
                ours.extend((first..=last).map(|offset| (offset, AcknowledgeType(ty))));
            }
        }
        let entries: Vec<_> = map.iter().map(|(&offset, &ty)| (offset, AcknowledgeType(ty))).collect();
        assert_eq!(ours.iter().collect::<Vec<_>>(), entries, "seed {seed}");
        assert_eq!(batches(&ours), model(&map), "seed {seed}");
        assert_eq!(ours.len(), entries.len() as u64, "seed {seed}");
        assert_eq!(ours.is_empty(), entries.is_empty(), "seed {seed}");
        for ty in 0..5 {
            let count = map.values().filter(|of| **of == ty).count() as u64;
            assert_eq!(ours.count(AcknowledgeType(ty)), count, "seed {seed}, type {ty}");
        }
        for offset in -1..spread as i64 + 30 {
            assert_eq!(
                ours.get(offset),
                map.get(&offset).map(|ty| AcknowledgeType(*ty)),
                "seed {seed}, {offset}"
            );
        }
        assert_eq!(ours.has_renew(), map.values().any(|ty| *ty == 4), "seed {seed}");
        let again = PartitionAcknowledgements::from_batches(&ours.batches()).unwrap();
        assert_eq!(again, ours, "seed {seed}");
    }
}

#[test]
fn offsets_at_the_ends_of_the_range_take_no_memory_and_do_not_overflow() {
    let mut acknowledgements = PartitionAcknowledgements::default();
    acknowledgements.set_range(i64::MIN, i64::MAX, ACCEPT);
    assert_eq!(batches(&acknowledgements), [(i64::MIN, i64::MAX, vec![1])]);
    acknowledgements.set(i64::MAX, RENEW);
    acknowledgements.set(i64::MIN, RENEW);
    acknowledgements.set_range(-1, 1, AcknowledgeType::GAP);
    let ranges: Vec<_> = acknowledgements.ranges().map(|(first, last, ty)| (first, last, ty.0)).collect();
    let expected = [
        (i64::MIN, i64::MIN, 4),
        (i64::MIN + 1, -2, 1),
        (-1, 1, 0),
        (2, i64::MAX - 1, 1),
        (i64::MAX, i64::MAX, 4),
    ];
    assert_eq!(ranges, expected);

    let mut end = PartitionAcknowledgements::default();
    end.set(i64::MAX, ACCEPT);
    end.set(i64::MIN, ACCEPT);
    assert_eq!(batches(&end), [(i64::MIN, i64::MIN, vec![1]), (i64::MAX, i64::MAX, vec![1])]);
    end.set_range(3, 2, ACCEPT);
    assert_eq!(end.len(), 2);
}

#[test]
fn expanding_refuses_what_no_offset_can_be_read_from() {
    let error = |first, last, types: &[i8]| {
        let good = AcknowledgementBatch { acknowledge_types: [ACCEPT][..].into(), ..Default::default() };
        let types = types.iter().map(|ty| AcknowledgeType(*ty)).collect();
        let bad = AcknowledgementBatch {
            first_offset: first,
            last_offset: last,
            acknowledge_types: types,
            ..Default::default()
        };
        PartitionAcknowledgements::from_batches(&[good, bad]).unwrap_err().to_string()
    };
    assert_eq!(error(5, 4, &[1]), "acknowledgement_batches[1]: last_offset 4 is below first_offset 5");
    let expected = "acknowledgement_batches[1]: 0 acknowledge_types for the offsets 0 to 9, expected 1 or one per offset";
    assert_eq!(error(0, 9, &[]), expected);
    assert!(error(0, 0, &[1, 1]).contains("2 acknowledge_types for the offsets 0 to 0"));
    assert!(error(i64::MIN, i64::MAX, &[1, 1]).contains("2 acknowledge_types"));
}

#[test]
fn later_batches_replace_earlier_ones() {
    let of = |first, last, ty| AcknowledgementBatch {
        first_offset: first,
        last_offset: last,
        acknowledge_types: [ty][..].into(),
        ..Default::default()
    };
    let acknowledgements =
        PartitionAcknowledgements::from_batches(&[of(0, 4, RENEW), of(4, 6, ACCEPT)]).unwrap();
    assert_eq!(acknowledgements.get(4), Some(ACCEPT));
    assert_eq!(acknowledgements.count(RENEW), 4);

    let batch = of(4, 6, ACCEPT);
    let acknowledge = share_acknowledge_request::AcknowledgementBatch::from(batch.clone());
    assert_eq!((acknowledge.first_offset, acknowledge.last_offset), (4, 6));
    assert_eq!(AcknowledgementBatch::from(acknowledge), batch);
}

#[test]
fn partitions_are_apart_and_a_renewal_asks_for_version_2() {
    let (p, q) = (TopicIdPartition::new(Uuid::from_u128(1), 0), TopicIdPartition::new(Uuid::from_u128(1), 1));
    let mut acknowledgements = Acknowledgements::default();
    acknowledgements.partition_mut(q);
    assert!(acknowledgements.is_empty());
    acknowledgements.set(p, 3, ACCEPT);
    assert_eq!((acknowledgements.has_renew(), acknowledgements.required_version()), (false, 1));

    let mut later = Acknowledgements::default();
    later.set(q, 9, RENEW);
    later.set(p, 3, AcknowledgeType::REJECT);
    acknowledgements.merge(later);
    assert_eq!((acknowledgements.has_renew(), acknowledgements.required_version()), (true, 2));
    assert_eq!(acknowledgements.len(), 2);
    assert_eq!(acknowledgements.get(p).unwrap().get(3), Some(AcknowledgeType::REJECT));
    assert_eq!(acknowledgements.remove(q).unwrap().required_version(), 2);
    assert_eq!(acknowledgements.required_version(), 1);
}
