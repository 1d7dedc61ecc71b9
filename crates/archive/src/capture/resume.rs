//! Where reading goes on after a wrong length: the next place at which frames stand one after another.
//!
//! A header of pcap says little about itself, so several have to follow one another, with lengths that can be and times that
//! are near each other. A block of pcapng says its length twice. The window bounds what is looked at, and a place is decided
//! by a few headers: time and memory are bounded whatever the bytes are.

use super::FRAME_MAX;
use super::frames::Found;
use super::input::ASK_MAX;
use super::pcap::{FRAME_HEADER, Pcap};
use super::pcapng::{AROUND, Section};

/// This number of frames one after another is not chance.
const SURE: usize = 3;
/// Times that are no further apart are near each other, in nanoseconds: a day.
const NEAR_NS: i64 = 86_400_000_000_000;
/// The longest block that is looked for: of the longest frame, with its options.
const BLOCK_MAX: usize = FRAME_MAX + 4096;
/// Bytes of the window before whose end no place is decided: a place needs a frame and the header behind it.
pub const MARGIN: usize = BLOCK_MAX + AROUND + FRAME_HEADER;
/// Headers that are looked at at the most to find frames inside one.
const STEPS: usize = 1 << 20;

const _: () = assert!(MARGIN < ASK_MAX);

/// What stands somewhere, by its looks.
#[derive(Clone, Copy, Debug)]
pub enum Looks {
    /// Something whole, so long, with its time in nanoseconds where it says one.
    Whole(usize, Option<i64>),
    /// The beginning of something whose end is not in sight.
    Begun,
    /// Too little to be seen.
    Short,
    Nothing,
}

/// What can say what stands somewhere.
pub trait Look {
    fn look(&self, bytes: &[u8]) -> Looks;
}

impl Look for Pcap {
    #[inline]
    fn look(&self, bytes: &[u8]) -> Looks {
        if bytes.len() < FRAME_HEADER {
            return Looks::Short;
        }
        let Some(Found::Frame { head, total, .. }) = self.frame(bytes) else {
            return Looks::Nothing;
        };
        let can_be = head.captured > 0
            && head.captured <= head.original
            && head.original as usize <= FRAME_MAX;
        match can_be {
            true if total <= bytes.len() => Looks::Whole(total, head.time_ns),
            true => Looks::Begun,
            false => Looks::Nothing,
        }
    }
}

impl Look for Section {
    fn look(&self, bytes: &[u8]) -> Looks {
        if bytes.len() < AROUND {
            return Looks::Short;
        }
        let Some((order, total)) = self.begins(bytes) else { return Looks::Nothing };
        if !(AROUND..=BLOCK_MAX).contains(&total) || !total.is_multiple_of(4) {
            return Looks::Nothing;
        }
        match bytes.get(total - 4..total) {
            None => Looks::Begun,
            Some(_) if order.u32(bytes, total - 4) == Some(total as u32) => {
                Looks::Whole(total, None)
            }
            Some(_) => Looks::Nothing,
        }
    }
}

fn are_near(one: Option<i64>, other: Option<i64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.abs_diff(other) <= NEAR_NS as u64)
}

/// Whether frames stand at the beginning of `bytes`: several, or as many as there are until the end of the file; fewer
/// than several have to be near the time `since`.
pub fn stand(look: &impl Look, bytes: &[u8], at_end: bool, since: Option<i64>) -> bool {
    let (mut rest, mut last, mut is_near) = (bytes, None, true);
    for count in 0..SURE {
        match look.look(rest) {
            Looks::Whole(total, time) if are_near(last, time) => {
                is_near &= count > 0 || are_near(since, time);
                (rest, last) = (rest.get(total..).unwrap_or_default(), time.or(last));
                if rest.is_empty() && at_end {
                    return is_near;
                }
            }
            Looks::Begun => return count > 0 && is_near,
            Looks::Short => return count > 1 && is_near,
            Looks::Whole(..) | Looks::Nothing => return false,
        }
    }
    true
}

/// Where in the frame of `len` bytes, at the beginning of `bytes`, other frames begin that go on behind its end without
/// one ending there: then its length is wrong. Frames that end where it ends are data that looks like frames.
#[cold]
pub fn spanned(look: &impl Look, bytes: &[u8], len: usize, at_end: bool) -> Option<usize> {
    let mut steps = 0;
    for start in FRAME_HEADER..len {
        let (mut at, mut count, mut last) = (start, 0, None);
        while let Looks::Whole(total, time) = look.look(bytes.get(at..).unwrap_or_default()) {
            steps += 1;
            if !are_near(last, time) || steps > STEPS {
                break;
            }
            (at, count, last) = (at + total, count + 1, time);
            if at == len {
                break;
            }
            if at > len && (count >= SURE || (at_end && at == bytes.len())) {
                return Some(start);
            }
        }
        if steps > STEPS {
            return None;
        }
    }
    None
}
