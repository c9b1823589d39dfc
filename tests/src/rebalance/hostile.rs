//! Members against a coordinator that answers anything.

use std::time::Duration;

use kafka_protocol::embedded::encode_versioned;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{Assignor, Config, GroupProtocol, Member, Outgoing, Request, Response};
use kafka_protocol::wire::{Bytes, Str, Uuid};

use crate::random::Random;

/// A third of them in each protocol.
const DAYS: u64 = 600;

/// Requests at one moment. What is answered with nonsense may be asked again at once a few times, but not for ever.
const REQUESTS: usize = 100;

/// No answer makes a member panic, spin, or miss a deadline; and some of what it is told makes sense.
#[test]
fn a_member_survives_any_answer() {
    let assigned: usize = (0..DAYS).map(day).sum();
    assert!(assigned > 500, "only {assigned} partitions were assigned");
}

fn day(day: u64) -> usize {
    let mut random = Random::new("hostile coordinator", 0, day);
    let hard = random.once_in(4);
    let protocol = match day % 3 {
        0 => GroupProtocol::Classic { assignors: vec![Assignor::Range, Assignor::CooperativeSticky] },
        1 => GroupProtocol::Classic { assignors: vec![Assignor::CooperativeSticky] },
        _ => GroupProtocol::Consumer { member_id: "m1".into(), server_assignor: None },
    };
    let mut member = Member::new(Config::new("group", protocol));
    let mut now = Duration::ZERO;
    member.subscribe(["orders", "payments"], now).expect("open");
    let mut assigned = 0;
    for _ in 0..80 {
        drive(&mut member, now, &mut random, hard, day);
        let poll = member.poll(now);
        assigned += poll.assigned.len();
        for partition in &poll.fetchable {
            // A negative offset is refused.
            let offset = offset(&mut random);
            assert_eq!(member.commit([(partition.clone(), offset)], now).is_ok(), offset >= 0);
        }
        while member.next_event().is_some() {}
        if member.is_finished() {
            break;
        }
        drive(&mut member, now, &mut random, hard, day);
        if let Some(deadline) = member.deadline(now) {
            assert!(deadline > now, "day {day}: a deadline of {deadline:?} is not met at {now:?}");
            if random.once_in(2) {
                now = deadline;
            }
        }
        now += Duration::from_millis(random.below(3000) as u64);
    }
    assigned
}

fn drive(member: &mut Member, now: Duration, random: &mut Random, hard: bool, day: u64) {
    let mut requests = 0;
    while let Some(Outgoing { id, request, .. }) = member.next_request(now) {
        requests += 1;
        assert!(requests < REQUESTS, "day {day}: {:?} over and over", request.api_key());
        if random.once_in(10) {
            member.fail(id, ErrorCode::NETWORK_EXCEPTION, now);
        } else {
            let response = answer(&request, &member.member_id(), random, hard);
            member.receive(id, response, now);
        }
    }
}

fn number(random: &mut Random) -> i32 {
    random.pick(&[0, 1, 1, 2, 3, 5, 1000, -1, -2, i32::MIN, i32::MAX])
}

fn throttle(random: &mut Random) -> i32 {
    if random.once_in(40) { number(random) } else { 0 }
}

fn small(random: &mut Random) -> i32 {
    random.pick(&[0, 1, 2, 3, -1, i32::MAX, i32::MIN])
}

fn offset(random: &mut Random) -> i64 {
    random.pick(&[0, 1, 5, -1, -2, i64::MIN, i64::MAX])
}

fn error(random: &mut Random, hard: bool) -> ErrorCode {
    if random.once_in(2) {
        return ErrorCode::NONE;
    }
    let e = random.pick(ErrorCode::ALL);
    if hard || e.is_retriable() { e } else { ErrorCode::NONE }
}

fn topic(random: &mut Random) -> Str {
    random.pick(&["orders", "payments", "", "else"]).into()
}

fn id(random: &mut Random) -> Uuid {
    Uuid::from_u128(random.pick(&[0u128, 1, 2, 3]))
}

