//! What a sender asks a listener on another host to serve, whether the listener's owner allows it, and what is told of it.
//!
//! Both ends check the same: the sender before anything opens, the listener whatever the sender did. A group is asked for as the
//! traffic language has it, with what its clients need taken out ([`server_part`]); anything else of it is refused. Both ends
//! compile it as one of a run that has both, so that each knows what the other sends. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_traffic::compile::{CompileError, Files, compile_numbered_sessions};
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::session::{
    MAX_GROUPS, PoolSpec, SessionSpec, StackChoice, TlsSpec, Transport,
};
use wirebeat_traffic::scenario::{PortSpec, RunSpec, Scenario};
use wirebeat_traffic::values::session::Pairing;
use wirebeat_units::human::{self, counted};
use wirebeat_units::{Fault, Nanos, fault};

use super::as_text;
use super::asked::PORT;
use super::message::{TEXT, tame};
use super::serve_grant::ServeGrant;

/// The most groups that a listener serves in a run.
const GROUPS_MAX: usize = 64;
/// The most addresses with ports of a group: each is a descriptor.
const PLACES_MAX: u64 = 64;
/// What the port of the sender is called.
const CLIENTS: &str = "there";
/// The most statuses of responses: three digits (RFC 9110 §15).
const STATUSES_MAX: usize = 1000;
/// The most timers that a group tells: more than a request can name.
const TIMERS_MAX: usize = 4096;
/// The most cipher suites with which handshakes are completed: those of TLS 1.2 and 1.3 that our TLS speaks are fewer.
const SUITES_MAX: usize = 64;

/// What a listener is to serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedServing {
    /// The number of the run that has begun.
    pub run: u64,
    /// The seed of every random choice.
    pub seed: u64,
    /// How long the run lasts, in ns, where the scenario says it.
    pub time_ns: Option<u64>,
    /// How long sessions that are open at the end have, in ns.
    pub settle_ns: u64,
    /// The groups.
    pub groups: Vec<AskedGroup>,
}

/// A group of sessions that a listener is to serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedGroup {
    /// Its place among the groups of the sender's scenario.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The group, from the port `there` to the port `here`; in a message, its JSON as a text.
    #[serde(with = "as_text")]
    pub session: Box<SessionSpec>,
}

/// What a server needs of a group, which accepts sessions at `servers`.
pub(crate) fn server_part(spec: &SessionSpec, servers: PoolSpec) -> SessionSpec {
    let usual = SessionSpec::new(spec.program.clone());
    // where they count from another group's sessions, only the sender knows when it begins: until the run is over there may be some
    let from_start = spec.after.is_none();
    SessionSpec {
        from: Some(CLIENTS.to_owned()),
        to: Some(PORT.to_owned()),
        servers,
        // nobody starts any there; with the times that users take, all that is drawn is drawn as for the sender
        users: Some(spec.users.unwrap_or(NonZeroU32::MIN)),
        think: spec.think.clone(),
        hold: spec.hold.clone(),
        count: spec.count,
        start: if from_start { spec.start } else { Nanos::ZERO },
        stop: spec.stop.filter(|_| from_start),
        timeout: spec.timeout,
        tcp: spec.tcp.clone(),
        // whom clients trust is theirs to know
        tls: spec.tls.clone().map(|tls| TlsSpec { authority: None, ..tls }),
        ttl: spec.ttl,
        dscp: spec.dscp,
        tos: spec.tos,
        dont_fragment: spec.dont_fragment,
        pair: spec.pair,
        ..usual
    }
}

fn of_group(name: &str, why: Fault) -> Fault {
    Fault { what: format!("sessions '{name}': {}", why.what), ..why }
}

/// What is not allowed, and what is.
fn not_allowed(what: impl Into<String>, grant: &ServeGrant) -> Fault {
    Fault::from(what.into()).then_hint(format!("the listener allows {grant}"))
}

impl AskedServing {
    /// Makes its names harmless.
    pub(super) fn tame(&mut self) {
        self.groups.iter_mut().for_each(|group| tame(&mut group.name, TEXT));
    }

