//! What the loops over the streams of a group have in common: which of them cannot go on, and the wait until one can.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use wirebeat_units::Nanos;

use super::{Shared, Stream};
use crate::socket::{now, wait};

/// A thread that nobody wakes looks around this often.
const LOOK_AROUND: Nanos = Nanos::from_secs(1);

/// Whether a stream can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// It can, as far as is known.
    Ready,
    /// Its socket has to become ready.
    Blocked,
    /// It is over.
    Ended,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all: others can go on.
    No,
    /// Until a socket is ready or the clock shows this.
    Until(Nanos),
    /// Until a socket is ready.
    ForSocket,
}

/// Waits for the sockets of lanes that are blocked, and for the waker; those that are ready can go on.
pub(super) fn wait_for_lanes<'s>(
    streams: &'s [Arc<Stream>],
    lanes: &mut [Lane],
    flags: PollFlags,
    (how, shared): (Wait, &'s Shared),
    fds: &mut Vec<PollFd<'s>>,
) -> io::Result<()> {
    fds.clear();
    let blocked = streams.iter().zip(lanes.iter()).filter(|(_, lane)| **lane == Lane::Blocked);
    fds.extend(blocked.map(|(stream, _)| PollFd::from_borrowed_fd(stream.carrier.as_fd(), flags)));
    if fds.is_empty() && how == Wait::No {
        return Ok(());
    }
    fds.push(PollFd::from_borrowed_fd(shared.waker.as_fd(), PollFlags::IN));
    let deadline = match how {
        Wait::No => Nanos::ZERO,
        Wait::Until(deadline) => deadline,
        Wait::ForSocket => now().saturating_add(LOOK_AROUND),
    };
    wait(fds, deadline)?;
    if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
        shared.waker.reset();
    }
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
    for lane in lanes.iter_mut().filter(|lane| **lane == Lane::Blocked) {
        if ready.next() == Some(true) {
            *lane = Lane::Ready;
        }
    }
    Ok(())
}
