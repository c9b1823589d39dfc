use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::required_version;
use crate::protocol::AcknowledgeType;

/// Acknowledgements of one partition: for each offset an [`AcknowledgeType`], later ones replace earlier ones.
///
/// Offsets that come in ascending order, as records do, take a byte each, and long ranges of one type nothing more for
/// each offset. All others go to a tree.
///
/// ```
/// use kafka_protocol::protocol::AcknowledgeType;
/// use kafka_protocol::share::PartitionAcknowledgements;
///
/// let mut acknowledgements = PartitionAcknowledgements::default();
/// acknowledgements.set_range(0, 9, AcknowledgeType::ACCEPT);
/// acknowledgements.set(10, AcknowledgeType::REJECT);
/// acknowledgements.set(4, AcknowledgeType::RELEASE);
///
/// let batches = acknowledgements.batches();
/// assert_eq!((batches.len(), batches[0].first_offset, batches[0].last_offset), (1, 0, 10));
/// assert_eq!(batches[0].acknowledge_types[4], AcknowledgeType::RELEASE);
/// assert_eq!(PartitionAcknowledgements::from_batches(&batches)?, acknowledgements);
/// # Ok::<(), kafka_protocol::share::ExpandError>(())
/// ```
#[derive(Clone)]
pub struct PartitionAcknowledgements {
    /// Ascending, disjoint. Of two that follow one another without a hole, only one is mixed, and types that meet
    /// differ.
    segments: Vec<Segment>,
    /// The types of all mixed segments, one after another.
    types: Vec<AcknowledgeType>,
    /// The last offset of the last segment; `i64::MIN` if there is none.
    last: i64,
    /// Whether the last segment is mixed.
    is_mixed: bool,
    /// What came out of order, by first offset; disjoint, and at no offset behind the last segment. Overrules the
    /// segments.
    late: BTreeMap<i64, (i64, AcknowledgeType)>,
}

/// Offsets that follow one another.
#[derive(Clone, Copy)]
struct Segment {
    first: i64,
    /// Where in `types` a mixed segment begins. It ends where the next segment begins, or at the end.
    start: usize,
    /// The last offset and the type of a uniform segment, which is long.
    uniform: Option<(i64, AcknowledgeType)>,
}

/// A segment with all that is in it.
pub(super) enum Part<'a> {
    /// More than [`SHORT`] offsets of one type: first and last.
    Uniform(i64, i64, AcknowledgeType),
    /// The types from an offset on.
    Mixed(i64, &'a [AcknowledgeType]),
}

/// Ranges of one type up to this long are kept as a byte for each offset.
const SHORT: u64 = 16;

impl Default for PartitionAcknowledgements {
    fn default() -> Self {
        let (segments, types, late) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { segments, types, last: i64::MIN, is_mixed: false, late }
    }
}

impl PartitionAcknowledgements {
    /// Acknowledges an offset; replaces what was said of it before.
    #[inline]
    pub fn set(&mut self, offset: i64, ty: AcknowledgeType) {
        if self.is_mixed && offset > self.last && offset - 1 == self.last {
            self.types.push(ty);
            self.last = offset;
        } else {
            self.set_range(offset, offset, ty);
        }
    }

    /// Acknowledges the offsets from `first` to `last`, both inclusive; none if `first` is above `last`.
    pub fn set_range(&mut self, first: i64, last: i64, ty: AcknowledgeType) {
        if first > last {
            return;
        }
        if self.segments.is_empty() || first > self.last {
            self.append(first, last, ty);
        } else if last <= self.last {
            self.set_late(first, last, ty);
        } else {
            let end = self.last;
            self.set_late(first, end, ty);
            self.append(end + 1, last, ty);
        }
    }

    /// Adds all of `later`, which replaces what was said of the same offsets before.
    pub fn merge(&mut self, later: Self) {
        if self.is_empty() {
            *self = later;
        } else {
            for (first, last, ty) in later.ranges() {
                self.set_range(first, last, ty);
            }
        }
    }

