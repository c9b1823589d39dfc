//! Batches that mean no good: counts, offsets and ranges that ask for memory, for time, or for numbers that overflow.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use kafka_protocol::messages::share_fetch_response::PartitionData;
use kafka_protocol::records::{
    BatchBuilder, BatchHeader, BatchMut, Batches, Compression, NewRecord, ReadOptions, RecordBatch,
    validate_for_produce,
};
use kafka_protocol::wire::Bytes;

use super::acquired::partition;
use super::make::{RECORDS, batch, batch_of, batch_of_bytes, header, message, offsets, only, value, wrapper};

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 20, max_ratio: 1000 };

/// The most bytes that were allocated at once.
fn memory(run: impl FnOnce()) -> usize {
    measure(run).bytes_max as usize
}

// ---- Memory ----

#[test]
fn a_count_alone_reserves_nothing() {
    let record = batch_of(BatchBuilder::new(), &[0]).slice(RECORDS..);
    for compression in Compression::ALL {
        let bytes = only(&batch_of_bytes(i32::MAX, &record)).recompress(compression, None, &OPTIONS).unwrap();
        let batch = only(&bytes);
        assert_eq!(batch.header().records_count, i32::MAX);
        let mut partition = partition(bytes.clone(), &[(0, i64::MAX, 1)]);
        partition.partition_index = 1;
        let uses: [&dyn Fn() -> bool; 5] = [
            &|| batch.records().unwrap().to_vec().is_err(),
            &|| batch.records().unwrap().owned().collect::<Vec<_>>().len() == 2,
            &|| batch.records().unwrap().control().count() == 2,
            &|| batch.retain(&OPTIONS, |_| true).is_err(),
            &|| partition.read_acquired(&OPTIONS, |_, _| ()).is_err(),
        ];
        for (n, refuses) in uses.iter().enumerate() {
            let mut refused = false;
            let most = memory(|| refused = refuses());
            assert!(refused && most < 2 << 20, "{compression}, use {n}: {most} bytes");
        }
    }
}

/// Which records stay is known before the first one is written, and takes no more than a byte each.
#[test]
fn retaining_takes_a_byte_per_record_and_the_content() {
    const COUNT: usize = 100_000;
    let mut builder = BatchBuilder::new();
    for _ in 0..COUNT {
        builder.append(&NewRecord { timestamp: 1000, ..Default::default() }).unwrap();
    }
    let original = builder.finish().unwrap();
    let batch = only(&original);
    for (one_in, content) in [(1, 0), (2, original.len() / 2), (COUNT + 1, 0)] {
        let mut kept = Bytes::new();
        let most =
            memory(|| kept = batch.retain(&OPTIONS, |record| record.offset % one_in as i64 == 0).unwrap());
        assert_eq!(header(&kept).records_count as usize, COUNT.div_ceil(one_in));
        // A buffer that grows is there twice.
        let allowed = 3 * content + 3 * COUNT + (1 << 12);
        assert!(most <= allowed, "one in {one_in}: {most} bytes, {allowed} are allowed");
    }
}

/// Ranges of a member in orders that make a search through all of them long, and over each other.
fn ranges(n: i64) -> [Vec<(i64, i64, i16)>; 3] {
    let nested = |at: i64| (at, 2 * n - at, 1);
    let zigzag = |at: i64| if at % 2 == 0 { nested(at / 2) } else { nested(n - 1 - at / 2) };
    [
        (0..n).map(nested).collect(),
        (0..n).rev().map(|at| (at, 2 * n, 1)).collect(),
        (0..n).map(zigzag).collect(),
    ]
}

/// `n` records, every other offset a gap, in batches of 100, the last ones first.
fn gappy(n: i64) -> Bytes {
    let batches = (0..n / 100).rev().map(|batch| {
        let offsets: Vec<i64> = (0..100).map(|record| 2 * (100 * batch + record)).collect();
        batch_of(BatchBuilder::new(), &offsets)
    });
    batches.flatten().collect::<Vec<u8>>().into()
}

#[test]
fn overlapping_ranges_take_memory_once() {
    const COUNT: usize = 4000;
    for records in [gappy(COUNT as i64), batch_of(BatchBuilder::new(), &[0, 2 * COUNT as i64])] {
        for ranges in ranges(COUNT as i64) {
            let partition = partition(records.clone(), &ranges);
            let mut gaps = vec![];
            let most = memory(|| gaps = partition.read_acquired(&OPTIONS, |_, _| ()).unwrap());
            assert!(gaps.len() <= COUNT + 1, "{} gaps", gaps.len());
            let allowed = 200 * 2 * COUNT;
            assert!(most <= allowed, "{most} bytes, {allowed} are allowed");
        }
    }
}

