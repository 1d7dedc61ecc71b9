//! Sessions: TCP connections with a program at either end, and when they start.
//!
//! A group of sessions has a client's port, a server's port, or both: where one is missing, that end is somebody else's.
//! `program/` is what is said (one file for each kind of program), `expect.rs` what has to come of it; whom a group talks to, how
//! many at a time and what is asked of TCP is `values/session/`. When sessions start is said in the words of flows.

mod abilities;
pub mod expect;
mod misbehave;
pub mod mix;
pub mod pool;
pub mod program;
mod sctp;
pub mod size;
pub mod tls;
mod udp;

use std::num::{NonZeroU32, NonZeroU64};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, Rate, fault};

use super::change::{Change, Settings};
use super::departures::{Departures, Duration};
use super::header::dscp::Dscp;
use super::is_default;
use super::rate::FlowRate;
use super::schema::TimeText;
use super::{FlowSpec, Invalid, KeyPath, RunSpec, Scenario};
use crate::text::hint::with_hint;
use crate::values::session::whole_per_second;
pub use crate::values::session::{
    AddressPool, AddressRange, Beyond, KeepAlive, Limit, OnTimeout, Pairing, PoolOrder, PortPool,
    RtoSpec, StackChoice, TcpSpec, Transport,
};
pub use expect::{Expectation, Measured};
pub use mix::Mix;
pub use pool::PoolSpec;
pub use program::ProgramSpec;
pub use size::DataSize;
pub use tls::{TlsSpec, TlsVersion};

/// The most groups of sessions of a scenario.
pub const MAX_GROUPS: usize = 1000;
/// The most users of a group: each takes some 70 bytes before it does anything.
pub const MAX_USERS: u32 = 10_000_000;

/// A group of sessions with one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SessionSpec {
    /// The port whose clients open the sessions. Without it somebody else opens them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<String>,
    /// The port whose servers accept them. Without it the servers are somebody else's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to: Option<String>,
    /// What both ends say.
    pub program: ProgramSpec,
    /// Whose TCP speaks. Default: the operating system's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack: StackChoice,
    /// What carries the messages: a connection of TCP, or datagrams of UDP, one for each message. Default: tcp.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transport: Transport,
    /// The addresses and ports that sessions come from. Default: the system's choice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: PoolSpec,
    /// The addresses and ports that sessions go to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub servers: PoolSpec,
    /// How many sessions start in a second (open model), for example 1000/s; or as many as have a bit rate together, both directions,
    /// for example 100Mbps. Default: as `departures` say.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "per_second")]
    pub rate: FlowRate,
    /// How the times between starts vary. Default: constant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub departures: Departures,
    /// Sessions that start together; the pause after them keeps the mean rate.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub burst: NonZeroU32,
    /// Instead of a rate: how many users there are (closed model). Each has one session at a time, and starts the next when
    /// that has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub users: Option<NonZeroU32>,
    /// How long a user waits from the end of a session to the start of the next. Default: not at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub think: Option<Duration>,
    /// How long a session stays open at least, from its start: the client waits so long before it closes. Default: no longer
    /// than the program takes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<Duration>,
    /// When the first session is due, from the start of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "TimeText")]
    pub start: Nanos,
    /// Another group that this one waits for: its times count from when so many sessions of that one are established.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<After>,
    /// No session starts at or after this, from the start of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub stop: Option<Nanos>,
    /// What the group is to reach: it stops when it has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until: Option<Until>,
    /// No more sessions than this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: Option<NonZeroU64>,
    /// How starts change, by the time from the start of the run: `rate`, `departures`, pause, resume.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(deserialize_with = "super::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, Change>")]
    pub at: IndexMap<Nanos, Change>,
    /// How many sessions may be open at a time, and what becomes of those that are due beyond it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<Limit>,
    /// By what the sessions of both ends are put together. Default: they are not, and the sums of the ends are compared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pair: Pairing,
    /// How long a session waits for its peer: for the connection, and for what its program waits for next.
    #[serde(default = "default_timeout", skip_serializing_if = "is_default_timeout")]
    #[schemars(with = "TimeText")]
    pub timeout: Nanos,
    /// Over UDP: what the client does when a message has not come by then. Default: the session ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// What is asked of TCP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSpec,
    /// TLS between the program and TCP, with what is asked of it. Default: none.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "tls::written")]
    pub tls: Option<TlsSpec>,
    /// Time to live, or hop limit. Default: the system's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<std::num::NonZeroU8>,
    /// The DSCP of packets. Default: that of the system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dscp: Option<Dscp>,
    /// The whole ToS byte, or traffic class, of packets, in place of `dscp`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tos: Option<u8>,
    /// Whether packets forbid routers to fragment them (the bit DF of IPv4). Default: yes, as path MTU discovery needs it (RFC 1191).
    #[serde(default, skip_serializing_if = "is_default")]
    pub dont_fragment: Option<bool>,
    /// What has to come of it: where one is not met, the program ends with exit code 4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Vec<Expectation>,
}

