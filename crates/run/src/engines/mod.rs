//! The engines, as a run uses them: one [`Driver`] each, in a module of its own, and which of them a port gets (`choice.rs`).
//!
//! What an engine is called and what it can do stands in the table of engines (`wirebeat_traffic::engines`), and the list of
//! drivers below follows from it. Nothing outside of this folder, the table and the engines' own crates names an engine.

mod choice;
mod kernel;
mod loopback;
mod null;
mod packet;
mod pcap;
mod probing;
mod socket;
mod xdp;

use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use wirebeat_endpoint::check_addresses;
use wirebeat_engine::budget::RunClock;
use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::drive::{Driven, Job, Plan, drive};
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_engine::port::{RxPort, TxCaps, TxPort};
use wirebeat_engine_linux::kernel::Shared;
use wirebeat_engine_linux::scheduling::ThreadOrders;
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::interval::Metered;
use wirebeat_meter::meter::Flows;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_neighbours::{Conflict, Outcome};
pub(crate) use wirebeat_traffic::engines::{Ability, Engine, TransmitQueue};
use wirebeat_traffic::program::Program;
use wirebeat_units::{Fault, fault};

use crate::error::RunError;
use crate::options::Options;
use crate::ports::ResolvedPort;
use crate::receivers::{IdlePort, IdleRx, Receiver, Receiving};
use crate::sessions::{Carrier, OwnParts, own_stack};
use crate::tapping::{SentTap, SentTaps, TappedTx};

pub(crate) use choice::{
    Choice, EngineReason, check_ethernet, choose, fallback, fastest, settle, settle_receiver,
    without_ethernet,
};
pub(crate) use loopback::InMemory;

/// What a run asks of an engine.
pub(crate) trait Driver: Sync {
    /// Tries it, on loopback or on nothing: how it works here, or what is missing.
    fn probe(&self) -> Result<String, Missing>;

    /// Whether this process may use it, for an automatic choice.
    fn is_permitted(&self) -> bool {
        true
    }

    /// That this process may use it at `port`, where it was asked for by name.
    fn check_rights(&self, port: &ResolvedPort) -> Result<(), RunError> {
        let _ = port;
        Ok(())
    }

    /// The longest frame that it sends, in bytes without FCS, where that is less than what a link carries.
    fn frame_max(&self) -> Option<u16> {
        None
    }

    /// Prepares `port` for sending frames of up to `frame_max` bytes without FCS.
    fn prepare(&self, port: &mut ResolvedPort, frame_max: u16) -> Result<(), RunError> {
        let _ = (port, frame_max);
        Ok(())
    }

    /// Prepares `port` for receiving, as far as that may fail for what the interface is: before another engine could not take
    /// its place any more.
    fn prepare_receiver(&self, port: &ResolvedPort) -> Result<(), RunError> {
        let _ = port;
        Ok(())
    }

    /// That it can send these flows of the program from `port`.
    fn check_flows(
        &self,
        port: &ResolvedPort,
        program: &Program,
        flows: &[u32],
    ) -> Result<(), RunError> {
        let _ = (port, program, flows);
        Ok(())
    }

    /// Opens a transmitter for each of `cores`, which share the flows of `port`.
    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError>;

    /// Opens the receiver of `port` and starts it.
    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let _ = how;
        let what =
            format!("port '{}' of the engine '{}' receives nothing", port.name, opening.engine);
        Err(RunError::usage(what).hint("leave 'to' out of the flows that go to it"))
    }

    /// Gets a transmitter that rested ready for what `core` sends in another run: by what it has open, and with counters from
    /// zero. Says `false`, and does nothing, where that takes another.
    fn rearm_transmitter(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        core: &TxCore,
        resting: &mut dyn Transmitter,
    ) -> Result<bool, RunError> {
        let _ = (port, opening, core, resting);
        Ok(false)
    }

    /// Gets a receiver that rested ready for another run, with the ports of all its queues: what arrives from now on. Says `false`,
    /// and does nothing, where `how` takes another.
    fn rearm_receiver(
        &self,
        port: &ResolvedPort,
        idle: &mut [Box<dyn IdlePort>],
        how: &Receiving,
    ) -> Result<bool, RunError> {
        let _ = (port, idle, how);
        Ok(false)
    }

    /// Puts our own TCP on `port`, for the rest of a run: that of one core, as `parts` say, the first core before the others. Where
    /// others share the link, the first finds out before whether one of them has an address of `parts`.
    fn open_stack(
        &self,
        port: &ResolvedPort,
        parts: OwnParts,
    ) -> Result<Box<dyn Carrier + Send>, RunError> {
        let _ = parts;
        let own =
            Engine::names(|engine| engine.can(Ability::CarrySessions) && !engine.is_virtual());
        Err(RunError::usage(fault!(
            "our own TCP does not run over the engine of port '{}'", port.name; "use one of: {own}"
        )))
    }

    /// How many different sets of header fields may change in flows that it knows by their headers.
    fn header_masks(&self) -> usize {
        usize::MAX
    }

    /// Whether it has room to meter these flows, and so many that are known by their headers.
    fn has_room_for(&self, flows: &Flows, recognised: usize) -> bool {
        let _ = (flows, recognised);
        true
    }
}

