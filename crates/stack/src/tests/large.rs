//! Packets with several segments, for the kernel or the card to cut.

use super::*;
use crate::api::Reason;
use crate::counters::Counters;
use crate::simulation::cutter::Packet;

/// Takes large packets, if asked to.
#[derive(Default)]
struct Queue {
    packets: Vec<Packet>,
    buffer: Vec<u8>,
    takes_large: bool,
}

impl Transmit for Queue {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        self.buffer = vec![0xee; len];
        Some(&mut self.buffer)
    }
    fn commit(&mut self) {
        self.packets.push(Packet { bytes: std::mem::take(&mut self.buffer), large: None });
    }
    fn takes_large(&self) -> bool {
        self.takes_large
    }
    fn commit_large(&mut self, segment_len: u16, header_len: u16) {
        self.commit();
        self.packets.last_mut().unwrap().large = Some((segment_len, header_len));
    }
}

fn gso(segments: u8) -> Profile {
    Profile { gso_segments: segments, sack: true, ..plain() }
}

/// An established session with SACK, and a peer with room for 60,000 bytes.
fn established(profile: Profile) -> (Play, SessionId) {
    let syn = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
    Play::established(profile, syn)
}

impl Play {
    fn queue(&mut self, takes_large: bool) -> Vec<Packet> {
        let mut out = Queue { takes_large, ..Queue::default() };
        assert!(self.stack.transmit(self.now, &mut self.program, &mut out));
        assert!(self.stack.counters().segments_balance());
        out.packets
    }

    /// What the stack sends now, as packets: where each begins, its data, its flags.
    fn packets(&mut self) -> Vec<Seg> {
        let packets = self.queue(true);
        let read = packets.iter().map(|packet| {
            let segment = Segment::read(&packet.bytes, Checksum::Skip).unwrap();
            let seq = segment.seq.since(self.iss.unwrap());
            seg(segment.flags, seq, segment.ack.since(self.irs), segment.payload.len())
        });
        read.collect()
    }
}

#[test]
fn one_packet_holds_as_much_as_the_congestion_window_lets_go() {
    let (mut play, id) = established(gso(255));
    play.stack.send(id, 100_000).unwrap();
    assert_eq!(play.packets(), [seg(PSH_ACK, 1, 1, 10_000)]);
    let segments = play.stack.counters().segments;
    assert_eq!((segments.new_data, segments.sent), (10, 12), "SYN, ACK, ten segments");
    // Two segments are acknowledged, which opens the window by one beside (RFC 5681 §3.1).
    play.peer(ACK, 1, 2001, 0);
    assert_eq!(play.packets(), [seg(PSH_ACK, 10_001, 1, 3000)]);
}

#[test]
fn a_packet_has_no_more_segments_than_the_profile_wants() {
    for (profile, expected) in [(gso(4), vec![4000, 4000, 2000]), (gso(1), vec![1000; 10])] {
        let (mut play, id) = established(profile);
        play.stack.send(id, 10_000).unwrap();
        let lens: Vec<usize> = play.packets().iter().map(|sent| sent.len).collect();
        assert_eq!(lens, expected);
    }
    // Nor than one for who takes no large ones.
    let (mut play, id) = established(gso(255));
    play.stack.send(id, 10_000).unwrap();
    assert_eq!(play.queue(false).len(), 10);
}

#[test]
fn a_packet_ends_where_the_window_of_the_peer_does() {
    let (mut play, id) = established(gso(255));
    play.window = 3500;
    play.peer(ACK, 1, 1, 0);
    play.stack.send(id, 100_000).unwrap();
    // The rest of the window is less than a segment (RFC 9293 §3.8.6.2.1).
    assert_eq!(play.packets(), [seg(PSH_ACK, 1, 1, 3000)]);
}

#[test]
fn the_small_rest_obeys_nagle_and_goes_along_where_nagle_does_not_hold_it() {
    for (nagle, closes, expected) in [
        (true, false, vec![seg(PSH_ACK, 1, 1, 5000)]),
        (true, true, vec![seg(Flags(0x19), 1, 1, 5300)]),
        (false, false, vec![seg(PSH_ACK, 1, 1, 5300)]),
        (false, true, vec![seg(Flags(0x19), 1, 1, 5300)]),
    ] {
        let (mut play, id) = established(Profile { nagle, ..gso(255) });
        play.stack.send(id, 5300).unwrap();
        if closes {
            play.stack.close(play.now, id, &mut play.program).unwrap();
        }
        assert_eq!(play.packets(), expected, "{nagle} {closes}");
        let segments = play.stack.counters().segments;
        assert_eq!((segments.new_data, segments.fin), (5 + u64::from(expected[0].len > 5000), 0));
        play.peer(ACK, 1, 5001, 0);
        if nagle && !closes {
            assert_eq!(play.packets(), [seg(PSH_ACK, 5001, 1, 300)]);
        }
    }
    // A FIN behind full segments is the last one's.
    let (mut play, id) = established(gso(255));
    play.stack.send(id, 5000).unwrap();
    play.stack.close(play.now, id, &mut play.program).unwrap();
    assert_eq!(play.packets(), [seg(Flags(0x19), 1, 1, 5000)]);
    assert_eq!(play.stack.counters().segments.new_data, 5);
}

