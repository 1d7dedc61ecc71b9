//! One test, from the cookie to the goodbye.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use wirebeat_units::{BitRate, Bytes, Nanos, fault};

use super::admission::{Admission, Arrived};
use super::streams::{Agreed, Entrance, collect};
use super::{LOOK_AROUND, ServerOptions};
use crate::channel::{Channel, Expected};
use crate::control::{
    ControlError, Cookie, PARAMETERS_MAX, Parameters, RESULTS_MAX, Results, State,
};
use crate::data::{Group, Notice, Stream, Work, congestion};
use crate::error::{Refusal, code};
use crate::idle::Idle;
use crate::measurement::{Measured, Measurement, add_theirs, cpu_of};
use crate::output::output;
use crate::result::{End, Role};
use crate::socket::now;
use crate::{Error, Event, Started, Stop, TestResult, TestSpec};

/// What a test may take longer than it asked for: ten steps of the signalling at a round-trip time of four seconds, as iperf3
/// has it.
const GRACE: Nanos = Nanos::from_secs(40);
/// How much longer than it asked for a test is sent: the client's request to end it may be on its way. iperf3 allows [`GRACE`].
const SEND_GRACE: Nanos = Nanos::from_secs(5);
/// A stream that broke ends the test, unless the client says why within this time.
const BROKEN: Nanos = Nanos::from_secs(2);
/// How long a client may take to say goodbye.
const GOODBYE: Nanos = Nanos::from_secs(2);

/// Runs the test that this connection asks for. Its client is told why where it fails.
pub(super) fn run(
    admission: &mut Admission<Cookie>,
    first: Arrived<Cookie>,
    options: &ServerOptions,
    stop: &Stop,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<TestResult, Error> {
    let mut channel = Channel::new(first.stream);
    let local = channel.stream.local_addr().map_err(Error::socket("ask for an address"))?;
    let mut test = Test { admission, options, stop, events };
    let party = Party { cookie: first.greeting, local, peer: first.peer };
    let ended = test.signalling(&mut channel, &party);
    if let Err(error) = &ended {
        // best effort: the client may be gone
        let _ = match error {
            Error::Refused(refusal) => channel.send(&server_error(refusal.code)),
            Error::Control(ControlError::Json { what: "parameters", .. }) => {
                channel.send(&server_error(code::PARAMETERS))
            }
            Error::Closed { .. } => Ok(()),
            _ => channel.send_state(State::ServerTerminate),
        };
    }
    ended
}

/// `SERVER_ERROR` with iperf3's number, and zero for that of the system.
fn server_error(number: i32) -> Vec<u8> {
    let [a, b, c, d] = number.to_be_bytes();
    vec![State::ServerError.byte(), a, b, c, d, 0, 0, 0, 0]
}

/// Who a test is for.
struct Party {
    cookie: Cookie,
    local: std::net::SocketAddr,
    peer: std::net::SocketAddr,
}

/// What a test uses of the server.
struct Test<'a> {
    admission: &'a mut Admission<Cookie>,
    options: &'a ServerOptions,
    stop: &'a Stop,
    events: &'a mut dyn FnMut(Event<'_>),
}

