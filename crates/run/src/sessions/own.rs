//! Our own TCP and UDP for the sessions of a port: its hosts, how much it holds, and how its cores share that. What is asked of it is
//! `own_profile.rs`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use wirebeat_endpoint::{Listener, OwnStack, Settings};
use wirebeat_engine::clock::Clock;
use wirebeat_engine::port::{RxPort, TxPort};
use wirebeat_engine::steering::{Shard, is_of};
use wirebeat_host::large_pages;
use wirebeat_neighbours::{
    AddressPair, Hosts, Link, NEXT_HOPS_MAX, Neighbours, Role, Settings as HostSettings,
    StationRange,
};
use wirebeat_stack::Limits;
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::values::session::{AddressRange, Pool, PortPool, Transport};
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::ip::Version;
use wirebeat_wire::mac::MacAddr;

use super::carrier::Carrier;
use super::claims::Claims;
use super::own_profile;
use crate::engines::{Engine, driver};
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// Sessions that there is room for where nothing says how many are open at a time.
const SESSIONS: u64 = 1 << 18;
/// The most ends of sessions that there is room for on a core.
const SESSIONS_MAX: u64 = 32 << 20;
/// The most that may be in TIME-WAIT on a core: 60 s of 500,000 a second, and a little more.
const TIME_WAIT_MAX: u64 = 32 << 20;
/// Bytes that each of them takes: 36, its timer, and its places in the index.
const WAITING_END: u64 = 64;
/// The MTU of a link in memory.
const MTU: u32 = 1500;

/// What an engine needs to put our own TCP on a port, for one core of it.
#[derive(Debug)]
pub(crate) struct OwnParts {
    pub(crate) settings: Settings,
    pub(crate) hosts: HostSettings,
    /// The longest frame, without FCS.
    pub(crate) frame_max: u32,
}

impl OwnParts {
    /// The hosts, with nobody known yet.
    pub(crate) fn neighbours(&self, port: &str) -> Result<Neighbours, RunError> {
        Neighbours::new(self.hosts.clone())
            .map_err(|error| RunError::usage(error.fault().at(format!("ports.{port}"))))
    }

    /// Which of the cores of its port it is for.
    pub(crate) fn core(&self) -> Shard {
        self.settings.core
    }

    /// The same for another core, which keeps secrets of its own and leaves it to the first to answer for our hosts.
    fn for_core(&self, core: u32, secret: Secret) -> OwnParts {
        let cores = self.settings.core.cores;
        let role = if core == 0 { Role::Answering } else { Role::Listening };
        OwnParts {
            settings: Settings {
                core: Shard { core, cores },
                seed: secret.0,
                ..self.settings.clone()
            },
            hosts: HostSettings { role, key: secret.key(), ..self.hosts.clone() },
            frame_max: self.frame_max,
        }
    }
}

/// Our own TCP over these halves of a port, in large pages where it is for very many sessions.
pub(crate) fn own_stack<P: TxPort, R: RxPort, C: Clock>(
    settings: Settings,
    halves: (P, R),
    clock: C,
    neighbours: Neighbours,
) -> OwnStack<P, R, C> {
    let entries = settings.limits.sessions.max(settings.limits.time_wait);
    let mut stack = OwnStack::new(settings, halves, clock, neighbours);
    // a wish: where the system has none, a segment takes longer and that is all
    large_pages::ask_for_tables(entries);
    stack.populate();
    stack
}

/// A TCP for each core of a port.
type Carriers = Vec<Box<dyn Carrier + Send>>;

/// Puts our own TCP on `port`, once for each of `cores`; `number` is that of the port. Its addresses are its own as long as the claims live.
/// `sessions` are those with the ends that are of that port, and `all` of them say how many there will be; `expected`: how many open on each core.
pub(super) fn open(
    (sessions, all): (&Sessions, &Sessions),
    port: &ResolvedPort,
    (engine, number, cores): (Engine, u8, u32),
    expected: usize,
) -> Result<(Carriers, Option<Claims>), RunError> {
    let mut parts = parts((sessions, all), port, (number, Secret::new()?), cores)?;
    // Runs that take the same ports one after the other find peers that are in TIME-WAIT: timestamps have to go on from run to run.
    parts.settings.timestamp = Some(milliseconds_of_day());
    // on a virtual clock nobody waits for memory
    parts.settings.limits.expected = expected;
    let claims = Claims::take(port, &parts.hosts.hosts)?;
    let open = |core| driver(engine).open_stack(port, parts.for_core(core, Secret::new()?));
    let carriers: Result<Carriers, RunError> = (0..cores).map(open).collect();
    Ok((carriers?, claims))
}

