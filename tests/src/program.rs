//! What the programs that run cases have in common.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::{env, panic};

use anyhow::Result;

use crate::reports::Report;
use crate::vectors::Outcome;

/// Runs a program with its arguments: prints the notes and a line for each failure, then the outcome, and fails if there
/// are failures or the cases cannot be run.
pub fn program(run: impl FnOnce(Vec<OsString>) -> Result<Report>) -> ExitCode {
    // The message of a panic is part of the line about its case.
    panic::set_hook(Box::new(|_| {}));
    let Report { notes, outcome } = match run(env::args_os().skip(1).collect()) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    for line in notes.iter().chain(&outcome.failures) {
        println!("{line}");
    }
    println!("{outcome}");
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the cases of each of these files and folders.
///
/// # Errors
///
/// The first one of `run`.
pub fn each(paths: Vec<OsString>, run: impl Fn(&Path) -> Result<Outcome>) -> Result<Report> {
    let mut outcome = Outcome::default();
    for path in paths {
        outcome.add(run(Path::new(&path))?);
    }
    Ok(Report { notes: Vec::new(), outcome })
}
