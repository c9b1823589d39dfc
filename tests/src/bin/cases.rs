//! `cargo xtask cases`
fn main() {}
