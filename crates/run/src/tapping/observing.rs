//! Reads what a receiver in the kernel tells of single frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirebeat_capture::seen::Outcome;
use wirebeat_capture::tap::{Note, Tap};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::kernel::{DepartureObservation, Observations};
use wirebeat_meter::observation::{Observation, Sampled};
use wirebeat_units::Nanos;
use wirebeat_wire::probe::Probe;

use super::SentTap;
use crate::error::RunError;

/// How long the reader of a ring sleeps when that is empty.
const IDLE: Duration = Duration::from_micros(500);
/// How many frames it takes between two looks at the clock.
const BATCH: usize = 1024;

/// Reads what a receiver in the kernel tells of single frames, until it is dropped: all that had been told by then is noted.
#[derive(Debug)]
pub(crate) struct Observing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observing {
    /// Reads what a receiver tells.
    pub(crate) fn start(observations: Observations, tap: Tap) -> Result<Observing, RunError> {
        Observing::spawn(observations, tap, |observations, tap| {
            observations.read(BATCH, |seen| tap.note(&note(seen)))
        })
    }

    /// Reads what a sender tells.
    pub(crate) fn of_sender(
        observations: Observations,
        sent: SentTap,
    ) -> Result<Observing, RunError> {
        let SentTap { tap, queue, flows } = sent;
        Observing::spawn(observations, tap, move |observations, tap| {
            observations.read_departures(BATCH, |left| {
                let flow = flows.get(left.tag as usize).copied().flatten();
                tap.note(&note_of_departure(left, (flow, queue)));
            })
        })
    }

    /// Starts the thread, which reads by `read` what there is now.
    fn spawn(
        observations: Observations,
        tap: Tap,
        read: impl FnMut(&mut Observations, &mut Tap) -> usize + Send + 'static,
    ) -> Result<Observing, RunError> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new().name("wb-observe".to_owned());
        let thread = thread.spawn(move || observe((observations, tap), &told, read));
        let thread = thread.map_err(|error| {
            RunError::machine(format!("cannot start the thread that reads observations: {error}"))
        })?;
        Ok(Observing { stop, thread: Some(thread) })
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // what it noted before it panicked is there
            let _ = thread.join();
        }
    }
}

fn observe(
    (mut observations, mut tap): (Observations, Tap),
    stop: &AtomicBool,
    mut read: impl FnMut(&mut Observations, &mut Tap) -> usize,
) {
    let mut lost = 0;
    loop {
        let stopping = stop.load(Ordering::Acquire);
        let read = read(&mut observations, &mut tap);
        let lost_now = observations.lost();
        tap.missed(lost_now.saturating_sub(lost));
        lost = lost_now;
        tap.pass(MonotonicClock.now());
        match read {
            0 if stopping => return,
            0 => thread::sleep(IDLE),
            _ => {}
        }
    }
}

#[inline]
fn note_of_departure<'a>(
    left: &DepartureObservation<'a>,
    (flow, queue): (Option<u16>, u16),
) -> Note<'a> {
    // the short ones are padded after their bytes are known
    let is_whole = left.bytes.len() + 4 >= left.frame_len as usize;
    let probe = Probe::from_tail(left.bytes).filter(|_| is_whole);
    Note {
        outcome: Outcome::Sent,
        at: left.left,
        flow,
        sequence: Some(left.sequence),
        sent: probe.map(|probe| Nanos::new(probe.transmit_ns)),
        due: left.due,
        frame_len: left.frame_len,
        sampled: None,
        queue,
        hash: None,
        bytes: left.bytes,
    }
}

#[inline]
fn note<'a>(seen: &Observation<'a>) -> Note<'a> {
    let sampled = seen.standing.is_measured().then_some(Sampled {
        payload_len: seen.payload_len,
        packet_len: seen.frame_len,
        fragments: 0,
        timed: true,
        last: false,
    });
    Note {
        outcome: Outcome::Received(seen.standing),
        at: seen.arrived,
        flow: seen.flow,
        sequence: seen.sequence,
        sent: seen.sent,
        due: None,
        frame_len: seen.frame_len,
        sampled,
        queue: seen.queue,
        hash: None,
        bytes: seen.bytes,
    }
}
