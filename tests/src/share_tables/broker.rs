//! A broker in memory with a topic whose partitions hold two record batches each, offsets 0-4 and 5-9.

use std::collections::HashMap;
use std::time::Duration;

use kafka_protocol::messages::share_acknowledge_request::{self as acknowledge_request, AcknowledgeTopic};
use kafka_protocol::messages::share_fetch_request::{self as fetch_request, FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode, Message};
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse, Cluster, ClusterConfig};
use kafka_protocol::share::sessions::ConnectionId;
use kafka_protocol::wire::Uuid;

use crate::walks::Range;

pub(super) const GROUP: &str = "group";

/// First and last offset, types.
pub(super) type Batch<'a> = (i64, i64, &'a [i8]);

/// What a response says of a partition: error code, error code of acknowledgements, ranges acquired.
pub(super) type FetchRow = (i32, i16, i16, Vec<Range>);

pub(super) struct Broker {
    pub(super) cluster: Cluster,
    pub(super) topic_id: Uuid,
    pub(super) now: Duration,
    members: HashMap<String, Member>,
    probes: usize,
}

#[derive(Clone, Copy)]
struct Member {
    connection: ConnectionId,
    epoch: i32,
}

/// A fetch of up to 500 records, that waits for none.
pub(super) fn fetch() -> ShareFetchRequest {
    ShareFetchRequest { max_records: 500, batch_size: 500, ..Default::default() }
}

/// A fetch that only renews.
pub(super) fn renewing() -> ShareFetchRequest {
    ShareFetchRequest { is_renew_ack: true, max_bytes: 0, ..Default::default() }
}

impl Broker {
    pub(super) fn new() -> Self {
        Self::with(ClusterConfig::default())
    }

    pub(super) fn with(config: ClusterConfig) -> Self {
        let mut cluster = Cluster::new(config, [1]);
        cluster.create_group(GROUP);
        let topic_id = cluster.create_topic("topic", &[1; 20]);
        for index in 0..20 {
            for _ in 0..2 {
                let partition = TopicIdPartition::new(topic_id, index);
                cluster.append(partition, &record_batch(5)).unwrap();
            }
        }
        Self { cluster, topic_id, now: Duration::ZERO, members: HashMap::new(), probes: 0 }
    }

    /// The connection of a member, opened if need be.
    pub(super) fn connection(&mut self, member: &str) -> ConnectionId {
        self.member(member).connection
    }

    /// Lets a member go on over a connection of its own.
    pub(super) fn reconnect(&mut self, member: &str) {
        let connection = self.cluster.connect(1).unwrap();
        let epoch = self.members.get(member).map_or(0, |of| of.epoch);
        self.members.insert(member.to_owned(), Member { connection, epoch });
    }

    pub(super) fn set_epoch(&mut self, member: &str, epoch: i32) {
        self.member(member).epoch = epoch;
    }

    fn member(&mut self, member: &str) -> &mut Member {
        if !self.members.contains_key(member) {
            let connection = self.cluster.connect(1).unwrap();
            self.members.insert(member.to_owned(), Member { connection, epoch: 0 });
        }
        self.members.get_mut(member).unwrap()
    }

    pub(super) fn send(&mut self, connection: ConnectionId, version: i16, request: impl Into<BrokerRequest>) {
        assert!(self.cluster.send(self.now, connection, version, request));
    }

    /// Sends a request and waits for its response, if need be until the broker does not wait any more.
    pub(super) fn ask(
        &mut self,
        connection: ConnectionId,
        version: i16,
        request: impl Into<BrokerRequest>,
    ) -> BrokerResponse {
        self.send(connection, version, request);
        self.wait(connection)
    }

    pub(super) fn wait(&mut self, connection: ConnectionId) -> BrokerResponse {
        loop {
            if let Some(reply) = self.cluster.poll(self.now) {
                assert_eq!(reply.connection, connection);
                return reply.response;
            }
            self.now = self.cluster.next_deadline().expect("no answer will come");
        }
    }

