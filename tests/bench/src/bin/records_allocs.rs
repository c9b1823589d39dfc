//! Counts the allocations of reading and writing record batches.

use std::process::ExitCode;

use allocation_counter::{AllocationInfo, measure};
use bench::{
    harness::table,
    records::{ALONE, OURS, Suite, allocation_goal},
};
use clap::Parser;

/// Counts the allocations of reading and writing record batches.
#[derive(Parser)]
struct Arguments {
    /// Only rows with this text in `compression/operation`, as in `none/lazy`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut suite = match Suite::new(&arguments.filter) {
        Ok(suite) => suite,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            return ExitCode::FAILURE;
        }
    };
    let mut table = table(
        &["batch", "operation", "who", "allocations", "goal", "met"],
        &["batch", "operation", "who", "met"],
    );
    let mut goals = (0, 0);
    for case in suite.cases.iter_mut().filter(|case| case.codec != ALONE) {
        case.run(3);
        let AllocationInfo { count_total, bytes_total, bytes_max, .. } = measure(|| case.run(1));
        let goal = allocation_goal(case.workload, case.operation).filter(|_| case.codec == OURS);
        let is_met = goal.map(|goal| count_total <= goal);
        goals = (goals.0 + usize::from(is_met == Some(true)), goals.1 + usize::from(is_met.is_some()));
        table.add_row([
            case.workload.to_owned(),
            case.operation.name().to_owned(),
            case.codec.to_owned(),
            if count_total == 0 {
                "0".to_owned()
            } else {
                format!("{count_total} / {bytes_total} / {bytes_max}")
            },
            goal.map_or(String::new(), |goal| format!("<= {goal}")),
            is_met.map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    println!(
        "{table}\n\nallocations / bytes of all of them / most bytes held at a time. The C libraries' own do not show."
    );
    println!("\nGoals met: {} of {}.", goals.0, goals.1);
    ExitCode::SUCCESS
}
