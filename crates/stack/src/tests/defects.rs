//! What packetdrill's scripts showed to be wrong, or poorer than the RFCs: each test is named after the defect.

use super::*;
use crate::api::Reason;
use crate::profile::Reading;

const MSS: u32 = 1000;

fn with_mss() -> Options {
    Options { mss: Some(1000), ..Options::default() }
}

fn with_sack() -> Options {
    Options { sack_permitted: true, ..with_mss() }
}

/// A session that has measured a round trip of 100 ms and has `segments` under way, with SACK.
fn measured(profile: Profile, segments: u32) -> (Play, SessionId) {
    let (mut play, id) = Play::established(Profile { sack: true, ..profile }, with_sack());
    play.stack.send(id, MSS.into()).unwrap();
    play.sent();
    play.now = play.now.saturating_add(Nanos::from_millis(100));
    play.peer(ACK, 1, 1 + MSS, 0);
    // The first round trip was that of the SYN, which took no time.
    for at in 1..30 {
        play.stack.send(id, MSS.into()).unwrap();
        play.sent();
        play.now = play.now.saturating_add(Nanos::from_millis(100));
        play.peer(ACK, 1, 1 + (at + 1) * MSS, 0);
    }
    play.stack.send(id, (segments * MSS).into()).unwrap();
    assert_eq!(play.sent().len() as u32, segments);
    (play, id)
}

#[test]
fn a_reset_had_no_timestamps() {
    let syn =
        Options { timestamps: Some(Timestamps { value: 500, echo: 0 }), ..Options::default() };
    let (mut play, id) = Play::established(Profile { timestamps: true, ..plain() }, syn);
    play.stack.abort(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(RST_ACK, 1, 1, 0)]);
    assert_eq!(play.last[0].0.timestamps.map(|timestamps| timestamps.echo), Some(500));
}

#[test]
fn the_timestamp_beside_a_wrong_acknowledgment_counted() {
    let syn =
        Options { timestamps: Some(Timestamps { value: 500, echo: 0 }), ..Options::default() };
    let (mut play, id) = Play::established(Profile { timestamps: true, ..plain() }, syn);
    play.timestamps = Some(200_000);
    play.peer(ACK, 1, 9999, 10);
    assert_eq!((play.sent(), play.info(id).received), (vec![seg(ACK, 1, 1, 0)], 0));
    play.timestamps = Some(510);
    play.peer(ACK, 1, 1, 10);
    assert_eq!((play.sent(), play.info(id).received), (vec![seg(ACK, 1, 11, 0)], 10));
    assert_eq!(play.last[0].0.timestamps.map(|timestamps| timestamps.echo), Some(510));
}

#[test]
fn each_segment_that_was_read_cost_a_segment() {
    let profile = Profile { reading: Reading::Manual, window: 60_000, ..plain() };
    let (mut play, id) = Play::established(profile, with_mss());
    for at in 0..30 {
        play.peer(ACK, 1 + at * MSS, 1, 1000);
        assert_eq!(play.sent().len(), 1);
        play.stack.consume(id, MSS).unwrap();
        assert_eq!(play.sent(), [], "the peer has room for 59 segments");
    }
    // A peer that has little room left is told, however.
    for at in 30..70 {
        play.peer(ACK, 1 + at * MSS, 1, 1000);
        play.sent();
    }
    play.stack.consume(id, 10 * MSS).unwrap();
    assert_eq!(play.sent(), [], "30 of 60, where there were 20");
    play.stack.consume(id, 10 * MSS).unwrap();
    assert_eq!((play.sent().len(), play.last[0].1), (1, 40_000));
}

#[test]
fn segments_that_a_card_put_together_counted_as_one() {
    let profile = Profile { delayed_ack: Nanos::from_millis(40), mtu: 9000, ..plain() };
    let (mut play, _) = Play::established(profile, with_mss());
    play.peer(ACK, 1, 1, 1000);
    assert_eq!(play.sent(), []);
    play.peer(ACK, 1001, 1, 1);
    assert_eq!(play.sent().len(), 1);
    play.peer(ACK, 1002, 1, 5000);
    assert_eq!(play.sent(), [seg(ACK, 1, 6002, 0)]);
}

