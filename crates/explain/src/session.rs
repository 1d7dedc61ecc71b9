//! A group of sessions: who talks to whom, when sessions start, what they say, and what they need.
//!
//! Bytes are those that programs say, each message at its mean length; heads of HTTP are those that would be sent. Segments are
//! estimated for a path that loses nothing.

use wirebeat_traffic::program::script::{Body, Message, Script, SessionGroup};
use wirebeat_traffic::program::{Pace, Stream};
use wirebeat_traffic::scenario::session::program::{
    Direction, Exchange, Http, HttpBody, Method, Step, Steps,
};
use wirebeat_traffic::scenario::session::{Beyond, DataSize, Pool, ProgramSpec, SessionSpec};
use wirebeat_traffic::scenario::{Departures, FlowRate};
use wirebeat_units::{LINE_OVERHEAD, Nanos, human};

use crate::page::Page;
use crate::{Checked, Shown, flow, words};

/// Data of a full segment: 1500 bytes of Ethernet less the headers of IPv4 and TCP with timestamps (RFC 7323 §3.2).
const MSS: f64 = 1448.0;
/// Ethernet with FCS, IPv4 and TCP with timestamps; of IPv6 20 more.
const HEADERS: f64 = 18.0 + 20.0 + 32.0;
/// How long a closed connection keeps its ports (TIME-WAIT), in seconds: `TCP_TIMEWAIT_LEN` of Linux.
const TIME_WAIT: f64 = 60.0;
/// The ports that Linux takes by itself where nothing else is set: 32768 to 60999 (`ip_local_port_range`).
const EPHEMERAL: u64 = 28_232;

/// What one session says, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Volume {
    bytes: f64,
    /// Segments with data.
    segments: f64,
}

impl Volume {
    /// So many messages of the same mean length.
    fn messages(count: f64, bytes: f64) -> Volume {
        Volume { bytes: count * bytes, segments: count * (bytes / MSS).ceil() }
    }

    fn and(self, other: Volume) -> Volume {
        Volume { bytes: self.bytes + other.bytes, segments: self.segments + other.segments }
    }
}

/// What a session says in both directions; `None`: nobody knows before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Volumes {
    up: Option<Volume>,
    down: Option<Volume>,
}

/// Explains group number `number`.
pub fn explain(page: &mut Page, checked: &Checked, number: usize, shown: Shown) {
    let Some((name, spec)) = checked.scenario.sessions.get_index(number) else { return };
    let Some(group) = checked.sessions.groups.get(number) else { return };
    page.heading(&format!("sessions {name}"));
    page.fact("ends", &ends(spec));
    if spec.from.is_some() {
        page.fact("clients", &pool(&group.clients.pool, "the system's choice"));
    }
    page.fact("servers", &pool(&group.servers.pool, "those of the interface"));
    let streams = group.starts.map_or(&[][..], |flow| checked.sessions.starts.streams(flow));
    when(page, spec, group, streams);
    if let Some(flow) =
        group.starts.filter(|_| streams.iter().any(|one| one.departures.pace != Pace::Unlimited))
    {
        flow::departures(page, &checked.sessions.starts, flow, shown.departures);
    }
    page.fact("program", &program(&spec.program));
    let volumes = volumes(&spec.program, group);
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

fn pool(pool: &Pool, none: &str) -> String {
    let addresses = match pool.addresses.len() {
        0 => none.to_owned(),
        1 => pool.addresses.to_string(),
        many => format!("{} ({} addresses)", pool.addresses, human::count(many)),
    };
    match &pool.ports {
        None => addresses,
        Some(ports) if ports.len() == 1 => format!("{addresses}, port {ports}"),
        Some(ports) => format!("{addresses}, {} ports: {ports}", human::count(ports.len())),
    }
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
    let from =
        if spec.start == Nanos::ZERO { "the start".to_owned() } else { spec.start.to_string() };
    let end = match until.is_empty() {
        true => "without end".to_owned(),
        false => format!("until {}", until.join(", or until ")),
    };
    page.fact("time", &format!("from {from} {end}"));
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
        FlowRate::Fixed(_) => String::new(),
        // the units of frames are those of sessions here
        varying => format!("{}; ", words::rate(varying).replace("pps", "/s")),
    };
    let mean = pace.and_then(Pace::mean_rate).filter(|rate| *rate > 0.0);
    let every = mean.map(|rate| {
        let every = human::time(f64::from(spec.burst.get()) / rate);
        format!("{} sessions/s, {what} every {every}", flow::number(rate * 1e9))
    });
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
        Some(every) => format!("{rate}{how}: {every} on average"),
        None => format!("{rate}{how}"),
    }
}

