use std::fmt;

use super::writer::long_varint;
use super::{Bytes, Codec, Count, Fault, Sink, Writer};

/// The tagged fields of a struct that its schema does not know, kept for encoding them again.
///
/// Tags ascend. One pointer wide when there are none. Fields that are decoded from a [`Bytes`] share its memory.
///
/// ```
/// use kafka_protocol::wire::TaggedFields;
///
/// let mut fields = TaggedFields::default();
/// fields.push(42, b"\xde\xad")?;
/// assert_eq!(fields.get(42).as_deref(), Some(&b"\xde\xad"[..]));
/// assert!(fields.push(7, b"").is_err());
/// # Ok::<(), kafka_protocol::wire::Fault>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TaggedFields(Option<Box<Encoded>>);

/// Fields as they stand on the wire: tag, size and value of each.
#[derive(Clone, PartialEq, Eq)]
struct Encoded {
    count: u32,
    last: u32,
    fields: Bytes,
}

impl TaggedFields {
    /// What a struct with unknown tagged fields takes on top.
    pub(crate) const BOX_SIZE: usize = size_of::<Encoded>();

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |encoded| encoded.count as usize)
    }

    /// Tags and values, in ascending order of the tags.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Bytes)> + '_ {
        let mut rest = self.0.as_ref().map(|encoded| encoded.fields.clone()).unwrap_or_default();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let tag = split_varint(&mut rest);
            let size = split_varint(&mut rest);
            Some((tag, rest.split_to(size as usize)))
        })
    }

    /// The value of a tag.
    pub fn get(&self, tag: u32) -> Option<Bytes> {
        self.iter().find(|field| field.0 == tag).map(|field| field.1)
    }

    /// All of them as they stand on the wire.
    #[cfg(feature = "dynamic")]
    pub(crate) fn encoded(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |encoded| &encoded.fields)
    }

    /// The lowest tag.
    pub(crate) fn first(&self) -> Option<u32> {
        self.0.as_ref()?;
        self.iter().next().map(|field| field.0)
    }

    /// Adds a field behind the others.
    ///
    /// # Errors
    ///
    /// [`Fault::TagOrder`] unless `tag` is above all that are there.
    pub fn push(&mut self, tag: u32, value: impl AsRef<[u8]>) -> Result<(), Fault> {
        let (count, mut fields) = match self.0.take() {
            Some(encoded) if encoded.last >= tag => {
                self.0 = Some(encoded);
                return Err(Fault::TagOrder);
            }
            Some(encoded) => (encoded.count, Vec::from(encoded.fields)),
            None => (0, Vec::new()),
        };
        let value = value.as_ref();
        let mut w = Writer::new(&mut fields, 0, true);
        w.varint(tag);
        w.varint(value.len() as u32);
        fields.extend_from_slice(value);
        self.set(count + 1, tag, fields.into());
        Ok(())
    }

    /// Removes them all.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.0.is_some() {
            self.remove();
        }
    }

    #[cold]
    #[inline(never)]
    fn remove(&mut self) {
        self.0 = None;
    }

    /// Takes over `count` fields as they stand on the wire, of which `last` is the highest tag.
    pub(crate) fn set(&mut self, count: u32, last: u32, fields: Bytes) {
        self.0 = Some(Box::new(Encoded { count, last, fields }));
    }
}

impl fmt::Debug for TaggedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A varint of fields that were encoded by us, or checked.
fn split_varint(bytes: &mut Bytes) -> u32 {
    let mut r = super::Reader::new(bytes, 0, true);
    let value = r.varint().unwrap_or_default();
    let read = bytes.len() - r.rest().len();
    let _ = bytes.split_to(read);
    value
}

/// Writes the known tagged fields of a struct. The list of fields runs twice: to count, then to write.
#[derive(Debug)]
pub struct Tags<'t, 'w, S> {
    w: &'t mut Writer<'w, S>,
    /// Counts, as long as it is there.
    count: Option<u32>,
}

impl<S: Sink> Tags<'_, '_, S> {
    /// The version of the message.
    #[inline(always)]
    pub fn version(&self) -> i16 {
        self.w.version()
    }

    /// A field; it is left out if it `is_default`.
    ///
    /// # Errors
    ///
    /// Those of the value.
    #[inline]
    pub fn field<T: Codec>(&mut self, tag: u32, is_default: bool, value: &T) -> Result<(), Fault> {
        self.entry(tag, is_default, &Plain(value))
    }

