//! Table 2.2: ShareFetch with IsRenewAck, and what it acquires.

use std::time::Duration;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::messages::share_fetch_request::ForgottenTopic;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::GroupConfig;
use kafka_protocol::wire::Uuid;

use super::Row;
use super::broker::{Batch, Broker, FetchRow, GROUP, fetch, fetch_rows, renewing};
use crate::share_fetch_codes::CASES;

pub(super) const ROWS: &[Row] = &[
    ("B1: sizes with the flag", sizes_with_renew),
    ("B2, B2b: batch size and acquire mode with the flag", other_sizes_with_renew),
    ("B3b: the flag and nothing else", only_the_flag),
    ("B5: the flag at epoch 0", renew_at_epoch_0),
    ("B6: partitions beside a renewal", listed_beside_a_renewal),
    ("B7b: partitions beside acknowledgements", listed_beside_acknowledgements),
    ("B8, B8b, B8c: forgotten partitions", forgotten),
    ("B8d, B8e: nothing to fetch from", nothing_to_fetch_from),
    ("B9: a wrong acknowledgement beside a fetch", wrong_beside_a_fetch),
    ("B10: no records wanted", no_records_wanted),
    ("B11: unknown partitions", unknown_partitions),
    ("-: codes of unknown partitions, in both fields", codes_of_unknown_partitions),
    ("-: forgotten by what opens the session", forgotten_when_opened),
    ("B12, B12b: when acknowledgements are answered", when_acknowledgements_are_answered),
    ("B12c: when they are applied", when_acknowledgements_are_applied),
    ("B13: too few bytes", too_few_bytes),
    ("E1: acquire modes", acquire_modes),
    ("E1, E4: unknown acquire modes", unknown_acquire_modes),
    ("E2: batch sizes", batch_sizes),
    ("E3: several partitions", several_partitions),
];

fn listing(broker: &Broker, partitions: &[i32]) -> ShareFetchRequest {
    let none: &[Batch<'_>] = &[];
    let partitions: Vec<_> = partitions.iter().map(|&partition| (partition, none)).collect();
    ShareFetchRequest { topics: broker.listing(&partitions), ..fetch() }
}

fn quiet(partition: i32) -> FetchRow {
    (partition, 0, 0, vec![])
}

fn sizes_with_renew() {
    let sizes = [
        ShareFetchRequest { max_wait_ms: 1, ..renewing() },
        ShareFetchRequest { max_wait_ms: -1, ..renewing() },
        ShareFetchRequest { min_bytes: 1, ..renewing() },
        ShareFetchRequest { max_bytes: 1, ..renewing() },
        ShareFetchRequest { max_bytes: i32::MAX, ..renewing() },
        ShareFetchRequest { max_records: 1, ..renewing() },
    ];
    for request in sizes {
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let topics = broker.listing(&[(0, &[(0, 9, &[4])])]);
        let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..request });
        assert_eq!(response.error_code, ErrorCode::INVALID_REQUEST);
        assert_eq!((response.error_message, response.acquisition_lock_timeout_ms), (None, 0));
        // The same epoch is still good.
        assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    }
}

fn other_sizes_with_renew() {
    for request in [
        ShareFetchRequest { batch_size: 500, ..renewing() },
        ShareFetchRequest { share_acquire_mode: 1, ..renewing() },
    ] {
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let topics = broker.listing(&[(0, &[(0, 9, &[4])])]);
        let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..request });
        assert_eq!((response.acquisition_lock_timeout_ms, fetch_rows(&response)), (30_000, vec![quiet(0)]));
    }
}

fn only_the_flag() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let response = broker.fetch_as("m", 2, renewing());
    assert_eq!((response.acquisition_lock_timeout_ms, fetch_rows(&response)), (30_000, vec![]));
}

fn renew_at_epoch_0() {
    let mut broker = Broker::new();
    let topics = broker.listing(&[(0, &[(0, 9, &[4])])]);
    let refused = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..renewing() });
    assert_eq!(refused.error_code, ErrorCode::INVALID_REQUEST);
    broker.set_epoch("m", 1);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::SHARE_SESSION_NOT_FOUND);

    broker.set_epoch("m", 0);
    let topics = broker.listing(&[(0, &[])]);
    let opened = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..renewing() });
    assert_eq!((opened.error_code, fetch_rows(&opened)), (ErrorCode::NONE, vec![]));
    assert_eq!(fetch_rows(&broker.fetch_as("m", 2, fetch())), [(0, 0, 0, vec![(0, 9, 1)])]);
}

fn listed_beside_a_renewal() {
    let mut broker = Broker::new();
    broker.acquire("m", 1);
    let topics = broker.listing(&[(0, &[]), (1, &[(0, 9, &[4])]), (2, &[])]);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..renewing() });
    assert_eq!(fetch_rows(&response), [quiet(0), quiet(1), quiet(2)]);
    // They are in the session.
    let response = broker.fetch_as("m", 2, fetch());
    let mut rows = fetch_rows(&response);
    rows.sort();
    assert_eq!(rows, [(0, 0, 0, vec![(0, 9, 1)]), (2, 0, 0, vec![(0, 9, 1)])]);
}

