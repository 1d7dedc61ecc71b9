//! MGEN's scripts (version 5): global commands, transmission events and reception events.
//!
//! A line that ends in `\` goes on in the next one; `#` begins a comment. Keywords may be shortened and
//! written in either case. Times are seconds from the start; `OFFSET` begins later in the script. Events
//! take place in the order of their times, wherever they stand. `event.rs` and `pattern.rs` read what is
//! sent, `reception.rs` what is received; `flow.rs` makes flows of it, `stream.rs` sessions of what goes over TCP, and
//! `listeners.rs` servers.

mod event;
mod flow;
mod listeners;
mod pattern;
mod reasons;
mod reception;
mod stream;
mod token;

use std::sync::Arc;

use wirebeat_units::{Nanos, fault};

use self::event::Event;
use self::listeners::{ServedPorts, StreamListen};
use self::reasons::{
    NO_ANALYTICS, NO_BUFFERS, NO_CHECKSUM, NO_LOG, NO_PERMISSION, NO_QUEUE, NO_REMOTE, NO_RETRY,
    NO_RUN_TIME,
};
use self::token::Tokens;
use crate::draft::Draft;
use crate::keyword;
use crate::number::{Decimal, byte, seconds, since_midnight};
use crate::text::printable;
use crate::{Line, MAX_EVENTS, ScriptError, TimeOfDay};

/// How deep scripts may be included within scripts, and how many in all.
const MAX_DEPTH: usize = 8;
const MAX_INCLUDED: usize = 256;

/// An event, or what belongs to one.
pub(crate) fn hint(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    let (kind, next) = match Decimal::parse(first) {
        Some(_) => (words.next().unwrap_or(""), words.next()),
        None => (first, words.next()),
    };
    let whole =
        |word: &str, names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
    let number = |word: &str| word.parse::<u32>().is_ok();
    if whole(kind, &["ON", "MOD", "OFF"]) {
        next.is_some_and(number)
    } else if whole(kind, &["LISTEN", "IGNORE"]) {
        next.is_some_and(|word| whole(word, &["UDP", "TCP"]))
    } else {
        whole(kind, &["JOIN", "LEAVE"])
            && next.is_some_and(|word| word.parse::<std::net::IpAddr>().is_ok())
    }
}

/// What global commands say for all flows.
#[derive(Default)]
struct Globals {
    tos: Option<u8>,
    /// Of multicast, and of unicast as well unless `unicast_ttl` says more.
    ttl: Option<u8>,
    unicast_ttl: Option<u8>,
    label: Option<u32>,
    dont_fragment: Option<bool>,
    interface: Option<String>,
    data: Option<Vec<u8>>,
    offset: Nanos,
}

#[derive(Default)]
struct MgenScript {
    globals: Globals,
    events: Vec<Event>,
    stream_listens: Vec<StreamListen>,
    /// The last word on it.
    is_ipv6: bool,
    included: usize,
}

