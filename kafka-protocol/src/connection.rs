//! The client's end of a connection to a broker, without its I/O: bytes in, bytes out.
//!
//! A [`Connection`] gives out correlation ids, remembers what is in flight, matches responses to it, and negotiates
//! versions. It reads no clock and owns no buffer, so it runs under any runtime, or none.
//!
//! ```
//! use kafka_protocol::connection::{Config, Connection, Negotiation};
//! use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest, MetadataResponse};
//! use kafka_protocol::protocol::ApiKey;
//! use kafka_protocol::wire::BytesMut;
//! # use kafka_protocol::{connection, messages::*, protocol::{frame, Message, Versions}};
//! # // The broker has ApiVersions up to 3 and Metadata 0-12.
//! # fn broker(sent: &mut Vec<u8>) -> Result<BytesMut, Box<dyn std::error::Error>> {
//! #     let (mut requests, mut to) = (BytesMut::from(&std::mem::take(sent)[..]), BytesMut::new());
//! #     while let Some(mut request) = frame::split(&mut requests, frame::DEFAULT_MAX_SIZE)? {
//! #         let from = connection::decode_request_header(&mut request)?;
//! #         let (id, version) = (from.correlation_id, from.request_api_version);
//! #         let header = ResponseHeader { correlation_id: id, ..Default::default() };
//! #         if ApiKey(from.request_api_key) == ApiKey::METADATA {
//! #             let response = MetadataResponse { controller_id: 3, ..Default::default() };
//! #             frame::encode_response(&mut to, &header, &response, version)?;
//! #         } else if version > 3 {
//! #             connection::unsupported_api_versions(id, Versions::new(0, 3), &mut to)?;
//! #         } else {
//! #             let api_keys = vec![api_versions_response::ApiVersion {
//! #                 api_key: ApiKey::METADATA.into(), max_version: 12, ..Default::default()
//! #             }];
//! #             let response = ApiVersionsResponse { api_keys, ..Default::default() };
//! #             frame::encode_response(&mut to, &header, &response, version)?;
//! #         }
//! #     }
//! #     Ok(to)
//! # }
//!
//! let mut connection = Connection::new(Config { client_id: Some("worker-1".into()), ..Default::default() });
//! let mut out = Vec::new();
//!
//! // Which versions does the broker have? It may have to be asked again, in an older version of the question.
//! loop {
//!     let request = ApiVersionsRequest { client_software_name: "worker".into(), ..Default::default() };
//!     connection.send(&request, None, &mut out)?;
//!     let mut buffer = broker(&mut out)?; // writes `out` and reads
//!     let received = connection.receive(&mut buffer)?.expect("a whole frame");
//!     if connection.negotiate(&received)? == Negotiation::Done {
//!         break;
//!     }
//! }
//! assert_eq!(connection.negotiated(ApiKey::METADATA), Some(12));
//!
//! // From now on `None` is the highest version that both ends have.
//! let id = connection.send(&MetadataRequest::default(), None, &mut out)?;
//! let mut buffer = broker(&mut out)?;
//! let received = connection.receive(&mut buffer)?.expect("a whole frame");
//! assert_eq!((received.correlation_id, received.version), (id, 12));
//! assert_eq!(received.decode::<MetadataResponse>()?.controller_id, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For the other end, and for proxies, there are [`decode_request_header`], [`unsupported_api_versions`] and
//! [`Connection::forward`]. The feature `tokio` adds `codec::FrameCodec`.

#[cfg(feature = "tokio")]
pub mod codec;

use std::collections::VecDeque;
use std::{error, fmt};

use crate::messages::api_versions_response::ApiVersion;
use crate::messages::{ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader};
use crate::protocol::frame::{self, FrameError};
use crate::protocol::{
    ApiKey, DecodeError, EncodeError, ErrorCode, Message, Request, Response, Rpc, Versions,
};
use crate::wire::{Bytes, BytesMut, Sink, Str};

/// The first of the correlation ids that Kafka's clients use for SASL only. The last is `i32::MAX`.
const MIN_RESERVED_CORRELATION_ID: i32 = 2_147_483_640;

