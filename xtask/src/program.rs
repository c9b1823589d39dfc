//! Verbs that are programs of the package `tests`.
//!
//! They need the generated code, which may not compile just when `cargo xtask codegen` is wanted to write it anew. So
//! this package does without them and starts them.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::root;

#[derive(clap::Args)]
pub(crate) struct Paths {
    /// Files; vectors may be folders too
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Runs a program, which has said itself what is wrong if it fails.
pub(crate) fn run(name: &str, paths: &Paths) -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "tests", "--bin", name, "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .arg("--")
        .args(&paths.paths)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: `{name}` does not start: {error}");
            ExitCode::FAILURE
        }
    }
}
