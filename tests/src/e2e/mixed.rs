//! Kafka's own share consumer and ours in one group.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::ShareAcquireMode;

use super::Scenario;
use super::cluster::Cluster;
use super::consumers::{configured, expect};
use super::group::Group;

pub(super) const SCENARIOS: &[Scenario] =
    &[Scenario::new("Kafka's share consumer and ours in one group: each record is accepted once", one_group)];

const LOCK: Duration = Duration::from_secs(30);

/// The group begins with two batches of 5. These come when both consumers are there.
const MORE: usize = 200;

/// Who has accepted an offset.
type Accepted = BTreeMap<i64, Vec<&'static str>>;

fn one_group(cluster: &Cluster) -> Result<()> {
    let group = Group::new(cluster, "mixed", 1, LOCK)?;
    let mut java = JavaMember::start(&group)?;
    let mut accepted = Accepted::new();
    let start = Instant::now();
    while accepted.len() < 10 {
        java.collect(&mut accepted)?;
        thread::sleep(Duration::from_millis(20));
        ensure!(start.elapsed() < Duration::from_secs(60), "Kafka's consumer has accepted only {accepted:?}");
    }

    let mut ours = configured(&group, |config| {
        config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
        config.fetch.max_records = 5;
    })?;
    while ours.consumer().assignment().len() == 0 {
        ensure!(ours.poll(Duration::from_millis(50))?.is_empty(), "records are left");
    }
    for _ in 0..MORE / 10 {
        cluster.produce(&group.topic, group.leader, 10)?;
    }
    while accepted.len() < 10 + MORE {
        java.collect(&mut accepted)?;
        let records = ours.poll(Duration::from_millis(50))?;
        let offsets = records
            .iter()
            .flat_map(|batch| batch.records.iter().map(|it| (batch.partition, it.record.offset())));
        for (partition, offset) in offsets {
            ours.acknowledge(partition, offset, AcknowledgeType::ACCEPT)?;
            accepted.entry(offset).or_default().push("ours");
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "only {} records are accepted", accepted.len());
    }
    ours.close()?;
    expect(&mut ours, ErrorCode::NONE)?;
    java.finish(&mut accepted)?;

    let twice: Vec<_> = accepted.iter().filter(|(_, who)| who.len() > 1).collect();
    ensure!(twice.is_empty(), "accepted more than once: {twice:?}");
    let of = |name| accepted.values().flatten().filter(|who| **who == name).count();
    ensure!(of("ours") > 0 && of("Kafka's") > 10, "ours: {}, Kafka's: {}", of("ours"), of("Kafka's"));
    ensure!(accepted.keys().copied().eq(0..10 + MORE as i64), "accepted are {:?}", accepted.keys());
    Ok(())
}

/// A process of `tests/broker/ShareMember.java`.
struct JavaMember {
    process: Child,
    lines: Receiver<String>,
}

impl JavaMember {
    fn start(group: &Group<'_>) -> Result<Self> {
        let cluster = group.cluster;
        let mut process = Command::new(&cluster.java.command)
            .env("CLASSPATH", &cluster.java.class_path)
            .args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/broker/ShareMember.java"))
            .args([cluster.address(group.leader)?, &group.name, &group.topic.name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("Java does not start")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let (to_lines, lines) = mpsc::channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to_lines.send(line)));
        Ok(Self { process, lines })
    }

    /// Adds what it has accepted so far.
    fn collect(&mut self, accepted: &mut Accepted) -> Result<()> {
        self.lines.try_iter().try_for_each(|line| add(&line, accepted))?;
        if let Some(status) = self.process.try_wait()? {
            let mut errors = String::new();
            self.process.stderr.take().context("no errors")?.read_to_string(&mut errors)?;
            bail!("Kafka's consumer ends with {status}: {errors}");
        }
        Ok(())
    }

    /// Asks it to end, and adds what it has accepted to its end.
    fn finish(mut self, accepted: &mut Accepted) -> Result<()> {
        self.process.stdin.take().context("no input")?.write_all(b"\n")?;
        loop {
            match self.lines.recv_timeout(Duration::from_secs(30)) {
                Ok(line) => add(&line, accepted)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("Kafka's consumer does not end"),
            }
        }
        let status = self.process.wait()?;
        ensure!(status.success(), "Kafka's consumer ends with {status}");
        Ok(())
    }
}

/// Adds a record of which the consumer says that it is accepted.
fn add(line: &str, accepted: &mut Accepted) -> Result<()> {
    let fields: Vec<_> = line.split(' ').collect();
    let &["accepted", "0", offset, count] = &fields[..] else { bail!("unexpected: {line}") };
    ensure!(count == "1", "offset {offset} was delivered {count} times");
    accepted.entry(offset.parse()?).or_default().push("Kafka's");
    Ok(())
}

impl Drop for JavaMember {
    /// Also when a scenario fails.
    fn drop(&mut self) {
        // It is no error if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
