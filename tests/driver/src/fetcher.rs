//! Fetches partitions for a consumer: who leads them, where it is, what has come.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{FetchRequest, FetchResponse, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{Fetch, RecordBuffer};
use kafka_protocol::records::{Batches, OwnedRecord};
use kafka_protocol::wire::{Str, Uuid};

use crate::client::Client;

/// How long a broker waits for records to come. Short, because what else is sent over the connection waits too.
const MAX_WAIT_MS: i32 = 100;

/// What is known of the leaders.
#[derive(Debug, Default)]
pub(crate) struct Fetcher {
    topics: BTreeMap<Str, Topic>,
    addresses: BTreeMap<i32, String>,
    /// Whether leaders have to be looked up again.
    pub(crate) is_stale: bool,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    leaders: BTreeMap<i32, i32>,
}

impl Fetcher {
    /// Asks a broker for the leaders of topics.
    pub(crate) fn refresh(
        &mut self,
        client: &mut Client,
        topics: &BTreeSet<Str>,
    ) -> Result<MetadataResponse> {
        let topic = |name: &Str| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
        let request =
            MetadataRequest { topics: Some(topics.iter().map(topic).collect()), ..Default::default() };
        let response = client.call(&request)?;
        for broker in &response.brokers {
            self.addresses.insert(broker.node_id, format!("{}:{}", broker.host, broker.port));
        }
        for topic in response.topics.iter().filter(|topic| topic.error_code.is_ok()) {
            let Some(name) = &topic.name else { continue };
            let leaders = topic.partitions.iter().map(|it| (it.partition_index, it.leader_id)).collect();
            self.topics.insert(name.clone(), Topic { id: topic.topic_id, leaders });
        }
        self.is_stale = false;
        Ok(response)
    }

    pub(crate) fn address(&self, node: i32) -> Option<&str> {
        self.addresses.get(&node).map(String::as_str)
    }

    /// A request for each leader, with what it fetches.
    pub(crate) fn requests(&mut self, fetches: Vec<Fetch>) -> BTreeMap<i32, (FetchRequest, Vec<Fetch>)> {
        let mut requests = BTreeMap::<_, (FetchRequest, Vec<Fetch>)>::new();
        for fetch in fetches {
            let Some(topic) = self.topics.get(&fetch.partition.topic) else { continue };
            let Some(leader) = topic.leaders.get(&fetch.partition.partition) else { continue };
            if *leader < 0 {
                self.is_stale = true;
                continue;
            }
            let (request, fetched) = requests.entry(*leader).or_default();
            (request.max_wait_ms, request.min_bytes) = (MAX_WAIT_MS, 1);
            let row = FetchPartition {
                partition: fetch.partition.partition,
                fetch_offset: fetch.offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            };
            match request.topics.last_mut() {
                Some(last) if last.topic == fetch.partition.topic => last.partitions.push(row),
                _ => request.topics.push(FetchTopic {
                    topic: fetch.partition.topic.clone(),
                    topic_id: topic.id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
            fetched.push(fetch);
        }
        requests
    }

    /// Takes the records of the response to a request for these.
    pub(crate) fn fetched(
        &mut self,
        buffer: &mut RecordBuffer<OwnedRecord>,
        fetches: &[Fetch],
        response: &FetchResponse,
    ) -> Result<()> {
        for topic in &response.responses {
            let known = self.topics.iter().find(|(_, known)| known.id == topic.topic_id);
            let name = known.map_or(&topic.topic, |(name, _)| name);
            for row in &topic.partitions {
                let is_asked_for = |fetch: &&Fetch| {
                    fetch.partition.topic == *name && fetch.partition.partition == row.partition_index
                };
                let Some(fetch) = fetches.iter().find(is_asked_for) else { continue };
                if !buffer.is_waiting_for(fetch) {
                    continue;
                }
                match row.error_code {
                    ErrorCode::NONE => {
                        let (records, next) =
                            decode(row, fetch.offset).with_context(|| fetch.partition.to_string())?;
                        buffer.fetched(fetch, records, next);
                    }
                    ErrorCode::OFFSET_OUT_OF_RANGE => {
                        buffer.fetched(fetch, [], row.log_start_offset.max(0));
                    }
                    _ => self.is_stale = true,
                }
            }
        }
        Ok(())
    }
}

/// The records from an offset on, and the offset behind the batches.
fn decode(row: &PartitionData, offset: i64) -> Result<(Vec<OwnedRecord>, i64)> {
    let (mut records, mut next) = (Vec::new(), offset);
    for batch in Batches::new(&row.records.clone().unwrap_or_default()) {
        let batch = batch?;
        // The first batch may begin before the offset asked for, and compaction leaves gaps.
        if !batch.header().is_control() {
            for record in batch.records()?.owned() {
                let record = record?;
                if record.offset() >= offset {
                    records.push(record);
                }
            }
        }
        next = next.max(batch.header().next_offset().context("no offset behind a batch")?);
    }
    Ok((records, next))
}
