//! Several share sessions that were opened over one connection: which of them end with it. A 4.4.0 broker ends one at
//! most; our broker does as it does when it is told to imitate its defects.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use driver::Client;
use kafka_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{ShareFetchRequest, ShareFetchResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::broker::{self as kit, BrokerResponse, ClusterConfig};
use kafka_protocol::share::sessions::ConnectionId;
use kafka_protocol::wire::{Str, Uuid};

use super::Scenario;
use super::cluster::Cluster;
use super::group::Group;
use super::member::Acquired;
use crate::vectors::panic_text;

pub(super) const SCENARIOS: &[Scenario] = &[Scenario::new(
    "sessions of one connection: those end with it that end in our imitation of this broker",
    as_imitated,
)];

/// A lock that outlives the scenario.
const LOCK: Duration = Duration::from_secs(60);

/// Until then a broker has noticed that a connection is closed. Nothing tells so when no session ends with it.
const NOTICED: Duration = Duration::from_millis(500);

const PATIENCE: Duration = Duration::from_secs(30);

/// The records of each partition: two batches of 5.
const RECORDS: usize = 10;

/// A member of one of two groups. Each member has a partition of its own.
type Who = (usize, i32);
const A: Who = (0, 0);
const B: Who = (0, 1);
const C: Who = (0, 2);
/// The same members, in the other group.
const A2: Who = (1, 0);
const B2: Who = (1, 1);

/// One for each member, and one that is free whatever happens.
const PARTITIONS: i32 = 4;

/// What is done over which connection.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A session is opened with epoch 0; the first time, the member also acquires its records.
    Open(Who, u8),
    /// A session is closed with epoch -1.
    Close(Who, u8),
    /// The connection is closed.
    End(u8),
}
use Step::{Close, End, Open};

const SCRIPTS: &[&[Step]] = &[
    &[Open(A, 1), Open(B, 1), End(1)],
    &[Open(B, 1), Open(A, 1), End(1)],
    &[Open(A, 1), Open(B, 1), Open(C, 1), End(1)],
    // Opened again.
    &[Open(A, 1), Open(B, 1), Open(A, 1), End(1)],
    &[Open(A, 1), Open(B, 1), Open(C, 1), Open(B, 1), End(1)],
    &[Open(A, 1), Open(A, 1), End(1)],
    // Closed, by which the last one opened is forgotten, whichever was closed.
    &[Open(A, 1), Open(B, 1), Close(A, 1), End(1)],
    &[Open(A, 1), Open(B, 1), Close(B, 1), End(1)],
    &[Open(A, 1), Open(B, 1), Close(A, 1), Open(C, 1), End(1)],
    &[Open(A, 1), Open(B, 1), Close(A, 2), End(1)],
    // Opened again over another connection.
    &[Open(A, 1), Open(B, 1), Open(A, 2), End(1)],
    &[Open(A, 1), Open(B, 1), Open(B, 2), End(1)],
    &[Open(A, 1), Open(B, 1), Open(A, 2), End(1), End(2)],
    &[Open(A, 1), Open(B, 1), Open(A, 2), End(2)],
    // One member in two groups, and two.
    &[Open(A, 1), Open(A2, 1), End(1)],
    &[Open(A2, 1), Open(A, 1), Open(B, 1), End(1)],
    &[Open(A, 1), Open(B2, 1), Close(A, 1), End(1)],
];

/// A broker, whatever it is made of, with a topic and two groups.
trait Broker {
    /// Asks over a connection, which is made if it is not there.
    fn ask(&mut self, connection: u8, request: ShareFetchRequest) -> Result<ShareFetchResponse>;

    /// Closes a connection.
    fn end(&mut self, connection: u8);

    /// Waits until the broker has noticed.
    fn settle(&self);

    fn topic_id(&self) -> Uuid;

    fn group(&self, index: usize) -> Str;

    fn member_id(&mut self, name: &str) -> Str;
}

/// What is left: of each member the error that its session is answered with, of each group the records that are free.
#[derive(Debug, Default, PartialEq)]
struct Left {
    sessions: BTreeMap<Who, ErrorCode>,
    free: Vec<Records>,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sessions {:?} and free records", self.sessions)?;
        for (group, records) in self.free.iter().enumerate() {
            records.iter().try_for_each(|(partition, of)| write!(f, " {:?}: {of}", (group, partition)))?;
        }
        Ok(())
    }
}

/// Records by partition.
type Records = BTreeMap<i32, Acquired>;

