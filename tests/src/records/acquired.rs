//! `PartitionData::read_acquired`: the records that a member of a share group has acquired.

use std::ops::RangeInclusive;

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::messages::EndTxnMarker;
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
use kafka_protocol::records::{
    AcquiredRanges, BatchBuilder, Compression, ReadOptions, RecordsError, RecordsField, RecordsReason,
};
use kafka_protocol::wire::Bytes;

use super::make::{batch_of, message, wrapper};
use crate::random::Random;

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 20, max_ratio: 1000 };

/// First and last offset, delivery count.
type Acquired = (i64, i64, i16);
type Gaps = Vec<RangeInclusive<i64>>;

pub(super) fn partition(records: impl Into<Bytes>, acquired: &[Acquired]) -> PartitionData {
    let acquired_records = acquired.iter().map(|&(first_offset, last_offset, delivery_count)| {
        AcquiredRecords { first_offset, last_offset, delivery_count, ..Default::default() }
    });
    let mut partition = PartitionData { acquired_records: acquired_records.collect(), ..Default::default() };
    partition.set_records(records.into());
    partition
}

/// The offsets handed over with their delivery counts, and the gaps.
fn read(partition: &PartitionData) -> (Vec<(i64, i16)>, Result<Gaps, RecordsError>) {
    let mut seen = Vec::new();
    let gaps = partition.read_acquired(&OPTIONS, |record, count| seen.push((record.offset, count)));
    (seen, gaps)
}

fn plain(offsets: &[i64]) -> Bytes {
    batch_of(BatchBuilder::new(), offsets)
}

/// Batches of these offsets, one after another.
fn log(batches: &[&[i64]]) -> Vec<u8> {
    batches.iter().flat_map(|offsets| plain(offsets)).collect()
}

#[test]
fn acquired_records_are_handed_over_with_their_count() {
    let log = log(&[&[0, 1, 2], &[3, 4, 5], &[6, 7]]);
    let cases: [(&[Acquired], &[(i64, i16)]); 5] = [
        (&[], &[]),
        (&[(0, 7, 1)], &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]),
        (&[(1, 1, 1), (4, 6, 3)], &[(1, 1), (4, 3), (5, 3), (6, 3)]),
        (&[(2, 2, 5), (3, 3, 2), (4, 4, 5)], &[(2, 5), (3, 2), (4, 5)]),
        (&[(7, 7, i16::MAX)], &[(7, i16::MAX)]),
    ];
    for (acquired, stated) in cases {
        let partition = partition(log.clone(), acquired);
        assert_eq!(read(&partition), (stated.to_vec(), Ok(vec![])), "{acquired:?}");
        for offset in -1..9 {
            let count = stated.iter().find(|record| record.0 == offset).map(|record| record.1);
            let ranges = AcquiredRanges::new(&partition.acquired_records);
            assert_eq!(ranges.delivery_count(offset), count, "{acquired:?}");
        }
    }
    assert_eq!(read(&PartitionData::default()), (vec![], Ok(vec![])));
}

#[test]
fn offsets_without_a_record_are_gaps() {
    let log = log(&[&[10, 12], &[15, 16, 19]]);
    let cases: [(&[Acquired], Gaps); 6] = [
        (&[(10, 19, 1)], vec![11..=11, 13..=14, 17..=18]),
        (&[(11, 11, 1)], vec![11..=11]),
        (&[(13, 14, 1), (16, 17, 2)], vec![13..=14, 17..=17]),
        // Before the first batch there is nothing either.
        (&[(8, 10, 1)], vec![8..=9]),
        // Nor behind the last one, as it is all there.
        (&[(18, 30, 1)], vec![18..=18, 20..=30]),
        (&[(20, 30, 1), (0, 0, 1)], vec![0..=0, 20..=30]),
    ];
    for (acquired, gaps) in cases {
        assert_eq!(read(&partition(log.clone(), acquired)).1, Ok(gaps), "{acquired:?}");
    }
    // Without any batch nothing is known.
    assert_eq!(read(&partition(vec![], &[(0, 9, 1)])), (vec![], Ok(vec![])));
    // A batch whose last records were compacted away reaches up to its last offset.
    let batch = batch_of(BatchBuilder::new(), &[0, 1, 2, 3]);
    let kept = super::make::only(&batch).retain(&OPTIONS, |record| record.offset == 1).unwrap();
    assert_eq!(read(&partition(kept.clone(), &[(0, 9, 1)])), (vec![(1, 1)], Ok(vec![0..=0, 2..=9])));
    let emptied = super::make::only(&batch).retain(&OPTIONS, |_| false).unwrap();
    assert_eq!(read(&partition(emptied.clone(), &[(0, 9, 1)])), (vec![], Ok(vec![0..=9])));
    // With a cut batch behind them, nobody knows of what is behind their last offset.
    for (batch, gaps) in [(kept, vec![0..=0, 2..=3]), (emptied, vec![0..=3])] {
        let cut = [&batch[..], &batch[..30]].concat();
        assert_eq!(read(&partition(cut, &[(0, 9, 1)])).1, Ok(gaps));
    }
}

