//! Programs over UDP: each message is a datagram, and a server goes on with a peer until it has been silent for long.

use std::sync::Arc;

use wirebeat_units::Fault;

use super::script::{ScriptMaker, add, add_receive, add_time, repeat, sends_literally};
use super::{captured, dns, messages, whole};
use crate::program::script::{
    Body, Expected, ExpectedLength, LengthLaw, Message, Op, Receive, Script,
};
use crate::scenario::session::program::{Echo, Exchange};
use crate::scenario::session::{DataSize, ProgramSpec};
use crate::values::session::NUMBER;

/// What clients do.
pub(super) fn client(maker: &mut ScriptMaker<'_>, script: &mut Script) -> Result<(), Fault> {
    match &maker.spec.program {
        ProgramSpec::RequestResponse(exchange) => {
            let Exchange { request, response, requests, think, .. } = &**exchange;
            let numbered = is_numbered(exchange);
            let law = maker.length(request)?;
            let sent = add(script, message(law, numbered));
            let received = add_receive(script, receive(response, numbered));
            let think = think.as_ref().map(|time| maker.time(time)).transpose()?;
            script.ops.extend(turn(sent, received));
            let think = think.map(|law| Op::Think(add_time(script, law)));
            repeat(script, requests.get(), think);
        }
        ProgramSpec::Echo(echo) => {
            let Echo { size, messages, gap } = &**echo;
            let numbered = has_room(size);
            let law = maker.length(size)?;
            let sent = add(script, message(law, numbered));
            let back = Expected { length: ExpectedLength::Back, numbered };
            let received = add_receive(script, Receive::Message(back));
            let gap = gap.as_ref().map(|time| maker.time(time)).transpose()?;
            script.ops.extend(turn(sent, received));
            let gap = gap.map(|law| Op::Pace(add_time(script, law)));
            repeat(script, messages.get(), gap);
        }
        ProgramSpec::Messages(spec) => messages::client(maker, spec, script)?,
        ProgramSpec::Dns(spec) => dns::client(maker, spec, script)?,
        ProgramSpec::Steps(steps) => {
            script.compares = !steps.server.iter().any(sends_literally);
            maker.written_out(&steps.client, script)?;
        }
        ProgramSpec::Capture(capture) => captured::end(maker, capture, script, true)?,
        // refused by the checks
        ProgramSpec::Http(_) | ProgramSpec::Bulk(_) | ProgramSpec::Misbehave(_) => {}
    }
    Ok(())
}

/// What servers do.
pub(super) fn server(maker: &mut ScriptMaker<'_>, script: &mut Script) -> Result<(), Fault> {
    match &maker.spec.program {
        ProgramSpec::RequestResponse(exchange) => {
            let Exchange { request, response, .. } = &**exchange;
            let numbered = is_numbered(exchange);
            let law = maker.length(response)?;
            let sent = add(script, message(law, numbered));
            let received = add_receive(script, receive(request, numbered));
            script.ops.extend([Op::Receive(received), Op::Send(sent), Op::Jump(0)]);
        }
        ProgramSpec::Echo(_) => script.ops.push(Op::Echo),
        ProgramSpec::Messages(spec) => messages::server(maker, spec, script)?,
        ProgramSpec::Dns(spec) => dns::server(spec, script),
        ProgramSpec::Steps(steps) => {
            script.compares = !steps.client.iter().any(sends_literally);
            maker.written_out(&steps.server, script)?;
        }
        ProgramSpec::Capture(capture) => captured::end(maker, capture, script, false)?,
        // refused by the checks
        ProgramSpec::Http(_) | ProgramSpec::Bulk(_) | ProgramSpec::Misbehave(_) => {}
    }
    Ok(())
}

/// A request and its response.
fn turn(sent: u16, received: u16) -> [Op; 4] {
    [Op::Request, Op::Send(sent), Op::Receive(received), Op::Response]
}

/// Whether the messages of an exchange begin with a number.
fn is_numbered(exchange: &Exchange) -> bool {
    exchange.numbers && has_room(&exchange.request) && has_room(&exchange.response)
}

/// Whether a message has room for a number; one whose size is drawn is made as long as that at least.
fn has_room(size: &DataSize) -> bool {
    match size {
        DataSize::Fixed(bytes) => bytes.get() >= NUMBER,
        DataSize::Drawn(_) => true,
    }
}

/// A datagram of generated data.
pub(super) fn message(law: LengthLaw, numbered: bool) -> Message {
    let body = if numbered { Body::Numbered(law) } else { Body::Generated(law) };
    Message { head: Arc::from([]), length_at: None, body }
}

/// The datagram that is waited for where the other end sends one of this size.
pub(super) fn receive(size: &DataSize, numbered: bool) -> Receive {
    let length = match size {
        DataSize::Fixed(bytes) => ExpectedLength::Bytes(whole(*bytes)),
        DataSize::Drawn(_) => ExpectedLength::Any,
    };
    Receive::Message(Expected { length, numbered })
}
