//! A share group with a topic of its own.

use std::fmt::Display;
use std::time::Duration;

use anyhow::Result;
use driver::Client;
use driver::admin::{Topic, configure_group, eventually, none};
use kafka_protocol::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use kafka_protocol::wire::Str;

use super::cluster::Cluster;
use super::member::Member;

/// A share group and its topic, each partition of which holds two record batches: offsets 0-4 and 5-9.
pub(super) struct Group<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) name: Str,
    pub(super) topic: Topic,
    /// The leader of all partitions.
    pub(super) leader: i32,
}

impl<'a> Group<'a> {
    /// A group whose acquisition locks last this long, on the first broker.
    pub(super) fn new(
        cluster: &'a Cluster,
        name: impl Display,
        partitions: i32,
        lock: Duration,
    ) -> Result<Self> {
        let leader = cluster.nodes()[0];
        let topic = cluster.create_topic(&name, partitions, &[leader])?;
        for _ in 0..2 {
            cluster.produce(&topic, leader, 5)?;
        }
        Self::of(cluster, topic, leader, lock)
    }

    /// A group of a topic that exists.
    pub(super) fn of(cluster: &'a Cluster, topic: Topic, leader: i32, lock: Duration) -> Result<Self> {
        let group = Self { cluster, name: cluster.unique("group"), topic, leader };
        let millis = lock.as_millis().to_string();
        let configs = [("share.auto.offset.reset", "earliest"), ("share.record.lock.duration.ms", &millis)];
        configure_group(&mut cluster.any()?, &group.name, &configs)?;
        let mut founder = group.member()?;
        // Without the first of them the leader would begin behind what is there.
        group.await_lock(lock)?;
        // Members of share sessions need not be members of the group, but the group has to know of its partitions.
        eventually("the first assignment", || {
            founder.heartbeat()?;
            Ok((founder.assigned() == founder.partitions()).then_some(()))
        })?;
        founder.membership.leave()?;
        Ok(group)
    }

    pub(super) fn configure(&self, key: &str, value: &str) -> Result<()> {
        configure_group(&mut self.cluster.any()?, &self.name, &[(key, value)])
    }

    pub(super) fn lock_lasts(&self, lock: Duration) -> Result<()> {
        self.configure("share.record.lock.duration.ms", &lock.as_millis().to_string())
    }

    /// Waits until the leader knows that locks last this long: configurations come to it by and by.
    pub(super) fn await_lock(&self, lock: Duration) -> Result<()> {
        let mut member = self.member()?;
        eventually("the configurations of the group", || {
            member.epoch = 0;
            Ok((member.open()?.lock_timeout_ms == lock.as_millis() as i32).then_some(()))
        })
    }

    /// A new member, which has not joined yet and has no share session.
    pub(super) fn member(&self) -> Result<Member> {
        Member::new(self, self.cluster.member_id())
    }
}

/// Membership by `ShareGroupHeartbeat`.
pub(super) struct Membership {
    coordinator: Client,
    assigned: usize,
    /// Between heartbeats, as the coordinator wants it.
    pub(super) interval_ms: i32,
    request: ShareGroupHeartbeatRequest,
}

impl Membership {
    pub(super) fn new(group: &Group<'_>, member_id: &Str) -> Result<Self> {
        let request = ShareGroupHeartbeatRequest {
            group_id: group.name.clone(),
            member_id: member_id.clone(),
            member_epoch: 0,
            subscribed_topic_names: Some(vec![group.topic.name.clone()]),
            ..Default::default()
        };
        let coordinator = group.cluster.connect(group.cluster.coordinator(&group.name)?)?;
        Ok(Self { coordinator, assigned: 0, interval_ms: 0, request })
    }

    /// How many partitions are assigned to the member, as far as it knows.
    pub(super) fn assigned(&self) -> usize {
        self.assigned
    }

    /// Joins, or tells that the member lives.
    pub(super) fn heartbeat(&mut self) -> Result<()> {
        let response = eventually("a coordinator that has loaded", || {
            let response = self.coordinator.call(&self.request)?;
            Ok((!response.error_code.is_retriable()).then_some(response))
        })?;
        none(response.error_code)?;
        self.request.member_epoch = response.member_epoch;
        self.interval_ms = response.heartbeat_interval_ms;
        self.request.subscribed_topic_names = None;
        if let Some(assignment) = response.assignment {
            self.assigned = assignment.topic_partitions.iter().map(|topic| topic.partitions.len()).sum();
        }
        Ok(())
    }

    /// A heartbeat whose answer may be an error.
    pub(super) fn try_heartbeat(&mut self) -> Result<ShareGroupHeartbeatResponse> {
        self.coordinator.call(&self.request)
    }

    pub(super) fn leave(&mut self) -> Result<()> {
        self.request.member_epoch = -1;
        none(self.coordinator.call(&self.request)?.error_code)
    }
}
