//! The assignments that the leader of a classic group makes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::embedded;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::Request;
use kafka_protocol::wire::Str;

use super::chance::Chance;
use super::desk::{Desk, cooperative, eager};

/// A member as it comes to the leader.
#[derive(Clone, Default)]
struct Subscriber {
    id: &'static str,
    instance_id: Option<&'static str>,
    topics: Vec<&'static str>,
    owned: Vec<(&'static str, i32)>,
    generation: i32,
}

type Assignments = BTreeMap<Str, BTreeSet<(Str, i32)>>;

/// Lets a leader assign.
fn assign(cooperates: bool, members: &[Subscriber], topics: &[(&'static str, i32)]) -> Assignments {
    let mut desk = Desk::new(if cooperates { cooperative() } else { eager() });
    let (join, _) = desk.join_group();
    let rows = members.iter().map(|member| JoinGroupResponseMember {
        member_id: member.id.into(),
        group_instance_id: member.instance_id.map(Into::into),
        metadata: subscription(member),
        ..Default::default()
    });
    let response = JoinGroupResponse {
        generation_id: 9,
        protocol_name: Some(if cooperates { "cooperative-sticky" } else { "range" }.into()),
        leader: "a".into(),
        member_id: "a".into(),
        members: rows.collect(),
        ..Default::default()
    };
    desk.respond(join, response);
    let topic = |name: Str| {
        let count = topics.iter().find(|(of, _)| *of == name).map(|&(_, count)| count);
        let error_code =
            if count.is_some() { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let count = usize::try_from(count.unwrap_or(0)).expect("not negative");
        let partitions = vec![MetadataResponsePartition::default(); count];
        MetadataResponseTopic { name: Some(name), error_code, partitions, ..Default::default() }
    };
    // Of nothing, if nobody subscribes to anything.
    if let Some((id, Request::Metadata(request))) =
        desk.find(|request| matches!(request, Request::Metadata(_)))
    {
        let asked = request.topics.into_iter().flatten().filter_map(|topic| topic.name);
        desk.respond(id, MetadataResponse { topics: asked.map(topic).collect(), ..Default::default() });
    }
    let (_, request) = desk.take(|request| matches!(request, Request::SyncGroup(_)));
    let Request::SyncGroup(request) = request else { unreachable!("just asked for") };
    let read = |row: sync_group_request::SyncGroupRequestAssignment| {
        let assignment = embedded::decode_versioned::<ConsumerProtocolAssignment>(row.assignment);
        let topics = assignment.expect("an assignment").1.assigned_partitions.into_iter();
        let partitions =
            topics.flat_map(|row| row.partitions.into_iter().map(move |index| (row.topic.clone(), index)));
        (row.member_id, partitions.collect())
    };
    request.assignments.into_iter().map(read).collect()
}

fn subscription(member: &Subscriber) -> kafka_protocol::wire::Bytes {
    let row = |&(topic, index): &(&str, i32)| consumer_protocol_subscription::TopicPartition {
        topic: topic.into(),
        partitions: [index].as_slice().into(),
        ..Default::default()
    };
    let subscription = ConsumerProtocolSubscription {
        topics: member.topics.iter().map(|&topic| topic.into()).collect(),
        owned_partitions: member.owned.iter().map(row).collect(),
        generation_id: member.generation,
        ..Default::default()
    };
    embedded::encode_versioned(&subscription, 3).expect("fits")
}

fn of(assignments: &Assignments, member: &str) -> Vec<i32> {
    assignments[member].iter().map(|&(_, index)| index).collect()
}

fn subscriber(id: &'static str, owned: &[(&'static str, i32)]) -> Subscriber {
    Subscriber { id, topics: vec!["orders"], owned: owned.to_vec(), generation: 8, ..Subscriber::default() }
}

#[test]
fn range_gives_runs() {
    let members = [subscriber("a", &[]), subscriber("b", &[]), subscriber("c", &[])];
    let made = assign(false, &members, &[("orders", 8)]);
    assert_eq!([of(&made, "a"), of(&made, "b"), of(&made, "c")], [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
    // As static members they have their places by other names.
    let named = ["three", "one", "two"].into_iter().zip(members);
    let named: Vec<_> =
        named.map(|(name, member)| Subscriber { instance_id: Some(name), ..member }).collect();
    let made = assign(false, &named, &[("orders", 8)]);
    assert_eq!([of(&made, "b"), of(&made, "a"), of(&made, "c")], [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
}

#[test]
fn sticky_withholds_what_changes_hands() {
    let owned = [("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3)];
    let members = [subscriber("a", &owned), subscriber("b", &[])];
    let made = assign(true, &members, &[("orders", 4)]);
    assert_eq!((of(&made, "a").len(), of(&made, "b").len()), (2, 0));
    // The second round.
    let kept: Vec<_> = owned.into_iter().filter(|(_, index)| of(&made, "a").contains(index)).collect();
    let members = [subscriber("a", &kept), subscriber("b", &[])];
    let again = assign(true, &members, &[("orders", 4)]);
    assert_eq!((&again["a"], of(&again, "b").len()), (&made["a"], 2));
}

#[test]
fn the_latest_generation_owns() {
    let old = Subscriber { generation: 7, ..subscriber("b", &[("orders", 0), ("orders", 1)]) };
    let made = assign(true, &[subscriber("a", &[("orders", 0)]), old], &[("orders", 2)]);
    assert_eq!((of(&made, "a"), of(&made, "b")), (vec![0], vec![1]));
    let both = [subscriber("a", &[("orders", 0)]), subscriber("b", &[("orders", 0)])];
    let made = assign(true, &both, &[("orders", 1)]);
    assert_eq!((of(&made, "a"), of(&made, "b")), (vec![], vec![]), "neither can be believed");
}

#[test]
fn topics_that_do_not_exist_are_left_out() {
    let both = Subscriber { topics: vec!["orders", "none"], ..subscriber("a", &[]) };
    for cooperates in [true, false] {
        assert_eq!(of(&assign(cooperates, std::slice::from_ref(&both), &[("orders", 2)]), "a"), [0, 1]);
    }
}

/// Any subscriptions, any claims: after as many rounds as it takes, everything is assigned once, to subscribers, as evenly
/// as their subscriptions allow, and then it stays.
#[test]
fn sticky_settles_balanced() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    const TOPICS: [(&str, i32); 3] = [("orders", 5), ("payments", 3), ("refunds", 4)];
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let count = 1 + usize::try_from(chance.below(5)).expect("few");
        let mut members: Vec<_> = NAMES[..count]
            .iter()
            .map(|&id| {
                let topics: Vec<_> =
                    TOPICS.iter().map(|&(topic, _)| topic).filter(|_| !chance.once_in(3)).collect();
                let all =
                    TOPICS.iter().flat_map(|&(topic, count)| (0..count).map(move |index| (topic, index)));
                let owned = all.filter(|_| chance.once_in(4)).collect();
                Subscriber {
                    id,
                    instance_id: None,
                    topics,
                    owned,
                    generation: 6 + i32::from(chance.once_in(3)),
                }
            })
            .collect();
        let mut rounds = Vec::new();
        for generation in 8..12 {
            let made = assign(true, &members, &TOPICS);
            for member in &mut members {
                let has = |partition: &(&'static str, i32)| {
                    made[member.id].contains(&(partition.0.into(), partition.1))
                };
                let all =
                    TOPICS.iter().flat_map(|&(topic, count)| (0..count).map(move |index| (topic, index)));
                let owned: Vec<_> = all.filter(has).collect();
                assert!(owned.iter().all(|(topic, _)| member.topics.contains(topic)), "seed {seed}");
                (member.owned, member.generation) = (owned, generation);
            }
            rounds.push(made);
        }
        assert_eq!(rounds[2], rounds[3], "seed {seed} does not settle");
        let made = &rounds[3];
        for (topic, count) in
            TOPICS.iter().filter(|(topic, _)| members.iter().any(|of| of.topics.contains(topic)))
        {
            for index in 0..*count {
                let owners = made.values().filter(|of| of.contains(&((*topic).into(), index))).count();
                assert_eq!(owners, 1, "seed {seed}: {topic}-{index}");
            }
        }
        for (giver, has) in made {
            for taker in members.iter().filter(|taker| made[taker.id].len() + 1 < has.len()) {
                let movable = has.iter().any(|(topic, _)| taker.topics.contains(&&**topic));
                assert!(
                    !movable,
                    "seed {seed}: {giver} has {} and {} {}",
                    has.len(),
                    taker.id,
                    made[taker.id].len()
                );
            }
        }
    }
}

#[test]
fn a_leader_that_need_not_assign_sends_nothing_but_looks_for_partitions() {
    let mut desk = Desk::new(eager());
    let (join, _) = desk.join_group();
    let metadata = subscription(&subscriber("me", &[]));
    let row = JoinGroupResponseMember { member_id: "me".into(), metadata, ..Default::default() };
    let response = JoinGroupResponse {
        generation_id: 1,
        protocol_name: Some("range".into()),
        leader: "me".into(),
        member_id: "me".into(),
        skip_assignment: true,
        members: vec![row],
        ..Default::default()
    };
    desk.respond(join, response);
    assert!(
        desk.sends(
            |request| matches!(request, Request::SyncGroup(request) if request.assignments.is_empty())
        )
    );
    desk.answer_sync(&[]);
    let topic = |count| MetadataResponseTopic {
        name: Some("orders".into()),
        partitions: vec![MetadataResponsePartition::default(); count],
        ..Default::default()
    };
    desk.now += Duration::from_secs(1);
    desk.member.metadata(&MetadataResponse { topics: vec![topic(3)], ..Default::default() }, desk.now);
    assert!(desk.sends(|request| matches!(request, Request::JoinGroup(_))), "there are partitions to assign");
}
