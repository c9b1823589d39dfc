//! A program that consumes: the loop of KIP-983, with records that take time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kafka_protocol::rebalance::{CommitId, Member, NotCommittable, Poll, TopicPartition};

use super::chance::Chance;

/// What a program does with partitions that are to be revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Holds them until their records are processed and committed, and goes on with the others.
    Drain,
    /// Commits what it has, and polls.
    NextPoll,
    /// Polls, and does not even wait for commits.
    Waive,
}

/// Records of each partition.
pub(super) const LOG_END: i64 = 40;

#[derive(Default)]
pub(super) struct App {
    partitions: BTreeMap<TopicPartition, Partition>,
    /// Fetches under way: the partition, which of its assignments it is for, and from where.
    fetches: VecDeque<(TopicPartition, u64, i64)>,
    grants: u64,
    pub(super) processed: Vec<(TopicPartition, i64)>,
    /// Partitions that have been lost.
    pub(super) lost: BTreeSet<TopicPartition>,
    /// Partitions of which a commit was refused.
    pub(super) refused: Vec<TopicPartition>,
    /// Fetched records that came too late.
    pub(super) dropped: usize,
}

struct Partition {
    grant: u64,
    position: i64,
    processing: VecDeque<i64>,
    /// What may be committed, and what has been queued.
    processed: Option<i64>,
    queued: Option<i64>,
}

impl App {
    pub(super) fn polled(&mut self, poll: &Poll) {
        for partition in &poll.lost {
            self.partitions.remove(partition);
            self.lost.insert(partition.clone());
        }
        for assigned in &poll.assigned {
            self.grants += 1;
            let position = assigned.committed.as_ref().map_or(0, |committed| committed.offset);
            let (grant, processing) = (self.grants, VecDeque::new());
            let partition = Partition { grant, position, processing, processed: None, queued: None };
            self.lost.remove(&assigned.partition);
            self.partitions.insert(assigned.partition.clone(), partition);
        }
    }

    pub(super) fn given_up(&mut self, partitions: &[TopicPartition]) {
        partitions.iter().for_each(|partition| drop(self.partitions.remove(partition)));
    }

    /// Asks the leader of a partition for records.
    pub(super) fn fetch(&mut self, member: &Member, chance: &mut Chance) {
        let fetchable: Vec<_> = member.fetchable().cloned().collect();
        if !fetchable.is_empty() {
            let partition = chance.pick(&fetchable).clone();
            let of = &self.partitions[&partition];
            self.fetches.push_back((partition, of.grant, of.position));
        }
    }

    /// The leader answers.
    pub(super) fn fetched(&mut self, member: &Member, chance: &mut Chance) {
        let Some((partition, grant, from)) = self.fetches.pop_front() else { return };
        let of = self.partitions.get_mut(&partition).filter(|of| of.grant == grant && of.position == from);
        let Some(of) = of else { return };
        if !member.is_fetchable(&partition) {
            self.dropped += 1;
            return;
        }
        let to = (from + i64::try_from(chance.below(5)).expect("few")).min(LOG_END);
        of.processing.extend(from..to);
        of.position = to;
    }

    /// Some records are done.
    pub(super) fn process(&mut self, chance: &mut Chance) {
        for (partition, of) in &mut self.partitions {
            for _ in 0..chance.below(4) {
                if let Some(offset) = of.processing.pop_front() {
                    self.processed.push((partition.clone(), offset));
                    of.processed = Some(offset + 1);
                }
            }
        }
    }

    /// Commits what is processed and was not committed before.
    pub(super) fn commit(
        &mut self,
        member: &mut Member,
        now: Duration,
    ) -> Option<(CommitId, BTreeSet<TopicPartition>)> {
        let mut offsets = BTreeMap::new();
        for (partition, of) in &mut self.partitions {
            if let Some(processed) = of.processed.filter(|_| of.processed > of.queued) {
                offsets.insert(partition.clone(), processed);
            }
        }
        loop {
            if offsets.is_empty() {
                return None;
            }
            match member.commit(offsets.clone(), now) {
                Ok(id) => {
                    for (partition, &offset) in &offsets {
                        self.partitions.get_mut(partition).expect("its own").queued = Some(offset);
                    }
                    return Some((id, offsets.into_keys().collect()));
                }
                // Lost, and the poll that says so is yet to come; or being given up.
                Err(NotCommittable::Lost(partition) | NotCommittable::NotOwned(partition)) => {
                    offsets.remove(&partition);
                    self.refused.push(partition);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn is_drained(&self, partition: &TopicPartition) -> bool {
        self.partitions.get(partition).is_none_or(|of| of.processing.is_empty() && of.processed == of.queued)
    }

    pub(super) fn is_all_drained(&self) -> bool {
        self.partitions.keys().all(|partition| self.is_drained(partition))
    }
}
