//! Messages as JSON, in the form of the converters in Apache Kafka.
//!
//! ```
//! # #[cfg(feature = "share")] {
//! use kafka_protocol::json;
//! use kafka_protocol::messages::ShareFetchRequest;
//!
//! let request = ShareFetchRequest { group_id: Some("workers".into()), ..Default::default() };
//! let value = json::encode(&request, 2)?;
//! assert_eq!(value["groupId"], "workers");
//! assert_eq!(json::decode::<ShareFetchRequest>(&value, 2)?, request);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A message is an object with the fields of one version in the order of the schema. A tagged field is left out
//! where it has its default, all others must be there.
//!
//! | Kafka type | JSON |
//! |---|---|
//! | bool | `true`, `false` |
//! | int8 .. int64, uint16, uint32 | a number without fraction, int64 over its full range |
//! | float64 | a number with a fraction; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | uuid | its 22 characters in Base64 for URLs, without padding |
//! | string | a string |
//! | bytes | a string, in Base64 with padding |
//! | records | `""` whatever they are, or [their size](encode_with_record_sizes); what is read is Base64, as of bytes |
//! | array, struct | an array, an object |
//! | null | `null`; but `""` for records that no version allows to be null, which only [`to_value`] can meet |
//!
//! So two things get lost on the way to JSON: the contents of records, and unknown tagged fields.
//!
//! What is read may have members that are no fields, which are ignored, and fields that the version lacks, which
//! [`from_value`] keeps. [`encode`] and [`decode`] go by way of the bytes of the version, so they refuse what these cannot
//! carry, where Kafka prints or stores it.
//!
//! Otherwise it differs from Kafka in two points: numbers above 127 are no int8, and `"NaN"` and the infinities are read.

use std::{error, fmt};

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value as Json};

use crate::dynamic::{self, Struct, Value};
use crate::protocol::schema::{FieldSchema, FieldType, MessageSchema, StructSchema};
use crate::protocol::walk::{Step, default_text, path};
use crate::protocol::{DecodeError, EncodeError, EncodeReason, Message, Versions, unsupported_encode};
use crate::wire::{Bytes, Uuid};

/// A message as JSON.
///
/// # Errors
///
/// Those of [`Message::encode`].
pub fn encode<M: Message>(message: &M, version: i16) -> Result<Json, EncodeError> {
    to_value(&dynamic_of(message, version)?, M::SCHEMA, version)
}

/// A message as JSON with the size of its records, as in the request logs of brokers: instead of a member `records` there is
/// `recordsSizeInBytes`, a number, unless they are null. It cannot be read back.
///
/// # Errors
///
/// Those of [`Message::encode`].
pub fn encode_with_record_sizes<M: Message>(message: &M, version: i16) -> Result<Json, EncodeError> {
    to_value_with_record_sizes(&dynamic_of(message, version)?, M::SCHEMA, version)
}

fn dynamic_of<M: Message>(message: &M, version: i16) -> Result<Struct, EncodeError> {
    let bytes = message.encode(version)?;
    Ok(dynamic::decode_within(M::SCHEMA, &bytes, version, usize::MAX).unwrap_or_else(|error| {
        debug_assert!(false, "encoded but not decoded: {error}");
        Struct::new(M::SCHEMA.root)
    }))
}

/// A message from JSON.
///
/// # Errors
///
/// The JSON is not a message of this version, or the version cannot carry a value that is there: of a field that it
/// lacks only the default.
pub fn decode<M: Message>(json: &Json, version: i16) -> Result<M, JsonError> {
    let fail = |reason| JsonError::new(M::SCHEMA, version, String::new(), reason);
    let message = from_value(json, M::SCHEMA, version)?;
    let mut steps = Vec::new();
    expect_carried(&message, version, &mut steps).map_err(|reason| {
        fail(JsonReason::Encode(EncodeError::new(M::SCHEMA.name, version, path(&steps), reason)))
    })?;
    let bytes = dynamic::encode(&message, M::SCHEMA, version).map_err(|it| fail(JsonReason::Encode(it)))?;
    M::decode(bytes, version).map_err(|it| fail(JsonReason::Decode(it)))
}

/// A dynamic value as JSON.
///
/// # Errors
///
/// The version is not supported, or it lacks a field that is neither ignorable nor has its default, or a value is
/// not of the type of its field.
pub fn to_value(message: &Struct, schema: &'static MessageSchema, version: i16) -> Result<Json, EncodeError> {
    write(message, schema, version, false)
}

