//! Bytes and verdicts of Apache Kafka's own classes, for one message at a time.

use std::collections::BTreeMap;
use std::fmt::Write;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::{AcknowledgeType, DecodeError, DecodeReason, ErrorCode, Message};
use kafka_protocol::wire::BytesMut;

use serde_json::Value;

use crate::fixture::{Case, Verdict, cases, cases_of, load, rust_path};
use crate::vectors::Damage;

/// The tests select cases by what they say of bytes; this table tells what there is to select from.
#[test]
fn no_vector_is_missing() {
    fn count<M: Message>(table: &mut String) {
        let mut kinds = BTreeMap::<_, usize>::new();
        for case in cases::<M>() {
            *kinds.entry((format!("{:?}", case.verdict()), case.version)).or_default() += 1;
        }
        let mut verdict = String::new();
        let _ = write!(table, "{}", M::SCHEMA.name);
        for ((next, version), n) in kinds {
            if next != verdict {
                let _ = write!(table, "\n  {next:13}");
                verdict = next;
            }
            let _ = write!(table, "  v{version}: {n}");
        }
        table.push('\n');
    }
    let mut table = String::new();
    every_message!(count(&mut table));
    insta::assert_snapshot!("cases", table);
}

#[test]
fn values_and_bytes_give_each_other() {
    fn check<M: Message>() {
        let cases = cases_of::<M>(Verdict::Valid);
        let fullest = cases.iter().max_by_key(|case| case.bytes.len()).expect("a case");
        let mut previous = M::default();
        for case in &cases {
            let value: M = case.value();
            check_encode(case, &value);

            assert_eq!(M::decode_slice(&case.bytes, case.version).as_ref(), Ok(&value), "{case}");
            let mut used: M = fullest.value();
            for used in [&mut used, &mut previous] {
                used.decode_from(&case.bytes, case.version).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(*used, value, "{case} over a used value");
            }
        }
    }
    every_message!(check);
}

/// `value` is what the bytes of `case` say.
fn check_encode<M: Message>(case: &Case, value: &M) {
    let version = case.version;
    assert_eq!(value.encode(version).as_ref(), Ok(&case.bytes), "{case}");
    assert_eq!(value.encoded_len(version), Ok(case.bytes.len()), "{case}");

    let behind = [b"before", &case.bytes[..]].concat();
    let mut vec = b"before".to_vec();
    assert_eq!(value.encode_into(&mut vec, version), Ok(()), "{case}");
    assert_eq!(vec, behind, "{case}");
    let mut bytes = BytesMut::from(&b"before"[..]);
    assert_eq!(value.encode_into(&mut bytes, version), Ok(()), "{case}");
    assert_eq!(bytes, behind, "{case}");
}

#[test]
fn decoded_values_are_what_a_reviewer_expects() {
    fn snapshot<M: Message>() {
        let mut text = String::new();
        for case in cases_of::<M>(Verdict::Valid) {
            if case.kind == "default" || case.kind == "full" {
                let value: M = case.value();
                let _ = writeln!(text, "v{} {}: {value:#?}\n", case.version, case.kind);
            }
        }
        insta::assert_snapshot!(M::SCHEMA.name, text);
    }
    every_message!(snapshot);
}

/// Two fields that change places, in reading and in writing, would leave all bytes right. In the `full` cases no two
/// fields have the same value.
#[test]
fn fields_hold_what_kafka_put_into_them() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::Valid).into_iter().filter(|case| case.kind == "full") {
            let value = format!("{:?}", case.value::<M>());
            let mut fields = Vec::new();
            shown_fields(&case.json, &mut fields);
            assert!(case.bytes.is_empty() || !fields.is_empty(), "{case}");
            for field in fields {
                let there = [", ", " }"].iter().any(|end| value.contains(&format!("{field}{end}")));
                assert!(there, "{case}: {field} is not in {value}");
            }
        }
    }
    every_message!(check);
}

/// `name: value` as `Debug` shows it, for every field of plain values in `json`.
fn shown_fields(json: &Value, fields: &mut Vec<String>) {
    match json {
        Value::Array(elements) => elements.iter().for_each(|element| shown_fields(element, fields)),
        Value::Object(members) => {
            for (name, value) in members {
                let value = match value {
                    Value::Array(elements) if elements.iter().all(Value::is_number) => {
                        let elements = elements.iter().map(|element| shown_number(name, element));
                        format!("[{}]", elements.collect::<Vec<_>>().join(", "))
                    }
                    Value::Array(_) | Value::Object(_) => {
                        shown_fields(value, fields);
                        continue;
                    }
                    Value::Number(_) => shown_number(name, value),
                    // Its bytes are in order, and it is the only one of its struct.
                    Value::String(_) if name == "topicId" || name == "records" => continue,
                    Value::String(text) if nullable(name) => format!("Some({text:?})"),
                    Value::String(text) => format!("{text:?}"),
                    Value::Bool(bool) => bool.to_string(),
                    Value::Null => "None".to_owned(),
                };
                fields.push(format!("{}: {value}", rust_path(name)));
            }
        }
        _ => {}
    }
}