#[test]
fn overlapping_ranges_take_time_once() {
    /// That of so many calls.
    fn time(partition: &PartitionData, times: i64) -> Duration {
        let start = Instant::now();
        for _ in 0..times {
            partition.read_acquired(&OPTIONS, |_, _| ()).unwrap();
        }
        start.elapsed()
    }
    const TIMES: i64 = 16;
    let few = ranges(500).map(|ranges| partition(gappy(500), &ranges));
    let many = ranges(500 * TIMES).map(|ranges| partition(gappy(500 * TIMES), &ranges));
    for (few, many) in few.iter().zip(&many) {
        // As many records and ranges in all, by turns, and the fastest of several: others may be at work.
        let mut best = [Duration::MAX; 2];
        for _ in 0..8 {
            best = [best[0].min(time(few, TIMES)), best[1].min(time(many, 1))];
        }
        let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        assert!(ratio < 3.0, "all at once takes {ratio} times as long as in {TIMES} parts");
    }
}

// ---- Numbers ----

const EDGES: [i64; 7] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
const DELTAS: [i32; 6] = [i32::MIN, -1, 0, 1, 2, i32::MAX];

/// All that can be done with a batch. What comes out is asked elsewhere; nothing may panic.
fn use_in_every_way(bytes: &Bytes) {
    for batch in Batches::new(bytes).flatten() {
        let header = batch.header();
        let _ = (header.last_offset(), header.last_sequence(), header.delete_horizon(), header.is_control());
        if let Ok(records) = batch.records() {
            let all = records.iter().flatten().count();
            assert_eq!(records.owned().flatten().count(), all);
            let _ = (records.base_offset(), records.to_vec(), records.control().count());
            check_rewritten(&batch);
        }
    }
    let _ = validate_for_produce(bytes, &OPTIONS);
    for range in
        [(i64::MIN, i64::MAX), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN), (i64::MAX, i64::MIN), (-1, 1)]
    {
        let twice = [(range.0, range.1, 1), (0, 3, 2), (range.0, range.1, 3)];
        if let Ok(gaps) = partition(bytes.clone(), &twice).read_acquired(&OPTIONS, |_, _| ()) {
            assert!(gaps.iter().all(|gap| !gap.is_empty()), "{gaps:?}");
            assert!(gaps.is_sorted_by(|one, other| one.end() < other.start()), "{gaps:?}");
        }
    }
    change_in_place(bytes);
}

fn check_rewritten(batch: &RecordBatch<'_>) {
    for compression in Compression::ALL {
        let _ = batch.recompress(compression, None, &OPTIONS).map(|bytes| only(&bytes).verify());
    }
    for one_in in [1, 2, usize::MAX] {
        let mut n = 0;
        let keep = |_: &kafka_protocol::records::Record<'_>| {
            n += 1;
            n % one_in == 0
        };
        let _ = batch.retain(&OPTIONS, keep).map(|bytes| only(&bytes).verify());
    }
}

fn change_in_place(bytes: &Bytes) {
    for edge in EDGES {
        let mut buffer = bytes.to_vec();
        for batch in BatchMut::all(&mut buffer).iter_mut().flatten() {
            batch.set_base_offset(edge);
            batch.set_partition_leader_epoch(edge as i32);
            let done = [
                batch.set_log_append_time(edge),
                batch.set_max_timestamp(edge),
                batch.set_producer(edge, edge as i16, edge as i32),
            ];
            assert_eq!(done, [Ok(()), Ok(()), Ok(())]);
        }
        for batch in Batches::from_slice(&buffer).flatten().filter(|batch| batch.header().magic == 2) {
            assert_eq!((batch.verify(), batch.header().base_offset), (Ok(()), edge));
        }
    }
}

/// A batch of this header with three records: at the base offset, one above it and one below.
fn extreme(header: &BatchHeader, compression: Compression) -> Bytes {
    let mut header = *header;
    header.attributes.0 |= i16::from(compression.id());
    // Length, attributes, deltas of timestamp and offset, key, value, number of headers.
    let records = [[12, 0, 0, 0, 1, 1, 0], [12, 0, 2, 2, 1, 1, 0], [12, 0, 1, 1, 1, 1, 0]].concat();
    let start = BatchBuilder::from_header(&header).finish().unwrap();
    let bytes = [&start[..57], &3_i32.to_be_bytes()[..], &records].concat();
    let plain = super::make::patched(&bytes, 22, &[(header.attributes.0 & !7) as u8]);
    only(&plain).recompress(compression, None, &OPTIONS).unwrap()
}

