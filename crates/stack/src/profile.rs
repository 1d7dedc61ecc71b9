//! What is asked of a kind of session. Sessions share profiles: a session's state holds the number of its own.

use wirebeat_units::Nanos;
use wirebeat_wire::ip::Version;
use wirebeat_wire::{ipv4, ipv6};

use crate::options::WINDOW_SHIFT_MAX;
use crate::segment;

/// The MSS of a peer that announces none (RFC 9293 §3.7.1).
const MSS_DEFAULT_V4: u16 = 536;
const MSS_DEFAULT_V6: u16 = 1220;
/// No MSS below this one is believed, as Linux has it (`TCP_MIN_SND_MSS`): a peer that announces 1 would have us send a packet for
/// each byte.
const MSS_MIN: u16 = 48;

/// How the congestion window follows losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// It does not: only the peer's window limits. For links that are known to be one's own.
    None,
    /// RFC 5681 and 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// What becomes of data that does not follow what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfOrder {
    /// It is handed over at once with its offset, each byte once, and its range is kept. For embedders that count, or compare
    /// with a function of the offset.
    Deliver,
    /// It is dropped, and comes again. For embedders that need bytes in order; nothing here stores bytes.
    Discard,
}

/// When received bytes make room in the window again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As they come.
    Automatic,
    /// When the embedder says so with [`crate::Stack::consume`].
    Manual,
}

/// Probes of a session that is idle (RFC 9293 §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing has come before the first probe.
    pub idle: Nanos,
    /// From a probe to the next.
    pub interval: Nanos,
    /// After how many probes without an answer the session has timed out.
    pub count: u8,
}

/// What is asked of a kind of session. Times above 4 days count as 4 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The largest IP packet of the link, in bytes.
    pub mtu: u16,
    /// The MSS to announce and never to exceed, where it is to be less than the MTU gives.
    pub mss: Option<u16>,
    /// The receive buffer in bytes. Of what is free in it, at most 65,535 bytes are announced without window scaling, and 2^30 with it.
    pub window: u32,
    /// Whether windows are scaled (RFC 7323 §2).
    pub window_scaling: bool,
    /// Whether segments have timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Whether the end of what was sent is probed before the retransmission timeout (RFC 8985 §7); only with SACK.
    pub tail_loss_probe: bool,
    /// Whether data below what the peer has out of order is lost when it does not come within a part of a round trip, even where
    /// fewer than three segments tell of it (RFC 8985 §6); only with SACK.
    pub rack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The initial congestion window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// By how many segments an acknowledgment opens the congestion window in slow start at most: 1 in RFC 5681 §3.1, 2 in RFC 3465
    /// §2.3, 8 in RFC 9406 §4.2, as many as it acknowledges in Linux.
    pub slow_start_step: u8,
    /// Whether the congestion window falls back to the initial one after a pause of a timeout (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Congestion control.
    pub congestion: Congestion,
    /// How many segments of new data a packet may hold at most, for the kernel or the card to cut (GSO, TSO); with 0 and 1 each is a packet
    /// of its own. Only where [`crate::Transmit::takes_large`], and no more than 65,535 bytes with headers.
    pub gso_segments: u8,
    /// Whether small segments wait for an acknowledgment (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// How long an acknowledgment waits for company; zero: not at all. RFC 9293 §3.8.6.3 has 500 ms at most.
    pub delayed_ack: Nanos,
    /// How many segments' worth of data at the beginning of a session is acknowledged without delay, so that the slow start of the
    /// peer is not held up; Linux has up to 16.
    pub quick_acks: u8,
    /// The retransmission timeout before a round trip was measured (RFC 6298 §2.1: 1 s).
    pub rto_initial: Nanos,
    /// The least retransmission timeout. RFC 6298 §2.4 has 1 s; Linux uses 200 ms.
    pub rto_min: Nanos,
    /// The least that the timeout is above the smoothed round trip, where the measured variation would give less. Zero in RFC 6298;
    /// Linux has 200 ms here instead of in `rto_min`.
    pub rto_margin: Nanos,
    /// The most (RFC 6298 §2.5: 60 s or more).
    pub rto_max: Nanos,
    /// How often a SYN or SYN-ACK is repeated.
    pub syn_retries: u8,
    /// How often data or a FIN is repeated without progress.
    pub data_retries: u8,
    /// How long data, a FIN or a closed window may wait for the peer, in place of `data_retries`; zero: no such limit (RFC 9293
    /// §3.9.1.6, RFC 5482).
    pub user_timeout: Nanos,
    /// Whether segments become smaller when large ones time out twice in a row, or five times where the path took them before (RFC 4821 §7.7): a path may drop large
    /// packets and not say so. An outage looks the same, and no larger size is tried afterwards, so that it is off here and in Linux
    /// (`tcp_mtu_probing`). What the network says by ICMP counts in any case.
    pub black_hole_detection: bool,
    /// Probes of idle sessions.
    pub keep_alive: Option<KeepAlive>,
    /// How long a session stays in TIME-WAIT; zero: it is skipped. RFC 9293 §3.4.2 has 4 minutes, Linux 60 s.
    pub time_wait: Nanos,
    /// How long a session waits in FIN-WAIT-2 for a peer that sends nothing to close; zero: for ever.
    pub fin_wait_2: Nanos,
    /// When received bytes make room again.
    pub reading: Reading,
    /// What becomes of data out of order.
    pub out_of_order: OutOfOrder,
    /// The ToS byte or traffic class of packets; with `ecn` its two lowest bits are the stack's.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Whether packets of IPv4 forbid to fragment them (DF), so that a router to a link that does not take them says so (RFC 1191).
    pub dont_fragment: bool,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            mtu: 1500,
            mss: None,
            window: 1 << 20,
            window_scaling: true,
            timestamps: true,
            sack: true,
            tail_loss_probe: true,
            rack: true,
            ecn: false,
            initial_window: 10,
            slow_start_step: 1,
            idle_restart: true,
            congestion: Congestion::Cubic,
            gso_segments: 0,
            nagle: true,
            delayed_ack: Nanos::from_millis(40),
            quick_acks: 0,
            rto_initial: Nanos::from_secs(1),
            rto_min: Nanos::from_secs(1),
            rto_margin: Nanos::ZERO,
            rto_max: Nanos::from_secs(60),
            syn_retries: 6,
            data_retries: 15,
            user_timeout: Nanos::ZERO,
            black_hole_detection: false,
            keep_alive: None,
            time_wait: Nanos::from_secs(60),
            fin_wait_2: Nanos::from_secs(60),
            reading: Reading::Automatic,
            out_of_order: OutOfOrder::Deliver,
            tos: 0,
            ttl: segment::TTL,
            dont_fragment: true,
        }
    }
}

