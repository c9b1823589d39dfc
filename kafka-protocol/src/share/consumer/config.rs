use std::time::Duration;

use super::ShareConsumerError;
use crate::records::ReadOptions;
use crate::share::FetchSizes;
use crate::share::validate::member_id;
use crate::wire::Str;

/// What a [`ShareConsumer`](super::ShareConsumer) is told when it is made.
///
/// A duration of `Duration::MAX` means that there is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConsumerConfig {
    /// The share group (`group.id`). Not empty.
    pub group_id: Str,

    /// The member's id, which no other member has: 1 to 36 characters, in UTF-16 units. Kafka 4.1 takes only the 22
    /// characters of a random UUID in URL-safe base64, which Kafka's clients make; the share fetches of others it answers
    /// with `UNKNOWN_SERVER_ERROR` (measured).
    pub member_id: Str,

    /// The rack (`client.rack`). Not empty.
    ///
    /// Default null.
    pub rack_id: Option<Str>,

    /// Host and port of brokers to begin with (`bootstrap.servers`). At least one.
    pub bootstrap: Vec<(Str, i32)>,

    /// Who acknowledges (`share.acknowledgement.mode`).
    ///
    /// Default `Implicit`.
    pub acknowledgement_mode: AcknowledgementMode,

    /// How much a fetch asks for, and in which acquire mode. `max_records` is also how many records a poll gives, except
    /// that it gives the records of one partition's fetch whole. `max_wait_ms` counts up to a quarter of the acquisition lock
    /// timeout, and up to 500 before that is known: records whose locks may have begun long ago would be of no use.
    pub fetch: FetchSizes,

    /// How records are read: checksums, limits of what they inflate to.
    pub read: ReadOptions,

    /// How long an answer may take, `fetch.max_wait_ms` not counted (`request.timeout.ms`). Then the connection is given
    /// up.
    ///
    /// Default 30 seconds.
    pub request_timeout: Duration,

    /// How long a commit tries, and how long closing may take (`default.api.timeout.ms`).
    ///
    /// Default 60 seconds.
    pub api_timeout: Duration,

    /// The longest time from one [poll](super::ShareConsumer::poll) to the next (`max.poll.interval.ms`). When it is over,
    /// the member leaves the group, so that others get its partitions, until the next poll.
    ///
    /// Default 5 minutes.
    pub max_poll_interval: Duration,

    /// How long to wait before the first retry (`retry.backoff.ms`); it doubles from one to the next.
    ///
    /// Default 100 milliseconds.
    pub retry_backoff: Duration,

    /// The longest wait before a retry (`retry.backoff.max.ms`).
    ///
    /// Default 1 second.
    pub retry_backoff_max: Duration,

    /// How old metadata may become (`metadata.max.age.ms`).
    ///
    /// Default 5 minutes.
    pub metadata_max_age: Duration,
}

impl ShareConsumerConfig {
    /// The defaults, for a member of a group that begins with these brokers.
    pub fn new(group_id: impl Into<Str>, member_id: impl Into<Str>, bootstrap: Vec<(Str, i32)>) -> Self {
        Self {
            group_id: group_id.into(),
            member_id: member_id.into(),
            rack_id: None,
            bootstrap,
            acknowledgement_mode: AcknowledgementMode::Implicit,
            fetch: FetchSizes::default(),
            read: ReadOptions::default(),
            request_timeout: Duration::from_secs(30),
            api_timeout: Duration::from_secs(60),
            max_poll_interval: Duration::from_secs(300),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
        }
    }

    /// A member id as Kafka's clients make them: 16 random bytes, the UUID of which is written as 22 characters of
    /// URL-safe base64.
    ///
    /// ```
    /// use kafka_protocol::share::consumer::ShareConsumerConfig;
    ///
    /// assert_eq!(ShareConsumerConfig::member_id(*b"0123456789abcdef"), "MDEyMzQ1Rje4OWFiY2RlZg");
    /// ```
    pub fn member_id(random: [u8; 16]) -> Str {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = uuid::Builder::from_random_bytes(random).into_uuid().as_u128();
        // 128 bits are 21 digits of 6 bits, and 2 bits in front of 4 zeros.
        let mut digits = [DIGITS[(bits << 4 & 0x3f) as usize]; 22];
        bits >>= 2;
        for digit in digits[..21].iter_mut().rev() {
            *digit = DIGITS[(bits & 0x3f) as usize];
            bits >>= 6;
        }
        digits.iter().map(|digit| char::from(*digit)).collect()
    }

    /// What brokers would refuse for ever, or without which there is none to ask.
    pub(super) fn check(&self) -> Result<(), ShareConsumerError> {
        let wrong = [
            ("group_id", self.group_id.is_empty().then_some("is empty")),
            ("member_id", member_id(Some(&self.member_id)).err()),
            ("rack_id", self.rack_id.as_deref().is_some_and(str::is_empty).then_some("is empty")),
            ("bootstrap", self.bootstrap.is_empty().then_some("has no broker")),
        ];
        match wrong.into_iter().find_map(|(field, wrong)| Some((field, wrong?))) {
            Some((field, reason)) => Err(ShareConsumerError::InvalidConfig { field, reason }),
            None => Ok(()),
        }
    }

    /// How long to wait after so many failures in a row, of which there is at least one.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.retry_backoff.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.retry_backoff_max)
    }
}

/// Who acknowledges records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcknowledgementMode {
    /// The next poll, or commit, accepts whatever the last poll gave.
    #[default]
    Implicit,
    /// The application, record by record; all of them before it polls again.
    Explicit,
}
