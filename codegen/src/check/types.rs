//! What the text of a type means.

use crate::model::Type;
use crate::report::quoted;

/// The type of a field, with structs by name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeText<'a> {
    /// Whether it is an array.
    pub(super) array: bool,
    /// The type, or that of the array's elements.
    pub(super) element: Element<'a>,
}

/// A type that is not an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Element<'a> {
    /// Neither a struct nor an array.
    Plain(Type),
    /// The struct of this name.
    Struct(&'a str),
}

impl<'a> TypeText<'a> {
    /// Reads `int8`, `[]string`, `Topic` or `[]Topic`.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub(super) fn parse(text: &'a str) -> Result<Self, (String, String)> {
        let text = text.trim();
        let (array, element) = match text.strip_prefix("[]") {
            Some(element) => (true, element.trim_start()),
            None => (false, text),
        };
        let element = if let Some(plain) = plain(element) {
            if array && matches!(plain, Type::Bytes | Type::Records) {
                return Err((
                    format!("{} cannot be the elements of an array", quoted(element)),
                    "use an array of structs with one such field".to_owned(),
                ));
            }
            Element::Plain(plain)
        } else if is_struct_name(element) {
            Element::Struct(element)
        } else if array && (element.is_empty() || element.starts_with("[]")) {
            return Err((
                format!("{} is not a type", quoted(text)),
                "an array has one type of elements, which is not an array itself, such as `[]int32`; arrays of \
                 arrays need a struct in between"
                    .to_owned(),
            ));
        } else {
            return Err((
                format!("{} is not a type", quoted(element)),
                format!(
                    "a type is one of {PLAIN}; or a struct, whose name is an upper-case letter followed by letters \
                     and digits; or `[]` and one of these"
                ),
            ));
        };
        Ok(Self { array, element })
    }

    /// The type, unless it is an array or a struct.
    pub(super) fn plain(&self) -> Option<&Type> {
        match &self.element {
            Element::Plain(plain) if !self.array => Some(plain),
            _ => None,
        }
    }

    /// The name of the struct that it is or has as elements.
    pub(super) fn struct_name(&self) -> Option<&'a str> {
        match self.element {
            Element::Struct(name) => Some(name),
            Element::Plain(_) => None,
        }
    }
}

/// Whether it is an upper-case letter followed by letters and digits.
pub(super) fn is_struct_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase()) && is_name(name)
}

/// Whether it is a letter followed by letters and digits.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric())
}

const PLAIN: &str = "`bool`, `int8`, `int16`, `uint16`, `int32`, `uint32`, `int64`, `float64`, `uuid`, `string`, \
                     `bytes`, `records`";

fn plain(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int8" => Type::Int8,
        "int16" => Type::Int16,
        "uint16" => Type::Uint16,
        "int32" => Type::Int32,
        "uint32" => Type::Uint32,
        "int64" => Type::Int64,
        "float64" => Type::Float64,
        "uuid" => Type::Uuid,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "records" => Type::Records,
        _ => return None,
    })
}
