//! Rules about fields and structs.

use std::collections::HashMap;

use super::default;
use super::types::{Element, TypeText, is_name, is_struct_name};
use crate::model::{Default, Type};
use crate::names;
use crate::report::{Diagnostic, Report, Rule, Span, quoted};
use crate::schema::{CommonStruct, DEEPEST, EntityType, Field, Key, Schema, Spanned, did_you_mean};
use crate::versions::Versions;

/// Checks the fields of a message, however deep, and its structs.
pub(super) fn check(schema: &Schema, report: &mut Report) {
    let valid = schema.valid.get().copied();
    let mut it = Checker {
        schema,
        report,
        path: vec![schema.title()],
        common: HashMap::new(),
        inline: HashMap::new(),
        around: Vec::new(),
    };
    it.common_structs();
    it.members(schema.fields.items(), valid, Place::Message);
    for common in schema.common_structs.items() {
        let parent = valid.zip(common.versions.get()).map(|(valid, &versions)| valid.intersect(versions));
        let name = common.name.get().map_or("?", String::as_str);
        it.path.push(name);
        it.members(common.fields.items(), parent, Place::Common);
        it.path.pop();
    }
    it.recursion();
    it.rust_names();
}

/// What the struct is whose members are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Message,
    Inline,
    Common,
}

struct Checker<'a> {
    schema: &'a Schema,
    report: &'a mut Report,
    /// Names from the message down to what is being looked at.
    path: Vec<&'a str>,
    common: HashMap<&'a str, &'a CommonStruct>,
    /// The structs that have been seen in fields, with the place of the type.
    inline: HashMap<&'a str, Span>,
    /// The inline structs around what is being looked at.
    around: Vec<&'a str>,
}

impl<'a> Checker<'a> {
    fn common_structs(&mut self) {
        for common in self.schema.common_structs.items() {
            let name = match &common.name {
                Key::Given(name) => name,
                Key::Refused(_) => continue,
                Key::Absent => {
                    self.error(Rule::S4, common.anchor, "a common struct has no `name`", "add `\"name\"`");
                    continue;
                }
            };
            self.path.push(&name.value);
            self.common_struct(common, name);
            self.path.pop();
        }
    }

    fn common_struct(&mut self, common: &'a CommonStruct, name: &'a Spanned<String>) {
        if !is_struct_name(&name.value) || is_plain(&name.value) {
            self.error(
                Rule::S4,
                name.span,
                format!("{} is not the name of a struct", quoted(&name.value)),
                "the name of a struct is an upper-case letter followed by letters and digits",
            );
        }
        if name.value == self.schema.title() {
            self.named_like_message(name.span);
        }
        match self.common.get(name.value.as_str()) {
            Some(first) => {
                let diagnostic = self
                    .diagnostic(
                        Rule::S4,
                        name.span,
                        format!("there are two common structs {}", quoted(&name.value)),
                    )
                    .related(&self.schema.source, first.anchor, "this is the first")
                    .help("give them different names, or leave one out if they are the same");
                self.report.push(diagnostic);
            }
            None => {
                self.common.insert(&name.value, common);
            }
        }
        if common.versions.is_absent() {
            self.error(
                Rule::F2,
                common.anchor,
                format!("the common struct {} has no `versions`", quoted(&name.value)),
                "add `\"versions\"`, such as `\"0+\"`",
            );
        }
    }

    /// The rules about a list of members, and about each. `parent` is the versions in which the list occurs, as far
    /// as they are known.
    fn members(&mut self, fields: &'a [Field], parent: Option<Versions>, place: Place) {
        self.names(fields);
        self.tags(fields);
        for field in fields {
            self.path.push(field.name.get().map_or("?", String::as_str));
            self.field(field, parent, place);
            self.path.pop();
        }
    }

