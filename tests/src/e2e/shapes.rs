//! Which acknowledgements a broker takes, by either request. A partition for each row, all in one group. Our own lock
//! machine has to come to the same.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::locks::LockConfig;
use kafka_protocol::wire::Uuid;

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::member::{ACCEPT, Batch, Carrier, GAP, Member, REJECT, RELEASE, RENEW};
use super::prediction::Locks;
use crate::share_fetch_codes::CASES;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("acknowledgements by ShareAcknowledge", |cluster| rows(cluster, Carrier::Acknowledge)),
    Scenario::new("acknowledgements by ShareFetch", |cluster| rows(cluster, Carrier::Fetch)),
    Scenario::new("acknowledgements by ShareAcknowledge and ShareFetch of version 1", version_1),
    Scenario::new("partitions: unknown, not fetched from, listed twice, without acknowledgements", listings),
    Scenario::new("partitions unknown to ShareFetch: the codes of both fields", |cluster| codes(cluster, 2)),
    Scenario::new("partitions unknown to ShareFetch of version 1: the same", |cluster| codes(cluster, 1)),
];

/// Long enough to outlive the scenario.
const LOCK: Duration = Duration::from_secs(60);

/// What is sent for a partition whose offsets 0-9 the sender has acquired.
struct Row {
    name: &'static str,
    is_renew_ack: bool,
    /// One request after the other. Each but the last succeeds.
    requests: &'static [&'static [Batch<'static>]],
    /// The answer to the last request.
    answer: ErrorCode,
    /// What another member can acquire afterwards.
    free: &'static str,
}

const NONE: ErrorCode = ErrorCode::NONE;
const INVALID: ErrorCode = ErrorCode::INVALID_REQUEST;
const STATE: ErrorCode = ErrorCode::INVALID_RECORD_STATE;

const fn plain(
    name: &'static str,
    requests: &'static [&'static [Batch<'static>]],
    answer: ErrorCode,
    free: &'static str,
) -> Row {
    Row { name, is_renew_ack: false, requests, answer, free }
}

const fn renew(
    name: &'static str,
    requests: &'static [&'static [Batch<'static>]],
    answer: ErrorCode,
    free: &'static str,
) -> Row {
    Row { name, is_renew_ack: true, requests, answer, free }
}

const MIXED: &[i8] = &[RENEW, RENEW, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, REJECT, GAP, GAP];
const OFFSET_EACH: &[i8] = &[ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE];

/// The rows whose outcome is the same in every version.
const ALL_VERSIONS: &[Row] = &[
    plain("accept all", &[&[(0, 9, &[ACCEPT])]], NONE, ""),
    plain("release all", &[&[(0, 9, &[RELEASE])]], NONE, "0-9#2"),
    plain("release a part of a record batch", &[&[(3, 6, &[RELEASE])]], NONE, "3-6#2"),
    plain("reject all", &[&[(0, 9, &[REJECT])]], NONE, ""),
    plain("gap all", &[&[(0, 9, &[GAP])]], NONE, ""),
    plain("a type for each offset", &[&[(0, 9, OFFSET_EACH)]], NONE, "1-1#2 5-5#2 9-9#2"),
    plain(
        "a batch for each type",
        &[&[(0, 1, &[ACCEPT]), (2, 4, &[RELEASE]), (7, 9, &[REJECT])]],
        NONE,
        "2-4#2",
    ),
    plain("type 5", &[&[(0, 9, &[5])]], INVALID, ""),
    plain("type -1", &[&[(0, 9, &[-1])]], INVALID, ""),
    plain("no type", &[&[(0, 9, &[])]], INVALID, ""),
    plain("2 types for 10 offsets", &[&[(0, 9, &[ACCEPT, ACCEPT])]], INVALID, ""),
    plain("2 types for 1 offset", &[&[(0, 0, &[ACCEPT, ACCEPT])]], INVALID, ""),
    plain("11 types for 10 offsets", &[&[(0, 9, &[ACCEPT; 11])]], INVALID, ""),
    plain("batches that overlap", &[&[(0, 4, &[ACCEPT]), (3, 6, &[ACCEPT])]], INVALID, ""),
    plain("batches that share an offset", &[&[(0, 4, &[RELEASE]), (4, 6, &[ACCEPT])]], STATE, ""),
    plain("batches in descending order", &[&[(5, 9, &[ACCEPT]), (0, 4, &[ACCEPT])]], INVALID, ""),
    plain("last before first", &[&[(5, 4, &[ACCEPT])]], INVALID, ""),
    plain("far behind the end", &[&[(1000, 1001, &[ACCEPT])]], INVALID, ""),
    plain("across the end", &[&[(8, 12, &[ACCEPT])]], INVALID, ""),
    plain("across the end, far", &[&[(0, 1 << 62, &[ACCEPT])]], INVALID, ""),
    plain("offset -1 is below the start", &[&[(-1, 4, &[ACCEPT])]], NONE, ""),
    plain("offset -2 is not an offset", &[&[(-2, -2, &[ACCEPT])]], INVALID, ""),
    plain("one good and one bad batch", &[&[(0, 4, &[RELEASE]), (5, 12, &[RELEASE])]], INVALID, ""),
    plain("accept twice below the start", &[&[(0, 4, &[ACCEPT])], &[(0, 4, &[ACCEPT])]], NONE, ""),
    plain("accept twice", &[&[(5, 9, &[ACCEPT])], &[(5, 9, &[ACCEPT])]], STATE, ""),
    plain("accept what is released", &[&[(5, 9, &[RELEASE])], &[(5, 9, &[ACCEPT])]], STATE, "5-9#2"),
];

/// The rows with renewals, which version 1 does not have.
const VERSION_2: &[Row] = &[
    plain("renew without the flag", &[&[(0, 9, &[RENEW])]], INVALID, ""),
    plain("a mixed batch without the flag", &[&[(0, 9, MIXED)]], INVALID, ""),
    renew("renew", &[&[(0, 9, &[RENEW])]], NONE, ""),
    renew(
        "renew twice, then release",
        &[&[(0, 9, &[RENEW])], &[(0, 9, &[RENEW])], &[(0, 9, &[RELEASE])]],
        NONE,
        "0-9#2",
    ),
    renew("the flag without a renewal", &[&[(0, 4, &[ACCEPT]), (5, 9, &[RELEASE])]], NONE, "5-9#2"),
    renew("a mixed batch", &[&[(0, 9, MIXED)]], NONE, "4-5#2"),
    renew(
        "mixed batches",
        &[&[(0, 1, &[RENEW]), (2, 3, &[ACCEPT]), (4, 5, &[RELEASE]), (6, 7, &[REJECT]), (8, 9, &[GAP])]],
        NONE,
        "4-5#2",
    ),
    renew("type 5 with the flag", &[&[(0, 9, &[5])]], INVALID, ""),
    renew("renew, and share an offset with accept", &[&[(0, 4, &[RENEW]), (4, 6, &[ACCEPT])]], NONE, ""),
    renew(
        "renew, and share an offset with release",
        &[&[(0, 4, &[RENEW]), (4, 6, &[RELEASE])]],
        NONE,
        "4-6#2",
    ),
    renew("renew, and share an offset with renew", &[&[(0, 4, &[RENEW]), (4, 6, &[RENEW])]], NONE, ""),
    renew("renew what is accepted", &[&[(5, 9, &[ACCEPT])], &[(5, 9, &[RENEW])]], STATE, ""),
    renew("renew what is released", &[&[(5, 9, &[RELEASE])], &[(5, 9, &[RENEW])]], STATE, "5-9#2"),
    renew("renew below the start", &[&[(0, 4, &[ACCEPT])], &[(0, 4, &[RENEW])]], NONE, ""),
];

fn rows(cluster: &Cluster, carrier: Carrier) -> Result<()> {
    let rows: Vec<_> = ALL_VERSIONS.iter().chain(VERSION_2).collect();
    let group = Group::new(cluster, "shapes", rows.len() as i32, LOCK)?;
    check(&group, &rows, &[carrier], None)
}

/// Version 1 of both requests. A renewal is the number 4 like any other that has no meaning there.
fn version_1(cluster: &Cluster) -> Result<()> {
    let renew = plain("renew in version 1", &[&[(0, 9, &[RENEW])]], INVALID, "");
    let rows: Vec<_> = ALL_VERSIONS.iter().chain([&renew]).collect();
    let group = Group::new(cluster, "shapes", rows.len() as i32, LOCK)?;
    check(&group, &rows, &[Carrier::Acknowledge, Carrier::Fetch], Some(1))
}

/// Rows take turns with the carriers.
fn check(group: &Group<'_>, rows: &[&Row], carriers: &[Carrier], version: Option<i16>) -> Result<()> {
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.version = version;
    owner.acquire(10)?;
    for ((partition, row), carrier) in (0..).zip(rows).zip(carriers.iter().cycle()) {
        send(&mut owner, *carrier, partition, row).context(row.name)?;
    }
    let mut free = other.acquire_rest()?;
    for (partition, row) in (0..).zip(rows) {
        let ours = predict(row, version.unwrap_or(2)).context(row.name)?;
        ensure!(ours == (row.answer, row.free.to_owned()), "{}: our lock machine has {ours:?}", row.name);
        let found = free.remove(&partition).unwrap_or_default().to_string();
        ensure!(found == row.free, "{}: then `{found}` is free, expected `{}`", row.name, row.free);
    }
    Ok(())
}

fn send(owner: &mut Member, carrier: Carrier, partition: i32, row: &Row) -> Result<()> {
    let (last, before) = row.requests.split_last().context("no request")?;
    let mut request = |batches| owner.acknowledge_flagged(carrier, partition, batches, row.is_renew_ack);
    for batches in before {
        request(batches)?.expect(NONE)?;
    }
    let answer = request(last)?;
    ensure!(answer.error.is_ok(), "a partition's error is not one of the request: {}", answer.error);
    ensure!(answer.rows.keys().map(|of| of.partition).eq([partition]), "rows: {:?}", answer.rows);
    answer.expect(row.answer)
}

/// What our own lock machine answers to the last request, and what is then free.
fn predict(row: &Row, version: i16) -> Result<(ErrorCode, String)> {
    let mut locks = Locks::new(LockConfig::default());
    locks.acquire("owner");
    let mut answer = NONE;
    for request in row.requests {
        ensure!(answer.is_ok(), "a request before the last one fails with {answer}");
        answer = locks.acknowledge("owner", version, row.is_renew_ack, request).code;
    }
    Ok((answer, locks.acquire("other").to_string()))
}

/// One request for several partitions: what is wrong with one is no harm to the others.
fn listings(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "shapes", 3, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    // Nothing has been fetched from any partition yet.
    owner.open()?;
    let answer = owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?;
    answer.expect(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    owner.acquire(10)?;

    let accept: &[_] = &[(0, 9, &[ACCEPT][..])];
    let release: &[_] = &[(0, 9, &[RELEASE][..])];
    let invalid: &[_] = &[(9, 0, &[ACCEPT][..])];
    let partitions: [(i32, &[_]); 6] =
        [(0, accept), (0, release), (1, invalid), (2, &[]), (999, &[]), (-1, accept)];
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    // Of the partition listed twice the last listing counts.
    let expected = [(-1, unknown), (0, NONE), (1, INVALID), (2, NONE), (999, unknown)];
    let answer = owner.send_acknowledge(&owner.acknowledge_request(&partitions))?;
    let rows: Vec<_> = answer.rows.iter().map(|(of, row)| (of.partition, row.acknowledge_error)).collect();
    ensure!(rows == expected, "answered with {rows:?}, expected {expected:?}");
    let free = other.acquire_rest()?;
    ensure!(free.len() == 1 && free.contains_key(&0), "free are {free:?}");

    let mut request = owner.acknowledge_request(&[(1, accept)]);
    request.topics[0].topic_id = Uuid::from_u128(1);
    let answer = owner.send_acknowledge(&request)?;
    answer.expect(ErrorCode::UNKNOWN_TOPIC_ID)?;
    let answer = owner.send_acknowledge(&owner.acknowledge_request(&[]))?;
    ensure!(answer.error.is_ok() && answer.rows.is_empty(), "nothing is acknowledged: {answer:?}");
    Ok(())
}

/// Fetches, renewals and ends of sessions that list what the broker does not know.
fn codes(cluster: &Cluster, version: i16) -> Result<()> {
    let group = Group::new(cluster, "shapes", 2, LOCK)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire(10)?;
    // Share partitions are forgotten with the last session of their group.
    other.open()?;
    owner.version = Some(version);
    for case in CASES.iter().filter(|case| version >= 2 || !case.form.renews()) {
        // A new session has nothing of the case before.
        owner.epoch = 0;
        owner.open()?;
        let ShareFetchRequest { group_id, member_id, .. } = owner.fetch_request();
        let request = case.request(group.topic.id, owner.epoch);
        let answer = owner.send_fetch(&ShareFetchRequest { group_id, member_id, ..request })?;
        let rows = answer.rows.iter().map(|(of, row)| (*of, row.error.0, row.acknowledge_error.0));
        let (rows, expected) = (rows.collect::<Vec<_>>(), case.rows(group.topic.id));
        ensure!(rows == expected, "{case:?} is answered with {rows:?}, expected {expected:?}");
    }
    Ok(())
}
