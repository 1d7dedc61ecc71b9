//! The physical limit of this machine: live frames redirected untouched, or just copied, counted and dropped
//! at the far end. The benchmark prints Wirebeat's rate as a share of it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags};

use super::dispatcher;
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
