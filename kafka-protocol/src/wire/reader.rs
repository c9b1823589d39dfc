use super::{Bytes, Codec, Fault, Fixed, List, Str, TaggedFields};

/// A cursor over the bytes of one message in one version.
///
/// Every method reads one value and moves behind it, or returns a [`Fault`].
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The buffer that `rest` is part of, if byte fields may share it.
    frame: Option<&'a Bytes>,
    version: i16,
    flexible: bool,
    /// How much memory arrays may still take.
    budget: usize,
}

/// Memory for arrays, as a multiple of the input, so that with strings, copied bytes and unknown tags a decoded
/// value stays below 16 times its bytes.
const BUDGET_FACTOR: usize = 14;

/// What every message may take, as most of the fields of a small one may be empty: 300 ids of groups are 1.5 KB on the
/// wire and 26 KB in memory.
const BUDGET_BASE: usize = 64 * 1024;

impl<'a> Reader<'a> {
    /// Byte fields become copies.
    #[inline]
    pub fn new(bytes: &'a [u8], version: i16, flexible: bool) -> Self {
        let budget = bytes.len().saturating_mul(BUDGET_FACTOR).saturating_add(BUDGET_BASE);
        Self { rest: bytes, frame: None, version, flexible, budget }
    }

    /// Byte fields become slices of `frame`, which stays alive as long as they do.
    #[inline]
    pub fn sharing(frame: &'a Bytes, version: i16, flexible: bool) -> Self {
        Self { frame: Some(frame), ..Self::new(frame, version, flexible) }
    }

    /// Lets arrays take `memory` bytes, instead of 14 times the input and 64 KiB.
    #[inline]
    pub fn within(self, memory: usize) -> Self {
        Self { budget: memory, ..self }
    }

    /// The version of the message.
    #[inline(always)]
    pub fn version(&self) -> i16 {
        self.version
    }

