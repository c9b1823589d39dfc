use std::fmt;

use crate::wire::fixed_newtype;

/// What a consumer of a share group says of a record that it acquired (KIP-932, KIP-1222).
///
/// Stands in the acknowledgement batches of ShareFetch and ShareAcknowledge, one for a whole batch or one per offset.
/// The number on the wire is an int8; numbers without a name survive decoding and encoding.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AcknowledgeType(pub i8);

impl AcknowledgeType {
    /// 0: no record to deliver is at this offset, as in a compacted topic or behind a control record.
    pub const GAP: Self = Self(0);

    /// 1: processed; the record is done.
    pub const ACCEPT: Self = Self(1);

    /// 2: not processed; the record becomes available again, as long as deliveries are left.
    pub const RELEASE: Self = Self(2);

    /// 3: cannot be processed; the record is archived and not delivered again.
    pub const REJECT: Self = Self(3);

    /// 4: still being processed; the acquisition lock starts anew. Versions 2+ of both requests, which then also
    /// set `is_renew_ack` (KIP-1222).
    pub const RENEW: Self = Self(4);

    /// The name of the type, in lower case; `None` for a number without one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::GAP => Some("gap"),
            Self::ACCEPT => Some("accept"),
            Self::RELEASE => Some("release"),
            Self::REJECT => Some("reject"),
            Self::RENEW => Some("renew"),
            _ => None,
        }
    }
}

impl fmt::Debug for AcknowledgeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({})", self.0),
            None => write!(f, "AcknowledgeType({})", self.0),
        }
    }
}

impl From<i8> for AcknowledgeType {
    fn from(number: i8) -> Self {
        Self(number)
    }
}

impl From<AcknowledgeType> for i8 {
    fn from(ty: AcknowledgeType) -> Self {
        ty.0
    }
}

fixed_newtype!(AcknowledgeType(i8));
