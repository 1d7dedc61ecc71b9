//! When frames left by the card's clock: asked for frame by frame, and read from the sockets' error queues.
//!
//! Many cards hold one stamp until the driver has read it, so that there is one request at a time, and none sooner than a
//! millisecond after the last: a sample of what is sent, of each batch another place. A thread of its own waits for the stamps
//! (`SO_TIMESTAMPING`, `Documentation/networking/timestamping.rst`): who sends looks at one flag, and makes no call but those
//! that it makes anyway.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::CardStamps;
use wirebeat_meter::distribution::Recorder;
use wirebeat_units::Nanos;

use super::clock::{CardClock, Conversion};
use crate::control_messages::{self, card_stamp};
use crate::sys;

/// The time between two requests, at least. At more the thread that waits for them would take a CPU's time by itself.
const APART: Nanos = Nanos::from_millis(1);
/// How long a stamp may take: drivers have it within microseconds, or a work item of the kernel fetches it.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// How often the waiting thread looks whether it is over.
const LOOK_MS: libc::c_int = 20;

/// Words of a control message with one 32-bit number.
pub(crate) const REQUEST_WORDS: usize = 3;
/// What a socket delivers of the stamps that single messages ask for: they as they are, each with its number, and no copy of
/// the frame.
const DELIVERED: u32 = libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// The control message that asks for a frame's stamp.
pub(crate) fn request() -> [u64; REQUEST_WORDS] {
    let mut control = [0; REQUEST_WORDS];
    // SAFETY: the words are aligned for a header and hold it and the number.
    unsafe {
        let header: *mut libc::cmsghdr = control.as_mut_ptr().cast();
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u32>().write(libc::SOF_TIMESTAMPING_TX_HARDWARE);
    }
    control
}

/// A frame whose stamp was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Which of the sockets sent it.
    pub(crate) socket: usize,
    /// When it was due; zero where it had no deadline.
    pub(crate) due: Nanos,
    /// When it was handed over.
    pub(crate) at: Nanos,
}

/// What both threads know.
#[derive(Debug)]
struct SharedStamps {
    /// The frame whose stamp is to come. Only the sender sets it, and only while `waiting` is off.
    asked: Mutex<Option<Asked>>,
    waiting: AtomicBool,
    stop: AtomicBool,
}

/// Asks for the stamps of frames that a thread sends.
#[derive(Debug)]
pub(crate) struct SentStamps {
    shared: Arc<SharedStamps>,
    thread: Option<JoinHandle<CardStamps>>,
    /// No request before.
    next: Nanos,
    turn: usize,
    asked: u64,
}

impl SentStamps {
    /// For frames that leave by these sockets.
    pub(crate) fn start(sockets: &[&OwnedFd], clock: &CardClock) -> io::Result<SentStamps> {
        for socket in sockets {
            let option = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
            sys::set_option(socket, option, &DELIVERED)?;
        }
        let shared = Arc::new(SharedStamps {
            asked: Mutex::new(None),
            waiting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let collector = Collector::new(sockets, clock.conversion(), Arc::clone(&shared))?;
        let thread = thread::Builder::new().name("wb-card-stamps".to_owned());
        let thread = thread.spawn(move || collector.run())?;
        Ok(SentStamps { shared, thread: Some(thread), next: Nanos::ZERO, turn: 0, asked: 0 })
    }

    /// Which of the next `count` messages is to ask for its stamp, if one is, and what time it is then.
    #[inline]
    pub(crate) fn pick(&mut self, count: usize) -> Option<(usize, Nanos)> {
        if count == 0 || self.shared.waiting.load(Ordering::Acquire) {
            return None;
        }
        let now = MonotonicClock.now();
        (now >= self.next).then(|| (self.turn % count, now))
    }

    /// The frame that is about to be sent asks.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.next = asked.at.saturating_add(APART);
        self.turn = self.turn.wrapping_add(1);
        self.asked += 1;
        *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        self.shared.waiting.store(true, Ordering::Release);
    }

    /// The frame that asked was not taken.
    pub(crate) fn not_sent(&mut self) {
        self.asked = self.asked.saturating_sub(1);
        *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.waiting.store(false, Ordering::Release);
    }

    /// Waits for the last stamp, and says what there was.
    pub(crate) fn finish(&mut self) -> Option<CardStamps> {
        self.shared.stop.store(true, Ordering::Release);
        let stamps = self.thread.take()?.join().ok()?;
        Some(CardStamps { asked: self.asked, ..stamps })
    }
}

impl Drop for SentStamps {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Waits for stamps.
struct Collector {
    epoll: OwnedFd,
    /// The sockets' files, which live as long as those who send; and the next number of a stamp of each.
    sockets: Vec<(RawFd, u32)>,
    /// Copies that keep the files open.
    _files: Vec<OwnedFd>,
    conversion: Conversion,
    shared: Arc<SharedStamps>,
    stamped: u64,
    send_lateness: Recorder,
    hand_over: Recorder,
}

impl Collector {
    fn new(
        sockets: &[&OwnedFd],
        conversion: Conversion,
        shared: Arc<SharedStamps>,
    ) -> io::Result<Collector> {
        // SAFETY: a call without pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a file that was just opened, and that nobody else has.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let files = sockets.iter().map(|file| file.try_clone()).collect::<io::Result<Vec<_>>>()?;
        for (place, file) in files.iter().enumerate() {
            // errors are told of without being asked for; once each, for one that nobody takes away would be told for ever
            let mut event = libc::epoll_event { events: libc::EPOLLET as u32, u64: place as u64 };
            // SAFETY: two open files, and an event that is read during the call.
            let result = unsafe {
                let (epoll, file) = (epoll.as_raw_fd(), file.as_raw_fd());
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, file, &mut event)
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Collector {
            epoll,
            sockets: files.iter().map(|file| (file.as_raw_fd(), 0)).collect(),
            _files: files,
            conversion,
            shared,
            stamped: 0,
            send_lateness: Recorder::default(),
            hand_over: Recorder::default(),
        })
    }

