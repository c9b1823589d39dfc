//! Corners of a rebalance, one by one.

use std::time::Duration;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{
    CommitError, Config, Event, GroupProtocol, Member, NotCommittable, NotSubscribable, Request,
};

use super::desk::{Desk, consumer, cooperative, declared, eager, owned, partition};
use super::wire;

const SECOND: Duration = Duration::from_secs(1);

fn is_leave(request: &Request) -> bool {
    match request {
        Request::LeaveGroup(_) => true,
        Request::ConsumerGroupHeartbeat(request) => request.member_epoch < 0,
        _ => false,
    }
}

fn is_heartbeat(request: &Request) -> bool {
    matches!(request, Request::Heartbeat(_) | Request::ConsumerGroupHeartbeat(_))
}

fn is_join(request: &Request) -> bool {
    matches!(request, Request::JoinGroup(_))
}

fn is_commit(request: &Request) -> bool {
    matches!(request, Request::OffsetCommit(_))
}

// ---- Subscriptions ----

#[test]
fn what_no_request_has_room_for_is_refused_by_subscribing() {
    let too_long = || "x".repeat(32_768);
    let refuses = |config: Config, topic: &str, what| {
        let mut member = Member::new(config);
        assert_eq!(member.subscribe([topic.to_owned()], Duration::ZERO), Err(NotSubscribable::TooLong(what)));
        assert!(member.next_request(Duration::ZERO).is_none(), "nothing is subscribed to");
    };
    for config in [eager(), cooperative(), consumer()] {
        refuses(config.clone(), &too_long(), "name of a topic");
        refuses(Config { group_id: too_long().into(), ..config.clone() }, "orders", "group id");
        let rack_id = Some(too_long().into());
        refuses(Config { rack_id, ..config.clone() }, "orders", "rack id");
        let group_instance_id = Some(too_long().into());
        refuses(Config { group_instance_id, ..config }, "orders", "group instance id");
    }
    let of_consumer = |member_id: String, assignor: String| {
        let protocol =
            GroupProtocol::Consumer { member_id: member_id.into(), server_assignor: Some(assignor.into()) };
        Config { protocol, ..consumer() }
    };
    refuses(of_consumer(too_long(), "uniform".into()), "orders", "member id");
    refuses(of_consumer("me".into(), too_long()), "orders", "name of the assignor");
    let mut member = Member::new(consumer());
    let refused = member.subscribe_regex(too_long(), Duration::ZERO);
    assert_eq!(refused, Err(NotSubscribable::TooLong("regular expression")));
}

/// Whatever `subscribe` takes can be sent.
#[test]
fn the_longest_texts_can_be_sent() {
    let longest = || "x".repeat(32_767);
    let protocol =
        GroupProtocol::Consumer { member_id: longest().into(), server_assignor: Some(longest().into()) };
    for config in [eager(), cooperative(), Config { protocol, ..consumer() }] {
        let (rack_id, group_instance_id) = (Some(longest().into()), Some(longest().into()));
        let config = Config { group_id: longest().into(), rack_id, group_instance_id, ..config };
        let mut desk = Desk::new(config);
        desk.member.subscribe([longest()], desk.now).expect("there is room");
        let (_, request) = desk.take(|request| is_join(request) || is_heartbeat(request));
        let version = if is_join(&request) { 9 } else { 1 };
        wire::request(&request, version).expect("it can be encoded");
    }
}

// ---- The two polls ----

#[test]
fn consumer_protocol_announces_and_completes() {
    let mut desk = Desk::joined(consumer(), &[0, 1, 2]);
    desk.next_heartbeat(Some(&[0]));
    assert!(desk.to_be_revoked().is_empty(), "nothing happens between polls");
    assert_eq!(desk.member.fetchable().count(), 3);

    let poll = desk.poll();
    assert_eq!(poll.to_be_revoked, [partition(1), partition(2)]);
    assert_eq!(poll.fetchable, [partition(0)]);
    desk.commit(1, 11);
    assert_eq!(owned(&desk.next_heartbeat(None)), None, "heartbeats go on and say nothing of it");
    assert_eq!(desk.to_be_revoked(), [partition(1), partition(2)]);

    let poll = desk.poll();
    assert!(poll.to_be_revoked.is_empty() && desk.to_be_revoked().is_empty());
    assert!(!desk.sends(is_heartbeat), "the commit is not answered yet");
    let refused = desk.member.commit([(partition(1), 12)], desk.now);
    assert_eq!(refused, Err(NotCommittable::NotOwned(partition(1))));
    assert_eq!(desk.answer_commit(ErrorCode::NONE), 1);
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
    assert!(desk.events().contains(&Event::GivenUp(vec![partition(1), partition(2)])));
    assert_eq!(desk.member.owned().count(), 1);
}

