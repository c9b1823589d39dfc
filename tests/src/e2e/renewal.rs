//! Renewed acquisition locks (KIP-1222): what they do, and when they are refused.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use driver::admin::eventually;
use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::locks::{Watch, within};
use super::member::{ACCEPT, Acquired, Carrier, RELEASE, RENEW};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("renew by ShareAcknowledge: the lock starts anew, the delivery count stays", |cluster| {
        renewed_stays_locked(cluster, Carrier::Acknowledge)
    }),
    Scenario::new("renew by ShareFetch: the lock starts anew, the delivery count stays", |cluster| {
        renewed_stays_locked(cluster, Carrier::Fetch)
    }),
    Scenario::new("renew again and again: there is no limit, and the record can be accepted", renew_often),
    Scenario::new(
        "renew after the lock duration was raised: the response and the lock have the new one",
        lock_raised,
    ),
    Scenario::new("renew refused: ShareFetch with sizes", sizes),
    Scenario::new("renew refused: switched off for the group", switched_off),
    Scenario::new("renew refused: after the lock has expired", after_expiry),
    Scenario::new("renew refused: records of another member", not_the_owner),
    Scenario::new(
        "renew in a partition that fails: kept before the failing batch, not after it",
        failing_partition,
    ),
];

const LOCK: Duration = Duration::from_millis(2000);

/// Half of the lock, at which consumers renew.
const HALF: Duration = Duration::from_millis(1000);

fn renewed_stays_locked(cluster: &Cluster, carrier: Carrier) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    let acquired = Instant::now();
    owner.acquire_exactly("0-9#1")?;
    other.open()?;
    sleep(HALF);
    let renewed = Instant::now();
    let answer = owner.acknowledge(carrier, 0, &[(0, 4, &[RENEW])])?;
    answer.expect(ErrorCode::NONE)?;
    ensure!(answer.lock_timeout_ms == LOCK.as_millis() as i32, "lock timeout {} ms", answer.lock_timeout_ms);

    let watch = Watch::until(&mut other, "0-9#2")?;
    within("an offset that was not renewed", watch.came(5)?, acquired + LOCK)?;
    within("a renewed offset", watch.came(0)?, renewed + LOCK)
}

fn renew_often(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    for carrier in [Carrier::Acknowledge, Carrier::Fetch].into_iter().cycle().take(6) {
        // The other member waits half a second for records that come free.
        let free = other.fetch()?.rows.remove(&0).unwrap_or_default().acquired;
        ensure!(free == Acquired::default(), "free although renewed: {free}");
        sleep(HALF / 2);
        owner.acknowledge(carrier, 0, &[(0, 9, &[RENEW])])?.expect(ErrorCode::NONE)?;
    }
    owner
        .acknowledge(Carrier::Acknowledge, 0, &[(0, 4, &[ACCEPT]), (5, 9, &[RELEASE])])?
        .expect(ErrorCode::NONE)?;
    other.acquire_exactly("5-9#2")
}

fn lock_raised(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    other.open()?;
    let long = 2 * LOCK;
    group.lock_lasts(long)?;
    // Every response tells the duration in force, which comes to a broker by and by.
    let mut renew = || {
        let now = Instant::now();
        let answer = owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[RENEW])])?;
        answer.expect(ErrorCode::NONE)?;
        Ok((answer.lock_timeout_ms == long.as_millis() as i32).then_some(now))
    };
    eventually("the new duration", &mut renew)?;
    // Between that renewal and its response the duration may have changed.
    let renewed = renew()?.context("the new duration is gone")?;
    let watch = Watch::until(&mut other, "0-9#2")?;
    within("a renewed offset", watch.came(0)?, renewed + long)
}

