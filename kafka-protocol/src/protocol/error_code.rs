//! The error codes that a broker answers with.

use std::fmt;

use crate::wire::fixed_newtype;

/// What the int16 fields named `ErrorCode` (or ending in it, such as `AcknowledgeErrorCode`) hold.
///
/// The associated constants are the codes of Kafka 4.4.0. The type is open: a code that a newer broker
/// adds is kept as it came, so it is written back unchanged, and only its name, its description and
/// whether it is worth a retry are unknown.
///
/// The default is [`NONE`](Self::NONE), and the order is that of the numbers.
///
/// ```
/// use kafka_protocol::protocol::ErrorCode;
///
/// let code = ErrorCode(6);
/// assert_eq!(code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
/// assert_eq!(code.to_string(), "NOT_LEADER_OR_FOLLOWER");
/// assert_eq!(format!("{code:?}"), "NOT_LEADER_OR_FOLLOWER(6)");
/// assert!(!code.is_ok() && code.is_retriable());
///
/// let newer = ErrorCode(999);
/// assert_eq!(newer.name(), None);
/// assert_eq!(newer.to_string(), "unknown error code 999");
/// assert_eq!(i16::from(newer), 999);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(
    /// The number on the wire.
    pub i16,
);

impl ErrorCode {
    /// Whether the code is [`NONE`](Self::NONE), that is, no error.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == Self::NONE.0
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.0
    }
}

/// The name and the number, such as `NOT_LEADER_OR_FOLLOWER(6)`, or `ErrorCode(999)` if it has no name.
impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name().unwrap_or("ErrorCode"), self.0)
    }
}

/// The name, such as `NOT_LEADER_OR_FOLLOWER`, or `unknown error code 999` if it has none.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "unknown error code {}", self.0),
        }
    }
}

/// Makes the constants and the look-ups of [`ErrorCode`] from rows of code, name, whether a retry can help,
/// and a sentence on what the code means.
macro_rules! error_codes {
    ($(($code:literal, $name:ident, $retriable:literal, $sentence:literal),)*) => {
        impl ErrorCode {
            $(
                #[doc = $sentence]
                #[doc = concat!("\n\nIts number is ", $code, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that has a name, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Kafka's name of the code, or `None` if Kafka 4.4.0 has no such code.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// What the code means, in one sentence, or `None` if Kafka 4.4.0 has no such code.
            #[must_use]
            pub const fn description(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($sentence),)*
                    _ => None,
                }
            }

            /// Whether Kafka's own clients hold that a retry can help, perhaps after they look up the leader
            /// or the coordinator again. `false` if Kafka 4.4.0 has no such code.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self.0 {
                    $($code => $retriable,)*
                    _ => false,
                }
            }
        }
    };
}

