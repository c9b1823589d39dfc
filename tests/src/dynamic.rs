//! The interpreter, JSON and the dump: against Kafka's vectors, and against the generated code.

use kafka_protocol::dynamic::{self, Struct, Value};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::schema::{self, FieldType, MessageSchema};
use kafka_protocol::protocol::{DecodeReason, ErrorCode, Message, frame};
use kafka_protocol::wire::Bytes;
use kafka_protocol::{inspect, json};
use serde_json::{Value as Json, json};

use crate::fixture::{Case, Verdict, cases, cases_of, load, unhex};

/// A case with what JSON does not show.
struct Full {
    case: Case,
    records: Json,
    unknown: Json,
    /// The version in which the JSON is written.
    json_version: i16,
}

fn full_cases<M: Message>() -> Vec<Full> {
    let file = load(M::SCHEMA.name);
    let raw = file["cases"].as_array().expect("cases");
    cases::<M>()
        .into_iter()
        .zip(raw)
        .map(|(case, raw)| Full {
            records: raw["records"].clone(),
            unknown: raw["unknown"].clone(),
            json_version: raw["jsonVersion"].as_i64().map_or(case.version, |version| version as i16),
            case,
        })
        .collect()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// The value of a case from its JSON; `None` if its tags do not ascend.
fn build(full: &Full, schema: &'static MessageSchema) -> Option<Struct> {
    let Full { case, records, unknown, json_version } = full;
    let mut value =
        json::from_value(&case.json, schema, *json_version).unwrap_or_else(|error| panic!("{case}: {error}"));
    empty_records_are_null(&mut value);
    for records in list(records) {
        let path = records["path"].as_str().expect("a path");
        value.set(path, unhex(records["hex"].as_str().expect("hex"))).expect("records");
    }
    for field in list(unknown) {
        let path = field["path"].as_str().expect("a path");
        let strukt = match path {
            "" => &mut value,
            _ => match value.get_mut(path) {
                Some(Value::Struct(strukt)) => strukt,
                found => panic!("{case}: {found:?} at {path}"),
            },
        };
        let tag = field["tag"].as_u64().expect("a tag") as u32;
        let bytes = unhex(field["hex"].as_str().expect("hex"));
        strukt.unknown_tagged_fields.push(tag, bytes).ok()?;
    }
    Some(value)
}

/// `""` is what JSON has for all records; those that are not null are listed beside it.
fn empty_records_are_null(value: &mut Struct) {
    let fields: Vec<_> = value.iter().map(|(field, _)| field).collect();
    for field in fields {
        match (field.ty, value.get_mut(field.name).expect("a field")) {
            (FieldType::Records, records) => *records = Value::Null,
            (_, Value::Struct(inner)) => empty_records_are_null(inner),
            (_, Value::Array(elements)) => {
                for element in elements {
                    if let Value::Struct(inner) = element {
                        empty_records_are_null(inner);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn values_bytes_and_json_give_each_other() {
    fn check<M: Message>() {
        for full in full_cases::<M>() {
            let case = &full.case;
            if case.verdict() != Verdict::Valid {
                continue;
            }
            let value = dynamic::decode(M::SCHEMA, &case.bytes, case.version).expect("a value");
            let encoded = dynamic::encode(&value, M::SCHEMA, case.version).map(Bytes::from);
            assert_eq!(encoded.as_ref(), Ok(&case.bytes), "{case}");
            let json = json::to_value(&value, M::SCHEMA, case.version).expect("JSON");
            assert_eq!(json.to_string(), case.json.to_string(), "{case}");
            assert_eq!(build(&full, M::SCHEMA).as_ref(), Some(&value), "{case}");
            assert_eq!(json::encode(&case.value::<M>(), case.version).as_ref(), Ok(&case.json), "{case}");
            if list(&full.records).is_empty() && list(&full.unknown).is_empty() {
                assert_eq!(json::decode(&case.json, case.version), Ok(case.value::<M>()), "{case}");
            }
        }
    }
    every_message!(check);
}

#[test]
fn what_a_version_cannot_carry_is_dropped_or_refused() {
    fn check<M: Message>() {
        for full in full_cases::<M>() {
            let case = &full.case;
            // A field of no valid version is refused when JSON is read.
            if !matches!(case.verdict(), Verdict::Ignored | Verdict::EncodeError)
                || case.reason == "no-version"
            {
                continue;
            }
            let encoded =
                build(&full, M::SCHEMA).map(|value| dynamic::encode(&value, M::SCHEMA, case.version));
            match (case.verdict(), encoded) {
                (Verdict::Ignored, Some(encoded)) => {
                    assert_eq!(encoded.map(Bytes::from).as_ref(), Ok(&case.bytes), "{case}");
                }
                (Verdict::EncodeError, Some(encoded)) => {
                    let error = encoded.expect_err("an error");
                    assert!(case.path.is_empty() || error.path() == case.path, "{case}: {error}");
                }
                (Verdict::EncodeError, None) => assert_eq!(case.reason, "tags-descending", "{case}"),
                _ => {}
            }
        }
    }
    every_message!(check);
}

/// Interpreter, generated code and dump say the same of bytes.
fn check_agreement<M: Message>(bytes: &Bytes, version: i16) {
    let context = || format!("{} v{version}, bytes {bytes:?}", M::SCHEMA.name);
    let interpreted = dynamic::decode(M::SCHEMA, bytes, version);
    let generated = M::decode(bytes.clone(), version);
    assert_eq!(interpreted.as_ref().err(), generated.as_ref().err(), "{}", context());

    let dump = inspect::dump(M::SCHEMA, bytes, version);
    assert_eq!(dump.error(), interpreted.as_ref().err(), "{}", context());
    let read = check_tiles(&dump);
    assert!(dump.error().is_some() || read == bytes.len(), "{}", context());

    if let (Ok(interpreted), Ok(generated)) = (interpreted, generated) {
        let encoded = dynamic::encode(&interpreted, M::SCHEMA, version).map(Bytes::from);
        assert_eq!(encoded, generated.encode(version), "{}", context());
    }
}

/// Every byte up to the end of the lines is in one of them.
fn check_tiles(dump: &inspect::Dump) -> usize {
    let mut at = 0;
    for line in dump.lines() {
        assert!(line.bytes.start == at && line.bytes.end > at, "{line:?} behind byte {at}");
        at = line.bytes.end;
    }
    at
}

#[test]
fn damaged_bytes_are_refused_as_by_generated_code() {
    fn check<M: Message>() {
        for case in cases::<M>() {
            if !matches!(case.verdict(), Verdict::Ignored | Verdict::EncodeError) {
                check_agreement::<M>(&case.bytes, case.version);
            }
        }
        for case in cases_of::<M>(Verdict::DecodeError) {
            assert!(dynamic::decode(M::SCHEMA, &case.bytes, case.version).is_err(), "{case}");
        }
        for case in cases_of::<M>(Verdict::Valid) {
            if case.kind != "full" {
                continue;
            }
            for at in 0..case.bytes.len() {
                check_agreement::<M>(&case.bytes.slice(..at), case.version);
                for byte in [0, 0x80, 0xff] {
                    let mut bytes = case.bytes.to_vec();
                    bytes[at] = byte;
                    check_agreement::<M>(&bytes.into(), case.version);
                }
            }
        }
    }
    every_message!(check);
}

#[test]
fn bytes_behind_a_message_are_left_to_the_caller() {
    for case in cases_of::<ShareFetchResponse>(Verdict::Trailing) {
        let schema = ShareFetchResponse::SCHEMA;
        let error = dynamic::decode(schema, &case.bytes, case.version).unwrap_err();
        assert_eq!(error.reason(), &DecodeReason::TrailingBytes { left: case.left }, "{case}");
        let mut bytes = case.bytes.clone();
        let value = dynamic::decode_prefix(schema, &mut bytes, case.version).expect("a value");
        assert_eq!(bytes.len(), case.left, "{case}");
        assert_eq!(json::to_value(&value, schema, case.version), Ok(case.json.clone()), "{case}");
    }
}

#[test]
fn memory_is_limited() {
    // An array of 200000 acknowledge types, which are bytes.
    let schema = ShareAcknowledgeRequest::SCHEMA;
    let value = json!({"groupId": "", "memberId": "", "shareSessionEpoch": 0, "isRenewAck": false, "topics": [{
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
        "partitions": [{"partitionIndex": 0, "acknowledgementBatches": [
            {"firstOffset": 0, "lastOffset": 0, "acknowledgeTypes": vec![0; 200_000]},
        ]}],
    }]});
    let request = json::from_value(&value, schema, 2).expect("a value");
    let bytes = Bytes::from(dynamic::encode(&request, schema, 2).expect("bytes"));
    let error = dynamic::decode(schema, &bytes, 2).unwrap_err();
    assert_eq!(error.reason(), &DecodeReason::TooMuchMemory);
    assert_eq!(dynamic::decode_within(schema, &bytes, 2, usize::MAX), Ok(request));
    // The generated value is smaller, and JSON has no limit.
    let generated = ShareAcknowledgeRequest::decode(bytes, 2).expect("a value");
    assert_eq!(json::encode(&generated, 2), Ok(value));
}

#[test]
fn fields_have_three_names_and_one_type() {
    let case = &cases_of::<ShareFetchRequest>(Verdict::Valid)[1];
    let mut request = dynamic::decode(ShareFetchRequest::SCHEMA, &case.bytes, case.version).expect("a value");
    let index = Value::from(16_777_235);
    for path in [
        "topics[0].partitions[1].partition_index",
        "Topics[0].Partitions[1].PartitionIndex",
        "topics[0].partitions[1].partitionIndex",
    ] {
        assert_eq!(request.get(path), Some(&index), "{path}");
    }
    for path in
        ["", ".", "topics[", "topics[x]", "topics[9]", "topics]", "topics[0]x", "group_id.x", "group_id[0]"]
    {
        assert_eq!(request.get(path), None, "{path}");
    }
    assert_eq!(request.set("Topics[0].partitions[1].partitionIndex", 7), Ok(()));
    assert_eq!(request.get("topics[0].partitions[1].partition_index"), Some(&Value::Int(7)));

    let mut refused = |path, value: Value| request.set(path, value).unwrap_err().to_string();
    assert_eq!(refused("nothing", Value::Null), "nothing: there is nothing of this name");
    assert_eq!(refused("max_wait_ms", "soon".into()), "max_wait_ms: the value is not int32");
    assert_eq!(refused("max_wait_ms", (1_i64 << 31).into()), "max_wait_ms: the value is not int32");
    assert_eq!(refused("topics", vec![1].into()), "topics: the value is not []FetchTopic");
    assert_eq!(refused("topics[0]", Value::Null), "topics[0]: the value is not FetchTopic");

    // What gets past `set` is refused by `encode`.
    *request.get_mut("topics[0].partitions[0].partition_index").expect("a field") = "one".into();
    assert_eq!(
        dynamic::encode(&request, ShareFetchRequest::SCHEMA, 2).unwrap_err().to_string(),
        "ShareFetchRequest v2: topics[0].partitions[0].partition_index: the value is not int32",
    );
    assert_eq!(
        dynamic::encode(&request, ApiVersionsRequest::SCHEMA, 3).unwrap_err().to_string(),
        "ApiVersionsRequest v3: the value is not ApiVersionsRequest",
    );
}

#[test]
fn fresh_structs_are_those_of_generated_code() {
    fn check<M: Message>() {
        for version in M::VERSIONS.iter() {
            let fresh = Struct::new(M::SCHEMA.root);
            assert!(fresh.is_default());
            let encoded = dynamic::encode(&fresh, M::SCHEMA, version).map(Bytes::from);
            assert_eq!(encoded, M::default().encode(version), "{} v{version}", M::SCHEMA.name);
        }
    }
    every_message!(check);
}

#[test]
fn json_is_read_strictly_and_errors_name_the_member() {
    let valid = &cases_of::<ShareFetchRequest>(Verdict::Valid)[1].json;
    let refused = |pointer: &str, value: Json| {
        let mut json = valid.clone();
        *json.pointer_mut(pointer).expect("a member") = value;
        json::from_value(&json, ShareFetchRequest::SCHEMA, 1).unwrap_err().to_string()
    };
    let batch = "/topics/0/partitions/1/acknowledgementBatches/0";
    let errors = [
        refused("/topics/0", json!({"topicId": "AAAAAAAAAAAAAAAAAAAAAA"})),
        refused("/topics/0", Json::Null),
        refused("/topics/0/topicId", json!("AAAA")),
        refused("/memberId", json!(1)),
        refused("/maxBytes", json!(1.0)),
        refused("/maxBytes", json!(2_147_483_648_u32)),
        refused("/maxBytes", json!(u64::MAX)),
        refused(&format!("{batch}/acknowledgeTypes/1"), json!(128)),
        refused(&format!("{batch}/firstOffset"), json!("1")),
        refused(batch, json!([])),
    ];
    insta::assert_snapshot!("json_errors", errors.join("\n"));
    // A member of a later version is kept, and then refused when it is encoded.
    let mut later = valid.clone();
    later["isRenewAck"] = json!(true);
    later["nonsense"] = json!(true);
    let value = json::from_value(&later, ShareFetchRequest::SCHEMA, 1).expect("a value");
    assert_eq!(value.get("is_renew_ack"), Some(&Value::Bool(true)));
    assert_eq!(
        json::decode::<ShareFetchRequest>(&later, 1).unwrap_err().to_string(),
        "ShareFetchRequest v1: is_renew_ack: not in this version (versions 2+), and not its default false",
    );
    // The same of a field that is ignorable: nothing is dropped without a word.
    let mut answer = json::encode(&ShareAcknowledgeResponse::default(), 1).expect("a response");
    answer["acquisitionLockTimeoutMs"] = json!(77);
    let value = json::from_value(&answer, ShareAcknowledgeResponse::SCHEMA, 1).expect("a value");
    assert_eq!(value.get("acquisition_lock_timeout_ms"), Some(&Value::Int(77)));
    assert_eq!(
        json::decode::<ShareAcknowledgeResponse>(&answer, 1).unwrap_err().to_string(),
        "ShareAcknowledgeResponse v1: acquisition_lock_timeout_ms: \
         not in this version (versions 2+), and not its default 0",
    );
    answer["acquisitionLockTimeoutMs"] = json!(0);
    assert_eq!(json::decode(&answer, 1), Ok(ShareAcknowledgeResponse::default()));
    // One of a version that is not valid any more has nowhere to stay, so that only its default may be there.
    let mut earlier = valid.clone();
    let partition = earlier.pointer_mut("/topics/0/partitions/1").expect("a partition");
    partition["partitionMaxBytes"] = json!(0);
    assert!(json::from_value(&earlier, ShareFetchRequest::SCHEMA, 1).is_ok());
    let partition = earlier.pointer_mut("/topics/0/partitions/1").expect("a partition");
    partition["partitionMaxBytes"] = json!(1);
    assert_eq!(
        json::from_value(&earlier, ShareFetchRequest::SCHEMA, 1).unwrap_err().to_string(),
        "ShareFetchRequest v1: topics[0].partitions[1].partitionMaxBytes: \
         it is in version 0 only, which is not valid any more",
    );
    assert_eq!(
        json::decode::<ShareFetchRequest>(&later, 3).unwrap_err().to_string(),
        "ShareFetchRequest v3: not a supported version (versions 1-2)",
    );
}

#[test]
fn floats_that_are_no_numbers_are_strings() {
    let schema = DescribeClientQuotasResponse::SCHEMA;
    let response = |value: Json| {
        json!({"throttleTimeMs": 0, "errorCode": 0, "errorMessage": null, "entries": [
            {"entity": [], "values": [{"key": "", "value": value}]},
        ]})
    };
    for (value, bits) in [
        (json!("NaN"), f64::NAN),
        (json!("Infinity"), f64::INFINITY),
        (json!("-Infinity"), f64::NEG_INFINITY),
        (json!(-0.0), -0.0),
        (json!(1e300), 1e300),
    ] {
        let json = response(value);
        let read = json::from_value(&json, schema, 1).expect("a value");
        let float = read.get("entries[0].values[0].value").and_then(Value::as_float).expect("a float");
        assert_eq!(float.to_bits(), bits.to_bits());
        assert_eq!(json::to_value(&read, schema, 1).expect("JSON").to_string(), json.to_string());
    }
    assert!(json::from_value(&response(json!(1)), schema, 1).is_err());
}

/// Without its feature `float_roundtrip`, serde_json reads these one bit off.
#[test]
fn floats_are_read_to_the_last_bit() {
    let schema = DescribeClientQuotasResponse::SCHEMA;
    for (text, float) in [("12345678901234.567", 12345678901234.567), ("1.602176634E-19", 1.602176634e-19)] {
        let json = format!(
            r#"{{"throttleTimeMs": 0, "errorCode": 0, "errorMessage": null, "entries": [
                {{"entity": [], "values": [{{"key": "", "value": {text}}}]}}]}}"#
        );
        let json = serde_json::from_str(&json).expect("JSON");
        let read = json::from_value(&json, schema, 1).expect("a value");
        assert_eq!(read.get("entries[0].values[0].value"), Some(&Value::Float(float)));
    }
}

#[test]
fn frames_are_explained_from_end_to_end() {
    for case in list(&load("frames")["frames"]) {
        let bytes = unhex(case["hex"].as_str().expect("hex"));
        let name = case["message"].as_str().expect("a name");
        let version = case["version"].as_i64().expect("a version") as i16;
        let dump = if name.ends_with("Request") {
            inspect::frame_request(&bytes, schema::request)
        } else {
            let body_version = case["bodyVersion"].as_i64().map_or(version, |version| version as i16);
            inspect::frame_response(&bytes, schema::by_name(name).expect("a schema"), body_version)
        };
        if name.ends_with("Request") && case.get("bodyVersion").is_some() {
            let error = dump.error().expect("an error");
            assert_eq!(error.to_string(), "ApiVersionsRequest v6: not a supported version (versions 0-5)");
        } else {
            assert_eq!(dump.error(), None, "{case}\n{dump}");
            assert_eq!(check_tiles(&dump), bytes.len(), "{case}");
        }
    }
}

#[test]
fn a_dump_is_legible() {
    let request = ShareFetchRequest {
        group_id: Some("workers".into()),
        member_id: None,
        topics: vec![share_fetch_request::FetchTopic {
            partitions: vec![share_fetch_request::FetchPartition {
                acknowledgement_batches: vec![share_fetch_request::AcknowledgementBatch {
                    last_offset: 1,
                    acknowledge_types: [1.into(), 2.into()].into_iter().collect(),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let header = frame::request_header::<ShareFetchRequest>(2, 7, "tool");
    let mut bytes = Vec::new();
    frame::encode_request(&mut bytes, &header, &request).expect("a frame");
    insta::assert_snapshot!("dump_request", inspect::frame_request(&bytes, schema::request));

    let full = full_cases::<ShareFetchResponse>();
    let full = full.iter().find(|full| full.case.kind == "full").expect("a full case");
    let mut response: ShareFetchResponse = full.case.value();
    response.responses.truncate(1);
    response.responses[0].partitions.truncate(1);
    response.node_endpoints.clear();
    response.error_code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    response.unknown_tagged_fields.push(9, b"\xde\xad").expect("a tag");
    let bytes = response.encode(2).expect("bytes");
    insta::assert_snapshot!("dump_response", inspect::dump(ShareFetchResponse::SCHEMA, &bytes, 2));
    let cut = &bytes[..bytes.len() - 12];
    insta::assert_snapshot!("dump_cut", inspect::dump(ShareFetchResponse::SCHEMA, cut, 2));
}

#[test]
fn broken_frames_are_explained_as_far_as_possible() {
    let dump = |bytes: &[u8]| inspect::frame_request(bytes, schema::request).to_string();
    let dumps = [
        dump(b""),
        dump(b"\0\0"),
        dump(b"\xff\xff\xff\xff"),
        dump(b"\0\0\0\x02\0\x12"),
        dump(b"\0\0\0\x0c\x03\xe7\0\0\0\0\0\x01\0\0\xca\xfe"),
        dump(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\0\0\xca\xfe"),
    ];
    insta::assert_snapshot!("dump_broken_frames", dumps.join("\n"));
}

#[test]
fn records_are_shown_by_their_size_where_that_is_asked_for() {
    let mut response = ShareFetchResponse::default();
    let records = |records| share_fetch_response::PartitionData { records, ..Default::default() };
    let partitions = vec![records(Some(Bytes::from_static(b"seven b"))), records(Some(Bytes::new()))];
    response.responses =
        vec![share_fetch_response::ShareFetchableTopicResponse { partitions, ..Default::default() }];
    let sizes = json::encode_with_record_sizes(&response, 2).expect("JSON");
    let partitions = &sizes["responses"][0]["partitions"];
    assert_eq!(
        (&partitions[0]["recordsSizeInBytes"], &partitions[1]["recordsSizeInBytes"]),
        (&json!(7), &json!(0))
    );
    assert!(partitions[0].get("records").is_none());
    // In the place of the member, and all others are as ever.
    let mut plain = json::encode(&response, 2).expect("JSON").to_string();
    plain = plain.replacen(r#""records":"""#, r#""recordsSizeInBytes":7"#, 1);
    plain = plain.replacen(r#""records":"""#, r#""recordsSizeInBytes":0"#, 1);
    assert_eq!(sizes.to_string(), plain);

    // Null is null, also where no version allows it.
    let mut value =
        dynamic::decode(ShareFetchResponse::SCHEMA, &response.encode(2).expect("bytes"), 2).expect("a value");
    value.set("responses[0].partitions[0].records", Value::Null).expect("a field");
    let sizes = json::to_value_with_record_sizes(&value, ShareFetchResponse::SCHEMA, 2).expect("JSON");
    assert_eq!(sizes["responses"][0]["partitions"][0]["records"], Json::Null);
    assert!(sizes["responses"][0]["partitions"][0].get("recordsSizeInBytes").is_none());
    assert_eq!(
        json::to_value(&value, ShareFetchResponse::SCHEMA, 2).expect("JSON")["responses"][0]["partitions"][0]
            ["records"],
        ""
    );
}
