use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::world::World;
use crate::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use crate::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::share::validate::member_id;
use crate::wire::{Str, Uuid};

/// A member joins with this epoch, and leaves with -1.
const JOIN: i32 = 0;

/// A share group at its coordinator.
#[derive(Debug, Default)]
pub(super) struct Group {
    epoch: i32,
    members: BTreeMap<Str, Member>,
    /// The partitions whose share state has been initialized; only they are assigned.
    initialized: BTreeSet<TopicIdPartition>,
}

#[derive(Debug)]
struct Member {
    epoch: i32,
    previous_epoch: i32,
    subscribed: BTreeSet<Str>,
    /// What the member has been told last.
    assigned: Vec<TopicIdPartition>,
    /// When it is removed.
    deadline: Duration,
}

impl Group {
    pub(super) fn forget_topic(&mut self, topic_id: Uuid) {
        self.initialized.retain(|partition| partition.topic_id != topic_id);
        self.epoch += 1;
    }

    /// When the next member is removed.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.members.values().map(|member| member.deadline).min()
    }

    /// Removes members whose time is over.
    pub(super) fn expire(&mut self, now: Duration) {
        let before = self.members.len();
        self.members.retain(|_, member| member.deadline > now);
        self.epoch += i32::from(self.members.len() != before);
    }
}

impl World {
    /// What the coordinator answers to a heartbeat (measured, but for the assignment itself).
    pub(super) fn heartbeat(
        &mut self,
        now: Duration,
        node_id: i32,
        request: &ShareGroupHeartbeatRequest,
    ) -> ShareGroupHeartbeatResponse {
        self.try_heartbeat(now, node_id, request).unwrap_or_else(|(error_code, message)| {
            ShareGroupHeartbeatResponse {
                error_code,
                error_message: Some(message.into()),
                ..Default::default()
            }
        })
    }

