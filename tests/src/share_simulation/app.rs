//! Applications: what they do with records, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Action, CommitId, Event, PartitionRecords, Poll, ShareConsumer, ShareConsumerConfig,
    ShareConsumerError,
};
use kafka_protocol::share::{FetchSizes, TopicIdPartition};

use super::Simulation;
use super::network::broker_request;
use super::plan::{GROUP, Plan, TOPIC};
use crate::random::Random;

/// An application with its consumer.
pub(super) struct App {
    pub(super) number: usize,
    /// Counts its restarts, each of which is another member.
    pub(super) life: u64,
    pub(super) member: String,
    pub(super) consumer: ShareConsumer,
    mode: AcknowledgementMode,
    /// Whether it sometimes takes longer than a lock lasts.
    is_slow: bool,
    pub(super) wake_at: Duration,
    /// When it is through with the records in hand.
    done_at: Duration,
    /// Until when it does not poll, after a commit.
    away_until: Duration,
    /// Whether it has not polled since.
    is_away: bool,
    /// Records of the last poll, without an acknowledgement; until when they are locked.
    in_hand: Vec<((TopicIdPartition, i64), Duration)>,
    /// What it has acknowledged and not heard of.
    unheard: BTreeMap<(TopicIdPartition, i64), (AcknowledgeType, Duration)>,
    commits: BTreeSet<CommitId>,
    is_closing: bool,
}

impl App {
    pub(super) fn new(number: usize, plan: &Plan, random: &mut Random, now: Duration) -> Self {
        Self::in_life(number, 0, plan, random, now)
    }

    /// The application after a restart.
    pub(super) fn successor(&self, plan: &Plan, random: &mut Random, now: Duration) -> Self {
        Self::in_life(self.number, self.life + 1, plan, random, now)
    }

    fn in_life(number: usize, life: u64, plan: &Plan, random: &mut Random, now: Duration) -> Self {
        let member = format!("member-{number}-{life}");
        let bootstrap = (1..=plan.nodes).map(|node| (format!("node-{node}").into(), 9092)).collect();
        let mode = random.pick(&[
            AcknowledgementMode::Implicit,
            AcknowledgementMode::Explicit,
            AcknowledgementMode::Explicit,
        ]);
        let config = ShareConsumerConfig {
            acknowledgement_mode: mode,
            fetch: FetchSizes {
                max_records: plan.max_records,
                batch_size: plan.max_records,
                acquire_mode: plan.acquire_mode,
                max_wait_ms: random.pick(&[500, 500, 60_000]),
                ..Default::default()
            },
            request_timeout: Duration::from_secs(1),
            api_timeout: Duration::from_secs(3),
            // Less than a slow application takes, or much more.
            max_poll_interval: Duration::from_millis(random.pick(&[2000, 300_000])),
            ..ShareConsumerConfig::new(GROUP, member.as_str(), bootstrap)
        };
        let mut consumer = ShareConsumer::new(config);
        consumer.subscribe(now, [TOPIC]).expect("it is not closed");
        Self {
            number,
            life,
            member,
            consumer,
            mode,
            is_slow: random.once_in(3),
            wake_at: now,
            done_at: now,
            away_until: now,
            is_away: false,
            in_hand: Vec::new(),
            unheard: BTreeMap::new(),
            commits: BTreeSet::new(),
            is_closing: false,
        }
    }

