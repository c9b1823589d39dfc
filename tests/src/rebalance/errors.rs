//! Every error code that a broker can answer with, to every API that members use.

use std::time::Duration;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::rebalance::{CommitError, Config, Event, Request, Response};

use super::desk::{Desk, commit_response, consumer, cooperative, id, partition};

/// What becomes of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It goes on and asks again.
    Retries,
    /// It loses what it owns, and joins again.
    Loses,
    /// It ends.
    Fails,
    /// The request is refused, and nothing else.
    Refused,
}

use Outcome::{Fails, Loses, Refused, Retries};

/// Codes to which every API is tried again: those of the way to the coordinator, and all that Kafka's clients take for
/// passing.
fn passes(code: ErrorCode) -> bool {
    code.is_retriable()
}

/// Answers the request that `is` so with an error, and sees what happens.
fn outcome(mut desk: Desk, is: fn(&Request) -> bool, respond: impl Fn(&Request) -> Response) -> Outcome {
    let had = desk.member.owned().count();
    let (id, request) = desk.take(is);
    let response = respond(&request);
    desk.member.receive(id, response, desk.now);
    let ended = desk.events().into_iter().find_map(|event| match event {
        Event::Failed(refusal) => {
            assert_eq!(refusal.api, request.api_key());
            Some(Fails)
        }
        Event::Committed(result) => match result.partitions[0].1 {
            Err(CommitError::Refused(_)) => Some(Refused),
            _ => None,
        },
        Event::OffsetUnreadable { .. } => Some(Refused),
        _ => None,
    });
    if let Some(outcome) = ended {
        return outcome;
    }
    let poll = desk.member.poll(desk.now);
    if had > 0 && poll.lost.len() == had {
        assert_eq!(desk.member.owned().count(), 0);
        return Loses;
    }
    assert!(poll.lost.is_empty());
    // Comes again after at most a look-up and the longest pause.
    for _ in 0..4 {
        desk.now += Duration::from_secs(1);
        if desk.sends(is) {
            return Retries;
        }
        if desk.sends(|request| matches!(request, Request::FindCoordinator(_))) {
            desk.find_coordinator();
        }
    }
    panic!("{} is not sent again: {:#?}", request.api_key(), desk.open);
}

fn check(api: ApiKey, expected: &[(ErrorCode, Outcome)], other: Outcome, of: impl Fn(ErrorCode) -> Outcome) {
    for &code in ErrorCode::ALL.iter().filter(|code| !code.is_ok()) {
        let listed = expected.iter().find(|(of, _)| *of == code).map(|&(_, outcome)| outcome);
        let expected = listed.unwrap_or(if passes(code) { Retries } else { other });
        assert_eq!(of(code), expected, "{api}: {code:?}");
    }
    assert_eq!(of(ErrorCode(999)), other, "{api}: a code of tomorrow");
}

/// In the group, with a heartbeat due.
fn beating(config: Config) -> Desk {
    let mut desk = Desk::joined(config, &[0]);
    desk.now += Duration::from_secs(3);
    desk
}

#[test]
fn join_group() {
    let joins = |request: &Request| matches!(request, Request::JoinGroup(_));
    let expected = [
        (ErrorCode::MEMBER_ID_REQUIRED, Retries),
        (ErrorCode::REBALANCE_IN_PROGRESS, Retries),
        (ErrorCode::UNKNOWN_MEMBER_ID, Loses),
        (ErrorCode::ILLEGAL_GENERATION, Loses),
    ];
    check(ApiKey::JOIN_GROUP, &expected, Fails, |error_code| {
        let mut desk = Desk::joined(cooperative(), &[0]);
        desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
        outcome(desk, joins, |_| JoinGroupResponse { error_code, ..Default::default() }.into())
    });
}

#[test]
fn sync_group() {
    let syncs = |request: &Request| matches!(request, Request::SyncGroup(_));
    let joins_again = |desk: Desk, error_code| {
        outcome(desk, syncs, |_| SyncGroupResponse { error_code, ..Default::default() }.into())
    };
    let expected = [(ErrorCode::UNKNOWN_MEMBER_ID, Loses), (ErrorCode::ILLEGAL_GENERATION, Loses)];
    for &code in ErrorCode::ALL.iter().filter(|code| !code.is_ok()) {
        let mut desk = Desk::joined(cooperative(), &[0]);
        desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
        let (join, _) = desk.join_group();
        desk.answer_join(join);
        let listed = expected.iter().find(|(of, _)| *of == code).map(|&(_, outcome)| outcome);
        if passes(code) || code == ErrorCode::REBALANCE_IN_PROGRESS {
            // A new round begins with `JoinGroup`.
            let (sync, _) = desk.take(syncs);
            desk.respond(sync, SyncGroupResponse { error_code: code, ..Default::default() });
            desk.now += Duration::from_secs(1);
            if desk.sends(|request| matches!(request, Request::FindCoordinator(_))) {
                desk.find_coordinator();
            }
            desk.join_group();
            assert!(desk.poll().lost.is_empty(), "{code:?}");
        } else {
            assert_eq!(joins_again(desk, code), listed.unwrap_or(Fails), "{code:?}");
        }
    }
}

