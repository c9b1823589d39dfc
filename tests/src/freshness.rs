//! Generated files are those that the schemas give, and the generator keeps its hands off all others.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs, process};

use codegen::files::{Changes, compare, update};
use codegen::source::{Source, load};
use codegen::{Coverage, File, Options, generate};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn options(runtime: &str, protocol: bool) -> Options {
    let coverage = if protocol { Coverage::Whole } else { Coverage::Part };
    Options { runtime: syn::parse_str(runtime).unwrap(), coverage, protocol }
}

fn files(sources: &[Source], options: &Options) -> Vec<File> {
    match generate(sources, options) {
        Ok(output) => output.files,
        Err(report) => panic!("{}", report.render(sources, Path::new(""), false)),
    }
}

/// The files of a set of this workspace are up to date. The sets are those of `cargo xtask codegen`.
#[track_caller]
fn fresh(messages: &str, out: &str, runtime: &str, protocol: bool) {
    let sources = load(&root().join(messages)).unwrap();
    let changes = compare(&root().join(out), &files(&sources, &options(runtime, protocol))).unwrap();
    let list: Vec<_> = changes.iter().map(|(what, path)| format!("{what}: {out}/{path}")).collect();
    assert!(changes.is_empty(), "run `cargo xtask codegen`\n{}", list.join("\n"));
}

#[test]
fn messages_are_what_their_schemas_give() {
    fresh("messages", "kafka-protocol/src/messages", "crate", true);
}

#[test]
fn kip_1222_is_what_its_schemas_give() {
    fresh("tests/schemas/kip-1222", "tests/src/kip_1222", "kafka_protocol", false);
}

#[test]
fn features_are_what_their_schemas_give() {
    fresh("tests/schemas/features", "tests/src/features", "kafka_protocol", false);
}

/// A folder of its own for a test, which is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("freshness-{test}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// All files and folders, relative, in order.
    fn entries(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(&self.0).unwrap().to_str().unwrap().replace('\\', "/"));
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two messages in two folders, as an editor would have left them.
fn schemas() -> Vec<Source> {
    let schema = |path: &str, name: &str| Source {
        path: path.to_owned(),
        text: format!(
            r#"{{
              "type": "data",
              "name": "{name}",
              "validVersions": "0",
              "flexibleVersions": "none",
              "fields": [{{ "name": "Number", "type": "int8", "versions": "0+", "about": "A number." }}]
            }}"#
        ),
    };
    vec![schema("left/Apple.json", "Apple"), schema("right/Pear.json", "Pear")]
}

fn generated() -> Vec<File> {
    files(&schemas(), &options("kafka_protocol", false))
}

const ALL: [&str; 7] = [
    "mod.rs",
    "left/mod.rs",
    "left/apple.rs",
    "left/apple/schema.rs",
    "right/mod.rs",
    "right/pear.rs",
    "right/pear/schema.rs",
];

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths
}

fn names(paths: &[&str]) -> Vec<String> {
    sorted(paths.iter().map(|&path| path.to_owned()).collect())
}

#[test]
fn a_renamed_field_makes_the_files_of_its_message_stale_and_no_other() {
    // Real schemas, copied.
    let out = root().join("tests/src/features");
    let mut sources = load(&root().join("tests/schemas/features")).unwrap();
    let folder = Folder::new("renamed");
    for source in &sources {
        folder.write(&source.path, &source.text);
    }
    let path = "shapes/KeyedArrays.json";
    let text = folder.read(path);
    assert_eq!(text.matches("\"Value\"").count(), 1);
    folder.write(path, &text.replace("\"Value\"", "\"Worth\""));
    sources = load(&folder.0).unwrap();
    let changes = compare(&out, &files(&sources, &options("kafka_protocol", false))).unwrap();
    let stale = names(&["shapes/keyed_arrays.rs", "shapes/keyed_arrays/schema.rs"]);
    assert_eq!(
        Changes { stale: sorted(changes.stale.clone()), ..changes },
        Changes { stale, ..Changes::default() }
    );
}

