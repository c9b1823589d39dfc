//! Renewed acquisition locks (KIP-1222): what they do, and when they are refused.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use driver::admin::eventually;
use kafka_protocol::connection::ConnectionError;
use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::protocol::frame::FrameError;
use kafka_protocol::share::locks::{AcknowledgeReason, LockConfig};

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::locks::{Watch, between, within};
use super::member::{ACCEPT, Acquired, Batch, Carrier, Member, RELEASE, RENEW, renews};
use super::prediction::Locks;
use crate::walks::broker_words;

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
    Scenario::new("renew refused: in version 1", version_1),
    Scenario::new("renew refused: without the flag", without_flag),
    Scenario::new("renew refused: ShareFetch with sizes", sizes),
    Scenario::new("renew refused: switched off for the group", switched_off),
    Scenario::new("renew refused: after the lock has expired", after_expiry),
    Scenario::new("renew refused: records of another member", not_the_owner),
    Scenario::new(
        "renew in a partition that fails: kept before the failing batch, not after it",
        failing_partition,
    ),
];

const LOCK: Duration = Duration::from_secs(4);

/// When a lock is renewed. It lasts that much longer, and what is renewed comes free that much later than what is not: a
/// busy machine may be late, but not so late that it misses the one or mistakes the other.
const LATER: Duration = Duration::from_secs(2);

const ALL: &[Batch<'_>] = &[(0, 9, &[RENEW])];

const BOTH: [Carrier; 2] = [Carrier::Acknowledge, Carrier::Fetch];

fn renewed_stays_locked(cluster: &Cluster, carrier: Carrier) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    let acquired = Instant::now();
    owner.acquire_exactly("0-9#1")?;
    other.open()?;
    sleep(LATER);
    let renewed = Instant::now();
    let answer = owner.acknowledge(carrier, 0, &[(0, 4, &[RENEW])])?;
    answer.expect(ErrorCode::NONE)?;
    ensure!(answer.lock_timeout_ms == LOCK.as_millis() as i32, "lock timeout {} ms", answer.lock_timeout_ms);

    let watch = Watch::until(&mut other, "0-9#2")?;
    for offset in 0..5 {
        within("a renewed offset", watch.came(offset)?, renewed + LOCK)?;
    }
    for offset in 5..10 {
        between("an offset that was not renewed", watch.came(offset)?, acquired + LOCK, renewed + LOCK)?;
    }
    Ok(())
}

