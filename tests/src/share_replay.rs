//! Replays every ShareFetch and ShareAcknowledge that a broker was sent in `tests/share/raw-*.jsonl.gz` against
//! `validate`, the session cache and the acquisition locks, and compares what they say with its answers.
//!
//! What the broker decided by itself is taken from it: when a fetch is answered, from which of several partitions, and when
//! a connection ended, which the recordings do not have. Locks may run out 30 ms earlier or later than here.

mod answer;
mod compare;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kafka_protocol::messages::{IncrementalAlterConfigsRequest, ProduceRequest, ShareFetchRequest};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::Batches;
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::locks::{LockConfig, PersistedState, RecordBatchRange, SharePartition};
use kafka_protocol::share::sessions::{ConnectionId, SessionKey, ShareSessionCache};
use kafka_protocol::share::validate::{BrokerState, Session, ShareRequest};
use kafka_protocol::wire::{Str, Uuid};

use crate::share_recording::{Body, Frame, NAMES, last_lines, read};

/// How far the broker's timers were from ours.
const SLACK: Duration = Duration::from_millis(30);

/// Groups without a configuration of their own have this one in the recordings.
const LOCK_DURATION: Duration = Duration::from_millis(5000);

/// Ends of connections that no fetch tells: recording, line in front of which it was, connection. (C5g: closed first, then
/// the same member opens a session over another connection.)
const CLOSED: [(&str, usize, u64); 1] = [("edge", 21, 2)];

/// Frames that the broker reads and we refuse to decode: recording, line, why.
const STRICTER: [(&str, usize, &str); 5] = [
    ("malformed", 18, "varint is longer than it has to be"),
    ("malformed", 20, "varint is longer than it has to be"),
    ("malformed", 26, "tag 7 comes after tag 9"),
    ("malformed", 28, "2 bytes after the end of the message"),
    ("malformed", 39, "not UTF-8 from byte 0 of the string on"),
];

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
        Counts { fetches: 1069, acknowledges: 264, rows: 488, ranges: 223, undecodable: 18, loading: 26 };
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
    Acknowledge,
}

/// What we answer.
#[derive(Debug, Default)]
struct Expected {
    top: ErrorCode,
    /// Codes and messages of acknowledgements; these partitions have a row, and no others do but for what is fetched.
    acknowledged: BTreeMap<TopicIdPartition, (ErrorCode, Option<&'static str>)>,
    /// Codes of fetching from the partitions that the request lists, where that is an error.
    refused: BTreeMap<TopicIdPartition, ErrorCode>,
    lock_timeout_ms: i32,
    /// Whether something is fetched, if only the codes of partitions.
    fetches: bool,
    /// Whether records are.
    fetches_records: bool,
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
            matches!(frame.body, Body::FetchAnswer(_) | Body::AcknowledgeAnswer(_) | Body::HeartbeatAnswer)
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
            sessions: ShareSessionCache::new(2000).imitate_defects(true),
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
                let request = Request::Acknowledge;
                self.in_flight.insert(id, InFlight { request, version: frame.version, expected });
            }
            Body::FetchAnswer(response) => match self.in_flight.remove(&id) {
                Some(InFlight { request: Request::Fetch(request), expected, .. }) => {
                    self.compare_fetch(now, frame.line, &request, &expected, &response, context);
                }
                _ => panic!("{context}: all fetches that were answered can be decoded"),
            },
            Body::AcknowledgeAnswer(response) => match self.in_flight.remove(&id) {
                Some(InFlight { request: Request::Acknowledge, version, expected }) => {
                    self.compare_acknowledge(version, &expected, &response, context);
                }
                // The broker has read what is refused here, and has found that there is no session.
                _ => assert_eq!(response.error_code, ErrorCode::SHARE_SESSION_NOT_FOUND, "{context}"),
            },
            Body::Undecodable(why) => {
                let (name, line) = (self.name, frame.line);
                if self.answered.contains(&id) {
                    let stricter = STRICTER.iter().find(|of| (of.0, of.1) == (name, line));
                    assert!(stricter.is_some_and(|of| why.ends_with(of.2)), "{context}: {why}");
                }
                self.counts.undecodable += 1;
                if !self.answered.contains(&id) {
                    self.disconnect(frame.connection);
                }
            }
            Body::HeartbeatAnswer | Body::Other => {}
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
}

fn key_of<R: ShareRequest>(request: &R) -> SessionKey {
    SessionKey::new(request.group_id().unwrap_or_default(), request.member_id().unwrap_or_default())
}
