//! What FreeBSD's scripts for packetdrill showed to be wrong, or poorer than the RFCs: each test is named after the defect.

use super::*;
use crate::api::Reason;
use crate::profile::Reading;
use crate::tcb::State;

/// A half-open session of the peer.
fn half_open(profile: Profile, syn: Options) -> Play {
    let mut play = Play::new(profile);
    play.options(SYN, 0, 0, syn);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play
}

/// A session in TIME-WAIT, where 2 is the next number on both sides.
fn time_wait() -> Play {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    play.peer(FIN_ACK, 1, 2, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 1);
    play
}

/// RFC 9293 §3.10.7.4, second: "the connection was refused", where this side had opened it.
#[test]
fn a_reset_of_a_session_that_both_sides_opened_was_no_refusal() {
    let mut play = Play::new(plain());
    play.open();
    play.sent();
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(RST, 1, 0, 0);
    assert_eq!(play.program.events, [Event::Closed(Reason::Refused)]);
    assert_eq!(play.stack.counters().sessions.refused, 1);
}

/// RFC 5681 §3.1 and RFC 6298 §5.7 are about SYNs that were lost.
#[test]
fn a_session_that_both_sides_opened_began_as_after_a_loss() {
    let mut play = Play::new(plain());
    let id = play.open();
    play.sent();
    play.options(SYN, 0, 0, Options { mss: Some(1000), ..Options::default() });
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(ACK, 1, 1, 0);
    let info = play.info(id);
    assert_eq!((info.state, info.cwnd), (State::Established, 10_000));
    assert_eq!(info.rto, Nanos::from_secs(1));
}

/// RFC 9293 §3.10.7.4, second: `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`; it was the SYN again.
#[test]
fn a_half_open_session_did_not_answer_a_reset_in_the_window_with_an_acknowledgment() {
    let mut play = half_open(plain(), Options::default());
    play.peer(RST, 5, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)]);
    play.peer(RST_ACK, 10_000, 1, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)], "the last number in the window");
    play.peer(SYN, 7, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)], "another SYN");
    play.peer(RST, 10_001, 0, 0);
    assert_eq!(play.sent(), [], "behind the window");
    assert_eq!(play.stack.counters().arrivals.challenged, 3);
    // Of shifted windows, and with timestamps.
    let profile = Profile { window: 100_000, window_scaling: true, timestamps: true, ..plain() };
    let timestamps = Some(Timestamps { value: 9, echo: 0 });
    let syn = Options { window_shift: Some(0), timestamps, ..Options::default() };
    let mut play = half_open(profile, syn);
    play.peer(RST, 5, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)]);
    let (options, window) = play.last[0];
    assert_eq!((options.timestamps.unwrap().echo, window), (9, 32_768));
}

/// RFC 9293 §3.10.7.2, third: what comes with a SYN is no reason to refuse it.
#[test]
fn a_syn_with_a_fin_was_refused() {
    let mut play = Play::new(plain());
    play.peer(SYN.with(Flags::FIN), 0, 0, 3);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(ACK, 1, 1, 0);
    play.peer(FIN_ACK, 1, 1, 3);
    assert_eq!(play.sent(), [seg(ACK, 1, 5, 0)]);
    assert_eq!(play.program.events, [Event::Established, Event::PeerClosed]);
}

/// RFC 9293 §3.10.7.4, first and fifth.
#[test]
fn time_wait_did_not_answer_acknowledgments_that_lie_elsewhere_and_answered_what_is_to_be_dropped()
{
    let mut play = time_wait();
    play.peer(ACK, 2, 2, 0);
    assert_eq!(play.sent(), [], "this one is where it belongs");
    for seq in [1, 3, 10_000, 40_000] {
        play.peer(ACK, seq, 2, 0);
        assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)], "{seq}");
    }
    let fin = Flags::FIN;
    play.peer(fin, 2, 0, 0);
    play.peer(fin, 3, 0, 0);
    assert_eq!(play.sent(), [], "without ACK");
    play.peer(fin, 40_000, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)], "outside the window");
}

