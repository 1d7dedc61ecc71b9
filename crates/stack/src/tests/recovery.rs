//! What is sent again, when, and how much beside it.

use super::*;
use crate::api::Reason;

const MSS: u32 = 1000;

/// A session with ten segments under way, in slow start, with or without SACK.
fn ten_sent(sack: bool) -> (Play, SessionId) {
    let syn = Options { mss: Some(1000), sack_permitted: sack, ..Options::default() };
    let (mut play, id) = Play::established(Profile { sack: true, ..plain() }, syn);
    play.stack.send(id, 100_000).unwrap();
    // The end of each half of the window is pushed.
    let flags = |at| if at % 5 == 4 { PSH_ACK } else { ACK };
    let expected: Vec<Seg> = (0..10).map(|at| seg(flags(at), 1 + at * MSS, 1, 1000)).collect();
    assert_eq!(play.sent(), expected);
    (play, id)
}

#[test]
fn two_duplicates_let_new_segments_go_and_the_third_one_the_lost() {
    let (mut play, id) = ten_sent(false);
    for new in [10, 11] {
        play.peer(ACK, 1, 1, 0);
        assert_eq!(play.sent(), [seg(ACK, 1 + new * MSS, 1, 1000)], "RFC 3042");
    }
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)]);
    // RFC 5681 §3.2: half of what was outstanding (cwnd was 10).
    assert_eq!(play.info(id).ssthresh, 5000);
    // A partial acknowledgment sends the next one (RFC 6582).
    (0..4).for_each(|_| play.peer(ACK, 1, 1, 0));
    play.sent();
    play.peer(ACK, 1, 1 + 3 * MSS, 0);
    assert_eq!(play.sent()[0], seg(ACK, 1 + 3 * MSS, 1, 1000));
    play.peer(ACK, 1, 1 + 20 * MSS, 0);
    assert_eq!(play.stack.counters().arrivals.bad_ack, 1, "no more than 20 was sent");
    play.peer(ACK, 1, 1 + 14 * MSS, 0);
    assert_eq!((play.info(id).cwnd, play.stack.counters().recoveries.fast), (5000, 1));
    assert_eq!(play.stack.counters().segments.retransmitted_fast, 2);
}

#[test]
fn what_sack_leaves_out_is_sent_again_and_nothing_else() {
    let (mut play, id) = ten_sent(true);
    // 1 and 4 are lost; 2, 3, 5 to 10 arrive.
    play.sack = vec![(1001, 3001)];
    play.peer(ACK, 1, 1, 0);
    let sent = play.sent();
    assert_eq!(sent.len(), 2, "two segments left the network: {sent:?}");
    play.sack = vec![(4001, 5001), (1001, 3001)];
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)], "more than two segments above it");
    play.sack = vec![(4001, 10_001), (1001, 3001)];
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.sent()[0], seg(ACK, 3001, 1, 1000));
    play.sack = vec![(4001, 10_001)];
    play.peer(ACK, 1, 3001, 0);
    assert!(play.sent().iter().all(|sent| sent.seq >= 10_001), "the second was sent again already");
    let counters = play.stack.counters();
    assert_eq!((counters.segments.retransmitted_fast, counters.recoveries.fast), (2, 1));
    assert_eq!(play.info(id).acked, 3000);
}

#[test]
fn a_timeout_sends_the_first_and_doubles() {
    let (mut play, id) = ten_sent(true);
    for after in [1, 2, 4] {
        let before = play.now;
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)]);
        let waited = play.now.saturating_sub(before).get() / 1_000_000;
        assert!((after * 1000..=after * 1000 + 1).contains(&waited), "{waited}");
        assert_eq!((play.info(id).cwnd, play.info(id).ssthresh), (1000, 5000));
    }
    // Slow start over what was lost: two segments for one that is acknowledged.
    play.peer(ACK, 1, 1001, 0);
    assert_eq!(play.sent(), [seg(ACK, 1001, 1, 1000), seg(ACK, 2001, 1, 1000)]);
    play.peer(ACK, 1, 10_001, 0);
    assert_eq!(play.sent()[0].seq, 10_001, "the rest had arrived");
    assert_eq!(play.stack.counters().segments.retransmitted_timeout, 5);
}

