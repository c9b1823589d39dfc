use std::ops::{RangeInclusive, RangeTo};
use std::time::Duration;

use super::runs::Runs;

/// The state of a record in flight, with the numbers of `DeliveryState` in the messages of persisted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum DeliveryState {
    /// 0: may be acquired.
    Available = 0,
    /// 1: locked by a member. Never persisted.
    Acquired = 1,
    /// 2: accepted.
    Acknowledged = 2,
    /// 4: rejected, a gap, or delivered too often. (3 is a step of brokers with a dead-letter queue.)
    Archived = 4,
}

impl DeliveryState {
    /// Whether the record is done with.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// The state of a record, or of several that share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// When the lock runs out, if acquired.
    pub(super) deadline: Duration,
    /// Who has acquired it, if acquired.
    pub(super) member: u32,
    pub(super) delivery_count: i16,
    pub(super) state: DeliveryState,
}

impl Record {
    /// A record that has not been delivered yet.
    pub(super) const fn undelivered() -> Self {
        Self { deadline: Duration::ZERO, member: 0, delivery_count: 0, state: DeliveryState::Available }
    }

    pub(super) const fn is_available(&self) -> bool {
        matches!(self.state, DeliveryState::Available)
    }

    pub(super) const fn is_acquired(&self) -> bool {
        matches!(self.state, DeliveryState::Acquired)
    }

    pub(super) fn acquire(&mut self, member: u32, deadline: Duration) {
        let delivery_count = self.delivery_count.saturating_add(1);
        *self = Self { deadline, member, delivery_count, state: DeliveryState::Acquired };
    }

    /// Makes it available again, unless this was the last delivery.
    pub(super) fn release(&mut self, delivery_count_limit: i16) {
        let used_up = self.delivery_count >= delivery_count_limit;
        self.state = if used_up { DeliveryState::Archived } else { DeliveryState::Available };
    }

    /// Whether two records differ in nothing that can be seen.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        self.state == other.state
            && self.delivery_count == other.delivery_count
            && (!self.is_acquired() || self.member == other.member)
    }
}

/// Records that were acquired together.
#[derive(Clone, Debug)]
pub(super) struct InFlightBatch {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) records: Records,
}

#[derive(Clone, Debug)]
pub(super) enum Records {
    /// All have one state and one lock.
    Whole(Record),
    /// They have states of their own.
    Each(Runs),
}

impl InFlightBatch {
    pub(super) const fn whole(first: i64, last: i64, record: Record) -> Self {
        Self { first, last, records: Records::Whole(record) }
    }

    /// How many offsets there are.
    pub(super) const fn len(&self) -> usize {
        records(self.first, self.last)
    }

    /// Gives the records states of their own.
    pub(super) fn each(&mut self) -> &mut Runs {
        if let Records::Whole(record) = self.records {
            self.records = Records::Each(Runs::new(self.first, self.last, record));
        }
        match &mut self.records {
            Records::Each(runs) => runs,
            Records::Whole(_) => unreachable!("they have been given"),
        }
    }

    /// Neither acquired nor in any other state: offsets of which only is known that others behind them are in flight.
    pub(super) const fn is_undelivered(&self) -> bool {
        matches!(
            self.records,
            Records::Whole(Record { delivery_count: 0, state: DeliveryState::Available, .. })
        )
    }

    /// The first offset, from one on, whose state is as wanted.
    fn find(&self, from: i64, wanted: impl Fn(&Record) -> bool) -> Option<i64> {
        let from = from.max(self.first);
        match &self.records {
            Records::Whole(record) => (from <= self.last && wanted(record)).then_some(from),
            Records::Each(runs) => {
                runs.within(from, self.last).find(|(_, _, record)| wanted(record)).map(|(first, ..)| first)
            }
        }
    }

    pub(super) fn first_available(&self, from: i64) -> Option<i64> {
        self.find(from, Record::is_available)
    }

    /// The first offset that is neither acknowledged nor archived.
    pub(super) fn first_open(&self, from: i64) -> Option<i64> {
        self.find(from, |record| !record.state.is_done())
    }

    /// The first offset in a range whose lock runs out at a deadline.
    pub(super) fn first_locked(&self, offsets: RangeInclusive<i64>, deadline: Duration) -> Option<i64> {
        self.find(*offsets.start(), |record| record.is_acquired() && record.deadline == deadline)
            .filter(|offset| offsets.contains(offset))
    }

    /// How many records are acquired.
    pub(super) fn acquired(&self) -> usize {
        match &self.records {
            Records::Whole(record) if record.is_acquired() => self.len(),
            Records::Whole(_) => 0,
            Records::Each(runs) => {
                let acquired = runs.within(self.first, self.last).filter(|(.., record)| record.is_acquired());
                acquired.map(|(first, last, _)| records(first, last)).sum()
            }
        }
    }

    /// Releases acquired records in a range; of records with one state, all that are in the batch. Gives how many, and
    /// the first offset that is available now.
    pub(super) fn release(
        &mut self,
        offsets: RangeInclusive<i64>,
        delivery_count_limit: i16,
        which: impl Fn(&Record) -> bool,
    ) -> (usize, Option<i64>) {
        let (first, len) = (self.first, self.len());
        match &mut self.records {
            Records::Whole(record) if record.is_acquired() && which(record) => {
                record.release(delivery_count_limit);
                (len, record.is_available().then_some(first))
            }
            Records::Whole(_) => (0, None),
            Records::Each(runs) => {
                let (mut count, mut first_available) = (0, None);
                runs.change(*offsets.start(), *offsets.end(), |first, last, record| {
                    if record.is_acquired() && which(record) {
                        record.release(delivery_count_limit);
                        count += records(first, last);
                        if record.is_available() && first_available.is_none() {
                            first_available = Some(first);
                        }
                    }
                });
                (count, first_available)
            }
        }
    }

    /// Archives what is available below an offset, and with `acquired` also what is acquired; gives how many of the
    /// latter.
    pub(super) fn archive(&mut self, below: RangeTo<i64>, acquired: bool) -> usize {
        let mut locked = 0;
        self.each().change(i64::MIN, below.end - 1, |first, last, record| {
            if acquired && record.is_acquired() {
                locked += records(first, last);
                record.state = DeliveryState::Archived;
            } else if record.is_available() {
                record.state = DeliveryState::Archived;
            }
        });
        locked
    }

    /// Ranges of records that look alike.
    pub(super) fn runs(&self) -> impl Iterator<Item = (i64, i64, &Record)> {
        let (whole, each) = match &self.records {
            Records::Whole(record) => (Some((self.first, self.last, record)), None),
            Records::Each(runs) => (None, Some(runs.alike())),
        };
        whole.into_iter().chain(each.into_iter().flatten())
    }
}

/// How many records there are from one offset to another, inclusive.
pub(super) const fn records(first: i64, last: i64) -> usize {
    (last - first + 1) as usize
}
