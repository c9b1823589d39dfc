//! The golden vectors as values, and hex.

use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use kafka_protocol::protocol::Message;
use kafka_protocol::wire::Bytes;
use serde_json::Value;

use crate::vectors::texts;

/// Calls a generic function for the messages that are tested most closely: `every_message!(check)`, `every_message!(add(&mut sum))`.
macro_rules! every_message {
    ($check:ident) => {
        every_message!($check())
    };
    ($check:ident($($argument:expr)?)) => {{
        use kafka_protocol::messages as all;
        $check::<all::RequestHeader>($($argument)?);
        $check::<all::ResponseHeader>($($argument)?);
        $check::<all::ApiVersionsRequest>($($argument)?);
        $check::<all::ApiVersionsResponse>($($argument)?);
        $check::<all::ShareFetchRequest>($($argument)?);
        $check::<all::ShareFetchResponse>($($argument)?);
        $check::<all::ShareAcknowledgeRequest>($($argument)?);
        $check::<all::ShareAcknowledgeResponse>($($argument)?);
    }};
}

/// What a case says, by its `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Value and bytes give each other.
    Valid,
    /// A value that the version cannot carry whole.
    Ignored,
    /// A value that the version cannot carry.
    EncodeError,
    /// Bytes that Kafka cannot read.
    DecodeError,
    /// Bytes that Kafka can read, though they are not what it writes.
    DecodeLenient,
    /// Bytes with more bytes behind them.
    Trailing,
}

/// A case of a vector file. What a kind does not have is empty.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    message: &'static str,
    pub(crate) version: i16,
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) mutation: String,
    /// In Rust's names.
    pub(crate) path: String,
    pub(crate) at: usize,
    pub(crate) left: usize,
    /// The value in the form of Kafka's JSON.
    pub(crate) json: Value,
    pub(crate) bytes: Bytes,
    pub(crate) reencoded: Option<Bytes>,
}

impl Case {
    pub(crate) fn verdict(&self) -> Verdict {
        match self.kind.as_str() {
            "ignored" => Verdict::Ignored,
            "encode-error" => Verdict::EncodeError,
            "decode-error" => Verdict::DecodeError,
            "decode-lenient" => Verdict::DecodeLenient,
            "trailing" => Verdict::Trailing,
            _ => Verdict::Valid,
        }
    }

    /// The value of the case, which is a valid one.
    pub(crate) fn value<M: Message>(&self) -> M {
        M::decode(self.bytes.clone(), self.version).unwrap_or_else(|error| panic!("{self}: {error}"))
    }
}

/// For the messages of failed assertions.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{} {}", self.message, self.version, self.kind)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.mutation.is_empty() {
            write!(f, " {} at byte {}", self.mutation, self.at)?;
        }
        if !self.path.is_empty() {
            write!(f, " ({})", self.path)?;
        }
        Ok(())
    }
}

/// All cases of a message.
pub(crate) fn cases<M: Message>() -> Vec<Case> {
    let message = M::SCHEMA.name;
    let file = load(message);
    assert_eq!(file["message"], message);
    let case = |case: &Value| Case {
        message,
        version: case["version"].as_i64().expect("a version").try_into().expect("an int16"),
        kind: text(&case["kind"]),
        reason: text(&case["reason"]),
        mutation: text(&case["mutation"]),
        path: rust_path(&text(&case["path"])),
        at: number(&case["at"]),
        left: number(&case["left"]),
        json: case["json"].clone(),
        bytes: unhex(&text(&case["hex"])),
        reencoded: case["reencoded"].as_str().map(unhex),
    };
    file["cases"].as_array().expect("cases").iter().map(case).collect()
}

/// The cases of a message with one verdict; there are some.
pub(crate) fn cases_of<M: Message>(verdict: Verdict) -> Vec<Case> {
    let mut cases = cases::<M>();
    cases.retain(|case| case.verdict() == verdict);
    cases
}

/// A document of the vectors: of a message by its name, or a table by the name of its list.
pub(crate) fn load(name: &str) -> Value {
    static CLIENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/clients.jsonl.gz");
        texts(&archive).expect("vectors")
    });
    let message = format!(r#"{{"message":"{name}","#);
    let table = format!(r#""{name}":["#);
    let is_it = |text: &&String| {
        text.starts_with(&message) || text.split_inclusive('[').next().is_some_and(|it| it.ends_with(&table))
    };
    let text = CLIENTS.iter().find(is_it);
    let text = text.unwrap_or_else(|| panic!("there are no vectors of {name}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The bytes of hex digits; blanks between them are for the reader.
pub(crate) fn unhex(digits: &str) -> Bytes {
    let digits: Vec<_> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {digits:?}");
    let value = |digit: char| digit.to_digit(16).expect("a hex digit") as u8;
    digits.chunks(2).map(|byte| value(byte[0]) << 4 | value(byte[1])).collect()
}

/// `topics[0].partitionIndex` as `topics[0].partition_index`.
pub(crate) fn rust_path(json_path: &str) -> String {
    let mut path = String::new();
    for c in json_path.chars() {
        if c.is_ascii_uppercase() {
            path.push('_');
        }
        path.push(c.to_ascii_lowercase());
    }
    path
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_default().try_into().expect("a size")
}
