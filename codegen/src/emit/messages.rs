//! What a message is as a whole: versions, API key, header version, partner.

use proc_macro2::TokenStream;
use quote::quote;

use super::{ident, number, types};
use crate::model::{Family, Kind, Message, Partner};
use crate::versions::Versions;

/// The impls of the traits for whole messages.
pub(super) fn impls(family: &Family, message: &Message) -> Vec<TokenStream> {
    let name = types::struct_name(message, 0);
    let mut impls = vec![quote! {
        impl Message for #name {
            const SCHEMA: &'static MessageSchema = &schema::SCHEMA;
        }
    }];
    let role = match message.kind {
        Kind::Request => quote!(Request),
        Kind::Response => quote!(Response),
        _ => return impls,
    };
    if let Some(key) = message.api_key {
        let key = types::signed(key.into());
        let headers =
            header_versions(message).map(|headers| quote!(const HEADER_VERSIONS: HeaderVersions = #headers;));
        let has_response = has_response(message);
        impls.push(quote! {
            impl #role for #name {
                const API_KEY: ApiKey = ApiKey(#key);
                #headers
                #has_response
            }
        });
    }
    if let (Kind::Request, Some(response)) = (message.kind, &message.partner) {
        let path = partner_path(family, response);
        impls.push(quote! {
            impl Rpc for #name {
                type Response = #path;
            }
        });
    }
    impls
}

/// The other half of an API, seen from a module of `family`.
pub(super) fn partner_path(family: &Family, partner: &Partner) -> TokenStream {
    let name = ident(&partner.rust_name);
    // Families and the top of them all export every message.
    if family.name.is_none() || family.name == partner.family {
        quote!(super::#name)
    } else {
        quote!(super::super::#name)
    }
}

/// When a request is answered, if that is not always: a ProduceRequest whose sender wants no acknowledgement is not.
pub(super) fn has_response(message: &Message) -> Option<TokenStream> {
    let is_produce = message.kind == Kind::Request && message.api_key == Some(0);
    let acks = message.structs[0].fields.iter().find(|field| is_produce && field.name == "Acks")?;
    let acks = ident(&acks.rust_name);
    Some(quote! {
        #[inline]
        fn has_response(&self) -> bool {
            self.#acks != 0
        }
    })
}

/// The headers of a message, if the general rule does not tell them.
pub(super) fn header_versions(message: &Message) -> Option<TokenStream> {
    let ranges = exceptions(message)?;
    let [earlier @ .., (_, last)] = ranges.as_slice() else {
        return None;
    };
    let last = number(*last);
    if earlier.is_empty() {
        return Some(quote!(HeaderVersions::always(#last)));
    }
    let earlier = earlier.iter().map(|(versions, header)| {
        let (high, header) = (number(versions.high()), number(*header));
        quote!((#high, #header))
    });
    Some(quote!(HeaderVersions::ranges(&[#(#earlier),*], #last)))
}

/// Header versions that differ from the general rule: those of the schema, or those of two APIs that are older than
/// such schemas.
fn exceptions(message: &Message) -> Option<Vec<(Versions, i16)>> {
    if !message.header_versions.is_empty() {
        return Some(message.header_versions.clone());
    }
    match (message.kind, message.api_key) {
        // The receiver of an ApiVersionsResponse cannot know yet what the sender supports (KIP-511).
        (Kind::Response, Some(18)) => Some(vec![(Versions::ALL, 0)]),
        // ControlledShutdownRequest v0 had no client id; the API was removed in Kafka 4.0.
        (Kind::Request, Some(7)) => {
            let flexible = message.flexible;
            let mut ranges = vec![(Versions::new(0, 0), 0)];
            if flexible.is_empty() {
                ranges.push((Versions::since(1), 1));
            } else {
                ranges.push((Versions::new(1, flexible.low() - 1), 1));
                ranges.push((flexible, 2));
            }
            ranges.retain(|range| !range.0.is_empty());
            Some(ranges)
        }
        _ => None,
    }
}
