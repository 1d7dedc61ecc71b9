//! One flow that is sent: its socket, its packets, and what comes back of them.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use wirebeat_host::{TcpState, tcp_info};
use wirebeat_meter::session::{SessionMeter, SessionTime};
use wirebeat_sockets::clock;
use wirebeat_units::Nanos;

use crate::control::{Meter, PayloadKind, Transport};
use crate::log::{FlowRecord, LogFile, Packet};
use crate::payload::{HEADER_MAX, Header, TimeOfDay, header_len};
use crate::result::{FlowEnd, FlowResult};
use crate::socket::{connect, udp_to, wall_clock};
use crate::{Amount, Error, FlowSpec};

/// Packets that a flow may send before the next one's turn.
const BATCH: usize = 32;
/// Packets of which it is known when they were sent: one that comes back after more is late.
const RING: usize = 1 << 14;
/// What comes back in one turn: datagrams, or reads of a stream.
const TURN: usize = 32;
/// How long a flow waits when the device's queue has no room.
const NO_ROOM: Nanos = Nanos::from_micros(100);
/// From one look at a stream to the next while it is waited for.
const LOOK: Nanos = Nanos::from_millis(5);
/// How much later than at its end a flow may send what was due before.
const GRACE: Nanos = Nanos::from_millis(20);

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Udp(socket) => socket.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// What a flow waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The time of its next packet; a time that has passed: its next turn.
    Due(Nanos),
    /// Its socket.
    Socket,
    /// Nothing: it has sent all.
    Done,
}

/// When packets are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub spec: FlowSpec,
    pub start: Nanos,
}

impl Plan {
    /// When packet `index` is due, counted from 0; `None` where it is not to be sent any more.
    fn due(&self, index: u64, now: Nanos) -> Option<Nanos> {
        let due = match self.spec.rate {
            Some(rate) => self.start.saturating_add(rate.deadline(index)),
            None => now,
        };
        let more = match self.spec.amount {
            Amount::Packets(packets) => index < packets,
            Amount::Time(time) => {
                let end = self.start.saturating_add(time);
                due < end && now < end.saturating_add(GRACE)
            }
        };
        more.then_some(due)
    }
}

/// A message of a stream that is coming back.
#[derive(Debug, Default)]
struct Coming {
    head: [u8; HEADER_MAX],
    have: usize,
    /// Its header and its missing bytes, once the header is there.
    message: Option<(Header, usize)>,
}

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub number: u32,
    socket: Socket,
    local: SocketAddr,
    remote: SocketAddr,
    packet: Box<[u8]>,
    record: FlowRecord,
    sent: u64,
    /// Bytes of the present packet that a stream did not take yet.
    rest: usize,
    /// When packets were sent, by their numbers; zero where one came back.
    sent_at: Vec<u64>,
    coming: Coming,
    pub session: SessionMeter,
    first_at: Option<Nanos>,
    last_at: Nanos,
}

