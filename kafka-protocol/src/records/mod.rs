//! Record batches: what is inside the `records` field of Produce, Fetch and ShareFetch.
//!
//! # Reading
//!
//! [`Batches`] finds the batches of a field and reads their headers, nothing else. [`RecordBatch::records`] checks the
//! checksum, decompresses if need be, and gives [`Records`]; [`Records::iter`] reads one record after another without
//! allocating, [`Records::owned`] makes records of them that live on their own and share the memory of the input.
//!
//! ```
//! use kafka_protocol::records::{BatchBuilder, Batches, NewRecord};
//!
//! let mut builder = BatchBuilder::new();
//! builder.append(&NewRecord { timestamp: 1_700_000_000_000, value: Some(b"hello"), ..Default::default() })?;
//! let field = builder.finish()?;
//!
//! for batch in Batches::new(&field) {
//!     for record in batch?.records()?.iter() {
//!         let record = record?;
//!         assert_eq!((record.offset, record.value), (0, Some(&b"hello"[..])));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All formats are read: batches of magic 2, and the message sets of magic 0 and 1, plain and compressed. Written is
//! magic 2.
//!
//! # Writing
//!
//! [`BatchBuilder`] takes records as they come. [`RecordBatch::recompress`] and [`RecordBatch::retain`] make another
//! batch of one, [`BatchMut`] changes offset, epoch and append time in place.
//!
//! # Compression
//!
//! Codecs are features of their own: `gzip`, `snappy`, `lz4`, `zstd`. A batch in a codec whose feature is off can be
//! split, checked and forwarded; its records are an error that names the feature.
//!
//! Kafka has no limit for what a compressed batch inflates to. [`ReadOptions`] have two.

#[cfg(feature = "share")]
mod acquired;
mod batch;
mod batch_mut;
mod build_error;
mod builder;
mod checksum;
mod compose;
mod compression;
mod content;
mod error;
mod fields;
mod legacy;
mod owned;
mod produce;
mod read;
mod record;
mod rewrite;
mod span;
mod varint;

#[cfg(feature = "share")]
pub use acquired::AcquiredRanges;
pub use batch::{Attributes, BatchHeader, Batches, RecordBatch, TimestampType};
pub use batch_mut::BatchMut;
pub use build_error::BuildError;
pub use builder::{BatchBuilder, NewRecord};
pub use compression::Compression;
pub use error::{ProduceRule, RecordsError, RecordsReason, Stage};
pub use fields::RecordsField;
pub use owned::OwnedRecord;
pub use produce::validate_for_produce;
pub use read::{ReadOptions, RecordIter, Records};
pub use record::{Header, Headers, HeadersIter, Record};
pub use rewrite::RewriteError;
