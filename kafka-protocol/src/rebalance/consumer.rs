//! The consumer protocol (KIP-848): everything by `ConsumerGroupHeartbeat`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::TopicPartition;
use super::coordinator::{Backoff, Sent};
use super::core::{Core, Purpose, Stamp, Subscription};
use super::event::{Event, Refusal};
use super::request::Request;
use super::topics::Wanted;
use crate::messages::consumer_group_heartbeat_request::TopicPartitions;
use crate::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use crate::protocol::{ApiKey, ErrorCode};
use crate::wire::{SmallVec, Str, Uuid};

/// Member epochs that mean something else.
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const LEAVE_STATIC: i32 = -2;

/// Partitions by topic id.
type ById = BTreeSet<(Uuid, i32)>;

/// A member of a consumer group.
#[derive(Debug)]
pub(super) struct Consumer {
    member_id: Str,
    server_assignor: Option<Str>,
    /// 0 outside the group.
    epoch: i32,
    /// Told by the coordinator.
    heartbeat_interval: Duration,
    heartbeat_at: Duration,
    /// When the last heartbeat was sent that has been answered.
    alive_at: Duration,
    heartbeat_now: bool,
    /// What the coordinator knows that the member owns; `None` if that is not certain.
    reported: Option<ById>,
    /// The assignment has to be acknowledged even if what is owned is the same.
    ack_due: bool,
    /// The next heartbeat has to say everything, since it is not certain what the coordinator knows.
    is_full: bool,
    /// The subscription that the coordinator knows of.
    subscribed: Option<Subscription>,
    /// The last assignment.
    target: ById,
    backoff: Backoff,
}

impl Consumer {
    pub(super) fn new(member_id: Str, server_assignor: Option<Str>, backoff: Backoff) -> Self {
        Self {
            member_id,
            server_assignor,
            epoch: JOIN,
            heartbeat_interval: Duration::ZERO,
            heartbeat_at: Duration::ZERO,
            alive_at: Duration::ZERO,
            heartbeat_now: false,
            reported: None,
            ack_due: false,
            is_full: true,
            subscribed: None,
            target: ById::new(),
            backoff,
        }
    }

    pub(super) fn stamp(&self) -> Option<Stamp> {
        (self.epoch > JOIN).then(|| self.identity())
    }

    pub(super) fn identity(&self) -> Stamp {
        Stamp { member_id: self.member_id.clone(), epoch: self.epoch }
    }

    /// Gives up what is ready for it, takes what is new.
    pub(super) fn advance(&mut self, core: &mut Core, now: Duration) {
        self.keep(core, now);
        core.give_up();
        if self.epoch > JOIN && !core.partitions.is_revoking() && self.is_acknowledged(core) {
            for (partition, topic_id) in self.resolved(core) {
                core.partitions.adopt(partition, topic_id);
            }
        }
    }

    fn keep(&self, core: &mut Core, now: Duration) {
        core.partitions.keep(|partition, id| self.target.contains(&(id, partition.partition)));
        core.note_revocation(now);
    }

    /// Whether the coordinator knows of everything that was given up.
    fn is_acknowledged(&self, core: &Core) -> bool {
        self.reported.as_ref().is_some_and(|reported| owns_all(core, reported))
    }

    /// What is assigned, as far as the names of the topics are known.
    fn resolved(&self, core: &Core) -> Vec<(TopicPartition, Uuid)> {
        let resolve = |&(id, partition): &(Uuid, i32)| {
            Some((TopicPartition::new(core.topics.name(id)?.clone(), partition), id))
        };
        self.target.iter().filter_map(resolve).collect()
    }

    /// Names of topics that are known by id only.
    pub(super) fn metadata_wanted(&self, core: &Core) -> Wanted {
        let ids = self.target.iter().map(|&(id, _)| id).filter(|&id| core.topics.name(id).is_none());
        Wanted { ids: ids.collect(), ..Wanted::default() }
    }
}

