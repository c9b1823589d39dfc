//! What is wrong with schemas, and how it is shown.

use std::borrow::Cow;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::source::Source;

/// A range of bytes in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// Everything that was found wrong in a set of schemas.
#[derive(Clone, Debug, Default)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether nothing can be generated.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// The diagnostics by file, then by position, then in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        let mut sorted: Vec<_> = self.diagnostics.iter().collect();
        sorted.sort_by(|a, b| (&a.source, a.span.start).cmp(&(&b.source, b.span.start)));
        sorted.into_iter()
    }

    /// Draws the diagnostics as rustc does, each with the lines of the schema that it is about. Paths lead through
    /// `folder`, the one that the sources were read from.
    pub fn render(&self, sources: &[Source], folder: &Path, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for diagnostic in self.iter() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&renderer.render(&[diagnostic.group(sources, folder)]));
            text.push('\n');
        }
        text
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The rule that is broken.
    pub rule: Rule,
    /// Whether it stands in the way of generating code.
    pub severity: Severity,
    /// The path of the source, as in [`Source::path`].
    pub source: String,
    /// Where in the source.
    pub span: Span,
    /// What stands there.
    pub label: String,
    /// Other places that have to do with it.
    pub related: Vec<Related>,
    /// The field, from the message down: `ShareFetchRequest.Topics.Partitions.TopicId`.
    pub path: String,
    /// What is wrong.
    pub title: String,
    /// What would be right.
    pub help: String,
}

impl Diagnostic {
    /// An error in a source. The other parts are empty.
    pub fn error(rule: Rule, source: &str, span: Span, title: impl Into<String>) -> Self {
        Self {
            rule,
            severity: Severity::Error,
            source: source.to_owned(),
            span,
            label: String::new(),
            related: Vec::new(),
            path: String::new(),
            title: title.into(),
            help: String::new(),
        }
    }

    /// A warning in a source. The other parts are empty.
    pub fn warning(rule: Rule, source: &str, span: Span, title: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, source, span, title) }
    }

    /// Says what stands at the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Points at another place, possibly in another source.
    #[must_use]
    pub fn related(mut self, source: &str, span: Span, label: impl Into<String>) -> Self {
        self.related.push(Related { source: source.to_owned(), span, label: label.into() });
        self
    }

    /// Names the field.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Says what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Line and column of its first character, both counted from 1; `None` if its source is not among these.
    pub fn line_column(&self, sources: &[Source]) -> Option<(usize, usize)> {
        find(sources, &self.source).map(|source| source.line_column(self.span.start))
    }

    fn group<'a>(&'a self, sources: &'a [Source], folder: &Path) -> Group<'a> {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(&self.title).id(self.rule.code()));

        // Places in one file share a snippet; the primary one comes first.
        let mut paths = vec![self.source.as_str()];
        for related in &self.related {
            if !paths.contains(&related.source.as_str()) {
                paths.push(&related.source);
            }
        }
        for path in paths {
            let shown = folder.join(path).display().to_string();
            let Some(source) = find(sources, path) else {
                group = group.element(Origin::path(shown));
                continue;
            };
            let primary = (path == self.source).then(|| {
                AnnotationKind::Primary.span(clamp(self.span, &source.text)).label(label(&self.label))
            });
            let related = self.related.iter().filter(|related| related.source == path).map(|related| {
                AnnotationKind::Context.span(clamp(related.span, &source.text)).label(label(&related.label))
            });
            group = group.element(
                Snippet::source(&source.text).path(shown).annotations(primary.into_iter().chain(related)),
            );
        }

        if !self.path.is_empty() {
            group = group.element(Level::NOTE.message(format!("in {}", self.path)));
        }
        if !self.help.is_empty() {
            group = group.element(Level::HELP.message(&self.help));
        }
        group
    }
}

/// A place that has to do with a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The path of the source.
    pub source: String,
    /// Where in the source.
    pub span: Span,
    /// What it has to do with the diagnostic.
    pub label: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is generated.
    Error,
    /// Worth a look.
    Warning,
}

/// Declares [`Rule`], so that no variant can lack its code or its sentence.
macro_rules! rules {
    ($(#[doc = $summary:literal] $name:ident,)*) => {
        /// A rule that schemas obey.
        ///
        /// J is for JSON, V for version ranges, M for messages, F for fields, D for defaults, S for structs and
        /// N for names in Rust.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $summary] $name,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name of the rule, which never changes.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What the rule demands, in one sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $summary.trim_ascii(),)*
                }
            }
        }
    };
}

