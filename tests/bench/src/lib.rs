//! Measures `kafka-protocol` beside the public Rust codecs for Kafka, on the same bytes and in the same run.
//!
//! Nanoseconds depend on the machine and on what else runs on it; the ratio to the fastest peer of the same run
//! does not. So every number that counts here is a ratio, and so are the [goals](workloads::goal).
//!
//! - `time` times every case of all codecs, interleaved, and compares with the goals.
//! - `allocs` counts allocations. It is a program of its own, as a counting allocator slows decoding by 1.4 times.
//! - `records_time` and `records_allocs` do the same with record batches.
//!
//! ```text
//! cargo run --release --ignore-rust-version --bin time -- --filter a/ --rounds 100
//! cargo run --release --ignore-rust-version --bin allocs
//! ```
//!
//! (One peer asks for a newer compiler than it needs.)
//!
//! Before anything is measured, all codecs have to re-encode each workload to the same bytes: see [`Suite::new`].
//!
//! [`Suite::new`]: peers::Suite::new

pub mod harness;
pub mod peers;
pub mod records;
pub mod workloads;
