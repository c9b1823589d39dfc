//! Rules about schemas as a set.

use std::collections::{BTreeMap, HashMap};

use super::{is_removed, kind_word};
use crate::Coverage;
use crate::model::Kind;
use crate::names;
use crate::report::{Diagnostic, Report, Rule, Severity, quoted};
use crate::schema::{Key, Schema};
use crate::source::folder;

/// Checks what no schema can get wrong alone. The report has nothing yet but what reading the schemas brought up.
pub(super) fn check(schemas: &[Schema], coverage: Coverage, report: &mut Report) {
    // The other half of an API may be in a file that could not be read.
    let all_read =
        report.iter().all(|diagnostic| schemas.iter().any(|schema| schema.source == diagnostic.source));
    let missing_half = match coverage {
        _ if !all_read => None,
        Coverage::Whole => Some(Severity::Error),
        Coverage::Unknown => Some(Severity::Warning),
        Coverage::Part => None,
    };
    message_names(schemas, report);
    folder_names(schemas, report);
    apis(schemas, missing_half, report);
    metadata_records(schemas, report);
    coordinator_records(schemas, missing_half, report);
    header_versions(schemas, report);
}

/// Messages share one name space, since all of them are re-exported side by side.
fn message_names(schemas: &[Schema], report: &mut Report) {
    let mut modules: HashMap<String, &Schema> = HashMap::new();
    let mut types: HashMap<String, &Schema> = HashMap::new();
    for schema in schemas {
        let Key::Given(name) = &schema.name else { continue };
        let module = names::snake_case(&name.value);
        let ty = names::type_name(&name.value);
        if KEYWORDS.contains(&module.as_str()) {
            report.push(
                Diagnostic::error(
                    Rule::N2,
                    &schema.source,
                    name.span,
                    format!(
                        "the name {} gives the module `{module}`, which is a keyword of Rust",
                        quoted(&name.value)
                    ),
                )
                .path(schema.title())
                .help("give the message a longer name"),
            );
        }
        let twin =
            types.get(&ty).map(|twin| (twin, &ty)).or(modules.get(&module).map(|twin| (twin, &module)));
        if let Some((twin, rust_name)) = twin {
            let title = if twin.title() == name.value {
                format!("there are two messages {}", quoted(&name.value))
            } else {
                format!("{} and {} have the same name in Rust", quoted(twin.title()), quoted(&name.value))
            };
            report.push(
                Diagnostic::error(Rule::N1, &schema.source, name.span, title)
                    .label(format!("{} in Rust", quoted(rust_name)))
                    .related(&twin.source, twin.anchor, format!("{} in Rust, too", quoted(rust_name)))
                    .path(schema.title())
                    .help("give one of them another name, one that differs in more than the case of letters"),
            );
        }
        modules.entry(module).or_insert(schema);
        types.entry(ty).or_insert(schema);
    }
}

/// A folder becomes a module, beside those of the messages.
fn folder_names(schemas: &[Schema], report: &mut Report) {
    // The first message of a folder stands for it.
    let mut folders: BTreeMap<&str, &Schema> = BTreeMap::new();
    let mut modules: HashMap<String, &Schema> = HashMap::new();
    for schema in schemas {
        if let Some(folder) = folder(&schema.source) {
            folders.entry(folder).or_insert(schema);
        }
        if let Some(name) = schema.name.get() {
            modules.entry(names::snake_case(name)).or_insert(schema);
        }
    }
    for (folder, schema) in folders {
        let mut letters = folder.chars();
        let well_formed = letters.next().is_some_and(|first| first.is_ascii_lowercase())
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        let diagnostic = |title| {
            Diagnostic::error(Rule::N2, &schema.source, schema.anchor, title)
                .label("a message in this folder")
                .path(schema.title())
        };
        if !well_formed {
            report.push(
                diagnostic(format!("the folder {} cannot be a module in Rust", quoted(folder)))
                    .help("rename it to a lower-case letter followed by lower-case letters, digits and `_`"),
            );
        } else if KEYWORDS.contains(&folder) {
            report.push(
                diagnostic(format!("the folder {} has the name of a keyword of Rust", quoted(folder)))
                    .help("rename the folder"),
            );
        } else if let Some(message) = modules.get(folder) {
            let title =
                format!("the folder {} has the name of the module of {}", quoted(folder), message.title());
            report.push(
                diagnostic(title)
                    .related(&message.source, message.anchor, format!("{} in Rust", quoted(folder)))
                    .help("rename the folder or the message"),
            );
        }
    }
}

