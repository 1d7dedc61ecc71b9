//! From a program as it is written to the ops of either end.

use std::sync::Arc;

use wirebeat_units::{Fault, fault};

use super::http::{self, Persistence};
use super::whole;
use super::{captured, dns, messages, misbehave, udp};
use crate::compile::Files;
use crate::distribution::draw::{Key, Purpose};
use crate::program::script::{
    Body, HttpClient, HttpMessage, HttpResponses, HttpServer, LengthLaw, Message, Op, REGISTERS,
    Receive, Script, TimeLaw,
};
use crate::scenario::Scenario;
use crate::scenario::departures::Duration;
use crate::scenario::session::program::{
    Bulk, Direction, Echo, Exchange, Http, HttpBody, Jump, Method, Step,
};
use crate::scenario::session::{DataSize, ProgramSpec, SessionSpec, Transport};

/// The longest file that a step sends, in bytes: it is in memory once for each group.
const FILE_MAX: usize = 64 << 20;

/// Makes the scripts of a group.
pub(super) struct ScriptMaker<'a> {
    pub(super) spec: &'a SessionSpec,
    seed: u64,
    group: u32,
    pattern: &'a Arc<[u8]>,
    /// How many laws were made.
    laws: u16,
    /// What the files hold that the scenario names.
    pub(super) files: &'a Files,
    /// Of the end that is made: its variables, and where its labels are.
    variables: Vec<String>,
    labels: Vec<(String, u16)>,
}

