//! Has Apache Kafka read batches that we wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::wire::Bytes;
use serde_json::{Value as Json, json};

use super::case::same;
use super::read::see;
use super::{produce, random};
use crate::random::Random;
use crate::vectors::{Check, Outcome};

/// The release of Kafka that reads.
const KAFKA: &str = "4.4.0";

/// What reading needs, and how to find out whether it is there.
const TOOLS: [(&str, &str); 4] =
    [("java", "-version"), ("javac", "-version"), ("mvn", "-version"), ("unzip", "-v")];

/// Writes random buffers of batches, has Kafka's reader read them, and compares what it saw with what was written.
///
/// # Errors
///
/// Kafka's reader does not run: Java, Maven or unzip are missing, or Maven Central cannot be reached.
pub fn verify(count: u64, seed: u64) -> Result<Outcome> {
    check_tools()?;
    let mut outcome = Outcome::default();
    let mut written: Vec<(String, Vec<Json>, Bytes)> = Vec::new();
    for n in 0..count {
        let mut random = Random::new("record batches", 0, seed.wrapping_mul(1 << 32).wrapping_add(n));
        let name = format!("seed {seed} buffer {n}");
        match random::buffer(&mut random) {
            Ok((stated, bytes)) => written.push((name, stated, bytes)),
            Err(error) => outcome.case(name, || Err(error)),
        }
    }
    let said = ask(written.iter().map(|(.., bytes)| bytes))?;
    ensure!(said.len() == written.len(), "Kafka read {} of {} buffers", said.len(), written.len());
    for ((name, stated, bytes), said) in written.iter().zip(&said) {
        outcome.case(name, || {
            let same = compare(stated, said).and_then(|()| compare_verdict(said, bytes));
            same.map_err(|difference| format!("{difference}; {}", hex(bytes)))
        });
    }
    Ok(outcome)
}

/// What Kafka saw is what was written.
fn compare(stated: &[Json], said: &Json) -> Check {
    if !said["error"].is_null() {
        return Err(format!("Kafka: {}", said["error"]));
    }
    if !said["trailing"].is_null() {
        return Err(format!("Kafka leaves {} bytes", said["trailing"]));
    }
    let seen = said["batches"].as_array().map_or(&[][..], Vec::as_slice);
    for (n, (stated, seen)) in stated.iter().zip(seen).enumerate() {
        same(&format!("Kafka, batch {n}"), stated, seen)?;
    }
    match seen.len() {
        n if n == stated.len() => Ok(()),
        n => Err(format!("Kafka reads {n} batches instead of {}", stated.len())),
    }
}

/// What Kafka's broker says when a client produces the batch, ours says too, or it is stricter.
fn compare_verdict(said: &Json, bytes: &Bytes) -> Check {
    if said["produce"].is_null() {
        return Ok(());
    }
    let case = json!({"produce": said["produce"], "lenient": true});
    produce::check(&case, bytes, &see(bytes)?)
}

/// What Kafka says of each buffer.
fn ask<'a>(buffers: impl Iterator<Item = &'a Bytes>) -> Result<Vec<Json>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("batches.hex");
    fs::write(&file, buffers.map(|bytes| hex(bytes) + "\n").collect::<String>())?;
    let script = oracle().join("run.sh");
    let output = Command::new(&script)
        .args([KAFKA, "Verify"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} does not start", script.display()))?;
    // It fails as well if Kafka refuses a buffer, which then is said in its line.
    let lines = String::from_utf8(output.stdout)?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!lines.is_empty(), "Kafka's reader does not run ({}):\n{told}", output.status);
    lines.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

fn check_tools() -> Result<()> {
    for (tool, argument) in TOOLS {
        let started = Command::new(tool).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = started {
            bail!(
                "Kafka's own reader needs a JDK of version 17 or later, Maven and unzip: `{tool}` does not start \
                 ({error})"
            );
        }
    }
    Ok(())
}

/// The folder of the program that runs Kafka.
fn oracle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use kafka_protocol::records::BatchBuilder;

    use super::{compare, compare_verdict, random};
    use crate::random::Random;
    use crate::records::make::batch_of;

    #[test]
    fn whatever_kafka_sees_otherwise_is_told() {
        let (stated, _) = random::buffer(&mut Random::new("verify", 0, 3)).expect("batches");
        let said = json!({"batches": stated});
        assert_eq!(compare(&stated, &said), Ok(()));

        let mut other = said.clone();
        other["batches"][0]["records"][0]["timestamp"] = 5.into();
        let told = compare(&stated, &other).expect_err("another timestamp");
        assert!(told.starts_with("Kafka, batch 0: records[0].timestamp is 5 instead of "), "{told}");

        let mut fewer = said.clone();
        fewer["batches"].as_array_mut().expect("batches").pop();
        let n = stated.len();
        let told = format!("Kafka reads {} batches instead of {n}", n - 1);
        assert_eq!(compare(&stated, &fewer), Err(told));

        let cut = json!({"batches": stated, "trailing": 7});
        assert_eq!(compare(&stated, &cut), Err("Kafka leaves 7 bytes".to_owned()));
        let refused = json!({"error": {"stage": "records"}});
        assert_eq!(compare(&stated, &refused), Err(r#"Kafka: {"stage":"records"}"#.to_owned()));
    }

    /// A verdict is heeded in both directions, but for what ours is stricter about.
    #[test]
    fn verdicts_of_kafka_are_told() {
        let accepted = json!({"produce": "accepted"});
        let refused = json!({"produce": {"class": "org.apache.kafka.common.InvalidRecordException"}});
        let good = batch_of(BatchBuilder::new(), &[0, 1]);
        let moved = batch_of(BatchBuilder::new().base_offset(5), &[5, 6]);
        let control = batch_of(BatchBuilder::new().control(), &[0]);
        let stricter = batch_of(BatchBuilder::new().delete_horizon(3), &[0]);
        for (said, bytes, is_same) in [
            (&accepted, &good, true),
            (&accepted, &moved, true),
            (&accepted, &stricter, true),
            (&accepted, &control, false),
            (&refused, &good, false),
            (&refused, &moved, false),
            (&refused, &control, true),
            (&json!({}), &control, true),
        ] {
            assert_eq!(compare_verdict(said, bytes).is_ok(), is_same, "{said}");
        }
    }
}
