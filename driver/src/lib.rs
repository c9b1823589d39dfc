//! A small blocking driver for tests and examples: [`Connection`](kafka_protocol::connection::Connection)s over
//! `TcpStream`s of `std`.
//!
//! A [`Client`] is one connection, for a program that asks and waits. [`Nodes`] are the connections of a state machine:
//! it says which request goes to which node and until when there is nothing to do, and is told what comes back.

mod client;
mod nodes;

pub use client::{Client, is_closed};
pub use nodes::{Event, Nodes};
