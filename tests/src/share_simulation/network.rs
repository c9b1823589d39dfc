//! What is between consumers and nodes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse};
use kafka_protocol::share::consumer::{RequestId, ShareConsumerRequest, ShareConsumerResponse};
use kafka_protocol::share::sessions::ConnectionId;

use super::Simulation;
use crate::random::Random;

/// How long the node takes to notice that a swallowed connection is gone.
const SWALLOWED_FOR: Duration = Duration::from_secs(2);

/// Connections, and what is on its way over them.
#[derive(Default)]
pub(super) struct Network {
    connections: BTreeMap<ConnectionId, Connection>,
    events: BinaryHeap<Reverse<Event>>,
    next_event: u64,
}

struct Connection {
    app: Option<usize>,
    /// As the consumer numbers them.
    node: i32,
    is_swallowing: bool,
    /// Whether it will be gone soon.
    is_broken: bool,
    /// What is sent later does not arrive earlier.
    last_up: Duration,
    last_down: Duration,
    /// Requests that the node has and has not answered; `None` is ApiVersions.
    requests: VecDeque<Option<RequestId>>,
}

/// What arrives at a time.
pub(super) struct Event {
    at: Duration,
    number: u64,
    what: What,
}

enum What {
    Connect {
        app: usize,
        life: u64,
        node: i32,
    },
    Up {
        connection: ConnectionId,
        id: Option<RequestId>,
        version: i16,
        request: Box<BrokerRequest>,
    },
    Down {
        connection: ConnectionId,
        id: Option<RequestId>,
        response: Box<BrokerResponse>,
    },
    /// The consumer learns that the connection is gone.
    ClosedAtConsumer(ConnectionId),
    /// The node learns it.
    ClosedAtNode(ConnectionId),
}

impl Network {
    fn push(&mut self, at: Duration, what: What) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.push(Reverse(Event { at, number, what }));
    }

    pub(super) fn take_due(&mut self, now: Duration) -> Option<Event> {
        if self.events.peek()?.0.at > now {
            return None;
        }
        self.events.pop().map(|event| event.0)
    }

    pub(super) fn next_time(&self) -> Option<Duration> {
        self.events.peek().map(|event| event.0.at)
    }

    pub(super) fn connect(&mut self, app: usize, life: u64, node: i32, now: Duration, random: &mut Random) {
        self.push(now + delay(random), What::Connect { app, life, node });
    }

    /// The connection of a consumer to a node.
    pub(super) fn of(&self, app: usize, node: i32) -> Option<ConnectionId> {
        self.connections.iter().find(|(_, of)| of.app == Some(app) && of.node == node).map(|(id, _)| *id)
    }

    /// Whether nothing has happened to the connection.
    pub(super) fn is_sound(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .is_some_and(|of| of.app.is_some() && !of.is_swallowing && !of.is_broken)
    }

    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        (id, version): (Option<RequestId>, i16),
        request: BrokerRequest,
        now: Duration,
        random: &mut Random,
    ) {
        let Some(of) = self.connections.get_mut(&connection) else { return };
        of.last_up = of.last_up.max(now + delay(random));
        let at = of.last_up;
        if !of.is_swallowing {
            self.push(at, What::Up { connection, id, version, request: Box::new(request) });
        }
    }

    /// A connection, and whose it is.
    pub(super) fn pick(&self, random: &mut Random) -> Option<(ConnectionId, usize)> {
        let sound: Vec<_> = self.connections.iter().filter_map(|(id, of)| Some((*id, of.app?))).collect();
        (!sound.is_empty()).then(|| random.pick(&sound))
    }

    /// Both ends learn that the connection is gone, each at its time. What is on its way to the node may still arrive.
    pub(super) fn break_off(&mut self, connection: ConnectionId, now: Duration, random: &mut Random) {
        self.push(now + delay(random), What::ClosedAtConsumer(connection));
        self.closed_by_consumer(connection, now, random);
    }

    /// From now on nothing arrives, either way, and nobody notices before it takes too long.
    pub(super) fn swallow(&mut self, connection: ConnectionId, now: Duration) {
        if let Some(of) = self.connections.get_mut(&connection) {
            of.is_swallowing = true;
            self.push(now + SWALLOWED_FOR, What::ClosedAtNode(connection));
        }
    }

    pub(super) fn closed_by_node(&mut self, connection: ConnectionId, now: Duration, random: &mut Random) {
        if let Some(of) = self.connections.get_mut(&connection) {
            of.is_broken = true;
            of.requests.clear();
            let at = of.last_down.max(now + delay(random));
            self.push(at, What::ClosedAtConsumer(connection));
        }
    }

    pub(super) fn closed_by_consumer(
        &mut self,
        connection: ConnectionId,
        now: Duration,
        random: &mut Random,
    ) {
        let Some(of) = self.connections.get_mut(&connection) else { return };
        of.is_broken = true;
        let at = of.last_up.max(now + delay(random));
        if !of.is_swallowing {
            self.push(at, What::ClosedAtNode(connection));
        }
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        if let Some(of) = self.connections.get_mut(&connection) {
            of.app = None;
        }
    }

    /// A consumer is gone without a word.
    pub(super) fn close_all(&mut self, app: usize, now: Duration, random: &mut Random) {
        let theirs: Vec<_> =
            self.connections.iter().filter(|of| of.1.app == Some(app)).map(|of| *of.0).collect();
        for connection in theirs {
            self.closed_by_consumer(connection, now, random);
            self.forget(connection);
        }
    }
}