    fn run(mut self) -> CardStamps {
        loop {
            let stopping = self.shared.stop.load(Ordering::Acquire);
            if stopping && !self.shared.waiting.load(Ordering::Acquire) {
                break;
            }
            for place in self.wait() {
                self.read(place);
            }
            self.give_up();
        }
        CardStamps {
            sent: self.stamped,
            send_lateness: self.send_lateness.distribution(),
            hand_over: self.hand_over.distribution(),
            error: self.conversion.error(),
            ..CardStamps::default()
        }
    }

    /// Waits for a moment; the sockets that have something to tell.
    fn wait(&self) -> impl Iterator<Item = usize> + use<> {
        const EVENTS: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: as many events as it is told.
        let ready = unsafe {
            let room = EVENTS as libc::c_int;
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, LOOK_MS)
        };
        let ready = usize::try_from(ready).unwrap_or(0);
        events.into_iter().take(ready).map(|event| event.u64 as usize)
    }

    /// Reads all that a socket's error queue has.
    fn read(&mut self, place: usize) {
        let Some(&(file, _)) = self.sockets.get(place) else { return };
        let mut control = [0_u64; 32];
        while let Some(len) = receive_error(file, &mut control) {
            // SAFETY: initialised words, read as bytes.
            let bytes = unsafe {
                let room = size_of_val(&control);
                std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), len.min(room))
            };
            if let Some(stamp) = Stamp::parse(bytes) {
                self.take(place, stamp);
            }
        }
    }

    /// A stamp of what a socket sent.
    fn take(&mut self, place: usize, Stamp { card, number }: Stamp) {
        let mut pending = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, next)) = self.sockets.get_mut(place) else { return };
        // that of a frame which was given up is behind
        let expected = pending.filter(|asked| asked.socket == place);
        let expected = expected.filter(|_| number.wrapping_sub(*next) < u32::MAX / 2);
        let Some(asked) = expected else { return };
        *next = number.wrapping_add(1);
        *pending = None;
        drop(pending);
        self.shared.waiting.store(false, Ordering::Release);
        self.conversion.refresh();
        let left = self.conversion.convert(card);
        self.stamped += 1;
        self.hand_over.record(left.signed_sub(asked.at));
        if asked.due > Nanos::ZERO {
            self.send_lateness.record(left.signed_sub(asked.due));
        }
    }

    /// Waits no longer for a stamp that has not come.
    fn give_up(&mut self) {
        if !self.shared.waiting.load(Ordering::Acquire) {
            return;
        }
        let mut pending = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(asked) = *pending else { return };
        if MonotonicClock.now().saturating_sub(asked.at) < PATIENCE {
            return;
        }
        if let Some((_, next)) = self.sockets.get_mut(asked.socket) {
            *next = next.wrapping_add(1);
        }
        *pending = None;
        drop(pending);
        self.shared.waiting.store(false, Ordering::Release);
    }
}

/// Takes a message from the error queue of a socket; the length of its control data.
fn receive_error(file: RawFd, control: &mut [u64]) -> Option<usize> {
    // SAFETY: integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    // SAFETY: the control data is as long as it says, and there is nothing else to write to.
    let received =
        unsafe { libc::recvmsg(file, &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    (received >= 0).then_some(message.msg_controllen)
}

/// A stamp from an error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    /// By the card's clock.
    card: u64,
    /// Of how many requests of its socket it is.
    number: u32,
}

impl Stamp {
    /// Reads control data; `None` for what else is in such a queue.
    fn parse(bytes: &[u8]) -> Option<Stamp> {
        /// `SCM_TSTAMP_SND`: when it left.
        const LEFT: u32 = 0;
        let (mut card, mut number) = (None, None);
        for (level, kind, data) in control_messages::iter(bytes) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => card = card_stamp(data),
                (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP)
                | (libc::SOL_IP, libc::IP_RECVERR)
                | (libc::SOL_IPV6, libc::IPV6_RECVERR) => number = of_stamp(data, LEFT),
                _ => {}
            }
        }
        Some(Stamp { card: card?, number: number? })
    }
}

