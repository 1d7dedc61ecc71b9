//! The frames of a flow: its headers as bytes, and how what changes follows from a frame's number.

use wirebeat_units::{BufferLen, Fault, fault};
use wirebeat_wire::carrier::payload_len;
use wirebeat_wire::checksum::Sum;
use wirebeat_wire::codec::{Codec, Facts, Place};
use wirebeat_wire::ethernet::FRAME_MIN;

use super::Context;
use super::cut::{self, Outermost};
use super::layout::{Checksum, Layout, put};
use super::lengths::lengths;
use crate::distribution::draw::{Key, Purpose};
use crate::program::frames::{
    Crc, Frames, LengthField, Patch, Payload as Counts, ProbeField, SumField,
};
use crate::program::lengths::Lengths;
use crate::scenario::header::Header;
use crate::scenario::header::payload::Payload;
use crate::scenario::header::raw::Raw;
use crate::scenario::lay::{ChecksumFault, Covers, What};
use crate::scenario::{FlowSpec, Invalid, KeyPath, Packet};
use crate::values::Values;
use crate::values::sub_flows::SubFlowOrder;

/// The longest frame: its offsets must fit those of a stamp in the kernel.
pub const LONGEST: usize = 9014;
/// The longest packet that leaves as fragments, from the Ethernet header on: the probe at its end begins within 16
/// bits. That is IP's longest behind an Ethernet header and two bytes more.
pub const PACKET_MAX: usize = 65_551;

/// Makes the frames of a flow with the headers `stack`, for a link with this MTU.
pub(super) fn frames(
    context: &Context<'_>,
    flow: &FlowSpec,
    packet: &Packet<'_>,
    mut stack: Vec<Header>,
    mtu: Option<u32>,
) -> Result<Frames, Invalid> {
    let name = context.name;
    let at = || KeyPath::flow(name).key("packet");
    if let Some(raw) = packet.raw {
        return raw_frames(context, raw);
    }
    let mut layout = Layout::new(&stack);
    let headers_len = layout.len();
    let carried = flow.carried(packet);
    let probe_len = flow.probe_len(packet);
    let outermost = Outermost::of(&stack, &layout, mtu);
    let lengths = lengths(context, flow, &layout, outermost.as_ref(), probe_len as u32)?;
    let mut cut = None;
    if let Some(outermost) = outermost.filter(|outermost| lengths.longest() > outermost.fits()) {
        if outermost.forbids() {
            let why = outermost.forbidden(lengths.longest());
            return Err(KeyPath::flow(name).key("size").invalid(why));
        }
        let in_first = match carried {
            Some(carried) if carried.codec.place() == Place::Head => headers_len + probe_len,
            _ => headers_len,
        };
        let how = outermost.cut(in_first, cut::key(context.seed, context.number));
        cut = Some(how.map_err(|why| at().invalid(why))?);
        cut::allow(&mut stack);
        layout = Layout::new(&stack);
    }
    let stack = &stack[..];
    let longest = lengths.longest().get() as usize;
    let mut bytes = layout.bytes();
    bytes.resize(longest.max(headers_len), 0);
    fill(context, packet.payload, bytes.get_mut(headers_len..).unwrap_or_default())?;
    let fixed = lengths.fixed().is_some();
    let probe = carried.map(|carried| probe_field(context.number, carried.codec));
    if let Some(carried) = carried {
        let payload = bytes.get_mut(headers_len..).unwrap_or_default();
        // Where packets are not all equally long, the end of the longest is not that of the others.
        if fixed || carried.codec.place() == Place::Head {
            let flow = carried.flow.unwrap_or(context.number.into());
            let facts = Facts { flow, destination: context.destination(stack) };
            let blank = carried.codec.blank(&facts, payload);
            blank.map_err(|error| KeyPath::flow(name).key("size").invalid(error.fault()))?;
        }
    }
    let checksums = layout
        .checksums()
        .ok_or_else(|| at().invalid("there are too many checksums in this packet"))?;
    let mut frames = Frames {
        headers_len: headers_len as u16,
        payload: Counts::Behind(headers_len as u16),
        lengths,
        sub_flows: flow.sub_flows.as_ref().map(|spec| {
            let key = Key::new(context.seed, context.number.into(), Purpose::SubFlow);
            SubFlowOrder::new(spec.count, spec.length, spec.order, key)
        }),
        probe,
        cut,
        ..Frames::constant(Vec::new())
    };
    let maker = FrameMaker { layout: &layout, checksums: &checksums, fixed };
    maker.length_fields(&mut bytes, &mut frames);
    maker.probe_length(&mut frames);
    maker.patches(context, &mut frames);
    maker.counters(&mut frames).map_err(|why| at().invalid(why))?;
    maker.sums(&bytes, &mut frames).map_err(|why| at().invalid(why))?;
    bytes.resize(longest.max(FRAME_MIN), 0);
    frames.bytes = bytes;
    settle(&mut frames);
    frames.payload = counted_payload(&frames, stack);
    Ok(frames)
}

