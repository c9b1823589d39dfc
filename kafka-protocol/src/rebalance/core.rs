//! What the protocols have in common: the state around [`Partitions`].

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::commits::{Batch, CommitError, Commits};
use super::coordinator::{Backoff, Coordinator, InFlight};
use super::event::{Event, Refusal};
use super::partitions::Partitions;
use super::topics::Topics;
use super::{Config, TopicPartition};
use crate::protocol::{ApiKey, ErrorCode};
use crate::wire::{Str, Uuid};

/// What a request in flight is for.
#[derive(Debug)]
pub(super) enum Purpose {
    FindCoordinator,
    Metadata,
    /// `JoinGroup`.
    Join,
    /// `SyncGroup`.
    Sync,
    /// `Heartbeat`.
    Heartbeat,
    /// `ConsumerGroupHeartbeat` with what it says that the member owns; `None` if it says nothing.
    ConsumerHeartbeat(Option<BTreeSet<(Uuid, i32)>>),
    /// `OffsetCommit`, with what it holds and as whom it was sent.
    Commit(Batch, Stamp),
    /// `OffsetFetch`.
    OffsetFetch(Stamp),
    /// `LeaveGroup` or the last `ConsumerGroupHeartbeat`.
    Leave,
}

impl Purpose {
    pub(super) fn api(&self) -> ApiKey {
        match self {
            Self::FindCoordinator => ApiKey::FIND_COORDINATOR,
            Self::Metadata => ApiKey::METADATA,
            Self::Join => ApiKey::JOIN_GROUP,
            Self::Sync => ApiKey::SYNC_GROUP,
            Self::Heartbeat => ApiKey::HEARTBEAT,
            Self::ConsumerHeartbeat(_) => ApiKey::CONSUMER_GROUP_HEARTBEAT,
            Self::Commit(..) => ApiKey::OFFSET_COMMIT,
            Self::OffsetFetch(_) => ApiKey::OFFSET_FETCH,
            Self::Leave => ApiKey::LEAVE_GROUP,
        }
    }

    pub(super) fn is_for_coordinator(&self) -> bool {
        !matches!(self, Self::FindCoordinator | Self::Metadata)
    }

    /// Whether its answer means nothing to another membership.
    fn is_of_membership(&self) -> bool {
        matches!(
            self,
            Self::Join | Self::Sync | Self::Heartbeat | Self::ConsumerHeartbeat(_) | Self::OffsetFetch(_)
        )
    }
}

/// As whom a member commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) member_id: Str,
    /// Generation, or member epoch.
    pub(super) epoch: i32,
}

/// What the member wants to consume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subscription {
    Topics(BTreeSet<Str>),
    /// An RE2/J expression.
    Regex(Str),
}

impl Subscription {
    /// Only the coordinator knows which topics match an expression.
    pub(super) fn includes(&self, topic: &Str) -> bool {
        match self {
            Self::Topics(topics) => topics.contains(topic),
            Self::Regex(_) => true,
        }
    }
}

/// On the way out of the group.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) then: Then,
    /// When it ends without an answer.
    pub(super) deadline: Duration,
}

/// What comes when the group is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing, or another subscription.
    Idle,
    /// The end.
    Closed,
    /// Wait for a poll.
    Stale,
}

/// What the answer to a commit or an offset fetch tells of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// The coordinator has another epoch: a heartbeat will tell.
    Stale,
    /// The coordinator knows no such member.
    Fenced(ErrorCode),
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) subscription: Option<Subscription>,
    pub(super) partitions: Partitions,
    pub(super) commits: Commits,
    pub(super) topics: Topics,
    pub(super) coordinator: Coordinator,
    pub(super) in_flight: InFlight<Purpose>,
    pub(super) events: VecDeque<Event>,
    pub(super) commit_backoff: Backoff,
    pub(super) offset_backoff: Backoff,
    pub(super) metadata_backoff: Backoff,
    /// When the last metadata came, if any did.
    pub(super) metadata_at: Option<Duration>,
    /// When the last poll was, or the subscription, as long as there is one.
    pub(super) polled_at: Option<Duration>,
    /// No poll came in time, and none has come since.
    pub(super) is_stale: bool,
    /// Since when the coordinator waits for partitions.
    pub(super) revoking_since: Option<Duration>,
    pub(super) leaving: Option<Leaving>,
    pub(super) is_closed: bool,
    pub(super) failure: Option<Refusal>,
}

impl Core {
    pub(super) fn new(config: Config) -> Self {
        let backoff = || Backoff::new(config.retry_backoff, config.retry_backoff_max);
        Self {
            subscription: None,
            partitions: Partitions::default(),
            commits: Commits::new(),
            topics: Topics::default(),
            coordinator: Coordinator::new(backoff()),
            in_flight: InFlight::new(),
            events: VecDeque::new(),
            commit_backoff: backoff(),
            offset_backoff: backoff(),
            metadata_backoff: backoff(),
            metadata_at: None,
            polled_at: None,
            is_stale: false,
            revoking_since: None,
            leaving: None,
            is_closed: false,
            failure: None,
            config,
        }
    }

    /// Whether the member wants to be in the group now. After a loss it waits for the poll that reports it, so that no
    /// partition is assigned again before the caller knows that it was lost.
    pub(super) fn may_join(&self) -> bool {
        self.subscription.is_some()
            && self.leaving.is_none()
            && !self.is_stale
            && !self.partitions.has_unreported_loss()
    }

    pub(super) fn is_subscribed(&self, topic: &Str) -> bool {
        self.subscription.as_ref().is_some_and(|wanted| wanted.includes(topic))
    }

    /// Gives up what polls have completed, once its commits are answered or nobody waits for them.
    pub(super) fn give_up(&mut self) -> Option<Vec<TopicPartition>> {
        let Self { partitions, commits, .. } = self;
        let given_up = partitions.give_up(|partition| commits.wait_for(partition));
        if let Some(given_up) = &given_up {
            commits.abandon(given_up, CommitError::GivenUp);
            self.events.push_back(Event::GivenUp(given_up.clone()));
        }
        if !self.partitions.is_revoking() {
            self.revoking_since = None;
        }
        given_up
    }

    /// The coordinator wants partitions back; the time that it allows runs from the first notice.
    pub(super) fn note_revocation(&mut self, now: Duration) {
        if self.partitions.is_revoking() {
            self.revoking_since.get_or_insert(now);
        } else {
            self.revoking_since = None;
        }
    }

    /// The membership is over, and everything is lost.
    pub(super) fn lose(&mut self) {
        let lost = self.partitions.lose_all();
        self.commits.abandon(&lost, CommitError::Lost);
        self.in_flight.forget(Purpose::is_of_membership);
        self.revoking_since = None;
        self.commit_backoff.succeeded();
        self.offset_backoff.succeeded();
    }

    /// Ends the member for good.
    pub(super) fn fail(&mut self, api: ApiKey, error_code: ErrorCode, message: Option<Str>) {
        self.lose();
        self.commits.abandon_all(CommitError::Refused(error_code));
        self.in_flight.forget(|_| true);
        let refusal = Refusal { api, error_code, message };
        self.failure = Some(refusal.clone());
        self.events.push_back(Event::Failed(refusal));
    }

    /// Takes an error code that concerns the way to the coordinator, and no more than that. `false` if it does not.
    pub(super) fn coordinator_failed(&mut self, error_code: ErrorCode) -> bool {
        match error_code {
            ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::REQUEST_TIMED_OUT => self.coordinator.unknown(),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => {}
            _ => return false,
        }
        true
    }
}
