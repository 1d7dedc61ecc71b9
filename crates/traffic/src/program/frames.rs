//! How the frames of a flow are made: everything that stays the same, and how the rest follows from the
//! frame's number.
//!
//! A frame that does not change is copied. Any other is copied as it is with every changing field zero;
//! then its length, its fields and their share of each checksum are filled in. Checksums are never
//! summed anew: what a field adds to them is known from its value (RFC 1071 §2). Sequence number and time come
//! last, when the frame leaves ([`Built::stamp`]), because they are known last.
//!
//! Numbers of frames count over all transmit cores, so any core makes any frame. Nothing is allocated.

use wirebeat_units::{FrameLen, PacketLen};
use wirebeat_wire::carrier::payload_len;
use wirebeat_wire::checksum::fold;
use wirebeat_wire::codec::{Codec, Marks, Moment};
use wirebeat_wire::ethernet::{self, FRAME_MIN};
use wirebeat_wire::probe;
use wirebeat_wire::stamp::Stamp;

use super::cut::Cut;
use super::lengths::Lengths;
use crate::values::sub_flows::SubFlowOrder;
use crate::values::{Per, Values, common_multiple};

/// The most checksums of a frame that follow from changing fields.
pub(crate) const MAX_SUMS: usize = 8;

/// The frames of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// The longest frame without FCS. Changing fields, sequence and time are zero; checksums are as
    /// [`Stamp`] wants them where nothing changes, and zero where they follow from what does.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of all headers.
    pub(crate) headers_len: u16,
    /// How long packets are, without padding.
    pub(crate) lengths: Lengths,
    /// Lengths that are written into headers, where packets are not all equally long.
    pub(crate) length_fields: Vec<LengthField>,
    /// Fields that change.
    pub(crate) patches: Vec<Patch>,
    /// Checksums that follow from them, from the innermost on.
    pub(crate) sums: Vec<SumField>,
    /// Sums of the first 0, 1, 2 … 16-bit words of the payload; empty where it is zeros, or where all
    /// packets are equally long.
    pub(crate) payload_sums: Vec<u16>,
    /// A CRC32c, if there is one.
    pub(crate) crc32c: Option<Crc>,
    /// Which sub-flow a frame belongs to.
    pub(crate) sub_flows: Option<SubFlowOrder>,
    /// The probe, if frames carry one.
    pub(crate) probe: Option<ProbeField>,
    /// Where the checksum over the probe lies; 0: nowhere.
    pub(crate) checksum_at: u16,
    /// Where the identification lies that counts frames; 0: nowhere.
    pub(crate) identification_at: u16,
    /// How those are cut that are longer than the link carries, where there are any.
    pub(crate) cut: Option<Cut>,
    /// Where what is replayed is whole frames: the longest that one without a VLAN tag can be.
    pub(crate) whole: Option<u16>,
    /// What of them is counted as payload.
    pub(crate) payload: Payload,
}

/// What of a frame is counted as payload, at the sender as at a receiver ([`wirebeat_wire::carrier::payload_len`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// What of the packet follows its first bytes, so many, without padding.
    Behind(u16),
    /// What of the frame follows them: no header says what of it is padding.
    Padded(u16),
    /// A number of bytes.
    Fixed(u16),
}

/// What a frame is counted as. By default it is a packet without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Bytes with FCS, of all frames together.
    pub bytes: u32,
    /// Bytes of payload.
    pub payload: u16,
    /// 1; of the fragments of a packet, one counts as the packet.
    pub packets: u16,
    /// Frames beside: the other fragments.
    pub fragments: u16,
}

impl Default for Counted {
    fn default() -> Self {
        Counted { bytes: 0, payload: 0, packets: 1, fragments: 0 }
    }
}

impl Counted {
    /// A frame that is a packet.
    pub fn frame(length: FrameLen, payload: u16) -> Counted {
        Counted { bytes: length.get().into(), payload, packets: 1, fragments: 0 }
    }
}

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeField {
    pub(crate) codec: Codec,
    pub(crate) marks: Marks,
    pub(crate) first: u8,
    /// Wirebeat's own, at the end of the payload: with which number of the flow it is written where the end
    /// is not always the same.
    pub(crate) tail: Option<u16>,
}

