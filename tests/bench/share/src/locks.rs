//! Acquisition locks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::time::Duration;

use kafka_protocol::messages::share_fetch_response::AcquiredRecords;
use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::locks::{Acquire, LockConfig, RecordBatchRange, SharePartition};
use kafka_protocol::share::validate::AcknowledgementBatch;

use crate::{Counted, Row, time};

const MEMBER: &str = "Wrg4sTkRQIO_5w84LjMGGQ";

/// So often a small thing is done in a sample.
const TIMES: usize = 1000;

/// How many locks run out.
const LOCKS: usize = 100_000;

/// How many records have states of their own.
const RECORDS: i64 = 500;

/// Something to do, and what it is.
type Named<F> = (&'static str, F);

pub(crate) fn rows() -> Vec<Row> {
    let (mut many, mut one) = (Batches::new(RECORDS), Batches::new(1));
    let mut rows = vec![Row {
        name: "acquire and accept 500 records of a record batch",
        beside: "the same with 1 record",
        goal: 1.2,
        items: TIMES,
        ours: Box::new(move || time(|| (0..TIMES).for_each(|_| many.turn()))),
        other: Box::new(move || time(|| (0..TIMES).for_each(|_| one.turn()))),
    }];
    let own_states: [Named<fn(&mut Each)>; 3] = [
        ("acquire 500 records, acknowledge them with a type for each", Each::one_batch),
        ("acquire 500 records one by one, acknowledge them with a batch for each", Each::batch_for_each),
        ("acquire 500 records, acknowledge them with a request for each", Each::request_for_each),
    ];
    for (name, run) in own_states {
        let mut each = Each::new();
        rows.push(Row {
            name,
            beside: "BTreeMap: insert and remove 500 offsets",
            goal: 2.0,
            items: 20 * RECORDS as usize,
            ours: Box::new(move || time(|| (0..20).for_each(|_| run(&mut each)))),
            other: Box::new(|| time(|| (0..20).for_each(|round| tree(round * RECORDS)))),
        });
    }
    let locked: [Named<fn() -> SharePartition>; 2] = [
        ("expire 100 000 locks of a record each", one_record_batches),
        ("expire 100 000 locks, each renewed by itself", renewed_one_by_one),
    ];
    for (name, locked) in locked {
        let locked = locked();
        rows.push(Row {
            name,
            beside: "BinaryHeap: pop 100 000 deadlines",
            goal: 3.0,
            items: LOCKS,
            ours: Box::new(move || {
                let mut partition = locked.clone();
                time(|| assert_eq!(partition.expire(Duration::MAX), LOCKS))
            }),
            other: Box::new(|| {
                let mut heap: BinaryHeap<_> = (0..LOCKS as u64).map(|ms| Reverse(at(ms))).collect();
                time(|| while black_box(heap.pop()).is_some() {})
            }),
        });
    }
    rows
}

pub(crate) fn counted() -> Vec<Counted> {
    let mut batches = Batches::new(RECORDS);
    let mut each = Each::new();
    vec![
        Counted {
            name: "acquire and accept 500 records of a record batch",
            goal: Some(0),
            items: 1,
            run: Box::new(move || batches.turn()),
        },
        Counted {
            name: "acquire 500 records, acknowledge them with a type for each",
            goal: None,
            items: RECORDS as usize,
            run: Box::new(move || each.one_batch()),
        },
    ]
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn partition() -> SharePartition {
    SharePartition::new(LockConfig { max_record_locks: 1 << 30, ..Default::default() }, 0)
}

/// Record batches of one size, each acquired and then accepted as a whole.
struct Batches {
    partition: SharePartition,
    size: i64,
    now: Duration,
    acquired: Vec<AcquiredRecords>,
}

impl Batches {
    fn new(size: i64) -> Self {
        Self { partition: partition(), size, now: Duration::ZERO, acquired: Vec::new() }
    }

    fn turn(&mut self) {
        let base_offset = self.partition.next_fetch_offset();
        let last_offset = base_offset + self.size - 1;
        let fetch = Acquire {
            record_batches: &[RecordBatchRange { base_offset, last_offset }],
            fetch_offset: base_offset,
            ..Default::default()
        };
        self.now += at(1);
        self.acquired.clear();
        self.partition.acquire(self.now, MEMBER, &fetch, &mut self.acquired);
        let accept = AcknowledgementBatch {
            first_offset: base_offset,
            last_offset,
            acknowledge_types: &[AcknowledgeType::ACCEPT],
        };
        self.partition.acknowledge(self.now, MEMBER, [accept]).expect("acquired");
        assert_eq!(self.partition.start_offset(), last_offset + 1);
    }
}

/// Records that all have states of their own.
struct Each {
    partition: SharePartition,
    now: Duration,
    types: Vec<AcknowledgeType>,
    acquired: Vec<AcquiredRecords>,
    log: Vec<RecordBatchRange>,
}

impl Each {
    fn new() -> Self {
        let types = (0..RECORDS).map(|offset| AcknowledgeType(if offset % 2 == 0 { 1 } else { 3 }));
        let (acquired, log) = (Vec::new(), Vec::new());
        Self { partition: partition(), now: Duration::ZERO, types: types.collect(), acquired, log }
    }

    /// Acquires the next records, of record batches of a size; gives the first offset.
    fn acquire(&mut self, size: i64) -> i64 {
        let first = self.partition.next_fetch_offset();
        let batches = (first..first + RECORDS).step_by(size as usize);
        self.log.clear();
        self.log.extend(
            batches.map(|base_offset| RecordBatchRange { base_offset, last_offset: base_offset + size - 1 }),
        );
        let fetch = Acquire {
            record_batches: &self.log,
            fetch_offset: first,
            batch_size: size as i32,
            ..Default::default()
        };
        self.now += at(1);
        self.acquired.clear();
        self.partition.acquire(self.now, MEMBER, &fetch, &mut self.acquired);
        first
    }

    fn one_batch(&mut self) {
        let first_offset = self.acquire(RECORDS);
        let batch = AcknowledgementBatch {
            first_offset,
            last_offset: first_offset + RECORDS - 1,
            acknowledge_types: &self.types,
        };
        self.partition.acknowledge(self.now, MEMBER, [batch]).expect("acquired");
        assert_eq!(self.partition.in_flight_records(), 0);
    }

    fn batch_for_each(&mut self) {
        let first = self.acquire(1);
        let batches = (first..).zip(&self.types).map(|(offset, ty)| AcknowledgementBatch {
            first_offset: offset,
            last_offset: offset,
            acknowledge_types: std::slice::from_ref(ty),
        });
        self.partition.acknowledge(self.now, MEMBER, batches).expect("acquired");
        assert_eq!(self.partition.in_flight_records(), 0);
    }

    fn request_for_each(&mut self) {
        let first = self.acquire(RECORDS);
        for (offset, ty) in (first..).zip(&self.types) {
            let batch = AcknowledgementBatch {
                first_offset: offset,
                last_offset: offset,
                acknowledge_types: std::slice::from_ref(ty),
            };
            self.partition.acknowledge(self.now, MEMBER, [batch]).expect("acquired");
        }
        assert_eq!(self.partition.in_flight_records(), 0);
    }
}

fn tree(first: i64) {
    let mut tree = BTreeMap::new();
    for offset in first..first + RECORDS {
        tree.insert(black_box(offset), ());
    }
    for offset in first..first + RECORDS {
        tree.remove(&black_box(offset));
    }
    black_box(&tree);
}

/// A record batch of a record for every lock, acquired one after the other.
fn one_record_batches() -> SharePartition {
    let mut partition = partition();
    for offset in 0..LOCKS as i64 {
        acquire(&mut partition, at(offset as u64), offset, offset);
    }
    partition
}

/// Record batches of 500 records, each renewed by itself.
fn renewed_one_by_one() -> SharePartition {
    let mut partition = partition();
    for base_offset in (0..LOCKS as i64).step_by(RECORDS as usize) {
        acquire(&mut partition, at(0), base_offset, base_offset + RECORDS - 1);
    }
    for offset in 0..LOCKS as i64 {
        let renew = AcknowledgementBatch {
            first_offset: offset,
            last_offset: offset,
            acknowledge_types: &[AcknowledgeType::RENEW],
        };
        partition.acknowledge(at(offset as u64), MEMBER, [renew]).expect("acquired");
    }
    partition
}

fn acquire(partition: &mut SharePartition, now: Duration, base_offset: i64, last_offset: i64) {
    let fetch = Acquire {
        record_batches: &[RecordBatchRange { base_offset, last_offset }],
        fetch_offset: base_offset,
        ..Default::default()
    };
    partition.acquire(now, MEMBER, &fetch, &mut Vec::new());
}
