use std::fmt;

/// A range of versions, both ends inclusive.
///
/// An upper end of 32767 means "and all later ones", as for the flexible versions of every message. Every empty
/// range equals [`Versions::NONE`]. Displayed as Kafka's schemas write it: `none`, `3`, `1-2`, `3+`.
///
/// ```
/// use kafka_protocol::protocol::Versions;
///
/// assert!(Versions::new(1, 2).contains(2));
/// assert_eq!(Versions::since(3).to_string(), "3+");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions {
    min: i16,
    max: i16,
}

impl Versions {
    /// No version.
    pub const NONE: Self = Self { min: 0, max: -1 };

    /// From `min` to `max`; [`NONE`](Self::NONE) when `min` is above `max`.
    pub const fn new(min: i16, max: i16) -> Self {
        if min > max { Self::NONE } else { Self { min, max } }
    }

    /// From `min` on.
    pub const fn since(min: i16) -> Self {
        Self { min, max: i16::MAX }
    }

    /// The first version, 0 when there is none.
    pub const fn min(self) -> i16 {
        self.min
    }

    /// The last version, 32767 when the range is open-ended and -1 when there is none.
    pub const fn max(self) -> i16 {
        self.max
    }

    /// Whether there is no version in the range.
    pub const fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// Whether `version` is in the range.
    #[inline(always)]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that are in both ranges.
    pub const fn intersect(self, other: Self) -> Self {
        let min = if self.min > other.min { self.min } else { other.min };
        let max = if self.max < other.max { self.max } else { other.max };
        Self::new(min, max)
    }

    /// Every version, in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i16> {
        self.min..=self.max
    }

    /// `version 1`, `versions 2+`.
    pub(crate) fn named(self) -> String {
        if self.min == self.max { format!("version {self}") } else { format!("versions {self}") }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { min, max } if min > max => f.write_str("none"),
            Self { min, max: i16::MAX } => write!(f, "{min}+"),
            Self { min, max } if min == max => write!(f, "{min}"),
            Self { min, max } => write!(f, "{min}-{max}"),
        }
    }
}
