//! The metrics of share groups that count acknowledgements, at the broker and at the client.

mod meter;
mod rate;

use std::fmt;
use std::time::Duration;

pub use meter::{Meter, Rates};
pub use rate::Rate;

use super::PartitionAcknowledgements;
use crate::protocol::AcknowledgeType;

/// The broker's metric `RecordAcknowledgementsPerSec` (KIP-1103, KIP-1222): acknowledged records by `ackType`.
///
/// The unit is records, that is, offsets: neither requests nor batches. Count what succeeded, persisting included. As
/// measured, a broker counts nothing of a partition that failed, not even renewals that hold; nothing of records that
/// are released with their session; but all offsets of a range that lies below the start offset.
///
/// ```
/// use kafka_protocol::{protocol::AcknowledgeType, share::{PartitionAcknowledgements, RecordAcknowledgements}};
/// use std::time::Duration;
///
/// let mut acknowledged = PartitionAcknowledgements::default();
/// acknowledged.set_range(0, 9, AcknowledgeType::RENEW);
/// let mut metric = RecordAcknowledgements::new(Duration::ZERO);
/// metric.record(Duration::from_secs(2), &acknowledged);
///
/// let renew = metric.meter(AcknowledgeType::RENEW).unwrap();
/// assert_eq!(renew.count(), 10);
/// assert_eq!(renew.rates(Duration::from_secs(5)).one_minute, 2.0);
/// assert_eq!(
///     RecordAcknowledgements::object_name("Renew"),
///     "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=Renew",
/// );
/// ```
#[derive(Clone, Debug)]
pub struct RecordAcknowledgements {
    meters: [Meter; 4],
}

