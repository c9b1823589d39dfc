//! A client's connection: bytes in, bytes out.

use kafka_protocol::connection::codec::FrameCodec;
use kafka_protocol::connection::{
    Config, Connection, ConnectionError, Negotiation, Received, ReceivedFrame, decode_request_header,
    unsupported_api_versions,
};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest,
    MetadataResponse, ProduceRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, ShareAcknowledgeRequest, ShareFetchRequest,
    ShareFetchResponse,
};
use kafka_protocol::protocol::frame::{self, FrameError};
use kafka_protocol::protocol::{ApiKey, ErrorCode, Message, Response, Rpc, Versions};
use kafka_protocol::wire::{Bytes, BytesMut, Sink};
use tokio_util::codec::{Decoder, Encoder};

use crate::fixture::unhex;

/// An `ApiVersionsRequest` of version 6, which Kafka 4.4.0 lacks, its body as in version 5. Written by the classes of
/// Kafka 4.4.0.
const UNSUPPORTED_REQUEST: &str = "000000190012000601020342ffff000373310373320373330100000400";

/// The answer to it, written by the classes of Kafka 4.4.0 too: header 0, body 0, ApiVersions 0-5.
const UNSUPPORTED_ANSWER: &str = "0000001001020342002300000001001200000005";

/// The correlation id of both.
const UNSUPPORTED_ID: i32 = 0x0102_0342;

fn hex(digits: &str) -> BytesMut {
    unhex(digits).into()
}

fn connection() -> Connection {
    Connection::new(Config::default())
}

/// A connection to a broker that offers these versions.
fn connected(config: Config, offered: &[(ApiKey, i16, i16)]) -> Connection {
    let mut connection = Connection::new(config);
    let id = connection.send(&ApiVersionsRequest::default(), None, &mut Vec::new()).unwrap();
    let received = receive(&mut connection, &answer(id, &offer(offered), 5));
    assert_eq!(connection.negotiate(&received), Ok(Negotiation::Done));
    connection
}

fn offer(apis: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
    let api_keys = apis.iter().map(|&(api_key, min_version, max_version)| ApiVersion {
        api_key: api_key.into(),
        min_version,
        max_version,
        ..Default::default()
    });
    ApiVersionsResponse { api_keys: api_keys.collect(), ..Default::default() }
}

/// The frame of a response.
fn answer<R: Response>(correlation_id: i32, response: &R, version: i16) -> BytesMut {
    let mut bytes = BytesMut::new();
    let header = ResponseHeader { correlation_id, ..Default::default() };
    frame::encode_response(&mut bytes, &header, response, version).unwrap();
    bytes
}

/// Receives exactly one response.
fn receive(connection: &mut Connection, frame: &[u8]) -> Received {
    let mut buffer = BytesMut::from(frame);
    let received = connection.receive(&mut buffer).unwrap().expect("a whole frame");
    assert!(buffer.is_empty());
    received
}

fn receive_error(connection: &mut Connection, frame: &[u8]) -> ConnectionError {
    connection.receive(&mut BytesMut::from(frame)).unwrap_err()
}

/// Takes the only frame off `out`.
fn sent(out: &mut BytesMut) -> Bytes {
    let frame = frame::split(out, frame::DEFAULT_MAX_SIZE).unwrap().expect("a whole frame");
    assert!(out.is_empty());
    frame
}

fn sent_header(out: &mut BytesMut) -> RequestHeader {
    decode_request_header(&mut sent(out)).unwrap()
}

#[test]
fn a_request_gets_its_header() {
    let mut connection = Connection::new(Config {
        client_id: Some("é".into()),
        first_correlation_id: 7,
        ..Default::default()
    });
    let mut out = BytesMut::from("before");
    let request = MetadataRequest::default();
    assert_eq!(connection.send(&request, Some(12), &mut out), Ok(7));
    assert_eq!(connection.send(&request, Some(13), &mut out), Ok(8));

    assert_eq!(out.split_to(6), "before");
    for (id, version) in [(7, 12), (8, 13)] {
        let frame = frame::split(&mut out, 100).unwrap().unwrap();
        let (header, body) = frame::decode_request::<MetadataRequest>(frame).unwrap();
        assert_eq!((header.request_api_version, header.correlation_id), (version, id));
        assert_eq!((header.client_id.as_deref(), &body), (Some("é"), &request));
    }
    assert!(out.is_empty());

    let in_flight: Vec<_> =
        connection.in_flight().map(|r| (r.correlation_id, r.api_key, r.version, r.forwarded)).collect();
    assert_eq!(in_flight, [(7, ApiKey::METADATA, 12, None), (8, ApiKey::METADATA, 13, None)]);
}

#[test]
fn a_client_may_have_no_id() {
    let mut out = BytesMut::new();
    connection().send(&MetadataRequest::default(), Some(13), &mut out).unwrap();
    assert_eq!(sent_header(&mut out).client_id, None);
}