#[test]
fn cooperative_protocol_announces_and_completes() {
    let mut desk = Desk::joined(cooperative(), &[0, 1]);
    desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    let (join, request) = desk.join_group();
    assert_eq!(declared(&request), [0, 1], "nothing is given up in the first round");
    desk.epoch = 2;
    desk.answer_join(join);
    desk.answer_sync(&[0, 2]);
    assert_eq!(desk.poll().to_be_revoked, [partition(1)]);
    assert!(
        !desk.sends(is_join) && desk.member.owned().count() == 2,
        "what is new waits for the second round"
    );
    desk.commit(1, 11);
    assert_eq!(desk.answer_commit(ErrorCode::NONE), 2, "with the new generation");
    desk.poll();
    let (join, request) = desk.join_group();
    assert_eq!(declared(&request), [0]);
    desk.epoch = 3;
    desk.answer_join(join);
    desk.answer_sync(&[0, 2]);
    desk.fetch_offsets();
    assert_eq!(desk.poll().fetchable, [partition(0), partition(2)]);
}

/// The group waits for the program, but the program is not blocked.
#[test]
fn eager_protocol_announces_everything_and_delays_the_join() {
    let mut desk = Desk::joined(eager(), &[0, 1]);
    desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    let end = desk.now + desk_config().max_poll_interval;
    let poll = desk.poll();
    assert_eq!(poll.to_be_revoked, [partition(0), partition(1)]);
    assert_eq!(desk.member.revocation_deadline(), Some(end));
    desk.commit(0, 11);
    assert_eq!(desk.answer_commit(ErrorCode::NONE), 1, "with the old generation");
    assert!(desk.member.hold(&partition(1)));
    for _ in 0..5 {
        desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
        desk.poll();
        assert!(!desk.sends(is_join));
    }
    assert_eq!(desk.to_be_revoked(), [partition(1)]);
    assert_eq!(desk.member.revocation_deadline(), Some(end), "the time runs from the first notice");
    assert!(desk.member.release(&partition(1)));
    desk.poll();
    assert_eq!(declared(&desk.join_group().1), [0; 0]);
}

fn desk_config() -> Config {
    eager()
}

#[test]
fn a_hold_lasts_until_it_is_released() {
    let mut desk = Desk::joined(consumer(), &[0, 1, 2]);
    desk.next_heartbeat(Some(&[0]));
    assert!(!desk.member.hold(&partition(1)), "not announced");
    desk.poll();
    assert!(desk.member.hold(&partition(1)) && !desk.member.hold(&partition(0)));
    let poll = desk.poll();
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0, 1]), "the other one is given up");
    assert_eq!((poll.to_be_revoked.len(), desk.to_be_revoked()), (0, vec![partition(1)]));
    assert_eq!(desk.member.held().count(), 1);
    desk.commit(1, 11);
    desk.answer_commit(ErrorCode::NONE);
    assert!(desk.member.release(&partition(1)));
    assert!(!desk.sends(is_heartbeat), "only a poll completes");
    desk.poll();
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
}

#[test]
fn waiting_for_commits_can_be_waived() {
    for before_the_poll in [true, false] {
        let mut desk = Desk::joined(consumer(), &[0, 1]);
        desk.next_heartbeat(Some(&[0]));
        desk.poll();
        desk.commit(1, 11);
        if before_the_poll {
            desk.member.waive_commits();
            desk.collect();
            assert_eq!(desk.to_be_revoked(), [partition(1)]);
        }
        desk.poll();
        if !before_the_poll {
            assert!(!desk.sends(is_heartbeat));
            desk.member.waive_commits();
        }
        assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
        assert_eq!(desk.commits()[0].partitions, [(partition(1), Err(CommitError::GivenUp))]);
    }
}

