//! Committing offsets, and fetching those that are committed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::assignor::by_topic;
use super::commits::{Batch, CommitError};
use super::core::{Core, Purpose, Stamp, Verdict};
use super::event::Event;
use super::request::Request;
use super::{CommitId, OffsetAndMetadata, TopicPartition};
use crate::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use crate::messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse};
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// Commits.
impl Core {
    pub(super) fn commit_request(&mut self, stamp: Stamp, now: Duration) -> Option<(Request, Purpose)> {
        if !self.commit_backoff.is_over(now)
            || self.in_flight.any(|purpose| matches!(purpose, Purpose::Commit(..)))
        {
            return None;
        }
        let batch = self.commits.batch()?;
        let request = OffsetCommitRequest {
            group_id: self.config.group_id.clone(),
            generation_id_or_member_epoch: stamp.epoch,
            member_id: stamp.member_id.clone(),
            group_instance_id: self.config.group_instance_id.clone(),
            topics: self.commit_topics(&batch.offsets),
            ..Default::default()
        };
        Some((request.into(), Purpose::Commit(batch, stamp)))
    }

    fn commit_topics(
        &self,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Vec<OffsetCommitRequestTopic> {
        let mut topics = Vec::<OffsetCommitRequestTopic>::new();
        for (partition, offset) in offsets {
            if topics.last().is_none_or(|last| last.name != partition.topic) {
                topics.push(OffsetCommitRequestTopic {
                    name: partition.topic.clone(),
                    topic_id: self.partitions.topic_id(partition).unwrap_or_default(),
                    ..Default::default()
                });
            }
            let row = OffsetCommitRequestPartition {
                partition_index: partition.partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch,
                committed_metadata: Some(offset.metadata.clone()),
                ..Default::default()
            };
            topics.last_mut().expect("one was pushed").partitions.push(row);
        }
        topics
    }

    /// Takes the rows of an answer. `is_current` tells whether the member still is who it was when it sent the commit.
    pub(super) fn committed(
        &mut self,
        batch: &Batch,
        response: &OffsetCommitResponse,
        is_current: bool,
        now: Duration,
    ) -> Verdict {
        let rows = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(move |row| ((topic, row.partition_index), row.error_code))
        });
        let mut codes = BTreeMap::new();
        for ((topic, index), error_code) in rows {
            let is_topic = |partition: &&TopicPartition| {
                partition.partition == index
                    && if topic.topic_id.is_nil() {
                        partition.topic == topic.name
                    } else {
                        self.partitions.topic_id(partition) == Some(topic.topic_id)
                    }
            };
            if let Some(partition) = batch.offsets.keys().find(is_topic) {
                codes.insert(partition.clone(), error_code);
            }
        }
        // A row that is missing says nothing.
        let of = |partition| codes.get(partition).copied().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
        let codes: Vec<_> =
            batch.offsets.keys().map(|partition| (partition.clone(), of(partition))).collect();
        self.commit_rows(batch.up_to, codes, is_current, now)
    }

    /// Takes one error code for all rows.
    pub(super) fn commit_failed(
        &mut self,
        batch: &Batch,
        error_code: ErrorCode,
        is_current: bool,
        now: Duration,
    ) -> Verdict {
        let codes = batch.offsets.keys().map(|partition| (partition.clone(), error_code)).collect();
        self.commit_rows(batch.up_to, codes, is_current, now)
    }

    fn commit_rows(
        &mut self,
        up_to: CommitId,
        codes: Vec<(TopicPartition, ErrorCode)>,
        is_current: bool,
        now: Duration,
    ) -> Verdict {
        let mut verdict = Verdict::Fine;
        let mut again = None;
        for (partition, code) in codes {
            match code {
                ErrorCode::NONE => self.commits.end(up_to, &partition, Ok(())),
                ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::FENCED_MEMBER_EPOCH
                | ErrorCode::FENCED_INSTANCE_ID
                    if is_current =>
                {
                    verdict = Verdict::Fenced(code);
                }
                // Sent as the member of before; the coordinator has moved on, and so have we.
                ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::FENCED_MEMBER_EPOCH
                // Until all members have synchronized. Not a loss.
                | ErrorCode::REBALANCE_IN_PROGRESS => again = Some(code),
                ErrorCode::STALE_MEMBER_EPOCH => {
                    again = Some(code);
                    verdict = verdict.or_stale();
                }
                code if self.coordinator_failed(code) || code.is_retriable() => again = Some(code),
                code => self.commits.end(up_to, &partition, Err(CommitError::Refused(code))),
            }
        }
        match again {
            Some(code) => {
                self.commits.failed_once(up_to, code);
                self.commit_backoff.failed(now);
            }
            None => self.commit_backoff.succeeded(),
        }
        verdict
    }
}

impl Verdict {
    fn or_stale(self) -> Self {
        if self == Self::Fine { Self::Stale } else { self }
    }
}

