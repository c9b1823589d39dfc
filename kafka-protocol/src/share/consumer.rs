//! The share consumer.

mod config;
mod control;
mod decode;
mod delivery;
mod io;
mod leader;
mod links;
mod membership;
mod outcome;
mod poll;
mod sessions;
mod topics;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

pub use config::{AcknowledgementMode, ShareConsumerConfig};
pub use io::{Action, RequestId, ShareConsumerRequest, ShareConsumerResponse};
pub use poll::{AcquiredRecord, CommitId, DropReason, Event, PartitionRecords, Poll, ShareConsumerError};

use self::control::Control;
use self::delivery::Delivery;
use self::leader::Leader;
use self::links::{Links, NodeVersions};
use self::membership::Membership;
use self::topics::Topics;
use super::{ShareConsumerMetrics, TopicIdPartition};
use crate::messages::ApiVersionsResponse;
use crate::protocol::{AcknowledgeType, ErrorCode};
use crate::wire::Str;

/// A consumer of a share group, without its I/O: what a driver has to do comes out, what came of it goes in.
///
/// A driver connects, sends and receives, and calls back:
///
/// ```
/// use kafka_protocol::share::consumer::{Action, ShareConsumer, ShareConsumerConfig};
/// use std::time::Duration;
///
/// let config = ShareConsumerConfig::new("group", "bWVtYmVyLW9mLWdyb3VwLQ", vec![("localhost".into(), 9092)]);
/// let mut consumer = ShareConsumer::new(config);
/// let now = Duration::ZERO; // since any origin
/// consumer.subscribe(now, ["orders"])?;
///
/// let poll = consumer.poll(now)?;
/// for action in poll.actions {
///     match action {
///         Action::Connect { node, host, port } => {
///             // Connect and ask for ApiVersions, then tell the consumer.
///             assert_eq!((node, &host[..], port), (-1, "localhost", 9092));
///             consumer.disconnected(now, node); // it did not work
///         }
///         Action::Send { node, id, version, request } => {
///             // Encode and send; the answer goes to `consumer.handle_response(now, id, response)`.
///         }
///         Action::Disconnect { node } => {}
///     }
/// }
/// // `poll.records` is what the application waits for. There are none yet; it will be tried again a bit later.
/// assert_eq!(consumer.drive(now).deadline, Some(Duration::from_millis(100)));
/// # Ok::<(), kafka_protocol::share::consumer::ShareConsumerError>(())
/// ```
///
/// # Driving it
///
/// [`poll`](Self::poll) is the application's call for records. [`drive`](Self::drive) is for everything else: call it
/// after each of the other methods, and when the deadline of the last [`Poll`] has come. It sends heartbeats, looks up
/// leaders, and goes on with fetches and commits that were begun.
///
/// There is one request at a time to each leader, and none before the `ThrottleTimeMs` of its last response is over
/// (KIP-219). Once a poll has found no records, all leaders are fetched from until
/// there are some; in the acquire mode `RecordLimit` one after another.
///
/// # Acknowledging
///
/// In implicit mode the next [`poll`](Self::poll) or [`commit`](Self::commit) accepts what the last poll gave. In
/// explicit mode every record has to be [acknowledged](Self::acknowledge) before the next poll. Acknowledgements go to the
/// broker that delivered the record, with the next fetch, or in a request of their own if there is none or in a commit.
/// If that broker is gone, or leads the partition no longer, they fail at once: the locks are gone too.
///
/// Offsets without a record, of control records and after compaction, are acknowledged as gaps without the
/// application, and so is what cannot be read.
///
/// # Renewing
///
/// [`renew`](Self::renew) is an acknowledgement that the record is still being worked on (KIP-1222). The next poll or
/// commit sends it; from a poll it takes the place of a fetch. Once it has succeeded, the next poll gives the
/// record again, with the same delivery count and a new deadline. As long as any record is being renewed, polls give no
/// others. A record that is being renewed, or is renewed, can also be acknowledged at once.
///
/// Renew before [`lock_deadline`](AcquiredRecord::lock_deadline). Later a success says little: a broker also takes a
/// renewal, or any other acknowledgement, of a record that others have finished, if all records before it are
/// finished too, and does nothing (measured).
///
/// # Where it differs from Kafka's Java client
///
/// - What becomes of a renewal is kept per partition, so that one node's answer does not hold up another's.
/// - A renewed record comes with the first poll after the answer.
/// - Records whose locks may have run out while they waited for a poll, renewed ones too, are
///   [dropped](Event::Dropped).
/// - A renewal that the node cannot take is refused by [`renew`](Self::renew), and the session goes on.
/// - Acknowledgements that have not been sent survive a session that has to be opened again over the same connection, as
///   the locks do (measured).
/// - Renewals that wait when the consumer is closed become releases, which is what closing would make of them.
#[derive(Debug)]
pub struct ShareConsumer {
    config: ShareConsumerConfig,
    /// The latest time that anyone has told.
    now: Duration,
    phase: Phase,
    links: Links,
    control: Control,
    topics: Topics,
    membership: Membership,
    leaders: Vec<Leader>,
    /// The requests in flight.
    sent: Vec<Sent>,
    next_request: u64,
    /// Whether what leaders are wanted for has to be worked out again.
    is_stale: bool,
    /// When the last poll was, at first when the subscription.
    polled_at: Duration,
    /// Whether the application waits for records.
    wants_records: bool,
    /// In the acquire mode `RecordLimit`: whose turn it is to be fetched from.
    turn: usize,
    /// What the application has in hand.
    current: Vec<Delivery>,
    /// What the next polls give.
    buffered: VecDeque<Delivery>,
    lock_timeout: Option<Duration>,
    /// The lock timeout that any response told last.
    told_lock_timeout: Option<Duration>,
    /// The lock timeout of the latest renewal, which counts from the next poll on.
    renewed_lock_timeout: Option<Duration>,
    /// Commits that are under way, and how many partitions of each.
    commits: Vec<(CommitId, usize)>,
    next_commit: u64,
    metrics: ShareConsumerMetrics,
    actions: Vec<Action>,
    events: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Sessions are being closed; then the member leaves.
    Closing {
        deadline: Duration,
    },
    Leaving {
        deadline: Duration,
    },
    Closed,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    id: RequestId,
    node: i32,
    at: Duration,
    deadline: Duration,
    to: Receiver,
}

