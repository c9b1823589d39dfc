//! The member: what callers see of the state machine.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{error, fmt};

use super::classic::Classic;
use super::commits::CommitError;
use super::consumer::Consumer;
use super::coordinator::{Backoff, Coordinator, Destination, Outgoing, RequestId, Sent};
use super::core::{Core, Leaving, Purpose, Stamp, Subscription, Then, Verdict};
use super::event::{Event, Refusal};
use super::partitions::{Changes, NoCommit};
use super::request::{Request, Response};
use super::topics::Wanted;
use super::{CommitId, Config, GroupProtocol, Node, OffsetAndMetadata, TopicPartition};
use crate::messages::MetadataResponse;
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// A member of a consumer group, without its I/O. See the [module](super).
///
/// `now` is the time since an origin that the caller chooses, and must not go back.
#[derive(Debug)]
pub struct Member {
    core: Core,
    protocol: Protocol,
}

#[derive(Debug)]
enum Protocol {
    Classic(Classic),
    Consumer(Consumer),
}

/// What a [`poll`](Member::poll) has to say. Each partition is in at most one of `assigned`, `to_be_revoked` and `lost`,
/// and each change is reported by exactly one poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// Partitions that may be fetched from now on.
    pub assigned: Vec<Assigned>,
    /// Partitions whose revocation is announced: the next poll completes it, unless they are
    /// [held](Member::hold). From now on nothing of them may be fetched or handed out, and buffered records of them have
    /// to be dropped. Offsets of what has been processed can be committed until that next poll.
    pub to_be_revoked: Vec<TopicPartition>,
    /// Partitions that are lost: others may own them already. Stop processing their records, and do not commit.
    pub lost: Vec<TopicPartition>,
    /// Every partition whose records may be fetched and handed out until the next poll, `assigned` among them.
    pub fetchable: Vec<TopicPartition>,
}

/// A partition that has become fetchable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The partition.
    pub partition: TopicPartition,
    /// Where the group's last owner stopped; `None` if nothing is committed, so that `auto.offset.reset` or what the
    /// caller has instead of it decides.
    pub committed: Option<OffsetAndMetadata>,
}

/// Why a commit is not taken. Nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCommittable {
    /// The partition is lost. Its records may be processed by another member already.
    Lost(TopicPartition),
    /// No poll has reported the partition as assigned, or one has completed its revocation.
    NotOwned(TopicPartition),
    /// The offset is negative.
    NegativeOffset(TopicPartition),
}

impl error::Error for NotCommittable {}

impl fmt::Display for NotCommittable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(partition) => write!(f, "{partition} is lost"),
            Self::NotOwned(partition) => write!(f, "{partition} is not owned"),
            Self::NegativeOffset(partition) => write!(f, "the offset of {partition} is negative"),
        }
    }
}

/// Why a subscription is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSubscribable {
    /// The member is closed, closing or has failed.
    Closed,
    /// Regular expressions need the consumer protocol, and version 1 of it.
    ClassicRegex,
}

impl error::Error for NotSubscribable {}

impl fmt::Display for NotSubscribable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the member is closed",
            Self::ClassicRegex => "the classic protocols have no regular expressions",
        })
    }
}

/// For whoever consumes.
impl Member {
    /// A member that is not in the group yet.
    pub fn new(config: Config) -> Self {
        let backoff = Backoff::new(config.retry_backoff, config.retry_backoff_max);
        let protocol = match config.protocol.clone() {
            GroupProtocol::Classic { assignors } => Protocol::Classic(Classic::new(assignors, backoff)),
            GroupProtocol::Consumer { member_id, server_assignor } => {
                Protocol::Consumer(Consumer::new(member_id, server_assignor, backoff))
            }
        };
        Self { core: Core::new(config), protocol }
    }

