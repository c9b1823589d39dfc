//! Whether a broker takes a ShareFetch or a ShareAcknowledge, and what it answers when not.
//!
//! [`validate()`] checks as a Kafka 4.4.0 broker does, in its order, so that the code is the one that it would answer
//! with. [`check()`] is for the sender: it also refuses what a broker takes or does not notice, and no sender wants.
//!
//! ```
//! use kafka_protocol::messages::{ShareFetchRequest, share_fetch_request::*};
//! use kafka_protocol::protocol::{AcknowledgeType, ErrorCode};
//! use kafka_protocol::share::validate::{Level, Stateless, validate};
//! use kafka_protocol::wire::{SmallVec, Uuid};
//!
//! let batch = AcknowledgementBatch {
//!     first_offset: 10,
//!     last_offset: 14,
//!     acknowledge_types: SmallVec::from_slice(&[AcknowledgeType::RENEW]),
//!     ..Default::default()
//! };
//! let partition = FetchPartition { acknowledgement_batches: vec![batch], ..Default::default() };
//! let mut request = ShareFetchRequest {
//!     group_id: Some("orders".into()),
//!     member_id: Some("Wrg4sTkRQIO_5w84LjMGGQ".into()),
//!     share_session_epoch: 7,
//!     topics: vec![FetchTopic { topic_id: Uuid::from_u128(9), partitions: vec![partition], ..Default::default() }],
//!     ..Default::default()
//! };
//!
//! let refused = validate(&request, 2, &Stateless);
//! assert_eq!(refused[0].code, ErrorCode::INVALID_REQUEST);
//! assert!(matches!(refused[0].level, Level::Acknowledge(_)));
//! assert_eq!(
//!     refused[0].to_string(),
//!     "topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types[0]: renew, but is_renew_ack is not set",
//! );
//!
//! request.is_renew_ack = true;
//! let refused = validate(&request, 2, &Stateless);
//! assert_eq!((refused[0].code, refused[0].level), (ErrorCode::INVALID_REQUEST, Level::Top));
//! assert_eq!(refused[0].to_string(), "max_bytes: 2147483647, must be 0 with is_renew_ack");
//!
//! request.max_bytes = 0;
//! assert_eq!(validate(&request, 2, &Stateless), []);
//! ```
//!
//! What depends on the state of records comes later, from [`SharePartition::acknowledge`].
//!
//! [`SharePartition::acknowledge`]: crate::share::SharePartition::acknowledge

mod check;
mod request;
mod rules;

use std::collections::{HashMap, HashSet};
use std::{error, fmt};

pub use check::check;
pub use request::{AcknowledgementBatch, AcknowledgementBatches, Listing, ShareRequest};
pub use rules::{BatchError, batches, session_epoch};
pub(crate) use rules::{fetches, member_id};

use crate::messages::ShareFetchRequest;
use crate::protocol::ErrorCode;
use crate::share::TopicIdPartition;
use crate::wire::Uuid;

/// What a broker does not take of a request, and what it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the answer. [`NONE`](ErrorCode::NONE) from [`check()`] only: a broker takes it.
    pub code: ErrorCode,
    /// Where the code stands in the answer, and how much it is about.
    pub level: Level,
    /// The field in Rust's names, such as `topics[3].partitions[0].acknowledgement_batches[1].last_offset`; empty for
    /// the request as a whole.
    pub path: String,
    /// What is wrong, in our words: a broker answers with null.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(
        code: ErrorCode,
        level: Level,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { code, level, path: path.into(), message: message.into() }
    }
}

impl error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// How much of a request is refused, and which field of the response tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All of it, by the `error_code` of the response. There are no rows, and the acquisition lock timeout is 0.
    Top,
    /// A partition, by the `error_code` of its row: of a ShareAcknowledge, or to fetch in a ShareFetch.
    Partition(TopicIdPartition),
    /// The acknowledgements of a partition in a ShareFetch, by the `acknowledge_error_code` of its row.
    Acknowledge(TopicIdPartition),
}

/// What a broker knows beyond the request. All that is not said counts as good.
pub trait BrokerState {
    /// Whether the feature `share.version` is at least 1. If not, a broker still lists the APIs in ApiVersions.
    fn share_groups_enabled(&self) -> bool {
        true
    }

    /// Whether the sender has the permission READ on the group.
    fn may_read_group(&self, _group_id: &str) -> bool {
        true
    }

