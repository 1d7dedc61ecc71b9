//! Packets that are longer than the link carries leave as IP fragments (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! The packet is made whole and then cut: each fragment has the headers up to the outermost network header, and its
//! share of what is behind. The probe lies whole in one fragment. Where that is not the one with the checksum over
//! it, the checksum has left when number and time are known; so the two bytes before the probe are mended in
//! its place, by the same arithmetic, and the checksum that has left is right.
//!
//! A packet has one identification in all its fragments: its number in the flow, counted from a place of the
//! flow's own, so that flows between the same addresses do not share them at one time.

use std::ops::Range;

use wirebeat_units::{BufferLen, FCS, PacketLen};
use wirebeat_wire::checksum::fold;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::{ipv4, ipv6};

use super::frames::{Built, Counted};
use super::image::Image;
use super::recorded::Recorded;

/// Bytes of the fragment header of IPv6.
const FRAGMENT_HEADER: usize = 8;
/// What the last fragment holds at the least: a probe, the two bytes before it, and one for an odd end.
const TAIL: u32 = 24;
/// What any other holds at the least: a link that carries less is none of IP's (RFC 791: 68 bytes).
pub(crate) const LEAST: u32 = 64;

/// How packets are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where the outermost network header begins.
    pub(crate) ip_at: u16,
    /// Where what is cut begins.
    pub(crate) split: u16,
    /// How many bytes the link carries from `ip_at` on.
    pub(crate) room: u16,
    pub(crate) version: CutVersion,
    /// The identification of the flow's first packet.
    pub(crate) first: u32,
}

/// What the versions of IP write differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutVersion {
    V4 {
        /// Whether the identification is left to us.
        number: bool,
        /// Whether the header has a checksum that is to follow what changes.
        mend: bool,
    },
    V6 {
        /// Where the number of the first header behind `split` lies.
        next_at: u16,
    },
}

impl Cut {
    /// Bytes that every fragment has more than the packet.
    fn added(&self) -> u32 {
        match self.version {
            CutVersion::V4 { .. } => 0,
            CutVersion::V6 { .. } => FRAGMENT_HEADER as u32,
        }
    }

    /// The most data in a fragment that is the last.
    fn capacity(&self) -> u32 {
        let head = u32::from(self.split) - u32::from(self.ip_at) + self.added();
        u32::from(self.room).saturating_sub(head)
    }

    /// The data in all others: offsets count by eight.
    pub(crate) fn stride(&self) -> u32 {
        self.capacity() & !7
    }

    /// The longest frame, without FCS.
    pub(crate) fn longest(&self) -> u16 {
        self.ip_at.saturating_add(self.room)
    }

    /// How many frames a packet is.
    #[inline]
    pub(crate) fn parts(&self, packet: PacketLen) -> u32 {
        if packet.get() <= u32::from(self.ip_at) + u32::from(self.room) {
            return 1;
        }
        let data = packet.behind(self.split);
        1 + (data - self.capacity()).div_ceil(self.stride().max(1))
    }

    /// The shortest packet longer than `packet` that is one frame more.
    pub(crate) fn next_step(&self, packet: PacketLen) -> PacketLen {
        let whole = u32::from(self.ip_at) + u32::from(self.room);
        PacketLen::new(match self.parts(packet) {
            1 => whole + 1,
            parts => u32::from(self.split) + self.capacity() + (parts - 1) * self.stride() + 1,
        })
    }

    /// Which of the data the frame `part` has, from `split` on.
    fn data(&self, packet: PacketLen, part: u32, parts: u32) -> Range<u32> {
        let all = packet.behind(self.split);
        let begin = |part: u32| match part * self.stride() {
            // the last is long enough for a probe
            begin if part + 1 == parts && all.saturating_sub(begin) < TAIL => begin - TAIL,
            begin => begin,
        };
        begin(part)..if part + 1 == parts { all } else { begin(part + 1) }
    }

    /// What a packet is counted as in all.
    pub(crate) fn counted(&self, packet: PacketLen, payload: u16) -> Counted {
        let parts = self.parts(packet);
        let head = u32::from(self.split) + self.added();
        let last = PacketLen::new(head + self.data(packet, parts - 1, parts).len() as u32);
        let padding = last.buffer().get() - last.get();
        let bytes = packet.behind(self.split) + parts * (head + u32::from(FCS)) + padding;
        Counted { bytes, payload, packets: 1, fragments: parts as u16 - 1 }
    }

