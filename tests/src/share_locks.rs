//! Acquisition locks: random operations against a model that has a cell for every offset, and the timings of the
//! experiments with a broker (`D1` to `D11`).

mod model;

use std::path::Path;
use std::time::Duration;

use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::ShareAcquireMode;
use kafka_protocol::share::locks::{
    AcknowledgeError, AcknowledgeReason, Acquire, DeliveryState, LockConfig, PersistedState,
    RecordBatchRange, SharePartition, StateBatch,
};
use kafka_protocol::share::validate::AcknowledgementBatch;

use crate::random::Random;
use crate::walks::{self, Range, fetch_as, log_of};
use model::Model;

const RENEW: &[AcknowledgeType] = &[AcknowledgeType::RENEW];
const ACCEPT: &[AcknowledgeType] = &[AcknowledgeType::ACCEPT];
const RELEASE: &[AcknowledgeType] = &[AcknowledgeType::RELEASE];

#[test]
fn random_walks_of_a_broker_end_in_the_same_state() {
    let outcome = walks::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("share/walks.jsonl.gz")).unwrap();
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n"));
    assert_eq!(outcome.passed, 240);
}

#[test]
fn random_operations_end_in_the_state_of_the_model() {
    for seed in 0..1500 {
        let mut random = Random::new("share locks", 0, seed);
        let mut model = Model::new(&mut random);
        for step in 0..60 {
            model.step(&mut random, &format!("seed {seed}, step {step}"));
        }
    }
}

/// A partition as in the experiments: two record batches of five, all acquired by `m` at 0 ms for 1000 ms.
struct Bench {
    partition: SharePartition,
}

impl Bench {
    fn new() -> Self {
        let config = LockConfig { lock_duration: ms(1000), ..Default::default() };
        let mut bench = Self { partition: SharePartition::new(config, 0) };
        assert_eq!(bench.fetch(0, "m"), [(0, 9, 1)]);
        bench
    }

    fn fetch(&mut self, at: u64, member: &str) -> Vec<Range> {
        self.partition.expire(ms(at));
        fetch_as(&mut self.partition, ms(at), member, &log_of([5, 5]), &Acquire::default())
    }

    fn acknowledge(
        &mut self,
        at: u64,
        batches: &[(i64, i64, &[AcknowledgeType])],
    ) -> Result<(), AcknowledgeError> {
        self.partition.expire(ms(at));
        let batches = batches.iter().map(|&(first_offset, last_offset, acknowledge_types)| {
            AcknowledgementBatch { first_offset, last_offset, acknowledge_types }
        });
        self.partition.acknowledge(ms(at), "m", batches)
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// D1, D10: without anything done, records are free when the lock has run out, for the same member too.
#[test]
fn locks_run_out() {
    let mut bench = Bench::new();
    assert_eq!(bench.partition.next_deadline(), Some(ms(1000)));
    assert_eq!(bench.fetch(999, "other"), []);
    assert_eq!(bench.fetch(1000, "m"), [(0, 9, 2)]);
    assert_eq!(bench.acknowledge(1100, &[(0, 9, ACCEPT)]), Ok(()));
    assert_eq!((bench.partition.start_offset(), bench.partition.next_deadline()), (10, None));
}

/// D2, D4: a renewal gives the full time from then on, as often as one likes, and counts no delivery.
#[test]
fn renewals_start_the_lock_anew() {
    let mut bench = Bench::new();
    for at in [600, 1200, 1800, 2400, 3000, 3600] {
        assert_eq!(bench.acknowledge(at, &[(0, 9, RENEW)]), Ok(()));
        assert_eq!(bench.partition.next_deadline(), Some(ms(at + 1000)));
    }
    assert_eq!(bench.fetch(4599, "other"), []);
    assert_eq!(bench.fetch(4600, "other"), [(0, 9, 2)]);
}

/// D3: a part that is renewed outlives the rest, which has states of its own from then on.
#[test]
fn a_part_can_be_renewed() {
    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(600, &[(0, 4, RENEW)]), Ok(()));
    assert_eq!(bench.partition.next_deadline(), Some(ms(1000)));
    assert_eq!(bench.fetch(1000, "other"), [(5, 9, 2)]);
    assert_eq!(bench.fetch(1600, "other"), [(0, 4, 2)]);
}

/// D5, D11: after the lock has run out nothing can be said of the records, least of all when others have them.
#[test]
fn what_has_run_out_cannot_be_acknowledged() {
    for types in [RENEW, ACCEPT] {
        let mut bench = Bench::new();
        let error = bench.acknowledge(1300, &[(0, 9, types)]).unwrap_err();
        assert_eq!(error.reason, AcknowledgeReason::BatchNotAcquired { first_offset: 0 });
        assert_eq!(error.code(), ErrorCode::INVALID_RECORD_STATE);
        assert_eq!(bench.fetch(1300, "other"), [(0, 9, 2)]);
        let error = bench.acknowledge(1300, &[(0, 9, types)]).unwrap_err();
        assert_eq!(error.reason, AcknowledgeReason::NotOwnerOfBatch { first_offset: 0 });
    }
}

/// D6, D6b, D6c, D6f: what fails takes back everything but the renewals in front of it.
#[test]
fn renewals_are_not_rolled_back() {
    let past_the_end = (10, 12, ACCEPT);
    let mut bench = Bench::new();
    let error = bench.acknowledge(600, &[(0, 4, RENEW), past_the_end]).unwrap_err();
    assert_eq!((error.batch, error.reason), (1, AcknowledgeReason::FirstOffsetPastAcquired));
    assert_eq!(bench.fetch(1000, "other"), [(5, 9, 2)]);
    assert_eq!(bench.fetch(1600, "other"), [(0, 4, 2)]);

    let mut bench = Bench::new();
    assert!(bench.acknowledge(600, &[(0, 4, ACCEPT), past_the_end]).is_err());
    assert_eq!(bench.partition.start_offset(), 0);
    assert_eq!(bench.fetch(1000, "other"), [(0, 9, 2)]);

    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(100, &[(3, 4, ACCEPT)]), Ok(()));
    assert!(bench.acknowledge(600, &[(3, 3, ACCEPT), (5, 9, RENEW)]).is_err());
    assert_eq!(bench.fetch(1000, "other"), [(0, 2, 2), (5, 9, 2)]);
}

