//! The codes in both fields of every row with which a Kafka 4.4.0 broker answers a ShareFetch of partitions that it does
//! not know, beside others that it does: measured, and asked of `validate`, of the brokers in memory and of a broker.

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::messages::share_fetch_request::{
    AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic,
};
use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::TopicIdPartition;
use kafka_protocol::wire::Uuid;

/// A ShareFetch that acquires nothing, and the answer.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) form: Form,
    /// Whether what is listed is forgotten by the same request.
    forgets: bool,
    listed: &'static [Listed],
    rows: &'static [(Place, i16, i16)],
}

/// What kind of ShareFetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With the next epoch.
    Fetch,
    /// With the next epoch and IsRenewAck.
    Renew,
    /// With epoch -1.
    Close,
    /// With epoch -1 and IsRenewAck.
    CloseAndRenew,
    /// With epoch 0.
    Open,
    /// With epoch 0 and IsRenewAck.
    OpenAndRenew,
}

impl Form {
    /// Whether it has IsRenewAck, which version 1 cannot have.
    pub(crate) const fn renews(self) -> bool {
        matches!(self, Self::Renew | Self::CloseAndRenew | Self::OpenAndRenew)
    }
}

/// A partition. Those that are unknown have numbers of their own, so that they are told apart by them alone.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// 0 or 1 of a topic that is known; the sender holds records of 0.
    Known(i32),
    /// Of the same topic, that does not have it.
    NoPartition,
    /// Of a topic that is not known.
    NoTopic,
}

/// A partition that is listed.
#[derive(Clone, Copy, Debug)]
enum Listed {
    /// Without acknowledgements.
    Only(Place),
    /// With one that is right.
    Right(Place),
    /// With one that has its offsets the wrong way round.
    Wrong(Place),
}

use Form::{Close, CloseAndRenew, Fetch, Open, OpenAndRenew, Renew};
use Listed::{Only, Right, Wrong};
use Place::{Known, NoPartition, NoTopic};

const fn case(form: Form, listed: &'static [Listed], rows: &'static [(Place, i16, i16)]) -> Case {
    Case { form, forgets: false, listed, rows }
}

const fn forgetting(form: Form, listed: &'static [Listed], rows: &'static [(Place, i16, i16)]) -> Case {
    Case { form, forgets: true, listed, rows }
}

/// Each partition once, known ones with acknowledgements and without.
const ALL: &[Listed] = &[Right(Known(0)), Only(Known(1)), Only(NoPartition), Only(NoTopic)];

/// Place, code of fetching, code of the acknowledgements.
pub(crate) const CASES: &[Case] = &[
    // Who fetches is told in both fields.
    case(Fetch, &[Right(NoTopic)], &[(NoTopic, 100, 100)]),
    case(Fetch, &[Right(NoPartition)], &[(NoPartition, 3, 3)]),
    case(Fetch, &[Wrong(NoTopic)], &[(NoTopic, 100, 100)]),
    case(Fetch, &[Wrong(NoPartition)], &[(NoPartition, 3, 42)]),
    case(Fetch, ALL, &[(Known(0), 0, 0), (Known(1), 0, 0), (NoPartition, 3, 3), (NoTopic, 100, 100)]),
    case(Fetch, &[Right(NoTopic), Only(Known(1))], &[(NoTopic, 100, 100)]),
    case(Fetch, &[Wrong(Known(0)), Only(Known(1))], &[(Known(0), 0, 42)]),
    case(Fetch, &[Only(NoPartition), Only(NoTopic)], &[(NoPartition, 3, 0), (NoTopic, 100, 0)]),
    // The last listing counts, but there are acknowledgements all the same.
    case(Fetch, &[Right(NoTopic), Only(NoTopic)], &[(NoTopic, 100, 100)]),
    case(Fetch, &[Only(NoPartition), Right(NoPartition)], &[(NoPartition, 3, 3)]),
    case(Fetch, &[Right(Known(0)), Only(Known(0)), Only(Known(1)), Only(NoTopic)], &[(NoTopic, 100, 100)]),
    // What is forgotten is not fetched.
    forgetting(Fetch, &[Right(NoTopic), Only(NoPartition)], &[(NoTopic, 0, 100), (NoPartition, 0, 3)]),
    forgetting(Fetch, ALL, &[(Known(0), 0, 0), (Known(1), 0, 0), (NoPartition, 0, 3), (NoTopic, 0, 100)]),
    forgetting(Fetch, &[Only(NoPartition), Only(NoTopic)], &[]),
    // Who renews or closes is told about acknowledgements only.
    case(Renew, &[Right(NoTopic)], &[(NoTopic, 0, 100)]),
    case(Renew, &[Right(NoPartition)], &[(NoPartition, 0, 3)]),
    case(Renew, &[Wrong(NoPartition)], &[(NoPartition, 0, 42)]),
    case(Renew, ALL, &[(Known(0), 0, 0), (Known(1), 0, 0), (NoPartition, 0, 3), (NoTopic, 0, 100)]),
    case(Renew, &[Right(NoTopic), Only(Known(1))], &[(NoTopic, 0, 100)]),
    case(Renew, &[Wrong(Known(0)), Only(Known(1))], &[(Known(0), 0, 42)]),
    case(Renew, &[Only(NoPartition), Only(NoTopic)], &[]),
    case(Renew, &[Right(NoTopic), Only(NoTopic)], &[(NoTopic, 0, 100)]),
    case(Renew, &[Right(Known(0)), Only(Known(0)), Only(Known(1))], &[]),
    case(Close, &[Right(NoTopic)], &[(NoTopic, 0, 100)]),
    case(Close, ALL, &[(Known(0), 0, 0), (Known(1), 0, 0), (NoPartition, 0, 3), (NoTopic, 0, 100)]),
    case(Close, &[Right(NoTopic), Only(Known(1))], &[(NoTopic, 0, 100)]),
    case(Close, &[Wrong(Known(0)), Only(Known(1))], &[(Known(0), 0, 42)]),
    case(Close, &[Only(NoPartition), Only(NoTopic)], &[]),
    case(CloseAndRenew, &[Right(NoTopic), Only(NoPartition)], &[(NoTopic, 0, 100), (NoPartition, 0, 3)]),
    // A session is opened without acknowledgements, and forgets nothing.
    case(Open, &[Only(NoPartition), Only(NoTopic)], &[(NoPartition, 3, 0), (NoTopic, 100, 0)]),
    forgetting(Open, &[Only(NoPartition), Only(NoTopic)], &[(NoPartition, 3, 0), (NoTopic, 100, 0)]),
    case(OpenAndRenew, &[Only(NoPartition), Only(NoTopic)], &[]),
];

