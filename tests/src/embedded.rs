//! Messages inside others: versions and record types in front of them, against bodies that Kafka wrote.
//!
//! `cases/embedded.jsonl` has, of every record of an internal topic and of the other messages used here, the body in
//! each version with all fields set (`message`), and the control records of whole batches (`control`), all of them
//! written by the classes of Apache Kafka 4.4.0. What Kafka puts in front of a body is added here.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use kafka_protocol::embedded::{
    ControlRecord, CoordinatorRecord, EmbeddedError, GroupCoordinatorRecord, MetadataRecord,
    RemoteLogMetadataRecord, ShareCoordinatorRecord, TransactionCoordinatorRecord, decode_versioned,
    decode_versioned_tolerant, encode_versioned,
};
use kafka_protocol::messages::{
    AbortedTxn, ConsumerProtocolAssignment, ConsumerProtocolSubscription, ControlRecordTypeSchema,
    DefaultPrincipalData, EndTxnMarker, LeaderChangeMessage, OffsetCommitKey, OffsetCommitValue,
    ProducerSnapshot, TopicRecord,
};
use kafka_protocol::protocol::schema::{self, MessageKind, MessageSchema};
use kafka_protocol::protocol::{DecodeReason, Message};
use kafka_protocol::wire::{Bytes, Uuid};
use serde_json::Value;

use crate::fixture::unhex as hex;

type Schemas = (&'static MessageSchema, &'static MessageSchema);

/// The dispatch over the records of a coordinator.
struct Coordinator {
    topic: &'static str,
    schemas: fn(i16) -> Option<Schemas>,
    /// Decodes and encodes again.
    round_trip: fn(&Bytes, Option<&Bytes>) -> Result<RoundTrip, EmbeddedError>,
}

#[derive(Debug)]
struct RoundTrip {
    record_type: i16,
    key: Bytes,
    value: Option<Bytes>,
}

macro_rules! coordinator {
    ($topic:literal, $Records:ident) => {
        Coordinator {
            topic: $topic,
            schemas: $Records::schemas,
            round_trip: |key, value| {
                let record = $Records::decode(key.clone(), value.cloned())?;
                let record_type = record.record_type();
                Ok(RoundTrip { record_type, key: record.encode_key()?, value: record.encode_value()? })
            },
        }
    };
}

const COORDINATORS: [Coordinator; 3] = [
    coordinator!("__consumer_offsets", GroupCoordinatorRecord),
    coordinator!("__share_group_state", ShareCoordinatorRecord),
    coordinator!("__transaction_state", TransactionCoordinatorRecord),
];

impl Coordinator {
    /// The one whose topic has a message, as its name tells.
    fn of(message: &str) -> &'static Self {
        let topic = if message.starts_with("ShareSnapshot") || message.starts_with("ShareUpdate") {
            "__share_group_state"
        } else if message.starts_with("TransactionLog") {
            "__transaction_state"
        } else {
            "__consumer_offsets"
        };
        COORDINATORS.iter().find(|coordinator| coordinator.topic == topic).unwrap()
    }

    /// Keys and values as Kafka writes them: each key without a value, and with that of each version.
    fn records(&self) -> Vec<(Bytes, Option<Bytes>)> {
        let mut records = Vec::new();
        for (record_type, (key, value)) in self.table() {
            let keys = bodies(key.name);
            let [(0, key)] = keys.as_slice() else { panic!("a key has version 0 only") };
            let key = joined(&[&record_type.to_be_bytes(), key]);
            records.push((key.clone(), None));
            for (version, value) in bodies(value.name) {
                records.push((key.clone(), Some(joined(&[&version.to_be_bytes(), &value]))));
            }
        }
        records
    }

    fn table(&self) -> impl Iterator<Item = (i16, Schemas)> {
        (i16::MIN..=i16::MAX).filter_map(|record_type| Some((record_type, (self.schemas)(record_type)?)))
    }
}

/// The dispatch over the records of a topic with framed records.
struct Framed {
    schema: fn(i16) -> Option<&'static MessageSchema>,
    /// Decodes and encodes again, and tells the version.
    round_trip: fn(&Bytes) -> Result<(i16, Bytes), EmbeddedError>,
}

