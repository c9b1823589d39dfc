//! What must be true, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
use kafka_protocol::records::{BatchBuilder, NewRecord};
use kafka_protocol::share::broker::{BrokerRequest, BrokerResponse, Cluster};
use kafka_protocol::share::consumer::{AcquiredRecord, PartitionRecords};
use kafka_protocol::share::locks::DeliveryState;
use kafka_protocol::share::sessions::ConnectionId;
use kafka_protocol::share::{AcknowledgeResult, TopicIdPartition, next_share_session_epoch};

use super::plan::{GROUP, Plan};
use super::{Totals, counted};
use crate::random::Random;

/// The types that nodes count.
const COUNTED: [AcknowledgeType; 4] =
    [AcknowledgeType::ACCEPT, AcknowledgeType::RELEASE, AcknowledgeType::REJECT, AcknowledgeType::RENEW];

/// What is known of records, and of sessions.
pub(super) struct Model {
    partitions: BTreeMap<TopicIdPartition, Partition>,
    records: BTreeMap<(TopicIdPartition, i64), Record>,
    /// Per connection: the epoch in flight, and the one that must come next.
    epochs: BTreeMap<ConnectionId, (Option<i32>, i32)>,
    /// Acknowledgements that have succeeded, by the types of `COUNTED`.
    heard: [u64; 4],
}

#[derive(Default)]
struct Partition {
    end_offset: i64,
    /// Counts leader changes, which lose locks and delivery counts.
    generation: u64,
    dropped: bool,
}

#[derive(Default)]
struct Record {
    /// Where deliveries are counted.
    generation: u64,
    delivery_count: i16,
    /// Which consumer has it in hand, until when it is locked, and under which leader.
    hold: Option<(usize, Duration, u64)>,
    /// Which consumers have renewed it so late that it may have been somebody else's, or done with, by then.
    late_renewals: BTreeSet<usize>,
    /// Whether its end was told in time.
    has_ended: bool,
    /// Whether its end was told at all.
    has_end: bool,
}

impl Model {
    pub(super) fn new(partitions: Vec<TopicIdPartition>) -> Self {
        Self {
            partitions: partitions.into_iter().map(|partition| (partition, Partition::default())).collect(),
            records: BTreeMap::new(),
            epochs: BTreeMap::new(),
            heard: [0; 4],
        }
    }

    /// Adds some record batches to a partition, perhaps with holes. The value of a record is its offset.
    pub(super) fn append(&mut self, cluster: &mut Cluster, at: TopicIdPartition, random: &mut Random) {
        let of = self.partitions.entry(at).or_default();
        for _ in 0..=random.below(2) {
            if random.once_in(6) {
                let hole = 1 + random.below(3) as i64;
                cluster.skip_offsets(at, hole);
                of.end_offset += hole;
            }
            let mut batch = BatchBuilder::new().base_offset(0);
            let mut offset = 0;
            for _ in 0..=random.below(8) {
                offset += i64::from(random.once_in(8)); // compacted away
                let absolute = of.end_offset + offset;
                let value = absolute.to_be_bytes();
                let record = NewRecord { offset: Some(offset), value: Some(&value), ..Default::default() };
                batch.append(&record).expect("it is small");
                self.records.insert((at, absolute), Record::default());
                offset += 1;
            }
            let base = cluster.append(at, &batch.finish().expect("it is not empty")).expect("whole batches");
            assert_eq!(base, of.end_offset);
            of.end_offset += offset;
        }
    }

    pub(super) fn leader_changes(&mut self, partition: TopicIdPartition) {
        if let Some(of) = self.partitions.get_mut(&partition) {
            of.generation += 1;
        }
    }

    pub(super) fn all_leaders_change(&mut self) {
        self.partitions.values_mut().for_each(|of| of.generation += 1);
    }

    pub(super) fn dropped(&mut self, partition: TopicIdPartition) {
        if let Some(of) = self.partitions.get_mut(&partition) {
            of.dropped = true;
        }
    }

    pub(super) fn is_record(&self, partition: TopicIdPartition, offset: i64) -> bool {
        self.records.contains_key(&(partition, offset))
    }

    fn generation(&self, partition: TopicIdPartition) -> u64 {
        self.partitions.get(&partition).map_or(0, |of| of.generation)
    }

    // ---- Records ----

    /// An application acknowledges records, so that it no longer counts on them.
    pub(super) fn let_go(&mut self, app: usize, records: &[((TopicIdPartition, i64), Duration)]) {
        for (record, _) in records {
            if let Some(record) = self.records.get_mut(record)
                && record.hold.is_some_and(|hold| hold.0 == app)
            {
                record.hold = None;
            }
        }
    }