/// A length in a header, or in the probe: 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LengthField {
    pub(crate) at: u16,
    /// From where to the end of the packet it counts.
    pub(crate) from: u16,
    /// Which of the sums cover it, a bit each.
    pub(crate) covered: u8,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    /// The bytes it lies in.
    pub(crate) at: u16,
    pub(crate) len: u8,
    /// Bits behind it in the last of these bytes.
    pub(crate) shift: u8,
    pub(crate) covered: u8,
    pub(crate) per: Per,
    pub(crate) values: Values,
}

/// A checksum that follows from what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SumField {
    pub(crate) at: u16,
    /// The folded sum of all it covers that does not change.
    pub(crate) base: u16,
    /// Where packets are not all equally long: from where to the end the length in its pseudo header counts.
    pub(crate) pseudo_from: Option<u16>,
    /// Where packets are not all equally long: whether it covers the payload.
    pub(crate) payload: bool,
    /// Zero means that there is none, and is sent as all ones.
    pub(crate) zero_is_none: bool,
    /// It is to be one more than it should be.
    pub(crate) one_more: bool,
    /// Which of the other sums cover it.
    pub(crate) covered: u8,
}

/// A CRC32c over the end of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc {
    pub(crate) at: u16,
    /// From where to the end of the packet.
    pub(crate) from: u16,
    /// It is to be one more than it should be.
    pub(crate) one_more: bool,
    /// Which of the sums cover it.
    pub(crate) covered: u8,
}

/// A frame or datagram that was made, and what is still to be written into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Its bytes; 0 when there was no room for it.
    pub len: u32,
    /// What it is counted as, whether or not its headers are among these bytes.
    pub counted: Counted,
    /// Where checksums, identification and probe lie, for ports that stamp by themselves. Without offsets
    /// for datagrams, whose probe may lie at offset 0.
    pub stamp: Stamp,
    /// Where the probe lies.
    pub probe_at: Option<u16>,
    /// The sequence number that it is to carry, where that does not follow from the order in which frames leave.
    pub number: Option<u32>,
}

impl Built {
    /// Writes the mark of a flow's last packet instead of its number, where the probe's format has one; says
    /// whether it has.
    pub fn stamp_last(&self, codec: Codec, out: &mut [u8], sequence: u32, now: Moment) -> bool {
        let number = u64::from(sequence) + u64::from(self.stamp.first);
        let Some(last) = codec.last(number) else { return false };
        if self.stamp.probe_at != 0 {
            self.stamp.write_number(out, last, now);
        } else if let Some(probe) = self.probe_at.and_then(|at| out.get_mut(usize::from(at)..)) {
            self.stamp.marks.write(probe, last, now.on(self.stamp.marks.time));
        }
        true
    }

    /// Writes sequence number and transmit time into what was built, and mends what depends on them.
    /// Once per build.
    #[inline]
    pub fn stamp(&self, out: &mut [u8], sequence: u32, now: Moment) {
        if self.stamp.probe_at != 0 || self.stamp.identification_at != 0 {
            self.stamp.write(out, sequence, now);
        } else if let Some(probe) = self.probe_at.and_then(|at| out.get_mut(usize::from(at)..)) {
            let number = u64::from(sequence) + u64::from(self.stamp.first);
            let marks = self.stamp.marks;
            marks.write(probe, number, now.on(marks.time));
        }
    }
}

impl Frames {
    /// Frames that are all these bytes, from the Ethernet header on and without FCS; a short one is padded.
    /// Nothing is stamped.
    pub fn constant(mut bytes: Vec<u8>) -> Frames {
        let packet = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        bytes.resize(bytes.len().max(FRAME_MIN), 0);
        let payload = u16::try_from(payload_len(&bytes)).unwrap_or(u16::MAX);
        Frames {
            payload: Payload::Fixed(payload),
            bytes,
            headers_len: ethernet::LEN as u16,
            lengths: Lengths::Fixed(PacketLen::new(packet.into())),
            length_fields: Vec::new(),
            patches: Vec::new(),
            sums: Vec::new(),
            payload_sums: Vec::new(),
            crc32c: None,
            sub_flows: None,
            probe: None,
            checksum_at: 0,
            identification_at: 0,
            cut: None,
            whole: None,
        }
    }