macro_rules! framed {
    ($Records:ident) => {
        Framed {
            schema: $Records::schema,
            round_trip: |bytes| {
                let (version, record) = $Records::decode(bytes.clone())?;
                Ok((version, record.encode(version)?))
            },
        }
    };
}

const METADATA: Framed = framed!(MetadataRecord);
const REMOTE_LOG: Framed = framed!(RemoteLogMetadataRecord);

impl Framed {
    fn of(message: &str) -> &'static Self {
        if message.starts_with("Remote") { &REMOTE_LOG } else { &METADATA }
    }

    /// Every record in every version, as Kafka writes it.
    fn records(&self) -> Vec<Bytes> {
        let bodies = self.table().flat_map(|(record_type, schema)| {
            let frame = move |version: i16| [1, record_type as u8, version as u8];
            bodies(schema.name).into_iter().map(move |(version, body)| joined(&[&frame(version), &body]))
        });
        bodies.collect()
    }

    fn table(&self) -> impl Iterator<Item = (i16, &'static MessageSchema)> {
        (i16::MIN..=i16::MAX).filter_map(|record_type| Some((record_type, (self.schema)(record_type)?)))
    }
}

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/embedded.jsonl");
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bodies of a message with their versions; there are some.
fn bodies(message: &str) -> Vec<(i16, Bytes)> {
    let mut cases = cases();
    cases.retain(|case| case["message"] == message);
    assert!(!cases.is_empty(), "no bodies of {message}");
    let body = |case: &Value| (case["version"].as_i64().unwrap() as i16, hex(case["hex"].as_str().unwrap()));
    cases.iter().map(body).collect()
}

/// The bodies of a message, each behind its version.
fn versioned<M: Message>() -> Vec<Bytes> {
    let bodies = bodies(M::SCHEMA.name);
    assert_eq!(bodies.len(), M::VERSIONS.iter().count(), "{}", M::SCHEMA.name);
    bodies.iter().map(|(version, body)| joined(&[&version.to_be_bytes(), body])).collect()
}

fn joined(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

#[test]
fn every_coordinator_record_is_in_the_table_of_its_topic() {
    let mut keys_and_values = 0;
    for schema in schema::all() {
        let half: fn(Schemas) -> &'static MessageSchema = match schema.kind {
            MessageKind::CoordinatorKey => |schemas| schemas.0,
            MessageKind::CoordinatorValue => |schemas| schemas.1,
            _ => continue,
        };
        let found = (Coordinator::of(schema.name).schemas)(schema.api_key.unwrap());
        assert_eq!(found.map(|schemas| half(schemas).name), Some(schema.name));
        keys_and_values += 1;
    }
    let in_tables: usize = COORDINATORS.iter().map(|coordinator| coordinator.table().count()).sum();
    assert_eq!(2 * in_tables, keys_and_values);
}

#[test]
fn every_framed_record_is_in_the_table_of_its_topic() {
    let mut records = BTreeSet::new();
    for schema in schema::all().filter(|schema| schema.kind == MessageKind::Metadata) {
        let found = (Framed::of(schema.name).schema)(schema.api_key.unwrap());
        assert_eq!(found.map(|schema| schema.name), Some(schema.name));
        assert!(records.insert(schema.name));
    }
    assert_eq!(METADATA.table().count() + REMOTE_LOG.table().count(), records.len());
}

#[test]
fn coordinator_records_give_their_bytes_again() {
    for coordinator in &COORDINATORS {
        for (key, value) in coordinator.records() {
            let again = (coordinator.round_trip)(&key, value.as_ref()).unwrap();
            assert_eq!((&again.key, &again.value), (&key, &value), "{}", coordinator.topic);
            assert_eq!(again.record_type.to_be_bytes(), key[..2]);
        }
    }
}

