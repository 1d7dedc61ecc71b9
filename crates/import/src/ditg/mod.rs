//! D-ITG's multi-flow files (ITGSend 2.8.1): in each line the options of one flow.
//!
//! Flows are numbered in the order of their lines, from 1. Sizes are those of the payload, D-ITG's header
//! included. `command.rs` reads a line, `distribution.rs` its distributions and `application.rs` its models; `sizes.rs`
//! says how long packets are. Here a line becomes a flow, and in `session.rs` sessions, where it is over TCP or asks for round
//! trips.

mod application;
mod command;
mod distribution;
mod session;
mod sizes;
mod words;

use std::fmt::Write;
use std::num::NonZeroU32;

use wirebeat_traffic::scenario::departures::OnOff;
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::dccp::Dccp;
use wirebeat_traffic::scenario::header::icmp::{Icmp, Icmpv6};
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::header::sctp::Sctp;
use wirebeat_traffic::scenario::size::{Length, MAX_LENGTHS, Size};
use wirebeat_traffic::scenario::{Carried, Departures, FlowRate, Probe};
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::ip::Version;

use self::command::{Command, Run};
use self::distribution::Gaps;
use self::words::Words;
use crate::datagram::{Datagram, largest, number};
use crate::draft::Draft;
use crate::number::{gcd, milliseconds};
use crate::text::printable;
use crate::timeline::{Phase, Sends, Timeline};
use crate::{Line, ScriptError};

/// The port that packets of SCTP and DCCP come from where none is written: the first dynamic one
/// (RFC 6335 §6).
const DYNAMIC_PORT: u16 = 49_152;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Udp,
    Tcp,
    /// With the type of the message; `None`: an echo request.
    Icmp(Option<u8>),
    Sctp,
    Dccp,
}

/// An option of ITGSend. Lists of YAML have a blank behind their dash.
pub(crate) fn hint(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(command::is_option)
}

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let mut number = 0;
    let mut run = Run::default();
    for (line, text) in draft.lines() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        number += 1;
        let command = command::read(draft, &mut Words::of(&line, text), &mut run)?;
        match command.polls {
            true => _ = run.polls.get_or_insert_with(|| line.clone()),
            false => run.sleeps = true,
        }
        Flow { number, line: &line, command }.add(draft)?;
    }
    if let Some(line) = run.polls.filter(|_| run.sleeps) {
        draft.leave_out(&line, "-poll", "it holds for all flows of a run");
    }
    Ok(())
}

/// When packets leave and how long they are.
struct Sent {
    gaps: Gaps,
    /// `None`: that stands with the times.
    size: Option<Size>,
    /// The longest, where that is known.
    longest: Option<u64>,
}

struct Flow<'a> {
    number: u32,
    line: &'a Line,
    command: Command,
}