fn bytes(random: &mut Random, sub: bool) -> Bytes {
    if random.once_in(3) {
        let n = random.below(40);
        return random.bytes(n).into();
    }
    if sub {
        let s = ConsumerProtocolSubscription {
            topics: (0..random.below(3)).map(|_| topic(random)).collect(),
            owned_partitions: (0..random.below(3))
                .map(|_| consumer_protocol_subscription::TopicPartition {
                    topic: topic(random),
                    partitions: (0..random.below(3)).map(|_| small(random)).collect(),
                    ..Default::default()
                })
                .collect(),
            generation_id: number(random),
            ..Default::default()
        };
        let v = random.pick(&[0i16, 1, 2, 3]);
        encode_versioned(
            &ConsumerProtocolSubscription {
                generation_id: if v >= 2 { s.generation_id } else { -1 },
                owned_partitions: if v >= 1 { s.owned_partitions.clone() } else { vec![] },
                ..s
            },
            v,
        )
        .unwrap()
    } else {
        let a = ConsumerProtocolAssignment {
            assigned_partitions: (0..random.below(4))
                .map(|_| consumer_protocol_assignment::TopicPartition {
                    topic: topic(random),
                    partitions: (0..random.below(3)).map(|_| small(random)).collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        encode_versioned(&a, 1).unwrap()
    }
}

fn answer(q: &Request, me: &Str, random: &mut Random, hard: bool) -> Response {
    match q {
        _ if random.once_in(60) => HeartbeatResponse::default().into(),
        Request::FindCoordinator(_) => FindCoordinatorResponse {
            node_id: number(random),
            host: "h".into(),
            port: 1,
            error_code: error(random, hard),
            coordinators: (0..random.below(2))
                .map(|_| find_coordinator_response::Coordinator {
                    node_id: number(random),
                    error_code: error(random, hard),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
        .into(),
        Request::Metadata(_) => MetadataResponse {
            topics: (0..random.below(4))
                .map(|_| metadata_response::MetadataResponseTopic {
                    name: Some(topic(random)),
                    topic_id: id(random),
                    error_code: error(random, true),
                    partitions: (0..random.below(4))
                        .map(|_| metadata_response::MetadataResponsePartition {
                            partition_index: number(random),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
        .into(),
        Request::JoinGroup(j) => {
            let member_id = if j.member_id.is_empty() { Str::from("m1") } else { j.member_id.clone() };
            let lead = random.once_in(2);
            let mut members: Vec<_> = (0..random.below(4))
                .map(|i| join_group_response::JoinGroupResponseMember {
                    member_id: format!("o{i}").into(),
                    metadata: bytes(random, true),
                    ..Default::default()
                })
                .collect();
            if random.once_in(2) {
                members.push(join_group_response::JoinGroupResponseMember {
                    member_id: member_id.clone(),
                    metadata: bytes(random, true),
                    ..Default::default()
                });
            }
            JoinGroupResponse {
                error_code: error(random, hard),
                generation_id: number(random),
                protocol_name: random
                    .pick(&[Some("range"), Some("cooperative-sticky"), Some(""), None])
                    .map(Into::into),
                leader: if lead { member_id.clone() } else { "o0".into() },
                member_id,
                members: if lead { members } else { vec![] },
                skip_assignment: random.once_in(5),
                ..Default::default()
            }
            .into()
        }
        Request::SyncGroup(_) => SyncGroupResponse {
            error_code: error(random, hard),
            assignment: bytes(random, false),
            throttle_time_ms: throttle(random),
            ..Default::default()
        }
        .into(),
        Request::Heartbeat(_) => {
            let (error_code, throttle_time_ms) = (error(random, hard), throttle(random));
            HeartbeatResponse { error_code, throttle_time_ms, ..Default::default() }.into()
        }
        Request::LeaveGroup(_) => {
            LeaveGroupResponse { error_code: error(random, hard), ..Default::default() }.into()
        }
        Request::OffsetCommit(c) => OffsetCommitResponse {
            topics: c
                .topics
                .iter()
                .map(|t| offset_commit_response::OffsetCommitResponseTopic {
                    name: t.name.clone(),
                    topic_id: if random.once_in(4) { id(random) } else { t.topic_id },
                    partitions: t
                        .partitions
                        .iter()
                        .map(|p| offset_commit_response::OffsetCommitResponsePartition {
                            partition_index: if random.once_in(5) {
                                number(random)
                            } else {
                                p.partition_index
                            },
                            error_code: error(random, hard),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
        .into(),
        Request::OffsetFetch(f) => OffsetFetchResponse {
            groups: f
                .groups
                .iter()
                .map(|g| offset_fetch_response::OffsetFetchResponseGroup {
                    error_code: error(random, hard),
                    topics: g
                        .topics
                        .iter()
                        .flatten()
                        .map(|t| offset_fetch_response::OffsetFetchResponseTopics {
                            name: t.name.clone(),
                            topic_id: t.topic_id,
                            partitions: t
                                .partition_indexes
                                .iter()
                                .map(|p| offset_fetch_response::OffsetFetchResponsePartitions {
                                    partition_index: if random.once_in(6) { number(random) } else { *p },
                                    committed_offset: offset(random),
                                    error_code: error(random, hard),
                                    ..Default::default()
                                })
                                .collect(),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
        .into(),
        Request::ConsumerGroupHeartbeat(_) => ConsumerGroupHeartbeatResponse {
            error_code: error(random, hard),
            member_epoch: number(random),
            heartbeat_interval_ms: number(random),
            throttle_time_ms: throttle(random),
            member_id: match random.below(3) {
                0 => None,
                1 => Some(me.clone()),
                _ => Some("".into()),
            },
            assignment: (!random.once_in(2)).then(|| consumer_group_heartbeat_response::Assignment {
                topic_partitions: (0..random.below(4))
                    .map(|_| consumer_group_heartbeat_response::TopicPartitions {
                        topic_id: id(random),
                        partitions: (0..random.below(4)).map(|_| small(random)).collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }),
            ..Default::default()
        }
        .into(),
    }
}
