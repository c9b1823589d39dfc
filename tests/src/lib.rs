//! What proves the workspace: golden bytes, snapshots, hostile input, the generator's errors, freshness.

#[rustfmt::skip] // as the generator laid it out
pub mod kip_1222;

#[cfg(test)]
mod rules;
