//! The walk over the bytes of a message along its schema, as strict as the generated codecs are.
//!
//! Three of them are made of it, by what they do with what it comes by: the search for the field that a codec
//! stumbled over, which keeps nothing and is the cold path of every message, so that codecs need not know where they
//! are; the values of [`dynamic`](crate::dynamic); and the lines of [`inspect`](crate::inspect).

use std::fmt::Write;

use super::error::{DecodeReason, EncodeReason};
use super::schema::{DefaultValue, FieldSchema, FieldType, MessageSchema, StructSchema};
use super::{DecodeError, EncodeError, Versions};
use crate::wire::Fault;

/// Walks over the message at the start of `bytes`. Gives the number of its bytes.
#[cfg(feature = "dynamic")]
pub(crate) fn walk<'a, V: Visitor<'a>>(
    schema: &'static MessageSchema,
    bytes: &'a [u8],
    version: i16,
    visitor: &mut V,
) -> Result<usize, DecodeError> {
    if !schema.versions.contains(version) {
        return Err(super::unsupported_decode(schema, version));
    }
    let mut walk = Walk::new(schema, bytes, version, Mode::Decode { memory_at: None }, visitor);
    match walk.structure(schema.root) {
        Ok(()) => Ok(walk.at),
        Err(stop) => {
            let reason = match stop {
                Stop::Decode(reason) => reason,
                // Not in this mode.
                Stop::Encode(_) => DecodeReason::UnexpectedEnd { needed: 1, left: 0 },
            };
            Err(DecodeError::new(schema.name, version, path(&walk.steps), walk.at, reason))
        }
    }
}

/// What a walk does with the things that it comes by.
pub(crate) trait Visitor<'a> {
    /// Called in the order of the input; the spans follow each other without a gap.
    fn visit(&mut self, span: Span<'_>, event: Event<'a>) -> Result<(), DecodeReason>;
}

/// Keeps nothing.
impl Visitor<'_> for () {
    #[inline]
    fn visit(&mut self, _: Span<'_>, _: Event<'_>) -> Result<(), DecodeReason> {
        Ok(())
    }
}

/// Where an event stands.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "inspect"), expect(dead_code, reason = "only a dump needs all of it"))]
pub(crate) struct Span<'s> {
    /// The field or element.
    pub(crate) steps: &'s [Step],
    /// The offset of its first byte.
    pub(crate) start: usize,
    /// The offset behind its last byte.
    pub(crate) end: usize,
}

