//! What proves the workspace: golden bytes, snapshots, hostile input, the generator's errors, freshness.

pub mod e2e;
#[rustfmt::skip] // as the generator laid it out
pub mod features;
#[rustfmt::skip] // as the generator laid it out
pub mod kip_1222;
pub mod program;
mod random;
pub mod records;
pub mod reports;
mod share_fetch_codes;
pub mod vectors;
pub mod walks;

#[cfg(test)]
mod any;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod embedded;
#[cfg(test)]
mod feature_bytes;
#[cfg(test)]
mod freshness;
#[cfg(test)]
#[macro_use]
mod fixture;
#[cfg(test)]
mod dynamic;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod inspect_frames;
#[cfg(test)]
mod kip_1222_bytes;
#[cfg(test)]
mod primitives;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rebalance;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod share_acknowledgements;
#[cfg(test)]
mod share_broker;
#[cfg(test)]
mod share_client_session;
#[cfg(test)]
mod share_consumer;
#[cfg(test)]
mod share_java_client;
#[cfg(test)]
mod share_locks;
#[cfg(test)]
mod share_metrics;
#[cfg(test)]
mod share_recording;
#[cfg(test)]
mod share_replay;
#[cfg(test)]
mod share_simulation;
#[cfg(test)]
mod share_tables;
#[cfg(test)]
mod share_validate;
#[cfg(test)]
mod version_limits;
