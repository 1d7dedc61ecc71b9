//! What ICMP errors do to sessions, and what they may not (RFC 5927, RFC 5461), path MTUs (RFC 1191, RFC 8201) and paths that drop
//! large packets without a word (RFC 4821).

use super::*;
use crate::api::Reason;
use crate::icmp::tests::error;

const MSS: u32 = 1000;
/// Destination unreachable: host, protocol, port; fragmentation needed (RFC 792).
const HOST: (u8, u8) = (3, 1);
const PROTOCOL: (u8, u8) = (3, 2);
const PORT: (u8, u8) = (3, 3);
const TOO_BIG: (u8, u8) = (3, 4);

impl Play {
    /// An error about our segment at `seq` with `len` bytes of data, quoted up to the 8 bytes that there have to be.
    fn error(&mut self, what: (u8, u8), seq: u32, len: u16, mtu: u32) {
        self.error_quoting(what, seq, len, mtu, 28);
    }

    fn error_quoting(&mut self, what: (u8, u8), seq: u32, len: u16, mtu: u32, quoted: usize) {
        let outgoing = Outgoing {
            tuple: self.tuple,
            seq: self.iss.unwrap_or(Seq(0)).plus(seq),
            ack: Seq(0),
            flags: ACK,
            window: 0,
            options: Options::default(),
            payload_len: len,
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
        };
        let mut packet = vec![0; outgoing.packet_len()];
        assert!(outgoing.write(&mut packet, |_| ()));
        let message = error(&packet, what.0, what.1, mtu, quoted);
        self.stack.receive_icmp(self.now, &message, &mut self.program);
        assert!(self.stack.counters().icmp_balances());
    }
}

/// A session of MSS 1,460 with ten segments under way.
fn ten_sent(profile: Profile, sack: bool) -> (Play, SessionId) {
    let syn = Options { mss: Some(1460), sack_permitted: sack, ..Options::default() };
    let profile = Profile { mtu: 1500, sack, ..profile };
    let (mut play, id) = Play::established(profile, syn);
    play.stack.send(id, 100_000).unwrap();
    assert_eq!(play.sent().len(), 10);
    (play, id)
}

#[test]
fn no_port_or_protocol_ends_a_session_that_is_not_open() {
    // RFC 5461 §4.1.
    for what in [PROTOCOL, PORT] {
        let mut play = Play::new(plain());
        play.open();
        play.error(what, 0, 0, 0);
        assert_eq!(play.stack.counters().icmp.not_outstanding, 1, "the SYN has not left");
        play.sent();
        play.error(what, 0, 0, 0);
        assert_eq!(play.program.events, [Event::Closed(Reason::Unreachable)]);
        let counters = play.stack.counters();
        assert_eq!((counters.icmp.hard, counters.sessions.unreachable), (1, 1));
        assert!(counters.sessions_balance());
        assert_eq!((play.sent(), play.stack.table_sizes()), (vec![], (0, 0)));
    }
}

#[test]
fn no_route_ends_it_with_the_next_timeout_unless_the_peer_answers() {
    // RFC 5461 §4.2.
    for answers in [false, true] {
        let mut play = Play::new(plain());
        let id = play.open();
        play.sent();
        play.error(HOST, 0, 0, 0);
        assert_eq!((play.program.events.len(), play.stack.counters().icmp.soft), (0, 1));
        if answers {
            play.peer(SYN_ACK, 0, 1, 0);
            play.stack.send(id, 10).unwrap();
            assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 10)]);
        }
        let before = play.now;
        play.wait(2000);
        if answers {
            assert_eq!(play.program.events, [Event::Established]);
            assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 10)], "an ordinary timeout");
        } else {
            assert_eq!(play.program.events, [Event::Closed(Reason::Unreachable)]);
            assert!(play.now.saturating_sub(before) <= Nanos::from_secs(2));
            assert_eq!((play.sent(), play.stack.counters().sessions.unreachable), (vec![], 1));
        }
    }
}

