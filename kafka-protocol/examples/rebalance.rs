//! A consumer group whose members process records at full speed while partitions move (KIP-983).
//!
//! ```text
//! cargo run --example rebalance -- HOST:PORT [TOPIC [GROUP [SECONDS]]]
//! ```
//!
//! The topic is made and filled if there is none. Start it twice: two of the four partitions go over to the second
//! member. The first goes on with the other two without a pause, and finishes and commits what it has in hand of those
//! that go.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime};
use std::{env, process, thread};

use anyhow::{Context, Result};
use driver::admin::example_topic;
use driver::{ConsumerRecord, GroupConsumer, Polled};
use kafka_protocol::rebalance::{Config, Event, GroupProtocol, TopicPartition};

/// How many records may be in hand.
const CAPACITY: usize = 100;

/// How long the processing of a record takes.
const PROCESSING: Duration = Duration::from_millis(5);

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().context("which broker? HOST:PORT")?;
    let topic = arguments.next().unwrap_or_else(|| "rebalance-example".into());
    let group = arguments.next().unwrap_or_else(|| "rebalance-example".into());
    let seconds = arguments.next().map_or(Ok(30), |text| text.parse())?;
    example_topic(&address, &topic, 4, 2000)?;

    let protocol = GroupProtocol::Consumer { member_id: member_id().into(), server_assignor: None };
    let mut consumer = GroupConsumer::new(&address, Config::new(group, protocol))?;
    consumer.subscribe([topic.into()])?;

    let mut processor = Processor::start();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        // a. One poll gives records, what will be revoked, and what is lost. Of partitions that will be revoked it gives
        //    no records any more. It never waits for processing: as long as there is enough in hand, it asks for none.
        let in_hand: usize = processor.in_hand.values().sum();
        let room = if in_hand > CAPACITY / 2 { 0 } else { CAPACITY - in_hand };
        let Polled { records, changes, events } = consumer.poll(Duration::from_millis(50), room)?;
        report(events);
        for assigned in &changes.assigned {
            println!("assigned: {}", assigned.partition);
        }

        // b. Processing starts in the background.
        processor.process(records)?;

        // e. Lost partitions may have another owner already: their records are not committed any more.
        for partition in &changes.lost {
            println!("lost: {partition}");
            processor.forget(partition);
        }

        // c. What is done by now is committed.
        commit(&mut consumer, processor.done());

        // d. The revocation of a partition is completed by the next poll, unless it is held, as here until its last
        //    record is processed and committed. The other partitions go on.
        if !changes.to_be_revoked.is_empty() {
            println!("to be revoked: {}", list(&changes.to_be_revoked));
        }
        let member = consumer.member();
        for partition in member.to_be_revoked_partitions().cloned().collect::<Vec<_>>() {
            if processor.is_busy_with(&partition) {
                member.hold(&partition)
            } else {
                member.release(&partition)
            };
        }
    }

    commit(&mut consumer, processor.finish());
    report(consumer.close(Duration::from_secs(10))?);
    Ok(())
}

/// A thread that takes its time, and what it has in hand.
struct Processor {
    to_do: Sender<(u32, ConsumerRecord)>,
    done: Receiver<(u32, TopicPartition, i64)>,
    in_hand: BTreeMap<TopicPartition, usize>,
    /// How often a partition was lost: what was in hand then does not count when it is back.
    losses: BTreeMap<TopicPartition, u32>,
}

impl Processor {
    fn start() -> Self {
        let (to_do, work) = mpsc::channel::<(u32, ConsumerRecord)>();
        let (to_done, done) = mpsc::channel();
        thread::spawn(move || {
            work.into_iter().try_for_each(|(losses, it)| {
                thread::sleep(PROCESSING);
                to_done.send((losses, it.partition, it.record.offset()))
            })
        });
        Self { to_do, done, in_hand: BTreeMap::new(), losses: BTreeMap::new() }
    }

    fn process(&mut self, records: Vec<ConsumerRecord>) -> Result<()> {
        for record in records {
            *self.in_hand.entry(record.partition.clone()).or_default() += 1;
            self.to_do.send((self.losses(&record.partition), record))?;
        }
        Ok(())
    }

    /// The offsets to commit: one more than that of the last record that is done.
    fn done(&mut self) -> BTreeMap<TopicPartition, i64> {
        let mut offsets = BTreeMap::new();
        while let Ok(done) = self.done.try_recv() {
            self.count(done, &mut offsets);
        }
        offsets
    }

    /// Waits until all is done.
    fn finish(mut self) -> BTreeMap<TopicPartition, i64> {
        let mut offsets = BTreeMap::new();
        while !self.in_hand.is_empty() {
            let Ok(done) = self.done.recv() else { break };
            self.count(done, &mut offsets);
        }
        offsets
    }

    fn count(&mut self, done: (u32, TopicPartition, i64), offsets: &mut BTreeMap<TopicPartition, i64>) {
        let (losses, partition, offset) = done;
        if losses != self.losses(&partition) {
            return;
        }
        if let Some(in_hand) = self.in_hand.get_mut(&partition) {
            *in_hand -= 1;
            if *in_hand == 0 {
                self.in_hand.remove(&partition);
            }
        }
        offsets.insert(partition, offset + 1);
    }

    fn losses(&self, partition: &TopicPartition) -> u32 {
        self.losses.get(partition).copied().unwrap_or_default()
    }

    fn is_busy_with(&self, partition: &TopicPartition) -> bool {
        self.in_hand.contains_key(partition)
    }

    fn forget(&mut self, partition: &TopicPartition) {
        self.in_hand.remove(partition);
        *self.losses.entry(partition.clone()).or_default() += 1;
    }
}

/// One by one, since a commit is refused if any partition of it has been lost since the last poll. The consumer sends
/// together what waits.
fn commit(consumer: &mut GroupConsumer, offsets: BTreeMap<TopicPartition, i64>) {
    for (partition, offset) in offsets {
        match consumer.commit([(partition.clone(), offset.into())]) {
            Ok(_) => println!("committing: {partition}@{offset}"),
            Err(error) => println!("not committed: {error}"),
        }
    }
}

fn report(events: Vec<Event>) {
    for event in events {
        match event {
            Event::GivenUp(partitions) => println!("given up: {}", list(&partitions)),
            Event::Committed(result) if !result.is_ok() => println!("not committed: {:?}", result.partitions),
            Event::Joined { generation_or_epoch } => println!("joined: epoch {generation_or_epoch}"),
            _ => {}
        }
    }
}

fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// An id that no other member has.
fn member_id() -> String {
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    format!("{:x}-{nanos:x}", process::id())
}
