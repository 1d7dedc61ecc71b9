//! pcapng (draft-ietf-opsawg-pcapng), little-endian: one section, an interface description for each port, enhanced packet
//! blocks with nanoseconds, and interface statistics at the end. No names are resolved, and no block says so.

use std::fmt::{self, Write as _};

use wirebeat_meter::observation::Standing;
use wirebeat_units::printable::printable;

use super::encoder::{Comments, FRAME_MAX, Fcs, Kept};
use crate::seen::{Interface, InterfaceCounts, Opening, Outcome, Seen};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// `if_tsresol`: ten to the power of minus nine.
const NANOSECONDS: u8 = 9;

/// Options that each kind of block has.
const COMMENT: u16 = 1;
const END_OF_OPTIONS: u16 = 0;

const EPB_FLAGS: u16 = 2;
const EPB_DROP_COUNT: u16 = 4;
const EPB_HASH: u16 = 3;
const EPB_QUEUE: u16 = 6;
/// The algorithm of an `epb_hash` by which cards choose receive queues: that of Toeplitz.
const TOEPLITZ: u8 = 5;

/// Bits of `epb_flags`: it arrived, it left, and bytes of FCS behind it.
const INBOUND: u32 = 0b01;
const OUTBOUND: u32 = 0b10;
const FCS_SHIFT: u32 = 5;

/// Bytes of a text in an option; Wireshark shows no longer ones well.
const TEXT_MAX: usize = 1024;
/// Bytes of the name of a flow in a comment.
const NAME_MAX: usize = 128;
/// More than a comment can have beside: its words, and each number at its longest.
const COMMENT_MAX: usize = NAME_MAX + 192;
/// An enhanced packet block without frame and comment: head 28, padding 3, flags 8, queue 8, drop count 12, end of options 4,
/// length 4.
const PACKET_MAX: usize = 67;

/// What the section header says of where the file was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The processor.
    pub hardware: String,
    /// The operating system.
    pub os: String,
    /// The program that wrote the file.
    pub program: String,
}

/// How pcapng is made.
#[derive(Clone, Debug, Default)]
pub struct PcapngOptions {
    pub origin: Origin,
    /// The filter in words, where there is one.
    pub filter: Option<String>,
    pub comments: Comments,
    pub fcs: Fcs,
    /// The most bytes of a frame, without FCS; 0: as the interface says.
    pub snap_len: usize,
}

/// Makes pcapng.
#[derive(Debug)]
pub struct Pcapng {
    options: PcapngOptions,
    /// Of each port.
    ports: Vec<PortState>,
    /// The names of flows by their numbers.
    flows: Vec<String>,
    began_ns: u64,
}

/// What is kept of a port.
#[derive(Clone, Copy, Debug, Default)]
struct PortState {
    counts: InterfaceCounts,
    /// Frames that were lost, as told with the last frame that was written.
    told: u64,
    /// Frames that were written.
    written: u64,
}

impl Pcapng {
    /// For what is opened.
    pub fn new(opening: &Opening, options: PcapngOptions) -> Pcapng {
        let most = opening.flows.iter().map(|(number, _)| usize::from(*number) + 1).max();
        let mut flows = vec![String::new(); most.unwrap_or(0)];
        for (number, name) in &opening.flows {
            if let Some(place) = flows.get_mut(usize::from(*number)) {
                *place = shortened(&printable(name), NAME_MAX).to_owned();
            }
        }
        Pcapng {
            options,
            ports: vec![PortState::default(); opening.interfaces.len()],
            flows,
            began_ns: opening.unix_ns,
        }
    }