#[test]
fn a_response_is_of_the_version_of_its_request() {
    let mut connection = connection();
    let mut out = Vec::new();
    // Header 0 before Metadata 9, header 1 from it on.
    for version in [8, 9, 13] {
        let id = connection.send(&MetadataRequest::default(), Some(version), &mut out).unwrap();
        let response = MetadataResponse { controller_id: 3, ..Default::default() };
        let received = receive(&mut connection, &answer(id, &response, version));
        assert_eq!(received.correlation_id, id);
        assert_eq!((received.api_key, received.version), (ApiKey::METADATA, version));
        assert_eq!(received.header.correlation_id, id);
        assert_eq!(received.decode::<MetadataResponse>().unwrap(), response);

        let error = received.decode::<ShareFetchResponse>().unwrap_err();
        assert_eq!(error.to_string(), "response of Metadata(3), expected ShareFetch(78)");
    }
    assert_eq!(connection.in_flight().len(), 0);
}

#[test]
fn frames_come_in_any_pieces() {
    let mut connection = connection();
    let mut out = Vec::new();
    let mut stream = Vec::new();
    for controller_id in 0..3 {
        let id = connection.send(&MetadataRequest::default(), Some(13), &mut out).unwrap();
        stream.extend(answer(id, &MetadataResponse { controller_id, ..Default::default() }, 13));
    }
    for piece in 1..=stream.len() {
        let mut connection = connection.clone();
        let mut buffer = BytesMut::new();
        let mut controllers = Vec::new();
        for bytes in stream.chunks(piece) {
            buffer.extend_from_slice(bytes);
            while let Some(received) = connection.receive(&mut buffer).unwrap() {
                controllers.push(received.decode::<MetadataResponse>().unwrap().controller_id);
            }
        }
        assert_eq!(controllers, [0, 1, 2], "pieces of {piece} bytes");
        assert!(buffer.is_empty());
    }
}

#[test]
fn a_wrong_correlation_id_is_an_error() {
    let mut connection = connection();
    let response = answer(0, &MetadataResponse::default(), 13);
    let error = receive_error(&mut connection, &response);
    assert_eq!(error, ConnectionError::Unsolicited { found: 0 });
    assert_eq!(error.to_string(), "response with correlation id 0, but no request is in flight");

    let mut out = Vec::new();
    connection.send(&MetadataRequest::default(), Some(13), &mut out).unwrap();
    connection.send(&MetadataRequest::default(), Some(13), &mut out).unwrap();
    // One that nobody asked for, and one out of turn.
    for found in [9, 1] {
        let error = receive_error(&mut connection, &answer(found, &MetadataResponse::default(), 13));
        let text = format!("response with correlation id {found}, expected 0 for Metadata(3) v13");
        assert_eq!(error.to_string(), text);
        assert!(
            matches!(error, ConnectionError::CorrelationIdMismatch { expected, .. } if expected.correlation_id == 0)
        );
    }
    assert_eq!(connection.in_flight().len(), 2);
}

#[test]
fn a_frame_without_a_correlation_id_is_an_error() {
    let mut connection = connection();
    connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()).unwrap();
    for (frame, size) in [(&b"\0\0\0\0"[..], 0), (b"\0\0\0\x03\0\0\0", 3)] {
        let expected = ConnectionError::Frame(FrameError::NoHeader { size });
        assert_eq!(receive_error(&mut connection, frame), expected);
        assert_eq!(connection.receive_frame(&mut BytesMut::from(frame)), Err(expected));
    }
    // Header 1 needs a fifth byte.
    let error = receive_error(&mut connection, b"\0\0\0\x04\0\0\0\0");
    assert!(error.to_string().starts_with("ResponseHeader v1: "), "{error}");
    let error = receive_error(&mut connection, b"\xff\xff\xff\xff");
    assert_eq!(error.to_string(), "frame of negative size -1");
}

#[test]
fn correlation_ids_wrap_around_the_reserved_ones() {
    let first_correlation_id = 2_147_483_638;
    let mut connection = Connection::new(Config { first_correlation_id, ..Default::default() });
    let mut ids = |sasl: bool| {
        let mut out = BytesMut::new();
        let id = if sasl {
            connection.send(&SaslAuthenticateRequest::default(), Some(2), &mut out)
        } else {
            connection.send(&MetadataRequest::default(), Some(13), &mut out)
        };
        assert_eq!(id, Ok(sent_header(&mut out).correlation_id));
        id.unwrap()
    };
    assert_eq!(ids(true), 2_147_483_640);
    assert_eq!([ids(false), ids(false), ids(false)], [2_147_483_638, 2_147_483_639, i32::MIN]);
    for id in 2_147_483_641..=i32::MAX {
        assert_eq!(ids(true), id);
    }
    assert_eq!(ids(true), 2_147_483_640);
    assert_eq!(ids(false), i32::MIN + 1);

    for first_correlation_id in [2_147_483_640, i32::MAX] {
        let mut connection = Connection::new(Config { first_correlation_id, ..Default::default() });
        assert_eq!(connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()), Ok(i32::MIN));
    }
    let mut connection = Connection::new(Config { first_correlation_id: -1, ..Default::default() });
    assert_eq!(connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()), Ok(-1));
    assert_eq!(connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()), Ok(0));
}

