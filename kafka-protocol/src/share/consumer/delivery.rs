//! Records that were acquired, from the fetch that brought them to their last acknowledgement.

use std::time::Duration;

use super::decode::decode;
use super::{AcquiredRecord, PartitionRecords};
use crate::messages::share_fetch_response::AcquiredRecords;
use crate::protocol::AcknowledgeType;
use crate::records::ReadOptions;
use crate::share::{PartitionAcknowledgements, TopicIdPartition};
use crate::wire::{Bytes, Str};

/// What a fetch acquired in a partition.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) topic: Str,
    pub(super) partition: TopicIdPartition,
    pub(super) node: i32,
    /// The connection, without which the locks are gone.
    pub(super) link: u64,
    pub(super) lock_timeout: Option<Duration>,
    /// Acknowledged with the first acknowledgements of the application.
    automatic: PartitionAcknowledgements,
    /// The records as they came, from which renewed ones are read again.
    field: Bytes,
    /// Not handed out yet.
    ready: Vec<AcquiredRecord>,
    /// Handed out, by ascending offset.
    held: Vec<Held>,
}

/// A record in the hands of the application.
#[derive(Clone, Copy, Debug)]
struct Held {
    offset: i64,
    delivery_count: i16,
    state: State,
    lock_deadline: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Handed out.
    InFlight,
    /// The application has said what became of it, which has not been sent.
    Acknowledged(AcknowledgeType),
    /// Its renewal is on its way.
    Renewing,
    /// Its renewal has succeeded; the next poll hands it out again.
    Renewed,
    /// Nothing more can be said of it.
    Done,
}

/// What came of a fetch, before it is read.
pub(super) struct Fetched<'a> {
    pub(super) topic: Str,
    pub(super) partition: TopicIdPartition,
    pub(super) node: i32,
    pub(super) link: u64,
    pub(super) sent_at: Duration,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) field: &'a Bytes,
    pub(super) acquired: &'a [AcquiredRecords],
}

impl Delivery {
    /// Reads the records. The lock is counted from the time when the fetch was sent, which is before it began.
    pub(super) fn new(
        fetched: Fetched<'_>,
        options: &ReadOptions,
    ) -> (Self, Option<crate::records::RecordsError>) {
        let Fetched { topic, partition, node, link, sent_at, lock_timeout, field, acquired } = fetched;
        let lock_deadline = lock_timeout.map(|timeout| sent_at.saturating_add(timeout));
        let decoded = decode(field, acquired, lock_deadline, options);
        let delivery = Self {
            topic,
            partition,
            node,
            link,
            lock_timeout,
            automatic: decoded.automatic,
            field: field.clone(),
            ready: decoded.records,
            held: Vec::new(),
        };
        (delivery, decoded.error)
    }

    pub(super) fn automatic(&self) -> &PartitionAcknowledgements {
        &self.automatic
    }

    pub(super) fn take_automatic(&mut self) -> PartitionAcknowledgements {
        std::mem::take(&mut self.automatic)
    }

    /// How many records wait to be handed out.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes out what waits to be handed out, for the first time or again after a renewal, and whose lock may have run
    /// out. Tells how many records.
    pub(super) fn drop_expired(&mut self, now: Duration) -> usize {
        self.drop_waiting(|deadline| deadline.is_some_and(|deadline| deadline <= now))
    }

    /// Takes out everything that waits to be handed out, for the first time or again. Tells how many records.
    pub(super) fn drop_all(&mut self) -> usize {
        self.drop_waiting(|_| true)
    }

    fn drop_waiting(&mut self, is_lost: impl Fn(Option<Duration>) -> bool) -> usize {
        let before = self.ready.len();
        self.ready.retain(|acquired| !is_lost(acquired.lock_deadline));
        let mut lost = before - self.ready.len();
        let renewed = self.held.iter_mut().filter(|held| held.state == State::Renewed);
        for held in renewed.filter(|held| is_lost(held.lock_deadline)) {
            held.state = State::Done;
            lost += 1;
        }
        lost
    }

    /// Hands the records out.
    pub(super) fn hand_out(&mut self) -> PartitionRecords {
        let records = std::mem::take(&mut self.ready);
        self.held = records
            .iter()
            .map(|acquired| Held {
                offset: acquired.record.offset(),
                delivery_count: acquired.delivery_count,
                state: State::InFlight,
                lock_deadline: acquired.lock_deadline,
            })
            .collect();
        self.records(records)
    }