    pub fn header(&self, opening: &Opening, into: &mut Vec<u8>) {
        block(into, SECTION_HEADER, |into| {
            into.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            into.extend(1_u16.to_le_bytes());
            into.extend(0_u16.to_le_bytes());
            // the length of the section is not known
            into.extend(u64::MAX.to_le_bytes());
            text(into, 2, &self.options.origin.hardware);
            text(into, 3, &self.options.origin.os);
            text(into, 4, &self.options.origin.program);
            text(into, COMMENT, opening.comment.as_deref().unwrap_or_default());
            end_of_options(into);
        });
        for interface in &opening.interfaces {
            self.interface(interface, into);
        }
    }

    fn interface(&self, interface: &Interface, into: &mut Vec<u8>) {
        let snaps = [self.options.snap_len, interface.snap_len as usize];
        let snap = snaps.into_iter().filter(|snap| *snap != 0).min();
        let fcs_len = self.fcs_len();
        block(into, INTERFACE_DESCRIPTION, |into| {
            into.extend(ETHERNET.to_le_bytes());
            into.extend([0; 2]);
            let snap = snap.map_or(0, |snap| snap.min(FRAME_MAX) as u32 + fcs_len);
            into.extend(snap.to_le_bytes());
            let name = interface.name.as_ref().or(interface.port.as_ref());
            text(into, 2, name.map_or("", |name| name));
            text(into, 3, &described(interface));
            if let Some(speed) = interface.speed {
                option(into, 8, &speed.0.to_le_bytes());
            }
            option(into, 9, &[NANOSECONDS]);
            if let Some(filter) = &self.options.filter {
                // 0: a text in libpcap's syntax follows
                let filter = shortened(filter, TEXT_MAX);
                option(into, 11, &[&[0], filter.as_bytes()].concat());
            }
            if fcs_len != 0 {
                option(into, 13, &[fcs_len as u8]);
            }
            end_of_options(into);
        });
    }

    fn fcs_len(&self) -> u32 {
        if self.options.fcs == Fcs::None { 0 } else { wirebeat_units::FCS.into() }
    }

    #[inline]
    pub fn frame(&mut self, seen: &Seen<'_>, kept: &Kept<'_>, into: &mut Vec<u8>) {
        let missing = kept.missing;
        let begin = into.len();
        let captured = kept.captured();
        let mut head = [0; 28];
        let words = [
            ENHANCED_PACKET,
            0,
            u32::from(seen.interface),
            (seen.unix_ns >> 32) as u32,
            seen.unix_ns as u32,
            captured as u32,
            kept.original,
        ];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        into.extend_from_slice(&head);
        into.extend_from_slice(kept.bytes);
        if let Some(fcs) = kept.fcs {
            into.extend_from_slice(&fcs);
        }
        pad(into, captured);
        let direction = if seen.outcome.is_received() { INBOUND } else { OUTBOUND };
        let flags = direction | self.fcs_len() << FCS_SHIFT;
        into.extend_from_slice(&small_option(EPB_FLAGS, flags));
        if let Some(hash) = seen.hash {
            let mut value = [TOEPLITZ, 0, 0, 0, 0];
            value[1..].copy_from_slice(&hash.to_be_bytes());
            option(into, EPB_HASH, &value);
        }
        if seen.queue != 0 {
            into.extend_from_slice(&small_option(EPB_QUEUE, seen.queue.into()));
        }
        if let Some(port) = self.ports.get_mut(usize::from(seen.interface)) {
            port.written += 1;
            let lost = port.lost();
            if lost != port.told {
                option(into, EPB_DROP_COUNT, &(lost.saturating_sub(port.told)).to_le_bytes());
                port.told = lost;
            }
        }
        if self.has_comment(seen, missing) {
            self.comment(seen, missing, into);
        }
        end_of_options(into);
        finish(into, begin);
    }

    /// The most bytes that the block of a frame can have.
    #[inline]
    pub fn block_max(&self, kept: &Kept<'_>) -> usize {
        let comment = if self.options.comments == Comments::None { 0 } else { COMMENT_MAX };
        kept.captured() + PACKET_MAX + comment
    }

