//! Records in a frame that tells their type and version, each as an unsigned varint.

use super::{EmbeddedError, RecordType};
use crate::protocol::{DecodeReason, Message, MessageSchema};
use crate::wire::{Bytes, Reader, Writer};

/// The only version of the frame. 0 was that of the preview of KRaft in Kafka 2.8.
const FRAME_VERSION: u32 = 1;

/// The enum over the records of a topic, by record type, which is that of the schemas.
macro_rules! framed_records {
    ($(#[$doc:meta])* $Records:ident { $($Record:ident($Message:ident),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Records {
            $(
                #[doc = concat!("[`", stringify!($Message), "`](crate::messages::", stringify!($Message), ").")]
                $Record(Box<crate::messages::$Message>),
            )*
            /// A record type that is not known.
            Unknown {
                /// The record type, not negative.
                record_type: i16,
                /// What follows the frame.
                body: Bytes,
            },
        }

        impl $Records {
            /// Decodes a record, which comes back behind its version.
            ///
            /// # Errors
            ///
            /// The frame is not one of version 1, or what follows is not exactly one message of the record type in the
            /// version that the frame tells.
            pub fn decode(bytes: Bytes) -> Result<(i16, Self), EmbeddedError> {
                let (record_type, version, body) = take_frame(stringify!($Records), bytes)?;
                let record = match record_type {
                    $(RecordType::<crate::messages::$Message>::ID => {
                        Self::$Record(Box::new(Message::decode(body, version)?))
                    })*
                    _ => Self::Unknown { record_type, body },
                };
                Ok((version, record))
            }

            /// Encodes the record in `version`, frame included.
            ///
            /// # Errors
            ///
            /// Those of [`Message::encode`]; a version or unknown record type below 0.
            pub fn encode(&self, version: i16) -> Result<Bytes, EmbeddedError> {
                let mut bytes = start_frame(stringify!($Records), self.record_type(), version)?;
                match self {
                    $(Self::$Record(record) => record.encode_into(&mut bytes, version)?,)*
                    Self::Unknown { body, .. } => bytes.extend_from_slice(body),
                }
                Ok(bytes.into())
            }

            /// The record type, as in the frame.
            pub fn record_type(&self) -> i16 {
                match self {
                    $(Self::$Record(_) => RecordType::<crate::messages::$Message>::ID,)*
                    Self::Unknown { record_type, .. } => *record_type,
                }
            }

            /// The schema of a record type; `None` if it is not known.
            pub fn schema(record_type: i16) -> Option<&'static MessageSchema> {
                match record_type {
                    $(RecordType::<crate::messages::$Message>::ID => Some(crate::messages::$Message::SCHEMA),)*
                    _ => None,
                }
            }
        }

        $(
            impl From<crate::messages::$Message> for $Records {
                fn from(record: crate::messages::$Message) -> Self {
                    Self::$Record(Box::new(record))
                }
            }
        )*
    };
}

#[cfg(feature = "metadata")]
framed_records! {
    /// A record of the topic `__cluster_metadata` or of its snapshots, control records aside.
    ///
    /// The value of such a record is unsigned varints of the frame version, which is 1, of the record type and of the
    /// version, then the message. The key is null. Boxed, so that it is as small as the smallest.
    ///
    /// ```
    /// use kafka_protocol::{embedded::MetadataRecord, messages::TopicRecord};
    ///
    /// let topic = TopicRecord { name: "orders".into(), ..Default::default() };
    /// let value = MetadataRecord::from(topic).encode(0)?;
    /// assert_eq!(value[..3], [1, 2, 0]);
    ///
    /// match MetadataRecord::decode(value)? {
    ///     (_version, MetadataRecord::Topic(topic)) => assert_eq!(topic.name, "orders"),
    ///     (_version, other) => println!("record type {}", other.record_type()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    MetadataRecord {
        RegisterBroker(RegisterBrokerRecord),
        UnregisterBroker(UnregisterBrokerRecord),
        Topic(TopicRecord),
        Partition(PartitionRecord),
        Config(ConfigRecord),
        PartitionChange(PartitionChangeRecord),
        FenceBroker(FenceBrokerRecord),
        UnfenceBroker(UnfenceBrokerRecord),
        RemoveTopic(RemoveTopicRecord),
        DelegationToken(DelegationTokenRecord),
        UserScramCredential(UserScramCredentialRecord),
        FeatureLevel(FeatureLevelRecord),
        ClientQuota(ClientQuotaRecord),
        ProducerIds(ProducerIdsRecord),
        BrokerRegistrationChange(BrokerRegistrationChangeRecord),
        AccessControlEntry(AccessControlEntryRecord),
        RemoveAccessControlEntry(RemoveAccessControlEntryRecord),
        NoOp(NoOpRecord),
        ZkMigrationState(ZkMigrationStateRecord),
        RemoveUserScramCredential(RemoveUserScramCredentialRecord),
        BeginTransaction(BeginTransactionRecord),
        EndTransaction(EndTransactionRecord),
        AbortTransaction(AbortTransactionRecord),
        RemoveDelegationToken(RemoveDelegationTokenRecord),
        RegisterController(RegisterControllerRecord),
        ClearElr(ClearElrRecord),
        UnregisterController(UnregisterControllerRecord),
    }
}

