//! Table 2.3: sessions. And what of 2.4 and 2.7 is about more than one partition.

use std::time::Duration;

use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareFetchRequest};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse, ClusterConfig, GroupConfig};
use kafka_protocol::share::sessions::{ConnectionId, SessionKey, SessionStep, ShareSessionCache};

use super::Row;
use super::broker::{Broker, GROUP, acknowledge_rows, fetch, fetch_rows, renewing};
use super::heartbeats::heartbeat;

pub(super) const ROWS: &[Row] = &[
    ("C1: no session", no_session),
    ("C2, C2b: epoch 0 that opens none", epoch_0_that_opens_none),
    ("C3: wrong epochs", wrong_epochs),
    ("C4: reopened", reopened),
    ("-: behind the last epoch", behind_the_last_epoch),
    ("C5: another connection", another_connection),
    ("C5d-f: reopened over another connection", reopened_over_another_connection),
    ("C5g: the connection closed first", closed_first),
    ("C6, C7: closed with acknowledgements", closed_with_acknowledgements),
    ("C7b, C7c: closed with a renewal, or a listing", closed_with_others),
    ("C8: the connection ends", connection_ends),
    ("-: a connection with several sessions ends", connection_of_several_ends),
    ("C9: ids", ids),
    ("C9g: an unknown group", unknown_group),
    ("C10: one request behind the other", pipelined),
    ("-: a member that never joined, H2: one that has left", members_that_are_none),
    ("-: the session limit", session_limit),
    ("-: share.version 0", share_version_0),
    ("D8: the duration in answers", lock_duration_in_answers),
    ("2.7: metrics", metrics),
];

fn code(response: &BrokerResponse) -> i16 {
    match response {
        BrokerResponse::ShareFetch(response) => response.error_code.0,
        BrokerResponse::ShareAcknowledge(response) => response.error_code.0,
        _ => panic!("{response:?}"),
    }
}

/// A fetch and an acknowledgement with these ids and this epoch.
fn both(group_id: Option<&str>, member_id: Option<&str>, epoch: i32) -> [BrokerRequest; 2] {
    let (group_id, member_id) = (group_id.map(Into::into), member_id.map(Into::into));
    let acknowledge = ShareAcknowledgeRequest {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
        share_session_epoch: epoch,
        ..Default::default()
    };
    let fetch = ShareFetchRequest { group_id, member_id, share_session_epoch: epoch, ..fetch() };
    [fetch.into(), acknowledge.into()]
}

/// What both are answered with at the top level.
fn codes(broker: &mut Broker, epoch: i32) -> [i16; 2] {
    let connection = broker.connection("m");
    both(Some(GROUP), Some("m"), epoch).map(|request| code(&broker.ask(connection, 2, request)))
}

fn no_session() {
    let mut broker = Broker::new();
    for epoch in [1, -1] {
        assert_eq!(codes(&mut broker, epoch), [122, 122]);
    }
}

fn epoch_0_that_opens_none() {
    let mut broker = Broker::new();
    let connection = broker.connection("m");
    let [_, acknowledge] = both(Some(GROUP), Some("m"), 0);
    assert_eq!(code(&broker.ask(connection, 2, acknowledge)), 123);
    let topics = broker.listing(&[(0, &[(0, 9, &[1])])]);
    assert_eq!(broker.fetch_as("m", 2, ShareFetchRequest { topics, ..fetch() }).error_code.0, 42);
    assert_eq!(codes(&mut broker, 1), [122, 122]);
}

fn wrong_epochs() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    for epoch in [2, 6, -2, i32::MAX] {
        assert_eq!(codes(&mut broker, epoch), [123, 123]);
    }
    // C3f, C3g: epoch 0 leaves the session as it is.
    let connection = broker.connection("m");
    let [_, acknowledge] = both(Some(GROUP), Some("m"), 0);
    assert_eq!(code(&broker.ask(connection, 2, acknowledge)), 123);
    broker.set_epoch("m", 0);
    let topics = broker.listing(&[(0, &[(0, 9, &[1])])]);
    assert_eq!(broker.fetch_as("m", 2, ShareFetchRequest { topics, ..fetch() }).error_code.0, 42);
    broker.set_epoch("m", 1);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    assert_eq!(codes(&mut broker, 1), [123, 123]); // again
}

