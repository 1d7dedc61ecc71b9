//! Loading the programs: sizes set, maps mapped, programs attached. What comes out owns plain file
//! descriptors and mappings, so that nothing borrows from libbpf's objects, and everything is gone
//! when the process ends, however it ends: links and maps are released with their descriptors.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenMapMut};
use wirebeat_engine::port::{LATE_AFTER, OWN_HISTOGRAMS, PortError, TxPlan};
use wirebeat_netlink::kernel_version;
use wirebeat_units::BufferLen;

use super::abi::{self, SLOT_HEAD};
use super::configure::size_rings;
use super::dispatcher::{self, Entered};
use super::mapped::Mapped;
use super::observations::{ObservationOptions, Observations, Rings};
use super::ring::{RingView, SlotRing};
use super::shared::Shared;
use super::skeletons::transmit::{TransmitSkel, TransmitSkelBuilder};
use super::warm_up::{self, WarmUp};
use super::{probe, verifier};

/// What a transmit core needs of the loaded program.
#[derive(Debug)]
pub(crate) struct Transmitter {
    pub(crate) program: OwnedFd,
    pub(crate) ring: SlotRing,
    pub(crate) view: RingView,
    pub(crate) orders: Arc<Mapped>,
    pub(crate) progress: Arc<Mapped>,
    pub(crate) tags: Mapped,
    pub(crate) departures: Mapped,
    pub(crate) histograms: Mapped,
    pub(crate) interruptions: Mapped,
    /// What the program keeps for itself from one frame to the next, and the numbers of frames.
    pub(crate) own: MapHandle,
    pub(crate) sequences: MapHandle,
    /// What makes calls cheap; `None` where that is not permitted.
    pub(crate) entered: Option<Entered>,
    /// What keeps the way warm while frames are waited for.
    pub(crate) warm_up: Option<WarmUp>,
    /// What is told of single frames.
    pub(crate) observations: Option<Observations>,
}

/// Sequence numbers that several transmit cores share.
#[derive(Debug)]
pub struct SharedSequences {
    pub(crate) map: MapHandle,
}

impl SharedSequences {
    /// Numbers for `tags` tags, all starting at 0.
    pub fn new(tags: u32) -> Result<SharedSequences, PortError> {
        let map = memory("sequences", 8, tags.max(1))
            .map_err(|error| system("making the map of sequence numbers", "", error))?;
        Ok(SharedSequences { map })
    }
}

/// An array that is mapped, of so many values of a size. It has the name of the map that it takes the place of: the
/// skeleton looks it up by that.
pub(crate) fn memory(name: &str, size: u32, count: u32) -> libbpf_rs::Result<MapHandle> {
    // SAFETY: an all-zero `bpf_map_create_opts` is valid; its size is set below.
    let mut options: libbpf_sys::bpf_map_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.map_flags = libbpf_sys::BPF_F_MMAPABLE;
    MapHandle::create(libbpf_rs::MapType::Array, Some(name), 4, size, count, &options)
}

/// How a transmit core is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) index: u32,
    pub(crate) plan: TxPlan,
    /// Slots of the ring; rounded up to a power of two.
    pub(crate) slots: u32,
    /// Whether the program has to change the length of every frame ([`base_len`]).
    pub(crate) change: bool,
    /// What is told of single frames that leave; `None`: nothing.
    pub(crate) observe: Option<ObservationOptions>,
}

pub(crate) fn system(what: &'static str, on: &str, error: libbpf_rs::Error) -> PortError {
    if let Some(log) = verifier::log() {
        let missing = probe::refused_by_verifier(&error, &log).at(format!("{what} was refused"));
        return PortError::missing("kernel", on, missing);
    }
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        let missing = format!("{what} was not permitted: it needs CAP_BPF and CAP_NET_ADMIN");
        return PortError::missing("kernel", on, missing)
            .with_hint("run as root, or use the engine 'packet' or 'socket'");
    }
    PortError::System {
        what: what.into(),
        on: on.to_owned(),
        source: std::io::Error::other(format!("{error:#}")),
    }
}

fn map_error(what: &'static str) -> impl Fn(std::io::Error) -> PortError {
    move |source| PortError::System { what: what.into(), on: "the kernel engine".into(), source }
}