    /// The sender's share session.
    fn session(&self, _group_id: &str, _member_id: &str) -> Session {
        Session::Unknown
    }

    /// Whether the topic is in the metadata.
    fn has_topic(&self, _topic_id: Uuid) -> bool {
        true
    }

    /// Whether the sender has the permission READ on the topic.
    fn may_read_topic(&self, _topic_id: Uuid) -> bool {
        true
    }

    /// Whether the partition is in the metadata.
    fn has_partition(&self, _partition: TopicIdPartition) -> bool {
        true
    }
}

/// A broker of which nothing is known: only what a request says by itself is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stateless;

impl BrokerState for Stateless {}

/// What a broker knows of the share session of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Not known: any epoch is good.
    Unknown,
    /// There is none.
    Absent,
    /// There is none, and there are as many as `group.share.max.share.sessions` allows.
    LimitReached,
    /// There is one, and its next request has this epoch.
    Open(i32),
}

/// What a broker refuses of a request; nothing when it takes all of it.
///
/// Either one refusal at [`Level::Top`], of the first rule that is broken, or one for each code in a row of the response,
/// in the order of the request; of a row that has two, that of the acknowledgements first. The order of the rules is
/// measured:
///
/// | level | rule | code |
/// |---|---|---|
/// | top | the version is not supported (a broker closes the connection), or share groups are off | `UNSUPPORTED_VERSION` |
/// | | the group id is null; empty is taken | `INVALID_REQUEST` |
/// | | permission for the group | `GROUP_AUTHORIZATION_FAILED` |
/// | | the member id is null, empty or of more than 36 characters; membership is not checked | `INVALID_REQUEST` |
/// | | ShareFetch with IsRenewAck: MaxWaitMs, MinBytes, MaxBytes or MaxRecords is not 0 (KIP-1222) | `INVALID_REQUEST` |
/// | | see [`session_epoch`] | |
/// | partition | the topic id is unknown | `UNKNOWN_TOPIC_ID` |
/// | | see [`batches`]; not for fetching | `INVALID_REQUEST` |
/// | | permission for the topic | `TOPIC_AUTHORIZATION_FAILED` |
/// | | the partition is unknown | `UNKNOWN_TOPIC_OR_PARTITION` |
///
/// Which partitions these are asked of, and for which field of a row (measured):
///
/// | request | partitions | level |
/// |---|---|---|
/// | ShareAcknowledge | all that are listed, with acknowledgements or without | [`Partition`](Level::Partition) |
/// | ShareFetch with acknowledgements of any partition | the same | [`Acknowledge`](Level::Acknowledge) |
/// | ShareFetch without IsRenewAck, and not at epoch -1 | those listed and not forgotten at once, which epoch 0 ignores | [`Partition`](Level::Partition) |
///
/// So an acknowledgement of an unknown topic in a fetch has its code in both fields, in a renewal in one; and what a
/// renewal lists without any acknowledgements has no row. Not told are the partitions that the session has from earlier
/// requests: those unknown are in every response to a fetch.
///
/// A partition that is listed twice counts with its last listing, as brokers do (measured). An unknown
/// ShareAcquireMode is no refusal: a 4.4.0 broker fails over it with `UNKNOWN_SERVER_ERROR`, but only when it comes to
/// fetch, and the epoch has then been used up. [`check()`] refuses it. Nor is what a 4.4.0 broker with an authorizer makes
/// of an unknown topic id: it fails in the same way, at once, and with every fetch until the session has forgotten the
/// topic or is opened again (measured).
pub fn validate<R: ShareRequest>(request: &R, version: i16, broker: &impl BrokerState) -> Vec<Refusal> {
    if let Err(refusal) = top(request, version, broker) {
        return vec![refusal];
    }
    let mut refusals = Vec::new();
    let acknowledges = request.as_fetch().is_none() || request.has_acknowledgements();
    let forgotten = request.as_fetch().filter(|_| fetches(request, version)).map(forgotten);
    for listing in last_listings(request) {
        if acknowledges {
            refusals.extend(acknowledged(request, version, broker, &listing).err());
        }
        if forgotten.as_ref().is_some_and(|forgotten| !forgotten.contains(&listing.partition)) {
            refusals.extend(fetched(broker, &listing).err());
        }
    }
    refusals
}

