//! What Kafka's own consumers sent: our members send the same when they get the same answers.

use std::collections::VecDeque;
use std::time::Duration;

use kafka_protocol::connection;
use kafka_protocol::messages::{OffsetCommitRequest, ResponseHeader};
use kafka_protocol::protocol::{ApiKey, Message};
use kafka_protocol::rebalance::{
    Assignor, Config, GroupProtocol, Member, OffsetAndMetadata, Outgoing, Request, RequestId, Response,
    TopicPartition,
};
use kafka_protocol::wire::{Bytes, Str};
use serde_json::Value;

use super::wire;
use crate::fixture::unhex;

const TOPIC: &str = "orders-demo";

struct Frame {
    connection: i64,
    at: Duration,
    is_request: bool,
    api: ApiKey,
    version: i16,
    body: Bytes,
}

fn frames(recording: &str) -> Vec<Frame> {
    let frame = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let api = ApiKey::from_name(value["api"].as_str().expect("a name")).expect("an API");
        let version = i16::try_from(value["version"].as_i64().expect("a version")).expect("small");
        let is_request = value["dir"] == ">";
        let mut body = unhex(value["hex"].as_str().expect("hex"));
        if is_request {
            connection::decode_request_header(&mut body).expect("a header");
        } else {
            let header = api.api().expect("known").response_header.of(version);
            ResponseHeader::decode_prefix(&mut body, header).expect("a header");
        }
        Frame {
            connection: value["conn"].as_i64().expect("a number"),
            at: Duration::from_millis(value["ms"].as_u64().expect("a time")),
            is_request,
            api,
            version,
            body,
        }
    };
    recording.lines().map(frame).collect()
}

/// A member that is led through a recording.
struct Replay {
    member: Member,
    /// What it has sent and the recording has not come to.
    sent: VecDeque<Outgoing>,
    compared: Vec<ApiKey>,
}

impl Replay {
    fn collect(&mut self, now: Duration) {
        while let Some(outgoing) = self.member.next_request(now) {
            // The recording has those on another connection.
            match &outgoing.request {
                Request::Metadata(_) => {
                    self.member.receive(outgoing.id, metadata().into(), now);
                }
                _ => self.sent.push_back(outgoing),
            }
        }
    }

    /// Our request in the place of a recorded one.
    fn request(&mut self, frame: &Frame) -> Option<RequestId> {
        let theirs = wire::decode_request(frame.api, &frame.body, frame.version).expect("of a group");
        self.prepare(&theirs, frame);
        // The program asked for committed offsets, for reasons of its own.
        if let (Request::OffsetFetch(_), None) = (&theirs, self.position(frame.api)) {
            return None;
        }
        let position =
            self.position(frame.api).unwrap_or_else(|| panic!("no {} at {:?}", frame.api, frame.at));
        let ours = self.sent.remove(position).expect("just found");
        let version = ours.request.version(frame.version);
        assert_eq!(version, frame.version, "{}", frame.api);
        let read = wire::request(&ours.request, version).expect("can be encoded");
        assert_eq!(normal(read), normal(theirs), "{} at {:?}", frame.api, frame.at);
        self.compared.push(frame.api);
        Some(ours.id)
    }

    fn position(&self, api: ApiKey) -> Option<usize> {
        self.sent.iter().position(|outgoing| outgoing.request.api_key() == api)
    }

    /// What the program did to make its consumer send that.
    fn prepare(&mut self, theirs: &Request, frame: &Frame) {
        match theirs {
            Request::OffsetCommit(request) => {
                self.member.poll(frame.at);
                let offsets = offsets(request);
                self.member.commit(offsets, frame.at).expect("of partitions that it has");
            }
            Request::LeaveGroup(_) => self.member.close(Duration::from_secs(30), frame.at),
            Request::ConsumerGroupHeartbeat(request) if request.member_epoch < 0 => {
                self.member.close(Duration::from_secs(30), frame.at);
            }
            _ => drop(self.member.poll(frame.at)),
        }
        self.collect(frame.at);
        if self.position(frame.api).is_none() && !self.member.is_finished() {
            self.member.poll(frame.at);
            self.collect(frame.at);
        }
    }
}

fn offsets(request: &OffsetCommitRequest) -> Vec<(TopicPartition, OffsetAndMetadata)> {
    let rows = request.topics.iter().flat_map(|topic| &topic.partitions);
    let offset = |row: &kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition| {
        let leader_epoch = row.committed_leader_epoch;
        let metadata = row.committed_metadata.clone().unwrap_or_default();
        let offset = OffsetAndMetadata { offset: row.committed_offset, leader_epoch, metadata };
        (TopicPartition::new(TOPIC, row.partition_index), offset)
    };
    rows.map(offset).collect()
}

/// What the broker knows of the topic.
fn metadata() -> kafka_protocol::messages::MetadataResponse {
    use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
    let topic = MetadataResponseTopic {
        name: Some(TOPIC.into()),
        topic_id: "a4fe16e9-87f4-4720-8d54-504eeb178f2f".parse().expect("an id"),
        partitions: vec![MetadataResponsePartition::default(); 2],
        ..Default::default()
    };
    kafka_protocol::messages::MetadataResponse { topics: vec![topic], ..Default::default() }
}

