//! `cargo xtask cases`: a program of its own, as `vectors`.

use std::path::Path;
use std::process::ExitCode;

use tests::program::program;
use tests::reports::{Report, run};

fn main() -> ExitCode {
    program(|paths| {
        let mut all = Report::default();
        for path in paths {
            let report = run(Path::new(&path))?;
            all.outcome.add(report.outcome);
            all.notes.extend(report.notes);
        }
        Ok(all)
    })
}
