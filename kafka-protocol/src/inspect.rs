//! What each byte of a message or of a frame means.
//!
//! ```
//! # #[cfg(feature = "share")] {
//! use kafka_protocol::inspect;
//! use kafka_protocol::messages::ShareFetchRequest;
//! use kafka_protocol::protocol::Message;
//!
//! let body = ShareFetchRequest { group_id: Some("workers".into()), ..Default::default() }.encode(2)?;
//! let dump = inspect::dump(ShareFetchRequest::SCHEMA, &body, 2);
//! let text = dump.to_string();
//! let lines: Vec<_> = text.lines().take(3).collect();
//! assert_eq!(lines, [
//!     " 0  08 776f726b657273  group_id               \"workers\"  length 7",
//!     " 8  01                 member_id              \"\"         length 0",
//!     " 9  00000000           share_session_epoch    0",
//! ]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::ops::Range;

use crate::dynamic::{Value, fixed};
use crate::messages::{RequestHeader, ResponseHeader};
use crate::protocol::schema::{FieldType, MessageSchema};
use crate::protocol::walk::{Event, Span, Step, Visitor, path, walk};
use crate::protocol::{
    AcknowledgeType, ApiKey, DecodeError, DecodeReason, ErrorCode, HeaderVersions, Message, frame,
};

/// Explains the bytes of a message.
///
/// If they are not a whole message, then the lines go as far as there is a meaning, and the dump has the
/// [`error`](Dump::error) of [`decode`](crate::dynamic::decode).
///
/// A dump is for people. It takes some hundred times the memory of its bytes.
pub fn dump(schema: &'static MessageSchema, bytes: &[u8], version: i16) -> Dump {
    let mut dump = Dump::new(bytes);
    let end = bytes.len();
    dump.version = Some(version);
    if let Some(read) = dump.message(schema, 0..end, version, "")
        && read < end
    {
        dump.trailing(schema, version, read..end);
    }
    dump
}

/// Explains a request with its header, a frame as [`frame::split`] gives it: without its size.
///
/// `schema` gives the request of an API, as for [`frame_request`].
pub fn request(bytes: &[u8], schema: impl FnOnce(ApiKey) -> Option<&'static MessageSchema>) -> Dump {
    let mut dump = Dump::new(bytes);
    dump.request(0..bytes.len(), schema);
    dump
}

/// Explains a response with its header, the answer to a request of `version`; a frame as [`frame::split`] gives it:
/// without its size.
///
/// An `ApiVersionsResponse` is also read in version 0, if it is not one of `version`: so does a broker answer that
/// lacks the version of the request (KIP-511). [`Dump::version`] tells.
pub fn response(bytes: &[u8], schema: &'static MessageSchema, version: i16) -> Dump {
    let mut dump = Dump::new(bytes);
    dump.response(0..bytes.len(), schema, version);
    dump
}

/// Explains the frame of a request: its size, header and body. Offsets count from the start of the frame, those in
/// an error too.
///
/// `schema` gives the request of an API, if it is known: [`schema::request`](crate::protocol::schema::request) does,
/// and brings all schemas into the program.
///
/// ```
/// use kafka_protocol::inspect;
/// use kafka_protocol::messages::ApiVersionsRequest;
/// use kafka_protocol::protocol::{frame, schema};
///
/// let header = frame::request_header::<ApiVersionsRequest>(4, 7, "tool");
/// let mut bytes = Vec::new();
/// frame::encode_request(&mut bytes, &header, &ApiVersionsRequest::default())?;
///
/// let dump = inspect::frame_request(&bytes, schema::request);
/// let text = dump.to_string();
/// let lines: Vec<_> = text.lines().take(4).collect();
/// assert_eq!(lines, [
///     " 0  00000012       size                          18",
///     " 4  0012           header.request_api_key        18      ApiVersions",
///     " 6  0004           header.request_api_version    4",
///     " 8  00000007       header.correlation_id         7",
/// ]);
/// assert_eq!(dump.error(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn frame_request(bytes: &[u8], schema: impl FnOnce(ApiKey) -> Option<&'static MessageSchema>) -> Dump {
    let mut dump = Dump::new(bytes);
    if let Some(rest) = dump.size() {
        dump.request(rest, schema);
    }
    dump
}

