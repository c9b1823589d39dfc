//! What damaged bytes were before, so that what is not damaged about them is not taken on trust.
//!
//! The damaged cases of a version all come from one value: every field is set, and arrays have one element. The case
//! `trailing` has all of its bytes; where there is none, `unknown-tags-full` has them with unknown tags in between.

use std::collections::BTreeMap;

use kafka_protocol::dynamic::{self, Struct};
use kafka_protocol::protocol::schema::{FieldType, MessageSchema};
use kafka_protocol::wire::{Reader, Writer};
use serde_json::Value as Json;

use super::damage::{Damage, Place};
use super::value::each_struct;
use super::{Build, Check, build, unhex};

/// The undamaged bytes, by version.
pub(crate) struct Origins(BTreeMap<i16, Vec<u8>>);

impl Origins {
    /// Those of the cases of a message. A version has none if its cases do not tell, or contradict themselves, which is
    /// then their own failure.
    pub(crate) fn new(schema: &'static MessageSchema, cases: &[Json]) -> Self {
        let versions = schema.versions.iter();
        Self(versions.filter_map(|version| Some((version, origin(schema, cases, version)?))).collect())
    }

    /// That the bytes are those of the version, but for the damage.
    pub(crate) fn check(&self, damage: &Damage<'_>) -> Check {
        match self.0.get(&damage.version) {
            Some(origin) => damage.check_origin(origin),
            None => Ok(()),
        }
    }
}

fn origin(schema: &'static MessageSchema, cases: &[Json], version: i16) -> Option<Vec<u8>> {
    let case =
        |member: &str, name: &str| cases.iter().find(|raw| raw["version"] == version && raw[member] == name);
    let plain = |mut value: Struct| {
        each_struct(&mut value, &mut |value| value.unknown_tagged_fields.clear());
        dynamic::encode(&value, schema, version).ok()
    };
    let encoded = |raw: &Json| match build(schema, version, &raw["json"], &raw["records"], &raw["unknown"]) {
        Ok(Build::Value(value)) => plain(value),
        _ => None,
    };
    let found = if let Some(raw) = case("mutation", "trailing") {
        let at = raw["at"].as_u64()? as usize;
        [
            encoded(raw),
            hex(&raw["reencoded"]),
            hex(&raw["hex"]).and_then(|bytes| Some(bytes.get(..at)?.to_vec())),
        ]
    } else {
        let raw = case("kind", "unknown-tags-full")?;
        let value = dynamic::decode(schema, &unhex(&raw["hex"]).ok()?, version).ok()?;
        [encoded(raw), plain(value), None]
    };
    // If one of them is wrong, it is another case that fails.
    let mut found = found.into_iter().flatten();
    let (first, second) = (found.next()?, found.next()?);
    if first == second { Some(first) } else { found.find(|third| *third == first || *third == second) }
}

fn hex(digits: &Json) -> Option<Vec<u8>> {
    unhex(digits).ok().map(Vec::from)
}

