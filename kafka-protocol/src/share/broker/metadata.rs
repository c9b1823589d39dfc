use super::world::{PORT, Topic, World, host};
use crate::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use crate::messages::find_coordinator_response::Coordinator;
use crate::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::messages::{
    ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse,
    ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest, api_versions_response,
};
use crate::protocol::{ApiKey, ErrorCode, Message, Request, Versions};
use crate::wire::{SmallVec, Uuid};

/// The key type of groups in FindCoordinator.
const GROUP: i8 = 0;

impl World {
    pub(super) fn api_versions(&self) -> ApiVersionsResponse {
        let share = |versions: Versions| Versions::new(versions.min(), self.config.max_share_fetch_version);
        let api_keys = [
            (ApiKey::API_VERSIONS, crate::messages::ApiVersionsRequest::VERSIONS),
            (MetadataRequest::API_KEY, MetadataRequest::VERSIONS),
            (FindCoordinatorRequest::API_KEY, FindCoordinatorRequest::VERSIONS),
            (ShareGroupHeartbeatRequest::API_KEY, ShareGroupHeartbeatRequest::VERSIONS),
            (ShareFetchRequest::API_KEY, share(ShareFetchRequest::VERSIONS)),
            (ShareAcknowledgeRequest::API_KEY, share(ShareAcknowledgeRequest::VERSIONS)),
        ];
        let api_keys = api_keys.map(|(key, versions)| ApiVersion {
            api_key: key.into(),
            min_version: versions.min(),
            max_version: versions.max(),
            ..Default::default()
        });
        let level = self.config.share_version;
        let share = FinalizedFeatureKey {
            name: "share.version".into(),
            max_version_level: level,
            min_version_level: level,
            ..Default::default()
        };
        let supported = api_versions_response::SupportedFeatureKey {
            name: "share.version".into(),
            max_version: 2,
            ..Default::default()
        };
        ApiVersionsResponse {
            api_keys: api_keys.into(),
            supported_features: vec![supported],
            finalized_features_epoch: 1,
            // A feature that is off is not listed.
            finalized_features: if level > 0 { vec![share] } else { Vec::new() },
            ..Default::default()
        }
    }

    pub(super) fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let brokers = self.nodes.iter().filter(|(_, up)| **up).map(|(&node_id, _)| MetadataResponseBroker {
            node_id,
            host: host(node_id),
            port: PORT,
            ..Default::default()
        });
        let topics = match &request.topics {
            None => self.topics.iter().map(|(&id, topic)| self.topic_row(id, topic)).collect(),
            Some(topics) => topics
                .iter()
                .map(|asked| {
                    let found = match &asked.name {
                        Some(name) => self.topic_id(name),
                        None => Some(asked.topic_id),
                    };
                    let row = found.and_then(|id| Some(self.topic_row(id, self.topics.get(&id)?)));
                    row.unwrap_or_else(|| MetadataResponseTopic {
                        error_code: match asked.name {
                            Some(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                            None => ErrorCode::UNKNOWN_TOPIC_ID,
                        },
                        name: asked.name.clone(),
                        topic_id: asked.topic_id,
                        ..Default::default()
                    })
                })
                .collect(),
        };
        MetadataResponse {
            brokers: brokers.collect(),
            cluster_id: Some("in-memory".into()),
            controller_id: self.coordinator().unwrap_or(-1),
            topics,
            ..Default::default()
        }
    }

    fn topic_row(&self, topic_id: Uuid, topic: &Topic) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().enumerate().map(|(index, partition)| {
            let (leader, leader_epoch) = self.leader(partition);
            let nodes: SmallVec<[i32; 4]> = partition.leader.into_iter().collect();
            MetadataResponsePartition {
                error_code: if leader.is_some() { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE },
                partition_index: index as i32,
                leader_id: leader.unwrap_or(-1),
                leader_epoch,
                replica_nodes: nodes.clone(),
                isr_nodes: leader.into_iter().collect(),
                offline_replicas: nodes.into_iter().filter(|node| Some(*node) != leader).collect(),
                ..Default::default()
            }
        });
        MetadataResponseTopic {
            name: Some(topic.name.clone()),
            topic_id,
            partitions: partitions.collect(),
            ..Default::default()
        }
    }

    pub(super) fn find_coordinator(
        &mut self,
        request: &FindCoordinatorRequest,
        version: i16,
    ) -> FindCoordinatorResponse {
        let found = match self.coordinator() {
            _ if request.key_type != GROUP => Err(ErrorCode::INVALID_REQUEST),
            Some(node_id) => Ok(node_id),
            None => Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        };
        self.coordinator_found |= found.is_ok();
        let (node_id, error_code) = match found {
            Ok(node_id) => (node_id, ErrorCode::NONE),
            Err(code) => (-1, code),
        };
        let (host, port) = if found.is_ok() { (host(node_id), PORT) } else { Default::default() };
        // One key in a field of its own, until version 3.
        if version < 4 {
            return FindCoordinatorResponse { error_code, node_id, host, port, ..Default::default() };
        }
        let coordinators = request.coordinator_keys.iter().map(|key| Coordinator {
            key: key.clone(),
            node_id,
            host: host.clone(),
            port,
            error_code,
            ..Default::default()
        });
        FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() }
    }
}
