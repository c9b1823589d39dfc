use std::collections::{BTreeMap, BTreeSet};

use super::{ClientSession, FINAL_EPOCH};
use crate::messages::share_acknowledge_request::{AcknowledgePartition, AcknowledgeTopic};
use crate::messages::share_fetch_request::{
    AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic,
};
use crate::messages::{ShareAcknowledgeRequest, ShareFetchRequest};
use crate::share::{Acknowledgements, TopicIdPartition};

/// How much a ShareFetch asks for. The defaults are those of Kafka's Java client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchSizes {
    /// How long the node may wait for `min_bytes`, in milliseconds (`fetch.max.wait.ms`).
    ///
    /// Default 500.
    pub max_wait_ms: i32,

    /// The fewest bytes worth an answer before that (`fetch.min.bytes`). 0 is answered at once, empty while the node
    /// is still loading the partition.
    ///
    /// Default 1.
    pub min_bytes: i32,

    /// The most bytes of an answer (`fetch.max.bytes`); the first record batch may be larger.
    ///
    /// Default 52428800.
    pub max_bytes: i32,

    /// The most records of an answer (`max.poll.records`): exactly so with `RecordLimit`, else record batches are
    /// completed. 0 acquires nothing.
    ///
    /// Default 500.
    pub max_records: i32,

    /// How many records an acquired range should have. The node cuts only where record batches end.
    ///
    /// Default 500.
    pub batch_size: i32,

    /// Whether record batches are completed (`share.acquire.mode`, KIP-1206). Version 2.
    ///
    /// Default `BatchOptimized`.
    pub acquire_mode: ShareAcquireMode,
}

impl FetchSizes {
    /// Asks for nothing: the request only brings the session up to date, and is answered at once.
    pub const NONE: Self = Self {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 0,
        max_records: 0,
        batch_size: 0,
        acquire_mode: ShareAcquireMode::BatchOptimized,
    };
}

impl Default for FetchSizes {
    fn default() -> Self {
        Self {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 52_428_800,
            max_records: 500,
            batch_size: 500,
            acquire_mode: ShareAcquireMode::BatchOptimized,
        }
    }
}

/// How a node counts the records that a ShareFetch acquires (KIP-1206).
///
/// There are no other values: a broker answers those with UNKNOWN_SERVER_ERROR, as measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareAcquireMode {
    /// 0: record batches are completed, so there may be more than `max_records`.
    #[default]
    BatchOptimized = 0,
    /// 1: never more than `max_records`.
    RecordLimit = 1,
}

impl ClientSession {
    pub(super) fn fetch_request(
        &self,
        wanted: &BTreeSet<TopicIdPartition>,
        acknowledgements: &Acknowledgements,
        sizes: &FetchSizes,
    ) -> ShareFetchRequest {
        // At epoch 0 the node begins with nothing, and so does `partitions`.
        let mut listed: BTreeMap<_, _> =
            wanted.difference(&self.partitions).map(|added| (*added, vec![])).collect();
        let mut forgotten: BTreeSet<_> = self.partitions.difference(wanted).copied().collect();
        for (&partition, acknowledged) in acknowledgements {
            if !acknowledged.is_empty() {
                listed.insert(partition, acknowledged.batches());
                if !wanted.contains(&partition) {
                    forgotten.insert(partition);
                }
            }
        }
        let is_renew_ack = acknowledgements.has_renew();
        let FetchSizes { max_wait_ms, min_bytes, max_bytes, max_records, batch_size, .. } =
            if is_renew_ack { FetchSizes::NONE } else { *sizes };
        ShareFetchRequest {
            group_id: Some(self.group_id.clone()),
            member_id: Some(self.member_id.clone()),
            share_session_epoch: self.next_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            share_acquire_mode: sizes.acquire_mode as i8,
            is_renew_ack,
            topics: fetch_topics(listed),
            forgotten_topics_data: forgotten_topics(forgotten),
            ..Default::default()
        }
    }

    pub(super) fn acknowledge_request(
        &self,
        epoch: i32,
        acknowledgements: &Acknowledgements,
    ) -> ShareAcknowledgeRequest {
        debug_assert!(epoch == FINAL_EPOCH || epoch > 0, "no other epoch can acknowledge");
        let mut topics = Vec::<AcknowledgeTopic>::new();
        for (at, acknowledged) in acknowledgements.iter().filter(|(_, of)| !of.is_empty()) {
            let acknowledgement_batches = acknowledged.batches().into_iter().map(Into::into).collect();
            let partition = AcknowledgePartition {
                partition_index: at.partition,
                acknowledgement_batches,
                ..Default::default()
            };
            match topics.last_mut() {
                Some(topic) if topic.topic_id == at.topic_id => topic.partitions.push(partition),
                _ => topics.push(AcknowledgeTopic {
                    topic_id: at.topic_id,
                    partitions: vec![partition],
                    ..Default::default()
                }),
            }
        }
        ShareAcknowledgeRequest {
            group_id: Some(self.group_id.clone()),
            member_id: Some(self.member_id.clone()),
            share_session_epoch: epoch,
            is_renew_ack: acknowledgements.has_renew(),
            topics,
            ..Default::default()
        }
    }
}

/// A topic each, as partitions of a topic follow one another.
fn fetch_topics(listed: BTreeMap<TopicIdPartition, Vec<AcknowledgementBatch>>) -> Vec<FetchTopic> {
    let mut topics = Vec::<FetchTopic>::new();
    for (TopicIdPartition { topic_id, partition: partition_index }, acknowledgement_batches) in listed {
        let partition = FetchPartition { partition_index, acknowledgement_batches, ..Default::default() };
        match topics.last_mut() {
            Some(topic) if topic.topic_id == topic_id => topic.partitions.push(partition),
            _ => topics.push(FetchTopic { topic_id, partitions: vec![partition], ..Default::default() }),
        }
    }
    topics
}

fn forgotten_topics(forgotten: BTreeSet<TopicIdPartition>) -> Vec<ForgottenTopic> {
    let mut topics = Vec::<ForgottenTopic>::new();
    for TopicIdPartition { topic_id, partition } in forgotten {
        match topics.last_mut() {
            Some(topic) if topic.topic_id == topic_id => topic.partitions.push(partition),
            _ => {
                let partitions = [partition][..].into();
                topics.push(ForgottenTopic { topic_id, partitions, ..Default::default() });
            }
        }
    }
    topics
}
