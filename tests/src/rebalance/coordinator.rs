//! A broker that coordinates one group, in memory: all three protocols, as much of them as a member can see.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::find_coordinator_response::Coordinator as Row;
use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatResponse, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{Request, Response, TopicPartition};
use kafka_protocol::wire::{Str, Uuid};

use super::classic_group::ClassicGroup;
use super::consumer_group::ConsumerGroup;

/// Ids and numbers of partitions.
pub(super) type Topics = BTreeMap<Str, (Uuid, i32)>;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call(pub(super) u64);

pub(super) struct Broker {
    pub(super) topics: Topics,
    pub(super) classic: ClassicGroup,
    pub(super) consumer: ConsumerGroup,
    is_consumer: bool,
    pub(super) committed: BTreeMap<TopicPartition, i64>,
    /// Answers that are ready.
    answers: Vec<(Call, Response)>,
}

impl Broker {
    pub(super) fn new(is_consumer: bool, heartbeat_interval: Duration, topics: &[(&str, i32)]) -> Self {
        let topics =
            (1..).zip(topics).map(|(id, &(name, count))| (Str::from(name), (Uuid::from_u128(id), count)));
        Self {
            topics: topics.collect(),
            classic: ClassicGroup::default(),
            consumer: ConsumerGroup::new(heartbeat_interval, Duration::from_secs(3)),
            is_consumer,
            committed: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn take_answers(&mut self) -> Vec<(Call, Response)> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn tick(&mut self, now: Duration) {
        self.classic.tick(now, &mut self.answers);
        self.consumer.tick(&self.topics, now);
    }

    pub(super) fn kick(&mut self, member_id: &Str, now: Duration) {
        self.classic.kick(member_id, now, &mut self.answers);
        self.consumer.kick(member_id, &self.topics);
    }

    /// A topic gets more partitions.
    pub(super) fn grow(&mut self, topic: &str) {
        self.topics.get_mut(topic).expect("a topic").1 += 1;
        self.consumer.assign(&self.topics);
    }

    /// Members, and sessions and revocations that ran out.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        if self.is_consumer {
            (self.consumer.members(), self.consumer.expired, self.consumer.evicted)
        } else {
            (self.classic.members(), self.classic.expired, self.classic.evicted)
        }
    }

    pub(super) fn handle(&mut self, call: Call, request: Request, version: i16, now: Duration) {
        let answer: Response = match request {
            Request::FindCoordinator(request) => find_coordinator(&request).into(),
            Request::Metadata(request) => self.metadata(request).into(),
            Request::JoinGroup(request) => {
                return self.classic.join(call, request, version, now, &mut self.answers);
            }
            Request::SyncGroup(request) => return self.classic.sync(call, request, now, &mut self.answers),
            Request::Heartbeat(request) => {
                let error_code = self.classic.heartbeat(&request, now);
                HeartbeatResponse { error_code, ..Default::default() }.into()
            }
            Request::LeaveGroup(request) => {
                let mut response = self.classic.leave(request, now, &mut self.answers);
                if version < 3 {
                    response.members.clear();
                }
                response.into()
            }
            Request::OffsetCommit(request) => self.commit(request, now).into(),
            Request::OffsetFetch(request) => self.fetch(request, version).into(),
            Request::ConsumerGroupHeartbeat(request) => {
                self.consumer.heartbeat(request, &self.topics, now).into()
            }
        };
        self.answers.push((call, answer));
    }

    fn metadata(&self, request: MetadataRequest) -> MetadataResponse {
        let all = request.topics.is_none();
        let wanted = request.topics.unwrap_or_default();
        let row = |name: &Str, id: Uuid, count: i32| MetadataResponseTopic {
            name: Some(name.clone()),
            topic_id: id,
            partitions: (0..count)
                .map(|partition_index| MetadataResponsePartition { partition_index, ..Default::default() })
                .collect(),
            ..Default::default()
        };
        let known = self.topics.iter().filter(|(name, (id, _))| {
            all || wanted.iter().any(|topic| topic.name.as_ref() == Some(*name) || topic.topic_id == *id)
        });
        let mut topics: Vec<_> = known.map(|(name, &(id, count))| row(name, id, count)).collect();
        for name in
            wanted.into_iter().filter_map(|topic| topic.name).filter(|name| !self.topics.contains_key(name))
        {
            let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            topics.push(MetadataResponseTopic { name: Some(name), error_code, ..Default::default() });
        }
        MetadataResponse { topics, ..Default::default() }
    }