impl Case {
    /// The request, but for group and member, in a session that goes on with `next_epoch`.
    pub(crate) fn request(&self, topic_id: Uuid, next_epoch: i32) -> ShareFetchRequest {
        let listed = self.listed.iter().map(|listed| listed.topic(topic_id));
        let forgotten = self.listed.iter().filter(|_| self.forgets).map(|listed| {
            let TopicIdPartition { topic_id, partition } = listed.place().of(topic_id);
            ForgottenTopic { topic_id, partitions: [partition].into_iter().collect(), ..Default::default() }
        });
        ShareFetchRequest {
            share_session_epoch: match self.form {
                Fetch | Renew => next_epoch,
                Close | CloseAndRenew => -1,
                Open | OpenAndRenew => 0,
            },
            max_bytes: if self.form.renews() { 0 } else { 1 << 20 },
            batch_size: 500,
            is_renew_ack: self.form.renews(),
            topics: listed.collect(),
            forgotten_topics_data: forgotten.collect(),
            ..Default::default()
        }
    }

    /// The rows of the response in ascending order: code of fetching, code of the acknowledgements.
    pub(crate) fn rows(&self, topic_id: Uuid) -> Vec<(TopicIdPartition, i16, i16)> {
        let rows =
            self.rows.iter().map(|&(place, fetch, acknowledge)| (place.of(topic_id), fetch, acknowledge));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        rows
    }
}

impl Place {
    fn of(self, topic_id: Uuid) -> TopicIdPartition {
        match self {
            Known(partition) => TopicIdPartition::new(topic_id, partition),
            NoPartition => TopicIdPartition::new(topic_id, 999),
            NoTopic => TopicIdPartition::new(Uuid::from_u128(0xbad), 0),
        }
    }
}

impl Listed {
    fn place(self) -> Place {
        match self {
            Only(place) | Right(place) | Wrong(place) => place,
        }
    }

    fn topic(self, topic_id: Uuid) -> FetchTopic {
        let TopicIdPartition { topic_id, partition } = self.place().of(topic_id);
        // Once it is accepted, the record is below the start offset, where it may be accepted again.
        let batch = |first_offset| AcknowledgementBatch {
            first_offset,
            last_offset: 0,
            acknowledge_types: [AcknowledgeType::ACCEPT].into_iter().collect(),
            ..Default::default()
        };
        let acknowledgement_batches = match self {
            Only(_) => vec![],
            Right(_) => vec![batch(0)],
            Wrong(_) => vec![batch(1)],
        };
        let row =
            FetchPartition { partition_index: partition, acknowledgement_batches, ..Default::default() };
        FetchTopic { topic_id, partitions: vec![row], ..Default::default() }
    }
}
