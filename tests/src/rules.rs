//! What the generator refuses, what it accepts, and how it says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use codegen::Coverage;
use codegen::check::check;
use codegen::model::{self, Domain, Kind, Message, Model, Type, Use};
use codegen::report::{Report, Rule, Severity};
use codegen::schema;
use codegen::source::{self, Source};
use codegen::versions::{Versions, When};

/// Each of the schemas in `schemas/broken` breaks the rule that its name starts with, first of all.
#[test]
fn broken_schemas_are_explained() {
    let mut covered = BTreeSet::new();
    for path in entries(&root().join("schemas/broken")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let sources = if path.is_dir() {
            source::load(&path).unwrap()
        } else {
            vec![Source {
                path: path.file_name().unwrap().to_str().unwrap().to_owned(),
                text: fs::read_to_string(&path).unwrap(),
            }]
        };
        // A folder holds a whole set; a single file may be part of one.
        let (report, model) = run(&sources, if path.is_dir() { Coverage::Whole } else { Coverage::Part });

        let first = report.iter().next().unwrap_or_else(|| panic!("{name} is accepted"));
        let code = name.split('-').next().unwrap();
        assert_eq!(first.rule.code(), code, "{name}:\n{}", report.render(&sources, Path::new(""), false));
        assert!(!first.help.is_empty(), "{name} has no help");
        assert!(report.has_errors() == model.families.is_empty(), "{name}");
        covered.insert(first.rule);

        insta::with_settings!({
            snapshot_path => "snapshots/broken",
            prepend_module_to_snapshot => false,
            description => first.rule.summary(),
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, report.render(&sources, Path::new(""), false));
        });
    }
    let missing: Vec<_> = Rule::ALL.iter().filter(|rule| !covered.contains(rule)).collect();
    assert!(missing.is_empty(), "no schema in schemas/broken breaks {missing:?}");
}

/// One run finds everything that is wrong in all files.
#[test]
fn one_report_has_all_violations() {
    let sources = [
        source(
            "share/BallotRequest.json",
            r#"{ "apiKey": 1, "type": "request", "name": "BallotRequest",
  "validVersions": "0+", "flexibleVersions": "0",
  "fields": [
    { "name": "Id", "type": "uuid", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Count", "type": "int8", "versions": "0 +", "default": "200" },
    { "name": "Votes", "type": "[]Vote", "versions": "0+", "fields": [
      { "name": "Voter", "type": "int32", "versions": "0+", "tag": 1, "taggedVersions": "0" }
    ]}
  ]
}
"#,
        ),
        source(
            "share/CountRequest.json",
            r#"{ "apiKey": 1, "type": "request", "name": "CountRequest",
  "validVersions": "0", "flexibleVersions": "0+", "feilds": [] }
"#,
        ),
        source("share/Torn.json", "{\n  \"type\": \"data\",\n"),
    ];
    let (report, _) = run(&sources, Coverage::Whole);
    let found: Vec<_> = report
        .iter()
        .map(|it| {
            let (line, column) = it.line_column(&sources).unwrap();
            format!("{} {}:{line}:{column} {}", it.rule.code(), it.source, it.path)
        })
        .collect();
    assert_eq!(
        found,
        [
            "M6 share/BallotRequest.json:2:20 BallotRequest",
            "M3 share/BallotRequest.json:2:46 BallotRequest",
            "F4 share/BallotRequest.json:4:75 BallotRequest.Id",
            "V1 share/BallotRequest.json:5:52 BallotRequest.Count",
            "D1 share/BallotRequest.json:5:70 BallotRequest.Count",
            "S3 share/BallotRequest.json:7:68 BallotRequest.Votes.Voter",
            "F13 share/BallotRequest.json:7:89 BallotRequest.Votes.Voter",
            "M8 share/CountRequest.json:1:13 CountRequest",
            "J3 share/CountRequest.json:2:51 CountRequest",
            "J1 share/Torn.json:1:1 ",
        ]
    );
    insta::assert_snapshot!("all_violations", report.render(&sources, Path::new(""), false));
}