/// Something that a walk comes by.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "inspect"), expect(dead_code, reason = "only a dump needs all of it"))]
pub(crate) enum Event<'a> {
    /// The value of this field of the struct comes next.
    Field(usize),
    /// The fields of a struct begin.
    BeginStruct(&'static StructSchema),
    /// They are complete.
    EndStruct,
    /// The marker of a nullable struct: whether it is there. Null if not.
    Marker(bool),
    /// A value of constant width.
    Fixed(FieldType, &'a [u8]),
    /// The length of a string, of bytes or of records; none is null.
    Length(Option<usize>),
    /// The string behind a length.
    Text(&'a str),
    /// The bytes or records behind a length; the type tells which.
    Data(FieldType, &'a [u8]),
    /// The number of elements of an array; none is null.
    Count(Option<usize>),
    /// All elements have come.
    EndArray,
    /// The number of fields in a tag section.
    TagCount(u32),
    /// The tag of one of them.
    Tag(u32),
    /// The size of its value.
    TagSize(usize),
    /// The value of an unknown tag.
    UnknownTag(&'a [u8]),
    /// All unknown tags of a struct: how many, the last one, and how they stand in the input. Takes no bytes.
    UnknownTags(u32, u32, &'a [u8]),
}

/// A path as a person would write it, in Rust's names.
pub(crate) fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        let name = match step {
            Step::Field(field) => field.rust_name,
            Step::Tags => "unknown_tagged_fields",
            Step::Element(index) => {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{index}]");
                continue;
            }
        };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
    path
}

/// Explains why `bytes` are not the message, given that a codec stopped at `offset` with `fault`.
pub(super) fn explain_decode(
    schema: &'static MessageSchema,
    bytes: &[u8],
    version: i16,
    offset: usize,
    fault: Fault,
) -> DecodeError {
    let memory_at = (fault == Fault::Memory).then_some(offset);
    let mut nobody = ();
    let mut walk = Walk::new(schema, bytes, version, Mode::Decode { memory_at }, &mut nobody);
    let reason = match walk.structure(schema.root) {
        Err(Stop::Decode(reason)) => reason,
        Ok(()) if walk.at < bytes.len() => DecodeReason::TrailingBytes { left: bytes.len() - walk.at },
        _ => {
            debug_assert!(false, "{} v{version}: {fault:?} at byte {offset} is not explained", schema.name);
            walk.at = offset;
            DecodeReason::UnexpectedEnd { needed: 1, left: 0 }
        }
    };
    DecodeError::new(schema.name, version, path(&walk.steps), walk.at, reason)
}

/// Explains why a value is not encoded, given that a codec wrote `bytes` and, on the way, found `checks` values to be
/// right that leave no bytes, before it stopped with `fault`.
pub(super) fn explain_encode(
    schema: &'static MessageSchema,
    bytes: &[u8],
    version: i16,
    checks: u32,
    fault: Fault,
) -> EncodeError {
    let fail_at = matches!(fault, Fault::NotInVersion | Fault::Null).then_some(checks + 1);
    let mut nobody = ();
    let mut walk = Walk::new(schema, bytes, version, Mode::Encode { checks: 0, fail_at }, &mut nobody);
    let place = match walk.structure(schema.root) {
        Err(Stop::Encode(place)) => place,
        _ => {
            debug_assert!(false, "{} v{version}: {fault:?} is not explained", schema.name);
            Place::Tags
        }
    };
    let reason = match (fault, place) {
        (Fault::NotInVersion, Place::Field(field)) => {
            EncodeReason::NotInVersion { versions: field.versions, default: default_text(field) }
        }
        (Fault::NotInVersion, Place::Tags) => {
            EncodeReason::TagsNotInVersion { flexible: schema.flexible_versions }
        }
        (Fault::Null, Place::Field(field)) => EncodeReason::Null { nullable: field.nullable_versions },
        (Fault::Null, Place::Tags) => EncodeReason::Null { nullable: Versions::NONE },
        (Fault::StringTooLong, _) => EncodeReason::StringTooLong,
        (Fault::TagOrder, _) => EncodeReason::KnownTag,
        _ => EncodeReason::MessageTooLong,
    };
    EncodeError::new(schema.name, version, path(&walk.steps), reason)
}

/// The default of a field as a person would write it.
pub(crate) fn default_text(field: &FieldSchema) -> String {
    match (field.default, field.ty) {
        (DefaultValue::Null, _) => "null".to_owned(),
        (DefaultValue::True, _) => "true".to_owned(),
        (DefaultValue::Int(number), _) => number.to_string(),
        (DefaultValue::Float(_, text), _) => text.to_owned(),
        (DefaultValue::String(text), _) => format!("{text:?}"),
        (DefaultValue::Uuid(id), _) => uuid::Uuid::from_u128(id).to_string(),
        (DefaultValue::Zero, FieldType::Bool) => "false".to_owned(),
        (DefaultValue::Zero, FieldType::String) => "\"\"".to_owned(),
        (DefaultValue::Zero, FieldType::Uuid) => "nil".to_owned(),
        (DefaultValue::Zero, FieldType::Bytes | FieldType::Records) => "b\"\"".to_owned(),
        (DefaultValue::Zero, FieldType::Array(_)) => "[]".to_owned(),
        (DefaultValue::Zero, FieldType::Struct(_)) => "{}".to_owned(),
        (DefaultValue::Zero, FieldType::Float64) => "0.0".to_owned(),
        (DefaultValue::Zero, _) => "0".to_owned(),
    }
}

/// A walk over bytes along a schema. It ends early with the field in `steps`.
struct Walk<'a, 'v, V> {
    bytes: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    version: i16,
    flexible: bool,
    steps: Vec<Step>,
    mode: Mode,
    visitor: &'v mut V,
}

#[derive(Clone, Copy)]
enum Mode {
    /// The bytes are somebody's: each value is checked.
    Decode {
        /// The array or tag section that asked for too much memory.
        memory_at: Option<usize>,
    },
    /// The bytes are the beginning of what we wrote, and end before the value that is looked for, unless that
    /// leaves no bytes.
    Encode {
        /// Values so far that are checked and leave no bytes.
        checks: u32,
        /// The one of them that is looked for. The bytes may end before it, if a null is found by them.
        fail_at: Option<u32>,
    },
}

/// A step down to a value.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// To a field of a struct.
    Field(&'static FieldSchema),
    /// To an element of an array.
    Element(usize),
    /// To the tag section of a struct, as far as it is not the value of a field.
    Tags,
}

enum Stop {
    Decode(DecodeReason),
    Encode(Place),
}

#[derive(Clone, Copy)]
enum Place {
    /// The last field of the path.
    Field(&'static FieldSchema),
    /// The tag section of the struct at the path.
    Tags,
}

type Walked<T> = Result<T, Stop>;

impl<'a, 'v, V: Visitor<'a>> Walk<'a, 'v, V> {
    fn new(schema: &MessageSchema, bytes: &'a [u8], version: i16, mode: Mode, visitor: &'v mut V) -> Self {
        let flexible = schema.flexible_versions.contains(version);
        Self { bytes, at: 0, version, flexible, steps: Vec::new(), mode, visitor }
    }

    /// Tells the visitor of what stands from `start` on. If it refuses, the walk ends there.
    fn visit(&mut self, start: usize, event: Event<'a>) -> Walked<()> {
        let span = Span { steps: &self.steps, start, end: self.at };
        match self.visitor.visit(span, event) {
            Ok(()) => Ok(()),
            Err(reason) => {
                self.at = start;
                self.stop(reason)
            }
        }
    }

    fn structure(&mut self, schema: &'static StructSchema) -> Walked<()> {
        let version = self.version;
        self.visit(self.at, Event::BeginStruct(schema))?;
        for (index, field) in schema.fields.iter().enumerate() {
            if !field.versions.contains(version) {
                // Of fields that are only ever tagged, `write` asks below.
                if field.versions != field.tagged_versions {
                    self.absent(field)?;
                }
            } else if !field.tagged_versions.contains(version) {
                if let FieldType::Struct(_) = field.ty {
                    self.present(field)?;
                }
                self.steps.push(Step::Field(field));
                self.visit(self.at, Event::Field(index))?;
                self.field(field)?;
                self.steps.pop();
            }
        }
        for field in schema.fields {
            if field.versions == field.tagged_versions && !field.versions.contains(version) {
                self.absent(field)?;
            }
        }
        for field in schema.fields {
            if field.tagged_versions.contains(version) {
                self.present(field)?;
            }
        }
        let depth = self.steps.len();
        let tags = if self.flexible { self.tags(schema) } else { self.check(Place::Tags) };
        if tags.is_err() && self.steps.len() == depth {
            self.steps.push(Step::Tags);
        }
        tags?;
        self.visit(self.at, Event::EndStruct)
    }

    fn absent(&mut self, field: &'static FieldSchema) -> Walked<()> {
        if field.ignorable { Ok(()) } else { self.check_field(field) }
    }

    /// A field that can be null, but not in this version.
    fn present(&mut self, field: &'static FieldSchema) -> Walked<()> {
        let nullable = field.nullable_versions;
        if nullable.is_empty() || nullable.contains(self.version) { Ok(()) } else { self.check_field(field) }
    }

    fn check_field(&mut self, field: &'static FieldSchema) -> Walked<()> {
        self.steps.push(Step::Field(field));
        self.check(Place::Field(field))?;
        self.steps.pop();
        Ok(())
    }

    /// A value that leaves no bytes.
    fn check(&mut self, place: Place) -> Walked<()> {
        if let Mode::Encode { checks, fail_at } = &mut self.mode {
            *checks += 1;
            if Some(*checks) == *fail_at {
                return Err(Stop::Encode(place));
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &'static FieldSchema) -> Walked<()> {
        let nullable = field.nullable_versions.contains(self.version);
        let flexible = self.flexible;
        if let Some(versions) = field.flexible_versions {
            self.flexible = versions.contains(self.version);
        }
        self.value(field.ty, nullable, 0xff)?;
        self.flexible = flexible;
        Ok(())
    }

    /// A value; `null` is the marker of a struct that is null.
    fn value(&mut self, ty: FieldType, nullable: bool, null: u8) -> Walked<()> {
        let start = self.at;
        if let Some(size) = ty.fixed_size() {
            let bytes = self.take(size)?;
            return self.visit(start, Event::Fixed(ty, bytes));
        }
        match ty {
            FieldType::Struct(schema) if nullable => {
                let marker = self.take(1)?[0];
                if marker != 1 && marker != null {
                    self.at = start;
                    return self.stop(DecodeReason::InvalidMarker { marker });
                }
                self.visit(start, Event::Marker(marker == 1))?;
                if marker == 1 { self.structure(schema) } else { Ok(()) }
            }
            FieldType::Struct(schema) => self.structure(schema),
            FieldType::Array(element) => self.array(*element, nullable),
            FieldType::String => {
                let length = self.length(2, nullable)?;
                if let Some(length @ 0x8000..) = length {
                    self.at = start;
                    return self.stop(DecodeReason::StringTooLong { length });
                }
                self.visit(start, Event::Length(length))?;
                let Some(length) = length else { return Ok(()) };
                let start = self.at;
                match str::from_utf8(self.take(length)?) {
                    Ok(text) => self.visit(start, Event::Text(text)),
                    Err(error) => {
                        self.at = start;
                        self.stop(DecodeReason::InvalidUtf8 { valid_up_to: error.valid_up_to() })
                    }
                }
            }
            _ => {
                let length = self.length(4, nullable)?;
                self.visit(start, Event::Length(length))?;
                let Some(length) = length else { return Ok(()) };
                let start = self.at;
                let bytes = self.take(length)?;
                self.visit(start, Event::Data(ty, bytes))
            }
        }
    }

    fn array(&mut self, element: FieldType, nullable: bool) -> Walked<()> {
        let start = self.at;
        let length = self.length(4, nullable)?;
        if let (Some(count), Mode::Decode { memory_at }) = (length, self.mode) {
            let (min_size, left) = (element.min_size(), self.left());
            if count.saturating_mul(min_size) > left {
                self.at = start;
                return self.stop(DecodeReason::CountExceedsInput { count, min_size, left });
            }
            if memory_at == Some(self.at) {
                self.at = start;
                return self.stop(DecodeReason::TooMuchMemory);
            }
        }
        self.visit(start, Event::Count(length))?;
        let Some(count) = length else { return Ok(()) };
        for index in 0..count {
            self.steps.push(Step::Element(index));
            self.value(element, false, 0xff)?;
            self.steps.pop();
        }
        self.visit(self.at, Event::EndArray)
    }

    fn tags(&mut self, schema: &'static StructSchema) -> Walked<()> {
        let start = self.at;
        let count = self.varint()?;
        self.visit(start, Event::TagCount(count))?;
        let known = schema.known_tags;
        let mut before = None;
        // Of the unknown ones: how many, and where the first stands.
        let mut unknown = None;
        for left in (1..=count).rev() {
            let entry = self.at;
            if let Mode::Decode { memory_at: Some(offset) } = self.mode
                && offset == entry
            {
                self.at = start;
                return self.stop(DecodeReason::TooMuchMemory);
            }
            let tag = self.varint()?;
            let index = schema.fields.iter().position(|field| field.tag == Some(tag));
            if let Some(after) = before
                && tag <= after
            {
                self.at = entry;
                self.steps.extend(index.map(|index| Step::Field(&schema.fields[index])));
                return self.stop(DecodeReason::TagOrder { tag, after });
            }
            self.visit(entry, Event::Tag(tag))?;
            before = Some(tag);
            match index {
                Some(index) => self.tagged_field(schema, index, tag, entry)?,
                None if tag >= known => {
                    unknown.get_or_insert((left, entry));
                    let start = self.at;
                    let size = self.varint()? as usize;
                    self.visit(start, Event::TagSize(size))?;
                    let start = self.at;
                    let value = self.take(size)?;
                    self.visit(start, Event::UnknownTag(value))?;
                }
                None => {
                    self.at = entry;
                    return self.stop(DecodeReason::TagNotInVersion { tag, versions: Versions::NONE });
                }
            }
        }
        // Tags ascend and known ones are the lowest, so the unknown ones are one piece at the end.
        if let (Some((count, start)), Some(last)) = (unknown, before) {
            let bytes = &self.bytes[start..self.at];
            self.visit(self.at, Event::UnknownTags(count, last, bytes))?;
        }
        Ok(())
    }

    fn tagged_field(
        &mut self,
        schema: &'static StructSchema,
        index: usize,
        tag: u32,
        entry: usize,
    ) -> Walked<()> {
        let field = &schema.fields[index];
        self.steps.push(Step::Field(field));
        let start = self.at;
        let size = self.varint()? as usize;
        self.visit(start, Event::TagSize(size))?;
        self.visit(self.at, Event::Field(index))?;
        let nullable = field.nullable_versions.contains(self.version);
        if let Mode::Encode { .. } = self.mode {
            self.value(field.ty, nullable, 0)?;
        } else {
            let start = self.at;
            self.take(size)?;
            if !field.tagged_versions.contains(self.version) {
                self.at = entry;
                return self.stop(DecodeReason::TagNotInVersion { tag, versions: field.tagged_versions });
            }
            let bytes = self.bytes;
            self.bytes = &bytes[..start + size];
            self.at = start;
            self.value(field.ty, nullable, 0)?;
            if self.at < start + size {
                return self.stop(DecodeReason::TagSize { size, used: self.at - start });
            }
            self.bytes = bytes;
        }
        self.steps.pop();
        Ok(())
    }

    /// The length of a string, of bytes or of an array, of `width` bytes in legacy form.
    fn length(&mut self, width: usize, nullable: bool) -> Walked<Option<usize>> {
        let start = self.at;
        let length = if self.flexible {
            i64::from(self.varint()?) - 1
        } else if width == 2 {
            self.take(2)?.try_into().map(i16::from_be_bytes).unwrap_or_default().into()
        } else {
            self.take(4)?.try_into().map(i32::from_be_bytes).unwrap_or_default().into()
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 && nullable => Ok(None),
            Err(_) => {
                self.at = start;
                self.stop(match i32::try_from(length) {
                    Ok(-1) | Err(_) => DecodeReason::Null,
                    Ok(length) => DecodeReason::NegativeLength { length },
                })
            }
        }
    }

    fn varint(&mut self) -> Walked<u32> {
        let start = self.at;
        let mut value = 0;
        for i in 0..5 {
            if self.left() == 0 {
                self.at = start;
                return self.end(i + 1, i);
            }
            let byte = self.bytes[self.at];
            self.at += 1;
            value |= u32::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                let reason = match byte {
                    _ if i == 4 && byte > 0x0f => DecodeReason::VarintOutOfRange,
                    0 if i > 0 => DecodeReason::VarintPadded,
                    _ => return Ok(value),
                };
                self.at = start;
                return self.stop(reason);
            }
        }
        self.at = start;
        self.stop(DecodeReason::VarintTooLong)
    }

    fn take(&mut self, n: usize) -> Walked<&'a [u8]> {
        match self.bytes[self.at..].get(..n) {
            Some(bytes) => {
                self.at += n;
                Ok(bytes)
            }
            None => self.end(n, self.left()),
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes end where a value should be.
    fn end<T>(&self, needed: usize, left: usize) -> Walked<T> {
        self.stop(DecodeReason::UnexpectedEnd { needed, left })
    }

    /// Stops at the value that the path names.
    fn stop<T>(&self, reason: DecodeReason) -> Walked<T> {
        Err(match (self.mode, self.steps.last()) {
            (Mode::Decode { .. }, _) => Stop::Decode(reason),
            // What we write is well formed, so it can only have ended.
            (Mode::Encode { .. }, Some(Step::Field(field))) => Stop::Encode(Place::Field(field)),
            (Mode::Encode { .. }, _) => Stop::Encode(Place::Tags),
        })
    }
}
