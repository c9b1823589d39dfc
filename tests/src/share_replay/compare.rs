//! What the broker answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::{ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::locks::{Acquire, DeliveryState, RecordBatchRange, SharePartition};
use kafka_protocol::share::sessions::{SessionKey, ShareSession};
use kafka_protocol::share::validate::ShareRequest;
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};

use super::{Expected, Replay, SLACK, key_of};
use crate::walks::{Range, fetch_as};

impl Replay {
    pub(super) fn compare_acknowledge(
        &mut self,
        version: i16,
        expected: &Expected,
        response: &ShareAcknowledgeResponse,
        context: &str,
    ) {
        assert_eq!(response.error_code, expected.top, "{context}: {expected:?}");
        let timeout = if version >= 2 { expected.lock_timeout_ms } else { 0 };
        assert_eq!(response.acquisition_lock_timeout_ms, timeout, "{context}");
        let mut rows = BTreeMap::new();
        for topic in &response.responses {
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                let old = rows.insert(partition, (row.error_code, row.error_message.as_deref()));
                assert!(old.is_none(), "{context}: two rows");
            }
        }
        assert_eq!(rows, expected.acknowledged, "{context}");
        self.counts.rows += rows.len();
        self.counts.acknowledges += 1;
    }

    pub(super) fn compare_fetch(
        &mut self,
        now: Duration,
        line: usize,
        request: &ShareFetchRequest,
        expected: &Expected,
        response: &ShareFetchResponse,
        context: &str,
    ) {
        assert_eq!(response.error_code, expected.top, "{context}: {expected:?}");
        assert_eq!(response.acquisition_lock_timeout_ms, expected.lock_timeout_ms, "{context}");
        self.counts.fetches += 1;
        let key = key_of(request);
        let is_listed = |partition| request.listings().any(|listing| listing.partition == partition);
        let (mut acknowledged, mut acquired, mut listed) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for topic in &response.responses {
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                assert!(listed.insert(partition), "{context}: two rows");
                let code = if !expected.fetches {
                    ErrorCode::NONE
                } else if let Some(refused) = expected.refused.get(&partition) {
                    *refused
                } else if !is_listed(partition) && !self.session_error(partition).is_ok() {
                    self.session_error(partition)
                } else if expected.fetches_records {
                    self.group_error(&key)
                } else {
                    ErrorCode::NONE
                };
                assert_eq!(row.error_code, code, "{context} {partition}");
                let outcome = (row.acknowledge_error_code, row.acknowledge_error_message.as_deref());
                acknowledged.insert(partition, outcome);
                let ranges = row.acquired_records.iter();
                let ranges: Vec<Range> = ranges
                    .map(|range| (range.first_offset, range.last_offset, range.delivery_count))
                    .collect();
                if !ranges.is_empty() {
                    acquired.push((partition, ranges));
                }
            }
        }
        self.counts.rows += acknowledged.len();
        if expected.fetches {
            self.must_have_news(&key, expected, &listed, context);
            // Rows of what is fetched, only.
            acknowledged.retain(|partition, outcome| {
                *outcome != (ErrorCode::NONE, None) || expected.acknowledged.contains_key(partition)
            });
        }
        assert_eq!(acknowledged, expected.acknowledged, "{context}");
        assert!(expected.fetches_records || acquired.is_empty(), "{context}: records");
        self.acquire(now, line, request, &acquired, context);
        if expected.fetches_records {
            self.count_loading(now, request, &acquired);
        }
    }

    /// Partitions with an error are told each time.
    fn must_have_news(
        &self,
        key: &SessionKey,
        expected: &Expected,
        listed: &BTreeSet<TopicIdPartition>,
        context: &str,
    ) {
        let in_session = self.sessions.get(key).into_iter().flat_map(ShareSession::partitions);
        let of_group = expected.fetches_records && !self.group_error(key).is_ok();
        let failed = in_session.filter(|partition| of_group || !self.session_error(*partition).is_ok());
        for partition in failed.chain(expected.refused.keys().copied()) {
            assert!(listed.contains(&partition), "{context}: no row for {partition}");
        }
    }

    /// Acquires what the broker acquired, in the order of its rows or the other way round.
    fn acquire(
        &mut self,
        now: Duration,
        line: usize,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
        context: &str,
    ) {
        if acquired.is_empty() {
            return;
        }
        let backwards: Vec<_> = acquired.iter().rev().cloned().collect();
        let mut problem = String::new();
        for attempt in 0..2 {
            for order in [acquired, &backwards] {
                match self.acquire_in(now, request, order) {
                    Ok(()) => {
                        self.counts.ranges += acquired.iter().map(|(_, ranges)| ranges.len()).sum::<usize>();
                        return;
                    }
                    Err(difference) => problem = difference,
                }
            }
            if attempt == 0 {
                self.end_connections(line, request, acquired);
            }
        }
        panic!("{context}: {problem}");
    }

    fn acquire_in(
        &mut self,
        now: Duration,
        request: &ShareFetchRequest,
        order: &[(TopicIdPartition, Vec<Range>)],
    ) -> Result<(), String> {
        let key = key_of(request);
        let mut left = request.max_records;
        let mut changed = Vec::new();
        for (partition, ranges) in order {
            let id = (key.group_id.clone(), *partition);
            let share = self.shares.get(&id).ok_or("not loaded")?;
            let log = &self.logs[partition];
            changed.push((id, acquire_like(share, now, &key.member_id, log, request, left, ranges)?));
            left -= ranges.iter().map(|(first, last, _)| (last - first + 1) as i32).sum::<i32>();
        }
        self.shares.extend(changed);
        Ok(())
    }

    /// The broker handed out what somebody has acquired here: if that one's connection has no more frames, it has ended.
    fn end_connections(
        &mut self,
        line: usize,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
    ) {
        let group_id = request.group_id.clone().unwrap();
        let mut owners = BTreeSet::new();
        for (partition, _) in acquired {
            let share = self.shares.get(&(group_id.clone(), *partition));
            for (state, owner) in share.into_iter().flat_map(SharePartition::states) {
                if state.delivery_state == DeliveryState::Acquired {
                    owners.insert(SessionKey::new(group_id.clone(), owner.unwrap()));
                }
            }
        }
        for owner in owners {
            let connection = self.sessions.get(&owner).map(|session| session.connection().0);
            if let Some(connection) = connection.filter(|connection| self.last_lines[connection] < line) {
                self.disconnect(connection);
            }
        }
    }

    /// Counts partitions from which more could have been acquired.
    fn count_loading(
        &mut self,
        now: Duration,
        request: &ShareFetchRequest,
        acquired: &[(TopicIdPartition, Vec<Range>)],
    ) {
        let key = key_of(request);
        let records = acquired.iter().flat_map(|(_, ranges)| ranges);
        let left =
            request.max_records - records.map(|(first, last, _)| (last - first + 1) as i32).sum::<i32>();
        let session: Vec<_> =
            self.sessions.get(&key).into_iter().flat_map(ShareSession::partitions).collect();
        for partition in session {
            let (Some(share), Some(log)) =
                (self.shares.get(&(key.group_id.clone(), partition)), self.logs.get(&partition))
            else {
                continue;
            };
            let fresh = acquired.iter().all(|(of, _)| *of != partition);
            if fresh && acquire_like(share, now, &key.member_id, log, request, left, &[]).is_err() {
                self.counts.loading += 1;
            }
        }
    }
}

