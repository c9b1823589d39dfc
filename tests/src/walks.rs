//! Replays walks over a share partition that a broker has answered: random acknowledgements and fetches of two members
//! (`tests/share/README.md`), against the lock machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::locks::{
    AcknowledgeReason, Acquire, LockConfig, RecordBatchRange, SharePartition,
};
use kafka_protocol::share::validate::{AcknowledgementBatch, batches};
use serde_json::Value as Json;

use crate::vectors::{Check, Outcome, texts};

/// No lock runs out in a walk.
const NOW: Duration = Duration::ZERO;

/// A range that has been acquired: first and last offset, delivery count.
pub(crate) type Range = (i64, i64, i16);

/// Replays the walks of a file (`*.jsonl`, `*.jsonl.gz`).
///
/// # Errors
///
/// The file cannot be read or is not JSON, or there are no walks.
pub fn run(path: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (line, text) in texts(path)?.iter().enumerate() {
        let walk: Json =
            serde_json::from_str(text).with_context(|| format!("{}:{}", path.display(), line + 1))?;
        outcome.case(format_args!("walk {}", walk["walk"]), || replay(&walk));
    }
    ensure!(outcome.passed + outcome.failures.len() > 0, "{}: no walks", path.display());
    Ok(outcome)
}

fn replay(walk: &Json) -> Check {
    let log = log(&walk["record_batches"])?;
    let mut partition = SharePartition::new(LockConfig::default(), 0);
    same("first fetch", &fetch(&mut partition, "owner", &log), &ranges(&walk["acquired"])?)?;
    for (index, op) in array(&walk["ops"])?.iter().enumerate() {
        step(&mut partition, &log, op).map_err(|difference| format!("op {index}: {difference}"))?;
    }
    same("free after", &fetch(&mut partition, "third", &log), &ranges(&walk["free_after"])?)
}

fn step(partition: &mut SharePartition, log: &[RecordBatchRange], op: &Json) -> Check {
    let member = op["member"].as_str().ok_or("no member")?;
    if op["op"] == "fetch" {
        return same("acquired", &fetch(partition, member, log), &ranges(&op["acquired"])?);
    }
    let sent: Vec<_> = array(&op["batches"])?.iter().map(Batch::read).collect::<Result<_, _>>()?;
    let sent = || sent.iter().map(Batch::borrow);
    let (version, renew) = (integer(&op["version"])? as i16, op["renew"] == true);
    let (code, message) = match batches(sent(), version, renew) {
        Err(_) => (ErrorCode::INVALID_REQUEST, None),
        Ok(()) => match partition.acknowledge(NOW, member, sent()) {
            Ok(()) => (ErrorCode::NONE, None),
            Err(error) => (error.code(), Some(broker_words(error.reason))),
        },
    };
    same("error", &code, &ErrorCode(integer(&op["error"])? as i16))?;
    same("message", &message, &op["message"].as_str())
}

/// What a 4.4.0 broker says for a reason. Compared only, to see that the reason is the same.
pub(crate) fn broker_words(reason: AcknowledgeReason) -> &'static str {
    match reason {
        AcknowledgeReason::Malformed => "",
        AcknowledgeReason::RenewNotEnabled => "Renewing acquisition locks is not enabled for the group.",
        AcknowledgeReason::NothingInFlight | AcknowledgeReason::Defect => {
            "Batch record not found. The request batch offsets are not found in the cache."
        }
        AcknowledgeReason::FirstOffsetPastAcquired => {
            "Batch record not found. The first offset in request is past acquired records."
        }
        AcknowledgeReason::LastOffsetPastAcquired => {
            "Batch record not found. The last offset in request is past acquired records."
        }
        AcknowledgeReason::BatchNotAcquired { .. } => {
            "The batch cannot be acknowledged. The batch is not in the acquired state."
        }
        AcknowledgeReason::NotOwnerOfBatch { .. } => "Member is not the owner of batch record",
        AcknowledgeReason::OffsetNotAcquired { .. } => {
            "The offset cannot be acknowledged. The offset is not acquired."
        }
        AcknowledgeReason::NotOwnerOfOffset { .. } => "Member is not the owner of offset",
    }
}

/// Fetches all that the log has from where the partition wants it.
pub(crate) fn fetch(partition: &mut SharePartition, member: &str, log: &[RecordBatchRange]) -> Vec<Range> {
    fetch_as(partition, NOW, member, log, &Acquire::default())
}

/// Fetches with limits of one's own.
pub(crate) fn fetch_as(
    partition: &mut SharePartition,
    now: Duration,
    member: &str,
    log: &[RecordBatchRange],
    limits: &Acquire<'_>,
) -> Vec<Range> {
    let fetch_offset = partition.next_fetch_offset();
    let from = log.partition_point(|batch| batch.last_offset < fetch_offset);
    let mut acquired = Vec::new();
    let fetch = Acquire { record_batches: &log[from..], fetch_offset, ..*limits };
    partition.acquire(now, member, &fetch, &mut acquired);
    acquired.iter().map(|range| (range.first_offset, range.last_offset, range.delivery_count)).collect()
}

/// Record batches of these sizes, one behind the other.
pub(crate) fn log_of(sizes: impl IntoIterator<Item = i64>) -> Vec<RecordBatchRange> {
    let mut next = 0;
    let batch = |size| {
        let base_offset = next;
        next += size;
        RecordBatchRange { base_offset, last_offset: next - 1 }
    };
    sizes.into_iter().map(batch).collect()
}

fn log(sizes: &Json) -> Result<Vec<RecordBatchRange>, String> {
    Ok(log_of(array(sizes)?.iter().map(integer).collect::<Result<Vec<_>, _>>()?))
}

/// An acknowledgement batch: first and last offset, types.
struct Batch(i64, i64, Vec<AcknowledgeType>);

impl Batch {
    fn read(batch: &Json) -> Result<Self, String> {
        let types = array(&batch[2])?.iter().map(|ty| Ok(AcknowledgeType(integer(ty)? as i8)));
        Ok(Self(integer(&batch[0])?, integer(&batch[1])?, types.collect::<Result<_, String>>()?))
    }

    fn borrow(&self) -> AcknowledgementBatch<'_> {
        AcknowledgementBatch { first_offset: self.0, last_offset: self.1, acknowledge_types: &self.2 }
    }
}

fn ranges(ranges: &Json) -> Result<Vec<Range>, String> {
    let range = |range: &Json| Ok((integer(&range[0])?, integer(&range[1])?, integer(&range[2])? as i16));
    array(ranges)?.iter().map(range).collect()
}

fn array(value: &Json) -> Result<&Vec<Json>, String> {
    value.as_array().ok_or_else(|| format!("{value} is no array"))
}

fn integer(value: &Json) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("{value} is no integer"))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, brokers: &T) -> Check {
    if ours == brokers { Ok(()) } else { Err(format!("{what}: {ours:?}, the broker has {brokers:?}")) }
}
