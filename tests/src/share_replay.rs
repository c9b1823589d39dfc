//! Replays every ShareFetch and ShareAcknowledge that a broker was sent in `tests/share/raw-*.jsonl.gz` against
//! `validate`, the session cache and the acquisition locks, and compares what they say with its answers.
//!
//! What the broker decided by itself is taken from it: when a fetch is answered, from which of several partitions, and when
//! a connection ended, which the recordings do not have. Locks may run out 30 ms earlier or later than here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kafka_protocol::messages::{
    IncrementalAlterConfigsRequest, ProduceRequest, ShareAcknowledgeRequest, ShareAcknowledgeResponse,
    ShareFetchRequest, ShareFetchResponse,
};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::Batches;
use kafka_protocol::share::locks::{
    AcknowledgeReason, Acquire, DeliveryState, LockConfig, PersistedState, RecordBatchRange, SharePartition,
};
use kafka_protocol::share::sessions::{ConnectionId, SessionKey, SessionStep, ShareSessionCache};
use kafka_protocol::share::validate::{
    BrokerState, Level, Listing, Refusal, Session, ShareRequest, validate,
};
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};
use kafka_protocol::wire::{Str, Uuid};

use crate::share_recording::{Body, Frame, NAMES, last_lines, read};
use crate::walks::{Range, broker_words, fetch_as};

/// How far the broker's timers were from ours.
const SLACK: Duration = Duration::from_millis(30);

/// Groups without a configuration of their own have this one in the recordings.
const LOCK_DURATION: Duration = Duration::from_millis(5000);

/// Ends of connections that no fetch tells: recording, line in front of which it was, connection. (C5g: closed first, then
/// the same member opens a session over another connection.)
const CLOSED: [(&str, usize, u64); 1] = [("edge", 21, 2)];

#[test]
fn share_requests_are_answered_as_by_a_broker() {
    let mut total = Counts::default();
    for name in NAMES {
        let counts = Replay::new(name).run();
        println!("raw-{name}: {counts:?}");
        total.add(&counts);
    }
    println!("all: {total:?}");
    let expected =
        Counts { fetches: 1073, acknowledges: 270, rows: 0, ranges: 0, undecodable: 0, loading: 0 };
    assert_eq!(total, expected);
}

/// How much has been compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// ShareFetch requests with their responses.
    fetches: usize,
    /// ShareAcknowledge requests with their responses.
    acknowledges: usize,
    /// Rows of partitions with a code.
    rows: usize,
    /// Ranges that were acquired.
    ranges: usize,
    /// Requests that are refused here before they are decoded, or closed the connection.
    undecodable: usize,
    /// Partitions with records that a fetch did not acquire, as the broker was still loading the share partition, or
    /// another fetch had it.
    loading: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.fetches += other.fetches;
        self.acknowledges += other.acknowledges;
        self.rows += other.rows;
        self.ranges += other.ranges;
        self.undecodable += other.undecodable;
        self.loading += other.loading;
    }
}

/// A request whose answer has not come yet.
struct InFlight {
    request: Request,
    version: i16,
    expected: Expected,
}

enum Request {
    Fetch(ShareFetchRequest),
    Acknowledge(ShareAcknowledgeRequest),
}

/// What we answer.
#[derive(Debug, Default)]
struct Expected {
    top: ErrorCode,
    /// Codes and messages of acknowledgements.
    acknowledged: BTreeMap<TopicIdPartition, (ErrorCode, Option<&'static str>)>,
    /// Partitions that have a row in any case.
    rows: BTreeSet<TopicIdPartition>,
    lock_timeout_ms: i32,
    /// Whether records are fetched.
    fetches: bool,
}

struct Replay {
    name: &'static str,
    frames: Vec<Frame>,
    last_lines: HashMap<u64, usize>,
    /// By name: the id.
    topic_ids: HashMap<Str, Uuid>,
    logs: HashMap<TopicIdPartition, Vec<RecordBatchRange>>,
    partitions: HashMap<Uuid, i32>,
    /// Groups that have had members.
    groups: BTreeSet<Str>,
    configs: HashMap<Str, LockConfig>,
    sessions: ShareSessionCache,
    shares: BTreeMap<(Str, TopicIdPartition), SharePartition>,
    in_flight: HashMap<(u64, i64), InFlight>,
    persisted: HashMap<(Str, TopicIdPartition), PersistedState>,
    /// Connection and correlation id of all responses.
    answered: BTreeSet<(u64, i64)>,
    counts: Counts,
}

impl BrokerState for Replay {
    fn session(&self, group_id: &str, member_id: &str) -> Session {
        self.sessions.session(&SessionKey::new(group_id, member_id))
    }