fn reopened() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.set_epoch("m", 0);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 4, &[1])]), 0);
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(5, 9, &[4])]), 0);
}

/// Epochs go on at 1, as 0 opens a session and -1 closes it.
fn behind_the_last_epoch() {
    let mut sessions = ShareSessionCache::new(1);
    let step = |sessions: &mut ShareSessionCache, epoch| {
        let [BrokerRequest::ShareFetch(request), _] = both(Some(GROUP), Some("m"), epoch) else { panic!() };
        sessions.step(ConnectionId(1), &request).map_err(|(code, _)| code)
    };
    assert_eq!(step(&mut sessions, 0), Ok(SessionStep::Opened));
    let key = SessionKey::new(GROUP, "m");
    sessions.get_mut(&key).unwrap().set_next_epoch(i32::MAX);
    assert_eq!(step(&mut sessions, 1), Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH));
    assert_eq!(step(&mut sessions, i32::MAX), Ok(SessionStep::Continued));
    for wrong in [i32::MAX, i32::MIN, 2] {
        assert_eq!(step(&mut sessions, wrong), Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH));
    }
    assert_eq!(step(&mut sessions, 1), Ok(SessionStep::Continued));
    assert_eq!(step(&mut sessions, 2), Ok(SessionStep::Continued));
    assert_eq!(step(&mut sessions, -1), Ok(SessionStep::Closed));
}

fn another_connection() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let first = broker.connection("m");
    broker.reconnect("m");
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 0, &[1])]), 0);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    let second = broker.connection("m");
    broker.disconnect(second);
    let [fetch, _] = both(Some(GROUP), Some("m"), 3);
    assert_eq!(code(&broker.ask(first, 2, fetch)), 0);
    assert_eq!(broker.free(0), []);
}

fn reopened_over_another_connection() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let first = broker.connection("m");
    broker.reconnect("m");
    broker.set_epoch("m", 0);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    broker.disconnect(first);
    assert_eq!(broker.fetch_as("m", 2, fetch()).error_code, ErrorCode::NONE);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 0);
}

fn closed_first() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let first = broker.connection("m");
    broker.disconnect(first);
    broker.reconnect("m");
    broker.set_epoch("m", 0);
    broker.fetch_as("m", 2, fetch());
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 3);
    assert_eq!(broker.free(0), [(0, 9, 2)]);
}

fn closed_with_acknowledgements() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.set_epoch("m", -1);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 4, &[1])]), 0);
    assert_eq!(broker.free(0), [(5, 9, 2)]);

    broker.set_epoch("n", 0);
    broker.acquire("n", 1);
    broker.set_epoch("n", -1);
    let topics = broker.listing(&[(1, &[(0, 4, &[1])])]);
    let response = broker.fetch_as("n", 2, ShareFetchRequest { topics, ..fetch() });
    assert_eq!(fetch_rows(&response), [(1, 0, 0, vec![])]);
    assert_eq!(broker.free(1), [(5, 9, 2)]);
    assert_eq!(broker.fetch_as("n", 2, fetch()).error_code.0, 122);
}

fn closed_with_others() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    broker.set_epoch("m", -1);
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(0, 9, &[4])]), 0);
    assert_eq!(broker.free(0), [(0, 9, 2)]);

    broker.acquire("n", 1);
    broker.set_epoch("n", -1);
    let topics = broker.listing(&[(1, &[])]);
    assert_eq!(fetch_rows(&broker.fetch_as("n", 2, ShareFetchRequest { topics, ..fetch() })), []);
    assert_eq!(broker.free(1), [(0, 9, 2)]);
}

fn connection_ends() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let connection = broker.connection("m");
    broker.disconnect(connection);
    assert_eq!(broker.free(0), [(0, 9, 2)]);
    assert_eq!(broker.cluster.sessions(1).unwrap().evictions(), 1);
}

