use std::mem;

use super::batch::HEADER_SIZE;

/// The records of a batch while it grows, behind room for the header.
///
/// Records are written into bytes that are there already: that takes one look at the room for a whole record, where
/// appending its parts takes one for each.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// What is written, then bytes to write to.
    bytes: Vec<u8>,
    len: usize,
}

/// The room for numbers that follow each other: two of five bytes and one of ten are the most.
const WINDOW: usize = 32;

impl Content {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER_SIZE], len: HEADER_SIZE }
    }

    /// Header and records.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Starts again, in the same memory.
    pub(super) fn clear(&mut self) {
        if self.bytes.len() < HEADER_SIZE {
            self.bytes.resize(HEADER_SIZE, 0);
        }
        self.len = HEADER_SIZE;
    }

    /// Exchanges header and records for the memory of an empty buffer, and starts again.
    pub(super) fn take_into(&mut self, out: &mut Vec<u8>) {
        self.bytes.truncate(self.len);
        mem::swap(out, &mut self.bytes);
        self.bytes.clear();
        self.clear();
    }

    #[inline]
    pub(super) fn append<'h>(
        &mut self,
        attributes: i8,
        timestamp_delta: i64,
        offset_delta: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Option<()> {
        let most = |bytes: Option<&[u8]>| 5 + bytes.map_or(0, <[u8]>::len);
        let headers_size: usize = headers.clone().map(|(key, value)| most(Some(key.as_bytes())) + most(value)).sum();
        let content = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers_size;
        let end = self.len + content + 2 * WINDOW;
        if end > self.bytes.len() {
            self.grow(end)?;
        }

        let room = &mut self.bytes[self.len..];
        let start = if content < 58 { 1 } else { 2 };
        let head = window(room, 0);
        head[start] = attributes as u8;
        let mut at = put(head, start + 1, zigzag(timestamp_delta));
        at = put(head, at, zigzag(offset_delta));
        at = put(head, at, key.map_or(1, |key| 2 * key.len() as u64));
        at = put_bytes(room, at, key.unwrap_or_default());
        at += put(window(room, at), 0, value.map_or(1, |value| 2 * value.len() as u64));
        at = put_bytes(room, at, value.unwrap_or_default());
        at += put(window(room, at), 0, 2 * headers.len() as u64);
        for (key, value) in headers {
            at += put(window(room, at), 0, 2 * key.len() as u64);
            at = put_bytes(room, at, key.as_bytes());
            at += put(window(room, at), 0, value.map_or(1, |value| 2 * value.len() as u64));
            at = put_bytes(room, at, value.unwrap_or_default());
        }
        let length = 2 * (at - start) as u64;
        match (start, length) {
            (1, ..0x80) => room[0] = length as u8,
            (2, 0x80..0x4000) => window(room, 0)[..2].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]),
            _ => at = shift(room, start, at),
        }
        self.len += at;
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) -> Option<()> {
        // In steps that stay in the cache until they are written to.
        const STEP: usize = 512;
        if end > i32::MAX as usize {
            return None;
        }
        self.bytes.resize(end + STEP, 0);
        Some(())
    }
}

#[inline(always)]
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline(always)]
fn window(room: &mut [u8], at: usize) -> &mut [u8; WINDOW] {
    room[at..].first_chunk_mut().unwrap()
}

#[inline(always)]
fn put(out: &mut [u8; WINDOW], at: usize, value: u64) -> usize {
    if value < 0x80 {
        out[at % WINDOW] = value as u8;
        at + 1
    } else if value < 0x4000 {
        out[at % WINDOW] = value as u8 | 0x80;
        out[(at + 1) % WINDOW] = (value >> 7) as u8;
        at + 2
    } else {
        put_long(out, at, value)
    }
}

#[inline(always)]
fn put_bytes(room: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    room[at..][..bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

#[cold]
#[inline(never)]
fn shift(bytes: &mut [u8], start: usize, end: usize) -> usize {
    let length = 2 * (end - start) as u64;
    let size = (70 - (length | 1).leading_zeros() as usize) / 7;
    bytes.copy_within(start..end, size);
    put(window(bytes, 0), 0, length);
    size + end - start
}

#[cold]
#[inline(never)]
fn put_long(bytes: &mut [u8; WINDOW], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at % WINDOW] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at % WINDOW] = value as u8;
    at + 1
}
