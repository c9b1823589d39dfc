//! A member whose requests are answered by hand.

use std::collections::VecDeque;
use std::time::Duration;

use kafka_protocol::embedded;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{
    Assignor, CommitResult, Config, ConsumerRecords, Event, GroupProtocol, Member, Outgoing, Poll,
    RecordBuffer, Request, RequestId, Response, TopicPartition,
};
use kafka_protocol::wire::{Str, Uuid};

pub(super) const TOPIC: &str = "orders";

pub(super) fn id() -> Uuid {
    Uuid::from_u128(7)
}

pub(super) fn partition(index: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, index)
}

pub(super) struct Desk {
    pub(super) member: Member,
    pub(super) now: Duration,
    pub(super) open: VecDeque<Outgoing>,
    /// The coordinator's epoch or generation.
    pub(super) epoch: i32,
    /// What the group has committed of every partition; -1 is nothing.
    pub(super) committed: i64,
}

pub(super) fn consumer() -> Config {
    let protocol = GroupProtocol::Consumer { member_id: "me".into(), server_assignor: None };
    Config::new("group", protocol)
}

pub(super) fn eager() -> Config {
    Config::new("group", GroupProtocol::Classic { assignors: vec![Assignor::Range] })
}

pub(super) fn cooperative() -> Config {
    Config::new("group", GroupProtocol::Classic { assignors: vec![Assignor::CooperativeSticky] })
}

impl Desk {
    /// Subscribed, with a coordinator.
    pub(super) fn new(config: Config) -> Self {
        let (member, now) = (Member::new(config), Duration::ZERO);
        let mut desk = Self { member, now, open: VecDeque::new(), epoch: 1, committed: 10 };
        desk.member.subscribe([TOPIC], desk.now).expect("open");
        desk.find_coordinator();
        desk
    }

    pub(super) fn find_coordinator(&mut self) {
        let (lookup, _) = self.take(|request| matches!(request, Request::FindCoordinator(_)));
        self.respond(lookup, FindCoordinatorResponse::default());
    }

    /// In the group, with partitions that a poll has reported.
    pub(super) fn joined(config: Config, partitions: &[i32]) -> Self {
        let mut desk = Self::new(config);
        desk.join(partitions);
        desk.fetch_offsets();
        let assigned: Vec<_> = desk.poll().assigned.into_iter().map(|assigned| assigned.partition).collect();
        assert_eq!(assigned, partitions.iter().map(|&index| partition(index)).collect::<Vec<_>>());
        desk
    }

    fn is_consumer(&self) -> bool {
        self.open.iter().any(|outgoing| matches!(outgoing.request, Request::ConsumerGroupHeartbeat(_)))
    }

    /// Answers what the member sends to join.
    pub(super) fn join(&mut self, partitions: &[i32]) {
        self.collect();
        if self.is_consumer() {
            self.heartbeat(Some(partitions));
            self.answer_metadata();
            // That it has them.
            self.heartbeat(None);
        } else {
            let (join, _) = self.join_group();
            self.answer_join(join);
            self.answer_sync(partitions);
        }
    }

    pub(super) fn answer_join(&mut self, join: RequestId) {
        let generation_id = self.epoch;
        let protocol_name = Some(Str::from("range"));
        let (leader, member_id) = ("leader".into(), "me".into());
        self.respond(
            join,
            JoinGroupResponse { generation_id, protocol_name, leader, member_id, ..Default::default() },
        );
    }

    pub(super) fn answer_sync(&mut self, partitions: &[i32]) {
        let (sync, _) = self.take(|request| matches!(request, Request::SyncGroup(_)));
        self.respond(sync, SyncGroupResponse { assignment: assignment(partitions), ..Default::default() });
    }

    pub(super) fn answer_metadata(&mut self) {
        if let Some((request, _)) = self.find(|request| matches!(request, Request::Metadata(_))) {
            let partitions = vec![metadata_response::MetadataResponsePartition::default(); 8];
            let name = Some(TOPIC.into());
            let topic = metadata_response::MetadataResponseTopic {
                name,
                topic_id: id(),
                partitions,
                ..Default::default()
            };
            self.respond(request, MetadataResponse { topics: vec![topic], ..Default::default() });
        }
    }

    pub(super) fn join_group(&mut self) -> (RequestId, JoinGroupRequest) {
        match self.take(|request| matches!(request, Request::JoinGroup(_))) {
            (id, Request::JoinGroup(request)) => (id, request),
            _ => unreachable!("just asked for"),
        }
    }

    /// Answers a heartbeat of the consumer protocol, and gives what it said.
    pub(super) fn heartbeat(&mut self, assignment: Option<&[i32]>) -> ConsumerGroupHeartbeatRequest {
        let (id, request) = self.take(|request| matches!(request, Request::ConsumerGroupHeartbeat(_)));
        let response = ConsumerGroupHeartbeatResponse {
            member_epoch: self.epoch,
            heartbeat_interval_ms: 3000,
            assignment: assignment.map(by_id),
            ..Default::default()
        };
        self.respond(id, response);
        match request {
            Request::ConsumerGroupHeartbeat(request) => request,
            _ => unreachable!("just asked for"),
        }
    }

    /// Lets a heartbeat become due.
    pub(super) fn next_heartbeat(&mut self, assignment: Option<&[i32]>) -> ConsumerGroupHeartbeatRequest {
        self.now += Duration::from_secs(3);
        self.heartbeat(assignment)
    }

