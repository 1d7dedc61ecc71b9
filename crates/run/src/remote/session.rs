//! What a receiver answers to a sender that knows the key. No sockets here.
//!
//! A sender can begin a measurement, ask how it goes and have its result, one run after the other. Whatever else it says is
//! refused and ends its session; nothing that it says makes the receiver send, read or write anything
//! but the answer, unless its owner lets it send, or serve sessions. [`Metering`] is the receiver's own side, [`SendingSide`] what it
//! sends by, [`ServingSide`] what it serves by.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use wirebeat_engine::clock::Clock;
use wirebeat_meter::bins::MAX_BINS;
use wirebeat_meter::histogram::BUCKETS;
use wirebeat_meter::interval::MeterBooks;
use wirebeat_meter::series::Series;
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_report::model::{Interval, Station};
use wirebeat_units::Nanos;

use super::asked::{AskedSending, REQUEST_LIMIT};
use super::asked_serving::{
    AskedServing, ServedPlace, ServedSessions, ServedSummary, ServingLook, ServingOrder,
};
use super::clock::ClockIdentity;
use super::grant::Grant;
use super::intervals::{AskedIntervals, PARTS_MAX, ToldIntervals, Untold};
use super::message::{
    Count, Expected, LONGEST_SETTLE, Limits, Measured, Reply, Request, Version, Welcome,
};
use super::sent::{Sent, SentLook};
use super::serve_grant::ServeGrant;

/// The part of a receiver that measures. Which interface, engine, filter and ports it uses is its own
/// choice, made before anyone connects.
pub trait Metering {
    /// Its ports.
    fn stations(&self) -> Vec<Station>;

    /// Forgets what was counted and measures `expected` from now on; if that is not possible, why.
    fn begin(&mut self, expected: &Expected) -> Result<(), String>;

    /// What has arrived since then, cheaply.
    fn received(&self) -> Count;

    /// Waits `settle` for frames on their way, and tells what was measured; if
    /// that is not possible, why. Measuring ends in both cases.
    fn finish(&mut self, settle: Nanos) -> Result<Measured, String>;

    /// The sender is gone without asking for the result: measuring ends, and what was measured is kept for this receiver's
    /// own report.
    fn abandon(&mut self);

    /// From now on it measures in these intervals, too.
    fn begin_intervals(&mut self, ends: AskedIntervals) {
        let _ = ends;
    }

    /// Looks after its intervals while it measures. Gives those that are over for its observer, and how long it may be left
    /// alone.
    fn watch(&mut self) -> (Vec<Interval>, Duration) {
        (Vec::new(), Duration::MAX)
    }

    /// What was measured in intervals since the last call, and below which number they are complete.
    fn intervals(&mut self) -> (Series<MeterBooks>, u64) {
        (Series::new(0), u64::MAX)
    }

    /// What sends for senders on other hosts, where the owner allows it.
    fn sending(&mut self) -> Option<&mut dyn SendingSide> {
        None
    }

    /// What serves sessions for senders on other hosts, where the owner allows it.
    fn serving(&mut self) -> Option<&mut dyn ServingSide> {
        None
    }

    /// Called several times a second while no sender is served, so that the receiver can look after its ports. Gives a
    /// message for the observer when something has changed.
    fn between_senders(&mut self) -> Option<String> {
        None
    }
}

/// The part of a listener that sends for senders on other hosts. It holds whatever it is asked against what the owner
/// allows, and ends by itself when the sender says nothing for 2 s.
pub trait SendingSide {
    /// What it may send, with the time that is left.
    fn grant(&self) -> Grant;

    /// Opens all that these flows take; gives its ports. Nothing is sent.
    ///
    /// # Errors
    /// What is not allowed, or what this machine cannot do.
    fn prepare(&mut self, asked: AskedSending) -> Result<Vec<Station>, String>;

    /// Sends what was prepared from `at` on, by this host's clock.
    ///
    /// # Errors
    /// Nothing was prepared, or too long ago; or that time is too far off.
    fn start(&mut self, at: Nanos) -> Result<(), String>;

    /// The sender said something.
    fn heard(&mut self);

