//! Random batches, and what a reader has to see in them.

use std::error::Error;

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::messages::leader_change_message::Voter;
use kafka_protocol::messages::{
    EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord,
    VotersRecord, voters_record,
};
use kafka_protocol::records::{
    Attributes, BatchBuilder, BatchHeader, BatchMut, Batches, Compression, Header, NewRecord, ReadOptions,
    TimestampType,
};
use kafka_protocol::wire::{Bytes, Str};
use serde_json::{Value as Json, json};

use super::old::Message;
use super::{bytes, old, shown};
use crate::random::Random;

const TIME: i64 = 1_760_000_000_000;

/// A header that says nothing.
const PLAIN: BatchHeader = BatchHeader {
    base_offset: 0,
    length: 0,
    partition_leader_epoch: -1,
    magic: 2,
    crc: 0,
    attributes: Attributes(0),
    last_offset_delta: 0,
    base_timestamp: -1,
    max_timestamp: -1,
    producer_id: -1,
    producer_epoch: -1,
    base_sequence: -1,
    records_count: 0,
};

/// Several batches in a row, and what has to be seen in them, in the form of the vectors.
///
/// # Errors
///
/// What the builder says, which should take all of it.
pub(super) fn buffer(random: &mut Random) -> Result<(Vec<Json>, Bytes), String> {
    let (mut stated, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..=random.pick(&[0, 0, 0, 1, 3]) {
        let batch = batch(random)?;
        stated.push(batch.stated());
        bytes.extend_from_slice(&batch.bytes);
    }
    Ok((stated, bytes.into()))
}

/// A batch, written in one of the ways that there are.
pub(super) fn batch(random: &mut Random) -> Result<Batch, String> {
    let mut batch = match random.below(7) {
        0 => Batch::of_control(random),
        1 | 2 => Batch::of_header(random),
        3 => Batch::of_messages(random),
        _ => Batch::of_producer(random),
    }?;
    while random.once_in(3) {
        batch.change(random)?;
    }
    Ok(batch)
}

/// A batch, and what a reader has to see in it.
pub(super) struct Batch {
    pub bytes: Bytes,
    /// Without length, checksum and count, which follow from the rest.
    header: BatchHeader,
    records: Vec<Record>,
}

/// A record of such a batch.
struct Record {
    offset: i64,
    /// That of the producer.
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    control: Option<ControlRecord>,
}

impl Batch {
    /// What a reader has to see.
    pub(super) fn stated(&self) -> Json {
        let word = |at: usize| <[u8; 4]>::try_from(&self.bytes[at..at + 4]).unwrap_or_default();
        let header = BatchHeader {
            length: i32::from_be_bytes(word(8)),
            crc: u32::from_be_bytes(word(17)),
            records_count: self.records.len() as i32,
            ..self.header
        };
        let mut stated = shown::batch(&header, header.base_offset);
        stated["records"] = self.records.iter().map(|record| self.stated_record(record)).collect();
        stated
    }

    fn stated_record(&self, record: &Record) -> Json {
        let header = &self.header;
        let delta = record.offset.wrapping_sub(header.base_offset) as i32;
        let sequence =
            if header.base_sequence < 0 { -1 } else { header.base_sequence.wrapping_add(delta) & i32::MAX };
        let is_append_time = header.timestamp_type() == Some(TimestampType::LogAppendTime);
        let headers =
            record.headers.iter().map(|(key, value)| json!([key, bytes::to_json(value.as_deref())]));
        let mut stated = json!({
            "offset": record.offset,
            "timestamp": if is_append_time { header.max_timestamp } else { record.timestamp },
            "sequence": sequence,
            "key": bytes::to_json(record.key.as_deref()),
            "value": bytes::to_json(record.value.as_deref()),
            "headers": headers.collect::<Json>(),
        });
        if is_append_time {
            stated["createTimestamp"] = record.timestamp.into();
        }
        if let Some(control) = &record.control {
            shown::control(control, record.value.as_deref(), &mut stated);
        }
        stated
    }

    /// As a producer builds it, or a broker.
    fn of_producer(random: &mut Random) -> Result<Self, String> {
        let (builder, mut header) = settings(random);
        let is_fixed = random.once_in(2);
        header.base_offset =
            if is_fixed { random.pick(&[0, 1, 1000, 1 << 33, i64::MAX - (1 << 20)]) } else { 0 };
        let mut builder = if is_fixed { builder.base_offset(header.base_offset) } else { builder };
        let has_offsets = random.once_in(3);
        let mut next = header.base_offset + if is_fixed && has_offsets { random.below(3) as i64 } else { 0 };
        let mut records = Vec::new();
        for n in 0..count(random) {
            if has_offsets {
                next += random.pick(&[0, 0, 0, 1, 100]);
            }
            let timestamp = random.pick(&[TIME + n, TIME - n, TIME, TIME + (1 << 34), -1, 0]);
            let record = Record::random(random, next, timestamp);
            record.append(&mut builder, has_offsets)?;
            records.push(record);
            next += 1;
        }
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            unreachable!("has records")
        };
        if !is_fixed {
            header.base_offset = first.offset;
        }
        header.last_offset_delta = (last.offset - header.base_offset) as i32;
        if header.delete_horizon().is_none() {
            header.base_timestamp = first.timestamp;
        }
        if header.timestamp_type() == Some(TimestampType::CreateTime) {
            header.max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
        }
        Self::finished(random, builder, header, records)
    }

    /// With a header that was chosen, as after compaction; perhaps without records.
    fn of_header(random: &mut Random) -> Result<Self, String> {
        let (_, mut header) = settings(random);
        let big = random.next() as i64;
        header.base_offset = random.pick(&[0, 7, 1 << 40, i64::MAX - (1 << 20)]);
        header.base_timestamp = random.pick(&[-1, 0, TIME, big]);
        header.max_timestamp = random.pick(&[-1, TIME, big]);
        if random.once_in(3) {
            header.producer_id = random.pick(&[-1, 0, 5, i64::MAX]);
            header.producer_epoch = random.pick(&[-1, 0, i16::MAX]);
            header.base_sequence = random.pick(&[-1, 0, i32::MAX]);
        }
        let (mut next, mut records) = (header.base_offset, Vec::new());
        let count = if random.once_in(6) { 0 } else { count(random) };
        for _ in 0..count {
            next += random.pick(&[0, 0, 1, 63, 64, 3000]);
            let any = random.next() as i64;
            let record = Record::random(random, next, random_timestamp(any));
            records.push(record);
            next += 1;
        }
        // Not below that of the last record, and perhaps above.
        header.last_offset_delta =
            (next - header.base_offset - 1).max(0) as i32 + random.pick(&[0, 0, 1, 10]);
        let mut builder = BatchBuilder::from_header(&header);
        for record in &records {
            record.append(&mut builder, true)?;
        }
        Self::finished(random, builder, header, records)
    }

    fn of_control(random: &mut Random) -> Result<Self, String> {
        let (mut builder, mut header) = settings(random);
        builder = builder.control();
        header.attributes.0 |= 32;
        header.base_offset = 0;
        let mut records = Vec::new();
        for n in 0..=random.below(3) {
            let (control, timestamp) = (control(random), TIME + n as i64);
            builder.append_control(timestamp, &control).map_err(|error| error.to_string())?;
            let encoded = (control.encode_key(), control.encode_value());
            let (Ok(key), Ok(value)) = encoded else { return Err("no bytes of a control record".to_owned()) };
            let (key, value) = (Some(key.to_vec()), value.map(|value| value.to_vec()));
            let control = Some(control);
            records.push(Record { offset: n as i64, timestamp, key, value, headers: vec![], control });
        }
        header.last_offset_delta = records.len() as i32 - 1;
        if header.delete_horizon().is_none() {
            header.base_timestamp = TIME;
        }
        if header.timestamp_type() == Some(TimestampType::CreateTime) {
            header.max_timestamp = TIME + records.len() as i64 - 1;
        }
        Self::finished(random, builder, header, records)
    }

    /// Out of messages of the old formats, plain or compressed.
    fn of_messages(random: &mut Random) -> Result<Self, String> {
        let magic = random.pick(&[0, 1]);
        let wrapped_in = match magic {
            // There LZ4 is framed in another way.
            0 => random.pick(&[Compression::None, Compression::Gzip, Compression::Snappy]),
            _ => random.pick(&Compression::ALL[..4]),
        };
        let append_time = (magic == 1 && random.once_in(3)).then_some(TIME + 77);
        let mut header = BatchHeader { base_offset: random.pick(&[0, 1, 1000, 1 << 40]), ..PLAIN };
        let (mut next, mut records) = (header.base_offset, Vec::new());
        for n in 0..if wrapped_in == Compression::None { 1 } else { count(random) } {
            let created = random.pick(&[TIME + n, TIME - n, -1]);
            let timestamp = if magic == 0 { -1 } else { append_time.unwrap_or(created) };
            records.push(Record { headers: vec![], ..Record::random(random, next, timestamp) });
            next += random.pick(&[1, 1, 1, 5]);
        }
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            unreachable!("has records")
        };
        header.last_offset_delta = (last.offset - header.base_offset) as i32;
        header.base_timestamp = first.timestamp;
        header.max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
        header.attributes.0 = if append_time.is_some() { 8 } else { 0 };

        let messages = messages(magic, wrapped_in, &header, &records).map_err(|error| error.to_string())?;
        let batch = Batches::from_slice(&messages).next().ok_or("no message")?;
        let compression = random.pick(&Compression::ALL);
        header.attributes = Attributes(header.attributes.0 | i16::from(compression.id()));
        let bytes = batch
            .map_err(|error| error.to_string())?
            .recompress(compression, level(random, compression), &ReadOptions::default())
            .map_err(|error| error.to_string())?;
        Ok(Self { bytes, header, records })
    }

    /// On its own, or behind what is there.
    fn finished(
        random: &mut Random,
        mut builder: BatchBuilder,
        header: BatchHeader,
        records: Vec<Record>,
    ) -> Result<Self, String> {
        if random.once_in(2) {
            let bytes = builder.finish().map_err(|error| error.to_string())?;
            return Ok(Self { bytes, header, records });
        }
        let start = random.pick(&[0, 1, 61, 1000]);
        let before = random.bytes(start);
        let mut out = before.clone();
        let appended = builder.finish_into(&mut out).map_err(|error| error.to_string())?;
        let bytes = out.split_off(start);
        if out != before || bytes.len() != appended || !builder.is_empty() {
            return Err(format!("{appended} bytes behind {start} others"));
        }
        Ok(Self { bytes: bytes.into(), header, records })
    }

    /// Changes the batch that is there, as brokers and the log cleaner do.
    fn change(&mut self, random: &mut Random) -> Result<(), String> {
        let options = ReadOptions::default();
        let read = self.bytes.clone();
        let batch = Batches::new(&read).next().ok_or("no batch")?.map_err(|error| error.to_string())?;
        match random.below(4) {
            0 => {
                let compression = random.pick(&Compression::ALL);
                self.bytes = batch
                    .recompress(compression, level(random, compression), &options)
                    .map_err(|error| error.to_string())?;
                self.header.attributes.0 = self.header.attributes.0 & !7 | i16::from(compression.id());
            }
            1 => self.retain(random.pick(&[1, 2, 5, 1000]), random, &batch, &options)?,
            _ => self.change_in_place(random)?,
        }
        Ok(())
    }

    /// As a leader, which appends the batch.
    fn change_in_place(&mut self, random: &mut Random) -> Result<(), String> {
        let mut bytes = self.bytes.to_vec();
        let batches = BatchMut::all(&mut bytes).map_err(|error| error.to_string())?;
        for mut batch in batches {
            match random.below(3) {
                0 => {
                    let base_offset = random.pick(&[0, 12, 1 << 50]);
                    batch.set_base_offset(base_offset);
                    batch.set_partition_leader_epoch(17);
                    for record in &mut self.records {
                        record.offset += base_offset - self.header.base_offset;
                    }
                    (self.header.base_offset, self.header.partition_leader_epoch) = (base_offset, 17);
                }
                1 => {
                    batch.set_log_append_time(TIME + 99).map_err(|error| error.to_string())?;
                    self.header.attributes.0 |= 8;
                    self.header.max_timestamp = TIME + 99;
                }
                _ => {
                    batch.set_producer(99, 3, 2).map_err(|error| error.to_string())?;
                    self.header.producer_id = 99;
                    self.header.producer_epoch = 3;
                    self.header.base_sequence = 2;
                }
            }
        }
        self.bytes = bytes.into();
        Ok(())
    }

    /// As the log cleaner: about one of `n` records goes.
    fn retain(
        &mut self,
        n: usize,
        random: &mut Random,
        batch: &kafka_protocol::records::RecordBatch<'_>,
        options: &ReadOptions,
    ) -> Result<(), String> {
        let all = self.records.len();
        let gone: Vec<i64> =
            self.records.iter().map(|record| record.offset).filter(|_| random.once_in(n)).collect();
        self.bytes = batch
            .retain(options, |record| !gone.contains(&record.offset))
            .map_err(|error| error.to_string())?;
        self.records.retain(|record| !gone.contains(&record.offset));
        let header = &mut self.header;
        match self.records.first() {
            Some(first) if self.records.len() < all => {
                if header.delete_horizon().is_none() {
                    header.base_timestamp = first.timestamp;
                }
                if header.timestamp_type() == Some(TimestampType::CreateTime) {
                    header.max_timestamp =
                        self.records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
                }
            }
            Some(_) => {}
            None => {
                // Neither codec nor delete horizon.
                header.attributes.0 &= !(7 | 64);
                header.base_timestamp = -1;
            }
        }
        Ok(())
    }
}

