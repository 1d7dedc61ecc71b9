//! D-ITG's multi-flow files (ITGSend 2.8.1): in each line the options of one flow.
//!
//! Flows are numbered in the order of their lines, from 1. Sizes are those of the payload, D-ITG's header
//! included. `command.rs` reads a line, `law.rs` its distributions and `application.rs` its models. Here a
//! line becomes a flow.

mod application;
mod command;
mod law;
mod words;

use std::fmt::Write;
use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_traffic::law::Law;
use wirebeat_traffic::spec::departures::OnOff;
use wirebeat_traffic::spec::header::Header;
use wirebeat_traffic::spec::header::dccp::Dccp;
use wirebeat_traffic::spec::header::icmp::{Icmp, Icmpv6};
use wirebeat_traffic::spec::header::payload::Payload;
use wirebeat_traffic::spec::header::sctp::Sctp;
use wirebeat_traffic::spec::header::tcp::Tcp;
use wirebeat_traffic::spec::size::{Length, MAX_LENGTHS, Size};
use wirebeat_traffic::spec::{Carried, Departures, FlowRate, Probe};
use wirebeat_units::{Bytes, Nanos};
use wirebeat_wire::ip::Version;

use self::application::SizeOf;
use self::command::Command;
use self::law::Gaps;
use self::words::Words;
use crate::datagram::{Datagram, drawn_payload, number, payload_length};
use crate::draft::Draft;
use crate::number::Decimal;
use crate::text::printable;
use crate::timeline::{Phase, Sends, Timeline};
use crate::{Line, ScriptError};

