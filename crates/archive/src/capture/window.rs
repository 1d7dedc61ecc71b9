//! The frames of a capture in the order of their times, as far as those lie within a window; without one, in the order of
//! the file.
//!
//! Interfaces that are captured together, and CPUs that stamp side by side, bring frames some nanoseconds or milliseconds
//! out of order. So frames wait, with copies of their bytes, until the latest time that was read is a window later than
//! theirs. Memory is bounded: where too much waits, the earliest goes on before its window is over. What is still out of
//! order behind this is for whoever reads on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

use super::{Defect, Frame, Frames, LinkType, Place, ReadError, Tally};
use crate::time_series::OnBad;

/// The most that waits: bytes of frames, and frames.
const MOST_BYTES: usize = 64 << 20;
const MOST: usize = 1 << 17;
/// A frame's memory is kept for the next up to so many bytes, as most frames have.
const KEPT: usize = 1536;

/// Frames of a capture, put in order within a window.
#[derive(Debug)]
pub struct Window<R> {
    frames: Frames<R>,
    /// How far apart in time frames are put in order, in nanoseconds; `None`: they are not.
    width_ns: Option<i64>,
    /// By time, then by place in the file; and where it is in `held`.
    waiting: BinaryHeap<Reverse<(i64, u64, usize)>>,
    held: Vec<Held>,
    /// Places in `held` that are free.
    free: Vec<usize>,
    bytes: usize,
    /// The latest time that was read.
    latest: Option<i64>,
    /// The frame that it is at, in `held`.
    current: Option<usize>,
    /// Frames that were read, which number those that wait.
    read: u64,
    /// The number of the frame that left last, and how many left before one that had been read before them.
    left: u64,
    moved: u64,
    /// What comes behind all that waits.
    end: Option<Result<(), ReadError>>,
}

/// A frame that waits.
#[derive(Debug)]
struct Held {
    time_ns: Option<i64>,
    interface: u32,
    link: LinkType,
    original: u32,
    bytes: Vec<u8>,
    place: Place,
}

impl<R: Read> Window<R> {
    /// Of `frames`, which are put in order where they are no more than `width_ns` nanoseconds apart.
    pub fn new(frames: Frames<R>, width_ns: Option<u64>) -> Window<R> {
        Window {
            frames,
            width_ns: width_ns.map(|width| i64::try_from(width).unwrap_or(i64::MAX)),
            waiting: BinaryHeap::new(),
            held: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            latest: None,
            current: None,
            read: 0,
            left: 0,
            moved: 0,
            end: None,
        }
    }