/// Sets the entries of a map before it is made.
pub(crate) fn entries(map: &mut OpenMapMut<'_>, entries: u32) -> Result<(), PortError> {
    map.set_max_entries(entries.max(1)).map_err(|error| system("sizing a map", "the kernel", error))
}

impl Transmitter {
    /// Loads the transmit program for one core.
    pub(crate) fn load(
        layout: &Layout,
        (sequences, shared): (Option<&SharedSequences>, Option<&Shared>),
        on: &str,
    ) -> Result<Transmitter, PortError> {
        verifier::listen();
        let failed = |what| move |error| system(what, on, error);
        let slots = layout.slots.next_power_of_two();
        let slot_size = slot_size(layout.plan.frame_max);
        let mut storage = MaybeUninit::uninit();
        let mut open = TransmitSkelBuilder::default()
            .open(&mut storage)
            .map_err(failed("opening the transmit program"))?;
        let maps = &mut open.maps;
        entries(&mut maps.slots, slots)?;
        maps.slots.set_value_size(slot_size as u32).map_err(failed("sizing the ring"))?;
        let counters = counters(&layout.plan);
        entries(&mut maps.tags, counters)?;
        entries(&mut maps.departures, counters)?;
        entries(&mut maps.histograms, histograms(counters))?;
        entries(&mut maps.sequences, counters)?;
        if let Some(sequences) = sequences {
            maps.sequences
                .reuse_fd(sequences.map.as_fd())
                .map_err(failed("sharing sequence numbers"))?;
        }
        if let Some(shared) = shared {
            maps.shared.reuse_fd(shared.map()).map_err(failed("sharing memory"))?;
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("counting CPUs"))?;
        let observed = (&mut maps.observers, &mut maps.observations);
        let rings = layout.observe.as_ref();
        // the clock of the programs is that of this process: else nothing is sent
        let rings =
            rings.map(|observe| size_rings(observed, observe, (cpus, 0), on)).transpose()?;
        if let Some(rodata) = maps.rodata_data.as_deref_mut() {
            if let (Some(observe), Some(rings)) = (&layout.observe, &rings) {
                rodata.observe = abi::OBSERVE_ALL;
                (rodata.observed_bytes, rodata.observation_slots) = (observe.caught(), rings.slots);
            }
            rodata.tx_mode =
                if layout.plan.round > 0 { abi::MODE_REPEAT } else { abi::MODE_STREAM };
            rodata.slot_mask = slots - 1;
            rodata.frame_max = (slot_size - SLOT_HEAD) as u32;
            rodata.base_len = base_len(&layout.plan, layout.change) as u32;
            rodata.paced = u32::from(layout.plan.paced);
            rodata.own_histograms = OWN_HISTOGRAMS;
            rodata.late_after_ns = LATE_AFTER.get();
            rodata.shared_sequences = u32::from(sequences.is_some());
            let plain = layout.plan.round > 0 && !layout.plan.paced && layout.plan.tags == 1;
            rodata.blocks = u32::from(sequences.is_some() && plain);
            rodata.shared_len = shared.map_or(0, Shared::len);
        }
        let skeleton = open.load().map_err(failed("loading the transmit program"))?;
        skeleton
            .maps
            .egress
            .update(&0u32.to_ne_bytes(), &layout.index.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("redirecting to the interface"))?;
        Self::keep(&skeleton, (slots, slot_size), layout, rings)
    }