    /// Whether nothing changes from frame to frame but what is stamped.
    pub fn is_constant(&self) -> bool {
        self.lengths.fixed().is_some() && self.patches.is_empty() && self.cut.is_none()
    }

    /// After how many frames their bytes repeat, but for what is stamped; `None` if they do not.
    pub fn period(&self) -> Option<u64> {
        if self.cut.is_some() {
            // Each packet has an identification of its own.
            return None;
        }
        let of = |patch: &Patch| match (patch.per, &self.sub_flows) {
            (Per::SubFlow, Some(order)) => order.period(patch.values.period()?),
            _ => patch.values.period(),
        };
        let mut period = self.lengths.period()?;
        for patch in &self.patches {
            let other = of(patch)?;
            period = common_multiple(period, other)?;
        }
        Some(period)
    }

    /// How many sub-flows differ from each other, before what they are told apart by begins again; `None` where that is
    /// random, or does not repeat.
    pub fn sub_flow_period(&self) -> Option<u64> {
        let mut advancing = self.patches.iter().filter(|patch| patch.per == Per::SubFlow);
        advancing.try_fold(1, |all, patch| common_multiple(all, patch.values.period()?))
    }

    /// The length of the longest frame, with FCS.
    pub fn longest(&self) -> FrameLen {
        FrameLen::without_fcs(self.longest_frame())
    }

    /// The same without FCS.
    pub(super) fn longest_frame(&self) -> u16 {
        let packet = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        self.cut.map_or(packet, |cut| packet.min(cut.longest()))
    }

