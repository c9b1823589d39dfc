//! `cargo xtask inspect`

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::root;

/// What is behind the verb goes to the program that does it, `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<OsString>,
}

/// A program of its own, as it needs the generated code: this one must run when that does not compile.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "inspect", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .arg("--")
        .args(&arguments.arguments)
        .status()
        .context("`cargo run --package inspect` does not start")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
