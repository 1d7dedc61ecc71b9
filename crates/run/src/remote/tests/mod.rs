//! Both ends over 127.0.0.1, and what happens when one of them misbehaves. Here: a receiver that measures
//! nothing, in a thread of its own.

mod belief;
mod flood;
mod sending;
mod serving;
mod stopping;
mod strangers;
mod wire;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_meter::flow::{Expectation, FlowMeter, Sample};
use wirebeat_meter::memory::Memory;
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_report::model::{Relation, Station};
use wirebeat_units::Nanos;

use super::message::{
    Count, Expected, ExpectedFlow, GREETING_LIMIT, Limits, Measured, REPLY_LIMIT, Reply, Request,
    Version, Welcome,
};
use super::transport::{Channel, TransportError};
use super::*;
use crate::observe::{Observer, Progress, Stop};
use crate::options::KeySource;
use crate::receive::Listen;

/// For conversations in which nobody runs out of time, on a busy machine either.
const PATIENT: Timeouts = Timeouts {
    handshake: Duration::from_secs(5),
    waiting: Duration::from_secs(5),
    answer: Duration::from_secs(5),
    silence: Duration::from_secs(5),
};

/// For those in which somebody does.
const HASTY: Timeouts = Timeouts {
    handshake: Duration::from_millis(300),
    waiting: Duration::from_secs(5),
    answer: Duration::from_millis(300),
    silence: Duration::from_millis(300),
};

fn text(key: &str) -> KeySource {
    KeySource::Text(key.to_owned())
}

fn right() -> KeySource {
    text("the right key, to be sure")
}

/// The monotonic clock, so far ahead.
struct Ahead(u64);

impl Clock for Ahead {
    fn now(&self) -> Nanos {
        MonotonicClock.now().saturating_add(Nanos::new(self.0))
    }

    fn wait_until(&self, deadline: Nanos, wait: Wait) {
        MonotonicClock.wait_until(deadline.saturating_sub(Nanos::new(self.0)), wait);
    }
}

/// Receives ten frames of each flow, each 700 ns on its way, with a clock that is `ahead`.
#[derive(Default)]
struct Fake {
    ahead: i64,
    expected: Option<Expected>,
    /// What happened, in order.
    log: Arc<Mutex<Vec<&'static str>>>,
    /// Lies to tell.
    tamper: Option<fn(&mut Measured)>,
    /// Where its owner lets it send.
    sender: Option<sending::FakeSender>,
}

const DELAY: i64 = 700;

impl Fake {
    fn note(&self, event: &'static str) {
        self.log.lock().unwrap().push(event);
    }

    fn flow(&self, base: i64) -> FlowSummary {
        let expected = Expectation { nominal_gap: None, delay_base: base };
        let mut meter = FlowMeter::new(expected, 64, None);
        for sequence in 0..10u32 {
            let sent = 1_000_000_000_000 + u64::from(sequence) * 1000;
            let sample = Sample {
                at: Nanos::new(sent.wrapping_add_signed(DELAY + self.ahead)),
                timed: true,
                sent: Some(Nanos::new(sent)),
                sequence: Some(sequence),
                frame_len: 64,
                fragments: 0,
                payload_len: 18,
                last: false,
            };
            meter.record(&sample, &mut Memory::default());
        }
        meter.summary()
    }
}

impl Metering for Fake {
    fn stations(&self) -> Vec<Station> {
        vec![Station { engine: "fake".to_owned(), ..Station::default() }]
    }

    fn begin(&mut self, expected: &Expected) -> Result<(), String> {
        self.note("begin");
        if expected.flows.iter().any(|flow| flow.name == "unwanted") {
            return Err("it does not want that flow".to_owned());
        }
        self.expected = Some(expected.clone());
        Ok(())
    }

    fn received(&self) -> Count {
        Count { frames: 10, bytes: 640, missing: 0 }
    }

    fn finish(&mut self, settle: Nanos) -> Result<Measured, String> {
        self.note(if settle == Nanos::from_millis(5) { "finish" } else { "finish late" });
        let expected = self.expected.take().ok_or("nothing began")?;
        let flow = |flow: &ExpectedFlow| (flow.id, self.flow(expected.delay_base));
        let flows = expected.flows.iter().map(flow).collect();
        let summary = MeterSummary { flows, foreign: 3, ..MeterSummary::default() };
        let mut measured = Measured { summary, delivered: Some(13), ..Measured::default() };
        if let Some(tamper) = self.tamper {
            tamper(&mut measured);
        }
        Ok(measured)
    }

