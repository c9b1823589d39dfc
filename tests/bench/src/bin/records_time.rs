//! Times reading and writing of record batches, interleaved in one run.

use std::{iter::zip, process::ExitCode, time::Duration};

use bench::{
    harness::{Timing, table, time},
    records::{ALONE, NOTES, OURS, Operation, Suite, goal},
};
use clap::Parser;

/// Times reading and writing of record batches, interleaved in one run.
#[derive(Parser)]
struct Arguments {
    /// Only rows with this text in `compression/operation`, as in `none/lazy`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// How often each case is sampled
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Ours beside the fastest peer and beside the codec alone.
struct Row<'a> {
    batch: &'static str,
    operation: Operation,
    ours: &'a Timing,
    peer: (&'static str, &'a Timing),
    alone: Option<&'a Timing>,
}

impl Row<'_> {
    fn of_peer(&self) -> f64 {
        self.ours.ratio(self.peer.1)
    }

    fn of_alone(&self) -> Option<f64> {
        self.alone.map(|alone| self.ours.ratio(alone))
    }

    fn goal(&self) -> Option<f64> {
        goal(self.batch, self.operation)
    }

    /// Compressed batches are measured by the codec alone.
    fn is_met(&self) -> Option<bool> {
        let ratio = self.of_alone().unwrap_or_else(|| self.of_peer());
        self.goal().map(|goal| ratio <= goal)
    }
}

fn main() -> ExitCode {
    const SAMPLE: Duration = Duration::from_millis(5);
    let arguments = Arguments::parse();
    let mut suite = match Suite::new(&arguments.filter) {
        Ok(suite) => suite,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            return ExitCode::FAILURE;
        }
    };
    let timings = time(&mut suite.cases, arguments.rounds as usize, SAMPLE);

    let mut rows = Vec::new();
    for &(batch, size) in &suite.batches {
        let operations = Suite::rows(batch, &arguments.filter);
        let of_batch: Vec<Row<'_>> =
            operations.map(|operation| row(&suite, &timings, batch, operation)).collect();
        print(batch, size, &of_batch);
        rows.extend(of_batch);
    }
    println!("us: the median of the rounds. ratio: the median of the ratios of the rounds.\n{NOTES}\n");
    let met: Vec<bool> = rows.iter().filter_map(Row::is_met).collect();
    println!("Goals met: {} of {}.", met.iter().filter(|&&met| met).count(), met.len());
    let mut spreads: Vec<f64> = timings.iter().map(|timing| timing.spread() * 100.0).collect();
    spreads.sort_by(f64::total_cmp);
    if let (Some(usual), Some(worst)) = (spreads.get(spreads.len() / 2), spreads.last()) {
        println!("Distance of the quartiles of a case: {usual:.1} % of its median, at worst {worst:.1} %.");
    }
    ExitCode::SUCCESS
}

fn row<'a>(suite: &Suite, timings: &'a [Timing], batch: &'static str, operation: Operation) -> Row<'a> {
    let of_row = || {
        zip(&suite.cases, timings)
            .filter(move |(case, _)| case.workload == batch && case.operation == operation)
            .map(|(case, timing)| (case.codec, timing))
    };
    let of = |who| of_row().find(|&(codec, _)| codec == who).map(|(_, timing)| timing);
    let peer = of_row()
        .filter(|&(codec, _)| codec != OURS && codec != ALONE)
        .min_by(|(_, one), (_, other)| one.median().total_cmp(&other.median()))
        .expect("each operation has peers");
    Row { batch, operation, ours: of(OURS).expect("ours does all operations"), peer, alone: of(ALONE) }
}

fn print(batch: &str, size: usize, rows: &[Row<'_>]) {
    let mut table = table(
        &[
            "operation",
            "ours us",
            "fastest peer",
            "peer us",
            "ratio",
            "codec alone us",
            "ratio to it",
            "goal",
            "met",
        ],
        &["operation", "fastest peer", "met"],
    );
    let us = |timing: &Timing| format!("{:.2}", timing.median() / 1e3);
    for row in rows {
        table.add_row([
            row.operation.name().to_owned(),
            us(row.ours),
            row.peer.0.to_owned(),
            us(row.peer.1),
            format!("{:.3}", row.of_peer()),
            row.alone.map_or(String::new(), us),
            row.of_alone().map_or(String::new(), |ratio| format!("{ratio:.3}")),
            row.goal().map_or(String::new(), |goal| format!("<= {goal:.2}")),
            row.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    println!("{batch}: {size} bytes\n{table}\n");
}