#[test]
fn batches_at_the_ends_of_all_numbers_do_not_panic() {
    let plain = header(&batch(Compression::None));
    for base_offset in EDGES {
        for last_offset_delta in DELTAS {
            for flags in [0, 8, 16 | 32, 64] {
                let header = BatchHeader {
                    base_offset,
                    last_offset_delta,
                    attributes: kafka_protocol::records::Attributes(flags),
                    base_timestamp: base_offset,
                    max_timestamp: !base_offset,
                    producer_id: base_offset,
                    producer_epoch: base_offset as i16,
                    base_sequence: last_offset_delta,
                    ..plain
                };
                check_next_offset(&header);
                for compression in [Compression::None, Compression::Snappy] {
                    use_in_every_way(&extreme(&header, compression));
                }
            }
        }
    }
}

fn check_next_offset(header: &BatchHeader) {
    let next = i128::from(header.base_offset) + i128::from(header.last_offset_delta) + 1;
    let stated = i64::try_from(next).ok().filter(|_| header.last_offset_delta >= 0);
    assert_eq!(header.next_offset(), stated, "{header:?}");
}

#[test]
fn offsets_beyond_64_bits_are_errors() {
    let plain = header(&batch(Compression::None));
    for (base_offset, good) in
        [(i64::MAX, [true, false, true]), (i64::MIN, [true, true, false]), (0, [true; 3])]
    {
        let bytes = extreme(&BatchHeader { base_offset, ..plain }, Compression::None);
        let records = only(&bytes).records().unwrap();
        let read: Vec<_> = records.iter().map(|record| record.map(|record| record.offset)).collect();
        assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), good, "{read:?}");
        assert_eq!(read[0], Ok(base_offset));
    }
}

#[test]
fn old_messages_at_the_ends_of_all_numbers_do_not_panic() {
    for magic in [0, 1] {
        for outer in EDGES {
            use_in_every_way(&message(magic, 0, outer, Some(b"v")).into());
            for first in EDGES {
                for last in EDGES {
                    let inner = [first, last].map(|offset| message(magic, 0, offset, Some(b"v")));
                    let bytes = wrapper(magic, 0, outer, &inner);
                    use_in_every_way(&bytes);
                    check_offsets(&bytes, magic, outer, [first, last]);
                }
            }
        }
    }
}

/// In magic 1 those inside are counted so that the last one has the offset of the wrapper, unless that is 0.
fn check_offsets(bytes: &Bytes, magic: u8, outer: i64, inner: [i64; 2]) {
    if magic == 0 || outer == 0 {
        assert_eq!(offsets(bytes), inner);
        return;
    }
    let base = i128::from(outer) - i128::from(inner[1]);
    let is_told = (0..=i128::from(i64::MAX)).contains(&base);
    let stated = inner.map(|offset| i64::try_from(i128::from(offset) + base).ok());
    match (only(bytes).records(), stated) {
        (Ok(_), [Some(first), Some(last)]) if is_told => assert_eq!(offsets(bytes), [first, last]),
        (Err(_), [first, last]) => {
            assert!(!is_told || first.is_none() || last.is_none(), "{outer} {inner:?}")
        }
        (Ok(_), stated) => panic!("{outer} {inner:?}: {stated:?}"),
    }
}

// ---- Builders ----

#[test]
fn builders_at_the_ends_of_all_numbers_do_not_panic() {
    let plain = header(&batch(Compression::None));
    for base_offset in EDGES {
        for timestamp in EDGES {
            let header = BatchHeader { base_offset, base_timestamp: timestamp, base_sequence: -1, ..plain };
            let sequence = BatchBuilder::new().producer(1, 1, i32::MAX);
            for builder in [BatchBuilder::new(), sequence, BatchBuilder::from_header(&header)] {
                check_builder(builder, timestamp);
                let moved = BatchBuilder::new().base_offset(base_offset);
                check_builder(moved, timestamp);
            }
        }
    }
}

fn check_builder(mut builder: BatchBuilder, timestamp: i64) {
    for first in EDGES {
        for second in [Some(i64::MIN), None, Some(i64::MAX)] {
            let at = |offset| NewRecord { offset, timestamp, ..value(b"v") };
            let taken = [Some(first), second, None].map(|offset| builder.append(&at(offset)).is_ok());
            assert_eq!(builder.len(), taken.iter().filter(|taken| **taken).count());
            let moved = builder.clone().base_offset(first).finish();
            for batch in [moved, builder.finish()].into_iter().flatten() {
                use_in_every_way(&batch);
            }
        }
    }
}
