//! The tasks of this workspace: `cargo xtask <verb>`.

mod bench;
mod broker;
mod codegen;
mod e2e;
mod inspect;
mod program;
mod records;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of this workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compiles message schemas into Rust: those of this workspace, or those of --messages
    Codegen(codegen::Arguments),
    /// Compares speed and allocations with other crates; needs minutes to build them
    Bench(bench::Arguments),
    /// Runs golden vectors of Kafka, files or folders, against the generated codecs and the interpreter
    Vectors(Paths),
    /// Runs record batches of Kafka, files or folders, or has Kafka read batches
    Records(records::Arguments),
    /// Runs public bug reports, a file of them, as test cases against both codecs and the generator
    Cases(Paths),
    /// Starts and stops a Kafka cluster for tests; needs Java 17 and Maven
    Broker(broker::Arguments),
    /// Runs scenarios on Kafka clusters, some of them on one that --broker names; needs Java 17 and Maven
    E2e(e2e::Arguments),
    /// Replays walks over a share partition, a file of them, against the acquisition locks
    Walks(Paths),
    /// Says what each byte of a message, of a frame or of a recording means
    Inspect(inspect::Arguments),
}

#[derive(clap::Args)]
struct Paths {
    /// Files; vectors may be folders too
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Codegen(arguments) => codegen::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::Bench(arguments) => bench::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::Vectors(paths) => program::run(&["--package", "tests", "--bin", "vectors"], paths.paths),
        Verb::Cases(paths) => program::run(&["--package", "tests", "--bin", "cases"], paths.paths),
        Verb::Broker(arguments) => broker::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::E2e(arguments) => e2e::run(&arguments),
        Verb::Walks(paths) => program::run(&["--package", "tests", "--bin", "walks"], paths.paths),
        Verb::Records(arguments) => records::run(&arguments),
        Verb::Inspect(arguments) => inspect::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace, wherever the command was started.
fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}
