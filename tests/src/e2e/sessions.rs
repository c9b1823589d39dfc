//! Share sessions: their epochs, how they end, and what becomes of acquired records.

use std::time::Duration;

use anyhow::{Error, Result, ensure};
use driver::admin::none;
use kafka_protocol::messages::{ShareFetchRequest, ShareFetchResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::wire::Str;

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::member::{ACCEPT, Carrier, Member, RENEW};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("session unknown", unknown),
    Scenario::new("session epoch wrong: the session is as it was", wrong_epoch),
    Scenario::new("session opened with acknowledgements: refused", opened_with_acknowledgements),
    Scenario::new("session closed: acknowledgements are applied, the other records come free", closed),
    Scenario::new("session closed with a renewal: it comes free all the same", closed_with_renewal),
    Scenario::new(
        "session reopened on its connection: old records can be acknowledged and renewed",
        reopened,
    ),
    Scenario::new("session used over a second connection", second_connection),
    Scenario::new("session reopened over a second connection: the end of the first does no harm", moved),
    Scenario::new("session of requests in flight together", pipelined),
    Scenario::new("session ids: group and member", ids),
    Scenario { alone: true, ..Scenario::new("session limit", limit) },
];

/// A lock that outlives its scenario.
const LOCK: Duration = Duration::from_secs(60);

const BOTH: [Carrier; 2] = [Carrier::Acknowledge, Carrier::Fetch];

fn new(cluster: &Cluster) -> Result<Group<'_>> {
    Group::new(cluster, "sessions", 1, LOCK)
}

/// Sends nothing but an epoch.
fn with_epoch(member: &mut Member, carrier: Carrier, epoch: i32) -> Result<ErrorCode> {
    member.epoch = epoch;
    Ok(match carrier {
        Carrier::Acknowledge => member.send_acknowledge(&member.acknowledge_request(&[]))?,
        Carrier::Fetch => member.send_fetch(&member.fetch_to_acknowledge(&[]))?,
    }
    .error)
}