impl Profile {
    /// The MSS to announce.
    pub fn announced_mss(&self, version: Version) -> u16 {
        let ip = match version {
            Version::V4 => ipv4::LEN,
            Version::V6 => ipv6::LEN,
        };
        let of_mtu = self.mtu.saturating_sub((ip + segment::LEN) as u16);
        self.mss.map_or(of_mtu, |mss| mss.min(of_mtu)).max(MSS_MIN)
    }

    /// The most bytes of a segment, options included, to a peer that announced `peer`.
    pub fn send_mss(&self, version: Version, peer: Option<u16>) -> u16 {
        let default = match version {
            Version::V4 => MSS_DEFAULT_V4,
            Version::V6 => MSS_DEFAULT_V6,
        };
        peer.unwrap_or(default).max(MSS_MIN).min(self.announced_mss(version))
    }

    /// The shift of the windows that are announced; `None` without window scaling.
    pub fn shift(&self) -> Option<u8> {
        let needed = |window: u32| (0..WINDOW_SHIFT_MAX).find(|shift| window >> shift <= 0xffff);
        self.window_scaling.then(|| needed(self.window).unwrap_or(WINDOW_SHIFT_MAX))
    }

    /// The largest receive window that can be announced with `shift`.
    #[inline]
    pub fn buffer(&self, shift: u8) -> u32 {
        self.window.min(0xffff << shift.min(WINDOW_SHIFT_MAX)).min(1 << 30)
    }

    /// The window of a SYN, which is not scaled (RFC 7323 §2.2).
    pub fn syn_window(&self) -> u16 {
        self.window.min(0xffff) as u16
    }

    /// The ToS byte or traffic class of packets that say nothing of congestion: without ECN all of its bits are as they were asked for.
    #[inline]
    pub(crate) const fn packet_tos(&self) -> u8 {
        if self.ecn { self.tos & !segment::ECN_MASK } else { self.tos }
    }

    /// The initial congestion window in bytes: that of RFC 6928 §2 for 10 segments, and in proportion for others.
    pub fn initial_cwnd(&self, mss: u16) -> u32 {
        let (segments, mss) = (u32::from(self.initial_window.max(1)), u32::from(mss));
        (segments * mss).min((segments * 1460).max(2 * mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mss_follows_the_link_the_wish_and_the_peer() {
        let profile = Profile::default();
        assert_eq!(
            (profile.announced_mss(Version::V4), profile.announced_mss(Version::V6)),
            (1460, 1440)
        );
        assert_eq!(
            (profile.send_mss(Version::V4, None), profile.send_mss(Version::V6, None)),
            (536, 1220)
        );
        assert_eq!(profile.send_mss(Version::V4, Some(9000)), 1460);
        assert_eq!(profile.send_mss(Version::V4, Some(1)), 48);
        assert_eq!(Profile { mss: Some(1000), ..profile }.announced_mss(Version::V4), 1000);
        assert_eq!(Profile { mtu: 0, ..profile }.announced_mss(Version::V6), 48);
    }

    #[test]
    fn windows_are_shifted_no_more_than_needed() {
        let shift = |window| Profile { window, ..Profile::default() }.shift();
        assert_eq!(
            (shift(0xffff), shift(0x10000), shift(1 << 20), shift(u32::MAX)),
            (Some(0), Some(1), Some(5), Some(14))
        );
        let profile = Profile { window: u32::MAX, window_scaling: false, ..Profile::default() };
        assert_eq!((profile.shift(), profile.buffer(0)), (None, 0xffff));
        assert_eq!(profile.buffer(14), 0xffff << 14);
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_6928() {
        let profile = Profile::default();
        let cwnd = |mss| profile.initial_cwnd(mss);
        assert_eq!(
            (cwnd(1460), cwnd(536), cwnd(8960), cwnd(1500)),
            (14_600, 5_360, 17_920, 14_600)
        );
    }
}
