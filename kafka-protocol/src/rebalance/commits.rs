//! Commits of offsets that wait for their answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use std::{error, fmt};

use super::{OffsetAndMetadata, TopicPartition};
use crate::protocol::ErrorCode;

/// Names a commit of [`Member::commit`](super::Member::commit). Later commits are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(u64);

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitResult {
    /// The commit.
    pub id: CommitId,
    /// A row per partition of the commit, in the order of the partitions.
    pub partitions: Vec<(TopicPartition, Result<(), CommitError>)>,
}

impl CommitResult {
    /// Whether all its offsets are committed, or replaced by those of a later commit that are.
    pub fn is_ok(&self) -> bool {
        self.partitions.iter().all(|(_, result)| result.is_ok())
    }
}

/// Why offsets are not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// The partition is lost. If the commit had been sent, whether it took effect is not known.
    Lost,
    /// The partition was given up before its commit was answered, since waiting had been waived or time was up. If the
    /// commit had been sent, whether it took effect is not known.
    GivenUp,
    /// There was no final answer within [`api_timeout`](super::Config::api_timeout); the code is that of the last
    /// attempt, or `REQUEST_TIMED_OUT` if there was none.
    TimedOut(ErrorCode),
    /// The coordinator refuses, and trying again would not help.
    Refused(ErrorCode),
}

impl error::Error for CommitError {}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("the partition is lost"),
            Self::GivenUp => f.write_str("the partition was given up before the commit was answered"),
            Self::TimedOut(code) => write!(f, "no final answer in time, the last attempt ended with {code}"),
            Self::Refused(code) => write!(f, "the coordinator answers {code}"),
        }
    }
}

/// The commits of a member, in the order in which they were queued.
#[derive(Debug)]
pub(super) struct Commits {
    next_id: u64,
    pending: VecDeque<Commit>,
}

#[derive(Debug)]
struct Commit {
    id: CommitId,
    waiting: BTreeMap<TopicPartition, OffsetAndMetadata>,
    results: BTreeMap<TopicPartition, Result<(), CommitError>>,
    /// When it ends without an answer.
    deadline: Duration,
    last_error: ErrorCode,
}

/// What one `OffsetCommit` request takes: of every partition the offset that was queued last.
#[derive(Debug)]
pub(super) struct Batch {
    /// The last commit of which something is in it.
    pub(super) up_to: CommitId,
    pub(super) offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

impl Commits {
    pub(super) fn new() -> Self {
        Self { next_id: 0, pending: VecDeque::new() }
    }

    pub(super) fn queue(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        deadline: Duration,
    ) -> CommitId {
        let id = CommitId(self.next_id);
        self.next_id += 1;
        let last_error = ErrorCode::REQUEST_TIMED_OUT;
        self.pending.push_back(Commit {
            id,
            waiting: offsets,
            results: BTreeMap::new(),
            deadline,
            last_error,
        });
        id
    }

    /// Everything that waits, as one batch. Later offsets replace earlier ones, so that a retry never goes back.
    pub(super) fn batch(&self) -> Option<Batch> {
        let up_to = self.pending.back()?.id;
        let mut offsets = BTreeMap::new();
        for commit in &self.pending {
            offsets
                .extend(commit.waiting.iter().map(|(partition, offset)| (partition.clone(), offset.clone())));
        }
        (!offsets.is_empty()).then_some(Batch { up_to, offsets })
    }

    /// Ends a partition in the commits up to one.
    pub(super) fn end(
        &mut self,
        up_to: CommitId,
        partition: &TopicPartition,
        result: Result<(), CommitError>,
    ) {
        for commit in self.pending.iter_mut().filter(|commit| commit.id <= up_to) {
            commit.end(partition, result);
        }
    }

    /// The attempt failed; it will be made again.
    pub(super) fn failed_once(&mut self, up_to: CommitId, error_code: ErrorCode) {
        for commit in self.pending.iter_mut().filter(|commit| commit.id <= up_to) {
            commit.last_error = error_code;
        }
    }

    /// Ends partitions in all commits.
    pub(super) fn abandon<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        error: CommitError,
    ) {
        for partition in partitions {
            self.pending.iter_mut().for_each(|commit| commit.end(partition, Err(error)));
        }
    }

    /// Ends whatever waits.
    pub(super) fn abandon_all(&mut self, error: CommitError) {
        self.pending.iter_mut().for_each(|commit| commit.end_all(error));
    }

    /// Ends what has waited for too long.
    pub(super) fn expire(&mut self, now: Duration) {
        for commit in self.pending.iter_mut().filter(|commit| commit.deadline <= now) {
            commit.end_all(CommitError::TimedOut(commit.last_error));
        }
    }

    /// The commits that are at their end.
    pub(super) fn take_ended(&mut self) -> Vec<CommitResult> {
        let mut ended = Vec::new();
        self.pending.retain_mut(|commit| {
            let waits = !commit.waiting.is_empty();
            if !waits {
                let partitions = std::mem::take(&mut commit.results).into_iter().collect();
                ended.push(CommitResult { id: commit.id, partitions });
            }
            waits
        });
        ended
    }

    /// Whether a commit for the partition is not answered.
    pub(super) fn wait_for(&self, partition: &TopicPartition) -> bool {
        self.pending.iter().any(|commit| commit.waiting.contains_key(partition))
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.pending.iter().map(|commit| commit.deadline).min()
    }
}

impl Commit {
    fn end(&mut self, partition: &TopicPartition, result: Result<(), CommitError>) {
        if let Some((partition, _)) = self.waiting.remove_entry(partition) {
            self.results.insert(partition, result);
        }
    }

    fn end_all(&mut self, error: CommitError) {
        let waiting = std::mem::take(&mut self.waiting);
        self.results.extend(waiting.into_keys().map(|partition| (partition, Err(error))));
    }
}
