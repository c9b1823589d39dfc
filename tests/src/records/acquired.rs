//! `PartitionData::read_acquired`: the records that a member of a share group has acquired.

use std::ops::RangeInclusive;

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::messages::EndTxnMarker;
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
use kafka_protocol::records::{BatchBuilder, Compression, ReadOptions, RecordsError, RecordsField, RecordsReason};
use kafka_protocol::wire::Bytes;

use super::make::{batch_of, message, wrapper};
use crate::random::Random;

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 20, max_ratio: 1000 };

/// First and last offset, delivery count.
type Acquired = (i64, i64, i16);
type Gaps = Vec<RangeInclusive<i64>>;

pub(super) fn partition(records: impl Into<Bytes>, acquired: &[Acquired]) -> PartitionData {
    let acquired_records = acquired.iter().map(|&(first_offset, last_offset, delivery_count)| AcquiredRecords {
        first_offset,
        last_offset,
        delivery_count,
        ..Default::default()
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
            assert_eq!(partition.delivery_count(offset), count, "{acquired:?}");
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
        // Behind the last one there may be more.
        (&[(18, 30, 1)], vec![18..=18]),
        (&[(20, 30, 1)], vec![]),
    ];
    for (acquired, gaps) in cases {
        assert_eq!(read(&partition(log.clone(), acquired)).1, Ok(gaps), "{acquired:?}");
    }
    // A batch whose last records were compacted away reaches up to its last offset.
    let batch = batch_of(BatchBuilder::new(), &[0, 1, 2, 3]);
    let kept = super::make::only(&batch).retain(&OPTIONS, |record| record.offset == 1).unwrap();
    assert_eq!(read(&partition(kept, &[(0, 9, 1)])), (vec![(1, 1)], Ok(vec![0..=0, 2..=3])));
    let emptied = super::make::only(&batch).retain(&OPTIONS, |_| false).unwrap();
    assert_eq!(read(&partition(emptied, &[(0, 9, 1)])), (vec![], Ok(vec![0..=3])));
}

#[test]
fn control_records_are_gaps() {
    let mut builder = BatchBuilder::new().control().producer(7, 0, -1).transactional().base_offset(2);
    builder.append_control(1000, &ControlRecord::Commit(EndTxnMarker::default())).unwrap();
    let marker = builder.finish().unwrap();
    let log = [plain(&[0, 1]), marker.clone(), plain(&[3])].concat();
    assert_eq!(read(&partition(log, &[(0, 3, 1)])), (vec![(0, 1), (1, 1), (3, 1)], Ok(vec![2..=2])));
    assert_eq!(read(&partition(marker, &[(2, 5, 1)])), (vec![], Ok(vec![2..=2])));
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
    for end in whole..log.len() {
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
    let ranges = [(4, 6, 2), (0, 2, 1), (5, 9, 3), (5, 5, 4), (9, 7, 8), (i64::MAX, i64::MIN, 8)];
    let log = log(&[&[0, 1, 3], &[5, 6, 8]]);
    let (seen, gaps) = read(&partition(log.clone(), &ranges));
    assert_eq!(seen.iter().map(|record| record.0).collect::<Vec<_>>(), [0, 1, 5, 6, 8]);
    assert_eq!(gaps, Ok(vec![2..=2, 4..=4, 7..=7]));
    let partition = partition(log, &ranges);
    assert!(seen.iter().all(|&(offset, count)| partition.delivery_count(offset) == Some(count)), "{seen:?}");

    for n in 0..2000 {
        check_random(n);
    }
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
    let there: Vec<i64> = (0..40).filter(|offset| batches.iter().flatten().any(|one| one == offset)).collect();
    let end = there.last().unwrap() + 1;
    let stated: Vec<i64> = there.iter().copied().filter(acquired).collect();
    // In order, though the batches may go back: such an offset is not there at all, or is there where it belongs.
    assert!(seen.is_sorted_by(|one, other| one < other), "{n}: {seen:?}");
    assert!(seen.iter().all(|offset| stated.contains(offset)), "{n}: {seen:?}");
    if batches.iter().flatten().is_sorted_by(|one, other| one < other) {
        assert_eq!(seen, stated, "{n}");
    }
    assert!(gaps.is_sorted_by(|one, other| one.end() < other.start()), "{n}: {gaps:?}");
    let missing: Vec<i64> =
        (0..end).filter(|offset| acquired(offset) && !seen.contains(offset)).collect();
    assert_eq!(gaps.into_iter().flatten().collect::<Vec<_>>(), missing, "{n}: {ranges:?} {batches:?}");
}
