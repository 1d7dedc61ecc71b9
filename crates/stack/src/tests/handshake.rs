//! How sessions begin and end (RFC 9293 §3.5, §3.6, §3.10).

use wirebeat_units::Nanos;

use super::*;
use crate::api::{OpenError, Reason, SessionError};
use crate::tcb::State;

/// A session that the peer opened.
fn accepted(profile: Profile) -> Play {
    let mut play = Play::new(profile);
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.program.events, [Event::Established]);
    assert_eq!(play.sent(), []);
    play
}

fn state(play: &Play) -> Option<State> {
    play.stack.info(SessionId(0)).map(|info| info.state)
}

#[test]
fn we_open_and_close_first() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.send(id, 5).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 5)]);
    play.peer(ACK, 1, 6, 0);
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.stack.close(play.now, id, &mut play.program), Err(SessionError::Closed));
    assert_eq!(play.stack.send(id, 1), Err(SessionError::Closed));
    assert_eq!(play.sent(), [seg(FIN_ACK, 6, 1, 0)]);
    assert_eq!(state(&play), Some(State::FinWait1));
    play.peer(ACK, 1, 7, 0);
    assert_eq!(state(&play), Some(State::FinWait2));
    // Half-closed: the peer goes on sending.
    play.peer(ACK, 1, 7, 3);
    assert_eq!(play.sent(), [seg(ACK, 7, 4, 0)]);
    play.peer(FIN_ACK, 4, 7, 0);
    assert_eq!(play.sent(), [seg(ACK, 7, 5, 0)]);
    let events =
        [Event::Acknowledged { offset: 5 }, Event::PeerClosed, Event::Closed(Reason::InOrder)];
    assert_eq!(play.program.events, events);
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 1);
    // A FIN that comes again is acknowledged again, and the time begins anew.
    play.wait(40_000);
    play.peer(FIN_ACK, 4, 7, 0);
    assert_eq!(play.sent(), [seg(ACK, 7, 5, 0)]);
    play.wait(40_000);
    assert_eq!(
        play.stack.connect(play.now, &Open { tuple: play.tuple, profile: 0, user: 0 }),
        Err(OpenError::InUse)
    );
    play.wait(21_000);
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 0);
    assert!(play.stack.connect(play.now, &Open { tuple: play.tuple, profile: 0, user: 0 }).is_ok());
}

#[test]
fn a_peer_that_goes_on_sending_is_waited_for_after_our_fin() {
    let profile = Profile { fin_wait_2: Nanos::from_secs(2), ..plain() };
    let (mut play, id) = Play::established(profile, Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    play.peer(ACK, 1, 2, 0);
    for second in 0..5 {
        play.wait(1_500);
        assert_eq!(state(&play), Some(State::FinWait2));
        play.peer(ACK, 1 + second, 2, 1);
        assert_eq!(play.sent(), [seg(ACK, 2, 2 + second, 0)]);
    }
    play.wait(1_900);
    assert_eq!(state(&play), Some(State::FinWait2));
    play.wait(200);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::TimedOut)));
}

#[test]
fn a_session_that_skips_time_wait_frees_its_ports_at_once() {
    let profile = Profile { time_wait: Nanos::ZERO, ..plain() };
    let (mut play, id) = Play::established(profile, Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    play.peer(FIN_ACK, 1, 2, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::InOrder)));
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 0);
    assert!(play.stack.connect(play.now, &Open { tuple: play.tuple, profile: 0, user: 0 }).is_ok());
}