#[test]
fn errors_end_no_session_that_stands() {
    // RFC 5461 §4.1, RFC 5927 §6.2.
    let (mut play, id) = ten_sent(plain(), false);
    for what in [HOST, PROTOCOL, PORT, (11, 0), (12, 0), (3, 13)] {
        play.error(what, 1, 1460, 0);
    }
    assert_eq!((play.program.events.len(), play.sent()), (0, vec![]));
    let counters = play.stack.counters();
    assert_eq!((counters.icmp.hard, counters.icmp.soft), (2, 4));
    play.peer(ACK, 1, 1461, 0);
    assert_eq!(play.info(id).acked, 1460);
    // Nor one that a peer has begun to open.
    let mut play = Play::new(plain());
    play.peer(SYN, 0, 0, 0);
    play.sent();
    play.error(PORT, 0, 0, 0);
    assert_eq!(play.stack.counters().icmp.no_session, 1);
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.program.events, [Event::Established]);
}

#[test]
fn what_is_not_outstanding_is_not_believed() {
    // RFC 5927 §4.1.
    let (mut play, id) = ten_sent(plain(), false);
    play.peer(ACK, 1, 1461, 0);
    play.sent();
    let (mss, end) = (play.info(id).mss, 1461 + play.info(id).outstanding);
    for seq in [0, 1, 1460, end, end + 1, 1 << 31, u32::MAX] {
        play.error(TOO_BIG, seq, 1460, 1000);
    }
    assert_eq!(play.stack.counters().icmp.not_outstanding, 7);
    play.error(TOO_BIG, end - 1, 1460, 1000);
    assert_eq!((play.info(id).mss, mss), (960, 1460));
    // Quotes that end before the number, and of other ports.
    play.error_quoting(TOO_BIG, 1461, 1460, 700, 27);
    play.tuple.local_port += 1;
    play.error(TOO_BIG, 1461, 1460, 700);
    play.tuple.local_port -= 1;
    let icmp = play.stack.counters().icmp;
    assert_eq!((icmp.malformed, icmp.no_session, play.info(id).mss), (1, 1, 960));
}

#[test]
fn what_was_too_large_is_sent_again_in_smaller_pieces_at_once() {
    // RFC 1191 §6.5: without a timeout, and the congestion window stays.
    for sack in [false, true] {
        let (mut play, id) = ten_sent(plain(), sack);
        let (cwnd, ssthresh) = (play.info(id).cwnd, play.info(id).ssthresh);
        play.error(TOO_BIG, 1, 1460, 1040);
        assert_eq!(play.info(id).mss, 1000);
        let sent = play.sent();
        let expected: Vec<Seg> =
            (0..15).map(|at| (1 + at * MSS, 1000)).map(|(at, len)| seg(ACK, at, 1, len)).collect();
        // As much as the window takes: all of it, 14,600 bytes.
        assert_eq!(sent[..14], expected[..14]);
        assert_eq!((sent[14].seq, sent[14].len, sent.len()), (14_001, 600, 15));
        assert_eq!((play.info(id).cwnd, play.info(id).ssthresh), (cwnd, ssthresh));
        assert_eq!(play.stack.counters().segments.retransmitted_too_big, 15);
        // The other nine come back as well, and say nothing new.
        (1..10).for_each(|at| play.error(TOO_BIG, 1 + at * 1460, 1460, 1040));
        assert_eq!((play.sent(), play.stack.counters().icmp.too_big_ignored), (vec![], 9));
        play.peer(ACK, 1, 7001, 0);
        assert_eq!(play.info(id).cwnd, cwnd, "nor does it grow");
        play.sent();
        play.peer(ACK, 1, 14_601, 0);
        play.sent();
        play.peer(ACK, 1, 20_601, 0);
        assert!(play.info(id).cwnd > cwnd, "slow start goes on");
        assert!(play.sent().iter().all(|sent| sent.len <= 1000));
        let recoveries = play.stack.counters().recoveries;
        assert_eq!((recoveries.timeouts, recoveries.fast), (0, 0));
    }
}