    /// What was sent, in all once it has ended; stops it if it is to `stop`.
    ///
    /// # Errors
    /// Nothing was started, or it failed.
    fn sent(&mut self, stop: bool) -> Result<SentLook, String>;

    /// What the owner is to know, each in one line.
    fn notices(&mut self) -> Vec<String>;

    /// Stops sending, and forgets what was prepared. Gives what was sent, if nobody was told yet.
    fn end(&mut self) -> Option<Sent>;
}

/// The part of a listener that serves sessions for senders on other hosts. It holds whatever it is asked against what the owner
/// allows, and ends by itself when the sender says nothing for 2 s.
pub trait ServingSide {
    /// What it may serve, with the time that is left.
    fn grant(&self) -> ServeGrant;

    /// Listens for these sessions; gives where.
    ///
    /// # Errors
    /// What is not allowed, or what this machine cannot do.
    fn prepare(&mut self, asked: AskedServing) -> Result<Vec<ServedPlace>, String>;

    /// The times of the sessions count from `at` on, by this host's clock.
    ///
    /// # Errors
    /// Nothing was prepared, or that time is too far off.
    fn start(&mut self, at: Nanos) -> Result<(), String>;

    /// The sender said something.
    fn heard(&mut self);

    /// What was served, in all once it has ended; it goes on as `order` says.
    ///
    /// # Errors
    /// Nothing is served.
    fn served(&mut self, order: ServingOrder) -> Result<ServingLook, String>;

    /// What the owner is to know, each in one line.
    fn notices(&mut self) -> Vec<String>;

    /// Closes all sessions and listens no more. Gives what was served, if nobody was told yet.
    fn end(&mut self) -> Option<ServedSessions>;
}

impl ServedSessions {
    /// As replies of bounded length: each group, then the rest.
    fn into_replies(self, run: u64) -> Vec<Reply> {
        let group = |(number, summary)| Reply::ServedGroup { number, summary: Box::new(summary) };
        let groups = self.groups.into_iter().map(group);
        groups.chain([Reply::Served(ServedSummary { run, ..self.summary })]).collect()
    }
}

/// What a sender asked for in a run, beside being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Send,
    Serve,
}

/// What a receiver says of itself, and the clock that it stamps arrivals with.
#[derive(Clone)]
pub struct Identity {
    /// What it takes.
    pub limits: Limits,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Which clock that is.
    pub clock_identity: ClockIdentity,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has begun.
    Greeted,
    /// It measures.
    Measuring,
    /// The last result was told, or could not be had. Another run may begin.
    Done,
}

/// One sender being served.
pub struct Session<'a> {
    metering: &'a mut dyn Metering,
    identity: &'a Identity,
    phase: Phase,
    /// The number of the run that began last; 0: none has.
    run: u64,
    /// What it was asked for in this run.
    asked: Asked,
    untold: Untold,
}

