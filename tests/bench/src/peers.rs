//! One adapter per codec, ours included, and the cases that are made of them.

use std::{
    fmt::{self, Debug},
    hint::black_box,
    rc::Rc,
};

use bytes::{Bytes, BytesMut};

use crate::{
    harness::{Case, Operation},
    workloads::{self, Workload},
};

/// A message in the type that one codec has for it.
pub trait Codec: Sized + 'static {
    /// The codec's name and version.
    const NAME: &'static str;
    /// The newest version of the message that the codec has; most have all that are measured.
    const NEWEST: i16 = i16::MAX;
    /// What the codec writes into fastest.
    type Buffer: Buffer;

    /// Reads a value that owns all that it has.
    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug>;
    /// Appends the value.
    fn encode(&self, to: &mut Self::Buffer, version: i16) -> Result<(), impl Debug>;
    /// How many bytes `encode` appends.
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug>;
}

/// What codecs write into.
pub trait Buffer: AsRef<[u8]> + 'static {
    /// An empty buffer with room.
    fn with_capacity(capacity: usize) -> Self;
    /// Empties the buffer and keeps its room.
    fn clear(&mut self);
}

macro_rules! buffers {
    ($($Buffer:ty)*) => {$(
        impl Buffer for $Buffer {
            fn with_capacity(capacity: usize) -> Self {
                Self::with_capacity(capacity)
            }
            fn clear(&mut self) {
                self.clear();
            }
        }
    )*};
}
buffers! { Vec<u8> BytesMut }

/// The name of the codec that is measured.
pub const OURS: &str = "ours";

/// The codec that is measured: new values, and into a `Vec`.
pub struct Ours<T>(T);

impl<T: kafka_protocol::protocol::Message + 'static> Codec for Ours<T> {
    const NAME: &'static str = OURS;
    type Buffer = Vec<u8>;

    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
        T::decode(bytes.clone(), version).map(Self)
    }
    fn encode(&self, to: &mut Vec<u8>, version: i16) -> Result<(), impl Debug> {
        self.0.encode_into(to, version)
    }
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
        self.0.encoded_len(version)
    }
}

/// The same, its other way: over a value, and into a `BytesMut`.
pub struct OursAside<T>(T);

impl<T: kafka_protocol::protocol::Message + 'static> OursAside<T> {
    #[inline(never)]
    fn decode_from(&mut self, bytes: &Bytes, version: i16) -> Result<(), impl Debug + use<T>> {
        self.0.decode_from(bytes, version)
    }
}

impl<T: kafka_protocol::protocol::Message + 'static> Codec for OursAside<T> {
    const NAME: &'static str = OURS;
    type Buffer = BytesMut;

    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
        let mut value = Self(T::default());
        value.decode_from(bytes, version).map(|()| value)
    }
    fn encode(&self, to: &mut BytesMut, version: i16) -> Result<(), impl Debug> {
        self.0.encode_into(to, version)
    }
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
        self.0.encoded_len(version)
    }
}

/// The crate `kafka-protocol` of crates.io.
pub struct KafkaProtocol<T>(T);

impl<T> Codec for KafkaProtocol<T>
where
    T: kafka_protocol_018::protocol::Message
        + kafka_protocol_018::protocol::Encodable
        + kafka_protocol_018::protocol::Decodable
        + 'static,
{
    const NAME: &'static str = "kafka-protocol 0.18";
    const NEWEST: i16 = T::VERSIONS.max;
    type Buffer = BytesMut;

    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
        T::decode(&mut bytes.clone(), version).map(Self)
    }
    fn encode(&self, to: &mut BytesMut, version: i16) -> Result<(), impl Debug> {
        self.0.encode(to, version)
    }
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
        self.0.compute_size(version)
    }
}

/// The crate `krabka-protocol`, of which the workloads are made.
pub struct Krabka<T>(T);

