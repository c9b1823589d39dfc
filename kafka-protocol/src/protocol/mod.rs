//! What all messages have in common: versions, errors, headers and frames.

mod acknowledge_type;
mod api_key;
mod error;
mod error_code;
pub mod frame;
mod header_versions;
pub mod schema;
mod versions;
pub(crate) mod walk;

use std::fmt::Debug;

pub use acknowledge_type::AcknowledgeType;
pub use api_key::{Api, ApiKey, Listener};
pub use error::{DecodeError, DecodeReason, EncodeError, EncodeReason};
pub use error_code::ErrorCode;
pub use header_versions::HeaderVersions;
pub use schema::MessageSchema;
pub use versions::Versions;

use crate::wire::{Bytes, Codec, Count, Fault, Reader, Sink, Writer};

/// A message as a whole: what can be encoded and decoded by itself.
///
/// ```
/// # #[cfg(feature = "share")] {
/// use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};
///
/// let request = ShareFetchRequest { is_renew_ack: true, ..Default::default() };
/// let body = request.encode(2)?;
/// assert_eq!(ShareFetchRequest::decode(body, 2)?, request);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Message: Codec + Clone + Debug + Default + PartialEq {
    /// Names, types, versions and defaults of all fields.
    const SCHEMA: &'static MessageSchema;

    /// The versions that can be encoded and decoded: those of the schema.
    const VERSIONS: Versions = Self::SCHEMA.versions;

    /// The versions with compact lengths and tag sections: those of the schema. Beyond the valid versions too, as
    /// headers are chosen by it before a version is known to be supported.
    const FLEXIBLE_VERSIONS: Versions = Self::SCHEMA.flexible_versions;

    /// Decodes a whole message. Fields of bytes and records become slices of `bytes`, nothing of them is copied.
    ///
    /// # Errors
    ///
    /// The bytes are not exactly one message of this version, or the version is not [supported](Self::VERSIONS). Arrays
    /// that would take more than 14 times the length of the bytes and 64 KiB are refused too; only messages of
    /// thousands of almost empty elements are so, and [`decode_within`](Self::decode_within) takes them.
    #[inline]
    fn decode(bytes: impl Into<Bytes>, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.decode_from(&bytes.into(), version)?;
        Ok(message)
    }

    /// Decodes a whole message from borrowed bytes. Fields of bytes and records become copies.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode).
    #[inline]
    fn decode_slice(bytes: &[u8], version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        supported::<Self>(version)?;
        let mut r = Reader::new(bytes, version, Self::FLEXIBLE_VERSIONS.contains(version));
        let done = message.read(&mut r);
        finish::<Self>(bytes, &r, done)?;
        Ok(message)
    }

    /// Decodes a whole message whose arrays may take `memory` bytes; long strings and unknown tagged fields come on top,
    /// which take about as much as their bytes.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode), with `memory` as the limit.
    #[inline]
    fn decode_within(bytes: impl Into<Bytes>, version: i16, memory: usize) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        supported::<Self>(version)?;
        let bytes = bytes.into();
        let mut r =
            Reader::sharing(&bytes, version, Self::FLEXIBLE_VERSIONS.contains(version)).within(memory);
        let done = message.read(&mut r);
        finish::<Self>(&bytes, &r, done)?;
        Ok(message)
    }

    /// Decodes a message from the start of `bytes` and leaves there what comes behind it.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode), trailing bytes aside; `bytes` is then left as it was.
    #[inline]
    fn decode_prefix(bytes: &mut Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        supported::<Self>(version)?;
        let mut r = Reader::sharing(bytes, version, Self::FLEXIBLE_VERSIONS.contains(version));
        if let Err(fault) = message.read(&mut r) {
            return Err(decode_error::<Self>(bytes, &r, fault));
        }
        let read = bytes.len() - r.rest().len();
        let _ = bytes.split_to(read);
        Ok(message)
    }

    /// Decodes a whole message over `self` and uses its buffers again: once these are large enough, nothing is
    /// allocated. Every field is overwritten.
    ///
    /// An array that has to grow gives up the buffers of its old elements, one that shrinks those of the elements that
    /// are too many.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode). The value is then half old, half new, and good only for decoding again.
    #[inline]
    fn decode_from(&mut self, bytes: &Bytes, version: i16) -> Result<(), DecodeError> {
        supported::<Self>(version)?;
        let mut r = Reader::sharing(bytes, version, Self::FLEXIBLE_VERSIONS.contains(version));
        let done = self.read(&mut r);
        finish::<Self>(bytes, &r, done)
    }

    /// Encodes into a buffer of its own.
    ///
    /// # Errors
    ///
    /// The version is not [supported](Self::VERSIONS), or it cannot carry a field's value.
    #[inline]
    fn encode(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut bytes = Vec::with_capacity(128);
        self.encode_into(&mut bytes, version)?;
        Ok(bytes.into())
    }

    /// Appends the message to `to`: a `Vec<u8>`, which is the fastest, or a `BytesMut`.
    ///
    /// # Errors
    ///
    /// Those of [`encode`](Self::encode); `to` is then left as it was.
    #[inline]
    fn encode_into<S: Sink>(&self, to: &mut S, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(version) {
            return Err(unsupported_encode(Self::SCHEMA, version));
        }
        let start = to.position();
        let mut w = Writer::new(to, version, Self::FLEXIBLE_VERSIONS.contains(version));
        let done = self.write(&mut w);
        let length = to.position() - start;
        if done.is_err() || length > i32::MAX as usize {
            to.truncate(start);
            return Err(encode_error(self, version, done.err().unwrap_or(Fault::MessageTooLong)));
        }
        Ok(())
    }

    /// The exact number of bytes that [`encode`](Self::encode) gives.
    ///
    /// # Errors
    ///
    /// Those of [`encode`](Self::encode).
    #[inline]
    fn encoded_len(&self, version: i16) -> Result<usize, EncodeError> {
        let mut count = Count::default();
        self.encode_into(&mut count, version)?;
        Ok(count.position())
    }
}