impl SessionSpec {
    /// That what is expected of it can be measured.
    pub(super) fn check_expectation(&self, expectation: &Expectation) -> Result<(), Fault> {
        if expectation.is_of_tls() && self.tls.is_none() {
            return Err(
                fault!("these sessions have no TLS, so there are no handshakes"; "add 'tls', or leave it out"),
            );
        }
        expectation.check(self.program.name(), &self.program.timers())
    }
}

/// That there are two ends to put together, and a program whose first bytes are ours.
fn check_pair(spec: &SessionSpec) -> Result<(), Fault> {
    if spec.pair == Pairing::Totals {
        return Ok(());
    }
    if spec.from.is_none() || spec.to.is_none() {
        return Err(fault!(
            "one end of the sessions is somebody else's, so there is nothing to put together";
            "name both ports, 'from' and 'to', or leave it out"
        ));
    }
    let fits = match &spec.program {
        ProgramSpec::RequestResponse(_)
        | ProgramSpec::Bulk(_)
        | ProgramSpec::Echo(_)
        | ProgramSpec::Messages(_) => spec.transport != Transport::Udp,
        ProgramSpec::Http(_)
        | ProgramSpec::Dns(_)
        | ProgramSpec::Steps(_)
        | ProgramSpec::Capture(_)
        | ProgramSpec::Misbehave(_) => false,
    };
    match fits {
        true => Ok(()),
        false => Err(fault!(
            "the number is the first that a client says over TCP, and this program says something else first";
            "use request-response, bulk, echo or messages over TCP, or leave it out"
        )),
    }
}

/// What a group waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct After {
    /// The name of another group.
    pub group: String,
    /// How many of its sessions are to be established, counted from its beginning. Default: 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub established: NonZeroU64,
}

/// What a group is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Until {
    /// How many of its sessions are to be established, counted from its beginning.
    pub established: NonZeroU64,
}

impl SessionSpec {
    /// How long a session waits for its peer where nothing is written: longer than a lost SYN and its repetition take
    /// (RFC 6298 §2: 1 s, then 2 s and 4 s).
    pub const DEFAULT_TIMEOUT: Nanos = Nanos::from_secs(10);

    /// A group with this program and every other setting at its default.
    pub fn new(program: ProgramSpec) -> SessionSpec {
        SessionSpec {
            from: None,
            to: None,
            program,
            stack: StackChoice::default(),
            transport: Transport::default(),
            clients: PoolSpec::default(),
            servers: PoolSpec::default(),
            rate: FlowRate::default(),
            departures: Departures::default(),
            burst: one(),
            users: None,
            think: None,
            hold: None,
            start: Nanos::ZERO,
            after: None,
            until: None,
            stop: None,
            count: None,
            at: IndexMap::new(),
            limit: None,
            pair: Pairing::default(),
            timeout: default_timeout(),
            on_timeout: OnTimeout::default(),
            tcp: TcpSpec::default(),
            tls: None,
            ttl: None,
            dscp: None,
            tos: None,
            dont_fragment: None,
            expect: Vec::new(),
        }
    }

    /// Whether it opens sessions by a schedule (open model), rather than by users.
    pub fn is_open_model(&self) -> bool {
        self.from.is_some() && self.users.is_none()
    }

