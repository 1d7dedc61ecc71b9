//! A group of sessions: who talks to whom, when sessions start, what they say, and what they need.
//!
//! `volume.rs` is how much that is, `needs.rs` what it takes of the machine, `misbehaviour.rs` what clients do that misbehave.

mod misbehaviour;
mod needs;
#[cfg(test)]
mod tests;
mod volume;

use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::program::{Pace, Stream};
use wirebeat_traffic::scenario::session::program::Direction;
use wirebeat_traffic::scenario::session::{
    DataSize, OnTimeout, ProgramSpec, SessionSpec, TlsSpec, Transport, in_sessions_per_second,
};
use wirebeat_traffic::scenario::{Departures, FlowRate};
use wirebeat_traffic::values::session::Pool;
use wirebeat_units::{Layer, Nanos, Rate, human};

use crate::page::Page;
use crate::{Checked, Shown, flow, words};
use needs::needs;
use volume::data;
use wirebeat_traffic::compile::volume::{mean, volumes};

/// Explains group number `number`.
pub fn explain(page: &mut Page, checked: &Checked, number: usize, shown: Shown) {
    let Some((name, spec)) = checked.scenario.sessions.get_index(number) else { return };
    let Some(group) = checked.sessions.groups.get(number) else { return };
    let spec = &*checked.scenario.with_share(name, spec);
    page.heading(&format!("sessions {name}"));
    page.fact("ends", &ends(spec));
    if spec.from.is_some() {
        page.fact(
            "clients",
            &pool(
                &group.clients.pool,
                &elsewhere(checked, spec.from.as_ref(), "the system's choice"),
            ),
        );
    }
    page.fact(
        "servers",
        &pool(&group.servers.pool, &elsewhere(checked, spec.to.as_ref(), "127.0.0.1")),
    );
    let streams = group.starts.map_or(&[][..], |flow| checked.sessions.starts.streams(flow));
    when(page, spec, group, streams);
    if let Some(flow) =
        group.starts.filter(|_| streams.iter().any(|one| one.departures.pace != Pace::Unlimited))
    {
        flow::departures(page, &checked.sessions.starts, flow, shown.departures);
    }
    page.fact("program", &program(&spec.program));
    if let Some(of) = spec.program.misbehaviour() {
        page.more(&misbehaviour::limits(of, spec, group));
    }
    match spec.transport {
        Transport::Udp => page.more(&over_udp(spec, group)),
        Transport::Sctp => page.more(
            "over SCTP: an association of the system's sockets, which ends both ways at once; nothing is told of its chunks and \
             round trips",
        ),
        Transport::Tcp => {}
    }
    if let Some(tls) = &spec.tls {
        page.fact("TLS", &over_tls(spec, tls));
        page.more(
            "what follows is of the program: handshakes, records and closing alerts come on top",
        );
    }
    let volumes = volumes(spec, group);
    let peak = streams.iter().filter_map(|one| one.departures.pace.peak_rate()).fold(0.0, f64::max);
    let rate = (peak > 0.0).then_some(peak * 1e9);
    data(page, spec, group, volumes, rate);
    needs(page, spec, group, rate);
    if !spec.expect.is_empty() {
        let all: Vec<String> = spec.expect.iter().map(ToString::to_string).collect();
        page.fact("expected", &format!("{}; exit code 4 otherwise", all.join(", ")));
    }
}

fn ends(spec: &SessionSpec) -> String {
    match (&spec.from, &spec.to) {
        (Some(from), Some(to)) => {
            format!("clients on port {from}, servers on port {to}: both are ours")
        }
        (Some(from), None) => format!("clients on port {from}; the servers are somebody else's"),
        (None, Some(to)) => format!("servers on port {to}; the clients are somebody else's"),
        (None, None) => String::new(),
    }
}

/// What is asked of TLS.
fn over_tls(spec: &SessionSpec, tls: &TlsSpec) -> String {
    let versions: Vec<&str> = tls.versions.iter().map(|version| version.name()).collect();
    let mut said =
        format!("{}; tickets {}", versions.join(" and "), if tls.resume { "on" } else { "off" });
    if spec.to.is_some() {
        said += match tls.certificate {
            Some(_) => "; the certificate of a file",
            None => "; a certificate that is made for the run",
        };
    }
    if spec.from.is_some() {
        said += match (tls.verify, &tls.authority, &spec.to) {
            (false, ..) => "; clients take any certificate",
            (true, Some(_), _) => "; clients trust the authorities of a file",
            (true, None, Some(_)) => "; clients take the certificate of our server alone",
            (true, None, None) => "; clients trust the authorities of the system",
        };
    }
    said
}

/// What addresses a pool has that has none of its own.
fn elsewhere(checked: &Checked, port: Option<&String>, usual: &str) -> String {
    let interface = port
        .and_then(|port| checked.scenario.ports.get(port))
        .and_then(|port| Some((port.interface.as_ref()?, port.namespace.as_ref())));
    match interface {
        Some((interface, Some(namespace))) => {
            format!("the first address of {interface} in the namespace {namespace}")
        }
        Some((interface, None)) => format!("the first address of {interface}"),
        None => usual.to_owned(),
    }
}

