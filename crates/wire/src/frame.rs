//! Whole frames: Ethernet, IPv4 or IPv6, UDP and a payload, with every length and checksum filled in.
//!
//! This is for templates, which are made once per flow; what changes from frame to frame is
//! [`crate::stamp`]'s business. Each header writes itself and knows nothing of its neighbours; this
//! file alone knows how they stack.

use std::fmt;

use wirebeat_units::{FCS, FrameLen};

use crate::checksum::Sum;
use crate::ethernet::EtherType;
use crate::ip::Protocol;
use crate::{ethernet, ipv4, ipv6, udp};

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl IpVersion {
    /// Bytes of the Ethernet, IP and UDP headers.
    pub const fn headers_len(self) -> u16 {
        let ip = match self {
            IpVersion::V4 => ipv4::LEN,
            IpVersion::V6 => ipv6::LEN,
        };
        (ethernet::LEN + ip + udp::LEN) as u16
    }

    /// Bytes of payload that fill a frame of `len`; `None` when it is shorter than its headers.
    pub const fn payload_len(self, len: FrameLen) -> Option<u16> {
        len.buffer().checked_sub(self.headers_len())
    }

    /// The shortest frame that holds `payload_len` bytes, with FCS.
    pub fn shortest_frame(self, payload_len: usize) -> usize {
        let buffer = usize::from(self.headers_len()) + payload_len;
        buffer.max(ethernet::FRAME_MIN) + usize::from(FCS)
    }
}

/// The IP header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpRepr {
    /// Version 4.
    V4(ipv4::Repr),
    /// Version 6.
    V6(ipv6::Repr),
}

impl IpRepr {
    /// Which version it is.
    pub const fn version(&self) -> IpVersion {
        match self {
            IpRepr::V4(_) => IpVersion::V4,
            IpRepr::V6(_) => IpVersion::V6,
        }
    }

    fn ether_type(&self) -> EtherType {
        match self {
            IpRepr::V4(_) => EtherType::IPV4,
            IpRepr::V6(_) => EtherType::IPV6,
        }
    }

    /// Writes the header to the front of `out` and returns what follows; `None` when it does not fit.
    fn emit<'b>(&self, out: &'b mut [u8], protocol: Protocol, len: u16) -> Option<&'b mut [u8]> {
        match self {
            IpRepr::V4(ip) => {
                let (header, rest) = out.split_first_chunk_mut()?;
                ip.emit(header, protocol, len);
                Some(rest)
            }
            IpRepr::V6(ip) => {
                let (header, rest) = out.split_first_chunk_mut()?;
                ip.emit(header, protocol, len);
                Some(rest)
            }
        }
    }

    /// The sum of the pseudo header of `len` bytes of `protocol`.
    fn pseudo_header(&self, protocol: Protocol, len: u16) -> Sum {
        match self {
            IpRepr::V4(ip) => Sum::pseudo_v4(ip.source, ip.destination, protocol, len),
            IpRepr::V6(ip) => Sum::pseudo_v6(ip.source, ip.destination, protocol, len.into()),
        }
    }
}

/// What a frame is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame<'a> {
    /// The Ethernet header.
    pub ethernet: ethernet::Repr,
    /// The IP header.
    pub ip: IpRepr,
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// Whether the datagram carries a checksum; over IPv6 it must.
    pub checksum: bool,
    /// The payload: [`IpVersion::payload_len`] bytes, so that it fills the frame, or fewer in the
    /// shortest frame, which is then padded.
    pub payload: &'a [u8],
    /// The length of the frame.
    pub frame_len: FrameLen,
}

/// A frame, and where in it those fields lie that change when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The frame without FCS.
    pub bytes: Vec<u8>,
    /// Where the payload begins.
    pub payload_at: u16,
    /// Where the UDP checksum lies; 0 when there is none.
    pub checksum_at: u16,
    /// Where the IPv4 identification lies; 0 over IPv6.
    pub identification_at: u16,
}

