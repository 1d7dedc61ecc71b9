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
//! Names, units and what they mean are those of trex_astf_profile.py and doc/trex_astf.asciidoc of trex-core. A program of T-Rex waits for
//! a total of bytes; ours wait for as many as are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::hex::Hex;
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::session::program::{Condition, Jump, Numbers, Step, Steps};
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, DataSize, MAX_GROUPS, PoolOrder, PoolSpec, PortPool, ProgramSpec,
    SessionSpec, StackChoice, Transport,
};
use wirebeat_traffic::scenario::yaml;
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Bytes, Comparison, Fault, Nanos, Rate, fault};

use super::{nanos, part, per_second};
use crate::capture::{CLIENTS, SERVERS, port};
use crate::draft::Draft;
use crate::text::printable;
use crate::{Line, ScriptError};

/// The most bytes of a buffer with what it is filled up with.
const BUFFER_MAX: usize = 64 << 20;
/// The most bytes that stand in a step as hex digits.
const SHORT: usize = 64;

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
    let line = Line { file: draft.source.name.into(), number: 1 };
    Reader { profile, draft, line, programs: BTreeMap::new() }.read()
}

/// What a program is made of it.
#[derive(Clone)]
struct Program {
    steps: Vec<Step>,
    transport: Transport,
    /// How long it waits for its peer, where it says so.
    patience: Option<Nanos>,
}

struct Reader<'a, 'b, 'c> {
    profile: &'a Map<String, Value>,
    draft: &'c mut Draft<'b>,
    /// JSON has no lines that anybody wrote.
    line: Line,
    /// By their numbers.
    programs: BTreeMap<u64, Program>,
}

/// A template: the number, its two ends, and where they are.
struct Template<'a> {
    client: &'a Map<String, Value>,
    server: &'a Map<String, Value>,
    port: u16,
    addresses: [(AddressRange, PoolOrder); 2],
}

impl<'a> Reader<'a, '_, '_> {
    fn list(&self, key: &str) -> &'a [Value] {
        self.profile.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn wrong(&self, why: Fault) -> ScriptError {
        self.line.wrong(why)
    }

    fn read(mut self) -> Result<(), ScriptError> {
        let options = self.draft.options.clone();
        let ports = &mut self.draft.scenario.ports;
        ports.insert(CLIENTS.to_owned(), port(&options.interface));
        ports.insert(SERVERS.to_owned(), port(&options.to));
        let mut templates = Vec::new();
        for (number, template) in self.list("templates").iter().enumerate() {
            templates.push(
                self.template(template)
                    .map_err(|why| self.wrong(why.at(format!("template {number}"))))?,
            );
        }
        if templates.len() > MAX_GROUPS {
            return Err(self.wrong(fault!("it has more than {MAX_GROUPS} templates"; "divide it")));
        }
        let share = |of: &Template<'_>| (of.addresses[1].0.first, of.port);
        let mut shares = BTreeMap::<_, (u32, u32)>::new();
        templates.iter().for_each(|of| shares.entry(share(of)).or_default().0 += 1);
        for (number, template) in templates.iter().enumerate() {
            let (all, had) = shares.entry(share(template)).or_default();
            let servers = part(&template.addresses[1].0, *had, *all);
            *had += 1;
            let Some(servers) = servers else {
                let why = format!(
                    "its servers have fewer addresses than the {all} templates at their port"
                );
                self.draft.leave_out(&self.line, &format!("template {number}"), why);
                continue;
            };
            self.tell(number, template);
            let group = self.group(template, servers)?;
            let tag = template.client.get("tg_name").or(template.client.get("name"));
            let name = match tag.and_then(Value::as_str) {
                Some(tag) => crate::text::name(tag),
                None => format!("template-{number}"),
            };
            let sessions = &mut self.draft.scenario.sessions;
            let others = (2_u32..).map(|number| format!("{name}-{number}"));
            let free =
                std::iter::once(name.clone()).chain(others).find(|it| !sessions.contains_key(it));
            sessions.insert(free.unwrap_or(name), group);
        }
        self.tell_tunables();
        Ok(())
    }

