//! The transmitting side of the kernel engine as a [`TxPort`].

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::port::{
    Amount, DepartureRecord, Interruptions, OWN_HISTOGRAMS, PortError, Repeat, TxCaps, TxMeta,
    TxPlan, TxPort, TxTotals, View,
};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::departures::Departures;
use wirebeat_units::{BitRate, BufferLen, Nanos, fault};

use super::Attachment;
use super::abi::{self, orders, progress, tag};
use super::convert;
use super::dispatcher::Entered;
use super::load::{self, Layout, SharedSequences, Transmitter, base_len, slot_size};
use super::mapped::Mapped;
use super::observations::{ObservationOptions, Observations};
use super::pump::{Calls, Engine, PATIENCE, Pump, PumpOrders, refused, show_time_of_day};
use super::ring::SlotRing;
use super::round::Round;
use super::shared::Shared;
use super::warm_up::WarmUp;
use crate::scheduling::ThreadOrders;

/// The largest frame without FCS that fits a page of the kernel beside its metadata (measured: 3,520
/// bytes on Linux 6.18 with 4 KiB pages; 3,500 leaves room for other versions).
pub const FRAME_MAX: u16 = 3500;
/// The most slots of a ring, and the most bytes, of which long frames need more.
///
/// What leaves as fast as it can goes through the cache. What has launch times is laid out ahead of them
/// for as long as a feeder is kept from its CPU by others there, which are some slices of the scheduler:
/// 32 ms of two frames each microsecond (measured: 2 ms are too few, 8 ms nearly always enough).
const SLOTS: (u32, usize) = (1 << 12, 512 << 10);
const SLOTS_PACED: (u32, usize) = (1 << 16, 16 << 20);
/// From so many bytes on data is not copied into the ring, but taken from where it was read to. Shorter data costs less
/// in the cache line that is written anyhow than in one of its own (measured: see the commit that brought it).
pub const EXTERNAL_MIN: usize = 192;
/// How often one who waits for the program to finish looks at how far it is.
const LOOK: Nanos = Nanos::from_millis(2);

/// Where the moments and the buckets of each distribution are, in the order of [`Departures::each`].
const KINDS: [(usize, usize); 4] = [
    (offset_of!(abi::Departures, lateness), offset_of!(abi::DepartureCounts, lateness)),
    (offset_of!(abi::Departures, gap), offset_of!(abi::DepartureCounts, gap)),
    (offset_of!(abi::Departures, longer), offset_of!(abi::DepartureCounts, longer)),
    (offset_of!(abi::Departures, shorter), offset_of!(abi::DepartureCounts, shorter)),
];

/// How a kernel port is opened.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// The interface's index in the calling thread's namespace, and its name for messages.
    pub index: u32,
    /// Its name.
    pub interface: String,
    /// What is going to be sent.
    pub plan: TxPlan,
    /// How launch times are waited for.
    pub wait: Wait,
    /// Where and how the transmitting thread runs. `None`: there is none, and [`TxPort::flush`] sends what is committed on the
    /// calling thread's CPU and returns when it has left. Then nothing waits for launch times, and nothing is repeated.
    pub thread: Option<ThreadOrders>,
    /// The clock of the day less the monotonic one, for the probes of other tools; followed while frames leave.
    pub unix_offset: UnixOffset,
    /// Numbers shared with other transmit cores.
    pub sequences: Option<Arc<SharedSequences>>,
    /// Memory that frames may be taken from in part, shared with other transmit cores.
    pub shared: Option<Arc<Shared>>,
    /// The program on the interface, where its driver wants one before it takes redirected frames.
    pub attachment: Option<Arc<Attachment>>,
    /// Speed of the link.
    pub link: Option<BitRate>,
    /// What is told of single frames that leave; `None`: nothing.
    pub observe: Option<ObservationOptions>,
}

