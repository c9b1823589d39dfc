//! What we answer.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::locks::{AcknowledgeReason, SharePartition};
use kafka_protocol::share::sessions::{ConnectionId, SessionKey, SessionStep};
use kafka_protocol::share::validate::{BrokerState, Level, Listing, ShareRequest, validate};
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
        for refusal in &refusals {
            let earlier = match refusal.level {
                Level::Partition(of) if request.as_fetch().is_some() => {
                    expected.refused.insert(of, refusal.code).is_some()
                }
                Level::Partition(of) | Level::Acknowledge(of) => {
                    expected.acknowledged.insert(of, (refusal.code, None)).is_some()
                }
                Level::Top => unreachable!("is alone"),
            };
            assert!(!earlier, "a field is refused twice: {refusals:?}");
        }
        let mut last: BTreeMap<_, _> =
            request.listings().map(|listing| (listing.partition, listing)).collect();
        last.retain(|partition, _| !expected.acknowledged.contains_key(partition));
        // What is only listed has a row beside acknowledgements that have come as far as the records.
        if last.values().all(|listing| listing.batches.is_empty()) {
            last.clear();
        }
        for (partition, listing) in last {
            let outcome = match listing.batches.is_empty() {
                true => (ErrorCode::NONE, None),
                false => self.acknowledge_one(now, &key, &listing),
            };
            if outcome.0 == ErrorCode::UNKNOWN_SERVER_ERROR {
                return Expected { top: outcome.0, ..Default::default() };
            }
            expected.acknowledged.insert(partition, outcome);
        }
        if step == SessionStep::Closed {
            self.release(&key);
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
        expected.fetches_records = request.max_records > 0 && request.max_bytes > 0;
        for partition in session {
            let is_known = self.session_error(partition).is_ok() && self.group_error(&key).is_ok();
            if expected.fetches_records && is_known {
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

    /// The code with which the broker has to tell of a partition of a session.
    pub(super) fn session_error(&self, partition: TopicIdPartition) -> ErrorCode {
        if !self.has_topic(partition.topic_id) {
            ErrorCode::UNKNOWN_TOPIC_ID
        } else if !self.has_partition(partition) {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::NONE
        }
    }

    /// The code with which records are fetched from a partition that is known.
    pub(super) fn group_error(&self, key: &SessionKey) -> ErrorCode {
        if self.groups.contains(&key.group_id) { ErrorCode::NONE } else { ErrorCode::UNKNOWN_SERVER_ERROR }
    }
}