#[test]
fn heartbeat() {
    let beats = |request: &Request| matches!(request, Request::Heartbeat(_));
    let expected = [
        (ErrorCode::UNKNOWN_MEMBER_ID, Loses),
        (ErrorCode::ILLEGAL_GENERATION, Loses),
        (ErrorCode::REBALANCE_IN_PROGRESS, Retries),
    ];
    check(ApiKey::HEARTBEAT, &expected, Fails, |error_code| {
        let mut desk = beating(cooperative());
        if error_code == ErrorCode::REBALANCE_IN_PROGRESS {
            let (id, _) = desk.take(beats);
            desk.respond(id, HeartbeatResponse { error_code, ..Default::default() });
            desk.join_group();
            assert!(desk.poll().lost.is_empty());
            return Retries;
        }
        outcome(desk, beats, |_| HeartbeatResponse { error_code, ..Default::default() }.into())
    });
}

#[test]
fn consumer_group_heartbeat() {
    let beats = |request: &Request| matches!(request, Request::ConsumerGroupHeartbeat(_));
    let expected = [
        (ErrorCode::UNKNOWN_MEMBER_ID, Loses),
        (ErrorCode::FENCED_MEMBER_EPOCH, Loses),
        (ErrorCode::GROUP_ID_NOT_FOUND, Loses),
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Retries),
    ];
    check(ApiKey::CONSUMER_GROUP_HEARTBEAT, &expected, Fails, |error_code| {
        outcome(beating(consumer()), beats, |_| {
            ConsumerGroupHeartbeatResponse { error_code, ..Default::default() }.into()
        })
    });
}

#[test]
fn offset_commit() {
    let commits = |request: &Request| matches!(request, Request::OffsetCommit(_));
    let expected = [
        (ErrorCode::REBALANCE_IN_PROGRESS, Retries),
        (ErrorCode::STALE_MEMBER_EPOCH, Retries),
        (ErrorCode::UNKNOWN_MEMBER_ID, Loses),
        (ErrorCode::ILLEGAL_GENERATION, Loses),
        (ErrorCode::FENCED_MEMBER_EPOCH, Loses),
        (ErrorCode::FENCED_INSTANCE_ID, Fails),
    ];
    for config in [consumer(), cooperative()] {
        check(ApiKey::OFFSET_COMMIT, &expected, Refused, |error_code| {
            let mut desk = Desk::joined(config.clone(), &[0]);
            desk.commit(0, 11);
            if error_code == ErrorCode::FENCED_INSTANCE_ID {
                desk.answer_commit(error_code);
                assert_eq!(desk.member.failure().map(|failure| failure.error_code), Some(error_code));
                return Fails;
            }
            outcome(desk, commits, |request| match request {
                Request::OffsetCommit(request) => commit_response(request, error_code).into(),
                _ => unreachable!("a commit"),
            })
        });
    }
}

#[test]
fn offset_fetch() {
    let fetches = |request: &Request| matches!(request, Request::OffsetFetch(_));
    let group =
        |error_code| offset_fetch_response::OffsetFetchResponseGroup { error_code, ..Default::default() };
    let expected = [
        (ErrorCode::STALE_MEMBER_EPOCH, Retries),
        (ErrorCode::REBALANCE_IN_PROGRESS, Retries),
        (ErrorCode::UNKNOWN_MEMBER_ID, Loses),
        (ErrorCode::ILLEGAL_GENERATION, Loses),
    ];
    for config in [consumer(), cooperative()] {
        check(ApiKey::OFFSET_FETCH, &expected, Refused, |error_code| {
            let mut desk = Desk::new(config.clone());
            desk.join(&[0]);
            if [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION].contains(&error_code) {
                // No poll has reported anything that one could report as lost.
                let (id, _) = desk.take(fetches);
                desk.respond(
                    id,
                    OffsetFetchResponse { groups: vec![group(error_code)], ..Default::default() },
                );
                assert_eq!((desk.member.owned().count(), desk.member.generation_or_epoch()), (0, None));
                return Loses;
            }
            outcome(desk, fetches, |_| {
                OffsetFetchResponse { groups: vec![group(error_code)], ..Default::default() }.into()
            })
        });
    }
}

