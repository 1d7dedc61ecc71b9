//! What is accepted and what is answered in a session: RFC 5961, RFC 7323, windows, probes.

use wirebeat_units::Nanos;

use super::*;
use crate::api::Reason;
use crate::profile::{KeepAlive, Reading};
use crate::tcb::State;

#[test]
fn only_the_exact_rst_resets() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.peer(RST, 2, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)], "in the window: challenged");
    play.peer(RST, 60_000, 0, 0);
    assert_eq!(play.sent(), [], "outside the window: dropped");
    play.peer(SYN, 1, 0, 0);
    play.peer(SYN, 40_000, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)], "a SYN: challenged");
    assert_eq!(play.info(id).state, State::Established);
    play.peer(RST, 1, 0, 0);
    assert_eq!(play.program.events, [Event::Closed(Reason::Reset)]);
    assert_eq!(play.stack.counters().sessions.reset, 1);
}

#[test]
fn challenges_are_limited() {
    let (mut play, _) = Play::established(plain(), Options::default());
    let mut answered = 0;
    for _ in 0..1500 {
        play.peer(RST, 2, 0, 0);
        answered += play.sent().len();
    }
    assert_eq!((answered, play.stack.counters().arrivals.challenges_withheld), (1000, 500));
    play.now = play.now.saturating_add(Nanos::from_secs(1));
    play.peer(RST, 2, 0, 0);
    assert_eq!(play.sent().len(), 1);
}

#[test]
fn acknowledgments_of_the_future_and_of_long_ago_are_challenged() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.send(id, 100).unwrap();
    play.sent();
    play.peer(PSH_ACK, 1, 102, 5);
    assert_eq!(play.sent(), [seg(ACK, 101, 1, 0)], "what was not sent; its data does not count");
    play.peer(PSH_ACK, 1, 0_u32.wrapping_sub(70_000), 5);
    assert_eq!(play.sent(), [seg(ACK, 101, 1, 0)], "longer ago than the largest window");
    play.peer(PSH_ACK, 1, 0, 5);
    assert_eq!(play.sent(), [seg(ACK, 101, 6, 0)], "an old one: its data counts");
    assert_eq!(play.stack.counters().arrivals.bad_ack, 2);
}

#[test]
fn answers_to_what_lies_outside_the_window_are_limited() {
    let (mut play, _) = Play::established(Profile { window: 1000, ..plain() }, Options::default());
    play.peer(PSH_ACK, 1, 1, 10);
    play.sent();
    let mut answered = 0;
    for _ in 0..1500 {
        // behind the window, with data
        play.peer(ACK, 5000, 1, 10);
        answered += play.sent().len();
    }
    assert_eq!((answered, play.stack.counters().arrivals.challenges_withheld), (1000, 500));
    answered = 0;
    for _ in 0..100_500 {
        // the same data again: its sender waits for the answer, which is in a larger limit
        play.peer(ACK, 1, 1, 10);
        answered += play.sent().len();
    }
    assert_eq!((answered, play.stack.counters().arrivals.challenges_withheld), (100_000, 1000));
    play.now = play.now.saturating_add(Nanos::from_secs(1));
    play.peer(ACK, 1, 1, 10);
    play.peer(ACK, 5000, 1, 10);
    assert_eq!(play.sent().len(), 1);
}

#[test]
fn data_outside_the_window_is_acknowledged_and_dropped() {
    let (mut play, id) = Play::established(Profile { window: 1000, ..plain() }, Options::default());
    play.peer(ACK, 1, 1, 1500);
    assert_eq!(play.program.data[0].1.len(), 1000, "what fits");
    assert_eq!(play.sent(), [seg(ACK, 1, 1001, 0)]);
    play.peer(ACK, 5000, 1, 10);
    assert_eq!(play.sent(), [seg(ACK, 1, 1001, 0)]);
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.sent(), [seg(ACK, 1, 1001, 0)], "a duplicate");
    assert_eq!(
        (play.info(id).received, play.stack.counters().arrivals.duplicate_bytes),
        (1000, 10)
    );
    play.peer(ACK, 500, 1, 700);
    assert_eq!(
        (play.sent(), play.info(id).received),
        (vec![seg(ACK, 1, 1200, 0)], 1199),
        "a part of it is new"
    );
}