    /// Subscribes to topics in place of those of before, and joins the group. The time to the first poll is limited as
    /// that between polls. No topic at all is like [`unsubscribe`](Self::unsubscribe).
    ///
    /// # Errors
    ///
    /// [`NotSubscribable::Closed`].
    pub fn subscribe<T: Into<Str>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
        now: Duration,
    ) -> Result<(), NotSubscribable> {
        self.expect_open()?;
        let topics: BTreeSet<_> = topics.into_iter().map(Into::into).collect();
        if topics.is_empty() {
            self.unsubscribe(now);
        } else {
            self.set_subscription(Subscription::Topics(topics), now);
        }
        Ok(())
    }

    /// Subscribes to the topics whose names match an RE2/J expression, which the coordinator evaluates (KIP-848).
    ///
    /// # Errors
    ///
    /// [`NotSubscribable`].
    pub fn subscribe_regex(&mut self, regex: impl Into<Str>, now: Duration) -> Result<(), NotSubscribable> {
        self.expect_open()?;
        if let Protocol::Classic(_) = self.protocol {
            return Err(NotSubscribable::ClassicRegex);
        }
        self.set_subscription(Subscription::Regex(regex.into()), now);
        Ok(())
    }

    fn expect_open(&self) -> Result<(), NotSubscribable> {
        let closing = matches!(&self.core.leaving, Some(leaving) if leaving.then == Then::Closed);
        if self.is_finished() || closing { Err(NotSubscribable::Closed) } else { Ok(()) }
    }

    fn set_subscription(&mut self, subscription: Subscription, now: Duration) {
        let core = &mut self.core;
        if core.subscription.is_none() {
            core.polled_at = Some(now);
        }
        core.subscription = Some(subscription);
        if let Protocol::Classic(classic) = &mut self.protocol
            && core.leaving.is_none()
        {
            classic.resubscribed(core, now);
        }
    }

    /// The poll of KIP-983, to be called again and again, at least every
    /// [`max_poll_interval`](Config::max_poll_interval). It never blocks. In this order
    ///
    /// 1. it reports what has been lost;
    /// 2. it completes the revocations that the last poll announced, but for those that are [held](Self::hold): these
    ///    partitions are given up as soon as the commits that were queued for them before this call are answered;
    /// 3. it announces the revocations that the group has asked for since;
    /// 4. it reports partitions that are new and whose committed offset is known.
    ///
    /// Nothing of this happens between polls. What the poll brings about is sent by [`next_request`](Self::next_request).
    pub fn poll(&mut self, now: Duration) -> Poll {
        self.expire(now);
        if self.core.subscription.is_some() && self.core.failure.is_none() {
            self.core.polled_at = Some(now);
        }
        self.core.is_stale = false;
        let Changes { assigned, to_be_revoked, lost } = self.core.partitions.poll();
        let assigned = assigned.into_iter().map(|(partition, committed)| Assigned { partition, committed });
        Poll {
            assigned: assigned.collect(),
            to_be_revoked,
            lost,
            fetchable: self.fetchable().cloned().collect(),
        }
    }

    /// Partitions whose revocation a poll has announced and none has completed, held ones among them. The same from one
    /// poll to the next, unless they are lost.
    pub fn to_be_revoked_partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.core.partitions.to_be_revoked()
    }

    /// Partitions that the last poll reported as lost, without those that have been assigned again since.
    pub fn lost_partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.core.partitions.lost()
    }

    /// Partitions whose records may be fetched and handed out.
    pub fn fetchable(&self) -> impl Iterator<Item = &TopicPartition> {
        self.core.partitions.fetchable()
    }

    /// Whether records of the partition may be handed out. Ask when they arrive: a partition whose revocation is announced
    /// while a fetch is under way is not fetchable any more, and its records have to be dropped.
    pub fn is_fetchable(&self, partition: &TopicPartition) -> bool {
        self.core.partitions.is_fetchable(partition)
    }

    /// Partitions that the group takes as this member's, fetchable or not: new ones whose committed offset is not known yet,
    /// and those on their way out until the message that gives them up.
    pub fn owned(&self) -> impl Iterator<Item = &TopicPartition> {
        self.core.partitions.owned().map(|(partition, _)| partition)
    }

    /// Holds the revocation of a partition: polls do not complete it before it is [released](Self::release). So the caller
    /// can go on polling for other partitions while the records of this one are still being processed. Mind
    /// [`revocation_deadline`](Self::revocation_deadline).
    ///
    /// `false`, and nothing happens, if the partition is not one of those [to be
    /// revoked](Self::to_be_revoked_partitions).
    pub fn hold(&mut self, partition: &TopicPartition) -> bool {
        self.core.partitions.hold(partition, true)
    }

    /// Ends the hold of a partition: the next poll completes its revocation.
    ///
    /// `false`, and nothing happens, if the partition is not one of those to be revoked.
    pub fn release(&mut self, partition: &TopicPartition) -> bool {
        self.core.partitions.hold(partition, false)
    }

    /// Partitions that are [held](Self::hold).
    pub fn held(&self) -> impl Iterator<Item = &TopicPartition> {
        self.core.partitions.held()
    }

    /// Until when announced revocations have to be completed lest everything be lost: the end of the poll interval, or of
    /// the time that the coordinator allows, counted from its first notice, if that is earlier. `None` if nothing is to be
    /// revoked.
    ///
    /// The coordinator has no limit of its own in the cooperative protocol, where it does not know who owns what.
    pub fn revocation_deadline(&self) -> Option<Duration> {
        self.core.partitions.to_be_revoked().next()?;
        [self.core.revocation_end(), self.core.poll_end()].into_iter().flatten().min()
    }

    /// Queues offsets to commit. They are sent with the generation or epoch that is valid when they are, one request after
    /// the other; what waits is sent together. Of several offsets that wait for one partition only the latest is sent, and
    /// it decides for all of them. The outcome is an [`Event::Committed`].
    ///
    /// Errors that may pass are tried again, such as `REBALANCE_IN_PROGRESS` while a group synchronizes.
    ///
    /// # Errors
    ///
    /// [`NotCommittable`], with the first partition that cannot be committed. Nothing is queued then.
    pub fn commit<O: Into<OffsetAndMetadata>>(
        &mut self,
        offsets: impl IntoIterator<Item = (TopicPartition, O)>,
        now: Duration,
    ) -> Result<CommitId, NotCommittable> {
        self.expire(now);
        let offsets = offsets.into_iter().map(|(partition, offset)| (partition, offset.into()));
        let offsets: std::collections::BTreeMap<_, _> = offsets.collect();
        for (partition, offset) in &offsets {
            self.core.partitions.may_commit(partition).map_err(|reason| match reason {
                NoCommit::Lost => NotCommittable::Lost(partition.clone()),
                NoCommit::NotOwned => NotCommittable::NotOwned(partition.clone()),
            })?;
            if offset.offset < 0 {
                return Err(NotCommittable::NegativeOffset(partition.clone()));
            }
        }
        let id = self.core.commits.queue(offsets, now.saturating_add(self.core.config.api_timeout));
        self.settle();
        Ok(id)
    }

    /// Does not wait for the commits of the partitions whose revocation the last poll has completed or, called before a
    /// poll, that poll will complete. Then the next owner may process records again.
    pub fn waive_commits(&mut self) {
        self.core.partitions.waive();
    }

    /// Gives everything up, once all commits are answered, and leaves the group: [`Event::Left`]. At the latest after
    /// [`api_timeout`](Config::api_timeout). No poll is needed. Offsets can be committed before this call, not after it.
    pub fn unsubscribe(&mut self, now: Duration) {
        let deadline = now.saturating_add(self.core.config.api_timeout);
        self.leave(Then::Idle, deadline, now);
    }

    /// Gives everything up, once all commits are answered, leaves the group, and does nothing more: [`Event::Left`]. At
    /// the latest after `timeout`. No poll is needed. Offsets can be committed before this call, not after it.
    ///
    /// If `JoinGroup` is in flight, the coordinator may answer it late, and reads nothing else from that connection before.
    /// Close it then, and send what comes next over another one.
    pub fn close(&mut self, timeout: Duration, now: Duration) {
        self.leave(Then::Closed, now.saturating_add(timeout), now);
    }

    /// Whether the member has ended, by [`close`](Self::close) or by an [`Event::Failed`].
    pub fn is_finished(&self) -> bool {
        self.core.is_closed || self.core.failure.is_some()
    }

    /// Why the member has ended, if it has failed.
    pub fn failure(&self) -> Option<&Refusal> {
        self.core.failure.as_ref()
    }

    /// The member id, empty as long as there is none.
    pub fn member_id(&self) -> Str {
        self.protocol.identity().member_id
    }

    /// The generation or member epoch with which commits are sent now; `None` if none can be.
    pub fn generation_or_epoch(&self) -> Option<i32> {
        self.protocol.stamp(&self.core).map(|stamp| stamp.epoch)
    }

    /// What happened, the oldest first; `None` when there is nothing more.
    pub fn next_event(&mut self) -> Option<Event> {
        self.settle();
        self.core.events.pop_front()
    }
}

