//! Public bug reports that are no input with an output; `reports` runs the others. Each test is named after its case.

use kafka_protocol::connection::{Config, Connection, Negotiation};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Api, ApiKey, ErrorCode, Message};
use kafka_protocol::wire::{BytesMut, Str};

use crate::fixture::unhex;

#[test]
fn b70_headers_by_api_and_version() {
    const ROWS: &[[i16; 4]] = &[
        // key, version, header of the request, of the response
        [0, 8, 1, 0],
        [0, 9, 2, 1],
        [1, 11, 1, 0],
        [1, 12, 2, 1],
        [3, 8, 1, 0],
        [3, 9, 2, 1],
        [10, 2, 1, 0],
        [10, 3, 2, 1],
        [17, 1, 1, 0],
        [18, 2, 1, 0],
        [18, 3, 2, 0],
        [18, 4, 2, 0],
        [36, 1, 1, 0],
        [36, 2, 2, 1],
        [60, 0, 2, 1],
        [78, 1, 2, 1],
        [79, 2, 2, 1],
    ];
    for &[key, version, request, response] in ROWS {
        let api = ApiKey(key).api().expect("an API");
        let headers = (api.request_header.of(version), api.response_header.of(version));
        assert_eq!(headers, (request, response), "{} v{version}", api.name);
    }
}

/// Brokers before Kafka 2.4 answer with the error alone.
#[test]
fn b80_a_broker_without_our_version_is_asked_again() {
    let mut connection = Connection::new(Config::default());
    let mut out = Vec::new();
    let request = ApiVersionsRequest {
        client_software_name: Str::new("c"),
        client_software_version: Str::new("1"),
        ..Default::default()
    };
    let correlation_id = connection.send(&request, None, &mut out).expect("sent");
    let sent = connection.in_flight().last().map(|sent| sent.version);
    assert_eq!(sent, Some(ApiVersionsRequest::VERSIONS.max()));

    let body = unhex("002300000000");
    let answer = ApiVersionsResponse::decode(body.clone(), 0).expect("an answer");
    assert_eq!((answer.error_code, answer.api_keys.len()), (ErrorCode::UNSUPPORTED_VERSION, 0));
    let mut buffer = BytesMut::new();
    buffer.extend_from_slice(&10i32.to_be_bytes());
    buffer.extend_from_slice(&correlation_id.to_be_bytes());
    buffer.extend_from_slice(&body);
    let received = connection.receive(&mut buffer).expect("a frame").expect("whole");
    assert_eq!(connection.negotiate(&received), Ok(Negotiation::Again));

    connection.send(&request, None, &mut out).expect("sent");
    assert_eq!(connection.in_flight().last().map(|sent| sent.version), Some(0));
}

#[test]
fn b84_removed_and_unknown_keys_are_no_apis() {
    let live = |key| ApiKey(key).api().filter(|api| !api.is_removed());
    for key in [0, 3, 18, 75, 78, 79] {
        assert!(live(key).is_some(), "{key}");
    }
    for key in [-1, 4, 5, 6, 7, 9999] {
        assert_eq!(live(key), None, "{key}");
    }
    let keys: Vec<i16> = ApiKey::all().filter(|api| !Api::is_removed(api)).map(|api| api.key.0).collect();
    assert!([4, 5, 6, 7].iter().all(|removed| !keys.contains(removed)));
    assert!([0, 3, 18, 75, 78, 79].iter().all(|key| keys.contains(key)));
}

#[test]
fn b94_defaults() {
    assert!(MetadataRequest::default().allow_auto_topic_creation);
    assert_eq!(ApiVersionsResponse::default().finalized_features_epoch, -1);
    assert_eq!(ShareFetchRequest::default().max_bytes, i32::MAX);
    assert_eq!(ShareFetchRequest::default().group_id, None);
    assert_eq!(ElectLeadersRequest::default().timeout_ms, 60_000);
    assert_eq!(describe_groups_response::DescribedGroup::default().authorized_operations, i32::MIN);
    assert_eq!(InitProducerIdRequest::default().producer_id, -1);
    assert_eq!(fetch_request::FetchPartition::default().high_watermark, i64::MAX);
}

#[test]
fn b157_structs_of_one_name_in_several_messages() {
    let fetch = fetch_response::PartitionData { high_watermark: 5, ..Default::default() };
    let share =
        share_fetch_response::PartitionData { acknowledge_error_code: ErrorCode(7), ..Default::default() };
    assert_eq!((fetch.high_watermark, share.acknowledge_error_code.0), (5, 7));
    assert!(std::any::type_name_of_val(&fetch) != std::any::type_name_of_val(&share));
}

#[test]
fn b161_unknown_tags_count_for_equality() {
    let decode = |hex| ApiVersionsRequest::decode(unhex(hex), 3).expect("a request");
    assert_ne!(decode("0263023101090101"), decode("0263023101090102"));
    assert_eq!(decode("0263023101090101"), decode("0263023101090101"));
}
