//! Frames of what is replayed: the headers are those of the flow, the data comes with each record, and so does its
//! length. All else, from lengths and changing fields to checksums and probe, is as for any other frame. What comes from
//! a capture has its headers with it, and nothing is added.

use std::ops::Range;

use wirebeat_units::PacketLen;
use wirebeat_wire::carrier::payload_len;
use wirebeat_wire::checksum::Sum;
use wirebeat_wire::ethernet::FRAME_MIN;
use wirebeat_wire::probe;

use super::frames::{Built, Counted, Frames};

/// What is replayed: the payload of a packet, all of it but a probe at the end, or a whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Its number in the flow.
    pub number: u64,
    /// The number of its sub-flow.
    pub sub_flow: u64,
    /// What it is counted by, which is its flow in probes.
    pub tag: u16,
    /// Its bytes.
    pub data: &'a [u8],
    /// The sum of its bytes as checksums want it, where somebody took it when it came by.
    pub sum: Option<u16>,
}

impl Frames {
    /// Makes the frame of what is replayed in `out`; `None` when `out` is too short for it.
    #[inline]
    pub(super) fn write_recorded(&self, of: &Recorded<'_>, out: &mut [u8]) -> Option<Built> {
        let packet = self.recorded_len(of.data.len());
        let mut built = self.built(packet);
        built.counted = self.counted_as_data(built.counted, of.data);
        let frame = out.get_mut(..built.len as usize)?;
        let (headers, rest) = frame.split_at_mut_checked(self.recorded_at())?;
        headers.copy_from_slice(self.bytes.get(..headers.len())?);
        let (data, rest) = rest.split_at_mut_checked(of.data.len())?;
        data.copy_from_slice(of.data);
        rest.fill(0);
        let end = packet.get() as usize;
        let tail = self.recorded_at() + of.data.len()..end;
        self.fill_in_recorded(of, frame, (packet, end), tail)?;
        Some(built)
    }

    /// Makes the frame of what is replayed but for the data: what is before it and what is behind it, one after the
    /// other. With it goes where the data belongs. `None` where that is not possible.
    #[inline]
    pub(super) fn write_around(&self, of: &Recorded<'_>, out: &mut [u8]) -> Option<(Built, u16)> {
        let packet = self.recorded_len(of.data.len());
        if self.crc32c.is_some() || packet.get() < FRAME_MIN as u32 {
            return None;
        }
        let at = self.recorded_at();
        let end = packet.get() as usize - of.data.len();
        let frame = out.get_mut(..end)?;
        let (headers, tail) = frame.split_at_mut_checked(at)?;
        headers.copy_from_slice(self.bytes.get(..at)?);
        tail.fill(0);
        self.fill_in_recorded(of, frame, (packet, end), at..end)?;
        let mut built = self.built(packet);
        built.counted = self.counted_as_data(built.counted, of.data);
        Some((built, at as u16))
    }

    /// Fills in what changes in a packet whose bytes end at `end` of `frame`, and whose `tail` is behind the data.
    #[inline]
    fn fill_in_recorded(
        &self,
        of: &Recorded<'_>,
        frame: &mut [u8],
        packet: (PacketLen, usize),
        tail: Range<usize>,
    ) -> Option<()> {
        let numbers = (of.number, of.sub_flow);
        let sum = |frame: &[u8]| of.sum_with(frame.get(tail.clone()).unwrap_or_default());
        self.fill_in(frame, packet, numbers, Some(of.tag), sum)
    }

    /// The length of the packet with so much replayed data.
    #[inline]
    pub(super) fn recorded_len(&self, data: usize) -> PacketLen {
        let tail = if self.probe.is_some() { probe::LEN } else { 0 };
        PacketLen::new((self.recorded_at() + data + tail) as u32)
    }

    /// Where what is replayed begins.
    #[inline]
    fn recorded_at(&self) -> usize {
        if self.whole.is_some() { 0 } else { self.headers_len.into() }
    }

    /// Where whole frames are replayed: how long one without a VLAN tag can be.
    pub fn whole_max(&self) -> Option<usize> {
        self.whole.map(usize::from)
    }

