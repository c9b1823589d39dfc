use super::{Struct, Value, is_default, is_droppable};
use crate::protocol::schema::{FieldSchema, FieldType};
use crate::protocol::walk::{Step, default_text, path};
use crate::protocol::{EncodeError, EncodeReason, MessageSchema, Versions, unsupported_encode};
use crate::wire::{Fixed, Writer};

/// Encodes a message.
///
/// # Errors
///
/// The version is not supported, or it cannot carry the value of a field, or a value is not of the type of its field.
pub fn encode(
    message: &Struct,
    schema: &'static MessageSchema,
    version: i16,
) -> Result<Vec<u8>, EncodeError> {
    if !schema.versions.contains(version) {
        return Err(unsupported_encode(schema, version));
    }
    let flexible = schema.flexible_versions.contains(version);
    let mut encode = Encode { schema, version, flexible, bytes: Vec::new(), steps: Vec::new() };
    let done = if std::ptr::eq(message.schema(), schema.root) {
        encode.structure(message)
    } else {
        Err(wrong_type(FieldType::Struct(schema.root)))
    };
    let done = match done {
        Ok(()) if encode.bytes.len() > i32::MAX as usize => {
            encode.steps.clear();
            Err(EncodeReason::MessageTooLong)
        }
        done => done,
    };
    match done {
        Ok(()) => Ok(encode.bytes),
        Err(reason) => Err(EncodeError::new(schema.name, version, path(&encode.steps), reason)),
    }
}

pub(crate) fn wrong_type(expected: FieldType) -> EncodeReason {
    EncodeReason::WrongType { expected: expected.to_string() }
}

/// After an error the steps lead to the value that it is about.
struct Encode {
    schema: &'static MessageSchema,
    version: i16,
    /// Whether lengths are compact, and structs have tag sections.
    flexible: bool,
    bytes: Vec<u8>,
    steps: Vec<Step>,
}

type Encoded = Result<(), EncodeReason>;

impl Encode {
    fn structure(&mut self, value: &Struct) -> Encoded {
        let version = self.version;
        for (field, value) in value.iter() {
            if !field.versions.contains(version) {
                self.absent(field, value)?;
            } else if !field.tagged_versions.contains(version) {
                self.steps.push(Step::Field(field));
                self.inline(field, value)?;
                self.steps.pop();
            }
        }
        if self.flexible {
            self.tags(value)
        } else if value.unknown_tagged_fields.is_empty() {
            Ok(())
        } else {
            self.steps.push(Step::Tags);
            Err(EncodeReason::TagsNotInVersion { flexible: self.schema.flexible_versions })
        }
    }

    /// A field that the version lacks.
    fn absent(&mut self, field: &'static FieldSchema, value: &Value) -> Encoded {
        if field.ignorable || is_droppable(field, value) {
            return Ok(());
        }
        self.steps.push(Step::Field(field));
        Err(EncodeReason::NotInVersion { versions: field.versions, default: default_text(field) })
    }

    fn inline(&mut self, field: &FieldSchema, value: &Value) -> Encoded {
        let nullable = field.nullable_versions;
        match (value, field.ty) {
            (Value::Null, _) if field.ty.fixed_size().is_some() => Err(wrong_type(field.ty)),
            (Value::Null, _) if !nullable.contains(self.version) => Err(EncodeReason::Null { nullable }),
            (Value::Null, FieldType::Struct(_)) => {
                self.bytes.push(0xff);
                Ok(())
            }
            (Value::Struct(_), FieldType::Struct(_)) if nullable.contains(self.version) => {
                self.bytes.push(1);
                self.value(value, field.ty)
            }
            _ => {
                let flexible = self.flexible;
                if let Some(versions) = field.flexible_versions {
                    self.flexible = versions.contains(self.version);
                }
                let done = self.value(value, field.ty);
                self.flexible = flexible;
                done
            }
        }
    }