/// D6e: acknowledging below the start offset is no mistake.
#[test]
fn what_is_below_the_start_offset_is_passed_over() {
    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(100, &[(0, 4, ACCEPT)]), Ok(()));
    assert_eq!(bench.partition.start_offset(), 5);
    assert_eq!(bench.acknowledge(600, &[(3, 3, ACCEPT), (5, 9, RENEW)]), Ok(()));
    assert_eq!(bench.partition.next_deadline(), Some(ms(1600)));
}

/// D7: records that fail again and again come in smaller ranges, and at last alone.
#[test]
fn the_last_deliveries_are_of_fewer_records() {
    let mut bench = Bench::new();
    let mut delivered = Vec::new();
    let mut held = vec![(0, 9, 1)];
    while !held.is_empty() {
        for &(first, last, _) in &held {
            assert_eq!(bench.acknowledge(0, &[(first, last, RELEASE)]), Ok(()));
        }
        delivered.extend(std::mem::replace(&mut held, bench.fetch(0, "m")));
    }
    let expected = [
        (0, 9, 1),
        (0, 9, 2),
        (0, 9, 3),
        (0, 4, 4),
        (0, 0, 5),
        (1, 1, 5),
        (2, 2, 5),
        (3, 3, 5),
        (4, 4, 5),
        (5, 9, 4),
        (5, 5, 5),
        (6, 6, 5),
        (7, 7, 5),
        (8, 8, 5),
        (9, 9, 5),
    ];
    assert_eq!(delivered, expected);
    assert_eq!(bench.partition.start_offset(), 10);
}

/// A record on its last delivery waits until nothing else comes in front of it (Kafka's source).
#[test]
fn the_last_delivery_is_alone() {
    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(0, &[(0, 0, RELEASE), (2, 9, ACCEPT)]), Ok(()));
    for _ in 0..3 {
        // Offset 1 stays acquired.
        let [(0, 0, _)] = bench.fetch(0, "m")[..] else { panic!("offset 0 alone") };
        assert_eq!(bench.acknowledge(0, &[(0, 0, RELEASE)]), Ok(()));
    }
    assert_eq!(bench.acknowledge(0, &[(1, 1, RELEASE)]), Ok(()));
    // Offset 0 has been delivered 4 times, offset 1 once.
    assert_eq!(bench.fetch(0, "m"), [(0, 0, 5)]);
    assert_eq!(bench.fetch(0, "m"), [(1, 1, 2)]);

    // The other way round the last one is left for the next fetch.
    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(0, &[(1, 1, RELEASE), (2, 9, ACCEPT)]), Ok(()));
    for _ in 0..3 {
        let [(1, 1, _)] = bench.fetch(0, "m")[..] else { panic!("offset 1 alone") };
        assert_eq!(bench.acknowledge(0, &[(1, 1, RELEASE)]), Ok(()));
    }
    assert_eq!(bench.acknowledge(0, &[(0, 0, RELEASE)]), Ok(()));
    assert_eq!(bench.fetch(0, "m"), [(0, 0, 2)]);
    assert_eq!(bench.fetch(0, "m"), [(1, 1, 5)]);
}

