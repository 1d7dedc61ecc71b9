//! The frames of a capture one after another: what is wrong with one ends the reading, or is skipped and counted.
//!
//! Where a block says which frame it holds and that is wrong, that block is skipped. Where its length lies, the next place
//! is looked for at which frames stand one after another.

use std::io::{self, Read};

use super::input::{ASK_MAX, Input};
use super::pcap::{self, Pcap};
use super::pcapng::{AROUND, Kind, SECTION, SECTION_HEAD, Section};
use super::resume::{self, Look, Looks};
use super::{Bad, Defect, Frame, LinkType, Place, ReadError};
use crate::time_series::OnBad;

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endianness {
    #[default]
    Little,
    Big,
}

impl Endianness {
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Endianness::Big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Endianness::Big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Endianness::Big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }
}

/// What all frames of an interface begin and end with.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    pub link: LinkType,
    /// Bytes of FCS at their end.
    pub fcs: u8,
}

/// What stands before a frame's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub time_ns: Option<i64>,
    pub interface: u32,
    pub links: Links,
    pub captured: u32,
    pub original: u32,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// A frame: where its bytes begin, and how long all of it is with what is around it.
    Frame {
        head: Head,
        data_at: usize,
        total: usize,
    },
    /// Something that is wrong, and so many bytes long.
    Bad(Defect, u64),
    /// Something that is wrong, whose length is not known.
    Lost(Defect),
    /// Nothing that is needed, so many bytes long, and checked.
    Other(usize),
    End,
}

#[derive(Debug)]
enum Format {
    /// Nothing was read.
    Unknown,
    Pcap(Pcap),
    PcapNg(Section),
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames.
    pub frames: u64,
    /// Bytes of them that were captured, without FCS.
    pub bytes: u64,
    /// Frames of which not all was captured.
    pub cut: u64,
    /// Places at which something was wrong and skipped, and what it was the first time.
    pub bad: (u64, Option<Bad>),
    /// Those of them that are one frame. How many frames were at the others is not known.
    pub bad_frames: u64,
    /// Bytes of the file that were skipped.
    pub skipped: u64,
}

/// The frames of a capture.
#[derive(Debug)]
pub struct Frames<R> {
    input: Input<R>,
    name: String,
    on_bad: OnBad,
    format: Format,
    /// Of the frame that it is at.
    head: Head,
    /// Where its bytes are in the window, and how many.
    bytes: (usize, usize),
    place: Place,
    tally: Tally,
}

impl<R: Read> Frames<R> {
    /// Of `from`, of which messages speak as `name`.
    pub fn new(from: R, name: impl Into<String>, on_bad: OnBad) -> Frames<R> {
        let links = Links { link: LinkType::NULL, fcs: 0 };
        Frames {
            input: Input::new(from),
            name: name.into(),
            on_bad,
            format: Format::Unknown,
            head: Head { time_ns: None, interface: 0, links, captured: 0, original: 0 },
            bytes: (0, 0),
            place: Place::default(),
            tally: Tally::default(),
        }
    }

