//! Lowers the sessions of a scenario: when they start, whom they talk to and what both ends do.
//!
//! Starts are flows: a group's `rate`, `departures` and changes are compiled as those of a flow whose frames nobody sends, so that
//! every law that there is for frames is there for sessions. What both ends do is `script.rs`; `http.rs` has the bytes of HTTP.

mod captured;
mod dns;
pub mod fit;
mod http;
pub mod memory;
mod messages;
mod misbehave;
pub mod pauses;
mod rates;
mod script;
mod tls;
mod udp;
pub mod volume;

use std::sync::Arc;

use wirebeat_units::{Bytes, Nanos};

use super::{CompileError, Files, Link, Links, Live, departures};
use crate::distribution::draw::{Key, Purpose};
use crate::program::Program;
use crate::program::script::{After, PATTERN_LEN, PoolWalk, SessionGroup, Sessions, TimeLaw};
use crate::scenario::session::{AddressPool, ProgramSpec, SessionSpec};
use crate::scenario::{FlowSpec, Invalid, KeyPath, PortSpec, Scenario, StaggerChoice};
use crate::values::session::Pool;
use script::ScriptMaker;

/// Compiles the sessions of `scenario`, which has been checked, with the contents of the files that it names.
///
/// # Errors
/// A law that cannot be drawn from, or a file that has no times.
pub fn compile_sessions(scenario: &Scenario, files: &Files) -> Result<Sessions, CompileError> {
    compile_live_sessions(scenario, files).map(|(sessions, _)| sessions)
}

/// The same, and what their starts change by while they go on: its flows are the groups that start by a rate, by their names.
///
/// # Errors
/// As those of [`compile_sessions`].
pub fn compile_live_sessions(
    scenario: &Scenario,
    files: &Files,
) -> Result<(Sessions, Live), CompileError> {
    compile_numbered_sessions(scenario, files, |place| place)
}

/// The same, of groups that are some of another scenario's: `number` gives the place there of the group at a place here. What is
/// drawn is as in that scenario.
///
/// # Errors
/// As those of [`compile_sessions`].
pub fn compile_numbered_sessions(
    scenario: &Scenario,
    files: &Files,
    number: impl Fn(u32) -> u32,
) -> Result<(Sessions, Live), CompileError> {
    let pattern = pattern(scenario.seed);
    let mut groups = Vec::with_capacity(scenario.sessions.len());
    let mut starts = Scenario { seed: scenario.seed, ..Scenario::default() };
    starts.run.time = scenario.run.time;
    starts.run.stagger = StaggerChoice::Off;
    for (place, (name, spec)) in (0..).zip(&scenario.sessions) {
        let spec = &*scenario.with_share(name, spec);
        let maker = ScriptMaker::new(scenario.seed, number(place), spec, (&pattern, files));
        let mut group = maker.group(scenario, name)?;
        if spec.is_open_model() {
            let flow = rates::in_sessions(spec, &group);
            let flow =
                flow.map_err(|why| KeyPath::root("sessions").key(name).key("rate").invalid(why));
            group.starts = Some(starts.flows.len() as u32);
            starts.flows.insert(name.clone(), stand_in(name, flow?));
        }
        groups.push(group);
    }
    let (starts, live) = compile_starts(starts, files)?;
    let sessions = Sessions { groups, starts };
    fit::check(scenario, &sessions)?;
    Ok((sessions, live))
}

/// The flow whose frames stand for the sessions of a group.
pub(super) fn stand_in(name: &str, flow: FlowSpec) -> FlowSpec {
    use crate::scenario::header::{Header, ipv4::Ipv4, udp::Udp};
    let address = |last: u8| Some(std::net::Ipv4Addr::new(192, 0, 2, last).into());
    let ip = Ipv4 { source: address(1), destination: address(2), ..Ipv4::default() };
    FlowSpec {
        // each has a port of its own: groups do not wait for each other
        from: name.to_owned(),
        packet: vec![Header::Ipv4(ip), Header::Udp(Udp::default())].into(),
        ..flow
    }
}

fn compile_starts(mut starts: Scenario, files: &Files) -> Result<(Program, Live), CompileError> {
    let names: Vec<String> = starts.flows.keys().cloned().collect();
    let mut links = Links::default();
    for (number, name) in (0..).zip(names) {
        links.ports.insert(name.clone(), Link::imaginary(number));
        starts.ports.insert(name, PortSpec::default());
    }
    let program = super::compile(&starts, &links, files).map_err(|error| {
        let Invalid { at, why } = error.problem().clone();
        let names = starts.flows.keys();
        let at = names.fold(at, |at, name| {
            at.below(&KeyPath::flow(name), KeyPath::root("sessions").key(name))
        });
        CompileError::Invalid(at.invalid(why))
    })?;
    let live = Live::new(starts, links, files.clone(), &program);
    Ok((program, live))
}

