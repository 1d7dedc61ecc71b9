//! MGEN's flows over TCP, as sessions: a connection from ON to OFF, and another one from each MOD on that changes what is sent.

use std::num::NonZeroU64;

use wirebeat_traffic::scenario::session::{TcpSpec, Transport};
use wirebeat_units::{Bytes, Nanos};

use super::Globals;
use super::event::EventOptions;
use super::listeners::ServedPorts;
use super::pattern::Pattern;
use crate::draft::Draft;
use crate::pace::Pace;
use crate::session_flow::{SessionFlow, Talk};
use crate::{Line, ScriptError};

/// What a buffer of a connection may have, in bytes.
pub(super) const BUFFERS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;

/// What is true of a flow from a time on.
pub(super) struct StreamPhase {
    pub line: Line,
    pub from: Nanos,
    pub said: EventOptions,
    /// Counting its messages begins anew: up to so many.
    pub count: Option<NonZeroU64>,
}

/// A flow from ON to OFF.
pub(super) struct Stream<'a> {
    pub id: u32,
    pub name: String,
    pub line: Line,
    pub port: String,
    pub globals: &'a Globals,
    pub served: &'a ServedPorts,
    pub stop: Option<Nanos>,
}

/// A connection of it.
struct Part {
    phase: StreamPhase,
    stop: Option<Nanos>,
}

impl Stream<'_> {
    /// Adds its connections.
    pub fn add(self, draft: &mut Draft<'_>, phases: Vec<StreamPhase>) -> Result<(), ScriptError> {
        draft.allow_changes(&self.line, phases.len())?;
        let parts = self.divide(phases);
        if parts.is_empty() {
            draft.leave_out(&self.line, &self.name, "it never sends anything");
        }
        let counted = |part: &Part| part.phase.count.is_some();
        if parts.iter().zip(parts.iter().skip(1)).any(|(a, b)| counted(a) && !counted(b)) {
            let why = "its count holds until the first change, and not for what follows";
            draft.leave_out(&self.line, &self.name, why);
        }
        for (number, part) in parts.iter().enumerate() {
            let name = match number {
                0 => self.name.clone(),
                _ => format!("{}@{}", self.name, part.phase.from),
            };
            if number > 0 {
                let why = format!(
                    "a connection sends the same until it ends: from here on it is another one, '{name}'"
                );
                draft.leave_out(&part.phase.line, &format!("MOD {}", self.id), why);
            }
            self.connection(draft, name, part, number == 0)?;
        }
        Ok(())
    }

    /// The phases in which it sends; of several at one time the last is in force.
    fn divide(&self, phases: Vec<StreamPhase>) -> Vec<Part> {
        let mut held: Vec<StreamPhase> = Vec::new();
        for phase in phases {
            if self.stop.is_some_and(|stop| stop <= phase.from) {
                break;
            }
            match held.last_mut() {
                Some(last) if last.from == phase.from => {
                    *last = StreamPhase { count: phase.count.or(last.count), ..phase };
                }
                _ => held.push(phase),
            }
        }
        let mut parts: Vec<Part> = Vec::new();
        // whether the last part is open, and a count from before it sends
        let (mut sends, mut pending) = (false, None);
        for mut phase in held {
            pending = phase.count.take().or(pending);
            if sends && pending.is_none() {
                let last = parts.last().map(|part| &part.phase.said);
                if last.is_some_and(|last| last.sends_as(&phase.said)) {
                    continue;
                }
            }
            if let Some(last) = parts.last_mut().filter(|_| sends) {
                last.stop = Some(phase.from);
            }
            sends = matches!(phase.said.pattern, Some(Some(_)));
            if sends {
                phase.count = pending.take();
                parts.push(Part { phase, stop: self.stop });
            }
        }
        parts
    }

    fn connection(
        &self,
        draft: &mut Draft<'_>,
        name: String,
        part: &Part,
        is_first: bool,
    ) -> Result<(), ScriptError> {
        let StreamPhase { line, from, said, count } = &part.phase;
        let (Some(Some(pattern)), Some((address, port))) = (&said.pattern, said.destination) else {
            return Ok(());
        };
        let Pattern { rate, departures, .. } = pattern;
        let (pace, nearly) = match Pace::of(rate, departures) {
            Ok(pace) => pace,
            Err(why) => {
                draft.leave_out(line, &name, format!("{why}; it is not sent"));
                return Ok(());
            }
        };
        nearly.into_iter().for_each(|why| draft.leave_out(line, &name, why));
        let Some(size) = pattern.stream_size(line)? else { return Ok(()) };
        let globals = self.globals;
        let label = said.label.or(globals.label).filter(|_| address.is_ipv6()).unwrap_or(0);
        let class = u8::try_from(label >> 20).ok().filter(|class| *class > 0);
        if label & 0xf_ffff != 0 {
            draft.leave_out(line, "LABEL", "the system chooses the flow labels of connections");
        }
        let mut source_port = said.source.filter(|port| *port > 0);
        if let Some(port) = source_port.take_if(|_| !is_first) {
            let why = "a connection cannot have the port of the one before at once; the system chooses it";
            draft.leave_out(line, &format!("SRC {port}"), why);
        }
        let send_buffer = said.send_buffer.filter(|bytes| BUFFERS.contains(bytes));
        if let Some(bytes) = said.send_buffer.filter(|_| send_buffer.is_none()) {
            let why = "a buffer of a connection has 1kB to 1GiB";
            draft.leave_out(line, &format!("TXBUFFER {bytes}"), why);
        }
        SessionFlow {
            name,
            line: line.clone(),
            what: "TCP",
            tool: "MGEN",
            port: self.port.clone(),
            transport: Transport::Tcp,
            talk: Talk::OneWay,
            source: None,
            source_port,
            server: (address, port).into(),
            is_served: address.is_loopback() && self.served.contains(port),
            pace,
            size,
            start: *from,
            stop: part.stop,
            count: *count,
            tos: said.tos.or(class).or(globals.tos),
            ttl: said.ttl.or(globals.unicast_ttl).or(globals.ttl),
            dont_fragment: said.dont_fragment.or(globals.dont_fragment),
            tcp: TcpSpec { send_buffer: send_buffer.map(Bytes::new), ..TcpSpec::default() },
        }
        .add(draft)
    }
}

impl EventOptions {
    /// Whether a connection is the same with both.
    fn sends_as(&self, other: &EventOptions) -> bool {
        let of = |it: &EventOptions| {
            let header = (it.tos, it.ttl, it.label, it.dont_fragment, it.send_buffer);
            (it.destination, it.source, it.pattern.clone(), header)
        };
        of(self) == of(other)
    }
}
