//! The cases of one message.

use std::collections::BTreeMap;

use kafka_protocol::json::JsonReason;
use kafka_protocol::protocol::{DecodeError, DecodeReason, EncodeError, EncodeReason, MessageSchema};
use kafka_protocol::wire::Bytes;
use kafka_protocol::{dynamic, json};
use serde_json::Value as Json;

use super::damage::Damage;
use super::generated::Said;
use super::origin::Origins;
use super::{
    Build, Check, Generated, Outcome, build, carrier, same_bytes, same_json, same_shown, same_value, unhex,
};

pub(crate) fn run(
    message: &str,
    cases: &[Json],
    generated: &BTreeMap<&'static str, Generated>,
    outcome: &mut Outcome,
) {
    let generated = generated.get(message);
    let origins = generated.map(|generated| Origins::new(generated.schema, cases));
    for raw in cases {
        outcome.case(name(message, raw), || {
            let (generated, origins) = generated.zip(origins.as_ref()).ok_or("there is no such message")?;
            let case = Case { generated, raw, version: version(&raw["version"])? };
            case.check()?;
            if raw["mutation"].is_null() { Ok(()) } else { origins.check(&case.damage(&case.bytes()?)?) }
        });
    }
}

/// Message, version and kind, and what tells cases of a kind apart.
fn name(message: &str, raw: &Json) -> String {
    let mut name = format!("{message} v{} {}", raw["version"], raw["kind"].as_str().unwrap_or("of no kind"));
    for detail in ["reason", "mutation", "path"] {
        if let Some(text) = raw[detail].as_str().filter(|text| !text.is_empty()) {
            name.push(' ');
            name.push_str(text);
        }
    }
    if let Some(at) = raw["at"].as_u64() {
        name.push_str(&format!(" at {at}"));
    }
    name
}

pub(crate) fn version(json: &Json) -> Result<i16, String> {
    json.as_i64().and_then(|version| version.try_into().ok()).ok_or_else(|| format!("{json} is no version"))
}

/// What interpreter and generated code have to agree with.
pub(crate) struct Case<'a> {
    pub(crate) generated: &'a Generated,
    pub(crate) raw: &'a Json,
    pub(crate) version: i16,
}

