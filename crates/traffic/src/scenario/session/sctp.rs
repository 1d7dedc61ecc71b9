//! What sessions over SCTP can be (RFC 9260): associations of the system's one-to-one sockets, read as a stream each way.
//!
//! An association has no half-closed state (RFC 9260 §9.2): who shuts it down ends both ways, and the other end can send nothing more.
//! So programs that go on after one end is done are refused, and options of TCP by their names.

use wirebeat_units::{Fault, fault};

use super::program::{Direction, Step, Steps};
use super::{Invalid, KeyPath, Measured, ProgramSpec, SessionSpec, StackChoice, Transport};

/// The keys of `tcp` that sockets of SCTP have too; `reset` is ABORT there (RFC 9260 §9.1).
const OF_BOTH: [&str; 4] = ["nagle", "send-buffer", "receive-buffer", "reset"];
/// Counters and times that the system tells of TCP alone.
const OF_TCP: [&str; 2] = ["rtt", "retransmitted-segments"];
const REMEDY: &str = "leave 'transport: sctp' out";

/// Finds what is invalid of a group over SCTP.
pub(super) fn check(name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    if spec.transport != Transport::Sctp {
        return Ok(());
    }
    let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
    if spec.stack == StackChoice::Own {
        return Err(at("transport").invalid(
            fault!("our own stack has no SCTP"; "use 'stack: host', or leave 'transport: sctp' out"),
        ));
    }
    if spec.tls.is_some() {
        return Err(at("tls").invalid(
            fault!("there is no TLS over SCTP here (RFC 3436)"; "leave one of both out"),
        ));
    }
    if spec.dont_fragment.is_some() {
        return Err(at("dont-fragment").invalid(fault!(
            "SCTP finds out by itself how long packets may be"; "leave it out"
        )));
    }
    // only what was asked for is written
    let asked = serde_json::to_value(&spec.tcp).unwrap_or_default();
    let mut keys = asked.as_object().into_iter().flat_map(|keys| keys.keys());
    if let Some(key) = keys.find(|key| !OF_BOTH.contains(&key.as_str())) {
        return Err(at("tcp").key(key).invalid(fault!(
            "'{key}' is asked of TCP, and these sessions are over SCTP";
            "leave it out; SCTP has {}", OF_BOTH.join(", ")
        )));
    }
    for (index, expectation) in spec.expect.iter().enumerate() {
        let of = match &expectation.measured {
            Measured::Counter(name) | Measured::Time { of: name, .. } => name,
            _ => continue,
        };
        if OF_TCP.contains(&of.as_str()) {
            return Err(at("expect").index(index).invalid(fault!(
                "'{of}' is what the system tells of TCP, and these sessions are over SCTP";
                "see connect, first-byte, response, refused, timed-out and reset"
            )));
        }
    }
    of_program(&spec.program).map_err(|(key, why)| match key {
        Some(key) => at("program").key(key).invalid(why),
        None => at("program").invalid(why),
    })
}

/// What a program needs that SCTP does not have: the key within it, and why.
fn of_program(program: &ProgramSpec) -> Result<(), (Option<&'static str>, Fault)> {
    let ends_together = |what: &str, remedy: &str| {
        let why = "an association of SCTP ends both ways at once (RFC 9260 §9.2)";
        fault!("{why}, and {what}"; "{remedy}")
    };
    match program {
        ProgramSpec::Bulk(bulk) => match (bulk.direction, bulk.bytes) {
            (Direction::Both, _) => Err((
                Some("direction"),
                ends_together(
                    "the end that is done first would stop the other",
                    "write forward or reverse, or a group for each direction",
                ),
            )),
            (Direction::Reverse, None) => Err((
                Some("direction"),
                ends_together(
                    "only the client's end would stop a server that sends without an end",
                    "write 'bytes', or let the client send (direction: forward)",
                ),
            )),
            _ => Ok(()),
        },
        ProgramSpec::Messages(messages) => match messages.direction {
            Direction::Both => Err((
                Some("direction"),
                ends_together(
                    "the end that is done first would stop the other",
                    "write forward or reverse, or a group for each direction",
                ),
            )),
            Direction::Reverse if messages.is_endless() => Err((
                Some("direction"),
                ends_together(
                    "only the client's end would stop a server that sends without an end",
                    "write 'messages' or 'time', or let the client send (direction: forward)",
                ),
            )),
            _ => Ok(()),
        },
        ProgramSpec::Steps(steps) => {
            let Steps { client, server } = &**steps;
            for (key, steps) in [("client", client), ("server", server)] {
                of_steps(steps, &mut Ended::default()).map_err(|what| {
                    (Some(key), ends_together(what, "leave out what follows, or 'shutdown'"))
                })?;
            }
            Ok(())
        }
        ProgramSpec::Dns(_) => Err((None, fault!("there is no DNS over SCTP"; "{REMEDY}"))),
        ProgramSpec::Capture(_) => {
            Err((None, fault!("sessions of captures are of TCP or UDP"; "{REMEDY}")))
        }
        ProgramSpec::Misbehave(_) => Err((None, fault!("it is TCP that is misused"; "{REMEDY}"))),
        ProgramSpec::Http(_) | ProgramSpec::RequestResponse(_) | ProgramSpec::Echo(_) => Ok(()),
    }
}

