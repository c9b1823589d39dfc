//! Acknowledgements that become batches.

use std::hint::black_box;

use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::PartitionAcknowledgements;

use crate::{Counted, Row, Run, time};

const ACKNOWLEDGEMENTS: i64 = 1_000_000;

/// Types by offset.
type Types = fn(i64) -> i64;

const ONE_TYPE: Types = |_| 1;
const RUNS: Types = |offset| offset / 20 % 3 + 1;
/// No two in a row are equal, which is the worst case.
const MIXED: Types = |offset| offset * 7 / 3 % 4 + 1;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        compressing("compress 1 M acknowledgements of one type", ONE_TYPE),
        compressing("compress 1 M acknowledgements, types in runs of 20", RUNS),
        compressing("compress 1 M acknowledgements, no two types in a row equal", MIXED),
        giving("give 1 M acknowledgements of one type one by one, and compress them", ONE_TYPE),
        giving("give 1 M acknowledgements one by one, types in runs of 20, and compress them", RUNS),
        giving("give 1 M acknowledgements one by one, no two types equal, and compress them", MIXED),
    ]
}

fn compressing(name: &'static str, types: Types) -> Row {
    let given: PartitionAcknowledgements = entries(types).into_iter().collect();
    beside_copying(name, types, Box::new(move || time(|| given.batches())))
}

fn giving(name: &'static str, types: Types) -> Row {
    let entries = entries(types);
    beside_copying(name, types, Box::new(move || time(|| compress(&entries))))
}

fn beside_copying(name: &'static str, types: Types, ours: Run) -> Row {
    let copied = entries(types);
    Row {
        name,
        beside: "copy the Vec of offsets and types",
        goal: 3.0,
        items: copied.len(),
        ours,
        other: Box::new(move || time(|| copied.clone())),
    }
}

pub(crate) fn counted() -> Vec<Counted> {
    let entries = entries(ONE_TYPE);
    vec![Counted {
        name: "compress 1 M acknowledgements of one type",
        goal: None,
        items: entries.len(),
        run: Box::new(move || {
            black_box(compress(&entries));
        }),
    }]
}

fn entries(types: Types) -> Vec<(i64, AcknowledgeType)> {
    (0..ACKNOWLEDGEMENTS).map(|offset| (offset, AcknowledgeType(types(offset) as i8))).collect()
}

fn compress(entries: &[(i64, AcknowledgeType)]) -> usize {
    let acknowledgements: PartitionAcknowledgements = entries.iter().copied().collect();
    acknowledgements.batches().len()
}
