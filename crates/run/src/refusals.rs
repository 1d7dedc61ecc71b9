//! Senders whose driver takes nothing: found soon, and not at the end of a long run.

use std::io;
use std::sync::Arc;

use wirebeat_engine::drive::LiveTx;
use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_units::Nanos;

use crate::session::Prepared;
use crate::transmit;

/// So long after the first frame was handed over, a driver has accepted one.
const ENOUGH: Nanos = Nanos::from_millis(50);

/// A port whose driver has accepted nothing so far.
#[derive(Debug)]
struct Untried {
    place: usize,
    interface: String,
    /// What its senders hand over.
    lives: Vec<Arc<LiveTx>>,
    /// When that was seen first.
    since: Option<Nanos>,
}

/// Looks whether drivers accept what they are handed.
#[derive(Debug)]
pub(crate) struct Refusals(Vec<Untried>);

impl Refusals {
    /// Looks at the ports of `run` where it is counted; `lives` are those of its senders.
    pub(crate) fn new(run: &Prepared, lives: &[Arc<LiveTx>]) -> Refusals {
        let counted = |place: &usize| run.accepted.get(*place).is_some_and(Option::is_some);
        let places = (0..run.ports.len()).filter(counted);
        let untried = places.map(|place| {
            let mine = run.sending.iter().zip(lives).filter(|(sending, _)| sending.place == place);
            let lives = mine.map(|(_, live)| Arc::clone(live)).collect();
            Untried {
                place,
                interface: run.ports[place].interface().to_owned(),
                lives,
                since: None,
            }
        });
        Refusals(untried.collect())
    }

    /// Why the run has to end: a driver took none of many frames.
    pub(crate) fn look(&mut self, accepted: &[Option<Accepted>], now: Nanos) -> Option<String> {
        let answers =
            |place: usize| accepted.get(place).and_then(Option::as_ref).map(Accepted::answers);
        self.0.retain(|port| answers(port.place).is_some_and(|answers| answers.accepted == 0));
        self.0.iter_mut().find_map(|port| {
            let (handed, _, _) = transmit::progress(&port.lives);
            if handed == 0 {
                return None;
            }
            let since = *port.since.get_or_insert(now);
            if now.saturating_sub(since) < ENOUGH {
                return None;
            }
            let error = answers(port.place)?.error;
            let error = i32::try_from(error).ok().filter(|&error| error > 0);
            let why = error.map(|error| format!(" ({})", io::Error::from_raw_os_error(error)));
            Some(format!(
                "the driver of {} took none of the first {handed} frames that the kernel engine redirected to it{}; use \
                 the engine 'packet'",
                port.interface,
                why.unwrap_or_default()
            ))
        })
    }
}
