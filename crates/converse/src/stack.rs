//! What stands between programs and a TCP: the [`Stack`] below, the [`Programs`] above. Over UDP it is the same, with messages: each
//! leaves as a datagram ([`Programs::message_end`]), and each datagram that arrives is one ([`Programs::message`]).
//!
//! The programs say what they want as [`Action`]s, which the loop hands to the stack one by one; the stack tells what happened by
//! calling the programs, which answer with new actions. So neither calls the other from within, and both are plain structs of one
//! thread. Bytes that are sent are not kept above: the programs give the same byte for the same offset again, so a stack that
//! retransmits needs no buffer.

use std::net::SocketAddr;

pub use wirebeat_meter::connections::ConnectionSample;
use wirebeat_units::{Fault, Nanos};

/// A connection, as the stack numbers it: good until [`Programs::ended`], after which another may have the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub u32);

/// A session, as the programs number it. A stack keeps it with the connection and gives it back with everything that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u32);

/// Which profile of the stack's (socket options, TCP options) a connection has: the number of the group of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileId(pub u16);

/// What programs want of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a connection.
    Connect {
        /// For this session.
        session: SessionKey,
        /// With these options.
        profile: ProfileId,
        /// From here. An unspecified address or port 0: the stack chooses.
        local: SocketAddr,
        /// To there.
        remote: SocketAddr,
    },
    /// There is more to send: [`Programs::payload`] has bytes from where the stack stands.
    Send(Connection),
    /// There is room for received bytes again ([`Programs::room`]), after there was none.
    Receive(Connection),
    /// Sends FIN after everything that there is to send, and goes on receiving.
    Finish(Connection),
    /// Gives the connection up with RST. [`Programs::ended`] follows with [`Reason::Aborted`].
    Abort(Connection),
    /// Sends a segment that a sound TCP does not send; the connection stays as it is. [`Programs::misbehaved`] follows when it has
    /// left, and [`Programs::answered`] with each answer. Only our own TCP does it.
    Forge(Connection, Forged),
}

/// A segment that a sound TCP does not send, by where its connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged {
    /// Where it begins.
    pub seq: Place,
    /// By how much it acknowledges more than has arrived.
    pub ack: i32,
    /// Bytes of data, which are others than those that programs send.
    pub bytes: u16,
    /// Whether it is a RST.
    pub reset: bool,
    /// Whether its checksum is wrong.
    pub wrong_checksum: bool,
}

/// A place among the sequence numbers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So far from the first that the peer has not acknowledged.
    Acknowledged(i32),
    /// So far from the next that is sent.
    Next(i32),
    /// So far from the first behind the peer's window.
    BehindWindow(i32),
    /// This number, as who does not see the connection guesses it.
    Number(u32),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Both sides sent FIN, and all that was sent was handed over.
    InOrder,
    /// The peer answered the attempt to connect with RST.
    Refused,
    /// The peer did not answer in the time that TCP itself waits.
    TimedOut,
    /// The peer sent RST.
    Reset,
    /// The network said that the peer cannot be reached, or this machine has no way there.
    Unreachable,
    /// This machine could not: no port or address, no file descriptor, no memory.
    Failed(Failure),
    /// It was asked for ([`Action::Abort`]).
    Aborted,
}

/// What this machine lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// All ports to this destination are in use or in TIME-WAIT (EADDRNOTAVAIL, EADDRINUSE).
    NoPort,
    /// The process, or the system, has no more file descriptors (EMFILE, ENFILE).
    NoDescriptor,
    /// No memory, no buffers (ENOMEM, ENOBUFS).
    NoMemory,
    /// It is not allowed (EACCES, EPERM), for example by a firewall of this machine.
    NotAllowed,
    /// Something else; the number of the system's error.
    Other(i32),
}

/// What a stack knows of a connection at its end, as far as it knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// The smoothed round trip.
    pub rtt: Option<Nanos>,
    /// Segments that were sent with data, repeated ones too.
    pub data_segments: u64,
    /// Segments that were sent again, without those that [`Stack::look`] told.
    pub retransmitted: u64,
    /// Bytes of data that the peer acknowledged.
    pub acked: u64,
    /// Bytes of data that were sent, and of which [`Programs::taken`] was not told.
    pub in_flight: u64,
}

/// What becomes of TLS on a connection of a group that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsEvent {
    /// The handshake is completed: the program may speak.
    Completed {
        /// Whether it resumed an earlier session, so that no certificate was shown.
        resumed: bool,
        /// The cipher suite, which names the version: those of TLS 1.3 begin with `TLS13`.
        suite: &'static str,
    },
    /// TLS failed, in the handshake or after it. What there is to say to the peer is said below, and FIN follows it.
    Failed(TlsCause, String),
    /// The peer closed TCP without a closing alert (RFC 8446 §6.1): what it sent may have been cut.
    Truncated,
}

/// Why TLS failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsCause {
    /// The peer sent a fatal alert.
    Alert,
    /// The peer's certificate is not taken.
    Certificate,
    /// There is no version, cipher suite or application protocol that both ends have.
    Incompatible,
    /// What the peer sent is not TLS, or not valid there.
    Malformed,
    /// The peer closed the connection before the handshake was completed.
    Closed,
}

