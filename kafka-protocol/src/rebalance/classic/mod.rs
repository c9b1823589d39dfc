//! The classic protocols, eager and cooperative (KIP-429): rounds of `JoinGroup` and `SyncGroup`.

mod requests;
mod responses;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::assignor::Subscriber;
use super::coordinator::Backoff;
use super::core::{Core, Stamp};
use super::topics::Wanted;
use super::{Assignor, TopicPartition};
use crate::messages::sync_group_request::SyncGroupRequestAssignment;
use crate::wire::{Str, Uuid};

/// The protocol type of consumers.
const CONSUMER: Str = Str::const_new("consumer");

/// The version of subscriptions and assignments: that of Kafka's consumer since 3.5 (KIP-881). Readers take later ones.
const EMBEDDED_VERSION: i16 = 3;

/// The reason for the second round of a cooperative rebalance.
const GIVE_UP: &str = "need to revoke partitions and re-join";

/// A member of a classic group.
#[derive(Debug)]
pub(super) struct Classic {
    assignors: Vec<Assignor>,
    /// Empty until the coordinator has given one.
    member_id: Str,
    /// -1 outside the group.
    generation: i32,
    protocol_name: Str,
    phase: Phase,
    /// Why the member has to join again, if it has to.
    rejoin: Option<Str>,
    /// The last assignment.
    target: BTreeSet<TopicPartition>,
    /// What the leader knew of the topics when it made the assignment.
    assigned_by: Option<BTreeMap<Str, Option<i32>>>,
    heartbeat_at: Duration,
    /// When the last heartbeat was sent that has been answered.
    alive_at: Duration,
    heartbeat_now: bool,
    /// The coordinator has a rebalance going and waits for `JoinGroup`.
    is_awaited: bool,
    backoff: Backoff,
    /// How often the member has been told to join again since it was last in sync.
    refusals: u32,
}

#[derive(Debug)]
enum Phase {
    /// Not in the group, or between two attempts to join it again, when the generation may be one of before.
    Unjoined,
    /// Waits for the answer to `JoinGroup`.
    Joining,
    /// Is the leader and waits for metadata.
    Assigning(Vec<Subscriber>),
    /// Has its generation, and waits for the answer to `SyncGroup`. The request is there until it is sent.
    Syncing(Option<Vec<SyncGroupRequestAssignment>>),
    /// In the group.
    Stable,
}

impl Classic {
    pub(super) fn new(assignors: Vec<Assignor>, backoff: Backoff) -> Self {
        Self {
            assignors,
            member_id: Str::default(),
            generation: -1,
            protocol_name: Str::default(),
            phase: Phase::Unjoined,
            rejoin: Some(Str::default()),
            target: BTreeSet::new(),
            assigned_by: None,
            heartbeat_at: Duration::ZERO,
            alive_at: Duration::ZERO,
            heartbeat_now: false,
            is_awaited: false,
            backoff,
            refusals: 0,
        }
    }

    /// Eager unless all assignors are cooperative, since the members agree on one of them only when they have joined.
    fn is_eager(&self) -> bool {
        self.assignors.iter().any(|&assignor| assignor != Assignor::CooperativeSticky)
    }

    fn is_between_rounds(&self) -> bool {
        matches!(self.phase, Phase::Unjoined | Phase::Stable)
    }

    /// Whether nothing can be committed, and nothing is under way that would change it.
    pub(super) fn is_outside(&self) -> bool {
        matches!(self.phase, Phase::Unjoined) && self.generation < 0
    }

    /// As whom the member may commit now.
    pub(super) fn stamp(&self, core: &Core) -> Option<Stamp> {
        self.is_member(core).then(|| self.identity())
    }