/// D8: a new duration counts for what is renewed from then on.
#[test]
fn a_renewal_takes_the_duration_that_is_now_in_force() {
    let mut bench = Bench::new();
    let config = LockConfig { lock_duration: ms(3000), ..bench.partition.config().clone() };
    bench.partition.set_config(config);
    assert_eq!(bench.partition.next_deadline(), Some(ms(1000)));
    assert_eq!(bench.acknowledge(600, &[(0, 9, RENEW)]), Ok(()));
    assert_eq!(bench.partition.next_deadline(), Some(ms(3600)));
}

/// D9: a group that must not renew gets nothing of the partition applied.
#[test]
fn renewals_can_be_switched_off() {
    let mut bench = Bench::new();
    let config = LockConfig { renew_acknowledge_enable: false, ..bench.partition.config().clone() };
    bench.partition.set_config(config);
    let error = bench.acknowledge(600, &[(0, 4, ACCEPT), (5, 9, RENEW)]).unwrap_err();
    assert_eq!((error.batch, error.reason), (1, AcknowledgeReason::RenewNotEnabled));
    assert_eq!(error.code(), ErrorCode::INVALID_RECORD_STATE);
    assert_eq!(bench.partition.start_offset(), 0);
}

/// A27: with nothing in flight a batch across the start offset is refused, and is a defect of the broker if that is asked
/// for.
#[test]
fn the_defect_is_imitated_only_when_asked_for() {
    for (imitate, reason, code) in [
        (false, AcknowledgeReason::NothingInFlight, ErrorCode::INVALID_RECORD_STATE),
        (true, AcknowledgeReason::Defect, ErrorCode::UNKNOWN_SERVER_ERROR),
    ] {
        let mut bench = Bench::new();
        let config = LockConfig { imitate_defects: imitate, ..bench.partition.config().clone() };
        bench.partition.set_config(config);
        assert_eq!(bench.acknowledge(0, &[(0, 9, ACCEPT)]), Ok(()));
        let error = bench.acknowledge(0, &[(9, 10, ACCEPT)]).unwrap_err();
        assert_eq!((error.reason, error.code()), (reason, code));
        let error = bench.acknowledge(0, &[(10, 12, ACCEPT)]).unwrap_err();
        assert_eq!(error.reason, AcknowledgeReason::NothingInFlight);
        assert_eq!(bench.acknowledge(0, &[(0, 9, ACCEPT)]), Ok(()));
    }
}

/// Above the limit of records in flight only what is available is acquired.
#[test]
fn records_in_flight_are_limited() {
    let log = log_of([10; 10]);
    let config = LockConfig { max_record_locks: 25, ..Default::default() };
    let mut partition = SharePartition::new(config, 0);
    let fetch = |partition: &mut SharePartition| fetch_as(partition, ms(0), "m", &log, &Acquire::default());
    // The record batch in which the limit is reached stays whole.
    assert_eq!(fetch(&mut partition), [(0, 29, 1)]);
    assert_eq!((fetch(&mut partition), partition.can_acquire(100)), (vec![], false));
    let release = AcknowledgementBatch { first_offset: 3, last_offset: 3, acknowledge_types: RELEASE };
    partition.acknowledge(ms(0), "m", [release]).unwrap();
    assert!(partition.can_acquire(100));
    assert_eq!(fetch(&mut partition), [(3, 3, 2)]);
}

/// KIP-1206: never more than MaxRecords, and the rest of the record batch stays available.
#[test]
fn record_limit_is_exact() {
    let log = log_of([5, 5]);
    let mut partition = SharePartition::new(LockConfig::default(), 0);
    let limits = Acquire { mode: ShareAcquireMode::RecordLimit, max_records: 3, ..Default::default() };
    let mut fetch = || fetch_as(&mut partition, ms(0), "m", &log, &limits);
    assert_eq!(fetch(), [(0, 2, 1)]);
    assert_eq!(fetch(), [(3, 4, 1), (5, 5, 1)]);
    assert_eq!(fetch(), [(6, 8, 1)]);
    assert_eq!(fetch(), [(9, 9, 1)]);
    assert_eq!(fetch(), []);
}

