use std::fmt;

use super::{Value, default_value, is_default};
use crate::protocol::schema::{FieldSchema, StructSchema};
use crate::wire::TaggedFields;

/// A struct with one value for every field of its schema, whatever the version; a field that the version lacks has
/// its default.
///
/// [`get`](Self::get) and [`set`](Self::set) take a path down from the struct, in names of Rust, of Kafka or of
/// JSON: `topics[0].partitions[1].partition_index`, `Topics[0].Partitions[1].PartitionIndex`,
/// `topics[0].partitions[1].partitionIndex`.
#[derive(Clone)]
pub struct Struct {
    schema: &'static StructSchema,
    /// In the order of the schema.
    pub(super) fields: Box<[Value]>,
    /// Tagged fields that the schema does not know.
    pub unknown_tagged_fields: TaggedFields,
}

impl Struct {
    /// With the default of every field.
    pub fn new(schema: &'static StructSchema) -> Self {
        let fields = schema.fields.iter().map(default_value).collect();
        Self { schema, fields, unknown_tagged_fields: TaggedFields::default() }
    }

    /// The schema.
    pub fn schema(&self) -> &'static StructSchema {
        self.schema
    }

    /// All fields in the order of the schema, with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static FieldSchema, &Value)> {
        self.schema.fields.iter().zip(&self.fields)
    }

    #[cfg(feature = "json")]
    pub(crate) fn field_mut(&mut self, index: usize) -> &mut Value {
        &mut self.fields[index]
    }

    /// Whether every field has its default, and there are no unknown tagged fields.
    pub fn is_default(&self) -> bool {
        self.unknown_tagged_fields.is_empty() && self.iter().all(|(field, value)| is_default(field, value))
    }
}

/// Structs of the same schema, with equal fields and equal unknown tagged fields.
impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.schema, other.schema)
            && self.fields == other.fields
            && self.unknown_tagged_fields == other.unknown_tagged_fields
    }
}

/// Like a generated struct, but that unknown tagged fields only show when there are any.
impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct(self.schema.name);
        for (field, value) in self.iter() {
            text.field(field.rust_name, value);
        }
        if !self.unknown_tagged_fields.is_empty() {
            text.field("unknown_tagged_fields", &self.unknown_tagged_fields);
        }
        text.finish()
    }
}
