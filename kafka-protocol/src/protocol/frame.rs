//! Frames: how a request or response travels on a connection.
//!
//! A frame is its size as an int32, then a header, then the body. The size does not count itself.
//!
//! ```
//! # #[cfg(feature = "share")] {
//! use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse, ResponseHeader};
//! use kafka_protocol::protocol::frame;
//! use kafka_protocol::wire::BytesMut;
//!
//! // A client sends,
//! let request = ShareAcknowledgeRequest { share_session_epoch: 3, ..Default::default() };
//! let header = frame::request_header::<ShareAcknowledgeRequest>(2, 17, "worker-1");
//! let mut connection = BytesMut::new();
//! frame::encode_request(&mut connection, &header, &request)?;
//!
//! // a broker receives and answers,
//! let bytes = frame::split(&mut connection, frame::DEFAULT_MAX_SIZE)?.expect("a whole frame");
//! let (header, request) = frame::decode_request::<ShareAcknowledgeRequest>(bytes)?;
//! assert_eq!((header.correlation_id, request.share_session_epoch), (17, 3));
//! let answer = ShareAcknowledgeResponse { acquisition_lock_timeout_ms: 30_000, ..Default::default() };
//! let to = ResponseHeader { correlation_id: header.correlation_id, ..Default::default() };
//! frame::encode_response(&mut connection, &to, &answer, header.request_api_version)?;
//!
//! // and the client, which remembers the version of each correlation id, reads the answer.
//! let bytes = frame::split(&mut connection, frame::DEFAULT_MAX_SIZE)?.expect("a whole frame");
//! let (header, answer) = frame::decode_response::<ShareAcknowledgeResponse>(bytes, 2)?;
//! assert_eq!((header.correlation_id, answer.acquisition_lock_timeout_ms), (17, 30_000));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "any")]
mod any;

use std::{error, fmt};

#[cfg(feature = "any")]
pub use any::{decode_any_request, decode_any_response, encode_any_request, encode_any_response};

use super::{ApiKey, DecodeError, EncodeError, Message, Request, Response};
// The headers are part of the frame, so they are the two messages that this module knows.
use crate::messages::{RequestHeader, ResponseHeader};
use crate::wire::{Bytes, BytesMut, Sink, Str};

/// The largest frame that a broker accepts unless told otherwise: 100 MiB (`socket.request.max.bytes`).
pub const DEFAULT_MAX_SIZE: usize = 100 * 1024 * 1024;

/// The size in front of a frame takes this many bytes.
pub(crate) const PREFIX: usize = 4;

/// Takes the first frame off `buffer`, without its size; `None` as long as it is not there whole.
///
/// `buffer` then has room reserved for the rest of the frame, but never on the word of a peer for more than
/// `max_size`.
///
/// # Errors
///
/// A negative size, or one above `max_size`. Nothing is taken off; the connection is of no more use.
pub fn split(buffer: &mut BytesMut, max_size: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(length) = first_length(buffer, max_size)? else {
        return Ok(None);
    };
    let mut frame = buffer.split_to(length).freeze();
    Ok(Some(frame.split_off(PREFIX)))
}

/// The length of the first frame in `buffer`, its size included; `None` as long as it is not there whole. Otherwise
/// like [`split`].
pub(crate) fn first_length(buffer: &mut BytesMut, max_size: usize) -> Result<Option<usize>, FrameError> {
    let Some(&prefix) = buffer.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let size = i32::from_be_bytes(prefix);
    let size = usize::try_from(size).map_err(|_| FrameError::NegativeSize { size })?;
    if size > max_size {
        return Err(FrameError::TooLarge { size, max_size });
    }
    let length = PREFIX + size;
    if buffer.len() < length {
        buffer.reserve(length - buffer.len());
        return Ok(None);
    }
    Ok(Some(length))
}

/// Appends the size of what comes behind it.
pub(crate) fn put_size(to: &mut impl Sink, size: usize, max_size: usize) -> Result<(), FrameError> {
    match i32::try_from(size) {
        Ok(prefix) if size <= max_size => {
            to.put(&prefix.to_be_bytes());
            Ok(())
        }
        _ => Err(FrameError::TooLarge { size, max_size: max_size.min(i32::MAX as usize) }),
    }
}

/// The header of a request in `version`.
pub fn request_header<R: Request>(version: i16, correlation_id: i32, client_id: &str) -> RequestHeader {
    RequestHeader {
        request_api_key: R::API_KEY.0,
        request_api_version: version,
        correlation_id,
        client_id: Some(Str::new(client_id)),
        ..Default::default()
    }
}

/// Appends a frame with a request, in the version that its header names.
///
/// # Errors
///
/// The header names another API than that of the request, or one of them cannot be encoded; `to` is then left as it
/// was.
pub fn encode_request<R: Request, S: Sink>(
    to: &mut S,
    header: &RequestHeader,
    request: &R,
) -> Result<(), FrameError> {
    expect(R::API_KEY, ApiKey(header.request_api_key))?;
    let version = header.request_api_version;
    encode(to, header, R::HEADER_VERSIONS.of(version), |to| request.encode_into(to, version))
}

