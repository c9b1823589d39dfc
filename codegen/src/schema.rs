//! What the JSON of a schema says, with the place of every value.
//!
//! Nothing is judged here but the form: that the text is JSON with comments, that keys are known and that their
//! values have the right type. What the values mean together is for [`check`](crate::check).

use std::collections::HashMap;
use std::str::FromStr;

use jsonc_parser::ast::{Comment, Object, ObjectProp, ObjectPropName, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, CommentMap, ParseOptions, parse_to_ast};

use crate::model::{Kind, Listener};
use crate::report::{Diagnostic, Report, Rule, Span, quoted};
use crate::source::Source;
use crate::versions::Versions;

/// Reads a schema. `None` if the text is not a JSON object; all other problems leave a [`Key::Refused`].
pub fn parse(source: &Source, report: &mut Report) -> Option<Schema> {
    let parsed = parse_to_ast(
        &source.text,
        &CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: false },
        // Comments are the only liberty that Kafka takes with JSON.
        &ParseOptions {
            allow_comments: true,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        },
    );
    let refuse = |report: &mut Report, span, title: String, help| {
        report.push(Diagnostic::error(Rule::J1, &source.path, span, title).help(help));
        None
    };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let title = match error.kind() {
                ParseErrorKind::MultipleRootJsonValues => "there is something after the schema".to_owned(),
                kind => format!("this is not JSON: {}", lower_first(&kind.to_string())),
            };
            let help = "a schema is one JSON object; `//` and `/* */` comments may stand between its parts, \
                        and nothing but comments may follow it";
            return refuse(report, span(error.range()), title, help);
        }
    };
    let root = match &parsed.value {
        Some(Value::Object(root)) => root,
        Some(other) => {
            let title = format!("a schema is an object, not {}", what(other));
            return refuse(
                report,
                span(other.range()),
                title,
                "put the keys of the schema between `{` and `}`",
            );
        }
        None => {
            let title = "there is no schema in this file".to_owned();
            return refuse(report, Span::default(), title, "a schema is one JSON object");
        }
    };
    if let Some(at) = raw_control_character(&source.text, root) {
        let title =
            "this is not JSON: a string has a line break or another control character in it".to_owned();
        return refuse(report, at, title, "close the string before the end of its line, or write `\\n`");
    }

    let mut reader = Reader { source, report, path: Vec::new() };
    let comments = parsed.comments.unwrap_or_default();
    Some(reader.schema(root, &comments))
}

/// What a schema file says.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The path of the source.
    pub source: String,
    /// Where to point for want of a better place: the name, or the opening brace.
    pub anchor: Span,
    /// `name`
    pub name: Key<String>,
    /// `type`
    pub kind: Key<Kind>,
    /// `apiKey`
    pub api_key: Key<i16>,
    /// `validVersions`
    pub valid: Key<Versions>,
    /// `deprecatedVersions`
    pub deprecated: Key<Versions>,
    /// `flexibleVersions`; blank text means none.
    pub flexible: Key<Versions>,
    /// `listeners`
    pub listeners: Key<Vec<Listener>>,
    /// `latestVersionUnstable`
    pub latest_version_unstable: Key<bool>,
    /// `headerVersions`, in the order of the file.
    pub header_versions: Key<Vec<HeaderVersion>>,
    /// `fields`
    pub fields: Key<Vec<Field>>,
    /// `commonStructs`
    pub common_structs: Key<Vec<CommonStruct>>,
    /// The comment right above `validVersions`, one string per paragraph.
    pub doc: Vec<String>,
}

impl Schema {
    /// The name, or that of the file for want of it.
    pub fn title(&self) -> &str {
        match self.name.get() {
            Some(name) => name,
            None => file_stem(&self.source),
        }
    }
}

/// A member of `headerVersions`.
#[derive(Clone, Debug)]
pub struct HeaderVersion {
    /// Versions of the body. Absent if blank.
    pub versions: Key<Versions>,
    /// Where the versions stand.
    pub versions_span: Span,
    /// The version of the header.
    pub header: Key<i16>,
}

