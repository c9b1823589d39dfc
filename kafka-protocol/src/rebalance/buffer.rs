//! Records on their way from a fetcher to the polls that hand them out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::partitions::Partitions;
use super::{Member, Poll, TopicPartition};

/// Fetched records that no poll has handed out yet, and where each partition is to be fetched next.
///
/// It belongs to one [`Member`] and follows its assignments: fetching begins at the committed offset, and what is announced,
/// lost or otherwise not [fetchable](Member::fetchable) any more is dropped, records and all. `R` is whatever the fetcher
/// makes of a record.
///
/// A fetcher asks [what to fetch](Self::fetches), and hands in [what has come](Self::fetched);
/// [`Member::poll_records`] takes it out.
#[derive(Clone, Debug)]
pub struct RecordBuffer<R> {
    partitions: BTreeMap<TopicPartition, Buffered<R>>,
    /// Whose turn it is to give a record; `None` if nobody has waited longer than others.
    next: Option<TopicPartition>,
    /// The number of the last ticket.
    tickets: u64,
}

/// A partition to fetch. Keep it with the request, for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The partition.
    pub partition: TopicPartition,
    /// Offset of the first record to fetch.
    pub offset: i64,
    ticket: u64,
}

/// What [`Member::poll_records`] gives: the variant 1 of KIP-983.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecords<R> {
    /// Records of fetchable partitions, each partition's in the order in which they were fetched. None of them is empty.
    pub records: BTreeMap<TopicPartition, Vec<R>>,
    /// What has become of partitions.
    pub changes: Poll,
}

#[derive(Clone, Debug)]
struct Buffered<R> {
    /// The member's number of the assignment.
    assignment: u64,
    /// Offset of the next record to fetch; `None` until there is one to begin at.
    position: Option<i64>,
    /// Only the answer to a fetch with this ticket is taken. Another assignment or position needs another ticket.
    ticket: u64,
    records: VecDeque<R>,
}

impl Member {
    /// A [`poll`](Self::poll) that also takes records out of a buffer: at most `max` (`max.poll.records`), from all
    /// partitions in turn, so that none has to wait for another one to be empty.
    ///
    /// None of them is of a partition whose revocation this poll announces, or one before has announced, held or not: what
    /// the buffer had of it is dropped. The same goes for lost partitions, and for all after [`close`](Self::close) or
    /// [`unsubscribe`](Self::unsubscribe). Partitions that stay give records while others are on their way out.
    pub fn poll_records<R>(
        &mut self,
        buffer: &mut RecordBuffer<R>,
        max: usize,
        now: Duration,
    ) -> ConsumerRecords<R> {
        let changes = self.poll(now);
        buffer.follow(&self.core.partitions);
        ConsumerRecords { records: buffer.take(max), changes }
    }
}

/// An empty buffer.
impl<R> Default for RecordBuffer<R> {
    fn default() -> Self {
        Self { partitions: BTreeMap::new(), next: None, tickets: 0 }
    }
}

impl<R> RecordBuffer<R> {
    /// What to fetch now: the partitions that have a position and no records waiting. None is fetched that the member would
    /// not hand out.
    ///
    /// A partition is named until an answer is taken, whether a fetch of it is under way or not. If there are two, only the
    /// first answer counts. So nothing has to be told of a fetch that fails.
    pub fn fetches(&self, member: &Member) -> Vec<Fetch> {
        let fetch = |(partition, of): (&TopicPartition, &Buffered<R>)| {
            let is_current = member.core.partitions.assignment(partition) == Some(of.assignment);
            let offset = of.position.filter(|_| is_current && of.records.is_empty())?;
            Some(Fetch { partition: partition.clone(), offset, ticket: of.ticket })
        };
        self.partitions.iter().filter_map(fetch).collect()
    }

    /// Whether the answer to a fetch would be taken. If not, its records need not be decoded.
    pub fn is_waiting_for(&self, fetch: &Fetch) -> bool {
        self.partitions.get(&fetch.partition).is_some_and(|of| of.ticket == fetch.ticket)
    }

    /// Takes the answer to a fetch: records from its offset on, in order, and the offset at which the next fetch begins. That
    /// is the one behind the last batch, even if no record of it counts; without records, the same again or, after
    /// `OFFSET_OUT_OF_RANGE`, where to begin instead.
    ///
    /// `false`, and all is dropped, if the answer comes too late: a poll has taken the partition away, even if it has been
    /// assigned again since, there was a [`seek`](Self::seek), or another answer was quicker; or if `next_offset` is
    /// negative.
    pub fn fetched(&mut self, fetch: &Fetch, records: impl IntoIterator<Item = R>, next_offset: i64) -> bool {
        self.is_waiting_for(fetch) && self.go_on(&fetch.partition, next_offset, records)
    }

    /// Fetches a partition from this offset on, such as one [assigned](super::Assigned) without a committed offset. Its
    /// records that wait are dropped, and so are the answers to fetches from before.
    ///
    /// `false`, and nothing happens, if the partition is not one that the last [`Member::poll_records`] called fetchable, or
    /// the offset is negative.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> bool {
        self.go_on(partition, offset, [])
    }

    /// Whether no records wait for a poll.
    pub fn is_empty(&self) -> bool {
        self.partitions.values().all(|of| of.records.is_empty())
    }

    /// Has these records to hand out, and fetches what is behind them.
    fn go_on(
        &mut self,
        partition: &TopicPartition,
        position: i64,
        records: impl IntoIterator<Item = R>,
    ) -> bool {
        let Some(of) = self.partitions.get_mut(partition).filter(|_| position >= 0) else { return false };
        self.tickets += 1;
        of.ticket = self.tickets;
        of.position = Some(position);
        of.records = records.into_iter().collect();
        true
    }

    /// Drops what the member does not let pass any more, and begins with what is new.
    fn follow(&mut self, partitions: &Partitions) {
        self.partitions.retain(|partition, of| partitions.assignment(partition) == Some(of.assignment));
        for (partition, assignment, position) in partitions.assignments() {
            if !self.partitions.contains_key(partition) {
                self.tickets += 1;
                let of = Buffered { assignment, position, ticket: self.tickets, records: VecDeque::new() };
                self.partitions.insert(partition.clone(), of);
            }
        }
    }

    /// Takes at most so many records, one of each partition in turn.
    fn take(&mut self, max: usize) -> BTreeMap<TopicPartition, Vec<R>> {
        let waiting = self.partitions.iter_mut().filter(|(_, of)| !of.records.is_empty());
        let mut turns: VecDeque<_> =
            waiting.map(|(partition, of)| (partition, &mut of.records, Vec::new())).collect();
        let passed = turns.partition_point(|(partition, ..)| Some(*partition) < self.next.as_ref());
        turns.rotate_left(passed);
        let mut ended = Vec::new();
        for _ in 0..max {
            let Some((partition, waiting, mut taken)) = turns.pop_front() else { break };
            taken.extend(waiting.pop_front());
            if waiting.is_empty() {
                ended.push((partition, waiting, taken));
            } else {
                turns.push_back((partition, waiting, taken));
            }
        }
        self.next = turns.front().map(|(partition, ..)| (*partition).clone());
        let taken = ended.into_iter().chain(turns).filter(|(.., taken)| !taken.is_empty());
        taken.map(|(partition, _, taken)| (partition.clone(), taken)).collect()
    }
}
