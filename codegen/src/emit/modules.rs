//! The `mod.rs` of the output folder and of each family.

use proc_macro2::TokenStream;
use quote::quote;

use super::{ident, layout};
use crate::model::{Family, Message, Model};
use crate::{File, Options};

/// The family that is no Cargo feature, as nothing works without its messages.
const ALWAYS_ON: &str = "core";

/// The top: families, and messages that belong to none; every message is also exported here.
pub(super) fn root(model: &Model, options: &Options) -> File {
    let named = model.families.iter().filter(|family| !family.messages.is_empty());
    let named = named.filter_map(|family| family.name.as_deref());
    let (named_modules, named_exports): (TokenStream, TokenStream) = named
        .map(|name| {
            let feature = feature(name).filter(|_| options.protocol);
            let name = ident(name);
            (quote!(#feature pub mod #name;), quote!(#feature pub use self::#name::*;))
        })
        .unzip();
    let (whole, whole_exports) = if options.protocol {
        (
            quote! {
                #[cfg(feature = "any")]
                mod any;
                pub(crate) mod apis;
                pub(crate) mod schemas;
            },
            quote! {
                #[cfg(feature = "any")]
                pub use self::any::{AnyRequest, AnyResponse, visit_messages};
            },
        )
    } else {
        Default::default()
    };
    let flat = model.families.iter().filter(|family| family.name.is_none()).flat_map(|it| &it.messages);
    let (modules, exports) = of(flat);
    File {
        path: "mod.rs".to_owned(),
        text: layout::file(
            &options.banner("the schemas of all messages"),
            "The messages, each in a module of its own that also has the structs inside it.",
            quote!(#whole #named_modules #modules),
            quote!(#whole_exports #named_exports #exports),
            Vec::new(),
        ),
    }
}

/// The attribute that compiles what belongs to a family of the runtime crate itself.
pub(super) fn feature(family: &str) -> Option<TokenStream> {
    (family != ALWAYS_ON).then(|| quote!(#[cfg(feature = #family)]))
}

/// The module of a family, unless all of its APIs are removed.
pub(super) fn family(family: &Family, options: &Options) -> Option<File> {
    let name = family.name.as_ref().filter(|_| !family.messages.is_empty())?;
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
