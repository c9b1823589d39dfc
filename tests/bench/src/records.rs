//! Record batches: the cases, and what we want to reach with them.
//!
//! A batch of 1000 records of 100 bytes: a key of 10, a value of 90, no headers. Reading touches offset, timestamp
//! and the sizes of key and value of every record. Everybody checks and computes the checksum.

mod alone;
mod read;
mod write;

use bytes::Bytes;
use kafka_protocol::records::Compression;

use crate::harness::{Case, Random};

use write::Writer;

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One record after another, which borrows from the batch; of peers, records that own what they have.
    Lazy,
    /// The same, beside the ways of peers that borrow as well.
    LazyBoth,
    /// Records that own what they have, dropped at once.
    Owned,
    /// A batch of keys and values.
    Build,
}

impl Operation {
    /// All operations, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Lazy, Self::LazyBoth, Self::Owned, Self::Build];

    /// The name in tables and filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lazy => "lazy",
            Self::LazyBoth => "lazy-both",
            Self::Owned => "owned",
            Self::Build => "build",
        }
    }

    /// What ours does for it.
    pub fn of_ours(self) -> Self {
        if self == Self::LazyBoth { Self::Lazy } else { self }
    }

    /// What peers do for the same purpose.
    pub fn of_peers(self) -> Self {
        if self == Self::Lazy { Self::Owned } else { self }
    }
}

/// The codec that is measured.
pub const OURS: &str = "ours";
/// The compression library without any records around it.
pub const ALONE: &str = "codec alone";
/// The batch without compression.
pub const PLAIN: &str = "none";

/// What to know of the tables.
pub const NOTES: &str = "\
1000 records of 100 bytes: a key of 10, a value of 90, no headers. Everybody checks or computes the checksum.
lazy and owned touch offset, timestamp and sizes of each record.
lazy: ours without allocations beside the records that peers decode a batch into, which is the only way in kafka-protocol.
lazy-both: ours beside the two ways that krabka has besides, which borrow as ours does; there is no goal for it.
build: ours from slices, peers from records made before.
codec alone: what the library takes to inflate or deflate the same bytes into a buffer that is there already; no header,
no checksum, no records. codec + plain: that, and what ours takes for the batch without compression; the goal is on it.";

/// What ours may take at most: divided by the fastest peer, if nothing is compressed, else by codec and plain batch.
pub fn goal(compression: &str, operation: Operation) -> Option<f64> {
    match (compression, operation) {
        (PLAIN, Operation::Lazy) => Some(0.25),
        (PLAIN, Operation::Owned | Operation::Build) => Some(0.6),
        (_, Operation::Lazy | Operation::Build) => Some(1.1),
        _ => None,
    }
}

/// The most allocations that an operation may make once it is warm.
pub fn allocation_goal(compression: &str, operation: Operation) -> Option<u64> {
    (compression == PLAIN && operation == Operation::Lazy).then_some(0)
}

/// What goes into a batch.
pub struct Plain {
    key: Bytes,
    value: Bytes,
    timestamp: i64,
}

const TIME: i64 = 1_760_000_000_000;

/// Text, as JSON events are: it compresses to about half.
fn plain() -> Vec<Plain> {
    let mut random = Random::new(6);
    let one = |n| {
        let key = format!("key-{:06}", random.below(1_000_000));
        let mut value = format!(
            r#"{{"id":"{:016x}","user":"user-{:05}","amount":{:08},"currency":"EUR","ok":{}}}  "#,
            random.draw(),
            random.below(100_000),
            random.below(100_000_000),
            random.below(2) == 0,
        );
        value.truncate(90);
        Plain { key: key.into(), value: value.into(), timestamp: TIME + n }
    };
    (0..1000).map(one).collect()
}

/// All cases.
pub struct Suite {
    /// Name of the compression, and how many bytes ours writes.
    pub batches: Vec<(&'static str, usize)>,
    /// The cases of all batches.
    pub cases: Vec<Case<Operation>>,
}

impl Suite {
    /// Makes all cases whose rows match the filter: `compression/operation`.
    ///
    /// # Errors
    ///
    /// Not everybody reads and writes the same.
    pub fn new(filter: &str) -> Result<Self, String> {
        let plain = plain();
        let mut suite = Self { batches: vec![], cases: vec![] };
        for compression in Compression::ALL {
            let name = compression.name();
            let batch = Bytes::copy_from_slice(write::Ours::new(&plain, compression).write());
            suite.batches.push((name, batch.len()));
            suite.add_readers(name, &batch)?;
            suite.add_writer::<write::Ours>(&plain, compression, &batch)?;
            suite.add_writer::<write::OursToBytes>(&plain, compression, &batch)?;
            suite.add_writer::<write::KafkaProtocol>(&plain, compression, &batch)?;
            suite.add_writer::<write::Krabka>(&plain, compression, &batch)?;
            suite.add_writer::<write::KrabkaToBytes>(&plain, compression, &batch)?;
            if compression != Compression::None {
                suite.cases.extend(alone::cases(compression, &batch)?);
            }
        }
        let is_needed = |case: &Case<Operation>| {
            Self::rows(case.workload, filter).any(|row| match case.codec {
                OURS | ALONE => row.of_ours() == case.operation,
                _ => row.of_peers() == case.operation,
            })
        };
        // That of the plain batch stands beside those of the compressed ones.
        let is_plain = |case: &Case<Operation>| case.workload == PLAIN && case.codec == OURS;
        suite.batches.retain(|(batch, _)| Self::rows(batch, filter).next().is_some());
        suite.cases.retain(|case| is_needed(case) || is_plain(case));
        Ok(suite)
    }

    /// The operations that match the filter: the rows of the table of a batch.
    pub fn rows<'a>(batch: &'a str, filter: &'a str) -> impl Iterator<Item = Operation> + 'a {
        let matches = move |operation: &Operation| format!("{batch}/{}", operation.name()).contains(filter);
        Operation::ALL.into_iter().filter(matches)
    }

    fn add_readers(&mut self, name: &'static str, batch: &Bytes) -> Result<(), String> {
        let expected = read::ours_lazy(batch);
        for &(codec, operation, read) in read::READERS {
            if read(batch) != expected {
                return Err(format!("{name}: {codec} reads something else"));
            }
            let batch = batch.clone();
            self.cases.push(Case::new(name, codec, operation, move || read(&batch)));
        }
        Ok(())
    }

    fn add_writer<W: Writer>(
        &mut self,
        plain: &[Plain],
        compression: Compression,
        batch: &Bytes,
    ) -> Result<(), String> {
        let mut writer = W::new(plain, compression);
        let written = Bytes::copy_from_slice(writer.write());
        let is_same = match compression {
            Compression::None => written == batch,
            _ => read::ours_lazy(&written) == read::ours_lazy(batch),
        };
        if !is_same {
            return Err(format!("{compression}: {} writes something else", W::NAME));
        }
        let once = move || writer.write().len();
        self.cases.push(Case::new(compression.name(), W::NAME, Operation::Build, once));
        Ok(())
    }
}
