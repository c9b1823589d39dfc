//! A program that consumes: the loop of KIP-983, with records that take time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kafka_protocol::rebalance::{
    CommitId, CommitResult, ConsumerRecords, Fetch, Member, NotCommittable, RecordBuffer, TopicPartition,
};

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
    buffer: RecordBuffer<i64>,
    partitions: BTreeMap<TopicPartition, Partition>,
    /// Fetches under way: when the answer comes, and the number of the assignment that it is for.
    fetches: Vec<(Duration, u64, Fetch)>,
    assignments: u64,
    pub(super) processed: Vec<(TopicPartition, i64)>,
    /// Partitions that have been lost.
    pub(super) lost: BTreeSet<TopicPartition>,
    /// Partitions of which a commit was refused.
    pub(super) refused: Vec<TopicPartition>,
    /// Partitions of which it was told that a commit failed.
    pub(super) uncommitted: BTreeSet<TopicPartition>,
    /// How many answers to fetches came when the partition was not fetchable any more.
    pub(super) too_late: usize,
    /// How many came when it had been assigned again.
    pub(super) outlived: usize,
}

struct Partition {
    assignment: u64,
    /// Offset behind the last record that a poll gave.
    position: i64,
    processing: VecDeque<i64>,
    /// What may be committed, and what has been queued.
    processed: Option<i64>,
    queued: Option<i64>,
}

impl App {
    pub(super) fn poll(
        &mut self,
        member: &mut Member,
        chance: &mut Chance,
        now: Duration,
    ) -> ConsumerRecords<i64> {
        let max = usize::try_from(chance.below(20)).expect("few");
        let polled = member.poll_records(&mut self.buffer, max, now);
        for partition in &polled.changes.lost {
            self.partitions.remove(partition);
            self.lost.insert(partition.clone());
        }
        for assigned in &polled.changes.assigned {
            self.assignments += 1;
            let position = assigned.committed.as_ref().map_or(0, |committed| committed.offset);
            if assigned.committed.is_none() {
                assert!(self.buffer.seek(&assigned.partition, 0));
            }
            let (assignment, processing) = (self.assignments, VecDeque::new());
            let partition = Partition { assignment, position, processing, processed: None, queued: None };
            self.lost.remove(&assigned.partition);
            self.partitions.insert(assigned.partition.clone(), partition);
        }
        for (partition, records) in &polled.records {
            if let Some(of) = self.partitions.get_mut(partition) {
                of.processing.extend(records);
                of.position = records[records.len() - 1] + 1;
            }
        }
        polled
    }

    pub(super) fn given_up(&mut self, partitions: &[TopicPartition]) {
        partitions.iter().for_each(|partition| drop(self.partitions.remove(partition)));
    }

    /// Asks the leader of a partition for records, perhaps not for the first time. Some leaders are slow.
    pub(super) fn fetch(&mut self, member: &Member, chance: &mut Chance, now: Duration) {
        let fetches = self.buffer.fetches(member);
        if !fetches.is_empty() {
            let fetch = chance.pick(&fetches).clone();
            let slowest = if chance.once_in(8) { 3000 } else { 50 };
            let at = now + chance.millis(0, slowest);
            self.fetches.push((at, self.partitions[&fetch.partition].assignment, fetch));
        }
    }

    /// Takes the answers of leaders.
    pub(super) fn fetched(&mut self, member: &Member, chance: &mut Chance, now: Duration) {
        for (_, assignment, fetch) in self.fetches.extract_if(.., |(at, ..)| *at <= now) {
            let to = (fetch.offset + i64::try_from(chance.below(9)).expect("few")).min(LOG_END);
            self.buffer.fetched(&fetch, fetch.offset..to, to);
            if !member.is_fetchable(&fetch.partition) {
                self.too_late += 1;
            } else if self.partitions[&fetch.partition].assignment != assignment {
                self.outlived += 1;
            }
        }
    }

    /// Goes back to where the program is: what has been fetched beyond that is fetched again.
    pub(super) fn seek(&mut self, chance: &mut Chance) {
        let partitions: Vec<_> = self.partitions.iter().collect();
        if !partitions.is_empty() {
            let (partition, of) = chance.pick(&partitions);
            self.buffer.seek(partition, of.position);
        }
    }

    /// Some records are done.
    pub(super) fn process(&mut self, chance: &mut Chance) {
        for (partition, of) in &mut self.partitions {
            for _ in 0..chance.below(2) {
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

    /// What could not be committed is committed again.
    pub(super) fn committed(&mut self, result: &CommitResult) {
        for (partition, _) in result.partitions.iter().filter(|(_, done)| done.is_err()) {
            self.uncommitted.insert(partition.clone());
            if let Some(of) = self.partitions.get_mut(partition) {
                of.queued = None;
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
