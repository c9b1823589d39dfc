//! Brokers that die, by SIGKILL: nobody signs off, and another broker takes over once the controller misses them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use driver::admin::{Topic, describe_topic, eventually};
use driver::{ConsumerRecord, GroupConsumer, ShareGroupConsumer};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::rebalance::{Assignor, CommitId, Config, Event, GroupProtocol, TopicPartition};
use kafka_protocol::share::ShareAcquireMode;
use kafka_protocol::share::consumer;
use kafka_protocol::wire::Uuid;

use super::Scenario;
use super::cluster::{Cluster, Special};
use super::consumers::{configured, drain, expect, some_records};
use super::group::Group;
use super::leaders::elect;

pub(super) const SCENARIOS: &[Scenario] = &[
    on("broker killed: a share consumer gets its records again from another one", share_consumer),
    on("broker killed: consumers of both group protocols find the new coordinator", group_consumers),
];

const fn on(name: &'static str, run: fn(&Cluster) -> Result<()>) -> Scenario {
    Scenario { on: Some(Special::Mortal), ..Scenario::new(name, run) }
}

/// A lock that outlives its scenario.
const LONG: Duration = Duration::from_secs(60);

const PATIENCE: Duration = Duration::from_secs(60);

/// A broker to kill and the one that takes over.
fn nodes(cluster: &Cluster) -> Result<(i32, i32)> {
    let nodes = cluster.nodes();
    let (survivor, others) = nodes.split_first().context("no broker")?;
    Ok((*others.last().context("no broker to kill")?, *survivor))
}

/// Makes the victim the leader of a topic of the brokers' own, with one partition, and thereby the coordinator of all
/// groups. The other broker has a copy of everything.
fn lead(cluster: &Cluster, name: &'static str, (victim, survivor): (i32, i32)) -> Result<()> {
    let topic = Topic { name: name.into(), id: Uuid::nil(), partitions: 1 };
    let mut client = cluster.any()?;
    let mut in_sync = || -> Result<Vec<i32>> {
        let partitions = describe_topic(&mut client, &topic)?.partitions;
        Ok(partitions.first().map_or(Vec::new(), |partition| partition.isr_nodes.to_vec()))
    };
    eventually("a topic of the brokers' own", || Ok((!in_sync()?.is_empty()).then_some(())))?;
    elect(cluster, &topic, &[victim, survivor])?;
    eventually("a copy of it", || Ok(in_sync()?.contains(&survivor).then_some(())))
}

fn share_consumer(cluster: &Cluster) -> Result<()> {
    let (victim, survivor) = nodes(cluster)?;
    let topic = cluster.create_topic("outages", 1, &[victim, survivor])?;
    cluster.produce(&topic, victim, 10)?;
    let group = Group::of(cluster, topic, victim, LONG)?;
    // Members, and which records are accepted: all of it is known to the victim.
    lead(cluster, "__consumer_offsets", (victim, survivor))?;
    lead(cluster, "__share_group_state", (victim, survivor))?;

    let mut consumer = configured(&group, |config| {
        config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
        config.fetch.max_records = 5;
    })?;
    let first = some_records(&mut consumer)?;
    ensure!(first.to_string() == "0-4#1", "delivered {first}");
    let accept = |consumer: &mut ShareGroupConsumer, offsets: Range<i64>| {
        let mut those = first.0.keys().filter(|(_, offset)| offsets.contains(offset));
        those.try_for_each(|(partition, offset)| {
            consumer.acknowledge(*partition, *offset, AcknowledgeType::ACCEPT)
        })
    };
    accept(&mut consumer, 0..2)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;

    accept(&mut consumer, 2..5)?;
    cluster.kill(victim)?;
    consumer.commit()?;
    let events = consumer.events();
    let codes = events.iter().filter_map(|event| match event {
        consumer::Event::Acknowledged { result, .. } => Some(result.error),
        _ => None,
    });
    let codes: Vec<_> = codes.collect();
    ensure!(
        !codes.is_empty() && codes.iter().all(|code| !code.is_ok()),
        "acknowledgements at the dead broker end with {codes:?}: {events:?}"
    );

    cluster.await_leader(&group.topic, 0, survivor)?;
    cluster.produce(&group.topic, survivor, 5)?;
    let again = drain(&mut consumer, 13, AcknowledgeType::ACCEPT)?;
    let offsets: Vec<_> = again.0.keys().map(|(_, offset)| *offset).collect();
    ensure!(offsets.iter().copied().eq(2..15), "delivered by the other broker: {again}");
    expect(&mut consumer, ErrorCode::NONE)?;
    consumer.close()?;
    let there = Group { leader: survivor, ..group };
    let free = there.member()?.acquire_rest()?;
    ensure!(free.is_empty(), "free after all: {free:?}");
    Ok(())
}

