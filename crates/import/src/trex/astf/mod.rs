//! T-Rex's advanced stateful profiles (ASTF) as JSON, which `astf-sim --json` writes of a Python profile: programs of either end, templates
//! that name two of them, and generators of addresses. Python is not read: nothing here executes anything.
//!
//! ```text
//! { "buf_list": [ "<base64>" | { "base": "<base64>", "fill": "<base64>", "size": n } ],
//!   "program_list": [ { "commands": [ { "name": "tx", "buf_index": 0 }, { "name": "rx", "min_bytes": 100 }, … ] } ],
//!   "ip_gen_dist_list": [ { "ip_start": …, "ip_end": …, "distribution": "seq", "dir": "c" } ],
//!   "templates": [ { "client_template": { "program_index": 0, "port": 80, "cps": 1, "ip_gen": { "dist_client": { "index": 0 }, … } },
//!                    "server_template": { "program_index": 1, "assoc": [ { "port": 80 } ] } } ] }
//! ```
//!
//! `program.rs` reads programs, `tunables.rs` what is asked of TCP and IP, and `keys.rs` tells what none of them reads. Names, units and what
//! they mean are those of trex_astf_profile.py, astf_db.cpp and doc/trex_astf.asciidoc of trex-core.

mod keys;
mod program;
mod tunables;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

use serde_json::{Map, Value};
use wirebeat_traffic::scenario::KeyPath;
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::session::program::{Step, Steps};
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, Limit, MAX_GROUPS, PoolOrder, PoolSpec, PortPool, ProgramSpec,
    SessionSpec, StackChoice, Transport,
};
use wirebeat_traffic::scenario::yaml::{self, Lines};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Fault, Rate, fault};

use self::program::Program;
use self::tunables::{End, Settings};
use super::{per_second, shares};
use crate::capture::{CLIENTS, SERVERS, port};
use crate::draft::Draft;
use crate::text::printable;
use crate::{Line, ScriptError};

/// The most bytes that the programs of all groups have together, about.
const PROGRAMS_MAX: usize = 64 << 20;

/// Whether a text is such a profile.
pub(super) fn is_profile(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"program_list\"", "\"templates\"", "\"buf_list\""]
            .iter()
            .all(|key| text.contains(key))
}

pub(super) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let whole = |problem: Fault| ScriptError::Whole { file: draft.source.name.to_owned(), problem };
    let value: Value = yaml::value(draft.source.text).map_err(whole)?;
    let Value::Object(profile) = &value else {
        return Err(whole(fault!("this is no profile of T-Rex")));
    };
    let lines = Lines::of(draft.source.text);
    let (programs, buffers) = (BTreeMap::new(), BTreeMap::new());
    Reader { profile, draft, lines, programs, buffers, weight: 0 }.read()
}

struct Reader<'a, 'b, 'c> {
    profile: &'a Map<String, Value>,
    draft: &'c mut Draft<'b>,
    lines: Lines,
    /// By their numbers; `None`: those that cannot be kept.
    programs: BTreeMap<usize, Option<Program>>,
    /// Steps that send buffers, by the numbers of these.
    buffers: BTreeMap<u64, Step>,
    /// About how many bytes the programs of the groups have.
    weight: usize,
}

/// Addresses of an end, and their number in the list.
#[derive(Clone, Copy)]
struct Addresses {
    index: usize,
    range: AddressRange,
    order: PoolOrder,
}

/// How many sessions a template opens.
#[derive(Clone, Copy)]
struct Opening {
    rate: Rate,
    /// The most that are open at a time.
    open: Option<NonZeroU32>,
    /// The most that are opened.
    count: Option<NonZeroU64>,
}

/// A template that is carried over: its number, its two ends, and where they are.
struct Template<'a> {
    number: usize,
    name: String,
    client: &'a Map<String, Value>,
    server: &'a Map<String, Value>,
    port: u16,
    from: Addresses,
    to: Addresses,
    opening: Opening,
    programs: [Program; 2],
}

impl Template<'_> {
    fn path(&self) -> KeyPath {
        path_of(self.number)
    }

    fn transport(&self) -> Transport {
        self.programs[0].transport
    }

    fn at(&self) -> shares::Port {
        (self.transport() == Transport::Udp, self.port)
    }
}

fn path_of(template: usize) -> KeyPath {
    KeyPath::root("templates").index(template)
}

impl<'a> Reader<'a, '_, '_> {
    fn list(&self, key: &str) -> &'a [Value] {
        self.profile.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The line of a key.
    fn line(&self, path: &KeyPath) -> Line {
        Line { file: self.draft.source.name.into(), number: self.lines.line(path) }
    }

    fn wrong(&self, path: &KeyPath, why: Fault) -> ScriptError {
        self.line(path).wrong(why.at(path))
    }

