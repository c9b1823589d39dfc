//! Fetches partitions for a consumer: who leads them, where it is, what has come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{FetchRequest, FetchResponse, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::TopicPartition;
use kafka_protocol::records::{Batches, OwnedRecord};
use kafka_protocol::wire::{Bytes, Str, Uuid};

use crate::client::Client;
use crate::group_consumer::ConsumerRecord;

/// How long a broker waits for records to come. Short, because what else is sent over the connection waits too.
const MAX_WAIT_MS: i32 = 100;

/// The state of fetching.
#[derive(Debug, Default)]
pub(crate) struct Fetcher {
    topics: BTreeMap<Str, Topic>,
    addresses: BTreeMap<i32, String>,
    /// The offset of the next record, per partition.
    positions: BTreeMap<TopicPartition, i64>,
    /// What has come and nobody has seen. No queue is empty.
    records: BTreeMap<TopicPartition, VecDeque<OwnedRecord>>,
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

    /// A partition is fetched from this offset on.
    pub(crate) fn seek(&mut self, partition: TopicPartition, offset: i64) {
        self.positions.insert(partition, offset);
    }

    /// A partition is not the consumer's any more, and neither are records of it that nobody has seen.
    pub(crate) fn forget(&mut self, partition: &TopicPartition) {
        self.positions.remove(partition);
        self.records.remove(partition);
    }

    pub(crate) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// At most so many of the records that have come, from all partitions alike.
    pub(crate) fn take(&mut self, max: usize) -> Vec<ConsumerRecord> {
        let share = max.div_ceil(self.records.len().max(1));
        let mut taken = Vec::new();
        for (partition, records) in &mut self.records {
            let count = share.min(max - taken.len()).min(records.len());
            let record = |record| ConsumerRecord { partition: partition.clone(), record };
            taken.extend(records.drain(..count).map(record));
        }
        self.records.retain(|_, records| !records.is_empty());
        taken
    }

    /// A request for each leader of partitions that have no records waiting.
    pub(crate) fn requests(&mut self) -> BTreeMap<i32, FetchRequest> {
        let mut requests = BTreeMap::<_, FetchRequest>::new();
        let empty = self.positions.iter().filter(|(partition, _)| !self.records.contains_key(partition));
        for (partition, position) in empty {
            let Some(topic) = self.topics.get(&partition.topic) else { continue };
            let Some(leader) = topic.leaders.get(&partition.partition) else { continue };
            if *leader < 0 {
                self.is_stale = true;
                continue;
            }
            let request = requests.entry(*leader).or_insert_with(|| FetchRequest {
                max_wait_ms: MAX_WAIT_MS,
                min_bytes: 1,
                ..Default::default()
            });
            let fetch = FetchPartition {
                partition: partition.partition,
                fetch_offset: *position,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            };
            match request.topics.last_mut() {
                Some(last) if last.topic == partition.topic => last.partitions.push(fetch),
                _ => request.topics.push(FetchTopic {
                    topic: partition.topic.clone(),
                    topic_id: topic.id,
                    partitions: vec![fetch],
                    ..Default::default()
                }),
            }
        }
        requests
    }

    /// Takes the records of a response. Those of partitions that were dropped meanwhile are too late.
    pub(crate) fn fetched(&mut self, response: FetchResponse) -> Result<()> {
        for topic in response.responses {
            let name = match self.topics.iter().find(|(_, known)| known.id == topic.topic_id) {
                Some((name, _)) => name.clone(),
                None => topic.topic,
            };
            for row in topic.partitions {
                let partition = TopicPartition::new(name.clone(), row.partition_index);
                match row.error_code {
                    ErrorCode::NONE => self.arrived(&partition, &row.records.unwrap_or_default())?,
                    ErrorCode::OFFSET_OUT_OF_RANGE if self.positions.contains_key(&partition) => {
                        self.seek(partition, row.log_start_offset.max(0));
                    }
                    _ => self.is_stale = true,
                }
            }
        }
        Ok(())
    }

    fn arrived(&mut self, partition: &TopicPartition, field: &Bytes) -> Result<()> {
        let Some(position) = self.positions.get_mut(partition) else { return Ok(()) };
        for batch in Batches::new(field) {
            let batch = batch?;
            // The first batch may begin before the offset asked for, and compaction leaves gaps.
            if !batch.header().is_control() {
                for record in batch.records().with_context(|| partition.to_string())?.owned() {
                    let record = record?;
                    if record.offset() >= *position {
                        self.records.entry(partition.clone()).or_default().push_back(record);
                    }
                }
            }
            let next = batch.header().next_offset().context("no offset behind a batch")?;
            *position = (*position).max(next);
        }
        Ok(())
    }
}