/// What a [`Connection`] is told when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What requests say of their sender (`client.id`), for the broker's logs, metrics and quotas. At most 32767
    /// bytes. A broker takes null for an empty one.
    ///
    /// Default null.
    pub client_id: Option<Str>,

    /// The most requests that may wait for their responses
    /// (`max.in.flight.requests.per.connection`).
    ///
    /// Default 100, as in Kafka's consumer; its producer has 5.
    pub max_in_flight: usize,

    /// The most bytes of a frame, its size not counted: of requests, which a broker refuses from its own limit on by
    /// closing the connection (`socket.request.max.bytes`), and of responses.
    ///
    /// Default [`frame::DEFAULT_MAX_SIZE`].
    pub max_frame_size: usize,

    /// Whether versions that Kafka is still working on are negotiated too. They may change with every release, and
    /// brokers offer them only when told to (`unstable.api.versions.enable`).
    ///
    /// Default false.
    pub unstable_versions: bool,

    /// The correlation id of the first request, any int32. Those from 2147483640 on are skipped, since they are
    /// reserved for SASL.
    ///
    /// Default 0.
    pub first_correlation_id: i32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            client_id: None,
            max_in_flight: 100,
            max_frame_size: frame::DEFAULT_MAX_SIZE,
            unstable_versions: false,
            first_correlation_id: 0,
        }
    }
}

/// The client's end of one connection to a broker. See the [module](self).
///
/// A broker answers the requests of a connection one after the other, so a response always belongs to the oldest
/// request in flight.
///
/// After an error of a method that receives, the two ends may no longer agree on what is in flight: close the
/// connection, as Kafka's clients do. After an error of a method that sends, nothing has been sent, `to` is as it was,
/// and the connection is good.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Config,
    next_correlation_id: i32,
    next_sasl_correlation_id: i32,
    in_flight: VecDeque<InFlight>,
    /// In which versions `ApiVersions` may be asked for as long as there is no answer.
    first_contact: Versions,
    api_versions: Option<ApiVersionsResponse>,
}

impl Connection {
    /// A connection on which nothing has been sent yet.
    pub fn new(config: Config) -> Self {
        Self {
            next_correlation_id: config.first_correlation_id,
            next_sasl_correlation_id: MIN_RESERVED_CORRELATION_ID,
            in_flight: VecDeque::new(),
            first_contact: Versions::since(0),
            api_versions: None,
            config,
        }
    }

    /// Appends a request to `to` and gives its correlation id.
    ///
    /// Correlation ids count up by one; behind 2147483639 they go on with -2147483648. Requests for `SaslHandshake`
    /// and `SaslAuthenticate` get those in between, as in Kafka's clients.
    ///
    /// The version is the [negotiated](Self::negotiated) one unless `version` says otherwise, which is then not
    /// compared with what the broker offers. `ApiVersionsRequest` needs no negotiation before: the first one goes out
    /// in our highest version, later ones as [`negotiate`](Self::negotiate) says.
    ///
    /// A request that [has no response](Request::has_response), which is a `ProduceRequest` with `acks` = 0, is not
    /// waited for.
    ///
    /// # Errors
    ///
    /// - [`TooManyInFlight`](ConnectionError::TooManyInFlight);
    /// - without a `version`: [`NotNegotiated`](ConnectionError::NotNegotiated) or
    ///   [`NoCommonVersion`](ConnectionError::NoCommonVersion);
    /// - [`Frame`](ConnectionError::Frame): the version cannot carry the request, or the frame is above the limit.
    pub fn send<R: Rpc>(
        &mut self,
        request: &R,
        version: Option<i16>,
        to: &mut impl Sink,
    ) -> Result<i32, ConnectionError> {
        self.expect_room()?;
        let (correlation_id, version) = self.put(request, version, to)?;
        if !request.has_response() {
            return Ok(correlation_id);
        }
        self.in_flight.push_back(InFlight {
            correlation_id,
            api_key: R::API_KEY,
            version,
            forwarded: None,
            response_header: R::Response::HEADER_VERSIONS.of(version),
        });
        Ok(correlation_id)
    }

