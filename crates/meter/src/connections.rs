//! What TCP knows of connections while they are open: looked at now and then, not counted.
//!
//! [`ConnectionSample`] is one look at one connection, [`ConnectionGauges`] what a round of looks comes to: sums and their counts,
//! so that rounds of several cores can be added.

use wirebeat_units::{BitRate, Nanos};

/// What TCP knows of an open connection, as far as it says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSample {
    /// Segments that were sent again since the connection was last looked at, or began.
    pub retransmitted: u64,
    /// The smoothed round trip (RFC 6298).
    pub rtt: Option<Nanos>,
    /// The congestion window, in bytes.
    pub cwnd: Option<u64>,
    /// The rate at which data arrived at the peer most recently.
    pub delivery_rate: Option<BitRate>,
}

/// A sum of values, and how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

impl Average {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.merge(Average { count: 1, sum: value });
        }
    }

    fn merge(&mut self, other: Average) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The mean; `None` of nothing.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// What open connections of a group were like, at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionGauges {
    /// Connections that were looked at.
    pub sampled: u64,
    /// Smoothed round trips, in nanoseconds.
    pub rtt_ns: Average,
    /// The longest of them.
    pub rtt_max: Nanos,
    /// Congestion windows, in bytes.
    pub cwnd: Average,
    /// Delivery rates, in bits a second.
    pub delivery_rate: Average,
}

impl ConnectionGauges {
    /// Adds one look.
    pub fn add(&mut self, sample: &ConnectionSample) {
        self.sampled += 1;
        self.rtt_ns.add(sample.rtt.map(Nanos::get));
        self.rtt_max = self.rtt_max.max(sample.rtt.unwrap_or_default());
        self.cwnd.add(sample.cwnd);
        self.delivery_rate.add(sample.delivery_rate.map(|rate| rate.0));
    }

    /// Adds what another core saw.
    pub fn merge(&mut self, other: &ConnectionGauges) {
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.rtt_ns.merge(other.rtt_ns);
        self.rtt_max = self.rtt_max.max(other.rtt_max);
        self.cwnd.merge(other.cwnd);
        self.delivery_rate.merge(other.delivery_rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_add_up_and_what_was_not_said_counts_nowhere() {
        let sample = |ms: u64, cwnd| ConnectionSample {
            rtt: Some(Nanos::from_millis(ms)).filter(|rtt| *rtt > Nanos::ZERO),
            cwnd,
            delivery_rate: Some(BitRate(1_000)),
            ..ConnectionSample::default()
        };
        let mut here = ConnectionGauges::default();
        here.add(&sample(10, Some(14_600)));
        here.add(&sample(0, None));
        let mut there = ConnectionGauges::default();
        there.add(&sample(30, Some(29_200)));
        here.merge(&there);
        assert_eq!(here.sampled, 3);
        assert_eq!((here.rtt_ns.mean(), here.rtt_max), (Some(20_000_000), Nanos::from_millis(30)));
        assert_eq!((here.cwnd.mean(), here.delivery_rate.sum), (Some(21_900), 3_000));
        assert_eq!(ConnectionGauges::default().rtt_ns.mean(), None);
    }
}