impl<'a> Session<'a> {
    /// A sender has said hello; its session, and the reply.
    pub fn welcome(metering: &'a mut dyn Metering, identity: &'a Identity) -> (Self, Reply) {
        let welcome = Welcome {
            version: Version::ours(),
            stations: metering.stations(),
            limits: identity.limits,
            clock: identity.clock_identity.clone(),
            sends: metering.sending().map(|sending| sending.grant()),
            serves: metering.serving().map(|serving| serving.grant()),
        };
        let (phase, untold) = (Phase::Greeted, Untold::default());
        let asked = Asked::Nothing;
        let session = Session { metering, identity, phase, run: 0, asked, untold };
        (session, Reply::Welcome(Box::new(welcome)))
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What has arrived.
    pub fn received(&self) -> Count {
        match self.phase {
            Phase::Greeted | Phase::Done => Count::default(),
            Phase::Measuring => self.metering.received(),
        }
    }

    /// What had arrived at the end of the last measurement.
    pub fn measured(&self) -> Count {
        self.metering.received()
    }

    /// The replies to `request`, which had arrived at `at`. An error is why it is refused; the session is
    /// over then.
    pub fn answer(&mut self, request: Request, at: Nanos) -> Result<Vec<Reply>, String> {
        if let Some(sending) = self.metering.sending() {
            sending.heard();
        }
        if let Some(serving) = self.metering.serving() {
            serving.heard();
        }
        match (self.phase, request) {
            (_, Request::Clock) => Ok(vec![Reply::Clock {
                received_ns: at.get(),
                sent_ns: self.identity.clock.now().get(),
            }]),
            (_, Request::Received) => Ok(vec![Reply::Received(self.received())]),
            (Phase::Measuring, Request::Intervals { ends }) => {
                if let Some(ends) = ends {
                    self.metering.begin_intervals(ends);
                }
                let (series, complete) = self.metering.intervals();
                self.untold.add(series, complete);
                Ok(vec![Reply::Intervals(Box::new(self.untold.tell()))])
            }
            (Phase::Greeted | Phase::Done, Request::Begin(expected)) => self.begin(&expected),
            (Phase::Measuring, Request::Send(asked)) => {
                self.check_run(asked.run)?;
                self.send(*asked)
            }
            (Phase::Measuring, Request::Start { run, at_ns }) => {
                self.check_run(run)?;
                let at = Nanos::new(at_ns);
                match self.asked {
                    Asked::Serve => self.serving()?.start(at)?,
                    Asked::Nothing | Asked::Send => self.sending()?.start(at)?,
                }
                Ok(vec![Reply::Started { run }])
            }
            (Phase::Measuring, Request::Serve(asked)) => {
                self.check_run(asked.run)?;
                self.serve(*asked)
            }
            (Phase::Measuring, Request::Served { run, order }) => {
                self.check_run(run)?;
                Ok(match self.serving()?.served(order)? {
                    ServingLook::Ended(served) => served.into_replies(run),
                    ServingLook::Serving(counts) => vec![Reply::Serving { run, counts }],
                })
            }
            (Phase::Measuring, Request::Sent { run, stop }) => {
                self.check_run(run)?;
                Ok(match self.sending()?.sent(stop)? {
                    SentLook::Ended(sent) => sent.into_replies(run),
                    SentLook::Sending(intervals) => vec![Reply::Sending { run, intervals }],
                })
            }
            (Phase::Measuring, Request::Finish { run, settle_ns }) => {
                self.check_run(run)?;
                self.end_all();
                self.phase = Phase::Done;
                let settle = Nanos::new(settle_ns).min(LONGEST_SETTLE);
                self.finish(settle)
            }
            (_, Request::Hello(_)) => Err("the sender was greeted before".to_owned()),
            (Phase::Measuring, Request::Begin(_)) => {
                Err("a measurement has begun, and not ended".to_owned())
            }
            (
                _,
                Request::Finish { .. }
                | Request::Intervals { .. }
                | Request::Send(_)
                | Request::Start { .. }
                | Request::Sent { .. }
                | Request::Serve(_)
                | Request::Served { .. },
            ) => Err("nothing is being measured".to_owned()),
        }
    }

    /// The longest request that may come now, in bytes.
    pub fn request_limit(&mut self) -> usize {
        let usual = self.identity.limits.request();
        let may_ask = self.phase == Phase::Measuring && self.asked == Asked::Nothing;
        let acts = self.metering.sending().is_some() || self.metering.serving().is_some();
        match may_ask && acts {
            true => usual.max(REQUEST_LIMIT),
            false => usual,
        }
    }

    /// What the owner is to know of what is sent and served.
    pub fn notices(&mut self) -> Vec<String> {
        let sending = self.metering.sending().map(|sending| sending.notices());
        let serving = self.metering.serving().map(|serving| serving.notices());
        sending.into_iter().chain(serving).flatten().collect()
    }

    /// Stops what is sent and served, and gives what the owner is to know of it.
    pub fn end_sending(&mut self) -> Vec<String> {
        self.end_all();
        self.notices()
    }

    fn end_all(&mut self) {
        if let Some(sending) = self.metering.sending() {
            sending.end();
        }
        if let Some(serving) = self.metering.serving() {
            serving.end();
        }
    }

    fn check_run(&self, run: u64) -> Result<(), String> {
        match run == self.run {
            true => Ok(()),
            false => Err(format!("this is about run {run}, and run {} is measured", self.run)),
        }
    }

    fn sending(&mut self) -> Result<&mut dyn SendingSide, String> {
        self.metering
            .sending()
            .ok_or_else(|| "it sends nothing; its owner can allow it with --allow-send".to_owned())
    }

    fn serving(&mut self) -> Result<&mut dyn ServingSide, String> {
        self.metering.serving().ok_or_else(|| {
            "it serves no sessions; its owner can allow it with --allow-serve".to_owned()
        })
    }

    fn serve(&mut self, asked: AskedServing) -> Result<Vec<Reply>, String> {
        if mem::replace(&mut self.asked, Asked::Serve) != Asked::Nothing {
            return Err("it was asked to send or to serve in this run before".to_owned());
        }
        let at = self.serving()?.prepare(asked)?;
        Ok(vec![Reply::Listening { run: self.run, at }])
    }

    fn send(&mut self, asked: AskedSending) -> Result<Vec<Reply>, String> {
        if mem::replace(&mut self.asked, Asked::Send) != Asked::Nothing {
            return Err("it was asked to send or to serve in this run before".to_owned());
        }
        let stations = self.sending()?.prepare(asked)?;
        Ok(vec![Reply::Ready { run: self.run, stations }])
    }

    /// Ends a measurement that the sender has not ended: the replies that tell what was measured by now.
    pub fn interrupt(&mut self) -> Vec<Reply> {
        if self.phase != Phase::Measuring {
            return Vec::new();
        }
        self.phase = Phase::Done;
        let sent = self.metering.sending().and_then(|sending| sending.end());
        let mut replies = sent.map(|sent| sent.into_replies(self.run)).unwrap_or_default();
        let served = self.metering.serving().and_then(|serving| serving.end());
        replies.extend(served.into_iter().flat_map(|served| served.into_replies(self.run)));
        replies.extend(self.finish(Nanos::ZERO).unwrap_or_default());
        replies
    }

    /// Looks after what is measured: intervals for the observer, and how long it may be left alone.
    pub fn watch(&mut self) -> (Vec<Interval>, Duration) {
        match self.phase {
            Phase::Measuring => self.metering.watch(),
            Phase::Greeted | Phase::Done => (Vec::new(), Duration::MAX),
        }
    }

    /// Ends the measurement, and tells all of it.
    fn finish(&mut self, settle: Nanos) -> Result<Vec<Reply>, String> {
        let measured = Measured { run: self.run, ..self.metering.finish(settle)? };
        let (series, complete) = self.metering.intervals();
        self.untold.add(series, complete);
        Ok(pieces(measured, &mut self.untold))
    }

    fn begin(&mut self, expected: &Expected) -> Result<Vec<Reply>, String> {
        expected.check(&self.identity.limits)?;
        if expected.run <= self.run {
            return Err(format!("run {} was before: the last one was {}", expected.run, self.run));
        }
        self.metering.begin(expected)?;
        (self.phase, self.run, self.untold) = (Phase::Measuring, expected.run, Untold::default());
        self.asked = Asked::Nothing;
        Ok(vec![Reply::Begun { run: self.run, stations: self.metering.stations() }])
    }
}

/// A session that ends while it measures has lost its sender.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end_all();
        if self.phase == Phase::Measuring {
            self.metering.abandon();
        }
    }
}

