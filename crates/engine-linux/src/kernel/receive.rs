//! The receiving side of the kernel engine: a program that meters before the stack.
//!
//! It is attached by a link that ends with this process. The program keeps its measurements by flow and
//! *lane*, which is a receive queue or a CPU; [`KernelReceiver::summary`] adds them up at any time without
//! stopping it. The algorithms are those of `wirebeat-meter`; a test feeds both the same frames.

use std::collections::BTreeSet;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wirebeat_engine::port::PortError;
use wirebeat_meter::interval::FlowBooks;
use wirebeat_meter::jitter::InterarrivalJitter;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_meter::summary::{
    FlowSummary, LinearBins, MeterSummary, SequenceSummary, SharedHistograms,
};
use wirebeat_units::fault;

use super::abi::{
    Detail, EXTENTS, Flow, HEADER_MASKS, Observer, PROBE_FLOWS, RxCounters, RxLane, WINDOW_GROWTH,
};
use super::configure::{configure, delay_base, rings, size};
use super::known_headers::KnownHeaders;
use super::load::{entries, system};
use super::mapped::Mapped;
use super::observations::{ObservationOptions, Observations};
use super::plan::{MEMORY_MAX, Plan, Recognised, TooMuch};
use super::skeletons::receive::ReceiveSkelBuilder;
use super::{Attachment, XdpBuffers, XdpPlace};
use super::{clock, convert, verifier};

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
    /// The program that is on it already, whose place the metering one takes for as long as it meters; without one it is
    /// attached, and detached at the end.
    pub attachment: Option<Arc<Attachment>>,
    /// What is metered. Windows are as large as memory allows: 65,536 numbers where that is enough, and sixteen times as many
    /// of flows that need them. Headers have
    /// [`KernelReceiver::HEADER_MASKS`] different masks at most.
    pub meter: MeterConfig,
    /// The nominal gap of datagrams without a probe, in ns.
    pub unprobed_gap: Option<u64>,
    /// Flows of which what lies between two arrivals is measured within each queue, as the CPUs that share them cannot
    /// tell each other of each frame: those sent as fast as possible.
    pub by_queue: BTreeSet<u16>,
    /// What happens to metered datagrams.
    pub fate: Fate,
    /// Whether frames of one flow may arrive on several CPUs at once; costs a few nanoseconds a frame.
    pub several_queues: bool,
    /// What is to be told of single frames; `None`: nothing.
    pub observe: Option<ObservationOptions>,
    /// How many receive queues the interface has, where each is served by one CPU at a time, as drivers with
    /// native XDP do. Then what is measured between frames is measured by queue; otherwise, and with more
    /// queues than CPUs, by CPU.
    pub queues: Option<u32>,
}

impl ReceiveOptions {
    /// Whether the program that is loaded for these options meters by `other` as well: what differs is written beside it.
    fn has_program_of(&self, other: &ReceiveOptions) -> bool {
        let numbers = |flows: &Flows| match flows {
            Flows::Any(most) => (Some(*most), Vec::new()),
            Flows::Expected(flows) => {
                (None, flows.iter().map(|(id, flow)| (*id, flow.delay_base)).collect())
            }
        };
        let (mine, theirs) = (&self.meter, &other.meter);
        self.index == other.index
            && self.queues == other.queues
            && (self.fate, self.several_queues) == (other.fate, other.several_queues)
            && (&self.observe, &other.observe) == (&None, &None)
            && numbers(&mine.flows) == numbers(&theirs.flows)
            && (mine.filter, mine.bins) == (theirs.filter, theirs.bins)
            && mine.headers == theirs.headers
            && mine.recognised.keys().eq(theirs.recognised.keys())
    }
}

