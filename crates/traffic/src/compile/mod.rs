//! Lowers a scenario to a program: everything that can be decided before the first packet is.
//!
//! What depends on the machine (addresses, link speeds) comes in as [`Links`] and what lies in files as
//! [`Files`], so that compiling is pure: the same scenario, links, files and seed give the same frames and
//! deadlines everywhere. `links.rs` finds the addresses of a flow, `stack.rs` fills its headers in,
//! `layout.rs` lays them out, `frame.rs` makes its frames, `departures.rs` says when they leave, and `live.rs`
//! changes what was compiled while it is sent.

pub mod anatomy;
mod as_run;
mod captured;
mod copies;
mod cut;
mod departures;
mod endpoint;
mod files;
mod frame;
mod layout;
mod lengths;
mod links;
mod live;
mod mean;
mod memo;
mod pace;
mod recorded_session;
mod sessions;
mod stack;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use wirebeat_units::{Nanos, fault};

use self::memo::Memos;
use self::pace::Since;
use crate::program::{Departures, Endpoint, Flow, Frames, Late, Pace, Program, Stream};
use crate::scenario::change::Phase;
use crate::scenario::header::Header;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::{FlowSpec, Invalid, KeyPath, LateChoice, Replay, Scenario, StaggerChoice};

pub use as_run::as_run;
pub use files::Files;

pub use live::{Live, Part};

pub use sessions::{
    compile_live_sessions, compile_numbered_sessions, compile_sessions, fit, memory, pauses, volume,
};

pub use links::{Destination, Link, Links, Route, destinations};
pub use recorded_session::{RecordedEnd, RecordedSession, RecordedSessions, RecordedTurn};

/// Why a scenario could not be compiled. Prints the key and what would mend it;
/// [`crate::scenario::Sources::locate`] finds its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The scenario asks for what cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The scenario leaves something to this machine that it does not know.
    #[error("{0}")]
    Unknown(Invalid),
}

impl CompileError {
    /// The key and the reason.
    pub fn problem(&self) -> &Invalid {
        match self {
            CompileError::Invalid(problem) | CompileError::Unknown(problem) => problem,
        }
    }
}

/// A probe has 16 bits for the number of a flow.
const TAGS_MAX: u32 = 1 << 16;

/// What the frames of a flow are made from beside what is written of it.
struct Context<'a> {
    /// The name of the flow.
    name: &'a str,
    seed: u64,
    /// The place of the flow among those of the program.
    id: u16,
    /// Its number in probes, which also chooses what it draws.
    number: u16,
    files: &'a Files,
    memos: &'a Memos,
}

impl Context<'_> {
    /// Where packets with these headers go, for probes that say so.
    fn destination(&self, stack: &[Header]) -> SocketAddr {
        let mut destination = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        for header in stack {
            let port = |port: &Field<Number>| u16::try_from(port.first().get()).unwrap_or(0);
            match header {
                Header::Ipv4(ip) => {
                    let address = ip.destination.as_ref().map(|field| field.first().into());
                    destination.set_ip(address.unwrap_or(destination.ip()));
                }
                Header::Ipv6(ip) => {
                    let address = ip.destination.as_ref().map(|field| field.first().into());
                    destination.set_ip(address.unwrap_or(destination.ip()));
                }
                Header::Udp(udp) => destination.set_port(port(&udp.destination_or_default())),
                Header::Tcp(tcp) => destination.set_port(port(&tcp.destination)),
                _ => {}
            }
        }
        destination
    }
}

/// Compiles `scenario` for the machine that `links` describe, with the contents of the files that it names
/// ([`Files::named_in`]).
pub fn compile(scenario: &Scenario, links: &Links, files: &Files) -> Result<Program, CompileError> {
    compile_numbered(scenario, links, files, |place| place)
}

/// The same for a part of a scenario: the flow at each place has the number in probes that `number` says, and sends what
/// it would send in the whole scenario.
pub fn compile_numbered(
    scenario: &Scenario,
    links: &Links,
    files: &Files,
    number: impl Fn(u16) -> u16,
) -> Result<Program, CompileError> {
    scenario.check()?;
    let late = match scenario.run.late {
        LateChoice::Send => Late::Send,
        LateChoice::Drop => Late::Drop(scenario.run.drift),
    };
    let mut flows = Vec::with_capacity(scenario.flows.len());
    let mut streams = Vec::with_capacity(scenario.flows.len());
    let memos = Memos::default();
    // Numbers come second: there is none for a flow after the last.
    for ((name, spec), id) in scenario.flows.iter().zip(0_u16..) {
        let number = number(id);
        let context = Context { name, seed: scenario.seed, id, number, files, memos: &memos };
        let maker = Maker { scenario, links, context };
        let first = streams.len() as u32;
        let ends = add_streams(&maker, spec, &mut streams)?;
        flows.push(Flow {
            name: name.clone(),
            id,
            from: spec.from.clone(),
            to: spec.to.clone(),
            streams: first..streams.len() as u32,
            late: match spec.replay.as_ref().and_then(|replay| replay.drift) {
                Some(drift) => Late::Drop(drift.saturating_add(Replay::WITHIN)),
                None => late,
            },
            delayed_cores: spec.delayed_cores(),
            members: 0..0,
            copies: copies::copies(&maker, spec)?,
            destinations: ends.destinations,
            endpoint: ends.endpoint,
        });
    }
    number_members(&mut flows, files)?;
    departures::check_load(scenario, links, &flows, &mut streams.iter())?;
    if scenario.run.stagger == StaggerChoice::On {
        departures::stagger(&flows, &mut streams);
    }
    Ok(Program { seed: scenario.seed, flows, streams })
}

