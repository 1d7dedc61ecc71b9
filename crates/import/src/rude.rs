//! RUDE's configuration (rude 0.62 to 0.8).
//!
//! ```text
//! START NOW | START hh:mm:ss
//! <ms> <flow> ON <port>[(<interface>)][:4|:6] <address>:<port> CONSTANT|CBR <rate> <size> [<copies> [<seconds>]]
//! <ms> <flow> ON … TRACE <file>
//! <ms> <flow> MODIFY CONSTANT|CBR … | TRACE <file>
//! <ms> <flow> OFF
//! TOS <flow> <byte>
//! ```
//! Times count from START. A size is that of the UDP payload, RUDE's header included. `copies` packets
//! leave back to back, `rate` times in `seconds`. A trace has a size and the seconds until the next packet
//! in each line, and begins again at its end.

use std::fmt::Write;
use std::net::IpAddr;
use std::num::NonZeroU32;

use indexmap::IndexMap;
use wirebeat_traffic::scenario::size::{Length, Size};
use wirebeat_traffic::scenario::{Carried, Departures, FlowRate, Probe};
use wirebeat_units::{Nanos, Rate, fault};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use crate::datagram::{Datagram, Sizes};
use crate::draft::Draft;
use crate::keyword;
use crate::number::{byte, rate, seconds, since_midnight};
use crate::text::printable;
use crate::timeline::{Phase, Sends, Timeline};
use crate::{Line, ScriptError, TimeOfDay};

/// The sizes that RUDE takes (include/rude.h: PMINSIZE, PMAXSIZE).
const SIZES: Sizes = Sizes::new(20, 32_768);

#[derive(Clone, Copy)]
enum RudeCommand {
    On,
    Modify,
    Off,
}

const COMMANDS: &[(&str, RudeCommand)] =
    &[("ON", RudeCommand::On), ("MODIFY", RudeCommand::Modify), ("OFF", RudeCommand::Off)];

#[derive(Clone, Copy)]
enum RudePattern {
    Constant,
    Trace,
}

const KINDS: &[(&str, RudePattern)] = &[
    ("CONSTANT", RudePattern::Constant),
    ("CBR", RudePattern::Constant),
    ("TRACE", RudePattern::Trace),
];

/// A time, a flow's number, and a command.
pub(crate) fn hint(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    let numbers = |words: &[&str]| words.iter().all(|word| word.parse::<u64>().is_ok());
    match words.as_slice() {
        [time, flow, command, ..] => {
            numbers(&[time, flow]) && keyword::find(command, COMMANDS).is_some()
        }
        _ => false,
    }
}

struct RudeFlow {
    line: Line,
    interface: Option<String>,
    datagram: Datagram,
    /// The behaviours with their times.
    behaviours: Vec<(Nanos, Behaviour)>,
    stop: Option<Nanos>,
}

enum Behaviour {
    Constant {
        frames: u64,
        length: Length,
        copies: NonZeroU32,
        seconds: u64,
    },
    /// A file in our own form, and its smallest size.
    Trace {
        file: String,
        smallest: u64,
    },
}

#[derive(Default)]
struct RudeScript {
    started: bool,
    flows: IndexMap<u32, RudeFlow>,
}

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let mut script = RudeScript::default();
    let mut last = Line { file: draft.source.name.into(), number: 1 };
    for (line, text) in draft.lines() {
        let words: Vec<&str> = text.split('#').next().unwrap_or("").split_whitespace().collect();
        if !words.is_empty() {
            script.line(draft, &line, &words)?;
        }
        last = line;
    }
    if !script.started {
        return Err(last.wrong(fault!("there is no START"; "begin the script with 'START NOW'")));
    }
    for (id, flow) in script.flows {
        flow.add(id, draft)?;
    }
    Ok(())
}

