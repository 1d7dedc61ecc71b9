//! A peer whose window moves against RFC 9293 §3.8.6: its right edge goes back, or it closes a window that was large and never opens
//! it again. What is sent stays within the largest edge that was ever announced, is bounded in number, and the session survives or
//! ends as timed out.

use wirebeat_units::Nanos;

use super::*;
use crate::api::Reason;
use crate::tcb::State;

/// A session to a peer that takes segments of 1000 bytes and has announced `window`.
fn open(profile: Profile, window: u16) -> (Play, SessionId) {
    let (mut play, id) =
        Play::established(profile, Options { mss: Some(1000), ..Options::default() });
    play.window = window;
    play.peer(ACK, 1, 1, 1);
    play.sent();
    (play, id)
}

/// The last byte that a segment has, of those before it in the stream.
fn end(sent: &Seg) -> u32 {
    sent.seq + sent.len as u32
}

#[test]
fn a_window_whose_right_edge_moves_left_holds_new_data_back_and_old_data_goes_again() {
    let (mut play, id) = open(plain(), 4000);
    play.stack.send(id, 10_000).unwrap();
    let first = play.sent();
    assert_eq!((first.len(), end(&first[3])), (4, 4001), "{first:?}");
    // the edge was at 4001 and is at 1501 now
    play.window = 500;
    play.peer(ACK, 2, 1001, 0);
    assert_eq!(play.sent(), [], "no new data, though 3000 bytes less are outstanding");
    // RFC 9293 §3.8.6: retransmit normally what is outstanding
    play.wait(10_000);
    assert_eq!(play.sent(), [seg(ACK, 1001, 2, 1000)]);
    // of which the peer takes what it has room for, and its edge stays behind what was sent
    play.peer(ACK, 2, 1501, 0);
    let sent = play.sent();
    assert!(sent.iter().all(|one| end(one) <= 4001), "{sent:?}");
    // back where it was: not one byte more
    play.window = 2500;
    play.peer(ACK, 2, 1501, 0);
    let sent = play.sent();
    assert!(sent.iter().all(|one| end(one) <= 4001), "{sent:?}");
    // all of the rest, once the window allows it
    let mut acked = 1501;
    for _ in 0..100 {
        play.window = 4000;
        play.peer(ACK, 2, acked, 0);
        play.wait(5_000);
        let sent = play.sent();
        assert!(sent.iter().all(|one| end(one) <= acked + 4000), "{acked}: {sent:?}");
        // the peer kept nothing that it had no room for
        if let Some(next) = sent.iter().find(|one| one.seq <= acked && end(one) > acked) {
            acked = end(next);
        }
    }
    assert_eq!((acked, play.info(id).acked), (10_001, 10_000));
    assert_eq!(play.info(id).state, State::Established);
}

/// Any windows, in any order, with the edge at any place: what was never allowed is never sent, and what was comes through in the end.
#[test]
fn no_sequence_of_windows_has_more_sent_than_the_largest_edge_allowed() {
    let mut seed = 7_u32;
    let mut random = move |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    for round in 0..50 {
        let profile = Profile { sack: round % 2 == 0, ..plain() };
        let syn = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
        let (mut play, id) = Play::established(profile, syn);
        play.window = 8000;
        play.peer(ACK, 1, 1, 1);
        play.sent();
        play.stack.send(id, 50_000).unwrap();
        let (mut acked, mut edge, mut highest, mut segments) = (1_u32, 8001_u32, 1_u32, 0_usize);
        let steps = 400;
        for step in 0..steps {
            let sent = play.sent();
            segments += sent.len();
            for one in &sent {
                assert!(end(one) <= edge, "{one:?} beyond {edge}");
                highest = highest.max(end(one));
            }
            // any part of what came, and any window: none, a few bytes, or a large one
            if step >= steps - 200 {
                acked = highest;
                play.window = 8000;
            } else {
                acked += random(highest - acked + 1);
                play.window = [0, 1, 7, 500, 999, 8000][random(6) as usize];
            }
            edge = edge.max(acked + u32::from(play.window));
            play.peer(ACK, 2, acked, 0);
            if random(3) == 0 {
                play.wait(100 + u64::from(random(5000)));
            }
        }
        assert_eq!(acked, 50_001, "round {round}: {:?}", play.info(id));
        assert!(segments < 2 * steps, "{segments} segments in {steps} steps");
        play.stack.close(play.now, id, &mut play.program).unwrap();
        assert_eq!(play.sent(), [seg(FIN_ACK, 50_001, 2, 0)]);
    }
}

/// Probes of an hour, each answered as `answers` says; how many segments left.
fn an_hour(play: &mut Play, answers: bool, acked: u32) -> usize {
    let until = play.now.saturating_add(Nanos::from_secs(3600));
    let mut segments = 0;
    while play.now < until && play.stack.open_sessions() > 0 {
        play.wait(1_000);
        let sent = play.sent();
        segments += sent.len();
        if answers && !sent.is_empty() {
            play.peer(ACK, 2, acked, 0);
            segments += play.sent().len();
        }
    }
    segments
}

/// Of a large window that was used up, the peer acknowledges a part, closes it, and never opens it again.
fn closes(profile: Profile) -> (Play, SessionId) {
    let (mut play, id) = open(profile, 60_000);
    play.stack.send(id, 100_000).unwrap();
    assert_eq!(play.sent().len(), 10, "the initial window");
    play.window = 0;
    play.peer(ACK, 2, 2001, 0);
    assert_eq!(play.sent(), []);
    (play, id)
}

#[test]
fn a_large_window_that_closes_over_what_is_outstanding_is_probed_seldom_and_for_ever() {
    // RFC 9293 §3.8.6.1: as long as the peer answers, the session stays
    let (mut play, id) = closes(plain());
    let segments = an_hour(&mut play, true, 2001);
    // each minute at last, and a few more while the timeout grows
    assert!((60..90).contains(&segments), "{segments}");
    assert_eq!(play.info(id).state, State::Established);
    assert_eq!(play.program.events, [Event::Acknowledged { offset: 2000 }], "and not a byte more");
}

#[test]
fn a_large_window_that_closes_in_silence_ends_the_session() {
    let (mut play, _) = closes(plain());
    let segments = an_hour(&mut play, false, 2001);
    assert!(segments <= usize::from(plain().data_retries), "{segments}");
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::TimedOut)));
    assert_eq!(play.stack.counters().sessions.timed_out, 1);
}

#[test]
fn a_large_window_that_closes_ends_the_session_after_the_user_timeout_though_the_peer_answers() {
    let profile = Profile { user_timeout: Nanos::from_secs(30), ..plain() };
    let (mut play, _) = closes(profile);
    let begun = play.now;
    let segments = an_hour(&mut play, true, 2001);
    let lasted = play.now.saturating_sub(begun);
    assert_eq!(play.program.events.last(), Some(&Event::Closed(Reason::TimedOut)));
    assert!((Nanos::from_secs(29)..Nanos::from_secs(32)).contains(&lasted), "{lasted:?}");
    assert!(segments < 20, "{segments}");
}
