//! Counts the allocations of all codecs.

use std::process::ExitCode;

use allocation_counter::{AllocationInfo, measure};
use bench::{
    harness::{Case, Operation, table},
    peers::{NOTES, OURS, Suite},
    workloads::{Workload, allocation_goal},
};
use clap::Parser;

/// Counts the allocations of all codecs.
#[derive(Parser)]
struct Arguments {
    /// Only rows with this text in `workload/message/operation`, as in `a/ShareFetchRequest/encode`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

/// What one run of a warm case allocates.
struct Count {
    workload: &'static str,
    codec: &'static str,
    operation: Operation,
    allocations: AllocationInfo,
}

impl Count {
    fn goal(&self) -> Option<u64> {
        allocation_goal(self.workload, self.operation).filter(|_| self.codec == OURS)
    }

    fn is_met(&self) -> Option<bool> {
        self.goal().map(|goal| self.allocations.count_total <= goal)
    }

    fn cell(&self) -> String {
        match self.allocations {
            AllocationInfo { count_total: 0, .. } => "0".to_owned(),
            AllocationInfo { count_total, bytes_total, bytes_max, .. } => {
                format!("{count_total} / {bytes_total} / {bytes_max}")
            }
        }
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
    let count = |case: &mut Case| {
        case.run(3);
        let allocations = measure(|| case.run(1));
        Count { workload: case.workload, codec: case.codec, operation: case.operation, allocations }
    };
    let counts: Vec<Count> = suite.cases.iter_mut().map(count).collect();

    for workload in &suite.workloads {
        print(workload, &suite.codecs(), &arguments.filter, &counts);
    }
    println!("Each cell: allocations / bytes of all of them / most bytes held at a time.");
    println!("A reallocation counts as an allocation of the new size.");
    println!("{NOTES}\n");
    summarize(&counts);
    ExitCode::SUCCESS
}

fn print(workload: &Workload, codecs: &[&str], filter: &str, counts: &[Count]) {
    let mut table = table(&[&["operation"], codecs, &["goal", "met"]].concat(), &["operation", "met"]);
    for operation in Suite::rows(workload, filter) {
        let of = |codec: &str| {
            counts.iter().find(|count| {
                (count.workload, count.codec, count.operation) == (workload.name, codec, operation)
            })
        };
        let ours = of(OURS).expect("ours does all operations");
        let mut row = vec![operation.name().to_owned()];
        row.extend(codecs.iter().map(|codec| of(codec).map_or(String::new(), Count::cell)));
        row.push(ours.goal().map_or(String::new(), |goal| format!("<= {goal}")));
        row.push(ours.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned());
        table.add_row(row);
    }
    println!("{workload}\n{table}\n");
}

fn summarize(counts: &[Count]) {
    let (met, missed): (Vec<_>, Vec<_>) =
        counts.iter().filter_map(|count| Some((count.is_met()?, count))).partition(|(met, _)| *met);
    println!("Goals met: {} of {}.", met.len(), met.len() + missed.len());
    for (_, count) in missed {
        println!("  missed: {} {}: {}", count.workload, count.operation.name(), count.cell());
    }
}