#[derive(Clone, Copy)]
enum MgenCommand {
    Event,
    Start,
    Offset,
    Input,
    Seed,
    Tos,
    Ttl,
    UnicastTtl,
    Label,
    DontFragment,
    Interface,
    Data,
    Ipv4,
    Ipv6,
    /// Left out, with this reason.
    LeftOut(&'static str),
    /// Not a command: an event.
    No,
}

const COMMANDS: &[(&str, MgenCommand)] = &[
    ("EVENT", MgenCommand::Event),
    ("START", MgenCommand::Start),
    ("OFFSET", MgenCommand::Offset),
    ("INPUT", MgenCommand::Input),
    ("SEED", MgenCommand::Seed),
    ("TOS", MgenCommand::Tos),
    ("TTL", MgenCommand::Ttl),
    ("UNICAST_TTL", MgenCommand::UnicastTtl),
    ("LABEL", MgenCommand::Label),
    ("DF", MgenCommand::DontFragment),
    ("INTERFACE", MgenCommand::Interface),
    ("DATA", MgenCommand::Data),
    // Addresses say of which version they are; servers have none.
    ("IPV4", MgenCommand::Ipv4),
    ("IPV6", MgenCommand::Ipv6),
    ("OUTPUT", MgenCommand::LeftOut(NO_LOG)),
    ("LOG", MgenCommand::LeftOut(NO_LOG)),
    ("TXLOG", MgenCommand::LeftOut(NO_LOG)),
    ("RXLOG", MgenCommand::LeftOut(NO_LOG)),
    ("DLOG", MgenCommand::LeftOut(NO_LOG)),
    ("NOLOG", MgenCommand::LeftOut(NO_LOG)),
    ("LOGDATA", MgenCommand::LeftOut(NO_LOG)),
    ("LOCALTIME", MgenCommand::LeftOut(NO_LOG)),
    ("EPOCHTIMESTAMP", MgenCommand::LeftOut(NO_LOG)),
    ("BINARY", MgenCommand::LeftOut(NO_LOG)),
    ("FLUSH", MgenCommand::LeftOut(NO_LOG)),
    ("DEBUG", MgenCommand::LeftOut(NO_LOG)),
    ("SAVE", MgenCommand::LeftOut("a run does not continue the numbers of the one before")),
    ("RXBUFFER", MgenCommand::LeftOut(NO_BUFFERS)),
    ("TXBUFFER", MgenCommand::LeftOut(NO_BUFFERS)),
    ("BROADCAST", MgenCommand::LeftOut(NO_PERMISSION)),
    ("CHECKSUM", MgenCommand::LeftOut(NO_CHECKSUM)),
    ("TXCHECKSUM", MgenCommand::LeftOut(NO_CHECKSUM)),
    ("RXCHECKSUM", MgenCommand::LeftOut(NO_CHECKSUM)),
    ("QUEUE", MgenCommand::LeftOut(NO_QUEUE)),
    ("REUSE", MgenCommand::LeftOut("it is about MGEN's sockets")),
    ("ANALYTICS", MgenCommand::LeftOut(NO_ANALYTICS)),
    ("REPORT", MgenCommand::LeftOut(NO_ANALYTICS)),
    ("WINDOW", MgenCommand::LeftOut(NO_ANALYTICS)),
    ("SUSPEND", MgenCommand::LeftOut(NO_REMOTE)),
    ("RESUME", MgenCommand::LeftOut(NO_REMOTE)),
    ("RESET", MgenCommand::LeftOut(NO_REMOTE)),
    ("RETRY", MgenCommand::LeftOut(NO_RETRY)),
    ("PAUSE", MgenCommand::LeftOut(NO_RUN_TIME)),
    ("RECONNECT", MgenCommand::LeftOut(NO_RUN_TIME)),
    // Not the beginning of OFFSET.
    ("OFF", MgenCommand::No),
    ("ON", MgenCommand::No),
    ("MOD", MgenCommand::No),
    ("LISTEN", MgenCommand::No),
    ("IGNORE", MgenCommand::No),
    ("JOIN", MgenCommand::No),
    ("LEAVE", MgenCommand::No),
];

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let mut script = MgenScript::default();
    script.text(draft, draft.source.name, draft.source.text, 0)?;
    let MgenScript { globals, events, mut stream_listens, is_ipv6, .. } = script;
    let times = draft.listens.iter_mut().map(|listen| &mut listen.at);
    for at in times.chain(stream_listens.iter_mut().map(|listen| &mut listen.at)) {
        *at = at.saturating_sub(globals.offset);
    }
    flow::add(draft, &globals, &ServedPorts::of(&stream_listens), events)?;
    listeners::add(draft, is_ipv6, stream_listens)
}

impl MgenScript {
    fn text(
        &mut self,
        draft: &mut Draft<'_>,
        name: &str,
        text: &str,
        depth: usize,
    ) -> Result<(), ScriptError> {
        let file: Arc<str> = name.into();
        let mut begun: Option<(u64, String)> = None;
        for (number, part) in (1u64..).zip(text.lines()) {
            let comment = begun.is_none() && part.trim_start().starts_with('#');
            if comment || begun.is_none() && part.trim().is_empty() {
                continue;
            }
            let (first, mut whole) = begun.take().unwrap_or((number, String::new()));
            match part.trim_end().strip_suffix('\\') {
                Some(part) => {
                    whole.push_str(part);
                    whole.push(' ');
                    begun = Some((first, whole));
                }
                None => {
                    whole.push_str(part);
                    let line = Line { file: file.clone(), number: first };
                    self.line(draft, &line, &whole, depth)?;
                }
            }
        }
        match begun {
            Some((number, whole)) => self.line(draft, &Line { file, number }, &whole, depth),
            None => Ok(()),
        }
    }

