use std::mem;

use super::batch::HEADER_SIZE;
use super::varint::{self, MOST, put, zigzag};

/// The records of a batch while it grows, behind room for the header.
///
/// Records are written into bytes that are there already, with one look at whether there is room for a whole record.
/// To append part by part takes a look for each.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// What is written, and behind it bytes of no meaning.
    bytes: Vec<u8>,
    len: usize,
}

/// More bytes than the parts of a record of fixed number take (length, attributes, deltas, lengths of key and value,
/// number of headers), and the [`window`] of the last one.
const OVERHEAD: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5 + WINDOW;

/// Bytes in which numbers and short strings are written without looking at the room again.
const WINDOW: usize = 2 * MOST;

impl Content {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER_SIZE], len: HEADER_SIZE }
    }

    /// Header and records; the header is yet to be written.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The records.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[HEADER_SIZE..self.len]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Exchanges header and records for the memory of an empty buffer.
    pub(super) fn swap(&mut self, out: &mut Vec<u8>) {
        // The next batch will be about as large.
        out.reserve(self.bytes.len());
        out.resize(HEADER_SIZE, 0);
        mem::swap(out, &mut self.bytes);
        out.truncate(self.len);
        self.clear();
    }

    /// Drops the records, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.len = HEADER_SIZE;
    }

    /// Appends a record, if a batch can have as many bytes.
    // Always: a call with so many arguments takes about a quarter of the time of a record of 100 bytes.
    #[inline(always)]
    pub(super) fn append<'h>(
        &mut self,
        attributes: i8,
        timestamp_delta: i64,
        offset_delta: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Option<()> {
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers_size: usize = headers.clone().map(|(key, value)| 5 + key.len() + 5 + size(value)).sum();
        let size = size(key) + size(value) + headers_size;
        let end = self.len + size + OVERHEAD;
        if end > self.bytes.len() {
            self.grow(end)?;
        }

        let room = &mut self.bytes[self.len..];
        // The length comes last, into the bytes that it most likely needs: six is what the numbers take at least.
        let start = varint::len(2 * (size as u64 + 6));
        let head = window(room, start);
        head[0] = attributes as u8;
        let mut at = put(head, 1, zigzag(timestamp_delta));
        at = start + put(head, at, zigzag(offset_delta));
        at = put_bytes(room, at, key);
        at = put_bytes(room, at, value);
        at += put(window(room, at), 0, 2 * headers.len() as u64);
        for (key, value) in headers {
            at = put_bytes(room, at, Some(key.as_bytes()));
            at = put_bytes(room, at, value);
        }
        let length = 2 * (at - start) as u64;
        match (start, length) {
            (1, ..0x80) | (2, 0x80..0x4000) => {
                put(window(room, 0), 0, length);
            }
            _ => at = put_length(room, start, at),
        }
        self.len += at;
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) -> Option<()> {
        if end > i32::MAX as usize {
            return None;
        }
        // In steps that stay in the cache until they are written to.
        self.bytes.resize(end + 1024, 0);
        Some(())
    }
}

/// Puts a length of any size in front of a record, which moves if its length does not take as many bytes as expected.
/// Returns the end of the record.
#[cold]
#[inline(never)]
fn put_length(room: &mut [u8], start: usize, end: usize) -> usize {
    let length = 2 * (end - start) as u64;
    let size = varint::len(length);
    if size != start {
        room.copy_within(start..end, size);
    }
    put(window(room, 0), 0, length);
    size + end - start
}

/// Puts bytes with their length in front, -1 for null. Returns their end.
#[inline(always)]
fn put_bytes(room: &mut [u8], at: usize, bytes: Option<&[u8]>) -> usize {
    let Some(bytes) = bytes else {
        room[at] = 1;
        return at + 1;
    };
    let out = window(room, at);
    let size = 2 * bytes.len() as u64;
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        // Keys are mostly short: two parts that overlap.
        (Some(first), Some(last)) if bytes.len() <= 16 => {
            out[0] = size as u8;
            out[1..9].copy_from_slice(first);
            out[bytes.len() - 7..][..8].copy_from_slice(last);
            at + 1 + bytes.len()
        }
        _ => {
            let at = at + put(out, 0, size);
            room[at..][..bytes.len()].copy_from_slice(bytes);
            at + bytes.len()
        }
    }
}

/// The next bytes, so many that the room is looked at only once for all that is put there.
#[inline(always)]
fn window(room: &mut [u8], at: usize) -> &mut [u8; WINDOW] {
    room[at..].first_chunk_mut().expect("the room is enough for the largest record")
}
