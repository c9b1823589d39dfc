//! What is to be generated: plain data, each fact once, version conditions already folded.
//!
//! Terms are those of Kafka's schemas. Whatever a schema can get wrong has been refused by
//! [`check`](crate::check) before a model exists, so that the emitter cannot fail.

use crate::versions::{Versions, When};

/// A whole set of schemas.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// One per sub-folder in alphabetical order; first the one without a name, if there are files directly
    /// in the messages folder.
    pub families: Vec<Family>,
}

/// The schemas of one folder, which becomes one module.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name of the sub-folder, a valid Rust module name; `None` for the messages folder itself.
    pub name: Option<String>,
    /// In alphabetical order of their names.
    pub messages: Vec<Message>,
    /// APIs whose `validVersions` is `none`: they keep their key and have no codec.
    pub removed: Vec<RemovedApi>,
}

/// A request or response whose `validVersions` is `none`.
#[derive(Clone, Debug)]
pub struct RemovedApi {
    /// As in the schema, suffix included.
    pub name: String,
    /// Request or response.
    pub kind: Kind,
    /// The key that stays reserved.
    pub api_key: i16,
}

/// One schema file.
#[derive(Clone, Debug)]
pub struct Message {
    /// As in the schema.
    pub name: String,
    /// The name of the module: `share_fetch_request`.
    pub module: String,
    /// The file, relative to the messages folder, with `/` between folder and file.
    pub source: String,
    /// What the message is used for.
    pub kind: Kind,
    /// The key of the API, of the metadata record or of the coordinator record.
    pub api_key: Option<i16>,
    /// Where a request is exposed.
    pub listeners: Vec<Listener>,
    /// Whether the latest version is still being worked on.
    pub latest_version_unstable: bool,
    /// Never empty, and its upper end is finite.
    pub valid: Versions,
    /// Empty or open-ended.
    pub flexible: Versions,
    /// Versions that are only kept for old peers.
    pub deprecated: Versions,
    /// The comment above `validVersions`, one string per paragraph.
    pub doc: Vec<String>,
    /// `headerVersions` in ascending order, empty when the schema leaves it to the general rule.
    pub header_versions: Vec<(Versions, i16)>,
    /// The response to a request, the request of a response, if it is in the set.
    pub partner: Option<Partner>,
    /// The message itself, then the structs inside it in order of first use, depth first.
    pub structs: Vec<Struct>,
}

/// The other half of an API.
#[derive(Clone, Debug)]
pub struct Partner {
    /// The name of its family.
    pub family: Option<String>,
    /// Its name in Rust.
    pub rust_name: String,
}

/// The `type` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `request`
    Request,
    /// `response`
    Response,
    /// `header`
    Header,
    /// `metadata`: a record of the metadata log, or of the remote log metadata topic.
    Metadata,
    /// `data`: anything else.
    Data,
    /// `coordinator-key`: the key of a record in a coordinator's topic.
    CoordinatorKey,
    /// `coordinator-value`: its value.
    CoordinatorValue,
}

/// A listener that exposes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// `zkBroker`, in schemas before Kafka 4.0.
    ZkBroker,
    /// `broker`
    Broker,
    /// `controller`
    Controller,
}

/// A message or a struct inside one.
#[derive(Clone, Debug)]
pub struct Struct {
    /// As in the schema.
    pub name: String,
    /// The name in Rust, unlike every type that generated code uses.
    pub rust_name: String,
    /// The versions in which the struct can occur: valid versions of the message in which a field of this
    /// type exists, as one range. Never empty.
    pub context: Versions,
    /// The fewest bytes that the struct takes in any version of `context`, tag section included.
    pub min_size: usize,
    /// The number of tags that the schema knows, also of fields that no version of `context` has; they are 0 to this
    /// number, exclusive.
    pub known_tags: u32,
    /// In declaration order, without those that no version of `context` has.
    pub fields: Vec<Field>,
    /// Those that no version of `context` has, which are not in the Rust struct. None of them holds a struct.
    pub retired: Vec<Field>,
    /// The fields whose type, or element type, this struct is. Empty for the message itself.
    pub uses: Vec<Use>,
}

