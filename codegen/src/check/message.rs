//! Rules about a message as a whole.

use super::types::is_struct_name;
use super::{fields, is_removed, kind_word};
use crate::model::Kind;
use crate::report::{Diagnostic, Report, Rule, Span, quoted};
use crate::schema::{HeaderVersion, Key, Schema};
use crate::versions::Versions;

/// Checks everything that a schema alone can get wrong.
pub(super) fn check(schema: &Schema, report: &mut Report) {
    let mut it = Checker { schema, report };
    it.name_and_type();
    it.api_key();
    it.valid_versions();
    it.header_versions();
    if !is_removed(schema) {
        it.flexible_versions();
        it.requests_only();
        fields::check(schema, it.report);
    }
}

struct Checker<'a> {
    schema: &'a Schema,
    report: &'a mut Report,
}

impl Checker<'_> {
    fn name_and_type(&mut self) {
        let schema = self.schema;
        if schema.name.is_absent() {
            self.error(Rule::M1, schema.anchor, "the message has no `name`", "", "add `\"name\"`");
        }
        if let Key::Given(name) = &schema.name
            && !is_struct_name(&name.value)
        {
            self.error(
                Rule::M14,
                name.span,
                format!("{} is not the name of a message", quoted(&name.value)),
                "",
                "the name of a message is an upper-case letter followed by letters and digits, such as \
                 `ShareFetchRequest`",
            );
        }
        if schema.kind.is_absent() {
            self.error(
                Rule::M1,
                schema.anchor,
                "the message has no `type`",
                "",
                "add `\"type\"`, for example `\"request\"`, or `\"data\"` for a message that is not part of an API",
            );
        }
    }

    fn api_key(&mut self) {
        let schema = self.schema;
        let Some(&kind) = schema.kind.get() else { return };
        if !schema.api_key.is_absent() {
            return;
        }
        let rule = match kind {
            Kind::Request | Kind::Response | Kind::Metadata => Rule::M8,
            Kind::CoordinatorKey => Rule::M10,
            Kind::CoordinatorValue => Rule::M11,
            Kind::Header | Kind::Data => return,
        };
        self.error(
            rule,
            schema.anchor,
            format!("the {} has no `apiKey`", kind_word(kind)),
            "",
            "add `\"apiKey\"`, the number that peers know it by",
        );
    }

    fn valid_versions(&mut self) {
        let schema = self.schema;
        let valid = match &schema.valid {
            Key::Given(valid) => valid,
            Key::Refused(_) => return,
            Key::Absent => {
                return self.error(
                    Rule::M1,
                    schema.anchor,
                    "the message has no `validVersions`",
                    "",
                    "add `\"validVersions\"`, for example `\"0\"` for a new message",
                );
            }
        };
        if valid.value.is_open_ended() {
            self.error(
                Rule::M6,
                valid.span,
                "the valid versions have no end",
                "every later version would be valid",
                "name the last version that exists too, for example `\"0-1\"`",
            );
        }
        match schema.kind.get() {
            Some(Kind::CoordinatorKey) => {
                if valid.value != Versions::new(0, 0) {
                    self.error(
                        Rule::M10,
                        valid.span,
                        "the key of a coordinator record has other valid versions than `0`",
                        "",
                        "write `\"0\"`; a key cannot change, or old records would no longer be found by it",
                    );
                }
            }
            Some(Kind::Request | Kind::Response) | None => {}
            Some(&kind) => {
                if valid.value.is_empty() {
                    self.error(
                        Rule::M7,
                        valid.span,
                        format!("the {} has no valid version", kind_word(kind)),
                        "",
                        "only a request or response can be reserved in this way; name the versions that exist, or \
                         delete the schema",
                    );
                }
            }
        }
    }

    fn flexible_versions(&mut self) {
        let schema = self.schema;
        let flexible = match &schema.flexible {
            Key::Given(flexible) => flexible,
            Key::Refused(_) => return,
            Key::Absent => {
                return self.error(
                    Rule::M2,
                    schema.anchor,
                    "the message has no `flexibleVersions`",
                    "",
                    "add `\"flexibleVersions\"`: `\"0+\"` for a new message, `\"none\"` for one that has no tagged \
                     fields and no compact encoding",
                );
            }
        };
        if schema.kind.get() == Some(&Kind::CoordinatorKey) && !flexible.value.is_empty() {
            self.error(
                Rule::M10,
                flexible.span,
                "the key of a coordinator record has flexible versions",
                "",
                "write `\"none\"`; keys are compared as bytes, so their form cannot vary",
            );
        }
        if !flexible.value.is_empty() && !flexible.value.is_open_ended() {
            self.error(
                Rule::M3,
                flexible.span,
                format!("the flexible versions end with {}", flexible.value.high()),
                "",
                format!(
                    "once flexible, a message stays flexible: write `\"{}+\"`, or `\"none\"`",
                    flexible.value.low()
                ),
            );
        }
    }

    fn requests_only(&mut self) {
        let schema = self.schema;
        let Some(&kind) = schema.kind.get() else { return };
        if kind == Kind::Request {
            return;
        }
        if let Key::Given(listeners) = &schema.listeners
            && !listeners.value.is_empty()
        {
            self.error(
                Rule::M4,
                listeners.span,
                format!("a {} has listeners", kind_word(kind)),
                "",
                "leave `listeners` to the request",
            );
        }
        if let Key::Given(unstable) = &schema.latest_version_unstable
            && unstable.value
        {
            self.error(
                Rule::M5,
                unstable.span,
                format!("the latest version of a {} is marked as unstable", kind_word(kind)),
                "",
                "leave `latestVersionUnstable` to the request, which speaks for both",
            );
        }
    }

    /// The rules of `headerVersions` but one, for which the headers have to be known; see [`super::set`].
    fn header_versions(&mut self) {
        let schema = self.schema;
        let Key::Given(given) = &schema.header_versions else { return };
        match schema.kind.get() {
            Some(Kind::Request | Kind::Response) | None => {}
            Some(&kind) => {
                return self.header_error(
                    given.span,
                    format!("a {} has header versions", kind_word(kind)),
                    "only requests and responses have a header; leave `headerVersions` out",
                );
            }
        }
        if is_removed(schema) {
            return self.header_error(
                given.span,
                "a message without valid versions has header versions",
                "leave `headerVersions` out",
            );
        }
        if given.value.is_empty() {
            return self.header_error(
                given.span,
                "`headerVersions` is empty",
                "name the header version of every version, such as `{ \"0+\": \"1\" }`, or leave it out",
            );
        }

        let mut ranges = Vec::new();
        let mut whole = true;
        for member in &given.value {
            whole &= self.header_range(member) & self.header_version(member);
            if let Key::Given(versions) = &member.versions {
                ranges.push((versions.value, member));
            }
        }
        if whole {
            ranges.sort_by_key(|(versions, _)| versions.low());
            self.header_order(&ranges);
        }
    }

    /// Whether the range makes sense by itself.
    fn header_range(&mut self, member: &HeaderVersion) -> bool {
        match &member.versions {
            Key::Given(versions) if !versions.value.is_empty() => true,
            Key::Refused(_) => false,
            Key::Given(_) | Key::Absent => {
                self.header_error(
                    member.versions_span,
                    "a header version is given for no version of the body",
                    "name the versions, such as `\"0-1\"` or `\"2+\"`",
                );
                false
            }
        }
    }

    /// Whether the version of the header makes sense by itself.
    fn header_version(&mut self, member: &HeaderVersion) -> bool {
        match &member.header {
            Key::Given(header) if header.value >= 0 => {
                if self.schema.title() == "ApiVersionsResponse" && header.value != 0 {
                    self.header_error(
                        header.span,
                        format!("ApiVersionsResponse has header version {}", header.value),
                        "write `\"0\"`: a client that does not know the broker's version yet must be able to read it",
                    );
                }
                true
            }
            Key::Refused(_) => false,
            Key::Given(header) => {
                self.header_error(
                    header.span,
                    format!("{} is not a version of a header", header.value),
                    "versions of a header start with 0",
                );
                false
            }
            Key::Absent => {
                self.header_error(
                    member.versions_span,
                    "a header version is missing",
                    "write it, such as `\"1\"`",
                );
                false
            }
        }
    }

    /// Ranges in ascending order have to cover every version once.
    fn header_order(&mut self, ranges: &[(Versions, &HeaderVersion)]) {
        let Some((first, first_member)) = ranges.first() else { return };
        if first.low() != 0 {
            self.header_error(
                first_member.versions_span,
                format!("the header versions start with version {}", first.low()),
                "start with version 0, valid or not",
            );
        }
        for pair in ranges.windows(2) {
            let [(before, before_member), (after, after_member)] = pair else { continue };
            let expected = before.high().checked_add(1);
            if expected != Some(after.low()) {
                let title = if expected.is_some_and(|expected| expected < after.low()) {
                    format!("the header version of version {} is missing", before.high() + 1)
                } else {
                    format!("version {} has two header versions", after.low())
                };
                let help = match expected {
                    Some(expected) if expected <= after.low() => {
                        format!("start this range with {expected}, right after the one before")
                    }
                    _ if before.low() < after.low() => format!("end the range before at {}", after.low() - 1),
                    _ => "leave one of the two out".to_owned(),
                };
                let diagnostic = self
                    .diagnostic(Rule::M13, after_member.versions_span, title)
                    .related(&self.schema.source, before_member.versions_span, "the range before")
                    .help(help);
                self.report.push(diagnostic);
            }
            if let (Some(old), Key::Given(new)) = (before_member.header.get(), &after_member.header)
                && new.value < *old
            {
                let diagnostic = self
                    .diagnostic(
                        Rule::M13,
                        new.span,
                        format!("the header version falls from {old} to {}", new.value),
                    )
                    .related(&self.schema.source, before_member.versions_span, "the range before")
                    .help("later versions have the same version of the header or a later one");
                self.report.push(diagnostic);
            }
        }
        if let Some((last, member)) = ranges.last()
            && !last.is_open_ended()
        {
            self.header_error(
                member.versions_span,
                format!("the header versions end with version {}", last.high()),
                format!("write `\"{}+\"`: a header has to be readable in versions to come", last.low()),
            );
        }
        if let Some(valid) = self.schema.valid.get() {
            for (versions, member) in ranges {
                if versions.low() > valid.high() {
                    self.header_error(
                        member.versions_span,
                        format!("version {} is beyond the valid versions", versions.low()),
                        format!("the last valid version is {}; leave this range to its time", valid.high()),
                    );
                }
            }
        }
    }

    fn header_error(&mut self, span: Span, title: impl Into<String>, help: impl Into<String>) {
        self.error(Rule::M13, span, title, "", help);
    }

    fn error(
        &mut self,
        rule: Rule,
        span: Span,
        title: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        let diagnostic = self.diagnostic(rule, span, title).label(label).help(help);
        self.report.push(diagnostic);
    }

    fn diagnostic(&self, rule: Rule, span: Span, title: impl Into<String>) -> Diagnostic {
        Diagnostic::error(rule, &self.schema.source, span, title).path(self.schema.title())
    }
}
