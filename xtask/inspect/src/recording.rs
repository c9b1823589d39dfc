//! A recording: one frame per line, in the order in which they were seen.

use std::collections::HashMap;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::inspect;
use kafka_protocol::protocol::{ApiKey, frame, schema};
use serde_json::{Map, Value};

use crate::input::unhex;
use crate::message::is_whole;

/// A line of a recording.
struct Frame {
    /// The number of the line, from 1.
    line: usize,
    connection: i64,
    milliseconds: Option<i64>,
    is_request: bool,
    /// What the recording says that it is.
    api: Option<ApiKey>,
    version: Option<i16>,
    /// Without the size.
    bytes: Vec<u8>,
}

/// A request that has no answer yet.
struct Open {
    line: usize,
    milliseconds: Option<i64>,
    api: ApiKey,
    version: i16,
}

/// Dumps every frame. Whether all bytes are explained.
pub(crate) fn dump(text: &str, out: &mut impl Write) -> Result<bool> {
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let objects: Vec<_> = lines().map(|(index, line)| (index + 1, object(line))).collect();
    if !objects.iter().any(|(_, object)| object.as_ref().is_ok_and(|object| object.contains_key("hex"))) {
        let members = objects.iter().find_map(|(_, object)| object.as_ref().ok());
        match members {
            Some(object) => {
                let members: Vec<_> = object.keys().map(String::as_str).collect();
                bail!(
                    "there are no frames in it: no line has `hex`, the first one has {}",
                    members.join(", ")
                )
            }
            None => bail!("there are no frames in it: no line is a JSON object with `hex`"),
        }
    }

    let mut open = HashMap::new();
    let mut broken = Vec::new();
    let (mut requests, mut responses) = (0, 0);
    let mut connections = Vec::new();
    for (line, object) in objects {
        let frame = match object.and_then(|object| frame(line, &object)) {
            Ok(frame) => frame,
            Err(error) => {
                writeln!(out, "== line {line}\nerror: {error:#}\n")?;
                broken.push(line);
                continue;
            }
        };
        if !connections.contains(&frame.connection) {
            connections.push(frame.connection);
        }
        let whole = if frame.is_request {
            requests += 1;
            request(&frame, &mut open, out)?
        } else {
            responses += 1;
            response(&frame, &mut open, out)?
        };
        if !whole {
            broken.push(line);
        }
        writeln!(out)?;
    }
    let number = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut unanswered: Vec<_> = open.values().map(|open: &Open| open.line).collect();
    unanswered.sort_unstable();
    write!(out, "{}, {}", number(requests, "request"), number(responses, "response"))?;
    writeln!(out, " on {}", number(connections.len(), "connection"))?;
    if !unanswered.is_empty() {
        writeln!(out, "no answer to the requests of {}", list(&unanswered))?;
    }
    if broken.is_empty() {
        writeln!(out, "every byte is explained")?;
    } else {
        writeln!(
            out,
            "error: {} cannot be read to the end: {}",
            number(broken.len(), "frame"),
            list(&broken)
        )?;
    }
    Ok(broken.is_empty())
}

/// `lines 3, 17 and 20`
fn list(lines: &[usize]) -> String {
    let texts: Vec<_> = lines.iter().map(usize::to_string).collect();
    match &texts[..] {
        [before @ .., last] if !before.is_empty() => format!("lines {} and {last}", before.join(", ")),
        _ => format!("line {}", texts.join("")),
    }
}

fn request(frame: &Frame, open: &mut HashMap<(i64, i32), Open>, out: &mut impl Write) -> Result<bool> {
    let dump = inspect::request(&frame.bytes, schema::request);
    let peeked = frame::peek_request(&frame.bytes);
    let correlation = frame.bytes.get(4..).and_then(correlation);
    let (api, version) = peeked.unzip();
    heading(frame, api, version, correlation, out)?;
    writeln!(out)?;
    write!(out, "{dump}")?;
    let mut whole = is_whole(&dump);
    for (name, ours, theirs) in [
        ("api", frame.api.map(|api| api.to_string()), api.map(|api| api.to_string())),
        ("version", frame.version.map(|v| v.to_string()), version.map(|v| v.to_string())),
    ] {
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && ours != theirs
        {
            writeln!(out, "error: the recording says {name} {ours}, the header {theirs}")?;
            whole = false;
        }
    }
    if let (Some(api), Some(version), Some(correlation)) = (api, version, correlation) {
        let open_request = Open { line: frame.line, milliseconds: frame.milliseconds, api, version };
        open.insert((frame.connection, correlation), open_request);
    }
    Ok(whole)
}

fn response(frame: &Frame, open: &mut HashMap<(i64, i32), Open>, out: &mut impl Write) -> Result<bool> {
    let correlation = correlation(&frame.bytes);
    let request = correlation.and_then(|correlation| open.remove(&(frame.connection, correlation)));
    // Without its request, the recording may know.
    let api = request.as_ref().map(|request| request.api).or(frame.api);
    let version = request.as_ref().map(|request| request.version).or(frame.version);
    let schema = api.and_then(schema::response);
    let dump = match (schema, version) {
        (Some(schema), Some(version)) => inspect::response(&frame.bytes, schema, version),
        _ => {
            heading(frame, api, version, correlation, out)?;
            let why = match (&request, api) {
                (Some(request), _) => {
                    format!("it answers line {}, but the API has no schema", request.line)
                }
                (None, Some(_)) => "the API has no schema".to_owned(),
                (None, None) => "no request has its correlation id".to_owned(),
            };
            writeln!(out, "\nerror: {why}, so that its {} bytes are not known", frame.bytes.len())?;
            return Ok(false);
        }
    };
    heading(frame, api, dump.version().or(version), correlation, out)?;
    match &request {
        Some(request) => {
            write!(out, "  answers line {}", request.line)?;
            if let (Some(from), Some(to)) = (request.milliseconds, frame.milliseconds) {
                write!(out, " after {} ms", to - from)?;
            }
            if dump.version().is_some() && dump.version() != version {
                write!(out, ", whose version {} the broker lacks", request.version)?;
            }
        }
        None => write!(out, "  its request is not in the recording")?,
    }
    writeln!(out)?;
    write!(out, "{dump}")?;
    Ok(is_whole(&dump))
}