fn pool(pool: &Pool, none: &str) -> String {
    let addresses = match pool.addresses.len() {
        0 => none.to_owned(),
        1 => pool.addresses.to_string(),
        many => format!("{} ({} addresses)", pool.addresses, human::count(many)),
    };
    let ports = match &pool.ports {
        None => String::new(),
        Some(ports) if ports.len() == 1 => format!(", port {ports}"),
        Some(ports) => format!(", {} ports: {ports}", human::count(ports.len())),
    };
    let macs = match (&pool.macs, pool.addresses.len()) {
        (None, _) => String::new(),
        (Some(macs), 0 | 1) => format!(", at {}", macs.get(0)),
        (Some(macs), hosts) => format!(", at {} to {}", macs.get(0), macs.get(hosts - 1)),
    };
    format!("{addresses}{ports}{macs}")
}

/// When sessions start.
fn when(page: &mut Page, spec: &SessionSpec, group: &SessionGroup, streams: &[Stream]) {
    if spec.from.is_none() {
        return page.fact("starts", "when the clients connect");
    }
    if let Some(users) = group.users {
        let think = match &spec.think {
            Some(think) => format!("{} after", words::duration(think)),
            None => "as soon as".to_owned(),
        };
        let users = human::counted(users.into(), "user");
        let text = format!(
            "closed model: {users}, each with one session at a time, and the next {think} it has ended"
        );
        page.fact("starts", &text);
    } else {
        let first = streams.first().map(|stream| &stream.departures.pace);
        page.fact("starts", &format!("open model: {}", starts(spec, first)));
        for (time, _) in &spec.at {
            page.more(&format!("it changes at {time}"));
        }
    }
    let mut until = Vec::new();
    if group.stop < Nanos::MAX {
        until.push(group.stop.to_string());
    }
    if let Some(count) = spec.count {
        until.push(format!("{} started", human::counted(count.get(), "session")));
    }
    if let Some(reached) = spec.until {
        until.push(format!("{} established", human::counted(reached.established.get(), "session")));
    }
    let from =
        if spec.start == Nanos::ZERO { "the start".to_owned() } else { spec.start.to_string() };
    let end = match until.is_empty() {
        true => "without end".to_owned(),
        false => format!("until {}", until.join(", or until ")),
    };
    page.fact("time", &format!("from {from} {end}"));
    if let Some(after) = &spec.after {
        page.more(&format!(
            "these times count from when '{}' has {} established",
            after.group,
            human::counted(after.established.get(), "session")
        ));
    }
    for (key, rate) in spec.limit.iter().flat_map(|limit| limit.rates()) {
        let Some(rate) = rate else { continue };
        let rate = in_sessions_per_second(&FlowRate::Fixed(rate)).unwrap_or(rate.to_string());
        page.more(&format!("{key} is limited to {rate}, at even distances"));
    }
    if let Some(hold) = &spec.hold {
        page.more(&format!("each stays open for {} at least", words::duration(hold)));
    }
}

fn starts(spec: &SessionSpec, pace: Option<&Pace>) -> String {
    let what = match spec.burst.get() {
        1 => "a session".to_owned(),
        burst => format!("{burst} sessions"),
    };
    let rate = match &spec.rate {
        FlowRate::Fixed(Rate::Bits(rate, layer)) => {
            let at = match layer {
                Layer::Frame => String::new(),
                layer => format!(" ({layer})"),
            };
            format!("{}{at}, both directions together; ", human::bit_rate(rate.0 as f64))
        }
        FlowRate::Fixed(_) => String::new(),
        // the units of frames are those of sessions here
        varying => format!("{}; ", words::rate(varying).replace("pps", "/s")),
    };
    let mean = pace.and_then(Pace::mean_rate).filter(|rate| *rate > 0.0);
    let every = mean.map(|rate| {
        let every = human::time(f64::from(spec.burst.get()) / rate);
        format!("{} sessions/s, {what} every {every}", flow::number(rate * 1e9))
    });
    let ends_elsewhere =
        matches!(pace, Some(Pace::Profile(profile)) if !profile.curve.comes_again());
    let how = match (&spec.departures, pace) {
        (_, Some(Pace::Unlimited) | None) => return "all at once".to_owned(),
        (_, Some(Pace::Silent)) => return "paused at first".to_owned(),
        (Departures::Constant, Some(Pace::Constant(_))) => "constant".to_owned(),
        (Departures::Constant, _) => "as the rate says".to_owned(),
        (Departures::Jitter(jitter), _) => {
            format!("each up to {jitter} before or after its time at a constant rate")
        }
        (departures, _) => words::departures(departures),
    };
    match every {
        Some(every) if how == "constant" => format!("{rate}{how}: {every}"),
        Some(every) if ends_elsewhere => format!("{rate}{how}: {every} in the end"),
        Some(every) => format!("{rate}{how}: {every} on average"),
        None => format!("{rate}{how}"),
    }
}