impl<T> Codec for Krabka<T>
where
    T: krabka_protocol::Encode + for<'a> krabka_protocol::Decode<'a> + 'static,
{
    const NAME: &'static str = "krabka 0.8";
    type Buffer = BytesMut;

    // From a slice: it copies records either way, and all else is faster than from `Bytes`.
    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
        T::decode(&mut &bytes[..], version).map(Self)
    }
    fn encode(&self, to: &mut BytesMut, version: i16) -> Result<(), impl Debug> {
        self.0.encode(to, version)
    }
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
        Ok::<_, krabka_protocol::ProtocolError>(self.0.encoded_len(version))
    }
}

/// The crate `kafka-wire`.
pub struct KafkaWire<T>(T);

impl<T> Codec for KafkaWire<T>
where
    T: kafka_wire_core::KafkaEncode + kafka_wire_core::KafkaDecode + 'static,
{
    const NAME: &'static str = "kafka-wire 0.1";
    type Buffer = BytesMut;

    fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
        let limits = kafka_wire_core::DecodeLimits::default();
        let mut decoder = kafka_wire_core::Decoder::new(bytes.clone(), limits)?;
        T::decode(&mut decoder, kafka_wire_core::ApiVersion::new(version)).map(Self)
    }
    // Not `encode_into`, which sizes the message first and takes 1.5 times as long.
    fn encode(&self, to: &mut BytesMut, version: i16) -> Result<(), impl Debug> {
        let mut encoder = kafka_wire_core::Encoder::new(to);
        self.0.encode(&mut encoder, kafka_wire_core::ApiVersion::new(version))
    }
    fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
        self.0.encoded_len(kafka_wire_core::ApiVersion::new(version))
    }
}

/// The crate `kacrab-protocol`.
pub struct Kacrab<T>(T);

/// A message of the workloads, named by krabka's type for it, and the types that the other codecs have.
trait Message: krabka_protocol::Encode + for<'a> krabka_protocol::Decode<'a> + 'static {
    const NAME: &'static str;
    /// The version that is measured of all codecs that have it.
    const VERSION: i16;
    type Ours: kafka_protocol::protocol::Message + 'static;
    type KafkaProtocol: Codec;
    type KafkaWire: Codec;
    type Kacrab: Codec;
}

macro_rules! messages {
    ($($Message:ident, $version:literal, $module:ident, $Kacrab:ident;)*) => {$(
        impl Message for krabka_protocol::owned::$module::$Message {
            const NAME: &'static str = stringify!($Message);
            const VERSION: i16 = $version;
            type Ours = kafka_protocol::messages::$Message;
            type KafkaProtocol = KafkaProtocol<kafka_protocol_018::messages::$Message>;
            type KafkaWire = KafkaWire<kafka_wire::$Message>;
            type Kacrab = Kacrab<kacrab_protocol::generated::$module::$Kacrab>;
        }

        // kacrab has no trait for messages.
        impl Codec for Kacrab<kacrab_protocol::generated::$module::$Kacrab> {
            const NAME: &'static str = "kacrab 0.4";
            type Buffer = BytesMut;

            fn decode(bytes: &Bytes, version: i16) -> Result<Self, impl Debug> {
                kacrab_protocol::generated::$module::$Kacrab::read(&mut bytes.clone(), version).map(Self)
            }
            fn encode(&self, to: &mut BytesMut, version: i16) -> Result<(), impl Debug> {
                self.0.write(to, version)
            }
            fn encoded_len(&self, version: i16) -> Result<usize, impl Debug> {
                self.0.encoded_len(version)
            }
        }
    )*};
}
messages! {
    ShareFetchRequest, 2, share_fetch_request, ShareFetchRequestData;
    ShareFetchResponse, 2, share_fetch_response, ShareFetchResponseData;
    ShareAcknowledgeRequest, 2, share_acknowledge_request, ShareAcknowledgeRequestData;
    ShareAcknowledgeResponse, 2, share_acknowledge_response, ShareAcknowledgeResponseData;
    MetadataResponse, 12, metadata_response, MetadataResponseData;
}

/// What to know of the tables.
pub const NOTES: &str = "\
All at the same version, except kafka-protocol 0.18: of the share messages it has only version 1, which costs the same.
Ours encodes into a `Vec`, a peer into what suits it best, all with room; decoding includes the drop.
encode_bytesmut and decode_from (over a value of the same shape) are compared with encode and decode of the peers.";