    /// The flow whose frames would leave when the sessions start.
    pub(crate) fn starts(&self) -> FlowSpec {
        FlowSpec {
            rate: self.rate.clone(),
            departures: self.departures.clone(),
            burst: self.burst,
            start: self.start,
            stop: self.stop,
            count: self.count,
            at: self.at.clone(),
            ..FlowSpec::from_port(self.from.clone().unwrap_or_default())
        }
    }
}

impl Scenario {
    /// Finds the first thing about sessions that is invalid.
    pub(super) fn check_sessions(&self) -> Result<(), Invalid> {
        if self.sessions.len() > MAX_GROUPS {
            let why = format!(
                "there are {} groups of sessions, and {MAX_GROUPS} is the most",
                self.sessions.len()
            );
            return Err(KeyPath::root("sessions").invalid(why));
        }
        self.check_mix()?;
        let mut groups = self.sessions.iter();
        groups.try_for_each(|(name, spec)| check(self, name, &self.with_share(name, spec)))
    }
}

fn check(scenario: &Scenario, name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    let here = || KeyPath::root("sessions").key(name);
    let at = |key: &str| here().key(key);
    super::check::check_name("sessions", name)?;
    if scenario.flows.contains_key(name) {
        // both are called by their names while they run
        return Err(
            here().invalid(fault!("there is a flow of this name"; "call one of them otherwise"))
        );
    }
    for (key, port) in [("from", &spec.from), ("to", &spec.to)] {
        let Some(port) = port else { continue };
        let Some(found) = scenario.ports.get(port) else {
            let ports = scenario.ports.keys().map(String::as_str);
            return Err(at(key).invalid(with_hint("there is no port", port, ports)));
        };
        if found.peer.is_some() {
            check_far(scenario, name, spec, (key, port))?;
        }
    }
    if spec.stack == StackChoice::Own {
        check_own(scenario, name, spec)?;
    }
    pool::check_macs(scenario, name, spec)?;
    sctp::check(name, spec)?;
    udp::check(name, spec)?;
    tls::check(spec).map_err(|(key, why)| below(here(), key).invalid(why))?;
    check_pair(spec).map_err(|why| at("pair").invalid(why))?;
    misbehave::check(scenario, name, spec)?;
    if spec.tos.is_some() && spec.dscp.is_some() {
        return Err(
            at("tos").invalid(fault!("the ToS byte holds the DSCP"; "give it or 'dscp', not both"))
        );
    }
    abilities::check(spec).map_err(|(key, why)| below(here(), key).invalid(why))?;
    if spec.from.is_none() && spec.to.is_none() {
        return Err(here().invalid(fault!(
            "neither end of the sessions is here";
            "name the port that opens them in 'from', the one that accepts them in 'to', or both"
        )));
    }
    spec.clients.pool().check().map_err(|(key, why)| at("clients").key(key).invalid(why))?;
    spec.servers.pool().check().map_err(|(key, why)| at("servers").key(key).invalid(why))?;
    for (key, pool) in [("clients", &spec.clients), ("servers", &spec.servers)] {
        let on_link = spec.stack == StackChoice::Own;
        let of_no_host = |range: &AddressRange| Some((*range, range.of_no_host(on_link)?));
        if let Some((range, what)) = pool.addresses.0.iter().find_map(of_no_host) {
            return Err(at(key).key("addresses").invalid(fault!(
                "no host has an address for {what}, and {range} is such a one or has some";
                "write addresses of hosts"
            )));
        }
    }
    if spec.servers.ports.is_none() {
        return Err(at("servers")
            .key("ports")
            .invalid(fault!("there is no port to connect to"; "write for example 'ports: 80'")));
    }
    if spec.from.is_some() && spec.servers.addresses.is_empty() && !has_address(scenario, spec) {
        return Err(at("servers").key("addresses").invalid(fault!(
            "there is no address to connect to"; "write for example 'addresses: 10.0.2.9'"
        )));
    }
    if let (Some(client), Some(server)) =
        (spec.clients.addresses.0.first(), spec.servers.addresses.0.first())
        && client.is_ipv6() != server.is_ipv6()
    {
        return Err(at("clients").key("addresses").invalid(fault!(
            "clients have {client} and servers {server}: two versions of IP";
            "write addresses of one"
        )));
    }
    spec.program
        .check()
        .map_err(|(key, why)| key.below(&KeyPath::default(), at("program")).invalid(why))?;
    spec.tcp.check().map_err(|(key, why)| below(at("tcp"), key).invalid(why))?;
    if let Some(limit) = &spec.limit {
        limit.check().map_err(|(key, why)| at("limit").key(key).invalid(why))?;
    }
    check_starts(name, spec, &scenario.run)?;
    check_after(scenario, name, spec)?;
    if spec.timeout == Nanos::ZERO {
        return Err(at("timeout").invalid("a session waits some time for its peer"));
    }
    for (key, time) in [("think", &spec.think), ("hold", &spec.hold)] {
        time.iter().try_for_each(Duration::check).map_err(|why| at(key).invalid(why))?;
    }
    for (index, expectation) in spec.expect.iter().enumerate() {
        let invalid = |why| at("expect").index(index).invalid(why);
        spec.check_expectation(expectation).map_err(invalid)?;
    }
    Ok(())
}

