//! The classic protocols, eager and cooperative (KIP-429): rounds of `JoinGroup` and `SyncGroup`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::assignor::{self, Subscriber, by_topic};
use super::config::millis;
use super::coordinator::{Backoff, Sent};
use super::core::{Core, Purpose, Stamp, Subscription};
use super::event::Event;
use super::request::Request;
use super::topics::Wanted;
use super::{Assignor, TopicPartition};
use crate::embedded::{decode_versioned_tolerant, encode_versioned};
use crate::messages::join_group_request::JoinGroupRequestProtocol;
use crate::messages::join_group_response::JoinGroupResponseMember;
use crate::messages::leave_group_request::MemberIdentity;
use crate::messages::sync_group_request::SyncGroupRequestAssignment;
use crate::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, SyncGroupResponse, consumer_protocol_assignment,
    consumer_protocol_subscription,
};
use crate::protocol::{ApiKey, ErrorCode};
use crate::wire::{Bytes, Str, Uuid};

/// The protocol type of consumers.
const CONSUMER: Str = Str::const_new("consumer");

/// The version of subscriptions and assignments: that of Kafka's consumer since 3.5 (KIP-881). Readers take later ones.
const EMBEDDED_VERSION: i16 = 3;

/// How much longer than the coordinator may take a member waits for its answer.
const GRACE: Duration = Duration::from_secs(5);

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

/// Requests.
impl Classic {
    pub(super) fn next_request(&mut self, core: &Core, now: Duration) -> Option<(Request, Purpose)> {
        if let Phase::Syncing(assignments @ Some(_)) = &mut self.phase {
            let assignments = assignments.take().expect("just seen");
            return Some((self.sync_request(core, assignments), Purpose::Sync));
        }
        if self.may_join(core, now) {
            let request = self.join_request(core);
            self.rejoin = None;
            self.is_awaited = false;
            self.phase = Phase::Joining;
            return Some((request, Purpose::Join));
        }
        if self.heartbeat_due(core).is_some_and(|due| due <= now) {
            self.heartbeat_at = now;
            self.heartbeat_now = false;
            let request = HeartbeatRequest {
                group_id: core.config.group_id.clone(),
                generation_id: self.generation,
                member_id: self.member_id.clone(),
                group_instance_id: core.config.group_instance_id.clone(),
                ..Default::default()
            };
            return Some((request.into(), Purpose::Heartbeat));
        }
        None
    }

    /// A round begins only when everything is given up that has to be given up before it.
    fn may_join(&self, core: &Core, now: Duration) -> bool {
        self.rejoin.is_some()
            && self.is_between_rounds()
            && core.may_join()
            && self.backoff.is_over(now)
            && self.has_given_up(core)
    }

    fn has_given_up(&self, core: &Core) -> bool {
        let mut owned = core.partitions.owned();
        core.partitions.completing().next().is_none()
            && match self.is_eager() {
                true => owned.next().is_none(),
                false => owned.all(|(partition, _)| core.is_subscribed(&partition.topic)),
            }
    }

    fn heartbeat_due(&self, core: &Core) -> Option<Duration> {
        let beats =
            self.is_member(core) && !core.in_flight.any(|purpose| matches!(purpose, Purpose::Heartbeat));
        beats.then(|| match self.heartbeat_now {
            true => Duration::ZERO,
            false => self.heartbeat_at.saturating_add(core.config.heartbeat_interval),
        })
    }

    fn join_request(&self, core: &Core) -> Request {
        let protocols = self.assignors.iter().map(|&assignor| JoinGroupRequestProtocol {
            name: Str::const_new(assignor.name()),
            metadata: self.subscription(assignor, core),
            ..Default::default()
        });
        let request = JoinGroupRequest {
            group_id: core.config.group_id.clone(),
            session_timeout_ms: millis(core.config.session_timeout),
            rebalance_timeout_ms: core.config.rebalance_timeout_ms(),
            member_id: self.member_id.clone(),
            group_instance_id: core.config.group_instance_id.clone(),
            protocol_type: CONSUMER,
            protocols: protocols.collect(),
            reason: self.rejoin.clone(),
            ..Default::default()
        };
        request.into()
    }

    /// What the member wants and has, for the leader.
    fn subscription(&self, assignor: Assignor, core: &Core) -> Bytes {
        let topics = match &core.subscription {
            Some(Subscription::Topics(topics)) => topics.iter().cloned().collect(),
            _ => Vec::new(),
        };
        let owned = by_topic(core.partitions.owned().map(|(partition, _)| partition));
        let owned = owned.into_iter().map(|(topic, partitions)| {
            consumer_protocol_subscription::TopicPartition { topic, partitions, ..Default::default() }
        });
        // For leaders that read the generation only there.
        let user_data = (assignor == Assignor::CooperativeSticky)
            .then(|| Bytes::copy_from_slice(&self.generation.to_be_bytes()));
        let subscription = ConsumerProtocolSubscription {
            topics,
            user_data,
            owned_partitions: owned.collect(),
            generation_id: self.generation,
            rack_id: core.config.rack_id.clone(),
            ..Default::default()
        };
        encode_versioned(&subscription, EMBEDDED_VERSION).expect("version 3 carries all fields")
    }