#[test]
fn a_committed_offset() {
    let key = OffsetCommitKey {
        group: "s1".into(),
        topic: "s2".into(),
        partition: 0x0100_0003,
        ..Default::default()
    };
    let value = OffsetCommitValue {
        offset: 0x0100_0000_0000_0001,
        leader_epoch: 0x0100_0002,
        metadata: "s3".into(),
        commit_timestamp: 0x0100_0000_0000_0004,
        topic_id: Uuid::from_u128(0x1005_0000_0000_0000_0005),
        ..Default::default()
    };
    let record = GroupCoordinatorRecord::from(CoordinatorRecord { key, value: Some((4, value)) });
    let key = hex("0001 0002 7331 0002 7332 01000003");
    let value = hex("0004 0100000000000001 01000002 03 7333 0100000000000004
                     01 00 10 00000000000010050000000000000005");
    assert_eq!(record.encode_key().unwrap(), key);
    assert_eq!(record.encode_value().unwrap().as_ref(), Some(&value));
    assert_eq!(GroupCoordinatorRecord::decode(key, Some(value)).unwrap(), record);
}

#[test]
fn a_tombstone_has_a_key_only() {
    let key = hex("0001 0002 7331 0002 7332 01000003");
    let GroupCoordinatorRecord::OffsetCommit(record) = GroupCoordinatorRecord::decode(key, None).unwrap()
    else {
        panic!("not an offset");
    };
    assert_eq!((record.key.partition, record.value), (0x0100_0003, None));
    // An empty value is no tombstone.
    let error = GroupCoordinatorRecord::decode(hex("0001 0000 0000 00000000"), Some(Bytes::new()));
    assert_eq!(error.unwrap_err().to_string(), "OffsetCommitValue: version at byte 0: need 2 bytes, 0 left");
}

#[test]
fn unknown_coordinator_records_survive() {
    for coordinator in &COORDINATORS {
        for record_type in [99, -1, i16::MAX, i16::MIN] {
            assert!((coordinator.schemas)(record_type).is_none());
            for value in [None, Some(""), Some("0000"), Some("ff")] {
                let (key, value) = (joined(&[&record_type.to_be_bytes(), b"key"]), value.map(hex));
                let again = (coordinator.round_trip)(&key, value.as_ref()).unwrap();
                assert_eq!((again.record_type, again.key, again.value), (record_type, key, value));
            }
        }
    }
    // The same number is another record in each topic, or none.
    assert!(matches!(
        ShareCoordinatorRecord::decode(hex("0002"), None),
        Ok(ShareCoordinatorRecord::Unknown { record_type: 2, .. }),
    ));
}

#[test]
fn framed_records_give_their_bytes_again() {
    for framed in [METADATA, REMOTE_LOG] {
        for bytes in framed.records() {
            let (version, again) = (framed.round_trip)(&bytes).unwrap();
            assert_eq!((version, again), (bytes[2].into(), bytes));
        }
    }
}

#[test]
fn a_metadata_record() {
    let topic =
        TopicRecord { name: "s1".into(), topic_id: Uuid::from_u128(0x1002 << 64 | 2), ..Default::default() };
    let bytes = hex("01 02 00 03 7331 00000000000010020000000000000002 00");
    assert_eq!(MetadataRecord::from(topic.clone()).encode(0).unwrap(), bytes);
    assert_eq!(MetadataRecord::decode(bytes).unwrap(), (0, MetadataRecord::Topic(Box::new(topic))));
}

#[test]
fn unknown_framed_records_survive() {
    for bytes in ["01 64 00", "01 64 05 deadbeef", "01 ff ff 01 ff ff 01 00", "01 06 00", "01 8001 8002 00"] {
        let bytes = hex(bytes);
        for framed in [METADATA, REMOTE_LOG] {
            assert_eq!((framed.round_trip)(&bytes).unwrap().1, bytes);
        }
    }
    let (version, record) = MetadataRecord::decode(hex("01 ffff01 ffff01 07")).unwrap();
    assert_eq!((record.record_type(), version), (i16::MAX, i16::MAX));
    assert_eq!(record, MetadataRecord::Unknown { record_type: i16::MAX, body: hex("07") });
}

#[test]
fn frames_that_are_not() {
    let error = |bytes| MetadataRecord::decode(hex(bytes)).unwrap_err().to_string();
    let text = [
        ("", "MetadataRecord: frame version at byte 0: need 1 byte, 0 left"),
        ("00 02 00", "MetadataRecord: frame version 0, expected 1"),
        ("02 02 00", "MetadataRecord: frame version 2, expected 1"),
        ("ffffffff0f 02 00", "MetadataRecord: frame version 4294967295, expected 1"),
        ("01", "MetadataRecord: record type at byte 1: need 1 byte, 0 left"),
        ("01 80", "MetadataRecord: record type at byte 1: need 2 bytes, 1 left"),
        ("01 808002 00", "MetadataRecord: record type 32768 is not in 0-32767"),
        ("01 02", "MetadataRecord: version at byte 2: need 1 byte, 0 left"),
        ("01 02 808002", "MetadataRecord: version 32768 is not in 0-32767"),
        ("01 02 ffffffff0f", "MetadataRecord: version 4294967295 is not in 0-32767"),
        ("01 02 ffffffff1f", "MetadataRecord: version at byte 2: varint does not fit 32 bits"),
        ("01 02 ffffffffff01", "MetadataRecord: version at byte 2: varint of more than 5 bytes"),
        ("01 02 8000", "MetadataRecord: version at byte 2: varint is longer than it has to be"),
        ("01 02 01 00", "TopicRecord v1: not a supported version (version 0)"),
        ("01 14 00", "NoOpRecord v0: unknown_tagged_fields at byte 0: need 1 byte, 0 left"),
        ("01 14 00 00 00", "NoOpRecord v0: byte 1: 1 byte after the end of the message"),
    ];
    for (bytes, expected) in text {
        assert_eq!(error(bytes), expected, "{bytes}");
    }
    let error = RemoteLogMetadataRecord::decode(hex("02")).unwrap_err();
    assert_eq!(error.to_string(), "RemoteLogMetadataRecord: frame version 2, expected 1");
}

#[test]
fn what_no_frame_can_tell() {
    let unknown = |record_type| MetadataRecord::Unknown { record_type, body: Bytes::new() };
    let error = |record: MetadataRecord, version| record.encode(version).unwrap_err().to_string();
    assert_eq!(error(unknown(-1), 0), "MetadataRecord: record type -1 is not in 0-32767");
    assert_eq!(error(unknown(99), -1), "MetadataRecord: version -1 is not in 0-32767");
    let topic = || MetadataRecord::from(TopicRecord::default());
    assert_eq!(error(topic(), -1), "MetadataRecord: version -1 is not in 0-32767");
    assert_eq!(error(topic(), 1), "TopicRecord v1: not a supported version (version 0)");
}

#[test]
fn versioned_messages_give_their_bytes_again() {
    fn check<M: Message>() {
        for bytes in versioned::<M>() {
            let (version, message) = decode_versioned::<M>(bytes.clone()).unwrap();
            assert_eq!(encode_versioned(&message, version).unwrap(), bytes);
            assert_eq!(decode_versioned_tolerant::<M>(bytes).unwrap(), (version, message));
        }
    }
    check::<AbortedTxn>();
    check::<ConsumerProtocolAssignment>();
    check::<ConsumerProtocolSubscription>();
    check::<ControlRecordTypeSchema>();
    check::<DefaultPrincipalData>();
    check::<EndTxnMarker>();
    check::<ProducerSnapshot>();
    assert_eq!(versioned::<ControlRecordTypeSchema>()[0].len(), 4);
    assert_eq!(versioned::<EndTxnMarker>()[0].len(), 6);
    assert_eq!(versioned::<AbortedTxn>()[0].len(), 34);
}

#[test]
fn a_subscription_of_a_consumer() {
    let bytes = hex("0000 00000002 0006 6f7264657273 0008 7061796d656e7473 00000004 deadbeef");
    let (version, subscription) =
        decode_versioned_tolerant::<ConsumerProtocolSubscription>(bytes.clone()).unwrap();
    let expected = ConsumerProtocolSubscription {
        topics: vec!["orders".into(), "payments".into()],
        user_data: Some(hex("deadbeef")),
        ..Default::default()
    };
    assert_eq!((version, &subscription), (0, &expected));
    assert_eq!(encode_versioned(&subscription, 0).unwrap(), bytes);
}

#[test]
fn a_newer_consumer_protocol_is_read_as_far_as_it_is_known() {
    fn check<M: Message>() {
        let highest = M::VERSIONS.max();
        let (_, body) = bodies(M::SCHEMA.name).pop().unwrap();
        let message = M::decode(body.clone(), highest).unwrap();
        for version in [highest, highest + 1, i16::MAX] {
            let bytes = joined(&[&version.to_be_bytes(), &body, b"what a later version adds"]);
            assert_eq!(decode_versioned_tolerant(bytes.clone()).unwrap(), (version, message.clone()));
            assert!(decode_versioned::<M>(bytes).is_err());
        }
        for version in [-1, i16::MIN] {
            let bytes = joined(&[&version.to_be_bytes(), &body]);
            let EmbeddedError::Decode(error) = decode_versioned_tolerant::<M>(bytes).unwrap_err() else {
                panic!("not the version");
            };
            assert_eq!((error.message(), error.version()), (M::SCHEMA.name, version));
            assert_eq!(error.reason(), &DecodeReason::UnsupportedVersion { supported: M::VERSIONS });
        }
    }
    check::<ConsumerProtocolAssignment>();
    check::<ConsumerProtocolSubscription>();
}

#[test]
fn control_records_as_kafka_reads_and_writes_them() {
    let mut types = BTreeSet::new();
    for case in cases().iter().filter(|case| !case["control"].is_null()) {
        let (key, value) = (hex(case["key"].as_str().unwrap()), case["value"].as_str().map(hex));
        let record = ControlRecord::decode(key.clone(), value.clone()).unwrap();
        assert_eq!(i64::from(record.record_type()), case["type"].as_i64().unwrap(), "{case}");
        let known = !matches!(record, ControlRecord::Unknown { .. });
        assert_eq!(known, (0..=6).contains(&record.record_type()), "{case}");
        types.insert(record.record_type());
        let again = (record.encode_key().unwrap(), record.encode_value().unwrap());
        match case["control"].as_str().unwrap() {
            "key-version-1" | "marker-version-1" => {
                let ControlRecord::Commit(marker) = record else { panic!("{record:?}") };
                assert_eq!(marker.coordinator_epoch, 5);
                assert_eq!(again, (hex("00000001"), Some(hex("000000000005"))));
            }
            _ => assert_eq!(again, (key, value), "{case}"),
        }
    }
    assert!((0..=6).all(|record_type| types.contains(&record_type)));
}

#[test]
fn the_first_field_of_a_quorum_control_record_is_its_version() {
    let decode = |value: &str| ControlRecord::decode(hex("00000002"), Some(hex(value)));
    let value = "0001 00000001 02 00000001 00000000000010040000000000000004 00 01 00";
    let record = decode(value).unwrap();
    let ControlRecord::LeaderChange(LeaderChangeMessage { version: 1, voters, .. }) = &record else {
        panic!("{record:?}");
    };
    assert_eq!(voters[0].voter_directory_id, Uuid::from_u128(0x1004 << 64 | 4));
    assert_eq!(record.encode_value().unwrap(), Some(hex(value)));

    let error = |value| decode(value).unwrap_err().to_string();
    assert_eq!(
        error("0002 00000001 01 01 00"),
        "LeaderChangeMessage v2: not a supported version (versions 0-1)"
    );
    assert_eq!(error("00"), "LeaderChangeMessage v0: version at byte 0: need 2 bytes, 1 left");
    assert_eq!(
        error("0000 00000000 01 01 00 00"),
        "LeaderChangeMessage v0: byte 9: 1 byte after the end of the message"
    );
}

#[test]
fn control_records_that_are_not() {
    let error =
        |key, value: Option<&str>| ControlRecord::decode(hex(key), value.map(hex)).unwrap_err().to_string();
    assert_eq!(error("00", None), "ControlRecordTypeSchema: version at byte 0: need 2 bytes, 1 left");
    assert_eq!(error("0000", None), "ControlRecordTypeSchema v0: type at byte 0: need 2 bytes, 0 left");
    assert_eq!(error("ffff0000", None), "ControlRecordTypeSchema v-1: not a supported version (version 0)");
    assert_eq!(error("00000000", None), "EndTxnMarker: the record has no value");
    assert_eq!(error("00000006", None), "VotersRecord: the record has no value");
    assert_eq!(
        error("00000001", Some("0000")),
        "EndTxnMarker v0: coordinator_epoch at byte 0: need 4 bytes, 0 left"
    );
    assert_eq!(
        error("00000001", Some("ffff00000000")),
        "EndTxnMarker v-1: not a supported version (version 0)"
    );
}

#[test]
fn errors_tell_which_message_and_keep_their_cause() {
    let key = hex("0001 0000 0000 00000000");
    let error = GroupCoordinatorRecord::decode(key.clone(), Some(hex("0009"))).unwrap_err();
    assert_eq!(error.to_string(), "OffsetCommitValue v9: not a supported version (versions 0-4)");
    assert!(error.source().is_some());
    let error = GroupCoordinatorRecord::decode(hex("00"), None).unwrap_err();
    assert_eq!(error.to_string(), "GroupCoordinatorRecord: record type at byte 0: need 2 bytes, 1 left");
    assert!(error.source().is_none());
    let error = GroupCoordinatorRecord::decode(joined(&[&key, b"!"]), None).unwrap_err();
    assert_eq!(error.to_string(), "OffsetCommitKey v0: byte 8: 1 byte after the end of the message");
    let topic = MetadataRecord::from(TopicRecord::default());
    assert!(topic.encode(7).unwrap_err().source().is_some());
}

/// Tells whether bytes can be decoded.
type Decodes = Box<dyn Fn(Bytes) -> bool>;

/// Valid bytes of every message here in every version, each with the function that they are for.
fn inputs() -> Vec<(Bytes, Decodes)> {
    fn versions<M: Message>(inputs: &mut Vec<(Bytes, Decodes)>) {
        for bytes in versioned::<M>() {
            inputs.push((bytes.clone(), Box::new(|bytes| decode_versioned::<M>(bytes).is_ok())));
            inputs.push((bytes, Box::new(|bytes| decode_versioned_tolerant::<M>(bytes).is_ok())));
        }
    }
    let mut inputs = Vec::new();
    versions::<ConsumerProtocolAssignment>(&mut inputs);
    versions::<ConsumerProtocolSubscription>(&mut inputs);
    versions::<DefaultPrincipalData>(&mut inputs);
    versions::<ProducerSnapshot>(&mut inputs);
    for coordinator in &COORDINATORS {
        let round_trip = coordinator.round_trip;
        for (key, value) in coordinator.records() {
            inputs.push(match value {
                None => (key, Box::new(move |key| round_trip(&key, None).is_ok())),
                Some(value) => (value, Box::new(move |value| round_trip(&key, Some(&value)).is_ok())),
            });
        }
    }
    for framed in [METADATA, REMOTE_LOG] {
        for bytes in framed.records() {
            inputs.push((bytes, Box::new(move |bytes| (framed.round_trip)(&bytes).is_ok())));
        }
    }
    for record_type in 0..=6 {
        let key = joined(&[&[0, 0, 0, record_type]]);
        let case = cases().into_iter().find(|case| case["type"] == record_type).unwrap();
        let value = hex(case["value"].as_str().unwrap());
        inputs.push((key.clone(), {
            let value = value.clone();
            Box::new(move |key| ControlRecord::decode(key, Some(value.clone())).is_ok())
        }));
        inputs.push((value, Box::new(move |value| ControlRecord::decode(key.clone(), Some(value)).is_ok())));
    }
    inputs
}

#[test]
fn whatever_is_cut_short_is_refused() {
    for (bytes, decodes) in inputs() {
        assert!(decodes(bytes.clone()), "{bytes:?}");
        for length in 0..bytes.len() {
            assert!(!decodes(bytes.slice(..length)), "{length} bytes of {bytes:?}");
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    for (bytes, decodes) in inputs() {
        for at in 0..bytes.len() {
            for byte in [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, bytes[at] ^ 1] {
                let mut damaged = bytes.to_vec();
                damaged[at] = byte;
                decodes(damaged.clone().into());
                damaged.insert(at, byte);
                decodes(damaged.into());
            }
        }
    }
}
