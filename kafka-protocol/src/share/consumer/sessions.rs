//! What leaders are sent: fetches, acknowledgements, commits; and which records go to the application.

use std::mem;
use std::time::Duration;

use super::delivery::Delivery;
use super::leader::{CommitPart, Leader, Purpose, SentToLeader};
use super::links::Ready;
use super::{
    AcknowledgementMode, Action, CommitId, DropReason, Event, PartitionRecords, Phase, Receiver,
    ShareConsumer, ShareConsumerRequest,
};
use crate::protocol::{AcknowledgeType, ErrorCode};
use crate::share::{
    AcknowledgeResult, Acknowledgements, ClientSession, ClientSessionError, FetchSizes,
    PartitionAcknowledgements, ShareAcquireMode, TopicIdPartition,
};

/// How long fetches wait at most before the lock timeout is known.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Where locks are so short that a quarter of them is less, nothing helps.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

impl ShareConsumer {
    // ---- Records for the application ----

    /// Renewed records alone, or what has been fetched, or the wish to fetch.
    pub(super) fn next_records(&mut self) -> Vec<PartitionRecords> {
        let mut records = Vec::new();
        self.drop_lost_renewals();
        if self.has_renewals() {
            self.wants_records = false;
            let read = &self.config.read;
            records.extend(self.current.iter_mut().filter_map(|delivery| delivery.hand_out_renewed(read)));
            if !records.is_empty() {
                self.lock_timeout = self.renewed_lock_timeout.take().or(self.lock_timeout);
            }
            return records;
        }
        self.current.clear();
        let most = usize::try_from(self.config.fetch.max_records).unwrap_or(0).max(1);
        let mut count = 0;
        while count < most
            && let Some(mut delivery) = self.buffered.pop_front()
        {
            self.drop_lost(&mut delivery);
            if delivery.ready() > 0 {
                count += delivery.ready();
                self.lock_timeout = delivery.lock_timeout.or(self.lock_timeout);
                records.push(delivery.hand_out());
                self.current.push(delivery);
            }
        }
        self.wants_records = records.is_empty();
        records
    }

    /// Gives up renewed records that cannot be acknowledged any more.
    fn drop_lost_renewals(&mut self) {
        let mut current = mem::take(&mut self.current);
        current.iter_mut().for_each(|delivery| self.drop_lost(delivery));
        self.current = current;
    }

