//! A small blocking driver for tests and examples: [`Connection`](kafka_protocol::connection::Connection)s over
//! `TcpStream`s of `std`.
//!
//! A [`Client`] is one connection, for a program that asks and waits. [`Nodes`] are the connections of a state machine:
//! it says which request goes to which node and until when there is nothing to do, and is told what comes back.
//! On top of them are [`ShareGroupConsumer`], the machine of share groups, and [`GroupConsumer`], that of KIP-983.

pub mod admin;
mod client;
mod fetcher;
mod group_consumer;
mod nodes;
mod share_group_consumer;

pub use client::{Client, is_closed};
pub use group_consumer::{ConsumerRecord, GroupConsumer, Polled};
pub use nodes::{Event, Nodes};
pub use share_group_consumer::ShareGroupConsumer;