#[test]
fn data_out_of_order_is_handed_over_once_and_told() {
    let profile = Profile { sack: true, ..plain() };
    let (mut play, id) =
        Play::established(profile, Options { sack_permitted: true, ..Options::default() });
    let told = |play: &Play| -> Vec<(u32, u32)> {
        let (options, _) = &play.last[0];
        options
            .sack()
            .iter()
            .map(|block| (block.start.since(play.irs), block.end.since(play.irs)))
            .collect()
    };
    play.peer(ACK, 101, 1, 100);
    assert_eq!((play.sent(), told(&play)), (vec![seg(ACK, 1, 1, 0)], vec![(101, 201)]));
    play.peer(ACK, 301, 1, 100);
    assert_eq!((play.sent(), told(&play)), (vec![seg(ACK, 1, 1, 0)], vec![(301, 401), (101, 201)]));
    play.peer(ACK, 151, 1, 100);
    // A duplicate, or a part that is one, is told first (RFC 2883 §4.1, §4.2), and once.
    assert_eq!(
        (play.sent(), told(&play)),
        (vec![seg(ACK, 1, 1, 0)], vec![(151, 201), (101, 251), (301, 401)])
    );
    play.peer(ACK, 301, 1, 50);
    assert_eq!(
        (play.sent(), told(&play)),
        (vec![seg(ACK, 1, 1, 0)], vec![(301, 351), (301, 401), (101, 251)])
    );
    play.peer(FIN_ACK, 401, 1, 0);
    assert_eq!((play.sent(), told(&play)), (vec![seg(ACK, 1, 1, 0)], vec![(301, 402), (101, 251)]));
    play.peer(ACK, 1, 1, 350);
    assert_eq!(play.sent(), [seg(ACK, 1, 402, 0)]);
    assert_eq!((play.info(id).received, play.info(id).state), (400, State::CloseWait));
    let pieces: Vec<(u64, usize)> =
        play.program.data.iter().map(|(offset, bytes)| (*offset, bytes.len())).collect();
    assert_eq!(pieces, [(100, 100), (300, 100), (200, 50), (0, 100), (250, 50)]);
    assert_eq!(play.program.events, [Event::PeerClosed]);
    play.peer(ACK, 1, 1, 100);
    assert_eq!((play.sent(), told(&play)), (vec![seg(ACK, 1, 402, 0)], vec![(1, 101)]));
}

#[test]
fn without_room_for_ranges_data_out_of_order_comes_again() {
    let profile = Profile { sack: true, ..plain() };
    let mut play = Play::new(profile);
    play.stack = Stack::new(
        &Limits { ranges: 0, ..Limits::for_sessions(4) },
        vec![profile],
        [1, 2],
        play.now,
    );
    let id = play.open();
    play.sent();
    play.options(SYN_ACK, 0, 1, Options { sack_permitted: true, ..Options::default() });
    play.sent();
    play.peer(ACK, 101, 1, 100);
    assert_eq!((play.sent(), play.program.data.len()), (vec![seg(ACK, 1, 1, 0)], 0));
    play.peer(ACK, 1, 1, 100);
    play.peer(ACK, 101, 1, 100);
    assert_eq!((play.info(id).received, play.stack.counters().arrivals.dropped_bytes), (200, 100));
}

#[test]
fn old_timestamps_are_answered_and_dropped() {
    let profile = Profile { timestamps: true, ..plain() };
    let syn =
        Options { timestamps: Some(Timestamps { value: 500, echo: 0 }), ..Options::default() };
    let (mut play, id) = Play::established(profile, syn);
    play.timestamps = Some(510);
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.sent(), [seg(ACK, 1, 11, 0)]);
    assert_eq!(play.last[0].0.timestamps.map(|timestamps| timestamps.echo), Some(510));
    play.timestamps = Some(509);
    play.peer(ACK, 11, 1, 10);
    assert_eq!((play.sent(), play.stack.counters().arrivals.paws), (vec![seg(ACK, 1, 11, 0)], 1));
    play.timestamps = None;
    play.peer(ACK, 11, 1, 10);
    assert_eq!((play.sent(), play.stack.counters().arrivals.without_timestamp), (vec![], 1));
    play.timestamps = Some(520);
    play.peer(ACK, 21, 1, 10);
    play.sent();
    assert_eq!(
        play.last[0].0.timestamps.map(|timestamps| timestamps.echo),
        Some(510),
        "behind a gap"
    );
    play.timestamps = Some(515);
    play.peer(ACK, 11, 1, 10);
    assert_eq!((play.sent(), play.info(id).received), (vec![seg(ACK, 1, 31, 0)], 30));
    // What is sent again is echoed though it is old: seed 16970 had the timeout grow to a minute on what was echoed before.
    play.timestamps = Some(530);
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.sent(), [seg(ACK, 1, 31, 0)]);
    assert_eq!(play.last[0].0.timestamps.map(|timestamps| timestamps.echo), Some(530));
}

