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
    /// That the broker refuses what our rules refuse, with the same code at the same place, and nothing else. Beyond the
    /// rules are the states of records and of partitions that are known, and sessions that nothing is known of.
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
        if answer.error.is_ok() {
            self.check_rows(request, &refusals, answer)?;
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

    fn check_rows<R: ShareRequest>(&self, request: &R, refusals: &[Refusal], answer: &Answer) -> Result<()> {
        let is_fetch = request.as_fetch().is_some();
        let fetches = is_fetch && !request.is_renew_ack() && request.share_session_epoch() != -1;
        let mut left: Vec<_> = refusals.iter().map(|refusal| (refusal.level, refusal.code)).collect();
        for (&of, row) in &answer.rows {
            let acknowledged = if is_fetch { Level::Acknowledge(of) } else { Level::Partition(of) };
            // A broker says why, if that is about records.
            let says_why = row.acknowledge_message.is_some();
            let is_known = self.has_topic(of.topic_id) && self.has_partition(of);
            for (level, code, is_beyond) in [
                (acknowledged, row.acknowledge_error, is_known && says_why),
                (Level::Partition(of), row.error, is_known && fetches),
            ] {
                let predicted = left.iter().position(|refusal| *refusal == (level, code));
                if let Some(predicted) = predicted {
                    left.swap_remove(predicted);
                }
                ensure!(
                    code.is_ok() || predicted.is_some() || is_beyond,
                    "answered with {code} at {level:?}, predicted are {refusals:?}"
                );
            }
        }
        ensure!(left.is_empty(), "predicted are {left:?}, answered with {:?}", answer.rows);
        Ok(())
    }
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
