//! What a group whose clients misbehave needs beside its program: clients of ours, the TCP that can do it, and an end.

use wirebeat_units::fault;

use super::program::Misbehave;
use super::{AddressRange, Invalid, KeyPath, Scenario, SessionSpec, StackChoice};

/// Finds what is invalid of a group whose clients misbehave.
pub(super) fn check(scenario: &Scenario, name: &str, spec: &SessionSpec) -> Result<(), Invalid> {
    let Some(misbehave) = spec.program.misbehaviour() else { return Ok(()) };
    let at = |key: &str| KeyPath::root("sessions").key(name).key(key);
    let way = misbehave.name();
    if spec.from.is_none() {
        return Err(at("program").invalid(fault!(
            "it is the client that misbehaves, and the clients are somebody else's";
            "name the port of our clients in 'from', or write a program of a server, such as http"
        )));
    }
    let is_far = |port: &String| scenario.ports.get(port).is_some_and(|port| port.peer.is_some());
    if spec.to.as_ref().is_some_and(is_far) {
        return Err(at("program").invalid(fault!(
            "a listener on another host serves no clients that misbehave";
            "run 'wirebeat serve' there, and leave 'to' out"
        )));
    }
    if misbehave.needs_own_stack() && spec.stack == StackChoice::Host {
        return Err(at("stack").invalid(fault!(
            "the system's TCP does not do '{way}'"; "use 'stack: own'"
        )));
    }
    let anybody = |range: &AddressRange| range.first.is_unspecified();
    if spec.to.is_none() && spec.servers.addresses.0.iter().any(anybody) {
        return Err(at("servers").key("addresses").invalid(fault!(
            "this is no address of a server; a system takes it for its own";
            "name the server that is to be tested"
        )));
    }
    let reads_slowly = matches!(misbehave, Misbehave::SlowRead(_) | Misbehave::ZeroWindow(_));
    if spec.tls.is_some() && reads_slowly {
        return Err(at("tls").invalid(fault!(
            "TLS reads ahead of a program, so its TCP has no small window at once, as '{way}' wants it"; "leave 'tls' out"
        )));
    }
    let ends = misbehave.time().is_some() || misbehave.forged().is_some();
    if !ends && spec.stop.is_none() && scenario.run.time.is_none() {
        return Err(at("program").invalid(fault!(
            "nothing ends a session that the server does not end";
            "write for example '{way}: {{ time: 60s }}', or a 'time' of the run"
        )));
    }
    let is_limited = spec.count.is_some()
        || spec.users.is_some()
        || spec.limit.is_some_and(|limit| limit.open.is_some());
    if matches!(misbehave, Misbehave::HalfOpen(_)) && !is_limited {
        return Err(at("limit").invalid(fault!(
            "nothing says how many sessions are half-open at a time";
            "write for example 'limit: {{ open: 1000 }}', or a 'count'"
        )));
    }
    Ok(())
}