    fn abandon(&mut self) {
        self.note("abandon");
    }

    fn sending(&mut self) -> Option<&mut dyn SendingSide> {
        self.sender.as_mut().map(|sender| sender as &mut dyn SendingSide)
    }
}

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
    looks: Arc<AtomicU64>,
}

impl Observer for Notes {
    fn progress(&mut self, progress: &Progress) {
        assert_eq!(progress.received, Some((10, 640)));
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    fn notice(&mut self, message: &str) {
        self.lines.lock().unwrap().push(message.to_owned());
    }
}

/// A receiver in a thread of its own; stopped at the end of the test.
struct Server {
    address: SocketAddr,
    stop: Stop,
    log: Arc<Mutex<Vec<&'static str>>>,
    notes: Notes,
    thread: Option<JoinHandle<Served>>,
}

impl Server {
    fn start(key: Option<KeySource>, fake: Fake) -> Server {
        Server::start_with(PATIENT, key, fake)
    }

    fn start_with(timeouts: Timeouts, key: Option<KeySource>, fake: Fake) -> Server {
        Server::start_for(None, timeouts, key, fake)
    }

    fn start_for(
        time: Option<Nanos>,
        timeouts: Timeouts,
        key: Option<KeySource>,
        mut fake: Fake,
    ) -> Server {
        let listen = Listen {
            address: ([127, 0, 0, 1], 0).into(),
            key,
            once: false,
            allow_send: None,
            allow_serve: None,
        };
        let listener = Listener::bind(&listen).unwrap();
        let clock_identity = match fake.ahead {
            0 => ClockIdentity::here(),
            _ => ClockIdentity::default(),
        };
        let service = Service {
            identity: Identity {
                limits: Limits { flows: 4 },
                clock: Arc::new(Ahead(fake.ahead.unsigned_abs())),
                clock_identity,
            },
            interval: Nanos::from_millis(1),
            time,
            timeouts,
        };
        let (stop, notes) = (Stop::new(), Notes::default());
        let (stopping, mut observer) = (stop.clone(), notes.clone());
        let (address, log) = (listener.address(), Arc::clone(&fake.log));
        let thread = thread::spawn(move || {
            serve(&listener, &mut fake, &service, &mut observer, &stopping).unwrap()
        });
        Server { address, stop, log, notes, thread: Some(thread) }
    }

    fn open(&self, key: Option<&KeySource>) -> Result<Connection, RemoteError> {
        call(self.address, key)
    }

    /// A connection that has shaken hands and said nothing yet.
    fn shake(&self) -> Channel<TcpStream> {
        let stream = TcpStream::connect(self.address).unwrap();
        let key = key_for(self.address, None).unwrap();
        Channel::initiate(stream, &key, Arc::new(MonotonicClock), soon()).unwrap()
    }

    fn end(mut self) -> Served {
        self.stop.ask(0);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until `event` has happened.
    fn await_event(&self, event: &str) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.log.lock().unwrap().contains(&event) {
            assert!(Instant::now() < deadline, "no {event} in {:?}", self.log.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.ask(0);
    }
}

fn call(address: SocketAddr, key: Option<&KeySource>) -> Result<Connection, RemoteError> {
    let caller = Caller { timeouts: PATIENT, ..Caller::default() };
    Connection::open_as(caller, address, key)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn flows(ids: &[u16]) -> Vec<ExpectedFlow> {
    let flow = |&id| ExpectedFlow { id, name: format!("flow {id}"), nominal_gap_ns: Some(1000) };
    ids.iter().map(flow).collect()
}

fn ask(channel: &mut Channel<TcpStream>, request: &Request) -> Result<Reply, TransportError> {
    channel.send(&request.encode().unwrap(), soon())?;
    let reply = channel.receive(REPLY_LIMIT, soon())?;
    Ok(Reply::decode(&reply.bytes).unwrap())
}

/// What a connection that is in order ends with, after whatever went before it.
fn a_sender_is_still_served(server: &Server) {
    let deadline = soon();
    loop {
        match server.open(None) {
            Ok(connection) => {
                let outcome = connection.begin(flows(&[1])).unwrap();
                outcome.finish(Nanos::from_millis(5)).unwrap();
                return;
            }
            Err(RemoteError::Busy { .. }) if Instant::now() < deadline => {}
            Err(error) => panic!("{error}"),
        }
    }
}
