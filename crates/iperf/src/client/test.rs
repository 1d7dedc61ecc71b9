//! One test against a server, from the cookie to the goodbye.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use wirebeat_host::tcp_info;
use wirebeat_units::{Bytes, Nanos};

use super::Target;
use super::streams::open;
use crate::channel::{Channel, Expected};
use crate::control::{
    ControlError, Cookie, Inbox, RESULTS_MAX, RESULTS_WITH_OUTPUT_MAX, Results, State,
};
use crate::data::{Group, Notice, Stream, Work, congestion};
use crate::idle::Idle;
use crate::measurement::{Measured, Measurement, add_theirs, cpu_of};
use crate::result::{End, Role, end_of};
use crate::socket::{connect, now, wait};
use crate::{Error, Event, Started, Stop, TestResult, TestSpec};

/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(100);
/// A stream that broke ends the test, unless the server says why within this time.
const BROKEN: Nanos = Nanos::from_secs(2);
/// What a segment of a connection holds where the kernel does not say.
const SEGMENT: usize = 1460;

/// Runs a test, in the network namespace of the calling thread, until it has enough or is asked to stop.
///
/// # Errors
/// What is wrong with the specification, with the connections, or with what the server sends. A test that one end stopped before its
/// time is no error but an [`End`].
pub fn run(
    target: &Target,
    spec: &TestSpec,
    stop: &Stop,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<TestResult, Error> {
    spec.check_iperf3().map_err(Error::Refused)?;
    let address = target.address;
    let deadline = now().saturating_add(target.patience);
    let no_delay = |socket: BorrowedFd<'_>| Ok(sockopt::set_tcp_nodelay(socket, true)?);
    let control = connect(address, target.local, deadline, no_delay)
        .map_err(|source| Error::Connect { address, source })?;
    let mut test = Test { channel: Channel::new(control), target, spec, stop, events };
    let ended = test.signalling();
    if ended.as_ref().is_err_and(|error| {
        !matches!(error, Error::Busy | Error::Terminated | Error::Closed { .. })
    }) {
        // best effort: the server may be gone
        let _ = test.channel.send_state(State::ClientTerminate);
    }
    ended
}

/// A new cookie: the keys of the standard library's hash maps are the system's random numbers.
fn cookie() -> Cookie {
    let mut random = [0; Cookie::LEN - 1];
    for chunk in random.chunks_mut(8) {
        let word = RandomState::new().build_hasher().finish().to_ne_bytes();
        for (to, from) in chunk.iter_mut().zip(word) {
            *to = from;
        }
    }
    Cookie::from_random(random)
}

/// What came of a test until its data ended.
struct Ran {
    ended: Result<End, Error>,
    measured: Measured,
    /// The thread that receives on.
    receivers: Option<Group>,
}

struct Test<'a> {
    channel: Channel,
    target: &'a Target,
    spec: &'a TestSpec,
    stop: &'a Stop,
    events: &'a mut dyn FnMut(Event<'_>),
}