#[test]
fn find_coordinator() {
    let finds = |request: &Request| matches!(request, Request::FindCoordinator(_));
    let row = |error_code| find_coordinator_response::Coordinator { error_code, ..Default::default() };
    check(ApiKey::FIND_COORDINATOR, &[], Fails, |error_code| {
        let mut desk = Desk::joined(consumer(), &[0]);
        desk.member.disconnected(desk.now);
        outcome(desk, finds, |_| {
            FindCoordinatorResponse { coordinators: vec![row(error_code)], ..Default::default() }.into()
        })
    });
}

/// One partition of several cannot be read.
#[test]
fn an_unreadable_offset_concerns_its_partition_only() {
    let mut desk = Desk::new(consumer());
    desk.join(&[0, 1]);
    let (id, request) = desk.take(|request| matches!(request, Request::OffsetFetch(_)));
    let Request::OffsetFetch(request) = request else { unreachable!("just asked for") };
    let topic = &request.groups[0].topics.as_ref().expect("topics")[0];
    let row = |&partition_index: &i32| offset_fetch_response::OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        error_code: [ErrorCode::NONE, ErrorCode::TOPIC_AUTHORIZATION_FAILED]
            [usize::from(partition_index == 1)],
        ..Default::default()
    };
    let topics = vec![offset_fetch_response::OffsetFetchResponseTopics {
        topic_id: topic.topic_id,
        partitions: topic.partition_indexes.iter().map(row).collect(),
        ..Default::default()
    }];
    let group = offset_fetch_response::OffsetFetchResponseGroup { topics, ..Default::default() };
    desk.respond(id, OffsetFetchResponse { groups: vec![group], ..Default::default() });
    let poll = desk.poll();
    assert_eq!((poll.fetchable, &poll.assigned[0].committed), (vec![partition(0)], &None));
    let error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    assert!(desk.events().contains(&Event::OffsetUnreadable { partition: partition(1), error_code }));
}

/// However fast the answers are, and however often they are the same, there is a pause some time.
#[test]
fn no_answer_that_comes_again_and_again_keeps_a_member_busy() {
    let heartbeat = |heartbeat_interval_ms, error_code, assigns: bool| {
        move |request: &Request| match request {
            Request::ConsumerGroupHeartbeat(request) => {
                let row = consumer_group_heartbeat_response::TopicPartitions {
                    topic_id: id(),
                    partitions: [0][..].into(),
                    ..Default::default()
                };
                let assignment = consumer_group_heartbeat_response::Assignment {
                    topic_partitions: vec![row],
                    ..Default::default()
                };
                let response = ConsumerGroupHeartbeatResponse {
                    error_code,
                    member_epoch: 1,
                    heartbeat_interval_ms,
                    assignment: (assigns && request.topic_partitions.is_some()).then_some(assignment),
                    ..Default::default()
                };
                Some(response.into())
            }
            _ => None,
        }
    };
    for (interval, assigns) in [(0, false), (-5, false), (1000, true), (0, true)] {
        let sent = sent_at_once(consumer(), heartbeat(interval, ErrorCode::NONE, assigns));
        assert!(sent < 12, "{sent} requests with the interval {interval}");
    }
    for code in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_MEMBER_EPOCH] {
        let sent = sent_at_once(consumer(), heartbeat(1000, code, false));
        assert!(sent < 12, "{sent} requests after {code}");
    }
    for code in [
        ErrorCode::MEMBER_ID_REQUIRED,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::ILLEGAL_GENERATION,
        ErrorCode::REBALANCE_IN_PROGRESS,
    ] {
        let joins = |error_code| {
            move |request: &Request| match request {
                Request::JoinGroup(_) => Some(
                    JoinGroupResponse { error_code, member_id: "me".into(), ..Default::default() }.into(),
                ),
                Request::SyncGroup(_) => {
                    Some(SyncGroupResponse { error_code: code, ..Default::default() }.into())
                }
                _ => None,
            }
        };
        for (api, error_code) in [("JoinGroup", code), ("SyncGroup", ErrorCode::NONE)] {
            let sent = sent_at_once(cooperative(), joins(error_code));
            assert!(sent < 20, "{sent} requests after {code} to {api}");
        }
    }
}

/// How many requests a member sends at one time, if each is answered at once.
fn sent_at_once(config: Config, answer: impl Fn(&Request) -> Option<Response>) -> usize {
    let mut desk = Desk::new(config);
    let mut sent = 0;
    while sent < 100 {
        desk.collect();
        let Some(outgoing) = desk.open.pop_front() else { break };
        match answer(&outgoing.request) {
            Some(response) => desk.respond(outgoing.id, response),
            None => match outgoing.request {
                Request::FindCoordinator(_) => {
                    desk.respond(outgoing.id, FindCoordinatorResponse::default());
                }
                Request::Metadata(_) => {
                    desk.open.push_front(outgoing);
                    desk.answer_metadata();
                }
                // Left open.
                _ => {}
            },
        }
        sent += 1;
    }
    assert!(desk.member.deadline(desk.now).is_none_or(|deadline| deadline > desk.now));
    sent
}
