//! Finds the field that a codec stumbled over, by walking the bytes along the schema.
//!
//! Only the cold path gets here, so the codecs need not know where they are.

use std::fmt::Write;

use super::error::{DecodeReason, EncodeReason};
use super::schema::{DefaultValue, FieldSchema, FieldType, MessageSchema, StructSchema};
use super::{DecodeError, EncodeError, Versions};
use crate::wire::Fault;

/// Explains why `bytes` are not the message, given that a codec stopped at `offset` with `fault`.
pub(super) fn explain_decode(
    schema: &'static MessageSchema,
    bytes: &[u8],
    version: i16,
    offset: usize,
    fault: Fault,
) -> DecodeError {
    let memory_at = (fault == Fault::Memory).then_some(offset);
    let mut walk = Walk::new(schema, bytes, version, Mode::Decode { memory_at });
    let reason = match walk.structure(schema.root) {
        Err(Stop::Decode(reason)) => reason,
        Ok(()) if walk.at < bytes.len() => DecodeReason::TrailingBytes { left: bytes.len() - walk.at },
        _ => {
            debug_assert!(false, "{} v{version}: {fault:?} at byte {offset} is not explained", schema.name);
            walk.at = offset;
            DecodeReason::UnexpectedEnd { needed: 1, left: 0 }
        }
    };
    DecodeError::new(schema.name, version, walk.path(), walk.at, reason)
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
    let mut walk = Walk::new(schema, bytes, version, Mode::Encode { checks: 0, fail_at });
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
    EncodeError::new(schema.name, version, walk.path(), reason)
}

/// The default of a field as a person would write it.
fn default_text(field: &FieldSchema) -> String {
    match (field.default, field.ty) {
        (DefaultValue::Null, _) => "null".to_owned(),
        (DefaultValue::True, _) => "true".to_owned(),
        (DefaultValue::Int(number), _) => number.to_string(),
        (DefaultValue::Float(number), _) => number.to_string(),
        (DefaultValue::String(text), _) => format!("{text:?}"),
        (DefaultValue::Uuid(id), _) => uuid::Uuid::from_u128(id).to_string(),
        (DefaultValue::Zero, FieldType::Bool) => "false".to_owned(),
        (DefaultValue::Zero, FieldType::String) => "\"\"".to_owned(),
        (DefaultValue::Zero, FieldType::Uuid) => uuid::Uuid::nil().to_string(),
        (DefaultValue::Zero, FieldType::Bytes | FieldType::Records) => "(no bytes)".to_owned(),
        (DefaultValue::Zero, FieldType::Array(_)) => "[]".to_owned(),
        (DefaultValue::Zero, FieldType::Struct(_)) => "(all fields at theirs)".to_owned(),
        (DefaultValue::Zero, _) => "0".to_owned(),
    }
}

/// A walk over bytes along a schema. It ends early with the field in `steps`.
struct Walk<'a> {
    bytes: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    version: i16,
    flexible: bool,
    steps: Vec<Step>,
    mode: Mode,
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

#[derive(Clone, Copy)]
enum Step {
    Field(&'static FieldSchema),
    Element(usize),
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

impl<'a> Walk<'a> {
    fn new(schema: &MessageSchema, bytes: &'a [u8], version: i16, mode: Mode) -> Self {
        let flexible = schema.flexible_versions.contains(version);
        Self { bytes, at: 0, version, flexible, steps: Vec::new(), mode }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Step::Field(field) if path.is_empty() => path.push_str(field.rust_name),
                // Writing to a string cannot fail.
                Step::Field(field) => drop(write!(path, ".{}", field.rust_name)),
                Step::Element(index) => drop(write!(path, "[{index}]")),
            }
        }
        path
    }

    fn structure(&mut self, schema: &'static StructSchema) -> Walked<()> {
        let version = self.version;
        for field in schema.fields {
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
        if self.flexible { self.tags(schema) } else { self.check(Place::Tags) }
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
        if let Some(size) = ty.fixed_size() {
            return self.take(size).map(drop);
        }
        match ty {
            FieldType::Struct(schema) if nullable => {
                let marker = self.take(1)?[0];
                match marker {
                    1 => self.structure(schema),
                    _ if marker == null => Ok(()),
                    _ => {
                        self.at -= 1;
                        self.stop(DecodeReason::InvalidMarker { marker })
                    }
                }
            }
            FieldType::Struct(schema) => self.structure(schema),
            FieldType::Array(element) => self.array(*element, nullable),
            FieldType::String => {
                let start = self.at;
                let Some(length) = self.length(2, nullable)? else { return Ok(()) };
                if length > 0x7fff {
                    self.at = start;
                    return self.stop(DecodeReason::StringTooLong { length });
                }
                let start = self.at;
                let text = self.take(length)?;
                if let Err(error) = str::from_utf8(text) {
                    self.at = start;
                    return self.stop(DecodeReason::InvalidUtf8 { valid_up_to: error.valid_up_to() });
                }
                Ok(())
            }
            _ => match self.length(4, nullable)? {
                Some(length) => self.take(length).map(drop),
                None => Ok(()),
            },
        }
    }

    fn array(&mut self, element: FieldType, nullable: bool) -> Walked<()> {
        let start = self.at;
        let Some(count) = self.length(4, nullable)? else { return Ok(()) };
        let (min_size, left) = (element.min_size(), self.left());
        if let Mode::Decode { memory_at } = self.mode {
            if count.saturating_mul(min_size) > left {
                self.at = start;
                return self.stop(DecodeReason::CountExceedsInput { count, min_size, left });
            }
            if memory_at == Some(self.at) {
                self.at = start;
                return self.stop(DecodeReason::TooMuchMemory);
            }
        }
        for index in 0..count {
            self.steps.push(Step::Element(index));
            self.value(element, false, 0xff)?;
            self.steps.pop();
        }
        Ok(())
    }

    fn tags(&mut self, schema: &'static StructSchema) -> Walked<()> {
        let start = self.at;
        let count = self.varint()?;
        let known = schema.known_tags();
        let mut before = None;
        let mut unknown = false;
        for _ in 0..count {
            let entry = self.at;
            if let Mode::Decode { memory_at: Some(offset) } = self.mode
                && offset == entry
            {
                self.at = start;
                return self.stop(DecodeReason::TooMuchMemory);
            }
            let tag = self.varint()?;
            if let Some(after) = before
                && tag <= after
            {
                self.at = entry;
                return self.stop(DecodeReason::TagOrder { tag, after });
            }
            before = Some(tag);
            unknown |= tag >= known;
            let field = schema.fields.iter().find(|field| field.tag == Some(tag));
            match field {
                Some(field) => self.tagged_field(field, tag, entry)?,
                None if unknown => {
                    let size = self.varint()? as usize;
                    self.take(size)?;
                }
                None => {
                    self.at = entry;
                    return self.stop(DecodeReason::TagNotInVersion { tag, versions: Versions::NONE });
                }
            }
        }
        Ok(())
    }

    fn tagged_field(&mut self, field: &'static FieldSchema, tag: u32, entry: usize) -> Walked<()> {
        self.steps.push(Step::Field(field));
        let size = self.varint()? as usize;
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