    /// Whether everything that it has said has been answered, and it polls, so that it has heard of what was dropped.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_away && self.in_hand.is_empty() && self.unheard.is_empty() && self.commits.is_empty()
    }

    pub(super) fn close(&mut self, now: Duration) {
        if !self.is_closing {
            self.is_closing = true;
            // What has no acknowledgement goes back to the brokers, and renewals are of no use.
            self.in_hand.clear();
            self.is_away = false;
            self.consumer.close(now);
            self.wake_at = now;
        }
    }

    /// Says what became of the records in hand.
    fn acknowledge(&mut self, random: &mut Random) -> Result<(), String> {
        let renew_all = random.once_in(8);
        for ((partition, offset), locked_until) in std::mem::take(&mut self.in_hand) {
            let mut ty = match random.below(16) {
                _ if self.mode == AcknowledgementMode::Implicit => AcknowledgeType::ACCEPT,
                _ if renew_all => AcknowledgeType::RENEW,
                0 | 1 => AcknowledgeType::RENEW,
                2 => AcknowledgeType::RELEASE,
                3 => AcknowledgeType::REJECT,
                _ => AcknowledgeType::ACCEPT,
            };
            if self.mode == AcknowledgementMode::Explicit {
                match self.consumer.acknowledge(partition, offset, ty) {
                    Ok(()) => {}
                    Err(ShareConsumerError::RenewUnsupported { .. }) => {
                        ty = AcknowledgeType::ACCEPT;
                        self.consumer
                            .acknowledge(partition, offset, ty)
                            .map_err(|error| error.to_string())?;
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
            if self.unheard.insert((partition, offset), (ty, locked_until)).is_some() {
                return Err(format!("{partition} {offset} was in hand twice"));
            }
        }
        Ok(())
    }

    /// Takes records in hand.
    fn take(&mut self, records: &[PartitionRecords], random: &mut Random, now: Duration) {
        for of in records {
            let locks = of.records.iter().map(|acquired| {
                ((of.partition, acquired.record.offset()), acquired.lock_deadline.unwrap_or_default())
            });
            self.in_hand.extend(locks);
        }
        self.done_at = now + self.some_time(random);
    }

    fn some_time(&self, random: &mut Random) -> Duration {
        let slow: &[u64] = if self.is_slow { &[0, 10, 700, 1500, 2500] } else { &[0, 0, 1, 10, 100] };
        Duration::from_millis(random.pick(slow))
    }
}

impl Simulation {
    /// Lets an application do what it can do now.
    pub(super) fn run_app(&mut self, at: usize) -> Result<(), String> {
        let (now, app) = (self.now, &mut self.apps[at]);
        let is_busy = (!app.in_hand.is_empty() && app.done_at > now) || app.away_until > now;
        let poll = if app.is_closing || is_busy {
            app.consumer.drive(now)
        } else {
            app.is_away = false;
            self.model.let_go(at, &app.in_hand);
            app.acknowledge(&mut self.random)?;
            if self.random.once_in(3) && !app.unheard.is_empty() {
                let commit = app.consumer.commit(now).map_err(|error| error.to_string())?;
                app.commits.insert(commit);
                if self.random.once_in(3) {
                    app.away_until = now + app.some_time(&mut self.random);
                }
            }
            if app.away_until > now {
                app.is_away = true;
                app.consumer.drive(now)
            } else {
                app.consumer.poll(now).map_err(|error| error.to_string())?
            }
        };
        let Poll { actions, records, events, deadline } = poll;
        for action in actions {
            self.act(at, action)?;
        }
        for event in events {
            self.tell(|| format!("consumer {at}: {event:?}"));
            if self.hear(at, event)? {
                return Ok(());
            }
        }
        for of in &records {
            self.tell(|| format!("consumer {at} gets {} records of {}", of.records.len(), of.partition));
            let is_sound =
                self.network.of(at, of.node).is_some_and(|connection| self.network.is_sound(connection));
            let app = &self.apps[at];
            self.model.handed_out((at, &app.member), of, is_sound, now, &self.cluster, &mut self.totals)?;
        }
        let app = &mut self.apps[at];
        if !records.is_empty() {
            app.take(&records, &mut self.random, now);
        }
        let busy_until = (!app.in_hand.is_empty()).then_some(app.done_at);
        let away_until = (app.away_until > now).then_some(app.away_until);
        app.wake_at = deadline.into_iter().chain(busy_until).chain(away_until).min().unwrap_or(Duration::MAX);
        Ok(())
    }

    fn act(&mut self, at: usize, action: Action) -> Result<(), String> {
        let (now, random) = (self.now, &mut self.random);
        match action {
            Action::Connect { node, .. } => self.network.connect(at, self.apps[at].life, node, now, random),
            Action::Disconnect { node } => {
                if let Some(connection) = self.network.of(at, node) {
                    self.model.may_lose(at);
                    self.network.closed_by_consumer(connection, now, random);
                    self.network.forget(connection);
                }
            }
            Action::Send { node, id, version, request } => {
                let connection = self.network.of(at, node).ok_or("a request without a connection")?;
                let request = broker_request(request);
                self.model.sent(connection, &request)?;
                self.network.send(connection, (Some(id), version), request, now, random);
            }
        }
        Ok(())
    }

    /// `true` if the application is another from now on.
    fn hear(&mut self, at: usize, event: Event) -> Result<bool, String> {
        let app = &mut self.apps[at];
        match event {
            Event::Acknowledged { commit, result } => {
                if commit.is_some_and(|commit| !app.commits.contains(&commit)) {
                    return Err(format!("{commit:?} goes on after its end"));
                }
                let mut locked_until = Duration::MAX;
                for (offset, ty) in result.acknowledgements.iter() {
                    let said = app.unheard.remove(&(result.partition, offset));
                    locked_until = said.map_or(Duration::MAX, |said| said.1).min(locked_until);
                    let is_expected = match said {
                        Some((said, _)) => said == ty || (app.is_closing && ty == AcknowledgeType::RELEASE),
                        None => !self.model.is_record(result.partition, offset),
                    };
                    if !is_expected {
                        return Err(format!(
                            "{said:?} became {ty:?} at offset {offset} of {}",
                            result.partition
                        ));
                    }
                }
                let is_late = locked_until <= self.now;
                self.model.acknowledged(
                    at,
                    &result,
                    (is_late, self.plan.has_faults),
                    &self.cluster,
                    &mut self.totals,
                )?;
            }
            Event::Committed { commit } => {
                let is_open = app.commits.remove(&commit);
                if !is_open {
                    return Err(format!("{commit:?} ended twice"));
                }
            }
            Event::Dropped { records, partition, .. } => {
                self.totals.dropped += records as u64;
                self.model.dropped(partition);
            }
            Event::PollIntervalExpired => self.totals.expired_polls += 1,
            Event::Closed => {
                if !app.is_settled() {
                    return Err(format!("closed, and not heard of {:?}, {:?}", app.unheard, app.commits));
                }
                self.network.close_all(at, self.now, &mut self.random);
                self.apps[at] = self.apps[at].successor(&self.plan, &mut self.random, self.now);
                return Ok(true);
            }
            Event::Failed { .. }
            | Event::Unreadable { .. }
            | Event::PartitionError { .. }
            | Event::TopicError { .. } => {
                return Err(format!("{event:?}"));
            }
            Event::NodeError { .. } if !self.plan.has_faults => return Err(format!("{event:?}")),
            _ => {}
        }
        Ok(false)
    }
}
