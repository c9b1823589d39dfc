use bytes::Bytes;
use compact_str::CompactString;

use super::Record;

/// A record that lives on its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedRecord {
    /// Its offset in the partition.
    pub offset: i64,
    /// Its timestamp in milliseconds since 1970, as a consumer sees it; -1 if there is none.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` deletes the key in a compacted topic.
    pub value: Option<Bytes>,
    /// The headers, in their order; a key may be there more than once.
    pub headers: Vec<OwnedHeader>,
}

/// A header of a record that lives on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedHeader {
    /// The key.
    pub key: CompactString,
    /// The value.
    pub value: Option<Bytes>,
}

impl OwnedRecord {
    /// The same record as slices of the content that it was read from.
    #[inline]
    pub(super) fn of(record: &Record<'_>, content: &Bytes) -> Self {
        let share = |bytes: Option<&[u8]>| bytes.map(|bytes| content.slice_ref(bytes));
        let headers = record.headers.iter();
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            key: share(record.key),
            value: share(record.value),
            headers: headers
                .map(|header| OwnedHeader { key: header.key.into(), value: share(header.value) })
                .collect(),
        }
    }
}
