//! A member of a share group that speaks with one leader, request by request.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use driver::Client;
use kafka_protocol::messages::share_acknowledge_request::{AcknowledgePartition, AcknowledgeTopic};
use kafka_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint};
use kafka_protocol::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    share_acknowledge_request, share_acknowledge_response, share_fetch_request, share_fetch_response,
};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode, Rpc};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::validate::{Session, ShareRequest};
use kafka_protocol::wire::{Str, Uuid};

use super::group::{Group, Membership};
use super::prediction::Known;

/// First offset, last offset, and a type for all or one for each.
pub(super) type Batch<'a> = (i64, i64, &'a [i8]);

pub(super) const GAP: i8 = AcknowledgeType::GAP.0;
pub(super) const ACCEPT: i8 = AcknowledgeType::ACCEPT.0;
pub(super) const RELEASE: i8 = AcknowledgeType::RELEASE.0;
pub(super) const REJECT: i8 = AcknowledgeType::REJECT.0;
pub(super) const RENEW: i8 = AcknowledgeType::RENEW.0;

/// How long it may take until records that are free have been acquired.
const PATIENCE: Duration = Duration::from_secs(20);

/// The request that carries acknowledgements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier {
    Acknowledge,
    Fetch,
}

/// One member id and its share session on one leader.
pub(super) struct Member {
    pub(super) id: Str,
    pub(super) client: Client,
    /// The epoch of the next request.
    pub(super) epoch: i32,
    /// The version of the next requests; the highest if there is none.
    pub(super) version: Option<i16>,
    pub(super) membership: Membership,
    group: Str,
    known: Known,
}

/// What both requests are answered with.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) error: ErrorCode,
    /// Of the response, 0 if it has none.
    pub(super) lock_timeout_ms: i32,
    pub(super) rows: BTreeMap<TopicIdPartition, Row>,
    pub(super) node_endpoints: Vec<NodeEndpoint>,
    /// The first refusal that our rules for requests predict.
    pub(super) predicted: Option<ErrorCode>,
}

/// What is answered for a partition.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Of fetching.
    pub(super) error: ErrorCode,
    /// Of the acknowledgements.
    pub(super) acknowledge_error: ErrorCode,
    /// What the broker says of that.
    pub(super) acknowledge_message: Option<Str>,
    pub(super) current_leader: LeaderIdAndEpoch,
    pub(super) acquired: Acquired,
}

/// Acquired offsets with their delivery counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Acquired(BTreeMap<i64, i16>);

impl Member {
    pub(super) fn new(group: &Group<'_>, id: Str) -> Result<Self> {
        Ok(Self {
            client: group.cluster.connect(group.leader)?,
            epoch: 0,
            version: None,
            membership: Membership::new(group, &id)?,
            group: group.name.clone(),
            known: Known {
                member_id: id.clone(),
                topic_id: group.topic.id,
                partitions: group.topic.partitions,
                session: Session::Absent,
            },
            id,
        })
    }

    /// Joins the group, or tells that the member lives.
    pub(super) fn heartbeat(&mut self) -> Result<()> {
        self.membership.heartbeat()
    }

    /// How many partitions are assigned to the member, as far as it knows.
    pub(super) fn assigned(&self) -> usize {
        self.membership.assigned()
    }

    /// How many partitions its session is of.
    pub(super) fn partitions(&self) -> usize {
        self.known.partitions as usize
    }

