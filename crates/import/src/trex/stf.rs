//! T-Rex's stateful profiles: captures that are played over and over, each so many times a second.
//!
//! ```text
//! - duration : 40
//!   generator :
//!     clients_start : "16.0.0.1"  clients_end : "16.0.0.255"  servers_start : …  servers_end : …
//!   cap_info :
//!     - name: cap2/dns.pcap
//!       cps : 2400.0      # times a second
//!       ipg : 10000       # µs between packets of one end
//!       rtt : 10000       # µs before the other end answers
//!       w   : 4           # flows that begin together
//! ```
//!
//! Each session of a capture becomes a group of our own TCP or UDP at both ends: T-Rex plays packets as they were captured, and here the
//! ends speak TCP with what is between them. Templates to the same port share the servers of their pool: each has a part of them,
//! because a server has to know what to say. Where packets are asked for, captures are played as T-Rex does it (`packets.rs`). Keys,
//! units and defaults are those of doc/trex_book.asciidoc of trex-core.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

use serde_json::{Map, Value};
use wirebeat_traffic::scenario::KeyPath;
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::session::program::Capture;
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, Limit, MAX_GROUPS, MAX_USERS, PoolOrder, PoolSpec, PortPool,
    ProgramSpec, SessionSpec, StackChoice, Transport,
};
use wirebeat_traffic::scenario::yaml::{self, Lines};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Fault, Nanos, Rate, fault};

use super::packets::{self, PacketTemplate};
use super::{nanos, per_second, shares};
use crate::capture::{CLIENTS, SERVERS, SessionFacts, TemplateFacts, port};
use crate::draft::Draft;
use crate::text::{name, printable};
use crate::{Line, ScriptError};

/// The most templates of a profile.
const TEMPLATES_MAX: usize = 1000;

/// Keys that say nothing of what is sent here.
const WITHOUT_EFFECT: [&str; 5] =
    ["clients_per_gb", "min_clients", "wlength", "track_ports", "cap_ipg_min_flows"];

/// Keys of a profile, its generator and its pools that are told, and why they are not followed.
const TOLD: [(&str, &str); 11] = [
    ("cap_ipg_min", "times of the capture are kept as they are"),
    ("cap_override_ipg", "times of the capture are kept as they are"),
    ("mac", "the next hop is found by ARP, or is the 'gateway' of the port's 'hosts'"),
    ("mac_override_by_ip", "the next hop is found by ARP"),
    ("vlan", "write 'vlan' into the port's 'hosts'"),
    ("tcp_aging", "ports are used again after TIME-WAIT: write 'tcp: { time-wait: … }'"),
    ("udp_aging", "a server is done with a client that is silent for 'timeout'"),
    ("dual_port_mask", "there is one pair of ports"),
    ("generator_clients_per_core", "cores share the clients of a pool"),
    ("cluster", "write the addresses as 'clients'"),
    ("tw", "sessions are called by a timer wheel of ours"),
];

/// Why a key of a profile, its generator or its pools is not followed.
fn why_not(key: &str) -> &'static str {
    TOLD.iter().find(|(of, _)| *of == key).map_or("it has no meaning here", |(_, why)| *why)
}

/// Whether a value asks for nothing.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Bool(false) | Value::Null) || value.as_f64() == Some(0.0)
}

/// The key of a line of YAML, which may begin an entry of a list.
pub(super) fn key(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix('-').map_or(line, str::trim_start);
    let (key, _) = line.split_once(':')?;
    let key = key.trim_end();
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then_some(key)
}

/// Addresses of one end, and in which order sessions take them.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) range: AddressRange,
    pub(super) order: PoolOrder,
}

/// A template: a capture with how it is played.
pub(super) struct Template<'a> {
    pub(super) number: usize,
    pub(super) keys: &'a Map<String, Value>,
}

/// A session of a template's capture, with the name of the file, and the addresses of clients and servers.
type Played<'a> = (Template<'a>, String, SessionFacts, Addresses, Addresses);