/// A member of `commonStructs`.
#[derive(Clone, Debug)]
pub struct CommonStruct {
    /// Where to point for want of a better place: the name, or the opening brace.
    pub anchor: Span,
    /// `name`
    pub name: Key<String>,
    /// `versions`
    pub versions: Key<Versions>,
    /// `fields`
    pub fields: Key<Vec<Field>>,
}

/// A member of `fields`.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where to point for want of a better place: the name, or the opening brace.
    pub anchor: Span,
    /// `name`
    pub name: Key<String>,
    /// `type`
    pub ty: Key<String>,
    /// `versions`; blank text counts as absent, as with all versions of a field.
    pub versions: Key<Versions>,
    /// `fields`
    pub fields: Key<Vec<Self>>,
    /// `mapKey`
    pub map_key: Key<bool>,
    /// `nullableVersions`
    pub nullable: Key<Versions>,
    /// `default`; empty text counts as absent.
    pub default: Key<String>,
    /// `ignorable`
    pub ignorable: Key<bool>,
    /// `entityType`
    pub entity_type: Key<EntityType>,
    /// `about`
    pub about: Key<String>,
    /// `tag`
    pub tag: Key<i32>,
    /// `taggedVersions`
    pub tagged: Key<Versions>,
    /// `flexibleVersions`
    pub flexible: Key<Versions>,
    /// `zeroCopy`
    pub zero_copy: Key<bool>,
}

/// What a field identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityType {
    /// `unknown`
    Unknown,
    /// `transactionalId`
    TransactionalId,
    /// `producerId`
    ProducerId,
    /// `groupId`
    GroupId,
    /// `topicName`
    TopicName,
    /// `brokerId`
    BrokerId,
}

impl EntityType {
    /// The word in the schema.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::TransactionalId => "transactionalId",
            Self::ProducerId => "producerId",
            Self::GroupId => "groupId",
            Self::TopicName => "topicName",
            Self::BrokerId => "brokerId",
        }
    }
}

/// What stands under a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Key<T> {
    /// Nothing, or null.
    #[default]
    Absent,
    /// Something of the wrong form. The report has it already, so rules about the value are left alone.
    Refused(Span),
    /// A value.
    Given(Spanned<T>),
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands, quotes included.
    pub span: Span,
}

impl<T> Key<T> {
    /// The value, if there is a good one.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Given(given) => Some(&given.value),
            Self::Absent | Self::Refused(_) => None,
        }
    }

    /// Where the value stands, good or not.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Absent => None,
            Self::Refused(span) => Some(*span),
            Self::Given(given) => Some(given.span),
        }
    }

    /// Whether the key is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T> Key<Vec<T>> {
    /// The elements; none if there is no good list.
    pub fn items(&self) -> &[T] {
        self.get().map_or(&[], Vec::as_slice)
    }
}

/// The keys of an object; of equal ones the last.
type Members<'a> = HashMap<&'a str, &'a ObjectProp<'a>>;

struct Reader<'a> {
    source: &'a Source,
    report: &'a mut Report,
    /// The names of the message and of the fields on the way to what is being read.
    path: Vec<String>,
}

