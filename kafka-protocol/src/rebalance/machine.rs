//! The member from inside: what time, responses and failures do, and which request comes next.

use std::time::Duration;

use super::commits::CommitError;
use super::coordinator::{Coordinator, Sent};
use super::core::{Core, Leaving, Purpose, Then, Verdict};
use super::event::Event;
use super::member::Member;
use super::protocol::Protocol;
use super::request::{Request, Response};
use super::topics::Wanted;
use crate::messages::MetadataResponse;
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// What is due.
impl Member {
    /// Does what is due because time has passed.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.is_finished() {
            return;
        }
        while let Some(sent) = self.core.in_flight.take_expired(now) {
            self.failed(sent, ErrorCode::REQUEST_TIMED_OUT, None, now);
        }
        self.core.commits.expire(now);
        self.settle();
        self.protocol.expire(&mut self.core, now);
        let polls = self.core.leaving.is_none() && !self.core.is_stale;
        if polls && self.core.poll_end().is_some_and(|end| end <= now) {
            self.poll_expired(now);
        }
        if self.core.revocation_end().is_some_and(|end| end <= now) {
            // The coordinator has lost its patience; a heartbeat will tell.
            self.core.revoking_since = None;
            self.protocol.heartbeat_now();
        }
        if self.core.leaving.as_ref().is_some_and(|leaving| leaving.deadline <= now)
            && (self.core.coordinator.node.is_none()
                || self.core.coordinator.throttle_end(now).is_some()
                || self.protocol.is_getting_id(&self.core))
        {
            self.left();
        }
    }

    fn poll_expired(&mut self, now: Duration) {
        let leaves = self.protocol.leave_request(&self.core, "").is_some();
        self.core.lose();
        self.core.is_stale = true;
        self.core.events.push_back(Event::PollIntervalExpired);
        if leaves {
            let deadline = now.saturating_add(self.core.config.request_timeout);
            self.core.leaving = Some(Leaving { then: Then::Stale, deadline });
        } else {
            self.protocol.left(&self.core);
        }
    }

    pub(super) fn leave(&mut self, then: Then, deadline: Duration, now: Duration) {
        if self.is_finished() {
            return;
        }
        self.expire(now);
        self.core.subscription = None;
        self.core.polled_at = None;
        self.core.partitions.complete_all();
        self.core.leaving = Some(Leaving { then, deadline });
        self.advance(now);
    }

    pub(super) fn advance(&mut self, now: Duration) {
        let Some(leaving) = &self.core.leaving else {
            return match &mut self.protocol {
                Protocol::Classic(classic) => classic.advance(&mut self.core, now),
                Protocol::Consumer(consumer) => consumer.advance(&mut self.core, now),
            };
        };
        // The others wait for a leader's assignment, and commits for the end of the round.
        if let Protocol::Classic(classic) = &mut self.protocol {
            classic.assign(&self.core);
        }
        // Commits that cannot be sent any more are not waited for.
        if leaving.deadline <= now || self.protocol.is_outside() {
            self.core.partitions.waive();
        }
        self.core.give_up();
        let sent = self.core.in_flight.any(|purpose| matches!(purpose, Purpose::Leave));
        if self.core.partitions.is_empty() && !sent && self.protocol.leave_request(&self.core, "").is_none() {
            self.left();
        }
    }

    /// The group is left, or taken as left.
    fn left(&mut self) {
        let Some(Leaving { then, .. }) = self.core.leaving.take() else { return };
        self.core.partitions.waive();
        self.core.give_up();
        self.core.commits.abandon_all(CommitError::GivenUp);
        self.core.in_flight.forget(Purpose::is_for_coordinator);
        self.protocol.left(&self.core);
        match then {
            Then::Idle => self.core.events.push_back(Event::Left),
            Then::Closed => {
                self.core.is_closed = true;
                self.core.in_flight.forget(|_| true);
                self.core.events.push_back(Event::Left);
            }
            Then::Stale => {}
        }
        self.settle();
    }

    /// Reports commits that are at their end.
    pub(super) fn settle(&mut self) {
        self.core.events.extend(self.core.commits.take_ended().into_iter().map(Event::Committed));
    }

    pub(super) fn request(&mut self, now: Duration) -> Option<(Request, Purpose)> {
        if self.is_finished() {
            return None;
        }
        self.metadata_request(now).or_else(|| {
            if self.core.coordinator.node.is_none() {
                return self.find_coordinator_request(now);
            }
            if self.core.coordinator.throttle_end(now).is_some() {
                return None;
            }
            // Commits first: what follows may end the generation that they belong to.
            let stamp = self.protocol.stamp(&self.core);
            let commit = stamp.clone().and_then(|stamp| self.core.commit_request(stamp, now));
            commit.or_else(|| self.protocol_request(now)).or_else(|| {
                let consumer_protocol = matches!(self.protocol, Protocol::Consumer(_));
                self.core.offset_request(stamp?, consumer_protocol, now)
            })
        })
    }

    fn protocol_request(&mut self, now: Duration) -> Option<(Request, Purpose)> {
        if let Some(leaving) = &self.core.leaving
            && self.core.partitions.is_empty()
        {
            let leaves = self.core.in_flight.any(|purpose| matches!(purpose, Purpose::Leave));
            if leaves || self.protocol.is_getting_id(&self.core) {
                return None;
            }
            let reason = match leaving.then {
                Then::Idle => "the consumer unsubscribed from all topics",
                Then::Closed => "the consumer is being closed",
                Then::Stale => "consumer poll timeout has expired",
            };
            let request = self.protocol.leave_request(&self.core, reason)?;
            self.core.in_flight.forget(Purpose::is_for_coordinator);
            return Some((request, Purpose::Leave));
        }
        match &mut self.protocol {
            Protocol::Classic(classic) => classic.next_request(&self.core, now),
            Protocol::Consumer(consumer) => consumer.next_request(&self.core, now),
        }
    }

    fn find_coordinator_request(&self, now: Duration) -> Option<(Request, Purpose)> {
        let core = &self.core;
        let is_needed = core.leaving.is_some() || core.subscription.is_some() && !core.is_stale;
        let asks = core.in_flight.any(|purpose| matches!(purpose, Purpose::FindCoordinator));
        (is_needed && !asks && core.coordinator.backoff.is_over(now))
            .then(|| (Coordinator::request(&core.config.group_id), Purpose::FindCoordinator))
    }

    fn metadata_request(&self, now: Duration) -> Option<(Request, Purpose)> {
        let core = &self.core;
        let asks = core.in_flight.any(|purpose| matches!(purpose, Purpose::Metadata));
        if asks || !core.metadata_backoff.is_over(now) {
            return None;
        }
        let wanted = self.metadata_wanted(now);
        (!wanted.is_empty()).then(|| (wanted.request(), Purpose::Metadata))
    }

    fn metadata_wanted(&self, now: Duration) -> Wanted {
        match &self.protocol {
            Protocol::Classic(classic) => classic.metadata_wanted(&self.core, now),
            Protocol::Consumer(consumer) => consumer.metadata_wanted(&self.core),
        }
    }

    pub(super) fn timeout(&self, purpose: &Purpose, now: Duration) -> Duration {
        match (purpose, &self.protocol, &self.core.leaving) {
            (Purpose::Join, Protocol::Classic(classic), _) => classic.join_timeout(&self.core),
            (Purpose::Sync, Protocol::Classic(classic), _) => classic.sync_timeout(&self.core),
            (Purpose::Leave, _, Some(leaving)) => leaving.deadline.saturating_sub(now),
            _ => self.core.config.request_timeout,
        }
    }
}

