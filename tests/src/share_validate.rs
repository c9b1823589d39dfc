//! `validate` and `check`: codes, levels, paths and words. Codes are compared with a broker's in `share_replay` and
//! `share_tables`.

use std::collections::BTreeSet;

use kafka_protocol::messages::share_acknowledge_request::{self as acknowledge_request, AcknowledgeTopic};
use kafka_protocol::messages::share_fetch_request::{self as fetch_request, FetchPartition, FetchTopic};
use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareFetchRequest};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::validate::{
    BrokerState, Level, Refusal, Session, ShareRequest, Stateless, check, validate,
};
use kafka_protocol::wire::Uuid;

use crate::share_fetch_codes::CASES;

const TOPIC: Uuid = Uuid::from_u128(7);

type Batch<'a> = (i64, i64, &'a [i8]);

/// A request of partitions with acknowledgements.
fn acknowledge(partitions: &[(i32, &[Batch<'_>])]) -> ShareAcknowledgeRequest {
    let partition = |&(partition_index, batches): &(i32, &[Batch<'_>])| {
        let batch =
            |&(first_offset, last_offset, types): &Batch<'_>| acknowledge_request::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: types.iter().map(|ty| AcknowledgeType(*ty)).collect(),
                ..Default::default()
            };
        acknowledge_request::AcknowledgePartition {
            partition_index,
            acknowledgement_batches: batches.iter().map(batch).collect(),
            ..Default::default()
        }
    };
    ShareAcknowledgeRequest {
        group_id: Some("group".into()),
        member_id: Some("member".into()),
        share_session_epoch: 3,
        topics: vec![AcknowledgeTopic {
            topic_id: TOPIC,
            partitions: partitions.iter().map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The same as a fetch.
fn fetch(partitions: &[(i32, &[Batch<'_>])]) -> ShareFetchRequest {
    let request = acknowledge(partitions);
    let topic = |topic: AcknowledgeTopic| FetchTopic {
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .into_iter()
            .map(|row| FetchPartition {
                partition_index: row.partition_index,
                acknowledgement_batches: row
                    .acknowledgement_batches
                    .into_iter()
                    .map(fetch_request::AcknowledgementBatch::from)
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    ShareFetchRequest {
        group_id: request.group_id,
        member_id: request.member_id,
        share_session_epoch: request.share_session_epoch,
        max_records: 10,
        batch_size: 10,
        topics: request.topics.into_iter().map(topic).collect(),
        ..Default::default()
    }
}

/// Code and text of each refusal.
fn texts(refusals: &[Refusal]) -> Vec<(i16, String)> {
    refusals.iter().map(|refusal| (refusal.code.0, refusal.to_string())).collect()
}

#[test]
fn batches_are_refused_with_the_path_of_what_is_wrong() {
    let all_of_int64 = i128::from(i64::MAX) - i128::from(i64::MIN) + 1;
    let cases: [(&[Batch<'_>], String); 11] = [
        (&[(5, 4, &[1])], "[0].last_offset: 4 is below the first offset 5".into()),
        (&[(-2, -2, &[1])], "[0].first_offset: -2 is below -1, the last offset of the batch before".into()),
        (
            &[(0, 4, &[1]), (3, 6, &[1])],
            "[1].first_offset: 3 is below 4, the last offset of the batch before".into(),
        ),
        (
            &[(0, 9, &[])],
            "[0].acknowledge_types: 0 types for 10 offsets, allowed are one or one for each".into(),
        ),
        (
            &[(0, 0, &[1, 1])],
            "[0].acknowledge_types: 2 types for 1 offsets, allowed are one or one for each".into(),
        ),
        (&[(0, 1, &[1, 5])], "[0].acknowledge_types[1]: 5 is no acknowledge type".into()),
        (&[(0, 1, &[-1])], "[0].acknowledge_types[0]: -1 is no acknowledge type".into()),
        (&[(0, 1, &[1, 4])], "[0].acknowledge_types[1]: renew, but is_renew_ack is not set".into()),
        (
            &[(i64::MIN, i64::MAX, &[1])],
            format!("[0].first_offset: {} is below -1, the last offset of the batch before", i64::MIN),
        ),
        (
            &[(0, i64::MAX, &[1, 1])],
            format!(
                "[0].acknowledge_types: 2 types for {} offsets, allowed are one or one for each",
                all_of_int64 / 2
            ),
        ),
        (&[(9, 9, &[1]), (10, 9, &[1])], "[1].last_offset: 9 is below the first offset 10".into()),
    ];
    for (batches, text) in cases {
        let expected = vec![(42, format!("topics[0].partitions[1].acknowledgement_batches{text}"))];
        let partitions: [(i32, &[Batch<'_>]); 3] = [(0, &[(0, 0, &[1])]), (1, batches), (2, &[])];
        let refusals = validate(&acknowledge(&partitions), 2, &Stateless);
        assert_eq!(texts(&refusals), expected);
        assert_eq!(refusals[0].level, Level::Partition(TopicIdPartition::new(TOPIC, 1)));
        let refusals = validate(&fetch(&partitions), 2, &Stateless);
        assert_eq!(texts(&refusals), expected);
        assert_eq!(refusals[0].level, Level::Acknowledge(TopicIdPartition::new(TOPIC, 1)));
    }
}

#[test]
fn renewals_need_version_2() {
    let mut request = acknowledge(&[(0, &[(0, 9, &[4])])]);
    request.is_renew_ack = true;
    assert_eq!(validate(&request, 2, &Stateless), []);
    let path = "topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types[0]";
    let refusals = validate(&request, 1, &Stateless);
    assert_eq!(texts(&refusals), [(42, format!("{path}: renew is not in version 1 (versions 2+)"))]);
    // Sizes do not matter in a version without the flag, and neither in a request without sizes.
    let mut sized = fetch(&[]);
    sized.is_renew_ack = true;
    assert_eq!(validate(&sized, 1, &Stateless), []);
    let refusals = validate(&sized, 2, &Stateless);
    assert_eq!(texts(&refusals), [(42, "max_bytes: 2147483647, must be 0 with is_renew_ack".into())]);
}

/// A broker that knows a session, a topic with a partition, and who may read.
#[derive(Default)]
struct Known {
    off: bool,
    no_group: bool,
    no_topic: bool,
    session: Option<i32>,
    /// How many the topic has; none counts as one.
    partitions: i32,
}

impl BrokerState for Known {
    fn share_groups_enabled(&self) -> bool {
        !self.off
    }

    fn may_read_group(&self, _: &str) -> bool {
        !self.no_group
    }

    fn session(&self, _: &str, _: &str) -> Session {
        self.session.map_or(Session::Absent, Session::Open)
    }

    fn has_topic(&self, topic_id: Uuid) -> bool {
        topic_id == TOPIC
    }

    fn may_read_topic(&self, _: Uuid) -> bool {
        !self.no_topic
    }

    fn has_partition(&self, partition: TopicIdPartition) -> bool {
        (0..self.partitions.max(1)).contains(&partition.partition)
    }
}

#[test]
fn the_first_rule_that_is_broken_counts() {
    let mut broker = Known { off: true, no_group: true, ..Default::default() };
    let mut request = acknowledge(&[(9, &[(5, 4, &[1])])]);
    (request.group_id, request.member_id) = (None, Some("".into()));
    let code = |broker: &Known, request: &ShareAcknowledgeRequest, version| {
        let refusals = validate(request, version, broker);
        assert_eq!(refusals.len(), 1);
        (refusals[0].code.0, refusals[0].path.clone())
    };
    assert_eq!(code(&broker, &request, 3), (35, String::new()));
    assert_eq!(code(&broker, &request, 2), (35, String::new()));
    broker.off = false;
    assert_eq!(code(&broker, &request, 2), (42, "group_id".into()));
    request.group_id = Some("group".into());
    assert_eq!(code(&broker, &request, 2), (30, "group_id".into()));
    broker.no_group = false;
    assert_eq!(code(&broker, &request, 2), (42, "member_id".into()));
    // 36 characters, as Java counts them.
    request.member_id = Some("😀".repeat(19).into());
    assert_eq!(code(&broker, &request, 2), (42, "member_id".into()));
    request.member_id = Some("😀".repeat(18).into());
    assert_eq!(code(&broker, &request, 2), (122, "share_session_epoch".into()));
    broker.session = Some(4);
    assert_eq!(code(&broker, &request, 2), (123, "share_session_epoch".into()));
    broker.session = Some(3);
    request.topics[0].topic_id = Uuid::nil();
    assert_eq!(code(&broker, &request, 2), (100, "topics[0].topic_id".into()));
    request.topics[0].topic_id = TOPIC;
    broker.no_topic = true;
    let path = "topics[0].partitions[0].acknowledgement_batches[0].last_offset";
    assert_eq!(code(&broker, &request, 2), (42, path.into()));
    request.topics[0].partitions[0].acknowledgement_batches[0].last_offset = 5;
    assert_eq!(code(&broker, &request, 2), (29, "topics[0].topic_id".into()));
    broker.no_topic = false;
    assert_eq!(code(&broker, &request, 2), (3, "topics[0].partitions[0].partition_index".into()));
    request.topics[0].partitions[0].partition_index = 0;
    assert_eq!(validate(&request, 2, &broker), []);
}

/// Every partition has its own refusal; of one that is listed twice the last listing counts.
#[test]
fn partitions_are_refused_one_by_one() {
    let wrong: &[Batch<'_>] = &[(5, 4, &[1])];
    let right: &[Batch<'_>] = &[(0, 4, &[1])];
    let request = acknowledge(&[(0, wrong), (1, right), (2, wrong), (0, right), (1, wrong)]);
    let refused: BTreeSet<_> = validate(&request, 2, &Stateless)
        .into_iter()
        .map(|refusal| match refusal.level {
            Level::Partition(partition) => (partition.partition, refusal.path),
            level => panic!("{level:?}"),
        })
        .collect();
    let at = |index| format!("topics[0].partitions[{index}].acknowledgement_batches[0].last_offset");
    assert_eq!(refused, [(1, at(4)), (2, at(2))].into());
}

/// Every code in a row of the response is predicted, and no other.
#[test]
fn each_field_of_a_row_has_its_own_refusal() {
    let broker = Known { session: Some(3), partitions: 2, ..Default::default() };
    for case in CASES {
        let (group_id, member_id) = (Some("group".into()), Some("member".into()));
        let request = ShareFetchRequest { group_id, member_id, ..case.request(TOPIC, 3) };
        let expected: Vec<_> = case
            .rows(TOPIC)
            .into_iter()
            .flat_map(|(partition, fetch, acknowledge)| {
                [(Level::Partition(partition), fetch), (Level::Acknowledge(partition), acknowledge)]
            })
            .filter(|(_, code)| *code != 0)
            .collect();
        let refusals = validate(&request, 2, &broker);
        let found: Vec<_> = refusals.iter().map(|refusal| (refusal.level, refusal.code.0)).collect();
        assert_eq!(found.len(), expected.len(), "{case:?}: {refusals:?}");
        assert!(expected.iter().all(|of| found.contains(of)), "{case:?}: {refusals:?}");
    }
}

/// Of a ShareAcknowledge every partition that is listed; of a fetch both fields.
#[test]
fn permission_comes_before_the_partition_and_behind_the_batches() {
    let broker = Known { session: Some(3), no_topic: true, partitions: 1, ..Default::default() };
    let (right, wrong): (&[Batch<'_>], &[Batch<'_>]) = (&[(0, 4, &[1])], &[(5, 4, &[1])]);
    let rows: [(i32, &[Batch<'_>]); 4] = [(0, right), (1, wrong), (2, &[]), (3, right)];
    fn codes<R: ShareRequest>(broker: &Known, request: &R) -> Vec<(char, i32, i16)> {
        let refusals = validate(request, 2, broker).into_iter();
        let code = |refusal: Refusal| match refusal.level {
            Level::Top => panic!("{refusal}"),
            Level::Partition(of) => ('p', of.partition, refusal.code.0),
            Level::Acknowledge(of) => ('a', of.partition, refusal.code.0),
        };
        refusals.map(code).collect()
    }
    assert_eq!(codes(&broker, &acknowledge(&rows)), [('p', 0, 29), ('p', 1, 42), ('p', 2, 29), ('p', 3, 29)]);
    let of_fetch =
        [29, 42, 29, 29].into_iter().zip(0..).flat_map(|(code, of)| [('a', of, code), ('p', of, 29)]);
    assert_eq!(codes(&broker, &fetch(&rows)), of_fetch.collect::<Vec<_>>());
}

/// Version 1 has no IsRenewAck, so it fetches.
#[test]
fn version_1_fetches_with_the_flag_too() {
    let broker = Known { session: Some(3), ..Default::default() };
    let mut request =
        ShareFetchRequest { is_renew_ack: true, max_bytes: 0, ..fetch(&[(9, &[(0, 4, &[1])])]) };
    request.max_records = 0;
    let levels = |version| validate(&request, version, &broker).iter().map(|of| of.level).collect::<Vec<_>>();
    let partition = TopicIdPartition::new(TOPIC, 9);
    assert_eq!(levels(2), [Level::Acknowledge(partition)]);
    assert_eq!(levels(1), [Level::Acknowledge(partition), Level::Partition(partition)]);
}

#[test]
fn senders_are_told_more() {
    fn told<R: ShareRequest>(request: &R, version: i16) -> Vec<(i16, String)> {
        let refusals = check(request, version);
        // What a broker refuses comes first, alone.
        assert!(
            validate(request, version, &Stateless).is_empty() || refusals.iter().all(|of| !of.code.is_ok())
        );
        texts(&refusals)
    }
    let good: &[Batch<'_>] = &[(0, 4, &[1]), (5, 9, &[2])];
    assert_eq!(told(&acknowledge(&[(0, good)]), 2), []);
    assert_eq!(told(&fetch(&[(0, good)]), 2), []);

    let shared = acknowledge(&[(0, &[(-1, 4, &[1]), (4, 9, &[2])])]);
    let path = "topics[0].partitions[0].acknowledgement_batches";
    let partition = TopicIdPartition::new(TOPIC, 0);
    assert_eq!(check(&shared, 2)[0].level, Level::Partition(partition));
    let fetched = fetch(&[(0, &[(-1, 4, &[1])])]);
    assert_eq!(check(&fetched, 2)[0].level, Level::Acknowledge(partition));
    assert_eq!(
        told(&shared, 2),
        [
            (0, format!("{path}[0].first_offset: -1 is no offset")),
            (0, format!("{path}[1].first_offset: 4 is in the batch before too")),
        ]
    );

    let mut twice = acknowledge(&[(0, good), (0, good)]);
    twice.topics.push(twice.topics[0].clone());
    twice.topics[1].partitions.truncate(1);
    assert_eq!(
        told(&twice, 2).into_iter().map(|(_, text)| text).collect::<Vec<_>>(),
        [
            format!("topics[0].partitions[1]: {TOPIC}-0 is listed twice"),
            format!("topics[1].topic_id: {TOPIC} is listed twice"),
            format!("topics[1].partitions[0]: {TOPIC}-0 is listed twice"),
        ]
    );

    let mut renewing = acknowledge(&[(0, good)]);
    renewing.is_renew_ack = true;
    assert_eq!(told(&renewing, 2), [(0, "is_renew_ack: set, but nothing is renewed".into())]);
    assert_eq!(told(&renewing, 1), [(0, "is_renew_ack: not in version 1 (versions 2+)".into())]);
    let mut closing = acknowledge(&[(0, &[(0, 4, &[4])])]);
    (closing.is_renew_ack, closing.share_session_epoch) = (true, -1);
    let text = "share_session_epoch: -1 releases the records that are renewed".to_owned();
    assert_eq!(told(&closing, 2), [(0, text)]);

    let mut modes = fetch(&[]);
    modes.share_acquire_mode = 2;
    assert_eq!(told(&modes, 2), [(-1, "share_acquire_mode: 2 is no mode (0 or 1)".into())]);
    modes.share_acquire_mode = 1;
    assert_eq!(told(&modes, 2), []);
    assert_eq!(told(&modes, 1), [(0, "share_acquire_mode: 1 is dropped in version 1 (versions 2+)".into())]);

    let nothing = ShareFetchRequest { max_records: 0, ..fetch(&[]) };
    assert_eq!(told(&nothing, 2), [(0, "max_records: 0: nothing is acquired".into())]);
    let synchronizing = ShareFetchRequest { max_records: 0, max_bytes: 0, ..fetch(&[]) };
    assert_eq!(told(&synchronizing, 2), []);
    let nobody = ShareFetchRequest { group_id: Some("".into()), ..fetch(&[]) };
    assert_eq!(told(&nobody, 2), [(0, "group_id: empty".into())]);
    assert_eq!(check(&fetch(&[(0, &[(5, 4, &[1])])]), 2)[0].code, ErrorCode::INVALID_REQUEST);
}
