//! A server of iperf 2's wire over TCP: receives, and where that is allowed connects back and sends (`-d`, `-r`).
//!
//! One test at a time: the connections of one host that announce the same number of streams. Those of others are closed.
//! What it sends goes only to the host that the test came from, and only where the options allow it.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::{SendFlags, send};
use wirebeat_units::{BitRate, Bytes, Nanos, fault};

use super::admission::{Admission, Arrived};
use super::{LOOK_AROUND, ServerOptions};
use crate::control::iperf2::{Back, Header, HeaderAmount, answer};
use crate::data::{Carrier, Stream};
use crate::error::{Refusal, code};
use crate::event::later;
use crate::phase::Phase;
use crate::result::{End, Role};
use crate::socket::{connect, listen, now, set_before_connect, set_data};
use crate::{Amount, Direction, Error, Event, Started, Stop, TestResult, TestSpec};

/// How long the connections of one test may come one after the other.
const TOGETHER: Nanos = Nanos::from_secs(2);
/// The pause before the client's port is tried again: it may listen a moment later.
const AGAIN: Nanos = Nanos::from_millis(100);
/// What a test may take longer than it says.
const GRACE: Nanos = Nanos::from_secs(40);
/// The largest block that is read at once.
const BLOCK_MAX: u32 = 1 << 20;
/// The largest socket buffer that is asked for.
const WINDOW_MAX: u32 = 512 << 20;

/// A server of iperf 2's wire over TCP.
#[derive(Debug)]
pub struct Iperf2Server {
    admission: Admission<Header>,
    address: SocketAddr,
    options: ServerOptions,
}

impl Iperf2Server {
    /// Listens on this address, in the network namespace of the calling thread; iperf 2's port is 5001.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(address: SocketAddr, options: ServerOptions) -> Result<Iperf2Server, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Iperf2Server { admission: Admission::new(listener), address, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is asked to stop, or after one test where that is all it is for. Must be called in the network namespace that it
    /// was bound in. What becomes of each test is an event; over this wire the peer says nothing of what it counted.
    ///
    /// # Errors
    /// Only where the system no longer lets it wait for its sockets.
    pub fn run(&mut self, stop: &Stop, events: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        while !stop.asked() {
            self.admission.turn(&[], now().saturating_add(LOOK_AROUND))?;
            let Some(first) = self.admission.next() else { continue };
            let ended = self.test(first, stop, events);
            events(Event::Ended(&ended));
            if self.options.one_off {
                break;
            }
        }
        Ok(())
    }

