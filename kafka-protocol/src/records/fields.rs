use bytes::Bytes;

use super::Batches;
#[cfg(feature = "share")]
use crate::messages::share_fetch_response;
use crate::messages::{fetch_response, produce_request};

/// A partition of a message that carries record batches: in ProduceRequest, FetchResponse and ShareFetchResponse.
///
/// ```
/// use kafka_protocol::messages::produce_request::PartitionProduceData;
/// use kafka_protocol::records::{BatchBuilder, NewRecord, RecordsField};
///
/// let mut builder = BatchBuilder::new();
/// builder.append(&NewRecord { key: Some(b"k"), value: Some(b"v"), ..Default::default() })?;
/// let mut partition = PartitionProduceData { index: 3, ..Default::default() };
/// partition.set_records(builder.finish()?);
/// assert_eq!(partition.batches().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RecordsField {
    /// The batches; none if the field is null.
    fn batches(&self) -> Batches<'_>;

    /// Puts batches into the field, one after another. No bytes are empty records, never null, which is what newer
    /// versions ask for.
    fn set_records(&mut self, batches: Bytes);
}

macro_rules! records_field {
    ($($partition:ty),+) => {$(
        impl RecordsField for $partition {
            #[inline]
            fn batches(&self) -> Batches<'_> {
                self.records.as_ref().map_or(Batches::from_slice(&[]), Batches::new)
            }

            #[inline]
            fn set_records(&mut self, batches: Bytes) {
                self.records = Some(batches);
            }
        }
    )+};
}

records_field!(produce_request::PartitionProduceData, fetch_response::PartitionData);
#[cfg(feature = "share")]
records_field!(share_fetch_response::PartitionData);
