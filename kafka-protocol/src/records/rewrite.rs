use std::{error, fmt};

use bytes::Bytes;

use super::batch::{HEADER_SIZE, seal};
use super::builder::check_codec;
use super::compression::compress;
use super::{
    BatchBuilder, BatchHeader, BuildError, Compression, ReadOptions, Record, RecordBatch, RecordsError,
};

impl RecordBatch<'_> {
    /// The same batch in another codec. The records are not looked at: what was wrong with them stays so.
    ///
    /// Messages of the old formats become batches of magic 2, record by record.
    ///
    /// # Errors
    ///
    /// The batch cannot be read, or the codec is not enabled or does not have this level; see
    /// [`BatchBuilder::compression_level`].
    pub fn recompress(
        &self,
        compression: Compression,
        level: Option<i32>,
        options: &ReadOptions,
    ) -> Result<Bytes, RewriteError> {
        let checked_level = check_codec(compression, level)?;
        if self.header().magic != 2 {
            return self.upgrade(compression, level, options);
        }
        let records = self.records_with(options)?;
        let mut batch = vec![0; HEADER_SIZE];
        compress(compression, checked_level, records.as_bytes(), &mut batch)
            .map_err(|message| BuildError::Compress { compression, message })?;
        let attributes = self.header().attributes.with_compression(compression);
        let header = BatchHeader { attributes, ..*self.header() };
        if let Some(start) = batch.first_chunk_mut() {
            header.write(start);
        }
        seal(&mut batch);
        Ok(batch.into())
    }

    fn upgrade(
        &self,
        compression: Compression,
        level: Option<i32>,
        options: &ReadOptions,
    ) -> Result<Bytes, RewriteError> {
        let records = self.records_with(options)?;
        let mut builder = BatchBuilder::new().compression(compression).base_offset(records.base_offset());
        if let Some(level) = level {
            builder = builder.compression_level(level);
        }
        if let Some(timestamp) = self.header().append_timestamp() {
            builder = builder.log_append_time(timestamp);
        }
        for record in &records {
            builder.append_record(&record?)?;
        }
        Ok(builder.finish()?)
    }

    /// The batch with some of its records, as Kafka's log cleaner leaves it.
    ///
    /// If all records stay it is the same batch. Otherwise base offset, last offset, base sequence and codec stay, and
    /// base and maximum timestamp are those of the records that are left. Without any, what remains is a header that
    /// keeps the place of the offsets and of the producer's sequence.
    ///
    /// # Errors
    ///
    /// The batch cannot be read, is of an old format, or its codec is not enabled.
    pub fn retain(
        &self,
        options: &ReadOptions,
        mut keep: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<Bytes, RewriteError> {
        if self.header().magic != 2 {
            return Err(self.old_format().into());
        }
        let records = self.records_with(options)?;
        let mut kept = Vec::new();
        for record in &records {
            let record = record?;
            if keep(&record) {
                kept.push(record);
            }
        }
        if kept.len() == self.header().records_count as usize && !kept.is_empty() {
            return Ok(self.to_bytes());
        }
        let mut builder = BatchBuilder::from_header(&self.header_of(&kept));
        for record in &kept {
            builder.append_record(record)?;
        }
        Ok(builder.finish()?)
    }

    fn header_of(&self, kept: &[Record<'_>]) -> BatchHeader {
        let header = *self.header();
        let Some(first) = kept.first() else {
            let attributes = header.attributes.with_compression(Compression::None);
            let attributes = super::Attributes(attributes.0 & !super::Attributes::DELETE_HORIZON);
            return BatchHeader { attributes, base_timestamp: -1, ..header };
        };
        let max = kept.iter().map(|record| record.timestamp).max().unwrap_or(header.max_timestamp);
        let base_timestamp = header.delete_horizon().unwrap_or(first.create_timestamp);
        BatchHeader { base_timestamp, max_timestamp: header.append_timestamp().unwrap_or(max), ..header }
    }
}

/// Why another batch cannot be made of one.
#[derive(Clone, Debug, PartialEq)]
pub enum RewriteError {
    /// It cannot be read.
    Read(RecordsError),
    /// The other one cannot be written.
    Build(BuildError),
}

impl From<RecordsError> for RewriteError {
    fn from(error: RecordsError) -> Self {
        Self::Read(error)
    }
}

impl From<BuildError> for RewriteError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl error::Error for RewriteError {}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
        }
    }
}
