//! What metadata says of topics: ids, names, numbers of partitions.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::metadata_request::MetadataRequestTopic;
use crate::messages::{MetadataRequest, MetadataResponse};
use crate::protocol::ErrorCode;
use crate::wire::{Str, Uuid};

use super::request::Request;

/// The topics that metadata has been seen of.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Number of partitions; `None` if there is no such topic.
    partitions: BTreeMap<Str, Option<i32>>,
    names: BTreeMap<Uuid, Str>,
}

/// What metadata is missing.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) names: BTreeSet<Str>,
    pub(super) ids: BTreeSet<Uuid>,
}

impl Topics {
    pub(super) fn update(&mut self, response: &MetadataResponse) {
        for topic in &response.topics {
            let Some(name) = &topic.name else { continue };
            match topic.error_code {
                ErrorCode::NONE => {
                    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                    self.partitions.insert(name.clone(), Some(count));
                    // Before version 10 there are no ids.
                    if !topic.topic_id.is_nil() {
                        self.names.insert(topic.topic_id, name.clone());
                    }
                }
                ErrorCode::LEADER_NOT_AVAILABLE => {}
                _ => drop(self.partitions.insert(name.clone(), None)),
            }
        }
    }

    /// The number of partitions of a topic, `Some(None)` if it does not exist, `None` if that is not known.
    pub(super) fn partitions(&self, name: &Str) -> Option<Option<i32>> {
        self.partitions.get(name).copied()
    }

    pub(super) fn name(&self, id: Uuid) -> Option<&Str> {
        self.names.get(&id)
    }

    /// What is known of some topics, to find changes by.
    pub(super) fn snapshot(&self, names: &BTreeSet<Str>) -> BTreeMap<Str, Option<i32>> {
        names.iter().map(|name| (name.clone(), self.partitions(name).flatten())).collect()
    }
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.ids.is_empty()
    }

    pub(super) fn request(self) -> Request {
        let by_name = self
            .names
            .into_iter()
            .map(|name| MetadataRequestTopic { name: Some(name), ..MetadataRequestTopic::default() });
        let by_id = self.ids.into_iter().map(|topic_id| MetadataRequestTopic {
            topic_id,
            name: None,
            ..MetadataRequestTopic::default()
        });
        let topics = Some(by_name.chain(by_id).collect());
        MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() }.into()
    }
}