impl RudeScript {
    fn line(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        words: &[&str],
    ) -> Result<(), ScriptError> {
        match words {
            [start, when] if start.eq_ignore_ascii_case("START") => {
                if self.started {
                    return Err(line.wrong(fault!("a script starts once"; "remove this START")));
                }
                self.started = true;
                draft.starts = start_time(line, when)?;
                Ok(())
            }
            _ if !self.started => {
                Err(line.wrong("START comes before everything else: begin with 'START NOW'"))
            }
            [tos, id, value] if tos.eq_ignore_ascii_case("TOS") => {
                let tos =
                    byte(value).ok_or_else(|| line.wrong("a ToS byte goes from 0 to 0xff"))?;
                self.known(line, id)?.datagram.tos = Some(tos);
                Ok(())
            }
            [time, id, command, rest @ ..] => {
                let ms = time.parse().map_err(|_| {
                    line.wrong(format!("'{}' is not a time in milliseconds", printable(time)))
                })?;
                let time = Nanos::from_millis(ms);
                match keyword::find(command, COMMANDS) {
                    Some(RudeCommand::On) => self.on(draft, line, time, id, rest),
                    Some(RudeCommand::Modify) => {
                        let behaviour = behaviour(draft, line, rest)?;
                        self.known(line, id)?.change(line, time, behaviour)
                    }
                    Some(RudeCommand::Off) => self.known(line, id)?.off(line, time),
                    None => Err(line.wrong(fault!(
                        "'{}' is not a command", printable(command);
                        "write one of {}", keyword::names(COMMANDS)
                    ))),
                }
            }
            _ => {
                Err(line
                    .wrong("a line is '<ms> <flow> ON|MODIFY|OFF …', 'TOS <flow> <byte>' or START"))
            }
        }
    }

    fn known(&mut self, line: &Line, id: &str) -> Result<&mut RudeFlow, ScriptError> {
        let flow = number_of(line, id)?;
        self.flows
            .get_mut(&flow)
            .ok_or_else(|| line.wrong(fault!("there is no flow {flow} yet"; "write its ON before")))
    }

    fn on(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        time: Nanos,
        id: &str,
        words: &[&str],
    ) -> Result<(), ScriptError> {
        let id = number_of(line, id)?;
        if self.flows.contains_key(&id) {
            return Err(line.wrong(fault!("flow {id} is on already"; "a flow has one ON")));
        }
        let [source, destination, rest @ ..] = words else {
            return Err(
                line.wrong("ON has a source port and a destination: ON 3001 10.0.0.2:10001 …")
            );
        };
        let (port, interface) = source_of(line, source)?;
        let mut datagram = destination_of(line, destination)?;
        check_version(line, source, &datagram)?;
        datagram.source_port = Some(port);
        let behaviours = vec![(time, behaviour(draft, line, rest)?)];
        let flow = RudeFlow { line: line.clone(), interface, datagram, behaviours, stop: None };
        self.flows.insert(id, flow);
        Ok(())
    }
}

impl RudeFlow {
    fn change(
        &mut self,
        line: &Line,
        time: Nanos,
        behaviour: Behaviour,
    ) -> Result<(), ScriptError> {
        self.check_time(line, time)?;
        self.behaviours.push((time, behaviour));
        Ok(())
    }

    fn off(&mut self, line: &Line, time: Nanos) -> Result<(), ScriptError> {
        self.check_time(line, time)?;
        self.stop = Some(time);
        Ok(())
    }

    fn check_time(&self, line: &Line, time: Nanos) -> Result<(), ScriptError> {
        let last = self.behaviours.last().map_or(Nanos::ZERO, |(last, _)| *last);
        match self.stop {
            Some(stop) => {
                Err(line.wrong(fault!("the flow is off since {stop}"; "write this line before")))
            }
            None if time < last => {
                Err(line
                    .wrong(fault!("{time} is before {last}"; "write lines in the order of time")))
            }
            None => Ok(()),
        }
    }

    fn add(self, id: u32, draft: &mut Draft<'_>) -> Result<(), ScriptError> {
        let Some(stop) = self.stop else {
            return Err(self.line.wrong(fault!("flow {id} has no OFF"; "add '<ms> {id} OFF'")));
        };
        let name = format!("flow-{id}");
        let probe = self.probe(draft, id, &name);
        let phases = self.behaviours.iter().map(|(from, behaviour)| Phase {
            from: *from,
            sends: behaviour.sends(&self.datagram),
            count: None,
        });
        Timeline {
            name,
            phases: phases.collect(),
            port: draft.port(self.interface.as_deref()),
            line: self.line,
            probe,
            stop: Some(stop),
        }
        .add(draft)
    }

