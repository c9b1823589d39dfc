//! The invariants of a rebalance, over random days of groups of all three protocols.
//!
//! A day has up to four members at a time, which come and go, and 45 simulated seconds. Half of the days are foul: see
//! [`Weather`]. On every other two the coordinator of the consumer protocol is fickle. All tests look at the same days. Day and protocol are the seed, so a breach is repeated by its number.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;

use kafka_protocol::rebalance::TopicPartition;

use super::app::LOG_END;
use super::watch::Seen;
use super::world::{KINDS, Kind, Weather, World};

/// Days of each protocol.
const DAYS: u64 = 120;

#[derive(Default)]
struct Report {
    seen: Seen,
    /// Days on which something else went wrong.
    failures: Vec<String>,
    processed: usize,
    too_late: usize,
    outlived: usize,
}

fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        let threads = KINDS.map(|kind| thread::spawn(move || days(kind)));
        let mut report = Report::default();
        for thread in threads {
            let of = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            report.seen.add(of.seen);
            report.failures.extend(of.failures);
            report.processed += of.processed;
            report.too_late += of.too_late;
            report.outlived += of.outlived;
        }
        report
    })
}

fn days(kind: Kind) -> Report {
    let mut report = Report::default();
    for day in 0..DAYS {
        let weather = if day % 2 == 0 { Weather::Fair } else { Weather::Foul };
        let mut world = World::new(kind, weather, day);
        world.run();
        for node in &mut world.nodes {
            let mut seen = std::mem::take(&mut node.watch.seen);
            seen.breaches.iter_mut().for_each(|(_, what)| *what = format!("{kind:?} day {day}: {what}"));
            report.seen.add(seen);
            report.processed += node.app.processed.len();
            report.too_late += node.app.too_late;
            report.outlived += node.app.outlived;
        }
        report
            .failures
            .extend(evening(&world, weather).into_iter().map(|what| format!("{kind:?} day {day}: {what}")));
    }
    report
}

/// What has to be so when all is calm again.
fn evening(world: &World, weather: Weather) -> Vec<String> {
    let mut failures = Vec::new();
    let mut owners = BTreeMap::<TopicPartition, Vec<&str>>::new();
    let mut wanted = std::collections::BTreeSet::new();
    for node in world.living() {
        wanted.extend(node.topics());
        for partition in node.member.fetchable() {
            owners.entry(partition.clone()).or_default().push(&node.name);
        }
    }
    let mut times = BTreeMap::<(TopicPartition, i64), usize>::new();
    for record in world.nodes.iter().flat_map(|node| &node.app.processed) {
        *times.entry(record.clone()).or_default() += 1;
    }
    for topic in wanted {
        for index in 0..world.broker.topics[topic].1 {
            let partition = TopicPartition::new(topic, index);
            let owners = owners.get(&partition).map_or(0, Vec::len);
            if owners != 1 {
                failures.push(format!("{partition} has {owners} owners"));
            }
            let missing =
                (0..LOG_END).filter(|&offset| !times.contains_key(&(partition.clone(), offset))).count();
            if missing > 0 {
                failures.push(format!("{missing} records of {partition} are not processed"));
            }
        }
    }
    if weather == Weather::Fair {
        // Commits have no generation while a group waits for a static member that is gone, and then time out.
        let is_committed =
            |partition| world.nodes.iter().all(|node| !node.app.uncommitted.contains(partition));
        let twice = times.iter().find(|&((partition, _), &times)| times > 1 && is_committed(partition));
        failures.extend(
            twice.map(|((partition, offset), times)| {
                format!("{partition}@{offset} is processed {times} times")
            }),
        );
        let (_, expired, evicted) = world.broker.counts();
        if expired + evicted > 0 && world.members_can_leave() {
            failures.push(format!("{expired} sessions expired, {evicted} members were evicted"));
        }
    }
    failures
}

fn check(invariant: usize) {
    let Seen { occasions, breaches, .. } = &report().seen;
    let breaches: Vec<_> = breaches.iter().filter(|(of, _)| *of == invariant).map(|(_, what)| what).collect();
    assert!(
        breaches.is_empty(),
        "{} breaches, such as {:#?}",
        breaches.len(),
        &breaches[..breaches.len().min(5)]
    );
    assert!(occasions[invariant] > 20, "only {} occasions", occasions[invariant]);
}

#[test]
fn what_is_to_be_revoked_is_owned_and_what_is_lost_is_not() {
    check(1);
}

#[test]
fn nothing_of_a_partition_is_handed_out_from_the_announcement_on() {
    check(2);
    let Report { seen, too_late, .. } = report();
    assert!(*too_late > 100, "only {too_late} answers to fetches came too late");
    assert!(seen.flowed > 100, "only {} polls gave records of others meanwhile", seen.flowed);
}

#[test]
fn commits_are_taken_until_the_next_poll_and_sent_with_the_valid_epoch() {
    check(3);
}

#[test]
fn only_the_next_poll_gives_up_and_only_after_the_commits() {
    check(4);
}

#[test]
fn an_announcement_is_never_taken_back() {
    check(5);
    let taken_back = report().seen.taken_back;
    assert!(taken_back > 20, "only {taken_back} are wanted again while they are announced");
}

#[test]
fn commits_of_lost_partitions_are_refused_and_not_retried() {
    check(6);
}

#[test]
fn loss_overrides_revocation() {
    check(7);
}

#[test]
fn every_change_is_reported_by_exactly_one_poll() {
    check(8);
}

#[test]
fn heartbeats_go_on_between_polls() {
    check(9);
}

#[test]
fn new_partitions_wait_for_those_that_are_given_up() {
    check(10);
    let offered_early = report().seen.offered_early;
    assert!(offered_early > 20, "only {offered_early} are offered during a revocation");
}

#[test]
fn completion_waits_for_nothing_but_commits() {
    check(11);
}

/// From the committed offset on, as long as a partition stays; then from where its commits are.
#[test]
fn records_are_handed_out_in_order_and_once() {
    check(12);
    let outlived = report().outlived;
    assert!(outlived > 100, "only {outlived} answers came in a later assignment");
}

/// On fair days nothing is processed twice, although members come and go; on all days nothing is left out, and in the
/// evening every partition has one owner.
#[test]
fn every_record_is_processed_and_on_fair_days_only_once() {
    let Report { failures, processed, .. } = report();
    assert!(
        failures.is_empty(),
        "{} failures, such as {:#?}",
        failures.len(),
        &failures[..failures.len().min(8)]
    );
    assert!(*processed > 100_000, "only {processed} records");
}
