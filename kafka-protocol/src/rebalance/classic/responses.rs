//! What a member of a classic group makes of the answers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Classic, EMBEDDED_VERSION, Phase};
use crate::embedded::{decode_versioned_tolerant, encode_versioned};
use crate::messages::join_group_response::JoinGroupResponseMember;
use crate::messages::sync_group_request::SyncGroupRequestAssignment;
use crate::messages::{
    ConsumerProtocolAssignment, JoinGroupResponse, SyncGroupResponse, consumer_protocol_assignment,
};
use crate::protocol::{ApiKey, ErrorCode};
use crate::rebalance::TopicPartition;
use crate::rebalance::assignor::{self, Subscriber, by_topic};
use crate::rebalance::coordinator::Sent;
use crate::rebalance::core::{Core, Purpose};
use crate::rebalance::event::Event;
use crate::wire::{Bytes, Str};

/// Responses.
impl Classic {
    pub(in crate::rebalance) fn joined(
        &mut self,
        core: &mut Core,
        response: JoinGroupResponse,
        now: Duration,
    ) {
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = response.member_id;
                self.phase = Phase::Unjoined;
                self.rejoin_for("need to re-join with the given member id");
                self.refused(now);
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
    pub(in crate::rebalance) fn assign(&mut self, core: &Core) {
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

    pub(in crate::rebalance) fn synced(
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
        self.refusals = 0;
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
    pub(in crate::rebalance) fn join_failed(
        &mut self,
        core: &mut Core,
        api: ApiKey,
        error_code: ErrorCode,
        now: Duration,
    ) {
        // No heartbeats and no commits meanwhile: the coordinator may have a generation that we do not know.
        self.phase = Phase::Unjoined;
        self.alive_at = now;
        match error_code {
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.rejoin_for("group is already rebalancing");
                self.refused(now);
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
                self.fenced(core, error_code);
                self.refused(now);
            }
            code if core.coordinator_failed(code) || code.is_retriable() => {
                self.rejoin_for("the last attempt failed");
                self.backoff.failed(now);
            }
            code => core.fail(api, code, None),
        }
    }

    /// The member is to join again at once; but if it is told so over and over, with pauses.
    fn refused(&mut self, now: Duration) {
        const AT_ONCE: u32 = 3;
        self.refusals += 1;
        if self.refusals > AT_ONCE {
            self.backoff.failed(now);
        }
    }

    pub(in crate::rebalance) fn heartbeat_answered(
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
    pub(in crate::rebalance) fn fenced(&mut self, core: &mut Core, error_code: ErrorCode) {
        match error_code {
            ErrorCode::FENCED_INSTANCE_ID => core.fail(ApiKey::HEARTBEAT, error_code, None),
            ErrorCode::UNKNOWN_MEMBER_ID => {
                self.member_id = Str::default();
                self.lost(core, "the coordinator does not know the member");
            }
            _ => self.lost(core, "the generation is over"),
        }
    }

    pub(in crate::rebalance) fn lost(&mut self, core: &mut Core, reason: &'static str) {
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