impl Flow<'_> {
    fn add(self, draft: &mut Draft<'_>) -> Result<(), ScriptError> {
        let name = format!("flow-{}", self.number);
        let command = &self.command;
        self.check_addresses()?;
        if let Some(talk) = self.talk(draft) {
            return self.session(draft, name, talk);
        }
        let Some(Sent { gaps, size, longest }) = self.times_and_sizes(draft, &name)? else {
            return Ok(());
        };
        let mut datagram = Datagram {
            source: command.source.filter(|source| !source.is_unspecified()),
            source_port: command.source_port,
            tos: command.tos.filter(|tos| *tos > 0),
            ttl: command.ttl,
            ..Datagram::to(command.destination, command.destination_port)
        };
        if let Some(content) = &command.content {
            datagram.payload = Payload::File(content.clone());
        }
        let (packet, size) = self.packet(draft, &datagram, size, longest);
        let sends = Sends {
            packet,
            size,
            rate: gaps.rate,
            departures: self.in_bursts(gaps.departures),
            burst: NonZeroU32::MIN,
        };
        let count = self.count(draft, sends.size.as_ref());
        let from = command.delay;
        Timeline {
            name,
            line: self.line.clone(),
            port: draft.port(command.interface.as_deref()),
            probe: self.probe(draft),
            phases: vec![Phase { from, sends: Some(sends), count }],
            stop: Some(from.saturating_add(command.duration)),
        }
        .add(draft)
    }

    /// The departures, in bursts where these are asked for.
    fn in_bursts(&self, departures: Departures) -> Departures {
        let Some((on, off)) = self.command.bursts.clone() else { return departures };
        Departures::OnOff(Box::new(OnOff { on, off: Some(off), every: None, departures }))
    }

    fn probe(&self, draft: &mut Draft<'_>) -> Probe {
        match (self.command.codec, self.command.protocol) {
            (Some(_), Some(Protocol::Sctp)) => {
                let why = "its checksum covers the payload and cannot be mended for each packet; packets are \
                           sent without D-ITG's header, and a receiver only counts them";
                draft.leave_out(self.line, "SCTP", why);
                Probe::Off
            }
            (Some(codec), _) => Probe::Carried(Carried { codec, flow: Some(self.number) }),
            (None, _) => Probe::Off,
        }
    }

    fn check_addresses(&self) -> Result<(), ScriptError> {
        let (source, destination) = (self.command.source, self.command.destination);
        match source {
            Some(source) if source.is_ipv4() != destination.is_ipv4() => {
                Err(self.line.wrong(fault!(
                    "{source} and {destination} are of different versions of IP";
                    "give both in one"
                )))
            }
            _ => Ok(()),
        }
    }

    /// `None`: they cannot be said, which is named.
    fn times_and_sizes(
        &self,
        draft: &mut Draft<'_>,
        name: &str,
    ) -> Result<Option<Sent>, ScriptError> {
        let command = &self.command;
        let both = |draft: &mut Draft<'_>, file: &str, what: &str| {
            let why = format!("{what} are those of the file; what else says of them does not hold");
            draft.leave_out(self.line, file, why);
        };
        let sizes = match &command.sizes_file {
            Some(file) => {
                if command.sizes.is_some() {
                    both(draft, &format!("-Fs {file}"), "sizes");
                }
                Some(self.sizes_of(draft, file)?)
            }
            None => None,
        };
        let Some(file) = &command.gaps_file else {
            let size = match (sizes, &command.sizes) {
                (Some(sizes), _) => Size::List(sizes.into()),
                (None, written) => self.size(draft, written.as_ref())?,
            };
            let gaps = command.gaps.clone().unwrap_or_default();
            return Ok(Some(Sent { gaps, longest: largest(&size), size: Some(size) }));
        };
        if command.bursts.is_some() {
            let why = "times of a file stand alone in a scenario, not within bursts; the flow is not sent";
            draft.leave_out(self.line, name, why);
            return Ok(None);
        }
        if command.gaps.is_some() {
            both(draft, &format!("-Ft {file}"), "times");
        }
        let gaps = self.gaps_of(draft, file)?;
        let sizes = match (sizes, self.size(draft, command.sizes.as_ref())?) {
            (Some(sizes), _) => sizes,
            (None, Size::Fixed(length)) => vec![length],
            _ => {
                let why = "times of a file go with one size or with sizes of a file in a scenario; the flow \
                           is not sent";
                draft.leave_out(self.line, name, why);
                return Ok(None);
            }
        };
        let sizes = match self.command.protocol {
            Some(Protocol::Sctp) => self.in_words(draft, sizes),
            _ => sizes,
        };
        let trace = self.trace(draft, &sizes, &gaps)?;
        let file = draft.add_file(self.line, file, trace.into_bytes())?;
        let gaps =
            Gaps { rate: FlowRate::default(), departures: Departures::Trace(file), nearly: None };
        let longest = sizes.iter().map(|length| length.bytes.into()).max();
        Ok(Some(Sent { gaps, size: None, longest }))
    }

    /// A trace in our own form: sizes and times go round, each by itself, until both begin again.
    fn trace(
        &self,
        draft: &mut Draft<'_>,
        sizes: &[Length],
        gaps: &[Nanos],
    ) -> Result<String, ScriptError> {
        let (of_sizes, of_gaps) = (sizes.len() as u128, gaps.len() as u128);
        let together = of_sizes / gcd(of_sizes, of_gaps).max(1) * of_gaps;
        let together = usize::try_from(together).ok();
        let Some(together) = together.filter(|lines| *lines <= MAX_LENGTHS) else {
            return Err(self.line.wrong(fault!(
                "{} sizes and {} times begin again together after more than {MAX_LENGTHS} packets",
                sizes.len(), gaps.len();
                "make the files equally long"
            )));
        };
        draft.allow_sizes(self.line, together)?;
        let mut trace = String::new();
        let both = sizes.iter().cycle().zip(gaps.iter().cycle());
        for (size, gap) in both.take(together) {
            // Writing to a text cannot fail.
            let _ = writeln!(trace, "{size} {gap}");
        }
        Ok(trace)
    }

    fn gaps_of(&self, draft: &mut Draft<'_>, file: &str) -> Result<Vec<Nanos>, ScriptError> {
        self.numbers(draft, file, "a time in milliseconds", milliseconds)
    }

    /// The numbers of a file, one in each line.
    fn numbers<T>(
        &self,
        draft: &mut Draft<'_>,
        file: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ScriptError> {
        draft.entries(self.line, file, |here, text| {
            read(text).ok_or_else(|| here.wrong(format!("'{}' is not {what}", printable(text))))
        })
    }

    /// The headers, and the sizes that go with them.
    fn packet(
        &self,
        draft: &mut Draft<'_>,
        datagram: &Datagram,
        size: Option<Size>,
        longest: Option<u64>,
    ) -> (Vec<Header>, Option<Size>) {
        let source = number(datagram.source_port.unwrap_or(DYNAMIC_PORT));
        let destination = number(datagram.destination_port);
        // The lengths of the headers: RFC 4340 §5.1, RFC 9260 §3 and §3.3.1.
        let (what, header, transport) = match self.command.protocol {
            // TCP goes over connections, as sessions
            None | Some(Protocol::Udp | Protocol::Tcp) => return (datagram.udp(), size),
            Some(Protocol::Icmp(kind)) => {
                return (datagram.with(icmp(datagram.version(), kind)), size);
            }
            Some(Protocol::Dccp) => {
                ("DCCP", 16, Header::Dccp(Dccp { source, destination, ..Dccp::default() }))
            }
            Some(Protocol::Sctp) => {
                ("SCTP", 28, Header::Sctp(Sctp { source, destination, ..Sctp::default() }))
            }
        };
        let why =
            "packets are sent without a connection: nothing answers, and nothing slows them down";
        draft.leave_out(self.line, what, why);
        let most = datagram.undivided(header);
        if longest.is_some_and(|longest| longest > most) {
            let why = format!(
                "messages of more than {most} bytes are divided by D-ITG's system, or not sent; here each is one \
                 packet"
            );
            draft.leave_out(self.line, what, why);
        }
        let size = match (self.command.protocol, size) {
            (Some(Protocol::Sctp), Some(Size::Fixed(length))) => {
                self.in_words(draft, vec![length]).first().copied().map(Size::Fixed)
            }
            (Some(Protocol::Sctp), Some(Size::List(list))) => {
                Some(Size::List(self.in_words(draft, list.to_vec()).into()))
            }
            (_, size) => size,
        };
        (datagram.with(transport), size)
    }
}

fn icmp(version: Version, kind: Option<u8>) -> Header {
    let kind = kind.map(|kind| kind.to_string());
    match version {
        Version::V4 => {
            let kind = kind.and_then(|kind| kind.parse().ok()).unwrap_or_default();
            Header::Icmp(Icmp { kind, ..Icmp::default() })
        }
        Version::V6 => {
            let kind = kind.and_then(|kind| kind.parse().ok()).unwrap_or_default();
            Header::Icmpv6(Icmpv6 { kind, ..Icmpv6::default() })
        }
    }
}