#[test]
fn a_peer_that_does_not_answer_any_more_is_given_up() {
    let (mut play, id) =
        Play::established(Profile { data_retries: 3, ..plain() }, Options::default());
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent().len(), 1);
    for _ in 0..3 {
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 10)]);
    }
    play.wait(100_000);
    assert_eq!(play.program.events, [Event::Closed(Reason::TimedOut)]);
    assert_eq!((play.sent(), play.stack.counters().sessions.timed_out), (vec![], 1));
}

#[test]
fn a_fin_that_is_lost_is_sent_again() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    assert_eq!(play.stack.counters().segments.retransmitted_timeout, 1);
}

#[test]
fn a_segment_that_was_sent_twice_is_not_timed_without_timestamps() {
    let (mut play, id) = Play::established(plain(), Options::default());
    let rtt = play.info(id).rtt;
    play.stack.send(id, 10).unwrap();
    play.sent();
    play.wait(100_000);
    play.sent();
    play.peer(ACK, 1, 11, 0);
    assert_eq!(play.info(id).rtt, rtt);
}

#[test]
fn after_a_pause_the_window_begins_anew() {
    let (mut play, id) = ten_sent(true);
    for acked in 1..=40 {
        play.peer(ACK, 1, 1 + acked * MSS, 0);
        play.sent();
    }
    let acked = play.info(id).acked;
    assert!(play.info(id).cwnd > 40_000);
    play.peer(ACK, 1, 1 + 80 * MSS, 0);
    play.sent();
    play.peer(ACK, 1, 1 + 100 * MSS, 0);
    assert!(acked < 100_000 && play.info(id).acked == 100_000);
    play.now = play.now.saturating_add(Nanos::from_secs(5));
    play.stack.send(id, 100_000).unwrap();
    assert_eq!(play.sent().len(), 10, "RFC 5681 §4.1");
}

#[test]
fn the_network_may_tell_of_congestion_without_losing() {
    let syn = Options { mss: Some(1000), ..Options::default() };
    let mut play = Play::new(Profile { ecn: true, ..plain() });
    let id = play.open();
    assert_eq!(play.sent(), [seg(SYN.with(Flags::ECE).with(Flags::CWR), 0, 0, 0)]);
    play.options(SYN_ACK.with(Flags::ECE), 0, 1, syn);
    play.sent();
    play.stack.send(id, 50_000).unwrap();
    assert_eq!(play.sent().len(), 10);
    let echo = ACK.with(Flags::ECE);
    play.peer(echo, 1, 1001, 0);
    assert_eq!(play.info(id).cwnd, 4500, "half of nine segments, once");
    play.peer(echo, 1, 2001, 0);
    assert_eq!(play.info(id).cwnd, 4500);
    play.peer(ACK, 1, 8001, 0);
    let sent = play.sent();
    assert_eq!(sent[0].flags, ACK.with(Flags::CWR), "the peer hears of it, once");
    let again = |sent: &Seg| sent.flags.has(Flags::CWR);
    assert!(sent.len() > 1 && !sent[1..].iter().any(again), "{sent:?}");
    assert_eq!(play.stack.counters().recoveries.congestion_echoes, 1);
    assert_eq!(play.stack.counters().bytes.retransmitted, 0);
}

/// A session with SACK and probes, and three segments under way, of which nothing is heard.
fn three_unheard() -> (Play, SessionId) {
    let syn = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
    let profile = Profile { sack: true, tail_loss_probe: true, ..plain() };
    let (mut play, id) = Play::established(profile, syn);
    play.stack.send(id, 3000).unwrap();
    assert_eq!(play.sent().len(), 3);
    let before = play.now;
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(PSH_ACK, 2001, 1, 1000)], "the last one, long before the timeout");
    // two round trips, and what the peer is given beside them
    assert!(play.now.saturating_sub(before) < wirebeat_units::Nanos::from_millis(4));
    assert_eq!(play.stack.counters().segments.retransmitted_tail, 1);
    (play, id)
}