/// A request of an API.
pub trait Request: Message {
    /// The key of the API.
    const API_KEY: ApiKey;

    /// The versions of the [`RequestHeader`](crate::messages::RequestHeader) in front of it.
    const HEADER_VERSIONS: HeaderVersions = HeaderVersions::of_request(Self::FLEXIBLE_VERSIONS);

    /// Whether the broker answers: always, but for a `ProduceRequest` with `acks` = 0.
    #[inline]
    fn has_response(&self) -> bool {
        true
    }
}

/// A response of an API.
pub trait Response: Message {
    /// The key of the API.
    const API_KEY: ApiKey;

    /// The versions of the [`ResponseHeader`](crate::messages::ResponseHeader) in front of it. That of an
    /// `ApiVersionsResponse` is always 0, since its receiver cannot know yet what the sender supports (KIP-511).
    const HEADER_VERSIONS: HeaderVersions = HeaderVersions::of_response(Self::FLEXIBLE_VERSIONS);
}

/// A request whose response is known: both halves of an API.
pub trait Rpc: Request {
    /// The response, in the version of the request.
    type Response: Response;
}

/// Something to do with every type of message, for [`visit_messages`](crate::messages::visit_messages).
#[cfg(feature = "any")]
pub trait MessageVisitor {
    /// Is called once for every type.
    fn visit<M: Message>(&mut self);
}

#[inline(always)]
fn supported<M: Message>(version: i16) -> Result<(), DecodeError> {
    if M::VERSIONS.contains(version) { Ok(()) } else { Err(unsupported_decode(M::SCHEMA, version)) }
}

#[inline(always)]
fn finish<M: Message>(bytes: &[u8], r: &Reader<'_>, done: Result<(), Fault>) -> Result<(), DecodeError> {
    if done.is_err() || !r.rest().is_empty() {
        return Err(decode_error::<M>(bytes, r, done.err().unwrap_or(Fault::Trailing)));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn decode_error<M: Message>(bytes: &[u8], r: &Reader<'_>, fault: Fault) -> DecodeError {
    let offset = r.rest().as_ptr() as usize - bytes.as_ptr() as usize;
    walk::explain_decode(M::SCHEMA, bytes, r.version(), offset, fault)
}

/// Encodes once more, into a sink that shows how far it came.
#[cold]
#[inline(never)]
fn encode_error<M: Message>(message: &M, version: i16, fault: Fault) -> EncodeError {
    if fault == Fault::MessageTooLong {
        return EncodeError::new(M::SCHEMA.name, version, String::new(), EncodeReason::MessageTooLong);
    }
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, version, M::FLEXIBLE_VERSIONS.contains(version));
    let _ = message.write(&mut w);
    let checks = w.checks();
    walk::explain_encode(M::SCHEMA, &bytes, version, checks, fault)
}

#[cold]
#[inline(never)]
pub(crate) fn unsupported_decode(schema: &'static MessageSchema, version: i16) -> DecodeError {
    let reason = DecodeReason::UnsupportedVersion { supported: schema.versions };
    DecodeError::new(schema.name, version, String::new(), 0, reason)
}

#[cold]
#[inline(never)]
pub(crate) fn unsupported_encode(schema: &'static MessageSchema, version: i16) -> EncodeError {
    let reason = EncodeReason::UnsupportedVersion { supported: schema.versions };
    EncodeError::new(schema.name, version, String::new(), reason)
}
