//! Acknowledgements to batches and back.

use std::{error, fmt};

use super::partition::{Part, PartitionAcknowledgements};
use crate::messages::{share_acknowledge_request, share_fetch_request::AcknowledgementBatch};
use crate::protocol::AcknowledgeType;
use crate::wire::SmallVec;

/// More equal types in a row than this are a batch of their own. As in Kafka's Java client.
const LONGEST_WITHIN_BATCH: usize = 10;

impl PartitionAcknowledgements {
    /// Compresses the acknowledgements into the batches that Kafka's Java client sends. They ascend and do not overlap.
    ///
    /// Offsets that follow one another belong together; an offset without acknowledgement parts them, a gap does not.
    /// Of those, more than 10 in a row of one type are a batch of their own, and what lies between such is one batch. A
    /// batch of one type has that type once, others have one type per offset.
    ///
    /// A batch has no upper limit. ShareAcknowledge's batches come by [`From`] of these.
    pub fn batches(&self) -> Vec<AcknowledgementBatch> {
        let whole = self.whole();
        let mut batches = Vec::new();
        for part in whole.parts() {
            match part {
                Part::Uniform(first, last, ty) => batches.push(batch(first, last, &[ty])),
                Part::Mixed(first, types) => compress(first, types, &mut batches),
            }
        }
        batches
    }

    /// Expands batches, of which later ones replace what earlier ones say of the same offset.
    ///
    /// # Errors
    ///
    /// A batch ends before it begins, or has neither one type nor one per offset. Types that do not exist are no error.
    pub fn from_batches<'a>(
        batches: impl IntoIterator<Item = &'a AcknowledgementBatch>,
    ) -> Result<Self, ExpandError> {
        let mut acknowledgements = Self::default();
        for (index, batch) in batches.into_iter().enumerate() {
            let &AcknowledgementBatch { first_offset, last_offset, .. } = batch;
            let error =
                || ExpandError { index, first_offset, last_offset, types: batch.acknowledge_types.len() };
            if first_offset > last_offset {
                return Err(error());
            }
            match &batch.acknowledge_types[..] {
                &[ty] => acknowledgements.set_range(first_offset, last_offset, ty),
                types if types.len() as i128 == i128::from(last_offset) - i128::from(first_offset) + 1 => {
                    acknowledgements.extend((first_offset..=last_offset).zip(types.iter().copied()));
                }
                _ => return Err(error()),
            }
        }
        Ok(acknowledgements)
    }
}

/// Adds the batches of offsets that follow one another.
fn compress(mut first: i64, mut types: &[AcknowledgeType], to: &mut Vec<AcknowledgementBatch>) {
    while let Some((start, end)) = long_stretch(types) {
        compress_short(first, &types[..start], to);
        let last = first + (end - 1) as i64;
        to.push(batch(first + start as i64, last, &types[start..=start]));
        first = last.wrapping_add(1);
        types = &types[end..];
    }
    compress_short(first, types, to);
}

/// The same of what has no stretch that is a batch of its own.
fn compress_short(first: i64, types: &[AcknowledgeType], to: &mut Vec<AcknowledgementBatch>) {
    let Some(ty) = types.first() else { return };
    let last = first + (types.len() - 1) as i64;
    let is_uniform = types.iter().all(|of| of == ty);
    to.push(batch(first, last, if is_uniform { &types[..1] } else { types }));
}

/// Start and end of the first stretch of equal types that is a batch of its own.
fn long_stretch(types: &[AcknowledgeType]) -> Option<(usize, usize)> {
    let mut start = 0;
    loop {
        // Looking backwards from where it would have to reach, a type that differs rules out all starts before it.
        let window = types.get(start..=start + LONGEST_WITHIN_BATCH)?;
        let ty = window[LONGEST_WITHIN_BATCH];
        match window.iter().rposition(|of| *of != ty) {
            Some(other) => start += other + 1,
            None => {
                let rest = &types[start..];
                return Some((start, start + rest.iter().position(|of| *of != ty).unwrap_or(rest.len())));
            }
        }
    }
}

fn batch(first_offset: i64, last_offset: i64, types: &[AcknowledgeType]) -> AcknowledgementBatch {
    let acknowledge_types = SmallVec::from_slice(types);
    AcknowledgementBatch { first_offset, last_offset, acknowledge_types, ..Default::default() }
}

impl From<AcknowledgementBatch> for share_acknowledge_request::AcknowledgementBatch {
    fn from(batch: AcknowledgementBatch) -> Self {
        let AcknowledgementBatch { first_offset, last_offset, acknowledge_types, unknown_tagged_fields } =
            batch;
        Self { first_offset, last_offset, acknowledge_types, unknown_tagged_fields }
    }
}

impl From<share_acknowledge_request::AcknowledgementBatch> for AcknowledgementBatch {
    fn from(batch: share_acknowledge_request::AcknowledgementBatch) -> Self {
        let share_acknowledge_request::AcknowledgementBatch {
            first_offset,
            last_offset,
            acknowledge_types,
            unknown_tagged_fields,
        } = batch;
        Self { first_offset, last_offset, acknowledge_types, unknown_tagged_fields }
    }
}

/// Why acknowledgement batches cannot be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandError {
    /// Which of the batches, from 0.
    pub index: usize,
    /// The batch's first offset.
    pub first_offset: i64,
    /// The batch's last offset.
    pub last_offset: i64,
    /// How many types the batch has.
    pub types: usize,
}

impl error::Error for ExpandError {}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, first_offset: first, last_offset: last, types } = self;
        write!(f, "acknowledgement_batches[{index}]: ")?;
        if first > last {
            write!(f, "last_offset {last} is below first_offset {first}")
        } else {
            write!(
                f,
                "{types} acknowledge_types for the offsets {first} to {last}, expected 1 or one per offset"
            )
        }
    }
}
