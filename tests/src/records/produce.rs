//! What a broker says of a batch that a client produces.

use kafka_protocol::records::{
    ProduceRule, ReadOptions, RecordsError, RecordsReason, Stage, validate_for_produce,
};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::read::Seen;
use crate::vectors::Check;

/// Ours refuses whatever Kafka's validator refuses, and besides
///
/// - what Kafka accepts although its consumers then fail at it: stated as an error of reading;
/// - what our reader refuses, which is stricter than Kafka's;
/// - what breaks one of the rules of [`is_stricter`];
/// - any base offset but 0. Kafka's verdict leaves that out, except that its validator throws at a compressed batch. So
///   there is another verdict of ours, of the same batch with base offset 0.
pub(super) fn check(case: &Json, bytes: &Bytes, seen: &Seen) -> Check {
    let (verdict, is_read_by_kafka) = (&case["produce"], case["error"].is_null());
    let mut from_0 = bytes.to_vec();
    from_0.get_mut(..8).ok_or("no batch")?.fill(0);
    let is_of_base_offset = verdict["class"] == UNSUPPORTED && from_0[..] != bytes[..];
    let validate = |bytes: &Bytes| validate_for_produce(bytes, &ReadOptions::default());
    if verdict != "accepted" && validate(bytes).is_ok() {
        return Err(format!("can be produced, though Kafka says {verdict}"));
    }
    match validate(&from_0.into()) {
        Ok(_) if verdict != "accepted" && !is_of_base_offset => {
            Err(format!("can be produced from base offset 0, though Kafka says {verdict}"))
        }
        Ok(_) if !is_read_by_kafka => Err("can be produced, though no consumer can read it".to_owned()),
        Ok(_) => Ok(()),
        Err(_) if verdict != "accepted" || !is_read_by_kafka => Ok(()),
        Err(error) if case["lenient"] == true && is_stricter(&error, seen) => Ok(()),
        Err(error) => Err(format!("cannot be produced: {error}")),
    }
}

/// What Kafka's validator throws if a compressed batch does not have the offsets that it expects.
const UNSUPPORTED: &str = "java.lang.UnsupportedOperationException";

/// Kafka accepts it, but ours does not.
fn is_stricter(error: &RecordsError, seen: &Seen) -> bool {
    let RecordsReason::Produce(rule) = error.reason() else {
        return error.stage() != Stage::Produce && seen.error.is_some();
    };
    match rule {
        // Uncompressed, Kafka's validator does not compare offsets with their place; consumers drop such records.
        ProduceRule::Offset { .. }
        // A sequence without a producer id, or an epoch without: no producer writes it, and no broker heeds it.
        | ProduceRule::Sequence { .. }
        | ProduceRule::Transactional
        // Kafka's own builder refuses it, while its validator lets it through.
        | ProduceRule::Timestamp { .. }
        // What only brokers write.
        | ProduceRule::DeleteHorizon
        | ProduceRule::LogAppendTime => true,
        _ => false,
    }
}