/// A transmitting port of the kernel engine.
#[derive(Debug)]
pub struct KernelTx {
    caps: TxCaps,
    options: KernelOptions,
    ring: SlotRing,
    /// What is repeated, if something is.
    round: Round,
    orders: Arc<Mapped>,
    progress: Arc<Mapped>,
    tags: Mapped,
    departures: Mapped,
    histograms: Mapped,
    interruptions: Mapped,
    calls: Calls,
    /// Set by `stop`: frames taken back, by tag.
    withdrawn: Vec<Amount>,
    own: MapHandle,
    sequences: MapHandle,
    /// What is told of single frames, until somebody takes it.
    observations: Option<Observations>,
    _entered: Option<Entered>,
    _warm_up: Option<WarmUp>,
}

impl KernelTx {
    /// Loads the program for the interface. Nothing is sent yet.
    pub fn open(options: KernelOptions) -> Result<KernelTx, PortError> {
        let plan = options.plan;
        if plan.frame_max > BufferLen::new(FRAME_MAX.into()) {
            return Err(PortError::Unsupported {
                engine: "kernel",
                what: fault!(
                    "send frames of {} bytes: live frames must fit a page, so {} with FCS is the \
                     most",
                    plan.frame_max.with_fcs(), BufferLen::new(FRAME_MAX.into()).with_fcs();
                    "use --engine packet for longer ones"
                ),
            });
        }
        if options.thread.is_none() && (plan.paced || plan.round > 0) {
            return Err(PortError::Unsupported {
                engine: "kernel",
                what: "wait for launch times, or repeat, without a thread of its own".into(),
            });
        }
        super::probe::one_clock()
            .map_err(|missing| PortError::missing("kernel", &options.interface, missing))?;
        let slots = slots(&plan, options.shared.is_some());
        // a card's driver may change frames; that of a virtual cable does not
        let change = options.attachment.is_some() && !load::restores_frames();
        let layout = Layout { index: options.index, plan, slots, change, observe: options.observe };
        let on = options.interface.clone();
        let memory = (options.sequences.as_deref(), options.shared.as_deref());
        let loaded = Transmitter::load(&layout, memory, &on)?;
        begin_orders(&loaded.orders, &options.unix_offset);
        let engine = Engine {
            program: loaded.program,
            view: loaded.view,
            orders: Arc::clone(&loaded.orders),
            progress: Arc::clone(&loaded.progress),
            unix_offset: options.unix_offset.clone(),
            quit: AtomicBool::new(false),
        };
        let frame = vec![0; base_len(&plan, change)];
        let calls = match options.thread.clone() {
            Some(thread) => {
                let orders = PumpOrders { wait: options.wait, thread, paced: plan.paced, frame };
                let pump = Pump::start(engine, orders);
                Calls::Thread(
                    pump.map_err(|source| system("starting the transmitting thread", &on, source))?,
                )
            }
            None => Calls::Caller { engine: Box::new(engine), frame },
        };
        let caps = TxCaps {
            engine: "kernel",
            mode: mode(
                &plan,
                options.shared.is_some(),
                loaded.entered.is_some(),
                loaded.warm_up.is_some(),
            ),
            frame_max: plan.frame_max.size(),
            batch: (slots / 4).max(1) as usize,
            view: View::Frame,
            holds: true,
            lead: Nanos::ZERO,
            repeats: if plan.round > 0 { slots as usize } else { 0 },
            external: options.shared.as_ref().map(|_| EXTERNAL_MIN),
            large: false,
            link: options.link,
        };
        Ok(KernelTx {
            caps,
            options,
            ring: loaded.ring,
            round: Round::default(),
            orders: loaded.orders,
            progress: loaded.progress,
            tags: loaded.tags,
            departures: loaded.departures,
            histograms: loaded.histograms,
            interruptions: loaded.interruptions,
            calls,
            withdrawn: Vec::new(),
            own: loaded.own,
            sequences: loaded.sequences,
            observations: loaded.observations,
            _entered: loaded.entered,
            _warm_up: loaded.warm_up,
        })
    }

