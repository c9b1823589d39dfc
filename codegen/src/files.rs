//! Generated files on disk: what differs, and making it equal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{File, Options};

/// How the files of a folder differ from what they should be. Paths are relative to the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Not there.
    pub missing: Vec<String>,
    /// There with another text.
    pub stale: Vec<String>,
    /// Generated once, of schemas that are gone.
    pub orphaned: Vec<String>,
    /// In the way: a file that nobody generated has the path of one that is to be.
    pub foreign: Vec<String>,
}

impl Changes {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Paths with what is wrong with each, in one order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("missing", &self.missing), ("stale", &self.stale), ("orphaned", &self.orphaned)]
            .into_iter()
            .chain([("not generated", &self.foreign)])
            .flat_map(|(what, paths)| paths.iter().map(move |path| (what, path.as_str())))
    }
}

/// Compares `folder`, which need not exist, with `files`.
///
/// Files without the banner of generated ones are nobody's business here, unless they are in the way.
///
/// # Errors
///
/// What cannot be read, with its path.
pub fn compare(folder: &Path, files: &[File]) -> io::Result<Changes> {
    let mut changes = Changes::default();
    let wanted: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for file in files {
        let path = folder.join(&file.path);
        match fs::read_to_string(&path) {
            Ok(text) if text == file.text => {}
            Ok(text) if !is_generated(&text) => changes.foreign.push(file.path.clone()),
            Ok(_) => changes.stale.push(file.path.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => changes.missing.push(file.path.clone()),
            Err(error) => return Err(at(&path, error)),
        }
    }
    for path in rust_files(folder)? {
        if !wanted.contains(path.as_str())
            && fs::read_to_string(folder.join(&path)).is_ok_and(|text| is_generated(&text))
        {
            changes.orphaned.push(path);
        }
    }
    Ok(changes)
}

/// Makes `folder` equal to `files`: writes what differs, each file whole or not at all, and deletes orphans. Files
/// that are as they should be stay untouched.
///
/// # Errors
///
/// What cannot be written, with its path. Nothing is written when a file that nobody generated is in the way.
pub fn update(folder: &Path, files: &[File]) -> io::Result<Changes> {
    let changes = compare(folder, files)?;
    if let Some(path) = changes.foreign.first() {
        let message = "is in the way and was not generated; move it elsewhere";
        return Err(at(&folder.join(path), io::Error::new(io::ErrorKind::AlreadyExists, message)));
    }
    let differ: BTreeSet<&String> = changes.missing.iter().chain(&changes.stale).collect();
    for file in files.iter().filter(|file| differ.contains(&file.path)) {
        let path = folder.join(&file.path);
        write(&path, &file.text).map_err(|error| at(&path, error))?;
    }
    for path in &changes.orphaned {
        let path = folder.join(path);
        fs::remove_file(&path).map_err(|error| at(&path, error))?;
        // Folders go with their last file; one that is still in use stays.
        let parents = path.ancestors().skip(1).take_while(|parent| *parent != folder);
        let _ = parents.take_while(|parent| fs::remove_dir(parent).is_ok()).count();
    }
    Ok(changes)
}

/// Writes beside the file, then renames.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let beside = path.with_extension("rs.new");
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

fn is_generated(text: &str) -> bool {
    text.strip_prefix("// ").is_some_and(|text| text.starts_with(Options::BANNER))
}

/// All `*.rs` below `folder`, relative to it, in alphabetical order.
fn rust_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((path, name)) = folders.pop() {
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| at(&path, error))?;
            let entry_name = format!("{name}{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(|error| at(&entry.path(), error))?.is_dir() {
                folders.push((entry.path(), format!("{entry_name}/")));
            } else if entry_name.ends_with(".rs") {
                found.push(entry_name);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn at(path: &Path, error: io::Error) -> io::Error {
    let path: PathBuf = path.to_owned();
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
