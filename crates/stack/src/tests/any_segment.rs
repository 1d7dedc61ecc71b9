//! No segment, however it was made, makes the stack panic, lose its counts, or answer more than it was asked.

use proptest::prelude::*;

use super::*;
use crate::options::tests::options;

/// What happens to the stack.
#[derive(Clone, Debug)]
enum Step {
    Segment {
        flags: u8,
        seq: (u8, u32),
        ack: (u8, u32),
        window: u16,
        len: u16,
        options: Options,
        damage: Option<(usize, u8)>,
    },
    Bytes(Vec<u8>),
    /// An ICMP error about a segment near what is outstanding.
    Icmp {
        kind: u8,
        code: u8,
        word: u32,
        seq: (u8, u32),
        len: u16,
        quoted: usize,
    },
    Send(u16),
    Close,
    Abort,
    Open,
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || (0..4_u8, any::<u32>());
    let damage = prop::option::weighted(0.1, (0..120_usize, any::<u8>()));
    let flags = prop_oneof![4 => Just(0x10_u8), 1 => Just(0x11), 1 => Just(0x02), 1 => Just(0x12), 1 => Just(0x04), 2 => any::<u8>()];
    let segment = (flags, number(), number(), any::<u16>(), 0..1200_u16, options(), damage)
        .prop_map(|(flags, seq, ack, window, len, options, damage)| Step::Segment {
            flags,
            seq,
            ack,
            window,
            len,
            options,
            damage,
        });
    let kind = prop_oneof![1 => Just(3_u8), 1 => Just(11), 1 => any::<u8>()];
    let code = prop_oneof![2 => Just(4_u8), 2 => 0..4_u8, 1 => any::<u8>()];
    let word = prop_oneof![2 => 0..2000_u32, 1 => any::<u32>()];
    let icmp = (kind, code, word, number(), 0..2000_u16, 0..80_usize).prop_map(
        |(kind, code, word, seq, len, quoted)| Step::Icmp { kind, code, word, seq, len, quoted },
    );
    prop_oneof![
        12 => segment,
        2 => icmp,
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Bytes),
        2 => any::<u16>().prop_map(Step::Send),
        1 => Just(Step::Close),
        1 => Just(Step::Abort),
        1 => Just(Step::Open),
        2 => (0..100_000_u32).prop_map(Step::Wait),
    ]
}

/// A number near what is expected, at an edge of the window, or anywhere.
fn near(base: Seq, (kind, offset): (u8, u32)) -> Seq {
    match kind {
        0 => base,
        1 => base.plus(offset % 2000).minus(1000),
        2 => base.plus(offset % 70_000),
        _ => Seq(offset),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_segments_in_any_order(
        all: bool,
        ranges in prop::sample::select(vec![0, 1, 64]),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let profile = if all {
            Profile { ecn: true, black_hole_detection: true, ..Profile::default() }
        } else {
            plain()
        };
        let mut play = Play::new(profile);
        play.stack = Stack::new(&Limits { ranges, ..Limits::for_sessions(2) }, vec![profile], [3, 4], play.now);
        let mut id = play.open();
        for step in steps {
            let sessions = &play.stack.sessions;
            let base = sessions.snapshot(id.0);
            let base = base.map_or((Seq(0), Seq(0)), |(tcb, _)| (tcb.rcv_nxt, tcb.snd_nxt));
            match step {
                Step::Segment { flags, seq, ack, window, len, options, damage } => {
                    let outgoing = Outgoing {
                        tuple: play.tuple.reversed(),
                        seq: near(base.0, seq),
                        ack: near(base.1, ack),
                        flags: Flags(flags),
                        window,
                        options,
                        payload_len: len,
                        tos: flags,
                        ttl: 64,
                        identification: 0,
                        dont_fragment: true,
                    };
                    let mut packet = vec![0; outgoing.packet_len()];
                    outgoing.write(&mut packet, |_| ());
                    if let Some((at, value)) = damage {
                        let at = at % packet.len();
                        packet[at] ^= value;
                    }
                    play.stack.receive(play.now, &packet, Checksum::Skip, &mut play.program);
                }
                Step::Icmp { kind, code, word, seq, len, quoted } => {
                    let outgoing = Outgoing {
                        tuple: play.tuple,
                        seq: near(base.1, seq),
                        ack: Seq(0),
                        flags: ACK,
                        window: 0,
                        options: Options::default(),
                        payload_len: len,
                        tos: 0,
                        ttl: 1,
                        identification: 0,
                        dont_fragment: true,
                    };
                    let mut packet = vec![0; outgoing.packet_len()];
                    outgoing.write(&mut packet, |_| ());
                    let message = crate::icmp::tests::error(&packet, kind, code, word, quoted);
                    play.stack.receive_icmp(play.now, &message, &mut play.program);
                }
                Step::Bytes(bytes) if bytes.len() % 2 == 1 => {
                    play.stack.receive_icmp(play.now, &bytes, &mut play.program);
                }
                Step::Bytes(bytes) => play.stack.receive(play.now, &bytes, Checksum::Skip, &mut play.program),
                Step::Send(bytes) => { let _ = play.stack.send(id, bytes.into()); }
                Step::Close => { let _ = play.stack.close(play.now, id, &mut play.program); }
                Step::Abort => { let _ = play.stack.abort(play.now, id, &mut play.program); }
                Step::Open => {
                    if play.stack.info(id).is_none() {
                        let open = Open { tuple: play.tuple, profile: 0, user: 7 };
                        if let Ok(opened) = play.stack.connect(play.now, &open) { id = opened; }
                    }
                }
                Step::Wait(ms) => play.wait(ms.into()),
            }
            let mut out = Packets::default();
            play.stack.transmit(play.now, &mut play.program, &mut out);
            let counters = play.stack.counters();
            prop_assert!(counters.segments_balance() && counters.sessions_balance(), "{:?}", counters);
            prop_assert!(counters.icmp_balances(), "{:?}", counters);
            // Bounded by the congestion window of what was offered, and an answer for each segment.
            prop_assert!(out.packets.len() < 2000);
            for packet in &out.packets {
                prop_assert!(Segment::read(packet, Checksum::Verify).is_ok());
            }
        }
        // Whatever happened, all of it ends.
        let ids: Vec<u32> = play.stack.sessions.iter().map(|(at, _)| at).collect();
        for id in ids {
            play.stack.abort(play.now, SessionId(id), &mut play.program).unwrap();
        }
        for _ in 0..1000 {
            play.wait(10_000_000);
            let mut out = Packets::default();
            play.stack.transmit(play.now, &mut play.program, &mut out);
        }
        prop_assert_eq!(play.stack.table_sizes(), (0, 0));
        prop_assert_eq!(play.stack.core.ranges.len(), 0);
    }
}
