//! The assignments that the leader of a classic group makes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::TopicPartition;
use crate::messages::consumer_protocol_subscription::TopicPartition as Owned;
use crate::messages::join_group_response::JoinGroupResponseMember;
use crate::messages::{ConsumerProtocolSubscription, consumer_protocol_assignment};
use crate::wire::{SmallVec, Str};

/// How the leader of a classic group shares out the partitions (`partition.assignment.strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assignor {
    /// `range`: of every topic, each member gets a run of neighbouring partitions. Eager.
    Range,
    /// `cooperative-sticky`: balanced over all topics, and members keep what they have where balance allows. What changes
    /// hands is left out until its old owner has given it up. Cooperative, unless the members also offer
    /// [`Range`](Self::Range).
    CooperativeSticky,
}

impl Assignor {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub(super) fn assign(self, members: &[Subscriber], partitions: &BTreeMap<Str, i32>) -> Assignments {
        match self {
            Self::Range => range(members, partitions),
            Self::CooperativeSticky => Sticky::new(members, partitions).assign(),
        }
    }
}

/// What each member gets, by member id.
pub(super) type Assignments = BTreeMap<Str, BTreeSet<TopicPartition>>;

/// A member of the group, as the leader sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriber {
    pub(super) member_id: Str,
    instance_id: Option<Str>,
    pub(super) topics: BTreeSet<Str>,
    owned: BTreeSet<TopicPartition>,
    /// In which generation it owned them, -1 if it does not say.
    generation: i32,
}

impl Subscriber {
    /// A member whose subscription cannot be read gets nothing.
    pub(super) fn new(member: JoinGroupResponseMember) -> Self {
        let read =
            crate::embedded::decode_versioned_tolerant::<ConsumerProtocolSubscription>(member.metadata);
        let subscription = read.map(|(_, subscription)| subscription).unwrap_or_default();
        Self {
            member_id: member.member_id,
            instance_id: member.group_instance_id,
            generation: generation(&subscription),
            topics: subscription.topics.into_iter().collect(),
            owned: subscription.owned_partitions.into_iter().flat_map(flatten).collect(),
        }
    }

    fn may_have(&self, partition: &TopicPartition) -> bool {
        self.topics.contains(&partition.topic)
    }
}

/// Before version 2 the subscription has no field for it, and the assignor put it into its own data.
fn generation(subscription: &ConsumerProtocolSubscription) -> i32 {
    let in_user_data = || {
        let data = subscription.user_data.as_ref()?.first_chunk()?;
        Some(i32::from_be_bytes(*data))
    };
    match subscription.generation_id {
        -1 => in_user_data().unwrap_or(-1),
        generation => generation,
    }
}

fn flatten(owned: Owned) -> impl Iterator<Item = TopicPartition> {
    let Owned { topic, partitions, .. } = owned;
    partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
}

/// Partitions by topic, both in ascending order.
pub(super) fn by_topic<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> BTreeMap<Str, SmallVec<[i32; 4]>> {
    let mut topics = BTreeMap::<Str, SmallVec<[i32; 4]>>::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(topic.clone()).or_default().push(*partition);
    }
    topics
}

/// The partitions of an assignment.
pub(super) fn assigned(
    topics: Vec<consumer_protocol_assignment::TopicPartition>,
) -> impl Iterator<Item = TopicPartition> {
    topics.into_iter().flat_map(
        |consumer_protocol_assignment::TopicPartition { topic, partitions, .. }| {
            partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
        },
    )
}

/// Of every topic, the first members get one partition more than the others if it does not come out even. Static members
/// come first, by their instance ids, so that a restart does not change their places.
fn range(members: &[Subscriber], partitions: &BTreeMap<Str, i32>) -> Assignments {
    let mut members: Vec<_> = members.iter().collect();
    members
        .sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.as_ref(), &member.member_id));
    let mut assignments = nothing(&members);
    for (topic, &count) in partitions {
        let subscribers: Vec<_> = members.iter().filter(|member| member.topics.contains(topic)).collect();
        let Ok(takers) = i32::try_from(subscribers.len()) else { continue };
        let mut next = 0;
        for (place, member) in (0..).zip(subscribers) {
            let share = count / takers + i32::from(place < count % takers);
            let run = (next..next + share).map(|partition| TopicPartition::new(topic.clone(), partition));
            assignments.entry(member.member_id.clone()).or_default().extend(run);
            next += share;
        }
    }
    assignments
}

fn nothing(members: &[&Subscriber]) -> Assignments {
    members.iter().map(|member| (member.member_id.clone(), BTreeSet::new())).collect()
}

