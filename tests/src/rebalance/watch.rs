//! Looks over a member's shoulder: what it sends, says and hears, against the invariants of a rebalance.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::embedded;
use kafka_protocol::messages::ConsumerProtocolSubscription;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{
    CommitId, Event, Member, NotCommittable, Poll, Request, Response, TopicPartition,
};
use kafka_protocol::wire::Uuid;

use super::world::{HEARTBEAT_INTERVAL, Kind, RETRY_BACKOFF_MAX, Weather};

type Partitions = BTreeSet<TopicPartition>;

/// What has been seen of the invariants, which are numbered as in `properties.rs`.
#[derive(Default)]
pub(super) struct Seen {
    /// How often an invariant had something to say.
    pub(super) occasions: [usize; 13],
    /// Announced partitions that the coordinator has assigned again before they were given up.
    pub(super) taken_back: usize,
    /// How often a partition was on offer while others were to be revoked.
    pub(super) offered_early: usize,
    /// How many polls gave records while partitions were to be revoked.
    pub(super) flowed: usize,
    /// The first breaches of each.
    pub(super) breaches: Vec<(usize, String)>,
}

impl Seen {
    /// Breaches of an invariant that are worth keeping.
    const KEPT: usize = 5;

    fn is_worth_keeping(&self, invariant: usize) -> bool {
        self.breaches.iter().filter(|(of, _)| *of == invariant).count() < Self::KEPT
    }

    pub(super) fn add(&mut self, other: Self) {
        for (sum, count) in self.occasions.iter_mut().zip(other.occasions) {
            *sum += count;
        }
        self.taken_back += other.taken_back;
        self.offered_early += other.offered_early;
        self.flowed += other.flowed;
        self.breaches.extend(other.breaches);
    }
}

pub(super) struct Watch {
    pub(super) seen: Seen,
    kind: Kind,
    /// The longest time between heartbeats.
    pause: Duration,
    /// Reported as assigned, and neither given up nor reported as lost.
    reported: Partitions,
    /// The offset that has to come next of a partition.
    next: BTreeMap<TopicPartition, i64>,
    announced: Partitions,
    /// Completed by a poll and not given up.
    completing: Partitions,
    waived: Partitions,
    /// Reported as lost and not assigned again.
    lost: Partitions,
    /// Given up, and the coordinator has yet to answer to that.
    unacknowledged: Partitions,
    commits: BTreeMap<CommitId, Partitions>,
    /// What the coordinator of the consumer protocol has assigned last.
    target: Partitions,
    /// Generation or epoch that the coordinator told last.
    told: Option<i32>,
    /// The getter as of the last poll.
    getter: Partitions,
    held: Partitions,
    owned: Partitions,
    /// The latest moment at which no heartbeat was owed, or one was sent or awaited.
    heartbeat_at: Duration,
    is_stale: bool,
    is_leaving: bool,
}

impl Watch {
    pub(super) fn new(kind: Kind, weather: Weather) -> Self {
        // Only on foul days a heartbeat may fail, and is followed by a pause.
        let pause = match weather {
            Weather::Fair => HEARTBEAT_INTERVAL,
            Weather::Foul => HEARTBEAT_INTERVAL + RETRY_BACKOFF_MAX,
        };
        Self {
            seen: Seen::default(),
            kind,
            pause,
            reported: Partitions::new(),
            next: BTreeMap::new(),
            announced: Partitions::new(),
            completing: Partitions::new(),
            waived: Partitions::new(),
            lost: Partitions::new(),
            unacknowledged: Partitions::new(),
            commits: BTreeMap::new(),
            target: Partitions::new(),
            told: None,
            getter: Partitions::new(),
            held: Partitions::new(),
            owned: Partitions::new(),
            heartbeat_at: Duration::ZERO,
            is_stale: false,
            is_leaving: false,
        }
    }

    /// `holds` is what the invariant promises.
    fn expect(&mut self, invariant: usize, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.seen.is_worth_keeping(invariant) {
            self.seen.breaches.push((invariant, what()));
        }
    }

    fn occasion(&mut self, invariant: usize, count: usize) {
        self.seen.occasions[invariant] += count;
    }

    pub(super) fn before_poll(&mut self, member: &Member) {
        self.announcements_stand(member);
        self.held = member.held().cloned().collect();
    }