#[test]
fn the_peer_opens_and_closes_first() {
    let mut play = accepted(plain());
    play.peer(FIN_ACK, 1, 1, 4);
    assert_eq!(play.sent(), [seg(ACK, 1, 6, 0)]);
    assert_eq!(state(&play), Some(State::CloseWait));
    assert_eq!(play.program.data, [(0, b"xxxx".to_vec())]);
    let id = play.program.sessions[0];
    play.stack.send(id, 3).unwrap();
    play.stack.close(play.now, id, &mut play.program).unwrap();
    // Data and FIN in one.
    assert_eq!(play.sent(), [seg(Flags(0x19), 1, 6, 3)]);
    assert_eq!(state(&play), Some(State::LastAck));
    play.peer(ACK, 6, 5, 0);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::InOrder)));
    assert_eq!((state(&play), play.stack.counters().in_state(State::TimeWait)), (None, 0));
    assert_eq!(play.stack.send(id, 1), Err(SessionError::Unknown));
}

#[test]
fn a_peer_that_remembers_an_older_connection_gets_the_syn_again_behind_the_rst() {
    let mut play = Play::new(plain());
    play.open();
    assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
    // RFC 9293 figure 9: it answers with what it waits for.
    play.peer(ACK, 700, 900, 0);
    assert_eq!(play.sent(), [seg(RST, 900, 0, 0), seg(SYN, 0, 0, 0)]);
    // Once; who does that again has to wait for the timeout.
    play.peer(ACK, 700, 900, 0);
    assert_eq!(play.sent(), [seg(RST, 900, 0, 0)]);
    play.peer(SYN_ACK, 0, 1, 0);
    assert_eq!(state(&play), Some(State::Established));
    assert!(play.stack.counters().sessions_balance() && play.stack.counters().segments_balance());
}

#[test]
fn timestamps_go_on_where_the_embedder_says() {
    let mut play = Play::new(Profile { timestamps: true, ..plain() });
    play.stack.show_timestamp(play.now, 5_000);
    play.wait(7);
    play.open();
    assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
    let timestamps = play.last[0].0.timestamps.unwrap();
    assert_eq!((timestamps.value, timestamps.echo), (5_007, 0));
}

#[test]
fn both_open_at_the_same_time() {
    let mut play = Play::new(plain());
    play.open();
    assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    assert_eq!(state(&play), Some(State::SynReceived));
    play.peer(SYN_ACK, 0, 1, 0);
    assert_eq!((state(&play), play.sent()), (Some(State::Established), vec![]));
    assert_eq!(play.program.events, [Event::Established]);
}

#[test]
fn both_close_at_the_same_time() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(FIN_ACK, 1, 1, 0)]);
    play.peer(FIN_ACK, 1, 1, 0);
    assert_eq!(state(&play), Some(State::Closing));
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    play.peer(ACK, 2, 2, 0);
    assert_eq!(play.program.events, [Event::PeerClosed, Event::Closed(Reason::InOrder)]);
    assert_eq!(play.stack.counters().in_state(State::TimeWait), 1);
}

#[test]
fn a_syn_is_repeated_and_given_up() {
    let mut play = Play::new(Profile { syn_retries: 2, ..plain() });
    play.open();
    assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
    for after in [1, 2] {
        let before = play.now;
        play.wait(100_000);
        assert_eq!(play.sent(), [seg(SYN, 0, 0, 0)]);
        let waited = play.now.saturating_sub(before).get() / 1_000_000;
        assert!((after * 1000..=after * 1000 + 1).contains(&waited), "{waited}");
    }
    play.wait(100_000);
    assert_eq!(play.program.events, [Event::Closed(Reason::TimedOut)]);
    assert_eq!(play.stack.counters().sessions.timed_out_opening, 1);
    assert_eq!(play.stack.counters().segments.retransmitted_syn, 2);
}

#[test]
fn a_syn_is_refused_only_by_a_right_rst() {
    let mut play = Play::new(plain());
    play.open();
    play.sent();
    play.peer(RST, 0, 0, 0);
    play.peer(RST_ACK, 0, 9, 0);
    assert_eq!((state(&play), play.sent()), (Some(State::SynSent), vec![]));
    play.peer(ACK, 0, 9, 0);
    assert_eq!(play.sent(), [seg(RST, 9, 0, 0), seg(SYN, 0, 0, 0)], "a half-open peer");
    play.peer(RST_ACK, 0, 1, 0);
    assert_eq!(play.program.events, [Event::Closed(Reason::Refused)]);
    assert_eq!(play.stack.counters().sessions.refused, 1);
}

