use std::ops::Range;
use std::{error, fmt};

use crate::records::{BatchMut, RecordsError};
use crate::share::locks::RecordBatchRange;
use crate::wire::{Bytes, BytesMut};

/// Why record batches cannot be appended to a log.
#[derive(Clone, Debug, PartialEq)]
pub enum AppendError {
    /// There is no such partition.
    UnknownPartition,
    /// They are not record batches of the current format.
    Records(RecordsError),
    /// Bytes behind the last whole record batch, or no record batch at all.
    Trailing,
    /// A header whose last offset is below its base offset, or beyond 64 bits.
    Offset,
}

impl error::Error for AppendError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Records(error) => Some(error),
            Self::UnknownPartition | Self::Trailing | Self::Offset => None,
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPartition => f.write_str("no such partition"),
            Self::Records(error) => error.fmt(f),
            Self::Trailing => f.write_str("not only whole record batches"),
            Self::Offset => f.write_str("the offsets of a record batch are wrong"),
        }
    }
}

impl From<RecordsError> for AppendError {
    fn from(error: RecordsError) -> Self {
        Self::Records(error)
    }
}

/// The records of a partition.
#[derive(Debug, Default)]
pub(super) struct Log {
    start_offset: i64,
    end_offset: i64,
    /// Ascending.
    ranges: Vec<RecordBatchRange>,
    bytes: Vec<Bytes>,
}

impl Log {
    pub(super) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset of the next record.
    pub(super) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    pub(super) fn append(&mut self, record_batches: &[u8]) -> Result<i64, AppendError> {
        let base = self.end_offset;
        let mut buffer = BytesMut::from(record_batches);
        let (mut next, mut ranges, mut sizes) = (base, Vec::new(), Vec::new());
        for mut batch in BatchMut::all(&mut buffer)? {
            batch.set_base_offset(next);
            let header = batch.header();
            ranges.push(RecordBatchRange { base_offset: next, last_offset: header.last_offset() });
            next = header.next_offset().ok_or(AppendError::Offset)?;
            // The length does not count itself and the base offset.
            sizes.push(header.length as usize + 12);
        }
        if sizes.is_empty() || sizes.iter().sum::<usize>() != record_batches.len() {
            return Err(AppendError::Trailing);
        }
        let mut bytes = buffer.freeze();
        self.bytes.extend(sizes.into_iter().map(|size| bytes.split_to(size)));
        self.ranges.extend(ranges);
        self.end_offset = next;
        Ok(base)
    }

    pub(super) fn skip(&mut self, offsets: i64) {
        self.end_offset += offsets.max(0);
    }

    /// Deletes what is below an offset, and gives where the log starts now.
    pub(super) fn delete(&mut self, before: i64) -> i64 {
        self.start_offset = self.start_offset.max(before.min(self.end_offset));
        let gone = self.ranges.partition_point(|range| range.last_offset < self.start_offset);
        self.ranges.drain(..gone);
        self.bytes.drain(..gone);
        self.start_offset
    }

    /// The record batches from the one that has an offset on, until their bytes reach a limit. There is one at least, if
    /// there are any.
    pub(super) fn read(&self, from: i64, max_bytes: usize) -> Range<usize> {
        let first = self.ranges.partition_point(|range| range.last_offset < from);
        let mut end = first;
        let mut size = 0;
        while let Some(bytes) = self.bytes.get(end) {
            size += bytes.len();
            if end > first && size > max_bytes {
                break;
            }
            end += 1;
        }
        first..end
    }

    pub(super) fn ranges(&self, batches: Range<usize>) -> &[RecordBatchRange] {
        &self.ranges[batches]
    }

    /// How many bytes some record batches have.
    pub(super) fn size(&self, batches: Range<usize>) -> usize {
        self.bytes[batches].iter().map(Bytes::len).sum()
    }

    /// The bytes of all record batches that have offsets in a range.
    pub(super) fn bytes(&self, first: i64, last: i64) -> Bytes {
        let from = self.ranges.partition_point(|range| range.last_offset < first);
        let to = self.ranges.partition_point(|range| range.base_offset <= last);
        match &self.bytes[from..to.max(from)] {
            [one] => one.clone(),
            several => several.concat().into(),
        }
    }
}