impl<'a> ScriptMaker<'a> {
    pub(super) fn new(
        seed: u64,
        group: u32,
        spec: &'a SessionSpec,
        (pattern, files): (&'a Arc<[u8]>, &'a Files),
    ) -> ScriptMaker<'a> {
        let (variables, labels) = (Vec::new(), Vec::new());
        ScriptMaker { spec, seed, group, pattern, laws: 0, files, variables, labels }
    }

    /// Another random source of the group.
    pub(super) fn key(&mut self) -> Key {
        let key = Key::new(self.seed, self.group, Purpose::Session(self.laws));
        self.laws = self.laws.saturating_add(1);
        key
    }

    pub(super) fn time(&mut self, time: &Duration) -> Result<TimeLaw, Fault> {
        Ok(match time {
            Duration::Fixed(time) => TimeLaw::Fixed(*time),
            Duration::Drawn(drawn) => {
                let sampler = drawn.sampler(None, Default::default());
                TimeLaw::Drawn(Box::new(sampler.map_err(|error| error.fault())?), self.key())
            }
        })
    }

    pub(super) fn length(&mut self, size: &DataSize) -> Result<LengthLaw, Fault> {
        Ok(match size {
            DataSize::Fixed(bytes) => LengthLaw::Fixed(whole(*bytes)),
            DataSize::Drawn(drawn) => {
                let sampler = drawn.sampler(None).map_err(|error| error.fault())?;
                LengthLaw::Drawn(Box::new(sampler), self.key())
            }
        })
    }

    fn script(&self) -> Script {
        Script {
            ops: Vec::new(),
            messages: Vec::new(),
            lengths: Vec::new(),
            texts: Vec::new(),
            times: Vec::new(),
            timers: self.spec.program.timers(),
            pattern: Arc::clone(self.pattern),
            content: None,
            datagrams: self.spec.transport == Transport::Udp,
            compares: true,
            dns: None,
            misbehaviour: None,
        }
    }

    /// What clients do.
    pub(super) fn client(&mut self, scenario: &Scenario) -> Result<Script, Fault> {
        let mut script = self.script();
        match &self.spec.program {
            _ if script.datagrams => udp::client(self, &mut script)?,
            ProgramSpec::Http(http) => {
                let host = http.host.clone().unwrap_or_else(|| host(scenario, self.spec));
                self.http_client(http, &host, &mut script)?;
            }
            ProgramSpec::RequestResponse(exchange) => {
                self.exchange(exchange, &mut script, true)?;
            }
            ProgramSpec::Bulk(bulk) => {
                let sends = bulk.direction != Direction::Reverse;
                self.bulk(bulk, sends, &mut script);
                if !sends && bulk.bytes.is_none() {
                    // the sender ends when this side closes
                    script.ops = vec![Op::UntilStop, Op::Shutdown, Op::WaitClose];
                }
            }
            ProgramSpec::Echo(echo) => self.echo(echo, &mut script)?,
            ProgramSpec::Messages(spec) => messages::client(self, spec, &mut script)?,
            ProgramSpec::Dns(spec) => dns::client(self, spec, &mut script)?,
            ProgramSpec::Steps(steps) => {
                script.compares = !steps.server.iter().any(sends_literally);
                self.written_out(&steps.client, &mut script)?;
            }
            ProgramSpec::Capture(capture) => captured::end(self, capture, &mut script, true)?,
            ProgramSpec::Misbehave(spec) => misbehave::client(self, spec, scenario, &mut script)?,
        }
        Ok(script)
    }

    /// What servers do.
    pub(super) fn server(&mut self) -> Result<Script, Fault> {
        let mut script = self.script();
        match &self.spec.program {
            _ if script.datagrams => udp::server(self, &mut script)?,
            ProgramSpec::Http(http) => self.http_server(http, &mut script)?,
            ProgramSpec::RequestResponse(exchange) => {
                self.exchange(exchange, &mut script, false)?;
            }
            ProgramSpec::Bulk(bulk) => {
                self.bulk(bulk, bulk.direction != Direction::Forward, &mut script);
            }
            ProgramSpec::Echo(_) => script.ops.push(Op::Echo),
            ProgramSpec::Messages(spec) => messages::server(self, spec, &mut script)?,
            ProgramSpec::Dns(spec) => dns::server(spec, &mut script),
            ProgramSpec::Steps(steps) => {
                script.compares = !steps.client.iter().any(sends_literally);
                self.written_out(&steps.server, &mut script)?;
            }
            ProgramSpec::Capture(capture) => captured::end(self, capture, &mut script, false)?,
            ProgramSpec::Misbehave(_) => misbehave::server(self, &mut script)?,
        }
        Ok(script)
    }

    /// The bytes of a file, which are in memory once for each end of a group.
    fn file(&self, name: &str) -> Result<Arc<[u8]>, Fault> {
        let bytes = self.files.bytes(name)?;
        if bytes.len() > FILE_MAX {
            return Err(fault!(
                "the file '{name}' has {} bytes, and {FILE_MAX} is the most that a session sends of one", bytes.len();
                "split it, or send generated data"
            ));
        }
        Ok(Arc::from(bytes))
    }

    /// The content of responses, where that is of a file.
    fn content(&self, spec: &Http) -> Result<Option<Arc<[u8]>>, Fault> {
        spec.file.as_ref().map(|name| self.file(name)).transpose()
    }

    pub(super) fn http_client(
        &mut self,
        spec: &Http,
        host: &str,
        script: &mut Script,
    ) -> Result<(), Fault> {
        script.content = self.content(spec)?;
        let file = script.content.as_ref().map(|content| content.len() as u64);
        let waits = spec.expect_continue;
        let request = add(script, http::request(spec, host, false, !waits));
        let last = add(script, http::request(spec, host, true, !waits));
        let content = match (waits, spec.body) {
            (true, Some(body)) => {
                let body = Body::Generated(LengthLaw::Fixed(whole(body)));
                Some(add(script, Message { head: Arc::from([]), length_at: None, body }))
            }
            _ => None,
        };
        let think = spec.think.as_ref().map(|time| self.time(time)).transpose()?;
        let think = think.map(|law| add_time(script, law));
        let ours = self.spec.to.is_some();
        let to_head = spec.method == Method::Head;
        let empty = to_head || matches!(spec.status.map(u16::from), Some(204 | 304));
        let size = match (&spec.size, spec.expect_size) {
            (_, Some(size)) => Some(whole(size)),
            (_, None) if file.is_some() && !empty => file,
            (_, None) if !ours => None,
            (_, None) if empty => Some(0),
            (DataSize::Fixed(size), None) => Some(whole(*size)),
            (DataSize::Drawn(_), None) => None,
        };
        let status = spec.expect_status.or(spec.status.filter(|_| ours));
        script.ops.push(Op::HttpClient(HttpClient {
            requests: spec.requests.get(),
            pipeline: spec.pipeline.get(),
            request,
            last,
            content,
            head: to_head,
            think,
            expect_size: size,
            expect_status: status.map(u16::from),
            verify: ours || file.is_some(),
        }));
        Ok(())
    }

    pub(super) fn http_server(&mut self, spec: &Http, script: &mut Script) -> Result<(), Fault> {
        script.content = self.content(spec)?;
        let size = match &script.content {
            Some(content) => LengthLaw::Fixed(content.len() as u64),
            None => self.length(&spec.size)?,
        };
        let mut responses = |spec: &Http, kept| {
            let mut one = |connection, to_head| {
                add(script, http::response(spec, size.clone(), connection, to_head))
            };
            HttpResponses {
                response: one(kept, false),
                last: one(Persistence::Closes, false),
                head: one(kept, true),
                head_last: one(Persistence::Closes, true),
            }
        };
        let current = responses(spec, Persistence::Stays);
        let plain = Http { framing: HttpBody::Length, ..spec.clone() };
        let old = responses(&plain, Persistence::StaysAsAsked);
        let go_on = add(script, http::constant(http::CONTINUE));
        let bad = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let bad = add(script, http::constant(bad.as_bytes()));
        let closes = spec.framing == HttpBody::Close;
        let server = HttpServer { current, old, go_on, bad, closes };
        script.ops.push(Op::HttpServer(server));
        Ok(())
    }

    /// Requests and responses, from either side.
    fn exchange(
        &mut self,
        exchange: &Exchange,
        script: &mut Script,
        client: bool,
    ) -> Result<(), Fault> {
        let (sent, received) = match client {
            true => (&exchange.request, &exchange.response),
            false => (&exchange.response, &exchange.request),
        };
        let law = self.length(sent)?;
        let sent = add(script, generated(law));
        let received = add_receive(script, receive(received));
        let think = exchange.think.as_ref().map(|time| self.time(time)).transpose()?;
        let times = exchange.requests.get();
        match client {
            true => {
                script.ops.extend([
                    Op::Request,
                    Op::Send(sent),
                    Op::Receive(received),
                    Op::Response,
                ]);
                let think = think.map(|law| Op::Think(add_time(script, law)));
                repeat(script, times, think);
            }
            false => {
                script.ops.extend([Op::Receive(received), Op::Send(sent)]);
                repeat(script, times, None);
                script.ops.push(Op::WaitClose);
            }
        }
        Ok(())
    }

    fn bulk(&mut self, bulk: &Bulk, sends: bool, script: &mut Script) {
        if sends {
            let body = match bulk.bytes {
                Some(bytes) => Body::Generated(LengthLaw::Fixed(whole(bytes))),
                None => Body::Unlimited,
            };
            let message = add(script, Message { head: Arc::from([]), length_at: None, body });
            script.ops.extend([Op::Send(message), Op::Shutdown]);
        }
        script.ops.push(Op::WaitClose);
    }

    fn echo(&mut self, echo: &Echo, script: &mut Script) -> Result<(), Fault> {
        let law = self.length(&echo.size)?;
        let body = Body::Generated(law);
        let message = add(script, Message { head: Arc::from([]), length_at: None, body });
        let back = add_receive(script, Receive::Back(message));
        let gap = echo.gap.as_ref().map(|time| self.time(time)).transpose()?;
        script.ops.extend([Op::Request, Op::Send(message), Op::Receive(back), Op::Response]);
        let times = echo.messages.get();
        let gap = gap.map(|law| Op::Pace(add_time(script, law)));
        repeat(script, times, gap);
        Ok(())
    }

    /// All steps of an end; jumps go to labels before and behind them.
    pub(super) fn written_out(&mut self, steps: &[Step], script: &mut Script) -> Result<(), Fault> {
        (self.variables, self.labels) = (Vec::new(), Vec::new());
        self.steps(steps, script, 0)?;
        // what is jumped to was checked; until now the number of the label stands in its place
        let labels = std::mem::take(&mut self.labels);
        let jumps = steps.iter().filter_map(|step| match step {
            Step::Jump(jump) => labels.iter().find(|(name, _)| *name == jump.to),
            _ => None,
        });
        let at = script.ops.iter_mut().filter_map(|op| match op {
            Op::Jump(to) | Op::JumpIf { to, .. } => Some(to),
            _ => None,
        });
        for (to, (_, label)) in at.zip(jumps) {
            *to = *label;
        }
        Ok(())
    }

    /// The number of a variable; that there are not too many was checked.
    fn variable(&mut self, name: &str) -> u8 {
        let at = self.variables.iter().position(|known| known == name);
        at.unwrap_or_else(|| {
            self.variables.push(name.to_owned());
            self.variables.len() - 1
        }) as u8
    }

    fn steps(&mut self, steps: &[Step], script: &mut Script, depth: u8) -> Result<(), Fault> {
        for step in steps {
            let op = match step {
                Step::Send(size) => {
                    let law = self.length(size)?;
                    let message = match script.datagrams {
                        true => udp::message(law, false),
                        false => generated(law),
                    };
                    Op::Send(add(script, message))
                }
                Step::SendText(text) => Op::Send(add(script, http::constant(text.as_bytes()))),
                Step::SendHex(hex) => Op::Send(add(script, http::constant(hex.bytes()))),
                Step::SendFile(name) => {
                    let head = self.file(name)?;
                    Op::Send(add(script, Message { head, length_at: None, body: Body::None }))
                }
                Step::Expect(text) => Op::Expect(add_text(script, text.as_bytes())),
                Step::ExpectHex(hex) => Op::Expect(add_text(script, hex.bytes())),
                Step::Set(numbers) | Step::Add(numbers) => {
                    for (name, &value) in &numbers.0 {
                        let variable = self.variable(name);
                        script.ops.push(match step {
                            Step::Set(_) => Op::Set { variable, value },
                            _ => Op::Add { variable, value },
                        });
                    }
                    continue;
                }
                Step::Label(name) => {
                    self.labels.push((name.clone(), index(script.ops.len() + 1)));
                    continue;
                }
                Step::Jump(Jump { condition: None, .. }) => Op::Jump(0),
                Step::Jump(Jump { condition: Some(condition), .. }) => Op::JumpIf {
                    variable: self.variable(&condition.variable),
                    comparison: condition.comparison,
                    value: condition.value,
                    to: 0,
                },
                Step::Receive(size) if script.datagrams => {
                    Op::Receive(add_receive(script, udp::receive(size, false)))
                }
                Step::Receive(size) => Op::Receive(add_receive(script, receive(size))),
                Step::ReceiveHttp(message) => {
                    let head = message.method == Method::Head;
                    let expect_status = message.expect_status.map(u16::from);
                    let expect_size = message.expect_size.map(whole);
                    let go_on = add(script, http::constant(http::CONTINUE));
                    Op::ReceiveHttp(HttpMessage { head, expect_status, expect_size, go_on })
                }
                Step::ReceiveUntil(text) => Op::ReceiveText(add_text(script, text.as_bytes())),
                Step::ReceiveUntilHex(hex) => Op::ReceiveText(add_text(script, hex.bytes())),
                Step::Think(time) => {
                    let law = self.time(time)?;
                    Op::Think(add_time(script, law))
                }
                Step::Request => Op::Request,
                Step::Response => Op::Response,
                Step::Start(name) => Op::Start(timer(script, name)),
                Step::Stop(name) => Op::Stop(timer(script, name)),
                Step::Repeat(repeat) => {
                    let to = index(script.ops.len() + 1);
                    self.steps(&repeat.steps, script, depth.saturating_add(1))?;
                    let register = depth.min(REGISTERS as u8 - 1);
                    Op::Repeat { register, times: repeat.times.get(), to }
                }
                Step::Shutdown => Op::Shutdown,
                Step::WaitClose => Op::WaitClose,
                Step::Reset => Op::Reset,
            };
            script.ops.push(op);
        }
        Ok(())
    }
}

