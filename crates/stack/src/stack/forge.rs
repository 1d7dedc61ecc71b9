//! Segments that a sound TCP does not send, for tests of peers: made from where a session stands, which stays as it is.
//!
//! All here reads the stack and changes nothing of it, so that the state machine has no part in it: it counts none of these segments,
//! and takes what the peer answers as it takes everything.

use wirebeat_units::Nanos;

use super::{Open, Stack};
use crate::api::SessionId;
use crate::options::Options;
use crate::segment::{Flags, LEN, Outgoing, TTL, Tuple};
use crate::seq::Seq;
use crate::tcb::{Marks, State};

/// What the bytes of forged data are: no text, and not what generated data begins with.
const FILL: u8 = 0xa5;

/// A segment, by where its session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged {
    /// Where it begins.
    pub seq: Place,
    /// By how much it acknowledges more than was received.
    pub ack: i32,
    /// Control bits.
    pub flags: Flags,
    /// Bytes of data.
    pub payload_len: u16,
    /// Whether its checksum is wrong.
    pub wrong_checksum: bool,
}

/// A place among the sequence numbers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So far from the first number that is not acknowledged (SND.UNA).
    Una(i32),
    /// So far from the next number that is sent (SND.NXT).
    Next(i32),
    /// So far from the first number behind the peer's window (SND.UNA + SND.WND).
    Edge(i32),
    /// This number, without timestamps, as who does not see the session guesses it.
    Guess(u32),
}

/// A segment that is ready to be written.
#[derive(Clone, Copy, Debug)]
pub struct ForgedSegment {
    outgoing: Outgoing,
    wrong_checksum: bool,
    profile: u8,
}

impl ForgedSegment {
    /// The length of its packet, from the IP header on.
    pub fn packet_len(&self) -> usize {
        self.outgoing.packet_len()
    }

    /// The profile of its session.
    pub fn profile(&self) -> u8 {
        self.profile
    }

    /// Its first sequence number.
    pub fn seq(&self) -> Seq {
        self.outgoing.seq
    }

    /// Writes its packet into `into`, which has as many bytes. `false`, and a packet that may not be sent, where it has fewer.
    pub fn write(&self, into: &mut [u8]) -> bool {
        if !self.outgoing.write(into, |data| data.fill(FILL)) {
            return false;
        }
        let header = self.outgoing.header_len() - LEN - self.outgoing.options.len();
        if self.wrong_checksum
            && let Some(low) = into.get_mut(header + CHECKSUM_LOW)
        {
            // 0 and 0xffff are one number to a checksum, and differ in more than a bit
            *low ^= 1;
        }
        true
    }
}

/// Where the lower byte of the checksum stands (RFC 9293 §3.1).
const CHECKSUM_LOW: usize = 17;

impl Stack {
    /// The segment `forged` of session `id`; `None` where there is no such session, or none that is established.
    pub fn forge(&self, now: Nanos, id: SessionId, forged: &Forged) -> Option<ForgedSegment> {
        let (tcb, _) = self.sessions.snapshot(id.0)?;
        if matches!(tcb.state, State::SynSent | State::SynReceived) {
            return None;
        }
        let profile = self.core.profile(tcb.profile);
        let seq = match forged.seq {
            Place::Una(by) => tcb.snd_una.plus(by as u32),
            Place::Next(by) => tcb.snd_nxt.plus(by as u32),
            Place::Edge(by) => tcb.snd_una.plus(tcb.snd_wnd).plus(by as u32),
            Place::Guess(number) => Seq(number),
        };
        let is_seen = !matches!(forged.seq, Place::Guess(_));
        let has_timestamps = is_seen && tcb.has(Marks::TIMESTAMPS);
        let window = tcb.rcv_adv.since(tcb.rcv_nxt) >> tcb.rcv_shift();
        let outgoing = Outgoing {
            tuple: self.tuple_of(&tcb),
            seq,
            ack: tcb.rcv_nxt.plus(forged.ack as u32),
            flags: forged.flags,
            window: window.min(u16::MAX.into()) as u16,
            options: self.core.timestamps(has_timestamps, tcb.ts_recent, now),
            payload_len: forged.payload_len,
            tos: profile.packet_tos(),
            ttl: profile.ttl,
            identification: 0,
            dont_fragment: profile.dont_fragment,
        };
        let (wrong_checksum, profile) = (forged.wrong_checksum, tcb.profile);
        Some(ForgedSegment { outgoing, wrong_checksum, profile })
    }

    /// The SYN of a session that this stack does not have: what answers it is the embedder's, and belongs to nobody here. `None` where
    /// there is no such profile, or a session with these ends.
    pub fn forge_syn(&self, now: Nanos, open: &Open) -> Option<ForgedSegment> {
        let tuple = &open.tuple;
        let profile = self.core.profiles.get(usize::from(open.profile))?;
        if self.is_in_use(tuple) {
            return None;
        }
        let options = Options {
            mss: Some(profile.announced_mss(tuple.version())),
            window_shift: profile.shift(),
            sack_permitted: profile.sack,
            ..self.core.timestamps(profile.timestamps, 0, now)
        };
        let outgoing = Outgoing {
            tuple: *tuple,
            seq: self.core.initial_seq(tuple, now),
            ack: Seq(0),
            flags: Flags::SYN,
            window: profile.syn_window(),
            options,
            payload_len: 0,
            tos: profile.packet_tos(),
            ttl: profile.ttl,
            identification: 0,
            dont_fragment: profile.dont_fragment,
        };
        Some(ForgedSegment { outgoing, wrong_checksum: false, profile: open.profile })
    }

    /// Whether there is a session with these ends, perhaps in TIME-WAIT.
    pub fn is_in_use(&self, tuple: &Tuple) -> bool {
        self.find(self.core.hash(tuple), tuple).is_some()
    }
}

impl ForgedSegment {
    /// The RST with number `seq` that takes a SYN of `open` back which was answered.
    pub fn reset(open: &Open, seq: Seq) -> ForgedSegment {
        let outgoing = Outgoing {
            tuple: open.tuple,
            seq,
            ack: Seq(0),
            flags: Flags::RST,
            window: 0,
            options: Options::default(),
            payload_len: 0,
            tos: 0,
            ttl: TTL,
            identification: 0,
            dont_fragment: true,
        };
        ForgedSegment { outgoing, wrong_checksum: false, profile: open.profile }
    }
}
