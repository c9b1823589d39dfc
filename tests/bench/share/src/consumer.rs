//! A share consumer with nothing to do.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse, Cluster, ClusterConfig};
use kafka_protocol::share::consumer::{
    Action, RequestId, ShareConsumer, ShareConsumerConfig, ShareConsumerRequest, ShareConsumerResponse,
};
use kafka_protocol::share::sessions::ConnectionId;

use crate::Counted;

/// A consumer in a group, with a fetch that waits at the broker.
pub struct IdleConsumer {
    consumer: ShareConsumer,
    cluster: Cluster,
    connections: HashMap<i32, ConnectionId>,
    /// By connection: the node, and the requests in flight; `None` is ApiVersions.
    sent: HashMap<ConnectionId, (i32, VecDeque<Option<RequestId>>)>,
    now: Duration,
}

impl IdleConsumer {
    /// Joins, is assigned partitions, and fetches from them.
    pub fn new() -> Self {
        let mut cluster = Cluster::new(ClusterConfig::default(), [1]);
        cluster.create_topic("orders", &[1; 8]);
        let config =
            ShareConsumerConfig::new("group", "bWVtYmVyLW9mLWdyb3VwLQ", vec![("node-1".into(), 9092)]);
        let mut consumer = ShareConsumer::new(config);
        consumer.subscribe(Duration::ZERO, ["orders"]).expect("a good name");
        let now = Duration::ZERO;
        let mut idle = Self { consumer, cluster, connections: HashMap::new(), sent: HashMap::new(), now };
        while idle.cluster.sessions(1).is_none_or(|sessions| sessions.partitions() < 8) {
            idle.go_on();
        }
        // What is left to be said at this time.
        while idle.exchange() {}
        idle
    }

    /// A poll that finds nothing to do.
    pub fn poll(&mut self) {
        let poll = self.consumer.poll(self.now).expect("not closed");
        assert!(poll.actions.is_empty() && poll.records.is_empty() && poll.events.is_empty());
    }

    /// Passes on what there is to say, or lets time go on.
    fn go_on(&mut self) {
        if !self.exchange() {
            let deadlines = [self.consumer.drive(self.now).deadline, self.cluster.next_deadline()];
            self.now = deadlines.into_iter().flatten().min().expect("something happens");
        }
    }

    /// Whether there was anything to say.
    fn exchange(&mut self) -> bool {
        let actions = self.consumer.poll(self.now).expect("not closed").actions;
        let mut said = !actions.is_empty();
        for action in actions {
            match action {
                Action::Connect { node, .. } => {
                    let connection = self.cluster.connect(1).expect("up");
                    self.connections.insert(node, connection);
                    self.sent.insert(connection, (node, VecDeque::from([None])));
                    self.cluster.send(self.now, connection, 3, ApiVersionsRequest::default());
                }
                Action::Send { node, id, version, request } => {
                    let connection = self.connections[&node];
                    let (_, sent) = self.sent.get_mut(&connection).expect("connected");
                    sent.push_back(Some(id));
                    self.cluster.send(self.now, connection, version, to_broker(request));
                }
                Action::Disconnect { node } => {
                    let connection = self.connections.remove(&node).expect("connected");
                    self.cluster.disconnect(self.now, connection);
                }
            }
        }
        while let Some(reply) = self.cluster.poll(self.now) {
            said = true;
            let (node, sent) = self.sent.get_mut(&reply.connection).expect("connected");
            let id = sent.pop_front().expect("asked for");
            match (reply.response, id) {
                (BrokerResponse::ApiVersions(versions), _) => {
                    self.consumer.connected(self.now, *node, &versions);
                }
                (response, Some(id)) => {
                    let response = to_consumer(response);
                    self.consumer.handle_response(self.now, id, response);
                }
                (response, None) => unreachable!("not asked for: {response:?}"),
            }
        }
        said
    }
}

impl Default for IdleConsumer {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn counted() -> Vec<Counted> {
    let mut idle = IdleConsumer::new();
    vec![Counted {
        name: "poll of a consumer with nothing to do",
        goal: Some(0),
        items: 1,
        run: Box::new(move || idle.poll()),
    }]
}

macro_rules! apis {
    ($($Api:ident)*) => {
        fn to_broker(request: ShareConsumerRequest) -> BrokerRequest {
            match request {
                $(ShareConsumerRequest::$Api(request) => request.into(),)*
            }
        }

        fn to_consumer(response: BrokerResponse) -> ShareConsumerResponse {
            match response {
                $(BrokerResponse::$Api(response) => response.into(),)*
                BrokerResponse::ApiVersions(_) => unreachable!("taken before"),
            }
        }
    };
}
apis!(Metadata FindCoordinator ShareGroupHeartbeat ShareFetch ShareAcknowledge);