#[cfg(feature = "storage")]
framed_records! {
    /// A record of the topic `__remote_log_metadata`.
    ///
    /// Framed as metadata records are, with record types of its own: the value of such a record is unsigned varints of
    /// the frame version, which is 1, of the record type and of the version, then the message.
    RemoteLogMetadataRecord {
        RemoteLogSegmentMetadata(RemoteLogSegmentMetadataRecord),
        RemoteLogSegmentMetadataUpdate(RemoteLogSegmentMetadataUpdateRecord),
        RemotePartitionDeleteMetadata(RemotePartitionDeleteMetadataRecord),
        RemoteLogSegmentMetadataSnapshot(RemoteLogSegmentMetadataSnapshotRecord),
    }
}

/// Record type, version and body.
fn take_frame(of: &'static str, mut bytes: Bytes) -> Result<(i16, i16, Bytes), EmbeddedError> {
    let mut r = Reader::new(&bytes, 0, true);
    let mut number = |part| {
        let rest = r.rest();
        let number = r.varint();
        number.map_err(|_| {
            let offset = bytes.len() - rest.len();
            EmbeddedError::Prefix { of, part, offset, reason: no_varint(rest) }
        })
    };
    let int16 = |part, value: u32| {
        i16::try_from(value).map_err(|_| EmbeddedError::OutOfRange { of, part, value: value.into() })
    };
    let version = number("frame version")?;
    if version != FRAME_VERSION {
        return Err(EmbeddedError::FrameVersion { of, version });
    }
    let record_type = int16("record type", number("record type")?)?;
    let version = int16("version", number("version")?)?;
    let body = bytes.split_off(bytes.len() - r.rest().len());
    Ok((record_type, version, body))
}

/// Everything in front of the body.
fn start_frame(of: &'static str, record_type: i16, version: i16) -> Result<Vec<u8>, EmbeddedError> {
    let unsigned = |part, value: i16| {
        u32::try_from(value).map_err(|_| EmbeddedError::OutOfRange { of, part, value: value.into() })
    };
    let (record_type, version) = (unsigned("record type", record_type)?, unsigned("version", version)?);
    let mut bytes = Vec::with_capacity(128);
    let mut w = Writer::new(&mut bytes, 0, true);
    w.varint(FRAME_VERSION);
    w.varint(record_type);
    w.varint(version);
    Ok(bytes)
}

/// Why `bytes` do not start with a varint of 32 bits in its shortest form.
fn no_varint(bytes: &[u8]) -> DecodeReason {
    let bytes = &bytes[..bytes.len().min(5)];
    match bytes.iter().position(|&byte| byte < 0x80) {
        None if bytes.len() < 5 => DecodeReason::UnexpectedEnd { needed: bytes.len() + 1, left: bytes.len() },
        None => DecodeReason::VarintTooLong,
        Some(4) if bytes[4] > 0x0f => DecodeReason::VarintOutOfRange,
        Some(_) => DecodeReason::VarintPadded,
    }
}