    /// A field that is null or a struct, with a marker before the struct.
    ///
    /// # Errors
    ///
    /// Those of the struct.
    #[inline]
    pub fn nullable_struct<T: Codec>(
        &mut self,
        tag: u32,
        is_default: bool,
        value: &Option<T>,
    ) -> Result<(), Fault> {
        self.entry(tag, is_default, &Marked(value))
    }

    #[inline]
    fn entry<V: TagValue>(&mut self, tag: u32, is_default: bool, value: &V) -> Result<(), Fault> {
        if is_default {
            return Ok(());
        }
        match &mut self.count {
            Some(count) => {
                *count += 1;
                Ok(())
            }
            None => self.w.tagged(tag, value),
        }
    }
}

/// What can stand behind a tag.
trait TagValue {
    fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault>;
}

struct Plain<'a, T>(&'a T);

impl<T: Codec> TagValue for Plain<'_, T> {
    fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault> {
        self.0.write(w)
    }
}

/// Inside a tag section the marker of a nullable struct is 0 or 1.
struct Marked<'a, T>(&'a Option<T>);

impl<T: Codec> TagValue for Marked<'_, T> {
    fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault> {
        w.fixed(self.0.is_some());
        self.0.as_ref().map_or(Ok(()), |value| value.write(w))
    }
}

impl<'w, S: Sink> Writer<'w, S> {
    /// The tag section of a struct that knows no tags.
    ///
    /// # Errors
    ///
    /// [`Fault::NotInVersion`] if there are tags and the version is not flexible.
    #[inline(always)]
    pub fn tagged_fields(&mut self, unknown: &TaggedFields) -> Result<(), Fault> {
        if !self.flexible() {
            return self.absent(unknown.is_empty());
        }
        match &unknown.0 {
            None => self.sink().put(&[0]),
            Some(encoded) => {
                // The cold function for any number, as this is the rare case: what comes next stays in line.
                let (count, size) = long_varint(encoded.count);
                self.sink().put(&count[..size]);
                self.sink().put(&encoded.fields);
            }
        }
        Ok(())
    }

    /// The tag section of a struct that knows the tags below `known`: the fields that `list` names, then the
    /// unknown ones.
    ///
    /// # Errors
    ///
    /// Those of [`tagged_fields`](Self::tagged_fields), [`Fault::TagOrder`] if an unknown tag is one of the known,
    /// and those of the fields.
    #[inline(always)]
    pub fn tags(
        &mut self,
        known: u32,
        unknown: &TaggedFields,
        mut list: impl FnMut(&mut Tags<'_, 'w, S>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !self.flexible() {
            return self.absent(unknown.is_empty());
        }
        let mut tags = Tags { w: self, count: Some(0) };
        list(&mut tags)?;
        let count = tags.count.take().unwrap_or_default();
        if count == 0 && unknown.is_empty() {
            self.sink().put(&[0]);
            return Ok(());
        }
        if unknown.first().is_some_and(|tag| tag < known) {
            return Err(Fault::TagOrder);
        }
        self.varint(count + unknown.len() as u32);
        if count > 0 {
            list(&mut Tags { w: self, count: None })?;
        }
        if let Some(encoded) = &unknown.0 {
            self.sink().put(&encoded.fields);
        }
        Ok(())
    }

    fn tagged<V: TagValue>(&mut self, tag: u32, value: &V) -> Result<(), Fault> {
        let (version, checks) = (self.version(), self.checks());
        let (checks, done) = write_tagged(Writer::again(self.sink(), version, checks), tag, value);
        self.set_checks(checks);
        done
    }
}

// Not a method: a writer that nobody holds a reference to stays in registers.
#[cold]
#[inline(never)]
fn write_tagged<S: Sink, V: TagValue>(mut w: Writer<'_, S>, tag: u32, value: &V) -> (u32, Result<(), Fault>) {
    let mut size = Count::default();
    // A fault shows again below, where it leaves behind what was written before it.
    let _ = value.write(&mut Writer::new(&mut size, w.version(), true));
    w.varint(tag);
    w.varint(size.position() as u32);
    let done = value.write(&mut w);
    (w.checks(), done)
}
