//! The receiving side of the kernel engine: a program that meters before the stack.
//!
//! It is attached by a link that ends with this process. The program keeps its measurements by flow and
//! *lane*, which is a receive queue or a CPU; [`KernelReceiver::summary`] adds them up at any time without
//! stopping it. The algorithms are those of `wirebeat-meter`; a test feeds both the same frames.

use std::collections::BTreeSet;
use std::mem::{MaybeUninit, offset_of};
use std::net::IpAddr;
use std::os::fd::AsFd;

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use wirebeat_engine::port::PortError;
use wirebeat_meter::filter::Filter;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_meter::summary::{FlowSummary, LinearBins, MeterSummary, SequenceSummary};

use super::abi::{RxCounters, RxFlow, Window};
use super::load::{entries, quiet, system};
use super::mapped::Mapped;
use super::skeletons::receive::types::rodata;
use super::skeletons::receive::{OpenReceiveSkel, ReceiveSkelBuilder};
use super::{clock, convert};

/// Kernel memory that the measurements of one receiver may take.
pub const MEMORY_MAX: usize = 1 << 30;

/// What happens to metered datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They end here, before the stack.
    Drop,
    /// They go on to the stack.
    Pass,
}

/// How a receiver is opened.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The interface's index in the calling thread's namespace.
    pub index: u32,
    /// Its name, for messages.
    pub interface: String,
    /// What is metered. The window is always `WB_WINDOW_WORDS` words.
    pub meter: MeterConfig,
    /// The nominal gap of datagrams without a probe, in ns.
    pub unprobed_gap: Option<u64>,
    /// What happens to metered datagrams.
    pub fate: Fate,
    /// Whether frames of one flow may arrive on several CPUs at once; costs a few nanoseconds a frame.
    pub several_queues: bool,
    /// How many receive queues the interface has, where each is served by one CPU at a time, as drivers with
    /// native XDP do. Then what is measured between frames is measured by queue; otherwise, and with more
    /// queues than CPUs, by CPU.
    pub queues: Option<u32>,
}

/// A metering program on an interface. Dropping it detaches the program.
#[derive(Debug)]
pub struct KernelReceiver {
    flows: Mapped,
    windows: Mapped,
    counters: Mapped,
    bins: Mapped,
    flow_base: u16,
    flow_count: usize,
    lanes: usize,
    cpus: usize,
    linear: Option<LinearBins>,
    delay_base: i64,
    /// How far the clock of this process is ahead of the one that the program reads, in ns.
    clock_ahead: i64,
    /// The flows that were named beforehand; they are reported even if nothing of them arrives, and no
    /// others are.
    expected: Option<BTreeSet<u16>>,
    _link: Link,
}

/// The first flow number that is metered, and how many from there on. Numbers between expected ones
/// are metered too; it costs memory only.
fn range(flows: &Flows) -> (u16, u32) {
    match flows {
        Flows::Any(count) => (0, u32::from(*count)),
        Flows::Expected(flows) => {
            let (Some(first), Some(last)) = (flows.keys().next(), flows.keys().next_back()) else {
                return (0, 0);
            };
            (*first, u32::from(last - first) + 1)
        }
    }
}

/// Measurements that are kept: of each flow and of what has no probe, on each lane.
fn entries_for(flow_count: u32, lanes: usize) -> usize {
    (flow_count as usize + 1) * lanes
}

impl KernelReceiver {
    /// Whether the measurements of these flows take no more kernel memory than one receiver may have, 1 GiB, with a
    /// queue for each CPU.
    pub fn has_room_for(flows: &Flows) -> bool {
        let entries = |cpus| entries_for(range(flows).1, cpus);
        // where CPUs cannot be counted, opening it says why
        libbpf_rs::num_possible_cpus()
            .is_ok_and(|cpus| entries(cpus) * size_of::<RxFlow>() <= MEMORY_MAX)
    }

