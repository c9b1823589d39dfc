//! Golden bytes of every feature of the generator, in both directions, and its errors with their texts.
//!
//! Vectors with a number are those of Kafka: their bytes were written by Kafka's own generator. So were those of the
//! `reported` schemas, each of which stands for a bug report about some other generator. All others were put together
//! by hand, from left to right in the order of the fields.

use std::fmt::Write;
use std::time::{Duration, Instant};

use kafka_protocol::protocol::{AcknowledgeType, ErrorCode, Message, Request, Response, Rpc};
use kafka_protocol::wire::{Bytes, Fault, Str, TaggedFields, Uuid};

use crate::features::*;
use crate::features::{
    comes_and_goes, common_structs, keyed_arrays, lenient, moves, nested_tags, never_flexible,
    nullable_struct_message as nullable, prims, sometimes_null, strict, tag_null, tags, voids,
};

const ID: Uuid = Uuid::from_u128(0x1f728a3b_8353_44f6_825a_d1269b7bd6ec);

/// Hexadecimal digits as bytes; blanks are for the reader.
fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {hex}");
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Value to bytes, their number, and bytes to value, with and without copies, also over another value.
#[track_caller]
fn check<M: Message>(value: &M, version: i16, golden: &str) {
    encodes(value, version, golden);
    decodes(golden, version, value);
}

#[track_caller]
fn encodes<M: Message>(value: &M, version: i16, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(hex(&value.encode(version).unwrap()), hex(&golden));
    assert_eq!(value.encoded_len(version).unwrap(), golden.len());
}

#[track_caller]
fn decodes<M: Message>(golden: &str, version: i16, value: &M) {
    let golden = bytes(golden);
    assert_eq!(&M::decode(golden.clone(), version).unwrap(), value);
    assert_eq!(&M::decode_slice(&golden, version).unwrap(), value);
    let mut over = value.clone();
    over.decode_from(&golden, version).unwrap();
    assert_eq!(&over, value, "decoded over itself");
}

/// The text of the error, which every way to encode gives; nothing is written.
#[track_caller]
fn refused<M: Message>(value: &M, version: i16, text: &str) {
    let error = value.encode(version).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert_eq!(value.encoded_len(version).unwrap_err(), error);
    let mut sink = vec![1, 2, 3];
    assert_eq!(value.encode_into(&mut sink, version).unwrap_err(), error);
    assert_eq!(sink, [1, 2, 3]);
}

/// The text of the error, which every way to decode gives.
#[track_caller]
fn rejected<M: Message>(input: &str, version: i16, text: &str) {
    let input = bytes(input);
    let error = M::decode(input.clone(), version).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert_eq!(M::decode_slice(&input, version).unwrap_err(), error);
    assert_eq!(M::default().decode_from(&input, version).unwrap_err(), error);
}

/// A value of defaults, then changed.
fn with<M: Default>(change: impl FnOnce(&mut M)) -> M {
    let mut value = M::default();
    change(&mut value);
    value
}

fn unknown(fields: &[(u32, &[u8])]) -> TaggedFields {
    let mut unknown = TaggedFields::default();
    for &(tag, value) in fields {
        unknown.push(tag, value).unwrap();
    }
    unknown
}

fn too_long() -> Str {
    "x".repeat(32768).into()
}

fn strs(texts: &[&str]) -> Vec<Str> {
    texts.iter().map(|text| Str::new(text)).collect()
}

// Every type

fn prims() -> Prims {
    Prims {
        bo: true,
        i8: -2,
        i16: -2,
        u16: 65535,
        i32: -2,
        u32: 4_294_967_295,
        i64: -2,
        f64: 1.5,
        id: ID,
        s: "hé".into(),
        ns: Some("".into()),
        bt: bytes("0102"),
        nb: Some(Bytes::new()),
        r: Some(bytes("0908")),
        a: [1, 2].into_iter().collect(),
        na: Some(strs(&["a", ""])),
        st: prims::Plain { x: 3, ..Default::default() },
        nst: Some(prims::Marked { x: 4, ..Default::default() }),
        ..Default::default()
    }
}

const PRIMS: &str = "01 fe fffe ffff fffffffe ffffffff fffffffffffffffe 3ff8000000000000
                     1f728a3b835344f6825ad1269b7bd6ec"; // 32

#[test]
fn every_type_in_legacy_form() {
    let rest = "0003 68c3a9 0000 00000002 0102 00000000 00000002 0908 00000002 00000001 00000002
                00000002 0001 61 0000 0003";
    check(&prims(), 0, &format!("{PRIMS} {rest} 0004")); // 33
    check(&prims(), 1, &format!("{PRIMS} {rest} 01 0004")); // 34
}

#[test]
fn every_type_in_compact_form() {
    let rest = "04 68c3a9 01 03 0102 01 03 0908 03 00000001 00000002 03 02 61 01 0003 00 01 0004 00 00";
    check(&prims(), 2, &format!("{PRIMS} {rest}")); // 35
}

#[test]
fn lengths_of_strings_at_the_edges_of_varints() {
    let edges = [(126, "7f"), (127, "8001"), (128, "8101"), (16382, "ff7f"), (16383, "808001")]; // 50
    for (length, prefix) in edges {
        let value = Ranges { cc: "a".repeat(length).into(), ..Default::default() };
        check(&value, 3, &format!("{prefix} {} 00", "61".repeat(length)));
    }
}

#[test]
fn every_byte_but_zero_is_true() {
    let value = Prims::decode(bytes(&hex(&prims().encode(0).unwrap()).replacen("01", "7f", 1)), 0).unwrap();
    assert!(value.bo);
}

// Tagged fields

/// One entry of the tag section behind Base, in version 2.
#[track_caller]
fn tagged(change: impl FnOnce(&mut Tags), entry: &str) {
    check(&with(change), 2, &format!("00 01 {entry}"));
}

/// No entry.
#[track_caller]
fn untagged(change: impl FnOnce(&mut Tags)) {
    check(&with(change), 2, "00 00");
}

#[test]
fn tagged_fields_are_written_unless_they_have_the_default() {
    tagged(|it| it.t0 = false, "00 01 00"); // 36
    tagged(|it| it.t1 = 7, "01 04 00000007"); // 36
    untagged(|it| it.t2 = -0.0); // 37
    let nan = with::<Tags>(|it| it.t2 = f64::NAN);
    encodes(&nan, 2, "00 01 02 08 7ff8000000000000"); // 37
    assert!(Tags::decode(nan.encode(2).unwrap(), 2).unwrap().t2.is_nan());
    tagged(|it| it.t3 = [ID].into_iter().collect(), "03 11 02 1f728a3b835344f6825ad1269b7bd6ec");
    tagged(|it| it.t4 = Some("".into()), "04 01 01"); // 38
    tagged(|it| it.t4 = Some("ab".into()), "04 03 03 6162"); // 38
    untagged(|it| it.t4 = None); // 38
    tagged(|it| it.t5 = None, "05 01 00"); // 39
    untagged(|it| it.t5 = Some("".into())); // 39
    tagged(|it| it.t6 = bytes("01"), "06 02 02 01"); // 40
    tagged(|it| it.t7 = None, "07 01 00"); // 40
    tagged(|it| it.t7 = Some(strs(&["a"])), "07 03 02 02 61"); // 40
    tagged(|it| it.t7 = Some(strs(&[""])), "07 02 02 01"); // 40
    tagged(|it| it.t11 = ID, "0b 10 1f728a3b835344f6825ad1269b7bd6ec"); // 44
}