fn unknown(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let mut member = group.member()?;
    for (carrier, epoch) in [BOTH[0], BOTH[1], BOTH[0], BOTH[1]].into_iter().zip([1, 1, -1, -1]) {
        let error = with_epoch(&mut member, carrier, epoch)?;
        ensure!(error == ErrorCode::SHARE_SESSION_NOT_FOUND, "{carrier:?} with epoch {epoch}: {error}");
    }
    let error = with_epoch(&mut member, Carrier::Acknowledge, 0)?;
    ensure!(error == ErrorCode::INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge with epoch 0: {error}");
    Ok(())
}

fn wrong_epoch(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let mut member = group.member()?;
    member.open()?;
    member.acquire_exactly("0-9#1")?;
    let next = member.epoch;
    for carrier in BOTH {
        for epoch in [next - 1, next + 1, -2, i32::MAX] {
            let error = with_epoch(&mut member, carrier, epoch)?;
            ensure!(
                error == ErrorCode::INVALID_SHARE_SESSION_EPOCH,
                "{carrier:?} with epoch {epoch}: {error}"
            );
        }
    }
    member.epoch = next;
    member.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn opened_with_acknowledgements(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let mut member = group.member()?;
    for _ in 0..2 {
        let next = std::mem::take(&mut member.epoch);
        let answer = member.acknowledge(Carrier::Fetch, 0, &[(0, 9, &[ACCEPT])])?;
        ensure!(answer.error == ErrorCode::INVALID_REQUEST, "ShareFetch: {}", answer.error);
        let answer = member.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?;
        ensure!(answer.error == ErrorCode::INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge: {}", answer.error);
        // The first time there is no session, the second time there is one, which goes on.
        member.epoch = next;
        if next == 0 {
            member.acquire_exactly("0-9#1")?;
        }
    }
    member.acknowledge(Carrier::Fetch, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn closed(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    other.open()?;
    for (carrier, acquired) in BOTH.into_iter().zip(["0-9#1", "2-9#2"]) {
        owner.acquire_exactly(acquired)?;
        let first = if matches!(carrier, Carrier::Acknowledge) { 0 } else { 2 };
        owner.epoch = -1;
        owner.acknowledge(carrier, 0, &[(first, first + 1, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
        let error = with_epoch(&mut owner, carrier, 1)?;
        ensure!(error == ErrorCode::SHARE_SESSION_NOT_FOUND, "after the end: {error}");
        owner.epoch = 0;
    }
    other.acquire_exactly("4-9#3")
}

fn closed_with_renewal(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    owner.epoch = -1;
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[RENEW])])?.expect(ErrorCode::NONE)?;
    other.acquire_exactly("0-9#2")
}

fn reopened(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    owner.epoch = 0;
    owner.open()?;
    let acknowledgements: &[_] = &[(0, 4, &[ACCEPT][..]), (5, 9, &[RENEW])];
    owner.acknowledge(Carrier::Acknowledge, 0, acknowledgements)?.expect(ErrorCode::NONE)?;
    ensure!(other.acquire_rest()?.is_empty(), "records of the old session are free");
    owner.acknowledge(Carrier::Fetch, 0, &[(5, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn second_connection(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    let first = std::mem::replace(&mut owner.client, cluster.connect(group.leader)?);
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 4, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    // The session ends with the connection that opened it, not with the second one.
    owner.client = first;
    ensure!(other.acquire_rest()?.is_empty(), "records came free with the second connection");
    owner.acknowledge(Carrier::Acknowledge, 0, &[(5, 7, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    owner.client = cluster.connect(group.leader)?;
    other.acquire_exactly("8-9#2")
}

fn moved(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let (mut owner, mut other) = (group.member()?, group.member()?);
    owner.acquire_exactly("0-9#1")?;
    let first = std::mem::replace(&mut owner.client, cluster.connect(group.leader)?);
    owner.epoch = 0;
    owner.open()?;
    drop(first);
    ensure!(other.acquire_rest()?.is_empty(), "records came free with the first connection");
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)
}

fn pipelined(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let mut member = group.member()?;
    member.open()?;
    for epoch in 1..=3 {
        member.epoch = epoch;
        member.client.send(&member.fetch_to_acknowledge(&[]), None)?;
    }
    for epoch in 1..=3 {
        let error = member.client.receive()?.decode::<ShareFetchResponse>()?.error_code;
        ensure!(error.is_ok(), "epoch {epoch}: {error}");
    }
    Ok(())
}

fn ids(cluster: &Cluster) -> Result<()> {
    let group = new(cluster)?;
    let mut member = group.member()?;
    let name = Some(group.name.clone());
    let member_id = |length| Some(Str::from("m".repeat(length)));
    for (group_id, member_id, expected) in [
        (None, member_id(1), ErrorCode::INVALID_REQUEST),
        (name.clone(), None, ErrorCode::INVALID_REQUEST),
        (name.clone(), member_id(0), ErrorCode::INVALID_REQUEST),
        (name.clone(), member_id(37), ErrorCode::INVALID_REQUEST),
        (name.clone(), member_id(36), ErrorCode::NONE),
        // Of two UTF-16 units each.
        (name.clone(), Some("😀".repeat(19).into()), ErrorCode::INVALID_REQUEST),
        (name, Some("😀".repeat(18).into()), ErrorCode::NONE),
        (Some(Str::default()), member_id(1), ErrorCode::NONE),
    ] {
        let what = format!("group {group_id:?}, member {member_id:?}");
        member.epoch = 0;
        let request = ShareFetchRequest { group_id, member_id, topics: Vec::new(), ..member.fetch_request() };
        let answer = member.send_fetch(&request)?;
        ensure!(answer.error == expected, "{what}: {}, expected {expected}", answer.error);
        if answer.error.is_ok() {
            member
                .send_fetch(&ShareFetchRequest { share_session_epoch: -1, ..request })?
                .expect(ErrorCode::NONE)?;
        }
    }
    Ok(())
}

/// Sessions of as many members as it takes.
fn limit(cluster: &Cluster) -> Result<()> {
    /// More than a broker keeps unless it is told otherwise, which is 2000.
    const MEMBERS: usize = 10_000;
    let group = new(cluster)?;
    let mut member = group.member()?;
    let mut ask = |index: usize, epoch| {
        let request = ShareFetchRequest {
            member_id: Some(format!("m{index}").into()),
            share_session_epoch: epoch,
            max_wait_ms: 0,
            topics: Vec::new(),
            ..member.fetch_request()
        };
        Ok::<_, Error>(member.send_fetch(&request)?.error)
    };
    let (mut open, mut refused) = (0, ErrorCode::NONE);
    while open < MEMBERS {
        refused = ask(open, 0)?;
        if !refused.is_ok() {
            break;
        }
        open += 1;
    }
    let without_session = ask(open, 1)?;
    // The end of a connection takes one session with it, not all of those that were opened over it.
    (0..open).try_for_each(|index| none(ask(index, -1)?))?;
    ensure!(refused == ErrorCode::SHARE_SESSION_LIMIT_REACHED, "session {open}: {refused}");
    ensure!(without_session == ErrorCode::SHARE_SESSION_NOT_FOUND, "after the refusal: {without_session}");
    Ok(())
}