#[test]
fn limits_hold() {
    let mut connection =
        Connection::new(Config { max_in_flight: 2, max_frame_size: 100, ..Default::default() });
    let mut out = Vec::new();
    let request = MetadataRequest::default();
    connection.send(&request, Some(13), &mut out).unwrap();

    // A failure leaves no trace, and does not use up a correlation id.
    let before = out.clone();
    let large = SaslAuthenticateRequest { auth_bytes: vec![0; 100].into(), ..Default::default() };
    let error = connection.send(&large, Some(2), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "frame of 113 bytes, at most 100 are allowed");
    let error = connection.send(&request, Some(99), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "MetadataRequest v99: not a supported version (versions 0-13)");
    let error = connection.forward(&[0; 101], &mut out).unwrap_err();
    assert_eq!(error.to_string(), "frame of 101 bytes, at most 100 are allowed");
    assert_eq!(connection.send_raw(&[0; 101], &mut out), Err(ConnectionError::InFlight { count: 1 }));
    assert_eq!(out, before);
    assert_eq!(connection.in_flight().len(), 1);
    assert_eq!(connection.send(&request, Some(13), &mut out), Ok(1));

    let before = out.clone();
    let full = ConnectionError::TooManyInFlight { max_in_flight: 2 };
    assert_eq!(full.to_string(), "2 requests are in flight, more are not allowed");
    assert_eq!(connection.send(&request, Some(13), &mut out).as_ref(), Err(&full));
    assert_eq!(connection.forward(&[0; 8], &mut out), Err(full));
    assert_eq!(out, before);

    let error = receive_error(&mut connection, b"\0\0\0\x65");
    assert_eq!(error.to_string(), "frame of 101 bytes, at most 100 are allowed");
    receive(&mut connection, &answer(0, &MetadataResponse::default(), 13));
    assert_eq!(connection.send(&request, Some(13), &mut out), Ok(2));
}

#[test]
fn the_header_of_a_removed_api_is_not_known() {
    // ControlledShutdown v0 had no client id in its header.
    let mut frame = Bytes::from_static(b"\0\x07\0\0\0\0\0\x04\0\0\0\x01");
    let error = decode_request_header(&mut frame).unwrap_err();
    assert_eq!(error, ConnectionError::UnknownApi { api_key: ApiKey(7) });
    assert_eq!(frame.len(), 12);
}

#[test]
fn a_request_without_a_response_is_not_waited_for() {
    let mut connection = Connection::new(Config { max_in_flight: 1, ..Default::default() });
    let mut out = BytesMut::new();
    let request = ProduceRequest { acks: 0, ..Default::default() };
    assert_eq!(connection.send(&request, Some(13), &mut out), Ok(0), "the request says so itself");
    assert_eq!(sent_header(&mut out).correlation_id, 0);
    assert_eq!(connection.send(&MetadataRequest::default(), Some(13), &mut out), Ok(1));
    assert_eq!(connection.send_without_response(&request, Some(13), &mut out), Ok(2));
    let received = receive(&mut connection, &answer(1, &MetadataResponse::default(), 13));
    assert_eq!(received.api_key, ApiKey::METADATA);

    out.clear();
    assert_eq!(connection.forward_without_response(b"\0\0\0\x0d\0\0\0\x63\xff\xff\0", &mut out), Ok(3));
    assert_eq!(out, &b"\0\0\0\x0b\0\0\0\x0d\0\0\0\x03\xff\xff\0"[..]);
    assert_eq!(connection.in_flight().len(), 0);
}

