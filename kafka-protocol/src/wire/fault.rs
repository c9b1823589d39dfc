/// Why a codec stopped: one byte, so that `Result<(), Fault>` is a register.
///
/// Where it stopped is told by the cursor. What it means to a person is worked out on the cold path, see
/// [`DecodeError`](crate::protocol::DecodeError) and [`EncodeError`](crate::protocol::EncodeError).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The input ends inside a value.
    Short,
    /// A length below -1.
    NegativeLength,
    /// An array claims more elements than the rest of the input can hold.
    Count,
    /// A varint of more than five bytes, one that does not fit 32 bits, or one longer than it has to be.
    Varint,
    /// Null where the version does not allow it.
    Null,
    /// A string that is not UTF-8.
    Utf8,
    /// A string of more than 32767 bytes.
    StringTooLong,
    /// The marker of a nullable struct is neither null nor present.
    Marker,
    /// Tags that do not ascend, or an unknown tag among those that the schema knows.
    TagOrder,
    /// A tag that the schema knows, but not in this version.
    TagNotInVersion,
    /// A tagged value that is shorter or longer than its size says.
    TagSize,
    /// Bytes after the message.
    Trailing,
    /// The decoded value would take many times the memory of its bytes.
    Memory,
    /// A value that the version cannot carry.
    NotInVersion,
    /// A message of more than 2147483647 bytes.
    MessageTooLong,
}