/// What is said, in words.
fn program(program: &ProgramSpec) -> String {
    let times = |count: u32, what: &str| human::counted(count.into(), what);
    match program {
        ProgramSpec::Http(http) => {
            let mut text = format!(
                "HTTP/1.1, {}: {} {}",
                times(http.requests.get(), "request"),
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
            let way = match bulk.direction {
                Direction::Forward => "from the client to the server",
                Direction::Reverse => "from the server to the client",
                Direction::Both => "both ways at a time",
            };
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
        ProgramSpec::Steps(steps) => format!(
            "written out: {} of the client, {} of the server",
            human::counted(steps.client.len() as u64, "step"),
            human::counted(steps.server.len() as u64, "step")
        ),
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

/// The mean number of bytes, where there is one.
fn mean(size: &DataSize) -> Option<f64> {
    match size {
        DataSize::Fixed(bytes) => Some(bytes.get() as f64),
        DataSize::Drawn(drawn) => drawn.sampler(None).ok()?.mean(),
    }
}

/// What a session says.
fn volumes(program: &ProgramSpec, group: &SessionGroup) -> Volumes {
    match program {
        ProgramSpec::Http(http) => Volumes {
            up: group.client.as_ref().map(|script| requests(http, script)),
            // how many requests somebody else's clients make is theirs
            down: group.server.as_ref().and_then(|script| responses(http, script)),
        },
        ProgramSpec::RequestResponse(exchange) => {
            let Exchange { request, response, requests, .. } = &**exchange;
            let of = |size| Some(Volume::messages(requests.get().into(), mean(size)?));
            Volumes { up: of(request), down: of(response) }
        }
        ProgramSpec::Bulk(bulk) => {
            let all = bulk.bytes.map(|bytes| Volume::messages(1.0, bytes.get() as f64));
            let none = Some(Volume::default());
            match bulk.direction {
                Direction::Forward => Volumes { up: all, down: none },
                Direction::Reverse => Volumes { up: none, down: all },
                Direction::Both => Volumes { up: all, down: all },
            }
        }
        ProgramSpec::Echo(echo) => {
            let all =
                mean(&echo.size).map(|bytes| Volume::messages(echo.messages.get().into(), bytes));
            Volumes { up: all, down: all }
        }
        ProgramSpec::Steps(steps) => {
            let Steps { client, server } = &**steps;
            let of = |here: &[Step], there: &[Step], ours| match ours {
                true => sent(here, 1.0),
                // what one waits for is what the other has to send
                false => received(there, 1.0),
            };
            Volumes {
                up: of(client, server, group.client.is_some()),
                down: of(server, client, group.server.is_some()),
            }
        }
    }
}

fn requests(http: &Http, script: &Script) -> Volume {
    let head = script.messages.first().map_or(0, |message| message.head.len());
    let body = http.body.map_or(0, |body| body.get());
    Volume::messages(http.requests.get().into(), head as f64 + body as f64)
}

fn responses(http: &Http, script: &Script) -> Option<Volume> {
    // in the order in which they are compiled: with content, the last with content, and the same two without
    let to_head = http.method == Method::Head;
    let message = script.messages.get(if to_head { 2 } else { 0 })?;
    let body = match message.body {
        Body::None => 0.0,
        _ => mean(&http.size)?,
    };
    let chunks = match (http.framing, body > 0.0) {
        // "1000", twice CR LF; and the last chunk
        (HttpBody::Chunked, true) => (body / 4096.0).ceil() * 8.0 + 5.0,
        _ => 0.0,
    };
    let Message { head, .. } = message;
    Some(Volume::messages(http.requests.get().into(), head.len() as f64 + body + chunks))
}

fn sent(steps: &[Step], times: f64) -> Option<Volume> {
    total(steps, times, &|step| match step {
        Step::Send(size) => Some(mean(size)),
        Step::SendText(text) => Some(Some(text.len() as f64)),
        _ => None,
    })
}

fn received(steps: &[Step], times: f64) -> Option<Volume> {
    total(steps, times, &|step| match step {
        Step::Receive(size) => Some(mean(size)),
        // what comes before the text is not known
        Step::ReceiveUntil(_) => Some(None),
        _ => None,
    })
}

fn total(steps: &[Step], times: f64, of: &dyn Fn(&Step) -> Option<Option<f64>>) -> Option<Volume> {
    steps.iter().try_fold(Volume::default(), |sum, step| {
        Some(sum.and(match step {
            Step::Repeat(repeat) => {
                total(&repeat.steps, times * f64::from(repeat.times.get()), of)?
            }
            step => match of(step) {
                Some(bytes) => Volume::messages(times, bytes?),
                None => Volume::default(),
            },
        }))
    })
}

/// How much goes each way, and what that is at the planned rate.
fn data(
    page: &mut Page,
    spec: &SessionSpec,
    group: &SessionGroup,
    volumes: Volumes,
    rate: Option<f64>,
) {
    let unknown = match &spec.program {
        ProgramSpec::Bulk(_) => "as much as goes through",
        _ => "not known before",
    };
    let said = |volume: Option<Volume>| match volume {
        Some(volume) if volume.bytes == 0.0 => "nothing".to_owned(),
        Some(volume) => human::bytes(volume.bytes),
        None => unknown.to_owned(),
    };
    page.fact(
        "data",
        &format!(
            "of a session: to the server {}, to the client {}",
            said(volumes.up),
            said(volumes.down)
        ),
    );
    let Volumes { up: Some(up), down: Some(down) } = volumes else { return };
    // A receiver acknowledges every second full segment at least (RFC 9293 §3.8.6.3). SYN, its ACK, FIN and the last ACK go to the
    // server; SYN with ACK, ACK and FIN to the client. RST stands for all of the end.
    let control = if spec.tcp.reset { (3.0, 1.0) } else { (4.0, 3.0) };
    let to_server = up.segments + (down.segments / 2.0).ceil() + control.0;
    let to_client = down.segments + (up.segments / 2.0).ceil() + control.1;
    page.more(&format!(
        "about {} segments to the server and {} to the client, where nothing is lost and {MSS} bytes fit a segment",
        flow::number(to_server.round()),
        flow::number(to_client.round())
    ));
    let Some(rate) = rate else { return };
    let is_ipv6 = |pool: &Pool| pool.addresses.get(0).is_some_and(|address| address.is_ipv6());
    let headers = if is_ipv6(&group.servers.pool) { HEADERS + 20.0 } else { HEADERS };
    let line = |volume: Volume, segments: f64| {
        let each = headers + f64::from(LINE_OVERHEAD);
        human::bit_rate(rate * (volume.bytes + segments * each) * 8.0)
    };
    let payload = |volume: Volume| human::bit_rate(rate * volume.bytes * 8.0);
    page.fact(
        "bandwidth",
        &format!(
            "at {} sessions/s: to the server {} ({} on the line), to the client {} ({} on the line)",
            flow::number(rate),
            payload(up),
            line(up, to_server),
            payload(down),
            line(down, to_client)
        ),
    );
}

/// Who closes first, and has the connection in TIME-WAIT then (RFC 9293 §3.6).
fn closes_first(spec: &SessionSpec) -> &'static str {
    let server = match &spec.program {
        _ if spec.tcp.reset => return "nobody",
        ProgramSpec::Http(http) => {
            http.server_closes || spec.to.is_some() && http.framing == HttpBody::Close
        }
        ProgramSpec::Bulk(bulk) => bulk.direction == Direction::Reverse && bulk.bytes.is_some(),
        _ => false,
    };
    if server { "the server" } else { "the client" }
}

/// How many may be open, and which ports and how much memory that takes.
fn needs(page: &mut Page, spec: &SessionSpec, group: &SessionGroup, rate: Option<f64>) {
    let most = match (group.users, spec.limit) {
        (Some(users), Some(limit)) => Some(u64::from(users.min(limit.open.get()))),
        (Some(users), None) => Some(users.into()),
        (None, Some(limit)) => Some(limit.open.get().into()),
        (None, None) => spec.count.map(|count| count.get()),
    };
    let beyond = match spec.limit.map(|limit| limit.beyond) {
        Some(Beyond::Expire) => "; what is due beyond that is counted as expired",
        Some(Beyond::Queue) => "; what is due beyond that waits until another has ended",
        None => "",
    };
    let descriptors = if spec.from.is_some() && spec.to.is_some() { "two" } else { "one" };
    let open = match most {
        Some(most) => format!("at most {}{beyond}", human::count(most)),
        None => "as many as come together: there is no limit".to_owned(),
    };
    page.fact(
        "open",
        &format!("{open}; each takes {descriptors} of the file descriptors (ulimit -n)"),
    );
    page.fact("memory", &memory(spec, most));
    if spec.from.is_some() {
        page.fact("ports", &ports(spec, group, rate));
    }
}

fn memory(spec: &SessionSpec, most: Option<u64>) -> String {
    let (send, receive) = (spec.tcp.send_buffer, spec.tcp.receive_buffer);
    let (Some(send), Some(receive)) = (send, receive) else {
        return "buffers of each end as the system chooses them: up to the last numbers of net.ipv4.tcp_wmem and tcp_rmem".to_owned();
    };
    let each = send.get().saturating_add(receive.get()) as f64;
    match most {
        Some(most) => format!(
            "buffers of {} for each end of a session, {} for all; the system may double them",
            human::bytes(each),
            human::bytes(each * most as f64)
        ),
        None => format!(
            "buffers of {} for each end of a session; the system may double them",
            human::bytes(each)
        ),
    }
}

fn ports(spec: &SessionSpec, group: &SessionGroup, rate: Option<f64>) -> String {
    let closer = closes_first(spec);
    let (clients, servers) = (&group.clients.pool, &group.servers.pool);
    let each = clients.ports.as_ref().map_or(EPHEMERAL, |ports| ports.len());
    let ways = clients.addresses.len().max(1).saturating_mul(servers.addresses.len().max(1));
    let ways = ways.saturating_mul(servers.ports.as_ref().map_or(1, |ports| ports.len()));
    let there = each.saturating_mul(ways);
    let which = match clients.ports {
        Some(_) => "the pool's",
        None => "as Linux has them by itself",
    };
    let have = format!(
        "there are {} ({} for each client's and server's address and port: {which})",
        human::count(there),
        human::count(each)
    );
    if closer != "the client" {
        return format!(
            "{closer} closes first, so no port of a client waits after a session; {have}"
        );
    }
    let Some(rate) = rate else {
        return format!(
            "the client closes first, and its port waits for 60 s then (TIME-WAIT); {have}"
        );
    };
    let needed = spec.count.map_or(f64::MAX, |count| count.get() as f64).min(rate * TIME_WAIT);
    // until the run ends no more are taken than it starts
    let started = (group.stop < Nanos::MAX)
        .then(|| rate * group.stop.saturating_sub(group.start).get() as f64 / 1e9);
    let needed = started.map_or(needed, |started| needed.min(started));
    let verdict = match needed > there as f64 {
        true => {
            ". TOO FEW: sessions will fail here; give 'clients' more addresses, the servers more ports, or 'tcp: { reset: true }'"
        }
        false => "",
    };
    format!(
        "about {} are taken: the client closes first, and its port waits for 60 s then (TIME-WAIT); {have}{verdict}",
        flow::number(needed.ceil())
    )
}

#[cfg(test)]
mod tests {
    use wirebeat_report::format::Colour;
    use wirebeat_traffic::compile::Files;
    use wirebeat_traffic::scenario::Scenario;

    use crate::{Checked, Shown, page};

    fn explained(group: &str) -> String {
        let text = format!(
            "ports: {{ a: {{ addresses: [10.0.1.1] }}, b: {{ addresses: [10.0.2.9] }} }}\nsessions:\n  x: {group}\nrun: {{ time: 100s }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let checked = Checked::new(&scenario, &Files::default()).unwrap();
        let shown = Shown { frames: None, departures: 3 };
        let text = page(&checked, None, shown, Colour::Never).unwrap();
        // lines are broken anywhere
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_rate_needs_ports_for_a_minute() {
        let web = "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1000/s }";
        let page = explained(web);
        for says in [
            "1,000 sessions/s, a session every",
            "first due 0, 1, 2 ms, …",
            "about 60,000 are taken",
            "there are 28,232",
            "TOO FEW",
            "clients 10.0.1.1",
            "servers 10.0.2.9, port 80",
        ] {
            assert!(page.contains(says), "{says}: {page}");
        }
        let reset = explained(&web.replace("rate:", "tcp: { reset: true }, rate:"));
        assert!(reset.contains("nobody closes first") && !reset.contains("TOO FEW"), "{reset}");
        let slow = explained(&web.replace("1000/s", "100/s"));
        assert!(slow.contains("about 6,000 are taken") && !slow.contains("TOO FEW"), "{slow}");
        let few = explained(&web.replace("rate:", "count: 500, rate:"));
        assert!(few.contains("about 500 are taken"), "{few}");
    }

    #[test]
    fn bytes_and_segments_are_those_of_the_program() {
        let page = explained(
            "{ from: a, to: b, program: { request-response: { request: 1000B, response: 2896B, requests: 2 } }, \
             servers: { ports: 5 }, rate: 10/s }",
        );
        // 2 of data, 2 for 4 of the other side, and 4; 4 of data, 1 for 2, and 3
        for says in
            ["to the server 2", "5.79", "about 8 segments to the server and 8 to the client"]
        {
            assert!(page.contains(says), "{says}: {page}");
        }
        let steps = explained(
            "{ from: a, servers: { addresses: 10.0.3.1, ports: 5 }, users: 7, limit: { open: 5 }, think: 1s, program: { steps: { \
             client: [ repeat: { times: 3, steps: [ send: 100B, receive: 1kB ] }, receive-until: x ] } } }",
        );
        for says in ["to the server 300", "to the client not known before", "at most 5", "7 users"]
        {
            assert!(steps.contains(says), "{says}: {steps}");
        }
    }

    #[test]
    fn bulk_data_has_no_amount_of_its_own() {
        let page = explained(
            "{ from: a, to: b, program: { bulk: { direction: reverse } }, servers: { ports: 5 }, users: 4, count: 4, \
             tcp: { send-buffer: 1MiB, receive-buffer: 1MiB } }",
        );
        for says in ["to the server nothing, to the client as much as goes through", "buffers of"] {
            assert!(page.contains(says), "{says}: {page}");
        }
        let server = explained("{ to: b, program: echo, servers: { ports: 5 } }");
        assert!(
            server.contains("when the clients connect") && !server.contains("ports about"),
            "{server}"
        );
    }
}
