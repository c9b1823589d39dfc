//! `RecordBatch::recompress` and `RecordBatch::retain`.

use std::error::Error as _;

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::messages::LeaderChangeMessage;
use kafka_protocol::records::{
    BatchBuilder, BatchHeader, BuildError, Compression, NewRecord, ReadOptions, RecordsReason, RewriteError,
    TimestampType,
};
use kafka_protocol::wire::Bytes;

use super::make::{
    ATTRIBUTES, COUNT, RECORDS, batch, batch_of, batch_of_bytes, header, message, offsets, only, patched,
    value, values, wrapper,
};

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 20, max_ratio: 1000 };

fn recompressed(bytes: &Bytes, compression: Compression) -> Result<Bytes, RewriteError> {
    only(bytes).recompress(compression, None, &OPTIONS)
}

fn reason(error: &RewriteError) -> &RecordsReason {
    let RewriteError::Read(error) = error else { panic!("{error}") };
    error.reason()
}

/// A batch with all that a header can have.
fn full(compression: Compression) -> Bytes {
    let builder = BatchBuilder::new().compression(compression).base_offset(10).partition_leader_epoch(4);
    let builder = builder.producer(7, 1, i32::MAX).transactional().delete_horizon(900);
    batch_of(builder, &[11, 12, 15, 20])
}

// ---- recompress ----

#[test]
fn every_codec_becomes_every_other() {
    for from in Compression::ALL {
        let original = full(from);
        for to in Compression::ALL {
            let other = recompressed(&original, to).unwrap();
            let of = |batch: &Bytes| BatchHeader { length: 0, crc: 0, ..header(batch) };
            let attributes = (of(&original).attributes.0 & !7) | i16::from(to.id());
            let stated =
                BatchHeader { attributes: kafka_protocol::records::Attributes(attributes), ..of(&original) };
            assert_eq!(of(&other), stated, "{from} to {to}");
            let (one, two) = (only(&original).records().unwrap(), only(&other).records().unwrap());
            assert_eq!(one.as_bytes(), two.as_bytes(), "{from} to {to}");
            assert_eq!(one.to_vec(), two.to_vec(), "{from} to {to}");
            assert_eq!(other, full(to), "{from} to {to}");
        }
    }
}

#[test]
fn levels_of_the_codec_are_heeded() {
    let text: Vec<u8> = (0..40_000_u32).flat_map(|n| (n * n % 977).to_be_bytes()).collect();
    let mut builder = BatchBuilder::new();
    builder.append(&value(&text)).unwrap();
    let batch = builder.finish().unwrap();
    let size =
        |compression, level| only(&batch).recompress(compression, level, &OPTIONS).map(|batch| batch.len());
    for (compression, low, default, high, none) in
        [(Compression::Gzip, 1, 6, 9, [0, 10]), (Compression::Zstd, -100, 3, 19, [-131_073, 23])]
    {
        assert_eq!(size(compression, None), size(compression, Some(default)));
        assert!(size(compression, Some(low)).unwrap() > size(compression, Some(high)).unwrap());
        for level in none {
            let error = size(compression, Some(level)).unwrap_err();
            assert_eq!(error, RewriteError::Build(BuildError::Level { compression, level }));
            assert_eq!(error.to_string(), format!("{compression} has no level {level}"));
        }
    }
    assert_eq!(size(Compression::Lz4, Some(77)), size(Compression::Lz4, None));
}

