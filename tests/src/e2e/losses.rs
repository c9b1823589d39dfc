//! Members of consumer groups whom the coordinator drops or fences: one poll reports that everything is lost, and they
//! come back. The workers check that commits of what is lost are refused, and that what they had committed still counts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use driver::Client;
use driver::admin::{configure_group, eventually, none};
use kafka_protocol::embedded::encode_versioned;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerProtocolSubscription,
    DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{ApiKey, ErrorCode};
use kafka_protocol::rebalance::{Assignor, CommitError, Config, NotCommittable};
use kafka_protocol::wire::Str;

use super::Scenario;
use super::cluster::Cluster;
use super::workers::{Manner, PARTITIONS, PATIENCE, Protocol, Stage, Worker};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("loss, consumer protocol: member removed, learnt from a heartbeat", |cluster| {
        dropped(
            cluster,
            Protocol::Consumer,
            Impostor::remove,
            ErrorCode::UNKNOWN_MEMBER_ID,
            Teacher::Heartbeat,
        )
    }),
    Scenario::new("loss, consumer protocol: member removed, learnt from a commit", |cluster| {
        dropped(cluster, Protocol::Consumer, Impostor::remove, ErrorCode::UNKNOWN_MEMBER_ID, Teacher::Commit)
    }),
    Scenario::new("loss, classic: member removed, learnt from a heartbeat", |cluster| {
        dropped(
            cluster,
            Protocol::Cooperative,
            Impostor::remove,
            ErrorCode::UNKNOWN_MEMBER_ID,
            Teacher::Heartbeat,
        )
    }),
    Scenario::new("loss, classic: member removed, learnt from a commit", |cluster| {
        dropped(cluster, Protocol::Eager, Impostor::remove, ErrorCode::UNKNOWN_MEMBER_ID, Teacher::Commit)
    }),
    Scenario::new("loss, consumer protocol: FENCED_MEMBER_EPOCH", |cluster| {
        dropped(
            cluster,
            Protocol::Consumer,
            Impostor::join,
            ErrorCode::FENCED_MEMBER_EPOCH,
            Teacher::Heartbeat,
        )
    }),
    Scenario::new("loss, classic: ILLEGAL_GENERATION, learnt from a heartbeat", |cluster| {
        dropped(
            cluster,
            Protocol::Cooperative,
            Impostor::join,
            ErrorCode::ILLEGAL_GENERATION,
            Teacher::Heartbeat,
        )
    }),
    Scenario::new("loss, classic: ILLEGAL_GENERATION, learnt from a commit", |cluster| {
        dropped(cluster, Protocol::Eager, Impostor::join, ErrorCode::ILLEGAL_GENERATION, Teacher::Commit)
    }),
    Scenario::new("loss, consumer protocol: session over, the coordinator says so", |cluster| {
        silent(cluster, Protocol::Consumer, 10 * SESSION)
    }),
    Scenario::new("loss, consumer protocol: session over, the member knows it", |cluster| {
        silent(cluster, Protocol::Consumer, SESSION)
    }),
    Scenario::new("loss, classic: session over, the member knows it", |cluster| {
        silent(cluster, Protocol::Cooperative, SESSION)
    }),
    Scenario::new("loss, consumer protocol: RebalanceTimeoutMs over while partitions are held", |cluster| {
        clings(cluster, Protocol::Consumer)
    }),
    Scenario::new("loss, classic eager: RebalanceTimeoutMs over while partitions are held", |cluster| {
        clings(cluster, Protocol::Eager)
    }),
    Scenario::new("loss, consumer protocol: FENCED_INSTANCE_ID ends a static member", |cluster| {
        replaced(cluster, Protocol::Consumer)
    }),
    Scenario::new("loss, classic: FENCED_INSTANCE_ID ends a static member", |cluster| {
        replaced(cluster, Protocol::Cooperative)
    }),
];

/// As coordinators and, if told, members have it.
const SESSION: Duration = Duration::from_secs(4);

/// What the member learns it from.
#[derive(Clone, Copy, PartialEq)]
enum Teacher {
    Heartbeat,
    Commit,
}