#[test]
fn the_highest_common_version_is_used() {
    let unknown = ApiKey(999);
    let offered = [
        (ApiKey::API_VERSIONS, 0, 4),
        (ApiKey::METADATA, 0, 12),
        (ApiKey::SHARE_FETCH, 3, 4),
        (ApiKey::INIT_PRODUCER_ID, 0, 6),
        (unknown, 2, 3),
    ];
    let mut connection = connected(Config::default(), &offered);
    assert_eq!(connection.negotiated(ApiKey::METADATA), Some(12));
    assert_eq!(connection.negotiated(ApiKey::API_VERSIONS), Some(4));
    assert_eq!(connection.negotiated(ApiKey::SHARE_FETCH), None);
    assert_eq!(connection.negotiated(ApiKey::SHARE_ACKNOWLEDGE), None);
    assert_eq!(connection.negotiated(unknown), None);
    assert_eq!(connection.offered(ApiKey::SHARE_FETCH), Some(Versions::new(3, 4)));
    assert_eq!(connection.offered(ApiKey::SHARE_ACKNOWLEDGE), None);
    assert_eq!(connection.unknown_apis().collect::<Vec<_>>(), [(unknown, Versions::new(2, 3))]);
    assert_eq!(connection.api_versions().unwrap().api_keys.len(), 5);

    let mut out = BytesMut::new();
    connection.send(&MetadataRequest::default(), None, &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 12);
    let error = connection.send(&ShareFetchRequest::default(), None, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "ShareFetch(78): no common version (ours 1-2, the broker's 3-4)");
    let error = connection.send(&ShareAcknowledgeRequest::default(), None, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "ShareAcknowledge(79): no common version (ours 1-2, the broker's none)");
    assert!(out.is_empty());

    // The last version of InitProducerId is unstable.
    assert_eq!(connection.negotiated(ApiKey::INIT_PRODUCER_ID), Some(5));
    connection.send(&InitProducerIdRequest::default(), None, &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 5);
    connection.send(&InitProducerIdRequest::default(), Some(6), &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 6);
    let mut connection = connected(Config { unstable_versions: true, ..Default::default() }, &offered);
    assert_eq!(connection.negotiated(ApiKey::INIT_PRODUCER_ID), Some(6));
    connection.send(&InitProducerIdRequest::default(), None, &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 6);
}

#[test]
fn odd_offers_do_no_harm() {
    let offered = [
        (ApiKey::METADATA, 5, 3),
        (ApiKey::FETCH, i16::MIN, i16::MAX),
        (ApiKey::PRODUCE, 3, 9),
        (ApiKey::PRODUCE, 3, 12),
        (ApiKey::CONTROLLED_SHUTDOWN, 0, 3),
        (ApiKey(-1), -5, -1),
    ];
    let connection = connected(Config::default(), &offered);
    assert_eq!(connection.negotiated(ApiKey::METADATA), None);
    assert_eq!(connection.offered(ApiKey::METADATA), Some(Versions::NONE));
    assert_eq!(connection.negotiated(ApiKey::FETCH), Some(18));
    assert_eq!(connection.negotiated(ApiKey::PRODUCE), Some(12));
    assert_eq!(connection.negotiated(ApiKey::CONTROLLED_SHUTDOWN), None);
    assert_eq!(connection.unknown_apis().collect::<Vec<_>>(), [(ApiKey(-1), Versions::new(-5, -1))]);
}

#[test]
fn nothing_is_negotiated_before_the_broker_has_answered() {
    let mut connection = connection();
    assert_eq!(connection.negotiated(ApiKey::METADATA), None);
    assert_eq!(connection.offered(ApiKey::METADATA), None);
    assert_eq!(connection.unknown_apis().count(), 0);
    assert_eq!(connection.api_versions(), None);
    let error = connection.send(&MetadataRequest::default(), None, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "Metadata(3): the versions of the broker are not known yet");

    connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()).unwrap();
    let received = receive(&mut connection, &answer(0, &MetadataResponse::default(), 13));
    let error = connection.negotiate(&received).unwrap_err();
    assert_eq!(error.to_string(), "response of Metadata(3), expected ApiVersions(18)");
}

/// Sends `ApiVersions` and receives what `body` is, after the correlation id. Gives the version asked for as well.
fn ask(connection: &mut Connection, body: &str) -> (i16, Result<Negotiation, ConnectionError>) {
    let mut out = BytesMut::new();
    let request = ApiVersionsRequest {
        client_software_name: "name".into(),
        node_id: 3,
        cluster_id: Some("cluster".into()),
        ..Default::default()
    };
    let id = connection.send(&request, None, &mut out).unwrap();
    let version = sent_header(&mut out).request_api_version;

    let body = hex(body);
    let mut buffer = BytesMut::new();
    buffer.put(&(body.len() as i32 + 4).to_be_bytes());
    buffer.put(&id.to_be_bytes());
    buffer.put(&body);
    let received = connection.receive(&mut buffer).unwrap().unwrap();
    (version, connection.negotiate(&received))
}

#[test]
fn an_unsupported_version_falls_back_to_one_that_is_offered() {
    // As a broker that has versions 0-3.
    let mut client = connection();
    assert_eq!(ask(&mut client, "002300000001001200000003"), (5, Ok(Negotiation::Again)));
    assert_eq!(client.negotiated(ApiKey::API_VERSIONS), None);
    // Version 3: ApiVersions 0-3, Metadata 0-12; no tags.
    let body = "0000030012000000030000030000000c000000000000";
    assert_eq!(ask(&mut client, body), (3, Ok(Negotiation::Done)));
    assert_eq!(client.negotiated(ApiKey::METADATA), Some(12));

    // As a broker before Kafka 2.4, which lists nothing, then one that lists other APIs only.
    for list in ["002300000000", "00230000000100030000000c"] {
        let mut client = connection();
        assert_eq!(ask(&mut client, list), (5, Ok(Negotiation::Again)));
        assert_eq!(ask(&mut client, "0000000000010003000000ff"), (0, Ok(Negotiation::Done)));
        assert_eq!(client.negotiated(ApiKey::METADATA), Some(13));
    }
}

