//! Tables: APIs, error codes, defaults.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::dynamic::{Struct, Value, default_value};
use kafka_protocol::protocol::schema::{FieldSchema, FieldType, StructSchema};
use kafka_protocol::protocol::{Api, ApiKey, ErrorCode, Listener};
use serde_json::Value as Json;

use super::case::version;
use super::{Check, Generated, Outcome, same_shown};

pub(crate) fn run_apis(apis: &[Json], outcome: &mut Outcome) {
    let mut listed = BTreeSet::new();
    for raw in apis {
        listed.extend(version(&raw["key"]));
        outcome.case(format!("API {} {}", raw["key"], raw["name"]), || check_api(raw));
    }
    for api in ApiKey::all().filter(|api| !listed.contains(&api.key.0)) {
        outcome.case(format!("API {:?}", api.key), || Err("is not in the table".to_owned()));
    }
}

fn check_api(raw: &Json) -> Check {
    let api = ApiKey(version(&raw["key"])?).api().ok_or("there is none")?;
    expect("name", raw["name"].as_str(), Some(api.name))?;
    expect("removed", raw["removed"] == true, api.is_removed())?;
    if api.is_removed() {
        return Ok(());
    }
    expect("first version", version(&raw["min"])?, api.versions.min())?;
    expect("last version", version(&raw["max"])?, api.versions.max())?;
    let stable = version(&raw["maxStable"]).ok().filter(|&version| version >= api.versions.min());
    expect("last stable version", stable, api.latest_stable_version())?;
    let listeners: BTreeSet<_> = list(&raw["listeners"]).iter().map(Json::as_str).collect();
    expect("listeners", listeners, api.listeners.iter().map(|it| Some(listener_name(*it))).collect())?;

    let rows = list(&raw["versions"]);
    let versions = rows.iter().map(|row| version(&row["version"])).collect::<Result<Vec<_>, _>>()?;
    expect("versions", versions, api.versions.iter().collect())?;
    rows.iter().try_for_each(|row| check_headers(row, api))
}

fn check_headers(row: &Json, api: &Api) -> Check {
    let of = version(&row["version"])?;
    expect(&format!("request header of v{of}"), version(&row["requestHeader"])?, api.request_header.of(of))?;
    expect(&format!("response header of v{of}"), version(&row["responseHeader"])?, api.response_header.of(of))
}

fn listener_name(listener: Listener) -> &'static str {
    match listener {
        Listener::ZkBroker => "ZK_BROKER",
        Listener::Broker => "BROKER",
        Listener::Controller => "CONTROLLER",
    }
}

pub(crate) fn run_errors(errors: &[Json], outcome: &mut Outcome) {
    let mut listed = BTreeSet::new();
    for raw in errors {
        listed.extend(version(&raw["code"]));
        outcome.case(format!("error {} {}", raw["code"], raw["name"]), || {
            let code = ErrorCode(version(&raw["code"])?);
            expect("name", raw["name"].as_str(), code.name())?;
            expect("retriable", raw["retriable"].as_bool(), Some(code.is_retriable()))
        });
    }
    for code in ErrorCode::ALL.iter().filter(|code| !listed.contains(&code.0)) {
        outcome.case(format!("error {code:?}"), || Err("is not in the table".to_owned()));
    }
}

pub(crate) fn run_defaults(
    messages: &[Json],
    generated: &BTreeMap<&'static str, Generated>,
    outcome: &mut Outcome,
) {
    for raw in messages {
        let message = raw["message"].as_str().unwrap_or("no message");
        outcome.case(format!("{message} defaults"), || {
            let generated = generated.get(message).ok_or("there is no such message")?;
            check_defaults(raw, generated)
        });
    }
}

fn check_defaults(raw: &Json, generated: &Generated) -> Check {
    let root = generated.schema.root;
    let defaults = raw["defaults"].as_object().ok_or("no defaults")?;
    for (path, json) in defaults {
        let field = find(root, path).ok_or_else(|| format!("{path}: there is no such field"))?;
        let value = default_value(field);
        if !is_shown_as(&value, json) {
            return Err(format!("{path} is {value:?} instead of {json}"));
        }
    }
    let mut paths = Vec::new();
    all_paths(root, "", &mut paths);
    if let Some(path) = paths.iter().find(|path| !defaults.contains_key(*path)) {
        return Err(format!("{path} is not in the table"));
    }
    let version = generated.schema.versions.max();
    same_shown(&Struct::new(root), &(generated.default)(version).shown)
}

/// The field at a path of Kafka's table.
fn find(strukt: &'static StructSchema, path: &str) -> Option<&'static FieldSchema> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = first.strip_suffix("[]").unwrap_or(first);
    let field = fields(strukt).find(|field| json_name(field) == name)?;
    if rest.is_empty() { Some(field) } else { find(inner(field.ty)?, rest) }
}

/// Also those that are retired, which Kafka's classes have.
fn fields(strukt: &'static StructSchema) -> impl Iterator<Item = &'static FieldSchema> {
    strukt.fields.iter().chain(strukt.retired)
}

fn inner(ty: FieldType) -> Option<&'static StructSchema> {
    match ty {
        FieldType::Struct(schema) => Some(schema),
        FieldType::Array(element) => inner(*element),
        _ => None,
    }
}

fn all_paths(strukt: &'static StructSchema, before: &str, paths: &mut Vec<String>) {
    for field in fields(strukt) {
        let path = format!("{before}{}", json_name(field));
        if let Some(inner) = inner(field.ty) {
            let element = if matches!(field.ty, FieldType::Array(_)) { "[]" } else { "" };
            all_paths(inner, &format!("{path}{element}."), paths);
        }
        paths.push(path);
    }
}

fn json_name(field: &FieldSchema) -> String {
    let (first, rest) = field.name.split_at(1);
    format!("{}{rest}", first.to_ascii_lowercase())
}

/// Whether a value is this JSON; of arrays and structs only those that show nothing.
pub(crate) fn is_shown_as(value: &Value, json: &Json) -> bool {
    match value {
        Value::Null => json.is_null(),
        Value::Bool(it) => json.as_bool() == Some(*it),
        Value::Int(it) => json.as_i64() == Some(*it),
        Value::Float(it) => json.as_f64().map(f64::to_bits) == Some(it.to_bits()),
        Value::Uuid(it) => json.as_str() == Some(&uuid_text(it.as_bytes())),
        Value::String(it) => json.as_str() == Some(it),
        Value::Bytes(it) => it.is_empty() && json == "",
        Value::Array(it) => it.is_empty() && *json == Json::Array(Vec::new()),
        Value::Struct(_) => json.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

/// Base64 for URLs, without padding.
fn uuid_text(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sextets = bytes.chunks(3).flat_map(|bytes| {
        let number =
            bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)) << (8 * (3 - bytes.len()));
        (0..=bytes.len()).map(move |n| number >> (18 - 6 * n) & 63)
    });
    sextets.map(|sextet| char::from(LETTERS[sextet as usize])).collect()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Check {
    if expected == found { Ok(()) } else { Err(format!("{what} {found:?} instead of {expected:?}")) }
}