    /// What has not been read yet.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// A fixed-width value or a tuple of them.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`]
    #[inline(always)]
    pub fn fixed<F: Fixed>(&mut self) -> Result<F, Fault> {
        Ok(F::get(self.take(F::SIZE)?))
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`]
    #[inline(always)]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(Fault::Short),
        }
    }

    /// An unsigned varint of 32 bits in its shortest form.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::Varint`]
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u32, Fault> {
        match *self.rest {
            [byte @ ..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => {
                let (value, rest) = long_varint(self.rest)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    /// A string that is never null. A long one keeps its buffer.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::Null`], [`Fault::NegativeLength`], [`Fault::StringTooLong`], [`Fault::Utf8`],
    /// [`Fault::Varint`]
    #[inline(always)]
    pub fn string(&mut self, to: &mut Str) -> Result<(), Fault> {
        let n = self.string_length()?.ok_or(Fault::Null)?;
        set(to, self.utf8(n)?);
        Ok(())
    }

    /// A string or null.
    ///
    /// # Errors
    ///
    /// Those of [`string`](Self::string) but null.
    #[inline(always)]
    pub fn nullable_string(&mut self, to: &mut Option<Str>) -> Result<(), Fault> {
        match self.string_length()? {
            Some(n) => {
                let s = self.utf8(n)?;
                set(to.get_or_insert_default(), s);
            }
            None => *to = None,
        }
        Ok(())
    }

    /// Bytes or records that are never null.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::Null`], [`Fault::NegativeLength`], [`Fault::Varint`]
    #[inline(always)]
    pub fn bytes(&mut self, to: &mut Bytes) -> Result<(), Fault> {
        let n = self.length()?.ok_or(Fault::Null)?;
        let slice = self.take(n)?;
        *to = self.share(slice);
        Ok(())
    }

    /// Bytes or records, or null.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Self::bytes) but null.
    #[inline(always)]
    pub fn nullable_bytes(&mut self, to: &mut Option<Bytes>) -> Result<(), Fault> {
        *to = match self.length()? {
            Some(n) => {
                let slice = self.take(n)?;
                Some(self.share(slice))
            }
            None => None,
        };
        Ok(())
    }

    /// An array that is never null. Elements that are already there are read over and keep their buffers.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::Null`], [`Fault::NegativeLength`], [`Fault::Count`], [`Fault::Memory`],
    /// [`Fault::Varint`] and those of the elements.
    #[inline(always)]
    pub fn array<L: List>(&mut self, list: &mut L) -> Result<(), Fault> {
        let n = self.length()?.ok_or(Fault::Null)?;
        self.expect::<L>(n)?;
        list.read(n, self)
    }

    /// An array or null.
    ///
    /// # Errors
    ///
    /// Those of [`array`](Self::array) but null.
    #[inline(always)]
    pub fn nullable_array<L: List + Default>(&mut self, list: &mut Option<L>) -> Result<(), Fault> {
        match self.length()? {
            Some(n) => {
                self.expect::<L>(n)?;
                list.get_or_insert_default().read(n, self)
            }
            None => {
                *list = None;
                Ok(())
            }
        }
    }

    /// A struct behind a marker byte, which is 1, or -1 for null.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::Marker`] and those of the struct.
    #[inline]
    pub fn nullable_struct<T: Codec + Default>(&mut self, to: &mut Option<T>) -> Result<(), Fault> {
        self.marked_struct(0xff, to)
    }

    /// A struct as the value of a tagged field, where the marker is 1, or 0 for null.
    ///
    /// # Errors
    ///
    /// Those of [`nullable_struct`](Self::nullable_struct).
    #[inline]
    pub fn tagged_struct<T: Codec + Default>(&mut self, to: &mut Option<T>) -> Result<(), Fault> {
        self.marked_struct(0, to)
    }

    #[inline]
    fn marked_struct<T: Codec + Default>(&mut self, null: u8, to: &mut Option<T>) -> Result<(), Fault> {
        match *self.rest {
            [1, ref rest @ ..] => {
                self.rest = rest;
                to.get_or_insert_default().read(self)
            }
            [byte, ref rest @ ..] if byte == null => {
                self.rest = rest;
                *to = None;
                Ok(())
            }
            [_, ..] => Err(Fault::Marker),
            [] => Err(Fault::Short),
        }
    }

    /// Reads a field whose form (compact or legacy lengths) is not that of its message.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    #[inline(always)]
    pub fn flexible_when(
        &mut self,
        flexible: bool,
        read: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let form = std::mem::replace(&mut self.flexible, flexible);
        let done = read(self);
        self.flexible = form;
        done
    }

    /// The tag section of a struct that knows no tags; nothing in a version that is not flexible.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`], [`Fault::TagOrder`], [`Fault::Memory`], [`Fault::Varint`]
    #[inline(always)]
    pub fn tagged_fields(&mut self, unknown: &mut TaggedFields) -> Result<(), Fault> {
        self.tags(0, unknown, |_, _| Err(Fault::TagNotInVersion)).map(drop)
    }

    /// The tag section of a struct that knows the tags below `known`; `read` is called for each of them that is
    /// there. Tells which ones these are, as the other fields get their defaults: not before, or else they would lose
    /// the buffers that are to be used again.
    ///
    /// # Errors
    ///
    /// Those of [`tagged_fields`](Self::tagged_fields), [`Fault::TagSize`] and those of `read`.
    #[inline(always)]
    pub fn tags(
        &mut self,
        known: u32,
        unknown: &mut TaggedFields,
        read: impl FnMut(u32, &mut Self) -> Result<(), Fault>,
    ) -> Result<Seen, Fault> {
        unknown.clear();
        if !self.flexible {
            return Ok(Seen::default());
        }
        match *self.rest {
            [0, ref rest @ ..] => {
                self.rest = rest;
                Ok(Seen::default())
            }
            _ => {
                let (after, done) = some_tags(*self, known, unknown, read);
                self.rest = after.rest;
                self.budget = after.budget;
                done
            }
        }
    }

    /// Takes memory off the budget of the message.
    #[inline]
    pub(super) fn claim(&mut self, bytes: usize) -> Result<(), Fault> {
        self.budget = self.budget.checked_sub(bytes).ok_or(Fault::Memory)?;
        Ok(())
    }

    /// Refuses a count of elements that cannot be there.
    #[inline(always)]
    fn expect<L: List>(&self, n: usize) -> Result<(), Fault> {
        if n.saturating_mul(L::MIN_ELEMENT) > self.rest.len() { Err(Fault::Count) } else { Ok(()) }
    }

    /// The length before an array or bytes; none is null.
    #[inline(always)]
    fn length(&mut self) -> Result<Option<usize>, Fault> {
        if self.flexible {
            Ok((self.varint()? as usize).checked_sub(1))
        } else {
            nullable(self.fixed::<i32>()?.into())
        }
    }

    #[inline(always)]
    fn string_length(&mut self) -> Result<Option<usize>, Fault> {
        if self.flexible {
            Ok((self.varint()? as usize).checked_sub(1))
        } else {
            nullable(self.fixed::<i16>()?.into())
        }
    }

    #[inline(always)]
    fn utf8(&mut self, n: usize) -> Result<&'a str, Fault> {
        if n > 0x7fff {
            return Err(Fault::StringTooLong);
        }
        let (s, rest) = self.rest.split_at_checked(n).ok_or(Fault::Short)?;
        let s = str::from_utf8(s).map_err(|_| Fault::Utf8)?;
        self.rest = rest;
        Ok(s)
    }

    #[inline]
    fn share(&self, slice: &[u8]) -> Bytes {
        match self.frame {
            _ if slice.is_empty() => Bytes::new(),
            Some(frame) => frame.slice_ref(slice),
            None => Bytes::copy_from_slice(slice),
        }
    }
}

/// The known tags that a section has, of those below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// Whether the section has `tag`, which is below 64.
    #[inline(always)]
    pub fn has(self, tag: u32) -> bool {
        self.0 >> tag & 1 == 1
    }
}

#[inline(always)]
fn nullable(length: i64) -> Result<Option<usize>, Fault> {
    match usize::try_from(length) {
        Ok(length) => Ok(Some(length)),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(Fault::NegativeLength),
    }
}

/// Keeps the buffer of a long string.
#[inline(always)]
fn set(to: &mut Str, s: &str) {
    if to.is_heap_allocated() {
        to.clear();
        to.push_str(s);
    } else {
        *to = Str::new(s);
    }
}

// Cold functions are free and take what they need by value: a cursor that nobody holds a reference to stays in
// registers, which is worth more than twofold.

#[cold]
#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            if byte == 0 || (i == 4 && byte > 0x0f) {
                return Err(Fault::Varint); // longer than it has to be, or beyond 32 bits
            }
            return Ok((value, &bytes[i + 1..]));
        }
    }
    Err(if bytes.len() < 5 { Fault::Short } else { Fault::Varint })
}

