//! Our sessions and acknowledgements against the requests that Kafka's own Java share consumer made in recordings.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::share_fetch_request::AcknowledgementBatch;
use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareFetchRequest};
use kafka_protocol::share::{
    Acknowledgements, ClientSession, FetchSizes, PartitionAcknowledgements, ShareAcquireMode,
    TopicIdPartition,
};

use crate::share_recording::{Body, Frame, read_file};

const RECORDINGS: [&str; 3] = ["java-explicit", "java-implicit", "java-v1-client-4.1"];

/// Per partition: its batches, as first offset, last offset and types.
type Listed = BTreeMap<TopicIdPartition, Vec<(i64, i64, Vec<i8>)>>;

fn fetch_lists(request: &ShareFetchRequest) -> Listed {
    let partitions =
        request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |of| (topic.topic_id, of)));
    partitions
        .map(|(id, of)| {
            let batches = of.acknowledgement_batches.iter().map(batch).collect();
            (TopicIdPartition::new(id, of.partition_index), batches)
        })
        .collect()
}

fn acknowledge_lists(request: &ShareAcknowledgeRequest) -> Listed {
    let partitions =
        request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |of| (topic.topic_id, of)));
    partitions
        .map(|(id, of)| {
            let batches = of.acknowledgement_batches.iter().map(|of| batch(&of.clone().into())).collect();
            (TopicIdPartition::new(id, of.partition_index), batches)
        })
        .collect()
}

fn batch(batch: &AcknowledgementBatch) -> (i64, i64, Vec<i8>) {
    (batch.first_offset, batch.last_offset, batch.acknowledge_types.iter().map(|ty| ty.0).collect())
}

/// What the Java client acknowledged, offset by offset.
fn acknowledgements(listed: &Listed) -> Acknowledgements {
    let mut all = Acknowledgements::default();
    for (&partition, batches) in listed.iter().filter(|(_, batches)| !batches.is_empty()) {
        let batches: Vec<_> = batches
            .iter()
            .map(|(first_offset, last_offset, types)| AcknowledgementBatch {
                first_offset: *first_offset,
                last_offset: *last_offset,
                acknowledge_types: types.iter().map(|ty| (*ty).into()).collect(),
                ..Default::default()
            })
            .collect();
        *all.partition_mut(partition) = PartitionAcknowledgements::from_batches(&batches).unwrap();
    }
    all
}

fn forgotten(request: &ShareFetchRequest) -> BTreeSet<TopicIdPartition> {
    let topics = request.forgotten_topics_data.iter();
    topics
        .flat_map(|topic| topic.partitions.iter().map(|of| TopicIdPartition::new(topic.topic_id, *of)))
        .collect()
}

/// A member on a connection, and what it wants to fetch from.
struct Session {
    ours: ClientSession,
    wanted: BTreeSet<TopicIdPartition>,
}

/// How many requests of each kind were compared.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    fetches: usize,
    renew_fetches: usize,
    acknowledges: usize,
    renew_acknowledges: usize,
    closes: usize,
}

#[test]
fn we_make_the_requests_that_the_java_client_made() {
    let mut counts = Counts::default();
    for name in RECORDINGS {
        let mut sessions = BTreeMap::new();
        for frame in read_file(name) {
            let place = format!("{name}, line {}", frame.line);
            compare(&frame, &mut sessions, &mut counts, &place);
        }
    }
    let expected =
        Counts { fetches: 12, renew_fetches: 1, acknowledges: 4, renew_acknowledges: 2, closes: 3 };
    assert_eq!(counts, expected);
}

fn compare(frame: &Frame, sessions: &mut BTreeMap<u64, Session>, counts: &mut Counts, place: &str) {
    match &frame.body {
        Body::Fetch(theirs) => {
            let (group, member) = (theirs.group_id.clone().unwrap(), theirs.member_id.clone().unwrap());
            let open = || Session { ours: ClientSession::new(group, member), wanted: BTreeSet::new() };
            let session = sessions.entry(frame.connection).or_insert_with(open);
            let listed = fetch_lists(theirs);
            let new =
                listed.iter().filter(|(_, batches)| batches.is_empty()).map(|(partition, _)| *partition);
            session.wanted.extend(new);
            session.wanted.retain(|partition| !forgotten(theirs).contains(partition));
            let sizes = FetchSizes {
                max_records: theirs.max_records,
                batch_size: theirs.batch_size,
                acquire_mode: match theirs.share_acquire_mode {
                    0 => ShareAcquireMode::BatchOptimized,
                    _ => ShareAcquireMode::RecordLimit,
                },
                ..Default::default()
            };
            let mut of = acknowledgements(&listed);
            let ours = session.ours.fetch(&session.wanted, &mut of, &sizes, frame.version).unwrap();
            assert_eq!(fetch_lists(&ours), listed, "{place}");
            assert_eq!(forgotten(&ours), forgotten(theirs), "{place}");
            let rest = |request: &ShareFetchRequest| ShareFetchRequest {
                topics: vec![],
                forgotten_topics_data: vec![],
                ..request.clone()
            };
            assert_eq!(rest(&ours), rest(theirs), "{place}");
            *(if theirs.is_renew_ack { &mut counts.renew_fetches } else { &mut counts.fetches }) += 1;
        }
        Body::Acknowledge(theirs) => {
            let session = sessions.get_mut(&frame.connection).expect("opened by a fetch");
            let listed = acknowledge_lists(theirs);
            let mut of = acknowledgements(&listed);
            let is_close = theirs.share_session_epoch == -1;
            let ours = if is_close {
                session.ours.close(&mut of, frame.version)
            } else {
                session.ours.acknowledge(&mut of, frame.version)
            };
            let ours = ours.unwrap();
            assert_eq!(acknowledge_lists(&ours), listed, "{place}");
            let rest = |request: &ShareAcknowledgeRequest| ShareAcknowledgeRequest {
                topics: vec![],
                ..request.clone()
            };
            assert_eq!(rest(&ours), rest(theirs), "{place}");
            *match (is_close, theirs.is_renew_ack) {
                (true, _) => &mut counts.closes,
                (_, true) => &mut counts.renew_acknowledges,
                _ => &mut counts.acknowledges,
            } += 1;
        }
        Body::FetchAnswer(response) => {
            let session = sessions.get_mut(&frame.connection).expect("there was a request");
            session.ours.fetch_response(response);
        }
        Body::AcknowledgeAnswer(response) => {
            let session = sessions.get_mut(&frame.connection).expect("there was a request");
            session.ours.acknowledge_response(response);
        }
        _ => {}
    }
}
