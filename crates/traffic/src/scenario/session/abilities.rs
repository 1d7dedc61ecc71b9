//! What each stack can do of what is asked of TCP and IP: one table of what it cannot, with the reason and the remedy.
//!
//! Linux has some of it for single sockets, some for a whole network namespace (sysctl) and some for a route; what it has for sockets
//! in later versions alone is tried on a socket before the start, which the crate `sockets` does. Bounds that hold for every
//! stack are with the values.

use wirebeat_units::{Fault, Nanos};

use super::SessionSpec;
use crate::values::session::{KeepAlive, StackChoice, Transport};

/// The longest time between probes that Linux takes (`MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL` of net/tcp.h).
const KEEP_ALIVE_MAX: Nanos = Nanos::from_secs(32_767);
/// `TCP_RTO_MIN` and `TCP_DELACK_MAX` of net/tcp.h: a socket may have less than these, not more.
const RTO_MIN_MOST: Nanos = Nanos::from_millis(200);
/// What a socket may have as its longest timeout (`TCP_RTO_MAX_SEC` of net/tcp.h).
const RTO_MAX_LEAST: Nanos = Nanos::from_secs(1);
const RTO_MAX_MOST: Nanos = Nanos::from_secs(120);

/// What a stack cannot do.
struct Lack {
    /// The stack; `None`: neither can.
    stack: Option<StackChoice>,
    /// The key below the group.
    key: &'static str,
    is_asked: fn(&SessionSpec) -> bool,
    why: &'static str,
    remedy: &'static str,
}

const HOST: Option<StackChoice> = Some(StackChoice::Host);
const OWN: Option<StackChoice> = Some(StackChoice::Own);

