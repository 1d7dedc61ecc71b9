//! What sessions do, compiled: op tables for either end, and the constant bytes that they send.
//!
//! All that varies is a function of the session's number and of how often it was asked before, so that any core knows it without
//! the sessions before, and a byte that is sent again is made again. Bytes of generated data are those of one block of random
//! bytes ([`Script::pattern`]), over and over: byte `k` of a message is the same in every session.

use std::net::IpAddr;
use std::sync::Arc;

use wirebeat_dns::RecordType;
use wirebeat_units::{Comparison, Nanos};

use super::Program;
use super::misbehaviour::{Misbehaviour, Way};
use crate::distribution::Sampler;
use crate::distribution::draw::Key;
use crate::values::session::{
    Limit, MAX_DATA, OnTimeout, Pairing, Pool, PoolOrder, StackChoice, TcpSpec, Transport,
};

/// Length of the block of random bytes: the largest prime below 2^16, so that data that is displaced by a round number shows.
pub const PATTERN_LEN: usize = 65_521;

/// The sessions of a scenario, compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    /// The groups, in the order of the scenario.
    pub groups: Vec<SessionGroup>,
    /// When sessions start: a flow for each group of the open model, of the same name, whose frames stand for sessions.
    pub starts: Program,
}

impl Sessions {
    /// The most sessions of `group` that start at one time.
    pub fn burst(&self, group: &SessionGroup) -> u64 {
        let streams = group.starts.map_or(&[][..], |flow| self.starts.streams(flow));
        let bursts = streams.iter().map(|stream| u64::from(stream.departures.burst));
        bursts.max().unwrap_or(1).min(group.count)
    }

    /// How many sessions of `group`, whose clients' starts are in `self`, are to be open at a time, as far as the scenario says so: by a
    /// limit, the number of users, or how long each is held. 0 where it does not.
    pub fn expected_open(&self, group: &SessionGroup) -> u64 {
        let starts = group.starts.and_then(|flow| self.starts.offered(flow));
        let held = group.hold.as_ref().and_then(TimeLaw::mean).zip(starts);
        let by_hold = held.map(|(ns, (rate, _))| (rate.per_second() * ns / 1e9) as u64);
        let limit = group.limit.and_then(|limit| limit.most_open()).map(u64::from);
        let most = limit.or(group.users.map(u64::from)).or(by_hold).unwrap_or(0);
        let all = group.starts.and_then(|flow| self.starts.under_way(flow, group.end));
        let all = all.map_or(u64::MAX, |all| all.frames as u64);
        most.min(group.count).min(all)
    }
}

/// What a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The number of another group.
    pub group: u16,
    /// How many of its sessions are to be established.
    pub established: u64,
}

/// A group of sessions, compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionGroup {
    /// The name in the scenario.
    pub name: String,
    /// The port that opens its sessions, where it is ours.
    pub from: Option<String>,
    /// The port that accepts them, where it is ours.
    pub to: Option<String>,
    /// Whether both ends are ours, so that each knows what the other sends.
    pub both_ends: bool,
    /// The name of its program.
    pub program: &'static str,
    /// What our clients do.
    pub client: Option<Arc<Script>>,
    /// What our servers do.
    pub server: Option<Arc<Script>>,
    /// By what the sessions of both ends are put together.
    pub pair: Pairing,
    /// Whose TCP speaks.
    pub stack: StackChoice,
    /// What carries the messages.
    pub transport: Transport,
    /// Where sessions come from.
    pub clients: PoolWalk,
    /// Where they go to.
    pub servers: PoolWalk,
    /// The number of its flow in [`Sessions::starts`]; `None` for users and for servers alone.
    pub starts: Option<u32>,
    /// Users, in the closed model.
    pub users: Option<u32>,
    /// How long a user waits before the next session.
    pub think: Option<TimeLaw>,
    /// How long a session stays open at least.
    pub hold: Option<TimeLaw>,
    /// How long clients of ours keep silent by plan, at most: our servers wait as much longer for them.
    pub silence: Nanos,
    /// What it waits for: its times count from then on, instead of from the start of the run.
    pub after: Option<After>,
    /// It stops when so many of its sessions are established.
    pub until: Option<u64>,
    /// When users begin, from the start of the run.
    pub start: Nanos,
    /// When no session starts any more, from the start of the run.
    pub stop: Nanos,
    /// When the run is over, from its start, whatever the group waits for.
    pub end: Nanos,
    /// No more sessions than this.
    pub count: u64,
    /// How many may be open.
    pub limit: Option<Limit>,
    /// How long a session waits for its peer.
    pub timeout: Nanos,
    /// What clients do when a message over UDP did not come by then.
    pub on_timeout: OnTimeout,
    /// What is asked of TCP.
    pub tcp: TcpSpec,
    /// What is asked of TLS, where there is any.
    pub tls: Option<Arc<TlsPlan>>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
    /// The ToS byte or traffic class.
    pub tos: Option<u8>,
    /// Whether IPv4 packets forbid to fragment them.
    pub dont_fragment: Option<bool>,
}

