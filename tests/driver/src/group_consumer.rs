use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::connection::{Config as ConnectionConfig, ConnectionError, Received};
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::rebalance::{
    CommitId, Config, ConsumerRecords, Destination, Event, Fetch, Member, OffsetAndMetadata, Outgoing, Poll,
    RecordBuffer, RequestId, Response, TopicPartition,
};
use kafka_protocol::records::OwnedRecord;
use kafka_protocol::wire::Str;

use crate::client::Client;
use crate::fetcher::Fetcher;
use crate::nodes::{self, Nodes};

/// The connection for requests that any broker takes.
const ANY: i32 = -1;

/// The pause before leaders are looked up again.
const RETRY: Duration = Duration::from_millis(50);

/// A consumer of a group with the polls of KIP-983: [`Member`] over sockets, and fetching.
///
/// It begins at offset 0 where the group has committed nothing.
#[derive(Debug)]
pub struct GroupConsumer {
    member: Member,
    buffer: RecordBuffer<OwnedRecord>,
    fetcher: Fetcher,
    bootstrap: String,
    /// For metadata of its own.
    client: Client,
    nodes: Nodes,
    in_flight: HashMap<(i32, i32), Sent>,
    topics: BTreeSet<Str>,
    /// The origin of the member's time.
    start: Instant,
}

/// A record of a group's topic.
#[derive(Clone, Debug)]
pub struct ConsumerRecord {
    /// Where it is from.
    pub partition: TopicPartition,
    /// The record.
    pub record: OwnedRecord,
}

/// What a poll gives: KIP-983's variant 1.
#[derive(Debug)]
pub struct Polled {
    /// Records of fetchable partitions, in the order of the offsets of each.
    pub records: Vec<ConsumerRecord>,
    /// What became of partitions.
    pub changes: Poll,
    /// What else happened, such as the end of commits.
    pub events: Vec<Event>,
}

/// What a response is for.
#[derive(Debug)]
enum Sent {
    Member { id: RequestId, api_key: ApiKey, deadline: Duration },
    Fetch(Vec<Fetch>),
}

impl GroupConsumer {
    /// Knows a broker at `HOST:PORT`, and is not in the group yet.
    ///
    /// # Errors
    ///
    /// The broker cannot be reached.
    pub fn new(bootstrap: &str, config: Config) -> Result<Self> {
        let connections =
            ConnectionConfig { client_id: Some("driver".into()), max_in_flight: 1000, ..Default::default() };
        Ok(Self {
            member: Member::new(config),
            buffer: RecordBuffer::default(),
            fetcher: Fetcher::default(),
            bootstrap: bootstrap.to_owned(),
            client: Client::connect(bootstrap)?,
            nodes: Nodes::new(connections),
            in_flight: HashMap::new(),
            topics: BTreeSet::new(),
            start: Instant::now(),
        })
    }

    /// Joins the group for these topics.
    ///
    /// # Errors
    ///
    /// The consumer is closed, or the topics cannot be looked up.
    pub fn subscribe(&mut self, topics: impl IntoIterator<Item = Str>) -> Result<()> {
        self.topics = topics.into_iter().collect();
        self.member.subscribe(self.topics.iter().cloned(), self.now())?;
        self.refresh()
    }

    /// Polls for at most so many records, and waits so long for them. It comes back at once when there are some, or when
    /// partitions changed.
    ///
    /// # Errors
    ///
    /// The member has failed, or records cannot be read.
    pub fn poll(&mut self, timeout: Duration, max_records: usize) -> Result<Polled> {
        let deadline = Instant::now() + timeout;
        loop {
            let now = self.now();
            let ConsumerRecords { records, changes } =
                self.member.poll_records(&mut self.buffer, max_records, now);
            for assigned in changes.assigned.iter().filter(|assigned| assigned.committed.is_none()) {
                self.buffer.seek(&assigned.partition, 0);
            }
            self.send()?;
            if let Some(failure) = self.member.failure() {
                bail!("the member has failed: {failure}");
            }
            let is_quiet = records.is_empty()
                && changes.assigned.is_empty()
                && changes.to_be_revoked.is_empty()
                && changes.lost.is_empty();
            if !is_quiet || Instant::now() >= deadline {
                return Ok(Polled { records: flat(records), changes, events: self.events() });
            }
            while (max_records == 0 || self.buffer.is_empty()) && self.step(deadline)? {}
        }
    }

    /// Goes on with what is under way until then, such as heartbeats and commits. Partitions change only in
    /// [`poll`](Self::poll).
    ///
    /// # Errors
    ///
    /// Those of [`poll`](Self::poll).
    pub fn wait(&mut self, time: Duration) -> Result<Vec<Event>> {
        let deadline = Instant::now() + time;
        while self.step(deadline)? {}
        Ok(self.events())
    }

    /// Queues offsets to commit.
    ///
    /// # Errors
    ///
    /// A partition is not the member's.
    pub fn commit(
        &mut self,
        offsets: impl IntoIterator<Item = (TopicPartition, OffsetAndMetadata)>,
    ) -> Result<CommitId> {
        let id = self.member.commit(offsets, self.now())?;
        self.send()?;
        Ok(id)
    }

    /// Leaves the group, after commits have been answered.
    ///
    /// # Errors
    ///
    /// The coordinator is not left within `timeout`.
    pub fn close(&mut self, timeout: Duration) -> Result<Vec<Event>> {
        let deadline = Instant::now() + timeout;
        self.member.close(timeout, self.now());
        while !self.member.is_finished() && self.step(deadline)? {}
        ensure!(Instant::now() < deadline, "the coordinator does not answer");
        Ok(self.events())
    }