    /// Whether some packets are longer than the link carries, and leave as fragments.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Bytes of the longest packet before it is cut, without FCS.
    pub fn longest_packet(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of all headers.
    pub fn headers_len(&self) -> u16 {
        self.headers_len
    }

    /// Whose probe they carry, if they carry one, and the number of the flow in it, where that probe has one.
    pub(crate) fn probe_number(&self) -> Option<(Codec, Option<u32>)> {
        self.probe.map(|probe| {
            let bytes = &self.bytes[usize::from(self.headers_len).min(self.bytes.len())..];
            (probe.codec, probe.codec.read(bytes).and_then(|seen| seen.flow))
        })
    }

    /// Whether all packets are equally long, so that all are counted as the same.
    pub fn are_alike(&self) -> bool {
        matches!(self.lengths, Lengths::Fixed(_))
    }

    /// What packet `n` is counted as.
    pub fn counted(&self, n: u64) -> Counted {
        self.counted_as(self.lengths.length(n))
    }

    /// What a packet of this length is counted as.
    #[inline]
    pub(crate) fn counted_as(&self, packet: PacketLen) -> Counted {
        let payload = match self.payload {
            Payload::Behind(headers) => packet.behind(headers) as u16,
            Payload::Padded(headers) => packet.buffer().get().saturating_sub(headers.into()) as u16,
            Payload::Fixed(payload) => payload,
        };
        match self.cut {
            Some(cut) if cut.parts(packet) > 1 => cut.counted(packet, payload),
            _ => {
                let bytes = packet.buffer().with_fcs();
                Counted { bytes, payload, packets: 1, fragments: 0 }
            }
        }
    }

    /// What fragment `part` of packet `n` is counted as, from 1; 0: all of it.
    pub fn counted_part(&self, n: u64, part: u16) -> Counted {
        self.counted_part_of(self.lengths.length(n), part)
    }

    pub(super) fn counted_part_of(&self, packet: PacketLen, part: u16) -> Counted {
        let whole = self.counted_as(packet);
        match (self.cut, part.checked_sub(1)) {
            (Some(cut), Some(part)) => {
                let probe = self.probe.map(|probe| self.probe_at(probe, packet));
                cut.counted_part(packet, part.into(), probe, whole.payload)
            }
            _ => whole,
        }
    }

    /// The shortest packet longer than `packet` that is one frame more.
    pub(crate) fn next_step(&self, packet: PacketLen) -> Option<PacketLen> {
        self.cut.map(|cut| cut.next_step(packet))
    }

    /// How many frames packet `n` is.
    pub fn parts(&self, n: u64) -> u16 {
        self.cut.map_or(1, |cut| cut.parts(self.lengths.length(n)) as u16)
    }

    /// How long packets are.
    pub fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// Whose probe they carry, if they carry one.
    pub fn codec(&self) -> Option<Codec> {
        self.probe.map(|probe| probe.codec)
    }

    /// What goes with the frame of a packet of this length.
    #[inline]
    pub(super) fn built(&self, packet: PacketLen) -> Built {
        let len = packet.buffer().get();
        let counted = self.counted_as(packet);
        let mut stamp = Stamp { identification_at: self.identification_at, ..Stamp::default() };
        let Some(probe) = self.probe else {
            return Built { len, counted, stamp, probe_at: None, number: None };
        };
        let probe_at = self.probe_at(probe, packet);
        stamp.probe_at = probe_at;
        stamp.checksum_at = match (counted.fragments, probe.tail, self.checksum_at) {
            // The checksum leaves before the probe: the two bytes before the probe are mended in its place.
            (1.., Some(_), 1..) => probe_at.saturating_sub(2),
            (_, _, at) => at,
        };
        (stamp.marks, stamp.first) = (probe.marks, probe.first);
        Built { len, counted, stamp, probe_at: Some(probe_at), number: None }
    }

    /// Where the probe of a packet begins.
    #[inline]
    pub(super) fn probe_at(&self, probe: ProbeField, packet: PacketLen) -> u16 {
        match probe.tail {
            // No packet is so long that this is more than 16 bits (`compile::frame::PACKET_MAX`).
            Some(_) => packet.behind(probe::LEN as u16) as u16,
            None => self.headers_len,
        }
    }

    /// Makes frame `n` in `out`; `None` when `out` is too short for it.
    pub(crate) fn write(&self, n: u64, out: &mut [u8]) -> Option<Built> {
        let packet = self.lengths.length(n);
        let built = self.built(packet);
        let frame = out.get_mut(..built.len as usize)?;
        let end = packet.get() as usize;
        let (content, padding) = frame.split_at_mut(end);
        content.copy_from_slice(self.bytes.get(..end)?);
        padding.fill(0);
        let sub_flow = self.sub_flows.as_ref().map_or(n, |order| order.number(n));
        let sum = |frame: &[u8]| self.payload_sum(frame, packet);
        self.fill_in(frame, (packet, end), (n, sub_flow), None, sum)?;
        Some(built)
    }

    /// Fills in what changes: of the packet of this length, whose bytes end at that place of `frame`, with this number, of
    /// that sub-flow, with another flow in its probe than the frame's own if need be.
    #[inline]
    pub(super) fn fill_in(
        &self,
        frame: &mut [u8],
        (packet, end): (PacketLen, usize),
        numbers: (u64, u64),
        flow: Option<u16>,
        payload_sum: impl Fn(&[u8]) -> u64,
    ) -> Option<()> {
        self.write_tail(frame.get_mut(..end)?, flow)?;
        let mut sums = [0_u64; MAX_SUMS];
        self.write_lengths(frame, packet, &mut sums)?;
        self.write_patches(frame, numbers, &mut sums)?;
        self.write_crc(frame, packet, &mut sums)?;
        self.write_sums(frame, packet, &mut sums, payload_sum)
    }

    /// The CRC covers no checksum, and checksums of headers around it cover it.
    #[inline]
    fn write_crc(
        &self,
        frame: &mut [u8],
        packet: PacketLen,
        sums: &mut [u64; MAX_SUMS],
    ) -> Option<()> {
        let Some(Crc { at, from, one_more, covered }) = self.crc32c else { return Some(()) };
        let content = frame.get(usize::from(from)..packet.get() as usize)?;
        let crc = crc32c::crc32c(content).wrapping_add(one_more.into()).to_le_bytes();
        *frame.get_mut(usize::from(at)..)?.first_chunk_mut()? = crc;
        add(sums, covered, u32::from_be_bytes(crc).into());
        Some(())
    }

    /// Writes the probe at the end of `payload`, where the end is not always the same: of `other` or the frames' own
    /// flow.
    #[inline]
    pub(super) fn write_tail(&self, payload: &mut [u8], other: Option<u16>) -> Option<()> {
        if let (Some(ProbeField { tail: Some(own), .. }), None) = (self.probe, self.lengths.fixed())
        {
            let flow = other.unwrap_or(own);
            let tail = payload.last_chunk_mut()?;
            *tail = probe::Probe { flow, sequence: 0, transmit_ns: 0 }.to_bytes();
        }
        Some(())
    }

    #[inline]
    fn write_lengths(
        &self,
        frame: &mut [u8],
        packet: PacketLen,
        sums: &mut [u64; MAX_SUMS],
    ) -> Option<()> {
        for field in &self.length_fields {
            let value = packet.behind(field.from) as u16;
            *frame.get_mut(usize::from(field.at)..)?.first_chunk_mut()? = value.to_be_bytes();
            add(sums, field.covered, value.into());
        }
        Some(())
    }

    #[inline]
    fn write_patches(
        &self,
        frame: &mut [u8],
        (n, sub_flow): (u64, u64),
        sums: &mut [u64; MAX_SUMS],
    ) -> Option<()> {
        for patch in &self.patches {
            let number = if patch.per == Per::SubFlow { sub_flow } else { n };
            let value = patch.values.value(number) << patch.shift;
            let (at, len) = (usize::from(patch.at), usize::from(patch.len));
            let field = frame.get_mut(at..at + len)?;
            let bytes = value.to_be_bytes();
            // Neighbours in the same byte keep their bits, which the template has zero here.
            for (to, from) in field.iter_mut().zip(bytes.get(bytes.len() - len..)?) {
                *to |= from;
            }
            if patch.covered != 0 {
                // Checksummed parts begin at even offsets, so this says whether words are halved.
                let odd = (at + len) & 1 == 1;
                let sum = u64::from(fold(fold_wide(value)));
                add(
                    sums,
                    patch.covered,
                    if odd { u64::from((sum as u16).swap_bytes()) } else { sum },
                );
            }
        }
        Some(())
    }

    /// From the innermost to the outermost: an outer checksum covers the inner ones.
    #[inline]
    fn write_sums(
        &self,
        frame: &mut [u8],
        packet: PacketLen,
        sums: &mut [u64; MAX_SUMS],
        payload_sum: impl Fn(&[u8]) -> u64,
    ) -> Option<()> {
        for (index, sum) in self.sums.iter().enumerate() {
            let mut total = sums.get(index)? + u64::from(sum.base);
            if let Some(from) = sum.pseudo_from {
                total += u64::from(packet.behind(from));
            }
            if sum.payload {
                total += payload_sum(frame);
            }
            let mut checksum = !fold(total);
            if sum.one_more {
                checksum = fold(u64::from(checksum) + 1);
            }
            if checksum == 0 && sum.zero_is_none {
                checksum = 0xffff;
            }
            *frame.get_mut(usize::from(sum.at)..)?.first_chunk_mut()? = checksum.to_be_bytes();
            add(sums, sum.covered, checksum.into());
        }
        Some(())
    }

    /// The sum of the payload of a packet of this length, with sequence and time zero.
    #[inline]
    fn payload_sum(&self, frame: &[u8], packet: PacketLen) -> u64 {
        let flow = self.probe.and_then(|probe| probe.tail);
        let tail = if flow.is_some() { probe::LEN } else { 0 };
        let end = packet.behind(tail as u16) as usize;
        let content = end.saturating_sub(usize::from(self.headers_len));
        let mut sum = u64::from(self.payload_sums.get(content / 2).copied().unwrap_or(0));
        if content % 2 == 1 && !self.payload_sums.is_empty() {
            sum += u64::from(frame.get(end.wrapping_sub(1)).copied().unwrap_or(0)) << 8;
        }
        if let Some(flow) = flow {
            let constant = fold(u64::from(probe::MAGIC) + u64::from(flow));
            sum += u64::from(if content % 2 == 1 { constant.swap_bytes() } else { constant });
        }
        sum
    }
}

/// Adds `word` to the sums whose bits are set.
#[inline]
fn add(sums: &mut [u64; MAX_SUMS], which: u8, word: u64) {
    let mut which = which;
    while which != 0 {
        sums[which.trailing_zeros() as usize % MAX_SUMS] += word;
        which &= which - 1;
    }
}

/// The sum of the two halves of `value`, with the carry.
#[inline]
fn fold_wide(value: u128) -> u64 {
    let (sum, carry) = ((value >> 64) as u64).overflowing_add(value as u64);
    sum.wrapping_add(u64::from(carry))
}