/// What is asked of TLS, with the contents of the files that it names.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPlan {
    /// The name that clients ask for; `None`: the address of the server.
    pub server_name: Option<String>,
    /// Whether clients check certificates.
    pub verify: bool,
    /// Certificates of authorities in PEM; `None`: those of the system, or that of our own server alone.
    pub authority: Option<Arc<[u8]>>,
    /// Who servers are; `None`: they get a certificate that is made.
    pub identity: Option<TlsIdentity>,
    /// Whether version 1.2 is offered, and 1.3.
    pub versions: (bool, bool),
    /// Whether sessions are resumed.
    pub resume: bool,
    /// Application protocols.
    pub alpn: Vec<String>,
}

/// Who a server is: its certificate with those that lead to its issuer, and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificates.
    pub certificate: Arc<[u8]>,
    /// The key.
    pub key: Arc<[u8]>,
}

/// Without the private key.
impl std::fmt::Debug for TlsPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TlsPlan { server_name, verify, .. } = self;
        write!(f, "TlsPlan {{ server_name: {server_name:?}, verify: {verify}, .. }}")
    }
}

impl SessionGroup {
    /// Whether its clients begin to open sessions and do not open them in full.
    pub fn opens_by_half(&self) -> bool {
        let script = self.client.as_ref();
        let way = script.and_then(|script| script.misbehaviour).map(|of| of.way);
        way == Some(Way::HalfOpen)
    }
}

/// A pool and the order in which sessions take from it.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolWalk {
    /// The addresses and ports.
    pub pool: Pool,
    /// What draws, where it is at random.
    pub(crate) key: Option<Key>,
}

impl PoolWalk {
    pub(crate) fn new(pool: &Pool, key: Key) -> PoolWalk {
        PoolWalk { pool: pool.clone(), key: (pool.order == PoolOrder::Random).then_some(key) }
    }

    /// The address of number `n`, and how often that had its turn before; where it is drawn, a number that is drawn too.
    pub(crate) fn take(&self, n: u64) -> (Option<std::net::IpAddr>, u64) {
        let addresses = &self.pool.addresses;
        match &self.key {
            Some(key) => {
                let mut draw = key.draw(n);
                let address = addresses.at_random(|count| draw.below(count));
                (address, draw.below(u64::from(u32::MAX)))
            }
            None => addresses.in_turn(n),
        }
    }

    /// After how many numbers the addresses come again from the first; `None` where they are drawn, or have weights.
    pub(crate) fn cycle(&self) -> Option<u64> {
        let is_regular = self.key.is_none() && !self.pool.addresses.has_weights();
        is_regular.then(|| self.pool.addresses.len())
    }

