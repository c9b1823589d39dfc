//! Which nodes there is a connection to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Action, ShareConsumerConfig};
use crate::messages::{
    ApiVersionsResponse, FindCoordinatorRequest, MetadataRequest, ShareAcknowledgeRequest, ShareFetchRequest,
    ShareGroupHeartbeatRequest,
};
use crate::protocol::{Message, Request, Versions};
use crate::share::ShareAcquireMode;
use crate::wire::Str;

/// The connections, by node.
#[derive(Debug, Default)]
pub(super) struct Links {
    nodes: BTreeMap<i32, Link>,
    opened: u64,
}

#[derive(Debug)]
struct Link {
    state: State,
    failures: u32,
    /// Until when the node wants to be left alone.
    throttled_until: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { retry_at: Duration },
    Connecting { deadline: Duration },
    Ready(Ready),
}

/// A connection that can be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// No other connection has had it: locks do not outlive a connection.
    pub(super) number: u64,
    pub(super) versions: NodeVersions,
}

/// The highest versions that both ends have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeVersions {
    pub(super) find_coordinator: Option<i16>,
    pub(super) metadata: Option<i16>,
    pub(super) heartbeat: Option<i16>,
    pub(super) share_fetch: Option<i16>,
    pub(super) share_acknowledge: Option<i16>,
    /// Whether the cluster has share groups switched off (`share.version`), as far as the node says.
    pub(super) share_off: bool,
}

impl Links {
    /// The connection to a node, if anything may be sent now; if there is none, one is asked for, unless it is too early
    /// for that.
    pub(super) fn want(
        &mut self,
        node: i32,
        (host, port): &(Str, i32),
        now: Duration,
        config: &ShareConsumerConfig,
        actions: &mut Vec<Action>,
    ) -> Option<Ready> {
        let link = self.nodes.entry(node).or_insert(Link::new(State::Closed { retry_at: Duration::ZERO }));
        match link.state {
            State::Ready(ready) => return (link.throttled_until <= now).then_some(ready),
            State::Closed { retry_at } if retry_at <= now => {
                link.state = State::Connecting { deadline: now.saturating_add(config.request_timeout) };
                actions.push(Action::Connect { node, host: host.clone(), port: *port });
            }
            State::Closed { .. } | State::Connecting { .. } => {}
        }
        None
    }

    /// The connection to a node over which something may be sent now.
    pub(super) fn free(&self, node: i32, now: Duration) -> Option<Ready> {
        let is_throttled = self.nodes.get(&node)?.throttled_until > now;
        self.ready(node).filter(|_| !is_throttled)
    }

    /// The connection to a node.
    pub(super) fn ready(&self, node: i32) -> Option<Ready> {
        match self.nodes.get(&node)?.state {
            State::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Whether a connection to the node can be asked for, or used, only later.
    pub(super) fn is_backing_off(&self, node: i32, now: Duration) -> bool {
        self.nodes.get(&node).is_some_and(|link| match link.state {
            State::Closed { retry_at } => retry_at > now,
            State::Connecting { .. } => false,
            State::Ready(_) => link.throttled_until > now,
        })
    }

    /// `false` if nobody asked for the connection.
    pub(super) fn connected(&mut self, node: i32, versions: NodeVersions) -> bool {
        let Some(link) = self.nodes.get_mut(&node) else { return false };
        if !matches!(link.state, State::Connecting { .. }) {
            return false;
        }
        self.opened += 1;
        *link = Link::new(State::Ready(Ready { number: self.opened, versions }));
        true
    }

    /// The node wants nothing more over this connection before then.
    pub(super) fn throttled(&mut self, node: i32, until: Duration) {
        if let Some(link) = self.nodes.get_mut(&node) {
            link.throttled_until = link.throttled_until.max(until);
        }
    }

    pub(super) fn disconnected(&mut self, node: i32, now: Duration, config: &ShareConsumerConfig) {
        if let Some(link) = self.nodes.get_mut(&node)
            && !matches!(link.state, State::Closed { .. })
        {
            link.failures += 1;
            link.state = State::Closed { retry_at: now.saturating_add(config.backoff(link.failures)) };
        }
    }

    /// A node to which connecting has taken too long.
    pub(super) fn overdue(&self, now: Duration) -> Option<i32> {
        let overdue = |link: &Link| matches!(link.state, State::Connecting { deadline } if deadline <= now);
        self.nodes.iter().find(|(_, link)| overdue(link)).map(|(node, _)| *node)
    }

    /// Forgets a node.
    pub(super) fn remove(&mut self, node: i32) {
        self.nodes.remove(&node);
    }

    /// Every node with a connection, or with one that is asked for; then forgets them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = i32> {
        let nodes = std::mem::take(&mut self.nodes).into_iter();
        nodes.filter(|(_, link)| !matches!(link.state, State::Closed { .. })).map(|(node, _)| node)
    }

    /// Times at which something is to be done.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Duration> {
        self.nodes.values().map(|link| match link.state {
            State::Closed { retry_at } => retry_at,
            State::Connecting { deadline } => deadline,
            State::Ready(_) => link.throttled_until,
        })
    }
}

impl Link {
    fn new(state: State) -> Self {
        Self { state, failures: 0, throttled_until: Duration::ZERO }
    }
}

impl NodeVersions {
    pub(super) fn negotiate(response: &ApiVersionsResponse) -> Self {
        // Below version 10 of Metadata topics have no ids; FindCoordinator 4 takes several keys.
        Self {
            find_coordinator: common::<FindCoordinatorRequest>(response, 4),
            metadata: common::<MetadataRequest>(response, 10),
            heartbeat: common::<ShareGroupHeartbeatRequest>(response, 1),
            share_fetch: common::<ShareFetchRequest>(response, 1),
            share_acknowledge: common::<ShareAcknowledgeRequest>(response, 1),
            share_off: is_share_off(response),
        }
    }

    /// The versions of ShareFetch and ShareAcknowledge, if they will do.
    pub(super) fn share(&self, mode: ShareAcquireMode) -> Option<(i16, i16)> {
        let (fetch, acknowledge) = (self.share_fetch?, self.share_acknowledge?);
        (mode == ShareAcquireMode::BatchOptimized || fetch >= 2).then_some((fetch, acknowledge))
    }

    /// Whether the node has renew acknowledgements (KIP-1222).
    pub(super) fn can_renew(&self) -> bool {
        self.share_fetch >= Some(2) && self.share_acknowledge >= Some(2)
    }
}

fn common<R: Request>(response: &ApiVersionsResponse, min: i16) -> Option<i16> {
    let offered = response.api_keys.iter().find(|api| api.api_key == R::API_KEY.0)?;
    let ours = <R as Message>::VERSIONS.intersect(Versions::since(min));
    let common = ours.intersect(Versions::new(offered.min_version, offered.max_version));
    (!common.is_empty()).then(|| common.max())
}

/// The APIs are listed even then (measured), so the finalized feature decides, if the node told of any.
fn is_share_off(response: &ApiVersionsResponse) -> bool {
    let mut features = response.finalized_features.iter();
    response.finalized_features_epoch >= 0
        && !features.any(|feature| feature.name == "share.version" && feature.max_version_level >= 1)
}
