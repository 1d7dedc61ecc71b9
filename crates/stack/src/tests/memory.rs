//! What sessions take in memory while they wait, and while something is under way.

use super::*;

/// Keeps nothing of what it gets, and answers nothing.
#[derive(Default)]
struct Count {
    ids: Vec<SessionId>,
    bytes: u64,
}

impl Application for Count {
    fn accept(&mut self, _: &Tuple) -> Accept {
        Accept::Session { profile: 0, user: 0 }
    }
    fn payload(&mut self, _: Session, _: u64, into: &mut [u8]) {
        into.fill(b'x');
    }
    fn received(&mut self, _: Session, received: Received<'_>) {
        self.bytes += received.bytes.len() as u64;
    }
    fn event(&mut self, session: Session, event: Event) {
        if event == Event::Established {
            self.ids.push(session.id);
        }
    }
}

/// Two stacks, back to back.
struct Pair {
    ends: [(Stack, Count); 2],
    now: Nanos,
}

impl Pair {
    /// With as many sessions open as they have room for.
    fn open(sessions: usize) -> Pair {
        let limits = Limits { addresses: 0, ..Limits::for_sessions(sessions) };
        let now = Nanos::from_secs(1);
        let end = |seed| {
            (Stack::new(&limits, vec![Profile::default()], [seed, 2], now), Count::default())
        };
        let mut pair = Pair { ends: [end(0), end(1)], now };
        for number in 0..sessions as u32 {
            let tuple = Tuple {
                local: std::net::Ipv4Addr::from_bits(0x0a00_0000 + number / 50_000).into(),
                remote: [10, 9, 0, 1].into(),
                local_port: (number % 50_000) as u16 + 1024,
                remote_port: 80,
            };
            let open = Open { tuple, profile: 0, user: 0 };
            pair.ends[0].0.connect(now, &open).unwrap();
            if number % 64 == 63 || number as usize == sessions - 1 {
                pair.run();
            }
        }
        assert!(pair.ends.iter().all(|(_, program)| program.ids.len() == sessions));
        pair
    }

    /// Sends from one to the other until nothing is under way but timers.
    fn run(&mut self) {
        while self.ends[0].0.has_output() || self.ends[1].0.has_output() {
            self.turn(0);
            self.turn(1);
        }
    }

    /// Sends what `from` has to send to the other.
    fn turn(&mut self, from: usize) {
        let (stack, program) = &mut self.ends[from];
        let mut out = Packets::default();
        stack.transmit(self.now, program, &mut out);
        let (stack, program) = &mut self.ends[1 - from];
        for packet in out.packets {
            stack.receive(self.now, &packet, Checksum::Verify, program);
        }
    }

    /// Nobody sends for so long.
    fn wait(&mut self, time: Nanos) {
        let until = self.now.saturating_add(time);
        while self.now < until {
            self.now = self.now.saturating_add(Nanos::from_millis(1));
            for (stack, program) in &mut self.ends {
                while !stack.expire(self.now, 1000, program) {}
            }
            self.run();
        }
    }

    /// One byte of each session goes from one end to the other, and an answer of as many comes back.
    fn exchange(&mut self) {
        for from in 0..2 {
            for at in 0..self.ends[from].1.ids.len() {
                let id = self.ends[from].1.ids[at];
                self.ends[from].0.send(id, 1).unwrap();
                if at % 64 == 63 {
                    self.run();
                }
            }
            self.run();
        }
    }

    fn active(&self) -> [usize; 2] {
        self.ends.each_ref().map(|(stack, _)| stack.sessions.active_len())
    }
}

/// The goal of all this: a session that waits takes two cache lines of the stack.
#[test]
fn sessions_that_wait_take_128_bytes_each() {
    const SESSIONS: usize = 100_000;
    let mut pair = Pair::open(SESSIONS);
    for _ in 0..2 {
        pair.exchange();
        pair.wait(Nanos::from_millis(500));
        assert_eq!(pair.active(), [0, 0]);
    }
    for (stack, program) in &pair.ends {
        assert_eq!(program.bytes, 2 * SESSIONS as u64);
        let touched = stack.sessions.touched();
        // A handful were active at a time, when they were opened.
        assert!(touched < 128 * SESSIONS + (1 << 16), "{touched}");
        // The wheel had none of them.
        assert!((0..SESSIONS as u32).all(|node| stack.core.wheel.armed(node).is_none()));
    }
}

#[test]
fn all_sessions_may_have_something_under_way_at_a_time() {
    const SESSIONS: usize = 1000;
    let mut pair = Pair::open(SESSIONS);
    for _ in 0..3 {
        // More than half of a congestion window, and nothing arrives.
        let (stack, program) = &mut pair.ends[0];
        for &id in &program.ids {
            stack.send(id, 12_000).unwrap();
        }
        let mut out = Packets::default();
        stack.transmit(pair.now, program, &mut out);
        assert!(out.packets.len() > SESSIONS);
        assert_eq!(stack.sessions.active_len(), SESSIONS);
        // It is sent again, and arrives then.
        pair.wait(Nanos::from_secs(20));
        assert_eq!(pair.active(), [0, 0]);
    }
    assert_eq!(pair.ends[1].1.bytes, 3 * 12_000 * SESSIONS as u64);
    assert_eq!(pair.ends[0].0.sessions.touched(), (128 + 64) * SESSIONS);
}

/// What a session has learnt of congestion is there when it goes on.
#[test]
fn a_session_that_lost_something_waits_in_128_bytes_too() {
    let syn = Options { mss: Some(1000), ..Options::default() };
    let (mut play, id) = Play::established(plain(), syn);
    play.stack.send(id, 1000).unwrap();
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 1000)]);
    assert!(play.stack.sessions.rests(id.0));
    play.wait(10_000);
    assert_eq!(play.sent(), [seg(PSH_ACK, 1, 1, 1000)]);
    play.peer(ACK, 1, 1001, 0);
    let active = play.info(id);
    assert!(!play.stack.sessions.rests(id.0) && active.ssthresh < 10_000);
    assert_eq!(play.sent(), []);
    assert!(play.stack.sessions.rests(id.0));
    assert_eq!(play.info(id), active);
    play.stack.send(id, 10).unwrap();
    let offered = play.info(id).offered;
    assert_eq!(play.info(id), Info { offered, ..active });
    assert_eq!(play.sent(), [seg(PSH_ACK, 1001, 1, 10)]);
    assert_eq!(play.info(id).ssthresh, active.ssthresh);
}

#[test]
fn more_than_four_gigabytes_may_be_offered() {
    let (mut play, id) = Play::established(plain(), Options::default());
    let (mut offered, most) = (0, u64::from(u32::MAX));
    for bytes in [1000, most, 3 * most, 7] {
        play.stack.send(id, bytes).unwrap();
        offered += bytes;
        assert_eq!(play.stack.offered(id), offered);
    }
    let mut acked = 0;
    for _ in 0..20 {
        let sent: usize = play.sent().iter().map(|sent| sent.len).sum();
        assert!(sent > 0);
        acked += sent as u32;
        play.peer(ACK, 1, 1 + acked, 0);
        let info = play.info(id);
        assert_eq!((info.offered, info.acked), (offered, u64::from(acked)));
    }
}