#[test]
fn what_arrived_is_not_sent_again() {
    let (mut play, _) = ten_sent(plain(), true);
    // A small link came up after the first four: five to seven arrived all the same.
    play.sack = vec![(1 + 4 * 1460, 1 + 7 * 1460)];
    play.peer(ACK, 1, 1, 0);
    play.sent();
    play.error(TOO_BIG, 1, 1460, 1040);
    let sent = play.sent();
    assert!(sent.len() > 5, "{sent:?}");
    let arrived = |sent: &Seg| sent.seq < 1 + 7 * 1460 && sent.seq + sent.len as u32 > 1 + 4 * 1460;
    assert!(!sent.iter().any(arrived), "{sent:?}");
}

#[test]
fn a_second_smaller_link_shrinks_it_again_and_a_larger_one_does_not_grow_it() {
    let (mut play, id) = ten_sent(plain(), false);
    for (mtu, mss) in [(1400, 1360), (1400, 1360), (1450, 1360), (1000, 960), (1200, 960)] {
        play.error(TOO_BIG, 1, 1460, mtu);
        assert_eq!(play.info(id).mss, mss, "{mtu}");
        play.sent();
    }
    assert_eq!(play.stack.counters().icmp.too_big, 2);
}

#[test]
fn the_smallest_sizes_and_impossible_ones() {
    // Linux's least path MTU; a router that tells no size (RFC 1191 §5); a size that would have let it pass (RFC 5927 §7.2).
    for (len, mtu, mss) in [
        (1460, 68, 512),
        (1460, 551, 512),
        (1460, 552, 512),
        (1460, 0, 1452),
        (1460, 1500, 1460),
        (1460, 65_535, 1460),
        (400, 1000, 1460),
    ] {
        let (mut play, id) = ten_sent(plain(), false);
        play.error(TOO_BIG, 1, len, mtu);
        assert_eq!(play.info(id).mss, mss, "{mtu}");
    }
    // Timestamps are in each segment.
    let syn =
        Options { timestamps: Some(Timestamps { value: 500, echo: 0 }), ..Options::default() };
    let profile = Profile { mtu: 1500, timestamps: true, ..plain() };
    let (mut play, id) = Play::established(profile, Options { mss: Some(1460), ..syn });
    play.stack.send(id, 1448).unwrap();
    play.sent();
    play.error(TOO_BIG, 1, 1460, 1000);
    assert_eq!(play.info(id).mss, 948);
}

#[test]
fn ipv6_has_no_less_than_1280() {
    // RFC 8201 §4.
    for (mtu, mss) in [(1279, 1440), (0, 1440), (1280, 1220), (1400, 1340), (1 << 20, 1440)] {
        let mut play = Play::new(Profile { mtu: 1500, ..plain() });
        (play.tuple.local, play.tuple.remote) = ([0xfd; 16].into(), [0x20; 16].into());
        let id = play.open();
        play.sent();
        play.options(SYN_ACK, 0, 1, Options { mss: Some(1440), ..Options::default() });
        play.stack.send(id, 100_000).unwrap();
        play.sent();
        play.error_quoting((2, 0), 1, 1440, mtu, 1232);
        assert_eq!(play.info(id).mss, mss, "{mtu}");
    }
}

#[test]
fn an_error_in_recovery_keeps_the_reduction_and_ends_the_recovery() {
    let (mut play, id) = ten_sent(plain(), true);
    play.sack = vec![(1461, 1 + 5 * 1460)];
    play.peer(ACK, 1, 1, 0);
    play.sent();
    let ssthresh = play.info(id).ssthresh;
    assert_eq!((play.stack.counters().recoveries.fast, ssthresh), (1, 7300));
    play.error(TOO_BIG, 1, 1460, 1040);
    assert_eq!(play.sent()[0], seg(ACK, 1, 1, 1000));
    assert_eq!((play.info(id).cwnd, play.info(id).ssthresh), (7300, 7300));
    play.sack.clear();
    let end = 1 + play.info(id).outstanding;
    play.peer(ACK, 1, end, 0);
    assert_eq!(play.info(id).phase, crate::Phase::Open);
}

