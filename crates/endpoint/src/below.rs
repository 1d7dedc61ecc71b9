//! Where packets of our TCP go: into the slots of a port, behind an Ethernet header to their next hop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_engine::port::{Counted, PortError, Segments, TxMeta, TxPort};
use wirebeat_neighbours::Neighbours;
use wirebeat_stack::Transmit;
use wirebeat_units::Nanos;
use wirebeat_wire::ethernet::{EtherType, FRAME_MIN};
use wirebeat_wire::ip::Version;
use wirebeat_wire::{ipv4, ipv6};

use crate::udp::Way;

/// Frames that are reserved at a time.
const BATCH: usize = 64;
/// Bytes of the FCS, which counters of frames include.
const FCS: usize = 4;

/// What is on its way to the port.
#[derive(Debug)]
pub(crate) struct Below<P> {
    port: P,
    metas: Vec<TxMeta>,
    /// Slots that are reserved, those of `metas` included.
    reserved: usize,
    /// Why the port cannot go on.
    pub(crate) error: Option<PortError>,
    /// Packets that were not sent, since it was not known where to.
    pub(crate) unresolved: u64,
    /// Frames of our own: answers and questions.
    pub(crate) frames: u64,
    /// All frames, and their bytes with FCS.
    pub(crate) frames_sent: u64,
    pub(crate) frame_bytes_sent: u64,
    /// The same of sessions, by their profiles: clients of each group, and then servers of each.
    pub(crate) sent_for: Vec<SentFrames>,
}

/// Frames that were sent, those that the system cuts from large packets one by one, and their bytes with FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentFrames {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl<P: TxPort> Below<P> {
    pub(crate) fn new(port: P, profiles: usize) -> Below<P> {
        Below {
            port,
            metas: Vec::with_capacity(BATCH),
            reserved: 0,
            error: None,
            unresolved: 0,
            frames: 0,
            frames_sent: 0,
            frame_bytes_sent: 0,
            sent_for: vec![SentFrames::default(); profiles],
        }
    }

    /// Whether there is a free slot.
    fn has_slot(&mut self) -> bool {
        if self.metas.len() < self.reserved {
            return true;
        }
        self.hand_over();
        for again in [true, false] {
            match self.port.reserve(BATCH) {
                Ok(0) if again => self.check(|port| port.flush()),
                Ok(0) => return false,
                Ok(reserved) => {
                    self.reserved = reserved;
                    return true;
                }
                Err(error) => {
                    self.error.get_or_insert(error);
                    return false;
                }
            }
        }
        false
    }

    fn check(&mut self, work: impl FnOnce(&mut P) -> Result<(), PortError>) {
        if let Err(error) = work(&mut self.port) {
            self.error.get_or_insert(error);
        }
    }

    /// Commits what is in the slots.
    fn hand_over(&mut self) {
        if self.metas.is_empty() {
            return;
        }
        let metas = std::mem::take(&mut self.metas);
        self.check(|port| port.commit(&metas));
        self.reserved = self.reserved.saturating_sub(metas.len());
        self.metas = metas;
        self.metas.clear();
    }

    /// Sends everything that is in the slots.
    pub(crate) fn flush(&mut self) {
        self.hand_over();
        self.check(|port| port.flush());
    }

    /// The next slot has a frame of so many bytes, of which `payload` are those of its packet; it is cut as `segments` says, and of a
    /// session of `profile`.
    fn push(&mut self, len: usize, payload: usize, segments: Segments, profile: Option<u8>) {
        let at = self.metas.len();
        let padded = len.max(FRAME_MIN);
        if let Some(padding) = self.port.slot(at).get_mut(len..padded) {
            padding.fill(0);
        }
        let headers = usize::from(segments.data_at);
        let data = len.saturating_sub(headers);
        let packets = if segments.len == 0 { 1 } else { data.div_ceil(segments.len.into()) };
        let counted = Counted {
            packets: packets as u16,
            fragments: 0,
            bytes: (padded + FCS + (packets - 1) * (headers + FCS)) as u32,
            payload: payload as u16,
        };
        self.frames_sent += packets as u64;
        self.frame_bytes_sent += u64::from(counted.bytes);
        if let Some(of) = profile.and_then(|profile| self.sent_for.get_mut(usize::from(profile))) {
            of.frames += packets as u64;
            of.bytes += u64::from(counted.bytes);
        }
        self.metas.push(TxMeta { len: padded as u16, counted, segments, ..TxMeta::default() });
    }

    /// Sends what the neighbourhood has to say.
    pub(crate) fn send_neighbours(&mut self, now: Nanos, neighbours: &mut Neighbours) {
        while self.error.is_none() && self.has_slot() {
            let at = self.metas.len();
            let Some(len) = neighbours.next_frame(now, self.port.slot(at)) else { break };
            self.frames += 1;
            self.push(len, 0, Segments::default(), None);
        }
    }

    pub(crate) fn port(&self) -> &P {
        &self.port
    }
}