/// Nothing to drain, and nothing to wait for.
#[test]
fn what_no_poll_has_reported_is_given_up_at_once() {
    let mut desk = Desk::new(consumer());
    desk.join(&[0, 1]);
    let given_up = desk.next_heartbeat(Some(&[0]));
    assert_eq!(owned(&given_up), None);
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
    desk.fetch_offsets();
    let poll = desk.poll();
    assert_eq!((poll.fetchable, poll.to_be_revoked.len(), poll.lost.len()), (vec![partition(0)], 0, 0));

    let mut desk = Desk::new(cooperative());
    desk.join(&[0, 1]);
    desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    let (join, _) = desk.join_group();
    desk.answer_join(join);
    desk.answer_sync(&[0]);
    assert_eq!(declared(&desk.join_group().1), [0], "the second round needs no poll");
}

#[test]
fn the_target_changes_between_the_polls() {
    let mut desk = Desk::joined(consumer(), &[0, 1, 2]);
    desk.next_heartbeat(Some(&[0, 1]));
    desk.poll();
    desk.next_heartbeat(Some(&[0, 3]));
    assert_eq!(desk.to_be_revoked(), [partition(2)], "more is announced by polls only");
    assert_eq!(desk.poll().to_be_revoked, [partition(1)]);
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0, 1]), "first what was announced first");
    desk.poll();
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0, 3]), "then what is new");
}

#[test]
fn what_is_handed_back_is_given_up_first() {
    let mut desk = Desk::joined(consumer(), &[0, 1]);
    desk.next_heartbeat(Some(&[0]));
    desk.poll();
    desk.next_heartbeat(Some(&[0, 1]));
    assert_eq!(desk.to_be_revoked(), [partition(1)]);
    assert!(desk.poll().assigned.is_empty());
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0, 1]));
    desk.fetch_offsets();
    assert_eq!(desk.poll().assigned[0].partition, partition(1), "a fresh assignment");

    let mut desk = Desk::joined(consumer(), &[0, 1]);
    desk.next_heartbeat(Some(&[0]));
    desk.next_heartbeat(Some(&[0, 1]));
    assert!(desk.poll().to_be_revoked.is_empty(), "what was never announced just stays");
}

#[test]
fn a_subscription_without_a_topic_revokes_before_the_join() {
    let mut desk = Desk::joined(cooperative(), &[0]);
    desk.member.subscribe(["payments"], desk.now).expect("open");
    assert!(!desk.sends(is_join));
    assert_eq!(desk.poll().to_be_revoked, [partition(0)]);
    desk.commit(0, 11);
    desk.answer_commit(ErrorCode::NONE);
    desk.poll();
    assert_eq!(declared(&desk.join_group().1), [0; 0]);
}

// ---- Commits ----

#[test]
fn a_commit_that_meets_a_rebalance_is_tried_again() {
    for config in [cooperative(), eager()] {
        let mut desk = Desk::joined(config, &[0]);
        desk.commit(0, 11);
        desk.answer_commit(ErrorCode::REBALANCE_IN_PROGRESS);
        assert!(!desk.sends(is_commit), "after a pause");
        desk.now += SECOND;
        desk.answer_commit(ErrorCode::NONE);
        assert!(desk.commits()[0].is_ok());
        assert!(desk.poll().lost.is_empty());
    }
}

