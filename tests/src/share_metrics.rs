//! Counts and rates of acknowledgements.

use std::time::Duration;

use kafka_protocol::protocol::AcknowledgeType;
use kafka_protocol::share::{
    Meter, PartitionAcknowledgements, Rate, RecordAcknowledgements, ShareConsumerMetrics,
};

use crate::random::Random;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn offsets_are_counted_by_type_and_gaps_are_not() {
    let mut acknowledged = PartitionAcknowledgements::default();
    let types = [4, 4, 1, 1, 2, 2, 3, 3, 0, 0, 7, -1];
    acknowledged.extend((0..).zip(types.map(AcknowledgeType)));
    acknowledged.set_range(100, 599, AcknowledgeType::ACCEPT);
    let mut metric = RecordAcknowledgements::new(Duration::ZERO);
    metric.record(seconds(1), &acknowledged);

    let count = |ty| metric.meter(AcknowledgeType(ty)).map(Meter::count);
    assert_eq!([0, 1, 2, 3, 4, 5, -1].map(count), [None, Some(502), Some(2), Some(2), Some(2), None, None]);
}

/// The averages, tick by tick.
struct Naive {
    ticks: u64,
    uncounted: u64,
    rates: Option<[f64; 3]>,
}

impl Naive {
    fn tick_up_to(&mut self, now: Duration) {
        while now >= seconds(5) * (self.ticks + 1) as u32 {
            self.ticks += 1;
            let rate = self.uncounted as f64 / 5.0;
            self.uncounted = 0;
            self.rates = Some(match self.rates {
                None => [rate; 3],
                Some(rates) => {
                    let mut minutes = [1.0, 5.0, 15.0].into_iter();
                    rates.map(|old| {
                        let alpha = 1.0 - (-5.0 / 60.0 / minutes.next().unwrap_or(1.0_f64)).exp();
                        old + alpha * (rate - old)
                    })
                }
            });
        }
    }
}

#[test]
fn rates_are_those_of_a_meter_that_ticks_every_five_seconds() {
    for seed in 0..200 {
        let mut random = Random::new("meter", 0, seed);
        // A grid that does not begin at the origin.
        let start = Duration::from_millis(random.below(10_000) as u64);
        let (mut meter, mut naive) = (Meter::new(start), Naive { ticks: 0, uncounted: 0, rates: None });
        let (mut age, mut total) = (Duration::ZERO, 0);
        for _ in 0..40 {
            let pause = random.pick(&[1, 300, 4_999, 5_000, 5_001, 60_000, 600_000]);
            age += Duration::from_millis(pause);
            let events = random.below(1000) as u64;
            naive.tick_up_to(age);
            if random.once_in(2) {
                meter.mark(start + age, events);
                naive.uncounted += events;
                total += events;
            }
            let ours = meter.rates(start + age);
            let expected = naive.rates.unwrap_or_default();
            for (ours, expected) in
                [ours.one_minute, ours.five_minutes, ours.fifteen_minutes].iter().zip(expected)
            {
                assert!(
                    (ours - expected).abs() <= 1e-9 * expected.max(1.0),
                    "seed {seed}: {ours}, not {expected}"
                );
            }
            assert_eq!(meter.count(), total, "seed {seed}");
            assert_eq!(ours.mean, total as f64 / age.as_secs_f64(), "seed {seed}");
        }
    }
    let idle_for_ages = Meter::new(Duration::ZERO).rates(Duration::MAX);
    assert_eq!(idle_for_ages.one_minute, 0.0);
}

