//! `validate_for_produce`: every rule, in its order, with what a broker answers.

use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{
    Attributes, BatchBuilder, BatchHeader, Compression, NewRecord, ProduceRule, ReadOptions, RecordsError,
    RecordsReason, Stage, validate_for_produce,
};
use kafka_protocol::wire::Bytes;

use super::make::{
    ATTRIBUTES, BASE_OFFSET, COUNT, LAST_OFFSET_DELTA, LENGTH, MAGIC, MAX_TIMESTAMP, RECORDS, batch,
    batch_of, batch_of_bytes, header, message, patched, value,
};

fn refused(bytes: &Bytes) -> RecordsError {
    validate_for_produce(bytes, &ReadOptions::default()).expect_err("refused")
}

/// The rule that it breaks.
fn rule(bytes: &Bytes) -> ProduceRule {
    let error = refused(bytes);
    let RecordsReason::Produce(rule) = error.reason() else { panic!("{error}") };
    assert_eq!(error.stage(), Stage::Produce);
    *rule
}

/// The batch with other attributes.
fn attributes(batch: &Bytes, flag: i16) -> Bytes {
    patched(batch, ATTRIBUTES, &(header(batch).attributes.0 | flag).to_be_bytes())
}

/// A batch of one record at each of these offsets and times, with the header as it would be of offsets without holes.
fn batch_at(records: &[(i64, i64)]) -> Bytes {
    let last_offset_delta = records.len() as i32 - 1;
    let header = BatchHeader { last_offset_delta, ..header(&batch(Compression::None)) };
    let mut builder = BatchBuilder::from_header(&header);
    for &(offset, timestamp) in records {
        builder.append(&NewRecord { offset: Some(offset), timestamp, ..value(b"v") }).unwrap();
    }
    builder.finish().unwrap()
}

#[test]
fn the_header_comes_back() {
    for compression in Compression::ALL {
        for builder in [BatchBuilder::new(), BatchBuilder::new().producer(7, 0, i32::MAX).transactional()] {
            let batch = batch_of(builder.compression(compression), &[0, 1, 2]);
            assert_eq!(validate_for_produce(&batch, &ReadOptions::default()), Ok(header(&batch)));
        }
    }
    // The maximum timestamp is that of the records: a broker corrects what the producer has said.
    for said in [i64::MIN, -1, 5, i64::MAX] {
        let of = patched(&batch_at(&[(0, 40), (1, 90), (2, -1)]), MAX_TIMESTAMP, &said.to_be_bytes());
        let seen = validate_for_produce(&of, &ReadOptions::default()).unwrap();
        assert_eq!(seen, BatchHeader { max_timestamp: 90, ..header(&of) }, "{said}");
    }
    let none = validate_for_produce(&batch_at(&[(0, -1)]), &ReadOptions::default()).unwrap();
    assert_eq!(none.max_timestamp, -1);
}

/// What breaks several rules breaks the first of them, so that each line also tells where its rule stands.
#[test]
fn every_rule_is_asked() {
    let plain = batch(Compression::None);
    let idempotent = batch_of(BatchBuilder::new().producer(7, 1, 0), &[0, 1, 2]);
    let start = "record batch 0 at byte 0 (base offset 0): ";
    let cases = [
        (
            Bytes::from([&plain[..], &plain].concat()),
            ErrorCode::INVALID_RECORD,
            "exactly one batch may be produced",
        ),
        (
            Bytes::from([&plain[..], b"more"].concat()),
            ErrorCode::INVALID_RECORD,
            "4 bytes that are no whole batch",
        ),
        (
            attributes(&plain, Attributes::CONTROL),
            ErrorCode::INVALID_RECORD,
            "clients may not write control batches",
        ),
        (
            attributes(&plain, Attributes::LOG_APPEND_TIME),
            ErrorCode::INVALID_TIMESTAMP,
            "clients may not set log append time",
        ),
        (
            attributes(&plain, Attributes::DELETE_HORIZON),
            ErrorCode::INVALID_RECORD,
            "clients may not set a delete horizon",
        ),
        (
            patched(&idempotent, 51, &[0xff, 0xff]),
            ErrorCode::INVALID_RECORD,
            "producer id 7 with epoch -1 and base sequence 0",
        ),
        (
            attributes(&plain, Attributes::TRANSACTIONAL),
            ErrorCode::INVALID_RECORD,
            "transactional without a producer id",
        ),
        (
            patched(&plain, LAST_OFFSET_DELTA, &7_i32.to_be_bytes()),
            ErrorCode::INVALID_RECORD,
            "the last offset delta is 7 with 3 records",
        ),
        (batch_at(&[(0, 0), (2, 0)]), ErrorCode::INVALID_RECORD, "record 1: the offset delta is 2, not 1"),
        (batch_at(&[(1, 0), (0, 0)]), ErrorCode::INVALID_RECORD, "record 0: the offset delta is 1, not 0"),
        (
            batch_at(&[(0, 5), (1, -2)]),
            ErrorCode::INVALID_TIMESTAMP,
            "record 1: the timestamp -2 is negative",
        ),
    ];
    for (bytes, code, text) in cases {
        let error = refused(&bytes);
        assert_eq!(error.to_string(), format!("{start}{text}"));
        assert_eq!((error.stage(), error.error_code()), (Stage::Produce, code), "{error}");
    }
    for count in [0, -1, i32::MIN] {
        let empty =
            patched(&batch_of_bytes(count, b""), LAST_OFFSET_DELTA, &count.wrapping_sub(1).to_be_bytes());
        assert_eq!(rule(&empty), ProduceRule::Empty { count });
        assert_eq!(refused(&empty).to_string(), format!("{start}{count} records"));
        assert_eq!(refused(&empty).error_code(), ErrorCode::INVALID_RECORD);
    }
    for base_offset in [1, -1, i64::MIN, i64::MAX] {
        let moved = patched(&plain, BASE_OFFSET, &base_offset.to_be_bytes());
        assert_eq!(rule(&moved), ProduceRule::BaseOffset { base_offset });
        let text = format!(
            "record batch 0 at byte 0 (base offset {base_offset}): the base offset is {base_offset}, not 0"
        );
        assert_eq!(refused(&moved).to_string(), text);
    }
}