/// Explains the frame of a response to a request of `version`: its size, header and body. Offsets count from the
/// start of the frame, those in an error too. Otherwise like [`response`].
pub fn frame_response(bytes: &[u8], schema: &'static MessageSchema, version: i16) -> Dump {
    let mut dump = Dump::new(bytes);
    if let Some(rest) = dump.size() {
        dump.response(rest, schema, version);
    }
    dump
}

/// The bytes of a message or of a frame, line by line. Displayed as columns: offset, bytes, path, value, meaning.
#[derive(Clone, Debug)]
pub struct Dump {
    bytes: Vec<u8>,
    version: Option<i16>,
    lines: Vec<Line>,
    error: Option<DecodeError>,
}

/// The bytes of one thing on the wire: a value with its length, a count, a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where the bytes stand.
    pub bytes: Range<usize>,
    /// Where the value starts: behind its length, if it has one, else at the first byte.
    pub value_start: usize,
    /// The field or element, in Rust's names; the struct, of what belongs to a tag section. Empty for the message
    /// itself.
    pub path: String,
    /// The value, as text.
    pub value: String,
    /// What a person would look up or count: the name of an error code, of an API or of an acknowledge type, the
    /// length of a string or of bytes, or what record batches there are.
    pub meaning: Option<String>,
}

impl Dump {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The lines in the order of the bytes. Each byte is in exactly one of them, up to where an
    /// [`error`](Self::error) ended the dump.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The version in which the message, or the body of the frame, is read; `None` if that is not known.
    pub fn version(&self) -> Option<i16> {
        self.version
    }

    /// Why the bytes are not what they should be.
    pub fn error(&self) -> Option<&DecodeError> {
        self.error.as_ref()
    }

    fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), version: None, lines: Vec::new(), error: None }
    }

    fn request(
        &mut self,
        range: Range<usize>,
        schema: impl FnOnce(ApiKey) -> Option<&'static MessageSchema>,
    ) {
        let peeked = frame::peek_request(&self.bytes[range.clone()]);
        let api = peeked.and_then(|(key, _)| key.api());
        let version = peeked.map_or(0, |peeked| peeked.1);
        // What is not known has a header of this version at the least.
        let header = api.map_or(1, |api| api.request_header.of(version));
        if let Some(read) = self.message(RequestHeader::SCHEMA, range.clone(), header, "header") {
            match peeked.and_then(|(key, _)| schema(key)) {
                Some(schema) => self.body(schema, read..range.end, version),
                None => self.raw("body", read..range.end, "its schema is not known"),
            }
        }
    }

    fn response(&mut self, range: Range<usize>, schema: &'static MessageSchema, version: i16) {
        let key = schema.api_key.map(ApiKey);
        let header = key
            .and_then(ApiKey::api)
            .map_or(HeaderVersions::of_response(schema.flexible_versions), |api| api.response_header);
        let Some(read) = self.message(ResponseHeader::SCHEMA, range.clone(), header.of(version), "header")
        else {
            return;
        };
        let body = &self.bytes[read..range.end];
        let is_whole = |version| walk(schema, body, version, &mut ()) == Ok(body.len());
        let fallback = key == Some(ApiKey::API_VERSIONS) && !is_whole(version) && is_whole(0);
        self.body(schema, read..range.end, if fallback { 0 } else { version });
    }

    /// The message at the start of `range`. Gives the offset behind it.
    fn message(
        &mut self,
        schema: &'static MessageSchema,
        range: Range<usize>,
        version: i16,
        prefix: &'static str,
    ) -> Option<usize> {
        let base = range.start;
        let mut lines = Lines { base, prefix, lines: &mut self.lines };
        match walk(schema, &self.bytes[range], version, &mut lines) {
            Ok(read) => Some(base + read),
            Err(error) => {
                self.error = Some(error.moved(base));
                None
            }
        }
    }

    fn body(&mut self, schema: &'static MessageSchema, range: Range<usize>, version: i16) {
        let end = range.end;
        self.version = Some(version);
        if let Some(read) = self.message(schema, range, version, "body")
            && read < end
        {
            self.trailing(schema, version, read..end);
        }
        if end < self.bytes.len() && self.error.is_none() {
            self.raw("", end..self.bytes.len(), "behind the frame");
        }
    }

    fn trailing(&mut self, schema: &MessageSchema, version: i16, range: Range<usize>) {
        let reason = DecodeReason::TrailingBytes { left: range.len() };
        self.error = Some(DecodeError::new(schema.name, version, String::new(), range.start, reason));
    }

    /// The size of a frame. Gives the range of what it is the size of.
    fn size(&mut self) -> Option<Range<usize>> {
        let Some(&size) = self.bytes.first_chunk::<4>() else {
            let reason = DecodeReason::UnexpectedEnd { needed: 4, left: self.bytes.len() };
            self.error = Some(DecodeError::new("frame", 0, "size".to_owned(), 0, reason));
            return None;
        };
        let size = i32::from_be_bytes(size);
        let left = self.bytes.len() - 4;
        let expected = usize::try_from(size).unwrap_or(0);
        self.lines.push(Line {
            bytes: 0..4,
            value_start: 0,
            path: "size".to_owned(),
            value: size.to_string(),
            meaning: (size < 0 || expected != left).then(|| format!("but {left} bytes follow")),
        });
        Some(4..4 + expected.min(left))
    }

    fn raw(&mut self, path: &str, bytes: Range<usize>, meaning: &str) {
        if !bytes.is_empty() {
            let value = hex(&self.bytes[bytes.clone()]);
            let meaning = Some(meaning.to_owned());
            self.lines.push(Line { value_start: bytes.start, bytes, path: path.to_owned(), value, meaning });
        }
    }
}

