//! Times all codecs, interleaved in one run, and compares ours with the fastest peer.

use std::{iter::zip, process::ExitCode, time::Duration};

use bench::{
    harness::{Operation, Timing, table, time},
    peers::{NOTES, OURS, Suite},
    workloads::{Workload, goal},
};
use clap::Parser;

/// Times all codecs, interleaved in one run, and compares ours with the fastest peer.
#[derive(Parser)]
struct Arguments {
    /// Only rows with this text in `workload/message/operation`, as in `a/ShareFetchRequest/encode`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// How often each case is sampled
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long a sample takes
    #[arg(long, value_name = "X", default_value = "2", value_parser = milliseconds)]
    sample_ms: Duration,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let milliseconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(milliseconds / 1e3).map_err(|error| error.to_string())
}

/// Ours beside the fastest peer.
struct Row<'a> {
    workload: &'static str,
    operation: Operation,
    ours: &'a Timing,
    peer: &'static str,
    theirs: &'a Timing,
}

impl Row<'_> {
    fn ratio(&self) -> f64 {
        self.ours.ratio(self.theirs)
    }

    fn goal(&self) -> Option<f64> {
        goal(self.workload, self.operation)
    }

    fn is_met(&self) -> Option<bool> {
        self.goal().map(|goal| self.ratio() <= goal)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut suite = match Suite::new(&arguments.filter) {
        Ok(suite) => suite,
        Err(mismatches) => {
            mismatches.iter().for_each(|mismatch| eprintln!("{mismatch}"));
            return ExitCode::FAILURE;
        }
    };
    let timings = time(&mut suite.cases, arguments.rounds as usize, arguments.sample_ms);

    let mut rows = Vec::new();
    for workload in &suite.workloads {
        let of_workload: Vec<Row<'_>> = Suite::rows(workload, &arguments.filter)
            .map(|operation| row(&suite, &timings, workload, operation))
            .collect();
        print(workload, &of_workload);
        rows.extend(of_workload);
    }
    println!("ns: the median of the rounds. ratio: the median of the ratios of the rounds.\n{NOTES}\n");
    summarize(&rows, &timings);
    ExitCode::SUCCESS
}

fn row<'a>(suite: &Suite, timings: &'a [Timing], workload: &Workload, operation: Operation) -> Row<'a> {
    let of = |operation: Operation| {
        zip(&suite.cases, timings)
            .filter(move |(case, _)| case.workload == workload.name && case.operation == operation)
            .map(|(case, timing)| (case.codec, timing))
    };
    let (_, ours) = of(operation).find(|&(codec, _)| codec == OURS).expect("ours does all operations");
    let (peer, theirs) = of(operation.of_peers())
        .filter(|&(codec, _)| codec != OURS)
        .min_by(|(_, one), (_, other)| one.median().total_cmp(&other.median()))
        .expect("each operation of peers has peers");
    Row { workload: workload.name, operation, ours, peer, theirs }
}

fn print(workload: &Workload, rows: &[Row<'_>]) {
    let mut table = table(
        &["operation", "ours ns", "fastest peer", "peer ns", "ratio", "goal", "met"],
        &["operation", "fastest peer", "met"],
    );
    for row in rows {
        table.add_row([
            row.operation.name().to_owned(),
            format!("{:.1}", row.ours.median()),
            row.peer.to_owned(),
            format!("{:.1}", row.theirs.median()),
            format!("{:.3}", row.ratio()),
            row.goal().map_or(String::new(), |goal| format!("<= {goal:.2}")),
            row.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    println!("{workload}\n{table}\n");
}

fn summarize(rows: &[Row<'_>], timings: &[Timing]) {
    let with_goal: Vec<bool> = rows.iter().filter_map(Row::is_met).collect();
    let met = with_goal.iter().filter(|&&met| met).count();
    println!("Goals met: {met} of {}.", with_goal.len());
    for row in rows.iter().filter(|row| row.is_met() == Some(false)) {
        println!("  missed: {}", describe(row));
    }
    let faster = rows.iter().filter(|row| row.ratio() < 1.0).count();
    println!("Ours faster than every peer: {faster} of {} rows.", rows.len());
    if let Some(worst) = rows.iter().max_by(|one, other| one.ratio().total_cmp(&other.ratio())) {
        println!("  closest: {}", describe(worst));
    }
    let mut spreads: Vec<f64> = timings.iter().map(|timing| timing.spread() * 100.0).collect();
    spreads.sort_by(f64::total_cmp);
    if let (Some(usual), Some(worst)) = (spreads.get(spreads.len() / 2), spreads.last()) {
        println!("Distance of the quartiles of a case: {usual:.1} % of its median, at worst {worst:.1} %.");
        println!("  On a quiet machine the first is below 3 %; with much more, single rows mean little.");
    }
}

fn describe(row: &Row<'_>) -> String {
    let goal = row.goal().map_or(String::new(), |goal| format!(", goal {goal:.2}"));
    format!("{} {}: {:.3} of {}{goal}", row.workload, row.operation.name(), row.ratio(), row.peer)
}
