//! `cargo xtask e2e`: a program of its own, as `vectors`. That task starts the usual cluster, tells the class path, and
//! stops all clusters.

use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tests::e2e::{Cluster, Clusters, Java, run};

/// Runs scenarios on a Kafka cluster
#[derive(Parser)]
#[command(name = "cargo xtask e2e", bin_name = "cargo xtask e2e")]
struct Arguments {
    /// A broker of the cluster
    #[arg(long, value_name = "HOST:PORT")]
    broker: String,

    /// The `java` to start Kafka's own consumer with
    #[arg(long, value_name = "PATH")]
    java: String,

    /// The class path of Kafka's own consumer
    #[arg(long, value_name = "JARS")]
    class_path: String,

    /// The program that starts more clusters
    #[arg(long, value_name = "PATH")]
    xtask: PathBuf,

    /// Where those clusters are
    #[arg(long, value_name = "FOLDER")]
    clusters: PathBuf,

    /// Only scenarios whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// How many scenarios run at the same time
    #[arg(long, value_name = "N", default_value_t = 6)]
    jobs: usize,
}

fn main() -> ExitCode {
    // The message of a panic is part of the line about its scenario.
    panic::set_hook(Box::new(|_| {}));
    match scenarios(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn scenarios(arguments: Arguments) -> Result<ExitCode> {
    let java = Java { command: arguments.java, class_path: arguments.class_path };
    let usual = Cluster::new(&arguments.broker, java)?;
    let clusters = Clusters { usual, xtask: arguments.xtask, folder: arguments.clusters };
    let summary = run(&clusters, &arguments.filter, arguments.jobs);
    println!("{summary}");
    Ok(if summary.failed == 0 && summary.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
