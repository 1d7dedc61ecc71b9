//! The tunables of T-Rex (`glob_info`) that our TCP and IP have as well, one line of the table for each. Names and ranges are those of
//! doc/trex_astf.asciidoc and of `CAstfDB::read_tunables` of trex-core.
//!
//! A template's own tunables come before those of its end (`c_glob_info`, `s_glob_info`). What nobody writes is as our TCP has it.

use std::num::{NonZeroU8, NonZeroU16};

use serde_json::{Map, Value};
use wirebeat_traffic::scenario::KeyPath;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::session::{KeepAlive, TcpSpec, Transport};
use wirebeat_units::{Bytes, Nanos};

use super::Reader;
use crate::text::printable;

/// T-Rex asks a silent peer so often (`TCPTV_KEEPCNT`), each 7 s unless it is told (`keepintvl`).
const PROBES: u8 = 8;
const PROBE_INTERVAL: Nanos = Nanos::from_secs(7);
const PROBE_IDLE: Nanos = Nanos::from_secs(5);
/// The largest window without window scaling (RFC 7323 §2.2).
const UNSCALED_WINDOW: u64 = 65_535;
/// The longest that our acknowledgments wait (RFC 9293 §3.8.6.3).
const DELAYED_ACK_MAX_MS: u64 = 500;
/// T-Rex has the highest bit of TTLs for itself.
const TTL_MAX: u64 = 127;

/// An end of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl End {
    /// The key of its part of a template, and that of its tunables of all templates.
    pub(super) const fn keys(self) -> (&'static str, &'static str) {
        match self {
            End::Client => ("client_template", "c_glob_info"),
            End::Server => ("server_template", "s_glob_info"),
        }
    }
}

/// What is asked of TCP and IP at an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) tcp: TcpSpec,
    pub(super) ttl: Option<NonZeroU8>,
    pub(super) dscp: Option<Dscp>,
}