    /// Appends a request that the broker does not answer: a `ProduceRequest` with `acks` = 0. Otherwise like
    /// [`send`](Self::send), except that there is no limit to such requests.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send), except `TooManyInFlight`.
    pub fn send_without_response<R: Request>(
        &mut self,
        request: &R,
        version: Option<i16>,
        to: &mut impl Sink,
    ) -> Result<i32, ConnectionError> {
        self.put(request, version, to).map(|(correlation_id, _)| correlation_id)
    }

    /// Takes the first response off `buffer`; `None` as long as it is not there whole, with room reserved for the rest.
    /// There may be more than one: ask until there is none.
    ///
    /// # Errors
    ///
    /// - [`Frame`](ConnectionError::Frame): the frame's size is negative or above the limit, or its header is not what
    ///   it should be;
    /// - [`Unsolicited`](ConnectionError::Unsolicited) or
    ///   [`CorrelationIdMismatch`](ConnectionError::CorrelationIdMismatch);
    /// - [`Forwarded`](ConnectionError::Forwarded): the oldest request in flight was forwarded, so that
    ///   [`receive_frame`](Self::receive_frame) has to take its response. Nothing has been taken off, and the
    ///   connection is good.
    pub fn receive(&mut self, buffer: &mut BytesMut) -> Result<Option<Received>, ConnectionError> {
        self.expect_own()?;
        match frame::split(buffer, self.config.max_frame_size)? {
            Some(frame) => self.receive_split(frame).map(Some),
            None => Ok(None),
        }
    }

    /// Takes a response that is already a frame of its own, as [`frame::split`] gives it. Otherwise like
    /// [`receive`](Self::receive).
    ///
    /// # Errors
    ///
    /// Those of [`receive`](Self::receive).
    pub fn receive_split(&mut self, mut frame: Bytes) -> Result<Received, ConnectionError> {
        self.expect_own()?;
        let InFlight { correlation_id, api_key, version, response_header, .. } = self.answered(&frame)?;
        let header = ResponseHeader::decode_prefix(&mut frame, response_header)?;
        self.in_flight.pop_front();
        Ok(Received { correlation_id, api_key, version, header, body: frame })
    }

    /// What is in flight, the oldest request first: what a client has to send again, or to report as lost, when the
    /// connection breaks.
    pub fn in_flight(&self) -> impl DoubleEndedIterator<Item = &InFlight> + ExactSizeIterator {
        self.in_flight.iter()
    }

    /// The oldest request in flight, if its response is the one at hand.
    fn answered(&self, frame: &[u8]) -> Result<InFlight, ConnectionError> {
        let Some(&found) = frame.first_chunk() else {
            return Err(FrameError::NoHeader { size: frame.len() }.into());
        };
        let found = i32::from_be_bytes(found);
        match self.in_flight.front() {
            Some(oldest) if oldest.correlation_id == found => Ok(*oldest),
            Some(oldest) => Err(ConnectionError::CorrelationIdMismatch { expected: *oldest, found }),
            None => Err(ConnectionError::Unsolicited { found }),
        }
    }

    /// Whether the next response may be looked into.
    fn expect_own(&self) -> Result<(), ConnectionError> {
        match self.in_flight.front() {
            Some(&InFlight { api_key, correlation_id, forwarded: Some(_), .. }) => {
                Err(ConnectionError::Forwarded { api_key, correlation_id })
            }
            _ => Ok(()),
        }
    }

    fn expect_room(&self) -> Result<(), ConnectionError> {
        let max_in_flight = self.config.max_in_flight;
        if self.in_flight.len() < max_in_flight {
            Ok(())
        } else {
            Err(ConnectionError::TooManyInFlight { max_in_flight })
        }
    }