    /// What is written in it and `grant` does not allow.
    ///
    /// # Errors
    /// The first group that is not allowed, and what is.
    pub fn check(&self, grant: &ServeGrant) -> Result<(), Fault> {
        if self.groups.is_empty() || self.groups.len() > GROUPS_MAX {
            return Err(fault!(
                "{} of sessions are to be served there, and 1 to {GROUPS_MAX} can be",
                counted(self.groups.len() as u64, "group");
                "run 'wirebeat serve' there for the others"
            ));
        }
        let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
        for AskedGroup { number, name, session } in &self.groups {
            if !numbers.insert(number) || !names.insert(name) || *number as usize >= MAX_GROUPS {
                return Err(fault!("group '{name}' is there twice"; "give it once"));
            }
            self.check_group(session, grant).map_err(|why| of_group(name, why))?;
        }
        Ok(())
    }

    fn check_group(&self, spec: &SessionSpec, grant: &ServeGrant) -> Result<(), Fault> {
        if spec.transport != Transport::Tcp || spec.stack == StackChoice::Own {
            return Err(
                fault!("a listener serves sessions with its system's TCP"; "leave 'transport' out"),
            );
        }
        if *spec != server_part(spec, spec.servers.clone()) {
            return Err(
                fault!("it says what servers do not need"; "run the same Wirebeat on both hosts"),
            );
        }
        if spec.program.misbehaviour().is_some() {
            return Err(fault!(
                "a listener serves no clients that misbehave";
                "run 'wirebeat serve' there, and leave 'to' out"
            ));
        }
        let captured = spec.program.capture().map(|capture| capture.file.as_str());
        if let Some(file) = spec.program.files().into_iter().next().or(captured) {
            return Err(fault!(
                "its program sends the file '{file}', and a listener reads no files";
                "run 'wirebeat serve' there, or write the text"
            ));
        }
        if let Some(file) =
            spec.tls.iter().find_map(|tls| tls.certificate.as_ref().or(tls.key.as_ref()))
        {
            return Err(fault!(
                "its certificate is in the file '{file}', and a listener reads no files";
                "leave 'certificate' and 'key' out, so that it makes one, or run 'wirebeat serve' there"
            ));
        }
        if spec.pair != Pairing::default() {
            return Err(fault!(
                "sessions are paired one by one where both ends are in one process";
                "leave 'pair' out: the sums of both ends are compared"
            ));
        }
        let buffers = [
            ("send-buffer", spec.tcp.send_buffer.is_some()),
            ("receive-buffer", spec.tcp.receive_buffer.is_some()),
        ];
        if let Some((key, _)) = buffers.into_iter().find(|(_, is)| *is) {
            return Err(fault!(
                "the memory of the listener's host is not the sender's to choose";
                "leave '{key}' out, or run 'wirebeat serve' there"
            ));
        }
        let places = places(&spec.servers)?;
        if let Some(at) = places.iter().find(|at| !grant.allows(**at)) {
            return Err(not_allowed(format!("it is to be accepted at {at}"), grant));
        }
        let stop = [spec.stop, self.time_ns.map(Nanos::new)].into_iter().flatten().min();
        match stop {
            Some(stop) if stop > grant.time() => {
                let lasts = human::time(stop.get() as f64);
                Err(not_allowed(format!("its sessions start for {lasts}"), grant))
            }
            _ => Ok(()),
        }
    }

    /// The scenario of this run with both ends; the one here has the port `here`.
    ///
    /// # Errors
    /// What it cannot mean.
    pub(crate) fn scenario(&self) -> Result<Scenario, Fault> {
        let ports = [PORT, CLIENTS].map(|port| (port.to_owned(), PortSpec::default()));
        let group = |group: &AskedGroup| (group.name.clone(), (*group.session).clone());
        let scenario = Scenario {
            seed: self.seed,
            ports: ports.into_iter().collect(),
            sessions: self.groups.iter().map(group).collect(),
            run: RunSpec {
                time: self.time_ns.map(Nanos::new),
                settle: Nanos::new(self.settle_ns),
                ..RunSpec::default()
            },
            ..Scenario::default()
        };
        scenario.check().map_err(|error| CompileError::from(error).problem().fault())?;
        Ok(scenario)
    }

