//! What sessions need of the machine: open connections, memory and ports.

use wirebeat_traffic::compile::memory::of_end as end_memory;
use wirebeat_traffic::compile::pauses::{pauses, until_stop};
use wirebeat_traffic::program::script::{Op, SessionGroup};
use wirebeat_traffic::scenario::session::program::{Direction, HttpBody};
use wirebeat_traffic::scenario::session::{
    Beyond, ProgramSpec, SessionSpec, StackChoice, Transport,
};
use wirebeat_units::{Nanos, human};

use crate::flow;
use crate::page::Page;

/// How long a closed connection keeps its ports (TIME-WAIT): `TCP_TIMEWAIT_LEN` of Linux, and of our own TCP where it is not asked
/// for something else.
const TIME_WAIT: Nanos = Nanos::from_secs(60);
/// The ports that Linux takes by itself where nothing else is set: 32768 to 60999 (`ip_local_port_range`).
const EPHEMERAL: u64 = 28_232;
/// Ports that our own TCP takes client ports from: all that need no privilege, 1024 to 65535.
const OWN: u64 = 64_512;

/// Who closes first, and has the connection in TIME-WAIT then (RFC 9293 §3.6).
fn closes_first(spec: &SessionSpec, group: &SessionGroup) -> &'static str {
    let server = match &spec.program {
        _ if spec.tcp.reset => return "nobody",
        ProgramSpec::Http(http) => {
            http.server_closes || spec.to.is_some() && http.framing == HttpBody::Close
        }
        ProgramSpec::Bulk(bulk) => bulk.direction == Direction::Reverse && bulk.bytes.is_some(),
        ProgramSpec::Messages(messages) => {
            messages.direction == Direction::Reverse && !messages.is_endless()
        }
        ProgramSpec::Capture(_) => {
            // who waits for the other's FIN or RST ends second
            group.client.as_ref().is_some_and(|it| it.ops.last() == Some(&Op::WaitClose))
        }
        ProgramSpec::Steps(_) => {
            let ops = group.client.as_ref().map(|client| &client.ops[..]).unwrap_or_default();
            if ops.last() == Some(&Op::Reset) {
                return "nobody";
            }
            let closing = ops.iter().find(|op| matches!(op, Op::Shutdown | Op::WaitClose));
            closing == Some(&Op::WaitClose)
        }
        _ => false,
    };
    if server { "the server" } else { "the client" }
}

/// How many may be open, and which ports and how much memory that takes.
pub(super) fn needs(page: &mut Page, spec: &SessionSpec, group: &SessionGroup, rate: Option<f64>) {
    let limited = spec.limit.filter(|limit| limit.open.is_some());
    let most = match (group.users, limited.and_then(|limit| limit.most_open())) {
        (Some(users), Some(most)) => Some(u64::from(users.min(most))),
        (Some(users), None) => Some(users.into()),
        (None, Some(most)) => Some(most.into()),
        (None, None) => spec.count.map(|count| count.get()),
    };
    let beyond = match limited.map(|limit| limit.beyond) {
        Some(Beyond::Expire) => "; what is due beyond that is counted as expired",
        Some(Beyond::Queue) => "; what is due beyond that waits until another has ended",
        None => "",
    };
    let both = spec.from.is_some() && spec.to.is_some() && spec.transport != Transport::Udp;
    let descriptors = if both { "two" } else { "one" };
    let while_others_start = pauses(spec, group).min(until_stop(group).unwrap_or(f64::INFINITY));
    let open = match most {
        Some(most) => format!("at most {}{beyond}", human::count(most)),
        None => match rate.map(|rate| rate * while_others_start).filter(|open| *open > 0.0) {
            Some(open) => {
                format!("about {} by their pauses alone, and no limit", flow::number(open.ceil()))
            }
            None => "as many as come together: there is no limit".to_owned(),
        },
    };
    match spec.stack {
        StackChoice::Host => page.fact(
            "open",
            &format!("{open}; each takes {descriptors} of the file descriptors (ulimit -n)"),
        ),
        StackChoice::Own => page.fact("open", &open),
    }
    let by_itself = of_ends(group, most);
    match spec.stack {
        StackChoice::Own => page.fact("memory", &by_itself.unwrap_or_default()),
        StackChoice::Host => {
            page.fact("memory", &buffers(spec, most));
            by_itself.into_iter().for_each(|text| page.more(&text));
        }
    }
    if spec.from.is_some() {
        page.fact("ports", &ports(spec, group, rate));
    }
}