/// As RFC 1337 has it of RST: nothing but a session that takes its place ends it.
#[test]
fn a_syn_that_nobody_takes_ended_time_wait() {
    let mut play = time_wait();
    play.program.refuses = true;
    play.peer(SYN, 1000, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 1);
    assert_eq!(play.stack.counters().sessions.time_wait_reused, 0);
}

/// A buffer that is larger than the largest window is room for data that was not read.
#[test]
fn what_a_buffer_has_beyond_the_largest_window_was_not_used() {
    let profile = Profile { window: 70_000, reading: Reading::Manual, ..plain() };
    let syn = Options { mss: Some(1000), ..Options::default() };
    let (mut play, _) = Play::established(profile, syn);
    let mut windows = Vec::new();
    for at in 0..6 {
        play.peer(ACK, 1 + at * 1000, 1, 1000);
        assert_eq!(play.sent(), [seg(ACK, 1, 1001 + at * 1000, 0)]);
        windows.push(play.last[0].1);
    }
    assert_eq!(windows, [65_535, 65_535, 65_535, 65_535, 64_535, 63_535]);
}

/// RFC 7323 §2.2: the shift is the one of the SYN.
#[test]
fn a_profile_that_changes_while_a_session_opens_changed_its_shift() {
    let profile = Profile { window: 1 << 20, window_scaling: true, ..plain() };
    let smaller = Profile { window: 10_000, ..profile };
    let syn = Options { window_shift: Some(0), mss: Some(1000), ..Options::default() };
    let mut play = Play::new(profile);
    play.open();
    play.sent();
    assert_eq!(play.last[0].0.window_shift, Some(5));
    play.stack.set_profile(0, smaller).unwrap();
    play.wait(1_100);
    play.sent();
    assert_eq!(play.last[0].0.window_shift, Some(5), "repeated");
    play.options(SYN_ACK, 0, 1, syn);
    play.sent();
    assert_eq!(play.last[0].1, 313, "10,000 / 32");

    let mut play = half_open(profile, syn);
    play.stack.set_profile(0, smaller).unwrap();
    play.wait(1_100);
    play.sent();
    assert_eq!(play.last[0].0.window_shift, Some(5), "repeated");
    play.peer(ACK, 1, 1, 0);
    play.peer(ACK, 1, 1, 16);
    play.sent();
    assert_eq!(play.last[0].1, 312, "9,984 / 32");
}

/// RFC 2883 §4.2: where a part of a segment had come, the first such part is told; it was told where all of it had come.
#[test]
fn the_part_of_a_segment_that_came_twice_was_not_told() {
    let profile = Profile { sack: true, ..plain() };
    let syn = Options { sack_permitted: true, mss: Some(1000), ..Options::default() };
    let told = |seq: u32, len: usize| {
        let (mut play, _) = Play::established(profile, syn);
        play.peer(ACK, 1, 1, 99);
        for at in [200, 400, 600] {
            play.peer(ACK, at, 1, 100);
        }
        play.sent();
        play.peer(ACK, seq, 1, len);
        let sent = play.sent();
        let blocks = play.last[0].0;
        let relative = |range: &Range| (range.start.since(play.irs), range.end.since(play.irs));
        (sent[0].ack, blocks.sack().iter().map(relative).collect::<Vec<_>>())
    };
    assert_eq!(told(50, 25), (100, vec![(50, 75), (600, 700), (400, 500), (200, 300)]), "all");
    assert_eq!(told(50, 100), (150, vec![(50, 100), (600, 700), (400, 500), (200, 300)]));
    assert_eq!(told(50, 350), (500, vec![(50, 100), (600, 700)]));
    assert_eq!(told(100, 175), (300, vec![(200, 275), (600, 700), (400, 500)]));
    assert_eq!(told(100, 600), (700, vec![(200, 300)]));
    assert_eq!(told(150, 100), (100, vec![(200, 250), (150, 300), (600, 700), (400, 500)]));
    assert_eq!(told(250, 300), (100, vec![(250, 300), (200, 550), (600, 700)]));
    assert_eq!(told(300, 100), (100, vec![(200, 500), (600, 700)]), "nothing");
}
