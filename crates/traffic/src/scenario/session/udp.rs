//! What sessions over UDP can be: each message is a datagram, so it has a size that fits one, and there is no stream to end.

use wirebeat_units::{Fault, fault};

use super::program::{Direction, Step, Steps};
use super::{DataSize, Measured, OnTimeout, ProgramSpec, SessionSpec, TcpSpec};
use super::{Invalid, KeyPath, Transport};
use crate::values::session::MAX_DATAGRAM;

/// Counters and times that only TCP has.
const OF_TCP: [&str; 4] = ["connect", "rtt", "retransmitted-segments", "reset"];

/// Finds what is invalid of the transport of a group, and of what is for UDP alone.
pub(super) fn check(name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
    let numbers = match &spec.program {
        ProgramSpec::RequestResponse(exchange) => exchange.numbers,
        _ => true,
    };
    if spec.transport != Transport::Udp {
        let over = spec.transport.name().to_uppercase();
        if spec.on_timeout != OnTimeout::End {
            return Err(at("on-timeout").invalid(fault!(
                "over {over} nothing is lost within a session, so one that waits too long ends";
                "leave it out, or write 'transport: udp'"
            )));
        }
        if !numbers {
            return Err(at("program").key("numbers").invalid(fault!(
                "messages over {over} have no numbers"; "leave it out, or write 'transport: udp'"
            )));
        }
        return Ok(());
    }
    if spec.tcp != TcpSpec::default() {
        return Err(at("tcp")
            .invalid(fault!("over UDP there is no TCP to ask for anything"; "leave it out")));
    }
    if spec.on_timeout == OnTimeout::Next && spec.from.is_none() {
        return Err(at("on-timeout").invalid(fault!(
            "the clients are somebody else's, and only clients wait for responses"; "leave it out"
        )));
    }
    for (index, expectation) in spec.expect.iter().enumerate() {
        let of = match &expectation.measured {
            Measured::Counter(name) | Measured::Time { of: name, .. } => name,
            _ => continue,
        };
        if OF_TCP.contains(&of.as_str()) {
            return Err(at("expect").index(index).invalid(fault!(
                "'{of}' is of TCP, and these sessions are over UDP";
                "see first-byte, response, refused, timed-out and lost-responses"
            )));
        }
    }
    of_program(&spec.program).map_err(|(key, why)| match key {
        Some(key) => at("program").key(key).invalid(why),
        None => at("program").invalid(why),
    })
}

/// What a program says that no datagrams can: the key within it, and why.
fn of_program(program: &ProgramSpec) -> Result<(), (Option<&'static str>, Fault)> {
    let size = |key, size: &DataSize| of_size(size).map_err(|why| (Some(key), why));
    match program {
        ProgramSpec::Http(_) => Err((
            None,
            fault!("HTTP/1.1 needs a stream that loses nothing"; "leave 'transport: udp' out"),
        )),
        ProgramSpec::Bulk(_) => Err((
            None,
            fault!(
                "as much data as goes through is what TCP finds out: UDP has no flow control";
                "leave 'transport: udp' out, or send datagrams at a rate as a flow"
            ),
        )),
        ProgramSpec::RequestResponse(exchange) => {
            size("request", &exchange.request)?;
            size("response", &exchange.response)
        }
        ProgramSpec::Echo(echo) => size("size", &echo.size),
        ProgramSpec::Messages(messages) if messages.direction != Direction::Forward => Err((
            Some("direction"),
            fault!(
                "over UDP our servers send nothing that was not asked for: whoever writes a wrong source address would turn \
                 it against others";
                "let the client send (direction: forward), with 'from' and 'to' exchanged if need be"
            ),
        )),
        ProgramSpec::Messages(messages) => size("size", &messages.size),
        ProgramSpec::Misbehave(_) => {
            Err((None, fault!("it is TCP that is misused"; "leave 'transport: udp' out")))
        }
        // what a session of a capture says is known when the capture was read
        ProgramSpec::Dns(_) | ProgramSpec::Capture(_) => Ok(()),
        ProgramSpec::Steps(steps) => {
            let Steps { client, server } = &**steps;
            of_steps(client).map_err(|why| (Some("client"), why))?;
            of_steps(server).map_err(|why| (Some("server"), why))
        }
    }
}

fn of_size(size: &DataSize) -> Result<(), Fault> {
    let fits = |bytes: u64| match bytes {
        0 => Err(fault!("a datagram of no bytes is no message"; "write 1 byte or more")),
        1..=MAX_DATAGRAM => Ok(()),
        bytes => Err(fault!(
            "a message of {bytes} bytes is longer than a datagram can be, {MAX_DATAGRAM} bytes";
            "make it shorter, or leave 'transport: udp' out"
        )),
    };
    match size {
        DataSize::Fixed(bytes) => fits(bytes.get()),
        // what is drawn beyond that is as long as may be
        DataSize::Drawn(drawn) => {
            [drawn.min, drawn.max].into_iter().flatten().try_for_each(|bound| fits(bound.get()))
        }
    }
}

fn of_length(bytes: usize) -> Result<(), Fault> {
    of_size(&DataSize::Fixed(wirebeat_units::Bytes::new(bytes as u64)))
}

fn of_steps(steps: &[Step]) -> Result<(), Fault> {
    steps.iter().try_for_each(|step| match step {
        Step::Send(size) | Step::Receive(size) => of_size(size),
        Step::SendText(text) => of_length(text.len()),
        Step::SendHex(hex) => of_length(hex.bytes().len()),
        Step::Repeat(repeat) => of_steps(&repeat.steps),
        Step::ReceiveHttp(_) => Err(fault!(
            "HTTP/1.1 is spoken over TCP"; "leave 'receive-http' out, or 'transport'"
        )),
        Step::Shutdown | Step::WaitClose | Step::Reset => Err(fault!(
            "there is no connection to close over UDP: no 'shutdown', 'wait-close' or 'reset'";
            "leave it out; the session ends behind the last step"
        )),
        _ => Ok(()),
    })
}