/// A dynamic value as JSON with the size of its records, see [`encode_with_record_sizes`].
///
/// # Errors
///
/// Those of [`to_value`].
pub fn to_value_with_record_sizes(
    message: &Struct,
    schema: &'static MessageSchema,
    version: i16,
) -> Result<Json, EncodeError> {
    write(message, schema, version, true)
}

fn write(
    message: &Struct,
    schema: &'static MessageSchema,
    version: i16,
    record_sizes: bool,
) -> Result<Json, EncodeError> {
    if !schema.versions.contains(version) {
        return Err(unsupported_encode(schema, version));
    }
    let mut write = Write { valid: schema.versions, version, record_sizes, steps: Vec::new() };
    let done = if std::ptr::eq(message.schema(), schema.root) {
        write.structure(message)
    } else {
        Err(dynamic::wrong_type(FieldType::Struct(schema.root)))
    };
    done.map_err(|reason| EncodeError::new(schema.name, version, path(&write.steps), reason))
}

/// A dynamic value from JSON.
///
/// # Errors
///
/// The version is not supported, a field is missing, a value is not of the type of its field, or it is for a
/// [retired](crate::protocol::schema::StructSchema::retired) field. Members that the schema does not know are ignored.
pub fn from_value(json: &Json, schema: &'static MessageSchema, version: i16) -> Result<Struct, JsonError> {
    if !schema.versions.contains(version) {
        let reason = JsonReason::UnsupportedVersion { supported: schema.versions };
        return Err(JsonError::new(schema, version, String::new(), reason));
    }
    let mut read = Read { version, steps: Vec::new() };
    read.structure(json, schema.root)
        .map_err(|reason| JsonError::new(schema, version, json_path(&read.steps), reason))
}

struct Write {
    /// The versions of the message.
    valid: Versions,
    version: i16,
    /// Whether records are shown by their size.
    record_sizes: bool,
    steps: Vec<Step>,
}

impl Write {
    fn structure(&mut self, value: &Struct) -> Result<Json, EncodeReason> {
        let mut object = Map::new();
        for (field, value) in value.iter() {
            self.steps.push(Step::Field(field));
            let is_default = dynamic::is_default(field, value);
            if !field.versions.contains(self.version) {
                if !field.ignorable && !dynamic::is_droppable(field, value) {
                    let default = default_text(field);
                    return Err(EncodeReason::NotInVersion { versions: field.versions, default });
                }
            } else if !field.tagged_versions.contains(self.version) || !is_default {
                let mut name: String = dynamic::json_name(field).collect();
                if self.record_sizes && matches!((field.ty, value), (FieldType::Records, Value::Bytes(_))) {
                    name.push_str("SizeInBytes");
                }
                object.insert(name, self.field(field, value)?);
            }
            self.steps.pop();
        }
        Ok(Json::Object(object))
    }

    fn field(&mut self, field: &FieldSchema, value: &Value) -> Result<Json, EncodeReason> {
        let nullable = || !field.nullable_versions.intersect(field.versions).intersect(self.valid).is_empty();
        match (value, field.ty) {
            (Value::Bytes(it), FieldType::Records) if self.record_sizes => Ok(it.len().into()),
            (Value::Null, FieldType::Records) if !self.record_sizes && !nullable() => Ok("".into()),
            _ => self.value(value, field.ty),
        }
    }

    fn value(&mut self, value: &Value, ty: FieldType) -> Result<Json, EncodeReason> {
        if !value.fits(ty) {
            return Err(dynamic::wrong_type(ty));
        }
        Ok(match value {
            Value::Null => Json::Null,
            Value::Bool(it) => (*it).into(),
            Value::Int(it) => (*it).into(),
            Value::Float(it) => match serde_json::Number::from_f64(*it) {
                Some(number) => number.into(),
                None if it.is_nan() => "NaN".into(),
                None if *it > 0.0 => "Infinity".into(),
                None => "-Infinity".into(),
            },
            Value::Uuid(it) => URL_SAFE_NO_PAD.encode(it.as_bytes()).into(),
            Value::String(it) => it.as_str().into(),
            Value::Bytes(it) => match ty {
                FieldType::Records => "".into(),
                _ => STANDARD.encode(it).into(),
            },
            Value::Struct(it) => self.structure(it)?,
            Value::Array(elements) => {
                let FieldType::Array(ty) = ty else { return Err(dynamic::wrong_type(ty)) };
                let mut array = Vec::with_capacity(elements.len());
                for (index, value) in elements.iter().enumerate() {
                    self.steps.push(Step::Element(index));
                    if value.is_null() {
                        return Err(EncodeReason::Null { nullable: Versions::NONE });
                    }
                    array.push(self.value(value, *ty)?);
                    self.steps.pop();
                }
                array.into()
            }
        })
    }
}

