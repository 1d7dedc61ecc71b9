//! pcapng (draft-ietf-opsawg-pcapng): blocks, each with its kind and its length at the beginning and its length at
//! the end. A section has a byte order and interfaces of its own; a frame names its interface, which says its link
//! type and its unit of time.

use super::frames::{Endianness, Found, Head, Links};
use super::{Defect, FRAME_MAX, LinkType};

/// The kind of the block that begins a section; the same in both byte orders (§4.1).
pub const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes of a block around its content.
pub const AROUND: usize = 12;
/// Bytes of the beginning of a section that say its byte order and its length.
pub const SECTION_HEAD: usize = 12;

/// Kinds of blocks (§4).
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// Frames name their interface in 32 bits, old ones in 16, and nobody has more.
const INTERFACES_MAX: usize = 1 << 16;

/// What is known of a section.
#[derive(Debug, Default)]
pub struct Section {
    pub order: Endianness,
    /// `None` where its block says nothing that can be understood.
    interfaces: Vec<Option<Interface>>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    links: Links,
    /// Bytes of a frame that are captured at most; 0: all.
    snap_len: u32,
    /// `if_tsresol`.
    resolution: u8,
    /// The units of time in a second; `None` where it is absurd.
    units: Option<u64>,
    /// Seconds that are added to each time.
    offset_s: i64,
}

/// What a block is, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Section,
    Interface,
    /// With the bytes of its content before the data.
    Frame(usize),
    /// Nothing that is needed.
    Other,
}

impl Section {
    /// What the first eight bytes of a block say: its kind, and its length.
    #[inline]
    pub fn block(&self, head: &[u8]) -> Option<(Kind, u32)> {
        let kind = match self.order.u32(head, 0)? {
            _ if head.starts_with(&SECTION) => Kind::Section,
            INTERFACE => Kind::Interface,
            PACKET | ENHANCED => Kind::Frame(20),
            SIMPLE => Kind::Frame(4),
            _ => Kind::Other,
        };
        Some((kind, self.order.u32(head, 4)?))
    }

    /// Whether a block that has a known kind begins so: in which byte order, and how long it says it is.
    pub fn begins(&self, head: &[u8]) -> Option<(Endianness, usize)> {
        /// All kinds that have a meaning: up to [`ENHANCED`] (4: names, 5: statistics), and custom ones.
        const CUSTOM: [u32; 2] = [0x0bad, 0x4000_0bad];
        let order = match head.starts_with(&SECTION) {
            true => section_order(head)?,
            false => self.order,
        };
        let kind = order.u32(head, 0)?;
        let is_known = (INTERFACE..=ENHANCED).contains(&kind) || CUSTOM.contains(&kind);
        let known = is_known || head.starts_with(&SECTION);
        known.then_some((order, order.u32(head, 4)? as usize))
    }

    /// A section begins: the first twelve bytes of its block say its byte order and its length.
    pub fn begin(&mut self, head: &[u8]) -> Result<u32, Defect> {
        // what follows is not of the interfaces before, however it goes on
        self.interfaces.clear();
        self.order = section_order(head).ok_or(Defect::ByteOrder)?;
        self.order.u32(head, 4).ok_or(Defect::ByteOrder)
    }

    /// Takes an interface; `block` is all of its block, or nothing where that is too long.
    pub fn describe(&mut self, block: &[u8]) -> Result<(), Defect> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(Defect::Interfaces);
        }
        let interface = self.interface(block);
        self.interfaces.push(interface);
        match interface {
            Some(_) => Ok(()),
            None => Err(Defect::Block(block.len() as u32)),
        }
    }

    fn interface(&self, block: &[u8]) -> Option<Interface> {
        /// Options (§4.2).
        const TS_RESOLUTION: u16 = 9;
        const FCS_LEN: u16 = 13;
        const TS_OFFSET: u16 = 14;
        let content = block.get(8..block.len().checked_sub(4)?)?;
        let link = LinkType(self.order.u16(content, 0)?);
        let mut interface = Interface {
            links: Links { link, fcs: 0 },
            snap_len: self.order.u32(content, 4)?,
            resolution: 6,
            units: Some(1_000_000),
            offset_s: 0,
        };
        let mut options = content.get(8..)?;
        // An option that does not fit ends them: the rest of the block is none.
        while let (Some(code), Some(len)) = (self.order.u16(options, 0), self.order.u16(options, 2))
        {
            let len = usize::from(len);
            let Some(value) = options.get(4..4 + len).filter(|_| code != 0) else { break };
            match (code, value) {
                (TS_RESOLUTION, &[resolution]) => {
                    (interface.resolution, interface.units) = (resolution, units(resolution));
                }
                (FCS_LEN, &[bits]) => interface.links.fcs = bits.div_ceil(8),
                (TS_OFFSET, value) if len == 8 => {
                    interface.offset_s = self.order.u64(value, 0)?.cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(interface)
    }

    /// What a block of a frame says, whose first 28 bytes are here, or all of it.
    #[inline]
    pub fn frame(&self, head: &[u8], total: u32) -> Option<Found> {
        let order = self.order;
        let skip = |defect| Some(Found::Bad(defect, total.into()));
        let simple = order.u32(head, 0)? == SIMPLE;
        let number = match order.u32(head, 0)? {
            SIMPLE => 0,
            PACKET => u32::from(order.u16(head, 8)?),
            _ => order.u32(head, 8)?,
        };
        let Some(Some(interface)) = self.interfaces.get(number as usize) else {
            return skip(Defect::Interface(number));
        };
        let data_at = if simple { 12 } else { 28 };
        let room = total.checked_sub(data_at + 4)?;
        let (captured, original, time_ns) = if simple {
            let original = order.u32(head, 8)?;
            let snap_len = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
            (original.min(snap_len).min(room), original, None)
        } else {
            let units = u64::from(order.u32(head, 12)?) << 32 | u64::from(order.u32(head, 16)?);
            let time_ns = match interface.time_ns(units) {
                Ok(time_ns) => time_ns,
                Err(defect) => return skip(defect),
            };
            (order.u32(head, 20)?, order.u32(head, 24)?, Some(time_ns))
        };
        if captured > room {
            return skip(Defect::Room { captured, room });
        }
        if captured as usize > FRAME_MAX {
            return skip(Defect::Long(captured));
        }
        let head = Head { time_ns, interface: number, links: interface.links, captured, original };
        Some(Found::Frame { head, data_at: data_at as usize, total: total as usize })
    }
}

impl Interface {
    #[inline]
    fn time_ns(&self, time: u64) -> Result<i64, Defect> {
        let ns = match self.units {
            Some(1_000_000) => u128::from(time) * 1_000,
            Some(1_000_000_000) => u128::from(time),
            Some(units) => u128::from(time) * 1_000_000_000 / u128::from(units),
            None => return Err(Defect::Resolution(self.resolution)),
        };
        // less than 2^64 times 10^9
        let ns = ns as i128 + i128::from(self.offset_s) * 1_000_000_000;
        i64::try_from(ns).map_err(|_| Defect::Time)
    }
}

/// The byte order of the section that begins so.
fn section_order(head: &[u8]) -> Option<Endianness> {
    match head.get(8..12)? {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Endianness::Big),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Endianness::Little),
        _ => None,
    }
}

/// The units of time in a second: powers of ten, or with the top bit of two.
fn units(resolution: u8) -> Option<u64> {
    match resolution {
        power @ 0x80.. => 1_u64.checked_shl(u32::from(power & 0x7f)),
        power => 10_u64.checked_pow(power.into()),
    }
}
