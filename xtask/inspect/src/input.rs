//! Bytes from the command line, from files and from standard input.

use std::io::{self, Read};
use std::path::Path;
use std::{fs, str};

use anyhow::{Context, Result, bail, ensure};

/// The bytes that the arguments stand for.
pub(crate) fn bytes(input: &[String]) -> Result<Vec<u8>> {
    match input {
        [input] if input == "-" || Path::new(input).exists() => {
            ensure!(!is_recording(input), "{input} is a recording, which says itself what its frames are");
            let content = read(input)?;
            match str::from_utf8(&content) {
                Ok(text) if looks_like_hex(text) => unhex(text).with_context(|| name(input)),
                _ => Ok(content),
            }
        }
        _ => {
            let text = input.join(" ");
            unhex(&text).with_context(|| {
                let what =
                    if input.len() == 1 { "neither a file nor bytes in hex" } else { "not bytes in hex" };
                format!("`{text}` is {what}")
            })
        }
    }
}

/// The lines of a recording; `None` if the input is something else.
pub(crate) fn recording(input: &[String]) -> Result<Option<String>> {
    let [input] = input else { return Ok(None) };
    let named_so = is_recording(input);
    if !named_so && input != "-" && !Path::new(input).exists() {
        return Ok(None);
    }
    let content = read(input)?;
    match String::from_utf8(content) {
        Ok(text) if named_so || text.trim_start().starts_with('{') => Ok(Some(text)),
        Err(_) if named_so => bail!("{input} is not text"),
        _ => Ok(None),
    }
}

fn is_recording(input: &str) -> bool {
    Path::new(input).extension().is_some_and(|extension| extension == "jsonl")
}

fn read(input: &str) -> Result<Vec<u8>> {
    if input == "-" {
        let mut content = Vec::new();
        io::stdin().read_to_end(&mut content).context("standard input cannot be read")?;
        return Ok(content);
    }
    fs::read(input).with_context(|| format!("{input} cannot be read"))
}

fn name(input: &str) -> String {
    if input == "-" { "standard input".to_owned() } else { input.to_owned() }
}

/// Bytes that happen to be all digits and blanks are not to be expected of a message.
fn looks_like_hex(text: &str) -> bool {
    text.split_whitespace().map(digits).all(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn digits(word: &str) -> &str {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word)
}

/// The bytes of hex digits.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>> {
    let mut values = Vec::with_capacity(text.len());
    for word in text.split_whitespace().map(digits) {
        for digit in word.chars() {
            let Some(value) = digit.to_digit(16) else { bail!("`{digit}` is not a hex digit") };
            values.push(value as u8);
        }
    }
    ensure!(values.len().is_multiple_of(2), "{} hex digits are not a whole number of bytes", values.len());
    Ok(values.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_blanks_and_prefixes() {
        for text in ["00ff12", "00 ff\n12\n", " 0x00 0xFF 0X12", "0x00ff12", "0 0f f12"] {
            assert!(looks_like_hex(text), "{text}");
            assert_eq!(unhex(text).expect("hex"), [0, 0xff, 0x12], "{text}");
        }
        assert!(unhex("").expect("no bytes").is_empty());
        assert!(!looks_like_hex("\0\x12"));
        assert_eq!(unhex("12 3").unwrap_err().to_string(), "3 hex digits are not a whole number of bytes");
        assert_eq!(unhex("12 0x3g").unwrap_err().to_string(), "`g` is not a hex digit");
    }
}