/// That nothing is there which the version would drop.
fn expect_carried(value: &Struct, version: i16, steps: &mut Vec<Step>) -> Result<(), EncodeReason> {
    for (field, value) in value.iter() {
        steps.push(Step::Field(field));
        if !field.versions.contains(version) {
            if !dynamic::is_droppable(field, value) {
                return Err(EncodeReason::NotInVersion {
                    versions: field.versions,
                    default: default_text(field),
                });
            }
        } else if let Value::Struct(inner) = value {
            expect_carried(inner, version, steps)?;
        } else if let Value::Array(elements) = value {
            for (index, element) in elements.iter().enumerate() {
                if let Value::Struct(inner) = element {
                    steps.push(Step::Element(index));
                    expect_carried(inner, version, steps)?;
                    steps.pop();
                }
            }
        }
        steps.pop();
    }
    Ok(())
}

struct Read {
    version: i16,
    steps: Vec<Step>,
}

impl Read {
    fn structure(&mut self, json: &Json, schema: &'static StructSchema) -> Result<Struct, JsonReason> {
        let Json::Object(object) = json else { return Err(wrong_type(FieldType::Struct(schema), json)) };
        let mut value = Struct::new(schema);
        for (index, field) in schema.fields.iter().enumerate() {
            self.steps.push(Step::Field(field));
            let name: String = dynamic::json_name(field).collect();
            match object.get(&name) {
                Some(json) => *value.field_mut(index) = self.field(json, field)?,
                None if field.versions.contains(self.version)
                    && !field.tagged_versions.contains(self.version) =>
                {
                    return Err(JsonReason::Missing);
                }
                None => {}
            }
            self.steps.pop();
        }
        for field in schema.retired.iter().filter(|field| !field.ignorable) {
            let name: String = dynamic::json_name(field).collect();
            if let Some(json) = object.get(&name) {
                self.steps.push(Step::Field(field));
                if !dynamic::is_droppable(field, &self.field(json, field)?) {
                    return Err(JsonReason::Retired { versions: field.versions });
                }
                self.steps.pop();
            }
        }
        Ok(value)
    }

    fn field(&mut self, json: &Json, field: &FieldSchema) -> Result<Value, JsonReason> {
        if json.is_null() && !field.nullable_versions.is_empty() {
            return Ok(Value::Null);
        }
        self.value(json, field.ty)
    }

    fn value(&mut self, json: &Json, ty: FieldType) -> Result<Value, JsonReason> {
        let wrong = || wrong_type(ty, json);
        Ok(match ty {
            FieldType::Bool => json.as_bool().ok_or_else(wrong)?.into(),
            FieldType::Float64 => match json {
                Json::Number(number) if number.is_f64() => number.as_f64().ok_or_else(wrong)?.into(),
                Json::String(text) if text == "NaN" => f64::NAN.into(),
                Json::String(text) if text == "Infinity" => f64::INFINITY.into(),
                Json::String(text) if text == "-Infinity" => f64::NEG_INFINITY.into(),
                _ => return Err(wrong()),
            },
            FieldType::Uuid => {
                let text = json.as_str().ok_or_else(wrong)?;
                let bytes = URL_SAFE_ANY.decode(text).ok();
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(JsonReason::BadUuid)?;
                Uuid::from_bytes(bytes).into()
            }
            FieldType::String => json.as_str().ok_or_else(wrong)?.into(),
            FieldType::Bytes | FieldType::Records => {
                let text = json.as_str().ok_or_else(wrong)?;
                Bytes::from(STANDARD.decode(text).map_err(|_| JsonReason::BadBase64)?).into()
            }
            FieldType::Struct(schema) => self.structure(json, schema)?.into(),
            FieldType::Array(ty) => {
                let elements = json.as_array().ok_or_else(wrong)?;
                let mut array = Vec::with_capacity(elements.len());
                for (index, json) in elements.iter().enumerate() {
                    self.steps.push(Step::Element(index));
                    array.push(self.value(json, *ty)?);
                    self.steps.pop();
                }
                Value::Array(array)
            }
            FieldType::Int8
            | FieldType::Int16
            | FieldType::Uint16
            | FieldType::Int32
            | FieldType::Uint32
            | FieldType::Int64 => {
                let Json::Number(number) = json else { return Err(wrong()) };
                if number.is_f64() {
                    return Err(wrong());
                }
                match number.as_i64().map(Value::Int) {
                    Some(value) if value.fits(ty) => value,
                    _ => return Err(JsonReason::OutOfRange { expected: ty.to_string() }),
                }
            }
        })
    }
}