#[test]
fn the_brokers_metric_reads_as_in_jmx_and_in_prometheus() {
    let mut metric = RecordAcknowledgements::new(Duration::ZERO);
    metric.mark(seconds(1), AcknowledgeType::RENEW, 10);
    metric.mark(seconds(1), AcknowledgeType::GAP, 10);
    let (mut jmx, mut prometheus) = (String::new(), String::new());
    metric.write_jmx(seconds(5), &mut jmx).unwrap();
    metric.write_prometheus(seconds(5), &mut prometheus).unwrap();

    let bean = "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=Renew";
    let renew: Vec<&str> = jmx.lines().filter_map(|line| line.strip_prefix(bean)).collect();
    let expected = [
        " Count 10",
        " EventType records",
        " RateUnit SECONDS",
        " MeanRate 2",
        " OneMinuteRate 2",
        " FiveMinuteRate 2",
        " FifteenMinuteRate 2",
    ];
    assert_eq!(renew, expected);
    assert_eq!(jmx.lines().count(), 4 * expected.len());

    assert_eq!(
        prometheus,
        r#"# HELP kafka_server_sharegroupmetrics_recordacknowledgements_total Records acknowledged.
# TYPE kafka_server_sharegroupmetrics_recordacknowledgements_total counter
kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Release"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Reject"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Renew"} 10
# HELP kafka_server_sharegroupmetrics_recordacknowledgements_rate Records acknowledged per second.
# TYPE kafka_server_sharegroupmetrics_recordacknowledgements_rate gauge
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Accept",window="1m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Accept",window="5m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Accept",window="15m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Release",window="1m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Release",window="5m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Release",window="15m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Reject",window="1m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Reject",window="5m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Reject",window="15m"} 0
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Renew",window="1m"} 2
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Renew",window="5m"} 2
kafka_server_sharegroupmetrics_recordacknowledgements_rate{ackType="Renew",window="15m"} 2
"#
    );
}

#[test]
fn the_clients_rate_is_that_of_kafkas_java_client() {
    let mut rates = 0;
    for line in include_str!("../share/rates.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut rate = Rate::default();
        for step in line.split(", ") {
            let fields: Vec<&str> = step.split(' ').collect();
            let [what, now, value] = fields[..] else { panic!("{step}") };
            let now = Duration::from_millis(now.parse().unwrap());
            if what == "record" {
                rate.record(now, value.parse().unwrap());
                continue;
            }
            let (ours, theirs) = (rate.per_second(now), value.parse::<f64>().unwrap());
            assert!((ours - theirs).abs() <= 1e-9 * theirs, "{ours}, not {step}, in {line}");
            rates += 1;
        }
    }
    assert!(rates > 250, "{rates}");
}

#[test]
fn the_clients_rate_begins_without_a_peak_and_ends_at_zero() {
    let mut rate = Rate::default();
    assert_eq!((rate.total(), rate.per_second(seconds(7))), (0, 0.0));
    rate.record(seconds(10), 60);
    assert_eq!([10, 20, 40].map(|now| rate.per_second(seconds(now))), [2.0, 1.5, 2.0]);
    assert_eq!((rate.total(), rate.per_second(seconds(70))), (60, 0.0));
    assert_eq!(rate.per_second(Duration::MAX), 0.0);
}

#[test]
fn the_clients_metrics_read_as_in_jmx_and_in_prometheus() {
    let mut metrics = ShareConsumerMetrics::default();
    metrics.acknowledgements_send.record(seconds(1), 60);
    metrics.acknowledgements_error.record(seconds(1), 30);
    let (mut jmx, mut prometheus) = (String::new(), String::new());
    metrics.write_jmx(seconds(11), "worker-1", &mut jmx).unwrap();
    metrics.write_prometheus(seconds(2), "a\"b", &mut prometheus).unwrap();
    let bean = "kafka.consumer:type=consumer-share-fetch-manager-metrics,client-id=worker-1";
    let lines = ["send-total 60", "send-rate 1.5", "error-total 30", "error-rate 0.75"];
    assert_eq!(jmx, lines.map(|line| format!("{bean} acknowledgements-{line}\n")).concat());
    let line =
        "kafka_consumer_share_fetch_manager_metrics_acknowledgements_send_total{client_id=\"a\\\"b\"} 60\n";
    assert!(prometheus.contains(line), "{prometheus}");
}