impl Reader<'_> {
    fn schema(&mut self, root: &Object<'_>, comments: &CommentMap<'_>) -> Schema {
        const KEYS: &[&str] = &[
            "apiKey",
            "type",
            "listeners",
            "name",
            "validVersions",
            "deprecatedVersions",
            "flexibleVersions",
            "latestVersionUnstable",
            "headerVersions",
            "fields",
            "commonStructs",
        ];
        let name = name_of(root).unwrap_or_else(|| file_stem(&self.source.path).to_owned());
        self.within(name, |it| {
            let members = it.members(root, KEYS);
            Schema {
                source: it.source.path.clone(),
                anchor: anchor(root),
                name: it.text(&members, "name"),
                kind: it.word(&members, "type", KINDS),
                api_key: it.integer(&members, "apiKey"),
                valid: it.versions(&members, "validVersions", None),
                deprecated: it.versions(&members, "deprecatedVersions", None),
                flexible: it.versions(&members, "flexibleVersions", Some(Versions::NONE)),
                listeners: it.listeners(&members),
                latest_version_unstable: it.boolean(&members, "latestVersionUnstable"),
                header_versions: it.header_versions(&members),
                fields: it.list(&members, "fields", Self::field),
                common_structs: it.list(&members, "commonStructs", Self::common_struct),
                doc: members.get("validVersions").map_or_else(Vec::new, |member| it.doc(member, comments)),
            }
        })
    }

    fn field(&mut self, object: &Object<'_>) -> Field {
        const KEYS: &[&str] = &[
            "name",
            "type",
            "versions",
            "nullableVersions",
            "taggedVersions",
            "tag",
            "flexibleVersions",
            "default",
            "ignorable",
            "mapKey",
            "entityType",
            "zeroCopy",
            "about",
            "fields",
        ];
        self.within(name_of(object).unwrap_or_else(|| "?".to_owned()), |it| {
            let members = it.members(object, KEYS);
            Field {
                anchor: anchor(object),
                name: it.text(&members, "name"),
                ty: it.text(&members, "type"),
                versions: it.versions(&members, "versions", None),
                fields: it.list(&members, "fields", Self::field),
                map_key: it.boolean(&members, "mapKey"),
                nullable: it.versions(&members, "nullableVersions", None),
                default: absent_if_empty(it.text(&members, "default")),
                ignorable: it.boolean(&members, "ignorable"),
                entity_type: it.word(&members, "entityType", ENTITY_TYPES),
                about: it.text(&members, "about"),
                tag: it.integer(&members, "tag"),
                tagged: it.versions(&members, "taggedVersions", None),
                flexible: it.versions(&members, "flexibleVersions", None),
                zero_copy: it.boolean(&members, "zeroCopy"),
            }
        })
    }

    fn common_struct(&mut self, object: &Object<'_>) -> CommonStruct {
        const KEYS: &[&str] = &["name", "versions", "deprecatedVersions", "fields"];
        self.within(name_of(object).unwrap_or_else(|| "?".to_owned()), |it| {
            let members = it.members(object, KEYS);
            // Accepted and not used, but it has to be a range all the same.
            let _: Key<Versions> = it.versions(&members, "deprecatedVersions", None);
            CommonStruct {
                anchor: anchor(object),
                name: it.text(&members, "name"),
                versions: it.versions(&members, "versions", None),
                fields: it.list(&members, "fields", Self::field),
            }
        })
    }

    fn header_versions(&mut self, members: &Members<'_>) -> Key<Vec<HeaderVersion>> {
        let Some(value) = present(members, "headerVersions") else { return Key::Absent };
        let at = span(value.range());
        let Value::Object(object) = value else {
            return self.wrong_type(
                value,
                "headerVersions",
                "an object from versions of the body to a version of the header, such as `{ \"0+\": \"1\" }`",
            );
        };
        let mut last: Vec<(&str, &ObjectProp<'_>)> = Vec::new();
        for member in &object.properties {
            let range = member.name.as_str();
            last.retain(|&(other, _)| other != range);
            last.push((range, member));
        }
        let read = last.into_iter().map(|(range, member)| {
            let versions_span = span(name_range(&member.name));
            HeaderVersion {
                versions: self.range(range, versions_span, "headerVersions", None),
                versions_span,
                header: self.header_version(&member.value),
            }
        });
        let value = read.collect();
        Key::Given(Spanned { value, span: at })
    }

    fn header_version(&mut self, value: &Value<'_>) -> Key<i16> {
        let span = span(value.range());
        match scalar(value).map(|text| (text, text.parse())) {
            Some((_, Ok(value))) => Key::Given(Spanned { value, span }),
            Some((text, Err(_))) => self.refuse(
                Rule::M13,
                span,
                format!("{} is not a version of a header", quoted(text)),
                String::new(),
                "write a whole number such as `\"1\"`".to_owned(),
            ),
            None if matches!(value, Value::NullKeyword(_)) => Key::Absent,
            None => {
                self.wrong_type(value, "headerVersions", "versions of a header, such as `{ \"0+\": \"1\" }`")
            }
        }
    }

    fn listeners(&mut self, members: &Members<'_>) -> Key<Vec<Listener>> {
        let Some(value) = present(members, "listeners") else { return Key::Absent };
        let elements = elements(value);
        let listeners: Vec<_> =
            elements.iter().map(|element| self.word_of(element, "listeners", LISTENERS)).collect();
        let value = listeners.iter().filter_map(Key::get).copied().collect::<Vec<_>>();
        let span = span(members["listeners"].value.range());
        if value.len() < listeners.len() { Key::Refused(span) } else { Key::Given(Spanned { value, span }) }
    }

    /// The objects of an array, or the one that stands in its place.
    fn list<T>(
        &mut self,
        members: &Members<'_>,
        key: &str,
        mut read: impl FnMut(&mut Self, &Object<'_>) -> T,
    ) -> Key<Vec<T>> {
        let Some(value) = present(members, key) else { return Key::Absent };
        if self.path.len() > DEEPEST {
            return self.refuse(
                Rule::S9,
                first_of(value.range()),
                format!("structs nest more than {DEEPEST} deep"),
                String::new(),
                "a struct in a struct in a struct has to come to an end; declare it flatter".to_owned(),
            );
        }
        let mut items = Vec::new();
        for element in elements(value) {
            match element {
                Value::Object(object) => items.push(read(self, object)),
                other => {
                    let _: Key<T> = self.wrong_type(other, key, "an array of objects");
                }
            }
        }
        Key::Given(Spanned { value: items, span: span(value.range()) })
    }

    fn versions(&mut self, members: &Members<'_>, key: &str, blank: Option<Versions>) -> Key<Versions> {
        match self.text(members, key) {
            Key::Given(text) => self.range(&text.value, text.span, key, blank),
            Key::Refused(span) => Key::Refused(span),
            Key::Absent => Key::Absent,
        }
    }

    /// Blank text stands for `blank`.
    fn range(&mut self, text: &str, span: Span, key: &str, blank: Option<Versions>) -> Key<Versions> {
        match Versions::parse(text) {
            Ok(versions) => match versions.or(blank) {
                Some(value) => Key::Given(Spanned { value, span }),
                None => Key::Absent,
            },
            Err(reason) => self.refuse(
                Rule::V1,
                span,
                format!("{} is not a range of versions", quoted(text)),
                format!("in `{key}`"),
                format!(
                    "{reason}; a range is `none`, one version such as `3`, both ends such as `1-2`, or `3+` for 3 and all \
                     later ones, without blanks inside"
                ),
            ),
        }
    }

    /// A string, or a number or boolean as its text.
    fn text(&mut self, members: &Members<'_>, key: &str) -> Key<String> {
        match present(members, key) {
            Some(value) => self.text_of(value, key),
            None => Key::Absent,
        }
    }

    fn text_of(&mut self, value: &Value<'_>, key: &str) -> Key<String> {
        match scalar(value) {
            Some(text) => Key::Given(Spanned { value: text.to_owned(), span: span(value.range()) }),
            None => self.wrong_type(value, key, "a string"),
        }
    }

    fn boolean(&mut self, members: &Members<'_>, key: &str) -> Key<bool> {
        let Some(value) = present(members, key) else { return Key::Absent };
        let span = span(value.range());
        match scalar(value) {
            Some("true") => Key::Given(Spanned { value: true, span }),
            Some("false") => Key::Given(Spanned { value: false, span }),
            _ => self.wrong_type(value, key, "`true` or `false`"),
        }
    }

    fn integer<T: FromStr>(&mut self, members: &Members<'_>, key: &str) -> Key<T> {
        match present(members, key) {
            Some(value) => self.integer_of(value, key),
            None => Key::Absent,
        }
    }

    fn integer_of<T: FromStr>(&mut self, value: &Value<'_>, key: &str) -> Key<T> {
        let bits = 8 * size_of::<T>();
        let number = match value {
            Value::StringLit(_) | Value::NumberLit(_) => scalar(value).and_then(|text| text.parse().ok()),
            _ => None,
        };
        match number {
            Some(number) => Key::Given(Spanned { value: number, span: span(value.range()) }),
            None => self.wrong_type(value, key, &format!("a whole number of {bits} bits")),
        }
    }

    fn word<T: Copy>(&mut self, members: &Members<'_>, key: &str, words: &[(&str, T)]) -> Key<T> {
        match present(members, key) {
            Some(value) => self.word_of(value, key, words),
            None => Key::Absent,
        }
    }

    fn word_of<T: Copy>(&mut self, value: &Value<'_>, key: &str, words: &[(&str, T)]) -> Key<T> {
        let text = match self.text_of(value, key) {
            Key::Given(text) => text,
            Key::Refused(span) => return Key::Refused(span),
            Key::Absent => return Key::Absent,
        };
        match words.iter().find(|(word, _)| *word == text.value) {
            Some(&(_, value)) => Key::Given(Spanned { value, span: text.span }),
            None => {
                let words: Vec<_> = words.iter().map(|&(word, _)| word).collect();
                self.refuse(
                    Rule::J4,
                    text.span,
                    format!("{} is not known as `{key}`", quoted(&text.value)),
                    String::new(),
                    format!("{}`{key}` is one of {}", did_you_mean(&text.value, &words), listed(&words)),
                )
            }
        }
    }

    /// The members of an object, after complaints about unknown ones.
    fn members<'a>(&mut self, object: &'a Object<'a>, known: &[&str]) -> Members<'a> {
        let mut members = HashMap::new();
        for member in &object.properties {
            let key = member.name.as_str();
            if known.contains(&key) {
                members.insert(key, member);
            } else {
                let _: Key<()> = self.refuse(
                    Rule::J3,
                    span(name_range(&member.name)),
                    format!("the key {} is not known here", quoted(key)),
                    String::new(),
                    format!("{}known here are {}", did_you_mean(key, known), listed(known)),
                );
            }
        }
        members
    }

    /// The comment that ends on the line above a member, or right before it.
    fn doc(&self, member: &ObjectProp<'_>, comments: &CommentMap<'_>) -> Vec<String> {
        let Some(comments) = comments.get(&member.range.start) else { return Vec::new() };
        let text = self.source.text.as_str();
        let mut lines: Vec<&str> = Vec::new();
        let mut below = member.range.start;
        for comment in comments.iter().rev() {
            let range = comment.range();
            let adjacent = text.get(range.end..below).is_some_and(|gap| gap.matches('\n').count() <= 1);
            // A comment behind a value belongs to that value.
            let alone = text.get(..range.start).is_some_and(|before| {
                before.rsplit('\n').next().is_none_or(|line_before| line_before.trim().is_empty())
            });
            if !adjacent || !alone {
                break;
            }
            match comment {
                Comment::Line(comment) => lines.push(comment.text.trim()),
                Comment::Block(comment) => lines.extend(comment.text.lines().rev().map(star_trimmed)),
            }
            below = range.start;
        }
        lines.reverse();
        let paragraphs = lines.split(|line| line.is_empty()).filter(|paragraph| !paragraph.is_empty());
        paragraphs.map(|paragraph| paragraph.join(" ")).collect()
    }

    fn within<T>(&mut self, name: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name);
        let read = read(self);
        self.path.pop();
        read
    }

    fn wrong_type<T>(&mut self, value: &Value<'_>, key: &str, wanted: &str) -> Key<T> {
        self.refuse(
            Rule::J2,
            span(value.range()),
            format!("the value of `{key}` is of the wrong type"),
            format!("this is {}", what(value)),
            format!("`{key}` takes {wanted}"),
        )
    }

    fn refuse<T>(&mut self, rule: Rule, span: Span, title: String, label: String, help: String) -> Key<T> {
        let path = self.path.join(".");
        self.report
            .push(Diagnostic::error(rule, &self.source.path, span, title).label(label).path(path).help(help));
        Key::Refused(span)
    }
}