    /// Gets ready for another run with the same program, with numbers and counters from zero. Says `false`, and does nothing,
    /// where the program was made for something else than `options` ask for: other frames, another interface, other memory.
    /// All ports that share sequence numbers are re-armed before any of them sends.
    ///
    /// # Errors
    /// Its counters cannot be emptied, or there is no thread.
    pub fn rearm(&mut self, options: &KernelOptions) -> Result<bool, PortError> {
        let KernelOptions { index, plan, wait, thread, shared, attachment, .. } = options;
        let mine = &self.options;
        let plan_without_time = TxPlan { unix_offset: mine.plan.unix_offset, ..*plan };
        let same = |a: &Option<Arc<Attachment>>, b: &Option<Arc<Attachment>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let alike = *index == mine.index
            && plan_without_time == mine.plan
            && options.unix_offset.is_of(&mine.unix_offset)
            && options.sequences.is_some() == mine.sequences.is_some()
            && same(attachment, &mine.attachment);
        let (Calls::Thread(pump), Some(thread)) = (&mut self.calls, thread) else {
            return Ok(false);
        };
        // what is told of single frames has one reader, and that has ended
        let observed = mine.observe.is_some() || options.observe.is_some();
        // a thread that ended on an error would again
        if observed || !alike || shared.is_some() || mine.shared.is_some() || pump.finish().is_err()
        {
            return Ok(false);
        }
        let on = mine.interface.as_str();
        let emptied = |error| load::system("emptying the counters", on, error);
        let numbers = 8 * self.sequences.max_entries() as usize;
        let sequences = Mapped::new(self.sequences.as_fd(), numbers)
            .map_err(|source| system("mapping sequence numbers", on, source))?;
        let zeros = vec![0; self.own.value_size() as usize];
        self.own.update(&0_u32.to_ne_bytes(), &zeros, MapFlags::ANY).map_err(emptied)?;
        for mapped in
            [&self.tags, &self.departures, &self.histograms, &self.interruptions, &sequences]
        {
            mapped.zero();
        }
        self.progress.zero();
        self.orders.zero();
        begin_orders(&self.orders, &mine.unix_offset);
        self.ring.rearm();
        self.round = Round::default();
        self.withdrawn.clear();
        self.caps.link = options.link;
        let change = attachment.is_some() && !load::restores_frames();
        let frame = vec![0; base_len(plan, change)];
        let orders = PumpOrders { wait: *wait, thread: thread.clone(), paced: plan.paced, frame };
        pump.restart(orders)
            .map_err(|source| system("starting the transmitting thread", on, source))?;
        (self.options.wait, self.options.thread) = (*wait, Some(thread.clone()));
        Ok(true)
    }

    /// How it was opened, or re-armed last.
    pub fn options(&self) -> &KernelOptions {
        &self.options
    }

    /// What is told of single frames, where that was asked for: for one reader.
    pub fn observations(&mut self) -> Option<Observations> {
        self.observations.take()
    }

    fn consumed(&self) -> u64 {
        self.progress.load(progress::CONSUMED)
    }

    /// An error of the thread, if it ended on one.
    fn check(&mut self) -> Result<(), PortError> {
        if refused(&self.progress) > 0 {
            return Err(PortError::Unsupported {
                engine: "kernel",
                what: fault!(
                    "build a frame for {}: its length does not fit",
                    self.options.interface
                ),
            });
        }
        if !self.calls.failed() {
            return Ok(());
        }
        let on = self.options.interface.clone();
        match self.calls.finish() {
            Ok(()) => Err(system("transmitting", &on, io::Error::other("the thread ended early"))),
            Err(error) => Err(explain(&on, error)),
        }
    }

    /// What the program has passed of each tag, where it does not count what expires; else nothing.
    fn passed(&self) -> Vec<Amount> {
        match self.orders.load(orders::WINDOW_NS) {
            0 => Vec::new(),
            _ => self.round.passed(self.consumed(), self.options.plan.tags as usize),
        }
    }

    /// The counters of a tag: of its packets, and where there are any of its other fragments.
    fn counters_of(&self, tag: usize) -> impl Iterator<Item = usize> {
        let (plan, tags) = (&self.options.plan, self.options.plan.tags as usize);
        std::iter::once(tag).chain(plan.cut.then_some(tags + tag))
    }

    /// The buckets of a set of histograms.
    fn buckets_of(&self, set: usize) -> [Vec<(u16, u64)>; 4] {
        let offset = set * size_of::<abi::DepartureCounts>();
        KINDS.map(|(_, counts)| convert::buckets(&self.histograms, offset + counts))
    }

