//! What is wrong with the scenario of a command line of `load` or `serve`, in the words of its flags.

use wirebeat_run::RunError;
use wirebeat_traffic::scenario::{Invalid, Scenario};

use crate::failure::Failure;

/// Keys of a group of sessions, and the flags that they come from.
const FLAGS: &[(&str, &str)] = &[
    ("rate", "--rate"),
    ("departures", "--departures"),
    ("users", "--users"),
    ("think", "--think"),
    ("hold", "--hold"),
    ("count", "--count"),
    ("limit", "--limit"),
    ("timeout", "--timeout"),
    ("clients.addresses", "--clients"),
    ("tcp.congestion", "--congestion"),
    ("tcp.mss", "--mss"),
    ("tcp.pacing", "--pacing"),
    ("tcp", TCP),
    ("tls.server-name", "--server-name"),
    ("tls.authority", "--authority"),
    ("tls.verify", "--insecure"),
    ("tls.certificate", "--certificate"),
    ("tls.key", "--key"),
    ("tls", "--tls"),
    ("dscp", "--dscp"),
    ("tos", "--tos"),
    ("ttl", "--ttl"),
    ("stack", "--stack"),
    ("transport", "--transport"),
    ("to", "--peer"),
    ("on-timeout", "--on-timeout"),
    ("program.type", "--type"),
    ("program.expect-rcode", "--expect-rcode"),
    ("program.answers", "--answer"),
    ("program.ttl", "--answer-ttl"),
    ("program.rcode", "--rcode"),
    ("expect", "--expect"),
    ("program.requests", "--requests"),
    ("program.messages", "--requests"),
    ("program.think", "--request-think"),
    ("program.gap", "--gap"),
    ("program.pipeline", "--pipeline"),
    ("program.server-closes", "--server-closes"),
    ("program.method", "--method"),
    ("program.headers", "--header"),
    ("program.response-headers", "--header"),
    ("program.body", "--body"),
    ("program.size", "--size"),
    ("program.status", "--status"),
    ("program.framing", "--framing"),
    ("program.expect-status", "--expect-status"),
    ("program.expect-size", "--expect-size"),
    ("program.request", "--request-size"),
    ("program.response", "--response-size"),
    ("program.bytes", "--bytes"),
];

/// The flag of all keys of `tcp` that have none of their own.
const TCP: &str = "--tcp";

/// Keys that come from no flag.
const OTHERS: &[(&str, &str)] = &[
    ("program.target", "the path of the URL"),
    ("program.name", "the name in the URL"),
    ("program.host", "the host of the URL"),
    ("servers.addresses", "the server's address"),
    ("servers.ports", "the server's port"),
];

/// Keys of the port.
const PORT: &[(&str, &str)] =
    &[("interface", "--interface"), ("namespace", "--namespace"), ("cores", "--cpu")];

/// For what says itself what is wrong, and no more.
const LAST_HINT: &str = "leave it out, or give another value";

/// Why the scenario is invalid.
pub fn invalid(problem: &Invalid, scenario: &Scenario) -> Failure {
    let failure = Failure::usage(problem.why.clone().map(in_flags)).hint(LAST_HINT);
    let at = problem.at.to_string();
    match place(&at, scenario) {
        Some("") => failure,
        // which of the keys it is
        Some(TCP) => failure.at(match at.split_once(".tcp.") {
            Some((_, key)) => format!("{TCP} {key}"),
            None => TCP.to_owned(),
        }),
        Some(place) => failure.at(place),
        None => failure.at(format!("{at} of --print-scenario")),
    }
}

/// Why the scenario cannot be run.
pub fn error(error: RunError, scenario: &Scenario) -> Failure {
    match &error {
        RunError::Scenario(error) => invalid(error.problem(), scenario),
        _ => Failure::new(error.exit().into(), error.fault().map(in_flags)),
    }
}

/// Remedies for a file as those for the command line.
fn in_flags(message: &str) -> String {
    let flags = FLAGS.iter().rev().map(|(key, flag)| (key.rsplit('.').next().unwrap_or(key), flag));
    flags
        .fold(message.to_owned(), |message, (key, flag)| message.replace(&format!("'{key}'"), flag))
}

/// The flag that a key of the scenario comes from; nothing for the whole group.
fn place(at: &str, scenario: &Scenario) -> Option<&'static str> {
    if at == "run.time" {
        return Some("--time");
    }
    let port = scenario
        .ports
        .keys()
        .find_map(|name| at.strip_prefix("ports.")?.strip_prefix(name.as_str())?.strip_prefix('.'));
    if let Some(key) = port {
        let found = PORT.iter().find(|(known, _)| key.starts_with(known));
        return found.map(|(_, flag)| *flag);
    }
    let key = scenario.sessions.keys().find_map(|name| {
        let key = at.strip_prefix("sessions.")?.strip_prefix(name.as_str())?;
        key.strip_prefix('.').or(key.is_empty().then_some(""))
    })?;
    if key.is_empty() {
        return Some("");
    }
    let known = |key: &str| {
        let found = FLAGS.iter().chain(OTHERS).find(|(known, _)| *known == key);
        found.map(|(_, flag)| *flag)
    };
    // the longest beginning that comes from a flag: expect[0], limit.open
    let ends = key.char_indices().filter(|(_, letter)| ".[".contains(*letter)).map(|(at, _)| at);
    let ends: Vec<usize> = ends.chain([key.len()]).collect();
    ends.iter().rev().find_map(|end| known(key.get(..*end)?))
}
