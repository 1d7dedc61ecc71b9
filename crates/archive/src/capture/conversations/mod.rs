//! Conversations out of a capture: what each end of a TCP connection or of an exchange over UDP said, in turns.
//!
//! TCP is put in order by its sequence numbers: what was sent again counts once, whatever order it was captured in. A connection is
//! from its SYN to its end; a SYN with another number begins another one. Over UDP a conversation is what two ports say to each other until
//! neither says anything for [`UDP_IDLE_NS`]. Memory is bounded by [`CONVERSATIONS_MAX`], [`BYTES_MAX`] and [`TURNS_MAX`], which are errors.

mod segment;
mod stream;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use wirebeat_units::{Fault, fault, into_fault};
use wirebeat_wire::ip::Protocol;

use super::dissect::{self, Reason};
use super::sides::Side;
use super::steady::{HeldBack, Steady};
use super::{ReadError, Window};
use segment::Segment;
use stream::Stream;

/// The most conversations of a capture.
pub const CONVERSATIONS_MAX: usize = 1 << 18;
/// The most bytes of all conversations that are kept.
pub const BYTES_MAX: u64 = 256 << 20;
/// The most turns of all conversations that are kept.
pub const TURNS_MAX: u64 = 1 << 22;
/// A conversation over UDP is over when it was silent for so long, in nanoseconds: what Linux forgets a stream after is 120 s, and
/// a single packet 30 s (nf_conntrack_udp_timeout_stream, nf_conntrack_udp_timeout).
pub const UDP_IDLE_NS: i64 = 60_000_000_000;
/// Data of one end that comes so much later than what it said before is another turn, in nanoseconds.
const PAUSE_NS: i64 = 20_000_000;

/// What carries a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What one end said until the other did, or until it made a pause; over UDP, a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who.
    pub from: Side,
    /// Where its bytes lie in [`Conversation::bytes`].
    pub bytes: Range<usize>,
    /// When its first and its last bytes were captured, in nanoseconds since 1970.
    pub first_ns: i64,
    /// See `first_ns`.
    pub last_ns: i64,
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Not: the capture did first, or it is over UDP.
    Open,
    /// By FIN, of this end first.
    Closed(Side),
    /// By RST of this end.
    Reset(Side),
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its number in the capture, from 1, in the order of their first packets.
    pub number: u64,
    /// What carries it.
    pub transport: Transport,
    /// Who opened it, or spoke first where that was not seen.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// When its first and its last packet were captured, in nanoseconds since 1970.
    pub first_ns: i64,
    /// See `first_ns`.
    pub last_ns: i64,
    /// Its packets.
    pub packets: u64,
    /// Bytes that the client and the server said.
    pub said: [u64; 2],
    /// What they said, in the order in which it was captured; without bytes where they were not asked for.
    pub turns: Vec<Turn>,
    /// The bytes of all turns.
    pub bytes: Vec<u8>,
    /// Whether its beginning was captured. Over UDP nobody can say; then it is.
    pub is_from_the_start: bool,
    /// How it ended.
    pub ending: Ending,
    /// Segments with data that had been there before.
    pub repeated: u64,
    /// Bytes that one end sent and the capture does not have.
    pub missing: u64,
}

impl Conversation {
    /// What this turn says.
    pub fn said_in(&self, turn: &Turn) -> &[u8] {
        self.bytes.get(turn.bytes.clone()).unwrap_or_default()
    }
}

/// Packets that belong to no conversation, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped([u64; Skipped::REASONS.len()]);

impl Skipped {
    /// The reasons, as what the packets are.
    pub const REASONS: [&'static str; 7] = [
        "of a link type that is not known here",
        "not IP",
        "fragments of IP packets",
        "neither TCP nor UDP",
        "cut short in the capture",
        "malformed",
        "without a time",
    ];