/// The random bytes of generated data.
fn pattern(seed: u64) -> Arc<[u8]> {
    let mut draw = Key::new(seed, u32::MAX, Purpose::Payload).draw(0);
    let words = std::iter::repeat_with(|| draw.bits().to_le_bytes());
    let mut bytes: Vec<u8> = words.flatten().take(PATTERN_LEN).collect();
    let again: Vec<u8> = bytes.iter().cycle().take(1 << 16).copied().collect();
    bytes.extend(again);
    bytes.into()
}

/// When no session of the group starts any more.
fn stop(scenario: &Scenario, spec: &SessionSpec) -> Nanos {
    departures::stop(&scenario.run, &spec.starts())
}

/// The addresses and ports where servers are: those of their port where none are written.
fn servers(scenario: &Scenario, spec: &SessionSpec) -> Pool {
    let mut pool = spec.servers.pool();
    let port = spec.to.as_ref().and_then(|to| scenario.ports.get(to));
    if let Some(port) = port.filter(|_| pool.addresses.is_empty()) {
        pool.addresses = AddressPool(port.addresses.iter().map(|&ip| ip.into()).collect());
    }
    pool
}

/// The addresses and ports of clients, likewise.
fn clients(scenario: &Scenario, spec: &SessionSpec) -> Pool {
    let mut pool = spec.clients.pool();
    let port = spec.from.as_ref().and_then(|from| scenario.ports.get(from));
    if let Some(port) = port.filter(|_| pool.addresses.is_empty()) {
        pool.addresses = AddressPool(port.addresses.iter().map(|&ip| ip.into()).collect());
    }
    pool
}

impl ScriptMaker<'_> {
    fn group(mut self, scenario: &Scenario, name: &str) -> Result<SessionGroup, CompileError> {
        let spec = self.spec;
        let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
        let time = |maker: &mut Self, key: &str, time: &Option<_>| {
            let law = time.as_ref().map(|time| maker.time(time)).transpose();
            law.map_err(|why| CompileError::Invalid(at(key).invalid(why)))
        };
        let think = time(&mut self, "think", &spec.think)?;
        let hold = time(&mut self, "hold", &spec.hold)?;
        let invalid = |why| CompileError::Invalid(at("program").invalid(why));
        let client = match &spec.from {
            Some(_) => Some(Arc::new(self.client(scenario).map_err(invalid)?)),
            None => None,
        };
        let server = match &spec.to {
            Some(_) => Some(Arc::new(self.server().map_err(invalid)?)),
            None => None,
        };
        let tls = spec.tls.as_ref().map(|tls| tls::plan(tls, spec, self.files));
        let tls = tls.transpose().map_err(|(key, why)| at("tls").key(key).invalid(why))?;
        let recorded = match &spec.program {
            ProgramSpec::Capture(capture) => {
                captured::longest_wait(self.files, capture).map_err(invalid)?
            }
            _ => Nanos::ZERO,
        };
        // a server is to end those that misbehave
        let is_planned = spec.to.is_some() && spec.program.misbehaviour().is_none();
        let pauses = client.iter().flat_map(|script| &script.times).chain(&hold);
        // those that wait for their turn to send keep silent too, as long as the others take
        let waits = spec.limit.is_some_and(|limit| limit.sending.is_some());
        let silence = match (is_planned, waits) {
            (true, false) => pauses.map(TimeLaw::longest).max(),
            (true, true) => Some(TimeLaw::LONGEST),
            (false, _) => None,
        };
        let (client_key, server_key) = (self.key(), self.key());
        Ok(SessionGroup {
            name: name.to_owned(),
            from: spec.from.clone(),
            to: spec.to.clone(),
            both_ends: spec.from.is_some() && spec.to.is_some(),
            program: spec.program.title(),
            client,
            server,
            pair: spec.pair,
            stack: spec.stack,
            transport: spec.transport,
            clients: PoolWalk::new(&clients(scenario, spec), client_key),
            servers: PoolWalk::new(&servers(scenario, spec), server_key),
            starts: None,
            users: spec.users.map(Into::into),
            think,
            hold,
            silence: silence.unwrap_or_default(),
            after: spec.after.as_ref().and_then(|after| {
                // that it is there was checked
                let group = scenario.sessions.get_index_of(&after.group)?;
                Some(After { group: group as u16, established: after.established.get() })
            }),
            until: spec.until.map(|until| until.established.get()),
            start: spec.start,
            end: scenario.run.time.unwrap_or(Nanos::MAX),
            stop: match spec.from {
                Some(_) => stop(scenario, spec),
                None => spec.stop.or(scenario.run.time).unwrap_or(Nanos::MAX),
            },
            count: spec.count.map_or(u64::MAX, Into::into),
            limit: spec.limit,
            // an end that waits as it did in a capture is no silent peer
            timeout: spec.timeout.saturating_add(recorded),
            on_timeout: spec.on_timeout,
            tcp: misbehave::tcp(spec),
            tls: tls.map(Arc::new),
            ttl: spec.ttl.map(Into::into),
            tos: spec.tos.or_else(|| spec.dscp.map(|dscp| dscp.to_tos())),
            dont_fragment: spec.dont_fragment,
        })
    }
}

/// A number of bytes that fits a message.
fn whole(bytes: Bytes) -> u64 {
    bytes.get()
}

#[cfg(test)]
mod tests;
