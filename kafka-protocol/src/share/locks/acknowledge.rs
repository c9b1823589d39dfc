use std::time::Duration;

use crate::protocol::AcknowledgeType;
use crate::share::validate::AcknowledgementBatch;

use super::batch::records;
use super::timers::Lock;
use super::{AcknowledgeError, AcknowledgeReason, DeliveryState, Record, Records, SharePartition};

/// A state that acknowledgements have replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The index of the batch.
    batch: usize,
    /// The offsets of the records.
    first: i64,
    last: i64,
    before: Record,
}

/// Who acknowledges, and until when its locks are renewed.
#[derive(Clone, Copy)]
struct Sender {
    /// `None` for one that never acquired anything.
    member: Option<u32>,
    deadline: Duration,
    delivery_count_limit: i16,
}

impl SharePartition {
    /// Applies what a member acknowledges of the partition in one request; the batches must be in
    /// [form](crate::share::validate::batches).
    ///
    /// Offsets below the start offset are passed over, and count as success.
    ///
    /// # Errors
    ///
    /// A record is not the member's, or not acquired. Nothing has changed then but locks that batches in front of the
    /// failing one renewed, or offsets of it in front of the failing one (measured).
    pub fn acknowledge<'a>(
        &mut self,
        now: Duration,
        member_id: &str,
        batches: impl IntoIterator<Item = AcknowledgementBatch<'a>, IntoIter: Clone>,
    ) -> Result<(), AcknowledgeError> {
        let batches = batches.into_iter();
        self.check_renewals(batches.clone())?;
        let sender = Sender {
            member: self.members.get(member_id),
            deadline: now.saturating_add(self.config.lock_duration),
            delivery_count_limit: self.config.delivery_count_limit,
        };
        let mut hint = 0;
        let mut done = Ok(());
        for (index, batch) in batches.enumerate() {
            if let Err(reason) = self.acknowledge_batch(&sender, &batch, &mut hint) {
                self.roll_back();
                done = Err(AcknowledgeError { batch: index, reason });
                break;
            }
        }
        self.undo.clear();
        self.settle();
        done
    }

    fn check_renewals<'a>(
        &self,
        batches: impl Iterator<Item = AcknowledgementBatch<'a>>,
    ) -> Result<(), AcknowledgeError> {
        if self.config.renew_acknowledge_enable {
            return Ok(());
        }
        let renews = batches.enumerate().find(|(_, batch)| batch.has_renew());
        renews.map_or(Ok(()), |(batch, _)| {
            Err(AcknowledgeError { batch, reason: AcknowledgeReason::RenewNotEnabled })
        })
    }

    /// Applies a batch. `hint` is where it is looked for first, and then where the next one probably is.
    fn acknowledge_batch(
        &mut self,
        sender: &Sender,
        batch: &AcknowledgementBatch<'_>,
        hint: &mut usize,
    ) -> Result<(), AcknowledgeReason> {
        if !is_well_formed(batch) {
            return Err(AcknowledgeReason::Malformed);
        }
        if batch.last_offset < self.start_offset {
            return Ok(());
        }
        let from = batch.first_offset.max(self.start_offset);
        let Some(mut index) = self.floor_near(from, *hint) else {
            let straddles = batch.first_offset < self.start_offset;
            let defect = straddles && self.config.imitate_defects;
            return Err(if defect { AcknowledgeReason::Defect } else { AcknowledgeReason::NothingInFlight });
        };
        let end = self.floor_near(batch.last_offset, index).unwrap_or(index);
        let last = self.batches[end].last;
        if last < from {
            return Err(AcknowledgeReason::FirstOffsetPastAcquired);
        }
        if last < batch.last_offset {
            return Err(AcknowledgeReason::LastOffsetPastAcquired);
        }
        // The batch may start in a hole behind the one that was found.
        index += usize::from(self.batches[index].last < from);
        for index in index..=end {
            self.acknowledge_in(index, sender, batch)?;
        }
        *hint = end;
        Ok(())
    }

    /// What [`floor`](Self::floor) finds, faster if it is at `near` or right behind.
    fn floor_near(&self, offset: i64, near: usize) -> Option<usize> {
        let starts_above = |index: usize| self.batches.get(index).is_none_or(|batch| batch.first > offset);
        let found = (near..near + 2).find(|&index| starts_above(index + 1));
        match found.filter(|&index| !starts_above(index)) {
            None => self.floor(offset),
            found => found,
        }
    }

    /// Applies a batch to what was acquired together.
    fn acknowledge_in(
        &mut self,
        index: usize,
        sender: &Sender,
        batch: &AcknowledgementBatch<'_>,
    ) -> Result<(), AcknowledgeReason> {
        let held = &mut self.batches[index];
        let (first, last, len) = (held.first, held.last, held.len());
        if let Records::Whole(record) = &mut held.records {
            if !record.is_acquired() {
                return Err(AcknowledgeReason::BatchNotAcquired { first_offset: first });
            }
            if sender.member != Some(record.member) {
                return Err(AcknowledgeReason::NotOwnerOfBatch { first_offset: first });
            }
            if let [ty] = *batch.acknowledge_types
                && batch.first_offset <= first
                && last <= batch.last_offset
            {
                let before = *record;
                if sender.apply(record, ty) {
                    self.undo.push(Undo { batch: index, first, last, before });
                    self.acquired -= len;
                    if record.is_available() {
                        self.search_from = self.search_from.min(first);
                    }
                } else {
                    self.timers.push(Lock { deadline: sender.deadline, first, last });
                }
                return Ok(());
            }
        }
        self.acknowledge_each(index, sender, batch)
    }

    /// Applies a batch to records that have states of their own, and gives them those.
    fn acknowledge_each(
        &mut self,
        index: usize,
        sender: &Sender,
        batch: &AcknowledgementBatch<'_>,
    ) -> Result<(), AcknowledgeReason> {
        let (first, last) = (batch.first_offset.max(self.start_offset), batch.last_offset);
        let (timers, undo) = (&mut self.timers, &mut self.undo);
        let mut renewed: Option<Lock> = None;
        let mut done = Ok(());
        self.batches[index].each().try_change(first, last, |first, last, record| {
            if !record.is_acquired() {
                done = Err(AcknowledgeReason::OffsetNotAcquired { offset: first });
                return None;
            }
            if sender.member != Some(record.member) {
                done = Err(AcknowledgeReason::NotOwnerOfOffset { offset: first });
                return None;
            }
            let before = *record;
            let (ty, last) = type_of(batch, first, last);
            if sender.apply(record, ty) {
                undo.push(Undo { batch: index, first, last, before });
                self.acquired -= records(first, last);
                if record.is_available() {
                    self.search_from = self.search_from.min(first);
                }
            } else {
                match &mut renewed {
                    Some(lock) if lock.last + 1 == first => lock.last = last,
                    _ => {
                        let lock = Lock { deadline: sender.deadline, first, last };
                        renewed.replace(lock).into_iter().for_each(|lock| timers.push(lock));
                    }
                }
            }
            Some(last)
        });
        renewed.into_iter().for_each(|lock| timers.push(lock));
        done
    }

    /// Takes back what has been applied, but for renewals.
    fn roll_back(&mut self) {
        for Undo { batch, first, last, before } in self.undo.drain(..).rev() {
            match &mut self.batches[batch].records {
                Records::Whole(whole) => *whole = before,
                Records::Each(runs) => runs.change(first, last, |_, _, record| *record = before),
            }
            self.acquired += records(first, last);
        }
    }
}

