//! Acquisition locks: what a broker knows of the records of a share partition that are in flight.
//!
//! A [`SharePartition`] is one partition as one share group sees it. It hands records to members, each with a lock
//! that runs out, and takes back what members say of them. It is the heart of a broker; the log, sessions and requests
//! are elsewhere.
//!
//! ```
//! use std::time::Duration;
//!
//! use kafka_protocol::protocol::AcknowledgeType;
//! use kafka_protocol::share::locks::{Acquire, LockConfig, RecordBatchRange, SharePartition};
//! use kafka_protocol::share::validate::AcknowledgementBatch;
//!
//! let at = Duration::from_secs;
//! let mut partition = SharePartition::new(LockConfig::default(), 0);
//! let log = [RecordBatchRange { base_offset: 0, last_offset: 9 }];
//! let fetch = Acquire { record_batches: &log, ..Acquire::default() };
//!
//! let mut acquired = Vec::new();
//! partition.acquire(at(0), "worker-1", &fetch, &mut acquired);
//! assert_eq!((acquired[0].last_offset, acquired[0].delivery_count), (9, 1));
//! assert_eq!(partition.next_deadline(), Some(at(30)));
//!
//! // Work takes longer: a renewal gives the full time once more.
//! let renew = AcknowledgementBatch {
//!     first_offset: 0,
//!     last_offset: 9,
//!     acknowledge_types: &[AcknowledgeType::RENEW],
//! };
//! partition.acknowledge(at(20), "worker-1", [renew])?;
//! assert_eq!(partition.next_deadline(), Some(at(50)));
//!
//! let accept = AcknowledgementBatch { acknowledge_types: &[AcknowledgeType::ACCEPT], last_offset: 4, ..renew };
//! partition.acknowledge(at(40), "worker-1", [accept])?;
//! assert_eq!(partition.start_offset(), 5);
//!
//! // The rest takes too long, and goes to somebody else.
//! assert_eq!(partition.expire(at(50)), 5);
//! partition.acquire(at(50), "worker-2", &fetch, &mut acquired);
//! assert_eq!((acquired[1].first_offset, acquired[1].delivery_count), (5, 2));
//! # Ok::<(), kafka_protocol::share::locks::AcknowledgeError>(())
//! ```
//!
//! # Rules
//!
//! - A record is [available, acquired, acknowledged or archived](DeliveryState). Acquiring it counts a delivery. The
//!   start offset is that of the first record that is neither acknowledged nor archived; below it nothing is known.
//! - Accept acknowledges a record, reject and gap archive it, release makes it available again, or archives it after its
//!   last delivery. Renew starts the lock anew with the [duration](LockConfig::lock_duration) now in force, as often
//!   as a member likes; the delivery count stays. A lock that runs out, or the end of the member's session, counts as
//!   release (measured).
//! - Acknowledgements of a partition in one request are applied all or none, but for renewals: those in front of
//!   what fails stay (measured).
//! - Records that were acquired together have one state and one lock. An acknowledgement of a part of them, or with a
//!   type for each offset, gives each its own from then on. Time and memory grow with the pieces that ranges have come to
//!   be in, not with how long they are.
//! - Records that failed often come in smaller ranges, so that a single bad one does not take all others with it: from
//!   [half](LockConfig::delivery_count_limit) of the deliveries on half of a range, then a quarter of it and so on, and
//!   alone for the last delivery (measured for the limit 5, otherwise Kafka's source).
//!
//! # What a 4.4.0 broker does otherwise
//!
//! - With nothing in flight, a batch that starts below the start offset and ends at or above it makes it fail the whole
//!   request with `UNKNOWN_SERVER_ERROR` (measured). Here the partition is refused, unless
//!   [`imitate_defects`](LockConfig::imitate_defects) says so.
//! - At the end of a session it stops at the first record of another member in a range whose records have states of
//!   their own, so that what is behind stays locked until the lock runs out (Kafka's source). Here all are released.
//! - A renewed lock and one that was not run out in the order of their timers, one event each. Here
//!   [`expire`](SharePartition::expire) is the only event.

mod acknowledge;
mod acquire;
mod batch;
mod error;
mod members;
mod restore;
mod runs;
mod timers;

use std::collections::VecDeque;
use std::time::Duration;

