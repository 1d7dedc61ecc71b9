//! How much a session says: bytes and segments each way.
//!
//! Bytes are those that programs say, each message at its mean length; heads of HTTP are those that would be sent. Segments are
//! estimated for a path that loses nothing. Rates in bits a second become session starts by them, and `explain` prints them.

use wirebeat_dns::RecordType;
use wirebeat_units::{LINE_OVERHEAD, Layer};

use crate::program::script::{Body, Message, Op, Receive, Script, SessionGroup, TimeLaw};
use crate::scenario::departures::Duration;
use crate::scenario::session::program::{
    Direction, Exchange, Http, HttpBody, Messages, Method, Step, Steps,
};
use crate::scenario::session::{
    DataSize, ProgramSpec, SessionSpec, TlsSpec, TlsVersion, Transport,
};

/// Data of a full segment: 1500 bytes of Ethernet less the headers of IPv4 and TCP with timestamps (RFC 7323 §3.2).
pub const MSS: f64 = 1448.0;
/// Ethernet with FCS, IPv4 and TCP with timestamps; of IPv6 20 more.
const HEADERS: f64 = 18.0 + 20.0 + 32.0;

/// The shortest frame, with FCS (IEEE 802.3 §4.4.2).
const FRAME_MIN: u32 = 64;
/// Ethernet with FCS, IPv4 and UDP.
const DATAGRAM_HEADERS: f64 = 18.0 + 20.0 + 8.0;

/// The most plaintext of a record of TLS, and what is around it: header, type and tag (RFC 8446 §5.1, §5.2).
const RECORD: f64 = 16_384.0;
const RECORD_HEAD: f64 = 22.0;
/// Segments that are acknowledged one by one at the beginning of a message.
const AT_ONCE: f64 = 4.0;
/// An acknowledgment waits no longer for data to go with, in ns.
const DELAYED_ACK: f64 = 40e6;

/// What one session says, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Volume {
    /// Bytes of data.
    pub bytes: f64,
    /// Segments with data.
    pub segments: f64,
    /// How many messages these are.
    pub messages: f64,
    /// Bytes that fill up their frames where each message is a datagram over IPv4.
    padding: f64,
}

impl Volume {
    /// So many messages of the same mean length.
    fn messages(count: f64, bytes: f64) -> Volume {
        let messages = if bytes > 0.0 { count } else { 0.0 };
        let padding = messages * (f64::from(FRAME_MIN) - DATAGRAM_HEADERS - bytes).max(0.0);
        Volume { bytes: count * bytes, segments: count * (bytes / MSS).ceil(), messages, padding }
    }

    fn and(self, other: Volume) -> Volume {
        Volume {
            bytes: self.bytes + other.bytes,
            segments: self.segments + other.segments,
            messages: self.messages + other.messages,
            padding: self.padding + other.padding,
        }
    }

    /// With records of TLS around what is said.
    fn in_records(self) -> Volume {
        if self.messages == 0.0 {
            return self;
        }
        let of_message = self.bytes / self.messages;
        let records = (of_message / RECORD).ceil() * RECORD_HEAD;
        Volume::messages(self.messages, of_message + records)
    }

    /// The same where it is not: one for every second segment, and one at least for each message.
    fn streamed(self) -> f64 {
        (self.segments / 2.0).ceil().max(self.messages)
    }

    /// Acknowledgments of it that go alone, where its messages are answered: of the first few segments of a message, of every second
    /// one behind them (RFC 9293 §3.8.6.3), and of its last one where the end that has it says nothing for longer than an
    /// acknowledgment waits. The FIN carries that of the last.
    fn acknowledged(self, waits: bool) -> f64 {
        if self.messages == 0.0 {
            return 0.0;
        }
        let inner = self.segments / self.messages - 1.0;
        let alone = inner.min(AT_ONCE) + ((inner - AT_ONCE) / 2.0).max(0.0);
        let last = if waits { self.messages - 1.0 } else { 0.0 };
        (self.messages * alone + last).ceil()
    }
}

/// What a session says in both directions; `None`: nobody knows before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Volumes {
    /// To the server.
    pub up: Option<Volume>,
    /// To the client.
    pub down: Option<Volume>,
}

/// What is known of a session in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchanged {
    /// Data to the server, and to the client.
    pub data: [Volume; 2],
    /// All segments to the server, and to the client.
    pub segments: [f64; 2],
    /// Bytes of headers of each segment, the Ethernet header and FCS included.
    headers: f64,
    /// Whether short ones are filled up to the shortest frame.
    padded: bool,
}

impl Exchanged {
    /// Bits of a session in direction `way` (0: to the server) as a layer counts them.
    pub fn bits(&self, way: usize, layer: Layer) -> f64 {
        let (Some(data), Some(segments)) = (self.data.get(way), self.segments.get(way)) else {
            return 0.0;
        };
        let each = match layer {
            Layer::Payload => 0.0,
            Layer::Frame => self.headers,
            Layer::Line => self.headers + f64::from(LINE_OVERHEAD),
        };
        let padding = if self.padded && layer != Layer::Payload { data.padding } else { 0.0 };
        (data.bytes + padding + segments * each) * 8.0
    }
}

