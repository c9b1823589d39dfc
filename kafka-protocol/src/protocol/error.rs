use std::{error, fmt};

use super::Versions;

/// Why bytes are not a message: which message, in which version, which field, which byte.
///
/// ```
/// # #[cfg(feature = "share")] {
/// use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};
///
/// let error = ShareFetchRequest::decode(&b"\x02g\x02m\0\0"[..], 2).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "ShareFetchRequest v2: share_session_epoch at byte 4: need 4 bytes, 2 left",
/// );
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<Decode>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Decode {
    message: &'static str,
    version: i16,
    path: String,
    offset: usize,
    reason: DecodeReason,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(
        message: &'static str,
        version: i16,
        path: String,
        offset: usize,
        reason: DecodeReason,
    ) -> Self {
        Self(Box::new(Decode { message, version, path, offset, reason }))
    }

    /// The same, of a message that starts at byte `by`.
    #[cfg(feature = "inspect")]
    pub(crate) fn moved(mut self, by: usize) -> Self {
        self.0.offset += by;
        self
    }

    /// The name of the message in Kafka.
    pub fn message(&self) -> &'static str {
        self.0.message
    }

    /// The version in which it was read.
    pub fn version(&self) -> i16 {
        self.0.version
    }

    /// The field in Rust's names, such as `topics[3].partitions[0].partition_index`; empty for the message itself. It
    /// ends in `unknown_tagged_fields` for a tag section, unless it is about a field that travels there.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The offset of the bytes that are wrong, from the start of the message; in the dump of a frame, from the start
    /// of the frame.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// What is wrong there.
    pub fn reason(&self) -> &DecodeReason {
        &self.0.reason
    }
}

impl error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decode { message, version, path, offset, reason } = &*self.0;
        write!(f, "{message} v{version}: ")?;
        if let DecodeReason::UnsupportedVersion { .. } = reason {
            return write!(f, "{reason}");
        }
        if !path.is_empty() {
            write!(f, "{path} at ")?;
        }
        write!(f, "byte {offset}: {reason}")
    }
}

/// What is wrong with bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeReason {
    /// The message is not known in this version.
    UnsupportedVersion {
        /// The versions that are.
        supported: Versions,
    },
    /// The input ends inside a value, or before it.
    UnexpectedEnd {
        /// The bytes that the value takes; for a varint, those that are known to be missing.
        needed: usize,
        /// The bytes that are left.
        left: usize,
    },
    /// An array claims more elements than the rest of the input can hold.
    CountExceedsInput {
        /// The elements claimed.
        count: usize,
        /// The fewest bytes of an element.
        min_size: usize,
        /// The bytes that are left.
        left: usize,
    },
    /// A length below -1.
    NegativeLength {
        /// That length.
        length: i32,
    },
    /// Null where the version does not allow it.
    Null,
    /// A varint of more than five bytes.
    VarintTooLong,
    /// A varint that does not fit 32 bits.
    VarintOutOfRange,
    /// A varint that is longer than it has to be.
    VarintPadded,
    /// A string that is not UTF-8.
    InvalidUtf8 {
        /// The bytes of the string before the first that is wrong.
        valid_up_to: usize,
    },
    /// A string of more than 32767 bytes.
    StringTooLong {
        /// Its length.
        length: usize,
    },
    /// The marker of a nullable struct is neither null nor present.
    InvalidMarker {
        /// The byte.
        marker: u8,
    },
    /// A tag that is not above the one before it.
    TagOrder {
        /// The tag.
        tag: u32,
        /// The one before it; the same if the tag is there twice.
        after: u32,
    },
    /// A tag that the schema knows, but not in this version.
    TagNotInVersion {
        /// The tag.
        tag: u32,
        /// The versions that have it.
        versions: Versions,
    },
    /// A tagged value that ends before its size says. One that goes on behind it is an [unexpected
    /// end](Self::UnexpectedEnd).
    TagSize {
        /// The size of the value, as the input says.
        size: usize,
        /// The bytes that the value has.
        used: usize,
    },
    /// Bytes after the message.
    TrailingBytes {
        /// How many.
        left: usize,
    },
    /// The value would take many times the memory of its bytes, see
    /// [`Message::decode`](super::Message::decode). The path is that of the array that is too much.
    TooMuchMemory,
}

