//! Joined datagrams, taken apart again; and segments that are to be cut.
//!
//! A sender with generic segmentation offload hands the kernel many datagrams of one size as one
//! packet. Over a virtual cable that packet arrives whole: one IP and one UDP header, then all the
//! payloads. On a physical line each would have been a frame of its own, and here each becomes one
//! again. The UDP checksum is left as it is: offloading leaves it unfinished even in single frames.

use wirebeat_engine::port::Segments;
use wirebeat_wire::checksum::checksum;

/// `VIRTIO_NET_HDR_GSO_UDP_L4` (virtio 1.3 §5.1.6): datagrams joined by segmentation offload.
const UDP_SEGMENTS: u8 = 5;
/// `VIRTIO_NET_HDR_GSO_ECN`, a flag beside the kind.
const ECN: u8 = 0x80;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the start of the transport header is known.
const NEEDS_CHECKSUM: u8 = 1;

/// Bytes of the header that the kernel puts before a frame (`struct virtio_net_hdr`).
pub(super) const OFFLOAD_LEN: usize = 10;
const UDP_LEN: usize = 8;

/// `VIRTIO_NET_HDR_GSO_TCPV4` and `VIRTIO_NET_HDR_GSO_TCPV6`: segments of TCP to be cut.
const TCP_SEGMENTS: [u8; 2] = [1, 4];
/// Where the checksum is in a TCP header (RFC 9293 §3.1).
const TCP_CHECKSUM: u16 = 16;

/// The header before a frame, which says how it is cut. Numbers are in native byte order.
pub(super) fn offload_header(segments: Segments) -> [u8; OFFLOAD_LEN] {
    let Segments { len, tcp_at, data_at, is_v6 } = segments;
    if len == 0 {
        return [0; OFFLOAD_LEN];
    }
    let mut header = [0; OFFLOAD_LEN];
    header[0] = NEEDS_CHECKSUM;
    header[1] = TCP_SEGMENTS[usize::from(is_v6)];
    for (at, value) in [(2, data_at), (4, len), (6, tcp_at), (8, TCP_CHECKSUM)] {
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    header
}

/// How a packet was joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Bytes of payload of each datagram; the last may have fewer.
    size: usize,
    /// Where the UDP header begins.
    udp_at: usize,
}

impl Joined {
    /// Reads the offload header, which is in native byte order; `None` for a single frame.
    pub(super) fn from_offload(header: &[u8; OFFLOAD_LEN]) -> Option<Joined> {
        let [flags, kind, _, _, size_0, size_1, start_0, start_1, _, _] = *header;
        let size = usize::from(u16::from_ne_bytes([size_0, size_1]));
        let udp_at = usize::from(u16::from_ne_bytes([start_0, start_1]));
        let joined = kind & !ECN == UDP_SEGMENTS && flags & NEEDS_CHECKSUM != 0 && size > 0;
        joined.then_some(Joined { size, udp_at })
    }

    /// The same, `bytes` further on.
    pub(super) fn shifted(self, bytes: usize) -> Joined {
        Joined { udp_at: self.udp_at + bytes, ..self }
    }

    /// Gives each datagram of `frame`, as a frame of its own, to `sink`, and returns how many there
    /// were. `scratch` is where they are made. A frame whose headers make no sense is given as it is.
    pub(super) fn split(
        self,
        frame: &[u8],
        scratch: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8]),
    ) -> usize {
        let Some((headers, payloads)) = frame.split_at_checked(self.udp_at + UDP_LEN) else {
            sink(frame);
            return 1;
        };
        let Some(ip) = Ip::find(headers, self.udp_at).filter(|_| !payloads.is_empty()) else {
            sink(frame);
            return 1;
        };
        let mut count = 0;
        for payload in payloads.chunks(self.size) {
            scratch.clear();
            scratch.extend_from_slice(headers);
            scratch.extend_from_slice(payload);
            let udp_len = UDP_LEN + payload.len();
            set(scratch, self.udp_at + 4, udp_len);
            ip.update(scratch, self.udp_at, udp_len, count);
            sink(scratch);
            count += 1;
        }
        count
    }
}

/// Where the IP header begins.
#[derive(Clone, Copy)]
enum Ip {
    V4(usize),
    V6(usize),
}

impl Ip {
    /// Behind the Ethernet header and up to two VLAN tags, and reaching to the UDP header.
    fn find(headers: &[u8], udp_at: usize) -> Option<Ip> {
        [14, 18, 22].into_iter().find_map(|at| {
            let len = udp_at.checked_sub(at)?;
            match get(headers, at - 2)? {
                0x0800 if usize::from(headers.get(at)? & 0x0f) * 4 == len && len >= 20 => {
                    Some(Ip::V4(at))
                }
                0x86dd if len >= 40 => Some(Ip::V6(at)),
                _ => None,
            }
        })
    }

    /// Makes the header right for segment `index`, whose transport part has `len` bytes.
    fn update(self, frame: &mut [u8], udp_at: usize, len: usize, index: usize) {
        match self {
            Ip::V4(at) => {
                set(frame, at + 2, udp_at - at + len);
                // the kernel numbers the segments (net/ipv4/udp_offload.c)
                let first = usize::from(get(frame, at + 4).unwrap_or(0));
                set(frame, at + 4, first + index);
                set(frame, at + 10, 0);
                let sum = checksum(&frame[at..udp_at]);
                set(frame, at + 10, usize::from(sum));
            }
            Ip::V6(at) => set(frame, at + 4, udp_at - at - 40 + len),
        }
    }
}

fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes the low 16 bits of `value` at `at`, if that is within `bytes`.
fn set(bytes: &mut [u8], at: usize, value: usize) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = (value as u16).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offload(flags: u8, kind: u8, size: u16, start: u16) -> [u8; OFFLOAD_LEN] {
        let ([a, b], [c, d]) = (size.to_ne_bytes(), start.to_ne_bytes());
        [flags, kind, 0, 0, a, b, c, d, 6, 0]
    }

    /// A frame with `tags` VLAN tags whose payload counts up from zero.
    fn frame(v6: bool, tags: usize, payload: usize) -> (Vec<u8>, usize) {
        let mut frame = vec![0xee; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0x00, 0x00, 0x07]);
        }
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
            frame.extend([0xfd; 32]);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0x12, 0xff, 0x40, 0, 64, 17, 0, 0]);
            frame.extend([10; 8]);
        }
        let udp_at = frame.len();
        frame.extend([0x13, 0x88, 0x13, 0x89, 0, 0, 0xab, 0xcd]);
        frame.extend((0..payload).map(|index| index as u8));
        (frame, udp_at)
    }

    fn split(joined: Joined, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let count = joined.split(frame, &mut Vec::new(), |segment| out.push(segment.to_vec()));
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn segments_to_be_cut_are_told_to_the_kernel() {
        assert_eq!(offload_header(Segments::default()), [0; OFFLOAD_LEN]);
        let segments = Segments { len: 1448, tcp_at: 34, data_at: 66, is_v6: false };
        let [one, two] = [segments, Segments { tcp_at: 54, is_v6: true, ..segments }];
        let ne = |value: u16| value.to_ne_bytes();
        let expected = |kind: u8, start: u16| {
            [&[1, kind], &ne(66)[..], &ne(1448), &ne(start), &ne(16)].concat()
        };
        assert_eq!(offload_header(one).to_vec(), expected(1, 34));
        assert_eq!(offload_header(two).to_vec(), expected(4, 54));
        assert_eq!(Joined::from_offload(&offload_header(one)), None, "no datagrams");
    }

    #[test]
    fn only_joined_datagrams_are_taken_apart() {
        let joined = Some(Joined { size: 18, udp_at: 34 });
        assert_eq!(Joined::from_offload(&offload(1, 5, 18, 34)), joined);
        assert_eq!(Joined::from_offload(&offload(1, 5 | 0x80, 18, 34)), joined, "with ECN");
        assert_eq!(Joined::from_offload(&offload(1, 0, 0, 34)), None, "a single frame");
        assert_eq!(Joined::from_offload(&offload(1, 1, 18, 34)), None, "TCP");
        assert_eq!(Joined::from_offload(&offload(0, 5, 18, 34)), None, "no transport header");
        assert_eq!(Joined::from_offload(&offload(1, 5, 0, 34)), None, "no size");
    }

    #[test]
    fn each_datagram_gets_headers_of_its_own() {
        for tags in 0..=2 {
            let (frame, udp_at) = frame(false, tags, 18 * 3 + 5);
            let segments = split(Joined { size: 18, udp_at }, &frame);
            let lengths: Vec<_> = segments.iter().map(Vec::len).collect();
            let payload_at = udp_at + 8;
            assert_eq!(lengths, [18, 18, 18, 5].map(|len| payload_at + len));
            for (index, segment) in segments.iter().enumerate() {
                let len = segment.len() - payload_at;
                let ip_at = udp_at - 20;
                assert_eq!(segment[payload_at], index as u8 * 18);
                assert_eq!(get(segment, udp_at + 4), Some(8 + len as u16));
                assert_eq!(get(segment, ip_at + 2), Some(28 + len as u16));
                assert_eq!(get(segment, ip_at + 4), Some(0x12ff + index as u16));
                assert_eq!(checksum(&segment[ip_at..udp_at]), 0, "the header sums up");
                assert_eq!(segment[..ip_at], frame[..ip_at]);
            }
        }
    }

    #[test]
    fn over_ipv6_too() {
        let (frame, udp_at) = frame(true, 1, 40);
        let segments = split(Joined { size: 20, udp_at }, &frame);
        assert_eq!(segments.len(), 2);
        for segment in &segments {
            assert_eq!(get(segment, udp_at - 36), Some(28));
            assert_eq!(get(segment, udp_at + 4), Some(28));
        }
        assert_eq!(segments[1][udp_at + 8..], frame[udp_at + 28..]);
    }

    #[test]
    fn nonsense_is_passed_on_as_it_is() {
        let (frame, udp_at) = frame(false, 0, 36);
        for wrong in [0, 13, 20, 33, 33 + udp_at, frame.len(), usize::from(u16::MAX)] {
            let segments = split(Joined { size: 18, udp_at: wrong }, &frame);
            assert_eq!(segments, std::slice::from_ref(&frame), "UDP header at {wrong}");
        }
        for len in [0, 13, udp_at, udp_at + 7, udp_at + 8] {
            let cut = &frame[..len];
            assert_eq!(split(Joined { size: 18, udp_at }, cut), [cut.to_vec()], "{len} bytes");
        }
    }
}