impl Record {
    fn random(random: &mut Random, offset: i64, timestamp: i64) -> Self {
        let count = if random.once_in(100) { 130 } else { random.pick(&[0, 0, 0, 1, 2]) };
        let headers = (0..count).map(|_| {
            // Few keys, so that some are there twice.
            let key = random.pick(&["", "id", "trace-id", "Straße", "\u{1f980}"]);
            (key.to_owned(), content(random))
        });
        let headers = headers.collect();
        Self { offset, timestamp, key: content(random), value: content(random), headers, control: None }
    }

    fn append(&self, builder: &mut BatchBuilder, with_offset: bool) -> Result<(), String> {
        let headers: Vec<Header<'_>> =
            self.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
        let record = NewRecord {
            offset: with_offset.then_some(self.offset),
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
        };
        builder.append(&record).map_err(|error| error.to_string())
    }
}

/// A builder, and the header that it will write as far as that does not depend on the records.
fn settings(random: &mut Random) -> (BatchBuilder, BatchHeader) {
    let compression = random.pick(&Compression::ALL);
    let mut builder = BatchBuilder::new().compression(compression);
    let mut header = BatchHeader { attributes: Attributes(compression.id().into()), ..PLAIN };
    if let Some(level) = level(random, compression) {
        builder = builder.compression_level(level);
    }
    if random.once_in(2) {
        header.partition_leader_epoch = random.pick(&[0, 1, i32::MAX]);
        builder = builder.partition_leader_epoch(header.partition_leader_epoch);
    }
    if random.once_in(3) {
        header.producer_id = random.pick(&[0, 4711, i64::MAX]);
        header.producer_epoch = random.pick(&[0, 5, i16::MAX]);
        header.base_sequence = random.pick(&[0, 77, i32::MAX - 1, i32::MAX]);
        builder = builder.producer(header.producer_id, header.producer_epoch, header.base_sequence);
        if random.once_in(2) {
            builder = builder.transactional();
            header.attributes.0 |= 16;
        }
    }
    if random.once_in(5) {
        header.max_timestamp = random.pick(&[TIME, TIME + 5, 0]);
        builder = builder.log_append_time(header.max_timestamp);
        header.attributes.0 |= 8;
    }
    if random.once_in(6) {
        header.base_timestamp = random.pick(&[TIME, TIME + (1 << 35)]);
        builder = builder.delete_horizon(header.base_timestamp);
        header.attributes.0 |= 64;
    }
    (builder, header)
}

