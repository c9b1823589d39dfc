use crate::connection::{Connection, ConnectionError, Received};
use crate::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};
use crate::protocol::{ApiKey, Response, Rpc};
use crate::wire::{Sink, Str};

/// A request of a [`ShareConsumer`](super::ShareConsumer), by which its response is handed in. No other request of the
/// consumer has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(
    /// The number.
    pub u64,
);

/// What a [`ShareConsumer`](super::ShareConsumer) wants done, in this order.
///
/// Nodes have the numbers that Kafka's clients use: brokers those of their own, bootstrap brokers -1, -2 and so on.
/// The coordinator has 2147483647 minus its number, since it has a connection of its own: fetches that wait do not hold
/// up heartbeats.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect to a node and negotiate versions, then call [`connected`](super::ShareConsumer::connected) or
    /// [`disconnected`](super::ShareConsumer::disconnected).
    Connect {
        /// The node.
        node: i32,
        /// Where it is.
        host: Str,
        /// Where it is.
        port: i32,
    },
    /// Send a request over the node's connection.
    Send {
        /// The node.
        node: i32,
        /// By which the response is handed in.
        id: RequestId,
        /// The version to encode it in.
        version: i16,
        /// The request.
        request: ShareConsumerRequest,
    },
    /// Close the connection to a node, and do not call [`disconnected`](super::ShareConsumer::disconnected) for it.
    Disconnect {
        /// The node.
        node: i32,
    },
}

/// The requests and responses of the few APIs that a consumer needs.
macro_rules! rpcs {
    ($($Api:ident($Request:ident, $Response:ident),)*) => {
        /// A request of a [`ShareConsumer`](super::ShareConsumer).
        #[derive(Clone, Debug, PartialEq)]
        pub enum ShareConsumerRequest {
            $(#[doc = concat!("A request of the API ", stringify!($Api), ".")] $Api($Request),)*
        }

        /// The response to a [`ShareConsumerRequest`], of the same API.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ShareConsumerResponse {
            $(#[doc = concat!("A response of the API ", stringify!($Api), ".")] $Api($Response),)*
        }

        impl ShareConsumerRequest {
            /// The key of the API.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$Api(_) => $Response::API_KEY,)*
                }
            }

            /// Sends the request over a connection in the version that came with it, and gives its correlation id.
            ///
            /// # Errors
            ///
            /// Those of [`Connection::send`].
            pub fn send(
                &self,
                connection: &mut Connection,
                version: i16,
                to: &mut impl Sink,
            ) -> Result<i32, ConnectionError> {
                match self {
                    $(Self::$Api(request) => connection.send(request, Some(version), to),)*
                }
            }
        }

        impl ShareConsumerResponse {
            /// How long the node wants to be left alone, in milliseconds (KIP-219).
            pub(super) fn throttle_time_ms(&self) -> i32 {
                match self {
                    $(Self::$Api(response) => response.throttle_time_ms,)*
                }
            }

            /// Decodes a response that a connection has received; `None` if it is of another API.
            ///
            /// # Errors
            ///
            /// Those of [`Received::decode`].
            pub fn decode(received: &Received) -> Result<Option<Self>, ConnectionError> {
                Ok(match received.api_key {
                    $($Response::API_KEY => Some(Self::$Api(received.decode()?)),)*
                    _ => None,
                })
            }
        }

        $(
            const _: () = assert!(<$Request as Rpc>::Response::API_KEY.0 == $Response::API_KEY.0);

            impl From<$Request> for ShareConsumerRequest {
                fn from(request: $Request) -> Self {
                    Self::$Api(request)
                }
            }

            impl From<$Response> for ShareConsumerResponse {
                fn from(response: $Response) -> Self {
                    Self::$Api(response)
                }
            }
        )*
    };
}

rpcs! {
    FindCoordinator(FindCoordinatorRequest, FindCoordinatorResponse),
    Metadata(MetadataRequest, MetadataResponse),
    ShareGroupHeartbeat(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    ShareFetch(ShareFetchRequest, ShareFetchResponse),
    ShareAcknowledge(ShareAcknowledgeRequest, ShareAcknowledgeResponse),
}