    /// What is said of an offset.
    pub fn get(&self, offset: i64) -> Option<AcknowledgeType> {
        if let Some((_, &(last, ty))) = self.late.range(..=offset).next_back()
            && offset <= last
        {
            return Some(ty);
        }
        let behind = self.segments.partition_point(|segment| segment.first <= offset);
        match self.part(behind.checked_sub(1)?) {
            Part::Uniform(_, last, ty) => (offset <= last).then_some(ty),
            Part::Mixed(first, types) => {
                types.get(usize::try_from(offset.wrapping_sub(first) as u64).ok()?).copied()
            }
        }
    }

    /// Maximal ranges of offsets that follow one another and have one type: first and last offset, both inclusive,
    /// and the type. Ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, i64, AcknowledgeType)> + '_ {
        let whole = self.whole();
        let (mut segment, mut at) = (0, 0);
        std::iter::from_fn(move || {
            if segment == whole.segments.len() {
                return None;
            }
            let (range, is_last) = match whole.part(segment) {
                Part::Uniform(first, last, ty) => ((first, last, ty), true),
                Part::Mixed(first, types) => {
                    let (from, ty) = (at, types[at]);
                    at += types[at..].iter().take_while(|of| **of == ty).count();
                    ((first + from as i64, first + (at as i64 - 1), ty), at == types.len())
                }
            };
            if is_last {
                (segment, at) = (segment + 1, 0);
            }
            Some(range)
        })
    }

    /// Every offset with its type, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (i64, AcknowledgeType)> + '_ {
        self.ranges().flat_map(|(first, last, ty)| (first..=last).map(move |offset| (offset, ty)))
    }

    /// Whether no offset is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many offsets are acknowledged. All of 64 bits count as one less.
    pub fn len(&self) -> u64 {
        self.sum(|_| true)
    }

    /// How many offsets have this type. All of 64 bits count as one less.
    pub fn count(&self, ty: AcknowledgeType) -> u64 {
        self.sum(|of| of == ty)
    }

    /// Whether any offset is renewed, so that the request has to set `is_renew_ack` (KIP-1222).
    pub fn has_renew(&self) -> bool {
        self.whole().parts().any(|part| match part {
            Part::Uniform(.., ty) => ty == AcknowledgeType::RENEW,
            Part::Mixed(_, types) => types.contains(&AcknowledgeType::RENEW),
        })
    }

    /// The lowest version of ShareFetch and ShareAcknowledge that can carry them: 2 with a renewal, else 1.
    pub fn required_version(&self) -> i16 {
        required_version(self.has_renew())
    }

    fn sum(&self, counts: impl Fn(AcknowledgeType) -> bool) -> u64 {
        let of = |part| match part {
            Part::Uniform(first, last, ty) if counts(ty) => {
                (last.wrapping_sub(first) as u64).saturating_add(1)
            }
            Part::Uniform(..) => 0,
            Part::Mixed(_, types) => types.iter().filter(|ty| counts(**ty)).count() as u64,
        };
        self.whole().parts().map(of).fold(0, u64::saturating_add)
    }

    /// The same without anything late.
    pub(super) fn whole(&self) -> Cow<'_, Self> {
        if self.late.is_empty() { Cow::Borrowed(self) } else { Cow::Owned(self.merged()) }
    }

    /// The segments; nothing may be late.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        (0..self.segments.len()).map(|at| self.part(at))
    }

    fn part(&self, at: usize) -> Part<'_> {
        let segment = self.segments[at];
        match segment.uniform {
            Some((last, ty)) => Part::Uniform(segment.first, last, ty),
            None => {
                let end = self.segments.get(at + 1).map_or(self.types.len(), |next| next.start);
                Part::Mixed(segment.first, &self.types[segment.start..end])
            }
        }
    }

    /// The segments overruled by what is late.
    fn merged(&self) -> Self {
        let mut merged = Self::default();
        let mut late = self.late.iter().map(|(&first, &(last, ty))| (first, last, ty)).peekable();
        // Wider than an offset, as the one behind the last offset of all is none.
        let mut next = i128::from(i64::MIN);
        let early = Self { late: BTreeMap::new(), ..self.clone() };
        for (first, last, ty) in early.ranges() {
            next = next.max(first.into());
            while let Some(over) = late.next_if(|over| over.0 <= last) {
                if next < over.0.into() {
                    merged.append(next as i64, over.0 - 1, ty);
                }
                merged.append(over.0, over.1, over.2);
                next = next.max(i128::from(over.1) + 1);
            }
            if next <= last.into() {
                merged.append(next as i64, last, ty);
            }
        }
        merged
    }

    /// Takes what follows on the last segment, which is mixed, as long as it does, and what comes then.
    fn extend_mixed(&mut self, acknowledgements: &mut impl Iterator<Item = (i64, AcknowledgeType)>) {
        // Not `self.last`: one that is written for each offset is waited for by the next.
        let mut last = self.last;
        self.types.reserve(acknowledgements.size_hint().0);
        let other = acknowledgements.find(|&(offset, ty)| {
            let follows = offset > last && offset - 1 == last;
            if follows {
                self.types.push(ty);
                last = offset;
            }
            !follows
        });
        self.last = last;
        if let Some((offset, ty)) = other {
            self.set(offset, ty);
        }
    }

    /// Adds offsets behind all that are there.
    fn append(&mut self, mut first: i64, last: i64, ty: AcknowledgeType) {
        let follows = !self.segments.is_empty() && first - 1 == self.last;
        let is_long = last.wrapping_sub(first) as u64 >= SHORT;
        let end = self.segments.last_mut().filter(|_| follows);
        if let Some((end, of)) = end.and_then(|end| end.uniform.as_mut())
            && *of == ty
        {
            *end = last;
        } else if is_long {
            // Nothing of the same type stays in front of it.
            while follows && self.is_mixed && self.types.last() == Some(&ty) {
                self.types.pop();
                first -= 1;
                if self.segments.last().is_some_and(|segment| segment.start == self.types.len()) {
                    self.segments.pop();
                    break;
                }
            }
            self.segments.push(Segment { first, start: self.types.len(), uniform: Some((last, ty)) });
            self.is_mixed = false;
        } else {
            if !(follows && self.is_mixed) {
                self.segments.push(Segment { first, start: self.types.len(), uniform: None });
                self.is_mixed = true;
            }
            self.types.resize(self.types.len() + (last - first) as usize + 1, ty);
        }
        self.last = last;
    }

    #[cold]
    fn set_late(&mut self, first: i64, last: i64, ty: AcknowledgeType) {
        // Of what it covers only the ends may remain.
        if let Some((&start, &(end, old))) = self.late.range(..first).next_back()
            && end >= first
        {
            self.late.insert(start, (first - 1, old));
            if end > last {
                self.late.insert(last + 1, (end, old));
            }
        }
        while let Some((&start, &(end, old))) = self.late.range(first..=last).next() {
            self.late.remove(&start);
            if end > last {
                self.late.insert(last + 1, (end, old));
            }
        }
        self.late.insert(first, (last, ty));
    }
}

