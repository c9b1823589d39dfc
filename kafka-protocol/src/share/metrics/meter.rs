use std::time::Duration;

/// How often the averages move.
const TICK: Duration = Duration::from_secs(5);

/// A count of events and how many there are per second, as Kafka's brokers measure it.
///
/// Rates are averages that weigh a second the less the longer it is gone. They move every 5 seconds from the time on
/// when the meter was made, and start with the rate of the first 5 seconds.
#[derive(Clone, Debug)]
pub struct Meter {
    start: Duration,
    count: u64,
    averages: Averages,
}

/// What is known at the last tick.
#[derive(Clone, Copy, Debug)]
struct Averages {
    last_tick: Duration,
    /// Events since then.
    uncounted: u64,
    /// Whether there was a tick at all.
    ticked: bool,
    /// Events per second over 1, 5 and 15 minutes.
    rates: [f64; 3],
}

/// Events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Since the meter was made.
    pub mean: f64,
    /// Exponentially weighted over one minute.
    pub one_minute: f64,
    /// Exponentially weighted over five minutes.
    pub five_minutes: f64,
    /// Exponentially weighted over fifteen minutes.
    pub fifteen_minutes: f64,
}

impl Meter {
    /// A meter that has counted nothing yet.
    pub const fn new(now: Duration) -> Self {
        let averages = Averages { last_tick: now, uncounted: 0, ticked: false, rates: [0.0; 3] };
        Self { start: now, count: 0, averages }
    }

    /// Counts events.
    pub fn mark(&mut self, now: Duration, events: u64) {
        self.averages.tick(now);
        self.averages.uncounted = self.averages.uncounted.saturating_add(events);
        self.count = self.count.saturating_add(events);
    }

    /// How many events there have been.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The rates at `now`.
    pub fn rates(&self, now: Duration) -> Rates {
        let mut averages = self.averages;
        averages.tick(now);
        let [one_minute, five_minutes, fifteen_minutes] = averages.rates;
        let seconds = now.saturating_sub(self.start).as_secs_f64();
        let mean = if seconds > 0.0 { self.count as f64 / seconds } else { 0.0 };
        Rates { mean, one_minute, five_minutes, fifteen_minutes }
    }
}

impl Averages {
    /// Makes up for all ticks that are due.
    fn tick(&mut self, now: Duration) {
        let ticks = now.saturating_sub(self.last_tick).as_nanos() / TICK.as_nanos();
        if ticks == 0 {
            return;
        }
        let rate = self.uncounted as f64 / TICK.as_secs_f64();
        let idle = i32::try_from(ticks - 1).unwrap_or(i32::MAX);
        for (average, minutes) in self.rates.iter_mut().zip([1.0, 5.0, 15.0]) {
            let keep = (-TICK.as_secs_f64() / (60.0 * minutes)).exp();
            *average = if self.ticked { rate + keep * (*average - rate) } else { rate };
            *average *= keep.powi(idle);
        }
        self.ticked = true;
        self.uncounted = 0;
        // Ticks stay on the grid that began when the meter was made.
        let since = now - self.last_tick;
        self.last_tick = now - Duration::from_nanos((since.as_nanos() % TICK.as_nanos()) as u64);
    }
}
