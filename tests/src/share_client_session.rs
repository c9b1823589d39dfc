//! The client's end of share sessions: epochs, what is listed and forgotten, what comes of acknowledgements.

use std::collections::BTreeSet;

use kafka_protocol::messages::share_acknowledge_response as acknowledged;
use kafka_protocol::messages::share_fetch_response as fetched;
use kafka_protocol::messages::{ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::{
    Acknowledgements, ClientSession, ClientSessionError, FetchSizes, ShareAcquireMode, TopicIdPartition,
    next_share_session_epoch,
};
use kafka_protocol::wire::Uuid;

const fn partition(topic: u128, partition: i32) -> TopicIdPartition {
    TopicIdPartition::new(Uuid::from_u128(topic), partition)
}

const P: TopicIdPartition = partition(1, 0);
const Q: TopicIdPartition = partition(1, 1);
const R: TopicIdPartition = partition(2, 0);

fn session() -> ClientSession {
    ClientSession::new("g".into(), "m".into())
}

fn acknowledgements(of: &[(TopicIdPartition, i64, AcknowledgeType)]) -> Acknowledgements {
    let mut all = Acknowledgements::default();
    for &(partition, offset, ty) in of {
        all.set(partition, offset, ty);
    }
    all
}

fn fetch(session: &mut ClientSession, wanted: &[TopicIdPartition]) -> ShareFetchRequest {
    fetch_with(session, wanted, Acknowledgements::default())
}

fn fetch_with(
    session: &mut ClientSession,
    wanted: &[TopicIdPartition],
    mut of: Acknowledgements,
) -> ShareFetchRequest {
    let request =
        session.fetch(&wanted.iter().copied().collect(), &mut of, &FetchSizes::default(), 2).unwrap();
    assert!(of.is_empty(), "taken");
    request
}

/// A session that is open for `wanted`.
fn open(wanted: &[TopicIdPartition]) -> ClientSession {
    let mut session = session();
    fetch(&mut session, wanted);
    session.fetch_response(&ShareFetchResponse::default());
    session
}

/// Listed partitions, with the number of their acknowledgement batches.
fn listed(request: &ShareFetchRequest) -> Vec<(TopicIdPartition, usize)> {
    let topics = request.topics.iter();
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(move |of| (topic.topic_id, of)));
    partitions
        .map(|(id, of)| (TopicIdPartition::new(id, of.partition_index), of.acknowledgement_batches.len()))
        .collect()
}

fn forgotten(request: &ShareFetchRequest) -> Vec<TopicIdPartition> {
    let topics = request.forgotten_topics_data.iter();
    topics
        .flat_map(|topic| topic.partitions.iter().map(|of| TopicIdPartition::new(topic.topic_id, *of)))
        .collect()
}

fn fetch_error(error_code: ErrorCode) -> ShareFetchResponse {
    ShareFetchResponse { error_code, error_message: Some("why".into()), ..Default::default() }
}

fn fetch_rows(rows: &[(TopicIdPartition, ErrorCode)]) -> ShareFetchResponse {
    let row = |&(at, acknowledge_error_code): &(TopicIdPartition, ErrorCode)| {
        fetched::ShareFetchableTopicResponse {
            topic_id: at.topic_id,
            partitions: vec![fetched::PartitionData {
                partition_index: at.partition,
                acknowledge_error_code,
                ..Default::default()
            }],
            ..Default::default()
        }
    };
    ShareFetchResponse { responses: rows.iter().map(row).collect(), ..Default::default() }
}

fn acknowledge_rows(rows: &[(TopicIdPartition, ErrorCode)]) -> ShareAcknowledgeResponse {
    let row =
        |&(at, error_code): &(TopicIdPartition, ErrorCode)| acknowledged::ShareAcknowledgeTopicResponse {
            topic_id: at.topic_id,
            partitions: vec![acknowledged::PartitionData {
                partition_index: at.partition,
                error_code,
                ..Default::default()
            }],
            ..Default::default()
        };
    ShareAcknowledgeResponse { responses: rows.iter().map(row).collect(), ..Default::default() }
}