    /// Adds when the frames of a counter left.
    fn add_departures(&self, counter: usize, to: &mut DepartureRecord) {
        let offset = counter * size_of::<abi::Departures>();
        let own = counter < OWN_HISTOGRAMS as usize;
        let buckets = if own { self.buckets_of(counter) } else { Default::default() };
        let all = to.departures.each_mut().into_iter().zip(KINDS).zip(buckets);
        for ((all, (moments, _)), buckets) in all {
            let moments = offset + moments;
            let count = self.departures.load(moments + offset_of!(convert::RawMoments, count));
            all.merge(&convert::with_moments((&self.departures, moments), count, buckets));
        }
        to.late += self.departures.load(offset + offset_of!(abi::Departures, late));
    }

    fn tag_word(&self, index: usize, field: usize) -> u64 {
        self.tags.load(index * size_of::<abi::Tag>() + field)
    }
}

/// What the program is told before anything is sent.
fn begin_orders(orders: &Mapped, unix_offset: &UnixOffset) {
    orders.store(orders::PATIENCE_NS, PATIENCE.get());
    orders.store(orders::STOP_NS, u64::MAX);
    orders.store(orders::UNTIL_NS, u64::MAX);
    show_time_of_day(orders, unix_offset);
}

/// How many slots a ring has: a power of two, and room for a round.
fn slots(plan: &TxPlan, shares: bool) -> u32 {
    let (most, bytes) = match (plan.paced && plan.round == 0, shares) {
        (true, _) => SLOTS_PACED,
        // of a long frame that lies apart a slot has two cache lines
        (false, true) => (SLOTS.0, SLOTS_PACED.1),
        (false, false) => SLOTS,
    };
    let room = (bytes / slot_size(plan.frame_max)) as u32;
    most.min(1 << room.ilog2()).max(plan.round as u32)
}

/// How it works here, for the report.
fn mode(plan: &TxPlan, shares: bool, entered: bool, warm: bool) -> String {
    let way = match plan.round {
        0 => "streamed".to_owned(),
        frames => format!("repeating a round of {frames}"),
    };
    let times = if plan.paced { "" } else { ", one departure time for each 16 frames" };
    let cost = match (entered, plan.paced && !warm) {
        (false, _) => ", slow calls (no CAP_SYS_ADMIN)",
        (true, true) => ", no warm-up (no virtual cables here)",
        (true, false) => "",
    };
    let data = if shares { ", long data from shared memory" } else { "" };
    format!("eBPF live frames, {way}{data}{times}{cost}")
}

/// What a failed test run means.
fn explain(on: &str, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            let missing =
                "this kernel does not run XDP programs with live frames: it needs Linux 5.18";
            PortError::missing("kernel", on, missing).with_hint("use --engine packet")
        }
        Some(libc::EPERM | libc::EACCES) => {
            let missing =
                "running the program was not permitted: it needs CAP_BPF and CAP_NET_ADMIN";
            let hint = "run as root, or use --engine packet or --engine socket";
            PortError::missing("kernel", on, missing).with_hint(hint)
        }
        _ => system("running the transmit program", on, error),
    }
}

fn system(what: &'static str, on: &str, source: io::Error) -> PortError {
    PortError::System { what: what.into(), on: on.to_owned(), source }
}

