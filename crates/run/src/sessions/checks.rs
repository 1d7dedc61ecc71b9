//! What is found before the first session starts: addresses of ports, descriptors, client ports.

use std::net::IpAddr;

use wirebeat_host::memory;
use wirebeat_sockets::machine;
use wirebeat_traffic::compile::memory::of_end as end_memory;
use wirebeat_traffic::compile::{CompileError, fit};
use wirebeat_traffic::program::script::{Body, LengthLaw, Message, SessionGroup, Sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::values::session::{AddressPool, StackChoice, Transport};
use wirebeat_units::{Nanos, fault, human};
use wirebeat_wire::{ipv4, ipv6, udp};

use super::{own, own_profile};
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// The most listeners of a group: each is a descriptor.
const LISTENERS_MAX: u64 = 1024;
/// Descriptors of this process that are not connections.
const RESERVE: u64 = 64;
/// How long Linux keeps the port of a connection that was closed here first (`TCP_TIMEWAIT_LEN` of net/tcp.h).
const TIME_WAIT: Nanos = Nanos::from_secs(60);

/// The same sessions, with the addresses of interfaces where ports name those and nothing else.
pub(super) fn with_addresses(
    mut sessions: Sessions,
    ports: &[ResolvedPort],
) -> Result<Sessions, RunError> {
    for group in &mut sessions.groups {
        if group.servers.pool.addresses.is_empty() {
            let port = ports.iter().find(|port| Some(&port.name) == group.to.as_ref());
            if let Some(address) = port.map(first_address).transpose()?.flatten() {
                group.servers.pool.addresses = AddressPool::from(address);
            }
        }
        if group.clients.pool.addresses.is_empty() {
            let port = ports.iter().find(|port| Some(&port.name) == group.from.as_ref());
            let to = group.servers.pool.addresses.get(0);
            let address = port.map(first_address).transpose()?.flatten();
            let speaks = |ip: &IpAddr| to.is_none_or(|to| to.is_ipv4() == ip.is_ipv4());
            if let Some(address) = address.filter(speaks) {
                group.clients.pool.addresses = AddressPool::from(address);
            }
        }
    }
    Ok(sessions)
}

/// The first address of the interface that a port names, IPv4 first.
fn first_address(port: &ResolvedPort) -> Result<Option<IpAddr>, RunError> {
    let Some(interface) = &port.spec.interface else { return Ok(None) };
    let mut netlink = port.netlink()?;
    let machine =
        |error: wirebeat_units::Fault| RunError::machine(error.at(format!("port '{}'", port.name)));
    let link = netlink.link_by_name(interface);
    let link =
        link.map_err(|error| RunError::usage(error.fault().at(format!("port '{}'", port.name))))?;
    let found = netlink.addresses(Some(link.index));
    let found = found.map_err(|error| machine(error.into()))?;
    let mut addresses: Vec<IpAddr> = found.iter().map(|one| one.address).collect();
    addresses.retain(|ip| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
    addresses.sort_by_key(IpAddr::is_ipv6);
    match addresses.first() {
        Some(&address) => Ok(Some(address)),
        None => Err(machine(fault!(
            "{interface} has no address, and the system's stack needs one";
            "give it one, for example: ip address add 10.0.1.1/24 dev {interface}"
        ))),
    }
}

/// Refuses what this machine cannot do, and says what may limit the run.
pub(super) fn check(
    sessions: &Sessions,
    scenario: &Scenario,
    ports: &[ResolvedPort],
) -> Result<Vec<String>, RunError> {
    let mut notices = Vec::new();
    let at = |group: &SessionGroup| format!("sessions.{}", group.name);
    // the most that this process may have
    let _ = machine::raise_descriptors();
    let (descriptors, _) = machine::descriptors();
    let room = descriptors.saturating_sub(RESERVE);
    if room < RESERVE {
        return Err(RunError::machine(fault!(
            "this process may have {descriptors} file descriptors, and each session takes one";
            "raise the limit: ulimit -n 1024, or more"
        )));
    }
    let mut wanted = 0_u64;
    // once more, since ports that name an interface have its addresses now
    fit::accepted_apart(&sessions.groups).map_err(CompileError::from)?;
    for group in &sessions.groups {
        if group.stack == StackChoice::Own {
            check_lengths(group, ports)?;
            notices.extend(check_client_ports(group, sessions, scenario, ports)?);
            continue;
        }
        let tuples = group.servers.pool.ports.as_ref().map_or(1, |ports| ports.len());
        let listeners = group.servers.pool.addresses.len().max(1).saturating_mul(tuples);
        if group.server.is_some() && listeners > LISTENERS_MAX {
            return Err(RunError::usage(fault!(
                "its servers would listen at {listeners} addresses and ports, and {LISTENERS_MAX} is the most with the \
                 system's stack";
                "make the pool smaller"
            ).at(at(group))));
        }
        let open = group.limit.and_then(|limit| limit.most_open()).map(u64::from);
        let open = open.or(group.users.map(u64::from)).unwrap_or(0);
        // the peers of a server over UDP share the listener's descriptor
        let accepts = group.server.is_some() && group.transport != Transport::Udp;
        let ends = u64::from(group.client.is_some()) + u64::from(accepts);
        wanted = wanted.saturating_add(open.saturating_mul(ends));
        check_client_addresses(group, ports)?;
        notices.extend(fragmented(group));
        if let Some(notice) = check_client_ports(group, sessions, scenario, ports)? {
            notices.push(notice);
        }
    }
    check_memory(sessions, memory::available())?;
    // what the scenario itself says of links was checked
    let link = |port: &str| ports.iter().find(|of| of.name == port)?.link.as_ref()?.speed;
    let written = |port: &str| scenario.ports.get(port).is_some_and(|spec| spec.speed.is_some());
    fit::links(scenario, sessions, |port| link(port).filter(|_| !written(port)))
        .map_err(CompileError::from)?;
    if wanted > room {
        return Err(RunError::machine(fault!(
            "{wanted} sessions may be open at a time, and this process may have {descriptors} file descriptors, \
             enough for {room}";
            "ask for fewer, or raise the limit: ulimit -n {}", wanted + RESERVE
        )));
    }
    Ok(notices)
}

/// That the sessions of our own TCP, and those with TLS, fit `available` bytes of memory, as many as the scenario says that may be open at a time.
fn check_memory(sessions: &Sessions, available: Option<u64>) -> Result<(), RunError> {
    let Some(available) = available else { return Ok(()) };
    let (mut ends, mut needed, mut open, mut waiting) = (0_u64, 0_u64, 0_u64, 0_u64);
    for group in sessions.groups.iter().filter(|group| group.transport == Transport::Tcp) {
        if group.stack == StackChoice::Own {
            waiting = waiting.saturating_add(own::waiting_bytes(group, sessions));
        }
        let each = end_memory(group);
        if each == 0 {
            continue;
        }
        let most = group.limit.and_then(|limit| limit.most_open()).map(u64::from);
        // those that start at one time are open together
        let burst = Some(sessions.burst(group)).filter(|burst| *burst > 1);
        let Some(most) = most.or(group.users.map(u64::from)).or(burst) else { continue };
        let here = u64::from(group.client.is_some()) + u64::from(group.server.is_some());
        ends = ends.saturating_add(most.saturating_mul(here));
        needed = needed.saturating_add(most.saturating_mul(here).saturating_mul(each));
        open = open.saturating_add(most);
    }
    if waiting > available {
        return Err(RunError::machine(fault!(
            "sessions in TIME-WAIT take {}, and {} of memory can be had here",
            human::bytes(waiting as f64), human::bytes(available as f64);
            "start fewer in a second, or write tcp: {{ time-wait: 1s }}"
        )));
    }
    let available = available - waiting;
    if needed <= available {
        return Ok(());
    }
    // as many as fit, in the same proportion of those with both ends here
    let fit = (u128::from(open) * u128::from(available) / u128::from(needed.max(1))) as u64;
    Err(RunError::machine(fault!(
        "{} sessions may be open at a time. Their {} ends take {}, and {} of memory can be had here, enough for {} sessions",
        human::count(open), human::count(ends), human::bytes(needed as f64), human::bytes(available as f64), human::count(fit);
        "ask for fewer, for example with limit: {{ open: {fit} }}"
    )))
}

/// Bytes of a message that fit a packet of 1500 bytes, behind the headers of IPv4 and UDP.
const UNFRAGMENTED: u64 = 1472;

/// Bytes of the longest message of a group over UDP whose messages have a length that is known.
fn longest_datagram(group: &SessionGroup) -> Option<u64> {
    if group.transport != Transport::Udp {
        return None;
    }
    let ends = [&group.client, &group.server].into_iter().flatten();
    let fixed = |message: &Message| match message.body {
        Body::Generated(LengthLaw::Fixed(bytes))
        | Body::Numbered(LengthLaw::Fixed(bytes))
        | Body::Stamped(LengthLaw::Fixed(bytes)) => bytes,
        _ => message.head.len() as u64,
    };
    ends.flat_map(|script| script.messages.iter().map(fixed)).max()
}

/// That messages over UDP fit a packet of the link: our own stack does not cut them.
fn check_lengths(group: &SessionGroup, ports: &[ResolvedPort]) -> Result<(), RunError> {
    let Some(longest) = longest_datagram(group) else { return Ok(()) };
    let mine = |port: &&ResolvedPort| {
        let name = Some(&port.name);
        name == group.from.as_ref() || name == group.to.as_ref()
    };
    let Some(mtu) = ports.iter().filter(mine).map(own::mtu).min() else { return Ok(()) };
    let is_v6 = group.servers.pool.addresses.get(0).is_some_and(|address| address.is_ipv6());
    let headers = if is_v6 { ipv6::LEN } else { ipv4::LEN } + udp::LEN;
    let room = u64::from(mtu).saturating_sub(headers as u64);
    match longest > room {
        false => Ok(()),
        true => Err(RunError::usage(
            fault!(
                "a message of {longest} bytes fits no packet of {mtu} bytes, and our own stack sends no fragments: {room} bytes \
                 are the most";
                "make it shorter, or use 'stack: host'"
            )
            .at(format!("sessions.{}.program", group.name)),
        )),
    }
}

/// Says that messages over UDP may be longer than a packet.
fn fragmented(group: &SessionGroup) -> Option<String> {
    let longest = longest_datagram(group)?;
    (longest > UNFRAGMENTED).then(|| {
        format!(
            "sessions '{}': messages of {longest} bytes leave in fragments of IP where the MTU is 1500, and are lost with any of them",
            group.name
        )
    })
}

/// How many connections each of `threads` may have.
pub(super) fn connections(threads: usize) -> usize {
    let (descriptors, _) = machine::descriptors();
    let room = descriptors.saturating_sub(RESERVE) / (threads.max(1) as u64);
    usize::try_from(room).unwrap_or(usize::MAX).max(1)
}

/// The most client addresses that are tried before the start.
const TRIED: u64 = 1024;

/// That this machine has the addresses that clients are to come from.
fn check_client_addresses(group: &SessionGroup, ports: &[ResolvedPort]) -> Result<(), RunError> {
    let pool = &group.clients.pool.addresses;
    let port = ports.iter().find(|port| Some(&port.name) == group.from.as_ref());
    let Some(port) = port.filter(|_| group.client.is_some()) else { return Ok(()) };
    let tried: Vec<IpAddr> = (0..pool.len().min(TRIED)).filter_map(|n| pool.get(n)).collect();
    let missing = port.enter(|| {
        let is_missing = |ip: &&IpAddr| {
            let bound = std::net::UdpSocket::bind((**ip, 0));
            bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
        };
        tried.iter().find(is_missing).copied()
    })?;
    match missing {
        None => Ok(()),
        Some(address) => Err(RunError::machine(
            fault!(
                "{address} is not an address of this machine, and the system's stack sends from its own alone";
                "give it one, for example: ip address add {address}/24 dev eth1"
            )
            .at(format!("sessions.{}.clients.addresses", group.name)),
        )),
    }
}

/// Whether the ports of clients last: each connection that a client closes first keeps its port for a minute.
fn check_client_ports(
    group: &SessionGroup,
    sessions: &Sessions,
    scenario: &Scenario,
    ports: &[ResolvedPort],
) -> Result<Option<String>, RunError> {
    let Some(client) = group.client.as_ref().filter(|_| group.transport == Transport::Tcp) else {
        return Ok(None);
    };
    let Some(rate) = group.starts.and_then(|flow| sessions.starts.offered(flow)) else {
        return Ok(None);
    };
    let closes_first = closes_first(scenario, &group.name);
    let own = group.stack == StackChoice::Own;
    let time_wait = if own { own_profile::time_wait(&group.tcp) } else { TIME_WAIT };
    let keeps_none = group.tcp.reset || closes_first == Some(false) || time_wait == Nanos::ZERO;
    if keeps_none || client.ops.is_empty() {
        return Ok(None);
    }
    let to = group.servers.pool.addresses.get(0);
    let port = ports.iter().find(|port| Some(&port.name) == group.from.as_ref());
    // both are settings of the namespace
    let loopback = to.is_some_and(|to| to.is_loopback());
    let settings = || (reuses_time_wait(loopback), machine::ephemeral_ports());
    let (reuses, range) = match port.filter(|_| !own) {
        Some(port) => port.enter(settings)?,
        None if own => (false, None),
        None => settings(),
    };
    if reuses {
        return Ok(None);
    }
    let range = match &group.clients.pool.ports {
        Some(ports) => ports.len(),
        None if own => wirebeat_endpoint::CLIENT_PORTS,
        // the default of Linux
        None => range.map_or(28_232, |range| range.len() as u64),
    };
    let servers = group.servers.pool.ports.as_ref().map_or(1, |ports| ports.len());
    let servers = servers.saturating_mul(group.servers.pool.addresses.len().max(1));
    let room =
        range.saturating_mul(servers).saturating_mul(group.clients.pool.addresses.len().max(1));
    let lasts = group.stop.saturating_sub(group.start).min(time_wait);
    let needed = rate.0.per_second() * lasts.get() as f64 / 1e9;
    let needed = needed.min(group.count as f64);
    if needed <= room as f64 {
        return Ok(None);
    }
    let why = fault!(
        "{} connections within {lasts} need as many client ports, and there are {room}: a port stays in TIME-WAIT for \
         {time_wait} after its client closed first", needed.round();
        "ask for at most {}/s, let the server close (server-closes: true), end with RST (tcp: {{ reset: true }}), or \
         give more client addresses", (room as f64 * 1e9 / lasts.get().max(1) as f64).floor()
    );
    let why = if own { why.and_hint("skip it (tcp: { time-wait: 0s })") } else { why };
    match closes_first {
        Some(_) => Err(RunError::machine(why.at(format!("sessions.{}", group.name)))),
        // it may be left to the peer
        None => Ok(Some(format!("sessions '{}': {why}", group.name))),
    }
}

/// Whether the client closes its connections first, by the program; `None`: that is not known.
fn closes_first(scenario: &Scenario, group: &str) -> Option<bool> {
    use wirebeat_traffic::scenario::session::ProgramSpec;
    use wirebeat_traffic::scenario::session::program::{Direction, HttpBody};
    match &scenario.sessions.get(group)?.program {
        ProgramSpec::Http(http) => Some(!http.server_closes && http.framing != HttpBody::Close),
        ProgramSpec::Bulk(bulk) => {
            Some(bulk.direction != Direction::Reverse || bulk.bytes.is_none())
        }
        ProgramSpec::Messages(messages) => {
            Some(messages.direction != Direction::Reverse || messages.is_endless())
        }
        ProgramSpec::RequestResponse(_) | ProgramSpec::Echo(_) | ProgramSpec::Dns(_) => Some(true),
        // a server that has had enough closes first
        ProgramSpec::Misbehave(_) => None,
        // steps and captures may leave it to the peer
        ProgramSpec::Steps(_) | ProgramSpec::Capture(_) => None,
    }
}

/// Whether the system gives ports in TIME-WAIT to new connections: always (1), or of loopback (2, the default).
fn reuses_time_wait(loopback: bool) -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    match setting.trim() {
        "1" => true,
        "2" => loopback,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_traffic::compile::{Files, compile_sessions};

    use super::*;

    #[test]
    fn sessions_that_do_not_fit_are_refused_with_the_number_that_does() {
        let of = |keys: &str, available: u64| {
            let text = format!(
                "ports: {{ a: {{ engine: loopback, cable: {{ rate: 10Gbps }} }}, b: {{ engine: loopback, cable: {{ rate: 10Gbps }} }} }}\n\
                 sessions:\n  s: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.0.0/16 }}, servers: {{ addresses: 10.9.0.1, ports: 80 }}, program: http, {keys} }}\nrun: {{ time: 100s }}\n"
            );
            let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
            let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
            check_memory(&sessions, Some(available)).err().map(|error| error.to_string())
        };
        let users = "users: 100000, tcp: { time-wait: 0s }";
        assert_eq!(of(users, 100 << 20), None);
        let said = of(users, 26_800_000).unwrap();
        assert!(
            said.contains("enough for 50,000 sessions") && said.contains("200,000 ends"),
            "{said}"
        );
        // TLS takes more
        let said = of(&format!("{users}, tls: true"), 100 << 20).unwrap();
        assert!(said.contains("enough for 12,0"), "{said}");
        let said = of("rate: 100000/s", 100 << 20).unwrap();
        assert!(said.contains("TIME-WAIT"), "{said}");
    }

    #[test]
    fn what_cannot_be_is_refused_before_the_start() {
        let said = |groups: &str| {
            let text = format!(
                "ports: {{ a: {{}}, b: {{}} }}\nsessions: {{ {groups} }}\nrun: {{ time: 100s }}\n"
            );
            let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
            let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
            check(&sessions, &scenario, &[]).err().map(|error| error.to_string())
        };
        let group = |name: &str, stack: &str, clients: &str, rest: &str| {
            format!(
                "{name}: {{ from: a, to: b, stack: {stack}, clients: {{ addresses: {clients} }}, \
                 servers: {{ addresses: 10.9.0.1, ports: 80 }}, program: http, {rest} }}"
            )
        };
        // 64,512 ports of one address, and 60 s of TIME-WAIT
        let one = |clients: &str, rest: &str| said(&group("s", "own", clients, rest));
        let ports = one("10.0.0.1", "rate: 2000/s").unwrap();
        for says in [
            "120000 connections within 60s need as many client ports",
            "ask for at most 1075/s",
            "time-wait",
        ] {
            assert!(ports.contains(says), "{says}: {ports}");
        }
        for (clients, rest) in [
            ("10.0.0.1-10.0.0.2", "rate: 2000/s"),
            ("10.0.0.1", "rate: 1000/s"),
            ("10.0.0.1", "rate: 2000/s, tcp: { time-wait: 0s }"),
            ("10.0.0.1", "rate: 2000/s, tcp: { reset: true }"),
            ("10.0.0.1", "rate: 2000/s, count: 60000"),
        ] {
            assert_eq!(one(clients, rest), None, "{clients} {rest}");
        }
        let many = group("s", "host", "10.0.0.1", "users: 1").replace("10.9.0.1", "10.9.0.0/20");
        assert!(said(&many).unwrap().contains("1024 is the most with the system's stack"));
    }
}