    /// A request that fetches what it finds within half a second, as Kafka's consumer does. Opens the session on all
    /// partitions if the epoch is 0.
    pub(super) fn fetch_request(&self) -> ShareFetchRequest {
        let partition = |partition_index| FetchPartition { partition_index, ..Default::default() };
        let all = if self.epoch == 0 { 0..self.known.partitions } else { 0..0 };
        let topic = FetchTopic {
            topic_id: self.known.topic_id,
            partitions: all.map(partition).collect(),
            ..Default::default()
        };
        ShareFetchRequest {
            group_id: Some(self.group.clone()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.epoch,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            max_records: 2000,
            batch_size: 500,
            topics: if self.epoch == 0 { vec![topic] } else { Vec::new() },
            ..Default::default()
        }
    }

    /// A request that fetches nothing, which is what `is_renew_ack` asks for, with acknowledgements of partitions.
    pub(super) fn fetch_to_acknowledge(&self, partitions: &[(i32, &[Batch<'_>])]) -> ShareFetchRequest {
        let partition = |(index, batches): &(i32, &[Batch<'_>])| FetchPartition {
            partition_index: *index,
            acknowledgement_batches: batches
                .iter()
                .map(|(first, last, types)| share_fetch_request::AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: types.iter().copied().map(AcknowledgeType).collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let partitions = partitions.iter().map(partition).collect();
        ShareFetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: 0,
            max_records: 0,
            topics: vec![FetchTopic { topic_id: self.known.topic_id, partitions, ..Default::default() }],
            ..self.fetch_request()
        }
    }

    /// A request with acknowledgements of partitions.
    pub(super) fn acknowledge_request(&self, partitions: &[(i32, &[Batch<'_>])]) -> ShareAcknowledgeRequest {
        let partition = |(index, batches): &(i32, &[Batch<'_>])| AcknowledgePartition {
            partition_index: *index,
            acknowledgement_batches: batches
                .iter()
                .map(|(first, last, types)| share_acknowledge_request::AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: types.iter().copied().map(AcknowledgeType).collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let partitions = partitions.iter().map(partition).collect();
        ShareAcknowledgeRequest {
            group_id: Some(self.group.clone()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.epoch,
            topics: vec![AcknowledgeTopic {
                topic_id: self.known.topic_id,
                partitions,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// Sends acknowledgements of one partition, with `is_renew_ack` if one of them renews.
    pub(super) fn acknowledge(
        &mut self,
        carrier: Carrier,
        partition: i32,
        batches: &[Batch<'_>],
    ) -> Result<Answer> {
        self.acknowledge_flagged(carrier, partition, batches, renews(batches))
    }

    /// Sends acknowledgements of one partition.
    pub(super) fn acknowledge_flagged(
        &mut self,
        carrier: Carrier,
        partition: i32,
        batches: &[Batch<'_>],
        is_renew_ack: bool,
    ) -> Result<Answer> {
        let batches = [(partition, batches)];
        match carrier {
            Carrier::Acknowledge => {
                let request = self.acknowledge_request(&batches);
                self.send_acknowledge(&ShareAcknowledgeRequest { is_renew_ack, ..request })
            }
            Carrier::Fetch => {
                let request = self.fetch_to_acknowledge(&batches);
                self.send_fetch(&ShareFetchRequest { is_renew_ack, ..request })
            }
        }
    }

    pub(super) fn send_fetch(&mut self, request: &ShareFetchRequest) -> Result<Answer> {
        self.send(request)
    }

    pub(super) fn send_acknowledge(&mut self, request: &ShareAcknowledgeRequest) -> Result<Answer> {
        self.send(request)
    }

    /// The answer has to be the one that our own rules predict, as far as they do.
    fn send<R: Rpc<Response: Into<Answer>> + ShareRequest>(&mut self, request: &R) -> Result<Answer> {
        let mut answer = self.client.call_in(request, self.version)?.into();
        let version = self.version.or_else(|| self.client.connection().negotiated(R::API_KEY));
        self.known.check(request, version.context("no version")?, &mut answer)?;
        self.step(request.share_session_epoch(), answer.error);
        Ok(answer)
    }

    /// A broker that refuses a request leaves the session as it was.
    fn step(&mut self, sent: i32, error: ErrorCode) {
        if error.is_ok() {
            self.epoch = if sent < 0 { 0 } else { sent.checked_add(1).unwrap_or(1) };
        }
    }

    /// Opens the session without acquiring anything.
    pub(super) fn open(&mut self) -> Result<Answer> {
        let request = ShareFetchRequest { max_wait_ms: 0, max_records: 0, ..self.fetch_request() };
        let answer = self.send_fetch(&request)?;
        ensure!(answer.error.is_ok(), "the session is not opened: {}", answer.error);
        Ok(answer)
    }

    /// Fetches once. A busy broker may not have got a share partition ready in time; then its row has an error that
    /// passes.
    pub(super) fn fetch(&mut self) -> Result<Answer> {
        let answer = self.send_fetch(&self.fetch_request())?;
        ensure!(answer.error.is_ok(), "ShareFetch: {}", answer.error);
        for (of, row) in &answer.rows {
            let is_fine =
                row.error.is_ok() || row.error.is_retriable() && row.acquired == Acquired::default();
            ensure!(is_fine, "ShareFetch: partition {}: {}", of.partition, row.error);
        }
        Ok(answer)
    }

    /// Fetches until each partition has given so many records.
    pub(super) fn acquire(&mut self, records: usize) -> Result<BTreeMap<i32, Acquired>> {
        let (mut all, start) = (BTreeMap::<_, Acquired>::new(), Instant::now());
        loop {
            for (of, row) in self.fetch()?.rows {
                all.entry(of.partition).or_default().0.extend(row.acquired.0);
            }
            if all.len() == self.known.partitions as usize
                && all.values().all(|acquired| acquired.0.len() >= records)
            {
                return Ok(all);
            }
            ensure!(start.elapsed() < PATIENCE, "of {records} records per partition, there are only {all:?}");
        }
    }

    /// Fetches until partition 0 has given exactly what is expected, such as `0-4#1 5-9#2`.
    pub(super) fn acquire_exactly(&mut self, expected: &str) -> Result<()> {
        let (mut all, start) = (Acquired::default(), Instant::now());
        while all.to_string() != expected {
            ensure!(start.elapsed() < PATIENCE, "acquired `{all}`, expected `{expected}`");
            all.extend(self.fetch()?.acquired());
        }
        Ok(())
    }

    /// Fetches until there is nothing more, and gives what was free.
    pub(super) fn acquire_rest(&mut self) -> Result<BTreeMap<i32, Acquired>> {
        let mut all = BTreeMap::<_, Acquired>::new();
        // A share partition that is still being loaded gives nothing either, so that once does not count.
        let mut nothing = 0;
        while nothing < 2 {
            let rows = self.fetch()?.rows;
            let is_nothing = rows.values().all(|row| row.error.is_ok() && row.acquired.0.is_empty());
            nothing = if is_nothing { nothing + 1 } else { 0 };
            for (of, row) in rows {
                all.entry(of.partition).or_default().0.extend(row.acquired.0);
            }
        }
        all.retain(|_, acquired| !acquired.0.is_empty());
        Ok(all)
    }
}

impl Answer {
    /// What is answered for partition 0.
    pub(super) fn row(&self) -> Result<&Row> {
        let mut rows = self.rows.iter().filter(|(of, _)| of.partition == 0).map(|(_, row)| row);
        rows.next().with_context(|| format!("no row for partition 0 in {self:?}"))
    }

    /// What is acquired of partition 0.
    pub(super) fn acquired(&self) -> Acquired {
        self.row().map(|row| row.acquired.clone()).unwrap_or_default()
    }

    /// The error, if there is one for all, and otherwise that of the acknowledgements of the only partition.
    pub(super) fn outcome(&self) -> ErrorCode {
        let mut errors = self.rows.values().map(|row| row.acknowledge_error);
        if self.error.is_ok() { errors.find(|error| !error.is_ok()).unwrap_or_default() } else { self.error }
    }

    /// That the broker refuses, as our rules for requests predict.
    pub(super) fn expect_refusal(&self) -> Result<()> {
        let predicted = self.predicted.filter(|code| !code.is_ok());
        self.expect(predicted.context("our rules have nothing against the request")?)
    }

    /// That this is the outcome.
    pub(super) fn expect(&self, expected: ErrorCode) -> Result<()> {
        ensure!(self.outcome() == expected, "answered with {}, expected {expected}", self.outcome());
        Ok(())
    }
}

impl Acquired {
    /// In ascending order.
    pub(super) fn offsets(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// As in `0-4#1 5-9#2`: neighbours of the same delivery count are one range.
impl fmt::Display for Acquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut offsets = self.0.iter().peekable();
        let mut separator = "";
        while let Some((&first, count)) = offsets.next() {
            let mut last = first;
            while offsets.next_if(|next| *next == (&(last + 1), count)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{first}-{last}#{count}")?;
            separator = " ";
        }
        Ok(())
    }
}

/// Offsets with their delivery counts.
impl FromIterator<(i64, i16)> for Acquired {
    fn from_iter<T: IntoIterator<Item = (i64, i16)>>(offsets: T) -> Self {
        Self(offsets.into_iter().collect())
    }
}

/// Whether one of them renews.
pub(super) fn renews(batches: &[Batch<'_>]) -> bool {
    batches.iter().any(|(_, _, types)| types.contains(&RENEW))
}

fn offsets(range: AcquiredRecords) -> impl Iterator<Item = (i64, i16)> {
    (range.first_offset..=range.last_offset).map(move |offset| (offset, range.delivery_count))
}

impl From<ShareFetchResponse> for Answer {
    fn from(response: ShareFetchResponse) -> Self {
        let partitions = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions.into_iter().map(move |partition| (topic.topic_id, partition)));
        let row = |(topic_id, it): (Uuid, share_fetch_response::PartitionData)| {
            let row = Row {
                error: it.error_code,
                acknowledge_error: it.acknowledge_error_code,
                acknowledge_message: it.acknowledge_error_message,
                current_leader: it.current_leader,
                acquired: it.acquired_records.into_iter().flat_map(offsets).collect(),
            };
            (TopicIdPartition::new(topic_id, it.partition_index), row)
        };
        Self {
            error: response.error_code,
            lock_timeout_ms: response.acquisition_lock_timeout_ms,
            rows: partitions.map(row).collect(),
            node_endpoints: response.node_endpoints,
            predicted: None,
        }
    }
}

impl From<ShareAcknowledgeResponse> for Answer {
    fn from(response: ShareAcknowledgeResponse) -> Self {
        let partitions = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions.into_iter().map(move |partition| (topic.topic_id, partition)));
        let row = |(topic_id, it): (Uuid, share_acknowledge_response::PartitionData)| {
            let leader = it.current_leader;
            let row = Row {
                acknowledge_error: it.error_code,
                acknowledge_message: it.error_message,
                current_leader: LeaderIdAndEpoch {
                    leader_id: leader.leader_id,
                    leader_epoch: leader.leader_epoch,
                    ..Default::default()
                },
                ..Default::default()
            };
            (TopicIdPartition::new(topic_id, it.partition_index), row)
        };
        let endpoint = |it: share_acknowledge_response::NodeEndpoint| NodeEndpoint {
            node_id: it.node_id,
            host: it.host,
            port: it.port,
            ..Default::default()
        };
        Self {
            error: response.error_code,
            lock_timeout_ms: response.acquisition_lock_timeout_ms,
            rows: partitions.map(row).collect(),
            node_endpoints: response.node_endpoints.into_iter().map(endpoint).collect(),
            predicted: None,
        }
    }
}