    fn has_topic(&self, topic_id: Uuid) -> bool {
        self.partitions.contains_key(&topic_id)
    }

    fn has_partition(&self, partition: TopicIdPartition) -> bool {
        (0..self.partitions[&partition.topic_id]).contains(&partition.partition)
    }
}

impl Replay {
    fn new(name: &'static str) -> Self {
        let frames = read(name);
        let answers = frames.iter().filter(|frame| {
            matches!(frame.body, Body::FetchAnswer(_) | Body::AcknowledgeAnswer(_) | Body::HeartbeatAnswer(_))
        });
        let answered = answers.map(|frame| (frame.connection, frame.correlation)).collect();
        Self {
            name,
            last_lines: last_lines(&frames),
            frames,
            topic_ids: HashMap::new(),
            logs: HashMap::new(),
            partitions: HashMap::new(),
            groups: BTreeSet::new(),
            configs: HashMap::new(),
            sessions: ShareSessionCache::new(2000),
            shares: BTreeMap::new(),
            in_flight: HashMap::new(),
            persisted: HashMap::new(),
            answered,
            counts: Counts::default(),
        }
    }

    fn run(mut self) -> Counts {
        for frame in std::mem::take(&mut self.frames) {
            let now = Duration::from_millis(frame.ms);
            let context = format!("raw-{} line {}", self.name, frame.line);
            for (_, _, connection) in CLOSED.iter().filter(|of| (of.0, of.1) == (self.name, frame.line)) {
                self.disconnect(*connection);
            }
            self.step(frame, now, &context);
        }
        assert!(self.in_flight.is_empty(), "raw-{}: not answered: {:?}", self.name, self.in_flight.keys());
        self.counts
    }

    fn step(&mut self, frame: Frame, now: Duration, context: &str) {
        let id = (frame.connection, frame.correlation);
        match frame.body {
            Body::TopicsCreated(response) => {
                for topic in response.topics {
                    self.topic_ids.insert(topic.name, topic.topic_id);
                    self.partitions.insert(topic.topic_id, topic.num_partitions);
                }
            }
            Body::Produce(request) => self.produce(&request),
            Body::Configs(request) => self.configure(&request),
            Body::Heartbeat(request) => drop(self.groups.insert(request.group_id)),
            Body::Fetch(request) => {
                self.expire(now);
                let expected = self.fetch(now, (frame.connection, frame.version), &request);
                let request = Request::Fetch(request);
                self.in_flight.insert(id, InFlight { request, version: frame.version, expected });
            }
            Body::Acknowledge(request) => {
                self.expire(now);
                let expected = self.apply(now, (frame.connection, frame.version), &request);
                let request = Request::Acknowledge(request);
                self.in_flight.insert(id, InFlight { request, version: frame.version, expected });
            }
            Body::FetchAnswer(response) => match self.in_flight.remove(&id) {
                Some(InFlight { request: Request::Fetch(request), expected, .. }) => {
                    self.compare_fetch(now, frame.line, &request, &expected, &response, context);
                }
                _ => panic!("{context}: all fetches that were answered can be decoded"),
            },
            Body::AcknowledgeAnswer(response) => match self.in_flight.remove(&id) {
                Some(InFlight { request: Request::Acknowledge(_), version, expected }) => {
                    self.compare_acknowledge(version, &expected, &response, context);
                }
                // The broker has read what is refused here, and has found that there is no session.
                _ => assert_eq!(response.error_code, ErrorCode::SHARE_SESSION_NOT_FOUND, "{context}"),
            },
            Body::Undecodable => {
                self.counts.undecodable += 1;
                if !self.answered.contains(&id) {
                    self.disconnect(frame.connection);
                }
            }
            Body::Topics(_) | Body::HeartbeatAnswer(_) | Body::Other => {}
        }
    }

