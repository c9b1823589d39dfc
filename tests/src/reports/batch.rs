//! Cases about record batches.

use allocation_counter::measure;
use kafka_protocol::records::{BatchBuilder, Batches, RecordsError, RecordsReason};
use kafka_protocol::wire::Bytes;
use serde_json::{Value as Json, json};

use super::{category, input, list};
use crate::vectors::{Check, same_bytes};

pub(super) fn check(raw: &Json) -> Check {
    let (bytes, expected) = (input(raw)?, &raw["expected"]);
    if expected["err"].is_null() { check_read(&bytes, expected) } else { check_refused(&bytes, expected) }
}

/// Refused for one of the given reasons, without taking more memory than allowed.
fn check_refused(bytes: &Bytes, expected: &Json) -> Check {
    let mut read = Ok(vec![]);
    let memory = measure(|| read = self::read(bytes).map(|read| read.0)).bytes_max;
    let Err(error) = read else { return Err("the batch is read".to_owned()) };
    category::expect("records", &error, category::of_records(&error), &expected["err"])?;
    match expected["max_alloc_bytes"].as_u64() {
        Some(max) if memory > max => {
            return Err(format!("takes {memory} bytes of memory, at most {max} allowed"));
        }
        _ => {}
    }
    if let (Some(check), RecordsReason::Checksum { computed, .. }) =
        (expected["check_values"]["crc32c"].as_str(), error.reason())
        && (format!("{:08x}", crc_32c(b"123456789")) != check || *computed != crc_32c(&bytes[21..]))
    {
        return Err(format!("{error}, which is no CRC-32C"));
    }
    Ok(())
}

/// What is expected of the batch is so, and written again it has the same bytes.
fn check_read(bytes: &Bytes, expected: &Json) -> Check {
    let (found, trailing) = read(bytes).map_err(|error| error.to_string())?;
    same("", &expected["ok"], found.first().ok_or("no batch")?)?;
    same("next_offset", &expected["next_offset"], &found[0]["next_offset"])?;
    same("incomplete_tail_bytes", &expected["incomplete_tail_bytes"], &trailing.into())?;
    if expected["reencode"] == "same" {
        same_bytes("written", bytes, &write(bytes).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

/// All batches, and the number of bytes behind them.
fn read(bytes: &Bytes) -> Result<(Vec<Json>, usize), RecordsError> {
    let mut batches = Batches::new(bytes);
    let mut found = Vec::new();
    for batch in &mut batches {
        let batch = batch?;
        let (header, mut records) = (batch.header(), Vec::new());
        for record in batch.records()?.iter() {
            let record = record?;
            records.push(json!({
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": record.key.map(hex),
                "value": record.value.map(hex),
            }));
        }
        found.push(json!({
            "records": records,
            "compression": header.attributes.compression_id(),
            "timestamp_type": header.timestamp_type().map(|kind| format!("{kind:?}")),
            "transactional": header.is_transactional(),
            "control": header.is_control(),
            "next_offset": header.next_offset(),
        }));
    }
    Ok((found, batches.trailing().len()))
}

fn write(bytes: &Bytes) -> Result<Bytes, Box<dyn std::error::Error>> {
    let batch = Batches::new(bytes).next().ok_or("no batch")??;
    let mut builder = BatchBuilder::from_header(batch.header());
    for record in &batch.records()? {
        builder.append_record(&record?)?;
    }
    Ok(builder.finish()?)
}

/// Whatever is expected is found.
fn same(path: &str, expected: &Json, found: &Json) -> Check {
    match expected {
        Json::Null if !path.ends_with("key") && !path.ends_with("value") => Ok(()),
        Json::Object(members) => {
            members.iter().try_for_each(|(name, expected)| same(name, expected, &found[name]))
        }
        Json::Array(elements) => {
            if elements.len() != list(found).len() {
                return Err(format!("{} {path} instead of {}", list(found).len(), elements.len()));
            }
            elements.iter().zip(list(found)).try_for_each(|(expected, found)| same(path, expected, found))
        }
        _ if expected == found => Ok(()),
        _ => Err(format!("{path} is {found} instead of {expected}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("hex:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Bit by bit, to judge the checksum that the records module computes.
pub(crate) fn crc_32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}
