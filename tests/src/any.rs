//! Dispatch by API key: the right type, both ways, for every API and version.

use kafka_protocol::messages::{
    AnyRequest, AnyResponse, MetadataRequest, ShareFetchRequest, ShareFetchResponse, visit_messages,
};
use kafka_protocol::protocol::schema::{self, MessageKind};
use kafka_protocol::protocol::{ApiKey, Message, MessageVisitor};
use kafka_protocol::wire::Bytes;

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
