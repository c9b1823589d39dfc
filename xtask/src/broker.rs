//! `cargo xtask broker`: a Kafka cluster of this machine, from Maven Central. `tests/broker` has what it is made of.

mod java;
mod node;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub(crate) use java::{class_path, tool};

use crate::root;

/// The file with the address of the first broker, by which the folder of a cluster is known.
const ADDRESS: &str = "address";

/// How long a cluster may take until all of its brokers know of each other.
const START: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Starts a new cluster and prints its address once all of its brokers know of each other
    ///
    /// Needs Java 17 and Maven; the first time, Maven downloads about 55 MB. Data of the cluster before is lost.
    Start(Options),
    /// Ends one broker of a cluster that was started with --processes, as a crash does
    Kill {
        /// Its node id
        node: u16,
        #[command(flatten)]
        folder: Folder,
    },
    /// Stops the cluster; it is no error if there is none
    Stop(Folder),
}

#[derive(clap::Args)]
struct Folder {
    /// Where data, logs, process ids and address of the cluster are
    #[arg(long, value_name = "FOLDER", default_value_os_t = root().join("target/broker/cluster"))]
    folder: PathBuf,
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    folder: Folder,

    #[command(flatten)]
    cluster: Cluster,
}

/// What is to be started.
#[derive(clap::Args, Default)]
pub(crate) struct Cluster {
    /// The version of Kafka, from 4.1.0 on, otherwise that of tests/broker/pom.xml
    #[arg(long, value_name = "VERSION")]
    pub(crate) kafka: Option<String>,

    /// How many brokers; the first is the controller too
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=9))]
    pub(crate) brokers: u16,

    /// The port of the first broker, with those of the other brokers and of the controller behind it; otherwise ports
    /// that are free
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// A process for each broker, so that one of them can be killed
    #[arg(long)]
    pub(crate) processes: bool,

    /// Settings of the brokers, which win over those of tests/broker/broker.properties, such as
    /// group.share.record.lock.duration.ms=1000
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<String>,
}

fn setting(text: &str) -> Result<String> {
    ensure!(text.split_once('=').is_some_and(|(key, _)| !key.is_empty()), "not of the form KEY=VALUE");
    Ok(text.to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::Start(Options { folder: Folder { folder }, cluster }) => {
            if let Some(process) = process::running(folder)?.first() {
                let address = fs::read_to_string(folder.join(ADDRESS)).unwrap_or_default();
                bail!(
                    "a cluster is running already: process {}, {address}; `cargo xtask broker stop` ends it",
                    process.id
                );
            }
            println!("ready {}", start(folder, cluster)?);
            Ok(())
        }
        Verb::Kill { node, folder: Folder { folder } } => process::kill(folder, *node),
        Verb::Stop(Folder { folder }) => stop(folder),
    }
}

/// Starts a new cluster in `folder` and gives the address of its first broker, `HOST:PORT`.
pub(crate) fn start(folder: &Path, cluster: &Cluster) -> Result<String> {
    let jars = class_path(cluster.kafka.as_deref())?;
    clear(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The command that started a process is told apart by this path, whatever the working directory.
    let folder = &folder.canonicalize()?;

    let ports = node::ports(cluster.brokers, cluster.port)?;
    let brokers = &ports[..cluster.brokers.into()];
    let addresses: Vec<_> = brokers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    fs::write(folder.join(ADDRESS), &addresses[0])?;
    let files = node::write_properties(folder, &ports, &cluster.settings)?;

    let per_process = if cluster.processes { 1 } else { files.len() };
    let nodes = || files.chunks(per_process);
    // All are started before the first is waited for: a node without the controller does not answer.
    let done =
        nodes().map(|files| spawn(&jars, files)).collect::<Result<Vec<_>>>().and_then(|mut processes| {
            let mut nodes = processes.iter_mut().zip(nodes()).zip(addresses.chunks(per_process));
            nodes.try_for_each(|((process, files), addresses)| {
                wait(process, &files[0], addresses, cluster.brokers)
            })
        });
    done.or_else(|error| stop(folder).and(Err(error)))?;
    Ok(addresses[0].clone())
}

/// Removes a cluster of before, and nothing else.
fn clear(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let is_ours = folder.join(ADDRESS).is_file() || fs::read_dir(folder)?.next().is_none();
    ensure!(is_ours, "what is in it is no cluster");
    Ok(fs::remove_dir_all(folder)?)
}

/// A process of some nodes.
fn spawn(jars: &str, nodes: &[PathBuf]) -> Result<Child> {
    let mut command = java::java(jars);
    command
        .arg(format!("-Xmx{}m", 192 + 64 * nodes.len()))
        // One thread for garbage and the fast compiler: a cluster of tests lives for seconds.
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args([
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ])
        .arg(root().join("tests/broker/Cluster.java"))
        .args(nodes);
    process::spawn(command, &nodes[0])
}

/// Waits until a process knows of all brokers, at each of its addresses.
fn wait(process: &mut Child, properties: &Path, addresses: &[String], brokers: u16) -> Result<()> {
    addresses.iter().try_for_each(|address| node::wait(address, brokers, process, START)).or_else(|error| {
        let log = process::log(properties);
        bail!("{error:#}; the last lines of {} are\n{}", log.display(), process::tail(&log))
    })
}

/// Stops the cluster in `folder`, if there is one.
pub(crate) fn stop(folder: &Path) -> Result<()> {
    process::stop(folder)
}

/// Stops the clusters in all folders of `folder`, if there are some.
pub(crate) fn stop_all(folder: &Path) -> Result<()> {
    process::entries(folder)?.iter().filter(|entry| entry.is_dir()).try_for_each(|entry| stop(entry))
}