/// What of the frames a receiver counts as payload. It does not open tunnels, and there the payload is that of the
/// innermost packet all the same.
fn counted_payload(frames: &Frames, stack: &[Header]) -> Counts {
    let behind = Counts::Behind(frames.headers_len);
    if matches!(frames.lengths, Lengths::Recorded { .. }) {
        return behind;
    }
    let (packet, mut frame) = (frames.lengths.length(0), frames.bytes.clone());
    if frames.write(0, &mut frame).is_none() {
        return behind;
    }
    frame.truncate(packet.buffer().get() as usize);
    let whole = frame.len();
    let payload = payload_len(&frame);
    frame.push(0);
    let padded = payload_len(&frame) > payload;
    let tunnel = stack.iter().filter(|header| matches!(header, Header::Ipv4(_) | Header::Ipv6(_)));
    match padded {
        true => Counts::Padded((whole - payload) as u16),
        false if tunnel.count() > 1 => behind,
        false => Counts::Behind((packet.get() as usize).saturating_sub(payload) as u16),
    }
}

/// What all parts of a frame are made from.
struct FrameMaker<'a> {
    layout: &'a Layout,
    checksums: &'a [Checksum],
    /// Whether all packets are equally long.
    fixed: bool,
}

impl FrameMaker<'_> {
    /// Which of the sums cover the byte at `at`, a bit each.
    fn covered(&self, at: usize) -> u8 {
        let internet = self.checksums.iter().filter(|sum| sum.covers != Covers::Crc32c);
        let bits = internet.enumerate().filter(|(_, sum)| sum.at != at as u16);
        bits.filter(|(_, sum)| self.layout.covers(sum, at)).fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// Lengths: written here where they are always the same.
    fn length_fields(&self, bytes: &mut [u8], frames: &mut Frames) {
        for field in &self.layout.fields {
            let Some(from) = self.layout.length_from(field) else { continue };
            match frames.lengths.fixed() {
                Some(packet) => put(bytes, field, packet.behind(from).into()),
                None => {
                    let covered = self.covered(field.at().into());
                    frames.length_fields.push(LengthField { at: field.at(), from, covered });
                }
            }
        }
    }

    /// The length that a probe holds, where it is not always the same.
    fn probe_length(&self, frames: &mut Frames) {
        let at = frames.probe.and_then(|probe| probe.codec.length_at());
        if let (Some(at), false) = (at, self.fixed) {
            let (at, from) = (frames.headers_len + at, frames.headers_len);
            let covered = self.covered(at.into());
            frames.length_fields.push(LengthField { at, from, covered });
        }
    }

    fn patches(&self, context: &Context<'_>, frames: &mut Frames) {
        for ((field, shape, per), number) in self.layout.changing().zip(0u16..) {
            let (begin, end, shift) = field.bytes();
            frames.patches.push(Patch {
                at: begin as u16,
                len: (end - begin) as u8,
                shift: shift as u8,
                covered: self.covered(begin),
                per,
                values: Values::new(shape.clone(), context.seed, context.number.into(), number),
            });
        }
    }

    /// The field that counts frames.
    fn counters(&self, frames: &mut Frames) -> Result<(), Fault> {
        let mut counters = self.layout.fields.iter().filter(|field| field.what == What::Count);
        let Some(counter) = counters.next() else { return Ok(()) };
        let checksum = self.checksums.iter().any(|sum| {
            sum.header == counter.header
                && sum.covers == Covers::Header
                && sum.fault == ChecksumFault::None
        });
        if !checksum || counters.next().is_some() {
            return Err(fault!(
                "'identification: count' is for one header with a right checksum";
                "elsewhere write 'identification: {{ increment: 0 }}'"
            ));
        }
        frames.identification_at = counter.at();
        Ok(())
    }

    /// Checksums, from the innermost on; the innermost that covers the payload is mended when the probe
    /// is stamped, and those around it then stay right by themselves.
    fn sums(&self, bytes: &[u8], frames: &mut Frames) -> Result<(), Fault> {
        let headers = self.layout.len();
        let payload = bytes.get(headers..).unwrap_or_default();
        for sum in self.checksums {
            if sum.covers == Covers::Crc32c {
                if frames.probe.is_some() {
                    return Err(fault!(
                        "a CRC32c cannot be mended when the probe is written";
                        "add 'probe: off', or give the header 'checksum: off'"
                    ));
                }
                frames.crc32c = Some(Crc {
                    at: sum.at,
                    from: self.layout.start(sum.header),
                    one_more: sum.fault == ChecksumFault::OneMore,
                    covered: self.covered(sum.at.into()),
                });
                continue;
            }
            let to_end = sum.covers != Covers::Header;
            let pseudo_from = self.layout.pseudo_from(sum);
            let mut base = u64::from(self.layout.base(sum, bytes));
            if let (true, Some(packet)) = (self.fixed, frames.lengths.fixed()) {
                base += u64::from(pseudo_from.map_or(0, |from| packet.behind(from)));
                if to_end {
                    base += u64::from(Sum::ZERO.add_bytes(payload).folded());
                }
            }
            if to_end && frames.probe.is_some() && frames.checksum_at == 0 {
                frames.checksum_at = sum.at;
            }
            frames.sums.push(SumField {
                at: sum.at,
                base: wirebeat_wire::checksum::fold(base),
                pseudo_from: pseudo_from.filter(|_| !self.fixed),
                payload: to_end && !self.fixed,
                zero_is_none: sum.covers == Covers::ToEndAndAddresses { zero_is_none: true },
                one_more: sum.fault == ChecksumFault::OneMore,
                covered: self.covered(sum.at.into()),
            });
        }
        if !self.fixed && payload.iter().any(|byte| *byte != 0) {
            frames.payload_sums = prefix_sums(&without_lengths(payload, frames));
        }
        Ok(())
    }
}

