//! `cargo xtask vectors`: a program of its own, so that the generator runs when the code that it generates does not
//! compile.

use std::process::ExitCode;

use tests::program::{each, program};
use tests::vectors::run;

fn main() -> ExitCode {
    program(|paths| each(paths, run))
}
