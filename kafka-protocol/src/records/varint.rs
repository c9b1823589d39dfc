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

/// Appends a varint.
#[inline]
pub(super) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put(out, u64::from((value << 1 ^ value >> 31) as u32));
}

/// The same of 64 bits.
#[inline]
pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

#[inline]
fn put(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else if value < 0x4000 {
        out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    } else {
        put_long(out, value);
    }
}

#[cold]
#[inline(never)]
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The bytes that [`put_i32`] writes.
#[inline]
pub(super) fn len_i32(value: i32) -> usize {
    len_i64(value.into())
}

/// The bytes that [`put_i64`] writes.
#[inline]
pub(super) fn len_i64(value: i64) -> usize {
    let zigzag = (value << 1 ^ value >> 63) as u64;
    // Seven bits per byte, at least one byte.
    (70 - (zigzag | 1).leading_zeros() as usize) / 7
}
