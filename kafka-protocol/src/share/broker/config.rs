use std::time::Duration;

use crate::share::locks::LockConfig;
use crate::share::sessions::ShareSessionCache;

/// What brokers are configured to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The configuration of groups that have [none of their own](super::Cluster::configure_group).
    pub group: GroupConfig,

    /// How many share sessions a node may have (`group.share.max.share.sessions`).
    ///
    /// Default 2000.
    pub max_share_sessions: usize,

    /// How many members a group may have (`group.share.max.size`).
    ///
    /// Default 200.
    pub max_group_size: usize,

    /// The level of the finalized feature `share.version`; 0 is off, and then share requests are refused with
    /// `UNSUPPORTED_VERSION`.
    ///
    /// Default 2, as a new cluster of Kafka 4.4 has.
    pub share_version: i16,

    /// The highest version of ShareFetch and ShareAcknowledge: 1 as in Kafka 4.1, without renewals, or 2.
    ///
    /// Default 2.
    pub max_share_fetch_version: i16,

    /// Whether heartbeats are answered with `NOT_COORDINATOR` until somebody has asked FindCoordinator, as on a fresh
    /// cluster (measured).
    ///
    /// Default true.
    pub find_coordinator_first: bool,

    /// Whether the defect of the 4.4.0 broker is imitated that [share sessions](crate::share::sessions) have: the end of
    /// a connection ends at most the last session that it opened. Those of acquisition locks are imitated
    /// [group by group](LockConfig::imitate_defects).
    ///
    /// Default false.
    pub imitate_defects: bool,
}

impl ClusterConfig {
    /// The share sessions of a node that has just started.
    pub(super) fn share_sessions(&self) -> ShareSessionCache {
        ShareSessionCache::new(self.max_share_sessions).imitate_defects(self.imitate_defects)
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            group: GroupConfig::default(),
            max_share_sessions: 2000,
            max_group_size: 200,
            share_version: 2,
            max_share_fetch_version: 2,
            find_coordinator_first: true,
            imitate_defects: false,
        }
    }
}

/// What a share group is configured to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// About acquisition locks.
    pub locks: LockConfig,

    /// Where the group starts in a partition that it has not read yet (`share.auto.offset.reset`).
    ///
    /// Default [`Earliest`](AutoOffsetReset::Earliest), other than in Kafka: it is what tests need.
    pub auto_offset_reset: AutoOffsetReset,

    /// How often members send heartbeats (`share.heartbeat.interval.ms`), told to them in milliseconds.
    ///
    /// Default 5 s.
    pub heartbeat_interval: Duration,

    /// After what time without a heartbeat a member is removed (`share.session.timeout.ms`).
    ///
    /// Default 45 s.
    pub session_timeout: Duration,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            locks: LockConfig::default(),
            auto_offset_reset: AutoOffsetReset::default(),
            heartbeat_interval: Duration::from_secs(5),
            session_timeout: Duration::from_secs(45),
        }
    }
}

/// Where a group starts in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first record.
    #[default]
    Earliest,
    /// Behind the last record that is there when the share partition is first loaded.
    Latest,
}
