//! `cargo xtask broker`: a Kafka cluster of this machine, from Maven Central. `tests/broker` has what it is made of.

mod java;
mod node;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub(crate) use java::{class_path, tool};

use crate::root;

/// How long a cluster may take until all of its brokers answer.
const START: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Starts a new cluster and prints its address once all of its brokers answer
    ///
    /// Needs Java 17 and Maven; the first time, Maven downloads about 55 MB. Data of the cluster before is lost.
    Start(Options),
    /// Stops the cluster; it is no error if there is none
    Stop(Folder),
}

#[derive(clap::Args)]
struct Folder {
    /// Where data, log, process id and address of the cluster are
    #[arg(long, value_name = "FOLDER", default_value_os_t = root().join("target/broker/cluster"))]
    folder: PathBuf,
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    folder: Folder,

    /// How many brokers; the first is the controller too
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=9))]
    brokers: u16,

    /// The port of the first broker, with those of the other brokers and of the controller behind it; otherwise ports
    /// that are free
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Settings of the brokers, which win over those of tests/broker/broker.properties, such as
    /// group.share.record.lock.duration.ms=1000
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<String>,
}

fn setting(text: &str) -> Result<String> {
    ensure!(text.split_once('=').is_some_and(|(key, _)| !key.is_empty()), "not of the form KEY=VALUE");
    Ok(text.to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::Start(options) => {
            let folder = &options.folder.folder;
            if let Some(pid) = process::running(folder)? {
                let address = fs::read_to_string(folder.join("address")).unwrap_or_default();
                bail!(
                    "a cluster is running already: process {pid}, {address}; `cargo xtask broker stop` ends it"
                );
            }
            let address = start(folder, options.brokers, options.port, &options.settings)?;
            println!("ready {address}");
            Ok(())
        }
        Verb::Stop(Folder { folder }) => stop(folder),
    }
}

/// Starts a new cluster in `folder` and gives the address of its first broker, `HOST:PORT`.
pub(crate) fn start(folder: &Path, brokers: u16, port: Option<u16>, settings: &[String]) -> Result<String> {
    let jars = class_path()?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The command that started the process is told apart by this path, whatever the working directory.
    let folder = &folder.canonicalize()?;

    let ports = node::ports(brokers, port)?;
    let files = node::write_properties(folder, &ports, settings)?;
    let addresses: Vec<_> = ports[..brokers.into()].iter().map(|port| format!("127.0.0.1:{port}")).collect();
    fs::write(folder.join("address"), &addresses[0])?;

    let mut command = java::java(&jars);
    command
        .arg(format!("-Xmx{}m", 192 + 64 * brokers))
        // One thread for garbage and the fast compiler: a cluster of tests lives for seconds.
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args([
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ])
        .arg(root().join("tests/broker/Cluster.java"))
        .args(files);
    let mut child = process::spawn(command, folder)?;
    let done = addresses.iter().try_for_each(|address| node::wait(address, &mut child, START));
    done.or_else(|error| {
        stop(folder)?;
        let log = folder.join("log");
        bail!("{error:#}; the last lines of {} are\n{}", log.display(), process::tail(&log))
    })?;
    Ok(addresses[0].clone())
}

/// Stops the cluster in `folder`, if there is one.
pub(crate) fn stop(folder: &Path) -> Result<()> {
    process::stop(folder)
}