    /// Partitions whose records polls give.
    pub fn fetchable(&self) -> impl Iterator<Item = &TopicPartition> {
        self.member.fetchable()
    }

    /// The machine, to hold and release partitions and to ask what it knows.
    pub fn member(&mut self) -> &mut Member {
        &mut self.member
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.member.next_event()).collect()
    }

    fn refresh(&mut self) -> Result<()> {
        let metadata = self.fetcher.refresh(&mut self.client, &self.topics)?;
        self.member.metadata(&metadata, self.now());
        Ok(())
    }

    /// Waits for the next thing to happen and reacts; `false` if that is `deadline`.
    fn step(&mut self, deadline: Instant) -> Result<bool> {
        self.send()?;
        let due = self.member.deadline(self.now()).map_or(deadline, |due| self.start + due);
        match self.nodes.next(due.min(deadline)) {
            Some(nodes::Event::Response { node, received }) => self.received(node, &received)?,
            Some(nodes::Event::Disconnected { node, .. }) => self.disconnected(node),
            None => {}
        }
        self.give_up();
        if self.fetcher.is_stale {
            // An election takes a moment.
            thread::sleep(RETRY);
            self.refresh()?;
        }
        self.send()?;
        Ok(Instant::now() < deadline)
    }

    /// Sends what there is to send.
    fn send(&mut self) -> Result<()> {
        while let Some(outgoing) = self.member.next_request(self.now()) {
            self.send_for_member(&outgoing);
        }
        for (node, (request, fetches)) in self.fetcher.requests(self.buffer.fetches(&self.member)) {
            let is_busy =
                self.in_flight.iter().any(|((to, _), sent)| *to == node && matches!(sent, Sent::Fetch(_)));
            if is_busy {
                continue;
            }
            let address = self.fetcher.address(node).context("a leader without an address")?.to_owned();
            // Without a connection to the leader there may soon be another leader.
            match self.connect(node, &address).and_then(|()| self.nodes.send(node, &request, None)) {
                Ok(correlation_id) => {
                    self.in_flight.insert((node, correlation_id), Sent::Fetch(fetches));
                }
                Err(_) => self.fetcher.is_stale = true,
            }
        }
        Ok(())
    }

    fn send_for_member(&mut self, Outgoing { id, to, request, deadline }: &Outgoing) {
        self.give_up();
        let (node, address) = match to {
            Destination::Any => (ANY, self.bootstrap.clone()),
            // A connection of its own, which Kafka's clients number so too.
            Destination::Coordinator(node) => {
                (i32::MAX - node.node_id, format!("{}:{}", node.host, node.port))
            }
        };
        let sent = self
            .connect(node, &address)
            .and_then(|()| self.nodes.send_with(node, |connection, frame| request.send(connection, frame)));
        match sent {
            Ok(correlation_id) => {
                let sent = Sent::Member { id: *id, api_key: request.api_key(), deadline: *deadline };
                self.in_flight.insert((node, correlation_id), sent);
            }
            Err(error) => {
                let is_ours = error.downcast_ref::<ConnectionError>().is_some();
                let code =
                    if is_ours { ErrorCode::UNSUPPORTED_VERSION } else { ErrorCode::NETWORK_EXCEPTION };
                self.member.fail(*id, code, self.now());
            }
        }
    }

    fn connect(&mut self, node: i32, address: &str) -> Result<()> {
        if self.nodes.connection(node).is_some() { Ok(()) } else { self.nodes.connect(node, address) }
    }

    fn received(&mut self, node: i32, received: &Received) -> Result<()> {
        match self.in_flight.remove(&(node, received.correlation_id)) {
            Some(Sent::Member { id, .. }) => match Response::decode(received)? {
                Some(response) => self.member.receive(id, response, self.now()),
                None => bail!("a response of {:?}", received.api_key),
            },
            Some(Sent::Fetch(fetches)) => {
                self.fetcher.fetched(&mut self.buffer, &fetches, &received.decode::<FetchResponse>()?)?;
            }
            None => {}
        }
        Ok(())
    }

    fn disconnected(&mut self, node: i32) {
        let now = self.now();
        let lost: Vec<_> = self.in_flight.keys().filter(|(to, _)| *to == node).copied().collect();
        for key in lost {
            match self.in_flight.remove(&key) {
                Some(Sent::Member { id, .. }) => self.member.fail(id, ErrorCode::NETWORK_EXCEPTION, now),
                Some(Sent::Fetch(_)) => self.fetcher.is_stale = true,
                None => {}
            }
        }
        if self.member.coordinator().is_some_and(|it| i32::MAX - it.node_id == node) {
            self.member.disconnected(now);
        }
    }

    /// Closes connections whose next response is late, or that of a `JoinGroup` that nobody waits for any more: it may
    /// take long, and what is sent behind it is not read before.
    fn give_up(&mut self) {
        let now = self.now();
        let is_late = |sent: &Sent| match sent {
            Sent::Member { id, api_key, deadline } => {
                !self.member.is_waiting_for(*id) && (*deadline <= now || *api_key == ApiKey::JOIN_GROUP)
            }
            Sent::Fetch(_) => false,
        };
        let late: BTreeSet<_> =
            self.in_flight.iter().filter(|(_, sent)| is_late(sent)).map(|((node, _), _)| *node).collect();
        for node in late {
            self.nodes.disconnect(node);
            self.in_flight.retain(|(to, _), _| *to != node);
        }
    }
}

fn flat(records: BTreeMap<TopicPartition, Vec<OwnedRecord>>) -> Vec<ConsumerRecord> {
    let of = |(partition, records): (TopicPartition, Vec<OwnedRecord>)| {
        records.into_iter().map(move |record| ConsumerRecord { partition: partition.clone(), record })
    };
    records.into_iter().flat_map(of).collect()
}