/// The time since 1970 in ms, of which 32 bits count; they come round every 49 days.
fn milliseconds_of_day() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u32)
}

/// For the first of `cores` of `port`, and the groups of `sessions`, which have the ends that are of that port; `number` is its number.
pub(super) fn parts(
    (sessions, all): (&Sessions, &Sessions),
    port: &ResolvedPort,
    (number, secret): (u8, Secret),
    cores: u32,
) -> Result<OwnParts, RunError> {
    let mtu = mtu(port);
    let profiles = own_profile::of(sessions, mtu);
    if profiles.len() > 256 {
        return Err(RunError::usage(fault!(
            "{} groups of sessions are more than our own TCP knows, 128", sessions.groups.len();
            "make fewer, larger groups"
        )));
    }
    let served = (0_u16..).zip(&sessions.groups).filter(|(_, group)| group.server.is_some());
    let listeners = served
        .map(|(group, of)| {
            let Pool { addresses, ports, .. } = &of.servers.pool;
            let pool =
                Pool { addresses: addresses.clone(), ports: ports.clone(), ..Pool::default() };
            Listener { group, pool, datagrams: of.transport == Transport::Udp }
        })
        .collect();
    Ok(OwnParts {
        settings: Settings {
            profiles,
            datagrams: sessions.groups.iter().map(own_profile::datagrams).collect(),
            mtu,
            listeners,
            limits: limits(sessions, all, cores),
            seed: secret.0,
            timestamp: None,
            core: Shard { core: 0, cores },
            client_ports: client_ports(sessions, cores)?,
            half_open: sessions.groups.iter().map(SessionGroup::opens_by_half).collect(),
        },
        hosts: hosts(sessions, port, (number, secret))?,
        frame_max: mtu + HEADER,
    })
}

/// Bytes of the longest packet of a port.
pub(super) fn mtu(port: &ResolvedPort) -> u32 {
    let of_link = || port.link.as_ref().map_or(MTU, |link| link.mtu);
    port.spec.mtu.map_or_else(of_link, |mtu| u32::try_from(mtu.get()).unwrap_or(MTU))
}

/// An Ethernet header with a VLAN tag.
const HEADER: u32 = 18;

/// What sequence numbers and tables follow from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    /// Numbers that others do not know.
    pub(super) fn new() -> Result<Secret, RunError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            RunError::machine(format!("the system gives no random numbers: {error}"))
        })?;
        let [a, b] = [0, 8].map(|at| bytes.get(at..).and_then(<[u8]>::first_chunk).copied());
        Ok(Secret([a, b].map(|word| word.map_or(0, u64::from_ne_bytes))))
    }

    /// The same numbers every time, for a run in no time: it repeats.
    pub(super) fn of_seed(seed: u64, number: u8) -> Secret {
        Secret([seed, u64::from(number)])
    }

    /// What the table of next hops is keyed with: other numbers than those of the TCP.
    fn key(self) -> [u64; 2] {
        let Secret([first, second]) = self;
        [!first, second]
    }
}

/// How many sessions are expected to be open at a time on each of `cores`, both ends of one that has them here counted. How fast sessions
/// start, and for how many users, is said where their clients are: in `all`.
pub(super) fn expected(sessions: &Sessions, all: &Sessions, cores: u32) -> usize {
    // those over UDP are not bounded by what is looked at before the start
    let connections = |group: &&SessionGroup| group.transport != Transport::Udp;
    let groups = sessions.groups.iter().filter(connections);
    let each = groups.zip(all.groups.iter().filter(connections)).map(|(group, of)| {
        let ends = u64::from(group.client.is_some()) + u64::from(group.server.is_some());
        all.expected_open(of).saturating_mul(ends)
    });
    let expected = each.fold(0, u64::saturating_add);
    if expected > 0 { share(expected, cores).min(SESSIONS_MAX) as usize } else { 0 }
}