    /// Appends a request and gives its correlation id and version.
    fn put<R: Request>(
        &mut self,
        request: &R,
        version: Option<i16>,
        to: &mut impl Sink,
    ) -> Result<(i32, i16), ConnectionError> {
        let version = match version {
            Some(version) => version,
            None => self.common_version(R::API_KEY, R::VERSIONS)?,
        };
        let correlation_id = self.correlation_id(R::API_KEY);
        let header = RequestHeader {
            request_api_key: R::API_KEY.into(),
            request_api_version: version,
            correlation_id,
            client_id: self.config.client_id.clone(),
            ..Default::default()
        };
        let start = to.position();
        frame::encode_request(to, &header, request)?;
        let (size, max_size) = (to.position() - start - frame::PREFIX, self.config.max_frame_size);
        if size > max_size {
            to.truncate(start);
            return Err(FrameError::TooLarge { size, max_size }.into());
        }
        self.use_up(correlation_id);
        Ok((correlation_id, version))
    }

    /// The next correlation id for an API.
    fn correlation_id(&self, api_key: ApiKey) -> i32 {
        if api_key == ApiKey::SASL_HANDSHAKE || api_key == ApiKey::SASL_AUTHENTICATE {
            self.next_sasl_correlation_id.max(MIN_RESERVED_CORRELATION_ID)
        } else if self.next_correlation_id >= MIN_RESERVED_CORRELATION_ID {
            i32::MIN
        } else {
            self.next_correlation_id
        }
    }

    /// A correlation id is used up once its request has been sent.
    fn use_up(&mut self, correlation_id: i32) {
        let next = correlation_id.wrapping_add(1);
        if correlation_id >= MIN_RESERVED_CORRELATION_ID {
            self.next_sasl_correlation_id = next;
        } else {
            self.next_correlation_id = next;
        }
    }
}

/// Negotiation of versions (KIP-35, KIP-511).
impl Connection {
    /// Takes the response to an `ApiVersionsRequest`: from now on requests go out in the highest version that both ends
    /// have.
    ///
    /// A broker that lacks the version of the question answers in version 0, whatever it was asked in, with the
    /// versions that it does have (since Kafka 2.4; before, with none). The next
    /// [`send`](Self::send) of an `ApiVersionsRequest` uses the highest of them that is ours too, or 0. Versions only
    /// go down, so that this ends with any broker.
    ///
    /// # Errors
    ///
    /// What had been negotiated before is kept.
    /// - [`ApiKey`](ConnectionError::ApiKey): the response of another API;
    /// - [`Frame`](ConnectionError::Frame): the body is neither one of the request's version nor one of version 0;
    /// - [`NoCommonVersion`](ConnectionError::NoCommonVersion): the broker has no version of `ApiVersions` that is
    ///   ours;
    /// - [`Refused`](ConnectionError::Refused): the broker answers with another error, or does not take a version
    ///   that it claims to have.
    pub fn negotiate(&mut self, received: &Received) -> Result<Negotiation, ConnectionError> {
        let response = match received.decode::<ApiVersionsResponse>() {
            Err(error @ ConnectionError::Frame(_)) => {
                ApiVersionsResponse::decode(received.body.clone(), 0).map_err(|_| error)?
            }
            done => done?,
        };
        match response.error_code {
            ErrorCode::NONE => {
                self.api_versions = Some(response);
                Ok(Negotiation::Done)
            }
            ErrorCode::UNSUPPORTED_VERSION => {
                self.first_contact = self.fallback(&response, received.version)?;
                self.api_versions = None;
                Ok(Negotiation::Again)
            }
            error_code => Err(ConnectionError::Refused { error_code }),
        }
    }

    /// The versions of `ApiVersions` that are left when `refused` is not one.
    fn fallback(&self, response: &ApiVersionsResponse, refused: i16) -> Result<Versions, ConnectionError> {
        let api_key = ApiKey::API_VERSIONS;
        let broker = offered(response, api_key).unwrap_or(Versions::new(0, 0));
        let ours = self.ours(api_key, ApiVersionsRequest::VERSIONS);
        let common = broker.intersect(ours);
        if common.is_empty() {
            return Err(ConnectionError::NoCommonVersion { api_key, ours, broker });
        }
        let left = common.intersect(Versions::new(0, refused.saturating_sub(1)));
        if left.is_empty() {
            return Err(ConnectionError::Refused { error_code: response.error_code });
        }
        Ok(left)
    }

