//! A consumer and brokers in memory, without any delay between them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kafka_protocol::messages::{ApiVersionsRequest, ShareAcknowledgeRequest, ShareFetchRequest};
use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse, Cluster, ClusterConfig};
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Action, Event, PartitionRecords, Poll, RequestId, ShareConsumer,
    ShareConsumerConfig, ShareConsumerRequest, ShareConsumerResponse,
};
use kafka_protocol::share::sessions::ConnectionId;

/// Answers a request in the place of the cluster, or leaves it alone.
pub(super) type Answer = Box<dyn FnMut(&ShareConsumerRequest) -> Option<ShareConsumerResponse>>;

pub(super) struct Driver {
    pub(super) consumer: ShareConsumer,
    pub(super) cluster: Cluster,
    pub(super) now: Duration,
    pub(super) links: BTreeMap<i32, ConnectionId>,
    waiting: BTreeMap<ConnectionId, VecDeque<Option<RequestId>>>,
    /// What was sent, and to which node.
    pub(super) sent: Vec<(i32, ShareConsumerRequest)>,
    pub(super) events: Vec<Event>,
    pub(super) disconnected: Vec<i32>,
    pub(super) answer: Answer,
    pub(super) deadline: Option<Duration>,
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn config(mode: AcknowledgementMode) -> ShareConsumerConfig {
    let bootstrap = vec![("node-1".into(), 9092)];
    ShareConsumerConfig { acknowledgement_mode: mode, ..ShareConsumerConfig::new("g", "m", bootstrap) }
}

/// A cluster of two nodes with a topic `t`, whose partitions are led by these nodes.
pub(super) fn cluster(config: ClusterConfig, leaders: &[i32]) -> (Cluster, Vec<TopicIdPartition>) {
    let mut cluster = Cluster::new(config, [1, 2]);
    let topic_id = cluster.create_topic("t", leaders);
    let partitions = (0..leaders.len()).map(|at| TopicIdPartition::new(topic_id, at as i32)).collect();
    (cluster, partitions)
}

/// Appends record batches of so many records.
pub(super) fn append(cluster: &mut Cluster, partition: TopicIdPartition, batches: &[usize]) {
    for records in batches {
        let mut batch = BatchBuilder::new();
        for _ in 0..*records {
            batch.append(&NewRecord { value: Some(b"v"), ..Default::default() }).unwrap();
        }
        cluster.append(partition, &batch.finish().unwrap()).unwrap();
    }
}

impl Driver {
    pub(super) fn new(cluster: Cluster, config: ShareConsumerConfig) -> Self {
        let mut consumer = ShareConsumer::new(config);
        consumer.subscribe(Duration::ZERO, ["t"]).unwrap();
        Self {
            consumer,
            cluster,
            now: Duration::ZERO,
            links: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sent: Vec::new(),
            events: Vec::new(),
            disconnected: Vec::new(),
            answer: Box::new(|_| None),
            deadline: None,
        }
    }

    /// Polls, and does all that follows at once.
    pub(super) fn poll(&mut self) -> Vec<PartitionRecords> {
        let poll = self.consumer.poll(self.now).unwrap();
        self.follow(poll)
    }

    pub(super) fn drive(&mut self) {
        let poll = self.consumer.drive(self.now);
        self.follow(poll);
    }

