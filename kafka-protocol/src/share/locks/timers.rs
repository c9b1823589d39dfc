use std::collections::VecDeque;
use std::time::Duration;

/// Below this many no thought is given to timers of locks that are gone.
const FEW: usize = 64;

/// A lock of records that were acquired or renewed together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) deadline: Duration,
    pub(super) first: i64,
    pub(super) last: i64,
}

/// When locks run out.
///
/// A timer is not looked for when its lock ends early or is renewed. It counts for those of its records that still are
/// acquired with its deadline; what has none of them is dropped when it comes first, or when there are too many.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    /// By deadline. All locks last equally long, so that a new one is the last, but after a change of the duration.
    queue: VecDeque<Lock>,
}

impl Timers {
    /// The deadline of the first timer.
    pub(super) fn next(&self) -> Option<Duration> {
        self.queue.front().map(|lock| lock.deadline)
    }

    pub(super) fn push(&mut self, lock: Lock) {
        match self.queue.back() {
            Some(back) if back.deadline > lock.deadline => {
                let index = self.queue.partition_point(|other| other.deadline <= lock.deadline);
                self.queue.insert(index, lock);
            }
            _ => self.queue.push_back(lock),
        }
    }

    /// Takes off the first timer if it has run out.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Lock> {
        if self.queue.front()?.deadline <= now { self.queue.pop_front() } else { None }
    }

    /// Drops timers in front that count for nothing, and all such if there are far more timers than locked records.
    /// `first_locked` tells the first record that a timer counts for.
    pub(super) fn prune(&mut self, locked: usize, first_locked: impl Fn(&Lock) -> Option<i64>) {
        if locked == 0 {
            self.queue.clear();
            return;
        }
        while let Some(front) = self.queue.front_mut() {
            if let Some(first) = first_locked(front) {
                // What has been looked at is not looked at again.
                front.first = first;
                break;
            }
            self.queue.pop_front();
        }
        if self.queue.len() > locked.saturating_mul(2).saturating_add(FEW) {
            self.queue.retain(|lock| first_locked(lock).is_some());
        }
    }
}
