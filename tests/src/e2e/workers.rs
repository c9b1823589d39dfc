//! Group consumers at work: they process and commit what they get, and a producer never rests. In every poll they look
//! whether KIP-983's rules are kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use driver::admin::{Topic, none, produce_request, record_batch};
use driver::{Client, ConsumerRecord, GroupConsumer};
use kafka_protocol::rebalance::{
    Assignor, CommitId, CommitResult, Config, Event, GroupProtocol, NotCommittable, Poll, TopicPartition,
};
use kafka_protocol::records::Compression;
use kafka_protocol::wire::Str;

use super::cluster::Cluster;

pub(super) const PARTITIONS: i32 = 4;

/// How many polls later a record is processed that a poll gave.
const PROCESSING: usize = 4;

/// After how many polls at the latest everything has been delivered that was produced before. A poll without records
/// takes 100 ms, and before each poll the leader has taken records of every partition.
const LAG: usize = 10;

/// How many more records every other partition has to deliver while partitions are held.
const WINDOW: i64 = 20;

/// How long at least nothing may happen between two polls, although heartbeats go on: longer than their interval.
const LULL: Duration = Duration::from_millis(700);

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Protocol {
    Eager,
    Cooperative,
    Consumer,
}

/// What a worker does with partitions that are to be revoked. Whatever it is, it commits them before they go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manner {
    /// Processes them at once, commits, and polls again.
    Hurries,
    /// Processes them at once, commits, and polls again when that is answered and some time has gone by.
    Settles,
    /// Holds them until they are processed and the other partitions have delivered [`WINDOW`] records each.
    Holds,
    /// Holds them for ever.
    Clings,
}

/// A group, its topic, and a producer.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) protocol: Protocol,
    pub(super) group: Str,
    pub(super) topic: Topic,
    /// How many records each partition has.
    pub(super) produced: i64,
    /// A partition that two workers had at the same time, if there was one.
    pub(super) shared: Option<TopicPartition>,
    producer: Client,
}

/// A consumer that processes what it got some polls ago, and commits what it has processed.
pub(super) struct Worker {
    pub(super) consumer: GroupConsumer,
    /// Partition and offset of each.
    pub(super) processed: Vec<(i32, i64)>,
    /// How many partitions were given up.
    pub(super) given_up: usize,
    /// How many polls have reported a loss. Each time it was everything.
    pub(super) losses: usize,
    /// The commits that failed.
    pub(super) failed: Vec<CommitResult>,
    /// Whether it leaves records unprocessed, and so has nothing to commit.
    pub(super) rests: bool,
    manner: Manner,
    /// Since when it has been waiting between two polls.
    settling: Option<Instant>,
    /// Whether a loss shows already that the next poll has to report.
    has_lost: bool,
    polls: usize,
    /// How many records each partition had in the last polls.
    produced: VecDeque<i64>,
    reading: BTreeMap<TopicPartition, Reading>,
    leaving: BTreeMap<TopicPartition, Leaving>,
    /// What was given by which poll.
    queue: VecDeque<(usize, ConsumerRecord)>,
    unanswered: BTreeMap<CommitId, BTreeMap<TopicPartition, i64>>,
    committed: BTreeMap<TopicPartition, i64>,
}

/// A fetchable partition.
struct Reading {
    /// The poll that reported it.
    since: usize,
    /// The offset of the next record.
    next: i64,
}

/// A partition whose revocation is announced, until it is given up.
struct Leaving {
    announced: usize,
    /// The poll that completes it, once it has come.
    completed: Option<usize>,
    is_held: bool,
    /// The offset behind the last record that was delivered.
    next: i64,
    /// Up to where the other partitions have to be delivered before it is released.
    others: i64,
    /// Whether a commit of it was answered since.
    is_committed: bool,
}

impl<'a> Stage<'a> {
    pub(super) fn new(cluster: &'a Cluster, protocol: Protocol) -> Result<Self> {
        let leader = cluster.nodes()[0];
        let topic = cluster.create_topic("rebalances", PARTITIONS, &[leader])?;
        cluster.produce(&topic, leader, 1)?;
        Ok(Self {
            cluster,
            protocol,
            group: cluster.unique("group"),
            topic,
            produced: 1,
            shared: None,
            producer: cluster.connect(leader)?,
        })
    }

    pub(super) fn worker(&self, manner: Manner) -> Result<Worker> {
        self.configured(manner, |_| {})
    }