    pub(super) fn polled(&mut self, poll: &Poll, member: &Member) {
        self.is_stale = false;
        let lost: Partitions = poll.lost.iter().cloned().collect();
        let gone: Partitions = self
            .getter
            .difference(&lost)
            .filter(|partition| !self.announced.contains(*partition))
            .cloned()
            .collect();
        self.expect(5, self.is_leaving || gone.is_empty(), || {
            format!("{gone:?} are not to be revoked any more")
        });

        for partition in &poll.lost {
            let was_reported = self.reported.remove(partition);
            self.expect(8, was_reported, || {
                format!("{partition} is lost, and was never assigned or is lost twice")
            });
            let was_announced = self.announced.remove(partition) | self.completing.remove(partition);
            self.occasion(7, was_announced.into());
            self.lost.insert(partition.clone());
        }
        let completed: Vec<_> = self.announced.difference(&self.held).cloned().collect();
        self.occasion(11, completed.len());
        self.announced.retain(|partition| !completed.contains(partition));
        self.completing.extend(completed);

        for partition in &poll.to_be_revoked {
            self.occasion(1, 1);
            self.occasion(8, 1);
            let is_first = self.reported.contains(partition)
                && !self.completing.contains(partition)
                && self.announced.insert(partition.clone());
            self.expect(8, is_first, || format!("{partition} is announced twice"));
        }
        for assigned in &poll.assigned {
            let partition = &assigned.partition;
            let is_first = self.reported.insert(partition.clone());
            self.expect(8, is_first, || format!("{partition} is assigned twice"));
            self.lost.remove(partition);
            let first = assigned.committed.as_ref().map_or(0, |committed| committed.offset);
            self.next.insert(partition.clone(), first);
            let is_apart = !poll.to_be_revoked.contains(partition) && !poll.lost.contains(partition);
            self.expect(8, is_apart, || format!("{partition} is assigned and taken away by one poll"));
        }
        self.getter = member.to_be_revoked_partitions().cloned().collect();
        self.occasion(5, self.getter.len());
        let (getter, announced) = (&self.getter, &self.announced);
        let (is_same, message) =
            (getter == announced, format!("to be revoked are {getter:?}, not {announced:?}"));
        self.expect(5, is_same, || message);
        let fetchable: Vec<_> = member.fetchable().cloned().collect();
        self.expect(2, fetchable == poll.fetchable, || format!("{fetchable:?} are not {:?}", poll.fetchable));
        let reported: Partitions = member.lost_partitions().cloned().collect();
        self.expect(8, reported == lost, || format!("the getter has lost {reported:?}, the poll {lost:?}"));
    }

    /// Records that the last poll gave, by their offsets.
    pub(super) fn handed_out(&mut self, records: &BTreeMap<TopicPartition, Vec<i64>>, member: &Member) {
        for (partition, records) in records {
            let may = member.is_fetchable(partition)
                && self.reported.contains(partition)
                && !self.announced.contains(partition)
                && !self.completing.contains(partition);
            self.expect(2, may, || format!("{records:?} of {partition} are handed out"));
            self.occasion(12, records.len());
            for &offset in records {
                let expected = self.next.insert(partition.clone(), offset + 1);
                self.expect(12, expected == Some(offset), || {
                    format!("{partition}@{offset} is handed out, not {expected:?}")
                });
            }
        }
        if !self.announced.is_empty() && !records.is_empty() {
            self.seen.flowed += 1;
        }
    }

    /// Between polls only a loss ends an announcement.
    fn announcements_stand(&mut self, member: &Member) {
        let owned: Partitions = member.owned().cloned().collect();
        let getter: Partitions = member.to_be_revoked_partitions().cloned().collect();
        let gone: Vec<_> =
            self.announced.intersection(&owned).filter(|it| !getter.contains(*it)).cloned().collect();
        self.expect(5, gone.is_empty(), || format!("the announcement of {gone:?} is taken back"));
    }

    pub(super) fn queued(&mut self, id: CommitId, partitions: Partitions, member: &Member) {
        let announced =
            member.to_be_revoked_partitions().filter(|partition| partitions.contains(*partition)).count();
        self.occasion(3, announced);
        self.commits.insert(id, partitions);
    }

    /// A commit was refused here.
    pub(super) fn refused(&mut self, partitions: &[TopicPartition], member: &Member) {
        for partition in partitions {
            let may = member.is_fetchable(partition)
                || member.to_be_revoked_partitions().any(|other| other == partition);
            self.expect(3, !may, || format!("a commit of {partition} is refused"));
        }
    }

    /// A commit of what is lost has to be refused.
    pub(super) fn try_lost(&mut self, member: &mut Member, lost: &Partitions, now: Duration) {
        for partition in lost {
            self.occasion(6, 1);
            let refused =
                member.commit([(partition.clone(), 1)], now) == Err(NotCommittable::Lost(partition.clone()));
            self.expect(6, refused, || format!("a commit of {partition} is taken, which is lost"));
        }
    }

