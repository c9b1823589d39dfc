//! Values by their path.

use std::{error, fmt};

use super::{Struct, Value};
use crate::protocol::schema::{FieldSchema, FieldType};

impl Struct {
    /// The value at `path`; `None` if there is no such field or element, or null on the way.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut steps = steps(path);
        let mut value = &self.fields[self.index(steps.next()??)?];
        for step in steps {
            value = match (value, step?) {
                (Value::Struct(it), step @ Step::Field(_)) => &it.fields[it.index(step)?],
                (Value::Array(it), Step::Element(index)) => it.get(index)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// The value at `path`, to be changed. What does not fit the schema is refused when the struct is encoded.
    pub fn get_mut(&mut self, path: &str) -> Option<&mut Value> {
        self.place(path).map(|place| place.1)
    }

    /// Sets the value at `path`, an element of an array only if it is there already.
    ///
    /// # Errors
    ///
    /// There is no such field or element, or it cannot hold the value: that is of another type, or out of range. Of
    /// arrays and structs the contents are checked too. Whether a version can carry the value is another question,
    /// that of [`encode`](super::encode).
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<(), SetError> {
        let value = value.into();
        let Some((ty, place)) = self.place(path) else {
            return Err(SetError { path: path.to_owned(), expected: None });
        };
        let element = path.ends_with(']');
        if (element && value.is_null()) || !fits(&value, ty) {
            return Err(SetError { path: path.to_owned(), expected: Some(ty.to_string()) });
        }
        *place = value;
        Ok(())
    }

    fn place(&mut self, path: &str) -> Option<(FieldType, &mut Value)> {
        let mut steps = steps(path);
        let index = self.index(steps.next()??)?;
        let mut ty = self.schema().fields[index].ty;
        let mut value = &mut self.fields[index];
        for step in steps {
            (ty, value) = match (ty, value, step?) {
                (FieldType::Struct(_), Value::Struct(it), step @ Step::Field(_)) => {
                    let index = it.index(step)?;
                    (it.schema().fields[index].ty, &mut it.fields[index])
                }
                (FieldType::Array(element), Value::Array(it), Step::Element(index)) => {
                    (*element, it.get_mut(index)?)
                }
                _ => return None,
            };
        }
        Some((ty, value))
    }

    fn index(&self, step: Step<'_>) -> Option<usize> {
        let Step::Field(name) = step else { return None };
        let fields = self.schema().fields;
        let exact = |field: &FieldSchema| field.rust_name == name || field.name == name;
        fields
            .iter()
            .position(exact)
            .or_else(|| fields.iter().position(|field| json_name(field).eq(name.chars())))
    }
}

/// The name of a field in JSON: its first letter in lower case.
pub(crate) fn json_name(field: &FieldSchema) -> impl Iterator<Item = char> {
    let mut chars = field.name.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars)
}

/// Whether a field of this type can hold the value with all that is in it.
fn fits(value: &Value, ty: FieldType) -> bool {
    value.fits(ty)
        && match (value, ty) {
            (Value::Array(elements), FieldType::Array(ty)) => {
                elements.iter().all(|element| !element.is_null() && fits(element, *ty))
            }
            (Value::Struct(it), _) => it.iter().all(|(field, value)| fits(value, field.ty)),
            _ => true,
        }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Element(usize),
}

/// The steps of a path; `None` for what is not one.
fn steps(path: &str) -> impl Iterator<Item = Option<Step<'_>>> {
    path.split('.').flat_map(|part| {
        let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        std::iter::once(Some(Step::Field(name))).chain(std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let Some((index, after)) = index else {
                rest = "";
                return Some(None);
            };
            rest = after;
            Some(index.parse().ok().map(Step::Element))
        }))
    })
}

/// Why a value cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetError {
    path: String,
    /// The type of what is there.
    expected: Option<String>,
}

impl SetError {
    /// The path asked for.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl error::Error for SetError {}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expected {
            Some(expected) => write!(f, "{}: the value is not {expected}", self.path),
            None => write!(f, "{}: there is nothing of this name", self.path),
        }
    }
}
