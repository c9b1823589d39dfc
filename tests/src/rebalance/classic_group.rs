//! A classic group, as its coordinator sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::Response;
use kafka_protocol::wire::{Bytes, Str};

use super::coordinator::Call;

#[derive(Default)]
pub(super) struct ClassicGroup {
    members: BTreeMap<Str, Member>,
    /// Member ids that were given out and have not come back.
    pending: BTreeSet<Str>,
    state: State,
    pub(super) generation: i32,
    leader: Str,
    protocol: Str,
    next_member: u32,
    /// Sessions that ended by themselves.
    pub(super) expired: usize,
    /// Members removed since they did not join in time.
    pub(super) evicted: usize,
}

struct Member {
    instance_id: Option<Str>,
    session_timeout: Duration,
    rebalance_timeout: Duration,
    protocols: Vec<(Str, Bytes)>,
    session_end: Duration,
    join: Option<Call>,
    sync: Option<Call>,
    assignment: Bytes,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Empty,
    PreparingRebalance {
        until: Duration,
    },
    CompletingRebalance {
        until: Duration,
    },
    Stable,
}

type Answers<'a> = &'a mut Vec<(Call, Response)>;

impl ClassicGroup {
    pub(super) fn join(
        &mut self,
        call: Call,
        request: JoinGroupRequest,
        version: i16,
        now: Duration,
        to: Answers<'_>,
    ) {
        let refuse = |error_code, member_id: Str| JoinGroupResponse {
            error_code,
            generation_id: -1,
            member_id,
            protocol_name: Some(Str::default()),
            ..Default::default()
        };
        let of_instance = |group: &Self| {
            let has = |member: &Member| {
                request.group_instance_id.is_some() && member.instance_id == request.group_instance_id
            };
            group.members.iter().find(|(_, member)| has(member)).map(|(id, _)| id.clone())
        };
        let mut member_id = request.member_id.clone();
        if member_id.is_empty() {
            self.next_member += 1;
            member_id = format!("member-{}", self.next_member).into();
            if let Some(old) = of_instance(self) {
                // A static member is back: it takes the place of the one before.
                let mut member = self.members.remove(&old).expect("just found");
                for call in [member.join.take(), member.sync.take()].into_iter().flatten() {
                    to.push((call, refuse(ErrorCode::FENCED_INSTANCE_ID, old.clone()).into()));
                }
                if self.leader == old {
                    self.leader = member_id.clone();
                }
                self.members.insert(member_id.clone(), member);
            } else if version >= 4 && request.group_instance_id.is_none() {
                self.pending.insert(member_id.clone());
                return to.push((call, refuse(ErrorCode::MEMBER_ID_REQUIRED, member_id).into()));
            } else {
                self.pending.insert(member_id.clone());
            }
        } else if of_instance(self).is_some_and(|id| id != member_id) {
            return to.push((call, refuse(ErrorCode::FENCED_INSTANCE_ID, member_id).into()));
        }
        if !self.members.contains_key(&member_id) && !self.pending.remove(&member_id) {
            return to.push((call, refuse(ErrorCode::UNKNOWN_MEMBER_ID, member_id).into()));
        }
        let millis = |value: i32| Duration::from_millis(u64::try_from(value).expect("not negative"));
        let session_timeout = millis(request.session_timeout_ms);
        let protocols: Vec<_> = request.protocols.into_iter().map(|row| (row.name, row.metadata)).collect();
        let is_new = !self.members.contains_key(&member_id);
        let member = self.members.entry(member_id.clone()).or_insert_with(|| Member {
            instance_id: request.group_instance_id.clone(),
            session_timeout,
            rebalance_timeout: match request.rebalance_timeout_ms {
                -1 => session_timeout,
                timeout => millis(timeout),
            },
            protocols: Vec::new(),
            session_end: now + session_timeout,
            join: None,
            sync: None,
            assignment: Bytes::new(),
        });
        member.session_end = now + member.session_timeout;
        let same = member.protocols == protocols;
        member.protocols = protocols;
        match self.state {
            State::Stable | State::CompletingRebalance { .. }
                if !is_new && same && self.leader != member_id =>
            {
                // Nothing has changed: the generation stays.
                let answer = self.join_answer(&member_id);
                return to.push((call, answer.into()));
            }
            _ => {}
        }
        // A second call over another connection takes the place of the first.
        self.members.get_mut(&member_id).expect("just inserted").join = Some(call);
        self.prepare(now, to);
        self.complete_join(now, to);
    }