/// How deep structs may nest, so that whoever walks them needs no more than a bit of stack, and that rustc, which gives
/// up at about 24 nested arrays, takes what comes out.
pub(crate) const DEEPEST: usize = 16;

const KINDS: &[(&str, Kind)] = &[
    ("request", Kind::Request),
    ("response", Kind::Response),
    ("header", Kind::Header),
    ("metadata", Kind::Metadata),
    ("data", Kind::Data),
    ("coordinator-key", Kind::CoordinatorKey),
    ("coordinator-value", Kind::CoordinatorValue),
];

const LISTENERS: &[(&str, Listener)] =
    &[("zkBroker", Listener::ZkBroker), ("broker", Listener::Broker), ("controller", Listener::Controller)];

const ENTITY_TYPES: &[(&str, EntityType)] = &[
    ("unknown", EntityType::Unknown),
    ("transactionalId", EntityType::TransactionalId),
    ("producerId", EntityType::ProducerId),
    ("groupId", EntityType::GroupId),
    ("topicName", EntityType::TopicName),
    ("brokerId", EntityType::BrokerId),
];

/// The value of a member, unless it is null.
fn present<'a>(members: &Members<'a>, key: &str) -> Option<&'a Value<'a>> {
    members.get(key).map(|member| &member.value).filter(|value| !matches!(value, Value::NullKeyword(_)))
}