/// What a new leader reads back: no locks, and no deliveries without an outcome.
#[test]
fn state_that_was_persisted_is_restored() {
    let mut bench = Bench::new();
    bench.acknowledge(0, &[(2, 3, ACCEPT), (5, 6, RELEASE)]).unwrap();
    assert_eq!(bench.fetch(0, "m"), [(5, 6, 2)]);
    let state = bench.partition.persisted_state();
    let ranges: Vec<_> = state
        .state_batches
        .iter()
        .map(|of| (of.first_offset, of.last_offset, of.delivery_state as i8, of.delivery_count))
        .collect();
    assert_eq!((state.start_offset, &ranges[..]), (0, &[(2, 3, 2, 1), (5, 6, 0, 1)][..]));

    bench.partition = SharePartition::restore(bench.partition.config().clone(), &state);
    assert_eq!(bench.partition.next_deadline(), None);
    assert_eq!(bench.fetch(0, "m"), [(0, 1, 1), (4, 4, 1), (5, 6, 2), (7, 9, 1)]);
}

/// Compaction: what is not in the log any more is archived, so that the start offset gets past it.
#[test]
fn what_the_log_has_lost_is_archived() {
    let log = log_of([5, 5, 5]);
    let mut partition = SharePartition::new(LockConfig::default(), 0);
    let limits = Acquire { batch_size: 5, ..Default::default() };
    assert_eq!(fetch_as(&mut partition, ms(0), "m", &log, &limits), [(0, 4, 1), (5, 9, 1), (10, 14, 1)]);
    partition.release("m");
    assert_eq!(fetch_as(&mut partition, ms(0), "n", &log[1..], &limits), [(5, 9, 2), (10, 14, 2)]);
    assert_eq!(partition.start_offset(), 5);
}

/// Deleted records are forgotten, with their locks.
#[test]
fn the_start_offset_follows_the_log() {
    let mut bench = Bench::new();
    bench.partition.advance_start_offset(7);
    assert_eq!((bench.partition.start_offset(), bench.partition.acquired_records()), (7, 3));
    assert_eq!(bench.acknowledge(0, &[(0, 9, ACCEPT)]), Ok(()));
    assert_eq!((bench.partition.start_offset(), bench.partition.next_deadline()), (10, None));
}

/// What is on the wire may hold any number.
#[test]
fn offsets_and_durations_may_be_as_large_as_their_types() {
    let mut bench = Bench::new();
    assert_eq!(bench.acknowledge(0, &[(i64::MIN, 4, ACCEPT)]), Ok(()));
    assert_eq!(bench.partition.start_offset(), 5);
    assert_eq!(bench.acknowledge(0, &[(i64::MIN, 6, RENEW)]), Ok(()));
    let error = bench.acknowledge(0, &[(5, i64::MAX, ACCEPT)]).unwrap_err();
    assert_eq!(error.reason, AcknowledgeReason::LastOffsetPastAcquired);

    // Forever is a duration too.
    let config = LockConfig { lock_duration: Duration::MAX, ..Default::default() };
    let mut partition = SharePartition::new(config, i64::MIN);
    let log = [RecordBatchRange { base_offset: 0, last_offset: i64::MAX }];
    let fetch = Acquire { fetch_offset: i64::MIN, ..Default::default() };
    assert_eq!(fetch_as(&mut partition, ms(1), "m", &log, &fetch), [(0, i64::MAX - 1, 1)]);
    assert_eq!((partition.end_offset(), partition.next_deadline()), (i64::MAX, Some(Duration::MAX)));
    assert_eq!(fetch_as(&mut partition, ms(1), "m", &log, &fetch), []);
    let all =
        AcknowledgementBatch { first_offset: i64::MIN, last_offset: i64::MAX - 1, acknowledge_types: RENEW };
    assert_eq!(partition.acknowledge(ms(2), "m", [all]), Ok(()));
    assert_eq!(partition.release("m") as u64, i64::MAX as u64);
    assert_eq!(fetch_as(&mut partition, ms(1), "m", &log, &fetch), [(0, i64::MAX - 1, 2)]);
    partition.advance_start_offset(i64::MAX);
    assert_eq!(
        (partition.start_offset(), partition.end_offset(), partition.acquired_records()),
        (i64::MAX, i64::MAX, 0)
    );
    assert_eq!(fetch_as(&mut partition, ms(1), "m", &log, &fetch), []);
}

