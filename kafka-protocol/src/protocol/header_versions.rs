use super::Versions;

/// Which header stands in front of a body, by the version of the body.
///
/// Defined for every version, supported or not, since a header has to be read before it is known whether the body's
/// version is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderVersions {
    /// The header of versions that nothing else is said of.
    base: i16,
    /// Versions with the header after `base`.
    flexible: Versions,
    /// What a schema says itself: the last version of a range, and its header.
    given: &'static [(i16, i16)],
}

impl HeaderVersions {
    /// The general rule for requests: 2 in flexible versions, else 1.
    pub const fn of_request(flexible: Versions) -> Self {
        Self { base: 1, flexible, given: &[] }
    }

    /// The general rule for responses: 1 in flexible versions, else 0.
    pub const fn of_response(flexible: Versions) -> Self {
        Self { base: 0, flexible, given: &[] }
    }

    /// The same header in all versions.
    pub const fn always(header: i16) -> Self {
        Self { base: header, flexible: Versions::NONE, given: &[] }
    }

    /// Headers of ranges, each with its last version, and of all versions behind them.
    pub const fn ranges(given: &'static [(i16, i16)], then: i16) -> Self {
        Self { base: then, flexible: Versions::NONE, given }
    }

    /// The version of the header in front of a body of `version`.
    pub fn of(self, version: i16) -> i16 {
        let given = self.given.iter().find(|range| version <= range.0);
        match given {
            Some(range) => range.1,
            None => self.base + i16::from(self.flexible.contains(version)),
        }
    }
}