impl RecordAcknowledgements {
    /// The values of the tag `ackType`, in the order of the codes 1 to 4. Gaps (0) are not counted.
    pub const ACK_TYPES: [&'static str; 4] = ["Accept", "Release", "Reject", "Renew"];

    /// Meters that have counted nothing yet.
    pub fn new(now: Duration) -> Self {
        Self { meters: std::array::from_fn(|_| Meter::new(now)) }
    }

    /// Counts the acknowledgements of a partition, all of which succeeded.
    pub fn record(&mut self, now: Duration, acknowledged: &PartitionAcknowledgements) {
        for (first, last, ty) in acknowledged.ranges() {
            self.mark(now, ty, (last.wrapping_sub(first) as u64).saturating_add(1));
        }
    }

    /// Counts offsets of one type. Gaps, and types that do not exist, are not counted.
    pub fn mark(&mut self, now: Duration, ty: AcknowledgeType, offsets: u64) {
        if let Some(meter) = index(ty).and_then(|index| self.meters.get_mut(index)) {
            meter.mark(now, offsets);
        }
    }

    /// The meter of a type; `None` for a gap and for types that do not exist.
    pub fn meter(&self, ty: AcknowledgeType) -> Option<&Meter> {
        index(ty).and_then(|index| self.meters.get(index))
    }

    /// The name under which Kafka registers the meter of a value of `ackType` in JMX.
    pub fn object_name(ack_type: &str) -> String {
        format!("kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType={ack_type}")
    }

    /// Writes every meter under its name in JMX, an attribute a line: `NAME ATTRIBUTE VALUE`.
    ///
    /// # Errors
    ///
    /// Only those of `to`.
    pub fn write_jmx(&self, now: Duration, to: &mut impl fmt::Write) -> fmt::Result {
        for (ack_type, meter) in Self::ACK_TYPES.into_iter().zip(&self.meters) {
            let name = Self::object_name(ack_type);
            let rates = meter.rates(now);
            writeln!(to, "{name} Count {}", meter.count())?;
            writeln!(to, "{name} EventType records")?;
            writeln!(to, "{name} RateUnit SECONDS")?;
            writeln!(to, "{name} MeanRate {}", rates.mean)?;
            writeln!(to, "{name} OneMinuteRate {}", rates.one_minute)?;
            writeln!(to, "{name} FiveMinuteRate {}", rates.five_minutes)?;
            writeln!(to, "{name} FifteenMinuteRate {}", rates.fifteen_minutes)?;
        }
        Ok(())
    }

    /// Writes every meter in Prometheus' text format: a counter, and a gauge with the rates per second.
    ///
    /// The names are those that the usual rules of the JMX exporter make of Kafka's.
    ///
    /// # Errors
    ///
    /// Only those of `to`.
    pub fn write_prometheus(&self, now: Duration, to: &mut impl fmt::Write) -> fmt::Result {
        const NAME: &str = "kafka_server_sharegroupmetrics_recordacknowledgements";
        writeln!(to, "# HELP {NAME}_total Records acknowledged.")?;
        writeln!(to, "# TYPE {NAME}_total counter")?;
        for (ack_type, meter) in Self::ACK_TYPES.into_iter().zip(&self.meters) {
            writeln!(to, "{NAME}_total{{ackType=\"{ack_type}\"}} {}", meter.count())?;
        }
        writeln!(to, "# HELP {NAME}_rate Records acknowledged per second.")?;
        writeln!(to, "# TYPE {NAME}_rate gauge")?;
        for (ack_type, meter) in Self::ACK_TYPES.into_iter().zip(&self.meters) {
            let rates = meter.rates(now);
            let windows =
                [("1m", rates.one_minute), ("5m", rates.five_minutes), ("15m", rates.fifteen_minutes)];
            for (window, rate) in windows {
                writeln!(to, "{NAME}_rate{{ackType=\"{ack_type}\",window=\"{window}\"}} {rate}")?;
            }
        }
        Ok(())
    }
}

fn index(ty: AcknowledgeType) -> Option<usize> {
    usize::try_from(ty.0).ok()?.checked_sub(1)
}

/// The client's metrics of acknowledgements, counted in offsets (KIP-932).
#[derive(Clone, Debug, Default)]
pub struct ShareConsumerMetrics {
    /// Acknowledgements sent: `acknowledgements-send-rate` and `acknowledgements-send-total`.
    pub acknowledgements_send: Rate,
    /// Acknowledgements sent or to be sent that ended in an error: `acknowledgements-error-rate` and
    /// `acknowledgements-error-total`.
    pub acknowledgements_error: Rate,
}

impl ShareConsumerMetrics {
    /// Writes them under their name in JMX, an attribute a line: `NAME ATTRIBUTE VALUE`.
    ///
    /// # Errors
    ///
    /// Only those of `to`.
    pub fn write_jmx(&self, now: Duration, client_id: &str, to: &mut impl fmt::Write) -> fmt::Result {
        for (name, rate) in self.rates() {
            let bean =
                format!("kafka.consumer:type=consumer-share-fetch-manager-metrics,client-id={client_id}");
            writeln!(to, "{bean} acknowledgements-{name}-total {}", rate.total())?;
            writeln!(to, "{bean} acknowledgements-{name}-rate {}", rate.per_second(now))?;
        }
        Ok(())
    }

    /// Writes them in Prometheus' text format.
    ///
    /// # Errors
    ///
    /// Only those of `to`.
    pub fn write_prometheus(&self, now: Duration, client_id: &str, to: &mut impl fmt::Write) -> fmt::Result {
        let client_id = client_id.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        for (name, rate) in self.rates() {
            let name = format!("kafka_consumer_share_fetch_manager_metrics_acknowledgements_{name}");
            writeln!(to, "# TYPE {name}_total counter")?;
            writeln!(to, "{name}_total{{client_id=\"{client_id}\"}} {}", rate.total())?;
            writeln!(to, "# TYPE {name}_rate gauge")?;
            writeln!(to, "{name}_rate{{client_id=\"{client_id}\"}} {}", rate.per_second(now))?;
        }
        Ok(())
    }

    fn rates(&self) -> [(&'static str, &Rate); 2] {
        [("send", &self.acknowledgements_send), ("error", &self.acknowledgements_error)]
    }
}
