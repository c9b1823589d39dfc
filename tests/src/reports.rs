//! Runs public bug reports about Kafka's protocol, each an input with the right outcome: `tests/cases/cases.jsonl`.
//!
//! A line is a case. What it says of bytes is asked of the generated codec and of the interpreter, what it says of a
//! schema of its own is asked of the generator and of the interpreter. Record batches are read and written by the
//! records module.

mod adhoc;
mod batch;
mod category;
mod frame;
mod primitive;

use std::fs;
use std::path::Path;

use allocation_counter::measure;
use anyhow::{Context, Result, ensure};
use kafka_protocol::dynamic::{self, Struct, Value};
use kafka_protocol::json;
use kafka_protocol::protocol::{EncodeError, MessageSchema};
use kafka_protocol::wire::Bytes;
use serde_json::{Value as Json, json};

use crate::vectors::{
    Build, Check, Generated, Outcome, build, carrier, is_shown_as, same_bytes, same_shown, same_value, unhex,
};

#[cfg(test)]
pub(crate) use batch::crc_32c;

/// Semantic cases that are tests written by hand, in `tests/src/cases.rs`.
const TESTS: &[(&str, &str)] = &[
    ("B70", "b70_headers_by_api_and_version"),
    ("B80", "b80_a_broker_without_our_version_is_asked_again"),
    ("B84", "b84_removed_and_unknown_keys_are_no_apis"),
    ("B94", "b94_defaults"),
    ("B157", "b157_structs_of_one_name_in_several_messages"),
    ("B161", "b161_unknown_tags_count_for_equality"),
];

/// Semantic cases that are nothing to test here.
const NOT_HERE: &[(&str, &str)] = &[("B158", "measured by `cargo xtask bench build`")];

/// What came of a file of cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The cases that were run.
    pub outcome: Outcome,
    /// The others, a line each.
    pub notes: Vec<String>,
}

/// Runs the cases of a file.
///
/// # Errors
///
/// The file cannot be read or is not JSON, or there are no cases.
pub fn run(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut report = Report::default();
    for (line, text) in text.lines().enumerate() {
        let case: Json =
            serde_json::from_str(text).with_context(|| format!("{}:{}", path.display(), line + 1))?;
        run_case(&case, &mut report);
    }
    let n = report.outcome.passed + report.outcome.failures.len();
    ensure!(n > 0, "{}: there are no cases", path.display());
    Ok(report)
}