const LACKS: &[Lack] = &[
    Lack {
        stack: HOST,
        key: "tcp.window-scaling",
        is_asked: |spec| spec.tcp.window_scaling.is_some(),
        why: "the system scales windows in a whole network namespace or not at all",
        remedy: "leave it out and set the sysctl net.ipv4.tcp_window_scaling there, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.timestamps",
        is_asked: |spec| spec.tcp.timestamps.is_some(),
        why: "the system has timestamps in a whole network namespace or not at all",
        remedy: "leave it out and set the sysctl net.ipv4.tcp_timestamps there, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.sack",
        is_asked: |spec| spec.tcp.sack.is_some(),
        why: "the system acknowledges selectively in a whole network namespace or not at all",
        remedy: "leave it out and set the sysctl net.ipv4.tcp_sack there, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.ecn",
        is_asked: |spec| spec.tcp.ecn.is_some(),
        why: "the system has ECN in a whole network namespace or on a route",
        remedy: "leave it out and set the sysctl net.ipv4.tcp_ecn there (or: ip route change ... features ecn), or use \
                 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.initial-window",
        is_asked: |spec| spec.tcp.initial_window.is_some(),
        why: "the system has an initial window for routes, not for sessions",
        remedy: "leave it out and set it on the route (ip route change ... initcwnd 10), or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.delayed-ack",
        is_asked: |spec| spec.tcp.delayed_ack == Some(Nanos::ZERO),
        why: "the system acknowledges at once on routes, not in sessions",
        remedy: "leave it out and set it on the route (ip route change ... quickack 1), or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.delayed-ack",
        is_asked: |spec| spec.tcp.delayed_ack.is_some_and(|time| time > RTO_MIN_MOST),
        why: "the system's acknowledgments wait 200ms at most",
        remedy: "ask for less, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.keep-alive",
        is_asked: |spec| spec.tcp.keep_alive.is_some_and(|probes| !is_of_the_system(probes)),
        why: "the system counts times of probes in whole seconds, from 1s to 32767s",
        remedy: "write such times, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.rto.initial",
        is_asked: |spec| spec.tcp.rto.initial.is_some(),
        why: "the system begins with a timeout of 1s",
        remedy: "leave it out, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.rto.min",
        is_asked: |spec| spec.tcp.rto.min.is_some_and(|time| time > RTO_MIN_MOST),
        why: "the system's least timeout of a session is 200ms at most",
        remedy: "leave it out and set it on the route (ip route change ... rto_min 1s), or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.rto.max",
        is_asked: |spec| {
            spec.tcp.rto.max.is_some_and(|time| !(RTO_MAX_LEAST..=RTO_MAX_MOST).contains(&time))
        },
        why: "the system's longest timeout is 1s to 120s",
        remedy: "ask for such a time, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.syn-retries",
        is_asked: |spec| spec.tcp.syn_retries == Some(0),
        why: "the system repeats a SYN once at least",
        remedy: "ask for 1 or more, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.data-retries",
        is_asked: |spec| spec.tcp.data_retries.is_some(),
        why: "the system counts retries for a whole network namespace",
        remedy: "write 'user-timeout' instead, or leave it out and set the sysctl net.ipv4.tcp_retries2 there",
    },
    Lack {
        stack: HOST,
        key: "tcp.fin-timeout",
        is_asked: |spec| spec.tcp.fin_timeout.is_some(),
        why: "a session over the system's TCP waits for its peer to close as long as 'timeout' of the group says",
        remedy: "write that, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.time-wait",
        is_asked: |spec| spec.tcp.time_wait.is_some(),
        why: "the system's sessions stay in TIME-WAIT for 60s, which nothing changes",
        remedy: "end with RST (tcp: { reset: true }), set the sysctl net.ipv4.tcp_tw_reuse to 1, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tcp.black-hole-detection",
        is_asked: |spec| spec.tcp.black_hole_detection.is_some(),
        why: "the system looks for black holes in a whole network namespace or not at all",
        remedy: "leave it out and set the sysctl net.ipv4.tcp_mtu_probing there, or use 'stack: own'",
    },
    Lack {
        stack: HOST,
        key: "tos",
        is_asked: |spec| is_tcp(spec) && spec.tos.is_some_and(says_ecn),
        // net/ipv4/ip_sockglue.c, do_ip_setsockopt: of a stream it takes the bits that are not ECN's
        why: "the system's TCP has the two lowest bits of the ToS byte, those of ECN, for itself",
        remedy: "write a value that is a multiple of 4, or use 'stack: own'",
    },
    Lack {
        stack: OWN,
        key: "tos",
        is_asked: |spec| {
            is_tcp(spec) && spec.tos.is_some_and(says_ecn) && spec.tcp.ecn == Some(true)
        },
        why: "with 'ecn' the two lowest bits of the ToS byte are TCP's, which marks its packets by them (RFC 3168 §6.1)",
        remedy: "write a value that is a multiple of 4, or leave 'ecn' out",
    },
    Lack {
        stack: OWN,
        key: "tcp.pacing",
        is_asked: |spec| spec.tcp.pacing.is_some(),
        why: "our own TCP has no 'pacing'",
        remedy: "leave it out, or use 'stack: host'",
    },
    Lack {
        stack: OWN,
        key: "tcp.send-buffer",
        is_asked: |spec| spec.tcp.send_buffer.is_some(),
        why: "our own TCP has no 'send-buffer': nothing that is sent is kept",
        remedy: "leave it out, or use 'stack: host'",
    },
    Lack {
        stack: OWN,
        key: "tcp.multipath",
        is_asked: |spec| spec.tcp.multipath,
        why: "our own TCP has no 'multipath'",
        remedy: "leave it out, or use 'stack: host'",
    },
    Lack {
        stack: OWN,
        key: "tcp.zero-copy",
        is_asked: |spec| spec.tcp.zero_copy,
        why: "our own TCP makes what it sends in the frames themselves, where nothing is copied",
        remedy: "leave it out, or use 'stack: host'",
    },
    Lack {
        stack: None,
        key: "tcp.zero-copy",
        is_asked: |spec| spec.tcp.zero_copy && spec.tls.is_some(),
        why: "what TLS sends is made anew for each session, so there is nothing to hand over",
        remedy: "leave 'zero-copy' or 'tls' out",
    },
    Lack {
        stack: None,
        key: "tcp.zero-copy",
        is_asked: |spec| spec.tcp.zero_copy && spec.tcp.multipath,
        why: "the system's Multipath TCP copies all that it sends",
        remedy: "leave 'zero-copy' or 'multipath' out",
    },
    Lack {
        stack: None,
        key: "dont-fragment",
        is_asked: |spec| spec.dont_fragment.is_some() && speaks_ipv6(spec),
        why: "IPv6 has no such bit: its routers never fragment (RFC 8200)",
        remedy: "leave it out, or write addresses of IPv4",
    },
];

