//! Programs of other packages that are verbs here.
//!
//! They need the generated code. This program has to run when that does not compile, to write it anew.

use std::ffi::OsStr;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::root;

/// Runs a program, named in the words of `cargo run`, and passes its exit code on.
pub(crate) fn run(
    program: &[&str],
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<ExitCode> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(program)
        .arg("--")
        .args(arguments)
        .status()
        .with_context(|| format!("`cargo run {}` does not start", program.join(" ")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Builds something, named in the words of `cargo build`.
pub(crate) fn build(what: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(what)
        .status()
        .context("`cargo build` does not start")?;
    ensure!(status.success(), "`cargo build {}` failed", what.join(" "));
    Ok(())
}
