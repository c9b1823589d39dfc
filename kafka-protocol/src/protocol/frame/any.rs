//! Whole frames with messages whose type is known only at run time.

use super::{FrameError, encode, expect, peek_request};
use crate::messages::{AnyRequest, AnyResponse, RequestHeader, ResponseHeader};
use crate::protocol::{Api, ApiKey, Message};
use crate::wire::{Bytes, Sink};

/// Appends a frame with a request of any API, in the version that its header names.
///
/// ```
/// use kafka_protocol::messages::{AnyRequest, ApiVersionsRequest};
/// use kafka_protocol::protocol::frame;
/// use kafka_protocol::wire::BytesMut;
///
/// let mut connection = BytesMut::new();
/// let header = frame::request_header::<ApiVersionsRequest>(4, 1, "worker-1");
/// frame::encode_any_request(&mut connection, &header, &ApiVersionsRequest::default().into())?;
///
/// let bytes = frame::split(&mut connection, frame::DEFAULT_MAX_SIZE)?.expect("a whole frame");
/// let (header, request) = frame::decode_any_request(bytes)?;
/// assert_eq!(header.correlation_id, 1);
/// assert!(matches!(request, AnyRequest::ApiVersions(_)));
/// # Ok::<(), frame::FrameError>(())
/// ```
///
/// # Errors
///
/// The header names another API than that of the request, or one whose header is not known
/// ([`FrameError::UnknownApi`]), or one of the two cannot be encoded; `to` is then left as it was.
pub fn encode_any_request<S: Sink>(
    to: &mut S,
    header: &RequestHeader,
    request: &AnyRequest,
) -> Result<(), FrameError> {
    let (api_key, version) = (request.api_key(), header.request_api_version);
    expect(api_key, ApiKey(header.request_api_key))?;
    let header_version = known(api_key)?.request_header.of(version);
    encode(to, header, header_version, |to| request.encode_into(to, version))
}

/// Appends a frame with a response of any API to a request of `version`.
///
/// # Errors
///
/// The header of the API is not known ([`FrameError::UnknownApi`]), or header or response cannot be encoded; `to` is
/// then left as it was.
pub fn encode_any_response<S: Sink>(
    to: &mut S,
    header: &ResponseHeader,
    response: &AnyResponse,
    version: i16,
) -> Result<(), FrameError> {
    let header_version = known(response.api_key())?.response_header.of(version);
    encode(to, header, header_version, |to| response.encode_into(to, version))
}

/// Decodes the frame of a request of any API, as [`split`](super::split) gives it. The body of an API without a codec is
/// kept as it is.
///
/// # Errors
///
/// The header of the API is not known ([`FrameError::UnknownApi`]), or header or body are not what they should be.
/// Offsets in errors are those within the header or within the body.
pub fn decode_any_request(mut frame: Bytes) -> Result<(RequestHeader, AnyRequest), FrameError> {
    let (api_key, version) = peek_request(&frame).ok_or(FrameError::NoHeader { size: frame.len() })?;
    let header = RequestHeader::decode_prefix(&mut frame, known(api_key)?.request_header.of(version))?;
    Ok((header, AnyRequest::decode(api_key, frame, version)?))
}

/// Decodes the frame of a response to a request of any API and of `version`, as [`split`](super::split) gives it. The
/// body of an API without a codec is kept as it is.
///
/// An `ApiVersionsResponse` may come in version 0 instead, see [`decode_response`](super::decode_response).
///
/// # Errors
///
/// The header of the API is not known ([`FrameError::UnknownApi`]), or header or body are not what they should be.
/// Offsets in errors are those within the header or within the body.
pub fn decode_any_response(
    mut frame: Bytes,
    api_key: ApiKey,
    version: i16,
) -> Result<(ResponseHeader, AnyResponse), FrameError> {
    let header = ResponseHeader::decode_prefix(&mut frame, known(api_key)?.response_header.of(version))?;
    Ok((header, AnyResponse::decode(api_key, frame, version)?))
}

/// The API, if its headers are known.
fn known(api_key: ApiKey) -> Result<&'static Api, FrameError> {
    api_key.api().filter(|api| !api.is_removed()).ok_or(FrameError::UnknownApi { api_key })
}
