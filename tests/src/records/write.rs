//! Writes batches from what vectors state of them.

use kafka_protocol::records::{Attributes, BatchBuilder, BatchHeader, Header, NewRecord};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::bytes;

/// Writes a batch with the stated header, in its codec.
///
/// # Errors
///
/// Our builder refuses, or the batch is not in the form of the vectors.
pub(super) fn batch(stated: &Json) -> Result<Bytes, String> {
    let header = header(stated)?;
    let mut builder = BatchBuilder::from_header(&header);
    for record in stated["records"].as_array().ok_or("no records")? {
        append(&mut builder, record)?;
    }
    builder.finish().map_err(|error| error.to_string())
}

/// What the stated batch says of itself. Length and checksum are left to the builder.
pub(super) fn header(stated: &Json) -> Result<BatchHeader, String> {
    let base_offset = number(stated, "baseOffset")?;
    // Offsets may wrap around in damaged batches.
    let last_offset_delta = number::<i64>(stated, "lastOffset")?.wrapping_sub(base_offset);
    Ok(BatchHeader {
        base_offset,
        length: 0,
        partition_leader_epoch: number(stated, "partitionLeaderEpoch")?,
        magic: number(stated, "magic")?,
        crc: 0,
        attributes: Attributes(number(stated, "attributes")?),
        last_offset_delta: last_offset_delta.try_into().map_err(|_| "offsets too far apart")?,
        base_timestamp: number(stated, "baseTimestamp")?,
        max_timestamp: number(stated, "maxTimestamp")?,
        producer_id: number(stated, "producerId")?,
        producer_epoch: number(stated, "producerEpoch")?,
        base_sequence: number(stated, "baseSequence")?,
        records_count: number(stated, "count")?,
    })
}

fn append(builder: &mut BatchBuilder, stated: &Json) -> Result<(), String> {
    let (key, value) = (bytes::from_json(&stated["key"])?, bytes::from_json(&stated["value"])?);
    let headers = stated["headers"].as_array().ok_or("no headers")?;
    let headers = headers.iter().map(|header| {
        let key = header[0].as_str().ok_or("a header without key")?;
        Ok((key, bytes::from_json(&header[1])?))
    });
    let headers = headers.collect::<Result<Vec<_>, String>>()?;
    let headers: Vec<Header<'_>> =
        headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
    // With log append time, the record has another timestamp than it shows.
    let timestamp = if stated["createTimestamp"].is_null() { "timestamp" } else { "createTimestamp" };
    let record = NewRecord {
        offset: Some(number(stated, "offset")?),
        timestamp: number(stated, timestamp)?,
        key: key.as_deref(),
        value: value.as_deref(),
        headers: &headers,
    };
    builder.append(&record).map_err(|error| error.to_string())
}

fn number<T: TryFrom<i64>>(stated: &Json, member: &str) -> Result<T, String> {
    let number = stated[member].as_i64().and_then(|number| number.try_into().ok());
    number.ok_or_else(|| format!("{member} is {}", stated[member]))
}