#[test]
fn tagged_structs_are_compared_with_their_defaults() {
    tagged(|it| it.t8.x = 6, "08 03 0006 00"); // 41
    tagged(|it| it.t8.y = "q".into(), "08 07 0005 01 00 02 02 71"); // 41
    tagged(|it| it.t8.unknown_tagged_fields = unknown(&[(5, &[7])]), "08 06 0005 01 05 01 07"); // 41
    tagged(|it| it.t9 = Some(tags::OrNull::default()), "09 04 01 0000 00"); // 42
    untagged(|it| it.t9 = None); // 42
    tagged(|it| it.t10 = None, "0a 01 00"); // 43
    tagged(|it| it.t10 = Some(tags::OrEmpty { x: 1, ..Default::default() }), "0a 05 01 0001 01 00"); // 43
    untagged(|it| it.t10 = Some(tags::OrEmpty::default())); // 43
}

#[test]
fn a_field_moves_into_the_tag_section() {
    tagged(|it| it.t12 = 9, "0c 08 0000000000000009"); // 44
    check(&with::<Tags>(|it| it.t12 = 9), 1, "00 0000000000000009 00"); // 44
}

#[test]
fn elements_with_equal_keys_are_kept() {
    let keyed = |k: &str, v| tags::Keyed { k: k.into(), v, ..Default::default() };
    tagged(|it| it.t13 = vec![keyed("a", 1), keyed("a", 2)], "0d 09 03 02 61 01 00 02 61 02 00"); // 45
}

#[test]
fn unknown_tags_come_back_behind_the_known_ones() {
    let value = with::<Tags>(|it| {
        it.t0 = false;
        it.unknown_tagged_fields = unknown(&[(20, &[1, 2]), (30, &[])]);
    });
    check(&value, 2, "00 03 00 01 00 14 02 0102 1e 00"); // 46
    let mut descending = unknown(&[(30, &[])]);
    assert_eq!(descending.push(20, []), Err(Fault::TagOrder)); // 46
}

#[test]
fn tags_out_of_the_order_of_their_fields_ascend() {
    let value = with::<Moves>(|it| {
        it.count = 2;
        it.name = Some("n".into());
    });
    // Before, Late, Rows, After; then Name, whose tag is 0, and Count, whose tag is 1.
    check(&value, 2, "00 0000 01 00  02  00 02 02 6e  01 04 00000002");
}

// Structs that may be null

#[test]
fn structs_that_are_null_or_not() {
    let value = NullableStructMessage::default();
    check(&value, 0, "ff 0000 00000000"); // 47
    check(&value, 1, "ff 01 01 00000000 00 00"); // 47
    let nulls = with::<NullableStructMessage>(|it| {
        it.struct2 = None;
        it.struct4 = None;
    });
    check(&nulls, 1, "ff ff 01 01 01 00"); // 47
    let full = NullableStructMessage {
        r#struct: Some(nullable::MyStruct { my_string: "1".into(), my_int: 1, ..Default::default() }),
        struct2: Some(nullable::MyStruct2 { my_string: "2".into(), my_int: 2, ..Default::default() }),
        struct3: Some(nullable::MyStruct3 { my_string: "3".into(), my_int: 3, ..Default::default() }),
        struct4: Some(nullable::MyStruct4 { my_string: "4".into(), my_int: 4, ..Default::default() }),
        ..Default::default()
    };
    let golden = "01 02 31 00000001 00  01 02 32 00000002 00
                  02 00 08 01 02 33 00000003 00  01 08 01 02 34 00000004 00";
    check(&full, 1, golden); // 48
}

#[test]
fn a_struct_that_is_null_too_early_is_named() {
    let nulls = with::<NullableStructMessage>(|it| it.struct2 = None); // 47
    refused(
        &nulls,
        0,
        "NullableStructMessage v0: struct2: null is not allowed in this version (versions 1+)",
    );
}

#[test]
fn a_bit_of_everything() {
    let value = SimpleExampleMessage::default();
    check(&value, 0, "0000007b 0000007b 0000007b 0000007b"); // 49
    let golden = "00000000000000000000000000000000 01 01 0000007b 0000007b 00 0000007b 0000007b 00
                  80e8 0012d687 00";
    check(&value, 1, golden); // 49
    let value = with::<SimpleExampleMessage>(|it| {
        it.my_tagged_int_array = [1].into_iter().collect();
        it.my_int16 = 0;
        it.my_float64 = 0.0;
        it.my_bytes = None;
        it.tagged_long = 1;
    });
    let golden = "00000000000000000000000000000000 01 01 0000007b 0000007b 00 0000007b 0000007b 00
                  80e8 0012d687 05  00 05 02 00000001  02 02 0000  03 08 0000000000000000  05 01 00
                  07 08 0000000000000001";
    check(&value, 1, golden);
}

// Reported

#[test]
fn reported_qtag_has_a_tag_in_quotes() {
    check(&with::<QTag>(|it| it.aa = 5), 0, "01 00 01 05");
}

#[test]
fn reported_nover_takes_its_versions_from_the_tagged_ones() {
    let value = with::<NoVer>(|it| it.aa = 5);
    check(&value, 1, "01 00 01 05");
    encodes(&value, 0, "00");
}

#[test]
fn reported_urldoc_has_slashes_in_its_default() {
    assert_eq!(UrlDoc::default().aa, "http://x//y");
    check(&UrlDoc::default(), 0, "0c 687474703a2f2f782f2f79 00");
}

#[test]
fn reported_ranges_end_with_the_valid_versions() {
    let value = |aa, bb: &str, cc: &str| Ranges { aa, bb: bb.into(), cc: cc.into(), ..Default::default() };
    let (full, v0, v1, v2, v3) =
        (value(7, "b", "c"), value(0, "b", ""), value(0, "b", "c"), value(7, "", "c"), value(0, "", "c"));
    for (version, kept, golden) in
        [(0, v0, "0001 62"), (1, v1, "0001 62 0001 63"), (2, v2, "07 02 63 00"), (3, v3, "02 63 00")]
    {
        encodes(&full, version, golden);
        check(&kept, version, golden);
    }
}

#[test]
fn reported_names_are_keywords() {
    let value = Names {
        r#match: 1,
        r#type: 2,
        self_: 3,
        version: 4,
        buf: 5,
        size: 6,
        key: 7,
        result: 8,
        ..Default::default()
    };
    check(&value, 0, "01 02 03 04 05 06 07 08 00");
}

#[test]
fn reported_tagnull_has_a_marker_behind_its_tag() {
    check(&TagNull::default(), 0, "00");
    let ta = Some(tag_null::TagS { x: 5, ..Default::default() });
    check(&TagNull { ta, ..Default::default() }, 0, "01 00 03 01 05 00");
}

// Versions

