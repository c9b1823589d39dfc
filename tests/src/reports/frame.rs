//! Cases about frames.

use allocation_counter::measure;
use kafka_protocol::connection::decode_request_header;
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::schema::MessageKind;
use kafka_protocol::protocol::{Api, ApiKey, Message, frame};
use kafka_protocol::wire::{Bytes, BytesMut, TaggedFields};
use serde_json::{Value as Json, json};

use super::{Case, category, input, list};
use crate::vectors::{Check, same_bytes, unhex};

pub(super) fn check(case: &Case<'_>) -> Check {
    let (bytes, expected) = (input(case.raw)?, case.expected);
    if !expected["limit"].is_null() {
        return check_limit(&bytes, expected);
    }
    let (frames, left) = split(&bytes)?;
    if !expected["frames"].is_null() {
        return check_frames(case, &frames, &left, bytes.len());
    }
    let [content] = &frames[..] else { return Err(format!("{} frames", frames.len())) };
    same_bytes("behind the frame", &[], &left)?;
    if case.schema()?.kind == MessageKind::Request {
        check_request(case, content)
    } else {
        check_response(case, content, case.version()?)
    }
}

/// A size above the limit is refused at once, and no memory is taken for it.
fn check_limit(bytes: &Bytes, expected: &Json) -> Check {
    let limit = expected["limit"].as_u64().and_then(|limit| limit.try_into().ok()).ok_or("no limit")?;
    let mut buffer = BytesMut::from(&bytes[..]);
    let mut split = Ok(None);
    let memory = measure(|| split = frame::split(&mut buffer, limit)).bytes_max;
    let Err(error) = split else { return Err("the frame is not refused".to_owned()) };
    category::expect("frame", &error, category::of_frame(&error), &expected["err"])?;
    if let (frame::FrameError::TooLarge { size, .. }, Some(declared)) =
        (&error, expected["declared_size"].as_u64())
        && *size as u64 != declared
    {
        return Err(format!("size {size} instead of {declared}"));
    }
    match expected["max_alloc_bytes"].as_u64() {
        Some(max) if memory > max => Err(format!("takes {memory} bytes of memory, at most {max} allowed")),
        _ => Ok(()),
    }
}

fn split(bytes: &Bytes) -> Result<(Vec<Bytes>, BytesMut), String> {
    let mut buffer = BytesMut::from(&bytes[..]);
    let mut frames = Vec::new();
    while let Some(frame) =
        frame::split(&mut buffer, frame::DEFAULT_MAX_SIZE).map_err(|error| error.to_string())?
    {
        frames.push(frame);
    }
    Ok((frames, buffer))
}

fn check_frames(case: &Case<'_>, frames: &[Bytes], left: &[u8], length: usize) -> Check {
    let expected = list(&case.expected["frames"]);
    if frames.len() != expected.len() {
        return Err(format!("{} frames instead of {}", frames.len(), expected.len()));
    }
    same_bytes("left", &unhex(&case.expected["left_hex"])?, left)?;
    if case.expected["total_len"].as_u64().is_some_and(|total| total != length as u64) {
        return Err(format!("{length} bytes in all"));
    }
    for (frame, expected) in frames.iter().zip(expected) {
        let id = frame.first_chunk().map(|id| i64::from(i32::from_be_bytes(*id)));
        if id != expected["correlation_id"].as_i64() {
            return Err(format!("correlation id {id:?} instead of {}", expected["correlation_id"]));
        }
        if !expected["payload_hex"].is_null() {
            same_bytes("content", &unhex(&expected["payload_hex"])?, frame)?;
        }
        if !expected["ok"].is_null() {
            let version = case.version()?;
            let mut body = frame.clone();
            let header_version = api(case)?.response_header.of(version);
            ResponseHeader::decode_prefix(&mut body, header_version).map_err(|error| error.to_string())?;
            case.check_read(&body, version, &expected["ok"], &Json::Null)?;
        }
    }
    Ok(())
}

fn check_request(case: &Case<'_>, content: &Bytes) -> Check {
    let (expected, version) = (case.expected, case.version()?);
    let mut body = content.clone();
    let header = decode_request_header(&mut body).map_err(|error| error.to_string())?;
    let RequestHeader { request_api_key, request_api_version, correlation_id, client_id, .. } = &header;
    let found = json!({
        "header_version": api(case)?.request_header.of(version),
        "api_key": request_api_key,
        "api_version": request_api_version,
        "correlation_id": correlation_id,
        "client_id": client_id.as_deref(),
    });
    check_members(expected, &found)?;
    check_tags(&expected["header_unknown_tags"], &header.unknown_tagged_fields)?;
    if expected["err"].is_null() {
        case.check_read(&body, version, &expected["ok"], &Json::Null)?;
        Ok(())
    } else {
        case.check_each_refuses(&body, version, &expected["err"])
    }
}

fn check_response(case: &Case<'_>, content: &Bytes, version: i16) -> Check {
    let mut body = content.clone();
    let header_version = api(case)?.response_header.of(version);
    let header =
        ResponseHeader::decode_prefix(&mut body, header_version).map_err(|error| error.to_string())?;
    let found = json!({"header_version": header_version, "correlation_id": header.correlation_id});
    check_members(case.expected, &found)?;
    case.check_read(&body, version, &case.expected["ok"], &Json::Null)?;
    Ok(())
}

/// What the case says of the header.
fn check_members(expected: &Json, found: &Json) -> Check {
    for (name, found) in found.as_object().into_iter().flatten() {
        if !expected[name].is_null() && expected[name] != *found {
            return Err(format!("{name} is {found} instead of {}", expected[name]));
        }
    }
    Ok(())
}

fn check_tags(expected: &Json, found: &TaggedFields) -> Check {
    let mut tags = TaggedFields::default();
    for field in list(expected) {
        let tag = field["tag"].as_u64().unwrap_or_default() as u32;
        tags.push(tag, unhex(&field["hex"])?).map_err(|fault| format!("tag {tag}: {fault:?}"))?;
    }
    if tags == *found { Ok(()) } else { Err(format!("unknown tags {found:?} instead of {tags:?}")) }
}

fn api(case: &Case<'_>) -> Result<&'static Api, String> {
    let key = case.schema()?.api_key.ok_or("a message of no API")?;
    ApiKey(key).api().ok_or_else(|| format!("there is no API {key}"))
}
