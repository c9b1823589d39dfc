//! `cargo xtask e2e`

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::{broker, program, root};

/// How many brokers the scenarios need.
const BROKERS: u16 = 2;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A broker of a cluster that runs already, otherwise one is started and stopped
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
    let class_path = broker::class_path()?;
    program::build(&["--package", "driver", "--examples"])?;
    if let Some(address) = &arguments.broker {
        return scenarios(arguments, address, &class_path);
    }
    let folder = root().join("target/broker/e2e");
    broker::stop(&folder)?; // of a run that was interrupted
    let address = broker::start(&folder, BROKERS, None, &[])?;
    let done = scenarios(arguments, &address, &class_path);
    broker::stop(&folder)?;
    done
}

fn scenarios(arguments: &Arguments, address: &str, class_path: &str) -> Result<ExitCode> {
    let mut passed_on: Vec<OsString> = vec!["--broker".into(), address.into()];
    passed_on.extend(["--java".into(), broker::tool("java")]);
    passed_on.extend(["--class-path".into(), class_path.into()]);
    passed_on.extend(arguments.filter.iter().flat_map(|text| ["--filter".into(), text.into()]));
    passed_on.extend(arguments.jobs.iter().flat_map(|jobs| ["--jobs".into(), jobs.to_string().into()]));
    program::run(&["--package", "tests", "--bin", "e2e"], passed_on)
}
