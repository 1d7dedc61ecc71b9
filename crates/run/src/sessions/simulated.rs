//! Both ends of sessions in memory, on one thread and a virtual clock: a run in no time, the same every time.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wirebeat_converse::stack::Stack;
use wirebeat_converse::{Converse, End, Gates, Waiting};
use wirebeat_endpoint::cable::{Cable, CableRx, CableTx, Tap, Way};
use wirebeat_endpoint::{OwnStack, step};
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_engine::pcap::{PcapOptions, PcapTx};
use wirebeat_engine::port::{PortError, TxMeta, TxPlan, TxPort};
use wirebeat_meter::session::SessionCounts;
use wirebeat_tls::{Ends, TlsStack};
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::CableSpec;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{BufferLen, Nanos};

use super::carrier::Carrier;
use super::counted::{Counted, StackLook};
use super::own::{self, OwnParts};
use super::shown::{EndSamples, EndTimes, LEAVE, Shared, ShownInterval};
use super::worker::{CLOSING, Finished, LEAVING, ends, leaving};
use crate::error::RunError;

/// When a run in no time begins, on its own clock: not at zero, so that nothing is before it.
pub(super) const BEGIN: Nanos = Nanos::from_secs(1);
/// How long sessions have to end when the run was told to end, on the clock of those who wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// An end of the cable.
#[derive(Debug)]
pub(super) struct SimulatedEnd {
    pub(super) port: String,
    /// The groups, with the ends that are of this port.
    pub(super) sessions: Sessions,
    /// Their TLS, by the numbers of groups that have it.
    pub(super) tls: Vec<Option<Ends>>,
    pub(super) parts: OwnParts,
    pub(super) cable: CableSpec,
    /// Where its frames are written.
    pub(super) file: Option<std::path::PathBuf>,
}

/// A run in no time.
#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) ends: [SimulatedEnd; 2],
    pub(super) seed: u64,
    pub(super) drift: Option<Nanos>,
    pub(super) settle: Nanos,
    pub(super) interval: Nanos,
    pub(super) time: Option<Nanos>,
}

/// A TCP at an end of the cable, with TLS for the groups that have it.
type OnTls = TlsStack<OwnStack<CableTx, CableRx, VirtualClock>>;
/// Its programs.
type OnCable = Converse<OnTls>;

/// Both ends, ready to run.
pub(super) struct Ready {
    ends: [OnCable; 2],
    ports: [String; 2],
    cable: Cable,
    clock: VirtualClock,
    settle: Nanos,
    interval: Nanos,
    /// When the last session has had its time.
    last: Nanos,
    failed: Failed,
    /// What groups wait for.
    gates: Arc<Gates>,
}

fn way(spec: &CableSpec, seed: u64) -> Way {
    let CableSpec { delay, rate, queue, loss } = *spec;
    Way { delay, rate: Some(rate), queue: queue.get(), loss, seed }
}

/// Why a file could not be written.
type Failed = Arc<Mutex<Option<PortError>>>;

/// Writes a frame that was seen at `at`.
fn write(writer: &mut impl TxPort, at: Nanos, bytes: &[u8]) -> Result<(), PortError> {
    if writer.reserve(1)? == 0 {
        return writer.flush();
    }
    if let Some(slot) = writer.slot(0).get_mut(..bytes.len()) {
        slot.copy_from_slice(bytes);
        let launch = at.saturating_sub(BEGIN);
        writer.commit(&[TxMeta { len: bytes.len() as u16, launch, ..TxMeta::default() }])?;
    }
    Ok(())
}

/// Writes frames to a file, as they are seen at one end.
fn taps(path: &Path, frame_max: u32, failed: &Failed) -> Result<[Tap; 2], RunError> {
    let frame_max = BufferLen::new(frame_max);
    let plan = TxPlan { tags: 1, frame_max, ..TxPlan::default() };
    let writer = PcapTx::create(path, &PcapOptions { plan, epoch: Nanos::ZERO })?;
    let writer = Arc::new(Mutex::new(writer));
    let tap = || -> Tap {
        let (writer, failed) = (Arc::clone(&writer), Arc::clone(failed));
        Box::new(move |at, bytes| {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.is_none() {
                *failed = write(&mut *writer, at, bytes).err();
            }
        })
    };
    Ok([tap(), tap()])
}

impl Simulation {
    /// Opens its files and both ends.
    pub(super) fn open(self) -> Result<Ready, RunError> {
        let clock = VirtualClock::new(BEGIN);
        let [there, back] = [0, 1].map(|end: usize| {
            let spec = self.ends.get(end).map(|end| end.cable.clone()).unwrap_or_default();
            way(&spec, self.seed.wrapping_mul(2).wrapping_add(end as u64))
        });
        let (cable, a, b) = Cable::new(&clock, there, back);
        let groups: Vec<_> = self.ends.iter().flat_map(|end| end.sessions.groups.clone()).collect();
        let last = ends(&groups, self.time).map_or(Nanos::MAX, |end| BEGIN.saturating_add(end));
        let ports = [0, 1]
            .map(|end: usize| self.ends.get(end).map_or(String::new(), |end| end.port.clone()));
        let failed = Failed::default();
        let open = |end: SimulatedEnd, (mut tx, mut rx): wirebeat_endpoint::cable::End| {
            let neighbours = end.parts.neighbours(&end.port)?;
            if let Some(file) = &end.file {
                let [sent, arrived] = taps(file, end.parts.frame_max, &failed)?;
                tx.tap(sent);
                rx.tap(arrived);
            }
            let onlooker = clock.of_onlooker();
            let stack = own::own_stack(end.parts.settings, (tx, rx), onlooker, neighbours);
            let stack = TlsStack::new(stack, end.tls);
            let core = Shard { core: 0, cores: 1 };
            let (drift, waiting) = (self.drift, Waiting::Sleep);
            Ok::<_, RunError>(Converse::new(&end.sessions, core, stack, BEGIN, drift, waiting))
        };
        let gates = Gates::new(self.ends.iter().map(|end| &end.sessions));
        let [first, second] = self.ends;
        let mut ends = [open(first, a)?, open(second, b)?];
        ends.iter_mut().for_each(|end| end.share(Arc::clone(&gates)));
        Ok(Ready {
            ends,
            ports,
            cable,
            clock,
            settle: self.settle,
            interval: self.interval,
            last,
            failed,
            gates,
        })
    }
}

