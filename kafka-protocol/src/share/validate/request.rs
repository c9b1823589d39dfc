use crate::messages::{
    ShareAcknowledgeRequest, ShareFetchRequest, share_acknowledge_request, share_fetch_request,
};
use crate::protocol::{AcknowledgeType, Request};
use crate::share::TopicIdPartition;

use super::Level;

/// An acknowledgement batch of either request, borrowed: offsets, and what became of the records there.
///
/// ```
/// use kafka_protocol::protocol::AcknowledgeType;
/// use kafka_protocol::share::validate::AcknowledgementBatch;
///
/// let batch = AcknowledgementBatch {
///     first_offset: 10,
///     last_offset: 14,
///     acknowledge_types: &[AcknowledgeType::ACCEPT],
/// };
/// assert_eq!(batch.acknowledge_type(3), AcknowledgeType::ACCEPT); // of offset 13
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcknowledgementBatch<'a> {
    /// First acknowledged offset, inclusive.
    pub first_offset: i64,
    /// Last acknowledged offset, inclusive.
    pub last_offset: i64,
    /// One type for the range, or one for each offset.
    pub acknowledge_types: &'a [AcknowledgeType],
}

impl AcknowledgementBatch<'_> {
    /// The type of the offset that is `index` behind the first.
    ///
    /// # Panics
    ///
    /// There are no types, or several and not as many as offsets: [`batches`](super::batches) refuses both.
    pub fn acknowledge_type(&self, index: usize) -> AcknowledgeType {
        match *self.acknowledge_types {
            [one] => one,
            ref each => each[index],
        }
    }

    /// Whether a type of the batch is [`RENEW`](AcknowledgeType::RENEW).
    pub fn has_renew(&self) -> bool {
        self.acknowledge_types.contains(&AcknowledgeType::RENEW)
    }
}

impl<'a> From<&'a share_fetch_request::AcknowledgementBatch> for AcknowledgementBatch<'a> {
    fn from(batch: &'a share_fetch_request::AcknowledgementBatch) -> Self {
        Self {
            first_offset: batch.first_offset,
            last_offset: batch.last_offset,
            acknowledge_types: &batch.acknowledge_types,
        }
    }
}

impl<'a> From<&'a share_acknowledge_request::AcknowledgementBatch> for AcknowledgementBatch<'a> {
    fn from(batch: &'a share_acknowledge_request::AcknowledgementBatch) -> Self {
        Self {
            first_offset: batch.first_offset,
            last_offset: batch.last_offset,
            acknowledge_types: &batch.acknowledge_types,
        }
    }
}

/// The acknowledgement batches of a partition, in the order of the request.
#[derive(Clone, Copy, Debug)]
pub enum AcknowledgementBatches<'a> {
    /// Those of a ShareFetch.
    Fetch(&'a [share_fetch_request::AcknowledgementBatch]),
    /// Those of a ShareAcknowledge.
    Acknowledge(&'a [share_acknowledge_request::AcknowledgementBatch]),
}

impl<'a> AcknowledgementBatches<'a> {
    /// How many there are.
    pub const fn len(&self) -> usize {
        match self {
            Self::Fetch(batches) => batches.len(),
            Self::Acknowledge(batches) => batches.len(),
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = AcknowledgementBatch<'a>> + Clone + use<'a> {
        let (fetch, acknowledge) = match *self {
            Self::Fetch(batches) => (batches, &[][..]),
            Self::Acknowledge(batches) => (&[][..], batches),
        };
        fetch.iter().map(AcknowledgementBatch::from).chain(acknowledge.iter().map(AcknowledgementBatch::from))
    }
}

/// A partition that a request lists, and where.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The partition.
    pub partition: TopicIdPartition,
    /// The place in `topics` and in the `partitions` there.
    pub place: (usize, usize),
    /// What is acknowledged of it, perhaps nothing.
    pub batches: AcknowledgementBatches<'a>,
}

impl Listing<'_> {
    /// The place as a path, such as `topics[3].partitions[0]`.
    pub fn path(&self) -> String {
        let (topic, partition) = self.place;
        format!("topics[{topic}].partitions[{partition}]")
    }

    /// Where a response tells what has become of the acknowledgements.
    pub(crate) fn acknowledge_level(&self) -> Level {
        match self.batches {
            AcknowledgementBatches::Fetch(_) => Level::Acknowledge(self.partition),
            AcknowledgementBatches::Acknowledge(_) => Level::Partition(self.partition),
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::messages::ShareFetchRequest {}
    impl Sealed for crate::messages::ShareAcknowledgeRequest {}
}

/// What ShareFetch and ShareAcknowledge have in common.
pub trait ShareRequest: Request + sealed::Sealed {
    /// The fields that are not in both: those of a ShareFetch.
    fn as_fetch(&self) -> Option<&ShareFetchRequest>;

    /// The group; null is refused, but may be sent.
    fn group_id(&self) -> Option<&str>;

    /// The member; null is refused, but may be sent.
    fn member_id(&self) -> Option<&str>;

    /// 0 opens a session, -1 closes it, in between it counts up.
    fn share_session_epoch(&self) -> i32;

    /// Whether acquisition locks are renewed (KIP-1222).
    fn is_renew_ack(&self) -> bool;

    /// The partitions, in the order of the request. One that is listed twice comes twice.
    fn listings(&self) -> impl Iterator<Item = Listing<'_>>;

    /// Whether anything is acknowledged.
    fn has_acknowledgements(&self) -> bool {
        self.listings().any(|listing| !listing.batches.is_empty())
    }
}

macro_rules! share_request {
    ($($Request:ident: $as_fetch:expr, $Batches:ident;)*) => {$(
        impl ShareRequest for $Request {
            fn as_fetch(&self) -> Option<&ShareFetchRequest> {
                let as_fetch: fn(&Self) -> Option<&ShareFetchRequest> = $as_fetch;
                as_fetch(self)
            }

            fn group_id(&self) -> Option<&str> {
                self.group_id.as_deref()
            }

            fn member_id(&self) -> Option<&str> {
                self.member_id.as_deref()
            }

            fn share_session_epoch(&self) -> i32 {
                self.share_session_epoch
            }

            fn is_renew_ack(&self) -> bool {
                self.is_renew_ack
            }

            fn listings(&self) -> impl Iterator<Item = Listing<'_>> {
                self.topics.iter().enumerate().flat_map(|(topic, of)| {
                    of.partitions.iter().enumerate().map(move |(partition, row)| Listing {
                        partition: TopicIdPartition::new(of.topic_id, row.partition_index),
                        place: (topic, partition),
                        batches: AcknowledgementBatches::$Batches(&row.acknowledgement_batches),
                    })
                })
            }
        }
    )*};
}
share_request! {
    ShareFetchRequest: |request| Some(request), Fetch;
    ShareAcknowledgeRequest: |_| None, Acknowledge;
}