    /// The header of 0.8, or where there is no room for it, that of the versions before.
    fn probe(&self, draft: &mut Draft<'_>, id: u32, name: &str) -> Probe {
        let smallest = self.behaviours.iter().map(|(_, behaviour)| behaviour.smallest()).min();
        let (smallest, version) = (smallest.unwrap_or(0), self.datagram.version());
        let needed = Codec::Rude.min_len(version) as u64;
        let codec = match version {
            _ if smallest >= needed => Codec::Rude,
            Version::V4 => Codec::RudeOld,
            Version::V6 => {
                draft.leave_out_probe(&self.line, name, smallest, needed);
                return Probe::Off;
            }
        };
        Probe::Carried(Carried { codec, flow: Some(id) })
    }
}

impl Behaviour {
    fn smallest(&self) -> u64 {
        match self {
            Behaviour::Constant { length, .. } => length.bytes.into(),
            Behaviour::Trace { smallest, .. } => *smallest,
        }
    }

    /// `None`: nothing.
    fn sends(&self, datagram: &Datagram) -> Option<Sends> {
        match self {
            Behaviour::Constant { frames, length, copies, seconds } => {
                let per = u128::from(*seconds) * 1_000_000_000;
                let rate = rate(u128::from(*frames) * u128::from(copies.get()), per)?;
                Some(Sends {
                    packet: datagram.udp(),
                    size: Some(Size::Fixed(*length)),
                    rate: FlowRate::Fixed(Rate::Frames(rate)),
                    departures: Departures::Constant,
                    burst: *copies,
                })
            }
            Behaviour::Trace { file, .. } => Some(Sends {
                packet: datagram.udp(),
                size: None,
                rate: FlowRate::default(),
                departures: Departures::Trace(file.clone()),
                burst: NonZeroU32::MIN,
            }),
        }
    }
}

fn behaviour(draft: &mut Draft<'_>, line: &Line, words: &[&str]) -> Result<Behaviour, ScriptError> {
    let (kind, rest) = words.split_first().unwrap_or((&"", &[]));
    match (keyword::find(kind, KINDS), rest) {
        (Some(RudePattern::Constant), [frames, bytes, rest @ ..]) if rest.len() <= 2 => {
            let number = |word: &str, what: &str| {
                let wrong = || line.wrong(format!("'{}' is not a {what}", printable(word)));
                word.parse::<u64>().map_err(|_| wrong())
            };
            let length = length(line, number(bytes, "size in bytes")?)?;
            let copies = match rest.first() {
                Some(copies) => number(copies, "number of packets")?,
                None => 1,
            };
            let seconds = match rest.get(1) {
                Some(seconds) => number(seconds, "time in seconds")?,
                None => 1,
            };
            let copies = u32::try_from(copies).ok().and_then(NonZeroU32::new);
            match copies {
                Some(copies) if seconds > 0 => {
                    let frames = number(frames, "rate in packets per second")?;
                    Ok(Behaviour::Constant { frames, length, copies, seconds })
                }
                _ => Err(line.wrong(fault!(
                    "packets and seconds are at least 1";
                    "leave them out for one"
                ))),
            }
        }
        (Some(RudePattern::Constant), _) => {
            Err(line.wrong("CONSTANT has a rate and a size, for example 'CONSTANT 100 500'"))
        }
        (Some(RudePattern::Trace), [file]) => trace(draft, line, file),
        (Some(RudePattern::Trace), _) => {
            Err(line.wrong("TRACE has the name of a file without blanks"))
        }
        (None, _) => Err(line.wrong(fault!(
            "'{}' is not a kind of traffic", printable(kind);
            "write one of {}", keyword::names(KINDS)
        ))),
    }
}