/// A member behind whose back an impostor does something, so that its heartbeats are answered with this code.
fn dropped(
    cluster: &Cluster,
    protocol: Protocol,
    deed: fn(&mut Impostor) -> Result<()>,
    code: ErrorCode,
    teacher: Teacher,
) -> Result<()> {
    let mut stage = Stage::new(cluster, protocol)?;
    let mut worker = stage.worker(Manner::Hurries)?;
    at_rest(&mut stage, &mut worker)?;
    let mut impostor = Impostor::new(&stage, &mut worker)?;
    deed(&mut impostor)?;
    let answer = impostor.heartbeat()?;
    ensure!(answer == code, "a heartbeat of the member is answered with {answer}");

    if teacher == Teacher::Commit {
        // If it came into force, the member would see it when it comes back.
        let wrong = worker.reading().map(|partition| (partition.clone(), stage.produced + 1000));
        let wrong = wrong.collect();
        worker.commit(wrong)?;
    }
    stage.until("everything is lost", &mut [&mut worker], |workers| workers[0].losses > 0)?;
    let failed = worker.failed.iter().flat_map(|commit| &commit.partitions);
    let failed: Vec<_> = failed.map(|(_, result)| *result).collect();
    let expected = if teacher == Teacher::Commit { PARTITIONS as usize } else { 0 };
    ensure!(failed == vec![Err(CommitError::Lost); expected], "commits are answered with {failed:?}");
    is_back(&mut stage, &mut worker)
}

/// A member that does nothing until its session is over. It believes that sessions last as long as it is told.
fn silent(cluster: &Cluster, protocol: Protocol, session_timeout: Duration) -> Result<()> {
    /// Unlike that of other groups, so that it tells whether the coordinator knows of the configurations.
    const HEARTBEAT: Duration = Duration::from_millis(300);
    let mut stage = Stage::new(cluster, protocol)?;
    if protocol == Protocol::Consumer {
        let (session, heartbeat) = (SESSION.as_millis().to_string(), HEARTBEAT.as_millis().to_string());
        let configs =
            [("consumer.session.timeout.ms", &*session), ("consumer.heartbeat.interval.ms", &heartbeat)];
        configure_group(&mut cluster.any()?, &stage.group, &configs)?;
    }
    let mut worker = stage.configured(Manner::Hurries, |config| config.session_timeout = session_timeout)?;
    at_rest(&mut stage, &mut worker)?;
    let mut impostor = Impostor::new(&stage, &mut worker)?;
    if protocol == Protocol::Consumer {
        eventually("the configurations of the group", || {
            Ok((impostor.heartbeat_interval()? == HEARTBEAT).then_some(()))
        })?;
    }
    eventually("a group without the member", || Ok((impostor.members()? == 0).then_some(())))?;
    let answer = impostor.heartbeat()?;
    ensure!(answer == ErrorCode::UNKNOWN_MEMBER_ID, "a heartbeat of the member is answered with {answer}");
    if session_timeout == SESSION {
        // Its own clock tells at once.
        worker.turn(stage.produced)?;
        ensure!(worker.losses == 1, "the first poll reports {} losses", worker.losses);
    }
    stage.until("everything is lost", &mut [&mut worker], |workers| workers[0].losses > 0)?;
    is_back(&mut stage, &mut worker)
}

/// A member that does not give up what the coordinator wants back.
fn clings(cluster: &Cluster, protocol: Protocol) -> Result<()> {
    /// Also the poll interval, which no poll comes near to.
    const REBALANCE: Duration = Duration::from_secs(6);
    let mut stage = Stage::new(cluster, protocol)?;
    // A classic coordinator goes by the longest that any member has.
    let config = |config: &mut Config| config.max_poll_interval = REBALANCE;
    let mut first = stage.configured(Manner::Clings, config)?;
    stage.until("the first member has everything", &mut [&mut first], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > 20
    })?;
    let start = Instant::now();
    let mut second = stage.configured(Manner::Hurries, config)?;
    let wanted = if protocol == Protocol::Eager { 4 } else { 2 };
    stage.until("the first member has to give up some", &mut [&mut first, &mut second], |workers| {
        workers[0].leaving() == wanted
    })?;
    stage.until("the first member loses everything", &mut [&mut first, &mut second], |workers| {
        workers[0].losses > 0
    })?;
    let time = start.elapsed();
    ensure!(time >= REBALANCE, "lost after {time:?}");
    ensure!(first.given_up == 0, "{} were given up, although held", first.given_up);
    stage.until("the first member is back", &mut [&mut first, &mut second], |workers| {
        workers.iter().all(|it| it.owned() == 2)
    })?;
    ensure!((first.losses, second.losses) == (1, 0), "losses: {}, {}", first.losses, second.losses);
    Ok(())
}