#[test]
fn later_offsets_replace_earlier_ones_that_wait() {
    let mut desk = Desk::joined(consumer(), &[0]);
    (11..15).for_each(|offset| desk.commit(0, offset));
    desk.answer_commit(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    desk.now += SECOND;
    let (id, request) = desk.take(is_commit);
    let Request::OffsetCommit(request) = request else { unreachable!("a commit") };
    assert_eq!(request.topics[0].partitions[0].committed_offset, 14);
    desk.respond(id, super::desk::commit_response(&request, ErrorCode::NONE));
    assert_eq!(desk.commits().len(), 4);
    assert!(!desk.sends(is_commit));
}

#[test]
fn a_commit_ends_in_time() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.commit(0, 11);
    desk.answer_commit(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    for _ in 0..20 {
        desk.now += 3 * SECOND;
        desk.collect();
        while desk.sends(is_commit) {
            desk.answer_commit(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        if desk.sends(is_heartbeat) {
            desk.heartbeat(None);
        }
    }
    let error = CommitError::TimedOut(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(desk.commits()[0].partitions, [(partition(0), Err(error))]);
}

#[test]
fn a_stale_epoch_is_asked_for_at_once() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.commit(0, 11);
    desk.answer_commit(ErrorCode::STALE_MEMBER_EPOCH);
    desk.epoch = 2;
    desk.heartbeat(None);
    desk.now += SECOND;
    assert_eq!(desk.answer_commit(ErrorCode::NONE), 2);
    assert!(desk.commits()[0].is_ok());
}

#[test]
fn nothing_of_a_bad_commit_is_taken() {
    let mut desk = Desk::joined(consumer(), &[0]);
    let bad = [(partition(0), 11), (partition(5), 1)];
    assert_eq!(desk.member.commit(bad, desk.now), Err(NotCommittable::NotOwned(partition(5))));
    let negative = desk.member.commit([(partition(0), -1)], desk.now);
    assert_eq!(negative, Err(NotCommittable::NegativeOffset(partition(0))));
    assert!(!desk.sends(is_commit));
}

// ---- Loss ----

#[test]
fn a_caller_that_never_polls_again_loses_everything() {
    for (config, epoch) in [(consumer(), Some(-1)), (cooperative(), None)] {
        let config = Config { max_poll_interval: 20 * SECOND, ..config };
        let mut desk = Desk::joined(config, &[0, 1]);
        match epoch {
            Some(_) => drop(desk.next_heartbeat(Some(&[0]))),
            None => {
                desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
                let (join, _) = desk.join_group();
                desk.answer_join(join);
                desk.answer_sync(&[0]);
            }
        }
        let polled = desk.now;
        assert_eq!(desk.poll().to_be_revoked, [partition(1)]);
        assert_eq!(desk.member.revocation_deadline(), Some(polled + 20 * SECOND));
        desk.commit(1, 11);
        desk.now = polled + 20 * SECOND;
        let (_, leave) = desk.take(is_leave);
        if let Request::ConsumerGroupHeartbeat(leave) = &leave {
            assert_eq!(Some(leave.member_epoch), epoch);
        }
        let events = desk.events();
        assert!(events.contains(&Event::PollIntervalExpired));
        assert!(!events.iter().any(|event| matches!(event, Event::GivenUp(_))), "lost, and so not given up");
        assert_eq!(desk.to_be_revoked(), []);
        let refused = desk.member.commit([(partition(1), 12)], desk.now);
        assert_eq!(refused, Err(NotCommittable::Lost(partition(1))));
        desk.now += 100 * SECOND;
        desk.collect();
        assert_eq!(desk.member.deadline(desk.now), None, "it waits for a poll");
        let poll = desk.poll();
        assert_eq!(poll.lost, [partition(0), partition(1)]);
        assert_eq!(desk.member.lost_partitions().count(), 2);
        assert!(desk.poll().lost.is_empty() && desk.member.lost_partitions().next().is_none());
    }
}

#[test]
fn a_fenced_member_loses_everything_and_joins_again_with_the_next_poll() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.commit(0, 11);
    desk.now += 3 * SECOND;
    let (id, _) = desk.take(is_heartbeat);
    let error_code = ErrorCode::FENCED_MEMBER_EPOCH;
    desk.respond(id, ConsumerGroupHeartbeatResponse { error_code, ..Default::default() });
    assert_eq!(desk.commits()[0].partitions, [(partition(0), Err(CommitError::Lost))]);
    desk.now += SECOND;
    assert!(!desk.sends(is_heartbeat), "the caller does not know yet");
    assert_eq!(desk.poll().lost, [partition(0)]);
    let join = desk.heartbeat(Some(&[0]));
    assert_eq!((join.member_epoch, owned(&join)), (0, Some(vec![])));
    assert!(desk.member.lost_partitions().next().is_none(), "owned again");
}

#[test]
fn a_session_without_answers_is_over() {
    for config in [consumer(), eager()] {
        let mut desk = Desk::joined(config, &[0]);
        let end = desk.now + 45 * SECOND;
        while desk.now < end {
            desk.now = desk.member.deadline(desk.now).expect("something to do").min(end);
            desk.collect();
            let ids: Vec<_> = desk.open.drain(..).map(|outgoing| outgoing.id).collect();
            ids.into_iter().for_each(|id| desk.member.fail(id, ErrorCode::NETWORK_EXCEPTION, desk.now));
        }
        assert_eq!(desk.poll().lost, [partition(0)]);
    }
}

#[test]
fn time_is_up_when_the_coordinator_says_so() {
    let config = Config { max_poll_interval: 10 * SECOND, ..consumer() };
    let mut desk = Desk::joined(config, &[0, 1]);
    desk.next_heartbeat(Some(&[0]));
    let notice = desk.now;
    desk.poll();
    desk.member.hold(&partition(1));
    for _ in 0..3 {
        desk.next_heartbeat(None);
        desk.poll();
    }
    assert_eq!(desk.member.revocation_deadline(), Some(notice + 10 * SECOND));
    desk.now = notice + 10 * SECOND;
    assert!(desk.sends(is_heartbeat), "to hear of it");
}

// ---- Leaving ----

#[test]
fn closing_waits_for_commits_and_leaves_without_a_poll() {
    for config in [consumer(), cooperative(), eager()] {
        let mut desk = Desk::joined(config, &[0, 1]);
        desk.commit(0, 11);
        desk.member.close(30 * SECOND, desk.now);
        assert!(desk.member.subscribe(["more"], desk.now) == Err(NotSubscribable::Closed));
        assert!(!desk.sends(is_leave));
        desk.answer_commit(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        assert!(!desk.sends(is_leave));
        desk.now += SECOND;
        desk.answer_commit(ErrorCode::NONE);
        let (id, leave) = desk.take(is_leave);
        match leave {
            Request::LeaveGroup(_) => desk.respond(id, LeaveGroupResponse::default()),
            _ => desk.respond(id, ConsumerGroupHeartbeatResponse::default()),
        }
        assert!(desk.member.is_finished() && desk.member.failure().is_none());
        assert_eq!(desk.events().last(), Some(&Event::Left));
        assert!(desk.poll().lost.is_empty());
        assert_eq!(desk.member.deadline(desk.now), None);
    }
}

#[test]
fn closing_ends_in_time() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.commit(0, 11);
    desk.collect();
    desk.member.close(5 * SECOND, desk.now);
    desk.now += 5 * SECOND;
    assert_eq!(desk.commits(), []);
    let mut left = Vec::new();
    while let Some(outgoing) = desk.member.next_request(desk.now) {
        left.push(outgoing.request);
    }
    assert!(left.iter().any(is_leave), "{left:?}");
    assert!(desk.member.is_finished());
    assert_eq!(desk.commits()[0].partitions, [(partition(0), Err(CommitError::GivenUp))]);
}

/// In version 0 of the API the coordinator chooses the member id, and nobody leaves with another one.
#[test]
fn closing_while_joining_waits_for_the_member_id() {
    let mut desk = Desk::new(consumer());
    let (join, _) = desk.take(|request| matches!(request, Request::ConsumerGroupHeartbeat(_)));
    desk.member.close(5 * SECOND, desk.now);
    assert!(!desk.sends(is_leave));
    let member_id = Some("chosen".into());
    desk.respond(join, ConsumerGroupHeartbeatResponse { member_id, member_epoch: 1, ..Default::default() });
    let (leave, request) = desk.take(is_leave);
    let Request::ConsumerGroupHeartbeat(request) = request else { panic!("{request:?}") };
    assert_eq!((&request.member_id[..], request.member_epoch), ("chosen", -1));
    desk.respond(leave, ConsumerGroupHeartbeatResponse::default());
    assert!(desk.member.is_finished());

    // But not for ever.
    let mut desk = Desk::new(consumer());
    assert!(desk.sends(|request| matches!(request, Request::ConsumerGroupHeartbeat(_))));
    desk.member.close(5 * SECOND, desk.now);
    assert_eq!(desk.member.deadline(desk.now), Some(5 * SECOND));
    desk.now += 5 * SECOND;
    assert!(!desk.sends(is_leave));
    assert!(desk.member.is_finished() && desk.events().last() == Some(&Event::Left));
}

#[test]
fn unsubscribing_leaves_and_subscribing_joins_again() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.member.unsubscribe(desk.now);
    desk.member.subscribe(["orders"], desk.now).expect("open");
    assert!(desk.member.fetchable().next().is_none());
    let (id, _) = desk.take(is_leave);
    assert!(!desk.sends(is_heartbeat));
    desk.respond(id, ConsumerGroupHeartbeatResponse::default());
    assert!(desk.events().contains(&Event::Left));
    assert_eq!(desk.heartbeat(None).member_epoch, 0);
}

/// Nobody commits but the caller, whose positions may be ahead of its processing.
#[test]
fn nothing_is_committed_by_itself() {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.next_heartbeat(Some(&[]));
    desk.poll();
    desk.poll();
    assert!(!desk.sends(is_commit));
    desk.member.close(SECOND, desk.now);
    assert!(!desk.sends(is_commit) && desk.sends(is_leave));
}

#[test]
fn static_members_keep_their_place() {
    let of = |config: Config| Config { group_instance_id: Some("one".into()), ..config };
    let mut desk = Desk::joined(of(consumer()), &[0]);
    desk.member.close(SECOND, desk.now);
    let (_, leave) = desk.take(is_leave);
    assert!(matches!(leave, Request::ConsumerGroupHeartbeat(leave) if leave.member_epoch == -2));

    let mut desk = Desk::joined(of(cooperative()), &[0]);
    desk.member.close(SECOND, desk.now);
    assert!(!desk.sends(is_leave) && desk.member.is_finished());

    let mut desk = Desk::joined(of(cooperative()), &[0]);
    desk.classic_heartbeat(ErrorCode::FENCED_INSTANCE_ID);
    let failure = desk.member.failure().expect("another one has its place");
    assert_eq!(failure.error_code, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(desk.poll().lost, [partition(0)]);
}

// ---- Throttling ----

/// A member whose heartbeat has been answered with a throttle time.
fn throttled(throttle_time_ms: i32) -> Desk {
    let mut desk = Desk::joined(consumer(), &[0]);
    desk.now += 3 * SECOND;
    let (id, _) = desk.take(is_heartbeat);
    let (member_epoch, heartbeat_interval_ms) = (desk.epoch, 3000);
    let response = ConsumerGroupHeartbeatResponse {
        throttle_time_ms,
        member_epoch,
        heartbeat_interval_ms,
        ..Default::default()
    };
    desk.respond(id, response);
    desk
}

#[test]
fn a_coordinator_that_throttles_gets_no_request_before_its_time() {
    let mut desk = throttled(5000);
    let (start, end) = (desk.now, desk.now + 5 * SECOND);
    desk.commit(0, 11);
    for millis in [0, 3000, 4999] {
        desk.now = start + Duration::from_millis(millis);
        assert!(!desk.sends(|_| true), "after {millis} ms");
        assert_eq!(desk.member.deadline(desk.now), Some(end));
    }
    desk.now = end;
    assert!(desk.sends(is_commit) && desk.sends(is_heartbeat));
    assert_eq!(desk.answer_commit(ErrorCode::NONE), 1);
    assert!(desk.commits()[0].is_ok());
    desk.heartbeat(None);
    assert_eq!(desk.member.deadline(desk.now), Some(end + 3 * SECOND), "then all is as before");
}

#[test]
fn a_throttle_time_that_is_not_positive_means_nothing() {
    for time in [0, -1, i32::MIN] {
        let mut desk = throttled(time);
        desk.commit(0, 11);
        assert!(desk.sends(is_commit), "{time}");
    }
}

#[test]
fn another_coordinator_is_not_throttled() {
    let mut desk = throttled(60_000);
    desk.commit(0, 11);
    desk.member.disconnected(desk.now);
    desk.find_coordinator();
    assert!(!desk.sends(is_commit), "still the same");
    desk.member.disconnected(desk.now);
    let (lookup, _) = desk.take(|request| matches!(request, Request::FindCoordinator(_)));
    desk.respond(lookup, FindCoordinatorResponse { node_id: 5, ..Default::default() });
    assert!(desk.sends(is_commit));
}

#[test]
fn throttling_delays_no_end() {
    let mut desk = throttled(60_000);
    desk.now += 44 * SECOND;
    assert!(desk.poll().lost.is_empty());
    desk.now += SECOND;
    assert_eq!(desk.poll().lost, [partition(0)], "the session is over");

    let mut desk = throttled(60_000);
    desk.member.close(2 * SECOND, desk.now);
    assert_eq!(desk.member.deadline(desk.now), Some(desk.now + 2 * SECOND));
    desk.now += 2 * SECOND;
    assert!(!desk.sends(|_| true) && desk.member.is_finished());
    assert_eq!(desk.events().last(), Some(&Event::Left));
}