/// Who waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    FindCoordinator,
    Metadata,
    Heartbeat,
    Leader,
}

impl ShareConsumer {
    /// A consumer that is not subscribed to anything yet. Whether its configuration will do, [`subscribe`](Self::subscribe)
    /// tells; before that nothing is sent.
    pub fn new(config: ShareConsumerConfig) -> Self {
        Self {
            config,
            now: Duration::ZERO,
            phase: Phase::Running,
            links: Links::default(),
            control: Control::default(),
            topics: Topics::default(),
            membership: Membership::default(),
            leaders: Vec::new(),
            sent: Vec::new(),
            next_request: 0,
            is_stale: false,
            polled_at: Duration::ZERO,
            wants_records: false,
            turn: 0,
            current: Vec::new(),
            buffered: VecDeque::new(),
            lock_timeout: None,
            told_lock_timeout: None,
            renewed_lock_timeout: None,
            commits: Vec::new(),
            next_commit: 0,
            metrics: ShareConsumerMetrics::default(),
            actions: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Subscribes to these topics, and to no others any more.
    ///
    /// # Errors
    ///
    /// [`NoTopics`](ShareConsumerError::NoTopics); [`InvalidConfig`](ShareConsumerError::InvalidConfig);
    /// [`Closed`](ShareConsumerError::Closed).
    pub fn subscribe(
        &mut self,
        now: Duration,
        topics: impl IntoIterator<Item = impl Into<Str>>,
    ) -> Result<(), ShareConsumerError> {
        self.advance(now)?;
        let topics: Vec<Str> = topics.into_iter().map(Into::into).collect();
        if topics.is_empty() {
            return Err(ShareConsumerError::NoTopics);
        }
        self.config.check()?;
        if !self.membership.is_active() {
            self.polled_at = self.now;
        }
        self.membership.subscribe(topics, self.now);
        self.control.need_metadata();
        Ok(())
    }

    /// Gives records that wait, or begins to fetch some. To be called at least every
    /// [`max_poll_interval`](ShareConsumerConfig::max_poll_interval). Sends the acknowledgements of the records that the last poll
    /// gave. Renewed records come first, alone.
    ///
    /// # Errors
    ///
    /// [`Unacknowledged`](ShareConsumerError::Unacknowledged) in explicit mode;
    /// [`Closed`](ShareConsumerError::Closed).
    pub fn poll(&mut self, now: Duration) -> Result<Poll, ShareConsumerError> {
        self.advance(now)?;
        if self.config.acknowledgement_mode == AcknowledgementMode::Explicit {
            let records = self.current.iter().map(Delivery::unacknowledged).sum();
            if records > 0 {
                return Err(ShareConsumerError::Unacknowledged { records });
            }
        }
        self.polled_at = self.now;
        self.membership.polled(self.now);
        self.take_acknowledgements(None);
        let records = self.next_records();
        Ok(Poll { records, ..self.drive(now) })
    }

    /// Does what is due, apart from giving records.
    pub fn drive(&mut self, now: Duration) -> Poll {
        self.now = self.now.max(now);
        self.run();
        Poll {
            actions: mem::take(&mut self.actions),
            records: Vec::new(),
            events: mem::take(&mut self.events),
            deadline: self.deadline(),
        }
    }

    /// Says what became of a record: ACCEPT, RELEASE, REJECT or RENEW. It is sent by the next poll, or by a commit; until
    /// then it can be replaced.
    ///
    /// # Errors
    ///
    /// [`ImplicitMode`](ShareConsumerError::ImplicitMode), [`AcknowledgeType`](ShareConsumerError::AcknowledgeType),
    /// [`NotAcquired`](ShareConsumerError::NotAcquired), [`RenewUnsupported`](ShareConsumerError::RenewUnsupported),
    /// [`Closed`](ShareConsumerError::Closed).
    pub fn acknowledge(
        &mut self,
        partition: TopicIdPartition,
        offset: i64,
        ty: AcknowledgeType,
    ) -> Result<(), ShareConsumerError> {
        if self.phase != Phase::Running {
            return Err(ShareConsumerError::Closed);
        }
        if self.config.acknowledgement_mode == AcknowledgementMode::Implicit {
            return Err(ShareConsumerError::ImplicitMode);
        }
        if !(AcknowledgeType::ACCEPT..=AcknowledgeType::RENEW).contains(&ty) {
            return Err(ShareConsumerError::AcknowledgeType(ty));
        }
        for delivery in self.current.iter_mut().filter(|delivery| delivery.partition == partition) {
            let node = delivery.node;
            if ty == AcknowledgeType::RENEW
                && delivery.holds(offset)
                && self.links.ready(node).is_some_and(|ready| !ready.versions.can_renew())
            {
                return Err(ShareConsumerError::RenewUnsupported { node });
            }
            if delivery.acknowledge(offset, ty) {
                return Ok(());
            }
        }
        Err(ShareConsumerError::NotAcquired { partition, offset })
    }

    /// Asks for more time for a record: its acquisition lock starts anew (KIP-1222). Half the
    /// [lock timeout](Self::acquisition_lock_timeout) after the last time is a good moment.
    ///
    /// # Errors
    ///
    /// Those of [`acknowledge`](Self::acknowledge).
    pub fn renew(&mut self, partition: TopicIdPartition, offset: i64) -> Result<(), ShareConsumerError> {
        self.acknowledge(partition, offset, AcknowledgeType::RENEW)
    }

    /// Sends all acknowledgements by themselves, without fetching; in implicit mode of all records of the last poll.
    ///
    /// What comes of it is told by partition, as [`Event::Acknowledged`] with this commit, and then
    /// [`Event::Committed`]. Errors that a retry may help against are retried for
    /// [`api_timeout`](ShareConsumerConfig::api_timeout), unless they mean that the locks are gone.
    ///
    /// # Errors
    ///
    /// [`Closed`](ShareConsumerError::Closed).
    pub fn commit(&mut self, now: Duration) -> Result<CommitId, ShareConsumerError> {
        self.advance(now)?;
        let commit = CommitId(self.next_commit);
        self.next_commit += 1;
        // Counted as a partition, so that it does not end before all are there.
        self.commits.push((commit, 1));
        self.take_acknowledgements(Some(commit));
        self.committed(commit);
        Ok(commit)
    }

    /// Begins to close: acknowledgements that wait are sent, sessions closed, and the member leaves the group. What has
    /// no acknowledgement is released by the brokers, in implicit mode too, and delivered again. Then comes
    /// [`Event::Closed`], after [`api_timeout`](ShareConsumerConfig::api_timeout) at the latest.
    pub fn close(&mut self, now: Duration) {
        if self.advance(now).is_ok() {
            self.begin_to_close();
        }
    }

    /// Whether there is nothing more to do: the consumer is closed, or has failed.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// How long acquisition locks last, as the broker has configured it for the group, not what is left of one. `None`
    /// before the first records.
    ///
    /// It is that of the latest fetch which contributed to the records of the last poll that gave any, or none of whose
    /// records can be read. A renewal may bring another one, which counts from the poll on that gives the record again. As
    /// in Kafka's Java client.
    pub fn acquisition_lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
    }

    /// The partitions that the coordinator has assigned.
    pub fn assignment(&self) -> impl ExactSizeIterator<Item = TopicIdPartition> + '_ {
        self.membership.assignment.iter().copied()
    }

