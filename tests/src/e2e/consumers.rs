//! Our share consumer on a real cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use driver::ShareGroupConsumer;
use kafka_protocol::protocol::{AcknowledgeType, ApiKey, ErrorCode};
use kafka_protocol::share::consumer::{
    AcknowledgementMode, Event, PartitionRecords, ShareConsumerConfig, ShareConsumerError,
};
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::leaders::elect;
use super::member::Acquired;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "consumer: renews at half of the lock, gets the record again with the same delivery count",
        renews,
    ),
    Scenario::new(
        "consumer: the lock timeout of a renewal counts from the poll that gives the record again",
        lock_raised,
    ),
    Scenario::new("consumer: accept, release and reject, by poll and by commit", acknowledges),
    Scenario::new("consumer: implicit acknowledgement by commit", implicit),
    Scenario::new("consumer: implicit acknowledgement by the next poll, and of no more", implicit_by_poll),
    Scenario::new(
        "consumer: renewals that the group has switched off fail, and the record is delivered again",
        switched_off,
    ),
    Scenario::new("consumer: gives records that come later in a wait than a lock lasts", waits),
    Scenario::new("consumer: what is not acknowledged at the end comes free", closes),
    Scenario::new("two consumers, one dies: the other gets its records", one_dies),
    Scenario { brokers: 2, ..Scenario::new("consumer: follows a leader that changes", follows) },
    Scenario {
        brokers: 2,
        ..Scenario::new("consumer: is told of the new leader by the old one, without metadata", is_told)
    },
];

/// A lock that outlives its scenario.
const LONG: Duration = Duration::from_secs(60);

const PATIENCE: Duration = Duration::from_secs(20);

/// A consumer of a group in explicit mode, subscribed.
fn consumer(group: &Group<'_>) -> Result<ShareGroupConsumer> {
    configured(group, |_| {})
}

pub(super) fn configured(
    group: &Group<'_>,
    configure: impl FnOnce(&mut ShareConsumerConfig),
) -> Result<ShareGroupConsumer> {
    let (host, port) = group.cluster.address(group.leader)?.rsplit_once(':').context("no port")?;
    let bootstrap = vec![(host.into(), port.parse()?)];
    let mut config = ShareConsumerConfig::new(group.name.clone(), group.cluster.unique("c"), bootstrap);
    config.acknowledgement_mode = AcknowledgementMode::Explicit;
    configure(&mut config);
    let mut consumer = ShareGroupConsumer::new(config);
    consumer.subscribe([group.topic.name.clone()])?;
    Ok(consumer)
}

/// What a poll has given, by partition, offset and delivery count.
#[derive(Debug, Default)]
pub(super) struct Delivered(pub(super) BTreeMap<(TopicIdPartition, i64), i16>);

impl Delivered {
    fn add(&mut self, records: &[PartitionRecords]) {
        for batch in records {
            let rows =
                batch.records.iter().map(|it| ((batch.partition, it.record.offset()), it.delivery_count));
            self.0.extend(rows);
        }
    }

    pub(super) fn acknowledge(&self, consumer: &mut ShareGroupConsumer, ty: AcknowledgeType) -> Result<()> {
        self.0.keys().try_for_each(|(partition, offset)| consumer.acknowledge(*partition, *offset, ty))
    }
}

/// As in `0-4#1 5-9#2`, of the only partition.
impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offsets = self.0.iter().map(|((_, offset), count)| (*offset, *count));
        offsets.collect::<Acquired>().fmt(f)
    }
}

/// Polls until something comes.
pub(super) fn some_records(consumer: &mut ShareGroupConsumer) -> Result<Delivered> {
    let start = Instant::now();
    let mut delivered = Delivered::default();
    while delivered.0.is_empty() {
        ensure!(start.elapsed() < PATIENCE, "no records come; {:?}", consumer.events());
        delivered.add(&consumer.poll(Duration::from_millis(500))?);
    }
    Ok(delivered)
}