/// The number in a `sock_extended_err` that goes with a stamp of this kind.
fn of_stamp(data: &[u8], kind: u32) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let (errno, origin) = (word(0)?, *data.get(4)?);
    let about_stamps = errno == libc::ENOMSG as u32 && origin == libc::SO_EE_ORIGIN_TIMESTAMPING;
    (about_stamps && word(8)? == kind).then(|| word(12)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::clock;
    use crate::control_messages::message;

    fn error(origin: u8, kind: u32, number: u32) -> Vec<u8> {
        let mut data = (libc::ENOMSG as u32).to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0]);
        data.extend(kind.to_ne_bytes());
        data.extend(number.to_ne_bytes());
        data
    }

    fn times(ns: u64) -> Vec<u8> {
        let mut data = vec![0; 32];
        data.extend(((ns / 1_000_000_000) as i64).to_ne_bytes());
        data.extend(((ns % 1_000_000_000) as i64).to_ne_bytes());
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    #[test]
    fn stamps_are_told_from_what_else_is_in_the_queue() {
        let of = |kind, number| error(libc::SO_EE_ORIGIN_TIMESTAMPING, kind, number);
        for (level, kind) in [
            (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP),
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_IPV6, libc::IPV6_RECVERR),
        ] {
            let whole = [times(5_000_000_007), message(level, kind, &of(0, 9))].concat();
            let expected = Some(Stamp { card: 5_000_000_007, number: 9 });
            assert_eq!(Stamp::parse(&whole), expected);
            let queued = [times(5), message(level, kind, &of(1, 9))].concat();
            assert_eq!(Stamp::parse(&queued), None, "when it was queued (SCM_TSTAMP_SCHED)");
            let icmp = [times(5), message(level, kind, &error(2, 0, 9))].concat();
            assert_eq!(Stamp::parse(&icmp), None);
        }
        assert_eq!(Stamp::parse(&times(5)), None);
        assert_eq!(Stamp::parse(&[]), None);
    }

    fn collector(sockets: usize) -> (Collector, Arc<SharedStamps>) {
        let shared = Arc::new(SharedStamps {
            asked: Mutex::new(None),
            waiting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut collector =
            Collector::new(&[], clock::of_test(1_000_000), Arc::clone(&shared)).unwrap();
        collector.sockets = vec![(-1, 0); sockets];
        (collector, shared)
    }

    fn ask(shared: &SharedStamps, socket: usize, at: u64) {
        let at = Nanos::new(at);
        *shared.asked.lock().unwrap() = Some(Asked { socket, due: at, at });
        shared.waiting.store(true, Ordering::Release);
    }

    #[test]
    fn a_stamp_that_comes_too_late_is_not_taken_for_the_next() {
        let (mut collector, shared) = collector(2);
        let long_ago = 1;
        ask(&shared, 1, long_ago);
        collector.give_up();
        assert!(!shared.waiting.load(Ordering::Acquire), "it is over");
        let now = MonotonicClock.now().get();
        ask(&shared, 1, now);
        collector.give_up();
        assert!(shared.waiting.load(Ordering::Acquire), "it has just begun");
        let card = now + 1_000_000 + 700;
        collector.take(1, Stamp { card: card - 500, number: 0 });
        collector.take(0, Stamp { card: card - 500, number: 1 });
        assert_eq!(collector.stamped, 0);
        collector.take(1, Stamp { card, number: 1 });
        assert!(!shared.waiting.load(Ordering::Acquire));
        assert_eq!(collector.stamped, 1);
        assert_eq!(collector.send_lateness.moments().max, 700);
        assert_eq!(collector.hand_over.moments().max, 700);
        // a frame that the system did not take has used up a number
        ask(&shared, 1, now);
        collector.take(1, Stamp { card, number: 4 });
        assert_eq!(collector.stamped, 2);
    }

    #[test]
    fn one_frame_at_a_time_asks_and_of_each_batch_another() {
        let (collector, shared) = collector(1);
        let mut sent = SentStamps {
            shared: Arc::clone(&shared),
            thread: Some(thread::spawn(move || collector.run())),
            next: Nanos::ZERO,
            turn: 0,
            asked: 0,
        };
        assert_eq!(sent.pick(0), None);
        let (first, at) = sent.pick(4).unwrap();
        sent.ask(Asked { socket: 0, due: Nanos::ZERO, at });
        assert_eq!(sent.pick(4), None, "one is on its way");
        sent.not_sent();
        sent.next = Nanos::ZERO;
        assert_ne!(sent.pick(4).unwrap().0, first);
        sent.next = Nanos::MAX;
        assert_eq!(sent.pick(4), None);
        let stamps = sent.finish().unwrap();
        assert_eq!((stamps.asked, stamps.sent), (0, 0));
    }
}