    /// Takes what outlives the skeleton.
    fn keep(
        skeleton: &TransmitSkel<'_>,
        (slots, slot_size): (u32, usize),
        layout: &Layout,
        rings: Option<Rings>,
    ) -> Result<Transmitter, PortError> {
        let failed = map_error("mapping the ring");
        let maps = &skeleton.maps;
        let tags = counters(&layout.plan).max(1) as usize;
        let program = skeleton.progs.wb_transmit.as_fd().try_clone_to_owned().map_err(&failed)?;
        let map = |fd, len| Mapped::new(fd, len).map_err(&failed);
        let dropping = skeleton.progs.wb_drop.as_fd();
        let targets =
            MapHandle::try_from(&maps.egress).map_err(std::io::Error::other).map_err(&failed)?;
        let more = || layout.plan.paced.then(|| warm_up::lay(dropping, &targets).ok()).flatten();
        let (entered, warm_up) = match dispatcher::enter(program.as_fd(), more) {
            Ok((entered, warm_up)) => (Some(entered), warm_up),
            Err(_) => (None, None),
        };
        let ring_len = slots as usize * slot_size;
        let observations = match rings {
            Some(rings) => Some(Observations::new(
                map(maps.observers.as_fd(), rings.cpus * size_of::<abi::Observer>())?,
                map(maps.observations.as_fd(), rings.cpus * rings.slots as usize * rings.stride)?,
                rings,
                Vec::new(),
            )),
            None => None,
        };
        let handle = |map: &libbpf_rs::Map<'_>| {
            MapHandle::try_from(map).map_err(std::io::Error::other).map_err(&failed)
        };
        Ok(Transmitter {
            program,
            own: handle(&maps.bss)?,
            sequences: handle(&maps.sequences)?,
            ring: SlotRing::new(
                map(maps.slots.as_fd(), ring_len)?,
                slot_size,
                slots,
                layout.plan.tags,
            ),
            view: RingView {
                slots: map(maps.slots.as_fd(), ring_len)?,
                slot_size,
                count: u64::from(slots),
                repeat: layout.plan.round > 0,
            },
            orders: Arc::new(map(maps.bss_orders.as_fd(), size_of::<abi::Orders>())?),
            progress: Arc::new(map(maps.bss_progress.as_fd(), size_of::<abi::Progress>())?),
            tags: map(maps.tags.as_fd(), tags * size_of::<abi::Tag>())?,
            interruptions: map(maps.bss_taken.as_fd(), size_of::<abi::Distribution>())?,
            departures: map(maps.departures.as_fd(), tags * size_of::<abi::Departures>())?,
            histograms: map(
                maps.histograms.as_fd(),
                histograms(tags as u32) as usize * size_of::<abi::DepartureCounts>(),
            )?,
            entered,
            warm_up,
            observations,
        })
    }
}

/// How many counters there are: one for each tag, and where packets leave as fragments one more for those that are
/// not counted as their packet.
pub(crate) fn counters(plan: &TxPlan) -> u32 {
    if plan.cut { plan.tags * 2 } else { plan.tags }
}

/// How many sets of histograms there are: one for each of the first counters, and one for all others.
fn histograms(counters: u32) -> u32 {
    counters.clamp(1, OWN_HISTOGRAMS + 1)
}

/// The size of a slot for frames of `frame_max` bytes: whole cache lines, so that no line holds slots of
/// two minds.
pub(crate) fn slot_size(frame_max: BufferLen) -> usize {
    (SLOT_HEAD + frame_max.size()).next_multiple_of(64)
}

/// The length of the pages that the kernel hands to the program: that of all frames, or of the longest. Where frames have to
/// change, one byte more, which no frame has.
///
/// A page is used again once its frame has left. Before Linux 6.4 the kernel then restores what describes the frame only if
/// the program changed that, and not if the driver did (mended by its commit e5995bc7e2ba). virtio_net puts a header of its own
/// in front of each frame: on Linux 6.1 frames grew by that each time, until the device stopped (seen in QEMU).
pub(crate) fn base_len(plan: &TxPlan, change: bool) -> usize {
    plan.frame_len.unwrap_or(plan.frame_max).size() + usize::from(change)
}

/// Whether this kernel restores what a driver changed of a frame.
pub(crate) fn restores_frames() -> bool {
    kernel_version().is_none_or(|version| version >= (6, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_changes_where_the_kernel_does_not_restore_it() {
        let plan = |len: Option<u32>| TxPlan {
            frame_len: len.map(BufferLen::new),
            frame_max: BufferLen::new(1514),
            ..TxPlan::default()
        };
        assert_eq!([base_len(&plan(Some(60)), false), base_len(&plan(Some(60)), true)], [60, 61]);
        assert_eq!([base_len(&plan(None), false), base_len(&plan(None), true)], [1514, 1515]);
    }
}
