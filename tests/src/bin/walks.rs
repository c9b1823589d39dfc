//! `cargo xtask walks`: a program of its own, as `vectors`.

use std::process::ExitCode;

use tests::program::{each, program};
use tests::walks::run;

fn main() -> ExitCode {
    program(|paths| each(paths, run))
}
