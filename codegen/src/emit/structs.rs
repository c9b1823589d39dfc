//! Structs and their defaults.

use proc_macro2::TokenStream;
use quote::quote;

use super::{docs, ident, types};
use crate::model::{Message, Struct};

/// The struct with its docs.
pub(super) fn definition(message: &Message, strukt: &Struct, doc: TokenStream) -> TokenStream {
    let name = ident(&strukt.rust_name);
    let derive_default = has_rust_default(strukt).then(|| quote!(Default,));
    let fields = strukt.fields.iter().map(|field| {
        let doc = docs::field(strukt, field);
        let name = ident(&field.rust_name);
        let ty = types::field_type(message, field);
        quote! {
            #doc
            pub #name: #ty,
        }
    });
    quote! {
        #doc
        #[derive(Clone, Debug, #derive_default PartialEq)]
        pub struct #name {
            #(#fields)*
            /// Tagged fields that the schema does not know.
            pub unknown_tagged_fields: TaggedFields,
        }
    }
}

/// The schema's defaults, if they are others than Rust's.
pub(super) fn default(message: &Message, strukt: &Struct) -> Option<TokenStream> {
    if has_rust_default(strukt) {
        return None;
    }
    let name = ident(&strukt.rust_name);
    let fields = strukt.fields.iter().map(|field| {
        let name = ident(&field.rust_name);
        let value = types::default_value(message, field);
        quote!(#name: #value)
    });
    Some(quote! {
        impl Default for #name {
            #[inline]
            fn default() -> Self {
                Self {
                    #(#fields,)*
                    unknown_tagged_fields: TaggedFields::default(),
                }
            }
        }
    })
}

fn has_rust_default(strukt: &Struct) -> bool {
    strukt.fields.iter().all(types::has_rust_default)
}
