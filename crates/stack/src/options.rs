//! TCP options: what a segment says in them, and how they are written (RFC 9293 §3.2, RFC 7323, RFC 2018).
//!
//! Options come from anywhere. One whose length is wrong ends the reading; what was read before it counts.

use wirebeat_wire::checksum::Sum;

use crate::ranges::Range;
use crate::seq::Seq;

/// The most bytes of options that a header has room for.
pub const OPTIONS_MAX: usize = 40;
/// The most SACK blocks that fit into them (RFC 2018 §3).
pub const SACK_MAX: usize = 4;
/// Bytes that timestamps take in each segment, with the padding that RFC 7323 appendix A recommends.
pub const TIMESTAMPS_LEN: u16 = 12;
/// The largest shift of a window (RFC 7323 §2.3).
pub const WINDOW_SHIFT_MAX: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The clock of the sender, in its own ticks.
    pub value: u32,
    /// The last value that it got; 0 without an ACK.
    pub echo: u32,
}

impl Timestamps {
    /// Those that are all that `bytes` hold, in the order that RFC 7323 appendix A recommends.
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8; TIMESTAMPS_LEN as usize]) -> Option<Timestamps> {
        let [NOP, NOP, TIMESTAMPS, 10, a, b, c, d, e, f, g, h] = *bytes else { return None };
        Some(Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        })
    }
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size in bytes.
    pub mss: Option<u16>,
    /// By how many bits windows are shifted; at most [`WINDOW_SHIFT_MAX`].
    pub window_shift: Option<u8>,
    /// Whether SACK may be sent.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    pub(crate) sack: [Range; SACK_MAX],
    pub(crate) sack_len: u8,
}

impl Options {
    /// The SACK blocks in the order in which they stand.
    #[inline]
    pub fn sack(&self) -> &[Range] {
        self.sack.get(..usize::from(self.sack_len)).unwrap_or_default()
    }

    /// Adds a SACK block; `false` where there is no room for it.
    pub fn push_sack(&mut self, block: Range) -> bool {
        let timestamps = if self.timestamps.is_some() { usize::from(TIMESTAMPS_LEN) } else { 0 };
        let room = (OPTIONS_MAX - timestamps - 4) / 8;
        let Some(slot) = self.sack.get_mut(usize::from(self.sack_len)) else { return false };
        if usize::from(self.sack_len) >= room {
            return false;
        }
        *slot = block;
        self.sack_len += 1;
        true
    }

    /// Those that `bytes` hold, which follow the fixed header.
    #[inline]
    pub fn read(bytes: &[u8]) -> Options {
        // What nearly every segment of a session with timestamps has, and nothing else.
        if let Ok(bytes) = bytes.try_into()
            && let Some(timestamps) = Timestamps::read(bytes)
        {
            return Options { timestamps: Some(timestamps), ..Options::default() };
        }
        Options::read_any(bytes)
    }

