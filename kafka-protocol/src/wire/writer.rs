use std::mem;

use super::{Bytes, BytesMut, Codec, Fault, Fixed, List, Str};

/// Where encoded bytes go: appended, never taken back but when an encode fails.
pub trait Sink: Sized {
    /// The number of bytes in the sink. Between [`start_element`](Self::start_element) and
    /// [`end_element`](Self::end_element) a sink may count from the element on.
    fn position(&self) -> usize;

    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Takes back everything behind `position`.
    fn truncate(&mut self, position: usize);

    /// Replaces the four bytes at `position`, which are there.
    fn patch(&mut self, position: usize, bytes: [u8; 4]);

    /// An element of an array begins. What this gives is for [`end_element`](Self::end_element), which is always called.
    #[inline(always)]
    fn start_element(&mut self) -> usize {
        0
    }

    /// The element is there, or a fault in it.
    #[inline(always)]
    fn end_element(&mut self, _before: usize) {}

    /// Appends the elements of an array of fixed-width values.
    #[inline(always)]
    fn put_all<F: Fixed>(&mut self, values: &[F]) {
        put_blocks(self, values);
    }
}

/// What a run is composed in before it is appended.
const BLOCK: usize = 64;

/// Copies of constant length become plain stores, so: blocks of 16 bytes, then a smaller power of two each.
#[inline(always)]
fn put_blocks<S: Sink, F: Fixed>(sink: &mut S, values: &[F]) {
    let mut blocks = values.chunks_exact(16 / F::SIZE);
    for block in &mut blocks {
        put_block::<16, S, F>(sink, block);
    }
    let mut rest = blocks.remainder();
    macro_rules! tail {
        ($($N:literal)*) => {$(
            if F::SIZE <= $N && let Some((block, after)) = rest.split_at_checked($N / F::SIZE) {
                put_block::<$N, S, F>(sink, block);
                rest = after;
            }
        )*};
    }
    tail!(8 4 2 1);
    let _ = rest;
}

#[inline(always)]
fn put_block<const N: usize, S: Sink, F: Fixed>(sink: &mut S, values: &[F]) {
    let mut bytes = [0; N];
    for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(F::SIZE)) {
        value.put(bytes);
    }
    sink.put(&bytes);
}

/// The fastest sink. `Bytes::from` takes the vector over without copying.
impl Sink for Vec<u8> {
    #[inline(always)]
    fn position(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn truncate(&mut self, position: usize) {
        self.truncate(position);
    }

    fn patch(&mut self, position: usize, bytes: [u8; 4]) {
        self[position..][..4].copy_from_slice(&bytes);
    }

    #[inline(always)]
    fn put_all<F: Fixed>(&mut self, values: &[F]) {
        if F::SIZE == 1 {
            self.extend(values.iter().map(|value| {
                let mut byte = [0];
                value.put(&mut byte);
                byte[0]
            }));
        } else {
            put_blocks(self, values);
        }
    }
}

impl Sink for BytesMut {
    #[inline(always)]
    fn position(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn truncate(&mut self, position: usize) {
        self.truncate(position);
    }

    fn patch(&mut self, position: usize, bytes: [u8; 4]) {
        self[position..][..4].copy_from_slice(&bytes);
    }
}

/// Counts what would be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count(usize);

impl Sink for Count {
    #[inline(always)]
    fn position(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn truncate(&mut self, position: usize) {
        self.0 = position;
    }

    fn patch(&mut self, _position: usize, _bytes: [u8; 4]) {}

    /// An element is counted from 0, so that its sum does not wait for those before it. That saves 40 % of the time.
    #[inline(always)]
    fn start_element(&mut self) -> usize {
        mem::take(&mut self.0)
    }

    #[inline(always)]
    fn end_element(&mut self, before: usize) {
        self.0 += before;
    }

    #[inline(always)]
    fn put_all<F: Fixed>(&mut self, values: &[F]) {
        self.0 += values.len() * F::SIZE;
    }
}

/// Writes one message in one version. Every method appends one value.
#[derive(Debug)]
pub struct Writer<'a, S> {
    sink: &'a mut S,
    version: i16,
    flexible: bool,
    /// How many values that leave no bytes behind have been checked and were right: tells which one a fault is
    /// about.
    checks: u32,
}

impl<'a, S: Sink> Writer<'a, S> {
    /// Appends to `sink`.
    #[inline(always)]
    pub fn new(sink: &'a mut S, version: i16, flexible: bool) -> Self {
        Self { sink, version, flexible, checks: 0 }
    }

    /// The version of the message.
    #[inline(always)]
    pub fn version(&self) -> i16 {
        self.version
    }

    /// A fixed-width value or a tuple of them.
    #[inline(always)]
    pub fn fixed<F: Fixed>(&mut self, run: F) {
        const { assert!(F::SIZE <= BLOCK) };
        let mut bytes = [0; BLOCK];
        run.put(&mut bytes);
        self.sink.put(&bytes[..F::SIZE]);
    }

    /// A value that the version cannot carry: it must be the default.
    ///
    /// # Errors
    ///
    /// [`Fault::NotInVersion`]
    #[inline(always)]
    pub fn absent(&mut self, is_default: bool) -> Result<(), Fault> {
        self.checks += u32::from(is_default);
        if is_default { Ok(()) } else { Err(Fault::NotInVersion) }
    }