/// How much there has to be room for on each of `cores`. How fast sessions start, and for how many users, is said where their clients are:
/// in `all`.
fn limits(sessions: &Sessions, all: &Sessions, cores: u32) -> Limits {
    let (mut open, mut waiting, mut connections) = (0_u64, 0_u64, 0_u64);
    let mut has_v6 = false;
    for (group, of) in sessions.groups.iter().zip(&all.groups) {
        let ends = u64::from(group.client.is_some()) + u64::from(group.server.is_some());
        if ends == 0 || group.transport == Transport::Udp {
            continue;
        }
        let rate = of.starts.and_then(|flow| all.starts.offered(flow));
        let a_second = rate.map(|(rate, _)| rate.per_second().ceil() as u64);
        let patience = group.timeout.get().div_ceil(1_000_000_000);
        // starts come in bursts, and no more are open than have started; but rates can be changed while a run goes on
        let started = of.starts.and_then(|flow| all.starts.under_way(flow, of.end));
        let started = started.map_or(u64::MAX, |started| started.frames.ceil() as u64 + 1);
        let by_rate = a_second.map(|rate| {
            let lasting = rate.saturating_mul(patience).saturating_add(all.burst(of));
            lasting.min(started).max(SESSIONS).min(group.count)
        });
        let most = group.limit.and_then(|limit| limit.most_open()).map(u64::from);
        let most = most.or(of.users.map(u64::from)).or(by_rate).unwrap_or(SESSIONS);
        let opens = most.min(SESSIONS_MAX).saturating_mul(ends);
        let waits = in_time_wait(group, a_second).map_or(0, |of| of.max(most));
        open = open.saturating_add(opens);
        waiting = waiting.saturating_add(waits);
        // one is open or in TIME-WAIT
        let all = group.count.saturating_mul(ends).min(opens.saturating_add(waits));
        connections = connections.saturating_add(all);
        has_v6 |= [&group.clients, &group.servers].iter().any(|walk| has_ipv6(&walk.pool));
    }
    let [open, waiting, connections] = [open, waiting, connections].map(|all| share(all, cores));
    let open = open.clamp(1024, SESSIONS_MAX) as usize;
    // floods of SYNs take no more than this
    let half_open = (open / 4).clamp(4096, 1 << 18);
    let limits = Limits::for_sessions(open);
    Limits {
        time_wait: waiting.clamp(1024, TIME_WAIT_MAX) as usize,
        half_open,
        connections: (connections as usize).saturating_add(half_open + 1024),
        addresses: if has_v6 { limits.addresses } else { 64 },
        ..limits
    }
}

/// Whether addresses of IPv6 are in a pool.
fn has_ipv6(pool: &Pool) -> bool {
    pool.addresses.0.iter().any(|range| range.first.is_ipv6())
}

/// How many sessions of a group may be in TIME-WAIT at a time, of which so many start in a second; `None`: it has none.
fn in_time_wait(group: &SessionGroup, a_second: Option<u64>) -> Option<u64> {
    let seconds = |time: Nanos| time.get().div_ceil(1_000_000_000);
    let waits = seconds(own_profile::time_wait(&group.tcp));
    // and a second more, for bursts
    let lasts = waits.min(seconds(group.end)) + 1;
    let of_rate = a_second.map_or(SESSIONS, |rate| rate.saturating_mul(lasts));
    (waits > 0).then_some(of_rate.min(group.count))
}

/// Bytes of memory that sessions of a group in TIME-WAIT take, where a rate says how many they are.
pub(super) fn waiting_bytes(group: &SessionGroup, all: &Sessions) -> u64 {
    let rate = group.starts.and_then(|flow| all.starts.offered(flow));
    let a_second = rate.map(|(rate, _)| rate.per_second().ceil() as u64);
    let waiting = a_second.and_then(|rate| in_time_wait(group, Some(rate)));
    waiting.map_or(0, |waiting| waiting.min(TIME_WAIT_MAX) * WAITING_END)
}

/// How many of `all` a core has to have room for: more than its share where there are several, for which of them has the sessions of
/// others follows from ports that those choose. An eighth is ten times the spread of 6,400 sessions to two cores.
fn share(all: u64, cores: u32) -> u64 {
    match cores {
        0 | 1 => all,
        cores => {
            let share = all.div_ceil(cores.into());
            share.saturating_add(share / 8).saturating_add(64)
        }
    }
}