    fn produce(&mut self, request: &ProduceRequest) {
        for topic in &request.topic_data {
            let topic_id = self.topic_ids[&topic.name];
            for partition in &topic.partition_data {
                let log = self.logs.entry(TopicIdPartition::new(topic_id, partition.index)).or_default();
                for batch in Batches::new(partition.records.as_ref().unwrap()) {
                    let base_offset = log.last().map_or(0, |last| last.last_offset + 1);
                    let last_offset = base_offset + i64::from(batch.unwrap().header().last_offset_delta);
                    log.push(RecordBatchRange { base_offset, last_offset });
                }
            }
        }
    }

    fn configure(&mut self, request: &IncrementalAlterConfigsRequest) {
        for resource in &request.resources {
            let mut config = self.config(&resource.resource_name);
            for entry in &resource.configs {
                let value = entry.value.as_deref().unwrap();
                match entry.name.as_str() {
                    "share.record.lock.duration.ms" => {
                        config.lock_duration = Duration::from_millis(value.parse().unwrap());
                    }
                    "share.renew.acknowledge.enable" => config.renew_acknowledge_enable = value == "true",
                    "share.delivery.count.limit" => config.delivery_count_limit = value.parse().unwrap(),
                    "share.auto.offset.reset" => assert_eq!(value, "earliest"),
                    other => panic!("{other}={value}"),
                }
            }
            for ((group_id, _), share) in &mut self.shares {
                if *group_id == resource.resource_name {
                    share.set_config(config.clone());
                }
            }
            self.configs.insert(resource.resource_name.clone(), config);
        }
    }

    fn config(&self, group_id: &str) -> LockConfig {
        let default =
            LockConfig { lock_duration: LOCK_DURATION, imitate_defects: true, ..Default::default() };
        self.configs.get(group_id).cloned().unwrap_or(default)
    }

    fn expire(&mut self, now: Duration) {
        for share in self.shares.values_mut() {
            share.expire(now);
        }
    }

    fn disconnect(&mut self, connection: u64) {
        let ended = self.sessions.disconnect(ConnectionId(connection));
        for key in &ended.sessions {
            self.release(key);
        }
        for (key, share) in &mut self.shares {
            if ended.empty_groups.contains(&key.0) {
                self.persisted.insert(key.clone(), share.persisted_state());
            }
        }
        self.shares.retain(|(group_id, _), _| !ended.empty_groups.contains(group_id));
    }

    fn release(&mut self, key: &SessionKey) {
        for ((group_id, _), share) in &mut self.shares {
            if *group_id == key.group_id {
                share.release(&key.member_id);
            }
        }
    }

