//! Rebalances of consumer groups as KIP-983 has them, in the three protocols.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use driver::admin::{Topic, none, produce_request, record_batch};
use driver::{Client, ConsumerRecord, GroupConsumer};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, LeaveGroupRequest};
use kafka_protocol::rebalance::{Assignor, Config, Event, GroupProtocol, NotCommittable, TopicPartition};
use kafka_protocol::records::Compression;
use kafka_protocol::wire::Str;

use super::Scenario;
use super::cluster::Cluster;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("rebalance, consumer protocol: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Consumer)
    }),
    Scenario::new("rebalance, classic cooperative: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Cooperative)
    }),
    Scenario::new("rebalance, classic eager: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Eager)
    }),
    Scenario::new("member removed from a group of the consumer protocol: lost, then back", |cluster| {
        removed(cluster, Protocol::Consumer)
    }),
    Scenario::new("member removed from a classic group: lost, then back", |cluster| {
        removed(cluster, Protocol::Cooperative)
    }),
];

const PARTITIONS: i32 = 4;

/// How many polls later a record is processed that a poll gave.
const PROCESSING: usize = 4;

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Protocol {
    Eager,
    Cooperative,
    Consumer,
}

/// A group, its topic, and a producer that never rests.
struct Stage<'a> {
    cluster: &'a Cluster,
    protocol: Protocol,
    group: Str,
    topic: Topic,
    producer: Client,
    produced: i64,
}

/// A consumer that processes what it got some polls ago, and commits what it has processed.
struct Worker {
    consumer: GroupConsumer,
    polls: usize,
    /// What was given by which poll.
    queue: VecDeque<(usize, ConsumerRecord)>,
    processed: Vec<(i32, i64)>,
    revocations: Revocations,
}

/// What is seen of partitions on their way out.
#[derive(Default)]
struct Revocations {
    /// In which poll each was announced, as long as it is not given up.
    announced: BTreeMap<TopicPartition, usize>,
    /// How many were given up.
    given_up: usize,
    /// How many commits of them were answered in between.
    committed: usize,
    /// How many polls gave records of other partitions while some were announced.
    others_flowed: usize,
}

pub(super) fn rebalance(cluster: &Cluster, protocol: Protocol) -> Result<()> {
    let mut stage = Stage::new(cluster, protocol)?;
    let mut first = stage.worker()?;
    stage.until("the first member has everything", &mut [&mut first], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > 20
    })?;

    let mut second = stage.worker()?;
    let half = |workers: &[&mut Worker]| workers.iter().all(|it| it.owned() == 2);
    stage.until("each member has half", &mut [&mut first, &mut second], |workers| {
        half(workers) && workers[1].processed.len() > 20
    })?;
    let moved = if protocol == Protocol::Eager { 4 } else { 2 };
    let Revocations { given_up, committed, others_flowed, .. } = first.revocations;
    ensure!(given_up == moved, "given up are {given_up}, expected {moved}");
    ensure!(committed > 0, "nothing was committed between announcement and give-up");
    ensure!(others_flowed > 0 || protocol == Protocol::Eager, "the other partitions were paused");

    let mut processed = second.close()?;
    stage.until("the first member has everything again", &mut [&mut first], |workers| {
        workers[0].owned() == 4
    })?;
    let end = stage.produced;
    stage.until("everything is processed", &mut [&mut first], |workers| {
        let at_end = |partition| workers[0].processed.iter().any(|it| *it == (partition, end - 1));
        (0..PARTITIONS).all(at_end)
    })?;
    processed.extend(first.close()?);
    // Some are in both logs if they were processed twice, and in none if they were skipped.
    let processed: Vec<_> = processed.into_iter().filter(|(_, offset)| *offset < end).collect();
    let once: BTreeSet<_> = processed.iter().copied().collect();
    ensure!(once.len() == processed.len(), "{} records were processed twice", processed.len() - once.len());
    let expected = (0..PARTITIONS).flat_map(|partition| (0..end).map(move |offset| (partition, offset)));
    ensure!(once.into_iter().eq(expected), "records were skipped");
    Ok(())
}

fn removed(cluster: &Cluster, protocol: Protocol) -> Result<()> {
    let mut stage = Stage::new(cluster, protocol)?;
    let mut worker = stage.worker()?;
    stage.until("the member has everything", &mut [&mut worker], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > 20
    })?;
    stage.remove(&worker.consumer.member().member_id())?;

    let start = Instant::now();
    let lost = loop {
        let polled = worker.consumer.poll(Duration::from_millis(50), 100)?;
        if !polled.changes.lost.is_empty() {
            break polled.changes.lost;
        }
        ensure!(start.elapsed() < PATIENCE, "nothing is lost");
    };
    ensure!(lost.len() == 4, "lost are {lost:?}");
    let refused = worker.consumer.commit([(lost[0].clone(), 1.into())]).err();
    let refused = refused.and_then(|error| error.downcast::<NotCommittable>().ok());
    let expected = NotCommittable::Lost(lost[0].clone());
    ensure!(refused.as_ref() == Some(&expected), "a commit of a lost partition: {refused:?}");
    worker.queue.clear();
    stage.until("the member is back", &mut [&mut worker], |workers| workers[0].owned() == 4)
}

impl<'a> Stage<'a> {
    fn new(cluster: &'a Cluster, protocol: Protocol) -> Result<Self> {
        let leader = cluster.nodes()[0];
        let topic = cluster.create_topic("rebalances", PARTITIONS, &[leader])?;
        cluster.produce(&topic, leader, 1)?;
        Ok(Self {
            cluster,
            protocol,
            group: cluster.unique("group"),
            topic,
            producer: cluster.connect(leader)?,
            produced: 1,
        })
    }