/// What is over after the steps so far.
#[derive(Default)]
struct Ended {
    /// This end has shut down.
    here: bool,
    /// The peer has.
    there: bool,
}

/// What cannot be done by steps, in words.
fn of_steps(steps: &[Step], ended: &mut Ended) -> Result<(), &'static str> {
    for step in steps {
        match step {
            Step::Shutdown => ended.here = true,
            Step::WaitClose => ended.there = true,
            Step::Repeat(repeat) => of_steps(&repeat.steps, ended)?,
            Step::Send(_) | Step::SendText(_) | Step::SendHex(_) | Step::SendFile(_)
                if ended.there =>
            {
                return Err("nothing can be sent behind 'wait-close'");
            }
            Step::Receive(_)
            | Step::ReceiveUntil(_)
            | Step::ReceiveUntilHex(_)
            | Step::Expect(_)
            | Step::ExpectHex(_)
                if ended.here =>
            {
                return Err("nothing can be waited for behind 'shutdown' but 'wait-close'");
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn read(program: &str, keys: &str) -> Result<Scenario, String> {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions:\n  s:\n    from: a\n    transport: sctp\n    clients: {{ addresses: 10.0.0.1 }}\n    \
             servers: {{ addresses: 10.0.0.2, ports: 80 }}\n    program: {program}\n    rate: 10/s\n    {keys}\nrun: {{ time: 1s }}\n"
        );
        Scenario::from_yaml(&text, "test").map_err(|error| error.to_string())
    }

    #[test]
    fn programs_that_end_in_order_are_valid() {
        for program in [
            "http",
            "request-response",
            "echo",
            "bulk",
            "{ bulk: { bytes: 1MB, direction: reverse } }",
            "messages",
            "{ messages: { messages: 3, direction: reverse } }",
            "{ steps: { client: [ { send: 10B }, { receive: 10B }, shutdown, wait-close ], server: [ { receive: 10B }, { send: 10B }, wait-close ] } }",
        ] {
            let keys = "tcp: { nagle: true, send-buffer: 64kB, receive-buffer: 64kB, reset: true }";
            read(program, keys).unwrap_or_else(|error| panic!("{program}: {error}"));
        }
    }

    #[test]
    fn what_sctp_does_not_have_is_refused_by_name() {
        let refused = [
            (
                "{ bulk: { bytes: 1MB, direction: both } }",
                "",
                "program",
                "a group for each direction",
            ),
            ("{ bulk: { direction: reverse } }", "", "program", "write 'bytes'"),
            ("{ messages: { messages: 3, direction: both } }", "", "program", "a group for each"),
            ("{ messages: { direction: reverse } }", "", "program", "write 'messages' or 'time'"),
            ("{ dns: { name: a.example } }", "", "program", "no DNS over SCTP"),
            (
                "{ steps: { client: [ shutdown, { receive: 1B } ], server: [] } }",
                "",
                "program",
                "waited for behind 'shutdown'",
            ),
            (
                "{ steps: { client: [ { send: 1B } ], server: [ wait-close, { send: 1B } ] } }",
                "",
                "program",
                "sent behind 'wait-close'",
            ),
            ("http", "tcp: { multipath: true }", "tcp.multipath", "SCTP has nagle"),
            ("http", "tcp: { zero-copy: true }", "tcp.zero-copy", "SCTP has nagle"),
            ("http", "tcp: { congestion: cubic }", "tcp.congestion", "is asked of TCP"),
            ("http", "tls: true", "tls", "RFC 3436"),
            ("http", "dont-fragment: false", "dont-fragment", "by itself"),
            ("http", "stack: own", "transport", "use 'stack: host'"),
            ("http", "expect: [ 'rtt.p99 < 1ms' ]", "expect", "over SCTP"),
            ("http", "on-timeout: next", "on-timeout", "over SCTP nothing is lost"),
        ];
        for (program, keys, place, words) in refused {
            let error = read(program, keys).unwrap_err();
            let place = format!("sessions.s.{place}");
            assert!(error.contains(&place) && error.contains(words), "{program} {keys}: {error}");
        }
    }
}