fn sizes(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    let batches: [(i32, &[_]); 1] = [(0, &[(0, 9, &[RENEW][..])])];
    let sizes: [fn(ShareFetchRequest) -> ShareFetchRequest; 5] = [
        |request| ShareFetchRequest { max_wait_ms: 1, ..request },
        |request| ShareFetchRequest { min_bytes: 1, ..request },
        |request| ShareFetchRequest { max_bytes: 1, ..request },
        |request| ShareFetchRequest { max_records: 1, ..request },
        |request| ShareFetchRequest { max_records: -1, ..request },
    ];
    for (index, with_size) in sizes.into_iter().enumerate() {
        let request = ShareFetchRequest { is_renew_ack: true, ..owner.fetch_to_acknowledge(&batches) };
        let answer = owner.send_fetch(&with_size(request))?;
        let (error, lock) = (answer.error, answer.lock_timeout_ms);
        ensure!(error == ErrorCode::INVALID_REQUEST && lock == 0, "size {index}: {error}, lock {lock} ms");
    }
    // The epoch has not advanced. The other two sizes are not looked at.
    let request = ShareFetchRequest {
        is_renew_ack: true,
        batch_size: 500,
        share_acquire_mode: 1,
        ..owner.fetch_to_acknowledge(&batches)
    };
    owner.send_fetch(&request)?.expect(ErrorCode::NONE)
}

fn switched_off(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    group.configure("share.renew.acknowledge.enable", "false")?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    // The group's configuration comes to the broker by and by; renewing changes nothing that matters here.
    let batches: &[_] = &[(0, 4, &[RENEW][..]), (5, 9, &[RENEW])];
    eventually("a refusal", || {
        let outcome = owner.acknowledge(Carrier::Acknowledge, 0, batches)?.outcome();
        Ok((outcome == ErrorCode::INVALID_RECORD_STATE).then_some(()))
    })?;
    for carrier in [Carrier::Acknowledge, Carrier::Fetch] {
        let answer = owner.acknowledge(carrier, 0, &[(0, 4, &[RENEW]), (5, 9, &[ACCEPT])])?;
        answer.expect(ErrorCode::INVALID_RECORD_STATE)?;
    }
    // Nothing of the refused partition was applied: all can still be accepted.
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn after_expiry(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, Duration::from_secs(1))?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    sleep(Duration::from_millis(1500));
    for (carrier, ty) in
        [(Carrier::Acknowledge, RENEW), (Carrier::Fetch, RENEW), (Carrier::Acknowledge, ACCEPT)]
    {
        owner.acknowledge(carrier, 0, &[(0, 9, &[ty])])?.expect(ErrorCode::INVALID_RECORD_STATE)?;
    }
    Ok(())
}

fn not_the_owner(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    other.open()?;
    for (carrier, ty) in
        [(Carrier::Acknowledge, RENEW), (Carrier::Fetch, RENEW), (Carrier::Acknowledge, ACCEPT)]
    {
        other.acknowledge(carrier, 0, &[(0, 9, &[ty])])?.expect(ErrorCode::INVALID_RECORD_STATE)?;
    }
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

/// Partition 0: the failing batch is behind the renewal. 1: before it. 2: the failure is one of shape.
fn failing_partition(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 3, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    let acquired = Instant::now();
    owner.acquire(10)?;
    other.open()?;
    // What fails as a state: the offset is done already, and above the start.
    for partition in 0..3 {
        owner.acknowledge(Carrier::Acknowledge, partition, &[(4, 4, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    }
    sleep(HALF);
    let renewed = Instant::now();
    let state = ErrorCode::INVALID_RECORD_STATE;
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 3, &[RENEW]), (4, 4, &[ACCEPT])])?.expect(state)?;
    owner.acknowledge(Carrier::Acknowledge, 1, &[(4, 4, &[ACCEPT]), (5, 9, &[RENEW])])?.expect(state)?;
    let shape = owner.acknowledge(Carrier::Acknowledge, 2, &[(0, 3, &[RENEW]), (5, 9, &[5])])?;
    shape.expect(ErrorCode::INVALID_REQUEST)?;

    let watches = Watch::until_all(&mut other, 9)?;
    let came = |partition: i32, offset| watches.get(&partition).context("no such partition")?.came(offset);
    within("an offset renewed before the failing batch", came(0, 0)?, renewed + LOCK)?;
    within("an offset renewed behind the failing batch", came(1, 5)?, acquired + LOCK)?;
    within("an offset renewed beside a wrong shape", came(2, 0)?, acquired + LOCK)
}