/// Whether Linux can probe at these times.
fn is_of_the_system(probes: KeepAlive) -> bool {
    let second = Nanos::from_secs(1);
    [probes.idle, probes.interval].into_iter().all(|time| {
        (second..=KEEP_ALIVE_MAX).contains(&time) && time.get().is_multiple_of(second.get())
    })
}

fn is_tcp(spec: &SessionSpec) -> bool {
    spec.transport == Transport::Tcp
}

/// Whether a ToS byte has bits of ECN (RFC 3168 §5).
fn says_ecn(tos: u8) -> bool {
    tos & 0x03 != 0
}

fn speaks_ipv6(spec: &SessionSpec) -> bool {
    let mut ranges = spec.clients.addresses.0.iter().chain(&spec.servers.addresses.0);
    ranges.any(|range| range.is_ipv6())
}

/// Refuses what the stack of a group cannot do: the key below the group, and why.
pub(super) fn check(spec: &SessionSpec) -> Result<(), (&'static str, Fault)> {
    let lacks =
        |lack: &&Lack| lack.stack.is_none_or(|stack| stack == spec.stack) && (lack.is_asked)(spec);
    match LACKS.iter().find(lacks) {
        None => Ok(()),
        Some(Lack { key, why, remedy, .. }) => {
            Err((key, Fault { what: (*why).to_owned(), hint: Some((*remedy).to_owned()) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::Scenario;

    fn read(stack: StackChoice, keys: &str) -> Result<Scenario, String> {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions:\n  s:\n    from: a\n    stack: {}\n    clients: {{ addresses: 10.0.0.1 }}\n    \
             servers: {{ addresses: 10.0.0.2, ports: 80 }}\n    program: http\n    rate: 10/s\n    {keys}\nrun: {{ time: 1s }}\n",
            stack.name()
        );
        Scenario::from_yaml(&text, "test").map_err(|error| error.to_string())
    }

    const ASKED: &[(StackChoice, &str, &str)] = &[
        (StackChoice::Host, "tcp: { window-scaling: true }", "net.ipv4.tcp_window_scaling"),
        (StackChoice::Host, "tcp: { timestamps: false }", "net.ipv4.tcp_timestamps"),
        (StackChoice::Host, "tcp: { sack: false }", "net.ipv4.tcp_sack"),
        (StackChoice::Host, "tcp: { ecn: true }", "net.ipv4.tcp_ecn"),
        (StackChoice::Host, "tcp: { initial-window: 4 }", "initcwnd"),
        (StackChoice::Host, "tcp: { delayed-ack: 0s }", "quickack"),
        (StackChoice::Host, "tcp: { delayed-ack: 300ms }", "200ms at most"),
        (StackChoice::Host, "tcp: { keep-alive: { idle: 1.5s } }", "whole seconds"),
        (StackChoice::Host, "tcp: { keep-alive: { interval: 10h } }", "32767s"),
        (StackChoice::Host, "tcp: { rto: { initial: 2s } }", "timeout of 1s"),
        (StackChoice::Host, "tcp: { rto: { min: 300ms } }", "rto_min"),
        (StackChoice::Host, "tcp: { rto: { max: 500ms } }", "1s to 120s"),
        (StackChoice::Host, "tcp: { syn-retries: 0 }", "once at least"),
        (StackChoice::Host, "tcp: { data-retries: 3 }", "'user-timeout'"),
        (StackChoice::Host, "tcp: { fin-timeout: 3s }", "'timeout'"),
        (StackChoice::Host, "tcp: { time-wait: 0s }", "tcp_tw_reuse"),
        (StackChoice::Host, "tcp: { black-hole-detection: true }", "tcp_mtu_probing"),
        (StackChoice::Host, "tos: 185", "multiple of 4, or use 'stack: own'"),
        (StackChoice::Own, "tos: 2\n    tcp: { ecn: true }", "leave 'ecn' out"),
        (StackChoice::Own, "tcp: { pacing: 1Mbps }", "stack: host"),
        (StackChoice::Own, "tcp: { send-buffer: 64kB }", "stack: host"),
        (StackChoice::Own, "tcp: { multipath: true }", "stack: host"),
        (StackChoice::Own, "tcp: { zero-copy: true }", "stack: host"),
    ];

    #[test]
    fn what_a_stack_cannot_do_is_refused_with_the_reason_and_the_remedy() {
        let mut seen = BTreeSet::new();
        for (stack, keys, words) in ASKED {
            let error = read(*stack, keys).unwrap_err();
            assert!(error.contains(words), "{keys}: {error}");
            let lack = LACKS.iter().find(|lack| error.contains(lack.why)).unwrap();
            assert!(error.contains(&format!("sessions.s.{}", lack.key)), "{keys}: {error}");
            seen.insert(lack.why);
        }
        // of both stacks, in the tests below
        let of_one = LACKS.iter().filter(|lack| lack.stack.is_some());
        assert_eq!(seen, of_one.map(|lack| lack.why).collect());
    }

    #[test]
    fn each_stack_has_what_the_other_lacks() {
        // what neither stack has both of is in the test above
        for (stack, keys, _) in ASKED.iter().filter(|(_, keys, _)| !keys.contains("tos: 2")) {
            let other = match stack {
                StackChoice::Host => StackChoice::Own,
                StackChoice::Own => StackChoice::Host,
            };
            read(other, keys).unwrap_or_else(|error| panic!("{error}"));
        }
        let both = "tcp: { keep-alive: { idle: 10s }, rto: { min: 100ms, max: 5s }, syn-retries: 2, user-timeout: 3s, \
                    delayed-ack: 10ms }\n    dont-fragment: false";
        for stack in StackChoice::ALL {
            read(stack, both).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn a_tos_byte_is_given_whole_or_by_its_dscp() {
        for stack in StackChoice::ALL {
            read(stack, "tos: 0xb8").unwrap_or_else(|error| panic!("{error}"));
            let error = read(stack, "tos: 184\n    dscp: ef").unwrap_err();
            assert!(error.contains("sessions.s.tos") && error.contains("not both"), "{error}");
            assert!(read(stack, "tos: 256").is_err());
        }
    }

    #[test]
    fn what_is_made_anew_or_copied_anyway_is_not_sent_without_a_copy() {
        let refused = [
            ("tcp: { zero-copy: true }\n    tls: true", "leave 'zero-copy' or 'tls' out"),
            ("tcp: { zero-copy: true, multipath: true }", "leave 'zero-copy' or 'multipath' out"),
            ("tcp: { zero-copy: true }\n    transport: udp", "over UDP"),
        ];
        for (keys, words) in refused {
            let error = read(StackChoice::Host, keys).unwrap_err();
            assert!(error.contains("sessions.s.tcp") && error.contains(words), "{keys}: {error}");
        }
        let asked = read(StackChoice::Host, "tcp: { zero-copy: true }").unwrap();
        assert!(asked.sessions["s"].tcp.zero_copy);
    }

    #[test]
    fn packets_of_ipv6_have_no_bit_against_fragments() {
        let text = "ports: { a: {} }\nsessions: { s: { from: a, program: http, rate: 1/s, dont-fragment: true, \
                    servers: { addresses: '2001:db8::1', ports: 80 } } }\nrun: { time: 1s }\n";
        let error = Scenario::from_yaml(text, "test").unwrap_err().to_string();
        assert!(
            error.contains("sessions.s.dont-fragment") && error.contains("RFC 8200"),
            "{error}"
        );
    }
}
