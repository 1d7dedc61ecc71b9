//! Where a head ends, in any pieces; and the bytes of one that came in pieces, until it is whole.
//!
//! A head ends with the first line that is empty (RFC 9112 §2.1), whatever its other lines say. So the end does not depend on
//! how the bytes were divided, and a head is looked into once, when it is whole. Only what can never become a head is refused
//! before: a first byte that begins no method, or bytes that are not `HTTP/`.

use super::Side;
use crate::{Bad, HEAD_MAX};

/// Capacity of the first buffer of a head in pieces. Most heads fit.
const FIRST_CAPACITY: usize = 512;
const PREFIX: &[u8; 5] = b"HTTP/";

/// What the bytes so far end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// Empty lines before a request (RFC 9112 §2.2).
    Empty,
    EmptyCr,
    /// So many bytes of `HTTP/`.
    Prefix(u8),
    /// Within the start line.
    StartLine,
    /// Within a field line.
    Line,
    /// Behind an LF.
    LineStart,
    /// Behind an LF and a CR.
    LineStartCr,
}

impl Scan {
    pub(super) fn new(side: Side) -> Scan {
        match side {
            Side::Client => Scan::Prefix(0),
            Side::Server => Scan::Empty,
        }
    }
}

/// The bytes of a head that came in pieces. A state holds it boxed: that keeps a reader at 32 bytes.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<u8>);

impl Pieces {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    fn keep(&mut self, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            let capacity = needed.next_power_of_two().clamp(FIRST_CAPACITY, HEAD_MAX);
            self.0.reserve_exact(capacity.max(needed) - self.0.len());
        }
        self.0.extend_from_slice(bytes);
    }
}

/// A head that is not whole yet. The state of a reader holds its two parts.
#[derive(Debug)]
pub(super) struct Gathered<'s> {
    pub pieces: &'s mut Option<Box<Pieces>>,
    pub scan: &'s mut Scan,
    pub side: Side,
}

impl<'s> Gathered<'s> {
    /// Takes bytes as far as they belong to the head. Returns the head when it is whole: in place, if it came whole.
    ///
    /// # Errors
    ///
    /// When the bytes can become no head, and when it is longer than [`HEAD_MAX`].
    pub(super) fn take<'b: 's>(mut self, bytes: &mut &'b [u8]) -> Result<Option<&'s [u8]>, Bad> {
        let all = *bytes;
        let room = HEAD_MAX - self.pieces.as_ref().map_or(0, |pieces| pieces.len()).min(HEAD_MAX);
        let window = all.get(..room).unwrap_or(all);
        let Some(end) = self.end(window)? else {
            if window.len() == room {
                // Only a target can be that long in a request line.
                let target = self.side == Side::Server && *self.scan == Scan::StartLine;
                return Err(if target { Bad::TargetTooLong } else { Bad::HeadTooLong });
            }
            if !window.is_empty() {
                self.pieces.get_or_insert_default().keep(window);
            }
            *bytes = &[];
            return Ok(None);
        };
        let (head, rest) = all.split_at_checked(end).unwrap_or((all, &[]));
        *bytes = rest;
        Ok(Some(match self.pieces {
            None => head,
            Some(pieces) => {
                pieces.keep(head);
                &pieces.0
            }
        }))
    }

    /// The index behind the empty line that ends the head, counted in `bytes`.
    fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Bad> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            *self.scan = match (*self.scan, byte) {
                (Scan::Empty, b'\r') => Scan::EmptyCr,
                (Scan::Empty | Scan::EmptyCr, b'\n') => Scan::Empty,
                (Scan::EmptyCr, _) => return Err(Bad::LineEnd),
                (Scan::Empty, byte) if is_token(byte) => Scan::StartLine,
                (Scan::Empty, _) => return Err(Bad::Method),
                (Scan::Prefix(count), byte) => match PREFIX.get(usize::from(count)) {
                    Some(&expected) if expected != byte => return Err(Bad::NotHttp),
                    Some(_) => Scan::Prefix(count + 1),
                    None if byte == b'\n' => Scan::LineStart,
                    None => Scan::StartLine,
                },
                (Scan::StartLine | Scan::Line, _) => {
                    let Some(rest) = bytes.get(at..) else { return Ok(None) };
                    let Some(line) = memchr::memchr(b'\n', rest) else { return Ok(None) };
                    at += line;
                    Scan::LineStart
                }
                (Scan::LineStart, b'\r') => Scan::LineStartCr,
                (Scan::LineStart | Scan::LineStartCr, b'\n') => return Ok(Some(at + 1)),
                (Scan::LineStart | Scan::LineStartCr, _) => Scan::Line,
            };
            at += 1;
        }
        Ok(None)
    }
}

/// Whether the byte may stand in a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether the byte may stand in a field's value: visible, space, tab, or beyond ASCII (RFC 9110 §5.5).
pub(crate) const fn is_field_value(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}
