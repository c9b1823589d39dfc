//! What a member of a classic group sends, and when.

use std::time::Duration;

use super::{CONSUMER, Classic, EMBEDDED_VERSION, Phase};
use crate::embedded::encode_versioned;
use crate::messages::join_group_request::JoinGroupRequestProtocol;
use crate::messages::leave_group_request::MemberIdentity;
use crate::messages::sync_group_request::SyncGroupRequestAssignment;
use crate::messages::{
    ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
    consumer_protocol_subscription,
};
use crate::rebalance::Assignor;
use crate::rebalance::assignor::by_topic;
use crate::rebalance::config::millis;
use crate::rebalance::core::{Core, Purpose, Subscription};
use crate::rebalance::request::Request;
use crate::wire::{Bytes, Str};

/// How much longer than the coordinator may take a member waits for its answer.
const GRACE: Duration = Duration::from_secs(5);

/// Requests.
impl Classic {
    pub(in crate::rebalance) fn next_request(
        &mut self,
        core: &Core,
        now: Duration,
    ) -> Option<(Request, Purpose)> {
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

    pub(super) fn has_given_up(&self, core: &Core) -> bool {
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
        encode_versioned(&subscription, EMBEDDED_VERSION)
            .expect("version 3 has room for all fields of a subscription that was taken")
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
    pub(in crate::rebalance) fn leave_request(&self, core: &Core, reason: &'static str) -> Option<Request> {
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
    pub(in crate::rebalance) fn left(&mut self, core: &Core) {
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
    pub(in crate::rebalance) fn join_timeout(&self, core: &Core) -> Duration {
        core.config.request_timeout.max(core.config.max_poll_interval.saturating_add(GRACE))
    }

    /// `SyncGroup` is answered when the leader has made the assignment, or its session is over.
    pub(in crate::rebalance) fn sync_timeout(&self, core: &Core) -> Duration {
        core.config.request_timeout.max(core.config.session_timeout.saturating_add(GRACE))
    }

    /// When the next request to the coordinator is due, if it is due by itself.
    pub(in crate::rebalance) fn request_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        let pause = self.backoff.deadline(now).filter(|_| self.rejoin.is_some() && core.may_join());
        [self.heartbeat_due(core), pause].into_iter().flatten().min()
    }

    /// Whether the coordinator counts the time since the last sign of life. While it joins and synchronizes, a member
    /// gives none.
    fn is_in_session(&self) -> bool {
        self.is_between_rounds() && self.generation >= 0
    }

    /// When the coordinator removes a member of which it hears nothing more.
    pub(in crate::rebalance) fn session_end(&self, core: &Core) -> Option<Duration> {
        self.is_in_session().then(|| self.alive_at.saturating_add(core.config.session_timeout))
    }

    pub(in crate::rebalance) fn expire(&mut self, core: &mut Core, now: Duration) {
        if self.session_end(core).is_some_and(|end| end <= now) {
            core.coordinator.unknown();
            self.lost(core, "the session has expired");
        }
    }

    /// A heartbeat is due at once.
    pub(in crate::rebalance) fn heartbeat_now(&mut self) {
        self.heartbeat_now = true;
    }
}
