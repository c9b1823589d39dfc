//! The table of APIs behind the runtime's `ApiKey`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{imports, layout, messages, types, versions};
use crate::model::{Kind, Listener, Message, Model, RemovedApi};
use crate::names::snake_case;
use crate::versions::Versions;
use crate::{File, Options};

/// The file `apis.rs`.
pub(super) fn file(model: &Model, options: &Options) -> File {
    let apis = apis(model);
    let consts = apis.iter().map(|api| {
        let (key, name, constant) = (types::signed(api.key.into()), api.name, api.constant());
        let doc = match api.request {
            Some(request) => format!(" {name}, versions {}.", request.valid),
            None => format!(" {name}, which Kafka has removed."),
        };
        quote! {
            #[doc = #doc]
            pub const #constant: Self = Self(#key);
        }
    });
    let rows = apis.iter().map(Api::row);
    let items = vec![
        quote! {
            impl ApiKey {
                #(#consts)*
            }
        },
        quote! {
            pub(crate) static APIS: &[Api] = &[#(#rows),*];
        },
    ];
    let imports = imports(&items, &options.runtime);
    File {
        path: "apis.rs".to_owned(),
        text: layout::file(
            &options.banner("the schemas of all messages"),
            "The APIs in ascending order of their keys.",
            TokenStream::new(),
            imports,
            items,
        ),
    }
}

/// An API; `request` and `response` are there unless it has been removed.
struct Api<'a> {
    key: i16,
    name: &'a str,
    request: Option<&'a Message>,
    response: Option<&'a Message>,
}

/// All of them by key.
fn apis(model: &Model) -> Vec<Api<'_>> {
    let messages = || model.families.iter().flat_map(|family| &family.messages);
    let responses = || messages().filter(|message| message.kind == Kind::Response);
    let living = messages().filter(|message| message.kind == Kind::Request).filter_map(|request| {
        let key = request.api_key?;
        let response = responses().find(|response| response.api_key == Some(key));
        Some(Api { key, name: api_name(&request.name), request: Some(request), response })
    });
    let removed = model.families.iter().flat_map(|family| &family.removed);
    let removed =
        removed.filter(|api| api.kind == Kind::Request).map(|RemovedApi { name, api_key, .. }| Api {
            key: *api_key,
            name: api_name(name),
            request: None,
            response: None,
        });
    let mut apis: Vec<_> = living.chain(removed).collect();
    apis.sort_by_key(|api| api.key);
    apis
}

fn api_name(request: &str) -> &str {
    request.strip_suffix("Request").unwrap_or(request)
}

impl Api<'_> {
    fn constant(&self) -> Ident {
        format_ident!("{}", snake_case(self.name).to_ascii_uppercase())
    }

    fn row(&self) -> TokenStream {
        let (name, constant) = (self.name, self.constant());
        let valid = versions(self.request.map_or(Versions::NONE, |request| request.valid));
        let flexible = versions(self.request.map_or(Versions::NONE, |request| request.flexible));
        let unstable = self.request.is_some_and(|request| request.latest_version_unstable);
        let request_header = headers(self.request, &format_ident!("of_request"));
        let response_header = headers(self.response, &format_ident!("of_response"));
        let listeners = self.request.map_or(&[][..], |request| &request.listeners).iter().map(|listener| {
            let name = match listener {
                Listener::ZkBroker => quote!(ZkBroker),
                Listener::Broker => quote!(Broker),
                Listener::Controller => quote!(Controller),
            };
            quote!(Listener::#name)
        });
        quote! {
            Api {
                key: ApiKey::#constant,
                name: #name,
                versions: #valid,
                latest_version_unstable: #unstable,
                flexible_versions: #flexible,
                request_header: #request_header,
                response_header: #response_header,
                listeners: &[#(#listeners),*],
            }
        }
    }
}

/// The headers of a message, by the general rule unless the message is an exception.
fn headers(message: Option<&Message>, rule: &Ident) -> TokenStream {
    message.and_then(messages::header_versions).unwrap_or_else(|| {
        let flexible = versions(message.map_or(Versions::NONE, |message| message.flexible));
        quote!(HeaderVersions::#rule(#flexible))
    })
}