/// What opening transmitters takes beside the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxOpening<'a> {
    pub(crate) program: &'a Program,
    /// What names of files are relative to.
    pub(crate) options: &'a Options,
    pub(crate) wait: Wait,
    /// The clock of the day less the monotonic one.
    pub(crate) unix_offset: &'a UnixOffset,
    /// Of a run that can be changed: the longest frame to have room for, in bytes without FCS.
    pub(crate) room: Option<u16>,
    /// Whether what a core sends is bounded: then no port repeats a round by itself.
    pub(crate) is_limited: bool,
    /// Memory that the port takes payloads from.
    pub(crate) shared: Option<&'a Arc<Shared>>,
    /// Who wants to see each frame that leaves.
    pub(crate) sent_taps: Option<&'a SentTaps<'a>>,
    /// The links in memory.
    pub(crate) in_memory: &'a InMemory,
}

/// One transmit core: what it sends, and how its thread runs.
#[derive(Debug)]
pub(crate) struct TxCore {
    pub(crate) plan: Plan,
    pub(crate) flows: Vec<u32>,
    pub(crate) thread: ThreadOrders,
}

/// What opening a receiver takes beside the port and how it meters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxOpening<'a> {
    /// The port's place among those of the run.
    pub(crate) place: usize,
    pub(crate) engine: Engine,
    /// The links in memory.
    pub(crate) in_memory: &'a InMemory,
}

/// A port that sends, of any engine.
pub(crate) trait Transmitter: Any + Debug + Send {
    /// What it can do.
    fn caps(&self) -> &TxCaps;

    /// Runs the transmit loop over it. What leaves is noted in `tap`, if there is one.
    fn drive(
        &mut self,
        clock: TxClock,
        job: &Job<'_>,
        plan: &Plan,
        tap: Option<&mut SentTap>,
    ) -> Driven;
}

/// The clock that a transmit core reads.
#[derive(Debug)]
pub(crate) enum TxClock {
    /// The monotonic clock of the host.
    Monotonic(RunClock),
    /// That of a run in no time.
    Virtual(VirtualClock),
}

impl From<TxClock> for RunClock {
    /// That of the host for one of another kind.
    fn from(clock: TxClock) -> RunClock {
        match clock {
            TxClock::Monotonic(clock) => clock,
            TxClock::Virtual(_) => RunClock::default(),
        }
    }
}

impl From<TxClock> for VirtualClock {
    /// One from zero for one of another kind.
    fn from(clock: TxClock) -> VirtualClock {
        match clock {
            TxClock::Virtual(clock) => clock,
            TxClock::Monotonic(_) => VirtualClock::default(),
        }
    }
}

/// A port that sends by a clock of this type.
#[derive(Debug)]
struct OnClock<P, C> {
    port: P,
    clock: PhantomData<fn() -> C>,
}

impl<P, C> OnClock<P, C> {
    fn new(port: P) -> OnClock<P, C> {
        OnClock { port, clock: PhantomData }
    }
}

impl<P, C> Transmitter for OnClock<P, C>
where
    P: TxPort + Debug + 'static,
    C: Clock + From<TxClock> + Debug + Sync + 'static,
{
    fn caps(&self) -> &TxCaps {
        self.port.caps()
    }

    fn drive(
        &mut self,
        clock: TxClock,
        job: &Job<'_>,
        plan: &Plan,
        tap: Option<&mut SentTap>,
    ) -> Driven {
        let clock = C::from(clock);
        match tap {
            None => drive(&mut self.port, &clock, job, plan),
            Some(tap) => drive(&mut TappedTx::new(&mut self.port, &clock, tap), &clock, job, plan),
        }
    }
}

/// Our own TCP over these halves of a port.
fn carry(
    port: &ResolvedPort,
    parts: OwnParts,
    (mut tx, mut rx): (impl TxPort + Debug + 'static, impl RxPort + Debug + 'static),
) -> Result<Box<dyn Carrier + Send>, RunError> {
    let neighbours = parts.neighbours(&port.name)?;
    let mut frames = 0;
    if parts.core().core == 0 {
        let checked = check_addresses(&mut tx, &mut rx, &MonotonicClock, &neighbours)?;
        frames = checked.1;
        if let Outcome::Conflict(Conflict { address, mac }) = checked.0 {
            return Err(RunError::machine(fault!(
                "{address} is an address of another station on {}: {mac}", port.interface();
                "choose addresses that nobody has"
            )));
        }
    }
    let mut stack = own_stack(parts.settings, (tx, rx), MonotonicClock, neighbours);
    stack.note_neighbour_frames(frames);
    Ok(Box::new(stack))
}

