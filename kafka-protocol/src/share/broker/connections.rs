use std::collections::VecDeque;
use std::time::Duration;

use super::fetch::Parked;
use super::message::{BrokerRequest, BrokerResponse, Reply};
use super::{Cluster, ConnectionId};

/// A connection of a client to a node.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) node: i32,
    /// Requests behind the one that waits.
    inbox: VecDeque<(i16, BrokerRequest)>,
    /// The request that waits.
    parked: Option<(i16, Parked)>,
}

/// Requests and responses.
impl Cluster {
    /// Opens a connection to a node; `None` when it is down, or there is none.
    pub fn connect(&mut self, node_id: i32) -> Option<ConnectionId> {
        if !self.world.is_up(node_id) {
            return None;
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let connection = Connection { node: node_id, inbox: VecDeque::new(), parked: None };
        self.connections.insert(id, connection);
        Some(id)
    }

    /// Closes a connection: its share sessions end, what waits for an answer gets none, and neither do answers arrive that
    /// have not been taken yet.
    pub fn disconnect(&mut self, now: Duration, connection: ConnectionId) {
        self.advance(now);
        let Some(closed) = self.connections.remove(&connection) else { return };
        self.ready.retain(|reply| reply.connection != connection);
        if let Some(node) = self.nodes.get_mut(&closed.node) {
            node.disconnect(&mut self.world, connection);
        }
    }

    /// Hands a request to the node at the other end of a connection; whether there is such a connection.
    ///
    /// A node answers the requests of a connection one after the other.
    pub fn send(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        version: i16,
        request: impl Into<BrokerRequest>,
    ) -> bool {
        self.advance(now);
        let Some(to) = self.connections.get_mut(&connection) else { return false };
        to.inbox.push_back((version, request.into()));
        self.work(now, connection);
        true
    }

    /// The next response that is ready. Ask until there is none.
    pub fn poll(&mut self, now: Duration) -> Option<Reply> {
        self.advance(now);
        // One answer can make another possible.
        while self.ready.is_empty() {
            let waiting = self.connections.iter().filter(|(_, connection)| connection.parked.is_some());
            let waiting: Vec<_> = waiting.map(|(id, _)| *id).collect();
            for connection in waiting {
                self.work(now, connection);
            }
            if self.ready.is_empty() {
                return None;
            }
        }
        self.ready.pop_front()
    }

    /// When something happens by itself, after [`poll`](Self::poll) has given `None`: a request has waited long enough, a
    /// lock runs out, or a member of a group is removed.
    pub fn next_deadline(&self) -> Option<Duration> {
        let parked = self.connections.values().filter_map(|connection| connection.parked.as_ref());
        let waits = parked.map(|(_, parked)| parked.deadline());
        let locks = self.nodes.values().filter_map(super::Node::next_deadline);
        let members = self.world.groups.values().filter_map(super::group::Group::next_deadline);
        waits.chain(locks).chain(members).min()
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Duration) {
        for node in self.nodes.values_mut() {
            node.expire(now);
        }
        for group in self.world.groups.values_mut() {
            group.expire(now);
        }
    }

    /// Answers the requests of a connection, up to one that has to wait.
    fn work(&mut self, now: Duration, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(node) = self.nodes.get_mut(&connection.node) else { return };
        loop {
            let (version, handled) = match connection.parked.take() {
                Some((version, parked)) => (version, node.resume(now, &mut self.world, parked)),
                None => match connection.inbox.pop_front() {
                    Some((version, request)) => {
                        (version, node.handle(now, &mut self.world, id, version, request))
                    }
                    None => return,
                },
            };
            match handled {
                Handled::Ready(response) => {
                    self.ready.push_back(Reply { connection: id, version, response: *response });
                }
                Handled::Parked(parked) => {
                    connection.parked = Some((version, parked));
                    return;
                }
            }
        }
    }
}

/// What has come of a request.
pub(super) enum Handled {
    /// An answer.
    Ready(Box<BrokerResponse>),
    /// It waits.
    Parked(Parked),
}

impl<R: Into<BrokerResponse>> From<R> for Handled {
    fn from(response: R) -> Self {
        Self::Ready(Box::new(response.into()))
    }
}
