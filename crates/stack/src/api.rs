//! What the embedder gives and gets: the traits that it implements, handles, events, limits.

use wirebeat_units::Nanos;

use crate::segment::Tuple;

/// A session's handle: good until its [`Event::Closed`], after which another session may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

/// A session, as its embedder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its handle.
    pub id: SessionId,
    /// The word that the embedder gave it.
    pub user: u32,
}

/// What an embedder answers to the SYN of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// It listens there.
    Session {
        /// The number of the profile.
        profile: u8,
        /// The word that the session gets.
        user: u32,
    },
    /// It does not: the peer gets RST.
    Refuse,
    /// Nobody is there: the peer gets nothing.
    Ignore,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Both sides closed and both know. The session may be in TIME-WAIT from now on.
    InOrder,
    /// The peer answered the SYN with RST.
    Refused,
    /// The peer did not answer.
    TimedOut,
    /// The peer sent RST.
    Reset,
    /// The SYN was not answered but by the network: an ICMP error said that the peer, its protocol or its port is not reached.
    Unreachable,
    /// The embedder gave it up.
    Aborted,
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is established.
    Established,
    /// The peer has acknowledged all data before this offset.
    Acknowledged {
        /// Bytes since the session began.
        offset: u64,
    },
    /// The peer sends no more; all that it sent has been delivered.
    PeerClosed,
    /// It has ended. The handle is not valid any more.
    Closed(Reason),
}

/// What is known of a session at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The smoothed round trip; `None` when none was measured.
    pub rtt: Option<Nanos>,
    /// Bytes of data that the peer acknowledged.
    pub acked: u64,
    /// Bytes of data that were sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes that were delivered in order.
    pub received: u64,
    /// Segments with data that were sent, repeated ones too, of all sessions of its profile since one of them ended last: a session has no
    /// room to count its own, and their sum is that of the profile.
    pub data_segments: u64,
    /// Segments that were sent again, likewise; without those that [`crate::Stack::take_retransmitted`] told.
    pub retransmitted: u64,
}

/// Data that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Where it begins in what the peer sends. Every byte is handed over once.
    pub offset: u64,
    /// The data.
    pub bytes: &'a [u8],
    /// All bytes before this offset have arrived, these included where they are before it.
    pub in_order: u64,
}

/// What the stack asks of the programs above it, and tells them. Calls come from within the stack, so a program remembers what it
/// wants to do and does it when the stack has returned.
pub trait Application {
    /// A peer sent a SYN to `tuple.local`. Called again for each SYN that is repeated after it was refused or ignored.
    fn accept(&mut self, tuple: &Tuple) -> Accept;

    /// Writes the bytes that the session sends from `offset` on. The same offset gets the same bytes every time: nothing that was
    /// sent is kept.
    fn payload(&mut self, session: Session, offset: u64, into: &mut [u8]);

    /// Data arrived.
    fn received(&mut self, session: Session, received: Received<'_>);

    /// Something happened.
    fn event(&mut self, session: Session, event: Event);

    /// Whether `len` bytes that arrived out of order can be handed over with [`Application::received`] now. Where not, they are
    /// dropped and come again: an embedder that has to keep such bytes has a limit somewhere.
    fn has_room_out_of_order(&mut self, session: Session, len: usize) -> bool {
        let _ = (session, len);
        true
    }

    /// Soon there may be something for the session with this word: an embedder that keeps much for many sessions asks for it here
    /// ([`crate::prefetch`]), so that the processor has it then.
    fn upcoming(&self, user: u32) {
        let _ = user;
    }

    /// What a session was like, right before its [`Event::Closed`].
    fn ending(&mut self, session: Session, totals: &Totals) {
        let _ = (session, totals);
    }
}

/// Where packets go. Each begins with its IP header.
pub trait Transmit {
    /// Room for a packet of `len` bytes; `None` when there is none now: the rest waits for the next call of
    /// [`crate::Stack::transmit`].
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]>;

    /// The packet in the last buffer is of a session of this profile. Called before it is committed, for the embedder's own count; not
    /// called for a packet of no session.
    fn of_profile(&mut self, profile: u8) {
        let _ = profile;
    }

    /// The packet in the last buffer is complete. A buffer that is not committed is not sent.
    fn commit(&mut self);

    /// Whether packets may hold several segments ([`crate::Profile::gso_segments`]), which [`Transmit::commit_large`] tells how to cut.
    /// There are buffers of 65,535 bytes then.
    fn takes_large(&self) -> bool {
        false
    }

    /// As [`Transmit::commit`], for a packet that is to be cut into segments before or in the network card, as Linux cuts
    /// those of a `virtio_net_hdr` with `VIRTIO_NET_HDR_F_NEEDS_CSUM` and a GSO type of TCP: each gets the headers, which have
    /// `header_len` bytes from that of IP to the end of TCP's options, and `segment_len` bytes of data, the last one perhaps fewer.
    /// FIN and PSH belong to the last. The checksum of TCP holds the sum of the pseudo header for the packet as it is, not
    /// complemented. Never called where [`Transmit::takes_large`] is false.
    fn commit_large(&mut self, segment_len: u16, header_len: u16) {
        // Who takes none is never given one; nothing is sent, which TCP would repair.
        let _ = (segment_len, header_len);
    }
}

/// How much a stack holds. Memory for all of it is reserved at the start and touched as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions that are open: 128 bytes each and 12 in the index, which has room for half-open sessions and those in TIME-WAIT as well;
    /// 64 more while something unusual is under way (a loss, data out of order, a congestion window that grows), 4 while a session waits for
    /// its turn, 8 while an acknowledgment is delayed, 8 for a timer that was set just now, and 12 for one that was set before.
    pub sessions: usize,
    /// How many of them are expected: the system is asked for their memory before the first ([`Stack::populate`](crate::Stack::populate)).
    pub expected: usize,
    /// Sessions that a peer has begun to open.
    pub half_open: usize,
    /// Sessions in TIME-WAIT.
    pub time_wait: usize,
    /// All of these together, where that is less than their sum: the index has room for so many.
    pub connections: usize,
    /// Addresses of IPv6 in use at a time.
    pub addresses: usize,
    /// Blocks of ranges, of 300 bytes: one for a session that misses data, one for a session whose peer does.
    pub ranges: usize,
    /// How many segments that look forged are answered in a second (RFC 5961 §7).
    pub challenges_per_second: u32,
    /// How many segments that repeat what had arrived are answered in a second: data, a FIN, the same SYN, probes. Their senders need the
    /// answers, and who forges them sends as much as comes back.
    pub repeats_per_second: u32,
}

impl Limits {
    /// Room for so many sessions: a quarter of them may be half-open or have losses, each may be in TIME-WAIT, and each may have
    /// a peer of its own over IPv6.
    pub const fn for_sessions(sessions: usize) -> Limits {
        Limits {
            sessions,
            expected: 0,
            half_open: sessions / 4 + 64,
            time_wait: sessions,
            connections: usize::MAX,
            addresses: sessions + 64,
            ranges: sessions / 4 + 64,
            challenges_per_second: 1000,
            repeats_per_second: 100_000,
        }
    }
}

/// Why a session could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// All sessions that there may be are open.
    Full,
    /// There is a session with the same addresses and ports, perhaps in TIME-WAIT.
    InUse,
    /// The addresses are of two versions of IP.
    Versions,
    /// More addresses of IPv6 are in use than there may be.
    Addresses,
    /// There is no profile with this number.
    Profile,
}

/// Why nothing was done for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// There is no such session.
    Unknown,
    /// It was closed for sending before.
    Closed,
}