fn heading(
    frame: &Frame,
    api: Option<ApiKey>,
    version: Option<i16>,
    correlation: Option<i32>,
    out: &mut impl Write,
) -> Result<()> {
    write!(out, "== line {}  connection {}", frame.line, frame.connection)?;
    if let Some(milliseconds) = frame.milliseconds {
        write!(out, "  {milliseconds} ms")?;
    }
    let (direction, half) = if frame.is_request { (">", "Request") } else { ("<", "Response") };
    write!(out, "  {direction} ")?;
    match api {
        Some(api) if api.name().is_some() => write!(out, "{api}{half}")?,
        Some(api) => write!(out, "{half} of {api}")?,
        None => write!(out, "{half}")?,
    }
    if let Some(version) = version {
        write!(out, " v{version}")?;
    }
    if let Some(correlation) = correlation {
        write!(out, "  correlation {correlation}")?;
    }
    write!(out, "  {} bytes", frame.bytes.len())?;
    Ok(())
}

fn correlation(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().copied().map(i32::from_be_bytes)
}

fn object(line: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(line)? {
        Value::Object(object) => Ok(object),
        _ => bail!("not a JSON object"),
    }
}

fn frame(line: usize, object: &Map<String, Value>) -> Result<Frame> {
    let is_request = match object.get("dir").and_then(Value::as_str) {
        Some(">") => true,
        Some("<") => false,
        _ => bail!("not a frame: `dir` is neither \">\" nor \"<\""),
    };
    let hex = object.get("hex").and_then(Value::as_str).context("not a frame: there is no string `hex`")?;
    let api = match object.get("api") {
        None => None,
        Some(Value::String(name)) => Some(ApiKey::from_name(name).with_context(|| format!("no API {name}"))?),
        Some(api) => {
            let key = api.as_i64().and_then(|key| key.try_into().ok());
            Some(ApiKey(key.with_context(|| format!("{api} is not an API"))?))
        }
    };
    let version = match object.get("version") {
        None => None,
        Some(version) => {
            let number = version.as_i64().and_then(|version| version.try_into().ok());
            Some(number.with_context(|| format!("{version} is not a version"))?)
        }
    };
    let bytes = unhex(hex).context("`hex`")?;
    ensure!(!bytes.is_empty(), "`hex` is empty");
    let connection = object.get("conn").and_then(Value::as_i64).unwrap_or_default();
    let milliseconds = object.get("ms").and_then(Value::as_i64);
    Ok(Frame { line, connection, milliseconds, is_request, api, version, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(text: &str) -> (bool, String) {
        let mut out = Vec::new();
        let whole = dump(text, &mut out).expect("a dump");
        (whole, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn an_answer_in_version_0_is_read_as_such() {
        let (whole, text) = dumped(concat!(
            r#"{"conn":1,"ms":5,"dir":">","hex":"0012 0006 00000007 0001 61 00 02 61 02 31 00"}"#,
            "\n",
            r#"{"conn":1,"ms":9,"dir":"<","hex":"00000007 0023 00000001 0012 0000 0005"}"#,
        ));
        assert!(!whole);
        let heading = "== line 2  connection 1  9 ms  < ApiVersionsResponse v0  correlation 7  16 bytes  \
                       answers line 1 after 4 ms, whose version 6 the broker lacks";
        assert!(text.contains(heading), "{text}");
        // We do not know version 6 either.
        assert!(text.ends_with("error: 1 frame cannot be read to the end: line 1\n"), "{text}");
    }

    #[test]
    fn a_conversation_of_an_unknown_api_is_not_explained() {
        let (whole, text) = dumped(concat!(
            r#"{"conn":1,"dir":">","hex":"03e7 0000 00000007 0001 61 aabb"}"#,
            "\n",
            r#"{"conn":1,"dir":"<","hex":"00000007 aabb"}"#,
        ));
        assert!(!whole);
        for part in [
            "aabb  its schema is not known\n",
            "\nerror: it answers line 1, but the API has no schema, so that its 6 bytes are not known\n",
            "error: 2 frames cannot be read to the end: lines 1 and 2\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn lines_that_are_no_frames_are_told() {
        let (whole, text) = dumped(concat!(
            r#"{"conn":1,"dir":"<","correlation":7,"hex":"00000007"}"#,
            "\n{}\n[\n",
            r#"{"dir":">","api":"Fetch","version":1,"hex":"0012 0000 00000007 ffff"}"#,
        ));
        assert!(!whole);
        for part in [
            "== line 1  connection 1  < Response  correlation 7  4 bytes\nerror: no request has its correlation id",
            "== line 2\nerror: not a frame: `dir` is neither",
            "== line 3\nerror: EOF",
            "== line 4  connection 0  > ApiVersionsRequest v0  correlation 7  10 bytes\n",
            "error: the recording says api Fetch, the header ApiVersions\n",
            "error: the recording says version 1, the header 0\n",
            "no answer to the requests of line 4\n",
            "error: 4 frames cannot be read to the end: lines 1, 2, 3 and 4\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let error = dump("{\"id\": 1, \"got\": 2}\n", &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "there are no frames in it: no line has `hex`, the first one has id, got");
    }
}