    /// Loads the metering program and attaches it to the interface.
    pub fn open(options: &ReceiveOptions) -> Result<KernelReceiver, PortError> {
        quiet();
        let on = options.interface.as_str();
        let failed = |what| move |error| system(what, on, error);
        let unsupported = |what| PortError::Unsupported { engine: "kernel", what };
        let (flow_base, flow_count) = range(&options.meter.flows);
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("counting CPUs"))?;
        let queues = options.queues.map(|queues| queues as usize);
        let queues = queues.filter(|queues| (1..=cpus).contains(queues));
        let lanes = queues.unwrap_or(cpus);
        let entries_needed = entries_for(flow_count, lanes);
        let memory = entries_needed * size_of::<RxFlow>();
        if memory > MEMORY_MAX {
            return Err(unsupported(format!(
                "meter {flow_count} flows on {lanes} queues or CPUs: that takes {} MiB of kernel memory and the \
                 most is {}; meter fewer flows, or use --engine packet",
                memory >> 20,
                MEMORY_MAX >> 20
            )));
        }
        let linear = options.meter.bins.map(|bins| bins.empty());
        let mut storage = MaybeUninit::uninit();
        let mut open = ReceiveSkelBuilder::default()
            .open(&mut storage)
            .map_err(failed("opening the receiving program"))?;
        size(&mut open, flow_count, (lanes, cpus), linear.as_ref())?;
        let clock_ahead = clock::ahead_of_kernel()?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            configure(rodata, options, (flow_base, flow_count));
            // arrivals are read on the kernel's clock and are to be on that of this process
            rodata.delay_base_ns = rodata.delay_base_ns.wrapping_sub(clock_ahead);
            rodata.lane_count = lanes as u32;
            rodata.by_queue = u32::from(queues.is_some());
        }
        let skeleton = open.load().map_err(failed("loading the receiving program"))?;
        let maps = &skeleton.maps;
        let map = |fd, len| {
            Mapped::new(fd, len).map_err(|source| PortError::System {
                what: "mapping the measurements".into(),
                on: on.to_owned(),
                source,
            })
        };
        let bins = linear.as_ref().map_or(1, |bins| entries_needed * (bins.counts.len() + 1));
        let receiver = KernelReceiver {
            flows: map(maps.flows.as_fd(), memory)?,
            windows: map(maps.windows.as_fd(), (flow_count as usize + 1) * size_of::<Window>())?,
            counters: map(maps.counters.as_fd(), cpus * size_of::<RxCounters>())?,
            bins: map(maps.bins.as_fd(), bins * 8)?,
            flow_base,
            flow_count: flow_count as usize,
            lanes,
            cpus,
            linear,
            delay_base: delay_base(&options.meter.flows),
            clock_ahead,
            expected: match &options.meter.flows {
                Flows::Any(_) => None,
                Flows::Expected(flows) => Some(flows.keys().copied().collect()),
            },
            _link: attach(&skeleton, options)?,
        };
        receiver.set_gaps(options);
        Ok(receiver)
    }

    /// Writes the nominal gaps where the program finds them.
    fn set_gaps(&self, options: &ReceiveOptions) {
        let set = |flow: usize, gap: u64| {
            for lane in 0..self.lanes {
                self.flows.store(self.entry(flow, lane) + offset_of!(RxFlow, nominal_gap_ns), gap);
            }
        };
        if let Flows::Expected(expected) = &options.meter.flows {
            for (id, expectation) in expected {
                let gap = expectation.nominal_gap.map_or(0, |gap| gap.get());
                set(usize::from(id - self.flow_base), gap);
            }
        }
        set(self.flow_count, options.unprobed_gap.unwrap_or(0));
    }

    fn entry(&self, flow: usize, lane: usize) -> usize {
        (flow * self.lanes + lane) * size_of::<RxFlow>()
    }

    /// Frames metered so far, and their bytes with FCS: cheap, for progress.
    pub fn received(&self) -> (u64, u64) {
        let entries = (self.flow_count + 1) * self.lanes;
        let sum = |field| -> u64 {
            (0..entries).map(|i| self.flows.load(i * size_of::<RxFlow>() + field)).sum()
        };
        (sum(offset_of!(RxFlow, frames)), sum(offset_of!(RxFlow, frame_bytes)))
    }

    /// Different sequence numbers received so far, over all flows.
    pub fn unique(&self) -> u64 {
        let entries = self.flow_count * self.lanes;
        let field = offset_of!(RxFlow, arrivals);
        (0..entries).map(|i| self.flows.load(i * size_of::<RxFlow>() + field)).sum()
    }

    /// The measurements so far, added up over lanes.
    pub fn summary(&self) -> MeterSummary {
        let mut out = MeterSummary::default();
        for flow in 0..self.flow_count {
            let id = self.flow_base + flow as u16;
            let summary = self.flow(flow);
            match &self.expected {
                Some(expected) if expected.contains(&id) => drop(out.flows.insert(id, summary)),
                Some(_) => out.unknown_flow += summary.frames,
                None if summary.frames > 0 => drop(out.flows.insert(id, summary)),
                None => {}
            }
        }
        out.unprobed = self.flow(self.flow_count);
        let counter = |field| -> u64 {
            (0..self.cpus)
                .map(|cpu| self.counters.load(cpu * size_of::<RxCounters>() + field))
                .sum()
        };
        out.foreign = counter(offset_of!(RxCounters, foreign));
        out.malformed = counter(offset_of!(RxCounters, malformed));
        out.unknown_flow += counter(offset_of!(RxCounters, unknown_flow));
        out.stale = counter(offset_of!(RxCounters, stale));
        out.fragments = counter(offset_of!(RxCounters, fragments));
        out
    }

    /// One flow over all lanes.
    fn flow(&self, flow: usize) -> FlowSummary {
        let mut out = FlowSummary { delay_base: self.delay_base, ..FlowSummary::default() };
        for lane in 0..self.lanes {
            let at = self.entry(flow, lane);
            if self.flows.load(at + offset_of!(RxFlow, frames)) > 0 {
                out.merge(&self.flow_on_lane(flow, lane, at));
            }
        }
        if flow < self.flow_count {
            let window = flow * size_of::<Window>();
            let word = |field| self.windows.load(window + field);
            // with several queues the window's own is brought up now and then only
            let seen = |lane| self.flows.load(self.entry(flow, lane) + offset_of!(RxFlow, highest));
            let highest = (0..self.lanes).map(seen).max().unwrap_or(0);
            let highest = word(offset_of!(Window, highest)).max(highest);
            out.sequence.range = (highest > 0).then(|| (word(offset_of!(Window, lowest)), highest));
            out.sequence.restarts = word(offset_of!(Window, restarts));
        }
        out
    }

    fn flow_on_lane(&self, flow: usize, lane: usize, at: usize) -> FlowSummary {
        let word = |field| self.flows.load(at + field);
        let distribution = |field| convert::distribution(&self.flows, at + field);
        let arrived = |field| word(field).saturating_add_signed(self.clock_ahead);
        FlowSummary {
            frames: word(offset_of!(RxFlow, frames)),
            fragments: 0,
            frame_bytes: word(offset_of!(RxFlow, frame_bytes)),
            payload_bytes: word(offset_of!(RxFlow, payload_bytes)),
            span: Some((
                arrived(offset_of!(RxFlow, first_ns)),
                arrived(offset_of!(RxFlow, last_ns)),
            )),
            sequence: SequenceSummary {
                unique: word(offset_of!(RxFlow, arrivals)),
                duplicates: word(offset_of!(RxFlow, duplicates)),
                reordered: word(offset_of!(RxFlow, reordered)),
                beyond_window: word(offset_of!(RxFlow, beyond_window)),
                // one still in doubt at the end is confirmed by nothing
                implausible: word(offset_of!(RxFlow, implausible)) + word(offset_of!(RxFlow, held)),
                restarts: 0,
                range: None,
                extent: convert::counted(&self.flows, at + offset_of!(RxFlow, extents), EXTENTS),
            },
            delay_base: self.delay_base,
            delay: distribution(offset_of!(RxFlow, delay)),
            delay_variation: distribution(offset_of!(RxFlow, variation)),
            inter_arrival: distribution(offset_of!(RxFlow, inter_arrival)),
            inter_arrival_bins: self.linear(flow * self.lanes + lane),
            gap_error: distribution(offset_of!(RxFlow, gap_error)),
        }
    }

    fn linear(&self, entry: usize) -> Option<LinearBins> {
        let mut bins = self.linear.clone()?;
        let at = entry * (bins.counts.len() + 1);
        for (index, count) in bins.counts.iter_mut().enumerate() {
            *count = self.bins.load((at + index) * 8);
        }
        bins.overflow = self.bins.load((at + bins.counts.len()) * 8);
        Some(bins)
    }
}

