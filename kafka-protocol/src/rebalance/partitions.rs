//! The protocol-independent core: which partitions the member owns, and on which way out of its hands each of them is.

use std::collections::{BTreeMap, BTreeSet};

use super::{OffsetAndMetadata, TopicPartition};
use crate::wire::Uuid;

/// The sets Owned, ToRevoke and Lost.
///
/// Owned is `owned`; ToRevoke is the part of it in [`Stage::ToRevoke`]. Lost is `lost_unreported` until a poll reports
/// it, then `lost`.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    owned: BTreeMap<TopicPartition, Owned>,
    lost_unreported: BTreeSet<TopicPartition>,
    lost: BTreeSet<TopicPartition>,
    /// Lost at any time and not reported as assigned since, so that a commit can be refused by its right name.
    ever_lost: BTreeSet<TopicPartition>,
    /// The number of the last assignment.
    assignments: u64,
}

#[derive(Debug)]
struct Owned {
    /// The number of this assignment; one of the same partition before or after it has another.
    assignment: u64,
    /// All zero in the classic protocols, which know topics by name.
    topic_id: Uuid,
    stage: Stage,
    /// The protocol wants it back. Nothing happens to it before a poll announces that.
    unwanted: bool,
    committed: Option<OffsetAndMetadata>,
}

/// The way of a partition through the hands of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its committed offset is not known yet.
    Assigned,
    /// Its committed offset could not be had.
    Unreadable,
    /// Its committed offset is known, no poll has reported it.
    Ready,
    /// A poll has reported it: records are fetched and processed.
    Fetchable,
    /// A poll has announced its revocation, which the next poll completes unless it is held.
    ToRevoke { held: bool, waived: bool },
    /// A poll has completed its revocation; it is given up once its commits are answered, or at once if that is waived.
    Completing { waived: bool },
}

impl Stage {
    /// Whether the caller has been told of the partition, so that records of it may be in processing.
    fn is_reported(self) -> bool {
        matches!(self, Self::Fetchable | Self::ToRevoke { .. } | Self::Completing { .. })
    }
}

/// What a poll changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) assigned: Vec<(TopicPartition, Option<OffsetAndMetadata>)>,
    pub(super) to_be_revoked: Vec<TopicPartition>,
    pub(super) lost: Vec<TopicPartition>,
}

/// Why a partition takes no commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCommit {
    Lost,
    NotOwned,
}

impl Partitions {
    /// The step of a poll: completes what the last one announced, announces what the protocol wants back, reports
    /// what was lost and what is new. In that order a partition changes only once in a poll.
    pub(super) fn poll(&mut self) -> Changes {
        let mut changes = Changes::default();
        self.lost = std::mem::take(&mut self.lost_unreported);
        changes.lost.extend(self.lost.iter().cloned());
        for (partition, owned) in &mut self.owned {
            match owned.stage {
                Stage::ToRevoke { held: false, waived } => owned.stage = Stage::Completing { waived },
                Stage::Fetchable if owned.unwanted => {
                    owned.stage = Stage::ToRevoke { held: false, waived: false };
                    changes.to_be_revoked.push(partition.clone());
                }
                Stage::Ready => {
                    owned.stage = Stage::Fetchable;
                    self.ever_lost.remove(partition);
                    changes.assigned.push((partition.clone(), owned.committed.clone()));
                }
                _ => {}
            }
        }
        changes
    }

    /// Takes the protocol's word on which of the owned partitions the member may keep. Those that no poll has reported
    /// go at once, since there is nothing to drain; `true` if there are any.
    pub(super) fn keep(&mut self, keep: impl Fn(&TopicPartition, Uuid) -> bool) -> bool {
        let before = self.owned.len();
        self.owned.retain(|partition, owned| {
            owned.unwanted = !keep(partition, owned.topic_id);
            !owned.unwanted || owned.stage.is_reported()
        });
        self.owned.len() < before
    }

    /// Takes a partition that the protocol has assigned; nothing if it is owned.
    pub(super) fn adopt(&mut self, partition: TopicPartition, topic_id: Uuid) {
        self.lost.remove(&partition);
        self.owned.entry(partition).or_insert_with(|| {
            self.assignments += 1;
            let assignment = self.assignments;
            Owned { assignment, topic_id, stage: Stage::Assigned, unwanted: false, committed: None }
        });
    }

    /// Completes the revocation of everything, for a member that leaves.
    pub(super) fn complete_all(&mut self) {
        self.owned.retain(|_, owned| owned.stage.is_reported());
        self.owned.values_mut().for_each(|owned| owned.stage = Stage::Completing { waived: false });
    }

    /// What is to be revoked with the next poll, or is being given up, does not wait for its commits.
    pub(super) fn waive(&mut self) {
        for owned in self.owned.values_mut() {
            if let Stage::ToRevoke { held: false, waived } | Stage::Completing { waived } = &mut owned.stage {
                *waived = true;
            }
        }
    }

    /// Gives up the partitions whose revocation a poll has completed, if there are any and none of them `waits` with
    /// good reason.
    pub(super) fn give_up(&mut self, waits: impl Fn(&TopicPartition) -> bool) -> Option<Vec<TopicPartition>> {
        let holds_up = |(partition, owned): (&TopicPartition, &Owned)| {
            owned.stage == Stage::Completing { waived: false } && waits(partition)
        };
        if self.owned.iter().any(holds_up) {
            return None;
        }
        let given_up: Vec<_> = self.completing().cloned().collect();
        given_up.iter().for_each(|partition| drop(self.owned.remove(partition)));
        (!given_up.is_empty()).then_some(given_up)
    }

