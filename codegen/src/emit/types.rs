//! Types, defaults and comparisons with the default.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::ident;
use crate::model::{Default, Domain, Field, Message, Type};

/// The type of a field.
pub(super) fn field_type(message: &Message, field: &Field) -> TokenStream {
    let ty = plain_type(message, &field.ty, field.domain);
    if field.is_option() { quote!(Option<#ty>) } else { ty }
}

/// The type without `Option`.
fn plain_type(message: &Message, ty: &Type, domain: Option<Domain>) -> TokenStream {
    match ty {
        Type::Array(element) => {
            let element_type = plain_type(message, element, domain);
            match element.fixed_size() {
                Some(size) => {
                    // As many as fit where a vector would have its pointer, length and capacity.
                    let inline = Literal::usize_unsuffixed(16 / size);
                    quote!(SmallVec<[#element_type; #inline]>)
                }
                None => quote!(Vec<#element_type>),
            }
        }
        Type::Struct(index) => struct_name(message, *index),
        Type::String => quote!(Str),
        Type::Bytes | Type::Records => quote!(Bytes),
        Type::Uuid => quote!(Uuid),
        _ => match domain {
            Some(Domain::ErrorCode) => quote!(ErrorCode),
            Some(Domain::AcknowledgeType) => quote!(AcknowledgeType),
            None => {
                let name = number_type(ty);
                quote!(#name)
            }
        },
    }
}

pub(super) fn struct_name(message: &Message, index: usize) -> TokenStream {
    let name = ident(&message.structs[index].rust_name);
    quote!(#name)
}

fn number_type(ty: &Type) -> proc_macro2::Ident {
    format_ident!(
        "{}",
        match ty {
            Type::Bool => "bool",
            Type::Int8 => "i8",
            Type::Int16 => "i16",
            Type::Uint16 => "u16",
            Type::Int32 => "i32",
            Type::Uint32 => "u32",
            Type::Int64 => "i64",
            _ => "f64",
        }
    )
}

/// Whether the field's default is that of its Rust type.
pub(super) fn has_rust_default(field: &Field) -> bool {
    match &field.default {
        Default::Null => true,
        _ if field.is_option() => false,
        Default::Bool(it) => !it,
        Default::Int(it) => *it == 0,
        Default::Float(it) => it.to_bits() == 0,
        Default::Uuid(it) => *it == [0; 16],
        Default::String(it) => it.is_empty(),
        Default::Empty => true,
    }
}

/// The default of a field as an expression.
pub(super) fn default_value(message: &Message, field: &Field) -> TokenStream {
    if field.default == Default::Null {
        return quote!(None);
    }
    let value = plain_default(message, field);
    if field.is_option() { quote!(Some(#value)) } else { value }
}

fn plain_default(message: &Message, field: &Field) -> TokenStream {
    match (&field.default, &field.ty) {
        (Default::Bool(it), _) => quote!(#it),
        (Default::Int(it), ty) => match field.domain {
            Some(Domain::ErrorCode) if *it == 0 => quote!(ErrorCode::NONE),
            Some(domain) => {
                let ty = plain_type(message, ty, Some(domain));
                let value = int(*it, ty_name(&field.ty));
                quote!(#ty(#value))
            }
            None => int(*it, ty_name(ty)),
        },
        (Default::Float(it), _) => float(*it),
        (Default::Uuid(it), _) => uuid(*it),
        (Default::String(it), _) => quote!(Str::const_new(#it)),
        (Default::Empty, Type::Struct(index)) => {
            let name = struct_name(message, *index);
            quote!(#name::default())
        }
        (Default::Empty, Type::Array(element)) if element.fixed_size().is_some() => quote!(SmallVec::new()),
        (Default::Empty, Type::Array(_)) => quote!(Vec::new()),
        _ => quote!(Bytes::new()),
    }
}

/// Whether `value`, a place, has the default.
pub(super) fn is_default(message: &Message, field: &Field, value: &TokenStream) -> TokenStream {
    if field.default == Default::Null {
        return quote!(#value.is_none());
    }
    if field.is_option() {
        return match (&field.default, &field.ty) {
            (Default::String(text), _) => quote!(#value.as_deref() == Some(#text)),
            (_, Type::Struct(_)) => {
                let default = default_value(message, field);
                quote!(#value == #default)
            }
            (_, Type::Array(element)) if element.fixed_size().is_some() => {
                quote!(#value.as_ref().is_some_and(SmallVec::is_empty))
            }
            (_, Type::Array(_)) => quote!(#value.as_ref().is_some_and(Vec::is_empty)),
            _ => quote!(#value.as_ref().is_some_and(Bytes::is_empty)),
        };
    }
    match (&field.default, &field.ty) {
        (Default::Bool(true), _) => quote!(#value),
        (Default::Bool(false), _) => quote!(!#value),
        (Default::Uuid(id), _) if *id == [0; 16] => quote!(#value.is_nil()),
        // As in Kafka, which compares by value, so that the tagged field is always written.
        (Default::Float(it), _) if it.is_nan() => quote!(false),
        (Default::String(text), _) if !text.is_empty() => quote!(#value == #text),
        (Default::String(_), _) | (Default::Empty, Type::Array(_) | Type::Bytes | Type::Records) => {
            quote!(#value.is_empty())
        }
        _ => {
            let default = plain_default(message, field);
            quote!(#value == #default)
        }
    }
}

fn ty_name(ty: &Type) -> &'static str {
    match ty {
        Type::Int32 => "i32",
        Type::Int64 => "i64",
        _ => "",
    }
}

/// A whole number; the ends of a type by their names.
fn int(value: i64, ty: &str) -> TokenStream {
    match (ty, value) {
        ("i32", 0x7fff_ffff) => quote!(i32::MAX),
        ("i32", -0x8000_0000) => quote!(i32::MIN),
        ("i64", i64::MAX) => quote!(i64::MAX),
        ("i64", i64::MIN) => quote!(i64::MIN),
        _ => signed(value),
    }
}

/// A whole number that may be negative.
pub(super) fn signed(value: i64) -> TokenStream {
    let digits = Literal::u64_unsuffixed(value.unsigned_abs());
    if value < 0 { quote!(-#digits) } else { quote!(#digits) }
}

fn float(value: f64) -> TokenStream {
    if value.is_nan() {
        quote!(f64::NAN)
    } else if value.is_infinite() {
        if value > 0.0 { quote!(f64::INFINITY) } else { quote!(f64::NEG_INFINITY) }
    } else {
        // As for debugging, with an exponent rather than hundreds of zeros.
        let digits = format!("{:?}", value.abs());
        if is_near_constant(&digits) {
            let bits = literal(&format!("{:#x}", value.to_bits()));
            return quote!(f64::from_bits(#bits));
        }
        let digits = literal(&digits);
        if value.is_sign_negative() { quote!(-#digits) } else { quote!(#digits) }
    }
}

/// Whether Clippy takes the digits for a constant of mathematics that somebody typed from memory.
fn is_near_constant(digits: &str) -> bool {
    use std::f64::consts::*;
    const CONSTANTS: [f64; 19] = [
        E,
        FRAC_1_PI,
        FRAC_1_SQRT_2,
        FRAC_2_PI,
        FRAC_2_SQRT_PI,
        FRAC_PI_2,
        FRAC_PI_3,
        FRAC_PI_4,
        FRAC_PI_6,
        FRAC_PI_8,
        LN_2,
        LN_10,
        LOG10_2,
        LOG10_E,
        LOG2_10,
        LOG2_E,
        PI,
        SQRT_2,
        TAU,
    ];
    // All constants have one digit before the point.
    let places = digits.len().saturating_sub(2);
    let is_near = |it: f64| it.to_string().starts_with(digits) || format!("{it:.places$}") == digits;
    places >= 2 && CONSTANTS.into_iter().any(is_near)
}

fn uuid(bytes: [u8; 16]) -> TokenStream {
    if bytes == [0; 16] {
        return quote!(Uuid::nil());
    }
    let digits = uuid_number(bytes);
    quote!(Uuid::from_u128(#digits))
}

/// The bytes of an id as one number.
fn uuid_number(bytes: [u8; 16]) -> TokenStream {
    let digits = literal(&format!("0x{:032x}", u128::from_be_bytes(bytes)));
    quote!(#digits)
}

fn literal(digits: &str) -> Literal {
    digits.parse().unwrap_or_else(|_| unreachable!("digits are a literal"))
}

/// The default as a person would write it in JSON.
pub(super) fn default_text(field: &Field) -> String {
    match (&field.default, &field.ty) {
        (Default::Null, _) => "null".to_owned(),
        (Default::Bool(it), _) => it.to_string(),
        (Default::Int(it), _) => it.to_string(),
        (Default::Float(it), _) if it.is_infinite() => {
            if *it > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        (Default::Float(it), _) => format!("{it:?}"),
        (Default::Uuid(it), _) if *it == [0; 16] => "nil".to_owned(),
        (Default::Uuid(it), _) => dashed(it),
        (Default::String(it), _) => format!("{it:?}"),
        (Default::Empty, Type::Array(_)) => "[]".to_owned(),
        (Default::Empty, Type::Struct(_)) => "{}".to_owned(),
        (Default::Empty, _) => "b\"\"".to_owned(),
    }
}

/// An id in the usual form.
fn dashed(id: &[u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| {
        id[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}

/// The default for the schema, unless it is that of its type.
pub(super) fn schema_default(field: &Field) -> Option<TokenStream> {
    Some(match &field.default {
        Default::Null => quote!(DefaultValue::Null),
        Default::Bool(true) => quote!(DefaultValue::True),
        Default::Int(it) if *it != 0 => {
            let value = int(*it, "i64");
            quote!(DefaultValue::Int(#value))
        }
        Default::Float(it) if it.to_bits() != 0 => {
            let value = float(*it);
            let text = default_text(field);
            quote!(DefaultValue::Float(#value, #text))
        }
        Default::Uuid(it) if *it != [0; 16] => {
            let value = uuid_number(*it);
            quote!(DefaultValue::Uuid(#value))
        }
        Default::String(it) if !it.is_empty() => quote!(DefaultValue::String(#it)),
        _ => return None,
    })
}
