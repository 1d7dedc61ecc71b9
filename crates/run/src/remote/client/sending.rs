//! The sender's end, where the listener sends, too: asks it to, and takes what it tells of that.

use std::collections::BTreeSet;
use std::mem;

use wirebeat_engine::drive::SenderBooks;
use wirebeat_meter::series::Series;
use wirebeat_report::model::Station;
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_units::{Fault, Nanos};

use super::super::RemoteError;
use super::super::asked::{AskedSending, check_program};
use super::super::clock::ClockRelation;
use super::super::grant::Grant;
use super::super::message::{Reply, Request};
use super::super::sent::{HeardSent, Sent, SentFlowCounts};
use super::{Connection, Measurement};

/// What a listener sends in a run.
#[derive(Debug, Default)]
pub(super) enum FarSending {
    /// Nothing.
    #[default]
    Nothing,
    /// It is ready to send flows with these numbers, by these ports.
    Ready { missing: BTreeSet<u16>, stations: Vec<Station> },
    /// It sends; what it told so far.
    UnderWay { missing: BTreeSet<u16>, told: Sent },
    /// It has ended.
    Ended(Sent),
    /// Nothing is known of what it sent, for this reason.
    Lost(String),
}

impl Connection {
    /// Holds what the listener is to send against what its owner allows; `flows` are the same, compiled here.
    ///
    /// # Errors
    /// What is not allowed, and what is.
    pub(crate) fn check_sending<'a>(
        &self,
        asked: &AskedSending,
        program: &Program,
        flows: impl Iterator<Item = &'a Flow>,
    ) -> Result<(), RemoteError> {
        let address = self.line.address;
        let not_allowed = |why| RemoteError::NotAllowed { address, why };
        let Some(grant) = &self.welcome.sends else {
            let hint = "its owner can allow it with --allow-send";
            return Err(not_allowed(Fault::from("it sends nothing").then_hint(hint)));
        };
        if !grant.is_possible() {
            return Err(self
                .line
                .untrue("it allows more destinations than there can be".to_owned()));
        }
        asked.check(grant).map_err(not_allowed)?;
        check_program(program, flows, grant).map_err(not_allowed)?;
        Ok(())
    }

    /// What the listener may send, by its own word.
    pub fn grant(&self) -> Option<&Grant> {
        self.welcome.sends.as_ref()
    }

    /// Compares the clocks before anything has begun: how they relate, and how far the other one is ahead at most, in ns.
    pub(crate) fn compare_ahead(&mut self) -> Result<(ClockRelation, i64), RemoteError> {
        let (ahead, clocks) = self.compare()?;
        Ok((clocks, ahead.high()))
    }
}

impl Measurement {
    /// Has the listener get ready to send.
    pub fn prepare_sending(&mut self, mut asked: AskedSending) -> Result<(), RemoteError> {
        asked.run = self.expected.run;
        let missing: BTreeSet<u16> = asked.flows.iter().map(|flow| flow.id).collect();
        self.heard_sent = HeardSent::new(missing.clone(), Nanos::new(asked.interval_ns));
        let line = &mut self.connection.line;
        match line.ask(&Request::Send(Box::new(asked)))? {
            Reply::Ready { run, stations } if run == self.expected.run => {
                self.far = FarSending::Ready { missing, stations };
                Ok(())
            }
            _ => Err(line.unexpected()),
        }
    }

    /// Has the listener send what it is ready for, from `start` on our clock.
    pub fn start_sending(&mut self, start: Nanos) -> Result<(), RemoteError> {
        let FarSending::Ready { missing, stations } = mem::take(&mut self.far) else {
            return Ok(());
        };
        self.heard_sent.begin(start);
        let run = self.expected.run;
        let at_ns = start.get().saturating_add_signed(self.clocks.ahead_ns);
        let line = &mut self.connection.line;
        match line.ask(&Request::Start { run, at_ns })? {
            Reply::Started { run: told } if told == run => {
                let mut told = Sent::default();
                told.summary.stations = stations;
                self.far = FarSending::UnderWay { missing, told };
                Ok(())
            }
            _ => Err(line.unexpected()),
        }
    }