/// Without what may differ: words for the broker's log, and the order of rows.
fn normal(mut request: Request) -> Request {
    match &mut request {
        Request::JoinGroup(request) => request.reason = None,
        Request::LeaveGroup(request) => request.members.iter_mut().for_each(|member| member.reason = None),
        Request::SyncGroup(request) => {
            request.assignments.sort_by(|one, two| one.member_id.cmp(&two.member_id));
        }
        _ => {}
    }
    request
}

fn replay(recording: &str, of: i64, protocol: GroupProtocol) -> Vec<ApiKey> {
    let frames = frames(recording);
    let mine =
        || frames.iter().filter(|frame| frame.connection == of && frame.api != ApiKey::FIND_COORDINATOR);
    let first = mine().next().expect("some");
    let group: Str =
        if first.api == ApiKey::JOIN_GROUP { "classic-group-demo" } else { "consumer-group-demo" }.into();
    let config = Config {
        session_timeout: Duration::from_secs(6),
        // Theirs is 500 ms from the answer to `JoinGroup`, ours counts from that to `SyncGroup`.
        heartbeat_interval: Duration::from_millis(290),
        ..Config::new(group, protocol)
    };
    let mut replay = Replay { member: Member::new(config), sent: VecDeque::new(), compared: Vec::new() };
    replay.member.subscribe([TOPIC], first.at).expect("open");
    replay.collect(first.at);
    // The recording has this one on the connection before.
    let lookup = replay.sent.pop_front().expect("a look-up");
    let answer = frames.iter().find(|frame| frame.api == ApiKey::FIND_COORDINATOR && !frame.is_request);
    let answer = answer.expect("an answer");
    let answer = wire::decode_response(answer.api, &answer.body, answer.version).expect("of a group");
    replay.member.receive(lookup.id, answer, first.at);
    assert_eq!(replay.member.coordinator().map(|node| &*node.host), Some("127.0.0.1"));

    let mut waiting = VecDeque::new();
    for frame in mine() {
        if frame.is_request {
            waiting.push_back((frame.api, replay.request(frame)));
            continue;
        }
        let at = waiting.iter().position(|(api, _)| *api == frame.api).expect("it was asked for");
        let Some((_, Some(id))) = waiting.remove(at) else { continue };
        let response: Response =
            wire::decode_response(frame.api, &frame.body, frame.version).expect("of a group");
        replay.member.receive(id, response, frame.at);
        replay.collect(frame.at);
    }
    assert!(replay.member.is_finished() && replay.member.failure().is_none());
    replay.compared
}

fn count(compared: &[ApiKey], api: ApiKey) -> usize {
    compared.iter().filter(|&&of| of == api).count()
}

fn classic(of: i64) -> Vec<ApiKey> {
    let protocol = GroupProtocol::Classic { assignors: vec![Assignor::CooperativeSticky] };
    replay(include_str!("../../cases/group-classic.jsonl"), of, protocol)
}

fn consumer(of: i64, member_id: &str) -> Vec<ApiKey> {
    let protocol = GroupProtocol::Consumer { member_id: member_id.into(), server_assignor: None };
    replay(include_str!("../../cases/group-consumer.jsonl"), of, protocol)
}

/// Joins alone, is the leader, hands a partition over in two rounds, leaves.
#[test]
fn cooperative_leader() {
    let compared = classic(2);
    let counts =
        [ApiKey::JOIN_GROUP, ApiKey::SYNC_GROUP, ApiKey::LEAVE_GROUP].map(|api| count(&compared, api));
    assert_eq!(counts, [4, 3, 1]);
    assert_eq!(count(&compared, ApiKey::OFFSET_COMMIT), 1);
}

/// Joins second, gets nothing in the first round and a partition in the second.
#[test]
fn cooperative_follower() {
    let compared = classic(5);
    let counts =
        [ApiKey::JOIN_GROUP, ApiKey::SYNC_GROUP, ApiKey::LEAVE_GROUP].map(|api| count(&compared, api));
    assert_eq!(counts, [3, 2, 1]);
    assert_eq!(count(&compared, ApiKey::OFFSET_FETCH), 1);
}

/// Joins alone, is asked for a partition, and gives it up.
#[test]
fn consumer_protocol_first() {
    let compared = consumer(3, "dkkPCYtmShCGb_cTAaEYdg");
    assert_eq!(count(&compared, ApiKey::CONSUMER_GROUP_HEARTBEAT), 5);
    assert_eq!(count(&compared, ApiKey::OFFSET_COMMIT), 2);
}

/// Joins second, waits, and gets the partition.
#[test]
fn consumer_protocol_second() {
    let compared = consumer(6, "IiVR97MuT4CVflJSe1CgSQ");
    assert_eq!(count(&compared, ApiKey::CONSUMER_GROUP_HEARTBEAT), 6);
}
