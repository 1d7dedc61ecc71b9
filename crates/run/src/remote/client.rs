//! The sender's end of a control connection.
//!
//! [`Connection::open`] shakes hands and greets, [`Connection::begin`] makes the receiver measure,
//! [`Measurement::received`] tells how it goes, [`Measurement::finish`] fetches the result, and
//! [`Measurement::finish_run`] gives the connection back for the next run. A receiver
//! gives up a sender that is silent, so ask about once a second, or [`Connection::keep`] it while
//! nothing has begun (a [`RestingConnection`](super::RestingConnection) does). Nothing that a receiver says is believed before it has been checked.

mod sending;
mod serving;

use std::collections::BTreeSet;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_meter::interval::{Beat, MeterBooks};
use wirebeat_meter::series::Series;
use wirebeat_report::assemble::Clocks;
use wirebeat_report::model::{Relation, Station};
use wirebeat_units::Nanos;

use super::clock::{ClockIdentity, ClockLead, ClockRelation, Exchange};
use super::intervals::{AskedIntervals, Heard};
use super::message::{
    Count, Expected, ExpectedFlow, LONGEST_SETTLE, Measured, PROTOCOL, REPLY_LIMIT, Reply, Request,
    Version, Welcome,
};
use super::sent::HeardSent;
use super::session::Collector;
use super::transport::{Channel, Halt, PACE, ReceivedMessage, TransportError};
use super::{Key, RemoteError, Timeouts, key_for};
use crate::observe::Stop;
use crate::options::{KeySource, Peer};
use sending::FarSending;

/// How many exchanges compare the clocks.
const EXCHANGES: usize = 64;
/// The least number of them, however long they take.
const FEWEST: usize = 8;
/// How long they may take altogether, beyond the fewest.
const COMPARING: Duration = Duration::from_millis(500);
/// How long a look at the count waits for a fresh one.
const GLANCE: Duration = Duration::from_millis(20);
/// Between two attempts to connect to a receiver that has too many connections, at first; then twice as long each time.
const AGAIN: Duration = Duration::from_millis(20);
/// The longest time between two attempts.
const AGAIN_MAX: Duration = Duration::from_millis(500);
/// How long a result may take after the user asked to stop, beyond the time that frames on their way have.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// Who calls: the sender's own side of a connection.
#[derive(Clone)]
pub struct Caller {
    /// The clock that probes are stamped with.
    pub clock: Arc<dyn Clock>,
    /// Which clock that is.
    pub clock_identity: ClockIdentity,
    /// How long anything may take.
    pub timeouts: Timeouts,
}

impl Default for Caller {
    /// This host, with its monotonic clock.
    fn default() -> Self {
        Caller {
            clock: Arc::new(MonotonicClock),
            clock_identity: ClockIdentity::here(),
            timeouts: Timeouts::default(),
        }
    }
}

/// A connection to a receiver that has said who it is.
pub struct Connection {
    line: Line,
    caller: Caller,
    welcome: Welcome,
    /// What all comparisons of the clocks for a run allow so far, and how many exchanges those took.
    compared: Option<(ClockLead, usize)>,
    /// The number of the run that began last; 0: none has.
    run: u64,
}

/// A measurement by the receiver at the other end.
pub struct Measurement {
    connection: Connection,
    expected: Expected,
    stations: Vec<Station>,
    /// The latest count.
    count: Count,
    /// When a count was asked for that has not come yet.
    asked: Option<Instant>,
    /// Puts a result together that the receiver tells unasked, because it ends.
    early: Collector,
    /// That result, when it is whole.
    ended: Option<Measured>,
    /// What it tells of intervals is not taken any more.
    is_refused: bool,
    /// When intervals end, until that was said.
    ends: Option<AskedIntervals>,
    heard: Heard,
    /// How the clocks relate, as far as that is known.
    clocks: ClockRelation,
    /// What the listener sends, and in which intervals.
    far: FarSending,
    heard_sent: HeardSent,
}

/// What a receiver measured, and how its clock relates to ours.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteOutcome {
    /// The measurements, validated. The delay base of each flow has been corrected: the delays that it
    /// makes are those on one clock, up to the uncertainty in [`RemoteOutcome::clocks`].
    pub measured: Measured,
    /// What it measured in intervals that were not taken before.
    pub intervals: Series<MeterBooks>,
    /// How the clocks relate, judged by comparisons before and after the run.
    pub clocks: ClockRelation,
    /// The receiver ended before it was asked for its result: frames after that were not measured.
    pub ended_early: bool,
}

