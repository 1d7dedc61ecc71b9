//! Bare loops that open as fast as they are asked to, and do nothing else that a session needs.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt::set_socket_linger,
};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::affinity;
use wirebeat_units::Nanos;

use super::{Late, PORT};
use crate::lab::{Failure, Lab};
use crate::sections::wire;
use crate::sessions::{Path, Tcp};

/// Bytes of a frame without FCS: a SYN with options over IPv4.
const FRAME: u16 = 74;
/// From when both ends are open until the first start.
const LEAD: Nanos = Nanos::from_millis(300);
/// Connections that may wait to be established.
const WAITING: usize = 1000;
/// How long the other end waits for a connection before it looks whether it is over.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// How late each of so many starts a second began.
pub(super) fn starts(lab: &Lab, tcp: Tcp, rate: u64, time: Duration) -> Result<Late, Failure> {
    let done = AtomicBool::new(false);
    let late = thread::scope(|scope| {
        let far = scope.spawn(|| match tcp {
            Tcp::Host => accept(lab, &done),
            Tcp::Packet | Tcp::Kernel => answer(lab, tcp, &done),
        });
        let near = scope.spawn(|| match tcp {
            Tcp::Host => connections(lab, rate, time),
            Tcp::Packet | Tcp::Kernel => exchange(lab, tcp, rate, time),
        });
        let late = near.join().map_err(|_| Failure::from("the near end panicked"));
        done.store(true, Ordering::Relaxed);
        far.join().map_err(|_| "the far end panicked")??;
        late?
    })?;
    Ok(summary(late, time))
}

fn summary(mut late: Vec<u64>, time: Duration) -> Late {
    late.sort_unstable();
    let at = |share: f64| {
        let place = (late.len() as f64 * share).ceil() as usize;
        late.get(place.saturating_sub(1)).map_or(0.0, |ns| *ns as f64)
    };
    Late { p50: at(0.5), p99: at(0.99), rate: late.len() as f64 / time.as_secs_f64() }
}

/// Starts at its times until the time is over, and does something else in between; how late each was, in ns.
fn paced(
    rate: u64,
    time: Duration,
    mut start: impl FnMut() -> Result<(), Failure>,
    mut between: impl FnMut(Nanos) -> Result<(), Failure>,
) -> Result<Vec<u64>, Failure> {
    let count = (u128::from(rate) * time.as_nanos() / 1_000_000_000) as u64;
    let mut late = Vec::with_capacity(count as usize);
    let begin = MonotonicClock.now().saturating_add(LEAD);
    for number in 0..count {
        let ns = u128::from(number) * 1_000_000_000 / u128::from(rate);
        let planned = begin.saturating_add(Nanos::new(ns as u64));
        let now = loop {
            let now = MonotonicClock.now();
            if now >= planned {
                break now;
            }
            between(now)?;
        };
        late.push(now.saturating_sub(planned).get());
        start()?;
    }
    Ok(late)
}

/// Sends a frame for each start, and reads what is answered.
fn exchange(lab: &Lab, tcp: Tcp, rate: u64, time: Duration) -> Result<Vec<u64>, Failure> {
    wire::at_end(lab, (tcp, FRAME), true, |tx, rx| {
        let mut answers = 0;
        let late = paced(
            rate,
            time,
            || tx(1).map(|_| ()),
            |now| {
                answers += rx(now)?;
                Ok(())
            },
        )?;
        match answers {
            0 => Err("no frame came back".into()),
            _ => Ok(late),
        }
    })
}

/// Answers each frame with one.
fn answer(lab: &Lab, tcp: Tcp, done: &AtomicBool) -> Result<(), Failure> {
    wire::at_end(lab, (tcp, FRAME), false, |tx, rx| {
        while !done.load(Ordering::Relaxed) {
            let mut owed = rx(wire::step())?;
            while owed > 0 {
                owed -= tx(owed.min(64))?;
            }
        }
        Ok(())
    })
}

/// Connects for each start, and resets the oldest connection once it is established.
fn connections(lab: &Lab, rate: u64, time: Duration) -> Result<Vec<u64>, Failure> {
    affinity::pin(lab.cores.send)?;
    let to = SocketAddr::from((Path::Cable.server(lab), PORT));
    lab.near().namespace.run(|| -> Result<Vec<u64>, Failure> {
        let open: std::cell::RefCell<VecDeque<OwnedFd>> = VecDeque::with_capacity(WAITING).into();
        let reset = |all: &mut VecDeque<OwnedFd>| -> Result<(), Failure> {
            if let Some(oldest) = all.pop_front() {
                set_socket_linger(&oldest, Some(Duration::ZERO))?;
            }
            Ok(())
        };
        paced(
            rate,
            time,
            || {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
                match connect(&socket, &to) {
                    Ok(()) | Err(Errno::INPROGRESS) => {}
                    Err(why) => return Err(why.into()),
                }
                let mut open = open.borrow_mut();
                open.push_back(socket);
                if open.len() > WAITING { reset(&mut open) } else { Ok(()) }
            },
            |_| {
                let mut open = open.borrow_mut();
                let Some(oldest) = open.front() else { return Ok(()) };
                let mut polled = [PollFd::new(oldest, PollFlags::OUT)];
                match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                    Ok(0) | Err(Errno::INTR) => Ok(()),
                    Ok(_) => reset(&mut open),
                    Err(why) => Err(why.into()),
                }
            },
        )
    })?
}

/// Accepts connections and closes them.
fn accept(lab: &Lab, done: &AtomicBool) -> Result<(), Failure> {
    affinity::pin(lab.cores.other)?;
    let at = SocketAddr::from((Path::Cable.server(lab), PORT));
    lab.far().namespace.run(|| -> Result<(), Failure> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        while !done.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok(_) => {}
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {
                    match poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&STEP)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(why) => return Err(why.into()),
                    }
                }
                // the other end has reset it before it was accepted
                Err(why) if why.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_counted_by_their_times() {
        let (mut started, mut between) = (0, 0);
        let late = paced(
            1000,
            Duration::from_millis(20),
            || {
                started += 1;
                Ok(())
            },
            |_| {
                between += 1;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!((started, late.len()), (20, 20));
        assert!(between > 0);
        let late = summary((1..=200).rev().collect(), Duration::from_millis(100));
        assert_eq!((late.p50, late.p99, late.rate), (100.0, 198.0, 2000.0));
    }
}
