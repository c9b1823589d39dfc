//! `read` and `write`: the fields of a struct in the order of the wire, one mirroring the other.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{condition, ident, negated, types};
use crate::model::{Default, Field, Message, Struct, Type};
use crate::versions::When;

/// The codec of a struct.
pub(super) fn codec(message: &Message, strukt: &Struct) -> TokenStream {
    let name = ident(&strukt.rust_name);
    let min_size = Literal::usize_unsuffixed(strukt.min_size);
    let steps = steps(strukt);
    let reads = steps.iter().map(|step| read_step(message, strukt, step));
    let writes = steps.iter().map(|step| write_step(message, strukt, step));
    let tags = Tags::of(message, strukt);
    let (read_tags, write_tags) = (tags.read(), tags.write());
    quote! {
        impl Codec for #name {
            const MIN_SIZE: usize = #min_size;

            #[inline]
            fn read(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
                #(#reads)*
                #read_tags
            }

            #[inline(always)]
            fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault> {
                #(#writes)*
                #write_tags
            }
        }
    }
}

/// What is read or written at once.
enum Step<'a> {
    /// Consecutive fields of fixed width that exist in the same versions: one bounds check, one append.
    Run(Vec<&'a Field>),
    /// Any other field.
    One(&'a Field),
}

/// The runtime composes a run in so many bytes,
const RUN_SIZE: usize = 64;
/// and has tuples of so many fields.
const RUN_FIELDS: usize = 12;

/// The fields that can travel inline, as steps.
fn steps(strukt: &Struct) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for field in strukt.fields.iter().filter(|field| !is_only_tagged(field)) {
        // A field that moves into the tag section has two conditions, so it stays alone.
        let Some(size) = field.ty.fixed_size().filter(|_| field.tag.is_none()) else {
            steps.push(Step::One(field));
            continue;
        };
        match steps.last_mut() {
            Some(Step::Run(run))
                if run[0].inline == field.inline
                    && run.len() < RUN_FIELDS
                    && run.iter().filter_map(|field| field.ty.fixed_size()).sum::<usize>() + size
                        <= RUN_SIZE =>
            {
                run.push(field);
            }
            _ => steps.push(Step::Run(vec![field])),
        }
    }
    steps
}

/// Whether a field has its place in the tag section alone. Checks of such fields come after those of all others,
/// which the runtime counts on when it explains an error.
fn is_only_tagged(field: &Field) -> bool {
    field.inline == When::Never
}

