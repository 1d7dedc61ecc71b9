//! What the compiler makes and the drive loop runs: tables, with every decision taken.

use std::net::SocketAddr;

use wirebeat_units::{FrameLen, FrameRate, Nanos};
use wirebeat_wire::probe;
use wirebeat_wire::stamp::Stamp;

/// A compiled scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Seed of every random choice.
    pub seed: u64,
    /// The flows; the index is [`crate::schedule::Departure::flow`].
    pub flows: Vec<Flow>,
}

impl Program {
    /// The indices of the flows that the port `name` sends, in order.
    pub fn flows_from(&self, name: &str) -> Vec<u32> {
        (0..).zip(&self.flows).filter(|(_, flow)| flow.from == name).map(|(i, _)| i).collect()
    }
}

/// One flow, ready to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The name in the scenario.
    pub name: String,
    /// Its number in probes.
    pub id: u16,
    /// The sending port's name.
    pub from: String,
    /// The receiving port's name, where the scenario has one.
    pub to: Option<String>,
    /// The frames.
    pub template: FrameTemplate,
    /// When they leave.
    pub departures: Departures,
    /// What happens to a frame that is late.
    pub late: Late,
    /// Addresses, for engines that send datagrams rather than frames.
    pub endpoint: Endpoint,
}

/// A frame with everything filled in that does not change from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTemplate {
    /// The frame without FCS; sequence, time and identification zero, checksums as [`Stamp`] wants them.
    pub bytes: Vec<u8>,
    /// Where the transport payload begins.
    pub payload_at: u16,
    /// Bytes of transport payload; what follows it is padding.
    pub payload_len: u16,
    /// What is written at the last moment, by offsets from the start of the frame.
    pub stamp: Stamp,
}

impl FrameTemplate {
    /// The length with FCS.
    pub fn len(&self) -> FrameLen {
        FrameLen::without_fcs(u16::try_from(self.bytes.len()).unwrap_or(u16::MAX))
    }

    /// What a port is given that sends frames: everything from the Ethernet header on.
    pub fn frame(&self) -> Image<'_> {
        Image { bytes: &self.bytes, stamp: self.stamp, probe_at: present(self.stamp.probe_at) }
    }

    /// What a port is given that sends datagrams: the transport payload alone, without headers and
    /// padding.
    pub fn datagram(&self) -> Image<'_> {
        let begin = usize::from(self.payload_at).min(self.bytes.len());
        let end = (begin + usize::from(self.payload_len)).min(self.bytes.len());
        let probe_at = present(self.stamp.probe_at).and_then(|at| at.checked_sub(begin));
        // Checksums and identification lie in the headers, which the system makes.
        Image { bytes: &self.bytes[begin..end], stamp: Stamp::default(), probe_at }
    }
}

/// A [`Stamp`] says by zero that a field is absent.
fn present(offset: u16) -> Option<usize> {
    (offset != 0).then_some(usize::from(offset))
}

/// What a port sends of a [`FrameTemplate`]: its bytes, and what to write into them at the last moment.
///
/// Building one touches nothing but the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// What is copied.
    pub bytes: &'a [u8],
    /// Where checksums, identification and probe lie, from the start of `bytes`; for ports that stamp
    /// by themselves. Empty for datagrams, whose probe may lie at offset 0.
    pub stamp: Stamp,
    /// Where the probe lies, from the start of `bytes`.
    pub probe_at: Option<usize>,
}

impl Image<'_> {
    /// Copies the bytes to the beginning of `out` and returns how many they are; 0 when `out` is too
    /// short for them.
    pub fn build(&self, out: &mut [u8]) -> usize {
        match out.get_mut(..self.bytes.len()) {
            Some(out) => {
                out.copy_from_slice(self.bytes);
                self.bytes.len()
            }
            None => 0,
        }
    }

    /// Writes sequence number and transmit time into what [`Image::build`] made, and mends what
    /// depends on them. Once per build.
    pub fn stamp(&self, out: &mut [u8], sequence: u32, transmit_ns: u64) {
        if self.stamp != Stamp::default() {
            self.stamp.write(out, sequence, transmit_ns);
        } else if let Some(at) = self.probe_at
            && let Some(probe) = out.get_mut(at..).and_then(|tail| tail.first_chunk_mut())
        {
            probe::write(probe, sequence, transmit_ns);
        }
    }
}

