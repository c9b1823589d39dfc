//! The processes of a cluster, which outlive the command that starts them. Each is named by the properties file of its
//! first node, `node-1.properties`, with `node-1.log` and `node-1.pid` beside it.

use std::fs::{self, File};
use std::io;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long a killed process may take to end.
const END: Duration = Duration::from_secs(20);

/// A process that runs.
pub(super) struct Process {
    pub(super) id: String,
    pid: PathBuf,
}

/// Starts a process.
pub(super) fn spawn(mut command: Command, properties: &Path) -> Result<Child> {
    let log = File::create(log(properties))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Ctrl-C is meant for whoever uses the cluster.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().context("`java` does not start")?;
    let pid = properties.with_extension("pid");
    fs::write(pid, child.id().to_string()).inspect_err(|_| drop(child.kill()))?;
    Ok(child)
}

/// Where the output of a process goes.
pub(super) fn log(properties: &Path) -> PathBuf {
    properties.with_extension("log")
}

/// The processes of the cluster in `folder`.
pub(super) fn running(folder: &Path) -> Result<Vec<Process>> {
    let files = entries(folder)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "pid"));
    let processes = files.map(|pid| Ok(Process { id: fs::read_to_string(&pid)?, pid }));
    processes.filter(|process| process.as_ref().map_or(true, Process::runs)).collect()
}

/// Ends the process of a node, which has to have one of its own.
pub(super) fn kill(folder: &Path, node: u16) -> Result<()> {
    let file = format!("/node-{node}.properties");
    let process = running(folder)?.into_iter().find(|process| process.command().contains(&file));
    let process =
        process.with_context(|| format!("no process of node {node} runs in {}", folder.display()))?;
    let nodes = process.command().matches(".properties").count();
    ensure!(nodes == 1, "node {node} is not alone in its process: start the cluster with --processes");
    process.kill()
}

/// Ends all processes of the cluster in `folder`. The data of a cluster is used only once, so there is nothing to put in
/// order.
pub(super) fn stop(folder: &Path) -> Result<()> {
    running(folder)?.iter().try_for_each(Process::kill)
}

impl Process {
    fn kill(&self) -> Result<()> {
        // It is no error if the process has ended meanwhile.
        Command::new("kill").args(["-KILL", &self.id]).stderr(Stdio::null()).status().context("no `kill`")?;
        let start = Instant::now();
        while self.runs() {
            ensure!(start.elapsed() < END, "process {} does not end", self.id);
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Whether there still is such a process, and not another one that has its id by now.
    fn runs(&self) -> bool {
        let ours = self.pid.with_extension("properties");
        self.command().contains(&*ours.to_string_lossy())
    }

    /// The command that started the process; empty if there is none.
    fn command(&self) -> String {
        let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &self.id]).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

/// What is in a folder, which need not exist. With absolute paths, as in the command of a process.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match folder.canonicalize().and_then(fs::read_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