    fn names(&mut self, fields: &'a [Field]) {
        let mut by_name: HashMap<&str, Span> = HashMap::new();
        let mut by_rust_name: HashMap<String, (&str, Span)> = HashMap::new();
        for field in fields {
            let Key::Given(name) = &field.name else { continue };
            let rust_name = names::field_name(&name.value);
            let found = if let Some(&first) = by_name.get(name.value.as_str()) {
                self.diagnostic(Rule::S1, name.span, format!("there are two fields {}", quoted(&name.value)))
                    .related(&self.schema.source, first, "this is the first")
                    .help("give them different names, even if no version has both")
            } else if let Some(&(other, first)) = by_rust_name.get(&rust_name) {
                self.diagnostic(
                    Rule::F23,
                    name.span,
                    format!("{} and {} have the same name in Rust", quoted(other), quoted(&name.value)),
                )
                .label(format!("{} in Rust", quoted(&rust_name)))
                .related(&self.schema.source, first, format!("{} in Rust, too", quoted(&rust_name)))
                .help("give them names that differ in more than the case of letters")
            } else if rust_name == OWN_FIELD {
                self.diagnostic(
                    Rule::F23,
                    name.span,
                    format!(
                        "{} has the same name in Rust as the `{OWN_FIELD}` that every struct has",
                        quoted(&name.value)
                    ),
                )
                .label(format!("{} in Rust", quoted(&rust_name)))
                .help("give it another name")
            } else {
                by_name.insert(&name.value, name.span);
                by_rust_name.insert(rust_name, (&name.value, name.span));
                continue;
            };
            self.report.push(found.path(self.path_to(&name.value)));
        }
    }

    fn tags(&mut self, fields: &'a [Field]) {
        let mut by_tag: HashMap<i32, Span> = HashMap::new();
        let mut tags = Vec::new();
        let mut whole = true;
        for field in fields {
            let tag = match &field.tag {
                Key::Given(tag) => tag,
                Key::Refused(_) => {
                    whole = false;
                    continue;
                }
                Key::Absent => continue,
            };
            if tag.value < 0 {
                // The rules about fields say so.
                whole = false;
            } else if let Some(&first) = by_tag.get(&tag.value) {
                whole = false;
                let diagnostic = self
                    .diagnostic(Rule::S2, tag.span, format!("two fields have the tag {}", tag.value))
                    .related(&self.schema.source, first, "this is the first")
                    .help("give every field a tag of its own, even if no version has both")
                    .path(self.path_to(field.name.get().map_or("?", String::as_str)));
                self.report.push(diagnostic);
            } else {
                by_tag.insert(tag.value, tag.span);
                tags.push((tag.value, tag.span, field));
            }
        }
        if !whole {
            return;
        }
        tags.sort_by_key(|&(tag, _, _)| tag);
        let gap = (0..).zip(&tags).find(|(expected, (tag, _, _))| expected != tag);
        if let Some((expected, &(tag, span, field))) = gap {
            let diagnostic = self
                .diagnostic(Rule::S3, span, format!("there is a tag {tag}, but no tag {expected}"))
                .help("the tags of a struct are 0, 1, 2 and so on, in any order; a tag whose field is gone keeps it")
                .path(self.path_to(field.name.get().map_or("?", String::as_str)));
            self.report.push(diagnostic);
        }
    }

    fn field(&mut self, field: &'a Field, parent: Option<Versions>, place: Place) {
        self.field_name(field);
        let versions = self.field_versions(field);
        let ty = self.field_type(field);
        if let Some(ty) = &ty {
            self.of_type(field, ty);
            self.default(field, ty, versions);
        }
        self.tagged(field, versions);
        self.flexible(field);
        if place == Place::Message
            && let Key::Given(map_key) = &field.map_key
            && map_key.value
        {
            self.error(
                Rule::S7,
                map_key.span,
                "a field of the message itself is a map key",
                "only members of a struct, of which there are many in an array, can be the key of the array",
            );
        }
        let inside = match (parent, versions) {
            (Some(parent), Some(versions)) => Some(parent.intersect(versions)),
            _ => None,
        };
        if let Some(name) = ty.as_ref().and_then(TypeText::struct_name) {
            self.struct_field(field, name, parent, inside, place);
        }
    }

