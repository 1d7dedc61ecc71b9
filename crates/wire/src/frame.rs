//! Whole frames: Ethernet, IPv4 or IPv6, UDP and a payload, with every length and checksum filled in.
//!
//! This is for templates, which are made once per flow; what changes from frame to frame is
//! [`crate::stamp`]'s business. Each header writes itself and knows nothing of its neighbours; this
//! file alone knows how they stack.

use std::fmt;

use wirebeat_units::{FCS, FrameLen};

use crate::checksum::Sum;
use crate::ethernet::EtherType;
use crate::ip::{Protocol, Version};
use crate::{ethernet, ipv4, ipv6, udp};

impl Version {
    /// Bytes of the Ethernet, IP and UDP headers.
    pub const fn headers_len(self) -> u16 {
        let ip = match self {
            Version::V4 => ipv4::LEN,
            Version::V6 => ipv6::LEN,
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
    pub const fn version(&self) -> Version {
        match self {
            IpRepr::V4(_) => Version::V4,
            IpRepr::V6(_) => Version::V6,
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
    /// The payload: [`Version::payload_len`] bytes, so that it fills the frame, or fewer in the
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
        if version == Version::V6 && !self.checksum {
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
            identification_at: if version == Version::V4 { identification_at } else { 0 },
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::checksum;
    use crate::codec::Moment;
    use crate::datagram::Datagram;
    use crate::mac::MacAddr;
    use crate::probe::Probe;
    use crate::stamp::Stamp;

    const ETHERNET: ethernet::Repr = ethernet::Repr {
        destination: MacAddr([0x00, 0x00, 0x5e, 0x00, 0x53, 0x02]),
        source: MacAddr([0x00, 0x00, 0x5e, 0x00, 0x53, 0x01]),
    };
    const V4: IpRepr = IpRepr::V4(ipv4::Repr {
        source: std::net::Ipv4Addr::new(192, 0, 2, 1),
        destination: std::net::Ipv4Addr::new(198, 51, 100, 9),
        ttl: 64,
        tos: 0xb8,
        identification: 0x0102,
        dont_fragment: true,
    });
    const V6: IpRepr = IpRepr::V6(ipv6::Repr {
        source: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        destination: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        hop_limit: 63,
        traffic_class: 0xb8,
        flow_label: 0x12345,
    });
    const PROBE: Probe =
        Probe { flow: 7, sequence: 0x0001_0203, transmit_ns: 0x1122_3344_5566_7788 };

    fn udp_frame(ip: IpRepr, payload: &[u8], frame_len: u16) -> UdpFrame<'_> {
        UdpFrame {
            ethernet: ETHERNET,
            ip,
            source_port: 49_152,
            destination_port: 9,
            checksum: true,
            payload,
            frame_len: FrameLen::with_fcs(frame_len),
        }
    }

    /// Reads hexadecimal digits, one field a line, with a comment after each.
    fn hex(text: &str) -> Vec<u8> {
        let fields = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let digits: Vec<u32> =
            fields.flat_map(str::chars).filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    // The checksums of the two golden frames were summed by hand; tshark 4.0 reads the frames with the
    // same fields and calls all three checksums good.

    #[test]
    fn golden_ipv4_frame_of_64_bytes() {
        let payload = [&[0xa5, 0x5a][..], &PROBE.to_bytes()].concat();
        let built = udp_frame(V4, &payload, 64).emit().expect("a frame");
        let golden = hex("
            00005e005302      # destination
            00005e005301      # source
            0800              # EtherType: IPv4
            45                # version, header length
            b8                # ToS
            002e              # total length: 46
            0102              # identification
            4000              # don't fragment
            40                # TTL
            11                # UDP
            4cc7              # header checksum
            c0000201          # 192.0.2.1
            c6336409          # 198.51.100.9
            c000              # source port 49152
            0009              # destination port
            001a              # length: 26
            4375              # checksum
            a55a              # filling
            5742              # probe: magic
            0007              # flow
            00010203          # sequence
            1122334455667788  # transmit time
            ");
        assert_eq!(built.bytes, golden);
        assert_eq!((built.payload_at, built.checksum_at, built.identification_at), (42, 40, 18));
    }

    #[test]
    fn golden_ipv6_frame_with_a_payload_of_odd_length() {
        let payload = [&[0x5a][..], &PROBE.to_bytes()].concat();
        let built = udp_frame(V6, &payload, 83).emit().expect("a frame");
        let golden = hex("
            00005e005302      # destination
            00005e005301      # source
            86dd              # EtherType: IPv6
            6b812345          # version 6, traffic class b8, flow label 12345
            0019              # payload length: 25
            11                # UDP
            3f                # hop limit
            20010db8000000000000000000000001
            20010db8000000000000000000000002
            c000              # source port 49152
            0009              # destination port
            0019              # length: 25
            e7d2              # checksum
            5a                # filling
            5742              # probe: magic
            0007              # flow
            00010203          # sequence
            1122334455667788  # transmit time
            ");
        assert_eq!(built.bytes, golden);
        assert_eq!((built.payload_at, built.checksum_at, built.identification_at), (62, 60, 0));
    }

    #[test]
    fn a_frame_without_checksum_says_so() {
        let frame = UdpFrame { checksum: false, ..udp_frame(V4, &[1; 18], 64) };
        let built = frame.emit().expect("a frame");
        assert_eq!(built.checksum_at, 0);
        assert_eq!(built.bytes[40..42], [0, 0]);
        let frame = UdpFrame { checksum: false, ..udp_frame(V6, &[1; 16], 82) };
        assert_eq!(frame.emit(), Err(FrameError::ChecksumRequired));
    }

    #[test]
    fn a_short_payload_is_padded_with_zeros() {
        let built = udp_frame(V4, &[0xee; 5], 64).emit().expect("a frame");
        assert_eq!(built.bytes.len(), ethernet::FRAME_MIN);
        assert_eq!(built.bytes[42..47], [0xee; 5]);
        assert_eq!(built.bytes[47..], [0; 13]);
        assert_eq!(Datagram::parse(&built.bytes).map(|d| d.payload.len()), Ok(5));
    }

    #[test]
    fn a_frame_too_short_names_the_shortest() {
        for (ip, payload, frame_len, shortest) in
            [(V4, 19, 64, 65), (V4, 0, 63, 64), (V4, 0, 20, 64), (V6, 16, 81, 82), (V6, 0, 64, 66)]
        {
            let payload = vec![0; payload];
            let frame = udp_frame(ip, &payload, frame_len);
            let frame_len = FrameLen::with_fcs(frame_len);
            assert_eq!(frame.emit(), Err(FrameError::TooShort { frame_len, shortest }));
            assert!(udp_frame(ip, &payload, shortest as u16).emit().is_ok());
        }
        // Longer than any frame.
        let error = udp_frame(V4, &[0; 70_000], 1518).emit().expect_err("too long");
        assert_eq!(
            error.to_string(),
            "a frame of 1518B is too short for what it carries; it takes at least 70046B"
        );
    }

    #[test]
    fn a_payload_that_does_not_fill_the_frame_is_refused() {
        assert_eq!(
            udp_frame(V4, &[0; 18], 65).emit(),
            Err(FrameError::PayloadLength {
                frame_len: FrameLen::with_fcs(65),
                given: 18,
                wanted: 19
            })
        );
    }

    /// The payload of a probe's template: `filling` and a probe that is still blank.
    fn blank(filling: &[u8]) -> Vec<u8> {
        let blank = Probe { sequence: 0, transmit_ns: 0, ..PROBE };
        [filling, &blank.to_bytes()].concat()
    }

    fn filled(ip: IpRepr, payload: &[u8]) -> Built {
        let frame_len = ip.version().shortest_frame(payload.len()) as u16;
        udp_frame(ip, payload, frame_len).emit().expect("a frame")
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(six: bool, payload in prop::collection::vec(any::<u8>(), 0..9000)) {
            let ip = if six { V6 } else { V4 };
            let built = filled(ip, &payload);
            let datagram = Datagram::parse(&built.bytes).expect("a datagram");
            prop_assert_eq!(datagram.payload, &payload);
            prop_assert_eq!(datagram.payload_at, usize::from(built.payload_at));
            if let IpRepr::V4(_) = ip {
                prop_assert_eq!(checksum(&built.bytes[14..34]), 0);
            }
        }

        /// A template that is stamped is the frame that would have been built with the same values:
        /// for both versions and for probes at odd and even offsets.
        #[test]
        fn a_stamped_template_is_the_frame_built_anew(
            six: bool,
            filling in prop::collection::vec(any::<u8>(), 0..40),
            sequence: u32,
            transmit_ns: u64,
        ) {
            let with_identification = |identification| match (six, V4) {
                (false, IpRepr::V4(ip)) => IpRepr::V4(ipv4::Repr { identification, ..ip }),
                _ => V6,
            };
            let mut template = filled(with_identification(0), &blank(&filling));
            let stamp = Stamp {
                probe_at: template.payload_at + filling.len() as u16,
                checksum_at: template.checksum_at,
                identification_at: template.identification_at,
                ..Stamp::default()
            };
            let now = Moment { monotonic_ns: transmit_ns, unix_ns: 0 };
            stamp.write(&mut template.bytes, sequence, now);

            let probe = Probe { sequence, transmit_ns, ..PROBE };
            let payload = [&filling, &probe.to_bytes()[..]].concat();
            prop_assert_eq!(template, filled(with_identification(sequence as u16), &payload));
        }
    }
}
