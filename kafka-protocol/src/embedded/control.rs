//! Control records: what a broker writes into a log besides the records of clients.

use super::{EmbeddedError, decode_versioned_tolerant, encode_versioned};
use crate::messages::{
    ControlRecordTypeSchema, EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord,
    SnapshotHeaderRecord, VotersRecord,
};
use crate::protocol::{EncodeError, Message};
use crate::wire::Bytes;

/// A record of a control batch.
///
/// The key is an int16 version and an int16 type. A transaction marker is an int16 version and an `EndTxnMarker`.
/// Both are read as Kafka reads them: a version above the known ones as the highest of them, and bytes behind are
/// ignored.
///
/// The other values are bare bodies, whose version is their own first field: `version` of the message. Kafka writes
/// and reads them in version 0 whatever that field says, and writes 0 into it; so with everything that Kafka has
/// written it makes no difference that here the field is heeded, in both directions. Only `LeaderChangeMessage` has a
/// version 1 at all, which Kafka 4.4 does not write.
///
/// ```
/// use kafka_protocol::{embedded::ControlRecord, messages::EndTxnMarker};
///
/// let commit = ControlRecord::Commit(EndTxnMarker { coordinator_epoch: 17, ..Default::default() });
/// let (key, value) = (commit.encode_key()?, commit.encode_value()?);
/// assert_eq!(key, &b"\0\0\0\x01"[..]);
/// assert_eq!(ControlRecord::decode(key, value)?, commit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRecord {
    /// A transaction was aborted.
    Abort(EndTxnMarker),
    /// A transaction was committed.
    Commit(EndTxnMarker),
    /// A quorum has a new leader.
    LeaderChange(LeaderChangeMessage),
    /// A snapshot starts.
    SnapshotHeader(SnapshotHeaderRecord),
    /// A snapshot ends.
    SnapshotFooter(SnapshotFooterRecord),
    /// The version of KRaft that a quorum uses.
    KRaftVersion(KRaftVersionRecord),
    /// The voters of a quorum.
    KRaftVoters(VotersRecord),
    /// A type that is not known; a reader passes over it.
    Unknown {
        /// The type.
        record_type: i16,
        /// The value as it came.
        value: Option<Bytes>,
    },
}

// Inlined functions are compiled only where they are used.
impl ControlRecord {
    /// Decodes key and value of a record.
    ///
    /// # Errors
    ///
    /// They are not what their type says, or a known type has no value.
    #[inline]
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, EmbeddedError> {
        let (_, key) = decode_versioned_tolerant::<ControlRecordTypeSchema>(key)?;
        Ok(match key.r#type {
            0 => Self::Abort(marker(value)?),
            1 => Self::Commit(marker(value)?),
            2 => Self::LeaderChange(bare(value)?),
            3 => Self::SnapshotHeader(bare(value)?),
            4 => Self::SnapshotFooter(bare(value)?),
            5 => Self::KRaftVersion(bare(value)?),
            6 => Self::KRaftVoters(bare(value)?),
            record_type => Self::Unknown { record_type, value },
        })
    }

    /// The type, as in the key.
    #[inline]
    pub fn record_type(&self) -> i16 {
        match self {
            Self::Abort(_) => 0,
            Self::Commit(_) => 1,
            Self::LeaderChange(_) => 2,
            Self::SnapshotHeader(_) => 3,
            Self::SnapshotFooter(_) => 4,
            Self::KRaftVersion(_) => 5,
            Self::KRaftVoters(_) => 6,
            Self::Unknown { record_type, .. } => *record_type,
        }
    }

    /// Encodes the key.
    ///
    /// # Errors
    ///
    /// Those of [`Message::encode`].
    #[inline]
    pub fn encode_key(&self) -> Result<Bytes, EncodeError> {
        let key = ControlRecordTypeSchema { r#type: self.record_type(), ..Default::default() };
        encode_versioned(&key, ControlRecordTypeSchema::VERSIONS.max())
    }

    /// Encodes the value: a marker in its highest version, other messages in that of their field `version`.
    ///
    /// # Errors
    ///
    /// Those of [`Message::encode`].
    #[inline]
    pub fn encode_value(&self) -> Result<Option<Bytes>, EncodeError> {
        match self {
            Self::Abort(marker) | Self::Commit(marker) => {
                encode_versioned(marker, EndTxnMarker::VERSIONS.max())
            }
            Self::LeaderChange(message) => message.encode(message.version),
            Self::SnapshotHeader(message) => message.encode(message.version),
            Self::SnapshotFooter(message) => message.encode(message.version),
            Self::KRaftVersion(message) => message.encode(message.version),
            Self::KRaftVoters(message) => message.encode(message.version),
            Self::Unknown { value, .. } => return Ok(value.clone()),
        }
        .map(Some)
    }
}

fn marker(value: Option<Bytes>) -> Result<EndTxnMarker, EmbeddedError> {
    let (_, marker) = decode_versioned_tolerant(present::<EndTxnMarker>(value)?)?;
    Ok(marker)
}

/// A message in the version that its first field tells.
fn bare<M: Message>(value: Option<Bytes>) -> Result<M, EmbeddedError> {
    let value = present::<M>(value)?;
    // If not even the version is there, decoding in any version says so.
    let version = value.first_chunk().map_or(M::VERSIONS.min(), |version| i16::from_be_bytes(*version));
    Ok(M::decode(value, version)?)
}

fn present<M: Message>(value: Option<Bytes>) -> Result<Bytes, EmbeddedError> {
    value.ok_or(EmbeddedError::NoValue { message: M::SCHEMA.name })
}