    fn field_name(&mut self, field: &Field) {
        match &field.name {
            Key::Given(name) if !is_name(&name.value) => self.error(
                Rule::F1,
                name.span,
                format!("{} is not the name of a field", quoted(&name.value)),
                "the name of a field is a letter, usually in upper case, followed by letters and digits",
            ),
            Key::Absent => self.error(Rule::F1, field.anchor, "a field has no `name`", "add `\"name\"`"),
            Key::Given(_) | Key::Refused(_) => {}
        }
    }

    /// The versions that have the field, if they are known.
    fn field_versions(&mut self, field: &Field) -> Option<Versions> {
        match (&field.versions, &field.tagged) {
            (Key::Given(versions), _) => Some(versions.value),
            (Key::Refused(_), _) | (Key::Absent, Key::Refused(_)) => None,
            (Key::Absent, Key::Given(tagged)) if !tagged.value.is_empty() => Some(tagged.value),
            (Key::Absent, Key::Given(_) | Key::Absent) => {
                self.error(
                    Rule::F2,
                    field.anchor,
                    "the field has no `versions`",
                    "add the versions of the message that have the field, such as `\"versions\": \"0+\"`",
                );
                None
            }
        }
    }

    fn field_type(&mut self, field: &'a Field) -> Option<TypeText<'a>> {
        match &field.ty {
            Key::Given(text) => match TypeText::parse(&text.value) {
                Ok(ty) => Some(ty),
                Err((title, help)) => {
                    self.error(Rule::F3, text.span, title, help);
                    None
                }
            },
            Key::Refused(_) => None,
            Key::Absent => {
                self.error(
                    Rule::F3,
                    field.anchor,
                    "the field has no `type`",
                    "add `\"type\"`, such as `\"int32\"`",
                );
                None
            }
        }
    }

    /// What only fields of some types can have.
    fn of_type(&mut self, field: &Field, ty: &TypeText<'_>) {
        let shown = field.ty.get().map_or_else(String::new, |text| quoted(text.trim()));
        let plain = ty.plain();
        if let Key::Given(nullable) = &field.nullable
            && !nullable.value.is_empty()
            && !plain.is_none_or(|plain| matches!(plain, Type::String | Type::Bytes | Type::Records))
        {
            self.error(
                Rule::F4,
                nullable.span,
                format!("the type {shown} cannot be null"),
                "leave `nullableVersions` out; only string, bytes, records, arrays and structs can be null",
            );
        }
        if let Key::Given(entity) = &field.entity_type
            && let Some((wanted, word)) = base_type(entity.value)
            && ty.element != Element::Plain(wanted)
        {
            self.error(
                Rule::F5,
                entity.span,
                format!("the type {shown} cannot be of entity type `{}`", entity.value.word()),
                format!("`{}` needs the type `{word}` or `[]{word}`", entity.value.word()),
            );
        }
        if plain.is_some()
            && let Key::Given(fields) = &field.fields
            && !fields.value.is_empty()
        {
            let diagnostic = self
                .diagnostic(
                    Rule::F6,
                    field.ty.span().unwrap_or(field.anchor),
                    format!("the type {shown} has fields"),
                )
                .label("not a struct")
                .related(&self.schema.source, start_of(fields.span), "these are its fields")
                .help("leave `fields` out, or make it a struct or an array of structs, such as `[]Topic`");
            self.report.push(diagnostic);
        }
        if let Key::Given(flexible) = &field.flexible
            && !matches!(plain, Some(Type::String | Type::Bytes))
        {
            self.error(
                Rule::F8,
                flexible.span,
                format!("a field of type {shown} has flexible versions of its own"),
                "leave `flexibleVersions` to the message; only string and bytes can differ from it",
            );
        }
        if let Key::Given(zero_copy) = &field.zero_copy
            && zero_copy.value
        {
            if plain != Some(&Type::Bytes) {
                self.error(
                    Rule::F16,
                    zero_copy.span,
                    format!("a field of type {shown} is zero-copy"),
                    "leave `zeroCopy` out; only bytes can be zero-copy",
                );
            } else if is_tagged(field) {
                self.error(
                    Rule::F20,
                    zero_copy.span,
                    "a tagged field is zero-copy",
                    "leave `zeroCopy` out, or give the field a place among the others",
                );
            }
        }
        if plain == Some(&Type::Records)
            && let Key::Given(tagged) = &field.tagged
            && !tagged.value.is_empty()
        {
            self.error(
                Rule::F19,
                tagged.span,
                "records are tagged",
                "give the field a place among the others: leave `tag` and `taggedVersions` out",
            );
        }
    }

    fn default(&mut self, field: &Field, ty: &TypeText<'_>, versions: Option<Versions>) {
        let Key::Given(text) = &field.default else { return };
        match default::parse(ty, Some(&text.value)) {
            Err(help) => self.error(
                Rule::D1,
                text.span,
                format!(
                    "{} is not a default for the type {}",
                    quoted(&text.value),
                    field.ty.get().map_or_else(String::new, |text| quoted(text.trim()))
                ),
                help,
            ),
            Ok(Default::Null) if ty.plain() != Some(&Type::Records) => {
                let nullable = match &field.nullable {
                    Key::Given(nullable) => nullable.value,
                    Key::Absent => Versions::NONE,
                    Key::Refused(_) => return,
                };
                let Some(versions) = versions else { return };
                if nullable.contains_all(versions) {
                    return;
                }
                let mut diagnostic = self
                    .diagnostic(Rule::D2, text.span, "the default is null, which not every version of the field allows")
                    .label("null")
                    .help(format!(
                        "allow null wherever the field exists, with `\"nullableVersions\": \"{versions}\"`, or leave \
                         the default out, which makes it empty"
                    ));
                if let Some(span) = field.nullable.span() {
                    diagnostic = diagnostic.related(&self.schema.source, span, "null is allowed here");
                }
                if let Some(span) = field.versions.span() {
                    diagnostic = diagnostic.related(&self.schema.source, span, "the field exists here");
                }
                self.report.push(diagnostic);
            }
            Ok(_) => {}
        }
    }

    fn tagged(&mut self, field: &Field, versions: Option<Versions>) {
        if let Key::Given(tag) = &field.tag {
            if let Key::Given(map_key) = &field.map_key
                && map_key.value
            {
                let diagnostic = self
                    .diagnostic(Rule::F9, tag.span, "a map key has a tag")
                    .related(&self.schema.source, map_key.span, "a map key")
                    .help("give the field a place among the others, or leave `mapKey` out");
                self.report.push(diagnostic);
            }
            if tag.value < 0 {
                self.error(
                    Rule::F10,
                    tag.span,
                    format!("the tag {} is negative", tag.value),
                    "tags are 0, 1, 2 and so on",
                );
            }
            let untagged = match &field.tagged {
                Key::Given(tagged) => tagged.value.is_empty(),
                Key::Absent => true,
                Key::Refused(_) => false,
            };
            if untagged {
                self.error(
                    Rule::F11,
                    tag.span,
                    "a field with a tag has no tagged versions",
                    "add `\"taggedVersions\"`, for example `\"0+\"`, or leave `tag` out",
                );
            }
        }

        let Key::Given(tagged) = &field.tagged else { return };
        if tagged.value.is_empty() {
            return;
        }
        if field.tag.is_absent() {
            self.error(
                Rule::F15,
                tagged.span,
                "a field with tagged versions has no tag",
                "add `\"tag\"`, the next number that is free in this struct, or leave `taggedVersions` out",
            );
        }
        if let Key::Given(nullable) = &field.nullable {
            let both = nullable.value.intersect(tagged.value);
            if !both.is_empty() && both != tagged.value {
                let diagnostic = self
                    .diagnostic(Rule::F12, nullable.span, "null is allowed in some tagged versions, but not in all")
                    .related(&self.schema.source, tagged.span, "the tagged versions")
                    .help(format!(
                        "allow null from the first tagged version on, with `\"nullableVersions\": \"{}+\"`, or not \
                         while the field is tagged",
                        tagged.value.low()
                    ));
                self.report.push(diagnostic);
            }
        }
        if !tagged.value.is_open_ended() {
            self.error(
                Rule::F13,
                tagged.span,
                format!("the tagged versions end with {}", tagged.value.high()),
                format!("once tagged, a field stays tagged: write `\"{}+\"`", tagged.value.low()),
            );
        }
        if let (Some(versions), Key::Given(given)) = (versions, &field.versions)
            && !versions.contains_all(tagged.value)
        {
            let diagnostic = self
                .diagnostic(
                    Rule::F14,
                    tagged.span,
                    format!("the field is tagged in versions {}, but exists in {versions}", tagged.value),
                )
                .related(&self.schema.source, given.span, "the field exists here")
                .help("let `versions` contain all `taggedVersions`");
            self.report.push(diagnostic);
        }

        let own = match &field.flexible {
            Key::Given(own) => Some(own.value),
            Key::Refused(_) => return,
            Key::Absent => None,
        };
        let Some(flexible) = own.or(self.schema.flexible.get().copied()) else { return };
        if !flexible.contains_all(tagged.value) {
            let mut diagnostic = self
                .diagnostic(
                    Rule::F17,
                    tagged.span,
                    format!(
                        "the field is tagged in versions {}, but flexible versions are {flexible}",
                        tagged.value
                    ),
                )
                .help(if flexible.is_empty() {
                    "only flexible versions have tagged fields; leave `tag` and `taggedVersions` out"
                        .to_owned()
                } else {
                    format!(
                        "only flexible versions have tagged fields; write `\"{flexible}\"` or a later start"
                    )
                });
            let place = if own.is_some() { field.flexible.span() } else { self.schema.flexible.span() };
            if let Some(span) = place {
                diagnostic = diagnostic.related(&self.schema.source, span, "the flexible versions");
            }
            self.report.push(diagnostic);
        }
    }

    fn flexible(&mut self, field: &Field) {
        if let (Key::Given(own), Key::Given(message)) = (&field.flexible, &self.schema.flexible)
            && !message.value.contains_all(own.value)
        {
            let diagnostic = self
                .diagnostic(
                    Rule::F18,
                    own.span,
                    format!("the field is flexible in versions {}, the message in {}", own.value, message.value),
                )
                .related(&self.schema.source, message.span, "the flexible versions of the message")
                .help("a field can be flexible in fewer versions than its message, such as `\"none\"`, not in others");
            self.report.push(diagnostic);
        }
    }

    /// The rules about a field whose type, or element type, is a struct. `inside` is the versions in which the
    /// struct occurs there.
    fn struct_field(
        &mut self,
        field: &'a Field,
        name: &'a str,
        parent: Option<Versions>,
        inside: Option<Versions>,
        place: Place,
    ) {
        let span = field.ty.span().unwrap_or(field.anchor);
        if inside.is_some_and(Versions::is_empty) && parent.is_some_and(|parent| !parent.is_empty()) {
            self.never_there(field, name, parent.unwrap_or(Versions::NONE));
        }
        if let Some(common) = self.common.get(name).copied() {
            self.use_of_common(field, name, common, inside);
            return;
        }
        if place == Place::Common {
            let known: Vec<&str> = self.common.keys().copied().collect();
            let help = if field.fields.items().is_empty() {
                let guess = did_you_mean(name, &known);
                let otherwise = if guess.is_empty() { "" } else { "if not, " };
                format!("{guess}{otherwise}declare {} among the `commonStructs`", quoted(name))
            } else {
                format!("move {} to the `commonStructs` and leave `fields` out here", quoted(name))
            };
            self.error(
                Rule::S8,
                span,
                format!("the struct {} in a common struct is not a common struct itself", quoted(name)),
                help,
            );
            return;
        }
        if name == self.schema.title() {
            self.named_like_message(span);
            return;
        }
        if self.around.contains(&name) {
            self.error(Rule::S9, span, format!("the struct {} contains itself", quoted(name)), NO_RECURSION);
            return;
        }
        if let Some(&first) = self.inline.get(name) {
            let diagnostic = self
                .diagnostic(Rule::S5, span, format!("the struct {} is used twice", quoted(name)))
                .related(&self.schema.source, first, "used here first")
                .help(
                    "move it to the `commonStructs` if both are the same; give them different names if not",
                );
            self.report.push(diagnostic);
        } else {
            self.inline.insert(name, span);
            if field.fields.is_absent() {
                self.memberless(name, span);
            }
        }
        self.around.push(name);
        let inside = inside.map(|inside| if inside.is_empty() { parent.unwrap_or(inside) } else { inside });
        self.members(field.fields.items(), inside, Place::Inline);
        self.around.pop();
    }

    fn use_of_common(&mut self, field: &Field, name: &str, common: &CommonStruct, inside: Option<Versions>) {
        let span = field.ty.span().unwrap_or(field.anchor);
        if let Key::Given(fields) = &field.fields
            && !fields.value.is_empty()
        {
            let diagnostic = self
                .diagnostic(
                    Rule::S6,
                    span,
                    format!("the common struct {} is given fields where it is used", quoted(name)),
                )
                .related(&self.schema.source, common.anchor, "declared here")
                .related(&self.schema.source, start_of(fields.span), "these are the fields")
                .help("leave `fields` out, or give the struct another name");
            self.report.push(diagnostic);
        }
        if let (Some(inside), Key::Given(versions)) = (inside, &common.versions)
            && !inside.is_empty()
            && inside.intersect(versions.value).is_empty()
        {
            let diagnostic = self
                .diagnostic(
                    Rule::F22,
                    span,
                    format!(
                        "the struct {} exists in versions {}, but is used in versions {inside}",
                        quoted(name),
                        versions.value
                    ),
                )
                .related(&self.schema.source, versions.span, "the struct exists here")
                .help("widen the `versions` of the struct, or leave the field out");
            self.report.push(diagnostic);
        }
    }

    fn never_there(&mut self, field: &Field, name: &str, parent: Versions) {
        let span = field.versions.span().or(field.tagged.span()).unwrap_or(field.anchor);
        self.error(
            Rule::F22,
            span,
            format!("no version of the message has the struct {}", quoted(name)),
            format!("what is around the field exists in versions {parent}; leave the field out, or let it exist there"),
        );
    }

    /// Legal, but more often a misspelt name of a common struct.
    fn memberless(&mut self, name: &str, span: Span) {
        let known: Vec<&str> = self.common.keys().copied().collect();
        let diagnostic = Diagnostic::warning(
            Rule::S11,
            &self.schema.source,
            span,
            format!("the struct {} has no members", quoted(name)),
        )
        .path(self.path.join("."))
        .label("neither `fields` here nor a common struct of this name")
        .help(format!("{}write `\"fields\": []` if it is meant to be empty", did_you_mean(name, &known)));
        self.report.push(diagnostic);
    }

    fn named_like_message(&mut self, span: Span) {
        self.error(
            Rule::S10,
            span,
            format!("a struct has the name of its message, {}", quoted(self.schema.title())),
            "give the struct another name; a message cannot contain itself",
        );
    }

    /// Common structs can contain each other, but not in a circle.
    fn recursion(&mut self) {
        let mut heights = HashMap::new();
        for common in self.schema.common_structs.items() {
            if let Some(name) = common.name.get()
                && self.height(name, 1, &mut heights).is_none()
            {
                return;
            }
        }
    }

    /// How many structs nest in the common struct of this name, itself included; `None` if they are too many.
    ///
    /// `heights` has the structs that are done, and 0 for those around this one, of which there are `depth`.
    fn height(
        &mut self,
        name: &'a str,
        depth: usize,
        heights: &mut HashMap<&'a str, usize>,
    ) -> Option<usize> {
        if let Some(&known) = heights.get(name) {
            return Some(known);
        }
        let common = self.common.get(name).copied()?;
        heights.insert(name, 0);
        let mut highest = 0;
        for field in common.fields.items() {
            let Key::Given(text) = &field.ty else { continue };
            let Some(inner) = TypeText::parse(&text.value).ok().and_then(|ty| ty.struct_name()) else {
                continue;
            };
            if !self.common.contains_key(inner) {
                continue;
            }
            let height = if depth < DEEPEST { self.height(inner, depth + 1, heights)? } else { DEEPEST };
            highest = highest.max(height);
            let title = if height == 0 {
                format!("the struct {} contains itself", quoted(inner))
            } else if height >= DEEPEST {
                format!("structs nest more than {DEEPEST} deep")
            } else {
                continue;
            };
            let path = [self.schema.title(), name, field.name.get().map_or("?", String::as_str)].join(".");
            let diagnostic = self.diagnostic(Rule::S9, text.span, title).path(path).help(NO_RECURSION);
            self.report.push(diagnostic);
            if height >= DEEPEST {
                return None;
            }
        }
        heights.insert(name, highest + 1);
        Some(highest + 1)
    }

    /// Structs whose names are reserved in Rust get another one, which may be taken.
    fn rust_names(&mut self) {
        let mut structs: Vec<(&str, Span)> = self.inline.iter().map(|(&name, &span)| (name, span)).collect();
        structs.extend(self.common.iter().map(|(&name, common)| (name, common.anchor)));
        structs.retain(|&(name, _)| name != self.schema.title());
        structs.push((self.schema.title(), self.schema.anchor));
        structs.sort_by_key(|&(_, span)| span);
        let mut by_rust_name: HashMap<String, (&str, Span)> = HashMap::new();
        for (name, span) in structs {
            let rust_name = names::type_name(name);
            if let Some(&(other, first)) = by_rust_name.get(&rust_name)
                && other != name
            {
                let diagnostic = self
                    .diagnostic(
                        Rule::N1,
                        span,
                        format!("{} and {} have the same name in Rust", quoted(other), quoted(name)),
                    )
                    .label(format!("{} in Rust", quoted(&rust_name)))
                    .related(&self.schema.source, first, format!("{} in Rust, too", quoted(&rust_name)))
                    .help("give one of them another name");
                self.report.push(diagnostic);
            } else {
                by_rust_name.insert(rust_name, (name, span));
            }
        }
    }

    fn error(&mut self, rule: Rule, span: Span, title: impl Into<String>, help: impl Into<String>) {
        let diagnostic = self.diagnostic(rule, span, title).help(help);
        self.report.push(diagnostic);
    }

    fn diagnostic(&self, rule: Rule, span: Span, title: impl Into<String>) -> Diagnostic {
        Diagnostic::error(rule, &self.schema.source, span, title).path(self.path.join("."))
    }

    fn path_to(&self, member: &str) -> String {
        format!("{}.{member}", self.path.join("."))
    }
}

const NO_RECURSION: &str = "a message has a fixed depth, so a struct cannot contain itself; let an element of an array \
                            name another by its key";

/// The field of every struct that holds what it does not know.
const OWN_FIELD: &str = "unknown_tagged_fields";

fn is_tagged(field: &Field) -> bool {
    field.tagged.get().is_some_and(|tagged| !tagged.is_empty())
}

/// Whether a type of this name is no struct.
fn is_plain(name: &str) -> bool {
    matches!(TypeText::parse(name), Ok(TypeText { element: Element::Plain(_), .. }))
}

/// The type of what identifies an entity.
fn base_type(entity: EntityType) -> Option<(Type, &'static str)> {
    match entity {
        EntityType::Unknown => None,
        EntityType::TransactionalId | EntityType::GroupId | EntityType::TopicName => {
            Some((Type::String, "string"))
        }
        EntityType::ProducerId => Some((Type::Int64, "int64")),
        EntityType::BrokerId => Some((Type::Int32, "int32")),
    }
}

/// The bracket that a list starts with, lest all of its lines be drawn.
fn start_of(span: Span) -> Span {
    Span { start: span.start, end: span.start + 1 }
}
