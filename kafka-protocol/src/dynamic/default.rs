use super::{Struct, Value};
use crate::protocol::schema::{DefaultValue, FieldSchema, FieldType};
use crate::wire::{Bytes, Str, Uuid};

/// The value that a field has where it is not there.
pub fn default_value(field: &FieldSchema) -> Value {
    match (field.default, field.ty) {
        (DefaultValue::Null, _) => Value::Null,
        (DefaultValue::True, _) => Value::Bool(true),
        (DefaultValue::Int(number), _) => Value::Int(number),
        (DefaultValue::Float(number, _), _) => Value::Float(number),
        (DefaultValue::String(text), _) => Value::String(Str::const_new(text)),
        (DefaultValue::Uuid(id), _) => Value::Uuid(Uuid::from_u128(id)),
        (DefaultValue::Zero, ty) => match ty {
            FieldType::Bool => Value::Bool(false),
            FieldType::Float64 => Value::Float(0.0),
            FieldType::Uuid => Value::Uuid(Uuid::nil()),
            FieldType::String => Value::String(Str::const_new("")),
            FieldType::Bytes | FieldType::Records => Value::Bytes(Bytes::new()),
            FieldType::Struct(schema) => Value::Struct(Struct::new(schema)),
            FieldType::Array(_) => Value::Array(Vec::new()),
            _ => Value::Int(0),
        },
    }
}

/// Whether a field has its default: a version that lacks the field may drop it, a tag section leaves it out.
pub(crate) fn is_default(field: &FieldSchema, value: &Value) -> bool {
    match (field.default, value) {
        (DefaultValue::Null, _) => value.is_null(),
        (DefaultValue::True, Value::Bool(it)) => *it,
        (DefaultValue::Int(number), Value::Int(it)) => *it == number,
        // By value: -0.0 is 0.0, and if NaN is the default then nothing is it.
        (DefaultValue::Float(number, _), Value::Float(it)) => *it == number,
        (DefaultValue::String(text), Value::String(it)) => it == text,
        (DefaultValue::Uuid(id), Value::Uuid(it)) => it.as_u128() == id,
        (DefaultValue::Zero, _) => match value {
            Value::Null => false,
            Value::Bool(it) => !it,
            Value::Int(it) => *it == 0,
            Value::Float(it) => *it == 0.0,
            Value::Uuid(it) => it.is_nil(),
            Value::String(it) => it.is_empty(),
            Value::Bytes(it) => it.is_empty(),
            Value::Array(it) => it.is_empty(),
            Value::Struct(it) => it.is_default(),
        },
        _ => false,
    }
}