    /// Tells that a key is not carried over.
    fn leave_out(&mut self, path: &KeyPath, why: impl Into<String>) {
        let line = self.line(path);
        self.draft.leave_out(&line, &path.to_string(), why);
    }

    fn read(mut self) -> Result<(), ScriptError> {
        let options = self.draft.options.clone();
        let ports = &mut self.draft.scenario.ports;
        ports.insert(CLIENTS.to_owned(), port(&options.interface));
        ports.insert(SERVERS.to_owned(), port(&options.to));
        let all = self.list("templates");
        if all.len() > MAX_GROUPS {
            let why = fault!("it has more than {MAX_GROUPS} templates"; "divide it");
            return Err(self.wrong(&KeyPath::root("templates"), why));
        }
        let mut templates = Vec::new();
        for (number, template) in all.iter().enumerate() {
            self.tell_template(number, template);
            templates.extend(self.template(number, template)?);
        }
        self.tell_profile();
        if templates.is_empty() {
            return Err(self.without_templates());
        }
        self.check_pools(&templates)?;
        let at_ports: Vec<_> = templates.iter().map(|of| (of.at(), of.to.range)).collect();
        for (template, servers) in templates.iter().zip(shares::divide_by_port(&at_ports)) {
            if servers.is_empty() {
                let why = format!(
                    "others have all of its servers at port {}, and a server has to know what to say: give it a pool of its own",
                    template.port
                );
                self.leave_out(&template.path(), why);
                continue;
            }
            self.add(template, AddressPool(servers))?;
        }
        Ok(())
    }

    /// That no template can be carried over.
    fn without_templates(&self) -> ScriptError {
        let told = self.draft.told().iter().filter(|it| it.what.starts_with("templates"));
        let told: Vec<String> = told.take(5).map(ToString::to_string).collect();
        let why = match told.is_empty() {
            true => fault!("it has no templates"),
            false => fault!("none of its templates can be carried over: {}", told.join("; ")),
        };
        ScriptError::Whole { file: self.draft.source.name.to_owned(), problem: why }
    }