    /// The version in which requests of an API go out: the highest that both the broker and this crate have. `None`
    /// if there is none, before [`negotiate`](Self::negotiate) is done, and for an unknown API.
    pub fn negotiated(&self, api_key: ApiKey) -> Option<i16> {
        let ours = self.ours(api_key, api_key.api()?.versions);
        let common = offered(self.api_versions()?, api_key)?.intersect(ours);
        (!common.is_empty()).then_some(common.max())
    }

    /// The versions of an API that the broker offers; `None` if it does not have the API, and before
    /// [`negotiate`](Self::negotiate) is done.
    pub fn offered(&self, api_key: ApiKey) -> Option<Versions> {
        offered(self.api_versions()?, api_key)
    }

    /// The APIs that the broker has and this crate does not know, with their versions: those of a newer Kafka.
    pub fn unknown_apis(&self) -> impl Iterator<Item = (ApiKey, Versions)> {
        let apis = self.api_versions.iter().flat_map(|response| &response.api_keys);
        apis.map(|api| (ApiKey(api.api_key), versions_of(api))).filter(|(key, _)| key.api().is_none())
    }

    /// The broker's answer to `ApiVersions`, with the versions of all its APIs and its features; `None` before
    /// [`negotiate`](Self::negotiate) is done.
    pub fn api_versions(&self) -> Option<&ApiVersionsResponse> {
        self.api_versions.as_ref()
    }

    /// Of the versions that we have, those that may be negotiated.
    fn ours(&self, api_key: ApiKey, versions: Versions) -> Versions {
        match api_key.api() {
            Some(api) if api.latest_version_unstable && !self.config.unstable_versions => {
                versions.intersect(api.stable_versions())
            }
            _ => versions,
        }
    }

    fn common_version(&self, api_key: ApiKey, versions: Versions) -> Result<i16, ConnectionError> {
        let ours = self.ours(api_key, versions);
        let broker = match &self.api_versions {
            Some(response) => offered(response, api_key).unwrap_or(Versions::NONE),
            None if api_key == ApiKey::API_VERSIONS => self.first_contact,
            None => return Err(ConnectionError::NotNegotiated { api_key }),
        };
        let common = broker.intersect(ours);
        if common.is_empty() {
            return Err(ConnectionError::NoCommonVersion { api_key, ours, broker });
        }
        Ok(common.max())
    }
}

/// Tokens of SASL without a header (KIP-43).
///
/// After a `SaslHandshake` of version 0, and only then, authentication goes on with bare tokens, each behind its size
/// as an int32. After one of version 1 the tokens are inside `SaslAuthenticate` requests (KIP-152).
impl Connection {
    /// Appends a token, which may be empty.
    ///
    /// # Errors
    ///
    /// - [`InFlight`](ConnectionError::InFlight): the response to the handshake, or another one, is not there yet;
    /// - [`Frame`](ConnectionError::Frame): the token is above the limit of frames.
    pub fn send_raw(&self, token: &[u8], to: &mut impl Sink) -> Result<(), ConnectionError> {
        self.expect_idle()?;
        frame::put_size(to, token.len(), self.config.max_frame_size)?;
        to.put(token);
        Ok(())
    }

    /// Takes the first token off `buffer`; `None` as long as it is not there whole.
    ///
    /// # Errors
    ///
    /// - [`InFlight`](ConnectionError::InFlight): what comes next is a response;
    /// - [`Frame`](ConnectionError::Frame): the size is negative or above the limit of frames.
    pub fn receive_raw(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, ConnectionError> {
        self.expect_idle()?;
        Ok(frame::split(buffer, self.config.max_frame_size)?)
    }

    fn expect_idle(&self) -> Result<(), ConnectionError> {
        match self.in_flight.len() {
            0 => Ok(()),
            count => Err(ConnectionError::InFlight { count }),
        }
    }
}

/// For proxies: requests of any API and version, known or not, go through as they are but for the correlation id.
///
/// API key, version and correlation id are the first eight bytes of every request and the correlation id the first
/// four of every response, whatever the version of the header.
impl Connection {
    /// Appends the request of another client, `frame` as [`frame::split`] gives it, and gives the correlation id that
    /// it got. Nothing else of it is looked at or changed.
    ///
    /// A `ProduceRequest` with `acks` = 0 has no response: use
    /// [`forward_without_response`](Self::forward_without_response). Whoever has decoded the request learns that from
    /// `AnyRequest::has_response`.
    ///
    /// # Errors
    ///
    /// - [`TooManyInFlight`](ConnectionError::TooManyInFlight);
    /// - [`Frame`](ConnectionError::Frame): the frame has fewer than eight bytes, or is above the limit.
    pub fn forward(&mut self, frame: &[u8], to: &mut impl Sink) -> Result<i32, ConnectionError> {
        self.expect_room()?;
        let request = self.put_forwarded(frame, to)?;
        self.in_flight.push_back(request);
        Ok(request.correlation_id)
    }

