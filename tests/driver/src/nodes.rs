use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Error, Result};
use kafka_protocol::connection::{Config, Connection, ConnectionError, Received};
use kafka_protocol::protocol::{Rpc, frame};
use kafka_protocol::wire::{Bytes, BytesMut};

use crate::client::{Client, read};

/// Connections to the nodes of a cluster, by whatever ids the caller gives them. Each has a thread that reads.
#[derive(Debug)]
pub struct Nodes {
    config: Config,
    links: HashMap<i32, Link>,
    connects: u64,
    inbox: Receiver<Arrival>,
    to_inbox: Sender<Arrival>,
}

/// What a node has done.
#[derive(Debug)]
pub enum Event {
    /// It has answered a request.
    Response {
        /// The node.
        node: i32,
        /// The response to the oldest of its requests in flight.
        received: Received,
    },
    /// It has closed the connection, or sent what is no response. Requests in flight have no response any more.
    Disconnected {
        /// The node.
        node: i32,
        /// What has happened.
        reason: Error,
    },
}

#[derive(Debug)]
struct Link {
    /// Which connection it is: what comes from a connection before is too late.
    number: u64,
    stream: TcpStream,
    connection: Connection,
}

/// The next frame of a connection, or the end of it.
#[derive(Debug)]
struct Arrival {
    node: i32,
    number: u64,
    frame: Result<Bytes>,
}

impl Nodes {
    /// No connection yet; `config` is for those to come.
    pub fn new(config: Config) -> Self {
        let (to_inbox, inbox) = mpsc::channel();
        Self { config, links: HashMap::new(), connects: 0, inbox, to_inbox }
    }

    /// Connects to a node at `HOST:PORT` and negotiates versions. A connection that there was before is closed.
    ///
    /// # Errors
    ///
    /// Those of [`Client::connect`]; the node is then not connected.
    pub fn connect(&mut self, node: i32, address: &str) -> Result<()> {
        self.disconnect(node);
        let (stream, connection) = Client::connect_as(address, self.config.clone())?.into_parts()?;
        self.connects += 1;
        let (number, to_inbox) = (self.connects, self.to_inbox.clone());
        let (mut from, max_size) = (stream.try_clone()?, self.config.max_frame_size);
        thread::spawn(move || {
            let mut unread = BytesMut::new();
            loop {
                let frame = next_frame(&mut from, &mut unread, max_size);
                let last = frame.is_err();
                if to_inbox.send(Arrival { node, number, frame }).is_err() || last {
                    return;
                }
            }
        });
        self.links.insert(node, Link { number, stream, connection });
        Ok(())
    }

    /// Closes the connection to a node, if there is one. What comes from it later is no event.
    pub fn disconnect(&mut self, node: i32) {
        self.links.remove(&node);
    }

    /// What is known of the connection to a node, such as the versions that it has; `None` if there is no connection.
    pub fn connection(&self, node: i32) -> Option<&Connection> {
        self.links.get(&node).map(|link| &link.connection)
    }

    /// Sends a request to a node, in a version or in the highest that both ends have, and gives its correlation id.
    ///
    /// # Errors
    ///
    /// Those of [`send_with`](Self::send_with).
    pub fn send<R: Rpc>(&mut self, node: i32, request: &R, version: Option<i16>) -> Result<i32> {
        self.send_with(node, |connection, frame| connection.send(request, version, frame))
    }

    /// Sends to a node what `put` appends, and gives its correlation id.
    ///
    /// # Errors
    ///
    /// The node is not connected, `put` fails with a [`ConnectionError`], which is then the error, or the connection
    /// breaks, which is an [`Event::Disconnected`] too.
    pub fn send_with(
        &mut self,
        node: i32,
        put: impl FnOnce(&mut Connection, &mut Vec<u8>) -> Result<i32, ConnectionError>,
    ) -> Result<i32> {
        let link = self.links.get_mut(&node).with_context(|| format!("node {node} is not connected"))?;
        let mut frame = Vec::new();
        let correlation_id = put(&mut link.connection, &mut frame)?;
        link.stream.write_all(&frame)?;
        Ok(correlation_id)
    }

    /// Waits for the next event; `None` if there is none until `deadline`.
    pub fn next(&mut self, deadline: Instant) -> Option<Event> {
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            let arrival = match self.inbox.recv_timeout(wait) {
                Ok(arrival) => arrival,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            };
            if let Some(event) = self.event(arrival) {
                return Some(event);
            }
        }
    }

    fn event(&mut self, Arrival { node, number, frame }: Arrival) -> Option<Event> {
        let link = self.links.get_mut(&node).filter(|link| link.number == number)?;
        let received = frame.and_then(|frame| Ok(link.connection.receive_split(frame)?));
        Some(match received {
            Ok(received) => Event::Response { node, received },
            Err(reason) => {
                self.disconnect(node);
                Event::Disconnected { node, reason }
            }
        })
    }
}

impl Drop for Link {
    /// Ends the thread that reads.
    fn drop(&mut self) {
        // It is closed already if the node was first.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn next_frame(stream: &mut TcpStream, unread: &mut BytesMut, max_size: usize) -> Result<Bytes> {
    loop {
        if let Some(frame) = frame::split(unread, max_size)? {
            return Ok(frame);
        }
        read(stream, unread)?;
    }
}