/// For whoever does the I/O.
impl Member {
    /// The next request to send; `None` when there is nothing more to send for now. Call it after every other call that
    /// takes `&mut self`, and at the [`deadline`](Self::deadline).
    ///
    /// Requests to the coordinator have to arrive in this order. At most one of an API is in flight.
    pub fn next_request(&mut self, now: Duration) -> Option<Outgoing> {
        if self.is_finished() {
            return None;
        }
        self.expire(now);
        self.advance(now);
        let (request, purpose) = self.request(now)?;
        let to = match &self.core.coordinator.node {
            Some(node) if purpose.is_for_coordinator() => Destination::Coordinator(node.clone()),
            _ => Destination::Any,
        };
        let deadline = now.saturating_add(self.timeout(&purpose, now));
        let id = self.core.in_flight.add(purpose, now, deadline);
        Some(Outgoing { id, to, request, deadline })
    }

    /// When to call [`next_request`](Self::next_request) if nothing else happens before; `None` if nothing is waited for.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        if self.is_finished() {
            return None;
        }
        let core = &self.core;
        let leaves = core.leaving.is_some() && core.partitions.is_empty();
        let requests = match core.coordinator.node {
            Some(_) if leaves => [None; 3],
            Some(_) => [
                self.protocol.request_due(core, now),
                core.commit_backoff.deadline(now),
                core.offset_backoff.deadline(now),
            ],
            None => [core.coordinator.backoff.deadline(now), None, None],
        };
        let metadata = match &self.protocol {
            Protocol::Classic(classic) => classic.metadata_due(core),
            Protocol::Consumer(_) => None,
        };
        let metadata = if core.in_flight.any(|purpose| matches!(purpose, Purpose::Metadata)) {
            None
        } else {
            core.metadata_backoff.deadline(now).or(metadata)
        };
        let ends = [
            metadata,
            core.in_flight.deadline(),
            core.commits.deadline(),
            core.poll_end().filter(|_| !core.is_stale && core.leaving.is_none()),
            core.revocation_end(),
            core.leaving.as_ref().map(|leaving| leaving.deadline),
            self.protocol.session_end(core),
        ];
        requests.into_iter().chain(ends).flatten().min()
    }

    /// Takes the response to a request. One that is not waited for any more is ignored.
    pub fn receive(&mut self, id: RequestId, response: Response, now: Duration) {
        self.expire(now);
        if let Some(sent) = self.core.in_flight.take(id) {
            self.answered(sent, response, now);
        }
    }

    /// A request failed without a response: as if the broker had answered with `error_code`. Use `NETWORK_EXCEPTION` if
    /// the connection broke or could not be made, and `UNSUPPORTED_VERSION` if the broker has no version for it. A
    /// request that is not waited for any more is ignored.
    pub fn fail(&mut self, id: RequestId, error_code: ErrorCode, now: Duration) {
        self.expire(now);
        if let Some(sent) = self.core.in_flight.take(id) {
            self.failed(sent, error_code, None, now);
        }
    }

    /// The connection to the coordinator broke: whatever was in flight on it has failed.
    pub fn disconnected(&mut self, now: Duration) {
        self.expire(now);
        while let Some(sent) = self.core.in_flight.take_any(Purpose::is_for_coordinator) {
            self.failed(sent, ErrorCode::NETWORK_EXCEPTION, None, now);
        }
        self.core.coordinator.unknown();
    }

    /// Whether the response to a request is still waited for.
    pub fn is_waiting_for(&self, id: RequestId) -> bool {
        self.core.in_flight.contains(id)
    }

    /// The group's coordinator, if it is known.
    pub fn coordinator(&self) -> Option<&Node> {
        self.core.coordinator.node.as_ref()
    }

    /// Takes metadata that the caller asked for on its own account. It saves requests, and the leader of a classic group
    /// learns of new partitions earlier.
    pub fn metadata(&mut self, response: &MetadataResponse, now: Duration) {
        self.core.topics.update(response);
        self.core.metadata_at = Some(now);
    }
}