/// When the frames of a flow are due, relative to the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departures {
    /// The rate; `None` is as fast as the engine can.
    pub rate: Option<FrameRate>,
    /// Frames that leave back to back; the pause after them keeps the mean rate. At least 1.
    pub burst: u32,
    /// When the first is due (start time and stagger).
    pub start: Nanos,
    /// No frame is due at or after this.
    pub stop: Nanos,
    /// No more than this many frames.
    pub count: u64,
}

impl Departures {
    /// How many frames are due before `time` (from the start of the run), over all cores; for a flow
    /// without a rate, which has no deadlines, its count.
    pub fn due_before(&self, time: Nanos) -> u64 {
        let Some(rate) = self.rate else { return self.count };
        let span = u128::from(time.min(self.stop).saturating_sub(self.start).get());
        let burst = u128::from(self.burst.max(1));
        // burst b is due at start + floor(b * burst * per / frames): before `time` as long as
        // b * burst * per < span * frames
        let per = u128::from(rate.per.get().max(1)).saturating_mul(burst);
        let bursts = span.saturating_mul(u128::from(rate.frames)).div_ceil(per);
        u64::try_from(bursts.saturating_mul(burst)).unwrap_or(u64::MAX).min(self.count)
    }
}

/// What happens to a frame that cannot leave in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It is sent late; its lateness is recorded.
    Send,
    /// It is dropped as a time violation once it is later than this.
    Drop(Nanos),
}

/// Where datagrams of a flow come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Source address and port; unspecified address or port 0: the kernel chooses.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The ToS byte or traffic class.
    pub tos: u8,
    /// Whether the UDP checksum is sent.
    pub checksum: bool,
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::probe::Probe;

    use super::*;

    /// A header of 4 bytes, a payload that is nothing but a probe, 2 bytes of padding.
    fn template() -> FrameTemplate {
        let mut bytes = vec![0xee; 4];
        bytes.extend(Probe { flow: 7, sequence: 0, transmit_ns: 0 }.to_bytes());
        bytes.extend([0; 2]);
        let stamp = Stamp { probe_at: 4, ..Stamp::default() };
        FrameTemplate { bytes, payload_at: 4, payload_len: 16, stamp }
    }

    #[test]
    fn a_datagram_is_the_payload_even_where_the_probe_begins_it() {
        let template = template();
        let mut out = [0xff; 64];
        let image = template.datagram();
        assert_eq!(image.build(&mut out), 16);
        image.stamp(&mut out, 3, 1_000_000_007);
        let probe = Probe { flow: 7, sequence: 3, transmit_ns: 1_000_000_007 };
        assert_eq!(Probe::from_tail(&out[..16]), Some(probe));
        assert_eq!(out[16..], [0xff; 48]);
    }

    #[test]
    fn a_frame_is_all_of_it() {
        let template = template();
        let mut out = [0; 22];
        assert_eq!(template.frame().build(&mut out), 22);
        assert_eq!(out[..], template.bytes[..]);
        assert_eq!(template.len(), FrameLen::with_fcs(26));
        assert_eq!(template.frame().build(&mut [0; 21]), 0, "no room, nothing written");
    }

    #[test]
    fn offsets_that_point_nowhere_do_not_panic() {
        let mut template = template();
        template.payload_at = 60_000;
        assert!(template.datagram().bytes.is_empty());
        template.payload_at = 20;
        template.payload_len = u16::MAX;
        template.datagram().stamp(&mut [0; 4], 1, 1);
        template.frame().stamp(&mut [0; 3], 1, 1);
    }
}