    fn try_heartbeat(
        &mut self,
        now: Duration,
        node_id: i32,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<ShareGroupHeartbeatResponse, (ErrorCode, String)> {
        let refused = |code, message: &str| Err((code, message.to_owned()));
        if self.config.share_version < 1 {
            return refused(ErrorCode::UNSUPPORTED_VERSION, "share groups are not enabled");
        }
        if self.coordinator() != Some(node_id) || !self.coordinator_found {
            return refused(ErrorCode::NOT_COORDINATOR, "this node does not coordinate the group");
        }
        check(request)?;
        match request.member_epoch {
            -1 => self.leave(request),
            JOIN => self.join(now, request),
            _ => self.stay(now, request),
        }
    }

    fn join(
        &mut self,
        now: Duration,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<ShareGroupHeartbeatResponse, (ErrorCode, String)> {
        let deadline = now.saturating_add(self.group_config(&request.group_id).session_timeout);
        let max_size = self.config.max_group_size;
        let group = self.groups.entry(request.group_id.clone()).or_default();
        if !group.members.contains_key(&request.member_id) && group.members.len() >= max_size {
            return Err((ErrorCode::GROUP_MAX_SIZE_REACHED, format!("the group has {max_size} members")));
        }
        let subscribed: BTreeSet<Str> = request.subscribed_topic_names.iter().flatten().cloned().collect();
        // The first epoch that a member sees is 2: the group is created with 1.
        group.epoch = group.epoch.max(1) + 1;
        let member = Member {
            epoch: group.epoch,
            previous_epoch: group.epoch,
            subscribed,
            assigned: Vec::new(),
            deadline,
        };
        group.members.insert(request.member_id.clone(), member);
        Ok(self.answer(request, true))
    }

    fn stay(
        &mut self,
        now: Duration,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<ShareGroupHeartbeatResponse, (ErrorCode, String)> {
        let deadline = now.saturating_add(self.group_config(&request.group_id).session_timeout);
        let group = self.known_group(request)?;
        let member = group.members.get_mut(&request.member_id).ok_or_else(|| unknown_member(request))?;
        let epoch = request.member_epoch;
        if epoch != member.epoch && epoch != member.previous_epoch {
            let message = format!("member epoch {epoch}, the coordinator has {}", member.epoch);
            return Err((ErrorCode::FENCED_MEMBER_EPOCH, message));
        }
        member.deadline = deadline;
        if let Some(names) = &request.subscribed_topic_names {
            let subscribed: BTreeSet<Str> = names.iter().cloned().collect();
            if member.subscribed != subscribed {
                member.subscribed = subscribed;
                group.epoch += 1;
            }
        }
        Ok(self.answer(request, request.subscribed_topic_names.is_some()))
    }

    fn leave(
        &mut self,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<ShareGroupHeartbeatResponse, (ErrorCode, String)> {
        let group = self.known_group(request)?;
        group.members.remove(&request.member_id).ok_or_else(|| unknown_member(request))?;
        group.epoch += 1;
        Ok(ShareGroupHeartbeatResponse {
            member_id: Some(request.member_id.clone()),
            member_epoch: -1,
            ..Default::default()
        })
    }

    fn known_group(
        &mut self,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<&mut Group, (ErrorCode, String)> {
        let unknown = || (ErrorCode::GROUP_ID_NOT_FOUND, format!("no share group {}", request.group_id));
        self.groups.get_mut(&request.group_id).ok_or_else(unknown)
    }

    /// The answer to a member that is in the group, with its assignment if that is new or `with_assignment`.
    ///
    /// Partitions that nobody in the group has had yet are not assigned at once: their share state has to be
    /// initialized before, so that the first assignment is usually empty.
    fn answer(
        &mut self,
        request: &ShareGroupHeartbeatRequest,
        with_assignment: bool,
    ) -> ShareGroupHeartbeatResponse {
        let interval = self.group_config(&request.group_id).heartbeat_interval;
        let (subscribed, target) = self.target(&request.group_id, &request.member_id);
        let group = self.groups.entry(request.group_id.clone()).or_default();
        let before = group.initialized.len();
        group.initialized.extend(&subscribed);
        let epoch = group.epoch;
        group.epoch += i32::from(group.initialized.len() != before);
        let mut response = ShareGroupHeartbeatResponse {
            member_id: Some(request.member_id.clone()),
            heartbeat_interval_ms: i32::try_from(interval.as_millis()).unwrap_or(i32::MAX),
            ..Default::default()
        };
        if let Some(member) = group.members.get_mut(&request.member_id) {
            if member.epoch != epoch {
                (member.previous_epoch, member.epoch) = (member.epoch, epoch);
            }
            response.member_epoch = member.epoch;
            if with_assignment || member.assigned != target {
                member.assigned.clone_from(&target);
                response.assignment = Some(assignment(&target));
            }
        }
        response
    }
}

impl World {
    /// All partitions that a member subscribes, and which of them it should have: those of a topic are dealt out in turn,
    /// several times when there are more members than partitions.
    fn target(&self, group_id: &str, member_id: &str) -> (Vec<TopicIdPartition>, Vec<TopicIdPartition>) {
        let (mut subscribed, mut target) = (Vec::new(), Vec::new());
        let Some(group) = self.groups.get(group_id) else { return (subscribed, target) };
        let Some(member) = group.members.get(member_id) else { return (subscribed, target) };
        for (&topic_id, topic) in
            self.topics.iter().filter(|(_, topic)| member.subscribed.contains(&topic.name))
        {
            let all = (0..topic.partitions.len() as i32).map(|index| TopicIdPartition::new(topic_id, index));
            let ready: Vec<_> =
                all.clone().filter(|partition| group.initialized.contains(partition)).collect();
            subscribed.extend(all);
            let members = group.members.iter().filter(|(_, member)| member.subscribed.contains(&topic.name));
            let members: Vec<_> = members.map(|(id, _)| id).collect();
            if ready.is_empty() {
                continue;
            }
            for turn in 0..ready.len().max(members.len()) {
                if members[turn % members.len()] == member_id {
                    target.push(ready[turn % ready.len()]);
                }
            }
        }
        (subscribed, target)
    }
}

/// What is wrong with a heartbeat by itself.
fn check(request: &ShareGroupHeartbeatRequest) -> Result<(), (ErrorCode, String)> {
    let refused = |message: &str| Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
    let subscribes = request.subscribed_topic_names.iter().flatten().next().is_some();
    if let Err(wrong) = member_id(Some(&request.member_id)) {
        refused(&format!("the member id {wrong}"))
    } else if request.member_epoch < -1 {
        refused("the member epoch is below -1")
    } else if request.rack_id.as_deref() == Some("") {
        refused("the rack id is empty")
    } else if request.member_epoch == JOIN && !subscribes {
        refused("a member that joins has to subscribe topics")
    } else {
        Ok(())
    }
}

fn unknown_member(request: &ShareGroupHeartbeatRequest) -> (ErrorCode, String) {
    let message = format!("no member {} in the group {}", request.member_id, request.group_id);
    (ErrorCode::UNKNOWN_MEMBER_ID, message)
}

fn assignment(partitions: &[TopicIdPartition]) -> Assignment {
    let mut topic_partitions: Vec<TopicPartitions> = Vec::new();
    for partition in partitions {
        match topic_partitions.last_mut().filter(|topic| topic.topic_id == partition.topic_id) {
            Some(topic) => topic.partitions.push(partition.partition),
            None => topic_partitions.push(TopicPartitions {
                topic_id: partition.topic_id,
                partitions: [partition.partition].into_iter().collect(),
                ..Default::default()
            }),
        }
    }
    Assignment { topic_partitions, ..Default::default() }
}
