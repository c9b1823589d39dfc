use std::time::Duration;

/// How long a sample is.
const WINDOW: Duration = Duration::from_secs(30);

/// A total and how much of it came per second lately, as Kafka's clients measure it: over the sample of 30 seconds
/// that is going on and the one before.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    total: u64,
    /// The current sample and the one before: when it began and what it counted.
    samples: [Option<(Duration, u64)>; 2],
}

impl Rate {
    /// Counts.
    pub fn record(&mut self, now: Duration, count: u64) {
        self.total = self.total.saturating_add(count);
        match &mut self.samples[0] {
            Some((start, counted)) if now.saturating_sub(*start) < WINDOW => {
                *counted = counted.saturating_add(count);
            }
            _ => self.samples = [Some((now, count)), self.samples[0]],
        }
    }

    /// All that was counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What was counted per second lately. The divisor is never below 30 seconds, so that the first counts do not make
    /// a peak.
    pub fn per_second(&self, now: Duration) -> f64 {
        let recent = |sample: &&(Duration, u64)| now.saturating_sub(sample.0) < 2 * WINDOW;
        let samples = self.samples.iter().flatten().filter(recent);
        let (oldest, count) = samples
            .fold((now, 0_u64), |(oldest, sum), sample| (oldest.min(sample.0), sum.saturating_add(sample.1)));
        count as f64 / (now - oldest).max(WINDOW).as_secs_f64()
    }
}
