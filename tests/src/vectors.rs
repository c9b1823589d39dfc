//! Runs golden vectors, those of this workspace and any others, against the generated codecs and the interpreter.
//!
//! `tests/vectors/README.md` describes the format. A file `*.json` is one document, a file `*.jsonl`, also `*.jsonl.gz`,
//! has a document per line.

mod case;
mod damage;
mod frame;
mod generated;
mod origin;
mod table;
mod value;

use std::any::Any;
use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value as Json;

pub(crate) use case::Case;
#[cfg(test)]
pub(crate) use damage::Damage;
pub(crate) use generated::Generated;
pub(crate) use table::is_shown_as;
pub(crate) use value::{Build, build, carrier, same_bytes, same_json, same_shown, same_value, unhex};

/// What came of some cases.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many are as they should be.
    pub passed: usize,
    /// What is wrong with the others, a line per case.
    pub failures: Vec<String>,
}

impl Outcome {
    /// Counts a case. `name` tells which one it is.
    pub(crate) fn case(&mut self, name: impl fmt::Display, check: impl FnOnce() -> Check) {
        let done = panic::catch_unwind(AssertUnwindSafe(check))
            .unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(&*panic))));
        match done {
            Ok(()) => self.passed += 1,
            Err(difference) => self.failures.push(format!("{name}: {difference}").replace('\n', " ")),
        }
    }

    /// Adds those of `other`.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
    }
}

/// `1205 passed, 0 failed`
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failures.len())
    }
}

/// Whether a case is as it should be, or how it differs.
pub(crate) type Check = Result<(), String>;

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Runs the vectors of a file, or of all files in a folder and in the folders below it.
///
/// # Errors
///
/// A file cannot be read or is not JSON, or there are no vectors at all.
pub fn run(path: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for file in files(path)? {
        for (line, document) in documents(&file)?.iter().enumerate() {
            let name = match document["message"].as_str() {
                Some(message) => message.to_owned(),
                None if is_lines(&file) => format!("{}:{}", file.display(), line + 1),
                None => file.display().to_string(),
            };
            outcome.add(run_document(&name, document));
        }
    }
    ensure!(outcome.passed + outcome.failures.len() > 0, "{}: there are no vectors", path.display());
    Ok(outcome)
}

/// Runs the vectors of a document. Lines about its cases start with `name`.
pub fn run_document(name: &str, document: &Json) -> Outcome {
    let mut outcome = Outcome::default();
    let generated = Generated::all();
    let list = |member: &str| document[member].as_array().map(Vec::as_slice);
    if let Some(cases) = list("cases").filter(|_| document["message"].is_string()) {
        case::run(name, cases, generated, &mut outcome);
    } else if let Some(frames) = list("frames") {
        frame::run(frames, generated, &mut outcome);
    } else if let Some(apis) = list("apis") {
        table::run_apis(apis, &mut outcome);
    } else if let Some(errors) = list("errors") {
        table::run_errors(errors, &mut outcome);
    } else if let Some(messages) = list("messages") {
        table::run_defaults(messages, generated, &mut outcome);
    } else {
        outcome.case(name, || Err("neither cases of a message nor one of the known tables".to_owned()));
    }
    outcome
}

/// The documents of a file.
fn documents(path: &Path) -> Result<Vec<Json>> {
    let texts = texts(path)?;
    let parse = |(line, text): (usize, &String)| {
        serde_json::from_str(text).with_context(|| format!("{}:{}", path.display(), line + 1))
    };
    texts.iter().enumerate().map(parse).collect()
}

/// The documents of a file, not parsed yet.
pub(crate) fn texts(path: &Path) -> Result<Vec<String>> {
    let text = read(path).with_context(|| path.display().to_string())?;
    Ok(if is_lines(path) { text.lines().map(str::to_owned).collect() } else { vec![text] })
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path)?;
    if !has_ending(path, ".gz") {
        return Ok(String::from_utf8(bytes)?);
    }
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    Ok(text)
}

/// A file itself; of a folder all vector files in it and below it, in alphabetical order.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut entries = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let is_vectors = [".json", ".jsonl", ".jsonl.gz"].iter().any(|ending| has_ending(&entry, ending));
        if is_vectors || entry.is_dir() {
            found.extend(files(&entry)?);
        }
    }
    Ok(found)
}

