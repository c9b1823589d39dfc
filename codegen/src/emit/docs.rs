//! Documentation comments.

use std::collections::BTreeSet;
use std::fmt::Write;

use proc_macro2::TokenStream;
use quote::quote;

use super::{messages, types};
use crate::model::{Default, Family, Field, Kind, Message, Struct, Type};
use crate::versions::{Versions, When};

/// The width of a line with its indentation and `/// `.
const WIDTH: usize = 110;

/// The docs of a message: what the schema says, what it is, how it changed from version to version.
pub(super) fn message(family: &Family, message: &Message) -> TokenStream {
    let mut paragraphs: Vec<String> = message.doc.iter().map(|text| escape(text)).collect();
    if paragraphs.is_empty() {
        paragraphs.push(format!("`{}` in Kafka.", message.name));
    }
    paragraphs.push(facts(family, message));
    let mut lines = Vec::new();
    for paragraph in paragraphs {
        lines.extend(wrap(&paragraph, 0));
        lines.push(String::new());
    }
    lines.pop();
    let history = history(message);
    if !history.is_empty() {
        lines.push(String::new());
        for (version, changes) in history {
            let mut item = wrap(&format!("{version}: {changes}"), 2).into_iter();
            lines.extend(item.next().map(|first| format!("- {first}")));
            lines.extend(item.map(|rest| format!("  {rest}")));
        }
    }
    attributes(lines)
}

/// API key, versions and partner in one line.
fn facts(family: &Family, message: &Message) -> String {
    let mut facts = String::new();
    if let Some(key) = message.api_key {
        let what = match message.kind {
            Kind::Metadata | Kind::CoordinatorKey | Kind::CoordinatorValue => "Record type",
            _ => "API key",
        };
        let _ = write!(facts, "{what} {key}, versions {}", message.valid);
    } else {
        let _ = write!(facts, "Versions {}", message.valid);
    }
    if message.latest_version_unstable {
        let _ = write!(facts, ", of which {} is not stable yet", message.valid.high());
    }
    let flexible = message.flexible.intersect(message.valid);
    match message.flexible.when(message.valid) {
        When::Always => facts.push_str(", all flexible"),
        When::Never => facts.push_str(", none flexible"),
        _ if flexible.low() == flexible.high() => {
            let _ = write!(facts, ", flexible in {}", flexible.low());
        }
        _ => {
            let _ = write!(facts, ", flexible from {}", flexible.low());
        }
    }
    facts.push('.');
    if let Some(partner) = &message.partner {
        let path = messages::partner_path(family, partner).to_string().replace(' ', "");
        let verb = if message.kind == Kind::Request { "Answered by" } else { "Answers" };
        let _ = write!(facts, " {verb} [`{}`]({path}).", partner.rust_name);
    }
    facts
}

/// The docs of a struct inside a message: where it occurs.
pub(super) fn nested_struct(message: &Message, strukt: &Struct) -> TokenStream {
    let mut text = uses(message, strukt, |of, field| format!("[`{}::{}`]", of.rust_name, field.rust_name));
    if strukt.name != strukt.rust_name {
        let _ = write!(text, " `{}` in Kafka.", strukt.name);
    }
    attributes(wrap(&text, 0))
}

/// Where a struct occurs; `place` writes one of the places.
pub(super) fn uses(message: &Message, strukt: &Struct, place: impl Fn(&Struct, &Field) -> String) -> String {
    let uses: Vec<_> = strukt.uses.iter().map(|it| (&message.structs[it.of], it.field)).collect();
    let is_element = uses.iter().all(|(of, field)| matches!(of.fields[*field].ty, Type::Array(_)));
    let places: Vec<_> = uses.iter().map(|(of, field)| place(of, &of.fields[*field])).collect();
    format!("{} {}.", if is_element { "Element of" } else { "Value of" }, places.join(", "))
}

/// The docs of a field: what the schema says, then which versions have it and what happens in the others.
pub(super) fn field(strukt: &Struct, field: &Field) -> TokenStream {
    let mut about = escape(&field.about);
    if about.is_empty() {
        about = format!("`{}` in Kafka, which says no more of it.", field.name);
    }
    let mut lines = wrap(&about, 4);
    let notes = notes(strukt, field);
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&notes, 4));
    }
    attributes(lines)
}

/// Facts of a field beyond its type.
fn notes(strukt: &Struct, field: &Field) -> String {
    let mut notes = Vec::new();
    let default = code(&types::default_text(field));
    if field.present != When::Always {
        let versions = field.versions;
        notes.push(if field.ignorable {
            format!("{}; others drop it and decode {default}.", title(versions))
        } else {
            format!("{}; in others it must be {default}, and decodes so.", title(versions))
        });
    } else if !types::has_rust_default(field) {
        notes.push(format!("Default {default}."));
    }
    if let Some(tag) = field.tag {
        notes.push(if field.tagged_versions == field.versions || field.tagged == When::Always {
            format!("Tag {tag}.")
        } else {
            format!("Tag {tag} in {}.", title(field.tagged_versions).to_lowercase())
        });
    }
    match field.nullable {
        When::Always => {}
        When::Never if field.default == Default::Null => {
            notes.push("Must not be null when encoded, though that is its default.".to_owned());
        }
        When::Never => {}
        _ => {
            let nullable = field.nullable_versions.intersect(strukt.context);
            let versions =
                if field.nullable_versions.is_open_ended() { field.nullable_versions } else { nullable };
            notes.push(format!("Null is allowed in {}.", title(versions).to_lowercase()));
        }
    }
    notes.join(" ")
}

