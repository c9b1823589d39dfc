//! Share consumers against brokers in memory: simulated time, connections that break or swallow what is sent, answers of
//! different nodes in any order, leaders that change, brokers and consumers that are restarted.
//!
//! A schedule is its seed. One that fails tells the seed; `SHARE_SIMULATION_SEED=7 cargo test -p tests share_simulation`
//! runs that one alone and prints what happens in it.

mod app;
mod model;
mod network;
mod plan;

use std::panic;
use std::time::Duration;
use std::{env, thread};

use kafka_protocol::share::RecordAcknowledgements;
use kafka_protocol::share::broker::Cluster;

use self::app::App;
use self::model::Model;
use self::network::Network;
use self::plan::{Chaos, Plan};
use crate::random::Random;

/// How many schedules are run.
const SCHEDULES: u64 = 10_000;

/// A schedule that takes longer, of its own time, never comes to its end.
const PATIENCE: Duration = Duration::from_secs(900);

#[test]
fn no_schedule_breaks_an_invariant() {
    if let Ok(seed) = env::var("SHARE_SIMULATION_SEED") {
        let seed = seed.parse().expect("a number");
        run(seed, true).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        return;
    }
    let threads = thread::available_parallelism().map_or(2, usize::from) as u64;
    let totals: Vec<Result<Totals, String>> = thread::scope(|scope| {
        let run_all = |first: u64| {
            let mut totals = Totals::default();
            for seed in (first..SCHEDULES).step_by(threads as usize) {
                let outcome = panic::catch_unwind(|| run(seed, false));
                let outcome = outcome.unwrap_or_else(|_| Err("a panic, as told above".into()));
                totals.add(&outcome.map_err(|error| format!("seed {seed}: {error}"))?);
            }
            Ok(totals)
        };
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || run_all(first))).collect();
        workers.into_iter().map(|worker| worker.join().expect("it catches panics")).collect()
    });
    let mut all = Totals::default();
    for of in totals {
        all.add(&of.unwrap_or_else(|error| panic!("{error}")));
    }
    println!("{all:?}");
    // The schedules reach what they are for.
    for (what, count) in all.each() {
        assert!(count >= 100, "{what} happened {count} times in {SCHEDULES} schedules");
    }
}

/// What happened, in all schedules.
#[derive(Debug, Default)]
struct Totals {
    accepted: u64,
    rejected: u64,
    released: u64,
    renewed: u64,
    redelivered: u64,
    failed_acknowledgements: u64,
    dropped: u64,
    gaps: u64,
    broken_connections: u64,
    leader_changes: u64,
    restarts: u64,
    killed_consumers: u64,
    closed_consumers: u64,
    given_up: u64,
    expired_polls: u64,
}

impl Totals {
    fn each(&self) -> [(&'static str, u64); 15] {
        [
            ("accept", self.accepted),
            ("reject", self.rejected),
            ("release", self.released),
            ("renewal", self.renewed),
            ("redelivery", self.redelivered),
            ("a failed acknowledgement", self.failed_acknowledgements),
            ("a dropped record", self.dropped),
            ("a gap", self.gaps),
            ("a broken connection", self.broken_connections),
            ("a leader change", self.leader_changes),
            ("a restart", self.restarts),
            ("a killed consumer", self.killed_consumers),
            ("a closed consumer", self.closed_consumers),
            ("the delivery limit", self.given_up),
            ("the end of a poll interval", self.expired_polls),
        ]
    }

    fn add(&mut self, of: &Self) {
        let Self {
            accepted,
            rejected,
            released,
            renewed,
            redelivered,
            failed_acknowledgements,
            dropped,
            gaps,
            broken_connections,
            leader_changes,
            restarts,
            killed_consumers,
            closed_consumers,
            given_up,
            expired_polls,
        } = of;
        self.accepted += accepted;
        self.rejected += rejected;
        self.released += released;
        self.renewed += renewed;
        self.redelivered += redelivered;
        self.failed_acknowledgements += failed_acknowledgements;
        self.dropped += dropped;
        self.gaps += gaps;
        self.broken_connections += broken_connections;
        self.leader_changes += leader_changes;
        self.restarts += restarts;
        self.killed_consumers += killed_consumers;
        self.closed_consumers += closed_consumers;
        self.given_up += given_up;
        self.expired_polls += expired_polls;
    }
}

fn run(seed: u64, trace: bool) -> Result<Totals, String> {
    let mut simulation = Simulation::new(seed, trace);
    simulation.run()?;
    Ok(simulation.totals)
}

/// A schedule on its way.
struct Simulation {
    random: Random,
    trace: bool,
    now: Duration,
    plan: Plan,
    cluster: Cluster,
    network: Network,
    apps: Vec<App>,
    model: Model,
    totals: Totals,
}

impl Simulation {
    fn new(seed: u64, trace: bool) -> Self {
        let mut random = Random::new("share simulation", 0, seed);
        let mut plan = Plan::new(&mut random);
        let (cluster, model) = plan.build(&mut random);
        let apps =
            (0..plan.consumers).map(|number| App::new(number, &plan, &mut random, Duration::ZERO)).collect();
        Self {
            random,
            trace,
            now: Duration::ZERO,
            plan,
            cluster,
            network: Network::default(),
            apps,
            model,
            totals: Totals::default(),
        }
    }

