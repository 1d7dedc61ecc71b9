//! The loops of TCP: write blocks, read blocks, count bytes.

use std::io;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send as send_to};
use wirebeat_units::{BitRate, Nanos};

use super::lanes::{Lane, Wait, wait_for_lanes};
use super::{Shared, Stream};
use crate::pace::Pace;
use crate::socket::now;

/// Blocks that a stream may move before the next one's turn.
const TURN: usize = 8;
/// How long what is there already is received after the end.
const DRAIN: Nanos = Nanos::from_millis(200);

/// Bytes that no link compresses (xorshift64 of Marsaglia, 2003).
pub(super) fn payload(len: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_ne_bytes()
    });
    words.flatten().take(len).collect()
}

/// How blocks are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub block: usize,
    pub rate: Option<BitRate>,
    pub each: u64,
}

/// Sends until the group is stopped.
pub(super) fn send(streams: &[Arc<Stream>], plan: Plan, shared: &Shared) -> io::Result<()> {
    let Plan { block, rate, each } = plan;
    let payload = payload(block);
    let pace = Pace::new(rate);
    let start = now();
    let mut lanes = vec![Lane::Ready; streams.len()];
    // a header counts
    let mut sent: Vec<u64> = streams.iter().map(|stream| stream.tally.counts().bytes).collect();
    // what is left of the block that each stream is in
    let mut rest = vec![0_usize; streams.len()];
    let mut total = 0_u64;
    let mut complete = 0;
    let mut fds = Vec::new();
    while !shared.stopped() {
        let limit = shared.limit();
        let mut next_due = Nanos::MAX;
        let mut busy = false;
        let elapsed = pace.map(|_| now().saturating_sub(start).get());
        let all = streams.iter().zip(&mut lanes).zip(sent.iter_mut().zip(&mut rest));
        for ((stream, lane), (sent, rest)) in all {
            if *lane != Lane::Ready {
                continue;
            }
            for _ in 0..TURN {
                let left = each.saturating_sub(*sent);
                if left == 0 {
                    *lane = Lane::Ended;
                    stream.finish();
                    complete += 1;
                    break;
                }
                if let (0, Some(pace), Some(elapsed)) = (*rest, pace, elapsed)
                    && pace.due_ns(*sent) > elapsed
                {
                    next_due = next_due.min(start.saturating_add(Nanos::new(pace.due_ns(*sent))));
                    break;
                }
                if *rest == 0 {
                    *rest = block;
                }
                let allowed =
                    usize::try_from(limit.saturating_sub(total).min(left)).unwrap_or(usize::MAX);
                let Some(bytes) = payload.get(..(*rest).min(allowed)).filter(|b| !b.is_empty())
                else {
                    shared.exhaust();
                    break;
                };
                match send_to(&stream.carrier, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => {
                        stream.tally.add_bytes(count);
                        *sent += count as u64;
                        total += count as u64;
                        *rest -= count.min(*rest);
                        busy = true;
                        if count < bytes.len() {
                            *lane = Lane::Blocked;
                            break;
                        }
                    }
                    Err(Errno::AGAIN) => {
                        *lane = Lane::Blocked;
                        break;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => {
                        *lane = Lane::Ended;
                        shared.broke(error);
                        break;
                    }
                }
            }
        }
        if complete == lanes.len() {
            shared.exhaust();
        }
        let how = match (busy && lanes.contains(&Lane::Ready), next_due) {
            (true, _) => Wait::No,
            (false, Nanos::MAX) => Wait::ForSocket,
            (false, due) => Wait::Until(due),
        };
        wait_for_lanes(streams, &mut lanes, PollFlags::OUT, (how, shared), &mut fds)?;
    }
    Ok(())
}

/// Receives until the group is stopped, or drained.
pub(super) fn receive(streams: &[Arc<Stream>], block: usize, shared: &Shared) -> io::Result<()> {
    let mut buffer = vec![0; block];
    let mut lanes = vec![Lane::Ready; streams.len()];
    let mut fds = Vec::new();
    let mut last = None;
    while !shared.stopped() {
        let draining = shared.draining();
        if draining {
            let deadline = *last.get_or_insert_with(|| now().saturating_add(DRAIN));
            if now() >= deadline {
                break;
            }
            // what came since they were blocked counts
            lanes.iter_mut().filter(|lane| **lane == Lane::Blocked).for_each(|l| *l = Lane::Ready);
        }
        for (stream, lane) in streams.iter().zip(&mut lanes) {
            if *lane != Lane::Ready {
                continue;
            }
            for _ in 0..TURN {
                match recv(&stream.carrier, &mut buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) => {
                        *lane = Lane::Ended;
                        break;
                    }
                    Ok((count, _)) => stream.tally.add_bytes(count),
                    Err(Errno::AGAIN) => {
                        *lane = Lane::Blocked;
                        break;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => {
                        *lane = Lane::Ended;
                        shared.broke(error);
                        break;
                    }
                }
            }
        }
        if lanes.iter().all(|lane| *lane == Lane::Ended) {
            shared.exhaust();
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
