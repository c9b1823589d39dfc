//! Members, a broker and a network in simulated time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::rebalance::{
    Assignor, Config, ConsumerRecords, Destination, Event, GroupProtocol, Member, Outgoing, Request,
    RequestId, Response,
};

use super::app::{App, Policy};
use super::chance::Chance;
use super::coordinator::{Broker, Call};
use super::watch::Watch;
use super::wire;

/// The three protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Eager,
    Cooperative,
    Consumer,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Eager, Kind::Cooperative, Kind::Consumer];

/// What kind of a day it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// Members come and go, subscriptions change, topics grow. All programs drain.
    Fair,
    /// Besides, connections break, errors are answered, members are thrown out, programs hang or do not drain.
    Foul,
}

pub(super) struct Node {
    pub(super) member: Member,
    pub(super) app: App,
    pub(super) watch: Watch,
    pub(super) name: String,
    policy: Policy,
    /// Requests on their way over the connection to the coordinator, which reads one when the one before is answered.
    wire: VecDeque<(Duration, Call)>,
    reading: Option<Call>,
    /// When the program does something next.
    next: Duration,
    /// Something has been told to the member, and what it wants to send has to be taken.
    is_touched: bool,
    /// The member's, when nothing more was told to it.
    deadline: Option<Duration>,
    is_closing: bool,
    pub(super) is_gone: bool,
    topics: Vec<&'static str>,
}

impl Node {
    /// What it is subscribed to.
    pub(super) fn topics(&self) -> impl Iterator<Item = &'static str> {
        self.topics.iter().copied()
    }
}

struct Sent {
    node: usize,
    id: RequestId,
    request: Request,
    version: i16,
}

pub(super) struct World {
    pub(super) now: Duration,
    pub(super) broker: Broker,
    pub(super) nodes: Vec<Node>,
    kind: Kind,
    weather: Weather,
    chance: Chance,
    /// By API, the highest version that the broker has.
    versions: BTreeMap<i16, i16>,
    is_static: bool,
    calls: BTreeMap<Call, Sent>,
    next_call: u64,
    /// Answers on their way.
    answers: BTreeMap<(Duration, Call), Response>,
    /// Nothing more goes wrong, and nobody comes or goes.
    is_calm: bool,
}

/// Of both the classic and the consumer protocol.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);

/// The longest pause after a failure.
pub(super) const RETRY_BACKOFF_MAX: Duration = Duration::from_millis(400);

const TOPICS: [(&str, i32); 2] = [("orders", 4), ("payments", 3)];

impl World {
    pub(super) fn new(kind: Kind, weather: Weather, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let is_static = chance.once_in(4);
        // A static member needs the versions that have an instance id.
        let mut pick = |min: i16, with_instance: i16, max: i16| {
            let min = if is_static { with_instance } else { min };
            min + i16::try_from(chance.below(u64::try_from(max - min + 1).expect("a range"))).expect("small")
        };
        let versions = [
            (ApiKey::FIND_COORDINATOR, pick(0, 0, 6)),
            (ApiKey::METADATA, if kind == Kind::Consumer { pick(10, 10, 13) } else { pick(0, 0, 13) }),
            (ApiKey::JOIN_GROUP, pick(1, 5, 9)),
            (ApiKey::SYNC_GROUP, pick(0, 3, 5)),
            (ApiKey::HEARTBEAT, pick(0, 3, 4)),
            (ApiKey::LEAVE_GROUP, pick(0, 3, 5)),
            (ApiKey::OFFSET_COMMIT, pick(2, 7, 10)),
            (ApiKey::OFFSET_FETCH, pick(1, 1, 10)),
            (ApiKey::CONSUMER_GROUP_HEARTBEAT, pick(0, 0, 1)),
        ];
        let mut broker = Broker::new(kind == Kind::Consumer, HEARTBEAT_INTERVAL, &TOPICS);
        broker.consumer.is_fickle = seed & 2 != 0;
        Self {
            now: Duration::ZERO,
            broker,
            nodes: Vec::new(),
            kind,
            weather,
            chance,
            versions: versions.into_iter().map(|(api, version)| (api.into(), version)).collect(),
            is_static,
            calls: BTreeMap::new(),
            next_call: 0,
            answers: BTreeMap::new(),
            is_calm: false,
        }
    }

