//! What is measured of the packets of one flow as they come.
//!
//! Numbers are judged by the meter's tracker, which knows duplicates and late packets; delays are by the clocks of both hosts.
//! Memory is bounded for each flow: a window of numbers, and histograms. It reads no clock.

use wirebeat_meter::memory::Memory;
use wirebeat_meter::sequence::{BASE, SequenceTracker};
use wirebeat_meter::session::{SessionMeter, SessionSummary, SessionTime};
use wirebeat_units::Nanos;

use crate::payload::TimeOfDay;

/// A packet that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number, if it has one.
    pub sequence: Option<u32>,
    /// When it was sent, by the clock of its sender.
    pub sent: Option<TimeOfDay>,
    /// When it came, since 1970.
    pub wall: Nanos,
    /// The same on the monotonic clock.
    pub at: Nanos,
    /// Bytes of its payload.
    pub size: u32,
}

/// The measurement of one flow.
#[derive(Debug, Default)]
pub struct Measurement {
    session: SessionMeter,
    numbers: SequenceTracker,
    /// When the last packet came, and its delay.
    last: Option<(Nanos, i64)>,
    first_at: Option<Nanos>,
    last_at: Nanos,
    packets: u64,
    without_number: u64,
    bytes: u64,
    malformed: u64,
}

impl Measurement {
    /// Counts a packet. What it takes beyond a first window comes out of `memory`.
    pub fn record(&mut self, packet: &Arrival, memory: &mut Memory) {
        let Arrival { sequence, sent, wall, at, size } = *packet;
        self.packets += 1;
        self.bytes += u64::from(size);
        self.first_at.get_or_insert(at);
        self.last_at = at;
        match sequence {
            Some(number) => {
                let sent = sent.map(TimeOfDay::since_midnight);
                self.numbers.record(number, sent, memory);
            }
            None => self.without_number += 1,
        }
        let delay = sent.map(|sent| sent.until(TimeOfDay::of(wall)));
        if let Some(delay) = delay {
            let sent = Nanos::new(wall.get().saturating_add_signed(delay.saturating_neg()));
            self.session.took(SessionTime::Delay, sent, sent, wall);
        }
        let since = self.last.zip(delay).map(|((last, before), delay)| {
            let jitter = delay.saturating_sub(before).unsigned_abs();
            (at.saturating_sub(last), i64::try_from(jitter).unwrap_or(i64::MAX))
        });
        self.session.arrived(size.into(), since);
        self.last = delay.map(|delay| (at, delay));
    }

    /// Counts what came in place of a packet and is none.
    pub fn record_malformed(&mut self) {
        self.malformed += 1;
    }

    /// Packets so far, duplicates among them.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of their payload.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the last packet came; zero before the first.
    pub fn last_at(&self) -> Nanos {
        self.last_at
    }

    /// From the first packet to the last.
    pub fn time(&self) -> Nanos {
        self.first_at.map_or(Nanos::ZERO, |first| self.last_at.saturating_sub(first))
    }

    /// What it comes to. Lost is each number from 1 to the highest that did not come; what was sent after that, nobody knows here.
    pub fn summary(&self) -> SessionSummary {
        let mut summary = self.session.summary(&[]);
        let numbers = self.numbers.summary();
        let missing = numbers.range.map_or(0, |(_, highest)| match numbers.restarts {
            0 => highest.saturating_sub(BASE).saturating_sub(numbers.unique),
            _ => numbers.expected().saturating_sub(numbers.unique),
        });
        let counts = &mut summary.counts;
        counts.messages_received = numbers.unique.saturating_add(self.without_number);
        counts.messages_duplicate = numbers.duplicates;
        counts.messages_out_of_order = numbers.reordered;
        counts.messages_lost = missing;
        counts.malformed_messages = self.malformed.saturating_add(numbers.implausible);
        counts.delivered_bytes = self.bytes;
        // when a packet was to be sent, no header says
        if let Some(delay) = summary.times.get_mut(SessionTime::Delay as usize) {
            delay.planned = Default::default();
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(packets: &[(u32, u64, u64)]) -> SessionSummary {
        let mut memory = Memory::default();
        let mut measurement = Measurement::default();
        for &(number, sent, wall) in packets {
            measurement.record(
                &Arrival {
                    sequence: Some(number),
                    sent: Some(TimeOfDay::of(Nanos::from_millis(sent))),
                    wall: Nanos::from_millis(wall),
                    at: Nanos::from_millis(wall),
                    size: 100,
                },
                &mut memory,
            );
        }
        measurement.summary()
    }

    #[test]
    fn losses_duplicates_and_late_packets_are_told_apart() {
        let summary = of(&[(2, 20, 25), (4, 40, 47), (3, 30, 49), (4, 40, 50), (6, 60, 64)]);
        let counts = summary.counts;
        // 1 and 5
        assert_eq!((counts.messages_received, counts.messages_lost), (4, 2));
        assert_eq!((counts.messages_duplicate, counts.messages_out_of_order), (1, 1));
        assert_eq!(counts.delivered_bytes, 500);
        let delay = &summary.time(SessionTime::Delay).actual.moments;
        assert_eq!((delay.count, delay.min, delay.max), (5, 4_000_000, 19_000_000));
        assert_eq!(summary.time(SessionTime::Delay).planned.moments.count, 0);
        let jitter = &summary.arrivals.jitter.moments;
        assert_eq!((jitter.count, jitter.max), (4, 12_000_000));
    }

    #[test]
    fn packets_without_numbers_are_counted() {
        let mut measurement = Measurement::default();
        let mut memory = Memory::default();
        for at in 1..=3 {
            let at = Nanos::from_millis(at);
            let packet = Arrival { sequence: None, sent: None, wall: at, at, size: 10 };
            measurement.record(&packet, &mut memory);
        }
        measurement.record_malformed();
        let counts = measurement.summary().counts;
        assert_eq!((counts.messages_received, counts.messages_lost), (3, 0));
        assert_eq!((counts.delivered_bytes, counts.malformed_messages), (30, 1));
        assert_eq!(measurement.time(), Nanos::from_millis(2));
    }

    #[test]
    fn a_clock_that_is_ahead_gives_delays_below_zero() {
        let summary = of(&[(1, 1_000, 900), (2, 1_010, 911)]);
        let delay = &summary.time(SessionTime::Delay).actual.moments;
        assert_eq!((delay.min, delay.max), (-100_000_000, -99_000_000));
    }
}
