//! Compiles a folder of message schemas into Rust.

use std::process::ExitCode;

use clap::Parser;
use codegen::command::{Set, run};

/// Compiles a folder of Apache Kafka's JSON message schemas into Rust
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    set: Set,

    /// Only tell which files are stale, missing or orphaned
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let Arguments { set, check } = Arguments::parse();
    let repair = format!("codegen {set}");
    match run(&set, check, &repair) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
