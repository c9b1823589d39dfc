//! Times reading and writing of record batches, interleaved in one run.

use std::{hint::black_box, iter::zip, process::ExitCode, time::Duration};

use bench::{
    harness::{Timing, table, time},
    records::{ALONE, NOTES, OURS, Operation, PLAIN, Suite, goal},
};
use clap::Parser;

/// Times reading and writing of record batches, interleaved in one run.
#[derive(Parser)]
struct Arguments {
    /// Only rows with this text in `compression/operation`, as in `none/lazy`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// How often each case is sampled
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Ours beside the fastest peer and beside the codec alone.
struct Row<'a> {
    batch: &'static str,
    operation: Operation,
    ours: &'a Timing,
    peer: Option<(&'static str, &'a Timing)>,
    /// The codec, and the codec with what ours takes for the batch without compression.
    codec: Option<(&'a Timing, Timing)>,
}

impl Row<'_> {
    fn of_peer(&self) -> Option<f64> {
        self.peer.map(|(_, peer)| self.ours.ratio(peer))
    }

    fn of_codec(&self) -> Option<f64> {
        self.codec.as_ref().map(|(_, with_plain)| self.ours.ratio(with_plain))
    }

    fn goal(&self) -> Option<f64> {
        goal(self.batch, self.operation)
    }

    fn is_met(&self) -> Option<bool> {
        let ratio = self.of_codec().or_else(|| self.of_peer())?;
        self.goal().map(|goal| ratio <= goal)
    }
}

fn main() -> ExitCode {
    const SAMPLE: Duration = Duration::from_millis(1);
    let arguments = Arguments::parse();
    let mut suite = match Suite::new(&arguments.filter) {
        Ok(suite) => suite,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            return ExitCode::FAILURE;
        }
    };
    // A large block that is given back: from then on glibc keeps memory instead of returning it to the system after each
    // batch, which would cost some codecs several times what they do themselves.
    drop(black_box(Vec::<u8>::with_capacity(24 << 20)));
    let timings = time(&mut suite.cases, arguments.rounds as usize, SAMPLE);

    let mut rows = Vec::new();
    for &(batch, size) in &suite.batches {
        let operations = Suite::rows(batch, &arguments.filter);
        let of_batch: Vec<Row<'_>> =
            operations.map(|operation| row(&suite, &timings, batch, operation)).collect();
        print(batch, size, &of_batch);
        rows.extend(of_batch);
    }
    println!("us: the median of the rounds. ratio: the median of the ratios of the rounds.\n{NOTES}\n");
    let met: Vec<bool> = rows.iter().filter_map(Row::is_met).collect();
    println!("Goals met: {} of {}.", met.iter().filter(|&&met| met).count(), met.len());
    let mut spreads: Vec<f64> = timings.iter().map(|timing| timing.spread() * 100.0).collect();
    spreads.sort_by(f64::total_cmp);
    if let (Some(usual), Some(worst)) = (spreads.get(spreads.len() / 2), spreads.last()) {
        println!("Distance of the quartiles of a case: {usual:.1} % of its median, at worst {worst:.1} %.");
    }
    ExitCode::SUCCESS
}

fn row<'a>(suite: &Suite, timings: &'a [Timing], batch: &'static str, operation: Operation) -> Row<'a> {
    let of = |batch, operation| {
        zip(&suite.cases, timings)
            .filter(move |(case, _)| case.workload == batch && case.operation == operation)
            .map(|(case, timing)| (case.codec, timing))
    };
    let one = |batch, who| {
        of(batch, operation.of_ours()).find(|&(codec, _)| codec == who).map(|(_, timing)| timing)
    };
    let peer = of(batch, operation.of_peers())
        .filter(|&(codec, _)| !codec.starts_with(OURS) && codec != ALONE)
        .min_by(|(_, one), (_, other)| one.median().total_cmp(&other.median()));
    let with_plain = |alone: &'a Timing| Some((alone, alone.plus(one(PLAIN, OURS)?)));
    Row {
        batch,
        operation,
        ours: one(batch, OURS).expect("ours does all operations"),
        peer,
        codec: one(batch, ALONE).filter(|_| operation != Operation::LazyBoth).and_then(with_plain),
    }
}

fn print(batch: &str, size: usize, rows: &[Row<'_>]) {
    let texts = ["operation", "fastest peer", "met"];
    let compared = match rows.iter().any(|row| row.codec.is_some()) {
        true => &["codec alone us", "ratio to it", "codec + plain us", "ratio to both"][..],
        false => &[],
    };
    let header = [&["operation", "ours us", "fastest peer", "peer us", "ratio"], compared, &["goal", "met"]];
    let mut table = table(&header.concat(), &texts);
    let us = |timing: &Timing| format!("{:.2}", timing.median() / 1e3);
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
    for row in rows {
        let (name, peer) = row.peer.map_or(("", None), |(name, peer)| (name, Some(peer)));
        let mut cells = vec![
            row.operation.name().to_owned(),
            us(row.ours),
            name.to_owned(),
            peer.map_or(String::new(), us),
            ratio(row.of_peer()),
        ];
        if let Some((alone, with_plain)) = &row.codec {
            cells.extend([
                us(alone),
                ratio(Some(row.ours.ratio(alone))),
                us(with_plain),
                ratio(row.of_codec()),
            ]);
        } else {
            cells.extend(compared.iter().map(|_| String::new()));
        }
        cells.push(row.goal().map_or(String::new(), |goal| format!("<= {goal:.2}")));
        cells.push(row.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned());
        table.add_row(cells);
    }
    println!("{batch}: {size} bytes\n{table}\n");
}