impl Extend<(i64, AcknowledgeType)> for PartitionAcknowledgements {
    fn extend<I: IntoIterator<Item = (i64, AcknowledgeType)>>(&mut self, acknowledgements: I) {
        let mut acknowledgements = acknowledgements.into_iter();
        while let Some((offset, ty)) = acknowledgements.next() {
            self.set(offset, ty);
            if self.is_mixed {
                self.extend_mixed(&mut acknowledgements);
            }
        }
    }
}

impl FromIterator<(i64, AcknowledgeType)> for PartitionAcknowledgements {
    fn from_iter<I: IntoIterator<Item = (i64, AcknowledgeType)>>(acknowledgements: I) -> Self {
        let mut of = Self::default();
        of.extend(acknowledgements);
        of
    }
}

impl PartialEq for PartitionAcknowledgements {
    fn eq(&self, other: &Self) -> bool {
        self.ranges().eq(other.ranges())
    }
}

impl Eq for PartitionAcknowledgements {}

/// The ranges: `{0-9: accept(1), 10-10: reject(3)}`.
impl fmt::Debug for PartitionAcknowledgements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.ranges().map(|(first, last, ty)| (format!("{first}-{last}"), ty));
        f.debug_map().entries(ranges.map(|(range, ty)| (DebugAsIs(range), ty))).finish()
    }
}

/// A text without quotation marks.
struct DebugAsIs(String);

impl fmt::Debug for DebugAsIs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
