//! What the kernel tells of one TCP connection (`TCP_INFO`), and its largest segment (`TCP_MAXSEG`): the socket options of TCP
//! that no safe crate wraps, so this file has `unsafe` blocks.
//!
//! The fields are those of `struct tcp_info` in the kernel's `include/uapi/linux/tcp.h`, whose comments and tcp(7) define
//! them; where RFC 4898 defines a counter, its name stands beside it. The structure grew over the years and the kernel
//! says how much of it it wrote: what lies beyond that is `None`. The bytes are read by a pure function.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use wirebeat_units::{BitRate, Nanos};

/// More than the structure has today (Linux 6.18: some 280 bytes).
const ROOM: usize = 512;
/// The first eight bytes and the 24 words behind them, which Linux has had since 2.6.
const OLDEST: usize = 104;

/// The state of a connection (`include/net/tcp_states.h`; RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 9293")]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A number that this program does not know.
    Other(u8),
}

impl TcpState {
    fn from_number(number: u8) -> Self {
        match number {
            1 => TcpState::Established,
            2 => TcpState::SynSent,
            // 12 is TCP_NEW_SYN_RECV, which only sockets that are not accepted yet have
            3 | 12 => TcpState::SynReceived,
            4 => TcpState::FinWait1,
            5 => TcpState::FinWait2,
            6 => TcpState::TimeWait,
            7 => TcpState::Closed,
            8 => TcpState::CloseWait,
            9 => TcpState::LastAck,
            10 => TcpState::Listen,
            11 => TcpState::Closing,
            other => TcpState::Other(other),
        }
    }
}

/// What the kernel knows of one TCP connection at one moment. All counters begin with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_state`.
    pub state: TcpState,
    /// Segments that were sent again, all in all (`tcpi_total_retrans`).
    pub retransmits: u32,
    /// Segments that are sent and not acknowledged (`tcpi_unacked`).
    pub unacked: u32,
    /// Segments of these that selective acknowledgements cover (`tcpi_sacked`).
    pub sacked: u32,
    /// Segments of these that are taken for lost (`tcpi_lost`).
    pub lost: u32,
    /// The retransmission timeout (`tcpi_rto`).
    pub rto: Nanos,
    /// The smoothed round-trip time (`tcpi_rtt`; RFC 6298 SRTT); zero before the first sample.
    pub rtt: Nanos,
    /// Its mean deviation (`tcpi_rttvar`; RFC 6298 RTTVAR).
    pub rtt_variation: Nanos,
    /// The smallest round-trip time of the last minutes (`tcpi_min_rtt`); `None` before the first sample too.
    pub min_rtt: Option<Nanos>,
    /// The congestion window, in segments of `snd_mss` (`tcpi_snd_cwnd`).
    pub snd_cwnd: u32,
    /// The slow start threshold, in segments (`tcpi_snd_ssthresh`); `None` while it is at infinity.
    pub snd_ssthresh: Option<u32>,
    /// Bytes of payload in a full segment that is sent (`tcpi_snd_mss`).
    pub snd_mss: u32,
    /// The same of segments that are received (`tcpi_rcv_mss`).
    pub rcv_mss: u32,
    /// The path's MTU in bytes, as far as it is known (`tcpi_pmtu`).
    pub pmtu: u32,
    /// Segments by which the path reorders, as the kernel assumes (`tcpi_reordering`).
    pub reordering: u32,
    /// The rate that segments leave with, in bits of payload a second; `BitRate(u64::MAX)`: no limit (`tcpi_pacing_rate`, 3.15).
    pub pacing_rate: Option<BitRate>,
    /// The most recent rate at which data arrived at the peer (`tcpi_delivery_rate`, 4.9).
    pub delivery_rate: Option<BitRate>,
    /// Whether that rate was limited by the program rather than by the path (`tcpi_delivery_rate_app_limited`).
    pub delivery_app_limited: bool,
    /// Bytes that the peer acknowledged (`tcpi_bytes_acked`, 4.1; tcpEStatsAppHCThruOctetsAcked). The SYN and FIN count as one each.
    pub bytes_acked: Option<u64>,
    /// Bytes that came in order (`tcpi_bytes_received`, 4.1; tcpEStatsAppHCThruOctetsReceived). A FIN counts as one.
    pub bytes_received: Option<u64>,
    /// Bytes of payload sent, those sent again included (`tcpi_bytes_sent`, 4.19; tcpEStatsPerfHCDataOctetsOut).
    pub bytes_sent: Option<u64>,
    /// Bytes of payload sent again (`tcpi_bytes_retrans`, 4.19; tcpEStatsPerfOctetsRetrans).
    pub bytes_retransmitted: Option<u64>,
    /// Bytes in the send buffer that were never sent (`tcpi_notsent_bytes`, 4.6).
    pub bytes_not_sent: Option<u32>,
    /// Segments sent, with and without payload (`tcpi_segs_out`, 4.2; tcpEStatsPerfSegsOut).
    pub segs_out: Option<u32>,
    /// Segments received, with and without payload (`tcpi_segs_in`, 4.2; tcpEStatsPerfSegsIn).
    pub segs_in: Option<u32>,
    /// Segments sent that had payload (`tcpi_data_segs_out`, 4.6; tcpEStatsDataSegsOut).
    pub data_segs_out: Option<u32>,
    /// Segments received that had payload (`tcpi_data_segs_in`, 4.6; tcpEStatsDataSegsIn).
    pub data_segs_in: Option<u32>,
    /// How long there was data to be sent or acknowledged (`tcpi_busy_time`, 4.10).
    pub busy: Option<Nanos>,
    /// How long of it the peer's receive window held it up (`tcpi_rwnd_limited`, 4.10).
    pub rwnd_limited: Option<Nanos>,
    /// How long of it the send buffer held it up (`tcpi_sndbuf_limited`, 4.10).
    pub sndbuf_limited: Option<Nanos>,
    /// Segments that the peer has received (`tcpi_delivered`, 4.18).
    pub delivered: Option<u32>,
    /// Segments of these with congestion experienced (`tcpi_delivered_ce`, 4.18; RFC 3168).
    pub delivered_ce: Option<u32>,
    /// Segments that the peer says it had twice (`tcpi_dsack_dups`, 4.19; RFC 2883).
    pub dsack_duplicates: Option<u32>,
    /// Times that reordering was seen (`tcpi_reord_seen`, 4.19).
    pub reorder_seen: Option<u32>,
    /// Segments that came out of order (`tcpi_rcv_ooopack`, 5.4).
    pub out_of_order: Option<u32>,
    /// The receive window that the peer advertises, in bytes (`tcpi_snd_wnd`, 5.4).
    pub snd_wnd: Option<u32>,
}