fn read_step(message: &Message, strukt: &Struct, step: &Step<'_>) -> TokenStream {
    let r = quote!(r);
    match step {
        Step::Run(run) => {
            let places = tuple(run.iter().map(|field| place(field)));
            match condition(run[0].inline, &r) {
                None => quote!(#places = r.fixed()?;),
                Some(condition) => {
                    let defaults = tuple(run.iter().map(|field| types::default_value(message, field)));
                    quote!(#places = if #condition { r.fixed()? } else { #defaults };)
                }
            }
        }
        Step::One(field) => {
            let read = read_inline(strukt, field);
            match condition(field.inline, &r) {
                None => read,
                Some(condition) => {
                    let reset = reset(message, field);
                    quote!(if #condition { #read } else { #reset })
                }
            }
        }
    }
}

/// Reads a field that is there.
fn read_inline(strukt: &Struct, field: &Field) -> TokenStream {
    let place = place(field);
    let [plain, nullable] = verbs(&field.ty);
    let present = if field.is_option() { quote!(#place.get_or_insert_default()) } else { place.clone() };
    let plain = match &field.ty {
        Type::Struct(_) => quote!(#present.read(r)),
        ty if ty.fixed_size().is_some() => quote!(#present.read(r)),
        _ if field.is_option() => quote!(r.#plain(#present)),
        _ => quote!(r.#plain(&mut #present)),
    };
    let nullable = quote!(r.#nullable(&mut #place));
    alternatives(strukt, field, &quote!(r), plain, nullable)
}

fn write_step(message: &Message, strukt: &Struct, step: &Step<'_>) -> TokenStream {
    let w = quote!(w);
    match step {
        Step::Run(run) => {
            let places = tuple(run.iter().map(|field| place(field)));
            let write = quote!(w.fixed(#places););
            match condition(run[0].inline, &w) {
                None => write,
                Some(condition) => {
                    let checks: Vec<_> = run.iter().filter_map(|field| check(message, field)).collect();
                    let otherwise = (!checks.is_empty()).then(|| quote!(else { #(#checks)* }));
                    quote!(if #condition { #write } #otherwise)
                }
            }
        }
        Step::One(field) => {
            let write = write_inline(strukt, field);
            let check = check(message, field);
            match (condition(field.inline, &w), check) {
                (None, _) => write,
                (Some(condition), None) => quote!(if #condition { #write }),
                (Some(condition), Some(check)) if field.tag.is_none() => {
                    quote!(if #condition { #write } else { #check })
                }
                (Some(condition), Some(check)) => {
                    let check = negated(field.present, &w).map(|absent| quote!(if #absent { #check }));
                    quote!(if #condition { #write } #check)
                }
            }
        }
    }
}

/// Writes a field that is there.
fn write_inline(strukt: &Struct, field: &Field) -> TokenStream {
    let place = place(field);
    let [plain, nullable] = verbs(&field.ty);
    let present = if field.is_option() { quote!(#place.as_ref().ok_or(Fault::Null)?) } else { place.clone() };
    let plain = match &field.ty {
        // A struct may have no bytes by which its absence would be found.
        Type::Struct(_) if field.is_option() => quote!(w.present(&#place)?.write(w)),
        Type::Struct(_) => quote!(#present.write(w)),
        ty if ty.fixed_size().is_some() => quote!(#present.write(w)),
        _ if field.is_option() => quote!(w.#plain(#present)),
        _ => quote!(w.#plain(&#present)),
    };
    let nullable = quote!(w.#nullable(&#place));
    alternatives(strukt, field, &quote!(w), plain, nullable)
}

/// What the cursors call a value that is never null, and one that may be; they have the same names for both directions.
fn verbs(ty: &Type) -> [TokenStream; 2] {
    match ty {
        Type::String => [quote!(string), quote!(nullable_string)],
        Type::Bytes | Type::Records => [quote!(bytes), quote!(nullable_bytes)],
        Type::Array(_) => [quote!(array), quote!(nullable_array)],
        // Values of other types read and write themselves when they are never null.
        _ => [TokenStream::new(), quote!(nullable_struct)],
    }
}

/// The statement that uses `plain` or `nullable`, whichever the version asks for, in the field's own form.
fn alternatives(
    strukt: &Struct,
    field: &Field,
    cursor: &TokenStream,
    plain: TokenStream,
    nullable: TokenStream,
) -> TokenStream {
    let inline_versions = match field.tag {
        Some(_) => strukt.context.intersect(field.versions).before(field.tagged_versions.low()),
        None => strukt.context.intersect(field.versions),
    };
    let when = field.nullable_versions.when(inline_versions);
    let (call, is_if) = match condition(when, cursor) {
        None => (nullable, false),
        Some(_) if when == When::Never => (plain, false),
        Some(condition) if field.flexible_versions.is_some() => {
            (quote!(if #condition { #nullable } else { #plain }), false)
        }
        Some(condition) => (quote!(if #condition { #nullable?; } else { #plain?; }), true),
    };
    if is_if {
        return call;
    }
    match field.flexible_versions {
        None => quote!(#call?;),
        Some(versions) => {
            let flexible = condition(versions.when(inline_versions), cursor).unwrap_or(quote!(true));
            quote!(#cursor.flexible_when(#flexible, |#cursor| #call)?;)
        }
    }
}

/// Gives a field that is not there its default, and keeps its buffer.
fn reset(message: &Message, field: &Field) -> TokenStream {
    let place = place(field);
    let is_empty = match &field.default {
        Default::String(text) => text.is_empty(),
        Default::Empty => !matches!(field.ty, Type::Struct(_)),
        _ => false,
    };
    if is_empty && !field.is_option() {
        return quote!(#place.clear(););
    }
    let value = types::default_value(message, field);
    quote!(#place = #value;)
}

/// The check that a field has its default, if a version that lacks it must not drop it.
fn check(message: &Message, field: &Field) -> Option<TokenStream> {
    if field.ignorable || field.present == When::Always {
        return None;
    }
    let place = place(field);
    let is_default = match field.default {
        // Not as in Kafka, which compares by value and so refuses the default as well.
        Default::Float(it) if it.is_nan() => quote!(#place.is_nan()),
        _ => types::is_default(message, field, &place),
    };
    Some(quote!(w.absent(#is_default)?;))
}

/// The runtime tells of so many tags whether a section had them.
const TRACKED_TAGS: u32 = 64;

/// The tag section at the end of a struct.
struct Tags<'a> {
    message: &'a Message,
    strukt: &'a Struct,
    /// Those that some version has in the section, in ascending order of their tags.
    fields: Vec<(u32, &'a Field)>,
}

impl<'a> Tags<'a> {
    fn of(message: &'a Message, strukt: &'a Struct) -> Self {
        let fields = strukt.fields.iter().filter(|field| field.tagged != When::Never);
        let mut fields: Vec<_> = fields.filter_map(|field| field.tag.map(|tag| (tag, field))).collect();
        fields.sort_by_key(|field| field.0);
        Self { message, strukt, fields }
    }

    fn read(&self) -> TokenStream {
        if self.strukt.known_tags == 0 {
            return quote!(r.tagged_fields(&mut self.unknown_tagged_fields));
        }
        let resets = self.fields.iter().filter(|(_, field)| is_only_tagged(field));
        let (tracked, untracked): (Vec<_>, Vec<_>) =
            resets.partition(|(tag, field)| *tag < TRACKED_TAGS && field.ty.fixed_size().is_none());
        let untracked = untracked.into_iter().map(|(_, field)| reset(self.message, field));
        let tracked = tracked.into_iter().map(|(tag, field)| {
            let (tag, reset) = (Literal::u32_unsuffixed(tag), reset(self.message, field));
            quote!(if !seen.has(#tag) { #reset })
        });
        let known = Literal::u32_unsuffixed(self.strukt.known_tags);
        let arms = self.fields.iter().map(|(tag, field)| {
            let tag = Literal::u32_unsuffixed(*tag);
            let guard = condition(self.when(field), &quote!(r)).map(|condition| quote!(if #condition));
            let read = Self::read_field(field);
            quote!(#tag #guard => #read)
        });
        if self.fields.is_empty() {
            let refusal = quote!(|_, _| Err(Fault::TagNotInVersion));
            return quote! {
                r.tags(#known, &mut self.unknown_tagged_fields, #refusal)?;
                Ok(())
            };
        }
        let seen = (tracked.len() > 0).then(|| quote!(let seen =));
        quote! {
            #(#untracked)*
            #seen r.tags(#known, &mut self.unknown_tagged_fields, |tag, r| match tag {
                #(#arms,)*
                _ => Err(Fault::TagNotInVersion),
            })?;
            #(#tracked)*
            Ok(())
        }
    }

    /// When a field is in the section, as there is one.
    fn when(&self, field: &Field) -> When {
        field.tagged_versions.when(self.strukt.context.intersect(self.message.flexible))
    }

    fn read_field(field: &Field) -> TokenStream {
        let place = place(field);
        match &field.ty {
            Type::Struct(_) if is_nullable_tag(field) => quote!(r.tagged_struct(&mut #place)),
            _ if field.is_option() && !is_nullable_tag(field) => {
                quote!(#place.get_or_insert_default().read(r))
            }
            _ => quote!(#place.read(r)),
        }
    }

    fn write(&self) -> TokenStream {
        if self.strukt.known_tags == 0 {
            return quote!(w.tagged_fields(&self.unknown_tagged_fields));
        }
        let w = quote!(w);
        let checks = self
            .strukt
            .fields
            .iter()
            .filter(|field| is_only_tagged(field))
            .filter_map(|field| Some((Some(negated(field.present, &w)?), check(self.message, field)?)));
        let checks = blocks(checks.collect());
        let never_null = self
            .strukt
            .fields
            .iter()
            .filter(|field| field.tagged != When::Never && field.is_option() && !is_nullable_tag(field));
        let presence = never_null.map(|field| {
            let place = place(field);
            (condition(field.tagged, &w), quote!(w.present(&#place)?;))
        });
        let presence = blocks(presence.collect());
        let known = Literal::u32_unsuffixed(self.strukt.known_tags);
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(tag, field)| (condition(self.when(field), &quote!(tags)), self.write_field(*tag, field)))
            .collect();
        let list = match fields.as_slice() {
            [] => quote!(Ok(())),
            [(None, only)] => quote!(#only),
            fields => {
                let fields = fields.iter().map(|(condition, write)| (condition.clone(), quote!(#write?;)));
                let fields = blocks(fields.collect());
                quote!({ #(#fields)* Ok(()) })
            }
        };
        let tags = if self.fields.is_empty() { quote!(_) } else { quote!(tags) };
        quote! {
            #(#checks)*
            #(#presence)*
            w.tags(#known, &self.unknown_tagged_fields, |#tags| #list)
        }
    }

    fn write_field(&self, tag: u32, field: &Field) -> TokenStream {
        let place = place(field);
        let tag = Literal::u32_unsuffixed(tag);
        let is_default = types::is_default(self.message, field, &place);
        match &field.ty {
            Type::Struct(_) if is_nullable_tag(field) => {
                quote!(tags.nullable_struct(#tag, #is_default, &#place))
            }
            _ if field.is_option() && !is_nullable_tag(field) => {
                quote!(tags.field(#tag, #is_default, #place.as_ref().ok_or(Fault::Null)?))
            }
            _ => quote!(tags.field(#tag, #is_default, &#place)),
        }
    }
}

/// Whether null is allowed in the tag section; it is so in all tagged versions or in none.
fn is_nullable_tag(field: &Field) -> bool {
    !field.nullable_versions.intersect(field.tagged_versions).is_empty()
}

fn place(field: &Field) -> TokenStream {
    let name = ident(&field.rust_name);
    quote!(self.#name)
}

/// Statements, each with its condition; neighbours with the same one share a block.
fn blocks(statements: Vec<(Option<TokenStream>, TokenStream)>) -> Vec<TokenStream> {
    let text = |condition: &Option<TokenStream>| condition.as_ref().map(ToString::to_string);
    let same = statements.chunk_by(|a, b| text(&a.0) == text(&b.0));
    same.map(|same| {
        let statements = same.iter().map(|(_, statement)| statement);
        match &same[0].0 {
            None => quote!(#(#statements)*),
            Some(condition) => quote!(if #condition { #(#statements)* }),
        }
    })
    .collect()
}

/// A tuple of several, or the only one.
fn tuple(items: impl Iterator<Item = TokenStream>) -> TokenStream {
    let items: Vec<_> = items.collect();
    match items.as_slice() {
        [only] => quote!(#only),
        items => quote!((#(#items),*)),
    }
}