/// `Versions 2+`, `Version 3`.
fn title(versions: Versions) -> String {
    if versions.low() == versions.high() {
        format!("Version {versions}")
    } else {
        format!("Versions {versions}")
    }
}

/// Text as code, whatever backticks it has.
fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// What each version but the first changes.
fn history(message: &Message) -> Vec<(i16, String)> {
    let mut changes = Vec::new();
    for version in boundaries(message) {
        let mut history = History::new(message, version);
        if message.flexible.contains(version) != message.flexible.contains(version - 1) {
            history.other.push("flexible encoding".to_owned());
        }
        history.visit(0, "");
        let groups = [("adds", &history.added), ("removes", &history.removed)];
        let mut parts: Vec<String> = groups
            .into_iter()
            .filter(|(_, paths)| !paths.is_empty())
            .map(|(verb, paths)| format!("{verb} {}", paths.join(", ")))
            .collect();
        parts.extend(history.other);
        if !parts.is_empty() {
            changes.push((version, parts.join("; ")));
        }
    }
    changes
}

/// Versions in which something may differ from the version before.
fn boundaries(message: &Message) -> BTreeSet<i16> {
    let fields = message.structs.iter().flat_map(|strukt| &strukt.fields);
    let ranges = fields.flat_map(|field| [field.versions, field.nullable_versions, field.tagged_versions]);
    ranges
        .chain([message.flexible])
        .flat_map(|range: Versions| [range.low(), range.high().saturating_add(1)])
        .filter(|version| message.valid.contains(*version) && *version > message.valid.low())
        .collect()
}

/// Collects the differences between a version and the one before it.
struct History<'a> {
    message: &'a Message,
    version: i16,
    added: Vec<String>,
    removed: Vec<String>,
    other: Vec<String>,
}

impl<'a> History<'a> {
    fn new(message: &'a Message, version: i16) -> Self {
        Self { message, version, added: Vec::new(), removed: Vec::new(), other: Vec::new() }
    }

    fn visit(&mut self, index: usize, path: &str) {
        let message = self.message;
        for field in &message.structs[index].fields {
            let changed =
                |versions: Versions| (versions.contains(self.version - 1), versions.contains(self.version));
            let name = format!("{path}{}", field.rust_name);
            let text = format!("`{name}`");
            match changed(field.versions) {
                (false, true) => self.added.push(text),
                (true, false) => self.removed.push(text),
                (false, false) => {}
                (true, true) => {
                    match changed(field.nullable_versions) {
                        (false, true) => self.other.push(format!("{text} may be null")),
                        (true, false) => self.other.push(format!("{text} is never null")),
                        _ => {}
                    }
                    if let (false, true) = changed(field.tagged_versions) {
                        self.other.push(format!("{text} becomes a tagged field"));
                    }
                    let element = match &field.ty {
                        Type::Array(element) => element,
                        ty => ty,
                    };
                    if let Type::Struct(inner) = element {
                        self.visit(*inner, &format!("{name}."));
                    }
                }
            }
        }
    }
}

/// One `#[doc]` per line, which is what becomes `///`.
fn attributes(lines: Vec<String>) -> TokenStream {
    let lines = lines.into_iter().map(|line| if line.is_empty() { line } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// Text from outside as Markdown that shows the same; what it has between two backticks stays code.
fn escape(text: &str) -> String {
    let pieces: Vec<_> = text.split('`').collect();
    if pieces.len() % 2 == 0 {
        return escape_words(&text.replace('`', "'"));
    }
    let pieces = pieces.iter().enumerate().map(|(i, piece)| match i % 2 {
        0 => escape_words(piece),
        _ => format!("`{piece}`"),
    });
    pieces.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn escape_words(text: &str) -> String {
    text.split(' ')
        .map(|word| word.split_whitespace().map(escape_word).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

fn escape_word(word: &str) -> String {
    let end = word.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']).len();
    let (core, tail) = word.split_at(end);
    let start = core.len() - core.trim_start_matches('(').len();
    let (head, core) = core.split_at(start);
    let is_constant = core.contains('_')
        && core.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
    let core = if is_constant {
        format!("`{core}`")
    } else if core.starts_with("http://") || core.starts_with("https://") {
        let (address, rest) = core.split_at(core.find(['<', '>', '[', ']']).unwrap_or(core.len()));
        format!("<{address}>{}", escape_signs(rest))
    } else {
        escape_signs(core)
    };
    format!("{head}{core}{tail}")
}

fn escape_signs(text: &str) -> String {
    let special = |it: char| matches!(it, '[' | ']' | '<' | '>' | '*' | '_' | '\\' | '#' | '|' | '~' | '&');
    text.chars().flat_map(|it| special(it).then_some('\\').into_iter().chain([it])).collect()
}

/// Words in lines of at most [`WIDTH`] columns, behind `indent` and `/// `.
fn wrap(text: &str, indent: usize) -> Vec<String> {
    let width = WIDTH - indent - "/// ".len();
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    for line in &mut lines {
        if let Some(at) = list_sign(line) {
            line.insert(at, '\\');
        }
    }
    lines
}

/// Where the sign is that makes Markdown take the start of a line for an item of a list.
fn list_sign(line: &str) -> Option<usize> {
    let first = line.split(' ').next().unwrap_or_default();
    if matches!(first, "-" | "+") {
        return Some(0);
    }
    let digits = first.strip_suffix(['.', ')'])?;
    let is_number = (1..10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(digits.len())
}