/// Every level that a codec has some of the time, mostly none. The others ignore it.
fn level(random: &mut Random, compression: Compression) -> Option<i32> {
    let levels: &[i32] = match compression {
        Compression::Gzip => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        Compression::Zstd => &[-131_072, -1000, -7, -1, 0, 1, 2, 3, 5, 9, 12, 19, 22],
        _ => &[i32::MIN, 0, 7, i32::MAX],
    };
    random.once_in(3).then(|| random.pick(levels))
}

/// Records as messages of an old format, in one that is compressed unless there is no codec.
fn messages(
    magic: u8,
    wrapped_in: Compression,
    header: &BatchHeader,
    records: &[Record],
) -> Result<Vec<u8>, Box<dyn Error>> {
    // The time of the append stands on the outermost message; in magic 1 those inside count from 0.
    let is_wrapped = wrapped_in != Compression::None;
    let (flag, base) =
        (header.attributes.0 as u8, if is_wrapped && magic == 1 { header.base_offset } else { 0 });
    let messages = records.iter().map(|record| Message {
        magic,
        attributes: if is_wrapped { 0 } else { flag },
        offset: record.offset - base,
        timestamp: record.timestamp,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
    });
    let messages: Vec<u8> = messages.flat_map(|message| message.to_vec()).collect();
    if !is_wrapped {
        return Ok(messages);
    }
    let (attributes, offset) = (flag | wrapped_in.id(), header.last_offset());
    let value = &old::stream(&PLAIN, wrapped_in, &messages)?[..];
    let (timestamp, value) = (header.max_timestamp, Some(value));
    Ok(Message { magic, attributes, offset, timestamp, key: None, value }.to_vec())
}