/// Acquires what the broker acquired, if that is possible about now.
fn acquire_like(
    share: &SharePartition,
    now: Duration,
    member_id: &str,
    log: &[RecordBatchRange],
    request: &ShareFetchRequest,
    max_records: i32,
    ranges: &[Range],
) -> Result<SharePartition, String> {
    let mut problem = String::new();
    let limits = Acquire {
        mode: ShareAcquireMode::from_number(request.share_acquire_mode).unwrap(),
        max_records,
        batch_size: request.batch_size,
        ..Default::default()
    };
    // Timers of records that have states of their own run out one after the other in the broker, so that a fetch may
    // find only the first of them.
    let last = ranges.last().map_or(i64::MAX, |range| range.1);
    let clip =
        |batch: &RecordBatchRange| RecordBatchRange { last_offset: batch.last_offset.min(last), ..*batch };
    let clipped: Vec<_> = log.iter().filter(|batch| batch.base_offset <= last).map(clip).collect();
    for at in [now.saturating_sub(SLACK), now, now + SLACK] {
        for log in [log, &clipped] {
            let mut share = share.clone();
            share.expire(at);
            let acquired = fetch_as(&mut share, now, member_id, log, &limits);
            if acquired == ranges {
                return Ok(share);
            }
            problem = format!("acquires {acquired:?}, the broker {ranges:?}");
        }
    }
    Err(problem)
}