/// Committed offsets of partitions that are new.
impl Core {
    /// `consumer_protocol` members say who they are, others must not.
    pub(super) fn offset_request(
        &mut self,
        stamp: Stamp,
        consumer_protocol: bool,
        now: Duration,
    ) -> Option<(Request, Purpose)> {
        if !self.offset_backoff.is_over(now)
            || self.in_flight.any(|purpose| matches!(purpose, Purpose::OffsetFetch(_)))
        {
            return None;
        }
        let topics = by_topic(self.partitions.without_offset().map(|(partition, _)| partition));
        if topics.is_empty() {
            return None;
        }
        let id_of = |topic: &Str, index: i32| {
            self.partitions.topic_id(&TopicPartition::new(topic.clone(), index)).unwrap_or_default()
        };
        let topics = topics.into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopics {
            topic_id: partition_indexes.first().map(|&index| id_of(&name, index)).unwrap_or_default(),
            name,
            partition_indexes,
            ..Default::default()
        });
        let group = OffsetFetchRequestGroup {
            group_id: self.config.group_id.clone(),
            member_id: consumer_protocol.then(|| stamp.member_id.clone()),
            member_epoch: if consumer_protocol { stamp.epoch } else { -1 },
            topics: Some(topics.collect()),
            ..Default::default()
        };
        // Offsets of open transactions would be read as those of before.
        let request = OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() };
        Some((request.into(), Purpose::OffsetFetch(stamp)))
    }

    pub(super) fn offsets_fetched(
        &mut self,
        response: OffsetFetchResponse,
        is_current: bool,
        now: Duration,
    ) -> Verdict {
        let (rows, group_error) = self.offset_rows(response);
        if !group_error.is_ok() {
            return self.offset_fetch_failed(group_error, is_current, now);
        }
        self.offset_backoff.succeeded();
        let mut verdict = Verdict::Fine;
        for (partition, error_code, committed) in rows {
            if error_code.is_ok() {
                self.partitions.offset_known(&partition, committed);
            } else if let Some(found) = self.offset_retry(error_code, is_current, now) {
                verdict = found;
            } else {
                self.partitions.offset_unreadable(&partition);
                self.events.push_back(Event::OffsetUnreadable { partition, error_code });
            }
        }
        verdict
    }

    /// The rows of the one group, and its error code. Before version 8 they are those of the response.
    fn offset_rows(&self, response: OffsetFetchResponse) -> (Rows, ErrorCode) {
        let mut rows = Rows::new();
        let Some(group) = response.groups.into_iter().next() else {
            for topic in response.topics {
                for row in topic.partitions {
                    let committed = offset(row.committed_offset, row.committed_leader_epoch, row.metadata);
                    let partition = TopicPartition::new(topic.name.clone(), row.partition_index);
                    rows.push((partition, row.error_code, committed));
                }
            }
            return (rows, response.error_code);
        };
        for topic in group.topics {
            let name = self.topics.name(topic.topic_id).cloned().unwrap_or(topic.name);
            for row in topic.partitions {
                let committed = offset(row.committed_offset, row.committed_leader_epoch, row.metadata);
                rows.push((
                    TopicPartition::new(name.clone(), row.partition_index),
                    row.error_code,
                    committed,
                ));
            }
        }
        (rows, group.error_code)
    }

    /// Takes one error code for all rows.
    pub(super) fn offset_fetch_failed(
        &mut self,
        error_code: ErrorCode,
        is_current: bool,
        now: Duration,
    ) -> Verdict {
        if let Some(verdict) = self.offset_retry(error_code, is_current, now) {
            return verdict;
        }
        let partitions: Vec<_> =
            self.partitions.without_offset().map(|(partition, _)| partition.clone()).collect();
        for partition in partitions {
            self.partitions.offset_unreadable(&partition);
            self.events.push_back(Event::OffsetUnreadable { partition, error_code });
        }
        Verdict::Fine
    }

    /// What the error code tells of the membership; `None` if asking again would not help.
    fn offset_retry(&mut self, error_code: ErrorCode, is_current: bool, now: Duration) -> Option<Verdict> {
        let verdict = match error_code {
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION if is_current => {
                Verdict::Fenced(error_code)
            }
            ErrorCode::STALE_MEMBER_EPOCH => Verdict::Stale,
            ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::REBALANCE_IN_PROGRESS => Verdict::Fine,
            code if self.coordinator_failed(code) || code.is_retriable() => Verdict::Fine,
            _ => return None,
        };
        self.offset_backoff.failed(now);
        Some(verdict)
    }
}

type Rows = Vec<(TopicPartition, ErrorCode, Option<OffsetAndMetadata>)>;

/// -1 means that nothing is committed.
fn offset(offset: i64, leader_epoch: i32, metadata: Option<Str>) -> Option<OffsetAndMetadata> {
    (offset >= 0).then(|| OffsetAndMetadata { offset, leader_epoch, metadata: metadata.unwrap_or_default() })
}
