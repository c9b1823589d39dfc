//! `cargo xtask e2e`

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::broker::{self, Cluster};
use crate::{program, root};

/// How many brokers the scenarios need.
const BROKERS: u16 = 2;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A broker of a cluster that runs already, otherwise one is started and stopped. Scenarios that need another kind of
    /// cluster have one of their own in any case
    #[arg(long, value_name = "HOST:PORT")]
    broker: Option<String>,

    /// Only scenarios whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// How many scenarios run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Before anything is started: the longest wait, and the one for which something may be missing.
    let class_path = broker::class_path(None)?;
    program::build(&["--package", "driver", "--examples"])?;
    let clusters = root().join("target/broker/e2e");
    broker::stop_all(&clusters)?; // of a run that was interrupted
    let done = scenarios(arguments, &clusters, &class_path);
    broker::stop_all(&clusters)?;
    done
}

/// Runs the scenarios, which start more clusters in the folder `clusters` if they need them.
fn scenarios(arguments: &Arguments, clusters: &Path, class_path: &str) -> Result<ExitCode> {
    let address = match &arguments.broker {
        Some(address) => address.clone(),
        None => broker::start(&clusters.join("usual"), &Cluster { brokers: BROKERS, ..Default::default() })?,
    };
    let mut passed_on: Vec<OsString> = vec!["--broker".into(), address.into()];
    passed_on.extend(["--java".into(), broker::tool("java")]);
    passed_on.extend(["--class-path".into(), class_path.into()]);
    passed_on.extend(["--xtask".into(), env::current_exe()?.into()]);
    passed_on.extend(["--clusters".into(), clusters.into()]);
    passed_on.extend(arguments.filter.iter().flat_map(|text| ["--filter".into(), text.into()]));
    passed_on.extend(arguments.jobs.iter().flat_map(|jobs| ["--jobs".into(), jobs.to_string().into()]));
    program::run(&["--package", "tests", "--bin", "e2e"], passed_on)
}