impl fmt::Display for DecodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedVersion { supported } => {
                write!(f, "not a supported version ({})", supported.named())
            }
            Self::UnexpectedEnd { needed, left } => {
                write!(f, "need {}, {left} left", count_of(*needed, "byte"))
            }
            Self::CountExceedsInput { count, min_size, left } => {
                let (count, min_size) = (count_of(*count, "element"), count_of(*min_size, "byte"));
                write!(f, "{count} of at least {min_size} claimed, {} left", count_of(*left, "byte"))
            }
            Self::NegativeLength { length } => write!(f, "negative length {length}"),
            Self::Null => f.write_str("null is not allowed in this version"),
            Self::VarintTooLong => f.write_str("varint of more than 5 bytes"),
            Self::VarintOutOfRange => f.write_str("varint does not fit 32 bits"),
            Self::VarintPadded => f.write_str("varint is longer than it has to be"),
            Self::InvalidUtf8 { valid_up_to } => {
                write!(f, "not UTF-8 from byte {valid_up_to} of the string on")
            }
            Self::StringTooLong { length } => {
                write!(f, "string of {length} bytes, at most 32767 are allowed")
            }
            Self::InvalidMarker { marker } => {
                write!(f, "0x{marker:02x} does not tell whether a struct is present")
            }
            Self::TagOrder { tag, after } if tag == after => write!(f, "tag {tag} is there twice"),
            Self::TagOrder { tag, after } => write!(f, "tag {tag} comes after tag {after}"),
            Self::TagNotInVersion { tag, versions } => {
                write!(f, "tag {tag} is not in this version ({})", versions.named())
            }
            Self::TagSize { size, used } => {
                write!(f, "tagged value of {}, but its size is {size}", count_of(*used, "byte"))
            }
            Self::TrailingBytes { left } => {
                write!(f, "{} after the end of the message", count_of(*left, "byte"))
            }
            Self::TooMuchMemory => f.write_str("the value would take many times the memory of the message"),
        }
    }
}

/// Why a value cannot be encoded in a version: which message, which field, and the versions that could.
///
/// ```
/// # #[cfg(feature = "share")] {
/// use kafka_protocol::{messages::ShareFetchRequest, protocol::Message};
///
/// let renewal = ShareFetchRequest { is_renew_ack: true, ..Default::default() };
/// assert_eq!(
///     renewal.encode(1).unwrap_err().to_string(),
///     "ShareFetchRequest v1: is_renew_ack: not in this version (versions 2+), and not its default false",
/// );
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(Box<Encode>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Encode {
    message: &'static str,
    version: i16,
    path: String,
    reason: EncodeReason,
}

impl EncodeError {
    #[cold]
    pub(crate) fn new(message: &'static str, version: i16, path: String, reason: EncodeReason) -> Self {
        Self(Box::new(Encode { message, version, path, reason }))
    }

    /// The name of the message in Kafka.
    pub fn message(&self) -> &'static str {
        self.0.message
    }

    /// The version in which it was to be written.
    pub fn version(&self) -> i16 {
        self.0.version
    }

    /// The field in Rust's names, such as `topics[3].partitions[0].partition_index`; empty for the message itself. It
    /// ends in `unknown_tagged_fields` for a tag section, unless it is about a field that travels there.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What is wrong with its value.
    pub fn reason(&self) -> &EncodeReason {
        &self.0.reason
    }
}

impl error::Error for EncodeError {}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encode { message, version, path, reason } = &*self.0;
        write!(f, "{message} v{version}: ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(f, "{reason}")
    }
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeReason {
    /// The message is not known in this version.
    UnsupportedVersion {
        /// The versions that are.
        supported: Versions,
    },
    /// The version lacks the field, and its value is not the default.
    NotInVersion {
        /// The versions that have the field.
        versions: Versions,
        /// The default, as text.
        default: String,
    },
    /// There are unknown tagged fields, and the version is not flexible.
    TagsNotInVersion {
        /// The versions that are.
        flexible: Versions,
    },
    /// Null where the version does not allow it.
    Null {
        /// The versions that do, perhaps none.
        nullable: Versions,
    },
    /// A string of more than 32767 bytes.
    StringTooLong,
    /// An unknown tagged field has a tag that the schema knows.
    KnownTag,
    /// The message would have more than 2147483647 bytes.
    MessageTooLong,
    /// A dynamic value (feature `dynamic`) is not of the type of its field, or a number out of its range.
    WrongType {
        /// The type of the field, as [`FieldType`](super::schema::FieldType) displays it.
        expected: String,
    },
}

impl fmt::Display for EncodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedVersion { supported } => {
                write!(f, "not a supported version ({})", supported.named())
            }
            Self::NotInVersion { versions, default } => {
                write!(f, "not in this version ({}), and not its default {default}", versions.named())
            }
            Self::TagsNotInVersion { flexible } => {
                write!(f, "no tagged fields in this version ({})", flexible.named())
            }
            Self::Null { nullable } if nullable.is_empty() => f.write_str("null is not allowed"),
            Self::Null { nullable } => {
                write!(f, "null is not allowed in this version ({})", nullable.named())
            }
            Self::StringTooLong => f.write_str("more than 32767 bytes of text"),
            Self::KnownTag => f.write_str("an unknown tagged field has a tag that the schema knows"),
            Self::MessageTooLong => f.write_str("more than 2147483647 bytes"),
            Self::WrongType { expected } => write!(f, "the value is not {expected}"),
        }
    }
}

/// `1 byte`, `2 bytes`.
fn count_of(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