/// What sessions with an end on another host need: the clients are here, and a listener there serves them.
fn check_far(
    scenario: &Scenario,
    name: &str,
    spec: &SessionSpec,
    (key, port): (&str, &str),
) -> Result<(), Invalid> {
    let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
    if key == "from" {
        return Err(at(key).invalid(fault!(
            "port '{port}' is on another host, and clients run on this one only";
            "run Wirebeat there with 'from' at a port of that host"
        )));
    }
    let is_far = |port: &String| scenario.ports.get(port).is_some_and(|port| port.peer.is_some());
    if spec.from.as_ref().is_none_or(is_far) {
        return Err(at(key).invalid(fault!(
            "port '{port}' is on another host, and the clients of these sessions are not on this one";
            "name the port of the clients here in 'from', or run 'wirebeat serve' there"
        )));
    }
    if spec.transport != Transport::Tcp {
        return Err(at("transport").invalid(fault!(
            "port '{port}' is on another host, and a listener there serves sessions over TCP only";
            "run 'wirebeat serve' there, and leave '{key}' out"
        )));
    }
    if let Some(tls) = &spec.tls {
        if tls.certificate.is_some() {
            return Err(at("tls").key("certificate").invalid(fault!(
                "port '{port}' is on another host, and a listener there reads no files";
                "leave 'certificate' and 'key' out, so that it makes a certificate for the run, or run 'wirebeat serve' there \
                 and leave '{key}' out"
            )));
        }
        if tls.verify {
            return Err(at("tls").invalid(fault!(
                "port '{port}' is on another host, and a listener there makes a certificate for the run, which nobody vouches for";
                "write 'tls: {{ verify: false }}'"
            )));
        }
    }
    let has_flow = |flow: &FlowSpec| flow.from == port || flow.to.as_deref() == Some(port);
    if let Some((flow, _)) = scenario.flows.iter().find(|(_, flow)| has_flow(flow)) {
        return Err(at(key).invalid(fault!(
            "port '{port}' is on another host, and has the flow '{flow}' too: a listener does one of both in a run";
            "make a scenario of each"
        )));
    }
    Ok(())
}

/// The place of a key, whose parts are separated by dots, below another.
fn below(place: KeyPath, key: &str) -> KeyPath {
    key.split('.').fold(place, |place, key| place.key(key))
}

/// What sessions over our own TCP need: hosts with addresses that are theirs alone.
fn check_own(scenario: &Scenario, name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
    for (key, port, pool) in [("from", &spec.from, &spec.clients), ("to", &spec.to, &spec.servers)]
    {
        let Some(port) = port.as_ref() else { continue };
        let of = scenario.ports.get(port);
        if pool.addresses.is_empty() && of.is_none_or(|port| port.addresses.is_empty()) {
            let end = if key == "from" { "clients" } else { "servers" };
            return Err(at(end).key("addresses").invalid(fault!(
                "with 'stack: own' the hosts have addresses of their own, and none are written";
                "write some that nobody else has on the link, for example 10.0.1.100-10.0.1.199"
            )));
        }
    }
    match spec.tcp.congestion.as_deref() {
        None | Some("cubic" | "reno" | "none") => Ok(()),
        Some(other) => Err(at("tcp").key("congestion").invalid(fault!(
            "our own TCP has no congestion control '{other}'"; "write cubic, reno or none"
        ))),
    }
}

