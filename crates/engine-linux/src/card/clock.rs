//! The clock of a card (`/dev/ptp*`, `linux/ptp_clock.h`) and its difference to the clock of the run.
//!
//! A thread of its own reads the card's clock every 10 ms between two readings of the system's and follows the difference
//! (`clock_offset`): it may take microseconds to read a register of a card, which nobody who sends or receives should wait for.
//! Those take a copy of the last difference before they convert a batch.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_units::Nanos;

use crate::clock_offset::{Bounds, ClockOffset, Offset};
use crate::time::RealtimeToMonotonic;

/// How often it is read.
const REFRESH: Duration = Duration::from_millis(10);
/// Readings before the first conversion, and how far apart: the drift is known to a few millionths then.
const FIRST_READINGS: usize = 20;
const FIRST_APART: Duration = Duration::from_millis(5);
/// Readings of the card's clock for one of ours: the narrowest counts.
const SAMPLES: usize = 5;
/// How fast a card's clock drifts from the system's at most: crystals are within 100 millionths, and a servo moves a clock by
/// some hundreds more.
const LIMIT_PPB: i64 = 1_000_000;
/// `PTP_MAX_SAMPLES`.
const SAMPLES_MAX: usize = 25;

/// `struct ptp_clock_time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct ClockTime {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

impl ClockTime {
    /// Nanoseconds; `None` before 1970 and behind 2554.
    fn ns(self) -> Option<u64> {
        let seconds = u64::try_from(self.seconds).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(self.nanoseconds.into())
    }
}

/// `struct ptp_sys_offset_precise`: all three at one moment.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Precise {
    device: ClockTime,
    realtime: ClockTime,
    raw: ClockTime,
    reserved: [u32; 4],
}

/// `struct ptp_sys_offset_extended`: system, card, system.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Extended {
    samples: u32,
    /// The system's clock; realtime unless the kernel takes another (Linux 6.13).
    clock: i32,
    reserved: [u32; 2],
    times: [[ClockTime; 3]; SAMPLES_MAX],
}

/// `struct ptp_sys_offset`: system and card in turn.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Plain {
    samples: u32,
    reserved: [u32; 3],
    times: [ClockTime; 2 * SAMPLES_MAX + 1],
}

/// `_IOWR('=', number, size)`, `_IOW` (`asm-generic/ioctl.h`).
const fn request(directions: u32, number: u32, size: usize) -> libc::Ioctl {
    ((directions << 30) | ((size as u32) << 16) | ((b'=' as u32) << 8) | number) as libc::Ioctl
}
const PTP_SYS_OFFSET: libc::Ioctl = request(1, 5, size_of::<Plain>());
const PTP_SYS_OFFSET_PRECISE: libc::Ioctl = request(3, 8, size_of::<Precise>());
const PTP_SYS_OFFSET_EXTENDED: libc::Ioctl = request(3, 9, size_of::<Extended>());

/// How a card's clock is read beside the system's, the most exact first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Both at one moment, by the card (PCIe PTM and the like).
    Precise,
    /// The register between two readings of the clock that the run keeps.
    ExtendedMonotonic,
    /// The same, with the clock of the day.
    Extended,
    /// The driver's whole call between two readings of the clock of the day.
    Plain,
}

impl Method {
    const ALL: [Method; 4] =
        [Method::Precise, Method::ExtendedMonotonic, Method::Extended, Method::Plain];

    fn name(self) -> &'static str {
        match self {
            Method::Precise => "PTP_SYS_OFFSET_PRECISE",
            Method::ExtendedMonotonic | Method::Extended => "PTP_SYS_OFFSET_EXTENDED",
            Method::Plain => "PTP_SYS_OFFSET",
        }
    }
}

/// Reads a card's clock.
#[derive(Debug)]
struct Reader {
    file: File,
    method: Method,
    realtime: RealtimeToMonotonic,
}

/// How far the card's clock is ahead of `CLOCK_MONOTONIC`, and when that was read.
type Reading = (Bounds, Nanos);