fn listed_beside_acknowledgements() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.acquire("m", 1);
    let topics = broker.listing(&[(0, &[(0, 9, &[1])]), (1, &[(0, 9, &[1])]), (2, &[])]);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, max_records: 0, ..fetch() });
    assert_eq!(fetch_rows(&response), [quiet(0), quiet(1), quiet(2)]);
}

fn forgotten() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.acquire("m", 1);
    let forget = |broker: &Broker, partition| {
        let topic_id = broker.topic_id;
        vec![ForgottenTopic { topic_id, partitions: [partition].into_iter().collect(), ..Default::default() }]
    };
    let topics = broker.listing(&[(0, &[(0, 9, &[1])])]);
    let forgotten_topics_data = forget(&broker, 0);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, forgotten_topics_data, ..fetch() });
    assert_eq!(fetch_rows(&response), [quiet(0)]);
    let forgotten_topics_data = forget(&broker, 1);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { forgotten_topics_data, ..fetch() });
    assert_eq!(fetch_rows(&response), []);
    assert_eq!(broker.acknowledge("m", 2, false, 1, &[(0, 9, &[1])]), 0);
    assert_eq!(broker.cluster.sessions(1).unwrap().partitions(), 0);
}

fn nothing_to_fetch_from() {
    let mut broker = Broker::new();
    let topic_id = Uuid::from_u128(999);
    let unknown = ForgottenTopic { topic_id, partitions: [7].into_iter().collect(), ..Default::default() };
    let request = ShareFetchRequest {
        forgotten_topics_data: vec![unknown],
        max_wait_ms: 2000,
        min_bytes: 1,
        ..fetch()
    };
    let response = broker.fetch_as("m", 2, request);
    assert_eq!((response.error_code, fetch_rows(&response)), (ErrorCode::NONE, vec![]));
    assert_eq!(broker.now, Duration::ZERO);
}

fn wrong_beside_a_fetch() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let topics = broker.listing(&[(0, &[(0, 9, &[7])]), (1, &[])]);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, ..fetch() });
    assert_eq!(fetch_rows(&response), [(0, 0, 42, vec![]), (1, 0, 0, vec![(0, 9, 1)])]);
}

fn no_records_wanted() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let topics = broker.listing(&[(0, &[(0, 9, &[2])])]);
    let response = broker.fetch_as("m", 2, ShareFetchRequest { topics, max_records: 0, ..fetch() });
    assert_eq!(fetch_rows(&response), [quiet(0)]);
    for request in
        [ShareFetchRequest { max_records: -1, ..fetch() }, ShareFetchRequest { max_bytes: 0, ..fetch() }]
    {
        assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), []);
    }
    // B10d
    let response = broker.fetch_as("m", 2, ShareFetchRequest { batch_size: 0, ..fetch() });
    assert_eq!(fetch_rows(&response), [(0, 0, 0, vec![(0, 9, 2)])]);
}

fn unknown_partitions() {
    let mut broker = Broker::new();
    let mut request = listing(&broker, &[999]);
    let mut unknown = request.topics[0].clone();
    (unknown.topic_id, unknown.partitions[0].partition_index) = (Uuid::from_u128(999), 0);
    request.topics.push(unknown);
    for request in [request, fetch(), fetch()] {
        let mut rows = fetch_rows(&broker.fetch_as("m", 2, request));
        rows.sort();
        assert_eq!(rows, [(0, 100, 0, vec![]), (999, 3, 0, vec![])]);
    }
}

fn codes_of_unknown_partitions() {
    for case in CASES {
        let mut broker = Broker::new();
        broker.acquire("m", 0);
        let request = case.request(broker.topic_id, 1);
        broker.set_epoch("m", request.share_session_epoch);
        let response = broker.fetch_as("m", 2, request);
        assert_eq!(response.error_code, ErrorCode::NONE, "{case:?}");
        let rows = response.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(|row| {
                let partition = TopicIdPartition::new(topic.topic_id, row.partition_index);
                (partition, row.error_code.0, row.acknowledge_error_code.0)
            })
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        assert_eq!(rows, case.rows(broker.topic_id), "{case:?}");
    }
}

fn forgotten_when_opened() {
    let mut broker = Broker::new();
    let topic_id = broker.topic_id;
    let forgotten = ForgottenTopic { topic_id, partitions: [0].into_iter().collect(), ..Default::default() };
    let request = ShareFetchRequest { forgotten_topics_data: vec![forgotten], ..listing(&broker, &[0]) };
    assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), [(0, 0, 0, vec![(0, 9, 1)])]);
}

