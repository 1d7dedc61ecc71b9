//! Sessions out of captures as the ops of either end.
//!
//! An end says its turns in their order, each when it has received all that was said before. Turns of one end that follow each
//! other are one message, unless the times between them are kept; over UDP each is a datagram of its own.

use std::sync::Arc;

use wirebeat_units::{Fault, Nanos, fault};

use super::script::{ScriptMaker, add, add_receive, add_time};
use crate::compile::Files;
use crate::compile::recorded_session::{RecordedEnd, RecordedSession};
use crate::program::script::{
    Body, Expected, ExpectedLength, Message, Op, Receive, Script, TimeLaw,
};
use crate::scenario::session::program::Capture;
use crate::values::session::{MAX_DATAGRAM, Transport};

/// The most turns of a session.
pub const TURNS_MAX: usize = 10_000;

/// Something that is said: by whom, how long after what was said before, and what.
struct Said {
    by_client: bool,
    after: Nanos,
    bytes: Arc<[u8]>,
}

/// What the end does that `of_client` says.
pub(super) fn end(
    maker: &ScriptMaker<'_>,
    spec: &Capture,
    script: &mut Script,
    of_client: bool,
) -> Result<(), Fault> {
    let session = maker.files.recorded_session(&spec.file, spec.session)?;
    let wanted = if script.datagrams { Transport::Udp } else { Transport::Tcp };
    if session.transport != wanted {
        let (was, key) = match session.transport {
            Transport::Tcp | Transport::Sctp => ("TCP", "leave 'transport: udp' out"),
            Transport::Udp => ("UDP", "write 'transport: udp'"),
        };
        return Err(fault!("the session of the capture '{}' is over {was}", spec.file; "{key}"));
    }
    let both_ours = maker.spec.from.is_some() && maker.spec.to.is_some();
    let said = said(session, spec);
    if said.len() > TURNS_MAX {
        return Err(fault!(
            "the ends of the session of the capture '{}' speak by turns {} times, and {TURNS_MAX} is the most",
            spec.file, said.len();
            "take another, or leave 'keep-times' out"
        ));
    }
    if script.datagrams {
        check_datagrams(&said, maker.spec.from.is_none(), &spec.file)?;
    }
    for (place, it) in said.iter().enumerate() {
        let next = said.get(place + 1);
        if it.by_client == of_client {
            if it.after > Nanos::ZERO {
                let time = add_time(script, TimeLaw::Fixed(it.after));
                script.ops.push(Op::Think(time));
            }
            // what the other end answers is a response
            if of_client && next.is_some_and(|next| !next.by_client) {
                script.ops.push(Op::Request);
            }
            let head = Arc::clone(&it.bytes);
            let message = add(script, Message { head, length_at: None, body: Body::None });
            script.ops.push(Op::Send(message));
            continue;
        }
        let op = match (script.datagrams, both_ours) {
            (true, true) => {
                script.texts.push(Arc::clone(&it.bytes));
                Op::Expect((script.texts.len() - 1) as u16)
            }
            (true, false) => {
                let length = ExpectedLength::Any;
                let expected = Expected { length, numbered: false };
                Op::Receive(add_receive(script, Receive::Message(expected)))
            }
            (false, true) => {
                Op::Receive(add_receive(script, Receive::Known(Arc::clone(&it.bytes))))
            }
            (false, false) => {
                Op::Receive(add_receive(script, Receive::Bytes(it.bytes.len() as u64)))
            }
        };
        script.ops.push(op);
        let asked = place > 0 && said.iter().take(place).any(|before| before.by_client);
        if of_client && asked && next.is_none_or(|next| next.by_client) {
            script.ops.push(Op::Response);
        }
    }
    if !script.datagrams {
        script.ops.extend(match (session.end, of_client) {
            (RecordedEnd::ClientReset, true) | (RecordedEnd::ServerReset, false) => Some(Op::Reset),
            // who closes first goes on behind its last op
            (RecordedEnd::Client, true) | (RecordedEnd::Server, false) => None,
            _ => Some(Op::WaitClose),
        });
    }
    Ok(())
}

/// The longest that an end waits before it speaks.
pub(super) fn longest_wait(files: &Files, spec: &Capture) -> Result<Nanos, Fault> {
    let session = files.recorded_session(&spec.file, spec.session)?;
    Ok(said(session, spec).iter().map(|it| it.after).max().unwrap_or_default())
}

/// What is said. Where times are not kept, an end says all that it has to say at once.
fn said(session: &RecordedSession, spec: &Capture) -> Vec<Said> {
    let keeps_times = spec.keeps_times(session.transport == Transport::Udp);
    let mut all: Vec<Said> = Vec::with_capacity(session.turns.len());
    let joins = session.transport == Transport::Tcp && !keeps_times;
    let mut turns = session.turns.iter().peekable();
    while let Some(turn) = turns.next() {
        let by_client = turn.by_client;
        let after = match all.last() {
            _ if keeps_times => turn.after,
            Some(last) if last.by_client == by_client => spec.gap.unwrap_or_default(),
            Some(_) => spec.turnaround.unwrap_or_default(),
            None => Nanos::ZERO,
        };
        let mut bytes = Arc::clone(&turn.bytes);
        let goes_on = |next: &&crate::compile::RecordedTurn| joins && next.by_client == by_client;
        if turns.peek().is_some_and(goes_on) {
            let mut joined = bytes.to_vec();
            while let Some(next) = turns.next_if(goes_on) {
                joined.extend_from_slice(&next.bytes);
            }
            bytes = joined.into();
        }
        all.push(Said { by_client, after, bytes });
    }
    all
}

/// That each is a datagram that can be sent, and, where the clients are somebody else's, that no datagram gets more than one answer.
fn check_datagrams(said: &[Said], is_for_strangers: bool, file: &str) -> Result<(), Fault> {
    if let Some(it) =
        said.iter().find(|it| it.bytes.is_empty() || it.bytes.len() as u64 > MAX_DATAGRAM)
    {
        return Err(fault!(
            "a datagram of the session of the capture '{file}' has {} bytes, and a message has 1 to {MAX_DATAGRAM}",
            it.bytes.len();
            "take another session"
        ));
    }
    let unasked = said.first().is_some_and(|first| !first.by_client)
        || said.windows(2).any(|pair| matches!(pair, [a, b] if !a.by_client && !b.by_client));
    if is_for_strangers && unasked {
        return Err(fault!(
            "in the session of the capture '{file}' the server says more than one datagram for one of the client's: whoever \
             writes a wrong source address would turn it against others";
            "name 'from' as well, so that the clients are ours, or take another session"
        ));
    }
    Ok(())
}