/// All workloads and all cases.
pub struct Suite {
    /// The workloads, in the order of the tables.
    pub workloads: Vec<Workload>,
    /// The cases of all workloads.
    pub cases: Vec<Case>,
}

/// A codec that reads or writes a workload differently from the others.
pub struct Mismatch {
    workload: &'static str,
    codec: &'static str,
    version: i16,
    what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, codec, version, what } = self;
        write!(f, "workload {workload}, version {version}: {codec} {what}")
    }
}

impl Suite {
    /// Makes all cases whose rows match the filter, after having checked that all codecs agree on the bytes.
    pub fn new(filter: &str) -> Result<Self, Vec<Mismatch>> {
        let mut builder = Builder { suite: Self { workloads: vec![], cases: vec![] }, mismatches: vec![] };
        builder.add("a", "10 topics x 10 partitions x 3 batches", workloads::share_fetch_request(10, 10));
        builder.add("b", "10 topics x 10 partitions, no records", workloads::share_fetch_response(0));
        builder.add("b-1KiB", "as b, 1 KiB of records per partition", workloads::share_fetch_response(1024));
        builder.add("c", "10 topics x 10 partitions x 3 batches", workloads::share_acknowledge_request());
        builder.add("d", "10 topics x 10 partitions", workloads::share_acknowledge_response());
        builder.add("e", "1000 topics x 3 partitions", workloads::metadata_response());
        builder.add("tiny", "1 topic x 1 partition x 3 batches", workloads::share_fetch_request(1, 1));
        let Builder { mut suite, mismatches } = builder;
        if !mismatches.is_empty() {
            return Err(mismatches);
        }
        suite.retain(filter);
        Ok(suite)
    }

    /// The operations of a workload that match the filter: the rows of its table.
    pub fn rows<'a>(workload: &'a Workload, filter: &'a str) -> impl Iterator<Item = Operation> + 'a {
        Operation::ALL.into_iter().filter(|&operation| workload.matches(operation, filter))
    }

    /// The names of all codecs, ours first.
    pub fn codecs(&self) -> Vec<&'static str> {
        let mut codecs = Vec::new();
        for case in &self.cases {
            if !codecs.contains(&case.codec) {
                codecs.push(case.codec);
            }
        }
        codecs
    }

    fn retain(&mut self, filter: &str) {
        let Self { workloads, cases } = self;
        workloads.retain(|workload| Self::rows(workload, filter).next().is_some());
        cases.retain(|case| {
            let is_of_row =
                |row: Operation| case.operation == if case.codec == OURS { row } else { row.of_peers() };
            workloads
                .iter()
                .any(|workload| workload.name == case.workload && Self::rows(workload, filter).any(is_of_row))
        });
    }
}

struct Builder {
    suite: Suite,
    mismatches: Vec<Mismatch>,
}

impl Builder {
    /// Adds the cases of all codecs for one value.
    fn add<M: Message>(&mut self, workload: &'static str, content: &'static str, value: M) {
        let bytes = |version| {
            let mut bytes = BytesMut::new();
            value.encode(&mut bytes, version).expect("krabka writes its own value");
            bytes.freeze()
        };
        let size = bytes(M::VERSION).len();
        self.suite.workloads.push(Workload {
            name: workload,
            message: M::NAME,
            version: M::VERSION,
            content,
            size,
        });

        let older = M::VERSION.min(M::KafkaProtocol::NEWEST);
        self.check::<Ours<M::Ours>>(workload, &bytes(older), older);
        self.add_codec::<M, Ours<M::Ours>>(workload, bytes);
        self.add_ours::<M>(workload, bytes(M::VERSION));
        self.add_codec::<M, M::KafkaProtocol>(workload, bytes);
        self.add_codec::<M, Krabka<M>>(workload, bytes);
        self.add_codec::<M, M::KafkaWire>(workload, bytes);
        self.add_codec::<M, M::Kacrab>(workload, bytes);
    }

