//! The checksums of batches, computed with the instructions that the CPU has for it.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C (Castagnoli), of batches of magic 2.
#[inline]
pub(super) fn crc_32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32 (ISO-HDLC), of messages of magic 0 and 1.
#[inline]
pub(super) fn crc_32(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}