/// Does all ops so far `times` times, with `between` after each time but the last.
pub(super) fn repeat(script: &mut Script, times: u32, between: Option<Op>) {
    if times <= 1 {
        return;
    }
    let Some(between) = between else {
        return script.ops.push(Op::Repeat { register: 0, times, to: 0 });
    };
    let to = script.ops.len() as u16 + 2;
    script.ops.extend([Op::Repeat { register: 0, times, to }, Op::End, between, Op::Jump(0)]);
}

/// Whether a step sends something else than generated data.
pub(super) fn sends_literally(step: &Step) -> bool {
    match step {
        Step::SendText(_) | Step::SendHex(_) | Step::SendFile(_) => true,
        Step::Repeat(repeat) => repeat.steps.iter().any(sends_literally),
        _ => false,
    }
}

/// The `Host` of requests to a server that has no name: its address, and its port where it is not HTTP's.
pub(super) fn host(scenario: &Scenario, spec: &SessionSpec) -> String {
    let servers = super::servers(scenario, spec);
    // RFC 9110 §4.2: the port of the scheme is left out
    let usual = if spec.tls.is_some() { 443 } else { 80 };
    let port = servers.ports.as_ref().map_or(usual, |ports| ports.get(0));
    let address = servers.addresses.get(0);
    let address = address.unwrap_or(std::net::Ipv4Addr::LOCALHOST.into());
    match port {
        port if port == usual && address.is_ipv6() => format!("[{address}]"),
        port if port == usual => address.to_string(),
        port => std::net::SocketAddr::new(address, port).to_string(),
    }
}

