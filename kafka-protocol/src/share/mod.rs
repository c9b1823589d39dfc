//! Share groups (KIP-932, KIP-1206, KIP-1222): their rules and state machines, without I/O.
//!
//! Consumers of a share group do not own partitions. A broker hands records out one acquisition lock at a time, and
//! the consumer says of each record what became of it: see [`AcknowledgeType`](crate::protocol::AcknowledgeType).
//!
//! | for a client | |
//! |---|---|
//! | [`ShareConsumer`] | the whole consumer: group, sessions with all leaders, records, acknowledgements, renewals |
//! | [`ClientSession`] | the share session with one leader |
//! | [`Acknowledgements`] | acknowledge types by offset, compressed into batches and expanded again |
//! | [`validate::check`] | what a request should not be sent with |
//!
//! | for a broker | |
//! |---|---|
//! | [`validate()`] | what a broker answers to a request that is wrong |
//! | [`ShareSessionCache`] | share sessions of all members |
//! | [`SharePartition`] | acquisition locks |
//! | [`RecordAcknowledgements`] | the metric `RecordAcknowledgementsPerSec` |
//! | [`broker::Cluster`] | all of it together, in memory, for tests of consumers |
//!
//! # Time
//!
//! Nothing here reads a clock, opens a socket or starts a thread. Whatever depends on time takes `now`, a
//! [`Duration`](std::time::Duration) since an origin that the caller chooses and then keeps, such as
//! `start.elapsed()`. It must never go back. Deadlines count from the same origin. Fields of messages stay in
//! milliseconds, as on the wire.
//!
//! # Sources
//!
//! Rules without a source stand in the KIPs or in the schemas. "Measured" means: observed on a Kafka 4.4.0 broker.

mod acknowledgements;
pub mod broker;
mod client_session;
pub mod consumer;
pub mod locks;
mod metrics;
pub mod sessions;
mod topic_id_partition;
pub mod validate;

pub use acknowledgements::{Acknowledgements, ExpandError, PartitionAcknowledgements};
pub use client_session::{
    AcknowledgeResult, ClientSession, ClientSessionError, FetchSizes, ShareAcquireMode,
    next_share_session_epoch,
};
pub use consumer::ShareConsumer;
pub use locks::SharePartition;
pub use metrics::{Meter, Rate, Rates, RecordAcknowledgements, ShareConsumerMetrics};
pub use sessions::ShareSessionCache;
pub use topic_id_partition::TopicIdPartition;
pub use validate::validate;
