//! `BatchMut`: batches changed in place.

use kafka_protocol::records::{
    Attributes, BatchBuilder, BatchHeader, BatchMut, Batches, Compression, RecordsError, RecordsReason,
    Stage, TimestampType,
};

use super::make::{LENGTH, RECORDS, batch, batch_of, message};

/// A setter.
type Set = fn(&mut BatchMut<'_>) -> Result<(), RecordsError>;

/// Those of fields that the checksum covers, and the header that they lead to.
const COVERED: [(Set, fn(&mut BatchHeader)); 3] = [
    (
        |batch| batch.set_log_append_time(500),
        |header| {
            header.attributes.0 |= Attributes::LOG_APPEND_TIME;
            header.max_timestamp = 500;
        },
    ),
    (
        |batch| batch.set_producer(7, 1, 30),
        |header| (header.producer_id, header.producer_epoch, header.base_sequence) = (7, 1, 30),
    ),
    (|batch| batch.set_max_timestamp(1234), |header| header.max_timestamp = 1234),
];

/// Three batches in several codecs, the second one full of settings.
fn log() -> Vec<u8> {
    let builder = BatchBuilder::new().compression(Compression::Lz4).base_offset(5).partition_leader_epoch(2);
    let full = batch_of(builder.producer(1, 2, 3).transactional().delete_horizon(9), &[5, 7]);
    [&batch(Compression::None)[..], &full, &batch(Compression::Zstd)].concat()
}

fn headers(log: &[u8]) -> Vec<BatchHeader> {
    Batches::from_slice(log).map(|batch| *batch.unwrap().header()).collect()
}

fn batches(log: &mut [u8]) -> Vec<BatchMut<'_>> {
    BatchMut::all(log).unwrap()
}

#[test]
fn every_batch_is_there_with_its_header() {
    let mut log = log();
    let before = log.clone();
    let stated = headers(&log);
    let seen: Vec<_> = batches(&mut log).iter().map(|batch| *batch.header()).collect();
    assert_eq!((seen.len(), seen), (3, stated.clone()));
    assert_eq!(log, before);

    // Up to one that is cut.
    for cut in 1..60 {
        let end = log.len() - cut;
        assert_eq!(batches(&mut log[..end]).len(), 2);
    }
    assert!(batches(&mut []).is_empty() && batches(&mut [0; 11]).is_empty());
}

#[test]
fn place_and_epoch_leave_the_checksum() {
    let mut log = log();
    let before = headers(&log);
    for (n, batch) in batches(&mut log).iter_mut().enumerate() {
        batch.set_base_offset(100 + n as i64);
        batch.set_partition_leader_epoch(9);
        let stated = BatchHeader { base_offset: 100 + n as i64, partition_leader_epoch: 9, ..before[n] };
        assert_eq!(batch.header(), &stated);
    }
    for (n, batch) in Batches::from_slice(&log).enumerate() {
        let batch = batch.unwrap();
        assert_eq!((batch.verify(), batch.header().crc), (Ok(()), before[n].crc));
        let offset = batch.records().unwrap().iter().next().unwrap().unwrap().offset;
        assert_eq!(offset, 100 + n as i64);
        assert_eq!(batch.header().partition_leader_epoch, 9);
    }
}

#[test]
fn what_the_checksum_covers_is_sealed_again() {
    for (set, change) in COVERED {
        for n in 0..3 {
            let mut log = log();
            let before = log.clone();
            let mut stated = headers(&log);
            let mut all = batches(&mut log);
            set(&mut all[n]).unwrap();
            change(&mut stated[n]);
            let changed = *all[n].header();
            stated[n].crc = changed.crc;
            assert_eq!(changed, stated[n]);
            assert_eq!(headers(&log), stated);
            for (now, was) in Batches::from_slice(&log).zip(Batches::from_slice(&before)) {
                let (now, was) = (now.unwrap(), was.unwrap());
                assert_eq!(now.verify(), Ok(()));
                // Nothing but the header has changed.
                assert_eq!(now.bytes()[RECORDS..], was.bytes()[RECORDS..]);
            }
        }
    }
    // All of them on one batch, with records that show it.
    let mut log = log();
    for (set, _) in COVERED {
        set(&mut batches(&mut log)[1]).unwrap();
    }
    let batch = Batches::from_slice(&log).nth(1).unwrap().unwrap();
    let header = batch.header();
    assert_eq!((header.timestamp_type(), header.max_timestamp), (Some(TimestampType::LogAppendTime), 1234));
    assert_eq!((header.delete_horizon(), header.is_transactional()), (Some(9), true));
    let records = batch.records().unwrap();
    let seen: Vec<_> = records
        .iter()
        .map(|record| {
            record.map(|record| (record.timestamp, record.create_timestamp, record.sequence)).unwrap()
        })
        .collect();
    assert_eq!(seen, [(1234, 1000, 30), (1234, 1001, 32)]);
}

/// Damage does not get the right checksum from a setter.
#[test]
fn damage_is_not_sealed() {
    for (set, _) in COVERED {
        for at in [17, 20, 21, 40, RECORDS + 5] {
            let mut log = log();
            log[at] ^= 1;
            let before = log.clone();
            let mut all = batches(&mut log);
            let header = *all[0].header();
            let error = set(&mut all[0]).unwrap_err();
            assert!(matches!(error.reason(), RecordsReason::Checksum { .. }), "{error}");
            assert_eq!((error.stage(), error.batch(), error.position()), (Stage::Checksum, 0, 0));
            assert_eq!(all[0].header(), &header);
            set(&mut all[1]).unwrap();
            let start = Batches::from_slice(&before).nth(1).unwrap().unwrap().position();
            assert_eq!(log[..start], before[..start]);
        }
    }
    // It tells which batch.
    let mut log = log();
    let last = log.len() - 1;
    log[last] ^= 1;
    let position = Batches::from_slice(&log).nth(2).unwrap().unwrap().position();
    let mut all = batches(&mut log);
    all[2].set_base_offset(6);
    let error = all[2].set_producer(1, 1, 1).unwrap_err();
    assert_eq!((error.batch(), error.position()), (2, position));

    // The fields that are not covered can be set all the same, and do not hide the damage.
    let mut log = log;
    for batch in &mut batches(&mut log) {
        batch.set_base_offset(77);
        batch.set_partition_leader_epoch(3);
    }
    let verified: Vec<_> = Batches::from_slice(&log).map(|batch| batch.unwrap().verify().is_ok()).collect();
    assert_eq!(verified, [true, true, false]);
    assert!(headers(&log).iter().all(|header| header.base_offset == 77));
}

#[test]
fn all_or_nothing() {
    for magic in [0, 1] {
        let mut log = [log(), message(magic, 0, 40, Some(b"v"))].concat();
        let error = BatchMut::all(&mut log).unwrap_err();
        assert_eq!((error.reason(), error.batch()), (&RecordsReason::OldFormat { magic: magic as i8 }, 3));
        assert_eq!(error.base_offset(), 40);
    }
    let mut log = log();
    log[LENGTH..12].copy_from_slice(&13_i32.to_be_bytes());
    let error = BatchMut::all(&mut log).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record batch 0 at byte 0 (base offset 0): a length of 13, at least 14 needed"
    );
    log[LENGTH..12].copy_from_slice(&48_i32.to_be_bytes());
    let error = BatchMut::all(&mut log).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record batch 0 at byte 0 (base offset 0): a length of 48, at least 49 needed"
    );
}
