//! How much a session says: bytes and segments each way, and the bandwidth at the planned rate.
//!
//! Bytes are those that programs say, each message at its mean length; heads of HTTP are those that would be sent. Segments are
//! estimated for a path that loses nothing.

use wirebeat_traffic::program::script::{Body, Message, Op, Script, SessionGroup};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::program::{
    Direction, Exchange, Http, HttpBody, Method, Step, Steps,
};
use wirebeat_traffic::scenario::session::{DataSize, Pool, ProgramSpec, SessionSpec, Transport};
use wirebeat_units::{LINE_OVERHEAD, Nanos, human};

use crate::flow;
use crate::page::Page;

/// Data of a full segment: 1500 bytes of Ethernet less the headers of IPv4 and TCP with timestamps (RFC 7323 §3.2).
const MSS: f64 = 1448.0;
/// Ethernet with FCS, IPv4 and TCP with timestamps; of IPv6 20 more.
const HEADERS: f64 = 18.0 + 20.0 + 32.0;
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
pub(super) struct Volumes {
    up: Option<Volume>,
    down: Option<Volume>,
}

/// How much goes each way, and what that is at the planned rate.
pub(super) fn data(
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
    if spec.transport == Transport::Udp {
        return;
    }
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
    let Some(starts) = rate else { return };
    // Sessions that last longer than they go on starting are never all at the full rate: their data is spread over that time.
    let lasts = pauses(spec);
    let starting = spec.count.map_or(f64::MAX, |count| count.get() as f64 / starts);
    let starting = match group.stop < Nanos::MAX {
        true => starting.min(group.stop.saturating_sub(group.start).get() as f64 / 1e9),
        false => starting,
    };
    let rate = if lasts > starting { starts * starting / lasts } else { starts };
    let each = match lasts > 0.0 {
        true => format!(", each {} at least by its pauses", human::time(lasts * 1e9)),
        false => String::new(),
    };
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
            "at {} sessions/s{each}: to the server {} ({} on the line), to the client {} ({} on the line)",
            flow::number(starts),
            payload(up),
            line(up, to_server),
            payload(down),
            line(down, to_client)
        ),
    );
}

/// The mean number of bytes, where there is one.
pub(super) fn mean(size: &DataSize) -> Option<f64> {
    match size {
        DataSize::Fixed(bytes) => Some(bytes.get() as f64),
        DataSize::Drawn(drawn) => drawn.sampler(None).ok()?.mean(),
    }
}

/// How many seconds a session lasts by its pauses alone, on average.
pub(super) fn pauses(spec: &SessionSpec) -> f64 {
    let mean = |time: &Option<Duration>| match time {
        None => 0.0,
        Some(Duration::Fixed(time)) => time.get() as f64 / 1e9,
        Some(Duration::Drawn(drawn)) => drawn.mean().unwrap_or(0.0) / 1e9,
    };
    let between =
        |count: u32, time: &Option<Duration>| f64::from(count - count.min(1)) * mean(time);
    let program = match &spec.program {
        ProgramSpec::Http(http) => between(http.requests.get(), &http.think),
        ProgramSpec::RequestResponse(exchange) => between(exchange.requests.get(), &exchange.think),
        ProgramSpec::Echo(echo) => between(echo.messages.get(), &echo.gap),
        ProgramSpec::Dns(dns) => between(dns.requests.get(), &dns.think),
        ProgramSpec::Bulk(_) | ProgramSpec::Steps(_) => 0.0,
    };
    program.max(mean(&spec.hold))
}

/// What a session says.
pub(super) fn volumes(spec: &SessionSpec, group: &SessionGroup) -> Volumes {
    match &spec.program {
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
        ProgramSpec::Dns(dns) => {
            // a header of 12 bytes and the question; over TCP the length before it
            let name = dns.name.len() as f64 + 2.0;
            let prefix = if spec.transport == Transport::Tcp { 2.0 } else { 0.0 };
            Volumes {
                up: Some(Volume::messages(dns.requests.get().into(), 12.0 + name + 4.0 + prefix)),
                // what the server answers is not known before
                down: None,
            }
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
    let client = script.ops.iter().find_map(|op| match op {
        Op::HttpClient(client) => script.messages.get(usize::from(client.request)),
        _ => None,
    });
    let head = client.map_or(0, |message| message.head.len());
    let body = http.body.map_or(0, |body| body.get());
    Volume::messages(http.requests.get().into(), head as f64 + body as f64)
}

fn responses(http: &Http, script: &Script) -> Option<Volume> {
    let server = script.ops.iter().find_map(|op| match op {
        Op::HttpServer(server) => Some(server),
        _ => None,
    })?;
    let number =
        if http.method == Method::Head { server.current.head } else { server.current.response };
    let message = script.messages.get(usize::from(number))?;
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
