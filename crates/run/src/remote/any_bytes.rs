//! Every parser of the control connection, driven by bytes alone.
//!
//! What the fuzz target and the tests call to show that no bytes break either end: as a stranger that
//! connects or is connected to, as a sender that knows the key, as a receiver that does.

use std::io::{self, Cursor, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirebeat_engine::clock::MonotonicClock;
use wirebeat_report::model::{Relation, Station};
use wirebeat_traffic::compile::{Files, Link, Links, compile_numbered};
use wirebeat_traffic::scenario::{PortSpec, Scenario};
use wirebeat_units::{Fault, Nanos};

use super::asked::{AskedSending, PORT, check_program, check_sources};
use super::asked_serving::{
    AskedServing, ServedPlace, ServedSessions, ServingLook, ServingOrder, take_summary,
};
use super::clock::ClockIdentity;
use super::grant::Grant;
use super::key::Key;
use super::message::{
    Count, Expected, ExpectedFlow, Limits, Measured, REPLY_LIMIT, Reply, Request,
};
use super::sent::{HeardSent, Sent, SentLook};
use super::serve_grant::ServeGrant;
use super::session::{Collector, Identity, Metering, SendingSide, ServingSide, Session};
use super::transport::{Channel, Stream};

/// Takes `bytes` as what each kind of peer might send.
pub fn feed(bytes: &[u8]) {
    as_stranger(bytes);
    as_sender(bytes);
    as_receiver(bytes);
}

/// A stream that gives `bytes`, then ends, and swallows what is written.
struct Tape<'a>(Cursor<&'a [u8]>);

impl Read for Tape<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Tape<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Tape<'_> {
    fn limit_reads(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn limit_writes(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes on the wire, to either end. Who knows no key gets no further than the handshake.
fn as_stranger(bytes: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(1);
    let clock = Arc::new(MonotonicClock);
    let tape = || Tape(Cursor::new(bytes));
    if let Ok(mut channel) = Channel::accept(tape(), &Key::public(), clock.clone(), deadline) {
        let _ = channel.receive(REPLY_LIMIT, deadline);
    }
    if let Ok(mut channel) = Channel::initiate(tape(), &Key::public(), clock, deadline) {
        let _ = channel.receive(REPLY_LIMIT, deadline);
    }
}

/// Decrypted requests, one each line.
fn as_sender(bytes: &[u8]) {
    let identity = Identity {
        limits: Limits { flows: 4 },
        clock: Arc::new(MonotonicClock),
        clock_identity: ClockIdentity::default(),
    };
    let mut metering = Nothing(
        Granted("10.0.0.0/24,fd00::/64,rate=1Gbps,time=60s".parse().ok()),
        Serving("10.0.0.1:1-65535,sessions=10,time=60s".parse().ok()),
    );
    let (mut session, _) = Session::welcome(&mut metering, &identity);
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(request) = Request::decode(line) else { continue };
        if session.answer(request, Nanos::ZERO).is_err() {
            break;
        }
    }
}

/// Decrypted replies, one each line, to a sender that announced two flows.
fn as_receiver(bytes: &[u8]) {
    let flow = |id| ExpectedFlow { id, name: String::new(), nominal_gap_ns: None };
    let expected = Expected {
        flows: vec![flow(0), flow(1)],
        delay_base: 0,
        relation: Relation::Same,
        run: 1,
        sent_from_ns: 0,
    };
    let mut collector = Collector::new(&expected);
    // so late that all intervals may have begun
    let now = Nanos::MAX;
    let mut heard = HeardSent::new([0, 1].into(), Nanos::from_millis(10));
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(reply) = Reply::decode(line) else { continue };
        match &reply {
            Reply::SentFlow(flow) if flow.check().is_ok() => drop(flow.stats(Nanos::ZERO)),
            Reply::Sending { intervals, .. } => drop(heard.take_in(intervals.clone(), now)),
            Reply::ServedGroup { summary, .. } => drop(take_summary((**summary).clone())),
            Reply::Sent(summary) => drop(heard.take_in(summary.intervals.clone(), now)),
            _ => {}
        }
        match collector.take(reply) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => break,
        }
    }
}

/// A receiver that nothing reaches.
struct Nothing(Granted, Serving);

impl Metering for Nothing {
    fn stations(&self) -> Vec<Station> {
        Vec::new()
    }

    fn begin(&mut self, _: &Expected) -> Result<(), String> {
        Ok(())
    }

    fn received(&self) -> Count {
        Count::default()
    }

