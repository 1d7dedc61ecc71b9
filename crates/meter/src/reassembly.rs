//! Puts fragments together, so that packets longer than the link carries are measured whole.
//!
//! Bounded whatever arrives: so many packets are open at a time, none for longer than [`PATIENCE`], and what does
//! not fit together is dropped. No memory is taken for each packet: buffers are used again.

use std::collections::HashMap;

use wirebeat_units::Nanos;
use wirebeat_wire::checksum::Sum;
use wirebeat_wire::datagram::Datagram;
use wirebeat_wire::fragment::{Fragment, Packet, Shape};
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::udp;

/// Packets that are open at a time; when there is one more, the oldest is given up. Each takes 65 KiB at the most.
const OPEN: usize = 256;
/// How long the fragments of a packet are waited for. RFC 791 §3.2 has 15 s, in which identifications of 16 bits are
/// used again at 4,400 packets a second already, and packets are put together that do not belong together
/// (RFC 4963); no network holds up the end of a packet for a second.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// The most data behind the headers (RFC 791 §3.1, RFC 8200 §3).
const DATA: usize = 65_535;
/// Data is counted in units of 8 bytes.
const UNIT: usize = 8;

/// A packet that was put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<'a> {
    /// It as if it had come in one frame, from the Ethernet header on.
    pub frame: &'a [u8],
    /// Bytes of its frames with FCS.
    pub frame_len: u32,
    /// How many they were.
    pub frames: u32,
}

/// Packets of which fragments have arrived.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    open: HashMap<Packet, Partial>,
    spare: Vec<Partial>,
    /// When packets were last given up for their age.
    swept: Nanos,
    /// Fragments that made no packet and never will.
    dropped: u64,
    /// The last packet that was put together.
    whole: Partial,
}

/// A packet with gaps.
#[derive(Clone, Debug, Default)]
struct Partial {
    since: Nanos,
    /// The frame up to the data, of the first fragment.
    head: Vec<u8>,
    data: Vec<u8>,
    /// Which units of the data have arrived, a bit each.
    seen: Vec<u64>,
    units: usize,
    /// How long the data is, once that is known.
    len: Option<usize>,
    shape: Shape,
    frame_len: u32,
    frames: u32,
}

/// What became of a fragment.
enum Added {
    Open,
    /// It was there already.
    Twice,
    Complete,
    /// It contradicts those before it (RFC 5722: the packet is then dropped).
    Contradicts,
}

impl Reassembly {
    /// Takes a fragment that arrived at `at` in a frame of `frame_len` bytes; returns the packet that it completes.
    pub fn add(&mut self, at: Nanos, fragment: &Fragment<'_>, frame_len: u32) -> Option<Whole<'_>> {
        self.make_room(at, &fragment.packet);
        let spare = &mut self.spare;
        let partial = self.open.entry(fragment.packet).or_insert_with(|| {
            let mut partial = spare.pop().unwrap_or_default();
            partial.begin(at);
            partial
        });
        match partial.add(fragment, frame_len) {
            Added::Open => return None,
            Added::Twice => {
                self.dropped += 1;
                return None;
            }
            Added::Contradicts => {
                self.dropped += 1;
                self.give_up(&fragment.packet);
                return None;
            }
            Added::Complete => {}
        }
        let complete = self.open.remove(&fragment.packet)?;
        let before = std::mem::replace(&mut self.whole, complete);
        self.spare.push(before);
        let whole = &mut self.whole;
        let frames = whole.frames;
        whole.head.extend_from_slice(&whole.data);
        if !belongs_together(&whole.head) {
            self.dropped += u64::from(frames);
            return None;
        }
        Some(Whole { frame: &whole.head, frame_len: whole.frame_len, frames })
    }

    /// A fragment that was taken before, by a reassembly that did not tell whether it would make a packet.
    pub fn note_fragment(&mut self) {
        self.dropped += 1;
    }

    /// So many of these made one.
    pub fn note_packet(&mut self, fragments: u32) {
        self.dropped = self.dropped.saturating_sub(fragments.into());
    }

    /// Fragments that made no packet, as far as it has come.
    pub fn unused(&self) -> u64 {
        self.dropped + self.open.values().map(|partial| u64::from(partial.frames)).sum::<u64>()
    }

    /// Gives up what is too old, or the oldest where there is no room for another.
    fn make_room(&mut self, at: Nanos, packet: &Packet) {
        if at.saturating_sub(self.swept) >= PATIENCE {
            self.swept = at;
            self.give_up_before(at);
        }
        if self.open.get(packet).is_some_and(|partial| partial.is_old(at)) {
            self.give_up(packet);
        }
        if self.open.len() >= OPEN && !self.open.contains_key(packet) {
            let oldest = self.open.iter().min_by_key(|(_, partial)| partial.since);
            if let Some(oldest) = oldest.map(|(packet, _)| *packet) {
                self.give_up(&oldest);
            }
        }
    }

    fn give_up_before(&mut self, at: Nanos) {
        while let Some(old) =
            self.open.iter().find(|(_, partial)| partial.is_old(at)).map(|(packet, _)| *packet)
        {
            self.give_up(&old);
        }
    }

    fn give_up(&mut self, packet: &Packet) {
        if let Some(partial) = self.open.remove(packet) {
            self.dropped += u64::from(partial.frames);
            self.spare.push(partial);
        }
    }
}

impl Partial {
    fn begin(&mut self, at: Nanos) {
        self.head.clear();
        self.data.clear();
        self.seen.clear();
        (self.units, self.len, self.frame_len, self.frames) = (0, None, 0, 0);
        self.since = at;
    }