impl TxPort for KernelTx {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        let released = self.progress.load(progress::RELEASED);
        let got = self.ring.reserve(want.min(self.caps.batch), released);
        if got == 0 {
            self.check()?;
        }
        Ok(got)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        self.ring.frame(index)
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        self.ring.commit(metas);
        match self.options.plan.round {
            0 => self.orders.store(orders::HEAD, self.ring.head()),
            _ => self.round.push(metas),
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        self.progress.load(progress::RELEASED)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        show_time_of_day(&self.orders, &self.options.unix_offset);
        self.calls.flush().map_err(|error| explain(&self.options.interface, error))?;
        self.check()
    }

    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        loop {
            let target = if self.options.plan.round > 0 {
                self.orders.load(orders::LIMIT)
            } else {
                self.ring.head()
            };
            let done = self.consumed() >= target || self.orders.load(orders::STOP) != 0;
            let now = MonotonicClock.now();
            if done || now >= deadline {
                return Ok(done);
            }
            self.check()?;
            show_time_of_day(&self.orders, &self.options.unix_offset);
            MonotonicClock.sleep_until(now.saturating_add(LOOK).min(deadline));
        }
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        let passed = self.passed();
        for (index, total) in totals.iter_mut().enumerate().take(self.options.plan.tags as usize) {
            let amount = |[frames, bytes, payload]: [usize; 3]| {
                // each word once: they grow meanwhile
                let word = |field| self.counters_of(index).map(|at| self.tag_word(at, field)).sum();
                let mut counts = self.counters_of(index).map(|at| self.tag_word(at, frames));
                Amount {
                    frames: counts.next().unwrap_or(0),
                    fragments: counts.next().unwrap_or(0),
                    bytes: word(bytes),
                    payload: word(payload),
                }
            };
            let sent = amount([tag::SENT, tag::SENT_BYTES, tag::SENT_PAYLOAD]);
            total.sent += sent;
            total.expired += match passed.get(index) {
                Some(passed) => {
                    let mut expired = *passed;
                    expired -= sent;
                    expired
                }
                None => amount([tag::EXPIRED, tag::EXPIRED_BYTES, tag::EXPIRED_PAYLOAD]),
            };
            total.withdrawn += self.withdrawn.get(index).copied().unwrap_or_default();
        }
    }

    fn repeat(&mut self, order: &Repeat) -> Result<(), PortError> {
        let q32 = order.length_q32;
        let start = if self.options.plan.paced { order.start.get() } else { 0 };
        self.orders.store(orders::ROUND_SLOTS, self.ring.head());
        self.orders.store(orders::ROUND_NS, u64::try_from(q32 >> 32).unwrap_or(u64::MAX));
        self.orders.store(orders::ROUND_FRAC, q32 as u64 & 0xffff_ffff);
        self.orders.store(orders::STOP_NS, order.stop.get());
        let window = self.round.window().filter(|_| self.options.plan.paced);
        self.orders.store(orders::WINDOW_NS, window.map_or(0, Nanos::get));
        self.progress.store(progress::ROUND_START, start);
        // last: the thread begins when it sees it
        self.orders.store(orders::LIMIT, order.limit);
        self.calls.flush().map_err(|error| explain(&self.options.interface, error))?;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), PortError> {
        self.orders.store(orders::STOP, 1);
        self.calls.finish().map_err(|error| explain(&self.options.interface, error))?;
        self.withdrawn = vec![Amount::default(); self.options.plan.tags as usize];
        if self.options.plan.round == 0 {
            for position in self.consumed()..self.ring.head() {
                let (tag, counted) = self.ring.counted(position);
                if let Some(withdrawn) = self.withdrawn.get_mut(tag as usize) {
                    withdrawn.add(counted);
                }
            }
        }
        Ok(())
    }

    fn departures(&self, index: u32) -> DepartureRecord {
        let mut record = DepartureRecord::default();
        if index >= self.options.plan.tags {
            return record;
        }
        for at in self.counters_of(index as usize) {
            if self.tag_word(at, tag::SENT) == 0 {
                continue;
            }
            let time = |field| Nanos::new(self.tag_word(at, field));
            let (first, last) = (time(tag::FIRST_NS), time(tag::LAST_NS));
            record.span = match record.span {
                Some((a, b)) => Some((first.min(a), last.max(b))),
                None => Some((first, last)),
            };
            self.add_departures(at, &mut record);
        }
        record
    }

    fn shared_departures(&self) -> Departures {
        let mut shared = Departures::default();
        if load::counters(&self.options.plan) > OWN_HISTOGRAMS {
            let buckets = self.buckets_of(OWN_HISTOGRAMS as usize);
            shared.each_mut().into_iter().zip(buckets).for_each(|(of, held)| of.buckets = held);
        }
        shared
    }

    fn interruptions(&self) -> Option<Interruptions> {
        let listened = Nanos::new(self.progress.load(progress::LISTENED_NS));
        let lengths = || convert::distribution(&self.interruptions, 0);
        (listened > Nanos::ZERO).then(|| Interruptions { listened, lengths: lengths() })
    }
}