struct Lines<'l> {
    /// The offset of the message.
    base: usize,
    /// The path of the message.
    prefix: &'static str,
    lines: &'l mut Vec<Line>,
}

impl Visitor<'_> for Lines<'_> {
    fn visit(&mut self, span: Span<'_>, event: Event<'_>) -> Result<(), DecodeReason> {
        let mut meaning = None;
        let value = match event {
            Event::Text(text) => {
                self.value_of_length(span, format!("{text:?}"), format!("length {}", text.len()));
                return Ok(());
            }
            Event::Data(FieldType::Records, bytes) => {
                let meaning = batches(bytes).unwrap_or_else(|| format!("length {}", bytes.len()));
                self.value_of_length(span, number(bytes.len(), "byte"), meaning);
                return Ok(());
            }
            Event::Data(_, bytes) => {
                let value = if bytes.is_empty() { number(0, "byte") } else { hex(bytes) };
                self.value_of_length(span, value, format!("length {}", bytes.len()));
                return Ok(());
            }
            // What takes no bytes.
            _ if span.start == span.end => return Ok(()),
            Event::Field(_)
            | Event::BeginStruct(_)
            | Event::EndStruct
            | Event::EndArray
            | Event::UnknownTags(..) => return Ok(()),
            Event::Marker(false) | Event::Length(None) | Event::Count(None) => "null".to_owned(),
            Event::Marker(true) => "present".to_owned(),
            Event::Fixed(ty, bytes) => {
                let value = fixed(ty, bytes);
                meaning = name(span.steps, ty, &value);
                format!("{value:?}")
            }
            Event::Length(Some(length)) => format!("length {length}"),
            Event::Count(Some(count)) => number(count, "element"),
            Event::TagCount(count) => number(count as usize, "tagged field"),
            Event::Tag(tag) => format!("tag {tag}"),
            Event::TagSize(size) => format!("size {size}"),
            Event::UnknownTag(bytes) => {
                meaning = Some("of an unknown tag".to_owned());
                hex(bytes)
            }
        };
        let inner = path(span.steps);
        let path = match (self.prefix, inner.as_str()) {
            ("", _) => inner,
            (prefix, "") => prefix.to_owned(),
            (prefix, inner) => format!("{prefix}.{inner}"),
        };
        let bytes = self.base + span.start..self.base + span.end;
        self.lines.push(Line { value_start: bytes.start, bytes, path, value, meaning });
        Ok(())
    }
}

impl Lines<'_> {
    /// A value goes into the line of its length, which is the last one. It has a line of its own only where the
    /// value is not there.
    fn value_of_length(&mut self, span: Span<'_>, value: String, meaning: String) {
        if let Some(line) = self.lines.last_mut() {
            line.value_start = line.bytes.end;
            line.bytes.end = self.base + span.end;
            line.value = value;
            line.meaning = Some(meaning);
        }
    }
}