/// As lenient as Java: padding may be there or not, and the last bits may be any.
const URL_SAFE_ANY: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

fn wrong_type(expected: FieldType, found: &Json) -> JsonReason {
    let found = match found {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(number) if number.is_f64() => "a number with a fraction",
        Json::Number(_) => "a number without a fraction",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    JsonReason::WrongType { expected: expected.to_string(), found }
}

fn json_path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(field) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.extend(dynamic::json_name(field));
            }
            Step::Element(index) => path.push_str(&format!("[{index}]")),
            // JSON leaves unknown tagged fields out.
            Step::Tags => {}
        }
    }
    path
}

/// Why JSON is not a message: which message, in which version, which member.
///
/// ```
/// # #[cfg(feature = "share")] {
/// use kafka_protocol::json;
/// use kafka_protocol::messages::ShareFetchRequest;
///
/// let error = json::decode::<ShareFetchRequest>(&serde_json::json!({"groupId": 7}), 2).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "ShareFetchRequest v2: groupId: string expected, found a number without a fraction",
/// );
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    message: &'static str,
    version: i16,
    path: String,
    reason: JsonReason,
}

impl JsonError {
    fn new(schema: &MessageSchema, version: i16, path: String, reason: JsonReason) -> Self {
        Self(Box::new(Inner { message: schema.name, version, path, reason }))
    }

    /// The name of the message in Kafka.
    pub fn message(&self) -> &'static str {
        self.0.message
    }

    /// The version in which it was read.
    pub fn version(&self) -> i16 {
        self.0.version
    }

    /// The member in JSON's names, such as `topics[3].partitions[0].partitionIndex`; empty for the message itself.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What is wrong with it.
    pub fn reason(&self) -> &JsonReason {
        &self.0.reason
    }
}

impl error::Error for JsonError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0.reason {
            JsonReason::Encode(error) => Some(error),
            JsonReason::Decode(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { message, version, path, reason } = &*self.0;
        if let JsonReason::Encode(_) | JsonReason::Decode(_) = reason {
            return write!(f, "{reason}");
        }
        write!(f, "{message} v{version}: ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(f, "{reason}")
    }
}

/// What is wrong with JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonReason {
    /// The message is not known in this version.
    UnsupportedVersion {
        /// The versions that are.
        supported: Versions,
    },
    /// A field of this version is not there.
    Missing,
    /// A value other than the default for a field that only versions have which are not valid any more.
    Retired {
        /// These versions.
        versions: Versions,
    },
    /// The value is not of the type of its field.
    WrongType {
        /// The type of the field, as [`FieldType`] displays it.
        expected: String,
        /// What is there instead.
        found: &'static str,
    },
    /// A whole number that the type of its field does not have.
    OutOfRange {
        /// The type of the field.
        expected: String,
    },
    /// A string that is not 16 bytes in Base64 for URLs.
    BadUuid,
    /// A string that is not Base64 with padding.
    BadBase64,
    /// The version cannot carry the value.
    Encode(EncodeError),
    /// The message does not take its value: it would need too much memory.
    Decode(DecodeError),
}

impl fmt::Display for JsonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedVersion { supported } => {
                write!(f, "not a supported version ({})", supported.named())
            }
            Self::Retired { versions } => {
                let verb = if versions.min() == versions.max() { "is" } else { "are" };
                write!(f, "it is in {} only, which {verb} not valid any more", versions.named())
            }
            Self::Missing => f.write_str("is missing"),
            Self::WrongType { expected, found } => write!(f, "{expected} expected, found {found}"),
            Self::OutOfRange { expected } => write!(f, "not in the range of {expected}"),
            Self::BadUuid => f.write_str("not the 22 characters of a uuid"),
            Self::BadBase64 => f.write_str("not Base64 with padding"),
            Self::Encode(error) => error.fmt(f),
            Self::Decode(error) => error.fmt(f),
        }
    }
}
