//! The flows that are open, and what is counted and recorded of their packets.

use std::net::{IpAddr, SocketAddr};

use wirebeat_meter::memory::Memory;
use wirebeat_meter::session::SessionCounts;
use wirebeat_sockets::clock;
use wirebeat_units::Nanos;

use super::slots::Slots;
use crate::control::{FlowRequest, PayloadKind};
use crate::log::{FlowRecord, LogFile, Packet};
use crate::measurement::{Arrival, Measurement};
use crate::payload::{Header, TimeOfDay};
use crate::result::{FlowEnd, FlowResult};
use crate::socket::wall_clock;

/// The highest number of a packet: numbers begin at 1, and no flow sends more.
const SEQUENCE_MAX: u32 = u32::MAX >> 1;

/// How long packets may be under way after their sender has sent all (as ITGRecv waits).
pub(super) const UNDER_WAY: Nanos = Nanos::from_secs(1);

/// A flow that is open.
#[derive(Debug)]
pub(super) struct Flow {
    pub request: FlowRequest,
    /// The number of the signalling connection that asked for it.
    pub connection: u64,
    /// Where its packets have to come from.
    pub host: IpAddr,
    /// The place of its port.
    pub port: usize,
    /// Where they are received.
    pub destination: SocketAddr,
    /// Where they do come from, once one came.
    pub source: Option<SocketAddr>,
    /// Over TCP: the place of its connection.
    pub data: Option<usize>,
    /// Over TCP: its connection was there, and is closed.
    pub data_ended: bool,
    /// When it has lasted too long.
    pub deadline: Nanos,
    /// Its sender has sent all: until when packets may be under way.
    pub closing: Option<Nanos>,
    record: Option<FlowRecord>,
    measurement: Measurement,
}

impl Flow {
    pub fn new(
        request: FlowRequest,
        (connection, host): (u64, IpAddr),
        (port, destination): (usize, SocketAddr),
        deadline: Nanos,
    ) -> Flow {
        Flow {
            request,
            connection,
            host,
            port,
            destination,
            source: None,
            data: None,
            data_ended: false,
            deadline,
            closing: None,
            record: None,
            measurement: Measurement::default(),
        }
    }

    /// Its packets come from there.
    pub fn claim(&mut self, source: SocketAddr) {
        self.source = Some(source);
        self.record = Some(FlowRecord::new(self.request.flow, source, self.destination));
    }

    /// Whether a packet from this host that begins with this number may be its first. `None`: no number was read.
    pub fn may_begin(&self, host: IpAddr, flow: Option<u32>) -> bool {
        let numbered = self.request.payload != PayloadKind::None;
        self.host == host && (!numbered || flow == Some(self.request.flow))
    }

    /// Whether its packets have no number.
    pub fn has_no_header(&self) -> bool {
        self.request.payload == PayloadKind::None
    }

    /// Whether it is over by time, and how.
    pub fn over_at(&self, now: Nanos) -> Option<FlowEnd> {
        // what a stream holds is not lost by the way: as long as more of it comes, it is not over
        let comes =
            self.data.is_some() && now.saturating_sub(self.measurement.last_at()) < UNDER_WAY;
        match self.closing {
            Some(until) if now >= until && !comes => Some(FlowEnd::InOrder),
            _ if now >= self.deadline => Some(FlowEnd::TooLong),
            _ => None,
        }
    }

    fn result(&self, end: FlowEnd) -> FlowResult {
        let FlowRequest { flow, transport, meter, payload, .. } = self.request;
        FlowResult {
            flow,
            transport,
            meter,
            payload,
            source: self.source.unwrap_or(SocketAddr::new(self.host, 0)),
            destination: self.destination,
            end,
            packets: self.measurement.packets(),
            bytes: self.measurement.bytes(),
            time: self.measurement.time(),
            summary: self.measurement.summary(),
        }
    }
}

/// The open flows, and where their packets go.
#[derive(Debug)]
pub(super) struct Flows {
    pub open: Slots<Flow>,
    pub counts: SessionCounts,
    memory: Memory,
    log: Option<LogFile>,
}

impl Flows {
    pub fn new(limit: usize, log: Option<LogFile>) -> Flows {
        let (counts, memory) = (SessionCounts::default(), Memory::default());
        Flows { open: Slots::new(limit), counts, memory, log }
    }

    /// Counts a packet of the flow at this place, and records it.
    pub fn record(&mut self, place: usize, header: Option<&Header>, size: usize) {
        let Some(flow) = self.open.get_mut(place) else { return };
        let (wall, at) = (wall_clock(), clock());
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let (sequence, sent) = (header.map(|of| of.sequence), header.and_then(|of| of.sent));
        if sequence.is_some_and(|number| number == 0 || number > SEQUENCE_MAX) {
            // it has no place in the measurement nor in the log, which are to agree
            flow.measurement.record_malformed();
            self.counts.malformed_messages += 1;
            return;
        }
        flow.measurement.record(&Arrival { sequence, sent, wall, at, size }, &mut self.memory);
        self.counts.messages_received += 1;
        self.counts.delivered_bytes += u64::from(size);
        if let (Some(log), Some(record)) = (&mut self.log, &flow.record) {
            let received = TimeOfDay::of(wall);
            let sent = sent.unwrap_or(received);
            log.write(record, &Packet { sequence: sequence.unwrap_or(0), sent, received, size });
        }
    }

    /// Counts what came in place of a packet.
    pub fn record_malformed(&mut self, place: usize) {
        if let Some(flow) = self.open.get_mut(place) {
            flow.measurement.record_malformed();
            self.counts.malformed_messages += 1;
        }
    }

    /// Takes a flow out that has ended, and counts that.
    pub fn take(&mut self, place: usize, end: FlowEnd) -> Option<(Flow, FlowResult)> {
        let flow = self.open.remove(place)?;
        *end.counter(&mut self.counts) += 1;
        if let Some(log) = &mut self.log {
            log.flush();
        }
        let result = flow.result(end);
        Some((flow, result))
    }

    /// Completes the log.
    pub fn finish_log(&mut self) -> std::io::Result<()> {
        match self.log.take().map_or(Ok(0), LogFile::finish)? {
            0 => Ok(()),
            omitted => {
                let largest = wirebeat_units::Bytes::new(crate::log::BYTES_MAX);
                let why = format!("it is full at {largest}: {omitted} packets are not in it");
                Err(std::io::Error::other(why))
            }
        }
    }
}