    /// The address and the port of session number `n`: of an empty pool of addresses `None`, of one without ports 0.
    pub fn get(&self, n: u64) -> (Option<std::net::IpAddr>, u16) {
        let addresses = &self.pool.addresses;
        let ports = self.pool.ports.as_ref();
        let (address, port) = match &self.key {
            Some(key) => {
                let mut draw = key.draw(n);
                let address = addresses.at_random(|count| draw.below(count));
                (address, draw.below(ports.map_or(1, |ports| ports.len())))
            }
            None => addresses.in_turn(n),
        };
        (address, ports.map_or(0, |ports| ports.get(port)))
    }
}

/// A time: fixed, or drawn by number.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeLaw {
    /// Always the same.
    Fixed(Nanos),
    /// Drawn.
    Drawn(Box<Sampler>, Key),
}

impl TimeLaw {
    /// The time of number `n`.
    pub fn get(&self, n: u64) -> Nanos {
        match self {
            TimeLaw::Fixed(time) => *time,
            // negative and endless ones are not drawn
            TimeLaw::Drawn(sampler, key) => {
                Nanos::new(sampler.sample(&mut key.draw(n)).round() as u64)
            }
        }
    }

    /// The mean in ns, where there is one.
    pub fn mean(&self) -> Option<f64> {
        match self {
            TimeLaw::Fixed(time) => Some(time.get() as f64),
            TimeLaw::Drawn(sampler, _) => sampler.mean(),
        }
    }

    /// No time is taken to be longer than a day.
    pub const LONGEST: Nanos = Nanos::from_secs(86_400);

    /// The longest time, or one that one in 10^9 is longer than.
    pub fn longest(&self) -> Nanos {
        match self {
            TimeLaw::Fixed(time) => *time,
            TimeLaw::Drawn(sampler, _) => {
                let mut time = sampler.mean().unwrap_or(1e9).max(1.0);
                while sampler.cdf(time) < 1.0 - 1e-9 && time < Self::LONGEST.get() as f64 {
                    time *= 2.0;
                }
                Nanos::new(time as u64).min(Self::LONGEST)
            }
        }
    }
}

/// A number of bytes: fixed, or drawn by number.
#[derive(Clone, Debug, PartialEq)]
pub enum LengthLaw {
    /// Always as many.
    Fixed(u64),
    /// Drawn.
    Drawn(Box<Sampler>, Key),
}

impl LengthLaw {
    /// The length of number `n`.
    pub fn get(&self, n: u64) -> u64 {
        match self {
            LengthLaw::Fixed(bytes) => *bytes,
            LengthLaw::Drawn(sampler, key) => {
                let drawn = sampler.sample(&mut key.draw(n)).round();
                (drawn as u64).min(MAX_DATA)
            }
        }
    }
}

/// What one end does.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its ops, from the first; behind the last the session closes.
    pub ops: Vec<Op>,
    /// What it sends.
    pub messages: Vec<Message>,
    /// What it waits for.
    pub lengths: Vec<Receive>,
    /// Texts that it waits for.
    pub texts: Vec<Arc<[u8]>>,
    /// How long it waits.
    pub times: Vec<TimeLaw>,
    /// The names of its timers.
    pub timers: Vec<String>,
    /// The random bytes of generated data: [`PATTERN_LEN`] of them, and the first 65,536 of them again, so that any piece of up
    /// to 64 KiB lies in one piece.
    pub pattern: Arc<[u8]>,
    /// The content of responses of HTTP, where it is that of a file instead of generated data.
    pub content: Option<Arc<[u8]>>,
    /// Whether each message is a datagram: it has at least 1 byte and fits one, and may be lost.
    pub datagrams: bool,
    /// Whether what the other end of ours sends is known here: generated data, or that of a capture. Texts and files of steps are not.
    pub compares: bool,
    /// What it asks for or answers, where the program is DNS.
    pub dns: Option<DnsPart>,
    /// How it misbehaves, where it is a client that does.
    pub misbehaviour: Option<Misbehaviour>,
}