fn renew_often(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    for carrier in BOTH.into_iter().cycle().take(6) {
        // The other member waits half a second for records that come free.
        let free = other.fetch()?.acquired();
        ensure!(free == Acquired::default(), "free although renewed: {free}");
        sleep(LOCK / 6);
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
    let long = LOCK + LATER;
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

fn version_1(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let mut owner = group.member()?;
    owner.version = Some(1);
    owner.acquire_exactly("0-9#1")?;
    for carrier in BOTH {
        let unsent = owner.acknowledge_flagged(carrier, 0, ALL, true).err();
        let path = match unsent.as_ref().and_then(|error| error.downcast_ref()) {
            Some(ConnectionError::Frame(FrameError::Encode(error))) => error.path(),
            _ => "",
        };
        ensure!(path == "is_renew_ack", "version 1 has no flag, but {carrier:?}: {unsent:?}");
        owner.acknowledge_flagged(carrier, 0, ALL, false)?.expect_refusal()?;
    }
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn without_flag(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    for carrier in BOTH {
        owner.acknowledge_flagged(carrier, 0, ALL, false)?.expect_refusal()?;
        let mixed: &[Batch<'_>] = &[(0, 4, &[ACCEPT]), (5, 9, &[RENEW])];
        owner.acknowledge_flagged(carrier, 0, mixed, false)?.expect_refusal()?;
    }
    // Nothing of the refused partition was applied: all can still be accepted.
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn sizes(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    let sizes: [fn(ShareFetchRequest) -> ShareFetchRequest; 5] = [
        |request| ShareFetchRequest { max_wait_ms: 1, ..request },
        |request| ShareFetchRequest { min_bytes: 1, ..request },
        |request| ShareFetchRequest { max_bytes: 1, ..request },
        |request| ShareFetchRequest { max_records: 1, ..request },
        |request| ShareFetchRequest { max_records: -1, ..request },
    ];
    for (index, with_size) in sizes.into_iter().enumerate() {
        let request = ShareFetchRequest { is_renew_ack: true, ..owner.fetch_to_acknowledge(&[(0, ALL)]) };
        let answer = owner.send_fetch(&with_size(request))?;
        answer.expect_refusal().with_context(|| format!("size {index}"))?;
        let whole = !answer.error.is_ok() && answer.rows.is_empty() && answer.lock_timeout_ms == 0;
        ensure!(whole, "size {index}: not refused as a whole: {answer:?}");
    }
    // The epoch has not advanced. The other two sizes are not looked at.
    let request = ShareFetchRequest {
        is_renew_ack: true,
        batch_size: 500,
        share_acquire_mode: 1,
        ..owner.fetch_to_acknowledge(&[(0, ALL)])
    };
    owner.send_fetch(&request)?.expect(ErrorCode::NONE)
}

fn switched_off(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    group.configure("share.renew.acknowledge.enable", "false")?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    let mut ours = Locks::new(LockConfig { renew_acknowledge_enable: false, ..LockConfig::default() });
    ours.acquire(&owner.id);
    // The group's configuration comes to the broker by and by; renewing changes nothing that matters here.
    let batches: &[Batch<'_>] = &[(0, 4, &[RENEW]), (5, 9, &[RENEW])];
    eventually("a refusal", || {
        let outcome = owner.acknowledge(Carrier::Acknowledge, 0, batches)?.outcome();
        Ok((!outcome.is_ok()).then_some(()))
    })?;
    let reason = AcknowledgeReason::RenewNotEnabled;
    for carrier in BOTH {
        refused(&mut ours, &mut owner, carrier, batches, reason)?;
        refused(&mut ours, &mut owner, carrier, &[(0, 4, &[RENEW]), (5, 9, &[ACCEPT])], reason)?;
    }
    // Nothing of the refused partition was applied: all can still be accepted.
    taken(&mut ours, &mut owner, &[(0, 9, &[ACCEPT])])
}

fn after_expiry(cluster: &Cluster) -> Result<()> {
    let lock_duration = Duration::from_secs(1);
    let group = Group::new(cluster, "renew", 1, lock_duration)?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    let mut ours = Locks::new(LockConfig { lock_duration, ..LockConfig::default() });
    ours.acquire(&owner.id);
    let wait = lock_duration + Duration::from_millis(500);
    sleep(wait);
    ours.pass(wait);
    let reason = AcknowledgeReason::BatchNotAcquired { first_offset: 0 };
    for carrier in BOTH {
        refused(&mut ours, &mut owner, carrier, ALL, reason)?;
        refused(&mut ours, &mut owner, carrier, &[(0, 9, &[ACCEPT])], reason)?;
    }
    let again = ours.acquire(&owner.id).to_string();
    owner.acquire_exactly(&again)
}

fn not_the_owner(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 1, 10 * LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    other.open()?;
    let mut ours = Locks::new(LockConfig::default());
    ours.acquire(&owner.id);
    let reason = AcknowledgeReason::NotOwnerOfBatch { first_offset: 0 };
    for carrier in BOTH {
        refused(&mut ours, &mut other, carrier, ALL, reason)?;
        refused(&mut ours, &mut other, carrier, &[(0, 9, &[ACCEPT])], reason)?;
    }
    taken(&mut ours, &mut owner, ALL)?;
    taken(&mut ours, &mut owner, &[(0, 9, &[ACCEPT])])
}

/// Partition 0: the failing batch is behind the renewal. 1: before it. 2: the failure is one of shape.
fn failing_partition(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "renew", 3, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    let acquired = Instant::now();
    owner.acquire(10)?;
    other.open()?;
    // What fails as a state: the offset is done already, and above the start.
    let done: &[Batch<'_>] = &[(4, 4, &[ACCEPT])];
    for partition in 0..3 {
        owner.acknowledge(Carrier::Acknowledge, partition, done)?.expect(ErrorCode::NONE)?;
    }
    sleep(LATER);
    let renewed = Instant::now();
    let failing: [&[Batch<'_>]; 3] = [
        &[(0, 3, &[RENEW]), (4, 4, &[ACCEPT])],
        &[(4, 4, &[ACCEPT]), (5, 9, &[RENEW])],
        &[(0, 3, &[RENEW]), (5, 9, &[5])],
    ];
    for (partition, batches) in (0..).zip(failing) {
        let mut ours = Locks::new(LockConfig { lock_duration: LOCK, ..LockConfig::default() });
        ours.acquire(&owner.id);
        ours.acknowledge(&owner.id, VERSION, false, done);
        ours.pass(LATER);
        let predicted = ours.acknowledge(&owner.id, VERSION, true, batches);
        ensure!(!predicted.code.is_ok(), "our lock machine takes {batches:?}");
        owner.acknowledge(Carrier::Acknowledge, partition, batches)?.expect(predicted.code)?;
    }

    let watches = Watch::until_all(&mut other, 9)?;
    for (partition, watch) in watches {
        for offset in (0..10).filter(|offset| *offset != 4) {
            let came = watch.came(offset)?;
            let what = format!("offset {offset} of partition {partition}");
            match (partition, offset) {
                (0, 0..4) => within(&what, came, renewed + LOCK)?,
                _ => between(&what, came, acquired + LOCK, renewed + LOCK)?,
            }
        }
    }
    Ok(())
}

/// Of both requests, as the members negotiate it.
const VERSION: i16 = 2;

/// That the broker refuses acknowledgements of partition 0 with the code of our lock machine, and says what goes with its
/// reason, which has to be this one.
fn refused(
    ours: &mut Locks,
    member: &mut Member,
    carrier: Carrier,
    batches: &[Batch<'_>],
    reason: AcknowledgeReason,
) -> Result<()> {
    let predicted = ours.acknowledge(&member.id, VERSION, renews(batches), batches);
    ensure!(predicted.reason == Some(reason), "our lock machine: {predicted:?}, expected {reason:?}");
    let answer = member.acknowledge(carrier, 0, batches)?;
    answer.expect(predicted.code).with_context(|| format!("{carrier:?} of {batches:?}"))?;
    let message = answer.row()?.acknowledge_message.as_deref();
    ensure!(message == Some(broker_words(reason)), "the broker says {message:?}, the reason is {reason:?}");
    Ok(())
}

/// That the broker takes acknowledgements of partition 0, as our lock machine does.
fn taken(ours: &mut Locks, member: &mut Member, batches: &[Batch<'_>]) -> Result<()> {
    let answer = member.acknowledge(Carrier::Acknowledge, 0, batches)?;
    let predicted = ours.acknowledge(&member.id, VERSION, renews(batches), batches);
    ensure!(predicted.code.is_ok(), "our lock machine: {predicted:?}");
    answer.expect(predicted.code)
}