    /// Goes to the next frame; says whether there is one.
    ///
    /// # Errors
    /// Those of [`Frames::advance`], behind the frames that were read before.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        match self.width_ns {
            None => self.frames.advance(),
            Some(width) => self.advance_in_order(width),
        }
    }

    fn advance_in_order(&mut self, width: i64) -> Result<bool, ReadError> {
        if let Some(place) = self.current.take() {
            if let Some(held) = self.held.get_mut(place) {
                self.bytes -= held.bytes.len();
                held.bytes.clear();
                if held.bytes.capacity() > KEPT {
                    held.bytes = Vec::new();
                }
            }
            self.free.push(place);
        }
        while self.end.is_none() && !self.is_due(width) {
            match self.frames.advance() {
                Ok(true) => self.hold(),
                Ok(false) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
        }
        if let Some(Reverse((_, number, place))) = self.waiting.pop() {
            self.moved += u64::from(number < self.left);
            self.left = self.left.max(number);
            self.current = Some(place);
            return Ok(true);
        }
        match self.end.replace(Ok(())) {
            Some(Err(error)) => Err(error),
            _ => Ok(false),
        }
    }

    /// Whether the earliest that waits has waited long enough, or too much does.
    fn is_due(&self, width: i64) -> bool {
        let Some(Reverse((first, ..))) = self.waiting.peek() else { return false };
        let later = self.latest.is_some_and(|latest| latest.saturating_sub(*first) > width);
        later || self.waiting.len() >= MOST || self.bytes >= MOST_BYTES
    }

    /// Lets the frame that was read wait.
    fn hold(&mut self) {
        let Frame { time_ns, interface, link, bytes, original } = self.frames.frame();
        // one without a time stays where it is
        let time = time_ns.or(self.latest).unwrap_or(i64::MIN);
        self.latest = Some(self.latest.map_or(time, |latest| latest.max(time)));
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let bytes = Vec::new();
                let place = Place::default();
                self.held.push(Held { time_ns, interface, link, original, bytes, place });
                self.held.len() - 1
            }
        };
        let Some(held) = self.held.get_mut(place) else { return };
        (held.time_ns, held.interface, held.link) = (time_ns, interface, link);
        (held.original, held.place) = (original, self.frames.place());
        held.bytes.clear();
        held.bytes.extend_from_slice(bytes);
        self.bytes += bytes.len();
        self.read += 1;
        self.waiting.push(Reverse((time, self.read, place)));
    }

    /// The frame that it is at.
    #[inline]
    pub fn frame(&self) -> Frame<'_> {
        let held = self.current.and_then(|place| self.held.get(place));
        held.map_or_else(
            || self.frames.frame(),
            |held| Frame {
                time_ns: held.time_ns,
                interface: held.interface,
                link: held.link,
                bytes: &held.bytes,
                original: held.original,
            },
        )
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        let held = self.current.and_then(|place| self.held.get(place));
        held.map_or_else(|| self.frames.place(), |held| held.place)
    }

    /// Frames that left behind one that follows them in the file.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// What it reads.
    pub fn frames(&self) -> &Frames<R> {
        &self.frames
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        self.frames.name()
    }

    /// What was read so far, with what waits.
    pub fn tally(&self) -> &Tally {
        self.frames.tally()
    }

    /// The error that ends the reading at the frame that it is at.
    pub fn error(&self, defect: Defect) -> ReadError {
        self.frames.error_at(self.place(), defect)
    }

    /// How to handle invalid frames.
    pub fn on_bad(&self) -> OnBad {
        self.frames.on_bad()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap of frames at these nanoseconds, each with its number as data.
    fn pcap(times: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        for (number, &time) in times.iter().enumerate() {
            bytes.extend([7, time, 20, 20].into_iter().flat_map(u32::to_le_bytes));
            bytes.extend([number as u8; 20]);
        }
        bytes
    }

    /// Numbers of frames as they come, how many were moved, and how it ended.
    fn read(bytes: &[u8], width: Option<u64>) -> (Vec<u8>, u64, bool) {
        let frames = Frames::new(bytes, "test", OnBad::Stop);
        let mut window = Window::new(frames, width);
        let mut all = Vec::new();
        let whole = loop {
            match window.advance() {
                Ok(true) => all.push(window.frame().bytes[0]),
                Ok(false) => break true,
                Err(_) => break false,
            }
        };
        assert!(window.advance().is_ok_and(|more| !more), "it stays at the end");
        (all, window.moved(), whole)
    }

    #[test]
    fn frames_are_put_in_order_within_the_window_and_no_further() {
        let bytes = pcap(&[100, 103, 101, 102, 110, 104, 200, 150, 300]);
        assert_eq!(read(&bytes, None), ((0..9).collect(), 0, true));
        assert_eq!(read(&bytes, Some(5)).0, [0, 2, 3, 1, 5, 4, 7, 6, 8]);
        assert_eq!(read(&bytes, Some(1)).0, [0, 2, 3, 1, 5, 4, 7, 6, 8]);
        assert_eq!(read(&bytes, Some(0)).1, 3);
        // equal times stay in the order of the file
        assert_eq!(read(&pcap(&[5, 5, 5, 4]), Some(100)), (vec![3, 0, 1, 2], 3, true));
    }

    #[test]
    fn what_was_read_before_an_error_comes_before_it() {
        let mut bytes = pcap(&[3, 2, 1]);
        bytes.extend([1, 2, 3]);
        assert_eq!(read(&bytes, Some(1000)), (vec![2, 1, 0], 2, false));
    }
}