    /// How many records have no acknowledgement.
    pub(super) fn unacknowledged(&self) -> usize {
        self.count(|state| state == State::InFlight)
    }

    /// Whether any record is being renewed, or is renewed and not handed out again.
    pub(super) fn has_renewals(&self) -> bool {
        self.held.iter().any(|held| matches!(held.state, State::Renewing | State::Renewed))
    }

    /// Whether anything may still be said of a record.
    pub(super) fn is_open(&self) -> bool {
        self.held.iter().any(|held| held.state != State::Done)
    }

    /// Whether anything can be said of a record.
    pub(super) fn holds(&self, offset: i64) -> bool {
        let at = self.held.binary_search_by_key(&offset, |held| held.offset);
        at.is_ok_and(|at| self.held[at].state != State::Done)
    }

    /// Acknowledges a record; `false` if it is not there, or nothing more can be said of it.
    pub(super) fn acknowledge(&mut self, offset: i64, ty: AcknowledgeType) -> bool {
        match self.held.binary_search_by_key(&offset, |held| held.offset) {
            Ok(at) if self.held[at].state != State::Done => {
                self.held[at].state = State::Acknowledged(ty);
                true
            }
            _ => false,
        }
    }

    /// Takes what is to be sent; `of_rest` says what becomes of records without acknowledgement.
    pub(super) fn take(&mut self, of_rest: Option<AcknowledgeType>) -> PartitionAcknowledgements {
        let mut taken = PartitionAcknowledgements::default();
        for held in &mut self.held {
            let ty = match held.state {
                State::Acknowledged(ty) => ty,
                State::InFlight => match of_rest {
                    Some(ty) => ty,
                    None => continue,
                },
                State::Renewing | State::Renewed | State::Done => continue,
            };
            taken.set(held.offset, ty);
            held.state = if ty == AcknowledgeType::RENEW { State::Renewing } else { State::Done };
        }
        if !taken.is_empty() && !self.automatic.is_empty() {
            taken.merge(self.take_automatic());
        }
        taken
    }

    /// The renewals among these acknowledgements have succeeded.
    pub(super) fn renewed(
        &mut self,
        acknowledged: &PartitionAcknowledgements,
        lock_deadline: Option<Duration>,
    ) {
        for held in self.renewing(acknowledged) {
            held.state = State::Renewed;
            held.lock_deadline = lock_deadline;
        }
    }

    /// The renewals among these acknowledgements have failed: they are given up.
    pub(super) fn not_renewed(&mut self, acknowledged: &PartitionAcknowledgements) {
        for held in self.renewing(acknowledged) {
            held.state = State::Done;
        }
    }

    fn renewing<'a>(
        &'a mut self,
        acknowledged: &'a PartitionAcknowledgements,
    ) -> impl Iterator<Item = &'a mut Held> {
        let held = self.held.iter_mut().filter(|held| held.state == State::Renewing);
        held.filter(|held| acknowledged.get(held.offset) == Some(AcknowledgeType::RENEW))
    }

    /// Hands renewed records out again.
    pub(super) fn hand_out_renewed(&mut self, options: &ReadOptions) -> Option<PartitionRecords> {
        let mut renewed = Vec::new();
        for held in self.held.iter_mut().filter(|held| held.state == State::Renewed) {
            held.state = State::InFlight;
            renewed.push(AcquiredRecords {
                first_offset: held.offset,
                last_offset: held.offset,
                delivery_count: held.delivery_count,
                ..Default::default()
            });
        }
        if renewed.is_empty() {
            return None;
        }
        // What could be read once can be read again.
        let mut records = decode(&self.field, &renewed, None, options).records;
        for acquired in &mut records {
            let at = self.held.binary_search_by_key(&acquired.record.offset(), |held| held.offset);
            acquired.lock_deadline = at.ok().and_then(|at| self.held[at].lock_deadline);
        }
        Some(self.records(records))
    }

    fn records(&self, records: Vec<AcquiredRecord>) -> PartitionRecords {
        PartitionRecords { topic: self.topic.clone(), partition: self.partition, node: self.node, records }
    }

    fn count(&self, of: impl Fn(State) -> bool) -> usize {
        self.held.iter().filter(|held| of(held.state)).count()
    }
}
