use super::Record;

/// The states of records one behind the other, by ranges of equal ones, so that a range of any length costs no more
/// than the pieces that it has come to be in.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Ascending, and never empty. A run ends where the next one starts.
    runs: Vec<Run>,
    last: i64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    first: i64,
    record: Record,
}

impl Runs {
    pub(super) fn new(first: i64, last: i64, record: Record) -> Self {
        Self { runs: vec![Run { first, record }], last }
    }

    /// The ranges between two offsets, clipped to them.
    pub(super) fn within(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, &Record)> {
        let (skip, to) = (self.at(from), to.min(self.last));
        let runs = self.runs.iter().enumerate().skip(skip).take_while(move |(_, run)| run.first <= to);
        let clipped =
            runs.map(move |(index, run)| (run.first.max(from), self.end(index).min(to), &run.record));
        clipped.filter(|(first, last, _)| first <= last)
    }

    /// The ranges in which records look alike.
    pub(super) fn alike(&self) -> impl Iterator<Item = (i64, i64, &Record)> {
        let mut next = 0;
        self.runs.chunk_by(|run, next| run.record.looks_like(&next.record)).map(move |alike| {
            next += alike.len();
            (alike[0].first, self.end(next - 1), &alike[0].record)
        })
    }

    /// Lets a function change the states between two offsets, range by range.
    pub(super) fn change(&mut self, from: i64, to: i64, mut with: impl FnMut(i64, i64, &mut Record)) {
        self.try_change(from, to, |first, last, record| {
            with(first, last, record);
            Some(last)
        });
    }

    /// Lets a function change the states between two offsets. It gets a range and its state, and gives the offset up to
    /// which the state has changed, or `None` to end it.
    pub(super) fn try_change(
        &mut self,
        from: i64,
        to: i64,
        mut with: impl FnMut(i64, i64, &mut Record) -> Option<i64>,
    ) {
        let (mut first, to) = (from.max(self.runs[0].first), to.min(self.last));
        while first <= to {
            let index = self.at(first);
            let mut record = self.runs[index].record;
            let Some(last) = with(first, self.end(index).min(to), &mut record) else { return };
            self.put(index, Run { first, record }, last);
            first = last + 1;
        }
    }

    /// Puts a state at a range, that is in the run with an index. Runs grow, but are not joined: that would move all that are
    /// behind, for each of many that become the same one by one.
    fn put(&mut self, index: usize, new: Run, last: i64) {
        let (old, end) = (self.runs[index], self.end(index));
        if old.record.is_same(&new.record) {
            return;
        }
        let grows = |run: Option<&Run>| run.is_some_and(|run| run.record.is_same(&new.record));
        let rest = Run { first: last + 1, record: old.record };
        match (old.first == new.first, end == last) {
            (true, true) => self.runs[index] = new,
            (true, false) => {
                self.runs[index] = rest;
                if !grows(index.checked_sub(1).and_then(|before| self.runs.get(before))) {
                    self.runs.insert(index, new);
                }
            }
            (false, true) if grows(self.runs.get(index + 1)) => self.runs[index + 1].first = new.first,
            (false, true) => self.runs.insert(index + 1, new),
            (false, false) => drop(self.runs.splice(index + 1..index + 1, [new, rest])),
        }
    }

    /// The index of the run that has an offset; of the first one for an offset in front. Mostly it is at one of the ends:
    /// records are acknowledged from the front to the back.
    fn at(&self, offset: i64) -> usize {
        match &self.runs[..] {
            [.., last] if last.first <= offset => self.runs.len() - 1,
            [.., before, _] if before.first <= offset => self.runs.len() - 2,
            [_, second, ..] if offset < second.first => 0,
            runs => runs.partition_point(|run| run.first <= offset).saturating_sub(1),
        }
    }

    /// The last offset of a run.
    fn end(&self, index: usize) -> i64 {
        self.runs.get(index + 1).map_or(self.last, |next| next.first - 1)
    }
}

impl Record {
    /// Whether two records have one state, and one lock if they have any.
    fn is_same(&self, other: &Self) -> bool {
        self.looks_like(other) && (!self.is_acquired() || self.deadline == other.deadline)
    }
}
