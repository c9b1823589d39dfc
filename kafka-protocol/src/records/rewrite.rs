use std::{error, fmt};

use bytes::Bytes;

use super::compose::{check_codec, complete, put_compressed};
use super::{
    Attributes, BatchBuilder, BatchHeader, BuildError, Compression, ReadOptions, Record, RecordBatch,
    RecordsError,
};

impl RecordBatch<'_> {
    /// The same batch in another codec. The records are not looked at: what was wrong with them stays so.
    ///
    /// Messages of the old formats become batches of magic 2, record by record.
    ///
    /// # Errors
    ///
    /// The batch cannot be read, the codec is not enabled or does not have this level, see
    /// [`BatchBuilder::compression_level`], or the result is larger than a batch can be. Of the old formats also offsets
    /// and timestamps that no batch can have.
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
        let mut batch = Vec::new();
        put_compressed(compression, checked_level, records.as_bytes(), &mut batch)?;
        let attributes = self.header().attributes.with_compression(compression);
        complete(&BatchHeader { attributes, ..*self.header() }, &mut batch);
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
        // Read twice: what is kept shall not take more memory than a flag for each record.
        let mut is_kept = Vec::new();
        let mut timestamps = None;
        for record in &records {
            let record = record?;
            is_kept.push(keep(&record));
            if is_kept.ends_with(&[true]) {
                let timestamp = record.create_timestamp;
                let (first, max) = timestamps.unwrap_or((timestamp, timestamp));
                timestamps = Some((first, timestamp.max(max)));
            }
        }
        if !is_kept.is_empty() && is_kept.iter().all(|is_kept| *is_kept) {
            return Ok(self.to_bytes());
        }
        let mut builder = BatchBuilder::from_header(&self.header_with(timestamps));
        for (record, _) in records.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept) {
            builder.append_record(&record?)?;
        }
        Ok(builder.finish()?)
    }

    /// The header with the first and the largest timestamp of the records that are kept, if any are.
    fn header_with(&self, timestamps: Option<(i64, i64)>) -> BatchHeader {
        let mut header = *self.header();
        match timestamps {
            Some((first, max)) => {
                header.base_timestamp = header.delete_horizon().unwrap_or(first);
                header.max_timestamp = header.append_timestamp().unwrap_or(max);
            }
            None => {
                header.attributes = header.attributes.with_compression(Compression::None);
                header.attributes.0 &= !Attributes::DELETE_HORIZON;
                header.base_timestamp = -1;
            }
        }
        header
    }
}

/// Why another batch cannot be made of one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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

impl error::Error for RewriteError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Read(error) => error.source(),
            Self::Build(error) => error.source(),
        }
    }
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
        }
    }
}
