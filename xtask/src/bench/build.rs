//! `cargo xtask bench build`
//!
//! What is measured are throw-away packages in a temporary folder that depend on ours or on the peer, with Cargo's
//! own profiles, as packages of users do. All other dependencies are built before: each figure is that of the crate
//! alone.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use wait4::Wait4;

use crate::root;

/// The name of ours and of the peer.
const CRATE: &str = "kafka-protocol";
/// The version of the peer.
const PEER: &str = "0.18";
/// How often each build is measured.
const ROUNDS: usize = 3;

/// A program that uses no message.
const BARE: &str = r#"
fn main() {
    let length: usize = std::env::args().map(|argument| argument.len()).sum();
    println!("{length}");
}
"#;

/// The same program, but the number goes through a message.
const SHARE: &str = r#"
use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};

fn main() {
    let length: usize = std::env::args().map(|argument| argument.len()).sum();
    let request = ShareFetchRequest { max_bytes: length as i32, ..Default::default() };
    let again = ShareFetchRequest::decode(request.encode(2).unwrap(), 2).unwrap();
    println!("{}", again.max_bytes);
}
"#;

/// Builds everything in one run, ours and the peer in turns.
pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let package = |name, dependency: &str| Package::new(folder.path().join(name), dependency);
    let path = root().join(CRATE);
    let path = path.display();
    let ours = package("ours", &format!("{{ path = '{path}' }}"))?;
    let share = format!("{{ path = '{path}', default-features = false, features = ['share'] }}");
    let share = package("share", &share)?;
    let peer = package("peer", &format!("'{PEER}'"))?;

    let [check, peer_check] = in_turns(Build::Check, [&ours, &peer])?;
    let [release, peer_release] = in_turns(Build::Release, [&ours, &peer])?;
    let [share] = in_turns(Build::Check, [&share])?;
    let added = ours.program("share", SHARE)? - ours.program("bare", BARE)?;

    let rows = [
        Row::new("check, s", check.wall, peer_check.wall).ratio_goal(0.5),
        Row::new("check, CPU s", check.cpu, peer_check.cpu),
        Row::new("release build, s", release.wall, peer_release.wall).ratio_goal(0.5),
        Row::new("release build, CPU s", release.cpu, peer_release.cpu),
        Row::new("release build, peak memory, MB", release.memory, peer_release.memory).goal(600.0),
        Row::new("check with `share` alone, s", share.wall, None).goal(2.0),
        Row::new("program, added by a message, kB", added, None).goal(100.0),
    ];
    println!("| {:<31} | {:>7} | {:>7} | ratio | goal            | met |", "", "ours", PEER);
    println!("|{:-<33}|{:->8}:|{:->8}:|------:|-----------------|-----|", "", "", "");
    rows.iter().for_each(Row::print);
    println!("\n{CRATE} alone, default features, dependencies already built: medians of {ROUNDS} builds.");
    println!("Memory is that of the largest process. The program is stripped.");
    let met: Vec<bool> = rows.iter().filter_map(|row| row.met).collect();
    println!("\nGoals met: {} of {}.", met.iter().filter(|&&met| met).count(), met.len());
    Ok(())
}

#[derive(Clone, Copy)]
enum Build {
    Check,
    Release,
}

impl Build {
    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Check => &["check"],
            Self::Release => &["build", "--release"],
        }
    }

    fn clean(self) -> &'static [&'static str] {
        match self {
            Self::Check => &["clean"],
            Self::Release => &["clean", "--release"],
        }
    }
}

/// Builds each package once for the sake of its dependencies, then measures them in turns: when the machine slows
/// down for a while, that hits all alike.
fn in_turns<const N: usize>(build: Build, packages: [&Package; N]) -> Result<[Cost; N]> {
    const OF_CRATE: [&str; 2] = ["--package", CRATE];
    for package in packages {
        package.cargo(build.command(), &OF_CRATE)?;
    }
    let mut costs = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (package, costs) in packages.iter().zip(&mut costs) {
            package.cargo(build.clean(), &OF_CRATE)?;
            let (cost, messages) = package.cargo(build.command(), &OF_CRATE)?;
            let is_crate =
                |line: &&str| ["Checking ", "Compiling "].iter().any(|verb| line.trim().starts_with(verb));
            let crates = messages.lines().filter(is_crate).count();
            ensure!(crates == 1, "{crates} crates were built instead of {CRATE} alone:\n{messages}");
            costs.push(cost);
        }
    }
    Ok(costs.map(|costs| {
        let median = |of: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Cost {
            wall: median(|cost| cost.wall),
            cpu: median(|cost| cost.cpu),
            memory: median(|cost| cost.memory),
        }
    }))
}

