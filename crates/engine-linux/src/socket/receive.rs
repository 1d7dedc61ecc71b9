//! The receiving half: batches of datagrams from one or more sockets, with the kernel's timestamps.

use std::io;
use std::net::SocketAddr;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, CardStamps, PortError, RxCaps, RxPort, View};
use wirebeat_meter::codecs::{Answer, Ends};
use wirebeat_netlink::{Link, LinkEvent, LinkState, LinkWatch, NetlinkError};
use wirebeat_units::Nanos;

use super::listener::{Listener, StampSource};
use super::{ENGINE, Gro, SocketReceive};
use crate::card::{Card, Stamped};
use crate::sys::{self, poll_until, refused};
use crate::time::RealtimeToMonotonic;

/// The receiver of the socket engine: addresses that are listened on.
///
/// The lengths of arrivals are computed: payload, UDP, IP (without options) and Ethernet headers,
/// and FCS; at least 64.
#[derive(Debug)]
pub struct SocketRx {
    caps: RxCaps,
    /// How it was opened.
    options: SocketReceive,
    /// The interface by which datagrams come, if one was named.
    interface: Option<Link>,
    /// What arrived before is of an earlier run.
    since: Nanos,
    listeners: Vec<Listener>,
    /// Their sockets and the watch, to wait for. Not an epoll instance: it would be called for every
    /// datagram, waiting or not, at the expense of its sender.
    files: Vec<libc::pollfd>,
    time: RealtimeToMonotonic,
    /// Where the card stamps, and what it did.
    card: Option<Stamped>,
    gather: Nanos,
    /// Whether the last call found something.
    flowing: bool,
    watch: Option<LinkWatch>,
}

impl SocketRx {
    /// Listens from now on. With an `interface`, datagrams that come by it alone, and it notices when that goes away. `card` stamps
    /// what arrives, that of the interface, or the system does.
    pub fn open(
        interface: Option<&str>,
        options: &SocketReceive,
        card: Option<&Card>,
    ) -> Result<Self, PortError> {
        let found = interface.map(|name| crate::link::find(ENGINE, name)).transpose()?;
        let link = found.as_ref();
        let stamps = if card.is_some() { StampSource::OfCard } else { StampSource::OfSystem };
        let open = |address| Listener::open(address, options, link, stamps);
        let listeners = options.listen.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let watch = match link {
            Some(link) => Some(LinkWatch::open(std::slice::from_ref(link)).map_err(unwatched)?),
            None => None,
        };
        let way = if options.gro == Gro::On { "recvmmsg, GRO" } else { "recvmmsg" };
        let caps = RxCaps { mode: super::mode(way, card), view: View::Datagram };
        Ok(SocketRx {
            caps,
            options: options.clone(),
            since: Nanos::ZERO,
            files: Vec::with_capacity(2 * listeners.len() + 1),
            listeners,
            time: RealtimeToMonotonic::new(),
            card: card.map(Stamped::by),
            gather: options.gather,
            flowing: false,
            watch,
            interface: found,
        })
    }

    /// Receives again after a [rest](RxPort::rest), by the same sockets: what arrives from now on. In the namespace of the
    /// interface. Says `false`, and does nothing, where that takes another port: the interface is not the one that it was or
    /// went down meanwhile, or `options` ask for something else.
    ///
    /// # Errors
    /// The interface is gone, or a socket fails.
    pub fn rearm(
        &mut self,
        interface: Option<&str>,
        options: &SocketReceive,
        card: Option<&Card>,
    ) -> Result<bool, PortError> {
        let link = interface.map(|name| crate::link::find(ENGINE, name)).transpose()?;
        let index = |link: &Option<Link>| link.as_ref().map(|link| link.index);
        let alike = self.options == *options && index(&link) == index(&self.interface);
        if !alike || card.is_some() != self.card.is_some() || self.check().is_err() {
            return Ok(false);
        }
        for listener in &mut self.listeners {
            let on = listener.address.to_string();
            listener.rearm().map_err(|error| refused("receiving again", &on, error))?;
        }
        self.card = card.map(Stamped::by);
        self.flowing = false;
        self.since = MonotonicClock.now();
        Ok(true)
    }