    fn prepare(&mut self, now: Duration, to: Answers<'_>) {
        if let State::PreparingRebalance { .. } = self.state {
            return;
        }
        for member in self.members.values_mut() {
            if let Some(call) = member.sync.take() {
                member.session_end = now + member.session_timeout;
                let error_code = ErrorCode::REBALANCE_IN_PROGRESS;
                to.push((call, SyncGroupResponse { error_code, ..Default::default() }.into()));
            }
        }
        let longest = self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default();
        self.state = State::PreparingRebalance { until: now + longest };
    }

    fn complete_join(&mut self, now: Duration, to: Answers<'_>) {
        let State::PreparingRebalance { until } = self.state else { return };
        if until <= now {
            let before = self.members.len();
            self.members.retain(|_, member| member.join.is_some());
            self.evicted += before - self.members.len();
        }
        if self.members.is_empty() {
            self.state = State::Empty;
            return;
        }
        if self.members.values().any(|member| member.join.is_none()) {
            return;
        }
        self.generation += 1;
        let offered = self.members.values().next().expect("not empty").protocols.clone();
        let by_all = |name: &Str| {
            self.members.values().all(|member| member.protocols.iter().any(|(offered, _)| offered == name))
        };
        self.protocol =
            offered.iter().map(|(name, _)| name).find(|name| by_all(name)).expect("one in common").clone();
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().expect("not empty").clone();
        }
        let longest = self.members.values().map(|member| member.rebalance_timeout).max().expect("not empty");
        self.state = State::CompletingRebalance { until: now + longest };
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.join_answer(&id);
            let member = self.members.get_mut(&id).expect("one of them");
            member.session_end = now + member.session_timeout;
            member.assignment = Bytes::new();
            to.push((member.join.take().expect("all have joined"), answer.into()));
        }
    }

    fn join_answer(&self, member_id: &Str) -> JoinGroupResponse {
        let metadata = |member: &Member| {
            let row = member.protocols.iter().find(|(name, _)| *name == self.protocol);
            row.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
        };
        let members = self.members.iter().map(|(id, member)| JoinGroupResponseMember {
            member_id: id.clone(),
            group_instance_id: member.instance_id.clone(),
            metadata: metadata(member),
            ..Default::default()
        });
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: Some("consumer".into()),
            protocol_name: Some(self.protocol.clone()),
            leader: self.leader.clone(),
            member_id: member_id.clone(),
            members: if *member_id == self.leader { members.collect() } else { Vec::new() },
            ..Default::default()
        }
    }

    pub(super) fn sync(&mut self, call: Call, request: SyncGroupRequest, now: Duration, to: Answers<'_>) {
        let error_code = match (
            self.check(&request.member_id, &request.group_instance_id, request.generation_id),
            self.state,
        ) {
            (ErrorCode::NONE, State::PreparingRebalance { .. }) => ErrorCode::REBALANCE_IN_PROGRESS,
            (error_code, _) => error_code,
        };
        if !error_code.is_ok() {
            return to.push((call, SyncGroupResponse { error_code, ..Default::default() }.into()));
        }
        let member = self.members.get_mut(&request.member_id).expect("checked");
        member.session_end = now + member.session_timeout;
        member.sync = Some(call);
        if self.leader == request.member_id && matches!(self.state, State::CompletingRebalance { .. }) {
            for row in request.assignments {
                // A static member that has come back has another id.
                if let Some(member) = self.members.get_mut(&row.member_id) {
                    member.assignment = row.assignment;
                }
            }
            self.state = State::Stable;
        }
        if self.state == State::Stable {
            for member in self.members.values_mut() {
                let Some(call) = member.sync.take() else { continue };
                member.session_end = now + member.session_timeout;
                let assignment = member.assignment.clone();
                let protocol_name = Some(self.protocol.clone());
                let protocol_type = Some("consumer".into());
                to.push((
                    call,
                    SyncGroupResponse { assignment, protocol_name, protocol_type, ..Default::default() }
                        .into(),
                ));
            }
        }
    }

    /// Whether a member may do something in a generation.
    fn check(&self, member_id: &Str, instance_id: &Option<Str>, generation: i32) -> ErrorCode {
        let has = |member: &Member| instance_id.is_some() && member.instance_id == *instance_id;
        if self.members.iter().any(|(id, member)| has(member) && id != member_id) {
            return ErrorCode::FENCED_INSTANCE_ID;
        }
        if !self.members.contains_key(member_id) {
            ErrorCode::UNKNOWN_MEMBER_ID
        } else if generation != self.generation {
            ErrorCode::ILLEGAL_GENERATION
        } else {
            ErrorCode::NONE
        }
    }

    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Duration) -> ErrorCode {
        let error_code = self.check(&request.member_id, &request.group_instance_id, request.generation_id);
        if !error_code.is_ok() {
            return error_code;
        }
        let member = self.members.get_mut(&request.member_id).expect("checked");
        member.session_end = now + member.session_timeout;
        match self.state {
            State::PreparingRebalance { .. } => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => ErrorCode::NONE,
        }
    }

    pub(super) fn commit(
        &mut self,
        member_id: &Str,
        instance_id: &Option<Str>,
        generation: i32,
        now: Duration,
    ) -> ErrorCode {
        let error_code = self.check(member_id, instance_id, generation);
        if error_code.is_ok() {
            let member = self.members.get_mut(member_id).expect("checked");
            member.session_end = now + member.session_timeout;
        }
        match self.state {
            State::CompletingRebalance { .. } if error_code.is_ok() => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => error_code,
        }
    }

    /// Up to version 2 the request names one member itself.
    pub(super) fn leave(
        &mut self,
        request: LeaveGroupRequest,
        now: Duration,
        to: Answers<'_>,
    ) -> LeaveGroupResponse {
        let named = request.members.into_iter().map(|member| (member.member_id, member.group_instance_id));
        let named = named.chain((!request.member_id.is_empty()).then_some((request.member_id, None)));
        let mut members = Vec::new();
        for (member_id, group_instance_id) in named {
            let known = self.members.remove(&member_id).is_some();
            let error_code = if known { ErrorCode::NONE } else { ErrorCode::UNKNOWN_MEMBER_ID };
            members.push(MemberResponse { member_id, group_instance_id, error_code, ..Default::default() });
        }
        self.rebalance(now, to);
        LeaveGroupResponse { members, ..Default::default() }
    }

    /// Members have gone.
    fn rebalance(&mut self, now: Duration, to: Answers<'_>) {
        if self.members.is_empty() {
            self.state = State::Empty;
        } else {
            self.prepare(now, to);
            self.complete_join(now, to);
        }
    }

    /// Removes a member as an administrator would.
    pub(super) fn kick(&mut self, member_id: &Str, now: Duration, to: Answers<'_>) {
        let Some(member) = self.members.remove(member_id) else { return };
        let error_code = ErrorCode::UNKNOWN_MEMBER_ID;
        let join =
            member.join.map(|call| (call, JoinGroupResponse { error_code, ..Default::default() }.into()));
        let sync =
            member.sync.map(|call| (call, SyncGroupResponse { error_code, ..Default::default() }.into()));
        to.extend(join.into_iter().chain(sync));
        self.rebalance(now, to);
    }

    pub(super) fn tick(&mut self, now: Duration, to: Answers<'_>) {
        let before = self.members.len();
        self.members
            .retain(|_, member| member.join.is_some() || member.sync.is_some() || member.session_end > now);
        if self.members.len() < before {
            self.expired += before - self.members.len();
            self.rebalance(now, to);
        }
        match self.state {
            State::PreparingRebalance { .. } => self.complete_join(now, to),
            State::CompletingRebalance { until } if until <= now => {
                let before = self.members.len();
                self.members.retain(|_, member| member.sync.is_some());
                self.evicted += before - self.members.len();
                self.rebalance(now, to);
            }
            _ => {}
        }
    }

    /// The group's members.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }
}