/// The cases whose point is whether the schema is accepted.
#[test]
fn cases() {
    for line in fs::read_to_string(root().join("cases/cases.jsonl")).unwrap().lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        if case["kind"] != "schema" {
            continue;
        }
        let id = &case["id"];
        let text = case["schema_text"].as_str().map_or_else(|| case["schema"].to_string(), str::to_owned);
        let expected = case["expected"]["accept"].as_bool().unwrap();
        assert_eq!(accepts(&text), expected, "{id}");
    }
}

#[test]
fn removed_apis_keep_their_key() {
    let model = accepted(&[
        r#"{ "apiKey": 6, "type": "request", "name": "GoneRequest", "validVersions": "none" }"#,
        r#"{ "apiKey": 6, "type": "response", "name": "GoneResponse", "validVersions": "3-1",
            "flexibleVersions": "1-2", "listeners": ["broker"], "fields": [{ "name": "A", "type": "nothing" }] }"#,
    ]);
    let family = &model.families[0];
    assert!(family.messages.is_empty());
    let removed: Vec<_> = family.removed.iter().map(|it| (it.name.as_str(), it.kind, it.api_key)).collect();
    assert_eq!(removed, [("GoneRequest", Kind::Request, 6), ("GoneResponse", Kind::Response, 6)]);
}

/// The liberties that Kafka's own reader takes with types of values.
#[test]
fn bare_scalars_and_single_values() {
    let model = accepted(&[
        r#"
        // A licence.
        /* More of it. */ { // and more
            "type": "request", "name": "BallotRequest", "apiKey": "7", "listeners": "broker",
            "latestVersionUnstable": "true", "deprecatedVersions": 0, "validVersions": "0-1" /* both */,
            "flexibleVersions": "0+", "commonStructs": null,
            "fields": [
                { "name": "A", "type": "bool", "versions": 0, "default": true, "ignorable": "true" },
                { "name": "B", "type": "int32", "versions": "0+", "default": -1, "about": null }, // trailing
                { "name": "C", "type": "Vote", "versions": "0+", "nullableVersions": "0+", "default": null,
                  "fields": { "name": "D", "type": "[] int8", "versions": " 0+ " } },
                { "name": "E", "type": " int16 ", "taggedVersions": "1+", "tag": "0" },
                { "name": "F", "type": "string", "versions": "9", "versions": "0+", "default": 1.50 }
            ]
        } // the end"#,
        r#"{ "apiKey": 7, "type": "response", "name": "BallotResponse", "validVersions": "0-1",
            "flexibleVersions": "" }"#,
    ]);
    let [request, response] = model.families[0].messages.as_slice() else { panic!("{model:?}") };
    assert_eq!(request.api_key, Some(7));
    assert_eq!(request.listeners, [model::Listener::Broker]);
    assert!(request.latest_version_unstable);
    assert_eq!(request.deprecated, Versions::new(0, 0));
    assert_eq!(request.partner.as_ref().unwrap().rust_name, "BallotResponse");
    let [a, b, c, e, f] = request.structs[0].fields.as_slice() else { panic!("{request:?}") };
    assert_eq!(
        (&a.default, a.ignorable, a.versions),
        (&model::Default::Bool(true), true, Versions::new(0, 0))
    );
    assert_eq!(b.default, model::Default::Int(-1));
    assert_eq!((&c.default, c.nullable), (&model::Default::Empty, When::Always));
    assert_eq!(request.structs[1].fields[0].ty, Type::Array(Box::new(Type::Int8)));
    assert_eq!(
        (e.versions, e.inline, e.tagged, e.tag),
        (Versions::since(1), When::Never, When::Since(1), Some(0))
    );
    assert_eq!(f.default, model::Default::String("1.50".to_owned()));
    assert_eq!(response.flexible, Versions::NONE);
    assert_eq!(response.structs[0].fields.len(), 0);
}

