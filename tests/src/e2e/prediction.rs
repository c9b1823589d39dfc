//! What our own rules say a broker will answer, held against what it does answer.

use anyhow::{Result, ensure};
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::validate::{BrokerState, Level, Refusal, Session, ShareRequest, validate};
use kafka_protocol::wire::{Str, Uuid};

use super::member::Answer;

/// What a member knows of the broker.
pub(super) struct Known {
    pub(super) member_id: Str,
    pub(super) topic_id: Uuid,
    pub(super) partitions: i32,
    /// The session of the member itself.
    pub(super) session: Session,
}

impl BrokerState for Known {
    fn session(&self, _group_id: &str, member_id: &str) -> Session {
        if member_id == self.member_id { self.session } else { Session::Unknown }
    }

    fn has_topic(&self, topic_id: Uuid) -> bool {
        topic_id == self.topic_id
    }

    fn has_partition(&self, partition: TopicIdPartition) -> bool {
        (0..self.partitions).contains(&partition.partition)
    }
}

impl Known {
    /// That the broker refuses what our rules refuse, with the same code at the same place. Beyond the rules are the
    /// states of records, and sessions that nothing is known of.
    pub(super) fn check<R: ShareRequest>(
        &mut self,
        request: &R,
        version: i16,
        answer: &Answer,
    ) -> Result<()> {
        let refusals = validate(request, version, self);
        let top = refusals.iter().find(|refusal| refusal.level == Level::Top);
        let predicted = top.map_or(ErrorCode::NONE, |refusal| refusal.code);
        let is_own = request.member_id() == Some(&*self.member_id);
        ensure!(
            answer.error == predicted || (top.is_none() && !is_own),
            "answered with {}, predicted is {predicted}: {}",
            answer.error,
            top.map_or(String::new(), Refusal::to_string),
        );
        for refusal in &refusals {
            self.check_partition(refusal, answer)?;
        }
        if is_own && answer.error.is_ok() {
            self.session = match request.share_session_epoch() {
                -1 => Session::Absent,
                epoch => Session::Open(epoch.checked_add(1).unwrap_or(1)),
            };
        }
        Ok(())
    }

    fn check_partition(&self, refusal: &Refusal, answer: &Answer) -> Result<()> {
        let (place, of_fetch) = match refusal.level {
            Level::Top => return Ok(()),
            Level::Partition(partition) => (partition, true),
            Level::Acknowledge(partition) => (partition, false),
        };
        let row = answer.rows.get(&place.partition);
        let codes = row.map(|row| (row.error, row.acknowledge_error));
        let found = codes.is_some_and(|(fetch, acknowledge)| {
            acknowledge == refusal.code || (of_fetch && fetch == refusal.code)
        });
        ensure!(found, "answered with {codes:?}, predicted is {} for {refusal}", refusal.code);
        Ok(())
    }
}
