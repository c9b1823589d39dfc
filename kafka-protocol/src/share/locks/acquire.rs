use std::time::Duration;

use crate::messages::share_fetch_response::AcquiredRecords;
use crate::share::ShareAcquireMode;

use super::batch::{InFlightBatch, records};
use super::timers::Lock;
use super::{LAST_OFFSET, Record, Records, SharePartition};

/// A record batch in the log, by its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBatchRange {
    /// The offset of its first record, or of where that was before compaction.
    pub base_offset: i64,
    /// The offset of its last record, inclusive.
    pub last_offset: i64,
}

impl ShareAcquireMode {
    /// The mode of a number on the wire; `None` for one that is not known.
    pub const fn from_number(number: i8) -> Option<Self> {
        match number {
            0 => Some(Self::BatchOptimized),
            1 => Some(Self::RecordLimit),
            _ => None,
        }
    }
}

/// What a fetch may acquire.
#[derive(Clone, Copy, Debug)]
pub struct Acquire<'a> {
    /// What has been read of the log, ascending: whole record batches from [`fetch_offset`](Self::fetch_offset) on,
    /// or from the one that it is in.
    ///
    /// Default none, which acquires nothing.
    pub record_batches: &'a [RecordBatchRange],

    /// Where reading started, [`SharePartition::next_fetch_offset`]. Available records from there to the first record
    /// batch are no longer in the log, and are archived.
    ///
    /// Default 0.
    pub fetch_offset: i64,

    /// How `max_records` counts.
    ///
    /// Default [`BatchOptimized`](ShareAcquireMode::BatchOptimized).
    pub mode: ShareAcquireMode,

    /// The most records (`MaxRecords`). 0 and below acquire nothing.
    ///
    /// Default 500, as in Kafka's consumer.
    pub max_records: i32,

    /// From how many records on a range of new records ends at the next record batch (`BatchSize`). Ranges that have been
    /// delivered before stay as they are, and there are none in [`RecordLimit`](ShareAcquireMode::RecordLimit). Below 1 counts
    /// as 1.
    ///
    /// Default 500, as in Kafka's consumer.
    pub batch_size: i32,
}

impl Default for Acquire<'_> {
    fn default() -> Self {
        Self {
            record_batches: &[],
            fetch_offset: 0,
            mode: ShareAcquireMode::default(),
            max_records: 500,
            batch_size: 500,
        }
    }
}

/// An acquisition in progress.
struct Acquisition<'a> {
    fetch: &'a Acquire<'a>,
    member: u32,
    deadline: Duration,
    /// What may be acquired, inclusive.
    first: i64,
    last: i64,
    /// How many records may still be acquired; below 0 when more had to be.
    left: i64,
    to: &'a mut Vec<AcquiredRecords>,
}

impl SharePartition {
    /// Acquires records for a member, locks them from `now` on, and appends them to `to` in ranges. Gives how many records
    /// those are.
    ///
    /// Available records come before those that have not been in flight yet, as far as `record_batches` has them. How
    /// many there may be is also limited by [`max_record_locks`](super::LockConfig::max_record_locks).
    pub fn acquire(
        &mut self,
        now: Duration,
        member_id: &str,
        fetch: &Acquire<'_>,
        to: &mut Vec<AcquiredRecords>,
    ) -> usize {
        let Some((left, last)) = self.room(fetch) else { return 0 };
        let base = fetch.record_batches[0].base_offset;
        if fetch.fetch_offset < base {
            self.archive_available(fetch.fetch_offset, base);
        }
        let mut acquisition = Acquisition {
            fetch,
            member: self.members.number(member_id),
            deadline: now.saturating_add(self.config.lock_duration),
            first: base.max(self.start_offset),
            last,
            left,
            to,
        };
        let before = self.acquired;
        if self.acquire_again(&mut acquisition) {
            let first = self.end_offset().max(acquisition.first);
            self.acquire_new(&mut acquisition, self.batches.len(), first, last);
        }
        self.search_from = self.next_fetch_offset();
        self.acquired - before
    }

    /// How many records may be acquired, and up to which offset.
    fn room(&self, fetch: &Acquire<'_>) -> Option<(i64, i64)> {
        let wanted = i64::from(fetch.max_records);
        let (last, end) = (fetch.record_batches.last()?.last_offset.min(LAST_OFFSET), self.end_offset());
        let free = self.config.max_record_locks.saturating_sub(self.in_flight_records());
        let (left, last) = if wanted.min(free) > 0 {
            (wanted.min(free), last)
        } else {
            // What is in flight may be acquired again, nothing else.
            (wanted.min(end.saturating_sub(fetch.fetch_offset)), last.min(end - 1))
        };
        (left > 0 && last >= self.start_offset).then_some((left, last))
    }

