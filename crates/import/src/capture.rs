//! A capture becomes programs of sessions: a group for each kind of session that is in it, as often as it was.
//!
//! Sessions are of one kind where the same ports of servers are asked in the same way: by the same transport, with turns of the same ends and
//! lengths. A kind is said again as the first of them was. Kinds that are beyond what a run holds are said as the one nearest to them, and
//! that is told, as sessions are that the capture has not whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;

use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::session::program::Capture;
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, PoolSpec, PortPool, ProgramSpec, SessionSpec, StackChoice, Transport,
};
use wirebeat_traffic::scenario::{EngineChoice, PortSpec, RunSpec, Scenario};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Fault, FrameRate, Nanos, Rate, fault, human};

/// The port of clients, and that of servers.
pub(crate) const CLIENTS: &str = "clients";
pub(crate) const SERVERS: &str = "servers";
/// The most kinds: our own TCP tells 256 ends of groups apart, and each group has two.
pub const KINDS_MAX: usize = 128;
/// A capture is taken as this long at least.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// What is known of a session in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// Its number, from 1.
    pub number: u64,
    /// What carried it.
    pub transport: Transport,
    /// Who opened it.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// How long it took.
    pub lasted: Nanos,
    /// What was said: whether by the client, and how many bytes.
    pub turns: Vec<(bool, u64)>,
    /// Bytes that the capture does not have.
    pub missing: u64,
    /// Whether its beginning was captured.
    pub is_from_the_start: bool,
    /// Segments that were sent again, and are said once.
    pub repeated: u64,
}

/// What copies of a capture are made of, packet by packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// Its packets: whether the client sends it, and how long after the one before it.
    pub packets: Vec<(bool, Nanos)>,
    /// How many different ports the client has.
    pub client_ports: u16,
    /// Whether they are of IPv6.
    pub is_ipv6: bool,
}

impl SessionFacts {
    /// Bytes that one end says.
    fn said(&self, by_client: bool) -> u64 {
        self.turns.iter().filter(|turn| turn.0 == by_client).map(|turn| turn.1).sum()
    }

    /// Why it cannot be said again.
    fn flaw(&self) -> Option<Flaw> {
        match self {
            _ if self.missing > 0 => Some(Flaw::Missing),
            _ if !self.is_from_the_start => Some(Flaw::Beginning),
            _ if self.transport == Transport::Udp && self.turns.iter().any(|turn| turn.1 == 0) => {
                Some(Flaw::Empty)
            }
            _ if self.server.port() == 0 => Some(Flaw::NoPort),
            _ => None,
        }
    }

    /// Why it cannot be said again, in words.
    pub(crate) fn flaw_text(&self) -> Option<&'static str> {
        self.flaw().map(Flaw::what)
    }

    /// What sessions of its kind have in common. Pieces that one end says in a row are one, as TCP has no others.
    fn shape(&self) -> Vec<(bool, u64)> {
        let mut shape: Vec<(bool, u64)> = Vec::new();
        for &(by_client, bytes) in &self.turns {
            match shape.last_mut() {
                Some(last) if last.0 == by_client && self.transport == Transport::Tcp => {
                    last.1 += bytes;
                }
                _ => shape.push((by_client, bytes)),
            }
        }
        shape
    }
}

/// Why a session cannot be said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flaw {
    Missing,
    Beginning,
    Empty,
    NoPort,
}

impl Flaw {
    fn what(self) -> &'static str {
        match self {
            Flaw::Missing => {
                "bytes are missing: frames were cut or lost, or one side was captured alone (tcpdump -s 0 captures whole frames)"
            }
            Flaw::Beginning => "they began before the capture did",
            Flaw::Empty => "datagrams of no bytes are no messages",
            Flaw::NoPort => "their port is 0",
        }
    }
}

/// A capture.
#[derive(Clone, Debug)]
pub struct CapturedSessions<'a> {
    /// The name of its file, as the scenario is to have it.
    pub file: &'a str,
    /// Its sessions.
    pub sessions: &'a [SessionFacts],
    /// From its first packet to its last.
    pub span: Nanos,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The interface of the clients. Without one, both ends are in memory.
    pub from: Option<String>,
    /// The interface of the servers. Without one, where clients have one, the servers are those of the capture, by their addresses.
    pub to: Option<String>,
    /// How long sessions start; `None`: as long as the capture is.
    pub time: Option<Nanos>,
    /// How many times as many sessions start as in the capture.
    pub multiply: Option<NonZeroU64>,
    /// Whether each end waits as long as it did.
    pub keep_times: bool,
}

