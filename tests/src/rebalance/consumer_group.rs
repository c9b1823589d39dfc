//! A group under the consumer protocol (KIP-848), as its coordinator sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::wire::{Str, Uuid};

use super::coordinator::Topics;

type Partitions = BTreeSet<(Uuid, i32)>;

pub(super) struct ConsumerGroup {
    members: BTreeMap<Str, Member>,
    epoch: i32,
    pub(super) heartbeat_interval: Duration,
    pub(super) session_timeout: Duration,
    /// Changes its mind while a member revokes: wants partitions back no longer, and offers others. Kafka's coordinator
    /// waits for the revocation first.
    pub(super) is_fickle: bool,
    /// Heartbeats of members that revoke, and that a fickle coordinator has heard.
    whims: usize,
    next_member: u32,
    /// Sessions that ended by themselves.
    pub(super) expired: usize,
    /// Members removed since they did not give up partitions in time.
    pub(super) evicted: usize,
}

#[derive(Default)]
struct Member {
    instance_id: Option<Str>,
    /// A static member that is away.
    is_away: bool,
    epoch: i32,
    previous_epoch: i32,
    topics: BTreeSet<Str>,
    target: Partitions,
    assigned: Partitions,
    to_revoke: Partitions,
    rebalance_timeout: Duration,
    session_end: Duration,
    revoke_until: Option<Duration>,
}