#[test]
fn what_cannot_be_read_is_not_recompressed() {
    let mut damaged = batch(Compression::Gzip).to_vec();
    damaged[RECORDS + 12] ^= 1;
    let damaged = Bytes::from(damaged);
    let error = recompressed(&damaged, Compression::None).unwrap_err();
    assert!(matches!(reason(&error), RecordsReason::Checksum { .. }), "{error}");
    assert!(error.source().is_none());

    let error = recompressed(&patched(&damaged, 0, &[0; 8]), Compression::None).unwrap_err();
    assert!(matches!(reason(&error), RecordsReason::Decompress { .. }), "{error}");
    let unknown = patched(&damaged, ATTRIBUTES, &[0, 6]);
    let error = recompressed(&unknown, Compression::None).unwrap_err();
    assert_eq!(reason(&error), &RecordsReason::UnknownCompression { id: 6 });
    assert_eq!(
        error.to_string(),
        "record batch 0 at byte 0 (base offset 0): there is no codec 6 in this format"
    );

    let mut builder = BatchBuilder::new().compression(Compression::Zstd);
    builder.append(&value(&[7; 5000])).unwrap();
    let tight = ReadOptions { max_size: 4999, ..OPTIONS };
    let error = only(&builder.finish().unwrap()).recompress(Compression::None, None, &tight).unwrap_err();
    assert_eq!(reason(&error), &RecordsReason::DecompressedSize { limit: 4999 });

    // Without the checksum, what is written has the right one again.
    let mut unsealed = batch(Compression::None).to_vec();
    unsealed[20] ^= 1;
    let unchecked = ReadOptions { check_crc: false, ..OPTIONS };
    let other = only(&unsealed.into()).recompress(Compression::Lz4, None, &unchecked).unwrap();
    assert_eq!(other, batch(Compression::Lz4));
}

/// What the error inside says is said already, so that the source is that of the error inside.
#[test]
fn sources_are_those_of_the_error_inside() {
    let unknown = ControlRecord::LeaderChange(LeaderChangeMessage { version: 9, ..Default::default() });
    let inside = unknown.encode_value().unwrap_err();
    let error = RewriteError::from(BuildError::from(inside.clone()));
    assert_eq!(error.to_string(), inside.to_string());
    assert_eq!(error.source().map(ToString::to_string), Some(inside.to_string()));
    assert!(RewriteError::from(BuildError::TooLarge).source().is_none());

    let no_control = patched(&batch(Compression::None), ATTRIBUTES, &[0, 32]);
    let inside = only(&no_control).records().unwrap().control().next().unwrap().unwrap_err();
    let error = RewriteError::from(inside.clone());
    assert_eq!(error.to_string(), inside.to_string());
    assert_eq!(error.source().unwrap().to_string(), inside.source().unwrap().to_string());
}

/// Records are bytes here, whatever they are.
#[test]
fn damaged_records_stay_so() {
    let garbage = batch_of_bytes(3, b"no records at all");
    let other = recompressed(&garbage, Compression::Snappy).unwrap();
    let (one, two) = (only(&garbage), only(&other));
    assert_eq!(two.records().unwrap().as_bytes(), b"no records at all");
    let said =
        |batch: &kafka_protocol::records::RecordBatch<'_>| batch.records().unwrap().to_vec().unwrap_err();
    assert_eq!(said(&one), said(&two));
}

