//! `cargo xtask codegen`

use std::env;
use std::path::PathBuf;

use anyhow::Result;
use codegen::command::{self, CoverageArguments, Set};

use crate::root;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tell which files are stale, missing or orphaned, and how to repair it
    #[arg(long)]
    check: bool,

    /// A folder with schemas of your own; each sub-folder becomes a module
    #[arg(long, value_name = "DIR", requires = "out")]
    messages: Option<PathBuf>,

    /// The folder that the Rust files go to; mount its mod.rs as a module
    #[arg(long, value_name = "DIR", requires = "messages")]
    out: Option<PathBuf>,

    /// Where generated code finds the runtime [default: kafka_protocol]
    #[arg(long, value_name = "PATH", requires = "messages")]
    runtime: Option<String>,

    #[command(flatten)]
    coverage: CoverageArguments,
}

/// The sets of this workspace: schemas, generated files, the path of the runtime, whether it is that of the crate.
const SETS: &[(&str, &str, &str, bool)] = &[
    ("messages", "kafka-protocol/src/messages", "crate", true),
    ("tests/schemas/kip-1222", "tests/src/kip_1222", "kafka_protocol", false),
    ("tests/schemas/features", "tests/src/features", "kafka_protocol", false),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let (Some(messages), Some(out)) = (&arguments.messages, &arguments.out) {
        let (messages, out, runtime) = (messages.clone(), out.clone(), arguments.runtime.clone());
        let set = Set { messages, out, runtime, coverage: arguments.coverage, protocol: false };
        let repair = format!("cargo xtask codegen {set}");
        return command::run(&set, arguments.check, &repair);
    }
    // Paths in messages lead from the root.
    env::set_current_dir(root())?;
    let sets = SETS.iter().map(|&(messages, out, runtime, protocol)| Set {
        messages: PathBuf::from(messages),
        out: PathBuf::from(out),
        runtime: Some(runtime.to_owned()),
        coverage: CoverageArguments { complete: protocol, partial: !protocol },
        protocol,
    });
    let failures = sets
        .filter_map(|set| command::run(&set, arguments.check, "cargo xtask codegen").err())
        .inspect(|error| eprintln!("error: {error:#}"));
    match failures.count() {
        0 => Ok(()),
        n => anyhow::bail!("{n} of {} sets failed", SETS.len()),
    }
}
