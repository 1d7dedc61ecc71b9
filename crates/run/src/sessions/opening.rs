//! What a thread of sessions opens before it begins: the stack, in the namespace and on the core where it stays, and its listeners.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wirebeat_converse::stack::ProfileId;
use wirebeat_engine_linux::affinity;
use wirebeat_sockets::{
    ConstantMemory, HostStack, KeepAlive, Limits, Profile, Protocol, SocketsError, UdpProfile,
    UdpStack,
};
use wirebeat_tls::Ends;
use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::schedule::Shard;
use wirebeat_traffic::values::session::Transport;
use wirebeat_units::{Fault, fault};

use super::carrier::{AnyCarrier, Carriage};
use super::worker::Job;

/// Connections that wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;

/// What both ends of a group send and never changes: generated data, files, and the bytes of captures and steps.
fn constant(group: &SessionGroup) -> ConstantMemory {
    let scripts = group.client.iter().chain(&group.server);
    let pieces = scripts.flat_map(|script| {
        // one with the length in it is made for each message
        let heads = script.messages.iter().filter(|message| message.length_at.is_none());
        let heads = heads.map(|message| &message.head);
        [&script.pattern].into_iter().chain(&script.content).chain(heads).cloned()
    });
    ConstantMemory::new(pieces)
}

fn profile(group: &SessionGroup, core: Shard) -> Profile {
    let tcp = &group.tcp;
    Profile {
        congestion: tcp.congestion.clone(),
        mss: tcp.mss.map(Into::into),
        send_buffer: tcp.send_buffer,
        receive_buffer: tcp.receive_buffer,
        nagle: tcp.nagle,
        pacing: tcp.pacing,
        ttl: group.ttl,
        tos: group.tos,
        dont_fragment: group.dont_fragment,
        keep_alive: tcp.keep_alive.map(|probes| KeepAlive {
            idle: probes.idle,
            interval: probes.interval,
            count: probes.count,
        }),
        syn_retries: tcp.syn_retries,
        user_timeout: tcp.user_timeout,
        rto_min: tcp.rto.min,
        rto_max: tcp.rto.max,
        delayed_ack: tcp.delayed_ack,
        protocol: match group.transport {
            Transport::Sctp => Protocol::Sctp,
            _ if tcp.multipath => Protocol::MultipathTcp,
            Transport::Tcp | Transport::Udp => Protocol::Tcp,
        },
        zero_copy: tcp.zero_copy.then(|| constant(group)),
        shared_port: core.cores > 1,
    }
}

/// Opens the stack in the namespace of the port, where the thread stays.
pub(super) fn open(
    job: &mut Job,
    connections: usize,
) -> Result<(AnyCarrier, Vec<(String, SocketAddr)>), Fault> {
    if let Some(namespace) = &job.namespace {
        namespace.enter().map_err(|error| error.fault())?;
    }
    if let Some(cpu) = job.cpu {
        affinity::pin(cpu).map_err(|error| fault!("cannot stay on CPU {cpu}: {error}"))?;
    }
    affinity::precise_timers();
    let (own, transport) = match job.carriage {
        Carriage::Own => (job.own.take(), Transport::Tcp),
        Carriage::System(transport) => (None, transport),
    };
    let mine = job.sessions.groups.iter().zip(std::mem::take(&mut job.tls));
    let tls: Vec<Option<Ends>> = mine
        .map(|(group, ends)| ends.filter(|_| group.client.is_some() || group.server.is_some()))
        .collect();
    if let Some(own) = own {
        let served = job.sessions.groups.iter().filter(|group| group.server.is_some());
        // all cores listen at the same addresses, which are told once
        let served = served.filter(|_| job.core.core == 0);
        let first = |group: &SessionGroup| {
            let (address, port) = group.servers.get(0);
            Some((group.name.clone(), SocketAddr::new(address?, port)))
        };
        return Ok((AnyCarrier(own).with_tls(tls), served.filter_map(first).collect()));
    }
    let opened = of_the_system(job, transport, Limits { connections, ..Limits::default() });
    let (carrier, listening) = opened.map_err(|error| error.fault())?;
    Ok((carrier.with_tls(tls), listening))
}

/// The system's sockets, with the listeners of servers.
fn of_the_system(
    job: &Job,
    transport: Transport,
    limits: Limits,
) -> Result<(AnyCarrier, Vec<(String, SocketAddr)>), SocketsError> {
    let groups = &job.sessions.groups;
    match transport {
        Transport::Tcp | Transport::Sctp => {
            // what groups of other threads ask for may be there alone
            let profile = |group: &SessionGroup| match group.transport == transport {
                true => profile(group, job.core),
                false => Profile::default(),
            };
            let profiles = groups.iter().map(profile).collect();
            let mut stack = HostStack::new(profiles, limits)?;
            let listening = listen(groups, |at, profile| stack.listen(at, profile, BACKLOG))?;
            Ok((AnyCarrier(Box::new(stack)), listening))
        }
        Transport::Udp => {
            let shared_port = job.core.cores > 1;
            let profile = |of: &SessionGroup| UdpProfile {
                ttl: of.ttl,
                tos: of.tos,
                dont_fragment: of.dont_fragment,
                shared_port,
            };
            let mut stack = UdpStack::new(groups.iter().map(profile).collect(), limits)?;
            let listening = listen(groups, |at, profile| stack.listen(at, profile))?;
            Ok((AnyCarrier(Box::new(stack)), listening))
        }
    }
}

/// Listens with all servers of `groups`.
fn listen(
    groups: &[SessionGroup],
    mut at: impl FnMut(SocketAddr, ProfileId) -> Result<SocketAddr, SocketsError>,
) -> Result<Vec<(String, SocketAddr)>, SocketsError> {
    let mut listening = Vec::new();
    for (number, group) in (0_u16..).zip(groups).filter(|(_, group)| group.server.is_some()) {
        for address in listeners(group) {
            listening.push((group.name.clone(), at(address, ProfileId(number))?));
        }
    }
    Ok(listening)
}

/// All addresses where the servers of a group listen; `checks.rs` has seen that they are not too many.
pub(super) fn listeners(group: &SessionGroup) -> Vec<SocketAddr> {
    let pool = &group.servers.pool;
    let any = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let addresses: Vec<IpAddr> = match pool.addresses.len() {
        0 => any.to_vec(),
        len => (0..len).filter_map(|n| pool.addresses.get(n)).collect(),
    };
    let ports: Vec<u16> = pool.ports.iter().flat_map(|ports| ports.iter()).collect();
    let all =
        addresses.iter().flat_map(|&ip| ports.iter().map(move |&port| SocketAddr::new(ip, port)));
    all.collect()
}