#[test]
fn messages_of_old_formats_become_batches() {
    let [one, two] = [&b"one"[..], b"two"];
    for magic in [0, 1] {
        let timestamp = if magic == 0 { -1 } else { 2000 };
        for compression in Compression::ALL {
            let plain = Bytes::from(message(magic, 0, 40, Some(one)));
            let other = recompressed(&plain, compression).unwrap();
            assert_eq!((offsets(&other), values(&other)), (vec![40], vec![one.to_vec()]), "magic {magic}");
            let seen = header(&other);
            assert_eq!(seen.attributes.compression(), Some(compression));
            assert_eq!(
                (seen.magic, seen.base_offset, seen.base_timestamp, seen.max_timestamp),
                (2, 40, timestamp, timestamp)
            );
            assert_eq!((seen.producer_id, seen.partition_leader_epoch, seen.records_count), (-1, -1, 1));
        }
        // In a wrapper of magic 0 offsets are absolute, in one of magic 1 the last one is that of the wrapper.
        let inner = |first| [message(magic, 0, first, Some(one)), message(magic, 0, first + 3, Some(two))];
        let wrapped = wrapper(magic, 0, 43, &inner(if magic == 0 { 40 } else { 0 }));
        let other = recompressed(&wrapped, Compression::Gzip).unwrap();
        assert_eq!((offsets(&other), values(&other)), (vec![40, 43], vec![one.to_vec(), two.to_vec()]));
        assert_eq!((header(&other).base_offset, header(&other).last_offset()), (40, 43));
    }
    // The time of the append stays that.
    let appended = wrapper(1, 8, 40, &[message(1, 0, 0, Some(one))]);
    let other = recompressed(&appended, Compression::None).unwrap();
    assert_eq!(
        (header(&other).timestamp_type(), header(&other).max_timestamp),
        (Some(TimestampType::LogAppendTime), 2000)
    );

    // The level is looked at, and what a batch cannot have is refused.
    let plain = Bytes::from(message(1, 0, 40, Some(one)));
    let error = only(&plain).recompress(Compression::Gzip, Some(10), &OPTIONS).unwrap_err();
    let level = BuildError::Level { compression: Compression::Gzip, level: 10 };
    assert_eq!(error, RewriteError::Build(level));
    let twice = wrapper(0, 0, 40, &[message(0, 0, 40, Some(one)), message(0, 0, 40, Some(two))]);
    let error = recompressed(&twice, Compression::None).unwrap_err();
    assert_eq!(error, RewriteError::Build(BuildError::OffsetOrder { offset: 40, last_offset: 40 }));
    let mut damaged = message(1, 0, 40, Some(one));
    damaged[20] ^= 1;
    let error = recompressed(&damaged.into(), Compression::None).unwrap_err();
    assert!(matches!(reason(&error), RecordsReason::Checksum { .. }), "{error}");
}

// ---- retain ----

#[test]
fn a_batch_that_keeps_all_is_the_same() {
    for compression in Compression::ALL {
        let original = full(compression);
        let kept = only(&original).retain(&OPTIONS, |_| true).unwrap();
        assert_eq!((&kept, kept.as_ptr()), (&original, original.as_ptr()), "{compression}");
    }
}

#[test]
fn a_batch_keeps_its_place_without_some_records() {
    for compression in Compression::ALL {
        let original = full(compression);
        let mut asked = Vec::new();
        let kept = only(&original)
            .retain(&OPTIONS, |record| {
                asked.push(record.offset);
                record.offset == 12 || record.offset == 15
            })
            .unwrap();
        assert_eq!((asked, offsets(&kept)), (vec![11, 12, 15, 20], vec![12, 15]));
        let changed =
            |batch| BatchHeader { length: 0, crc: 0, max_timestamp: 0, records_count: 0, ..header(batch) };
        assert_eq!(changed(&kept), changed(&original), "{compression}");
        assert_eq!((header(&kept).max_timestamp, header(&kept).records_count), (1002, 2));
        let sequences: Vec<_> =
            only(&kept).records().unwrap().iter().map(|record| record.unwrap().sequence).collect();
        assert_eq!(sequences, [1, 4]);
        let two = b"value of 12".to_vec();
        assert_eq!(values(&kept), [two, b"value of 15".to_vec()]);
    }
    // Without a delete horizon the first record gives the base timestamp; the time of the append stays.
    let original = batch_of(BatchBuilder::new(), &[0, 1, 2]);
    let kept = only(&original).retain(&OPTIONS, |record| record.offset == 1).unwrap();
    assert_eq!((header(&kept).base_timestamp, header(&kept).max_timestamp), (1001, 1001));
    let original = batch_of(BatchBuilder::new().log_append_time(77), &[0, 1, 2]);
    let kept = only(&original).retain(&OPTIONS, |record| record.offset == 1).unwrap();
    assert_eq!((header(&kept).base_timestamp, header(&kept).max_timestamp), (1001, 77));
}

