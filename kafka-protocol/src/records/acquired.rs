use std::ops::RangeInclusive;

use super::{ReadOptions, Record, RecordsError, RecordsField as _};
use crate::messages::share_fetch_response::{AcquiredRecords, PartitionData};

impl PartitionData {
    /// Reads the records of a ShareFetch that the member has acquired, with their delivery counts, in order.
    ///
    /// A broker sends whole batches, so that others may stand between them, which belong to other members. Control
    /// batches are not shown. Returned are the offsets that were acquired but have no record to deliver, because it was
    /// compacted away or is a control record: they are to be acknowledged as
    /// [gaps](crate::protocol::AcknowledgeType::GAP). Offsets behind the last whole batch are not among them.
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
        let mut seen = Vec::new();
        let mut end = i64::MIN;
        for batch in self.batches() {
            let batch = batch?;
            if batch.header().is_control() {
                end = end.max(batch.header().next_offset());
                continue;
            }
            for record in &batch.records_with(options)? {
                let record = record?;
                if let Some(delivery_count) = self.delivery_count(record.offset) {
                    each(&record, delivery_count);
                    seen.push(record.offset);
                }
            }
            end = end.max(batch.header().next_offset());
        }
        seen.sort_unstable();
        Ok(gaps(&self.acquired_records, &seen, end))
    }

    /// How often a record has been delivered, this time included; `None` if it was not acquired.
    pub fn delivery_count(&self, offset: i64) -> Option<i16> {
        let range = self.acquired_records.iter().find(|range| range.contains(offset))?;
        Some(range.delivery_count)
    }
}

impl AcquiredRecords {
    fn contains(&self, offset: i64) -> bool {
        (self.first_offset..=self.last_offset).contains(&offset)
    }
}

/// The acquired offsets below `end` that are not among those seen, which are sorted.
fn gaps(acquired: &[AcquiredRecords], seen: &[i64], end: i64) -> Vec<RangeInclusive<i64>> {
    let mut gaps = Vec::new();
    for range in acquired {
        let last = range.last_offset.min(end.saturating_sub(1));
        let mut next = range.first_offset;
        for &offset in &seen[seen.partition_point(|offset| *offset < next)..] {
            if offset > last {
                break;
            }
            if next < offset {
                gaps.push(next..=offset - 1);
            }
            next = offset + 1;
        }
        if next <= last {
            gaps.push(next..=last);
        }
    }
    gaps
}