impl Volumes {
    /// With all segments, where both directions are known.
    pub fn exchanged(&self, spec: &SessionSpec, group: &SessionGroup) -> Option<Exchanged> {
        let (up, down) = (self.up?, self.down?);
        let ipv6 = group.servers.pool.addresses.get(0).is_some_and(|address| address.is_ipv6());
        let of_ip = if ipv6 { 20.0 } else { 0.0 };
        if spec.transport == Transport::Udp {
            // a datagram for each message, and nothing else
            let segments = [up.segments, down.segments];
            return Some(Exchanged {
                data: [up, down],
                segments,
                headers: DATAGRAM_HEADERS + of_ip,
                padded: !ipv6,
            });
        }
        let (mut up, mut down) = (up, down);
        if let Some(tls) = &spec.tls {
            let [client, server] = handshake(tls);
            up = up.in_records().and(client);
            down = down.in_records().and(server);
        }
        // SYN, FIN and the last ACK go to the server, SYN with ACK and FIN to the client; the first ACK goes with the first data. RST
        // stands for all of the end.
        let control = if spec.tcp.reset { (2.0, 1.0) } else { (3.0, 2.0) };
        let first = if up.segments > 0.0 { 0.0 } else { 1.0 };
        let [client, server] = [&group.client, &group.server].map(|script| {
            let times = script.iter().flat_map(|script| &script.times);
            times.filter_map(TimeLaw::mean).any(|mean| mean > DELAYED_ACK)
        });
        let segments = match is_dialogue(&spec.program) {
            true => [
                up.segments + down.acknowledged(client) + control.0 + first,
                down.segments + up.acknowledged(server) + control.1,
            ],
            // one way, or both at once
            false => [
                up.segments + down.streamed() + control.0 + first,
                down.segments + up.streamed() + control.1,
            ],
        };
        Some(Exchanged { data: [up, down], segments, headers: HEADERS + of_ip, padded: false })
    }
}

/// What a handshake of TLS adds with the closing alert, to the server and to the client: measured between two ends of ours, with the
/// certificate that is made where none is given. A chain of certificates of somebody else's server is some kB more. Where tickets are
/// given nearly all sessions resume an earlier one.
fn handshake(tls: &TlsSpec) -> [Volume; 2] {
    let of = |bytes, segments| Volume { bytes, segments, messages: segments, padding: 0.0 };
    match (tls.versions.contains(&TlsVersion::Tls13), tls.resume) {
        (true, true) => [of(483.0, 2.0), of(590.0, 2.0)],
        (true, false) => [of(314.0, 1.0), of(631.0, 1.0)],
        (false, true) => [of(362.0, 1.0), of(303.0, 1.0)],
        (false, false) => [of(259.0, 2.0), of(570.0, 2.0)],
    }
}

/// Whether its ends speak in turns.
fn is_dialogue(program: &ProgramSpec) -> bool {
    match program {
        ProgramSpec::Bulk(_) | ProgramSpec::Messages(_) | ProgramSpec::Misbehave(_) => false,
        ProgramSpec::Http(_)
        | ProgramSpec::RequestResponse(_)
        | ProgramSpec::Echo(_)
        | ProgramSpec::Dns(_)
        | ProgramSpec::Capture(_)
        | ProgramSpec::Steps(_) => true,
    }
}

/// The mean number of bytes, where there is one.
pub fn mean(size: &DataSize) -> Option<f64> {
    match size {
        DataSize::Fixed(bytes) => Some(bytes.get() as f64),
        DataSize::Drawn(drawn) => drawn.sampler(None).ok()?.mean(),
    }
}