/// The payload without the length in its probe: that is added to sums when it is written.
fn without_lengths(payload: &[u8], frames: &Frames) -> Vec<u8> {
    let mut bytes = payload.to_vec();
    for field in &frames.length_fields {
        let Some(at) = field.at.checked_sub(frames.headers_len) else { continue };
        if let Some(length) = bytes.get_mut(usize::from(at)..).and_then(<[u8]>::first_chunk_mut) {
            *length = [0; 2];
        }
    }
    bytes
}

/// Sums of the first 0, 1, 2 … words.
fn prefix_sums(payload: &[u8]) -> Vec<u16> {
    let mut total = Sum::ZERO;
    let (words, _) = payload.as_chunks::<2>();
    let mut sums = Vec::with_capacity(words.len() + 1);
    sums.push(0);
    for word in words {
        total = total.add_bytes(word);
        sums.push(total.folded());
    }
    sums
}

/// Fills in what turns out never to change.
fn settle(frames: &mut Frames) {
    if !frames.is_constant() {
        // The padding of a short frame is not a part of it that changes, but the payload is longer.
        return;
    }
    let mut bytes = frames.bytes.clone();
    if frames.write(0, &mut bytes).is_some() {
        frames.bytes = bytes;
        frames.sums = Vec::new();
        frames.crc32c = None;
    }
}