#[test]
fn what_is_lost_is_sent_again_in_single_segments() {
    let (mut play, id) = established(gso(255));
    play.stack.send(id, 10_000).unwrap();
    play.packets();
    // The third and the sixth of ten are missing.
    play.sack = vec![(6001, 10_001), (3001, 5001)];
    play.peer(ACK, 1, 2001, 0);
    let mut sent = play.packets();
    play.sack = vec![(6001, 10_001)];
    play.peer(ACK, 1, 5001, 0);
    sent.extend(play.packets());
    sent.retain(|sent| sent.seq < 10_001);
    assert_eq!(sent, [seg(ACK, 2001, 1, 1000), seg(ACK, 5001, 1, 1000)]);
    assert_eq!(play.stack.counters().segments.retransmitted_fast, 2);
    // All of a large packet, after a timeout.
    let (mut play, id) = established(gso(255));
    play.stack.send(id, 10_000).unwrap();
    play.packets();
    play.wait(100_000);
    assert_eq!(play.packets(), [seg(ACK, 1, 1, 1000)]);
    play.peer(ACK, 1, 1001, 0);
    assert_eq!(play.packets(), [seg(ACK, 1001, 1, 1000), seg(ACK, 2001, 1, 1000)]);
}

#[test]
fn the_word_of_a_reduced_window_goes_with_one_segment() {
    let syn = Options { mss: Some(1000), ..Options::default() };
    let mut play = Play::new(Profile { ecn: true, ..gso(255) });
    let id = play.open();
    play.sent();
    play.options(SYN_ACK.with(Flags::ECE), 0, 1, syn);
    play.packets();
    play.stack.send(id, 50_000).unwrap();
    assert_eq!(play.packets().len(), 1);
    play.peer(ACK.with(Flags::ECE), 1, 1001, 0);
    assert_eq!(play.packets(), []);
    play.peer(ACK, 1, 10_001, 0);
    let sent = play.packets();
    assert_eq!((sent[0].flags, sent[0].len), (ACK.with(Flags::CWR), 1000), "RFC 3168 §6.1.2");
    assert!(sent.iter().skip(1).all(|sent| !sent.flags.has(Flags::CWR)), "{sent:?}");
}

#[test]
fn no_packet_is_longer_than_ip_has_it() {
    for six in [false, true] {
        let profile = Profile {
            mtu: 9000,
            congestion: Congestion::None,
            window_scaling: true,
            window: 1 << 20,
            timestamps: true,
            ..gso(255)
        };
        let mut play = Play::new(profile);
        if six {
            (play.tuple.local, play.tuple.remote) = ([0xfd; 16].into(), [0x20; 16].into());
        }
        let id = play.open();
        play.sent();
        let syn = Options {
            mss: Some(8940),
            window_shift: Some(7),
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..Options::default()
        };
        play.options(SYN_ACK, 0, 1, syn);
        play.timestamps = Some(2);
        play.peer(ACK, 1, 1, 0);
        play.sent();
        play.stack.send(id, 200_000).unwrap();
        let packets = play.queue(true);
        assert!(packets[0].bytes.len() > 60_000 && packets[0].bytes.len() <= 65_535);
        let sent: usize = packets.iter().map(|packet| packet.cut().len()).sum();
        assert_eq!(sent as u64, play.stack.counters().segments.new_data);
    }
}

/// Sends what answers what is sent, byte by byte.
#[derive(Default)]
struct Bulk {
    received: u64,
    closed: Option<Reason>,
    id: Option<SessionId>,
    peer_closed: bool,
}

impl Bulk {
    fn byte(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }
}

impl Application for Bulk {
    fn accept(&mut self, _: &Tuple) -> Accept {
        Accept::Session { profile: 0, user: 0 }
    }
    fn payload(&mut self, _: Session, offset: u64, into: &mut [u8]) {
        into.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = Bulk::byte(at));
    }
    fn received(&mut self, _: Session, received: Received<'_>) {
        let right =
            (received.offset..).zip(received.bytes).all(|(at, byte)| Bulk::byte(at) == *byte);
        assert!(right && received.offset == self.received);
        self.received = received.in_order;
    }
    fn event(&mut self, session: Session, event: Event) {
        self.id = Some(session.id);
        match event {
            Event::PeerClosed => self.peer_closed = true,
            Event::Closed(reason) => self.closed = Some(reason),
            _ => {}
        }
    }
}