/// A port on the monotonic clock that sends.
fn on_real_time(port: impl TxPort + Debug + 'static) -> Box<dyn Transmitter> {
    Box::new(OnClock::<_, RunClock>::new(port))
}

/// A port on a virtual clock that sends.
fn on_virtual_time(port: impl TxPort + Debug + 'static) -> Box<dyn Transmitter> {
    Box::new(OnClock::<_, VirtualClock>::new(port))
}

/// The port of this type that sends on the monotonic clock, if `resting` is one.
fn resting_transmitter<P: 'static>(resting: &mut dyn Transmitter) -> Option<&mut P> {
    let resting: &mut dyn Any = resting;
    resting.downcast_mut::<OnClock<P, RunClock>>().map(|resting| &mut resting.port)
}

/// The ports of this type that receive on the monotonic clock, if `idle` are such.
fn resting_receivers<P: 'static>(idle: &mut [Box<dyn IdlePort>]) -> Option<Vec<&mut P>> {
    fn port<P: 'static>(idle: &mut Box<dyn IdlePort>) -> Option<&mut P> {
        let idle: &mut dyn Any = &mut **idle;
        idle.downcast_mut::<IdleRx<P, MonotonicClock>>().map(|idle| &mut idle.port)
    }
    idle.iter_mut().map(port).collect()
}

/// The only one of them.
fn resting_receiver<P: 'static>(idle: &mut [Box<dyn IdlePort>]) -> Option<&mut P> {
    resting_receivers(idle).filter(|ports| ports.len() == 1)?.pop()
}

/// An engine that meters by itself what arrives at a port.
pub(crate) trait OwnMeter: Metered + Debug + Send + Sync {
    /// Frames metered so far, and their bytes with FCS.
    fn received(&self) -> (u64, u64);

    /// Sequence numbers that are missing now.
    fn missing(&self) -> u64;

    /// The measurements so far.
    fn summary(&self) -> MeterSummary;

    /// Stops metering; what was measured stays.
    fn pause(&self);

    /// Meters another run from zero, as `how` says. Says `false`, and does nothing, where it takes another one for that.
    fn restart(&mut self, how: &Receiving) -> Result<bool, RunError>;
}

/// What an engine lacks here.
#[derive(Debug)]
pub(crate) struct Missing {
    /// What is missing, and what would help.
    pub(crate) why: Fault,
    /// All that the kernel's verifier said, where it refused a program.
    pub(crate) verifier_log: Option<String>,
}

impl<T: Into<Fault>> From<T> for Missing {
    fn from(why: T) -> Missing {
        Missing { why: why.into(), verifier_log: None }
    }
}

/// The driver of each engine, from the module that its row names.
macro_rules! drivers {
    ($($module:ident $variant:ident { $($row:tt)* })*) => {
        /// The driver of an engine.
        pub(crate) fn driver(engine: Engine) -> &'static dyn Driver {
            match engine {
                $(Engine::$variant => &$module::Driver,)*
            }
        }
    };
}

wirebeat_traffic::for_each_engine!(drivers);

/// The longest frame that an engine sends, in bytes without FCS, where that is less than what a link carries.
pub fn frame_max(engine: Engine) -> Option<u16> {
    driver(engine).frame_max()
}

/// That a port has an interface, for an engine that needs one.
fn link(port: &ResolvedPort, engine: Engine) -> Result<&wirebeat_netlink::Link, RunError> {
    port.link.as_ref().ok_or_else(|| {
        RunError::usage(format!(
            "port '{}' has no interface, and the {engine} engine needs one",
            port.name
        ))
    })
}

/// On a virtual clock no time passes while frames are sent flat out: only a count ends them.
fn check_end(port: &ResolvedPort, program: &Program, flows: &[u32]) -> Result<(), RunError> {
    use wirebeat_traffic::program::{Pace, Stream};
    let endless = |stream: &&Stream| {
        stream.departures.pace == Pace::Unlimited && stream.departures.count == u64::MAX
    };
    let endless = program.streams_of(flows).find(endless);
    match endless.and_then(|stream| program.flows.get(stream.flow as usize)) {
        Some(flow) => Err(RunError::usage(format!(
            "flow '{}' has neither rate nor count, and port '{}' is on a virtual clock, where it would never end",
            flow.name, port.name
        ))
        .hint("give it one of them")),
        None => Ok(()),
    }
}
