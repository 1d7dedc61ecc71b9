//! MGEN's transmission events: `[<seconds>] ON|MOD|OFF <flow> [<options>]`.

use std::net::IpAddr;
use std::num::NonZeroU64;

use wirebeat_traffic::scenario::header::hex::Hex;
use wirebeat_units::{Nanos, fault};

use super::pattern::{self, Pattern, SIZES};
use super::reasons::{NO_ANALYTICS, NO_PERMISSION, NO_QUEUE, NO_REMOTE, NO_RETRY, NO_RUN_TIME};
use super::token::Tokens;
use crate::draft::Draft;
use crate::keyword;
use crate::number::{byte, c_number};
use crate::text::printable;
use crate::{Line, ScriptError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EventKind {
    On,
    Mod,
    Off,
}

pub(super) const KINDS: &[(&str, EventKind)] =
    &[("ON", EventKind::On), ("MOD", EventKind::Mod), ("OFF", EventKind::Off)];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MgenProtocol {
    Udp,
    Tcp,
    Sink,
}

pub(super) const PROTOCOLS: &[(&str, MgenProtocol)] =
    &[("UDP", MgenProtocol::Udp), ("TCP", MgenProtocol::Tcp), ("SINK", MgenProtocol::Sink)];

/// What an event says of a flow.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub line: Line,
    pub at: Nanos,
    pub flow: u32,
    pub kind: EventKind,
    pub options: EventOptions,
}

/// What can be said of a flow; `None`: nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct EventOptions {
    pub protocol: Option<MgenProtocol>,
    pub destination: Option<(IpAddr, u16)>,
    pub source: Option<u16>,
    /// The inner `None`: it sends nothing.
    pub pattern: Option<Option<Pattern>>,
    pub tos: Option<u8>,
    pub ttl: Option<u8>,
    pub label: Option<u32>,
    pub dont_fragment: Option<bool>,
    pub interface: Option<String>,
    pub count: Option<Count>,
    pub data: Option<Vec<u8>>,
    /// Bytes of the socket's buffer.
    pub send_buffer: Option<u64>,
}

/// How many messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Count {
    Unlimited,
    To(NonZeroU64),
}

