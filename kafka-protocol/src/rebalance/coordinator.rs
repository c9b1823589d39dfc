//! The broker that coordinates the group, requests in flight, and pauses between attempts.

use std::time::Duration;

use super::request::Request;
use crate::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use crate::protocol::ErrorCode;
use crate::wire::Str;

/// The key type of `FindCoordinator` for groups.
const GROUP: i8 = 0;

/// A broker, as `FindCoordinator` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Node id of the broker.
    pub node_id: i32,
    /// Host to connect to.
    pub host: Str,
    /// Port to connect to.
    pub port: i32,
}

/// Whom a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Any broker of the cluster.
    Any,
    /// The group's coordinator. Use a connection of its own for it, since some of its answers take long (`JoinGroup`
    /// until all members have joined) and everything behind them on the same connection waits.
    Coordinator(Node),
}

/// Names a request of a [`Member`](super::Member).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A request to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// What its response has to be handed in under.
    pub id: RequestId,
    /// Whom it is for.
    pub to: Destination,
    /// The request.
    pub request: Request,
    /// When the member gives it up by itself, in the caller's time. Then close the connection: the response may still
    /// come, and nobody waits for it.
    pub deadline: Duration,
}

/// Requests whose responses are not there yet, with what the member has to know when they are.
#[derive(Debug)]
pub(super) struct InFlight<P> {
    next_id: u64,
    requests: Vec<Sent<P>>,
}

#[derive(Debug)]
pub(super) struct Sent<P> {
    id: RequestId,
    pub(super) purpose: P,
    pub(super) at: Duration,
    deadline: Duration,
}

impl<P> InFlight<P> {
    pub(super) fn new() -> Self {
        Self { next_id: 0, requests: Vec::new() }
    }

    pub(super) fn add(&mut self, purpose: P, at: Duration, deadline: Duration) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.requests.push(Sent { id, purpose, at, deadline });
        id
    }

    pub(super) fn take(&mut self, id: RequestId) -> Option<Sent<P>> {
        let index = self.requests.iter().position(|sent| sent.id == id)?;
        Some(self.requests.remove(index))
    }

    /// Takes a request whose time is up.
    pub(super) fn take_expired(&mut self, now: Duration) -> Option<Sent<P>> {
        self.take_if(|sent| sent.deadline <= now)
    }

    /// Takes a request of some purpose.
    pub(super) fn take_any(&mut self, is: impl Fn(&P) -> bool) -> Option<Sent<P>> {
        self.take_if(|sent| is(&sent.purpose))
    }

    fn take_if(&mut self, is: impl Fn(&Sent<P>) -> bool) -> Option<Sent<P>> {
        let index = self.requests.iter().position(is)?;
        Some(self.requests.remove(index))
    }

    /// Nobody waits for these any more.
    pub(super) fn forget(&mut self, is: impl Fn(&P) -> bool) {
        self.requests.retain(|sent| !is(&sent.purpose));
    }

    pub(super) fn any(&self, is: impl Fn(&P) -> bool) -> bool {
        self.requests.iter().any(|sent| is(&sent.purpose))
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.requests.iter().any(|sent| sent.id == id)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.requests.iter().map(|sent| sent.deadline).min()
    }
}

/// Pauses that double from one failure to the next (`retry.backoff.ms`, `retry.backoff.max.ms`).
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
    not_before: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0, not_before: Duration::ZERO }
    }

    pub(super) fn failed(&mut self, now: Duration) {
        let pause = self.first.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures += 1;
        self.not_before = now.saturating_add(pause);
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = Duration::ZERO;
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.not_before <= now
    }

    /// The end of the pause, if there is one.
    pub(super) fn deadline(&self, now: Duration) -> Option<Duration> {
        (!self.is_over(now)).then_some(self.not_before)
    }
}

/// What is known of the coordinator.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) node: Option<Node>,
    pub(super) backoff: Backoff,
    /// The last that wanted no requests for a while, and until when.
    throttled: Option<(Node, Duration)>,
}

impl Coordinator {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { node: None, backoff, throttled: None }
    }

    /// The coordinator mutes the connection for so long (KIP-219). What is not positive means nothing.
    pub(super) fn throttle(&mut self, throttle_time_ms: i32, now: Duration) {
        if let (Some(node), Ok(millis @ 1..)) = (&self.node, u64::try_from(throttle_time_ms)) {
            let end = now.saturating_add(Duration::from_millis(millis));
            self.throttled = Some((node.clone(), self.throttle_end(now).map_or(end, |other| other.max(end))));
        }
    }

    /// When the coordinator takes requests again; `None` if it does now.
    pub(super) fn throttle_end(&self, now: Duration) -> Option<Duration> {
        let (_, end) = self.throttled.as_ref().filter(|(node, _)| self.node.as_ref() == Some(node))?;
        Some(*end).filter(|end| *end > now)
    }

    pub(super) fn request(group_id: &Str) -> Request {
        let keys = vec![group_id.clone()];
        FindCoordinatorRequest { key_type: GROUP, coordinator_keys: keys, ..Default::default() }.into()
    }

    /// Takes the answer; gives the error with what the broker says of it if asking again would not help.
    pub(super) fn found(
        &mut self,
        response: FindCoordinatorResponse,
        now: Duration,
    ) -> Result<(), (ErrorCode, Option<Str>)> {
        let mut response = response;
        // From version 4 on there is a row for every group asked for.
        let (error_code, message, node) = match response.coordinators.pop() {
            Some(row) => {
                let node = Node { node_id: row.node_id, host: row.host, port: row.port };
                (row.error_code, row.error_message, node)
            }
            None => {
                let node = Node { node_id: response.node_id, host: response.host, port: response.port };
                (response.error_code, response.error_message, node)
            }
        };
        if error_code.is_ok() {
            self.backoff.succeeded();
            self.node = Some(node);
            return Ok(());
        }
        self.failed(now);
        if error_code.is_retriable() { Ok(()) } else { Err((error_code, message)) }
    }

    /// The coordinator has to be looked up, after a pause.
    pub(super) fn failed(&mut self, now: Duration) {
        self.node = None;
        self.backoff.failed(now);
    }

    /// The coordinator has to be looked up.
    pub(super) fn unknown(&mut self) {
        self.node = None;
    }
}
