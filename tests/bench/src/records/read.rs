//! The ways to read a batch; each returns the same sum.

use bytes::Bytes;
use kafka_protocol::records::Batches;
use kafka_protocol_018::records::RecordBatchDecoder;
use krabka_protocol::DecodeBorrow as _;
use krabka_protocol::records::{RecordBatch, RecordBatchBorrowed, validate_one_v2_batch};

use super::{OURS, Operation};

const VALID: &str = "the batch is valid";

/// Who reads how.
pub(super) const READERS: &[(&str, Operation, fn(&Bytes) -> i64)] = &[
    (OURS, Operation::Lazy, ours_lazy),
    (OURS, Operation::Owned, ours_owned),
    ("kafka-protocol 0.18", Operation::Owned, kafka_protocol),
    ("krabka 0.8 borrowed", Operation::LazyBoth, krabka_borrowed),
    ("krabka 0.8 summaries", Operation::LazyBoth, krabka_summaries),
    ("krabka 0.8", Operation::Owned, krabka_owned),
];

fn touch(offset: i64, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> i64 {
    offset + timestamp + key.map_or(0, <[u8]>::len) as i64 + value.map_or(0, <[u8]>::len) as i64
}

// Each is compiled once, on its own.

#[inline(never)]
pub(super) fn ours_lazy(batch: &Bytes) -> i64 {
    let mut sum = 0;
    for batch in Batches::new(batch) {
        let batch = batch.expect(VALID);
        let records = batch.records().expect(VALID);
        for record in records.iter() {
            let record = record.expect(VALID);
            sum += touch(record.offset, record.timestamp, record.key, record.value);
        }
    }
    sum
}

#[inline(never)]
fn ours_owned(batch: &Bytes) -> i64 {
    let mut sum = 0;
    for batch in Batches::new(batch) {
        let batch = batch.expect(VALID);
        let records = batch.records().expect(VALID).to_vec().expect(VALID);
        for record in &records {
            sum += touch(record.offset(), record.timestamp(), record.key(), record.value());
        }
    }
    sum
}

#[inline(never)]
fn kafka_protocol(batch: &Bytes) -> i64 {
    let mut batch = batch.clone();
    let set = RecordBatchDecoder::decode(&mut batch).expect(VALID);
    let sum = set
        .records
        .iter()
        .map(|record| touch(record.offset, record.timestamp, record.key.as_deref(), record.value.as_deref()));
    sum.sum()
}

#[inline(never)]
fn krabka_borrowed(batch: &Bytes) -> i64 {
    let batch = RecordBatchBorrowed::decode_borrow(&mut &batch[..], 0).expect(VALID);
    let header = batch.header();
    let (offset, timestamp) = (header.base_offset.get(), header.base_timestamp.get());
    let sum = batch.iter().map(|record| {
        let record = record.expect(VALID);
        let (offset, timestamp) =
            (offset + i64::from(record.offset_delta), timestamp + record.timestamp_delta);
        touch(offset, timestamp, record.key, record.value)
    });
    sum.sum()
}

#[inline(never)]
fn krabka_summaries(batch: &Bytes) -> i64 {
    let batch = validate_one_v2_batch(batch).expect(VALID);
    let (offset, timestamp) = (batch.header.base_offset.get(), batch.header.base_timestamp.get());
    let mut sum = 0;
    batch
        .validate_record_summaries_with(Default::default(), |record| {
            let (offset, timestamp) =
                (offset + i64::from(record.offset_delta), timestamp + record.timestamp_delta);
            sum += touch(offset, timestamp, record.key, record.value);
        })
        .expect(VALID);
    sum
}

#[inline(never)]
fn krabka_owned(batch: &Bytes) -> i64 {
    let batch = RecordBatch::decode_batch(&mut &batch[..]).expect(VALID);
    let (offset, timestamp) = (batch.base_offset, batch.base_timestamp);
    let sum = batch.records.iter().map(|record| {
        let (offset, timestamp) =
            (offset + i64::from(record.offset_delta), timestamp + record.timestamp_delta);
        touch(offset, timestamp, record.key.as_deref(), record.value.as_deref())
    });
    sum.sum()
}