impl Test<'_> {
    /// Waits for the control connection; others that come are told that the server is busy.
    fn wait(&mut self, others: &[BorrowedFd<'_>], deadline: Nanos) -> Result<(), Error> {
        self.admission.turn(others, deadline.min(now().saturating_add(LOOK_AROUND)))?;
        for peer in self.admission.deny_all() {
            (self.events)(Event::Denied(peer));
        }
        Ok(())
    }

    fn expect<T>(
        &mut self,
        channel: &mut Channel,
        what: &'static str,
        patience: Nanos,
        take: impl FnMut(&mut crate::control::Inbox) -> Result<Option<T>, ControlError>,
    ) -> Result<T, Error> {
        let expected = Expected { what, patience };
        let mut wait = |fd: BorrowedFd<'_>, deadline: Nanos| {
            if self.stop.asked() {
                return Err(Error::Stopped);
            }
            self.wait(&[fd], deadline)
        };
        channel.expect(expected, &mut wait, take)
    }

    fn signalling(&mut self, channel: &mut Channel, party: &Party) -> Result<TestResult, Error> {
        let patience = self.options.limits.patience;
        channel.send_state(State::ParamExchange)?;
        let message =
            self.expect(channel, "parameters", patience, |i| i.message(PARAMETERS_MAX))?;
        let parameters = Parameters::read(&message)?;
        let spec = self.accept(&parameters)?;
        let agreed = Agreed {
            spec: &spec,
            cookie: party.cookie,
            local: party.local,
            peer: party.peer,
            patience,
            stop: self.stop,
        };
        let mut entrance = Entrance::open(self.admission, &agreed)?;
        let mut denied = |peer| (self.events)(Event::Denied(peer));
        let collected = match channel.send_state(State::CreateStreams) {
            Ok(()) => {
                let control = channel.stream.as_fd();
                collect(self.admission, &mut entrance, &agreed, control, &mut denied)
            }
            Err(error) => Err(error),
        };
        entrance.close(self.admission);
        let streams = collected?;
        let block = spec.block_len(1460);
        (self.events)(Event::Started(&Started { peer: party.peer, spec: spec.clone(), block }));
        channel.send_state(State::TestStart)?;
        let congestion = congestion(&streams);
        let (end, mut measured) = self.running(channel, &spec, block, &streams)?;
        measured.results.congestion_used.clone_from(&congestion);
        if spec.server_output && end == End::Completed {
            measured.results.output = Some(output(&measured, self.options.output));
        }
        let mut result = TestResult {
            role: Role::Server,
            end,
            fault: None,
            spec,
            block: Bytes::new(block as u64),
            local: party.local,
            peer: party.peer,
            time: measured.time,
            streams: measured.streams,
            intervals: measured.intervals,
            intervals_not_kept: measured.intervals_not_kept,
            our_cpu: measured.cpu,
            their_cpu: None,
            our_congestion: congestion,
            their_congestion: None,
            server_output: None,
        };
        if end != End::Completed {
            return Ok(result);
        }
        channel.send_state(State::ExchangeResults)?;
        let message = self.expect(channel, "results", patience, |i| i.message(RESULTS_MAX))?;
        let theirs = Results::read(&message)?;
        channel.send_message(&measured.results.to_json())?;
        add_theirs(&mut result.streams, &theirs, &measured.results);
        result.their_cpu = Some(cpu_of(&theirs));
        result.their_congestion = theirs.congestion_used;
        result.server_output = measured.results.output;
        channel.send_state(State::DisplayResults)?;
        // a client that is gone without a goodbye has its results all the same
        let _ = self.expect(channel, "goodbye", GOODBYE, |inbox| inbox.state());
        Ok(result)
    }

    /// The test that the parameters ask for, held against the limits.
    fn accept(&self, parameters: &Parameters) -> Result<TestSpec, Error> {
        let limits = &self.options.limits;
        let mut spec = TestSpec::from_parameters(parameters).map_err(Error::Refused)?;
        if spec.streams > limits.streams {
            let fault = fault!("{} streams; at most {} are served", spec.streams, limits.streams);
            return Err(Error::Refused(Refusal::new(code::STREAMS, fault)));
        }
        let asked = spec.time().unwrap_or(Nanos::ZERO).saturating_add(spec.omit);
        if asked > limits.time {
            let fault = fault!("a time of {asked}; at most {} are served", limits.time);
            return Err(Error::Refused(Refusal::new(code::DURATION, fault)));
        }
        spec.interval = self.options.interval;
        Ok(spec)
    }

    /// The rate of each stream that is sent: no more than asked for, nor than allowed.
    fn rate(&self, spec: &TestSpec) -> Option<BitRate> {
        let share = |limit: BitRate| BitRate((limit.0 / u64::from(spec.streams.max(1))).max(1));
        let allowed = self.options.limits.rate.map(share);
        spec.rate.into_iter().chain(allowed).min()
    }

    /// From the first byte to the last: how it ended, and what was measured.
    fn running(
        &mut self,
        channel: &mut Channel,
        spec: &TestSpec,
        block: usize,
        streams: &[Arc<Stream>],
    ) -> Result<(End, Measured), Error> {
        let notice = Notice::new().map_err(Error::socket("make an event file"))?;
        let of = |sending| {
            let streams = streams.iter().filter(move |stream| stream.sending == sending);
            streams.cloned().collect::<Vec<_>>()
        };
        let mut measurement = Measurement::begin(streams, spec, now());
        let begun = now();
        let mut receivers = None;
        if spec.direction.client_sends() {
            let work = Work::Receive { block, counter: spec.counter };
            receivers = Some(Group::start(of(false), work, &notice)?);
        }
        channel.send_state(State::TestRunning)?;
        let mut senders = None;
        if spec.direction.server_sends() {
            // while time is omitted there is no end to it, but that of the test
            let limit = spec.bytes(block).filter(|_| !measurement.omitting()).unwrap_or(u64::MAX);
            let work = Work::Send {
                block,
                rate: self.rate(spec),
                counter: spec.counter,
                limit,
                each: u64::MAX,
            };
            senders = Some(Group::start(of(true), work, &notice)?);
        }
        let last = begun.saturating_add(self.longest(spec));
        let send_until = begun
            .saturating_add(spec.time().unwrap_or(self.options.limits.time))
            .saturating_add(spec.omit)
            .saturating_add(SEND_GRACE);
        let mut idle = Idle::new(self.options.limits.idle, spec, block);
        let mut broken: Option<(Nanos, std::io::Error)> = None;
        let end = loop {
            let time = now();
            if measurement.turn(time, self.events)
                && let (Some(senders), Some(bytes)) = (&senders, spec.bytes(block))
            {
                // of what was counted, and not of what has gone since
                senders.set_limit(measurement.bytes_omitted(true).saturating_add(bytes));
            }
            match channel.state()? {
                None => {}
                Some(State::TestEnd) => break End::Completed,
                Some(State::ClientTerminate) => break End::Terminated,
                Some(got) => {
                    let expected = "TEST_END";
                    return Err(ControlError::Unexpected { got, expected }.into());
                }
            }
            if self.stop.asked() {
                channel.send_state(State::ServerTerminate)?;
                break End::Stopped;
            }
            if time >= last {
                let waited = time.saturating_sub(begun);
                return Err(Error::Silent { waiting_for: "end of the test", waited });
            }
            if time >= send_until
                && let Some(senders) = &mut senders
            {
                senders.stop();
            }
            let moved = [true, false].map(|sent| measurement.bytes_from_the_beginning(sent));
            if idle.is_over(moved, time) {
                return Err(Error::Silent { waiting_for: "data", waited: idle.limit });
            }
            notice.waker.reset();
            if let Some(error) = notice.take_broken() {
                broken.get_or_insert((time.saturating_add(BROKEN), error));
            }
            if let Some((_, source)) = broken.take_if(|(until, _)| time >= *until) {
                return Err(Error::Socket { what: "use a stream", source });
            }
            let others = [channel.stream.as_fd(), notice.waker.as_fd()];
            self.wait(&others, measurement.next())?;
        };
        if let Some(senders) = &mut senders {
            senders.stop();
        }
        // a client that receives reads whole blocks, or to the end, before it looks at the control connection again
        streams.iter().filter(|stream| stream.sending).for_each(|stream| stream.finish());
        if let Some(receivers) = &mut receivers {
            receivers.drain();
        }
        Ok((end, measurement.finish(now(), self.events)))
    }

    /// How long a test may last, all in all.
    fn longest(&self, spec: &TestSpec) -> Nanos {
        let limit = self.options.limits.time;
        let asked = match spec.time() {
            Some(time) => time.saturating_add(spec.omit).min(limit),
            None => limit,
        };
        asked.saturating_add(GRACE)
    }
}
