//! MGEN's events, flow by flow: over UDP as timelines, over TCP as phases of a stream (`stream.rs`).

use std::num::NonZeroU32;

use indexmap::IndexMap;
use wirebeat_traffic::scenario::change::MAX_CHANGES;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::{Carried, Departures, Probe};
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use super::Globals;
use super::event::{Count, Event, EventKind, EventOptions, MgenProtocol};
use super::listeners::ServedPorts;
use super::reasons::NO_BUFFERS;
use super::stream::{Stream, StreamPhase};
use crate::datagram::{Datagram, UDP, largest};
use crate::draft::Draft;
use crate::timeline::{Phase, Sends, Timeline};
use crate::{Line, ScriptError};

/// The TTL of MGEN's unicast packets where nothing is said.
const UNICAST_TTL: u8 = 255;
/// Bytes of a message between its destination and its data, without an address of the sender: the sender's
/// port, type and length; latitude, longitude, altitude, GPS status; the data's type and length.
const BEFORE_DATA: usize = 4 + 12 + 1 + 1 + 2;

/// Adds the flows. Connections to this host are accepted at the ports that are served.
pub(super) fn add(
    draft: &mut Draft<'_>,
    globals: &Globals,
    served: &ServedPorts,
    mut events: Vec<Event>,
) -> Result<(), ScriptError> {
    events.sort_by_key(|event| event.at);
    let mut flows: IndexMap<u32, Vec<Event>> = IndexMap::new();
    for event in events {
        flows.entry(event.flow).or_default().push(event);
    }
    flows.sort_unstable_keys();
    let mut flows = flows.into_iter();
    flows.try_for_each(|(id, events)| MgenFlow { id, globals, served }.add(draft, events))
}

struct MgenFlow<'a> {
    id: u32,
    globals: &'a Globals,
    served: &'a ServedPorts,
}

/// A flow from ON to OFF.
struct Session {
    line: Line,
    /// What was said last of everything.
    current: EventOptions,
    /// How many events said something of it.
    events: usize,
    /// Over UDP.
    phases: Vec<Phase>,
    /// Over TCP.
    stream: Vec<StreamPhase>,
}