    /// Each reason, and how many there were.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Skipped::REASONS.into_iter().zip(self.0)
    }

    fn count(&mut self, reason: Reason) {
        let at = match reason {
            Reason::Link => 0,
            Reason::NotIp => 1,
            Reason::Fragment => 2,
            Reason::NotUdp | Reason::Long => 3,
            Reason::Cut => 4,
            Reason::Malformed => 5,
            Reason::Timeless => 6,
        };
        self.0[at] += 1;
    }
}

/// Whose bytes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Of all conversations.
    All,
    /// Of these, by their numbers.
    These(BTreeSet<u64>),
}

impl Keep {
    fn has(&self, number: u64) -> bool {
        match self {
            Keep::All => true,
            Keep::These(numbers) => numbers.contains(&number),
        }
    }
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of their numbers.
    pub conversations: Vec<Conversation>,
    /// Packets that belong to none.
    pub skipped: Skipped,
    /// Packets whose time ran backwards.
    pub held_back: HeldBack,
    /// The time of the first and of the last packet, in nanoseconds since 1970.
    pub span_ns: Option<(i64, i64)>,
}

/// Why a capture was not read.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum Error {
    /// It cannot be read.
    Read(ReadError),
    /// It has more conversations.
    Conversations,
    /// They have more bytes, or more of them wait for what stands before them.
    Bytes,
    /// They have more turns.
    Turns,
}

impl Error {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        const CUT: &str = "take a part of it, for instance with editcap -A or tshark -Y";
        match self {
            Error::Read(error) => Fault::from(error.to_string()),
            Error::Conversations => {
                fault!("the capture has more than {CONVERSATIONS_MAX} sessions"; "{CUT}")
            }
            Error::Bytes => fault!(
                "the sessions of the capture carry more than {} MiB", BYTES_MAX >> 20; "{CUT}"
            ),
            Error::Turns => {
                fault!("the ends of the capture's sessions speak by turns more than {TURNS_MAX} times"; "{CUT}")
            }
        }
    }
}

into_fault!(Error);

/// The conversations of a capture.
///
/// # Errors
/// Those of reading, and where there is more than fits.
pub fn read<R: Read>(mut frames: Window<R>, keep: Keep) -> Result<Found, Error> {
    let mut reader = Reader::new(keep);
    while frames.advance().map_err(Error::Read)? {
        let frame = frames.frame();
        let time = frame.time_ns.map(|ns| reader.steady.time(ns, || frames.place()));
        let seen = dissect::packet(&frame).and_then(|packet| {
            let time = time.ok_or(Reason::Timeless)?;
            let data = match packet.protocol {
                Protocol::TCP => packet.carried.clone(),
                Protocol::UDP => dissect::datagram(&frame, &packet)?,
                _ => return Err(Reason::NotUdp),
            };
            let bytes = frame.bytes.get(data).unwrap_or_default();
            let ends = [
                SocketAddr::new(packet.source, packet.ports[0]),
                SocketAddr::new(packet.destination, packet.ports[1]),
            ];
            Ok((time, packet.protocol, ends, bytes))
        });
        match seen {
            Ok((time, Protocol::UDP, ends, bytes)) => reader.datagram(time, ends, bytes)?,
            Ok((time, _, ends, bytes)) => match Segment::parse(bytes) {
                Some(segment) => {
                    let data = bytes.get(segment.data.clone()).unwrap_or_default();
                    reader.segment(time, ends, &segment, data)?;
                }
                None => reader.found.skipped.count(Reason::Malformed),
            },
            Err(reason) => reader.found.skipped.count(reason),
        }
    }
    Ok(reader.finish())
}

/// A conversation that goes on, or is over.
#[derive(Debug)]
struct Open {
    conversation: Conversation,
    keeps: bool,
    /// Of the client and the server.
    streams: [Stream; 2],
    acked: [Option<u32>; 2],
    /// The number of the client's SYN.
    syn: Option<u32>,
    is_over: bool,
}