    /// Applies a request as far as it is applied at once.
    fn apply<R: ShareRequest>(
        &mut self,
        now: Duration,
        (connection, version): (u64, i16),
        request: &R,
    ) -> Expected {
        let refusals = validate(request, version, self);
        if let Some(refusal) = refusals.iter().find(|refusal| refusal.level == Level::Top) {
            return Expected { top: refusal.code, ..Default::default() };
        }
        let key = key_of(request);
        let step = self.sessions.step(ConnectionId(connection), request).unwrap();
        let timeout = self.config(&key.group_id).lock_duration.as_millis();
        let mut expected = Expected { lock_timeout_ms: timeout as i32, ..Default::default() };
        let mut last: BTreeMap<_, _> = BTreeMap::new();
        for listing in request.listings() {
            last.insert(listing.partition, listing);
        }
        for (&partition, listing) in &last {
            let refusal = refusals.iter().find(|refusal| partition_of(refusal) == Some(partition));
            if refusal.is_none() && listing.batches.is_empty() {
                continue;
            }
            let outcome = match refusal {
                Some(refusal)
                    if refusal.level == Level::Partition(partition) && request.as_fetch().is_some() =>
                {
                    continue;
                }
                Some(refusal) => (refusal.code, None),
                None => self.acknowledge_one(now, &key, listing),
            };
            if outcome.0 == ErrorCode::UNKNOWN_SERVER_ERROR {
                return Expected { top: outcome.0, ..Default::default() };
            }
            expected.acknowledged.insert(partition, outcome);
        }
        if step == SessionStep::Closed {
            self.release(&key);
        }
        let listed = step != SessionStep::Closed && !expected.acknowledged.is_empty();
        if listed && request.as_fetch().is_some() {
            expected.rows.extend(last.keys());
        }
        expected.fetches = step != SessionStep::Closed && !request.is_renew_ack();
        expected
    }

    fn acknowledge_one(
        &mut self,
        now: Duration,
        key: &SessionKey,
        listing: &Listing<'_>,
    ) -> (ErrorCode, Option<&'static str>) {
        match self.shares.get_mut(&(key.group_id.clone(), listing.partition)) {
            None => (
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some("This server does not host this topic-partition."),
            ),
            Some(share) => match share.acknowledge(now, &key.member_id, listing.batches.iter()) {
                Ok(()) => (ErrorCode::NONE, None),
                Err(error) => {
                    let reason = error.reason;
                    assert_ne!(reason, AcknowledgeReason::Malformed, "validate() finds it before");
                    (error.code(), Some(broker_words(reason)))
                }
            },
        }
    }

    /// Takes a ShareFetch; its share partitions are loaded.
    fn fetch(&mut self, now: Duration, from: (u64, i16), request: &ShareFetchRequest) -> Expected {
        let mut expected = self.apply(now, from, request);
        if !expected.top.is_ok() || !expected.fetches {
            return expected;
        }
        let key = key_of(request);
        let session: Vec<_> = self.sessions.get(&key).unwrap().partitions().collect();
        if ShareAcquireMode::from_number(request.share_acquire_mode).is_none() && !session.is_empty() {
            // The other defect of the broker.
            return Expected { top: ErrorCode::UNKNOWN_SERVER_ERROR, ..Default::default() };
        }
        expected.fetches = request.max_records > 0 && request.max_bytes > 0;
        for partition in session {
            if expected.fetches && self.fetch_error(&key, partition).is_ok() {
                let id = (key.group_id.clone(), partition);
                let config = self.config(&key.group_id);
                self.shares.entry(id.clone()).or_insert_with(|| match self.persisted.get(&id) {
                    Some(state) => SharePartition::restore(config, state),
                    None => SharePartition::new(config, 0),
                });
            }
        }
        expected
    }

    fn fetch_error(&self, key: &SessionKey, partition: TopicIdPartition) -> ErrorCode {
        if !self.has_topic(partition.topic_id) {
            ErrorCode::UNKNOWN_TOPIC_ID
        } else if !self.has_partition(partition) {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else if !self.groups.contains(&key.group_id) {
            ErrorCode::UNKNOWN_SERVER_ERROR
        } else {
            ErrorCode::NONE
        }
    }

    fn compare_acknowledge(
        &mut self,
        version: i16,
        expected: &Expected,
        response: &ShareAcknowledgeResponse,
        context: &str,
    ) {
        assert_eq!(response.error_code, expected.top, "{context}: {expected:?}");
        let timeout = if version >= 2 { expected.lock_timeout_ms } else { 0 };
        assert_eq!(response.acquisition_lock_timeout_ms, timeout, "{context}");
        let mut rows = BTreeMap::new();
        for topic in &response.responses {
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                let old = rows.insert(partition, (row.error_code, row.error_message.as_deref()));
                assert!(old.is_none(), "{context}: two rows");
            }
        }
        // A partition without acknowledgements may have a row.
        rows.retain(|partition, row| {
            *row != (ErrorCode::NONE, None) || expected.acknowledged.contains_key(partition)
        });
        assert_eq!(rows, expected.acknowledged, "{context}");
        self.counts.rows += rows.len();
        self.counts.acknowledges += 1;
    }