/// A field that has a struct as its type or element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Index in [`Message::structs`].
    pub of: usize,
    /// Index in [`Struct::fields`].
    pub field: usize,
}

/// A member of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// As in the schema.
    pub name: String,
    /// The name in Rust, without `r#`; see [`names`](crate::names).
    pub rust_name: String,
    /// What it holds.
    pub ty: Type,
    /// Set if the bare number hides meaning: the type with a name of its own. For arrays, of the element.
    pub domain: Option<Domain>,
    /// As in the schema; may reach beyond the valid versions.
    pub versions: Versions,
    /// As in the schema; may reach beyond `versions`.
    pub nullable_versions: Versions,
    /// As in the schema.
    pub tagged_versions: Versions,
    /// The tag, if `tagged_versions` is not empty.
    pub tag: Option<u32>,
    /// The field's own `flexibleVersions`, if it has them and they differ from the message's in a version
    /// that has the field.
    pub flexible_versions: Option<Versions>,
    /// When it travels among the other fields. Folded against [`Struct::context`], as the next three.
    pub inline: When,
    /// When it travels in the tag section.
    pub tagged: When,
    /// When it exists, one way or the other.
    pub present: When,
    /// When null is allowed, folded against those versions of the context that have the field.
    pub nullable: When,
    /// The value of a field that is not there.
    pub default: Default,
    /// Whether a version that lacks the field may drop a value that is not the default.
    pub ignorable: bool,
    /// Whether it is part of the key of its struct.
    pub map_key: bool,
    /// `entityType`, as in the schema.
    pub entity_type: Option<String>,
    /// A hint of the schema: bytes that Kafka does not copy.
    pub zero_copy: bool,
    /// `about`, possibly empty.
    pub about: String,
}

impl Field {
    /// Whether the Rust type is an `Option`: null is allowed in some version, or the default is null.
    ///
    /// The latter alone happens to `records`, whose default is null in every schema.
    pub fn is_option(&self) -> bool {
        self.nullable != When::Never || self.default == Default::Null
    }
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// `bool`
    Bool,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `uint16`
    Uint16,
    /// `int32`
    Int32,
    /// `uint32`
    Uint32,
    /// `int64`
    Int64,
    /// `float64`
    Float64,
    /// `uuid`
    Uuid,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `records`
    Records,
    /// The struct at this index in [`Message::structs`].
    Struct(usize),
    /// `[]T`, where `T` is anything but `bytes`, `records` and another array.
    Array(Box<Self>),
}

impl Type {
    /// The number of bytes of a value, if it is always the same.
    pub fn fixed_size(&self) -> Option<usize> {
        match self {
            Self::Bool | Self::Int8 => Some(1),
            Self::Int16 | Self::Uint16 => Some(2),
            Self::Int32 | Self::Uint32 => Some(4),
            Self::Int64 | Self::Float64 => Some(8),
            Self::Uuid => Some(16),
            Self::String | Self::Bytes | Self::Records | Self::Struct(_) | Self::Array(_) => None,
        }
    }
}

/// A number with a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// int16, name ends in `ErrorCode`
    ErrorCode,
    /// int8, name is `AcknowledgeType` or `AcknowledgeTypes`
    AcknowledgeType,
}

/// A default, of the kind that fits the field's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// Null: of nullable types, and of records always.
    Null,
    /// Of bool.
    Bool(bool),
    /// Of the whole numbers, signed or not.
    Int(i64),
    /// Of float64.
    Float(f64),
    /// Of uuid.
    Uuid([u8; 16]),
    /// Of string.
    String(String),
    /// No elements, no bytes, or a struct of defaults.
    Empty,
}
