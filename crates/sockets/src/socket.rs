//! One connection: its socket, how far its stream is, and what is done with it when something happened.
//!
//! Events are edges: [`TcpSocket::note`] keeps them as flags, [`TcpSocket::work`] does what they allow, up to a budget each way, so
//! that a connection with much to do lets others go on. Small pieces of the program's are gathered, so that a head and its body
//! leave in one segment.
//!
//! An association of SCTP is the same with messages, which are read as a stream, and with one end for both ways: there is no
//! half-closed state (RFC 9260 §9.2). What it tells no reader, that the peer has shut down too, is asked for.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown, sockopt,
};
use wirebeat_converse::stack::{
    Connection, ConnectionSample, ConnectionStats, ProfileId, Programs, Reason, SessionKey,
};
use wirebeat_host::{TcpInfo, TcpState, has_sctp_association, tcp_info};
use wirebeat_units::Nanos;

use crate::error::reason;
use crate::profile::{Profile, Protocol};
use crate::zero_copy::{ConstantMemory, HAND_OVER, ZeroCopyCounters};

/// Bytes that a connection sends, and receives, before others get their turn.
const BUDGET: usize = 256 << 10;
/// Bytes of a message of SCTP at most: one is taken over whole or not at all.
const MESSAGE: usize = 32 << 10;
/// Bytes that are gathered to leave together.
const GATHERED: usize = 16 << 10;
/// What a socket is watched for.
pub(crate) const WATCHED: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Memory that all connections of a stack use in turn.
#[derive(Debug)]
pub(crate) struct Buffers {
    received: Vec<u8>,
    scratch: Vec<u8>,
    gathered: Vec<u8>,
}

impl Buffers {
    pub fn new() -> Self {
        Buffers {
            received: vec![0; 256 << 10],
            scratch: vec![0; 64 << 10],
            gathered: vec![0; GATHERED],
        }
    }
}

/// What is to become of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It waits for events or actions.
    Wait,
    /// Its budget is spent, and there is more to do.
    Again,
    /// It ended.
    End(Reason, ConnectionStats),
}

/// A socket with its connection.
#[derive(Debug)]
pub(crate) struct TcpSocket {
    pub fd: OwnedFd,
    pub session: SessionKey,
    /// What is asked of it.
    pub profile: ProfileId,
    /// Whether it is among those with work to do.
    pub queued: bool,
    /// Bytes that the kernel has taken over.
    sent: u64,
    /// Segments sent again that were told already.
    told_retransmits: u32,
    /// What it is of. Of Multipath TCP the kernel tells what is of its first path, and forgets it when that is closed; of SCTP nothing.
    protocol: Protocol,
    /// Whether it hands memory over: then its error queue tells of it.
    zero_copy: bool,
    /// Opened from here: the peer's acknowledgements count our SYN.
    pub opened_here: bool,
    established: bool,
    /// There may be bytes to read, or the end.
    readable: bool,
    /// There may be room to write.
    writable: bool,
    /// The peer's end may stand behind what is to be read (EPOLLRDHUP, EPOLLHUP, EPOLLERR).
    last_words: bool,
    /// The socket may have an error (EPOLLERR).
    broken: bool,
    /// The program may have something to send.
    offered: bool,
    /// FIN was asked for.
    finishing: bool,
    fin_sent: bool,
    /// The peer's FIN was read.
    peer_closed: bool,
    /// Why it ends, as soon as what came before was read.
    fault: Option<Reason>,
}

/// What a piece of work needs besides the connection.
pub(crate) struct Worker<'a> {
    pub now: Nanos,
    pub number: Connection,
    pub buffers: &'a mut Buffers,
    pub programs: &'a mut dyn Programs,
    /// Memory that the kernel may be handed, where it may.
    pub constant: Option<&'a ConstantMemory>,
    pub zero_copies: &'a mut ZeroCopyCounters,
    /// Bytes moved, both ways.
    pub moved: usize,
}

impl TcpSocket {
    /// A connection that is being opened.
    pub fn opening(fd: OwnedFd, session: SessionKey) -> Self {
        TcpSocket {
            fd,
            session,
            profile: ProfileId(0),
            queued: false,
            sent: 0,
            told_retransmits: 0,
            protocol: Protocol::Tcp,
            zero_copy: false,
            opened_here: true,
            established: false,
            readable: false,
            writable: false,
            last_words: false,
            broken: false,
            offered: false,
            finishing: false,
            fin_sent: false,
            peer_closed: false,
            fault: None,
        }
    }