    fn compare_fetch(
        &mut self,
        now: Duration,
        line: usize,
        request: &ShareFetchRequest,
        expected: &Expected,
        response: &ShareFetchResponse,
        context: &str,
    ) {
        assert_eq!(response.error_code, expected.top, "{context}: {expected:?}");
        assert_eq!(response.acquisition_lock_timeout_ms, expected.lock_timeout_ms, "{context}");
        self.counts.fetches += 1;
        let key = key_of(request);
        let (mut acknowledged, mut acquired, mut listed) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for topic in &response.responses {
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                assert!(listed.insert(partition), "{context}: two rows");
                let code = if request.is_renew_ack || row.error_code.is_ok() && !expected.fetches {
                    ErrorCode::NONE
                } else {
                    self.fetch_error(&key, partition)
                };
                assert_eq!(row.error_code, code, "{context} {partition}");
                let outcome = (row.acknowledge_error_code, row.acknowledge_error_message.as_deref());
                acknowledged.insert(partition, outcome);
                let ranges = row.acquired_records.iter();
                let ranges: Vec<Range> = ranges
                    .map(|range| (range.first_offset, range.last_offset, range.delivery_count))
                    .collect();
                if !ranges.is_empty() {
                    acquired.push((partition, ranges));
                }
            }
        }
        self.counts.rows += acknowledged.len();
        assert!(expected.rows.is_subset(&listed), "{context}: {:?}, not {listed:?}", expected.rows);
        acknowledged.retain(|partition, outcome| {
            *outcome != (ErrorCode::NONE, None) || expected.acknowledged.contains_key(partition)
        });
        assert_eq!(acknowledged, expected.acknowledged, "{context}");
        assert!(expected.fetches || acquired.is_empty(), "{context}: records");
        self.acquire(now, line, request, &acquired, context);
        if expected.fetches {
            self.must_have_news(&key, &listed, context);
            self.count_loading(now, request, &acquired);
        }
    }

    /// Partitions with an error are told each time.
    fn must_have_news(&self, key: &SessionKey, listed: &BTreeSet<TopicIdPartition>, context: &str) {
        for partition in self.sessions.get(key).into_iter().flat_map(|session| session.partitions()) {
            let told = listed.contains(&partition) || self.fetch_error(key, partition).is_ok();
            assert!(told, "{context}: no row for {partition}");
        }
    }

    /// Acquires what the broker acquired, in the order of its rows or the other way round.
    fn acquire(
        &mut self,
        now: Duration,
        line: usize,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
        context: &str,
    ) {
        if acquired.is_empty() {
            return;
        }
        let backwards: Vec<_> = acquired.iter().rev().cloned().collect();
        let mut problem = String::new();
        for attempt in 0..2 {
            for order in [acquired, &backwards] {
                match self.acquire_in(now, request, order) {
                    Ok(()) => {
                        self.counts.ranges += acquired.iter().map(|(_, ranges)| ranges.len()).sum::<usize>();
                        return;
                    }
                    Err(difference) => problem = difference,
                }
            }
            if attempt == 0 {
                self.end_connections(line, request, acquired);
            }
        }
        panic!("{context}: {problem}");
    }

