use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use kafka_protocol::connection::{Config as ConnectionConfig, Received};
use kafka_protocol::protocol::{AcknowledgeType, ApiKey};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::consumer::{
    Action, CommitId, Event, PartitionRecords, Poll, RequestId, ShareConsumer, ShareConsumerConfig,
    ShareConsumerResponse,
};
use kafka_protocol::wire::Str;

use crate::nodes::{self, Nodes};

/// A consumer of a share group: [`ShareConsumer`] over sockets.
#[derive(Debug)]
pub struct ShareGroupConsumer {
    consumer: ShareConsumer,
    nodes: Nodes,
    in_flight: HashMap<(i32, i32), RequestId>,
    sent: BTreeMap<ApiKey, usize>,
    /// When to go on although nothing has happened.
    deadline: Option<Duration>,
    events: Vec<Event>,
    /// The origin of the consumer's time.
    start: Instant,
}

impl ShareGroupConsumer {
    /// Is not in the group yet, and has no connection.
    pub fn new(config: ShareConsumerConfig) -> Self {
        let connections = ConnectionConfig { client_id: Some("driver".into()), ..Default::default() };
        Self {
            consumer: ShareConsumer::new(config),
            nodes: Nodes::new(connections),
            in_flight: HashMap::new(),
            sent: BTreeMap::new(),
            deadline: None,
            events: Vec::new(),
            start: Instant::now(),
        }
    }

    /// Joins the group for these topics.
    ///
    /// # Errors
    ///
    /// Those of [`ShareConsumer::subscribe`].
    pub fn subscribe(&mut self, topics: impl IntoIterator<Item = Str>) -> Result<()> {
        let now = self.now();
        Ok(self.consumer.subscribe(now, topics)?)
    }

    /// Polls, and waits so long for records.
    ///
    /// # Errors
    ///
    /// Those of [`ShareConsumer::poll`], or the consumer has failed.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<PartitionRecords>> {
        let deadline = Instant::now() + timeout;
        loop {
            let poll = self.consumer.poll(self.now())?;
            let records = self.carry_out(poll)?;
            if !records.is_empty() || !self.step(deadline)? {
                return Ok(records);
            }
        }
    }

    /// Goes on with what is under way until then, such as heartbeats.
    ///
    /// # Errors
    ///
    /// The consumer has failed.
    pub fn wait(&mut self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        self.drive()?;
        while self.step(deadline)? {}
        Ok(())
    }

    /// Says what became of a record.
    ///
    /// # Errors
    ///
    /// Those of [`ShareConsumer::acknowledge`].
    pub fn acknowledge(
        &mut self,
        partition: TopicIdPartition,
        offset: i64,
        ty: AcknowledgeType,
    ) -> Result<()> {
        Ok(self.consumer.acknowledge(partition, offset, ty)?)
    }

    /// Sends all acknowledgements and waits until the brokers have answered. [`events`](Self::events) tells what they
    /// say.
    ///
    /// # Errors
    ///
    /// Those of [`ShareConsumer::commit`], or the consumer has failed.
    pub fn commit(&mut self) -> Result<CommitId> {
        let commit = self.consumer.commit(self.now())?;
        self.drive()?;
        while !self.events.contains(&Event::Committed { commit }) {
            self.step(Instant::now() + Duration::from_secs(1))?;
        }
        Ok(commit)
    }

    /// Closes the share sessions and leaves the group.
    ///
    /// # Errors
    ///
    /// The consumer has failed.
    pub fn close(&mut self) -> Result<()> {
        self.consumer.close(self.now());
        self.drive()?;
        while !self.consumer.is_closed() {
            self.step(Instant::now() + Duration::from_secs(1))?;
        }
        Ok(())
    }

    /// What has happened since the last time.
    pub fn events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// How many requests of an API have been sent.
    pub fn sent(&self, api_key: ApiKey) -> usize {
        self.sent.get(&api_key).copied().unwrap_or_default()
    }

    /// The machine, to ask what it knows.
    pub fn consumer(&self) -> &ShareConsumer {
        &self.consumer
    }

    /// The consumer's time, of which lock deadlines are.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn drive(&mut self) -> Result<()> {
        let poll = self.consumer.drive(self.now());
        let records = self.carry_out(poll)?;
        ensure!(records.is_empty(), "records without a poll");
        Ok(())
    }

    /// Waits for the next thing to happen and reacts; `false` if that is `deadline`.
    fn step(&mut self, deadline: Instant) -> Result<bool> {
        let due = self.deadline.map_or(deadline, |due| self.start + due);
        let event = self.nodes.next(due.min(deadline));
        let now = self.now();
        match event {
            Some(nodes::Event::Response { node, received }) => self.received(node, &received)?,
            Some(nodes::Event::Disconnected { node, .. }) => self.disconnected(node, now),
            None => {}
        }
        self.drive()?;
        Ok(Instant::now() < deadline)
    }

    /// Does what the consumer wants done, and gives the records.
    fn carry_out(&mut self, poll: Poll) -> Result<Vec<PartitionRecords>> {
        let Poll { mut actions, records, events, mut deadline } = poll;
        self.take_events(events)?;
        while !actions.is_empty() {
            for action in actions {
                self.act(action);
            }
            // What came of the actions may be a reason for more.
            let poll = self.consumer.drive(self.now());
            (actions, deadline) = (poll.actions, poll.deadline);
            self.take_events(poll.events)?;
        }
        self.deadline = deadline;
        Ok(records)
    }

    fn take_events(&mut self, events: Vec<Event>) -> Result<()> {
        for event in events {
            if let Event::Failed { error, message } = event {
                bail!("the consumer has failed: {error} {}", message.unwrap_or_default());
            }
            self.events.push(event);
        }
        Ok(())
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { node, host, port } => {
                let done = self.nodes.connect(node, &format!("{host}:{port}"));
                let now = self.now();
                match self.nodes.connection(node).and_then(|connection| connection.api_versions()) {
                    Some(versions) if done.is_ok() => self.consumer.connected(now, node, versions),
                    _ => self.disconnected(node, now),
                }
            }
            Action::Send { node, id, version, request } => {
                *self.sent.entry(request.api_key()).or_default() += 1;
                let sent = self.nodes.send_with(node, |connection, to| request.send(connection, version, to));
                match sent {
                    Ok(correlation_id) => drop(self.in_flight.insert((node, correlation_id), id)),
                    Err(_) => self.disconnected(node, self.now()),
                }
            }
            Action::Disconnect { node } => self.disconnect(node),
        }
    }

    fn received(&mut self, node: i32, received: &Received) -> Result<()> {
        let Some(id) = self.in_flight.remove(&(node, received.correlation_id)) else { return Ok(()) };
        match ShareConsumerResponse::decode(received)? {
            Some(response) => self.consumer.handle_response(self.now(), id, response),
            None => bail!("a response of {:?}", received.api_key),
        }
        Ok(())
    }

    fn disconnected(&mut self, node: i32, now: Duration) {
        self.disconnect(node);
        self.consumer.disconnected(now, node);
    }

    fn disconnect(&mut self, node: i32) {
        self.nodes.disconnect(node);
        self.in_flight.retain(|(to, _), _| *to != node);
    }
}
