use super::{ClientSession, FINAL_EPOCH, next_share_session_epoch};
use crate::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use crate::protocol::ErrorCode;
use crate::share::{PartitionAcknowledgements, TopicIdPartition};
use crate::wire::Str;

/// What came of the acknowledgements that a request carried for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgeResult {
    /// The partition.
    pub partition: TopicIdPartition,
    /// What was acknowledged, gaps and renewals included.
    pub acknowledgements: PartitionAcknowledgements,
    /// NONE: all of it took effect. Otherwise nothing of it did, except that renewals may have; records then come back
    /// to some consumer once their acquisition locks run out.
    pub error: ErrorCode,
    /// The node's words on the error; `None` if it has none.
    pub message: Option<Str>,
}

impl ClientSession {
    /// Takes the answer to the ShareFetch in flight and tells what came of its acknowledgements.
    ///
    /// | error of the answer | session | acknowledgements |
    /// |---|---|---|
    /// | none | epoch counts on | as each partition says; INVALID_RECORD_STATE for one that the answer lacks |
    /// | SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED | is to be opened again | fail with that error |
    /// | UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST | is as before, as the node checks these first | fail with that error |
    /// | any other | epoch counts on, as the node has counted too | fail with that error |
    ///
    /// So does Kafka's Java client 4.4, except that it counts on in the third row too. After UNKNOWN_SERVER_ERROR the node has
    /// counted, as measured. Should the epochs ever differ, the next answer is INVALID_SHARE_SESSION_EPOCH, which heals it.
    ///
    /// Without a request in flight nothing happens.
    pub fn fetch_response(&mut self, response: &ShareFetchResponse) -> Vec<AcknowledgeResult> {
        self.answered(response.error_code, &response.error_message, |at| {
            let topic = response.responses.iter().filter(|topic| topic.topic_id == at.topic_id);
            let mut rows = topic.flat_map(|topic| &topic.partitions);
            let row = rows.find(|row| row.partition_index == at.partition)?;
            Some((row.acknowledge_error_code, row.acknowledge_error_message.clone()))
        })
    }

    /// Takes the answer to the ShareAcknowledge in flight, also to one that closes the session, and tells what came of
    /// its acknowledgements: see [`fetch_response`](Self::fetch_response).
    pub fn acknowledge_response(&mut self, response: &ShareAcknowledgeResponse) -> Vec<AcknowledgeResult> {
        self.answered(response.error_code, &response.error_message, |at| {
            let topic = response.responses.iter().filter(|topic| topic.topic_id == at.topic_id);
            let mut rows = topic.flat_map(|topic| &topic.partitions);
            let row = rows.find(|row| row.partition_index == at.partition)?;
            Some((row.error_code, row.error_message.clone()))
        })
    }

    /// The connection is gone, or no answer came in time, which has to end the connection: the node releases what
    /// the member acquired through it, and the next fetch opens another session. The acknowledgements in flight fail
    /// with `error`, such as NETWORK_EXCEPTION.
    pub fn failed(&mut self, error: ErrorCode) -> Vec<AcknowledgeResult> {
        self.reset();
        let in_flight = self.in_flight.take();
        let acknowledgements = in_flight.map(|in_flight| in_flight.acknowledgements).unwrap_or_default();
        acknowledgements
            .into_iter()
            .map(|(partition, acknowledgements)| AcknowledgeResult {
                partition,
                acknowledgements,
                error,
                message: None,
            })
            .collect()
    }

    /// `row` tells the error of a partition, if the answer has the partition.
    fn answered(
        &mut self,
        error: ErrorCode,
        message: &Option<Str>,
        row: impl Fn(TopicIdPartition) -> Option<(ErrorCode, Option<Str>)>,
    ) -> Vec<AcknowledgeResult> {
        let Some(in_flight) = self.in_flight.take() else { return Vec::new() };
        match error {
            _ if in_flight.epoch == FINAL_EPOCH => self.reset(),
            ErrorCode::SHARE_SESSION_NOT_FOUND
            | ErrorCode::INVALID_SHARE_SESSION_EPOCH
            | ErrorCode::SHARE_SESSION_LIMIT_REACHED => self.reset(),
            ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_REQUEST => {}
            _ => {
                self.next_epoch = next_share_session_epoch(in_flight.epoch);
                if let Some(partitions) = in_flight.partitions {
                    self.partitions = partitions;
                }
            }
        }
        let of = |partition| match error {
            ErrorCode::NONE => row(partition).unwrap_or((ErrorCode::INVALID_RECORD_STATE, None)),
            _ => (error, message.clone()),
        };
        let acknowledgements = in_flight.acknowledgements.into_iter();
        acknowledgements
            .filter(|(_, acknowledgements)| !acknowledgements.is_empty())
            .map(|(partition, acknowledgements)| {
                let (error, message) = of(partition);
                AcknowledgeResult { partition, acknowledgements, error, message }
            })
            .collect()
    }
}
