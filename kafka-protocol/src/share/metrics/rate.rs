use std::time::Duration;

/// How long a sample is.
const WINDOW: Duration = Duration::from_secs(30);

/// A total and how much of it came per second lately, as Kafka's Java clients measure it: over samples of 30 seconds, of
/// which those count that something was added to in the last 60 seconds.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    total: u64,
    /// The latest samples, the current one first.
    samples: [Option<Sample>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    start: Duration,
    /// When it counted last.
    last: Duration,
    count: u64,
}

impl Rate {
    /// Counts.
    pub fn record(&mut self, now: Duration, count: u64) {
        self.total = self.total.saturating_add(count);
        match &mut self.samples[0] {
            Some(current) if now.saturating_sub(current.start) < WINDOW => {
                current.last = now;
                current.count = current.count.saturating_add(count);
            }
            _ => {
                self.samples.rotate_right(1);
                self.samples[0] = Some(Sample { start: now, last: now, count }); // in the place of the oldest
            }
        }
    }

    /// All that was counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What was counted per second lately: by the time since the oldest sample that counts began. Where that is less
    /// than a sample, Kafka adds the time of one, so that the first counts do not make a peak: 60 counts are a rate of
    /// 2.0 at once, 1.5 after ten seconds, and 2.0 again after thirty.
    ///
    /// Looking changes nothing. In Kafka's clients it does: samples that are too old start anew when one looks.
    pub fn per_second(&self, now: Duration) -> f64 {
        let recent = |sample: &&Sample| now.saturating_sub(sample.last) < 2 * WINDOW;
        let samples = self.samples.iter().flatten().filter(recent);
        let (oldest, count) = samples.fold((now, 0_u64), |(oldest, sum), sample| {
            (oldest.min(sample.start), sum.saturating_add(sample.count))
        });
        let elapsed = now - oldest;
        let divisor = if elapsed < WINDOW { elapsed + WINDOW } else { elapsed };
        count as f64 / divisor.as_secs_f64()
    }
}
