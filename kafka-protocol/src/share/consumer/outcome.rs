//! What comes back from leaders.

use std::collections::BTreeSet;
use std::time::Duration;

use super::delivery::{Delivery, Fetched};
use super::leader::{CommitPart, Purpose, SentToLeader};
use super::{CommitId, DropReason, Event, Phase, Sent, ShareConsumer};
use crate::messages::share_fetch_response::PartitionData;
use crate::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use crate::protocol::ErrorCode;
use crate::share::{AcknowledgeResult, Acknowledgements, TopicIdPartition};
use crate::wire::{Bytes, Str};

impl ShareConsumer {
    pub(super) fn fetched(&mut self, sent: Sent, response: &ShareFetchResponse) {
        let Some((at, of)) = self.answered(sent) else { return };
        let results = self.leaders[at].session.fetch_response(response);
        for endpoint in &response.node_endpoints {
            self.topics.found(endpoint.node_id, &endpoint.host, endpoint.port);
        }
        let lock_timeout = self.lock_timeout_told(response.acquisition_lock_timeout_ms);
        self.complete_results(sent, of, results, lock_timeout);
        if self.is_refused(at, response.error_code, &response.error_message) {
            return;
        }
        let mut seen = BTreeSet::new();
        for topic in &response.responses {
            for row in &topic.partitions {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                // Nothing is delivered twice, whatever a broker answers.
                if !seen.insert(partition) {
                    continue;
                }
                let leader = (row.current_leader.leader_id, row.current_leader.leader_epoch);
                let has_moved = self.check_leader(sent.node, partition, row.error_code, leader);
                // Acknowledgements fail at a former leader in other ways (measured), which are no reason to look further.
                if !has_moved {
                    self.check_leader(sent.node, partition, row.acknowledge_error_code, leader);
                }
                if row.error_code.is_ok() {
                    self.records_fetched(sent, partition, row, lock_timeout);
                } else if !has_moved {
                    self.partition_failed(partition, row);
                }
            }
        }
    }

    pub(super) fn acknowledged(&mut self, sent: Sent, response: &ShareAcknowledgeResponse) {
        let Some((at, of)) = self.answered(sent) else { return };
        let results = self.leaders[at].session.acknowledge_response(response);
        for endpoint in &response.node_endpoints {
            self.topics.found(endpoint.node_id, &endpoint.host, endpoint.port);
        }
        for topic in &response.responses {
            for row in topic.partitions.iter().filter(|row| !row.error_code.is_ok()) {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                let leader = (row.current_leader.leader_id, row.current_leader.leader_epoch);
                self.check_leader(sent.node, partition, row.error_code, leader);
            }
        }
        let lock_timeout = self.lock_timeout_told(response.acquisition_lock_timeout_ms);
        self.complete_results(sent, of, results, lock_timeout);
        self.is_refused(at, response.error_code, &response.error_message);
    }