    fn worker(&self) -> Result<Worker> {
        let classic = |assignors: &[Assignor]| GroupProtocol::Classic { assignors: assignors.to_vec() };
        let protocol = match self.protocol {
            Protocol::Eager => classic(&[Assignor::Range]),
            Protocol::Cooperative => classic(&[Assignor::CooperativeSticky]),
            Protocol::Consumer => {
                GroupProtocol::Consumer { member_id: self.cluster.unique("m"), server_assignor: None }
            }
        };
        let config = Config {
            session_timeout: Duration::from_secs(10),
            heartbeat_interval: Duration::from_millis(200),
            ..Config::new(self.group.clone(), protocol)
        };
        let mut consumer = GroupConsumer::new(self.cluster.address(self.cluster.nodes()[0])?, config)?;
        consumer.subscribe([self.topic.name.clone()])?;
        Ok(Worker {
            consumer,
            polls: 0,
            queue: VecDeque::new(),
            processed: Vec::new(),
            revocations: Revocations::default(),
        })
    }

    /// Produces a record to each partition and lets each worker poll, until it is so.
    fn until(
        &mut self,
        what: &str,
        workers: &mut [&mut Worker],
        is_so: impl Fn(&[&mut Worker]) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while !is_so(workers) {
            ensure!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} until {what}");
            self.produce()?;
            workers.iter_mut().try_for_each(|worker| worker.turn())?;
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

    /// Leaves the group in the name of a member.
    fn remove(&self, member_id: &Str) -> Result<()> {
        let mut coordinator = self.cluster.connect(self.cluster.coordinator(&self.group)?)?;
        let (group_id, member_id) = (self.group.clone(), member_id.clone());
        none(if self.protocol == Protocol::Consumer {
            let leave =
                ConsumerGroupHeartbeatRequest { group_id, member_id, member_epoch: -1, ..Default::default() };
            coordinator.call(&leave)?.error_code
        } else {
            let members = vec![MemberIdentity { member_id, ..Default::default() }];
            coordinator.call(&LeaveGroupRequest { group_id, members, ..Default::default() })?.error_code
        })
    }
}

impl Worker {
    fn owned(&self) -> usize {
        self.consumer.fetchable().count()
    }

    /// One round of KIP-983's loop.
    fn turn(&mut self) -> Result<()> {
        let polled = self.consumer.poll(Duration::from_millis(20), 100)?;
        self.polls += 1;
        self.observe(&polled.events)?;
        let Revocations { announced, others_flowed, .. } = &mut self.revocations;
        for record in &polled.records {
            ensure!(
                !announced.contains_key(&record.partition),
                "a record of {}, which is announced",
                record.partition
            );
        }
        *others_flowed += usize::from(!announced.is_empty() && !polled.records.is_empty());
        announced
            .extend(polled.changes.to_be_revoked.iter().map(|partition| (partition.clone(), self.polls)));
        ensure!(polled.changes.lost.is_empty(), "lost are {:?}", polled.changes.lost);
        self.queue.extend(polled.records.into_iter().map(|record| (self.polls, record)));
        self.process(PROCESSING)?;

        // Partitions are held until nothing of them is being processed; the others go on.
        let member = self.consumer.member();
        for partition in member.to_be_revoked_partitions().cloned().collect::<Vec<_>>() {
            if self.queue.iter().any(|(_, record)| record.partition == partition) {
                member.hold(&partition);
            } else {
                member.release(&partition);
            }
        }
        Ok(())
    }

    /// Processes what is so many polls old, and commits it.
    fn process(&mut self, age: usize) -> Result<()> {
        let mut offsets = BTreeMap::new();
        while self.queue.front().is_some_and(|(poll, _)| *poll + age <= self.polls) {
            let Some((_, record)) = self.queue.pop_front() else { break };
            let offset = record.record.offset();
            self.processed.push((record.partition.partition, offset));
            offsets.insert(record.partition, (offset + 1).into());
        }
        if !offsets.is_empty() {
            self.consumer.commit(offsets)?;
        }
        Ok(())
    }

    fn observe(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            match event {
                Event::GivenUp(partitions) => {
                    for partition in partitions {
                        let announced = self.revocations.announced.remove(partition);
                        let is_later = announced.is_some_and(|poll| self.polls > poll);
                        ensure!(
                            is_later,
                            "{partition} is given up in poll {}, announced in {announced:?}",
                            self.polls
                        );
                        let is_processed =
                            self.queue.iter().all(|(_, record)| record.partition != *partition);
                        ensure!(
                            is_processed,
                            "{partition} is given up while records of it are being processed"
                        );
                        self.revocations.given_up += 1;
                    }
                }
                Event::Committed(result) => {
                    ensure!(result.is_ok(), "a commit: {result:?}");
                    let announced = &self.revocations.announced;
                    let committed =
                        result.partitions.iter().filter(|(partition, _)| announced.contains_key(partition));
                    self.revocations.committed += committed.count();
                }
                Event::Failed(refusal) | Event::Refused(refusal) => ensure!(false, "{refusal}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Processes and commits everything, leaves, and gives what was processed.
    fn close(mut self) -> Result<Vec<(i32, i64)>> {
        self.process(0)?;
        for event in self.consumer.close(PATIENCE)? {
            if let Event::Committed(result) = event {
                ensure!(result.is_ok(), "a commit before closing: {result:?}");
            }
        }
        Ok(self.processed)
    }
}
