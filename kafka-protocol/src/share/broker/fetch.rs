use std::collections::BTreeMap;
use std::time::Duration;

use super::ConnectionId;
use super::connections::Handled;
use super::node::{Node, State};
use super::rows::{FetchRows, acknowledge_response};
use super::world::World;
use crate::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
};
use crate::protocol::ErrorCode;
use crate::share::locks::{AcknowledgeReason, Acquire};
use crate::share::sessions::{SessionKey, SessionStep};
use crate::share::validate::{Level, Listing, Refusal, ShareRequest, fetches, last_listings, validate};
use crate::share::{ShareAcquireMode, TopicIdPartition};

/// A ShareFetch that waits.
#[derive(Debug)]
pub(super) enum Parked {
    /// For records.
    Fetch(Fetch),
    /// Before it is refused.
    Refused(Duration, ErrorCode),
}

impl Parked {
    /// Until when it waits.
    pub(super) fn deadline(&self) -> Duration {
        match self {
            Self::Fetch(fetch) => fetch.deadline,
            Self::Refused(deadline, _) => *deadline,
        }
    }
}

/// A fetch from all partitions of a session.
#[derive(Debug)]
pub(super) struct Fetch {
    key: SessionKey,
    deadline: Duration,
    min_bytes: i64,
    max_bytes: i64,
    max_records: i32,
    batch_size: i32,
    mode: ShareAcquireMode,
    rows: FetchRows,
}

/// What has come of the acknowledgements of a partition.
pub(super) struct Outcome {
    pub(super) code: ErrorCode,
    pub(super) message: Option<String>,
}