    /// The most replayed data that a packet has room for, or the longest frame that is replayed.
    pub fn recorded_max(&self) -> usize {
        self.lengths.longest().behind(self.recorded_len(0).get() as u16) as usize
    }

    /// What fragment `part` of a packet with this replayed data is counted as, from 1; 0: all of it.
    pub fn counted_recorded(&self, data: &[u8], part: u16) -> Counted {
        let counted = self.counted_part_of(self.recorded_len(data.len()), part);
        self.counted_as_data(counted, data)
    }

    /// The same with the payload of what is replayed, where that is a whole frame: its headers are its own.
    #[inline]
    fn counted_as_data(&self, counted: Counted, data: &[u8]) -> Counted {
        if self.whole.is_none() {
            return counted;
        }
        let mut padded = [0; FRAME_MIN];
        let payload = match padded.get_mut(..data.len()) {
            Some(begin) => {
                begin.copy_from_slice(data);
                payload_len(&padded)
            }
            None => payload_len(data),
        };
        Counted { payload: u16::try_from(payload).unwrap_or(u16::MAX), ..counted }
    }

    /// Whether checksums cover what is replayed.
    pub fn sums_recorded(&self) -> bool {
        self.sums.iter().any(|sum| sum.payload)
    }
}

impl Recorded<'_> {
    /// The sum of a payload that ends with `tail`.
    #[inline]
    fn sum_with(&self, tail: &[u8]) -> u64 {
        let of = |bytes| Sum::ZERO.add_bytes(bytes).folded();
        let (data, tail) = (self.sum.unwrap_or_else(|| of(self.data)), of(tail));
        // words behind an odd number of bytes are halved (RFC 1071 §2(B))
        let is_odd = self.data.len() % 2 == 1;
        u64::from(data) + u64::from(if is_odd { tail.swap_bytes() } else { tail })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::compile::{Files, Link, Links, compile};
    use crate::scenario::Scenario;

    fn frames(packet: &str, probe: &str) -> Arc<Frames> {
        let text = format!(
            "ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, packet: {packet}, probe: {probe}, replay: {{ archive: \
             x.wbar }} }} }}\n"
        );
        let link = Link { mtu: Some(1500), ..Link::default() };
        let links = Links { ports: [("a".to_owned(), link)].into() };
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let program =
            compile(&scenario, &links, &Files::default()).unwrap_or_else(|error| panic!("{error}"));
        Arc::clone(&program.streams[0].frames)
    }

    proptest! {
        #[test]
        fn what_is_made_around_data_is_the_frame_when_the_data_is_in_it(
            data in prop::collection::vec(any::<u8>(), 0..1400),
            number: u64,
            known: bool,
        ) {
            for packet in [
                "[ { ethernet: { source: '02:00:00:00:00:01', destination: '02:00:00:00:00:02' } }, { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: {} } ]",
                "[ { ethernet: { source: '02:00:00:00:00:01', destination: '02:00:00:00:00:02' } }, { vlan: { id: 5 } }, \
                  { ipv6: { source: '2001:db8::1', destination: '2001:db8::2' } }, { udp: { source: { increment: 5000 } } } ]",
            ] {
                for probe in ["on", "off"] {
                    let image = frames(packet, probe).frame();
                    let sum = known.then(|| Sum::ZERO.add_bytes(&data).folded());
                    let of = Recorded { number, sub_flow: number, tag: 9, data: &data, sum };
                    let (mut whole, mut around) = (vec![0xee; 2000], vec![0xee; 2000]);
                    let built = image.build_recorded(&Recorded { sum: None, ..of }, &mut whole);
                    let Some((same, at)) = image.build_around(&of, &mut around) else {
                        prop_assert!(built.counted.bytes <= 64, "{} bytes", built.counted.bytes);
                        continue;
                    };
                    prop_assert_eq!(same, built);
                    let (at, len) = (usize::from(at), built.len as usize);
                    let gathered =
                        [&around[..at], &data, &around[at..len - data.len()]].concat();
                    prop_assert_eq!(&gathered, &whole[..len]);
                }
            }
        }
    }
}