/// All sessions end that it opened; in a 4.4.0 broker at most the last one, and none if any of them was closed since, or
/// opened again over another connection. Epoch 0 opens, -1 closes.
fn connection_of_several_ends() {
    let (gone, there) = (122, 0);
    let (shared, other) = (0, 1);
    let [a, b, c] = ["a", "b", "c"].map(|member| (shared, member, 0));
    let scripts = [
        (&[a, b, c][..], [gone, gone, gone], [there, there, gone]),
        (&[c, a, b, a], [gone, gone, gone], [gone, there, there]),
        (&[a, b, c, (shared, "a", -1)], [gone, gone, gone], [gone, there, there]),
        (&[a, b, c, (other, "c", -1)], [gone, gone, gone], [there, there, gone]),
        (&[a, b, (other, "a", -1), c], [gone, gone, gone], [gone, there, gone]),
        (&[a, b, c, (other, "a", 0)], [there, gone, gone], [there, there, there]),
        (&[a, b, c, (other, "a", 0), b], [there, gone, gone], [there, gone, there]),
    ];
    for (script, all, last) in scripts {
        for (imitate_defects, left) in [(false, all), (true, last)] {
            let mut broker = Broker::with(ClusterConfig { imitate_defects, ..Default::default() });
            let connections = ["shared", "other"].map(|of| broker.connection(of));
            let ask = |broker: &mut Broker, over: usize, member, epoch| {
                let [fetch, _] = both(Some(GROUP), Some(member), epoch);
                code(&broker.ask(connections[over], 2, fetch))
            };
            for &(over, member, epoch) in script {
                assert_eq!(ask(&mut broker, over, member, epoch), 0, "{script:?}");
            }
            broker.disconnect(connections[shared]);
            let found = ["a", "b", "c"].map(|member| ask(&mut broker, other, member, 1));
            assert_eq!(found, left, "{script:?}, with defects: {imitate_defects}");
        }
    }
}

fn ids() {
    let long = "m".repeat(37);
    for (group_id, member_id, expected) in [
        (None, Some("m"), [42, 42]),
        (Some(""), Some("m"), [0, 0]),
        (Some(GROUP), None, [42, 42]),
        (Some(GROUP), Some(""), [42, 42]),
        (Some(GROUP), Some(&long[1..]), [0, 0]),
        (Some(GROUP), Some(&long), [42, 42]),
    ] {
        let mut broker = Broker::new();
        let connection = broker.connection("m");
        let [fetch, _] = both(group_id, member_id, 0);
        let [_, acknowledge] = both(group_id, member_id, 1);
        let answered = [fetch, acknowledge].map(|request| code(&broker.ask(connection, 2, request)));
        assert_eq!(answered, expected);
    }
}

fn unknown_group() {
    let mut broker = Broker::new();
    let request = ShareFetchRequest {
        group_id: Some("nobody".into()),
        member_id: Some("m".into()),
        topics: broker.listing(&[(0, &[])]),
        ..fetch()
    };
    let connection = broker.connection("m");
    let BrokerResponse::ShareFetch(response) = broker.ask(connection, 2, request) else { panic!() };
    assert_eq!((response.error_code.0, fetch_rows(&response)), (0, vec![(0, -1, 0, vec![])]));
}

fn pipelined() {
    let mut broker = Broker::new();
    let connection = broker.connection("m");
    for epoch in 0..4 {
        let [mut fetch, _] = both(Some(GROUP), Some("m"), epoch);
        if let BrokerRequest::ShareFetch(fetch) = &mut fetch {
            fetch.topics = if epoch == 0 { broker.listing(&[(0, &[])]) } else { vec![] };
            (fetch.max_wait_ms, fetch.min_bytes) = (100, 1);
        }
        broker.send(connection, 2, fetch);
    }
    for _ in 0..4 {
        assert_eq!(code(&broker.wait(connection)), 0);
    }
}

fn members_that_are_none() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    assert_eq!(heartbeat(&mut broker, "m", 0, Some(&["topic"])).error_code, ErrorCode::NONE);
    assert_eq!(heartbeat(&mut broker, "m", -1, None).error_code, ErrorCode::NONE);
    assert_eq!(broker.free(0), []);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 9, &[1])]), 0);
}