/// Adds what was acquired.
fn add(to: &mut Records, response: ShareFetchResponse) {
    for row in response.responses.into_iter().flat_map(|topic| topic.partitions) {
        for range in row.acquired_records {
            let offsets = range.first_offset..=range.last_offset;
            let offsets = offsets.map(|offset| (offset, range.delivery_count));
            to.entry(row.partition_index).or_default().extend(offsets.collect());
        }
    }
}

/// Whether all of these are in others, with whatever delivery counts.
fn is_in(these: &Records, others: &Records) -> bool {
    these.iter().all(|(partition, these)| {
        others.get(partition).is_some_and(|others| others.offsets().eq(these.offsets()))
    })
}

fn as_imitated(cluster: &Cluster) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = SCRIPTS.iter().map(|script| scope.spawn(|| compare(cluster, script))).collect();
        threads.into_iter().zip(SCRIPTS).try_for_each(|(thread, script)| {
            let done = thread.join().map_err(|panic| anyhow!("panic: {}", panic_text(&*panic)));
            done.and_then(|done| done).with_context(|| format!("{script:?}"))
        })
    })
}

fn compare(cluster: &Cluster, script: &[Step]) -> Result<()> {
    let expected = Play::new(&mut Imitation::new()?).run(script, None)?;
    let found = Play::new(&mut Live::new(cluster)?).run(script, Some(&expected))?;
    ensure!(found == expected, "left are {found}, in the imitation {expected}");
    Ok(())
}

/// A script on a broker.
struct Play<'a, B> {
    broker: &'a mut B,
    /// The members with sessions, by id and next epoch.
    members: BTreeMap<Who, (Str, i32)>,
}

/// A connection that no script uses.
const OTHER: u8 = 0;

impl<'a, B: Broker> Play<'a, B> {
    fn new(broker: &'a mut B) -> Self {
        Self { broker, members: BTreeMap::new() }
    }

    /// Gives what is left. Records may take a while until they are free, so that it has to be known which are expected,
    /// unless the broker is done at once.
    fn run(mut self, script: &[Step], expected: Option<&Left>) -> Result<Left> {
        for step in script {
            match *step {
                Open(who, connection) => self.open(who, connection)?,
                Close(who, connection) => {
                    let (member_id, _) = self.members.remove(&who).context("closed without a session")?;
                    let request = self.request(who.0, member_id, -1, &[]);
                    self.fetch(connection, request)?;
                }
                End(connection) => self.broker.end(connection),
            }
        }
        self.broker.settle();
        let mut left = Left::default();
        for (who, (member_id, epoch)) in self.members.clone() {
            let request = self.request(who.0, member_id, epoch, &[]);
            left.sessions.insert(who, self.broker.ask(OTHER, request)?.error_code);
        }
        for group in [A.0, A2.0] {
            let member_id = self.broker.member_id("probe");
            let expected = expected.map(|left| left.free[group].clone()).unwrap_or_default();
            let (mut free, epoch) =
                self.acquire(group, &member_id, OTHER, &[0, 1, 2, 3], |free| is_in(&expected, free))?;
            // And nothing else.
            let request = self.request(group, member_id, epoch, &[]);
            add(&mut free, self.fetch(OTHER, ShareFetchRequest { max_wait_ms: 300, ..request })?);
            left.free.push(free);
        }
        Ok(left)
    }

    fn open(&mut self, who: Who, connection: u8) -> Result<()> {
        let (group, partition) = who;
        if let Some((member_id, epoch)) = self.members.get_mut(&who) {
            *epoch = 1;
            let member_id = member_id.clone();
            let request = self.request(group, member_id, 0, &[partition]);
            self.fetch(connection, ShareFetchRequest { max_records: 0, ..request })?;
            return Ok(());
        }
        let member_id = self.broker.member_id(&format!("member {partition}"));
        let is_all = |of: &Records| of.values().map(|of| of.offsets().count()).sum::<usize>() == RECORDS;
        let (_, epoch) = self.acquire(group, &member_id, connection, &[partition], is_all)?;
        self.members.insert(who, (member_id, epoch));
        Ok(())
    }

    /// Opens the session of a new member and fetches until it is enough. Gives the next epoch too.
    fn acquire(
        &mut self,
        group: usize,
        member_id: &Str,
        connection: u8,
        partitions: &[i32],
        is_enough: impl Fn(&Records) -> bool,
    ) -> Result<(Records, i32)> {
        let start = Instant::now();
        let (mut all, mut epoch) = (Records::new(), 0);
        loop {
            let listed = if epoch == 0 { partitions } else { &[] };
            let request = self.request(group, member_id.clone(), epoch, listed);
            add(&mut all, self.fetch(connection, ShareFetchRequest { max_wait_ms: 300, ..request })?);
            epoch += 1;
            if is_enough(&all) || start.elapsed() > PATIENCE {
                return Ok((all, epoch));
            }
        }
    }