    /// The frame with so much of the data.
    fn frame(&self, data: &Range<u32>) -> BufferLen {
        PacketLen::new(u32::from(self.split) + self.added() + data.len() as u32).buffer()
    }

    /// What the frame `part` is counted as: the one with the probe is the packet.
    pub(crate) fn counted_part(
        &self,
        packet: PacketLen,
        part: u32,
        probe_at: Option<u16>,
        payload: u16,
    ) -> Counted {
        let data = self.data(packet, part, self.parts(packet));
        let split = u32::from(self.split);
        let here = split + data.start..split + data.end;
        let begin = here.start.max(packet.behind(payload));
        let is_packet = match probe_at {
            Some(at) => here.contains(&at.into()),
            None => part == 0,
        };
        let packets = u16::from(is_packet);
        Counted {
            bytes: self.frame(&data).with_fcs(),
            payload: here.end.saturating_sub(begin) as u16,
            packets,
            fragments: 1 - packets,
        }
    }

    /// Writes the frame `part` of `parts` of the packet `whole`, number `n` of its flow, at the beginning of `out`.
    fn write(
        &self,
        (whole, made): (&[u8], &Built),
        (n, part, parts): (u64, u32, u32),
        out: &mut [u8],
    ) -> Option<Built> {
        let (ip, split) = (usize::from(self.ip_at), usize::from(self.split));
        let data = self.data(PacketLen::new(whole.len() as u32), part, parts);
        let head = split + self.added() as usize;
        let packet = head + data.len();
        let len = self.frame(&data).get() as usize;
        let frame = out.get_mut(..len)?;
        let from = split + data.start as usize;
        frame.get_mut(..split)?.copy_from_slice(whole.get(..split)?);
        frame.get_mut(head..packet)?.copy_from_slice(whole.get(from..from + data.len())?);
        frame.get_mut(packet..)?.fill(0);
        let number = self.first.wrapping_add(n as u32);
        let place = (data.start as u16 & !7) | u16::from(part + 1 < parts);
        match self.version {
            CutVersion::V4 { number: ours, mend } => {
                let header = frame.get_mut(ip..split)?;
                if part > 0 {
                    blank_options(header.get_mut(ipv4::LEN..)?);
                }
                let length = (packet - ip) as u16;
                // Flags and offset are one word: the offset counts by eight, more fragments is the third bit.
                let word = (place & 1) << 13 | place >> 3;
                let identification = ours.then_some(number as u16);
                write_v4(
                    header,
                    whole.get(ip..split)?,
                    [Some(length), identification, Some(word)],
                    mend,
                )?;
            }
            CutVersion::V6 { next_at } => {
                let length = (packet - ip - ipv6::LEN) as u16;
                *frame.get_mut(ip + 4..)?.first_chunk_mut()? = length.to_be_bytes();
                let next =
                    std::mem::replace(frame.get_mut(usize::from(next_at))?, Protocol::FRAGMENT.0);
                let header: &mut [u8; FRAGMENT_HEADER] =
                    frame.get_mut(split..)?.first_chunk_mut()?;
                header[..2].copy_from_slice(&[next, 0]);
                header[2..4].copy_from_slice(&place.to_be_bytes());
                header[4..].copy_from_slice(&number.to_be_bytes());
            }
        }
        Some(self.built(made, PacketLen::new(whole.len() as u32), len, part, &data))
    }

    /// What goes with a fragment, by what goes with the whole packet.
    fn built(
        &self,
        made: &Built,
        whole: PacketLen,
        len: usize,
        part: u32,
        data: &Range<u32>,
    ) -> Built {
        let split = u32::from(self.split);
        // Where a byte of the packet is in this frame.
        let here = |at: u16| {
            let at = u32::from(at).checked_sub(split)?.checked_sub(data.start)?;
            (at < data.end - data.start).then_some((split + self.added() + at) as u16)
        };
        let mut stamp = made.stamp;
        stamp.identification_at = 0;
        let probe_at = made.probe_at.and_then(here);
        stamp.probe_at = probe_at.unwrap_or(0);
        // It is mended with the probe, and lies in the same frame.
        stamp.checksum_at = probe_at.and(here(made.stamp.checksum_at)).unwrap_or(0);
        let counted = self.counted_part(whole, part, made.probe_at, made.counted.payload);
        Built { len: len as u32, counted, stamp, probe_at, number: None }
    }
}

