//! The compression libraries without any records around them, called as ours calls them.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use kafka_protocol::records::Compression;

use super::{ALONE, Operation};
use crate::harness::Case;

const HEADER: usize = 61;
const VALID: &str = "the stream is valid";
/// Bytes per chunk of Snappy, and per block of LZ4.
const SNAPPY_CHUNK: usize = 32 * 1024;
const LZ4_BLOCK: usize = 64 * 1024;
const XERIAL_HEADER: usize = 16;
const LZ4_HEADER: usize = 7;
const ROOM: usize = 256 * 1024;

/// Inflating the content of a batch, and deflating what comes out.
pub(super) fn cases(compression: Compression, batch: &Bytes) -> Result<[Case<Operation>; 2], String> {
    let content = batch.slice(HEADER..);
    let mut inflated = vec![0; ROOM];
    let length = inflate(compression, &content, &mut inflated);
    let records = inflated[..length].to_vec();
    let mut deflated = vec![0; ROOM];
    let again = deflate(compression, &records, &mut deflated);
    // The frames of Snappy and LZ4 are left out.
    if again > content.len() || again + 64 < content.len() {
        return Err(format!("{compression} alone makes {again} bytes instead of {}", content.len()));
    }
    let name = compression.name();
    Ok([
        Case::new(name, ALONE, Operation::Lazy, move || inflate(compression, &content, &mut inflated)),
        Case::new(name, ALONE, Operation::Build, move || deflate(compression, &records, &mut deflated)),
    ])
}

/// The number of bytes that come out.
#[inline(never)]
fn inflate(compression: Compression, content: &[u8], out: &mut Vec<u8>) -> usize {
    match compression {
        Compression::None => 0,
        Compression::Gzip => {
            out.clear();
            flate2::bufread::GzDecoder::new(content).read_to_end(out).expect(VALID)
        }
        Compression::Snappy => {
            let (mut rest, mut length) = (&content[XERIAL_HEADER..], 0);
            let mut decoder = snap::raw::Decoder::new();
            while let Some((size, behind)) = rest.split_first_chunk() {
                let (chunk, behind) = behind.split_at(u32::from_be_bytes(*size) as usize);
                length += decoder.decompress(chunk, &mut out[length..]).expect(VALID);
                rest = behind;
            }
            length
        }
        Compression::Lz4 => {
            let (mut rest, mut length) = (&content[LZ4_HEADER..], 0);
            while let Some((size, behind)) = rest.split_first_chunk()
                && *size != [0; 4]
            {
                let (block, behind) = behind.split_at(u32::from_le_bytes(*size) as usize);
                length += lz4_flex::block::decompress_into(block, &mut out[length..]).expect(VALID);
                rest = behind;
            }
            length
        }
        Compression::Zstd => {
            out.clear();
            zstd::stream::read::Decoder::with_buffer(content)
                .and_then(|mut it| it.read_to_end(out))
                .expect(VALID)
        }
    }
}

/// The number of bytes that come out.
#[inline(never)]
fn deflate(compression: Compression, records: &[u8], out: &mut Vec<u8>) -> usize {
    match compression {
        Compression::None => 0,
        Compression::Gzip => {
            out.clear();
            let mut encoder = flate2::write::GzEncoder::new(&mut *out, flate2::Compression::new(6));
            encoder.write_all(records).and_then(|()| encoder.try_finish()).expect(VALID);
            drop(encoder);
            out.len()
        }
        Compression::Snappy => {
            let (mut encoder, mut length) = (snap::raw::Encoder::new(), 0);
            for chunk in records.chunks(SNAPPY_CHUNK) {
                length += encoder.compress(chunk, &mut out[length..]).expect(VALID);
            }
            length
        }
        Compression::Lz4 => {
            let (mut table, mut length) = (lz4_flex::block::CompressTable::default(), 0);
            for block in records.chunks(LZ4_BLOCK) {
                let made = lz4_flex::block::compress_into_with_table(block, &mut out[length..], &mut table);
                length += made.expect(VALID);
            }
            length
        }
        Compression::Zstd => zstd::bulk::compress_to_buffer(records, &mut out[..], 3).expect(VALID),
    }
}
