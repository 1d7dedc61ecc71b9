//! Headers become bytes: where each field lies, what stands there, and what depends on what.
//!
//! Knows nothing of flows: it is given headers with everything filled in, and how long the payload is.

use std::ops::Range;

use wirebeat_wire::checksum::Sum;

use crate::program::frames::MAX_SUMS;
use crate::scenario::header::{Header, Space};
use crate::scenario::lay::{ChecksumFault, Covers, Lay, Span, What};
use crate::scenario::number::Number;
use crate::values::{Per, Shape};

/// A field and where it lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    /// Which of the headers it is part of.
    pub(crate) header: usize,
    pub(crate) name: &'static str,
    /// Its first bit, from the start of the frame.
    pub(crate) bit: usize,
    pub(crate) bits: u32,
    pub(crate) what: What,
}

impl Placed {
    /// The bytes it lies in, and how many bits are behind it in the last of them.
    pub(crate) fn bytes(&self) -> (usize, usize, u32) {
        let begin = self.bit / 8;
        let end = (self.bit + self.bits as usize).div_ceil(8);
        (begin, end, (end * 8 - self.bit - self.bits as usize) as u32)
    }

    /// Where it begins, for fields that begin with a byte.
    pub(crate) fn at(&self) -> u16 {
        (self.bit / 8) as u16
    }
}

/// Headers, laid one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) fields: Vec<Placed>,
    /// Where each header begins, and where the last one ends.
    pub(crate) starts: Vec<usize>,
    /// The numbers by which headers are named, where they have one of IP.
    protocols: Vec<Option<u16>>,
    /// Whether each is a network header of IP.
    is_ip: Vec<bool>,
    /// Of routing headers: which of the fields holds where the packet ends up.
    last_segments: Vec<Option<usize>>,
    /// The packet is a multiple of the second number long, counted from the first on.
    pub(crate) align: (u16, u16),
}

/// A checksum that is to be filled in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Checksum {
    /// Which header it is part of, and where it lies.
    pub(crate) header: usize,
    pub(crate) at: u16,
    pub(crate) covers: Covers,
    pub(crate) fault: ChecksumFault,
}

impl Layout {
    /// Lays `headers`.
    pub(crate) fn new(headers: &[Header]) -> Layout {
        let mut layout = Layout {
            fields: Vec::new(),
            starts: vec![0],
            protocols: Vec::new(),
            is_ip: Vec::new(),
            last_segments: Vec::new(),
            align: (0, 1),
        };
        for (index, header) in headers.iter().enumerate() {
            layout.add(index, header, headers.get(index + 1..).unwrap_or_default());
        }
        layout
    }

    fn add(&mut self, index: usize, header: &Header, behind: &[Header]) {
        let start = self.len();
        let lay: Lay = header.laid();
        let segment = last_segment(header, &lay);
        self.last_segments.push(segment.map(|number| self.fields.len() + number));
        let mut bit = start * 8;
        for item in lay.items() {
            let what = match &item.what {
                What::Next(space) => What::Fixed(number_of(behind, *space)),
                other => other.clone(),
            };
            self.fields.push(Placed { header: index, name: item.name, bit, bits: item.bits, what });
            bit += item.bits as usize;
        }
        if lay.alignment() > 0 {
            self.align = (start as u16, lay.alignment());
        }
        self.starts.push(start + usize::from(lay.len()));
        self.protocols.push(header.spec().number(Space::IpProtocol, behind.first()));
        self.is_ip.push(matches!(header, Header::Ipv4(_) | Header::Ipv6(_)));
    }

    /// Bytes of all headers.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Where header `index` begins and ends.
    fn span(&self, index: usize) -> (usize, usize) {
        let at = |index: usize| self.starts.get(index).copied().unwrap_or(0);
        (at(index), at(index + 1))
    }

