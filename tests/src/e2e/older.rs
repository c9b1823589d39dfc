//! Kafka 4.1, the first version whose share groups have the protocol that was released: without renewals, so that version
//! 1 of ShareFetch and ShareAcknowledge is its highest. It takes no member ids but UUIDs.

use std::time::Duration;

use anyhow::{Result, ensure};
use driver::admin::eventually;
use driver::is_closed;
use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::{AcknowledgeType, ApiKey, ErrorCode, Versions};
use kafka_protocol::share::ShareAcquireMode;
use kafka_protocol::share::consumer::{Event, ShareConsumerError};

use super::Scenario;
use super::cluster::{Cluster, Special};
use super::consumers::{configured, drain, expect, some_records};
use super::group::Group;
use super::member::{ACCEPT, Carrier, RENEW};
use super::rebalances::rebalance;
use super::wire::{each_version, round_trips};
use super::workers::{Manner, Protocol};

pub(super) const SCENARIOS: &[Scenario] = &[
    on("Kafka 4.1: each API has the highest version that both ends have", negotiated),
    on("Kafka 4.1: ApiVersions, Metadata and FindCoordinator in each version", each_version),
    on("Kafka 4.1: records in each version of Produce and Fetch", round_trips),
    on("Kafka 4.1: renewals in version 1 are refused as predicted, and there is no version 2", refused),
    on("Kafka 4.1: member ids are UUIDs in base64", member_ids),
    on("Kafka 4.1: a share consumer accepts and releases, and refuses to renew without asking", consumer),
    on("Kafka 4.1: a share consumer in mode RecordLimit says that the node lacks it", record_limit),
    on("Kafka 4.1: rebalance, consumer protocol", |cluster| {
        rebalance(cluster, Protocol::Consumer, Manner::Holds)
    }),
];

const fn on(name: &'static str, run: fn(&Cluster) -> Result<()>) -> Scenario {
    Scenario { on: Some(Special::Older), ..Scenario::new(name, run) }
}

/// A lock that outlives its scenario.
const LONG: Duration = Duration::from_secs(60);

const SHARE: [ApiKey; 2] = [ApiKey::SHARE_FETCH, ApiKey::SHARE_ACKNOWLEDGE];

fn negotiated(cluster: &Cluster) -> Result<()> {
    let client = cluster.any()?;
    let connection = client.connection();
    for api in ApiKey::all() {
        let offered = connection.offered(api.key).unwrap_or(Versions::NONE);
        let common = offered.intersect(api.versions);
        let found = connection.negotiated(api.key);
        let expected = (!common.is_empty()).then_some(common.max());
        ensure!(found == expected, "{}: negotiated {found:?}, the broker has {offered}", api.name);
    }
    for api_key in SHARE {
        let found = connection.negotiated(api_key);
        ensure!(found == Some(1), "{api_key:?}: negotiated {found:?}");
    }
    Ok(())
}

fn refused(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "older", 1, LONG)?;
    let mut member = group.member()?;
    member.acquire_exactly("0-9#1")?;
    for carrier in [Carrier::Acknowledge, Carrier::Fetch] {
        // Each answer is held against what our rules predict, too.
        let answer = member.acknowledge_flagged(carrier, 0, &[(0, 4, &[RENEW])], false)?;
        answer.expect(ErrorCode::INVALID_REQUEST)?;
        let error = member.acknowledge_flagged(carrier, 0, &[(0, 4, &[RENEW])], true).err();
        let is_kept = member.acknowledge(carrier, 0, &[])?.error.is_ok();
        ensure!(error.is_some() && is_kept, "with IsRenewAck, which version 1 has not: {error:?}");
    }
    member.acknowledge(Carrier::Acknowledge, 0, &[(0, 9, &[ACCEPT])])?.expect(ErrorCode::NONE)?;

    member.version = Some(2);
    let closed = member.acknowledge(Carrier::Acknowledge, 0, &[]).err();
    ensure!(closed.as_ref().is_some_and(is_closed), "version 2 is answered with {closed:?}");
    Ok(())
}

fn member_ids(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "older", 1, LONG)?;
    let mut member = group.member()?;
    for (id, expected) in [
        ("m", ErrorCode::UNKNOWN_SERVER_ERROR),
        ("more than the 22 digits of a UUID", ErrorCode::UNKNOWN_SERVER_ERROR),
        ("22-digits-of-a-UUID-AA", ErrorCode::NONE),
    ] {
        member.epoch = 0;
        let request = ShareFetchRequest { member_id: Some(id.into()), ..member.fetch_request() };
        let error = member.send_fetch(&request)?.error;
        ensure!(error == expected, "the session of {id:?}: {error}, expected {expected}");
    }
    Ok(())
}

fn consumer(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "older", 1, LONG)?;
    let mut consumer = configured(&group, |config| config.member_id = cluster.member_id())?;
    let timeout = consumer.consumer().acquisition_lock_timeout();
    ensure!(timeout.is_none(), "a lock timeout before any records: {timeout:?}");
    let first = some_records(&mut consumer)?;
    ensure!(first.to_string() == "0-9#1", "delivered {first}");
    // Version 1 of the response has it already.
    let timeout = consumer.consumer().acquisition_lock_timeout();
    ensure!(timeout == Some(LONG), "the lock timeout is {timeout:?}");

    let refused = first.acknowledge(&mut consumer, AcknowledgeType::RENEW).err();
    let refused = refused.and_then(|error| error.downcast().ok());
    let expected = ShareConsumerError::RenewUnsupported { node: group.leader };
    ensure!(refused.as_ref() == Some(&expected), "a renewal: {refused:?}");
    consumer.commit()?;
    let sent = consumer.consumer().metrics().acknowledgements_send.total();
    ensure!(sent == 0, "{sent} acknowledgements were sent");

    // The records are still the consumer's, and its session goes on.
    for (partition, offset) in first.0.keys() {
        let ty = if *offset < 5 { AcknowledgeType::ACCEPT } else { AcknowledgeType::RELEASE };
        consumer.acknowledge(*partition, *offset, ty)?;
    }
    consumer.commit()?;
    expect(&mut consumer, ErrorCode::NONE)?;
    let again = drain(&mut consumer, 5, AcknowledgeType::ACCEPT)?;
    ensure!(again.to_string() == "5-9#2", "delivered after the release: {again}");
    expect(&mut consumer, ErrorCode::NONE)?;
    consumer.close()?;
    let free = group.member()?.acquire_rest()?;
    ensure!(free.is_empty(), "free after all: {free:?}");
    Ok(())
}

fn record_limit(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "older", 1, LONG)?;
    let mut consumer = configured(&group, |config| {
        config.member_id = cluster.member_id();
        config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
    })?;
    let expected =
        Event::NodeError { node: group.leader, error: ErrorCode::UNSUPPORTED_VERSION, message: None };
    eventually("the error", || {
        ensure!(consumer.poll(Duration::from_millis(50))?.is_empty(), "records in another mode");
        Ok(consumer.events().contains(&expected).then_some(()))
    })?;
    consumer.close()
}