#[test]
fn null_in_some_versions_only() {
    // Text, Blob, Batches, Numbers, Inner.X (its Hollow has no bytes), Rows
    check(&SometimesNull::default(), 0, "0000 00000000 ffffffff 00000000 00 00000000");
    let row = sometimes_null::Row { name: None, ..Default::default() };
    let value = SometimesNull { text: None, inner: None, rows: Some(vec![row]), ..Default::default() };
    // Text and Inner are null, and the name in Rows.
    check(&value, 1, "ffff 00000000 ffffffff 00000000 ff 00000001 ffff");
    let hollow = sometimes_null::Hollow { y: 8, ..Default::default() };
    let inner = sometimes_null::Inner { x: 7, hollow: Some(hollow), ..Default::default() };
    let value = SometimesNull {
        text: None,
        blob: None,
        batches: Some(Bytes::new()),
        numbers: None,
        inner: Some(inner.clone()),
        ..Default::default()
    };
    // Text, Blob and Numbers are null; Inner has a marker, its Hollow none.
    check(&value, 2, "ffff ffffffff 00000000 ffffffff 01 07 08 00000000");
    let value = |hollow: Option<sometimes_null::Hollow>| SometimesNull {
        text: Some("a".into()),
        blob: None,
        batches: Some(bytes("09")),
        numbers: Some([1, -2].into_iter().collect()),
        inner: Some(sometimes_null::Inner { hollow, ..inner.clone() }),
        rows: None,
        ..Default::default()
    };
    // Blob and Rows are null; Inner has no marker, its Hollow has one.
    check(&value(None), 3, "02 61  00  02 09  03 0001 fffe  07 ff 00  00  00");
    check(&value(inner.hollow.clone()), 3, "02 61  00  02 09  03 0001 fffe  07 01 08 00 00  00  00");
}

#[test]
fn null_where_the_version_forbids_it_is_named() {
    let refused = |version, change: fn(&mut SometimesNull), place: &str, versions: &str| {
        let null = format!("null is not allowed in this version ({versions})");
        refused(&with(change), version, &format!("SometimesNull v{version}: {place}: {null}"));
    };
    refused(0, |it| it.text = None, "text", "versions 1-2");
    refused(1, |it| it.blob = None, "blob", "versions 2+");
    // Null is the default of records.
    refused(2, |_| {}, "batches", "versions 0-1");
    refused(1, |it| it.numbers = None, "numbers", "version 2");
    refused(0, |it| it.inner = None, "inner", "versions 1-2");
    refused(0, |it| it.rows = None, "rows", "versions 3+");
    let rows = |it: &mut SometimesNull| {
        it.rows = Some(vec![Default::default(), sometimes_null::Row { name: None, ..Default::default() }]);
    };
    refused(0, rows, "rows[1].name", "versions 1+");
}

#[test]
fn null_for_a_struct_without_bytes_is_named() {
    let value = with::<SometimesNull>(|it| it.inner.as_mut().unwrap().hollow = None);
    let text = "SometimesNull v0: inner.hollow: null is not allowed in this version (versions 3+)";
    refused(&value, 0, text);
    let value = with::<Voids>(|it| it.single = None);
    refused(&value, 0, "Voids v0: single: null is not allowed in this version (versions 1+)");
}

#[test]
fn fields_that_come_and_go() {
    let row = |until3, only2: &str, since3| comes_and_goes::Row {
        until3,
        only2: bytes(only2),
        since3,
        ..Default::default()
    };
    // Always, Until2, AlsoUntil2
    let value = ComesAndGoes { always: 1, until2: 2, also_until2: 3, ..Default::default() };
    check(&value, 1, "01 02 0003");
    // Always, Until2, AlsoUntil2, Between2And3, Not1, Rows
    let value = ComesAndGoes { between2_and3: "b".into(), not1: true, rows: vec![row(4, "05", 0)], ..value };
    check(&value, 2, "01 02 0003 0001 62 01 00000001 04 00000001 05");
    // Always, Between2And3, Only3, Not1, Rows
    let value = ComesAndGoes {
        until2: -1,
        also_until2: -1,
        only3: [7].into_iter().collect(),
        rows: vec![row(4, "", 6)],
        ..value
    };
    check(&value, 3, "01 0001 62 00000001 07 01 00000001 04 06");
    // Always, Since4, Not1, Rows
    let value = ComesAndGoes {
        between2_and3: "none".into(),
        only3: Default::default(),
        since4: ID,
        rows: vec![row(0, "", 6)],
        ..value
    };
    check(&value, 4, "01 1f728a3b835344f6825ad1269b7bd6ec 01 00000001 06");
}

#[test]
fn values_of_versions_past_and_to_come_are_refused() {
    let refused = |version, place: &str, versions: &str, default: &str, change: fn(&mut ComesAndGoes)| {
        let text = format!("not in this version ({versions}), and not its default {default}");
        refused(&with(change), version, &format!("ComesAndGoes v{version}: {place}: {text}"));
    };
    refused(3, "until2", "versions 0-2", "-1", |it| it.until2 = 0);
    // Only the last of two that are checked in a row has another value.
    refused(3, "also_until2", "versions 1-2", "-1", |it| it.also_until2 = 0);
    refused(1, "between2_and3", "versions 2-3", "\"none\"", |it| it.between2_and3.clear());
    refused(4, "between2_and3", "versions 2-3", "\"none\"", |it| it.between2_and3.clear());
    refused(2, "only3", "version 3", "[]", |it| it.only3.push(1));
    refused(4, "only3", "version 3", "[]", |it| it.only3.push(1));
    refused(3, "since4", "versions 4+", "nil", |it| it.since4 = ID);
    refused(1, "not1", "versions 2-9", "false", |it| it.not1 = true);
    refused(1, "rows", "versions 2+", "[]", |it| it.rows.push(Default::default()));
    refused(3, "rows[1].only2", "version 2", "b\"\"", |it| {
        it.rows = vec![Default::default(); 2];
        it.rows[1].only2 = bytes("00");
    });
}

#[test]
fn versions_that_nobody_knows_are_refused() {
    refused(&ComesAndGoes::default(), 0, "ComesAndGoes v0: not a supported version (versions 1-4)");
    rejected::<ComesAndGoes>("", 5, "ComesAndGoes v5: not a supported version (versions 1-4)");
    refused(&WideVersions::default(), 2, "WideVersions v2: not a supported version (versions 3-32766)");
    rejected::<WideVersions>("", -1, "WideVersions v-1: not a supported version (versions 3-32766)");
    rejected::<WideVersions>("", 32767, "WideVersions v32767: not a supported version (versions 3-32766)");
}

#[test]
fn versions_up_to_the_highest() {
    check(&with::<WideVersions>(|it| it.early = "e".into()), 3, "0001 65");
    let both = with::<WideVersions>(|it| {
        it.early = "e".into();
        it.middle = 5;
    });
    check(&both, 300, "0001 65 05");
    check(&with::<WideVersions>(|it| it.middle = 5), 301, "05");
    check(&with::<WideVersions>(|it| it.middle = 5), 32765, "05");
    check(&with::<WideVersions>(|it| it.last = 7), 32766, "07 00");
}