pub(super) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let whole = |problem: Fault| ScriptError::Whole { file: draft.source.name.to_owned(), problem };
    let value: Value = yaml::value(draft.source.text).map_err(whole)?;
    let (profile, root) = match &value {
        Value::Array(all) => (all.first(), KeyPath::default().index(0)),
        other => (Some(other), KeyPath::default()),
    };
    let Some(Value::Object(profile)) = profile else {
        return Err(whole(
            fault!("this is no profile of T-Rex"; "it begins with '- duration : 10'"),
        ));
    };
    let lines = Lines::of(draft.source.text);
    for number in 1..value.as_array().map_or(0, Vec::len) {
        let place = lines.line(&KeyPath::default().index(number));
        let line = Line { file: draft.source.name.into(), number: place };
        let why =
            "a scenario is one run, that of the first profile: put this one into a file of its own";
        draft.leave_out(&line, &format!("profile {}", number + 1), why);
    }
    Reader { lines, root, profile, draft }.read()
}

pub(super) struct Reader<'a, 'b, 'c> {
    lines: Lines,
    /// Where the profile is in the text.
    root: KeyPath,
    pub(super) profile: &'a Map<String, Value>,
    pub(super) draft: &'c mut Draft<'b>,
}

impl<'a> Reader<'a, '_, '_> {
    fn read(mut self) -> Result<(), ScriptError> {
        let generator = match self.profile.get("generator") {
            Some(Value::Object(generator)) => generator,
            _ => {
                return Err(self.wrong(
                    "generator",
                    None,
                    fault!("it has no generator of addresses"),
                ));
            }
        };
        if self.draft.scenario.run.time.is_none() {
            let seconds = self.profile.get("duration").and_then(Value::as_f64);
            self.draft.scenario.run.time = seconds.and_then(|seconds| nanos(seconds * 1e9));
        }
        let here = self.root.clone().key("generator");
        let usual_clients = self.addresses(&here, generator, ("clients_start", "clients_end"))?;
        let usual_servers = self.addresses(&here, generator, ("servers_start", "servers_end"))?;
        let clients = self.pools(generator, "generator_clients")?;
        let servers = self.pools(generator, "generator_servers")?;
        self.tell_keys(generator);
        let Some(Value::Array(templates)) = self.profile.get("cap_info") else {
            return Err(self.wrong("cap_info", None, fault!("it has no templates")));
        };
        if templates.len() > TEMPLATES_MAX {
            let why = fault!("it has more than {TEMPLATES_MAX} templates"; "divide it");
            return Err(self.wrong("cap_info", None, why));
        }
        let options = self.draft.options.clone();
        let scenario = &mut self.draft.scenario;
        scenario.ports.insert(CLIENTS.to_owned(), port(&options.interface));
        scenario.ports.insert(SERVERS.to_owned(), port(&options.to));
        let mut groups: Vec<Played<'a>> = Vec::new();
        let mut ranges = Vec::new();
        let mut packets = Vec::new();
        for (number, template) in templates.iter().enumerate() {
            let Value::Object(keys) = template else {
                let why = fault!("it is no template"; "write for example '- name : cap2/dns.pcap'");
                return Err(self.wrong("", Some(number), why));
            };
            let template = Template { number, keys };
            let from = self.pool(&template, "client_pool", (&clients, usual_clients))?;
            let to = self.pool(&template, "server_pool", (&servers, usual_servers))?;
            let servers = self.server(&template)?.unwrap_or(to.range);
            ranges.push((number, from.range, servers));
            self.check_pools(&ranges)?;
            match options.packets {
                true => {
                    let (file, facts) = self.packets(&template)?;
                    packets.push(PacketTemplate {
                        template: Template { number, keys },
                        file,
                        facts,
                        from,
                        to,
                    });
                }
                false => {
                    for (file, session) in self.sessions(&template)? {
                        groups.push((Template { number, keys }, file, session, from, to));
                    }
                }
            }
            self.tell_template(&template);
        }
        if options.packets {
            return match packets.is_empty() {
                true => Err(self.wrong("cap_info", None, fault!("it has no templates"))),
                false => self.add_packets(packets),
            };
        }
        let line = self.line("cap_info", None);
        let why = "each end says what it said, by our own TCP and UDP; --packets plays the packets of the captures, as T-Rex does";
        self.draft.leave_out(&line, "cap_info", why);
        if groups.is_empty() {
            let told: Vec<String> = self.draft.told().iter().map(ToString::to_string).collect();
            let why = fault!("no session of its captures can be said again: {}", told.join("; "));
            return Err(self.wrong("cap_info", None, why));
        }
        let mut at_ports = Vec::new();
        for (template, _, session, _, to) in &groups {
            let port = (session.transport == Transport::Udp, session.server.port());
            at_ports.push((port, self.server(template)?.unwrap_or(to.range)));
        }
        let servers = shares::divide_by_port(&at_ports);
        for ((template, file, session, from, to), servers) in groups.into_iter().zip(servers) {
            if servers.is_empty() {
                let line = self.line("name", Some(template.number));
                let why = format!(
                    "others have all of its servers at port {}, and a server has to know what to say: give it a pool of its own",
                    session.server.port()
                );
                self.draft.leave_out(&line, &file, why);
                continue;
            }
            let servers = PoolSpec {
                addresses: AddressPool(servers),
                order: to.order,
                ..PoolSpec::default()
            };
            let group = self.group(&template, (file.clone(), &session), from, servers)?;
            self.add(&template, &file, group)?;
        }
        Ok(())
    }