/// What looks wrong and is not.
#[test]
fn legal_oddities() {
    for fields in [
        // Null, or the field itself, where the other does not exist.
        r#"{ "name": "A", "type": "string", "versions": "1+", "nullableVersions": "0+" }"#,
        r#"{ "name": "A", "type": "string", "versions": "0", "nullableVersions": "1+" }"#,
        r#"{ "name": "A", "type": "int32", "versions": "7" }"#,
        r#"{ "name": "A", "type": "int32", "versions": "none" }"#,
        r#"{ "name": "A", "type": "int32", "versions": "0+", "nullableVersions": "none" }"#,
        // Inline first, tagged later; tags in any order.
        r#"{ "name": "A", "type": "int32", "versions": "0+", "taggedVersions": "1+", "tag": 0 }"#,
        r#"{ "name": "A", "type": "int8", "versions": "0+", "taggedVersions": "0+", "tag": 1 },
           { "name": "B", "type": "int8", "versions": "0+", "taggedVersions": "0+", "tag": 0 }"#,
        // Structs without members, keys of all kinds.
        r#"{ "name": "A", "type": "Vote", "versions": "0+", "fields": [] }"#,
        r#"{ "name": "A", "type": "Vote", "versions": "0+", "fields": [
            { "name": "B", "type": "Id", "versions": "0+", "mapKey": true, "fields": [
              { "name": "C", "type": "int8", "versions": "0+" }]},
            { "name": "D", "type": "string", "versions": "1+", "nullableVersions": "1+", "mapKey": true }]}"#,
        r#"{ "name": "A", "type": "[]int32", "versions": "0+", "fields": [
            { "name": "B", "type": "int8", "versions": "0+" }]}"#,
        r#"{ "name": "CurrentLeader", "type": "CurrentLeader", "versions": "0+", "fields": [
            { "name": "CurrentLeader", "type": "int8", "versions": "0+" }]}"#,
        // Words of Rust and of Java.
        r#"{ "name": "Class", "type": "int8", "versions": "0+" }, { "name": "Self", "type": "int8", "versions": "0+" },
           { "name": "type", "type": "int8", "versions": "0+" }"#,
        r#"{ "name": "A", "type": "[]string", "versions": "0+", "entityType": "groupId" }"#,
        r#"{ "name": "A", "type": "bytes", "versions": "0+", "flexibleVersions": "none", "zeroCopy": true }"#,
        r#"{ "name": "A", "type": "string", "versions": "0+", "flexibleVersions": "" }"#,
        r#"{ "name": "A", "type": "records", "versions": "0+", "default": "whatever" }"#,
    ] {
        let text = data("0-1", fields);
        let sources = [source("Ballot.json", &text)];
        let (report, _) = run(&sources, Coverage::Whole);
        assert!(report.is_empty(), "{fields}\n{}", report.render(&sources, Path::new(""), false));
    }
    // An unused common struct; one that is declared after its use; the widest of versions.
    accepted(&[
        r#"{ "type": "data", "name": "Ballot", "validVersions": "0-32766", "flexibleVersions": "none",
        "commonStructs": [
          { "name": "Vote", "versions": "0+", "fields": [{ "name": "A", "type": "[]Voter", "versions": "1-200" }]},
          { "name": "Voter", "versions": "0+", "deprecatedVersions": "0" },
          { "name": "Unused", "versions": "3-5" }
        ],
        "fields": [{ "name": "A", "type": "Vote", "versions": "0+" }, { "name": "B", "type": "Vote", "versions": "1+" }] }"#,
    ]);
    // Records of two coordinators in one folder may have the same id.
    let record = |kind: &str, name: &str| {
        format!(
            r#"{{ "apiKey": 0, "type": "coordinator-{kind}", "name": "{name}", "validVersions": "0",
            "flexibleVersions": "none" }}"#
        )
    };
    accepted(&[
        &record("key", "VoteKey"),
        &record("value", "VoteValue"),
        &record("key", "BallotKey"),
        &record("value", "BallotValue"),
    ]);
}

/// Half of an API is an error in a whole set, and a warning in one that extends another.
#[test]
fn missing_halves() {
    let sources = [
        source(
            "BallotRequest.json",
            r#"{ "apiKey": 1, "type": "request", "name": "BallotRequest",
            "validVersions": "0", "flexibleVersions": "0+" }"#,
        ),
        source(
            "VoteKey.json",
            r#"{ "apiKey": 1, "type": "coordinator-key", "name": "VoteKey",
            "validVersions": "0", "flexibleVersions": "none" }"#,
        ),
    ];
    for (coverage, severity) in [(Coverage::Whole, Severity::Error), (Coverage::Unknown, Severity::Warning)] {
        let (report, _) = run(&sources, coverage);
        let found: Vec<_> = report.iter().map(|it| (it.rule, it.severity)).collect();
        assert_eq!(found, [(Rule::M8, severity), (Rule::M12, severity)]);
    }
    // What is in a file that cannot be read might be the other half.
    let [request, key] = sources;
    let (report, _) = run(&[request, key, source("Torn.json", "{")], Coverage::Whole);
    assert_eq!(report.iter().map(|it| it.rule).collect::<Vec<_>>(), [Rule::J1]);
}