#[test]
fn runs_longer_than_what_is_written_at_once() {
    let id = |n| Uuid::from_u128(n);
    let value = LongRuns {
        b1: 1,
        b2: 2,
        b3: 3,
        b4: 4,
        b5: 5,
        b6: 6,
        b7: 7,
        b8: 8,
        b9: 9,
        b10: 10,
        b11: 11,
        b12: 12,
        b13: 13,
        b14: 14,
        r#break: "x".into(),
        id1: id(1),
        id2: id(2),
        id3: id(3),
        id4: id(4),
        id5: id(5),
        last: true,
        ..Default::default()
    };
    let ids: String = (1..=5).map(|n| format!("{n:032x}")).collect();
    let head = format!("01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0001 78 {ids}");
    check(&value, 0, &format!("{head} 01"));
    let value = LongRuns { l1: -1, l2: 2, ..value };
    check(&value, 1, &format!("{head} ffffffffffffffff 0000000000000002 01"));
    encodes(&value, 0, &format!("{head} 01"));
    // The run of 64 bytes starts behind 14 bytes and Break, which is empty here.
    let short = format!("{} 0000 {}", "00".repeat(14), "00".repeat(63));
    rejected::<LongRuns>(&short, 0, "LongRuns v0: id4 at byte 64: need 16 bytes, 15 left");
}

// Defaults

/// All fields of `Defaults` in version 1, each with its default.
fn defaults() -> String {
    let text = |text: &str| format!("{:02x} {}", text.len() + 1, hex(text.as_bytes()));
    [
        "01",                               // Bool
        "01",                               // BareBool
        "80",                               // Int8: -128
        "7fff",                             // Int16
        "ffff",                             // Uint16
        "80000000",                         // Int32: the lowest
        "7fffffff",                         // HighInt32
        "fffffff9",                         // BareInt32: -7
        "ffffffff",                         // Uint32
        "8000000000000000",                 // Int64: the lowest
        "7fffffffffffffff",                 // HighInt64
        "0cafcacafcacafca",                 // HexInt64
        "c029000000000000",                 // Fraction: -12.5
        "4028000000000000",                 // HexFraction: 1.5 times 2 to the third
        "40091eb851eb851f",                 // NearPi: 3.14
        "7e37e43c8800759c",                 // Huge: 1e300
        "0000000000000001",                 // Tiny
        "8000000000000000",                 // MinusZero
        "7ff8000000000000",                 // NotANumber
        "7ff0000000000000",                 // Infinite
        "fff0000000000000",                 // MinusInfinite
        "1f728a3b835344f6825ad1269b7bd6ec", // Id
        &text("short"),
        &text("longer than what fits a string in place"),
        &text("say \"hi\" // to C:\\ and `é`"),
        "00", // NullText
        "00", // NullBlob
        "00", // NullNumbers
        "00", // NullTexts
        &text("not null"),
        "00",    // Batches
        "ff",    // NullInner
        "09 00", // Inner
        "00",    // no tags
    ]
    .join(" ")
}

#[test]
fn defaults_of_every_type() {
    let value = Defaults::default();
    encodes(&value, 0, "");
    encodes(&value, 1, &defaults());
    // No number equals itself.
    let again = Defaults::decode(bytes(&defaults()), 1).unwrap();
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
}

#[test]
fn what_a_version_lacks_is_decoded_as_its_default_over_any_old_value() {
    // Another value than the default in every field.
    let all_else = "00 00 01 0001 0001 00000001 00000001 00000001 00000001 0000000000000001 0000000000000001
                    0000000000000001 0000000000000000 0000000000000000 0000000000000000 0000000000000000
                    0000000000000000 3ff0000000000000 0000000000000000 0000000000000000 0000000000000000
                    00000000000000000000000000000001 01 01 01  01 01 01 01  00  01  01 00 00  00 00  00";
    let mut value = Defaults::decode(bytes(all_else), 1).unwrap();
    assert_eq!(hex(&value.encode(1).unwrap()), hex(&bytes(all_else)));
    value.decode_from(&Bytes::new(), 0).unwrap();
    assert_eq!(format!("{value:?}"), format!("{:?}", Defaults::default()));
    assert_eq!(value.minus_zero.to_bits(), 1 << 63);
}

#[test]
fn a_tagged_field_that_is_missing_is_decoded_as_its_default_over_any_old_value() {
    let all_else = "0b  00 01 00  01 04 00000000  02 08 0000000000000000  03 08 3ff0000000000000
                    04 08 0000000000000000  05 08 0000000000000000  06 10 00000000000000000000000000000000
                    07 01 01  08 01 01  09 01 00  14 00";
    let mut value = TaggedDefaults::decode(bytes(all_else), 0).unwrap();
    assert_eq!(hex(&value.encode(0).unwrap()), hex(&bytes(all_else)));
    value.decode_from(&bytes("00"), 0).unwrap();
    assert_eq!(format!("{value:?}"), format!("{:?}", TaggedDefaults::default()));
    assert_eq!(value.minus_zero.to_bits(), 1 << 63);
}

#[test]
fn defaults_decide_what_is_tagged() {
    // NotANumber is not equal to itself, so it is always there.
    let nan = "04 08 7ff8000000000000";
    encodes(&TaggedDefaults::default(), 0, &format!("01 {nan}"));
    let check = |change: fn(&mut TaggedDefaults), before: &str, after: &str| {
        encodes(&with(change), 0, &format!("02 {before} {nan} {after}"));
    };
    check(|it| it.bool = false, "00 01 00", "");
    check(|it| it.uint32 = 4_294_967_294, "01 04 fffffffe", "");
    check(|it| it.int64 = i64::MAX, "02 08 7fffffffffffffff", "");
    check(|it| it.minus_zero = 1.0, "03 08 3ff0000000000000", "");
    check(|it| it.infinite = f64::NEG_INFINITY, "", "05 08 fff0000000000000");
    check(|it| it.id = Uuid::nil(), "", "06 10 00000000000000000000000000000000");
    check(|it| it.long_text.clear(), "", "07 01 01");
    check(|it| it.odd_text = "x".into(), "", "08 02 02 78");
    check(|it| it.nullable_text = None, "", "09 01 00");
    check(|it| it.nullable_text = Some("".into()), "", "09 01 01");
    // Zero is zero, whatever its sign.
    encodes(&with::<TaggedDefaults>(|it| it.minus_zero = 0.0), 0, &format!("01 {nan}"));
}