    fn is_old(&self, at: Nanos) -> bool {
        at.saturating_sub(self.since) >= PATIENCE
    }

    fn add(&mut self, fragment: &Fragment<'_>, frame_len: u32) -> Added {
        let end = fragment.offset + fragment.data.len();
        let fits = if fragment.more {
            fragment.data.len().is_multiple_of(UNIT)
                && !fragment.data.is_empty()
                && self.len.is_none_or(|len| end < len)
        } else {
            self.len.is_none_or(|len| end == len) && end >= self.data.len()
        };
        if !fits || end > DATA {
            return Added::Contradicts;
        }
        let units = fragment.offset / UNIT..end.div_ceil(UNIT);
        match self.mark(units.clone()) {
            0 => {}
            seen if seen == units.len() => return Added::Twice,
            _ => return Added::Contradicts,
        }
        self.frames += 1;
        self.frame_len = self.frame_len.saturating_add(frame_len);
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        if let Some(place) = self.data.get_mut(fragment.offset..end) {
            place.copy_from_slice(fragment.data);
        }
        if !fragment.more {
            self.len = Some(end);
        }
        if fragment.offset == 0 {
            self.head.extend_from_slice(fragment.head);
            self.shape = fragment.shape;
        }
        match self.len {
            Some(len) if self.units == len.div_ceil(UNIT) => {
                match self.shape.make_whole(&mut self.head, len) {
                    Some(()) => Added::Complete,
                    None => Added::Contradicts,
                }
            }
            _ => Added::Open,
        }
    }