    fn template(&self, template: &'a Value) -> Result<Template<'a>, Fault> {
        let end = |key: &str| template.get(key).and_then(Value::as_object);
        let (client, server) = end("client_template")
            .zip(end("server_template"))
            .ok_or_else(|| fault!("it has no client and server"))?;
        let of = |key: &str| {
            let index = client.get("ip_gen")?.get(key)?.get("index")?.as_u64()?;
            self.list("ip_gen_dist_list").get(usize::try_from(index).ok()?)
        };
        let addresses = |key: &str| -> Result<(AddressRange, PoolOrder), Fault> {
            let of = of(key).ok_or_else(|| fault!("it has no addresses '{key}'"))?;
            let read = |key: &str| {
                let text = of.get(key).and_then(Value::as_str).unwrap_or_default();
                text.parse().map_err(|_| fault!("'{}' is no address", printable(text)))
            };
            let order = match of.get("distribution").and_then(Value::as_str) {
                Some("rand" | "random") => PoolOrder::Random,
                _ => PoolOrder::default(),
            };
            Ok((AddressRange::between(read("ip_start")?, read("ip_end")?)?, order))
        };
        let port = server.get("assoc").and_then(|assoc| assoc.get(0)?.get("port")?.as_u64());
        let port = port.or_else(|| client.get("port").and_then(Value::as_u64));
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        Ok(Template {
            client,
            server,
            port: port.ok_or_else(|| fault!("it has no port"))?,
            addresses: [addresses("dist_client")?, addresses("dist_server")?],
        })
    }

    fn group(
        &mut self,
        template: &Template<'_>,
        servers: AddressRange,
    ) -> Result<SessionSpec, ScriptError> {
        let program = |end: &Map<String, Value>| end.get("program_index").and_then(Value::as_u64);
        let client = self.program(program(template.client).unwrap_or(0))?;
        let server = self.program(program(template.server).unwrap_or(0))?;
        let number = |key: &str| template.client.get(key).and_then(Value::as_f64);
        let cps = number("cps").filter(|cps| cps.is_finite() && *cps > 0.0).unwrap_or(1.0);
        let times = self.draft.options.multiply.map_or(1.0, |times| times.get() as f64);
        let rate: Rate = per_second(cps * times)
            .parse()
            .map_err(|_| self.wrong(fault!("{cps} times a second is no rate")))?;
        let limit = template.client.get("limit").and_then(Value::as_u64).filter(|limit| *limit > 0);
        let goes_on = template.client.get("cont").is_some_and(|cont| *cont != Value::Bool(false));
        let users = limit.filter(|_| goes_on).and_then(|limit| u32::try_from(limit).ok());
        let [(clients, client_order), (_, server_order)] = template.addresses;
        let pool = |range, order| PoolSpec {
            addresses: AddressPool(vec![range]),
            order,
            ..PoolSpec::default()
        };
        let ports = Some(PortPool(vec![PortRange { first: template.port, last: template.port }]));
        let steps = Steps { client: client.steps, server: server.steps };
        let usual = SessionSpec::new(ProgramSpec::Steps(Box::new(steps)));
        let mut group = SessionSpec {
            from: Some(CLIENTS.to_owned()),
            to: Some(SERVERS.to_owned()),
            stack: StackChoice::Own,
            transport: client.transport,
            clients: pool(clients, client_order),
            servers: PoolSpec { ports, ..pool(servers, server_order) },
            users: users.and_then(NonZeroU32::new),
            count: limit.filter(|_| users.is_none()).and_then(NonZeroU64::new),
            timeout: client.patience.or(server.patience).unwrap_or(usual.timeout),
            ..usual
        };
        if group.users.is_none() {
            group.rate = FlowRate::Fixed(rate);
        }
        self.tune(&mut group, template.client);
        Ok(group)
    }

    /// What is asked of TCP and IP that both have.
    fn tune(&self, group: &mut SessionSpec, client: &Map<String, Value>) {
        let of = |layer: &str, key: &str| {
            let own = client.get("glob_info").and_then(|info| info.get(layer)?.get(key)?.as_u64());
            own.or_else(|| self.profile.get("c_glob_info")?.get(layer)?.get(key)?.as_u64())
        };
        if group.transport == Transport::Tcp {
            let mss = of("tcp", "mss").and_then(|mss| u16::try_from(mss).ok());
            group.tcp.mss = mss.and_then(NonZeroU16::new);
            let window = of("tcp", "initwnd").and_then(|window| u8::try_from(window).ok());
            group.tcp.initial_window = window.and_then(NonZeroU8::new);
        }
        let ttl = of("ip", "ttl").and_then(|ttl| u8::try_from(ttl).ok());
        group.ttl = ttl.and_then(NonZeroU8::new);
    }

    /// Tells what a template asks for that is not done.
    fn tell(&mut self, number: usize, template: &Template<'_>) {
        let what = |key: &str| format!("template {number}, {key}");
        let rules =
            template.server.get("assoc").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if rules.len() > 1
            || rules
                .iter()
                .any(|rule| rule.get("l7_map").is_some() || rule.get("ip_start").is_some())
        {
            let why = "a server is known by its address and port: templates at one port have a part of the servers each";
            self.draft.leave_out(&self.line, &what("assoc"), why);
        }
        for key in template.client.keys() {
            let known = [
                "program_index",
                "port",
                "cps",
                "ip_gen",
                "limit",
                "cont",
                "glob_info",
                "tg_name",
                "name",
                "cluster",
            ];
            if !known.contains(&key.as_str()) {
                self.draft.leave_out(&self.line, &what(key), "it has no meaning here");
            }
        }
    }

    /// Tells which tunables are not carried over.
    fn tell_tunables(&mut self) {
        let done = [("tcp", "mss"), ("tcp", "initwnd"), ("ip", "ttl")];
        let mut left = BTreeSet::new();
        for end in ["c_glob_info", "s_glob_info"] {
            let Some(Value::Object(layers)) = self.profile.get(end) else { continue };
            for (layer, keys) in layers {
                let Value::Object(keys) = keys else { continue };
                let others =
                    keys.keys().filter(|key| !done.contains(&(layer.as_str(), key.as_str())));
                left.extend(others.map(|key| format!("{layer}.{key}")));
            }
        }
        for tunable in left {
            let why = "our TCP has its own setting: see 'TCP and IP' of docs/sessions.md";
            self.draft.leave_out(&self.line, &tunable, why);
        }
    }

    /// The bytes of a buffer.
    fn buffer(&self, index: u64) -> Result<Vec<u8>, ScriptError> {
        let wrong = |why: Fault| self.wrong(why.at(format!("buffer {index}")));
        let buffer = usize::try_from(index).ok().and_then(|index| self.list("buf_list").get(index));
        let decode = |text: Option<&str>| -> Result<Vec<u8>, ScriptError> {
            let text = text.ok_or_else(|| wrong(fault!("it is no text in base64")))?;
            STANDARD.decode(text).map_err(|error| wrong(fault!("it is no base64: {error}")))
        };
        let Some(buffer) = buffer else {
            return Err(wrong(fault!("there is none of this number")));
        };
        let Value::Object(parts) = buffer else { return decode(buffer.as_str()) };
        let mut bytes = decode(parts.get("base").and_then(Value::as_str))?;
        let size =
            parts.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        let size = size.unwrap_or(bytes.len());
        if size > BUFFER_MAX {
            return Err(wrong(fault!(
                "it has {size} bytes, and {BUFFER_MAX} is the most that a step sends"
            )));
        }
        // what is missing is filled with this, or with the beginning over and over
        let fill = match parts.get("fill").and_then(Value::as_str) {
            Some(fill) => decode(Some(fill))?,
            None => bytes.clone(),
        };
        while bytes.len() < size && !fill.is_empty() {
            let missing = (size - bytes.len()).min(fill.len());
            bytes.extend(fill.iter().take(missing));
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    /// Program number `index`.
    fn program(&mut self, index: u64) -> Result<Program, ScriptError> {
        if let Some(known) = self.programs.get(&index) {
            return Ok(known.clone());
        }
        let commands = usize::try_from(index)
            .ok()
            .and_then(|index| self.list("program_list").get(index)?.get("commands")?.as_array())
            .ok_or_else(|| self.wrong(fault!("there is no program {index}")))?;
        let program = self.commands(index, commands)?;
        self.programs.insert(index, program.clone());
        Ok(program)
    }

    fn commands(&mut self, program: u64, commands: &[Value]) -> Result<Program, ScriptError> {
        let targets: BTreeSet<i64> = commands
            .iter()
            .zip(0_i64..)
            .filter_map(|(command, at)| Some(at.saturating_add(command.get("offset")?.as_i64()?)))
            .collect();
        let name_of = |command: &Value| {
            command.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is_udp = commands.iter().any(|command| {
            ["tx_msg", "rx_msg", "keepalive", "close_msg"].contains(&name_of(command).as_str())
        });
        let mut made = Program {
            steps: Vec::new(),
            transport: if is_udp { Transport::Udp } else { Transport::Tcp },
            patience: None,
        };
        // what was waited for so far, in bytes and in datagrams
        let mut had: [u64; 2] = [0, 0];
        for (command, at) in commands.iter().zip(0_i64..) {
            if targets.contains(&at) {
                made.steps.push(Step::Label(label(at)));
            }
            let number = |key: &str| command.get(key).and_then(Value::as_u64);
            let variable = || {
                command.get("id").map_or_else(
                    || "n".to_owned(),
                    |id| match id {
                        Value::String(name) => crate::text::name(name),
                        id => format!("n{id}"),
                    },
                )
            };
            let value = |key: &str| {
                let value = command.get(key).and_then(Value::as_i64);
                value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
            };
            let numbers = |value: i32| Numbers(IndexMap::from([(variable(), value)]));
            let wait = |us: u64| Step::Think(Duration::Fixed(Nanos::new(us.saturating_mul(1000))));
            let jump = |comparison: Comparison, value: i32| {
                let condition = Condition { variable: variable(), comparison, value };
                let to = command.get("offset").and_then(Value::as_i64).unwrap_or(1);
                Step::Jump(Jump { to: label(at.saturating_add(to)), condition: Some(condition) })
            };
            let mut received = |key: &str, which: usize| {
                let total = number(key).unwrap_or(0);
                let had = had.get_mut(which);
                let missing = had.as_ref().map_or(total, |had| total.saturating_sub(**had));
                if let Some(had) = had {
                    let clears = command.get("clear").and_then(Value::as_bool).unwrap_or(false);
                    *had = if clears { 0 } else { total.max(*had) };
                }
                missing
            };
            match name_of(command).as_str() {
                // ours begins when it is connected
                "connect" | "accept" => {}
                "tx" | "tx_msg" => {
                    let bytes = self.buffer(number("buf_index").unwrap_or(0))?;
                    let step = match String::from_utf8(bytes) {
                        // text stays readable
                        Ok(text)
                            if text.len() <= 1024
                                && !text.is_empty()
                                && text.chars().all(is_plain) =>
                        {
                            Step::SendText(text)
                        }
                        Ok(text) => self.bytes(number("buf_index"), text.into_bytes())?,
                        Err(error) => self.bytes(number("buf_index"), error.into_bytes())?,
                    };
                    made.steps.push(step);
                }
                "rx" => match received("min_bytes", 0) {
                    0 => {}
                    bytes => made.steps.push(Step::Receive(DataSize::Fixed(Bytes::new(bytes)))),
                },
                "rx_msg" => {
                    let any: DataSize = yaml::value("{ uniform: { min: 1B, max: 65507B } }")
                        .map_err(|why| self.wrong(why))?;
                    let missing = received("min_pkts", 1).min(10_000);
                    made.steps.extend((0..missing).map(|_| Step::Receive(any.clone())));
                }
                "delay" => made.steps.extend(number("usec").filter(|us| *us > 0).map(wait)),
                "delay_rnd" => {
                    let (least, most) =
                        (number("min_usec").unwrap_or(0), number("max_usec").unwrap_or(0));
                    let text = format!("{{ uniform: {{ min: {least}us, max: {most}us }} }}");
                    let step = match least < most {
                        true => Step::Think(yaml::value(&text).map_err(|why| self.wrong(why))?),
                        false => wait(most),
                    };
                    made.steps.push(step);
                }
                "reset" => made.steps.push(Step::Reset),
                "nc" => made.steps.push(Step::WaitClose),
                "close_msg" => {}
                "keepalive" => made.patience = number("msec").and_then(|ms| nanos(ms as f64 * 1e6)),
                "set_var" => made.steps.push(Step::Set(numbers(value("val")))),
                "add_var" => made.steps.push(Step::Add(numbers(value("val")))),
                "jmp_nz" => {
                    made.steps.push(Step::Add(numbers(-1)));
                    made.steps.push(jump(Comparison::Unequal, 0));
                }
                other => {
                    let what = format!("program {program}, command {at} ({})", printable(other));
                    self.draft.leave_out(
                        &self.line,
                        &what,
                        "programs have no such step; the rest goes on without it",
                    );
                }
            }
        }
        let end = commands.len() as i64;
        if targets.contains(&end) {
            made.steps.push(Step::Label(label(end)));
        }
        // a jump to nowhere goes to the end
        let known: BTreeSet<String> = made
            .steps
            .iter()
            .filter_map(|step| if let Step::Label(name) = step { Some(name.clone()) } else { None })
            .collect();
        made.steps.retain(|step| !matches!(step, Step::Jump(jump) if !known.contains(&jump.to)));
        Ok(made)
    }

    /// A step that sends bytes which are no text for readers: short ones stand in it, others in a file.
    fn bytes(&mut self, index: Option<u64>, bytes: Vec<u8>) -> Result<Step, ScriptError> {
        if let Some(hex) = Hex::new(bytes.clone()).filter(|hex| hex.bytes().len() <= SHORT) {
            return Ok(Step::SendHex(hex));
        }
        self.file(index, bytes).map(Step::SendFile)
    }

    /// A file with what a step sends.
    fn file(&mut self, index: Option<u64>, bytes: Vec<u8>) -> Result<String, ScriptError> {
        let name = format!("buffer-{}", index.unwrap_or(0));
        self.draft.add_file(&self.line, &name, bytes)
    }
}

/// The name of the place before a command.
fn label(at: i64) -> String {
    format!("command-{at}")
}

fn is_plain(c: char) -> bool {
    !c.is_control() || matches!(c, '\r' | '\n' | '\t')
}
