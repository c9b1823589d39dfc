//! The client's end of a share session with one node.

mod request;
mod response;

use std::collections::BTreeSet;
use std::{error, fmt, mem};

pub use request::{FetchSizes, ShareAcquireMode};
pub use response::AcknowledgeResult;

use super::{Acknowledgements, TopicIdPartition};
use crate::messages::{ShareAcknowledgeRequest, ShareFetchRequest};
use crate::wire::Str;

/// The epoch of a request that opens a session.
const INITIAL_EPOCH: i32 = 0;

/// The epoch of a request that closes a session.
const FINAL_EPOCH: i32 = -1;

/// The client's end of the share session of one member with one node, the leader of some partitions (KIP-932).
///
/// One counter, the `ShareSessionEpoch`, numbers the requests of both APIs. So there is one request at a time: make it
/// with [`fetch`](Self::fetch), [`acknowledge`](Self::acknowledge) or [`close`](Self::close), then hand in what came of
/// it. A session lives and dies with the connection that opened it.
///
/// Acknowledgements belong to the node that delivered the records: keep one session per node, and give it only what it
/// delivered.
///
/// ```
/// use kafka_protocol::share::{Acknowledgements, ClientSession, FetchSizes, TopicIdPartition};
/// use kafka_protocol::{messages::ShareFetchResponse, wire::Uuid};
///
/// let mut session = ClientSession::new("group".into(), "member".into());
/// let wanted = [TopicIdPartition::new(Uuid::from_u128(7), 0)].into();
/// let mut acknowledgements = Acknowledgements::default();
///
/// let open = session.fetch(&wanted, &mut acknowledgements, &FetchSizes::default(), 2)?;
/// assert_eq!((open.share_session_epoch, open.topics.len()), (0, 1));
/// session.fetch_response(&ShareFetchResponse::default());
///
/// // What the node knows already is not listed again.
/// let next = session.fetch(&wanted, &mut acknowledgements, &FetchSizes::default(), 2)?;
/// assert_eq!((next.share_session_epoch, next.topics.len()), (1, 0));
/// # Ok::<(), kafka_protocol::share::ClientSessionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientSession {
    group_id: Str,
    member_id: Str,
    next_epoch: i32,
    /// What the node has in the session, as far as it has answered.
    partitions: BTreeSet<TopicIdPartition>,
    in_flight: Option<InFlight>,
}

/// What a request in flight does if it succeeds.
#[derive(Clone, Debug)]
struct InFlight {
    epoch: i32,
    /// What the session then has; `None` leaves it as it is.
    partitions: Option<BTreeSet<TopicIdPartition>>,
    acknowledgements: Acknowledgements,
}

impl ClientSession {
    /// A session that has not been opened yet.
    pub fn new(group_id: Str, member_id: Str) -> Self {
        let partitions = BTreeSet::new();
        Self { group_id, member_id, next_epoch: INITIAL_EPOCH, partitions, in_flight: None }
    }

    /// The epoch of the next request: 0 opens a session, then 1, 2 and so on; 1 again behind 2147483647.
    pub fn next_epoch(&self) -> i32 {
        self.next_epoch
    }

    /// Whether the node has the session, so that acknowledgements can be sent.
    pub fn is_open(&self) -> bool {
        self.next_epoch != INITIAL_EPOCH
    }

    /// Whether a request waits for its answer.
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// What the node fetches from for this session, as far as it has answered.
    pub fn partitions(&self) -> &BTreeSet<TopicIdPartition> {
        &self.partitions
    }

    /// A ShareFetch that makes the session be `wanted` and carries `acknowledgements`, which are taken.
    ///
    /// At epoch 0 it lists everything wanted. Later it lists what is new and what is acknowledged, and forgets what is
    /// no longer wanted, so that a partition which only carries acknowledgements does not come in by them (as Kafka's Java
    /// client since 4.4). A topic that was created anew has another id: its partitions go and come like any others.
    ///
    /// With a renewal all sizes are 0 and `is_renew_ack` is set: the node answers at once and fetches nothing
    /// (KIP-1222). `version` is the one in which the request will be encoded.
    ///
    /// # Errors
    ///
    /// [`Busy`](ClientSessionError::Busy); [`NotOpen`](ClientSessionError::NotOpen) with acknowledgements at epoch 0, which
    /// a broker refuses; [`RenewUnsupported`](ClientSessionError::RenewUnsupported) and
    /// [`AcquireModeUnsupported`](ClientSessionError::AcquireModeUnsupported) below version 2. Nothing is taken then.
    pub fn fetch(
        &mut self,
        wanted: &BTreeSet<TopicIdPartition>,
        acknowledgements: &mut Acknowledgements,
        sizes: &FetchSizes,
        version: i16,
    ) -> Result<ShareFetchRequest, ClientSessionError> {
        self.check(acknowledgements, version)?;
        if sizes.acquire_mode != ShareAcquireMode::BatchOptimized && version < 2 {
            return Err(ClientSessionError::AcquireModeUnsupported { version });
        }
        let request = self.fetch_request(wanted, acknowledgements, sizes);
        self.sent(self.next_epoch, Some(wanted.clone()), acknowledgements);
        Ok(request)
    }