    /// Lets time pass, without polling.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.drive();
            let next = [self.deadline, self.cluster.next_deadline()].into_iter().flatten().min();
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now + ms(1)),
                None => break,
            }
        }
        self.now = end;
        self.drive();
    }

    /// Polls until there are records.
    pub(super) fn wait_for_records(&mut self) -> Vec<PartitionRecords> {
        for _ in 0..2000 {
            let records = self.poll();
            if !records.is_empty() {
                return records;
            }
            self.pass(ms(10));
        }
        panic!("no records; sent {:?}, heard {:?}", self.sent, self.events);
    }

    /// Does what a poll asks for, and all that follows at once.
    pub(super) fn follow(&mut self, mut poll: Poll) -> Vec<PartitionRecords> {
        let records = poll.records;
        loop {
            self.events.append(&mut poll.events);
            self.deadline = poll.deadline;
            for action in poll.actions {
                self.act(action);
            }
            self.take_replies();
            poll = self.consumer.drive(self.now);
            assert!(poll.records.is_empty(), "only a poll gives records");
            if poll.actions.is_empty() && poll.events.is_empty() {
                self.deadline = poll.deadline;
                return records;
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { node, host, port } => {
                let id: i32 = host.strip_prefix("node-").unwrap().parse().unwrap();
                assert_eq!(port, 9092);
                let Some(connection) = self.cluster.connect(id) else {
                    return self.consumer.disconnected(self.now, node);
                };
                self.links.insert(node, connection);
                self.waiting.entry(connection).or_default().push_back(None);
                self.cluster.send(self.now, connection, 3, ApiVersionsRequest::default());
            }
            Action::Disconnect { node } => {
                self.disconnected.push(node);
                if let Some(connection) = self.links.remove(&node) {
                    self.waiting.remove(&connection);
                    self.cluster.disconnect(self.now, connection);
                }
            }
            Action::Send { node, id, version, request } => {
                let answer = (self.answer)(&request);
                self.sent.push((node, request.clone()));
                if let Some(answer) = answer {
                    return self.consumer.handle_response(self.now, id, answer);
                }
                let connection = self.links[&node];
                self.waiting.entry(connection).or_default().push_back(Some(id));
                self.cluster.send(self.now, connection, version, broker_request(request));
            }
        }
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.cluster.poll(self.now) {
            let Some(waiting) = self.waiting.get_mut(&reply.connection) else { continue };
            let id = waiting.pop_front().expect("somebody waits for it");
            let (node, _) = self.links.iter().find(|link| *link.1 == reply.connection).unwrap();
            let response = match reply.response {
                BrokerResponse::ApiVersions(versions) => {
                    self.consumer.connected(self.now, *node, &versions);
                    continue;
                }
                BrokerResponse::Metadata(response) => response.into(),
                BrokerResponse::FindCoordinator(response) => response.into(),
                BrokerResponse::ShareGroupHeartbeat(response) => response.into(),
                BrokerResponse::ShareFetch(response) => response.into(),
                BrokerResponse::ShareAcknowledge(response) => response.into(),
            };
            self.consumer.handle_response(self.now, id.expect("not ApiVersions"), response);
        }
    }

    /// A node goes away and takes its connections with it.
    pub(super) fn stop(&mut self, node: i32) {
        let lost = self.cluster.stop(self.now, node);
        let nodes: Vec<_> =
            self.links.iter().filter(|link| lost.contains(link.1)).map(|link| *link.0).collect();
        for node in nodes {
            self.links.remove(&node);
            self.consumer.disconnected(self.now, node);
        }
    }

    pub(super) fn acknowledge(&mut self, records: &[PartitionRecords], ty: AcknowledgeType) {
        for (partition, offset) in offsets(records) {
            self.consumer.acknowledge(partition, offset, ty).unwrap();
        }
    }

    /// The requests of sessions since the last call: node, epoch, and the request.
    pub(super) fn session_requests(&mut self) -> Vec<SessionRequest> {
        let sent = std::mem::take(&mut self.sent).into_iter();
        sent.filter_map(|(node, request)| match request {
            ShareConsumerRequest::ShareFetch(request) => Some(SessionRequest::Fetch(node, request)),
            ShareConsumerRequest::ShareAcknowledge(request) => {
                Some(SessionRequest::Acknowledge(node, request))
            }
            _ => None,
        })
        .collect()
    }

    /// What came of acknowledgements since the last call: offset, type, error.
    pub(super) fn outcomes(&mut self) -> Vec<(i64, i8, i16)> {
        let mut outcomes = Vec::new();
        for event in std::mem::take(&mut self.events) {
            if let Event::Acknowledged { result, .. } = event {
                let error = result.error.0;
                outcomes.extend(result.acknowledgements.iter().map(|(offset, ty)| (offset, ty.0, error)));
            }
        }
        outcomes
    }
}

#[derive(Debug)]
pub(super) enum SessionRequest {
    Fetch(i32, ShareFetchRequest),
    Acknowledge(i32, ShareAcknowledgeRequest),
}

pub(super) fn offsets(records: &[PartitionRecords]) -> Vec<(TopicIdPartition, i64)> {
    let all = records.iter().flat_map(|of| of.records.iter().map(move |record| (of.partition, record)));
    all.map(|(partition, acquired)| (partition, acquired.record.offset())).collect()
}

fn broker_request(request: ShareConsumerRequest) -> BrokerRequest {
    match request {
        ShareConsumerRequest::FindCoordinator(request) => request.into(),
        ShareConsumerRequest::Metadata(request) => request.into(),
        ShareConsumerRequest::ShareGroupHeartbeat(request) => request.into(),
        ShareConsumerRequest::ShareFetch(request) => request.into(),
        ShareConsumerRequest::ShareAcknowledge(request) => request.into(),
    }
}