    /// Acquires what is available; whether new records may be acquired too.
    fn acquire_again(&mut self, acquisition: &mut Acquisition<'_>) -> bool {
        let throttled_from = self.throttled_from();
        let from = acquisition.first.max(self.search_from);
        let mut index = self.batches.partition_point(|batch| batch.last < from);
        let before = acquisition.left;
        while acquisition.left > 0 {
            let Some(batch) = self.batches.get(index).filter(|batch| batch.first <= acquisition.last) else {
                return true;
            };
            if batch.is_undelivered() {
                index += self.deliver(acquisition, index);
                continue;
            }
            let throttled = batch.most_deliveries(acquisition.first, acquisition.last) >= throttled_from;
            if throttled && acquisition.left < before {
                return false;
            }
            let acquired = self.acquire_batch(acquisition, index, throttled);
            self.acquired += acquired;
            acquisition.left -= acquired as i64;
            if throttled && acquired > 0 {
                return false;
            }
            index += 1;
        }
        false
    }

    /// Acquires what is available of records that were acquired together before.
    fn acquire_batch(&mut self, acquisition: &mut Acquisition<'_>, index: usize, throttled: bool) -> usize {
        let base = acquisition.fetch.record_batches[0].base_offset;
        let strict = acquisition.fetch.mode == ShareAcquireMode::RecordLimit;
        let batch = &mut self.batches[index];
        let (first, last, len) = (batch.first, batch.last, batch.len());
        if let Records::Whole(record) = &mut batch.records {
            if !record.is_available() {
                return 0;
            }
            let too_many = strict && len as i64 > acquisition.left;
            if !throttled && !too_many && base <= first && last <= acquisition.last {
                record.acquire(acquisition.member, acquisition.deadline);
                let delivery_count = record.delivery_count;
                self.timers.push(acquisition.acquired(first, last, delivery_count));
                return len;
            }
        }
        self.acquire_each(acquisition, index)
    }

    /// Acquires records that have states of their own, and gives them those.
    fn acquire_each(&mut self, acquisition: &mut Acquisition<'_>, index: usize) -> usize {
        let (limit, throttled_from) = (self.config.delivery_count_limit, self.throttled_from());
        let alone = if limit > 2 { limit } else { i16::MAX };
        let mut most = match acquisition.fetch.mode {
            ShareAcquireMode::BatchOptimized => usize::MAX,
            ShareAcquireMode::RecordLimit => acquisition.left as usize,
        };
        let (mut count, mut throttled) = (0, false);
        let mut run: Option<(i64, i64, i16)> = None;
        let (timers, len) = (&mut self.timers, self.batches[index].len());
        let (from, to) = (acquisition.first, acquisition.last);
        self.batches[index].each().try_change(from, to, |first, last, record| {
            if !record.is_available() {
                return Some(last);
            }
            let deliveries = record.delivery_count;
            let is_alone = deliveries.saturating_add(1) >= alone;
            if count >= most || count > 0 && is_alone {
                return None;
            }
            if deliveries >= throttled_from && !throttled {
                throttled = true;
                let few = (len >> (deliveries - throttled_from + 1).min(31)).max(1);
                // Brokers do not mind when records in front of the first such one are as many already.
                most = if count < few { most.min(few) } else { most };
            }
            if is_alone {
                most = 1;
            }
            let taken = records(first, last).min(most - count);
            let last = first + taken as i64 - 1;
            record.acquire(acquisition.member, acquisition.deadline);
            count += taken;
            match &mut run {
                Some((_, to, with)) if *to + 1 == first && *with == record.delivery_count => *to = last,
                _ => {
                    let next = (first, last, record.delivery_count);
                    if let Some((first, last, with)) = run.replace(next) {
                        timers.push(acquisition.acquired(first, last, with));
                    }
                }
            }
            Some(last)
        });
        if let Some((first, last, with)) = run {
            self.timers.push(acquisition.acquired(first, last, with));
        }
        count
    }

    /// Acquires offsets that are known not to have been delivered; gives by how many batches to go on.
    fn deliver(&mut self, acquisition: &mut Acquisition<'_>, index: usize) -> usize {
        let Some(hole) = self.batches.remove(index) else { return 0 };
        let (first, last) = (hole.first.max(acquisition.first), hole.last.min(acquisition.last));
        let mut at = index;
        let mut keep = |partition: &mut Self, first: i64, last: i64| {
            if first <= last {
                partition.batches.insert(at, InFlightBatch::whole(first, last, Record::undelivered()));
                at += 1;
            }
            at
        };
        let to = keep(self, hole.first, first - 1);
        let delivered = self.acquire_new(acquisition, to, first, last);
        let end = delivered.checked_sub(1).map_or(first, |count| self.batches[to + count].last + 1);
        let rest = usize::from(end <= hole.last);
        if rest == 1 {
            let batch = InFlightBatch::whole(end, hole.last, Record::undelivered());
            self.batches.insert(to + delivered, batch);
        }
        to - index + delivered + rest
    }