/// The elements of an array, or the single value that stands in its place.
fn elements<'a>(value: &'a Value<'a>) -> &'a [Value<'a>] {
    match value {
        Value::Array(array) => &array.elements,
        single => std::slice::from_ref(single),
    }
}

/// The text of a string, number or boolean.
fn scalar<'a>(value: &'a Value<'a>) -> Option<&'a str> {
    match value {
        Value::StringLit(text) => Some(&text.value),
        Value::NumberLit(number) => Some(number.value),
        Value::BooleanLit(boolean) => Some(if boolean.value { "true" } else { "false" }),
        Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => None,
    }
}

fn what(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "a boolean",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}

/// The text under `name`, before anything has been checked.
fn name_of(object: &Object<'_>) -> Option<String> {
    let member = object.properties.iter().rfind(|member| member.name.as_str() == "name")?;
    scalar(&member.value).map(str::to_owned)
}

fn anchor(object: &Object<'_>) -> Span {
    match object.properties.iter().rfind(|member| member.name.as_str() == "name") {
        Some(name) => span(name.value.range()),
        None => first_of(object.range),
    }
}

/// Where a string has a control character in it, which the parser lets pass.
fn raw_control_character(text: &str, root: &Object<'_>) -> Option<Span> {
    let bad = |range: Range| {
        let literal = text.get(range.start..range.end)?;
        let at = range.start + literal.find(|letter: char| letter < ' ')?;
        Some(Span { start: range.start, end: at })
    };
    // A stack of its own, so that the depth of the text does not matter.
    let mut objects = vec![root];
    let mut values = Vec::new();
    loop {
        if let Some(object) = objects.pop() {
            for member in &object.properties {
                if let Some(span) = bad(name_range(&member.name)) {
                    return Some(span);
                }
                values.push(&member.value);
            }
        } else if let Some(value) = values.pop() {
            match value {
                Value::StringLit(text) => {
                    if let Some(span) = bad(text.range) {
                        return Some(span);
                    }
                }
                Value::Object(object) => objects.push(object),
                Value::Array(array) => values.extend(&array.elements),
                Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => {}
            }
        } else {
            return None;
        }
    }
}