/// What comes back.
impl Member {
    pub(super) fn answered(&mut self, sent: Sent<Purpose>, response: Response, now: Duration) {
        let core = &mut self.core;
        match (&sent.purpose, response, &mut self.protocol) {
            (Purpose::FindCoordinator, Response::FindCoordinator(response), _) => {
                if let Err((error_code, message)) = core.coordinator.found(response, now) {
                    core.fail(sent.purpose.api(), error_code, message);
                }
            }
            (Purpose::Metadata, Response::Metadata(response), _) => self.metadata_answered(&response, now),
            (Purpose::Join, Response::JoinGroup(response), Protocol::Classic(classic)) => {
                classic.joined(core, response, now);
            }
            (Purpose::Sync, Response::SyncGroup(response), Protocol::Classic(classic)) => {
                classic.synced(core, &sent, response, now);
            }
            (Purpose::Heartbeat, Response::Heartbeat(response), Protocol::Classic(classic)) => {
                classic.heartbeat_answered(core, sent.at, response.error_code, now);
            }
            (Purpose::Leave, Response::LeaveGroup(_) | Response::ConsumerGroupHeartbeat(_), _) => self.left(),
            (_, Response::ConsumerGroupHeartbeat(response), Protocol::Consumer(consumer)) => {
                consumer.heartbeat_answered(core, sent, response, now);
            }
            (Purpose::Commit(batch, stamp), Response::OffsetCommit(response), protocol) => {
                let is_current = *stamp == protocol.identity();
                let verdict = core.committed(batch, &response, is_current, now);
                self.judge(verdict);
            }
            (Purpose::OffsetFetch(stamp), Response::OffsetFetch(response), protocol) => {
                let is_current = *stamp == protocol.identity();
                let verdict = core.offsets_fetched(response, is_current, now);
                self.judge(verdict);
            }
            // The answer of another API.
            _ => self.failed(sent, ErrorCode::UNKNOWN_SERVER_ERROR, None, now),
        }
    }