#[test]
fn a_tail_loss_probe_that_arrives_shows_what_is_lost() {
    let (mut play, _) = three_unheard();
    play.sack = vec![(2001, 3001)];
    play.peer(ACK, 1, 1, 0);
    // One segment arrived, so one goes (RFC 9937 §6.2).
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)]);
    play.sack.clear();
    play.peer(ACK, 1, 1001, 0);
    assert_eq!(play.sent(), [seg(ACK, 1001, 1, 1000)]);
    play.peer(ACK, 1, 3001, 0);
    let counters = play.stack.counters();
    assert_eq!(
        (counters.recoveries.timeouts, counters.recoveries.fast, counters.recoveries.tail),
        (0, 1, 0)
    );
}

#[test]
fn a_probe_that_repairs_a_loss_is_congestion_and_one_that_was_not_needed_is_not() {
    for needed in [true, false] {
        let (mut play, id) = three_unheard();
        let cwnd = play.info(id).cwnd;
        // Not needed: both copies arrive, and the second is told of (RFC 2883).
        play.peer(ACK, 1, 3001, 0);
        if !needed {
            play.sack = vec![(2001, 3001)];
            play.peer(ACK, 1, 3001, 0);
            play.sack.clear();
        }
        play.stack.send(id, 1000).unwrap();
        assert_eq!(play.sent().len(), 1);
        play.peer(ACK, 1, 4001, 0);
        assert_eq!(play.info(id).cwnd < cwnd, needed);
        assert_eq!(play.stack.counters().recoveries.tail, u64::from(needed));
    }
}

#[test]
fn a_probe_that_nobody_answers_leaves_the_timeout() {
    let (mut play, _) = three_unheard();
    let before = play.now;
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)]);
    let waited = play.now.saturating_sub(before).get() / 1_000_000;
    assert!((1000..=1001).contains(&waited), "{waited}");
}

#[test]
fn a_probe_takes_new_data_if_there_is_some() {
    let syn = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
    let profile = Profile { sack: true, tail_loss_probe: true, ..plain() };
    let (mut play, id) = Play::established(profile, syn);
    play.stack.send(id, 100_000).unwrap();
    assert_eq!(play.sent().len(), 10);
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(ACK, 10_001, 1, 1000)], "beyond the congestion window");
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 1000)], "and once");
}

#[test]
fn a_retransmission_that_is_lost_is_sent_again_without_a_timeout() {
    let (mut play, _) = ten_sent(true);
    play.sack = vec![(1001, 4001)];
    play.peer(ACK, 1, 1, 0);
    let sent = play.sent();
    assert_eq!(sent[0], seg(ACK, 1, 1, 1000));
    // All that was under way arrives: that says nothing of the retransmission, which was sent after it.
    play.sack = vec![(1001, 10_001)];
    play.peer(ACK, 1, 1, 0);
    let later = play.sent();
    assert!(later.iter().all(|sent| sent.seq >= 10_001), "{later:?}");
    let high = later.last().unwrap().seq + 1000;
    assert!(high > 13_001, "{later:?}");
    // Two segments that were sent after it could have overtaken it, three could not.
    play.sack = vec![(1001, 12_001)];
    play.peer(ACK, 1, 1, 0);
    assert!(play.sent().iter().all(|sent| sent.seq > 12_001));
    play.sack = vec![(1001, 13_001)];
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.sent()[0], seg(ACK, 1, 1, 1000));
    play.sack = vec![(1001, 13_001)];
    play.peer(ACK, 1, 1, 0);
    assert!(play.sent().iter().all(|sent| sent.seq > 12_001), "once");
    assert_eq!(play.stack.counters().recoveries.timeouts, 0);
}
