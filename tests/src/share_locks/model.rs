//! A share partition with a cell for every offset, and nothing clever.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::ShareAcquireMode;
use kafka_protocol::share::locks::{
    AcknowledgeError, Acquire, DeliveryState, LockConfig, RecordBatchRange, SharePartition,
};
use kafka_protocol::share::validate::{AcknowledgementBatch, batches};

use crate::random::Random;
use crate::walks::{Range, fetch_as};

const MEMBERS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug, PartialEq)]
struct Cell {
    state: DeliveryState,
    count: i16,
    /// Who has acquired it, and until when.
    lock: Option<(&'static str, Duration)>,
}

impl Cell {
    fn release(&mut self, limit: i16) {
        self.lock = None;
        self.state = if self.count >= limit { DeliveryState::Archived } else { DeliveryState::Available };
    }
}

pub(super) struct Model {
    ours: SharePartition,
    cells: BTreeMap<i64, Cell>,
    start: i64,
    now: Duration,
    log: Vec<RecordBatchRange>,
    /// Whether there are holes between record batches; then nothing is restored, since a new leader does not know them.
    holes: bool,
}

impl Model {
    pub(super) fn new(random: &mut Random) -> Self {
        let holes = random.once_in(2);
        let mut log = Vec::new();
        let mut next = 0;
        for _ in 0..random.below(12) + 2 {
            next += if holes && random.once_in(4) { random.below(5) as i64 } else { 0 };
            let last_offset = next + random.below(12) as i64;
            log.push(RecordBatchRange { base_offset: next, last_offset });
            next = last_offset + 1;
        }
        let config = LockConfig {
            delivery_count_limit: random.pick(&[2, 3, 5, 10]),
            max_record_locks: random.pick(&[10, 30, 2000]),
            ..Default::default()
        };
        Self {
            ours: SharePartition::new(config, 0),
            cells: BTreeMap::new(),
            start: 0,
            now: Duration::ZERO,
            log,
            holes,
        }
    }

    pub(super) fn step(&mut self, random: &mut Random, context: &str) {
        match random.below(20) {
            0..7 => self.fetch(random, context),
            7..15 => self.acknowledge(random, context),
            15..17 => self.expire(random, context),
            17 => self.release(random.pick(&MEMBERS), context),
            18 if random.once_in(3) => self.advance_start(random),
            18 => {
                let lock_duration = Duration::from_millis(random.pick(&[500, 1000, 3000]));
                self.ours.set_config(LockConfig { lock_duration, ..self.ours.config().clone() });
            }
            _ if random.once_in(3) && !self.holes => self.restore(),
            _ => {}
        }
        self.settle();
        self.compare(context);
    }

    fn limit(&self) -> i16 {
        self.ours.config().delivery_count_limit
    }

    fn end(&self) -> i64 {
        self.cells.last_key_value().map_or(self.start, |(offset, _)| (offset + 1).max(self.start))
    }

    fn fetch(&mut self, random: &mut Random, context: &str) {
        let member = random.pick(&MEMBERS);
        let mode = random.pick(&[ShareAcquireMode::BatchOptimized, ShareAcquireMode::RecordLimit]);
        let max_records = random.pick(&[0, 1, 3, 10, 500]);
        let limits =
            Acquire { mode, max_records, batch_size: random.pick(&[0, 1, 4, 500]), ..Default::default() };
        let read = self.log.len().min(random.below(20) + 1);
        let from = self.ours.next_fetch_offset();
        let acquired = fetch_as(&mut self.ours, self.now, member, &self.log[..read], &limits);
        if max_records > 0 {
            self.archive_missing(from, read);
            self.settle();
        }
        self.check_fetch(member, &acquired, &limits, read, context);
    }

    /// What is available from where the log is read to its first record batch is archived.
    fn archive_missing(&mut self, from: i64, read: usize) {
        if let Some(first) = self.log[..read].iter().find(|batch| batch.last_offset >= from) {
            for (_, cell) in self.cells.range_mut(from.min(first.base_offset)..first.base_offset) {
                if cell.state == DeliveryState::Available {
                    cell.state = DeliveryState::Archived;
                }
            }
        }
    }

