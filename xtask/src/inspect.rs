//! `cargo xtask inspect`

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

/// What is behind the verb goes to the program that does it, `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    program::run(&["--package", "inspect"], &arguments.arguments)
}