/// That what a group waits for can come.
fn check_after(scenario: &Scenario, name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    let Some(after) = &spec.after else { return Ok(()) };
    let at = |key: &str| KeyPath::root("sessions").key(name).key("after").key(key);
    let Some(of) = scenario.sessions.get(&after.group) else {
        let groups = scenario.sessions.keys().map(String::as_str);
        return Err(at("group").invalid(with_hint("there is no group", &after.group, groups)));
    };
    if of.from.is_some()
        && let Some(count) = of.count.filter(|count| *count < after.established)
    {
        return Err(at("established").invalid(fault!(
            "'{}' has {count} sessions, fewer than {}", after.group, after.established;
            "wait for fewer"
        )));
    }
    // from one to the next, until one waits for nobody
    let mut next = Some(after);
    for _ in 0..=scenario.sessions.len() {
        let Some(waits) = next else { return Ok(()) };
        next = scenario.sessions.get(&waits.group).and_then(|of| of.after.as_ref());
    }
    Err(at("group").invalid(fault!(
        "the groups wait for each other, and none begins"; "leave 'after' of one of them out"
    )))
}

/// Whether the port that accepts says where it is.
fn has_address(scenario: &Scenario, spec: &SessionSpec) -> bool {
    let port = spec.to.as_ref().and_then(|to| scenario.ports.get(to));
    port.is_some_and(|port| !port.addresses.is_empty() || port.interface.is_some())
}

/// What is invalid of when sessions start.
fn check_starts(name: &str, spec: &SessionSpec, run: &RunSpec) -> Result<(), Invalid> {
    let here = || KeyPath::root("sessions").key(name);
    let at = |key: &str| here().key(key);
    if spec.from.is_none() {
        let written = [
            ("rate", spec.rate != FlowRate::default()),
            ("departures", spec.departures != Departures::default()),
            ("burst", spec.burst != one()),
            ("users", spec.users.is_some()),
            ("think", spec.think.is_some()),
            ("hold", spec.hold.is_some()),
            ("count", spec.count.is_some()),
            ("at", !spec.at.is_empty()),
            ("after", spec.after.is_some()),
            ("until", spec.until.is_some()),
        ];
        return match written.into_iter().find(|(_, is_written)| *is_written) {
            Some((key, _)) => Err(at(key).invalid(fault!(
                "the clients are somebody else's, and decide when sessions start";
                "leave '{key}' out, or name the port of our clients in 'from'"
            ))),
            None => Ok(()),
        };
    }
    let until = spec.until.map(|until| until.established);
    if let Some((count, until)) = spec.count.zip(until).filter(|(count, until)| count < until) {
        return Err(at("until").key("established").invalid(fault!(
            "the group has {count} sessions, fewer than {until}"; "ask for fewer, or leave 'count' out"
        )));
    }
    if spec.users.is_some_and(|users| users.get() > MAX_USERS) {
        return Err(at("users").invalid(fault!(
            "more than {MAX_USERS} users are more than one machine plays"; "ask for fewer, or for a rate"
        )));
    }
    if spec.users.is_some() {
        let written = [
            ("rate", spec.rate != FlowRate::default()),
            ("departures", spec.departures != Departures::default()),
            ("burst", spec.burst != one()),
            ("at", !spec.at.is_empty()),
        ];
        if let Some((key, _)) = written.into_iter().find(|(_, is_written)| *is_written) {
            return Err(at(key).invalid(fault!(
                "users start a session when their last one has ended, not by a rate";
                "leave 'users' or '{key}' out"
            )));
        }
        return super::check::check_times_at(here(), spec.start, spec.stop, run);
    }
    if spec.think.is_some() {
        return Err(at("think").invalid(fault!("only users think"; "add 'users', or leave it out")));
    }
    spec.rate.check().map_err(|why| at("rate").invalid(why))?;
    check_rate(&spec.rate).map_err(|why| at("rate").invalid(why))?;
    spec.departures.check().map_err(|why| at("departures").invalid(why))?;
    let ends = spec.count.is_some();
    if spec.starts().is_unlimited() && !ends {
        return Err(here().invalid(fault!(
            "nothing says how many sessions start";
            "give a 'rate' such as 1000/s, 'users', or a 'count'"
        )));
    }
    super::check::check_times_at(here(), spec.start, spec.stop, run)?;
    spec.starts().check_changes(name).map_err(|problem| in_sessions(problem, name))?;
    for (time, change) in &spec.at {
        let Change::To(settings) = change else { continue };
        let key = at("at").key(&time.to_string());
        check_planned(settings).map_err(|why| match &settings.rate {
            Some(_) if !has_frames(settings) => key.key("rate").invalid(why),
            _ => key.invalid(why),
        })?;
    }
    Ok(())
}

