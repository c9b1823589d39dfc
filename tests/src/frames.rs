//! Frames: those that Kafka wrote, frames that come in pieces, and frames that are none.

use kafka_protocol::messages::*;
use kafka_protocol::protocol::frame::{self, DEFAULT_MAX_SIZE, FrameError};
use kafka_protocol::protocol::{
    ApiKey, DecodeReason, EncodeReason, Message, Request, Response, Rpc, Versions,
};
use kafka_protocol::wire::{Bytes, BytesMut, Str, TaggedFields};
use serde_json::Value;

use crate::fixture::{load, unhex};

/// A whole frame as Kafka wrote it.
pub(crate) struct Frame {
    pub(crate) message: String,
    pub(crate) api_key: ApiKey,
    pub(crate) version: i16,
    header_version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<Str>,
    /// Version of the layout of the body, if it is not `version`.
    pub(crate) body_version: Option<i16>,
    pub(crate) bytes: Bytes,
}

impl Frame {
    pub(crate) fn all() -> Vec<Self> {
        let int16 = |value: &Value| value.as_i64().map(|value| value.try_into().expect("an int16"));
        load("frames")["frames"]
            .as_array()
            .expect("frames")
            .iter()
            .map(|frame| Self {
                message: frame["message"].as_str().expect("a name").to_owned(),
                api_key: ApiKey(int16(&frame["apiKey"]).expect("a key")),
                version: int16(&frame["version"]).expect("a version"),
                header_version: int16(&frame["headerVersion"]).expect("a version"),
                correlation_id: frame["header"]["correlationId"].as_i64().expect("an id") as i32,
                client_id: frame["header"]["clientId"].as_str().map(Str::new),
                body_version: int16(&frame["bodyVersion"]),
                bytes: unhex(frame["hex"].as_str().expect("bytes")),
            })
            .collect()
    }

    /// Without its size.
    pub(crate) fn content(&self) -> Bytes {
        self.bytes.slice(4..)
    }
}

fn check_request<R: Request>(frame: &Frame) {
    let context = format!("{} v{}", frame.message, frame.version);
    assert_eq!(R::API_KEY, frame.api_key, "{context}");
    assert_eq!(R::HEADER_VERSIONS.of(frame.version), frame.header_version, "{context}");
    assert_eq!(frame::peek_request(&frame.content()), Some((frame.api_key, frame.version)), "{context}");

    let (header, request) = frame::decode_request::<R>(frame.content()).expect(&context);
    let client_id = frame.client_id.as_deref().expect("a name");
    assert_eq!(
        header,
        frame::request_header::<R>(frame.version, frame.correlation_id, client_id),
        "{context}",
    );
    let mut encoded = b"before".to_vec();
    assert_eq!(frame::encode_request(&mut encoded, &header, &request), Ok(()), "{context}");
    assert_eq!(encoded, [b"before", &frame.bytes[..]].concat(), "{context}");
}

fn check_response<R: Response>(frame: &Frame) {
    let context = format!("{} v{}", frame.message, frame.version);
    assert_eq!(R::API_KEY, frame.api_key, "{context}");
    assert_eq!(R::HEADER_VERSIONS.of(frame.version), frame.header_version, "{context}");

    let (header, response) = frame::decode_response::<R>(frame.content(), frame.version).expect(&context);
    let expected = ResponseHeader { correlation_id: frame.correlation_id, ..Default::default() };
    assert_eq!(header, expected, "{context}");
    let mut encoded = BytesMut::from(&b"before"[..]);
    assert_eq!(frame::encode_response(&mut encoded, &header, &response, frame.version), Ok(()), "{context}");
    assert_eq!(encoded, [b"before", &frame.bytes[..]].concat(), "{context}");
}

#[test]
fn frames_are_those_of_kafka() {
    fn check_rpc<R: Rpc>(frames: &[Frame]) -> usize {
        let (request, response) = (R::SCHEMA.name, <R::Response as Message>::SCHEMA.name);
        let mut checked = 0;
        for frame in frames.iter().filter(|frame| frame.body_version.is_none()) {
            if frame.message == request {
                check_request::<R>(frame);
            } else if frame.message == response {
                check_response::<R::Response>(frame);
            } else {
                continue;
            }
            checked += 1;
        }
        assert_eq!(checked, 2 * R::VERSIONS.iter().count(), "a request and a response per version");
        checked
    }
    let frames = Frame::all();
    let checked = [
        check_rpc::<ApiVersionsRequest>(&frames),
        check_rpc::<ProduceRequest>(&frames),
        check_rpc::<FetchRequest>(&frames),
        check_rpc::<MetadataRequest>(&frames),
        check_rpc::<SaslHandshakeRequest>(&frames),
        check_rpc::<ShareFetchRequest>(&frames),
        check_rpc::<ShareAcknowledgeRequest>(&frames),
        check_rpc::<ShareGroupHeartbeatRequest>(&frames),
        check_rpc::<ShareGroupDescribeRequest>(&frames),
        check_rpc::<InitializeShareGroupStateRequest>(&frames),
        check_rpc::<ReadShareGroupStateRequest>(&frames),
        check_rpc::<WriteShareGroupStateRequest>(&frames),
        check_rpc::<DeleteShareGroupStateRequest>(&frames),
        check_rpc::<ReadShareGroupStateSummaryRequest>(&frames),
        check_rpc::<DescribeShareGroupOffsetsRequest>(&frames),
        check_rpc::<AlterShareGroupOffsetsRequest>(&frames),
        check_rpc::<DeleteShareGroupOffsetsRequest>(&frames),
    ];
    assert_eq!(checked.iter().sum::<usize>() + 2, frames.len(), "all but those of the next test");
}