    /// A ShareAcknowledge that carries `acknowledgements`, which are taken; it leaves the session as it is.
    ///
    /// # Errors
    ///
    /// [`Busy`](ClientSessionError::Busy); [`NotOpen`](ClientSessionError::NotOpen) at epoch 0;
    /// [`RenewUnsupported`](ClientSessionError::RenewUnsupported) below version 2. Nothing is taken then.
    pub fn acknowledge(
        &mut self,
        acknowledgements: &mut Acknowledgements,
        version: i16,
    ) -> Result<ShareAcknowledgeRequest, ClientSessionError> {
        self.acknowledge_at(self.next_epoch, acknowledgements, version)
    }

    /// A ShareAcknowledge that carries the last `acknowledgements`, which are taken, and closes the session. The node
    /// releases everything else that the member has acquired from it; whatever comes of it, the session is then closed.
    ///
    /// # Errors
    ///
    /// Those of [`acknowledge`](Self::acknowledge).
    pub fn close(
        &mut self,
        acknowledgements: &mut Acknowledgements,
        version: i16,
    ) -> Result<ShareAcknowledgeRequest, ClientSessionError> {
        self.acknowledge_at(FINAL_EPOCH, acknowledgements, version)
    }

    fn acknowledge_at(
        &mut self,
        epoch: i32,
        acknowledgements: &mut Acknowledgements,
        version: i16,
    ) -> Result<ShareAcknowledgeRequest, ClientSessionError> {
        self.check(acknowledgements, version)?;
        if !self.is_open() {
            return Err(ClientSessionError::NotOpen);
        }
        let request = self.acknowledge_request(epoch, acknowledgements);
        self.sent(epoch, None, acknowledgements);
        Ok(request)
    }

    fn check(&self, acknowledgements: &Acknowledgements, version: i16) -> Result<(), ClientSessionError> {
        if self.is_busy() {
            Err(ClientSessionError::Busy)
        } else if !self.is_open() && !acknowledgements.is_empty() {
            Err(ClientSessionError::NotOpen)
        } else if acknowledgements.required_version() > version {
            Err(ClientSessionError::RenewUnsupported { version })
        } else {
            Ok(())
        }
    }

    fn sent(
        &mut self,
        epoch: i32,
        partitions: Option<BTreeSet<TopicIdPartition>>,
        acknowledgements: &mut Acknowledgements,
    ) {
        let acknowledgements = mem::take(acknowledgements);
        self.in_flight = Some(InFlight { epoch, partitions, acknowledgements });
    }

    /// The node has no session, or none that can be told apart from another: the next fetch opens one.
    fn reset(&mut self) {
        self.next_epoch = INITIAL_EPOCH;
        self.partitions.clear();
    }
}

/// The epoch that follows a `ShareSessionEpoch`: 1 behind 2147483647, as 0 opens a session, and -1 behind a negative one.
pub const fn next_share_session_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MIN..0 => FINAL_EPOCH,
        i32::MAX => 1,
        _ => epoch + 1,
    }
}

/// Why a session makes no request. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientSessionError {
    /// A request waits for its answer.
    Busy,
    /// There are acknowledgements, or the request can only acknowledge, and the session is not open.
    NotOpen,
    /// A renewal needs version 2 of the request.
    RenewUnsupported {
        /// The version asked for.
        version: i16,
    },
    /// A [`ShareAcquireMode`] other than `BatchOptimized` needs version 2 of the request.
    AcquireModeUnsupported {
        /// The version asked for.
        version: i16,
    },
}

impl error::Error for ClientSessionError {}

impl fmt::Display for ClientSessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the share session has a request in flight"),
            Self::NotOpen => f.write_str("the share session is not open, so nothing can be acknowledged"),
            Self::RenewUnsupported { version } => {
                write!(f, "version {version} cannot carry renew acknowledgements (versions 2+)")
            }
            Self::AcquireModeUnsupported { version } => {
                write!(f, "version {version} cannot carry a share acquire mode (versions 2+)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ShareAcknowledgeResponse, ShareFetchResponse};

    /// It would take years to come there request by request.
    #[test]
    fn epoch_1_follows_2147483647_and_the_session_goes_on() {
        let partition = TopicIdPartition::new(Default::default(), 3);
        let wanted = BTreeSet::from([partition]);
        let mut session = ClientSession {
            next_epoch: i32::MAX - 1,
            partitions: wanted.clone(),
            ..ClientSession::new("g".into(), "m".into())
        };
        let mut nothing = Acknowledgements::default();
        let mut epochs = Vec::new();
        for _ in 0..2 {
            let fetch = session.fetch(&wanted, &mut nothing, &FetchSizes::NONE, 2).unwrap();
            assert!(
                fetch.topics.is_empty() && fetch.forgotten_topics_data.is_empty(),
                "it is not opened anew"
            );
            session.fetch_response(&ShareFetchResponse::default());
            let acknowledge = session.acknowledge(&mut nothing, 2).unwrap();
            session.acknowledge_response(&ShareAcknowledgeResponse::default());
            epochs.extend([fetch.share_session_epoch, acknowledge.share_session_epoch]);
        }
        assert_eq!(epochs, [i32::MAX - 1, i32::MAX, 1, 2]);
        assert_eq!((session.next_epoch(), session.partitions()), (3, &wanted));
    }
}