impl Flow {
    /// Opens the socket of a flow.
    pub fn open(
        number: u32,
        to: SocketAddr,
        spec: &FlowSpec,
        deadline: Nanos,
    ) -> Result<Flow, Error> {
        let failed = |source| Error::Connect { address: to, source };
        let (socket, local) = match spec.transport {
            Transport::Tcp => {
                let stream = connect(to, spec.ds, deadline).map_err(failed)?;
                let local = stream.local_addr().map_err(failed)?;
                (Socket::Tcp(stream), local)
            }
            Transport::Udp | Transport::Other(_) => {
                let socket = udp_to(to, spec.ds).map_err(failed)?;
                let local = socket.local_addr().map_err(failed)?;
                (Socket::Udp(socket), local)
            }
        };
        let round_trips = spec.meter == Meter::RoundTrip;
        Ok(Flow {
            number,
            socket,
            local,
            remote: to,
            packet: content(number, spec.size),
            record: FlowRecord::new(number, local, to),
            sent: 0,
            rest: 0,
            sent_at: if round_trips { vec![0; RING] } else { Vec::new() },
            coming: Coming::default(),
            session: SessionMeter::new(0),
            first_at: None,
            last_at: Nanos::ZERO,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// When its first packet left, and its last.
    pub fn times(&self) -> (Option<Nanos>, Nanos) {
        (self.first_at, self.last_at)
    }

    /// Whether a packet is half sent.
    pub fn has_rest(&self) -> bool {
        self.rest > 0
    }

    /// Whether packets have not come back.
    pub fn has_outstanding(&self) -> bool {
        self.session.counts.responses < self.session.counts.requests
    }

    /// Sends what is due, at most a batch.
    pub fn send_due(&mut self, plan: &Plan, log: &mut Option<&mut LogFile>) -> io::Result<Next> {
        for _ in 0..BATCH {
            if self.rest > 0 {
                match self.send_rest(plan, log)? {
                    true => continue,
                    false => return Ok(Next::Socket),
                }
            }
            let now = clock();
            match plan.due(self.sent, now) {
                None => return Ok(Next::Done),
                Some(due) if due > now => return Ok(Next::Due(due)),
                Some(_) => {}
            }
            self.begin_packet();
            if let Socket::Tcp(_) = self.socket {
                self.rest = self.packet.len();
                continue;
            }
            match send(&self.socket, &self.packet, SendFlags::NOSIGNAL) {
                Ok(_) => {
                    self.session.counts.sent_bytes += self.packet.len() as u64;
                    self.complete_packet(plan, log);
                }
                Err(Errno::AGAIN) => return Ok(Next::Socket),
                Err(Errno::NOBUFS) => return Ok(Next::Due(now.saturating_add(NO_ROOM))),
                // the receiver's port was not open for an earlier one
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::Due(Nanos::ZERO))
    }

    /// Writes the header of the next packet: its number and the time.
    fn begin_packet(&mut self) {
        let size = match self.socket {
            Socket::Tcp(_) => u32::try_from(self.packet.len()).ok(),
            Socket::Udp(_) => None,
        };
        let sequence = number_of(self.sent);
        let sent = Some(TimeOfDay::of(wall_clock()));
        let header = Header { flow: self.number, sequence, sent, size };
        header.write(&mut self.packet);
        // a stream may take it in pieces: what counts is when it was begun
        self.last_at = clock();
    }

    /// Writes more of the present packet to the stream: whether it took all.
    pub fn send_rest(&mut self, plan: &Plan, log: &mut Option<&mut LogFile>) -> io::Result<bool> {
        while self.rest > 0 {
            let from = self.packet.len().saturating_sub(self.rest);
            let bytes = self.packet.get(from..).unwrap_or_default();
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.rest = self.rest.saturating_sub(count);
                    self.session.counts.sent_bytes += count as u64;
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.complete_packet(plan, log);
        Ok(true)
    }

    /// The present packet was sent.
    fn complete_packet(&mut self, plan: &Plan, log: &mut Option<&mut LogFile>) {
        self.sent += 1;
        self.session.counts.messages_sent += 1;
        self.first_at.get_or_insert(self.last_at);
        if plan.spec.meter == Meter::RoundTrip {
            self.session.counts.requests += 1;
            let place = number_of(self.sent - 1) as usize % RING;
            if let Some(slot) = self.sent_at.get_mut(place) {
                *slot = self.last_at.get();
            }
        } else if let Some(log) = log {
            let kind = PayloadKind::Standard;
            let header = Header::read(&self.packet, plan.spec.transport, kind);
            if let Some(Header { sequence, sent: Some(sent), .. }) = header {
                let size = self.packet.len() as u32;
                log.write(&self.record, &Packet { sequence, sent, received: sent, size });
            }
        }
    }

    /// Takes what came back, at most a turn.
    pub fn take(
        &mut self,
        plan: &Plan,
        buffer: &mut [u8],
        log: &mut Option<&mut LogFile>,
    ) -> io::Result<()> {
        for _ in 0..TURN {
            match &mut self.socket {
                Socket::Udp(socket) => match recv(&*socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((count, _)) => {
                        let bytes = buffer.get(..count).unwrap_or_default();
                        let kind = PayloadKind::Standard;
                        let header = Header::read(bytes, Transport::Udp, kind);
                        self.came_back(header, count, plan, log);
                    }
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR | Errno::CONNREFUSED) => {}
                    Err(error) => return Err(error.into()),
                },
                Socket::Tcp(stream) => match stream.read(buffer) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => {
                        let bytes = buffer.get(..count).unwrap_or_default();
                        self.take_stream(bytes, plan, log)?;
                    }
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => return Ok(()),
                        io::ErrorKind::Interrupted => {}
                        _ => return Err(error),
                    },
                },
            }
        }
        Ok(())
    }

    /// Takes messages of a stream.
    fn take_stream(
        &mut self,
        mut bytes: &[u8],
        plan: &Plan,
        log: &mut Option<&mut LogFile>,
    ) -> io::Result<()> {
        let needed = header_len(Transport::Tcp, PayloadKind::Standard);
        while !bytes.is_empty() {
            let coming = &mut self.coming;
            let (header, missing) = match coming.message {
                Some(message) => message,
                None => {
                    let more = needed.saturating_sub(coming.have).min(bytes.len());
                    let (taken, rest) = bytes.split_at(more);
                    if let Some(room) = coming.head.get_mut(coming.have..coming.have + more) {
                        room.copy_from_slice(taken);
                    }
                    coming.have += more;
                    bytes = rest;
                    if coming.have < needed {
                        return Ok(());
                    }
                    coming.have = 0;
                    let kind = PayloadKind::Standard;
                    let header = Header::read(&coming.head, Transport::Tcp, kind);
                    // what comes back is what was sent
                    let size = self.packet.len();
                    let header =
                        header.filter(|of| of.size.map(|size| size as usize) == Some(size));
                    (header.ok_or(io::ErrorKind::InvalidData)?, size - needed)
                }
            };
            let taken = missing.min(bytes.len());
            bytes = bytes.get(taken..).unwrap_or_default();
            match taken == missing {
                false => self.coming.message = Some((header, missing - taken)),
                true => {
                    self.coming.message = None;
                    self.came_back(Some(header), self.packet.len(), plan, log);
                }
            }
        }
        Ok(())
    }

    /// A packet came back.
    fn came_back(
        &mut self,
        header: Option<Header>,
        size: usize,
        plan: &Plan,
        log: &mut Option<&mut LogFile>,
    ) {
        let (now, wall) = (clock(), wall_clock());
        let counts = &mut self.session.counts;
        let Some(header) = header.filter(|of| of.flow == self.number && size == self.packet.len())
        else {
            counts.malformed_messages += 1;
            return;
        };
        counts.delivered_bytes += size as u64;
        let (sequence, latest) = (header.sequence, number_of(self.sent.saturating_sub(1)));
        let ago = latest.wrapping_sub(sequence) as usize;
        let place = sequence as usize % RING;
        let at = self.sent_at.get_mut(place).filter(|at| ago < RING && **at > 0);
        let Some(at) = at.map(std::mem::take) else {
            counts.late_responses += 1;
            return;
        };
        counts.responses += 1;
        let index = self.sent.saturating_sub(1).saturating_sub(ago as u64);
        let actual = Nanos::new(at);
        let planned = plan.spec.rate.map(|rate| plan.start.saturating_add(rate.deadline(index)));
        self.session.took(SessionTime::Response, planned.unwrap_or(actual), actual, now);
        if let (Some(log), Some(sent)) = (log, header.sent) {
            let received = TimeOfDay::of(wall);
            log.write(&self.record, &Packet { sequence, sent, received, size: size as u32 });
        }
    }

    /// What the kernel has to say of the socket: over UDP that an earlier packet found no open port.
    pub fn take_error(&self) -> io::Result<()> {
        match (sockopt::socket_error(&self.socket)?, &self.socket) {
            (Err(error), Socket::Tcp(_)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// Sends no more.
    pub fn shut(&mut self) {
        if let Socket::Tcp(stream) = &self.socket {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Waits until the receiver's host has acknowledged all of a stream that is shut, its end too, for no longer than until `deadline`.
    pub fn wait_acked(&self, deadline: Nanos) {
        let Socket::Tcp(stream) = &self.socket else { return };
        let open = |state| matches!(state, TcpState::Established | TcpState::FinWait1);
        while clock() < deadline && tcp_info(stream.as_fd()).is_ok_and(|info| open(info.state)) {
            std::thread::sleep(LOOK.to_duration());
        }
    }

    /// What came of it.
    pub fn result(&self, spec: &FlowSpec, end: FlowEnd) -> FlowResult {
        let mut summary = self.session.summary(&[]);
        let counts = &mut summary.counts;
        counts.offered_bytes = counts.sent_bytes;
        counts.lost_responses = counts.requests.saturating_sub(counts.responses);
        FlowResult {
            flow: self.number,
            transport: spec.transport,
            meter: spec.meter,
            payload: PayloadKind::Standard,
            source: self.local,
            destination: self.remote,
            end,
            packets: self.sent,
            bytes: counts.sent_bytes,
            time: self.first_at.map_or(Nanos::ZERO, |first| self.last_at.saturating_sub(first)),
            summary,
        }
    }
}

/// The number of packet `index`, counted from 0; after 2^32 packets they begin again.
fn number_of(index: u64) -> u32 {
    index.wrapping_add(1) as u32
}

/// What packets hold behind their header: numbers that nothing compresses.
fn content(seed: u32, size: usize) -> Box<[u8]> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        // xorshift64 (Marsaglia 2003)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 56) as u8
    });
    bytes.take(size).collect()
}

#[cfg(test)]
mod tests {
    use wirebeat_units::FrameRate;

    use super::*;

    #[test]
    fn packets_are_due_until_the_amount_is_reached() {
        let start = Nanos::from_secs(100);
        let rate = FrameRate { frames: 3, per: Nanos::from_secs(1) };
        let time = Amount::Time(Nanos::from_secs(1));
        let usual = FlowSpec { rate: Some(rate), amount: time, ..FlowSpec::default() };
        let timed = Plan { spec: usual, start };
        let at = |ns: u64| Some(start.saturating_add(Nanos::new(ns)));
        let dues = [at(0), at(333_333_333), at(666_666_666), None];
        assert_eq!([0, 1, 2, 3].map(|index| timed.due(index, start)), dues);
        // one that is behind does not send on for ever
        assert_eq!(timed.due(1, start.saturating_add(Nanos::from_secs(2))), None);
        let counted = Plan { spec: FlowSpec { amount: Amount::Packets(2), ..usual }, start };
        let late = start.saturating_add(Nanos::from_secs(9));
        assert_eq!([1, 2].map(|index| counted.due(index, late)), [at(333_333_333), None]);
        let fast = Plan { spec: FlowSpec { rate: None, ..usual }, start };
        assert_eq!(fast.due(1_000_000, start), Some(start));
    }
}
