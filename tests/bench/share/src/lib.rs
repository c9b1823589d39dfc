//! What is measured of share groups, and beside what.

mod acknowledgements;
mod consumer;
mod locks;

use std::time::{Duration, Instant};

pub use consumer::IdleConsumer;

/// Something to do, and how long it took without what has to be prepared for it.
pub type Run = Box<dyn FnMut() -> Duration>;

/// Ours beside what it is compared with.
pub struct Row {
    /// What is done.
    pub name: &'static str,
    /// What it is compared with.
    pub beside: &'static str,
    /// How many times as long it may take.
    pub goal: f64,
    /// How many records, acknowledgements or locks there are in it.
    pub items: usize,
    /// Ours.
    pub ours: Run,
    /// The other.
    pub other: Run,
}

/// Something to do whose allocations are counted, after it has been done once.
pub struct Counted {
    /// What is done.
    pub name: &'static str,
    /// How many allocations there may be; `None` for any number.
    pub goal: Option<u64>,
    /// How many records, acknowledgements or locks there are in it.
    pub items: usize,
    /// Does it.
    pub run: Box<dyn FnMut()>,
}

/// All that is timed.
pub fn rows() -> Vec<Row> {
    [locks::rows(), acknowledgements::rows()].into_iter().flatten().collect()
}

/// All whose allocations are counted.
pub fn counted() -> Vec<Counted> {
    [locks::counted(), acknowledgements::counted(), consumer::counted()].into_iter().flatten().collect()
}

/// How long something takes.
fn time<R>(run: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    let result = run();
    let time = start.elapsed();
    std::hint::black_box(result);
    time
}