fn session_limit() {
    let mut broker = Broker::with(ClusterConfig { max_share_sessions: 3, ..Default::default() });
    for member in ["a", "b", "c"] {
        assert_eq!(broker.fetch_as(member, 2, fetch()).error_code, ErrorCode::NONE);
    }
    let request = ShareFetchRequest { max_wait_ms: 700, ..fetch() };
    assert_eq!(broker.fetch_as("d", 2, request).error_code.0, 133);
    assert_eq!(broker.now, Duration::from_millis(700));
    assert_eq!(broker.fetch_as("d", 2, renewing()).error_code.0, 133);
    assert_eq!(broker.now, Duration::from_millis(700));
    broker.set_epoch("d", 1);
    assert_eq!(broker.acknowledge("d", 2, false, 0, &[]), 122);
    // A member that has a session may open it again.
    broker.set_epoch("a", 0);
    assert_eq!(broker.fetch_as("a", 2, fetch()).error_code, ErrorCode::NONE);
}

fn share_version_0() {
    let mut broker = Broker::with(ClusterConfig { share_version: 0, ..Default::default() });
    assert_eq!(codes(&mut broker, 0), [35, 35]);
    assert_eq!(heartbeat(&mut broker, "m", 0, Some(&["topic"])).error_code.0, 35);
}

fn lock_duration_in_answers() {
    let mut broker = Broker::new();
    broker.acquire("m", 0);
    let mut config = GroupConfig::default();
    config.locks.lock_duration = Duration::from_secs(3);
    broker.cluster.configure_group(GROUP, config);
    let topics = vec![broker.acknowledging(&[(0, &[(0, 9, &[4])])])];
    let response = broker.acknowledge_as("m", 2, true, topics);
    assert_eq!(response.acquisition_lock_timeout_ms, 3000);
    assert_eq!(broker.cluster.next_deadline(), Some(Duration::from_secs(3)));
    // With errors of partitions, and without rows.
    let topics = vec![broker.acknowledging(&[(0, &[(0, 9, &[9])])])];
    assert_eq!(broker.acknowledge_as("m", 2, false, topics).acquisition_lock_timeout_ms, 3000);
    assert_eq!(broker.acknowledge_as("m", 2, false, vec![]).acquisition_lock_timeout_ms, 3000);
}

fn metrics() {
    let mut broker = Broker::new();
    let counts = |broker: &Broker| {
        let metrics = broker.cluster.metrics(1).unwrap();
        [AcknowledgeType::ACCEPT, AcknowledgeType::RELEASE, AcknowledgeType::REJECT, AcknowledgeType::RENEW]
            .map(|ty| metrics.meter(ty).unwrap().count())
    };
    broker.acquire("m", 0);
    broker.acknowledge("m", 2, true, 0, &[(0, 9, &[4])]);
    assert_eq!(counts(&broker), [0, 0, 0, 10]);
    broker.acknowledge("m", 2, true, 0, &[(0, 9, &[4, 4, 1, 1, 2, 2, 3, 3, 0, 0])]);
    assert_eq!(counts(&broker), [2, 2, 2, 12]);
    // A partition that fails, though its renewal sticks.
    assert_eq!(broker.acknowledge("m", 2, true, 0, &[(0, 1, &[4]), (2, 2, &[1])]), 121);
    assert_eq!(counts(&broker), [2, 2, 2, 12]);
    // Below the start offset.
    broker.acknowledge("m", 2, false, 0, &[(0, 1, &[1])]);
    assert_eq!(broker.acknowledge("m", 2, false, 0, &[(0, 1, &[1])]), 0);
    assert_eq!(counts(&broker), [6, 2, 2, 12]);
    // Released by the end of the session.
    broker.acquire("n", 1);
    broker.set_epoch("n", -1);
    assert_eq!(acknowledge_rows(&broker.acknowledge_as("n", 2, false, vec![])), []);
    assert_eq!(counts(&broker), [6, 2, 2, 12]);
}
