//! The loops of UDP: datagrams at exact times, and what is counted of those that come.

use std::io::{self, IoSlice};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, recv, send as send_to, sendmmsg,
};
use wirebeat_units::{BitRate, Nanos};

use super::lanes::{Lane, Wait, wait_for_lanes};
use super::tcp::payload;
use super::{Shared, Stream};
use crate::control::datagram::{Counter, Header};
use crate::pace::Pace;
use crate::socket::now;

/// Datagrams that are sent with one system call at most.
const BATCH: usize = 32;
/// Datagrams that a stream may receive before the next one's turn.
const TURN: usize = 64;
/// How long what is there already is received after the end.
const DRAIN: Nanos = Nanos::from_millis(200);
/// How long a sender waits when the device's queue has no room.
const NO_ROOM: Nanos = Nanos::from_micros(100);

/// How datagrams are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub block: usize,
    pub rate: Option<BitRate>,
    pub counter: Counter,
}

/// Sends until the group is stopped.
pub(super) fn send(streams: &[Arc<Stream>], plan: Plan, shared: &Shared) -> io::Result<()> {
    // best effort: without it, sleeps are 50 µs less exact (PR_SET_TIMERSLACK)
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let pace = Pace::new(plan.rate);
    let block = plan.block.max(plan.counter.header_len());
    let mut slots = payload(block * BATCH);
    let start = now();
    let mut lanes = vec![Lane::Ready; streams.len()];
    let mut packets = vec![0_u64; streams.len()];
    let mut total = 0_u64;
    let mut fds = Vec::new();
    while !shared.stopped() {
        let limit = shared.limit();
        let mut next_due = Nanos::MAX;
        let mut busy = false;
        for ((stream, lane), packets) in streams.iter().zip(&mut lanes).zip(&mut packets) {
            if *lane != Lane::Ready {
                continue;
            }
            let sent = packets.saturating_mul(block as u64);
            let due = match pace {
                None => BATCH,
                Some(pace) => {
                    let elapsed = now().saturating_sub(start).get();
                    pace.blocks_due(elapsed, sent, block as u64, BATCH)
                }
            };
            let allowed = limit.saturating_sub(total).div_ceil(block as u64);
            let count = due.min(usize::try_from(allowed).unwrap_or(usize::MAX));
            if let (0, Some(pace)) = (due, pace) {
                next_due = next_due.min(start.saturating_add(Nanos::new(pace.due_ns(sent))));
                continue;
            }
            if count == 0 {
                shared.exhaust();
                continue;
            }
            for (slot, sequence) in slots.chunks_exact_mut(block).take(count).zip(*packets + 1..) {
                Header { sent: now(), sequence }.write(slot, plan.counter);
            }
            match send_slots(stream, &slots, block, count) {
                Ok(done) => {
                    *packets += done as u64;
                    total = total.saturating_add((done * block) as u64);
                    stream.tally.add_packets(done);
                    stream.tally.add_bytes(done * block);
                    busy = true;
                }
                Err(Errno::AGAIN) => *lane = Lane::Blocked,
                // the device's queue is full, or the peer's port was not open: neither ends a stream
                Err(Errno::NOBUFS | Errno::CONNREFUSED) => {
                    next_due = next_due.min(now().saturating_add(NO_ROOM));
                }
                Err(Errno::INTR) => busy = true,
                Err(error) => {
                    *lane = Lane::Ended;
                    shared.broke(error);
                }
            }
        }
        let how = match (busy, next_due) {
            (true, _) => Wait::No,
            (false, Nanos::MAX) => Wait::ForSocket,
            (false, due) => Wait::Until(due),
        };
        wait_for_lanes(streams, &mut lanes, PollFlags::OUT, (how, shared), &mut fds)?;
    }
    Ok(())
}

