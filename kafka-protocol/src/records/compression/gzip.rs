//! gzip, with what Java's reader of it accepts: several members, and anything behind the last one.

use std::io::Write as _;

use flate2::Compression as Level;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use super::{Fault, read_to_limit};

pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(input.len().saturating_mul(4).min(limit));
    let mut member = GzDecoder::new(input);
    loop {
        read_to_limit(&mut member, &mut out, limit)?;
        member = GzDecoder::new(member.into_inner());
        // Something else follows, or nothing.
        if member.header().is_none() {
            return Ok(out);
        }
    }
}

pub(super) fn compress(level: i32, records: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut encoder = GzEncoder::new(out, Level::new(level.unsigned_abs()));
    encoder.write_all(records).and_then(|()| encoder.try_finish()).map_err(|error| error.to_string())
}