    fn sync_request(&self, core: &Core, assignments: Vec<SyncGroupRequestAssignment>) -> Request {
        let request = SyncGroupRequest {
            group_id: core.config.group_id.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: core.config.group_instance_id.clone(),
            protocol_type: Some(CONSUMER),
            protocol_name: Some(self.protocol_name.clone()),
            assignments,
            ..Default::default()
        };
        request.into()
    }

    /// The message that ends the membership; `None` for a member that the coordinator does not know, and for a static one,
    /// which keeps its place until its session ends (KIP-345).
    pub(super) fn leave_request(&self, core: &Core, reason: &'static str) -> Option<Request> {
        if self.member_id.is_empty() || core.config.group_instance_id.is_some() {
            return None;
        }
        let member = MemberIdentity {
            member_id: self.member_id.clone(),
            reason: Some(Str::const_new(reason)),
            ..Default::default()
        };
        let group_id = core.config.group_id.clone();
        Some(LeaveGroupRequest { group_id, members: vec![member], ..Default::default() }.into())
    }

    /// The member has left, or does as if.
    pub(super) fn left(&mut self, core: &Core) {
        if core.config.group_instance_id.is_none() {
            self.member_id = Str::default();
        }
        self.generation = -1;
        self.phase = Phase::Unjoined;
        self.target.clear();
        self.assigned_by = None;
        self.is_awaited = false;
        self.rejoin = Some(Str::default());
    }

    /// `JoinGroup` is answered when all have joined, or the rebalance timeout is over.
    pub(super) fn join_timeout(&self, core: &Core) -> Duration {
        core.config.request_timeout.max(core.config.max_poll_interval.saturating_add(GRACE))
    }

    /// `SyncGroup` is answered when the leader has made the assignment, or its session is over.
    pub(super) fn sync_timeout(&self, core: &Core) -> Duration {
        core.config.request_timeout.max(core.config.session_timeout.saturating_add(GRACE))
    }

    /// When the next request to the coordinator is due, if it is due by itself.
    pub(super) fn request_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        let pause = self.backoff.deadline(now).filter(|_| self.rejoin.is_some() && core.may_join());
        [self.heartbeat_due(core), pause].into_iter().flatten().min()
    }

    /// Whether the coordinator counts the time since the last sign of life. While it joins and synchronizes, a member
    /// gives none.
    fn is_in_session(&self) -> bool {
        self.is_between_rounds() && self.generation >= 0
    }

    /// When the coordinator removes a member of which it hears nothing more.
    pub(super) fn session_end(&self, core: &Core) -> Option<Duration> {
        self.is_in_session().then(|| self.alive_at.saturating_add(core.config.session_timeout))
    }

    pub(super) fn expire(&mut self, core: &mut Core, now: Duration) {
        if self.session_end(core).is_some_and(|end| end <= now) {
            core.coordinator.unknown();
            self.lost(core, "the session has expired");
        }
    }

    /// A heartbeat is due at once.
    pub(super) fn heartbeat_now(&mut self) {
        self.heartbeat_now = true;
    }
}