    fn tags(&mut self, value: &Struct) -> Encoded {
        let mut entries: Vec<_> = value
            .iter()
            .filter(|(field, value)| {
                field.versions.contains(self.version)
                    && field.tagged_versions.contains(self.version)
                    && !is_default(field, value)
            })
            .collect();
        entries.sort_by_key(|(field, _)| field.tag);
        let unknown = &value.unknown_tagged_fields;
        if unknown.first().is_some_and(|tag| tag < value.schema().known_tags) {
            self.steps.push(Step::Tags);
            return Err(EncodeReason::KnownTag);
        }
        self.varint(entries.len() + unknown.len());
        for (field, value) in entries {
            self.steps.push(Step::Field(field));
            self.varint(field.tag.unwrap_or_default() as usize);
            let before = std::mem::take(&mut self.bytes);
            self.tagged(field, value)?;
            let bytes = std::mem::replace(&mut self.bytes, before);
            self.varint(bytes.len());
            self.bytes.extend_from_slice(&bytes);
            self.steps.pop();
        }
        self.bytes.extend_from_slice(unknown.encoded());
        Ok(())
    }

    /// The value of a tag.
    fn tagged(&mut self, field: &FieldSchema, value: &Value) -> Encoded {
        let nullable = field.nullable_versions;
        match (value, field.ty) {
            (Value::Null, _) if field.ty.fixed_size().is_some() => Err(wrong_type(field.ty)),
            (Value::Null, _) if !nullable.contains(self.version) => Err(EncodeReason::Null { nullable }),
            (Value::Null, FieldType::Struct(_)) => {
                self.bytes.push(0);
                Ok(())
            }
            (Value::Struct(_), FieldType::Struct(_)) if nullable.contains(self.version) => {
                self.bytes.push(1);
                self.value(value, field.ty)
            }
            _ => self.value(value, field.ty),
        }
    }

    /// A value in its form without a marker.
    fn value(&mut self, value: &Value, ty: FieldType) -> Encoded {
        if !value.fits(ty) {
            return Err(wrong_type(ty));
        }
        match (value, ty) {
            (Value::Null, _) => self.length(None, ty),
            (Value::Bool(it), _) => self.bytes.push((*it).into()),
            (Value::Int(it), _) => {
                let bytes = it.to_be_bytes();
                let size = ty.fixed_size().unwrap_or(8);
                self.bytes.extend_from_slice(&bytes[8 - size..]);
            }
            (Value::Float(it), _) => self.bytes.extend_from_slice(&it.to_be_bytes()),
            (Value::Uuid(it), _) => self.bytes.extend_from_slice(it.as_bytes()),
            (Value::String(it), _) => {
                if it.len() > 0x7fff {
                    return Err(EncodeReason::StringTooLong);
                }
                self.length(Some(it.len()), ty);
                self.bytes.extend_from_slice(it.as_bytes());
            }
            (Value::Bytes(it), _) => {
                self.length(Some(it.len()), ty);
                self.bytes.extend_from_slice(it);
            }
            (Value::Array(elements), FieldType::Array(element)) => {
                self.length(Some(elements.len()), ty);
                for (index, value) in elements.iter().enumerate() {
                    self.steps.push(Step::Element(index));
                    if value.is_null() {
                        return Err(EncodeReason::Null { nullable: Versions::NONE });
                    }
                    self.value(value, *element)?;
                    self.steps.pop();
                }
            }
            (Value::Struct(it), _) => self.structure(it)?,
            (Value::Array(_), _) => return Err(wrong_type(ty)),
        }
        Ok(())
    }

    /// The length before a string, bytes or an array. One that does not fit makes a message that is too long.
    fn length(&mut self, length: Option<usize>, ty: FieldType) {
        if self.flexible {
            self.varint(length.map_or(0, |length| length + 1));
        } else if let FieldType::String = ty {
            self.put(length.map_or(-1, |length| length as i16));
        } else {
            self.put(length.map_or(-1, |length| length as i32));
        }
    }

    fn put<F: Fixed>(&mut self, value: F) {
        Writer::new(&mut self.bytes, 0, false).fixed(value);
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}
