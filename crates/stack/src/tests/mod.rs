//! The state machine against a peer that is played by hand: segments are written out, and what comes back is compared.

mod any_segment;
mod defects;
mod freebsd;
mod handshake;
mod icmp;
mod large;
mod memory;
mod recovery;
mod rules;
mod windows;

use std::net::IpAddr;

use wirebeat_units::Nanos;

use crate::api::{Accept, Application, Event, Limits, Received, Session, SessionId, Transmit};
use crate::options::{Options, Timestamps};
use crate::profile::{Congestion, Profile};
use crate::ranges::Range;
use crate::segment::{Checksum, Flags, Outgoing, Segment, Tuple};
use crate::seq::Seq;
use crate::stack::{Info, Open, Stack};

pub const SYN: Flags = Flags::SYN;
pub const ACK: Flags = Flags::ACK;
pub const RST: Flags = Flags::RST;
pub const FIN_ACK: Flags = Flags(0x11);
pub const SYN_ACK: Flags = Flags(0x12);
pub const PSH_ACK: Flags = Flags(0x18);
pub const RST_ACK: Flags = Flags(0x14);

/// Collects what the stack tells; what it sends are the letters of the alphabet.
#[derive(Debug, Default)]
pub struct Program {
    pub events: Vec<Event>,
    pub data: Vec<(u64, Vec<u8>)>,
    pub sessions: Vec<SessionId>,
    pub refuses: bool,
}

impl Application for Program {
    fn accept(&mut self, _: &Tuple) -> Accept {
        if self.refuses { Accept::Refuse } else { Accept::Session { profile: 0, user: 7 } }
    }
    fn payload(&mut self, _: Session, offset: u64, into: &mut [u8]) {
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = b'a' + (at % 26) as u8;
        }
    }
    fn received(&mut self, _: Session, received: Received<'_>) {
        self.data.push((received.offset, received.bytes.to_vec()));
    }
    fn event(&mut self, session: Session, event: Event) {
        if event == Event::Established {
            self.sessions.push(session.id);
        }
        self.events.push(event);
    }
}

/// A buffer for one packet after the other.
#[derive(Default)]
pub struct Packets {
    pub packets: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Transmit for Packets {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        self.buffer = vec![0xee; len];
        Some(&mut self.buffer)
    }
    fn commit(&mut self) {
        self.packets.push(std::mem::take(&mut self.buffer));
    }
}

/// A segment as the peer sees or sends it, with numbers relative to each side's first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seg {
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub len: usize,
}

pub fn seg(flags: Flags, seq: u32, ack: u32, len: usize) -> Seg {
    Seg { flags, seq, ack, len }
}

/// A stack and the peer that is played.
pub struct Play {
    pub stack: Stack,
    pub program: Program,
    pub now: Nanos,
    pub tuple: Tuple,
    /// The first numbers of both sides; ours is learnt from the first segment.
    pub iss: Option<Seq>,
    pub irs: Seq,
    pub window: u16,
    pub timestamps: Option<u32>,
    pub sack: Vec<(u32, u32)>,
    pub last: Vec<(Options, u16)>,
}

/// No options, no delays: what is sent is seen.
pub fn plain() -> Profile {
    Profile {
        mtu: 1040,
        window: 10_000,
        window_scaling: false,
        timestamps: false,
        sack: false,
        tail_loss_probe: false,
        congestion: Congestion::NewReno,
        nagle: false,
        delayed_ack: Nanos::ZERO,
        ..Profile::default()
    }
}

impl Play {
    pub fn new(profile: Profile) -> Play {
        let (local, remote): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Play {
            stack: Stack::new(&Limits::for_sessions(4), vec![profile], [1, 2], Nanos::from_secs(1)),
            program: Program::default(),
            now: Nanos::from_secs(1),
            tuple: Tuple { local, remote, local_port: 40_000, remote_port: 80 },
            iss: None,
            irs: Seq(0xffff_fff0),
            window: 60_000,
            timestamps: None,
            sack: Vec::new(),
            last: Vec::new(),
        }
    }