    /// Appends the request of another client that the broker does not answer: a `ProduceRequest` with `acks` = 0.
    ///
    /// # Errors
    ///
    /// Those of [`forward`](Self::forward), except `TooManyInFlight`.
    pub fn forward_without_response(
        &mut self,
        frame: &[u8],
        to: &mut impl Sink,
    ) -> Result<i32, ConnectionError> {
        self.put_forwarded(frame, to).map(|request| request.correlation_id)
    }

    /// Takes the first response off `buffer` and does not look into it: if its request was forwarded, the frame now has
    /// the correlation id that the other client chose. `None` as long as it is not there whole.
    ///
    /// Own and forwarded requests may share a connection: the first of [`in_flight`](Self::in_flight) tells which
    /// response comes next.
    ///
    /// # Errors
    ///
    /// Those of [`receive`](Self::receive) that are not about the rest of the header. Nothing is then taken off.
    pub fn receive_frame(&mut self, buffer: &mut BytesMut) -> Result<Option<ReceivedFrame>, ConnectionError> {
        let Some(length) = frame::first_length(buffer, self.config.max_frame_size)? else {
            return Ok(None);
        };
        let (_, frame) = buffer[..length].split_at_mut(frame::PREFIX);
        let request = self.answered(frame)?;
        if let (Some(id), Some(to)) = (request.forwarded, frame.first_chunk_mut()) {
            *to = id.to_be_bytes();
        }
        self.in_flight.pop_front();
        Ok(Some(ReceivedFrame { request, bytes: buffer.split_to(length).freeze() }))
    }

    fn put_forwarded(&mut self, frame: &[u8], to: &mut impl Sink) -> Result<InFlight, ConnectionError> {
        let size = frame.len();
        let Some((&[a, b, c, d, id @ ..], rest)) = frame.split_first_chunk::<8>() else {
            return Err(FrameError::NoHeader { size }.into());
        };
        let (api_key, version) = (ApiKey(i16::from_be_bytes([a, b])), i16::from_be_bytes([c, d]));
        let correlation_id = self.correlation_id(api_key);
        frame::put_size(to, size, self.config.max_frame_size)?;
        to.put(&[a, b, c, d]);
        to.put(&correlation_id.to_be_bytes());
        to.put(rest);
        self.use_up(correlation_id);
        let forwarded = Some(i32::from_be_bytes(id));
        Ok(InFlight { correlation_id, api_key, version, forwarded, response_header: 0 })
    }
}

/// A request whose response is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The correlation id on this connection.
    pub correlation_id: i32,
    /// The API.
    pub api_key: ApiKey,
    /// The version of the request, and so of its response.
    pub version: i16,
    /// The correlation id that another client had chosen, if the request was [forwarded](Connection::forward).
    pub forwarded: Option<i32>,
    /// The version of the header in front of the response, unless forwarded.
    response_header: i16,
}

/// A response, with what is known of its request.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The correlation id of the request.
    pub correlation_id: i32,
    /// The API.
    pub api_key: ApiKey,
    /// The version of the request. The body is of the same version, unless it says that a version of `ApiVersions` is
    /// unsupported: see [`negotiate`](Connection::negotiate).
    pub version: i16,
    /// The header.
    pub header: ResponseHeader,
    /// The response, still encoded.
    pub body: Bytes,
}

