//! The command line, for whoever offers it: `cargo xtask codegen` and the binary of this crate.

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use syn::parse::Parser;

use crate::source::{Source, load};
use crate::{Coverage, Options, files, generate, report::Report};

/// A set of schemas and what becomes of it.
#[derive(Clone, Debug, clap::Args)]
pub struct Set {
    /// The folder with the schemas; each sub-folder becomes a module
    #[arg(long, value_name = "DIR")]
    pub messages: PathBuf,

    /// The folder that the Rust files go to; mount its mod.rs as a module
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Where generated code finds the runtime [default: kafka_protocol]
    #[arg(long, value_name = "PATH")]
    pub runtime: Option<String>,

    /// How much of a protocol the set is
    #[command(flatten)]
    pub coverage: CoverageArguments,

    /// The set is the protocol of the runtime crate itself
    #[arg(skip)]
    pub protocol: bool,
}

/// How much of a protocol a set is; without a word half an API brings a warning.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct CoverageArguments {
    /// The set is a whole protocol: a request without its response is an error
    #[arg(long)]
    pub complete: bool,

    /// The set extends another one: a request without its response is as it should be
    #[arg(long, conflicts_with = "complete")]
    pub partial: bool,
}

impl CoverageArguments {
    fn coverage(self) -> Coverage {
        match self {
            Self { complete: true, .. } => Coverage::Whole,
            Self { partial: true, .. } => Coverage::Part,
            _ => Coverage::Unknown,
        }
    }
}

impl fmt::Display for CoverageArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.coverage() {
            Coverage::Whole => " --complete",
            Coverage::Part => " --partial",
            Coverage::Unknown => "",
        })
    }
}

/// The arguments that ask for the set.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--messages {} --out {}", self.messages.display(), self.out.display())?;
        self.runtime.iter().try_for_each(|runtime| write!(f, " --runtime {runtime}"))?;
        self.coverage.fmt(f)
    }
}

/// Generates a set, or with `check` only tells what differs. `repair` is the command that makes it right.
///
/// # Errors
///
/// The schemas are wrong, which is drawn on standard error; or files differ and this is a check; or they cannot be
/// read or written.
pub fn run(set: &Set, check: bool, repair: &str) -> Result<()> {
    let runtime = set.runtime.as_deref().unwrap_or("kafka_protocol");
    let runtime = syn::Path::parse_mod_style
        .parse_str(runtime)
        .with_context(|| format!("--runtime {runtime}: not the path of a module in Rust"))?;
    let options = Options { runtime, coverage: set.coverage.coverage(), protocol: set.protocol };
    let sources = load(&set.messages)?;
    let output = match generate(&sources, &options) {
        Ok(output) => output,
        Err(report) => {
            print(&report, &sources, &set.messages);
            let n = report.iter().count();
            bail!(
                "{n} problem{} in {}; nothing was written",
                if n == 1 { "" } else { "s" },
                set.messages.display()
            );
        }
    };
    print(&output.warnings, &sources, &set.messages);
    let messages = output.model.families.iter().map(|family| family.messages.len()).sum::<usize>();
    if check {
        let changes = files::compare(&set.out, &output.files)?;
        for (what, path) in changes.iter() {
            eprintln!("{what}: {}", set.out.join(path).display());
        }
        ensure!(
            changes.foreign.is_empty(),
            "files that were not generated are in the way; move them elsewhere"
        );
        ensure!(changes.is_empty(), "generated files are not up to date; run `{repair}`");
    } else {
        let changes = files::update(&set.out, &output.files)?;
        eprintln!(
            "{messages} message{} in {}: {} files written, {} deleted, {} as they were",
            if messages == 1 { "" } else { "s" },
            set.out.display(),
            changes.missing.len() + changes.stale.len(),
            changes.orphaned.len(),
            output.files.len() - changes.missing.len() - changes.stale.len(),
        );
    }
    Ok(())
}

/// Draws a report with paths that lead from the current folder to the files.
fn print(report: &Report, sources: &[Source], messages: &Path) {
    if !report.is_empty() {
        eprintln!("{}", report.render(sources, messages, stderr().is_terminal()));
    }
}
