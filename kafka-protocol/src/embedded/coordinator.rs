//! The records of coordinators.
//!
//! A record type is an int16 in front of the key. The same numbers mean different records in each of the three topics.

use super::{EmbeddedError, RecordType, decode_versioned, encode_prefixed, encode_versioned, take_prefix};
use crate::protocol::{EncodeError, Message, MessageSchema};
use crate::wire::Bytes;

/// Keys do not evolve: another layout would be another key, so their record type is all that they need.
const KEY_VERSION: i16 = 0;

/// Key and value of a coordinator's record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoordinatorRecord<K, V> {
    /// What the record is about.
    pub key: K,
    /// Its state, in the version that is given before it; `None` is a tombstone, the state is gone.
    pub value: Option<(i16, V)>,
}

impl<K: Message, V: Message> CoordinatorRecord<K, V> {
    /// `key` is what follows the record type.
    fn decode(key: Bytes, value: Option<Bytes>) -> Result<Box<Self>, EmbeddedError> {
        let key = K::decode(key, KEY_VERSION)?;
        let value = value.map(decode_versioned).transpose()?;
        Ok(Box::new(Self { key, value }))
    }

    fn encode_key(&self) -> Result<Bytes, EncodeError> {
        encode_prefixed(RecordType::<K>::ID, &self.key, KEY_VERSION)
    }

    fn encode_value(&self) -> Result<Option<Bytes>, EncodeError> {
        self.value.as_ref().map(|(version, value)| encode_versioned(value, *version)).transpose()
    }
}

/// The enum over the records of a topic, by record type, which is that of the schemas.
macro_rules! coordinator_records {
    ($(#[$doc:meta])* $Records:ident { $($Record:ident($Key:ident, $Value:ident),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Records {
            $(
                #[doc = concat!(
                    "[`", stringify!($Key), "`](crate::messages::", stringify!($Key), ") and [`",
                    stringify!($Value), "`](crate::messages::", stringify!($Value), ")."
                )]
                $Record(Box<CoordinatorRecord<crate::messages::$Key, crate::messages::$Value>>),
            )*
            /// A record type that is not known; a reader passes over it.
            Unknown {
                /// The record type.
                record_type: i16,
                /// The key behind the record type.
                key: Bytes,
                /// The value as it came, version included; `None` is a tombstone.
                value: Option<Bytes>,
            },
        }

        impl $Records {
            /// Decodes key and value of a record; a value of `None` is a tombstone.
            ///
            /// # Errors
            ///
            /// Key or value are not what the record type says, or the version of the value is not known.
            pub fn decode(mut key: Bytes, value: Option<Bytes>) -> Result<Self, EmbeddedError> {
                let record_type = take_prefix(&mut key, stringify!($Records), "record type")?;
                Ok(match record_type {
                    $(RecordType::<crate::messages::$Key>::ID => {
                        Self::$Record(CoordinatorRecord::decode(key, value)?)
                    })*
                    _ => Self::Unknown { record_type, key, value },
                })
            }

            /// The record type, as in the key.
            pub fn record_type(&self) -> i16 {
                match self {
                    $(Self::$Record(_) => RecordType::<crate::messages::$Key>::ID,)*
                    Self::Unknown { record_type, .. } => *record_type,
                }
            }

            /// Encodes the key, record type included.
            ///
            /// # Errors
            ///
            /// Those of [`Message::encode`].
            pub fn encode_key(&self) -> Result<Bytes, EncodeError> {
                match self {
                    $(Self::$Record(record) => record.encode_key(),)*
                    Self::Unknown { record_type, key, .. } => {
                        Ok([&record_type.to_be_bytes()[..], key].concat().into())
                    }
                }
            }

            /// Encodes the value, version included; `None` is a tombstone.
            ///
            /// # Errors
            ///
            /// Those of [`Message::encode`].
            pub fn encode_value(&self) -> Result<Option<Bytes>, EncodeError> {
                match self {
                    $(Self::$Record(record) => record.encode_value(),)*
                    Self::Unknown { value, .. } => Ok(value.clone()),
                }
            }

            /// The schemas of key and value of a record type; `None` if it is not known.
            pub fn schemas(record_type: i16) -> Option<(&'static MessageSchema, &'static MessageSchema)> {
                match record_type {
                    $(RecordType::<crate::messages::$Key>::ID => {
                        Some((crate::messages::$Key::SCHEMA, crate::messages::$Value::SCHEMA))
                    })*
                    _ => None,
                }
            }
        }

        $(
            impl From<CoordinatorRecord<crate::messages::$Key, crate::messages::$Value>> for $Records {
                fn from(record: CoordinatorRecord<crate::messages::$Key, crate::messages::$Value>) -> Self {
                    Self::$Record(Box::new(record))
                }
            }

            const _: () = assert!(
                RecordType::<crate::messages::$Key>::ID == RecordType::<crate::messages::$Value>::ID,
                "key and value of different record types",
            );
        )*
    };
}

