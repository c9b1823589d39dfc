//! `BatchBuilder`: what it refuses, what it leaves as it was, and what the next batch starts from.

use std::error::Error as _;

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::messages::{EndTxnMarker, LeaderChangeMessage};
use kafka_protocol::records::{
    Attributes, BatchBuilder, BatchHeader, BuildError, Compression, Header, NewRecord, Record, TimestampType,
};

use super::make::{batch, batch_of, header, offsets, only, value, values};
use crate::random::Random;

fn at(offset: i64) -> NewRecord<'static> {
    NewRecord { offset: Some(offset), ..value(b"v") }
}

/// The error, after which the builder is as it was.
fn refused(builder: &mut BatchBuilder, record: &NewRecord<'_>) -> BuildError {
    let before = (builder.len(), builder.size());
    let error = builder.append(record).expect_err("refused");
    assert_eq!((builder.len(), builder.size()), before);
    error
}

#[test]
fn offsets_ascend() {
    let mut builder = BatchBuilder::new();
    builder.append(&at(10)).unwrap();
    for offset in [10, 9, -1] {
        let error = refused(&mut builder, &at(offset));
        assert_eq!(error, BuildError::OffsetOrder { offset, last_offset: 10 });
        assert_eq!(error.to_string(), format!("offset {offset}: not above 10, the offset before"));
    }
    builder.append(&value(b"one above")).unwrap();
    builder.append(&at(13)).unwrap();
    builder.append(&value(b"one above")).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!(offsets(&batch), [10, 11, 13, 14]);
    assert_eq!((header(&batch).base_offset, header(&batch).last_offset()), (10, 14));

    // With a base offset the first record may be above it, and not below.
    let mut builder = BatchBuilder::new().base_offset(5);
    let error = refused(&mut builder, &at(4));
    assert_eq!(error, BuildError::OffsetOrder { offset: 4, last_offset: 4 });
    builder.append(&at(7)).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!((header(&batch).base_offset, offsets(&batch)), (5, vec![7]));
}