impl Reader {
    fn open(path: &str) -> io::Result<(Reader, Reading)> {
        let file = File::open(path)?;
        let realtime = RealtimeToMonotonic::new();
        let mut reader = Reader { file, method: Method::Plain, realtime };
        let mut failed = io::Error::from(io::ErrorKind::Unsupported);
        for method in Method::ALL {
            reader.method = method;
            match reader.read() {
                Ok(reading) => return Ok((reader, reading)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The narrowest of several readings.
    fn read(&mut self) -> io::Result<Reading> {
        self.realtime.refresh(Nanos::MAX);
        let steps = self.realtime.steps();
        let reading = match self.method {
            Method::Precise => self.precise(),
            Method::ExtendedMonotonic => self.extended(libc::CLOCK_MONOTONIC),
            Method::Extended => self.extended(libc::CLOCK_REALTIME),
            Method::Plain => self.plain(),
        };
        // of no use if the clock of the day was set in between
        self.realtime.refresh(Nanos::MAX);
        let reading = reading?;
        match self.realtime.steps() == steps || self.method == Method::ExtendedMonotonic {
            true => reading.ok_or_else(|| io::ErrorKind::InvalidData.into()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    /// A reading of the card's clock between two of the clock of the day.
    fn bracketed(&self, before: u64, card: u64, after: u64) -> Reading {
        let error = self.realtime.error().get();
        let [before, after] = [before, after].map(|time| self.realtime.convert(time).get());
        (Bounds::of_reading(before, card, after).widened(error), Nanos::new(after))
    }

    fn precise(&self) -> io::Result<Option<Reading>> {
        let mut times = Precise::default();
        self.call(PTP_SYS_OFFSET_PRECISE, &mut times)?;
        let pair = times.realtime.ns().zip(times.device.ns());
        Ok(pair.map(|(realtime, card)| self.bracketed(realtime, card, realtime)))
    }

    fn extended(&self, clock: libc::clockid_t) -> io::Result<Option<Reading>> {
        let times = [[ClockTime::default(); 3]; SAMPLES_MAX];
        let samples = SAMPLES as u32;
        let mut all = Extended { samples, clock, reserved: [0; 2], times };
        self.call(PTP_SYS_OFFSET_EXTENDED, &mut all)?;
        let reading = |[before, card, after]: &[ClockTime; 3]| {
            let (before, card, after) = (before.ns()?, card.ns()?, after.ns()?);
            Some(match clock {
                libc::CLOCK_MONOTONIC => {
                    (Bounds::of_reading(before, card, after), Nanos::new(after))
                }
                _ => self.bracketed(before, card, after),
            })
        };
        Ok(narrowest(all.times[..SAMPLES].iter().filter_map(reading)))
    }

    fn plain(&self) -> io::Result<Option<Reading>> {
        let times = [ClockTime::default(); 2 * SAMPLES_MAX + 1];
        let mut all = Plain { samples: SAMPLES as u32, reserved: [0; 3], times };
        self.call(PTP_SYS_OFFSET, &mut all)?;
        let used = &all.times[..2 * SAMPLES + 1];
        let reading = |of: &[ClockTime]| match of {
            [before, card, after] => Some(self.bracketed(before.ns()?, card.ns()?, after.ns()?)),
            _ => None,
        };
        Ok(narrowest(used.windows(3).step_by(2).filter_map(reading)))
    }

    fn call<T: Copy>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        let mut room = MaybeUninit::new(*argument);
        // SAFETY: the request says how long the argument is, and the kernel reads and writes so much of `room`.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), request, room.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was a value before, and is plain integers, for which all bits are values.
        *argument = unsafe { room.assume_init() };
        Ok(())
    }
}

fn narrowest(readings: impl Iterator<Item = Reading>) -> Option<Reading> {
    readings.min_by_key(|(bounds, _)| bounds.width())
}

/// What is known of the clock, for those who convert by it.
#[derive(Debug)]
struct SharedClock {
    offset: Mutex<Offset>,
    steps: AtomicU64,
    stop: AtomicBool,
}

/// The clock of a card, followed by a thread until this is dropped.
#[derive(Debug)]
pub struct CardClock {
    path: String,
    name: Option<String>,
    method: Method,
    shared: Arc<SharedClock>,
    thread: Option<JoinHandle<()>>,
}

impl CardClock {
    /// Follows `/dev/ptp` and this number. Takes a tenth of a second, in which the drift is learnt.
    ///
    /// # Errors
    /// The system's: there is no such device here, it may not be opened, or its clock cannot be read.
    pub fn open(number: u32) -> io::Result<CardClock> {
        let path = path(number);
        let (mut reader, (bounds, at)) = Reader::open(&path)?;
        let mut offset = ClockOffset::new(LIMIT_PPB, bounds, at);
        for _ in 0..FIRST_READINGS {
            thread::sleep(FIRST_APART);
            let (bounds, at) = reader.read()?;
            offset.take(bounds, at);
        }
        let shared = Arc::new(SharedClock {
            offset: Mutex::new(*offset.offset()),
            steps: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let (method, followed) = (reader.method, Arc::clone(&shared));
        let follow = move || follow(reader, offset, &followed);
        let thread = thread::Builder::new().name("wb-card-clock".to_owned()).spawn(follow)?;
        let name = fs::read_to_string(format!("/sys/class/ptp/ptp{number}/clock_name"));
        let name = name.ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Ok(CardClock { path, name, method, shared, thread: Some(thread) })
    }

    /// Its device: "/dev/ptp0".
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What the driver calls it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How it is read: "PTP_SYS_OFFSET_EXTENDED".
    pub fn read_by(&self) -> &'static str {
        self.method.name()
    }

    /// How often it, or the clock of the day, was seen to be set.
    pub fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    /// What it gains on the system's clock, in parts per billion: between the two.
    pub fn drift_ppb(&self) -> (i64, i64) {
        let drift = self.last().drift();
        (drift.low, drift.high)
    }

    /// The last difference.
    fn last(&self) -> Offset {
        *self.shared.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To convert its times by.
    pub(crate) fn conversion(&self) -> Conversion {
        let offset = self.last();
        Conversion { shared: Arc::clone(&self.shared), offset, worst: Nanos::ZERO }
    }
}

impl Drop for CardClock {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // a panic there was told, and there is nothing to undo
            let _ = thread.join();
        }
    }
}

/// The device of a card's clock.
pub fn path(number: u32) -> String {
    format!("/dev/ptp{number}")
}

fn follow(mut reader: Reader, mut offset: ClockOffset, shared: &SharedClock) {
    while !shared.stop.load(Ordering::Acquire) {
        thread::park_timeout(REFRESH);
        // while it fails (the card resets, or is gone) the bounds grow by what the clock may drift
        if let Ok((bounds, at)) = reader.read() {
            offset.take(bounds, at);
            shared.steps.store(offset.steps().into(), Ordering::Relaxed);
            *shared.offset.lock().unwrap_or_else(PoisonError::into_inner) = *offset.offset();
        }
    }
}

/// Converts stamps of a card to `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub(crate) struct Conversion {
    shared: Arc<SharedClock>,
    offset: Offset,
    worst: Nanos,
}

impl Conversion {
    /// Takes the last difference over, unless it is just being written. Call it before a batch is converted.
    pub(crate) fn refresh(&mut self) {
        if let Ok(offset) = self.shared.offset.try_lock() {
            self.offset = *offset;
        }
        let error = self.offset.error_at(MonotonicClock.now().get());
        self.worst = self.worst.max(error);
    }

    /// The monotonic time of a stamp in nanoseconds of the card's clock.
    #[inline]
    pub(crate) fn convert(&self, stamp: u64) -> Nanos {
        self.offset.convert(stamp)
    }

    /// What the card's clock shows at a monotonic time, in nanoseconds.
    #[inline]
    pub(crate) fn back(&self, time: Nanos) -> u64 {
        self.offset.back(time)
    }

    /// How far times can have been off by conversion, at the most so far.
    pub(crate) fn error(&self) -> Nanos {
        match self.worst {
            Nanos::ZERO => self.offset.error_at(MonotonicClock.now().get()),
            worst => worst,
        }
    }
}

/// A card's clock that shows a time, for tests without a card.
#[cfg(test)]
pub(crate) fn of_test(ahead: i64) -> Conversion {
    let bounds = Bounds { low: ahead, high: ahead };
    let offset = *ClockOffset::new(0, bounds, MonotonicClock.now()).offset();
    let steps = AtomicU64::new(0);
    let shared = SharedClock { offset: Mutex::new(offset), steps, stop: AtomicBool::new(false) };
    Conversion { shared: Arc::new(shared), offset, worst: Nanos::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered_as_the_kernel_numbers_them() {
        // linux/ptp_clock.h, by the C compiler
        assert_eq!(PTP_SYS_OFFSET as u32, 0x4340_3d05);
        assert_eq!(PTP_SYS_OFFSET_PRECISE as u32, 0xc040_3d08);
        assert_eq!(PTP_SYS_OFFSET_EXTENDED as u32, 0xc4c0_3d09);
    }

    #[test]
    fn times_of_a_card_are_nanoseconds_or_nothing() {
        let time = |seconds, nanoseconds| ClockTime { seconds, nanoseconds, reserved: 0 }.ns();
        assert_eq!(time(1_800_000_000, 7), Some(1_800_000_000_000_000_007));
        assert_eq!(time(-1, 0), None);
        assert_eq!(time(i64::MAX, 0), None);
    }

    #[test]
    fn the_narrowest_reading_counts() {
        let reading = |low, high| (Bounds { low, high }, Nanos::new(high as u64));
        let all = [reading(0, 900), reading(400, 500), reading(100, 800)];
        assert_eq!(narrowest(all.into_iter()), Some(reading(400, 500)));
        assert_eq!(narrowest([].into_iter()), None);
    }

    #[test]
    fn no_clock_is_an_error() {
        assert!(CardClock::open(u32::MAX).is_err());
        // other files do not know these requests
        let error = Reader::open("/dev/null").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
