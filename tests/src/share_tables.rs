//! What a broker answered in experiments (`tests/share/experiments.jsonl.gz`), row by row, asked of the brokers in memory.
//! Timings of locks are in `share_locks`; what needs a socket (frames that close the connection) is left out.

mod acknowledgements;
mod broker;
mod fetches;
mod heartbeats;
mod sessions;

/// A row: its id, and what replays it.
type Row = (&'static str, fn());

#[test]
fn rows_of_the_experiments_are_answered_as_by_a_broker() {
    let shapes = acknowledgements::shapes();
    let rows: Vec<Row> = [acknowledgements::ROWS, fetches::ROWS, sessions::ROWS, heartbeats::ROWS].concat();
    for (id, row) in &rows {
        println!("{id}");
        row();
    }
    println!("{shapes} rows about the shape of acknowledgements, by both APIs, and {} others", rows.len());
    assert_eq!((shapes, rows.len()), (39, 60));
}
