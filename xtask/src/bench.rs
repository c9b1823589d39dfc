//! `cargo xtask bench`

mod build;

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root;

/// The benchmark of the codecs.
const CODECS: &str = "tests/bench/Cargo.toml";

/// The benchmark of share groups.
const SHARE: &str = "tests/bench/share/Cargo.toml";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Only workloads whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// How often each case is measured
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Compares reading and writing of record batches with other crates and with the compression alone
    Records {
        /// Only rows with this in `compression/operation`, as in `none/lazy`
        #[arg(long, value_name = "TEXT")]
        filter: Option<String>,

        /// How often each case is measured
        #[arg(long, value_name = "N")]
        rounds: Option<u32>,
    },
    /// Compares what it costs to compile the crate with a peer, and tells the size of a program; needs minutes
    Build,
    /// Times the state machines of share groups beside collections, and counts their allocations; fails if a goal is missed
    Share {
        /// How often each pair is timed
        #[arg(long, value_name = "N")]
        rounds: Option<u32>,
    },
}

/// Times everything in one interleaved run, then counts allocations in another build, as counting costs time.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Some(Verb::Build) => build::run(),
        Some(Verb::Share { rounds }) => share(*rounds),
        Some(Verb::Records { filter, rounds }) => {
            measure(["records_time", "records_allocs"], filter.as_deref(), *rounds)
        }
        None => measure(["time", "allocs"], arguments.filter.as_deref(), arguments.rounds),
    }
}

fn measure([time, allocs]: [&str; 2], filter: Option<&str>, rounds: Option<u32>) -> Result<()> {
    let filter = filter.iter().flat_map(|text| ["--filter".to_owned(), (*text).to_owned()]);
    let rounds = rounds.iter().flat_map(|n| ["--rounds".to_owned(), n.to_string()]);
    let filter: Vec<String> = filter.collect();
    binary(CODECS, time, filter.iter().cloned().chain(rounds))?;
    binary(CODECS, allocs, filter)
}

fn share(rounds: Option<u32>) -> Result<()> {
    // Both are run, whatever comes of the first.
    let time = binary(SHARE, "time", rounds.map(|rounds| rounds.to_string()));
    let allocs = binary(SHARE, "allocs", None);
    time.and(allocs)
}

fn binary(package: &str, name: &str, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        // One of the compared crates asks for a newer compiler than it needs.
        .args(["run", "--quiet", "--release", "--ignore-rust-version", "--manifest-path"])
        .arg(root().join(package))
        .args(["--bin", name, "--"])
        .args(arguments)
        .status()
        .with_context(|| format!("the benchmark `{name}` does not start"))?;
    ensure!(status.success(), "the benchmark `{name}` failed");
    Ok(())
}
