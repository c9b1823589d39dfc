//! What the protocols have in common: the state around [`Partitions`] and the requests that are not of one protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::assignor::by_topic;
use super::commits::{Batch, CommitError, Commits};
use super::coordinator::{Backoff, Coordinator, InFlight};
use super::event::{Event, Refusal};
use super::partitions::Partitions;
use super::request::Request;
use super::topics::Topics;
use super::{CommitId, Config, OffsetAndMetadata, TopicPartition};
use crate::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use crate::messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse};
use crate::protocol::{ApiKey, ErrorCode};
use crate::wire::{SmallVec, Str, Uuid};

/// What a request in flight is for.
#[derive(Debug)]
pub(super) enum Purpose {
    FindCoordinator,
    Metadata,
    /// `JoinGroup`.
    Join,
    /// `SyncGroup`.
    Sync,
    /// `Heartbeat`.
    Heartbeat,
    /// `ConsumerGroupHeartbeat` with what it says that the member owns; `None` if it says nothing.
    ConsumerHeartbeat(Option<BTreeSet<(Uuid, i32)>>),
    /// `OffsetCommit`, with what it holds and as whom it was sent.
    Commit(Batch, Stamp),
    /// `OffsetFetch`.
    OffsetFetch(Stamp),
    /// `LeaveGroup` or the last `ConsumerGroupHeartbeat`.
    Leave,
}

impl Purpose {
    pub(super) fn api(&self) -> ApiKey {
        match self {
            Self::FindCoordinator => ApiKey::FIND_COORDINATOR,
            Self::Metadata => ApiKey::METADATA,
            Self::Join => ApiKey::JOIN_GROUP,
            Self::Sync => ApiKey::SYNC_GROUP,
            Self::Heartbeat => ApiKey::HEARTBEAT,
            Self::ConsumerHeartbeat(_) => ApiKey::CONSUMER_GROUP_HEARTBEAT,
            Self::Commit(..) => ApiKey::OFFSET_COMMIT,
            Self::OffsetFetch(_) => ApiKey::OFFSET_FETCH,
            Self::Leave => ApiKey::LEAVE_GROUP,
        }
    }

    pub(super) fn is_for_coordinator(&self) -> bool {
        !matches!(self, Self::FindCoordinator | Self::Metadata)
    }

    /// Whether its answer means nothing to another membership.
    fn is_of_membership(&self) -> bool {
        matches!(
            self,
            Self::Join | Self::Sync | Self::Heartbeat | Self::ConsumerHeartbeat(_) | Self::OffsetFetch(_)
        )
    }
}

/// As whom a member commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) member_id: Str,
    /// Generation, or member epoch.
    pub(super) epoch: i32,
}

/// What the member wants to consume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subscription {
    Topics(BTreeSet<Str>),
    /// An RE2/J expression.
    Regex(Str),
}

impl Subscription {
    /// Only the coordinator knows which topics match an expression.
    pub(super) fn includes(&self, topic: &Str) -> bool {
        match self {
            Self::Topics(topics) => topics.contains(topic),
            Self::Regex(_) => true,
        }
    }
}

/// On the way out of the group.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) then: Then,
    /// When it ends without an answer.
    pub(super) deadline: Duration,
}

/// What comes when the group is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing, or another subscription.
    Idle,
    /// The end.
    Closed,
    /// Wait for a poll.
    Stale,
}

/// What the answer to a commit or an offset fetch tells of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// The coordinator has another epoch: a heartbeat will tell.
    Stale,
    /// The coordinator knows no such member.
    Fenced(ErrorCode),
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) subscription: Option<Subscription>,
    pub(super) partitions: Partitions,
    pub(super) commits: Commits,
    pub(super) topics: Topics,
    pub(super) coordinator: Coordinator,
    pub(super) in_flight: InFlight<Purpose>,
    pub(super) events: VecDeque<Event>,
    pub(super) commit_backoff: Backoff,
    pub(super) offset_backoff: Backoff,
    pub(super) metadata_backoff: Backoff,
    /// When the last metadata came, if any did.
    pub(super) metadata_at: Option<Duration>,
    /// When the last poll was, or the subscription, as long as there is one.
    pub(super) polled_at: Option<Duration>,
    /// No poll came in time, and none has come since.
    pub(super) is_stale: bool,
    /// Since when the coordinator waits for partitions.
    pub(super) revoking_since: Option<Duration>,
    pub(super) leaving: Option<Leaving>,
    pub(super) is_closed: bool,
    pub(super) failure: Option<Refusal>,
}

