//! Where damaged bytes have to be found wrong, and why.
//!
//! A vector of damaged bytes says what was done to them (`mutation`), to which field (`path`), at which byte (`at`). An
//! error has to name that place. What was done is either seen **at** the place, or **behind** it, that is, behind the
//! length that is there and that we first believe; in tag sections, whose `at` is that of their count, somewhere
//! behind that. The path is that of the field; for the tag section of a struct, the struct's `unknown_tagged_fields`.
//!
//! | mutation | found |
//! |---|---|
//! | `null`, `string-over-32767`, `varint-*`, `marker-*` | at the place |
//! | `negative-length`, `oversize` | at the place if the claim alone shows it (legacy -2, too many elements, too long a string); a length of bytes or text that the input lacks, behind it |
//! | `bad-utf8` | behind the length |
//! | `count-as-bytes-left` | at the place, as an element takes more than a byte; if it may take just one, in an element, or at the very end where all bytes were taken for elements |
//! | `tag-count-negative` | in the section or in one of its fields, as what follows is taken for tags |
//! | `tag-missing` | the same; but behind a struct in the message there may be what does for a tag, and what is wrong is anywhere behind that |
//! | `tag-oversize`, `tag-size-negative`, `tag-unknown-twice`, `tags-descending` | in the section |
//! | `tag-twice`, `tag-not-in-version` | at the field that has the tag, or in the section if none has it any more; a tag out of order is seen before it is asked for its versions |
//! | `tag-size-short`, `tag-size-long` | in the tagged field, whose value does not end where its size says |
//! | `truncate` | where the value begins that has lost its last bytes, or at an array of more elements than the rest can hold |
//!
//! Unlike Kafka we hold the value of a tagged field to its size, which damage inside the value does not adjust. So
//! the damage may show as an end of input instead: of the whole tagged value, before it is looked into, or of what is
//! damaged in it.
//!
//! Of other mutations it is only known that they have to be refused.

use kafka_protocol::protocol::schema::{FieldSchema, FieldType, MessageSchema};
use kafka_protocol::protocol::{DecodeError, DecodeReason};

use super::Check;

/// Damaged bytes.
pub(crate) struct Damage<'a> {
    pub(crate) schema: &'static MessageSchema,
    pub(crate) version: i16,
    pub(crate) bytes: &'a [u8],
    pub(crate) mutation: &'a str,
    /// As in JSON, or in Rust's names.
    pub(crate) path: &'a str,
    pub(crate) at: usize,
}