    pub fn open(&mut self) -> SessionId {
        let open = Open { tuple: self.tuple, profile: 0, user: 7 };
        self.stack.connect(self.now, &open).unwrap()
    }

    /// A session that this side opened; its number is 1 on both sides.
    pub fn established(profile: Profile, syn: Options) -> (Play, SessionId) {
        let mut play = Play::new(profile);
        let id = play.open();
        assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
        play.options(SYN_ACK, 0, 1, syn);
        assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)]);
        assert_eq!(play.program.events, [Event::Established]);
        play.program.events.clear();
        (play, id)
    }

    /// The packet of the peer with this segment.
    pub fn packet(&self, seg: &Seg, options: Options) -> Vec<u8> {
        let outgoing = Outgoing {
            tuple: self.tuple.reversed(),
            seq: self.irs.plus(seg.seq),
            ack: if seg.flags.has(ACK) { self.iss.unwrap_or(Seq(0)).plus(seg.ack) } else { Seq(0) },
            flags: seg.flags,
            window: self.window,
            options,
            payload_len: seg.len as u16,
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
        };
        let mut packet = vec![0; outgoing.packet_len()];
        assert!(outgoing.write(&mut packet, |into| into.fill(b'x')));
        packet
    }

    /// The peer sends a segment with `options`.
    pub fn options(&mut self, flags: Flags, seq: u32, ack: u32, options: Options) {
        let packet = self.packet(&seg(flags, seq, ack, 0), options);
        self.stack.receive(self.now, &packet, Checksum::Verify, &mut self.program);
    }

    /// The peer sends a segment.
    pub fn peer(&mut self, flags: Flags, seq: u32, ack: u32, len: usize) {
        let timestamps = self.timestamps.map(|value| Timestamps { value, echo: 0 });
        let mut options = Options { timestamps, ..Options::default() };
        let iss = self.iss.unwrap_or(Seq(0));
        for (start, end) in &self.sack {
            options.push_sack(Range::new(iss.plus(*start), iss.plus(*end)));
        }
        let packet = self.packet(&super::tests::seg(flags, seq, ack, len), options);
        self.stack.receive(self.now, &packet, Checksum::Verify, &mut self.program);
    }

    /// What the stack sends now.
    pub fn sent(&mut self) -> Vec<Seg> {
        let mut out = Packets::default();
        assert!(self.stack.transmit(self.now, &mut self.program, &mut out));
        assert!(
            self.stack.counters().segments_balance() && self.stack.counters().sessions_balance()
        );
        self.last.clear();
        let mut sent = Vec::new();
        for packet in &out.packets {
            let segment = Segment::read(packet, Checksum::Verify).unwrap();
            assert_eq!(segment.tuple, self.tuple.reversed());
            let is_reset = segment.flags.has(RST);
            let iss = if is_reset {
                self.iss.unwrap_or(Seq(0))
            } else {
                *self.iss.get_or_insert(segment.seq)
            };
            let ack = if segment.flags.has(ACK) { segment.ack.since(self.irs) } else { 0 };
            self.last.push((segment.options, segment.window));
            sent.push(seg(segment.flags, segment.seq.since(iss), ack, segment.payload.len()));
            let first = segment.seq.since(iss).wrapping_sub(1);
            let right =
                |(at, byte): (u64, &u8)| *byte == b'a' + ((u64::from(first) + at) % 26) as u8;
            assert!((0..).zip(segment.payload).all(right), "{segment:?}");
        }
        sent
    }

    /// Time passes, and timers run.
    pub fn wait(&mut self, ms: u64) {
        let until = self.now.saturating_add(Nanos::from_millis(ms));
        while let Some(next) = self.stack.next_timer(self.now).filter(|next| *next <= until) {
            self.now = self.now.max(next);
            while !self.stack.expire(self.now, 8, &mut self.program) {}
            if self.stack.has_output() {
                return;
            }
        }
        self.now = until;
    }

    pub fn info(&self, id: SessionId) -> Info {
        self.stack.info(id).unwrap()
    }
}