impl Received {
    /// Decodes the body. [`Message::decode_from`] does it into a value that is already there.
    ///
    /// # Errors
    ///
    /// - [`ApiKey`](ConnectionError::ApiKey): the body is that of another API;
    /// - [`Frame`](ConnectionError::Frame): it is not what it should be. The connection is good all the same.
    pub fn decode<R: Response>(&self) -> Result<R, ConnectionError> {
        let (expected, found) = (R::API_KEY, self.api_key);
        if found != expected {
            return Err(ConnectionError::ApiKey { expected, found });
        }
        Ok(R::decode(self.body.clone(), self.version)?)
    }
}

/// A response that has not been looked into, with its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// The request.
    pub request: InFlight,
    /// The whole frame, its size included, ready to be passed on. The correlation id in it is
    /// [`InFlight::forwarded`] if the request was forwarded.
    pub bytes: Bytes,
}

/// What an answer to `ApiVersions` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Negotiation {
    /// The versions of the broker are known.
    Done,
    /// The broker lacks the version of the question, and nothing is negotiated: send the `ApiVersionsRequest` again.
    /// Fields that the next version lacks are left out.
    Again,
}

/// Takes the header off the frame of a request, as [`frame::split`] gives it, and leaves the body: what a broker or a
/// proxy does before it knows whether the version is supported.
///
/// ```
/// use kafka_protocol::connection::{decode_request_header, unsupported_api_versions};
/// use kafka_protocol::messages::ApiVersionsRequest;
/// use kafka_protocol::protocol::{ApiKey, Request, Message};
///
/// // Version 99 of ApiVersions, correlation id 4, client id "x", and a body that nobody here understands.
/// let mut frame = (&b"\0\x12\0\x63\0\0\0\x04\0\x01x\0\xc0\xff\xee"[..]).into();
/// let header = decode_request_header(&mut frame)?;
/// let (api_key, version) = (ApiKey::from(header.request_api_key), header.request_api_version);
/// if api_key == ApiKey::API_VERSIONS && !ApiVersionsRequest::VERSIONS.contains(version) {
///     let mut out = Vec::new();
///     unsupported_api_versions(header.correlation_id, ApiVersionsRequest::VERSIONS, &mut out)?;
///     assert_eq!(out, b"\0\0\0\x10\0\0\0\x04\0\x23\0\0\0\x01\0\x12\0\0\0\x05");
/// }
/// # Ok::<(), kafka_protocol::connection::ConnectionError>(())
/// ```
///
/// # Errors
///
/// - [`UnknownApi`](ConnectionError::UnknownApi): the header of an unknown API is not known either, nor that of one that
///   Kafka has removed. A broker closes the connection; a proxy can still [forward](Connection::forward) the frame.
/// - [`Frame`](ConnectionError::Frame): the header is not what it should be. `frame` is as it was.
pub fn decode_request_header(frame: &mut Bytes) -> Result<RequestHeader, ConnectionError> {
    let Some((api_key, version)) = frame::peek_request(frame) else {
        return Err(FrameError::NoHeader { size: frame.len() }.into());
    };
    let known = api_key.api().filter(|api| !api.is_removed());
    let api = known.ok_or(ConnectionError::UnknownApi { api_key })?;
    Ok(RequestHeader::decode_prefix(frame, api.request_header.of(version))?)
}

/// Appends the response to an `ApiVersionsRequest` of a version that is not `supported` (KIP-511): in version 0,
/// whatever the request's, with the error `UNSUPPORTED_VERSION` and the versions of `ApiVersions` alone.
///
/// For no other API is there such a response; a broker closes the connection.
///
/// # Errors
///
/// None in practice: such a response can always be encoded.
pub fn unsupported_api_versions(
    correlation_id: i32,
    supported: Versions,
    to: &mut impl Sink,
) -> Result<(), ConnectionError> {
    let header = ResponseHeader { correlation_id, ..Default::default() };
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: vec![ApiVersion {
            api_key: ApiKey::API_VERSIONS.into(),
            min_version: supported.min(),
            max_version: supported.max(),
            ..Default::default()
        }],
        ..Default::default()
    };
    Ok(frame::encode_response(to, &header, &response, 0)?)
}

