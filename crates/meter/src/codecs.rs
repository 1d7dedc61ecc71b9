//! Probes of other tools: which are read, and which of our flows they belong to.
//!
//! Those formats number flows by 32 bits or not at all, and carry the time of day; here they become a flow of
//! ours, a number that counts from 0, and a time on the monotonic clock. Knows no measurements.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirebeat_units::Nanos;
use wirebeat_wire::codec::{ANSWER_MAX, Account, Codec, Sent};

/// Which probes of other tools a meter reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codecs {
    /// The formats, in the order in which they are tried. Most have nothing to be known by: whatever is long
    /// enough can be read as one of them, so only those are to be here that are expected.
    pub read: Vec<Codec>,
    /// The flow of ours by the number in its probes, or `None` for formats without one. A probe of any other
    /// flow is one that is not known, unless the meter takes any.
    pub flows: BTreeMap<(Codec, Option<u32>), u16>,
    /// The format of what goes to a UDP port, where only one does: formats without anything to be known by
    /// may look like one another.
    pub ports: BTreeMap<u16, Codec>,
    /// The clock of the day less the monotonic one.
    pub unix_offset: UnixOffset,
}

/// The clock of the day less the monotonic one, in nanoseconds modulo 2^64. All copies share one value, which is set
/// anew while packets arrive: the clock of the day may be stepped. The one that sets it knows the readings.
#[derive(Clone, Debug, Default)]
pub struct UnixOffset(Arc<AtomicU64>);

impl UnixOffset {
    /// This one, for now.
    pub fn new(ns: u64) -> UnixOffset {
        UnixOffset(Arc::new(AtomicU64::new(ns)))
    }

    /// What it is.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether both are copies of one.
    pub fn is_of(&self, other: &UnixOffset) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// From now on it is this.
    pub fn set(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
}

impl PartialEq for UnixOffset {
    fn eq(&self, other: &UnixOffset) -> bool {
        self.get() == other.get()
    }
}

impl Eq for UnixOffset {}

/// What a probe of another tool says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Whose flow it is.
    pub(crate) flow: (Codec, Option<u32>),
    /// Its number, from 0.
    pub(crate) sequence: u32,
    /// When it was sent, on the monotonic clock of this host.
    pub(crate) sent: Option<Nanos>,
    /// Whether the sender marked it as the end of its flow.
    pub(crate) last: bool,
}

/// A flow that was not announced: the number in its probes, or where its format has none, where it comes from and the port
/// that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stream {
    flow: (Codec, Option<u32>),
    ends: Option<(SocketAddr, u16)>,
}

/// Where a datagram came from and where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address and port of its sender.
    pub source: SocketAddr,
    /// The address and port that it was sent to.
    pub destination: SocketAddr,
}

/// What the sender of a flow waits for after the flow's last datagram: see [`Codec::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the last datagram: the answer goes the other way.
    pub ends: Ends,
    len: usize,
    bytes: [u8; ANSWER_MAX],
}

impl Answer {
    /// The answer to `last`, the payload of a flow's last datagram; `None` where there is none to give.
    pub(crate) fn of(codec: Codec, last: &[u8], account: &Account, ends: Ends) -> Option<Answer> {
        let mut bytes = [0; ANSWER_MAX];
        let len = codec.answer(last, account, &mut bytes);
        (len > 0).then_some(Answer { ends, len, bytes })
    }

    /// Its payload, never longer than that of the datagram that asked for it.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Stream {
    /// Of a probe that came from one end to the other.
    pub(crate) fn of(flow: (Codec, Option<u32>), ends: Option<Ends>) -> Stream {
        // iperf 2 and pktgen: each of several senders counts for itself.
        let ends = ends.filter(|_| flow.1.is_none());
        Stream { flow, ends: ends.map(|ends| (ends.source, ends.destination.port())) }
    }
}

impl Codecs {
    /// Whether none is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// Whether some formats have no number of the flow, so that it takes the ends of datagrams to tell flows apart.
    pub fn by_ends(&self) -> bool {
        self.read.iter().any(|codec| !codec.numbers_flows())
    }

    /// Reads `payload`, which arrived at `at` for a UDP port, if that is known: as the format of the port; else
    /// as the first that knows the flow; else as the first that can be.
    pub(crate) fn read(&self, payload: &[u8], at: Nanos, port: Option<u16>) -> Option<Foreign> {
        let of_port = port.and_then(|port| self.ports.get(&port));
        let formats = of_port.map_or(&self.read[..], std::slice::from_ref);
        let mut first = None;
        for &codec in formats {
            let Some(seen) = codec.read(payload) else { continue };
            let found = Foreign {
                flow: (codec, seen.flow),
                sequence: seen.sequence.wrapping_sub(codec.first_sequence()) as u32,
                sent: seen.sent.and_then(|sent| self.monotonic(sent, at)),
                last: seen.last,
            };
            if self.flows.contains_key(&found.flow) {
                return Some(found);
            }
            if codec.may_begin(&seen) {
                first.get_or_insert(found);
            }
        }
        first
    }