    fn check_fetch(
        &mut self,
        member: &'static str,
        acquired: &[Range],
        limits: &Acquire<'_>,
        read: usize,
        context: &str,
    ) {
        let count: i64 = acquired.iter().map(|(first, last, _)| last - first + 1).sum();
        if limits.mode == ShareAcquireMode::RecordLimit {
            assert!(count <= limits.max_records.max(0).into(), "{context}: {acquired:?}");
        }
        let (mut next, old_end) = (self.start, self.end());
        let until = self.now + self.ours.config().lock_duration;
        let throttled = (self.limit() + 1) / 2;
        let mut failed_often = false;
        for &(first, last, deliveries) in acquired {
            assert!(next <= first && first <= last, "{context}: {acquired:?}");
            next = last + 1;
            for offset in first..=last {
                let new = Cell { state: DeliveryState::Available, count: 0, lock: None };
                let cell = self.cells.entry(offset).or_insert(new);
                assert_eq!(cell.state, DeliveryState::Available, "{context}: {offset} of {acquired:?}");
                assert_eq!(cell.count + 1, deliveries, "{context}: {offset} of {acquired:?}");
                failed_often |= cell.count >= throttled.max(2);
                *cell =
                    Cell { state: DeliveryState::Acquired, count: deliveries, lock: Some((member, until)) };
            }
        }
        // The rest of a new record batch is available in this mode.
        if limits.mode == ShareAcquireMode::RecordLimit && next > old_end {
            for offset in next..self.ours.end_offset() {
                let new = Cell { state: DeliveryState::Available, count: 0, lock: None };
                self.cells.entry(offset).or_insert(new);
            }
        }
        // A fetch that nothing limits leaves nothing.
        let config = self.ours.config();
        let unlimited = limits.max_records == 500 && config.max_record_locks == 2000 && !failed_often;
        if unlimited {
            let read_to = self.log[read - 1].last_offset;
            let often = |cell: &Cell| cell.count >= throttled.max(2);
            for (offset, cell) in self.cells.range(self.start..=read_to.max(self.start)) {
                let left = cell.state == DeliveryState::Available && *offset <= read_to;
                assert!(!left || self.cells.values().any(often), "{context}: {offset} is left over");
            }
        }
    }

    fn acknowledge(&mut self, random: &mut Random, context: &str) {
        let member = random.pick(&MEMBERS);
        let mut sent: Vec<(i64, i64, Vec<AcknowledgeType>)> = Vec::new();
        let mut next = (self.start - 2 + random.below(8) as i64).max(-1);
        for _ in 0..random.below(3) + 1 {
            let last = next + random.below(9) as i64;
            let each = random.once_in(2);
            let types =
                (0..if each { last - next + 1 } else { 1 }).map(|_| AcknowledgeType(random.below(5) as i8));
            sent.push((next, last, types.collect()));
            next = last + random.below(4) as i64;
        }
        let sent = || {
            sent.iter().map(|(first_offset, last_offset, types)| AcknowledgementBatch {
                first_offset: *first_offset,
                last_offset: *last_offset,
                acknowledge_types: types,
            })
        };
        batches(sent(), 2, true).unwrap();
        let ours = self.ours.acknowledge(self.now, member, sent());
        let code = ours.as_ref().map_or_else(AcknowledgeError::code, |()| ErrorCode::NONE);
        assert_eq!(code, self.apply(member, sent()), "{context}: {ours:?} {:?}", sent().collect::<Vec<_>>());
    }