/// What programs are told by a stack, and asked. The calls come in the order of what happens to a connection: [`accepted`] or
/// [`established`] first (unless it fails before), and [`ended`] last, once.
///
/// [`accepted`]: Programs::accepted
/// [`established`]: Programs::established
/// [`ended`]: Programs::ended
pub trait Programs {
    /// A peer opened a connection to a listener of `profile`: the session that it becomes, or `None` to give it up at once with
    /// RST (then nothing more is told of it).
    fn accepted(
        &mut self,
        now: Nanos,
        connection: Connection,
        profile: ProfileId,
    ) -> Option<SessionKey>;

    /// The stack is opening the connection that a session asked for; its number is good for [`Action::Abort`] from now on.
    fn opening(&mut self, _now: Nanos, _session: SessionKey, _connection: Connection) {}

    /// The connection that a session asked for is established.
    fn established(&mut self, now: Nanos, session: SessionKey, connection: Connection);

    /// Bytes to send from `offset` of the session's stream on: a piece of what there is now, as long as can be given without
    /// copying; what has to be made is made in `scratch` (at least 16 KiB). Empty when there is nothing more to send for now.
    fn payload<'a>(
        &'a mut self,
        session: SessionKey,
        offset: u64,
        scratch: &'a mut [u8],
    ) -> &'a [u8];

    /// Up to which offset of the session's stream there are bytes to send by now, at most `most`. A stack that asks takes them over:
    /// [`Programs::payload`] gives each of them until it is [taken](Programs::taken), also of data without an end that is cut.
    fn offer(&mut self, session: SessionKey, most: u64) -> u64;

    /// The stack has taken over, or the peer has acknowledged (as the stack can tell), everything before `offset`: it is not
    /// asked for again.
    fn taken(&mut self, now: Nanos, session: SessionKey, offset: u64);

    /// How many received bytes the program can take now. 0: the stack leaves them with the peer until [`Action::Receive`].
    fn room(&self, session: SessionKey) -> usize;

    /// Bytes that arrived, in order, at most [`Programs::room`].
    fn received(&mut self, now: Nanos, session: SessionKey, bytes: &[u8]);

    /// Where the message ends on the session's stream that the byte at `offset` is of: what a datagram carries. `None` where there is
    /// nothing to send from there on.
    fn message_end(&mut self, _session: SessionKey, _offset: u64) -> Option<u64> {
        None
    }

    /// A datagram that arrived, whole. It needs no room: what the program does not wait for it keeps, or drops.
    fn message(&mut self, now: Nanos, session: SessionKey, bytes: &[u8]) {
        self.received(now, session, bytes);
    }

    /// A segment left that a sound TCP does not send: a forged one, or the SYN of a session that is not opened in full.
    fn misbehaved(&mut self, _session: SessionKey) {}

    /// The peer answered such a segment, by an acknowledgment that acknowledges nothing.
    fn answered(&mut self, _session: SessionKey) {}

    /// Whether servers of `profile` answer whatever comes, an answer of another server too. They take nothing from who may be one.
    fn answers_anything(&self, _profile: ProfileId) -> bool {
        false
    }

    /// A datagram of a peer that has no session was dropped: there are as many as there may be, or it may be a server.
    fn unwanted(&mut self, _profile: ProfileId) {}

    /// TLS of a session came so far. Programs of groups with TLS say nothing before [`TlsEvent::Completed`].
    fn tls(&mut self, _now: Nanos, _session: SessionKey, _event: TlsEvent) {}

    /// The peer sends no more; all that it sent was handed over.
    fn peer_closed(&mut self, now: Nanos, session: SessionKey);

    /// The connection ended. Its number is free.
    fn ended(&mut self, now: Nanos, session: SessionKey, reason: Reason, stats: ConnectionStats);
}

/// A TCP of one thread, with its listeners.
pub trait Stack {
    /// Does what a program wants. What follows at once is told before this returns.
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs);

    /// Lets happen what is due: waits until something does, or until `until` where nothing has (`now` or earlier: does not wait),
    /// and tells the programs. Returns the time after the wait.
    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos;

    /// How long a turn with something to do takes: a start that is nearer is waited for first.
    fn longest_turn(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Whether the last turn left something undone.
    fn is_behind(&self) -> bool {
        false
    }

    /// Whether something is to be sent for which nothing has to arrive.
    fn has_output(&self) -> bool {
        false
    }

    /// Waits until a time that is near, and does nothing else. Returns the time after it.
    fn spin(&mut self, until: Nanos) -> Nanos {
        until
    }

    /// How many connections are open.
    fn open(&self) -> usize;

    /// What it knows of an open connection now; `None` where it knows none of this number, or does not say.
    fn look(&mut self, _connection: Connection) -> Option<ConnectionSample> {
        None
    }

    /// Why it cannot go on, where that is so: its interface is gone, for example.
    fn broken(&mut self) -> Option<Fault> {
        None
    }
}