/// An end of DNS.
#[derive(Clone, Debug, PartialEq)]
pub enum DnsPart {
    /// The one that asks.
    Client(Arc<DnsClient>),
    /// The one that answers.
    Server(Arc<DnsServer>),
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsClient {
    /// The name, in pieces between which the number of the query stands.
    pub name: Vec<String>,
    /// The type of records.
    pub kind: RecordType,
    /// Whether the server is asked to ask others.
    pub recursion_desired: bool,
    /// How many queries.
    pub requests: u32,
    /// The time between a response and the next query, by its number.
    pub think: Option<u16>,
    /// The response code that is expected.
    pub expected: u16,
    /// What draws the IDs of queries.
    pub(crate) ids: Key,
}

impl DnsClient {
    /// The ID of query number `n` of the group.
    pub fn id(&self, n: u64) -> u16 {
        self.ids.draw(n).bits() as u16
    }
}

/// What a server answers to every query.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsServer {
    /// The addresses of every name.
    pub answers: Vec<IpAddr>,
    /// How many seconds they hold.
    pub ttl: u32,
    /// The response code.
    pub rcode: u16,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq)]
pub enum Receive {
    /// So many bytes of generated data.
    Bytes(u64),
    /// A message that begins with its length, 8 bytes, big-endian.
    Prefixed,
    /// What message number `n` of this end's is, sent back.
    Back(u16),
    /// These bytes, which the other end of ours sends.
    Known(Arc<[u8]>),
    /// A datagram.
    Message(Expected),
}

/// A datagram that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How long it is to be.
    pub length: ExpectedLength,
    /// Whether it begins with the number of what it answers, 8 bytes, big-endian.
    pub numbered: bool,
}

/// How long a datagram is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedLength {
    /// Nobody knows before.
    Any,
    /// So many bytes.
    Bytes(u64),
    /// As long as the message of this end's that it is the echo of.
    Back,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Constant bytes before the data.
    pub head: Arc<[u8]>,
    /// Where in the head the length of the data stands: 20 decimal digits, with zeros before it (RFC 9110 §8.6 allows them).
    pub length_at: Option<usize>,
    /// The data.
    pub body: Body,
}

/// Generated data behind a head.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// None.
    None,
    /// So many bytes.
    Generated(LengthLaw),
    /// The script's content, as many bytes as that has.
    Content(u64),
    /// Generated data, behind its length: 8 bytes, big-endian, which count among it.
    Prefixed(LengthLaw),
    /// The same in a datagram, which begins with a number of 8 bytes, big-endian: that of the request.
    Numbered(LengthLaw),
    /// The same behind what says its length, its number and its times: [`STAMP`](crate::values::session::STAMP) bytes, which
    /// count among it.
    Stamped(LengthLaw),
    /// The script's content where it has one, else generated data, in chunks of HTTP, of [`CHUNK`] bytes each.
    Chunked(LengthLaw),
    /// As much as goes through until the group's stop, or until the peer closes.
    Unlimited,
}

/// The length of a chunk of HTTP, in bytes of data.
pub const CHUNK: u64 = 4096;