#[test]
fn options_are_agreed_on_by_both() {
    let ours =
        Profile { timestamps: true, sack: true, window_scaling: true, window: 1 << 20, ..plain() };
    let (play, id) = Play::established(ours, Options { mss: Some(700), ..Options::default() });
    assert_eq!((play.info(id).mss, play.info(id).peer_window), (700, 60_000));
    let all = Options {
        mss: Some(5000),
        window_shift: Some(3),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..Options::default()
    };
    let (mut play, id) = Play::established(ours, all);
    assert_eq!(play.info(id).mss, 1000 - 12);
    assert_eq!(play.info(id).peer_window, 60_000, "the window of a SYN is not scaled");
    play.timestamps = Some(2);
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.info(id).peer_window, 480_000);
    play.sent();
    assert_eq!(u32::from(play.last[0].1) << 5, 1 << 20);
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.window = 0;
    play.peer(ACK, 1, 1, 1);
    play.sent();
    play.stack.send(id, 100).unwrap();
    assert_eq!(play.sent(), []);
    for after in [1, 2, 4] {
        let before = play.now;
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 0, 2, 0)]);
        assert!(
            (after * 1000..=after * 1000 + 1)
                .contains(&(play.now.saturating_sub(before).get() / 1_000_000))
        );
        play.peer(ACK, 2, 1, 0);
        assert_eq!(play.sent(), []);
    }
    play.window = 60;
    play.peer(ACK, 2, 1, 0);
    // Half of the largest window would be 30,000: the small one is used when the timer runs out (RFC 9293 §3.8.6.2.1).
    assert_eq!(play.sent(), []);
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(ACK, 1, 2, 60)]);
    play.window = 1000;
    play.peer(ACK, 2, 61, 0);
    assert_eq!(play.sent(), [seg(PSH_ACK, 61, 2, 40)]);
    assert_eq!(play.stack.counters().segments.probe, 3);
}

#[test]
fn a_probe_is_answered() {
    let (mut play, _) = Play::established(plain(), Options::default());
    play.peer(ACK, 0, 1, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)]);
}

#[test]
fn a_silent_peer_is_probed_and_given_up() {
    let keep_alive =
        KeepAlive { idle: Nanos::from_secs(10), interval: Nanos::from_secs(3), count: 2 };
    let (mut play, _) =
        Play::established(Profile { keep_alive: Some(keep_alive), ..plain() }, Options::default());
    play.wait(5_000);
    play.peer(ACK, 1, 1, 1);
    play.sent();
    play.wait(9_000);
    assert_eq!(play.sent(), []);
    play.wait(1_001);
    assert_eq!(play.sent(), [seg(ACK, 0, 2, 0)]);
    play.peer(ACK, 2, 1, 0);
    play.wait(9_000);
    assert_eq!(play.sent(), [], "it answered");
    for _ in 0..2 {
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(ACK, 0, 2, 0)]);
    }
    play.wait(100_000);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::TimedOut)));
}

#[test]
fn an_acknowledgment_waits_for_a_second_segment_or_forty_milliseconds() {
    let profile = Profile { delayed_ack: Nanos::from_millis(40), ..plain() };
    let (mut play, id) = Play::established(profile, Options::default());
    play.peer(ACK, 1, 1, 10);
    assert_eq!(play.sent(), []);
    play.peer(ACK, 11, 1, 10);
    assert_eq!(play.sent(), [seg(ACK, 1, 21, 0)]);
    play.peer(ACK, 21, 1, 10);
    assert_eq!(play.sent(), []);
    let before = play.now;
    play.wait(1000);
    assert_eq!(play.sent(), [seg(ACK, 1, 31, 0)]);
    assert!((40..=41).contains(&(play.now.saturating_sub(before).get() / 1_000_000)));
    play.peer(ACK, 31, 1, 10);
    play.stack.send(id, 5).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 41, 5)], "data takes it along");
    play.wait(100);
    assert_eq!(play.sent(), []);
}

#[test]
fn a_small_segment_waits_for_an_acknowledgment_by_nagle() {
    let (mut play, id) = Play::established(Profile { nagle: true, ..plain() }, Options::default());
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 10)]);
    play.stack.send(id, 10).unwrap();
    assert_eq!(play.sent(), []);
    play.stack.send(id, 1000).unwrap();
    assert_eq!(
        play.sent(),
        [seg(ACK, 11, 1, 536),],
        "a whole one goes; the MSS of a peer that names none is 536"
    );
    play.peer(ACK, 1, 547, 0);
    assert_eq!(play.sent(), [seg(PSH_ACK, 547, 1, 474)]);
    play.stack.send(id, 10).unwrap();
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(Flags(0x19), 1021, 1, 10)], "a FIN does not wait");
}

#[test]
fn a_reader_that_is_slow_closes_the_window_and_opens_it_in_steps() {
    let profile = Profile { reading: Reading::Manual, window: 2000, ..plain() };
    let (mut play, id) =
        Play::established(profile, Options { mss: Some(1000), ..Options::default() });
    play.peer(ACK, 1, 1, 1000);
    play.sent();
    play.peer(ACK, 1001, 1, 1000);
    play.sent();
    assert_eq!(play.last[0].1, 0);
    play.peer(ACK, 2001, 1, 1);
    assert_eq!((play.sent(), play.info(id).received), (vec![seg(ACK, 1, 2001, 0)], 2000));
    play.stack.consume(id, 999).unwrap();
    assert_eq!(play.sent(), [], "less than a segment and half the window");
    play.stack.consume(id, 1).unwrap();
    assert_eq!((play.sent(), play.last[0].1), (vec![seg(ACK, 1, 2001, 0)], 1000));
}
