//! The texts of the schemas, as found on disk.

use std::path::{Path, PathBuf};
use std::{error, fmt, fs, io};

/// The text of one schema file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Relative to the messages folder, with `/` between folder and file: `share/ShareFetchRequest.json`.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl Source {
    /// Line and column of a byte, both counted from 1, the column in characters.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.char_indices().take_while(|&(at, _)| at < offset);
        before.fold((1, 1), |(line, column), (_, letter)| match letter {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        })
    }
}

/// The sub-folder in the path of a source, if there is one.
pub(crate) fn folder(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

/// Reads the schemas in a folder and in its direct sub-folders, sorted by path; those without a sub-folder
/// come first.
///
/// Only files whose name ends in `.json` count.
///
/// # Errors
///
/// If a folder or file cannot be read, if a file or a name is not UTF-8, or if there is no schema at all.
pub fn load(dir: &Path) -> Result<Vec<Source>, LoadError> {
    let mut sources = Vec::new();
    let mut folders = Vec::new();
    for path in entries(dir)? {
        if path.is_dir() {
            folders.push(path);
        } else {
            sources.extend(read("", &path)?);
        }
    }
    for folder in folders {
        let prefix = format!("{}/", name(&folder)?);
        for path in entries(&folder)? {
            if !path.is_dir() {
                sources.extend(read(&prefix, &path)?);
            } else if let Some(lost) = first_schema(&path)? {
                return Err(LoadError::new(
                    &lost,
                    "schemas are in the folder or in its sub-folders, not deeper",
                ));
            }
        }
    }
    if sources.is_empty() {
        return Err(LoadError::new(
            dir,
            "there is no schema, that is, no `*.json` file, in it or in its sub-folders",
        ));
    }
    Ok(sources)
}

/// A folder or file that could not be read.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    reason: String,
}

impl LoadError {
    fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl error::Error for LoadError {}

/// What is in a folder, in an order that does not depend on the machine.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let entries = fs::read_dir(dir).map_err(|error| LoadError::new(dir, error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| LoadError::new(dir, error))?;
    // Hidden files are those of tools.
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// A schema somewhere in a folder that is too deep to have any; a few levels are enough to find what got lost.
fn first_schema(dir: &Path) -> Result<Option<PathBuf>, LoadError> {
    let mut folders = vec![dir.to_owned()];
    for _ in 0..64 {
        let Some(folder) = folders.pop() else { break };
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

/// The source in a file, if it is a schema.
fn read(prefix: &str, path: &Path) -> Result<Option<Source>, LoadError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let bytes = fs::read(path).map_err(|error| LoadError::new(path, error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        LoadError::new(path, format_args!("a schema has to be UTF-8, but the byte at offset {at} is not"))
    })?;
    Ok(Some(Source { path: format!("{prefix}{}", name(path)?), text }))
}

fn name(path: &Path) -> Result<&str, LoadError> {
    path.file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| LoadError::new(path, "the name of a schema or of its folder has to be UTF-8"))
}