    #[inline]
    fn has_comment(&self, seen: &Seen<'_>, missing: u32) -> bool {
        match self.options.comments {
            Comments::None => false,
            Comments::Odd => missing != 0 || seen.outcome.is_odd(),
            Comments::All => true,
        }
    }

    fn comment(&self, seen: &Seen<'_>, missing: u32, into: &mut Vec<u8>) {
        let begin = into.len();
        into.extend_from_slice(&[0; 4]);
        let name = seen.flow.and_then(|flow| self.flows.get(usize::from(flow)));
        let comment = Comment { seen, name: name.map_or("", |name| name), missing };
        // a vector takes all
        let _ = write!(Appended(into), "{comment}");
        let len = (into.len() - begin - 4).min(usize::from(u16::MAX));
        if let Some(head) = into.get_mut(begin..).and_then(<[u8]>::first_chunk_mut::<4>) {
            *head = option_head(COMMENT, len as u16);
        }
        pad(into, len);
    }

    pub fn counts(&mut self, counts: &[InterfaceCounts]) {
        for (port, counts) in self.ports.iter_mut().zip(counts) {
            port.counts = *counts;
        }
    }

    pub fn statistics(&self, unix_ns: u64, into: &mut Vec<u8>) {
        for (interface, port) in (0_u32..).zip(&self.ports) {
            let counts = &port.counts;
            block(into, INTERFACE_STATISTICS, |into| {
                into.extend(interface.to_le_bytes());
                into.extend(moment(unix_ns));
                option(into, 2, &moment(self.began_ns));
                option(into, 3, &moment(unix_ns));
                // since the last counts, some frames may have been written
                let accepted = counts.seen.saturating_sub(counts.filtered);
                let accepted = accepted.max(port.written.saturating_add(counts.lost));
                let received = counts.seen.max(accepted.saturating_add(counts.filtered));
                for (code, count) in [
                    (4, received.saturating_add(counts.receiver_drops)),
                    (5, counts.receiver_drops),
                    (6, accepted),
                    (7, counts.lost),
                    (8, port.written),
                ] {
                    option(into, code, &count.to_le_bytes());
                }
                end_of_options(into);
            });
        }
    }
}

impl PortState {
    /// Frames of the capture that were lost so far.
    fn lost(&self) -> u64 {
        self.counts.lost.saturating_add(self.counts.receiver_drops)
    }
}

/// What became of a frame, in a few words.
fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Sent => "sent",
        Outcome::Failed => "not sent by the device",
        Outcome::Expired => "not sent, it was too late",
        Outcome::Received(standing) => match standing {
            Standing::New => "in order",
            Standing::Reordered => "reordered",
            Standing::BeyondWindow => "beyond the window",
            Standing::Duplicate => "duplicate",
            Standing::Doubtful => "doubtful number",
            Standing::WithoutProbe => "without probe",
            Standing::UnknownFlow => "of an unknown flow",
            Standing::Stale => "of an earlier run",
            Standing::Fragment => "fragment",
            Standing::Malformed => "malformed",
            Standing::Foreign => "foreign",
        },
    }
}

/// What is said of a frame: "flow voip, number 17, duplicate, delay 1.240 ms".
struct Comment<'a> {
    seen: &'a Seen<'a>,
    name: &'a str,
    missing: u32,
}

impl fmt::Display for Comment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comment { seen, name, missing } = self;
        match (seen.flow, *name) {
            (None, _) => {}
            (Some(flow), "") => write!(f, "flow {flow}, ")?,
            (Some(_), name) => write!(f, "flow {name}, ")?,
        }
        if let Some(sequence) = seen.sequence {
            write!(f, "number {sequence}, ")?;
        }
        f.write_str(outcome_text(seen.outcome))?;
        if *missing != 0 {
            write!(f, ", {missing} missing before it")?;
        }
        if let Some(delay) = seen.delay_ns() {
            write!(f, ", delay {}", Span(delay))?;
        }
        if let Some(due) = seen.due.filter(|due| seen.at > *due) {
            let late = seen.at.get().wrapping_sub(due.get()).cast_signed();
            write!(f, ", late by {}", Span(late))?;
        }
        Ok(())
    }
}

