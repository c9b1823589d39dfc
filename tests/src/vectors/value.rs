//! Values of vectors: building them, and telling how two differ.

use kafka_protocol::dynamic::{self, Struct, Value};
use kafka_protocol::json;
use kafka_protocol::protocol::schema::{DefaultValue, FieldSchema, FieldType, MessageSchema};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::Check;

/// What becomes of a value in a vector.
pub(crate) enum Build {
    Value(Struct),
    /// Unknown tags that do not ascend, which no value can hold.
    Refused,
}

/// The value that JSON shows, with the content of its records and with its unknown tagged fields, which JSON leaves out.
pub(crate) fn build(
    schema: &'static MessageSchema,
    version: i16,
    json: &Json,
    records: &Json,
    unknown: &Json,
) -> Result<Build, String> {
    let mut value = json::from_value(json, schema, version).map_err(|error| format!("from JSON: {error}"))?;
    empty_records_are_null(&mut value);
    for records in list(records) {
        let path = records["path"].as_str().ok_or("records without a path")?;
        value.set(path, unhex(&records["hex"])?).map_err(|error| error.to_string())?;
    }
    for field in list(unknown) {
        let path = field["path"].as_str().unwrap_or_default();
        let strukt = match path {
            "" => &mut value,
            _ => match value.get_mut(path) {
                Some(Value::Struct(strukt)) => strukt,
                _ => return Err(format!("unknown tags of {path}, which is no struct")),
            },
        };
        let tag =
            field["tag"].as_u64().and_then(|tag| tag.try_into().ok()).ok_or("an unknown tag without tag")?;
        if strukt.unknown_tagged_fields.push(tag, unhex(&field["hex"])?).is_err() {
            return Ok(Build::Refused);
        }
    }
    Ok(Build::Value(value))
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// `""` is what JSON has for all records; those that are not null are listed beside it.
fn empty_records_are_null(value: &mut Struct) {
    each_struct(value, &mut |value| {
        let fields: Vec<_> = value.iter().map(|(field, _)| (field.name, field.ty)).collect();
        for (name, _) in fields.iter().filter(|(_, ty)| matches!(ty, FieldType::Records)) {
            if let Some(records) = value.get_mut(name) {
                *records = Value::Null;
            }
        }
    });
}

/// Changes a struct and all that are in it.
pub(super) fn each_struct(value: &mut Struct, change: &mut impl FnMut(&mut Struct)) {
    change(value);
    let fields: Vec<_> = value.iter().map(|(field, _)| field.name).collect();
    for field in fields {
        match value.get_mut(field) {
            Some(Value::Struct(inner)) => each_struct(inner, change),
            Some(Value::Array(elements)) => {
                for element in elements {
                    if let Value::Struct(inner) = element {
                        each_struct(inner, change);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A version that carries the whole value, and its bytes there; `first` if that one does. A generated value can only
/// be made from bytes, so this is how it gets what another version lacks.
pub(crate) fn carrier(schema: &'static MessageSchema, value: &Struct, first: i16) -> Option<(i16, Bytes)> {
    std::iter::once(first).chain(schema.versions.iter().rev()).find_map(|version| {
        let bytes = Bytes::from(dynamic::encode(value, schema, version).ok()?);
        let again = dynamic::decode(schema, &bytes, version).ok()?;
        same_value("", value, &again).is_ok().then_some((version, bytes))
    })
}

pub(crate) fn unhex(digits: &Json) -> Result<Bytes, String> {
    let digits = digits.as_str().ok_or("no hex")?.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err("half a byte in hex".to_owned());
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let bytes = digits.chunks(2).map(byte).collect::<Option<Vec<_>>>();
    Ok(bytes.ok_or("hex of other digits")?.into())
}

pub(crate) fn same_bytes(what: &str, expected: &[u8], found: &[u8]) -> Check {
    if expected == found {
        return Ok(());
    }
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let show = |bytes: &[u8]| match bytes.get(at..bytes.len().min(at + 8)) {
        None | Some([]) => "nothing".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let (e, f) = (show(expected), show(found));
    let lengths = format!("{} bytes instead of {}", found.len(), expected.len());
    Err(format!("{what}: {lengths}, at byte {at} {f} instead of {e}"))
}

/// By their text, in which NaN equals itself and -0.0 is not 0.0.
pub(crate) fn same_value(what: &str, expected: &Struct, found: &Struct) -> Check {
    same_text(what, &format!("{expected:?}"), &format!("{found:?}"))
}

fn same_text(what: &str, expected: &str, found: &str) -> Check {
    if expected == found {
        return Ok(());
    }
    let at = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    let show = |text: &str| text.chars().skip(at.saturating_sub(30)).take(60).collect::<String>();
    Err(format!("{what}: …{}… instead of …{}…", show(found), show(expected)))
}

/// Text equality of JSON, but that floats are compared as numbers, with the sign of zero.
pub(crate) fn same_json(what: &str, expected: &Json, found: &Json) -> Check {
    json_difference(expected, found, "").map_or(Ok(()), |difference| Err(format!("{what}: {difference}")))
}

fn json_difference(expected: &Json, found: &Json, path: &str) -> Option<String> {
    let different = || Some(format!("{path} is {found} instead of {expected}"));
    match (expected, found) {
        (Json::Object(expected), Json::Object(found)) => {
            if !expected.keys().eq(found.keys()) {
                let keys = |object: &serde_json::Map<String, Json>| {
                    object.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                };
                return Some(format!("{path} has {} instead of {}", keys(found), keys(expected)));
            }
            expected.iter().zip(found).find_map(|((name, expected), (_, found))| {
                let dot = if path.is_empty() { "" } else { "." };
                json_difference(expected, found, &format!("{path}{dot}{name}"))
            })
        }
        (Json::Array(expected), Json::Array(found)) if expected.len() == found.len() => {
            expected.iter().zip(found).enumerate().find_map(|(index, (expected, found))| {
                json_difference(expected, found, &format!("{path}[{index}]"))
            })
        }
        (Json::Number(a), Json::Number(b)) if a.is_f64() || b.is_f64() => {
            let bits = |number: &serde_json::Number| number.as_f64().map(f64::to_bits);
            if bits(a) == bits(b) { None } else { different() }
        }
        _ if expected == found => None,
        _ => different(),
    }
}

/// Whether the text that `Debug` gives of a generated value is about this value: field by field by name, those too
/// that the version lacks. It is the only view on a generated value that does not lead through its codec.
pub(crate) fn same_shown(value: &Struct, shown: &str) -> Check {
    let mut text = Shown { whole: shown, rest: shown };
    text.structure(value)?;
    text.eat("")?;
    if text.rest.is_empty() { Ok(()) } else { text.fail("") }
}

struct Shown<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl Shown<'_> {
    fn structure(&mut self, value: &Struct) -> Check {
        // The name may be another one than that of the schema.
        self.rest =
            self.rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        self.eat(" { ")?;
        for (field, value) in value.iter() {
            self.eat(field.rust_name)?;
            self.eat(": ")?;
            self.field(field, value)?;
            self.eat(", ")?;
        }
        self.eat(&format!("unknown_tagged_fields: {:?} }}", value.unknown_tagged_fields))
    }

    fn field(&mut self, field: &FieldSchema, value: &Value) -> Check {
        let is_option = !field.nullable_versions.is_empty() || field.default == DefaultValue::Null;
        match value {
            Value::Null => self.eat("None"),
            _ if is_option => {
                self.eat("Some(")?;
                self.value(field, value)?;
                self.eat(")")
            }
            _ => self.value(field, value),
        }
    }

    fn value(&mut self, field: &FieldSchema, value: &Value) -> Check {
        match value {
            Value::Struct(value) => self.structure(value),
            Value::Array(elements) => {
                self.eat("[")?;
                for (index, element) in elements.iter().enumerate() {
                    self.eat(if index > 0 { ", " } else { "" })?;
                    self.value(field, element)?;
                }
                self.eat("]")
            }
            Value::Int(number) => self.eat(&number_text(field, *number)),
            _ => self.eat(&format!("{value:?}")),
        }
    }

    fn eat(&mut self, text: &str) -> Check {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.fail(text),
        }
    }

    fn fail(&self, expected: &str) -> Check {
        let before: String =
            self.whole[..self.whole.len() - self.rest.len()].chars().rev().take(40).collect();
        let before: String = before.chars().rev().collect();
        let (found, expected) = (self.rest.chars().take(30).collect::<String>(), expected.chars().take(30));
        let expected: String = expected.collect();
        Err(format!("the generated value shows …{before}{found}… instead of …{expected}…"))
    }
}

/// Numbers with a type of their own have names.
fn number_text(field: &FieldSchema, number: i64) -> String {
    match (field.ty, field.name) {
        (FieldType::Int16, name) if name.ends_with("ErrorCode") => format!("{:?}", ErrorCode(number as i16)),
        (_, "AcknowledgeType" | "AcknowledgeTypes") => format!("{:?}", AcknowledgeType(number as i8)),
        _ => number.to_string(),
    }
}