/// What the payload holds.
fn fill(context: &Context<'_>, payload: &Payload, out: &mut [u8]) -> Result<(), Invalid> {
    let copy = |from: &[u8], out: &mut [u8]| {
        for (to, from) in out.iter_mut().zip(from) {
            *to = *from;
        }
    };
    match payload {
        Payload::Zeros => {}
        Payload::Pattern(pattern) => {
            for (byte, pattern) in out.iter_mut().zip(pattern.bytes().iter().cycle()) {
                *byte = *pattern;
            }
        }
        Payload::Text(text) => copy(text.as_bytes(), out),
        Payload::Random => {
            let key = Key::new(context.seed, context.number.into(), Purpose::Payload);
            for (word, n) in out.chunks_mut(8).zip(0..) {
                copy(&key.draw(n).bits().to_be_bytes(), word);
            }
        }
        Payload::File(file) => {
            let at = || KeyPath::flow(context.name).key("packet");
            copy(context.files.bytes(file).map_err(|why| at().invalid(why))?, out);
        }
    }
    Ok(())
}

/// A whole frame as it is.
fn raw_frames(context: &Context<'_>, raw: &Raw) -> Result<Frames, Invalid> {
    let at = || KeyPath::flow(context.name).key("packet").index(0).key("frame");
    let bytes = match raw {
        Raw::Hex(hex) => hex.bytes().to_vec(),
        Raw::Capture(captured) => {
            let frame = context.files.frame(&captured.file, captured.number);
            frame.map_err(|why| at().key("capture").invalid(why))?
        }
    };
    if bytes.len() > LONGEST {
        let with_fcs = |bytes: usize| BufferLen::new(bytes as u32).with_fcs();
        return Err(at().invalid(format!(
            "it is {} bytes long with FCS, and {}B is the longest",
            with_fcs(bytes.len()),
            with_fcs(LONGEST)
        )));
    }
    Ok(Frames::constant(bytes))
}

