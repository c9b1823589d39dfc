//! Version-aware encoders and decoders for the Apache Kafka wire protocol.
//!
//! [`messages`] is generated from Kafka's own schemas, one struct per message that serves all its versions. The
//! fields are public, a message starts from its defaults:
//!
//! ```
//! use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};
//!
//! let request = ShareFetchRequest { is_renew_ack: true, ..Default::default() };
//! let body = request.encode(2)?;
//! let again = ShareFetchRequest::decode(body, 2)?;
//! assert_eq!(again, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Encoded bytes equal those of Apache Kafka's own classes.
//! - Nothing is lost silently. A field that the version lacks must have its default value, unless the schema calls it
//!   ignorable. Unknown tagged fields survive. Bytes after a message are an error of
//!   [`decode`](protocol::Message::decode).
//! - Errors name message, version, field and byte.
//! - Hostile bytes are refused before memory is taken for what they claim.
//! - [`decode_from`](protocol::Message::decode_from) uses the buffers of a value again.
//!
//! [`dynamic`] does the same without generated code, for any schema; [`inspect`] tells what each byte means; `json`,
//! with the feature of that name, converts messages as Kafka's own converters do.
//!
//! [`protocol::frame`] adds headers and sizes, [`connection`] correlation ids and negotiated versions; [`embedded`] is
//! for messages inside others, such as the records of internal topics; [`wire`] is what generated code is made of, also
//! that of other schemas. Nothing here does I/O.

pub mod connection;
pub mod dynamic;
pub mod embedded;
pub mod inspect;
#[cfg(feature = "json")]
pub mod json;
#[rustfmt::skip] // as the generator laid it out
pub mod messages;
pub mod protocol;
pub mod wire;

/// The example in the README is a test too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
