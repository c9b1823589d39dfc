//! Random batches, read and damaged. The cases are the same in every run: the number of a case is its seed.

use allocation_counter::measure;
use kafka_protocol::records::{
    BatchBuilder, Batches, Compression, NewRecord, ReadOptions, RecordsReason, validate_for_produce,
};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::case::same;
use super::make::reseal;
use super::random::{batch, buffer};
use super::read::see;
use crate::properties::damage;
use crate::random::Random;

const CASES: u64 = 400;
const DAMAGES: u64 = 6;

/// What is decompressed may take this much.
const LIMITS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 16, max_ratio: 1000 };

#[test]
fn what_is_built_is_read() {
    for n in 0..CASES {
        let mut random = Random::new("what is built", 0, n);
        let (stated, bytes) = buffer(&mut random).unwrap_or_else(|error| panic!("{n}: {error}"));
        let seen = see(&bytes).unwrap_or_else(|difference| panic!("{n}: {difference}"));
        assert_eq!((seen.error, seen.trailing, seen.batches.len()), (None, 0, stated.len()), "{n}");
        for (stated, seen) in stated.iter().zip(&seen.batches) {
            same("batch", stated, seen).unwrap_or_else(|difference| panic!("{n}: {difference}"));
        }
    }
}

#[test]
fn what_a_producer_builds_can_be_produced() {
    for (compression, count) in Compression::ALL.into_iter().zip([1, 2, 3, 100, 5]) {
        let plain = BatchBuilder::new().compression(compression);
        let idempotent = plain.clone().producer(4711, 0, i32::MAX);
        for mut builder in [plain, idempotent.clone(), idempotent.transactional()] {
            for n in 0..count {
                let record = NewRecord { timestamp: n - 1, value: Some(b"value"), ..Default::default() };
                builder.append(&record).expect("appended");
            }
            let batch = builder.finish().expect("finished");
            let header = validate_for_produce(&batch, &ReadOptions::default()).expect("valid");
            assert_eq!(i64::from(header.records_count), count);

            // Twice it is no batch, and neither is a part of it.
            let twice = Bytes::from([&batch[..], &batch].concat());
            assert!(validate_for_produce(&twice, &ReadOptions::default()).is_err());
            for end in 0..batch.len() {
                assert!(validate_for_produce(&batch.slice(..end), &ReadOptions::default()).is_err(), "{end}");
            }
        }
    }
}

/// Reading what is damaged ends with an error or with other records, the same in every way to read, and within the
/// memory that is allowed.
#[test]
fn what_is_damaged_is_read_alike_and_within_limits() {
    let (mut refused, mut read) = (0, 0);
    for n in 0..CASES {
        let mut random = Random::new("what is damaged", 0, n);
        let batch = batch(&mut random).unwrap_or_else(|error| panic!("{n}: {error}"));
        for _ in 0..DAMAGES {
            let mut bytes = damage(&batch.bytes, &mut random);
            if random.once_in(4) {
                bytes = damage(&bytes, &mut random);
            }
            // Else the checksum finds almost everything.
            if !random.once_in(8) {
                reseal(&mut bytes);
            }
            let bytes = Bytes::from(bytes);
            let seen = see(&bytes).unwrap_or_else(|difference| panic!("{n}: {difference}: {bytes:02x?}"));
            match seen.error {
                Some(_) => refused += 1,
                None => read += 1,
            }
            // Neither do the checks of a broker panic.
            let is_valid = validate_for_produce(&bytes, &ReadOptions::default()).is_ok();
            assert!(!is_valid || seen.error.is_none(), "{n}: {bytes:02x?}");
            check_memory(&bytes, n);
        }
    }
    assert!(refused > 1000 && read > 100, "{refused} refused, {read} read");
}

fn check_memory(bytes: &Bytes, n: u64) {
    let mut count = 0;
    let info = measure(|| {
        for batch in Batches::new(bytes) {
            let Ok(batch) = batch else { break };
            let Ok(records) = batch.records_with(&LIMITS) else { break };
            count += records.iter().filter(Result::is_ok).count();
        }
    });
    // Buffers of the codecs, a buffer that grows beside the one it grows from, and the texts of errors.
    let allowed = 4 * LIMITS.max_size + 4 * bytes.len() + (1 << 18);
    assert!(
        info.bytes_max as usize <= allowed,
        "{n}: {} bytes for {}: {bytes:02x?}",
        info.bytes_max,
        bytes.len()
    );
}

#[test]
fn bombs_are_refused_before_they_inflate() {
    let bombs: Vec<Json> = super::test::cases("damaged")
        .into_iter()
        .filter(|case| case["name"].as_str().is_some_and(|name| name.contains("bomb")))
        .collect();
    assert!(bombs.len() >= 12, "{}", bombs.len());
    for case in bombs {
        let bytes = crate::vectors::unhex(&case["hex"]).expect("hex");
        check_memory(&bytes, 0);
        let batch = Batches::new(&bytes).next().expect("a batch").expect("a header");
        let options = ReadOptions { max_ratio: 10, ..LIMITS };
        if case["lenient"] == true {
            let error = batch.records_with(&options).map(drop).expect_err("a limit");
            assert!(
                matches!(error.reason(), RecordsReason::DecompressedSize { .. }),
                "{}: {error}",
                case["name"]
            );
        }
    }
}