    /// Goes to the next frame; says whether there is one.
    ///
    /// # Errors
    /// What is wrong, where that is to end the reading; a file that is not a capture; and what the system says.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            self.place = Place { offset: self.input.offset(), number: self.number() };
            match self.find() {
                Ok(Found::Frame { head, data_at, total }) => {
                    if self.take(head, data_at, total)? {
                        return Ok(true);
                    }
                }
                Ok(Found::Other(total)) => self.input.step(total),
                Ok(Found::End) => return Ok(false),
                Ok(Found::Bad(defect, total)) => self.bad(defect, Some(total))?,
                Ok(Found::Lost(defect)) => self.bad(defect, None)?,
                Err(source) => {
                    let offset = self.input.offset();
                    return Err(ReadError::System { name: self.name.clone(), offset, source });
                }
            }
        }
    }

    /// The frame that it is at.
    #[inline]
    pub fn frame(&self) -> Frame<'_> {
        let Head { time_ns, interface, links, original, .. } = self.head;
        let bytes = self.input.window(self.bytes.0, self.bytes.1);
        Frame { time_ns, interface, link: links.link, bytes, original }
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What was read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file that were read.
    pub fn position(&self) -> u64 {
        self.input.offset()
    }

    /// How to handle invalid frames.
    pub fn on_bad(&self) -> OnBad {
        self.on_bad
    }

    /// The error that ends the reading at the frame that it is at.
    pub fn error(&self, defect: Defect) -> ReadError {
        self.error_at(self.place, defect)
    }

    /// The error that ends the reading at a place.
    pub(super) fn error_at(&self, place: Place, defect: Defect) -> ReadError {
        ReadError::Bad { name: self.name.clone(), bad: Bad { place, defect } }
    }

    /// The number of the next frame.
    fn number(&self) -> u64 {
        self.tally.frames + self.tally.bad.0 + 1
    }

    /// Takes a frame, if its lengths can be.
    #[inline]
    fn take(&mut self, mut head: Head, data_at: usize, total: usize) -> Result<bool, ReadError> {
        let Head { captured, original, links, .. } = head;
        if captured > original {
            self.bad(Defect::More { captured, original }, Some(total as u64))?;
            return Ok(false);
        }
        head.original = original.saturating_sub(links.fcs.into());
        let len = captured.min(head.original);
        self.head = head;
        self.bytes = (self.input.at() + data_at, len as usize);
        self.input.step(total);
        self.tally.frames += 1;
        self.tally.bytes += u64::from(len);
        self.tally.cut += u64::from(len < head.original);
        Ok(true)
    }

    /// Looks at what comes next.
    #[inline]
    fn find(&mut self) -> io::Result<Found> {
        match &mut self.format {
            Format::Unknown => begin(&mut self.input, &mut self.format),
            Format::Pcap(pcap) => {
                let header = self.input.ask(pcap::FRAME_HEADER)?;
                let Some(found) = pcap.frame(header) else {
                    return Ok(end(header.len(), pcap::FRAME_HEADER));
                };
                match (found, self.on_bad) {
                    (Found::Frame { total, .. }, OnBad::Stop) => {
                        all_there(&mut self.input, found, total)
                    }
                    (Found::Frame { total, .. }, OnBad::Skip) => {
                        let pcap = *pcap;
                        all_there_and_more(&mut self.input, pcap, found, total)
                    }
                    (found, _) => Ok(found),
                }
            }
            Format::PcapNg(section) => block(&mut self.input, section),
        }
    }

    /// Something is wrong with so many bytes; `None`: how many is not known.
    #[cold]
    fn bad(&mut self, defect: Defect, total: Option<u64>) -> Result<(), ReadError> {
        if self.on_bad == OnBad::Stop || defect == Defect::NoCapture {
            return Err(self.error(defect));
        }
        let bad = Bad { place: self.place, defect };
        self.tally.bad.0 += 1;
        self.tally.bad.1.get_or_insert(bad);
        let (skipped, is_frame) = self.go_on(defect, total).map_err(|source| {
            let offset = self.input.offset();
            ReadError::System { name: self.name.clone(), offset, source }
        })?;
        self.tally.skipped += skipped;
        self.tally.bad_frames += u64::from(is_frame);
        Ok(())
    }

    /// Goes to where reading goes on. Says how many bytes that is, and whether they are one frame.
    fn go_on(&mut self, defect: Defect, total: Option<u64>) -> io::Result<(u64, bool)> {
        if let Defect::Spans { inside, .. } = defect {
            return Ok((self.input.skip(inside as u64)?, false));
        }
        // a block of pcapng says its length twice
        if let (Format::PcapNg(_), Some(total)) = (&self.format, total) {
            let is_frame = !matches!(defect, Defect::Block(_) | Defect::Interfaces);
            return Ok((self.input.skip(total)?, is_frame));
        }
        let skipped = match &self.format {
            Format::Unknown => self.input.skip(u64::MAX)?,
            Format::Pcap(pcap) => look_further(&mut self.input, pcap, self.head.time_ns)?,
            Format::PcapNg(section) => look_further(&mut self.input, section, None)?,
        };
        // nothing stands behind it: it is cut off, and was one
        let is_cut = matches!(defect, Defect::Cut { .. }) && self.input.ask(1)?.is_empty();
        Ok((skipped, is_cut || total == Some(skipped)))
    }
}

/// Goes to the next place at which frames stand, or to the end; says how many bytes that is.
#[cold]
fn look_further<R: Read>(
    input: &mut Input<R>,
    look: &impl Look,
    since: Option<i64>,
) -> io::Result<u64> {
    let mut skipped = input.skip(1)?;
    loop {
        let rest = input.ask(ASK_MAX)?;
        let at_end = rest.len() < ASK_MAX;
        // Places near the end of the window wait until what follows them is there.
        let sure = if at_end { rest.len() } else { rest.len() - resume::MARGIN };
        let found = (0..sure)
            .find(|at| resume::stand(look, rest.get(*at..).unwrap_or_default(), at_end, since));
        skipped += input.skip(found.unwrap_or(sure) as u64)?;
        if found.is_some() || at_end {
            return Ok(skipped);
        }
    }
}

/// What there is at the end of the file: nothing, or less than there should be.
fn end(have: usize, need: usize) -> Found {
    match have {
        0 => Found::End,
        have => Found::Lost(Defect::Cut { have: have as u64, need: need as u64 }),
    }
}

