//! Chance that a seed decides.

use std::time::Duration;

use crate::random::Random;

/// What happens in a world, by its seed.
pub(super) struct Chance(Random);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Random::new("rebalance", 0, seed))
    }

    /// Below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.next() % end
    }

    /// Once in `n` times.
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).expect("an index")]
    }

    /// From `min` to `max` milliseconds.
    pub(super) fn millis(&mut self, min: u64, max: u64) -> Duration {
        Duration::from_millis(min + self.below(max - min + 1))
    }
}
