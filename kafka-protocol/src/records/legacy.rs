//! The formats before record batches: message sets of magic 0 and 1, in which a compressed message holds others.

use super::batch::{Attributes, BatchHeader, LENGTH_END, RecordBatch, part};
use super::error::{RecordsError, RecordsReason, Stage};
use super::read::{Content, ReadOptions, Records};
use super::record::{Headers, bytes, end, length as length_of};
use super::span::Span;
use super::{Compression, Record, checksum};

/// The least length of a message: checksum, magic, attributes, and the lengths of key and value.
pub(super) const MIN_LENGTH: i32 = 14;
/// Where that begins what the checksum covers: at the magic byte.
const CHECKSUM_END: usize = LENGTH_END + 4;

/// A record, with key and value as ranges of the content.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub offset: i64,
    timestamp: i64,
    key: Option<Span>,
    value: Option<Span>,
}

impl Message {
    #[inline]
    pub(super) fn record<'a>(&self, content: &'a [u8]) -> Record<'a> {
        Record {
            offset: self.offset,
            timestamp: self.timestamp,
            create_timestamp: self.timestamp,
            sequence: -1,
            attributes: 0,
            key: self.key.map(|span| span.of(content)),
            value: self.value.map(|span| span.of(content)),
            headers: Headers::default(),
        }
    }
}

/// The header of a message that is all there.
pub(super) fn read_header(message: &[u8]) -> BatchHeader {
    let magic = message[16] as i8;
    // With the least length the timestamp still has eight bytes, although not its own.
    let timestamp = if magic == 0 { -1 } else { i64::from_be_bytes(part(message, 18)) };
    BatchHeader {
        base_offset: i64::from_be_bytes(part(message, 0)),
        length: i32::from_be_bytes(part(message, 8)),
        partition_leader_epoch: -1,
        magic,
        crc: u32::from_be_bytes(part(message, 12)),
        attributes: Attributes((message[17] as i8).into()),
        last_offset_delta: 0,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records_count: -1,
    }
}

/// The checksum of a message that is all there.
#[inline]
pub(super) fn checksum(message: &[u8]) -> u32 {
    checksum::crc_32(&message[CHECKSUM_END..])
}

/// The records of a message: itself, or those that it holds compressed.
pub(super) fn read<'a>(batch: &RecordBatch<'a>, options: &ReadOptions) -> Result<Records<'a>, RecordsError> {
    let fault = |reason| batch.fault(Stage::Records, reason).in_record(0);
    let outer = parse(batch.bytes(), batch.bytes(), batch.header()).map_err(fault)?;
    let id = batch.header().attributes.compression_id();
    let compression = match Compression::from_id(id) {
        Some(Compression::None) => {
            let content = Content::Plain(batch.bytes());
            return Ok(Records { batch: batch.clone(), content, messages: Some(vec![outer]) });
        }
        Some(compression) if compression != Compression::Zstd => compression,
        _ => return Err(fault(RecordsReason::UnknownCompression { id })),
    };
    let Some(value) = outer.value else {
        return Err(fault(end("value of a compressed message", 1, 0)));
    };
    let inflated = batch.inflate(compression, value.of(batch.bytes()), options)?;
    let messages = inner(batch, &inflated, options)?;
    Ok(Records { batch: batch.clone(), content: Content::Inflated(inflated), messages: Some(messages) })
}

/// The messages in a compressed one, with the offsets that they have in the partition.
fn inner(
    batch: &RecordBatch<'_>,
    content: &[u8],
    options: &ReadOptions,
) -> Result<Vec<Message>, RecordsError> {
    let outer = batch.header();
    let mut messages = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let (message, size) = inner_message(outer, content, at, options)
            .map_err(|reason| batch.fault(Stage::Records, reason).in_record(messages.len()))?;
        messages.push(message);
        at += size;
    }
    let fault = |reason| batch.fault(Stage::Records, reason).in_record(0);
    let last = messages.last().ok_or_else(|| fault(end("compressed messages", 1, 0)))?.offset;
    // In magic 1 the offset of the outer message is that of its last one, and those inside count from 0; but with an
    // outer offset of 0, as a producer sends it, they stay as they are.
    if outer.magic == 1 && outer.base_offset != 0 {
        let overflow =
            || RecordsReason::OffsetOverflow { base_offset: outer.base_offset, delta: last.wrapping_neg() };
        let base = outer.base_offset.checked_sub(last).filter(|base| *base >= 0);
        let base = base.ok_or_else(|| fault(overflow()))?;
        for message in &mut messages {
            message.offset = message.offset.checked_add(base).ok_or_else(|| fault(overflow()))?;
        }
    }
    Ok(messages)
}

/// A message in a compressed one, and the bytes that it takes.
fn inner_message(
    outer: &BatchHeader,
    content: &[u8],
    at: usize,
    options: &ReadOptions,
) -> Result<(Message, usize), RecordsReason> {
    let rest = &content[at..];
    if rest.len() < LENGTH_END {
        return Err(end("offset and length of a message", LENGTH_END, rest.len()));
    }
    let length = i32::from_be_bytes(part(rest, 8));
    if length < MIN_LENGTH {
        return Err(RecordsReason::Length { length, min: MIN_LENGTH });
    }
    let size = LENGTH_END + length as usize;
    let message = rest.get(..size).ok_or_else(|| end("message", size, rest.len()))?;
    let header = read_header(message);
    if header.magic != outer.magic {
        return Err(RecordsReason::InnerMagic { outer: outer.magic, inner: header.magic });
    }
    if header.attributes.compression_id() != 0 {
        return Err(RecordsReason::Nested);
    }
    let computed = checksum(message);
    if options.check_crc && computed != header.crc {
        return Err(RecordsReason::Checksum { stored: header.crc, computed });
    }
    let mut read = parse(content, message, &header)?;
    // The time of the append is that of the outer message, and on an inner one it means nothing.
    read.timestamp = outer.append_timestamp().unwrap_or(header.base_timestamp);
    Ok((read, size))
}

/// Key and value of a message, which is a part of the content.
fn parse(content: &[u8], message: &[u8], header: &BatchHeader) -> Result<Message, RecordsReason> {
    let mut rest = &message[if header.magic == 0 { 18 } else { 26 }..];
    let key = nullable(&mut rest, "key")?;
    let value = nullable(&mut rest, "value")?;
    if !rest.is_empty() {
        return Err(RecordsReason::RecordLength { left: rest.len() });
    }
    let span = |part| Span::within(content, part);
    Ok(Message {
        offset: header.base_offset,
        timestamp: header.base_timestamp,
        key: key.map(span),
        value: value.map(span),
    })
}

/// Bytes with an int32 length in front, which is -1 for null.
fn nullable<'a>(rest: &mut &'a [u8], field: &'static str) -> Result<Option<&'a [u8]>, RecordsReason> {
    let Some((length, behind)) = rest.split_first_chunk() else { return Err(end(field, 4, rest.len())) };
    *rest = behind;
    match i32::from_be_bytes(*length) {
        -1 => Ok(None),
        count => bytes(rest, length_of(count, field)?, field).map(Some),
    }
}