    /// Takes out of a delivery what waits to be handed out and cannot be acknowledged any more.
    fn drop_lost(&mut self, delivery: &mut Delivery) {
        let (reason, records) = match self.reach(delivery) {
            Ok(_) => (DropReason::LockExpired, delivery.drop_expired(self.now)),
            Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) => (DropReason::LeaderChanged, delivery.drop_all()),
            Err(_) => (DropReason::Disconnected, delivery.drop_all()),
        };
        if records > 0 {
            self.events.push(Event::Dropped { partition: delivery.partition, records, reason });
        }
    }

    /// Whether any record is being renewed or waits to be handed out again.
    fn has_renewals(&self) -> bool {
        self.current.iter().any(Delivery::has_renewals)
    }

    // ---- Acknowledgements on their way to a leader ----

    /// Takes the acknowledgements of the records in hand, for a commit or with the next requests.
    pub(super) fn take_acknowledgements(&mut self, commit: Option<CommitId>) {
        let implicit = self.config.acknowledgement_mode == AcknowledgementMode::Implicit;
        let of_rest = implicit.then_some(AcknowledgeType::ACCEPT);
        for at in 0..self.current.len() {
            let taken = self.current[at].take(of_rest);
            if !taken.is_empty() {
                self.route(at, taken, commit);
            }
        }
    }

    /// Gives the acknowledgements of a delivery in hand to its leader, or fails them.
    fn route(&mut self, at: usize, acknowledgements: PartitionAcknowledgements, commit: Option<CommitId>) {
        if let Some(commit) = commit {
            self.one_more_of(commit);
        }
        let delivery = &self.current[at];
        let partition = delivery.partition;
        let leader = match self.reach(delivery) {
            Ok(leader) => leader,
            Err(error) => {
                let node = delivery.node;
                let result = AcknowledgeResult { partition, acknowledgements, error, message: None };
                return self.complete(node, commit, result, None);
            }
        };
        let Some(commit) = commit else {
            return self.leaders[leader].pending.partition_mut(partition).merge(acknowledgements);
        };
        let deadline = self.now.saturating_add(self.config.api_timeout);
        let commits = &mut self.leaders[leader].commits;
        match commits.back_mut().filter(|part| part.commit == commit) {
            Some(part) => part.acknowledgements.partition_mut(partition).merge(acknowledgements),
            None => {
                let acknowledgements = [(partition, acknowledgements)].into_iter().collect();
                commits.push_back(CommitPart { commit, not_before: self.now, deadline, acknowledgements });
            }
        }
    }

    /// The leader that can still take acknowledgements of a delivery.
    fn reach(&self, delivery: &Delivery) -> Result<usize, ErrorCode> {
        let is_same = self.links.ready(delivery.node).is_some_and(|ready| ready.number == delivery.link);
        let leader = self.leaders.iter().position(|leader| leader.node == delivery.node);
        match leader.filter(|_| is_same) {
            None => Err(ErrorCode::NETWORK_EXCEPTION),
            Some(_) if self.has_moved(delivery.partition, delivery.node) => {
                Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)
            }
            Some(leader) => Ok(leader),
        }
    }

    /// Whether another broker is known to lead the partition, which knows nothing of this one's locks.
    fn has_moved(&self, partition: TopicIdPartition, node: i32) -> bool {
        self.topics.leader(partition).is_some_and(|leader| leader != node)
    }

    /// For closing: renewals are of no use any more, and what is not acknowledged is released with the session.
    pub(super) fn take_last_acknowledgements(&mut self) {
        for at in 0..self.current.len() {
            let mut taken = self.current[at].take(None);
            let renewals: Vec<_> = taken.ranges().filter(|range| range.2 == AcknowledgeType::RENEW).collect();
            for (first, last, _) in renewals {
                taken.set_range(first, last, AcknowledgeType::RELEASE);
            }
            if taken.is_empty() {
                continue;
            }
            match self.reach(&self.current[at]) {
                Ok(leader) => {
                    let partition = self.current[at].partition;
                    self.leaders[leader].last.partition_mut(partition).merge(taken);
                }
                Err(_) => self.route(at, taken, None),
            }
        }
        self.current.clear();
    }

    /// Commits that are out of time and not in flight.
    pub(super) fn expire_commits(&mut self) {
        for at in 0..self.leaders.len() {
            while let Some(part) = self.leaders[at].take_expired_commit(self.now) {
                let node = self.leaders[at].node;
                self.complete_all(
                    node,
                    Some(part.commit),
                    part.acknowledgements,
                    ErrorCode::REQUEST_TIMED_OUT,
                );
            }
        }
    }

    // ---- Leaders ----

    pub(super) fn run_leaders(&mut self) {
        if matches!(self.phase, Phase::Leaving { .. } | Phase::Closed) {
            return;
        }
        if self.topics.resume(self.now) || mem::take(&mut self.is_stale) {
            self.is_stale = false;
            self.work_out_wanted();
        }
        self.drop_idle_leaders();
        if self.config.fetch.acquire_mode == ShareAcquireMode::RecordLimit && self.wants_to_fetch() {
            self.connect_to_leaders();
        }
        for at in 0..self.leaders.len() {
            self.run_leader(at);
        }
    }

    /// Which leaders the assigned partitions are to be fetched from.
    fn work_out_wanted(&mut self) {
        for leader in &mut self.leaders {
            leader.leads = false;
            leader.wanted.clear();
        }
        let Self { membership, topics, leaders, config, control, .. } = self;
        for &partition in &membership.assignment {
            let leader = topics.leader(partition).filter(|_| topics.name(partition.topic_id).is_some());
            let Some(node) = leader else {
                control.need_metadata();
                continue;
            };
            let at = leaders.iter().position(|leader| leader.node == node).unwrap_or_else(|| {
                let session = ClientSession::new(config.group_id.clone(), config.member_id.clone());
                leaders.push(Leader::new(node, session));
                leaders.len() - 1
            });
            leaders[at].leads = true;
            if !topics.is_paused(partition) {
                leaders[at].wanted.insert(partition);
            }
        }
    }

    /// Leaders of nothing whose sessions are closed are forgotten, with their connections.
    fn drop_idle_leaders(&mut self) {
        let mut at = 0;
        while at < self.leaders.len() {
            let node = self.leaders[at].node;
            let is_over = self.leaders[at].is_idle() && !self.leaders[at].session.is_open();
            if self.phase == Phase::Running && is_over && !self.has_deliveries_of(node) {
                self.leaders.swap_remove(at);
                if self.links.ready(node).is_some() {
                    self.actions.push(Action::Disconnect { node });
                }
                self.lose(node, ErrorCode::NETWORK_EXCEPTION);
                self.links.remove(node);
            } else {
                at += 1;
            }
        }
    }

    /// In record limit mode nobody's turn comes before there is a connection.
    fn connect_to_leaders(&mut self) {
        let Self { leaders, links, topics, config, actions, now, .. } = self;
        for leader in leaders.iter().filter(|leader| !leader.wanted.is_empty()) {
            if let Some(address) = topics.address(leader.node) {
                links.want(leader.node, address, *now, config, actions);
            }
        }
    }

    fn run_leader(&mut self, at: usize) {
        let leader = &self.leaders[at];
        if leader.sent.is_some() || leader.retry_at > self.now {
            return;
        }
        let Some(purpose) = self.next_purpose(at) else { return };
        let node = self.leaders[at].node;
        let Some(address) = self.topics.address(node) else { return self.control.need_metadata() };
        let ready = self.links.want(node, address, self.now, &self.config, &mut self.actions);
        let Some(ready) = ready else { return };
        let Some(versions) = ready.versions.share(self.config.fetch.acquire_mode) else {
            return self.lacks_share(at);
        };
        // What was checked before cannot be refused now.
        let made = self.make_request(at, purpose, ready, versions);
        debug_assert!(made.is_ok(), "{made:?}");
    }

    /// What the leader's next request is for; `None` if there is nothing to send.
    fn next_purpose(&self, at: usize) -> Option<Purpose> {
        let leader = &self.leaders[at];
        if !leader.session.is_open() {
            // Acknowledgements that wait need a session, and so do records.
            return if self.phase != Phase::Running {
                None
            } else if self.may_fetch(at) {
                Some(Purpose::Fetch)
            } else {
                leader.has_acknowledgements().then_some(Purpose::Sync)
            };
        }
        if !leader.pending.is_empty() {
            return Some(match self.phase {
                Phase::Running if leader.pending.has_renew() => Purpose::Sync,
                Phase::Running if self.may_fetch(at) => Purpose::Fetch,
                _ => Purpose::Acknowledge,
            });
        }
        if let Some(part) = leader.commits.iter().find(|part| part.not_before <= self.now) {
            return Some(Purpose::Commit(part.commit, part.deadline));
        }
        if self.phase != Phase::Running {
            return leader.commits.is_empty().then_some(Purpose::Close);
        }
        if self.may_fetch(at) {
            return Some(Purpose::Fetch);
        }
        // Nobody needs the session any more, unless records in hand are to be acknowledged to it.
        if !leader.leads && leader.commits.is_empty() && !self.has_deliveries_of(leader.node) {
            return Some(Purpose::Close);
        }
        // In record limit mode a session is brought up to date while another one is fetched from.
        let is_up_to_date = leader.session.partitions() == &leader.wanted;
        (self.wants_to_fetch() && !is_up_to_date).then_some(Purpose::Sync)
    }

    fn has_deliveries_of(&self, node: i32) -> bool {
        self.current.iter().any(|delivery| delivery.node == node && delivery.is_open())
            || self.buffered.iter().any(|delivery| delivery.node == node)
    }

    fn wants_to_fetch(&self) -> bool {
        self.wants_records && self.buffered.is_empty()
    }

    /// Whether records are wanted from this leader now.
    fn may_fetch(&self, at: usize) -> bool {
        if !self.wants_to_fetch() || self.leaders[at].wanted.is_empty() {
            return false;
        }
        if self.config.fetch.acquire_mode == ShareAcquireMode::BatchOptimized {
            return true;
        }
        let is_fetching = |leader: &Leader| leader.sent.is_some_and(|sent| sent.purpose == Purpose::Fetch);
        !self.leaders.iter().any(is_fetching) && self.turn_of() == Some(at)
    }

    /// In record limit mode: which leader is next, of those that can be fetched from.
    fn turn_of(&self) -> Option<usize> {
        let can = |at: &usize| {
            let leader = &self.leaders[*at];
            let is_up = self.links.free(leader.node, self.now).is_some() && leader.retry_at <= self.now;
            is_up && !leader.wanted.is_empty()
        };
        let all = self.leaders.len();
        (0..all).map(|step| (self.turn + step) % all).find(can)
    }

    fn make_request(
        &mut self,
        at: usize,
        purpose: Purpose,
        ready: Ready,
        (fetch, acknowledge): (i16, i16),
    ) -> Result<(), ClientSessionError> {
        let sizes = match purpose {
            Purpose::Fetch => FetchSizes { max_wait_ms: self.max_wait_ms(), ..self.config.fetch },
            _ => FetchSizes { acquire_mode: self.config.fetch.acquire_mode, ..FetchSizes::NONE },
        };
        let now = self.now;
        let leader = &mut self.leaders[at];
        let mut nothing = Acknowledgements::default();
        let request: ShareConsumerRequest = match purpose {
            Purpose::Fetch | Purpose::Sync => {
                let Leader { session, wanted, pending, .. } = leader;
                let pending = if session.is_open() { pending } else { &mut nothing };
                let count = pending.len();
                let request = session.fetch(wanted, pending, &sizes, fetch)?;
                self.metrics.acknowledgements_send.record(now, count);
                self.push(at, purpose, fetch, request.into());
                if purpose == Purpose::Fetch {
                    self.turn = at + 1;
                }
                return Ok(());
            }
            Purpose::Acknowledge => {
                self.metrics.acknowledgements_send.record(now, leader.pending.len());
                leader.session.acknowledge(&mut leader.pending, acknowledge)?.into()
            }
            Purpose::Commit(..) => {
                let Some(mut part) = leader.take_due_commit(now) else { return Ok(()) };
                self.metrics.acknowledgements_send.record(now, part.acknowledgements.len());
                leader.session.acknowledge(&mut part.acknowledgements, acknowledge)?.into()
            }
            Purpose::Close => {
                self.metrics.acknowledgements_send.record(now, leader.last.len());
                leader.session.close(&mut leader.last, acknowledge)?.into()
            }
        };
        debug_assert_eq!(self.links.ready(leader.node).map(|of| of.number), Some(ready.number));
        self.push(at, purpose, acknowledge, request);
        Ok(())
    }

    /// How long a fetch may wait. When it acquires records is not known, so their locks are counted from when it was sent;
    /// most of a lock has to be left when they come.
    fn max_wait_ms(&self) -> i32 {
        let limit = self.told_lock_timeout.map_or(FIRST_WAIT, |timeout| (timeout / 4).max(SHORTEST_WAIT));
        self.config.fetch.max_wait_ms.min(i32::try_from(limit.as_millis()).unwrap_or(i32::MAX))
    }

    fn push(&mut self, at: usize, purpose: Purpose, version: i16, request: ShareConsumerRequest) {
        let id = self.send(self.leaders[at].node, version, Receiver::Leader, request);
        self.leaders[at].sent = Some(SentToLeader { id, purpose });
    }

    /// A node that cannot be fetched from, as one of an older release in the course of an upgrade.
    fn lacks_share(&mut self, at: usize) {
        let node = self.leaders[at].node;
        self.back_off(at);
        self.events.push(Event::NodeError { node, error: ErrorCode::UNSUPPORTED_VERSION, message: None });
        self.actions.push(Action::Disconnect { node });
        self.lose(node, ErrorCode::UNSUPPORTED_VERSION);
        self.control.need_metadata();
    }

    pub(super) fn back_off(&mut self, at: usize) {
        let leader = &mut self.leaders[at];
        leader.failures += 1;
        leader.retry_at = self.now.saturating_add(self.config.backoff(leader.failures));
    }
}