fn absent_if_empty(text: Key<String>) -> Key<String> {
    match text {
        Key::Given(text) if text.value.is_empty() => Key::Absent,
        other => other,
    }
}

/// A line of a block comment without the stars that draw its frame.
fn star_trimmed(line: &str) -> &str {
    line.trim_matches(|letter: char| letter == '*' || letter.is_whitespace())
}

fn name_range(name: &ObjectPropName<'_>) -> Range {
    name.range()
}

fn span(range: Range) -> Span {
    Span { start: range.start, end: range.end }
}

/// The bracket that an object or array starts with, lest all of its lines be drawn.
fn first_of(range: Range) -> Span {
    Span { start: range.start, end: range.start + 1 }
}

fn file_stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".json").unwrap_or(file)
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn listed(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// `did you mean ...? `, if one of the words is close.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|known| (distance(word, known), known)).min();
    match nearest {
        // Half of a word may differ, but not more than three letters.
        Some((distance, known)) if distance <= (known.len() / 2).min(3) => {
            format!("did you mean `{known}`? ")
        }
        _ => String::new(),
    }
}

/// The number of letters to insert, remove or replace, regardless of case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    // Nothing longer can be close, and a hostile key may be very long.
    let a: Vec<char> = a.to_lowercase().chars().take(2 * b.len() + 8).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