/// Server ports that are looked at before the start for whether a client of each core can reach them.
const TRIED: u64 = 1024;

/// The ports of the clients of each group, where they are given: each of `cores` has to find one of its own among them.
fn client_ports(sessions: &Sessions, cores: u32) -> Result<Vec<Option<PortPool>>, RunError> {
    let of = |group: &SessionGroup| {
        let Some(pool) = &group.clients.pool.ports else { return Ok(None) };
        let servers = group.servers.pool.ports.as_ref();
        let tried = servers.map_or(0, |servers| servers.len().min(TRIED));
        let remotes = (0..tried).filter_map(|n| servers.map(|servers| servers.get(n)));
        let is_without = |remote: u16| {
            let has = |core| pool.iter().any(|port| is_of([port, remote], Shard { core, cores }));
            !(0..cores).all(has)
        };
        match remotes.into_iter().find(|remote| group.client.is_some() && is_without(*remote)) {
            None => Ok(Some(pool.clone())),
            Some(remote) => Err(RunError::usage(
                fault!(
                    "answers come back to the core that asked where its client ports are chosen for that, and for servers at port \
                     {remote} some of {cores} cores have no port among these";
                    "write more of them, leave 'ports' out, or name fewer 'cores'"
                )
                .at(format!("sessions.{}.clients.ports", group.name)),
            )),
        }
    };
    sessions.groups.iter().map(of).collect()
}

/// The pools that are ours at a port, with the names of their groups.
fn pools<'a>(sessions: &'a Sessions) -> impl Iterator<Item = (&'a str, &'a Pool)> {
    let of = |group: &'a SessionGroup| {
        let client = group.client.is_some().then_some(&group.clients.pool);
        let server = group.server.is_some().then_some(&group.servers.pool);
        let name = group.name.as_str();
        client.into_iter().chain(server).map(move |pool| (name, pool))
    };
    sessions.groups.iter().flat_map(of)
}

/// The hosts of a pool that have Ethernet addresses of their own.
fn stations(pool: &Pool) -> Vec<StationRange> {
    let Some(macs) = &pool.macs else { return Vec::new() };
    let mut number = 0_u64;
    let range = |range: &AddressRange| {
        let first = number;
        number = number.saturating_add(range.len());
        StationRange { first: range.first, last: range.last, number: first, macs: macs.clone() }
    };
    pool.addresses.0.iter().map(range).collect()
}

fn hosts(
    sessions: &Sessions,
    port: &ResolvedPort,
    (number, secret): (u8, Secret),
) -> Result<HostSettings, RunError> {
    let spec = &port.spec.hosts;
    let at = || format!("ports.{}.hosts", port.name);
    let station = |link: &wirebeat_netlink::Link| link.mac;
    let mac = match (spec.mac, port.link.as_ref().and_then(station)) {
        (Some(mac), _) => mac,
        // locally administered (IEEE 802 §8.4), and seldom that of another
        (None, Some(MacAddr([.., a, b, c]))) => MacAddr([0x06, 0x57, number, a, b, c]),
        (None, None) => MacAddr([0x06, 0x57, 0, 0, 0, number + 1]),
    };
    let link = Link { mac, vlan: spec.vlan };
    let ranges = pools(sessions)
        .flat_map(|(_, pool)| pool.addresses.0.iter().map(|range| (range.first, range.last)));
    let ours = Hosts::new(ranges).map_err(|error| RunError::usage(error.fault().at(at())))?;
    let stations = pools(sessions).flat_map(|(_, pool)| stations(pool));
    let ours = ours.with_stations(stations);
    let ours =
        ours.map_err(|error| RunError::usage(error.fault().at(format!("ports.{}", port.name))))?;
    let mut settings = HostSettings::new(link, ours, secret.key());
    settings.next_hop = port.spec.next_hop;
    for gateway in &spec.gateways {
        match gateway {
            IpAddr::V4(gateway) => settings.gateway.v4 = Some(*gateway),
            IpAddr::V6(gateway) => settings.gateway.v6 = Some(*gateway),
        }
    }
    if let Some(link) = &port.link {
        look_around(&mut settings, sessions, port, link)?;
    }
    let peers = sessions.groups.iter().map(|group| peers_on_link(&settings, group));
    let peers = peers.fold(0, u64::saturating_add).min(NEXT_HOPS_MAX.into()) as u32;
    settings.next_hops = settings.next_hops.max(peers);
    Ok(settings)
}