impl Damage<'_> {
    /// That the bytes are those of `origin` with what the mutation makes of them, and nothing else.
    fn check_origin(&self, origin: &[u8]) -> Check {
        if self.is_of(origin)? {
            Ok(())
        } else {
            Err("more differs from the valid bytes than what is damaged".to_owned())
        }
    }

    fn is_of(&self, origin: &[u8]) -> Result<bool, String> {
        let Some((before, old)) = origin.split_at_checked(self.at) else { return Ok(false) };
        let Some(new) = self.bytes.strip_prefix(before) else { return Ok(false) };
        let place = match self.mutation {
            "truncate" => return Ok(new.is_empty()),
            "trailing" => return Ok(old.is_empty() && new.iter().all(|byte| *byte == 0)),
            _ => self.place()?,
        };
        let width = place.width(old);
        let (is_text, is_compact) = (matches!(place.ty, FieldType::String), place.flexible);
        let length = |compact: u32, legacy: i32| match (is_compact, is_text) {
            (true, _) => varint(compact),
            (false, true) => (legacy as i16).to_be_bytes().to_vec(),
            (false, false) => legacy.to_be_bytes().to_vec(),
        };
        let number = read_varint(old);
        let start = match self.mutation {
            "null" => length(0, -1),
            "negative-length" => length(u32::MAX, -2),
            "oversize" if is_text => length(0x8000, 0x7fff),
            "oversize" => length(0x8000_0000, 0x7fff_ffff),
            "string-over-32767" => varint(32769),
            "count-as-bytes-left" => {
                let left = old.len().saturating_sub(width) as u32;
                length(left + 1, left as i32)
            }
            "bad-utf8" => [old.get(..width).unwrap_or_default(), &[0xff]].concat(),
            "varint-too-long" => vec![0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "varint-padded" => padded(number, 2),
            "varint-high-bits" => {
                let mut bytes = padded(number, 5);
                bytes[4] |= 0x70;
                bytes
            }
            "marker-0" => vec![0],
            "marker-127" => vec![0x7f],
            "marker-2" | "bool-2" => vec![2],
            "marker-negative" => vec![0xfe],
            "tag-count-negative" => varint(u32::MAX),
            "tag-size-short" | "tag-size-long" => {
                let mut entry = varint(number);
                let size = read_varint(old.get(entry.len()..).unwrap_or_default());
                let by_one =
                    if self.mutation == "tag-size-short" { u32::wrapping_sub } else { u32::wrapping_add };
                entry.extend(varint(by_one(size, 1)));
                entry
            }
            // The default itself is seen in the value that is read.
            "tag-default" => {
                let mut entry = varint(number);
                let size = read_varint(new.get(entry.len()..).unwrap_or_default());
                entry.extend(varint(size));
                new.get(..entry.len() + size as usize).unwrap_or_default().to_vec()
            }
            _ => return Ok(self.is_with_more_tags(&place, old, new)),
        };
        // What follows the damage has moved, and is as it was.
        Ok(new.strip_prefix(&start[..]).is_some_and(|rest| old.ends_with(rest)))
    }

    /// Tags have been added at the end of a section, and were counted.
    fn is_with_more_tags(&self, place: &Place, old: &[u8], new: &[u8]) -> bool {
        let FieldType::Struct(schema) = place.ty else { return false };
        let next = schema.fields.iter().filter(|field| field.tag.is_some()).count() as u32;
        let tag = |tag: u32, value: &[u8]| [&varint(tag), &varint(value.len() as u32), value].concat();
        let claim = |size: u32| [varint(next), varint(size)].concat();
        let (a, b) = (tag(next, &[0xaa]), tag(next + 1, &[0xbb]));
        let (count, added) = match self.mutation {
            "tag-missing" => (1, vec![vec![]]),
            "tag-oversize" => (1, vec![claim(1_000_000)]),
            "tag-size-negative" => (1, vec![claim(u32::MAX)]),
            "tag-unknown-twice" => (2, vec![a.repeat(2)]),
            "tags-descending" => (2, vec![[b, a].concat()]),
            "tag-not-in-version" => {
                let lacks =
                    schema.fields.iter().filter(|field| !field.tagged_versions.contains(self.version));
                (1, lacks.filter_map(|field| Some(tag(field.tag?, &[0]))).collect())
            }
            "tag-twice" => (1, vec![]),
            _ => return true,
        };
        let count_before = varint(read_varint(old));
        let count_now = varint(read_varint(old) + count);
        let (Some(old), Some(new)) = (old.strip_prefix(&count_before[..]), new.strip_prefix(&count_now[..]))
        else {
            return false;
        };
        let is_added = |end: usize, more: &[u8]| {
            let (section, behind) = old.split_at(end);
            new.strip_prefix(section).and_then(|rest| rest.strip_prefix(more)) == Some(behind)
        };
        (0..=old.len()).any(|end| {
            let is_twice = self.mutation == "tag-twice" && end > 0 && is_added(end, &old[..end]);
            is_twice || added.iter().any(|more| is_added(end, more))
        })
    }
}

fn varint(value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, 0, true).varint(value);
    bytes
}

/// A varint of at least so many bytes.
fn padded(value: u32, width: usize) -> Vec<u8> {
    let mut bytes = varint(value);
    while bytes.len() < width {
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        bytes.push(0);
    }
    bytes
}

/// The varint at the start of valid bytes; if there is none, something that does not fit.
fn read_varint(bytes: &[u8]) -> u32 {
    Reader::new(bytes, 0, true).varint().unwrap_or_default()
}
