//! `cargo xtask cases`: a program of its own, as `vectors`.

use std::path::Path;
use std::process::ExitCode;
use std::{env, panic};

use tests::reports::{Report, run};

fn main() -> ExitCode {
    // The message of a panic is part of the line about its case.
    panic::set_hook(Box::new(|_| {}));
    let mut all = Report::default();
    for path in env::args_os().skip(1) {
        match run(Path::new(&path)) {
            Ok(report) => {
                all.outcome.add(report.outcome);
                all.notes.extend(report.notes);
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    for line in all.notes.iter().chain(&all.outcome.failures) {
        println!("{line}");
    }
    println!("{}", all.outcome);
    if all.outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