/// How many peers of a group are on the link of its port, at most. A table of next hops that is smaller forgets those of the first
/// sessions for those of the next, and asks for all of them again and again.
fn peers_on_link(settings: &HostSettings, group: &SessionGroup) -> u64 {
    if settings.next_hop.is_some() {
        return 0;
    }
    let of_range = |range: &AddressRange| {
        let version = Version::of(range.first);
        let bits = version.address_len() as u32 * 8;
        let prefixes = settings.on_link.iter().filter(|of| Version::of(of.0) == version);
        let sizes = prefixes.map(|&(_, len)| {
            1_u64.checked_shl(bits.saturating_sub(len.into())).unwrap_or(u64::MAX)
        });
        match settings.gateway.of(version) {
            None => range.len(),
            Some(_) => range.len().min(sizes.fold(0, u64::saturating_add)),
        }
    };
    let of_pool = |pool: &Pool| pool.addresses.0.iter().map(of_range).fold(0, u64::saturating_add);
    let servers = group.client.as_ref().map_or(0, |_| of_pool(&group.servers.pool));
    let clients = group.server.as_ref().map_or(0, |_| of_pool(&group.clients.pool));
    servers.saturating_add(clients).min(group.count)
}

/// What the system knows of the link: its own addresses, which are not ours, and its routes.
fn look_around(
    settings: &mut HostSettings,
    sessions: &Sessions,
    port: &ResolvedPort,
    link: &wirebeat_netlink::Link,
) -> Result<(), RunError> {
    let mut netlink = port.netlink()?;
    let addresses = netlink.addresses(None).map_err(|error| RunError::machine(error.fault()))?;
    for address in &addresses {
        if settings.hosts.contains(address.address) {
            let taken = |(_, pool): &(&str, &Pool)| pool.addresses.contains(address.address);
            let group = pools(sessions).find(taken).map_or("", |(name, _)| name);
            return Err(RunError::usage(
                fault!(
                    "{} is an address of this machine, whose own TCP would answer in ours' place", address.address;
                    "choose addresses that nobody has, or use 'stack: host'"
                )
                .at(format!("sessions.{group}")),
            ));
        }
    }
    let here = || addresses.iter().filter(|address| address.link == link.index);
    settings.broadcasts = here().filter_map(|of| broadcast(of.address, of.prefix_len)).collect();
    settings.broadcasts.truncate(wirebeat_neighbours::PREFIXES_MAX);
    if settings.next_hop.is_some() {
        return Ok(());
    }
    let remotes = sessions.groups.iter().filter_map(|group| match (&group.client, &group.server) {
        (Some(_), _) => group.servers.pool.addresses.get(0),
        (None, Some(_)) => group.clients.pool.addresses.get(0),
        (None, None) => None,
    });
    for remote in remotes {
        let AddressPair { v4, v6 } = settings.gateway;
        let known = if remote.is_ipv4() { v4.is_some() } else { v6.is_some() };
        // no route: then it is on the link
        let Ok(route) = netlink.route_to(remote, Some(link.index)) else { continue };
        match route.gateway.filter(|_| !known) {
            Some(IpAddr::V4(gateway)) => settings.gateway.v4 = Some(gateway),
            Some(IpAddr::V6(gateway)) => settings.gateway.v6 = Some(gateway),
            None => {}
        }
    }
    if settings.gateway != AddressPair::default() {
        settings.on_link = here().map(|address| (address.address, address.prefix_len)).collect();
        settings.on_link.truncate(wirebeat_neighbours::PREFIXES_MAX);
    }
    Ok(())
}

/// The address of all hosts of a network (RFC 919); networks of two addresses have none (RFC 3021).
fn broadcast(address: IpAddr, prefix_len: u8) -> Option<Ipv4Addr> {
    let IpAddr::V4(address) = address else { return None };
    let hosts = u32::MAX.checked_shr(prefix_len.into()).filter(|hosts| *hosts > 1)?;
    Some(Ipv4Addr::from_bits(address.to_bits() | hosts))
}

