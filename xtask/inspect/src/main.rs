//! What each byte of a message, a frame or a recording means.

mod input;
mod message;
mod recording;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{ArgGroup, Parser};

/// Says what each byte of a message, of a frame or of a recording means
///
/// One line per field: offset, bytes, path, value, and what the value means. What is not a message is explained as
/// far as it goes; then comes the error, and the exit status is 1.
#[derive(Parser)]
#[command(
    name = "cargo xtask inspect",
    bin_name = "cargo xtask inspect",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    group(ArgGroup::new("half").args(["request", "response"])),
    group(ArgGroup::new("what").args(["api", "message"])),
)]
struct Arguments {
    /// Hex digits (blanks between them and 0x in front are fine), or a file of bytes or of hex digits, or a recording
    /// (*.jsonl); - for standard input
    #[arg(required = true, allow_hyphen_values = true)]
    input: Vec<String>,

    /// The API, by name or key
    #[arg(long, value_name = "NAME|KEY", requires = "half")]
    api: Option<String>,

    /// A message that is not of an API, or is given by its full name: a record, a header, data in files
    #[arg(long, value_name = "NAME", conflicts_with_all = ["request", "response", "frame"])]
    message: Option<String>,

    /// The version of the message
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    version: Option<i16>,

    /// It is a request
    #[arg(long)]
    request: bool,

    /// It is a response
    #[arg(long)]
    response: bool,

    /// A whole frame, with its size and header; a request then names API and version itself
    #[arg(long, requires = "half")]
    frame: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask inspect --api ApiVersions --version 3 --request 02 61 02 31 00
  cargo xtask inspect --frame --request request.bin
  cargo xtask inspect --frame --api 18 --version 3 --response answer.hex
  cargo xtask inspect --message ConsumerProtocolSubscription --version 3 -
  cargo xtask inspect conversation.jsonl

A recording has one JSON object per line and frame:
  {\"conn\": 1, \"ms\": 12, \"dir\": \">\", \"api\": \"ShareFetch\", \"version\": 2, \"correlation\": 7, \"hex\": \"...\"}
conn numbers the connection, dir is > for a request and < for a response, hex is the frame without its size.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let done = run(&arguments, &mut out).and_then(|whole| {
        out.flush()?;
        Ok(whole)
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => match error.downcast_ref::<io::Error>() {
            // Whoever reads the dump has seen enough.
            Some(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Whether all bytes are explained.
fn run(arguments: &Arguments, out: &mut impl Write) -> Result<bool> {
    // What it is comes first: a wrong name is told without waiting for standard input.
    match message::find(arguments)? {
        Some(message) => {
            let bytes = input::bytes(&arguments.input)?;
            message.dump(&bytes, out)
        }
        None => {
            let Some(text) = input::recording(&arguments.input)? else {
                bail!(
                    "which message? --api NAME --version V and --request or --response, or --message NAME \
                     --version V; only a recording (*.jsonl) says so itself"
                );
            };
            recording::dump(&text, out)
        }
    }
}
