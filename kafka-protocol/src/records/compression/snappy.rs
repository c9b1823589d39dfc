//! Snappy as Java's snappy library writes it to streams (Xerial): a header, then chunks with their length in front.
//! Other clients wrote plain Snappy, which is read too.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::Fault;

const MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Version, and the oldest version that can read it.
const VERSIONS: &[u8] = &[0, 0, 0, 1, 0, 0, 0, 1];
/// The bytes that Java's writer puts into a chunk.
const CHUNK_SIZE: usize = 32 * 1024;
/// Three bytes stand for at most 64.
const MAX_RATIO: usize = 22;

pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    if !input.starts_with(MAGIC) {
        inflate(input, &mut out, limit)?;
        return Ok(out);
    }
    let mut rest = input;
    while !rest.is_empty() {
        if rest.starts_with(MAGIC) {
            rest = rest
                .get(MAGIC.len() + VERSIONS.len()..)
                .ok_or_else(|| Fault::damaged("the header is cut"))?;
            continue;
        }
        let chunk = rest.split_first_chunk().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)
        });
        let (chunk, behind) = chunk.ok_or_else(|| Fault::damaged("the length of a chunk is wrong"))?;
        inflate(chunk, &mut out, limit)?;
        rest = behind;
    }
    Ok(out)
}

fn inflate(chunk: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Fault> {
    let length = decompress_len(chunk).map_err(Fault::damaged)?;
    if length > limit - out.len() {
        return Err(Fault::Limit);
    }
    // A claim that no stream of this size can keep takes no memory.
    if length > chunk.len().saturating_mul(MAX_RATIO) {
        return Err(Fault::damaged(format_args!("{} bytes claim to be {length}", chunk.len())));
    }
    let start = out.len();
    out.resize(start + length, 0);
    Decoder::new().decompress(chunk, &mut out[start..]).map_err(Fault::damaged)?;
    Ok(())
}

pub(super) fn compress(records: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(VERSIONS);
    out.reserve(records.len().div_ceil(CHUNK_SIZE) * (4 + max_compress_len(CHUNK_SIZE)));
    let mut encoder = Encoder::new();
    for chunk in records.chunks(CHUNK_SIZE) {
        let start = out.len() + 4;
        out.resize(start + max_compress_len(chunk.len()), 0);
        let length = encoder.compress(chunk, &mut out[start..]).map_err(|error| error.to_string())?;
        out[start - 4..start].copy_from_slice(&(length as u32).to_be_bytes());
        out.truncate(start + length);
    }
    Ok(())
}