#[test]
fn offsets_are_within_an_int32_of_the_base_offset() {
    const FAR: i64 = 1 << 31;
    for (base_offset, offset) in [(0, FAR), (-1, FAR - 1), (i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
        let mut builder = BatchBuilder::new().base_offset(base_offset);
        let error = refused(&mut builder, &at(offset));
        assert_eq!(error, BuildError::OffsetDelta { offset, base_offset });
        assert_eq!(error.to_string(), format!("offset {offset}: too far from the base offset {base_offset}"));
    }
    // The last one that there is room for, after which there is none.
    let mut builder = BatchBuilder::new();
    builder.append(&at(0)).unwrap();
    builder.append(&at(FAR - 1)).unwrap();
    let error = refused(&mut builder, &value(b"v"));
    assert_eq!((&error, &*error.to_string()), (&BuildError::TooLarge, "the batch is too large"));
    assert_eq!(offsets(&builder.finish().unwrap()), [0, FAR - 1]);
}

#[test]
fn timestamps_are_not_below_minus_1() {
    let mut builder = BatchBuilder::new();
    for timestamp in [-2, i64::MIN] {
        let error = refused(&mut builder, &NewRecord { timestamp, ..value(b"v") });
        assert_eq!(error, BuildError::Timestamp { timestamp });
        assert_eq!(error.to_string(), format!("timestamp {timestamp}: negative"));
    }
    for timestamp in [5, -1, i64::MAX, 0] {
        builder.append(&NewRecord { timestamp, ..value(b"v") }).unwrap();
    }
    let batch = builder.finish().unwrap();
    let records = only(&batch).records().unwrap();
    let timestamps: Vec<_> = records.iter().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(timestamps, [5, -1, i64::MAX, 0]);
    assert_eq!((header(&batch).base_timestamp, header(&batch).max_timestamp), (5, i64::MAX));
}

/// Producer id, epoch and sequence are there together or not at all, and in a transaction they are there.
#[test]
fn what_a_producer_has_goes_together() {
    let refused = [(1, -1, 0), (1, 0, -1), (-1, 0, 0), (-1, -1, 0), (-1, 0, -1), (1, -1, -1)];
    for compression in [Compression::None, Compression::Lz4] {
        for (producer_id, producer_epoch, base_sequence) in refused {
            let mut builder = BatchBuilder::new().compression(compression).producer(
                producer_id,
                producer_epoch,
                base_sequence,
            );
            builder.append(&value(b"a")).unwrap();
            builder.append(&value(b"b")).unwrap();
            let error = BuildError::Producer { producer_id, producer_epoch, base_sequence };
            assert_eq!(builder.finish(), Err(error.clone()));
            assert_eq!(builder.finish_into(&mut vec![]), Err(error.clone()));
            assert_eq!(
                error.to_string(),
                format!(
                    "producer id {producer_id}, epoch {producer_epoch} and base sequence {base_sequence} \
                     do not go together"
                )
            );
            // The records are there once the producer is mended.
            let mut builder = builder.producer(7, 1, 5);
            assert_eq!(builder.len(), 2);
            let batch = builder.finish().unwrap();
            assert_eq!(values(&batch), [b"a", b"b"]);
            let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = header(&batch);
            assert_eq!((producer_id, producer_epoch, base_sequence), (7, 1, 5));
        }
    }

    let mut builder = BatchBuilder::new().transactional();
    builder.append(&value(b"a")).unwrap();
    let error = builder.finish().unwrap_err();
    assert!(matches!(error, BuildError::Producer { producer_id: -1, .. }), "{error}");
    let batch = builder.producer(7, 0, 0).finish().unwrap();
    assert!(header(&batch).is_transactional());

    // Control batches have a producer without sequence.
    let mut builder = BatchBuilder::new().producer(7, 0, -1).transactional().control();
    builder.append_control(1000, &ControlRecord::Commit(EndTxnMarker::default())).unwrap();
    let batch = builder.finish().unwrap();
    assert!(header(&batch).is_control() && header(&batch).is_transactional());
    assert_eq!((header(&batch).producer_id, header(&batch).last_sequence()), (7, -1));
    // Without records nothing is asked for.
    assert_eq!(BatchBuilder::new().transactional().finish().unwrap(), b""[..]);
}

#[test]
fn sequences_go_on_in_the_next_batch() {
    let max = i32::MAX;
    for (base_sequence, offsets, next) in
        [(0, &[0, 1, 2][..], 3), (max - 1, &[0, 1, 2], 1), (max, &[0], 0), (5, &[0, 4], 10)]
    {
        let mut builder = BatchBuilder::new().producer(7, 0, base_sequence).compression(Compression::Snappy);
        let mut out = b"before".to_vec();
        for offset in offsets {
            builder.append(&at(*offset)).unwrap();
        }
        let first = builder.finish().unwrap();
        assert_eq!(header(&first).base_sequence, base_sequence);

        builder.append(&value(b"v")).unwrap();
        builder.finish_into(&mut out).unwrap();
        let second = out.split_off(6).into();
        assert_eq!(header(&second).base_sequence, next, "after {base_sequence}");
        builder.append(&value(b"v")).unwrap();
        let third = builder.finish().unwrap();
        assert_eq!(header(&third).base_sequence, next + 1);

        // Without records none are used up.
        assert_eq!(builder.finish().unwrap(), b""[..]);
        builder.append(&value(b"v")).unwrap();
        assert_eq!(header(&builder.finish().unwrap()).base_sequence, next + 2);
    }
    // Nor without a producer.
    let mut builder = BatchBuilder::new();
    for _ in 0..2 {
        builder.append(&value(b"v")).unwrap();
        assert_eq!(header(&builder.finish().unwrap()).base_sequence, -1);
    }
}

#[test]
fn settings_stay_for_the_next_batch() {
    let mut builder = BatchBuilder::new()
        .compression(Compression::Zstd)
        .base_offset(40)
        .partition_leader_epoch(6)
        .delete_horizon(99)
        .log_append_time(500);
    let batches = [(); 2].map(|()| {
        builder.append(&value(b"a")).unwrap();
        builder.append(&value(b"b")).unwrap();
        builder.finish().unwrap()
    });
    assert_eq!(batches[0], batches[1]);
    assert!(builder.is_empty());
    let header = header(&batches[0]);
    assert_eq!(header.attributes.compression(), Some(Compression::Zstd));
    assert_eq!((header.base_offset, header.last_offset(), header.partition_leader_epoch), (40, 41, 6));
    assert_eq!(
        (header.delete_horizon(), header.timestamp_type()),
        (Some(99), Some(TimestampType::LogAppendTime))
    );
    let records = only(&batches[0]).records().unwrap();
    let record = records.iter().next().unwrap().unwrap();
    assert_eq!((record.timestamp, record.create_timestamp), (500, 1000));
}

/// Settings between records hold for the whole batch, and none of them drops a record.
#[test]
fn settings_leave_the_records() {
    let mut builder = BatchBuilder::new();
    builder.append(&at(3)).unwrap();
    builder.append(&at(5)).unwrap();
    let mut builder = builder
        .compression(Compression::Gzip)
        .compression_level(9)
        .partition_leader_epoch(2)
        .producer(7, 1, 10)
        .transactional()
        .log_append_time(77);
    assert_eq!(builder.len(), 2);
    builder.append(&value(b"third")).unwrap();
    let mixed = builder.finish().unwrap();
    let mut builder = BatchBuilder::new()
        .compression(Compression::Gzip)
        .compression_level(9)
        .partition_leader_epoch(2)
        .producer(7, 1, 10)
        .transactional()
        .log_append_time(77);
    for record in [at(3), at(5), value(b"third")] {
        builder.append(&record).unwrap();
    }
    assert_eq!(mixed, builder.finish().unwrap());
    assert_eq!(offsets(&mixed), [3, 5, 6]);

    // The base offset takes its records along.
    let mut builder = BatchBuilder::new();
    builder.append(&at(3)).unwrap();
    builder.append(&at(5)).unwrap();
    let mut builder = builder.base_offset(100);
    builder.append(&value(b"third")).unwrap();
    let moved = builder.finish().unwrap();
    assert_eq!((header(&moved).base_offset, offsets(&moved)), (100, vec![100, 102, 103]));
}

/// Timestamps count from the delete horizon, so it cannot come later than they.
#[test]
fn a_delete_horizon_comes_before_the_records() {
    for compression in [Compression::None, Compression::Gzip] {
        let mut builder = BatchBuilder::new().compression(compression);
        builder.append(&value(b"v")).unwrap();
        let mut builder = builder.delete_horizon(5000);
        let mut out = b"before".to_vec();
        for _ in 0..2 {
            assert_eq!(builder.finish(), Err(BuildError::DeleteHorizon));
            assert_eq!(builder.finish_into(&mut out), Err(BuildError::DeleteHorizon));
        }
        assert_eq!(out, b"before");
    }
    assert_eq!(BuildError::DeleteHorizon.to_string(), "the delete horizon was set after the first record");
    let batch = batch_of(BatchBuilder::new().delete_horizon(5000), &[0, 1]);
    assert_eq!((header(&batch).delete_horizon(), header(&batch).base_timestamp), (Some(5000), 5000));
    let timestamps: Vec<_> =
        only(&batch).records().unwrap().iter().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(timestamps, [1000, 1001]);
}

#[test]
fn control_records_are_of_control_batches() {
    let commit = ControlRecord::Commit(EndTxnMarker { coordinator_epoch: 3, ..Default::default() });
    let mut builder = BatchBuilder::new();
    assert_eq!(builder.append_control(1000, &commit), Err(BuildError::NotControl));
    assert_eq!(BuildError::NotControl.to_string(), "a control record in a batch of other records");
    assert!(builder.is_empty());
    let mut builder = builder.control();
    builder.append_control(1000, &commit).unwrap();

    // Its version is a field of its own, and there is no such.
    let newer = ControlRecord::LeaderChange(LeaderChangeMessage { version: 9, ..Default::default() });
    let before = builder.size();
    let error = builder.append_control(1000, &newer).unwrap_err();
    assert!(matches!(error, BuildError::Control(_)), "{error}");
    let text = "LeaderChangeMessage v9: not a supported version (versions 0-1)";
    assert_eq!((&*error.to_string(), error.source().unwrap().to_string()), (text, text.to_owned()));
    assert!(BuildError::TooLarge.source().is_none());
    assert_eq!((builder.len(), builder.size()), (1, before));

    let batch = builder.finish().unwrap();
    let records = only(&batch).records().unwrap();
    let said: Vec<_> = records.control().map(|control| control.unwrap().1).collect();
    assert_eq!(said, [commit]);
}

#[test]
fn levels_are_those_of_the_codec() {
    let levels = [
        (Compression::Gzip, &[1, 6, 9][..], &[0, 10, -1, i32::MAX][..]),
        (Compression::Zstd, &[-131_072, -1, 1, 22], &[-131_073, 23, i32::MIN]),
        // They have none, and do not look at it.
        (Compression::None, &[-7, 0, 99], &[]),
        (Compression::Snappy, &[-7, 0, 99], &[]),
        (Compression::Lz4, &[-7, 0, 99], &[]),
    ];
    for (compression, taken, refused) in levels {
        let mut builder = BatchBuilder::new().compression(compression);
        builder.append(&value(b"v")).unwrap();
        for &level in refused {
            builder = builder.compression_level(level);
            let (error, mut out) = (BuildError::Level { compression, level }, b"before".to_vec());
            assert_eq!(builder.finish(), Err(error.clone()));
            assert_eq!((builder.finish_into(&mut out), &out[..]), (Err(error.clone()), &b"before"[..]));
            assert_eq!(error.to_string(), format!("{compression} has no level {level}"));
        }
        for &level in taken {
            let mut builder = builder.clone().compression_level(level);
            assert_eq!(values(&builder.finish().unwrap()), [b"v"], "{compression} {level}");
        }
    }
}

/// Text of which the levels make something different.
fn prose() -> Vec<u8> {
    let mut random = Random::new("prose", 0, 0);
    let words = ["batch", "broker", "commit", "epoch", "fetch", "lag", "leader", "log", "offset", "topic"];
    (0..4000).flat_map(|_| [random.pick(&words).as_bytes(), b" "].concat()).collect()
}

#[test]
fn levels_make_a_difference() {
    let text = prose();
    for (compression, low, default, high) in [(Compression::Gzip, 1, 6, 9), (Compression::Zstd, -5, 3, 19)] {
        let size = |level: Option<i32>| {
            let mut builder = BatchBuilder::new().compression(compression);
            if let Some(level) = level {
                builder = builder.compression_level(level);
            }
            builder.append(&value(&text)).unwrap();
            builder.finish().unwrap().len()
        };
        assert_eq!(size(None), size(Some(default)), "{compression}");
        assert!(size(Some(low)) > size(None) && size(None) > size(Some(high)), "{compression}");
    }
}

#[test]
fn other_codecs_are_refused() {
    let header = BatchHeader { attributes: Attributes(7), ..header(&batch(Compression::None)) };
    let mut builder = BatchBuilder::from_header(&header);
    builder.append(&value(b"v")).unwrap();
    let error = builder.finish().unwrap_err();
    assert_eq!(
        (&error, &*error.to_string()),
        (&BuildError::UnknownCompression { id: 7 }, "there is no codec 7")
    );
    assert_eq!(values(&builder.compression(Compression::Lz4).finish().unwrap()), [b"v"]);

    let compression = Compression::Zstd;
    let disabled = BuildError::CompressionDisabled { compression };
    assert_eq!(disabled.to_string(), "the feature zstd is off");
    let failed = BuildError::Compress { compression, message: "out of memory".to_owned() };
    assert_eq!(failed.to_string(), "zstd: out of memory");
}

#[test]
fn sizes_are_known_before() {
    let random = &mut Random::new("sizes", 0, 0);
    // Deltas of one byte, and the longest that there are.
    let far = BatchHeader {
        base_offset: i64::from(i32::MIN),
        base_timestamp: i64::MIN,
        ..header(&batch(Compression::None))
    };
    for (builder, timestamp, offset, deltas) in
        [(BatchBuilder::new(), 1000, 0, 2), (BatchBuilder::from_header(&far), -1, -1, 15)]
    {
        for _ in 0..200 {
            let [key, value] = [(); 2].map(|()| {
                let length = random.pick(&[0, 1, 63, 64, 5000, 10_000]);
                (!random.once_in(3)).then(|| random.bytes(length))
            });
            let headers = vec![Header { key: "trace-id", value: Some(b"7") }; random.below(3)];
            let (key, value) = (key.as_deref(), value.as_deref());
            let record = NewRecord { offset: Some(offset), timestamp, key, value, headers: &headers };
            let (mut builder, said) = (builder.clone(), BatchBuilder::size_of(&record));
            let before = builder.size();
            assert_eq!(before, 61);
            builder.append(&record).unwrap();
            let added = builder.size() - before;
            // Five lengths or counts that may take four bytes less each, and two per header.
            let most = added + 15 - deltas + 4 * 4 + headers.len() * 8;
            assert!(added <= said && said <= most, "{added} bytes, said are {said}, at most {most}");
        }
    }
}

#[test]
fn a_batch_goes_behind_others() {
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new().compression(compression).base_offset(3);
        let mut out = Vec::new();
        assert_eq!((builder.finish_into(&mut out), out.len()), (Ok(0), 0));
        let mut expected = Vec::new();
        for round in 0..4 {
            for n in 0..=round {
                builder.append(&value(format!("value {n} of {round}").repeat(9).as_bytes())).unwrap();
            }
            let batch = builder.clone().finish().unwrap();
            assert_eq!((builder.finish_into(&mut out), builder.len()), (Ok(batch.len()), 0));
            expected.extend_from_slice(&batch);
            assert_eq!(out, expected, "{compression}");
            assert_eq!(values(&batch).len(), round + 1);
        }
        assert_eq!((builder.finish_into(&mut out), out), (Ok(0), expected));
    }
}