#[test]
fn a_value_that_the_version_lacks_is_refused_whatever_its_type() {
    check(&Strict::default(), 0, "00 00000000");
    // Kept, then all others in the order of the schema, their own tag sections included.
    let golden = "00 00 00 0000 0000 ffffffff 00000000 7fffffffffffffff 3fe0000000000000
                  00000000000000000000000000000000 04 782279 00 01 01 00 01 00 01 03 00 ff 01 00";
    check(&Strict::default(), 1, golden);
    let refused = |place: &str, default: &str, change: fn(&mut Strict)| {
        let text =
            format!("Strict v0: {place}: not in this version (versions 1+), and not its default {default}");
        refused(&with(change), 0, &text);
    };
    refused("flag", "false", |it| it.flag = true);
    refused("int8", "0", |it| it.int8 = 1);
    refused("int16", "0", |it| it.int16 = 1);
    refused("uint16", "0", |it| it.uint16 = 1);
    refused("int32", "-1", |it| it.int32 = 0);
    refused("uint32", "0", |it| it.uint32 = 1);
    refused("int64", "9223372036854775807", |it| it.int64 = 0);
    refused("fraction", "0.5", |it| it.fraction = f64::NAN);
    // All in front of it are checked and are as they should be.
    refused("id", "nil", |it| it.id = ID);
    refused("text", r#""x\"y""#, |it| it.text.clear());
    refused("null_text", "null", |it| it.null_text = Some("".into()));
    refused("blob", "b\"\"", |it| it.blob = bytes("00"));
    refused("null_blob", "b\"\"", |it| it.null_blob = None);
    refused("batches", "null", |it| it.batches = Some(Bytes::new()));
    refused("numbers", "[]", |it| it.numbers.push(1));
    refused("null_numbers", "null", |it| it.null_numbers = Some(Default::default()));
    refused("texts", "[]", |it| it.texts.push("".into()));
    refused("inner", "{}", |it| it.inner.x = 0);
    refused("inner", "{}", |it| {
        it.inner.unknown_tagged_fields = unknown(&[(0, &[])]);
    });
    refused("null_inner", "null", |it| it.null_inner = Some(Default::default()));
    refused("rows[2].late", "0", |it| {
        it.rows = vec![Default::default(); 3];
        it.rows[2].late = 1;
    });
    refused("tagged", "0", |it| it.tagged = 1);
    // The first of several is named.
    refused("int16", "0", |it| {
        it.int16 = 1;
        it.id = ID;
        it.tagged = 1;
    });
}

#[test]
fn a_value_that_the_version_lacks_is_dropped_if_it_is_ignorable() {
    let full = Lenient {
        kept: 5,
        flag: true,
        int8: 1,
        int16: 1,
        uint16: 1,
        int32: 1,
        uint32: 1,
        int64: 1,
        fraction: 1.0,
        id: ID,
        text: "t".into(),
        null_text: Some("t".into()),
        blob: bytes("01"),
        null_blob: None,
        batches: Some(bytes("02")),
        numbers: [1].into_iter().collect(),
        null_numbers: Some([1].into_iter().collect()),
        texts: strs(&["t"]),
        inner: lenient::Inner { x: 1, ..Default::default() },
        null_inner: Some(lenient::NullInner { x: 1, ..Default::default() }),
        rows: vec![lenient::Row { kept: 6, late: 7, ..Default::default() }],
        tagged: 1,
        ..Default::default()
    };
    encodes(&full, 0, "05 00000001 06");
    let golden = "05 01 01 0001 0001 00000001 00000001 0000000000000001 3ff0000000000000
                  1f728a3b835344f6825ad1269b7bd6ec 02 74 02 74 02 01 00 02 02 02 00000001 02 00000001 02 02 74
                  01 00 01 01 00 02 06 07 00 01 00 01 01";
    check(&full, 1, golden);
    let mut over = full;
    over.decode_from(&bytes("05 00000001 06"), 0).unwrap();
    let rows = vec![lenient::Row { kept: 6, ..Default::default() }];
    assert_eq!(over, Lenient { kept: 5, rows, ..Default::default() });
}

// Forms

#[test]
fn fields_with_a_form_of_their_own() {
    let value = OwnForm { never: "a".into(), same: "s".into(), moved: "m".into(), ..Default::default() };
    // Never, NeverNull, Same, Moved
    check(&value, 0, "0001 61 0000 0001 73 0001 6d");
    let value = OwnForm { later: bytes("01"), later_null: Some(bytes("02")), ..value };
    // Of Never, NeverNull, Later, LaterNull, Same, Moved, only Same is compact.
    check(&value, 1, "0001 61 0000 00000001 01 00000001 02 02 73 0001 6d 00");
    // The last four are.
    let value = OwnForm { never_null: None, ..value };
    check(&value, 2, "0001 61 ffff 02 01 02 02 02 73 02 6d 00");
    // Moved is in the tag section.
    let value = OwnForm { later_null: None, ..value };
    check(&value, 3, "0001 61 ffff 02 01 00 02 73 01 00 02 02 6d");
    refused(&value, 1, "OwnForm v1: never_null: null is not allowed in this version (versions 2+)");
    refused(&value, 2, "OwnForm v2: later_null: null is not allowed in this version (versions 3+)");
    rejected::<OwnForm>("0000 fffe", 3, "OwnForm v3: never_null at byte 2: negative length -2");
    rejected::<OwnForm>(
        "0000 ffff",
        1,
        "OwnForm v1: never_null at byte 2: null is not allowed in this version",
    );
    rejected::<OwnForm>(
        "0000 0000 81 00",
        2,
        "OwnForm v2: later at byte 4: varint is longer than it has to be",
    );
}

#[test]
fn a_message_that_is_never_flexible() {
    let inner = never_flexible::Inner { blob: bytes("07"), ..Default::default() };
    let row = never_flexible::Row { texts: strs(&["a", ""]), inner: Some(inner), ..Default::default() };
    let value = NeverFlexible { name: Some("n".into()), rows: vec![row], ..Default::default() };
    // Name, count of Rows, Texts, Inner
    check(&value, 0, "0001 6e 00000001 00000002 0001 61 0000 00000001 07");
    check(&value, 1, "0001 6e 00000001 00000002 0001 61 0000 01 00000001 07");
    let row = never_flexible::Row { inner: None, ..Default::default() };
    let value = NeverFlexible { name: None, rows: vec![row], ..Default::default() };
    check(&value, 1, "ffff 00000001 00000000 ff");
}

#[test]
fn a_message_without_fields() {
    check(&NoFields::default(), 0, "");
    check(&NoFields::default(), 1, "00");
    rejected::<NoFields>("00", 0, "NoFields v0: byte 0: 1 byte after the end of the message");
    let tagged = NoFields { unknown_tagged_fields: unknown(&[(0, &[7])]) };
    check(&tagged, 1, "01 00 01 07");
    refused(&tagged, 0, "NoFields v0: unknown_tagged_fields: no tagged fields in this version (versions 1+)");
}

#[test]
fn elements_without_bytes() {
    let value =
        Voids { marks: vec![Default::default(); 2], sets: vec![Default::default()], ..Default::default() };
    check(&value, 0, "00000002 00000001");
    let set = voids::Set { marks: vec![Default::default()], ..Default::default() };
    let value = Voids { sets: vec![set], single: None, ..value };
    // Two Marks, one Set with one Late, Single, no tags
    check(&value, 1, "03 00 00  02 02 00 00  ff  00");
    check(&Voids { single: Some(Default::default()), ..value }, 1, "03 00 00  02 02 00 00  01 00  00");
}

#[test]
fn billions_of_elements_without_bytes_are_refused_at_once() {
    let start = Instant::now();
    let memory = "the value would take many times the memory of the message";
    rejected::<Voids>("7fffffff", 0, &format!("Voids v0: marks at byte 0: {memory}"));
    rejected::<Voids>("00000001 7fffffff", 0, &format!("Voids v0: sets at byte 4: {memory}"));
    // A value with room for some has none for so many.
    let mut value = Voids { marks: vec![Default::default(); 100], ..Default::default() };
    assert!(value.decode_from(&bytes("7fffffff 00000000"), 0).is_err());
    // In version 1 an element has a byte, but the bound is that of all versions.
    rejected::<Voids>("8080808008 00", 1, &format!("Voids v1: marks at byte 0: {memory}"));
    assert!(start.elapsed() < Duration::from_secs(1));
}

// Shapes

#[test]
fn common_structs_in_every_place() {
    let point = |x, y| common_structs::Point { x, y, ..Default::default() };
    let end = |code| common_structs::End { code, ..Default::default() };
    let frame =
        common_structs::Frame { top_left: point(5, 6), bottom_right: point(7, 8), ..Default::default() };
    let value = CommonStructs {
        first: point(1, 0),
        others: vec![point(2, 0)],
        old_end: end(7),
        ..Default::default()
    };
    // First, Others, OldEnd
    check(&value, 0, "01  00000001 02  0007");
    let value = CommonStructs {
        first: point(1, 2),
        others: vec![point(3, 4)],
        r#box: Some(frame),
        old_end: end(-1),
        ..value
    };
    // First, Others, Box
    check(&value, 1, "01 02  00000001 03 04  01 05 06 07 08");
    check(&CommonStructs { r#box: None, ..value.clone() }, 1, "01 02  00000001 03 04  ff");
    check(&value, 2, "01 02 00  02 03 04 00  01 05 06 00 07 08 00 00  00");
    // First, Others, Box, NewEnd
    let value = CommonStructs { new_end: end(9), ..value };
    check(&value, 3, "01 02 00  02 03 04 00  01 05 06 00 07 08 00 00  0009 00  00");
    encodes(&value, 2, "01 02 00  02 03 04 00  01 05 06 00 07 08 00 00  00");
}

#[test]
fn arrays_with_keys_keep_duplicates_and_their_order() {
    let named = |name: Option<&str>, value| keyed_arrays::Named {
        name: name.map(Str::new),
        value,
        ..Default::default()
    };
    let paired = |id, number| keyed_arrays::Paired { id, number, ..Default::default() };
    let value = KeyedArrays {
        by_name: vec![named(Some("b"), 1), named(Some("a"), 2), named(Some("b"), 1)],
        by_both: vec![paired(5, 0), paired(5, 0)],
        ..Default::default()
    };
    check(&value, 0, "00000003 0001 62 01 0001 61 02 0001 62 01  00000002 0005 0005");
    let value = KeyedArrays {
        by_name: vec![named(None, 2), named(None, 1)],
        by_both: vec![paired(5, 2), paired(5, 1)],
        ..Default::default()
    };
    check(&value, 1, "03 00 02 00 00 01 00  03 0005 02 00 0005 01 00  00");
}

#[test]
fn fields_that_move_into_the_tag_section() {
    let row = |text: Option<&str>| moves::Row { text: text.map(Str::new), ..Default::default() };
    let inner = |x| Some(moves::Inner { x, ..Default::default() });
    let value = Moves {
        before: 1,
        count: 2,
        name: Some("n".into()),
        inner: inner(6),
        rows: vec![row(None)],
        after: 9,
        ..Default::default()
    };
    // Before, Count, Name, Inner, Rows, After
    check(&value, 0, "01 00000002 0001 6e 06 00000001 ffff 09");
    let value = Moves { name: None, late: 3, tagged: [7].into_iter().collect(), ..value };
    // Before, Count, Name, Late, Inner, Rows, After; Tagged
    check(&value, 1, "01 00000002 00 0003 06 00  02 00 00  09  01 04 02 02 07");
    let value = Moves { name: Some("n".into()), inner: None, rows: vec![row(Some("t"))], ..value };
    // Before, Late, Rows, After; Name, Count, Inner, Tagged
    let golden = "01 0003  02 01 00 02 02 74  09  04  00 02 02 6e  01 04 00000002  03 01 00  04 02 02 07";
    check(&value, 2, golden);
    let value = Moves { before: 1, late: 3, inner: inner(6), after: 9, ..Default::default() };
    // Before, Rows, After; Late, Inner
    check(&value, 3, "01 01 09  02  02 02 0003  03 03 01 06 00");
    // Fields that are not there get their defaults, over any old value.
    let mut over = value;
    over.decode_from(&bytes("01 01 09 00"), 3).unwrap();
    assert_eq!(over, Moves { before: 1, after: 9, ..Default::default() });
}

#[test]
fn fields_that_move_are_checked_in_both_places() {
    let refused = |version, change: fn(&mut Moves), text: &str| {
        refused(&with(change), version, &format!("Moves v{version}: {text}"));
    };
    refused(0, |it| it.late = 1, "late: not in this version (versions 1+), and not its default 0");
    refused(0, |it| it.tagged.push(1), "tagged: not in this version (versions 1+), and not its default []");
    refused(0, |it| it.inner = None, "inner: null is not allowed in this version (versions 2+)");
    rejected::<Moves>(
        "00 0000 01 00 01 02 02 0003",
        2,
        "Moves v2: late at byte 6: tag 2 is not in this version (versions 3+)",
    );
}

#[test]
fn null_in_a_tag_section_that_forbids_it_is_named() {
    let null = "null is not allowed in this version (versions 0-1)";
    refused(&with::<Moves>(|it| it.name = None), 2, &format!("Moves v2: name: {null}"));
    let rows = vec![Default::default(), moves::Row { text: None, ..Default::default() }];
    refused(&with::<Moves>(|it| it.rows = rows), 2, &format!("Moves v2: rows[1].text: {null}"));
    // A field before it in the section has another value than its default.
    let value = with::<Moves>(|it| {
        it.rows = vec![moves::Row { text: None, ..Default::default() }];
        it.count = 1;
    });
    refused(&value, 3, &format!("Moves v3: rows[0].text: {null}"));
}

#[test]
fn tags_of_versions_to_come_are_known() {
    let value = with::<FutureTags>(|it| {
        it.number = 1;
        it.inner.x = 2;
    });
    check(&value, 0, "00000001 02 00 00");
    let unknown_tag = FutureTags { unknown_tagged_fields: unknown(&[(2, &[])]), ..value.clone() };
    check(&unknown_tag, 1, "00000001 02 00 01 02 00");
    rejected::<FutureTags>(
        "00000001 02 00 01 00 00",
        0,
        "FutureTags v0: number at byte 7: tag 0 is not in this version (versions 5+)",
    );
    let known_tag = FutureTags { unknown_tagged_fields: unknown(&[(1, &[])]), ..value };
    refused(
        &known_tag,
        0,
        "FutureTags v0: unknown_tagged_fields: an unknown tagged field has a tag that the schema knows",
    );
}

fn nested() -> NestedTags {
    let leaf = nested_tags::Leaf { name: "n".into(), late: "l".into(), ..Default::default() };
    let middle = nested_tags::Middle { leaf: 1, late: 2, ..Default::default() };
    let outer = nested_tags::Outer { middle: Some(middle), leaves: vec![leaf], ..Default::default() };
    NestedTags { outer, ..Default::default() }
}

#[test]
fn tag_sections_inside_tag_sections() {
    check(&NestedTags::default(), 0, "00");
    // Outer of 19 bytes: Middle of 6 (marker, Late, Leaf), Leaves of 8 (count, Name, Late)
    check(&nested(), 1, "01 00 13  02  00 06 01 02 01 00 01 01  01 08 02 02 6e 01 00 02 02 6c");
}

#[test]
fn errors_inside_tag_sections_name_the_field() {
    let refused = |change: fn(&mut nested_tags::Outer), text: &str| {
        let mut value = nested();
        value.outer.middle.as_mut().unwrap().late = 0;
        value.outer.leaves[0].late.clear();
        value.outer.leaves.push(Default::default());
        value.encode(0).unwrap();
        change(&mut value.outer);
        refused(&value, 0, &format!("NestedTags v0: outer.{text}"));
    };
    refused(
        |it| it.middle.as_mut().unwrap().late = 2,
        "middle.late: not in this version (versions 1+), and not its default 0",
    );
    refused(
        |it| it.leaves[1].late = "l".into(),
        "leaves[1].late: not in this version (versions 1+), and not its default \"\"",
    );
    refused(|it| it.leaves[1].name = too_long(), "leaves[1].name: more than 32767 bytes of text");
    refused(
        |it| it.leaves[1].unknown_tagged_fields = unknown(&[(0, &[])]),
        "leaves[1].unknown_tagged_fields: an unknown tagged field has a tag that the schema knows",
    );
    refused(
        |it| it.middle.as_mut().unwrap().unknown_tagged_fields = unknown(&[(0, &[])]),
        "middle.unknown_tagged_fields: an unknown tagged field has a tag that the schema knows",
    );
}

#[test]
fn checks_inside_tag_sections_are_counted_once() {
    // They run while the size of Outer is counted and once more while it is written.
    let mut value = nested();
    value.outer.middle.as_mut().unwrap().late = 0;
    value.outer.leaves = vec![Default::default(); 3];
    value.outer.leaves[2].late = "l".into();
    let text =
        "NestedTags v0: outer.leaves[2].late: not in this version (versions 1+), and not its default \"\"";
    refused(&value, 0, text);
}

// A default that equals nothing

#[test]
fn nan_as_a_default_is_dropped_by_versions_without_the_field_and_always_sent_as_a_tag() {
    let value = NanDefault::default();
    assert!(value.ratio.is_nan() && value.margin.is_nan());
    encodes(&value, 0, "00");
    encodes(&value, 1, "7ff8000000000000 01 00 08 7ff8000000000000");
    let again = NanDefault::decode(bytes("00"), 0).unwrap();
    assert!(again.ratio.is_nan() && again.margin.is_nan());
    check(
        &NanDefault { ratio: 0.5, margin: 0.0, ..value.clone() },
        1,
        "3fe0000000000000 01 00 08 0000000000000000",
    );
    let text = "NanDefault v0: ratio: not in this version (versions 1+), and not its default NaN";
    refused(&NanDefault { ratio: 0.5, ..value.clone() }, 0, text);
    let text = "NanDefault v0: margin: not in this version (versions 1+), and not its default NaN";
    refused(&NanDefault { margin: 0.5, ..value }, 0, text);
}

// Names

#[test]
fn fields_named_like_keywords() {
    let head: String = (1..=33).map(|n| format!("{n:02x}")).collect();
    let golden = format!("{head} 02 74 00 {} 00", (35..=56).map(|n| format!("{n:02x}")).collect::<String>());
    let value = Keywords::decode(bytes(&golden), 0).unwrap();
    assert_eq!((value.r#as, value.crate_, value.r#gen), (1, 7, 15));
    assert_eq!((value.self_, value.super_, value.r#type.r#match.as_str()), (28, 31, "t"));
    check(&value, 0, &golden);
    let value = with::<Keywords>(|it| it.r#type.r#match = too_long());
    refused(&value, 0, "Keywords v0: type.match: more than 32767 bytes of text");
}

#[test]
fn structs_named_like_what_generated_code_needs() {
    let value = Clashes::default();
    check(&value, 0, "");
    let fields = Clashes::SCHEMA.root.fields.len();
    check(&value, 1, &format!("{} 00", "01 00".repeat(fields)));
    let text = "not in this version (versions 1+), and not its default {}";
    refused(&with::<Clashes>(|it| it.s.s = 0), 0, &format!("Clashes v0: s: {text}"));
    refused(&with::<Clashes>(|it| it.option.option = 0), 0, &format!("Clashes v0: option: {text}"));
}

#[test]
fn a_message_named_schema() {
    let mut value = Schema::default();
    value.schema.kraft_version = 1;
    value.schema2.v3_and_below = 2;
    check(&value, 0, "01 00 02 00 00");
}

#[test]
fn numbers_with_a_type_of_their_own() {
    let value = Domains {
        error_code: ErrorCode(3),
        acknowledge_type: AcknowledgeType(2),
        acknowledge_types: Some([AcknowledgeType(1), AcknowledgeType(4)].into_iter().collect()),
        wide_error_code: 7,
        some_error_code: [9].into_iter().collect(),
        ..Default::default()
    };
    assert_eq!(Domains::default().acknowledge_type, AcknowledgeType(1));
    assert_eq!(value.other_error_code, ErrorCode(-1));
    // ErrorCode, AcknowledgeType, AcknowledgeTypes, WideErrorCode, SomeErrorCode
    check(&value, 0, "0003 02 03 01 04 00000007 02 0009 00");
    let value = Domains {
        other_error_code: ErrorCode(-2),
        acknowledge_types: None,
        tagged_error_code: ErrorCode(15),
        ..value
    };
    // OtherErrorCode behind the first
    check(&value, 1, "0003 fffe 02 00 00000007 02 0009 01 00 02 000f");
    let value = Domains { acknowledge_types: Some(Default::default()), ..value };
    let text = "other_error_code: not in this version (versions 1+), and not its default -1";
    refused(&value, 0, &format!("Domains v0: {text}"));
}

// APIs

#[test]
fn halves_of_an_api_find_each_other_across_folders() {
    fn respond<R: Rpc>(request: &R, version: i16) -> R::Response {
        R::Response::decode(request.encode(version).unwrap(), version).unwrap()
    }
    let request = PingRequest { nonce: 5, ..Default::default() };
    check(&request, 2, "00000005 00");
    assert_eq!(respond(&request, 1), PingResponse { nonce: 5, ..Default::default() });
    assert_eq!((PingRequest::API_KEY.0, PingResponse::API_KEY.0), (10000, 10000));
    assert_eq!(respond(&TouchRequest::default(), 1), TouchResponse::default());
    assert_eq!((TouchRequest::API_KEY.0, TouchResponse::API_KEY.0), (10001, 10001));
}

#[test]
fn header_versions_are_those_of_the_schema_or_follow_the_rule() {
    let ping = [PingRequest::HEADER_VERSIONS, PingResponse::HEADER_VERSIONS];
    assert_eq!([0, 1, 2, 3].map(|version| ping.map(|of| of.of(version))), [[1, 0], [1, 0], [2, 0], [2, 0]]);
    let touch = [TouchRequest::HEADER_VERSIONS, TouchResponse::HEADER_VERSIONS];
    assert_eq!([1, 2].map(|version| touch.map(|of| of.of(version))), [[1, 0], [2, 1]]);
}

// Errors

#[test]
fn a_text_that_is_too_long_is_named() {
    let text = "more than 32767 bytes of text";
    let row = never_flexible::Row {
        texts: vec!["a".into(), too_long()],
        inner: Some(Default::default()),
        ..Default::default()
    };
    let value = NeverFlexible { rows: vec![never_flexible::Row::default(), row], ..Default::default() };
    refused(&value, 0, &format!("NeverFlexible v0: rows[1].texts[1]: {text}"));
    refused(&with::<Tags>(|it| it.t4 = Some(too_long())), 2, &format!("Tags v2: t4: {text}"));
    refused(&with::<Tags>(|it| it.t7 = Some(vec![too_long()])), 2, &format!("Tags v2: t7[0]: {text}"));
    let longest = Ranges { cc: "a".repeat(32767).into(), ..Default::default() };
    longest.encode(3).unwrap();
}

#[test]
fn unknown_tags_in_a_version_without_tag_sections_are_refused_at_any_depth() {
    let text = "no tagged fields in this version (versions none)";
    let tagged = unknown(&[(3, &[1])]);
    let mut value = NeverFlexible { rows: vec![Default::default(); 2], ..Default::default() };
    value.rows[1].inner.as_mut().unwrap().unknown_tagged_fields = tagged.clone();
    refused(&value, 0, &format!("NeverFlexible v0: rows[1].inner.unknown_tagged_fields: {text}"));
    value.rows[0].unknown_tagged_fields = tagged.clone();
    refused(&value, 1, &format!("NeverFlexible v1: rows[0].unknown_tagged_fields: {text}"));
    let value = NeverFlexible { unknown_tagged_fields: tagged.clone(), ..Default::default() };
    refused(&value, 0, &format!("NeverFlexible v0: unknown_tagged_fields: {text}"));
    // Behind a value that the version lacks too.
    let mut value = with::<Strict>(|it| it.rows = vec![strict::Row::default(); 2]);
    value.rows[1].unknown_tagged_fields = tagged;
    refused(
        &value,
        0,
        "Strict v0: rows[1].unknown_tagged_fields: no tagged fields in this version (versions 1+)",
    );
}

#[test]
fn an_unknown_tag_that_the_schema_knows_is_refused() {
    let text = "an unknown tagged field has a tag that the schema knows";
    let value = with::<Tags>(|it| it.unknown_tagged_fields = unknown(&[(13, &[])]));
    refused(&value, 2, &format!("Tags v2: unknown_tagged_fields: {text}"));
    let value = with::<Tags>(|it| it.t8.unknown_tagged_fields = unknown(&[(0, &[]), (9, &[])]));
    refused(&value, 2, &format!("Tags v2: t8.unknown_tagged_fields: {text}"));
}

#[test]
fn legacy_lengths_that_are_wrong() {
    let rejected = |version, input: &str, text: &str| {
        rejected::<NeverFlexible>(input, version, &format!("NeverFlexible v{version}: {text}"));
    };
    rejected(1, "fffe 00000000", "name at byte 0: negative length -2");
    rejected(0, "ffff 00000000", "name at byte 0: null is not allowed in this version");
    rejected(0, "00", "name at byte 0: need 2 bytes, 1 left");
    rejected(0, "0003 6161", "name at byte 2: need 3 bytes, 2 left");
    rejected(0, "0002 61ff 00000000", "name at byte 2: not UTF-8 from byte 1 of the string on");
    rejected(0, "0000 ffffffff", "rows at byte 2: null is not allowed in this version");
    rejected(0, "0000 80000000", "rows at byte 2: negative length -2147483648");
    rejected(0, "0000 0000", "rows at byte 2: need 4 bytes, 2 left");
    // A row has at least the count of Texts and the marker of Inner.
    rejected(
        0,
        "0000 00000002 00000000",
        "rows at byte 2: 2 elements of at least 5 bytes claimed, 4 bytes left",
    );
    rejected(
        0,
        "0000 00000001 00000001 ffff 00000000",
        "rows[0].texts[0] at byte 10: null is not allowed in this version",
    );
    rejected(
        0,
        "0000 00000001 00000000 ffffffff",
        "rows[0].inner.blob at byte 10: null is not allowed in this version",
    );
    rejected(0, "0000 00000001 00000000 fffffffe", "rows[0].inner.blob at byte 10: negative length -2");
    rejected(0, "0000 00000001 00000000 00000002 01", "rows[0].inner.blob at byte 14: need 2 bytes, 1 left");
    rejected(0, "0000 00000000 00", "byte 6: 1 byte after the end of the message");
}

#[test]
fn markers_of_structs_that_are_wrong() {
    let what = "does not tell whether a struct is present";
    let text = format!("NeverFlexible v1: rows[0].inner at byte 10: 0x02 {what}");
    rejected::<NeverFlexible>("0000 00000001 00000000 02", 1, &text);
    // Null is -1 among the fields, and 0 in a tag section.
    let text = format!("NullableStructMessage v1: struct at byte 0: 0x00 {what}");
    rejected::<NullableStructMessage>("00 ff 00", 1, &text);
    rejected::<Tags>("00 01 09 01 ff", 2, &format!("Tags v2: t9 at byte 4: 0xff {what}"));
    rejected::<NullableStructMessage>(
        "",
        1,
        "NullableStructMessage v1: struct at byte 0: need 1 byte, 0 left",
    );
}

#[test]
fn tag_sections_that_are_wrong() {
    let rejected = |version, input: &str, text: &str| {
        rejected::<Tags>(input, version, &format!("Tags v{version}: {text}"));
    };
    // Base, then the section.
    rejected(2, "00", "unknown_tagged_fields at byte 1: need 1 byte, 0 left");
    rejected(2, "00 81 00", "unknown_tagged_fields at byte 1: varint is longer than it has to be");
    rejected(2, "00 ffffffff7f", "unknown_tagged_fields at byte 1: varint does not fit 32 bits");
    rejected(2, "00 ffffffffff01", "unknown_tagged_fields at byte 1: varint of more than 5 bytes");
    rejected(2, "00 01 81 00 00", "unknown_tagged_fields at byte 2: varint is longer than it has to be");
    rejected(2, "00 01", "unknown_tagged_fields at byte 2: need 1 byte, 0 left");
    rejected(2, "00 01 01 84 00 00000007", "t1 at byte 3: varint is longer than it has to be");
    rejected(2, "00 01 01 02 0007", "t1 at byte 4: need 4 bytes, 2 left");
    rejected(2, "00 01 01 05 00000007 00", "t1 at byte 8: tagged value of 4 bytes, but its size is 5");
    rejected(2, "00 01 06 7f 01", "t6 at byte 4: need 127 bytes, 1 left");
    rejected(2, "00 01 06 01 00", "t6 at byte 4: null is not allowed in this version");
    rejected(2, "00 02 01 04 00000007 00 01 00", "t0 at byte 8: tag 0 comes after tag 1");
    rejected(2, "00 02 01 04 00000007 01 04 00000007", "t1 at byte 8: tag 1 is there twice");
    rejected(2, "00 02 14 00 0d 00", "t13 at byte 4: tag 13 comes after tag 20");
    rejected(2, "00 02 14 00 14 00", "unknown_tagged_fields at byte 4: tag 20 is there twice");
    rejected(2, "00 01 14 02 01", "unknown_tagged_fields at byte 4: need 2 bytes, 1 left");
    // Base, T12, then the section.
    let head = "00 0000000000000000";
    rejected(1, &format!("{head} 01 0c 00"), "t12 at byte 10: tag 12 is not in this version (versions 2+)");
    // A struct in the section, and a section in that.
    rejected(2, "00 01 08 02 0005", "t8.unknown_tagged_fields at byte 6: need 1 byte, 0 left");
    rejected(2, "00 01 08 06 0005 01 00 01 02", "t8.y at byte 10: need 1 byte, 0 left");
    rejected(2, "00 01 08 08 0005 02 05 00 00 01 01", "t8.y at byte 9: tag 0 comes after tag 5");
    // The second element of an array in the section is short.
    rejected(2, "00 01 0d 07 03 02 61 01 00 02 62", "t13[1].v at byte 11: need 1 byte, 0 left");
}

#[test]
fn tagged_fields_with_their_defaults_are_read() {
    decodes("00 02 00 01 01 01 04 ffffffff", 2, &Tags::default());
}