/// `WB_EXTENTS`.
const EXTENTS: usize = 1024;
const _: () = assert!(offset_of!(RxFlow, delay) == offset_of!(RxFlow, extents) + EXTENTS * 8);

fn delay_base(flows: &Flows) -> i64 {
    match flows {
        Flows::Any(_) => 0,
        Flows::Expected(flows) => {
            flows.values().next().map_or(0, |Expectation { delay_base, .. }| *delay_base)
        }
    }
}

/// Sets the maps' sizes.
fn size(
    open: &mut OpenReceiveSkel<'_>,
    flow_count: u32,
    (lanes, cpus): (usize, usize),
    linear: Option<&LinearBins>,
) -> Result<(), PortError> {
    let rows = (flow_count + 1) * lanes as u32;
    entries(&mut open.maps.flows, rows)?;
    entries(&mut open.maps.windows, flow_count + 1)?;
    entries(&mut open.maps.counters, cpus as u32)?;
    entries(&mut open.maps.bins, linear.map_or(1, |bins| rows * (bins.counts.len() as u32 + 1)))
}

/// Sets the program's constants.
fn configure(rodata: &mut rodata, options: &ReceiveOptions, (flow_base, flow_count): (u16, u32)) {
    let MeterConfig { flows, filter, bins, run_start, .. } = &options.meter;
    rodata.flow_base = u32::from(flow_base);
    rodata.flow_count = flow_count;
    rodata.several_queues = u32::from(options.several_queues);
    rodata.pass = u32::from(options.fate == Fate::Pass);
    rodata.delay_base_ns = delay_base(flows);
    rodata.run_start_ns = run_start.map_or(0, |start| start.get());
    if let Some(bins) = bins.map(|bins| bins.empty()) {
        rodata.bin_count = bins.counts.len() as u32;
        rodata.bin_width_ns = bins.width;
    }
    match filter.source.map(|source| source.to_canonical()) {
        Some(IpAddr::V4(source)) => {
            rodata.filter_family = 4;
            rodata.filter_source[0] = u32::from_ne_bytes(source.octets());
        }
        Some(IpAddr::V6(source)) => {
            rodata.filter_family = 6;
            for (word, bytes) in
                rodata.filter_source.iter_mut().zip(source.octets().chunks_exact(4))
            {
                *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
            }
        }
        None => {}
    }
    rodata.filtered = u32::from(*filter != Filter::default());
    rodata.filter_source_port = filter.source_port.unwrap_or(0);
    rodata.filter_port = filter.destination_port.unwrap_or(0);
}

/// Attaches the program, and says what is in the way when that is refused.
fn attach(
    skeleton: &super::skeletons::receive::ReceiveSkel<'_>,
    options: &ReceiveOptions,
) -> Result<Link, PortError> {
    let on = options.interface.as_str();
    skeleton.progs.wb_receive.attach_xdp(options.index as i32).map_err(|error| {
        match error.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => PortError::Missing {
                engine: "kernel",
                on: on.to_owned(),
                missing: format!(
                    "another XDP program is attached to it; remove that with 'ip link set {on} xdp off', \
                     or use --engine packet"
                ),
            },
            _ => system("attaching the receiving program", on, error),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_flows_as_memory_is_allowed_for() {
        assert!(KernelReceiver::has_room_for(&Flows::Any(16)));
        let far_apart = [0, u16::MAX].map(|id| (id, Expectation::default()));
        // numbers between them take room, too: 9 GB on one CPU
        assert!(!KernelReceiver::has_room_for(&Flows::Expected(far_apart.into())));
    }
}