fn when_acknowledgements_are_answered() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let topics = broker.listing(&[(0, &[(0, 0, &[4])])]);
    broker.fetch_as("m", 2, ShareFetchRequest { topics, ..renewing() });
    assert_eq!(broker.now, Duration::ZERO);
    let topics = broker.listing(&[(0, &[(0, 9, &[1])])]);
    let request = ShareFetchRequest { topics, max_wait_ms: 1500, min_bytes: 1, ..fetch() };
    assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), [quiet(0)]);
    assert_eq!(broker.now, Duration::from_millis(1500));
}

fn when_acknowledgements_are_applied() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let topic_id = broker.topic_id;
    let forgotten = ForgottenTopic { topic_id, partitions: [0].into_iter().collect(), ..Default::default() };
    let connection = broker.connection("m");
    let request = ShareFetchRequest {
        group_id: Some(GROUP.into()),
        member_id: Some("m".into()),
        share_session_epoch: 1,
        topics: broker.listing(&[(0, &[(0, 9, &[2])]), (3, &[])]),
        forgotten_topics_data: vec![forgotten],
        max_wait_ms: 1500,
        min_bytes: 1 << 20,
        ..fetch()
    };
    broker.send(connection, 2, request);
    // Free at once, though not answered yet.
    assert_eq!(broker.free(0), [(0, 9, 2)]);
    assert_eq!(broker.now, Duration::ZERO);
    broker.wait(connection);
    assert_eq!(broker.now, Duration::from_millis(1500));
}

fn too_few_bytes() {
    let mut broker = Broker::new();
    let request = ShareFetchRequest { max_wait_ms: 700, min_bytes: 1 << 20, ..listing(&broker, &[0]) };
    assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), [(0, 0, 0, vec![(0, 9, 1)])]);
    assert_eq!(broker.now, Duration::from_millis(700));
}

fn acquire_modes() {
    type Expected<'a> = &'a [&'a [(i64, i64, i16)]];
    let cases: [(i8, Expected<'_>); 2] = [
        (0, &[&[(0, 4, 1)], &[(5, 9, 1)], &[]]),
        (1, &[&[(0, 2, 1)], &[(3, 4, 1), (5, 5, 1)], &[(6, 8, 1)]]),
    ];
    for (share_acquire_mode, expected) in cases {
        let mut broker = Broker::new();
        let mut request =
            ShareFetchRequest { share_acquire_mode, max_records: 3, batch_size: 3, ..listing(&broker, &[0]) };
        for ranges in expected {
            let rows = fetch_rows(&broker.fetch_as("m", 2, request.clone()));
            assert_eq!(rows.first().map_or(&[][..], |row| &row.3[..]), *ranges);
            request.topics.clear();
        }
    }
}

fn unknown_acquire_modes() {
    for share_acquire_mode in [2, -1, 127] {
        // Refused here, with the epoch as it was.
        let mut broker = Broker::new();
        let request = ShareFetchRequest { share_acquire_mode, ..listing(&broker, &[0]) };
        assert_eq!(broker.fetch_as("m", 2, request.clone()).error_code, ErrorCode::INVALID_REQUEST);

        // Like a 4.4.0 broker: it fails when it comes to fetch, and the session is open.
        let mut config = GroupConfig::default();
        config.locks.imitate_defects = true;
        broker.cluster.configure_group(GROUP, config);
        assert_eq!(broker.fetch_as("m", 2, request).error_code, ErrorCode::UNKNOWN_SERVER_ERROR);
        assert_eq!(fetch_rows(&broker.fetch_as("m", 2, fetch())), [(0, 0, 0, vec![(0, 9, 1)])]);
        let empty = ShareFetchRequest { share_acquire_mode, ..fetch() };
        assert_eq!(broker.fetch_as("n", 2, empty).error_code, ErrorCode::NONE);
    }
}

fn batch_sizes() {
    for (batch_size, expected) in
        [(1, &[(0, 4, 1), (5, 9, 1)][..]), (3, &[(0, 4, 1), (5, 9, 1)]), (5, &[(0, 4, 1), (5, 9, 1)])]
            .into_iter()
            .chain([(7, &[(0, 9, 1)][..]), (500, &[(0, 9, 1)])])
    {
        let mut broker = Broker::new();
        let request = ShareFetchRequest { batch_size, ..listing(&broker, &[0]) };
        assert_eq!(fetch_rows(&broker.fetch_as("m", 2, request)), [(0, 0, 0, expected.to_vec())]);
    }
}

fn several_partitions() {
    let mut broker = Broker::new();
    let mut request = ShareFetchRequest { max_records: 10, ..listing(&broker, &[0, 1]) };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let rows = fetch_rows(&broker.fetch_as("m", 2, request.clone()));
        assert_eq!(rows.len(), 1);
        seen.extend(rows);
        request.topics.clear();
    }
    seen.sort();
    assert_eq!(seen, [(0, 0, 0, vec![(0, 9, 1)]), (1, 0, 0, vec![(0, 9, 1)])]);
}
