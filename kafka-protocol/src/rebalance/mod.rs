//! A member of a consumer group, without its I/O, and rebalances that do not stop the partitions that stay (KIP-983).
//!
//! A [`Member`] joins a group, keeps its membership alive, fetches committed offsets, commits, gives partitions up and
//! leaves. It opens no socket, reads no clock and starts no thread: requests, deadlines and events come out, responses and
//! the time go in. It sends no `Fetch` either: beside it a [`RecordBuffer`] tells any fetcher what to fetch, and keeps what
//! has come until a poll hands it out.
//!
//! # The loop
//!
//! Kafka's consumer revokes partitions within a poll: a listener has to block there until the records in processing are
//! done and committed, and meanwhile no partition gets records. KIP-983 splits the revocation over two polls. Poll N
//! announces it, and poll N+1 completes it; between them everything else goes on. The KIP is under discussion, and Kafka's
//! own consumer has nothing of it.
//!
//! ```
//! use std::collections::{BTreeMap, VecDeque};
//! use std::time::Duration;
//!
//! use kafka_protocol::rebalance::{
//!     Config, ConsumerRecords, GroupProtocol, Member, Outgoing, RecordBuffer, TopicPartition,
//! };
//! # use kafka_protocol::messages::{consumer_group_heartbeat_response as heartbeat, *};
//! # use kafka_protocol::rebalance::{Request, Response};
//! # use kafka_protocol::wire::Uuid;
//! # let id = Uuid::from_u128(1);
//! # let mut heartbeats = 0;
//! # // Assigns two partitions, and wants one back after a while.
//! # let mut respond = |request: Request| -> Response {
//! #     match request {
//! #         Request::FindCoordinator(_) => FindCoordinatorResponse::default().into(),
//! #         Request::ConsumerGroupHeartbeat(request) => {
//! #             heartbeats += 1;
//! #             let partitions: &[i32] = match (heartbeats, request.topic_partitions) {
//! #                 (1, _) => &[0, 1],
//! #                 (6, _) => &[0],
//! #                 _ => &[],
//! #             };
//! #             let row = heartbeat::TopicPartitions { topic_id: id, partitions: partitions.into(), ..Default::default() };
//! #             let assignment = heartbeat::Assignment { topic_partitions: vec![row], ..Default::default() };
//! #             ConsumerGroupHeartbeatResponse {
//! #                 member_epoch: 1,
//! #                 heartbeat_interval_ms: 1000,
//! #                 assignment: (!partitions.is_empty()).then_some(assignment),
//! #                 ..Default::default()
//! #             }
//! #             .into()
//! #         }
//! #         Request::Metadata(_) => {
//! #             let name = Some("orders".into());
//! #             let topic = metadata_response::MetadataResponseTopic { name, topic_id: id, ..Default::default() };
//! #             MetadataResponse { topics: vec![topic], ..Default::default() }.into()
//! #         }
//! #         Request::OffsetFetch(_) => {
//! #             let row = |partition_index| offset_fetch_response::OffsetFetchResponsePartitions {
//! #                 partition_index, committed_offset: -1, ..Default::default()
//! #             };
//! #             let topic = offset_fetch_response::OffsetFetchResponseTopics {
//! #                 topic_id: id, partitions: vec![row(0), row(1)], ..Default::default()
//! #             };
//! #             let group = offset_fetch_response::OffsetFetchResponseGroup { topics: vec![topic], ..Default::default() };
//! #             OffsetFetchResponse { groups: vec![group], ..Default::default() }.into()
//! #         }
//! #         Request::OffsetCommit(request) => {
//! #             let topics = request.topics.into_iter().map(|topic| offset_commit_response::OffsetCommitResponseTopic {
//! #                 topic_id: topic.topic_id,
//! #                 partitions: topic.partitions.into_iter().map(|row| {
//! #                     let partition_index = row.partition_index;
//! #                     offset_commit_response::OffsetCommitResponsePartition { partition_index, ..Default::default() }
//! #                 }).collect(),
//! #                 ..Default::default()
//! #             });
//! #             OffsetCommitResponse { topics: topics.collect(), ..Default::default() }.into()
//! #         }
//! #         _ => unreachable!("not in this protocol"),
//! #     }
//! # };
//! # // Every partition has records without end, of which a fetch gives two. A record is its offset.
//! # let leader = |offset: i64| (offset..offset + 2, offset + 2);
//! # let mut now = Duration::ZERO;
//!
//! let protocol = GroupProtocol::Consumer { member_id: "dkkPCYtmShCGb_cTAaEYdg".into(), server_assignor: None };
//! let mut member = Member::new(Config::new("billing", protocol));
//! let mut buffer = RecordBuffer::default();
//! member.subscribe(["orders"], now)?;
//!
//! // Records in processing, here by their offsets. Each turn of the loop finishes one of each partition.
//! let mut processing = BTreeMap::<TopicPartition, VecDeque<i64>>::new();
//! # let mut polls = 0;
//! loop {
//!     // The driver: sends, receives, fetches, and waits until `member.deadline(now)` at the latest.
//!     while let Some(Outgoing { id, request, .. }) = member.next_request(now) {
//!         member.receive(id, respond(request), now);
//!     }
//!     for fetch in buffer.fetches(&member) {
//!         let (records, next_offset) = leader(fetch.offset);
//!         buffer.fetched(&fetch, records, next_offset);
//!     }
//!
//!     // 1.a Poll: records, what is to be revoked and what is lost come together. Of what is to be revoked no records
//!     //     come from now on.
//!     let ConsumerRecords { records, changes } = member.poll_records(&mut buffer, 500, now);
//!     for assigned in changes.assigned.iter().filter(|assigned| assigned.committed.is_none()) {
//!         buffer.seek(&assigned.partition, 0);
//!     }
//!     // 1.b Start processing.
//!     for (partition, records) in records {
//!         processing.entry(partition).or_default().extend(records);
//!     }
//!     // 1.e Stop processing what is lost.
//!     for partition in &changes.lost {
//!         processing.remove(partition);
//!     }
//!     // 1.c Commit what has been processed. It is refused if the partition is lost, as the next poll will tell.
//!     for (partition, records) in &mut processing {
//!         if let Some(offset) = records.pop_front()
//!             && let Err(error) = member.commit([(partition.clone(), offset + 1)], now)
//!         {
//!             println!("not committed: {error}");
//!         }
//!     }
//!     // 1.d What is still being processed is held, so that polling for the others can go on. The rest is given up with
//!     //     the next poll, once its commits are answered.
//!     let to_be_revoked: Vec<_> = member.to_be_revoked_partitions().cloned().collect();
//!     for partition in to_be_revoked {
//!         if processing.get(&partition).is_some_and(|records| !records.is_empty()) {
//!             member.hold(&partition);
//!         } else {
//!             member.release(&partition);
//!             processing.remove(&partition);
//!         }
//!     }
//!     // 1.f Repeat.
//!     now += Duration::from_secs(1);
//! #   polls += 1;
//! #   assert!(polls < 20);
//! #   if polls > 3 && member.owned().count() == 1 { break }
//! }
//! assert_eq!(member.owned().cloned().collect::<Vec<_>>(), [TopicPartition::new("orders", 0)]);
//! # assert!(processing.keys().eq(member.owned()), "the other one is done with");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The KIP has two forms of its API, and here are both. This is its variant 1, one poll that returns everything. The other
//! one has getters beside a poll, [`to_be_revoked_partitions`](Member::to_be_revoked_partitions) and
//! [`lost_partitions`](Member::lost_partitions), which can be asked at any time. Whoever keeps records elsewhere calls
//! [`Member::poll`] and asks [`is_fetchable`](Member::is_fetchable) when they come and before they are handed out.
//!
//! # Rules
//!
//! Those of KIP-983 and what follows from them:
//!
//! | rule | source |
//! |---|---|
//! | A revocation that one poll announces is completed by the next | KIP-983 |
//! | A partition can be [held](Member::hold), so that polling for the others goes on while its records are processed | our addition: without it, the next poll gives everything up |
//! | From the announcement on nothing of the partition is fetched or handed out, and what a [`RecordBuffer`] has of it is dropped | KIP-983; otherwise there would always be something left to process |
//! | Records of the other partitions keep coming, from all of them in turn | KIP-983; the turns are ours |
//! | The answer to a fetch counts only in the assignment and at the position that it was sent for | a partition that comes back begins at its committed offset |
//! | Until the poll that completes it, offsets can be committed, and are sent with the valid generation or epoch | KIP-983, KIP-848 |
//! | The message that gives partitions up is sent after the commits queued for them are answered, unless the caller [waives](Member::waive_commits) that | KIP-983: duplicates arise when a partition moves before its commits |
//! | An announcement is not taken back. If the group changes its mind, the partition is given up and assigned again | so that the caller may act on it at once |
//! | Offsets of lost partitions cannot be committed, and commits under way are not tried again | KIP-983: another member may have committed already |
//! | What is lost before it is given up is reported as lost, and not given up | KIP-429 (`onPartitionsLost`) |
//! | Every change is reported by exactly one poll | KIP-983 |
//! | Heartbeats go on between polls | KIP-62 |
//! | A coordinator that throttles gets no request before that time is over | KIP-219 |
//! | New partitions come after those of the same rebalance are given up | KIP-848; in the cooperative protocol with its second round |
//! | What no poll has reported is given up without a poll, since there is nothing to drain | our addition |
//! | After a loss the member joins again when a poll has reported it | so that lost and owned cannot be mistaken |
//!
//! # Protocols
//!
//! | protocol | the need is learnt from | announced | given up by | time allowed |
//! |---|---|---|---|---|
//! | classic, eager | `REBALANCE_IN_PROGRESS` to `Heartbeat` | all partitions | `JoinGroup` | `RebalanceTimeoutMs` |
//! | classic, cooperative (KIP-429) | `SyncGroup`, or a subscription with fewer topics | what is not assigned any more | a second `JoinGroup` that lists what is kept | poll interval |
//! | consumer (KIP-848) | `ConsumerGroupHeartbeat` | what is not assigned any more | `ConsumerGroupHeartbeat` that lists what is kept | `RebalanceTimeoutMs` |
//!
//! Lost is everything that the member owns
//! - when the coordinator answers `UNKNOWN_MEMBER_ID`, `ILLEGAL_GENERATION`, `FENCED_MEMBER_EPOCH`, `GROUP_ID_NOT_FOUND` (to a
//!   heartbeat of the consumer protocol) or `FENCED_INSTANCE_ID`, which also ends the member for good;
//! - when the [session](Config::session_timeout) is over without an answer to a heartbeat;
//! - when no poll comes within the [poll interval](Config::max_poll_interval). Then the member leaves the group;
//! - when the member [fails](Event::Failed).
//!
//! # Drivers
//!
//! [`Member::next_request`] gives a request and the node that it is for; [`Request::send`] puts it into a
//! [`Connection`](crate::connection::Connection) in the version that was negotiated there, and [`Response::decode`] reads
//! the answer for [`Member::receive`]. What cannot be sent or breaks is told by [`Member::fail`] and
//! [`Member::disconnected`]. Late answers do no harm. To honour the `ThrottleTimeMs` of leaders, and of those that answer to
//! [`Destination::Any`], is left to the driver, which alone knows which broker that was.
//!
//! | event of the driver | call |
//! |---|---|
//! | anything was called, or the [deadline](Member::deadline) is there | [`next_request`](Member::next_request) until there is none |
//! | a response | [`receive`](Member::receive) |
//! | a leader is free | [`fetches`](RecordBuffer::fetches), those that it leads into one `Fetch` |
//! | a row of a `Fetch` response | [`fetched`](RecordBuffer::fetched) |
//! | no connection to any broker, or none with the API | [`fail`](Member::fail) |
//! | the connection to the coordinator broke | [`disconnected`](Member::disconnected) |
//! | [`Outgoing::deadline`] has passed | close that connection |

mod assignor;
mod buffer;
mod classic;
mod commits;
mod config;
mod consumer;
mod coordinator;
mod core;
mod event;
mod machine;
mod member;
mod offsets;
mod partitions;
mod protocol;
mod request;
mod topic_partition;
mod topics;

pub use assignor::Assignor;
pub use buffer::{ConsumerRecords, Fetch, RecordBuffer};
pub use commits::{CommitError, CommitId, CommitResult};
pub use config::{Config, GroupProtocol};
pub use coordinator::{Destination, Node, Outgoing, RequestId};
pub use event::{Event, Refusal};
pub use member::{Assigned, Member, NotCommittable, NotSubscribable, Poll};
pub use request::{Request, Response};
pub use topic_partition::{OffsetAndMetadata, TopicPartition};