/// A result as replies of bounded length: each flow, intervals that were not told, then the rest.
fn pieces(mut measured: Measured, untold: &mut Untold) -> Vec<Reply> {
    let flows = mem::take(&mut measured.summary.flows);
    let flow = |(id, summary)| Reply::Flow { id, summary: Box::new(summary) };
    let mut replies: Vec<Reply> = flows.into_iter().map(flow).collect();
    while !untold.is_empty() {
        replies.push(Reply::Intervals(Box::new(untold.tell())));
    }
    replies.push(Reply::Finished(Box::new(measured)));
    replies
}

/// How many bytes a summary keeps, with no more room than that; `None` where it lists more than any summary can.
fn bounded(flow: &mut FlowSummary) -> Option<usize> {
    let mut bytes = mem::size_of::<FlowSummary>();
    let FlowSummary { delay, delay_variation, inter_arrival, gap_error, gap_early, .. } = flow;
    let always = [delay, delay_variation, inter_arrival, gap_error, &mut flow.sequence.extent];
    for distribution in always.into_iter().chain(gap_early) {
        let buckets = &mut distribution.buckets;
        if buckets.len() > BUCKETS {
            return None;
        }
        buckets.shrink_to_fit();
        bytes += mem::size_of_val(buckets.as_slice());
    }
    if let Some(bins) = &mut flow.inter_arrival_bins {
        if bins.counts.len() > MAX_BINS {
            return None;
        }
        bins.counts.shrink_to_fit();
        bytes += mem::size_of_val(bins.counts.as_slice());
    }
    Some(bytes)
}

