use bytes::Bytes;

use super::RecordsReason;
use super::batch::sequence_after;
use super::varint::{is_cut, take_i32, take_i64};
use crate::embedded::{ControlRecord, EmbeddedError};

/// A record, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Its timestamp in milliseconds since 1970, as a consumer sees it: that of the producer, or of the append; -1 if
    /// there is none.
    pub timestamp: i64,
    /// The timestamp that the producer gave, also if `timestamp` is that of the append; the same in the old formats.
    pub create_timestamp: i64,
    /// Its sequence, -1 if the producer is not idempotent.
    pub sequence: i32,
    /// The attributes: 0, as no bit has a meaning yet.
    pub attributes: i8,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` deletes the key in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers; none in the old formats.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// Decodes a record of a [control batch](super::BatchHeader::is_control).
    /// [`Records::control`](super::Records::control) does so for all of them.
    ///
    /// # Errors
    ///
    /// There is no key, or key and value are not what the type says.
    #[inline]
    pub fn control(&self) -> Result<ControlRecord, EmbeddedError> {
        // Without a key there is nothing that tells the type: decoding no bytes says so.
        let key = Bytes::copy_from_slice(self.key.unwrap_or_default());
        ControlRecord::decode(key, self.value.map(Bytes::copy_from_slice))
    }
}

/// The headers of a record, in their order; a key may be there more than once.
///
/// They have been checked when the record was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// The headers, one after another.
    #[inline]
    pub fn iter(self) -> HeadersIter<'a> {
        HeadersIter { left: self.count, rest: self.bytes }
    }

    /// The number of headers.
    #[inline]
    pub fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The value of the last header of a key, as Kafka's `Headers.lastHeader`.
    #[inline]
    pub fn last(self, key: &str) -> Option<Header<'a>> {
        self.iter().filter(|header| header.key == key).last()
    }
}

impl<'a> Headers<'a> {
    /// Headers that have been read before.
    #[inline]
    pub(super) fn checked(count: usize, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// As they stand in the record, behind their number.
    #[inline]
    pub(super) fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = HeadersIter<'a>;

    #[inline]
    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

/// The headers of a record, one after another.
#[derive(Clone, Debug)]
pub struct HeadersIter<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Cannot fail: all of it has been read before.
        read_header(&mut self.rest).ok()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}

/// A header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key.
    pub key: &'a str,
    /// The value.
    pub value: Option<&'a [u8]>,
}

/// What the deltas of the records of a batch are added to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub offset: i64,
    pub timestamp: i64,
    /// The timestamp of all records, if it is that of the append.
    pub append_timestamp: Option<i64>,
    pub sequence: i32,
}

/// The content of a record, of a known length.
#[inline(always)]
pub(super) fn read_record<'a>(mut body: &'a [u8], base: &Base) -> Result<Record<'a>, RecordsReason> {
    let body = &mut body;
    let Some((&attributes, rest)) = body.split_first() else {
        return Err(end("attributes", 1, 0));
    };
    *body = rest;
    let Some(timestamp_delta) = take_i64(body) else { return Err(varint("timestamp delta", body, 10)) };
    let offset_delta = int(body, "offset delta")?;
    let key = nullable(body, "key")?;
    let value = nullable(body, "value")?;
    let count = int(body, "number of headers")?;
    let headers = if count == 0 { Headers::default() } else { headers(body, count)? };
    if !body.is_empty() {
        return Err(RecordsReason::RecordLength { left: body.len() });
    }
    let Some(offset) = base.offset.checked_add(offset_delta.into()) else {
        return Err(RecordsReason::OffsetOverflow { base_offset: base.offset, delta: offset_delta.into() });
    };
    // Timestamps wrap around, as in Kafka.
    let create_timestamp = base.timestamp.wrapping_add(timestamp_delta);
    Ok(Record {
        offset,
        timestamp: base.append_timestamp.unwrap_or(create_timestamp),
        create_timestamp,
        sequence: if base.sequence < 0 { -1 } else { sequence_after(base.sequence, offset_delta) },
        attributes: attributes as i8,
        key,
        value,
        headers,
    })
}

/// Reads over the headers, so that they can be iterated without errors.
#[inline(never)]
fn headers<'a>(body: &mut &'a [u8], count: i32) -> Result<Headers<'a>, RecordsReason> {
    let count = length(count, "number of headers")?;
    // Lengths of key and value.
    if body.len() / 2 < count {
        return Err(end("headers", count.saturating_mul(2), body.len()));
    }
    let start = *body;
    for _ in 0..count {
        read_header(body)?;
    }
    Ok(Headers { count, bytes: &start[..start.len() - body.len()] })
}

fn read_header<'a>(body: &mut &'a [u8]) -> Result<Header<'a>, RecordsReason> {
    let key_length = int(body, "length of a header key")?;
    let key = bytes(body, length(key_length, "length of a header key")?, "header key")?;
    let key = std::str::from_utf8(key).map_err(|_| RecordsReason::HeaderKey)?;
    Ok(Header { key, value: nullable(body, "header value")? })
}

/// Bytes with a length in front, which is -1 for null.
#[inline]
fn nullable<'a>(body: &mut &'a [u8], field: &'static str) -> Result<Option<&'a [u8]>, RecordsReason> {
    match int(body, field)? {
        -1 => Ok(None),
        count => bytes(body, length(count, field)?, field).map(Some),
    }
}

#[inline]
pub(super) fn bytes<'a>(
    body: &mut &'a [u8],
    length: usize,
    field: &'static str,
) -> Result<&'a [u8], RecordsReason> {
    let Some((bytes, rest)) = body.split_at_checked(length) else {
        return Err(end(field, length, body.len()));
    };
    *body = rest;
    Ok(bytes)
}

#[inline]
pub(super) fn int(body: &mut &[u8], field: &'static str) -> Result<i32, RecordsReason> {
    match take_i32(body) {
        Some(value) => Ok(value),
        None => Err(varint(field, body, 5)),
    }
}

#[inline]
pub(super) fn length(value: i32, field: &'static str) -> Result<usize, RecordsReason> {
    match usize::try_from(value) {
        Ok(length) => Ok(length),
        Err(_) => Err(negative(field, value)),
    }
}

#[cold]
fn negative(field: &'static str, value: i32) -> RecordsReason {
    RecordsReason::Negative { field, value }
}

#[cold]
pub(super) fn end(field: &'static str, needed: usize, left: usize) -> RecordsReason {
    RecordsReason::UnexpectedEnd { field, needed, left }
}

#[cold]
fn varint(field: &'static str, body: &[u8], longest: usize) -> RecordsReason {
    if is_cut(body, longest) {
        end(field, body.len() + 1, body.len())
    } else {
        RecordsReason::Varint { field }
    }
}