impl Case<'_> {
    fn check(&self) -> Check {
        match self.raw["kind"].as_str().ok_or("a case of no kind")? {
            "ignored" => self.check_ignored(),
            "encode-error" => self.check_encode_error(),
            "decode-error" => self.check_decode_error(),
            "decode-lenient" => self.check_decode_lenient(),
            "trailing" => self.check_trailing(),
            _ => self.check_valid(&self.bytes()?),
        }
    }

    fn schema(&self) -> &'static MessageSchema {
        self.generated.schema
    }

    fn bytes(&self) -> Result<Bytes, String> {
        unhex(&self.raw["hex"])
    }

    fn text(&self, member: &str) -> &str {
        self.raw[member].as_str().unwrap_or_default()
    }

    fn build(&self, version: i16) -> Result<Build, String> {
        let Self { raw, .. } = self;
        build(self.schema(), version, &raw["json"], &raw["records"], &raw["unknown"])
    }

    fn value(&self, version: i16) -> Result<dynamic::Struct, String> {
        match self.build(version)? {
            Build::Value(value) => Ok(value),
            Build::Refused => Err("unknown tags that do not ascend".to_owned()),
        }
    }

    /// Value and bytes give each other.
    pub(crate) fn check_valid(&self, bytes: &Bytes) -> Check {
        let Self { generated, raw, version } = *self;
        let schema = self.schema();
        let value = self.value(version)?;

        let encoded = dynamic::encode(&value, schema, version).map_err(|error| interpreter(&error))?;
        same_bytes("interpreter encodes", bytes, &encoded)?;
        let decoded = dynamic::decode(schema, bytes, version).map_err(|error| interpreter(&error))?;
        same_value("interpreter decodes", &value, &decoded)?;
        let json = json::to_value(&decoded, schema, version).map_err(|error| interpreter(&error))?;
        same_json("JSON of the interpreter", &raw["json"], &json)?;

        let said = (generated.decode)(bytes, version, version).map_err(|error| generated_code(&error))?;
        same_shown(&value, &said.shown)?;
        same_encoded(bytes, &said)?;
        let json = said.json.map_err(|error| generated_code(&error))?;
        same_json("JSON of generated code", &raw["json"], &json)?;

        // Of the others JSON does not have everything.
        let json_is_all = ["records", "unknown"].iter().all(|member| raw[member].is_null());
        if json_is_all && !has_null_records(&format!("{value:?}"), schema) {
            let said =
                (generated.from_json)(&raw["json"], version).map_err(|error| generated_code(&error))?;
            same_shown(&value, &said.shown)?;
            same_encoded(bytes, &said)?;
        }
        Ok(())
    }

    /// What the version lacks is dropped.
    fn check_ignored(&self) -> Check {
        let Self { generated, version, .. } = *self;
        let (bytes, json_version) = (self.bytes()?, self.json_version()?);
        let value = self.value(json_version)?;
        let encoded = dynamic::encode(&value, self.schema(), version).map_err(|error| interpreter(&error))?;
        same_bytes("interpreter encodes", &bytes, &encoded)?;

        let whole = carrier(self.schema(), &value, json_version);
        let (from, whole) = whole.ok_or("no version carries the whole value")?;
        let said = (generated.decode)(&whole, from, version).map_err(|error| generated_code(&error))?;
        same_shown(&value, &said.shown)?;
        same_encoded(&bytes, &said)
    }

    fn check_encode_error(&self) -> Check {
        let Self { generated, version, .. } = *self;
        let json_version = self.json_version()?;
        if self.text("reason") == "no-version" {
            return self.check_retired(json_version);
        }
        let value = match self.build(json_version)? {
            Build::Value(value) => value,
            Build::Refused if self.text("reason") == "tags-descending" => return Ok(()),
            Build::Refused => return Err("unknown tags that do not ascend".to_owned()),
        };
        let Err(error) = dynamic::encode(&value, self.schema(), version) else {
            return Err("interpreter encodes it".to_owned());
        };
        self.check_reason(&error).map_err(|what| format!("interpreter: {what}"))?;
        // Some values are in no bytes, so that generated code can only come to hold them by hand: `version_limits`.
        if let Some((from, whole)) = carrier(self.schema(), &value, json_version) {
            let said = (generated.decode)(&whole, from, version).map_err(|error| generated_code(&error))?;
            same_shown(&value, &said.shown)?;
            let Err(error) = said.encoded else { return Err("generated code encodes it".to_owned()) };
            self.check_reason(&error).map_err(|what| format!("generated code: {what}"))?;
        } else if !self.is_in_no_bytes() {
            return Err("no version carries the whole value".to_owned());
        }
        Ok(())
    }

    /// No value has a field of no valid version, so that JSON is where it is refused.
    fn check_retired(&self, json_version: i16) -> Check {
        let refused = [
            ("interpreter", json::from_value(&self.raw["json"], self.schema(), json_version).err()),
            ("generated code", (self.generated.from_json)(&self.raw["json"], json_version).err()),
        ];
        for (who, error) in refused {
            match error {
                Some(error)
                    if matches!(error.reason(), JsonReason::Retired { .. })
                        && error.path() == self.text("path") => {}
                Some(error) => return Err(format!("{who} refuses for another reason: {error}")),
                None => return Err(format!("{who} reads it from JSON")),
            }
        }
        Ok(())
    }

    /// Strings that are too long, null records, tags of a message without flexible versions.
    fn is_in_no_bytes(&self) -> bool {
        match self.text("reason") {
            "string-too-long" | "default-inner" => true,
            "tags-not-flexible" => {
                self.schema().flexible_versions.intersect(self.schema().versions).is_empty()
            }
            _ => false,
        }
    }

    /// Kafka's reason, and the place if the vector has one.
    fn check_reason(&self, error: &EncodeError) -> Check {
        let right = match self.text("reason") {
            "not-in-version" => matches!(error.reason(), EncodeReason::NotInVersion { .. }),
            "null" | "default-inner" => matches!(error.reason(), EncodeReason::Null { .. }),
            "tags-not-flexible" => matches!(error.reason(), EncodeReason::TagsNotInVersion { .. }),
            "string-too-long" => *error.reason() == EncodeReason::StringTooLong,
            _ => true,
        };
        let path = match (self.text("reason"), rust_path(self.text("path"))) {
            ("tags-not-flexible", path) if path.is_empty() => "unknown_tagged_fields".to_owned(),
            ("tags-not-flexible", path) => path + ".unknown_tagged_fields",
            (_, path) => path,
        };
        if !right || !(path.is_empty() || path == error.path()) {
            return Err(format!("refused for another reason: {error}"));
        }
        Ok(())
    }

    fn check_decode_error(&self) -> Check {
        let Self { generated, version, .. } = *self;
        let bytes = self.bytes()?;
        let Err(error) = dynamic::decode(self.schema(), &bytes, version) else {
            return Err("interpreter decodes it".to_owned());
        };
        let Err(other) = (generated.decode)(&bytes, version, version) else {
            return Err("generated code decodes it".to_owned());
        };
        if error != other {
            return Err(format!("interpreter says {error}, generated code {other}"));
        }
        if (generated.decode_prefix)(&mut bytes.clone(), version, version).is_ok() {
            return Err("the start is a message of its own".to_owned());
        }
        self.check_place(&bytes, &error)
    }

    /// Whether damaged bytes are refused for the damage.
    fn check_place(&self, bytes: &[u8], error: &DecodeError) -> Check {
        self.damage(bytes)?.check(error)
    }

    fn damage<'b>(&'b self, bytes: &'b [u8]) -> Result<Damage<'b>, String> {
        let at = self.raw["at"].as_u64().and_then(|at| at.try_into().ok()).ok_or("no byte is damaged")?;
        let (mutation, path) = (self.text("mutation"), self.text("path"));
        Ok(Damage { schema: self.schema(), version: self.version, bytes, mutation, path, at })
    }

    /// Both may refuse, for the damage. If they do not, they have to read what Kafka does. In any case that value and the bytes that
    /// Kafka writes of it give each other.
    fn check_decode_lenient(&self) -> Check {
        let Self { generated, raw, version } = *self;
        let bytes = self.bytes()?;
        let value = match (&raw["reencoded"], self.build(version)?) {
            (Json::Null, Build::Refused) => None,
            (Json::Null, Build::Value(_)) => return Err("nothing is wrong with the value".to_owned()),
            (hex, _) => {
                self.check_valid(&unhex(hex)?)?;
                Some(self.value(version)?)
            }
        };
        let interpreted = dynamic::decode(self.schema(), &bytes, version);
        match (value, interpreted, (generated.decode)(&bytes, version, version)) {
            (_, Err(error), Err(other)) if error == other => self.check_place(&bytes, &error),
            (Some(value), Ok(interpreted), Ok(said)) => {
                same_value("interpreter decodes", &value, &interpreted)?;
                same_shown(&value, &said.shown)
            }
            (_, interpreted, generated) => {
                let say = |error| match error {
                    Some(error) => format!("says {error}"),
                    None => "reads it".to_owned(),
                };
                let (interpreted, generated) = (say(interpreted.err()), say(generated.err()));
                Err(format!("interpreter {interpreted}, generated code {generated}"))
            }
        }
    }

    fn check_trailing(&self) -> Check {
        let Self { generated, raw, version } = *self;
        let bytes = self.bytes()?;
        let left =
            raw["left"].as_u64().and_then(|left| left.try_into().ok()).ok_or("no number of bytes left")?;
        let Some(length) = bytes.len().checked_sub(left) else {
            return Err("fewer bytes than left".to_owned());
        };
        let reason = DecodeReason::TrailingBytes { left };
        let refused = [
            ("interpreter", dynamic::decode(self.schema(), &bytes, version).err()),
            ("generated code", (generated.decode)(&bytes, version, version).err()),
        ];
        for (who, error) in refused {
            match error {
                Some(error) if *error.reason() == reason && error.offset() == length => {}
                Some(error) => return Err(format!("{who} says {error}")),
                None => return Err(format!("{who} decodes it")),
            }
        }
        let mut rest = bytes.clone();
        let value =
            dynamic::decode_prefix(self.schema(), &mut rest, version).map_err(|error| interpreter(&error))?;
        same_bytes("interpreter leaves", &bytes[length..], &rest)?;
        same_value("interpreter decodes", &self.value(version)?, &value)?;
        let mut rest = bytes.clone();
        let said =
            (generated.decode_prefix)(&mut rest, version, version).map_err(|error| generated_code(&error))?;
        same_bytes("generated code leaves", &bytes[length..], &rest)?;
        same_shown(&value, &said.shown)?;
        same_encoded(&unhex(&raw["reencoded"])?, &said)?;
        self.check_valid(&bytes.slice(..length))
    }

    fn json_version(&self) -> Result<i16, String> {
        version(&self.raw["jsonVersion"])
    }
}

fn same_encoded(bytes: &[u8], said: &Said) -> Check {
    match &said.encoded {
        Ok(encoded) => same_bytes("generated code encodes", bytes, encoded),
        Err(error) => Err(generated_code(error)),
    }
}

/// JSON has `""` for null records that no version allows to be null, and reads it as records without a byte.
fn has_null_records(shown: &str, schema: &MessageSchema) -> bool {
    format!("{:?}", schema.root).contains("ty: Records") && shown.contains("null")
}

fn interpreter(error: &impl std::fmt::Display) -> String {
    format!("interpreter: {error}")
}

fn generated_code(error: &impl std::fmt::Display) -> String {
    format!("generated code: {error}")
}

/// `topics[0].partitionIndex` as `topics[0].partition_index`.
fn rust_path(json_path: &str) -> String {
    let mut path = String::new();
    for letter in json_path.chars() {
        if letter.is_ascii_uppercase() {
            path.push('_');
        }
        path.push(letter.to_ascii_lowercase());
    }
    path
}