    fn apply<'a>(
        &mut self,
        member: &'static str,
        sent: impl Iterator<Item = AcknowledgementBatch<'a>>,
    ) -> ErrorCode {
        let (mut before, limit, start) = (self.cells.clone(), self.limit(), self.start);
        let until = self.now + self.ours.config().lock_duration;
        let in_flight = self.cells.range(start..).next().is_some();
        for batch in sent {
            let code = if batch.last_offset < start {
                continue;
            } else if !in_flight {
                Some(ErrorCode::INVALID_RECORD_STATE)
            } else if !self.cells.contains_key(&batch.last_offset) {
                Some(ErrorCode::INVALID_REQUEST)
            } else {
                None
            };
            if let Some(code) = code {
                self.cells = before;
                return code;
            }
            for (&offset, cell) in self.cells.range_mut(batch.first_offset.max(start)..=batch.last_offset) {
                if cell.lock.is_none_or(|(owner, _)| owner != member) {
                    self.cells = before;
                    return ErrorCode::INVALID_RECORD_STATE;
                }
                match batch.acknowledge_type((offset - batch.first_offset) as usize) {
                    AcknowledgeType::RENEW => {
                        cell.lock = Some((member, until));
                        // Not taken back.
                        before.insert(offset, cell.clone());
                    }
                    AcknowledgeType::ACCEPT => {
                        (cell.state, cell.lock) = (DeliveryState::Acknowledged, None);
                    }
                    AcknowledgeType::RELEASE => cell.release(limit),
                    _ => (cell.state, cell.lock) = (DeliveryState::Archived, None),
                }
            }
        }
        ErrorCode::NONE
    }

    fn expire(&mut self, random: &mut Random, context: &str) {
        self.now += Duration::from_millis(random.pick(&[100, 400, 1000, 4000]));
        let (now, limit) = (self.now, self.limit());
        let gone: Vec<_> =
            self.cells.values_mut().filter(|cell| cell.lock.is_some_and(|(_, until)| until <= now)).collect();
        assert_eq!(self.ours.expire(now), gone.len(), "{context}");
        gone.into_iter().for_each(|cell| cell.release(limit));
    }

    fn release(&mut self, member: &str, context: &str) {
        let limit = self.limit();
        let theirs: Vec<_> = self
            .cells
            .values_mut()
            .filter(|cell| cell.lock.is_some_and(|(owner, _)| owner == member))
            .collect();
        assert_eq!(self.ours.release(member), theirs.len(), "{context}");
        theirs.into_iter().for_each(|cell| cell.release(limit));
    }

    fn advance_start(&mut self, random: &mut Random) {
        let to = self.start + random.below(8) as i64;
        // Logs are not read from inside a hole in these tests.
        let inside = |batch: &RecordBatchRange| (batch.base_offset..=batch.last_offset).contains(&to);
        if self.log.iter().any(inside) {
            self.ours.advance_start_offset(to);
            self.start = self.start.max(to);
            self.cells = self.cells.split_off(&self.start);
        }
    }

    fn restore(&mut self) {
        for cell in self.cells.values_mut().filter(|cell| cell.lock.is_some()) {
            *cell = Cell { state: DeliveryState::Available, count: cell.count - 1, lock: None };
        }
        while self
            .cells
            .last_entry()
            .is_some_and(|last| last.get().count == 0 && last.get().state == DeliveryState::Available)
        {
            self.cells.pop_last();
        }
        self.ours = SharePartition::restore(self.ours.config().clone(), &self.ours.persisted_state());
    }

    /// The start offset is that of the first cell that is not done.
    fn settle(&mut self) {
        let open = self.cells.range(self.start..).find(|(_, cell)| !cell.state.is_done());
        let end = self.end();
        self.start = open.map_or(end, |(offset, _)| *offset);
        self.cells = self.cells.split_off(&self.start);
    }

    fn compare(&self, context: &str) {
        let ours = &self.ours;
        let mut states = BTreeMap::new();
        for (state, owner) in ours.states() {
            for offset in state.first_offset..=state.last_offset {
                states.insert(offset, (state.delivery_state, state.delivery_count, owner));
            }
        }
        let cells: BTreeMap<_, _> = self
            .cells
            .iter()
            .map(|(offset, cell)| (*offset, (cell.state, cell.count, cell.lock.map(|(owner, _)| owner))))
            .collect();
        assert_eq!(states, cells, "{context}");
        assert_eq!(ours.start_offset(), self.start, "{context}");
        assert_eq!(ours.end_offset(), self.end(), "{context}");
        let locks = || self.cells.values().filter_map(|cell| cell.lock);
        assert_eq!(ours.acquired_records(), locks().count(), "{context}");
        assert_eq!(ours.next_deadline(), locks().map(|(_, until)| until).min(), "{context}");
        let available = self.cells.iter().find(|(_, cell)| cell.state == DeliveryState::Available);
        let next = available.map_or(self.end(), |(offset, _)| *offset);
        assert_eq!(ours.next_fetch_offset(), next, "{context}");
    }
}
