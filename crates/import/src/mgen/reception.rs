//! MGEN's reception events: what a receiver is asked to do.
//!
//! ```text
//! [<seconds>] LISTEN|IGNORE UDP|TCP <port>[,<port>,<from>-<to>] [RXBUFFER <bytes>]
//! [<seconds>] JOIN|LEAVE <group> [SRC <source>] [INTERFACE <name>] [PORT <ports>]
//! ```

use std::net::IpAddr;
use std::ops::RangeInclusive;

use wirebeat_units::{Nanos, fault};

use super::event::{MgenProtocol, PROTOCOLS};
use super::listeners::StreamListen;
use super::reasons::NO_BUFFERS;
use super::token::Tokens;
use crate::draft::Draft;
use crate::keyword;
use crate::text::printable;
use crate::{Group, Listen, MAX_EVENTS, Reception, ScriptError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReceptionKind {
    Listen,
    Ignore,
    Join,
    Leave,
}

pub(super) const KINDS: &[(&str, ReceptionKind)] = &[
    ("LISTEN", ReceptionKind::Listen),
    ("IGNORE", ReceptionKind::Ignore),
    ("JOIN", ReceptionKind::Join),
    ("LEAVE", ReceptionKind::Leave),
];

#[derive(Clone, Copy)]
enum KnownReception {
    Source,
    Interface,
    Port,
    Buffer,
}

const OPTIONS: &[(&str, KnownReception)] = &[
    ("SRC", KnownReception::Source),
    ("INTERFACE", KnownReception::Interface),
    ("PORT", KnownReception::Port),
    ("RXBUFFER", KnownReception::Buffer),
];

/// Reads what follows the first word, and adds it; what is said of TCP is returned.
pub(super) fn read(
    draft: &mut Draft<'_>,
    tokens: &mut Tokens<'_>,
    at: Nanos,
    kind: ReceptionKind,
) -> Result<Option<StreamListen>, ScriptError> {
    let line = tokens.line();
    let what = match kind {
        ReceptionKind::Listen | ReceptionKind::Ignore => {
            let word = tokens.rest();
            let protocol = tokens.value("UDP or TCP", |word| keyword::find(word, PROTOCOLS))?;
            let open = tokens.value("a list of ports, 5000,5002-5009", ports)?;
            let buffer = options(draft, tokens, None)?;
            if let Some(buffer) = buffer.as_ref().filter(|_| protocol != MgenProtocol::Tcp) {
                draft.leave_out(line, buffer, NO_BUFFERS);
            }
            match protocol {
                MgenProtocol::Udp => {}
                MgenProtocol::Tcp => {
                    let accepts = kind == ReceptionKind::Listen;
                    let (line, what) = (line.clone(), printable(word));
                    return Ok(Some(StreamListen { line, at, what, accepts, ports: open, buffer }));
                }
                MgenProtocol::Sink => {
                    draft.leave_out(line, word, "messages come from the network alone");
                    return Ok(None);
                }
            }
            if kind == ReceptionKind::Listen {
                Reception::Open(open)
            } else {
                Reception::Close(open)
            }
        }
        ReceptionKind::Join | ReceptionKind::Leave => {
            let address = |word: &str| word.parse().ok().filter(IpAddr::is_multicast);
            let address = tokens.value("a multicast address", address)?;
            let mut group = Group { address, source: None, interface: None };
            options(draft, tokens, Some(&mut group))?;
            if kind == ReceptionKind::Join {
                Reception::Join(group)
            } else {
                Reception::Leave(group)
            }
        }
    };
    if draft.listens.len() == MAX_EVENTS {
        return Err(
            line.wrong(fault!("there are more than {MAX_EVENTS} events"; "divide the script"))
        );
    }
    draft.listens.push(Listen { line: line.clone(), at, what });
    Ok(None)
}

/// Reads options; returns that of a buffer.
fn options(
    draft: &mut Draft<'_>,
    tokens: &mut Tokens<'_>,
    mut group: Option<&mut Group>,
) -> Result<Option<String>, ScriptError> {
    let line = tokens.line();
    let mut buffer = None;
    while !tokens.is_empty() {
        let all = tokens.rest();
        let known = tokens.value("an option: SRC, INTERFACE, PORT or RXBUFFER", |word| {
            keyword::find(word, OPTIONS)
        })?;
        match (known, &mut group) {
            (KnownReception::Source, Some(group)) => {
                let source = |word: &str| {
                    let source: IpAddr = word.parse().ok()?;
                    (!source.is_multicast() && !source.is_unspecified()).then_some(source)
                };
                group.source = Some(tokens.value("the address of a source", source)?);
            }
            (KnownReception::Interface, Some(group)) => {
                group.interface = Some(tokens.word("the name of an interface")?.to_owned());
            }
            (KnownReception::Port, Some(_)) => {
                tokens.value("a list of ports", ports)?;
                draft.leave_out(line, all, "groups are joined for all ports");
            }
            (KnownReception::Buffer, None) => {
                let size = tokens.word("a size")?;
                buffer = Some(format!("RXBUFFER {size}"));
            }
            _ => {
                return Err(
                    line.wrong(fault!("this option does not belong to this event"; "remove it"))
                );
            }
        }
    }
    Ok(buffer)
}

/// `5000,5002-5009`.
fn ports(word: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let port = |word: &str| word.parse::<u16>().ok().filter(|port| *port > 0);
    let range = |item: &str| match item.split_once('-') {
        Some((from, to)) => Some(port(from)?..=port(to)?).filter(|range| !range.is_empty()),
        None => port(item).map(|port| port..=port),
    };
    // More items than ports only repeat them.
    let items: Option<Vec<_>> = word.split(',').take(65_536).map(range).collect();
    items.filter(|items| !items.is_empty())
}