    /// The bytes of the headers with everything zero that is not always the same.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        for field in &self.fields {
            if let What::Fixed(value) = field.what {
                put(&mut bytes, field, value);
            }
        }
        bytes
    }

    /// Where a length counts from, to the end of the packet.
    pub(crate) fn length_from(&self, field: &Placed) -> Option<u16> {
        let What::Length(span) = field.what else { return None };
        let (begin, end) = self.span(field.header);
        let from = match span {
            Span::WithHeader => begin,
            Span::BehindHeader => end,
            Span::From(bytes) => begin + usize::from(bytes),
        };
        u16::try_from(from).ok()
    }

    /// The checksums, from the innermost on. No more than [`MAX_SUMS`] of the Internet's kind.
    pub(crate) fn checksums(&self) -> Option<Vec<Checksum>> {
        let mut sums: Vec<Checksum> = (self.fields.iter().rev())
            .filter_map(|field| match field.what {
                What::Checksum(covers, fault) => {
                    Some(Checksum { header: field.header, at: field.at(), covers, fault })
                }
                _ => None,
            })
            .collect();
        let count = sums.iter().filter(|sum| sum.covers != Covers::Crc32c).count();
        // A CRC covers no checksum; apart from the others it does not count among the bits of `covered`.
        sums.sort_by_key(|sum| sum.covers == Covers::Crc32c);
        (count <= MAX_SUMS).then_some(sums)
    }

    /// Whether `sum` covers the byte at `at` of the headers; twice is not distinguished, because no field but
    /// a length is, and that one is known from [`Layout::pseudo_from`].
    pub(crate) fn covers(&self, sum: &Checksum, at: usize) -> bool {
        let (begin, end) = self.span(sum.header);
        match sum.covers {
            Covers::Header => (begin..end).contains(&at),
            Covers::ToEnd | Covers::Crc32c => at >= begin,
            Covers::ToEndAndAddresses { .. } => {
                let addresses = self.addresses_before(sum.header);
                at >= begin || addresses.iter().flatten().any(|range| range.contains(&at))
            }
        }
    }

    /// Where source and final destination lie of the IP header before header `index`: a routing header with
    /// segments left has the latter (RFC 8200 §8.1).
    fn addresses_before(&self, index: usize) -> Option<[Range<usize>; 2]> {
        let ip = (0..index).rev().find(|&before| self.is_ip.get(before) == Some(&true))?;
        let range = |field: &Placed| {
            let (begin, end, _) = field.bytes();
            begin..end
        };
        let of = |name| self.fields.iter().find(|field| field.header == ip && field.name == name);
        let segment = self.last_segments.get(ip..index)?.iter().flatten().next_back();
        let destination = match segment {
            Some(&segment) => self.fields.get(segment),
            None => of("destination"),
        };
        Some([range(of("source")?), range(destination?)])
    }

    /// From where to the end of the packet the length in the pseudo header of `sum` counts, if it has one.
    pub(crate) fn pseudo_from(&self, sum: &Checksum) -> Option<u16> {
        let addressed = matches!(sum.covers, Covers::ToEndAndAddresses { .. });
        addressed.then(|| self.span(sum.header).0 as u16)
    }

    /// The sum of what `sum` covers of the headers as they are in `bytes`, and of the pseudo header without its
    /// length.
    pub(crate) fn base(&self, sum: &Checksum, bytes: &[u8]) -> u16 {
        let (begin, end) = self.span(sum.header);
        let header = match sum.covers {
            Covers::Header => bytes.get(begin..end),
            _ => bytes.get(begin..self.len()),
        };
        let mut total = Sum::ZERO.add_bytes(header.unwrap_or_default());
        if let (Covers::ToEndAndAddresses { .. }, Some(addresses)) =
            (sum.covers, self.addresses_before(sum.header))
        {
            for range in addresses {
                total = total.add_bytes(bytes.get(range).unwrap_or_default());
            }
            let protocol = self.protocols.get(sum.header).copied().flatten().unwrap_or(0);
            total = total.add_bytes(&protocol.to_be_bytes());
        }
        total.folded()
    }

    /// Where header `index` begins.
    pub(crate) fn start(&self, index: usize) -> u16 {
        self.span(index).0 as u16
    }

    /// The fields that change, with what they hold.
    pub(crate) fn changing(&self) -> impl Iterator<Item = (&Placed, &Shape, Per)> {
        self.fields.iter().filter_map(|field| match &field.what {
            What::Changing { shape, per, .. } => Some((field, shape, *per)),
            _ => None,
        })
    }
}

/// Which field of a routing header holds where the packet ends up, unless it has arrived: the first segment of
/// segment routing (RFC 8754 §2), the last one of others (RFC 8200 §8.1).
fn last_segment(header: &Header, lay: &Lay) -> Option<usize> {
    let Header::Routing(routing) = header else { return None };
    let arrived = routing.segments_left.fixed() == Some(Number::new(0));
    let mut segments = (0..).zip(lay.items()).filter(|(_, item)| item.name == "segment");
    let last = match routing.is_segment_routing() {
        true => segments.next(),
        false => segments.last(),
    };
    last.map(|(number, _)| number).filter(|_| !arrived)
}

/// The number by which a header names the first of those behind it.
fn number_of(behind: &[Header], space: Space) -> u128 {
    let none = match space {
        Space::Bottom => 1,
        // "No next header" is for IPv6 (RFC 8200 §4.7); 59 is reserved for it in IPv4 as well.
        Space::IpProtocol => 59,
        // A local experiment (IEEE 802 §9.2.4), since payload must have some type.
        Space::EtherType => 0x88b5,
    };
    match behind {
        [next, rest @ ..] => next.spec().number(space, rest.first()).map_or(none, u128::from),
        [] => none,
    }
}

/// Writes `value` where `field` lies, whose bits are zero so far.
pub(crate) fn put(bytes: &mut [u8], field: &Placed, value: u128) {
    let (begin, end, shift) = field.bytes();
    // A field of up to 128 bits that does not begin with a byte has at most 121.
    let value = (value << shift).to_be_bytes();
    let len = end - begin;
    let from = value.len().saturating_sub(len);
    if let Some(to) = bytes.get_mut(begin..end) {
        for (to, from) in to.iter_mut().zip(value.iter().skip(from)) {
            *to |= from;
        }
    }
}
