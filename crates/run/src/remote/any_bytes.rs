//! Every parser of the control connection, driven by bytes alone.
//!
//! What the fuzz target and the tests call to show that no bytes break either end: as a stranger that
//! connects or is connected to, as a sender that knows the key, as a receiver that does.

use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirebeat_engine::clock::MonotonicClock;
use wirebeat_report::model::{Relation, Station};
use wirebeat_units::Nanos;

use super::clock::ClockIdentity;
use super::key::Key;
use super::message::{
    Count, Expected, ExpectedFlow, Limits, Measured, REPLY_LIMIT, Reply, Request,
};
use super::session::{Collector, Identity, Metering, Session};
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
    let mut metering = Nothing;
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
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(reply) = Reply::decode(line) else { continue };
        match collector.take(reply) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => break,
        }
    }
}

/// A receiver that nothing reaches.
struct Nothing;

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
}