pub use acquire::{Acquire, RecordBatchRange};
pub use batch::DeliveryState;
pub use error::{AcknowledgeError, AcknowledgeReason};
pub use restore::{PersistedState, StateBatch};

use acknowledge::Undo;
use batch::{InFlightBatch, Record, Records};
use members::Members;
use timers::Timers;

/// The highest offset that a record can have: the offset behind it is one too.
const LAST_OFFSET: i64 = i64::MAX - 1;

/// What a share group is configured to, as far as locks are concerned. May change at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockConfig {
    /// How long a lock lasts from acquisition or renewal on (`share.record.lock.duration.ms`). A change counts for locks
    /// that start afterwards, renewed ones included.
    ///
    /// Default 30 s. Brokers allow 1 s to 1 h.
    pub lock_duration: Duration,

    /// How often a record is delivered at most (`share.delivery.count.limit`).
    ///
    /// Default 5. Brokers allow 2 to 10.
    pub delivery_count_limit: i16,

    /// How many records may be in flight, from the start offset to the last that was ever acquired
    /// (`share.partition.max.record.locks`).
    ///
    /// Default 2000. Brokers allow 100 to 10000.
    pub max_record_locks: i64,

    /// Whether members may renew (`share.renew.acknowledge.enable`, Kafka 4.3).
    ///
    /// Default true.
    pub renew_acknowledge_enable: bool,

    /// Whether the defect of the 4.4.0 broker is imitated that the [module](self) names first.
    ///
    /// Default false.
    pub imitate_defects: bool,
}

impl Default for LockConfig {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(30),
            delivery_count_limit: 5,
            max_record_locks: 2000,
            renew_acknowledge_enable: true,
            imitate_defects: false,
        }
    }
}

/// The records of a partition that are in flight for a share group. See the [module](self).
#[derive(Clone, Debug)]
pub struct SharePartition {
    config: LockConfig,
    /// Nothing is known below. Either in the first batch or, without batches, what is fetched next.
    start_offset: i64,
    /// Ascending; what lies between two of them is not in the log. All end at or above the start offset, and those that
    /// have one state for all records start there.
    batches: VecDeque<InFlightBatch>,
    /// No record below is available.
    search_from: i64,
    /// How many records are acquired.
    acquired: usize,
    timers: Timers,
    members: Members,
    /// What the acknowledgements at hand have changed; empty between calls.
    undo: Vec<Undo>,
}

impl SharePartition {
    /// A share partition that starts at an offset, with nothing in flight. An offset below 0 counts as 0.
    pub fn new(config: LockConfig, start_offset: i64) -> Self {
        let start_offset = start_offset.max(0);
        Self {
            config,
            start_offset,
            batches: VecDeque::new(),
            search_from: start_offset,
            acquired: 0,
            timers: Timers::default(),
            members: Members::default(),
            undo: Vec::new(),
        }
    }

    /// What it is configured to.
    pub fn config(&self) -> &LockConfig {
        &self.config
    }

    /// Changes what it is configured to. Locks that are held keep their deadlines.
    pub fn set_config(&mut self, config: LockConfig) {
        self.config = config;
    }

    /// The share partition start offset: that of the first record that is neither acknowledged nor archived.
    pub fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset behind the last record that was ever acquired.
    pub fn end_offset(&self) -> i64 {
        self.batches.back().map_or(self.start_offset, |batch| batch.last + 1)
    }

    /// From which offset on records should be read to be acquired: that of the first that is available, else of the first
    /// that has not been in flight yet.
    pub fn next_fetch_offset(&self) -> i64 {
        let from = self.search_from.max(self.start_offset);
        let index = self.batches.partition_point(|batch| batch.last < from);
        let mut rest = self.batches.range(index..);
        rest.find_map(|batch| batch.first_available(from)).unwrap_or_else(|| self.end_offset())
    }

    /// Whether anything can be acquired when the log ends before `log_end_offset`: something is available, or there are
    /// records that have not been in flight yet and room for them.
    pub fn can_acquire(&self, log_end_offset: i64) -> bool {
        let next = self.next_fetch_offset();
        next < self.end_offset()
            || next < log_end_offset && self.in_flight_records() < self.config.max_record_locks
    }

    /// How many records are in flight, holes included, as in the metric `InFlightMessageCount`.
    pub fn in_flight_records(&self) -> i64 {
        self.end_offset() - self.start_offset
    }