#[test]
fn no_batch_is_not_one() {
    assert_eq!(rule(&Bytes::new()), ProduceRule::OneBatch);
    // What is cut is told by its bytes.
    let plain = batch(Compression::Gzip);
    for end in 1..plain.len() {
        let cut = plain.slice(..end);
        assert_eq!(rule(&cut), ProduceRule::TrailingBytes { count: end });
        assert_eq!(refused(&cut).error_code(), ErrorCode::INVALID_RECORD);
    }
}

#[test]
fn only_magic_2_is_produced() {
    for magic in [0, 1] {
        let mut old = message(magic, 0, 0, Some(b"v"));
        for _ in 0..2 {
            let error = refused(&old.clone().into());
            assert_eq!(error.reason(), &RecordsReason::Produce(ProduceRule::Magic { magic: magic as i8 }));
            assert_eq!(error.error_code(), ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT);
            let text =
                format!("record batch 0 at byte 0 (base offset 0): magic {magic} cannot be produced, 2 can");
            assert_eq!(error.to_string(), text);
            // Whether or not it is damaged.
            old[20] ^= 1;
        }
    }
}

/// Damage is found before it is taken for a rule that the client has broken.
#[test]
fn the_checksum_is_compared_before_the_header_is_judged() {
    let plain = batch(Compression::None);
    for at in (17..plain.len()).filter(|at| *at != MAGIC) {
        let mut damaged = plain.to_vec();
        damaged[at] ^= 0x40;
        let error = refused(&damaged.into());
        assert!(matches!(error.reason(), RecordsReason::Checksum { .. }), "{at}: {error}");
        assert_eq!((error.stage(), error.error_code()), (Stage::Checksum, ErrorCode::CORRUPT_MESSAGE));
    }
    // But if asked not to.
    let mut damaged = plain.to_vec();
    damaged[17] ^= 1;
    let unchecked = ReadOptions { check_crc: false, ..Default::default() };
    assert!(validate_for_produce(&damaged.into(), &unchecked).is_ok());
}

#[test]
fn what_cannot_be_read_is_corrupt() {
    let plain = batch(Compression::None);
    let length = |length: i32| {
        let mut batch = plain.to_vec();
        batch[LENGTH..12].copy_from_slice(&length.to_be_bytes());
        Bytes::from(batch)
    };
    let magic = Bytes::from([&plain[..MAGIC], &[3], &plain[MAGIC + 1..]].concat());
    let damaged = Bytes::from([&plain[..RECORDS], &[0x80; 30]].concat());
    let tight = ReadOptions { max_size: 1, ..Default::default() };
    let bomb = validate_for_produce(&batch(Compression::Lz4), &tight).unwrap_err();
    let cases = [
        (refused(&length(13)), Stage::Split, ErrorCode::CORRUPT_MESSAGE),
        (refused(&length(i32::MAX)), Stage::Split, ErrorCode::CORRUPT_MESSAGE),
        (refused(&length(30)), Stage::Checksum, ErrorCode::CORRUPT_MESSAGE),
        (refused(&magic), Stage::Split, ErrorCode::CORRUPT_MESSAGE),
        (refused(&attributes(&plain, 7)), Stage::Header, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        (refused(&attributes(&plain, 1)), Stage::Records, ErrorCode::CORRUPT_MESSAGE),
        (refused(&patched(&damaged, COUNT, &[0, 0, 0, 3])), Stage::Records, ErrorCode::CORRUPT_MESSAGE),
        (bomb, Stage::Records, ErrorCode::CORRUPT_MESSAGE),
    ];
    for (error, stage, code) in cases {
        assert_eq!((error.stage(), error.error_code()), (stage, code), "{error}");
    }
}