/// The largest payload (ITG.h: MAX_PAYLOAD_SIZE).
const MAX_SIZE: u64 = 64_000;
/// The largest payload that is drawn: with any of the headers a frame holds it. D-ITG draws up to
/// [`MAX_SIZE`], and less than one in a million times beyond this where the mean is some hundred bytes.
const MAX_DRAWN: u64 = 8900;
/// The smallest payload without a header.
const MIN_SIZE: u64 = 4;
/// The port that TCP, SCTP and DCCP segments come from where none is written: the first dynamic one
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
    for (line, text) in draft.lines() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        number += 1;
        let command = command::read(draft, &mut Words::of(&line, text))?;
        Flow { number, line: &line, command }.add(draft)?;
    }
    Ok(())
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
        let Some((gaps, size)) = self.times_and_sizes(draft, &name)? else { return Ok(()) };
        let mut datagram = Datagram {
            source: command.source,
            source_port: command.source_port,
            tos: command.tos.filter(|tos| *tos > 0),
            ttl: command.ttl,
            ..Datagram::to(command.destination, command.destination_port)
        };
        if let Some(content) = &command.content {
            datagram.payload = Payload::File(content.clone());
        }
        let (packet, size) = self.packet(draft, &datagram, size);
        let sends = Sends {
            packet,
            size,
            rate: gaps.rate,
            departures: match command.bursts.clone() {
                None => gaps.departures,
                Some((on, off)) => {
                    let departures = gaps.departures;
                    Departures::OnOff(Box::new(OnOff {
                        on,
                        off: Some(off),
                        every: None,
                        departures,
                    }))
                }
            },
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
                Err(self.line.wrong(format!(
                    "{source} and {destination} are of different versions of IP; give both in one"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The smallest payload: D-ITG makes what is shorter as long.
    fn least(&self) -> u64 {
        let least = match self.command.codec {
            Some(codec) => codec.min_len(Version::V4) as u64,
            None => MIN_SIZE,
        };
        // On a stream a message says how long it is.
        let stream = matches!(self.command.protocol, Some(Protocol::Tcp | Protocol::Sctp));
        if stream && self.command.codec.is_some() { least + 4 } else { least }
    }

    /// `None`: they cannot be said, which is named.
    fn times_and_sizes(
        &self,
        draft: &mut Draft<'_>,
        name: &str,
    ) -> Result<Option<(Gaps, Option<Size>)>, ScriptError> {
        let command = &self.command;
        let sizes = match &command.sizes_file {
            Some(file) => Some(self.sizes_of(draft, file)?),
            None => None,
        };
        let Some(file) = &command.gaps_file else {
            let size = match (sizes, &command.sizes) {
                (Some(sizes), _) => Some(Size::List(sizes.into())),
                (None, written) => Some(self.size(written.as_ref())),
            };
            return Ok(Some((command.gaps.clone().unwrap_or_default(), size)));
        };
        if command.bursts.is_some() {
            let why = "times of a file stand alone in a scenario, not within bursts; the flow is not sent";
            draft.leave_out(self.line, name, why);
            return Ok(None);
        }
        let gaps = self.gaps_of(draft, file)?;
        let sizes = match (sizes, self.size(command.sizes.as_ref())) {
            (Some(sizes), _) => sizes,
            (None, Size::Fixed(length)) => vec![length],
            _ => {
                let why = "times of a file go with one size or with sizes of a file in a scenario; the flow \
                           is not sent";
                draft.leave_out(self.line, name, why);
                return Ok(None);
            }
        };
        let file = draft.add_file(self.line, file, self.trace(&sizes, &gaps)?.into_bytes())?;
        let gaps =
            Gaps { rate: FlowRate::default(), departures: Departures::Trace(file), nearly: None };
        Ok(Some((gaps, None)))
    }

    /// A trace in our own form: sizes and times go round, each by itself, until both begin again.
    fn trace(&self, sizes: &[Length], gaps: &[Nanos]) -> Result<String, ScriptError> {
        let (mut a, mut b) = (sizes.len(), gaps.len());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let together = sizes.len().checked_mul(gaps.len() / a.max(1));
        let Some(together) = together.filter(|lines| *lines <= MAX_LENGTHS) else {
            return Err(self.line.wrong(format!(
                "{} sizes and {} times begin again together after more than {MAX_LENGTHS} packets; make the \
                 files equally long",
                sizes.len(),
                gaps.len()
            )));
        };
        let mut trace = String::new();
        let both = sizes.iter().cycle().zip(gaps.iter().cycle());
        for (size, gap) in both.take(together) {
            // Writing to a text cannot fail.
            let _ = writeln!(trace, "{size} {gap}");
        }
        Ok(trace)
    }

    fn sizes_of(&self, draft: &mut Draft<'_>, file: &str) -> Result<Vec<Length>, ScriptError> {
        self.numbers(draft, file, "a size of 1 to 64000 bytes", |word| {
            let bytes = word.parse::<u64>().ok().filter(|bytes| (1..=MAX_SIZE).contains(bytes))?;
            payload_length(bytes.max(self.least()))
        })
    }

    fn gaps_of(&self, draft: &mut Draft<'_>, file: &str) -> Result<Vec<Nanos>, ScriptError> {
        self.numbers(draft, file, "a time in milliseconds", |word| {
            Decimal::parse(word)?.times(Nanos::from_millis(1))
        })
    }

    /// The numbers of a file, one in each line.
    fn numbers<T>(
        &self,
        draft: &mut Draft<'_>,
        file: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ScriptError> {
        let text = draft.include_text(self.line, file)?;
        let mut values = Vec::new();
        for (number, text) in (1u64..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty())
        {
            let here = Line { file: file.into(), number };
            let value = read(text.trim());
            let wrong = || here.wrong(format!("'{}' is not {what}", printable(text)));
            values.push(value.ok_or_else(wrong)?);
            if values.len() > MAX_LENGTHS {
                return Err(
                    here.wrong(format!("a file has at most {MAX_LENGTHS} lines; shorten it"))
                );
            }
        }
        match values.is_empty() {
            true => Err(self.line.wrong(format!("there is nothing in '{}'", printable(file)))),
            false => Ok(values),
        }
    }

    fn size(&self, written: Option<&SizeOf>) -> Size {
        let raise = |length: &Length| {
            let bytes = u64::from(length.bytes).max(self.least());
            payload_length(bytes).unwrap_or(*length)
        };
        match written {
            None => {
                Size::Fixed(Length { bytes: 512, of: wirebeat_traffic::spec::size::Of::Payload })
            }
            Some(SizeOf::Written(Size::Fixed(length))) => Size::Fixed(raise(length)),
            Some(SizeOf::Written(Size::Mix(mix))) => {
                Size::Mix(mix.iter().map(|(length, weight)| (raise(length), *weight)).collect())
            }
            Some(SizeOf::Written(size)) => size.clone(),
            Some(SizeOf::Drawn(law)) => {
                let max = match law {
                    Law::Uniform(uniform) => uniform.max.get(),
                    _ => MAX_DRAWN,
                };
                drawn_payload(law.clone(), Some(self.least()), Some(max.max(self.least())))
            }
        }
    }

    /// The headers, and the sizes that go with them.
    fn packet(
        &self,
        draft: &mut Draft<'_>,
        datagram: &Datagram,
        size: Option<Size>,
    ) -> (Vec<Header>, Option<Size>) {
        let source = number(datagram.source_port.unwrap_or(DYNAMIC_PORT));
        let destination = number(datagram.destination_port);
        let without =
            "segments are sent without a connection: nothing answers, and nothing slows them down";
        let header = match self.command.protocol {
            None | Some(Protocol::Udp) => return (datagram.udp(size.as_ref()), size),
            Some(Protocol::Tcp) => {
                draft.leave_out(self.line, "TCP", without);
                Header::Tcp(Tcp { source, destination, ..Tcp::default() })
            }
            Some(Protocol::Dccp) => {
                draft.leave_out(self.line, "DCCP", without);
                Header::Dccp(Dccp { source, destination, ..Dccp::default() })
            }
            Some(Protocol::Sctp) => {
                draft.leave_out(self.line, "SCTP", without);
                let header = Header::Sctp(Sctp { source, destination, ..Sctp::default() });
                let size = self.in_words(draft, size);
                return (datagram.with(header, size.as_ref()), size);
            }
            Some(Protocol::Icmp(kind)) => icmp(datagram.version(), kind),
        };
        (datagram.with(header, size.as_ref()), size)
    }

    /// SCTP's chunks are multiples of 4 bytes long.
    fn in_words(&self, draft: &mut Draft<'_>, size: Option<Size>) -> Option<Size> {
        let longer = |length: &Length| Length {
            bytes: length.bytes.checked_next_multiple_of(4).unwrap_or(length.bytes),
            ..*length
        };
        let words = match &size {
            Some(Size::Fixed(length)) => Some(Size::Fixed(longer(length))),
            Some(Size::List(list)) => Some(Size::List(list.iter().map(longer).collect())),
            _ => return size,
        };
        if words != size {
            let why = "a chunk is as long as its payload here, and a multiple of 4 bytes; sizes are rounded up";
            draft.leave_out(self.line, "SCTP", why);
        }
        words
    }

    /// The earlier of the limits; KBytes are 1024 bytes of payload.
    fn count(&self, draft: &mut Draft<'_>, size: Option<&Size>) -> Option<NonZeroU64> {
        let packets = self.command.packets;
        let Some(kilobytes) = self.command.kilobytes else { return packets };
        let bytes = kilobytes.get().saturating_mul(1024);
        let mean = size.and_then(mean);
        let Some(mean) = mean else {
            let why = "no mean of the sizes is known, so that bytes cannot be counted in packets";
            draft.leave_out(self.line, "-k", why);
            return packets;
        };
        if !matches!(size, Some(Size::Fixed(_))) {
            let why = "a scenario counts bytes of frames; as many packets are sent as have so many bytes on \
                       average";
            draft.leave_out(self.line, "-k", why);
        }
        let count = NonZeroU64::new((bytes as f64 / mean).ceil() as u64);
        match (packets, count) {
            (Some(packets), Some(count)) => Some(packets.min(count)),
            (packets, count) => packets.or(count),
        }
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

/// The mean of sizes, where there is one.
fn mean(size: &Size) -> Option<f64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::List(list) => {
            let sum: f64 = list.iter().map(|length| f64::from(length.bytes)).sum();
            Some(sum / list.len() as f64)
        }
        Size::Mix(mix) => {
            let total: f64 = mix.values().map(|weight| f64::from(*weight)).sum();
            let sum =
                mix.iter().map(|(length, weight)| f64::from(length.bytes) * f64::from(*weight));
            Some(sum.sum::<f64>() / total)
        }
        Size::Drawn(drawn) => {
            let bounds = wirebeat_traffic::law::Bounds {
                min: drawn.min.map(|min: Bytes| min.get() as f64),
                max: drawn.max.map(|max: Bytes| max.get() as f64),
            };
            drawn.law.sampler(None, bounds).ok()?.mean()
        }
        Size::File(_) | Size::Capture(_) => None,
    }
    .filter(|mean| *mean >= 1.0)
}