#[test]
fn json_is_strict_but_for_comments() {
    let good = data("0", r#"{ "name": "A", "type": "int8", "versions": "0" }"#);
    assert!(accepts(&good));
    for bad in [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        format!("{good},"),
        format!("{good} {good}"),
        format!("{good} x"),
        format!("{good} # x"),
        format!("{good} /* x"),
        good.replace("\"type\"", "type"),
        good.replace("\"type\"", "'type'"),
        good.replace("\"versions\": \"0\"", "\"versions\": \"0\","),
        good.replace("\"versions\": \"0\"", "\"versions\": \"0\" \"about\": \"\""),
        good.replace("\"versions\": \"0\"", "\"versions\": 0x0"),
        good.replace("\"versions\": \"0\"", "\"versions\": +0"),
        good.replace("\"versions\": \"0\"", "\"versions\": 00"),
        good.replace("\"versions\": \"0\"", "\"versions\": \"\\x30\""),
        good.replace("\"versions\": \"0\"", "\"versions\": \"0\t\""),
    ] {
        let (report, _) = run(&[source("Ballot.json", &bad)], Coverage::Whole);
        assert_eq!(report.iter().map(|it| it.rule).collect::<Vec<_>>(), [Rule::J1], "{bad}");
    }
}

#[test]
fn defaults() {
    use model::Default::{Bool, Empty, Float, Int, Null, String, Uuid};
    let text = |text: &str| String(text.to_owned());
    for (ty, default, expected) in [
        ("bool", "", Some(Bool(false))),
        ("bool", "TRUE", Some(Bool(true))),
        ("bool", "False", Some(Bool(false))),
        ("bool", "0", None),
        ("int8", "", Some(Int(0))),
        ("int8", "-128", Some(Int(-128))),
        ("int8", "+5", Some(Int(5))),
        ("int8", "-0", Some(Int(0))),
        ("int8", "0x7f", Some(Int(127))),
        ("int8", "0x007F", Some(Int(127))),
        ("int8", "0x80", None),
        ("int8", "128", None),
        ("int8", "0X10", None),
        ("int8", "-0x5", None),
        ("int8", "0x-5", None),
        ("int8", "0x+5", None),
        ("int8", "0x", None),
        ("int8", "010", None),
        ("int8", "-010", None),
        ("int8", "00", None),
        ("int8", "1.0", None),
        ("int8", " 1", None),
        ("int8", "null", None),
        ("int8", "-", None),
        ("int32", "0x7fffffff", Some(Int(2_147_483_647))),
        ("int32", "0xffffffff", None),
        ("int64", "-9223372036854775808", Some(Int(i64::MIN))),
        ("int64", "9223372036854775807", Some(Int(i64::MAX))),
        ("int64", "9223372036854775808", None),
        ("int64", "0x7fffffffffffffff", Some(Int(i64::MAX))),
        ("int64", "0x8000000000000000", None),
        ("uint16", "65535", Some(Int(65_535))),
        ("uint16", "-1", None),
        ("uint32", "4294967295", Some(Int(4_294_967_295))),
        ("uint32", "0xffffffff", Some(Int(4_294_967_295))),
        ("uint32", "4294967296", None),
        ("float64", "", Some(Float(0.0))),
        ("float64", "12.34", Some(Float(12.34))),
        ("float64", "-1e9", Some(Float(-1e9))),
        ("float64", ".5", Some(Float(0.5))),
        ("float64", "5.", Some(Float(5.0))),
        ("float64", " 1.5d ", Some(Float(1.5))),
        ("float64", "Infinity", Some(Float(f64::INFINITY))),
        ("float64", "-Infinity", Some(Float(f64::NEG_INFINITY))),
        ("float64", "1e999", Some(Float(f64::INFINITY))),
        ("float64", "inf", None),
        ("float64", "infinity", None),
        ("float64", "nan", None),
        ("float64", "1e", None),
        ("float64", "--1", None),
        ("float64", "0x10", None),
        ("float64", "0x1p3", Some(Float(8.0))),
        ("float64", "-0X1.8P+1", Some(Float(-3.0))),
        ("float64", "0x.8p1f", Some(Float(1.0))),
        ("float64", "0x0p0", Some(Float(0.0))),
        ("float64", "0x1.fffffffffffffp1023", Some(Float(f64::MAX))),
        ("float64", "0x1.fffffffffffff8p1023", Some(Float(f64::INFINITY))),
        ("float64", "0x1.fffffffffffff7ffffffffffffp1023", Some(Float(f64::MAX))),
        ("float64", "0x1p1024", Some(Float(f64::INFINITY))),
        ("float64", "0x1p-1022", Some(Float(f64::MIN_POSITIVE))),
        ("float64", "0x1p-1074", Some(Float(f64::from_bits(1)))),
        ("float64", "0x1p-1075", Some(Float(0.0))),
        ("float64", "0x1.0000000000000000000001p-1075", Some(Float(f64::from_bits(1)))),
        ("float64", "0x0.fffffffffffff8p-1022", Some(Float(f64::MIN_POSITIVE))),
        ("float64", "0x0.fffffffffffff7p-1022", Some(Float(f64::from_bits((1 << 52) - 1)))),
        ("float64", "0x1.00000000000008p0", Some(Float(1.0))),
        ("float64", "0x1.000000000000080000000001p0", Some(Float(1.0 + f64::EPSILON))),
        ("float64", "0x1.00000000000018p0", Some(Float(1.0 + 2.0 * f64::EPSILON))),
        ("float64", "0x1p99999999999999999999", Some(Float(f64::INFINITY))),
        ("float64", "0x1p-99999999999999999999", Some(Float(0.0))),
        ("float64", "0xp1", None),
        ("float64", "0x.p1", None),
        ("float64", "0x1p", None),
        ("float64", "0x1.2.3p0", None),
        ("uuid", "", Some(Uuid([0; 16]))),
        (
            "uuid",
            "H3KKO4NTRPaCWtEmm3vW7A",
            Some(Uuid([
                0x1f, 0x72, 0x8a, 0x3b, 0x83, 0x53, 0x44, 0xf6, 0x82, 0x5a, 0xd1, 0x26, 0x9b, 0x7b, 0xd6,
                0xec,
            ])),
        ),
        (
            "uuid",
            "____________________-w==",
            Some(Uuid([255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 251])),
        ),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAA=", None),
        ("uuid", "AAAAAAAAAAAAAAAAAAAA", None),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAA+", None),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", None),
        ("string", "", Some(text(""))),
        ("string", "null", Some(Null)),
        ("string", "Null", Some(text("Null"))),
        ("bytes", "", Some(Empty)),
        ("bytes", "null", Some(Null)),
        ("bytes", "x", None),
        ("records", "", Some(Null)),
        ("records", "x", Some(Null)),
        ("[]int32", "", Some(Empty)),
        ("[]int32", "null", Some(Null)),
        ("[]int32", "0", None),
    ] {
        let nullable = matches!(ty, "string" | "bytes" | "records" | "[]int32");
        let nullable = if nullable { "0+" } else { "none" };
        let schema = data(
            "0",
            &format!(
                r#"{{ "name": "A", "type": "{ty}", "versions": "0+", "nullableVersions": "{nullable}", "default": "{default}" }}"#
            ),
        );
        let sources = [source("Ballot.json", &schema)];
        let (report, model) = run(&sources, Coverage::Whole);
        match expected {
            Some(expected) => {
                let message = only(&model);
                assert_eq!(message.structs[0].fields[0].default, expected, "{ty} {default}");
            }
            None => {
                let rules: Vec<_> = report.iter().map(|it| it.rule).collect();
                assert_eq!(rules, [Rule::D1], "{ty} {default}");
            }
        }
    }
    let nan = data("0", r#"{ "name": "A", "type": "float64", "versions": "0+", "default": "-NaN" }"#);
    let model = accepted(&[&nan]);
    assert!(matches!(only(&model).structs[0].fields[0].default, Float(value) if value.is_nan()));
}

/// The doc of a message is the comment right above `validVersions`, and no other.
#[test]
fn docs() {
    for (comment, expected) in [
        ("", &[][..]),
        ("// Counts\n// votes.\n//\n//\n// Twice.\n", &["Counts votes.", "Twice."]),
        ("// Not this.\n\n// Counts.\n", &["Counts."]),
        ("// Not this.\n\n", &[]),
        ("/* Counts. */\n", &["Counts."]),
        ("/**\n * Counts\n * votes.\n *\n * Twice.\n */\n", &["Counts votes.", "Twice."]),
        ("// Counts.\r\n", &["Counts."]),
    ] {
        let text = format!(
            "// Not this.\n{{ \"type\": \"data\", // Not this.\n\"name\": \"Ballot\", // Not this.\n{comment}\
             \"validVersions\": \"0\", // Not this.\n\"flexibleVersions\": \"0+\" }}"
        );
        let model = accepted(&[&text]);
        assert_eq!(only(&model).doc, expected, "{comment}");
    }
}

/// What the model makes of versions, structs and sizes.
#[test]
fn folding() {
    let model = accepted(&[
        r#"{ "apiKey": 9, "type": "metadata", "name": "BallotRecord", "validVersions": "2-5",
        "flexibleVersions": "4+",
        "commonStructs": [{ "name": "Voter", "versions": "0+", "fields": [
          { "name": "Id", "type": "int64", "versions": "0-3" },
          { "name": "Name", "type": "string", "versions": "4+" }]},
          { "name": "Seat", "versions": "0+", "fields": [
            { "name": "Number", "type": "int8", "versions": "0+" },
            { "name": "Never", "type": "Ghost", "versions": "2-4" }]},
          { "name": "Ghost", "versions": "0+", "fields": [{ "name": "A", "type": "int8", "versions": "0+" }]}
        ],
        "fields": [
          { "name": "Past", "type": "int32", "versions": "0-1" },
          { "name": "Old", "type": "int32", "versions": "0-2" },
          { "name": "Middle", "type": "int32", "versions": "3-4" },
          { "name": "New", "type": "int32", "versions": "5+" },
          { "name": "Moved", "type": "string", "versions": "0+", "nullableVersions": "3+", "taggedVersions": "4+", "tag": 0 },
          { "name": "Votes", "type": "[]Vote", "versions": "3+", "fields": [
            { "name": "LastErrorCode", "type": "int16", "versions": "0+" },
            { "name": "AcknowledgeTypes", "type": "[]int8", "versions": "0-3" },
            { "name": "Voter", "type": "Voter", "versions": "4+", "nullableVersions": "5+" }]},
          { "name": "Chair", "type": "Voter", "versions": "0-2" },
          { "name": "Label", "type": "string", "versions": "0+", "flexibleVersions": "5+" },
          { "name": "Tail", "type": "bytes", "versions": "0-3", "flexibleVersions": "none" },
          { "name": "Seat", "type": "Seat", "versions": "5+" }
        ] }"#,
    ]);
    let message = only(&model);
    let shape = |index: usize| {
        let it = &message.structs[index];
        (it.name.as_str(), it.context, it.min_size, it.uses.as_slice())
    };
    // The seat has no ghost in version 5.
    assert_eq!(message.structs.len(), 4);
    // Version 4: Middle, Votes, Label in its old form, tags.
    assert_eq!(shape(0), ("BallotRecord", Versions::new(2, 5), 8, &[][..]));
    // Version 5: the error code, the marker of the voter, tags.
    assert_eq!(shape(1), ("Vote", Versions::new(3, 5), 4, &[Use { of: 0, field: 4 }][..]));
    // One range around both uses. Version 4: the name and tags.
    let uses = [Use { of: 0, field: 5 }, Use { of: 1, field: 2 }];
    assert_eq!(shape(2), ("Voter", Versions::new(2, 5), 2, &uses[..]));
    assert_eq!(shape(3), ("Seat", Versions::new(5, 5), 2, &[Use { of: 0, field: 8 }][..]));

    let fields: Vec<_> = message.structs[0]
        .fields
        .iter()
        .map(|it| (it.name.as_str(), it.inline, it.tagged, it.present, it.nullable))
        .collect();
    use When::{Always, Between, Never, Only, Since, Until};
    assert_eq!(
        fields,
        [
            ("Old", Only(2), Never, Only(2), Never),
            ("Middle", Between(3, 4), Never, Between(3, 4), Never),
            ("New", Since(5), Never, Since(5), Never),
            ("Moved", Until(3), Since(4), Always, Since(3)),
            ("Votes", Since(3), Never, Since(3), Never),
            ("Chair", Only(2), Never, Only(2), Never),
            ("Label", Always, Never, Always, Never),
            ("Tail", Until(3), Never, Until(3), Never),
            ("Seat", Since(5), Never, Since(5), Never),
        ]
    );
    let vote = &message.structs[1].fields;
    assert_eq!(vote[0].domain, Some(Domain::ErrorCode));
    assert_eq!((vote[1].domain, vote[1].inline), (Some(Domain::AcknowledgeType), Only(3)));
    assert_eq!((&vote[2].ty, vote[2].inline, vote[2].nullable), (&Type::Struct(2), Since(4), Since(5)));
    let own: Vec<_> = message.structs[0].fields.iter().filter_map(|it| it.flexible_versions).collect();
    assert_eq!(own, [Versions::since(5)]);
}

