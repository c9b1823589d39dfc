use super::batch::InFlightBatch;
use super::{DeliveryState, LAST_OFFSET, LockConfig, Record, SharePartition};

/// The state of a range of records, as in the messages of persisted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBatch {
    /// First offset, inclusive.
    pub first_offset: i64,
    /// Last offset, inclusive.
    pub last_offset: i64,
    /// The state of each record.
    pub delivery_state: DeliveryState,
    /// How often each has been delivered.
    pub delivery_count: i16,
}

/// What survives of a share partition when its leader changes or restarts: what WriteShareGroupState carries and
/// ReadShareGroupState gives back.
///
/// Locks do not survive, nor do renewals, nor do deliveries that have had no outcome yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistedState {
    /// The share partition start offset.
    pub start_offset: i64,
    /// Ascending and not overlapping. Between them are records of which nothing is known.
    pub state_batches: Vec<StateBatch>,
}

impl SharePartition {
    /// What a broker has persisted. A record that is acquired is there as it was before it was acquired: available
    /// again when an earlier delivery had an outcome, else not at all.
    pub fn persisted_state(&self) -> PersistedState {
        let mut state_batches: Vec<StateBatch> = Vec::new();
        for (mut state, _) in self.states() {
            if state.delivery_state == DeliveryState::Acquired {
                state.delivery_state = DeliveryState::Available;
                state.delivery_count -= 1;
            }
            if state.delivery_count == 0 && state.delivery_state == DeliveryState::Available {
                continue;
            }
            match state_batches.last_mut() {
                Some(last)
                    if last.last_offset + 1 == state.first_offset
                        && last.delivery_state == state.delivery_state
                        && last.delivery_count == state.delivery_count =>
                {
                    last.last_offset = state.last_offset;
                }
                _ => state_batches.push(state),
            }
        }
        PersistedState { start_offset: self.start_offset, state_batches }
    }

    /// A share partition as a new leader finds it.
    ///
    /// The state may come from anywhere: ranges that are out of order or below the start offset count as far as they go on
    /// from the ones before, a start offset or delivery count below 0 counts as 0, and as no record has the offset
    /// 9223372036854775807, no range goes up to there.
    pub fn restore(config: LockConfig, state: &PersistedState) -> Self {
        let mut partition = Self::new(config, state.start_offset);
        let mut next = partition.start_offset;
        for batch in &state.state_batches {
            let (first, last) = (batch.first_offset.max(next), batch.last_offset.min(LAST_OFFSET));
            if first > last {
                continue;
            }
            if next < first {
                partition.batches.push_back(InFlightBatch::whole(next, first - 1, Record::undelivered()));
            }
            // Locks are not persisted; a record that claims one is available.
            let delivery_state = match batch.delivery_state {
                DeliveryState::Acquired => DeliveryState::Available,
                other => other,
            };
            let record = Record {
                state: delivery_state,
                delivery_count: batch.delivery_count.max(0),
                ..Record::undelivered()
            };
            partition.batches.push_back(InFlightBatch::whole(first, last, record));
            next = last + 1;
        }
        partition.settle();
        partition
    }
}