/// Nanoseconds in the unit that reads best, exact to a thousandth of it.
struct Span(i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (unit, name) = match ns {
            0..1_000 => return write!(f, "{sign}{ns} ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{sign}{}.{:03} {name}", ns / unit, ns % unit / (unit / 1_000))
    }
}

/// Text that is appended to bytes.
struct Appended<'a>(&'a mut Vec<u8>);

impl fmt::Write for Appended<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The engine in words, the port of the scenario, and whose clock the times are from.
fn described(interface: &Interface) -> String {
    let mut text = interface.description.clone();
    if let Some(port) = interface.port.as_ref().filter(|port| interface.name.as_ref() != Some(port))
    {
        text = format!("port {port}: {text}");
    }
    match interface.timestamps.as_str() {
        "" => text,
        clock => format!("{text}; times from {clock}"),
    }
}

/// High word first, each little-endian (draft-ietf-opsawg-pcapng §4.3).
fn moment(unix_ns: u64) -> [u8; 8] {
    unix_ns.rotate_left(32).to_le_bytes()
}

fn option_head(code: u16, len: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (code.to_le_bytes(), len.to_le_bytes());
    [a, b, c, d]
}

/// An option of four bytes.
#[inline]
fn small_option(code: u16, value: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (option_head(code, 4), value.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

fn option(into: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    into.extend_from_slice(&option_head(code, value.len() as u16));
    into.extend_from_slice(value);
    pad(into, value.len());
}

/// A text that is not empty.
fn text(into: &mut Vec<u8>, code: u16, text: &str) {
    let text = printable(text);
    match shortened(&text, TEXT_MAX) {
        "" => {}
        text => option(into, code, text.as_bytes()),
    }
}

/// The beginning of a text, within whole characters.
fn shortened(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[inline]
fn end_of_options(into: &mut Vec<u8>) {
    into.extend_from_slice(&option_head(END_OF_OPTIONS, 0));
}

/// Zeros up to a multiple of four bytes, behind `len` bytes that were begun at one.
#[inline]
fn pad(into: &mut Vec<u8>, len: usize) {
    let zeros = [0; 3];
    into.extend_from_slice(zeros.get(..len.wrapping_neg() % 4).unwrap_or_default());
}

/// A block of this type, with its length before and behind what `body` appends.
fn block(into: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = into.len();
    into.extend(kind.to_le_bytes());
    into.extend([0; 4]);
    body(into);
    finish(into, begin);
}

/// Writes the length of the block that begins at `begin` into its head and behind it.
#[inline]
fn finish(into: &mut Vec<u8>, begin: usize) {
    let len = ((into.len() - begin + 4) as u32).to_le_bytes();
    into.extend_from_slice(&len);
    if let Some(place) = into.get_mut(begin + 4..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *place = len;
    }
}

/// Bytes of the block that `bytes` begins with; `None` where its head is cut short.
pub fn block_len(bytes: &[u8]) -> Option<usize> {
    let len = bytes.get(4..8)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*len) as usize)
}

/// Whether `bytes` begin with the block of a frame.
pub fn is_packet(bytes: &[u8]) -> bool {
    bytes.starts_with(&ENHANCED_PACKET.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_unit_that_reads_best() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_240_000, "1.240 ms"),
            (-1_500, "-1.500 us"),
            (61_000_000_000, "61.000 s"),
            (i64::MIN, "-9223372036.854 s"),
        ] {
            assert_eq!(Span(ns).to_string(), text);
        }
    }

    #[test]
    fn a_text_is_cut_within_whole_characters() {
        assert_eq!(shortened("äöü", 3), "ä");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
