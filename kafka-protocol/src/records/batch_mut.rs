use super::batch::{HEADER_SIZE, LENGTH_END, checksum_of, seal};
use super::error::{BatchPlace, Stage};
use super::{Attributes, BatchHeader, Batches, RecordsError, RecordsReason};

/// A batch of magic 2 that is changed in place, as a broker does when it appends it.
///
/// Base offset and partition leader epoch are not covered by the checksum. What the other setters change is: they compare
/// the checksum first, so that damage does not get a valid one, and then compute it anew.
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
    place: BatchPlace,
}

impl<'a> BatchMut<'a> {
    /// All batches of a buffer, up to one that is not all there. Checksums are not compared.
    ///
    /// # Errors
    ///
    /// Those of [`Batches`], and a message of an old format, whose records have offsets of their own.
    pub fn all(buffer: &'a mut [u8]) -> Result<Vec<Self>, RecordsError> {
        let mut found = Vec::new();
        for batch in Batches::from_slice(buffer) {
            let batch = batch?;
            if batch.header().magic != 2 {
                return Err(batch.old_format());
            }
            found.push((*batch.header(), batch.place()));
        }
        let mut rest = buffer;
        let split = |(header, place): (BatchHeader, BatchPlace)| {
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(LENGTH_END + header.length as usize);
            rest = behind;
            Self { bytes, header, place }
        };
        Ok(found.into_iter().map(split).collect())
    }

    /// The header as it is now.
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

    /// Gives all records the time of the append, in milliseconds (KIP-32).
    ///
    /// # Errors
    ///
    /// [`RecordsReason::Checksum`]: the batch is damaged. It stays as it is.
    pub fn set_log_append_time(&mut self, timestamp: i64) -> Result<(), RecordsError> {
        self.change(|header| {
            header.attributes.0 |= Attributes::LOG_APPEND_TIME;
            header.max_timestamp = timestamp;
        })
    }

    /// Sets the largest timestamp of the records, in milliseconds: what
    /// [`validate_for_produce`](super::validate_for_produce) has found, if a producer sent another one.
    ///
    /// # Errors
    ///
    /// [`RecordsReason::Checksum`]: the batch is damaged. It stays as it is.
    pub fn set_max_timestamp(&mut self, timestamp: i64) -> Result<(), RecordsError> {
        self.change(|header| header.max_timestamp = timestamp)
    }

    /// Sets id and epoch of the producer and the sequence of the first record, as a producer does that sends a batch
    /// again under a new epoch (KIP-360).
    ///
    /// # Errors
    ///
    /// [`RecordsReason::Checksum`]: the batch is damaged. It stays as it is.
    pub fn set_producer(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
    ) -> Result<(), RecordsError> {
        self.change(|header| {
            (header.producer_id, header.producer_epoch) = (producer_id, producer_epoch);
            header.base_sequence = base_sequence;
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut BatchHeader)) -> Result<(), RecordsError> {
        let (stored, computed) = (self.header.crc, checksum_of(self.bytes));
        if stored != computed {
            let reason = RecordsReason::Checksum { stored, computed };
            return Err(RecordsError::new(self.place, Stage::Checksum, reason));
        }
        change(&mut self.header);
        self.write();
        self.header.crc = seal(self.bytes);
        Ok(())
    }

    fn write(&mut self) {
        if let Some(header) = self.bytes.first_chunk_mut::<HEADER_SIZE>() {
            self.header.write(header);
        }
    }
}