    /// Acquires records that have not been in flight yet, as batches from an index on; gives how many batches.
    fn acquire_new(
        &mut self,
        acquisition: &mut Acquisition<'_>,
        index: usize,
        first: i64,
        last: i64,
    ) -> usize {
        let record_batches = acquisition.fetch.record_batches;
        if acquisition.left <= 0 || first > last {
            return 0;
        }
        let mut end = last;
        if acquisition.left < last - first + 1 {
            // The record batch in which the limit is reached stays whole.
            let limit = first + acquisition.left - 1;
            let holds = record_batches.partition_point(|batch| batch.last_offset < limit);
            end = record_batches.get(holds).map_or(last, |batch| batch.last_offset.min(last));
        }
        let new = Record::undelivered();
        if acquisition.fetch.mode == ShareAcquireMode::RecordLimit {
            let mut batch = InFlightBatch::whole(first, end, new);
            let locked = acquisition.left.min(end - first + 1);
            let (member, deadline) = (acquisition.member, acquisition.deadline);
            match &mut batch.records {
                Records::Whole(record) if locked as usize == (end - first + 1) as usize => {
                    record.acquire(member, deadline);
                }
                _ => batch
                    .each()
                    .change(first, first + locked - 1, |_, _, record| record.acquire(member, deadline)),
            }
            self.put_new(acquisition, index, batch, first + locked - 1);
            return 1;
        }
        let mut acquired = new;
        acquired.acquire(acquisition.member, acquisition.deadline);
        let batch_size = i64::from(acquisition.fetch.batch_size.max(1));
        let (mut count, mut from) = (0, first);
        if end - first + 1 > batch_size {
            let skip = record_batches.partition_point(|batch| batch.base_offset <= first);
            for batch in record_batches[skip..].iter().take_while(|batch| batch.base_offset <= end) {
                if batch.base_offset.saturating_sub(from) >= batch_size {
                    let last = batch.base_offset - 1;
                    self.put_new(
                        acquisition,
                        index + count,
                        InFlightBatch::whole(from, last, acquired),
                        last,
                    );
                    (count, from) = (count + 1, batch.base_offset);
                }
            }
        }
        self.put_new(acquisition, index + count, InFlightBatch::whole(from, end, acquired), end);
        count + 1
    }

    /// Adds a batch that is acquired up to an offset.
    fn put_new(&mut self, acquisition: &mut Acquisition<'_>, index: usize, batch: InFlightBatch, last: i64) {
        if self.batches.is_empty() {
            // What is below is not in the log.
            self.start_offset = batch.first;
        }
        let count = last - batch.first + 1;
        self.timers.push(acquisition.acquired(batch.first, last, 1));
        self.acquired += count as usize;
        acquisition.left -= count;
        if last < batch.last {
            self.search_from = self.search_from.min(last + 1);
        }
        if index == self.batches.len() {
            self.batches.push_back(batch);
        } else {
            self.batches.insert(index, batch);
        }
    }

    /// Archives what is available from one offset up to another, as the log does not have it any more.
    fn archive_available(&mut self, from: i64, to: i64) {
        let index = self.batches.partition_point(|batch| batch.last < from);
        for batch in self.batches.range_mut(index..).take_while(|batch| batch.first < to) {
            if batch.first_available(batch.first).is_some_and(|offset| offset < to) {
                batch.archive(..to, false);
            }
        }
        self.settle();
    }

    /// From which delivery count on records come in smaller ranges.
    fn throttled_from(&self) -> i16 {
        let half_up = (self.config.delivery_count_limit / 2) + self.config.delivery_count_limit % 2;
        half_up.max(2)
    }
}

impl Acquisition<'_> {
    /// Tells of a range that has been acquired; gives its lock.
    fn acquired(&mut self, first: i64, last: i64, delivery_count: i16) -> Lock {
        self.to.push(AcquiredRecords {
            first_offset: first,
            last_offset: last,
            delivery_count,
            ..Default::default()
        });
        Lock { deadline: self.deadline, first, last }
    }
}

impl InFlightBatch {
    /// The highest delivery count of a record that is available, within a range if each has its own.
    fn most_deliveries(&self, first: i64, last: i64) -> i16 {
        match &self.records {
            Records::Whole(record) if record.is_available() => record.delivery_count,
            Records::Whole(_) => 0,
            Records::Each(runs) => {
                let available = runs.within(first, last).filter(|(.., record)| record.is_available());
                available.map(|(.., record)| record.delivery_count).max().unwrap_or(0)
            }
        }
    }
}