#[test]
fn the_slow_start_of_the_peer_was_held_up_by_the_first_acknowledgment() {
    let profile = Profile { delayed_ack: Nanos::from_millis(40), quick_acks: 3, ..plain() };
    let (mut play, _) = Play::established(profile, with_mss());
    for at in 0..3 {
        play.peer(ACK, 1 + at * MSS, 1, 1000);
        assert_eq!(play.sent(), [seg(ACK, 1, 1 + (at + 1) * MSS, 0)]);
    }
    play.peer(ACK, 3001, 1, 1000);
    assert_eq!(play.sent(), []);
}

#[test]
fn the_handshake_of_the_peer_was_not_timed() {
    for (repeated, rtt) in [(false, Some(Nanos::from_millis(30))), (true, None)] {
        let mut play = Play::new(plain());
        play.options(SYN, 0, 0, with_mss());
        assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
        if repeated {
            play.options(SYN, 0, 0, with_mss());
            assert_eq!(play.sent().len(), 1);
        }
        play.now = play.now.saturating_add(Nanos::from_millis(30));
        play.peer(ACK, 1, 1, 0);
        let id = play.program.sessions[0];
        assert_eq!(play.info(id).rtt, rtt, "Karn: sent twice is not timed");
    }
}

#[test]
fn what_fewer_than_three_segments_told_of_waited_for_the_timeout() {
    let (mut play, id) = measured(plain(), 4);
    let before = play.now;
    // The last of four arrives, the others do not.
    let first = 1 + 30 * MSS;
    play.sack = vec![(first + 3 * MSS, first + 4 * MSS)];
    play.peer(ACK, 1, first, 0);
    assert_eq!(play.sent(), []);
    play.wait(1000);
    let quarter = play.info(id).rtt.unwrap().get() / 4_000_000;
    assert!((quarter..=quarter + 1).contains(&(play.now.saturating_sub(before).get() / 1_000_000)));
    assert_eq!(play.sent()[0], seg(ACK, first, 1, 1000));
    let counters = play.stack.counters();
    assert_eq!((counters.recoveries.reordering, counters.recoveries.timeouts), (1, 0));
    // What was missing comes: nothing more is sent again.
    play.sack.clear();
    play.peer(ACK, 1, first + 4 * MSS, 0);
    play.wait(10_000);
    assert_eq!(play.sent(), []);
}

#[test]
fn the_timer_of_order_sent_all_that_was_missing_at_once() {
    let (mut play, id) = measured(plain(), 10);
    let first = 1 + 30 * MSS;
    play.sack = vec![(first + 7 * MSS, first + 8 * MSS)];
    play.peer(ACK, 1, first, 0);
    assert_eq!(play.sent(), []);
    play.wait(1000);
    assert_eq!(play.sent(), [seg(ACK, first, 1, 1000)]);
    assert_eq!((play.info(id).lost, play.info(id).retransmitted), (7 * MSS, MSS));
    play.sack.push((first + 3 * MSS, first + 4 * MSS));
    play.peer(ACK, 1, first, 0);
    assert_eq!(play.sent(), [seg(ACK, first + MSS, 1, 1000)], "one for each that arrives");
}

#[test]
fn data_that_was_late_only_is_not_sent_again() {
    let (mut play, _) = measured(plain(), 4);
    let first = 1 + 30 * MSS;
    play.sack = vec![(first + 2 * MSS, first + 4 * MSS)];
    play.peer(ACK, 1, first, 0);
    assert_eq!(play.sent(), []);
    play.wait(10);
    play.sack.clear();
    play.peer(ACK, 1, first + 4 * MSS, 0);
    play.wait(2000);
    assert_eq!(play.sent(), []);
    assert_eq!(play.stack.counters().recoveries.fast, 0);
}

