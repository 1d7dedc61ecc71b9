//! The physical limit of this machine: live frames redirected untouched, or just copied, counted and dropped
//! at the far end. The benchmark prints Wirebeat's rate as a share of it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags};

use super::dispatcher;
use super::mapped::Mapped;
use super::skeletons::bare::BareSkelBuilder;
use super::test_run::{self, Call};

fn failed(error: libbpf_rs::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

/// What the far end does with a frame before it drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// It counts.
    Counts,
    /// It counts and reads the clock: the least that anybody does who measures delay.
    Times,
}

/// A program at the far end that counts and drops; detached when dropped.
#[derive(Debug)]
pub struct Sink {
    _link: Link,
    counted: libbpf_rs::MapHandle,
}

/// Attaches the counting program to interface `index` of the caller's namespace.
pub fn sink(index: u32, far_end: FarEnd) -> io::Result<Sink> {
    let mut storage = MaybeUninit::uninit();
    let mut open = BareSkelBuilder::default().open(&mut storage).map_err(failed)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.timed = u32::from(far_end == FarEnd::Times);
    }
    let skeleton = open.load().map_err(failed)?;
    let link = skeleton.progs.wb_count_and_drop.attach_xdp(index as i32).map_err(failed)?;
    let counted = libbpf_rs::MapHandle::try_from(&skeleton.maps.counted).map_err(failed)?;
    Ok(Sink { _link: link, counted })
}

impl Sink {
    /// Frames counted so far.
    pub fn count(&self) -> io::Result<u64> {
        let per_cpu =
            self.counted.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let number =
            |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(per_cpu.unwrap_or_default().iter().map(number).sum())
    }
}

/// What is sent flat out.
#[derive(Clone, Copy, Debug)]
pub struct Flood<'a> {
    /// Frames of these lengths, without FCS, are copied in turn into those that the kernel makes; without any, they are
    /// redirected as they are, 60 bytes long. Turns end after 24.
    pub copied: &'a [u16],
    /// Frames of one batch of the test run.
    pub batch: u32,
    /// Frames of one call.
    pub call: u32,
    /// For how long.
    pub time: Duration,
}

impl Flood<'_> {
    /// A call that takes so long that its own cost does not count.
    pub const LONG_CALL: u32 = 1 << 16;
}

/// Sends flat out from interface `index` (of the caller's namespace), on the CPU of the caller. Returns how
/// long it took.
pub fn flood(index: u32, flood: Flood<'_>) -> io::Result<Duration> {
    let Flood { copied, batch, call, time } = flood;
    let frame = vec![0; copied.iter().copied().max().unwrap_or(60).into()];
    let mut storage = MaybeUninit::uninit();
    let mut open = BareSkelBuilder::default().open(&mut storage).map_err(failed)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.mixed.iter_mut().zip(copied.iter().cycle()).for_each(|(to, &len)| *to = len.into());
        rodata.base_len = frame.len() as u32;
    }
    let skeleton = open.load().map_err(failed)?;
    skeleton
        .maps
        .bare_egress
        .update(&0u32.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
        .map_err(failed)?;
    let (_entered, ()) = dispatcher::enter(skeleton.progs.wb_bare_transmit.as_fd(), || ())?;
    let start = Instant::now();
    while start.elapsed() < time {
        test_run::run(
            skeleton.progs.wb_bare_transmit.as_fd(),
            Call { frame: &frame, repeat: call, batch },
        )?;
    }
    Ok(start.elapsed())
}

/// What the bare ring tells of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its probe.
    Probe,
    /// Its first 128 bytes.
    Wide,
}

/// A program at the far end that tells of each frame with a probe and drops it, and the memory that it tells in: the least that
/// anybody does who tells user space of frames. It looks at no reader: what that has not read in time is gone.
#[derive(Debug)]
pub struct BareRing {
    _link: Link,
    memory: Mapped,
    /// Bytes of a record.
    record: usize,
    /// The mark of the next one.
    next: u64,
    lost: u64,
}

/// `BARE_SLOTS`.
const SLOTS: u64 = 65_536;

/// Attaches the telling program to interface `index` of the caller's namespace.
pub fn bare_ring(index: u32, told: Told) -> io::Result<BareRing> {
    /// Mark and time, before the bytes.
    const HEAD: usize = 16;
    let record = HEAD + if told == Told::Wide { 128 } else { 16 };
    let mut storage = MaybeUninit::uninit();
    let mut open = BareSkelBuilder::default().open(&mut storage).map_err(failed)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.wide = u32::from(told == Told::Wide);
    }
    open.maps.bare_ring.set_value_size(record as u32).map_err(failed)?;
    let skeleton = open.load().map_err(failed)?;
    let memory = Mapped::new(skeleton.maps.bare_ring.as_fd(), record * SLOTS as usize)?;
    let link = skeleton.progs.wb_bare_ring.attach_xdp(index as i32).map_err(failed)?;
    Ok(BareRing { _link: link, memory, record, next: 1, lost: 0 })
}

impl BareRing {
    /// Reads what is there, up to `most` records, and returns how many that were and a sum of what they say.
    pub fn read(&mut self, most: usize) -> (usize, u64) {
        let mut sum = 0_u64;
        for read in 0..most {
            let at = ((self.next - 1) % SLOTS) as usize * self.record;
            let mark = self.memory.load(at);
            if mark < self.next {
                return (read, sum);
            }
            self.lost += mark - self.next;
            sum = sum.wrapping_add(self.memory.load(at + 8) ^ self.memory.load(at + 16));
            self.next = mark + 1;
        }
        (most, sum)
    }

    /// Records that were written over before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