#[test]
fn control_records_are_gaps() {
    let mut builder = BatchBuilder::new().control().producer(7, 0, -1).transactional().base_offset(2);
    builder.append_control(1000, &ControlRecord::Commit(EndTxnMarker::default())).unwrap();
    let marker = builder.finish().unwrap();
    let log = [plain(&[0, 1]), marker.clone(), plain(&[3])].concat();
    assert_eq!(read(&partition(log, &[(0, 3, 1)])), (vec![(0, 1), (1, 1), (3, 1)], Ok(vec![2..=2])));
    assert_eq!(read(&partition(marker, &[(2, 2, 1)])), (vec![], Ok(vec![2..=2])));
}

#[test]
fn old_formats_and_compressed_batches_are_read_as_well() {
    let inner = [0, 1, 3].map(|offset| message(1, 0, offset, Some(b"v")));
    let log = [wrapper(1, 0, 43, &inner), message(0, 0, 44, None).into()].concat();
    let seen = vec![(41, 1), (43, 1), (44, 1)];
    assert_eq!(read(&partition(log, &[(41, 44, 1)])), (seen, Ok(vec![42..=42])));
    for compression in Compression::ALL {
        let batch = batch_of(BatchBuilder::new().compression(compression), &[5, 7]);
        assert_eq!(read(&partition(batch, &[(5, 7, 1)])), (vec![(5, 1), (7, 1)], Ok(vec![6..=6])));
    }
}

/// A broker sends the last batch cut, or whole batches of which it gives parts.
#[test]
fn what_is_cut_is_not_a_gap() {
    let log = log(&[&[0, 2], &[3, 4]]);
    let whole = plain(&[0, 2]).len();
    for end in whole + 1..log.len() {
        let cut = partition(log[..end].to_vec(), &[(0, 4, 1)]);
        assert_eq!(read(&cut), (vec![(0, 1), (2, 1)], Ok(vec![1..=1])), "{end}");
    }
    for end in 0..whole {
        assert_eq!(read(&partition(log[..end].to_vec(), &[(0, 4, 1)])), (vec![], Ok(vec![])), "{end}");
    }
}

#[test]
fn records_before_an_error_are_handed_over() {
    let mut log = log(&[&[0, 1], &[2, 3]]);
    let last = log.len() - 3;
    log[last] ^= 1;
    let (seen, error) = read(&partition(log.clone(), &[(0, 3, 1)]));
    let error = error.unwrap_err();
    assert_eq!((seen, error.batch()), (vec![(0, 1), (1, 1)], 1));
    assert!(matches!(error.reason(), RecordsReason::Checksum { .. }), "{error}");

    let unchecked = ReadOptions { check_crc: false, ..OPTIONS };
    let mut count = 0;
    assert_eq!(partition(log, &[(0, 3, 1)]).read_acquired(&unchecked, |_, _| count += 1), Ok(vec![]));
    assert_eq!(count, 4);
    let tight = ReadOptions { max_size: 10, ..OPTIONS };
    let zipped = batch_of(BatchBuilder::new().compression(Compression::Gzip), &[0]);
    let error = partition(zipped, &[(0, 0, 1)]).read_acquired(&tight, |_, _| ()).unwrap_err();
    assert_eq!(error.reason(), &RecordsReason::DecompressedSize { limit: 10 });
}