impl Core {
    pub(super) fn new(config: Config) -> Self {
        let backoff = || Backoff::new(config.retry_backoff, config.retry_backoff_max);
        Self {
            subscription: None,
            partitions: Partitions::default(),
            commits: Commits::new(),
            topics: Topics::default(),
            coordinator: Coordinator { node: None, backoff: backoff() },
            in_flight: InFlight::new(),
            events: VecDeque::new(),
            commit_backoff: backoff(),
            offset_backoff: backoff(),
            metadata_backoff: backoff(),
            metadata_at: None,
            polled_at: None,
            is_stale: false,
            revoking_since: None,
            leaving: None,
            is_closed: false,
            failure: None,
            config,
        }
    }

    /// Whether the member wants to be in the group now. After a loss it waits for the poll that reports it, so that no
    /// partition is assigned again before the caller knows that it was lost.
    pub(super) fn may_join(&self) -> bool {
        self.subscription.is_some()
            && self.leaving.is_none()
            && !self.is_stale
            && !self.partitions.has_unreported_loss()
    }

    pub(super) fn is_subscribed(&self, topic: &Str) -> bool {
        self.subscription.as_ref().is_some_and(|wanted| wanted.includes(topic))
    }

    /// Gives up what polls have completed, once its commits are answered or nobody waits for them.
    pub(super) fn give_up(&mut self) -> Option<Vec<TopicPartition>> {
        let Self { partitions, commits, .. } = self;
        let given_up = partitions.give_up(|partition| commits.wait_for(partition));
        if let Some(given_up) = &given_up {
            commits.abandon(given_up, CommitError::GivenUp);
            self.events.push_back(Event::GivenUp(given_up.clone()));
        }
        if !self.partitions.is_revoking() {
            self.revoking_since = None;
        }
        given_up
    }

    /// The coordinator wants partitions back; the time that it allows runs from the first notice.
    pub(super) fn note_revocation(&mut self, now: Duration) {
        if self.partitions.is_revoking() {
            self.revoking_since.get_or_insert(now);
        } else {
            self.revoking_since = None;
        }
    }

    /// The membership is over, and everything is lost.
    pub(super) fn lose(&mut self) {
        let lost = self.partitions.lose_all();
        self.commits.abandon(&lost, CommitError::Lost);
        self.in_flight.forget(Purpose::is_of_membership);
        self.revoking_since = None;
        self.commit_backoff.succeeded();
        self.offset_backoff.succeeded();
    }

    /// Ends the member for good.
    pub(super) fn fail(&mut self, api: ApiKey, error_code: ErrorCode, message: Option<Str>) {
        self.lose();
        self.commits.abandon_all(CommitError::Refused(error_code));
        self.in_flight.forget(|_| true);
        let refusal = Refusal { api, error_code, message };
        self.failure = Some(refusal.clone());
        self.events.push_back(Event::Failed(refusal));
    }

    /// Takes an error code that concerns the way to the coordinator, and no more than that. `false` if it does not.
    pub(super) fn coordinator_failed(&mut self, error_code: ErrorCode) -> bool {
        match error_code {
            ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::REQUEST_TIMED_OUT => self.coordinator.unknown(),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => {}
            _ => return false,
        }
        true
    }
}

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
        let mut rows = Rows::default();
        let group_error = match response.groups.into_iter().next() {
            Some(group) => {
                for topic in group.topics {
                    let name = match self.topics.name(topic.topic_id) {
                        Some(name) if topic.name.is_empty() => name.clone(),
                        _ => topic.name,
                    };
                    for row in topic.partitions {
                        rows.push((
                            name.clone(),
                            row.partition_index,
                            row.error_code,
                            offset(row.committed_offset, row.committed_leader_epoch, row.metadata),
                        ));
                    }
                }
                group.error_code
            }
            None => {
                for topic in response.topics {
                    for row in topic.partitions {
                        rows.push((
                            topic.name.clone(),
                            row.partition_index,
                            row.error_code,
                            offset(row.committed_offset, row.committed_leader_epoch, row.metadata),
                        ));
                    }
                }
                response.error_code
            }
        };
        if !group_error.is_ok() {
            return self.offset_fetch_failed(group_error, is_current, now);
        }
        self.offset_backoff.succeeded();
        let mut verdict = Verdict::Fine;
        for (topic, index, error_code, committed) in rows {
            let partition = TopicPartition { topic, partition: index };
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

type Rows = Vec<(Str, i32, ErrorCode, Option<OffsetAndMetadata>)>;

/// -1 means that nothing is committed.
fn offset(offset: i64, leader_epoch: i32, metadata: Option<Str>) -> Option<OffsetAndMetadata> {
    (offset >= 0).then(|| OffsetAndMetadata { offset, leader_epoch, metadata: metadata.unwrap_or_default() })
}

/// Partitions by topic id, both in ascending order.
pub(super) fn by_id(partitions: &BTreeSet<(Uuid, i32)>) -> BTreeMap<Uuid, SmallVec<[i32; 4]>> {
    let mut topics = BTreeMap::<Uuid, SmallVec<[i32; 4]>>::new();
    for &(id, partition) in partitions {
        topics.entry(id).or_default().push(partition);
    }
    topics
}