    /// One that a listener accepted.
    pub fn accepted(fd: OwnedFd, session: SessionKey) -> Self {
        TcpSocket {
            opened_here: false,
            established: true,
            writable: true,
            ..TcpSocket::opening(fd, session)
        }
    }

    /// The same, with what is asked of it.
    #[must_use]
    pub fn of_profile(self, profile: ProfileId, asked: Option<&Profile>) -> Self {
        TcpSocket {
            profile,
            protocol: asked.map(|asked| asked.protocol).unwrap_or_default(),
            zero_copy: asked.is_some_and(|asked| asked.zero_copy.is_some()),
            ..self
        }
    }

    /// Keeps what an event said.
    pub fn note(&mut self, flags: EventFlags) {
        let error = flags.contains(EventFlags::ERR);
        // with a hang-up, or it may be no more than a notification about memory that was handed over
        let last = flags.contains(EventFlags::HUP) || error && !self.zero_copy;
        let last_words = last || flags.contains(EventFlags::RDHUP);
        self.readable |= last_words || flags.contains(EventFlags::IN);
        self.writable |= last || flags.contains(EventFlags::OUT);
        self.last_words |= last_words;
        self.broken |= error;
    }

    /// The program has something to send.
    pub fn offer(&mut self) {
        self.offered = true;
    }

