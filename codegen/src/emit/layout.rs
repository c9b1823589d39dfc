//! Tokens to text, laid out as a person would.

use proc_macro2::TokenStream;

/// The text of a file: banner, title, modules, imports, then the items with a blank line between each two.
pub(super) fn file(
    banner: &str,
    title: &str,
    modules: TokenStream,
    imports: TokenStream,
    items: Vec<TokenStream>,
) -> String {
    let mut text = format!("// {banner}\n\n//! {title}\n");
    for group in [modules, imports] {
        let group = print(group);
        if !group.is_empty() {
            text.push('\n');
            text.push_str(&group);
        }
    }
    for item in items {
        text.push('\n');
        text.push_str(&spaced(&print(item)));
    }
    text
}

/// Tokens as `prettyplease` prints them: without blank lines.
fn print(tokens: TokenStream) -> String {
    match syn::parse2(tokens) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => unreachable!("templates give Rust: {error}"),
    }
}

/// Adds a blank line before each documented field and each function that is not the first of its block.
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 256);
    let mut before = "";
    for line in text.lines() {
        let code = line.trim_start();
        let attribute = code.starts_with("#[") && !code.starts_with("#[cfg(");
        let starts = code.starts_with("///") || attribute || code.starts_with("fn ");
        let goes_on = before.is_empty() || before.ends_with('{') || is_outer(before);
        if starts && !goes_on {
            spaced.push('\n');
        }
        spaced.push_str(line);
        spaced.push('\n');
        before = code;
    }
    spaced
}

/// Whether a line belongs to the item behind it.
fn is_outer(line: &str) -> bool {
    line.starts_with("///") || line.starts_with("#[")
}