/// The work of the cooperative-sticky assignor. Members are indexes here.
struct Sticky<'a> {
    members: &'a [Subscriber],
    /// Every partition, with the member that owns it now. `Err` if several say so with equal right: then all have to give
    /// it up.
    owners: BTreeMap<TopicPartition, Result<Option<usize>, ()>>,
    assigned: Vec<BTreeSet<TopicPartition>>,
}

impl<'a> Sticky<'a> {
    fn new(members: &'a [Subscriber], partitions: &BTreeMap<Str, i32>) -> Self {
        let all = partitions
            .iter()
            .flat_map(|(topic, &count)| (0..count).map(|index| TopicPartition::new(topic.clone(), index)));
        let owners = all.map(|partition| {
            let owner = owner(members, &partition);
            (partition, owner)
        });
        Self { members, owners: owners.collect(), assigned: vec![BTreeSet::new(); members.len()] }
    }

    fn assign(mut self) -> Assignments {
        self.keep();
        self.share_out();
        while self.balance() {}
        self.withhold();
        let ids = self.members.iter().map(|member| member.member_id.clone());
        ids.zip(self.assigned).collect()
    }

    /// Everybody keeps what they have and still subscribe to.
    fn keep(&mut self) {
        for (partition, owner) in &self.owners {
            if let Ok(Some(owner)) = *owner
                && self.members[owner].may_have(partition)
            {
                self.assigned[owner].insert(partition.clone());
            }
        }
    }

    /// The rest goes to whoever has the fewest.
    fn share_out(&mut self) {
        for (partition, owner) in &self.owners {
            if matches!(*owner, Ok(Some(owner)) if self.assigned[owner].contains(partition)) {
                continue;
            }
            let takers = (0..self.members.len()).filter(|&member| self.members[member].may_have(partition));
            if let Some(taker) = takers.min_by_key(|&member| self.assigned[member].len()) {
                self.assigned[taker].insert(partition.clone());
            }
        }
    }

    /// Moves one partition each along a chain of members from one that has at least two more than the last of the chain.
    /// `false` if there is no such chain, which means that no assignment is better balanced.
    fn balance(&mut self) -> bool {
        let mut members: Vec<_> = (0..self.members.len()).collect();
        members.sort_by_key(|&member| std::cmp::Reverse(self.assigned[member].len()));
        let Some(chain) = members.into_iter().find_map(|member| self.chain(member)) else { return false };
        for step in chain.windows(2) {
            let (from, to) = (step[0], step[1]);
            if let Some(partition) = self.movable(from, to) {
                self.assigned[from].remove(&partition);
                self.assigned[to].insert(partition);
            }
        }
        true
    }

    /// The shortest chain from `start`, found breadth first.
    fn chain(&self, start: usize) -> Option<Vec<usize>> {
        let mut came_from = BTreeMap::from([(start, start)]);
        let mut queue = VecDeque::from([start]);
        while let Some(from) = queue.pop_front() {
            if self.assigned[from].len() + 2 <= self.assigned[start].len() {
                let mut chain = vec![from];
                while chain[chain.len() - 1] != start {
                    chain.push(came_from[&chain[chain.len() - 1]]);
                }
                chain.reverse();
                return Some(chain);
            }
            for to in 0..self.members.len() {
                if !came_from.contains_key(&to) && self.movable(from, to).is_some() {
                    came_from.insert(to, from);
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// A partition that may change hands so, best one that the giver has yet to get or the taker already has.
    fn movable(&self, from: usize, to: usize) -> Option<TopicPartition> {
        let movable =
            self.assigned[from].iter().rev().filter(|partition| self.members[to].may_have(partition));
        let loyalty = |partition: &&TopicPartition| match self.owners[*partition] {
            Ok(Some(owner)) if owner == to => 0,
            Ok(Some(owner)) if owner == from => 2,
            _ => 1,
        };
        movable.min_by_key(loyalty).cloned()
    }

    /// What changes hands is assigned to nobody: first its owner gives it up, then there is another round.
    fn withhold(&mut self) {
        for (member, assigned) in self.assigned.iter_mut().enumerate() {
            assigned.retain(|partition| match self.owners[partition] {
                Ok(owner) => owner.is_none_or(|owner| owner == member),
                Err(()) => false,
            });
        }
    }
}

/// Who owns a partition: of those that say so, the one of the latest generation.
fn owner(members: &[Subscriber], partition: &TopicPartition) -> Result<Option<usize>, ()> {
    let claims = (0..members.len()).filter(|&member| members[member].owned.contains(partition));
    let Some(generation) = claims.clone().map(|member| members[member].generation).max() else {
        return Ok(None);
    };
    let mut latest = claims.filter(|&member| members[member].generation == generation);
    match (latest.next(), latest.next()) {
        (owner, None) => Ok(owner),
        _ => Err(()),
    }
}