    /// How many ranges of records are in flight, as in the metric `InFlightBatchCount`.
    pub fn in_flight_batches(&self) -> usize {
        self.batches.len()
    }

    /// How many records are acquired.
    pub fn acquired_records(&self) -> usize {
        self.acquired
    }

    /// When the first lock runs out; `None` when there is no lock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    /// Takes records back whose locks have run out by `now`, and tells how many. What the metric
    /// `AcquisitionLockTimeoutPerSec` counts.
    ///
    /// A lock of 30 s that was taken at 10 s has run out at 40 s.
    pub fn expire(&mut self, now: Duration) -> usize {
        let before = self.acquired;
        while let Some(lock) = self.timers.pop(now) {
            let Some(index) = self.batch_of(lock.first) else { continue };
            let (batch, limit) = (&mut self.batches[index], self.config.delivery_count_limit);
            let released =
                batch.release(lock.first..=lock.last, limit, |record| record.deadline == lock.deadline);
            self.note_released(released);
        }
        if self.acquired != before {
            self.settle();
        }
        before - self.acquired
    }

    /// Takes back all records that a member has acquired, at the end of its session, and tells how many. The delivery
    /// counts (Kafka 4.2).
    pub fn release(&mut self, member_id: &str) -> usize {
        let Some(member) = self.members.remove(member_id) else { return 0 };
        let (before, limit) = (self.acquired, self.config.delivery_count_limit);
        for index in 0..self.batches.len() {
            let batch = &mut self.batches[index];
            let all = batch.first..=batch.last;
            let released = batch.release(all, limit, |record| record.member == member);
            self.note_released(released);
        }
        self.settle();
        before - self.acquired
    }

    /// Moves the start offset up to where the log starts now, after records were deleted. Acknowledgements of what was
    /// deleted succeed and do nothing.
    pub fn advance_start_offset(&mut self, log_start_offset: i64) {
        if log_start_offset <= self.start_offset {
            return;
        }
        self.start_offset = log_start_offset;
        while self.batches.front().is_some_and(|batch| batch.last < log_start_offset) {
            self.acquired -= self.batches.pop_front().map_or(0, |batch| batch.acquired());
        }
        if let Some(front) = self.batches.front_mut()
            && front.first < log_start_offset
        {
            let deleted = front.archive(..log_start_offset, true);
            self.acquired -= deleted;
        }
        self.settle();
    }

    /// The records in flight as ranges of equal state, ascending. The member is there for those that are acquired.
    pub fn states(&self) -> impl Iterator<Item = (StateBatch, Option<&str>)> {
        let start = self.start_offset;
        self.batches.iter().flat_map(InFlightBatch::runs).filter(move |&(_, last, _)| last >= start).map(
            move |(first, last, record)| {
                let state = StateBatch {
                    first_offset: first.max(start),
                    last_offset: last,
                    delivery_state: record.state,
                    delivery_count: record.delivery_count,
                };
                (state, self.members.name(record))
            },
        )
    }

    /// The index of the batch that has an offset.
    fn batch_of(&self, offset: i64) -> Option<usize> {
        let index = self.floor(offset)?;
        (offset <= self.batches[index].last).then_some(index)
    }

    /// The index of the last batch that starts at an offset or below.
    fn floor(&self, offset: i64) -> Option<usize> {
        self.batches.partition_point(|batch| batch.first <= offset).checked_sub(1)
    }

    /// Acquired records have been released, the first available one of them at an offset.
    fn note_released(&mut self, (count, first_available): (usize, Option<i64>)) {
        self.acquired -= count;
        if let Some(offset) = first_available {
            self.search_from = self.search_from.min(offset);
        }
    }

    /// After records have changed: moves the start offset up, and forgets timers of locks that are gone.
    fn settle(&mut self) {
        while let Some(front) = self.batches.front() {
            match front.first_open(self.start_offset) {
                Some(open) => {
                    self.start_offset = self.start_offset.max(open);
                    break;
                }
                None => {
                    self.start_offset = self.start_offset.max(front.last + 1);
                    self.batches.pop_front();
                }
            }
        }
        let (batches, timers) = (&self.batches, &mut self.timers);
        timers.prune(self.acquired, |lock| {
            let index = batches.partition_point(|batch| batch.first <= lock.first).checked_sub(1)?;
            batches[index].first_locked(lock.first..=lock.last, lock.deadline)
        });
    }
}