/// A step of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sends message number `n`, and goes on when the stack has all of it.
    Send(u16),
    /// Waits for data.
    Receive(u16),
    /// Waits until text number `n` has come.
    ReceiveText(u16),
    /// Waits for as many bytes as text number `n` has, and counts those that are others.
    Expect(u16),
    /// Waits for a message of HTTP: a response at the client, a request at the server.
    ReceiveHttp(HttpMessage),
    /// Gives a variable a value.
    Set {
        /// Its number.
        variable: u8,
        /// The value.
        value: i32,
    },
    /// Adds to a variable.
    Add {
        /// Its number.
        variable: u8,
        /// What is added, wrapping.
        value: i32,
    },
    /// Goes on at another op where a variable compares so.
    JumpIf {
        /// Its number.
        variable: u8,
        /// How it is compared.
        comparison: Comparison,
        /// With what.
        value: i32,
        /// At which op.
        to: u16,
    },
    /// HTTP, the client's side: requests and responses until all are done.
    HttpClient(HttpClient),
    /// HTTP, the server's side: responds to each request until the peer closes, or this side has to.
    HttpServer(HttpServer),
    /// Sends everything back until the peer closes.
    Echo,
    /// Messages one way: those of this end by their plan; those of the other are measured whatever follows.
    Messages(OneWay),
    /// DNS, as the script's part of it says: until all queries were answered, or until the peer closes.
    Dns,
    /// Misbehaves, as the script's part of it says.
    Misbehave,
    /// A request begins.
    Request,
    /// Its response is complete.
    Response,
    /// Waits for time number `n`.
    Think(u16),
    /// Waits until the plan's next time: time number `n` after the last one. Late is at once.
    Pace(u16),
    /// Starts timer number `n`.
    Start(u16),
    /// Stops it.
    Stop(u16),
    /// Goes back to op `to` until it was done `times` times, counted in register `register`.
    Repeat {
        /// Which register.
        register: u8,
        /// How often the ops from `to` to here are done.
        times: u32,
        /// To which op.
        to: u16,
    },
    /// Goes on at op `n`.
    Jump(u16),
    /// Nothing follows: the session closes.
    End,
    /// Sends FIN.
    Shutdown,
    /// Waits until the peer has closed its side; what comes meanwhile is counted.
    WaitClose,
    /// Waits until the group's stop.
    UntilStop,
    /// Ends with RST.
    Reset,
}

/// Messages one way, of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// The message that it sends; `None`: it receives alone.
    pub sends: Option<u16>,
    /// The time from one to the next, by its number.
    pub gap: u16,
    /// How many it sends; `None`: as many as there is time for.
    pub count: Option<u32>,
    /// For how long they are planned; `None`: until there are as many, or until the group's stop where nothing else ends them.
    pub time: Option<Nanos>,
}

impl OneWay {
    /// Whether only the group's stop ends it, or the peer.
    pub fn is_endless(&self) -> bool {
        self.count.is_none() && self.time.is_none()
    }
}

/// Registers of a session, for repetitions within repetitions.
pub const REGISTERS: usize = 5;

/// The client's side of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpClient {
    /// How many requests.
    pub requests: u32,
    /// How many wait for their responses at most.
    pub pipeline: u16,
    /// The message that all requests are, but for the last.
    pub request: u16,
    /// The last one: it may ask the server to close.
    pub last: u16,
    /// Content that follows when the server says 100 (Continue).
    pub content: Option<u16>,
    /// Whether responses have no content whatever their head says (HEAD).
    pub head: bool,
    /// The time between a response and the next request, by its number.
    pub think: Option<u16>,
    /// The length of content that is expected.
    pub expect_size: Option<u64>,
    /// The status that is expected.
    pub expect_status: Option<u16>,
    /// Whether content is compared with generated data.
    pub verify: bool,
}

/// A message of HTTP that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpMessage {
    /// Whether it is the response to HEAD, which has no content.
    pub head: bool,
    /// The status that is expected.
    pub expect_status: Option<u16>,
    /// The length of content that is expected.
    pub expect_size: Option<u64>,
    /// The interim response 100 (Continue), which a server sends to a client that waits for it.
    pub go_on: u16,
}

/// What a server of HTTP answers to clients of one version: messages by their numbers in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpResponses {
    /// The response, while the connection stays.
    pub response: u16,
    /// The response after which the connection is closed.
    pub last: u16,
    /// The same two without content, to HEAD.
    pub head: u16,
    /// The same.
    pub head_last: u16,
}

/// The server's side of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpServer {
    /// To clients of HTTP/1.1.
    pub current: HttpResponses,
    /// To clients of HTTP/1.0, which know no chunks (RFC 9112 §6.1). Their connection stays only where they ask for it, and are told so
    /// (§9.3).
    pub old: HttpResponses,
    /// The interim response 100 (Continue).
    pub go_on: u16,
    /// The response to what is not valid.
    pub bad: u16,
    /// Whether each response ends the connection: its end is that of the content.
    pub closes: bool,
}