    pub(super) fn failed(
        &mut self,
        sent: Sent<Purpose>,
        error_code: ErrorCode,
        message: Option<Str>,
        now: Duration,
    ) {
        let core = &mut self.core;
        let api = sent.purpose.api();
        match (sent.purpose, &mut self.protocol) {
            (Purpose::FindCoordinator, _) if error_code.is_retriable() => core.coordinator.failed(now),
            (Purpose::Metadata, _) if error_code.is_retriable() => core.metadata_backoff.failed(now),
            (Purpose::FindCoordinator | Purpose::Metadata, _) => core.fail(api, error_code, message),
            (Purpose::Join | Purpose::Sync, Protocol::Classic(classic)) => {
                classic.join_failed(core, api, error_code, now);
            }
            (Purpose::Heartbeat, Protocol::Classic(classic)) => {
                classic.heartbeat_answered(core, sent.at, error_code, now);
            }
            (Purpose::ConsumerHeartbeat(_), Protocol::Consumer(consumer)) => {
                consumer.heartbeat_failed(core, error_code, message, now);
            }
            (Purpose::Commit(batch, stamp), protocol) => {
                let verdict = core.commit_failed(&batch, error_code, stamp == protocol.identity(), now);
                self.judge(verdict);
            }
            (Purpose::OffsetFetch(stamp), protocol) => {
                let verdict = core.offset_fetch_failed(error_code, stamp == protocol.identity(), now);
                self.judge(verdict);
            }
            (Purpose::Leave, _) => self.left(),
            // A protocol sends no requests of another.
            _ => {}
        }
    }

    fn metadata_answered(&mut self, response: &MetadataResponse, now: Duration) {
        self.metadata(response, now);
        self.core.metadata_backoff.succeeded();
        // What is still missing is asked for again, after a pause.
        if !self.metadata_wanted(now).is_empty() {
            self.core.metadata_backoff.failed(now);
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        match (verdict, &mut self.protocol) {
            (Verdict::Fine, _) => {}
            (Verdict::Stale, protocol) => protocol.heartbeat_now(),
            (Verdict::Fenced(error_code), Protocol::Classic(classic)) => {
                classic.fenced(&mut self.core, error_code);
            }
            (Verdict::Fenced(error_code), Protocol::Consumer(consumer)) => {
                consumer.fenced(&mut self.core, error_code);
            }
        }
    }
}

impl Core {
    /// When the poll interval ends; `None` without a subscription.
    pub(super) fn poll_end(&self) -> Option<Duration> {
        Some(self.polled_at?.saturating_add(self.config.max_poll_interval))
    }

    /// When the coordinator does not wait any more for what it wants back.
    pub(super) fn revocation_end(&self) -> Option<Duration> {
        Some(self.revoking_since?.saturating_add(self.config.max_poll_interval))
    }
}