/// Gives the members of flows the tags behind those of all flows.
fn number_members(flows: &mut [Flow], files: &Files) -> Result<(), CompileError> {
    let mut next = flows.len() as u32;
    for flow in flows {
        let count = files.members(&flow.name);
        let end = next.saturating_add(count);
        if end > TAGS_MAX {
            let at = KeyPath::flow(&flow.name).key("replay").key("statistics");
            return Err(CompileError::Invalid(at.invalid(fault!(
                "all flows and what is counted by itself beside them are more than {TAGS_MAX}, \
                 and probes have no more numbers";
                "leave it out of some flows"
            ))));
        }
        flow.members = next..end;
        next = end;
    }
    Ok(())
}

/// Where a flow goes.
struct FlowEnds {
    destinations: Vec<SocketAddr>,
    endpoint: Option<Endpoint>,
}

/// Adds what a flow sends from change to change. The endpoint is that of all of them.
fn add_streams(
    maker: &Maker<'_>,
    spec: &FlowSpec,
    streams: &mut Vec<Stream>,
) -> Result<FlowEnds, CompileError> {
    let end = departures::stop(&maker.scenario.run, spec);
    let phases = spec.phases();
    let limits: Vec<Nanos> = phases.iter().skip(1).map(|phase| phase.from).chain([end]).collect();
    let mut made: Vec<(FlowSpec, Arc<Frames>, Option<Endpoint>)> = Vec::new();
    let (mut count, draws) = (None, &maker.context.memos.draws);
    let mut destinations = Vec::new();
    for (phase, stop) in phases.into_iter().zip(limits) {
        let mut before = made.iter().rev().take(REMEMBERED);
        let frames = match before.find(|(before, ..)| same_frames(before, &phase.flow)) {
            Some((_, frames, _)) => Arc::clone(frames),
            None => {
                let (frames, destination, endpoint) = maker.frames(&phase.flow)?;
                destinations.extend(destination);
                made.push((phase.flow.clone(), Arc::clone(&frames), endpoint));
                frames
            }
        };
        // What ends by its bytes does not change, so this is that of all phases.
        let count = match count {
            Some(count) => count,
            None => *count.insert(departures::count(maker.context.name, spec, &frames, draws)?),
        };
        let within = Within { stop: stop.min(end), count };
        streams.push(maker.stream(&phase, frames, within)?);
    }
    let mut endpoints = made.iter().map(|(_, _, endpoint)| *endpoint);
    let first = endpoints.next().flatten();
    let endpoint = first.filter(|_| endpoints.all(|endpoint| endpoint == first));
    destinations.sort_unstable();
    destinations.dedup();
    Ok(FlowEnds { destinations, endpoint })
}

/// Frames, where they go, and how a system would send their payloads.
type Made = (Arc<Frames>, Option<SocketAddr>, Option<Endpoint>);

/// Of how many kinds of frames that a flow had before it is looked whether they come again.
const REMEMBERED: usize = 8;

/// Whether two phases of one flow send the same frames.
fn same_frames(a: &FlowSpec, b: &FlowSpec) -> bool {
    a.packet == b.packet && a.size == b.size && a.departures.file() == b.departures.file()
}

/// Where a stream ends.
struct Within {
    stop: Nanos,
    /// Frames of the whole flow.
    count: u64,
}

/// Makes the streams of one flow.
struct Maker<'a> {
    scenario: &'a Scenario,
    links: &'a Links,
    context: Context<'a>,
}

impl Maker<'_> {
    /// The frames of the flow as it is `now`.
    fn frames(&self, now: &FlowSpec) -> Result<Made, CompileError> {
        let mtu = links::mtu(self.scenario, self.links, &now.from);
        if let Some(replay) = now.replay.as_ref().filter(|replay| replay.is_capture()) {
            let frames = captured::frames(self.context.files, replay, mtu);
            return Ok((Arc::new(frames), None, None));
        }
        let name = self.context.name;
        let packet = now.headers(name)?;
        let addresses = links::addresses(self.scenario, self.links, name, now)?;
        let stack = stack::stack(name, &packet, addresses.as_ref())?;
        let frames = frame::frames(&self.context, now, &packet, stack, mtu)?;
        let destination = addresses.as_ref().map(|addresses| {
            let port = packet.udp.map(|udp| udp.destination_or_default().first().get());
            let port = port.and_then(|port| u16::try_from(port).ok());
            SocketAddr::new(addresses.destination, port.unwrap_or(0))
        });
        let endpoint = endpoint::endpoint(&packet, addresses.as_ref());
        Ok((Arc::new(frames), destination, endpoint))
    }

    /// What the flow sends of these frames from the beginning of `phase` on.
    fn stream(
        &self,
        phase: &Phase,
        frames: Arc<Frames>,
        Within { stop, count }: Within,
    ) -> Result<Stream, CompileError> {
        let now = &phase.flow;
        let pace = match (&now.replay, phase.paused) {
            (Some(replay), paused) => Pace::Recorded {
                limited: !replay.is_unlimited(),
                sub_flows: match replay.sub_flows {
                    _ if paused => 0,
                    Some(count) => count.get(),
                    None => u32::MAX,
                },
            },
            (None, true) => Pace::Silent,
            (None, false) => {
                let speed = departures::speed(self.scenario, self.links, &now.from);
                let since = Since { number: phase.number.into(), rate_age: phase.rate_age };
                pace::pace(&self.context, now, &frames, speed, since)?
            }
        };
        let departures =
            Departures { pace, burst: now.burst.get(), start: phase.from, stop, count };
        Ok(Stream { flow: self.context.id.into(), frames, departures })
    }
}