/// Polls until so many records have come, and acknowledges them all alike.
pub(super) fn drain(
    consumer: &mut ShareGroupConsumer,
    records: usize,
    ty: AcknowledgeType,
) -> Result<Delivered> {
    let mut all = Delivered::default();
    while all.0.len() < records {
        let delivered = some_records(consumer)?;
        delivered.acknowledge(consumer, ty)?;
        all.0.extend(delivered.0);
    }
    consumer.commit()?;
    Ok(all)
}

/// That all acknowledgements since the last time have this outcome, and that there were some.
pub(super) fn expect(consumer: &mut ShareGroupConsumer, expected: ErrorCode) -> Result<()> {
    let events = consumer.events();
    let results = events.iter().filter_map(|event| match event {
        Event::Acknowledged { result, .. } => Some(result.error),
        _ => None,
    });
    let codes: BTreeSet<_> = results.collect();
    ensure!(codes.iter().eq([&expected]), "acknowledged with {codes:?}, expected {expected}: {events:?}");
    Ok(())
}

fn renews(cluster: &Cluster) -> Result<()> {
    let lock = Duration::from_secs(3);
    let group = Group::new(cluster, "consumers", 1, lock)?;
    let mut consumer = consumer(&group)?;
    let first = some_records(&mut consumer)?;
    ensure!(first.to_string() == "0-9#1", "delivered {first}");
    let mut other = group.member()?;
    other.open()?;
    // Longer than a lock lasts.
    for _ in 0..3 {
        let half = consumer.consumer().acquisition_lock_timeout().context("no lock timeout")? / 2;
        ensure!(half == lock / 2, "half of the lock timeout is {half:?}");
        consumer.wait(half)?;
        first.acknowledge(&mut consumer, AcknowledgeType::RENEW)?;
        let again = some_records(&mut consumer)?;
        ensure!(again.0 == first.0, "delivered {first}, after the renewal {again}");
    }
    first.acknowledge(&mut consumer, AcknowledgeType::ACCEPT)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    let free = other.acquire_rest()?;
    ensure!(free.is_empty(), "free after all: {free:?}");
    consumer.close()
}

fn lock_raised(cluster: &Cluster) -> Result<()> {
    let (short, long) = (Duration::from_secs(20), Duration::from_secs(30));
    let group = Group::new(cluster, "consumers", 1, short)?;
    let mut consumer = consumer(&group)?;
    ensure!(consumer.consumer().acquisition_lock_timeout().is_none(), "a lock timeout before any records");
    let first = some_records(&mut consumer)?;
    ensure!(
        consumer.consumer().acquisition_lock_timeout() == Some(short),
        "not the lock timeout of the fetch"
    );
    group.lock_lasts(long)?;
    group.await_lock(long)?;
    first.acknowledge(&mut consumer, AcknowledgeType::RENEW)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    ensure!(
        consumer.consumer().acquisition_lock_timeout() == Some(short),
        "the new lock timeout comes too early"
    );
    let again = some_records(&mut consumer)?;
    ensure!(again.0 == first.0, "delivered {first}, after the renewal {again}");
    ensure!(
        consumer.consumer().acquisition_lock_timeout() == Some(long),
        "not the lock timeout of the renewal"
    );
    again.acknowledge(&mut consumer, AcknowledgeType::ACCEPT)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)
}

fn acknowledges(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 1, LONG)?;
    let mut consumer = consumer(&group)?;
    let first = some_records(&mut consumer)?;
    for (partition, offset) in first.0.keys() {
        let ty = match offset {
            0..4 => AcknowledgeType::ACCEPT,
            4..7 => AcknowledgeType::RELEASE,
            _ => AcknowledgeType::REJECT,
        };
        consumer.acknowledge(*partition, *offset, ty)?;
    }
    let again = some_records(&mut consumer)?;
    ensure!(again.to_string() == "4-6#2", "delivered after the release: {again}");
    let refused = consumer.poll(Duration::ZERO).err().and_then(|error| error.downcast().ok());
    ensure!(
        refused == Some(ShareConsumerError::Unacknowledged { records: 3 }),
        "a poll before all is done: {refused:?}"
    );
    again.acknowledge(&mut consumer, AcknowledgeType::ACCEPT)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    let free = group.member()?.acquire_rest()?;
    ensure!(free.is_empty(), "free after all: {free:?}");
    consumer.close()
}

