//! Runs record batches of Kafka, those of this workspace and any others, against `kafka_protocol::records`, and has Kafka
//! read batches of ours.
//!
//! `tests/record-vectors/README.md` describes the format.

#[cfg(test)]
mod acquired;
#[cfg(test)]
mod batch_mut;
#[cfg(test)]
mod builder_api;
mod bytes;
mod case;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod make;
mod old;
#[cfg(test)]
mod owned;
mod produce;
#[cfg(test)]
mod produce_api;
#[cfg(test)]
mod properties;
mod random;
mod read;
#[cfg(test)]
mod read_errors;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod rewrite_api;
mod shown;
mod verify;
mod write;

use std::fmt::Display;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value as Json;

use crate::vectors::{Outcome, files, is_lines, texts};

pub use verify::verify;

/// Runs the cases of a file, or of all files in a folder and in the folders below it.
///
/// # Errors
///
/// A file cannot be read, or there are no cases at all.
pub fn run(path: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for file in files(path)? {
        for (line, text) in texts(&file)?.iter().enumerate() {
            let place = if is_lines(&file) { format!(":{}", line + 1) } else { String::new() };
            let place = format!("{}{place}", file.display());
            match serde_json::from_str(text) {
                Ok(document) => run_document(&place, &document, &mut outcome),
                Err(error) => outcome.case(place, || Err(format!("no JSON: {error}"))),
            }
        }
    }
    ensure!(outcome.passed + outcome.failures.len() > 0, "{}: there are no cases", path.display());
    Ok(outcome)
}

/// Runs the cases of a document. Lines about them start with `place`.
fn run_document(place: impl Display, document: &Json, outcome: &mut Outcome) {
    match document["cases"].as_array() {
        Some(cases) => {
            for case in cases {
                let (topic, name) = (text(&document["topic"]), text(&case["name"]));
                outcome.case(format!("{place}: {topic} {name}"), || case::check(case));
            }
        }
        None => outcome.case(place, || Err("no cases of record batches".to_owned())),
    }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or("without a name")
}

#[cfg(test)]
mod test {
    use std::path::{Path, PathBuf};

    use serde_json::Value as Json;

    use super::{case, run};
    use crate::random::Random;
    use crate::vectors::texts;

    const CASES: usize = 1012;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("record-vectors")
    }

    /// Those of a topic, or of all.
    pub(super) fn cases(topic: &str) -> Vec<Json> {
        let texts = texts(&folder().join("records.jsonl.gz")).expect("documents");
        let documents = texts.iter().map(|text| serde_json::from_str::<Json>(text).expect("JSON"));
        documents
            .filter(|document| topic.is_empty() || document["topic"] == topic)
            .flat_map(|mut document| std::mem::take(document["cases"].as_array_mut().expect("cases")))
            .collect()
    }

    #[test]
    fn batches_of_kafka() {
        let outcome = run(&folder()).expect("cases");
        assert!(outcome.failures.is_empty(), "{:#?}", outcome.failures);
        assert_eq!(outcome.passed, CASES);
    }

    /// Of a case that Kafka reads, every nibble counts, but for the bytes of a batch that is cut, of which only the number
    /// is stated. Of one that it refuses, nothing is stated but the error.
    #[test]
    fn a_changed_nibble_fails_its_case() {
        let mut changed = 0;
        for (n, mut case) in cases("").into_iter().enumerate() {
            let mut random = Random::new("a changed nibble", 0, n as u64);
            let hex = case["hex"].as_str().expect("hex").to_owned();
            let whole = hex.len() - 2 * case["trailing"].as_u64().unwrap_or(0) as usize;
            if case["batches"].is_null() || whole == 0 {
                continue;
            }
            for _ in 0..3 {
                let (at, by) = (random.below(whole), 1 + random.below(15) as u32);
                let digit = u32::from_str_radix(&hex[at..=at], 16).expect("a digit") ^ by;
                case["hex"] = format!("{}{digit:x}{}", &hex[..at], &hex[at + 1..]).into();
                assert!(case::check(&case).is_err(), "{}: digit {at} by {by}", case["name"]);
                changed += 1;
            }
        }
        assert!(changed > 1800, "{changed}");
    }

    /// What is stated counts, member by member.
    #[test]
    fn a_changed_statement_fails_its_case() {
        for case in cases("several").iter().chain(&cases("legacy")).chain(&cases("control")) {
            assert_eq!(case::check(case), Ok(()));
            let members = case["batches"].as_array().and_then(|batches| batches.first()?.as_object());
            for (member, value) in members.into_iter().flatten() {
                let mut case = case.clone();
                case["batches"][0][member] = match value {
                    Json::Bool(value) => (!value).into(),
                    Json::Number(value) => (value.as_i64().unwrap_or(0) ^ 1).into(),
                    Json::Null => 1.into(),
                    _ => "other".into(),
                };
                assert!(case::check(&case).is_err(), "{}: {member}", case["name"]);
            }
        }
    }
}