    /// A consumer gives records to its application. `is_sound`: nothing has happened to the connection.
    pub(super) fn handed_out(
        &mut self,
        (app, member): (usize, &str),
        records: &PartitionRecords,
        is_sound: bool,
        now: Duration,
        cluster: &Cluster,
        totals: &mut Totals,
    ) -> Result<(), String> {
        let partition = records.partition;
        let generation = self.generation(partition);
        let locks_for = cluster.share_partition(GROUP, partition);
        for acquired in &records.records {
            let offset = acquired.record.offset();
            let place =
                format!("consumer {app} got {partition} {offset} (delivery {})", acquired.delivery_count);
            check_record(acquired, now).map_err(|error| format!("{place}: {error}"))?;
            let record =
                self.records.get_mut(&(partition, offset)).ok_or("a record that was never written")?;
            // Of a leader change since then the consumer may not know.
            let owned = locks_for.and_then(|of| {
                let mut states = of.states();
                states.find(|(state, _)| (state.first_offset..=state.last_offset).contains(&offset))
            });
            if acquired.delivery_count > record.delivery_count {
                record.late_renewals.remove(&app);
            }
            let is_sure = is_sound && !record.late_renewals.contains(&app);
            if is_sure && generation == 0 {
                if record.has_ended {
                    return Err(format!("{place}, which is done with"));
                }
                match owned {
                    Some((state, Some(owner))) if owner == member => {
                        if state.delivery_count != acquired.delivery_count {
                            return Err(format!("{place}, and the node says {state:?}"));
                        }
                    }
                    other => return Err(format!("{place}, and the node says {other:?}")),
                }
                if let Some((holder, until, of)) = record.hold
                    && (holder, of) != (app, generation)
                    && until > now
                {
                    return Err(format!("{place}, locked for consumer {holder} until {until:?}"));
                }
                if acquired.delivery_count < record.delivery_count {
                    return Err(format!("{place}, after delivery {}", record.delivery_count));
                }
            }
            if acquired.delivery_count > 1 {
                totals.redelivered += 1;
            }
            record.delivery_count = record.delivery_count.max(acquired.delivery_count);
            record.generation = generation;
            record.hold = acquired.lock_deadline.filter(|_| is_sure).map(|until| (app, until, generation));
        }
        Ok(())
    }

    /// Something has happened to a connection, so that its node may release what the consumer holds.
    pub(super) fn may_lose(&mut self, app: usize) {
        for record in self.records.values_mut() {
            if record.hold.is_some_and(|hold| hold.0 == app) {
                record.hold = None;
            }
        }
    }

    /// A consumer says what came of acknowledgements. `is_late`: a lock may have run out before. Such an acknowledgement
    /// succeeds too, and does nothing, when others have finished the record and those before it.
    pub(super) fn acknowledged(
        &mut self,
        app: usize,
        result: &AcknowledgeResult,
        (is_late, has_faults): (bool, bool),
        cluster: &Cluster,
        totals: &mut Totals,
    ) -> Result<(), String> {
        let partition = result.partition;
        if !result.error.is_ok() {
            totals.failed_acknowledgements += 1;
            // Without faults only the locks can have run out.
            if !has_faults && result.error != ErrorCode::INVALID_RECORD_STATE {
                return Err(format!("{result:?} without a fault"));
            }
            return Ok(());
        }
        for (offset, ty) in result.acknowledgements.iter() {
            if let Some(at) = COUNTED.iter().position(|counted| *counted == ty) {
                self.heard[at] += 1;
            }
            let Some(record) = self.records.get_mut(&(partition, offset)) else {
                // Released only where an acquired range comes without any record batch.
                if ty != AcknowledgeType::GAP && ty != AcknowledgeType::RELEASE {
                    return Err(format!("{partition} {offset} was never written, and is {ty:?}"));
                }
                totals.gaps += 1;
                continue;
            };
            if ty == AcknowledgeType::GAP {
                return Err(format!("{partition} {offset} is a record, not a gap"));
            }
            let is_late = is_late || record.late_renewals.contains(&app);
            match ty {
                AcknowledgeType::RENEW => {
                    totals.renewed += 1;
                    if is_late {
                        record.late_renewals.insert(app);
                    }
                }
                AcknowledgeType::RELEASE => totals.released += 1,
                _ => {
                    if record.has_ended && !is_late && self.partitions[&partition].generation == 0 {
                        return Err(format!("{partition} {offset} has come to its end twice"));
                    }
                    if !is_done(cluster, partition, offset) {
                        return Err(format!("{partition} {offset} has come to its end, and not at the node"));
                    }
                    record.has_end = true;
                    record.has_ended |= !is_late;
                    if ty == AcknowledgeType::ACCEPT {
                        totals.accepted += 1;
                    } else {
                        totals.rejected += 1;
                    }
                }
            }
        }
        Ok(())
    }

