//! What our own rules say a broker will answer, held against what it does answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::share::locks::{
    AcknowledgeReason, Acquire, LockConfig, RecordBatchRange, SharePartition,
};
use kafka_protocol::share::validate::{
    AcknowledgementBatch, BrokerState, Level, Refusal, Session, ShareRequest, batches, validate,
};
use kafka_protocol::wire::{Str, Uuid};

use super::member::{Acquired, Answer, Batch};
use crate::walks::{fetch_as, log_of};

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
        answer: &mut Answer,
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
            check_partition(refusal, answer)?;
        }
        answer.predicted = refusals.first().map(|refusal| refusal.code);
        if is_own && answer.error.is_ok() {
            self.session = match request.share_session_epoch() {
                -1 => Session::Absent,
                epoch => Session::Open(epoch.checked_add(1).unwrap_or(1)),
            };
        }
        Ok(())
    }
}

fn check_partition(refusal: &Refusal, answer: &Answer) -> Result<()> {
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

/// A partition of two record batches, offsets 0-4 and 5-9, as our lock machine has it. What is done at a broker is done
/// here too.
pub(super) struct Locks {
    partition: SharePartition,
    log: Vec<RecordBatchRange>,
    now: Duration,
}

/// What a broker answers, and says, according to our rules and our lock machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Predicted {
    pub(super) code: ErrorCode,
    /// Why, if that is for the records and not for the form of the request.
    pub(super) reason: Option<AcknowledgeReason>,
}

impl Locks {
    pub(super) fn new(config: LockConfig) -> Self {
        Self { partition: SharePartition::new(config, 0), log: log_of([5, 5]), now: Duration::ZERO }
    }

    /// Time goes by, and locks run out.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.partition.expire(self.now);
    }

    /// A member gets all that is free.
    pub(super) fn acquire(&mut self, member_id: &str) -> Acquired {
        let free = fetch_as(&mut self.partition, self.now, member_id, &self.log, &Acquire::default());
        let offsets = |(first, last, count)| (first..=last).map(move |offset| (offset, count));
        free.into_iter().flat_map(offsets).collect()
    }

    /// A member sends acknowledgements, in a request of this version.
    pub(super) fn acknowledge(
        &mut self,
        member_id: &str,
        version: i16,
        is_renew_ack: bool,
        sent: &[Batch<'_>],
    ) -> Predicted {
        let types = |types: &[i8]| types.iter().copied().map(AcknowledgeType).collect::<Vec<_>>();
        let sent: Vec<_> = sent.iter().map(|batch| (batch.0, batch.1, types(batch.2))).collect();
        let sent = || {
            sent.iter().map(|(first, last, types)| AcknowledgementBatch {
                first_offset: *first,
                last_offset: *last,
                acknowledge_types: types,
            })
        };
        if batches(sent(), version, is_renew_ack).is_err() {
            return Predicted { code: ErrorCode::INVALID_REQUEST, reason: None };
        }
        let refused = self.partition.acknowledge(self.now, member_id, sent()).err();
        let reason = refused.map(|error| error.reason);
        Predicted { code: reason.map_or(ErrorCode::NONE, AcknowledgeReason::code), reason }
    }
}