/// A capture as programs.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramsFound {
    /// The traffic. It passes [`Scenario::check`].
    pub scenario: Scenario,
    /// What was found, line by line.
    pub table: Vec<String>,
    /// What is not in the scenario, and why.
    pub left_out: Vec<String>,
}

/// A kind of session.
struct SessionKind<'a> {
    first: &'a SessionFacts,
    count: u64,
}

/// Makes programs of a capture.
///
/// # Errors
/// Where no session of it can be said again.
pub fn programs(
    captured: &CapturedSessions<'_>,
    options: &CaptureOptions,
) -> Result<ProgramsFound, Fault> {
    let mut flaws = BTreeMap::<Flaw, u64>::new();
    let mut places = BTreeMap::<(bool, u16, Vec<(bool, u64)>), usize>::new();
    let mut kinds: Vec<SessionKind<'_>> = Vec::new();
    for session in captured.sessions {
        if let Some(flaw) = session.flaw() {
            *flaws.entry(flaw).or_default() += 1;
            continue;
        }
        let key = (session.transport == Transport::Udp, session.server.port(), session.shape());
        let at = *places.entry(key).or_insert(kinds.len());
        match kinds.get_mut(at) {
            Some(kind) => kind.count += 1,
            None => kinds.push(SessionKind { first: session, count: 1 }),
        }
    }
    let mut left_out: Vec<String> =
        flaws.iter().map(|(flaw, &count)| left_out_line(count, flaw.what())).collect();
    if kinds.is_empty() {
        let all = captured.sessions.len() as u64;
        let why = match all {
            0 => "there are no sessions of TCP or UDP in the capture".to_owned(),
            _ => format!("no session of the capture can be said again: {}", left_out.join("; ")),
        };
        return Err(
            fault!("{why}"; "capture sessions from their beginning, both directions, whole frames"),
        );
    }
    // those that are there most often first; of equal ones in the order of the capture
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    left_out.extend(merge(&mut kinds));
    let scenario = scenario(captured, options, &kinds);
    scenario.check().map_err(|problem| problem.why.at(problem.at.to_string()))?;
    let table = table(captured, &scenario, &kinds);
    Ok(ProgramsFound { scenario, table, left_out })
}

/// Makes of more than [`KINDS_MAX`] kinds as many, and tells it: each service keeps its most frequent kind, and the most frequent others fill
/// up. The rest is said as the nearest of the same service, so that each has as many sessions as in the capture.
fn merge(kinds: &mut Vec<SessionKind<'_>>) -> Vec<String> {
    if kinds.len() <= KINDS_MAX {
        return Vec::new();
    }
    let service =
        |kind: &SessionKind<'_>| (kind.first.transport == Transport::Udp, kind.first.server.port());
    let mut seen = BTreeSet::new();
    let firsts: Vec<bool> = kinds.iter().map(|kind| seen.insert(service(kind))).collect();
    let others = firsts.iter().filter(|is_first| **is_first).count().min(KINDS_MAX);
    let (mut of_firsts, mut of_others) = (others, KINDS_MAX - others);
    let mut kept = Vec::new();
    let mut rest = Vec::new();
    for (kind, is_first) in kinds.drain(..).zip(firsts) {
        let room = if is_first { &mut of_firsts } else { &mut of_others };
        match room.checked_sub(1) {
            Some(less) => {
                *room = less;
                kept.push(kind);
            }
            None => rest.push(kind),
        }
    }
    let (mut merged, mut of_kinds) = (0, 0);
    let mut without = BTreeMap::<(bool, u16), u64>::new();
    for kind in rest {
        let said = |of: &SessionKind<'_>| [true, false].map(|by_client| of.first.said(by_client));
        let apart = |of: &&mut SessionKind<'_>| {
            let [up, down] = said(of);
            let [of_up, of_down] = said(&kind);
            up.abs_diff(of_up).saturating_add(down.abs_diff(of_down))
        };
        let mine = service(&kind);
        match kept.iter_mut().filter(|of| service(of) == mine).min_by_key(apart) {
            Some(nearest) => {
                nearest.count += kind.count;
                merged += kind.count;
                of_kinds += 1;
            }
            None => *without.entry(mine).or_default() += kind.count,
        }
    }
    *kinds = kept;
    let mut told = Vec::new();
    if merged > 0 {
        told.push(format!(
            "{} of {} are said as the nearest in length at their port: our own TCP has {KINDS_MAX} groups at most (take a part of the capture, for \
             instance with tshark -Y)",
            human::counted(merged, "session"),
            human::counted(of_kinds, "kind"),
        ));
    }
    if !without.is_empty() {
        let all = without.values().sum();
        let named = |(&(is_udp, port), _): (&(bool, u16), &u64)| {
            format!("{}-{port}", if is_udp { "udp" } else { "tcp" })
        };
        let mut names: Vec<String> = without.iter().take(8).map(named).collect();
        if without.len() > names.len() {
            names.push(format!("{} more", without.len() - names.len()));
        }
        let why = format!(
            "they are at more ports than the {KINDS_MAX} groups that our own TCP has at most, and others are more frequent ({})",
            names.join(", ")
        );
        told.push(left_out_line(all, &why));
    }
    told
}

