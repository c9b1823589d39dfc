//! What we answer.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::locks::{AcknowledgeReason, SharePartition};
use kafka_protocol::share::sessions::{ConnectionId, SessionKey, SessionStep};
use kafka_protocol::share::validate::{BrokerState, Level, Listing, Refusal, ShareRequest, validate};
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};

use super::{Expected, Replay, key_of};
use crate::walks::broker_words;

impl Replay {
    /// Applies a request as far as it is applied at once.
    pub(super) fn apply<R: ShareRequest>(
        &mut self,
        now: Duration,
        (connection, version): (u64, i16),
        request: &R,
    ) -> Expected {
        let refusals = validate(request, version, self);
        if let Some(refusal) = refusals.iter().find(|refusal| refusal.level == Level::Top) {
            return Expected { top: refusal.code, ..Default::default() };
        }
        let key = key_of(request);
        let step = self.sessions.step(ConnectionId(connection), request).unwrap();
        let timeout = self.config(&key.group_id).lock_duration.as_millis();
        let mut expected = Expected { lock_timeout_ms: timeout as i32, ..Default::default() };
        let mut last: BTreeMap<_, _> = BTreeMap::new();
        for listing in request.listings() {
            last.insert(listing.partition, listing);
        }
        for (&partition, listing) in &last {
            let refusal = refusals.iter().find(|refusal| partition_of(refusal) == Some(partition));
            if refusal.is_none() && listing.batches.is_empty() {
                continue;
            }
            let outcome = match refusal {
                Some(refusal)
                    if refusal.level == Level::Partition(partition) && request.as_fetch().is_some() =>
                {
                    continue;
                }
                Some(refusal) => (refusal.code, None),
                None => self.acknowledge_one(now, &key, listing),
            };
            if outcome.0 == ErrorCode::UNKNOWN_SERVER_ERROR {
                return Expected { top: outcome.0, ..Default::default() };
            }
            expected.acknowledged.insert(partition, outcome);
        }
        if step == SessionStep::Closed {
            self.release(&key);
        }
        let listed = step != SessionStep::Closed && !expected.acknowledged.is_empty();
        if listed && request.as_fetch().is_some() {
            expected.rows.extend(last.keys());
        }
        expected.fetches = step != SessionStep::Closed && !request.is_renew_ack();
        expected
    }

    fn acknowledge_one(
        &mut self,
        now: Duration,
        key: &SessionKey,
        listing: &Listing<'_>,
    ) -> (ErrorCode, Option<&'static str>) {
        match self.shares.get_mut(&(key.group_id.clone(), listing.partition)) {
            None => (
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some("This server does not host this topic-partition."),
            ),
            Some(share) => match share.acknowledge(now, &key.member_id, listing.batches.iter()) {
                Ok(()) => (ErrorCode::NONE, None),
                Err(error) => {
                    let reason = error.reason;
                    assert_ne!(reason, AcknowledgeReason::Malformed, "validate() finds it before");
                    (error.code(), Some(broker_words(reason)))
                }
            },
        }
    }

    /// Takes a ShareFetch; its share partitions are loaded.
    pub(super) fn fetch(&mut self, now: Duration, from: (u64, i16), request: &ShareFetchRequest) -> Expected {
        let mut expected = self.apply(now, from, request);
        if !expected.top.is_ok() || !expected.fetches {
            return expected;
        }
        let key = key_of(request);
        let session: Vec<_> = self.sessions.get(&key).unwrap().partitions().collect();
        if ShareAcquireMode::from_number(request.share_acquire_mode).is_none() && !session.is_empty() {
            // The other defect of the broker.
            return Expected { top: ErrorCode::UNKNOWN_SERVER_ERROR, ..Default::default() };
        }
        expected.fetches = request.max_records > 0 && request.max_bytes > 0;
        for partition in session {
            if expected.fetches && self.fetch_error(&key, partition).is_ok() {
                let id = (key.group_id.clone(), partition);
                let config = self.config(&key.group_id);
                self.shares.entry(id.clone()).or_insert_with(|| match self.persisted.get(&id) {
                    Some(state) => SharePartition::restore(config, state),
                    None => SharePartition::new(config, 0),
                });
            }
        }
        expected
    }

    pub(super) fn fetch_error(&self, key: &SessionKey, partition: TopicIdPartition) -> ErrorCode {
        if !self.has_topic(partition.topic_id) {
            ErrorCode::UNKNOWN_TOPIC_ID
        } else if !self.has_partition(partition) {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else if !self.groups.contains(&key.group_id) {
            ErrorCode::UNKNOWN_SERVER_ERROR
        } else {
            ErrorCode::NONE
        }
    }
}

fn partition_of(refusal: &Refusal) -> Option<TopicIdPartition> {
    match refusal.level {
        Level::Top => None,
        Level::Partition(partition) | Level::Acknowledge(partition) => Some(partition),
    }
}