/// A metering program on an interface. When it is dropped, the attachment lets everything pass again.
#[derive(Debug)]
pub struct KernelReceiver {
    lane_heads: Mapped,
    flows: Mapped,
    places: Mapped,
    details: Mapped,
    counters: Mapped,
    bins: Mapped,
    plan: Plan,
    lanes: usize,
    cpus: usize,
    linear: Option<LinearBins>,
    delay_base: i64,
    /// How far the clock of this process is ahead of the one that the program reads, in ns.
    clock_ahead: i64,
    /// The flows that were named beforehand; they are reported even if nothing of them arrives, and no
    /// others are.
    expected: Option<BTreeSet<u16>>,
    /// The flows that are known by their headers, in the order of their rows.
    recognised: Vec<u16>,
    /// Whose place it took.
    attachment: Arc<Attachment>,
    /// What is told of single frames, until somebody takes it.
    observations: Option<Observations>,
    again: Again,
}

/// What it takes to meter another run with the same program.
#[derive(Debug)]
struct Again {
    options: ReceiveOptions,
    program: OwnedFd,
    /// When the run began whose probes count.
    run_start: Mapped,
    /// Sequence windows, and what the program has handed out so far: emptied between runs.
    windows: MapHandle,
    taken: MapHandle,
}

impl KernelReceiver {
    /// How many different masks the headers may have by which flows without probes are known.
    pub const HEADER_MASKS: usize = HEADER_MASKS;

    /// Whether the measurements of these flows, and of so many that are known by one set of headers each, take no more kernel
    /// memory than one receiver may have, 1 GiB, with a queue for each CPU.
    pub fn has_room_for(flows: &Flows, recognised: usize) -> bool {
        let recognised = Recognised { flows: recognised, headers: recognised };
        // where CPUs cannot be counted, opening it says why
        libbpf_rs::num_possible_cpus()
            .is_ok_and(|cpus| Plan::new(flows, recognised, cpus, 0).is_ok())
    }