    /// A template; `None` where it is not carried over, which is told.
    fn template(
        &mut self,
        number: usize,
        template: &'a Value,
    ) -> Result<Option<Template<'a>>, ScriptError> {
        let path = path_of(number);
        let end = |key: &str| template.get(key).and_then(Value::as_object);
        let (client, server) =
            end("client_template").zip(end("server_template")).ok_or_else(|| {
                self.wrong(
                    &path,
                    fault!("it has no client and server"; "give it a client_template and a server_template"),
                )
            })?;
        let clients = path.clone().key("client_template");
        let from = self.addresses(&clients, client, "dist_client")?;
        let to = self.addresses(&clients, client, "dist_server")?;
        let port = self.port(number, client, server)?;
        let Some(opening) = self.opening(&clients, client)? else { return Ok(None) };
        let mut programs = Vec::new();
        for (end, of) in [(End::Client, client), (End::Server, server)] {
            let here = path.clone().key(end.keys().0).key("program_index");
            let index = of.get("program_index").and_then(Value::as_u64);
            let index = index.and_then(|index| usize::try_from(index).ok()).ok_or_else(|| {
                self.wrong(&here, fault!("it names no program"; "write its number, from 0"))
            })?;
            match self.program(index)? {
                Some(program) => programs.push(program),
                None => {
                    self.leave_out(&here, "its program cannot be kept: it is left out");
                    return Ok(None);
                }
            }
        }
        let Ok(programs) = <[Program; 2]>::try_from(programs) else { return Ok(None) };
        if programs[0].transport != programs[1].transport {
            self.leave_out(
                &path,
                "one of its programs is over TCP and the other over UDP: it is left out",
            );
            return Ok(None);
        }
        if let (Some(client), Some(server)) = (programs[0].patience, programs[1].patience)
            && client != server
        {
            let why = format!(
                "its clients are kept for {client} without a datagram and its servers for {server}: both have the clients' 'timeout'"
            );
            self.leave_out(&path.clone().key("server_template"), why);
        }
        self.weigh(&path, &programs)?;
        let name = self.name(number, template, client);
        Ok(Some(Template { number, name, client, server, port, from, to, opening, programs }))
    }

    /// Counts the programs of a group, so that many templates with one long program have an end.
    fn weigh(&mut self, path: &KeyPath, programs: &[Program; 2]) -> Result<(), ScriptError> {
        let [client, server] = programs;
        self.weight = self.weight.saturating_add(client.weight + server.weight);
        match self.weight > PROGRAMS_MAX {
            true => Err(self.wrong(
                path,
                fault!("the programs of the templates are too long in all"; "divide the profile"),
            )),
            false => Ok(()),
        }
    }

    /// What a template is called: as its group of statistics is.
    fn name(&self, number: usize, template: &Value, client: &Map<String, Value>) -> String {
        let group = template.get("tg_id").and_then(Value::as_u64).filter(|id| *id > 0);
        let group = group.and_then(|id| usize::try_from(id - 1).ok());
        let tag = group.and_then(|id| self.list("tg_names").get(id));
        let tag = tag.or(client.get("tg_name")).or(client.get("name"));
        match tag.and_then(Value::as_str) {
            Some(tag) => crate::text::name(tag),
            None => format!("template-{number}"),
        }
    }

    /// The addresses of an end.
    fn addresses(
        &self,
        clients: &KeyPath,
        client: &Map<String, Value>,
        key: &str,
    ) -> Result<Addresses, ScriptError> {
        let here = clients.clone().key("ip_gen").key(key);
        let index = client.get("ip_gen").and_then(|of| of.get(key)?.get("index")?.as_u64());
        let index = index.and_then(|index| usize::try_from(index).ok());
        let found = index.and_then(|at| Some((at, self.list("ip_gen_dist_list").get(at)?)));
        let Some((index, of)) = found else {
            return Err(self.wrong(&here, fault!("it has no addresses '{key}'")));
        };
        let path = KeyPath::root("ip_gen_dist_list").index(index);
        let read = |key: &str| -> Result<IpAddr, ScriptError> {
            let text = of.get(key).and_then(Value::as_str).unwrap_or_default();
            text.parse().map_err(|_| {
                let why =
                    fault!("'{}' is no address", printable(text); "write for example 16.0.0.1");
                self.wrong(&path.clone().key(key), why)
            })
        };
        let range = AddressRange::between(read("ip_start")?, read("ip_end")?);
        let order = match of.get("distribution").and_then(Value::as_str) {
            Some("rand" | "random") => PoolOrder::Random,
            _ => PoolOrder::default(),
        };
        Ok(Addresses { index, range: range.map_err(|why| self.wrong(&path, why))?, order })
    }

    /// The port of the servers.
    fn port(
        &mut self,
        number: usize,
        client: &Map<String, Value>,
        server: &Map<String, Value>,
    ) -> Result<u16, ScriptError> {
        let path = path_of(number);
        let asked = path.clone().key("client_template").key("port");
        let is_port = |port: u64| u16::try_from(port).ok().filter(|port| *port > 0);
        let of_server = server.get("assoc").and_then(|rules| rules.get(0)?.get("port")?.as_u64());
        let of_client = client.get("port").and_then(Value::as_u64);
        let port = of_server.or(of_client).and_then(is_port).ok_or_else(|| {
            self.wrong(&asked, fault!("it has no port"; "write one from 1 to 65535"))
        })?;
        if let (Some(client), Some(server)) = (of_client, of_server)
            && client != server
        {
            let why = format!(
                "its servers are at port {server}, so T-Rex connects in vain: clients go to {server} here"
            );
            self.leave_out(&asked, why);
        }
        Ok(port)
    }

    /// How many sessions a template opens; `None` where it opens none by itself, which is told.
    fn opening(
        &mut self,
        clients: &KeyPath,
        client: &Map<String, Value>,
    ) -> Result<Option<Opening>, ScriptError> {
        let here = clients.clone().key("cps");
        let cps = match client.get("cps") {
            None | Some(Value::Null) => 0.0,
            Some(value) => value
                .as_f64()
                .filter(|cps| cps.is_finite() && *cps >= 0.0)
                .ok_or_else(|| self.wrong(&here, fault!("it is no number of sessions a second")))?,
        };
        if cps == 0.0 {
            let why = "without a rate only other programs open its sessions ('exec_template'): it is left out";
            self.leave_out(&here, why);
            return Ok(None);
        }
        let times = self.draft.options.multiply.map_or(1.0, |times| times.get() as f64);
        let rate = per_second(cps * times).parse().map_err(|_| {
            self.wrong(&here, fault!("{cps} sessions a second is not a valid rate"))
        })?;
        let here = clients.clone().key("limit");
        let limit = match client.get("limit") {
            None | Some(Value::Null) => return Ok(Some(Opening { rate, open: None, count: None })),
            Some(limit) => limit.as_u64().and_then(|limit| u32::try_from(limit).ok()),
        };
        let Some(limit) = limit else {
            let why = fault!("it is no number of sessions"; "write a whole number below 2^32");
            return Err(self.wrong(&here, why));
        };
        let Some(limit) = NonZeroU32::new(limit) else {
            self.leave_out(&here, "T-Rex opens no session at a limit of 0: it is left out");
            return Ok(None);
        };
        let goes_on = client.get("cont").is_some_and(|cont| {
            cont.as_bool().unwrap_or(!matches!(cont.as_u64(), Some(0)) && !cont.is_null())
        });
        // T-Rex opens at its rate while fewer than that are open, and leaves out what is due meanwhile
        Ok(Some(match goes_on {
            true => Opening { rate, open: Some(limit), count: None },
            false => Opening { rate, open: None, count: Some(NonZeroU64::from(limit)) },
        }))
    }

    /// That no address is of clients and of servers.
    fn check_pools(&self, templates: &[Template<'_>]) -> Result<(), ScriptError> {
        let ranges = |of: fn(&Template<'_>) -> Addresses| -> BTreeMap<usize, AddressRange> {
            templates.iter().map(|template| (of(template).index, of(template).range)).collect()
        };
        let (clients, servers) = (ranges(|of| of.from), ranges(|of| of.to));
        for (index, range) in &clients {
            if let Some((_, other)) =
                servers.iter().find(|(_, other)| range.common(other).is_some())
            {
                let path = KeyPath::root("ip_gen_dist_list").index(*index);
                return Err(self.wrong(
                    &path,
                    fault!(
                        "its clients {range} and servers {other} have addresses in common";
                        "give each end addresses of its own, as T-Rex asks for"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Adds the group of a template, or one for each end where they are told various things.
    fn add(&mut self, template: &Template<'a>, servers: AddressPool) -> Result<(), ScriptError> {
        let number = template.number;
        let transport = template.transport();
        let client = self.settings(number, (End::Client, template.client), transport);
        let server = self.settings(number, (End::Server, template.server), transport);
        let name = self.free(&template.name);
        let line = self.line(&template.path());
        if let Some(both) = client.agreed(&server) {
            return self.draft.session(&line, name, group(template, servers, &both));
        }
        let group = group(template, servers, &client);
        if transport == Transport::Udp {
            self.tell_servers(number, (&client, &server));
            return self.draft.session(&line, name, group);
        }
        let other = self.free(&format!("{name}-servers"));
        let why = format!(
            "its servers are told other things of TCP and IP than its clients: each end is a group, '{name}' and '{other}', and what one sends \
             is not compared with what the other gets"
        );
        self.leave_out(&template.path().key("server_template"), why);
        let Settings { tcp, ttl, dscp } = server;
        let [client, server] = template.programs.clone().map(|program| program.steps);
        let alone = |client, server| ProgramSpec::Steps(Box::new(Steps { client, server }));
        let usual = SessionSpec::new(alone(Vec::new(), server));
        let of_servers = SessionSpec {
            to: group.to.clone(),
            stack: StackChoice::Own,
            servers: group.servers.clone(),
            timeout: group.timeout,
            tcp,
            ttl,
            dscp,
            ..usual
        };
        let of_clients = SessionSpec { to: None, program: alone(client, Vec::new()), ..group };
        self.draft.session(&line, name, of_clients)?;
        self.draft.session(&line, other, of_servers)
    }

    /// A name that no group has, for one that is to have this.
    fn free(&self, name: &str) -> String {
        let sessions = &self.draft.scenario.sessions;
        let others = (2_u32..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(others);
        names.find(|it| !sessions.contains_key(it)).unwrap_or_else(|| name.to_owned())
    }
}

/// The group of a template, with what is asked of TCP and IP.
fn group(template: &Template<'_>, servers: AddressPool, settings: &Settings) -> SessionSpec {
    let pool = |addresses, order| PoolSpec { addresses, order, ..PoolSpec::default() };
    let ports = Some(PortPool(vec![PortRange { first: template.port, last: template.port }]));
    let [client, server] = template.programs.clone();
    let patience = client.patience.or(server.patience);
    let delay = client.delay.max(server.delay);
    let steps = Steps { client: client.steps, server: server.steps };
    let usual = SessionSpec::new(ProgramSpec::Steps(Box::new(steps)));
    let Opening { rate, open, count } = template.opening;
    SessionSpec {
        from: Some(CLIENTS.to_owned()),
        to: Some(SERVERS.to_owned()),
        stack: StackChoice::Own,
        transport: client.transport,
        clients: pool(AddressPool(vec![template.from.range]), template.from.order),
        servers: PoolSpec { ports, ..pool(servers, template.to.order) },
        rate: FlowRate::Fixed(rate),
        limit: open.map(|open| Limit { open: Some(open), ..Limit::default() }),
        count,
        // while one end pauses, the other waits
        timeout: patience.unwrap_or(usual.timeout.max(delay.saturating_add(delay))),
        tcp: settings.tcp.clone(),
        ttl: settings.ttl,
        dscp: settings.dscp,
        ..usual
    }
}