// There is no F7, which says that S1 to S3 hold for the members of inline structs too, and no F21, which is D1
// and D2.
rules! {
    /// A file holds one JSON object; comments are the only liberty.
    J1,
    /// The value of a key has the type that the key asks for.
    J2,
    /// Only known keys are used.
    J3,
    /// Where one of a few words is expected, it is one of them.
    J4,

    /// A version range is `none`, `3`, `1-2` or `3+`.
    V1,

    /// A message has a name, a type and valid versions.
    M1,
    /// A message says which of its versions are flexible.
    M2,
    /// Flexible versions are none, or all from one on.
    M3,
    /// Only requests have listeners.
    M4,
    /// Only requests can have an unstable latest version.
    M5,
    /// The valid versions have an end.
    M6,
    /// Only requests and responses can have no valid versions.
    M7,
    /// A request and a response with matching names share an API key, which no other pair has.
    M8,
    /// A metadata record has an API key that no other one in its folder has.
    M9,
    /// The key of a coordinator record has an API key, the valid version 0 and no flexible versions.
    M10,
    /// The value of a coordinator record has an API key.
    M11,
    /// A coordinator record has a key and a value with the same API key.
    M12,
    /// Header versions cover all versions without a gap or an overlap, and exist.
    M13,
    /// The name of a message is an upper-case letter followed by letters and digits.
    M14,

    /// The name of a field is a letter followed by letters and digits.
    F1,
    /// A field or common struct says in which versions it exists.
    F2,
    /// A field has a known type.
    F3,
    /// Only string, bytes, records, arrays and structs can be null.
    F4,
    /// An entity type stands on a field of the type that identifies such entities.
    F5,
    /// Only structs and arrays have fields.
    F6,
    /// Only string and bytes have flexible versions of their own.
    F8,
    /// A key of a struct is not tagged.
    F9,
    /// A tag is not negative.
    F10,
    /// A field with a tag has tagged versions.
    F11,
    /// Null is allowed in all tagged versions of a field or in none.
    F12,
    /// Once tagged, a field stays tagged.
    F13,
    /// A field is tagged only in versions in which it exists.
    F14,
    /// A field with tagged versions has a tag.
    F15,
    /// Only bytes can be zero-copy.
    F16,
    /// A field is tagged only in flexible versions.
    F17,
    /// The flexible versions of a field are flexible versions of its message.
    F18,
    /// Records are never tagged.
    F19,
    /// Zero-copy bytes are never tagged.
    F20,
    /// A field with a struct exists in a version that the struct around it has.
    F22,
    /// The fields of a struct have different names in Rust.
    F23,

    /// A default is a value of the field's type.
    D1,
    /// The default is null only if null is allowed in every version of the field.
    D2,

    /// The members of a struct have different names.
    S1,
    /// The members of a struct have different tags.
    S2,
    /// The tags of a struct are 0, 1, 2 and so on.
    S3,
    /// A common struct has a name of its own, an upper-case letter followed by letters and digits.
    S4,
    /// An inline struct is used once.
    S5,
    /// The fields of a common struct are given where it is declared, not where it is used.
    S6,
    /// Only a struct in an array has a map key, never the message itself.
    S7,
    /// A common struct contains no inline struct.
    S8,
    /// No struct contains itself, and structs nest at most 16 deep.
    S9,
    /// No struct has the name of its message.
    S10,
    /// A struct without members is meant to have none.
    S11,

    /// Messages, and structs of one message, have different names in Rust.
    N1,
    /// A folder or message has a name that Rust takes for a module.
    N2,
}

/// Text from a schema in backticks, made fit for one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown = String::from("`");
    for letter in text.chars().take(LONGEST) {
        match letter {
            '"' | '\'' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown.push('`');
    shown
}

fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    sources.iter().find(|source| source.path == path)
}

fn label(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(Cow::Borrowed(text))
}

/// The span as the renderer takes it: within the text and on boundaries of characters.
fn clamp(span: Span, text: &str) -> std::ops::Range<usize> {
    let boundary = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = boundary(span.start);
    start..boundary(span.end).max(start)
}