    fn finish(&mut self, _: Nanos) -> Result<Measured, String> {
        Ok(Measured::default())
    }

    fn abandon(&mut self) {}

    fn sending(&mut self) -> Option<&mut dyn SendingSide> {
        Some(&mut self.0)
    }

    fn serving(&mut self) -> Option<&mut dyn ServingSide> {
        Some(&mut self.1)
    }
}

/// Holds what is asked against a grant, as a listener does, and serves nothing.
struct Serving(Option<ServeGrant>);

impl Serving {
    /// What passes has been compiled, and is accepted nowhere else.
    fn check(&self, asked: &AskedServing) -> Result<(), Fault> {
        let Some(grant) = &self.0 else { return Ok(()) };
        asked.check(grant)?;
        for group in asked.compile(&asked.scenario()?)?.groups {
            let (address, port) = group.servers.get(0);
            let at = address.map(|address| (address, port).into());
            assert!(at.is_some_and(|at| grant.allows(at)), "accepted at {at:?}");
            assert!(group.client.is_none() && group.starts.is_none(), "clients");
        }
        Ok(())
    }
}

impl ServingSide for Serving {
    fn grant(&self) -> ServeGrant {
        self.0.clone().unwrap_or(ServeGrant { places: Vec::new(), sessions: 0, time_ns: 0 })
    }

    fn prepare(&mut self, asked: AskedServing) -> Result<Vec<ServedPlace>, String> {
        self.check(&asked).map_err(|why| why.to_string())?;
        Ok(Vec::new())
    }

    fn start(&mut self, _: Nanos) -> Result<(), String> {
        Ok(())
    }

    fn heard(&mut self) {}

    fn served(&mut self, _: ServingOrder) -> Result<ServingLook, String> {
        Ok(ServingLook::Ended(Box::default()))
    }

    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn end(&mut self) -> Option<ServedSessions> {
        None
    }
}

/// Holds what is asked against a grant, as a listener does, and sends nothing.
struct Granted(Option<Grant>);

impl Granted {
    /// What passes has been compiled, and no frame of it may go anywhere else.
    fn check(&self, asked: &AskedSending) -> Result<(), Fault> {
        let Some(grant) = &self.0 else { return Ok(()) };
        asked.check(grant)?;
        let links = Links { ports: [(PORT.to_owned(), Link::imaginary(0))].into() };
        let own = links.ports.get(PORT).map_or(&[][..], |link| &link.addresses);
        check_sources(asked, own)?;
        let mut scenario = Scenario { seed: asked.seed, ..Scenario::default() };
        scenario.ports.insert(PORT.to_owned(), PortSpec::default());
        let flows = asked.flows.iter().map(|one| (one.name.clone(), (*one.flow).clone()));
        scenario.flows.extend(flows);
        let number = |place: u16| asked.flows.get(usize::from(place)).map_or(place, |one| one.id);
        let program = compile_numbered(&scenario, &links, &Files::default(), number);
        let program = program.map_err(|error| error.problem().fault())?;
        check_program(&program, program.flows.iter(), grant)?;
        for stream in &program.streams {
            let (image, mut slot) = (stream.frames.frame(), vec![0; 1 << 16]);
            for number in 0..16 {
                image.build(number, &mut slot);
                let v4 = || <[u8; 4]>::try_from(slot.get(30..34)?).ok().map(IpAddr::from);
                let v6 = || <[u8; 16]>::try_from(slot.get(38..54)?).ok().map(IpAddr::from);
                let to = if slot.get(12..14) == Some(&[0x08, 0x00]) { v4() } else { v6() };
                assert!(to.is_some_and(|to| grant.covers_address(to)), "a frame goes to {to:?}");
            }
        }
        Ok(())
    }
}

impl SendingSide for Granted {
    fn grant(&self) -> Grant {
        self.0.clone().unwrap_or(Grant { destinations: Vec::new(), rate_bps: 0, time_ns: 0 })
    }

    fn prepare(&mut self, asked: AskedSending) -> Result<Vec<Station>, String> {
        self.check(&asked).map_err(|why| why.to_string())?;
        Ok(Vec::new())
    }

    fn start(&mut self, _: Nanos) -> Result<(), String> {
        Ok(())
    }

    fn heard(&mut self) {}

    fn sent(&mut self, _: bool) -> Result<SentLook, String> {
        Ok(SentLook::Ended(Sent::default()))
    }

    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn end(&mut self) -> Option<Sent> {
        None
    }
}