fn implicit(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 2, LONG)?;
    let mut consumer =
        configured(&group, |config| config.acknowledgement_mode = AcknowledgementMode::Implicit)?;
    let mut all = Delivered::default();
    while all.0.len() < 20 {
        all.0.extend(some_records(&mut consumer)?.0);
    }
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    let free = group.member()?.acquire_rest()?;
    ensure!(free.is_empty(), "free after all: {free:?}");
    consumer.close()
}

/// What the last poll before its death gave is not acknowledged.
fn implicit_by_poll(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 1, LONG)?;
    let mut consumer = configured(&group, |config| {
        config.acknowledgement_mode = AcknowledgementMode::Implicit;
        config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
        config.fetch.max_records = 4;
    })?;
    let (mut last, mut all) = (some_records(&mut consumer)?, BTreeSet::new());
    loop {
        all.extend(last.0.keys().copied());
        if all.len() >= 10 {
            break;
        }
        last = some_records(&mut consumer)?;
    }
    // Until what is under way has been answered.
    consumer.wait(Duration::from_secs(1))?;
    expect(&mut consumer, ErrorCode::NONE)?;
    ensure!(last.0.len() < all.len(), "one poll has given everything");
    drop(consumer);
    let again = last.0.keys().map(|(_, offset)| (*offset, 2)).collect::<Acquired>().to_string();
    let mut other = group.member()?;
    other.acquire_exactly(&again)?;
    let free = other.acquire_rest()?;
    ensure!(free.is_empty(), "free beside {again}: {free:?}");
    Ok(())
}

fn switched_off(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 1, Duration::from_secs(2))?;
    group.configure("share.renew.acknowledge.enable", "false")?;
    let mut consumer = consumer(&group)?;
    let start = Instant::now();
    // The configuration comes to the broker by and by.
    loop {
        let delivered = some_records(&mut consumer)?;
        delivered.acknowledge(&mut consumer, AcknowledgeType::RENEW)?;
        consumer.commit()?;
        if expect(&mut consumer, ErrorCode::INVALID_RECORD_STATE).is_ok() {
            break;
        }
        ensure!(start.elapsed() < PATIENCE, "renewals go on");
    }
    // What is not renewed is not the consumer's any more; it comes again when the lock has expired.
    let again = some_records(&mut consumer)?;
    ensure!(again.0.values().all(|count| *count > 1), "delivered again: {again}");
    again.acknowledge(&mut consumer, AcknowledgeType::ACCEPT)?;
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    consumer.close()
}

/// A wait longer than the lock must not make records look as if their locks had run out.
fn waits(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "late", 1, Duration::from_secs(1))?;
    let mut consumer = configured(&group, |config| config.fetch.max_wait_ms = 20_000)?;
    drain(&mut consumer, 10, AcknowledgeType::ACCEPT)?;
    for offset in 10..13 {
        let early = consumer.poll(Duration::from_millis(1500))?;
        ensure!(early.is_empty(), "records out of nowhere: {early:?}");
        cluster.produce(&group.topic, group.leader, 1)?;
        let delivered = drain(&mut consumer, 1, AcknowledgeType::ACCEPT)?.to_string();
        ensure!(delivered == format!("{offset}-{offset}#1"), "delivered is {delivered}");
    }
    Ok(())
}

fn closes(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 1, LONG)?;
    let mut consumer = consumer(&group)?;
    for (partition, offset) in some_records(&mut consumer)?.0.keys().filter(|(_, offset)| *offset < 5) {
        consumer.acknowledge(*partition, *offset, AcknowledgeType::ACCEPT)?;
    }
    consumer.close()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    group.member()?.acquire_exactly("5-9#2")
}

