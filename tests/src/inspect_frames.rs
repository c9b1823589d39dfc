//! The dump of frames that a real broker received and sent.

use kafka_protocol::inspect::{self, Dump};
use kafka_protocol::messages::{ApiVersionsResponse, ShareFetchRequest};
use kafka_protocol::protocol::{ApiKey, DecodeReason, Message, schema};
use kafka_protocol::wire::Bytes;
use serde_json::Value;

use crate::fixture::unhex;

/// A frame of `cases/recorded.jsonl`.
struct Frame {
    is_request: bool,
    api: ApiKey,
    version: i16,
    /// Without its size.
    bytes: Bytes,
}

impl Frame {
    fn all() -> Vec<Self> {
        let frame = |line: &str| {
            let value: Value = serde_json::from_str(line).expect("JSON");
            let api = value["api"].as_str().expect("a name");
            Self {
                is_request: value["dir"] == ">",
                api: ApiKey::from_name(api).expect("an API"),
                version: value["version"].as_i64().expect("a version") as i16,
                bytes: unhex(value["hex"].as_str().expect("hex")),
            }
        };
        include_str!("../cases/recorded.jsonl").lines().map(frame).collect()
    }

    fn name(&self) -> String {
        format!("{}{} v{}", self.api, if self.is_request { "Request" } else { "Response" }, self.version)
    }

    fn dump(&self) -> Dump {
        self.dump_of(&self.bytes)
    }

    fn dump_of(&self, bytes: &[u8]) -> Dump {
        if self.is_request {
            inspect::request(bytes, schema::request)
        } else {
            inspect::response(bytes, schema::response(self.api).expect("a schema"), self.version)
        }
    }

    /// With its size.
    fn framed(&self) -> Vec<u8> {
        let size = i32::try_from(self.bytes.len()).expect("a size");
        [&size.to_be_bytes()[..], &self.bytes].concat()
    }
}

/// The end of the lines, which leave no byte out before it.
fn check_tiles(dump: &Dump) -> usize {
    let mut at = 0;
    for line in dump.lines() {
        assert!(line.bytes.start == at && line.bytes.end > at, "{line:?} behind byte {at}");
        assert!(line.bytes.contains(&line.value_start) || line.value_start == line.bytes.end, "{line:?}");
        assert!(line.path.starts_with("header") || line.path.starts_with("body"), "{line:?}");
        at = line.bytes.end;
    }
    at
}

#[test]
fn recorded_frames_are_explained() {
    let mut frames = Frame::all();
    let refused = frames.pop().expect("a frame");
    let mut text = String::new();
    for frame in &frames {
        let dump = frame.dump();
        assert_eq!(dump.error(), None, "{}\n{dump}", frame.name());
        assert_eq!(dump.version(), Some(frame.version), "{}", frame.name());
        assert_eq!(check_tiles(&dump), frame.bytes.len(), "{}\n{dump}", frame.name());
        text.push_str(&format!("{}\n{dump}\n", frame.name()));
    }
    insta::assert_snapshot!("recorded_frames", text.trim_end());

    // What Kafka's broker closed the connection for.
    let dump = refused.dump();
    assert_eq!(dump.error().map(|error| (error.offset(), error.reason())), Some((74, &DecodeReason::Null)));
    assert_eq!(check_tiles(&dump), 74);
    insta::assert_snapshot!("refused_frame", dump);
}

/// With its size in front, a frame has the same lines, four bytes later.
#[test]
fn sizes_move_offsets() {
    for frame in Frame::all() {
        let framed = frame.framed();
        let dump = if frame.is_request {
            inspect::frame_request(&framed, schema::request)
        } else {
            inspect::frame_response(&framed, schema::response(frame.api).expect("a schema"), frame.version)
        };
        let without = frame.dump();
        assert_eq!((dump.version(), dump.error().is_some()), (without.version(), without.error().is_some()));
        assert_eq!(dump.lines().len(), without.lines().len() + 1);
        for (line, without) in dump.lines()[1..].iter().zip(without.lines()) {
            let moved = (line.bytes.start - 4, line.bytes.end - 4, line.value_start - 4);
            assert_eq!(moved, (without.bytes.start, without.bytes.end, without.value_start));
            assert_eq!((&line.path, &line.value), (&without.path, &without.value));
        }
    }
}

#[test]
fn a_frame_that_ends_early_is_explained_up_to_there() {
    for frame in Frame::all() {
        let whole = frame.dump();
        for n in 0..frame.bytes.len() {
            let dump = frame.dump_of(&frame.bytes[..n]);
            let end = check_tiles(&dump);
            let error = dump.error().unwrap_or_else(|| panic!("{}, {n} bytes\n{dump}", frame.name()));
            assert!(end <= n && error.offset() <= n, "{}, {n} bytes\n{dump}", frame.name());
            // The lines are the first ones of the whole frame; but a length whose value is cut has a line of its own.
            let same = dump.lines().iter().zip(whole.lines()).take_while(|(a, b)| a == b).count();
            assert!(same + 1 >= dump.lines().len(), "{}, {n} bytes\n{dump}", frame.name());
        }
    }
    let frame = &Frame::all()[0];
    insta::assert_snapshot!("cut_frame", frame.dump_of(&frame.bytes[..50]));
}

#[test]
fn an_api_versions_response_may_be_of_version_0() {
    let answer = unhex("00000007 0023 00000001 0012 0000 0005");
    for version in 0..=9 {
        let dump = inspect::response(&answer, ApiVersionsResponse::SCHEMA, version);
        assert_eq!((dump.version(), dump.error()), (Some(0), None), "{version}");
        assert_eq!(check_tiles(&dump), answer.len());
    }
    // What is of neither version is explained as one of the request's.
    for (bytes, version) in [(&answer[..12], 4), (&answer[..12], 9), (&[&answer[..], &[0]].concat(), 3)] {
        let dump = inspect::response(bytes, ApiVersionsResponse::SCHEMA, version);
        assert_eq!(dump.version(), Some(version));
        assert!(dump.error().is_some_and(|error| error.version() == version));
    }
    // Other APIs have no such answer.
    let dump = inspect::response(&answer, schema::response(ApiKey::SHARE_FETCH).expect("a schema"), 9);
    assert_eq!(dump.version(), Some(9));
}

#[test]
fn lengths_stand_with_their_values() {
    let line = |bytes: &[u8], at: usize| {
        let dump = inspect::dump(ShareFetchRequest::SCHEMA, bytes, 2);
        let line = dump.lines()[at].clone();
        (line.bytes, line.value_start, line.value, line.meaning)
    };
    let length = |length: &str| Some(length.to_owned());
    assert_eq!(line(b"\x08workers", 0), (0..8, 1, "\"workers\"".to_owned(), length("length 7")));
    assert_eq!(line(b"\x01", 0), (0..1, 1, "\"\"".to_owned(), length("length 0")));
    assert_eq!(line(b"\0", 0), (0..1, 0, "null".to_owned(), None));
    // The value is not there, or not what it should be.
    assert_eq!(line(b"\x08work", 0), (0..1, 0, "length 7".to_owned(), None));
    assert_eq!(line(b"\x02\xff", 0), (0..1, 0, "length 1".to_owned(), None));
}
