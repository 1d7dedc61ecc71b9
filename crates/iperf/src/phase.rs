//! One part of a test of iperf 2: some streams, until those that are sent have their amount and those that are received have ended.
//!
//! iperf 2 has no signalling beside the data: a sender ends a stream by closing its half, and the receiver by closing the other.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirebeat_units::{Bytes, Nanos};

use crate::control::datagram::Counter;
use crate::data::{Group, Notice, Stream, Work};
use crate::idle::Idle;
use crate::measurement::{Measured, Measurement};
use crate::result::{End, Role, end_of};
use crate::socket::{now, wait};
use crate::{Error, Event, Stop, TestResult, TestSpec};

/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(100);
/// How long a peer may take to end the streams that it sends, longer than it was asked to.
const GRACE: Nanos = Nanos::from_secs(10);
/// How long is sent to a peer beyond the streams that it sends itself, where both send for one time: a host that has left needs nothing.
const LEFT: Nanos = Nanos::from_secs(2);
/// How long a peer may take to close a stream that has ended.
const CLOSE: Nanos = Nanos::from_secs(2);

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Phase<'a> {
    pub role: Role,
    /// This end, and the peer.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub streams: Vec<Arc<Stream>>,
    pub spec: &'a TestSpec,
    pub block: usize,
    /// Bytes of each stream that is sent.
    pub each: u64,
    /// How long is sent at most.
    pub time: Option<Nanos>,
    /// Whether the peer sends as long as this end does: what it sends shows whether it is there.
    pub together: bool,
    /// How long all of it may take, where the peer does not end it.
    pub longest: Nanos,
    pub idle: Nanos,
}

/// Waits for one of some files to become readable until a time, and does meanwhile whatever else there is to do.
pub(crate) type WaitFor<'a> = &'a mut dyn FnMut(&[BorrowedFd<'_>], Nanos) -> Result<(), Error>;

impl Phase<'_> {
    /// Does it.
    pub fn run(
        &self,
        stop: &Stop,
        wait_for: WaitFor<'_>,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<TestResult, Error> {
        let notice = Notice::new().map_err(Error::socket("make an event file"))?;
        let of = |sending| {
            let streams = self.streams.iter().filter(move |stream| stream.sending == sending);
            streams.cloned().collect::<Vec<_>>()
        };
        let start = |streams: Vec<Arc<Stream>>, work| match streams.is_empty() {
            true => Ok(None),
            false => Group::start(streams, work, &notice).map(Some),
        };
        let mut measurement = Measurement::begin(&self.streams, self.spec, now());
        let (block, counter, rate) = (self.block, Counter::Bits32, self.spec.rate);
        let receivers = start(of(false), Work::Receive { block, counter })?;
        let send = Work::Send { block, rate, counter, limit: u64::MAX, each: self.each };
        let mut senders = start(of(true), send)?;
        let begun = now();
        let mut sending_ended = None;
        let mut peer_ended = None;
        let mut idle = Idle::new(self.idle, self.spec, block);
        let mut until_the_end = || loop {
            let time = now();
            measurement.turn(time, events);
            let sent = match &mut senders {
                None => true,
                Some(senders) => {
                    let enough = self.time.is_some_and(|lasts| time >= begun.saturating_add(lasts));
                    if enough && sending_ended.is_none() {
                        senders.stop();
                        self.finish();
                    }
                    enough || senders.exhausted()
                }
            };
            let received = receivers.as_ref().is_none_or(Group::exhausted);
            let left = match (received && self.together).then(|| *peer_ended.get_or_insert(time)) {
                Some(ended) => !sent && time >= ended.saturating_add(LEFT),
                None => false,
            };
            if left {
                let waited = time.saturating_sub(begun);
                return Err(Error::Silent {
                    waiting_for: "the peer, whose streams have ended",
                    waited,
                });
            }
            if sent && received {
                break Ok(End::Completed);
            }
            if let Some(source) = notice.take_broken() {
                return Err(Error::Socket { what: "use a stream", source });
            }
            if stop.asked() {
                break Ok(End::Stopped);
            }
            let over = match sent.then(|| *sending_ended.get_or_insert(time)) {
                // the peer sends as long as we do
                Some(ended) if senders.is_some() => time >= ended.saturating_add(GRACE),
                _ => false,
            };
            if over || time >= begun.saturating_add(self.longest) {
                let waited = time.saturating_sub(begun);
                return Err(Error::Silent { waiting_for: "end of the peer's streams", waited });
            }
            let moved = [true, false].map(|sent| measurement.bytes_from_the_beginning(sent));
            if idle.is_over(moved, time) {
                return Err(Error::Silent { waiting_for: "data", waited: idle.limit });
            }
            notice.waker.reset();
            let until = self.time.map_or(Nanos::MAX, |lasts| begun.saturating_add(lasts));
            let until = if sending_ended.is_some() { Nanos::MAX } else { until };
            let look = time.saturating_add(LOOK_AROUND);
            wait_for(&[notice.waker.as_fd()], look.min(measurement.next()).min(until))?;
        };
        let (end, fault) = end_of(until_the_end());
        if let Some(senders) = &mut senders {
            senders.stop();
        }
        let measured = measurement.finish(now(), events);
        drop(receivers);
        self.finish();
        self.await_close()?;
        Ok(TestResult { fault, ..self.result(end, measured) })
    }

    /// Tells the peer that nothing more will come.
    fn finish(&self) {
        self.streams.iter().filter(|stream| stream.sending).for_each(|stream| stream.finish());
    }

    /// Reads the end of the streams that were sent, and the server's answer before it: closing without reading it would take back
    /// what is on its way (RFC 1122 §4.2.2.13).
    fn await_close(&self) -> Result<(), Error> {
        let deadline = now().saturating_add(CLOSE);
        let mut open: Vec<&Arc<Stream>> = self.streams.iter().filter(|s| s.sending).collect();
        loop {
            open.retain(|stream| {
                loop {
                    match recv(&stream.carrier, &mut [0_u8; 1024][..], RecvFlags::DONTWAIT) {
                        Ok((0, _)) => return false,
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return error == Errno::AGAIN,
                    }
                }
            });
            if open.is_empty() || now() >= deadline {
                return Ok(());
            }
            let fds = open.iter().map(|stream| stream.carrier.as_fd());
            let mut fds: Vec<PollFd<'_>> =
                fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            wait(&mut fds, deadline).map_err(Error::socket("wait for a stream's end"))?;
        }
    }

    fn result(&self, end: End, measured: Measured) -> TestResult {
        TestResult {
            role: self.role,
            end,
            fault: None,
            spec: self.spec.clone(),
            block: Bytes::new(self.block as u64),
            local: self.local,
            peer: self.peer,
            time: measured.time,
            streams: measured.streams,
            intervals: measured.intervals,
            intervals_not_kept: measured.intervals_not_kept,
            our_cpu: measured.cpu,
            their_cpu: None,
            our_congestion: crate::data::congestion(&self.streams),
            their_congestion: None,
            server_output: None,
        }
    }
}