    pub(super) fn wrong(&self, key: &str, template: Option<usize>, why: Fault) -> ScriptError {
        self.line(key, template).wrong(why)
    }

    /// Where a key stands: of a template, of the profile, or of its generator.
    pub(super) fn line(&self, key: &str, template: Option<usize>) -> Line {
        let root = self.root.clone();
        self.line_of(&match template {
            Some(number) => root.key("cap_info").index(number).key(key),
            None if self.profile.contains_key(key) => root.key(key),
            None => root.key("generator").key(key),
        })
    }

    fn line_of(&self, path: &KeyPath) -> Line {
        Line { file: self.draft.source.name.into(), number: self.lines.line(path) }
    }

    /// How often a template is played in a second: the number, and as a rate.
    pub(super) fn rate(&self, template: &Template<'_>) -> Result<(f64, Rate), ScriptError> {
        let wrong = |why: Fault| self.wrong("cps", Some(template.number), why);
        let cps = template.keys.get("cps").and_then(Value::as_f64);
        let cps = cps.filter(|cps| cps.is_finite() && *cps > 0.0).ok_or_else(|| {
            wrong(fault!("a template is played so many times a second"; "write for example cps : 10.0"))
        })?;
        let cps = cps * self.draft.options.multiply.map_or(1.0, |times| times.get() as f64);
        let rate = per_second(cps).parse().map_err(|_| {
            wrong(
                fault!("{cps} times a second is not a valid rate"; "write for example cps : 10.0"),
            )
        })?;
        Ok((cps, rate))
    }

    /// Addresses from one key to another of what stands at `path`.
    fn addresses(
        &mut self,
        path: &KeyPath,
        keys: &Map<String, Value>,
        (first, last): (&'static str, &'static str),
    ) -> Result<Addresses, ScriptError> {
        let read = |key: &str| -> Result<IpAddr, ScriptError> {
            let text = keys.get(key).and_then(Value::as_str).unwrap_or_default();
            text.trim().parse().map_err(|_| {
                let why =
                    fault!("'{}' is no address", printable(text); "write for example \"16.0.0.1\"");
                self.line_of(&path.clone().key(key)).wrong(why)
            })
        };
        let range = AddressRange::between(read(first)?, read(last)?);
        let range = range.map_err(|why| self.line_of(&path.clone().key(first)).wrong(why))?;
        let order = match keys.get("distribution") {
            None | Some(Value::Null) => PoolOrder::default(),
            Some(word) => match word.as_str() {
                Some("random") => PoolOrder::Random,
                Some("seq") => PoolOrder::default(),
                _ => {
                    let line = self.line_of(&path.clone().key("distribution"));
                    let why = "it is not one of seq, random: addresses are taken in turn";
                    self.draft.leave_out(&line, "distribution", why);
                    PoolOrder::default()
                }
            },
        };
        Ok(Addresses { range, order })
    }