    /// Runs a whole day and its calm evening.
    pub(super) fn run(&mut self) {
        self.start();
        while self.now < Duration::from_secs(20) {
            self.step();
        }
        self.is_calm = true;
        for node in self.nodes.iter_mut().filter(|node| !node.is_closing) {
            node.policy = Policy::Drain;
        }
        while self.now < Duration::from_secs(45) {
            self.step();
        }
    }

    /// Members that are meant to be in the group.
    pub(super) fn living(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_gone && !node.is_closing && node.member.failure().is_none())
    }

    /// Static members do not leave a classic group; and before version 4 of `JoinGroup`, those that close while they join
    /// for the first time cannot, since they do not know their member id.
    pub(super) fn members_can_leave(&self) -> bool {
        !self.is_static && self.versions[&ApiKey::JOIN_GROUP.into()] >= 4
    }

    fn start(&mut self) {
        let index = self.nodes.len();
        let protocol = match self.kind {
            Kind::Eager => {
                GroupProtocol::Classic { assignors: vec![Assignor::Range, Assignor::CooperativeSticky] }
            }
            Kind::Cooperative => GroupProtocol::Classic { assignors: vec![Assignor::CooperativeSticky] },
            Kind::Consumer => {
                GroupProtocol::Consumer { member_id: format!("id-{index}").into(), server_assignor: None }
            }
        };
        let config = Config {
            group_instance_id: self.is_static.then(|| format!("instance-{index}").into()),
            session_timeout: Duration::from_secs(3),
            heartbeat_interval: HEARTBEAT_INTERVAL,
            max_poll_interval: Duration::from_secs(10),
            request_timeout: Duration::from_secs(2),
            api_timeout: Duration::from_secs(6),
            retry_backoff: Duration::from_millis(50),
            retry_backoff_max: RETRY_BACKOFF_MAX,
            metadata_max_age: Duration::from_secs(2),
            ..Config::new("group", protocol)
        };
        let mut member = Member::new(config);
        let topics = self.topics();
        member.subscribe(topics.clone(), self.now).expect("open");
        let policy = match self.weather {
            Weather::Fair => Policy::Drain,
            Weather::Foul => *self.chance.pick(&[Policy::Drain, Policy::NextPoll, Policy::Waive]),
        };
        self.nodes.push(Node {
            member,
            app: App::default(),
            watch: Watch::new(self.kind, self.weather),
            name: format!("{:?} node {index}", self.kind),
            policy,
            wire: VecDeque::new(),
            reading: None,
            next: self.now,
            is_touched: true,
            deadline: None,
            is_closing: false,
            is_gone: false,
            topics,
        });
        self.drive(index);
    }

    fn topics(&mut self) -> Vec<&'static str> {
        if self.chance.once_in(3) { vec![TOPICS[0].0] } else { vec![TOPICS[0].0, TOPICS[1].0] }
    }

    /// Goes to the next moment at which something happens.
    fn step(&mut self) {
        let mut next = self.now + Duration::from_millis(40);
        next = next.min(self.answers.keys().next().map_or(next, |&(at, _)| at));
        for node in self.nodes.iter().filter(|node| !node.is_gone) {
            next = next.min(node.next);
            if let (None, Some(&(at, _))) = (node.reading, node.wire.front()) {
                next = next.min(at);
            }
            if let Some(deadline) = node.member.deadline(self.now) {
                assert!(
                    deadline > self.now,
                    "{}: a deadline of {deadline:?} is not met at {:?}",
                    node.name,
                    self.now
                );
                next = next.min(deadline);
            }
        }
        self.now = next.max(self.now);
        self.broker.tick(self.now);
        self.deliver();
        for index in 0..self.nodes.len() {
            self.read(index);
            if self.nodes[index].is_gone {
                continue;
            }
            if self.nodes[index].next <= self.now {
                self.act(index);
            }
            let node = &self.nodes[index];
            if node.is_touched || node.deadline.is_some_and(|deadline| deadline <= self.now) {
                self.drive(index);
            }
        }
        self.collect();
        if !self.is_calm && self.chance.once_in(60) {
            self.happen();
            (0..self.nodes.len()).for_each(|index| self.drive(index));
        }
    }

    /// What happens to the group.
    fn happen(&mut self) {
        let living: Vec<_> = (0..self.nodes.len())
            .filter(|&index| !self.nodes[index].is_closing && !self.nodes[index].is_gone)
            .collect();
        let foul = self.weather == Weather::Foul;
        match self.chance.below(if foul { 16 } else { 6 }) {
            0 | 1 if living.len() < 4 => self.start(),
            2 if living.len() > 1 => self.nodes[*self.chance.pick(&living)].is_closing = true,
            3 => {
                let topics = self.topics();
                let node = &mut self.nodes[*self.chance.pick(&living)];
                if node.member.failure().is_none() {
                    node.topics.clone_from(&topics);
                    node.member.subscribe(topics, self.now).expect("open");
                }
            }
            4 if self.chance.once_in(3) => self.broker.grow(TOPICS[0].0),
            6..=8 => {
                let index = *self.chance.pick(&living);
                self.disconnect(index);
            }
            9 => {
                let member_id = self.nodes[*self.chance.pick(&living)].member.member_id();
                self.broker.kick(&member_id, self.now);
                self.collect();
            }
            // The program hangs, perhaps for longer than the poll interval.
            10 => {
                let pause = self.chance.millis(1000, 14_000);
                self.nodes[*self.chance.pick(&living)].next = self.now + pause;
            }
            // The process dies.
            11 if living.len() > 1 => self.nodes[*self.chance.pick(&living)].is_gone = true,
            12 => {
                let index = *self.chance.pick(&living);
                let topics = self.nodes[index].topics.clone();
                let node = &mut self.nodes[index];
                node.member.unsubscribe(self.now);
                node.watch.unsubscribed(&node.member);
                if node.member.failure().is_none() {
                    node.member.subscribe(topics, self.now).expect("open");
                }
            }
            _ => {}
        }
    }

    fn disconnect(&mut self, index: usize) {
        self.hang_up(index);
        self.nodes[index].member.disconnected(self.now);
    }

    /// Closes a connection on which something is in flight that the member does not wait for any more.
    fn hang_up_in_vain(&mut self, index: usize) {
        let node = &self.nodes[index];
        let waits = |call: &Call| self.calls.get(call).is_none_or(|sent| node.member.is_waiting_for(sent.id));
        if !node.reading.iter().chain(node.wire.iter().map(|(_, call)| call)).all(waits) {
            self.hang_up(index);
        }
    }

    fn hang_up(&mut self, index: usize) {
        let lost: BTreeSet<Call> =
            self.calls.iter().filter(|(_, sent)| sent.node == index).map(|(call, _)| *call).collect();
        self.calls.retain(|call, _| !lost.contains(call));
        self.answers.retain(|(_, call), _| !lost.contains(call));
        let node = &mut self.nodes[index];
        node.wire.clear();
        node.reading = None;
    }

    /// The program's turn.
    fn act(&mut self, index: usize) {
        let Self { nodes, chance, now, .. } = self;
        let node = &mut nodes[index];
        node.next = *now + chance.millis(5, 120);
        node.is_touched = true;
        node.app.process(chance);
        node.app.fetched(&node.member, chance, *now);
        if chance.once_in(20) {
            node.app.seek(chance);
        }
        if chance.once_in(2) {
            if let Some((id, partitions)) = node.app.commit(&mut node.member, *now) {
                node.watch.queued(id, partitions, &node.member);
            }
            node.watch.refused(&std::mem::take(&mut node.app.refused), &node.member);
        }
        node.watch.try_lost(&mut node.member, &node.app.lost, *now);
        node.app.fetch(&node.member, chance, *now);
        if node.is_closing {
            let drained = node.app.is_all_drained() || node.policy != Policy::Drain;
            if drained && !node.member.is_finished() {
                node.member.close(Duration::from_secs(5), *now);
                node.watch.closed();
            }
        }
        if chance.once_in(2) {
            self.poll(index);
        }
    }

    fn poll(&mut self, index: usize) {
        let Self { nodes, chance, now, .. } = self;
        let node = &mut nodes[index];
        let to_be_revoked: Vec<_> = node.member.to_be_revoked_partitions().cloned().collect();
        match node.policy {
            Policy::Drain => {
                for partition in &to_be_revoked {
                    if node.app.is_drained(partition) {
                        assert!(node.member.release(partition));
                    } else {
                        assert!(node.member.hold(partition));
                    }
                }
            }
            Policy::NextPoll => {}
            Policy::Waive if !to_be_revoked.is_empty() => {
                node.member.waive_commits();
                node.watch.waived(&to_be_revoked);
            }
            Policy::Waive => {}
        }
        node.watch.before_poll(&node.member);
        let ConsumerRecords { records, changes } = node.app.poll(&mut node.member, chance, *now);
        node.watch.polled(&changes, &node.member);
        node.watch.handed_out(&records, &node.member);
    }

    /// Sends what the member wants to send, and takes its events.
    fn drive(&mut self, index: usize) {
        if self.nodes[index].is_gone {
            return;
        }
        while let Some(Outgoing { id, to, request, .. }) = self.nodes[index].member.next_request(self.now) {
            let node = &mut self.nodes[index];
            Self::take_events(node);
            node.watch.sent(&request, &node.member, self.now);
            let version = request.version(self.versions[&request.api_key().into()]);
            let read =
                wire::request(&request, version).unwrap_or_else(|error| panic!("{}: {error}", node.name));
            self.hang_up_in_vain(index);
            let node = &mut self.nodes[index];
            self.next_call += 1;
            let call = Call(self.next_call);
            self.calls.insert(call, Sent { node: index, id, request: read, version });
            let at = self.now + self.chance.millis(1, 15);
            match to {
                Destination::Any => self.handle(call),
                Destination::Coordinator(_) => {
                    let after = node.wire.back().map_or(at, |&(before, _)| before.max(at));
                    node.wire.push_back((after, call));
                }
            }
        }
        let node = &mut self.nodes[index];
        Self::take_events(node);
        node.watch.check(&node.member, &node.name);
        let is_heartbeat =
            |request: &Request| matches!(request, Request::Heartbeat(_) | Request::ConsumerGroupHeartbeat(_));
        let awaited = self.calls.values().any(|sent| {
            sent.node == index && is_heartbeat(&sent.request) && node.member.is_waiting_for(sent.id)
        });
        node.watch.heartbeats_go_on(&node.member, awaited, self.now);
        node.is_touched = false;
        node.deadline = node.member.deadline(self.now);
        if node.is_closing && node.member.is_finished() {
            node.is_gone = true;
        }
    }

    fn take_events(node: &mut Node) {
        while let Some(event) = node.member.next_event() {
            match &event {
                Event::GivenUp(partitions) => node.app.given_up(partitions),
                Event::Committed(result) => node.app.committed(result),
                _ => {}
            }
            node.watch.event(&event, &node.member);
        }
    }

    /// The coordinator reads the next request of a connection.
    fn read(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if let (None, Some(&(at, call))) = (node.reading, node.wire.front())
            && at <= self.now
        {
            node.wire.pop_front();
            node.reading = Some(call);
            self.handle(call);
        }
    }

    fn handle(&mut self, call: Call) {
        let sent = &self.calls[&call];
        let foul = self.weather == Weather::Foul && !self.is_calm;
        if foul
            && self.chance.once_in(25)
            && let Some(response) = refusal(&sent.request, sent.version, &mut self.chance)
        {
            return self.answer(call, response);
        }
        let (request, version) = (sent.request.clone(), sent.version);
        self.broker.handle(call, request, version, self.now);
        self.collect();
    }

    /// Sends the broker's answers on their way.
    fn collect(&mut self) {
        for (call, response) in self.broker.take_answers() {
            self.answer(call, response);
        }
    }

    fn answer(&mut self, call: Call, response: Response) {
        // The connection may have broken meanwhile.
        let Some(sent) = self.calls.get(&call) else { return };
        let response = wire::response(&response, sent.version);
        let at = self.now + self.chance.millis(1, 15);
        self.answers.insert((at, call), response);
    }

    /// Hands over the answers that have arrived.
    fn deliver(&mut self) {
        while let Some(entry) = self.answers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((_, call), response) = entry.remove_entry();
            let sent = self.calls.remove(&call).expect("it was sent");
            let node = &mut self.nodes[sent.node];
            if node.reading == Some(call) {
                node.reading = None;
            }
            if node.is_gone {
                continue;
            }
            let waits = node.member.is_waiting_for(sent.id);
            node.is_touched = true;
            node.member.receive(sent.id, response.clone(), self.now);
            if waits {
                node.watch.received(&sent.request, &response, self.now);
            }
            Self::take_events(node);
        }
    }
}