#[test]
fn a_network_that_reorders_is_given_more_time() {
    let (mut play, id) = measured(plain(), 4);
    let first = 1 + 30 * MSS;
    play.sack = vec![(first + 3 * MSS, first + 4 * MSS)];
    play.peer(ACK, 1, first, 0);
    play.sent();
    play.wait(1000);
    assert_eq!(play.sent()[0], seg(ACK, first, 1, 1000));
    // All arrive, and the first one twice.
    play.sack = vec![(first, first + MSS), (first + 3 * MSS, first + 4 * MSS)];
    play.peer(ACK, 1, first + MSS, 0);
    play.sack.clear();
    play.peer(ACK, 1, first + 4 * MSS, 0);
    play.sent();
    // The next time three segments above it are not enough, and it takes half a round trip.
    for _ in 0..9 {
        play.stack.send(id, (6 * MSS).into()).unwrap();
        let sent = play.sent();
        play.peer(ACK, 1, sent[0].seq + MSS * sent.len() as u32, 0);
        let rest = play.sent();
        if let Some(last) = rest.last() {
            play.peer(ACK, 1, last.seq + MSS, 0);
        }
    }
    play.stack.send(id, (6 * MSS).into()).unwrap();
    let sent = play.sent();
    assert_eq!(sent.len(), 6);
    let first = sent[0].seq;
    play.sack = vec![(first + MSS, first + 6 * MSS)];
    play.peer(ACK, 1, first, 0);
    assert_eq!(play.sent(), []);
    let before = play.now;
    play.wait(1000);
    assert_eq!(play.sent()[0], seg(ACK, first, 1, 1000));
    let half = play.info(id).rtt.unwrap().get() / 2_000_000;
    assert!((half..=half + 1).contains(&(play.now.saturating_sub(before).get() / 1_000_000)));
}

#[test]
fn an_acknowledgment_that_was_overtaken_told_nothing() {
    let (mut play, id) = measured(plain(), 10);
    let first = 1 + 30 * MSS;
    play.sack = vec![(first + 8 * MSS, first + 9 * MSS)];
    play.peer(ACK, 1, first + 3 * MSS, 0);
    assert_eq!(play.info(id).sacked, MSS);
    play.sack = vec![(first + 5 * MSS, first + 7 * MSS)];
    play.peer(ACK, 1, first + 2 * MSS, 0);
    assert_eq!((play.info(id).sacked, play.info(id).acked), (3 * MSS, 33_000));
}

#[test]
fn slow_start_stopped_where_the_program_had_no_more_for_the_last_segment() {
    let (mut play, id) =
        Play::established(Profile { slow_start_step: u8::MAX, ..plain() }, with_mss());
    play.stack.send(id, 9000).unwrap();
    assert_eq!((play.sent().len(), play.info(id).cwnd), (9, 10_000));
    for (acked, cwnd) in [(2, 12_000), (4, 14_000), (6, 16_000), (8, 18_000), (9, 18_000)] {
        play.peer(ACK, 1, 1 + acked * MSS, 0);
        assert_eq!(play.info(id).cwnd, cwnd, "nine were under way: good for up to eighteen");
    }
    // Less than half of it says nothing.
    play.stack.send(id, 4000).unwrap();
    play.sent();
    play.peer(ACK, 1, 13_001, 0);
    assert_eq!(play.info(id).cwnd, 18_000);
}

#[test]
fn a_peer_was_waited_for_without_a_limit_in_time() {
    let profile =
        Profile { user_timeout: Nanos::from_secs(10), rto_min: Nanos::from_millis(200), ..plain() };
    let (mut play, id) = Play::established(profile, with_mss());
    play.stack.send(id, 10).unwrap();
    play.sent();
    let before = play.now;
    let mut again = 0;
    while !play.program.events.contains(&Event::Closed(Reason::TimedOut)) {
        play.wait(1);
        again += play.sent().len();
    }
    let waited = play.now.saturating_sub(before).get() / 1_000_000;
    // 0.2, 0.4, 0.8, 1.6, 3.2 s, and what is left of the sixth.
    assert!((10_000..=10_003).contains(&waited) && again == 5, "{waited} ms, {again} times");
}

#[test]
fn the_first_timeout_came_before_the_probe() {
    let profile = Profile {
        tail_loss_probe: true,
        rto_min: Nanos::from_millis(200),
        rto_margin: Nanos::from_millis(200),
        ..plain()
    };
    let (mut play, id) = measured(profile, 1);
    for (timeouts, tails) in [(0, 1), (1, 1)] {
        let before = play.now;
        play.wait(10_000);
        assert_eq!(play.sent(), [seg(PSH_ACK, 30_001, 1, 1000)]);
        // One segment may wait for a delayed acknowledgment, which would be longer than the timeout of 300 ms.
        let waited = play.now.saturating_sub(before).get() / 1_000_000;
        assert!((295..305).contains(&waited), "{waited} ms");
        let counters = play.stack.counters();
        assert_eq!(counters.recoveries.timeouts, timeouts);
        assert_eq!(counters.segments.retransmitted_tail, tails);
    }
    assert_eq!(play.info(id).cwnd, MSS);
}

