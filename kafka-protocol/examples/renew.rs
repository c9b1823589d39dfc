//! Long work on the records of a share group: whenever half of the acquisition lock is over, it is renewed (KIP-1222).
//!
//! ```text
//! cargo run --example renew -- HOST:PORT [TOPIC [GROUP]]
//! ```
//!
//! The topic is made and filled if there is none. Ends when nothing comes any more. Start it twice to see two members
//! share the work, and stop one of them to see its records come to the other, with a higher delivery count.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use std::{env, process};

use anyhow::{Context, Result};
use driver::ShareGroupConsumer;
use driver::admin::{configure_group, example_topic};
use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::consumer::{AcknowledgementMode, Event, ShareConsumerConfig};
use kafka_protocol::share::{ShareAcquireMode, TopicIdPartition};

/// After how long without a record there are none left. The first may take three seconds in a new cluster.
const IDLE: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().context("which broker? HOST:PORT")?;
    let topic = arguments.next().unwrap_or_else(|| "renew-example".into());
    let group = arguments.next().unwrap_or_else(|| "renew-example".into());
    example_topic(&address, &topic, 1, 4)?;
    // A share group begins at the end of a topic unless it is told otherwise.
    let mut client = driver::Client::connect(&address)?;
    configure_group(&mut client, &group.as_str().into(), &[("share.auto.offset.reset", "earliest")])?;

    let (host, port) = address.rsplit_once(':').context("no port")?;
    let bootstrap = vec![(host.into(), port.parse()?)];
    let mut config = ShareConsumerConfig::new(group, member_id(), bootstrap);
    config.acknowledgement_mode = AcknowledgementMode::Explicit;
    // One record at a time: locks of others would run while they wait for their turn.
    config.fetch.acquire_mode = ShareAcquireMode::RecordLimit;
    config.fetch.max_records = 1;
    let mut consumer = ShareGroupConsumer::new(config);
    consumer.subscribe([topic.into()])?;

    let mut work = Work::default();
    loop {
        // New records, or the one that was renewed.
        let batches = consumer.poll(IDLE)?;
        report(consumer.events());
        if batches.is_empty() {
            break;
        }
        for batch in batches {
            for acquired in batch.records {
                let offset = acquired.record.offset();
                let lock = consumer.consumer().acquisition_lock_timeout().unwrap_or(Duration::from_secs(20));
                let total = lock.mul_f64(if offset % 2 == 0 { 0.25 } else { 1.25 });
                let done = work.of(batch.partition, offset, acquired.delivery_count);

                // Work on it, for no longer than half of the lock. Heartbeats go on meanwhile.
                let time = (lock / 2).min(total - *done);
                consumer.wait(time)?;
                *done += time;

                let is_done = *done >= total;
                let percent = 100.0 * done.as_secs_f64() / total.as_secs_f64();
                let ty = if is_done { AcknowledgeType::ACCEPT } else { AcknowledgeType::RENEW };
                consumer.acknowledge(batch.partition, offset, ty)?;
                let what = if is_done { "accepted" } else { "renewed" };
                let count = acquired.delivery_count;
                println!(
                    "{}-{} offset {offset}, delivery {count}: {percent:.0} %, {what}",
                    batch.topic, batch.partition.partition
                );
            }
        }
    }
    consumer.close()?;
    report(consumer.events());
    Ok(())
}

/// How much has been done for each record, in this delivery.
#[derive(Default)]
struct Work(HashMap<(TopicIdPartition, i64), (i16, Duration)>);

impl Work {
    fn of(&mut self, partition: TopicIdPartition, offset: i64, delivery_count: i16) -> &mut Duration {
        let (delivery, done) = self.0.entry((partition, offset)).or_default();
        if *delivery != delivery_count {
            (*delivery, *done) = (delivery_count, Duration::ZERO);
        }
        done
    }
}

/// A failed acknowledgement is no reason to stop: the record will be delivered again, to whomever.
fn report(events: Vec<Event>) {
    for event in events {
        match event {
            Event::Acknowledged { result, .. } if !result.error.is_ok() => {
                println!("{:?}: not acknowledged, {}", result.partition, result.error);
            }
            Event::Assigned { partitions } => println!("assigned: {} partitions", partitions.len()),
            Event::Dropped { records, reason, .. } => println!("dropped: {records} records, {reason:?}"),
            _ => {}
        }
    }
}

/// An id that no other member has.
fn member_id() -> String {
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    format!("{:x}-{nanos:x}", process::id())
}
