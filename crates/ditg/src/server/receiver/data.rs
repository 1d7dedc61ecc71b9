//! A connection that a flow over TCP comes over: messages in a stream, and those that are sent back.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use wirebeat_units::Nanos;

use super::super::flow::Flows;
use super::Port;
use crate::control::{Meter, PayloadKind, Transport};
use crate::payload::{HEADER_MAX, Header, SIZE_MAX, flow_of, header_len};

/// Reads that a connection may do before the next one's turn.
const TURN: usize = 8;
/// How long a connection may take to say which flow it is.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Bytes that say which flow it is.
const NUMBER: usize = 4;
/// The largest message that is taken: the largest of D-ITG, and some room.
const MESSAGE_MAX: usize = SIZE_MAX + 1536;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataEnd {
    /// It was closed, or broke.
    Closed,
    /// What came is none of D-ITG's messages.
    Malformed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Data {
    pub stream: TcpStream,
    peer: SocketAddr,
    /// The place of the port that it came to.
    pub port: usize,
    /// The place of its flow, once that is known.
    pub flow: Option<usize>,
    /// Until when it has to say which flow it is.
    deadline: Nanos,
    /// The beginning of the present message, as far as it is there.
    head: [u8; HEADER_MAX],
    have: usize,
    /// The header of the present message, and how many of its bytes are missing.
    message: Option<(Header, usize)>,
    /// What is sent back and the kernel did not take yet: at most what one read brought, and the message that it completes.
    out: Vec<u8>,
}

impl Data {
    pub fn new(stream: TcpStream, peer: SocketAddr, port: usize, now: Nanos) -> Data {
        Data {
            stream,
            peer,
            port,
            flow: None,
            deadline: now.saturating_add(PATIENCE),
            head: [0; HEADER_MAX],
            have: 0,
            message: None,
            out: Vec::new(),
        }
    }

    /// Whether it is one of this host at this port that has not said which flow it is.
    pub fn waits_at(&self, port: usize, host: IpAddr) -> bool {
        self.flow.is_none() && self.port == port && self.peer.ip() == host
    }

    /// Whether it has taken too long to say that.
    pub fn is_late(&self, now: Nanos) -> bool {
        self.flow.is_none() && now >= self.deadline
    }

    /// What is waited for: while the sender does not read what is sent back, nothing more is taken from it.
    pub fn wanted(&self) -> EventFlags {
        if self.out.is_empty() { EventFlags::IN } else { EventFlags::OUT }
    }

    /// Reads what is there, for at most a turn: how the connection ends, if it does. `place` is its own.
    pub fn take(
        &mut self,
        place: usize,
        port: &mut Port,
        flows: &mut Flows,
        buffer: &mut [u8],
    ) -> Option<DataEnd> {
        for _ in 0..TURN {
            if let Err(end) = self.flush() {
                return Some(end);
            }
            if !self.out.is_empty() {
                return None;
            }
            let read = match self.stream.read(buffer) {
                Ok(0) => return Some(DataEnd::Closed),
                Ok(read) => read,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted => continue,
                    _ => return Some(DataEnd::Closed),
                },
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            if let Err(end) = self.feed(bytes, place, port, flows) {
                return Some(end);
            }
        }
        self.flush().err()
    }

    /// Takes the bytes of a read.
    fn feed(
        &mut self,
        mut bytes: &[u8],
        place: usize,
        port: &mut Port,
        flows: &mut Flows,
    ) -> Result<(), DataEnd> {
        // with what came before it was known whose it is
        let before = if self.flow.is_none() { self.have } else { 0 };
        let read = before.saturating_add(bytes.len());
        while !bytes.is_empty() {
            let flow = match self.flow {
                Some(flow) => flow,
                None => {
                    self.fill(&mut bytes, NUMBER);
                    if self.have < NUMBER {
                        return Ok(());
                    }
                    let number = flow_of(&self.head);
                    // nobody announced it
                    let claimed = port.claim(flows, self.peer, number);
                    let flow = claimed.ok_or(DataEnd::Malformed)?;
                    if let Some(of) = flows.open.get_mut(flow) {
                        of.data = Some(place);
                    }
                    self.flow = Some(flow);
                    flow
                }
            };
            let request = flows.open.get(flow).ok_or(DataEnd::Closed)?.request;
            if request.payload == PayloadKind::None {
                // there are no messages: a packet is what one read gives
                self.have = 0;
                flows.record(flow, None, read);
                return Ok(());
            }
            let needed = header_len(Transport::Tcp, request.payload);
            let (header, missing) = match self.message {
                Some(message) => message,
                None => {
                    self.fill(&mut bytes, needed);
                    if self.have < needed {
                        return Ok(());
                    }
                    let header = Header::read(&self.head, Transport::Tcp, request.payload);
                    let size = header.and_then(|header| header.size);
                    let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                    let header = header.filter(|header| header.flow == request.flow);
                    let valid = (needed..=MESSAGE_MAX).contains(&size);
                    let header = header.filter(|_| valid).ok_or(DataEnd::Malformed)?;
                    self.have = 0;
                    (header, size - needed)
                }
            };
            let taken = missing.min(bytes.len());
            bytes = bytes.get(taken..).unwrap_or_default();
            self.message = Some((header, missing - taken));
            if taken == missing {
                self.message = None;
                let size = header.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                flows.record(flow, Some(&header), size);
                if request.meter == Meter::RoundTrip {
                    // as ITGRecv: the header, and as many bytes as came
                    let end = self.out.len().saturating_add(size);
                    self.out.extend(self.head.get(..needed).unwrap_or_default());
                    self.out.resize(end, 0);
                }
            }
        }
        Ok(())
    }

    /// Fills the beginning of a message up to `needed` bytes.
    fn fill(&mut self, bytes: &mut &[u8], needed: usize) {
        let missing = needed.saturating_sub(self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        if let Some(room) = self.head.get_mut(self.have..self.have.saturating_add(missing)) {
            room.copy_from_slice(taken);
        }
        self.have += missing;
        *bytes = rest;
    }

    /// Sends back what is to be.
    fn flush(&mut self) -> Result<(), DataEnd> {
        while !self.out.is_empty() {
            match send(&self.stream, &self.out, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent.min(self.out.len()))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(DataEnd::Closed),
            }
        }
        Ok(())
    }
}
