//! The process of a cluster, which outlives the command that starts it.

use std::fs::{self, File};
use std::io;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long a cluster may take to end by itself.
const STOP: Duration = Duration::from_secs(10);

/// Starts a process whose output goes to the file `log` in `folder`, and writes its id down in the file `pid`.
pub(super) fn spawn(mut command: Command, folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Ctrl-C is meant for whoever uses the cluster.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().context("`java` does not start")?;
    fs::write(folder.join("pid"), child.id().to_string()).inspect_err(|_| drop(child.kill()))?;
    Ok(child)
}

/// The id of the process that was started for `folder`, if it still runs.
pub(super) fn running(folder: &Path) -> Result<Option<String>> {
    let pid = match fs::read_to_string(folder.join("pid")) {
        Ok(pid) => pid,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot read the process id"),
    };
    // By now another process may have this id.
    let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid]).output().context("no `ps`")?;
    let ours = folder.canonicalize()?.join("node-1.properties");
    let ours = String::from_utf8_lossy(&output.stdout).contains(&*ours.to_string_lossy());
    Ok(ours.then_some(pid))
}

/// Ends the process that was started for `folder`, if it still runs.
pub(super) fn stop(folder: &Path) -> Result<()> {
    if let Some(pid) = running(folder)? {
        signal("-TERM", &pid)?;
        let start = Instant::now();
        while running(folder)?.is_some() {
            if start.elapsed() > STOP {
                signal("-KILL", &pid)?;
            }
            ensure!(start.elapsed() < 2 * STOP, "process {pid} does not end");
            sleep(Duration::from_millis(50));
        }
    }
    match fs::remove_file(folder.join("pid")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn signal(signal: &str, pid: &str) -> Result<()> {
    // It is no error if the process has ended meanwhile.
    Command::new("kill").args([signal, pid]).stderr(Stdio::null()).status().context("no `kill`")?;
    Ok(())
}
