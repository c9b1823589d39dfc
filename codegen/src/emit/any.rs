//! What names all messages at once: the list of their schemas, and the dispatch over their codecs.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::messages::has_response;
use super::modules::feature;
use super::{ident, imports, layout};
use crate::model::{Kind, Message, Model};
use crate::names::snake_case;
use crate::{File, Options};

/// The file `schemas.rs`.
pub(super) fn schemas(model: &Model, options: &Options) -> File {
    let schemas = every(model).map(|(feature, message)| {
        let name = name(message);
        quote!(#feature <super::#name as Message>::SCHEMA)
    });
    let items = vec![quote! {
        pub(crate) static SCHEMAS: &[&MessageSchema] = &[#(#schemas),*];
    }];
    file("schemas.rs", "The schemas of all messages that are compiled.", items, options)
}

/// The file `any.rs`.
pub(super) fn any(model: &Model, options: &Options) -> File {
    let visits = every(model).map(|(feature, message)| {
        let name = name(message);
        quote!(#feature visitor.visit::<super::#name>();)
    });
    let mut items = dispatch(model, Kind::Request, "request");
    items.extend(dispatch(model, Kind::Response, "response"));
    items.push(quote! {
        /// Shows the type of every message that is compiled to `visitor`.
        pub fn visit_messages(visitor: &mut impl MessageVisitor) {
            #(#visits)*
        }
    });
    file("any.rs", "Messages whose type is known only at run time.", items, options)
}

fn file(path: &str, title: &str, items: Vec<TokenStream>, options: &Options) -> File {
    let imports = imports(&items, &options.runtime);
    let banner = options.banner("the schemas of all messages");
    File { path: path.to_owned(), text: layout::file(&banner, title, TokenStream::new(), imports, items) }
}

/// The enum over all requests or all responses, with its codec.
fn dispatch(model: &Model, kind: Kind, word: &str) -> Vec<TokenStream> {
    let enum_name = format_ident!("Any{}", if kind == Kind::Request { "Request" } else { "Response" });
    let variants: Vec<_> =
        every(model).filter(|(_, message)| message.kind == kind).map(Variant::of).collect();
    let each = |template: fn(&Variant<'_>) -> TokenStream| -> Vec<TokenStream> {
        variants.iter().map(template).collect()
    };
    let definitions = each(|Variant { feature, message, variant, .. }| {
        let doc = format!(" [`{}`](super::{}).", message.name, message.structs[0].rust_name);
        let name = name(message);
        quote!(#[doc = #doc] #feature #variant(Box<super::#name>))
    });
    let decodes = each(
        |Variant { feature, variant, constant, .. }| quote!(#feature ApiKey::#constant => Self::#variant(Box::new(Message::decode(bytes, version)?))),
    );
    let encodes = each(
        |Variant { feature, variant, .. }| quote!(#feature Self::#variant(message) => message.encode_into(to, version)),
    );
    let lengths = each(
        |Variant { feature, variant, .. }| quote!(#feature Self::#variant(message) => message.encoded_len(version)),
    );
    let keys = each(
        |Variant { feature, variant, constant, .. }| quote!(#feature Self::#variant(_) => ApiKey::#constant),
    );
    let schemas = each(|Variant { feature, message, variant, .. }| {
        let name = name(message);
        quote!(#feature Self::#variant(_) => Some(<super::#name as Message>::SCHEMA))
    });
    let answers = variants.iter().filter(|variant| has_response(variant.message).is_some());
    let answers: Vec<_> = answers
        .map(
            |Variant { feature, variant, .. }| quote!(#feature Self::#variant(message) => Request::has_response(&**message)),
        )
        .collect();
    let has_response = (!answers.is_empty()).then(|| {
        quote! {
            /// Whether the broker answers, see [`Request::has_response`]. A request without a codec is taken for one that it
            /// does answer.
            pub fn has_response(&self) -> bool {
                match self {
                    #(#answers,)*
                    _ => true,
                }
            }
        }
    });
    let [doc, unknown_doc, decode_doc] = [
        format!(" A {word} of any API. Boxed, so that it is as small as the smallest."),
        format!(
            " A {word} of an API that has no codec here: its body as it came, in a version of the peer's."
        ),
        format!(" Decodes the body of a {word}; that of an API without a codec is kept as it is."),
    ];
    let mut items = vec![
        quote! {
            #[doc = #doc]
            #[derive(Clone, Debug, PartialEq)]
            pub enum #enum_name {
                #(#definitions,)*
                #[doc = #unknown_doc]
                Unknown {
                    /// The key of the API.
                    api_key: ApiKey,
                    /// The body.
                    body: Bytes,
                },
            }
        },
        quote! {
            impl #enum_name {
                #[doc = #decode_doc]
                ///
                /// # Errors
                ///
                /// Those of [`Message::decode`].
                pub fn decode(api_key: ApiKey, bytes: Bytes, version: i16) -> Result<Self, DecodeError> {
                    Ok(match api_key {
                        #(#decodes,)*
                        _ => Self::Unknown { api_key, body: bytes },
                    })
                }

                /// Encodes the body into a buffer of its own.
                ///
                /// # Errors
                ///
                /// Those of [`Message::encode`].
                pub fn encode(&self, version: i16) -> Result<Bytes, EncodeError> {
                    let mut bytes = Vec::with_capacity(128);
                    self.encode_into(&mut bytes, version)?;
                    Ok(bytes.into())
                }

                /// Appends the body to `to`.
                ///
                /// # Errors
                ///
                /// Those of [`Message::encode_into`]; `to` is then left as it was.
                pub fn encode_into<S: Sink>(&self, to: &mut S, version: i16) -> Result<(), EncodeError> {
                    match self {
                        #(#encodes,)*
                        Self::Unknown { body, .. } => {
                            to.put(body);
                            Ok(())
                        }
                    }
                }

                /// The exact number of bytes of the body.
                ///
                /// # Errors
                ///
                /// Those of [`Message::encoded_len`].
                pub fn encoded_len(&self, version: i16) -> Result<usize, EncodeError> {
                    match self {
                        #(#lengths,)*
                        Self::Unknown { body, .. } => Ok(body.len()),
                    }
                }

                /// The key of the API.
                pub fn api_key(&self) -> ApiKey {
                    match self {
                        #(#keys,)*
                        Self::Unknown { api_key, .. } => *api_key,
                    }
                }

                #has_response

                /// The schema of the message; `None` if it has no codec here.
                pub fn schema(&self) -> Option<&'static MessageSchema> {
                    match self {
                        #(#schemas,)*
                        Self::Unknown { .. } => None,
                    }
                }
            }
        },
    ];
    items.extend(variants.iter().map(|Variant { feature, message, variant, .. }| {
        let name = name(message);
        quote! {
            #feature
            impl From<super::#name> for #enum_name {
                fn from(message: super::#name) -> Self {
                    Self::#variant(Box::new(message))
                }
            }
        }
    }));
    items
}

/// One message in a dispatch.
struct Variant<'a> {
    feature: Option<TokenStream>,
    message: &'a Message,
    variant: Ident,
    constant: Ident,
}

impl<'a> Variant<'a> {
    fn of((feature, message): (Option<TokenStream>, &'a Message)) -> Self {
        let name = message.name.strip_suffix("Request").or_else(|| message.name.strip_suffix("Response"));
        let name = name.unwrap_or(&message.name);
        Self {
            feature,
            message,
            variant: format_ident!("{name}"),
            constant: format_ident!("{}", snake_case(name).to_ascii_uppercase()),
        }
    }
}

/// Every message with the feature that it takes.
fn every(model: &Model) -> impl Iterator<Item = (Option<TokenStream>, &Message)> {
    model.families.iter().flat_map(|family| {
        let feature = family.name.as_deref().and_then(feature);
        family.messages.iter().map(move |message| (feature.clone(), message))
    })
}

fn name(message: &Message) -> Ident {
    ident(&message.structs[0].rust_name)
}