/// What UDP makes of it.
fn over_udp(spec: &SessionSpec, group: &SessionGroup) -> String {
    let lost = match spec.on_timeout {
        OnTimeout::End => "ends the session",
        OnTimeout::Next => "is counted, and the session goes on",
    };
    format!(
        "over UDP: each message is a datagram, and a response that does not come within {} {lost}{}",
        spec.timeout,
        match is_fragmented(&spec.program, group) {
            true => format!(
                "; WARNING: messages of more than {UNFRAGMENTED} bytes leave in fragments of IP where the MTU is 1500, and are lost with any of them"
            ),
            false => String::new(),
        }
    )
}

/// Bytes of a message that fit a packet of 1500 bytes, behind the headers of IPv4 and UDP.
const UNFRAGMENTED: u64 = 1472;

/// Whether messages are longer than a packet of Ethernet.
fn is_fragmented(program: &ProgramSpec, group: &SessionGroup) -> bool {
    let long = |size: &DataSize| match size {
        DataSize::Fixed(bytes) => bytes.get() > UNFRAGMENTED,
        DataSize::Drawn(drawn) => drawn.max.is_some_and(|max| max.get() > UNFRAGMENTED),
    };
    match program {
        ProgramSpec::RequestResponse(exchange) => {
            long(&exchange.request) || long(&exchange.response)
        }
        ProgramSpec::Echo(echo) => long(&echo.size),
        ProgramSpec::Messages(messages) => long(&messages.size),
        ProgramSpec::Capture(_) => {
            [&group.client, &group.server].into_iter().flatten().any(|script| {
                script.messages.iter().any(|message| message.head.len() as u64 > UNFRAGMENTED)
            })
        }
        _ => false,
    }
}

/// What is said, in words.
fn program(program: &ProgramSpec) -> String {
    let times = |count: u32, what: &str| human::counted(count.into(), what);
    match program {
        ProgramSpec::Http(http) => {
            let mut text = format!(
                "HTTP/1.1, {}: {} {}",
                match program.is_endless() {
                    true => "as many requests as there is time for".to_owned(),
                    false => times(http.requests.get(), "request"),
                },
                http.method.name(),
                http.target
            );
            if http.pipeline.get() > 1 {
                text += &format!(", up to {} at a time", http.pipeline);
            }
            text
        }
        ProgramSpec::RequestResponse(exchange) => format!(
            "{} of {}, each answered by {}",
            times(exchange.requests.get(), "request"),
            size(&exchange.request),
            size(&exchange.response)
        ),
        ProgramSpec::Bulk(bulk) => {
            let way = way(bulk.direction);
            match bulk.bytes {
                Some(bytes) => format!("{bytes} of data {way}"),
                None => format!("as much data as goes through {way}"),
            }
        }
        ProgramSpec::Echo(echo) => format!(
            "{} of {}, which the server sends back{}",
            times(echo.messages.get(), "message"),
            size(&echo.size),
            match &echo.gap {
                Some(gap) =>
                    format!("; {} from one planned message to the next", words::duration(gap)),
                None => String::new(),
            }
        ),
        ProgramSpec::Messages(messages) => {
            let count = match (messages.messages, messages.time) {
                (Some(count), None) => times(count.get(), "message"),
                (Some(count), Some(time)) => {
                    format!("{} in {time} at most", times(count.get(), "message"))
                }
                (None, Some(time)) => format!("for {time} messages"),
                (None, None) => "messages".to_owned(),
            };
            format!(
                "{count} of {} {}, {} from one planned message to the next; the delay of each is measured",
                size(&messages.size),
                way(messages.direction),
                words::duration(&messages.gap)
            )
        }
        ProgramSpec::Dns(dns) => format!(
            "DNS: {} for {} of {}",
            match dns.requests.get() {
                1 => "1 query".to_owned(),
                many => format!("{} queries", human::count(many.into())),
            },
            dns.kind.0,
            dns.name
        ),
        ProgramSpec::Capture(capture) => match capture.session {
            Some(number) => format!("session {number} of the capture {}", capture.file),
            None => format!("the session of the capture {}", capture.file),
        },
        ProgramSpec::Misbehave(of) => misbehaviour::program(of),
        ProgramSpec::Steps(steps) => format!(
            "written out: {} of the client, {} of the server",
            human::counted(steps.client.len() as u64, "step"),
            human::counted(steps.server.len() as u64, "step")
        ),
    }
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "from the client to the server",
        Direction::Reverse => "from the server to the client",
        Direction::Both => "both ways at a time",
    }
}

fn size(size: &DataSize) -> String {
    match size {
        DataSize::Fixed(bytes) => bytes.to_string(),
        DataSize::Drawn(drawn) => {
            let mean = mean(size)
                .map_or(String::new(), |mean| format!(", {} on average", human::bytes(mean)));
            format!(
                "{} bytes{mean}",
                words::distribution(drawn.distribution.name(), &drawn.distribution)
            )
        }
    }
}