    /// The lock timeout that a response tells; a broker that does not tell writes 0.
    fn lock_timeout_told(&mut self, ms: i32) -> Option<Duration> {
        let told = u64::try_from(ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        self.told_lock_timeout = told.or(self.told_lock_timeout);
        told
    }

    /// The leader that a response belongs to, which then has nothing in flight.
    fn answered(&mut self, sent: Sent) -> Option<(usize, SentToLeader)> {
        let at = self.leaders.iter().position(|leader| leader.node == sent.node)?;
        let leader = &mut self.leaders[at];
        let of = leader.sent.take_if(|of| of.id == sent.id)?;
        Some((at, of))
    }

    /// Looks at the error of a whole response; `false` if there is none.
    fn is_refused(&mut self, at: usize, error: ErrorCode, message: &Option<Str>) -> bool {
        match error {
            ErrorCode::NONE => {
                self.leaders[at].failures = 0;
                return false;
            }
            // The session starts over, at once the first time.
            ErrorCode::SHARE_SESSION_NOT_FOUND | ErrorCode::INVALID_SHARE_SESSION_EPOCH
                if self.leaders[at].failures == 0 =>
            {
                self.leaders[at].failures = 1;
            }
            ErrorCode::GROUP_AUTHORIZATION_FAILED | ErrorCode::UNSUPPORTED_VERSION
                if self.phase == Phase::Running =>
            {
                self.fail(error, message.clone());
            }
            _ => {
                let node = self.leaders[at].node;
                self.back_off(at);
                self.events.push(Event::NodeError { node, error, message: message.clone() });
            }
        }
        true
    }

    // ---- Acknowledgements ----

    fn complete_results(
        &mut self,
        sent: Sent,
        of: SentToLeader,
        results: Vec<AcknowledgeResult>,
        lock_timeout: Option<Duration>,
    ) {
        let lock_deadline = lock_timeout.map(|timeout| sent.at.saturating_add(timeout));
        for result in results {
            let renews = result.error.is_ok() && result.acknowledgements.has_renew();
            match of.purpose {
                Purpose::Commit(commit, deadline) => {
                    if self.may_retry(result.error, deadline) {
                        self.retry(sent.node, commit, deadline, result);
                        continue;
                    }
                    self.complete(sent.node, Some(commit), result, lock_deadline);
                }
                _ => self.complete(sent.node, None, result, lock_deadline),
            }
            if renews && lock_timeout.is_some() {
                self.renewed_lock_timeout = lock_timeout;
            }
        }
    }

    /// Errors that mean that the locks are gone are not retried.
    fn may_retry(&self, error: ErrorCode, deadline: Duration) -> bool {
        let is_lost = matches!(
            error,
            ErrorCode::NOT_LEADER_OR_FOLLOWER
                | ErrorCode::FENCED_LEADER_EPOCH
                | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                | ErrorCode::UNKNOWN_TOPIC_ID
        );
        error.is_retriable() && !is_lost && self.phase == Phase::Running && self.now < deadline
    }

    fn retry(&mut self, node: i32, commit: CommitId, deadline: Duration, result: AcknowledgeResult) {
        let not_before = self.now.saturating_add(self.config.retry_backoff);
        let Some(leader) = self.leaders.iter_mut().find(|leader| leader.node == node) else { return };
        let acknowledgements = [(result.partition, result.acknowledgements)].into_iter().collect();
        leader.commits.push_back(CommitPart { commit, not_before, deadline, acknowledgements });
    }

    /// Acknowledgements have come to their end.
    pub(super) fn complete(
        &mut self,
        node: i32,
        commit: Option<CommitId>,
        result: AcknowledgeResult,
        lock_deadline: Option<Duration>,
    ) {
        if !result.error.is_ok() {
            self.metrics.acknowledgements_error.record(self.now, result.acknowledgements.len());
        }
        if result.acknowledgements.has_renew() {
            let of_node =
                |delivery: &&mut Delivery| delivery.node == node && delivery.partition == result.partition;
            for delivery in self.current.iter_mut().filter(of_node) {
                if result.error.is_ok() {
                    delivery.renewed(&result.acknowledgements, lock_deadline);
                } else {
                    delivery.not_renewed(&result.acknowledgements);
                }
            }
        }
        self.events.push(Event::Acknowledged { commit, result });
        if let Some(commit) = commit {
            self.committed(commit);
        }
    }

    pub(super) fn complete_all(
        &mut self,
        node: i32,
        commit: Option<CommitId>,
        acknowledgements: Acknowledgements,
        error: ErrorCode,
    ) {
        for (partition, acknowledgements) in acknowledgements {
            if !acknowledgements.is_empty() {
                let result = AcknowledgeResult { partition, acknowledgements, error, message: None };
                self.complete(node, commit, result, None);
            }
        }
    }

    /// One more partition belongs to a commit.
    pub(super) fn one_more_of(&mut self, commit: CommitId) {
        if let Some(of) = self.commits.iter_mut().find(|of| of.0 == commit) {
            of.1 += 1;
        }
    }

    /// A partition of a commit has come to its end.
    pub(super) fn committed(&mut self, commit: CommitId) {
        let Some(at) = self.commits.iter().position(|of| of.0 == commit) else { return };
        self.commits[at].1 -= 1;
        if self.commits[at].1 == 0 {
            self.commits.swap_remove(at);
            self.events.push(Event::Committed { commit });
        }
    }

    // ---- Records ----

    fn records_fetched(
        &mut self,
        sent: Sent,
        partition: TopicIdPartition,
        row: &PartitionData,
        lock_timeout: Option<Duration>,
    ) {
        if row.acquired_records.is_empty() || self.phase != Phase::Running {
            return; // closing the session releases them
        }
        let Some(link) = self.links.ready(sent.node).map(|ready| ready.number) else { return };
        let empty = Bytes::new();
        let fetched = Fetched {
            topic: self.topics.name(partition.topic_id).cloned().unwrap_or_default(),
            partition,
            node: sent.node,
            link,
            sent_at: sent.at,
            lock_timeout,
            field: row.records.as_ref().unwrap_or(&empty),
            acquired: &row.acquired_records,
        };
        let (mut delivery, error) = Delivery::new(fetched, &self.config.read);
        let is_readable = error.is_none();
        if let Some(error) = error {
            let acknowledgements = delivery.automatic().clone();
            self.events.push(Event::Unreadable { partition, error: Box::new(error), acknowledgements });
        }
        if delivery.ready() > 0 {
            self.buffered.push_back(delivery);
            return;
        }
        if !is_readable {
            self.lock_timeout = lock_timeout.or(self.lock_timeout);
        }
        // Nothing of it goes to the application, so nothing else would send these.
        if let Some(leader) = self.leaders.iter_mut().find(|leader| leader.node == sent.node) {
            leader.pending.partition_mut(partition).merge(delivery.take_automatic());
        }
    }

    /// A leader of old tells who leads now; if it does not, metadata has to. `true` if it does.
    fn check_leader(
        &mut self,
        from: i32,
        partition: TopicIdPartition,
        error: ErrorCode,
        (node, epoch): (i32, i32),
    ) -> bool {
        match error {
            // Only with these two errors the fields say anything.
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
                if self.topics.moved(partition, from, node, epoch) =>
            {
                self.is_stale = true;
                return true;
            }
            ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID => self.control.need_metadata(),
            _ => {}
        }
        false
    }

    /// Records of a partition are refused. It is left alone for a while, or the leader would answer the same at once.
    fn partition_failed(&mut self, partition: TopicIdPartition, row: &PartitionData) {
        let error = row.error_code;
        let pause =
            if error.is_retriable() { self.config.retry_backoff } else { self.config.retry_backoff_max };
        self.topics.pause(partition, self.now.saturating_add(pause));
        self.is_stale = true;
        if !error.is_retriable() {
            let message = row.error_message.clone();
            self.events.push(Event::PartitionError { partition, error, message });
        }
    }

    /// The connection to a leader is gone.
    pub(super) fn lose_leader(&mut self, node: i32, error: ErrorCode) {
        let Some(at) = self.leaders.iter().position(|leader| leader.node == node) else { return };
        let leader = &mut self.leaders[at];
        let (sent, results) = (leader.sent.take(), leader.session.failed(error));
        let (pending, last) = (std::mem::take(&mut leader.pending), std::mem::take(&mut leader.last));
        let commits = std::mem::take(&mut leader.commits);
        let commit = match sent.map(|of| of.purpose) {
            Some(Purpose::Commit(commit, _)) => Some(commit),
            _ => None,
        };
        for result in results {
            self.complete(node, commit, result, None);
        }
        self.complete_all(node, None, pending, error);
        for part in commits {
            self.complete_all(node, Some(part.commit), part.acknowledgements, error);
        }
        self.complete_all(node, None, last, error);
        for at in 0..self.current.len() {
            let (of, partition) = (self.current[at].node, self.current[at].partition);
            if of != node {
                continue;
            }
            let records = self.current[at].drop_all();
            if records > 0 {
                self.events.push(Event::Dropped { partition, records, reason: DropReason::Disconnected });
            }
        }
        self.control.need_metadata();
    }
}
