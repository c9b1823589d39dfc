//! Reads a buffer in all the ways there are; they have to agree.

use kafka_protocol::records::{Batches, OwnedRecord, Record, RecordBatch, RecordsError};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::shown;

/// What our reader sees in a buffer, in the form of the vectors.
pub(super) struct Seen {
    /// The batches up to the first that cannot be read.
    pub batches: Vec<Json>,
    /// Header and content of each batch that can be found.
    pub headers: Vec<Json>,
    /// The number of bytes behind the last whole batch.
    pub trailing: usize,
    /// Why the next batch is not read.
    pub error: Option<RecordsError>,
}

/// Reads all that can be read.
///
/// # Errors
///
/// Two ways to read do not agree; tells how.
pub(super) fn see(bytes: &Bytes) -> Result<Seen, String> {
    let mut seen = Seen { batches: vec![], headers: vec![], trailing: 0, error: None };
    let mut batches = Batches::new(bytes);
    let mut position = 0;
    for batch in &mut batches {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                seen.error = Some(error);
                return Ok(seen);
            }
        };
        if (batch.position(), batch.bytes()) != (position, &bytes[position..][..batch.bytes().len()]) {
            return Err(format!("a batch at byte {} instead of {position}", batch.position()));
        }
        position += batch.bytes().len();
        seen.headers.push(shown::batch(batch.header(), batch.header().base_offset));
        let content = content(&batch)?;
        check_slice(&batch, bytes)?;
        match content {
            Ok(batch) => seen.batches.push(batch),
            Err(error) => {
                seen.error = Some(error);
                return Ok(seen);
            }
        }
    }
    seen.trailing = batches.trailing().len();
    if position + seen.trailing != bytes.len() {
        return Err(format!("{} bytes are left of {}", seen.trailing, bytes.len() - position));
    }
    Ok(seen)
}

/// Of a slice, where owned records have to be copied, all is as it is of a `Bytes`.
fn check_slice(shared: &RecordBatch<'_>, bytes: &[u8]) -> Result<(), String> {
    let mut batches = Batches::from_slice(bytes)
        .skip_while(|batch| matches!(batch, Ok(batch) if batch.position() < shared.position()));
    let copied = batches.next().ok_or("no batch in the slice")?.map_err(|error| error.to_string())?;
    if (copied.header(), copied.to_bytes()) != (shared.header(), shared.to_bytes()) {
        return Err(format!("in a slice {:?} instead of {:?}", copied.header(), shared.header()));
    }
    match (shared.records(), copied.records()) {
        (Err(one), Err(other)) if one == other => Ok(()),
        (Ok(one), Ok(other)) if one.to_vec() == other.to_vec() && one.owned().eq(other.owned()) => Ok(()),
        (one, other) => Err(format!("{one:?}, of a slice {other:?}")),
    }
}

/// A batch with its records.
fn content(batch: &RecordBatch<'_>) -> Result<Result<Json, RecordsError>, String> {
    let records = match batch.records() {
        Ok(records) => records,
        Err(error) => return Ok(Err(error)),
    };
    let header = batch.header();
    let is_control = header.is_control();
    let mut shown = shown::batch(header, records.base_offset());
    let mut list = Vec::new();
    let (mut lazy, mut owned, mut control) = (records.iter(), records.owned(), records.control());
    loop {
        let (one, other) = (lazy.next(), owned.next());
        let said = is_control.then(|| control.next()).flatten();
        match (one, other, said) {
            (None, None, None) => break,
            (Some(Err(one)), Some(Err(other)), said) if one == other => {
                return match said {
                    Some(Err(said)) if said != one => Err(format!("control record: {said}, else {one}")),
                    _ => Ok(Err(one)),
                };
            }
            (Some(Ok(one)), Some(Ok(other)), said) if is_same(&one, &other) => match said.transpose() {
                Ok(said) if said.is_some() != is_control => return Err("no control record".to_owned()),
                Ok(said) => list.push(shown::record(header, &one, said.map(|(_, control)| control).as_ref())),
                Err(error) => return Ok(Err(error)),
            },
            (one, other, said) => return Err(format!("lazy {one:?}, owned {other:?}, control {said:?}")),
        }
    }
    // All at once they are as many.
    let all = records.to_vec().map_err(|error| error.to_string())?;
    if all.len() != list.len()
        || !all.iter().zip(records.iter().flatten()).all(|(one, other)| is_same(&other, one))
    {
        return Err(format!("{} records at once instead of {}", all.len(), list.len()));
    }
    shown["records"] = list.into();
    Ok(Ok(shown))
}

fn is_same(one: &Record<'_>, other: &OwnedRecord) -> bool {
    *one == other.as_record()
        && (one.offset, one.timestamp) == (other.offset(), other.timestamp())
        && (one.key, one.value) == (other.key(), other.value())
        && (one.key, one.value) == (other.key_bytes().as_deref(), other.value_bytes().as_deref())
        && one.headers == other.headers()
}
