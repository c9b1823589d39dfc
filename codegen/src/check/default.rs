//! The texts of defaults.

use super::types::{Element, TypeText};
use crate::model::{Default, Type};
use crate::report::quoted;

/// The default that a text means for a type; no text is the empty one.
///
/// # Errors
///
/// What would be right.
pub(super) fn parse(ty: &TypeText<'_>, text: Option<&str>) -> Result<Default, String> {
    let plain = match &ty.element {
        Element::Plain(plain) if !ty.array => plain,
        _ => return empty_or_null(text, if ty.array { "an array" } else { "a struct" }),
    };
    match plain {
        Type::Bool => boolean(text.unwrap_or("false")),
        Type::Int8 => integer(text, "int8", i8::MIN.into(), i8::MAX.into()),
        Type::Int16 => integer(text, "int16", i16::MIN.into(), i16::MAX.into()),
        Type::Uint16 => integer(text, "uint16", 0, u16::MAX.into()),
        Type::Int32 => integer(text, "int32", i32::MIN.into(), i32::MAX.into()),
        Type::Uint32 => integer(text, "uint32", 0, u32::MAX.into()),
        Type::Int64 => integer(text, "int64", i64::MIN, i64::MAX),
        Type::Float64 => float(text.unwrap_or("0")),
        Type::Uuid => text.map_or(Ok(Default::Uuid([0; 16])), uuid),
        Type::String => Ok(match text {
            Some("null") => Default::Null,
            other => Default::String(other.unwrap_or_default().to_owned()),
        }),
        Type::Bytes => empty_or_null(text, "`bytes`"),
        // Whatever the text says.
        Type::Records => Ok(Default::Null),
        Type::Struct(_) | Type::Array(_) => empty_or_null(text, "such a type"),
    }
}

fn empty_or_null(text: Option<&str>, what: &str) -> Result<Default, String> {
    match text {
        None => Ok(Default::Empty),
        Some("null") => Ok(Default::Null),
        Some(_) => Err(format!("the default of {what} is `null`; leave it out for an empty one")),
    }
}

fn boolean(text: &str) -> Result<Default, String> {
    if text.eq_ignore_ascii_case("true") {
        Ok(Default::Bool(true))
    } else if text.eq_ignore_ascii_case("false") {
        Ok(Default::Bool(false))
    } else {
        Err("the default of `bool` is `true` or `false`".to_owned())
    }
}

/// A decimal number with or without a sign, or `0x` and hexadecimal digits without one. As in Kafka, these are
/// the digits of the value, not its bit pattern, so that `0xff` is no int8.
fn integer(text: Option<&str>, ty: &str, low: i64, high: i64) -> Result<Default, String> {
    let Some(text) = text else { return Ok(Default::Int(0)) };
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.starts_with(['+', '-']) => None,
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => {
            // Kafka's own generator copies the text into Java, where a leading zero makes it octal.
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if digits.len() > 1 && digits.starts_with('0') {
                return Err(format!(
                    "leave out the leading zero of {}, which Kafka takes for an octal number",
                    quoted(text)
                ));
            }
            text.parse().ok()
        }
    };
    match number {
        Some(number) if low <= number && number <= high => Ok(Default::Int(number)),
        _ => Err(format!(
            "the default of `{ty}` is a whole number from {low} to {high}, decimal or, if it is not negative, as \
             `0x` and hexadecimal digits"
        )),
    }
}

/// What Java takes for a double.
fn float(text: &str) -> Result<Default, String> {
    let trimmed = text.trim_matches(|letter| letter <= ' ');
    let (negative, digits) = match trimmed.as_bytes() {
        [b'-', ..] => (true, &trimmed[1..]),
        [b'+', ..] => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let magnitude = match digits {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        _ => {
            let digits = digits.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(digits);
            match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                Some(hexadecimal) => hexadecimal_float(hexadecimal),
                // Rust also knows words such as `inf`, which do not start like a number.
                None if digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                    digits.parse().ok()
                }
                None => None,
            }
        }
    };
    match magnitude {
        Some(magnitude) => Ok(Default::Float(if negative { -magnitude } else { magnitude })),
        None => {
            Err("the default of `float64` is a decimal number such as `-1.5` or `1e9`, `NaN`, `Infinity`, \
                     `-Infinity` or a hexadecimal number such as `0x1.8p3`"
                .to_owned())
        }
    }
}

/// `1.8p3`, without sign and `0x`: hexadecimal digits, times a power of two that has to be given. The nearest
/// float64, the even one of two that are equally near.
fn hexadecimal_float(text: &str) -> Option<f64> {
    let (digits, power) = text.split_once(['p', 'P'])?;
    let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
    if unsigned.is_empty() || !unsigned.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // A power beyond this can be outweighed by no text of digits, however long.
    const FAR: i64 = 1 << 50;
    let power = power
        .parse::<i64>()
        .map_or(if power.starts_with('-') { -FAR } else { FAR }, |it| it.clamp(-FAR, FAR));

    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The value is `mantissa * 2^exponent`, and a bit more if `rest`.
    let mut mantissa = 0_u64;
    let mut exponent = power;
    let mut rest = false;
    for (at, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = digit.to_digit(16)?;
        let kept = mantissa >> 60 == 0;
        if kept {
            mantissa = mantissa << 4 | u64::from(digit);
        } else {
            rest |= digit != 0;
        }
        let in_fraction = at >= whole.len();
        exponent += match (kept, in_fraction) {
            (true, true) => -4,
            (false, false) => 4,
            _ => 0,
        };
    }
    if mantissa == 0 {
        return Some(0.0);
    }
    let shift = mantissa.leading_zeros();
    mantissa <<= shift;
    exponent -= i64::from(shift);

    // Now `mantissa` has 64 bits; a float64 keeps 53 of them, and fewer below 2^-1022.
    let top = exponent + 63;
    if top > 1023 {
        return Some(f64::INFINITY);
    }
    let dropped = if top >= -1022 { 11 } else { 11 + (-1022 - top) };
    if dropped > 64 {
        return Some(0.0);
    }
    let wide = u128::from(mantissa);
    let kept = (wide >> dropped) as u64;
    let tail = wide & ((1 << dropped) - 1);
    let half = 1_u128 << (dropped - 1);
    let up = tail > half || (tail == half && (rest || kept & 1 == 1));
    // A carry out of the mantissa raises the exponent, as it should.
    let biased = if top >= -1022 { (top + 1022) as u64 } else { 0 };
    Some(f64::from_bits((biased << 52) + kept + u64::from(up)))
}

/// 16 bytes as base64 with the alphabet for URLs; the padding may be left out.
fn uuid(text: &str) -> Result<Default, String> {
    let wrong = || {
        "the default of `uuid` is 16 bytes as base64 with the alphabet for URLs: 22 letters, digits, `-` and `_`, \
         such as `AAAAAAAAAAAAAAAAAAAAAQ`"
            .to_owned()
    };
    let digits = text.strip_suffix("==").unwrap_or(text);
    if digits.len() != 22 {
        return Err(wrong());
    }
    // 22 digits of 6 bits: the last 4 bits are left over.
    let mut bytes = [0; 16];
    let (mut bits, mut held, mut next) = (0_u32, 0, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return Err(wrong()),
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes[next] = (bits >> held) as u8;
            next += 1;
        }
    }
    Ok(Default::Uuid(bytes))
}
