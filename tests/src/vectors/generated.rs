//! The generated codecs as a table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kafka_protocol::json::{self, JsonError};
use kafka_protocol::messages::visit_messages;
use kafka_protocol::protocol::{DecodeError, EncodeError, Message, MessageSchema, MessageVisitor};
use kafka_protocol::wire::{Bytes, BytesMut};
use serde_json::Value as Json;

/// The generated codec of one type of message. Its values stay inside; what it says of them comes out.
///
/// All ways to decode and to encode are tried, and it is a panic when they disagree.
#[derive(Clone, Copy)]
pub(crate) struct Generated {
    pub(crate) schema: &'static MessageSchema,
    /// Decodes in one version, encodes in another.
    pub(crate) decode: fn(&Bytes, i16, i16) -> Result<Said, DecodeError>,
    /// The same of a message with more bytes behind it, which stay.
    pub(crate) decode_prefix: fn(&mut Bytes, i16, i16) -> Result<Said, DecodeError>,
    /// From JSON.
    pub(crate) from_json: fn(&Json, i16) -> Result<Said, JsonError>,
    /// What a message has without further ado.
    pub(crate) default: fn(i16) -> Said,
}

/// What a generated codec says of a value.
pub(crate) struct Said {
    /// The text of `Debug`.
    pub(crate) shown: String,
    pub(crate) encoded: Result<Bytes, EncodeError>,
    pub(crate) json: Result<Json, EncodeError>,
}

impl Generated {
    /// The codecs of all messages by their names in Kafka.
    pub(crate) fn all() -> &'static BTreeMap<&'static str, Self> {
        static ALL: LazyLock<BTreeMap<&'static str, Generated>> = LazyLock::new(|| {
            let mut table = Table::default();
            visit_messages(&mut table);
            table.0
        });
        &ALL
    }
}

#[derive(Default)]
struct Table(BTreeMap<&'static str, Generated>);

impl MessageVisitor for Table {
    fn visit<M: Message>(&mut self) {
        let generated = Generated {
            schema: M::SCHEMA,
            decode: |bytes, version, to| decode::<M>(bytes, version).map(|value| say(&value, to)),
            decode_prefix: |bytes, version, to| M::decode_prefix(bytes, version).map(|value| say(&value, to)),
            from_json: |json, version| json::decode::<M>(json, version).map(|value| say(&value, version)),
            default: |version| say(&M::default(), version),
        };
        self.0.insert(M::SCHEMA.name, generated);
    }
}

fn decode<M: Message>(bytes: &Bytes, version: i16) -> Result<M, DecodeError> {
    let value = M::decode(bytes.clone(), version);
    let slice = M::decode_slice(bytes, version);
    // Not equal are values with NaN.
    assert!(value == slice || format!("{value:?}") == format!("{slice:?}"), "decode and decode_slice differ");
    value
}

fn say<M: Message>(value: &M, version: i16) -> Said {
    Said { shown: format!("{value:?}"), encoded: encode(value, version), json: json::encode(value, version) }
}

fn encode<M: Message>(value: &M, version: i16) -> Result<Bytes, EncodeError> {
    let encoded = value.encode(version);
    let length = encoded.as_ref().map(Bytes::len).map_err(Clone::clone);
    assert_eq!(value.encoded_len(version), length, "encode and encoded_len differ");
    let mut behind = BytesMut::from(&b"before"[..]);
    let done = value.encode_into(&mut behind, version);
    assert_eq!(done.as_ref().err(), encoded.as_ref().err(), "encode and encode_into differ");
    let (before, written) = behind.split_at(6);
    assert_eq!(before, b"before", "encode_into changes what was there");
    assert_eq!(written, encoded.as_deref().unwrap_or_default(), "encode and encode_into differ");
    encoded
}