    fn read_any(mut bytes: &[u8]) -> Options {
        let mut options = Options::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let Some(len) = rest.first().map(|len| usize::from(*len)).filter(|len| *len >= 2)
            else {
                break;
            };
            let (Some(content), Some(behind)) = (bytes.get(2..len), bytes.get(len..)) else {
                break;
            };
            options.take(*kind, content);
            bytes = behind;
        }
        options
    }

    /// Takes one option; one that is unknown or has a wrong length says nothing.
    fn take(&mut self, kind: u8, content: &[u8]) {
        match (kind, content) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            // RFC 7323 §2.3: a larger one is used as 14.
            (WINDOW_SCALE, &[shift]) => self.window_shift = Some(shift.min(WINDOW_SHIFT_MAX)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                let (value, echo) =
                    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                self.timestamps = Some(Timestamps { value, echo });
            }
            (SACK, blocks) if blocks.len() % 8 == 0 => {
                self.sack_len = 0;
                for (slot, [a, b, c, d, e, f, g, h]) in
                    self.sack.iter_mut().zip(blocks.as_chunks::<8>().0)
                {
                    let start = Seq(u32::from_be_bytes([*a, *b, *c, *d]));
                    *slot = Range::new(start, Seq(u32::from_be_bytes([*e, *f, *g, *h])));
                    self.sack_len += 1;
                }
            }
            _ => {}
        }
    }

    /// How many bytes they take, a multiple of 4 and at most [`OPTIONS_MAX`].
    #[inline]
    pub fn len(&self) -> usize {
        let mut len = if self.mss.is_some() { 4 } else { 0 };
        len += if self.window_shift.is_some() { 4 } else { 0 };
        len += if self.timestamps.is_some() { usize::from(TIMESTAMPS_LEN) } else { 0 };
        // Beside timestamps it takes the place of their padding (RFC 7323 appendix A leaves that to the sender).
        len += if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        len + if self.sack_len > 0 { 4 + 8 * usize::from(self.sack_len) } else { 0 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes them at the front of `into`, which has [`Options::len`] bytes.
    #[inline(always)]
    pub fn write(&self, into: &mut [u8]) {
        let mut rest = into;
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            rest = put(rest, [MSS, 4, a, b]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            let [x, y] = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
            let ([a, b, c, d], [e, f, g, h]) = (value.to_be_bytes(), echo.to_be_bytes());
            rest = put(rest, [x, y, TIMESTAMPS, 10, a, b, c, d, e, f, g, h]);
        } else if self.sack_permitted {
            rest = put(rest, [NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_shift {
            rest = put(rest, [NOP, WINDOW_SCALE, 3, shift]);
        }
        if self.sack_len > 0 {
            rest = put(rest, [NOP, NOP, SACK, 2 + 8 * self.sack_len]);
            for block in self.sack() {
                rest = put(rest, block.start.0.to_be_bytes());
                rest = put(rest, block.end.0.to_be_bytes());
            }
        }
    }
}

impl Options {
    /// The sum for the checksum, where `written` is how they are written.
    #[inline(always)]
    pub(crate) fn sum(&self, written: &[u8]) -> Sum {
        match (written.len(), self.timestamps) {
            (0, _) => Sum::ZERO,
            (12, Some(Timestamps { value, echo })) if !self.sack_permitted => {
                Sum::of_words([u32::from_be_bytes([NOP, NOP, TIMESTAMPS, 10]), value, echo])
            }
            _ => Sum::ZERO.add_bytes(written),
        }
    }
}

/// Puts `bytes` at the front of `into` and gives what is behind them.
#[inline]
fn put<const N: usize>(into: &mut [u8], bytes: [u8; N]) -> &mut [u8] {
    match into.split_first_chunk_mut::<N>() {
        Some((front, rest)) => {
            *front = bytes;
            rest
        }
        None => &mut [],
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub fn options() -> impl Strategy<Value = Options> {
        let blocks = prop::collection::vec((any::<u32>(), any::<u32>()), 0..5);
        let flags = (
            any::<Option<u16>>(),
            prop::option::of(0..15_u8),
            any::<bool>(),
            any::<Option<(u32, u32)>>(),
        );
        (flags, blocks).prop_map(|((mss, window_shift, sack_permitted, timestamps), blocks)| {
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            let mut options = Options { timestamps, ..Options::default() };
            for (start, end) in blocks {
                options.push_sack(Range::new(Seq(start), Seq(end)));
            }
            // As in life: those of a SYN and SACK blocks do not come together.
            if options.sack().is_empty() {
                options = Options { mss, window_shift, sack_permitted, ..options };
            }
            options
        })
    }

    #[test]
    fn the_options_of_a_syn_of_linux_are_read() {
        let bytes = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
        let options = Options::read(&bytes);
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let expected = Options {
            mss: Some(1460),
            window_shift: Some(7),
            sack_permitted: true,
            timestamps,
            ..Options::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn an_option_with_a_wrong_length_ends_the_reading() {
        for bytes in [
            &[2, 4, 5, 180, 3, 0, 3, 3, 7][..],
            &[2, 4, 5, 180, 3, 1, 9],
            &[2, 4, 5, 180, 8, 10, 1],
            &[2, 4, 5, 180, 8],
        ] {
            assert_eq!(
                Options::read(bytes),
                Options { mss: Some(1460), ..Options::default() },
                "{bytes:?}"
            );
        }
        let wide = Options::read(&[3, 3, 200, 0, 2, 4, 1, 1]);
        assert_eq!(
            wide,
            Options { window_shift: Some(14), ..Options::default() },
            "nothing behind the end"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(options in options()) {
            let mut bytes = vec![0xee; options.len()];
            options.write(&mut bytes);
            prop_assert!(bytes.len() <= OPTIONS_MAX && bytes.len() % 4 == 0);
            prop_assert_eq!(Options::read(&bytes), options);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..41)) {
            prop_assert!(Options::read(&bytes).sack().len() <= SACK_MAX);
        }
    }
}
