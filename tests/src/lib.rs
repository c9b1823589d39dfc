#[cfg(test)]
mod rules;
