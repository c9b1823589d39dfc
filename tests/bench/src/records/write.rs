//! The ways to write a batch.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{BatchBuilder, Compression, NewRecord};
use kafka_protocol_018::records as kafka_protocol_018;
use krabka_protocol::records as krabka;

use super::{OURS, Plain};

const WRITTEN: &str = "what is written is valid";
const ROOM: usize = 256 * 1024;

/// Someone who writes a batch of all the records, again and again.
pub(super) trait Writer: 'static {
    const NAME: &'static str;
    /// Gets ready.
    fn new(plain: &[Plain], compression: Compression) -> Self;
    /// Writes the batch.
    fn write(&mut self) -> &[u8];
}

pub(super) struct Ours {
    plain: Vec<(Bytes, Bytes, i64)>,
    builder: BatchBuilder,
    out: Vec<u8>,
}

impl Ours {
    #[inline]
    fn append(&mut self) {
        for (key, value, timestamp) in &self.plain {
            let record =
                NewRecord { timestamp: *timestamp, key: Some(key), value: Some(value), ..Default::default() };
            self.builder.append(&record).expect(WRITTEN);
        }
    }
}

impl Writer for Ours {
    const NAME: &'static str = OURS;

    fn new(plain: &[Plain], compression: Compression) -> Self {
        let builder = BatchBuilder::new().compression(compression);
        let plain = plain.iter().map(|it| (it.key.clone(), it.value.clone(), it.timestamp)).collect();
        Self { plain, builder, out: Vec::with_capacity(ROOM) }
    }

    #[inline(never)]
    fn write(&mut self) -> &[u8] {
        self.append();
        self.out.clear();
        self.builder.finish_into(&mut self.out).expect(WRITTEN);
        &self.out
    }
}

/// Into a buffer that it makes.
pub(super) struct OursToBytes(Ours, Bytes);

impl Writer for OursToBytes {
    const NAME: &'static str = "ours to bytes";

    fn new(plain: &[Plain], compression: Compression) -> Self {
        Self(Ours::new(plain, compression), Bytes::new())
    }

    #[inline(never)]
    fn write(&mut self) -> &[u8] {
        self.0.append();
        self.1 = self.0.builder.finish().expect(WRITTEN);
        &self.1
    }
}

pub(super) struct KafkaProtocol {
    records: Vec<kafka_protocol_018::Record>,
    options: kafka_protocol_018::RecordEncodeOptions,
    out: BytesMut,
}

impl Writer for KafkaProtocol {
    const NAME: &'static str = "kafka-protocol 0.18";

    fn new(plain: &[Plain], compression: Compression) -> Self {
        use kafka_protocol_018::{
            Compression as Theirs, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
            Record, RecordEncodeOptions, TimestampType,
        };
        let record = |(n, plain): (usize, &Plain)| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            timestamp_type: TimestampType::Creation,
            offset: n as i64,
            // It begins another batch where offset and sequence do not move together.
            sequence: NO_SEQUENCE + n as i32,
            timestamp: plain.timestamp,
            key: Some(plain.key.clone()),
            value: Some(plain.value.clone()),
            headers: Default::default(),
        };
        let compression = match compression {
            Compression::None => Theirs::None,
            Compression::Gzip => Theirs::Gzip,
            Compression::Snappy => Theirs::Snappy,
            Compression::Lz4 => Theirs::Lz4,
            Compression::Zstd => Theirs::Zstd,
        };
        Self {
            records: plain.iter().enumerate().map(record).collect(),
            options: RecordEncodeOptions { version: 2, compression },
            out: BytesMut::with_capacity(ROOM),
        }
    }

    #[inline(never)]
    fn write(&mut self) -> &[u8] {
        self.out.clear();
        kafka_protocol_018::RecordBatchEncoder::encode(&mut self.out, &self.records, &self.options)
            .expect(WRITTEN);
        &self.out
    }
}

fn krabka(plain: &[Plain], compression: Compression) -> krabka::RecordBatch {
    let base_timestamp = plain.first().map_or(-1, |first| first.timestamp);
    let record = |(n, plain): (usize, &Plain)| krabka::Record {
        timestamp_delta: plain.timestamp - base_timestamp,
        offset_delta: n as i32,
        key: Some(plain.key.clone()),
        value: Some(plain.value.clone()),
        ..Default::default()
    };
    krabka::RecordBatch {
        partition_leader_epoch: -1,
        attributes: krabka::Attributes(compression.id().into()),
        last_offset_delta: plain.len() as i32 - 1,
        base_timestamp,
        max_timestamp: plain.last().map_or(-1, |last| last.timestamp),
        records: plain.iter().enumerate().map(record).collect(),
        ..Default::default()
    }
}

/// Into a buffer.
pub(super) struct Krabka {
    batch: krabka::RecordBatch,
    out: BytesMut,
}

impl Writer for Krabka {
    const NAME: &'static str = "krabka 0.8";

    fn new(plain: &[Plain], compression: Compression) -> Self {
        Self { batch: krabka(plain, compression), out: BytesMut::with_capacity(ROOM) }
    }

    #[inline(never)]
    fn write(&mut self) -> &[u8] {
        self.out.clear();
        self.batch.encode_batch(&mut self.out).expect(WRITTEN);
        &self.out
    }
}

/// Into a buffer that it makes, which it can write to directly.
pub(super) struct KrabkaToBytes {
    batch: krabka::RecordBatch,
    out: Bytes,
}

impl Writer for KrabkaToBytes {
    const NAME: &'static str = "krabka 0.8 to bytes";

    fn new(plain: &[Plain], compression: Compression) -> Self {
        Self { batch: krabka(plain, compression), out: Bytes::new() }
    }

    #[inline(never)]
    fn write(&mut self) -> &[u8] {
        self.out = self.batch.encode_to_bytes().expect(WRITTEN);
        &self.out
    }
}