/// `found`, if so many bytes are there.
#[inline]
fn all_there<R: Read>(input: &mut Input<R>, found: Found, total: usize) -> io::Result<Found> {
    let have = input.ask(total)?.len();
    Ok(if have < total { end(have, total) } else { found })
}

/// `found`, if so many bytes are there, and if no frames begin in it that go on behind it.
#[inline]
fn all_there_and_more<R: Read>(
    input: &mut Input<R>,
    pcap: Pcap,
    found: Found,
    total: usize,
) -> io::Result<Found> {
    let have = input.ask(total + pcap::FRAME_HEADER)?;
    let Some(behind) = have.get(total..) else { return Ok(end(have.len(), total)) };
    if behind.is_empty() || matches!(pcap.look(behind), Looks::Whole(..) | Looks::Begun) {
        return Ok(found);
    }
    let rest = input.ask(ASK_MAX)?;
    Ok(match resume::spanned(&pcap, rest, total, rest.len() < ASK_MAX) {
        Some(inside) => Found::Lost(Defect::Spans { length: total, inside }),
        None => found,
    })
}

/// Finds out what the file is.
fn begin<R: Read>(input: &mut Input<R>, format: &mut Format) -> io::Result<Found> {
    let header = input.ask(pcap::HEADER)?;
    if header.starts_with(&SECTION) {
        *format = Format::PcapNg(Section::default());
        return Ok(Found::Other(0));
    }
    if Pcap::magic(header).is_none() {
        return Ok(Found::Lost(Defect::NoCapture));
    }
    match Pcap::read(header) {
        Some(pcap) => *format = Format::Pcap(pcap),
        None => return Ok(end(header.len(), pcap::HEADER)),
    }
    Ok(Found::Other(pcap::HEADER))
}

/// Looks at a block of pcapng.
#[inline]
fn block<R: Read>(input: &mut Input<R>, section: &mut Section) -> io::Result<Found> {
    let head = input.ask(SECTION_HEAD)?;
    let Some((kind, mut total)) = section.block(head).filter(|_| head.len() == SECTION_HEAD) else {
        return Ok(end(head.len(), AROUND));
    };
    if kind == Kind::Section {
        total = match section.begin(head) {
            Ok(total) => total,
            Err(defect) => return Ok(Found::Lost(defect)),
        };
    }
    // What each kind has at the least, by draft-ietf-opsawg-pcapng §4.
    let least = AROUND
        + match kind {
            Kind::Section => 16,
            Kind::Interface => 8,
            Kind::Frame(head) => head,
            Kind::Other => 0,
        };
    if (total as usize) < least || !total.is_multiple_of(4) {
        return Ok(lost(section, kind, Defect::Block(total)));
    }
    if total as usize > ASK_MAX {
        return long(input, section, kind, total);
    }
    let block = input.ask(total as usize)?;
    if block.len() < total as usize {
        return Ok(end(block.len(), total as usize));
    }
    let last = section.order.u32(block, total as usize - 4).unwrap_or(0);
    if last != total {
        return Ok(lost(section, kind, Defect::Ends { first: total, last }));
    }
    Ok(match kind {
        Kind::Frame(_) => section.frame(block, total).unwrap_or(Found::Lost(Defect::Block(total))),
        Kind::Interface => match section.describe(block) {
            Ok(()) => Found::Other(total as usize),
            Err(defect) => Found::Bad(defect, total.into()),
        },
        Kind::Section | Kind::Other => Found::Other(total as usize),
    })
}

/// A block without a length. An interface keeps its number, so that frames are not taken for those of another.
#[cold]
fn lost(section: &mut Section, kind: Kind, defect: Defect) -> Found {
    if kind == Kind::Interface {
        let _ = section.describe(&[]);
    }
    Found::Lost(defect)
}

/// A block that is longer than what is looked at: one without a frame is passed over.
#[cold]
fn long<R: Read>(
    input: &mut Input<R>,
    section: &mut Section,
    kind: Kind,
    total: u32,
) -> io::Result<Found> {
    match kind {
        Kind::Frame(_) | Kind::Interface => return Ok(lost(section, kind, Defect::Block(total))),
        Kind::Section | Kind::Other => {}
    }
    let content = u64::from(total) - 4;
    let have = input.skip(content)?;
    let end = input.ask(4)?;
    let have = have + end.len() as u64;
    let last = section.order.u32(end, 0).unwrap_or(0);
    Ok(match last {
        _ if have < total.into() => Found::Lost(Defect::Cut { have, need: total.into() }),
        last if last == total => Found::Other(4),
        last => Found::Lost(Defect::Ends { first: total, last }),
    })
}

#[cfg(test)]
mod tests;