impl Simulation {
    pub(super) fn arrive(&mut self, event: Event) -> Result<(), String> {
        let Event { what, .. } = event;
        match what {
            What::Connect { app, life, node } if self.apps[app].life == life => self.connect(app, node),
            What::Connect { .. } => {}
            What::Up { connection, id, version, request } => {
                self.tell(|| format!("{connection:?} < {request:?}"));
                if self.cluster.send(self.now, connection, version, *request)
                    && let Some(of) = self.network.connections.get_mut(&connection)
                {
                    of.requests.push_back(id);
                }
                self.take_replies();
            }
            What::Down { connection, id, response } => self.received(connection, id, *response)?,
            What::ClosedAtConsumer(connection) => {
                let of = self.network.connections.get_mut(&connection);
                if let Some((app, node)) = of.and_then(|of| Some((of.app.take()?, of.node))) {
                    self.tell(|| format!("{connection:?} is gone for consumer {app}"));
                    self.apps[app].consumer.disconnected(self.now, node);
                    self.run_app(app)?;
                }
            }
            What::ClosedAtNode(connection) => {
                self.tell(|| format!("{connection:?} is gone for its node"));
                self.cluster.disconnect(self.now, connection);
                if let Some(of) = self.network.connections.get_mut(&connection) {
                    of.requests.clear();
                    // A consumer that has not noticed yet never gets an answer, so it will.
                    if of.app.is_none() {
                        self.network.connections.remove(&connection);
                    }
                }
                self.take_replies();
            }
        }
        Ok(())
    }

    fn connect(&mut self, app: usize, node: i32) {
        let Some(connection) = self.cluster.connect(broker_of(node)) else {
            self.apps[app].consumer.disconnected(self.now, node);
            return self.apps[app].wake_at = self.now;
        };
        self.tell(|| format!("{connection:?}: consumer {app} to {node}"));
        let of = Connection {
            app: Some(app),
            node,
            is_swallowing: false,
            is_broken: false,
            last_up: self.now,
            last_down: self.now,
            requests: VecDeque::new(),
        };
        self.network.connections.insert(connection, of);
        let request = ApiVersionsRequest { client_software_name: "tests".into(), ..Default::default() };
        self.network.send(connection, (None, 3), request.into(), self.now, &mut self.random);
    }

    /// Answers set out on their way.
    pub(super) fn take_replies(&mut self) {
        while let Some(reply) = self.cluster.poll(self.now) {
            let Some(of) = self.network.connections.get_mut(&reply.connection) else { continue };
            let Some(id) = of.requests.pop_front() else { continue };
            of.last_down = of.last_down.max(self.now + delay(&mut self.random));
            let (at, connection) = (of.last_down, reply.connection);
            if !of.is_swallowing {
                self.network.push(at, What::Down { connection, id, response: Box::new(reply.response) });
            }
        }
    }

    fn received(
        &mut self,
        connection: ConnectionId,
        id: Option<RequestId>,
        response: BrokerResponse,
    ) -> Result<(), String> {
        let Some(of) = self.network.connections.get(&connection).filter(|of| !of.is_swallowing) else {
            return Ok(());
        };
        let Some(app) = of.app else { return Ok(()) };
        let node = of.node;
        self.tell(|| format!("{connection:?} > {response:?}"));
        self.model.answered(connection, &response, self.plan.has_faults)?;
        let consumer = &mut self.apps[app].consumer;
        match (id, consumer_response(response)) {
            (Some(id), Ok(response)) => consumer.handle_response(self.now, id, response),
            (None, Err(versions)) => consumer.connected(self.now, node, &versions),
            _ => return Err("an answer to another request".into()),
        }
        self.run_app(app)
    }
}

fn consumer_response(
    response: BrokerResponse,
) -> Result<ShareConsumerResponse, kafka_protocol::messages::ApiVersionsResponse> {
    Ok(match response {
        BrokerResponse::ApiVersions(response) => return Err(response),
        BrokerResponse::Metadata(response) => response.into(),
        BrokerResponse::FindCoordinator(response) => response.into(),
        BrokerResponse::ShareGroupHeartbeat(response) => response.into(),
        BrokerResponse::ShareFetch(response) => response.into(),
        BrokerResponse::ShareAcknowledge(response) => response.into(),
    })
}

pub(super) fn broker_request(request: ShareConsumerRequest) -> BrokerRequest {
    match request {
        ShareConsumerRequest::FindCoordinator(request) => request.into(),
        ShareConsumerRequest::Metadata(request) => request.into(),
        ShareConsumerRequest::ShareGroupHeartbeat(request) => request.into(),
        ShareConsumerRequest::ShareFetch(request) => request.into(),
        ShareConsumerRequest::ShareAcknowledge(request) => request.into(),
    }
}

/// The broker behind a consumer's number for a node. Bootstrap brokers are the first ones.
fn broker_of(node: i32) -> i32 {
    match node {
        ..0 => -node,
        _ if node > i32::MAX / 2 => i32::MAX - node,
        _ => node,
    }
}

fn delay(random: &mut Random) -> Duration {
    Duration::from_millis(random.pick(&[0, 1, 2, 5, 20]))
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