impl ConsumerGroup {
    pub(super) fn new(heartbeat_interval: Duration, session_timeout: Duration) -> Self {
        Self {
            members: BTreeMap::new(),
            epoch: 0,
            heartbeat_interval,
            session_timeout,
            is_fickle: false,
            whims: 0,
            next_member: 0,
            expired: 0,
            evicted: 0,
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        request: ConsumerGroupHeartbeatRequest,
        topics: &Topics,
        now: Duration,
    ) -> ConsumerGroupHeartbeatResponse {
        match self.try_heartbeat(request, topics, now) {
            Ok(response) => response,
            Err(error_code) => ConsumerGroupHeartbeatResponse { error_code, ..Default::default() },
        }
    }

    fn try_heartbeat(
        &mut self,
        request: ConsumerGroupHeartbeatRequest,
        topics: &Topics,
        now: Duration,
    ) -> Result<ConsumerGroupHeartbeatResponse, ErrorCode> {
        if request.member_epoch < 0 {
            return self.leave(request, topics);
        }
        let member_id =
            if request.member_epoch == 0 { self.join(&request, topics)? } else { request.member_id.clone() };
        let member = self.members.get(&member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let owned: Option<Partitions> = request.topic_partitions.as_ref().map(|topics| {
            topics
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(|&index| (topic.topic_id, index)))
                .collect()
        });
        if request.member_epoch != 0 && request.member_epoch != member.epoch {
            let is_retry = request.member_epoch == member.previous_epoch
                && owned.as_ref().is_some_and(|owned| owned.is_subset(&member.assigned));
            if !is_retry {
                return Err(ErrorCode::FENCED_MEMBER_EPOCH);
            }
        }
        if let Some(names) = &request.subscribed_topic_names {
            self.subscribe(&member_id, names, topics);
        }
        let session_end = now + self.session_timeout;
        let full = request.member_epoch == 0
            || request.rebalance_timeout_ms != -1
                && request.subscribed_topic_names.is_some()
                && owned.is_some();
        let member = self.members.get_mut(&member_id).expect("there is one");
        member.session_end = session_end;
        if request.rebalance_timeout_ms != -1 {
            member.rebalance_timeout =
                Duration::from_millis(request.rebalance_timeout_ms.unsigned_abs().into());
        }
        let before = member.assigned.clone();
        self.reconcile(&member_id, owned.as_ref(), now);
        let member = &self.members[&member_id];
        let changed = full || member.assigned != before;
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id),
            member_epoch: member.epoch,
            heartbeat_interval_ms: i32::try_from(self.heartbeat_interval.as_millis()).expect("short"),
            assignment: changed.then(|| assignment(&member.assigned)),
            ..Default::default()
        })
    }

    fn join(&mut self, request: &ConsumerGroupHeartbeatRequest, topics: &Topics) -> Result<Str, ErrorCode> {
        let mut member_id = request.member_id.clone();
        if member_id.is_empty() {
            self.next_member += 1;
            member_id = format!("member-{}", self.next_member).into();
        }
        let has =
            |member: &Member| request.instance_id.is_some() && member.instance_id == request.instance_id;
        let before = self.members.iter().find(|(id, member)| has(member) && **id != member_id);
        if let Some((id, member)) = before.map(|(id, member)| (id.clone(), member.is_away)) {
            if !member {
                return Err(ErrorCode::UNRELEASED_INSTANCE_ID);
            }
            let mut member = self.members.remove(&id).expect("just found");
            (member.is_away, member.to_revoke) = (false, Partitions::new());
            self.members.insert(member_id.clone(), member);
        }
        if !self.members.contains_key(&member_id) {
            let instance_id = request.instance_id.clone();
            self.members.insert(member_id.clone(), Member { instance_id, ..Member::default() });
        }
        let member = self.members.get_mut(&member_id).expect("just inserted");
        member.is_away = false;
        // A member that joins again owns nothing.
        (member.to_revoke, member.revoke_until) = (Partitions::new(), None);
        member.assigned.clear();
        (member.epoch, member.previous_epoch) = (0, 0);
        self.assign(topics);
        Ok(member_id)
    }

    fn leave(
        &mut self,
        request: ConsumerGroupHeartbeatRequest,
        topics: &Topics,
    ) -> Result<ConsumerGroupHeartbeatResponse, ErrorCode> {
        let member = self.members.get_mut(&request.member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if request.member_epoch == -2 {
            member.is_away = true;
            (member.epoch, member.revoke_until) = (-2, None);
        } else {
            self.members.remove(&request.member_id);
            self.assign(topics);
        }
        let (member_epoch, member_id) = (request.member_epoch, Some(request.member_id));
        Ok(ConsumerGroupHeartbeatResponse { member_epoch, member_id, ..Default::default() })
    }

    fn subscribe(&mut self, member_id: &Str, names: &[Str], topics: &Topics) {
        let names = names.iter().cloned().collect();
        let member = self.members.get_mut(member_id).expect("there is one");
        if member.topics != names {
            member.topics = names;
            self.assign(topics);
        }
    }

    /// A new target assignment: who has something in theirs keeps it where balance allows.
    pub(super) fn assign(&mut self, topics: &Topics) {
        self.epoch += 1;
        let all: Vec<_> = topics
            .iter()
            .flat_map(|(name, &(id, count))| (0..count).map(move |index| (name, (id, index))))
            .collect();
        let count = self.members.len();
        let mut targets: BTreeMap<Str, Partitions> =
            self.members.keys().map(|id| (id.clone(), Partitions::new())).collect();
        let mut free = Vec::new();
        for (name, partition) in &all {
            let takers = self.members.values().filter(|member| member.topics.contains(*name)).count();
            let quota = all.len().div_ceil(takers.max(1)).min(all.len().div_ceil(count.max(1)));
            let holder = self.members.iter().find(|(id, member)| {
                member.target.contains(partition)
                    && member.topics.contains(*name)
                    && targets[*id].len() < quota
            });
            match holder {
                Some((id, _)) => drop(targets.get_mut(id).expect("a member").insert(*partition)),
                None => free.push((*name, *partition)),
            }
        }
        for (name, partition) in free {
            let takers = self.members.iter().filter(|(_, member)| member.topics.contains(name));
            if let Some(id) = takers.map(|(id, _)| id).min_by_key(|id| targets[*id].len()) {
                targets.get_mut(id).expect("a member").insert(partition);
            }
        }
        for (id, target) in targets {
            self.members.get_mut(&id).expect("a member").target = target;
        }
    }

    /// At every other heartbeat of a member that revokes, one of these partitions shall be its own again.
    fn change_mind(&mut self, member_id: &Str, owned: Option<&Partitions>) {
        let to_revoke = &self.members[member_id].to_revoke;
        let Some(&partition) = to_revoke.first().filter(|_| owned.is_none()) else { return };
        self.whims += 1;
        if self.whims.is_multiple_of(2) {
            for member in self.members.values_mut() {
                member.target.remove(&partition);
            }
            self.members.get_mut(member_id).expect("there is one").target.insert(partition);
        }
    }

    /// Moves a member towards its target: first it gives up, then it gets.
    fn reconcile(&mut self, member_id: &Str, owned: Option<&Partitions>, now: Duration) {
        if self.is_fickle {
            self.change_mind(member_id, owned);
        }
        let (epoch, is_fickle) = (self.epoch, self.is_fickle);
        let of_others: Partitions = self
            .members
            .iter()
            .filter(|(id, _)| *id != member_id)
            .flat_map(|(_, member)| member.assigned.iter().chain(&member.to_revoke).copied())
            .collect();
        let member = self.members.get_mut(member_id).expect("there is one");
        if !member.to_revoke.is_empty() {
            if owned.is_none_or(|owned| !owned.is_disjoint(&member.to_revoke)) {
                if is_fickle {
                    let again: Partitions = member.to_revoke.intersection(&member.target).copied().collect();
                    member.to_revoke.retain(|partition| !again.contains(partition));
                    if member.to_revoke.is_empty() {
                        member.revoke_until = None;
                    }
                    member.assigned.extend(again);
                    member.assigned.extend(member.target.difference(&of_others).copied());
                }
                return;
            }
            member.to_revoke.clear();
            member.revoke_until = None;
        }
        let kept: Partitions = member.assigned.intersection(&member.target).copied().collect();
        let revoked: Partitions = member.assigned.difference(&member.target).copied().collect();
        if !revoked.is_empty() && owned.is_none_or(|owned| !owned.is_disjoint(&revoked)) {
            (member.assigned, member.to_revoke) = (kept, revoked);
            member.revoke_until = Some(now + member.rebalance_timeout);
            return;
        }
        member.assigned = &kept | &member.target.difference(&of_others).copied().collect();
        if member.epoch != epoch {
            (member.previous_epoch, member.epoch) = (member.epoch, epoch);
        }
    }

    /// Whether a member may commit in an epoch.
    pub(super) fn check(&self, member_id: &Str, epoch: i32) -> ErrorCode {
        match self.members.get(member_id) {
            None => ErrorCode::UNKNOWN_MEMBER_ID,
            Some(member) if member.epoch != epoch => ErrorCode::STALE_MEMBER_EPOCH,
            Some(_) => ErrorCode::NONE,
        }
    }

    /// Removes a member as a failing coordinator would.
    pub(super) fn kick(&mut self, member_id: &Str, topics: &Topics) {
        if self.members.remove(member_id).is_some() {
            self.assign(topics);
        }
    }

    pub(super) fn tick(&mut self, topics: &Topics, now: Duration) {
        let is_late = |member: &Member| member.revoke_until.is_some_and(|until| until <= now);
        let evicted = self.members.values().filter(|member| is_late(member)).count();
        let before = self.members.len();
        self.members.retain(|_, member| !is_late(member) && member.session_end > now);
        let removed = before - self.members.len();
        self.evicted += evicted;
        self.expired += removed - evicted;
        if removed > 0 {
            self.assign(topics);
        }
    }

    /// The group's members.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }
}

fn assignment(partitions: &Partitions) -> Assignment {
    let mut topics = BTreeMap::<Uuid, TopicPartitions>::new();
    for &(topic_id, index) in partitions {
        let row =
            topics.entry(topic_id).or_insert_with(|| TopicPartitions { topic_id, ..Default::default() });
        row.partitions.push(index);
    }
    Assignment { topic_partitions: topics.into_values().collect(), ..Default::default() }
}