#[test]
fn files_that_are_not_there_are_missing_and_get_written() {
    let folder = Folder::new("missing");
    let files = generated();
    let changes = compare(&folder.0.join("not/there/yet"), &files).unwrap();
    assert_eq!(sorted(changes.missing), names(&ALL));
    assert!(folder.entries().is_empty(), "comparing writes nothing");

    update(&folder.0, &files).unwrap();
    for file in &files {
        assert_eq!(folder.read(&file.path), file.text);
    }
    let folders = ["left", "left/apple", "right", "right/pear"];
    assert_eq!(folder.entries(), names(&[&ALL[..], &folders].concat()), "nothing is left beside them");
    assert_eq!(compare(&folder.0, &files).unwrap(), Changes::default());
}

#[test]
fn an_update_leaves_alone_what_is_as_it_should_be() {
    let folder = Folder::new("untouched");
    let files = generated();
    update(&folder.0, &files).unwrap();
    folder.write("left/apple.rs", &format!("// {} and edited since.\n", Options::BANNER));
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    for file in &files {
        fs::File::options()
            .append(true)
            .open(folder.0.join(&file.path))
            .and_then(|file| file.set_modified(long_ago))
            .unwrap();
    }

    let changes = update(&folder.0, &files).unwrap();
    assert_eq!(changes, Changes { stale: names(&["left/apple.rs"]), ..Changes::default() });
    assert_eq!(update(&folder.0, &files).unwrap(), Changes::default(), "a second update has nothing to do");
    for file in &files {
        let modified = fs::metadata(folder.0.join(&file.path)).unwrap().modified().unwrap();
        let is_old = modified < SystemTime::now() - Duration::from_secs(500_000);
        assert_eq!(is_old, file.path != "left/apple.rs", "{}", file.path);
        assert_eq!(folder.read(&file.path), file.text);
    }
}

#[test]
fn orphans_go_and_folders_with_them() {
    let folder = Folder::new("orphans");
    update(&folder.0, &generated()).unwrap();
    // A file of somebody else keeps the folder `left`.
    folder.write("left/notes.rs", "//! By hand.\n");

    let sources = [Source { path: "Pear.json".to_owned(), ..schemas().remove(1) }];
    let files = files(&sources, &options("kafka_protocol", false));
    let orphaned = names(&[
        "left/apple.rs",
        "left/apple/schema.rs",
        "left/mod.rs",
        "right/mod.rs",
        "right/pear.rs",
        "right/pear/schema.rs",
    ]);
    let expected = Changes {
        missing: names(&["pear.rs", "pear/schema.rs"]),
        stale: names(&["mod.rs"]),
        orphaned,
        foreign: Vec::new(),
    };
    let sort = |changes: Changes| Changes { missing: sorted(changes.missing), ..changes };
    assert_eq!(sort(compare(&folder.0, &files).unwrap()), expected);
    assert_eq!(sort(update(&folder.0, &files).unwrap()), expected);
    let left = ["left", "left/notes.rs", "mod.rs", "pear", "pear.rs", "pear/schema.rs"];
    assert_eq!(folder.entries(), names(&left));
    assert_eq!(
        compare(&folder.0, &files).unwrap(),
        Changes::default(),
        "files by hand are nobody's business"
    );
}

#[test]
fn a_file_by_hand_is_never_overwritten() {
    let folder = Folder::new("foreign");
    let by_hand = format!("//! Tells of {}, but was not.\n", Options::BANNER);
    folder.write("right/pear.rs", &by_hand);

    let files = generated();
    let changes = compare(&folder.0, &files).unwrap();
    assert_eq!(changes.foreign, ["right/pear.rs"]);
    assert!(changes.iter().any(|change| change == ("not generated", "right/pear.rs")));
    let error = update(&folder.0, &files).unwrap_err().to_string();
    assert!(error.contains("right/pear.rs") && error.contains("was not generated"), "{error}");
    assert_eq!(folder.entries(), names(&["right", "right/pear.rs"]), "nothing is written");
    assert_eq!(folder.read("right/pear.rs"), by_hand);
}