/// What running a command took, with all that the command itself ran.
struct Cost {
    /// Seconds.
    wall: f64,
    /// Seconds, of all cores.
    cpu: f64,
    /// The most that one process had, in MB.
    memory: f64,
}

/// A throw-away package with a dependency.
struct Package {
    folder: PathBuf,
}

impl Package {
    fn new(folder: PathBuf, dependency: &str) -> Result<Self> {
        fs::create_dir_all(folder.join("src/bin"))?;
        fs::write(folder.join("src/lib.rs"), "")?;
        let manifest = format!(
            "[workspace]\n\
             [package]\nname = 'throw-away'\nedition = '2024'\n\
             [dependencies]\n{CRATE} = {dependency}\n\
             [profile.release]\nstrip = true\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        // The versions that speed is measured with.
        fs::copy(root().join("tests/bench/Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder })
    }

    /// Runs Cargo; also returns what it told.
    fn cargo(&self, command: &[&str], arguments: &[&str]) -> Result<(Cost, String)> {
        let start = Instant::now();
        let mut cargo = Command::new(env!("CARGO"))
            .args(command)
            .args(["--color", "never", "--target-dir", "target"])
            .args(arguments)
            .current_dir(&self.folder)
            // Ours as Cargo builds crates of a registry, such as the peer: not incrementally, and without lints.
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTFLAGS", "--cap-lints=allow")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cargo does not start")?;
        let mut messages = String::new();
        cargo.stderr.take().context("a pipe")?.read_to_string(&mut messages)?;
        let end = cargo.wait4()?;
        let wall = start.elapsed();
        ensure!(end.status.success(), "`cargo {}` failed:\n{messages}", command.join(" "));
        let usage = end.rusage;
        let [wall, cpu] = [wall, usage.utime + usage.stime].map(|time: Duration| time.as_secs_f64());
        Ok((Cost { wall, cpu, memory: usage.maxrss as f64 / 1e6 }, messages))
    }

    /// Builds a program for release and returns its size in kB.
    fn program(&self, name: &str, source: &str) -> Result<f64> {
        fs::write(self.folder.join(format!("src/bin/{name}.rs")), source)?;
        self.cargo(Build::Release.command(), &["--bin", name])?;
        let program = self.folder.join(format!("target/release/{name}{EXE_SUFFIX}"));
        Ok(fs::metadata(program)?.len() as f64 / 1e3)
    }
}

/// A row of the table.
struct Row {
    what: &'static str,
    ours: f64,
    peer: Option<f64>,
    goal: String,
    met: Option<bool>,
}

impl Row {
    fn new(what: &'static str, ours: f64, peer: impl Into<Option<f64>>) -> Self {
        Self { what, ours, peer: peer.into(), goal: String::new(), met: None }
    }

    /// The most that ours may take.
    fn goal(self, most: f64) -> Self {
        Self { goal: format!("<= {most}"), met: Some(self.ours <= most), ..self }
    }

    /// The most that ours may take, divided by what the peer takes.
    fn ratio_goal(self, most: f64) -> Self {
        Self { goal: format!("ratio <= {most}"), met: self.ratio().map(|ratio| ratio <= most), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.peer.map(|peer| self.ours / peer)
    }

    fn print(&self) {
        let Self { what, ours, peer, goal, met } = self;
        let [peer, ratio] = [*peer, self.ratio()].map(|n| n.map_or(String::new(), |n| format!("{n:.2}")));
        let met = met.map_or("", |met| if met { "yes" } else { "NO" });
        println!("| {what:<31} | {ours:>7.2} | {peer:>7} | {ratio:>5} | {goal:<15} | {met:<3} |");
    }
}