#[test]
fn epochs_count_on_and_never_come_back_to_zero() {
    assert_eq!(next_share_session_epoch(0), 1);
    assert_eq!(next_share_session_epoch(1), 2);
    assert_eq!(next_share_session_epoch(i32::MAX - 1), i32::MAX);
    assert_eq!(next_share_session_epoch(i32::MAX), 1);
    assert_eq!(next_share_session_epoch(-1), -1);
    assert_eq!(next_share_session_epoch(i32::MIN), -1);

    // One counter for both APIs.
    let mut session = open(&[P]);
    assert_eq!(fetch(&mut session, &[P]).share_session_epoch, 1);
    session.fetch_response(&ShareFetchResponse::default());
    let mut of = acknowledgements(&[(P, 3, AcknowledgeType::ACCEPT)]);
    assert_eq!(session.acknowledge(&mut of, 2).unwrap().share_session_epoch, 2);
    session.acknowledge_response(&acknowledge_rows(&[(P, ErrorCode::NONE)]));
    assert_eq!(fetch(&mut session, &[P]).share_session_epoch, 3);
}

#[test]
fn a_fetch_lists_what_is_new_and_forgets_what_is_gone() {
    let mut session = session();
    let request = fetch(&mut session, &[P, Q]);
    assert_eq!((request.group_id.as_deref(), request.member_id.as_deref()), (Some("g"), Some("m")));
    assert_eq!((request.share_session_epoch, listed(&request)), (0, vec![(P, 0), (Q, 0)]));
    assert_eq!(request.topics.len(), 1, "partitions stand together under their topic");
    session.fetch_response(&ShareFetchResponse::default());

    let request = fetch(&mut session, &[P, R]);
    assert_eq!((listed(&request), forgotten(&request)), (vec![(R, 0)], vec![Q]));
    session.fetch_response(&ShareFetchResponse::default());
    assert_eq!(session.partitions(), &BTreeSet::from([P, R]));

    let request = fetch(&mut session, &[P, R]);
    assert_eq!((listed(&request), forgotten(&request)), (vec![], vec![]));
    session.fetch_response(&ShareFetchResponse::default());

    // The topic was created anew, with another id.
    let anew = partition(3, 0);
    let request = fetch(&mut session, &[anew, R]);
    assert_eq!((listed(&request), forgotten(&request)), (vec![(anew, 0)], vec![P]));
}

#[test]
fn a_fetch_asks_as_kafkas_client_does() {
    let mut session = session();
    let sizes = FetchSizes { acquire_mode: ShareAcquireMode::RecordLimit, ..Default::default() };
    let request = session.fetch(&[P].into(), &mut Acknowledgements::default(), &sizes, 2).unwrap();
    let numbers = [
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        request.batch_size,
        request.share_acquire_mode.into(),
    ];
    assert_eq!(numbers, [500, 1, 52_428_800, 500, 500, 1]);
    assert!(!request.is_renew_ack);
}

#[test]
fn acknowledgements_travel_with_a_fetch() {
    let mut session = open(&[P, Q]);
    // Q is no longer wanted, R never was; all are acknowledged, and none comes into the session by that.
    let of = acknowledgements(&[
        (P, 1, AcknowledgeType::ACCEPT),
        (P, 9, AcknowledgeType::ACCEPT),
        (Q, 2, AcknowledgeType::RELEASE),
        (R, 3, AcknowledgeType::REJECT),
    ]);
    let request = fetch_with(&mut session, &[P], of);
    assert_eq!(listed(&request), [(P, 2), (Q, 1), (R, 1)]);
    assert_eq!(forgotten(&request), [Q, R]);
    assert!(!request.is_renew_ack && request.max_bytes > 0);

    let rows = [(R, ErrorCode::INVALID_RECORD_STATE), (P, ErrorCode::NONE)];
    let results = session.fetch_response(&fetch_rows(&rows));
    let errors: Vec<_> = results.iter().map(|result| (result.partition, result.error)).collect();
    let lacking = ErrorCode::INVALID_RECORD_STATE;
    assert_eq!(errors, [(P, ErrorCode::NONE), (Q, lacking), (R, ErrorCode::INVALID_RECORD_STATE)]);
    assert_eq!(results[0].acknowledgements.len(), 2);
    assert_eq!(session.partitions(), &BTreeSet::from([P]));
}