/// What ends of ours take by themselves; `None`: nothing beside buffers of the system.
fn of_ends(group: &SessionGroup, most: Option<u64>) -> Option<String> {
    let each = end_memory(group);
    let ends = u64::from(group.from.is_some()) + u64::from(group.to.is_some());
    let all = most.map(|most| {
        let here = if ends > 1 { "both ends of all of them" } else { "all of them" };
        let all = each.saturating_mul(ends).saturating_mul(most);
        format!(", {} for {here}", human::bytes(all as f64))
    });
    let (all, each_said) = (all.unwrap_or_default(), human::bytes(each as f64));
    let of_both =
        |what: &str| format!("{what} about {each_said} for each end of a session that waits{all}");
    match (group.stack, &group.tls) {
        (StackChoice::Own, tls) => {
            let what = if tls.is_some() { "of our own stack and TLS" } else { "of our own stack" };
            let kept =
                "what is sent is not kept, and what arrived out of order up to 256 MiB in all";
            Some(format!("{}; {kept}", of_both(what)))
        }
        (StackChoice::Host, Some(_)) => Some(of_both("of TLS")),
        (StackChoice::Host, None) => None,
    }
}

/// Buffers of the system.
fn buffers(spec: &SessionSpec, most: Option<u64>) -> String {
    if spec.transport == Transport::Udp {
        return "a socket's buffers for each session of a client (net.core.rmem_default), and one for each address of a server".to_owned();
    }
    let (send, receive) = (spec.tcp.send_buffer, spec.tcp.receive_buffer);
    let (Some(send), Some(receive)) = (send, receive) else {
        return match spec.transport {
            Transport::Sctp => "buffers of each end as the system has them: net.core.wmem_default and rmem_default".to_owned(),
            _ => "buffers of each end as the system chooses them: up to the last numbers of net.ipv4.tcp_wmem and tcp_rmem".to_owned(),
        };
    };
    let each = send.get().saturating_add(receive.get()) as f64;
    match most {
        Some(most) => format!(
            "buffers of {} for each end of a session, {} for all; the system may double them",
            human::bytes(each),
            human::bytes(each * most as f64)
        ),
        None => format!(
            "buffers of {} for each end of a session; the system may double them",
            human::bytes(each)
        ),
    }
}

fn ports(spec: &SessionSpec, group: &SessionGroup, rate: Option<f64>) -> String {
    if spec.transport != Transport::Tcp {
        return "each open session takes one of the client's, and gives it back at its end"
            .to_owned();
    }
    let closer = closes_first(spec, group);
    let (clients, servers) = (&group.clients.pool, &group.servers.pool);
    let (by_itself, which) = match spec.stack {
        StackChoice::Host => (EPHEMERAL, "as Linux has them by itself"),
        StackChoice::Own => (OWN, "from 1024 on"),
    };
    let each = clients.ports.as_ref().map_or(by_itself, |ports| ports.len());
    let ways = clients.addresses.len().max(1).saturating_mul(servers.addresses.len().max(1));
    let ways = ways.saturating_mul(servers.ports.as_ref().map_or(1, |ports| ports.len()));
    let there = each.saturating_mul(ways);
    let which = match clients.ports {
        Some(_) => "the pool's",
        None => which,
    };
    let have = format!(
        "there are {} ({} for each client's and server's address and port: {which})",
        human::count(there),
        human::count(each)
    );
    if closer != "the client" {
        return format!(
            "{closer} closes first, so no port of a client waits after a session; {have}"
        );
    }
    let time_wait = spec.tcp.time_wait.unwrap_or(TIME_WAIT);
    if time_wait == Nanos::ZERO {
        return format!(
            "the client closes first, and TIME-WAIT is skipped, so that no port waits after a session; {have}"
        );
    }
    let waits = format!("{} s", flow::number(time_wait.as_secs_f64()));
    let Some(rate) = rate else {
        return format!(
            "the client closes first, and its port waits for {waits} then (TIME-WAIT); {have}"
        );
    };
    let needed = spec.count.map_or(f64::MAX, |count| count.get() as f64);
    let needed = needed.min(rate * time_wait.get() as f64 / 1e9);
    // until the run ends no more are taken than it starts
    let needed = needed.min(until_stop(group).map_or(f64::MAX, |time| rate * time));
    let verdict = match needed > there as f64 {
        true => {
            ". TOO FEW: sessions will fail here; give 'clients' more addresses, the servers more ports, or 'tcp: { reset: true }'"
        }
        false => "",
    };
    format!(
        "about {} are taken: the client closes first, and its port waits for {waits} then (TIME-WAIT); {have}{verdict}",
        flow::number(needed.ceil())
    )
}
