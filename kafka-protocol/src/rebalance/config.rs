//! What a member is told when it is made.

use std::time::Duration;

use super::Assignor;
use crate::wire::Str;

/// What a [`Member`](super::Member) is told when it is made. The names in parentheses are those of Kafka's consumer, whose
/// defaults are taken over. Texts have at most 32767 bytes; with a longer one, no subscription is
/// [taken](super::NotSubscribable::TooLong).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Id of the group (`group.id`), not empty.
    pub group_id: Str,

    /// Which protocol the group uses, and what only that protocol has.
    pub protocol: GroupProtocol,

    /// Makes a static member (KIP-345): one that comes back under this id within the session timeout gets its partitions
    /// back without a rebalance (`group.instance.id`). Needs `JoinGroup` version 5.
    ///
    /// Default `None`, a dynamic member.
    pub group_instance_id: Option<Str>,

    /// Where the member is, for assignors that look at it (`client.rack`).
    ///
    /// Default `None`.
    pub rack_id: Option<Str>,

    /// After how long without a heartbeat the coordinator removes the member (`session.timeout.ms`). In the classic
    /// protocols the member asks for it, and the broker has bounds (`group.min.session.timeout.ms`,
    /// `group.max.session.timeout.ms`). In the consumer protocol it is the broker's setting
    /// (`group.consumer.session.timeout.ms`), and the member has to be told. Counted from the sending of the last
    /// heartbeat that was answered, it ends the membership from the member's side.
    ///
    /// Default 45 s.
    pub session_timeout: Duration,

    /// The time between heartbeats in the classic protocols (`heartbeat.interval.ms`), at most a third of the session
    /// timeout. In the consumer protocol the coordinator tells it.
    ///
    /// Default 3 s.
    pub heartbeat_interval: Duration,

    /// The longest time between two polls (`max.poll.interval.ms`). A member that takes longer leaves the group. Also how
    /// long the coordinator waits for the member to give partitions up (`RebalanceTimeoutMs`).
    ///
    /// Default 300 s.
    pub max_poll_interval: Duration,

    /// The longest wait for a response (`request.timeout.ms`). For `JoinGroup` it is the rebalance timeout and 5 s, for
    /// `SyncGroup` the session timeout and 5 s, if that is longer.
    ///
    /// Default 30 s.
    pub request_timeout: Duration,

    /// The longest time that a commit is tried for (`default.api.timeout.ms`).
    ///
    /// Default 60 s.
    pub api_timeout: Duration,

    /// The pause after the first failure (`retry.backoff.ms`). It doubles from one failure to the next. Nothing is random
    /// in it, since the member has no source of chance; add jitter by calling later.
    ///
    /// Default 100 ms.
    pub retry_backoff: Duration,

    /// The longest pause after a failure (`retry.backoff.max.ms`).
    ///
    /// Default 1 s.
    pub retry_backoff_max: Duration,

    /// How often the leader of a classic group looks for new topics and partitions (`metadata.max.age.ms`).
    ///
    /// Default 300 s.
    pub metadata_max_age: Duration,
}

/// The protocol of a group (`group.protocol`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// `classic`: members join and synchronize in rounds, one of them makes the assignment. APIs `JoinGroup`, `SyncGroup`,
    /// `Heartbeat`, `LeaveGroup`.
    ///
    /// Cooperative (KIP-429) if all assignors are, that is, if [`Assignor::CooperativeSticky`] is the only one. Otherwise
    /// eager: every rebalance revokes all partitions.
    Classic {
        /// Those that the member offers, the preferred one first. The coordinator takes one that all members offer. Not
        /// empty.
        assignors: Vec<Assignor>,
    },
    /// `consumer`: the coordinator makes the assignment and moves partitions one by one (KIP-848). API
    /// `ConsumerGroupHeartbeat`.
    Consumer {
        /// The member id: unique, the same as long as the process lives, 1 to 36 bytes. Kafka's clients take a random
        /// UUID in base64. In version 0 the coordinator chooses the id.
        member_id: Str,
        /// The name of the coordinator's assignor to use (`group.remote.assignor`), `None` for the one that the
        /// coordinator prefers.
        server_assignor: Option<Str>,
    },
}

impl Config {
    /// The defaults, for a group and its protocol.
    pub fn new(group_id: impl Into<Str>, protocol: GroupProtocol) -> Self {
        Self {
            group_id: group_id.into(),
            protocol,
            group_instance_id: None,
            rack_id: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(300),
            request_timeout: Duration::from_secs(30),
            api_timeout: Duration::from_secs(60),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
        }
    }

    /// As the wire has it: milliseconds, at most `i32::MAX`.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        millis(self.max_poll_interval)
    }
}

pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