    pub(super) fn configured(&self, manner: Manner, configure: impl FnOnce(&mut Config)) -> Result<Worker> {
        let classic = |assignors: &[Assignor]| GroupProtocol::Classic { assignors: assignors.to_vec() };
        let protocol = match self.protocol {
            Protocol::Eager => classic(&[Assignor::Range]),
            Protocol::Cooperative => classic(&[Assignor::CooperativeSticky]),
            Protocol::Consumer => {
                GroupProtocol::Consumer { member_id: self.cluster.unique("m"), server_assignor: None }
            }
        };
        let mut config = Config {
            heartbeat_interval: Duration::from_millis(200),
            ..Config::new(self.group.clone(), protocol)
        };
        configure(&mut config);
        let mut consumer = GroupConsumer::new(self.cluster.address(self.cluster.nodes()[0])?, config)?;
        consumer.subscribe([self.topic.name.clone()])?;
        Ok(Worker {
            consumer,
            processed: Vec::new(),
            given_up: 0,
            losses: 0,
            failed: Vec::new(),
            rests: false,
            manner,
            settling: None,
            has_lost: false,
            polls: 0,
            produced: VecDeque::new(),
            reading: BTreeMap::new(),
            leaving: BTreeMap::new(),
            queue: VecDeque::new(),
            unanswered: BTreeMap::new(),
            committed: BTreeMap::new(),
        })
    }

    /// Produces a record to each partition and lets each worker poll, until it is so.
    pub(super) fn until(
        &mut self,
        what: &str,
        workers: &mut [&mut Worker],
        is_so: impl Fn(&[&mut Worker]) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while !is_so(workers) {
            ensure!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} until {what}");
            self.produce()?;
            for worker in workers.iter_mut() {
                worker.turn(self.produced)?;
            }
            let mut owners = BTreeSet::new();
            let mut owned = workers.iter().flat_map(|it| it.reading.keys().chain(it.leaving.keys()));
            self.shared = self.shared.take().or(owned.find(|it| !owners.insert(*it)).cloned());
        }
        Ok(())
    }

    fn produce(&mut self) -> Result<()> {
        let records = record_batch(&[format!("value {}", self.produced)], Compression::None)?;
        let response = self.producer.call(&produce_request(&self.topic, &records))?;
        let mut rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        rows.try_for_each(|row| none(row.error_code))?;
        self.produced += 1;
        Ok(())
    }
}

impl Worker {
    /// How many partitions are fetchable.
    pub(super) fn owned(&self) -> usize {
        self.reading.len()
    }

    /// Fetchable partitions, ascending.
    pub(super) fn reading(&self) -> impl Iterator<Item = &TopicPartition> {
        self.reading.keys()
    }