/// Sends the first `count` slots: how many the kernel took.
fn send_slots(stream: &Stream, slots: &[u8], block: usize, count: usize) -> Result<usize, Errno> {
    if count == 1 {
        let slot = slots.get(..block).unwrap_or_default();
        return send_to(&stream.carrier, slot, SendFlags::NOSIGNAL).map(|_| 1);
    }
    let parts: Vec<[IoSlice<'_>; 1]> =
        slots.chunks_exact(block).take(count).map(|slot| [IoSlice::new(slot)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        std::iter::repeat_with(SendAncillaryBuffer::default).take(parts.len()).collect();
    let mut messages: Vec<MMsgHdr<'_>> = parts
        .iter()
        .zip(&mut controls)
        .map(|(part, control)| MMsgHdr::new(part, control))
        .collect();
    sendmmsg(&stream.carrier, &mut messages, SendFlags::NOSIGNAL)
}

/// What is known of the datagrams of one stream that came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    highest: u64,
    lost: u64,
    out_of_order: u64,
    transit_ns: Option<i64>,
    jitter_ns: f64,
}

impl Arrivals {
    /// Counts one, as iperf3 does: a gap is lost, and what comes after one with a higher number takes one loss back. A duplicate is
    /// taken for out of order.
    pub fn count(&mut self, header: Header, arrived: Nanos, counter: Counter) {
        let sequence = match counter {
            Counter::Bits64 => header.sequence,
            // the nearest number to the last one with these low bits
            Counter::Bits32 => {
                let step = (header.sequence as u32).wrapping_sub(self.highest as u32);
                self.highest.saturating_add_signed(i64::from(step.cast_signed()))
            }
        };
        if sequence > self.highest {
            self.lost = self.lost.saturating_add(sequence - self.highest - 1);
            self.highest = sequence;
        } else {
            self.out_of_order += 1;
            self.lost = self.lost.saturating_sub(1);
        }
        // RFC 1889 §6.3.1: the clocks' difference falls out
        let transit = arrived.signed_sub(header.sent);
        if let Some(last) = self.transit_ns.replace(transit) {
            let change = transit.saturating_sub(last).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
        }
    }
}

/// Receives until the group is stopped, or drained.
pub(super) fn receive(
    streams: &[Arc<Stream>],
    block: usize,
    counter: Counter,
    shared: &Shared,
) -> io::Result<()> {
    // one byte more shows a datagram that is longer than agreed on
    let mut buffer = vec![0; block.max(counter.header_len()) + 1];
    let mut lanes = vec![Lane::Ready; streams.len()];
    let mut arrivals = vec![Arrivals::default(); streams.len()];
    let mut fds = Vec::new();
    let mut last = None;
    while !shared.stopped() {
        let draining = shared.draining();
        if draining {
            let deadline = *last.get_or_insert_with(|| now().saturating_add(DRAIN));
            if now() >= deadline {
                break;
            }
            lanes.iter_mut().filter(|lane| **lane == Lane::Blocked).for_each(|l| *l = Lane::Ready);
        }
        for ((stream, lane), arrivals) in streams.iter().zip(&mut lanes).zip(&mut arrivals) {
            if *lane != Lane::Ready {
                continue;
            }
            for _ in 0..TURN {
                match recv(&stream.carrier, &mut buffer[..], RecvFlags::empty()) {
                    Ok((count, _)) => {
                        // shorter ones, as a hello that was repeated, are none of the stream's
                        let datagram = buffer.get(..count).unwrap_or_default();
                        let Some(header) = Header::read(datagram, counter) else { continue };
                        if stream.tally.jitter_is_to_be_forgotten() {
                            arrivals.jitter_ns = 0.0;
                        }
                        arrivals.count(header, now(), counter);
                        stream.tally.add_bytes(count);
                        let Arrivals { highest, lost, out_of_order, jitter_ns, .. } = *arrivals;
                        stream.tally.set_received(highest, lost, out_of_order, jitter_ns);
                    }
                    Err(Errno::AGAIN) => {
                        *lane = Lane::Blocked;
                        break;
                    }
                    Err(Errno::INTR | Errno::CONNREFUSED) => {}
                    Err(error) => {
                        *lane = Lane::Ended;
                        shared.broke(error);
                        break;
                    }
                }
            }
        }
        let ready = lanes.contains(&Lane::Ready);
        if draining && !ready {
            break;
        }
        let how = if ready { Wait::No } else { Wait::ForSocket };
        wait_for_lanes(streams, &mut lanes, PollFlags::IN, (how, shared), &mut fds)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(sequences: &[u64], counter: Counter) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for &sequence in sequences {
            let sent = Nanos::from_millis(sequence);
            arrivals.count(Header { sent, sequence }, Nanos::from_millis(sequence + 7), counter);
        }
        arrivals
    }

    #[test]
    fn gaps_are_lost_until_they_are_filled() {
        let arrivals = count(&[1, 2, 5, 4, 6], Counter::Bits32);
        assert_eq!((arrivals.highest, arrivals.lost, arrivals.out_of_order), (6, 1, 1));
        assert_eq!(arrivals.jitter_ns, 0.0);
        let first_lost = count(&[3], Counter::Bits64);
        assert_eq!((first_lost.highest, first_lost.lost), (3, 2));
    }

    #[test]
    fn numbers_of_32_bits_go_on_after_the_last_one() {
        let mut arrivals = Arrivals { highest: u64::from(u32::MAX) - 1, ..Arrivals::default() };
        for sequence in [u32::MAX.into(), 0, 2] {
            arrivals.count(Header { sent: Nanos::ZERO, sequence }, Nanos::ZERO, Counter::Bits32);
        }
        assert_eq!((arrivals.highest, arrivals.lost), ((1 << 32) + 2, 1));
    }

    #[test]
    fn jitter_is_that_of_rfc_1889() {
        let mut arrivals = Arrivals::default();
        for (sent, arrived) in [(0, 100), (20, 136), (40, 140)] {
            let header = Header { sent: Nanos::new(sent), sequence: 1 };
            arrivals.count(header, Nanos::new(arrived), Counter::Bits64);
        }
        // differences of 16 and 16: 1, then 1 + 15/16
        assert_eq!(arrivals.jitter_ns, 1.9375);
    }

    #[test]
    fn any_numbers_are_counted() {
        for numbers in [[0, u64::MAX, 0], [u64::MAX, 1, u64::MAX], [1 << 31, 1 << 32, 0]] {
            count(&numbers.map(|n| n.min(u64::MAX / 2_000_000)), Counter::Bits64);
            let mut arrivals = Arrivals::default();
            for sequence in numbers {
                arrivals.count(Header { sent: Nanos::MAX, sequence }, Nanos::ZERO, Counter::Bits64);
                arrivals.count(Header { sent: Nanos::ZERO, sequence }, Nanos::MAX, Counter::Bits32);
            }
        }
    }
}
