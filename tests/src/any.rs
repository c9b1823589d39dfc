//! Dispatch by API key: the right type, both ways, for every API and version.

use kafka_protocol::messages::{
    AnyRequest, AnyResponse, MetadataRequest, ProduceRequest, RequestHeader, ResponseHeader,
    ShareFetchRequest, ShareFetchResponse, visit_messages,
};
use kafka_protocol::protocol::frame::{self, FrameError};
use kafka_protocol::protocol::schema::{self, MessageKind};
use kafka_protocol::protocol::{ApiKey, Message, MessageVisitor};
use kafka_protocol::wire::Bytes;

use crate::frames::Frame;

/// Encodes defaults of every request and response in every version, and passes them through the dispatch.
#[derive(Default)]
struct Dispatch {
    requests: usize,
    responses: usize,
}

impl MessageVisitor for Dispatch {
    fn visit<M: Message>(&mut self) {
        let schema = M::SCHEMA;
        let Some(api_key) = schema.api_key.map(ApiKey) else { return };
        for version in M::VERSIONS.iter() {
            // Defaults that no version can carry are tested elsewhere.
            let Ok(bytes) = M::default().encode(version) else { continue };
            let context = format!("{} v{version}", schema.name);
            let (key, found, again, length) = match schema.kind {
                MessageKind::Request => {
                    self.requests += 1;
                    let any = AnyRequest::decode(api_key, bytes.clone(), version).expect(&context);
                    (any.api_key(), any.schema(), any.encode(version), any.encoded_len(version))
                }
                MessageKind::Response => {
                    self.responses += 1;
                    let any = AnyResponse::decode(api_key, bytes.clone(), version).expect(&context);
                    (any.api_key(), any.schema(), any.encode(version), any.encoded_len(version))
                }
                _ => return,
            };
            assert_eq!(key, api_key, "{context}");
            assert!(std::ptr::eq(found.expect(&context), schema), "{context}");
            assert_eq!(again.expect(&context), bytes, "{context}");
            assert_eq!(length.expect(&context), bytes.len(), "{context}");
        }
    }
}

#[test]
fn every_api_is_dispatched_to_its_messages() {
    let mut dispatch = Dispatch::default();
    visit_messages(&mut dispatch);
    let versions = |kind| {
        let of_kind = schema::all().filter(move |schema| schema.kind == kind);
        of_kind.map(|schema| schema.versions.iter().count()).sum::<usize>()
    };
    assert_eq!(dispatch.requests, versions(MessageKind::Request));
    assert_eq!(dispatch.responses, versions(MessageKind::Response));
}

#[test]
fn a_body_without_codec_survives() {
    let body = Bytes::from_static(b"\x01\x02\x03");
    let request = AnyRequest::decode(ApiKey(999), body.clone(), 42).expect("anything goes");
    assert_eq!(request, AnyRequest::Unknown { api_key: ApiKey(999), body: body.clone() });
    assert_eq!(request.api_key(), ApiKey(999));
    assert!(request.schema().is_none());
    assert_eq!(request.encode(42).as_ref(), Ok(&body));
    assert_eq!(request.encoded_len(42), Ok(3));
    let response = AnyResponse::decode(ApiKey(-1), body.clone(), 0).expect("anything goes");
    assert_eq!(response.encode(0), Ok(body));
}

#[test]
fn errors_are_those_of_the_message() {
    let error = AnyRequest::decode(ApiKey::SHARE_FETCH, Bytes::from_static(b"\x00"), 2).unwrap_err();
    assert_eq!(error.to_string(), "ShareFetchRequest v2: member_id at byte 1: need 1 byte, 0 left");
    let renewal = AnyRequest::from(ShareFetchRequest { is_renew_ack: true, ..Default::default() });
    let mut buffer = b"before".to_vec();
    let error = renewal.encode_into(&mut buffer, 1).unwrap_err();
    assert_eq!((error.path(), buffer.as_slice()), ("is_renew_ack", &b"before"[..]));
}

#[test]
fn a_message_becomes_the_variant_of_its_api() {
    assert!(matches!(AnyRequest::from(MetadataRequest::default()), AnyRequest::Metadata(_)));
    let response = ShareFetchResponse { acquisition_lock_timeout_ms: 7, ..Default::default() };
    let any = AnyResponse::from(response.clone());
    assert_eq!(any, AnyResponse::ShareFetch(Box::new(response)));
}

#[test]
fn a_produce_request_without_acknowledgements_has_no_response() {
    for (acks, has_response) in [(0, false), (1, true), (-1, true)] {
        let request = AnyRequest::from(ProduceRequest { acks, ..Default::default() });
        assert_eq!(request.has_response(), has_response, "acks {acks}");
    }
    assert!(AnyRequest::from(MetadataRequest::default()).has_response());
    assert!(AnyRequest::Unknown { api_key: ApiKey(999), body: Bytes::new() }.has_response());
}

