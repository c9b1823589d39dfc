//! Version-aware encoders and decoders for the Apache Kafka wire protocol.
//!
//! [`messages`] is generated from Kafka's own schemas, one struct per message that serves all its versions. The
//! fields are public, a message starts from its defaults:
//!
//! ```
//! # #[cfg(feature = "share")] {
//! use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};
//!
//! let request = ShareFetchRequest { is_renew_ack: true, ..Default::default() };
//! let body = request.encode(2)?;
//! let again = ShareFetchRequest::decode(body, 2)?;
//! assert_eq!(again, request);
//! # }
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
//! # Modules
//!
//! | module | what it has |
//! |---|---|
//! | [`messages`] | every message of Kafka 4.4.0, all generated |
//! | [`protocol`] | the traits [`Message`](protocol::Message), [`Request`](protocol::Request) and [`Response`](protocol::Response), [`ApiKey`](protocol::ApiKey), [`ErrorCode`](protocol::ErrorCode), errors, [frames](protocol::frame), [schemas](protocol::schema) as data |
//! | [`connection`] | correlation ids in flight, negotiated versions, SASL tokens, forwarding; bytes in, bytes out |
//! | [`embedded`] | messages inside others: records of internal topics, control records, consumer protocol |
//! | `dynamic` | messages of any schema as values, without generated code |
//! | `records` | record batches: read, built, checked, changed |
//! | `json` | messages as JSON in the form of Kafka's own converters |
//! | `inspect` | what each byte of a message or frame means |
//! | `share` | rules and state machines of share groups: acknowledgements, sessions, locks, the share consumer |
//! | `rebalance` | a member of a consumer group that revokes partitions over two polls (KIP-983), without its I/O |
//! | [`wire`] | the encodings that generated code is made of, also that of other schemas |
//!
//! Nothing here does I/O or reads a clock.
//!
//! # Features
//!
//! A feature only adds API. Families of messages:
//!
//! | feature | on by default | messages |
//! |---|---|---|
//! | `core`, no feature | always | headers, ApiVersions, Metadata, DescribeTopicPartitions, Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, FindCoordinator, SASL, telemetry |
//! | `group` | yes | classic and consumer groups, offsets, the consumer protocol |
//! | `share` | yes | share groups (KIP-932) with renew acknowledgements (KIP-1222), and their persisted state |
//! | `streams` | yes | streams groups (KIP-1071), and UnregisterController |
//! | `transaction` | yes | transactions and producers |
//! | `admin` | yes | topics, partitions, configs, quotas, elections |
//! | `security` | yes | ACLs, SCRAM credentials, delegation tokens, principals |
//! | `cluster` | yes | between brokers and controllers: KRaft quorum, registration, heartbeats |
//! | `record` | yes | control records, markers of transactions, aborted transactions |
//! | `coordinator` | | records of `__consumer_offsets`, `__share_group_state` and `__transaction_state` |
//! | `metadata` | | records of `__cluster_metadata` |
//! | `storage` | | records of tiered storage, snapshots of producer state |
//!
//! And beside them:
//!
//! | feature | what it adds |
//! |---|---|
//! | `any` | `AnyRequest` and `AnyResponse`: dispatch by API key, and `visit_messages`; compiles every message of the families that are on |
//! | `records` | the module of that name; takes `crc-fast` |
//! | `gzip`, `snappy`, `lz4`, `zstd` | these codecs for records; take `flate2`, `snap`, `lz4_flex` with `twox-hash`, `zstd` |
//! | `dynamic` | the module of that name |
//! | `inspect` | the module of that name; takes `dynamic` |
//! | `json` | the module of that name; takes `dynamic`, `serde_json` and `base64` |
//! | `share-group` | the module `share`; takes `share` and `records` |
//! | `rebalance` | the module of that name |
//! | `tokio` | a codec for `tokio_util`'s framed streams |

pub mod connection;
#[cfg(feature = "dynamic")]
pub mod dynamic;
pub mod embedded;
#[cfg(feature = "inspect")]
pub mod inspect;
#[cfg(feature = "json")]
pub mod json;
#[rustfmt::skip] // as the generator laid it out
pub mod messages;
pub mod protocol;
#[cfg(feature = "rebalance")]
pub mod rebalance;
#[cfg(feature = "records")]
pub mod records;
#[cfg(feature = "share-group")]
pub mod share;
pub mod wire;

/// The examples in the README are tests too.
#[cfg(all(doctest, feature = "share-group"))]
#[doc = include_str!("../../README.md")]
struct Readme;