    /// Answers a heartbeat of the classic protocols that becomes due.
    pub(super) fn classic_heartbeat(&mut self, error_code: ErrorCode) {
        self.now += Duration::from_secs(3);
        let (id, _) = self.take(|request| matches!(request, Request::Heartbeat(_)));
        self.respond(id, HeartbeatResponse { error_code, ..Default::default() });
    }

    pub(super) fn fetch_offsets(&mut self) {
        while let Some((id, request)) = self.find(|request| matches!(request, Request::OffsetFetch(_))) {
            let Request::OffsetFetch(request) = request else { unreachable!("just asked for") };
            let topics = request.groups[0].topics.iter().flatten();
            let topics = topics.map(|topic| offset_fetch_response::OffsetFetchResponseTopics {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partition_indexes
                    .iter()
                    .map(|&partition_index| offset_fetch_response::OffsetFetchResponsePartitions {
                        partition_index,
                        committed_offset: self.committed,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            });
            let group = offset_fetch_response::OffsetFetchResponseGroup {
                topics: topics.collect(),
                ..Default::default()
            };
            self.respond(id, OffsetFetchResponse { groups: vec![group], ..Default::default() });
        }
    }

    /// Answers a commit, and gives its generation or epoch.
    pub(super) fn answer_commit(&mut self, error_code: ErrorCode) -> i32 {
        let (id, request) = self.take(|request| matches!(request, Request::OffsetCommit(_)));
        let Request::OffsetCommit(request) = request else { unreachable!("just asked for") };
        self.respond(id, commit_response(&request, error_code));
        request.generation_id_or_member_epoch
    }

    pub(super) fn commit(&mut self, index: i32, offset: i64) {
        self.member.commit([(partition(index), offset)], self.now).expect("owned");
    }

    pub(super) fn poll(&mut self) -> Poll {
        let poll = self.member.poll(self.now);
        self.collect();
        poll
    }

    pub(super) fn poll_records(
        &mut self,
        buffer: &mut RecordBuffer<i64>,
        max: usize,
    ) -> ConsumerRecords<i64> {
        let polled = self.member.poll_records(buffer, max, self.now);
        self.collect();
        polled
    }

    pub(super) fn collect(&mut self) {
        while let Some(outgoing) = self.member.next_request(self.now) {
            self.open.push_back(outgoing);
        }
        let member = &self.member;
        self.open.retain(|outgoing| member.is_waiting_for(outgoing.id));
    }

    pub(super) fn find(&mut self, is: impl Fn(&Request) -> bool) -> Option<(RequestId, Request)> {
        self.collect();
        let index = self.open.iter().position(|outgoing| is(&outgoing.request))?;
        self.open.remove(index).map(|outgoing| (outgoing.id, outgoing.request))
    }

    pub(super) fn take(&mut self, is: impl Fn(&Request) -> bool) -> (RequestId, Request) {
        let found = self.find(is);
        found.unwrap_or_else(|| panic!("no such request among {:#?}", self.open))
    }

    pub(super) fn sends(&mut self, is: impl Fn(&Request) -> bool) -> bool {
        self.collect();
        self.open.iter().any(|outgoing| is(&outgoing.request))
    }

    pub(super) fn respond(&mut self, id: RequestId, response: impl Into<Response>) {
        self.member.receive(id, response.into(), self.now);
        self.collect();
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.member.next_event()).collect()
    }

    pub(super) fn commits(&mut self) -> Vec<CommitResult> {
        let commit = |event| match event {
            Event::Committed(result) => Some(result),
            _ => None,
        };
        self.events().into_iter().filter_map(commit).collect()
    }

    pub(super) fn to_be_revoked(&self) -> Vec<TopicPartition> {
        self.member.to_be_revoked_partitions().cloned().collect()
    }
}

pub(super) fn commit_response(request: &OffsetCommitRequest, error_code: ErrorCode) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| offset_commit_response::OffsetCommitResponseTopic {
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
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn assignment(partitions: &[i32]) -> kafka_protocol::wire::Bytes {
    let row = consumer_protocol_assignment::TopicPartition {
        topic: TOPIC.into(),
        partitions: partitions.into(),
        ..Default::default()
    };
    let assignment = ConsumerProtocolAssignment { assigned_partitions: vec![row], ..Default::default() };
    embedded::encode_versioned(&assignment, 3).expect("fits")
}

fn by_id(partitions: &[i32]) -> consumer_group_heartbeat_response::Assignment {
    use consumer_group_heartbeat_response::{Assignment, TopicPartitions};
    let row = TopicPartitions { topic_id: id(), partitions: partitions.into(), ..Default::default() };
    Assignment { topic_partitions: vec![row], ..Default::default() }
}

/// What a heartbeat of the consumer protocol says that the member owns.
pub(super) fn owned(request: &ConsumerGroupHeartbeatRequest) -> Option<Vec<i32>> {
    let topics = request.topic_partitions.as_ref()?;
    Some(topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect())
}

/// What `JoinGroup` says that the member owns.
pub(super) fn declared(request: &JoinGroupRequest) -> Vec<i32> {
    let metadata = request.protocols[0].metadata.clone();
    let (_, subscription) =
        embedded::decode_versioned::<ConsumerProtocolSubscription>(metadata).expect("a subscription");
    subscription.owned_partitions.iter().flat_map(|topic| topic.partitions.iter().copied()).collect()
}