#[test]
fn closed_ports_answer_with_rst_and_rst_with_nothing() {
    let mut play = Play::new(plain());
    play.program.refuses = true;
    play.iss = Some(Seq(0));
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(RST_ACK, 0, 1, 0)]);
    play.peer(PSH_ACK, 5, 77, 10);
    assert_eq!(play.sent(), [seg(RST, 77, 0, 0)]);
    play.peer(FIN_ACK.without(ACK), 5, 0, 10);
    assert_eq!(play.sent(), [seg(RST_ACK, 0, 16, 0)]);
    play.peer(RST_ACK, 5, 5, 0);
    assert_eq!(play.sent(), []);
}

#[test]
fn a_half_open_session_is_answered_again_reset_or_forgotten() {
    let mut play = Play::new(Profile { syn_retries: 1, ..plain() });
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)], "the SYN came again");
    play.peer(ACK, 1, 9, 0);
    assert_eq!(play.sent(), [seg(RST, 9, 0, 0)]);
    play.peer(RST, 5, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 1, 1, 0)], "in the window and not exact: RFC 5961 §3.2");
    play.peer(RST, 1, 0, 0);
    assert_eq!(play.stack.counters().sessions.half_open_reset, 1);
    play.wait(100_000);
    assert_eq!(play.sent(), []);

    play.iss = None;
    play.peer(SYN, 100, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 101, 0)]);
    play.wait(100_000);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 101, 0)]);
    play.wait(100_000);
    assert_eq!((play.sent(), play.stack.counters().sessions.half_open_timed_out), (vec![], 1));
    assert!(play.program.events.is_empty());
}

#[test]
fn data_with_the_last_acknowledgment_of_a_handshake_counts() {
    let mut play = Play::new(plain());
    play.peer(SYN, 0, 0, 0);
    play.sent();
    play.peer(PSH_ACK, 1, 1, 9);
    assert_eq!(play.sent(), [seg(ACK, 1, 10, 0)]);
    assert_eq!((play.program.events.len(), play.program.data.len()), (1, 1));
}

#[test]
fn a_full_stack_resets_who_completes_a_handshake() {
    let mut play = Play::new(plain());
    play.stack = Stack::new(&Limits::for_sessions(1), vec![plain()], [1, 2], play.now);
    let tuple = Tuple { remote_port: 9, ..play.tuple };
    play.stack.connect(play.now, &Open { tuple, profile: 0, user: 0 }).unwrap();
    let other = Tuple { remote_port: 10, ..play.tuple };
    assert_eq!(
        play.stack.connect(play.now, &Open { tuple: other, profile: 0, user: 0 }),
        Err(OpenError::Full)
    );
    let mut out = Packets::default();
    play.stack.transmit(play.now, &mut play.program, &mut out);
    play.peer(SYN, 0, 0, 0);
    assert_eq!(play.sent(), [seg(SYN_ACK, 0, 1, 0)]);
    play.peer(ACK, 1, 1, 0);
    assert_eq!(play.sent(), [seg(RST, 1, 0, 0)]);
    assert_eq!(play.stack.counters().sessions.half_open_dropped, 1);
}

#[test]
fn a_session_that_is_given_up_sends_rst_and_one_that_nobody_knows_does_not() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.abort(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), [seg(RST_ACK, 1, 1, 0)]);
    assert_eq!(play.program.events, [Event::Closed(Reason::Aborted)]);
    let id = play.open();
    play.stack.abort(play.now, id, &mut play.program).unwrap();
    let id = play.open();
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.sent(), []);
    assert_eq!(play.stack.counters().sessions.aborted, 3);
}