coordinator_records! {
    /// A record of the group coordinator, in the topic `__consumer_offsets`.
    ///
    /// The key is an int16 record type and a message in version 0. The value is an int16 version and a message in that
    /// version, or null: a tombstone. Boxed, so that it is as small as the smallest.
    ///
    /// ```
    /// use kafka_protocol::embedded::{CoordinatorRecord, GroupCoordinatorRecord};
    /// use kafka_protocol::messages::{OffsetCommitKey, OffsetCommitValue};
    ///
    /// let key = OffsetCommitKey { group: "g".into(), topic: "orders".into(), partition: 3, ..Default::default() };
    /// let value = OffsetCommitValue { offset: 42, ..Default::default() };
    /// let record = GroupCoordinatorRecord::from(CoordinatorRecord { key, value: Some((3, value)) });
    ///
    /// match GroupCoordinatorRecord::decode(record.encode_key()?, record.encode_value()?)? {
    ///     GroupCoordinatorRecord::OffsetCommit(record) => match record.value {
    ///         Some((_version, value)) => assert_eq!((record.key.partition, value.offset), (3, 42)),
    ///         None => println!("the offset is gone"),
    ///     },
    ///     other => println!("record type {}", other.record_type()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    GroupCoordinatorRecord {
        LegacyOffsetCommit(LegacyOffsetCommitKey, LegacyOffsetCommitValue),
        OffsetCommit(OffsetCommitKey, OffsetCommitValue),
        GroupMetadata(GroupMetadataKey, GroupMetadataValue),
        ConsumerGroupMetadata(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        ConsumerGroupPartitionMetadata(
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupPartitionMetadataValue
        ),
        ConsumerGroupMemberMetadata(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        ConsumerGroupTargetAssignmentMetadata(
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue
        ),
        ConsumerGroupTargetAssignmentMember(
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue
        ),
        ConsumerGroupCurrentMemberAssignment(
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue
        ),
        ShareGroupMemberMetadata(ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        ShareGroupMetadata(ShareGroupMetadataKey, ShareGroupMetadataValue),
        ShareGroupTargetAssignmentMetadata(
            ShareGroupTargetAssignmentMetadataKey,
            ShareGroupTargetAssignmentMetadataValue
        ),
        ShareGroupTargetAssignmentMember(
            ShareGroupTargetAssignmentMemberKey,
            ShareGroupTargetAssignmentMemberValue
        ),
        ShareGroupCurrentMemberAssignment(
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupCurrentMemberAssignmentValue
        ),
        ShareGroupStatePartitionMetadata(
            ShareGroupStatePartitionMetadataKey,
            ShareGroupStatePartitionMetadataValue
        ),
        ConsumerGroupRegularExpression(
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue
        ),
        StreamsGroupMetadata(StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        StreamsGroupMemberMetadata(StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        StreamsGroupTargetAssignmentMetadata(
            StreamsGroupTargetAssignmentMetadataKey,
            StreamsGroupTargetAssignmentMetadataValue
        ),
        StreamsGroupTargetAssignmentMember(
            StreamsGroupTargetAssignmentMemberKey,
            StreamsGroupTargetAssignmentMemberValue
        ),
        StreamsGroupCurrentMemberAssignment(
            StreamsGroupCurrentMemberAssignmentKey,
            StreamsGroupCurrentMemberAssignmentValue
        ),
        StreamsGroupTopology(StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    }
}

coordinator_records! {
    /// A record of the share coordinator, in the topic `__share_group_state`.
    ///
    /// Framed as those of the [group coordinator](GroupCoordinatorRecord), with record types of its own.
    ShareCoordinatorRecord {
        ShareSnapshot(ShareSnapshotKey, ShareSnapshotValue),
        ShareUpdate(ShareUpdateKey, ShareUpdateValue),
    }
}

coordinator_records! {
    /// A record of the transaction coordinator, in the topic `__transaction_state`.
    ///
    /// Framed as those of the [group coordinator](GroupCoordinatorRecord), with record types of its own.
    TransactionCoordinatorRecord {
        TransactionLog(TransactionLogKey, TransactionLogValue),
    }
}