impl Sender {
    /// Applies a type to an acquired record; false for a renewal, which is not undone.
    fn apply(&self, record: &mut Record, ty: AcknowledgeType) -> bool {
        match ty {
            AcknowledgeType::RENEW => {
                record.deadline = self.deadline;
                return false;
            }
            AcknowledgeType::ACCEPT => record.state = DeliveryState::Acknowledged,
            AcknowledgeType::RELEASE => record.release(self.delivery_count_limit),
            _ => record.state = DeliveryState::Archived,
        }
        true
    }
}

/// The type of an offset of a batch, and the last of those behind it up to `last` that have the same.
fn type_of(batch: &AcknowledgementBatch<'_>, first: i64, last: i64) -> (AcknowledgeType, i64) {
    let index = first.abs_diff(batch.first_offset) as usize;
    let ty = batch.acknowledge_type(index);
    let others = match batch.acknowledge_types {
        [_] => return (ty, last),
        types => types[index..].iter().take(records(first, last)),
    };
    (ty, first + others.take_while(|other| **other == ty).count() as i64 - 1)
}

/// Whether there are as many types as [`AcknowledgementBatch::acknowledge_type`] needs, and all have a name.
fn is_well_formed(batch: &AcknowledgementBatch<'_>) -> bool {
    let types = batch.acknowledge_types;
    let offsets = i128::from(batch.last_offset) - i128::from(batch.first_offset) + 1;
    let fits = offsets > 0 && (types.len() == 1 || types.len() as i128 == offsets);
    fits && types.iter().all(|ty| ty.name().is_some())
}