    fn name_of(&self, name: &Str, id: Uuid) -> Option<Str> {
        if !name.is_empty() {
            return self.topics.contains_key(name).then(|| name.clone());
        }
        self.topics.iter().find(|(_, (topic_id, _))| *topic_id == id).map(|(name, _)| name.clone())
    }

    fn commit(&mut self, request: OffsetCommitRequest, now: Duration) -> OffsetCommitResponse {
        let epoch = request.generation_id_or_member_epoch;
        let error_code = if self.is_consumer {
            self.consumer.check(&request.member_id, epoch)
        } else {
            self.classic.commit(&request.member_id, &request.group_instance_id, epoch, now)
        };
        let mut topics = Vec::new();
        for topic in request.topics {
            let name = self.name_of(&topic.name, topic.topic_id).expect("a topic");
            let mut partitions = Vec::new();
            for row in topic.partitions {
                if error_code.is_ok() {
                    let partition = TopicPartition::new(name.clone(), row.partition_index);
                    self.committed.insert(partition, row.committed_offset);
                }
                let partition_index = row.partition_index;
                partitions.push(OffsetCommitResponsePartition {
                    partition_index,
                    error_code,
                    ..Default::default()
                });
            }
            let (name, topic_id) = (topic.name, topic.topic_id);
            topics.push(OffsetCommitResponseTopic { name, topic_id, partitions, ..Default::default() });
        }
        OffsetCommitResponse { topics, ..Default::default() }
    }

    fn fetch(&self, request: OffsetFetchRequest, version: i16) -> OffsetFetchResponse {
        let of =
            |name: &Str, index: i32| self.committed.get(&TopicPartition::new(name.clone(), index)).copied();
        if version < 8 {
            let topic = |topic: kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic| {
                let row = |&partition_index: &i32| OffsetFetchResponsePartition {
                    partition_index,
                    committed_offset: of(&topic.name, partition_index).unwrap_or(-1),
                    metadata: Some(Str::default()),
                    ..Default::default()
                };
                let partitions = topic.partition_indexes.iter().map(row).collect();
                OffsetFetchResponseTopic { partitions, name: topic.name.clone(), ..Default::default() }
            };
            let topics = request.topics.into_iter().flatten().map(topic).collect();
            return OffsetFetchResponse { topics, ..Default::default() };
        }
        let group = request.groups.into_iter().next().expect("a group");
        let error_code = match &group.member_id {
            Some(member_id) => self.consumer.check(member_id, group.member_epoch),
            None => ErrorCode::NONE,
        };
        let mut topics = Vec::new();
        for topic in group.topics.into_iter().flatten().filter(|_| error_code.is_ok()) {
            let name = self.name_of(&topic.name, topic.topic_id).expect("a topic");
            let row = |&partition_index: &i32| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset: of(&name, partition_index).unwrap_or(-1),
                metadata: Some(Str::default()),
                ..Default::default()
            };
            topics.push(OffsetFetchResponseTopics {
                partitions: topic.partition_indexes.iter().map(row).collect(),
                name: topic.name,
                topic_id: topic.topic_id,
                ..Default::default()
            });
        }
        let group_id = group.group_id;
        let group = OffsetFetchResponseGroup { group_id, topics, error_code, ..Default::default() };
        OffsetFetchResponse { groups: vec![group], ..Default::default() }
    }
}

fn find_coordinator(request: &FindCoordinatorRequest) -> FindCoordinatorResponse {
    let (node_id, host, port) = (1, Str::from("broker"), 9092);
    match request.coordinator_keys.first() {
        Some(key) => {
            let row = Row { key: key.clone(), node_id, host, port, ..Default::default() };
            FindCoordinatorResponse { coordinators: vec![row], ..Default::default() }
        }
        None => FindCoordinatorResponse { node_id, host, port, ..Default::default() },
    }
}