    fn request(&self, group: usize, member_id: Str, epoch: i32, partitions: &[i32]) -> ShareFetchRequest {
        let partition = |index: &i32| FetchPartition { partition_index: *index, ..Default::default() };
        let topic = FetchTopic {
            topic_id: self.broker.topic_id(),
            partitions: partitions.iter().map(partition).collect(),
            ..Default::default()
        };
        ShareFetchRequest {
            group_id: Some(self.broker.group(group)),
            member_id: Some(member_id),
            share_session_epoch: epoch,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 500,
            batch_size: 500,
            topics: if partitions.is_empty() { Vec::new() } else { vec![topic] },
            ..Default::default()
        }
    }

    fn fetch(&mut self, connection: u8, request: ShareFetchRequest) -> Result<ShareFetchResponse> {
        let response = self.broker.ask(connection, request)?;
        ensure!(response.error_code.is_ok(), "ShareFetch: {}", response.error_code);
        Ok(response)
    }
}

/// The broker under test.
struct Live<'a> {
    groups: [Group<'a>; 2],
    connections: HashMap<u8, Client>,
}

impl<'a> Live<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self> {
        let first = Group::new(cluster, "connections", PARTITIONS, LOCK)?;
        let second = Group::of(cluster, first.topic.clone(), first.leader, LOCK)?;
        Ok(Self { groups: [first, second], connections: HashMap::new() })
    }
}

impl Broker for Live<'_> {
    fn ask(&mut self, connection: u8, request: ShareFetchRequest) -> Result<ShareFetchResponse> {
        let Group { cluster, leader, .. } = self.groups[0];
        let client = match self.connections.entry(connection) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => new.insert(cluster.connect(leader)?),
        };
        client.call(&request)
    }

    fn end(&mut self, connection: u8) {
        self.connections.remove(&connection);
    }

    fn settle(&self) {
        thread::sleep(NOTICED);
    }

    fn topic_id(&self) -> Uuid {
        self.groups[0].topic.id
    }

    fn group(&self, index: usize) -> Str {
        self.groups[index].name.clone()
    }

    fn member_id(&mut self, _name: &str) -> Str {
        self.groups[0].cluster.member_id()
    }
}

/// Our broker, with the defects of the one under test.
struct Imitation {
    cluster: kit::Cluster,
    topic_id: Uuid,
    now: Duration,
    connections: HashMap<u8, ConnectionId>,
}

const NODE: i32 = 1;

impl Imitation {
    fn new() -> Result<Self> {
        let mut cluster =
            kit::Cluster::new(ClusterConfig { imitate_defects: true, ..Default::default() }, [NODE]);
        let topic_id = cluster.create_topic("topic", &[NODE; PARTITIONS as usize]);
        let mut batch = BatchBuilder::new();
        for _ in 0..RECORDS {
            batch.append(&NewRecord { value: Some(b"value"), ..Default::default() })?;
        }
        let batch = batch.finish()?;
        for partition in 0..PARTITIONS {
            cluster.append(TopicIdPartition::new(topic_id, partition), &batch)?;
        }
        (0..2).for_each(|index| cluster.create_group(&format!("group {index}")));
        Ok(Self { cluster, topic_id, now: Duration::ZERO, connections: HashMap::new() })
    }
}

impl Broker for Imitation {
    fn ask(&mut self, connection: u8, request: ShareFetchRequest) -> Result<ShareFetchResponse> {
        let id = match self.connections.entry(connection) {
            Entry::Occupied(there) => *there.get(),
            Entry::Vacant(new) => *new.insert(self.cluster.connect(NODE).context("the node is down")?),
        };
        self.cluster.send(self.now, id, 2, request);
        loop {
            match self.cluster.poll(self.now).map(|reply| reply.response) {
                Some(BrokerResponse::ShareFetch(response)) => return Ok(response),
                Some(response) => bail!("not asked for: {response:?}"),
                None => self.now = self.cluster.next_deadline().context("no response will come")?,
            }
        }
    }

    fn end(&mut self, connection: u8) {
        if let Some(id) = self.connections.remove(&connection) {
            self.cluster.disconnect(self.now, id);
        }
    }

    fn settle(&self) {}

    fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    fn group(&self, index: usize) -> Str {
        format!("group {index}").into()
    }

    fn member_id(&mut self, name: &str) -> Str {
        name.into()
    }
}