fn left_out_line(count: u64, what: &str) -> String {
    format!("{} left out: {what}", human::counted(count, "session"))
}

/// The engine that carries sessions and needs nothing.
fn in_memory() -> EngineChoice {
    let needs_nothing = |engine: &&Engine| {
        engine.is_virtual() && engine.can(Ability::CarrySessions) && engine.can(Ability::Deliver)
    };
    Engine::ALL
        .iter()
        .copied()
        .find(|engine| needs_nothing(&engine))
        .map_or_else(EngineChoice::default, EngineChoice::from)
}

/// The port of an interface; without one, in memory.
pub(crate) fn port(interface: &Option<String>) -> PortSpec {
    match interface {
        Some(_) => PortSpec { interface: interface.clone(), ..PortSpec::default() },
        None => PortSpec { engine: in_memory(), ..PortSpec::default() },
    }
}

fn scenario(
    captured: &CapturedSessions<'_>,
    options: &CaptureOptions,
    kinds: &[SessionKind<'_>],
) -> Scenario {
    let mut scenario = Scenario::default();
    scenario.ports.insert(CLIENTS.to_owned(), port(&options.from));
    let ours = options.to.is_some() || options.from.is_none();
    if ours {
        scenario.ports.insert(SERVERS.to_owned(), port(&options.to));
    }
    let span = captured.span.max(SHORTEST);
    for (kind, number) in kinds.iter().zip(1_u32..) {
        let SessionKind { first, count } = kind;
        let program = Capture {
            session: NonZeroU64::new(first.number),
            keep_times: (options.keep_times && first.transport == Transport::Tcp).then_some(true),
            ..Capture::of(captured.file.to_owned())
        };
        let times = options.multiply.map_or(1, NonZeroU64::get) as f64;
        let rate = rate(*count as f64 * times / span.as_secs_f64());
        let is_v6 = first.server.is_ipv6();
        let (clients, server) = match ours {
            true => (client_pool(is_v6), server_address(is_v6, number)),
            // the system's choice
            false => (AddressPool::default(), first.server.ip()),
        };
        let group = SessionSpec {
            from: Some(CLIENTS.to_owned()),
            to: ours.then(|| SERVERS.to_owned()),
            stack: if ours { StackChoice::Own } else { StackChoice::default() },
            transport: first.transport,
            clients: PoolSpec { addresses: clients, ..PoolSpec::default() },
            servers: PoolSpec {
                addresses: one(server),
                ports: Some(PortPool(vec![PortRange {
                    first: first.server.port(),
                    last: first.server.port(),
                }])),
                ..PoolSpec::default()
            },
            rate: FlowRate::Fixed(rate),
            ..SessionSpec::new(ProgramSpec::Capture(Box::new(program)))
        };
        scenario.sessions.insert(group_name(&scenario, first), group);
    }
    scenario.run = RunSpec { time: Some(options.time.unwrap_or(span)), ..RunSpec::default() };
    scenario
}

/// So many sessions in a second, to four digits.
fn rate(per_second: f64) -> Rate {
    let digits = (3.0 - per_second.log10().floor()).clamp(0.0, 9.0) as usize;
    let exact = FrameRate { frames: per_second.ceil() as u64, per: Nanos::from_secs(1) };
    format!("{per_second:.digits$}/s").parse().unwrap_or(Rate::Frames(exact))
}

/// The name of a group: `tcp-80`, then `tcp-80-2` and so on.
fn group_name(scenario: &Scenario, first: &SessionFacts) -> String {
    let name = format!("{}-{}", first.transport.name(), first.server.port());
    let free = |name: &String| !scenario.sessions.contains_key(name);
    let others = (2_u32..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(others).find(free).unwrap_or(name)
}

fn one(address: IpAddr) -> AddressPool {
    AddressPool(vec![address.into()])
}

/// Where clients are: 254 addresses of the networks for tests of devices (RFC 2544 appendix C.2.2, RFC 5180 §8).
fn client_pool(is_v6: bool) -> AddressPool {
    let range = if is_v6 { "2001:2::1:1-2001:2::1:fe" } else { "198.18.0.1-198.18.0.254" };
    AddressPool(range.parse::<AddressRange>().ok().into_iter().collect())
}

/// Where the servers of group `number` are: each group has an address of its own, since ports may be the same.
fn server_address(is_v6: bool, number: u32) -> IpAddr {
    let low = number.min(u16::MAX.into()) as u16;
    match is_v6 {
        true => [0x2001, 2, 0, 0, 0, 0, 2, low].into(),
        false => Ipv4Addr::new(198, 19, (low >> 8) as u8, low as u8).into(),
    }
}

/// What was found, for people.
fn table(
    captured: &CapturedSessions<'_>,
    scenario: &Scenario,
    kinds: &[SessionKind<'_>],
) -> Vec<String> {
    let all: u64 = kinds.iter().map(|kind| kind.count).sum();
    let repeated: u64 = captured.sessions.iter().map(|session| session.repeated).sum();
    let mut lines = vec![format!(
        "{}: {} in {}, of {}",
        captured.file,
        human::counted(all, "session"),
        human::long_time(captured.span.get()),
        human::counted(kinds.len() as u64, "kind"),
    )];
    if repeated > 0 {
        lines.push(format!("{} sent again and said once", human::counted(repeated, "segment")));
    }
    let rows: Vec<[String; 7]> = scenario
        .sessions
        .keys()
        .zip(kinds)
        .map(|(name, kind)| {
            [
                name.clone(),
                human::count(kind.count),
                kind.first.number.to_string(),
                kind.first.turns.len().to_string(),
                human::count(kind.first.said(true)),
                human::count(kind.first.said(false)),
                human::time(kind.first.lasted.get() as f64),
            ]
        })
        .collect();
    let head = ["group", "sessions", "said as", "turns", "bytes up", "bytes down", "lasted"];
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(String::len);
            cells.chain(head.get(column).map(|it| it.len())).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.push(line(head.to_vec()));
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64, port: u16, turns: &[(bool, u64)]) -> SessionFacts {
        SessionFacts {
            number,
            transport: if port == 53 { Transport::Udp } else { Transport::Tcp },
            client: "10.0.0.1:5000".parse().unwrap(),
            server: SocketAddr::new("10.0.0.2".parse().unwrap(), port),
            lasted: Nanos::from_millis(12),
            turns: turns.to_vec(),
            missing: 0,
            is_from_the_start: true,
            repeated: 0,
        }
    }

    fn found(sessions: &[SessionFacts], options: &CaptureOptions) -> Result<ProgramsFound, String> {
        let captured = CapturedSessions { file: "day.pcap", sessions, span: Nanos::from_secs(20) };
        programs(&captured, options).map_err(|why| why.to_string())
    }

    #[test]
    fn sessions_of_one_kind_are_a_group_with_their_rate() {
        let all = [
            session(1, 80, &[(true, 70), (false, 900)]),
            session(2, 53, &[(true, 30), (false, 60)]),
            // the same in other pieces
            session(3, 80, &[(true, 70), (false, 400), (false, 500)]),
            session(4, 80, &[(true, 71), (false, 900)]),
        ];
        let options = CaptureOptions { multiply: NonZeroU64::new(10), ..CaptureOptions::default() };
        let found = found(&all, &options).unwrap();
        let yaml = found.scenario.to_yaml().unwrap();
        assert_eq!(
            found.scenario.sessions.keys().collect::<Vec<_>>(),
            ["tcp-80", "udp-53", "tcp-80-2"]
        );
        for line in [
            "engine: loopback",
            "rate: 1/s",
            "rate: 0.5/s",
            "session: 4",
            "addresses: \"198.19.0.2\"",
            "time: 20s",
        ] {
            assert!(yaml.contains(line), "{line}\n{yaml}");
        }
        assert!(found.left_out.is_empty());
        assert_eq!(found.table[0], "day.pcap: 4 sessions in 20.0 s, of 3 kinds");
        let read = Scenario::from_yaml(&yaml, "test").unwrap();
        assert_eq!(read, found.scenario);
    }

    #[test]
    fn servers_of_the_capture_are_asked_where_they_were() {
        let options = CaptureOptions {
            from: Some("eth1".to_owned()),
            keep_times: true,
            time: Some(Nanos::from_secs(5)),
            ..CaptureOptions::default()
        };
        let found = found(&[session(1, 80, &[(true, 70)])], &options).unwrap();
        let group = &found.scenario.sessions["tcp-80"];
        assert_eq!((&group.to, group.stack), (&None, StackChoice::Host));
        assert_eq!(group.servers.addresses, one("10.0.0.2".parse().unwrap()));
        assert_eq!(group.program.capture().unwrap().keep_times, Some(true));
        assert_eq!(found.scenario.run.time, Some(Nanos::from_secs(5)));
    }

    #[test]
    fn what_is_not_whole_is_left_out_and_told() {
        let cut = SessionFacts { missing: 9, ..session(1, 80, &[(true, 70)]) };
        let late = SessionFacts { is_from_the_start: false, ..session(2, 80, &[(true, 70)]) };
        let why = found(&[cut.clone(), late.clone()], &CaptureOptions::default()).unwrap_err();
        assert!(why.contains("1 session left out: bytes are missing"), "{why}");
        let good = session(3, 80, &[(true, 70)]);
        let found = found(&[cut, late, good], &CaptureOptions::default()).unwrap();
        assert_eq!(found.left_out.len(), 2);
        assert_eq!(found.scenario.sessions.len(), 1);
    }

    #[test]
    fn a_scenario_holds_so_many_kinds() {
        let mut all: Vec<_> = (1..=200).map(|n| session(n, 80, &[(true, n)])).collect();
        all.push(session(201, 80, &[(true, 200)]));
        let found = found(&all, &CaptureOptions::default()).unwrap();
        assert_eq!(found.scenario.sessions.len(), KINDS_MAX);
        // the one that is there twice comes first
        assert_eq!(
            found.scenario.sessions[0].program.capture().unwrap().session,
            NonZeroU64::new(200)
        );
        // the others are said as the nearest of them
        assert!(
            found.left_out[0].starts_with("72 sessions of 72 kinds are said as the nearest"),
            "{:?}",
            found.left_out
        );
        assert_eq!(
            (found.left_out.len(), &*found.table[0]),
            (1, "day.pcap: 201 sessions in 20.0 s, of 128 kinds")
        );
        let yaml = found.scenario.to_yaml().unwrap();
        assert!(yaml.contains("rate: 1.9/s") && yaml.contains("rate: 1.85/s"), "{yaml}");
    }

    #[test]
    fn each_port_keeps_a_kind_and_ports_beyond_the_most_are_named() {
        let mut all: Vec<_> = (1..=200).map(|n| session(n, 80, &[(true, n)])).collect();
        all.push(session(201, 5001, &[(true, 7)]));
        all.push(session(202, 53, &[(true, 9)]));
        let kept = found(&all, &CaptureOptions::default()).unwrap();
        let names: Vec<&str> = kept.scenario.sessions.keys().map(String::as_str).collect();
        assert_eq!(names.len(), KINDS_MAX);
        assert!(names.contains(&"tcp-5001") && names.contains(&"udp-53"), "{names:?}");
        assert_eq!(kept.left_out.len(), 1, "{:?}", kept.left_out);
        let all: Vec<_> = (1..=130).map(|n| session(n, 1000 + n as u16, &[(true, 5)])).collect();
        let found = found(&all, &CaptureOptions::default()).unwrap();
        let says = "2 sessions left out: they are at more ports than the 128 groups";
        assert!(found.left_out[0].starts_with(says), "{:?}", found.left_out);
        assert!(found.left_out[0].contains("(tcp-1129, tcp-1130)"), "{:?}", found.left_out);
    }
}
