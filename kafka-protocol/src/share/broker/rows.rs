use std::collections::{BTreeMap, BTreeSet};

use super::fetch::Outcome;
use super::world::{PORT, World, host};
use crate::messages::share_acknowledge_response::ShareAcknowledgeTopicResponse;
use crate::messages::share_fetch_response::{AcquiredRecords, ShareFetchableTopicResponse};
use crate::messages::{
    ShareAcknowledgeResponse, ShareFetchResponse, share_acknowledge_response, share_fetch_response,
};
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::wire::{Bytes, Str};

/// The rows of a ShareFetchResponse.
#[derive(Debug, Default)]
pub(super) struct FetchRows {
    rows: BTreeMap<TopicIdPartition, share_fetch_response::PartitionData>,
    /// Leaders that rows name.
    leaders: BTreeSet<i32>,
}

impl FetchRows {
    /// What has come of acknowledgements.
    pub(super) fn acknowledged(outcomes: BTreeMap<TopicIdPartition, Outcome>) -> Self {
        let mut rows = Self::default();
        for (partition, outcome) in outcomes {
            let row = rows.row(partition);
            row.acknowledge_error_code = outcome.code;
            row.acknowledge_error_message = outcome.message.map(Str::from);
        }
        rows
    }

    pub(super) fn failed(&mut self, world: &World, partition: TopicIdPartition, code: ErrorCode) {
        self.row(partition).error_code = code;
        self.name_leader(world, partition, code);
    }

    pub(super) fn acquired(
        &mut self,
        partition: TopicIdPartition,
        records: Bytes,
        acquired: Vec<AcquiredRecords>,
    ) {
        let row = self.row(partition);
        row.records = Some(records);
        row.acquired_records = acquired;
    }

    pub(super) fn response(self, world: &World, group_id: &str) -> ShareFetchResponse {
        let mut responses: Vec<ShareFetchableTopicResponse> = Vec::new();
        for (partition, row) in self.rows {
            match responses.last_mut().filter(|topic| topic.topic_id == partition.topic_id) {
                Some(topic) => topic.partitions.push(row),
                None => responses.push(ShareFetchableTopicResponse {
                    topic_id: partition.topic_id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
        }
        let endpoint = |node_id| share_fetch_response::NodeEndpoint {
            node_id,
            host: host(node_id),
            port: PORT,
            ..Default::default()
        };
        ShareFetchResponse {
            acquisition_lock_timeout_ms: lock_timeout_ms(world, group_id),
            responses,
            node_endpoints: self.leaders.into_iter().map(endpoint).collect(),
            ..Default::default()
        }
    }

    fn row(&mut self, partition: TopicIdPartition) -> &mut share_fetch_response::PartitionData {
        self.rows.entry(partition).or_insert_with(|| share_fetch_response::PartitionData {
            partition_index: partition.partition,
            records: Some(Bytes::new()),
            ..Default::default()
        })
    }

    fn name_leader(&mut self, world: &World, partition: TopicIdPartition, code: ErrorCode) {
        if let Some((leader_id, leader_epoch)) = current_leader(world, partition, code) {
            self.leaders.extend(Some(leader_id).filter(|leader| *leader >= 0));
            self.row(partition).current_leader =
                share_fetch_response::LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() };
        }
    }
}

/// A ShareAcknowledgeResponse.
pub(super) fn acknowledge_response(
    outcomes: BTreeMap<TopicIdPartition, Outcome>,
    world: &World,
    group_id: &str,
) -> ShareAcknowledgeResponse {
    let mut responses: Vec<ShareAcknowledgeTopicResponse> = Vec::new();
    for (partition, outcome) in outcomes {
        let row = share_acknowledge_response::PartitionData {
            partition_index: partition.partition,
            error_code: outcome.code,
            error_message: outcome.message.map(Str::from),
            ..Default::default()
        };
        match responses.last_mut().filter(|topic| topic.topic_id == partition.topic_id) {
            Some(topic) => topic.partitions.push(row),
            None => responses.push(ShareAcknowledgeTopicResponse {
                topic_id: partition.topic_id,
                partitions: vec![row],
                ..Default::default()
            }),
        }
    }
    ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: lock_timeout_ms(world, group_id),
        responses,
        ..Default::default()
    }
}

/// The duration of locks that is now in force, in every answer without an error at the top level (measured).
fn lock_timeout_ms(world: &World, group_id: &str) -> i32 {
    i32::try_from(world.group_config(group_id).locks.lock_duration.as_millis()).unwrap_or(i32::MAX)
}

/// The leader of a partition and its epoch, for the codes with which brokers tell it; -1 when there is none.
fn current_leader(world: &World, partition: TopicIdPartition, code: ErrorCode) -> Option<(i32, i32)> {
    if code != ErrorCode::NOT_LEADER_OR_FOLLOWER && code != ErrorCode::FENCED_LEADER_EPOCH {
        return None;
    }
    let (leader, leader_epoch) = world.leader(world.partition(partition)?);
    Some((leader.unwrap_or(-1), leader_epoch))
}