/// Both ends, the lesser first, and what carries it.
type Key = ([(IpAddr, u16); 2], Transport);

struct Reader {
    keep: Keep,
    steady: Steady,
    /// The latest conversation between two ends.
    open: HashMap<Key, usize>,
    all: Vec<Open>,
    bytes: u64,
    turns: u64,
    /// What waits for what stands before it, in bytes.
    ahead: usize,
    found: Found,
}

fn key([a, b]: [SocketAddr; 2], transport: Transport) -> Key {
    let [a, b] = [(a.ip(), a.port()), (b.ip(), b.port())];
    ([a.min(b), a.max(b)], transport)
}

impl Reader {
    fn new(keep: Keep) -> Reader {
        Reader {
            keep,
            steady: Steady::default(),
            open: HashMap::new(),
            all: Vec::new(),
            bytes: 0,
            turns: 0,
            ahead: 0,
            found: Found::default(),
        }
    }

    /// Begins a conversation.
    fn begin(
        &mut self,
        transport: Transport,
        time: i64,
        [client, server]: [SocketAddr; 2],
    ) -> Result<usize, Error> {
        if self.all.len() >= CONVERSATIONS_MAX {
            return Err(Error::Conversations);
        }
        let at = self.all.len();
        let number = at as u64 + 1;
        self.all.push(Open {
            conversation: Conversation {
                number,
                transport,
                client,
                server,
                first_ns: time,
                last_ns: time,
                packets: 0,
                said: [0; 2],
                turns: Vec::new(),
                bytes: Vec::new(),
                is_from_the_start: transport == Transport::Udp,
                ending: Ending::Open,
                repeated: 0,
                missing: 0,
            },
            keeps: self.keep.has(number),
            streams: Default::default(),
            acked: [None; 2],
            syn: None,
            is_over: false,
        });
        self.open.insert(key([client, server], transport), at);
        Ok(at)
    }

    /// Notes a packet of a conversation, and says which end sent it.
    fn packet(&mut self, at: usize, time: i64, from: SocketAddr) -> Side {
        let conversation = &mut self.all[at].conversation;
        conversation.last_ns = time;
        conversation.packets += 1;
        let (first, last) = self.found.span_ns.get_or_insert((time, time));
        (*first, *last) = ((*first).min(time), (*last).max(time));
        if from == conversation.client { Side::Client } else { Side::Server }
    }

    fn datagram(&mut self, time: i64, ends: [SocketAddr; 2], data: &[u8]) -> Result<(), Error> {
        let known = self.open.get(&key(ends, Transport::Udp)).copied();
        let lasts =
            |at: &usize| time.saturating_sub(self.all[*at].conversation.last_ns) <= UDP_IDLE_NS;
        let at = match known.filter(lasts) {
            Some(at) => at,
            None => self.begin(Transport::Udp, time, ends)?,
        };
        let side = self.packet(at, time, ends[0]);
        self.say(at, time, side, data, true)
    }

