//! What a header is made of: its fields in the order of the wire.
//!
//! Each header lays itself out here, field by field, and so says once how long it is, what its fields are
//! called, how they change, which of them are lengths, checksums or the number of what follows. The
//! checks of the language, the compiler and `explain` all read it. A header knows nothing of its
//! neighbours: lengths, numbers and checksums are filled in by `compile/frame.rs`.

use wirebeat_units::Fault;

use super::header::Space;
use super::number::Number;
use super::pattern::{Field, FieldValue, Per};
use crate::values::Shape;

/// A field of a header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// The key that it is written with, or the standard's name for what cannot be written.
    pub(crate) name: &'static str,
    /// Its width.
    pub(crate) bits: u32,
    pub(crate) what: What,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// The same in every frame.
    Fixed(u128),
    /// It changes; the first value is for those who only look.
    Changing { shape: Shape, per: Per, first: u128 },
    /// How long something is.
    Length(Span),
    /// The number of the header that follows.
    Next(Space),
    /// A checksum.
    Checksum(Covers, ChecksumFault),
    /// It counts the frames of the flow; stamped at the last moment.
    Count,
}

/// What a length measures, up to the end of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// From the beginning of this header on.
    WithHeader,
    /// From behind this header on.
    BehindHeader,
    /// From so many bytes behind the beginning of this header on.
    From(u16),
}

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Covers {
    /// This header alone (RFC 791).
    Header,
    /// From this header to the end of the packet (RFC 792).
    ToEnd,
    /// The same, and the addresses, length and protocol of the IP header before (RFC 768, RFC 9293).
    ToEndAndAddresses {
        /// Whether zero means that there is none, so that all ones are sent for it (RFC 768).
        zero_is_none: bool,
    },
    /// From this header to the end, as a CRC32c (RFC 9260, Appendix A).
    Crc32c,
}

/// What is deliberately wrong with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumFault {
    /// Nothing.
    None,
    /// It is one more than it should be.
    OneMore,
}

/// The fields of a header, as they are laid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lay {
    items: Vec<Item>,
    bits: u32,
    problem: Option<(&'static str, Fault)>,
    /// Bytes that the packet is a multiple of from the beginning of this header on; 0: any.
    align: u16,
}

impl Lay {
    /// A field that is written in the scenario.
    pub(super) fn field<T: FieldValue>(&mut self, name: &'static str, bits: u32, field: &Field<T>) {
        if let Err(why) = field.check(bits) {
            self.problem.get_or_insert((name, why));
            return self.fixed(name, bits, 0);
        }
        let first = field.first().to_bits();
        let what = match field.shape(bits) {
            Some((shape, per)) => What::Changing { shape, per, first },
            None => What::Fixed(first),
        };
        self.push(name, bits, what);
    }

    /// A field with a value of its own.
    pub(super) fn fixed(&mut self, name: &'static str, bits: u32, value: u128) {
        self.push(name, bits, What::Fixed(value));
    }

    /// Bytes as they are.
    pub(super) fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let value = chunk.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
            self.fixed(name, chunk.len() as u32 * 8, value);
        }
    }

    /// A length, unless the scenario says what stands there.
    pub(super) fn length(
        &mut self,
        name: &'static str,
        bits: u32,
        written: Option<Number>,
        span: Span,
    ) {
        self.written_or(name, bits, written, What::Length(span));
    }

    /// The number of what follows, unless the scenario says what stands there.
    pub(super) fn next(
        &mut self,
        name: &'static str,
        bits: u32,
        written: Option<Number>,
        space: Space,
    ) {
        self.written_or(name, bits, written, What::Next(space));
    }

    /// A checksum of 16 bits, or of 32 where it is a CRC.
    pub(super) fn checksum(
        &mut self,
        name: &'static str,
        written: super::header::checksum::Checksum,
        covers: Covers,
    ) {
        use super::header::checksum::Checksum;
        let bits = if covers == Covers::Crc32c { 32 } else { 16 };
        match written {
            Checksum::On => self.push(name, bits, What::Checksum(covers, ChecksumFault::None)),
            Checksum::Wrong => {
                self.push(name, bits, What::Checksum(covers, ChecksumFault::OneMore))
            }
            Checksum::Off => self.fixed(name, bits, 0),
            Checksum::Set(number) => self.written_or(name, bits, Some(number), What::Count),
        }
    }

    /// A field that counts frames.
    pub(super) fn count(&mut self, name: &'static str, bits: u32) {
        self.push(name, bits, What::Count);
    }

    /// From here on, the packet is a multiple of `bytes` long.
    pub(super) fn align(&mut self, bytes: u16) {
        self.align = bytes;
    }

    fn written_or(&mut self, name: &'static str, bits: u32, written: Option<Number>, what: What) {
        match written {
            Some(number) => self.field(name, bits, &Field::Fixed(number)),
            None => self.push(name, bits, what),
        }
    }

    fn push(&mut self, name: &'static str, bits: u32, what: What) {
        self.bits += bits;
        self.items.push(Item { name, bits, what });
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The header's length in bytes.
    pub(crate) fn len(&self) -> u16 {
        u16::try_from(self.bits / 8).unwrap_or(u16::MAX)
    }

    pub(crate) fn alignment(&self) -> u16 {
        self.align
    }

    /// The first field that does not hold what it is given: its key, and why.
    pub(crate) fn problem(&self) -> Option<(&'static str, Fault)> {
        self.problem.clone()
    }
}