#[cold]
#[inline(never)]
fn some_tags<'a>(
    mut r: Reader<'a>,
    known: u32,
    unknown: &mut TaggedFields,
    mut read: impl FnMut(u32, &mut Reader<'a>) -> Result<(), Fault>,
) -> (Reader<'a>, Result<Seen, Fault>) {
    let done = (|| {
        let mut seen = Seen::default();
        let mut left = r.varint()?;
        let mut next = 0;
        while left > 0 {
            let entry = (r.rest, next);
            let tag = ascending(&mut r, &mut next)?;
            if tag >= known {
                (r.rest, next) = entry;
                break;
            }
            let size = r.varint()? as usize;
            let value = r.take(size)?;
            let mut inner = Reader { rest: value, ..r };
            let done = read(tag, &mut inner);
            r.budget = inner.budget;
            if done.is_err() || !inner.rest.is_empty() {
                r.rest = inner.rest;
                return Err(done.err().unwrap_or(Fault::TagSize));
            }
            seen.0 |= 1u64.checked_shl(tag).unwrap_or(0);
            left -= 1;
        }
        if left == 0 {
            return Ok(seen);
        }
        // Tags ascend and known ones are the lowest, so the unknown ones are one piece at the end.
        r.claim(TaggedFields::BOX_SIZE)?;
        let start = r.rest;
        let mut last = 0;
        for _ in 0..left {
            last = ascending(&mut r, &mut next)?;
            let size = r.varint()? as usize;
            r.take(size)?;
        }
        unknown.set(left, last, r.share(&start[..start.len() - r.rest.len()]));
        Ok(seen)
    })();
    (r, done)
}

/// A tag that is not below `next`.
fn ascending(r: &mut Reader<'_>, next: &mut u64) -> Result<u32, Fault> {
    let tag = r.varint()?;
    if u64::from(tag) < *next {
        return Err(Fault::TagOrder);
    }
    *next = u64::from(tag) + 1;
    Ok(tag)
}
