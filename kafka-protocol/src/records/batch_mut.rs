use super::batch::{HEADER_SIZE, LENGTH_END, seal};
use super::{Attributes, BatchHeader, Batches, RecordsError};

/// A batch of magic 2 that is changed in place, as a broker does when it appends it.
///
/// Base offset and partition leader epoch are not covered by the checksum. The other setters compute it anew.
///
/// ```
/// use kafka_protocol::records::{BatchBuilder, BatchMut, Batches, NewRecord};
///
/// let mut builder = BatchBuilder::new();
/// builder.append(&NewRecord { value: Some(b"v"), ..Default::default() })?;
/// let mut log = builder.finish()?.to_vec();
///
/// for mut batch in BatchMut::all(&mut log)? {
///     batch.set_base_offset(42);
///     batch.set_partition_leader_epoch(7);
/// }
/// let batch = Batches::from_slice(&log).next().unwrap()?;
/// assert_eq!(batch.records()?.iter().next().unwrap()?.offset, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BatchMut<'a> {
    bytes: &'a mut [u8],
    header: BatchHeader,
}

impl<'a> BatchMut<'a> {
    /// All batches of a buffer, up to one that is not all there.
    ///
    /// # Errors
    ///
    /// Those of [`Batches`], and a message of an old format, whose offsets are covered by nothing but spread over the
    /// records: nothing is changed then.
    pub fn all(buffer: &'a mut [u8]) -> Result<Vec<Self>, RecordsError> {
        let mut headers = Vec::new();
        for batch in Batches::from_slice(buffer) {
            let batch = batch?;
            if batch.header().magic != 2 {
                return Err(batch.old_format());
            }
            headers.push(*batch.header());
        }
        let mut rest = buffer;
        let split = |header: BatchHeader| {
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(LENGTH_END + header.length as usize);
            rest = behind;
            Self { bytes, header }
        };
        Ok(headers.into_iter().map(split).collect())
    }

    /// The header as it is now; the checksum is the one that was read.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Sets the offset of the first record; the others follow.
    pub fn set_base_offset(&mut self, base_offset: i64) {
        self.header.base_offset = base_offset;
        self.write();
    }

    /// Sets the epoch of the partition's leader.
    pub fn set_partition_leader_epoch(&mut self, epoch: i32) {
        self.header.partition_leader_epoch = epoch;
        self.write();
    }

    /// Gives all records the time of the append, in milliseconds.
    pub fn set_log_append_time(&mut self, timestamp: i64) {
        self.header.attributes.0 |= Attributes::LOG_APPEND_TIME;
        self.header.max_timestamp = timestamp;
        self.write();
        seal(self.bytes);
    }

    /// Sets id and epoch of the producer and the sequence of the first record, as a producer does that sends a batch
    /// again under a new epoch.
    pub fn set_producer(&mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) {
        self.header.producer_id = producer_id;
        self.header.producer_epoch = producer_epoch;
        self.header.base_sequence = base_sequence;
        self.write();
        seal(self.bytes);
    }

    fn write(&mut self) {
        if let Some(header) = self.bytes.first_chunk_mut::<HEADER_SIZE>() {
            self.header.write(header);
        }
    }
}
