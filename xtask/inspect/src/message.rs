//! One message or frame, of which the command line says what it is.

use std::io::Write;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kafka_protocol::inspect;
use kafka_protocol::protocol::schema::{self, MessageSchema};
use kafka_protocol::protocol::{Api, ApiKey, frame};

use crate::Arguments;

/// What the bytes are.
pub(crate) enum Message {
    /// A message without anything around it.
    Body(&'static MessageSchema, i16),
    /// The frame of a request, which names its API and version; these it should be.
    Request(Option<ApiKey>, Option<i16>),
    /// The frame of a response.
    Response(&'static MessageSchema, i16),
}

/// What the command line says that the bytes are, if it does.
pub(crate) fn find(arguments: &Arguments) -> Result<Option<Message>> {
    let Arguments { api, message, version, request, frame, .. } = arguments;
    let api = api.as_deref().map(find_api).transpose()?;
    if *frame && *request {
        return Ok(Some(Message::Request(api.map(|api| api.key), *version)));
    }
    let schema = match (api, message) {
        (Some(api), _) => {
            let schema = if *request { schema::request(api.key) } else { schema::response(api.key) };
            schema.with_context(|| format!("Kafka has removed {}, only its key is left", api.name))?
        }
        (None, Some(name)) => find_message(name)?,
        (None, None) if arguments.response || *request => {
            bail!("--api NAME is missing; only the frame of a request says which API it is of")
        }
        (None, None) => {
            ensure!(version.is_none(), "--version needs --api NAME or --message NAME");
            return Ok(None);
        }
    };
    let name = schema.name;
    let versions = schema.versions;
    let version = version.with_context(|| format!("--version is missing: {name} has versions {versions}"))?;
    // The answer to another version of this API is one of version 0.
    let any = *frame && api.is_some_and(|api| api.key == ApiKey::API_VERSIONS);
    ensure!(any || versions.contains(version), "{name} has no version {version} (versions {versions})");
    Ok(Some(if *frame { Message::Response(schema, version) } else { Message::Body(schema, version) }))
}

impl Message {
    /// Whether all bytes are explained.
    pub(crate) fn dump(&self, bytes: &[u8], out: &mut impl Write) -> Result<bool> {
        let dump = match *self {
            Self::Body(schema, version) => inspect::dump(schema, bytes, version),
            Self::Request(..) => inspect::frame_request(bytes, schema::request),
            Self::Response(schema, version) => inspect::frame_response(bytes, schema, version),
        };
        write!(out, "{dump}")?;
        let mut whole = is_whole(&dump);
        if let (Self::Request(..) | Self::Response(..), Some((size, rest))) =
            (self, bytes.split_first_chunk::<4>())
        {
            let size = i32::from_be_bytes(*size);
            if usize::try_from(size).ok() != Some(rest.len()) {
                writeln!(out, "error: the size is {size}, but {} bytes follow", rest.len())?;
                whole = false;
            }
        }
        match *self {
            Self::Response(_, asked) if dump.version() == Some(0) && asked != 0 => {
                writeln!(out, "note: version 0, which is how a broker answers that lacks version {asked}")?;
            }
            Self::Request(api, version) => {
                let peeked = bytes.get(4..).and_then(frame::peek_request);
                if let Some((key, of)) = peeked
                    && (api.is_some_and(|api| api != key) || version.is_some_and(|version| version != of))
                {
                    writeln!(out, "error: the header says {key} v{of}, which is not what it should be")?;
                    whole = false;
                }
            }
            _ => {}
        }
        Ok(whole)
    }
}

/// Whether the dump explains all bytes, and these are a message. The body of an API without a schema is shown, and not
/// explained.
pub(crate) fn is_whole(dump: &inspect::Dump) -> bool {
    let mut at = 0;
    let tiled = dump.lines().iter().all(|line| {
        let follows = line.bytes.start == at;
        at = line.bytes.end;
        follows
    });
    let is_known = dump.version().is_some();
    dump.error().is_none() && is_known && tiled && at == dump.bytes().len()
}

fn find_api(text: &str) -> Result<&'static Api> {
    if let Ok(key) = text.parse() {
        return ApiKey(key).api().with_context(|| {
            let last = ApiKey::all().next_back().map_or(0, |api| api.key.0);
            format!("no API has the key {key} (keys go from 0 to {last})")
        });
    }
    let plain = plain(text);
    let plain = plain.strip_suffix("request").or_else(|| plain.strip_suffix("response")).unwrap_or(&plain);
    ApiKey::all()
        .find(|api| self::plain(api.name) == plain)
        .ok_or_else(|| unknown("API", text, plain, ApiKey::all().map(|api| api.name)))
}

fn find_message(text: &str) -> Result<&'static MessageSchema> {
    let plain = plain(text);
    let names = || schema::all().map(|schema| schema.name);
    schema::all()
        .find(|schema| self::plain(schema.name) == plain)
        .ok_or_else(|| unknown("message", text, &plain, names()))
}

/// A name as people type it.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_lowercase()
}

fn unknown(what: &str, text: &str, plain: &str, names: impl Iterator<Item = &'static str>) -> anyhow::Error {
    let similarity = |name: &str| strsim::jaro_winkler(&self::plain(name), plain);
    let nearest = names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    match nearest {
        Some(nearest) => anyhow!("no {what} has the name `{text}`; did you mean {nearest}?"),
        None => anyhow!("no {what} has the name `{text}`"),
    }
}