    /// How many acknowledgements were sent, and failed.
    pub fn metrics(&self) -> &ShareConsumerMetrics {
        &self.metrics
    }

    /// A connection that was asked for is there, and the node has told its versions.
    pub fn connected(&mut self, now: Duration, node: i32, versions: &ApiVersionsResponse) {
        self.now = self.now.max(now);
        if !self.links.connected(node, NodeVersions::negotiate(versions)) && self.phase != Phase::Closed {
            self.actions.push(Action::Disconnect { node });
        }
    }

    /// A connection is gone, or could not be made. What is in flight over it has failed.
    pub fn disconnected(&mut self, now: Duration, node: i32) {
        self.now = self.now.max(now);
        self.lose(node, ErrorCode::NETWORK_EXCEPTION);
    }

    /// Takes a response. That to a request which is no longer waited for is ignored; one of another API than its
    /// request's ends the connection.
    pub fn handle_response(&mut self, now: Duration, id: RequestId, response: ShareConsumerResponse) {
        self.now = self.now.max(now);
        let Some(at) = self.sent.iter().position(|sent| sent.id == id) else { return };
        let sent = self.sent.swap_remove(at);
        let throttle = Duration::from_millis(u64::try_from(response.throttle_time_ms()).unwrap_or(0));
        self.links.throttled(sent.node, self.now.saturating_add(throttle));
        self.receive(sent, response);
    }

    /// Fails if there is nothing more to do.
    fn advance(&mut self, now: Duration) -> Result<(), ShareConsumerError> {
        self.now = self.now.max(now);
        if self.phase == Phase::Running { Ok(()) } else { Err(ShareConsumerError::Closed) }
    }
}