/// A static member that another one takes the place of.
fn replaced(cluster: &Cluster, protocol: Protocol) -> Result<()> {
    let mut stage = Stage::new(cluster, protocol)?;
    let instance = cluster.unique("instance");
    let config = |config: &mut Config| config.group_instance_id = Some(instance.clone());
    let mut first = stage.configured(Manner::Hurries, config)?;
    at_rest(&mut stage, &mut first)?;
    let mut impostor = Impostor::new(&stage, &mut first)?;
    impostor.instance_id = Some(instance.clone());
    if protocol == Protocol::Consumer {
        // In this protocol only a member that is away for a while can be replaced.
        impostor.leave(-2)?;
    }
    let mut second = stage.configured(Manner::Hurries, config)?;
    stage.until("the second member has everything", &mut [&mut second], |workers| workers[0].owned() == 4)?;
    let answer = impostor.heartbeat()?;
    ensure!(
        answer == ErrorCode::FENCED_INSTANCE_ID,
        "a heartbeat of the first member is answered with {answer}"
    );

    let owned: Vec<_> = first.reading().cloned().collect();
    let start = Instant::now();
    let (mut failures, mut reports) = (0, Vec::new());
    while failures < 5 {
        failures += usize::from(first.consumer.poll(Duration::from_millis(100), 0).is_err());
        let lost: Vec<_> = first.consumer.member().lost_partitions().cloned().collect();
        if !lost.is_empty() {
            reports.push(lost);
        }
        ensure!(start.elapsed() < PATIENCE, "the first member goes on");
    }
    let api = match protocol {
        Protocol::Consumer => ApiKey::CONSUMER_GROUP_HEARTBEAT,
        _ => ApiKey::HEARTBEAT,
    };
    let failure = first.consumer.member().failure().map(|refusal| (refusal.api, refusal.error_code));
    ensure!(failure == Some((api, ErrorCode::FENCED_INSTANCE_ID)), "failed with {failure:?}");
    ensure!(reports == [&owned[..]], "lost are {reports:?}, owned were {owned:?}");
    for partition in owned {
        let refused = first.consumer.commit([(partition.clone(), 1.into())]).err();
        let refused = refused.and_then(|error| error.downcast::<NotCommittable>().ok());
        ensure!(
            refused == Some(NotCommittable::Lost(partition)),
            "a commit of a lost partition: {refused:?}"
        );
    }
    stage
        .until("the second member goes on", &mut [&mut second], |workers| workers[0].processed.len() > 20)?;
    ensure!((second.given_up, second.losses) == (0, 0), "the second member was disturbed");
    Ok(())
}

/// Has everything, has processed some, has no commit under way, and will not commit.
fn at_rest(stage: &mut Stage<'_>, worker: &mut Worker) -> Result<()> {
    stage.until("the member has everything", &mut [worker], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > 20
    })?;
    worker.rests = true;
    stage.until("its commits are answered", &mut [worker], |workers| workers[0].is_settled())
}

/// It has everything again and goes on.
fn is_back(stage: &mut Stage<'_>, worker: &mut Worker) -> Result<()> {
    worker.rests = false;
    let before = worker.processed.len();
    stage.until("the member is back", &mut [worker], |workers| {
        workers[0].owned() == 4 && workers[0].processed.len() > before + 20
    })?;
    ensure!(worker.losses == 1, "{} polls have reported a loss", worker.losses);
    ensure!(worker.given_up == 0, "{} partitions were given up", worker.given_up);
    Ok(())
}

/// Somebody who speaks with the coordinator in the name of a member, over another connection.
struct Impostor {
    coordinator: Client,
    protocol: Protocol,
    group_id: Str,
    topic: Str,
    member_id: Str,
    instance_id: Option<Str>,
    /// Generation or member epoch of the member itself.
    epoch: i32,
}

impl Impostor {
    fn new(stage: &Stage<'_>, worker: &mut Worker) -> Result<Self> {
        let member = worker.consumer.member();
        Ok(Self {
            coordinator: stage.cluster.connect(stage.cluster.coordinator(&stage.group)?)?,
            protocol: stage.protocol,
            group_id: stage.group.clone(),
            topic: stage.topic.name.clone(),
            member_id: member.member_id(),
            instance_id: None,
            epoch: member.generation_or_epoch().context("not in the group")?,
        })
    }

