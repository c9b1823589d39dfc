//! Cases about varints by themselves.

use anyhow::{Context, Result};
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::wire::{Bytes, Writer};
use serde_json::Value as Json;

use crate::vectors::{Check, same_bytes, unhex};

pub(super) fn check(raw: &Json) -> Check {
    let (value, expected) = (&raw["value"], &raw["expected"]);
    let mut checks = 0;
    if let Some(number) = value["unsigned_varint"].as_u64() {
        let number = number.try_into().map_err(|_| format!("{number} has more than 32 bits"))?;
        let bytes = encoded(|w| w.varint(number));
        same_bytes("unsigned varint", &unhex(&expected["unsigned_varint_hex"])?, &bytes)?;
        checks += 1;
    }
    if let Some(number) = value["zigzag_varint"].as_i64() {
        let bytes = zigzag(number).map_err(|error| format!("{error:#}"))?;
        same_bytes("zigzag varint", &unhex(&expected["zigzag_varint_hex"])?, &bytes)?;
        checks += 1;
    }
    if let Some(length) = value["compact_bytes_len"].as_u64() {
        let mut done = Ok(());
        let bytes = encoded(|w| done = w.bytes(&Bytes::from(vec![7; length as usize])));
        done.map_err(|fault| format!("{fault:?}"))?;
        let start = unhex(&expected["prefix_hex"])?;
        same_bytes("compact bytes start with", &start, &bytes[..start.len().min(bytes.len())])?;
        if expected["total_len"] != bytes.len() {
            return Err(format!("{} bytes instead of {}", bytes.len(), expected["total_len"]));
        }
        checks += 1;
    }
    if checks == value.as_object().map_or(0, serde_json::Map::len) && checks > 0 {
        Ok(())
    } else {
        Err(format!("not all of {value} is known"))
    }
}

fn encoded(write: impl FnOnce(&mut Writer<'_, Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, 0, true));
    bytes
}

/// Only records have numbers with a sign, such as the time since the first record of the batch.
fn zigzag(number: i64) -> Result<Vec<u8>> {
    /// Length, attributes, timestamp, offset, no key, no value, no headers: a byte each.
    const FIRST_RECORD: usize = 7;
    const HEADER: usize = 61;
    let mut batch = BatchBuilder::new();
    for timestamp in [0, number] {
        batch.append(&NewRecord { timestamp, ..Default::default() })?;
    }
    let bytes = batch.finish()?;
    let second = bytes.get(HEADER + FIRST_RECORD..).context("no second record")?;
    Ok(second.get(2..second.len() - 4).context("too short a record")?.to_vec())
}
