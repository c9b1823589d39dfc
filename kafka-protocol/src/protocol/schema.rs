//! What a message looks like in each version, as data.
//!
//! Every message has a `static` [`MessageSchema`], see [`Message::SCHEMA`](super::Message::SCHEMA). It serves whatever
//! is rare or may be slow; encoding and decoding do without.

use std::fmt;

use super::{ApiKey, Versions};
use crate::messages::schemas::SCHEMAS;

/// The schemas of all messages that are compiled, family by family.
///
/// Whoever calls this has all of them in the program, though none of their codecs.
pub fn all() -> impl DoubleEndedIterator<Item = &'static MessageSchema> + ExactSizeIterator {
    SCHEMAS.iter().copied()
}

/// The schema of a message by its name in Kafka, such as `ShareFetchRequest`; `None` if it is not compiled.
pub fn by_name(name: &str) -> Option<&'static MessageSchema> {
    all().find(|schema| schema.name == name)
}

/// The schema of the request of an API; `None` if it is not compiled.
pub fn request(api_key: ApiKey) -> Option<&'static MessageSchema> {
    all().find(|schema| schema.kind == MessageKind::Request && schema.api_key == Some(api_key.0))
}

/// The schema of the response of an API; `None` if it is not compiled.
pub fn response(api_key: ApiKey) -> Option<&'static MessageSchema> {
    all().find(|schema| schema.kind == MessageKind::Response && schema.api_key == Some(api_key.0))
}

/// A message.
#[derive(Debug)]
pub struct MessageSchema {
    /// Its name in Kafka: `ShareFetchRequest`.
    pub name: &'static str,
    /// What it is used for.
    pub kind: MessageKind,
    /// The key of the API or of the record type; `None` for headers and other data.
    pub api_key: Option<i16>,
    /// The versions that can be encoded and decoded.
    pub versions: Versions,
    /// The versions with compact lengths and tag sections, beyond the valid ones too.
    pub flexible_versions: Versions,
    /// The fields.
    pub root: &'static StructSchema,
}

/// What a message is used for: the `type` of Kafka's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// A request of an API.
    Request,
    /// A response of an API.
    Response,
    /// The header of a request or response.
    Header,
    /// A record of the metadata log or of the remote log metadata topic.
    Metadata,
    /// Data inside other messages or in files.
    Data,
    /// The key of a record in a coordinator's topic.
    CoordinatorKey,
    /// The value of a record in a coordinator's topic.
    CoordinatorValue,
}

/// A struct: the message itself, or one inside it.
#[derive(Debug)]
pub struct StructSchema {
    /// Its name in Kafka: `FetchTopic`.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// The fewest bytes that it takes in any version.
    pub min_size: usize,
    /// The number of tags that the schema knows in any version, valid or not; they are 0 to this number, exclusive.
    pub known_tags: u32,
    /// In the order of the wire, but that tagged fields travel at the end.
    pub fields: &'static [FieldSchema],
    /// Fields that only versions have which are not valid any more. They are neither on the wire nor in the Rust struct,
    /// and a text that has one, such as JSON, must not lose its value silently.
    pub retired: &'static [FieldSchema],
}

/// A field of a struct.
#[derive(Debug)]
pub struct FieldSchema {
    /// Its name in Kafka: `IsRenewAck`.
    pub name: &'static str,
    /// Its name in Rust: `is_renew_ack`.
    pub rust_name: &'static str,
    /// What it holds.
    pub ty: FieldType,
    /// The versions that have it; may reach beyond the valid ones.
    pub versions: Versions,
    /// The versions in which it may be null; may reach beyond `versions`, but none if no valid version allows it.
    pub nullable_versions: Versions,
    /// The versions in which it travels in the tag section.
    pub tagged_versions: Versions,
    /// Its tag there.
    pub tag: Option<u32>,
    /// The versions with a compact length, if they are not those of the message.
    pub flexible_versions: Option<Versions>,
    /// Its value where it is not there.
    pub default: DefaultValue,
    /// Whether a version that lacks it may drop another value than the default.
    pub ignorable: bool,
    /// Whether it is part of the key by which an array of this struct is searched.
    pub map_key: bool,
    /// What it is.
    pub doc: &'static str,
}

impl FieldSchema {
    /// No fields.
    pub const NONE: &'static [Self] = &[];

    /// A field as [`PLAIN`](Self::PLAIN) is, of this name and type.
    pub const fn new(name: &'static str, rust_name: &'static str, ty: FieldType, doc: &'static str) -> Self {
        Self { name, rust_name, ty, doc, ..Self::PLAIN }
    }

    /// A field in every version, never null, with the default of its type: what most are, but for name and type.
    pub const PLAIN: Self = Self {
        name: "",
        rust_name: "",
        ty: FieldType::Bool,
        versions: Versions::since(0),
        nullable_versions: Versions::NONE,
        tagged_versions: Versions::NONE,
        tag: None,
        flexible_versions: None,
        default: DefaultValue::Zero,
        ignorable: false,
        map_key: false,
        doc: "",
    };
}

/// The type of a field, as Kafka's schemas name it.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// 1 byte.
    Bool,
    /// 1 byte.
    Int8,
    /// 2 bytes.
    Int16,
    /// 2 bytes, unsigned.
    Uint16,
    /// 4 bytes.
    Int32,
    /// 4 bytes, unsigned.
    Uint32,
    /// 8 bytes.
    Int64,
    /// 8 bytes, IEEE 754.
    Float64,
    /// 16 bytes.
    Uuid,
    /// UTF-8, at most 32767 bytes.
    String,
    /// Bytes of any kind.
    Bytes,
    /// Record batches, not looked into.
    Records,
    /// A struct.
    Struct(&'static StructSchema),
    /// An array of anything but bytes, records and arrays.
    Array(&'static Self),
}

impl FieldType {
    /// The number of bytes, if it is always the same.
    pub const fn fixed_size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Int8 => Some(1),
            Self::Int16 | Self::Uint16 => Some(2),
            Self::Int32 | Self::Uint32 => Some(4),
            Self::Int64 | Self::Float64 => Some(8),
            Self::Uuid => Some(16),
            Self::String | Self::Bytes | Self::Records | Self::Struct(_) | Self::Array(_) => None,
        }
    }

    /// The fewest bytes of a value in any version.
    pub const fn min_size(self) -> usize {
        match self {
            Self::Struct(schema) => schema.min_size,
            _ => match self.fixed_size() {
                Some(size) => size,
                None => 1,
            },
        }
    }
}

/// The name of the type in Kafka's schemas: `int32`, `[]string`, `FetchTopic`.
impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::Uuid => "uuid",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Records => "records",
            Self::Struct(schema) => schema.name,
            Self::Array(element) => return write!(f, "[]{element}"),
        })
    }
}

/// The value of a field that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// What the type has without further ado: 0, false, no elements, no characters, a struct of defaults.
    Zero,
    /// Null.
    Null,
    /// True.
    True,
    /// A number other than 0, of every whole type.
    Int(i64),
    /// A number other than 0, and how it is written: printing a number takes much code, which few programs need.
    Float(f64, &'static str),
    /// Other characters than none.
    String(&'static str),
    /// An id with bits set, as a number whose bytes are those of the id, first byte first.
    Uuid(u128),
}