    /// The addresses that it listens on, with the ports that the kernel chose.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().map(|listener| listener.address)
    }

    /// Lets datagrams gather while they keep coming. Who sleeps in a socket, or takes each datagram at
    /// once, makes it dearer for the sender, who has to wake him or to share the queue's lock.
    fn gather(&mut self, until: Nanos) {
        let now = MonotonicClock.now();
        if std::mem::take(&mut self.flowing) && now < until {
            MonotonicClock.sleep_until(now.saturating_add(self.gather).min(until));
        }
    }

    /// Gives what the sockets hold to `sink`.
    fn take(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> Result<usize, PortError> {
        let now = MonotonicClock.now();
        self.time.refresh(now);
        self.card.iter_mut().for_each(Stamped::refresh);
        let (time, card) = (&self.time, &mut self.card);
        let since = self.since;
        let mut count = 0;
        for listener in &mut self.listeners {
            let version = listener.version;
            let port = listener.address.port();
            listener.take(|bytes, control, source| {
                let by_system = || control.realtime.map_or(now, |realtime| time.convert(realtime));
                let (at, mut timed) = match card {
                    None => (by_system(), true),
                    Some(card) => card.time(control.card, by_system),
                };
                if at < since {
                    return;
                }
                let destination = control.destination.map(|ip| SocketAddr::new(ip, port));
                let ends = source
                    .zip(destination)
                    .map(|(source, destination)| Ends { source, destination });
                let delivered = arrivals(bytes, control.segment, |bytes| {
                    let frame_len = version.udp_frame_len(bytes.len());
                    sink(&Arrival { at, timed, bytes, frame_len, ends, hash: None });
                    // a stamp of the card is that of the first
                    timed &= card.is_none();
                });
                count += delivered;
                card.iter_mut().for_each(|card| card.joined(delivered));
            })?;
        }
        Ok(count)
    }

    /// Waits until there is something to look at, at most until `until`; says whether there is.
    fn wait(&mut self, until: Nanos) -> Result<bool, PortError> {
        self.files.clear();
        self.files.extend(self.listeners.iter().flat_map(Listener::sockets).map(sys::readable));
        self.files.extend(self.watch.as_ref().map(sys::readable));
        poll_until(&mut self.files, until).map_err(|e| refused("waiting for datagrams", ENGINE, e))
    }

    /// Whether the interface is still there.
    fn check(&mut self) -> Result<(), PortError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let events = watch.events().map_err(unwatched)?;
        for event in events {
            let (LinkEvent::State { name, .. } | LinkEvent::Removed { name, .. }) = &event;
            match &event {
                LinkEvent::State { state, .. } if *state != LinkState::Down => {}
                _ => return Err(PortError::Gone(name.clone())),
            }
        }
        Ok(())
    }

    /// How far the times of arrivals can be off by conversion.
    pub fn timestamp_error(&self) -> Nanos {
        self.card.as_ref().map_or_else(|| self.time.error(), Stamped::error)
    }
}

impl RxPort for SocketRx {
    fn caps(&self) -> &RxCaps {
        &self.caps
    }

    fn receive<F>(&mut self, until: Nanos, mut sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>),
    {
        loop {
            self.gather(until);
            let count = self.take(&mut sink)?;
            if count > 0 {
                self.flowing = true;
                return Ok(count);
            }
            self.check()?;
            if MonotonicClock.now() >= until || !self.wait(until)? {
                return Ok(0);
            }
        }
    }

    fn answer(&mut self, answer: &Answer) -> bool {
        self.listeners.iter().any(|listener| listener.answer(answer))
    }

    fn receive_drops(&self) -> u64 {
        self.listeners.iter().map(Listener::drops).sum()
    }

    fn card_stamps(&self) -> Option<CardStamps> {
        self.card.as_ref().map(Stamped::stamps)
    }

    fn rest(&mut self) -> bool {
        self.listeners.iter().all(|listener| listener.rest().is_ok())
    }
}

fn unwatched(error: NetlinkError) -> PortError {
    refused("watching the interface", ENGINE, io::Error::other(error))
}

/// Takes a message apart; returns how many datagrams it was.
fn arrivals(bytes: &[u8], segment: Option<usize>, mut sink: impl FnMut(&[u8])) -> usize {
    match segment {
        Some(size) if size < bytes.len() => bytes.chunks(size).map(&mut sink).count(),
        _ => {
            sink(bytes);
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8], segment: Option<usize>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let count = arrivals(bytes, segment, |bytes| out.push(bytes.to_vec()));
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn joined_datagrams_come_apart() {
        assert_eq!(split(b"aabbc", Some(2)), [b"aa".to_vec(), b"bb".to_vec(), b"c".to_vec()]);
        assert_eq!(split(b"aabb", Some(2)), [b"aa".to_vec(), b"bb".to_vec()]);
    }

    #[test]
    fn single_datagrams_stay_whole() {
        assert_eq!(split(b"aabb", None), [b"aabb".to_vec()]);
        assert_eq!(split(b"aabb", Some(4)), [b"aabb".to_vec()]);
        assert_eq!(split(b"aabb", Some(5)), [b"aabb".to_vec()]);
        assert_eq!(split(b"", None), [b"".to_vec()]);
        assert_eq!(split(b"", Some(2)), [b"".to_vec()], "an empty datagram counts");
    }
}
