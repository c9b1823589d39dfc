//! Share sessions, the broker's side: who fetches what, and which request comes next.
//!
//! A session belongs to a member of a group on one broker, which leads the partitions in it. It lives as long as the
//! connection that opened it; another connection may use it, and closes without harm (measured).
//!
//! # What a 4.4.0 broker does otherwise
//!
//! - The end of a connection ends one session at most, the last that the connection opened. It ends none when any session
//!   that the connection opened has been closed since, or opened again over another connection. Those that do not end stay,
//!   with what their members have acquired, until they are closed or opened again (all of it measured). Here all of them
//!   end, unless [`imitate_defects`](ShareSessionCache::imitate_defects) says so.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::validate::{Session, ShareRequest, session_epoch};
use super::{TopicIdPartition, next_share_session_epoch};
use crate::messages::ShareFetchRequest;
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// A connection to a broker, by a number that no other has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(
    /// The number.
    pub u64,
);

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The share group.
    pub group_id: Str,
    /// The member.
    pub member_id: Str,
}

impl SessionKey {
    /// The key of a member of a group.
    pub fn new(group_id: impl Into<Str>, member_id: impl Into<Str>) -> Self {
        Self { group_id: group_id.into(), member_id: member_id.into() }
    }
}

/// A share session.
#[derive(Clone, Debug)]
pub struct ShareSession {
    connection: ConnectionId,
    next_epoch: i32,
    /// With whether the last response about it was an error.
    partitions: BTreeMap<TopicIdPartition, bool>,
}

impl ShareSession {
    /// The connection that opened it.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// The epoch of the next request.
    pub fn next_epoch(&self) -> i32 {
        self.next_epoch
    }

    /// Lets the session go on with a request of another epoch, 1 and above, so that a test of what comes behind 2147483647
    /// need not send as many requests.
    pub fn set_next_epoch(&mut self, next_epoch: i32) {
        self.next_epoch = next_epoch;
    }

    /// The partitions that are fetched from, ascending.
    pub fn partitions(&self) -> impl Iterator<Item = TopicIdPartition> + '_ {
        self.partitions.keys().copied()
    }

    /// The same, each time from another one on, so that none has to wait for good when a response has no room for all.
    pub fn rotated_partitions(&self) -> Vec<TopicIdPartition> {
        let mut partitions: Vec<_> = self.partitions().collect();
        let by = self.next_epoch.unsigned_abs() as usize % partitions.len().max(1);
        partitions.rotate_left(by);
        partitions
    }

    /// Whether a partition has to be in a response although there is nothing to tell but its error code: it is an
    /// error, or the last one was and this is its end.
    pub fn has_news(&mut self, partition: TopicIdPartition, error_code: ErrorCode) -> bool {
        let failed = !error_code.is_ok();
        match self.partitions.get_mut(&partition) {
            Some(had_failed) => std::mem::replace(had_failed, failed) || failed,
            None => failed,
        }
    }
}

/// What a request has done to the session of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// It has opened one. What the member acquired in an older one stays acquired (measured).
    Opened,
    /// The next epoch is one higher.
    Continued,
    /// It has closed it. Once its acknowledgements are applied, what the member still has acquired is to be released.
    Closed,
}

/// What has ended with a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disconnected {
    /// The sessions; what their members have acquired is to be released.
    pub sessions: Vec<SessionKey>,
    /// The groups that have no session on the broker any more. It forgets their share partitions, which are read from
    /// persisted state when somebody fetches again; acknowledgements are refused until then with
    /// `UNKNOWN_TOPIC_OR_PARTITION` (measured).
    pub empty_groups: Vec<Str>,
}

/// The share sessions of a broker.
///
/// ```
/// use kafka_protocol::messages::ShareFetchRequest;
/// use kafka_protocol::protocol::ErrorCode;
/// use kafka_protocol::share::sessions::{ConnectionId, SessionStep, ShareSessionCache};
///
/// let mut sessions = ShareSessionCache::new(2000);
/// let mut request = ShareFetchRequest {
///     group_id: Some("orders".into()),
///     member_id: Some("worker-1".into()),
///     share_session_epoch: 0,
///     ..Default::default()
/// };
/// assert_eq!(sessions.step(ConnectionId(1), &request), Ok(SessionStep::Opened));
///
/// request.share_session_epoch = 2;
/// let (code, _) = sessions.step(ConnectionId(1), &request).unwrap_err();
/// assert_eq!(code, ErrorCode::INVALID_SHARE_SESSION_EPOCH);
/// request.share_session_epoch = 1;
/// assert_eq!(sessions.step(ConnectionId(1), &request), Ok(SessionStep::Continued));
/// ```
#[derive(Clone, Debug)]
pub struct ShareSessionCache {
    max_share_sessions: usize,
    sessions: HashMap<SessionKey, ShareSession>,
    /// Every session that a connection has opened, also those that are gone; with defects only the last.
    opened: HashMap<ConnectionId, HashSet<SessionKey>>,
    /// With defects: connections whose end ends no session.
    harmless: HashSet<ConnectionId>,
    evictions: u64,
    imitate_defects: bool,
}

