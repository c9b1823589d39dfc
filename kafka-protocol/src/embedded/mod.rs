//! Messages inside others: in `bytes` fields, in keys and values of records, in files.
//!
//! What stands in front of such a message tells its version, and its type where there are several.
//!
//! | message | where it is | bytes | read and write |
//! |---|---|---|---|
//! | `ConsumerProtocolSubscription`, `ConsumerProtocolAssignment` | `JoinGroup` and `SyncGroup` | int16 version, body | [`decode_versioned_tolerant`], [`encode_versioned`] |
//! | `DefaultPrincipalData` | `EnvelopeRequest` | int16 version, body | [`decode_versioned`], [`encode_versioned`] |
//! | `ProducerSnapshot` | files `*.snapshot` of a partition | int16 version, body | [`decode_versioned`], [`encode_versioned`] |
//! | `AbortedTxn` | files `*.txnindex`, an entry of 34 bytes each | int16 version, body | [`decode_versioned`], [`encode_versioned`] |
//! | `EndTxnMarker`, `LeaderChangeMessage` and others | control batches | see there | `ControlRecord` |
//! | keys and values of coordinators | `__consumer_offsets`, `__share_group_state`, `__transaction_state` | see there | `GroupCoordinatorRecord`, `ShareCoordinatorRecord`, `TransactionCoordinatorRecord` |
//! | metadata records | `__cluster_metadata` and its snapshots | see there | `MetadataRecord` |
//! | remote log metadata | `__remote_log_metadata` | see there | `RemoteLogMetadataRecord` |
//!
//! The records of each topic are an enum behind the feature of their family: `record` (control records), `coordinator`,
//! `metadata` and `storage`.

#[cfg(feature = "record")]
mod control;
#[cfg(feature = "coordinator")]
mod coordinator;
#[cfg(any(feature = "metadata", feature = "storage"))]
mod framed;

use std::{error, fmt};

#[cfg(feature = "record")]
pub use control::ControlRecord;
#[cfg(feature = "coordinator")]
pub use coordinator::{
    CoordinatorRecord, GroupCoordinatorRecord, ShareCoordinatorRecord, TransactionCoordinatorRecord,
};
#[cfg(feature = "metadata")]
pub use framed::MetadataRecord;
#[cfg(feature = "storage")]
pub use framed::RemoteLogMetadataRecord;

use crate::protocol::{DecodeError, DecodeReason, EncodeError, Message};
use crate::wire::{Bytes, Sink};

/// An int16 in front of a message takes this many bytes.
const PREFIX: usize = 2;

/// Encodes a message with its version in front, as an int16.
///
/// # Errors
///
/// Those of [`Message::encode`].
pub fn encode_versioned<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    encode_prefixed(version, message, version)
}

/// Decodes a version and a message in that version, and nothing behind it.
///
/// # Errors
///
/// There is no whole version, or what follows is not exactly one message of this version. Offsets in a
/// [`DecodeError`] are those within the message.
pub fn decode_versioned<M: Message>(bytes: impl Into<Bytes>) -> Result<(i16, M), EmbeddedError> {
    let mut bytes = bytes.into();
    let version = take_prefix(&mut bytes, M::SCHEMA.name, "version")?;
    Ok((version, M::decode(bytes, version)?))
}

/// Decodes a version and a message, as far as it is known, for data whose later versions only add to the end.
///
/// A version above all known ones is read as the highest of them, and bytes behind the message are ignored in every
/// version. The version that comes back is that of the bytes. So Kafka reads `ConsumerProtocolSubscription` and
/// `ConsumerProtocolAssignment`, since the members of a group need not be of one release.
///
/// ```
/// use kafka_protocol::embedded;
/// # #[cfg(feature = "group")]
/// use kafka_protocol::messages::ConsumerProtocolSubscription;
///
/// # #[cfg(feature = "group")]
/// # {
/// let subscription = ConsumerProtocolSubscription { topics: vec!["orders".into()], ..Default::default() };
/// let metadata = embedded::encode_versioned(&subscription, 3)?;
/// let (version, again) = embedded::decode_versioned_tolerant::<ConsumerProtocolSubscription>(metadata)?;
/// assert_eq!((version, again), (3, subscription));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// There is no whole version, it is below all known ones, or what follows does not start with a message.
pub fn decode_versioned_tolerant<M: Message>(bytes: impl Into<Bytes>) -> Result<(i16, M), EmbeddedError> {
    let mut bytes = bytes.into();
    let version = take_prefix(&mut bytes, M::SCHEMA.name, "version")?;
    Ok((version, M::decode_prefix(&mut bytes, version.min(M::VERSIONS.max()))?))
}