/// The port, as the TCP writes to it for the length of a call.
pub(crate) struct Outbox<'a, P> {
    pub(crate) below: &'a mut Below<P>,
    pub(crate) neighbours: &'a mut Neighbours,
    pub(crate) now: Nanos,
    /// The length of the packet in the last buffer, and the profile of the session that it is of.
    pub(crate) len: usize,
    pub(crate) profile: Option<u8>,
}

/// Between whom an IP packet goes, and the EtherType of its version.
struct Addressed {
    from: IpAddr,
    to: IpAddr,
    ether_type: EtherType,
}

impl Addressed {
    fn of(packet: &[u8]) -> Option<Addressed> {
        match Version::of_packet(packet)? {
            Version::V4 => {
                let address = |at| -> Option<IpAddr> {
                    let bytes: [u8; 4] = *packet.get(at..)?.first_chunk()?;
                    Some(Ipv4Addr::from(bytes).into())
                };
                let (from, to) = (address(12)?, address(16)?);
                Some(Addressed { from, to, ether_type: EtherType::IPV4 })
            }
            Version::V6 => {
                let address = |at| -> Option<IpAddr> {
                    let bytes: [u8; 16] = *packet.get(at..)?.first_chunk()?;
                    Some(Ipv6Addr::from(bytes).into())
                };
                let (from, to) = (address(8)?, address(24)?);
                Some(Addressed { from, to, ether_type: EtherType::IPV6 })
            }
        }
    }
}

impl<P: TxPort> Transmit for Outbox<'_, P> {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.below.error.is_some() || !self.below.has_slot() {
            return None;
        }
        let header = self.neighbours.link().header_len();
        (self.len, self.profile) = (len, None);
        let at = self.below.metas.len();
        self.below.port.slot(at).get_mut(header..header + len)
    }

    fn of_profile(&mut self, profile: u8) {
        self.profile = Some(profile);
    }

    fn commit(&mut self) {
        self.address(0, 0);
    }

    fn takes_large(&self) -> bool {
        self.below.port.caps().large
    }

    fn commit_large(&mut self, segment_len: u16, header_len: u16) {
        self.address(segment_len, header_len);
    }
}

impl<P: TxPort> Way for Outbox<'_, P> {
    fn knows(&mut self, host: IpAddr) -> bool {
        self.neighbours.mac_for(self.now, host).is_some()
    }
}

impl<P: TxPort> Outbox<'_, P> {
    /// Puts the Ethernet header before the packet in the last buffer, which is cut into segments with `segment_len` bytes of data, if
    /// that is not 0, behind `header_len` bytes of headers.
    fn address(&mut self, segment_len: u16, header_len: u16) {
        let header = self.neighbours.link().header_len();
        let at = self.below.metas.len();
        let slot = self.below.port.slot(at);
        let addressed = slot.get(header..).and_then(Addressed::of);
        let mac = addressed.as_ref().and_then(|of| match self.profile {
            Some(_) => self.neighbours.mac_for(self.now, of.to),
            None => self.neighbours.mac_for_stranger(self.now, of.to),
        });
        let (Some(Addressed { from, ether_type, .. }), Some(mac)) = (addressed, mac) else {
            self.below.unresolved += 1;
            return;
        };
        if self.neighbours.link_of(from).write_header(mac, ether_type, slot).is_some() {
            let segments = if segment_len == 0 {
                Segments::default()
            } else {
                let is_v6 = ether_type == EtherType::IPV6;
                let ip_len = if is_v6 { ipv6::LEN } else { ipv4::LEN };
                Segments {
                    len: segment_len,
                    tcp_at: (header + ip_len) as u16,
                    data_at: (header as u16).saturating_add(header_len),
                    is_v6,
                }
            };
            self.below.push(header + self.len, self.len, segments, self.profile);
        }
    }
}
