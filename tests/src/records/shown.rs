//! Batches and records in the form of the vectors.

use kafka_protocol::embedded::ControlRecord;
use kafka_protocol::json;
use kafka_protocol::protocol::Message;
use kafka_protocol::records::{BatchHeader, Record, TimestampType};
use serde_json::{Value as Json, json};

use super::bytes;

/// A batch without its `records`. Of a wrapper of magic 0 or 1, `base_offset` is what its records tell.
pub(super) fn batch(header: &BatchHeader, base_offset: i64) -> Json {
    let (is_v2, attributes) = (header.magic == 2, header.attributes);
    let timestamp_type = header.timestamp_type().map(|kind| format!("{kind:?}"));
    json!({
        "baseOffset": base_offset,
        "lastOffset": header.last_offset(),
        "magic": header.magic,
        "attributes": attributes.0,
        "compression": attributes.compression().map(|compression| compression.to_string()),
        "timestampType": timestamp_type.as_deref().unwrap_or("NoTimestampType"),
        "baseTimestamp": is_v2.then_some(header.base_timestamp),
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence(),
        "isTransactional": header.is_transactional(),
        "isControlBatch": header.is_control(),
        "deleteHorizonMs": header.delete_horizon(),
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "crc": header.crc,
        "sizeInBytes": i64::from(header.length) + 12,
        "count": is_v2.then_some(header.records_count),
    })
}

/// A record of a batch with this header; in a control batch also what it says.
pub(super) fn record(header: &BatchHeader, record: &Record<'_>, said: Option<&ControlRecord>) -> Json {
    let mut shown = json!({
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": record.sequence,
    });
    if record.attributes != 0 {
        shown["attributes"] = record.attributes.into();
    }
    shown["key"] = bytes::to_json(record.key);
    shown["value"] = bytes::to_json(record.value);
    let headers = record.headers.iter().map(|header| json!([header.key, bytes::to_json(header.value)]));
    shown["headers"] = headers.collect();
    if header.magic == 2 && header.timestamp_type() == Some(TimestampType::LogAppendTime) {
        shown["createTimestamp"] = record.create_timestamp.into();
    }
    if let Some(said) = said {
        control(said, record.value, &mut shown);
    }
    shown
}

/// Adds what a control record says, whose bytes are `value`.
pub(super) fn control(control: &ControlRecord, value: Option<&[u8]>, shown: &mut Json) {
    let (name, content) = match control {
        ControlRecord::Abort(marker) => ("ABORT", version_0(marker)),
        ControlRecord::Commit(marker) => ("COMMIT", version_0(marker)),
        ControlRecord::LeaderChange(message) => ("LEADER_CHANGE", version_0(message)),
        ControlRecord::SnapshotHeader(message) => ("SNAPSHOT_HEADER", version_0(message)),
        ControlRecord::SnapshotFooter(message) => ("SNAPSHOT_FOOTER", version_0(message)),
        ControlRecord::KRaftVersion(message) => ("KRAFT_VERSION", version_0(message)),
        ControlRecord::KRaftVoters(message) => ("KRAFT_VOTERS", version_0(message)),
        ControlRecord::Unknown { .. } => ("UNKNOWN", Json::Null),
    };
    shown["controlType"] = name.into();
    shown["controlTypeId"] = control.record_type().into();
    if !content.is_null() {
        let version = value.and_then(|value| value.first_chunk());
        shown["controlVersion"] = version.map(|version| i16::from_be_bytes(*version)).into();
        shown["control"] = content;
    }
}

/// As Kafka shows it, which reads every control record as version 0.
fn version_0<M: Message>(message: &M) -> Json {
    json::encode(message, 0).unwrap_or_else(|error| error.to_string().into())
}