#[test]
fn a_batch_without_records_keeps_the_place() {
    for compression in Compression::ALL {
        let original = full(compression);
        let kept = only(&original).retain(&OPTIONS, |_| false).unwrap();
        assert_eq!((kept.len(), offsets(&kept)), (RECORDS, vec![]));
        let (was, is) = (header(&original), header(&kept));
        assert_eq!((is.base_offset, is.last_offset(), is.base_sequence), (10, 20, i32::MAX));
        assert_eq!((is.last_sequence(), is.producer_id, is.producer_epoch), (was.last_sequence(), 7, 1));
        assert_eq!((is.partition_leader_epoch, is.max_timestamp), (4, was.max_timestamp));
        assert!(is.is_transactional());
        assert_eq!((is.attributes.compression_id(), is.delete_horizon(), is.base_timestamp), (0, None, -1));
        // Again it is the same.
        assert_eq!(only(&kept).retain(&OPTIONS, |_| true).unwrap(), kept);
    }
}

#[test]
fn what_cannot_be_read_is_not_retained() {
    for magic in [0, 1] {
        let old = Bytes::from(message(magic, 0, 40, Some(b"v")));
        let error = only(&old).retain(&OPTIONS, |_| true).unwrap_err();
        assert_eq!(reason(&error), &RecordsReason::OldFormat { magic: magic as i8 });
        assert_eq!(
            error.to_string(),
            format!(
                "record batch 0 at byte 0 (base offset 40): not possible with magic {magic}, only with 2"
            )
        );
    }
    let mut damaged = batch(Compression::None).to_vec();
    damaged[RECORDS + 12] ^= 1;
    let error = only(&damaged.into()).retain(&OPTIONS, |_| true).unwrap_err();
    assert!(matches!(reason(&error), RecordsReason::Checksum { .. }), "{error}");

    // A record that cannot be read is not kept by chance, and neither is one too few or too many.
    let announced = patched(&batch(Compression::None), COUNT, &4_i32.to_be_bytes());
    let error = only(&announced).retain(&OPTIONS, |_| true).unwrap_err();
    assert_eq!(reason(&error), &RecordsReason::Count { announced: 4, found: 3, left: 0 });
    let announced = patched(&batch(Compression::None), COUNT, &2_i32.to_be_bytes());
    let error = only(&announced).retain(&OPTIONS, |_| true).unwrap_err();
    assert!(matches!(reason(&error), RecordsReason::Count { announced: 2, found: 2, .. }), "{error}");
    let unknown = patched(&batch(Compression::None), ATTRIBUTES, &[0, 5]);
    let error = only(&unknown).retain(&OPTIONS, |_| true).unwrap_err();
    assert_eq!(reason(&error), &RecordsReason::UnknownCompression { id: 5 });
}

/// What compaction has left has records out of what would be their order, and any timestamps.
#[test]
fn records_are_retained_as_they_are() {
    let base = BatchHeader { base_offset: 50, base_timestamp: i64::MAX, ..header(&batch(Compression::None)) };
    let mut builder = BatchBuilder::from_header(&base);
    for (offset, timestamp) in [(60, i64::MIN), (50, -2), (40, i64::MAX)] {
        builder.append(&NewRecord { offset: Some(offset), timestamp, ..value(b"v") }).unwrap();
    }
    let original = builder.finish().unwrap();
    let kept = only(&original).retain(&OPTIONS, |record| record.offset != 50).unwrap();
    let records = only(&kept).records().unwrap();
    let seen: Vec<_> = records
        .iter()
        .map(|record| record.map(|record| (record.offset, record.timestamp)).unwrap())
        .collect();
    assert_eq!(seen, [(60, i64::MIN), (40, i64::MAX)]);
    assert_eq!((header(&kept).base_timestamp, header(&kept).max_timestamp), (i64::MIN, i64::MAX));
}