/// KIP-511: a broker that does not know the version of an ApiVersionsRequest answers in version 0, which says what
/// it does know.
#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let mut frames = Frame::all();
    frames.retain(|frame| frame.body_version.is_some());
    let [request, answer] = &frames[..] else { panic!("a request and its answer") };

    // The broker can read the header, as header versions go on as before, and that is all it needs.
    assert_eq!(frame::peek_request(&request.content()), Some((ApiKey::API_VERSIONS, 6)));
    let header_version = ApiVersionsRequest::HEADER_VERSIONS.of(6);
    assert_eq!(header_version, request.header_version);
    let mut rest = request.content();
    let header = RequestHeader::decode_prefix(&mut rest, header_version).expect("a header");
    assert_eq!((header.correlation_id, &header.client_id), (request.correlation_id, &None));
    let body = ApiVersionsRequest::decode(rest, 5).expect("a body as of version 5");
    assert_eq!(body.client_software_name, "s1");
    let Err(FrameError::Decode(error)) = frame::decode_request::<ApiVersionsRequest>(request.content())
    else {
        panic!("version 6 is not known");
    };
    assert_eq!(error.reason(), &DecodeReason::UnsupportedVersion { supported: Versions::new(0, 5) });

    // Its answer has header version 0 in whatever version the client looks at it.
    assert_eq!((answer.version, answer.body_version, answer.header_version), (6, Some(0), 0));
    assert_eq!(ApiVersionsResponse::HEADER_VERSIONS.of(6), 0);
    let (to, response) =
        frame::decode_response::<ApiVersionsResponse>(answer.content(), 0).expect("a response");
    assert_eq!(to.correlation_id, header.correlation_id);
    assert_eq!(response.error_code.name(), Some("UNSUPPORTED_VERSION"));
    let known = &response.api_keys[0];
    assert_eq!((known.api_key, known.min_version, known.max_version), (18, 0, 5));
    let mut encoded = Vec::new();
    assert_eq!(frame::encode_response(&mut encoded, &to, &response, 0), Ok(()));
    assert_eq!(encoded, answer.bytes);
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_whole_with_its_last_byte() {
    for frame in Frame::all() {
        let mut buffer = BytesMut::new();
        let (last, before) = frame.bytes.split_last().expect("a frame");
        for (n, &byte) in before.iter().enumerate() {
            buffer.extend_from_slice(&[byte]);
            assert_eq!(frame::split(&mut buffer, DEFAULT_MAX_SIZE), Ok(None));
            assert_eq!(buffer, frame.bytes[..=n], "nothing is taken off");
        }
        buffer.extend_from_slice(&[*last]);
        assert_eq!(frame::split(&mut buffer, DEFAULT_MAX_SIZE), Ok(Some(frame.content())));
        assert!(buffer.is_empty());
    }
}

#[test]
fn frames_in_one_buffer_come_out_one_by_one() {
    let frames = Frame::all();
    let mut buffer = BytesMut::new();
    for frame in &frames {
        buffer.extend_from_slice(&frame.bytes);
    }
    buffer.extend_from_slice(&frames[0].bytes[..7]);
    for frame in &frames {
        assert_eq!(frame::split(&mut buffer, DEFAULT_MAX_SIZE), Ok(Some(frame.content())));
    }
    assert_eq!(frame::split(&mut buffer, DEFAULT_MAX_SIZE), Ok(None));
    assert_eq!(buffer, frames[0].bytes[..7]);
}

#[test]
fn a_frame_may_be_empty_or_as_large_as_allowed_but_no_larger() {
    let framed = |size: i32, content: &[u8]| BytesMut::from(&[&size.to_be_bytes(), content].concat()[..]);

    assert_eq!(frame::split(&mut framed(0, b"next"), 0), Ok(Some(Bytes::new())));
    assert_eq!(frame::split(&mut framed(4, b"full"), 4), Ok(Some(Bytes::from("full"))));
    assert_eq!(frame::split(&mut framed(4, b"ful"), 4), Ok(None));

    let mut buffer = framed(5, b"more!");
    let too_large = FrameError::TooLarge { size: 5, max_size: 4 };
    assert_eq!(frame::split(&mut buffer, 4), Err(too_large.clone()));
    assert_eq!(too_large.to_string(), "frame of 5 bytes, at most 4 are allowed");
    assert_eq!(buffer, framed(5, b"more!"), "nothing is taken off");

    for size in [-1, i32::MIN] {
        let negative = FrameError::NegativeSize { size };
        assert_eq!(negative.to_string(), format!("frame of negative size {size}"));
        assert_eq!(frame::split(&mut framed(size, b""), DEFAULT_MAX_SIZE), Err(negative));
    }
    let size = i32::MAX as usize;
    assert_eq!(
        frame::split(&mut framed(i32::MAX, b""), DEFAULT_MAX_SIZE),
        Err(FrameError::TooLarge { size, max_size: DEFAULT_MAX_SIZE }),
    );
}

