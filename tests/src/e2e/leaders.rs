//! A leader that changes while records are acquired.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use driver::admin::{Topic, eventually, none};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, ElectLeadersRequest};
use kafka_protocol::protocol::ErrorCode;

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::member::{ACCEPT, Carrier, RENEW};

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    brokers: 2,
    ..Scenario::new(
        "leader changes: renewals fail, fetching names the new leader, which has the records",
        changes,
    )
}];

const LOCK: Duration = Duration::from_secs(60);

fn changes(cluster: &Cluster) -> Result<()> {
    let &[old, new, ..] = &cluster.nodes()[..] else { unreachable!("the scenario needs two brokers") };
    let topic = cluster.create_topic("leaders", 1, &[old, new])?;
    for _ in 0..2 {
        cluster.produce(&topic, old, 5)?;
    }
    let mut group = Group::of(cluster, topic, old, LOCK)?;
    let mut owner = group.member()?;
    owner.acquire_exactly("0-9#1")?;
    owner.acknowledge(Carrier::Acknowledge, 0, &[(0, 1, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    elect(cluster, &group.topic, &[new, old])?;

    // Who fetches is told where to go.
    let answer = eventually("an answer that names the new leader", || {
        let answer = owner.send_fetch(&owner.fetch_request())?;
        let moved = answer.rows.values().any(|row| row.error == ErrorCode::NOT_LEADER_OR_FOLLOWER);
        Ok(moved.then_some(answer))
    })?;
    let leader = answer.row()?.current_leader.leader_id;
    let endpoint = answer.node_endpoints.iter().find(|node| node.node_id == leader);
    let address = endpoint.map(|node| format!("{}:{}", node.host, node.port));
    ensure!(
        leader == new && address.as_deref() == Some(cluster.address(new)?),
        "leader {leader} at {address:?}"
    );
    // Who acknowledges is not: the old leader has no share partition any more.
    for carrier in [Carrier::Acknowledge, Carrier::Fetch] {
        let answer = owner.acknowledge(carrier, 0, &[(2, 9, &[RENEW])])?;
        answer.expect(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    }

    // The same member at the new leader, where the records are free.
    cluster.produce(&group.topic, new, 5)?;
    group.leader = new;
    let mut owner_there = group.member()?;
    owner_there.acquire_exactly("2-14#1")?;
    owner_there.acknowledge(Carrier::Acknowledge, 0, &[(2, 14, &[RENEW])])?.expect(ErrorCode::NONE)?;
    owner_there.acknowledge(Carrier::Acknowledge, 0, &[(2, 14, &[ACCEPT])])?.expect(ErrorCode::NONE)?;
    ensure!(owner_there.acquire_rest()?.is_empty(), "accepted records are free");
    Ok(())
}

/// Makes the first replica of partition 0 its leader.
pub(super) fn elect(cluster: &Cluster, topic: &Topic, replicas: &[i32]) -> Result<()> {
    /// The first of the replicas, if it is in sync.
    const PREFERRED: i8 = 0;
    let mut client = cluster.any()?;
    let partition = ReassignablePartition { replicas: Some(replicas.into()), ..Default::default() };
    let reassigned =
        ReassignableTopic { name: topic.name.clone(), partitions: vec![partition], ..Default::default() };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        topics: vec![reassigned],
        ..Default::default()
    };
    let response = client.call(&request)?;
    none(response.error_code)?;
    let partition =
        response.responses.first().and_then(|topic| topic.partitions.first()).context("no partition")?;
    none(partition.error_code)?;

    let partitions =
        TopicPartitions { topic: topic.name.clone(), partitions: [0][..].into(), ..Default::default() };
    let request = ElectLeadersRequest {
        election_type: PREFERRED,
        topic_partitions: Some(vec![partitions]),
        timeout_ms: 10_000,
        ..Default::default()
    };
    eventually("the election of the first replica", || {
        let response = client.call(&request)?;
        none(response.error_code)?;
        let results = response.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        Ok(results
            .map(|partition| partition.error_code)
            .all(|it| it.is_ok() || it == ErrorCode::ELECTION_NOT_NEEDED)
            .then_some(()))
    })?;
    cluster.await_leader(topic, 0, replicas[0])
}
