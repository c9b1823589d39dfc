//! Varints of records: zigzag, seven bits per byte, the lowest first.

/// Takes a varint off the front; `None` if it is cut, longer than its type or has bits beyond it.
#[inline]
pub(super) fn take_i32(input: &mut &[u8]) -> Option<i32> {
    // Lengths, counts and deltas are mostly one byte, values of up to 8 kB have a length of two.
    let value = match **input {
        [a, ref rest @ ..] if a < 0x80 => {
            *input = rest;
            u32::from(a)
        }
        [a, b, ref rest @ ..] if b < 0x80 => {
            *input = rest;
            u32::from(a & 0x7f) | u32::from(b) << 7
        }
        _ => u32::try_from(take_long(input, 5)?).ok()?,
    };
    Some((value >> 1) as i32 ^ -((value & 1) as i32))
}

/// The same of 64 bits.
#[inline]
pub(super) fn take_i64(input: &mut &[u8]) -> Option<i64> {
    let value = match **input {
        [a, ref rest @ ..] if a < 0x80 => {
            *input = rest;
            u64::from(a)
        }
        [a, b, ref rest @ ..] if b < 0x80 => {
            *input = rest;
            u64::from(a & 0x7f) | u64::from(b) << 7
        }
        _ => take_long(input, 10)?,
    };
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cold]
#[inline(never)]
fn take_long(input: &mut &[u8], longest: usize) -> Option<u64> {
    let mut value = 0;
    for (i, &byte) in input.iter().take(longest).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if i == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            *input = &input[i + 1..];
            return Some(value);
        }
    }
    None
}

/// Whether a varint at the front is cut, rather than wrong.
pub(super) fn is_cut(input: &[u8], longest: usize) -> bool {
    input.len() < longest && input.iter().all(|byte| *byte >= 0x80)
}

/// The most bytes of a varint, rounded up to a power of two.
pub(super) const MOST: usize = 16;

/// A number in the form in which it is small if it is close to 0.
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Puts a varint of a number that is in zigzag form already. Returns its end.
#[inline(always)]
pub(super) fn put(out: &mut [u8; 2 * MOST], at: usize, zigzag: u64) -> usize {
    if zigzag < 0x80 {
        out[at % (2 * MOST)] = zigzag as u8;
        at + 1
    } else if zigzag < 0x4000 {
        out[at % (2 * MOST)] = zigzag as u8 | 0x80;
        out[(at + 1) % (2 * MOST)] = (zigzag >> 7) as u8;
        at + 2
    } else {
        put_long(out, at, zigzag)
    }
}

#[cold]
#[inline(never)]
fn put_long(out: &mut [u8; 2 * MOST], mut at: usize, mut zigzag: u64) -> usize {
    while zigzag >= 0x80 {
        out[at] = zigzag as u8 | 0x80;
        zigzag >>= 7;
        at += 1;
    }
    out[at] = zigzag as u8;
    at + 1
}

/// The bytes of the varint of a number that is in zigzag form already.
#[inline]
pub(super) fn len(zigzag: u64) -> usize {
    match zigzag {
        ..0x80 => 1,
        0x80..0x4000 => 2,
        // Seven bits per byte.
        _ => (70 - zigzag.leading_zeros() as usize) / 7,
    }
}
