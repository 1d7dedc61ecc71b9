//! The sender's end, where the listener serves sessions: asks it to, and takes what it tells of that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use wirebeat_meter::session::SessionSummary;
use wirebeat_units::{Fault, Nanos};

use super::super::RemoteError;
use super::super::asked_serving::{
    AskedServing, ServedPlace, ServedSessions, ServingLook, ServingOrder, take_summary,
};
use super::super::message::{Reply, Request};
use super::super::serve_grant::ServeGrant;
use super::super::transport::PACE;
use super::{Connection, Measurement};

impl Connection {
    /// What the listener may serve, by its own word.
    pub fn serve_grant(&self) -> Option<&ServeGrant> {
        self.welcome.serves.as_ref()
    }

    /// Where the listener is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.line.address
    }

    /// Holds what the listener is to serve against what its owner allows; no more than `open` sessions are open at a time, where
    /// that is known.
    ///
    /// # Errors
    /// What is not allowed, and what is.
    pub(crate) fn check_serving(
        &self,
        asked: &AskedServing,
        open: Option<u64>,
    ) -> Result<(), RemoteError> {
        let address = self.line.address;
        let not_served = |why| RemoteError::NotServed { address, why };
        let Some(grant) = &self.welcome.serves else {
            let hint = "its owner can allow it with --allow-serve";
            return Err(not_served(Fault::from("it serves no sessions").then_hint(hint)));
        };
        if !grant.is_possible() {
            return Err(self.line.untrue("it allows more addresses than there can be".to_owned()));
        }
        asked.check(grant).map_err(not_served)?;
        if let Some(open) = open.filter(|open| *open > u64::from(grant.sessions)) {
            let why = Fault::from(format!("{open} sessions may be open at a time"));
            return Err(not_served(why.then_hint(format!("the listener allows {grant}"))));
        }
        Ok(())
    }
}

impl Measurement {
    /// Has the listener accept sessions; gives where.
    pub fn prepare_serving(
        &mut self,
        mut asked: AskedServing,
    ) -> Result<Vec<ServedPlace>, RemoteError> {
        asked.run = self.expected.run;
        let line = &mut self.connection.line;
        match line.ask(&Request::Serve(Box::new(asked)))? {
            Reply::Listening { run, at } if run == self.expected.run => Ok(at),
            _ => Err(line.unexpected()),
        }
    }

    /// The times of the sessions count from `start` on our clock.
    pub fn start_serving(&mut self, start: Nanos) -> Result<(), RemoteError> {
        let run = self.expected.run;
        let at_ns = start.get().saturating_add_signed(self.clocks.ahead_ns);
        let line = &mut self.connection.line;
        match line.ask(&Request::Start { run, at_ns })? {
            Reply::Started { run: told } if told == run => Ok(()),
            _ => Err(line.unexpected()),
        }
    }

    /// Asks how serving goes, which goes on as `order` says; waits for the answer. `groups` are the numbers of those that were asked
    /// for.
    pub fn look_at_serving(
        &mut self,
        order: ServingOrder,
        groups: &[u32],
    ) -> Result<ServingLook, RemoteError> {
        let (run, ahead) = (self.expected.run, self.clocks.ahead_ns);
        let line = &mut self.connection.line;
        line.say(&Request::Served { run, order })?;
        let mut told = BTreeMap::new();
        let mut deadline = Instant::now() + line.patience;
        loop {
            let (reply, bytes) = line.hear_sized(deadline)?;
            deadline += PACE.time_for(bytes);
            match reply {
                Reply::Serving { run: of, counts }
                    if of == run && told.is_empty() && counts.len() == groups.len() =>
                {
                    let checked = counts.iter().try_for_each(|counts| counts.validate());
                    checked.map_err(|error| line.untrue(error.to_string()))?;
                    return Ok(ServingLook::Serving(counts));
                }
                Reply::ServedGroup { number, summary }
                    if groups.contains(&number) && !told.contains_key(&number) =>
                {
                    let summary = take_summary(*summary).map_err(|what| line.untrue(what))?;
                    told.insert(number, by_our_clock(summary, ahead));
                }
                Reply::Served(summary) if summary.run == run && told.len() == groups.len() => {
                    return Ok(ServingLook::Ended(Box::new(ServedSessions {
                        groups: told,
                        summary,
                    })));
                }
                _ => return Err(line.unexpected()),
            }
        }
    }
}

/// The same with moments on our clock, which the other one is so far ahead of.
fn by_our_clock(mut summary: SessionSummary, ahead_ns: i64) -> SessionSummary {
    let moments = [&mut summary.first_opened, &mut summary.last_opened, &mut summary.last_ended];
    for moment in moments.into_iter().filter(|moment| **moment > Nanos::ZERO) {
        let ours = moment.get().saturating_add_signed(ahead_ns.saturating_neg());
        // zero says that there was none
        *moment = Nanos::new(ours.max(1));
    }
    summary
}
