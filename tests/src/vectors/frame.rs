//! Whole frames.

use std::collections::BTreeMap;

use kafka_protocol::messages::{AnyRequest, AnyResponse};
use kafka_protocol::protocol::schema::MessageKind;
use kafka_protocol::protocol::{Api, ApiKey, frame};
use kafka_protocol::wire::{Bytes, BytesMut};
use serde_json::Value as Json;

use super::case::version;
use super::{Case, Check, Generated, Outcome, same_bytes, unhex};

pub(crate) fn run(frames: &[Json], generated: &BTreeMap<&'static str, Generated>, outcome: &mut Outcome) {
    for raw in frames {
        let message = raw["message"].as_str().unwrap_or("frame of no message");
        outcome.case(format!("{message} v{} frame", raw["version"]), || check(raw, generated));
    }
}

fn check(raw: &Json, all: &BTreeMap<&'static str, Generated>) -> Check {
    let message = |name: &str| all.get(name).ok_or_else(|| format!("there is no {name}"));
    let body = message(raw["message"].as_str().ok_or("no message")?)?;
    let is_request = body.schema.kind == MessageKind::Request;
    let header = message(if is_request { "RequestHeader" } else { "ResponseHeader" })?;
    let (api_key, version_of_api) = (ApiKey(version(&raw["apiKey"])?), version(&raw["version"])?);
    let header_version = version(&raw["headerVersion"])?;
    let body_version = match &raw["bodyVersion"] {
        Json::Null => version_of_api,
        json => version(json)?,
    };

    let api = api_key.api().ok_or_else(|| format!("{api_key}"))?;
    if body.schema.api_key != Some(api_key.0) {
        return Err(format!("{} is not of {api_key:?}", body.schema.name));
    }
    let Api { request_header, response_header, .. } = api;
    let rule = if is_request { request_header } else { response_header }.of(version_of_api);
    if rule != header_version {
        return Err(format!("header {rule} instead of {header_version}"));
    }

    let bytes = unhex(&raw["hex"])?;
    let mut buffer = BytesMut::from(&bytes[..]);
    let content = frame::split(&mut buffer, frame::DEFAULT_MAX_SIZE).map_err(|error| error.to_string())?;
    let content = content.ok_or("not a whole frame")?;
    same_bytes("bytes behind the frame", &[], &buffer)?;
    if is_request && frame::peek_request(&content) != Some((api_key, version_of_api)) {
        return Err(format!("peek_request gives {:?}", frame::peek_request(&content)));
    }

    let mut rest = content.clone();
    (header.decode_prefix)(&mut rest, header_version, header_version).map_err(|error| error.to_string())?;
    let header_bytes = content.slice(..content.len() - rest.len());
    let header_raw = serde_json::json!({"json": raw["header"]});
    Case { generated: header, raw: &header_raw, version: header_version }
        .check_valid(&header_bytes)
        .map_err(|error| format!("header: {error}"))?;
    Case { generated: body, raw, version: body_version }.check_valid(&rest)?;
    check_any(is_request, api_key, &rest, body_version)
}

/// The enums of all messages know it too.
fn check_any(is_request: bool, api_key: ApiKey, body: &Bytes, version: i16) -> Check {
    let encoded = if is_request {
        let decoded =
            AnyRequest::decode(api_key, body.clone(), version).map_err(|error| error.to_string())?;
        decoded.encode(version)
    } else {
        let decoded =
            AnyResponse::decode(api_key, body.clone(), version).map_err(|error| error.to_string())?;
        decoded.encode(version)
    };
    same_bytes("the enum of all messages encodes", body, &encoded.map_err(|error| error.to_string())?)
}