    /// Whether the listener sends, as far as it has told.
    pub fn is_sending(&self) -> bool {
        matches!(self.far, FarSending::UnderWay { .. })
    }

    /// Asks whether it has ended, and stops it if it is to `stop`. Never waits for long.
    pub fn look_at_sending(&mut self, stop: bool) {
        let run = self.expected.run;
        loop {
            let missing = self.missing_flows();
            if let Err(error) = self.look(Request::Sent { run, stop }) {
                self.far = FarSending::Lost(error.to_string());
            }
            // each flow is told by itself
            if self.missing_flows() == missing {
                break;
            }
        }
        if self.ended.is_some() && self.is_sending() {
            self.lose_sending("the listener ended before its sending did".to_owned());
        }
    }

    fn missing_flows(&self) -> usize {
        match &self.far {
            FarSending::UnderWay { missing, .. } => missing.len(),
            _ => 0,
        }
    }

    /// What it sent is not waited for any longer.
    pub fn lose_sending(&mut self, why: String) {
        if self.is_sending() {
            self.far = FarSending::Lost(why);
        }
    }

    /// What it told of intervals that it sent in since the last call, and below which number they are complete. `None`
    /// where it was not to send.
    pub(crate) fn take_sent_intervals(&mut self) -> Option<(Series<SenderBooks>, u64)> {
        match self.far {
            FarSending::Nothing | FarSending::Ready { .. } => None,
            FarSending::UnderWay { .. } | FarSending::Ended(_) => Some(self.heard_sent.take()),
            FarSending::Lost(_) => Some((self.heard_sent.take().0, u64::MAX)),
        }
    }

    /// What it sent; `None` where it was not to send. An error says why that is not known.
    pub fn take_sent(&mut self) -> Option<Result<Sent, String>> {
        match mem::take(&mut self.far) {
            FarSending::Nothing => None,
            FarSending::Ended(sent) => Some(Ok(sent)),
            FarSending::Lost(why) => Some(Err(why)),
            FarSending::Ready { .. } => Some(Err("it did not begin to send".to_owned())),
            FarSending::UnderWay { .. } => Some(Err("it did not tell what it sent".to_owned())),
        }
    }

    /// What the listener tells of a flow that it sent.
    fn take_sent_flow(&mut self, flow: SentFlowCounts) -> Result<(), RemoteError> {
        let line = &self.connection.line;
        let FarSending::UnderWay { missing, told } = &mut self.far else {
            return Err(line.unexpected());
        };
        if !missing.remove(&flow.id) {
            return Err(line.untrue(format!("flow {} was not to be sent, or told twice", flow.id)));
        }
        flow.check().map_err(|what| line.untrue(what))?;
        told.flows.push(flow);
        Ok(())
    }

    /// What the listener tells of what it sends.
    pub(super) fn take_sending(&mut self, reply: &Reply) -> Result<(), RemoteError> {
        let ours = self.expected.run;
        match reply {
            Reply::Sending { run, intervals } if *run == ours && self.is_sending() => {
                self.asked = None;
                let now = self.connection.caller.clock.now();
                let taken = self.heard_sent.take_in(intervals.clone(), now);
                taken.map_err(|what| self.connection.line.untrue(what))
            }
            Reply::SentFlow(flow) => self.take_sent_flow((**flow).clone()),
            Reply::Sent(summary) if summary.run == ours => {
                self.asked = None;
                match mem::take(&mut self.far) {
                    FarSending::UnderWay { missing, mut told } if missing.is_empty() => {
                        told.summary = (**summary).clone();
                        let intervals = mem::take(&mut told.summary.intervals);
                        let taken =
                            self.heard_sent.take_in(intervals, self.connection.caller.clock.now());
                        let taken = taken.and_then(|()| self.heard_sent.check_sums(&told.flows));
                        self.far = FarSending::Ended(told);
                        self.heard_sent.end();
                        taken.map_err(|what| self.connection.line.untrue(what))
                    }
                    _ => Err(self.connection.line.unexpected()),
                }
            }
            _ => Err(self.connection.line.unexpected()),
        }
    }
}
