//! Schemas that are not known before the program runs, for the interpreter.

use codegen::check::check;
use codegen::model::{Default as ModelDefault, Field, Kind, Message, Model, Type};
use codegen::report::Report;
use codegen::source::Source;
use codegen::{Coverage, schema as parse};
use kafka_protocol::protocol::Versions;
use kafka_protocol::protocol::schema::{
    DefaultValue, FieldSchema, FieldType, MessageKind, MessageSchema, StructSchema,
};
use serde_json::Value as Json;

/// The schema that a case brings along.
pub(super) fn text(raw: &Json) -> Option<String> {
    match (&raw["schema_text"], &raw["schema"]) {
        (Json::String(text), _) => Some(text.clone()),
        (_, Json::Null) => None,
        (_, schema) => Some(schema.to_string()),
    }
}

/// The schema with other tags, one for each of its first fields.
pub(super) fn with_tags(schema: &Json, tags: &[Json]) -> Result<String, String> {
    let mut schema = schema.clone();
    let fields = schema["fields"].as_array_mut().ok_or("a schema without fields")?;
    for (field, tag) in fields.iter_mut().zip(tags) {
        field["tag"] = tag.clone();
    }
    Ok(schema.to_string())
}

/// What the generator makes of a schema, or the titles of what is wrong with it.
pub(super) fn model(text: &str) -> Result<Model, String> {
    let source = Source { path: "Case.json".to_owned(), text: text.to_owned() };
    let mut report = Report::default();
    let schemas: Vec<_> = parse::parse(&source, &mut report).into_iter().collect();
    let model = check(&schemas, Coverage::Part, &mut report);
    if report.has_errors() {
        return Err(report.render(&[source], "".as_ref(), false));
    }
    Ok(model)
}

/// The schema as a descriptor, which stays for as long as the program runs; `None` if it has no codec.
pub(super) fn schema(text: &str) -> Result<Option<&'static MessageSchema>, String> {
    let model = model(text)?;
    Ok(model.families.iter().flat_map(|family| &family.messages).next().map(describe))
}

fn describe(message: &Message) -> &'static MessageSchema {
    let mut structs = vec![None; message.structs.len()];
    leak(MessageSchema {
        name: leak_text(&message.name),
        kind: kind(message.kind),
        api_key: message.api_key,
        versions: versions(message.valid),
        flexible_versions: versions(message.flexible),
        root: describe_struct(message, 0, &mut structs),
    })
}

/// Each struct once, since the interpreter tells structs apart by their place.
fn describe_struct(
    message: &Message,
    index: usize,
    done: &mut [Option<&'static StructSchema>],
) -> &'static StructSchema {
    if let Some(done) = done[index] {
        return done;
    }
    let strukt = &message.structs[index];
    let mut fields = |fields: &[Field]| -> &'static [FieldSchema] {
        Vec::leak(fields.iter().map(|field| describe_field(message, field, done)).collect())
    };
    let (fields, retired) = (fields(&strukt.fields), fields(&strukt.retired));
    let schema: &StructSchema = leak(StructSchema {
        name: leak_text(&strukt.name),
        doc: "",
        min_size: strukt.min_size,
        known_tags: strukt.known_tags,
        fields,
        retired,
    });
    done[index] = Some(schema);
    schema
}

fn describe_field(
    message: &Message,
    field: &Field,
    done: &mut [Option<&'static StructSchema>],
) -> FieldSchema {
    FieldSchema {
        name: leak_text(&field.name),
        rust_name: leak_text(&field.rust_name),
        ty: field_type(message, &field.ty, done),
        versions: versions(field.versions),
        nullable_versions: match field.nullable {
            codegen::versions::When::Never => Versions::NONE,
            _ => versions(field.nullable_versions),
        },
        tagged_versions: versions(field.tagged_versions),
        tag: field.tag,
        flexible_versions: field.flexible_versions.map(versions),
        default: default(&field.default),
        ignorable: field.ignorable,
        map_key: field.map_key,
        doc: leak_text(&field.about),
    }
}

fn field_type(message: &Message, ty: &Type, done: &mut [Option<&'static StructSchema>]) -> FieldType {
    match ty {
        Type::Bool => FieldType::Bool,
        Type::Int8 => FieldType::Int8,
        Type::Int16 => FieldType::Int16,
        Type::Uint16 => FieldType::Uint16,
        Type::Int32 => FieldType::Int32,
        Type::Uint32 => FieldType::Uint32,
        Type::Int64 => FieldType::Int64,
        Type::Float64 => FieldType::Float64,
        Type::Uuid => FieldType::Uuid,
        Type::String => FieldType::String,
        Type::Bytes => FieldType::Bytes,
        Type::Records => FieldType::Records,
        Type::Struct(index) => FieldType::Struct(describe_struct(message, *index, done)),
        Type::Array(element) => FieldType::Array(leak(field_type(message, element, done))),
    }
}

fn kind(kind: Kind) -> MessageKind {
    match kind {
        Kind::Request => MessageKind::Request,
        Kind::Response => MessageKind::Response,
        Kind::Header => MessageKind::Header,
        Kind::Metadata => MessageKind::Metadata,
        Kind::Data => MessageKind::Data,
        Kind::CoordinatorKey => MessageKind::CoordinatorKey,
        Kind::CoordinatorValue => MessageKind::CoordinatorValue,
    }
}

fn versions(versions: codegen::versions::Versions) -> Versions {
    if versions.is_empty() { Versions::NONE } else { Versions::new(versions.low(), versions.high()) }
}

fn default(default: &ModelDefault) -> DefaultValue {
    match default {
        ModelDefault::Null => DefaultValue::Null,
        ModelDefault::Bool(true) => DefaultValue::True,
        ModelDefault::Int(number) if *number != 0 => DefaultValue::Int(*number),
        ModelDefault::Float(number) if number.to_bits() != 0 => {
            DefaultValue::Float(*number, leak_text(&format!("{number:?}")))
        }
        ModelDefault::Uuid(bytes) if *bytes != [0; 16] => DefaultValue::Uuid(u128::from_be_bytes(*bytes)),
        ModelDefault::String(text) if !text.is_empty() => DefaultValue::String(leak_text(text)),
        _ => DefaultValue::Zero,
    }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn leak_text(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