fn shown_number(name: &str, number: &Value) -> String {
    let small =
        || number.as_i64().and_then(|number| number.try_into().ok()).unwrap_or_else(|| panic!("{name}"));
    match name {
        "acknowledgeTypes" => format!("{:?}", AcknowledgeType(small() as i8)),
        _ if name.to_lowercase().ends_with("errorcode") => format!("{:?}", ErrorCode(small())),
        _ => number.to_string(),
    }
}

fn nullable(name: &str) -> bool {
    matches!(name, "clientId" | "clusterId" | "groupId" | "memberId" | "rack")
        || name.ends_with("rrorMessage")
}

#[test]
fn bytes_that_kafka_cannot_read_are_refused_where_they_are_damaged() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::DecodeError) {
            let error = M::decode(case.bytes.clone(), case.version)
                .map(|value| panic!("{case}: is read as {value:?}"))
                .unwrap_err();
            check_decode_error::<M>(&case, &error);
        }
    }
    every_message!(check);
}

/// Kafka puts up with these bytes, but nobody who writes well sends them.
#[test]
fn bytes_that_kafka_reads_but_never_writes_are_refused_or_read_alike() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::DecodeLenient) {
            let decoded = M::decode(case.bytes.clone(), case.version);
            match case.mutation.as_str() {
                // Kafka's own clients may send both.
                "bool-2" | "tag-default" => {
                    let value = decoded.unwrap_or_else(|error| panic!("{case}: {error}"));
                    assert_eq!(value.encode(case.version).ok(), case.reencoded, "{case}");
                }
                _ => {
                    let error = decoded.map(|value| panic!("{case}: is read as {value:?}")).unwrap_err();
                    check_decode_error::<M>(&case, &error);
                }
            }
        }
    }
    every_message!(check);
}

fn check_decode_error<M: Message>(case: &Case, error: &DecodeError) {
    let context = format!("{case}: {error}");
    assert_eq!(error.message(), M::SCHEMA.name, "{context}");
    assert_eq!(error.version(), case.version, "{context}");
    assert!(error.offset() <= case.bytes.len(), "{context}");
    let Case { version, ref bytes, ref mutation, ref path, at, .. } = *case;
    assert_eq!(
        Damage { schema: M::SCHEMA, version, bytes, mutation, path, at }.check(error),
        Ok(()),
        "{context}"
    );
}

#[test]
fn errors_read_well() {
    let mut text = String::new();
    for verdict in [Verdict::DecodeError, Verdict::DecodeLenient] {
        for case in cases_of::<ShareFetchRequest>(verdict) {
            if case.mutation != "truncate"
                && let Err(error) = ShareFetchRequest::decode(case.bytes, case.version)
            {
                let _ = writeln!(text, "{:20} {error}", case.mutation);
            }
        }
    }
    insta::assert_snapshot!("errors", text);
}

#[test]
fn bytes_behind_a_message_are_refused_or_left_to_the_caller() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::Trailing) {
            let error = M::decode(case.bytes.clone(), case.version).expect_err("bytes behind");
            assert_eq!(error.reason(), &DecodeReason::TrailingBytes { left: case.left }, "{case}");
            assert_eq!((error.path(), error.offset()), ("", case.at), "{case}");
            assert_eq!(M::decode_slice(&case.bytes, case.version), Err(error), "{case}");

            let mut bytes = case.bytes.clone();
            let value = M::decode_prefix(&mut bytes, case.version).expect("a message");
            assert_eq!(bytes, case.bytes[case.at..], "{case}");
            assert_eq!(bytes.len(), case.left, "{case}");
            assert_eq!(value.encode(case.version).ok(), case.reencoded, "{case}");
        }
    }
    every_message!(check);
}

#[test]
fn a_prefix_that_is_not_a_message_is_left_as_it_was() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::DecodeError) {
            let mut bytes = case.bytes.clone();
            let error = M::decode_prefix(&mut bytes, case.version).expect_err("not a message");
            assert_eq!(Err(error), M::decode(case.bytes.clone(), case.version), "{case}");
            assert_eq!(bytes, case.bytes, "{case}");
        }
    }
    every_message!(check);
}

#[test]
fn other_versions_than_the_valid_ones_are_refused() {
    fn check<M: Message>() {
        let supported = M::VERSIONS;
        for version in [i16::MIN, -1, supported.min() - 1, supported.max() + 1, i16::MAX] {
            let decode = M::decode_slice(&[0; 64], version).unwrap_err();
            assert_eq!(decode.reason(), &DecodeReason::UnsupportedVersion { supported });
            let encode = M::default().encode(version).unwrap_err();
            assert_eq!(decode.to_string(), encode.to_string());
            let name = M::SCHEMA.name;
            assert_eq!(
                encode.to_string(),
                format!("{name} v{version}: not a supported version (versions {supported})"),
            );
        }
    }
    every_message!(check);
}

#[test]
fn error_codes_are_those_of_kafka() {
    let file = load("errors");
    let kafka: Vec<_> = file["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|error| (error["code"].as_i64(), error["name"].as_str(), error["retriable"].as_bool()))
        .collect();
    let ours: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|code| (Some(code.0.into()), code.name(), Some(code.is_retriable())))
        .collect();
    assert_eq!(ours, kafka);

    let named = (i16::MIN..=i16::MAX).filter(|&code| ErrorCode(code).name().is_some()).count();
    assert_eq!(named, kafka.len(), "no other code has a name");
}