impl Outcome {
    const fn code(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// The whole request fails: the defect of a 4.4.0 broker.
struct Defect;

impl Node {
    pub(super) fn share_fetch(
        &mut self,
        now: Duration,
        world: &mut World,
        connection: ConnectionId,
        version: i16,
        request: &ShareFetchRequest,
    ) -> Handled {
        let refusals = self.refusals(world, request, version);
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        if let Some(code) = top(&refusals) {
            return match code {
                ErrorCode::SHARE_SESSION_LIMIT_REACHED if !wait.is_zero() => {
                    Handled::Parked(Parked::Refused(now.saturating_add(wait), code))
                }
                _ => refused(code).into(),
            };
        }
        let key = key_of(request);
        let fetches = fetches(request, version);
        let mode = ShareAcquireMode::from_number(request.share_acquire_mode);
        let imitate = world.group_config(&key.group_id).locks.imitate_defects;
        if fetches && mode.is_none() && !imitate {
            return refused(ErrorCode::INVALID_REQUEST).into();
        }
        let step = match self.sessions.step(connection, request) {
            Ok(step) => step,
            Err((code, _)) => return refused(code).into(),
        };
        let Ok(outcomes) = self.acknowledge(now, &key, request, &refusals) else {
            return refused(ErrorCode::UNKNOWN_SERVER_ERROR).into();
        };
        let rows = FetchRows::acknowledged(outcomes);
        if step == SessionStep::Closed {
            self.release(&key);
        }
        let empty = self.sessions.get(&key).is_none_or(|session| session.partitions().next().is_none());
        if !fetches || empty {
            return rows.response(world, &key.group_id).into();
        }
        let Some(mode) = mode else { return refused(ErrorCode::UNKNOWN_SERVER_ERROR).into() };
        let fetch = Fetch {
            key,
            deadline: now.saturating_add(wait),
            min_bytes: request.min_bytes.into(),
            max_bytes: request.max_bytes.into(),
            max_records: request.max_records,
            batch_size: request.batch_size,
            mode,
            rows,
        };
        self.resume(now, world, Parked::Fetch(fetch))
    }

    pub(super) fn share_acknowledge(
        &mut self,
        now: Duration,
        world: &mut World,
        connection: ConnectionId,
        version: i16,
        request: &ShareAcknowledgeRequest,
    ) -> ShareAcknowledgeResponse {
        let failed = |error_code| ShareAcknowledgeResponse { error_code, ..Default::default() };
        let refusals = self.refusals(world, request, version);
        if let Some(code) = top(&refusals) {
            return failed(code);
        }
        let key = key_of(request);
        let step = match self.sessions.step(connection, request) {
            Ok(step) => step,
            Err((code, _)) => return failed(code),
        };
        let Ok(outcomes) = self.acknowledge(now, &key, request, &refusals) else {
            return failed(ErrorCode::UNKNOWN_SERVER_ERROR);
        };
        if step == SessionStep::Closed {
            self.release(&key);
        }
        acknowledge_response(outcomes, world, &key.group_id)
    }

    /// Goes on with a request that waits.
    pub(super) fn resume(&mut self, now: Duration, world: &mut World, parked: Parked) -> Handled {
        match parked {
            Parked::Refused(deadline, code) if deadline <= now => refused(code).into(),
            Parked::Refused(..) => Handled::Parked(parked),
            Parked::Fetch(fetch) => self.fetch(now, world, fetch),
        }
    }

    fn refusals<R: ShareRequest>(&self, world: &World, request: &R, version: i16) -> Vec<Refusal> {
        if version > world.config.max_share_fetch_version {
            let message = "not a version of this broker";
            return vec![Refusal::new(ErrorCode::UNSUPPORTED_VERSION, Level::Top, "", message)];
        }
        validate(request, version, &State(self, world))
    }

    /// Applies acknowledgements, and says of which partitions there is something to tell.
    fn acknowledge<R: ShareRequest>(
        &mut self,
        now: Duration,
        key: &SessionKey,
        request: &R,
        refusals: &[Refusal],
    ) -> Result<BTreeMap<TopicIdPartition, Outcome>, Defect> {
        let (mut outcomes, mut listed) = (BTreeMap::new(), Vec::new());
        let mut records_looked_at = false;
        for listing in last_listings(request) {
            let level = listing.acknowledge_level();
            let outcome = match refusals.iter().find(|refusal| refusal.level == level) {
                Some(refusal) => Outcome { code: refusal.code, message: Some(refusal.to_string()) },
                None if listing.batches.is_empty() => {
                    listed.push((listing.partition, Outcome::code(ErrorCode::NONE)));
                    continue;
                }
                None => {
                    records_looked_at = true;
                    self.acknowledge_one(now, key, &listing)?
                }
            };
            outcomes.insert(listing.partition, outcome);
        }
        // What is only listed is told of beside acknowledgements that have come as far as the records (measured).
        if records_looked_at {
            outcomes.extend(listed);
        }
        Ok(outcomes)
    }

    /// Applies the acknowledgements of a partition.
    fn acknowledge_one(
        &mut self,
        now: Duration,
        key: &SessionKey,
        listing: &Listing<'_>,
    ) -> Result<Outcome, Defect> {
        let partition = listing.partition;
        // A former leader has no share partition either, and does not tell who leads now (measured).
        let Some(share) = self.partitions.get_mut(&(key.group_id.clone(), partition)) else {
            let message = Some("no session has fetched from the partition".to_owned());
            return Ok(Outcome { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message });
        };
        match share.acknowledge(now, &key.member_id, listing.batches.iter()) {
            Ok(()) => {
                self.count(now, listing);
                Ok(Outcome::code(ErrorCode::NONE))
            }
            Err(error) if error.reason == AcknowledgeReason::Defect => Err(Defect),
            Err(error) => Ok(Outcome { code: error.code(), message: Some(error.to_string()) }),
        }
    }

    /// Counts acknowledgements that succeeded, offsets below the start offset included (measured).
    fn count(&mut self, now: Duration, listing: &Listing<'_>) {
        for batch in listing.batches.iter() {
            match *batch.acknowledge_types {
                [ty] => {
                    let offsets = batch.last_offset.abs_diff(batch.first_offset).saturating_add(1);
                    self.metrics.mark(now, ty, offsets);
                }
                ref each => each.iter().for_each(|&ty| self.metrics.mark(now, ty, 1)),
            }
        }
    }

    /// Whether the node leads a partition.
    fn leads(&self, world: &World, partition: TopicIdPartition) -> Result<(), ErrorCode> {
        if !world.topics.contains_key(&partition.topic_id) {
            return Err(ErrorCode::UNKNOWN_TOPIC_ID);
        }
        let row = world.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        if row.leader == Some(self.id) { Ok(()) } else { Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) }
    }

    /// Fetches when there is enough, or the time is over.
    fn fetch(&mut self, now: Duration, world: &mut World, mut fetch: Fetch) -> Handled {
        let Some(session) = self.sessions.get(&fetch.key) else {
            // Closed over another connection.
            return fetch.rows.response(world, &fetch.key.group_id).into();
        };
        let wants = fetch.max_records > 0 && fetch.max_bytes > 0;
        let (mut healthy, mut failed, mut available) = (Vec::new(), Vec::new(), 0);
        for partition in session.rotated_partitions() {
            match self.available(world, &fetch, partition) {
                Ok(bytes) => {
                    available += bytes;
                    healthy.push(partition);
                }
                Err(code) => failed.push((partition, code)),
            }
        }
        let waits = wants && !healthy.is_empty() && available < fetch.min_bytes;
        if waits && now < fetch.deadline {
            return Handled::Parked(Parked::Fetch(fetch));
        }
        let codes = healthy.iter().map(|&partition| (partition, ErrorCode::NONE)).chain(failed);
        if let Some(session) = self.sessions.get_mut(&fetch.key) {
            for (partition, code) in codes {
                if session.has_news(partition, code) {
                    fetch.rows.failed(world, partition, code);
                }
            }
        }
        if wants {
            healthy.into_iter().for_each(|partition| self.acquire(now, world, &mut fetch, partition));
        }
        fetch.rows.response(world, &fetch.key.group_id).into()
    }

    /// How many bytes a fetch finds in a partition.
    fn available(
        &mut self,
        world: &World,
        fetch: &Fetch,
        partition: TopicIdPartition,
    ) -> Result<i64, ErrorCode> {
        self.leads(world, partition)?;
        if fetch.max_records <= 0 || fetch.max_bytes <= 0 {
            return Ok(0);
        }
        let share = self.load(world, &fetch.key.group_id, partition)?;
        let log = &world.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?.log;
        if !share.can_acquire(log.end_offset()) {
            return Ok(0);
        }
        Ok(log.size(log.read(share.next_fetch_offset(), fetch.max_bytes as usize)) as i64)
    }

    fn acquire(&mut self, now: Duration, world: &World, fetch: &mut Fetch, partition: TopicIdPartition) {
        let key = (fetch.key.group_id.clone(), partition);
        let (Some(share), Some(row)) = (self.partitions.get_mut(&key), world.partition(partition)) else {
            return;
        };
        if fetch.max_records <= 0 || fetch.max_bytes <= 0 || !share.can_acquire(row.log.end_offset()) {
            return;
        }
        let fetch_offset = share.next_fetch_offset();
        let acquire = Acquire {
            record_batches: row.log.ranges(row.log.read(fetch_offset, fetch.max_bytes as usize)),
            fetch_offset,
            mode: fetch.mode,
            max_records: fetch.max_records,
            batch_size: fetch.batch_size,
        };
        let mut acquired = Vec::new();
        let count = share.acquire(now, &fetch.key.member_id, &acquire, &mut acquired);
        let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else { return };
        let records = row.log.bytes(first.first_offset, last.last_offset);
        fetch.max_records = fetch.max_records.saturating_sub(i32::try_from(count).unwrap_or(i32::MAX));
        fetch.max_bytes -= records.len() as i64;
        fetch.rows.acquired(partition, records, acquired);
    }
}

fn refused(error_code: ErrorCode) -> ShareFetchResponse {
    ShareFetchResponse { error_code, ..Default::default() }
}

fn top(refusals: &[Refusal]) -> Option<ErrorCode> {
    refusals.iter().find(|refusal| refusal.level == Level::Top).map(|refusal| refusal.code)
}

fn key_of<R: ShareRequest>(request: &R) -> SessionKey {
    SessionKey::new(request.group_id().unwrap_or_default(), request.member_id().unwrap_or_default())
}
