//! Acknowledgements to batches and back.

use std::iter::repeat_n;
use std::{error, fmt};

use super::partition::{PartitionAcknowledgements, Stretch};
use crate::messages::{share_acknowledge_request, share_fetch_request::AcknowledgementBatch};
use crate::protocol::AcknowledgeType;
use crate::wire::SmallVec;

/// More equal types in a row than this are a batch of their own. As in Kafka's Java client.
const LONGEST_WITHIN_BATCH: u64 = 10;

impl PartitionAcknowledgements {
    /// Compresses the acknowledgements into the batches that Kafka's Java client sends. They ascend and do not overlap.
    ///
    /// Offsets that follow one another belong together; an offset without acknowledgement parts them, a gap does not.
    /// Of those, more than 10 in a row of one type are a batch of their own, and what lies between such is one batch. A
    /// batch of one type has that type once, others have one type per offset.
    ///
    /// A batch has no upper limit. ShareAcknowledge's batches come by [`From`] of these.
    pub fn batches(&self) -> Vec<AcknowledgementBatch> {
        let stretches = self.stretches();
        let mut batches = Vec::<AcknowledgementBatch>::new();
        let mut rest = &stretches[..];
        while let Some(&stretch) = rest.first() {
            let together = 1.max(mixed_prefix(rest));
            let (now, later) = rest.split_at(together);
            rest = later;
            match batches.last_mut() {
                // Only so many offsets fit into a stretch.
                Some(before) if together == 1 && is_continued(before, stretch) => {
                    before.last_offset = stretch.last();
                }
                _ => batches.push(batch(now)),
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

/// How many of the first stretches follow one another and are all short.
fn mixed_prefix(stretches: &[Stretch]) -> usize {
    let mut before: Option<Stretch> = None;
    stretches
        .iter()
        .take_while(|stretch| {
            let adjacent = before.is_none_or(|before| before.last() == stretch.first() - 1);
            before = Some(**stretch);
            adjacent && stretch.count() <= LONGEST_WITHIN_BATCH
        })
        .count()
}

/// A batch of stretches that follow one another.
fn batch(stretches: &[Stretch]) -> AcknowledgementBatch {
    let (first, last) = (stretches[0], stretches[stretches.len() - 1]);
    let acknowledge_types = match stretches {
        [only] => SmallVec::from_slice(&[only.ty()]),
        _ => one_type_per_offset(stretches, (last.last() - first.first()) as usize + 1),
    };
    AcknowledgementBatch {
        first_offset: first.first(),
        last_offset: last.last(),
        acknowledge_types,
        ..Default::default()
    }
}

/// The types of stretches that follow one another and are short.
fn one_type_per_offset(stretches: &[Stretch], offsets: usize) -> SmallVec<[AcknowledgeType; 16]> {
    if offsets <= 16 {
        return stretches
            .iter()
            .flat_map(|stretch| repeat_n(stretch.ty(), stretch.count() as usize))
            .collect();
    }
    // Each stretch is written in one width that holds the longest; the next one overwrites what was too much.
    const WIDTH: usize = 16;
    const { assert!(LONGEST_WITHIN_BATCH <= WIDTH as u64) };
    let mut types = vec![AcknowledgeType::GAP; offsets + WIDTH];
    let mut at = 0;
    for stretch in stretches {
        types[at..at + WIDTH].copy_from_slice(&[stretch.ty(); WIDTH]);
        at += stretch.count() as usize;
    }
    types.truncate(offsets);
    types.into()
}

fn is_continued(before: &AcknowledgementBatch, stretch: Stretch) -> bool {
    before.last_offset == stretch.first().wrapping_sub(1) && before.acknowledge_types[..] == [stretch.ty()]
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