#[test]
fn a_timeout_while_it_is_sent_again_is_a_timeout() {
    let (mut play, id) = ten_sent(plain(), false);
    play.error(TOO_BIG, 1, 1460, 1040);
    play.sent();
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)]);
    assert_eq!((play.info(id).cwnd, play.stack.counters().recoveries.timeouts), (1000, 1));
    assert_eq!(play.stack.counters().segments.retransmitted_timeout, 1);
    play.peer(ACK, 1, 14_601, 0);
    assert_eq!(play.info(id).phase, crate::Phase::Open);
}

#[test]
fn a_path_that_swallows_large_packets_is_found_out() {
    // RFC 4821 §7.7. Sizes are those of Linux: 1024, then halves down to 48.
    let profile = Profile { black_hole_detection: true, ..plain() };
    let (mut play, id) = ten_sent(profile, false);
    for len in [1460, 1024, 512, 256, 128, 64, 48, 48] {
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 1, 1, len)]);
    }
    assert_eq!((play.stack.counters().recoveries.black_holes, play.info(id).cwnd), (6, 48));
    play.peer(ACK, 1, 49, 0);
    assert!(play.sent().iter().all(|sent| sent.len == 48), "and it stays so");
}

#[test]
fn a_path_that_took_large_packets_is_given_more_time() {
    let profile = Profile { black_hole_detection: true, ..plain() };
    let (mut play, _) = ten_sent(profile, false);
    play.peer(ACK, 1, 1461, 0);
    play.sent();
    for len in [1460, 1460, 1460, 1460, 1024, 512] {
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 1461, 1, len)]);
    }
}

#[test]
fn a_large_segment_that_is_not_full_vanishes_as_well() {
    let profile = Profile { black_hole_detection: true, mtu: 9000, ..plain() };
    let syn = Options { mss: Some(8960), ..Options::default() };
    for (len, first) in [(5000, 1024), (1024, 512), (537, 512)] {
        let (mut play, id) = Play::established(profile, syn);
        play.stack.send(id, len).unwrap();
        play.sent();
        play.wait(100_000);
        play.sent();
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 1, 1, first)]);
    }
}

#[test]
fn what_is_no_black_hole() {
    // A small segment that times out says nothing of large ones, and by default nothing is suspected.
    let profile = Profile { black_hole_detection: true, ..plain() };
    let syn = Options { mss: Some(1000), ..Options::default() };
    for (profile, len) in [(profile, 536), (plain(), 5000)] {
        let (mut play, id) = Play::established(profile, syn);
        play.stack.send(id, len).unwrap();
        play.sent();
        (0..5).for_each(|_| {
            play.wait(100_000);
            assert_eq!(play.sent().len(), 1);
        });
        assert_eq!((play.info(id).mss, play.stack.counters().recoveries.black_holes), (1000, 0));
    }
    // IPv6 paths take 1280.
    let mut play = Play::new(Profile { mtu: 1500, ..profile });
    (play.tuple.local, play.tuple.remote) = ([0xfd; 16].into(), [0x20; 16].into());
    let id = play.open();
    play.sent();
    play.options(SYN_ACK, 0, 1, Options { mss: Some(1440), ..Options::default() });
    play.stack.send(id, 100_000).unwrap();
    play.sent();
    (0..5).for_each(|_| {
        play.wait(100_000);
        play.sent();
    });
    assert_eq!((play.info(id).mss, play.stack.counters().recoveries.black_holes), (1220, 1));
}

#[test]
fn the_peers_segments_are_measured_by_what_was_agreed_on() {
    let profile = Profile { delayed_ack: Nanos::from_millis(40), ..plain() };
    let (mut play, _) = ten_sent(profile, false);
    play.error(TOO_BIG, 1, 1460, 600);
    play.sent();
    play.peer(ACK, 1, 14_601, 1460);
    let alone = |sent: &[Seg]| sent.iter().filter(|sent| sent.len == 0).count();
    let sent = play.sent();
    assert_eq!(alone(&sent), 0, "one segment is no two: {sent:?}");
}
