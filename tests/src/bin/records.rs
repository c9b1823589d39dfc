//! `cargo xtask records`: a program of its own, as `vectors`.

use std::path::Path;
use std::process::ExitCode;
use std::{env, panic};

use anyhow::{Context, Result};
use tests::records::{run, verify};
use tests::vectors::Outcome;

fn main() -> ExitCode {
    // The message of a panic is part of the line about its case.
    panic::set_hook(Box::new(|_| {}));
    let outcome = match outcome() {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    for failure in &outcome.failures {
        println!("{failure}");
    }
    println!("{outcome}");
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Of `--verify COUNT SEED`, or of files and folders.
fn outcome() -> Result<Outcome> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if let [verb, numbers @ ..] = &arguments[..]
        && verb == "--verify"
    {
        let number = |at: usize| numbers.get(at)?.to_str()?.parse::<u64>().ok();
        let count = number(0).context("--verify COUNT SEED")?;
        return verify(count, number(1).context("--verify COUNT SEED")?);
    }
    let mut outcome = Outcome::default();
    for path in arguments {
        outcome.add(run(Path::new(&path))?);
    }
    Ok(outcome)
}