/// Why a frame cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The headers and the payload are longer than the frame, or it is shorter than Ethernet allows.
    #[error(
        "a frame of {frame_len} is too short for what it carries; it takes at least {shortest}B"
    )]
    TooShort {
        /// The length that was asked for.
        frame_len: FrameLen,
        /// The shortest that is possible, with FCS.
        shortest: usize,
    },
    /// The payload does not fill the frame.
    #[error("a frame of {frame_len} is filled by {wanted} bytes of payload, not {given}")]
    PayloadLength {
        /// The length that was asked for.
        frame_len: FrameLen,
        /// Bytes of payload that were given.
        given: usize,
        /// Bytes of payload that fill the frame.
        wanted: usize,
    },
    /// IPv6 has no checksum of its own, so that UDP over it must have one.
    #[error("UDP over IPv6 must carry a checksum (RFC 8200, section 8.1); leave it on")]
    ChecksumRequired,
}

impl UdpFrame<'_> {
    /// Makes the frame.
    pub fn emit(&self) -> Result<Built, FrameError> {
        let version = self.ip.version();
        if version == IpVersion::V6 && !self.checksum {
            return Err(FrameError::ChecksumRequired);
        }
        self.check_lengths()?;
        let mut bytes = vec![0; usize::from(self.frame_len.buffer())];
        self.fill(&mut bytes).ok_or_else(|| self.too_short())?;
        let payload_at = version.headers_len();
        let checksum_at = payload_at - (udp::LEN - udp::CHECKSUM) as u16;
        let identification_at = (ethernet::LEN + ipv4::IDENTIFICATION) as u16;
        Ok(Built {
            bytes,
            payload_at,
            checksum_at: if self.checksum { checksum_at } else { 0 },
            identification_at: if version == IpVersion::V4 { identification_at } else { 0 },
        })
    }

    /// Whether headers and payload go into the frame and fill it.
    fn check_lengths(&self) -> Result<(), FrameError> {
        let given = self.payload.len();
        let room = self.ip.version().payload_len(self.frame_len).map(usize::from);
        let wanted = room.filter(|room| given <= *room && self.frame_len >= FrameLen::MIN);
        match wanted {
            None => Err(self.too_short()),
            // Only the shortest frame is padded.
            Some(wanted) if given < wanted && self.frame_len > FrameLen::MIN => {
                Err(FrameError::PayloadLength { frame_len: self.frame_len, given, wanted })
            }
            Some(_) => Ok(()),
        }
    }

    fn too_short(&self) -> FrameError {
        let shortest = self.ip.version().shortest_frame(self.payload.len());
        FrameError::TooShort { frame_len: self.frame_len, shortest }
    }

    /// Writes headers and payload into `frame`, which is zero; `None` when they do not fit.
    fn fill(&self, frame: &mut [u8]) -> Option<()> {
        let payload_len = u16::try_from(self.payload.len()).ok()?;
        let udp_len = payload_len.checked_add(udp::LEN as u16)?;

        let (header, rest) = frame.split_first_chunk_mut()?;
        self.ethernet.emit(header, self.ip.ether_type());
        let rest = self.ip.emit(rest, Protocol::UDP, udp_len)?;
        let (header, rest) = rest.split_first_chunk_mut()?;
        let udp =
            udp::Repr { source_port: self.source_port, destination_port: self.destination_port };
        udp.emit(header, payload_len);
        if self.checksum {
            let pseudo = self.ip.pseudo_header(Protocol::UDP, udp_len);
            udp::emit_checksum(header, pseudo, self.payload);
        }
        rest.get_mut(..self.payload.len())?.copy_from_slice(self.payload);
        Some(())
    }
}

impl fmt::Display for IpRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpRepr::V4(ip) => ip.fmt(f),
            IpRepr::V6(ip) => ip.fmt(f),
        }
    }
}