impl ShareSessionCache {
    /// No session, and room for so many (`group.share.max.share.sessions`, 2000 by default).
    pub fn new(max_share_sessions: usize) -> Self {
        Self {
            max_share_sessions,
            sessions: HashMap::new(),
            opened: HashMap::new(),
            harmless: HashSet::new(),
            evictions: 0,
            imitate_defects: false,
        }
    }

    /// Whether the defect of the 4.4.0 broker is imitated that the [module](self) names, for connections that open
    /// sessions from now on. Default false.
    pub fn imitate_defects(mut self, imitate: bool) -> Self {
        self.imitate_defects = imitate;
        self
    }

    /// The session of a member.
    pub fn get(&self, key: &SessionKey) -> Option<&ShareSession> {
        self.sessions.get(key)
    }

    /// The session of a member.
    pub fn get_mut(&mut self, key: &SessionKey) -> Option<&mut ShareSession> {
        self.sessions.get_mut(key)
    }

    /// What [`validate`](super::validate()) asks about a member.
    pub fn session(&self, key: &SessionKey) -> Session {
        match self.sessions.get(key) {
            Some(session) => Session::Open(session.next_epoch),
            None if self.sessions.len() >= self.max_share_sessions => Session::LimitReached,
            None => Session::Absent,
        }
    }

    /// Takes a request into account: checks its epoch, opens, steps or closes the session, and adds and forgets
    /// partitions, in this order. A ShareAcknowledge adds none, and what opens a session forgets none (measured).
    ///
    /// To be called once [`validate`](super::validate()) finds nothing at the top level; a null group or member counts
    /// as empty.
    ///
    /// # Errors
    ///
    /// Those of [`session_epoch`]: code and message of the top level. Nothing has changed.
    pub fn step<R: ShareRequest>(
        &mut self,
        connection: ConnectionId,
        request: &R,
    ) -> Result<SessionStep, (ErrorCode, String)> {
        let (group_id, member_id) = (request.group_id(), request.member_id());
        let key = SessionKey::new(group_id.unwrap_or_default(), member_id.unwrap_or_default());
        session_epoch(request, self.session(&key))?;
        let step = match request.share_session_epoch() {
            0 => {
                self.remove(&key);
                let session = ShareSession { connection, next_epoch: 1, partitions: BTreeMap::new() };
                self.sessions.insert(key.clone(), session);
                let opened = self.opened.entry(connection).or_default();
                if self.imitate_defects {
                    opened.clear();
                    self.harmless.remove(&connection);
                }
                opened.insert(key.clone());
                SessionStep::Opened
            }
            -1 => {
                self.remove(&key);
                return Ok(SessionStep::Closed);
            }
            _ => SessionStep::Continued,
        };
        if let Some(session) = self.sessions.get_mut(&key) {
            if step == SessionStep::Continued {
                session.next_epoch = next_share_session_epoch(session.next_epoch);
            }
            if let Some(fetch) = request.as_fetch() {
                session.add(fetch);
                if step == SessionStep::Continued {
                    session.forget(fetch);
                }
            }
        }
        Ok(step)
    }

    fn remove(&mut self, key: &SessionKey) {
        if let Some(removed) = self.sessions.remove(key).filter(|_| self.imitate_defects) {
            // Whether it is the last one that the connection opened or not.
            self.harmless.insert(removed.connection);
        }
    }

    /// Ends all sessions that a connection opened and that no other one has opened again since; with
    /// [defects](Self::imitate_defects) the last of them at most.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Disconnected {
        let mut ended = Disconnected::default();
        let mut groups: Vec<Str> = Vec::new();
        let is_harmless = self.harmless.remove(&connection);
        for key in self.opened.remove(&connection).unwrap_or_default() {
            if !groups.contains(&key.group_id) {
                groups.push(key.group_id.clone());
            }
            let is_theirs = self.sessions.get(&key).is_some_and(|session| session.connection == connection);
            if is_theirs && !is_harmless {
                self.sessions.remove(&key);
                self.evictions += 1;
                ended.sessions.push(key);
            }
        }
        groups.retain(|group| self.sessions.keys().all(|key| key.group_id != *group));
        // The order of a hash set is another one each time.
        ended.sessions.sort();
        groups.sort();
        ended.empty_groups = groups;
        ended
    }

    /// How many sessions there are (`ShareSessionsCount`).
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How many partitions are in all sessions (`SharePartitionsCount`).
    pub fn partitions(&self) -> usize {
        self.sessions.values().map(|session| session.partitions.len()).sum()
    }

    /// How many sessions have ended with their connection (`ShareSessionEvictionsPerSec`).
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
}

impl ShareSession {
    /// What a request lists is in the session from now on, also when it is listed for its acknowledgements.
    fn add(&mut self, fetch: &ShareFetchRequest) {
        for listing in fetch.listings() {
            self.partitions.entry(listing.partition).or_default();
        }
    }

    /// What a request forgets is not any more.
    fn forget(&mut self, fetch: &ShareFetchRequest) {
        for topic in &fetch.forgotten_topics_data {
            for &partition in &topic.partitions {
                self.partitions.remove(&TopicIdPartition::new(topic.topic_id, partition));
            }
        }
    }
}