    fn segment(
        &mut self,
        time: i64,
        ends: [SocketAddr; 2],
        segment: &Segment,
        data: &[u8],
    ) -> Result<(), Error> {
        let known = self.open.get(&key(ends, Transport::Tcp)).copied();
        let at = match known.filter(|at| !self.is_another(*at, ends[0], segment)) {
            Some(at) => at,
            // who answers a SYN is the server
            None if segment.syn && segment.ack.is_some() => {
                self.begin(Transport::Tcp, time, [ends[1], ends[0]])?
            }
            None => self.begin(Transport::Tcp, time, ends)?,
        };
        let side = self.packet(at, time, ends[0]);
        let open = &mut self.all[at];
        let (here, there) = match side {
            Side::Client => (0, 1),
            Side::Server => (1, 0),
        };
        if segment.syn {
            open.conversation.is_from_the_start = true;
            if side == Side::Client && segment.ack.is_none() {
                open.syn.get_or_insert(segment.seq);
            }
        }
        if let Some(ack) = segment.ack {
            if open.conversation.is_from_the_start {
                // where the SYN of the other end was not captured, its number is what is acknowledged first
                open.streams[there].begins(ack);
            }
            let later = |known: u32| ack.wrapping_sub(known) as i32 > 0;
            if open.acked[there].is_none_or(later) {
                open.acked[there] = Some(ack);
            }
        }
        if segment.rst {
            if !open.is_over {
                open.conversation.ending = Ending::Reset(side);
                open.is_over = true;
            }
            return Ok(());
        }
        if open.is_over && data.is_empty() {
            return Ok(());
        }
        // SYN has a number of its own before the data
        let seq = segment.seq.wrapping_add(segment.syn.into());
        let mut stream = std::mem::take(&mut open.streams[here]);
        self.ahead -= stream.ahead();
        let mut said = Ok(());
        stream.segment(seq, data, segment.fin, &mut |new| {
            if said.is_ok() {
                said = self.say(at, time, side, new, false);
            }
        });
        let closed = stream.is_closed();
        self.ahead += stream.ahead();
        if self.ahead as u64 > BYTES_MAX {
            return Err(Error::Bytes);
        }
        let open = &mut self.all[at];
        open.streams[here] = stream;
        if closed {
            if open.conversation.ending == Ending::Open {
                open.conversation.ending = Ending::Closed(side);
            }
            open.is_over |= open.streams[there].is_closed();
        }
        said
    }

    /// Whether a segment is of another connection than the latest between its ends.
    fn is_another(&self, at: usize, from: SocketAddr, segment: &Segment) -> bool {
        let open = &self.all[at];
        if !segment.syn || segment.ack.is_some() {
            return false;
        }
        let by_client = from == open.conversation.client;
        // a SYN that is sent again has the number of the first
        !(by_client && open.syn == Some(segment.seq))
    }

    /// Something that an end said.
    fn say(
        &mut self,
        at: usize,
        time: i64,
        side: Side,
        data: &[u8],
        is_message: bool,
    ) -> Result<(), Error> {
        let Open { conversation, keeps, .. } = &mut self.all[at];
        conversation.said[usize::from(side == Side::Server)] += data.len() as u64;
        if !*keeps {
            return Ok(());
        }
        let goes_on = |turn: &&mut Turn| {
            turn.from == side && !is_message && time.saturating_sub(turn.last_ns) <= PAUSE_NS
        };
        let begin = conversation.bytes.len();
        conversation.bytes.extend_from_slice(data);
        let end = conversation.bytes.len();
        match conversation.turns.last_mut().filter(goes_on) {
            Some(turn) => (turn.bytes.end, turn.last_ns) = (end, time),
            None => {
                self.turns += 1;
                conversation.turns.push(Turn {
                    from: side,
                    bytes: begin..end,
                    first_ns: time,
                    last_ns: time,
                });
            }
        }
        self.bytes += data.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(Error::Bytes);
        }
        if self.turns > TURNS_MAX {
            return Err(Error::Turns);
        }
        Ok(())
    }

    fn finish(mut self) -> Found {
        for at in 0..self.all.len() {
            for (number, side) in [Side::Client, Side::Server].into_iter().enumerate() {
                let open = &mut self.all[at];
                let (time, acked) = (open.conversation.last_ns, open.acked[number]);
                let mut stream = std::mem::take(&mut open.streams[number]);
                // there is room: it waited within the bounds
                stream.end(acked, &mut |new| drop(self.say(at, time, side, new, false)));
                let conversation = &mut self.all[at].conversation;
                conversation.repeated += stream.repeated;
                conversation.missing += stream.missing;
            }
        }
        self.found.held_back = *self.steady.held_back();
        self.found.conversations = self.all.into_iter().map(|open| open.conversation).collect();
        self.found
    }
}

#[cfg(test)]
mod tests;