    fn acquire_in(
        &mut self,
        now: Duration,
        request: &ShareFetchRequest,
        order: &[(TopicIdPartition, Vec<Range>)],
    ) -> Result<(), String> {
        let key = key_of(request);
        let mut left = request.max_records;
        let mut changed = Vec::new();
        for (partition, ranges) in order {
            let id = (key.group_id.clone(), *partition);
            let share = self.shares.get(&id).ok_or("not loaded")?;
            let log = &self.logs[partition];
            changed.push((id, acquire_like(share, now, &key.member_id, log, request, left, ranges)?));
            left -= ranges.iter().map(|(first, last, _)| (last - first + 1) as i32).sum::<i32>();
        }
        self.shares.extend(changed);
        Ok(())
    }

    /// The broker handed out what somebody has acquired here: if that one's connection has no more frames, it has ended.
    fn end_connections(
        &mut self,
        line: usize,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
    ) {
        let group_id = request.group_id.clone().unwrap();
        let mut owners = BTreeSet::new();
        for (partition, _) in acquired {
            let share = self.shares.get(&(group_id.clone(), *partition));
            for (state, owner) in share.into_iter().flat_map(SharePartition::states) {
                if state.delivery_state == DeliveryState::Acquired {
                    owners.insert(SessionKey::new(group_id.clone(), owner.unwrap()));
                }
            }
        }
        for owner in owners {
            let connection = self.sessions.get(&owner).map(|session| session.connection().0);
            if let Some(connection) = connection.filter(|connection| self.last_lines[connection] < line) {
                self.disconnect(connection);
            }
        }
    }

    /// Counts partitions from which more could have been acquired.
    fn count_loading(
        &mut self,
        now: Duration,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
    ) {
        let key = key_of(request);
        let records = acquired.iter().flat_map(|(_, ranges)| ranges);
        let left =
            request.max_records - records.map(|(first, last, _)| (last - first + 1) as i32).sum::<i32>();
        let session: Vec<_> = self.sessions.get(&key).into_iter().flat_map(|of| of.partitions()).collect();
        for partition in session {
            let (Some(share), Some(log)) =
                (self.shares.get(&(key.group_id.clone(), partition)), self.logs.get(&partition))
            else {
                continue;
            };
            let fresh = acquired.iter().all(|(of, _)| *of != partition);
            if fresh && acquire_like(share, now, &key.member_id, log, request, left, &[]).is_err() {
                self.counts.loading += 1;
            }
        }
    }
}

/// Acquires what the broker acquired, if that is possible about now.
fn acquire_like(
    share: &SharePartition,
    now: Duration,
    member_id: &str,
    log: &[RecordBatchRange],
    request: &ShareFetchRequest,
    max_records: i32,
    ranges: &[Range],
) -> Result<SharePartition, String> {
    let mut problem = String::new();
    let limits = Acquire {
        mode: ShareAcquireMode::from_number(request.share_acquire_mode).unwrap(),
        max_records,
        batch_size: request.batch_size,
        ..Default::default()
    };
    // Timers of records that have states of their own run out one after the other in the broker, so that a fetch may
    // find only the first of them.
    let last = ranges.last().map_or(i64::MAX, |range| range.1);
    let clip =
        |batch: &RecordBatchRange| RecordBatchRange { last_offset: batch.last_offset.min(last), ..*batch };
    let clipped: Vec<_> = log.iter().filter(|batch| batch.base_offset <= last).map(clip).collect();
    for at in [now.saturating_sub(SLACK), now, now + SLACK] {
        for log in [log, &clipped] {
            let mut share = share.clone();
            share.expire(at);
            let acquired = fetch_as(&mut share, now, member_id, log, &limits);
            if acquired == ranges {
                return Ok(share);
            }
            problem = format!("acquires {acquired:?}, the broker {ranges:?}");
        }
    }
    Err(problem)
}

fn key_of<R: ShareRequest>(request: &R) -> SessionKey {
    SessionKey::new(request.group_id().unwrap_or_default(), request.member_id().unwrap_or_default())
}

fn partition_of(refusal: &Refusal) -> Option<TopicIdPartition> {
    match refusal.level {
        Level::Top => None,
        Level::Partition(partition) | Level::Acknowledge(partition) => Some(partition),
    }
}