/// Ranges in any order, over each other, the wrong way round, and batches that go back: each offset once.
#[test]
fn whatever_the_ranges_are_each_offset_is_there_once() {
    let ranges =
        [(4, 6, 2), (0, 2, 1), (5, 9, 3), (5, 5, 4), (9, 7, 8), (i64::MAX, i64::MIN, 8), (-7, -5, 9)];
    let partition = partition(log(&[&[0, 1, 3], &[5, 6, 8]]), &ranges);
    let counts = vec![(0, 1), (1, 1), (5, 2), (6, 2), (8, 3)];
    assert_eq!(read(&partition), (counts, Ok(vec![2..=2, 4..=4, 7..=7, 9..=9])));
    for n in 0..2000 {
        check_random(n);
    }
}

#[test]
fn ranges_are_ascending_and_disjoint() {
    let of = |ranges: &[Acquired]| AcquiredRanges::new(&partition(vec![], ranges).acquired_records);
    let ranges = of(&[(4, 6, 2), (-3, 2, 1), (5, 9, 3), (5, 5, 4), (9, 7, 8), (-7, -5, 9), (20, 20, 6)]);
    assert!(ranges.iter().eq([(0, 2, 1), (4, 6, 2), (7, 9, 3), (20, 20, 6)]));
    let counts =
        [(i64::MIN, None), (-1, None), (0, Some(1)), (3, None), (5, Some(2)), (9, Some(3)), (20, Some(6))];
    for (offset, count) in counts.into_iter().chain([(10, None), (21, None), (i64::MAX, None)]) {
        assert_eq!(ranges.delivery_count(offset), count, "{offset}");
    }
    assert!(ranges.within(i64::MIN, i64::MAX).eq(ranges.iter()));
    assert!(ranges.within(2, 7).eq([(2, 2, 1), (4, 6, 2), (7, 7, 3)]));
    assert!(ranges.within(5, 5).eq([(5, 5, 2)]));
    for (first, last) in [(3, 3), (10, 19), (21, i64::MAX), (i64::MIN, -1), (6, 4)] {
        assert_eq!(ranges.within(first, last).count(), 0, "{first} to {last}");
    }
    // There is no offset behind the largest one, so that it is none of a record.
    let whole = of(&[(i64::MIN, i64::MAX, 1), (5, 5, 2)]);
    assert!(whole.iter().eq([(0, i64::MAX - 1, 1)]));
    assert_eq!(of(&[(i64::MAX, i64::MAX, 1)]).iter().count(), 0);
}

fn check_random(n: u64) {
    let random = &mut Random::new("acquired", 0, n);
    let mut pick = |most: usize| random.below(most) as i64;
    let ranges: Vec<Acquired> = (0..pick(6)).map(|_| (pick(20), pick(20), pick(9) as i16)).collect();
    let mut batches = Vec::new();
    for _ in 0..=pick(3) {
        let (mut next, mut offsets) = (pick(10), Vec::new());
        for _ in 0..=pick(4) {
            next += 1 + pick(3);
            offsets.push(next);
        }
        batches.push(offsets);
    }
    let slices: Vec<&[i64]> = batches.iter().map(Vec::as_slice).collect();
    let partition = partition(log(&slices), &ranges);
    let (seen, gaps) = read(&partition);
    let (seen, gaps): (Vec<_>, _) = (seen.into_iter().map(|record| record.0).collect(), gaps.unwrap());

    let acquired = |offset: &i64| ranges.iter().any(|range| (range.0..=range.1).contains(offset));
    let stated: Vec<i64> = (0..40)
        .filter(|offset| acquired(offset) && batches.iter().flatten().any(|one| one == offset))
        .collect();
    // In order. Of batches that go back, some may be passed over.
    assert!(seen.is_sorted_by(|one, other| one < other), "{n}: {seen:?}");
    assert!(seen.iter().all(|offset| stated.contains(offset)), "{n}: {seen:?}");
    if batches.iter().flatten().is_sorted_by(|one, other| one < other) {
        assert_eq!(seen, stated, "{n}");
    }
    assert!(gaps.is_sorted_by(|one, other| one.end() < other.start()), "{n}: {gaps:?}");
    let missing: Vec<i64> = (0..40).filter(|offset| acquired(offset) && !seen.contains(offset)).collect();
    assert_eq!(gaps.into_iter().flatten().collect::<Vec<_>>(), missing, "{n}: {ranges:?} {batches:?}");
}
