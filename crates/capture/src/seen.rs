//! A frame that was seen, with what is known of it.

use wirebeat_meter::observation::{Sampled, Standing};
use wirebeat_units::{BitRate, FCS, FrameLen, Nanos};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It arrived.
    Received(Standing),
    /// It left.
    Sent,
    /// It was handed over, and the device did not send it.
    Failed,
    /// It was dropped before it left, because it was later than its flow allows.
    Expired,
}

impl Outcome {
    /// Whether it arrived. Else it was sent, or was to be.
    pub fn is_received(self) -> bool {
        matches!(self, Outcome::Received(_))
    }

    /// Whether a measurement finds it odd. Frames of other programs (ARP, say) are not.
    pub fn is_odd(self) -> bool {
        match self {
            Outcome::Sent => false,
            Outcome::Failed | Outcome::Expired => true,
            Outcome::Received(standing) => match standing {
                Standing::New | Standing::WithoutProbe | Standing::UnknownFlow => false,
                Standing::Fragment | Standing::Foreign => false,
                Standing::Reordered | Standing::BeyondWindow | Standing::Duplicate => true,
                Standing::Doubtful | Standing::Stale | Standing::Malformed => true,
            },
        }
    }
}

/// A frame that a port received or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The port, by its place in [`Opening::interfaces`].
    pub interface: u16,
    /// The queue of the port.
    pub queue: u16,
    /// What the card chose that queue by; `None` where it does not say, or nobody asked.
    pub hash: Option<u32>,
    /// What became of it.
    pub outcome: Outcome,
    /// When it arrived or left, on the monotonic clock of this host.
    pub at: Nanos,
    /// The same on the clock of the day, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// The number of its flow; `None` where it belongs to none that has a number.
    pub flow: Option<u16>,
    /// Its sequence number as it is on the wire; `None` without a probe.
    pub sequence: Option<u32>,
    /// When it left by its probe, on the clock of the sender; `None` without a probe.
    pub sent: Option<Nanos>,
    /// When it was to leave, on the monotonic clock; `None` of a frame that arrived or had no deadline.
    pub due: Option<Nanos>,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// What the meter took of it beside these; `None` of a frame that was not measured, and where the receiver does not say.
    pub sampled: Option<Sampled>,
    /// Its first bytes from the Ethernet header on and without FCS: as many as [`Interface::snap_len`] says, or fewer where the
    /// frame is shorter. Those of the shortest frames are whole for a capture file
    /// ([`crate::file::CaptureOptions::wanted_len`]).
    pub bytes: &'a [u8],
}

impl Seen<'_> {
    /// Whether it arrived and is in the measurements of a flow.
    pub fn is_measured(&self) -> bool {
        matches!(self.outcome, Outcome::Received(standing) if standing.is_measured())
    }

    /// From its departure by its probe to its arrival, in nanoseconds: of a frame that arrived and has a probe. It is what the
    /// two clocks say, and so may be below zero.
    pub fn delay_ns(&self) -> Option<i64> {
        let sent = self.sent.filter(|_| self.outcome.is_received())?;
        Some(self.at.get().wrapping_sub(sent.get()).cast_signed())
    }

    /// Bytes of the whole frame as it is in a capture file: without FCS, and without padding that a virtual cable does not add.
    pub fn len_without_fcs(&self) -> usize {
        let had = self.bytes.len();
        let len = self.frame_len.saturating_sub(FCS.into()) as usize;
        // a card would have padded it, and what is there is all there is
        let is_shortest = self.frame_len <= FrameLen::MIN.get().into();
        if is_shortest { had.min(len) } else { len.max(had) }
    }

    /// The same without its bytes, to be kept.
    pub fn without_bytes(&self) -> Seen<'static> {
        let Seen {
            interface, queue, hash, outcome, at, unix_ns, flow, sequence, sent, due, ..
        } = *self;
        let Seen { frame_len, sampled, .. } = *self;
        Seen {
            interface,
            queue,
            hash,
            outcome,
            at,
            unix_ns,
            flow,
            sequence,
            sent,
            due,
            frame_len,
            sampled,
            bytes: &[],
        }
    }
}

/// A port whose frames are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The name of the port in the scenario; `None` without a scenario.
    pub port: Option<String>,
    /// The network interface, if there is one.
    pub name: Option<String>,
    /// What it is in words: the engine and how it works here.
    pub description: String,
    /// The speed of the link, where it is known.
    pub speed: Option<BitRate>,
    /// The most bytes of a frame that are kept; 0: all of them.
    pub snap_len: u32,
    /// Whose clock the times are from, in words: "the driver's receive time", "user space".
    pub timestamps: String,
}

/// What is known before the first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The ports.
    pub interfaces: Vec<Interface>,
    /// The flows by their numbers.
    pub flows: Vec<(u16, String)>,
    /// What is said of the whole run, in one line: the name of the scenario, the seed.
    pub comment: Option<String>,
    /// When it begins, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
}

/// What is known of a port at the end, or so far. Frames that were kept are those given to [`crate::sink::Sink::frame`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Frames that were seen: kept, left out by a filter, or lost.
    pub seen: u64,
    /// Frames that a filter left out.
    pub filtered: u64,
    /// Frames that were lost before they could be noted: the receiver's own drops.
    pub receiver_drops: u64,
    /// Frames that were measured and lost for the capture, because the writer was slower.
    pub lost: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame that arrived, with a probe.
    pub(crate) fn frame(bytes: &[u8]) -> Seen<'_> {
        Seen {
            interface: 0,
            queue: 0,
            hash: None,
            outcome: Outcome::Received(Standing::New),
            at: Nanos::new(1_000),
            unix_ns: 1_795_197_600_000_000_000,
            flow: Some(0),
            sequence: Some(0),
            sent: Some(Nanos::new(400)),
            due: None,
            frame_len: bytes.len() as u32 + 4,
            sampled: None,
            bytes,
        }
    }

    #[test]
    fn delays_are_of_frames_that_arrived_with_a_probe() {
        let seen = Seen {
            interface: 0,
            queue: 0,
            hash: None,
            outcome: Outcome::Received(Standing::New),
            at: Nanos::new(1_500),
            unix_ns: 0,
            flow: Some(1),
            sequence: Some(7),
            sent: Some(Nanos::new(1_000)),
            due: None,
            frame_len: 64,
            sampled: None,
            bytes: &[],
        };
        assert_eq!(seen.delay_ns(), Some(500));
        assert_eq!(Seen { at: Nanos::new(900), ..seen }.delay_ns(), Some(-100));
        assert_eq!(Seen { sent: None, ..seen }.delay_ns(), None);
        assert_eq!(Seen { outcome: Outcome::Sent, ..seen }.delay_ns(), None);
    }
}
