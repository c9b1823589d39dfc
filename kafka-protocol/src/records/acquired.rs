use std::ops::RangeInclusive;

use super::{ReadOptions, Record, RecordsError, RecordsField as _};
use crate::messages::share_fetch_response::{AcquiredRecords, PartitionData};

impl PartitionData {
    /// Reads the records of a ShareFetch that the member has acquired, with their delivery counts, by ascending offset
    /// (KIP-932).
    ///
    /// A broker sends whole batches, so that others may stand between them, which belong to other members. Control
    /// batches are not shown. Returned are the offsets that were acquired but have no record to deliver, because it was
    /// compacted away or is a control record: they are to be acknowledged as
    /// [gaps](crate::protocol::AcknowledgeType::GAP). If the last batch is cut, offsets behind the last whole one are not
    /// among them, as nobody knows.
    ///
    /// ```
    /// use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
    /// use kafka_protocol::records::{BatchBuilder, NewRecord, ReadOptions, RecordsField};
    ///
    /// let mut builder = BatchBuilder::new();
    /// for offset in [10, 11, 13] {
    ///     builder.append(&NewRecord { offset: Some(offset), value: Some(b"v"), ..Default::default() })?;
    /// }
    /// let mut partition = PartitionData::default();
    /// partition.set_records(builder.finish()?);
    /// let range = AcquiredRecords { first_offset: 11, last_offset: 13, delivery_count: 2, ..Default::default() };
    /// partition.acquired_records.push(range);
    ///
    /// let mut acquired = Vec::new();
    /// let gaps = partition.read_acquired(&ReadOptions::default(), |record, delivery_count| {
    ///     acquired.push((record.offset, delivery_count));
    /// })?;
    /// assert_eq!((acquired, gaps), (vec![(11, 2), (13, 2)], vec![12..=12]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A batch cannot be read. The records before it have been handed over then.
    pub fn read_acquired(
        &self,
        options: &ReadOptions,
        mut each: impl FnMut(&Record<'_>, i16),
    ) -> Result<Vec<RangeInclusive<i64>>, RecordsError> {
        let ranges = AcquiredRanges::new(&self.acquired_records);
        let mut gaps = Vec::new();
        // All acquired offsets below it are records or gaps.
        let mut next = 0;
        let mut end = None;
        let mut batches = self.batches();
        for batch in &mut batches {
            let batch = batch?;
            end = end.max(Some(batch.header().last_offset()));
            if batch.header().is_control() {
                continue;
            }
            for record in &batch.records_with(options)? {
                let record = record?;
                // Offsets ascend, in whatever a broker has written.
                let delivery_count = ranges.delivery_count(record.offset).filter(|_| record.offset >= next);
                if let Some(delivery_count) = delivery_count {
                    gaps.extend(ranges.within(next, record.offset - 1).map(|(first, last, _)| first..=last));
                    next = record.offset + 1;
                    each(&record, delivery_count);
                }
            }
        }
        if let Some(last) = end {
            // A range may end in a hole between the last batch and the next one of the log.
            let last = if batches.trailing().is_empty() { i64::MAX } else { last };
            gaps.extend(ranges.within(next, last).map(|(first, last, _)| first..=last));
        }
        Ok(gaps)
    }
}

/// The offsets of a partition that a ShareFetch has acquired, with their delivery counts (KIP-932).
///
/// The ranges are ascending and disjoint here, whatever the response says: of ranges that overlap, the first one counts
/// for the offsets that they share. Offsets are 0 or more.
#[derive(Clone, Debug)]
pub struct AcquiredRanges(Vec<(i64, i64, i16)>);

impl AcquiredRanges {
    /// The ranges of a partition of a ShareFetchResponse.
    pub fn new(acquired: &[AcquiredRecords]) -> Self {
        let mut ranges: Vec<_> = acquired
            .iter()
            .map(|range| (range.first_offset, range.last_offset, range.delivery_count))
            .collect();
        ranges.sort_by_key(|range| range.0);
        let mut next = 0;
        ranges.retain_mut(|(first, last, _)| {
            *first = (*first).max(next);
            // Behind the largest offset there is none, so that no record has it.
            *last = (*last).min(i64::MAX - 1);
            let is_range = first <= last;
            if is_range {
                next = *last + 1;
            }
            is_range
        });
        Self(ranges)
    }

    /// How often the record of an offset has been delivered, this time included; `None` if it was not acquired.
    #[inline]
    pub fn delivery_count(&self, offset: i64) -> Option<i16> {
        let at = self.0.partition_point(|range| range.1 < offset);
        self.0.get(at).filter(|range| range.0 <= offset).map(|range| range.2)
    }

    /// The ranges: first offset, last offset, delivery count.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64, i16)> {
        self.0.iter().copied()
    }

    /// The parts of the ranges between two offsets, both included; none if the first one is the larger one.
    pub fn within(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, i64, i16)> {
        let at = self.0.partition_point(move |range| range.1 < first);
        let ranges = self.0[at..].iter().take_while(move |range| first <= last && range.0 <= last);
        ranges.map(move |range| (range.0.max(first), range.1.min(last), range.2))
    }
}
