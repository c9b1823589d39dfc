//! A case of the vectors.

use kafka_protocol::records::{RecordsError, RecordsReason, Stage};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::read::{Seen, see};
use super::{produce, write};
use crate::vectors::{Check, same_bytes, same_json, unhex};

/// Reads the buffer as stated, and writes again what can be read.
pub(super) fn check(case: &Json) -> Check {
    let bytes = unhex(&case["hex"])?;
    let seen = see(&bytes)?;
    if !case["error"].is_null() {
        check_refused(&case["error"], &seen)?;
    } else {
        let stated = case["batches"].as_array().ok_or("neither batches nor an error")?;
        match &seen.error {
            Some(error) if case["lenient"] == true => check_strict(error, stated, &seen)?,
            Some(error) => return Err(error.to_string()),
            None => {
                check_read(stated, &case["trailing"], &seen)?;
                check_written(case, stated, &bytes)?;
            }
        }
    }
    if case["produce"].is_null() { Ok(()) } else { produce::check(case, &bytes, &seen) }
}

/// The error is the one that is stated: stage, batch and record. Three differences are right:
///
/// - Ours decompresses a stream before it reads the first record, Kafka while it reads; so it can find what is wrong with
///   a control record first, and tells how many records it has read before the stream turns out to be damaged.
/// - Ours stops at a record that Kafka passes: see [`is_stricter`].
/// - Ours reads control records in the version that they tell, Kafka always as version 0.
fn check_refused(stated: &Json, seen: &Seen) -> Check {
    let stage = stated["stage"].as_str().ok_or("an error of no stage")?;
    let Some(error) = &seen.error else {
        return match stage == "control" && has_newer_control(&seen.batches) {
            true => Ok(()),
            false => Err(format!("is read, but an error of {stage} is stated")),
        };
    };
    let (found, batch) = (stage_name(error.stage()), stated["batch"].as_u64());
    let is_sooner = stage == "control" && matches!(error.reason(), RecordsReason::Decompress { .. });
    if (found != stage && !is_sooner) || batch.is_some_and(|batch| batch != error.batch() as u64) {
        return Err(format!("{found}: {error}; stated is {stage} in batch {}", stated["batch"]));
    }
    match (stated["record"].as_u64(), records_before(error).map(|records| records as u64)) {
        (Some(stated), Some(found)) if found > stated || (found < stated && !is_stricter(error)) => {
            Err(format!("{error}; stated is record {stated}"))
        }
        _ => check_checksums(error, stated["message"].as_str().unwrap_or_default()),
    }
}

/// How many records a consumer has before the error, as Kafka delivers them: of too many, the last announced one comes
/// with the error.
fn records_before(error: &RecordsError) -> Option<usize> {
    match *error.reason() {
        RecordsReason::Count { found, left, .. } => Some(found - usize::from(left > 0 && found > 0)),
        _ => error.record(),
    }
}

/// Kafka reads such records: text that is not UTF-8, varints with more bits than their type, lengths below -1, offsets
/// that overflow.
fn is_stricter(error: &RecordsError) -> bool {
    use RecordsReason::{HeaderKey, Negative, OffsetOverflow, Varint};
    matches!(error.reason(), HeaderKey | Varint { .. } | Negative { .. } | OffsetOverflow { .. })
}

fn has_newer_control(batches: &[Json]) -> bool {
    let records = batches.iter().flat_map(|batch| batch["records"].as_array()).flatten();
    records.filter_map(|record| record["controlVersion"].as_i64()).any(|version| version > 0)
}

/// The text of Kafka's error has both checksums, if they are what is wrong.
fn check_checksums(error: &RecordsError, message: &str) -> Check {
    let RecordsReason::Checksum { stored, computed } = error.reason() else { return Ok(()) };
    let pair = format!("(stored crc = {stored}, computed crc = {computed})");
    if message.contains("stored crc") && !message.contains(&pair) {
        return Err(format!("{error}; stated is {message}"));
    }
    Ok(())
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Split => "split",
        Stage::Checksum => "checksum",
        Stage::Header => "header",
        Stage::Records => "records",
        Stage::Control => "control",
        Stage::Produce => "produce",
    }
}

/// Refused though Kafka reads it. What Kafka reads can be split, and has the right checksum.
fn check_strict(error: &RecordsError, stated: &[Json], seen: &Seen) -> Check {
    if matches!(error.stage(), Stage::Split | Stage::Checksum) || seen.headers.len() <= error.batch() {
        return Err(error.to_string());
    }
    for (n, (stated, seen)) in stated.iter().zip(&seen.headers).enumerate() {
        // In the old formats only the records tell the base offset.
        let not_in_headers = if stated["magic"] == 2 { &["records"][..] } else { &["records", "baseOffset"] };
        let [stated, seen] = [stated, seen].map(|batch| without(batch, not_in_headers));
        same(&format!("header {n}"), &stated, &seen)?;
    }
    for (n, (stated, seen)) in stated.iter().zip(&seen.batches).enumerate() {
        same(&format!("batch {n}"), stated, seen)?;
    }
    Ok(())
}

fn check_read(stated: &[Json], trailing: &Json, seen: &Seen) -> Check {
    for (n, (stated, seen)) in stated.iter().zip(&seen.batches).enumerate() {
        same(&format!("batch {n}"), stated, seen)?;
    }
    if stated.len() != seen.batches.len() {
        return Err(format!("{} batches instead of {}", seen.batches.len(), stated.len()));
    }
    match trailing.as_u64().unwrap_or(0) {
        stated if stated != seen.trailing as u64 => {
            Err(format!("{} bytes are left instead of {stated}", seen.trailing))
        }
        _ => Ok(()),
    }
}

/// Writes each batch of magic 2 from what is stated of it.
fn check_written(case: &Json, stated: &[Json], bytes: &Bytes) -> Check {
    let mut at = 0;
    for (n, stated) in stated.iter().enumerate() {
        let size = stated["sizeInBytes"].as_u64().ok_or("a batch of no size")? as usize;
        let original = bytes.get(at..at + size).ok_or("batches larger than the buffer")?;
        at += size;
        if stated["magic"] != 2 {
            continue;
        }
        let written = match write::batch(stated) {
            Ok(written) => written,
            // Some damage cannot be written.
            Err(_) if case["lenient"] == true => continue,
            Err(error) => return Err(format!("batch {n} is not written: {error}")),
        };
        if case["byteExact"] == true {
            same_bytes(&format!("batch {n} written"), original, &written)?;
        } else {
            check_again(&format!("batch {n} written and read"), stated, &written)?;
        }
    }
    Ok(())
}

/// Read again, what was written is the same, but for what compression decides, and for the attributes of records, which
/// no writer sets.
fn check_again(what: &str, stated: &Json, written: &Bytes) -> Check {
    let seen = see(written)?;
    if let Some(error) = seen.error {
        return Err(format!("{what}: {error}"));
    }
    let [again] = &seen.batches[..] else { return Err(format!("{what}: {} batches", seen.batches.len())) };
    let normal = |batch: &Json| {
        let mut batch = without(batch, &["crc", "sizeInBytes"]);
        for record in batch["records"].as_array_mut().into_iter().flatten() {
            *record = without(record, &["attributes"]);
        }
        batch
    };
    same(what, &normal(stated), &normal(again))
}

fn without(object: &Json, members: &[&str]) -> Json {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, _| !members.contains(&name.as_str()));
    }
    object
}

/// Members may be in any order.
pub(super) fn same(what: &str, stated: &Json, found: &Json) -> Check {
    if stated == found { Ok(()) } else { same_json(what, stated, found) }
}