/// A message of generated data. One whose length is drawn says it: the other end does not know it.
fn generated(law: LengthLaw) -> Message {
    let body = match law {
        fixed @ LengthLaw::Fixed(_) => Body::Generated(fixed),
        drawn @ LengthLaw::Drawn(..) => Body::Prefixed(drawn),
    };
    Message { head: Arc::from([]), length_at: None, body }
}

/// What the other end waits for then.
fn receive(size: &DataSize) -> Receive {
    match size {
        DataSize::Fixed(bytes) => Receive::Bytes(whole(*bytes)),
        DataSize::Drawn(_) => Receive::Prefixed,
    }
}

fn timer(script: &Script, name: &str) -> u16 {
    script.timers.iter().position(|known| known == name).unwrap_or(0) as u16
}

/// The index of the last of `len`, which is at most the number of steps.
fn index(len: usize) -> u16 {
    len.saturating_sub(1) as u16
}

pub(super) fn add(script: &mut Script, message: Message) -> u16 {
    script.messages.push(message);
    index(script.messages.len())
}

pub(super) fn add_receive(script: &mut Script, receive: Receive) -> u16 {
    script.lengths.push(receive);
    index(script.lengths.len())
}

/// Bytes that are waited for.
fn add_text(script: &mut Script, bytes: &[u8]) -> u16 {
    script.texts.push(Arc::from(bytes));
    index(script.texts.len())
}

pub(super) fn add_time(script: &mut Script, law: TimeLaw) -> u16 {
    script.times.push(law);
    index(script.times.len())
}
