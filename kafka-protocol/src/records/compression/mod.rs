//! Compression of records: one module per codec, and what they have in common.

#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;

use super::RecordsReason;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip; feature `gzip`.
    Gzip,
    /// Snappy in the framing of Java's snappy library; raw Snappy is read as well. Feature `snappy`.
    Snappy,
    /// LZ4 frames; feature `lz4`. Magic 0 has a wrong header checksum, as Kafka's first writer computed it.
    Lz4,
    /// Zstandard; feature `zstd`. Magic 2 only; Produce 7+, Fetch 10+ (KIP-110).
    Zstd,
}

impl Compression {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in the attributes of a batch.
    #[inline]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The codec of a number in the attributes of a batch.
    #[inline]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name, as in Kafka's `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this build can read and write it: whether its feature is on.
    pub const fn is_enabled(self) -> bool {
        match self {
            Self::None => true,
            Self::Gzip => cfg!(feature = "gzip"),
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The levels that can be asked for, and the one taken otherwise; `None` where there are none.
    pub(super) fn levels(self) -> Option<(std::ops::RangeInclusive<i32>, i32)> {
        match self {
            Self::Gzip => Some((1..=9, 6)),
            #[cfg(feature = "zstd")]
            Self::Zstd => Some((zstd::levels(), 3)),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Inflates what follows the header of a batch, or the value of an old message, to at most `limit` bytes.
#[cfg_attr(not(feature = "lz4"), expect(unused_variables, reason = "the old formats differ in LZ4 only"))]
pub(super) fn decompress(
    compression: Compression,
    magic: i8,
    input: &[u8],
    limit: usize,
) -> Result<Vec<u8>, RecordsReason> {
    match compression {
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::decompress(input, limit).map_err(|fault| fault.of(compression, limit)),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::decompress(input, limit).map_err(|fault| fault.of(compression, limit)),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => {
            lz4::decompress(input, magic, limit).map_err(|fault| fault.of(compression, limit))
        }
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::decompress(input, limit).map_err(|fault| fault.of(compression, limit)),
        _ => Err(RecordsReason::CompressionDisabled { compression }),
    }
}

/// Appends the compressed form of records. The codec is enabled and has this level.
///
/// # Errors
///
/// What the codec says, for instance that memory is short.
#[cfg_attr(
    not(any(feature = "gzip", feature = "zstd")),
    expect(unused_variables, reason = "the other codecs have no levels")
)]
pub(super) fn compress(
    compression: Compression,
    level: i32,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match compression {
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::compress(level, records, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::compress(records, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::compress(records, out),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::compress(level, records, out),
        _ => {
            out.extend_from_slice(records);
            Ok(())
        }
    }
}

/// Why a stream cannot be inflated.
#[cfg(any(feature = "gzip", feature = "lz4", feature = "snappy", feature = "zstd"))]
#[derive(Debug)]
enum Fault {
    /// More would come out than allowed.
    Limit,
    Damaged(String),
}

#[cfg(any(feature = "gzip", feature = "lz4", feature = "snappy", feature = "zstd"))]
impl Fault {
    #[cold]
    fn damaged(error: impl fmt::Display) -> Self {
        Self::Damaged(error.to_string())
    }

    fn of(self, compression: Compression, limit: usize) -> RecordsReason {
        match self {
            Self::Limit => RecordsReason::DecompressedSize { limit },
            Self::Damaged(message) => RecordsReason::Decompress { compression, message },
        }
    }
}

/// Reads to the end, or until `limit` bytes are there in all.
#[cfg(any(feature = "gzip", feature = "zstd"))]
fn read_to_limit(reader: impl std::io::Read, out: &mut Vec<u8>, limit: usize) -> Result<(), Fault> {
    use std::io::Read as _;
    // One byte more than allowed shows that there is more.
    let allowed = (limit - out.len()) as u64 + 1;
    reader.take(allowed).read_to_end(out).map_err(Fault::damaged)?;
    if out.len() > limit { Err(Fault::Limit) } else { Ok(()) }
}