#[test]
fn a_renewal_makes_all_sizes_zero() {
    let mut session = open(&[P]);
    let of = acknowledgements(&[(P, 1, AcknowledgeType::RENEW), (P, 2, AcknowledgeType::ACCEPT)]);
    let request = fetch_with(&mut session, &[P, Q], of);
    assert!(request.is_renew_ack);
    assert_eq!([request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records], [0; 4]);
    assert_eq!(listed(&request), [(P, 1), (Q, 0)], "the session is brought up to date all the same");
    session.fetch_response(&fetch_rows(&[(P, ErrorCode::NONE)]));

    let mut of = acknowledgements(&[(P, 1, AcknowledgeType::RENEW)]);
    assert!(session.acknowledge(&mut of, 2).unwrap().is_renew_ack);
}

#[test]
fn what_cannot_be_sent_is_refused_and_nothing_is_taken() {
    let accept = acknowledgements(&[(P, 1, AcknowledgeType::ACCEPT)]);
    let renew = acknowledgements(&[(P, 1, AcknowledgeType::RENEW)]);
    let sizes = FetchSizes::default();
    let limit = FetchSizes { acquire_mode: ShareAcquireMode::RecordLimit, ..sizes };
    let none = Acknowledgements::default();

    let mut closed = session();
    for (mut of, error) in
        [(accept.clone(), ClientSessionError::NotOpen), (none.clone(), ClientSessionError::NotOpen)]
    {
        let before = of.clone();
        assert_eq!(closed.acknowledge(&mut of, 2), Err(error));
        assert_eq!(closed.close(&mut of, 2), Err(error));
        assert_eq!(of, before);
    }
    let mut of = accept.clone();
    assert_eq!(closed.fetch(&[P].into(), &mut of, &sizes, 2), Err(ClientSessionError::NotOpen));
    let refused = ClientSessionError::AcquireModeUnsupported { version: 1 };
    assert_eq!(closed.fetch(&[P].into(), &mut none.clone(), &limit, 1), Err(refused));
    assert_eq!((of, closed.next_epoch(), closed.is_busy()), (accept, 0, false));

    let mut session = open(&[P]);
    let (mut of, refused) = (renew.clone(), ClientSessionError::RenewUnsupported { version: 1 });
    assert_eq!(session.fetch(&[P].into(), &mut of, &sizes, 1), Err(refused));
    assert_eq!(session.acknowledge(&mut of, 1), Err(refused));
    assert_eq!(session.close(&mut of, 1), Err(refused));
    assert_eq!(refused.to_string(), "version 1 cannot carry renew acknowledgements (versions 2+)");
    fetch(&mut session, &[P]);
    assert_eq!(session.fetch(&[P].into(), &mut of, &sizes, 2), Err(ClientSessionError::Busy));
    assert_eq!((of, session.next_epoch()), (renew, 1));
}

