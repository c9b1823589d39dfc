//! Acquisition locks: who gets records that come free, and when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use driver::admin::eventually;
use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::member::{ACCEPT, Acquired, Carrier, Member, RELEASE};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("lock expires: the records come back with delivery count 2", expires),
    Scenario::new("release again and again: the delivery limit archives", delivery_limit),
    Scenario::new("two members: each record goes to one of them", two_members),
    Scenario::new("two members, one loses its connection: the other gets its records", one_disconnects),
    Scenario::new(
        "two members, one falls silent: the other gets its records and partitions",
        one_falls_silent,
    ),
];

/// A lock that outlives its scenario.
const LONG: Duration = Duration::from_secs(60);

/// How much later than its time something may come: a broker is within 5 ms, but the machine may be busy. Less than a
/// lock lasts for which the broker has been told nothing.
const LATE: Duration = Duration::from_secs(3);

/// That something came at its time. `due` is counted from before the request, so that it cannot come earlier.
pub(super) fn within(what: &str, came: Instant, due: Instant) -> Result<()> {
    between(what, came, due, due + LATE)
}

/// That something came at its time, and before something else could.
pub(super) fn between(what: &str, came: Instant, due: Instant, end: Instant) -> Result<()> {
    ensure!(came >= due, "{what} is free {:?} too early", due - came);
    ensure!(came < end, "{what} is free {:?} too late", came - due);
    Ok(())
}

/// When offsets of a partition could be acquired.
#[derive(Debug, Default)]
pub(super) struct Watch {
    came: BTreeMap<i64, Instant>,
    all: Acquired,
}

impl Watch {
    /// Fetches until partition 0 has given exactly what is expected.
    pub(super) fn until(member: &mut Member, expected: &str) -> Result<Self> {
        let watch = Self::until_all(member, 10)?.remove(&0).unwrap_or_default();
        ensure!(watch.all.to_string() == expected, "acquired `{}`, expected `{expected}`", watch.all);
        Ok(watch)
    }

    /// Fetches until each partition has given so many records.
    pub(super) fn until_all(member: &mut Member, records: usize) -> Result<BTreeMap<i32, Self>> {
        let (mut all, start) = (BTreeMap::<i32, Self>::new(), Instant::now());
        loop {
            let rows = member.fetch()?.rows;
            let now = Instant::now();
            for (of, row) in rows {
                all.entry(of.partition).or_default().add(row.acquired, now);
            }
            if all.len() == member.partitions() && all.values().all(|watch| watch.came.len() >= records) {
                return Ok(all);
            }
            ensure!(
                start.elapsed() < Duration::from_secs(20),
                "of {records} records, only {all:?} came free"
            );
        }
    }

    fn add(&mut self, acquired: Acquired, now: Instant) {
        self.came.extend(acquired.offsets().map(|offset| (offset, now)));
        self.all.extend(acquired);
    }

    /// When an offset could be acquired.
    pub(super) fn came(&self, offset: i64) -> Result<Instant> {
        self.came.get(&offset).copied().with_context(|| format!("offset {offset} did not come free"))
    }
}

fn expires(cluster: &Cluster) -> Result<()> {
    let lock = Duration::from_secs(1);
    let group = Group::new(cluster, "locks", 1, lock)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    other.open()?;
    let acquired = Instant::now();
    owner.acquire_exactly("0-9#1")?;
    let watch = Watch::until(&mut other, "0-9#2")?;
    (0..10).try_for_each(|offset| within("an offset", watch.came(offset)?, acquired + lock))
}

fn delivery_limit(cluster: &Cluster) -> Result<()> {
    /// Of the broker, unless it is told otherwise.
    const LIMIT: i16 = 5;
    let group = Group::new(cluster, "locks", 1, LONG)?;
    let mut member = group.member()?;
    for count in 1..=LIMIT {
        member.acquire_exactly(&format!("0-9#{count}"))?;
        member.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[RELEASE])])?.expect(ErrorCode::NONE)?;
    }
    let free = member.acquire_rest()?;
    ensure!(free.is_empty(), "free after {LIMIT} deliveries: {free:?}");
    Ok(())
}

/// By turns, at most three records at a time.
fn two_members(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "locks", 1, LONG)?;
    let mut members = [group.member()?, group.member()?];
    let mut all = [Vec::new(), Vec::new()];
    let start = Instant::now();
    for turn in (0..members.len()).cycle() {
        let member = &mut members[turn];
        let request = ShareFetchRequest { max_records: 3, share_acquire_mode: 1, ..member.fetch_request() };
        let acquired = member.send_fetch(&request)?.acquired();
        ensure!(acquired.offsets().count() <= 3, "more than three: {acquired}");
        for offset in acquired.offsets() {
            member
                .acknowledge(Carrier::Acknowledge, 0, &[(offset, offset, &[ACCEPT])])?
                .expect(ErrorCode::NONE)?;
            all[turn].push(offset);
        }
        if all.iter().map(Vec::len).sum::<usize>() >= 10 {
            break;
        }
        ensure!(start.elapsed() < Duration::from_secs(20), "only {all:?}");
    }
    ensure!(all.iter().all(|accepted| accepted.len() > 1), "only one member gets records: {all:?}");
    let mut all = all.concat();
    all.sort_unstable();
    ensure!(all == (0..10).collect::<Vec<_>>(), "accepted {all:?}");
    let free = members[0].acquire_rest()?;
    ensure!(free.is_empty(), "free after all were accepted: {free:?}");
    Ok(())
}

fn one_disconnects(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "locks", 1, LONG)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    other.open()?;
    owner.acquire_exactly("0-9#1")?;
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 4, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    drop(owner);
    other.acquire_exactly("5-9#2")
}

fn one_falls_silent(cluster: &Cluster) -> Result<()> {
    let lock = Duration::from_secs(2);
    let group = Group::new(cluster, "locks", 2, lock)?;
    group.configure("share.session.timeout.ms", "2000")?;
    // Unlike that of other groups: it tells that the coordinator knows of both.
    group.configure("share.heartbeat.interval.ms", "300")?;
    let (mut silent, mut other) = (group.member()?, group.member()?);
    eventually("a partition for each member", || {
        silent.heartbeat()?;
        other.heartbeat()?;
        let knows = silent.membership.interval_ms == 300;
        Ok((knows && silent.assigned() == 1 && other.assigned() == 1).then_some(()))
    })?;
    let acquired = Instant::now();
    silent.acquire(10)?;
    eventually("all partitions for the member that is left", || {
        other.heartbeat()?;
        Ok((other.assigned() == 2).then_some(()))
    })?;
    let error = silent.membership.try_heartbeat()?.error_code;
    ensure!(error == ErrorCode::UNKNOWN_MEMBER_ID, "the silent member is answered {error}");
    // Its records are another matter: only the lock counts, as long as the connection is open.
    let watches = Watch::until_all(&mut other, 10)?;
    for (partition, watch) in &watches {
        ensure!(watch.came(0)? >= acquired + lock, "partition {partition} is free too early");
        ensure!(watch.all.to_string() == "0-9#2", "partition {partition}: `{}`", watch.all);
    }
    Ok(())
}
