//! Scenarios on real clusters, for `cargo xtask e2e`.
//!
//! Each has topics and groups of its own, with names that are used once, so they run at the same time and on a cluster
//! that has seen them before. Those that need a special cluster have it started, and run there one after the other.

mod cluster;
mod consumers;
mod examples;
mod group;
mod leaders;
mod locks;
mod losses;
mod member;
mod mixed;
mod older;
mod outages;
mod prediction;
mod rebalances;
mod renewal;
mod sessions;
mod shapes;
mod shared_connections;
mod wire;
mod workers;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};

use crate::vectors::panic_text;
use cluster::Special;
pub use cluster::{Cluster, Clusters, Java};

/// Something that a cluster has to do.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    run: fn(&Cluster) -> Result<()>,
    /// How many brokers it needs.
    brokers: usize,
    /// The cluster that it runs on, if it is not the usual one. All scenarios there run one after the other.
    on: Option<Special>,
    /// Whether no other may run at the same time.
    alone: bool,
}

impl Scenario {
    const fn new(name: &'static str, run: fn(&Cluster) -> Result<()>) -> Self {
        Self { name, run, brokers: 1, on: None, alone: false }
    }
}

/// How many of the scenarios have passed, and how many have not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// As they should be.
    pub passed: usize,
    /// The others that ran.
    pub failed: usize,
    /// Those that need more brokers than there are.
    pub left_out: usize,
}

/// As in `47 passed, 0 failed, 2 left out`; the last part only if some are.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, left_out } = self;
        write!(f, "{passed} passed, {failed} failed")?;
        if *left_out > 0 { write!(f, ", {left_out} left out") } else { Ok(()) }
    }
}

/// What has become of a scenario.
struct Report {
    scenario: Scenario,
    done: Result<()>,
    time: Duration,
}

/// Runs those scenarios whose names contain `filter`, `jobs` at a time, and prints a line for each.
pub fn run(clusters: &Clusters, filter: &str, jobs: usize) -> Summary {
    // The long ones first.
    let all = [
        outages::SCENARIOS,
        older::SCENARIOS,
        rebalances::SCENARIOS,
        losses::SCENARIOS,
        examples::SCENARIOS,
        mixed::SCENARIOS,
        consumers::SCENARIOS,
        renewal::SCENARIOS,
        leaders::SCENARIOS,
        shapes::SCENARIOS,
        locks::SCENARIOS,
        sessions::SCENARIOS,
        shared_connections::SCENARIOS,
        wire::SCENARIOS,
    ];
    let chosen = all.into_iter().flatten().filter(|scenario| scenario.name.contains(filter)).copied();
    let (usual, special): (Vec<_>, Vec<_>) = chosen.partition(|scenario| scenario.on.is_none());
    let (possible, impossible): (Vec<_>, Vec<_>) =
        usual.into_iter().partition(|scenario| scenario.brokers <= clusters.usual.nodes().len());
    let mut summary = Summary { left_out: impossible.len(), ..Summary::default() };
    for Scenario { name, brokers, .. } in impossible {
        println!("left out {name}: needs {brokers} brokers");
    }
    let (alone, together): (Vec<_>, Vec<_>) = possible.into_iter().partition(|scenario| scenario.alone);
    let (to_reports, reports) = mpsc::channel();
    thread::scope(|scope| {
        for on in [Special::Mortal, Special::Older] {
            let scenarios: VecDeque<_> = special.iter().filter(|it| it.on == Some(on)).copied().collect();
            let to_reports = to_reports.clone();
            scope.spawn(move || work_on(clusters, on, scenarios, to_reports));
        }
        scope.spawn(move || {
            for (scenarios, jobs) in [(together, jobs), (alone, 1)] {
                let queue = Mutex::new(VecDeque::from(scenarios));
                thread::scope(|scope| {
                    for _ in 0..jobs {
                        let to_reports = to_reports.clone();
                        scope.spawn(|| work(&clusters.usual, &queue, to_reports));
                    }
                });
            }
        });
        reports.iter().for_each(|report| summary.add(&report));
    });
    summary
}

/// Starts a special cluster if there are scenarios for it.
fn work_on(clusters: &Clusters, on: Special, scenarios: VecDeque<Scenario>, reports: Sender<Report>) {
    if scenarios.is_empty() {
        return;
    }
    let start = Instant::now();
    match clusters.start(on) {
        Ok(cluster) => work(&cluster, &Mutex::new(scenarios), reports),
        Err(error) => {
            for scenario in scenarios {
                let done = Err(anyhow!("its cluster does not start: {error:#}"));
                // Nobody else takes them off.
                let _ = reports.send(Report { scenario, done, time: start.elapsed() });
            }
        }
    }
}

fn work(cluster: &Cluster, queue: &Mutex<VecDeque<Scenario>>, reports: Sender<Report>) {
    let next = || queue.lock().ok()?.pop_front();
    while let Some(scenario) = next() {
        let start = Instant::now();
        let done = panic::catch_unwind(AssertUnwindSafe(|| (scenario.run)(cluster)))
            .unwrap_or_else(|panic| Err(anyhow!("panic: {}", panic_text(&*panic))));
        if reports.send(Report { scenario, done, time: start.elapsed() }).is_err() {
            return;
        }
    }
}

impl Summary {
    /// Counts a scenario and prints its line.
    fn add(&mut self, Report { scenario, done, time }: &Report) {
        let (name, seconds) = (scenario.name, time.as_secs_f64());
        match done {
            Ok(()) => {
                self.passed += 1;
                println!("passed   {name} ({seconds:.1} s)");
            }
            Err(error) => {
                self.failed += 1;
                println!("failed   {name} ({seconds:.1} s): {}", one_line(error));
            }
        }
    }
}

fn one_line(error: &Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