#[test]
fn an_unsupported_version_may_be_answered_in_the_version_itself() {
    let mut client = connection();
    // Version 5: ApiVersions 0-2.
    assert_eq!(ask(&mut client, "002302001200000002000000000000"), (5, Ok(Negotiation::Again)));
    let mut out = BytesMut::new();
    client.send(&ApiVersionsRequest::default(), None, &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 2);
}

#[test]
fn falling_back_ends_with_any_broker() {
    // It claims to have 0-5 whatever it is asked in.
    let mut client = connection();
    for version in [5, 4, 3, 2, 1] {
        assert_eq!(ask(&mut client, "002300000001001200000005"), (version, Ok(Negotiation::Again)));
    }
    let (version, refused) = ask(&mut client, "002300000001001200000005");
    let refused = refused.unwrap_err();
    assert_eq!((version, &refused), (0, &ConnectionError::Refused { error_code: ErrorCode(35) }));
    assert_eq!(refused.to_string(), "the broker refuses to tell its versions: UNSUPPORTED_VERSION");

    let (_, refused) = ask(&mut connection(), "002300000001001200060007");
    let text = "ApiVersions(18): no common version (ours 0-5, the broker's 6-7)";
    assert_eq!(refused.unwrap_err().to_string(), text);

    // Another error, in version 5.
    let (_, refused) = ask(&mut connection(), "002a010000000000");
    assert_eq!(refused, Err(ConnectionError::Refused { error_code: ErrorCode::INVALID_REQUEST }));

    // A body of neither version: the error is about the one asked for.
    let (_, error) = ask(&mut connection(), "0023000000");
    let error = error.unwrap_err();
    assert!(error.to_string().starts_with("ApiVersionsResponse v5: "), "{error}");
}

#[test]
fn what_is_negotiated_survives_a_failure() {
    let mut client = connected(Config::default(), &[(ApiKey::API_VERSIONS, 0, 5), (ApiKey::METADATA, 0, 12)]);
    let (version, error) = ask(&mut client, "002a010000000000");
    assert_eq!(version, 5);
    assert!(error.is_err());
    assert_eq!(client.negotiated(ApiKey::METADATA), Some(12));
}

#[test]
fn a_broker_may_take_back_what_it_offered() {
    let mut client = connected(Config::default(), &[(ApiKey::API_VERSIONS, 0, 5), (ApiKey::METADATA, 0, 12)]);
    assert_eq!(ask(&mut client, "002300000001001200000005"), (5, Ok(Negotiation::Again)));
    assert_eq!(client.negotiated(ApiKey::METADATA), None);
    assert_eq!(ask(&mut client, "002300000001001200000003"), (4, Ok(Negotiation::Again)));
    assert_eq!(ask(&mut client, "0000030012000000030000030000000c000000000000"), (3, Ok(Negotiation::Done)));
    assert_eq!(client.negotiated(ApiKey::METADATA), Some(12));
}

#[test]
fn kafkas_answer_to_an_unsupported_version_is_understood() {
    let mut client = Connection::new(Config { first_correlation_id: UNSUPPORTED_ID, ..Default::default() });
    let mut out = BytesMut::new();
    client.send(&ApiVersionsRequest::default(), None, &mut out).unwrap();
    out.clear();
    let received = receive(&mut client, &hex(UNSUPPORTED_ANSWER));

    // To a client that does have version 6.
    let received = Received { version: 6, ..received };
    assert_eq!(client.negotiate(&received), Ok(Negotiation::Again));
    client.send(&ApiVersionsRequest::default(), None, &mut out).unwrap();
    assert_eq!(sent_header(&mut out).request_api_version, 5);
}

#[test]
fn an_unsupported_version_is_answered_as_kafka_does() {
    let mut requests = hex(UNSUPPORTED_REQUEST);
    let mut request = frame::split(&mut requests, frame::DEFAULT_MAX_SIZE).unwrap().unwrap();
    let header = decode_request_header(&mut request).unwrap();
    assert_eq!((header.request_api_key, header.request_api_version), (ApiKey::API_VERSIONS.into(), 6));
    assert_eq!((header.correlation_id, header.client_id), (UNSUPPORTED_ID, None));
    let mut out = BytesMut::new();
    unsupported_api_versions(header.correlation_id, ApiVersionsRequest::VERSIONS, &mut out).unwrap();
    assert_eq!(out, hex(UNSUPPORTED_ANSWER));
}