impl Damage<'_> {
    /// Whether `error` names the place, and what was done to it.
    pub(crate) fn check(&self, error: &DecodeError) -> Check {
        if !is_known(self.mutation) {
            return Ok(());
        }
        let place = self.place()?;
        let is_found = match self.mutation {
            "truncate" => self.is_cut(error),
            mutation => self.is_found(mutation, &place, error) || self.is_end_of_tagged(&place, error),
        };
        if is_found { Ok(()) } else { Err(format!("refused for something else: {error}")) }
    }

    fn is_found(&self, mutation: &str, place: &Place, error: &DecodeError) -> bool {
        use DecodeReason as Is;
        let reason = error.reason();
        let section = self.is_in_section(place).then(|| join(&place.path, "unknown_tagged_fields"));
        let same = error.path() == section.as_ref().unwrap_or(&place.path);
        let here = same && error.offset() == self.at;
        let behind =
            same && error.offset() == self.at + place.width(self.bytes.get(self.at..).unwrap_or_default());
        let later = error.offset() > self.at;
        let in_section = later && same;
        let in_tagged_field = later && place.has_tagged_field(error.path());
        match (mutation, reason) {
            ("null", Is::Null)
            | ("string-over-32767", Is::StringTooLong { length: 32768 })
            | ("varint-too-long", Is::VarintTooLong)
            | ("varint-padded", Is::VarintPadded)
            | ("varint-high-bits", Is::VarintOutOfRange)
            | ("negative-length", Is::NegativeLength { length: -2 } | Is::StringTooLong { .. })
            | ("negative-length" | "oversize" | "count-as-bytes-left", Is::CountExceedsInput { .. }) => here,
            (marker, Is::InvalidMarker { marker: byte }) if marker.starts_with("marker-") => {
                here && self.bytes.get(self.at) == Some(byte)
            }
            ("negative-length", Is::UnexpectedEnd { needed, .. }) => behind && *needed == 0xffff_fffe,
            ("oversize", Is::UnexpectedEnd { needed, .. }) => {
                behind && [0x7fff, 0x7fff_ffff].contains(needed)
            }
            ("bad-utf8", Is::InvalidUtf8 { valid_up_to: 0 }) => behind,
            ("count-as-bytes-left", reason) => {
                let FieldType::Array(element) = place.ty else { return false };
                let in_element = error.path().strip_prefix(place.path.as_str());
                let in_element = in_element.is_some_and(|rest| rest.starts_with('['));
                let all_taken =
                    matches!(reason, Is::UnexpectedEnd { .. }) && error.offset() == self.bytes.len();
                element.min_size() == 1 && later && (in_element || all_taken)
            }
            ("tag-count-negative", _) => in_section || in_tagged_field,
            ("tag-missing", _) => in_section || in_tagged_field || (later && !place.path.is_empty()),
            ("tag-oversize", Is::UnexpectedEnd { needed, .. }) => in_section && *needed == 1_000_000,
            ("tag-size-negative", Is::UnexpectedEnd { needed, .. }) => in_section && *needed == 0xffff_ffff,
            ("tag-unknown-twice", Is::TagOrder { tag, after }) => in_section && tag == after,
            ("tags-descending", Is::TagOrder { tag, after }) => in_section && tag < after,
            ("tag-twice", Is::TagOrder { tag, after }) => in_tagged_field && tag == after,
            ("tag-not-in-version", Is::TagNotInVersion { .. }) => in_section || in_tagged_field,
            ("tag-not-in-version", Is::TagOrder { tag, after }) => {
                (in_section || in_tagged_field) && tag < after
            }
            ("tag-size-short", Is::UnexpectedEnd { .. } | Is::CountExceedsInput { .. })
            | ("tag-size-long", Is::UnexpectedEnd { .. }) => later && is_within(error.path(), &place.path),
            ("tag-size-long", Is::TagSize { size, used }) => later && same && *size == used + 1,
            _ => false,
        }
    }

    /// The input ends inside the value of a tagged field around the damage, or inside what is damaged in it.
    fn is_end_of_tagged(&self, place: &Place, error: &DecodeError) -> bool {
        let is_end = matches!(error.reason(), DecodeReason::UnexpectedEnd { .. });
        let Some(tagged) = &place.tagged else { return false };
        let damaged = join(&place.path, "unknown_tagged_fields");
        is_end && is_within(error.path(), tagged) && is_within(&damaged, error.path())
    }

    /// The last value lost bytes, all that are left being its own.
    fn is_cut(&self, error: &DecodeError) -> bool {
        let left_from = |left: usize| self.bytes.len().checked_sub(left);
        match *error.reason() {
            DecodeReason::UnexpectedEnd { needed, left } => {
                needed > left && left_from(left) == Some(error.offset())
            }
            DecodeReason::CountExceedsInput { count, min_size, left } => {
                count.saturating_mul(min_size) > left && left_from(left) > Some(error.offset())
            }
            _ => false,
        }
    }

    /// Follows the path along the schema.
    pub(super) fn place(&self) -> Result<Place, String> {
        let Self { schema, version, path, .. } = *self;
        let mut place = Place {
            path: String::new(),
            ty: FieldType::Struct(schema.root),
            flexible: schema.flexible_versions.contains(version),
            tagged: None,
        };
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let FieldType::Struct(strukt) = place.ty else { return Err(format!("{path:?} leads nowhere")) };
            let (name, indices) = step.split_at(step.find('[').unwrap_or(step.len()));
            let is_it = |field: &&FieldSchema| field.versions.contains(version) && is_named(field, name);
            let field = strukt.fields.iter().find(is_it).ok_or_else(|| format!("{path:?} is no field"))?;
            place.path = join(&place.path, field.rust_name);
            if field.tagged_versions.contains(version) {
                place.tagged.get_or_insert_with(|| place.path.clone());
            }
            place.path.push_str(indices);
            place.ty = field.ty;
            for _ in indices.matches('[') {
                let FieldType::Array(element) = place.ty else { return Err(format!("{path:?} is no array")) };
                place.ty = *element;
            }
            if let Some(versions) = field.flexible_versions {
                place.flexible = versions.contains(version);
            }
        }
        Ok(place)
    }

    /// Whether the damage is in the tag section of the struct that the path names, not in the struct as a value.
    fn is_in_section(&self, place: &Place) -> bool {
        let of_value = ["marker-", "tag-size-short", "tag-size-long"];
        matches!(place.ty, FieldType::Struct(_)) && !of_value.iter().any(|it| self.mutation.starts_with(it))
    }
}

/// What a path leads to.
pub(super) struct Place {
    /// In Rust's names.
    path: String,
    pub(super) ty: FieldType,
    /// Whether lengths are varints.
    pub(super) flexible: bool,
    /// The path of the outermost tagged field that it is or is in.
    tagged: Option<String>,
}

impl Place {
    /// How many bytes the length takes with which these begin.
    pub(super) fn width(&self, bytes: &[u8]) -> usize {
        match self.ty {
            _ if self.flexible => bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1,
            FieldType::String => 2,
            _ => 4,
        }
    }

    /// Whether `path` is that of a tagged field of the struct, or of something inside of one.
    fn has_tagged_field(&self, path: &str) -> bool {
        let FieldType::Struct(schema) = self.ty else { return false };
        let mut tagged = schema.fields.iter().filter(|field| field.tag.is_some());
        tagged.any(|field| is_within(path, &join(&self.path, field.rust_name)))
    }
}

/// Whether a name is that of a field, in JSON or in Rust.
fn is_named(field: &FieldSchema, name: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    plain(field.name) == plain(name)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a path is that of `outer` or of something inside of it.
fn is_within(path: &str, outer: &str) -> bool {
    let rest = path.strip_prefix(outer);
    rest.is_some_and(|rest| outer.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

fn is_known(mutation: &str) -> bool {
    const KNOWN: &[&str] = &[
        "truncate",
        "null",
        "negative-length",
        "oversize",
        "count-as-bytes-left",
        "string-over-32767",
        "bad-utf8",
        "varint-too-long",
        "varint-padded",
        "varint-high-bits",
        "tag-missing",
        "tag-count-negative",
        "tag-oversize",
        "tag-size-negative",
        "tag-unknown-twice",
        "tags-descending",
        "tag-twice",
        "tag-not-in-version",
        "tag-size-short",
        "tag-size-long",
    ];
    KNOWN.contains(&mutation) || mutation.starts_with("marker-")
}