    /// A value that the version does not allow to be null, and whose null would not be found by the bytes before
    /// it: a struct, which may have none, or a tagged field.
    ///
    /// # Errors
    ///
    /// [`Fault::Null`]
    #[inline(always)]
    pub fn present<'v, T>(&mut self, value: &'v Option<T>) -> Result<&'v T, Fault> {
        self.checks += u32::from(value.is_some());
        value.as_ref().ok_or(Fault::Null)
    }

    /// An unsigned varint of 32 bits.
    #[inline(always)]
    pub fn varint(&mut self, value: u32) {
        if value < 0x80 {
            self.sink.put(&[value as u8]);
        } else {
            let (bytes, n) = long_varint(value);
            self.sink.put(&bytes[..n]);
        }
    }

    /// A string that is not null.
    ///
    /// # Errors
    ///
    /// [`Fault::StringTooLong`]
    #[inline(always)]
    pub fn string(&mut self, s: &Str) -> Result<(), Fault> {
        self.string_length(Some(s.len()))?;
        self.sink.put(s.as_bytes());
        Ok(())
    }

    /// A string or null.
    ///
    /// # Errors
    ///
    /// [`Fault::StringTooLong`]
    #[inline(always)]
    pub fn nullable_string(&mut self, s: &Option<Str>) -> Result<(), Fault> {
        match s {
            Some(s) => self.string(s),
            None => self.string_length(None),
        }
    }

    /// Bytes or records that are not null.
    ///
    /// # Errors
    ///
    /// None; a `Result` like that of its siblings.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &Bytes) -> Result<(), Fault> {
        self.length(Some(bytes.len()));
        self.sink.put(bytes);
        Ok(())
    }

    /// Bytes or records, or null.
    ///
    /// # Errors
    ///
    /// None; a `Result` like that of its siblings.
    #[inline(always)]
    pub fn nullable_bytes(&mut self, bytes: &Option<Bytes>) -> Result<(), Fault> {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => {
                self.length(None);
                Ok(())
            }
        }
    }

    /// An array that is not null.
    ///
    /// # Errors
    ///
    /// Those of its elements.
    #[inline(always)]
    pub fn array<L: List>(&mut self, list: &L) -> Result<(), Fault> {
        let elements = list.elements();
        self.length(Some(elements.len()));
        L::write(elements, self)
    }

    /// An array or null.
    ///
    /// # Errors
    ///
    /// Those of its elements.
    #[inline(always)]
    pub fn nullable_array<L: List>(&mut self, list: &Option<L>) -> Result<(), Fault> {
        match list {
            Some(list) => self.array(list),
            None => {
                self.length(None);
                Ok(())
            }
        }
    }

    /// A marker byte, 1, then the struct; -1 for null.
    ///
    /// # Errors
    ///
    /// Those of the struct.
    #[inline]
    pub fn nullable_struct<T: Codec>(&mut self, value: &Option<T>) -> Result<(), Fault> {
        match value {
            Some(value) => {
                self.fixed(1i8);
                value.write(self)
            }
            None => {
                self.fixed(-1i8);
                Ok(())
            }
        }
    }

    /// Writes a field whose form (compact or legacy lengths) is not that of its message.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    #[inline(always)]
    pub fn flexible_when(
        &mut self,
        flexible: bool,
        write: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let form = mem::replace(&mut self.flexible, flexible);
        let done = write(self);
        self.flexible = form;
        done
    }

    /// Goes on behind `checks` checks, in a tag section.
    pub(super) fn again(sink: &'a mut S, version: i16, checks: u32) -> Self {
        Self { sink, version, flexible: true, checks }
    }

    #[inline(always)]
    pub(super) fn flexible(&self) -> bool {
        self.flexible
    }

    #[inline(always)]
    pub(super) fn sink(&mut self) -> &mut S {
        self.sink
    }

    pub(crate) fn checks(&self) -> u32 {
        self.checks
    }

    pub(super) fn set_checks(&mut self, checks: u32) {
        self.checks = checks;
    }

    /// The length before an array or bytes; none is null. Whoever encodes a whole message refuses one of more than
    /// 2147483647 bytes, so that a length need not be looked at here.
    #[inline(always)]
    fn length(&mut self, n: Option<usize>) {
        if self.flexible {
            self.compact_length(n);
        } else {
            self.fixed(n.map_or(-1, |n| n as i32));
        }
    }

    #[inline(always)]
    fn string_length(&mut self, n: Option<usize>) -> Result<(), Fault> {
        if n.is_some_and(|n| n > 0x7fff) {
            return Err(Fault::StringTooLong);
        }
        if self.flexible {
            self.compact_length(n);
        } else {
            self.fixed(n.map_or(-1, |n| n as i16));
        }
        Ok(())
    }

    /// One more than the length as a varint; 0 is null. The length is compared as it is: that saves a sixth of
    /// `encoded_len`, as what follows uses the length too.
    #[inline(always)]
    fn compact_length(&mut self, n: Option<usize>) {
        match n {
            None => self.sink.put(&[0]),
            Some(n) if n < 0x7f => self.sink.put(&[n as u8 + 1]),
            Some(n) => {
                let (bytes, size) = long_varint((n as u32).wrapping_add(1));
                self.sink.put(&bytes[..size]);
            }
        }
    }
}

// Not a method: a writer that nobody holds a reference to stays in registers.
#[cold]
#[inline(never)]
pub(super) fn long_varint(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut n = 0;
    while value >= 0x80 {
        bytes[n] = value as u8 | 0x80;
        value >>= 7;
        n += 1;
    }
    bytes[n] = value as u8;
    (bytes, n + 1)
}
