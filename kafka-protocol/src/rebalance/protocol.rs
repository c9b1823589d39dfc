//! The protocol of the group, whichever it is.

use std::time::Duration;

use super::classic::Classic;
use super::consumer::Consumer;
use super::core::{Core, Stamp};
use super::request::Request;

/// The part of a member that knows its protocol.
#[derive(Debug)]
pub(super) enum Protocol {
    Classic(Classic),
    Consumer(Consumer),
}

impl Protocol {
    pub(super) fn stamp(&self, core: &Core) -> Option<Stamp> {
        match self {
            Self::Classic(classic) => classic.stamp(core),
            Self::Consumer(consumer) => consumer.stamp(),
        }
    }

    pub(super) fn identity(&self) -> Stamp {
        match self {
            Self::Classic(classic) => classic.identity(),
            Self::Consumer(consumer) => consumer.identity(),
        }
    }

    /// Whether nothing can be committed, and nothing is under way that would change it.
    pub(super) fn is_outside(&self) -> bool {
        match self {
            Self::Classic(classic) => classic.is_outside(),
            Self::Consumer(consumer) => consumer.stamp().is_none(),
        }
    }

    /// Whether the answer on its way may have another member id for the member, without which it cannot leave.
    pub(super) fn is_getting_id(&self, core: &Core) -> bool {
        match self {
            Self::Classic(_) => false,
            Self::Consumer(consumer) => consumer.is_joining(core),
        }
    }

    pub(super) fn leave_request(&self, core: &Core, reason: &'static str) -> Option<Request> {
        match self {
            Self::Classic(classic) => classic.leave_request(core, reason),
            Self::Consumer(consumer) => consumer.leave_request(core),
        }
    }

    pub(super) fn left(&mut self, core: &Core) {
        match self {
            Self::Classic(classic) => classic.left(core),
            Self::Consumer(consumer) => consumer.left(),
        }
    }

    pub(super) fn expire(&mut self, core: &mut Core, now: Duration) {
        match self {
            Self::Classic(classic) => classic.expire(core, now),
            Self::Consumer(consumer) => consumer.expire(core, now),
        }
    }

    pub(super) fn request_due(&self, core: &Core, now: Duration) -> Option<Duration> {
        match self {
            Self::Classic(classic) => classic.request_due(core, now),
            Self::Consumer(consumer) => consumer.request_due(core, now),
        }
    }

    pub(super) fn session_end(&self, core: &Core) -> Option<Duration> {
        match self {
            Self::Classic(classic) => classic.session_end(core),
            Self::Consumer(consumer) => consumer.session_end(core),
        }
    }

    pub(super) fn heartbeat_now(&mut self) {
        match self {
            Self::Classic(classic) => classic.heartbeat_now(),
            Self::Consumer(consumer) => consumer.heartbeat_now(),
        }
    }
}