impl MgenFlow<'_> {
    fn add(&self, draft: &mut Draft<'_>, events: Vec<Event>) -> Result<(), ScriptError> {
        let mut session: Option<Session> = None;
        let mut number = 0;
        for event in events {
            let line = &event.line;
            match (event.kind, &mut session) {
                // mgen changes such a flow, and goes on with its numbers.
                (EventKind::On, Some(session)) => {
                    let why =
                        "the flow is on already; as in mgen, this changes it and begins no other";
                    draft.leave_out(line, &format!("ON {}", self.id), why);
                    self.apply(draft, session, &event)?;
                }
                (EventKind::Mod, None) => {
                    let why = "the flow is not on then; as in mgen, this changes nothing";
                    draft.leave_out(line, &format!("MOD {}", self.id), why);
                }
                (EventKind::Off, None) => {
                    let why = "the flow is not on then; as in mgen, this changes nothing";
                    draft.leave_out(line, &format!("OFF {}", self.id), why);
                }
                (EventKind::On, none) => {
                    self.check_complete(&event)?;
                    let mut begun = Session {
                        line: line.clone(),
                        current: EventOptions::default(),
                        events: 0,
                        phases: Vec::new(),
                        stream: Vec::new(),
                    };
                    self.apply(draft, &mut begun, &event)?;
                    *none = Some(begun);
                }
                (EventKind::Mod, Some(session)) => self.apply(draft, session, &event)?,
                (EventKind::Off, _) => {
                    number += 1;
                    let ended = session.take();
                    ended.map_or(Ok(()), |ended| self.end(draft, ended, Some(event.at), number))?;
                }
            }
        }
        session.map_or(Ok(()), |left| self.end(draft, left, None, number + 1))
    }

    fn check_complete(&self, event: &Event) -> Result<(), ScriptError> {
        let options = &event.options;
        let missing = if options.protocol.is_none() {
            "a protocol: UDP or TCP"
        } else if options.destination.is_none() {
            "a destination: DST 10.0.0.2/5000"
        } else if options.pattern.is_none() {
            "a pattern: PERIODIC [10 1024]"
        } else {
            return Ok(());
        };
        Err(event.line.wrong(format!("flow {} lacks {missing}", self.id)))
    }

    /// Takes over what an event says, as the next phase.
    fn apply(
        &self,
        draft: &mut Draft<'_>,
        session: &mut Session,
        event: &Event,
    ) -> Result<(), ScriptError> {
        let (said, current) = (event.options.clone(), &mut session.current);
        let begins = session.events == 0;
        session.events += 1;
        let (line, id) = (&event.line, self.id);
        if !begins && said.protocol.is_some_and(|protocol| current.protocol != Some(protocol)) {
            return Err(
                line.wrong(fault!("flow {id} cannot change its protocol"; "turn it OFF, then ON"))
            );
        }
        if !begins && said.interface.is_some() && said.interface != current.interface {
            draft.leave_out(line, "INTERFACE", "a flow leaves by one interface, that of its ON");
        }
        let protocol = said.protocol.or(current.protocol);
        if said.data.is_some() || begins && self.globals.data.is_some() {
            let why = match protocol {
                Some(MgenProtocol::Tcp) => "messages of a session have generated data",
                _ => {
                    "the bytes are where a message has them, but its own field for their length stays 0, \
                     so that MGEN does not log them"
                }
            };
            draft.leave_out(line, "DATA", why);
        }
        if let Some(bytes) = said.send_buffer.filter(|_| protocol != Some(MgenProtocol::Tcp)) {
            draft.leave_out(line, &format!("TXBUFFER {bytes}"), NO_BUFFERS);
        }
        *current = EventOptions {
            protocol,
            destination: said.destination.or(current.destination),
            source: said.source.or(current.source),
            pattern: said.pattern.or(current.pattern.take()),
            tos: said.tos.or(current.tos),
            ttl: said.ttl.or(current.ttl),
            label: said.label.or(current.label),
            dont_fragment: said.dont_fragment.or(current.dont_fragment),
            interface: if begins { said.interface } else { current.interface.take() },
            count: said.count,
            data: said.data.or(current.data.take()),
            send_buffer: said.send_buffer.or(current.send_buffer),
        };
        let count = match current.count {
            Some(Count::To(count)) => Some(count),
            Some(Count::Unlimited) if !begins => {
                draft.leave_out(line, "COUNT", "a count that holds already is not lifted again");
                None
            }
            _ => None,
        };
        if session.events > MAX_CHANGES {
            return Err(line.wrong(format!("flow {id} changes more than {MAX_CHANGES} times")));
        }
        let from = event.at.saturating_sub(self.globals.offset);
        match protocol {
            Some(MgenProtocol::Tcp) => {
                let (line, said) = (line.clone(), session.current.clone());
                session.stream.push(StreamPhase { line, from, said, count });
            }
            Some(MgenProtocol::Udp) => {
                let sends = self.sends(draft, line, &session.current)?;
                session.phases.push(Phase { from, sends, count });
            }
            Some(MgenProtocol::Sink) | None => {}
        }
        Ok(())
    }

    fn sends(
        &self,
        draft: &mut Draft<'_>,
        line: &Line,
        current: &EventOptions,
    ) -> Result<Option<Sends>, ScriptError> {
        let (Some(Some(pattern)), Some((address, port))) = (&current.pattern, current.destination)
        else {
            return Ok(None);
        };
        if let Some(why) = pattern.without {
            draft.leave_out(line, "CLONE", why);
        }
        if pattern.rate.is_unlimited() && matches!(pattern.departures, Departures::OnOff(_)) {
            let why = "bursts of a scenario have a rate within; it sends nothing until the pattern changes: \
                       write a rate instead of -1";
            draft.leave_out(line, "BURST", why);
            return Ok(None);
        }
        let globals = self.globals;
        let multicast = address.is_multicast();
        let ttl = globals.unicast_ttl.filter(|_| !multicast).or(globals.ttl);
        let label = current.label.or(globals.label).unwrap_or(0);
        let class = u8::try_from(label >> 20).ok().filter(|class| *class > 0 && address.is_ipv6());
        let mut datagram = Datagram {
            source_port: current.source.filter(|port| *port > 0),
            tos: current.tos.or(class).or(globals.tos).filter(|tos| *tos > 0),
            ttl: current.ttl.or(ttl).or((!multicast).then_some(UNICAST_TTL)),
            label: label & 0xf_ffff,
            dont_fragment: current.dont_fragment.or(globals.dont_fragment),
            ..Datagram::to(address, port)
        };
        if let Some(data) = current.data.as_ref().or(globals.data.as_ref()) {
            datagram.payload = Self::payload(draft, line, datagram.version(), data)?;
        }
        let size = pattern.size(line)?;
        let longest = size.as_ref().and_then(largest);
        let most = datagram.undivided(UDP);
        if datagram.dont_fragment == Some(true)
            && address.is_ipv4()
            && longest.is_some_and(|longest| longest > most)
        {
            let why = format!(
                "messages of more than {most} bytes are not divided then; they leave by links alone that take \
                 them whole"
            );
            draft.leave_out(line, "DF on", why);
        }
        Ok(Some(Sends {
            packet: datagram.udp(),
            size,
            rate: pattern.rate.clone(),
            departures: pattern.departures.clone(),
            burst: NonZeroU32::MIN,
        }))
    }

    /// The data where a message has them, behind what MGEN says of itself.
    fn payload(
        draft: &mut Draft<'_>,
        line: &Line,
        version: Version,
        data: &[u8],
    ) -> Result<Payload, ScriptError> {
        let mut content = vec![0; Codec::Mgen.min_len(version) + BEFORE_DATA];
        content.extend_from_slice(data);
        draft.add_file(line, "mgen-data", content).map(Payload::File)
    }

    fn end(
        &self,
        draft: &mut Draft<'_>,
        session: Session,
        off: Option<Nanos>,
        number: u32,
    ) -> Result<(), ScriptError> {
        let name = match number {
            1 => format!("flow-{}", self.id),
            _ => format!("flow-{}-{number}", self.id),
        };
        let stop = off.map(|off| off.saturating_sub(self.globals.offset));
        let interface = session.current.interface.as_ref().or(self.globals.interface.as_ref());
        let interface = interface.map(String::as_str);
        match session.current.protocol {
            Some(MgenProtocol::Udp) => Timeline {
                name,
                port: draft.port(interface),
                line: session.line,
                probe: Probe::Carried(Carried { codec: Codec::Mgen, flow: Some(self.id) }),
                phases: session.phases,
                stop,
            }
            .add(draft),
            Some(MgenProtocol::Tcp) => Stream {
                id: self.id,
                name,
                port: draft.port(interface),
                line: session.line,
                globals: self.globals,
                served: self.served,
                stop,
            }
            .add(draft, session.stream),
            Some(MgenProtocol::Sink) | None => {
                let why = "its messages go to another program (SINK), not to the network";
                draft.leave_out(&session.line, &name, why);
                Ok(())
            }
        }
    }
}