/// Whole frames, as Kafka wrote them, through the dispatch.
#[test]
fn frames_are_those_of_kafka() {
    let frames = Frame::all();
    // One of a version that is not supported, and its answer, which is in version 0.
    let (supported, others): (Vec<_>, Vec<_>) = frames.iter().partition(|frame| frame.body_version.is_none());
    assert_eq!((supported.len(), others.len()), (130, 2));
    for frame in supported {
        let context = format!("{} v{}", frame.message, frame.version);
        let mut encoded = b"before".to_vec();
        if frame.message.ends_with("Request") {
            let (header, request) = frame::decode_any_request(frame.content()).expect(&context);
            assert_eq!((header.correlation_id, &header.client_id), (frame.correlation_id, &frame.client_id));
            assert_eq!(request.schema().expect(&context).name, frame.message);
            frame::encode_any_request(&mut encoded, &header, &request).expect(&context);
        } else {
            let (header, response) =
                frame::decode_any_response(frame.content(), frame.api_key, frame.version).expect(&context);
            assert_eq!(header.correlation_id, frame.correlation_id, "{context}");
            assert_eq!(response.schema().expect(&context).name, frame.message);
            frame::encode_any_response(&mut encoded, &header, &response, frame.version).expect(&context);
        }
        assert_eq!(encoded, [b"before", &frame.bytes[..]].concat(), "{context}");
    }
    let answer = others[1];
    let (header, response) =
        frame::decode_any_response(answer.content(), ApiKey::API_VERSIONS, 0).expect("an answer");
    let mut encoded = Vec::new();
    frame::encode_any_response(&mut encoded, &header, &response, 0).expect("an answer");
    assert_eq!(encoded, answer.bytes);
    let error = frame::decode_any_request(others[0].content()).expect_err("version 6 is not known");
    assert!(matches!(error, FrameError::Decode(_)), "{error}");
}

#[test]
fn a_frame_is_encoded_whole_or_not_at_all() {
    #[track_caller]
    fn check(header: &RequestHeader, request: &AnyRequest, error: &str) {
        let mut buffer = b"before".to_vec();
        let found = frame::encode_any_request(&mut buffer, header, request).expect_err(error);
        assert_eq!((found.to_string().as_str(), buffer.as_slice()), (error, &b"before"[..]));
    }
    let header = |version| frame::request_header::<ShareFetchRequest>(version, 1, "c");
    let renewal = AnyRequest::from(ShareFetchRequest { is_renew_ack: true, ..Default::default() });
    let error =
        "ShareFetchRequest v1: is_renew_ack: not in this version (versions 2+), and not its default false";
    check(&header(1), &renewal, error);
    let metadata = AnyRequest::from(MetadataRequest::default());
    check(&header(2), &metadata, "frame of a ShareFetch(78) request, expected Metadata(3)");
    let unknown = AnyRequest::Unknown { api_key: ApiKey(999), body: Bytes::new() };
    let to_unknown = RequestHeader { request_api_key: 999, ..header(0) };
    check(&to_unknown, &unknown, "the header of ApiKey(999) is not known");

    let mut buffer = b"before".to_vec();
    let body = AnyResponse::Unknown { api_key: ApiKey::STOP_REPLICA, body: Bytes::new() };
    let removed = FrameError::UnknownApi { api_key: ApiKey::STOP_REPLICA };
    let header = ResponseHeader::default();
    assert_eq!(frame::encode_any_response(&mut buffer, &header, &body, 0), Err(removed.clone()));
    assert_eq!(removed.to_string(), "the header of StopReplica(5) is not known");
    assert_eq!(buffer, b"before");
}

#[test]
fn a_frame_without_a_known_header_is_refused() {
    let unknown = Bytes::from_static(b"\x03\xe7\0\0\0\0\0\x01\xff\xff");
    assert_eq!(
        frame::decode_any_request(unknown.clone()),
        Err(FrameError::UnknownApi { api_key: ApiKey(999) })
    );
    assert_eq!(frame::decode_any_request(unknown.slice(..3)), Err(FrameError::NoHeader { size: 3 }));
    assert_eq!(
        frame::decode_any_response(unknown, ApiKey(999), 0),
        Err(FrameError::UnknownApi { api_key: ApiKey(999) })
    );
}

/// An API whose family is not compiled has a header, and its body is kept.
#[test]
fn the_body_of_a_known_api_may_stay_as_it_is() {
    let header = frame::request_header::<ShareFetchRequest>(2, 7, "c");
    let body = Bytes::from_static(b"whatever");
    let request = AnyRequest::Unknown { api_key: ApiKey::SHARE_FETCH, body: body.clone() };
    let mut encoded = Vec::new();
    frame::encode_any_request(&mut encoded, &header, &request).expect("a frame");
    let mut content = Bytes::from(encoded).slice(4..);
    assert_eq!(RequestHeader::decode_prefix(&mut content, 2), Ok(header));
    assert_eq!(content, body);
}
