//! LZ4 frames as Kafka reads and writes them: one frame of independent blocks. Not looked at, as in Kafka, are the size
//! and checksum of the content, and what follows the frame; in magic 0 also the checksum of the header, which Kafka's
//! first writer computed over too much.

use lz4_flex::block::{self, CompressTable, DecompressError};
use twox_hash::XxHash32;

use super::Fault;

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
/// Version 1, independent blocks.
const FLAGS: u8 = 0x60;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
/// Blocks of up to 64 KiB.
const BLOCK_DESCRIPTOR: u8 = 0x40;
const BLOCK_SIZE: usize = 64 * 1024;
/// A block that is not compressed.
const STORED: u32 = 1 << 31;
/// A byte stands for at most 255.
const MAX_RATIO: usize = 255;

pub(super) fn decompress(mut input: &[u8], magic: i8, limit: usize) -> Result<Vec<u8>, Fault> {
    let (block_size, has_checksums) = header(&mut input, magic).map_err(Fault::damaged)?;
    let mut out = Vec::with_capacity(input.len().saturating_mul(3).min(limit));
    loop {
        let head = u32::from_le_bytes(take(&mut input).ok_or_else(cut)?);
        if head == 0 {
            return Ok(out);
        }
        let size = (head & !STORED) as usize;
        if size > block_size {
            return Err(Fault::damaged(format_args!("a block of {size} bytes, {block_size} allowed")));
        }
        let (data, rest) = input.split_at_checked(size).ok_or_else(cut)?;
        input = rest;
        if has_checksums && u32::from_le_bytes(take(&mut input).ok_or_else(cut)?) != hash(data) {
            return Err(Fault::damaged("the checksum of a block is wrong"));
        }
        if head & STORED == 0 {
            inflate(data, block_size, &mut out, limit)?;
        } else if data.len() > limit - out.len() {
            return Err(Fault::Limit);
        } else {
            out.extend_from_slice(data);
        }
    }
}

/// Reads the header of a frame: the size of its blocks, and whether they have checksums.
fn header(input: &mut &[u8], magic: i8) -> Result<(usize, bool), &'static str> {
    if take(input) != Some(MAGIC) {
        return Err("no LZ4 frame");
    }
    let descriptor = *input;
    let [flags, block_descriptor] = take(input).ok_or("the header is cut")?;
    if flags & !(BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM) != FLAGS {
        return Err("a version, dependent blocks or a dictionary that Kafka does not read");
    }
    let block_size = match block_descriptor {
        0x40 | 0x50 | 0x60 | 0x70 => 1 << (8 + (block_descriptor >> 4) * 2),
        _ => return Err("an unknown size of blocks"),
    };
    if flags & CONTENT_SIZE != 0 {
        take::<8>(input).ok_or("the header is cut")?;
    }
    let descriptor = &descriptor[..descriptor.len() - input.len()];
    let [checksum] = take(input).ok_or("the header is cut")?;
    if magic > 0 && checksum != header_checksum(descriptor) {
        return Err("the checksum of the header is wrong");
    }
    Ok((block_size, flags & BLOCK_CHECKSUM != 0))
}

fn inflate(data: &[u8], block_size: usize, out: &mut Vec<u8>, limit: usize) -> Result<(), Fault> {
    let start = out.len();
    let possible = block_size.min(data.len().saturating_mul(MAX_RATIO));
    out.resize(start + possible.min(limit - start), 0);
    match block::decompress_into(data, &mut out[start..]) {
        Ok(length) => {
            out.truncate(start + length);
            Ok(())
        }
        Err(DecompressError::OutputTooSmall { .. }) if possible > limit - start => Err(Fault::Limit),
        Err(error) => Err(Fault::damaged(error)),
    }
}

pub(super) fn compress(records: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let descriptor = [FLAGS, BLOCK_DESCRIPTOR];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&descriptor);
    out.push(header_checksum(&descriptor));
    let mut table = CompressTable::default();
    for chunk in records.chunks(BLOCK_SIZE) {
        let start = out.len() + 4;
        out.resize(start + block::get_maximum_output_size(chunk.len()), 0);
        let length = block::compress_into_with_table(chunk, &mut out[start..], &mut table)
            .map_err(|error| error.to_string())?;
        out.truncate(start + length);
        let mut head = length as u32;
        if length >= chunk.len() {
            out.truncate(start);
            out.extend_from_slice(chunk);
            head = STORED | chunk.len() as u32;
        }
        out[start - 4..start].copy_from_slice(&head.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*taken)
}

#[cold]
fn cut() -> Fault {
    Fault::damaged("the stream is cut")
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (hash(descriptor) >> 8) as u8
}

fn hash(data: &[u8]) -> u32 {
    XxHash32::oneshot(0, data)
}