impl Ready {
    /// How long the sessions that are open now have to end.
    fn leaving(&self, limit: Nanos) -> Nanos {
        let limits = self.ends.iter().map(|end| leaving(limit, &end.programs));
        limits.max().unwrap_or(limit)
    }

    /// Runs to the end, or until `shared` says that it is to end.
    pub(super) fn run(mut self, shared: &Shared) -> Finished {
        // one that is told to end does so soon, however much there is to do in a moment of its own time
        let mut told = None;
        let mut is_late = || {
            let is_told = shared.order.load(Ordering::Acquire) >= LEAVE;
            is_told && told.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        };
        let mut finish = self.last;
        let mut next_interval = BEGIN.saturating_add(self.interval);
        let mut left = false;
        let mut now;
        loop {
            now = self.step(finish.min(next_interval));
            if now >= next_interval {
                let samples = self.samples();
                let to = now.saturating_sub(BEGIN);
                let (counts, stacks) = (self.counts(), self.stacks());
                let response_times = self.response_times();
                shared.show_interval(ShownInterval { to, counts, response_times, samples, stacks });
                next_interval = now.saturating_add(self.interval);
            }
            if self.has_failed() {
                break;
            }
            let open = self.ends.iter().any(|end| end.programs.has_open());
            // each is asked: one waits for what the other says
            let mut done = true;
            for end in &mut self.ends {
                done &= end.is_done(now);
            }
            if done && !std::mem::replace(&mut left, done) {
                // nobody of ours is left to serve
                finish = finish.min(now.saturating_add(self.settle));
            }
            if done && !open || now >= finish || shared.order.load(Ordering::Acquire) >= LEAVE {
                break;
            }
        }
        self.ends.iter_mut().for_each(|end| end.close_clients(now));
        let until = now.saturating_add(self.leaving(LEAVING));
        // those that had their time to settle wait for no datagrams
        let datagrams = now < finish;
        let awaits =
            |ends: &[OnCable; 2]| ends.iter().any(|end| end.programs.awaits_clients(datagrams));
        while now < until && awaits(&self.ends) && !is_late() {
            now = self.step(until);
        }
        self.ends.iter_mut().for_each(|end| end.close_all(now));
        let until = now.saturating_add(self.leaving(CLOSING));
        let has_open = |ends: &[OnCable; 2]| ends.iter().any(|end| end.programs.has_open());
        while now < until && has_open(&self.ends) && !is_late() {
            now = self.step(until);
        }
        self.ends.iter_mut().for_each(|end| end.abort_all(now));
        for _ in 0..3 {
            now = self.step(now);
        }
        let until = now.saturating_add(CLOSING);
        let has_output = |ends: &[OnCable; 2]| ends.iter().any(|end| end.stack.has_output());
        while now < until && has_output(&self.ends) && !is_late() {
            now = self.step(until);
        }
        shared.show(self.counts());
        shared.show_stacks(self.stacks());
        let summaries = self.ends.iter().flat_map(|end| end.programs.summaries()).collect();
        let ends = self.ports.iter().zip(&self.ends).zip(self.cable.carried());
        let counted = ends.filter_map(|((port, end), carried)| {
            let counted = Counted { cable: Some(carried), ..end.stack.stack.counted()? };
            Some((port.clone(), counted))
        });
        shared.end();
        Finished {
            summaries,
            counted: counted.collect(),
            ended: Some(now.saturating_sub(BEGIN)),
            last: self.counts(),
            last_times: self.response_times(),
            gates: Some(Arc::clone(&self.gates)),
            error: self.error(),
            ..Finished::default()
        }
    }

    fn step(&mut self, until: Nanos) -> Nanos {
        let next = |stack: &OnTls, now| match stack.has_actions() {
            true => Some(now),
            false => stack.stack.next_time(now),
        };
        step(&mut self.ends, next, (&self.cable, &self.clock), until)
    }

    fn has_failed(&self) -> bool {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn error(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(PortError::to_string)
    }

    /// What the TCP of both ends did so far.
    fn stacks(&self) -> Vec<(String, StackLook)> {
        let ends = self.ports.iter().zip(&self.ends);
        ends.filter_map(|(port, end)| Some((port.clone(), end.stack.stack.done_so_far()?)))
            .collect()
    }

    /// Looks at open connections, which takes no time here.
    fn samples(&mut self) -> EndSamples {
        let mut all = EndSamples::new();
        for end in &mut self.ends {
            end.begin_samples();
            while !end.sample() {}
            all.extend(end.samples());
        }
        all
    }

    fn response_times(&self) -> EndTimes {
        self.ends.iter().flat_map(|end| end.programs.response_times()).collect()
    }

    fn counts(&self) -> Vec<(usize, End, SessionCounts)> {
        let sides = self.ends.iter().flat_map(|end| end.programs.sides());
        sides.map(|(group, end, counts)| (group, end, *counts)).collect()
    }
}
