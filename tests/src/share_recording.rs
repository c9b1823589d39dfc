//! Recordings of a broker with share groups, frame by frame: `tests/share/raw-*.jsonl.gz`.

use std::collections::HashMap;
use std::path::Path;

use kafka_protocol::connection::decode_request_header;
use kafka_protocol::messages::{
    CreateTopicsResponse, IncrementalAlterConfigsRequest, ProduceRequest, ResponseHeader,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatRequest,
};
use kafka_protocol::protocol::{DecodeError, Message};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use crate::vectors::{texts, unhex};

/// All recordings.
pub(crate) const NAMES: [&str; 7] =
    ["acknowledge", "fetch", "sessions", "more", "locks", "edge", "malformed"];

/// A frame, decoded.
pub(crate) struct Frame {
    /// Its line, from 1.
    pub(crate) line: usize,
    pub(crate) connection: u64,
    pub(crate) ms: u64,
    pub(crate) version: i16,
    pub(crate) correlation: i64,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    TopicsCreated(CreateTopicsResponse),
    Produce(ProduceRequest),
    Configs(IncrementalAlterConfigsRequest),
    Heartbeat(ShareGroupHeartbeatRequest),
    HeartbeatAnswer,
    Fetch(ShareFetchRequest),
    FetchAnswer(ShareFetchResponse),
    Acknowledge(ShareAcknowledgeRequest),
    AcknowledgeAnswer(ShareAcknowledgeResponse),
    /// A request to a share API that we refuse to decode, and why.
    Undecodable(String),
    /// What does not matter.
    Other,
}

/// Reads a recording.
pub(crate) fn read(name: &str) -> Vec<Frame> {
    read_file(&format!("raw-{name}"))
}

/// Reads a file of frames, `tests/share/NAME.jsonl.gz`.
pub(crate) fn read_file(name: &str) -> Vec<Frame> {
    let file = format!("share/{name}.jsonl.gz");
    let lines = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    lines.iter().enumerate().map(|(index, line)| frame(index + 1, line)).collect()
}

/// The line of the last frame of each connection.
pub(crate) fn last_lines(frames: &[Frame]) -> HashMap<u64, usize> {
    frames.iter().map(|frame| (frame.connection, frame.line)).collect()
}

fn frame(line: usize, text: &str) -> Frame {
    let json: Json = serde_json::from_str(text).unwrap();
    let (api, version) = (json["api"].as_str().unwrap(), json["version"].as_i64().unwrap() as i16);
    let bytes = unhex(&json["hex"]).unwrap();
    let body = if json["dir"] == ">" { request(api, version, bytes) } else { response(api, version, bytes) };
    Frame {
        line,
        connection: json["conn"].as_u64().unwrap(),
        ms: json["ms"].as_u64().unwrap(),
        version,
        correlation: json["correlation"].as_i64().unwrap(),
        body,
    }
}

fn request(api: &str, version: i16, mut bytes: Bytes) -> Body {
    decode_request_header(&mut bytes).unwrap();
    let share =
        |body: Result<Body, DecodeError>| body.unwrap_or_else(|error| Body::Undecodable(error.to_string()));
    match api {
        "Produce" => Body::Produce(ProduceRequest::decode(bytes, version).unwrap()),
        "IncrementalAlterConfigs" => {
            Body::Configs(IncrementalAlterConfigsRequest::decode(bytes, version).unwrap())
        }
        "ShareGroupHeartbeat" => {
            share(ShareGroupHeartbeatRequest::decode(bytes, version).map(Body::Heartbeat))
        }
        "ShareFetch" => share(ShareFetchRequest::decode(bytes, version).map(Body::Fetch)),
        "ShareAcknowledge" => share(ShareAcknowledgeRequest::decode(bytes, version).map(Body::Acknowledge)),
        _ => Body::Other,
    }
}

fn response(api: &str, version: i16, mut bytes: Bytes) -> Body {
    match api {
        "CreateTopics" => Body::TopicsCreated(answer(&mut bytes, version)),
        "ShareGroupHeartbeat" => Body::HeartbeatAnswer,
        "ShareFetch" => Body::FetchAnswer(answer(&mut bytes, version)),
        "ShareAcknowledge" => Body::AcknowledgeAnswer(answer(&mut bytes, version)),
        _ => Body::Other,
    }
}

fn answer<M: Message>(bytes: &mut Bytes, version: i16) -> M {
    ResponseHeader::decode_prefix(bytes, 1).unwrap();
    M::decode(bytes.clone(), version).unwrap()
}
