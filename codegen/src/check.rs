//! Judges schemas, and folds those that are right into the model.
//!
//! This is the only stage that can refuse a schema. The rules are those of Kafka's own generator and of the Java
//! compiler behind it, plus what the names in Rust ask for; [`Rule`](crate::report::Rule) lists them. All
//! violations of all schemas go into one report.

mod build;
mod default;
mod fields;
mod message;
mod set;
mod types;

use crate::Coverage;
use crate::model::{Kind, Model};
use crate::report::Report;
use crate::schema::Schema;

/// Checks schemas one by one, then as a set, and builds the model.
///
/// `coverage` decides what becomes of an API or a coordinator record of which the set has one half only.
///
/// The model is empty if the report has errors, be they from here or from reading the schemas.
pub fn check(schemas: &[Schema], coverage: Coverage, report: &mut Report) -> Model {
    set::check(schemas, coverage, report);
    for schema in schemas {
        message::check(schema, report);
    }
    if report.has_errors() { Model::default() } else { build::model(schemas) }
}

/// Whether the schema only reserves an API key.
fn is_removed(schema: &Schema) -> bool {
    schema.valid.get().is_some_and(|valid| valid.is_empty())
        && matches!(schema.kind.get(), Some(Kind::Request | Kind::Response))
}

/// The word for a kind in a sentence.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Request => "request",
        Kind::Response => "response",
        Kind::Header => "header",
        Kind::Metadata => "metadata record",
        Kind::Data => "data message",
        Kind::CoordinatorKey => "coordinator key",
        Kind::CoordinatorValue => "coordinator value",
    }
}
