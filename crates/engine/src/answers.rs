//! Answers to the last datagrams of flows, held back until the port is free to send, and no more than so many a second.
//!
//! A sender of iperf 2 repeats its last datagram until it is answered. An answer is no longer than what asked for it
//! ([`wirebeat_wire::codec::Codec::answer`]), so that nobody gains by asking in the name of somebody else; the limit keeps
//! a stranger who does so from using this host as a sender at all. Pure: the time is passed in.

use wirebeat_meter::codecs::Answer;
use wirebeat_units::Nanos;

/// Answers that may wait for the port: the last datagrams of so many flows in one batch. Who gets none asks again.
const WAITING: usize = 64;
/// Answers that may leave at once after a pause, such as those to the threads of one client.
const BURST: u32 = 256;
/// One more may leave after each of these.
const EVERY: Nanos = Nanos::from_millis(1);

/// The answers of a receiver.
#[derive(Debug)]
pub struct Answers {
    waiting: Vec<Answer>,
    /// How many may leave now, and since when that has been so.
    left: u32,
    since: Nanos,
}

impl Answers {
    /// None yet. All memory is taken here.
    pub fn new(now: Nanos) -> Answers {
        Answers { waiting: Vec::with_capacity(WAITING), left: BURST, since: now }
    }

    /// Takes one in, if there is room.
    pub fn push(&mut self, answer: Answer) {
        if self.waiting.len() < WAITING {
            self.waiting.push(answer);
        }
    }

    /// Gives those that may leave at `now` to `send`, and forgets the others.
    pub fn release(&mut self, now: Nanos, mut send: impl FnMut(&Answer)) {
        if self.waiting.is_empty() {
            return;
        }
        let more = now.saturating_sub(self.since).get() / EVERY.get();
        self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(BURST);
        self.since = self.since.saturating_add(Nanos::new(more * EVERY.get()));
        for answer in self.waiting.drain(..).take(self.left as usize) {
            self.left -= 1;
            send(&answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::codecs::{Codecs, Ends};
    use wirebeat_meter::meter::{Meter, MeterConfig};
    use wirebeat_wire::codec::{Codec, Facts};

    use super::*;

    /// As a meter gives it that saw a flow of two datagrams.
    fn answer() -> Answer {
        let codecs = Codecs { read: vec![Codec::Iperf2], ..Codecs::default() };
        let mut meter = Meter::new(MeterConfig { codecs, ..MeterConfig::default() });
        let ends = Ends {
            source: ([10, 0, 0, 1], 1000).into(),
            destination: ([10, 0, 0, 2], 5001).into(),
        };
        for number in [1, 2_u64.wrapping_neg()] {
            let mut payload = [0; 100];
            let facts = Facts { flow: 0, destination: ends.destination };
            Codec::Iperf2.blank(&facts, &mut payload).unwrap();
            Codec::Iperf2.marks().write(&mut payload, number, 0);
            meter.record_datagram(Nanos::ZERO, &payload, Some(ends), 146);
        }
        meter.take_answer().unwrap()
    }

    #[test]
    fn no_more_answers_leave_than_the_limit_allows_however_many_ask() {
        let mut answers = Answers::new(Nanos::ZERO);
        let mut sent = 0;
        // a second of 64,000 requests
        for ms in 0..1_000 {
            (0..100).for_each(|_| answers.push(answer()));
            answers.release(Nanos::from_millis(ms), |_| sent += 1);
        }
        assert_eq!(sent, u64::from(BURST) + 999);
    }

    #[test]
    fn those_to_the_threads_of_a_client_leave_at_once() {
        let mut answers = Answers::new(Nanos::ZERO);
        (0..64).for_each(|_| answers.push(answer()));
        let mut sent = 0;
        answers.release(Nanos::ZERO, |_| sent += 1);
        answers.release(Nanos::from_secs(1), |_| sent += 1);
        assert_eq!(sent, 64);
    }
}
