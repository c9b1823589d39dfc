use std::collections::BTreeMap;
use std::time::Duration;

use super::config::AutoOffsetReset;
use super::connections::Handled;
use super::message::BrokerRequest;
use super::world::World;
use super::{ConnectionId, RecordAcknowledgements};
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::share::locks::{LockConfig, SharePartition};
use crate::share::sessions::{SessionKey, ShareSessionCache};
use crate::share::validate::{BrokerState, Session};
use crate::wire::{Str, Uuid};

/// A broker.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: i32,
    pub(super) sessions: ShareSessionCache,
    pub(super) metrics: RecordAcknowledgements,
    /// The share partitions that are loaded, by group.
    pub(super) partitions: BTreeMap<(Str, TopicIdPartition), SharePartition>,
}

impl Node {
    pub(super) fn new(id: i32, sessions: ShareSessionCache) -> Self {
        Self {
            id,
            sessions,
            metrics: RecordAcknowledgements::new(Duration::ZERO),
            partitions: BTreeMap::new(),
        }
    }

    pub(super) fn share_partition(
        &self,
        group_id: &str,
        partition: TopicIdPartition,
    ) -> Option<&SharePartition> {
        self.partitions.get(&(group_id.into(), partition))
    }

    /// Answers a request, or says that it waits.
    pub(super) fn handle(
        &mut self,
        now: Duration,
        world: &mut World,
        connection: ConnectionId,
        version: i16,
        request: BrokerRequest,
    ) -> Handled {
        match request {
            BrokerRequest::ApiVersions(_) => world.api_versions().into(),
            BrokerRequest::Metadata(request) => world.metadata(&request).into(),
            BrokerRequest::FindCoordinator(request) => world.find_coordinator(&request, version).into(),
            BrokerRequest::ShareGroupHeartbeat(request) => world.heartbeat(now, self.id, &request).into(),
            BrokerRequest::ShareFetch(request) => self.share_fetch(now, world, connection, version, &request),
            BrokerRequest::ShareAcknowledge(request) => {
                self.share_acknowledge(now, world, connection, version, &request).into()
            }
        }
    }

    /// The share partition of a group, loaded if it is not.
    ///
    /// # Errors
    ///
    /// The group is not known.
    pub(super) fn load(
        &mut self,
        world: &World,
        group_id: &Str,
        partition: TopicIdPartition,
    ) -> Result<&mut SharePartition, ErrorCode> {
        let key = (group_id.clone(), partition);
        if !world.groups.contains_key(group_id) {
            return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
        }
        let log = &world.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?.log;
        let config = world.group_config(group_id);
        let loaded = self.partitions.entry(key.clone()).or_insert_with(|| {
            let locks = config.locks.clone();
            let mut loaded = match (world.persisted.get(&key), config.auto_offset_reset) {
                (Some(state), _) => SharePartition::restore(locks, state),
                (None, AutoOffsetReset::Earliest) => SharePartition::new(locks, log.start_offset()),
                (None, AutoOffsetReset::Latest) => SharePartition::new(locks, log.end_offset()),
            };
            loaded.advance_start_offset(log.start_offset());
            loaded
        });
        Ok(loaded)
    }

    /// Writes the state of share partitions back, and forgets them.
    pub(super) fn unload(&mut self, world: &mut World, which: impl Fn(&str, TopicIdPartition) -> bool) {
        self.partitions.retain(|key, partition| {
            let unload = which(&key.0, key.1);
            if unload {
                world.persisted.insert(key.clone(), partition.persisted_state());
            }
            !unload
        });
    }

    /// Forgets share partitions.
    pub(super) fn forget(&mut self, which: impl Fn(&str, TopicIdPartition) -> bool) {
        self.partitions.retain(|key, _| !which(&key.0, key.1));
    }

    /// Forgets sessions and what was counted.
    pub(super) fn restart(&mut self, sessions: ShareSessionCache) {
        self.sessions = sessions;
        self.metrics = RecordAcknowledgements::new(Duration::ZERO);
    }

    pub(super) fn disconnect(&mut self, world: &mut World, connection: ConnectionId) {
        let ended = self.sessions.disconnect(connection);
        for key in &ended.sessions {
            self.release(key);
        }
        self.unload(world, |group_id, _| ended.empty_groups.iter().any(|empty| *empty == group_id));
    }

    /// Takes back what a member has acquired.
    pub(super) fn release(&mut self, key: &SessionKey) {
        for ((group_id, _), partition) in &mut self.partitions {
            if *group_id == key.group_id {
                partition.release(&key.member_id);
            }
        }
    }

    pub(super) fn expire(&mut self, now: Duration) {
        for partition in self.partitions.values_mut() {
            partition.expire(now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.partitions.values().filter_map(SharePartition::next_deadline).min()
    }

    pub(super) fn advance_start_offset(&mut self, partition: TopicIdPartition, offset: i64) {
        for ((_, of), share) in &mut self.partitions {
            if *of == partition {
                share.advance_start_offset(offset);
            }
        }
    }

    pub(super) fn set_lock_config(&mut self, group_id: &str, config: &LockConfig) {
        for ((of, _), partition) in &mut self.partitions {
            if *of == group_id {
                partition.set_config(config.clone());
            }
        }
    }
}

/// What a node knows when it checks a request.
pub(super) struct State<'a>(pub(super) &'a Node, pub(super) &'a World);

impl BrokerState for State<'_> {
    fn share_groups_enabled(&self) -> bool {
        self.1.config.share_version >= 1
    }

    fn session(&self, group_id: &str, member_id: &str) -> Session {
        self.0.sessions.session(&SessionKey::new(group_id, member_id))
    }

    fn has_topic(&self, topic_id: Uuid) -> bool {
        self.1.topics.contains_key(&topic_id)
    }

    fn has_partition(&self, partition: TopicIdPartition) -> bool {
        self.1.partition(partition).is_some()
    }
}