    /// Everything is lost. Gives the partitions that the caller had been told of.
    pub(super) fn lose_all(&mut self) -> Vec<TopicPartition> {
        let owned = std::mem::take(&mut self.owned);
        let reported = owned.into_iter().filter(|(_, owned)| owned.stage.is_reported());
        let lost: Vec<_> = reported.map(|(partition, _)| partition).collect();
        self.lost_unreported.extend(lost.iter().cloned());
        self.ever_lost.extend(lost.iter().cloned());
        lost
    }

    /// Holds or releases a partition that is to be revoked; `false` if it is not.
    pub(super) fn hold(&mut self, partition: &TopicPartition, hold: bool) -> bool {
        match self.owned.get_mut(partition).map(|owned| &mut owned.stage) {
            Some(Stage::ToRevoke { held, .. }) => {
                *held = hold;
                true
            }
            _ => false,
        }
    }

    /// The committed offset of an assigned partition is known.
    pub(super) fn offset_known(&mut self, partition: &TopicPartition, committed: Option<OffsetAndMetadata>) {
        if let Some(owned) = self.owned.get_mut(partition).filter(|owned| owned.stage == Stage::Assigned) {
            owned.stage = Stage::Ready;
            owned.committed = committed;
        }
    }

    /// The committed offset of an assigned partition cannot be had.
    pub(super) fn offset_unreadable(&mut self, partition: &TopicPartition) {
        if let Some(owned) = self.owned.get_mut(partition).filter(|owned| owned.stage == Stage::Assigned) {
            owned.stage = Stage::Unreadable;
        }
    }

    /// Whether offsets of the partition may be committed: from the poll that reports it to the one that completes its
    /// revocation.
    pub(super) fn may_commit(&self, partition: &TopicPartition) -> Result<(), NoCommit> {
        match self.owned.get(partition).map(|owned| owned.stage) {
            Some(Stage::Fetchable | Stage::ToRevoke { .. }) => Ok(()),
            _ if self.ever_lost.contains(partition) => Err(NoCommit::Lost),
            _ => Err(NoCommit::NotOwned),
        }
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (&TopicPartition, Uuid)> {
        self.owned.iter().map(|(partition, owned)| (partition, owned.topic_id))
    }

    pub(super) fn topic_id(&self, partition: &TopicPartition) -> Option<Uuid> {
        self.owned.get(partition).map(|owned| owned.topic_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owned.is_empty()
    }

    /// Partitions whose committed offset is not known.
    pub(super) fn without_offset(&self) -> impl Iterator<Item = (&TopicPartition, Uuid)> {
        let assigned = self.owned.iter().filter(|(_, owned)| owned.stage == Stage::Assigned);
        assigned.map(|(partition, owned)| (partition, owned.topic_id))
    }

    pub(super) fn fetchable(&self) -> impl Iterator<Item = &TopicPartition> {
        self.in_stage(|stage| stage == Stage::Fetchable)
    }

    pub(super) fn is_fetchable(&self, partition: &TopicPartition) -> bool {
        self.assignment(partition).is_some()
    }

    /// The number of the assignment of a fetchable partition.
    pub(super) fn assignment(&self, partition: &TopicPartition) -> Option<u64> {
        let owned = self.owned.get(partition).filter(|owned| owned.stage == Stage::Fetchable)?;
        Some(owned.assignment)
    }

    /// The fetchable partitions, each with the number of its assignment and the offset committed before it.
    pub(super) fn assignments(&self) -> impl Iterator<Item = (&TopicPartition, u64, Option<i64>)> {
        let fetchable = self.owned.iter().filter(|(_, owned)| owned.stage == Stage::Fetchable);
        fetchable.map(|(partition, owned)| {
            (partition, owned.assignment, owned.committed.as_ref().map(|committed| committed.offset))
        })
    }

    pub(super) fn to_be_revoked(&self) -> impl Iterator<Item = &TopicPartition> {
        self.in_stage(|stage| matches!(stage, Stage::ToRevoke { .. }))
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &TopicPartition> {
        self.in_stage(|stage| matches!(stage, Stage::ToRevoke { held: true, .. }))
    }

    pub(super) fn completing(&self) -> impl Iterator<Item = &TopicPartition> {
        self.in_stage(|stage| matches!(stage, Stage::Completing { .. }))
    }

    fn in_stage(&self, is: impl Fn(Stage) -> bool) -> impl Iterator<Item = &TopicPartition> {
        self.owned.iter().filter(move |(_, owned)| is(owned.stage)).map(|(partition, _)| partition)
    }

    /// What the last poll reported as lost and is not assigned again.
    pub(super) fn lost(&self) -> impl Iterator<Item = &TopicPartition> {
        self.lost.iter()
    }

    /// Whether a poll has yet to report a loss.
    pub(super) fn has_unreported_loss(&self) -> bool {
        !self.lost_unreported.is_empty()
    }

    /// Whether a revocation is wanted, announced or not given up yet.
    pub(super) fn is_revoking(&self) -> bool {
        let revoking = |owned: &Owned| {
            owned.unwanted || matches!(owned.stage, Stage::ToRevoke { .. } | Stage::Completing { .. })
        };
        self.owned.values().any(revoking)
    }
}