    /// The program has nothing to send after what there is.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.offered = true;
    }

    /// Does what the events so far allow, up to the budgets.
    pub fn work(&mut self, worker: &mut Worker<'_>) -> Next {
        if !self.established {
            match self.connected() {
                Ok(false) => return Next::Wait,
                Ok(true) => {
                    worker.programs.established(worker.now, self.session, worker.number);
                }
                Err(reason) => return Next::End(reason, ConnectionStats::default()),
            }
        }
        let more = match self.receive(worker) {
            Ok(more) => more,
            Err(reason) => return self.ends(reason),
        };
        if more {
            // Errors come after what was received before them.
            return match self.send(worker) {
                Ok(_) => Next::Again,
                Err(reason) => self.fails(reason),
            };
        }
        if let Some(reason) = self.fault.or_else(|| self.error(worker)) {
            return self.ends(reason);
        }
        if self.fin_sent && !self.peer_closed && !self.readable && self.is_shut_down() {
            if let Ok(Err(error)) = sockopt::socket_error(&self.fd) {
                return self.ends(reason(error));
            }
            self.peer_closed = true;
            worker.programs.peer_closed(worker.now, self.session);
        }
        match self.send(worker) {
            Ok(true) => Next::Again,
            Ok(false) if self.fin_sent && self.peer_closed => self.closes(),
            // there is more in the error queue
            Ok(false) if self.broken => Next::Again,
            Ok(false) => Next::Wait,
            Err(reason) => self.fails(reason),
        }
    }

    /// Sending failed: what the peer said before is still read.
    fn fails(&mut self, reason: Reason) -> Next {
        self.fault.get_or_insert(reason);
        self.offered = false;
        self.readable = !self.peer_closed;
        self.last_words = true;
        Next::Again
    }

    /// Whether the attempt to connect has succeeded by now.
    fn connected(&mut self) -> Result<bool, Reason> {
        if self.broken {
            self.broken = false;
            if let Ok(Err(error)) = sockopt::socket_error(&self.fd) {
                return Err(reason(error));
            }
        }
        self.established = self.writable;
        Ok(self.established)
    }

    /// The socket's error, if an event pointed to one. Where memory is handed over, it may have pointed to a notification instead.
    fn error(&mut self, worker: &mut Worker<'_>) -> Option<Reason> {
        if !std::mem::take(&mut self.broken) {
            return None;
        }
        let error = sockopt::socket_error(&self.fd).ok()?.err().map(reason);
        if error.is_none() && self.zero_copy {
            self.broken = worker.zero_copies.read(&self.fd);
        }
        error
    }

    /// Reads while there is something to read and room for it; `true`: there is more than the budget.
    fn receive(&mut self, worker: &mut Worker<'_>) -> Result<bool, Reason> {
        let mut left = BUDGET;
        while self.readable && !self.peer_closed {
            let room = worker.programs.room(self.session);
            if room == 0 {
                return Ok(false);
            }
            if left == 0 {
                return Ok(true);
            }
            let all = &mut worker.buffers.received;
            let wanted = room.min(all.len());
            let Some(buffer) = all.get_mut(..wanted) else { return Ok(false) };
            match recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.readable = false;
                    // After a reset no end is in order.
                    if self.fault.is_none() {
                        self.peer_closed = true;
                        worker.programs.peer_closed(worker.now, self.session);
                    }
                }
                Ok((count, _)) => {
                    left = left.saturating_sub(count);
                    worker.moved += count;
                    // A stream that gives less than asked for has no more, but perhaps its end (epoll(7), question 9); an association gives a
                    // message, and perhaps another.
                    let is_sctp = self.protocol == Protocol::Sctp;
                    self.readable = count == wanted || self.last_words || is_sctp;
                    let bytes = buffer.get(..count).unwrap_or_default();
                    worker.programs.received(worker.now, self.session, bytes);
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                // An association that is gone; whether in order, the socket's error says.
                Err(Errno::NOTCONN) if self.protocol == Protocol::Sctp => self.readable = false,
                Err(error) => return Err(self.fault.unwrap_or(reason(error))),
            }
        }
        Ok(false)
    }

    /// Writes while there is something to send and room for it, and FIN behind it; `true`: there is more than the budget.
    fn send(&mut self, worker: &mut Worker<'_>) -> Result<bool, Reason> {
        let mut left = BUDGET;
        let most = if self.protocol == Protocol::Sctp { MESSAGE } else { usize::MAX };
        while self.offered && self.writable && !self.fin_sent {
            if left == 0 {
                return Ok(true);
            }
            let (asked, written) = self.write(worker, left.min(most));
            match written {
                Ok(_) if asked == 0 => self.offered = false,
                Ok(count) => {
                    self.sent += count as u64;
                    left = left.saturating_sub(count);
                    worker.moved += count;
                    // The kernel took less than it was given: an event says when there is room again.
                    self.writable = count == asked;
                    worker.programs.taken(worker.now, self.session, self.sent);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(reason(error)),
            }
        }
        if self.finishing && !self.offered && !self.fin_sent {
            self.fin_sent = true;
            match shutdown(&self.fd, Shutdown::Write) {
                // Not connected any more: an event tells why.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(reason(error)),
            }
        }
        Ok(false)
    }

    /// Writes what the program gives next, at most so many bytes: how many it gave, and how many the kernel took.
    fn write(&self, worker: &mut Worker<'_>, most: usize) -> (usize, Result<usize, Errno>) {
        let Buffers { scratch, gathered, .. } = &mut *worker.buffers;
        let (session, mut flags) = (self.session, SendFlags::NOSIGNAL);
        let mut filled = 0;
        // Small pieces are copied together until a large one follows, which is not copied.
        while let Some(room) = gathered.get_mut(filled..).filter(|room| !room.is_empty()) {
            let piece = worker.programs.payload(session, self.sent + filled as u64, scratch);
            let piece = piece.get(..most - filled).unwrap_or(piece);
            if piece.is_empty() {
                break;
            }
            if worker.constant.is_some_and(|memory| memory.hands_over(piece)) {
                if filled > 0 {
                    // What was gathered is copied, and leaves in one segment with what is handed over next.
                    flags |= SendFlags::MORE;
                    break;
                }
                match send(&self.fd, piece, flags | HAND_OVER) {
                    // The kernel lacks room to keep account of it, or may not pin more pages: this piece is copied.
                    Err(Errno::NOBUFS) => worker.zero_copies.no_room += 1,
                    written => {
                        worker.zero_copies.sends += u64::from(written.is_ok());
                        return (piece.len(), written);
                    }
                }
            }
            if piece.len() > room.len() {
                let head = gathered.get(..filled).unwrap_or_default();
                let written = match head {
                    [] => send(&self.fd, piece, flags),
                    head => {
                        let parts = [IoSlice::new(head), IoSlice::new(piece)];
                        sendmsg(&self.fd, &parts, &mut SendAncillaryBuffer::default(), flags)
                    }
                };
                return (filled + piece.len(), written);
            }
            if let Some(place) = room.get_mut(..piece.len()) {
                place.copy_from_slice(piece);
            }
            filled += piece.len();
        }
        match gathered.get(..filled).unwrap_or_default() {
            [] => (0, Ok(0)),
            bytes => (filled, send(&self.fd, bytes, flags)),
        }
    }

    fn ends(&self, reason: Reason) -> Next {
        Next::End(reason, self.stats())
    }

    /// Whether it is of SCTP, and its association is gone: without an error, all that was sent has been acknowledged, and the peer has
    /// shut down as well.
    fn is_shut_down(&self) -> bool {
        self.protocol == Protocol::Sctp
            && has_sctp_association(self.fd.as_fd()).is_ok_and(|has| !has)
    }

    /// Both FINs are sent: ends as soon as the peer has acknowledged ours. What follows, TIME-WAIT, is the kernel's business.
    fn closes(&self) -> Next {
        if self.protocol == Protocol::Sctp {
            return match (self.is_shut_down(), sockopt::socket_error(&self.fd)) {
                (false, _) => Next::Wait,
                (true, Ok(Err(error))) => Next::End(reason(error), ConnectionStats::default()),
                (true, _) => {
                    let stats = ConnectionStats { acked: self.sent, ..ConnectionStats::default() };
                    Next::End(Reason::InOrder, stats)
                }
            };
        }
        let is_multipath = self.protocol == Protocol::MultipathTcp;
        let Ok(info) = tcp_info(self.fd.as_fd()) else { return self.ends(Reason::InOrder) };
        if !matches!(info.state, TcpState::Closed | TcpState::TimeWait) {
            return Next::Wait;
        }
        let fin_acked = self.acked(&info) > self.sent || info.bytes_acked.is_none();
        let reason = match sockopt::socket_error(&self.fd) {
            _ if fin_acked && !is_multipath => Reason::InOrder,
            Ok(Err(error)) => reason(error),
            // paths are closed when both ends of the stream are acknowledged (RFC 8684 §3.3.3), else that is an error
            Ok(Ok(())) if is_multipath => {
                let stats = ConnectionStats { acked: self.sent, ..self.stats_of(&info) };
                return Next::End(Reason::InOrder, stats);
            }
            Ok(Ok(())) | Err(_) => Reason::Reset,
        };
        Next::End(reason, self.stats_of(&info))
    }

    /// Bytes that the peer acknowledged, and one for FIN. The kernel counts sequence numbers: SYN too, where it was ours.
    fn acked(&self, info: &TcpInfo) -> u64 {
        info.bytes_acked.unwrap_or(0).saturating_sub(self.opened_here.into())
    }

    /// What the kernel knows of the connection while it is open.
    pub fn look(&mut self) -> Option<ConnectionSample> {
        let info = tcp_info(self.fd.as_fd()).ok().filter(|_| self.established)?;
        let told = std::mem::replace(&mut self.told_retransmits, info.retransmits);
        Some(ConnectionSample {
            retransmitted: info.retransmits.saturating_sub(told).into(),
            rtt: Some(info.rtt).filter(|rtt| *rtt > Nanos::ZERO),
            cwnd: Some(u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
            // a few bytes now and then have no rate
            delivery_rate: info
                .delivery_rate
                .filter(|rate| rate.0 > 0 && !info.delivery_app_limited),
        })
    }

    /// What the kernel knows of the connection by now.
    pub fn stats(&self) -> ConnectionStats {
        match tcp_info(self.fd.as_fd()) {
            Ok(info) if self.established => self.stats_of(&info),
            _ => ConnectionStats::default(),
        }
    }

    fn stats_of(&self, info: &TcpInfo) -> ConnectionStats {
        ConnectionStats {
            rtt: Some(info.rtt).filter(|rtt| *rtt > Nanos::ZERO),
            data_segments: info.data_segs_out.unwrap_or(0).into(),
            retransmitted: info.retransmits.saturating_sub(self.told_retransmits).into(),
            acked: self.acked(info).min(self.sent),
            in_flight: 0,
        }
    }

    /// Reads what the kernel has told of memory that was handed over, before the socket is closed.
    pub fn read_last_notices(&self, counters: &mut ZeroCopyCounters) {
        if self.zero_copy {
            counters.read_last(&self.fd);
        }
    }

    /// Lets closing the socket send RST, or ABORT, and forget what was not sent.
    pub fn reset_at_close(&self) {
        // Fails on no such socket.
        let _ = sockopt::set_socket_linger(&self.fd, Some(std::time::Duration::ZERO));
    }
}
