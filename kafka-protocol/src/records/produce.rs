use bytes::Bytes;

use super::error::Stage;
use super::{
    BatchHeader, Batches, ProduceRule, ReadOptions, RecordBatch, RecordsError, RecordsReason, TimestampType,
};

/// Checks the records that a client produces to a partition as a broker should, and returns their header.
///
/// All of it is read: checksum, stream, and every record to its last byte. Kafka's own validator leaves out most of
/// that while a topic keeps the producer's codec: it skips keys and values and does not compare the length of a record
/// with its content, so that it accepts batches at which every consumer then stops. Those are refused here.
///
/// Asked for are exactly one batch of magic 2 with base offset 0, offsets that count up from 0 without holes, as many
/// records as the header says, producer id, epoch and sequence together or not at all (KIP-98), and nothing that only
/// brokers write: control batches, time of the append, delete horizons. The largest timestamp in the header that is
/// returned is that of the records, which a broker [writes into the batch](super::BatchMut::set_max_timestamp).
///
/// Left to the caller is what depends on the topic or the request: the size of a batch, how far timestamps may be from
/// now, keys in compacted topics, sequences, and that Zstandard needs Produce 7. [`RecordsError::error_code`] is what to
/// answer.
///
/// ```
/// use kafka_protocol::records::{BatchBuilder, NewRecord, ReadOptions, validate_for_produce};
///
/// let mut builder = BatchBuilder::new();
/// builder.append(&NewRecord { value: Some(b"v"), ..Default::default() })?;
/// let header = validate_for_produce(&builder.finish()?, &ReadOptions::default())?;
/// assert_eq!(header.records_count, 1);
///
/// let mut builder = BatchBuilder::new().base_offset(5);
/// builder.append(&NewRecord { value: Some(b"v"), ..Default::default() })?;
/// let error = validate_for_produce(&builder.finish()?, &ReadOptions::default()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "record batch 0 at byte 0 (base offset 5): the base offset is 5, not 0",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of reading, and [`RecordsReason::Produce`].
pub fn validate_for_produce(records: &Bytes, options: &ReadOptions) -> Result<BatchHeader, RecordsError> {
    let mut batches = Batches::new(records);
    let Some(batch) = batches.next().transpose()? else {
        let rule = match batches.trailing().len() {
            0 => ProduceRule::OneBatch,
            count => ProduceRule::TrailingBytes { count },
        };
        return Err(RecordsError::new(Default::default(), Stage::Produce, produce(rule)));
    };
    let refuse = |rule| Err(batch.fault(Stage::Produce, produce(rule)));
    match batches.next() {
        Some(_) => return refuse(ProduceRule::OneBatch),
        None if !batches.trailing().is_empty() => {
            return refuse(ProduceRule::TrailingBytes { count: batches.trailing().len() });
        }
        None => {}
    }
    let header = batch.header();
    if header.magic != 2 {
        return refuse(ProduceRule::Magic { magic: header.magic });
    }
    // Before anything else that it covers: damage on the way is worth another try, a broken rule is not.
    if options.check_crc {
        batch.verify()?;
    }
    if let Some(rule) = broken_by_header(header) {
        return refuse(rule);
    }
    let max_timestamp = check_records(&batch, &ReadOptions { check_crc: false, ..*options })?;
    Ok(BatchHeader { max_timestamp, ..*header })
}

fn broken_by_header(header: &BatchHeader) -> Option<ProduceRule> {
    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
    let is_idempotent = producer_id >= 0 && producer_epoch >= 0 && base_sequence >= 0;
    let is_plain = producer_id == -1 && producer_epoch == -1 && base_sequence == -1;
    let count = header.records_count;
    let last_offset_delta = header.last_offset_delta;
    let rules = [
        (header.base_offset != 0, ProduceRule::BaseOffset { base_offset: header.base_offset }),
        (header.is_control(), ProduceRule::ControlBatch),
        (header.timestamp_type() == Some(TimestampType::LogAppendTime), ProduceRule::LogAppendTime),
        (header.delete_horizon().is_some(), ProduceRule::DeleteHorizon),
        (!is_idempotent && !is_plain, ProduceRule::Sequence { producer_id, producer_epoch, base_sequence }),
        (header.is_transactional() && !is_idempotent, ProduceRule::Transactional),
        (count <= 0, ProduceRule::Empty { count }),
        (
            last_offset_delta != count.wrapping_sub(1),
            ProduceRule::LastOffsetDelta { last_offset_delta, count },
        ),
    ];
    rules.into_iter().find_map(|(is_broken, rule)| is_broken.then_some(rule))
}

/// Reads all records, and returns the largest of their timestamps.
fn check_records(batch: &RecordBatch<'_>, options: &ReadOptions) -> Result<i64, RecordsError> {
    let mut max_timestamp = -1;
    for (index, record) in batch.records_with(options)?.iter().enumerate() {
        let record = record?;
        let rule = match (record.offset, record.create_timestamp) {
            (delta, _) if delta != index as i64 => ProduceRule::Offset { delta, expected: index as i64 },
            (_, timestamp) if timestamp < -1 => ProduceRule::Timestamp { timestamp },
            (_, timestamp) => {
                max_timestamp = max_timestamp.max(timestamp);
                continue;
            }
        };
        return Err(batch.fault(Stage::Produce, produce(rule)).in_record(index));
    }
    Ok(max_timestamp)
}

fn produce(rule: ProduceRule) -> RecordsReason {
    RecordsReason::Produce(rule)
}