    fn monotonic(&self, sent: Sent, at: Nanos) -> Option<Nanos> {
        if let Sent::Monotonic(ns) = sent {
            return Some(Nanos::new(ns));
        }
        let offset = self.unix_offset.get();
        let unix_ns = sent.unix_ns(at.get().wrapping_add(offset))?;
        // Before the host was started there is no monotonic time: such a clock is not ours.
        unix_ns.checked_sub(offset).map(Nanos::new)
    }
}

/// The number of a flow of another tool: that which it has there, if it is `free`, or the lowest that is. All below
/// `lowest_free` are taken.
pub(crate) fn stream_number(
    own: Option<u32>,
    lowest_free: &mut u16,
    free: impl Fn(&u16) -> bool,
) -> Option<u16> {
    let own = own.and_then(|number| u16::try_from(number).ok()).filter(&free);
    let lowest = (*lowest_free..u16::MAX).find(&free);
    *lowest_free = lowest.unwrap_or(u16::MAX);
    own.or(lowest)
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::codec::Facts;

    use super::*;

    fn payload(codec: Codec, flow: u32, sequence: u64, time_ns: u64) -> Vec<u8> {
        let mut payload = vec![0; 60];
        let destination = ([10, 0, 0, 1], 9).into();
        codec.blank(&Facts { flow, destination }, &mut payload).unwrap();
        codec.marks().write(&mut payload, sequence + codec.first_sequence(), time_ns);
        payload
    }

    #[test]
    fn numbers_count_from_zero_and_times_are_monotonic() {
        const OFFSET: u64 = 1_700_000_000_000_000_000;
        for codec in [Codec::Mgen, Codec::Rude, Codec::Pktgen, Codec::Iperf2, Codec::DitgStandard] {
            let unix_offset = UnixOffset::new(OFFSET);
            let codecs = Codecs { read: vec![codec], unix_offset, ..Codecs::default() };
            let sent = 5_000_001_000;
            let payload = payload(codec, 7, 3, OFFSET + sent);
            let found = codecs.read(&payload, Nanos::new(sent + 90), None);
            let found = found.unwrap();
            assert_eq!(found.sequence, 3, "{codec}");
            assert_eq!(found.sent, Some(Nanos::new(sent)), "{codec}");
            assert_eq!(found.flow.0, codec);
        }
    }

    /// The offset was read once: after a step of the clock of the day every delay was wrong by the step.
    #[test]
    fn a_step_of_the_clock_of_the_day_is_followed() {
        const OFFSET: u64 = 1_700_000_000_000_000_000;
        const STEP: u64 = 3_600_000_000_000;
        let unix_offset = UnixOffset::new(OFFSET);
        let codecs = Codecs { read: vec![Codec::Mgen], unix_offset, ..Codecs::default() };
        let (sent, shared) = (5_000_001_000, codecs.unix_offset.clone());
        for offset in [OFFSET, OFFSET + STEP, OFFSET - STEP] {
            shared.set(offset);
            let payload = payload(Codec::Mgen, 7, 3, offset + sent);
            let found = codecs.read(&payload, Nanos::new(sent + 90), None).unwrap();
            assert_eq!(found.sent, Some(Nanos::new(sent)));
        }
    }

    #[test]
    fn the_format_that_knows_the_flow_comes_first() {
        let flows = [((Codec::DitgStandard, Some(7)), 1)].into();
        let read = vec![Codec::Rude, Codec::DitgStandard];
        let codecs = Codecs { read, flows, ..Codecs::default() };
        let found = codecs.read(&payload(Codec::DitgStandard, 7, 0, 0), Nanos::ZERO, None);
        assert_eq!(found.map(|found| found.flow), Some((Codec::DitgStandard, Some(7))));
        let found = codecs.read(&payload(Codec::DitgStandard, 8, 0, 0), Nanos::ZERO, None);
        assert_eq!(found.map(|found| found.flow.0), Some(Codec::Rude));
        assert_eq!(Codecs::default().read(&[0; 60], Nanos::ZERO, None), None);
    }

    #[test]
    fn what_looks_like_another_format_is_told_by_its_port() {
        // number 7 of iperf 2 in the first second of a day is flow 7 of D-ITG as well
        let datagram = payload(Codec::Iperf2, 0, 6, 1_000);
        let flows = [((Codec::DitgStandard, Some(7)), 1), ((Codec::Iperf2, None), 2)].into();
        let ports = [(5001, Codec::Iperf2)].into();
        let read = vec![Codec::DitgStandard, Codec::Iperf2];
        let codecs = Codecs { read, flows, ports, ..Codecs::default() };
        let codec = |port| codecs.read(&datagram, Nanos::ZERO, port).map(|found| found.flow.0);
        assert_eq!(codec(Some(5001)), Some(Codec::Iperf2));
        assert_eq!(codec(None), Some(Codec::DitgStandard));
    }
}