error_codes! {
    (-1, UNKNOWN_SERVER_ERROR, false,
        "The broker failed in a way that no other code describes."),
    (0, NONE, false,
        "Nothing went wrong."),
    (1, OFFSET_OUT_OF_RANGE, false,
        "The partition's log does not reach to the offset asked for, at its start or at its end."),
    (2, CORRUPT_MESSAGE, true,
        "A record batch arrived damaged, with a wrong checksum or an impossible layout."),
    (3, UNKNOWN_TOPIC_OR_PARTITION, true,
        "The broker knows no such topic or partition, perhaps because it has yet to hear of it."),
    (4, INVALID_FETCH_SIZE, false,
        "The number of bytes that the fetch asks for is not acceptable."),
    (5, LEADER_NOT_AVAILABLE, true,
        "The partition has no leader at the moment."),
    (6, NOT_LEADER_OR_FOLLOWER, true,
        "The broker asked does not lead the partition, or holds no copy of it, so metadata is out of date."),
    (7, REQUEST_TIMED_OUT, true,
        "The time allowed ran out, and whether the operation took effect is uncertain."),
    (8, BROKER_NOT_AVAILABLE, false,
        "The broker that the operation needs cannot be reached."),
    (9, REPLICA_NOT_AVAILABLE, true,
        "The broker asked cannot serve its copy of the partition at the moment."),
    (10, MESSAGE_TOO_LARGE, false,
        "A record batch exceeds the size limit of the topic or of the broker."),
    (11, STALE_CONTROLLER_EPOCH, false,
        "The sender acted for a controller that has since been replaced."),
    (12, OFFSET_METADATA_TOO_LARGE, false,
        "The note that goes with a committed offset is longer than the broker allows."),
    (13, NETWORK_EXCEPTION, true,
        "The connection broke while an answer was still due."),
    (14, COORDINATOR_LOAD_IN_PROGRESS, true,
        "The coordinator is still reading its state and cannot answer yet."),
    (15, COORDINATOR_NOT_AVAILABLE, true,
        "No broker can act as the coordinator at the moment."),
    (16, NOT_COORDINATOR, true,
        "Another broker coordinates this group or transactional id, so look the coordinator up again."),
    (17, INVALID_TOPIC_EXCEPTION, false,
        "The topic's name is malformed, or the operation is forbidden on that topic."),
    (18, RECORD_LIST_TOO_LARGE, false,
        "A record batch does not fit into one segment of the partition's log."),
    (19, NOT_ENOUGH_REPLICAS, true,
        "Nothing was written, as too few replicas are in sync to meet the topic's minimum."),
    (20, NOT_ENOUGH_REPLICAS_AFTER_APPEND, true,
        "The leader wrote the records, and only then found too few replicas in sync."),
    (21, INVALID_REQUIRED_ACKS, false,
        "The acks of a produce request must be -1, 0 or 1."),
    (22, ILLEGAL_GENERATION, false,
        "The member's generation is not the group's current one, so the member has to join again."),
    (23, INCONSISTENT_GROUP_PROTOCOL, false,
        "The member shares no protocol type or assignment strategy with the rest of the group."),
    (24, INVALID_GROUP_ID, false,
        "The group id is empty or otherwise unacceptable."),
    (25, UNKNOWN_MEMBER_ID, false,
        "The group has no member with this id, so the member has to join again."),
    (26, INVALID_SESSION_TIMEOUT, false,
        "The session timeout lies outside the bounds that the broker sets."),
    (27, REBALANCE_IN_PROGRESS, false,
        "The group is sharing out its partitions anew, so the member has to join again."),
    (28, INVALID_COMMIT_OFFSET_SIZE, false,
        "The offsets to commit make a record too large for the broker to store."),
    (29, TOPIC_AUTHORIZATION_FAILED, false,
        "The principal may not do this to the topic."),
    (30, GROUP_AUTHORIZATION_FAILED, false,
        "The principal may not do this to the group."),
    (31, CLUSTER_AUTHORIZATION_FAILED, false,
        "The principal may not do this to the cluster."),
    (32, INVALID_TIMESTAMP, false,
        "A record's timestamp is further from the broker's clock than the topic allows."),
    (33, UNSUPPORTED_SASL_MECHANISM, false,
        "The listener does not offer the SASL mechanism that the client chose."),
    (34, ILLEGAL_SASL_STATE, false,
        "The request came at the wrong point of the SASL exchange."),
    (35, UNSUPPORTED_VERSION, false,
        "The broker does not speak this version of the request, or cannot do what it asks for."),
    (36, TOPIC_ALREADY_EXISTS, false,
        "The name of the topic to create is taken."),
    (37, INVALID_PARTITIONS, false,
        "The topic cannot have this number of partitions."),
    (38, INVALID_REPLICATION_FACTOR, false,
        "The replication factor is below one or more than the available brokers can satisfy."),
    (39, INVALID_REPLICA_ASSIGNMENT, false,
        "The brokers listed for a partition's replicas do not make a usable assignment."),
    (40, INVALID_CONFIG, false,
        "A configuration key or value is not acceptable."),
    (41, NOT_CONTROLLER, true,
        "The node asked is not the active controller, so find out which one is."),
    (42, INVALID_REQUEST, false,
        "The fields of the request contradict each other or break the rules of the protocol."),
    (43, UNSUPPORTED_FOR_MESSAGE_FORMAT, false,
        "The partition stores its records in a format that is too old for this request."),
    (44, POLICY_VIOLATION, false,
        "A policy that the operator installed refuses the request."),
    (45, OUT_OF_ORDER_SEQUENCE_NUMBER, false,
        "A batch does not follow on from the producer's previous one, so records may be missing."),
    (46, DUPLICATE_SEQUENCE_NUMBER, false,
        "The partition already has this batch of the producer."),
    (47, INVALID_PRODUCER_EPOCH, false,
        "The producer's epoch is out of date."),
    (48, INVALID_TXN_STATE, false,
        "The transaction is not in a state that permits the operation."),
    (49, INVALID_PRODUCER_ID_MAPPING, false,
        "The transactional id does not belong to this producer id, or its entry has expired."),
    (50, INVALID_TRANSACTION_TIMEOUT, false,
        "The transaction timeout is not positive, or longer than the broker permits."),
    (51, CONCURRENT_TRANSACTIONS, true,
        "The transactional id's previous operation is not finished yet."),
    (52, TRANSACTION_COORDINATOR_FENCED, false,
        "A transaction marker came from a coordinator that has been superseded."),
    (53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, false,
        "The principal may not use the transactional id in this way."),
    (54, SECURITY_DISABLED, false,
        "The cluster runs no authorizer, so there are no access rules to read or change."),
    (55, OPERATION_NOT_ATTEMPTED, false,
        "The broker skipped this part of the request because another part was refused."),
    (56, KAFKA_STORAGE_ERROR, true,
        "The disk that holds the partition is failing on this broker."),
    (57, LOG_DIR_NOT_FOUND, false,
        "The broker is not configured with the log directory named."),
    (58, SASL_AUTHENTICATION_FAILED, false,
        "The broker refused the client's SASL credentials."),
    (59, UNKNOWN_PRODUCER_ID, false,
        "The partition remembers nothing of the producer, mostly because its records have been deleted."),
    (60, REASSIGNMENT_IN_PROGRESS, false,
        "The partition's replicas are already being moved."),
    (61, DELEGATION_TOKEN_AUTH_DISABLED, false,
        "The cluster is not set up to issue delegation tokens."),
    (62, DELEGATION_TOKEN_NOT_FOUND, false,
        "The cluster knows no such delegation token."),
    (63, DELEGATION_TOKEN_OWNER_MISMATCH, false,
        "The principal neither owns the delegation token nor may renew it."),
    (64, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, false,
        "The way in which this connection was authenticated does not permit it to handle delegation tokens."),
    (65, DELEGATION_TOKEN_AUTHORIZATION_FAILED, false,
        "The principal may not do this to the delegation token."),
    (66, DELEGATION_TOKEN_EXPIRED, false,
        "The delegation token's lifetime is over."),
    (67, INVALID_PRINCIPAL_TYPE, false,
        "The request names a kind of principal that cannot be used here."),
    (68, NON_EMPTY_GROUP, false,
        "The operation needs a group without members, and this one has some."),
    (69, GROUP_ID_NOT_FOUND, false,
        "There is no group of this id, or it is of another type."),
    (70, FETCH_SESSION_ID_NOT_FOUND, true,
        "The broker has dropped the fetch session, so start a new one."),
    (71, INVALID_FETCH_SESSION_EPOCH, true,
        "The request is out of turn in its fetch session, so start a new one."),
    (72, LISTENER_NOT_FOUND, true,
        "The partition's leader has no listener of the same name as the one that the client uses."),
    (73, TOPIC_DELETION_DISABLED, false,
        "The cluster is configured not to delete topics."),
    (74, FENCED_LEADER_EPOCH, true,
        "The client's leader epoch is older than the broker's, so refresh the metadata."),
    (75, UNKNOWN_LEADER_EPOCH, true,
        "The client's leader epoch is newer than any that the broker has heard of."),
    (76, UNSUPPORTED_COMPRESSION_TYPE, false,
        "This version of the request cannot carry batches compressed with that codec."),
    (77, STALE_BROKER_EPOCH, false,
        "The broker that sent the request has registered anew since."),
    (78, OFFSET_NOT_AVAILABLE, true,
        "The leader is too newly elected to say which offset is the last one committed."),
    (79, MEMBER_ID_REQUIRED, false,
        "The new member has to join once more with the member id given in this answer."),
    (80, PREFERRED_LEADER_NOT_AVAILABLE, true,
        "The first replica of the partition is not in a state to become its leader."),
    (81, GROUP_MAX_SIZE_REACHED, false,
        "The group admits no more members."),
    (82, FENCED_INSTANCE_ID, false,
        "Another member has since joined with the same group instance id and replaced this one."),
    (83, ELIGIBLE_LEADERS_NOT_AVAILABLE, true,
        "None of the replicas that may lead the partition is up."),
    (84, ELECTION_NOT_NEEDED, true,
        "The partition already has the leader that the election would choose."),
    (85, NO_REASSIGNMENT_IN_PROGRESS, false,
        "The partition has no move of replicas that could be cancelled."),
    (86, GROUP_SUBSCRIBED_TO_TOPIC, false,
        "The group still consumes the topic, so its committed offsets for it stay."),
    (87, INVALID_RECORD, false,
        "The broker's checks refuse a record, and so its whole batch."),
    (88, UNSTABLE_OFFSET_COMMIT, true,
        "A transaction that is still open has a pending commit of the offsets asked for."),
    (89, THROTTLING_QUOTA_EXCEEDED, true,
        "The client makes changes faster than its quota allows and should wait."),
    (90, PRODUCER_FENCED, false,
        "A newer producer has taken over the transactional id."),
    (91, RESOURCE_NOT_FOUND, false,
        "What the request names does not exist."),
    (92, DUPLICATE_RESOURCE, false,
        "The request names the same thing more than once."),
    (93, UNACCEPTABLE_CREDENTIAL, false,
        "The credential to store breaks the rules for its kind."),
    (94, INCONSISTENT_VOTER_SET, false,
        "Sender and receiver disagree on which controllers vote in the quorum."),
    (95, INVALID_UPDATE_VERSION, false,
        "The version that the update gives is out of date or out of range."),
    (96, FEATURE_UPDATE_FAILED, false,
        "The cluster's features were not changed, as something unforeseen went wrong."),
    (97, PRINCIPAL_DESERIALIZATION_FAILURE, false,
        "The controller could not decode for whom the broker forwarded the request."),
    (98, SNAPSHOT_NOT_FOUND, false,
        "The node does not have the metadata snapshot asked for."),
    (99, POSITION_OUT_OF_RANGE, false,
        "The byte position asked for is not inside the snapshot."),
    (100, UNKNOWN_TOPIC_ID, true,
        "The broker knows no topic of this id, perhaps because it has yet to hear of it."),
    (101, DUPLICATE_BROKER_REGISTRATION, false,
        "A live broker already uses the id that this one registers with."),
    (102, BROKER_ID_NOT_REGISTERED, false,
        "No broker is registered under this id."),
    (103, INCONSISTENT_TOPIC_ID, true,
        "The topic's id on the broker is not the one in the request."),
    (104, INCONSISTENT_CLUSTER_ID, false,
        "The request is meant for a cluster with another id."),
    (105, TRANSACTIONAL_ID_NOT_FOUND, false,
        "The coordinator knows no such transactional id."),
    (106, FETCH_SESSION_TOPIC_ID_ERROR, true,
        "The fetch session mixes topics given by name and by id, so start a new one."),
    (107, INELIGIBLE_REPLICA, false,
        "A replica proposed as in sync may not count as such at the moment."),
    (108, NEW_LEADER_ELECTED, false,
        "The change of the in-sync replicas ended in the choice of another leader."),
    (109, OFFSET_MOVED_TO_TIERED_STORAGE, false,
        "The leader's own disk no longer has the offset, only the remote storage does."),
    (110, FENCED_MEMBER_EPOCH, false,
        "The member's epoch is not valid, so it has to give up its partitions and join again."),
    (111, UNRELEASED_INSTANCE_ID, false,
        "The group instance id belongs to a member that has not left yet."),
    (112, UNSUPPORTED_ASSIGNOR, false,
        "The coordinator has no such assignor, or the group cannot use it."),
    (113, STALE_MEMBER_EPOCH, false,
        "The member's epoch is out of date, so retry with the one that the next heartbeat brings."),
    (114, MISMATCHED_ENDPOINT_TYPE, false,
        "The request is for a broker and went to a controller, or the other way around."),
    (115, UNSUPPORTED_ENDPOINT_TYPE, false,
        "The request asks for a kind of endpoint that the node does not know."),
    (116, UNKNOWN_CONTROLLER_ID, false,
        "The cluster knows no controller of this id."),
    (117, UNKNOWN_SUBSCRIPTION_ID, false,
        "The client's telemetry subscription is not the current one, so fetch it again."),
    (118, TELEMETRY_TOO_LARGE, false,
        "The metrics pushed exceed the size that the broker takes."),
    (119, INVALID_REGISTRATION, false,
        "The controller refuses what the broker states about itself in its registration."),
    (120, TRANSACTION_ABORTABLE, false,
        "The transaction cannot be committed, but its producer can go on after an abort."),
    (121, INVALID_RECORD_STATE, false,
        "A record cannot be acknowledged thus, mostly because the member does not hold it any more."),
    (122, SHARE_SESSION_NOT_FOUND, true,
        "The broker has no share session for this member and connection, so start a new one."),
    (123, INVALID_SHARE_SESSION_EPOCH, true,
        "The request is out of turn in its share session, so start a new one."),
    (124, FENCED_STATE_EPOCH, false,
        "The share-group state has moved on to a newer state epoch."),
    (125, INVALID_VOTER_KEY, false,
        "The receiver is not the voter that the request addresses by id and directory."),
    (126, DUPLICATE_VOTER, false,
        "The quorum already has the voter to add."),
    (127, VOTER_NOT_FOUND, false,
        "The quorum does not have the voter to change or remove."),
    (128, INVALID_REGULAR_EXPRESSION, false,
        "The pattern of topics to subscribe to cannot be compiled."),
    (129, REBOOTSTRAP_REQUIRED, false,
        "The client has to forget the brokers it knows and start over from its bootstrap servers."),
    (130, STREAMS_INVALID_TOPOLOGY, false,
        "The Streams topology that the member sent is malformed or cannot be run."),
    (131, STREAMS_INVALID_TOPOLOGY_EPOCH, false,
        "The Streams topology epoch that the member sent does not fit that of the group."),
    (132, STREAMS_TOPOLOGY_FENCED, false,
        "The group has moved on to a newer Streams topology than the member's."),
    (133, SHARE_SESSION_LIMIT_REACHED, true,
        "The broker cannot hold any more share sessions at the moment."),
    (134, GROUP_DELETION_FAILED, false,
        "The group still exists, because a step of its deletion went wrong."),
    (135, STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, false,
        "The broker's plugin did not store the description of the Streams topology."),
    (136, CONTROLLER_ID_NOT_REGISTERED, false,
        "No controller is registered under this id."),
}

fixed_newtype!(ErrorCode(i16));