    /// Whether heartbeats and commits can be sent. Between two attempts to join that is so only if the next one has to wait
    /// for a revocation, or there will be none: as long as the coordinator waits for other members, the last generation is
    /// good. It may also be over already; then it would be a pity to ask instead of joining.
    fn is_member(&self, core: &Core) -> bool {
        match self.phase {
            Phase::Stable => true,
            Phase::Unjoined => self.generation >= 0 && (core.leaving.is_some() || !self.has_given_up(core)),
            _ => false,
        }
    }

    pub(super) fn identity(&self) -> Stamp {
        Stamp { member_id: self.member_id.clone(), epoch: self.generation }
    }

    /// The subscription is another one.
    pub(super) fn resubscribed(&mut self, core: &mut Core, now: Duration) {
        self.rejoin_for("the subscription has changed");
        self.keep(core, now);
    }

    fn rejoin_for(&mut self, reason: &'static str) {
        self.rejoin.get_or_insert(Str::const_new(reason));
    }

    /// Tells the partitions which of them the member may keep: in an eager rebalance none, otherwise what is assigned and
    /// still subscribed to.
    fn keep(&mut self, core: &mut Core, now: Duration) {
        let none = self.is_eager() && self.rejoin.is_some();
        let Core { partitions, subscription, .. } = core;
        let is_subscribed = |topic: &Str| subscription.as_ref().is_some_and(|wanted| wanted.includes(topic));
        let keep = |partition: &TopicPartition, _| {
            !none && self.target.contains(partition) && is_subscribed(&partition.topic)
        };
        if partitions.keep(keep) {
            // The last round left them with us.
            self.rejoin_for(GIVE_UP);
        }
        // Other members wait only once a rebalance is going.
        if self.is_awaited {
            core.note_revocation(now);
        }
    }

    /// Gives up what is ready for it, takes what is new.
    pub(super) fn advance(&mut self, core: &mut Core, now: Duration) {
        self.look_at_topics(core);
        self.assign(core);
        if !self.is_between_rounds() {
            return;
        }
        self.keep(core, now);
        if let Some(given_up) = core.give_up()
            && given_up.iter().any(|partition| !self.target.contains(partition))
        {
            self.rejoin_for(GIVE_UP);
        }
        // What is new waits for the round after the one that takes something away.
        if matches!(self.phase, Phase::Stable) && self.rejoin.is_none() && !core.partitions.is_revoking() {
            for partition in self
                .target
                .iter()
                .filter(|partition| core.is_subscribed(&partition.topic))
                .cloned()
                .collect::<Vec<_>>()
            {
                core.partitions.adopt(partition, Uuid::nil());
            }
        }
    }

    /// The leader answers for it that new partitions get assigned.
    fn look_at_topics(&mut self, core: &Core) {
        let changed = |topics: &BTreeMap<Str, Option<i32>>| {
            topics.iter().any(|(topic, count)| core.topics.partitions(topic).flatten() != *count)
        };
        if matches!(self.phase, Phase::Stable) && self.assigned_by.as_ref().is_some_and(changed) {
            self.rejoin_for("cached metadata has changed");
        }
    }

    /// What the leader has to know before it can assign.
    pub(super) fn metadata_wanted(&self, core: &Core, now: Duration) -> Wanted {
        let mut wanted = Wanted::default();
        match (&self.phase, &self.assigned_by) {
            (Phase::Assigning(members), _) => {
                let topics = members.iter().flat_map(|member| &member.topics);
                wanted.names.extend(topics.filter(|topic| core.topics.partitions(topic).is_none()).cloned());
            }
            (Phase::Stable, Some(topics)) if self.metadata_due(core).is_some_and(|due| due <= now) => {
                wanted.names.extend(topics.keys().cloned());
            }
            _ => {}
        }
        wanted
    }

    /// When the leader looks for new partitions.
    pub(super) fn metadata_due(&self, core: &Core) -> Option<Duration> {
        self.assigned_by.as_ref().filter(|_| matches!(self.phase, Phase::Stable))?;
        Some(core.metadata_at?.saturating_add(core.config.metadata_max_age))
    }
}
