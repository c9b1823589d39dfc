//! The member in its group: joining, heartbeats, the assignment, leaving.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ShareConsumerConfig;
use crate::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::wire::Str;

/// The member epoch with which a member leaves.
const LEAVE_EPOCH: i32 = -1;

/// The member's state.
#[derive(Debug, Default)]
pub(super) struct Membership {
    subscription: Vec<Str>,
    /// 0 before the member has joined.
    epoch: i32,
    pub(super) assignment: BTreeSet<TopicIdPartition>,
    /// When the next heartbeat is due.
    pub(super) due: Duration,
    /// How long after one heartbeat the next is due.
    interval: Duration,
    /// Whether the next heartbeat tells everything: after changes, errors and lost responses.
    full: bool,
    failures: u32,
    /// Whether a heartbeat is in flight, and if so whether it leaves the group.
    in_flight: Option<bool>,
    leaving: bool,
    /// Whether no poll has come in time: the member is out of the group until the next one.
    stale: bool,
}

/// What a response to a heartbeat asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heartbeat {
    /// Nothing else changes.
    Fine,
    /// There is another assignment.
    Assigned,
    /// Another broker is the coordinator.
    LookUpCoordinator,
    /// Something that the application should know; the member goes on.
    Report,
    /// The member cannot go on.
    Fatal,
    /// The member has left, or cannot.
    Left,
}

impl Membership {
    pub(super) fn subscribe(&mut self, topics: Vec<Str>, now: Duration) {
        self.subscription = topics;
        self.full = true;
        self.due = now;
    }

    pub(super) fn subscription(&self) -> &[Str] {
        &self.subscription
    }

    /// Whether there is anything to tell a coordinator.
    pub(super) fn is_active(&self) -> bool {
        !self.subscription.is_empty()
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        let has_left = self.stale && self.epoch == 0;
        self.is_active() && !has_left && self.in_flight.is_none() && self.due <= now
    }

    /// Whether the member is in the group, or on its way into it.
    pub(super) fn is_member(&self) -> bool {
        self.is_active() && !self.leaving && !self.stale
    }

    /// No poll has come in time: the member leaves.
    pub(super) fn expire(&mut self, now: Duration) -> Heartbeat {
        self.stale = true;
        self.due = now;
        self.assign(BTreeSet::new())
    }

    /// A poll has come: who left for the lack of one joins again.
    pub(super) fn polled(&mut self, now: Duration) {
        if self.stale {
            self.stale = false;
            self.epoch = 0;
            self.due = now;
        }
    }

    /// From now on the member only leaves. `false` if it never joined, so that there is nothing to leave.
    pub(super) fn leave(&mut self, now: Duration) -> bool {
        self.leaving = true;
        self.due = now;
        self.epoch > 0 || self.in_flight.is_some()
    }

    /// The next heartbeat, which is then in flight.
    pub(super) fn heartbeat(&mut self, config: &ShareConsumerConfig) -> ShareGroupHeartbeatRequest {
        let leaves = self.leaving || self.stale;
        let full = !leaves && (self.full || self.epoch == 0);
        self.in_flight = Some(leaves);
        self.full = false;
        ShareGroupHeartbeatRequest {
            group_id: config.group_id.clone(),
            member_id: config.member_id.clone(),
            member_epoch: if leaves { LEAVE_EPOCH } else { self.epoch },
            rack_id: config.rack_id.clone().filter(|_| full),
            subscribed_topic_names: full.then(|| self.subscription.clone()),
            ..Default::default()
        }
    }

    /// The heartbeat in flight is lost.
    pub(super) fn lost(&mut self, now: Duration, config: &ShareConsumerConfig) {
        self.in_flight = None;
        self.back_off(now, config);
    }

    fn back_off(&mut self, now: Duration, config: &ShareConsumerConfig) {
        self.failures += 1;
        self.full = true;
        self.due = now.saturating_add(config.backoff(self.failures));
    }

    /// Takes the answer to the heartbeat in flight.
    pub(super) fn response(
        &mut self,
        response: &ShareGroupHeartbeatResponse,
        sent_at: Duration,
        now: Duration,
        config: &ShareConsumerConfig,
    ) -> Heartbeat {
        let left = self.in_flight.take() == Some(true);
        if left && !is_about_coordinator(response.error_code) {
            self.epoch = 0;
            return if self.leaving { Heartbeat::Left } else { Heartbeat::Fine };
        }
        match response.error_code {
            ErrorCode::NONE => self.accept(response, sent_at),
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID => self.rejoin(now, config),
            // The group is gone; at epoch 0 the id belongs to a group of another type.
            ErrorCode::GROUP_ID_NOT_FOUND if self.epoch > 0 => self.rejoin(now, config),
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.back_off(now, config);
                Heartbeat::LookUpCoordinator
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                self.back_off(now, config);
                self.due = self.due.max(now.saturating_add(self.interval));
                Heartbeat::Report
            }
            error if error.is_retriable() => {
                self.back_off(now, config);
                Heartbeat::Fine
            }
            _ => Heartbeat::Fatal,
        }
    }

    fn accept(&mut self, response: &ShareGroupHeartbeatResponse, sent_at: Duration) -> Heartbeat {
        self.epoch = response.member_epoch;
        self.failures = 0;
        self.interval = interval(response.heartbeat_interval_ms);
        if self.stale {
            return Heartbeat::Fine;
        }
        // A new subscription, or the wish to leave, may have come while the heartbeat was on its way.
        if !self.full && !self.leaving {
            self.due = sent_at.saturating_add(self.interval);
        }
        let Some(assignment) = &response.assignment else { return Heartbeat::Fine };
        let topics = assignment.topic_partitions.iter();
        let partitions: BTreeSet<_> = topics
            .flat_map(|topic| {
                topic.partitions.iter().map(|index| TopicIdPartition::new(topic.topic_id, *index))
            })
            .collect();
        self.assign(partitions)
    }

    /// The coordinator no longer knows the member as it is: it joins again, with the same id; at once, unless it was
    /// joining.
    fn rejoin(&mut self, now: Duration, config: &ShareConsumerConfig) -> Heartbeat {
        if self.epoch == 0 {
            self.back_off(now, config);
        } else {
            self.due = now;
        }
        self.epoch = 0;
        self.full = true;
        self.assign(BTreeSet::new())
    }

    fn assign(&mut self, partitions: BTreeSet<TopicIdPartition>) -> Heartbeat {
        if self.assignment == partitions {
            return Heartbeat::Fine;
        }
        self.assignment = partitions;
        Heartbeat::Assigned
    }
}

fn is_about_coordinator(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
    )
}

/// An interval of zero would never let go of the coordinator.
fn interval(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1))
}