#[cfg(test)]
mod tests {
    use wirebeat_traffic::compile::{Files, compile_sessions};
    use wirebeat_traffic::scenario::Scenario;

    use super::super::carrier::Carriage;
    use super::super::worker::share as share_of;
    use super::*;

    #[test]
    fn there_is_room_for_all_next_hops_on_the_link() {
        let text = "ports: { a: {}, b: {} }\nsessions:\n  s: { from: a, to: b, stack: own, clients: { addresses: 10.1.0.1-10.1.0.9 }, \
                    servers: { addresses: 10.9.0.0/16, ports: 80 }, program: http, rate: 1/s }\n  few: { from: a, to: b, stack: own, \
                    clients: { addresses: 10.1.0.1 }, servers: { addresses: 10.10.0.0/16, ports: 80 }, program: http, count: 5 }\n";
        let scenario = Scenario::from_yaml(text, "").unwrap();
        let all = compile_sessions(&scenario, &Files::default()).unwrap();
        let link = Link { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan: None };
        let mut settings = HostSettings::new(link, Hosts::new([]).unwrap(), [1, 2]);
        let of = |settings: &HostSettings, port| {
            let mine = share_of(&all, port, Carriage::Own);
            mine.groups.iter().map(|group| peers_on_link(settings, group)).collect::<Vec<_>>()
        };
        assert_eq!((of(&settings, "a"), of(&settings, "b")), (vec![65_534, 5], vec![9, 1]));
        // behind a gateway only those of the networks on the link are next hops
        settings.gateway.v4 = Some(Ipv4Addr::new(10, 9, 0, 1));
        assert_eq!(of(&settings, "a"), [0, 0]);
        settings.on_link = vec![(Ipv4Addr::new(10, 9, 0, 2).into(), 24)];
        assert_eq!(of(&settings, "a"), [256, 5]);
        settings.next_hop = Some(MacAddr([2, 0, 0, 0, 0, 9]));
        assert_eq!(of(&settings, "a"), [0, 0]);
    }

    #[test]
    fn networks_have_a_broadcast_address_unless_they_are_of_two() {
        let of = |address: &str, len| broadcast(address.parse().unwrap(), len);
        assert_eq!(of("10.0.1.9", 24), Some(Ipv4Addr::new(10, 0, 1, 255)));
        assert_eq!(of("10.0.1.9", 30), Some(Ipv4Addr::new(10, 0, 1, 11)));
        assert_eq!([of("10.0.1.9", 31), of("10.0.1.9", 32), of("fd00::1", 24)], [None; 3]);
    }

    /// The end that accepts had room for 262,144 sessions, whatever the other end opened.
    #[test]
    fn an_end_that_accepts_has_room_for_what_the_other_opens() {
        for (how, most) in [
            ("rate: 10000/s", 600_001),
            ("users: 700000", 700_000),
            ("rate: 1/s", 262_144),
            ("rate: 1/s, burst: 500000", 500_060),
        ] {
            let text = format!(
                "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  s: {{ from: a, to: b, stack: own, \
                 clients: {{ addresses: 10.0.0.0/16 }}, servers: {{ addresses: 10.9.0.1, ports: 80 }}, program: http, count: 1000000, \
                 timeout: 60s, {how} }}\n"
            );
            let scenario = Scenario::from_yaml(&text, "").unwrap();
            let all = compile_sessions(&scenario, &Files::default()).unwrap();
            for port in ["a", "b"] {
                let mine = share_of(&all, port, Carriage::Own);
                assert_eq!(limits(&mine, &all, 1).sessions, most, "{how} at {port}");
            }
        }
    }

    #[test]
    fn cores_have_room_for_all_sessions_together_and_one_for_all() {
        assert_eq!(share(10_000, 1), 10_000);
        for cores in 2..9 {
            let room = share(10_000, cores);
            assert!((10_000..12_000).contains(&(room * u64::from(cores))), "{cores}: {room}");
        }
        assert_eq!(share(u64::MAX, 2), (1 << 63) + (1 << 60) + 64);
    }
}
