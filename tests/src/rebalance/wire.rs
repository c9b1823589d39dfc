//! Requests and responses through their bytes, in any version.

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{ApiKey, EncodeError, Message};
use kafka_protocol::rebalance::{Request, Response};
use kafka_protocol::wire::Bytes;

macro_rules! apis {
    ($($Api:ident($Request:ident, $Response:ident),)*) => {
        /// What the broker reads of a request.
        pub(super) fn request(request: &Request, version: i16) -> Result<Request, EncodeError> {
            Ok(match request.for_version(version) {
                $(Request::$Api(request) => {
                    let bytes = request.encode(version)?;
                    $Request::decode(bytes, version).expect("what was encoded").into()
                })*
            })
        }

        /// What the member reads of a response.
        pub(super) fn response(response: &Response, version: i16) -> Response {
            match response {
                $(Response::$Api(response) => {
                    let bytes = response.encode(version).unwrap_or_else(|error| panic!("{error}"));
                    $Response::decode(bytes, version).expect("what was encoded").into()
                })*
            }
        }

        /// The body of a request; `None` if it is of another API.
        pub(super) fn decode_request(api: ApiKey, body: &Bytes, version: i16) -> Option<Request> {
            Some(match api.api()?.name {
                $(stringify!($Api) => $Request::decode(body.clone(), version).expect("a request").into(),)*
                _ => return None,
            })
        }

        /// The body of a response; `None` if it is of another API.
        pub(super) fn decode_response(api: ApiKey, body: &Bytes, version: i16) -> Option<Response> {
            Some(match api.api()?.name {
                $(stringify!($Api) => $Response::decode(body.clone(), version).expect("a response").into(),)*
                _ => return None,
            })
        }
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