/// The machine.
impl Member {
    /// Does what is due because time has passed.
    fn expire(&mut self, now: Duration) {
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
            && self.core.coordinator.node.is_none()
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

    fn leave(&mut self, then: Then, deadline: Duration, now: Duration) {
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

    fn advance(&mut self, now: Duration) {
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
    fn settle(&mut self) {
        self.core.events.extend(self.core.commits.take_ended().into_iter().map(Event::Committed));
    }

    fn request(&mut self, now: Duration) -> Option<(Request, Purpose)> {
        if self.is_finished() {
            return None;
        }
        self.metadata_request(now).or_else(|| {
            if self.core.coordinator.node.is_none() {
                return self.find_coordinator_request(now);
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
            if self.core.in_flight.any(|purpose| matches!(purpose, Purpose::Leave)) {
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

    fn timeout(&self, purpose: &Purpose, now: Duration) -> Duration {
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
    fn answered(&mut self, sent: Sent<Purpose>, response: Response, now: Duration) {
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

    fn failed(&mut self, sent: Sent<Purpose>, error_code: ErrorCode, message: Option<Str>, now: Duration) {
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
    fn poll_end(&self) -> Option<Duration> {
        Some(self.polled_at?.saturating_add(self.config.max_poll_interval))
    }

    /// When the coordinator does not wait any more for what it wants back.
    fn revocation_end(&self) -> Option<Duration> {
        Some(self.revoking_since?.saturating_add(self.config.max_poll_interval))
    }
}

impl Protocol {
    fn stamp(&self, core: &Core) -> Option<Stamp> {
        match self {
            Self::Classic(classic) => classic.stamp(core),
            Self::Consumer(consumer) => consumer.stamp(),
        }
    }

    fn identity(&self) -> Stamp {
        match self {
            Self::Classic(classic) => classic.identity(),
            Self::Consumer(consumer) => consumer.identity(),
        }
    }

    /// Whether nothing can be committed, and nothing is under way that would change it.
    fn is_outside(&self) -> bool {
        match self {
            Self::Classic(classic) => classic.is_outside(),
            Self::Consumer(consumer) => consumer.stamp().is_none(),
        }
    }

    fn leave_request(&self, core: &Core, reason: &'static str) -> Option<Request> {
        match self {
            Self::Classic(classic) => classic.leave_request(core, reason),
            Self::Consumer(consumer) => consumer.leave_request(core),
        }
    }

    fn left(&mut self, core: &Core) {
        match self {
            Self::Classic(classic) => classic.left(core),
            Self::Consumer(consumer) => consumer.left(),
        }
    }

    fn expire(&mut self, core: &mut Core, now: Duration) {
        match self {
            Self::Classic(classic) => classic.expire(core, now),
            Self::Consumer(consumer) => consumer.expire(core, now),
        }
    }

    fn request_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        match self {
            Self::Classic(classic) => classic.request_due(core, now),
            Self::Consumer(consumer) => consumer.request_due(core, now),
        }
    }

    fn session_end(&self, core: &Core) -> Option<Duration> {
        match self {
            Self::Classic(classic) => classic.session_end(core),
            Self::Consumer(consumer) => consumer.session_end(core),
        }
    }

    fn heartbeat_now(&mut self) {
        match self {
            Self::Classic(classic) => classic.heartbeat_now(),
            Self::Consumer(consumer) => consumer.heartbeat_now(),
        }
    }
}
