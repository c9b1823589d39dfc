//! Batches and messages put together by hand, also such as no writer makes.

use std::io::Write as _;

use flate2::write::GzEncoder;
use kafka_protocol::records::{BatchBuilder, BatchHeader, Batches, Compression, NewRecord, RecordBatch};
use kafka_protocol::wire::Bytes;

use super::old::Message;
use crate::reports::crc_32c;

/// Places in the header of a batch.
pub(super) const BASE_OFFSET: usize = 0;
pub(super) const LENGTH: usize = 8;
pub(super) const MAGIC: usize = 16;
pub(super) const ATTRIBUTES: usize = 21;
pub(super) const LAST_OFFSET_DELTA: usize = 23;
pub(super) const MAX_TIMESTAMP: usize = 35;
pub(super) const COUNT: usize = 57;
/// Where its records start.
pub(super) const RECORDS: usize = 61;

/// A record with this value, at the time 1000.
pub(super) fn value(value: &[u8]) -> NewRecord<'_> {
    NewRecord { timestamp: 1000, value: Some(value), ..Default::default() }
}

/// A batch of records at these offsets, each with a value of its own and one millisecond after the other from 1000 on.
pub(super) fn batch_of(mut builder: BatchBuilder, offsets: &[i64]) -> Bytes {
    for (timestamp, &offset) in (1000..).zip(offsets) {
        let value = format!("value of {offset}");
        let record = NewRecord {
            offset: Some(offset),
            timestamp,
            value: Some(value.as_bytes()),
            ..Default::default()
        };
        builder.append(&record).expect("appended");
    }
    builder.finish().expect("finished")
}

/// Three records from offset 0 on.
pub(super) fn batch(compression: Compression) -> Bytes {
    batch_of(BatchBuilder::new().compression(compression), &[0, 1, 2])
}

/// The one batch of a buffer.
pub(super) fn only(bytes: &Bytes) -> RecordBatch<'_> {
    let mut batches = Batches::new(bytes);
    let batch = batches.next().expect("a batch").expect("a header");
    assert!(batches.next().is_none() && batches.trailing().is_empty(), "one batch");
    batch
}

pub(super) fn header(bytes: &Bytes) -> BatchHeader {
    *only(bytes).header()
}

/// The offsets of the records of a batch.
pub(super) fn offsets(bytes: &Bytes) -> Vec<i64> {
    let records = only(bytes).records().expect("records");
    records.iter().map(|record| record.expect("a record").offset).collect()
}

/// The values of the records of a batch.
pub(super) fn values(bytes: &Bytes) -> Vec<Vec<u8>> {
    let records = only(bytes).records().expect("records");
    records.iter().map(|record| record.expect("a record").value.expect("a value").to_vec()).collect()
}

/// The batch with other bytes in one place, and the length and checksum that it has then.
pub(super) fn patched(batch: &[u8], at: usize, with: &[u8]) -> Bytes {
    let mut batch = batch.to_vec();
    batch[at..at + with.len()].copy_from_slice(with);
    reseal(&mut batch);
    batch.into()
}

/// A batch that announces `count` records and has these bytes for them.
pub(super) fn batch_of_bytes(count: i32, records: &[u8]) -> Bytes {
    let batch = batch(Compression::None);
    patched(&[&batch[..RECORDS], records].concat(), COUNT, &count.to_be_bytes())
}

/// Length and checksum as if nothing had been damaged.
pub(super) fn reseal(bytes: &mut [u8]) {
    if bytes.len() >= RECORDS && bytes[MAGIC] == 2 {
        let length = (bytes.len() - 12) as i32;
        bytes[LENGTH..12].copy_from_slice(&length.to_be_bytes());
        let crc = crc_32c(&bytes[ATTRIBUTES..]);
        bytes[17..ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    }
}

/// A message of the old formats without a key, in magic 1 at the time 2000.
pub(super) fn message(magic: u8, attributes: u8, offset: i64, value: Option<&[u8]>) -> Vec<u8> {
    Message { magic, attributes, offset, timestamp: 2000, key: None, value }.to_vec()
}

/// A message that holds others, compressed with gzip.
pub(super) fn wrapper(magic: u8, attributes: u8, offset: i64, inner: &[Vec<u8>]) -> Bytes {
    message(magic, attributes | 1, offset, Some(&gzip(&inner.concat()))).into()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("in memory")
}