#[test]
fn time_wait_can_be_skipped_and_a_new_session_may_end_it() {
    let (mut play, id) =
        Play::established(Profile { time_wait: Nanos::ZERO, ..plain() }, Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    play.sent();
    play.peer(FIN_ACK, 1, 2, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    assert_eq!(
        (play.stack.counters().in_state(State::TimeWait), play.stack.open_sessions()),
        (0, 0)
    );

    // RFC 9293 §3.10.7.4: a SYN behind the last number opens anew, with a number of ours behind our last; one before does not.
    let mut play = accepted(plain());
    let id = play.program.sessions[0];
    play.stack.close(play.now, id, &mut play.program).unwrap();
    play.sent();
    play.peer(FIN_ACK, 1, 2, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)]);
    play.peer(RST, 2, 0, 0);
    play.peer(SYN, 1, 0, 0);
    assert_eq!(play.sent(), [seg(ACK, 2, 2, 0)], "neither RST (RFC 1337) nor an old SYN ends it");
    play.peer(SYN, 1000, 0, 0);
    let sent = play.sent();
    assert!(
        matches!(sent[..], [Seg { flags: SYN_ACK, ack: 1001, seq, .. }] if seq > 2 && seq < 1 << 31),
        "{sent:?}"
    );
    assert_eq!(play.stack.counters().sessions.time_wait_reused, 1);
}

#[test]
fn a_peer_that_never_closes_is_given_up() {
    let (mut play, id) = Play::established(plain(), Options::default());
    play.stack.close(play.now, id, &mut play.program).unwrap();
    play.sent();
    play.peer(ACK, 1, 2, 0);
    assert_eq!(play.sent(), []);
    play.wait(61_000);
    assert_eq!(play.program.events, [Event::Closed(Reason::TimedOut)]);
}

#[test]
fn what_a_session_cannot_be_opened_with_is_said() {
    let mut play = Play::new(plain());
    let open = Open { tuple: play.tuple, profile: 0, user: 0 };
    let connect = |play: &mut Play, open| play.stack.connect(play.now, &open);
    assert_eq!(connect(&mut play, Open { profile: 1, ..open }), Err(OpenError::Profile));
    let mixed = Tuple { remote: [1; 16].into(), ..play.tuple };
    assert_eq!(connect(&mut play, Open { tuple: mixed, ..open }), Err(OpenError::Versions));
    assert!(connect(&mut play, open).is_ok());
    assert_eq!(connect(&mut play, open), Err(OpenError::InUse));
}

/// Replies to strangers are limited; the last segment of a session is none, or its peer sends its FIN again for each that is missing.
#[test]
fn the_last_segments_of_many_sessions_that_end_at_once_all_leave() {
    const MANY: u16 = 3000;
    for aborts in [true, false] {
        let mut play = Play::new(plain());
        let limits = Limits { time_wait: MANY.into(), ..Limits::for_sessions(MANY.into()) };
        play.stack = Stack::new(&limits, vec![plain()], [1, 2], play.now);
        let mut all = Vec::new();
        for port in 0..MANY {
            (play.tuple.local_port, play.iss) = (1024 + port, None);
            let id = play.open();
            play.sent();
            play.peer(SYN_ACK, 0, 1, 0);
            play.sent();
            if !aborts {
                play.stack.close(play.now, id, &mut play.program).unwrap();
                play.sent();
                play.peer(ACK, 1, 2, 0);
            }
            all.push((id, play.tuple, play.iss));
        }
        let before = play.stack.counters().segments;
        for (id, tuple, iss) in all {
            (play.tuple, play.iss) = (tuple, iss);
            match aborts {
                true => play.stack.abort(play.now, id, &mut play.program).unwrap(),
                false => play.peer(FIN_ACK, 1, 2, 0),
            }
        }
        assert!(play.stack.transmit(play.now, &mut play.program, &mut Packets::default()));
        let counters = play.stack.counters();
        let sent = (counters.segments.rst - before.rst, counters.segments.ack - before.ack);
        let all = u64::from(MANY);
        assert_eq!(sent, if aborts { (all, 0) } else { (0, all) });
        assert_eq!(counters.replies_dropped, 0);
    }
}