    pub(super) fn waived(&mut self, partitions: &[TopicPartition]) {
        self.waived.extend(partitions.iter().cloned());
    }

    pub(super) fn unsubscribed(&mut self, member: &Member) {
        self.is_leaving = true;
        self.completing.extend(self.reported.iter().cloned());
        self.announced.clear();
        self.getter.clear();
        let left = member.to_be_revoked_partitions().count();
        self.expect(5, left == 0, || "a member that leaves announces nothing".to_owned());
    }

    pub(super) fn closed(&mut self) {
        self.is_leaving = true;
        self.completing.extend(self.reported.iter().cloned());
        self.announced.clear();
        self.getter.clear();
    }

    pub(super) fn event(&mut self, event: &Event, member: &Member) {
        match event {
            Event::Committed(result) => {
                self.commits.remove(&result.id);
            }
            Event::GivenUp(partitions) => partitions.iter().for_each(|partition| self.given_up(partition)),
            Event::PollIntervalExpired => self.is_stale = true,
            Event::Left => {
                self.is_leaving = false;
                let left: Vec<_> = member.owned().collect();
                self.expect(4, left.is_empty(), || format!("{left:?} are owned outside the group"));
            }
            _ => {}
        }
    }

    fn given_up(&mut self, partition: &TopicPartition) {
        self.occasion(4, 1);
        let is_completed = self.completing.remove(partition);
        self.expect(4, is_completed, || format!("{partition} is given up before a poll"));
        let is_open = self.commits.values().any(|partitions| partitions.contains(partition));
        let is_waived = self.waived.remove(partition) || self.is_leaving;
        self.expect(4, !is_open || is_waived, || {
            format!("{partition} is given up before its commits are answered")
        });
        self.expect(7, !self.lost.contains(partition), || format!("{partition} is given up, and was lost"));
        self.reported.remove(partition);
        self.owned.remove(partition);
        self.unacknowledged.insert(partition.clone());
    }

