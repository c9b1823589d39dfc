use super::{Struct, Value};
use crate::protocol::schema::{DefaultValue, FieldType, StructSchema};
use crate::protocol::walk::{Event, Span, Visitor, walk};
use crate::protocol::{DecodeError, DecodeReason, MessageSchema};
use crate::wire::{Bytes, Fixed, Str, TaggedFields, Uuid};

/// Memory for values, as a multiple of the input, so that with strings and unknown tags a decoded value stays below
/// 16 times its bytes.
const MEMORY_FACTOR: usize = 14;

/// What is free besides. Values of a few bytes take more than their share, a field of one byte 40 times that, and a
/// message of usual size may well consist of them.
const MEMORY_BASE: usize = 256 * 1024;

/// Decodes a whole message. Fields of bytes and records become slices of `bytes`, nothing of them is copied.
///
/// As strict as the generated code, and with the same errors. The value takes at most 16 times the memory of `bytes`
/// and 256 KiB; see [`decode_within`] for another limit.
///
/// # Errors
///
/// The bytes are not exactly one message of this version, or the version is not supported.
pub fn decode(schema: &'static MessageSchema, bytes: &Bytes, version: i16) -> Result<Struct, DecodeError> {
    decode_within(schema, bytes, version, limit(bytes))
}

/// [`decode`] with a limit to the memory for values: those of all fields that the schema has, 40 bytes each, with
/// what arrays and structs add. Text of strings is not counted, which takes little more than its bytes.
///
/// # Errors
///
/// Those of [`decode`].
pub fn decode_within(
    schema: &'static MessageSchema,
    bytes: &Bytes,
    version: i16,
    memory: usize,
) -> Result<Struct, DecodeError> {
    let (value, read) = read(schema, bytes, version, memory)?;
    if read < bytes.len() {
        let reason = DecodeReason::TrailingBytes { left: bytes.len() - read };
        return Err(DecodeError::new(schema.name, version, String::new(), read, reason));
    }
    Ok(value)
}

/// Decodes a message from the start of `bytes` and leaves there what comes behind it.
///
/// # Errors
///
/// Those of [`decode`], trailing bytes aside; `bytes` is then left as it was.
pub fn decode_prefix(
    schema: &'static MessageSchema,
    bytes: &mut Bytes,
    version: i16,
) -> Result<Struct, DecodeError> {
    let (value, read) = read(schema, bytes, version, limit(bytes))?;
    let _ = bytes.split_to(read);
    Ok(value)
}

fn limit(bytes: &Bytes) -> usize {
    bytes.len().saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_BASE)
}

fn read(
    schema: &'static MessageSchema,
    bytes: &Bytes,
    version: i16,
    memory: usize,
) -> Result<(Struct, usize), DecodeError> {
    let mut build = Build { bytes, memory, open: Vec::new(), done: Value::Null };
    let read = walk(schema, bytes, version, &mut build)?;
    let value = match build.done {
        Value::Struct(value) => value,
        // A walk that succeeds ends its first struct.
        _ => Struct::new(schema.root),
    };
    Ok((value, read))
}

/// Puts values together.
struct Build<'a> {
    bytes: &'a Bytes,
    /// How much may still be taken.
    memory: usize,
    /// The structs and arrays around the next value, from the outside in.
    open: Vec<Open>,
    done: Value,
}

enum Open {
    /// And the field that the next value is of.
    Struct(Struct, usize),
    Array(Vec<Value>),
}

impl Visitor<'_> for Build<'_> {
    fn visit(&mut self, _: Span<'_>, event: Event<'_>) -> Result<(), DecodeReason> {
        match event {
            Event::Field(index) => {
                if let Some(Open::Struct(_, next)) = self.open.last_mut() {
                    *next = index;
                }
            }
            Event::BeginStruct(schema) => {
                self.claim(memory(schema))?;
                self.open.push(Open::Struct(Struct::new(schema), 0));
            }
            Event::Count(Some(count)) => {
                self.claim(count.saturating_mul(size_of::<Value>()))?;
                self.open.push(Open::Array(Vec::with_capacity(count)));
            }
            Event::EndStruct | Event::EndArray => {
                let value = match self.open.pop() {
                    Some(Open::Struct(value, _)) => Value::Struct(value),
                    Some(Open::Array(elements)) => Value::Array(elements),
                    None => Value::Null,
                };
                self.put(value);
            }
            Event::Marker(false) | Event::Length(None) | Event::Count(None) => self.put(Value::Null),
            Event::Fixed(ty, bytes) => self.put(fixed(ty, bytes)),
            Event::Text(text) => self.put(Value::String(Str::new(text))),
            Event::Data(_, bytes) => {
                let bytes = self.bytes.slice_ref(bytes);
                self.put(Value::Bytes(bytes));
            }
            Event::UnknownTags(count, last, bytes) => {
                self.claim(TaggedFields::BOX_SIZE)?;
                let bytes = self.bytes.slice_ref(bytes);
                if let Some(Open::Struct(value, _)) = self.open.last_mut() {
                    value.unknown_tagged_fields.set(count, last, bytes);
                }
            }
            Event::Marker(true)
            | Event::Length(Some(_))
            | Event::TagCount(_)
            | Event::Tag(_)
            | Event::TagSize(_)
            | Event::UnknownTag(_) => {}
        }
        Ok(())
    }
}

impl Build<'_> {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Struct(it, next)) => it.fields[*next] = value,
            Some(Open::Array(elements)) => elements.push(value),
            None => self.done = value,
        }
    }

    fn claim(&mut self, bytes: usize) -> Result<(), DecodeReason> {
        self.memory = self.memory.checked_sub(bytes).ok_or(DecodeReason::TooMuchMemory)?;
        Ok(())
    }
}

/// What the values of a fresh struct take.
fn memory(schema: &'static StructSchema) -> usize {
    let inner = schema.fields.iter().map(|field| match (field.ty, field.default) {
        (FieldType::Struct(schema), DefaultValue::Zero) => memory(schema),
        _ => 0,
    });
    schema.fields.len() * size_of::<Value>() + inner.sum::<usize>()
}

/// A value of constant width, from as many bytes as that.
pub(crate) fn fixed(ty: FieldType, bytes: &[u8]) -> Value {
    match ty {
        FieldType::Bool => bool::get(bytes).into(),
        FieldType::Int8 => i8::get(bytes).into(),
        FieldType::Int16 => i16::get(bytes).into(),
        FieldType::Uint16 => u16::get(bytes).into(),
        FieldType::Int32 => i32::get(bytes).into(),
        FieldType::Uint32 => u32::get(bytes).into(),
        FieldType::Int64 => i64::get(bytes).into(),
        FieldType::Float64 => f64::get(bytes).into(),
        FieldType::Uuid => Uuid::get(bytes).into(),
        FieldType::String
        | FieldType::Bytes
        | FieldType::Records
        | FieldType::Struct(_)
        | FieldType::Array(_) => Value::Null,
    }
}
