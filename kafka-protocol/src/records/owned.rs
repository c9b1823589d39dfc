use std::fmt;

use bytes::Bytes;

use super::span::Span;
use super::{Headers, Record};

/// A record that lives on its own: it shares the content that it was read from, and keeps it alive.
///
/// [`as_record`](Self::as_record) is the record as [`Records::iter`](super::Records::iter) gives it, with its headers
/// and all else.
#[derive(Clone)]
pub struct OwnedRecord {
    offset: i64,
    timestamp: i64,
    create_timestamp: i64,
    sequence: i32,
    attributes: i8,
    key: Option<Span>,
    value: Option<Span>,
    headers: Span,
    headers_count: u32,
    /// The records of the whole batch: one reference count for a record is half the cost of two.
    content: Bytes,
}

impl OwnedRecord {
    /// Its offset in the partition.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Its timestamp in milliseconds since 1970, as a consumer sees it; -1 if there is none.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.map(|span| span.of(&self.content))
    }

    /// The value; `None` deletes the key in a compacted topic.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.value.map(|span| span.of(&self.content))
    }

    /// The key as `Bytes` of the same memory.
    #[inline]
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.key().map(|key| self.content.slice_ref(key))
    }

    /// The value as `Bytes` of the same memory.
    #[inline]
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.value().map(|value| self.content.slice_ref(value))
    }

    /// The headers, in their order; a key may be there more than once.
    #[inline]
    pub fn headers(&self) -> Headers<'_> {
        Headers::checked(self.headers_count as usize, self.headers.of(&self.content))
    }

    /// The record, borrowed.
    #[inline]
    pub fn as_record(&self) -> Record<'_> {
        Record {
            offset: self.offset,
            timestamp: self.timestamp,
            create_timestamp: self.create_timestamp,
            sequence: self.sequence,
            attributes: self.attributes,
            key: self.key(),
            value: self.value(),
            headers: self.headers(),
        }
    }

    /// The record that was read from `bytes`, which `content` has as well, perhaps as a copy.
    #[inline]
    pub(super) fn of(record: &Record<'_>, bytes: &[u8], content: &Bytes) -> Self {
        let span = |part| Span::within(bytes, part);
        let headers = record.headers;
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            create_timestamp: record.create_timestamp,
            sequence: record.sequence,
            attributes: record.attributes,
            key: record.key.map(span),
            value: record.value.map(span),
            headers: if headers.is_empty() { Span::default() } else { span(headers.as_bytes()) },
            headers_count: headers.len() as u32,
            content: content.clone(),
        }
    }
}

impl PartialEq for OwnedRecord {
    fn eq(&self, other: &Self) -> bool {
        self.as_record() == other.as_record()
    }
}

impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_record().fmt(f)
    }
}