    /// The same, compiled: servers alone.
    ///
    /// # Errors
    /// A distribution that cannot be sampled.
    pub(crate) fn compile(&self, scenario: &Scenario) -> Result<Sessions, Fault> {
        let number = |place: u32| {
            let group = self.groups.get(place as usize);
            group.map_or(place, |group| group.number)
        };
        let (mut sessions, _) = compile_numbered_sessions(scenario, &Files::default(), number)
            .map_err(|error| error.problem().fault())?;
        for group in &mut sessions.groups {
            (group.client, group.starts, group.users) = (None, None, None);
        }
        Ok(sessions)
    }
}

/// Where a group is accepted.
fn places(servers: &PoolSpec) -> Result<Vec<SocketAddr>, Fault> {
    let ports = servers.ports.as_ref().map_or(0, |ports| ports.len());
    let count = servers.addresses.len().saturating_mul(ports);
    if count == 0 || count > PLACES_MAX {
        return Err(fault!(
            "it is to be accepted at {}, and 1 to {PLACES_MAX} can be", counted(count, "address");
            "write 'addresses' and 'ports' of its 'servers'"
        ));
    }
    let ports: Vec<u16> = servers.ports.iter().flat_map(|ports| ports.iter()).collect();
    let addresses = (0..servers.addresses.len()).filter_map(|n| servers.addresses.get(n));
    let all = addresses.flat_map(|ip| ports.iter().map(move |&port| SocketAddr::new(ip, port)));
    Ok(all.collect())
}

/// How serving goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServingOrder {
    /// As it is.
    GoOn,
    /// The clients are done: what is open may end.
    Finish,
    /// All is closed now.
    Stop,
}

/// Where a listener accepts the sessions of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedPlace {
    /// The name of the group.
    pub group: String,
    /// The address.
    pub address: SocketAddr,
}

/// What a listener tells of what it served, beside the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedSummary {
    /// The number of the run.
    pub run: u64,
    /// Why serving ended early, if it did.
    pub ended: Option<String>,
}

/// What was served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedSessions {
    /// By the numbers of groups.
    pub groups: BTreeMap<u32, SessionSummary>,
    /// The rest.
    pub summary: ServedSummary,
}

/// What a look at it finds.
#[derive(Clone, Debug, PartialEq)]
pub enum ServingLook {
    /// It goes on: what was counted so far, in the order in which the groups were asked for.
    Serving(Vec<SessionCounts>),
    /// It has ended.
    Ended(Box<ServedSessions>),
}

impl ServedSummary {
    pub(super) fn tame(&mut self) {
        self.ended.iter_mut().for_each(|text| tame(text, TEXT));
    }
}

/// Keeps no more of a summary than any can have, with names that are harmless, and checks it. An error says what cannot be true.
pub(super) fn take_summary(mut summary: SessionSummary) -> Result<SessionSummary, String> {
    if summary.statuses.len() > STATUSES_MAX || summary.timers.len() > TIMERS_MAX {
        return Err("it tells more statuses or timers than there are".to_owned());
    }
    let timers = std::mem::take(&mut summary.timers).into_iter().map(|(mut name, timer)| {
        tame(&mut name, TEXT);
        (name, timer)
    });
    summary.timers = timers.collect();
    if summary.suites.len() > SUITES_MAX {
        return Err("it tells more cipher suites than there are".to_owned());
    }
    let suites = std::mem::take(&mut summary.suites).into_iter().map(|(mut name, count)| {
        tame(&mut name, TEXT);
        (name, count)
    });
    summary.suites = suites.collect();
    tame(&mut summary.tls_failure, TEXT);
    summary.validate().map_err(|error| error.to_string())?;
    Ok(summary)
}