/// Refuses settings that cannot be those of a group of sessions.
///
/// # Errors
/// A size, headers or sub-flows, which are of frames, or a rate that counts something else than sessions.
pub fn check_settings(settings: &Settings) -> Result<(), Fault> {
    if has_frames(settings) {
        return Err("of sessions, only 'rate' and 'departures' change".into());
    }
    settings.rate.iter().try_for_each(check_counted)
}

/// The same of settings that are planned: rates may be bit rates too.
fn check_planned(settings: &Settings) -> Result<(), Fault> {
    match &settings.rate {
        Some(rate) if !has_frames(settings) => check_rate(rate),
        _ => check_settings(settings),
    }
}

/// Whether they say something of frames.
fn has_frames(settings: &Settings) -> bool {
    let Settings { size, packet, sub_flows, rate: _, departures: _ } = settings;
    size.is_some() || packet.is_some() || sub_flows.is_some()
}

/// The same problem, said of a group of sessions instead of the flow that stands for its starts.
fn in_sessions(problem: Invalid, name: &str) -> Invalid {
    let at = problem.at.below(&KeyPath::flow(name), KeyPath::root("sessions").key(name));
    Invalid { at, why: problem.why }
}

/// A rate that changes while it holds counts sessions: it is a number a second.
fn check_counted(rate: &FlowRate) -> Result<(), Fault> {
    rate.each(|rate| match rate {
        Rate::Frames(_) | Rate::Unlimited => Ok(()),
        _ => Err(fault!("'{rate}' does not count sessions"; "write for example 1000/s")),
    })
}

/// A rate of sessions is a number a second, or a bit rate.
fn check_rate(rate: &FlowRate) -> Result<(), Fault> {
    rate.each(|rate| match rate {
        Rate::LinkShare(_) => Err(fault!(
            "'{rate}' does not say how many sessions start"; "write for example 1000/s or 100Mbps"
        )),
        _ => Ok(()),
    })
}

/// A rate of sessions as people write it, 1000/s rather than 1kpps, and 0.5/s rather than 0.5pps; `None`: as other rates.
pub fn in_sessions_per_second(rate: &FlowRate) -> Option<String> {
    let FlowRate::Fixed(rate) = rate else { return None };
    if let Some(whole) = whole_per_second(rate) {
        return Some(format!("{whole}/s"));
    }
    let text = rate.to_string();
    let number = text.strip_suffix("pps").filter(|number| number.parse::<f64>().is_ok());
    number.map(|number| format!("{number}/s"))
}

/// Writes a rate of sessions, or of whatever else is counted, as people write it.
pub(crate) fn per_second<S: serde::Serializer>(
    rate: &FlowRate,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match in_sessions_per_second(rate) {
        Some(text) => serializer.collect_str(&text),
        None => rate.serialize(serializer),
    }
}

fn first() -> NonZeroU64 {
    NonZeroU64::MIN
}

fn is_first(count: &NonZeroU64) -> bool {
    *count == first()
}

pub(crate) fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

pub(crate) fn is_one(burst: &NonZeroU32) -> bool {
    *burst == one()
}

fn default_timeout() -> Nanos {
    SessionSpec::DEFAULT_TIMEOUT
}

fn is_default_timeout(timeout: &Nanos) -> bool {
    *timeout == default_timeout()
}