/// The last entry counts if there are several, as in Kafka's clients.
fn offered(response: &ApiVersionsResponse, api_key: ApiKey) -> Option<Versions> {
    response.api_keys.iter().rev().find(|api| ApiKey(api.api_key) == api_key).map(versions_of)
}

fn versions_of(api: &ApiVersion) -> Versions {
    Versions::new(api.min_version, api.max_version)
}

/// Why a [`Connection`] does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// A frame, or the header or body in it, is not what it should be.
    Frame(FrameError),
    /// The request would be one too many in flight.
    TooManyInFlight {
        /// The limit.
        max_in_flight: usize,
    },
    /// A response while no request is in flight.
    Unsolicited {
        /// The correlation id of the response.
        found: i32,
    },
    /// The response does not belong to the oldest request in flight.
    CorrelationIdMismatch {
        /// The oldest request.
        expected: InFlight,
        /// The correlation id of the response.
        found: i32,
    },
    /// The next response is that to a forwarded request, which can only be received as a frame.
    Forwarded {
        /// The API of the request.
        api_key: ApiKey,
        /// Its correlation id on this connection.
        correlation_id: i32,
    },
    /// A response was to be decoded as that of another API.
    ApiKey {
        /// The API asked for.
        expected: ApiKey,
        /// The API of the request.
        found: ApiKey,
    },
    /// No version was given, and those of the broker are not known yet.
    NotNegotiated {
        /// The API of the request.
        api_key: ApiKey,
    },
    /// There is no version that both ends have.
    NoCommonVersion {
        /// The API.
        api_key: ApiKey,
        /// Our versions, the unstable one left out unless it is [asked for](Config::unstable_versions).
        ours: Versions,
        /// Those of the broker; none if it does not have the API.
        broker: Versions,
    },
    /// The broker refuses to tell its versions.
    Refused {
        /// Its reason.
        error_code: ErrorCode,
    },
    /// Tokens without a header while requests are in flight.
    InFlight {
        /// How many.
        count: usize,
    },
    /// Which header the API has is not known: nothing is known of the API, or Kafka has removed it.
    UnknownApi {
        /// Its key.
        api_key: ApiKey,
    },
}

impl error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::TooManyInFlight { max_in_flight } => {
                write!(f, "{max_in_flight} requests are in flight, more are not allowed")
            }
            Self::Unsolicited { found } => {
                write!(f, "response with correlation id {found}, but no request is in flight")
            }
            Self::CorrelationIdMismatch { expected, found } => {
                let InFlight { correlation_id, api_key, version, .. } = expected;
                write!(f, "response with correlation id {found}, ")?;
                write!(f, "expected {correlation_id} for {api_key:?} v{version}")
            }
            Self::Forwarded { api_key, correlation_id } => {
                write!(
                    f,
                    "the next response is that to the forwarded request {correlation_id} for {api_key:?}"
                )
            }
            Self::ApiKey { expected, found } => {
                write!(f, "response of {found:?}, expected {expected:?}")
            }
            Self::NotNegotiated { api_key } => {
                write!(f, "{api_key:?}: the versions of the broker are not known yet")
            }
            Self::NoCommonVersion { api_key, ours, broker } => {
                write!(f, "{api_key:?}: no common version (ours {ours}, the broker's {broker})")
            }
            Self::Refused { error_code } => {
                write!(f, "the broker refuses to tell its versions: {error_code}")
            }
            Self::InFlight { count } => {
                write!(f, "tokens without a header have to wait, requests in flight: {count}")
            }
            Self::UnknownApi { api_key } => write!(f, "the header of {api_key:?} is not known"),
        }
    }
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<DecodeError> for ConnectionError {
    fn from(error: DecodeError) -> Self {
        Self::Frame(error.into())
    }
}

impl From<EncodeError> for ConnectionError {
    fn from(error: EncodeError) -> Self {
        Self::Frame(error.into())
    }
}
