//! `cargo xtask walks`: a program of its own, as `vectors`.

use std::path::Path;
use std::process::ExitCode;
use std::{env, panic};

use tests::vectors::Outcome;
use tests::walks::run;

fn main() -> ExitCode {
    // The message of a panic is part of the line about its walk.
    panic::set_hook(Box::new(|_| {}));
    let mut outcome = Outcome::default();
    for path in env::args_os().skip(1) {
        match run(Path::new(&path)) {
            Ok(more) => outcome.add(more),
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    for failure in &outcome.failures {
        println!("{failure}");
    }
    println!("{outcome}");
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