impl Connection {
    /// Connects to the receiver at `peer`, and greets it.
    pub fn open(peer: &Peer) -> Result<Connection, RemoteError> {
        Connection::open_as(Caller::default(), peer.address, peer.key.as_ref())
    }

    /// Connects as `caller`; a receiver on a loopback address may need no key.
    pub fn open_as(
        caller: Caller,
        address: SocketAddr,
        key: Option<&KeySource>,
    ) -> Result<Connection, RemoteError> {
        let key = key_for(address, key)?;
        let waited = caller.timeouts.waiting;
        let until = Instant::now() + waited;
        let mut pause = AGAIN;
        loop {
            match Connection::attempt(&caller, address, &key, until) {
                Ok((line, welcome)) => {
                    return Ok(Connection { line, caller, welcome, compared: None, run: 0 });
                }
                // It gave this connection up for others: the next one may be luckier.
                Err(RemoteError::Crowded { .. }) if Instant::now() + pause < until => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(AGAIN_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Connects and greets once.
    fn attempt(
        caller: &Caller,
        address: SocketAddr,
        key: &Key,
        until: Instant,
    ) -> Result<(Line, Welcome), RemoteError> {
        let waited = caller.timeouts.waiting;
        let unreachable = |source| RemoteError::Unreachable { address, source };
        let left = until.saturating_duration_since(Instant::now()).max(AGAIN);
        let stream = TcpStream::connect_timeout(&address, left).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let clock = Arc::clone(&caller.clock);
        let channel =
            Channel::initiate(stream, key, clock, until).map_err(|error| match error {
                TransportError::Crowded => RemoteError::Crowded { address, waited },
                TransportError::TimedOut => RemoteError::Silent { address, waited },
                error => RemoteError::broken(address, error),
            })?;
        let mut line = Line {
            channel,
            address,
            patience: caller.timeouts.answer,
            broken: None,
            is_closed: false,
        };
        match line.greet() {
            // What proves the key also has a bound, and the oldest has to go.
            Err(RemoteError::Gone { .. }) if line.is_closed => {
                Err(RemoteError::Crowded { address, waited })
            }
            greeted => Ok((line, greeted?)),
        }
    }

    /// From now on waiting for the receiver ends as soon as `stop` is asked.
    pub fn heed(&mut self, stop: &Stop) {
        self.line.channel.heed(Some(Halt { stop: stop.clone(), grace: Duration::ZERO }));
    }

    /// From now on nothing ends that but the time that it may take.
    pub(super) fn heed_nobody(&mut self) {
        self.line.channel.heed(None);
    }

    /// Who receives: its version, ports and limits.
    pub fn receiver(&self) -> &Welcome {
        &self.welcome
    }

    /// Lets the receiver know that this sender is still there.
    pub fn keep(&mut self) -> Result<(), RemoteError> {
        match self.line.ask(&Request::Received)? {
            Reply::Received(_) => Ok(()),
            _ => Err(self.line.unexpected()),
        }
    }

    /// Compares the clocks and makes the receiver measure `flows` from now on.
    pub fn begin(mut self, flows: Vec<ExpectedFlow>) -> Result<Measurement, RemoteError> {
        let limit = self.welcome.limits.flows;
        if flows.len() > usize::from(limit) {
            let (address, asked) = (self.line.address, flows.len());
            return Err(RemoteError::TooManyFlows { address, limit, asked });
        }
        let (ahead, clocks) = self.compare()?;
        self.run += 1;
        let mut expected = Expected {
            run: self.run,
            flows,
            delay_base: match clocks.relation {
                Relation::Same => 0,
                // The least that is possible: no delay is negative then, which a histogram could
                // not hold.
                Relation::Bounded | Relation::Unbounded => ahead.low(),
            },
            relation: clocks.relation,
            sent_from_ns: self.caller.clock.now().get(),
        };
        expected.tame();
        match self.line.ask(&Request::Begin(expected.clone()))? {
            Reply::Begun { run, stations } if run == expected.run => Ok(Measurement {
                connection: self,
                early: Collector::new(&expected),
                ended: None,
                is_refused: false,
                ends: None,
                heard: Heard::new(expected.flows.iter().map(|flow| flow.id).collect()),
                clocks,
                expected,
                stations,
                count: Count::default(),
                asked: None,
                far: FarSending::Nothing,
                heard_sent: HeardSent::new(BTreeSet::new(), Nanos::ZERO),
            }),
            _ => Err(self.line.unexpected()),
        }
    }

    /// How the clocks relate by the comparisons so far, of a receiver that answers no more.
    fn compared_before(&self) -> Result<ClockRelation, RemoteError> {
        let (ahead, taken) =
            self.compared.ok_or_else(|| self.line.untrue("it has told no time".to_owned()))?;
        let identities = (&self.caller.clock_identity, &self.welcome.clock);
        Ok(ClockRelation::new(identities, ahead, taken))
    }

    /// Compares the clocks anew. What is known then covers this and every earlier comparison.
    fn compare(&mut self) -> Result<(ClockLead, ClockRelation), RemoteError> {
        let begun = Instant::now();
        // For all of them: a receiver that is slow each time gains nothing.
        let deadline = begun + self.line.patience;
        let mut exchanges = Vec::with_capacity(EXCHANGES);
        while exchanges.len() < FEWEST
            || (exchanges.len() < EXCHANGES && begun.elapsed() < COMPARING)
        {
            exchanges.push(self.line.exchange(deadline)?);
        }
        let mut ahead = ClockLead::of(&exchanges)
            .ok_or_else(|| self.line.untrue("its clock gives times that cannot be".to_owned()))?;
        let mut taken = exchanges.len();
        if let Some((earlier, exchanges)) = self.compared {
            (ahead, taken) = (ahead.or(earlier), taken + exchanges);
        }
        self.compared = Some((ahead, taken));
        let identities = (&self.caller.clock_identity, &self.welcome.clock);
        Ok((ahead, ClockRelation::new(identities, ahead, taken)))
    }
}

impl Measurement {
    /// The receiver's ports.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// Where the receiver is.
    pub fn address(&self) -> SocketAddr {
        self.connection.line.address
    }

    /// What the receiver has counted so far, by the latest that it told. Never waits for a receiver that
    /// does not answer; one that has not answered for long is gone.
    pub fn received(&mut self) -> Result<Count, RemoteError> {
        self.look(Request::Received)?;
        Ok(self.count)
    }

    /// From now on the receiver measures in intervals that end as `beat` says on our clock.
    pub fn begin_intervals(&mut self, beat: Beat) {
        self.ends = Some(AskedIntervals::of(beat, self.clocks.ahead_ns));
        // that it is gone is found at the end
        let _ = self.look_at_intervals();
    }

    /// Asks for what it measured in intervals, or looks whether it has answered. Never waits for long.
    pub fn look_at_intervals(&mut self) -> Result<(), RemoteError> {
        if self.is_refused {
            return Ok(());
        }
        let ends = if self.asked.is_none() { self.ends.take() } else { None };
        self.look(Request::Intervals { ends })
    }

    /// What it has told of intervals since the last call, and below which number they are complete.
    pub fn take_intervals(&mut self) -> (Series<MeterBooks>, u64) {
        self.heard.take(self.clocks.ahead_ns)
    }

    /// What it told of intervals takes more memory than there is for it: no more is asked, and [`Measurement::finish`] fails.
    pub fn refuse_intervals(&mut self) {
        self.is_refused = true;
    }

    /// Delays are uncertain by so many nanoseconds, as far as that is known.
    pub fn uncertainty(&self) -> Option<u64> {
        match self.clocks.clocks() {
            Clocks::Same => Some(0),
            Clocks::Bounded { bound, .. } => Some(bound.get()),
            Clocks::Unbounded(_) => None,
        }
    }

    /// Asks `request` if nothing has been asked, and takes the answer if it is there.
    fn look(&mut self, request: Request) -> Result<(), RemoteError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let line = &mut self.connection.line;
        let asked = match self.asked {
            Some(asked) => asked,
            None => {
                line.say(&request)?;
                *self.asked.insert(Instant::now())
            }
        };
        match line.glance()? {
            Some(reply @ (Reply::Flow { .. } | Reply::Finished(_))) => self.take_early(reply)?,
            Some(reply) => self.take_count(&reply)?,
            // A part of an answer is none.
            None if asked.elapsed() >= line.patience => {
                return Err(line.broke(TransportError::TimedOut));
            }
            None => {}
        }
        Ok(())
    }

    /// The same, by an answer to a question of now where one comes in time.
    pub fn received_now(&mut self, patience: Duration) -> Result<Count, RemoteError> {
        const STEP: Duration = Duration::from_millis(5);
        let until = Instant::now() + patience;
        // the first answer may be to an earlier question
        for _ in 0..2 {
            self.received()?;
            while self.asked.is_some() && Instant::now() < until {
                thread::sleep(STEP);
                self.received()?;
            }
        }
        Ok(self.count)
    }

    /// The receiver ends and tells its result unasked, in as many replies as it takes.
    fn take_early(&mut self, first: Reply) -> Result<(), RemoteError> {
        let line = &mut self.connection.line;
        let mut deadline = Instant::now() + line.patience;
        let mut reply = first;
        loop {
            let whole = self.early.take(reply).map_err(|what| line.untrue(what))?;
            if let Some(measured) = whole {
                (self.ended, self.asked) = (Some(measured), None);
                return Ok(());
            }
            let bytes;
            (reply, bytes) = line.hear_sized(deadline)?;
            deadline += PACE.time_for(bytes);
        }
    }

    /// The count that was asked for.
    fn take_count(&mut self, reply: &Reply) -> Result<(), RemoteError> {
        match reply {
            Reply::Received(count) if !count.is_possible() => {
                let what = "it counts more frames than any link carries".to_owned();
                Err(self.connection.line.untrue(what))
            }
            Reply::Received(count) => {
                (self.count, self.asked) = (*count, None);
                Ok(())
            }
            Reply::Sending { .. } | Reply::SentFlow(_) | Reply::Sent(_) => self.take_sending(reply),
            Reply::Intervals(told) => {
                self.asked = None;
                let taken = self.heard.take_in((**told).clone());
                taken.map_err(|what| self.connection.line.untrue(what))
            }
            _ => Err(self.connection.line.unexpected()),
        }
    }

    /// From now on waiting for the result ends soon after `stop` is asked; frames may be on their way for `settle`.
    pub fn heed(&mut self, stop: &Stop, settle: Nanos) {
        let settle = settle.min(LONGEST_SETTLE).to_duration();
        // Here, and then at the receiver.
        self.heed_for(stop, AFTER_STOP + settle * 2);
    }

    pub(super) fn heed_for(&mut self, stop: &Stop, grace: Duration) {
        self.connection.line.channel.heed(Some(Halt { stop: stop.clone(), grace }));
    }

    /// Lets the receiver wait for frames on their way, `settle` at most, and fetches its result.
    pub fn finish(self, settle: Nanos) -> Result<RemoteOutcome, RemoteError> {
        Ok(self.finish_run(settle)?.0)
    }

    /// The same, and gives the connection for the next run, unless the receiver has ended.
    pub fn finish_run(
        self,
        settle: Nanos,
    ) -> Result<(RemoteOutcome, Option<Connection>), RemoteError> {
        self.fetch(settle).map_err(|error| match error {
            // It was asked in time, so the missing result is its fault.
            RemoteError::Stopped { address } => {
                RemoteError::Gone { address, how: TransportError::Stopped.to_string() }
            }
            error => error,
        })
    }

    fn fetch(mut self, settle: Nanos) -> Result<(RemoteOutcome, Option<Connection>), RemoteError> {
        if self.is_refused {
            return Err(RemoteError::LargeIntervals { address: self.connection.line.address });
        }
        if self.ended.is_none()
            && let Some(asked) = self.asked
        {
            let line = &mut self.connection.line;
            match line.hear(asked + line.patience)?.0 {
                reply @ (Reply::Flow { .. } | Reply::Finished(_)) => self.take_early(reply)?,
                reply => self.take_count(&reply)?,
            }
        }
        if self.ended.is_none() {
            // before anything is asked that would be answered by it
            match self.connection.line.glance()? {
                Some(reply @ (Reply::Flow { .. } | Reply::Finished(_))) => {
                    self.take_early(reply)?
                }
                Some(_) => return Err(self.connection.line.unexpected()),
                None => {}
            }
        }
        let ended_early = self.ended.is_some();
        let (mut measured, clocks) = match self.ended.take() {
            Some(measured) => (measured, self.connection.compared_before()?),
            None => self.ask_result(settle)?,
        };
        for told in mem::take(&mut measured.intervals) {
            self.heard.take_in(told).map_err(|what| self.connection.line.untrue(what))?;
        }
        let (intervals, _) = self.heard.take(clocks.ahead_ns);
        for flow in measured.summary.flows.values_mut() {
            // What was taken off was a guess; the offset is what should have been.
            flow.delay_base = flow.delay_base.saturating_sub(clocks.ahead_ns);
        }
        // clocks drift: the next run has comparisons of its own
        let connection = Connection { compared: None, ..self.connection };
        let connection = Some(connection).filter(|_| !ended_early);
        Ok((RemoteOutcome { measured, intervals, clocks, ended_early }, connection))
    }

    fn ask_result(&mut self, settle: Nanos) -> Result<(Measured, ClockRelation), RemoteError> {
        let (_, clocks) = self.connection.compare()?;
        let line = &mut self.connection.line;
        line.say(&Request::Finish { run: self.expected.run, settle_ns: settle.get() })?;
        let mut deadline =
            Instant::now() + line.patience + settle.min(LONGEST_SETTLE).to_duration();
        let mut collector = Collector::new(&self.expected);
        loop {
            let (reply, bytes) = line.hear_sized(deadline)?;
            // All replies together: each gives the next no more time than it has bytes.
            deadline += PACE.time_for(bytes);
            if let Some(measured) = collector.take(reply).map_err(|what| line.untrue(what))? {
                return Ok((measured, clocks));
            }
        }
    }
}

/// Questions and answers.
struct Line {
    channel: Channel<TcpStream>,
    address: SocketAddr,
    /// How long a message, or an answer, may take.
    patience: Duration,
    /// How the connection broke. What else there may be to read answers something else.
    broken: Option<String>,
    /// The other end closed it.
    is_closed: bool,
}

impl Line {
    /// Says hello.
    fn greet(&mut self) -> Result<Welcome, RemoteError> {
        let address = self.address;
        match self.ask(&Request::Hello(Version::ours()))? {
            Reply::Welcome(welcome) if welcome.version.protocol == PROTOCOL => Ok(*welcome),
            Reply::Welcome(welcome) => {
                Err(RemoteError::Incompatible { address, version: welcome.version })
            }
            Reply::Incompatible(version) => Err(RemoteError::Incompatible { address, version }),
            Reply::Busy => Err(RemoteError::Busy { address }),
            _ => Err(self.unexpected()),
        }
    }

    /// Asks for the time.
    fn exchange(&mut self, deadline: Instant) -> Result<Exchange, RemoteError> {
        let asked = self.say(&Request::Clock)?;
        let (reply, heard) = self.hear(deadline)?;
        match reply {
            Reply::Clock { received_ns, sent_ns } => Ok(Exchange {
                asked: asked.get(),
                received: received_ns,
                answered: sent_ns,
                heard: heard.get(),
            }),
            _ => Err(self.unexpected()),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, RemoteError> {
        self.say(request)?;
        Ok(self.hear(Instant::now() + self.patience)?.0)
    }

    /// Gives the time when the request left.
    fn say(&mut self, request: &Request) -> Result<Nanos, RemoteError> {
        self.whole()?;
        let bytes = request.encode().map_err(|error| self.untrue(error.to_string()))?;
        let sent = self.channel.send(&bytes, Instant::now() + self.patience);
        sent.map_err(|error| self.broke(error))
    }

    /// The next reply, unless it is a refusal, and when it had arrived.
    fn hear(&mut self, deadline: Instant) -> Result<(Reply, Nanos), RemoteError> {
        let message = self.receive(deadline)?;
        Ok((self.read(&message.bytes)?, message.at))
    }

    /// The next reply, unless it is a refusal, and how many bytes it had.
    fn hear_sized(&mut self, deadline: Instant) -> Result<(Reply, usize), RemoteError> {
        let message = self.receive(deadline)?;
        Ok((self.read(&message.bytes)?, message.bytes.len()))
    }

    fn receive(&mut self, deadline: Instant) -> Result<ReceivedMessage, RemoteError> {
        self.whole()?;
        self.channel.receive(REPLY_LIMIT, deadline).map_err(|error| self.broke(error))
    }

    /// A reply, if the rest of it arrives soon.
    fn glance(&mut self) -> Result<Option<Reply>, RemoteError> {
        self.whole()?;
        let message = self.channel.poll(REPLY_LIMIT, GLANCE).map_err(|error| self.broke(error))?;
        message.map(|message| self.read(&message.bytes)).transpose()
    }

    fn read(&self, bytes: &[u8]) -> Result<Reply, RemoteError> {
        match Reply::decode(bytes).map_err(|error| self.untrue(error.to_string()))? {
            Reply::Refused { reason } => {
                Err(RemoteError::Refused { address: self.address, reason })
            }
            reply => Ok(reply),
        }
    }

    /// Fails as the connection did, if it did.
    fn whole(&self) -> Result<(), RemoteError> {
        match &self.broken {
            Some(how) => Err(RemoteError::Gone { address: self.address, how: how.clone() }),
            None => Ok(()),
        }
    }

    /// The connection is of no use any more.
    fn broke(&mut self, error: TransportError) -> RemoteError {
        self.broken = Some(error.to_string());
        self.is_closed = matches!(error, TransportError::Closed);
        RemoteError::broken(self.address, error)
    }

    fn untrue(&self, what: String) -> RemoteError {
        RemoteError::Untrue { address: self.address, what }
    }

    fn unexpected(&self) -> RemoteError {
        self.untrue("it answered something else than it was asked".to_owned())
    }
}