    fn line(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        text: &str,
        depth: usize,
    ) -> Result<(), ScriptError> {
        let mut tokens = Tokens::of(line, text);
        if tokens.is_empty() {
            return Ok(());
        }
        let first = tokens.word("a command or an event")?;
        match keyword::find(first, COMMANDS) {
            None | Some(MgenCommand::No) => self.event(draft, line, text),
            Some(MgenCommand::Event) => self.event(draft, line, tokens.rest()),
            Some(MgenCommand::Input) => {
                let file = tokens.word("the name of a script")?;
                tokens.end()?;
                self.included += 1;
                if depth == MAX_DEPTH || self.included > MAX_INCLUDED {
                    return Err(line.wrong(fault!(
                        "scripts include one another at most {MAX_DEPTH} deep and {MAX_INCLUDED} \
                         in all";
                        "does one include itself?"
                    )));
                }
                let text = draft.include_text(line, file)?;
                self.text(draft, file, &text, depth + 1)
            }
            Some(MgenCommand::LeftOut(why)) => {
                draft.leave_out(line, text.trim(), why);
                Ok(())
            }
            Some(command) => self.global(draft, &mut tokens, command),
        }
    }

    fn global(
        &mut self,
        draft: &mut Draft<'_>,
        tokens: &mut Tokens<'_>,
        command: MgenCommand,
    ) -> Result<(), ScriptError> {
        let globals = &mut self.globals;
        match command {
            MgenCommand::Start => {
                let when = "NOW or a time of day: START 13:30:00 or START 13:30:00GMT";
                draft.starts = tokens.value(when, start_time)?;
            }
            MgenCommand::Offset => globals.offset = tokens.value("a time in seconds", seconds)?,
            MgenCommand::Seed => {
                draft.scenario.seed = tokens.value("a whole number", |word| word.parse().ok())?;
            }
            MgenCommand::Tos => globals.tos = Some(tokens.value("a ToS byte, 0 to 255", byte)?),
            MgenCommand::Ttl => {
                globals.ttl = Some(tokens.value("a TTL of 1 to 255", event::ttl)?);
            }
            MgenCommand::UnicastTtl => {
                globals.unicast_ttl = Some(tokens.value("a TTL of 1 to 255", event::ttl)?);
            }
            MgenCommand::Label => globals.label = Some(tokens.value("a flow label", event::label)?),
            MgenCommand::DontFragment => {
                globals.dont_fragment = Some(tokens.value("on or off", event::on_off)?);
            }
            MgenCommand::Interface => {
                globals.interface = Some(tokens.word("the name of an interface")?.to_owned());
            }
            MgenCommand::Data => globals.data = Some(event::data(tokens)?),
            MgenCommand::Ipv4 => self.is_ipv6 = false,
            MgenCommand::Ipv6 => self.is_ipv6 = true,
            _ => {}
        }
        tokens.end()
    }

    fn event(&mut self, draft: &mut Draft<'_>, line: &Line, text: &str) -> Result<(), ScriptError> {
        let mut tokens = Tokens::of(line, text);
        let mut word = tokens.word("an event")?;
        let mut at = Nanos::ZERO;
        if let Some(time) = seconds(word) {
            at = time;
            word = tokens.word("an event")?;
        }
        if let Some(kind) = keyword::find(word, event::KINDS) {
            let event = event::read(draft, &mut tokens, at, kind)?;
            self.events.push(event);
            if self.events.len() > MAX_EVENTS {
                return Err(line.wrong(
                    fault!("there are more than {MAX_EVENTS} events"; "divide the script"),
                ));
            }
            return Ok(());
        }
        match keyword::find(word, reception::KINDS) {
            Some(kind) => {
                let listen = reception::read(draft, &mut tokens, at, kind)?;
                self.stream_listens.extend(listen);
                match self.stream_listens.len() > MAX_EVENTS {
                    true => Err(line.wrong(
                        fault!("there are more than {MAX_EVENTS} events"; "divide the script"),
                    )),
                    false => Ok(()),
                }
            }
            None => Err(line.wrong(fault!(
                "'{}' is neither an event nor a command", printable(word);
                "events are {} and {}",
                keyword::names(event::KINDS), keyword::names(reception::KINDS)
            ))),
        }
    }
}

/// `NOW`, `13:30:00.5`, `13:30:00GMT`. The outer `None`: neither.
fn start_time(word: &str) -> Option<Option<TimeOfDay>> {
    if word.eq_ignore_ascii_case("NOW") {
        return Some(None);
    }
    let upper = word.to_ascii_uppercase();
    let (time, utc) =
        upper.strip_suffix("GMT").map_or((upper.as_str(), false), |time| (time, true));
    let since_midnight = since_midnight(time)?;
    // MGEN takes midnight for NOW.
    Some(Some(TimeOfDay { since_midnight, utc }).filter(|_| since_midnight != Nanos::ZERO))
}
