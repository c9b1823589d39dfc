use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::required_version;
use crate::protocol::AcknowledgeType;

/// Acknowledgements of one partition: for each offset an [`AcknowledgeType`], later ones replace earlier ones.
///
/// Offsets that come in ascending order, as records do, are appended to stretches of one type each, 16 bytes a
/// stretch however many offsets it has. All others go to a tree.
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
#[derive(Clone, Default)]
pub struct PartitionAcknowledgements {
    /// Ascending, disjoint.
    stretches: Vec<Stretch>,
    /// What came out of order, by first offset; disjoint, and at no offset behind the last stretch. Overrules
    /// `stretches`.
    late: BTreeMap<i64, (i64, AcknowledgeType)>,
}

impl PartitionAcknowledgements {
    /// Acknowledges an offset; replaces what was said of it before.
    #[inline]
    pub fn set(&mut self, offset: i64, ty: AcknowledgeType) {
        if let Some(end) = self.stretches.last_mut() {
            if end.extend(offset, ty) {
                return;
            }
            if offset <= end.last() {
                return self.set_late(offset, offset, ty);
            }
        }
        self.stretches.push(Stretch::new(offset, 1, ty));
    }

    /// Acknowledges the offsets from `first` to `last`, both inclusive; none if `first` is above `last`.
    pub fn set_range(&mut self, first: i64, last: i64, ty: AcknowledgeType) {
        if first > last {
            return;
        }
        match self.stretches.last() {
            Some(end) if last <= end.last() => self.set_late(first, last, ty),
            Some(end) if first <= end.last() => {
                let end = end.last();
                self.set_late(first, end, ty);
                push(&mut self.stretches, end + 1, last, ty);
            }
            _ => push(&mut self.stretches, first, last, ty),
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
        let at = self.stretches.partition_point(|stretch| stretch.last() < offset);
        let stretch = self.stretches.get(at)?;
        (stretch.first <= offset).then(|| stretch.ty())
    }

    /// Maximal ranges of offsets that follow one another and have one type: first and last offset, both inclusive,
    /// and the type. Ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, i64, AcknowledgeType)> + '_ {
        let stretches = self.stretches();
        let mut at = 0;
        std::iter::from_fn(move || {
            let mut range = stretches.get(at)?.range();
            at += 1;
            while let Some(next) = stretches.get(at).filter(|next| next.continues(range)) {
                range.1 = next.last();
                at += 1;
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
        self.stretches.is_empty()
    }

    /// How many offsets are acknowledged. All of 64 bits count as one less.
    pub fn len(&self) -> u64 {
        self.stretches().iter().fold(0, |sum, stretch| sum.saturating_add(stretch.count()))
    }

    /// How many offsets have this type. All of 64 bits count as one less.
    pub fn count(&self, ty: AcknowledgeType) -> u64 {
        let stretches = self.stretches();
        let of_type = stretches.iter().filter(|stretch| stretch.ty() == ty);
        of_type.fold(0, |sum, stretch| sum.saturating_add(stretch.count()))
    }

    /// Whether any offset is renewed, so that the request has to set `is_renew_ack` (KIP-1222).
    pub fn has_renew(&self) -> bool {
        self.stretches().iter().any(|stretch| stretch.ty() == AcknowledgeType::RENEW)
    }

    /// The lowest version of ShareFetch and ShareAcknowledge that can carry them: 2 with a renewal, else 1.
    pub fn required_version(&self) -> i16 {
        required_version(self.has_renew())
    }

    /// Ascending and disjoint.
    pub(super) fn stretches(&self) -> Cow<'_, [Stretch]> {
        if self.late.is_empty() { Cow::Borrowed(&self.stretches) } else { Cow::Owned(self.merged()) }
    }

    /// `stretches` overruled by `late`.
    fn merged(&self) -> Vec<Stretch> {
        let mut merged = Vec::with_capacity(self.stretches.len() + 2 * self.late.len());
        let mut late = self.late.iter().map(|(&first, &(last, ty))| (first, last, ty)).peekable();
        // Wider than an offset, as the one behind the last offset of all is none.
        let mut next = i128::from(i64::MIN);
        for stretch in &self.stretches {
            let (first, last, ty) = stretch.range();
            next = next.max(first.into());
            while let Some(over) = late.next_if(|over| over.0 <= last) {
                if next < over.0.into() {
                    push(&mut merged, next as i64, over.0 - 1, ty);
                }
                push(&mut merged, over.0, over.1, over.2);
                next = next.max(i128::from(over.1) + 1);
            }
            if next <= last.into() {
                push(&mut merged, next as i64, last, ty);
            }
        }
        merged
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
        for (offset, ty) in acknowledgements {
            self.set(offset, ty);
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

/// Offsets that follow one another and have one type.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    first: i64,
    /// The type in the lowest 8 bits, above it how many offsets there are: never 0.
    count_and_type: u64,
}

impl Stretch {
    /// The most offsets that a stretch can have. More of one type are several stretches.
    const MAX: u64 = u64::MAX >> 8;

    fn new(first: i64, count: u64, ty: AcknowledgeType) -> Self {
        Self { first, count_and_type: count << 8 | u64::from(ty.0 as u8) }
    }

    #[inline]
    pub(super) fn count(self) -> u64 {
        self.count_and_type >> 8
    }

    #[inline]
    pub(super) fn ty(self) -> AcknowledgeType {
        AcknowledgeType(self.count_and_type as i8)
    }

    #[inline]
    pub(super) fn first(self) -> i64 {
        self.first
    }

    #[inline]
    pub(super) fn last(self) -> i64 {
        self.first + (self.count() - 1) as i64
    }

    fn range(self) -> (i64, i64, AcknowledgeType) {
        (self.first, self.last(), self.ty())
    }

    fn continues(self, (_, last, ty): (i64, i64, AcknowledgeType)) -> bool {
        self.first - 1 == last && self.ty() == ty
    }

    /// Takes an offset into the stretch; `false` if it does not follow it, or is of another type.
    #[inline]
    fn extend(&mut self, offset: i64, ty: AcknowledgeType) -> bool {
        let follows = offset > self.first && offset.wrapping_sub(self.first) as u64 == self.count();
        let belongs = follows && ty == self.ty() && self.count() < Self::MAX;
        if belongs {
            self.count_and_type += 1 << 8;
        }
        belongs
    }
}

/// Appends offsets behind all that are there.
fn push(stretches: &mut Vec<Stretch>, first: i64, last: i64, ty: AcknowledgeType) {
    let (mut first, mut more) = (first, last.wrapping_sub(first) as u64);
    if let Some(end) = stretches.last_mut()
        && end.extend(first, ty)
    {
        if more == 0 {
            return;
        }
        let room = more.min(Stretch::MAX - end.count());
        end.count_and_type += room << 8;
        if room == more {
            return;
        }
        first += room as i64 + 1;
        more -= room + 1;
    }
    while more >= Stretch::MAX {
        stretches.push(Stretch::new(first, Stretch::MAX, ty));
        first = first.wrapping_add(Stretch::MAX as i64);
        more -= Stretch::MAX;
    }
    stretches.push(Stretch::new(first, more + 1, ty));
}
