//! The schema of a message as a `static`, in a file of its own beside the codec.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::{docs, folder, imports, layout, number, types, versions};
use crate::model::{Family, Field, Kind, Message, Struct, Type};
use crate::names::snake_case;
use crate::versions::{Versions, When};
use crate::{File, Options};

/// The file `<message>/schema.rs`.
pub(super) fn file(family: &Family, message: &Message, options: &Options) -> File {
    let statics = statics(message);
    let mut items = vec![root(message, &statics[0].strukt)];
    for (strukt, names) in message.structs.iter().zip(&statics) {
        items.push(definition(message, strukt, names, &statics));
        items.extend(fields(strukt, names, &statics));
    }
    let title = format!("The schema of [`{0}`](super::{0}).", message.structs[0].rust_name);
    let imports = imports(&items, &options.runtime);
    File {
        path: format!("{}{}/schema.rs", folder(family), message.module),
        text: layout::file(&options.banner(&message.source), &title, TokenStream::new(), imports, items),
    }
}

/// The names of the statics of a struct. Its fields have one of their own: as a part of the other they would be a
/// promoted constant, which takes longer to compile.
struct Statics {
    strukt: Ident,
    fields: Ident,
}

/// The names of all statics, each different.
fn statics(message: &Message) -> Vec<Statics> {
    let mut taken = BTreeSet::from(["SCHEMA".to_owned()]);
    let mut unique = |mut name: String| {
        while !taken.insert(name.clone()) {
            name.push_str("_STRUCT");
        }
        format_ident!("{name}")
    };
    let names = message.structs.iter().map(|strukt| {
        let name = snake_case(&strukt.name).to_ascii_uppercase();
        Statics { strukt: unique(name.clone()), fields: unique(format!("{name}_FIELDS")) }
    });
    names.collect()
}

fn root(message: &Message, root: &Ident) -> TokenStream {
    let name = &message.name;
    let kind = format_ident!(
        "{}",
        match message.kind {
            Kind::Request => "Request",
            Kind::Response => "Response",
            Kind::Header => "Header",
            Kind::Metadata => "Metadata",
            Kind::Data => "Data",
            Kind::CoordinatorKey => "CoordinatorKey",
            Kind::CoordinatorValue => "CoordinatorValue",
        }
    );
    let api_key = match message.api_key {
        Some(key) => {
            let key = types::signed(key.into());
            quote!(Some(#key))
        }
        None => quote!(None),
    };
    let (valid, flexible) = (versions(message.valid), versions(message.flexible));
    quote! {
        pub(super) static SCHEMA: MessageSchema = MessageSchema {
            name: #name,
            kind: MessageKind::#kind,
            api_key: #api_key,
            versions: #valid,
            flexible_versions: #flexible,
            root: &#root,
        };
    }
}

fn definition(message: &Message, strukt: &Struct, names: &Statics, statics: &[Statics]) -> TokenStream {
    let kafka_name = &strukt.name;
    let doc = if strukt.uses.is_empty() {
        message.doc.join("\n\n")
    } else {
        docs::uses(message, strukt, |of, field| format!("{}.{}", of.name, field.name))
    };
    let min_size = Literal::usize_unsuffixed(strukt.min_size);
    let known_tags = Literal::u32_unsuffixed(strukt.known_tags);
    let Statics { strukt: name, fields } = names;
    let fields = if strukt.fields.is_empty() { quote!(FieldSchema::NONE) } else { quote!(&#fields) };
    let retired = strukt.retired.iter().map(|it| field(it, statics));
    let retired =
        if strukt.retired.is_empty() { quote!(FieldSchema::NONE) } else { quote!(&[#(#retired),*]) };
    quote! {
        static #name: StructSchema = StructSchema {
            name: #kafka_name,
            doc: #doc,
            min_size: #min_size,
            known_tags: #known_tags,
            fields: #fields,
            retired: #retired,
        };
    }
}

fn fields(strukt: &Struct, names: &Statics, statics: &[Statics]) -> Option<TokenStream> {
    let (name, count) = (&names.fields, Literal::usize_unsuffixed(strukt.fields.len()));
    let fields = strukt.fields.iter().map(|it| field(it, statics));
    (!strukt.fields.is_empty()).then(|| quote!(static #name: [FieldSchema; #count] = [#(#fields),*];))
}

fn field(field: &Field, statics: &[Statics]) -> TokenStream {
    let (name, rust_name, about) = (&field.name, &field.rust_name, &field.about);
    let ty = field_type(&field.ty, statics);
    let mut more = TokenStream::new();
    if field.versions != Versions::ALL {
        let versions = versions(field.versions);
        more.extend(quote!(versions: #versions,));
    }
    if field.nullable != When::Never {
        let nullable = versions(field.nullable_versions);
        more.extend(quote!(nullable_versions: #nullable,));
    }
    if let Some(tag) = field.tag {
        let tag = number(tag);
        let tagged = versions(field.tagged_versions);
        more.extend(quote!(tagged_versions: #tagged, tag: Some(#tag),));
    }
    if let Some(flexible) = field.flexible_versions {
        let flexible = versions(flexible);
        more.extend(quote!(flexible_versions: Some(#flexible),));
    }
    if let Some(default) = types::schema_default(field) {
        more.extend(quote!(default: #default,));
    }
    if field.ignorable {
        more.extend(quote!(ignorable: true,));
    }
    if field.map_key {
        more.extend(quote!(map_key: true,));
    }
    if more.is_empty() {
        return quote!(FieldSchema::new(#name, #rust_name, #ty, #about));
    }
    quote! {
        FieldSchema {
            name: #name,
            rust_name: #rust_name,
            ty: #ty,
            #more
            doc: #about,
            ..FieldSchema::PLAIN
        }
    }
}

fn field_type(ty: &Type, statics: &[Statics]) -> TokenStream {
    let name = format_ident!(
        "{}",
        match ty {
            Type::Bool => "Bool",
            Type::Int8 => "Int8",
            Type::Int16 => "Int16",
            Type::Uint16 => "Uint16",
            Type::Int32 => "Int32",
            Type::Uint32 => "Uint32",
            Type::Int64 => "Int64",
            Type::Float64 => "Float64",
            Type::Uuid => "Uuid",
            Type::String => "String",
            Type::Bytes => "Bytes",
            Type::Records => "Records",
            Type::Struct(index) => {
                let strukt = &statics[*index].strukt;
                return quote!(FieldType::Struct(&#strukt));
            }
            Type::Array(element) => {
                let element = field_type(element, statics);
                return quote!(FieldType::Array(&#element));
            }
        }
    );
    quote!(FieldType::#name)
}
