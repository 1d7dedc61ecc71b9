//! The wait: one epoll with a timer in it, and the clock.
//!
//! The timer (timerfd_create(2)) is set to points in time, to the nanosecond and without the slack of the time-outs of
//! epoll_wait(2), which count milliseconds. It is set anew only where it would ring too late, so a busy stack hardly pays for it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use wirebeat_units::Nanos;

/// Events of one wait.
const EVENTS: usize = 128;
/// The mark of the timer's events.
const TIMER: u64 = u64::MAX;
const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const NS_PER_S: u64 = 1_000_000_000;

/// The time (`CLOCK_MONOTONIC`).
pub fn clock() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let (s, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    Nanos::new(s.unwrap_or(0).saturating_mul(NS_PER_S).saturating_add(ns.unwrap_or(0)))
}

/// An epoll with a timer.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer rings, or rang.
    rings: Nanos,
    /// Marks and flags. They are copied, as the events themselves are bound to a thread.
    events: Vec<(u64, EventFlags)>,
}

impl Poller {
    /// One without sockets.
    ///
    /// # Errors
    /// The system has no epoll or timer left.
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // edge-triggered: it needs not be read
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), edge)?;
        Ok(Poller { epoll, timer, rings: Nanos::ZERO, events: Vec::with_capacity(EVENTS) })
    }

    /// Waits for these events of a socket too. Closing the socket ends it.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn add(&self, socket: impl AsFd, mark: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, EventData::new_u64(mark), flags)
    }

    /// Waits for these events of a known socket instead.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn modify(&self, socket: impl AsFd, mark: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(mark), flags)
    }

    /// Waits for events until a point in time (`now` or earlier: looks only), and returns the time then.
    pub fn wait(&mut self, mut now: Nanos, until: Nanos) -> Nanos {
        loop {
            let waits = now < until && self.set(now, until).is_ok();
            self.events.clear();
            let timeout = if waits { None } else { Some(&NOT_AT_ALL) };
            let mut room = [MaybeUninit::<Event>::uninit(); EVENTS];
            let waited = epoll::wait(&self.epoll, &mut room, timeout);
            now = clock();
            let failed = waited.is_err();
            let events = waited.map(|(events, _)| &*events).unwrap_or_default();
            let not_timer = |event: &&Event| event.data.u64() != TIMER;
            let marked = |event: &Event| (event.data.u64(), event.flags);
            self.events.extend(events.iter().filter(not_timer).map(marked));
            // A signal ends the wait: its handler may want the loop to end.
            if failed || !waits || !self.events.is_empty() || now >= until {
                return now;
            }
        }
    }

    /// Sees to it that the timer rings after `now` and not after `until`.
    fn set(&mut self, now: Nanos, until: Nanos) -> Result<(), Errno> {
        if now < self.rings && self.rings <= until {
            return Ok(());
        }
        let ns = until.get().min(i64::MAX as u64);
        let at = Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 };
        let once = Itimerspec { it_interval: NOT_AT_ALL, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.rings = until;
        Ok(())
    }

    /// The mark and the flags of one event of the last wait; `None` behind the last.
    pub fn event(&self, index: usize) -> Option<(u64, EventFlags)> {
        self.events.get(index).copied()
    }
}
