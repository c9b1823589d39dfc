//! Values that a version cannot carry: what is dropped, what is refused, and what the refusal says.
//!
//! The values are written out here, each beside the vector that it is. Every such vector is used exactly once.

use std::fmt::Debug;

use kafka_protocol::messages::fetch_snapshot_response::{PartitionSnapshot, TopicSnapshot};
use kafka_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::share_fetch_response::{PartitionData, ShareFetchableTopicResponse};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::schema::{FieldType, StructSchema};
use kafka_protocol::protocol::{EncodeReason, Message, Versions};
use kafka_protocol::wire::{Fault, Str, TaggedFields};

use crate::fixture::{Case, Verdict, cases};

/// The vectors of a message that have not been used yet.
struct Unused<M> {
    cases: Vec<Case>,
    message: std::marker::PhantomData<M>,
}

impl<M: Message> Unused<M> {
    fn new() -> Self {
        let mut cases = cases::<M>();
        cases.retain(|case| matches!(case.verdict(), Verdict::Ignored | Verdict::EncodeError));
        Self { cases, message: std::marker::PhantomData }
    }

    fn take(&mut self, verdict: Verdict, version: i16, reason: &str, path: &str) -> Case {
        let wanted = |case: &Case| {
            (case.verdict(), case.version, &*case.reason, &*case.path) == (verdict, version, reason, path)
        };
        let index = self.cases.iter().position(wanted);
        self.cases.remove(index.unwrap_or_else(|| panic!("no {verdict:?} v{version} {reason} at {path:?}")))
    }

    /// `value` has something in the field `path` only, and that is dropped.
    #[track_caller]
    fn dropped(&mut self, version: i16, path: &str, value: M) {
        let case = self.take(Verdict::Ignored, version, "not-in-version", path);
        assert_ne!(value, M::default(), "{case}");
        assert_eq!(value.encode(version).as_ref(), Ok(&case.bytes), "{case}");
        assert_eq!(value.encoded_len(version), Ok(case.bytes.len()), "{case}");
        assert_eq!(case.value::<M>(), M::default(), "{case}");
    }

    /// `value` is refused, with an error that reads `message`, and nothing of it is written.
    #[track_caller]
    fn refused(&mut self, version: i16, reason: &str, path: &str, value: M, message: &str) {
        let case = self.take(Verdict::EncodeError, version, reason, path);
        check_refused(&case, &value, message);
    }

    /// Tags that do not ascend cannot even be put into a value.
    #[track_caller]
    fn descending_tags(&mut self, version: i16, first: u32) {
        self.take(Verdict::EncodeError, version, "tags-descending", "");
        let mut tags = TaggedFields::default();
        assert_eq!(tags.push(first + 1, b"\xda"), Ok(()));
        assert_eq!(tags.push(first, b"\xda"), Err(Fault::TagOrder));
    }
}

fn check_refused<M: Message>(case: &Case, value: &M, message: &str) {
    let error = value.encode(case.version).expect_err("not in this version");
    assert_eq!(error.to_string(), message, "{case}");
    assert_eq!((error.message(), error.version()), (M::SCHEMA.name, case.version), "{case}");
    assert_eq!(value.encoded_len(case.version), Err(error.clone()), "{case}");
    let mut before = b"before".to_vec();
    assert_eq!(value.encode_into(&mut before, case.version), Err(error), "{case}");
    assert_eq!(before, b"before", "{case}");
}

impl<M> Drop for Unused<M> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.cases.is_empty(), "cases of no test: {:?}", self.cases);
        }
    }
}

fn one_tag(tag: u32) -> TaggedFields {
    let mut tags = TaggedFields::default();
    tags.push(tag, b"\xda").expect("the first tag");
    tags
}

#[test]
fn share_fetch_request_drops_the_acquire_mode_and_refuses_a_renewal() {
    let mut cases = Unused::new();
    cases.dropped(1, "share_acquire_mode", ShareFetchRequest { share_acquire_mode: 2, ..Default::default() });
    cases.refused(
        1,
        "not-in-version",
        "is_renew_ack",
        ShareFetchRequest { is_renew_ack: true, ..Default::default() },
        "ShareFetchRequest v1: is_renew_ack: not in this version (versions 2+), and not its default false",
    );
    cases.refused(
        2,
        "string-too-long",
        "group_id",
        ShareFetchRequest { group_id: Some(Str::from("x".repeat(32768))), ..Default::default() },
        "ShareFetchRequest v2: group_id: more than 32767 bytes of text",
    );
    cases.descending_tags(2, 0);

    // A field of no valid version is no field of ours, so nobody can set it.
    let path = "topics[0].partitions[0].partition_max_bytes";
    cases.take(Verdict::EncodeError, 2, "no-version", path);
    assert!(field_names(ShareFetchRequest::SCHEMA.root).contains(&"partition_index"));
    assert!(!field_names(ShareFetchRequest::SCHEMA.root).contains(&"partition_max_bytes"));
}