#[test]
fn a_request_header_needs_a_known_api() {
    let error = decode_request_header(&mut Bytes::from_static(b"\x03\xe7\0\0\0\0\0\0\0\0")).unwrap_err();
    assert_eq!(error.to_string(), "the header of ApiKey(999) is not known");
    let error = decode_request_header(&mut Bytes::from_static(b"\0\x12\0")).unwrap_err();
    assert_eq!(error.to_string(), "frame of 3 bytes is too short for a header");
    let mut frame = Bytes::from_static(b"\0\x12\0\x03\0\0");
    let error = decode_request_header(&mut frame).unwrap_err();
    assert!(error.to_string().starts_with("RequestHeader v2: "), "{error}");
    assert_eq!(frame.len(), 6);
    // A known API of any version, the body left in place.
    let mut frame = Bytes::from_static(b"\0\x11\x7f\xff\0\0\0\x01\0\x01xbody");
    assert_eq!(decode_request_header(&mut frame).unwrap().client_id.as_deref(), Some("x"));
    assert_eq!(frame, "body");
}

#[test]
fn tokens_travel_without_a_header() {
    let mut connection = connection();
    let mut out = BytesMut::new();
    let request = SaslHandshakeRequest { mechanism: "PLAIN".into(), ..Default::default() };
    assert_eq!(connection.send(&request, Some(0), &mut out), Ok(2_147_483_640));
    let busy = ConnectionError::InFlight { count: 1 };
    assert_eq!(busy.to_string(), "tokens without a header have to wait, requests in flight: 1");
    assert_eq!(connection.send_raw(b"token", &mut out), Err(busy.clone()));
    assert_eq!(connection.receive_raw(&mut BytesMut::new()), Err(busy));

    receive(&mut connection, b"\0\0\0\x0a\x7f\xff\xff\xf8\0\0\0\0\0\0");
    out.clear();
    connection.send_raw(b"\0user\0secret", &mut out).unwrap();
    connection.send_raw(b"", &mut out).unwrap();
    assert_eq!(out, &b"\0\0\0\x0c\0user\0secret\0\0\0\0"[..]);

    let mut buffer = BytesMut::from(&b"\0\0\0\x03abc\0\0\0\0\0\0\0"[..]);
    assert_eq!(connection.receive_raw(&mut buffer), Ok(Some("abc".into())));
    assert_eq!(connection.receive_raw(&mut buffer), Ok(Some(Bytes::new())));
    assert_eq!(connection.receive_raw(&mut buffer), Ok(None));
    assert_eq!(buffer.len(), 3);
    assert!(connection.receive_raw(&mut BytesMut::from(&b"\x80\0\0\0"[..])).is_err());

    // Then requests as ever.
    assert_eq!(connection.send(&MetadataRequest::default(), Some(13), &mut out), Ok(0));
}

#[test]
fn tokens_travel_in_requests() {
    let mut connection = connection();
    let mut out = BytesMut::new();
    let request = SaslAuthenticateRequest { auth_bytes: "token".into(), ..Default::default() };
    let id = connection.send(&request, Some(2), &mut out).unwrap();
    assert_eq!(id, 2_147_483_640);
    let response = SaslAuthenticateResponse { session_lifetime_ms: 60_000, ..Default::default() };
    let received = receive(&mut connection, &answer(id, &response, 2));
    assert_eq!(received.decode::<SaslAuthenticateResponse>().unwrap(), response);
}

#[test]
fn unknown_requests_are_forwarded() {
    let mut connection = connection();
    let mut out = BytesMut::new();
    connection.send(&MetadataRequest::default(), Some(13), &mut out).unwrap();

    // Two clients with the same correlation id.
    out.clear();
    let frame = b"\x03\xe7\0\x2a\x11\x22\x33\x44whatever";
    assert_eq!(connection.forward(frame, &mut out), Ok(1));
    assert_eq!(sent(&mut out), &b"\x03\xe7\0\x2a\0\0\0\x01whatever"[..]);
    assert_eq!(connection.forward(&frame[..8], &mut out), Ok(2));
    assert_eq!(sent(&mut out), &b"\x03\xe7\0\x2a\0\0\0\x02"[..]);
    assert_eq!(
        connection.forward(&frame[..7], &mut out),
        Err(ConnectionError::Frame(FrameError::NoHeader { size: 7 }))
    );
    assert!(out.is_empty());

    receive(&mut connection, &answer(0, &MetadataResponse::default(), 13));
    let mut buffer = BytesMut::from(&b"\0\0\0\x08\0\0\0\x01abcd\0\0\0\x04\0\0\0\x02\0"[..]);

    // The next response may not be looked into, and is not lost when that is tried.
    let error = connection.receive(&mut buffer).unwrap_err();
    assert_eq!(error.to_string(), "the next response is that to the forwarded request 1 for ApiKey(999)");
    let ReceivedFrame { request, bytes } = connection.receive_frame(&mut buffer).unwrap().unwrap();
    assert_eq!((request.correlation_id, request.forwarded), (1, Some(0x1122_3344)));
    assert_eq!((request.api_key, request.version), (ApiKey(999), 42));
    assert_eq!(bytes, &b"\0\0\0\x08\x11\x22\x33\x44abcd"[..]);
    let frame = connection.receive_frame(&mut buffer).unwrap().unwrap();
    assert_eq!(frame.bytes, &b"\0\0\0\x04\x11\x22\x33\x44"[..]);
    assert_eq!(connection.receive_frame(&mut buffer), Ok(None));
    assert_eq!(buffer, &b"\0"[..]);

    // A frame that belongs to nothing stays where it is.
    let mut buffer = BytesMut::from(&b"\0\0\0\x04\0\0\0\x09"[..]);
    let error = connection.receive_frame(&mut buffer).unwrap_err();
    assert_eq!(error, ConnectionError::Unsolicited { found: 9 });
    assert_eq!(buffer.len(), 8);

    // An own request may be received as a frame too.
    connection.send(&MetadataRequest::default(), Some(13), &mut out).unwrap();
    let mut response = answer(3, &MetadataResponse::default(), 13);
    let expected = response.clone();
    let frame = connection.receive_frame(&mut response).unwrap().unwrap();
    assert_eq!((frame.request.forwarded, frame.bytes), (None, expected.freeze()));
}

