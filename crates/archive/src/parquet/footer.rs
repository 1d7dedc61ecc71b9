//! Whether the numbers in a footer can be true, before the library takes them at their word.
//!
//! A footer is one struct of Thrift in its compact protocol (thrift-compact-protocol.md; `FileMetaData` of
//! parquet.thrift). A list or map says how many elements follow, and the library goes on for so many: where an element
//! has no bytes, 33 of these keep it busy for most of a second. Here each element is paid for with a byte of the footer.

use super::pages::varint;

/// How deep structs, lists and maps may lie in each other; those of Parquet lie seven deep.
const DEPTH_MAX: u32 = 32;

/// Types of fields and elements.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;
/// The size of a list that stands behind its head.
const LONG: u8 = 15;

/// Whether a footer has as many elements as it says.
pub(super) fn is_plausible(footer: &[u8]) -> bool {
    let mut walk = Walk { rest: footer, empty: footer.len() as u64 };
    walk.of_struct(DEPTH_MAX).is_some()
}

/// What is left of a footer.
struct Walk<'a> {
    rest: &'a [u8],
    /// How many elements without bytes there may still be.
    empty: u64,
}

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        // up to ten bytes: those of 64 bits
        let len = self.rest.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
        let number = match varint(self.rest) {
            Some((number, _)) => number,
            None => u64::MAX,
        };
        self.rest = self.rest.get(len..)?;
        Some(number)
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    fn of_struct(&mut self, depth: u32) -> Option<()> {
        loop {
            let head = self.byte()?;
            if head & 0xf == 0 {
                return Some(());
            }
            if head >> 4 == 0 {
                self.number()?;
            }
            self.value(head & 0xf, depth)?;
        }
    }

    fn value(&mut self, of: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match of {
            TRUE | FALSE => Some(()),
            BYTE => self.skip(1),
            I16..=I64 => self.number().map(|_| ()),
            DOUBLE => self.skip(8),
            UUID => self.skip(16),
            BINARY => {
                let len = self.number()?;
                self.skip(len)
            }
            LIST | SET => {
                let head = self.byte()?;
                let size = match head >> 4 {
                    LONG => self.number()?,
                    size => size.into(),
                };
                self.elements(&[head & 0xf], size, depth)
            }
            MAP => match self.number()? {
                0 => Some(()),
                size => {
                    let types = self.byte()?;
                    self.elements(&[types >> 4, types & 0xf], size, depth)
                }
            },
            STRUCT => self.of_struct(depth),
            _ => None,
        }
    }

    fn elements(&mut self, types: &[u8], size: u64, depth: u32) -> Option<()> {
        if types.iter().all(|of| matches!(*of, TRUE | FALSE)) {
            // the library reads no byte for one
            self.empty = self.empty.checked_sub(size)?;
            return Some(());
        }
        if size > self.rest.len() as u64 {
            return None;
        }
        for _ in 0..size {
            types.iter().try_for_each(|&of| self.value(of, depth))?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer of 25 bytes with a map of 59 keys, each a list of a billion truths: the library went through them.
    #[test]
    fn a_footer_that_counts_more_than_it_has_is_refused() {
        let footer = [
            0x0b, 0x3b, 0x00, 0x31, 0x0c, 0x02, 0x00, 0x01, 0x02, 0x31, 0x04, 0x21, 0x66, 0x99,
            0x99, 0x99, 0x99, 0x99, 0xf2, 0x99, 0x99, 0x99, 0x5d, 0x31, 0x0c,
        ];
        assert!(!is_plausible(&footer));
        // a list of 2^31 truths, a map of so many pairs of them, and a list of so many structs
        assert!(!is_plausible(&[0x19, 0xf1, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00]));
        assert!(!is_plausible(&[0x1b, 0x80, 0x80, 0x80, 0x80, 0x08, 0x11, 0x00]));
        assert!(!is_plausible(&[0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00]));
        // many lists, none of them too long by itself
        let many: Vec<u8> = [0x19, 0xf1, 0x20].repeat(20);
        assert!(!is_plausible(&[&many[..], &[0]].concat()));
    }

    #[test]
    fn structs_lists_and_texts_that_are_all_there_are_plausible() {
        // version 1, a list of two structs with a name each, three rows, and a truth
        let footer = [
            0x15, 0x02, 0x19, 0x2c, 0x48, 0x01, b'a', 0x00, 0x48, 0x01, b'b', 0x00, 0x16, 0x06,
            0x11, 0x00,
        ];
        assert!(is_plausible(&footer));
        assert!((0..footer.len()).all(|len| !is_plausible(&footer[..len])));
        assert!(!is_plausible(&[0x1c; 100]), "structs in structs without an end");
    }
}
