//! Model in, Rust text out. Nothing here can fail: what a schema can get wrong, `check` has refused.

mod any;
mod apis;
mod codec;
mod docs;
mod layout;
mod messages;
mod modules;
mod schema;
mod structs;
mod types;

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::Path;

use crate::model::{Family, Message, Model};
use crate::versions::{Versions, When};
use crate::{File, Options};

/// The files of a whole set: one per message with its codec, one with its schema, a `mod.rs` per folder.
pub(crate) fn emit(model: &Model, options: &Options) -> Vec<File> {
    let mut files = vec![modules::root(model, options)];
    if options.protocol {
        files.extend([apis::file(model, options), any::schemas(model, options), any::any(model, options)]);
    }
    for family in &model.families {
        files.extend(modules::family(family, options));
        for message in &family.messages {
            files.push(message_file(family, message, options));
            files.push(schema::file(family, message, options));
        }
    }
    files
}

/// Structs and codec of a message, in the order in which a reader wants them.
fn message_file(family: &Family, message: &Message, options: &Options) -> File {
    let [root, inner @ ..] = message.structs.as_slice() else {
        unreachable!("a message is its own first struct");
    };
    let mut items = vec![structs::definition(message, root, docs::message(family, message))];
    items.extend(structs::default(message, root));
    items.extend(messages::impls(family, message));
    items.push(codec::codec(message, root));
    for strukt in inner {
        items.push(structs::definition(message, strukt, docs::nested_struct(message, strukt)));
        items.extend(structs::default(message, strukt));
        items.push(codec::codec(message, strukt));
    }
    let imports = imports(&items, &options.runtime);
    let title = format!("[`{}`] and the structs inside it.", message.structs[0].rust_name);
    let title = if inner.is_empty() { format!("[`{}`].", message.structs[0].rust_name) } else { title };
    File {
        path: format!("{}{}.rs", folder(family), message.module),
        text: layout::file(
            &options.banner(&message.source),
            &title,
            // A message may be called `Schema` itself.
            match message.module.as_str() {
                "schema" => quote!(
                    #[allow(
                        clippy::module_inception,
                        reason = "a message has this name, and its schema is in a module called so"
                    )]
                    mod schema;
                ),
                _ => quote!(
                    mod schema;
                ),
            },
            imports,
            items,
        ),
    }
}

/// The folder of a family, with a slash at the end, or nothing.
fn folder(family: &Family) -> String {
    family.name.as_ref().map(|name| format!("{name}/")).unwrap_or_default()
}

/// Imports of what the items mention, of all that generated code may mention.
fn imports(items: &[TokenStream], runtime: &Path) -> TokenStream {
    const PROTOCOL: &str = "AcknowledgeType Api ApiKey DecodeError EncodeError ErrorCode HeaderVersions Listener Message \
                            MessageSchema MessageVisitor Request \
                            Response Rpc Versions";
    const SCHEMA: &str = "DefaultValue FieldSchema FieldType MessageKind StructSchema";
    const WIRE: &str = "Bytes Codec Fault Reader Sink SmallVec Str TaggedFields Uuid Writer";
    let mut mentioned = BTreeSet::new();
    for item in items {
        collect(item.clone(), &mut mentioned);
    }
    let used = |names: &str| -> Vec<Ident> {
        let used = names.split(' ').filter(|name| mentioned.contains(*name));
        used.map(|name| format_ident!("{name}")).collect()
    };
    let group = |path: TokenStream, names: &[Ident]| match names {
        [] => None,
        [name] => Some(quote!(use #runtime::#path::#name;)),
        names => Some(quote!(use #runtime::#path::{#(#names),*};)),
    };
    let protocol = group(quote!(protocol), &used(PROTOCOL));
    let schema = group(quote!(protocol::schema), &used(SCHEMA));
    let wire = group(quote!(wire), &used(WIRE));
    quote!(#protocol #schema #wire)
}

fn collect(tokens: TokenStream, into: &mut BTreeSet<String>) {
    let mut colons = 0;
    let mut names_a_type = false;
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                continue;
            }
            // What follows two colons is the rest of a path, which needs no import.
            TokenTree::Ident(ident) if colons < 2 && !names_a_type => drop(into.insert(ident.to_string())),
            TokenTree::Group(group) => collect(group.stream(), into),
            _ => {}
        }
        names_a_type = matches!(&token, TokenTree::Ident(ident) if ident == "type");
        colons = 0;
    }
}

/// A name as an identifier, raw if it is a keyword.
fn ident(name: &str) -> Ident {
    match syn::parse_str(name) {
        // A keyword since edition 2024, which `syn` does not know of.
        Ok(ident) if ident != "gen" => ident,
        _ => Ident::new_raw(name, Span::call_site()),
    }
}

/// The test of `when` on the version that `of` knows; `None` if it is always true.
fn condition(when: When, of: &TokenStream) -> Option<TokenStream> {
    Some(match when {
        When::Always => return None,
        When::Never => quote!(false),
        When::Since(low) => compare(of, &quote!(>=), low),
        When::Until(high) => compare(of, &quote!(<=), high),
        When::Only(only) => compare(of, &quote!(==), only),
        When::Between(low, high) => between(of, low, high),
    })
}

/// The opposite of [`condition`]; `None` if it is never true.
fn negated(when: When, of: &TokenStream) -> Option<TokenStream> {
    Some(match when {
        When::Always => return None,
        When::Never => quote!(true),
        When::Since(low) => compare(of, &quote!(<), low),
        When::Until(high) => compare(of, &quote!(>), high),
        When::Only(only) => compare(of, &quote!(!=), only),
        When::Between(low, high) => {
            let between = between(of, low, high);
            quote!(!#between)
        }
    })
}

fn compare(of: &TokenStream, operator: &TokenStream, version: i16) -> TokenStream {
    let version = number(version);
    quote!(#of.version() #operator #version)
}

fn between(of: &TokenStream, low: i16, high: i16) -> TokenStream {
    let (low, high) = (number(low), number(high));
    quote!((#low..=#high).contains(&#of.version()))
}

/// A range as the runtime's type.
fn versions(versions: Versions) -> TokenStream {
    let (low, high) = (number(versions.low()), number(versions.high()));
    if versions.is_empty() {
        quote!(Versions::NONE)
    } else if versions.is_open_ended() {
        quote!(Versions::since(#low))
    } else {
        quote!(Versions::new(#low, #high))
    }
}

/// A number without a suffix.
fn number(number: impl Into<i64>) -> proc_macro2::Literal {
    proc_macro2::Literal::i64_unsuffixed(number.into())
}