    /// Marks units as seen; returns how many of them were.
    fn mark(&mut self, units: std::ops::Range<usize>) -> usize {
        if self.seen.len() * 64 < units.end {
            self.seen.resize(units.end.div_ceil(64), 0);
        }
        let seen = &mut self.seen;
        let before = units.clone().filter(|unit| seen[unit / 64] >> (unit % 64) & 1 == 1).count();
        if before == 0 {
            units.clone().for_each(|unit| seen[unit / 64] |= 1 << (unit % 64));
            self.units += units.len();
        }
        before
    }
}

/// Whether the UDP checksum over a packet is right, where it has one: fragments of two packets with one
/// identification make none.
fn belongs_together(frame: &[u8]) -> bool {
    let Ok(datagram) = Datagram::parse(frame) else { return true };
    let at = datagram.payload_at.saturating_sub(udp::LEN);
    let Some(bytes) = frame.get(at..datagram.payload_at + datagram.payload.len()) else {
        return true;
    };
    let len = bytes.len() as u32;
    let pseudo = Sum::pseudo(datagram.source, datagram.destination, Protocol::UDP, len);
    let unused = bytes.get(udp::CHECKSUM..udp::LEN) == Some(&[0, 0]);
    unused || pseudo.is_none_or(|sum| sum.add_bytes(bytes).checksum() == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = 4000;

    /// Fragments with so many bytes of data each, of a datagram without checksum.
    fn fragments(identification: u16, each: usize) -> Vec<Vec<u8>> {
        let mut data: Vec<u8> = (0..LEN).map(|at| (at / 7) as u8).collect();
        data[..8].copy_from_slice(&[0, 1, 0, 2, (LEN >> 8) as u8, LEN as u8, 0, 0]);
        let count = data.len().div_ceil(each);
        let make = |(number, data): (usize, &[u8])| {
            let place = (number * each / 8) as u16 | if number + 1 < count { 0x2000 } else { 0 };
            let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            header[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
            header[4..6].copy_from_slice(&identification.to_be_bytes());
            header[6..8].copy_from_slice(&place.to_be_bytes());
            [&[0; 12][..], &[8, 0], &header, data].concat()
        };
        data.chunks(each).enumerate().map(make).collect()
    }

    fn add(to: &mut Reassembly, at: u64, frame: &[u8]) -> Option<(usize, u32, u32)> {
        let fragment = Fragment::parse(frame).unwrap();
        let whole = to.add(Nanos::from_millis(at), &fragment, frame.len() as u32 + 4)?;
        let datagram = Datagram::parse(whole.frame).unwrap();
        let expected = (8..LEN).map(|at| (at / 7) as u8);
        assert!(datagram.payload.iter().copied().eq(expected));
        Some((datagram.payload.len(), whole.frame_len, whole.frames))
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut reassembly = Reassembly::default();
            let frames = fragments(7, 1480);
            let made: Vec<_> =
                order.iter().map(|&one| add(&mut reassembly, 1, &frames[one])).collect();
            assert_eq!(made, [None, None, Some((LEN - 8, LEN as u32 + 3 * 38, 3))]);
            assert_eq!(reassembly.unused(), 0);
        }
    }

    #[test]
    fn packets_do_not_mix_and_one_fragment_twice_is_one() {
        let mut reassembly = Reassembly::default();
        let (a, b) = (fragments(1, 2000), fragments(2, 2000));
        for frame in [&a[0], &b[0], &a[0], &b[0]] {
            assert_eq!(add(&mut reassembly, 1, frame), None);
        }
        assert_eq!(reassembly.unused(), 4);
        assert!(
            add(&mut reassembly, 2, &a[1]).is_some() && add(&mut reassembly, 2, &b[1]).is_some()
        );
        assert_eq!(reassembly.unused(), 2);
    }

    #[test]
    fn what_contradicts_itself_is_dropped() {
        let mut reassembly = Reassembly::default();
        let (thirds, halves) = (fragments(1, 1480), fragments(1, 2000));
        add(&mut reassembly, 1, &thirds[0]);
        assert_eq!(add(&mut reassembly, 1, &halves[0]), None);
        assert_eq!((reassembly.unused(), reassembly.open.len()), (2, 0));
        // a wrong checksum: parts of two packets
        let mut frames = fragments(1, 2000);
        frames[0][34 + 6] = 1;
        assert_eq!(add(&mut reassembly, 1, &frames[0]), None);
        assert_eq!((add(&mut reassembly, 1, &frames[1]), reassembly.unused()), (None, 4));
    }

    #[test]
    fn what_is_old_or_too_many_is_given_up() {
        let mut reassembly = Reassembly::default();
        let frames = fragments(1, 2000);
        add(&mut reassembly, 0, &frames[0]);
        assert_eq!(add(&mut reassembly, 1001, &frames[1]), None);
        assert_eq!((reassembly.open.len(), reassembly.unused()), (1, 2));
        for number in 0..1000 {
            add(&mut reassembly, 1002, &fragments(number, 2000)[0]);
        }
        assert!(reassembly.open.len() <= OPEN);
        assert_eq!(reassembly.unused(), 1000, "the rest of the first packet found a beginning");
        assert!(add(&mut reassembly, 1002, &fragments(999, 2000)[1]).is_some());
    }

    proptest! {
        #[test]
        fn any_fragments_are_survived_within_bounds(
            frames in prop::collection::vec((0..3_u16, any::<u16>(), 0..200_usize), 0..400),
        ) {
            let mut reassembly = Reassembly::default();
            for (at, (identification, place, len)) in frames.into_iter().enumerate() {
                let mut frame = fragments(identification, 2000).swap_remove(0);
                frame.truncate(34 + len);
                frame[16..18].copy_from_slice(&(20 + len as u16).to_be_bytes());
                frame[20..22].copy_from_slice(&(place & 0x3fff).to_be_bytes());
                if let Some(fragment) = Fragment::parse(&frame) {
                    reassembly.add(Nanos::from_millis(at as u64), &fragment, 64);
                }
            }
            prop_assert!(reassembly.open.len() <= 3);
        }
    }
}