/// The options that this crate reads, and why the others are left out.
#[derive(Clone, Copy)]
enum Known {
    Destination,
    Source,
    Count,
    Tos,
    Ttl,
    Label,
    DontFragment,
    Interface,
    Data,
    SendBuffer,
    /// Left out, with or without a value.
    Bare(&'static str),
    Valued(&'static str),
}

const OPTIONS: &[(&str, Known)] = &[
    ("DST", Known::Destination),
    ("SRC", Known::Source),
    ("COUNT", Known::Count),
    ("TOS", Known::Tos),
    ("TTL", Known::Ttl),
    ("LABEL", Known::Label),
    ("DF", Known::DontFragment),
    ("INTERFACE", Known::Interface),
    ("DATA", Known::Data),
    ("BROADCAST", Known::Valued(NO_PERMISSION)),
    ("TXBUFFER", Known::SendBuffer),
    ("QUEUE", Known::Valued(NO_QUEUE)),
    ("SEQUENCE", Known::Valued("packets are numbered from 0")),
    ("RSVP", Known::Valued("no version of MGEN reserves bandwidth")),
    ("RETRY", Known::Valued(NO_RETRY)),
    ("SUSPEND", Known::Valued(NO_REMOTE)),
    ("RESUME", Known::Valued(NO_REMOTE)),
    ("RESET", Known::Valued(NO_REMOTE)),
    ("LOGDATA", Known::Valued("it is about MGEN's log")),
    ("CONNECT", Known::Bare("a connected socket sends the same packets")),
    ("REPORT", Known::Bare(NO_ANALYTICS)),
    ("FEEDBACK", Known::Bare(NO_ANALYTICS)),
    ("PAUSE", Known::Bare(NO_RUN_TIME)),
    ("RECONNECT", Known::Bare(NO_RUN_TIME)),
];

/// Reads what follows the word ON, MOD or OFF.
pub(super) fn read(
    draft: &mut Draft<'_>,
    tokens: &mut Tokens<'_>,
    at: Nanos,
    kind: EventKind,
) -> Result<Event, ScriptError> {
    let line = tokens.line();
    let flow = tokens.value("the number of a flow", |word| word.parse().ok())?;
    let mut options = EventOptions::default();
    let all = tokens.rest();
    while !tokens.is_empty() {
        let word = tokens.word("an option")?;
        if let Some(protocol) = keyword::find(word, PROTOCOLS) {
            options.protocol = Some(protocol);
        } else if let Some(kind) = keyword::find(word, pattern::KINDS) {
            let parameters = tokens.group("a pattern's parameters")?;
            options.pattern = Some(pattern::read(line, kind, parameters)?);
        } else if let Some(known) = keyword::find(word, OPTIONS) {
            options.read(draft, tokens, (word, known))?;
        } else {
            return Err(line.wrong(fault!(
                "'{}' is not an option", printable(word);
                "write UDP, a pattern, or one of {}", keyword::names(OPTIONS)
            )));
        }
    }
    if kind == EventKind::Off && !all.is_empty() {
        draft.leave_out(line, all, "OFF has no options");
    }
    Ok(Event { line: line.clone(), at, flow, kind, options })
}

impl EventOptions {
    fn read(
        &mut self,
        draft: &mut Draft<'_>,
        tokens: &mut Tokens<'_>,
        (word, known): (&str, Known),
    ) -> Result<(), ScriptError> {
        match known {
            Known::Destination => {
                let what = "an address and a port, 10.0.0.2/5000 (names are not looked up)";
                self.destination = Some(tokens.value(what, destination)?);
            }
            Known::Source => {
                let port: u16 = tokens.value("a port, 0 to 65535", |word| word.parse().ok())?;
                self.source = Some(port);
            }
            Known::Count => {
                self.count = Some(tokens.value("a number of messages, 100 or 100,off", count)?);
            }
            Known::Tos => self.tos = Some(tokens.value("a ToS byte, 0 to 255", byte)?),
            Known::Ttl => self.ttl = Some(tokens.value("a TTL of 1 to 255", ttl)?),
            Known::Label => self.label = Some(tokens.value("a flow label", label)?),
            Known::DontFragment => self.dont_fragment = Some(tokens.value("on or off", on_off)?),
            Known::Interface => {
                self.interface = Some(tokens.word("the name of an interface")?.to_owned());
            }
            Known::Data => self.data = Some(data(tokens)?),
            Known::SendBuffer => {
                self.send_buffer =
                    Some(tokens.value("a number of bytes", |word| word.parse().ok())?);
            }
            Known::Bare(why) => draft.leave_out(tokens.line(), word, why),
            Known::Valued(why) => {
                let value = tokens.word("the value of this option")?;
                draft.leave_out(tokens.line(), &format!("{word} {value}"), why);
            }
        }
        Ok(())
    }
}

fn destination(word: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = word.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let address = Some(address).filter(|address| !address.is_unspecified())?;
    Some((address, port.parse().ok().filter(|port| *port > 0)?))
}

/// `,off` only closes the socket as well.
fn count(word: &str) -> Option<Count> {
    let number = match word.split_once(',') {
        Some((number, off)) if off.eq_ignore_ascii_case("off") => number,
        Some(_) => return None,
        None => word,
    };
    match c_number(number) {
        Some(number) => NonZeroU64::new(number).map(Count::To),
        None => number.parse::<i64>().ok().filter(|number| *number < 0).map(|_| Count::Unlimited),
    }
}

pub(super) fn ttl(word: &str) -> Option<u8> {
    word.parse().ok().filter(|ttl| *ttl > 0)
}

/// The traffic class in bits 20 to 27 goes with it.
pub(super) fn label(word: &str) -> Option<u32> {
    c_number(word).and_then(|label| u32::try_from(label).ok()).filter(|label| *label < 1 << 28)
}

pub(super) fn on_off(word: &str) -> Option<bool> {
    keyword::find(word, &[("ON", true), ("OFF", false)])
}

/// Bytes in hex. Longer than any message is nothing that MGEN sends.
pub(super) fn data(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, ScriptError> {
    let hex = tokens.group("the data")?.parse::<Hex>().ok();
    let hex = hex.filter(|hex| hex.bytes().len() as u64 <= SIZES.max());
    let wrong = || tokens.line().wrong("data are bytes in hex digits, for example [0a1b2c]");
    Ok(hex.ok_or_else(wrong)?.bytes().to_vec())
}