/// What the kernel knows of the connection of this socket.
///
/// # Errors
/// Those of getsockopt(2): `ENOPROTOOPT` or `EOPNOTSUPP` where it is no TCP socket; `InvalidData` where the kernel writes
/// less than any kernel did.
#[allow(unsafe_code)]
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0; ROOM];
    let mut length = ROOM as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the length of `bytes`, and the length that it wrote to
    // `length`; both live until the call returns. Any bytes are a value of `bytes`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let written = bytes.get(..length as usize).unwrap_or(&bytes);
    read(written).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Limits the segments of a socket that is not connected yet, as its peer learns it in the SYN (`TCP_MAXSEG` of tcp(7)).
///
/// # Errors
/// Those of setsockopt(2): `EINVAL` where the kernel refuses the size (it takes 88 to 32767 bytes).
#[allow(unsafe_code)]
pub fn set_tcp_max_segment(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    // SAFETY: the kernel reads the integer that the pointer and the size name; it lives until the call returns.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The fields that lie in these bytes; `None` where not even the oldest kernel's do.
fn read(bytes: &[u8]) -> Option<TcpInfo> {
    if bytes.len() < OLDEST {
        return None;
    }
    let u8_at = |at: usize| bytes.get(at).copied();
    let u32_at =
        |at: usize| Some(u32::from_ne_bytes(bytes.get(at..)?.first_chunk::<4>().copied()?));
    let u64_at =
        |at: usize| Some(u64::from_ne_bytes(bytes.get(at..)?.first_chunk::<8>().copied()?));
    let micros = |at: usize| u32_at(at).map(|us| Nanos::from_micros(us.into()));
    let long_micros = |at: usize| u64_at(at).map(Nanos::from_micros);
    let rate = |at: usize| u64_at(at).map(|bytes| BitRate(bytes.saturating_mul(8)));
    Some(TcpInfo {
        state: TcpState::from_number(u8_at(0)?),
        delivery_app_limited: u8_at(7)? & first_bit_of_a_bit_field() != 0,
        rto: micros(8)?,
        snd_mss: u32_at(16)?,
        rcv_mss: u32_at(20)?,
        unacked: u32_at(24)?,
        sacked: u32_at(28)?,
        lost: u32_at(32)?,
        pmtu: u32_at(60)?,
        rtt: micros(68)?,
        rtt_variation: micros(72)?,
        // TCP_INFINITE_SSTHRESH of include/net/tcp.h
        snd_ssthresh: u32_at(76).filter(|&segments| segments < 0x7fff_ffff),
        snd_cwnd: u32_at(80)?,
        reordering: u32_at(88)?,
        retransmits: u32_at(100)?,
        pacing_rate: rate(104),
        bytes_acked: u64_at(120),
        bytes_received: u64_at(128),
        segs_out: u32_at(136),
        segs_in: u32_at(140),
        bytes_not_sent: u32_at(144),
        // the kernel's filter begins with all bits set
        min_rtt: micros(148).filter(|rtt| *rtt < Nanos::from_micros(u32::MAX.into())),
        data_segs_in: u32_at(152),
        data_segs_out: u32_at(156),
        delivery_rate: rate(160),
        busy: long_micros(168),
        rwnd_limited: long_micros(176),
        sndbuf_limited: long_micros(184),
        delivered: u32_at(192),
        delivered_ce: u32_at(196),
        bytes_sent: u64_at(200),
        bytes_retransmitted: u64_at(208),
        dsack_duplicates: u32_at(216),
        reorder_seen: u32_at(220),
        out_of_order: u32_at(224),
        snd_wnd: u32_at(228),
    })
}

/// Where compilers put the first bit of a bit field: at the low end on little-endian machines, at the high end on others.
const fn first_bit_of_a_bit_field() -> u8 {
    if cfg!(target_endian = "little") { 0x01 } else { 0x80 }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// `size` bytes of which each word is the number of its offset.
    fn numbered(size: usize) -> Vec<u8> {
        (0..size).step_by(4).flat_map(|at| (at as u32).to_ne_bytes()).take(size).collect()
    }

    #[test]
    fn the_kernel_counts_the_bytes_that_were_sent() {
        let (mut client, mut server) = connected();
        client.write_all(&[7; 100_000]).unwrap();
        server.read_exact(&mut [0; 100_000]).unwrap();
        server.write_all(b"done").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        let (ours, theirs) = (tcp_info(client.as_fd()).unwrap(), tcp_info(server.as_fd()).unwrap());
        assert_eq!((ours.state, theirs.state), (TcpState::Established, TcpState::Established));
        assert_eq!(ours.bytes_received, Some(4));
        assert_eq!(theirs.bytes_received, Some(100_000));
        // its SYN counts
        assert_eq!(ours.bytes_acked, Some(100_001));
        assert_eq!(
            ours.bytes_sent.unwrap() - ours.bytes_retransmitted.unwrap(),
            100_000,
            "{ours:?}"
        );
        assert!(ours.data_segs_out.unwrap() >= 1 && ours.segs_out > ours.data_segs_out, "{ours:?}");
        assert!(ours.rtt > Nanos::ZERO && ours.rtt < Nanos::from_secs(10), "{ours:?}");
        assert!(
            ours.min_rtt.unwrap() > Nanos::ZERO && ours.min_rtt.unwrap() <= Nanos::from_secs(10)
        );
        assert!(ours.snd_cwnd > 0 && ours.snd_mss >= 88 && ours.pmtu > ours.snd_mss, "{ours:?}");
        assert!(ours.delivery_rate.unwrap().0 > 0 && ours.pacing_rate.unwrap().0 > 0, "{ours:?}");
        assert!(ours.snd_wnd.unwrap() > 0);
    }

    #[test]
    fn a_closed_peer_is_seen_and_other_sockets_are_an_error() {
        let (client, server) = connected();
        drop(server);
        assert_eq!((&client).read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(tcp_info(client.as_fd()).unwrap().state, TcpState::CloseWait);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(udp.as_fd()).is_err());
    }

    #[test]
    fn the_largest_segment_is_limited_and_nonsense_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_tcp_max_segment(listener.as_fd(), 600).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(client.as_fd()).unwrap();
        // less what the options of each segment take
        assert!((540..=600).contains(&info.snd_mss), "{info:?}");
        assert!(set_tcp_max_segment(listener.as_fd(), 1).is_err());
    }

    #[test]
    fn fields_lie_where_the_kernels_header_has_them() {
        let info = read(&numbered(ROOM)).unwrap();
        assert_eq!((info.unacked, info.lost, info.snd_cwnd, info.retransmits), (24, 32, 80, 100));
        assert_eq!((info.rtt, info.rtt_variation), (Nanos::new(68_000), Nanos::new(72_000)));
        assert_eq!((info.segs_out, info.segs_in, info.snd_wnd), (Some(136), Some(140), Some(228)));
        #[cfg(target_endian = "little")]
        assert_eq!(info.bytes_retransmitted, Some(208 | 212 << 32));
    }

    #[test]
    fn an_older_kernels_structure_has_no_later_fields() {
        assert_eq!(read(&numbered(OLDEST - 1)), None);
        // Linux 2.6, 4.9 and 4.19
        let (oldest, later, last) =
            (read(&numbered(104)), read(&numbered(168)), read(&numbered(224)));
        let (oldest, later, last) = (oldest.unwrap(), later.unwrap(), last.unwrap());
        assert_eq!((oldest.retransmits, oldest.pacing_rate, oldest.segs_out), (100, None, None));
        assert!(later.delivery_rate.is_some() && later.busy.is_none());
        assert!(last.bytes_sent.is_some() && last.snd_wnd.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..ROOM)) {
            prop_assert_eq!(read(&bytes).is_some(), bytes.len() >= OLDEST);
        }
    }
}