/// Requests.
impl Consumer {
    pub(super) fn next_request(&mut self, core: &Core, now: Duration) -> Option<(Request, Purpose)> {
        if self.heartbeat_due(core, now).is_none_or(|due| due > now) {
            return None;
        }
        let joins = self.epoch == JOIN;
        let full = joins || self.is_full;
        let owned = owned(core);
        let says_owned = full || self.has_to_report(core);
        let mut request = ConsumerGroupHeartbeatRequest {
            group_id: core.config.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch: self.epoch,
            instance_id: core.config.group_instance_id.clone(),
            ..Default::default()
        };
        if full {
            request.rack_id = core.config.rack_id.clone();
            request.rebalance_timeout_ms = core.config.rebalance_timeout_ms();
            request.server_assignor = self.server_assignor.clone();
        }
        if full || self.subscribed != core.subscription {
            self.subscribe(core, &mut request);
        }
        if says_owned {
            request.topic_partitions = Some(rows(&owned));
        }
        self.subscribed = core.subscription.clone();
        self.heartbeat_at = now;
        self.heartbeat_now = false;
        self.is_full = false;
        // Said or not, as of now: an assignment that comes with the answer has to be acknowledged anew.
        self.ack_due &= !says_owned;
        Some((request.into(), Purpose::ConsumerHeartbeat(says_owned.then_some(owned))))
    }

    fn subscribe(&self, core: &Core, request: &mut ConsumerGroupHeartbeatRequest) {
        match &core.subscription {
            Some(Subscription::Topics(topics)) => {
                request.subscribed_topic_names = Some(topics.iter().cloned().collect());
                // An empty expression takes back the one of before.
                if matches!(self.subscribed, Some(Subscription::Regex(_))) {
                    request.subscribed_topic_regex = Some(Str::default());
                }
            }
            Some(Subscription::Regex(regex)) => {
                request.subscribed_topic_names = Some(Vec::new());
                request.subscribed_topic_regex = Some(regex.clone());
            }
            None => {}
        }
    }

    /// When the next heartbeat is due; `None` if there is none for now.
    fn heartbeat_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        if core.in_flight.any(|purpose| matches!(purpose, Purpose::ConsumerHeartbeat(_))) {
            return None;
        }
        if !self.backoff.is_over(now) {
            return self.backoff.deadline(now);
        }
        if self.epoch == JOIN {
            return core.may_join().then_some(Duration::ZERO);
        }
        if self.heartbeat_now
            || self.is_full
            || self.subscribed != core.subscription
            || self.has_to_report(core)
        {
            return Some(Duration::ZERO);
        }
        Some(self.heartbeat_at.saturating_add(self.heartbeat_interval))
    }

    /// Whether the coordinator has to be told what the member owns: when that has changed, and when an assignment has been
    /// carried out. Until then heartbeats say nothing of it.
    fn has_to_report(&self, core: &Core) -> bool {
        let is_known =
            |reported: &ById| reported.len() == core.partitions.owned().count() && owns_all(core, reported);
        !self.reported.as_ref().is_some_and(is_known)
            || self.ack_due && !core.partitions.is_revoking() && owns_all(core, &self.target)
    }

    /// Whether the member's first heartbeat is in flight. In version 0 of the API it is the coordinator that chooses the
    /// member id.
    pub(super) fn is_joining(&self, core: &Core) -> bool {
        self.epoch == JOIN && core.in_flight.any(|purpose| matches!(purpose, Purpose::ConsumerHeartbeat(_)))
    }

    /// The message that ends the membership.
    pub(super) fn leave_request(&self, core: &Core) -> Option<Request> {
        if self.epoch == JOIN && !self.is_joining(core) {
            return None;
        }
        let is_static = core.config.group_instance_id.is_some();
        let request = ConsumerGroupHeartbeatRequest {
            group_id: core.config.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch: if is_static { LEAVE_STATIC } else { LEAVE },
            instance_id: core.config.group_instance_id.clone(),
            subscribed_topic_names: Some(Vec::new()),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        Some(request.into())
    }

    /// The member is outside the group.
    pub(super) fn left(&mut self) {
        self.epoch = JOIN;
        self.reported = None;
        self.ack_due = false;
        self.is_full = true;
        self.subscribed = None;
        self.target.clear();
        self.backoff.succeeded();
    }

    /// When the next request to the coordinator is due, if it is due by itself.
    pub(super) fn request_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        self.heartbeat_due(core, now)
    }

    /// When the coordinator removes a member of which it hears nothing more.
    pub(super) fn session_end(&self, core: &Core) -> Option<Duration> {
        (self.epoch > JOIN).then(|| self.alive_at.saturating_add(core.config.session_timeout))
    }

    pub(super) fn expire(&mut self, core: &mut Core, now: Duration) {
        if self.session_end(core).is_some_and(|end| end <= now) {
            core.coordinator.unknown();
            self.lost(core);
        }
    }

    /// A heartbeat is due at once.
    pub(super) fn heartbeat_now(&mut self) {
        self.heartbeat_now = true;
    }
}

