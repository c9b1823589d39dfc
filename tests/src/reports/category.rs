//! The categories of errors in bug reports.

use std::fmt;

use kafka_protocol::protocol::frame::FrameError;
use kafka_protocol::protocol::{DecodeError, DecodeReason, EncodeError, EncodeReason};
use kafka_protocol::records::{RecordsError, RecordsReason};
use serde_json::Value as Json;

use crate::vectors::Check;

/// The error falls into one of the categories that are right.
pub(crate) fn expect(who: &str, error: &dyn fmt::Display, found: &[&str], right: &Json) -> Check {
    let is_right =
        |category: &&str| right.as_array().is_some_and(|right| right.iter().any(|it| it == category));
    if found.iter().any(is_right) { Ok(()) } else { Err(format!("{who}: {error}; expected {right}")) }
}

/// `size` is that of the input.
pub(crate) fn of_decode(error: &DecodeError, size: usize) -> &'static [&'static str] {
    match error.reason() {
        DecodeReason::UnsupportedVersion { .. } => &["unsupported-version"],
        // A length beyond the end is no other case than a value beyond it.
        DecodeReason::UnexpectedEnd { .. } => &["eof", "length-exceeds-remaining"],
        DecodeReason::CountExceedsInput { .. } => &["length-exceeds-remaining"],
        DecodeReason::NegativeLength { .. } => &["negative-length"],
        DecodeReason::Null => &["null-not-allowed"],
        DecodeReason::VarintTooLong => &["varint-too-long"],
        DecodeReason::VarintOutOfRange => &["varint-out-of-range"],
        DecodeReason::InvalidUtf8 { .. } => &["invalid-utf8"],
        DecodeReason::StringTooLong { length } if *length > size => {
            &["string-too-long", "length-exceeds-remaining"]
        }
        DecodeReason::StringTooLong { .. } => &["string-too-long"],
        DecodeReason::TagOrder { tag, after } if tag == after => &["duplicate-tag", "tag-order"],
        DecodeReason::TagOrder { .. } => &["tag-order"],
        DecodeReason::TagNotInVersion { .. } => &["tag-not-valid-for-version"],
        DecodeReason::TagSize { .. } => &["tag-size-mismatch"],
        DecodeReason::TrailingBytes { .. } => &["trailing-bytes"],
        _ => &[],
    }
}

pub(crate) fn of_encode(error: &EncodeError) -> &'static [&'static str] {
    match error.reason() {
        EncodeReason::UnsupportedVersion { .. } => &["unsupported-version"],
        EncodeReason::NotInVersion { .. } => &["non-default-field-at-version"],
        EncodeReason::Null { .. } => &["null-for-non-nullable"],
        EncodeReason::StringTooLong => &["string-too-long"],
        EncodeReason::KnownTag => &["duplicate-tag"],
        _ => &[],
    }
}

pub(crate) fn of_frame(error: &FrameError) -> &'static [&'static str] {
    match error {
        FrameError::NegativeSize { .. } => &["frame-negative-size"],
        FrameError::TooLarge { .. } => &["frame-too-large"],
        _ => &[],
    }
}

pub(crate) fn of_records(error: &RecordsError) -> &'static [&'static str] {
    match error.reason() {
        RecordsReason::UnexpectedEnd { .. } => &["eof", "length-exceeds-remaining"],
        RecordsReason::Checksum { .. } => &["crc-mismatch"],
        _ => &[],
    }
}
