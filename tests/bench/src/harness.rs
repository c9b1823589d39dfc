//! Runs cases and takes their times; knows nothing of Kafka.

use std::{
    hint::black_box,
    iter::zip,
    time::{Duration, Instant},
};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// What a codec is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a value into a cleared buffer with room for it: ours into a `Vec`, a peer into what suits it best.
    Encode,
    /// The same into a `BytesMut`: ours alone.
    EncodeBytesMut,
    /// Tells how many bytes a value takes.
    EncodedLen,
    /// Reads a new value from shared bytes and drops it.
    Decode,
    /// Reads over a value of the same shape: ours alone.
    DecodeFrom,
}

impl Operation {
    /// All operations, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Encode, Self::EncodeBytesMut, Self::EncodedLen, Self::Decode, Self::DecodeFrom];

    /// The name in tables and filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::EncodeBytesMut => "encode_bytesmut",
            Self::EncodedLen => "encoded_len",
            Self::Decode => "decode",
            Self::DecodeFrom => "decode_from",
        }
    }

    /// What the peers do for the same purpose.
    pub fn of_peers(self) -> Self {
        match self {
            Self::Encode | Self::EncodeBytesMut => Self::Encode,
            Self::EncodedLen => Self::EncodedLen,
            Self::Decode | Self::DecodeFrom => Self::Decode,
        }
    }
}

/// One operation of one codec on one workload.
pub struct Case<O = Operation> {
    /// The name of the workload.
    pub workload: &'static str,
    /// The name of the codec.
    pub codec: &'static str,
    /// What is run.
    pub operation: O,
    run: Box<dyn FnMut(u64)>,
}

impl<O> Case<O> {
    /// A case that calls `once`; dropping the result belongs to what is measured.
    pub fn new<R>(
        workload: &'static str,
        codec: &'static str,
        operation: O,
        mut once: impl FnMut() -> R + 'static,
    ) -> Self {
        let run = Box::new(move |times| {
            for _ in 0..times {
                black_box(once());
            }
        });
        Self { workload, codec, operation, run }
    }

    /// Runs the operation so many times.
    pub fn run(&mut self, times: u64) {
        (self.run)(times);
    }

    fn time(&mut self, times: u64) -> Duration {
        let start = Instant::now();
        self.run(times);
        start.elapsed()
    }

    /// How often the operation runs in `sample`.
    fn calibrate(&mut self, sample: Duration) -> u64 {
        const ENOUGH: Duration = Duration::from_millis(2);
        let mut times = 1;
        loop {
            let time = self.time(times);
            if time >= ENOUGH || times >= 1 << 24 {
                let count = sample.as_secs_f64() / time.as_secs_f64() * times as f64;
                return (count as u64).max(1);
            }
            times *= 2;
        }
    }
}

/// The nanoseconds that one operation took in each round.
#[derive(Clone, Debug)]
pub struct Timing(Vec<f64>);

impl Timing {
    /// The nanoseconds of a usual round.
    pub fn median(&self) -> f64 {
        quantile(self.0.iter().copied(), 0.5)
    }

    /// The distance between the quartiles, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        let at = |q| quantile(self.0.iter().copied(), q);
        (at(0.75) - at(0.25)) / at(0.5)
    }

    /// The time of both, one after the other.
    pub fn plus(&self, other: &Self) -> Self {
        Self(zip(&self.0, &other.0).map(|(one, other)| one + other).collect())
    }

    /// The time as a fraction of another's in a usual round.
    ///
    /// This is steadier than the ratio of the medians: machines that others use as well have fast and slow times,
    /// longer than a round.
    pub fn ratio(&self, other: &Self) -> f64 {
        quantile(zip(&self.0, &other.0).map(|(one, other)| one / other), 0.5)
    }
}

/// The value that has the fraction `q` of the others below it.
fn quantile(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q).round() as usize]
}

/// Samples every case once per round, in an order that is shuffled anew: when the machine slows down for a while,
/// that hits all cases alike.
pub fn time<O>(cases: &mut [Case<O>], rounds: usize, sample: Duration) -> Vec<Timing> {
    let counts: Vec<u64> = cases.iter_mut().map(|case| case.calibrate(sample)).collect();
    let mut samples = vec![Vec::with_capacity(rounds); cases.len()];
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let mut random = Random::new(0x9E37_79B9_7F4A_7C15);
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let (case, count) = (&mut cases[at], counts[at]);
            // Caches and branch predictors still know the case before.
            case.run((count / 20).max(1));
            samples[at].push(case.time(count).as_secs_f64() * 1e9 / count as f64);
        }
    }
    samples.into_iter().map(Timing).collect()
}

/// Numbers that are the same in every run.
pub struct Random(u64);

impl Random {
    /// Numbers that depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number (xorshift64*).
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// An empty table, in Markdown so that it can be pasted; the columns other than `texts` hold numbers.
pub fn table(header: &[&str], texts: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    for (column, name) in table.column_iter_mut().zip(header) {
        if !texts.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
