//! The `mod.rs` of the output folder and of each family.

use proc_macro2::TokenStream;
use quote::quote;

use super::{ident, layout};
use crate::model::{Family, Message, Model};
use crate::{File, Options};

/// The top: families, and messages that belong to none; every message is also exported here.
pub(super) fn root(model: &Model, options: &Options) -> File {
    let named = model.families.iter().filter_map(|family| family.name.as_deref()).map(ident);
    let named: Vec<_> = named.collect();
    let flat = model.families.iter().filter(|family| family.name.is_none()).flat_map(|it| &it.messages);
    let (modules, exports) = of(flat);
    File {
        path: "mod.rs".to_owned(),
        text: layout::file(
            &options.banner("the schemas of all messages"),
            "The messages, each in a module of its own that also has the structs inside it.",
            quote!(#(pub mod #named;)* #modules),
            quote!(#(pub use self::#named::*;)* #exports),
            Vec::new(),
        ),
    }
}

/// The module of a family.
pub(super) fn family(family: &Family, options: &Options) -> Option<File> {
    let name = family.name.as_ref()?;
    let (modules, exports) = of(&family.messages);
    Some(File {
        path: format!("{name}/mod.rs"),
        text: layout::file(
            &options.banner(&format!("{name}/*.json")),
            &format!("The messages of the family `{name}`."),
            modules,
            exports,
            Vec::new(),
        ),
    })
}

fn of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> (TokenStream, TokenStream) {
    let mut modules = TokenStream::new();
    let mut exports = TokenStream::new();
    for message in messages {
        let module = ident(&message.module);
        let name = ident(&message.structs[0].rust_name);
        modules.extend(quote!(pub mod #module;));
        exports.extend(quote!(pub use self::#module::#name;));
    }
    (modules, exports)
}