    pub(super) fn sent(&mut self, request: &Request, member: &Member, now: Duration) {
        match request {
            Request::OffsetCommit(request) => {
                let names = request.topics.iter().flat_map(|topic| {
                    topic
                        .partitions
                        .iter()
                        .map(|row| TopicPartition::new(topic.name.clone(), row.partition_index))
                });
                let lost: Vec<_> = names.filter(|partition| self.lost.contains(partition)).collect();
                self.expect(6, lost.is_empty(), || format!("a commit of {lost:?} is sent, which are lost"));
                let (epoch, told) = (request.generation_id_or_member_epoch, self.told);
                self.expect(3, Some(epoch) == told, || {
                    format!("a commit is sent as of {epoch}, not {told:?}")
                });
            }
            Request::JoinGroup(request) => {
                let metadata = request.protocols[0].metadata.clone();
                let read = embedded::decode_versioned::<ConsumerProtocolSubscription>(metadata);
                let (_, subscription) = read.expect("a subscription");
                let declared = subscription.owned_partitions.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic.clone(), index))
                });
                self.declared(&declared.collect());
            }
            Request::ConsumerGroupHeartbeat(request) => {
                self.heartbeat(now);
                if request.member_epoch == 0 {
                    self.unacknowledged.clear();
                }
                if let Some(topics) = request.topic_partitions.as_ref().filter(|_| !self.is_stale) {
                    let declared = topics.iter().flat_map(|topic| {
                        topic.partitions.iter().map(|&index| partition(topic.topic_id, index))
                    });
                    self.declared(&declared.collect());
                }
            }
            // What is lost, although no poll has said so yet, is not given up.
            Request::LeaveGroup(_) => {
                let given_up: Vec<_> = self
                    .reported
                    .iter()
                    .filter(|partition| member.owned().any(|owned| owned == *partition))
                    .cloned()
                    .collect();
                self.expect(4, given_up.is_empty(), || format!("a member leaves with {given_up:?}"));
            }
            Request::Heartbeat(_) => self.heartbeat(now),
            _ => {}
        }
    }

    /// Whatever the program may be processing has to be declared as owned.
    fn declared(&mut self, declared: &Partitions) {
        let missing: Vec<_> = self.reported.difference(declared).cloned().collect();
        self.expect(4, missing.is_empty(), || format!("a message gives up {missing:?}"));
    }

    fn heartbeat(&mut self, now: Duration) {
        if !self.announced.is_empty() {
            self.occasion(9, 1);
        }
        self.heartbeat_at = now;
    }

    /// While something is announced, a member that can send heartbeats does, `awaited` being one that is under way.
    pub(super) fn heartbeats_go_on(&mut self, member: &Member, awaited: bool, now: Duration) {
        let can = member.generation_or_epoch().is_some() && member.coordinator().is_some();
        if self.announced.is_empty() || self.is_leaving || awaited || !can {
            self.heartbeat_at = now;
        }
        let pause = now - self.heartbeat_at;
        self.expect(9, pause <= self.pause, || {
            format!("{pause:?} without a heartbeat while a revocation is announced")
        });
    }

    pub(super) fn received(&mut self, request: &Request, response: &Response, now: Duration) {
        match (request, response) {
            (_, Response::JoinGroup(response)) if response.error_code.is_ok() => {
                self.told = Some(response.generation_id);
            }
            (_, Response::SyncGroup(response)) if response.error_code.is_ok() => {
                self.unacknowledged.clear();
                // The first interval of a generation begins here.
                self.heartbeat_at = now;
            }
            (Request::ConsumerGroupHeartbeat(request), Response::ConsumerGroupHeartbeat(response))
                if response.error_code == ErrorCode::NONE =>
            {
                self.told = Some(response.member_epoch);
                self.assigned(response.assignment.as_ref());
                if let Some(topics) = &request.topic_partitions {
                    let said = |of: &TopicPartition| {
                        topics.iter().any(|topic| {
                            topic.partitions.iter().any(|&index| partition(topic.topic_id, index) == *of)
                        })
                    };
                    self.unacknowledged.retain(said);
                }
            }
            _ => {}
        }
    }

    fn assigned(&mut self, assignment: Option<&Assignment>) {
        let Some(assignment) = assignment else { return };
        let rows = assignment.topic_partitions.iter();
        let target = rows.flat_map(|row| row.partitions.iter().map(|&index| partition(row.topic_id, index)));
        self.target = target.collect();
        self.seen.taken_back += self.announced.intersection(&self.target).count();
    }

    /// What has to hold at any time.
    pub(super) fn check(&mut self, member: &Member, name: &str) {
        self.announcements_stand(member);
        let owned: Partitions = member.owned().cloned().collect();
        for partition in member.to_be_revoked_partitions() {
            self.expect(1, owned.contains(partition), || {
                format!("{name}: {partition} is to be revoked, and not owned")
            });
            self.occasion(2, 1);
            self.expect(2, !member.is_fetchable(partition), || format!("{name}: {partition} is fetchable"));
        }
        for partition in member.lost_partitions() {
            self.expect(1, !owned.contains(partition), || format!("{name}: {partition} is lost and owned"));
        }
        let getter: Partitions = member.to_be_revoked_partitions().cloned().collect();
        let is_stable = getter == self.getter || getter.is_empty();
        self.expect(8, is_stable, || format!("{name}: to be revoked {getter:?} between polls"));
        let gone: Vec<_> =
            self.completing.iter().filter(|partition| member.is_fetchable(partition)).cloned().collect();
        self.expect(2, gone.is_empty(), || format!("{name}: {gone:?} are fetchable, and revoked"));

        let open: Vec<_> = self
            .lost
            .iter()
            .filter(|lost| self.commits.values().any(|of| of.contains(*lost)))
            .cloned()
            .collect();
        self.expect(6, open.is_empty(), || {
            format!("{name}: commits of {open:?} are still tried, which are lost")
        });

        if !self.announced.is_empty() {
            self.seen.offered_early += self.target.difference(&owned).count();
        }
        let gained: Partitions = owned.difference(&self.owned).cloned().collect();
        if !gained.is_empty() {
            self.occasion(10, gained.len());
            let revoking =
                member.to_be_revoked_partitions().count() + self.completing.intersection(&owned).count();
            self.expect(10, revoking == 0, || format!("{name}: {gained:?} are taken during a revocation"));
            let waits = match self.kind {
                Kind::Consumer => !self.unacknowledged.is_empty(),
                // Handed back by the round that is over: nobody else has them.
                _ => !self.unacknowledged.is_subset(&gained),
            };
            let message =
                format!("{name}: {gained:?} are taken before {:?} are acknowledged", self.unacknowledged);
            self.expect(10, !waits, || message);
        }
        self.owned = owned;

        let waits = self.completing.iter().any(|partition| {
            !self.waived.contains(partition)
                && self.commits.values().any(|partitions| partitions.contains(partition))
        });
        let ready = self.completing.intersection(&self.owned).count();
        if member.generation_or_epoch().is_some() && !waits && !self.is_leaving {
            let message = format!("{name}: {:?} are completed and not given up", self.completing);
            self.expect(11, ready == 0, || message);
        }
    }
}

/// Ids of the model's topics.
fn partition(id: Uuid, index: i32) -> TopicPartition {
    TopicPartition::new(if id == Uuid::from_u128(1) { "orders" } else { "payments" }, index)
}