    /// Runs until all records are done with.
    fn run(&mut self) -> Result<(), String> {
        for app in 0..self.apps.len() {
            self.run_app(app)?;
        }
        while !self.is_over() {
            self.now = self.next_time();
            if self.now > PATIENCE {
                return Err(format!("records are left: {}", self.model.left(&self.cluster)));
            }
            while let Some(chaos) = self.plan.take_due(self.now) {
                self.wreak(chaos);
            }
            while let Some(event) = self.network.take_due(self.now) {
                self.arrive(event)?;
            }
            self.take_replies();
            for app in 0..self.apps.len() {
                if self.apps[app].wake_at <= self.now {
                    self.run_app(app)?;
                }
            }
        }
        self.model.check_the_end(&self.cluster, &self.plan, &mut self.totals)
    }

    /// All faults are behind, and no record is left.
    fn is_over(&self) -> bool {
        self.plan.is_quiet() && self.model.is_done(&self.cluster) && self.apps.iter().all(App::is_settled)
    }

    fn next_time(&self) -> Duration {
        let apps = self.apps.iter().map(|app| app.wake_at);
        let others = [self.cluster.next_deadline(), self.network.next_time(), self.plan.next_time()];
        let next = apps.chain(others.into_iter().flatten()).min().unwrap_or(Duration::MAX);
        next.max(self.now)
    }

    fn wreak(&mut self, chaos: Chaos) {
        self.tell(|| format!("{chaos:?}"));
        match chaos {
            Chaos::Append(partition) => self.model.append(&mut self.cluster, partition, &mut self.random),
            Chaos::Break => {
                if let Some((connection, app)) = self.network.pick(&mut self.random) {
                    self.totals.broken_connections += 1;
                    self.model.may_lose(app);
                    self.network.break_off(connection, self.now, &mut self.random);
                }
            }
            Chaos::Swallow => {
                if let Some((connection, app)) = self.network.pick(&mut self.random) {
                    self.totals.broken_connections += 1;
                    self.model.may_lose(app);
                    self.network.swallow(connection, self.now);
                }
            }
            Chaos::Lead(partition, node) => {
                self.totals.leader_changes += 1;
                self.model.leader_changes(partition);
                self.cluster.set_leader(self.now, partition, Some(node));
            }
            Chaos::Stop(node) => {
                self.totals.restarts += 1;
                for connection in self.cluster.stop(self.now, node) {
                    self.network.closed_by_node(connection, self.now, &mut self.random);
                }
                self.model.all_leaders_change();
            }
            Chaos::Start(node) => self.cluster.start(node),
            Chaos::Kill(app) => {
                self.totals.killed_consumers += 1;
                self.model.may_lose(app);
                self.network.close_all(app, self.now, &mut self.random);
                self.apps[app] = self.apps[app].successor(&self.plan, &mut self.random, self.now);
            }
            Chaos::Close(app) => {
                self.totals.closed_consumers += 1;
                self.model.may_lose(app);
                self.apps[app].close(self.now);
            }
            Chaos::LockDuration(duration) => {
                self.plan.set_lock_duration(&mut self.cluster, duration);
            }
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>9.3} {}", self.now.as_secs_f64(), what());
        }
    }
}

/// Counts of one type over all nodes.
fn counted(metrics: &RecordAcknowledgements, ty: kafka_protocol::protocol::AcknowledgeType) -> u64 {
    metrics.meter(ty).map_or(0, kafka_protocol::share::Meter::count)
}