    /// Loads the metering program and puts it on the interface.
    pub fn open(options: &ReceiveOptions) -> Result<KernelReceiver, PortError> {
        verifier::listen();
        let on = options.interface.as_str();
        let failed = |what| move |error| system(what, on, error);
        let unsupported = |what| PortError::Unsupported { engine: "kernel", what };
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("counting CPUs"))?;
        let queues = options.queues.map(|queues| queues as usize);
        let queues = queues.filter(|queues| (1..=cpus).contains(queues));
        let lanes = queues.unwrap_or(cpus);
        let linear = options.meter.bins.map(|bins| bins.empty());
        let bin_count = linear.as_ref().map_or(0, |bins| bins.counts.len());
        let known = KnownHeaders::of(&options.meter);
        let plan = Plan::new(&options.meter.flows, known.size(), lanes, bin_count);
        let plan = plan.map_err(|TooMuch(memory)| {
            unsupported(fault!(
                "meter that number of flows on {lanes} queues or CPUs: they take {} MiB of kernel \
                 memory, and the limit is {} MiB",
                memory >> 20, MEMORY_MAX >> 20;
                "meter fewer flows, or use --engine packet"
            ))
        })?;
        let clock_ahead = clock::ahead_of_kernel()?;
        let mut storage = MaybeUninit::uninit();
        let mut open = ReceiveSkelBuilder::default()
            .open(&mut storage)
            .map_err(failed("opening the receiving program"))?;
        let all_bins = if bin_count > 0 { plan.details as usize * (bin_count + 1) } else { 1 };
        size(&mut open, &plan, (lanes, cpus, all_bins))?;
        let rings = match &options.observe {
            Some(observe) => Some(rings(&mut open, observe, (cpus, clock_ahead), on)?),
            None => None,
        };
        entries(&mut open.maps.headers, known.size().headers as u32)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            configure(rodata, options, &plan);
            known.configure(rodata).ok_or_else(|| {
                unsupported(fault!(
                    "recognise flows by their headers where more than {HEADER_MASKS} different \
                     sets of header fields change";
                    "use --engine packet"
                ))
            })?;
            rodata.all_detailed = u32::from(plan.has_details_for_all(lanes));
            // arrivals are read on the kernel's clock and are to be on that of this process
            rodata.delay_base_ns = rodata.delay_base_ns.wrapping_sub(clock_ahead);
            rodata.lane_count = lanes as u32;
            rodata.by_queue = u32::from(queues.is_some());
        }
        let skeleton = open.load().map_err(failed("loading the receiving program"))?;
        let maps = &skeleton.maps;
        known.fill(&maps.headers, plan.flows + 1).map_err(failed("writing headers of flows"))?;
        let map = |fd, len| {
            Mapped::new(fd, len).map_err(|source| PortError::System {
                what: "mapping the measurements".into(),
                on: on.to_owned(),
                source,
            })
        };
        let attachment = match &options.attachment {
            Some(attachment) => Arc::clone(attachment),
            None => {
                Arc::new(Attachment::open((options.index, on), XdpPlace::Best, XdpBuffers::One)?)
            }
        };
        let rows = plan.rows as usize;
        let observations = match rings {
            Some(rings) => Some(Observations::new(
                map(maps.observers.as_fd(), cpus * size_of::<Observer>())?,
                map(maps.observations.as_fd(), cpus * rings.slots as usize * rings.stride)?,
                rings,
                known.flows.clone(),
            )),
            None => None,
        };
        let kept = |source: io::Error| PortError::System {
            what: "keeping the receiving program".into(),
            on: on.to_owned(),
            source,
        };
        let handle =
            |map: &libbpf_rs::Map<'_>| MapHandle::try_from(map).map_err(failed("keeping a map"));
        let again = Again {
            options: options.clone(),
            program: skeleton.progs.wb_receive.as_fd().try_clone_to_owned().map_err(kept)?,
            run_start: map(maps.bss_run.as_fd(), size_of::<u64>())?,
            windows: handle(&maps.window)?,
            taken: handle(&maps.bss)?,
        };
        let receiver = KernelReceiver {
            lane_heads: map(maps.lanes.as_fd(), rows * lanes * size_of::<RxLane>())?,
            flows: map(maps.flows.as_fd(), rows * size_of::<Flow>())?,
            places: map(maps.places.as_fd(), PROBE_FLOWS * 8)?,
            details: map(maps.details.as_fd(), plan.details as usize * size_of::<Detail>())?,
            counters: map(maps.counters.as_fd(), cpus * size_of::<RxCounters>())?,
            bins: map(maps.bins.as_fd(), all_bins * 8)?,
            plan,
            lanes,
            cpus,
            linear,
            delay_base: delay_base(&options.meter.flows),
            clock_ahead,
            expected: match &options.meter.flows {
                Flows::Any(_) => None,
                Flows::Expected(flows) => Some(flows.keys().copied().collect()),
            },
            recognised: known.flows,
            attachment,
            observations,
            again,
        };
        receiver.begin()?;
        Ok(receiver)
    }

    /// How it was opened, or restarted last.
    pub fn options(&self) -> &ReceiveOptions {
        &self.again.options
    }

    /// Lets everything pass: nothing more is metered, and what was is still there. [`KernelReceiver::restart`] goes on.
    pub fn pause(&self) {
        self.attachment.rest();
    }

    /// Meters another run from zero, with the same program and without attaching anything. Says `false`, and does nothing, where
    /// the program was made for other flows or told to do something else with them: then open another.
    ///
    /// # Errors
    /// The measurements cannot be emptied, or the program not put back into its place.
    pub fn restart(&mut self, options: &ReceiveOptions) -> Result<bool, PortError> {
        if !self.again.options.has_program_of(options) {
            return Ok(false);
        }
        self.pause();
        for mapped in
            [&self.lane_heads, &self.flows, &self.places, &self.details, &self.counters, &self.bins]
        {
            mapped.zero();
        }
        let on = options.interface.as_str();
        let words = (self.plan.all_words() + self.plan.spare).max(1) as usize;
        let windows = Mapped::new(self.again.windows.as_fd(), words * 8);
        let windows = windows.map_err(|source| PortError::System {
            what: "mapping the windows of sequence numbers".into(),
            on: on.to_owned(),
            source,
        })?;
        windows.zero();
        // variables of the program alone, which libbpf does not let map
        let taken = &self.again.taken;
        let zeros = vec![0; taken.value_size() as usize];
        taken
            .update(&0_u32.to_ne_bytes(), &zeros, MapFlags::ANY)
            .map_err(|error| system("emptying the measurements", on, error))?;
        self.again.options = options.clone();
        self.begin()?;
        Ok(true)
    }

    /// Begins to meter: writes what the program has to know, and puts it into its place.
    fn begin(&self) -> Result<(), PortError> {
        let Again { options, program, run_start, .. } = &self.again;
        run_start.store(0, options.meter.run_start.map_or(0, |start| start.get()));
        self.lay_out(options);
        self.attachment.replace(program.as_fd())
    }

    /// What is told of single frames, where that was asked for; once.
    pub fn observations(&mut self) -> Option<Observations> {
        self.observations.take()
    }

    /// Writes where each flow is, and what the program has to know of it.
    fn lay_out(&self, options: &ReceiveOptions) {
        let set = |index: u32, gap: u64, by_lane: bool| {
            let at = index as usize * size_of::<Flow>();
            let (window_at, words) = self.plan.window(index);
            let turn = words.ilog2().saturating_sub(3);
            self.flows.store(at + offset_of!(Flow, nominal_gap_ns), gap);
            self.flows.store_pair(at + offset_of!(Flow, window_at), (window_at, words));
            self.flows.store_pair(at + offset_of!(Flow, window_turn), (turn, u32::from(by_lane)));
        };
        match &options.meter.flows {
            Flows::Any(_) => (0..self.plan.flows).for_each(|index| set(index, 0, false)),
            Flows::Expected(expected) => {
                for (index, (id, expectation)) in (0u32..).zip(expected) {
                    let by_queue = options.by_queue.contains(id);
                    let gap = expectation.nominal_gap.filter(|_| !by_queue);
                    set(index, gap.map_or(0, |gap| gap.get()), by_queue);
                    self.places.store(usize::from(*id) * 8, u64::from(index) + 1);
                }
            }
        }
        // several flows may be among what has no probe, as fast as they can
        let gap = options.unprobed_gap.filter(|_| !options.several_queues);
        set(self.plan.flows, gap.unwrap_or(0), options.several_queues);
        for (row, id) in (self.plan.flows + 1..).zip(&self.recognised) {
            let by_queue = options.by_queue.contains(id);
            let gap = options.meter.recognised.get(id).and_then(|expected| expected.nominal_gap);
            set(row, gap.filter(|_| !by_queue).map_or(0, |gap| gap.get()), by_queue);
        }
    }

    /// The head of a flow on a lane.
    fn entry(&self, flow: usize, lane: usize) -> usize {
        (flow * self.lanes + lane) * size_of::<RxLane>()
    }

    /// Frames metered so far, and their bytes with FCS: cheap, for progress.
    pub fn received(&self) -> (u64, u64) {
        if !self.plan.counts_by_lane() {
            let entries = self.plan.rows as usize * self.lanes;
            let sum = |field| -> u64 {
                (0..entries).map(|i| self.lane_heads.load(i * size_of::<RxLane>() + field)).sum()
            };
            return (sum(offset_of!(RxLane, frames)), sum(offset_of!(RxLane, frame_bytes)));
        }
        let sum = |field| -> u64 {
            (0..self.lanes)
                .map(|lane| self.counters.load(lane * size_of::<RxCounters>() + field))
                .sum()
        };
        (sum(offset_of!(RxCounters, frames)), sum(offset_of!(RxCounters, frame_bytes)))
    }

    /// Sequence numbers of all flows that are missing now, between the lowest and the highest that arrived. Frames
    /// arrive meanwhile: those that came after their flow's highest number was read make it less, never more.
    pub fn missing(&self) -> u64 {
        (0..self.plan.flows as usize).map(|flow| self.missing_of(flow)).sum()
    }

    /// The same of one flow.
    pub(super) fn missing_of(&self, flow: usize) -> u64 {
        let word = |field| self.flows.load(flow * size_of::<Flow>() + field);
        let sum = |field, add: fn(u64, u64) -> u64| {
            let of_lane = |lane| self.lane_heads.load(self.entry(flow, lane) + field);
            (0..self.lanes).map(of_lane).fold(0, add)
        };
        let lowest = word(offset_of!(Flow, lowest));
        if lowest == 0 {
            return 0;
        }
        let highest =
            word(offset_of!(Flow, highest)).max(sum(offset_of!(RxLane, highest), u64::max));
        let expected = highest.saturating_sub(lowest).saturating_add(1);
        expected.saturating_sub(sum(offset_of!(RxLane, arrivals), u64::saturating_add))
    }

    /// The rows of flows with probes, each with the number that probes have.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u16, usize)> {
        let row = |id: u16| {
            let place = self.places.load(usize::from(id) * 8);
            place.checked_sub(1).map(|row| (id, row as usize))
        };
        (0..=u16::MAX).filter_map(row)
    }

    /// The rows of flows that are known by their headers, each with its number; and that of what has no probe.
    pub(super) fn other_rows(&self) -> (impl Iterator<Item = (u16, usize)>, usize) {
        let unprobed = self.plan.flows as usize;
        (self.recognised.iter().copied().zip(unprobed + 1..), unprobed)
    }

    /// What was counted of a flow on all lanes so far, with the delays' histogram if it is to be `listed`. Frames come
    /// meanwhile: a count may have one that another has not yet.
    pub(super) fn books_of(&self, flow: usize, listed: bool) -> FlowBooks {
        let lost = i64::try_from(self.missing_of(flow)).unwrap_or(i64::MAX);
        let mut books = FlowBooks { lost, delay_base: self.delay_base, ..FlowBooks::default() };
        for at in (0..self.lanes).map(|lane| self.entry(flow, lane)) {
            let word = |field| self.lane_heads.load(at + field);
            let frames = word(offset_of!(RxLane, frames));
            if frames == 0 {
                continue;
            }
            books.frames += frames;
            books.frame_bytes += word(offset_of!(RxLane, frame_bytes));
            books.unique += word(offset_of!(RxLane, arrivals));
            books.duplicates += word(offset_of!(RxLane, duplicates));
            books.reordered += word(offset_of!(RxLane, reordered));
            // before the buckets, which then hold as many or more
            let count = word(offset_of!(RxLane, delays));
            let detail = word(offset_of!(RxLane, detail)) as usize;
            let own = (listed && detail >= self.lanes).then(|| detail * size_of::<Detail>());
            let buckets =
                own.map(|own| convert::buckets(&self.details, own + offset_of!(Detail, delay)));
            let from = (&self.lane_heads, at + offset_of!(RxLane, delay));
            books.delay.merge(&convert::with_moments(from, count, buckets.unwrap_or_default()));
        }
        books
    }

    /// The measurements so far, added up over lanes.
    pub fn summary(&self) -> MeterSummary {
        let mut out = MeterSummary::default();
        for (id, flow) in self.rows() {
            let (summary, shares) = self.settled_flow(flow);
            if self.expected.is_some() || summary.frames > 0 {
                out.shared.flows += u32::from(shares);
                out.flows.insert(id, summary);
            }
        }
        let (unprobed, shares) = self.settled_flow(self.plan.flows as usize);
        (out.unprobed, out.shared.flows) = (unprobed, out.shared.flows + u32::from(shares));
        for (row, id) in (self.plan.flows as usize + 1..).zip(&self.recognised) {
            let (summary, shares) = self.settled_flow(row);
            out.shared.flows += u32::from(shares);
            out.flows.insert(*id, summary);
        }
        if out.shared.flows > 0 {
            (0..self.lanes).for_each(|lane| self.add_shared(&mut out.shared, lane));
        }
        let counter = |field| -> u64 {
            (0..self.cpus)
                .map(|cpu| self.counters.load(cpu * size_of::<RxCounters>() + field))
                .sum()
        };
        out.foreign = counter(offset_of!(RxCounters, foreign));
        out.malformed = counter(offset_of!(RxCounters, malformed));
        out.unknown_flow = counter(offset_of!(RxCounters, unknown_flow));
        out.stale = counter(offset_of!(RxCounters, stale));
        out.fragments = counter(offset_of!(RxCounters, fragments));
        out
    }

    /// One flow over all lanes, at a moment when no frame of it came: parts of one that comes meanwhile would
    /// contradict each other. Gives up on that for a flow that never pauses.
    fn settled_flow(&self, flow: usize) -> (FlowSummary, bool) {
        const TRIES: u32 = 8;
        let frames = || -> u64 {
            let frames = |lane| self.entry(flow, lane) + offset_of!(RxLane, frames);
            (0..self.lanes).map(|lane| self.lane_heads.load(frames(lane))).sum()
        };
        let mut before = frames();
        for _ in 1..TRIES {
            let found = self.flow(flow);
            let after = frames();
            if after == before {
                return found;
            }
            before = after;
        }
        self.flow(flow)
    }

    /// One flow over all lanes, and whether it shares histograms with others.
    fn flow(&self, flow: usize) -> (FlowSummary, bool) {
        let mut out = FlowSummary { delay_base: self.delay_base, ..FlowSummary::default() };
        let head = |lane, field| self.lane_heads.load(self.entry(flow, lane) + field);
        let with_frames =
            (0..self.lanes).filter(|lane| head(*lane, offset_of!(RxLane, frames)) > 0);
        let first_ns = |lane: &usize| head(*lane, offset_of!(RxLane, first_ns));
        // the first frame of all has none before it, unless lanes are measured by themselves
        let first = with_frames.clone().min_by_key(first_ns);
        let word = |field| self.flows.load(flow * size_of::<Flow>() + field);
        let turn = flow * size_of::<Flow>() + offset_of!(Flow, window_turn);
        let by_lane = self.flows.load_pair(turn).1 != 0;
        let mut shares = false;
        for lane in with_frames {
            let begins = by_lane || first == Some(lane);
            let (summary, shared) = self.flow_on_lane(flow, lane, begins);
            shares |= shared;
            out.merge(&summary);
        }
        if !by_lane {
            out.queues = out.queues.min(1);
        }
        if flow < self.plan.flows as usize {
            // with several queues the flow's own is brought up now and then only
            let highest = (0..self.lanes).map(|lane| head(lane, offset_of!(RxLane, highest)));
            let highest = word(offset_of!(Flow, highest)).max(highest.max().unwrap_or(0));
            out.sequence.range = (highest > 0).then(|| (word(offset_of!(Flow, lowest)), highest));
            out.sequence.restarts = word(offset_of!(Flow, restarts));
            // several CPUs may be at it, each with what it knows of the others
            let conflicting = word(offset_of!(Flow, conflicting));
            out.sequence.conflicting = conflicting.min(out.sequence.duplicates);
            let grown_at = flow * size_of::<Flow>() + offset_of!(Flow, grown_at);
            let growth =
                if self.flows.load_pair(grown_at).0 > 0 { WINDOW_GROWTH as u64 } else { 1 };
            let window = u64::from(self.plan.window(flow as u32).1) * 32 * growth;
            out.sequence.window = if highest > 0 { window } else { 0 };
        }
        (out, shares)
    }

    fn flow_on_lane(&self, flow: usize, lane: usize, begins: bool) -> (FlowSummary, bool) {
        let at = self.entry(flow, lane);
        let word = |field| self.lane_heads.load(at + field);
        let arrived = |field| word(field).saturating_add_signed(self.clock_ahead);
        let detail = word(offset_of!(RxLane, detail)) as usize;
        let own = (detail >= self.lanes).then(|| detail * size_of::<Detail>());
        let between = |values: u64| values.saturating_sub(u64::from(begins));
        let (frames, delays) = (word(offset_of!(RxLane, frames)), word(offset_of!(RxLane, delays)));
        let gaps = between(frames);
        let nominal = flow * size_of::<Flow>() + offset_of!(Flow, nominal_gap_ns);
        let errors = if self.flows.load(nominal) > 0 { gaps } else { 0 };
        let distribution = |moments: usize, counts: usize, count: u64| {
            let buckets = own.map(|own| convert::buckets(&self.details, own + counts));
            let from = (&self.lane_heads, at + moments);
            convert::with_moments(from, count, buckets.unwrap_or_default())
        };
        let extents =
            |own| convert::counted(&self.details, own + offset_of!(Detail, extents), EXTENTS);
        let summary = FlowSummary {
            frames,
            fragments: 0,
            untimed: 0,
            ends_repeated: 0,
            frame_bytes: word(offset_of!(RxLane, frame_bytes)),
            payload_bytes: word(offset_of!(RxLane, payload_bytes)),
            span: Some((
                arrived(offset_of!(RxLane, first_ns)),
                arrived(offset_of!(RxLane, last_ns)),
            )),
            queues: 1,
            sequence: SequenceSummary {
                unique: word(offset_of!(RxLane, arrivals)),
                duplicates: word(offset_of!(RxLane, duplicates)),
                conflicting: 0,
                reordered: word(offset_of!(RxLane, reordered)),
                beyond_window: word(offset_of!(RxLane, beyond_window)),
                // one still in doubt at the end is confirmed by nothing
                implausible: word(offset_of!(RxLane, implausible)) + word(offset_of!(RxLane, held)),
                restarts: 0,
                range: None,
                window: 0,
                extent: own.map(extents).unwrap_or_default(),
            },
            delay_base: self.delay_base,
            delay: distribution(offset_of!(RxLane, delay), offset_of!(Detail, delay), delays),
            delay_variation: distribution(
                offset_of!(RxLane, variation),
                offset_of!(Detail, variation),
                between(delays),
            ),
            interarrival_jitter: InterarrivalJitter {
                streams: u32::from(between(delays) > 0),
                sixteenths_ns: if between(delays) > 0 {
                    word(offset_of!(RxLane, jitter))
                } else {
                    0
                },
            },
            inter_arrival: distribution(
                offset_of!(RxLane, inter_arrival),
                offset_of!(Detail, inter_arrival),
                gaps,
            ),
            inter_arrival_bins: own.and_then(|_| self.linear(detail)),
            gap_error: distribution(
                offset_of!(RxLane, gap_error),
                offset_of!(Detail, gap_error),
                errors,
            ),
            gap_early: (errors > 0).then(|| {
                distribution(
                    offset_of!(RxLane, gap_early),
                    offset_of!(Detail, gap_early),
                    word(offset_of!(RxLane, early)),
                )
            }),
        };
        (summary, own.is_none())
    }

    /// Adds the histograms that flows of a lane share.
    fn add_shared(&self, to: &mut SharedHistograms, lane: usize) {
        let buckets = |field| convert::buckets(&self.details, lane * size_of::<Detail>() + field);
        to.merge(&SharedHistograms {
            // extents have no shared histogram here, and no moments without one of their own
            extent: Vec::new(),
            flows: 0,
            delay: buckets(offset_of!(Detail, delay)),
            delay_variation: buckets(offset_of!(Detail, variation)),
            inter_arrival: buckets(offset_of!(Detail, inter_arrival)),
            gap_error: buckets(offset_of!(Detail, gap_error)),
            gap_early: buckets(offset_of!(Detail, gap_early)),
        });
    }

    fn linear(&self, detail: usize) -> Option<LinearBins> {
        let mut bins = self.linear.clone()?;
        let at = detail * (bins.counts.len() + 1);
        for (index, count) in bins.counts.iter_mut().enumerate() {
            *count = self.bins.load((at + index) * 8);
        }
        bins.overflow = self.bins.load((at + bins.counts.len()) * 8);
        Some(bins)
    }
}

impl Drop for KernelReceiver {
    fn drop(&mut self) {
        self.attachment.rest();
    }
}
