//! The member: what callers see of the state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{error, fmt};

use super::classic::Classic;
use super::consumer::Consumer;
use super::coordinator::{Backoff, Destination, Outgoing, RequestId};
use super::core::{Core, Purpose, Subscription, Then};
use super::event::{Event, Refusal};
use super::partitions::{Changes, NoCommit};
use super::protocol::Protocol;
use super::request::Response;
use super::{CommitId, Config, GroupProtocol, Node, OffsetAndMetadata, TopicPartition};
use crate::messages::MetadataResponse;
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// A member of a consumer group, without its I/O. See the [module](super).
///
/// `now` is the time since an origin that the caller chooses, and must not go back.
#[derive(Debug)]
pub struct Member {
    pub(super) core: Core,
    pub(super) protocol: Protocol,
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
    /// This has more than 32767 bytes, and no request has room for it: the name of a topic, the regular expression, or what
    /// the [`Config`] says of the group and the member.
    TooLong(&'static str),
}

impl error::Error for NotSubscribable {}

impl fmt::Display for NotSubscribable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the member is closed"),
            Self::ClassicRegex => f.write_str("the classic protocols have no regular expressions"),
            Self::TooLong(what) => write!(f, "the {what} has more than 32767 bytes"),
        }
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
    /// [`NotSubscribable`]; [`ClassicRegex`](NotSubscribable::ClassicRegex) is none of them. Nothing changes then.
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
            self.expect_room("name of a topic", &topics)?;
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
        let regex = regex.into();
        self.expect_room("regular expression", [&regex])?;
        self.set_subscription(Subscription::Regex(regex), now);
        Ok(())
    }

    /// The lengths of strings have 16 bits, and those of compact ones the same limit. Nothing is sent before a subscription.
    fn expect_room<'a>(
        &'a self,
        of: &'static str,
        wanted: impl IntoIterator<Item = &'a Str>,
    ) -> Result<(), NotSubscribable> {
        let Config { group_id, protocol, group_instance_id, rack_id, .. } = &self.core.config;
        let (member_id, server_assignor) = match protocol {
            GroupProtocol::Consumer { member_id, server_assignor } => {
                (Some(member_id), server_assignor.as_ref())
            }
            GroupProtocol::Classic { .. } => (None, None),
        };
        let config = [
            ("group id", Some(group_id)),
            ("member id", member_id),
            ("group instance id", group_instance_id.as_ref()),
            ("rack id", rack_id.as_ref()),
            ("name of the assignor", server_assignor),
        ];
        let config = config.into_iter().filter_map(|(of, text)| Some((of, text?)));
        let mut texts = config.chain(wanted.into_iter().map(|text| (of, text)));
        match texts.find(|(_, text)| i16::try_from(text.len()).is_err()) {
            Some((of, _)) => Err(NotSubscribable::TooLong(of)),
            None => Ok(()),
        }
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
    ///
    /// [`poll_records`](Self::poll_records) is the same with records.
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
        let offsets: BTreeMap<_, _> = offsets.collect();
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
        let throttle_end = core.coordinator.throttle_end(now);
        let leaves = core.leaving.is_some() && core.partitions.is_empty();
        let requests = match core.coordinator.node {
            Some(_) if throttle_end.is_some() => [throttle_end, None, None],
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
    ///
    /// If the coordinator throttles (`ThrottleTimeMs`), it gets no request before that time is over, as KIP-219 wants it.
    /// Brokers before Kafka 2.0 have waited for that long themselves; it is waited again.
    pub fn receive(&mut self, id: RequestId, response: Response, now: Duration) {
        self.expire(now);
        if let Some(sent) = self.core.in_flight.take(id) {
            if sent.purpose.is_for_coordinator() {
                self.core.coordinator.throttle(response.throttle_time_ms(), now);
            }
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