#[test]
fn a_request_of_another_api_is_refused() {
    let header = frame::request_header::<ShareFetchRequest>(2, 1, "c");
    let mut buffer = b"before".to_vec();
    let error = FrameError::ApiKey { expected: ApiKey::SHARE_ACKNOWLEDGE, found: ApiKey::SHARE_FETCH };
    assert_eq!(error.to_string(), "frame of a ShareFetch(78) request, expected ShareAcknowledge(79)");
    let acknowledge = ShareAcknowledgeRequest::default();
    assert_eq!(frame::encode_request(&mut buffer, &header, &acknowledge), Err(error.clone()));
    assert_eq!(buffer, b"before");

    let mut buffer = Vec::new();
    frame::encode_request(&mut buffer, &header, &ShareFetchRequest::default()).expect("a frame");
    let content = Bytes::from(buffer).slice(4..);
    assert_eq!(frame::decode_request::<ShareAcknowledgeRequest>(content), Err(error));
}

#[test]
fn a_request_without_a_whole_header_is_refused() {
    let frames = Frame::all();
    let frame = frames.iter().find(|frame| frame.message == "ApiVersionsRequest").expect("a frame");
    let content = frame.content();
    for size in 0..4 {
        let error = FrameError::NoHeader { size };
        assert_eq!(error.to_string(), format!("frame of {size} bytes is too short for a header"));
        assert_eq!(frame::decode_request::<ApiVersionsRequest>(content.slice(..size)), Err(error));
    }
    let Err(FrameError::Decode(error)) = frame::decode_request::<ApiVersionsRequest>(content.slice(..6))
    else {
        panic!("half a correlation id");
    };
    assert_eq!(error.to_string(), "RequestHeader v1: correlation_id at byte 4: need 4 bytes, 2 left");
}

#[test]
fn bytes_behind_the_body_are_refused() {
    for (content, version) in Frame::all()
        .iter()
        .filter(|frame| frame.message == "ShareFetchResponse")
        .map(|frame| ([&frame.content()[..], b"!"].concat(), frame.version))
    {
        let Err(FrameError::Decode(error)) =
            frame::decode_response::<ShareFetchResponse>(content.into(), version)
        else {
            panic!("a byte too many");
        };
        assert_eq!(error.message(), "ShareFetchResponse");
        assert_eq!(error.reason(), &DecodeReason::TrailingBytes { left: 1 });
    }
}

#[test]
fn a_failed_encode_leaves_the_buffer_as_it_was() {
    #[track_caller]
    fn check(header: &RequestHeader, request: &ShareFetchRequest, message: &str, reason: &EncodeReason) {
        let check = |done: Result<(), FrameError>| {
            let Err(FrameError::Encode(error)) = done else { panic!("{done:?}") };
            assert_eq!((error.message(), error.reason()), (message, reason));
        };
        let mut vec = b"before".to_vec();
        check(frame::encode_request(&mut vec, header, request));
        assert_eq!(vec, b"before");
        let mut bytes = BytesMut::from(&b"before"[..]);
        check(frame::encode_request(&mut bytes, header, request));
        assert_eq!(bytes, b"before"[..]);
    }
    let header = |version| frame::request_header::<ShareFetchRequest>(version, 1, "c");
    let renewal = ShareFetchRequest { is_renew_ack: true, ..Default::default() };
    let not_in_version =
        EncodeReason::NotInVersion { versions: Versions::since(2), default: "false".to_owned() };
    check(&header(1), &renewal, "ShareFetchRequest", &not_in_version);
    let unsupported = EncodeReason::UnsupportedVersion { supported: Versions::new(1, 2) };
    check(&header(3), &renewal, "ShareFetchRequest", &unsupported);
    let client_id = Some(Str::from("x".repeat(32768)));
    let long = RequestHeader { client_id, ..header(2) };
    check(&long, &renewal, "RequestHeader", &EncodeReason::StringTooLong);

    let mut tags = TaggedFields::default();
    tags.push(0, b"").expect("the first tag");
    let tagged = ResponseHeader { unknown_tagged_fields: tags, ..Default::default() };
    let mut vec = b"before".to_vec();
    let done = frame::encode_response(&mut vec, &tagged, &ApiVersionsResponse::default(), 3);
    assert!(matches!(done, Err(FrameError::Encode(_))), "header version 0 has no tags: {done:?}");
    assert_eq!(vec, b"before");
}