    fn test(
        &mut self,
        first: Arrived<Header>,
        stop: &Stop,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<TestResult, Error> {
        let header = first.greeting;
        let peer = first.peer;
        let spec = self.accept(&header)?;
        let block = spec.block_len(0);
        let arrived = self.together(first, stop, events)?;
        let mut streams = Vec::new();
        for (index, arrived) in arrived.into_iter().enumerate() {
            streams.push(receive(index, arrived, &spec)?);
        }
        let local = streams.first().map_or(self.address, |stream| stream.local);
        if header.back == Back::AtOnce {
            let port = (peer.ip(), header.port).into();
            self.connect_back((&mut streams, 0), port, &spec, stop)?;
        }
        events(Event::Started(&Started { peer, spec: spec.clone(), block }));
        let limits = self.options.limits;
        let asked = spec.time().unwrap_or(limits.time).min(limits.time);
        let (each, time) = match spec.amount {
            Amount::Bytes(bytes) => (bytes.get(), limits.time),
            _ => (u64::MAX, asked),
        };
        let phase = |streams: Vec<Arc<Stream>>| Phase {
            role: Role::Server,
            local,
            peer,
            streams,
            spec: &spec,
            block,
            each,
            time: Some(time),
            together: header.back == Back::AtOnce && matches!(spec.amount, Amount::Time(_)),
            // a client that says no time, or one of version 2.0 that says nothing, ends when it ends
            longest: asked.saturating_add(GRACE),
            idle: limits.idle,
        };
        let result = phase(streams).run(stop, &mut waiting(&mut self.admission), events)?;
        if header.back != Back::Afterwards || result.end != End::Completed {
            return Ok(result);
        }
        let received = result.streams.len();
        let mut back = Vec::new();
        let port = (peer.ip(), header.port).into();
        self.connect_back((&mut back, received), port, &spec, stop)?;
        let mut told = later(result.time, events);
        let second = phase(back).run(stop, &mut waiting(&mut self.admission), &mut told)?;
        Ok(result.followed_by(second))
    }

    /// The test that a header asks for, held against the limits.
    fn accept(&self, header: &Header) -> Result<TestSpec, Error> {
        let refuse = |number, fault| Err(Error::Refused(Refusal::new(number, fault)));
        let limits = &self.options.limits;
        if header.streams > limits.streams {
            let fault = fault!("{} streams; at most {} are served", header.streams, limits.streams);
            return refuse(code::STREAMS, fault);
        }
        if header.over_this {
            let fault = fault!(
                "the client asks the server to send over its own connection (-R, --full-duplex), which is not served"
            );
            return refuse(code::UNIMPLEMENTED, fault);
        }
        if header.back != Back::None && !self.options.connect_back {
            let fault = fault!("the client asks the server to connect to it (-d, -r)"; "allow the server to connect back");
            return refuse(code::UNIMPLEMENTED, fault);
        }
        if header.back != Back::None && header.port == 0 {
            return refuse(code::PARAMETERS, fault!("the client listens on no port"));
        }
        let share = |limit: BitRate| BitRate((limit.0 / u64::from(header.streams.max(1))).max(1));
        let asked = Some(BitRate(header.rate)).filter(|rate| rate.0 > 0);
        let size = |bytes: u32, most: u32| {
            Some(Bytes::new(bytes.min(most).into())).filter(|bytes| bytes.get() > 0)
        };
        Ok(TestSpec {
            direction: match header.back {
                Back::None => Direction::Forward,
                Back::AtOnce => Direction::BothWays,
                Back::Afterwards => Direction::InTurn,
            },
            streams: header.streams,
            amount: match header.amount {
                HeaderAmount::Time(time) => Amount::Time(time),
                HeaderAmount::Bytes(bytes) => Amount::Bytes(bytes),
            },
            block: size(header.block, BLOCK_MAX),
            window: size(header.window, WINDOW_MAX),
            rate: asked.into_iter().chain(limits.rate.map(share)).min(),
            interval: self.options.interval,
            ..TestSpec::default()
        })
    }

    /// All connections of the test that `first` begins, in the order in which they came.
    fn together(
        &mut self,
        first: Arrived<Header>,
        stop: &Stop,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Arrived<Header>>, Error> {
        let (peer, header) = (first.peer.ip(), first.greeting);
        let deadline = now().saturating_add(TOGETHER);
        let mut arrived = vec![first];
        while arrived.len() < header.streams as usize && now() < deadline && !stop.asked() {
            while let Some(next) = self.admission.next() {
                let same = next.peer.ip() == peer && next.greeting == header;
                if same && arrived.len() < header.streams as usize {
                    arrived.push(next);
                } else {
                    events(Event::Denied(next.peer));
                }
            }
            if arrived.len() < header.streams as usize {
                self.admission.turn(&[], deadline.min(now().saturating_add(LOOK_AROUND)))?;
            }
        }
        arrived.sort_by_key(|arrived| arrived.number);
        Ok(arrived)
    }

    /// Connects to the client, once for each of its streams; `before` streams there were already.
    fn connect_back(
        &mut self,
        (streams, before): (&mut Vec<Arc<Stream>>, usize),
        address: SocketAddr,
        spec: &TestSpec,
        stop: &Stop,
    ) -> Result<(), Error> {
        let deadline = now().saturating_add(self.options.limits.patience);
        for _ in 0..spec.streams {
            let socket = loop {
                let set = |socket: BorrowedFd<'_>| set_before_connect(socket, spec, address);
                match connect(address, None, deadline, set) {
                    Ok(socket) => break socket,
                    Err(source) if now() >= deadline || stop.asked() => {
                        return Err(Error::Connect { address, source });
                    }
                    Err(_) => waiting(&mut self.admission)(&[], now().saturating_add(AGAIN))?,
                }
            };
            let stream = Stream::new(before + streams.len(), true, Carrier::Tcp(socket));
            streams.push(Arc::new(stream.map_err(Error::socket("set up a stream"))?));
        }
        Ok(())
    }
}

/// Waits, and closes connections that come meanwhile.
fn waiting(
    admission: &mut Admission<Header>,
) -> impl FnMut(&[BorrowedFd<'_>], Nanos) -> Result<(), Error> {
    |others, deadline| {
        admission.turn(others, deadline)?;
        admission.close_all();
        Ok(())
    }
}

/// The stream of a connection that came. Its header counts.
fn receive(index: usize, arrived: Arrived<Header>, spec: &TestSpec) -> Result<Arc<Stream>, Error> {
    let failed = || Error::socket("set up a stream");
    set_data(std::os::fd::AsFd::as_fd(&arrived.stream), spec, arrived.peer).map_err(failed())?;
    if arrived.greeting.answered {
        // the buffer of a new connection has room for it, and a client goes on without
        let _ = send(&arrived.stream, &answer(), SendFlags::NOSIGNAL);
    }
    let stream = Stream::new(index, false, Carrier::Tcp(arrived.stream)).map_err(failed())?;
    stream.tally.add_bytes(arrived.greeting.len);
    Ok(Arc::new(stream))
}