#[test]
fn a_header_is_written_as_it_is() {
    let extreme = BatchHeader {
        base_offset: i64::MIN,
        length: -1,
        partition_leader_epoch: i32::MIN,
        magic: 2,
        crc: 1,
        // Unused bits too.
        attributes: Attributes(!7),
        last_offset_delta: i32::MIN,
        base_timestamp: i64::MAX,
        max_timestamp: i64::MIN,
        producer_id: i64::MIN,
        producer_epoch: i16::MIN,
        base_sequence: i32::MAX,
        records_count: 99,
    };
    let given = |batch| BatchHeader { length: -1, crc: 1, records_count: 99, ..header(batch) };
    let empty = BatchBuilder::from_header(&extreme).finish().unwrap();
    assert_eq!((given(&empty), empty.len(), header(&empty).records_count), (extreme, 61, 0));
    assert_eq!(only(&empty).verify(), Ok(()));

    // Offsets in any order, below the base offset too, and any timestamps.
    let header = BatchHeader { base_offset: 50, attributes: Attributes(0), ..extreme };
    let mut builder = BatchBuilder::from_header(&header);
    builder.append(&value(b"at the base offset")).unwrap();
    for (offset, timestamp) in [(Some(60), i64::MIN), (None, i64::MAX), (Some(40), -2), (None, 0)] {
        builder.append(&NewRecord { offset, timestamp, ..value(b"v") }).unwrap();
    }
    let error = BuildError::OffsetDelta { offset: i64::MIN, base_offset: 50 };
    assert_eq!(refused(&mut builder, &at(i64::MIN)), error);
    let batch = builder.finish().unwrap();
    assert_eq!((given(&batch), offsets(&batch)), (header, vec![50, 60, 61, 40, 41]));
    let records = only(&batch).records().unwrap();
    let timestamps: Vec<_> = records.iter().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(timestamps, [1000, i64::MIN, i64::MAX, -2, 0]);
}

#[test]
fn records_are_copied_with_offset_timestamp_and_attributes() {
    let batch = batch_of(BatchBuilder::new().log_append_time(77), &[4, 9]);
    let mut builder = BatchBuilder::new();
    for record in &only(&batch).records().unwrap() {
        builder.append_record(&Record { attributes: -3, ..record.unwrap() }).unwrap();
    }
    let copy = builder.finish().unwrap();
    let records = only(&copy).records().unwrap();
    let seen: Vec<_> = records
        .iter()
        .map(|record| record.map(|record| (record.offset, record.timestamp, record.attributes)).unwrap())
        .collect();
    assert_eq!(seen, [(4, 1000, -3), (9, 1001, -3)]);
    assert_eq!(values(&copy), values(&batch));
}