/// Writes length, identification, and flags with offset, each a word, and mends the checksum for what they were
/// (RFC 1624, equation 3).
fn write_v4(header: &mut [u8], before: &[u8], words: [Option<u16>; 3], mend: bool) -> Option<()> {
    for (word, at) in words.into_iter().zip([2, 4, 6]) {
        if let Some(word) = word {
            // The reserved bit stays as it is; a packet that may be cut has no other flag.
            let kept = if at == 6 { u16::from(*before.get(6)?) << 8 & 0x8000 } else { 0 };
            *header.get_mut(at..)?.first_chunk_mut()? = (word | kept).to_be_bytes();
        }
    }
    if mend {
        let sum = |bytes: &[u8], flip: u16| -> u64 {
            let (words, _) = bytes.as_chunks::<2>();
            let beside = |(at, _): &(usize, _)| *at != 5;
            let words = words.iter().enumerate().filter(beside);
            words.map(|(_, word)| u64::from(u16::from_be_bytes(*word) ^ flip)).sum()
        };
        let old = u16::from_be_bytes(*before.get(10..)?.first_chunk()?);
        let total = u64::from(!old) + sum(before, 0xffff) + sum(header, 0);
        *header.get_mut(10..)?.first_chunk_mut()? = (!fold(total)).to_be_bytes();
    }
    Some(())
}

/// Options that are not copied into every fragment become such that do nothing (RFC 791 §3.1).
fn blank_options(options: &mut [u8]) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            END => return,
            NOTHING => 1,
            _ => usize::from(options.get(at + 1).copied().unwrap_or(0)).max(2),
        };
        if kind & COPIED == 0 {
            let end = options.len().min(at + len);
            options[at..end].fill(NOTHING);
        }
        at += len;
    }
}

/// Cuts packets, and holds the one that is being cut.
#[derive(Debug, Default)]
pub struct Cutter {
    whole: Vec<u8>,
    held: Option<Held>,
}

/// The packet in [`Cutter::whole`].
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Its stream, and its number there.
    packet: (u32, u64),
    made: Built,
    len: usize,
    parts: u32,
}

impl Cutter {
    /// Makes a frame of `image` at the beginning of `out`, of the packet with this stream, whose image it is, and number:
    /// fragment `part`, from 1, or the packet as it is where that is 0. Its length is 0 when `out` is too short for it.
    pub fn build(&mut self, image: &Image, packet: (u32, u64), part: u16, out: &mut [u8]) -> Built {
        let n = packet.1;
        let (Some(cut), Some(part)) = (image.cut(), part.checked_sub(1)) else {
            return image.build(n, out);
        };
        let make = |whole: &mut [u8]| {
            let made = image.build(n, whole);
            Held { packet, made, len: image.packet_len(n), parts: image.parts(n).into() }
        };
        self.cut(image, cut, part, packet, make, out)
    }

    /// The same of what is replayed.
    pub fn build_recorded(
        &mut self,
        image: &Image,
        (stream, recorded): (u32, &Recorded<'_>),
        part: u16,
        out: &mut [u8],
    ) -> Built {
        let (Some(cut), Some(part)) = (image.cut(), part.checked_sub(1)) else {
            return image.build_recorded(recorded, out);
        };
        let (packet, data) = ((stream, recorded.number), recorded.data.len());
        let make = |whole: &mut [u8]| {
            let made = image.build_recorded(recorded, whole);
            let parts = image.recorded_parts(data).into();
            Held { packet, made, len: image.recorded_len(data), parts }
        };
        self.cut(image, cut, part, packet, make, out)
    }

    /// Makes a fragment of a packet, which `make` makes where it is not held.
    fn cut(
        &mut self,
        image: &Image,
        cut: Cut,
        part: u16,
        packet: (u32, u64),
        make: impl FnOnce(&mut [u8]) -> Held,
        out: &mut [u8],
    ) -> Built {
        let held = match self.held {
            Some(held) if held.packet == packet => held,
            _ => {
                self.whole.resize(image.longest_packet(), 0);
                *self.held.insert(make(&mut self.whole))
            }
        };
        let Some(whole) = self.whole.get(..held.len) else { return Built::default() };
        let place = (packet.1, part.into(), held.parts);
        cut.write((whole, &held.made), place, out).unwrap_or_default()
    }
}