/// What refuses the request as a whole.
fn top<R: ShareRequest>(request: &R, version: i16, broker: &impl BrokerState) -> Result<(), Refusal> {
    let refused = |code, path: &str, message: String| Err(Refusal::new(code, Level::Top, path, message));
    if !R::VERSIONS.contains(version) {
        let message = format!("version {version} is not supported ({})", R::VERSIONS);
        return refused(ErrorCode::UNSUPPORTED_VERSION, "", message);
    }
    if !broker.share_groups_enabled() {
        return refused(ErrorCode::UNSUPPORTED_VERSION, "", "share groups are not enabled".into());
    }
    let Some(group_id) = request.group_id() else {
        return refused(ErrorCode::INVALID_REQUEST, "group_id", "null".into());
    };
    if !broker.may_read_group(group_id) {
        let message = format!("no permission to read the group {group_id}");
        return refused(ErrorCode::GROUP_AUTHORIZATION_FAILED, "group_id", message);
    }
    let member_id = match member_id(request.member_id()) {
        Ok(member_id) => member_id,
        Err(message) => return refused(ErrorCode::INVALID_REQUEST, "member_id", message.into()),
    };
    if let Some((field, value)) = rules::size_with_renew(request, version) {
        let message = format!("{value}, must be 0 with is_renew_ack");
        return refused(ErrorCode::INVALID_REQUEST, field, message);
    }
    session_epoch(request, broker.session(group_id, member_id))
        .map_err(|(code, message)| Refusal::new(code, Level::Top, "share_session_epoch", message))
}

/// What a fetch takes out of the session again. One that opens a session takes out nothing (measured).
fn forgotten(fetch: &ShareFetchRequest) -> HashSet<TopicIdPartition> {
    let topics = fetch.forgotten_topics_data.iter().filter(|_| fetch.share_session_epoch != 0);
    topics
        .flat_map(|topic| topic.partitions.iter().map(|&index| TopicIdPartition::new(topic.topic_id, index)))
        .collect()
}

/// What refuses the acknowledgements of a partition.
fn acknowledged<R: ShareRequest>(
    request: &R,
    version: i16,
    broker: &impl BrokerState,
    listing: &Listing<'_>,
) -> Result<(), Refusal> {
    let level = listing.acknowledge_level();
    topic(broker, listing, level)?;
    batches(listing.batches.iter(), version, request.is_renew_ack()).map_err(|error| {
        let path = format!("{}.{}", listing.path(), error.path());
        Refusal::new(ErrorCode::INVALID_REQUEST, level, path, error.message)
    })?;
    partition(broker, listing, level)
}

/// Why nothing is fetched from a partition.
fn fetched(broker: &impl BrokerState, listing: &Listing<'_>) -> Result<(), Refusal> {
    let level = Level::Partition(listing.partition);
    topic(broker, listing, level)?;
    partition(broker, listing, level)
}

/// That the topic is known.
fn topic(broker: &impl BrokerState, listing: &Listing<'_>, level: Level) -> Result<(), Refusal> {
    let topic_id = listing.partition.topic_id;
    if broker.has_topic(topic_id) {
        return Ok(());
    }
    let path = format!("topics[{}].topic_id", listing.place.0);
    Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_ID, level, path, format!("{topic_id} is no topic")))
}

/// That the partition of a known topic may be read, and is known.
fn partition(broker: &impl BrokerState, listing: &Listing<'_>, level: Level) -> Result<(), Refusal> {
    let TopicIdPartition { topic_id, partition } = listing.partition;
    if !broker.may_read_topic(topic_id) {
        let path = format!("topics[{}].topic_id", listing.place.0);
        let message = "no permission to read the topic";
        return Err(Refusal::new(ErrorCode::TOPIC_AUTHORIZATION_FAILED, level, path, message));
    }
    if !broker.has_partition(listing.partition) {
        let path = format!("{}.partition_index", listing.path());
        let message = format!("the topic has no partition {partition}");
        return Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, level, path, message));
    }
    Ok(())
}

/// The listings that count, in the order of the request: of a partition that is listed several times only the last.
pub(crate) fn last_listings<R: ShareRequest>(request: &R) -> Vec<Listing<'_>> {
    let mut place = HashMap::new();
    let mut last: Vec<Listing<'_>> = Vec::new();
    for listing in request.listings() {
        match place.insert(listing.partition, last.len()) {
            Some(earlier) => {
                place.insert(listing.partition, earlier);
                last[earlier] = listing;
            }
            None => last.push(listing),
        }
    }
    last
}