/// Responses.
impl Classic {
    pub(super) fn joined(&mut self, core: &mut Core, response: JoinGroupResponse, now: Duration) {
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = response.member_id;
                self.phase = Phase::Unjoined;
                self.rejoin_for("need to re-join with the given member id");
                return;
            }
            error_code => return self.join_failed(core, ApiKey::JOIN_GROUP, error_code, now),
        }
        self.backoff.succeeded();
        self.generation = response.generation_id;
        self.member_id = response.member_id;
        self.protocol_name = response.protocol_name.unwrap_or_default();
        self.assigned_by = None;
        let is_leader = response.leader == self.member_id;
        if is_leader && !response.skip_assignment {
            self.phase = Phase::Assigning(response.members.into_iter().map(Subscriber::new).collect());
            self.assign(core);
        } else {
            if is_leader {
                self.watch(core, response.members);
            }
            self.phase = Phase::Syncing(Some(Vec::new()));
        }
    }

    /// A static leader that came back makes no assignment, but still looks for new partitions (KIP-814).
    fn watch(&mut self, core: &Core, members: Vec<JoinGroupResponseMember>) {
        let topics = members.into_iter().flat_map(|member| Subscriber::new(member).topics).collect();
        self.assigned_by = Some(core.topics.snapshot(&topics));
    }

    /// Makes the assignment, if the member is the leader and has to, and the numbers of partitions are known.
    pub(super) fn assign(&mut self, core: &Core) {
        let Phase::Assigning(members) = &self.phase else { return };
        let topics: BTreeSet<_> = members.iter().flat_map(|member| &member.topics).cloned().collect();
        if topics.iter().any(|topic| core.topics.partitions(topic).is_none()) {
            return;
        }
        let snapshot = core.topics.snapshot(&topics);
        let counts = snapshot.iter().filter_map(|(topic, count)| Some((topic.clone(), (*count)?))).collect();
        // The coordinator takes one that all members offer, and so this one does.
        let chosen = self.assignors.iter().find(|assignor| assignor.name() == self.protocol_name);
        let assignments = chosen.map(|assignor| assignor.assign(members, &counts)).unwrap_or_default();
        let assignments = assignments.into_iter().map(|(member_id, partitions)| SyncGroupRequestAssignment {
            member_id,
            assignment: encode_assignment(&partitions),
            ..Default::default()
        });
        self.phase = Phase::Syncing(Some(assignments.collect()));
        self.assigned_by = Some(snapshot);
    }

    pub(super) fn synced(
        &mut self,
        core: &mut Core,
        sent: &Sent<Purpose>,
        response: SyncGroupResponse,
        now: Duration,
    ) {
        if !response.error_code.is_ok() {
            return self.join_failed(core, ApiKey::SYNC_GROUP, response.error_code, now);
        }
        let assignment = match response.assignment.is_empty() {
            true => Ok(ConsumerProtocolAssignment::default()),
            false => decode_versioned_tolerant(response.assignment).map(|(_, assignment)| assignment),
        };
        let Ok(ConsumerProtocolAssignment { assigned_partitions, .. }) = assignment else {
            let message = Str::const_new("the assignment cannot be decoded");
            return core.fail(ApiKey::SYNC_GROUP, ErrorCode::NONE, Some(message));
        };
        self.backoff.succeeded();
        self.target = assignor::assigned(assigned_partitions).collect();
        self.phase = Phase::Stable;
        (self.heartbeat_at, self.alive_at) = (now, sent.at);
        core.events.push_back(Event::Joined { generation_or_epoch: self.generation });
        core.commit_backoff.succeeded();
        // The round that is over was not about what is wanted back now.
        core.revoking_since = None;
        self.keep(core, now);
    }

    /// `JoinGroup` or `SyncGroup` failed.
    pub(super) fn join_failed(&mut self, core: &mut Core, api: ApiKey, error_code: ErrorCode, now: Duration) {
        // No heartbeats and no commits meanwhile: the coordinator may have a generation that we do not know.
        self.phase = Phase::Unjoined;
        self.alive_at = now;
        match error_code {
            ErrorCode::REBALANCE_IN_PROGRESS => self.rejoin_for("group is already rebalancing"),
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => self.fenced(core, error_code),
            code if core.coordinator_failed(code) || code.is_retriable() => {
                self.rejoin_for("the last attempt failed");
                self.backoff.failed(now);
            }
            code => core.fail(api, code, None),
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        core: &mut Core,
        at: Duration,
        error_code: ErrorCode,
        now: Duration,
    ) {
        match error_code {
            ErrorCode::NONE => self.alive_at = at,
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.alive_at = at;
                self.rejoin_for("group is already rebalancing");
                self.is_awaited = true;
                self.keep(core, now);
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION | ErrorCode::FENCED_INSTANCE_ID => {
                self.fenced(core, error_code);
            }
            code if core.coordinator_failed(code) || code.is_retriable() => {
                self.backoff.failed(now);
                // Not an interval later, but when the coordinator is found.
                self.heartbeat_at = now
                    .saturating_add(core.config.retry_backoff)
                    .saturating_sub(core.config.heartbeat_interval);
            }
            code => core.fail(ApiKey::HEARTBEAT, code, None),
        }
    }

    /// The coordinator knows the member no longer, or another one took its place.
    pub(super) fn fenced(&mut self, core: &mut Core, error_code: ErrorCode) {
        match error_code {
            ErrorCode::FENCED_INSTANCE_ID => core.fail(ApiKey::HEARTBEAT, error_code, None),
            ErrorCode::UNKNOWN_MEMBER_ID => {
                self.member_id = Str::default();
                self.lost(core, "the coordinator does not know the member");
            }
            _ => self.lost(core, "the generation is over"),
        }
    }

    fn lost(&mut self, core: &mut Core, reason: &'static str) {
        core.lose();
        self.generation = -1;
        self.phase = Phase::Unjoined;
        self.target.clear();
        self.assigned_by = None;
        self.is_awaited = false;
        self.rejoin = Some(Str::const_new(reason));
    }
}

fn encode_assignment(partitions: &BTreeSet<TopicPartition>) -> Bytes {
    let topics = by_topic(partitions).into_iter().map(|(topic, partitions)| {
        consumer_protocol_assignment::TopicPartition { topic, partitions, ..Default::default() }
    });
    let assignment =
        ConsumerProtocolAssignment { assigned_partitions: topics.collect(), ..Default::default() };
    encode_versioned(&assignment, EMBEDDED_VERSION).expect("version 3 carries all fields")
}