/// All fields of a struct and of the structs inside it.
fn field_names(schema: &'static StructSchema) -> Vec<&'static str> {
    let mut names = Vec::new();
    for field in schema.fields {
        names.push(field.rust_name);
        let element = if let FieldType::Array(element) = field.ty { *element } else { field.ty };
        if let FieldType::Struct(inner) = element {
            names.extend(field_names(inner));
        }
    }
    names
}

#[test]
fn share_fetch_response_refuses_null_records() {
    let mut cases = Unused::new();
    for version in [1, 2] {
        let value = ShareFetchResponse {
            responses: vec![ShareFetchableTopicResponse {
                partitions: vec![PartitionData::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let message = format!(
            "ShareFetchResponse v{version}: responses[0].partitions[0].records: \
             null is not allowed",
        );
        cases.refused(version, "default-inner", "", value, &message);
    }
    cases.descending_tags(2, 0);
}

#[test]
fn share_acknowledge_request_refuses_a_renewal() {
    let mut cases = Unused::new();
    cases.refused(
        1,
        "not-in-version",
        "is_renew_ack",
        ShareAcknowledgeRequest { is_renew_ack: true, ..Default::default() },
        "ShareAcknowledgeRequest v1: is_renew_ack: not in this version (versions 2+), and not its default false",
    );
    cases.descending_tags(2, 0);
}

#[test]
fn share_acknowledge_response_drops_the_lock_timeout() {
    let mut cases = Unused::new();
    let value = ShareAcknowledgeResponse { acquisition_lock_timeout_ms: 16777217, ..Default::default() };
    cases.dropped(1, "acquisition_lock_timeout_ms", value);
    cases.descending_tags(2, 0);
}

#[test]
fn api_versions_request_drops_what_a_version_lacks() {
    let default = ApiVersionsRequest::default;
    let s1 = || Str::new("s1");
    let mut cases = Unused::new();
    cases.dropped(2, "client_software_name", ApiVersionsRequest { client_software_name: s1(), ..default() });
    cases.dropped(
        2,
        "client_software_version",
        ApiVersionsRequest { client_software_version: s1(), ..default() },
    );
    cases.dropped(4, "cluster_id", ApiVersionsRequest { cluster_id: Some(s1()), ..default() });
    cases.dropped(4, "node_id", ApiVersionsRequest { node_id: 16777217, ..default() });
    cases.refused(
        2,
        "tags-not-flexible",
        "",
        ApiVersionsRequest { unknown_tagged_fields: one_tag(0), ..default() },
        "ApiVersionsRequest v2: unknown_tagged_fields: no tagged fields in this version (versions 3+)",
    );
    cases.descending_tags(5, 0);
}

#[test]
fn api_versions_response_drops_what_a_version_lacks() {
    use kafka_protocol::messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};
    let default = ApiVersionsResponse::default;
    let supported = SupportedFeatureKey {
        name: Str::new("s1"),
        min_version: 258,
        max_version: 259,
        ..Default::default()
    };
    let finalized = FinalizedFeatureKey {
        name: Str::new("s1"),
        max_version_level: 258,
        min_version_level: 259,
        ..Default::default()
    };
    let mut cases = Unused::new();
    cases.dropped(0, "throttle_time_ms", ApiVersionsResponse { throttle_time_ms: 16777217, ..default() });
    cases.dropped(
        2,
        "supported_features",
        ApiVersionsResponse { supported_features: vec![supported], ..default() },
    );
    cases.dropped(
        2,
        "finalized_features_epoch",
        ApiVersionsResponse { finalized_features_epoch: 72057594037927937, ..default() },
    );
    cases.dropped(
        2,
        "finalized_features",
        ApiVersionsResponse { finalized_features: vec![finalized], ..default() },
    );
    cases.dropped(2, "zk_migration_ready", ApiVersionsResponse { zk_migration_ready: true, ..default() });
    cases.refused(
        2,
        "tags-not-flexible",
        "",
        ApiVersionsResponse { unknown_tagged_fields: one_tag(4), ..default() },
        "ApiVersionsResponse v2: unknown_tagged_fields: no tagged fields in this version (versions 3+)",
    );
    cases.descending_tags(5, 4);
}

#[test]
fn headers_refuse_tags_in_their_old_versions() {
    let mut cases = Unused::new();
    cases.refused(
        1,
        "tags-not-flexible",
        "",
        RequestHeader { unknown_tagged_fields: one_tag(0), ..Default::default() },
        "RequestHeader v1: unknown_tagged_fields: no tagged fields in this version (versions 2+)",
    );
    cases.descending_tags(2, 0);

    let mut cases = Unused::new();
    cases.refused(
        0,
        "tags-not-flexible",
        "",
        ResponseHeader { unknown_tagged_fields: one_tag(0), ..Default::default() },
        "ResponseHeader v0: unknown_tagged_fields: no tagged fields in this version (versions 1+)",
    );
    cases.descending_tags(1, 0);
}

#[test]
fn an_unknown_tag_must_not_be_one_that_the_schema_knows() {
    for tag in 0..4 {
        let value = ApiVersionsResponse { unknown_tagged_fields: one_tag(tag), ..Default::default() };
        for version in 3..=5 {
            let error = value.encode(version).expect_err("a known tag");
            assert_eq!(error.reason(), &EncodeReason::KnownTag);
            let message = format!(
                "ApiVersionsResponse v{version}: unknown_tagged_fields: an unknown tagged field has a tag that the schema knows"
            );
            assert_eq!(error.to_string(), message);
        }
    }
}

/// The place of an error is found by writing again and following the schema; deep inside arrays, and behind
/// fields of all kinds.
#[test]
fn encode_errors_name_the_element_that_is_wrong() {
    #[track_caller]
    fn check<M: Message + Debug>(value: &M, version: i16, path: &str, reason: &EncodeReason) {
        let error = value.encode(version).expect_err("not in this version");
        assert_eq!((error.path(), error.reason()), (path, reason));
    }
    let null = EncodeReason::Null { nullable: Versions::NONE };

    let partition = |records: Option<&'static [u8]>| PartitionData {
        records: records.map(Into::into),
        ..Default::default()
    };
    let topic = |partitions| ShareFetchableTopicResponse { partitions, ..Default::default() };
    let mut response = ShareFetchResponse {
        error_message: Some(Str::new("a text that is too long for the value itself")),
        responses: vec![
            topic(vec![partition(Some(b"batch")), partition(Some(b""))]),
            topic(vec![]),
            topic(vec![partition(Some(b"")), partition(None), partition(None)]),
        ],
        unknown_tagged_fields: one_tag(5),
        ..Default::default()
    };
    for version in [1, 2] {
        check(&response, version, "responses[2].partitions[1].records", &null);
    }
    response.responses[2].partitions[0].error_message = Some(Str::from("ü".repeat(16384)));
    let too_long = EncodeReason::StringTooLong;
    check(&response, 2, "responses[2].partitions[0].error_message", &too_long);
    // The first of the mistakes in wire order is told.
    response.error_message = Some(Str::from("x".repeat(32768)));
    check(&response, 2, "error_message", &too_long);

    // A flag that the version lacks comes before the topics, so it is told first.
    let mut request = ShareFetchRequest {
        is_renew_ack: true,
        member_id: None,
        topics: vec![FetchTopic { partitions: vec![FetchPartition::default(); 3], ..Default::default() }],
        unknown_tagged_fields: one_tag(9),
        ..Default::default()
    };
    let renewal = EncodeReason::NotInVersion { versions: Versions::since(2), default: "false".to_owned() };
    check(&request, 1, "is_renew_ack", &renewal);
    request.member_id = Some(Str::from("x".repeat(32768)));
    check(&request, 1, "member_id", &too_long);
    check(&request, 2, "member_id", &too_long);

    // In a tag section, the element inside the tagged field.
    use kafka_protocol::messages::api_versions_response::FinalizedFeatureKey;
    let mut features = vec![FinalizedFeatureKey::default(); 3];
    features[2].name = Str::from("x".repeat(32768));
    let mut response = ApiVersionsResponse {
        finalized_features_epoch: 7,
        finalized_features: features,
        zk_migration_ready: true,
        ..Default::default()
    };
    check(&response, 5, "finalized_features[2].name", &too_long);
    response.finalized_features[2].name = Str::new("short");
    response.finalized_features[1].unknown_tagged_fields = one_tag(3);
    assert!(response.encode(5).is_ok(), "a feature knows no tags");
}

/// No bytes bring generated code to hold these, so the vectors cannot ask it.
#[test]
fn values_that_no_version_carries_are_refused() {
    for version in SaslHandshakeRequest::VERSIONS.iter() {
        let value = SaslHandshakeRequest { mechanism: Str::from("x".repeat(32768)), ..Default::default() };
        let message = format!("SaslHandshakeRequest v{version}: mechanism: more than 32767 bytes of text");
        assert_eq!(value.encode(version).expect_err("too long").to_string(), message);
    }

    let partitions = vec![PartitionSnapshot::default()];
    let topics = vec![TopicSnapshot { partitions, ..Default::default() }];
    let value = FetchSnapshotResponse { topics, ..Default::default() };
    for version in FetchSnapshotResponse::VERSIONS.iter() {
        let null = value.encode(version).expect_err("null");
        assert_eq!(null.path(), "topics[0].partitions[0].unaligned_records");
        assert_eq!(*null.reason(), EncodeReason::Null { nullable: Versions::NONE });
    }

    let value = AbortedTxn { unknown_tagged_fields: one_tag(0), ..Default::default() };
    let message = "AbortedTxn v0: unknown_tagged_fields: no tagged fields in this version (versions none)";
    assert_eq!(value.encode(0).expect_err("tags").to_string(), message);
}