#[test]
fn hostile_bytes_do_no_harm() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..20_000 {
        let mut client = connection();
        client.send(&ApiVersionsRequest::default(), None, &mut Vec::new()).unwrap();
        if round % 3 == 0 {
            client.forward(&[0; 8], &mut Vec::new()).unwrap();
        }
        // A size and a correlation id that pass, mostly.
        let size = random() % 40;
        let mut buffer = BytesMut::from(&[0, 0, 0, size, 0, 0, 0, random() % 8 / 7][..]);
        buffer.extend((0..size).map(|_| match random() % 4 {
            0 => random(),
            _ => random() % 3,
        }));
        let mut frames = buffer.clone();
        while let Ok(Some(received)) = client.receive(&mut buffer) {
            let _ = client.negotiate(&received);
        }
        while let Ok(Some(_)) = client.receive_frame(&mut buffer) {}
        while let Ok(Some(mut frame)) = frame::split(&mut frames, 100) {
            let _ = client.forward(&frame, &mut Vec::new());
            let _ = decode_request_header(&mut frame);
        }
    }
    // What a response claims about itself may be anything.
    let received = Received {
        correlation_id: 0,
        api_key: ApiKey::API_VERSIONS,
        version: i16::MIN,
        header: ResponseHeader::default(),
        body: Bytes::from_static(b"\0\x23\0\0\0\0"),
    };
    assert!(connection().negotiate(&received).is_err());
}

/// Two connections of a share consumer to a broker: direction, API, version, correlation id and frame.
fn recorded() -> Vec<Vec<(bool, i16, i32, Bytes)>> {
    let text = include_str!("connection/share-consumer.txt");
    let connections = text.split("# connection\n").skip(1).map(|lines| {
        let frames = lines.lines().filter(|line| !line.is_empty()).map(|line| {
            let [direction, _, version, id, frame] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("five columns")
            };
            (direction == ">", version.parse().unwrap(), id.parse().unwrap(), unhex(frame))
        });
        frames.collect()
    });
    connections.collect()
}

/// A frame as it travels.
fn sized(frame: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    FrameCodec::default().encode(Bytes::copy_from_slice(frame), &mut bytes).unwrap();
    bytes
}

#[test]
fn a_recorded_conversation_is_forwarded() {
    let mut forwarded = 0;
    for frames in recorded() {
        let mut proxy = Connection::new(Config { first_correlation_id: 1000, ..Default::default() });
        for (is_request, version, id, frame) in frames {
            if is_request {
                let mut out = BytesMut::new();
                let own = proxy.forward(&frame, &mut out).unwrap();
                let out = sent(&mut out);
                assert_eq!((&out[..4], &out[8..]), (&frame[..4], &frame[8..]));
                assert_eq!(out[4..8], own.to_be_bytes());
            } else {
                let own = proxy.in_flight().next().unwrap().correlation_id;
                let mut buffer = sized(&frame);
                buffer.patch(4, own.to_be_bytes());
                let received = proxy.receive_frame(&mut buffer).unwrap().unwrap();
                assert_eq!((received.request.version, received.request.forwarded), (version, Some(id)));
                assert_eq!(received.bytes, sized(&frame));
                forwarded += 1;
            }
        }
        assert_eq!(proxy.in_flight().len(), 0);
    }
    assert_eq!(forwarded, 8);
}

