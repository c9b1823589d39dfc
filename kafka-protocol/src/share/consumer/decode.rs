//! From the records of a fetched partition to those that were acquired.

use std::time::Duration;

use super::AcquiredRecord;
use crate::messages::share_fetch_response::AcquiredRecords;
use crate::protocol::AcknowledgeType;
use crate::records::{AcquiredRanges, Batches, ReadOptions, RecordBatch, RecordsError, RecordsReason};
use crate::share::PartitionAcknowledgements;
use crate::wire::Bytes;

/// What is in a partition of a fetch.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// By ascending offset.
    pub(super) records: Vec<AcquiredRecord>,
    /// What is acknowledged without the application: gaps, and what cannot be read.
    pub(super) automatic: PartitionAcknowledgements,
    /// The first error, if not all could be read.
    pub(super) error: Option<RecordsError>,
}

/// Reads the records that were acquired. A broker sends whole batches, so there may be others between them.
pub(super) fn decode(
    field: &Bytes,
    acquired: &[AcquiredRecords],
    lock_deadline: Option<Duration>,
    options: &ReadOptions,
) -> Decoded {
    let ranges = AcquiredRanges::new(acquired);
    let mut decoded = Decoded::default();
    let (mut batches, mut end, mut is_whole) = (Batches::new(field), i64::MIN, true);
    for batch in &mut batches {
        let read = match batch {
            Ok(batch) => {
                end = end.max(batch.header().last_offset());
                read_batch(&batch, &ranges, lock_deadline, options, &mut decoded)
            }
            Err(error) => {
                is_whole = false;
                Err(error)
            }
        };
        if let Err(error) = read {
            decoded.error.get_or_insert(error);
        }
    }
    // A range may end in a hole between the last batch and the next one of the log.
    if is_whole && batches.trailing().is_empty() && end > i64::MIN {
        end = i64::MAX;
    }
    decoded.records.sort_by_key(|acquired| acquired.record.offset());
    decoded.records.dedup_by_key(|acquired| acquired.record.offset());
    acknowledge_the_rest(&ranges, end, &mut decoded);
    decoded
}

/// Adds the acquired records of a batch, or none of them: a damaged batch is rejected, one in a codec that this build
/// lacks is released, as others may read it.
fn read_batch(
    batch: &RecordBatch<'_>,
    ranges: &AcquiredRanges,
    lock_deadline: Option<Duration>,
    options: &ReadOptions,
    decoded: &mut Decoded,
) -> Result<(), RecordsError> {
    let (first, last) = (batch.header().base_offset, batch.header().last_offset());
    if batch.header().is_control() || ranges.within(first, last).next().is_none() {
        return Ok(());
    }
    let before = decoded.records.len();
    let read = batch.records_with(options).and_then(|records| {
        for record in records.owned() {
            let record = record?;
            if let Some(delivery_count) = ranges.delivery_count(record.offset()) {
                decoded.records.push(AcquiredRecord { record, delivery_count, lock_deadline });
            }
        }
        Ok(())
    });
    if let Err(error) = &read {
        decoded.records.truncate(before);
        let ty = match error.reason() {
            RecordsReason::CompressionDisabled { .. } | RecordsReason::DecompressedSize { .. } => {
                AcknowledgeType::RELEASE
            }
            _ => AcknowledgeType::REJECT,
        };
        for (from, to, _) in ranges.within(first, last) {
            decoded.automatic.set_range(from, to, ty);
        }
    }
    read
}

/// Acquired offsets up to `end` that have no record are gaps, as compaction and control records leave them. What lies
/// behind it cannot be known, as the batches end early, and is released.
fn acknowledge_the_rest(ranges: &AcquiredRanges, end: i64, decoded: &mut Decoded) {
    let mut rest = PartitionAcknowledgements::default();
    for (first, last, _) in ranges.iter() {
        rest.set_range(first, last.min(end), AcknowledgeType::GAP);
        rest.set_range(first.max(end.saturating_add(1)), last, AcknowledgeType::RELEASE);
    }
    if decoded.records.is_empty() && decoded.automatic.is_empty() {
        decoded.automatic = rest;
        return;
    }
    // Everything that is in none of both.
    let known = std::mem::take(&mut decoded.automatic);
    let mut offsets = decoded.records.iter().map(|acquired| acquired.record.offset()).peekable();
    for (first, last, ty) in rest.ranges() {
        let mut next = first;
        while let Some(offset) = offsets.next_if(|offset| *offset <= last) {
            decoded.automatic.set_range(next, offset - 1, ty);
            next = offset + 1;
        }
        decoded.automatic.set_range(next, last, ty);
    }
    decoded.automatic.merge(known);
}
