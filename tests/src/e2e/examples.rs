//! The examples of the crate, as somebody would run them.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use driver::admin::configure_group;

use super::Scenario;
use super::cluster::Cluster;

pub(super) const SCENARIOS: &[Scenario] =
    &[Scenario::new("example renew", renew), Scenario::new("example rebalance", rebalance)];

/// Two of the four records take longer than their lock lasts.
fn renew(cluster: &Cluster) -> Result<()> {
    let (topic, group) = (cluster.unique("example"), cluster.unique("group"));
    let lock = Duration::from_secs(2).as_millis().to_string();
    configure_group(&mut cluster.any()?, &group, &[("share.record.lock.duration.ms", &lock)])?;
    let lines = Example::start(cluster, "renew", &[&topic, &group])?.finish()?;
    let about = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    for offset in 0..4 {
        let accepted = about(&format!("-0 offset {offset}, delivery 1: 100 %, accepted"));
        ensure!(accepted == 1, "offset {offset} was accepted {accepted} times: {lines:?}");
        let renewed = about(&format!("-0 offset {offset}, delivery 1:")) - accepted;
        ensure!(
            renewed == if offset % 2 == 0 { 0 } else { 2 },
            "offset {offset} was renewed {renewed} times"
        );
    }
    ensure!(about("not acknowledged") == 0, "{lines:?}");
    Ok(())
}

fn rebalance(cluster: &Cluster) -> Result<()> {
    let (topic, group) = (cluster.unique("example"), cluster.unique("group"));
    let mut first = Example::start(cluster, "rebalance", &[&topic, &group, "8"])?;
    first.until("assigned: ")?;
    let second = Example::start(cluster, "rebalance", &[&topic, &group, "3"])?.finish()?;
    let first = first.finish()?;
    // What a line says behind this.
    let rest = |line: &'_ String, start: &str| line.strip_prefix(start).map(str::to_owned);
    let announced =
        first.iter().position(|line| line.starts_with("to be revoked: ")).context("nothing announced")?;
    let moved = rest(&first[announced], "to be revoked: ").unwrap_or_default();
    let got: Vec<_> = second.iter().filter_map(|line| rest(line, "assigned: ")).collect();
    ensure!(got.join(", ") == moved, "announced {moved}, the other got {got:?}");
    // Each is given up once it is done with, so not always together.
    let gone: Vec<_> = first[announced..].iter().filter_map(|line| rest(line, "given up: ")).collect();
    let is_gone = |partition: &String| gone.iter().any(|line| line.split(", ").any(|it| it == partition));
    ensure!(got.iter().all(is_gone), "announced {moved}, given up {gone:?}");
    let lines = first.iter().chain(&second);
    let bad: Vec<_> =
        lines.filter(|line| line.starts_with("lost") || line.starts_with("not committed")).collect();
    ensure!(bad.is_empty(), "{bad:?}");
    Ok(())
}

/// A process of an example.
struct Example {
    process: Child,
    output: BufReader<ChildStdout>,
    lines: Vec<String>,
}

impl Example {
    fn start(cluster: &Cluster, name: &str, arguments: &[&str]) -> Result<Self> {
        // `cargo xtask e2e` has built it beside this program.
        let this = env::current_exe()?;
        let program: PathBuf = this.with_file_name("examples").join(name);
        let mut process = Command::new(&program)
            .arg(cluster.address(cluster.nodes()[0])?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        Ok(Self { process, output, lines: Vec::new() })
    }

    /// Reads until a line begins so.
    fn until(&mut self, start: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "it ends without `{start}`: {:?}", self.lines);
            self.lines.push(line.trim_end().to_owned());
            if line.starts_with(start) {
                return Ok(());
            }
        }
    }

    /// Waits for its end and gives all lines. It ends by itself.
    fn finish(mut self) -> Result<Vec<String>> {
        for line in self.output.by_ref().lines() {
            self.lines.push(line?);
        }
        let status = self.process.wait()?;
        ensure!(status.success(), "it ends with {status}: {:?}", self.lines);
        Ok(std::mem::take(&mut self.lines))
    }
}

impl Drop for Example {
    /// Also when a scenario fails.
    fn drop(&mut self) {
        // It is no error if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