/// A probe of this format, in flow number `id`.
fn probe_field(id: u16, codec: Codec) -> ProbeField {
    ProbeField {
        codec,
        marks: codec.marks(),
        first: codec.first_sequence() as u8,
        tail: (codec.place() == Place::Tail).then_some(id),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wirebeat_wire::codec::Moment;
    use wirebeat_wire::datagram::Datagram;
    use wirebeat_wire::ip::Protocol;
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::stamp::Stamp;

    use super::*;
    use crate::compile::{Files, Link, Links, compile};
    use crate::scenario::Scenario;

    /// The frame of the second flow, so that its number is not zero.
    fn frames_of(keys: &str) -> Arc<Frames> {
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows:\n  first: {{ from: a, to: b }}\n  x: {{ from: a, to: b, {keys} }}"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        let ports = [("a".to_owned(), Link::imaginary(0)), ("b".to_owned(), Link::imaginary(1))];
        let program =
            compile(&scenario, &Links { ports: ports.into() }, &Files::default()).unwrap();
        Arc::clone(&program.streams[1].frames)
    }

    fn build(frames: &Arc<Frames>, sequence: u32, monotonic_ns: u64) -> Vec<u8> {
        let mut frame = vec![0; 2000];
        let built = frames.frame().build(0, &mut frame);
        frame.truncate(built.len as usize);
        built.stamp(&mut frame, sequence, Moment { monotonic_ns, unix_ns: 0 });
        frame
    }

    /// The checksum over a UDP datagram with the one it has: 0 where that is right.
    fn udp_sum(frame: &[u8]) -> u16 {
        let datagram = Datagram::parse(frame).unwrap();
        let bytes = &frame[datagram.payload_at - 8..datagram.payload_at + datagram.payload.len()];
        let (source, destination) = (datagram.source, datagram.destination);
        let sum = Sum::pseudo(source, destination, Protocol::UDP, bytes.len() as u32).unwrap();
        sum.add_bytes(bytes).checksum()
    }

    fn stamp(frames: &Arc<Frames>) -> Stamp {
        frames.frame().build(0, &mut [0; 2000]).stamp
    }

    #[test]
    fn a_stamped_frame_is_right_in_every_checksum() {
        let frames =
            frames_of("size: 101B, packet: [ { ipv4: { identification: count } }, { udp: {} } ]");
        let frame = build(&frames, 70_000, u64::MAX / 3);
        assert_eq!(frame.len(), 97);
        assert_eq!(frame[18..20], (70_000_u32 as u16).to_be_bytes());
        assert_eq!(wirebeat_wire::checksum::checksum(&frame[14..34]), 0);
        let probe = Probe { flow: 1, sequence: 70_000, transmit_ns: u64::MAX / 3 };
        let payload = Datagram::parse(&frame).unwrap().payload;
        assert_eq!(Probe::from_tail(payload), Some(probe));
        assert_eq!(udp_sum(&frame), 0);
    }

    #[test]
    fn a_checksum_covers_the_length_in_a_probe_once_where_packets_are_not_equally_long() {
        for codec in Codec::ALL {
            let frames = frames_of(&format!(
                "probe: {codec}, size: {{ list: [200B, 141B, 90B] }}, packet: [ {{ ipv4: {{}} }}, \
                 {{ udp: {{}} }}, {{ payload: {{ pattern: 'c0ffee' }} }} ]"
            ));
            for n in 0..6_u32 {
                let mut frame = vec![0; 2000];
                let built = frames.frame().build(n.into(), &mut frame);
                frame.truncate(built.len as usize);
                let now = Moment { monotonic_ns: 0x1234_5678_9abc, unix_ns: 0x1234_5678_9abc_def0 };
                built.stamp(&mut frame, n, now);
                assert_eq!(udp_sum(&frame), 0, "{codec}, packet {n}");
                let datagram = Datagram::parse(&frame).unwrap();
                let seen = codec.read(datagram.payload).unwrap();
                if codec.place() == Place::Head {
                    // what a receiver is told to look for is what is sent
                    assert_eq!(frames.probe_number(), Some((*codec, seen.flow)));
                }
            }
        }
    }

    #[test]
    fn an_ipv6_datagram_can_be_nothing_but_a_probe() {
        let frames = frames_of("packet: [ { ipv6: { dscp: ef } }, { udp: {} } ]");
        let datagram = frames.datagram().build(0, &mut [0; 2000]);
        assert_eq!((frames.headers_len(), datagram.len, datagram.probe_at), (62, 16, Some(0)));
        let frame = build(&frames, 5, 6);
        assert_eq!(Datagram::parse(&frame).unwrap().tos, 184);
        assert_eq!(udp_sum(&frame), 0);
    }

    #[test]
    fn payload_fills_what_the_headers_and_the_probe_leave() {
        let udp = "{ ipv4: {} }, { udp: {} }";
        let payload = |payload: &str, probe: &str| {
            let keys =
                format!("packet: [ {udp}, {{ payload: {payload} }} ], size: 70B, probe: {probe}");
            frames_of(&keys).bytes[42..].to_vec()
        };
        assert_eq!(payload("zeros", "off"), [0; 24]);
        assert_eq!(payload("{ pattern: '012345' }", "off"), [0x01, 0x23, 0x45].repeat(8));
        assert_eq!(&payload("{ text: hello }", "on")[..8], b"hello\0\0\0");
        assert_eq!(payload("{ text: hello }", "on")[8..12], [0x57, 0x42, 0, 1]);
    }

    #[test]
    fn what_does_not_change_is_not_stamped() {
        let frames = frames_of("probe: off");
        assert_eq!(stamp(&frames), Stamp::default());
        assert_eq!(build(&frames, 9, 9), frames.bytes);
        let frames = frames_of("packet: [ { ipv4: {} }, { udp: { checksum: off } } ]");
        assert_eq!((stamp(&frames).checksum_at, frames.bytes[40..42].to_vec()), (0, vec![0, 0]));
        let frames =
            frames_of("probe: off, packet: [ { ipv4: { identification: count } }, { udp: {} } ]");
        assert_eq!(build(&frames, 0x1_0203, 9)[18..20], [2, 3]);
    }
}