/// What a session says.
pub fn volumes(spec: &SessionSpec, group: &SessionGroup) -> Volumes {
    match &spec.program {
        endless if endless.is_endless() => Volumes::default(),
        ProgramSpec::Http(http) => Volumes {
            up: group.client.as_ref().map(|script| requests(http, script)),
            down: match &group.server {
                Some(script) => responses(http, script),
                // of somebody else's server the content is known where it is expected, and the head is not
                None => http
                    .expect_size
                    .map(|size| Volume::messages(http.requests.get().into(), size.get() as f64)),
            },
        },
        ProgramSpec::RequestResponse(exchange) => {
            let Exchange { request, response, requests, .. } = &**exchange;
            let of = |size| Some(Volume::messages(requests.get().into(), mean(size)?));
            Volumes { up: of(request), down: of(response) }
        }
        ProgramSpec::Bulk(bulk) => {
            let all = bulk.bytes.map(|bytes| Volume::messages(1.0, bytes.get() as f64));
            directed(bulk.direction, all)
        }
        ProgramSpec::Echo(echo) => {
            let all =
                mean(&echo.size).map(|bytes| Volume::messages(echo.messages.get().into(), bytes));
            Volumes { up: all, down: all }
        }
        ProgramSpec::Messages(messages) => {
            let all = count(messages).zip(mean(&messages.size));
            directed(messages.direction, all.map(|(count, bytes)| Volume::messages(count, bytes)))
        }
        ProgramSpec::Dns(dns) => {
            // a header of 12 bytes and the question; over TCP the length before it
            let name = dns.name.len() as f64 + 2.0;
            let prefix = if spec.transport == Transport::Tcp { 2.0 } else { 0.0 };
            let query = 12.0 + name + 4.0 + prefix;
            let all = |bytes| Volume::messages(dns.requests.get().into(), bytes);
            // a pointer to the name, type, class, TTL, length and the address (RFC 1035 §3.2.1); what another's server answers is not
            // known before
            let answers: f64 = match dns.kind.0 {
                RecordType::A => dns.answers.iter().filter(|ip| ip.is_ipv4()).map(|_| 16.0).sum(),
                RecordType::Aaaa => {
                    dns.answers.iter().filter(|ip| ip.is_ipv6()).map(|_| 28.0).sum()
                }
                _ => 0.0,
            };
            let down = group.server.as_ref().map(|_| all(query + answers));
            Volumes { up: Some(all(query)), down }
        }
        ProgramSpec::Capture(_) => {
            // either end knows what both say
            let script = group.client.as_deref().or(group.server.as_deref());
            let (sent, received) = script.map(said).unwrap_or_default();
            match group.client {
                Some(_) => Volumes { up: Some(sent), down: received },
                None => Volumes { up: received, down: Some(sent) },
            }
        }
        // what a server says to that is its own
        ProgramSpec::Misbehave(_) => Volumes::default(),
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

/// What an end of a session out of a capture sends, and what it waits for where that has a known length.
fn said(script: &Script) -> (Volume, Option<Volume>) {
    let add = |volume: Volume, bytes: usize| volume.and(Volume::messages(1.0, bytes as f64));
    let mut all = (Volume::default(), Some(Volume::default()));
    for op in &script.ops {
        match op {
            Op::Send(message) => {
                let message = script.messages.get(usize::from(*message));
                all.0 = add(all.0, message.map_or(0, |message| message.head.len()));
            }
            Op::Receive(index) => {
                let bytes = match script.lengths.get(usize::from(*index)) {
                    Some(Receive::Known(bytes)) => Some(bytes.len()),
                    Some(Receive::Bytes(bytes)) => usize::try_from(*bytes).ok(),
                    _ => None,
                };
                all.1 = all.1.zip(bytes).map(|(volume, bytes)| add(volume, bytes));
            }
            Op::Expect(text) => {
                let text = script.texts.get(usize::from(*text));
                all.1 = all.1.map(|volume| add(volume, text.map_or(0, |text| text.len())));
            }
            _ => {}
        }
    }
    all
}

/// So much in one direction, or in both.
fn directed(direction: Direction, all: Option<Volume>) -> Volumes {
    let none = Some(Volume::default());
    match direction {
        Direction::Forward => Volumes { up: all, down: none },
        Direction::Reverse => Volumes { up: none, down: all },
        Direction::Both => Volumes { up: all, down: all },
    }
}

/// How many messages there are one way on average, where something but the group's stop ends them.
pub fn count(messages: &Messages) -> Option<f64> {
    let gap = match &messages.gap {
        Duration::Fixed(gap) => Some(gap.get() as f64),
        Duration::Drawn(drawn) => drawn.mean(),
    };
    let in_time = |time: wirebeat_units::Nanos| Some((time.get() as f64 / gap?).ceil().max(1.0));
    let in_time = messages.time.map(in_time);
    match (messages.messages, in_time) {
        (Some(messages), Some(in_time)) => Some(f64::from(messages.get()).min(in_time?)),
        (Some(messages), None) => Some(f64::from(messages.get())),
        (None, in_time) => in_time?,
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
        _ => match &script.content {
            Some(content) => content.len() as f64,
            None => mean(&http.size)?,
        },
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
        Step::SendHex(hex) => Some(Some(hex.bytes().len() as f64)),
        // how often something is repeated, and how long a file is
        Step::Jump(_) | Step::SendFile(_) => Some(None),
        _ => None,
    })
}

fn received(steps: &[Step], times: f64) -> Option<Volume> {
    total(steps, times, &|step| match step {
        Step::Receive(size) => Some(mean(size)),
        Step::Expect(text) => Some(Some(text.len() as f64)),
        Step::ExpectHex(hex) => Some(Some(hex.bytes().len() as f64)),
        // how long it is, or what comes before the text, is not known
        Step::ReceiveHttp(_) | Step::ReceiveUntil(_) | Step::ReceiveUntilHex(_) | Step::Jump(_) => {
            Some(None)
        }
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