fn group_consumers(cluster: &Cluster) -> Result<()> {
    let (victim, survivor) = nodes(cluster)?;
    // The leaders of one topic and of the coordinator's die, that of the other topic lives.
    let dying = cluster.create_topic("outages", 2, &[victim, survivor])?;
    let living = cluster.create_topic("outages", 2, &[survivor, victim])?;
    let groups = ["classic", "consumer"].map(|name| cluster.unique(name));
    cluster.coordinator(&groups[0])?;
    lead(cluster, "__consumer_offsets", (victim, survivor))?;

    let workers = || -> Result<[Worker; 2]> {
        let classic = GroupProtocol::Classic { assignors: vec![Assignor::CooperativeSticky] };
        let consumer = GroupProtocol::Consumer { member_id: cluster.member_id(), server_assignor: None };
        let bootstrap = cluster.address(survivor)?;
        let topics = [&dying, &living];
        Ok([
            Worker::new(bootstrap, Config::new(groups[0].clone(), classic), topics)?,
            Worker::new(bootstrap, Config::new(groups[1].clone(), consumer), topics)?,
        ])
    };
    let mut first = workers()?;
    cluster.produce(&dying, victim, 20)?;
    cluster.produce(&living, survivor, 20)?;
    until("the first records are committed", &mut first, |worker| worker.is_at(20))?;
    coordinated_by(victim, &mut first)?;

    // Some records are processed and their commit is on its way, some have not come yet.
    cluster.produce(&living, survivor, 20)?;
    first.iter_mut().try_for_each(Worker::turn)?;
    cluster.kill(victim)?;
    cluster.produce(&living, survivor, 20)?;
    until("records of the living leader are processed", &mut first, |worker| {
        worker.processed.iter().filter(|(partition, _)| partition.topic == living.name).count() == 2 * 60
    })?;
    cluster.await_leader(&dying, 0, survivor)?;
    cluster.await_leader(&dying, 1, survivor)?;
    cluster.produce(&dying, survivor, 40)?;
    until("everything is committed at the new coordinator", &mut first, |worker| worker.is_at(60))?;
    coordinated_by(survivor, &mut first)?;
    for worker in &mut first {
        ensure!(worker.processed.len() == 4 * 60, "{} records are processed", worker.processed.len());
        worker.consumer.close(PATIENCE)?;
    }

    // The new coordinator says the same to whoever comes next.
    let mut next = workers()?;
    until("the next members have everything", &mut next, |worker| worker.is_at(60))?;
    for worker in &mut next {
        ensure!(worker.processed.is_empty(), "processed again: {:?}", worker.processed);
        worker.consumer.close(PATIENCE)?;
    }
    Ok(())
}

fn coordinated_by(node: i32, workers: &mut [Worker]) -> Result<()> {
    for worker in workers {
        let found = worker.consumer.member().coordinator().map(|node| node.node_id);
        ensure!(found == Some(node), "the coordinator is {found:?}, expected {node}");
    }
    Ok(())
}

/// Lets each worker poll until it is so for all.
fn until(what: &str, workers: &mut [Worker], is_so: impl Fn(&Worker) -> bool) -> Result<()> {
    let start = Instant::now();
    while !workers.iter().all(&is_so) {
        let committed = workers.iter().map(|worker| &worker.committed);
        ensure!(
            start.elapsed() < PATIENCE,
            "waited {PATIENCE:?} until {what}: {:?}",
            committed.collect::<Vec<_>>()
        );
        workers.iter_mut().try_for_each(Worker::turn)?;
    }
    Ok(())
}

/// A consumer that processes and commits what each poll gives.
struct Worker {
    consumer: GroupConsumer,
    processed: BTreeSet<(TopicPartition, i64)>,
    /// The next offset of partitions, in commits that are under way.
    committing: BTreeMap<(CommitId, TopicPartition), i64>,
    /// The same, as the coordinator has confirmed it.
    committed: BTreeMap<TopicPartition, i64>,
}

impl Worker {
    fn new(bootstrap: &str, config: Config, topics: [&Topic; 2]) -> Result<Self> {
        let mut consumer = GroupConsumer::new(bootstrap, config)?;
        consumer.subscribe(topics.map(|topic| topic.name.clone()))?;
        Ok(Self {
            consumer,
            processed: BTreeSet::new(),
            committing: BTreeMap::new(),
            committed: BTreeMap::new(),
        })
    }

    /// Whether this offset is committed in all partitions.
    fn is_at(&self, offset: i64) -> bool {
        self.committed.len() == 4 && self.committed.values().all(|committed| *committed == offset)
    }

    fn turn(&mut self) -> Result<()> {
        let polled = self.consumer.poll(Duration::from_millis(50), 100)?;
        self.observe(&polled.events)?;
        for assigned in polled.changes.assigned {
            let found = assigned.committed.map_or(0, |committed| committed.offset);
            let known = self.committed.entry(assigned.partition).or_default();
            ensure!(found >= *known, "committed was {known}, and now is {found}");
            *known = found;
        }
        let mut next = BTreeMap::new();
        for ConsumerRecord { partition, record } in polled.records {
            let (offset, committed) = (record.offset(), self.committed.get(&partition));
            ensure!(
                committed.is_some_and(|of| offset >= *of),
                "{offset} comes again, committed is {committed:?}"
            );
            self.processed.insert((partition.clone(), offset));
            next.insert(partition, offset + 1);
        }
        if !next.is_empty() {
            let offsets = next.iter().map(|(partition, offset)| (partition.clone(), (*offset).into()));
            let id = self.consumer.commit(offsets)?;
            self.committing.extend(next.into_iter().map(|(partition, offset)| ((id, partition), offset)));
        }
        Ok(())
    }

    fn observe(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            match event {
                Event::Committed(commit) => {
                    for (partition, result) in &commit.partitions {
                        let offset = self.committing.remove(&(commit.id, partition.clone()));
                        if result.is_ok() {
                            let committed = self.committed.entry(partition.clone()).or_default();
                            *committed = offset.context("a commit that was not begun")?.max(*committed);
                        }
                    }
                }
                Event::Failed(refusal) => bail!("{refusal}"),
                _ => {}
            }
        }
        Ok(())
    }
}
