//! What is not about records: connections, the coordinator, metadata, heartbeats, the end.

use std::time::Duration;

use super::links::Ready;
use super::membership::Heartbeat;
use super::{
    Action, Event, Phase, Receiver, RequestId, Sent, ShareConsumer, ShareConsumerConfig,
    ShareConsumerRequest, ShareConsumerResponse,
};
use crate::messages::metadata_request::MetadataRequestTopic;
use crate::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse,
    ShareGroupHeartbeatResponse,
};
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// The key type of groups in FindCoordinator, share groups included; that of the share coordinator is for brokers.
const GROUP_KEY_TYPE: i8 = 0;

/// What is known of coordinator and metadata.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The broker that coordinates the group, and where it is.
    coordinator: Option<(i32, (Str, i32))>,
    find_coordinator: Try,
    metadata: Try,
    metadata_needed: bool,
    /// When metadata is too old.
    refresh_at: Option<Duration>,
    /// Which of the nodes that anything may be asked is tried.
    candidate: usize,
}

/// A request that is made again until it succeeds.
#[derive(Debug, Default)]
struct Try {
    in_flight: bool,
    failures: u32,
    retry_at: Duration,
}

impl Try {
    fn is_due(&self, now: Duration) -> bool {
        !self.in_flight && self.retry_at <= now
    }

    /// It is not made again at once, even if it has not told what was hoped for.
    fn succeeded(&mut self, now: Duration, config: &ShareConsumerConfig) {
        *self = Self { retry_at: now.saturating_add(config.retry_backoff), ..Self::default() };
    }

    fn failed(&mut self, now: Duration, config: &ShareConsumerConfig) {
        self.in_flight = false;
        self.failures += 1;
        self.retry_at = now.saturating_add(config.backoff(self.failures));
    }
}

impl Control {
    pub(super) fn need_metadata(&mut self) {
        self.metadata_needed = true;
    }

    fn is_metadata_due(&self, now: Duration) -> bool {
        let is_old = self.refresh_at.is_some_and(|at| at <= now);
        (self.metadata_needed || is_old) && self.metadata.is_due(now)
    }

    fn deadlines(&self) -> impl Iterator<Item = Duration> {
        [Some(self.find_coordinator.retry_at), Some(self.metadata.retry_at), self.refresh_at]
            .into_iter()
            .flatten()
    }
}

/// The coordinator's connection, which is another than that of the same broker as a leader.
fn coordinator_link(node: i32) -> i32 {
    i32::MAX - node
}

impl ShareConsumer {
    /// Does everything that is due.
    pub(super) fn run(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        self.give_up_overdue();
        self.expire_commits();
        self.expire_poll_interval();
        if self.membership.is_active() {
            self.run_coordinator();
            self.run_metadata();
            self.run_heartbeat();
        }
        self.run_leaders();
        self.run_closing();
    }