/// Two stacks with something that cuts in between, or that hands over large packets as they are. Counters of who sends, packets that
/// it sent, acknowledgments that came back.
fn transfer(profile: Profile, six: bool, cuts: bool) -> (Counters, u64, u64) {
    const BYTES: u64 = 3_000_123;
    let limits = Limits::for_sessions(1);
    let mut now = Nanos::from_secs(1);
    let stack = |seed| Stack::new(&limits, vec![profile], [seed, 2], Nanos::from_secs(1));
    let mut ends = [(stack(1), Bulk::default()), (stack(2), Bulk::default())];
    let (local, remote): (IpAddr, IpAddr) = match six {
        false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
        true => ([0xfd; 16].into(), [0xfe; 16].into()),
    };
    let tuple = Tuple { local, remote, local_port: 1000, remote_port: 80 };
    let id = ends[0].0.connect(now, &Open { tuple, profile: 0, user: 0 }).unwrap();
    ends[0].0.send(id, BYTES).unwrap();
    let mut closed = false;
    let mut replies = Queue::default();
    let (mut packets, mut acks, mut pieces) = (0, 0, [0, 0]);
    for _ in 0..100_000 {
        now = now.saturating_add(Nanos::from_micros(200));
        for side in 0..2 {
            let (stack, program) = &mut ends[side];
            while !stack.expire(now, 64, program) {}
            if side == 0 && program.id.is_some() && !closed {
                closed = stack.close(now, id, program).is_ok();
            }
            if side == 1 && program.peer_closed && program.closed.is_none() {
                let _ = stack.close(now, program.id.unwrap(), program);
            }
            let mut out = Queue { takes_large: true, ..Queue::default() };
            stack.transmit(now, program, &mut out);
            if side == 1 {
                out.packets.splice(0..0, replies.packets.drain(..));
            }
            packets += if side == 0 { out.packets.len() as u64 } else { 0 };
            acks += if side == 1 { out.packets.len() as u64 } else { 0 };
            let (peer, peer_program) = &mut ends[1 - side];
            for packet in &out.packets {
                let cut = packet.cut();
                pieces[side] += cut.len() as u64;
                let sent = if cuts { cut } else { vec![packet.whole()] };
                for bytes in sent {
                    peer.receive(now, &bytes, Checksum::Verify, peer_program);
                    if side == 0 {
                        // Each packet is one that came by itself.
                        peer.transmit(now, peer_program, &mut replies);
                    }
                }
            }
        }
    }
    let [(a, program_a), (b, program_b)] = &ends;
    assert_eq!(program_b.received, BYTES);
    assert_eq!(
        (program_a.closed, program_b.closed),
        (Some(Reason::InOrder), Some(Reason::InOrder))
    );
    for ((stack, _), pieces) in ends.iter().zip(pieces) {
        let counters = stack.counters();
        assert!(counters.segments_balance() && counters.sessions_balance());
        assert_eq!(counters.segments.sent, pieces, "each segment is counted");
    }
    if cuts {
        assert_eq!(b.counters().arrivals.packets, a.counters().segments.sent);
    }
    (a.counters().clone(), packets, acks)
}

#[test]
fn the_same_bytes_arrive_in_large_packets_and_in_small_ones() {
    for six in [false, true] {
        let profile = |gso_segments| Profile { gso_segments, ..Profile::default() };
        let (single, single_packets, single_acks) = transfer(profile(0), six, true);
        let (cut, cut_packets, cut_acks) = transfer(profile(44), six, true);
        let (whole, whole_packets, whole_acks) = transfer(profile(44), six, false);
        assert_eq!(single.segments.new_data, cut.segments.new_data);
        assert_eq!(single.segments.new_data, whole.segments.new_data);
        assert_eq!((single.bytes, cut.bytes), (cut.bytes, whole.bytes));
        assert_eq!(single_packets, single.segments.sent);
        assert!(cut_packets * 10 < single_packets, "{cut_packets} {single_packets}");
        assert!(whole_packets * 5 < single_packets, "{whole_packets} {single_packets}");
        // One acknowledgment for two segments, or for each large packet.
        let segments = single.segments.new_data;
        for acks in [single_acks, cut_acks] {
            assert!((segments / 2..segments / 2 + 20).contains(&acks), "{acks} of {segments}");
        }
        assert!(whole_acks <= whole_packets + 20, "{whole_acks} of {whole_packets}");
    }
}