/// Puts the pieces of a result together again, at the other end. What a piece lists is bounded before it is kept, and so
/// is all of it together; whether it can be true is checked at the end.
#[derive(Debug)]
pub struct Collector {
    /// The numbers of flows that were announced and are still missing.
    missing: BTreeSet<u16>,
    run: u64,
    delay_base: i64,
    summary: MeterSummary,
    /// Bytes that the pieces may still take.
    room: usize,
    intervals: Vec<ToldIntervals>,
}

/// The most bytes that a result takes at the sender, beside [`RESULT_PER_FLOW`]: room for 65,536 linear bins of each of
/// 200 flows.
const RESULT_MAX: usize = 128 << 20;
/// And for each announced flow: a histogram has as many entries as there are different values, a thousand in all.
const RESULT_PER_FLOW: usize = 16 << 10;

impl Collector {
    /// For what was announced as `expected`.
    pub fn new(expected: &Expected) -> Collector {
        Collector {
            missing: expected.flows.iter().map(|flow| flow.id).collect(),
            run: expected.run,
            delay_base: expected.delay_base,
            summary: MeterSummary::default(),
            room: RESULT_MAX + RESULT_PER_FLOW * expected.flows.len(),
            intervals: Vec::new(),
        }
    }

    /// Takes room for so many bytes.
    fn keep(&mut self, bytes: usize) -> Result<(), String> {
        let room = self.room.checked_sub(bytes);
        self.room =
            room.ok_or_else(|| format!("its result takes more than {} MiB", RESULT_MAX >> 20))?;
        Ok(())
    }

    /// Takes a reply; gives the whole after the last one. An error says what cannot be true.
    pub fn take(&mut self, reply: Reply) -> Result<Option<Measured>, String> {
        match reply {
            Reply::Flow { id, .. } if !self.missing.remove(&id) => {
                Err(format!("flow {id} was not announced, or told twice"))
            }
            Reply::Flow { id, summary } if summary.delay_base != self.delay_base => {
                Err(format!("the delays of flow {id} are not what was asked for"))
            }
            Reply::Flow { id, mut summary } => {
                let bytes = bounded(&mut summary).ok_or_else(|| {
                    format!("flow {id} has more histogram buckets than there are")
                })?;
                self.keep(bytes)?;
                self.summary.flows.insert(id, *summary);
                Ok(None)
            }
            Reply::Intervals(told) if self.intervals.len() < PARTS_MAX => {
                self.keep(told.bytes())?;
                self.intervals.push(*told);
                Ok(None)
            }
            Reply::Finished(measured) if measured.run != self.run => {
                Err(format!("it told of run {}, and this is run {}", measured.run, self.run))
            }
            Reply::Finished(measured) if !measured.summary.flows.is_empty() => {
                Err("flows were told where they have no place".to_owned())
            }
            Reply::Finished(mut measured) => {
                measured.summary.flows = mem::take(&mut self.summary.flows);
                measured.summary.validate().map_err(|error| error.to_string())?;
                measured.intervals = mem::take(&mut self.intervals);
                Ok(Some(*measured))
            }
            _ => Err("it answered something else than it was asked".to_owned()),
        }
    }
}