/// Requests and responses come in pairs, each with a key of its own.
fn apis(schemas: &[Schema], missing_half: Option<Severity>, report: &mut Report) {
    let mut by_key: HashMap<(bool, i16), &Schema> = HashMap::new();
    for schema in schemas {
        let Some(&kind @ (Kind::Request | Kind::Response)) = schema.kind.get() else { continue };
        let suffix = if kind == Kind::Request { "Request" } else { "Response" };
        if let Key::Given(name) = &schema.name
            && !name.value.ends_with(suffix)
        {
            report.push(
                Diagnostic::error(
                    Rule::M8,
                    &schema.source,
                    name.span,
                    format!(
                        "the name of the {} {} does not end in `{suffix}`",
                        kind_word(kind),
                        quoted(&name.value)
                    ),
                )
                .path(schema.title())
                .help(format!("write {}", quoted(&format!("{}{suffix}", name.value)))),
            );
        }
        let Key::Given(key) = &schema.api_key else { continue };
        if let Some(first) = by_key.get(&(kind == Kind::Request, key.value)) {
            report.push(
                Diagnostic::error(
                    Rule::M8,
                    &schema.source,
                    key.span,
                    format!("two {}s have the API key {}", kind_word(kind), key.value),
                )
                .related(&first.source, first.api_key.span().unwrap_or(first.anchor), first.title())
                .path(schema.title())
                .help("an API key belongs to one request and its response; choose one that is free"),
            );
        } else {
            by_key.insert((kind == Kind::Request, key.value), schema);
        }
    }

    let Some(severity) = missing_half else { return };
    for (&(is_request, key), schema) in &by_key {
        if is_removed(schema) {
            continue;
        }
        let other = if is_request { "response" } else { "request" };
        let mut diagnostic = match by_key.get(&(!is_request, key)) {
            Some(partner) if is_removed(partner) => Diagnostic::error(
                Rule::M8,
                &schema.source,
                schema.anchor,
                format!("{} has valid versions, but its {other} has none", schema.title()),
            )
            .related(&partner.source, partner.valid.span().unwrap_or(partner.anchor), format!("the {other}"))
            .help("give both the same valid versions"),
            Some(_) => continue,
            None => {
                let missing = Diagnostic::error(
                    Rule::M8,
                    &schema.source,
                    schema.anchor,
                    format!("there is no {other} with the API key {key} of {}", schema.title()),
                )
                .help(format!("add the schema of the {other}, or correct the key of one of the two"));
                // What has the right name and another key is most likely meant.
                let namesake = other_half(schema.title())
                    .and_then(|name| schemas.iter().find(|it| it.title() == name && !it.api_key.is_absent()));
                match namesake {
                    Some(namesake) => missing.related(
                        &namesake.source,
                        namesake.api_key.span().unwrap_or(namesake.anchor),
                        format!("this {other} has another key"),
                    ),
                    None => missing,
                }
            }
        };
        diagnostic.severity = severity;
        report.push(diagnostic.path(schema.title()));
    }
}

/// The name of the response to a request and the other way round.
fn other_half(name: &str) -> Option<String> {
    match name.strip_suffix("Request") {
        Some(stem) => Some(format!("{stem}Response")),
        None => name.strip_suffix("Response").map(|stem| format!("{stem}Request")),
    }
}