    /// When something is due next. What was due by now has been done, or waits for a response.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if self.phase == Phase::Closed {
            return None;
        }
        let closing = match self.phase {
            Phase::Closing { deadline } | Phase::Leaving { deadline } => Some(deadline),
            Phase::Running | Phase::Closed => None,
        };
        let sent = self.sent.iter().map(|sent| sent.deadline);
        let commits = self.leaders.iter().flat_map(|leader| &leader.commits);
        let commits = commits.flat_map(|part| [part.not_before, part.deadline]);
        let heartbeat = self.membership.is_active().then_some(self.membership.due);
        closing
            .into_iter()
            .chain(sent)
            .chain(commits)
            .chain(heartbeat)
            .chain(self.poll_end())
            .chain(self.links.deadlines())
            .chain(self.control.deadlines())
            .chain(self.topics.deadlines())
            .chain(self.leaders.iter().map(|leader| leader.retry_at))
            .filter(|at| *at > self.now && *at < Duration::MAX)
            .min()
    }

    /// When the poll interval is over, for a member that polls.
    fn poll_end(&self) -> Option<Duration> {
        let end = self.polled_at.saturating_add(self.config.max_poll_interval);
        self.membership.is_member().then_some(end)
    }

    fn expire_poll_interval(&mut self) {
        if self.poll_end().is_some_and(|end| end <= self.now) {
            self.events.push(Event::PollIntervalExpired);
            if self.membership.expire(self.now) == Heartbeat::Assigned {
                self.assigned();
            }
        }
    }

    pub(super) fn send(
        &mut self,
        node: i32,
        version: i16,
        to: Receiver,
        request: impl Into<ShareConsumerRequest>,
    ) -> RequestId {
        let request = request.into();
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let waits = match &request {
            ShareConsumerRequest::ShareFetch(fetch) => u64::try_from(fetch.max_wait_ms).unwrap_or(0),
            _ => 0,
        };
        let deadline =
            self.now.saturating_add(self.config.request_timeout).saturating_add(Duration::from_millis(waits));
        self.sent.push(Sent { id, node, at: self.now, deadline, to });
        self.actions.push(Action::Send { node, id, version, request });
        id
    }

    pub(super) fn receive(&mut self, sent: Sent, response: ShareConsumerResponse) {
        use ShareConsumerResponse as R;
        match (sent.to, response) {
            (Receiver::FindCoordinator, R::FindCoordinator(response)) => self.coordinator_found(&response),
            (Receiver::Metadata, R::Metadata(response)) => self.metadata_received(&response),
            (Receiver::Heartbeat, R::ShareGroupHeartbeat(response)) => {
                self.heartbeat_answered(sent, &response);
            }
            (Receiver::Leader, R::ShareFetch(response)) => self.fetched(sent, &response),
            (Receiver::Leader, R::ShareAcknowledge(response)) => self.acknowledged(sent, &response),
            // Whatever this is, the connection cannot be trusted any longer.
            _ => {
                self.sent.push(sent);
                self.give_up(sent.node, ErrorCode::NETWORK_EXCEPTION);
            }
        }
    }

    /// Ends connections that have kept anyone waiting for too long.
    fn give_up_overdue(&mut self) {
        let now = self.now;
        while let Some(at) = self.sent.iter().position(|sent| sent.deadline <= now) {
            self.give_up(self.sent[at].node, ErrorCode::REQUEST_TIMED_OUT);
        }
        while let Some(node) = self.links.overdue(now) {
            self.give_up(node, ErrorCode::REQUEST_TIMED_OUT);
        }
    }

    fn give_up(&mut self, node: i32, error: ErrorCode) {
        self.actions.push(Action::Disconnect { node });
        self.lose(node, error);
    }

    /// The connection to a node is gone: so is everything in flight over it, and the locks of what it delivered.
    pub(super) fn lose(&mut self, node: i32, error: ErrorCode) {
        self.links.disconnected(node, self.now, &self.config);
        while let Some(at) = self.sent.iter().position(|sent| sent.node == node) {
            match self.sent.swap_remove(at).to {
                Receiver::FindCoordinator => self.control.find_coordinator.failed(self.now, &self.config),
                Receiver::Metadata => self.metadata_failed(),
                Receiver::Heartbeat => self.membership.lost(self.now, &self.config),
                Receiver::Leader => {}
            }
        }
        if self.control.coordinator.as_ref().is_some_and(|known| coordinator_link(known.0) == node) {
            self.control.coordinator = None;
        }
        self.lose_leader(node, error);
    }

    /// A connection over which anything can be asked that any broker knows: that of the coordinator, as no fetch waits
    /// there, else one after another of the bootstrap brokers and of those that have become known.
    fn any_node(&mut self) -> Option<(i32, Ready)> {
        if let Some((coordinator, _)) = self.control.coordinator {
            let node = coordinator_link(coordinator);
            if let Some(ready) = self.links.free(node, self.now) {
                return Some((node, ready));
            }
        }
        let (bootstrap, brokers) = (self.config.bootstrap.len(), self.topics.brokers().len());
        for _ in 0..bootstrap + brokers {
            let at = self.control.candidate % (bootstrap + brokers);
            let (node, address) = match self.config.bootstrap.get(at) {
                Some(address) => (-1 - at as i32, address),
                None => self.topics.brokers().nth(at - bootstrap)?,
            };
            if !self.links.is_backing_off(node, self.now) {
                let ready = self.links.want(node, address, self.now, &self.config, &mut self.actions);
                return ready.map(|ready| (node, ready));
            }
            self.control.candidate += 1;
        }
        None
    }

    fn run_coordinator(&mut self) {
        if self.control.coordinator.is_some() || !self.control.find_coordinator.is_due(self.now) {
            return;
        }
        let Some((node, ready)) = self.any_node() else { return };
        let Some(version) = ready.versions.find_coordinator else { return self.unsupported(node) };
        let request = FindCoordinatorRequest {
            key_type: GROUP_KEY_TYPE,
            coordinator_keys: vec![self.config.group_id.clone()],
            ..Default::default()
        };
        self.control.find_coordinator.in_flight = true;
        self.send(node, version, Receiver::FindCoordinator, request);
    }

    fn run_metadata(&mut self) {
        if !self.control.is_metadata_due(self.now) {
            return;
        }
        let Some((node, ready)) = self.any_node() else { return };
        let Some(version) = ready.versions.metadata else { return self.unsupported(node) };
        let topic = |name: &Str| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(self.membership.subscription().iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        self.control.metadata.in_flight = true;
        self.control.metadata_needed = false;
        self.send(node, version, Receiver::Metadata, request);
    }

    fn run_heartbeat(&mut self) {
        if !self.membership.is_due(self.now) {
            return;
        }
        let Some((coordinator, address)) = &self.control.coordinator else { return };
        let node = coordinator_link(*coordinator);
        let ready = self.links.want(node, address, self.now, &self.config, &mut self.actions);
        let Some(ready) = ready else { return };
        match ready.versions.heartbeat {
            Some(version) if !ready.versions.share_off => {
                let request = self.membership.heartbeat(&self.config);
                self.send(node, version, Receiver::Heartbeat, request);
            }
            _ => self.fail(ErrorCode::UNSUPPORTED_VERSION, None),
        }
    }

    /// A node that lacks what every node should have.
    fn unsupported(&mut self, node: i32) {
        self.events.push(Event::NodeError { node, error: ErrorCode::UNSUPPORTED_VERSION, message: None });
        self.give_up(node, ErrorCode::UNSUPPORTED_VERSION);
    }

    fn coordinator_found(&mut self, response: &FindCoordinatorResponse) {
        let of_group = response.coordinators.iter().find(|found| found.key == self.config.group_id);
        match of_group {
            Some(found) if found.error_code.is_ok() && found.node_id >= 0 => {
                self.control.coordinator = Some((found.node_id, (found.host.clone(), found.port)));
                self.control.find_coordinator.succeeded(self.now, &self.config);
            }
            Some(found) if !found.error_code.is_ok() && !found.error_code.is_retriable() => {
                self.fail(found.error_code, found.error_message.clone());
            }
            _ => self.control.find_coordinator.failed(self.now, &self.config),
        }
    }

    fn metadata_received(&mut self, response: &MetadataResponse) {
        if !response.error_code.is_ok() {
            return self.metadata_failed();
        }
        self.topics.update(response);
        self.is_stale = true;
        self.control.metadata.succeeded(self.now, &self.config);
        self.control.refresh_at = Some(self.now.saturating_add(self.config.metadata_max_age));
        let mut is_whole = true;
        for topic in response.topics.iter().filter(|topic| !topic.error_code.is_ok()) {
            is_whole = false;
            // A topic that does not exist yet is no news: the coordinator passes over it too (measured).
            if topic.error_code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && !topic.error_code.is_retriable() {
                let (topic, error) = (topic.name.clone().unwrap_or_default(), topic.error_code);
                self.events.push(Event::TopicError { topic, error });
            }
        }
        if !is_whole {
            self.control.refresh_at = Some(self.now.saturating_add(self.config.retry_backoff_max));
        }
    }

    fn metadata_failed(&mut self) {
        self.control.metadata.failed(self.now, &self.config);
        self.control.metadata_needed = true;
    }

    fn heartbeat_answered(&mut self, sent: Sent, response: &ShareGroupHeartbeatResponse) {
        let (error, message) = (response.error_code, response.error_message.clone());
        match self.membership.response(response, sent.at, self.now, &self.config) {
            Heartbeat::Fine => {}
            Heartbeat::Assigned => self.assigned(),
            Heartbeat::LookUpCoordinator => {
                self.control.coordinator = None;
                self.control.find_coordinator.failed(self.now, &self.config);
                // Nobody needs this connection any more.
                self.actions.push(Action::Disconnect { node: sent.node });
                self.lose(sent.node, error);
                self.links.remove(sent.node);
            }
            Heartbeat::Report => self.events.push(Event::NodeError { node: sent.node, error, message }),
            Heartbeat::Fatal => self.fail(error, message),
            Heartbeat::Left => self.end(),
        }
    }

    fn assigned(&mut self) {
        self.is_stale = true;
        let partitions = self.membership.assignment.iter().copied().collect();
        self.events.push(Event::Assigned { partitions });
    }

    /// Something from which there is no way back: nothing is left but to tell.
    pub(super) fn fail(&mut self, error: ErrorCode, message: Option<Str>) {
        while let Some(node) = self.leaders.first().map(|leader| leader.node) {
            self.lose_leader(node, error);
            self.leaders.swap_remove(0);
        }
        self.disconnect_all();
        self.events.push(Event::Failed { error, message });
    }

    pub(super) fn begin_to_close(&mut self) {
        self.phase = Phase::Closing { deadline: self.now.saturating_add(self.config.api_timeout) };
        self.wants_records = false;
        self.buffered.clear();
        self.take_last_acknowledgements();
    }

    /// Goes on with closing as far as it can: first the sessions, then the group.
    fn run_closing(&mut self) {
        if let Phase::Closing { deadline } = self.phase {
            let is_done =
                self.leaders.iter().all(|leader| leader.sent.is_none() && !leader.session.is_open());
            if is_done || deadline <= self.now {
                self.phase = Phase::Leaving { deadline };
                if !self.membership.is_active() || !self.membership.leave(self.now) {
                    return self.end();
                }
                self.run_coordinator();
                self.run_heartbeat();
            }
        }
        if let Phase::Leaving { deadline } = self.phase
            && deadline <= self.now
        {
            self.end();
        }
    }

    fn end(&mut self) {
        while let Some(node) = self.leaders.first().map(|leader| leader.node) {
            self.lose_leader(node, ErrorCode::REQUEST_TIMED_OUT);
            self.leaders.swap_remove(0);
        }
        self.disconnect_all();
        self.events.push(Event::Closed);
    }

    fn disconnect_all(&mut self) {
        self.phase = Phase::Closed;
        self.sent.clear();
        self.current.clear();
        self.buffered.clear();
        let Self { links, actions, .. } = self;
        actions.extend(links.drain().map(|node| Action::Disconnect { node }));
    }
}
