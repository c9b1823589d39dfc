//! Kafka's names in Rust.

/// `IsRenewAck` → `is_renew_ack`, as Kafka's own schema documentation does it: an underscore stands before an
/// upper-case letter unless the letter before it is upper-case too, so `KRaftVersion` → `kraft_version`.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut after_upper = true;
    for letter in name.chars() {
        let upper = letter.is_ascii_uppercase();
        if upper && !after_upper {
            snake.push('_');
        }
        after_upper = upper;
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// The name of a field: snake case; `self`, `super` and `crate`, which cannot be raw identifiers, get an
/// underscore at the end. Other keywords stay as they are and are emitted as raw identifiers.
pub fn field_name(name: &str) -> String {
    let mut snake = snake_case(name);
    if matches!(snake.as_str(), "self" | "super" | "crate") {
        snake.push('_');
    }
    snake
}

/// The name of a message or struct: the schema's, unless generated code needs that name for something else.
pub fn type_name(name: &str) -> String {
    if RESERVED.contains(&name) { format!("{name}Struct") } else { name.to_owned() }
}

/// Types, traits, variants and type parameters that generated code mentions.
const RESERVED: &[&str] = &[
    "AcknowledgeType",
    "Api",
    "ApiKey",
    "Bytes",
    "Clone",
    "Codec",
    "Debug",
    "Default",
    "DefaultValue",
    "Err",
    "ErrorCode",
    "Fault",
    "FieldSchema",
    "FieldType",
    "HeaderVersions",
    "Listener",
    "Message",
    "MessageKind",
    "MessageSchema",
    "None",
    "Ok",
    "Option",
    "PartialEq",
    "Reader",
    "Request",
    "Response",
    "Result",
    "Rpc",
    "S",
    "Self",
    "Sink",
    "SmallVec",
    "Some",
    "Str",
    "StructSchema",
    "TaggedFields",
    "Uuid",
    "Vec",
    "Versions",
    "Writer",
];