pub(crate) fn is_lines(path: &Path) -> bool {
    has_ending(path, ".jsonl") || has_ending(path, ".jsonl.gz")
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

#[cfg(test)]
mod test {
    use std::path::Path;

    use serde_json::{Value as Json, json};

    use super::{Outcome, files, run_document, texts};
    use crate::fixture::load;

    /// 10586 cases of messages, and four tables.
    const CASES: usize = 10586 + 278 + 132 + 95 + 138;

    #[test]
    fn vectors_of_kafka() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
        let archives = files(&folder).expect("archives");
        let texts: Vec<_> = archives.iter().flat_map(|file| texts(file).expect("documents")).collect();
        let run_every = |n: usize, first: usize| {
            texts.iter().skip(first).step_by(n).map(|text| {
                let document = serde_json::from_str::<Json>(text).expect("JSON");
                let name = document["message"].as_str().unwrap_or("table").to_owned();
                run_document(&name, &document)
            })
        };
        let threads = 4;
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|first| scope.spawn(move || run_every(threads, first).collect::<Vec<_>>()))
                .collect();
            started.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        let failures: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.failures).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        assert_eq!(outcomes.iter().map(|outcome| outcome.passed).sum::<usize>(), CASES);
    }

    #[test]
    fn a_changed_vector_fails_alone() {
        let document = load("ShareFetchRequest");
        let passed = document["cases"].as_array().expect("cases").len();
        #[track_caller]
        fn check(document: &Json, passed: usize, failure: &str) {
            let outcome = run_document("ShareFetchRequest", document);
            assert_eq!((&outcome.failures[..], outcome.passed), (&[failure.to_owned()][..], passed - 1));
        }

        let mut changed = document.clone();
        let case = &mut changed["cases"][1];
        assert_eq!((&case["kind"], &case["json"]["maxWaitMs"]), (&json!("full"), &json!(16777220)));
        case["json"]["maxWaitMs"] = json!(16777221);
        let failure = "ShareFetchRequest v1 full: interpreter encodes: 305 bytes instead of 305, \
                       at byte 13 0501000005010000 instead of 0401000005010000";
        check(&changed, passed, failure);

        let mut changed = document.clone();
        let case = &mut changed["cases"][1];
        let hex = case["hex"].as_str().expect("hex");
        case["hex"] = format!("{}5{}", &hex[..27], &hex[28..]).into();
        let failure = "ShareFetchRequest v1 full: interpreter encodes: 305 bytes instead of 305, \
                       at byte 13 0401000005010000 instead of 0501000005010000";
        check(&changed, passed, failure);
    }

    #[test]
    fn bytes_that_are_refused_for_something_else_than_their_damage_fail() {
        let document = load("ShareFetchRequest");
        let cases = document["cases"].as_array().expect("cases");
        let find = |mutation: &str| {
            let is_it = |case: &&Json| case["mutation"] == mutation && case["version"] == 2;
            cases.iter().find(is_it).expect(mutation).clone()
        };
        #[track_caller]
        fn check(mut case: Json, member: &str, value: Json, failure: &str) {
            let document = |case: &Json| json!({"message": "ShareFetchRequest", "cases": [case]});
            let run = |case: &Json| run_document("ShareFetchRequest", &document(case));
            assert_eq!(run(&case).failures, [""; 0]);
            case[member] = value;
            assert_eq!(run(&case).failures, [failure]);
        }
        let at = "topics[0].partitions[0].acknowledgementBatches[0].acknowledgeTypes at";
        let null = "refused for something else: ShareFetchRequest v2: topics[0].partitions[0].\
                    acknowledgement_batches[0].acknowledge_types at byte 71: null is not allowed in this version";
        let failure = format!("ShareFetchRequest v2 decode-error null {at} 1: {null}");
        check(find("null"), "at", json!(1), &failure);
        let failure = format!("ShareFetchRequest v2 decode-error null memberId at 71: {null}");
        check(find("null"), "path", json!("memberId"), &failure);
        let failure = format!("ShareFetchRequest v2 decode-error oversize {at} 71: {null}");
        check(find("null"), "mutation", json!("oversize"), &failure);
        let failure = "ShareFetchRequest v2 decode-error tag-oversize topics[0] at 73: refused for something else: \
                       ShareFetchRequest v2: topics[0].partitions[0].acknowledgement_batches[0].\
                       unknown_tagged_fields at byte 78: need 1000000 bytes, 26 left";
        check(find("tag-oversize"), "path", json!("topics[0]"), failure);
        let failure = "ShareFetchRequest v2 decode-error null at 0: refused for something else: \
                       ShareFetchRequest v2: group_id at byte 0: need 1 byte, 0 left";
        check(find("truncate"), "mutation", json!("null"), failure);
    }

    #[test]
    fn a_panic_fails_its_case() {
        let mut outcome = Outcome::default();
        outcome.case("first", || panic!("nothing\nis right"));
        outcome.case("second", || Ok(()));
        assert_eq!(outcome.failures, ["first: panic: nothing is right"]);
        assert_eq!(outcome.to_string(), "1 passed, 1 failed");
    }
}