/// What becomes of a tunable.
enum Becomes {
    /// It is set; gives what is not quite as it is written.
    Set(fn(&mut Settings, End, u64) -> Option<&'static str>),
    /// It is not carried over.
    Nothing(&'static str),
}

struct Tunable {
    layer: &'static str,
    key: &'static str,
    /// From and to, as T-Rex takes it.
    range: (u64, u64),
    becomes: Becomes,
}

const fn set(
    (layer, key): (&'static str, &'static str),
    range: (u64, u64),
    set: fn(&mut Settings, End, u64) -> Option<&'static str>,
) -> Tunable {
    Tunable { layer, key, range, becomes: Becomes::Set(set) }
}

const fn nothing(layer: &'static str, key: &'static str, why: &'static str) -> Tunable {
    Tunable { layer, key, range: (0, 0), becomes: Becomes::Nothing(why) }
}

const IPV6: &str = "sessions have the addresses of the generators: write those of IPv6 as 'addresses' of 'clients' and 'servers'";

const TUNABLES: &[Tunable] = &[
    set(("tcp", "mss"), (10, 9216), |of, _, mss| {
        if mss < 88 {
            return Some("an MSS has 88 bytes at least here");
        }
        of.tcp.mss = u16::try_from(mss).ok().and_then(NonZeroU16::new);
        None
    }),
    set(("tcp", "initwnd"), (1, 20), |of, _, window| {
        of.tcp.initial_window = u8::try_from(window).ok().and_then(NonZeroU8::new);
        None
    }),
    set(("tcp", "rxbufsize"), (1 << 10, 1 << 30), |of, _, bytes| {
        of.tcp.receive_buffer = Some(Bytes::new(bytes));
        None
    }),
    // both are on by themselves
    set(("tcp", "do_sack"), (0, 1), |of, _, is_on| {
        of.tcp.sack = (is_on == 0).then_some(false);
        None
    }),
    set(("tcp", "do_rfc1323"), (0, 1), |of, _, is_on| {
        of.tcp.window_scaling = (is_on == 0).then_some(false);
        of.tcp.timestamps = (is_on == 0).then_some(false);
        None
    }),
    // 2 is passive: servers agree to it, and clients do not ask for it
    set(("tcp", "do_ecn"), (0, 2), |of, end, ecn| {
        of.tcp.ecn = (ecn == 1 || ecn == 2 && end == End::Server).then_some(true);
        None
    }),
    set(("tcp", "cc_algo"), (0, 1), |of, _, algorithm| {
        let name = if algorithm == 0 { "reno" } else { "cubic" };
        of.tcp.congestion = Some(name.to_owned());
        None
    }),
    set(("tcp", "no_delay"), (0, 3), |of, _, bits| {
        of.tcp.nagle = bits & 1 == 0;
        (bits & 2 != 0).then_some(
            "Nagle's algorithm is carried over; PSH is set where data ends, and not by force",
        )
    }),
    set(("tcp", "delay_ack_msec"), (20, 50_000), |of, _, ms| {
        of.tcp.delayed_ack = Some(Nanos::from_millis(ms.min(DELAYED_ACK_MAX_MS)));
        (ms > DELAYED_ACK_MAX_MS).then_some(
            "an acknowledgment waits 500 ms at most (RFC 9293 §3.8.6.3), and so it does here",
        )
    }),
    set(("tcp", "keepidle"), (2, 65_533), |of, _, seconds| {
        probes(of).idle = Nanos::from_secs(seconds);
        None
    }),
    set(("tcp", "keepintvl"), (2, 65_533), |of, _, seconds| {
        probes(of).interval = Nanos::from_secs(seconds);
        None
    }),
    set(("ip", "ttl"), (1, 255), |of, _, ttl| {
        of.ttl = u8::try_from(ttl.min(TTL_MAX)).ok().and_then(NonZeroU8::new);
        (ttl > TTL_MAX).then_some("T-Rex sends 127 at most, and so it is here")
    }),
    set(("ip", "tos"), (0, 255), |of, _, tos| {
        of.dscp = Dscp::new((tos >> 2) as u8).filter(|_| tos >> 2 != 0);
        (tos & 3 != 0)
            .then_some("the DSCP is carried over, the two bits of ECN are not: our TCP sets them where both ends agreed on it (do_ecn)")
    }),
    nothing(
        "tcp",
        "txbufsize",
        "our TCP keeps nothing that it sends, so it has no buffer that could be full",
    ),
    nothing(
        "tcp",
        "rexmtthresh",
        "losses are found by time as well (RFC 8985), not by a number of duplicate acknowledgments",
    ),
    nothing(
        "tcp",
        "no_delay_counter",
        "an acknowledgment waits for a time ('delayed-ack'), not for a number of bytes",
    ),
    nothing(
        "tcp",
        "keepinit",
        "'timeout' of the group is how long a session waits for its connection",
    ),
    nothing("tcp", "blackhole", "our hosts answer segments of no session with RST"),
    nothing(
        "tcp",
        "reass_maxqlen",
        "what comes out of order is limited by the receive window ('receive-buffer')",
    ),
    nothing(
        "ip",
        "dont_use_inbound_mac",
        "the next hop is found by ARP, or is the 'gateway' of the port's 'hosts'",
    ),
    nothing("ipv6", "enable", IPV6),
    nothing("ipv6", "src_msb", IPV6),
    nothing("ipv6", "dst_msb", IPV6),
    nothing(
        "scheduler",
        "rampup_sec",
        "all groups start at their rate: write 'rate: { ramp: … }' for one that rises",
    ),
];

impl Settings {
    /// What both ends have where they are told various things that ends agree on when they connect: the smaller MSS, and options of TCP that
    /// either refuses. `None`: one end has something of its own.
    pub(super) fn agreed(&self, other: &Settings) -> Option<Settings> {
        let mut both = self.clone();
        let (mine, theirs) = (&mut both.tcp, &other.tcp);
        mine.mss = [mine.mss, theirs.mss].into_iter().flatten().min();
        let refused = |a: Option<bool>, b: Option<bool>| {
            (a == Some(false) || b == Some(false)).then_some(false)
        };
        mine.sack = refused(mine.sack, theirs.sack);
        mine.window_scaling = refused(mine.window_scaling, theirs.window_scaling);
        mine.timestamps = refused(mine.timestamps, theirs.timestamps);
        mine.ecn = mine.ecn.filter(|_| theirs.ecn == Some(true));
        let mut like_both = other.clone();
        let agreed = &both.tcp;
        like_both.tcp.mss = agreed.mss;
        like_both.tcp.sack = agreed.sack;
        like_both.tcp.window_scaling = agreed.window_scaling;
        like_both.tcp.timestamps = agreed.timestamps;
        like_both.tcp.ecn = agreed.ecn;
        (both == like_both).then_some(both)
    }
}

/// The probes of an idle connection, which T-Rex sends unasked.
fn probes(of: &mut Settings) -> &mut KeepAlive {
    of.tcp.keep_alive.get_or_insert(KeepAlive {
        idle: PROBE_IDLE,
        interval: PROBE_INTERVAL,
        count: PROBES,
    })
}

impl<'a> Reader<'a, '_, '_> {
    /// What is asked of an end of template `number`.
    pub(super) fn settings(
        &mut self,
        number: usize,
        (end, of): (End, &'a Map<String, Value>),
        transport: Transport,
    ) -> Settings {
        let (template, all) = end.keys();
        let own = KeyPath::root("templates").index(number).key(template).key("glob_info");
        let mut settings = Settings::default();
        for tunable in TUNABLES {
            let Becomes::Set(set) = tunable.becomes else { continue };
            if transport == Transport::Udp && tunable.layer == "tcp" {
                continue;
            }
            let within = |info: Option<&'a Value>| info?.get(tunable.layer)?.get(tunable.key);
            let is_written = |value: &&'a Value| !value.is_null();
            let mine = within(of.get("glob_info")).filter(is_written);
            let (path, value) = match mine {
                Some(value) => (own.clone(), value),
                None => match within(self.profile.get(all)).filter(is_written) {
                    Some(value) => (KeyPath::root(all), value),
                    None => continue,
                },
            };
            let path = path.key(tunable.layer).key(tunable.key);
            let number = match value {
                Value::Bool(is_on) => Some(u64::from(*is_on)),
                value => value.as_u64(),
            };
            let (from, to) = tunable.range;
            match number.filter(|number| (from..=to).contains(number)) {
                None => {
                    let why =
                        format!("T-Rex takes a whole number from {from} to {to}, and this is none");
                    self.leave_out(&path, why);
                }
                Some(number) => {
                    if let Some(why) = set(&mut settings, end, number) {
                        self.leave_out(&path, why);
                    }
                }
            }
        }
        let buffer = settings.tcp.receive_buffer.map_or(0, Bytes::get);
        if settings.tcp.window_scaling == Some(false) && buffer > UNSCALED_WINDOW {
            settings.tcp.receive_buffer = Some(Bytes::new(UNSCALED_WINDOW));
        }
        settings
    }

    /// Tells which tunables of a `glob_info` are not carried over.
    pub(super) fn tell_tunables(&mut self, path: &KeyPath, info: Option<&Value>) {
        let layers = match info {
            None | Some(Value::Null) => return,
            Some(Value::Object(layers)) => layers,
            Some(_) => return self.leave_out(path, "it has no tunables"),
        };
        for (layer, keys) in layers {
            let here = path.clone().key(layer);
            let Value::Object(keys) = keys else {
                self.leave_out(&here, "T-Rex has no such tunable");
                continue;
            };
            for (key, value) in keys {
                let known = TUNABLES.iter().find(|of| of.layer == layer && of.key == key);
                let why = match known.map(|of| &of.becomes) {
                    Some(Becomes::Set(_)) => continue,
                    Some(Becomes::Nothing(_)) if value.is_null() => continue,
                    // these are as they are here
                    Some(Becomes::Nothing(_))
                        if value.as_u64() == Some(0)
                            && ["enable", "blackhole", "no_delay_counter"]
                                .contains(&key.as_str()) =>
                    {
                        continue;
                    }
                    Some(Becomes::Nothing(why)) => *why,
                    None => "T-Rex has no such tunable",
                };
                self.leave_out(&here.clone().key(key), why);
            }
        }
    }

    /// Tells which settings of servers are not those that the group has, where both ends have those of the clients.
    pub(super) fn tell_servers(&mut self, number: usize, (client, server): (&Settings, &Settings)) {
        let path = KeyPath::root("templates").index(number).key("server_template");
        let ttl = |of: &Settings| {
            of.ttl.map_or("the usual TTL".to_owned(), |ttl| format!("the TTL {ttl}"))
        };
        let dscp = |of: &Settings| of.dscp.map_or(0, Dscp::to_tos);
        let why = format!(
            "its servers are told {} and the DSCP {}: a group over UDP has one of each, and these are its clients' ({} and {})",
            ttl(server),
            dscp(server) >> 2,
            ttl(client),
            dscp(client) >> 2
        );
        let line = self.line(&path);
        self.draft.leave_out(&line, &printable(&path.to_string()), why);
    }
}
