//! `cargo xtask records`: a program of its own, as `vectors`.

use std::process::ExitCode;

use anyhow::Context;
use tests::program::{each, program};
use tests::records::{run, verify};
use tests::reports::Report;

/// Takes `--verify COUNT SEED`, or files and folders.
fn main() -> ExitCode {
    program(|arguments| match &arguments[..] {
        [verb, numbers @ ..] if verb == "--verify" => {
            let number = |at: usize| numbers.get(at)?.to_str()?.parse::<u64>().ok();
            let count = number(0).context("--verify COUNT SEED")?;
            let outcome = verify(count, number(1).context("--verify COUNT SEED")?)?;
            Ok(Report { notes: Vec::new(), outcome })
        }
        _ => each(arguments, run),
    })
}