/// Appends a frame with a response to a request of `version`.
///
/// # Errors
///
/// Header or response cannot be encoded; `to` is then left as it was.
pub fn encode_response<R: Response, S: Sink>(
    to: &mut S,
    header: &ResponseHeader,
    response: &R,
    version: i16,
) -> Result<(), FrameError> {
    encode(to, header, R::HEADER_VERSIONS.of(version), |to| response.encode_into(to, version))
}

/// API key and version of the request in a frame, whatever header it has; `None` if the frame is too short.
pub fn peek_request(frame: &[u8]) -> Option<(ApiKey, i16)> {
    let &[a, b, c, d] = frame.first_chunk::<4>()?;
    Some((ApiKey(i16::from_be_bytes([a, b])), i16::from_be_bytes([c, d])))
}

/// Decodes the frame of a request, as [`split`] gives it.
///
/// # Errors
///
/// The frame has another API key, or header or body are not what they should be. Offsets in errors are those within
/// the header or within the body.
pub fn decode_request<R: Request>(mut frame: Bytes) -> Result<(RequestHeader, R), FrameError> {
    let (api_key, version) = peek_request(&frame).ok_or(FrameError::NoHeader { size: frame.len() })?;
    expect(R::API_KEY, api_key)?;
    let header = RequestHeader::decode_prefix(&mut frame, R::HEADER_VERSIONS.of(version))?;
    Ok((header, R::decode(frame, version)?))
}

/// Decodes the frame of a response to a request of `version`, as [`split`] gives it.
///
/// A broker that lacks the version of an `ApiVersionsRequest` answers in version 0 (KIP-511): whoever expects that reads
/// such a response in version 0 when it is none in `version`, as
/// [`Connection::negotiate`](crate::connection::Connection::negotiate) does.
///
/// # Errors
///
/// Header or body are not what they should be. Offsets in errors are those within the header or within the body.
pub fn decode_response<R: Response>(
    mut frame: Bytes,
    version: i16,
) -> Result<(ResponseHeader, R), FrameError> {
    let header = ResponseHeader::decode_prefix(&mut frame, R::HEADER_VERSIONS.of(version))?;
    Ok((header, R::decode(frame, version)?))
}

/// Header and body in one pass; the size is filled in afterwards.
fn encode<S: Sink>(
    to: &mut S,
    header: &impl Message,
    header_version: i16,
    body: impl FnOnce(&mut S) -> Result<(), EncodeError>,
) -> Result<(), FrameError> {
    let start = to.position();
    to.put(&[0; PREFIX]);
    let done =
        header.encode_into(to, header_version).and_then(|()| body(to)).map_err(FrameError::Encode).and_then(
            |()| {
                let size = to.position() - start - PREFIX;
                i32::try_from(size).map_err(|_| FrameError::TooLarge { size, max_size: i32::MAX as usize })
            },
        );
    match done {
        Ok(size) => to.patch(start, size.to_be_bytes()),
        Err(error) => {
            to.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

fn expect(expected: ApiKey, found: ApiKey) -> Result<(), FrameError> {
    if found == expected { Ok(()) } else { Err(FrameError::ApiKey { expected, found }) }
}

/// Why a frame is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The size in front of the frame is below 0.
    NegativeSize {
        /// That size.
        size: i32,
    },
    /// The size in front of the frame is above the limit.
    TooLarge {
        /// The size.
        size: usize,
        /// The limit.
        max_size: usize,
    },
    /// The frame is too short for what every header begins with: API key, version and correlation id in a request,
    /// the correlation id in a response.
    NoHeader {
        /// The bytes that it has.
        size: usize,
    },
    /// The header names another API than the one asked for.
    ApiKey {
        /// The key asked for.
        expected: ApiKey,
        /// The key in the header.
        found: ApiKey,
    },
    /// Which header the API has is not known: nothing is known of the API, or Kafka has removed it.
    UnknownApi {
        /// Its key.
        api_key: ApiKey,
    },
    /// Header or body cannot be decoded.
    Decode(DecodeError),
    /// Header or body cannot be encoded.
    Encode(EncodeError),
}

impl error::Error for FrameError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeSize { size } => write!(f, "frame of negative size {size}"),
            Self::TooLarge { size, max_size } => {
                write!(f, "frame of {size} bytes, at most {max_size} are allowed")
            }
            Self::NoHeader { size } => write!(f, "frame of {size} bytes is too short for a header"),
            Self::ApiKey { expected, found } => {
                write!(f, "frame of a {found:?} request, expected {expected:?}")
            }
            Self::UnknownApi { api_key } => write!(f, "the header of {api_key:?} is not known"),
            Self::Decode(error) => error.fmt(f),
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<EncodeError> for FrameError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}
