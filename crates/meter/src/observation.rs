//! What a receiver says of one frame: which it was, when it left and came, what became of it, and its first bytes.
//!
//! Measurements are sums; an observation is of a single frame. Captures, packet logs and sessions read them. Who does not ask
//! for observations pays nothing for them. Times are nanoseconds on the clock of the receiver's process.

use wirebeat_units::Nanos;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its sequence number came for the first time, and no higher one before.
    New,
    /// Its sequence number came for the first time, behind a higher one.
    Reordered,
    /// Its sequence number is so far behind the highest that nobody knows whether it came before.
    BeyondWindow,
    /// Its sequence number had come before.
    Duplicate,
    /// Its sequence number is far from all others: the next one tells whether it is believed.
    Doubtful,
    /// It is measured, and has no probe.
    WithoutProbe,
    /// It has a probe of a flow that is not measured. This and all that follow are only counted.
    UnknownFlow,
    /// It has a probe of an earlier run.
    Stale,
    /// It is a fragment of a packet.
    Fragment,
    /// It is of the kind that is measured, and damaged.
    Malformed,
    /// It is of no kind that is measured.
    Foreign,
}

impl Standing {
    /// All of them, in the order of `enum wb_standing` in `bpf/wirebeat.h`.
    pub const ALL: [Standing; 11] = [
        Standing::New,
        Standing::Reordered,
        Standing::BeyondWindow,
        Standing::Duplicate,
        Standing::Doubtful,
        Standing::WithoutProbe,
        Standing::UnknownFlow,
        Standing::Stale,
        Standing::Fragment,
        Standing::Malformed,
        Standing::Foreign,
    ];

    /// Whether the frame is in the measurements of a flow.
    pub fn is_measured(self) -> bool {
        self as usize <= Standing::WithoutProbe as usize
    }
}

/// What a meter takes of a packet that it measures, beside its flow, its number and its times: a packet log keeps it, so that
/// the same measurements can be made once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sampled {
    /// Bytes of its transport payload.
    pub payload_len: u32,
    /// Bytes of all frames of the packet, with FCS. The frame that completes a packet in fragments stands for all of them.
    pub packet_len: u32,
    /// Frames of the packet beside this one.
    pub fragments: u32,
    /// Whether its time is exact enough to measure by; see [`crate::summary::FlowSummary::untimed`].
    pub timed: bool,
    /// Whether the sender marked it as the end of its flow.
    pub last: bool,
}

/// What a meter says of what it took last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The number of its flow; `None` where it belongs to none that has a number.
    pub flow: Option<u16>,
    /// Its sequence number as it is on the wire; `None` without a probe.
    pub sequence: Option<u32>,
    /// When it left, by its probe; `None` without a probe, or without a time in it.
    pub sent: Option<Nanos>,
    /// What became of it.
    pub standing: Standing,
    /// What was taken of it; `None` of a frame that is not measured, unless it completes a packet in fragments.
    pub sampled: Option<Sampled>,
}

impl Judged {
    /// Without a flow and a probe, and not measured.
    pub(crate) fn alone(standing: Standing) -> Judged {
        Judged { flow: None, sequence: None, sent: None, standing, sampled: None }
    }
}

/// A frame that a meter took before, as a packet log kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedFrame {
    /// When it arrived.
    pub at: Nanos,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// The number of its flow, its sequence number, when it left, what became of it and what was taken of it then.
    pub judged: Judged,
}

/// Which frames a receiver makes observations of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Those that are measured.
    Measured,
    /// All that it sees.
    All,
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation<'a> {
    /// The number of its flow; `None` where it belongs to none that has a number.
    pub flow: Option<u16>,
    /// Its sequence number as it is on the wire; `None` without a probe.
    pub sequence: Option<u32>,
    /// When it left, by its probe and on the clock of the sender; `None` without a probe.
    pub sent: Option<Nanos>,
    /// When it arrived.
    pub arrived: Nanos,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// Bytes of its transport payload, where it is measured; else 0.
    pub payload_len: u32,
    /// The receive queue that it came by.
    pub queue: u16,
    /// What became of it.
    pub standing: Standing,
    /// Its first bytes from the Ethernet header on: as many as were asked for, or fewer where the frame is shorter.
    pub bytes: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standings_are_in_the_order_of_their_numbers() {
        for (number, standing) in Standing::ALL.into_iter().enumerate() {
            assert_eq!(standing as usize, number);
        }
        assert!(Standing::WithoutProbe.is_measured() && !Standing::UnknownFlow.is_measured());
    }
}