#[test]
fn the_session_reacts_to_each_error() {
    use ErrorCode as E;
    // The error, and the epoch of the next request after that of epoch 5.
    let table = [
        (E::NONE, 6),
        (E::SHARE_SESSION_NOT_FOUND, 0),
        (E::INVALID_SHARE_SESSION_EPOCH, 0),
        (E::SHARE_SESSION_LIMIT_REACHED, 0),
        (E::UNSUPPORTED_VERSION, 5),
        (E::GROUP_AUTHORIZATION_FAILED, 5),
        (E::INVALID_REQUEST, 5),
        (E::UNKNOWN_SERVER_ERROR, 6),
        (E::COORDINATOR_NOT_AVAILABLE, 6),
        (ErrorCode(999), 6),
    ];
    for (error, next) in table {
        for by_fetch in [true, false] {
            let mut session = open(&[P]);
            for _ in 1..5 {
                fetch(&mut session, &[P]);
                session.fetch_response(&ShareFetchResponse::default());
            }
            let mut of = acknowledgements(&[(P, 1, AcknowledgeType::ACCEPT)]);
            let row = [(P, E::NONE)];
            let results = if by_fetch {
                let request = fetch_with(&mut session, &[P, Q], of);
                assert_eq!(request.share_session_epoch, 5);
                let mut response = fetch_rows(&row);
                (response.error_code, response.error_message) = (error, fetch_error(error).error_message);
                session.fetch_response(&response)
            } else {
                session.acknowledge(&mut of, 2).unwrap();
                let mut response = acknowledge_rows(&row);
                (response.error_code, response.error_message) = (error, Some("why".into()));
                session.acknowledge_response(&response)
            };
            assert_eq!((session.next_epoch(), session.is_busy()), (next, false), "{error:?}");
            assert_eq!((results.len(), results[0].error), (1, error), "{error:?}");
            let message = (!error.is_ok()).then_some("why");
            assert_eq!(results[0].message.as_deref(), message, "{error:?}");
            // What the node is told next.
            let again = fetch(&mut session, &[P, Q]);
            let expected = match next {
                0 => vec![(P, 0), (Q, 0)],
                6 if by_fetch => vec![],
                _ => vec![(Q, 0)],
            };
            assert_eq!(listed(&again), expected, "{error:?}");
        }
    }
}

#[test]
fn a_lost_connection_fails_what_was_in_flight_and_the_session_starts_over() {
    let mut session = open(&[P]);
    let of = acknowledgements(&[(P, 1, AcknowledgeType::ACCEPT), (Q, 1, AcknowledgeType::RENEW)]);
    fetch_with(&mut session, &[P], of);
    let results = session.failed(ErrorCode::NETWORK_EXCEPTION);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.error == ErrorCode::NETWORK_EXCEPTION));
    assert!(!session.is_open() && !session.is_busy());
    assert!(session.failed(ErrorCode::NETWORK_EXCEPTION).is_empty());
    assert!(
        session.fetch_response(&ShareFetchResponse::default()).is_empty(),
        "an answer that nobody waits for"
    );
    assert_eq!(session.next_epoch(), 0);

    let request = fetch(&mut session, &[P]);
    assert_eq!((request.share_session_epoch, listed(&request)), (0, vec![(P, 0)]));
}

#[test]
fn closing_carries_the_last_acknowledgements_and_ends_the_session_whatever_comes_of_it() {
    for error in [ErrorCode::NONE, ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode::INVALID_REQUEST] {
        let mut session = open(&[P]);
        let mut of = acknowledgements(&[(P, 1, AcknowledgeType::ACCEPT)]);
        let request = session.close(&mut of, 1).unwrap();
        assert_eq!((request.share_session_epoch, request.topics.len()), (-1, 1));
        let mut response = acknowledge_rows(&[(P, ErrorCode::NONE)]);
        response.error_code = error;
        let results = session.acknowledge_response(&response);
        assert_eq!((results.len(), results[0].error), (1, error));
        assert_eq!((session.is_open(), session.partitions().len()), (false, 0));
    }
    let mut session = open(&[P]);
    let request = session.close(&mut Acknowledgements::default(), 2).unwrap();
    assert_eq!((request.share_session_epoch, request.topics.len(), request.is_renew_ack), (-1, 0, false));
}
