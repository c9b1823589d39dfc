//! Zstandard: several frames, skippable ones among them; windows of up to 128 MiB, as Kafka's reader.

use std::ops::RangeInclusive;

use zstd::stream::read::Decoder;

use super::{Fault, read_to_limit};

pub(super) fn levels() -> RangeInclusive<i32> {
    zstd::compression_level_range()
}

pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(input.len().saturating_mul(4).min(limit));
    read_to_limit(Decoder::with_buffer(input).map_err(Fault::damaged)?, &mut out, limit)?;
    Ok(out)
}

pub(super) fn compress(level: i32, records: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let compressed = zstd::bulk::compress(records, level).map_err(|error| error.to_string())?;
    out.extend_from_slice(&compressed);
    Ok(())
}
