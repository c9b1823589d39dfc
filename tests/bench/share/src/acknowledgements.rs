//! Acknowledgements that become batches.

use std::hint::black_box;

use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::PartitionAcknowledgements;

use crate::{Counted, Row, time};

const ACKNOWLEDGEMENTS: i64 = 1_000_000;

pub(crate) fn rows() -> Vec<Row> {
    let row = |name, entries: Vec<(i64, AcknowledgeType)>| {
        let copied = entries.clone();
        Row {
            name,
            beside: "copy the Vec of offsets and types",
            goal: 3.0,
            items: entries.len(),
            ours: Box::new(move || time(|| compress(&entries))),
            other: Box::new(move || time(|| copied.clone())),
        }
    };
    vec![
        row("compress 1 M acknowledgements of one type", entries(|_| 1)),
        row("compress 1 M acknowledgements, types in runs of 20", entries(|offset| offset / 20 % 3 + 1)),
        row("compress 1 M acknowledgements, types mixed", entries(|offset| offset * 7 / 3 % 4 + 1)),
    ]
}

pub(crate) fn counted() -> Vec<Counted> {
    let entries = entries(|_| 1);
    vec![Counted {
        name: "compress 1 M acknowledgements of one type",
        goal: None,
        items: entries.len(),
        run: Box::new(move || {
            black_box(compress(&entries));
        }),
    }]
}

fn entries(ty: impl Fn(i64) -> i64) -> Vec<(i64, AcknowledgeType)> {
    (0..ACKNOWLEDGEMENTS).map(|offset| (offset, AcknowledgeType(ty(offset) as i8))).collect()
}

fn compress(entries: &[(i64, AcknowledgeType)]) -> usize {
    let acknowledgements: PartitionAcknowledgements = entries.iter().copied().collect();
    acknowledgements.batches().len()
}
