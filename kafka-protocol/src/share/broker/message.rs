use crate::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    MetadataRequest, MetadataResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
    ShareFetchResponse, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};
use crate::share::sessions::ConnectionId;

macro_rules! messages {
    ($($Api:ident: $Request:ident, $Response:ident;)*) => {
        /// A request that a [`Cluster`](super::Cluster) answers.
        #[derive(Clone, Debug, PartialEq)]
        pub enum BrokerRequest {
            $(
                #[doc = concat!("A [`", stringify!($Request), "`].")]
                $Api($Request),
            )*
        }

        /// A response of a [`Cluster`](super::Cluster).
        #[derive(Clone, Debug, PartialEq)]
        pub enum BrokerResponse {
            $(
                #[doc = concat!("A [`", stringify!($Response), "`].")]
                $Api($Response),
            )*
        }

        $(
            impl From<$Request> for BrokerRequest {
                fn from(request: $Request) -> Self {
                    Self::$Api(request)
                }
            }

            impl From<$Response> for BrokerResponse {
                fn from(response: $Response) -> Self {
                    Self::$Api(response)
                }
            }
        )*
    };
}
messages! {
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
    Metadata: MetadataRequest, MetadataResponse;
    FindCoordinator: FindCoordinatorRequest, FindCoordinatorResponse;
    ShareGroupHeartbeat: ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse;
    ShareFetch: ShareFetchRequest, ShareFetchResponse;
    ShareAcknowledge: ShareAcknowledgeRequest, ShareAcknowledgeResponse;
}

/// A response, and the connection on which it goes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The connection of the request.
    pub connection: ConnectionId,
    /// The version of the request, and of the response.
    pub version: i16,
    /// The response.
    pub response: BrokerResponse,
}