impl Test<'_> {
    fn expect<T>(
        &mut self,
        what: &'static str,
        take: impl FnMut(&mut Inbox) -> Result<Option<T>, ControlError>,
    ) -> Result<T, Error> {
        let stop = self.stop;
        let mut wait_for_server = |fd: BorrowedFd<'_>, deadline: Nanos| {
            if stop.asked() {
                return Err(Error::Stopped);
            }
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            wait(&mut fds, deadline.min(now().saturating_add(LOOK_AROUND)))
                .map_err(Error::socket("wait for the server"))
        };
        let expected = Expected { what, patience: self.target.patience };
        self.channel.expect(expected, &mut wait_for_server, take)
    }

    /// Waits for a state, which has to be `wanted`.
    fn expect_state(&mut self, wanted: State, what: &'static str) -> Result<(), Error> {
        let state = self.expect(what, Inbox::state)?;
        if state == wanted { Ok(()) } else { Err(self.other(state, what)) }
    }

    /// What a state means that was not wanted.
    fn other(&mut self, state: State, expected: &'static str) -> Error {
        match state {
            State::AccessDenied => Error::Busy,
            State::ServerTerminate => Error::Terminated,
            State::ServerError => {
                match self.expect("numbers of an error", |inbox| Ok(inbox.error_numbers())) {
                    Ok((code, errno)) => Error::ServerError { code, errno },
                    Err(error) => error,
                }
            }
            got => ControlError::Unexpected { got, expected }.into(),
        }
    }

    fn signalling(&mut self) -> Result<TestResult, Error> {
        let failed = || Error::socket("ask for an address");
        let local = self.channel.stream.local_addr().map_err(failed())?;
        let peer = self.channel.stream.peer_addr().map_err(failed())?;
        let cookie = cookie();
        self.channel.send(cookie.as_bytes())?;
        self.expect_state(State::ParamExchange, "PARAM_EXCHANGE")?;
        let segment = tcp_info(self.channel.fd()).map_or(SEGMENT, |info| info.snd_mss as usize);
        let block = self.spec.block_len(segment);
        let parameters = self.spec.to_parameters(block).to_json();
        self.channel.send_message(&parameters)?;
        self.expect_state(State::CreateStreams, "CREATE_STREAMS")?;
        let streams = open(self.target, self.spec, cookie, self.stop)?;
        self.expect_state(State::TestStart, "TEST_START")?;
        self.expect_state(State::TestRunning, "TEST_RUNNING")?;
        (self.events)(Event::Started(&Started { peer, spec: self.spec.clone(), block }));
        let congestion = congestion(&streams);
        // receivers go on until the server has stopped sending
        let Ran { ended, mut measured, receivers } = self.running(block, &streams)?;
        let (end, fault) = end_of(ended);
        measured.results.congestion_used.clone_from(&congestion);
        let mut result = TestResult {
            role: Role::Client,
            end,
            fault,
            spec: self.spec.clone(),
            block: Bytes::new(block as u64),
            local,
            peer,
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
        if end == End::Failed {
            // best effort: the server may be gone
            let _ = self.channel.send_state(State::ClientTerminate);
        }
        if end != End::Completed {
            return Ok(result);
        }
        // what was measured counts, whatever becomes of the goodbye
        if let Err(error) = self.exchange(&mut result, &measured.results, receivers) {
            (result.end, result.fault) = end_of(Err(error));
        }
        Ok(result)
    }

    /// Both ends tell each other what they counted.
    fn exchange(
        &mut self,
        result: &mut TestResult,
        ours: &Results,
        receivers: Option<Group>,
    ) -> Result<(), Error> {
        self.expect_state(State::ExchangeResults, "EXCHANGE_RESULTS")?;
        drop(receivers);
        self.channel.send_message(&ours.to_json())?;
        let limit = if self.spec.server_output { RESULTS_WITH_OUTPUT_MAX } else { RESULTS_MAX };
        let message = self.expect("results", |inbox| inbox.message(limit))?;
        let theirs = Results::read(&message)?;
        add_theirs(&mut result.streams, &theirs, ours);
        result.their_cpu = Some(cpu_of(&theirs));
        result.their_congestion = theirs.congestion_used;
        result.server_output = theirs.output;
        self.expect_state(State::DisplayResults, "DISPLAY_RESULTS")?;
        // it has all of our results already
        let _ = self.channel.send_state(State::IperfDone);
        Ok(())
    }

    /// From the first byte to the last.
    fn running(&mut self, block: usize, streams: &[Arc<Stream>]) -> Result<Ran, Error> {
        let spec = self.spec;
        let notice = Notice::new().map_err(Error::socket("make an event file"))?;
        let of = |sending| {
            let streams = streams.iter().filter(move |stream| stream.sending == sending);
            streams.cloned().collect::<Vec<_>>()
        };
        let mut measurement = Measurement::begin(streams, spec, now());
        let enough = spec.bytes(block);
        let mut receivers = None;
        if spec.direction.server_sends() {
            let work = Work::Receive { block, counter: spec.counter };
            receivers = Some(Group::start(of(false), work, &notice)?);
        }
        let mut senders = None;
        if spec.direction.client_sends() {
            // while time is omitted there is no end to it
            let limit = enough.filter(|_| !measurement.omitting()).unwrap_or(u64::MAX);
            let work =
                Work::Send { block, rate: spec.rate, counter: spec.counter, limit, each: u64::MAX };
            senders = Some(Group::start(of(true), work, &notice)?);
        }
        let mut idle = Idle::new(self.target.idle, spec, block);
        let mut broken: Option<(Nanos, std::io::Error)> = None;
        let mut until_the_end = || loop {
            let time = now();
            if measurement.turn(time, self.events)
                && let (Some(senders), Some(bytes)) = (&senders, enough)
            {
                // of what was counted, and not of what has gone since
                senders.set_limit(measurement.bytes_omitted(true).saturating_add(bytes));
            }
            let until = match spec.time() {
                Some(lasts) => measurement.counts_from().saturating_add(lasts),
                None => Nanos::MAX,
            };
            let all_sent = senders.as_ref().is_some_and(Group::exhausted);
            let all_received = receivers.is_some()
                && enough.is_some_and(|bytes| measurement.bytes(false) >= bytes);
            if !measurement.omitting() && (time >= until || all_sent || all_received) {
                break Ok(End::Completed);
            }
            match self.channel.state()? {
                None => {}
                Some(State::ServerTerminate) => break Ok(End::Terminated),
                Some(state) => return Err(self.other(state, "nothing")),
            }
            if self.stop.asked() {
                self.channel.send_state(State::ClientTerminate)?;
                break Ok(End::Stopped);
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
            // receivers of an amount are looked at more often than they tell anything
            let look = match (enough, &receivers) {
                (Some(_), Some(_)) => Nanos::from_millis(1),
                _ => LOOK_AROUND,
            };
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut fds = [readable(self.channel.stream.as_fd()), readable(notice.waker.as_fd())];
            let next = measurement.next().min(until).min(time.saturating_add(look));
            wait(&mut fds, next).map_err(Error::socket("wait for the server"))?;
        };
        let mut ended = until_the_end();
        if let Some(senders) = &mut senders {
            senders.stop();
        }
        let measured = measurement.finish(now(), self.events);
        if matches!(ended, Ok(End::Completed))
            && let Err(error) = self.channel.send_state(State::TestEnd)
        {
            ended = Err(error);
        }
        Ok(Ran { ended, measured, receivers })
    }
}
