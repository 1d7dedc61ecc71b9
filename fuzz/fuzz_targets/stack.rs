//! Packets of any bytes, and segments near what a session expects, to a TCP with a session that we opened and a listener.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_stack::options::Options;
use wirebeat_stack::segment::{Flags, Outgoing, Segment};
use wirebeat_stack::seq::Seq;
use wirebeat_stack::{
    Accept, Application, Checksum, Event, KeepAlive, Limits, Open, Profile, Received, Session,
    SessionId, Stack, Transmit, Tuple,
};
use wirebeat_units::Nanos;
use wirebeat_wire::checksum::checksum;

#[derive(Default)]
struct Program {
    sessions: Vec<SessionId>,
}

impl Application for Program {
    fn accept(&mut self, _: &Tuple) -> Accept {
        Accept::Session { profile: 0, user: 0 }
    }
    fn payload(&mut self, _: Session, _: u64, into: &mut [u8]) {
        into.fill(7);
    }
    fn received(&mut self, _: Session, received: Received<'_>) {
        assert!(!received.bytes.is_empty());
    }
    fn event(&mut self, session: Session, event: Event) {
        match event {
            Event::Established => self.sessions.push(session.id),
            Event::Closed(_) => self.sessions.retain(|id| *id != session.id),
            Event::Acknowledged { .. } | Event::PeerClosed => {}
        }
    }
}

/// The last packet, and how many there were.
#[derive(Default)]
struct Out {
    buffer: Vec<u8>,
    count: usize,
    /// What the peer would say next: behind what was acknowledged, and acknowledging all that was sent.
    next: (Seq, Seq),
}

impl Transmit for Out {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        self.buffer.resize(len, 0);
        Some(&mut self.buffer)
    }
    fn commit(&mut self) {
        let segment = Segment::read(&self.buffer, Checksum::Verify).expect("what is sent is right");
        self.count += 1;
        self.next = (segment.ack, segment.end());
    }
}

const TUPLE: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

fuzz_target!(|bytes: &[u8]| {
    let keep_alive =
        KeepAlive { idle: Nanos::from_secs(5), interval: Nanos::from_secs(1), count: 3 };
    let profile =
        Profile { ecn: true, keep_alive: Some(keep_alive), data_retries: 4, ..Profile::default() };
    let limits = Limits { ranges: 3, ..Limits::for_sessions(3) };
    let mut now = Nanos::from_secs(1);
    let (mut stack, mut program, mut out) =
        (Stack::new(&limits, vec![profile], [1, 2], now), Program::default(), Out::default());
    let tuple = Tuple {
        local: TUPLE[0].into(),
        remote: TUPLE[1].into(),
        local_port: 1000,
        remote_port: 80,
    };
    let _ = stack.connect(now, &Open { tuple, profile: 0, user: 0 });
    let mut rest = bytes;
    while let Some((&[kind, a, b, c, d, e], behind)) = rest.split_first_chunk::<6>() {
        let len = usize::from(kind >> 3) * 8;
        let (tail, behind) = behind.split_at(len.min(behind.len()));
        rest = behind;
        match kind & 7 {
            0 => stack.receive(now, tail, Checksum::Skip, &mut program),
            1 => {
                now = now.saturating_add(Nanos::from_millis(u64::from(a) * u64::from(b)));
                while !stack.expire(now, 64, &mut program) {}
            }
            2 => {
                for id in program.sessions.clone() {
                    let _ = stack.send(id, u64::from(a) * u64::from(b));
                    if c & 1 == 1 {
                        let _ = stack.close(now, id, &mut program);
                    }
                    if d & 0x8f == 0x8f {
                        let _ = stack.abort(now, id, &mut program);
                    }
                }
            }
            // An ICMP error about the last packet that was sent, or one near it.
            6 if !out.buffer.is_empty() => {
                let mut message = vec![a, b, 0, 0, 0, 0, c, d];
                message.extend(&out.buffer);
                if let Some(last) = message.get_mut(8 + 27) {
                    *last = last.wrapping_add(e >> 4);
                }
                message.truncate(8 + 20 + usize::from(e & 15) * 2);
                let sum = checksum(&message).to_be_bytes();
                message[2..4].copy_from_slice(&sum);
                let mut packet =
                    vec![0x45, 0, 0, 20 + message.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0];
                packet.extend(TUPLE[1].into_iter().chain(TUPLE[0]));
                packet.extend(message);
                stack.receive_icmp(now, &packet, &mut program);
            }
            port => {
                let signed = |byte: u8| i32::from(byte as i8) as u32;
                let from = if port == 7 { 1001 } else { 1000 };
                let outgoing = Outgoing {
                    tuple: Tuple {
                        local_port: 80,
                        remote_port: from,
                        local: tuple.remote,
                        remote: tuple.local,
                    },
                    seq: out.next.0.plus(signed(a).wrapping_mul(1 << (d & 7))),
                    ack: out.next.1.plus(signed(b)),
                    flags: Flags(c),
                    window: u16::from(d) << (e & 7),
                    options: Options::read(tail.get(..40).unwrap_or(tail)),
                    payload_len: u16::from(e) * 4,
                    tos: a,
                    ttl: 64,
                    identification: 0,
                    dont_fragment: true,
                };
                let mut packet = vec![0; outgoing.packet_len()];
                if outgoing.write(&mut packet, |_| ()) {
                    stack.receive(now, &packet, Checksum::Verify, &mut program);
                }
            }
        }
        out.count = 0;
        stack.transmit(now, &mut program, &mut out);
        assert!(out.count < 5000, "{} packets at once", out.count);
        let counters = stack.counters();
        assert!(counters.segments_balance() && counters.sessions_balance(), "{counters:?}");
        assert!(counters.icmp_balances(), "{counters:?}");
    }
});
