//! What a member sends and takes, and the versions of it.

use crate::connection::{Connection, ConnectionError, Received};
use crate::messages::metadata_request::MetadataRequestTopic;
use crate::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use crate::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};
use crate::protocol::{ApiKey, Request as _};
use crate::wire::{Sink, Str};

/// The first version of `OffsetCommit` and `OffsetFetch` that names topics by id.
const TOPIC_IDS: i16 = 10;

macro_rules! apis {
    ($($Api:ident($Request:ident, $Response:ident),)*) => {
        /// A request of a [`Member`](super::Member).
        ///
        /// It is complete, but not yet in the form of a version, since versions are those of a connection. Fields that
        /// only some versions have are all set. [`send`](Self::send) or [`for_version`](Self::for_version) leave those
        /// that the version has.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request {
            $(
                #[doc = concat!("[`", stringify!($Request), "`].")]
                $Api($Request),
            )*
        }

        /// A response to a [`Request`], in any version.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Response {
            $(
                #[doc = concat!("[`", stringify!($Response), "`].")]
                $Api($Response),
            )*
        }

        impl Request {
            /// The key of its API.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$Api(_) => $Request::API_KEY,)*
                }
            }

            /// Appends the request to `to`, in the highest version that both ends have and that can carry it, and gives
            /// its correlation id.
            ///
            /// # Errors
            ///
            /// Those of [`Connection::send`]. If the broker lacks the API or a version that can carry the request, such
            /// as one with a `group.instance.id`, tell the member by [`fail`](super::Member::fail) with
            /// `UNSUPPORTED_VERSION`.
            pub fn send(
                &self,
                connection: &mut Connection,
                to: &mut impl Sink,
            ) -> Result<i32, ConnectionError> {
                let Some(negotiated) = connection.negotiated(self.api_key()) else {
                    return match self {
                        // Fails, and says why.
                        $(Self::$Api(request) => connection.send(request, None, to),)*
                    };
                };
                let version = self.version(negotiated);
                match self.for_version(version) {
                    $(Self::$Api(request) => connection.send(&request, Some(version), to),)*
                }
            }
        }

        impl Response {
            /// Decodes a response that came over a [`Connection`]; `None` if it is not of an API that members use.
            ///
            /// # Errors
            ///
            /// The body is not a message of that version.
            pub fn decode(received: &Received) -> Result<Option<Self>, ConnectionError> {
                Ok(Some(match received.api_key {
                    $(<$Request as crate::protocol::Request>::API_KEY => Self::$Api(received.decode()?),)*
                    _ => return Ok(None),
                }))
            }

            /// The key of its API.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$Api(_) => $Request::API_KEY,)*
                }
            }

            pub(super) fn throttle_time_ms(&self) -> i32 {
                match self {
                    $(Self::$Api(response) => response.throttle_time_ms,)*
                }
            }
        }

        $(
            impl From<$Request> for Request {
                fn from(request: $Request) -> Self {
                    Self::$Api(request)
                }
            }

            impl From<$Response> for Response {
                fn from(response: $Response) -> Self {
                    Self::$Api(response)
                }
            }
        )*
    };
}

apis! {
    FindCoordinator(FindCoordinatorRequest, FindCoordinatorResponse),
    Metadata(MetadataRequest, MetadataResponse),
    JoinGroup(JoinGroupRequest, JoinGroupResponse),
    SyncGroup(SyncGroupRequest, SyncGroupResponse),
    Heartbeat(HeartbeatRequest, HeartbeatResponse),
    LeaveGroup(LeaveGroupRequest, LeaveGroupResponse),
    OffsetCommit(OffsetCommitRequest, OffsetCommitResponse),
    OffsetFetch(OffsetFetchRequest, OffsetFetchResponse),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
}

impl Request {
    /// The version to send the request in, `negotiated` being the highest that both ends have: that one, or a lower one
    /// if it cannot name the topics. `OffsetCommit` and `OffsetFetch` from version 10 on name topics by id, and ids are
    /// not known in the classic protocols.
    pub fn version(&self, negotiated: i16) -> i16 {
        let needs_names = match self {
            Self::OffsetCommit(request) => request.topics.iter().any(|topic| topic.topic_id.is_nil()),
            Self::OffsetFetch(request) => {
                let mut topics = request.groups.iter().flat_map(|group| group.topics.iter().flatten());
                topics.any(|topic| topic.topic_id.is_nil())
            }
            _ => false,
        };
        if needs_names { negotiated.min(TOPIC_IDS - 1) } else { negotiated }
    }

    /// The request with the fields of one version. What the version cannot carry stays, so that encoding fails.
    #[must_use]
    pub fn for_version(&self, version: i16) -> Self {
        let mut request = self.clone();
        match &mut request {
            Self::FindCoordinator(request) if version < 4 => {
                request.key = request.coordinator_keys.pop().unwrap_or_default();
            }
            Self::Metadata(request) => metadata(request, version),
            Self::LeaveGroup(request) if version < 3 => {
                if let Some(member) = request.members.pop() {
                    request.member_id = member.member_id;
                }
            }
            Self::OffsetFetch(request) => offset_fetch(request, version),
            // The broker chooses the member id.
            Self::ConsumerGroupHeartbeat(request) if version < 1 && request.member_epoch == 0 => {
                request.member_id = Str::default();
            }
            _ => {}
        }
        request
    }
}

/// Topics can be asked for by id from version 12 on. Before, all are asked for.
fn metadata(request: &mut MetadataRequest, version: i16) {
    let by_id = |topic: &MetadataRequestTopic| topic.name.is_none();
    if version < 12 && request.topics.iter().flatten().any(by_id) {
        // In version 0 an empty list means all topics; later, null does.
        request.topics = if version < 1 { Some(Vec::new()) } else { None };
    }
    if version < 4 {
        request.allow_auto_topic_creation = true;
    }
}

/// Before version 8 there is one group, and its fields are those of the request.
fn offset_fetch(request: &mut OffsetFetchRequest, version: i16) {
    if version < 7 {
        request.require_stable = false;
    }
    if version >= 8 {
        return;
    }
    let Some(OffsetFetchRequestGroup { group_id, topics, .. }) = request.groups.pop() else { return };
    request.group_id = group_id;
    let topics = topics.into_iter().flatten().map(|topic| OffsetFetchRequestTopic {
        name: topic.name,
        partition_indexes: topic.partition_indexes,
        ..Default::default()
    });
    request.topics = Some(topics.collect());
}