    fn add_codec<M: Message, C: Codec>(&mut self, workload: &'static str, bytes: impl Fn(i16) -> Bytes) {
        let version = M::VERSION.min(C::NEWEST);
        let bytes = bytes(version);
        let Some(value) = self.check::<C>(workload, &bytes, version).map(Rc::new) else { return };
        match encoded_len(&*value, version) {
            Ok(length) if length == bytes.len() => {}
            length => {
                let what = format!("writes {} bytes, but says {length:?}", bytes.len());
                self.mismatches.push(Mismatch { workload, codec: C::NAME, version, what });
            }
        }
        let sized = value.clone();
        self.suite.cases.extend([
            encoding(workload, Operation::Encode, value, version, bytes.len()),
            Case::new(workload, C::NAME, Operation::EncodedLen, move || {
                encoded_len(black_box(&*sized), black_box(version)).expect(CHECKED)
            }),
            Case::new(workload, C::NAME, Operation::Decode, move || {
                decode::<C>(black_box(&bytes), black_box(version)).expect(CHECKED)
            }),
        ]);
    }

    /// Adds what only ours can do.
    fn add_ours<M: Message>(&mut self, workload: &'static str, bytes: Bytes) {
        let version = M::VERSION;
        let Some(value) = self.check::<OursAside<M::Ours>>(workload, &bytes, version) else { return };
        let mut reused = OursAside(M::Ours::default());
        self.suite.cases.extend([
            encoding(workload, Operation::EncodeBytesMut, Rc::new(value), version, bytes.len()),
            Case::new(workload, OURS, Operation::DecodeFrom, move || {
                reused.decode_from(black_box(&bytes), black_box(version)).expect(CHECKED);
            }),
        ]);
    }

    /// Lets a codec read the bytes and write them again.
    fn check<C: Codec>(&mut self, workload: &'static str, bytes: &Bytes, version: i16) -> Option<C> {
        let what = match again(bytes, version) {
            Ok(value) => return Some(value),
            Err(what) => what,
        };
        self.mismatches.push(Mismatch { workload, codec: C::NAME, version, what });
        None
    }
}

const CHECKED: &str = "the codec did it when it was checked";

/// Encodes into a buffer with room to spare: some peers reserve more than they write.
fn encoding<C: Codec>(
    workload: &'static str,
    operation: Operation,
    value: Rc<C>,
    version: i16,
    size: usize,
) -> Case {
    let mut buffer = C::Buffer::with_capacity(2 * size + 64);
    Case::new(workload, C::NAME, operation, move || {
        buffer.clear();
        encode(black_box(&*value), &mut buffer, black_box(version)).expect(CHECKED);
        buffer.as_ref().len()
    })
}

/// Reads the bytes and writes them again, or tells what went wrong.
fn again<C: Codec>(bytes: &Bytes, version: i16) -> Result<C, String> {
    let value: C = decode(bytes, version).map_err(|error| format!("refuses the bytes: {error:?}"))?;
    let mut again = C::Buffer::with_capacity(bytes.len());
    encode(&value, &mut again, version).map_err(|error| format!("does not encode: {error:?}"))?;
    let again = again.as_ref();
    if again == bytes {
        return Ok(value);
    }
    let at = again.iter().zip(bytes).take_while(|(one, other)| one == other).count();
    let byte = |of: &[u8]| of.get(at).map_or("none".to_owned(), |byte| format!("{byte:#04x}"));
    Err(format!(
        "writes {} bytes instead of {}; the first that differs is byte {at}: {} instead of {}",
        again.len(),
        bytes.len(),
        byte(again),
        byte(bytes)
    ))
}

// Each operation is compiled once, on its own: what the compiler inlines, and with it the time, would otherwise
// depend on how often this program has the same call.

#[inline(never)]
fn decode<C: Codec>(bytes: &Bytes, version: i16) -> Result<C, impl Debug> {
    C::decode(bytes, version)
}

#[inline(never)]
fn encode<C: Codec>(value: &C, to: &mut C::Buffer, version: i16) -> Result<(), impl Debug> {
    value.encode(to, version)
}

#[inline(never)]
fn encoded_len<C: Codec>(value: &C, version: i16) -> Result<usize, impl Debug> {
    value.encoded_len(version)
}