/// Decodes a recorded request and sends it again: the version is negotiated, the bytes are the same.
fn resend<R: Rpc>(client: &mut Connection, frame: &Bytes) {
    let (_, request) = frame::decode_request::<R>(frame.clone()).unwrap();
    let mut out = BytesMut::new();
    let id = client.send(&request, None, &mut out).unwrap();
    let out = sent(&mut out);
    assert_eq!((&out[..4], &out[8..]), (&frame[..4], &frame[8..]));
    assert_eq!(out[4..8], id.to_be_bytes());
}

fn again<R: Rpc>(received: &Received) {
    let response = received.decode::<R::Response>().unwrap();
    assert_eq!(response.encode(received.version).unwrap(), received.body);
}

#[test]
fn a_recorded_conversation_is_had_again() {
    for frames in recorded() {
        let client_id = decode_request_header(&mut frames[0].3.clone()).unwrap().client_id;
        let mut client = Connection::new(Config { client_id, ..Default::default() });
        for (is_request, version, _, frame) in frames {
            if is_request {
                match frame::peek_request(&frame).unwrap().0 {
                    ApiKey::API_VERSIONS => resend::<ApiVersionsRequest>(&mut client, &frame),
                    ApiKey::METADATA => resend::<MetadataRequest>(&mut client, &frame),
                    ApiKey::FIND_COORDINATOR => resend::<FindCoordinatorRequest>(&mut client, &frame),
                    ApiKey::SHARE_FETCH => resend::<ShareFetchRequest>(&mut client, &frame),
                    _ => resend::<ShareAcknowledgeRequest>(&mut client, &frame),
                }
                continue;
            }
            let id = client.in_flight().next().unwrap().correlation_id;
            let mut buffer = sized(&frame);
            buffer.patch(4, id.to_be_bytes());
            let received = receive(&mut client, &buffer);
            assert_eq!((received.correlation_id, received.version), (id, version));
            match received.api_key {
                ApiKey::API_VERSIONS => {
                    again::<ApiVersionsRequest>(&received);
                    assert_eq!(client.negotiate(&received), Ok(Negotiation::Done));
                }
                ApiKey::METADATA => again::<MetadataRequest>(&received),
                ApiKey::FIND_COORDINATOR => again::<FindCoordinatorRequest>(&received),
                ApiKey::SHARE_FETCH => again::<ShareFetchRequest>(&received),
                _ => again::<ShareAcknowledgeRequest>(&received),
            }
        }
        assert_eq!(client.in_flight().len(), 0);
    }
}

#[test]
fn the_codec_cuts_and_joins_frames() {
    let mut codec = FrameCodec { max_size: 30 };
    let mut bytes = BytesMut::new();
    codec.encode(Bytes::from_static(b"frame"), &mut bytes).unwrap();
    let header = frame::request_header::<MetadataRequest>(13, 7, "me");
    codec.encode((&header, &MetadataRequest::default()), &mut bytes).unwrap();
    let response_header = ResponseHeader { correlation_id: 7, ..Default::default() };
    let response = MetadataResponse::default();
    codec.encode((&response_header, &response, 13), &mut bytes).unwrap();

    // What is too large, or cannot be encoded, leaves nothing behind.
    let before = bytes.clone();
    let error = codec.encode(Bytes::from_static(&[0; 31]), &mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "frame of 31 bytes, at most 30 are allowed");
    let long = frame::request_header::<MetadataRequest>(13, 7, "a client id that is too long");
    assert!(codec.encode((&long, &MetadataRequest::default()), &mut bytes).is_err());
    assert!(codec.encode((&response_header, &response, 99), &mut bytes).is_err());
    assert_eq!(bytes, before);

    assert_eq!(codec.decode(&mut bytes).unwrap().unwrap(), "frame");
    let request = codec.decode(&mut bytes).unwrap().unwrap();
    assert_eq!(frame::decode_request::<MetadataRequest>(request).unwrap().0, header);
    let frame = codec.decode(&mut bytes).unwrap().unwrap();
    assert_eq!(frame::decode_response::<MetadataResponse>(frame, 13).unwrap().1, response);
    assert!(codec.decode(&mut bytes).unwrap().is_none());

    bytes.extend_from_slice(b"\0\0\0\x1f");
    let error = codec.decode(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    let inner = error.into_inner().unwrap().downcast::<FrameError>().unwrap();
    assert_eq!(*inner, FrameError::TooLarge { size: 31, max_size: 30 });
}

#[test]
fn frames_of_a_codec_are_received() {
    let mut connection = connection();
    let id = connection.send(&MetadataRequest::default(), Some(13), &mut Vec::new()).unwrap();
    let mut bytes = answer(id, &MetadataResponse::default(), 13);
    let frame = FrameCodec::default().decode(&mut bytes).unwrap().unwrap();
    let received = connection.receive_split(frame).unwrap();
    assert_eq!((received.correlation_id, received.version), (id, 13));
    let late = answer(id, &MetadataResponse::default(), 13).freeze().slice(4..);
    assert_eq!(connection.receive_split(late), Err(ConnectionError::Unsolicited { found: id }));
}