    /// A fetch of a member at its epoch, or another one if it is set, which then goes up.
    pub(super) fn fetch_as(
        &mut self,
        member: &str,
        version: i16,
        request: ShareFetchRequest,
    ) -> ShareFetchResponse {
        let Member { connection, epoch } = *self.member(member);
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(member.into()),
            share_session_epoch: epoch,
            ..request
        };
        // It has to survive the wire.
        let request = ShareFetchRequest::decode(request.encode(version).unwrap(), version).unwrap();
        let BrokerResponse::ShareFetch(response) = self.ask(connection, version, request) else { panic!() };
        response.encode(version).unwrap();
        self.step(member, response.error_code);
        response
    }

    pub(super) fn acknowledge_as(
        &mut self,
        member: &str,
        version: i16,
        is_renew_ack: bool,
        topics: Vec<AcknowledgeTopic>,
    ) -> ShareAcknowledgeResponse {
        let Member { connection, epoch } = *self.member(member);
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(member.into()),
            share_session_epoch: epoch,
            is_renew_ack,
            topics,
            ..Default::default()
        };
        let response = self.ask(connection, version, request);
        let BrokerResponse::ShareAcknowledge(response) = response else { panic!() };
        response.encode(version).unwrap();
        self.step(member, response.error_code);
        response
    }

    /// After an answer without an error the epoch goes up, and after one that says that the broker failed.
    fn step(&mut self, member: &str, code: ErrorCode) {
        let epoch = &mut self.member(member).epoch;
        if (code.is_ok() || code == ErrorCode::UNKNOWN_SERVER_ERROR) && *epoch >= 0 {
            *epoch += 1;
        }
    }

    /// Acknowledges records of one partition; the code of the top level or, below it, of the partition.
    pub(super) fn acknowledge(
        &mut self,
        member: &str,
        version: i16,
        renew: bool,
        partition: i32,
        batches: &[Batch<'_>],
    ) -> i16 {
        let topics = vec![self.acknowledging(&[(partition, batches)])];
        let response = self.acknowledge_as(member, version, renew, topics);
        let rows = acknowledge_rows(&response);
        match &rows[..] {
            [] => response.error_code.0,
            [(of, code)] => {
                assert_eq!((*of, response.error_code), (partition, ErrorCode::NONE));
                *code
            }
            _ => panic!("{rows:?}"),
        }
    }

    pub(super) fn acknowledging(&self, partitions: &[(i32, &[Batch<'_>])]) -> AcknowledgeTopic {
        let partitions = partitions.iter().map(|&(partition_index, batches)| {
            let acknowledgement_batches =
                batches.iter().map(|(first, last, types)| acknowledge_request::AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: types.iter().map(|ty| AcknowledgeType(*ty)).collect(),
                    ..Default::default()
                });
            acknowledge_request::AcknowledgePartition {
                partition_index,
                acknowledgement_batches: acknowledgement_batches.collect(),
                ..Default::default()
            }
        });
        AcknowledgeTopic { topic_id: self.topic_id, partitions: partitions.collect(), ..Default::default() }
    }

    /// The partitions of a fetch, with what it acknowledges.
    pub(super) fn listing(&self, partitions: &[(i32, &[Batch<'_>])]) -> Vec<FetchTopic> {
        let partitions = partitions.iter().map(|&(partition_index, batches)| {
            let acknowledgement_batches =
                batches.iter().map(|(first, last, types)| fetch_request::AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: types.iter().map(|ty| AcknowledgeType(*ty)).collect(),
                    ..Default::default()
                });
            FetchPartition {
                partition_index,
                acknowledgement_batches: acknowledgement_batches.collect(),
                ..Default::default()
            }
        });
        vec![FetchTopic { topic_id: self.topic_id, partitions: partitions.collect(), ..Default::default() }]
    }

    /// A session of a member that has acquired all of a partition.
    pub(super) fn acquire(&mut self, member: &str, partition: i32) {
        let topics = self.listing(&[(partition, &[])]);
        let response = self.fetch_as(member, 2, ShareFetchRequest { topics, ..fetch() });
        assert_eq!(fetch_rows(&response), [(partition, 0, 0, vec![(0, 9, 1)])]);
    }

    /// What a new member could acquire of a partition; afterwards it is free again, with the delivery counted.
    pub(super) fn free(&mut self, partition: i32) -> Vec<Range> {
        self.probes += 1;
        let probe = format!("probe-{}", self.probes);
        let topics = self.listing(&[(partition, &[])]);
        let response = self.fetch_as(&probe, 2, ShareFetchRequest { topics, ..fetch() });
        assert!(response.error_code.is_ok());
        self.set_epoch(&probe, -1);
        assert!(self.fetch_as(&probe, 2, fetch()).error_code.is_ok());
        fetch_rows(&response).into_iter().flat_map(|row| row.3).collect()
    }

    pub(super) fn disconnect(&mut self, connection: ConnectionId) {
        self.cluster.disconnect(self.now, connection);
    }
}

/// A record batch of some records.
pub(super) fn record_batch(records: usize) -> Vec<u8> {
    let mut batch = BatchBuilder::new();
    for _ in 0..records {
        batch.append(&NewRecord { value: Some(b"value"), ..Default::default() }).unwrap();
    }
    batch.finish().unwrap().to_vec()
}

pub(super) fn fetch_rows(response: &ShareFetchResponse) -> Vec<FetchRow> {
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions).map(|row| {
        let acquired = row.acquired_records.iter();
        (
            row.partition_index,
            row.error_code.0,
            row.acknowledge_error_code.0,
            acquired.map(|of| (of.first_offset, of.last_offset, of.delivery_count)).collect(),
        )
    });
    rows.collect()
}

pub(super) fn acknowledge_rows(response: &ShareAcknowledgeResponse) -> Vec<(i32, i16)> {
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions);
    rows.map(|row| (row.partition_index, row.error_code.0)).collect()
}
