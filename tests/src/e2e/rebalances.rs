//! Rebalances of consumer groups as KIP-983 has them, in the three protocols. The workers check the rules in every poll.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::Scenario;
use super::cluster::Cluster;
use super::workers::{Manner, PARTITIONS, Protocol, Stage, Worker};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("rebalance, consumer protocol: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Consumer, Manner::Settles)
    }),
    Scenario::new("rebalance, classic cooperative: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Cooperative, Manner::Settles)
    }),
    Scenario::new("rebalance, classic eager: announced in poll N, given up in poll N+1", |cluster| {
        rebalance(cluster, Protocol::Eager, Manner::Settles)
    }),
    Scenario::new("rebalance, consumer protocol: given up when the commits before are answered", |cluster| {
        rebalance(cluster, Protocol::Consumer, Manner::Hurries)
    }),
    Scenario::new(
        "rebalance, classic cooperative: given up when the commits before are answered",
        |cluster| rebalance(cluster, Protocol::Cooperative, Manner::Hurries),
    ),
    Scenario::new("rebalance, classic eager: given up when the commits before are answered", |cluster| {
        rebalance(cluster, Protocol::Eager, Manner::Hurries)
    }),
    Scenario::new("rebalance, consumer protocol: held, while the others are never paused", |cluster| {
        rebalance(cluster, Protocol::Consumer, Manner::Holds)
    }),
    Scenario::new("rebalance, classic cooperative: held, while the others are never paused", |cluster| {
        rebalance(cluster, Protocol::Cooperative, Manner::Holds)
    }),
    Scenario::new("rebalance, classic eager: held, and given up in the first poll after that", |cluster| {
        rebalance(cluster, Protocol::Eager, Manner::Holds)
    }),
];

pub(super) fn rebalance(cluster: &Cluster, protocol: Protocol, manner: Manner) -> Result<()> {
    let mut stage = Stage::new(cluster, protocol)?;
    let mut first = stage.worker(manner)?;
    stage.until("the first member has everything", &mut [&mut first], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > 20
    })?;

    let mut second = stage.worker(manner)?;
    let half = |workers: &[&mut Worker]| workers.iter().all(|it| it.owned() == 2);
    stage.until("each member has half", &mut [&mut first, &mut second], |workers| {
        half(workers) && workers[1].processed.len() > 20
    })?;
    let moved = if protocol == Protocol::Eager { 4 } else { 2 };
    ensure!(first.given_up == moved, "given up are {}, expected {moved}", first.given_up);

    let mut processed = second.close()?;
    stage.until("the first member has everything again", &mut [&mut first], |workers| {
        workers[0].owned() == 4
    })?;
    let end = stage.produced;
    stage.until("everything is processed", &mut [&mut first], |workers| {
        let at_end = |partition| workers[0].processed.iter().any(|it| *it == (partition, end - 1));
        (0..PARTITIONS).all(at_end)
    })?;
    ensure!(first.losses == 0, "something was lost");
    ensure!(stage.shared.is_none(), "two members had {:?} at the same time", stage.shared);
    processed.extend(first.close()?);
    // Some are in both logs if they were processed twice, and in none if they were skipped.
    let processed: Vec<_> = processed.into_iter().filter(|(_, offset)| *offset < end).collect();
    let once: BTreeSet<_> = processed.iter().copied().collect();
    ensure!(once.len() == processed.len(), "{} records were processed twice", processed.len() - once.len());
    let expected = (0..PARTITIONS).flat_map(|partition| (0..end).map(move |offset| (partition, offset)));
    ensure!(once.into_iter().eq(expected), "records were skipped");
    Ok(())
}
