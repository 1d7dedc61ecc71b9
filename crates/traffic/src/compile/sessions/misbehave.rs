//! The program of clients that misbehave, and of the servers that they have where those are ours: servers of HTTP.

use std::sync::Arc;

use wirebeat_units::{Bytes, Fault};

use super::http;
use super::script::{ScriptMaker, add, add_time, host};
use crate::program::misbehaviour::{Forgery, Misbehaviour, Way};
use crate::program::script::{Body, Message, Op, Script};
use crate::scenario::Scenario;
use crate::scenario::departures::Duration;
use crate::scenario::session::program::misbehave::{Exchanges, Forged};
use crate::scenario::session::program::{Http, Misbehave};
use crate::scenario::session::{SessionSpec, TcpSpec};

/// The line that a head which never ends is made longer by.
const MORE: &str = "X-More: 1\r\n";

/// What clients do.
pub(super) fn client(
    maker: &mut ScriptMaker<'_>,
    misbehave: &Misbehave,
    scenario: &Scenario,
    script: &mut Script,
) -> Result<(), Fault> {
    // what comes is compared with nothing
    script.compares = false;
    let host = host(scenario, maker.spec);
    let asks = |target: &str, text: &Option<String>| match text {
        Some(text) => Arc::from(text.as_bytes()),
        None => request(target, &host),
    };
    let mut gap = None;
    let mut exchange = None;
    let way = match misbehave {
        Misbehave::Idle(_) => Way::Idle,
        Misbehave::HalfOpen(_) => Way::HalfOpen,
        Misbehave::ZeroWindow(spec) => {
            add_text(script, &asks(&spec.target, &spec.text));
            Way::ZeroWindow
        }
        Misbehave::SlowRead(spec) => {
            add_text(script, &asks(&spec.target, &spec.text));
            gap = Some(&spec.gap);
            Way::SlowRead { bytes: spec.bytes.get() }
        }
        Misbehave::SlowWrite(spec) => {
            gap = Some(&spec.gap);
            let (text, more) = match &spec.text {
                Some(text) => (Arc::from(text.as_bytes()), ""),
                None => (beginning(&spec.target, &host), MORE),
            };
            let bytes = spec.bytes.map_or(text.len(), |bytes| bytes.get().into());
            let first = add_pieces(script, &text, bytes);
            let again = add_pieces(script, more.as_bytes(), bytes);
            Way::SlowWrite { first, again }
        }
        Misbehave::Overlapping(_)
        | Misbehave::OutOfWindow(_)
        | Misbehave::BadChecksum(_)
        | Misbehave::AckUnsent(_)
        | Misbehave::RstStorm(_)
        | Misbehave::SequenceGuess(_) => {
            let Some((forgery, spec)) = forged(misbehave) else { return Ok(()) };
            gap = Some(&spec.gap);
            exchange = (spec.exchange == Exchanges::Http).then_some(spec);
            Way::Forged { forgery, bytes: spec.bytes.get() }
        }
    };
    script.misbehaviour = Some(Misbehaviour {
        way,
        gap: gap.map(|gap| add_gap(maker, gap, script)).transpose()?,
        acts: misbehave.forged().map(|spec| spec.segments.get()),
        time: misbehave.time(),
        guesses: maker.key(),
    });
    if let Some(spec) = exchange {
        let http = Http { target: spec.target.clone(), ..Http::default() };
        maker.http_client(&http, &host, script)?;
        script.ops.push(Op::Misbehave);
        script.ops.extend(script.ops.first().copied());
        return Ok(());
    }
    script.ops.push(Op::Misbehave);
    if matches!(way, Way::SlowRead { .. } | Way::ZeroWindow) {
        // in order, all that was not read would be
        script.ops.push(Op::Reset);
    }
    Ok(())
}

/// What servers do.
pub(super) fn server(maker: &mut ScriptMaker<'_>, script: &mut Script) -> Result<(), Fault> {
    script.compares = false;
    maker.http_server(&Http::default(), script)
}

/// What is asked of TCP: where nothing is read, a small window.
pub(super) fn tcp(spec: &SessionSpec) -> TcpSpec {
    let window = match spec.program.misbehaviour() {
        Some(Misbehave::SlowRead(_)) => Some(Bytes::new(4000)),
        Some(Misbehave::ZeroWindow(_)) => Some(Bytes::new(1000)),
        _ => None,
    };
    TcpSpec { receive_buffer: spec.tcp.receive_buffer.or(window), ..spec.tcp.clone() }
}

fn forged(misbehave: &Misbehave) -> Option<(Forgery, &Forged)> {
    Some(match misbehave {
        Misbehave::Overlapping(spec) => (Forgery::Overlapping, spec),
        Misbehave::OutOfWindow(spec) => (Forgery::OutOfWindow, spec),
        Misbehave::BadChecksum(spec) => (Forgery::BadChecksum, spec),
        Misbehave::AckUnsent(spec) => (Forgery::AckUnsent, spec),
        Misbehave::RstStorm(spec) => (Forgery::RstStorm, spec),
        Misbehave::SequenceGuess(spec) => (Forgery::SequenceGuess, spec),
        _ => return None,
    })
}

fn add_gap(maker: &mut ScriptMaker<'_>, gap: &Duration, script: &mut Script) -> Result<u16, Fault> {
    let law = maker.time(gap)?;
    Ok(add_time(script, law))
}

/// A whole request.
fn request(target: &str, host: &str) -> Arc<[u8]> {
    let http = Http { target: target.to_owned(), ..Http::default() };
    http::request(&http, host, true, true).head
}

/// A request without its end: the empty line that its head ends with.
fn beginning(target: &str, host: &str) -> Arc<[u8]> {
    let whole = request(target, host);
    whole.strip_suffix(b"\r\n").map_or_else(|| Arc::clone(&whole), Arc::from)
}

fn add_text(script: &mut Script, text: &Arc<[u8]>) -> u16 {
    add(script, Message { head: Arc::clone(text), length_at: None, body: Body::None })
}

/// Adds a text as messages of so many bytes each; gives how many those are.
fn add_pieces(script: &mut Script, text: &[u8], bytes: usize) -> u16 {
    let pieces = text.chunks(bytes.max(1));
    // a text is short: there are fewer than its bytes
    let count = pieces.len() as u16;
    for piece in pieces {
        add_text(script, &Arc::from(piece));
    }
    count
}
