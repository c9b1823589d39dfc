//! Times share groups beside collections, interleaved in one run; fails if a goal is missed.

use std::process::ExitCode;
use std::time::Duration;

use bench_share::{Row, rows};

/// How often each pair is timed, unless the first argument says so.
const ROUNDS: usize = 60;

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let mut met = true;
    println!("{:<78} {:>9} {:>9} {:>6} {:>7}  beside", "", "ns", "ns beside", "ratio", "goal");
    for mut row in rows() {
        let (ours, other, ratio) = measure(&mut row, rounds);
        let is_met = ratio <= row.goal;
        met &= is_met;
        println!(
            "{:<78} {ours:>9.2} {other:>9.2} {ratio:>6.2} {:>7}  {}{}",
            row.name,
            format!("<= {}", row.goal),
            row.beside,
            if is_met { "" } else { "  MISSED" },
        );
    }
    println!(
        "ns: of one record, acknowledgement or lock, the median of {rounds} rounds. ratio: the median of theirs."
    );
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Nanoseconds of an item of ours and of the other, and the ratio.
fn measure(row: &mut Row, rounds: usize) -> (f64, f64, f64) {
    (row.ours)();
    (row.other)();
    let mut times: Vec<(Duration, Duration)> = Vec::new();
    for round in 0..rounds {
        // Each is first as often as second.
        times.push(if round % 2 == 0 {
            let ours = (row.ours)();
            (ours, (row.other)())
        } else {
            let other = (row.other)();
            ((row.ours)(), other)
        });
    }
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / row.items as f64;
    let ratio = |&(ours, other): &(Duration, Duration)| ours.as_secs_f64() / other.as_secs_f64();
    (
        median(times.iter().map(|times| ns(times.0))),
        median(times.iter().map(|times| ns(times.1))),
        median(times.iter().map(ratio)),
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
