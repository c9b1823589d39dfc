//! Table 2.1: acknowledgements, right and wrong, by both APIs.

use std::path::Path;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::messages::share_acknowledge_request::AcknowledgeTopic;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::GroupConfig;
use kafka_protocol::wire::Uuid;
use serde_json::Value as Json;

use super::Row;
use super::broker::{Batch, Broker, acknowledge_rows, fetch, fetch_rows, renewing};
use crate::vectors::texts;
use crate::walks::Range;

pub(super) const ROWS: &[Row] = &[
    ("A13, A13b: another member's", not_the_owner),
    ("A17: a partition listed twice", listed_twice),
    ("A18b, A18c: below the start offset", below_the_start_offset),
    ("A18e, A18f: accepted before", accepted_before),
    ("A19, A26: not loaded", not_loaded),
    ("A19b, A19e: no such partition", unknown_partition),
    ("A19c, A19d: no such topic", unknown_topic),
    ("A20, A20b: nothing listed", nothing_listed),
    ("A25: beside each other", beside_each_other),
    ("A27: nothing in flight", nothing_in_flight),
    ("A28: released before", released_before),
];

/// The rows of the recording that are one request about records 0-9: what is in them, the code and what is free afterwards
/// are read from the text. Gives how many there are.
pub(super) fn shapes() -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("share/experiments.jsonl.gz");
    let mut rows = 0;
    for line in texts(&path).unwrap() {
        let row: Json = serde_json::from_str(&line).unwrap();
        let (id, sent, got) =
            (row["id"].as_str().unwrap(), row["sent"].as_str().unwrap(), row["got"].as_str().unwrap());
        // Null types close the connection.
        if row["capture"] != "raw-acknowledge.jsonl" || !sent.starts_with("ShareAcknowledge v") || id == "A7b"
        {
            continue;
        }
        println!("{id}: {sent}");
        let shape = Shape::parse(sent, got);
        shape.by_acknowledge();
        shape.by_fetch();
        rows += 1;
    }
    rows
}

struct Shape {
    version: i16,
    renew: bool,
    batches: Vec<(i64, i64, Vec<i8>)>,
    code: i16,
    free: Vec<Range>,
}

impl Shape {
    /// `ShareAcknowledge v2 renew=False some words [(0, 9, [1, 1])]`, `top=0 lock=60000 | p10 err=42  then free=[0-9#2]`
    fn parse(sent: &str, got: &str) -> Self {
        let (words, batches) = sent.split_at(sent.find('[').unwrap());
        let batches: Json = serde_json::from_str(&batches.replace('(', "[").replace(')', "]")).unwrap();
        let batch = |batch: &Json| {
            let types = batch[2].as_array().unwrap().iter().map(|ty| ty.as_i64().unwrap() as i8);
            (batch[0].as_i64().unwrap(), batch[1].as_i64().unwrap(), types.collect())
        };
        let code = got.split_once("err=").map_or("0", |(_, rest)| rest.split([' ', '"']).next().unwrap());
        let free = got.split_once("free=[").unwrap().1.trim_end_matches(']');
        let range = |range: &str| {
            let (offsets, count) = range.split_once('#').unwrap();
            let (first, last) = offsets.split_once('-').unwrap();
            (first.parse().unwrap(), last.parse().unwrap(), count.parse().unwrap())
        };
        Self {
            version: words.split(" v").nth(1).unwrap()[..1].parse().unwrap(),
            renew: words.contains("renew=True"),
            batches: batches.as_array().unwrap().iter().map(batch).collect(),
            code: code.parse().unwrap(),
            free: free.split_whitespace().map(range).collect(),
        }
    }

    fn batches(&self) -> Vec<Batch<'_>> {
        self.batches.iter().map(|(first, last, types)| (*first, *last, &types[..])).collect()
    }

    fn by_acknowledge(&self) {
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let code = broker.acknowledge("m", self.version, self.renew, 0, &self.batches());
        assert_eq!((code, broker.free(0)), (self.code, self.free.clone()));
    }

    fn by_fetch(&self) {
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let batches = self.batches();
        let base = if self.renew { renewing() } else { ShareFetchRequest { max_records: 0, ..fetch() } };
        let topics = broker.listing(&[(0, &batches)]);
        let response = broker.fetch_as("m", self.version, ShareFetchRequest { topics, ..base });
        let expected = if batches.is_empty() { vec![] } else { vec![(0, 0, self.code, vec![])] };
        assert_eq!(fetch_rows(&response), expected);
        assert_eq!(broker.free(0), self.free);
    }
}