/// A message behind an int16.
fn encode_prefixed<M: Message>(prefix: i16, message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut bytes = Vec::with_capacity(128);
    bytes.put(&prefix.to_be_bytes());
    message.encode_into(&mut bytes, version)?;
    Ok(bytes.into())
}

/// Takes an int16 off the front of `bytes`.
fn take_prefix(bytes: &mut Bytes, of: &'static str, part: &'static str) -> Result<i16, EmbeddedError> {
    let Some(&prefix) = bytes.first_chunk::<PREFIX>() else {
        let reason = DecodeReason::UnexpectedEnd { needed: PREFIX, left: bytes.len() };
        return Err(EmbeddedError::Prefix { of, part, offset: 0, reason });
    };
    let _ = bytes.split_to(PREFIX);
    Ok(i16::from_be_bytes(prefix))
}

/// The record type of a message, from its schema.
#[cfg(any(feature = "coordinator", feature = "metadata", feature = "storage"))]
struct RecordType<M>(std::marker::PhantomData<M>);

#[cfg(any(feature = "coordinator", feature = "metadata", feature = "storage"))]
impl<M: Message> RecordType<M> {
    /// Evaluated by the compiler, which refuses a message that is no record.
    const ID: i16 = M::SCHEMA.api_key.expect("a record type");
}

/// Why bytes are not an embedded message, or a value cannot be one.
///
/// ```
/// # #[cfg(feature = "security")]
/// # {
/// use kafka_protocol::{embedded, messages::DefaultPrincipalData};
///
/// let error = embedded::decode_versioned::<DefaultPrincipalData>(&b"\x00"[..]).unwrap_err();
/// assert_eq!(error.to_string(), "DefaultPrincipalData: version at byte 0: need 2 bytes, 1 left");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// What stands in front of the message cannot be read.
    Prefix {
        /// The message, or the enum of records if the message is not known yet.
        of: &'static str,
        /// What cannot be read, such as the version.
        part: &'static str,
        /// Its offset, from the start of the bytes.
        offset: usize,
        /// What is wrong there.
        reason: DecodeReason,
    },
    /// A record is framed in a way that is not known.
    FrameVersion {
        /// The enum of records.
        of: &'static str,
        /// The version of the frame; only 1 is known.
        version: u32,
    },
    /// A record type or version in a frame is not in 0 to 32767.
    OutOfRange {
        /// The enum of records.
        of: &'static str,
        /// Record type or version.
        part: &'static str,
        /// The number.
        value: i64,
    },
    /// A record has no value, and its type needs one.
    NoValue {
        /// The message that the value should be.
        message: &'static str,
    },
    /// The message itself cannot be decoded. Offsets are those within it.
    Decode(DecodeError),
    /// The message itself cannot be encoded.
    Encode(EncodeError),
}

impl error::Error for EmbeddedError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for EmbeddedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix { of, part, offset, reason } => write!(f, "{of}: {part} at byte {offset}: {reason}"),
            Self::FrameVersion { of, version } => write!(f, "{of}: frame version {version}, expected 1"),
            Self::OutOfRange { of, part, value } => write!(f, "{of}: {part} {value} is not in 0-32767"),
            Self::NoValue { message } => write!(f, "{message}: the record has no value"),
            Self::Decode(error) => error.fmt(f),
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl From<DecodeError> for EmbeddedError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<EncodeError> for EmbeddedError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}
