//! KIP-1222 to the letter: bytes written by hand from its message definitions, and how they differ from what Kafka
//! released.
//!
//! The KIP adds `IsRenewAck` to version 2 of both requests. Kafka 4.2 and later put `ShareAcquireMode` (KIP-1206) in
//! front of it in ShareFetchRequest.

use kafka_protocol::messages as released;
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode, Message};
use kafka_protocol::wire::{Bytes, Str, Uuid};

use crate::fixture::unhex;
use crate::kip_1222 as kip;

const TOPIC_A: Uuid = Uuid::from_bytes([0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const TOPIC_B: Uuid = Uuid::from_bytes([0xb0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// Bytes of a message: pieces that all versions have, or only version 2.
type Pieces = &'static [(Since, &'static str)];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Since {
    V1 = 1,
    V2 = 2,
}
use Since::{V1, V2};

fn written_by_hand(pieces: Pieces, version: i16) -> Bytes {
    unhex(&pieces.iter().filter(|piece| piece.0 as i16 <= version).map(|piece| piece.1).collect::<String>())
}

/// In flexible versions a string and an array are preceded by their length plus one as a varint, and every struct
/// ends with the number of its tagged fields.
#[rustfmt::skip] // a field per line
const SHARE_FETCH_REQUEST: Pieces = &[
    (V1, "03 6731"),             // GroupId "g1"
    (V1, "04 6d2d31"),           // MemberId "m-1"
    (V1, "00000005"),            // ShareSessionEpoch 5
    (V1, "000001f4"),            // MaxWaitMs 500
    (V1, "00000001"),            // MinBytes 1
    (V1, "00100000"),            // MaxBytes 1048576
    (V1, "00000200"),            // MaxRecords 512
    (V1, "00000064"),            // BatchSize 100
    (V2, "01"),                  // IsRenewAck true
    (V1, "02"),                  // Topics: 1
    (V1, "a0010203 04050607"),   //   TopicId, first half
    (V1, "08090a0b 0c0d0e0f"),   //   TopicId, second half
    (V1, "03"),                  //   Partitions: 2
    (V1, "00000007"),            //     PartitionIndex 7
    (V1, "03"),                  //     AcknowledgementBatches: 2
    (V1, "00000000 00000064"),   //       FirstOffset 100
    (V1, "00000000 00000066"),   //       LastOffset 102
    (V1, "04 01 00 03"),         //       AcknowledgeTypes: accept, gap, reject
    (V1, "00"),                  //       no tagged fields
    (V1, "00000000 000000c8"),   //       FirstOffset 200
    (V1, "00000001 00000000"),   //       LastOffset 4294967296
    (V1, "02 04"),               //       AcknowledgeTypes: renew
    (V1, "00"),                  //       no tagged fields
    (V1, "00"),                  //     no tagged fields
    (V1, "00000008"),            //     PartitionIndex 8
    (V1, "01"),                  //     AcknowledgementBatches: none
    (V1, "00"),                  //     no tagged fields
    (V1, "00"),                  //   no tagged fields
    (V1, "02"),                  // ForgottenTopicsData: 1
    (V1, "b0010203 04050607"),   //   TopicId, first half
    (V1, "08090a0b 0c0d0e0f"),   //   TopicId, second half
    (V1, "03 00000001 ffffffff"),//   Partitions: 1, -1
    (V1, "00"),                  //   no tagged fields
    (V1, "00"),                  // no tagged fields
];

/// The value of those bytes. The structs of the two layouts are different types with the same names.
macro_rules! share_fetch_request {
    ($layout:ident, $renew:expr) => {{
        use $layout::share_fetch_request::*;
        ShareFetchRequest {
            group_id: Some(Str::new("g1")),
            member_id: Some(Str::new("m-1")),
            share_session_epoch: 5,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1048576,
            max_records: 512,
            batch_size: 100,
            is_renew_ack: $renew,
            topics: vec![FetchTopic {
                topic_id: TOPIC_A,
                partitions: vec![
                    FetchPartition {
                        partition_index: 7,
                        acknowledgement_batches: vec![
                            AcknowledgementBatch {
                                first_offset: 100,
                                last_offset: 102,
                                acknowledge_types: [
                                    AcknowledgeType::ACCEPT,
                                    AcknowledgeType::GAP,
                                    AcknowledgeType::REJECT,
                                ]
                                .into_iter()
                                .collect(),
                                ..Default::default()
                            },
                            AcknowledgementBatch {
                                first_offset: 200,
                                last_offset: 4294967296,
                                acknowledge_types: [AcknowledgeType::RENEW].into_iter().collect(),
                                ..Default::default()
                            },
                        ],
                        ..Default::default()
                    },
                    FetchPartition { partition_index: 8, ..Default::default() },
                ],
                ..Default::default()
            }],
            forgotten_topics_data: vec![ForgottenTopic {
                topic_id: TOPIC_B,
                partitions: [1, -1].into_iter().collect(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }};
}

#[rustfmt::skip] // a field per line
const SHARE_ACKNOWLEDGE_REQUEST: Pieces = &[
    (V1, "03 6731"),             // GroupId "g1"
    (V1, "00"),                  // MemberId null
    (V1, "ffffffff"),            // ShareSessionEpoch -1
    (V2, "01"),                  // IsRenewAck true
    (V1, "02"),                  // Topics: 1
    (V1, "b0010203 04050607"),   //   TopicId, first half
    (V1, "08090a0b 0c0d0e0f"),   //   TopicId, second half
    (V1, "02"),                  //   Partitions: 1
    (V1, "00000003"),            //     PartitionIndex 3
    (V1, "02"),                  //     AcknowledgementBatches: 1
    (V1, "00000000 0000000a"),   //       FirstOffset 10
    (V1, "00000000 0000000b"),   //       LastOffset 11
    (V1, "03 02 04"),            //       AcknowledgeTypes: release, renew
    (V1, "00"),                  //       no tagged fields
    (V1, "00"),                  //     no tagged fields
    (V1, "00"),                  //   no tagged fields
    (V1, "00"),                  // no tagged fields
];

macro_rules! share_acknowledge_request {
    ($layout:ident, $renew:expr) => {{
        use $layout::share_acknowledge_request::*;
        ShareAcknowledgeRequest {
            group_id: Some(Str::new("g1")),
            member_id: None,
            share_session_epoch: -1,
            is_renew_ack: $renew,
            topics: vec![AcknowledgeTopic {
                topic_id: TOPIC_B,
                partitions: vec![AcknowledgePartition {
                    partition_index: 3,
                    acknowledgement_batches: vec![AcknowledgementBatch {
                        first_offset: 10,
                        last_offset: 11,
                        acknowledge_types: [AcknowledgeType::RELEASE, AcknowledgeType::RENEW]
                            .into_iter()
                            .collect(),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    }};
}

#[rustfmt::skip] // a field per line
const SHARE_ACKNOWLEDGE_RESPONSE: Pieces = &[
    (V1, "0000000a"),            // ThrottleTimeMs 10
    (V1, "0000"),                // ErrorCode NONE
    (V1, "00"),                  // ErrorMessage null
    (V2, "00007530"),            // AcquisitionLockTimeoutMs 30000
    (V1, "02"),                  // Responses: 1
    (V1, "a0010203 04050607"),   //   TopicId, first half
    (V1, "08090a0b 0c0d0e0f"),   //   TopicId, second half
    (V1, "02"),                  //   Partitions: 1
    (V1, "00000007"),            //     PartitionIndex 7
    (V1, "0006"),                //     ErrorCode NOT_LEADER_OR_FOLLOWER
    (V1, "06 6d6f766564"),       //     ErrorMessage "moved"
    (V1, "00000002"),            //     CurrentLeader: LeaderId 2
    (V1, "00000009"),            //     CurrentLeader: LeaderEpoch 9
    (V1, "00"),                  //     CurrentLeader: no tagged fields
    (V1, "00"),                  //     no tagged fields
    (V1, "00"),                  //   no tagged fields
    (V1, "02"),                  // NodeEndpoints: 1
    (V1, "00000002"),            //   NodeId 2
    (V1, "03 6232"),             //   Host "b2"
    (V1, "00002384"),            //   Port 9092
    (V1, "00"),                  //   Rack null
    (V1, "00"),                  //   no tagged fields
    (V1, "00"),                  // no tagged fields
];

macro_rules! share_acknowledge_response {
    ($layout:ident, $timeout:expr) => {{
        use $layout::share_acknowledge_response::*;
        ShareAcknowledgeResponse {
            throttle_time_ms: 10,
            error_code: ErrorCode::NONE,
            error_message: None,
            acquisition_lock_timeout_ms: $timeout,
            responses: vec![ShareAcknowledgeTopicResponse {
                topic_id: TOPIC_A,
                partitions: vec![PartitionData {
                    partition_index: 7,
                    error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
                    error_message: Some(Str::new("moved")),
                    current_leader: LeaderIdAndEpoch { leader_id: 2, leader_epoch: 9, ..Default::default() },
                    ..Default::default()
                }],
                ..Default::default()
            }],
            node_endpoints: vec![NodeEndpoint {
                node_id: 2,
                host: Str::new("b2"),
                port: 9092,
                rack: None,
                ..Default::default()
            }],
            ..Default::default()
        }
    }};
}

#[track_caller]
fn check<M: Message>(value: &M, version: i16, pieces: Pieces) {
    let bytes = written_by_hand(pieces, version);
    assert_eq!(value.encode(version).as_ref(), Ok(&bytes));
    assert_eq!(M::decode(bytes, version).as_ref(), Ok(value));
}

#[test]
fn share_fetch_request_is_as_the_kip_has_it() {
    check(&share_fetch_request!(kip, false), 1, SHARE_FETCH_REQUEST);
    check(&share_fetch_request!(kip, true), 2, SHARE_FETCH_REQUEST);
}

#[test]
fn share_acknowledge_request_is_as_the_kip_has_it() {
    check(&share_acknowledge_request!(kip, false), 1, SHARE_ACKNOWLEDGE_REQUEST);
    check(&share_acknowledge_request!(kip, true), 2, SHARE_ACKNOWLEDGE_REQUEST);
}

#[test]
fn share_acknowledge_response_is_as_the_kip_has_it() {
    check(&share_acknowledge_response!(kip, 0), 1, SHARE_ACKNOWLEDGE_RESPONSE);
    check(&share_acknowledge_response!(kip, 30_000), 2, SHARE_ACKNOWLEDGE_RESPONSE);
}

#[test]
fn version_1_cannot_renew() {
    let error = share_fetch_request!(kip, true).encode(1).expect_err("a renewal");
    let wrong = "is_renew_ack: not in this version (versions 2+), and not its default false";
    assert_eq!(error.to_string(), format!("ShareFetchRequest v1: {wrong}"));
    let error = share_acknowledge_request!(kip, true).encode(1).expect_err("a renewal");
    assert_eq!(error.to_string(), format!("ShareAcknowledgeRequest v1: {wrong}"));
}

/// The released schema has `ignorable` here, the KIP has not.
#[test]
fn version_1_drops_the_lock_timeout_as_released_but_not_as_in_the_kip() {
    let error = share_acknowledge_response!(kip, 30_000).encode(1).expect_err("not ignorable");
    assert_eq!(
        error.to_string(),
        "ShareAcknowledgeResponse v1: acquisition_lock_timeout_ms: \
         not in this version (versions 2+), and not its default 0",
    );
    let bytes = written_by_hand(SHARE_ACKNOWLEDGE_RESPONSE, 1);
    assert_eq!(share_acknowledge_response!(released, 30_000).encode(1), Ok(bytes));
}

#[test]
fn the_released_share_fetch_request_has_one_byte_more_in_version_2() {
    let as_in_kip = written_by_hand(SHARE_FETCH_REQUEST, 2);
    for mode in [0, 1, -1] {
        let request =
            released::ShareFetchRequest { share_acquire_mode: mode, ..share_fetch_request!(released, true) };
        let mut bytes = request.encode(2).expect("a message").to_vec();

        // GroupId and MemberId, six int32, then the mode.
        let at = 3 + 4 + 6 * 4;
        assert_eq!(bytes.remove(at), mode as u8);
        assert_eq!(bytes, as_in_kip);
    }
}

/// So a peer with the other layout is found out, or worse, misunderstood: a mode of 0 or 1 is a flag, and the flag is
/// the count of topics.
#[test]
fn the_two_layouts_of_version_2_do_not_interoperate() {
    let kip = share_fetch_request!(kip, true);
    let released = share_fetch_request!(released, true);
    assert!(released::ShareFetchRequest::decode(kip.encode(2).expect("bytes"), 2).is_err());
    assert!(kip::ShareFetchRequest::decode(released.encode(2).expect("bytes"), 2).is_err());
}

#[test]
fn all_else_is_the_same_in_both_layouts() {
    check(&share_fetch_request!(released, false), 1, SHARE_FETCH_REQUEST);
    check(&share_acknowledge_request!(released, false), 1, SHARE_ACKNOWLEDGE_REQUEST);
    check(&share_acknowledge_request!(released, true), 2, SHARE_ACKNOWLEDGE_REQUEST);
    check(&share_acknowledge_response!(released, 0), 1, SHARE_ACKNOWLEDGE_RESPONSE);
    check(&share_acknowledge_response!(released, 30_000), 2, SHARE_ACKNOWLEDGE_RESPONSE);
}
