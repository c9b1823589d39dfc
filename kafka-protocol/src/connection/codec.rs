//! Frames as items of `tokio_util::codec::Framed`.

use std::io;

use tokio_util::codec::{Decoder, Encoder};

use crate::messages::{RequestHeader, ResponseHeader};
use crate::protocol::frame::{self, FrameError};
use crate::protocol::{Request, Response};
use crate::wire::{Bytes, BytesMut};

/// Cuts a stream of bytes into frames, and puts frames behind each other.
///
/// A frame comes out as its header and body, without its size: what [`frame::decode_request`],
/// [`frame::decode_response`] and [`Connection::receive_split`](super::Connection::receive_split) take. In goes such a
/// frame, or a header and a message.
///
/// Errors are `InvalidData` for what comes out and `InvalidInput` for what goes in, with a [`FrameError`] inside. After
/// an error for what goes in, the buffer is as it was.
///
/// ```
/// # #[cfg(feature = "share")] {
/// use kafka_protocol::connection::codec::FrameCodec;
/// use kafka_protocol::messages::ShareFetchRequest;
/// use kafka_protocol::protocol::frame;
/// use kafka_protocol::wire::BytesMut;
/// use tokio_util::codec::{Decoder, Encoder};
///
/// let mut codec = FrameCodec::default();
/// let mut bytes = BytesMut::new();
/// let header = frame::request_header::<ShareFetchRequest>(2, 17, "worker-1");
/// codec.encode((&header, &ShareFetchRequest::default()), &mut bytes)?;
///
/// let frame = codec.decode(&mut bytes)?.expect("a whole frame");
/// assert_eq!(frame::decode_request::<ShareFetchRequest>(frame)?.0, header);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCodec {
    /// The most bytes of a frame, its size not counted, in both directions.
    ///
    /// Default [`frame::DEFAULT_MAX_SIZE`].
    pub max_size: usize,
}

impl Default for FrameCodec {
    fn default() -> Self {
        Self { max_size: frame::DEFAULT_MAX_SIZE }
    }
}

impl FrameCodec {
    /// Takes back a frame that is above the limit.
    fn encoded(self, done: Result<(), FrameError>, start: usize, to: &mut BytesMut) -> io::Result<()> {
        let size = to.len().saturating_sub(start + frame::PREFIX);
        done.and_then(|()| {
            if size <= self.max_size {
                return Ok(());
            }
            to.truncate(start);
            Err(FrameError::TooLarge { size, max_size: self.max_size })
        })
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = io::Error;

    fn decode(&mut self, from: &mut BytesMut) -> io::Result<Option<Bytes>> {
        frame::split(from, self.max_size).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// A header and a body that are already encoded.
impl Encoder<Bytes> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, frame: Bytes, to: &mut BytesMut) -> io::Result<()> {
        let start = to.len();
        let done = frame::put_size(to, frame.len(), self.max_size);
        if done.is_ok() {
            to.extend_from_slice(&frame);
        }
        self.encoded(done, start, to)
    }
}

/// A request in the version that its header names.
impl<R: Request> Encoder<(&RequestHeader, &R)> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, (header, request): (&RequestHeader, &R), to: &mut BytesMut) -> io::Result<()> {
        let start = to.len();
        let done = frame::encode_request(to, header, request);
        self.encoded(done, start, to)
    }
}

/// A response in the version of its request.
impl<R: Response> Encoder<(&ResponseHeader, &R, i16)> for FrameCodec {
    type Error = io::Error;

    fn encode(
        &mut self,
        (header, response, version): (&ResponseHeader, &R, i16),
        to: &mut BytesMut,
    ) -> io::Result<()> {
        let start = to.len();
        let done = frame::encode_response(to, header, response, version);
        self.encoded(done, start, to)
    }
}
