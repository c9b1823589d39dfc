//! Counts the allocations of share groups; fails if a goal is missed.

use std::process::ExitCode;

use allocation_counter::measure;
use bench_share::counted;

fn main() -> ExitCode {
    let mut met = true;
    println!("{:<78} {:>8} {:>12} {:>6}", "", "allocs", "bytes", "goal");
    for mut row in counted() {
        (row.run)();
        let info = measure(|| (row.run)());
        let is_met = row.goal.is_none_or(|goal| info.count_total <= goal);
        met &= is_met;
        println!(
            "{:<78} {:>8} {:>12} {:>6}{}",
            row.name,
            info.count_total,
            info.bytes_total,
            row.goal.map_or(String::new(), |goal| format!("<= {goal}")),
            if is_met { "" } else { "  MISSED" },
        );
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
