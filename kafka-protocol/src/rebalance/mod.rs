//! rebalance
mod assignor;
mod classic;
mod commits;
mod config;
mod consumer;
mod coordinator;
mod core;
mod event;
mod member;
mod partitions;
mod request;
mod topic_partition;
mod topics;

pub use assignor::Assignor;
pub use commits::{CommitError, CommitId, CommitResult};
pub use config::{Config, GroupProtocol};
pub use coordinator::{Destination, Node, Outgoing, RequestId};
pub use event::{Event, Refusal};
pub use member::{Assigned, Member, NotCommittable, NotSubscribable, Poll};
pub use request::{Request, Response};
pub use topic_partition::{OffsetAndMetadata, TopicPartition};