/// Metadata records of one folder share one log, where the key tells them apart.
fn metadata_records(schemas: &[Schema], report: &mut Report) {
    let mut by_key: HashMap<(Option<&str>, i16), &Schema> = HashMap::new();
    for schema in schemas {
        let (Some(Kind::Metadata), Key::Given(key)) = (schema.kind.get(), &schema.api_key) else { continue };
        if let Some(first) = by_key.get(&(folder(&schema.source), key.value)) {
            report.push(
                Diagnostic::error(
                    Rule::M9,
                    &schema.source,
                    key.span,
                    format!("two metadata records have the API key {}", key.value),
                )
                .related(&first.source, first.api_key.span().unwrap_or(first.anchor), first.title())
                .path(schema.title())
                .help("the key tells the records of a log apart; choose one that is free"),
            );
        } else {
            by_key.insert((folder(&schema.source), key.value), schema);
        }
    }
}

/// A coordinator writes records of a key and a value.
///
/// The two belong together by name. Their ids do not tell, because one folder may hold the records of several
/// coordinators, each with a topic and with ids of its own; so equal ids of records with different names are legal.
fn coordinator_records(schemas: &[Schema], missing_half: Option<Severity>, report: &mut Report) {
    let mut records: BTreeMap<(Option<&str>, &str), [Option<&Schema>; 2]> = BTreeMap::new();
    for schema in schemas {
        let (half, suffix) = match schema.kind.get() {
            Some(Kind::CoordinatorKey) => (0, "Key"),
            Some(Kind::CoordinatorValue) => (1, "Value"),
            _ => continue,
        };
        let Key::Given(name) = &schema.name else { continue };
        match name.value.strip_suffix(suffix) {
            Some(stem) => records.entry((folder(&schema.source), stem)).or_default()[half] = Some(schema),
            None => report.push(
                Diagnostic::error(
                    Rule::M12,
                    &schema.source,
                    name.span,
                    format!("the name of the coordinator record {} does not end in `{suffix}`", quoted(&name.value)),
                )
                .path(schema.title())
                .help("the key and the value of a record are called `...Key` and `...Value`, with the same beginning"),
            ),
        }
    }
    for ((_, stem), halves) in records {
        match halves {
            [Some(key), Some(value)] => {
                if let (Key::Given(of_key), Key::Given(of_value)) = (&key.api_key, &value.api_key)
                    && of_key.value != of_value.value
                {
                    report.push(
                        Diagnostic::error(
                            Rule::M12,
                            &value.source,
                            of_value.span,
                            format!("the key and the value of the coordinator record {stem} have different API keys"),
                        )
                        .related(&key.source, of_key.span, key.title())
                        .path(value.title())
                        .help("give both the same API key"),
                    );
                }
            }
            [Some(schema), None] | [None, Some(schema)] => {
                let Some(severity) = missing_half else { continue };
                let other = if halves[0].is_some() { "Value" } else { "Key" };
                let mut diagnostic = Diagnostic::error(
                    Rule::M12,
                    &schema.source,
                    schema.anchor,
                    format!("there is no {} to {}", quoted(&format!("{stem}{other}")), schema.title()),
                )
                .path(schema.title())
                .help("add its schema to the same folder");
                diagnostic.severity = severity;
                report.push(diagnostic);
            }
            [None, None] => {}
        }
    }
}

/// Header versions have to be valid versions of the header, if it is in the set.
fn header_versions(schemas: &[Schema], report: &mut Report) {
    for schema in schemas {
        let header = match schema.kind.get() {
            Some(Kind::Request) => "RequestHeader",
            Some(Kind::Response) => "ResponseHeader",
            _ => continue,
        };
        let header = schemas.iter().find(|other| {
            other.kind.get() == Some(&Kind::Header) && other.name.get().is_some_and(|it| it == header)
        });
        let Some((header, Key::Given(valid))) = header.map(|header| (header, &header.valid)) else {
            continue;
        };
        for member in schema.header_versions.items() {
            if let Key::Given(version) = &member.header
                && version.value >= 0
                && !valid.value.contains(version.value)
            {
                report.push(
                    Diagnostic::error(
                        Rule::M13,
                        &schema.source,
                        version.span,
                        format!("there is no version {} of {}", version.value, header.title()),
                    )
                    .related(&header.source, valid.span, "the valid versions of the header")
                    .path(schema.title())
                    .help(format!("its versions are {}", valid.value)),
                );
            }
        }
    }
}

/// The keywords of Rust, those included that are only reserved.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    "self", "super", "crate",
];
