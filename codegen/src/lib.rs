//! Compiles Apache Kafka's JSON message schemas into Rust.
//!
//! [`generate`] names the stages in order; read it first. Only [`check`] can refuse a schema. Nothing here touches
//! the file system but [`load`] and [`files`].

pub mod check;
pub mod model;
pub mod names;
pub mod report;
pub mod schema;
pub mod source;
pub mod versions;