/// Responses.
impl Consumer {
    pub(super) fn heartbeat_answered(
        &mut self,
        core: &mut Core,
        sent: Sent<Purpose>,
        response: ConsumerGroupHeartbeatResponse,
        now: Duration,
    ) {
        if !response.error_code.is_ok() {
            return self.heartbeat_failed(core, response.error_code, response.error_message, now);
        }
        self.backoff.succeeded();
        self.alive_at = sent.at;
        self.heartbeat_interval =
            // One of zero would never let go of the coordinator.
            Duration::from_millis(response.heartbeat_interval_ms.max(1).unsigned_abs().into());
        if let Some(member_id) = response.member_id.filter(|id| !id.is_empty()) {
            self.member_id = member_id;
        }
        if self.epoch != response.member_epoch {
            self.epoch = response.member_epoch;
            core.events.push_back(Event::Joined { generation_or_epoch: self.epoch });
        }
        let is_first_report = self.reported.is_none();
        if let Purpose::ConsumerHeartbeat(Some(owned)) = sent.purpose {
            self.reported = Some(owned);
        }
        if let Some(assignment) = response.assignment {
            let partitions = assignment.topic_partitions.into_iter();
            let target = partitions
                .flat_map(|topic| {
                    topic.partitions.into_iter().map(move |partition| (topic.topic_id, partition))
                })
                .collect();
            // The same again, should every report be answered with it, asks for nothing new.
            self.ack_due |= is_first_report || self.target != target;
            self.target = target;
        }
        self.keep(core, now);
    }

    pub(super) fn heartbeat_failed(
        &mut self,
        core: &mut Core,
        error_code: ErrorCode,
        message: Option<Str>,
        now: Duration,
    ) {
        const API: ApiKey = ApiKey::CONSUMER_GROUP_HEARTBEAT;
        // Perhaps it was taken, and only the answer is lost.
        (self.is_full, self.reported) = (true, None);
        match error_code {
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::GROUP_ID_NOT_FOUND => {
                self.lost(core);
                // A member that is fenced over and over must not join in a tight loop.
                self.backoff.failed(now);
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                self.backoff.failed(now);
                core.events.push_back(Event::Refused(Refusal { api: API, error_code, message }));
            }
            code if core.coordinator_failed(code) || code.is_retriable() => self.backoff.failed(now),
            code => core.fail(API, code, message),
        }
    }

    /// The coordinator knows the member no longer.
    pub(super) fn fenced(&mut self, core: &mut Core, error_code: ErrorCode) {
        match error_code {
            ErrorCode::FENCED_INSTANCE_ID => core.fail(ApiKey::CONSUMER_GROUP_HEARTBEAT, error_code, None),
            _ => self.lost(core),
        }
    }

    fn lost(&mut self, core: &mut Core) {
        core.lose();
        self.left();
    }
}

fn owned(core: &Core) -> ById {
    core.partitions.owned().map(|(partition, id)| (id, partition.partition)).collect()
}

/// Whether the member owns all of `partitions`.
fn owns_all(core: &Core, partitions: &ById) -> bool {
    let owned =
        core.partitions.owned().filter(|(partition, id)| partitions.contains(&(*id, partition.partition)));
    owned.count() == partitions.len()
}

fn rows(partitions: &ById) -> Vec<TopicPartitions> {
    let row = |(topic_id, partitions)| TopicPartitions { topic_id, partitions, ..Default::default() };
    by_id(partitions).into_iter().map(row).collect()
}

/// Partitions by topic id, both in ascending order.
fn by_id(partitions: &ById) -> BTreeMap<Uuid, SmallVec<[i32; 4]>> {
    let mut topics = BTreeMap::<Uuid, SmallVec<[i32; 4]>>::new();
    for &(id, partition) in partitions {
        topics.entry(id).or_default().push(partition);
    }
    topics
}