    // ---- Sessions ----

    /// There is one request of a session at a time, and its epoch is the next one.
    pub(super) fn sent(&mut self, connection: ConnectionId, request: &BrokerRequest) -> Result<(), String> {
        let epoch = match request {
            BrokerRequest::ShareFetch(request) => request.share_session_epoch,
            BrokerRequest::ShareAcknowledge(request) => request.share_session_epoch,
            _ => return Ok(()),
        };
        let (in_flight, next) = self.epochs.entry(connection).or_insert((None, 0));
        if in_flight.is_some() {
            return Err(format!("{connection:?}: two requests at a time"));
        }
        if epoch != *next && (epoch, *next == 0) != (-1, false) {
            return Err(format!("{connection:?}: epoch {epoch}, not {next}"));
        }
        *in_flight = Some(epoch);
        Ok(())
    }

    pub(super) fn answered(
        &mut self,
        connection: ConnectionId,
        response: &BrokerResponse,
        has_faults: bool,
    ) -> Result<(), String> {
        let error = match response {
            BrokerResponse::ShareFetch(response) => response.error_code,
            BrokerResponse::ShareAcknowledge(response) => response.error_code,
            _ => return Ok(()),
        };
        if !error.is_ok() && !has_faults {
            return Err(format!("{error:?} without a fault"));
        }
        let Some((in_flight, next)) = self.epochs.get_mut(&connection) else { return Ok(()) };
        let epoch = in_flight.take().unwrap_or(0);
        *next = if error.is_ok() && epoch >= 0 { next_share_session_epoch(epoch) } else { 0 };
        Ok(())
    }

    // ---- The end ----

    /// Whether every record is done with at its node.
    pub(super) fn is_done(&self, cluster: &Cluster) -> bool {
        self.partitions.iter().all(|(partition, of)| {
            of.end_offset == 0
                || cluster
                    .share_partition(GROUP, *partition)
                    .is_some_and(|at| at.start_offset() >= of.end_offset)
        })
    }

    /// For a message: what is not done with.
    pub(super) fn left(&self, cluster: &Cluster) -> String {
        let of = |partition: &TopicIdPartition| match cluster.share_partition(GROUP, *partition) {
            Some(of) => {
                format!("{partition} from {}: {:?}", of.start_offset(), of.states().collect::<Vec<_>>())
            }
            None => format!("{partition} is not loaded"),
        };
        self.partitions.keys().map(of).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn check_the_end(
        &self,
        cluster: &Cluster,
        plan: &Plan,
        totals: &mut Totals,
    ) -> Result<(), String> {
        for ((partition, offset), record) in &self.records {
            if record.has_end {
                continue;
            }
            let is_exhausted = record.delivery_count >= plan.delivery_count_limit;
            totals.given_up += u64::from(is_exhausted);
            let may_be_unseen = plan.has_faults || self.partitions[partition].dropped;
            if !is_exhausted && !may_be_unseen {
                return Err(format!("{partition} {offset} is gone after delivery {}", record.delivery_count));
            }
        }
        let by_node = |ty| move |node| cluster.metrics(node).map_or(0, |metrics| counted(metrics, ty));
        let counted = COUNTED.map(|ty| (1..=plan.nodes).map(by_node(ty)).sum::<u64>());
        if !plan.has_faults && counted != self.heard {
            return Err(format!(
                "the nodes count {counted:?} of {COUNTED:?}, the consumers {:?}",
                self.heard
            ));
        }
        Ok(())
    }
}

fn check_record(acquired: &AcquiredRecord, now: Duration) -> Result<(), String> {
    let offset = acquired.record.offset();
    if acquired.record.value() != Some(&offset.to_be_bytes()[..]) {
        return Err(format!("another record's value {:?}", acquired.record.value()));
    }
    match acquired.lock_deadline {
        Some(deadline) if deadline > now => Ok(()),
        other => Err(format!("its lock runs until {other:?}")),
    }
}

fn is_done(cluster: &Cluster, partition: TopicIdPartition, offset: i64) -> bool {
    let Some(of) = cluster.share_partition(GROUP, partition) else { return true };
    let mut states = of.states();
    let state = states.find(|(state, _)| (state.first_offset..=state.last_offset).contains(&offset));
    offset < of.start_offset()
        || matches!(state, Some((state, _)) if matches!(state.delivery_state, DeliveryState::Acknowledged | DeliveryState::Archived))
}
