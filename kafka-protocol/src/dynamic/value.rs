use std::fmt;

use super::Struct;
use crate::protocol::schema::FieldType;
use crate::wire::{Bytes, Str, Uuid};

/// The value of a field or of an element of an array.
///
/// Equality is that of Kafka: NaN equals nothing, -0.0 equals 0.0.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Null, of a string, bytes, records, an array or a struct.
    Null,
    /// A bool.
    Bool(bool),
    /// A whole number of any type: int8 to int64, uint16, uint32.
    Int(i64),
    /// A float64.
    Float(f64),
    /// A uuid.
    Uuid(Uuid),
    /// A string.
    String(Str),
    /// Bytes or records.
    Bytes(Bytes),
    /// An array.
    Array(Vec<Self>),
    /// A struct.
    Struct(Struct),
}

impl Value {
    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The bool.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(it) = *self { Some(it) } else { None }
    }

    /// The whole number.
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(it) = *self { Some(it) } else { None }
    }

    /// The float64.
    pub fn as_float(&self) -> Option<f64> {
        if let Self::Float(it) = *self { Some(it) } else { None }
    }

    /// The uuid.
    pub fn as_uuid(&self) -> Option<Uuid> {
        if let Self::Uuid(it) = *self { Some(it) } else { None }
    }

    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(it) = self { Some(it) } else { None }
    }

    /// The bytes or records.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        if let Self::Bytes(it) = self { Some(it) } else { None }
    }

    /// The elements of the array.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(it) = self { Some(it) } else { None }
    }

    /// The struct.
    pub fn as_struct(&self) -> Option<&Struct> {
        if let Self::Struct(it) = self { Some(it) } else { None }
    }

    /// Whether a field or, unless null, an element of this type may hold the value, elements and members aside.
    pub(crate) fn fits(&self, ty: FieldType) -> bool {
        match (self, ty) {
            (Self::Null, _) => ty.fixed_size().is_none(),
            (Self::Int(number), _) => int_range(ty).is_some_and(|(min, max)| (min..=max).contains(number)),
            (Self::Struct(value), FieldType::Struct(schema)) => std::ptr::eq(value.schema(), schema),
            (Self::Bool(_), FieldType::Bool)
            | (Self::Float(_), FieldType::Float64)
            | (Self::Uuid(_), FieldType::Uuid)
            | (Self::String(_), FieldType::String)
            | (Self::Bytes(_), FieldType::Bytes | FieldType::Records)
            | (Self::Array(_), FieldType::Array(_)) => true,
            _ => false,
        }
    }
}

/// The least and the greatest number of a whole type.
fn int_range(ty: FieldType) -> Option<(i64, i64)> {
    Some(match ty {
        FieldType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        FieldType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        FieldType::Uint16 => (0, u16::MAX.into()),
        FieldType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        FieldType::Uint32 => (0, u32::MAX.into()),
        FieldType::Int64 => (i64::MIN, i64::MAX),
        _ => return None,
    })
}

/// Like the value of a generated struct, without the names of the variants.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(it) => it.fmt(f),
            Self::Int(it) => it.fmt(f),
            Self::Float(it) => it.fmt(f),
            Self::Uuid(it) => fmt::Display::fmt(it, f),
            Self::String(it) => it.fmt(f),
            Self::Bytes(it) => it.fmt(f),
            Self::Array(it) => it.fmt(f),
            Self::Struct(it) => it.fmt(f),
        }
    }
}

macro_rules! from {
    ($($Type:ty => $it:ident $value:expr;)*) => {$(
        impl From<$Type> for Value {
            fn from($it: $Type) -> Self {
                $value
            }
        }
    )*};
}
from! {
    bool => it Self::Bool(it);
    i8 => it Self::Int(it.into());
    i16 => it Self::Int(it.into());
    u16 => it Self::Int(it.into());
    i32 => it Self::Int(it.into());
    u32 => it Self::Int(it.into());
    i64 => it Self::Int(it);
    f64 => it Self::Float(it);
    Uuid => it Self::Uuid(it);
    &str => it Self::String(it.into());
    String => it Self::String(it.into());
    Str => it Self::String(it);
    Bytes => it Self::Bytes(it);
    Struct => it Self::Struct(it);
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(elements: Vec<T>) -> Self {
        Self::Array(elements.into_iter().map(Into::into).collect())
    }
}

/// `None` is null.
impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
