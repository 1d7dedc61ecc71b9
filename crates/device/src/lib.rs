//! A device whose limits are known: what a tester finds out about it is held against them.
//!
//! A [`Device`] is a namespace with two ports and an XDP program that carries frames from the one to the other. It runs on the CPU that
//! brings a frame: no thread of it can be kept waiting and lose frames that a wire would not. Gone when it is dropped, or the process ends.

mod skeleton;

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use wirebeat_netlink::Netlink;
use wirebeat_testbed::{Offload, Offloads, Options, Testbed};

/// What a device does to frames from `a` to `b`; the way back has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Frames that find no token are dropped.
    pub bucket: Option<TokenBucket>,
    /// Each so many-th frame is dropped.
    pub every: Option<u64>,
    /// The share of frames that is dropped at random, of 1, to 2⁻³².
    pub loss: f64,
}

/// A token bucket, which polices: nothing waits in it. A frame costs its bytes with preamble, FCS and gap (24 bytes more than the
/// program sees), so that `bits_per_second` is the speed of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// The speed of the line, up to 144 Gbit/s.
    pub bits_per_second: u64,
    /// Bytes that may leave at once. A full bucket is full after a second of silence, however deep.
    pub depth: u64,
    /// Nothing leaves so long after a frame that found no tokens, as with a device that has to recover from an overload.
    pub penalty: Duration,
}

/// What became of the frames from `a` to `b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// That came.
    pub came: u64,
    /// That left.
    pub passed: u64,
    /// Dropped for want of tokens, or in the penalty for it.
    pub over: u64,
    /// Dropped by number or at random.
    pub dropped: u64,
}

/// Two ends, `wb0` at 10.77.0.1 and `wb1` at 10.77.0.2, and such a device between them.
#[derive(Debug)]
pub struct Device {
    /// The ends, and the namespace of the device with ports `p0` and `p1`.
    pub bed: Testbed,
    _links: [Link; 2],
    buckets: MapHandle,
    off: MapHandle,
}

/// What holds an attached program: it goes with this.
struct Attached {
    links: [Link; 2],
    buckets: MapHandle,
    off: MapHandle,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

impl Device {
    /// Lays the cables and switches it on.
    ///
    /// # Errors
    /// What the system does not permit.
    pub fn new(options: &Options, limits: Limits) -> io::Result<Device> {
        // a frame is redirected only to a cable whose far end takes it by NAPI, which GRO switches on; that its checksum was left to a
        // device is forgotten on the way
        let offloads = Offloads { gro: Offload::On, checksum: Offload::Off, ..options.offloads };
        let bed = Testbed::between(&Options { offloads, ..*options }).map_err(failed)?;
        let namespace = bed.device.clone().ok_or_else(|| failed("there is no device"))?;
        let ports = ["p0", "p1"].map(|port| {
            let mut netlink = Netlink::open_in(&namespace).map_err(failed)?;
            Ok::<_, io::Error>(netlink.link_by_name(port).map_err(failed)?.index.get())
        });
        let [p0, p1] = ports;
        let ports = [p0?, p1?];
        let Attached { links, buckets, off } =
            namespace.run(move || attach(ports, limits)).map_err(failed)??;
        Ok(Device { bed, _links: links, buckets, off })
    }

    /// Switches the device off, so that nothing passes from `a` to `b` and nothing is counted, or on again.
    ///
    /// # Errors
    /// A kernel that does not take it.
    pub fn switch(&self, on: bool) -> io::Result<()> {
        let off = u32::from(!on).to_ne_bytes();
        self.off.update(&0u32.to_ne_bytes(), &off, MapFlags::ANY).map_err(failed)
    }

    /// What became of the frames so far.
    ///
    /// # Errors
    /// A kernel that says nothing of the program's memory.
    pub fn carried(&self) -> io::Result<Carried> {
        let value = self.buckets.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let value = value.unwrap_or_default();
        // `struct bucket`: a lock with its padding, the time, the tokens, the end of the penalty
        let word = |number: usize| {
            let bytes = value.get(number * 8..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        Ok(Carried { came: word(4), passed: word(5), over: word(6), dropped: word(7) })
    }
}

fn attach(ports: [u32; 2], limits: Limits) -> io::Result<Attached> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::DeviceSkelBuilder::default().open(&mut storage).map_err(failed)?;
    if let Some(data) = open.maps.rodata_data.as_deref_mut() {
        if let Some(bucket) = limits.bucket {
            data.limits.bytes_per_second = bucket.bits_per_second / 8;
            data.limits.depth = bucket.depth;
            data.limits.penalty_ns = bucket.penalty.as_nanos() as u64;
        }
        data.limits.every = limits.every.unwrap_or(0);
        data.limits.random = (limits.loss * 2f64.powi(32)).round() as u64;
    }
    let skeleton = open.load().map_err(failed)?;
    let egress = |way: u32, port: u32| {
        let (key, port) = (way.to_ne_bytes(), port.to_ne_bytes());
        skeleton.maps.egress.update(&key, &port, MapFlags::ANY).map_err(failed)
    };
    egress(0, ports[1])?;
    egress(1, ports[0])?;
    let there = skeleton.progs.wb_there.attach_xdp(ports[0] as i32).map_err(failed)?;
    let back = skeleton.progs.wb_back.attach_xdp(ports[1] as i32).map_err(failed)?;
    let buckets = MapHandle::try_from(&skeleton.maps.buckets).map_err(failed)?;
    let off = MapHandle::try_from(&skeleton.maps.off).map_err(failed)?;
    Ok(Attached { links: [there, back], buckets, off })
}