/// Persisted state is what somebody has sent.
#[test]
fn any_persisted_state_is_restored() {
    let of = |first_offset, last_offset, delivery_state, delivery_count| StateBatch {
        first_offset,
        last_offset,
        delivery_state,
        delivery_count,
    };
    let state = PersistedState {
        start_offset: -1,
        state_batches: vec![
            of(i64::MIN, -1, DeliveryState::Archived, 1),
            of(-5, 4, DeliveryState::Available, -3),
            of(9, 7, DeliveryState::Available, 1),
            of(3, 9, DeliveryState::Acquired, i16::MAX),
            of(10, i64::MAX, DeliveryState::Acknowledged, 1),
            of(i64::MAX, i64::MAX, DeliveryState::Available, 1),
        ],
    };
    let config = LockConfig { delivery_count_limit: 2, max_record_locks: i64::MIN, ..Default::default() };
    let mut partition = SharePartition::restore(config, &state);
    assert_eq!((partition.start_offset(), partition.end_offset()), (0, i64::MAX));
    let log = [RecordBatchRange { base_offset: 0, last_offset: 9 }];
    let fetch = Acquire::default();
    assert_eq!(fetch_as(&mut partition, ms(0), "m", &log, &fetch), [(0, 4, 1)]);
    assert_eq!(fetch_as(&mut partition, ms(0), "m", &log, &fetch), [(5, 5, i16::MAX)]);
    let every = AcknowledgementBatch { first_offset: 0, last_offset: 4, acknowledge_types: ACCEPT };
    assert_eq!(partition.acknowledge(ms(0), "m", [every]), Ok(()));
    assert_eq!(partition.persisted_state().start_offset, 5);
}

/// What a range takes grows with its pieces: none of its offsets is looked at by itself.
#[test]
fn ranges_of_any_length_are_acknowledged_in_part() {
    const LAST: i64 = i64::MAX - 1;
    let log = [RecordBatchRange { base_offset: 0, last_offset: LAST }];
    let mut partition = SharePartition::new(LockConfig::default(), 0);
    let fetch = |partition: &mut SharePartition, at| fetch_as(partition, at, "m", &log, &Acquire::default());
    assert_eq!(fetch(&mut partition, ms(0)), [(0, LAST, 1)]);
    let batch = |first_offset, last_offset, acknowledge_types| AcknowledgementBatch {
        first_offset,
        last_offset,
        acknowledge_types,
    };
    let each =
        [AcknowledgeType::ACCEPT, AcknowledgeType::RENEW, AcknowledgeType::RENEW, AcknowledgeType::RELEASE];
    let sent = [batch(1000, 1003, &each[..]), batch(1 << 40, 1 << 41, RENEW), batch(1 << 62, LAST, RELEASE)];
    // Undone as a whole, but for renewals.
    let wrong = batch(LAST, LAST, ACCEPT);
    let error = partition.acknowledge(ms(10), "m", sent.into_iter().chain([wrong])).unwrap_err();
    assert_eq!((error.batch, error.reason), (3, AcknowledgeReason::OffsetNotAcquired { offset: LAST }));
    assert_eq!(partition.acquired_records(), LAST as usize + 1);
    assert_eq!(partition.acknowledge(ms(20), "m", sent), Ok(()));
    let states: Vec<_> = partition
        .states()
        .map(|(of, _)| (of.first_offset, of.last_offset, of.delivery_state as i8))
        .collect();
    let expected = [
        (0, 999, 1),
        (1000, 1000, 2),
        (1001, 1002, 1),
        (1003, 1003, 0),
        (1004, (1 << 62) - 1, 1),
        (1 << 62, LAST, 0),
    ];
    assert_eq!(states, expected);

    // What was not renewed runs out first.
    let renewed = 2 + (1 << 40) + 1;
    assert_eq!(partition.expire(ms(30_000)), (1 << 62) - 2 - renewed);
    assert_eq!((partition.acquired_records(), partition.next_deadline()), (renewed, Some(ms(30_020))));
    assert_eq!(partition.expire(ms(30_020)), renewed);
    assert_eq!(fetch(&mut partition, ms(30_020)), [(0, 999, 2), (1001, LAST, 2)]);
    partition.advance_start_offset(1 << 50);
    assert_eq!(partition.acquired_records() as i64, LAST + 1 - (1 << 50));
    assert_eq!(partition.release("m") as i64, LAST + 1 - (1 << 50));
}
