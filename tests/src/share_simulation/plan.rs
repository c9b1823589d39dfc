//! What is in a schedule, and what goes wrong in it.

use std::collections::VecDeque;
use std::time::Duration;

use kafka_protocol::share::broker::{Cluster, ClusterConfig, GroupConfig};
use kafka_protocol::share::locks::LockConfig;
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};

use super::model::Model;
use crate::random::Random;

pub(super) const GROUP: &str = "workers";
pub(super) const TOPIC: &str = "orders";

/// Something that happens to the cluster, its connections or its consumers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chaos {
    Append(TopicIdPartition),
    Break,
    Swallow,
    Lead(TopicIdPartition, i32),
    Stop(i32),
    Start(i32),
    Kill(usize),
    Close(usize),
    LockDuration(Duration),
}

/// A schedule.
pub(super) struct Plan {
    pub(super) consumers: usize,
    pub(super) nodes: i32,
    partitions: i32,
    pub(super) acquire_mode: ShareAcquireMode,
    pub(super) max_records: i32,
    pub(super) delivery_count_limit: i16,
    lock_duration: Duration,
    /// Whether anything goes wrong, apart from slow applications.
    pub(super) has_faults: bool,
    max_share_fetch_version: i16,
    chaos: VecDeque<(Duration, Chaos)>,
    faults: usize,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let old = random.once_in(10);
        Self {
            consumers: 1 + random.below(3),
            nodes: 1 + random.below(2) as i32,
            partitions: 1 + random.below(2) as i32,
            acquire_mode: if !old && random.once_in(3) {
                ShareAcquireMode::RecordLimit
            } else {
                ShareAcquireMode::BatchOptimized
            },
            max_records: random.pick(&[1, 3, 10, 500]),
            delivery_count_limit: random.pick(&[2, 3, 5]),
            lock_duration: Duration::from_millis(random.pick(&[1000, 1000, 3000])),
            has_faults: !random.once_in(4),
            max_share_fetch_version: if old { 1 } else { 2 },
            chaos: VecDeque::new(),
            faults: random.below(7),
        }
    }

    /// The cluster with its topic, and what is to happen to it.
    pub(super) fn build(&mut self, random: &mut Random) -> (Cluster, Model) {
        let config = ClusterConfig {
            group: self.group_config(self.lock_duration),
            max_share_fetch_version: self.max_share_fetch_version,
            ..Default::default()
        };
        let mut cluster = Cluster::new(config, 1..=self.nodes);
        let leaders: Vec<i32> = (0..self.partitions).map(|at| 1 + at % self.nodes).collect();
        let topic_id = cluster.create_topic(TOPIC, &leaders);
        let partitions: Vec<_> = (0..self.partitions).map(|at| TopicIdPartition::new(topic_id, at)).collect();
        let mut model = Model::new(partitions.clone());
        model.append(&mut cluster, partitions[0], random);
        let mut chaos: Vec<(Duration, Chaos)> = Vec::new();
        for _ in 0..random.below(3) {
            chaos.push((up_to(2000, random), Chaos::Append(random.pick(&partitions))));
        }
        if self.has_faults {
            for _ in 0..=self.faults {
                self.add_fault(&partitions, &mut chaos, random);
            }
        }
        chaos.sort_by_key(|of| of.0);
        self.chaos = chaos.into();
        (cluster, model)
    }

    fn add_fault(
        &self,
        partitions: &[TopicIdPartition],
        to: &mut Vec<(Duration, Chaos)>,
        random: &mut Random,
    ) {
        let at = up_to(3000, random);
        let node = 1 + random.below(self.nodes as usize) as i32;
        let app = random.below(self.consumers);
        let fault = match random.below(12) {
            0..4 => Chaos::Break,
            4 => Chaos::Swallow,
            5..7 => Chaos::Lead(random.pick(partitions), node),
            7 => {
                to.push((at + Duration::from_millis(1) + up_to(1500, random), Chaos::Start(node)));
                Chaos::Stop(node)
            }
            8..10 => Chaos::Kill(app),
            10 => Chaos::Close(app),
            _ => Chaos::LockDuration(Duration::from_millis(random.pick(&[1000, 2000]))),
        };
        to.push((at, fault));
    }

    fn group_config(&self, lock_duration: Duration) -> GroupConfig {
        GroupConfig {
            locks: LockConfig {
                lock_duration,
                delivery_count_limit: self.delivery_count_limit,
                ..Default::default()
            },
            heartbeat_interval: Duration::from_millis(500),
            session_timeout: Duration::from_secs(3),
            ..Default::default()
        }
    }

    pub(super) fn set_lock_duration(&self, cluster: &mut Cluster, duration: Duration) {
        cluster.configure_group(GROUP, self.group_config(duration));
    }

    pub(super) fn take_due(&mut self, now: Duration) -> Option<Chaos> {
        self.chaos.pop_front_if(|of| of.0 <= now).map(|of| of.1)
    }

    pub(super) fn next_time(&self) -> Option<Duration> {
        self.chaos.front().map(|of| of.0)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.chaos.is_empty()
    }
}

fn up_to(ms: usize, random: &mut Random) -> Duration {
    Duration::from_millis(random.below(ms) as u64)
}
