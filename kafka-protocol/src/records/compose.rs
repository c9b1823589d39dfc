//! What building a batch and compressing it anew have in common.

use super::batch::{HEADER_SIZE, MAX_SIZE, seal};
use super::compression::compress;
use super::{BatchHeader, BuildError, Compression};

/// The level to use, if the codec is enabled and has it.
pub(super) fn check_codec(compression: Compression, level: Option<i32>) -> Result<i32, BuildError> {
    if !compression.is_enabled() {
        return Err(BuildError::CompressionDisabled { compression });
    }
    let Some((levels, default)) = compression.levels() else { return Ok(0) };
    let level = level.unwrap_or(default);
    if levels.contains(&level) { Ok(level) } else { Err(BuildError::Level { compression, level }) }
}

/// Appends room for a header and the compressed records, or nothing. The level has been checked.
pub(super) fn put_compressed(
    compression: Compression,
    level: i32,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BuildError> {
    let start = out.len();
    out.resize(start + HEADER_SIZE, 0);
    let done = match compress(compression, level, records, out) {
        Ok(()) if out.len() - start > MAX_SIZE => Err(BuildError::TooLarge),
        Ok(()) => Ok(()),
        Err(message) => Err(BuildError::Compress { compression, message }),
    };
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Writes the header into its room, and length and checksum into the header.
pub(super) fn complete(header: &BatchHeader, batch: &mut [u8]) {
    if let Some(room) = batch.first_chunk_mut() {
        header.write(room);
    }
    seal(batch);
}
