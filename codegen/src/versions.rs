//! Ranges of versions, and the conditions that generated code tests.

use std::fmt;

/// A range of versions, both ends inclusive. An upper end of 32767 means "and all later ones".
///
/// Every empty range equals [`Versions::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    low: i16,
    high: i16,
}

impl Versions {
    /// No version.
    pub const NONE: Self = Self { low: 0, high: -1 };
    /// Every version.
    pub const ALL: Self = Self::since(0);

    /// From `low` to `high`; [`NONE`](Self::NONE) when `low` is above `high`.
    pub const fn new(low: i16, high: i16) -> Self {
        if low > high { Self::NONE } else { Self { low, high } }
    }

    /// From `low` on.
    pub const fn since(low: i16) -> Self {
        Self { low, high: i16::MAX }
    }

    /// Reads `none`, `3`, `1-2` or `3+`; text of blanks alone is `None`.
    ///
    /// Numbers are 0 to 32767 and may carry a plus sign. No blanks are allowed inside.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, as a sentence.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        match text {
            "" => return Ok(None),
            "none" => return Ok(Some(Self::NONE)),
            _ => {}
        }
        if let Some(low) = text.strip_suffix('+') {
            return Ok(Some(Self::since(number(low)?)));
        }
        match text.split_once('-') {
            Some((low, high)) => Ok(Some(Self::new(number(low)?, number(high)?))),
            None => number(text).map(|version| Some(Self::new(version, version))),
        }
    }

    /// The first version, 0 when there is none.
    pub const fn low(self) -> i16 {
        self.low
    }

    /// The last version, 32767 when open-ended and -1 when there is none.
    pub const fn high(self) -> i16 {
        self.high
    }

    /// Whether there is no version in the range.
    pub const fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// Whether the range has all versions from its first on.
    pub const fn is_open_ended(self) -> bool {
        self.high == i16::MAX
    }

    /// Whether `version` is in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.low <= version && version <= self.high
    }

    /// Whether every version of `other` is in the range; true of an empty `other`.
    pub const fn contains_all(self, other: Self) -> bool {
        other.is_empty() || (self.low <= other.low && other.high <= self.high)
    }

    /// The versions that are in both ranges.
    pub fn intersect(self, other: Self) -> Self {
        Self::new(self.low.max(other.low), self.high.min(other.high))
    }

    /// The smallest range that contains both.
    pub fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self::new(self.low.min(other.low), self.high.max(other.high)),
        }
    }

    /// The versions below `low`.
    pub fn before(self, low: i16) -> Self {
        if low == 0 { Self::NONE } else { self.intersect(Self::new(0, low - 1)) }
    }

    /// What has to be tested to know that a version of `context` is in the range.
    pub fn when(self, context: Self) -> When {
        let both = self.intersect(context);
        if both.is_empty() {
            When::Never
        } else if both == context {
            When::Always
        } else if both.high == context.high {
            When::Since(both.low)
        } else if both.low == both.high {
            When::Only(both.low)
        } else if both.low == context.low {
            When::Until(both.high)
        } else {
            When::Between(both.low, both.high)
        }
    }

    /// Every version, in ascending order. Of an open-ended range these are very many.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.low..=self.high
    }
}

fn number(text: &str) -> Result<i16, String> {
    if text.is_empty() {
        return Err("a range is `none`, `3`, `1-2` or `3+`".to_owned());
    }
    match text.parse::<i16>() {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(format!("`{text}` is not a version: a whole number from 0 to 32767")),
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { low, high } if low > high => f.write_str("none"),
            Self { low, high: i16::MAX } => write!(f, "{low}+"),
            Self { low, high } if low == high => write!(f, "{low}"),
            Self { low, high } => write!(f, "{low}-{high}"),
        }
    }
}

/// A condition on the version, folded against the versions that can occur where it is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every version that can occur.
    Always,
    /// In none.
    Never,
    /// `version >= .0`
    Since(i16),
    /// `version <= .0`
    Until(i16),
    /// `version == .0`
    Only(i16),
    /// `(.0..=.1).contains(&version)`
    Between(i16, i16),
}
