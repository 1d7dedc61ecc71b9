//! Senders whose driver takes nothing: found soon, and not at the end of a long run.

use std::io;
use std::sync::Arc;

use wirebeat_engine::drive::LiveTx;
use wirebeat_engine_linux::kernel::{Accepted, Answers};
use wirebeat_units::Nanos;

use crate::flows::Running;
use crate::transmit;

/// The time after the first frame was handed over by which a driver has accepted one.
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
    pub(crate) fn new(run: &Running<'_>, lives: &[Arc<LiveTx>]) -> Refusals {
        let counted = |place: &usize| run.open.accepted.get(*place).is_some_and(Option::is_some);
        let places = (0..run.lab.ports.len()).filter(counted);
        let untried = places.map(|place| {
            let mine =
                run.open.sending.iter().zip(lives).filter(|(sending, _)| sending.place == place);
            let lives = mine.map(|(_, live)| Arc::clone(live)).collect();
            Untried {
                place,
                interface: run.lab.ports[place].interface().to_owned(),
                lives,
                since: None,
            }
        });
        Refusals(untried.collect())
    }

    /// Why the run has to end: a driver took none of many frames.
    pub(crate) fn look(&mut self, accepted: &[Option<Accepted>], now: Nanos) -> Option<String> {
        self.judge(|place| accepted.get(place)?.as_ref().map(Accepted::answers), now)
    }

    /// The same for what drivers answered, by port.
    fn judge(&mut self, answers: impl Fn(usize) -> Option<Answers>, now: Nanos) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn answered(accepted: u64, refused: u64, error: u64) -> impl Fn(usize) -> Option<Answers> {
        move |place| (place == 3).then_some(Answers { accepted, refused, error })
    }

    /// A port that has handed over so many frames.
    fn port(handed: u64) -> (Refusals, Arc<LiveTx>) {
        let live = Arc::new(LiveTx::default());
        live.frames.store(handed, Ordering::Relaxed);
        let lives = vec![Arc::clone(&live)];
        let port = Untried { place: 3, interface: "eth1".to_owned(), lives, since: None };
        (Refusals(vec![port]), live)
    }

    #[test]
    fn a_driver_that_takes_nothing_is_told_within_100_ms() {
        let (mut refusals, live) = port(0);
        // nothing was handed over, however long it takes
        assert_eq!(refusals.judge(answered(0, 0, 0), ms(1000)), None);
        live.frames.store(64, Ordering::Relaxed);
        assert_eq!(refusals.judge(answered(0, 64, 6), ms(1010)), None);
        let why = refusals.judge(answered(0, 200, 6), ms(1060)).unwrap();
        assert!(why.starts_with("the driver of eth1 took none of the first 64 frames"), "{why}");
        assert!(why.contains("No such device or address") && why.contains("'packet'"), "{why}");
        // without an error of its own, or with one that is none
        for error in [0, u64::MAX] {
            let (mut refusals, _live) = port(64);
            assert_eq!(refusals.judge(answered(0, 0, error), ms(0)), None);
            let why = refusals.judge(answered(0, 0, error), ms(100)).unwrap();
            assert!(why.contains("redirected to it; use"), "{why}");
        }
    }

    #[test]
    fn a_driver_that_took_one_frame_is_trusted() {
        let (mut refusals, live) = port(64);
        assert_eq!(refusals.judge(answered(1, 63, 6), ms(1000)), None);
        live.frames.store(10_000, Ordering::Relaxed);
        assert_eq!(refusals.judge(answered(1, 9_999, 6), ms(9000)), None);
        assert_eq!(
            refusals.judge(answered(0, 9_999, 6), ms(9900)),
            None,
            "it is not looked at again"
        );
    }

    #[test]
    fn a_port_that_is_not_counted_is_not_judged() {
        let (mut refusals, _live) = port(64);
        assert_eq!(refusals.judge(|_| None, ms(0)), None);
        assert_eq!(refusals.judge(|_| None, ms(1000)), None);
    }
}