/// An error that a broker may answer with, although it has done nothing.
fn refusal(request: &Request, version: i16, chance: &mut Chance) -> Option<Response> {
    const COORDINATOR: [ErrorCode; 3] = [
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
    ];
    const MEMBER: [ErrorCode; 3] =
        [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION, ErrorCode::REBALANCE_IN_PROGRESS];
    let mut code = |more: &[ErrorCode]| {
        if chance.once_in(3) && !more.is_empty() { *chance.pick(more) } else { *chance.pick(&COORDINATOR) }
    };
    Some(match request {
        Request::JoinGroup(request) => JoinGroupResponse {
            error_code: code(&MEMBER[..2]),
            generation_id: -1,
            member_id: request.member_id.clone(),
            protocol_name: Some("".into()),
            ..Default::default()
        }
        .into(),
        Request::SyncGroup(_) => SyncGroupResponse { error_code: code(&MEMBER), ..Default::default() }.into(),
        Request::Heartbeat(_) => HeartbeatResponse { error_code: code(&MEMBER), ..Default::default() }.into(),
        Request::ConsumerGroupHeartbeat(request) if request.member_epoch >= 0 => {
            let error_code = code(&[ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID]);
            ConsumerGroupHeartbeatResponse { error_code, ..Default::default() }.into()
        }
        Request::OffsetCommit(request) => {
            let error_code = code(&[
                ErrorCode::REBALANCE_IN_PROGRESS,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode::UNKNOWN_MEMBER_ID,
                ErrorCode::OFFSET_METADATA_TOO_LARGE,
            ]);
            let topics =
                request.topics.iter().map(|topic| offset_commit_response::OffsetCommitResponseTopic {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|row| offset_commit_response::OffsetCommitResponsePartition {
                            partition_index: row.partition_index,
                            error_code,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                });
            OffsetCommitResponse { topics: topics.collect(), ..Default::default() }.into()
        }
        Request::OffsetFetch(_) if (2..8).contains(&version) => {
            OffsetFetchResponse { error_code: code(&[]), ..Default::default() }.into()
        }
        Request::OffsetFetch(_) if version >= 8 => {
            let group = offset_fetch_response::OffsetFetchResponseGroup {
                error_code: code(&[ErrorCode::UNSTABLE_OFFSET_COMMIT]),
                ..Default::default()
            };
            OffsetFetchResponse { groups: vec![group], ..Default::default() }.into()
        }
        _ => return None,
    })
}