fn random_timestamp(any: i64) -> i64 {
    match any & 3 {
        0 => any,
        1 => -1,
        _ => TIME + (any >> 40),
    }
}

fn count(random: &mut Random) -> i64 {
    if random.once_in(8) { random.pick(&[65, 200]) } else { random.pick(&[1, 1, 2, 3, 10]) }
}

fn content(random: &mut Random) -> Option<Vec<u8>> {
    let length = random.pick(&[0, 1, 10, 63, 64, 300]);
    match random.below(5) {
        0 => None,
        1 => Some(random.bytes(length)),
        // Longer than the blocks of the codecs, now and then.
        2 if random.once_in(200) => Some(b"0123456789".repeat(20_000)),
        _ => Some(b"the quick brown fox ".iter().copied().cycle().take(length).collect()),
    }
}

fn control(random: &mut Random) -> ControlRecord {
    let marker = EndTxnMarker { coordinator_epoch: random.pick(&[0, 17, i32::MAX]), ..Default::default() };
    let voter = |voter_id| Voter { voter_id, ..Default::default() };
    match random.below(8) {
        0 => ControlRecord::Abort(marker),
        1 => ControlRecord::Commit(marker),
        2 => ControlRecord::LeaderChange(LeaderChangeMessage {
            leader_id: 3,
            voters: (0..random.below(4) as i32).map(voter).collect(),
            granting_voters: vec![voter(1)],
            ..Default::default()
        }),
        3 => ControlRecord::SnapshotHeader(SnapshotHeaderRecord {
            last_contained_log_timestamp: TIME,
            ..Default::default()
        }),
        4 => ControlRecord::SnapshotFooter(SnapshotFooterRecord::default()),
        5 => ControlRecord::KRaftVersion(KRaftVersionRecord { kraft_version: 1, ..Default::default() }),
        6 => ControlRecord::KRaftVoters(VotersRecord {
            voters: vec![voters_record::Voter {
                voter_id: 2,
                endpoints: vec![voters_record::Endpoint {
                    name: Str::new("CONTROLLER"),
                    host: Str::new("broker-2"),
                    port: 65535,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }),
        _ => ControlRecord::Unknown {
            record_type: random.pick(&[7, 100, -5]),
            value: content(random).map(Bytes::from),
        },
    }
}
