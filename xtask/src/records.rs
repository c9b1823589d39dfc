//! `cargo xtask records`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files, or folders of them
    #[arg(required_unless_present = "verify", value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Writes random batches and has Kafka's own reader read them; needs Java 17, Maven and unzip
    #[arg(long, conflicts_with = "paths")]
    verify: bool,

    /// How many buffers of batches Kafka reads
    #[arg(long, value_name = "N", requires = "verify", default_value_t = 400)]
    count: u32,

    /// Of the random batches: the same seed gives the same ones
    #[arg(long, value_name = "S", requires = "verify", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { paths, verify, count, seed } = arguments;
    let words: Vec<OsString> = if *verify {
        ["--verify".to_owned(), count.to_string(), seed.to_string()].map(OsString::from).into()
    } else {
        paths.iter().map(|path| path.clone().into_os_string()).collect()
    };
    program::run(&["--package", "tests", "--bin", "records"], words)
}