    /// Pools with names.
    fn pools(
        &mut self,
        generator: &Map<String, Value>,
        key: &str,
    ) -> Result<BTreeMap<String, Addresses>, ScriptError> {
        let all = match generator.get(key) {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Array(all)) => all,
            Some(_) => {
                let why = fault!("it is no list of pools"; "write for example '- name : \"c1\"'");
                return Err(self.wrong(key, None, why));
            }
        };
        let mut pools = BTreeMap::new();
        for (number, pool) in all.iter().enumerate() {
            let path = self.root.clone().key("generator").key(key).index(number);
            let named = pool.as_object().and_then(|pool| Some((pool, pool.get("name")?.as_str()?)));
            let Some((pool, name)) = named else {
                let why = fault!("this pool has no name"; "write for example 'name : \"c1\"'");
                return Err(self.line_of(&path).wrong(why));
            };
            let addresses = self.addresses(&path, pool, ("ip_start", "ip_end"))?;
            if pools.insert(name.to_owned(), addresses).is_some() {
                let name = printable(name);
                let why = fault!("there are two pools '{name}'"; "give each a name of its own");
                return Err(self.line_of(&path).wrong(why));
            }
            self.tell_pool(&path, pool);
        }
        Ok(pools)
    }

    /// Tells what a pool says beside its addresses.
    fn tell_pool(&mut self, path: &KeyPath, pool: &Map<String, Value>) {
        for (key, value) in pool {
            let is_read = ["name", "distribution", "ip_start", "ip_end"].contains(&key.as_str());
            if is_read || WITHOUT_EFFECT.contains(&key.as_str()) || is_nothing(value) {
                continue;
            }
            let line = self.line_of(&path.clone().key(key));
            self.draft.leave_out(&line, key, why_not(key));
        }
    }

    /// The pool that a template names with `key`, or the one that is meant without.
    fn pool(
        &self,
        template: &Template<'_>,
        key: &str,
        (named, usual): (&BTreeMap<String, Addresses>, Addresses),
    ) -> Result<Addresses, ScriptError> {
        let name = match template.keys.get(key) {
            None | Some(Value::Null) => return Ok(usual),
            Some(name) => name.as_str(),
        };
        if let Some(found) = name.and_then(|name| named.get(name)) {
            return Ok(*found);
        }
        // what T-Rex calls the pool that has no name
        if name == Some("default") {
            return Ok(usual);
        }
        let known: Vec<String> = named.keys().take(8).map(|name| printable(name)).collect();
        let why = match known.is_empty() {
            true => fault!("the generator has no pools with names"; "leave '{key}' out"),
            false => fault!(
                "there is no pool '{}'", printable(name.unwrap_or_default());
                "write one of {}", known.join(", ")
            ),
        };
        Err(self.wrong(key, Some(template.number), why))
    }

    /// That no address is of clients and of servers: our hosts would have it twice. Packets may have any.
    /// Of the last of `ranges`, which are the numbers of templates, their clients and their servers, and all of them.
    fn check_pools(
        &mut self,
        ranges: &[(usize, AddressRange, AddressRange)],
    ) -> Result<(), ScriptError> {
        let Some((number, clients, servers)) = ranges.last() else { return Ok(()) };
        let overlap = ranges.iter().rev().find_map(|(_, other_clients, other_servers)| {
            let of = |clients: &AddressRange, servers: &AddressRange| {
                clients.common(servers).map(|_| (*clients, *servers))
            };
            of(clients, other_servers).or_else(|| of(other_clients, servers))
        });
        let Some((clients, servers)) = overlap else { return Ok(()) };
        let line = self.line("name", Some(*number));
        let both = format!("its clients {clients} and servers {servers} have addresses in common");
        if self.draft.options.packets {
            self.draft.leave_out(
                &line,
                "addresses",
                format!("{both}: packets go out with them all the same"),
            );
            return Ok(());
        }
        Err(line.wrong(fault!("{both}"; "give each end addresses of its own")))
    }

    /// Tells what is asked for beside the templates, and not done.
    fn tell_keys(&mut self, generator: &Map<String, Value>) {
        let all = self.profile.keys().chain(generator.keys());
        let known = ["duration", "generator", "cap_info", "cap_ipg", "name"];
        let of_pools = [
            "distribution",
            "clients_start",
            "clients_end",
            "servers_start",
            "servers_end",
            "generator_clients",
            "generator_servers",
        ];
        for key in all {
            let is_known = |list: &[&str]| list.contains(&key.as_str());
            if is_known(&known) || is_known(&of_pools) || is_known(&WITHOUT_EFFECT) {
                continue;
            }
            let value = self.profile.get(key).or_else(|| generator.get(key));
            let is_nothing = value.is_none_or(is_nothing) || key == "dual_port_mask";
            let of_packets = ["cap_ipg_min", "cap_override_ipg"].contains(&key.as_str());
            if is_nothing || of_packets && self.draft.options.packets {
                continue;
            }
            let line = self.line(key, None);
            self.draft.leave_out(&line, key, why_not(key));
        }
    }

    /// The sessions of a template's capture that can be said again, with the name of the file.
    fn sessions(
        &mut self,
        template: &Template<'_>,
    ) -> Result<Vec<(String, SessionFacts)>, ScriptError> {
        let file = template.keys.get("name").and_then(Value::as_str).unwrap_or_default();
        let line = self.line("name", Some(template.number));
        let found = (self.draft.source.sessions)(file)
            .map_err(|why| line.wrong(format!("'{}' cannot be read: {why}", printable(file))))?;
        let mut good = Vec::new();
        for session in found.sessions {
            match session.flaw_text() {
                Some(why) => {
                    let what = format!("{file}, session {}", session.number);
                    self.draft.leave_out(&line, &what, why);
                }
                None => good.push((found.name.clone(), session)),
            }
        }
        if good.len() > 1 {
            let why = format!(
                "it has {} sessions: each is a group of its own, and they do not wait for each other",
                good.len()
            );
            self.draft.leave_out(&line, file, why);
        }
        Ok(good)
    }

    /// The packets of a template's capture, with the name of the file.
    fn packets(&self, template: &Template<'_>) -> Result<(String, TemplateFacts), ScriptError> {
        let file = template.keys.get("name").and_then(Value::as_str).unwrap_or_default();
        let line = self.line("name", Some(template.number));
        let found = (self.draft.source.sessions)(file);
        let found = found.and_then(|capture| Ok((capture.name, capture.template?)));
        found.map_err(|why| line.wrong(format!("'{}' cannot be played: {why}", printable(file))))
    }

    /// Tells what a template asks for that is not done.
    fn tell_template(&mut self, template: &Template<'_>) {
        let told: [(&str, &str); 6] = [
            (
                "plugin_id",
                "what is said is as it was captured; addresses and ports within it are not changed",
            ),
            ("keep_src_port", "client ports are chosen anew"),
            ("multi_flow_enabled", "sessions of a capture are opened by its clients"),
            ("flows_dirs", "sessions of a capture are opened by its clients"),
            ("ip_header_offset", "tunnels are not opened"),
            ("dyn_pyload", "what is said is as it was captured"),
        ];
        let known = [
            "name",
            "cps",
            "ipg",
            "rtt",
            "w",
            "limit",
            "cap_ipg",
            "client_pool",
            "server_pool",
            "server_addr",
            "one_app_server",
            "one_app_server_was_set",
        ];
        let is_packets = self.draft.options.packets;
        for (key, value) in template.keys {
            if known.contains(&key.as_str()) || matches!(value, Value::Bool(false) | Value::Null) {
                continue;
            }
            if is_packets && key == "keep_src_port" {
                continue;
            }
            let told = if is_packets { &packets::TOLD[..] } else { &told[..] };
            let why = told.iter().find(|(of, _)| of == key).map(|(_, why)| *why);
            let line = self.line(key, Some(template.number));
            self.draft.leave_out(&line, key, why.unwrap_or("it has no meaning here"));
        }
    }

    /// The only server of a template that has one.
    pub(super) fn server(
        &self,
        template: &Template<'_>,
    ) -> Result<Option<AddressRange>, ScriptError> {
        let Some(text) = template.keys.get("server_addr").and_then(Value::as_str) else {
            return Ok(None);
        };
        match text.trim().parse::<IpAddr>() {
            Ok(address) => Ok(Some(address.into())),
            Err(_) => {
                let why =
                    fault!("'{}' is no address", printable(text); "write for example \"48.0.0.7\"");
                Err(self.wrong("server_addr", Some(template.number), why))
            }
        }
    }

    fn group(
        &mut self,
        template: &Template<'_>,
        (file, session): (String, &SessionFacts),
        from: Addresses,
        servers: PoolSpec,
    ) -> Result<SessionSpec, ScriptError> {
        let number = |key: &str| template.keys.get(key).and_then(Value::as_f64);
        let (cps, rate) = self.rate(template)?;
        let of_capture = template.keys.get("cap_ipg").or(self.profile.get("cap_ipg"));
        let of_capture = of_capture.and_then(Value::as_bool).unwrap_or(false);
        let is_udp = session.transport == Transport::Udp;
        let time = |key: &str| {
            number(key).and_then(|us| nanos(us * 1e3)).filter(|_| is_udp && !of_capture)
        };
        let program = Capture {
            session: NonZeroU64::new(session.number),
            keep_times: (of_capture && !is_udp).then_some(true),
            gap: time("ipg"),
            turnaround: time("rtt"),
            ..Capture::of(file)
        };
        let burst = self.burst(template)?;
        if !is_udp && !of_capture && (number("ipg").is_some() || number("rtt").is_some()) {
            let line = self.line("cap_info", None);
            let why = "over TCP an end answers when it has what was said before, and the network has its own round trip; \
                       'keep-times: true' waits as the capture did";
            self.draft.leave_out(&line, "ipg, rtt", why);
        }
        let clients = PoolSpec {
            addresses: AddressPool(vec![from.range]),
            order: from.order,
            ..PoolSpec::default()
        };
        let port = session.server.port();
        let group = SessionSpec {
            from: Some(CLIENTS.to_owned()),
            to: Some(SERVERS.to_owned()),
            stack: StackChoice::Own,
            transport: session.transport,
            clients,
            servers: PoolSpec {
                ports: Some(PortPool(vec![PortRange { first: port, last: port }])),
                ..servers
            },
            ..SessionSpec::new(ProgramSpec::Capture(Box::new(program)))
        };
        Ok(match self.users(template, cps)? {
            Some((users, pause)) => SessionSpec {
                users: Some(users),
                think: Some(Duration::Fixed(pause)),
                limit: Some(Limit { opening: Some(rate), ..Limit::default() }),
                ..group
            },
            None => SessionSpec { rate: FlowRate::Fixed(rate), burst, ..group },
        })
    }

    /// The `w` of a template: with sessions how many begin at a time, and packet by packet how many in turn share their addresses.
    pub(super) fn burst(&self, template: &Template<'_>) -> Result<NonZeroU32, ScriptError> {
        let given = match template.keys.get("w") {
            None | Some(Value::Null) => return Ok(NonZeroU32::MIN),
            Some(given) => given,
        };
        let w = given.as_u64().and_then(|w| u32::try_from(w).ok()).and_then(NonZeroU32::new);
        w.ok_or_else(|| {
            let given = printable(&given.to_string());
            let why = fault!("'w: {given}' is not a number of flows"; "write a whole number from 1 to {}", u32::MAX);
            self.wrong("w", Some(template.number), why)
        })
    }

    /// The `limit` of a template: so many flows at most.
    pub(super) fn limit(&self, template: &Template<'_>) -> Result<Option<NonZeroU64>, ScriptError> {
        let limit = match template.keys.get("limit") {
            None | Some(Value::Null) => return Ok(None),
            Some(limit) => limit.as_u64().and_then(NonZeroU64::new),
        };
        limit.map(Some).ok_or_else(|| {
            let why =
                fault!("it is no number of flows"; "write a whole number from 1, or leave it out");
            self.wrong("limit", Some(template.number), why)
        })
    }

    /// A `limit` as users, and how long each pauses: T-Rex has so many flows, and begins each again as long after its end as all of them
    /// take to start.
    fn users(
        &mut self,
        template: &Template<'_>,
        cps: f64,
    ) -> Result<Option<(NonZeroU32, Nanos)>, ScriptError> {
        let Some(limit) = self.limit(template)? else { return Ok(None) };
        let users = u32::try_from(limit.get()).ok().filter(|users| *users <= MAX_USERS);
        let pause = nanos(limit.get() as f64 / cps * 1e9);
        let line = self.line("limit", Some(template.number));
        let Some((users, pause)) = users.and_then(NonZeroU32::new).zip(pause) else {
            let why = format!(
                "more than {MAX_USERS} flows at a time are more than one machine plays: there is no limit"
            );
            self.draft.leave_out(&line, "limit", why);
            return Ok(None);
        };
        if template.keys.get("w").and_then(Value::as_f64).is_some_and(|w| w > 1.0) {
            let line = self.line("w", Some(template.number));
            self.draft.leave_out(&line, "w", "with a limit flows begin one by one, at the rate");
        }
        Ok(Some((users, pause)))
    }

    fn add(
        &mut self,
        template: &Template<'_>,
        file: &str,
        group: SessionSpec,
    ) -> Result<(), ScriptError> {
        let sessions = &self.draft.scenario.sessions;
        if sessions.len() >= MAX_GROUPS {
            let why = fault!("there are more than {MAX_GROUPS} sessions in the captures"; "divide the profile");
            return Err(self.wrong("name", Some(template.number), why));
        }
        let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let base = name(base.split('.').next().unwrap_or(base));
        let others = (2_u32..).map(|number| format!("{base}-{number}"));
        let free =
            std::iter::once(base.clone()).chain(others).find(|it| !sessions.contains_key(it));
        self.draft.scenario.sessions.insert(free.unwrap_or(base), group);
        Ok(())
    }
}
