//! A leader of partitions: its session, and what waits to be sent to it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{CommitId, RequestId};
use crate::share::{Acknowledgements, ClientSession, TopicIdPartition};

/// A broker that leads partitions, or has led some whose records are still in hand.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) node: i32,
    pub(super) session: ClientSession,
    /// Whether it leads an assigned partition.
    pub(super) leads: bool,
    /// What the next fetch should make of the session.
    pub(super) wanted: BTreeSet<TopicIdPartition>,
    /// Acknowledgements of polls.
    pub(super) pending: Acknowledgements,
    /// Acknowledgements of commits.
    pub(super) commits: VecDeque<CommitPart>,
    /// Acknowledgements of closing.
    pub(super) last: Acknowledgements,
    pub(super) sent: Option<SentToLeader>,
    pub(super) retry_at: Duration,
    pub(super) failures: u32,
}

/// What a commit sends to one leader.
#[derive(Debug)]
pub(super) struct CommitPart {
    pub(super) commit: CommitId,
    pub(super) not_before: Duration,
    pub(super) deadline: Duration,
    pub(super) acknowledgements: Acknowledgements,
}

/// The request of the session in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentToLeader {
    pub(super) id: RequestId,
    pub(super) purpose: Purpose,
}

/// What a request of the session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A fetch that may acquire records.
    Fetch,
    /// A fetch that renews, or only brings the session up to date.
    Sync,
    /// Acknowledgements of a poll.
    Acknowledge,
    /// Acknowledgements of a commit.
    Commit(CommitId, Duration),
    /// The last request of the session.
    Close,
}

impl Leader {
    pub(super) fn new(node: i32, session: ClientSession) -> Self {
        Self {
            node,
            session,
            leads: false,
            wanted: BTreeSet::new(),
            pending: Acknowledgements::default(),
            commits: VecDeque::new(),
            last: Acknowledgements::default(),
            sent: None,
            retry_at: Duration::ZERO,
            failures: 0,
        }
    }

    pub(super) fn has_acknowledgements(&self) -> bool {
        !self.pending.is_empty() || !self.commits.is_empty()
    }

    /// A part of a commit that may be sent.
    pub(super) fn take_due_commit(&mut self, now: Duration) -> Option<CommitPart> {
        let at = self.commits.iter().position(|part| part.not_before <= now)?;
        self.commits.remove(at)
    }

    /// A part of a commit that is out of time.
    pub(super) fn take_expired_commit(&mut self, now: Duration) -> Option<CommitPart> {
        let at = self.commits.iter().position(|part| part.deadline <= now)?;
        self.commits.remove(at)
    }

    /// Whether nothing needs this leader, apart from records in hand.
    pub(super) fn is_idle(&self) -> bool {
        !self.leads && self.sent.is_none() && !self.has_acknowledgements()
    }
}