/// Reads a trace and writes it in our own form.
fn trace(draft: &mut Draft<'_>, line: &Line, file: &str) -> Result<Behaviour, ScriptError> {
    let packets = draft.entries(line, file, |here, text| {
        let mut words = text.split_whitespace();
        let (Some(bytes), Some(wait), None) = (words.next(), words.next(), words.next()) else {
            return Err(
                here.wrong("a line has a size and the seconds until the next packet: 500 0.02")
            );
        };
        let bytes = bytes.parse().map_err(|_| here.wrong("the size is not a whole number"))?;
        let wait =
            seconds(wait).ok_or_else(|| here.wrong("the time is not a number of seconds"))?;
        Ok((length(here, bytes)?, wait))
    })?;
    let smallest = packets.iter().map(|(length, _)| length.bytes.into()).min().unwrap_or(0);
    let mut made = String::new();
    for (length, wait) in packets {
        // Writing to a text cannot fail.
        let _ = writeln!(made, "{length} {wait}");
    }
    let file = draft.add_file(line, file, made.into_bytes())?;
    Ok(Behaviour::Trace { file, smallest })
}

fn length(line: &Line, bytes: u64) -> Result<Length, ScriptError> {
    SIZES.length(bytes).ok_or_else(|| line.wrong(format!("sizes are {SIZES}, not {bytes}")))
}

fn number_of(line: &Line, id: &str) -> Result<u32, ScriptError> {
    id.parse().map_err(|_| {
        line.wrong(
            fault!("'{}' is not a number of a flow", printable(id); "write 0 to {}", u32::MAX),
        )
    })
}

/// `3001`, `3001(eth1)`, `3001:6`.
fn source_of(line: &Line, text: &str) -> Result<(u16, Option<String>), ScriptError> {
    let wrong = || {
        line.wrong(fault!(
            "'{}' is not a source port", printable(text);
            "write for example 3001 or 3001(eth1)"
        ))
    };
    let text = text.strip_suffix(":4").or_else(|| text.strip_suffix(":6")).unwrap_or(text);
    let (port, interface) = match text.split_once('(') {
        Some((port, interface)) => {
            let interface = interface.strip_suffix(')').filter(|name| !name.is_empty());
            (port, Some(interface.ok_or_else(wrong)?.to_owned()))
        }
        None => (text, None),
    };
    match port.parse() {
        Ok(port @ 1024..) => Ok((port, interface)),
        Ok(port) => Err(line.wrong(format!("RUDE sends from ports from 1024 on, not {port}"))),
        Err(_) => Err(wrong()),
    }
}

/// The version of IP is that of the destination's address, and need not be chosen.
fn check_version(line: &Line, source: &str, datagram: &Datagram) -> Result<(), ScriptError> {
    let (chosen, other) = match datagram.version() {
        Version::V4 => (source.ends_with(":6"), ("IPv6", "IPv4")),
        Version::V6 => (source.ends_with(":4"), ("IPv4", "IPv6")),
    };
    match chosen {
        true => Err(line.wrong(format!(
            "'{}' asks for {}, and {} is an address of {}",
            printable(source),
            other.0,
            datagram.destination,
            other.1
        ))),
        false => Ok(()),
    }
}

/// `10.0.0.2:10001`, `2001:db8::2:10001`: the port follows the last colon.
fn destination_of(line: &Line, text: &str) -> Result<Datagram, ScriptError> {
    let wrong = || {
        line.wrong(fault!(
            "'{}' is not a destination", printable(text);
            "write an address and a port, 10.0.0.2:10001 (names are not looked up)"
        ))
    };
    let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let address: Option<IpAddr> = address.parse().ok();
    let address = address.filter(|address| !address.is_unspecified()).ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    Ok(Datagram::to(address, port))
}

fn start_time(line: &Line, text: &str) -> Result<Option<TimeOfDay>, ScriptError> {
    if text.eq_ignore_ascii_case("NOW") {
        return Ok(None);
    }
    let whole = |time: &Nanos| time.get().is_multiple_of(Nanos::from_secs(1).get());
    match since_midnight(text).filter(whole) {
        Some(since_midnight) => Ok(Some(TimeOfDay { since_midnight, utc: false })),
        None => Err(line.wrong("START has NOW or a time of day: START 13:30:00")),
    }
}
