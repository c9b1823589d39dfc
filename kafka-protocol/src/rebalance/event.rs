//! What a member reports beside its polls.

use std::{error, fmt};

use super::{CommitResult, TopicPartition};
use crate::protocol::{ApiKey, ErrorCode};
use crate::wire::Str;

/// What happened since the last event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The member is in the group; again after every classic rebalance, and when the epoch changes.
    Joined {
        /// Generation or member epoch, with which commits are now sent.
        generation_or_epoch: i32,
    },
    /// The message that gives these partitions up goes out with the next requests. Others may own them from now on.
    GivenUp(Vec<TopicPartition>),
    /// A commit is at its end.
    Committed(CommitResult),
    /// The committed offset of an assigned partition cannot be read, and trying again would not help. It will not become
    /// fetchable.
    OffsetUnreadable {
        /// The partition.
        partition: TopicPartition,
        /// What the coordinator answers, such as `TOPIC_AUTHORIZATION_FAILED`.
        error_code: ErrorCode,
    },
    /// The coordinator answers with an error that does not end the membership, such as `TOPIC_AUTHORIZATION_FAILED` to a
    /// heartbeat. The request will be repeated.
    Refused(Refusal),
    /// No poll came in time ([`max_poll_interval`](super::Config::max_poll_interval)). The member leaves the group, and
    /// joins again with the next poll.
    PollIntervalExpired,
    /// The member has left the group, as [`unsubscribe`](super::Member::unsubscribe) or [`close`](super::Member::close)
    /// wanted it.
    Left,
    /// Trying again would not help; the member does nothing any more. What it owned is lost, as a poll reports.
    Failed(Refusal),
}

/// An error code and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The API whose request failed.
    pub api: ApiKey,
    /// What the broker answers.
    pub error_code: ErrorCode,
    /// What the broker says of it. Only some APIs say anything.
    pub message: Option<Str>,
}

impl error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.api, self.error_code)?;
        match &self.message {
            Some(message) => write!(f, " ({message})"),
            None => Ok(()),
        }
    }
}