/// The name of a number.
fn name(steps: &[Step], ty: FieldType, value: &Value) -> Option<String> {
    let number = value.as_int()?;
    let field = steps.iter().rev().find_map(|step| match step {
        Step::Field(field) => Some(field.name),
        Step::Element(_) | Step::Tags => None,
    })?;
    let name = match (ty, field) {
        (FieldType::Int16, _) if field.ends_with("ErrorCode") => ErrorCode(number.try_into().ok()?).name(),
        (FieldType::Int16, "ApiKey" | "RequestApiKey") => ApiKey(number.try_into().ok()?).name(),
        (FieldType::Int8, "AcknowledgeType" | "AcknowledgeTypes") => {
            AcknowledgeType(number.try_into().ok()?).name()
        }
        _ => None,
    };
    name.map(str::to_owned)
}

/// What the headers of record batches say; `None` if there is none, or if they are of an old format.
fn batches(mut bytes: &[u8]) -> Option<String> {
    fn int32(bytes: &[u8], at: usize) -> Option<i32> {
        bytes.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
    }
    let (mut count, mut records) = (0, 0);
    let mut offsets = None;
    while let Some(&base) = bytes.first_chunk()
        && let base = i64::from_be_bytes(base)
        && bytes.get(16) == Some(&2)
        && let Some(length) = int32(bytes, 8)
        && let Ok(length) = usize::try_from(length)
        && length >= 49
        && let Some(after) = bytes.get(12 + length..)
        && let Some(delta) = int32(bytes, 23)
        && let Some(of_batch) = int32(bytes, 57)
    {
        count += 1;
        records += i64::from(of_batch);
        let last = base.wrapping_add(delta.into());
        offsets = Some((offsets.map_or(base, |(first, _)| first), last));
        bytes = after;
    }
    let (first, last) = offsets?;
    let noun = if count == 1 { "batch" } else { "batches" };
    let s = if records == 1 { "" } else { "s" };
    let rest = match bytes.len() {
        0 => String::new(),
        left => format!(", then {left} bytes of another"),
    };
    Some(format!("{count} {noun}, offsets {first} to {last}, {records} record{s}{rest}"))
}

fn number(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// As many bytes as are shown of a value.
const SHOWN: usize = 16;

/// As many characters as are displayed of a value.
const WIDTH: usize = 80;

/// Longer values push what they mean to the right, without moving that of all others.
const COLUMN: usize = 24;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * SHOWN + 3);
    for byte in bytes.iter().take(SHOWN) {
        for digit in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    if bytes.len() > SHOWN {
        text.push_str("...");
    }
    text
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                let mut value: String = line.value.chars().take(WIDTH).collect();
                if value.len() < line.value.len() {
                    value.push_str("...");
                }
                let (length, bytes) =
                    self.bytes[line.bytes.clone()].split_at(line.value_start - line.bytes.start);
                let blank = if length.is_empty() || bytes.is_empty() { "" } else { " " };
                (line, format!("{}{blank}{}", hex(length), hex(bytes)), value)
            })
            .collect();
        let widest =
            |width: &dyn Fn(&(&Line, String, String)) -> usize| rows.iter().map(width).max().unwrap_or(0);
        let offset = self.bytes.len().to_string().len();
        let bytes = widest(&|row| row.1.len());
        let path = widest(&|row| row.0.path.len());
        let value = widest(&|row| match row.2.chars().count() {
            width if width <= COLUMN && row.0.meaning.is_some() => width,
            _ => 0,
        });
        for (line, hex, text) in &rows {
            let start = line.bytes.start;
            write!(f, "{start:>offset$}  {hex:bytes$}  {:path$}  ", line.path)?;
            match &line.meaning {
                Some(meaning) => writeln!(f, "{text:value$}  {meaning}")?,
                None => writeln!(f, "{text}")?,
            }
        }
        let read = self.lines.last().map_or(0, |line| line.bytes.end);
        if read < self.bytes.len() {
            let rest = &self.bytes[read..];
            writeln!(f, "{read:>offset$}  {:bytes$}  not read: {}", hex(rest), number(rest.len(), "byte"))?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "error: {error}")?;
        }
        Ok(())
    }
}