fn run_case(raw: &Json, report: &mut Report) {
    let id = raw["id"].as_str().unwrap_or("case without id");
    let name = format!("{id} {}", raw["title"].as_str().unwrap_or_default());
    let listed = |key: &str, table: &[(&str, &'static str)]| Some(table.iter().find(|it| it.0 == key)?.1);
    let about = raw["message"].as_str().unwrap_or_default();
    if raw["kind"] != "semantic" {
        report.outcome.case(&name, || match about {
            "record batch v2" => batch::check(raw),
            "primitive" => primitive::check(raw),
            _ => Case::new(raw)?.check(),
        });
    } else if let Some(test) = listed(id, TESTS) {
        report.notes.push(format!("{name}: test cases::{test}"));
    } else if let Some(reason) = listed(id, NOT_HERE) {
        report.notes.push(format!("{name}: {reason}"));
    } else {
        report.notes.push(format!("{name}: semantic, and not a test here"));
    }
}

/// Who writes a value, and what.
type Written = (&'static str, Result<Bytes, EncodeError>);

/// A case and the message that it is about.
struct Case<'a> {
    raw: &'a Json,
    expected: &'a Json,
    /// Of the messages that are compiled.
    generated: Option<&'static Generated>,
    /// `None` if the schema of the case is refused, or has no codec.
    schema: Option<&'static MessageSchema>,
}

impl<'a> Case<'a> {
    fn new(raw: &'a Json) -> Result<Self, String> {
        let generated = raw["message"].as_str().and_then(|message| Generated::all().get(message));
        let schema = match adhoc::text(raw) {
            Some(text) => adhoc::schema(&text).ok().flatten(),
            None => generated.map(|generated| generated.schema),
        };
        Ok(Self { raw, expected: &raw["expected"], generated, schema })
    }

    fn check(&self) -> Check {
        match self.raw["kind"].as_str() {
            Some("decode") => self.check_decode(),
            Some("encode") => self.check_encode(),
            Some("framing") => frame::check(self),
            Some("schema") => self.check_schema(),
            kind => Err(format!("nothing is known of the kind {kind:?}")),
        }
    }

    fn schema(&self) -> Result<&'static MessageSchema, String> {
        self.schema.ok_or_else(|| format!("there is no {}", self.raw["message"]))
    }

    fn version(&self) -> Result<i16, String> {
        version(&self.raw["version"])
    }

    fn check_decode(&self) -> Check {
        let (bytes, version_of_case) = (input(self.raw)?, self.version()?);
        if !self.expected["err"].is_null() {
            let others = list(&self.expected["also_versions"]);
            let versions = others.iter().map(version).chain([Ok(version_of_case)]);
            return versions.into_iter().try_for_each(|version| self.check_refused(&bytes, version?));
        }
        let value =
            self.check_read(&bytes, version_of_case, &self.expected["ok"], &self.expected["unknown_tags"])?;
        for (path, json) in self.expected["defaults"].as_object().into_iter().flatten() {
            match value.get(path) {
                Some(value) if shows(value, json) => {}
                value => return Err(format!("{path} is {value:?} instead of {json}")),
            }
        }
        if self.expected["reencode"] == "same" {
            self.check_written(&value, version_of_case, &bytes)?;
        }
        if !self.expected["every_prefix_err"].is_null() {
            for n in 0..bytes.len() {
                self.check_each_refuses(
                    &bytes.slice(..n),
                    version_of_case,
                    &self.expected["every_prefix_err"],
                )
                .map_err(|difference| format!("{n} bytes: {difference}"))?;
            }
        }
        Ok(())
    }

    /// Both refuse, for one of the given reasons, without taking more memory than allowed.
    fn check_refused(&self, bytes: &Bytes, version: i16) -> Check {
        let mut done = Ok(());
        let memory =
            measure(|| done = self.check_each_refuses(bytes, version, &self.expected["err"])).bytes_max;
        done?;
        match self.expected["max_alloc_bytes"].as_u64() {
            Some(max) if memory > max => {
                Err(format!("takes {memory} bytes of memory, at most {max} allowed"))
            }
            _ => Ok(()),
        }
    }

    fn check_each_refuses(&self, bytes: &Bytes, version: i16, categories: &Json) -> Check {
        match dynamic::decode(self.schema()?, bytes, version) {
            Ok(value) => return Err(format!("interpreter reads {value:?}")),
            Err(error) => {
                category::expect(
                    "interpreter",
                    &error,
                    category::of_decode(&error, bytes.len()),
                    categories,
                )?;
            }
        }
        match self.generated.map(|generated| (generated.decode)(bytes, version, version)) {
            Some(Ok(said)) => Err(format!("generated code reads {}", said.shown)),
            Some(Err(error)) => category::expect(
                "generated code",
                &error,
                category::of_decode(&error, bytes.len()),
                categories,
            ),
            None => Ok(()),
        }
    }

    /// Both read the bytes, and the value is the given one.
    fn check_read(&self, bytes: &Bytes, version: i16, json: &Json, unknown: &Json) -> Result<Struct, String> {
        let schema = self.schema()?;
        let mut json = json.clone();
        let mut records = Vec::new();
        take_records("", &mut json, &mut records);
        let expected = match build(schema, version, &json, &Json::Array(records), unknown)? {
            Build::Value(value) => value,
            Build::Refused => return Err("unknown tags that do not ascend".to_owned()),
        };
        let value =
            dynamic::decode(schema, bytes, version).map_err(|error| format!("interpreter: {error}"))?;
        same_value("interpreter reads", &expected, &value)?;
        if let Some(generated) = self.generated {
            let said = (generated.decode)(bytes, version, version);
            same_shown(&value, &said.map_err(|error| format!("generated code: {error}"))?.shown)?;
        }
        Ok(value)
    }

    /// Both write the value like this; generated code reads it first, in a version that has all of it.
    fn check_written(&self, value: &Struct, version: i16, bytes: &[u8]) -> Check {
        for (who, encoded) in self.encode(value, version)? {
            same_bytes(
                &format!("{who} writes"),
                bytes,
                &encoded.map_err(|error| format!("{who}: {error}"))?,
            )?;
        }
        Ok(())
    }

    /// What both write; generated code only if a version has the whole value, which it cannot get otherwise.
    fn encode(&self, value: &Struct, version: i16) -> Result<Vec<Written>, String> {
        let schema = self.schema()?;
        let mut encoded = vec![("interpreter", dynamic::encode(value, schema, version).map(Bytes::from))];
        if let Some(generated) = self.generated
            && let Some((from, whole)) = carrier(schema, value, version)
        {
            let said = (generated.decode)(&whole, from, version).map_err(|error| error.to_string())?;
            encoded.push(("generated code", said.encoded));
        }
        Ok(encoded)
    }

    fn check_encode(&self) -> Check {
        let version = self.version()?;
        let value = self.value(&self.raw["value"], version)?;
        let expected = self.expected;
        if !expected["err"].is_null() {
            for (who, encoded) in self.encode(&value, version)? {
                let Err(error) = encoded else { return Err(format!("{who} writes it")) };
                category::expect(who, &error, category::of_encode(&error), &expected["err"])?;
            }
            return Ok(());
        }
        let encoded = dynamic::encode(&value, self.schema()?, version).map_err(|error| error.to_string())?;
        if !expected["hex"].is_null() {
            same_bytes("interpreter writes", &unhex(&expected["hex"])?, &encoded)?;
        }
        if !expected["hex_prefix"].is_null() {
            let start = unhex(&expected["hex_prefix"])?;
            same_bytes("interpreter starts with", &start, encoded.get(..start.len()).unwrap_or_default())?;
        }
        if let Some(length) = expected["encoded_len"].as_u64()
            && length != encoded.len() as u64
        {
            return Err(format!("{} bytes instead of {length}", encoded.len()));
        }
        // Whatever is right of the interpreter's bytes has to be right of the others.
        self.check_written(&value, version, &encoded)?;
        if !expected["hex_for_default"].is_null() {
            let value = self.value(&self.raw["value_default"], version)?;
            self.check_written(&value, version, &unhex(&expected["hex_for_default"])?)?;
        }
        if expected["and_decode_of_ffffffff"] == "err null-not-allowed" {
            let bytes = Bytes::from_static(&[0xff; 4]);
            self.check_each_refuses(&bytes, version, &json!(["null-not-allowed"]))?;
        }
        Ok(())
    }

    /// The value of a case that encodes. It may have fields that the version lacks.
    fn value(&self, json: &Json, version: i16) -> Result<Struct, String> {
        let mut json = json.clone();
        let unknown = json.as_object_mut().and_then(|members| members.remove("_unknown_tags"));
        let mut repeated = Vec::new();
        take_records("", &mut json, &mut repeated);
        let mut value =
            json::from_value(&json, self.schema()?, version).map_err(|error| error.to_string())?;
        for records in repeated {
            let path = records["path"].as_str().unwrap_or_default();
            value.set(path, unhex(&records["hex"])?).map_err(|error| error.to_string())?;
        }
        // In ascending order, as a value has them.
        let mut unknown = list(unknown.as_ref().unwrap_or(&Json::Null)).to_vec();
        unknown.sort_by_key(|field| field["tag"].as_u64());
        for field in unknown {
            let tag = field["tag"].as_u64().unwrap_or_default() as u32;
            let pushed = value.unknown_tagged_fields.push(tag, unhex(&field["hex"])?);
            pushed.map_err(|fault| format!("tag {tag}: {fault:?}"))?;
        }
        Ok(value)
    }

    fn check_schema(&self) -> Check {
        let text = adhoc::text(self.raw).ok_or("no schema")?;
        let model = adhoc::model(&text);
        match (&model, self.expected["accept"] == true) {
            (Ok(_), true) => {}
            (Err(_), false) => {}
            (Err(error), true) if self.expected["or_clear_error"] == true && !error.is_empty() => {
                return Ok(());
            }
            (Err(error), true) => return Err(format!("the generator refuses it: {error}")),
            (Ok(_), false) => return Err("the generator accepts it".to_owned()),
        }
        for other in list(&self.raw["also"]) {
            let text = adhoc::with_tags(&self.raw["schema"], list(&other["tags"]))?;
            if adhoc::model(&text).is_ok() != (other["accept"] == true) {
                return Err(format!("another judgement of tags {}", other["tags"]));
            }
        }
        if self.expected["codec"] == false {
            let model = model?;
            let key = self.raw["schema"]["apiKey"].as_i64();
            let kept = model
                .families
                .iter()
                .flat_map(|family| &family.removed)
                .any(|api| Some(api.api_key.into()) == key);
            let has_codec = model.families.iter().any(|family| !family.messages.is_empty());
            return if kept && !has_codec { Ok(()) } else { Err("a codec, or no key".to_owned()) };
        }
        for check in list(&self.raw["encode_checks"]) {
            let version = version(&check["ver"])?;
            let value = self.value(&check["value"], version)?;
            self.check_written(&value, version, &unhex(&check["hex"])?)?;
        }
        Ok(())
    }
}

/// Moves what stands for the content of records out of JSON: `hex:00ff`, or `{"repeat_hex": "00", "count": 3}`.
fn take_records(path: &str, json: &mut Json, taken: &mut Vec<Json>) {
    let hex = match &*json {
        Json::String(text) => text.strip_prefix("hex:").map(str::to_owned),
        Json::Object(members) => match (members.get("repeat_hex"), members.get("count")) {
            (Some(hex), Some(count)) => {
                Some(hex.as_str().unwrap_or_default().repeat(count.as_u64().unwrap_or_default() as usize))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(hex) = hex {
        taken.push(json!({"path": path, "hex": hex}));
        *json = "".into();
        return;
    }
    match json {
        Json::Object(members) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, json) in members {
                take_records(&format!("{path}{dot}{name}"), json, taken);
            }
        }
        Json::Array(elements) => {
            for (index, json) in elements.iter_mut().enumerate() {
                take_records(&format!("{path}[{index}]"), json, taken);
            }
        }
        _ => {}
    }
}

/// Whether a value is the given JSON; of structs only the given members count.
fn shows(value: &Value, json: &Json) -> bool {
    match (value, json) {
        (Value::Struct(value), Json::Object(members)) => {
            members.iter().all(|(name, json)| value.get(name).is_some_and(|value| shows(value, json)))
        }
        _ => is_shown_as(value, json),
    }
}

/// The bytes of a case, given whole or as parts that repeat.
fn input(raw: &Json) -> Result<Bytes, String> {
    if raw["input_parts"].is_null() {
        return unhex(&raw["input_hex"]);
    }
    let mut bytes = Vec::new();
    for part in list(&raw["input_parts"]) {
        let count =
            part[1].as_u64().and_then(|count| count.try_into().ok()).ok_or("a part without a count")?;
        bytes.extend(unhex(&part[0])?.repeat(count));
    }
    Ok(bytes.into())
}

fn version(json: &Json) -> Result<i16, String> {
    json.as_i64().and_then(|version| version.try_into().ok()).ok_or_else(|| format!("{json} is no version"))
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod test {
    use std::path::Path;

    use super::run;

    #[test]
    fn cases_of_the_repository() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/cases.jsonl");
        let report = run(&file).expect("cases");
        assert!(report.outcome.failures.is_empty(), "{:#?}", report.outcome.failures);
        assert_eq!((report.outcome.passed, report.notes.len()), (99, 7));
    }
}
