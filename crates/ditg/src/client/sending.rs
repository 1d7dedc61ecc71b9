//! The loop that sends flows: what is due, what comes back, and what the receiver says meanwhile.

use rustix::event::epoll::EventFlags;
use wirebeat_meter::session::SessionCounts;
use wirebeat_sockets::{Poller, clock};
use wirebeat_units::Nanos;

use super::flow::{Flow, Next, Plan};
use super::signalling::Signalling;
use crate::control::Meter;
use crate::event::{Event, Interval};
use crate::log::LogFile;
use crate::payload::SIZE_MAX;
use crate::{Error, FlowSpec};

/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(50);
/// How long what is under way may take to come back, and a stream to take what it has begun.
const UNDER_WAY: Nanos = Nanos::from_secs(1);
/// The mark of the signalling connection among those of flows, which are their places.
const SIGNALLING: u64 = u64::MAX - 1;

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All was sent.
    All,
    /// It was asked to stop.
    Stopped,
}

/// Flows that are being sent.
pub(super) struct Sending<'a> {
    plan: Plan,
    flows: Vec<Flow>,
    /// Whether the socket of each is waited for.
    waits: Vec<bool>,
    log: Option<&'a mut LogFile>,
    poller: Poller,
    buffer: Box<[u8]>,
    told: (Nanos, SessionCounts),
}

impl<'a> Sending<'a> {
    pub fn new(
        spec: &FlowSpec,
        flows: Vec<Flow>,
        log: Option<&'a mut LogFile>,
    ) -> Result<Sending<'a>, Error> {
        let failed = |error: rustix::io::Errno| Error::socket("wait for sockets")(error.into());
        let poller = Poller::new().map_err(failed)?;
        let start = clock();
        Ok(Sending {
            plan: Plan { spec: *spec, start },
            waits: vec![false; flows.len()],
            flows,
            log,
            poller,
            buffer: vec![0; SIZE_MAX + 1].into(),
            told: (start, SessionCounts::default()),
        })
    }

    pub fn into_flows(self) -> Vec<Flow> {
        self.flows
    }

    /// From the first packet to the last, of all flows.
    pub fn time(&self) -> Nanos {
        let first = self.flows.iter().filter_map(|flow| flow.times().0).min();
        let last = self.flows.iter().map(|flow| flow.times().1).max().unwrap_or_default();
        first.map_or(Nanos::ZERO, |first| last.saturating_sub(first))
    }

    /// What comes back is waited for.
    fn reads(&self) -> EventFlags {
        match self.plan.spec.meter {
            Meter::RoundTrip => EventFlags::IN,
            Meter::OneWay => EventFlags::empty(),
        }
    }

    /// Sends until each has enough and what is under way has come back.
    pub fn run(
        &mut self,
        signalling: &mut Signalling,
        stop: &dyn Fn() -> bool,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ended, Error> {
        let failed = |error: rustix::io::Errno| Error::socket("wait for sockets")(error.into());
        self.poller.add(signalling.fd(), SIGNALLING, EventFlags::IN).map_err(failed)?;
        for (place, flow) in (0..).zip(&self.flows) {
            self.poller.add(flow.fd(), place, self.reads()).map_err(failed)?;
        }
        self.plan.start = clock();
        self.told.0 = self.plan.start;
        let mut ended = Ended::All;
        while let Some(next) = self.send_due()? {
            if stop() {
                ended = Ended::Stopped;
                break;
            }
            self.turn(next, signalling, events)?;
        }
        let until = clock().saturating_add(UNDER_WAY);
        while clock() < until && self.send_rests()? {
            let next = clock().saturating_add(LOOK_AROUND).min(until);
            self.turn(next, signalling, events)?;
        }
        if self.plan.spec.interval.is_some() {
            self.tell(clock(), events);
        }
        Ok(ended)
    }

    /// Sends what is due: until when nothing more is; `None` where all have enough.
    fn send_due(&mut self) -> Result<Option<Nanos>, Error> {
        let Sending { plan, flows, log, .. } = self;
        let mut next = None;
        for (place, flow) in flows.iter_mut().enumerate() {
            let waits = flow.send_due(plan, log).map_err(Error::socket("send a packet"))?;
            let until = match waits {
                Next::Due(due) => due,
                Next::Socket => clock().saturating_add(LOOK_AROUND),
                Next::Done => continue,
            };
            next = Some(next.map_or(until, |next: Nanos| next.min(until)));
            let blocked = waits == Next::Socket;
            if let Some(known) = self.waits.get_mut(place).filter(|known| **known != blocked) {
                *known = blocked;
                let reads = match plan.spec.meter {
                    Meter::RoundTrip => EventFlags::IN,
                    Meter::OneWay => EventFlags::empty(),
                };
                let writes = if blocked { EventFlags::OUT } else { EventFlags::empty() };
                let modified = self.poller.modify(flow.fd(), place as u64, reads | writes);
                modified.map_err(|error| Error::socket("wait for sockets")(error.into()))?;
            }
        }
        Ok(next)
    }

    /// Completes packets that are half sent: whether something is under way.
    fn send_rests(&mut self) -> Result<bool, Error> {
        let Sending { plan, flows, log, .. } = self;
        let mut under_way = false;
        for flow in flows {
            if flow.has_rest() {
                flow.send_rest(plan, log).map_err(Error::socket("send a packet"))?;
            }
            under_way |= flow.has_rest() || flow.has_outstanding();
        }
        Ok(under_way)
    }

    /// Waits until `next`, and takes what came.
    fn turn(
        &mut self,
        next: Nanos,
        signalling: &mut Signalling,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        let now = clock();
        let next = next.min(now.saturating_add(LOOK_AROUND));
        let now = self.poller.wait(now, next);
        for index in 0.. {
            let Some((word, flags)) = self.poller.event(index) else { break };
            if word == SIGNALLING {
                signalling.look()?;
                continue;
            }
            let flow = usize::try_from(word).ok().and_then(|place| self.flows.get_mut(place));
            let Some(flow) = flow else { continue };
            if flags.intersects(EventFlags::ERR) {
                flow.take_error().map_err(Error::socket("send a flow"))?;
            }
            if flags.intersects(EventFlags::IN) {
                let Sending { plan, buffer, log, .. } = self;
                flow.take(plan, buffer, log).map_err(Error::socket("receive what comes back"))?;
            } else if flags.intersects(EventFlags::HUP) && flow.is_stream() {
                return Err(Error::Closed { waiting_for: "the end of a flow" });
            }
        }
        let due = self.plan.spec.interval;
        if due.is_some_and(|every| now.saturating_sub(self.told.0) >= every) {
            self.tell(now, events);
        }
        Ok(())
    }

    /// Tells what was counted since the last time.
    fn tell(&mut self, now: Nanos, events: &mut dyn FnMut(Event<'_>)) {
        let mut counts = SessionCounts::default();
        self.flows.iter().for_each(|flow| counts.merge(&flow.session.counts));
        let (from, before) = std::mem::replace(&mut self.told, (now, counts));
        if from < now {
            let counts = counts.since(&before);
            let open = self.flows.len() as u64;
            events(Event::Interval(&Interval { from, to: now, counts, open }));
        }
    }
}