#[test]
fn probes_of_a_closed_window_kept_the_congestion_window_from_falling_back() {
    let profile = Profile { slow_start_step: u8::MAX, ..plain() };
    let (mut play, id) = Play::established(profile, with_mss());
    play.stack.send(id, 10_000).unwrap();
    play.sent();
    play.window = 0;
    play.peer(ACK, 1, 10_001, 0);
    assert_eq!(play.info(id).cwnd, 20_000);
    play.stack.send(id, 20_000).unwrap();
    for _ in 0..3 {
        assert_eq!(play.sent(), []);
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 10_000, 1, 0)]);
    }
    play.wait(10);
    play.window = 60_000;
    play.peer(ACK, 1, 10_001, 0);
    assert_eq!(play.sent().len(), 10);
}

#[test]
fn the_window_did_not_open_for_the_acknowledgment_of_what_a_timeout_sent_again() {
    let (mut play, id) = Play::established(plain(), with_mss());
    play.stack.send(id, 1000).unwrap();
    play.sent();
    play.wait(10_000);
    assert_eq!((play.sent().len(), play.info(id).cwnd), (1, MSS));
    play.peer(ACK, 1, 1001, 0);
    assert_eq!(play.info(id).cwnd, 2 * MSS);
}

#[test]
fn data_for_a_program_that_had_gone_was_taken() {
    let (mut play, id) = Play::established(plain(), with_mss());
    play.stack.close_both(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    // The FIN is lost; the RST has the number that the peer expects.
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.sent(), [seg(RST, 1, 0, 0)]);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::Aborted)));
    // Old data, and the FIN of the peer, are none that is lost.
    let (mut play, id) = Play::established(plain(), with_mss());
    play.peer(ACK, 1, 1, 10);
    play.stack.close_both(play.now, id, &mut play.program).unwrap();
    play.sent();
    play.peer(ACK, 1, 2, 10);
    play.peer(FIN_ACK, 11, 2, 0);
    assert_eq!(play.sent().last(), Some(&seg(ACK, 2, 12, 0)));
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::InOrder)));
}

#[test]
fn recovery_sent_more_than_had_left_the_network() {
    let (mut play, id) = measured(plain(), 10);
    let first = 1 + 30 * MSS;
    play.stack.send(id, 10_000).unwrap();
    play.sent();
    // The first of ten are lost: the third arrival out of order begins recovery, each one lets one segment go.
    for at in 5..10 {
        play.sack = vec![(first + 4 * MSS, first + at * MSS)];
        play.peer(ACK, 1, first, 0);
        assert!(play.sent().len() <= 1, "{at}");
    }
    assert_eq!(play.info(id).phase, crate::Phase::Recovery);
}

#[test]
fn a_selective_acknowledgment_half_a_circle_away_counted() {
    let (mut play, id) = measured(plain(), 4);
    let first = 1 + 30 * MSS;
    let far = first.wrapping_add(4 * MSS).wrapping_add(1 << 31);
    play.sack = vec![(first + 100_000_000, far), (far.wrapping_add(1 << 30), first)];
    play.peer(ACK, 1, first, 0);
    assert_eq!((play.info(id).sacked, play.info(id).lost), (0, 0));
}

#[test]
fn what_is_followed_by_more_is_not_pushed() {
    let (mut play, id) = Play::established(plain(), with_mss());
    play.stack.send_more(id, 10).unwrap();
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 10)]);
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 11, 1, 10)]);
}

#[test]
fn a_session_follows_its_profile_when_that_changes() {
    let (mut play, id) = Play::established(Profile { nagle: true, ..plain() }, with_mss());
    play.stack.send(id, 10).unwrap();
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 20)]);
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent(), []);
    play.stack.set_profile(0, plain()).unwrap();
    play.stack.use_profile(id, 0).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 21, 1, 10)]);
    assert!(play.stack.set_profile(9, plain()).is_err());
}