    /// How many members the group has.
    fn members(&mut self) -> Result<usize> {
        let group = self.group_id.clone();
        let (error, members) = if self.protocol == Protocol::Consumer {
            let request = ConsumerGroupDescribeRequest { group_ids: vec![group], ..Default::default() };
            let response = self.coordinator.call(&request)?;
            let group = response.groups.first().context("no group")?;
            (group.error_code, group.members.len())
        } else {
            let request = DescribeGroupsRequest { groups: vec![group], ..Default::default() };
            let response = self.coordinator.call(&request)?;
            let group = response.groups.first().context("no group")?;
            (group.error_code, group.members.len())
        };
        none(error)?;
        Ok(members)
    }

    /// What a heartbeat of the member is answered with.
    fn heartbeat(&mut self) -> Result<ErrorCode> {
        if self.protocol == Protocol::Consumer {
            let request =
                ConsumerGroupHeartbeatRequest { member_epoch: self.epoch, ..self.consumer_heartbeat() };
            return Ok(self.coordinator.call(&request)?.error_code);
        }
        let request = HeartbeatRequest {
            group_id: self.group_id.clone(),
            generation_id: self.epoch,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            ..Default::default()
        };
        Ok(self.coordinator.call(&request)?.error_code)
    }

    /// What the coordinator tells a member of the consumer protocol.
    fn heartbeat_interval(&mut self) -> Result<Duration> {
        let request = ConsumerGroupHeartbeatRequest { member_epoch: self.epoch, ..self.consumer_heartbeat() };
        let response = self.coordinator.call(&request)?;
        none(response.error_code)?;
        Ok(Duration::from_millis(response.heartbeat_interval_ms.try_into()?))
    }

    fn consumer_heartbeat(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            group_id: self.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            ..Default::default()
        }
    }

    fn remove(&mut self) -> Result<()> {
        self.leave(-1)
    }

    /// Leaves the group, with a member epoch that says for how long.
    fn leave(&mut self, member_epoch: i32) -> Result<()> {
        if self.protocol == Protocol::Consumer {
            let request = ConsumerGroupHeartbeatRequest { member_epoch, ..self.consumer_heartbeat() };
            return none(self.coordinator.call(&request)?.error_code);
        }
        let members = vec![MemberIdentity { member_id: self.member_id.clone(), ..Default::default() }];
        let request = LeaveGroupRequest { group_id: self.group_id.clone(), members, ..Default::default() };
        none(self.coordinator.call(&request)?.error_code)
    }

    /// Joins the group anew, so that the epoch or generation of the member itself is over.
    fn join(&mut self) -> Result<()> {
        if self.protocol == Protocol::Consumer { self.join_consumer() } else { self.join_classic() }
    }

    fn join_consumer(&mut self) -> Result<()> {
        // Another subscription makes another epoch.
        let topics = vec![self.topic.clone(), format!("{}-other", self.topic).into()];
        let mut request = ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(topics),
            topic_partitions: Some(Vec::new()),
            ..self.consumer_heartbeat()
        };
        eventually("another epoch", || {
            let response = self.coordinator.call(&request)?;
            none(response.error_code)?;
            request.member_epoch = response.member_epoch;
            Ok((response.member_epoch > self.epoch).then_some(()))
        })
    }

    fn join_classic(&mut self) -> Result<()> {
        let assignor =
            if self.protocol == Protocol::Eager { Assignor::Range } else { Assignor::CooperativeSticky };
        let subscription =
            ConsumerProtocolSubscription { topics: vec![self.topic.clone()], ..Default::default() };
        let request = JoinGroupRequest {
            group_id: self.group_id.clone(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            member_id: self.member_id.clone(),
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: assignor.name().into(),
                metadata: encode_versioned(&subscription, 1)?,
                ..Default::default()
            }],
            ..Default::default()
        };
        let joined = self.coordinator.call(&request)?;
        none(joined.error_code)?;
        let request = SyncGroupRequest {
            group_id: self.group_id.clone(),
            generation_id: joined.generation_id,
            member_id: self.member_id.clone(),
            protocol_type: joined.protocol_type,
            protocol_name: joined.protocol_name,
            ..Default::default()
        };
        none(self.coordinator.call(&request)?.error_code)
    }
}