    /// How many partitions are announced and not given up.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Whether all commits are answered.
    pub(super) fn is_settled(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// One round of KIP-983's loop, or a wait between two. `produced` is how many records each partition has.
    pub(super) fn turn(&mut self, produced: i64) -> Result<()> {
        if let Some(announced) = self.settling {
            if !self.is_settled() || announced.elapsed() < LULL {
                let events = self.consumer.wait(Duration::from_millis(20))?;
                return self.observe(events);
            }
            self.settling = None;
        }
        self.polls += 1;
        for leaving in self.leaving.values_mut().filter(|it| !it.is_held) {
            leaving.completed.get_or_insert(self.polls);
        }
        let polled = self.consumer.poll(Duration::from_millis(100), 1000)?;
        // What happened while the poll waited comes before what it reports.
        self.observe(polled.events)?;
        self.changed(&polled.changes, produced)?;
        self.look_for_late()?;
        self.read(polled.records)?;
        self.look_for_lag(produced)?;

        let mut offsets = if self.rests { BTreeMap::new() } else { self.process(PROCESSING) };
        self.hold_or_release(&mut offsets)?;
        self.commit(offsets)?;
        let announces = !polled.changes.to_be_revoked.is_empty();
        self.settling = (announces && self.manner == Manner::Settles).then(Instant::now);
        Ok(())
    }

    /// What the poll reports has to go with what was there before.
    fn changed(&mut self, changes: &Poll, produced: i64) -> Result<()> {
        for partition in &changes.lost {
            let is_owned =
                self.reading.remove(partition).is_some() | self.leaving.remove(partition).is_some();
            ensure!(is_owned, "{partition} is lost a second time, or was not there");
            let refused = self.consumer.commit([(partition.clone(), 1.into())]).err();
            let refused = refused.and_then(|error| error.downcast::<NotCommittable>().ok());
            let expected = NotCommittable::Lost(partition.clone());
            ensure!(refused.as_ref() == Some(&expected), "a commit of a lost partition: {refused:?}");
        }
        let has_lost = mem::take(&mut self.has_lost);
        ensure!(
            !has_lost || !changes.lost.is_empty(),
            "something was lost between two polls, and the second does not report it"
        );
        if !changes.lost.is_empty() {
            self.losses += 1;
            self.queue.clear();
            let rest: Vec<_> = self.reading.keys().chain(self.leaving.keys()).collect();
            ensure!(rest.is_empty(), "lost are {:?}, but not {rest:?}", changes.lost);
            let lost: Vec<_> = self.consumer.member().lost_partitions().cloned().collect();
            ensure!(lost == changes.lost, "the poll reports {:?}, the getter has {lost:?}", changes.lost);
        }
        for partition in &changes.to_be_revoked {
            let reading = self.reading.remove(partition);
            let Reading { next, .. } = reading.with_context(|| format!("{partition} was not fetchable"))?;
            let leaving = Leaving {
                announced: self.polls,
                completed: None,
                is_held: false,
                next,
                others: produced + WINDOW,
                is_committed: false,
            };
            self.leaving.insert(partition.clone(), leaving);
        }
        for assigned in &changes.assigned {
            let partition = &assigned.partition;
            let next = assigned.committed.as_ref().map_or(0, |committed| committed.offset);
            let committed = self.committed.get(partition).copied().unwrap_or_default();
            ensure!(
                (committed..=produced).contains(&next),
                "{partition} begins at {next} of {produced}, committed was {committed}"
            );
            ensure!(!self.leaving.contains_key(partition), "{partition} comes back before it has gone");
            let before = self.reading.insert(partition.clone(), Reading { since: self.polls, next });
            ensure!(before.is_none(), "{partition} is assigned twice");
        }
        ensure!(
            self.reading.keys().eq(&changes.fetchable),
            "fetchable are {:?}, expected {:?}",
            changes.fetchable,
            self.reading.keys()
        );
        Ok(())
    }

    fn observe(&mut self, events: Vec<Event>) -> Result<()> {
        for event in events {
            match event {
                Event::GivenUp(partitions) => {
                    partitions.iter().try_for_each(|partition| self.gave_up(partition))?;
                }
                Event::Committed(result) => self.answered(result),
                Event::Joined { .. } => {}
                other => bail!("{other:?}"),
            }
        }
        Ok(())
    }

    /// Not too early.
    fn gave_up(&mut self, partition: &TopicPartition) -> Result<()> {
        let leaving = self.leaving.remove(partition);
        let leaving = leaving.with_context(|| format!("{partition} is given up, which is not announced"))?;
        let (announced, now) = (leaving.announced, self.polls);
        ensure!(
            leaving.completed.is_some_and(|poll| poll > announced),
            "{partition} is given up in poll {now} or behind it, announced in {announced}, held: {}",
            leaving.is_held
        );
        ensure!(
            self.manner != Manner::Settles || now == announced + 1,
            "{partition} is given up in poll {now}, announced in {announced}"
        );
        let is_processed = self.queue.iter().all(|(_, record)| record.partition != *partition);
        ensure!(is_processed, "{partition} is given up while records of it are being processed");
        ensure!(!self.waits_for(partition), "{partition} is given up before its commits are answered");
        ensure!(leaving.is_committed, "no commit of {partition} between announcement and give-up");
        self.given_up += 1;
        Ok(())
    }

    /// Not too late: what the poll completes is given up in it, or once the last commit is answered.
    fn look_for_late(&self) -> Result<()> {
        let mut completed = self.leaving.iter().filter(|(_, it)| it.completed.is_some()).peekable();
        let first = completed.peek().map(|(partition, it)| (*partition, it.announced, it.completed));
        let waits = completed.any(|(partition, _)| self.waits_for(partition));
        ensure!(
            first.is_none() || waits,
            "not given up by poll {}, though its commits are answered; announced in, completed by: {first:?}",
            self.polls
        );
        Ok(())
    }

    fn waits_for(&self, partition: &TopicPartition) -> bool {
        self.unanswered.values().any(|offsets| offsets.contains_key(partition))
    }

    fn answered(&mut self, result: CommitResult) {
        let offsets = self.unanswered.remove(&result.id).unwrap_or_default();
        let done = result.partitions.iter().filter(|(_, result)| result.is_ok());
        for (partition, _) in done {
            if let Some(leaving) = self.leaving.get_mut(partition) {
                leaving.is_committed = true;
            }
            self.committed
                .extend(offsets.get_key_value(partition).map(|(key, offset)| (key.clone(), *offset)));
        }
        if !result.is_ok() {
            self.failed.push(result);
        }
    }

    /// Only of partitions that are fetchable, and none left out.
    fn read(&mut self, records: Vec<ConsumerRecord>) -> Result<()> {
        for record in records {
            let (partition, offset) = (&record.partition, record.record.offset());
            let reading = self.reading.get_mut(partition);
            let reading =
                reading.with_context(|| format!("a record of {partition}, which is not fetchable"))?;
            ensure!(offset == reading.next, "{partition} goes on at {offset} in place of {}", reading.next);
            reading.next += 1;
            self.queue.push_back((self.polls, record));
        }
        Ok(())
    }

    /// No partition is ever paused.
    fn look_for_lag(&mut self, produced: i64) -> Result<()> {
        self.produced.push_back(produced);
        if self.produced.len() <= LAG {
            return Ok(());
        }
        let expected = self.produced.pop_front().unwrap_or_default();
        for (partition, Reading { since, next }) in &self.reading {
            ensure!(
                *next >= expected || since + LAG > self.polls,
                "{partition} is at {next} in poll {}, and was to be at {expected} {LAG} polls ago; on their way out \
                 are {:?}",
                self.polls,
                self.leaving.keys()
            );
        }
        Ok(())
    }

    /// Processes what is so many polls old, and what is to go at once. Gives the offsets to commit.
    fn process(&mut self, age: usize) -> BTreeMap<TopicPartition, i64> {
        let is_hasty = matches!(self.manner, Manner::Hurries | Manner::Settles);
        let (done, rest) = mem::take(&mut self.queue).into_iter().partition(|(poll, record)| {
            poll + age <= self.polls || is_hasty && self.leaving.contains_key(&record.partition)
        });
        self.queue = rest;
        let done: VecDeque<(usize, ConsumerRecord)> = done;
        self.processed
            .extend(done.iter().map(|(_, record)| (record.partition.partition, record.record.offset())));
        done.into_iter().map(|(_, record)| (record.partition, record.record.offset() + 1)).collect()
    }

    /// What is not held from now on is committed once more, so that there is always a commit that the give-up has to
    /// wait for.
    fn hold_or_release(&mut self, offsets: &mut BTreeMap<TopicPartition, i64>) -> Result<()> {
        let others = self.reading.values().map(|reading| reading.next).min().unwrap_or(i64::MAX);
        for (partition, leaving) in self.leaving.iter_mut().filter(|(_, it)| it.completed.is_none()) {
            let is_processed = self.queue.iter().all(|(_, record)| record.partition != *partition);
            let holds = match self.manner {
                Manner::Hurries | Manner::Settles => false,
                Manner::Holds => !is_processed || others < leaving.others,
                Manner::Clings => true,
            };
            let member = self.consumer.member();
            if !member.to_be_revoked_partitions().any(|it| it == partition) {
                self.has_lost = true;
            } else if holds {
                ensure!(member.hold(partition), "{partition} cannot be held");
            } else {
                ensure!(!leaving.is_held || member.release(partition), "{partition} cannot be released");
                offsets.insert(partition.clone(), leaving.next);
            }
            leaving.is_held = holds;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, offsets: BTreeMap<TopicPartition, i64>) -> Result<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        let sent = offsets.iter().map(|(partition, offset)| (partition.clone(), (*offset).into()));
        match self.consumer.commit(sent).map_err(Error::downcast) {
            Ok(id) => drop(self.unanswered.insert(id, offsets)),
            Err(Ok(NotCommittable::Lost(_))) => self.has_lost = true,
            Err(Ok(refused)) => bail!(refused),
            Err(Err(error)) => return Err(error),
        }
        Ok(())
    }

    /// Processes and commits everything, leaves, and gives what was processed.
    pub(super) fn close(mut self) -> Result<Vec<(i32, i64)>> {
        let offsets = self.process(0);
        self.commit(offsets)?;
        for event in self.consumer.close(PATIENCE)? {
            if let Event::Committed(result) = event {
                self.answered(result);
            }
        }
        ensure!(self.is_settled(), "left without answers to commits");
        ensure!(self.failed.is_empty(), "failed are {:?}", self.failed);
        Ok(self.processed)
    }
}