/// Sources come sorted, and only those that are schemas.
#[test]
fn loading() {
    let sources = source::load(&root().join("schemas/broken/N1-one-name")).unwrap();
    let paths: Vec<_> = sources.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["group/Vote.json", "share/Vote.json"]);
    let error = source::load(&root().join("src")).unwrap_err().to_string();
    assert!(
        error.ends_with("there is no schema, that is, no `*.json` file, in it or in its sub-folders"),
        "{error}"
    );
    let error = source::load(&root().join("schemas/latin-1")).unwrap_err().to_string();
    assert!(
        error.ends_with("Ballot.json: a schema has to be UTF-8, but the byte at offset 33 is not"),
        "{error}"
    );
    let error = source::load(&root().join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere: "), "{error}");
}

/// Whatever the text, the answer is a report.
#[test]
fn torn_schemas_do_not_panic() {
    let schemas: Vec<_> = entries(&root().join("../messages"))
        .into_iter()
        .flat_map(|path| if path.is_dir() { entries(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert!(!schemas.is_empty());
    let mut seed = 1_u32;
    let mut random = |below: usize| {
        // Numbers need not be good, only always the same.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    const BYTES: &[u8] = b"\"{}[],:+-0123456789 anulltrue/*\\\n";
    for text in &schemas {
        for _ in 0..100 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = BYTES[random(BYTES.len())],
                    2 => bytes.insert(at, BYTES[random(BYTES.len())]),
                    _ => drop(bytes.drain(at..(at + random(40)).min(bytes.len()).max(at))),
                }
                if bytes.is_empty() {
                    bytes.push(b'{');
                }
            }
            let torn = String::from_utf8_lossy(&bytes);
            let sources = [source("Torn.json", &torn)];
            let (report, _) = run(&sources, Coverage::Whole);
            report.render(&sources, Path::new(""), true);
        }
    }
}

fn run(sources: &[Source], coverage: Coverage) -> (Report, Model) {
    let mut report = Report::default();
    let schemas: Vec<_> = sources.iter().filter_map(|source| schema::parse(source, &mut report)).collect();
    let model = check(&schemas, coverage, &mut report);
    (report, model)
}

fn accepts(text: &str) -> bool {
    !run(&[source("Case.json", text)], Coverage::Part).0.has_errors()
}

/// The model of a whole set, which must be without fault.
#[track_caller]
fn accepted(texts: &[&str]) -> Model {
    let sources: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| source(&format!("{at}.json"), text)).collect();
    let (report, model) = run(&sources, Coverage::Whole);
    assert!(report.is_empty(), "{}", report.render(&sources, Path::new(""), false));
    model
}

#[track_caller]
fn only(model: &Model) -> &Message {
    let [family] = model.families.as_slice() else { panic!("{model:?}") };
    let [message] = family.messages.as_slice() else { panic!("{family:?}") };
    message
}

fn data(valid: &str, fields: &str) -> String {
    format!(
        r#"{{ "type": "data", "name": "Ballot", "validVersions": "{valid}", "flexibleVersions": "0+", "fields": [{fields}] }}"#
    )
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