fn not_the_owner() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.fetch_as("n", 2, fetch());
    assert_eq!(broker.acknowledge("n", 2, false, 0, &[(0, 9, &[1])]), 121);
    assert_eq!(broker.acknowledge("n", 2, true, 0, &[(0, 9, &[4])]), 121);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 0);
}

fn listed_twice() {
    // The last listing counts, also when the topic is listed twice.
    let cases: [(&[Batch<'_>], &[Batch<'_>], &[Range]); 2] =
        [(&[(0, 4, &[1])], &[(5, 9, &[2])], &[(5, 9, 2)]), (&[(0, 4, &[2])], &[(5, 9, &[1])], &[])];
    for (first, last, free) in cases {
        for one_topic in [true, false] {
            let mut broker = Broker::new();
            broker.acquire("m", 0);
            let topics = if one_topic {
                vec![broker.acknowledging(&[(0, first), (0, last)])]
            } else {
                vec![broker.acknowledging(&[(0, first)]), broker.acknowledging(&[(0, last)])]
            };
            let response = broker.acknowledge_as("m", 2, false, topics);
            assert_eq!(acknowledge_rows(&response), [(0, 0)]);
            assert_eq!(broker.free(0), free);
        }
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let topics = broker.listing(&[(0, first), (0, last)]);
        let request = ShareFetchRequest { topics, max_records: 0, ..fetch() };
        assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), [(0, 0, 0, vec![])]);
        assert_eq!(broker.free(0), free);
    }
}

fn below_the_start_offset() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    for (renew, types) in [(false, &[1]), (false, &[1]), (true, &[4])] {
        assert_eq!(broker.acknowledge("m", 2, renew, 0, &[(0, 9, types)]), 0);
    }
}

fn accepted_before() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(5, 9, &[1])]), 0);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(5, 9, &[1])]), 121);
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(5, 9, &[4])]), 121);
}

fn not_loaded() {
    let mut broker = Broker::new();
    let topics = broker.listing(&[(0, &[])]);
    // A fetch of nothing does not load it.
    broker.fetch_as("m", 2, ShareFetchRequest { topics, max_records: 0, ..fetch() });
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 3);
    assert_eq!(broker.acknowledge("m", 2, false, 1, &[(0, 9, &[1])]), 3);
}

fn unknown_partition() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    for partition in [999, -1] {
        assert_eq!(broker.acknowledge("m", 2, false, partition, &[(0, 9, &[1])]), 3);
    }
}

fn unknown_topic() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    for topic_id in [Uuid::from_u128(999), Uuid::nil()] {
        let topic = AcknowledgeTopic { topic_id, ..broker.acknowledging(&[(0, &[(0, 9, &[1])])]) };
        let response = broker.acknowledge_as("m", 2, false, vec![topic]);
        assert_eq!(acknowledge_rows(&response), [(0, 100)]);
    }
}

fn nothing_listed() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    for topics in [vec![], vec![broker.acknowledging(&[])], vec![broker.acknowledging(&[(1, &[])])]] {
        let response = broker.acknowledge_as("m", 2, false, topics);
        assert_eq!((response.error_code, acknowledge_rows(&response)), (ErrorCode::NONE, vec![]));
        assert_eq!(response.acquisition_lock_timeout_ms, 30_000);
    }
}

fn beside_each_other() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.acquire("m", 1);
    let wrong: &[Batch<'_>] = &[(0, 9, &[7])];
    let topics = vec![broker.acknowledging(&[(0, wrong), (1, &[(0, 9, &[1])]), (999, &[])])];
    let mut rows = acknowledge_rows(&broker.acknowledge_as("m", 2, false, topics));
    rows.sort_unstable();
    assert_eq!(rows, [(0, 42), (1, 0), (999, 3)]);
}

fn nothing_in_flight() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 0);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(10, 12, &[1])]), 121);
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(10, 10, &[4])]), 121);
    // Across the start offset a 4.4.0 broker fails, with the epoch used up. Here that has to be asked for.
    for batch in [(9, 10, &[1][..]), (0, 10, &[1])] {
        assert_eq!(broker.acknowledge("m", 2, false, 0, &[batch]), 121);
    }
    let mut config = GroupConfig::default();
    config.locks.imitate_defects = true;
    broker.cluster.configure_group(super::broker::GROUP, config);
    for batch in [(9, 10, &[1][..]), (0, 10, &[1])] {
        assert_eq!(broker.acknowledge("m", 2, false, 0, &[batch]), -1);
    }
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 0);
}

fn released_before() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[2])]), 0);
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(0, 9, &[4])]), 121);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 121);
    let partition = TopicIdPartition::new(broker.topic_id, 0);
    let share = broker.cluster.share_partition(super::broker::GROUP, partition).unwrap();
    assert_eq!(share.next_fetch_offset(), 0);
}