fn one_dies(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "consumers", 1, LONG)?;
    let five = |config: &mut ShareConsumerConfig| {
        config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
        config.fetch.max_records = 5;
    };
    let (mut first, mut second) = (configured(&group, five)?, configured(&group, five)?);
    let held = some_records(&mut first)?;
    ensure!(held.to_string() == "0-4#1", "the first has {held}");
    let done = drain(&mut second, 5, AcknowledgeType::ACCEPT)?;
    ensure!(done.to_string() == "5-9#1", "the second has {done}");
    drop(first);
    let inherited = drain(&mut second, 5, AcknowledgeType::ACCEPT)?;
    ensure!(inherited.to_string() == "0-4#2", "the second gets {inherited}");
    expect(&mut second, ErrorCode::NONE)?;
    second.close()
}

fn follows(cluster: &Cluster) -> Result<()> {
    let &[old, new, ..] = &cluster.nodes()[..] else { unreachable!("the scenario needs two brokers") };
    let topic = cluster.create_topic("consumers", 1, &[old, new])?;
    cluster.produce(&topic, old, 10)?;
    let group = Group::of(cluster, topic, old, LONG)?;
    let mut consumer = consumer(&group)?;
    let first = some_records(&mut consumer)?;
    ensure!(first.to_string() == "0-9#1", "delivered {first}");
    elect(cluster, &group.topic, &[new, old])?;
    cluster.produce(&group.topic, new, 10)?;

    // The locks went with the old leader: acknowledging fails, and the records come again from the new one.
    first.acknowledge(&mut consumer, AcknowledgeType::ACCEPT)?;
    consumer.commit()?;
    let failed = expect(&mut consumer, ErrorCode::NONE).is_err();
    ensure!(failed, "acknowledged at a leader that has gone");
    let again = drain(&mut consumer, 20, AcknowledgeType::ACCEPT)?;
    expect(&mut consumer, ErrorCode::NONE)?;
    ensure!(again.to_string() == "0-19#1", "delivered by the new leader: {again}");
    consumer.close()
}

/// Nothing is to be acknowledged when the leader changes, so that only fetching can tell. An old leader may not have heard
/// of the new one, and then metadata has to: such a change does not count.
fn is_told(cluster: &Cluster) -> Result<()> {
    /// Changes until each of the leaders has told of the other.
    const CHANGES: usize = 10;
    let &[old, new, ..] = &cluster.nodes()[..] else { unreachable!("the scenario needs two brokers") };
    let topic = cluster.create_topic("consumers", 1, &[old, new])?;
    cluster.produce(&topic, old, 10)?;
    let group = Group::of(cluster, topic, old, LONG)?;
    let mut consumer = consumer(&group)?;
    drain(&mut consumer, 10, AcknowledgeType::ACCEPT)?;
    expect(&mut consumer, ErrorCode::NONE)?;

    let mut leaders = [old, new];
    let mut told = BTreeSet::new();
    for change in 1..=CHANGES {
        leaders.reverse();
        elect(cluster, &group.topic, &leaders)?;
        cluster.produce(&group.topic, leaders[0], 10)?;
        let before = consumer.sent(ApiKey::METADATA);
        let delivered = drain(&mut consumer, 10, AcknowledgeType::ACCEPT)?;
        expect(&mut consumer, ErrorCode::NONE)?;
        let expected = format!("{}-{}#1", 10 * change, 10 * change + 9);
        ensure!(delivered.to_string() == expected, "delivered by the new leader: {delivered}");
        if consumer.sent(ApiKey::METADATA) == before {
            told.insert(leaders[1]);
        }
        if told.len() == 2 {
            return consumer.close();
        }
    }
    bail!("in {CHANGES} changes, only {told:?} have told of the new leader: metadata was asked for")
}
