//! When messages of a session leave: from a flow's rate and departures to a gap, in bursts or not.

use wirebeat_traffic::distribution::exponential::Exponential;
use wirebeat_traffic::distribution::uniform::Uniform;
use wirebeat_traffic::distribution::{Deviation, Distribution};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::{Departures, FlowRate};
use wirebeat_units::{FrameRate, Nanos, Rate};

const JITTER: &str = "departures of messages are not moved about their times; each gap is drawn from the interval \
                      around the mean instead";
const DRAWN_BURSTS: &str =
    "all bursts of a session are equally long: as long as the script's are on average";

/// When messages leave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As fast as the connection takes them.
    Unlimited,
    /// With this gap from one to the next.
    Spaced(Duration),
    /// The same, for so long in each burst.
    Bursts { gap: Duration, on: Nanos, next: NextBurst },
}

/// When the next burst begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NextBurst {
    /// So long after the last one began.
    Every(Duration),
    /// So long after the last one ended.
    After(Duration),
}

impl Pace {
    /// What a flow's rate and departures are for messages, and what of it is not quite the same; the error is why they are nothing for
    /// messages.
    pub fn of(
        rate: &FlowRate,
        departures: &Departures,
    ) -> Result<(Pace, Vec<&'static str>), &'static str> {
        let mut nearly = Vec::new();
        let pace = match departures {
            Departures::Constant if rate.is_unlimited() => Pace::Unlimited,
            Departures::Trace(_) | Departures::Capture(_) => {
                return Err("messages of a session have no times of a file");
            }
            Departures::OnOff(on_off) => {
                let gap = gap(rate, &on_off.departures, &mut nearly)
                    .ok_or("bursts of a session have a gap within, and no bursts")?;
                let (on, is_drawn) = match &on_off.on {
                    Duration::Fixed(on) => (*on, false),
                    drawn => {
                        (mean(drawn).and_then(whole).ok_or("the bursts have no mean length")?, true)
                    }
                };
                if is_drawn {
                    nearly.push(DRAWN_BURSTS);
                }
                match (&on_off.every, &on_off.off) {
                    // without a pause between them they are none
                    (Some(Duration::Fixed(every)), _) if *every <= on && !is_drawn => {
                        Pace::Spaced(gap)
                    }
                    (Some(every), _) => {
                        Pace::Bursts { gap, on, next: NextBurst::Every(every.clone()) }
                    }
                    (None, Some(off)) => {
                        Pace::Bursts { gap, on, next: NextBurst::After(off.clone()) }
                    }
                    (None, None) => Pace::Spaced(gap),
                }
            }
            single => {
                let gap = gap(rate, single, &mut nearly);
                Pace::Spaced(gap.ok_or("the times between messages are not known")?)
            }
        };
        Ok((pace, nearly))
    }

    /// The gap between messages.
    pub fn gap(&self) -> Option<&Duration> {
        match self {
            Pace::Unlimited => None,
            Pace::Spaced(gap) | Pace::Bursts { gap, .. } => Some(gap),
        }
    }
}

/// The time between messages of one after the other. `None`: there is none, or it is not known.
fn gap(rate: &FlowRate, departures: &Departures, nearly: &mut Vec<&str>) -> Option<Duration> {
    let usual = spacing(rate);
    Some(match departures {
        Departures::Constant => Duration::Fixed(usual?),
        Departures::Poisson(gaps) => {
            let mean = Some(gaps.mean.or(usual)?);
            Duration::Drawn(Distribution::Exponential(Exponential { mean }))
        }
        Departures::Drawn(drawn) => Duration::Drawn(with_mean(drawn.distribution.clone(), usual)?),
        Departures::Jitter(jitter) => {
            let usual = usual?;
            let apart = match jitter {
                Deviation::Amount(time) => *time,
                Deviation::Percent(percent) => whole(usual.get() as f64 * percent / 100.0)?,
            };
            if apart == Nanos::ZERO {
                return Some(Duration::Fixed(usual));
            }
            nearly.push(JITTER);
            let (min, max) = (usual.saturating_sub(apart), usual.saturating_add(apart));
            Duration::Drawn(Distribution::Uniform(Uniform { min, max }))
        }
        Departures::OnOff(_) | Departures::Trace(_) | Departures::Capture(_) => return None,
    })
}

/// The time between two packets of a rate, a nanosecond at least.
fn spacing(rate: &FlowRate) -> Option<Nanos> {
    match rate {
        FlowRate::Fixed(Rate::Frames(FrameRate { frames, per })) => {
            let half = frames / 2;
            let gap = per.get().checked_add(half)?.checked_div(*frames)?;
            Some(Nanos::new(gap.max(1)))
        }
        _ => None,
    }
}

/// The same with its mean, where a rate says it. `None`: nothing does.
fn with_mean(drawn: Distribution<Nanos>, usual: Option<Nanos>) -> Option<Distribution<Nanos>> {
    let mut drawn = drawn;
    match &mut drawn {
        Distribution::Exponential(of) => of.mean = Some(of.mean.or(usual)?),
        Distribution::Normal(of) => of.mean = Some(of.mean.or(usual)?),
        Distribution::Poisson(of) => of.mean = Some(of.mean.or(usual)?),
        _ => {}
    }
    Some(drawn)
}

/// The mean of a time, in nanoseconds. `None`: it has none.
pub(crate) fn mean(time: &Duration) -> Option<f64> {
    match time {
        Duration::Fixed(time) => Some(time.get() as f64),
        Duration::Drawn(distribution) => distribution.mean(),
    }
    .filter(|mean| mean.is_finite() && *mean >= 1.0)
}

fn whole(ns: f64) -> Option<Nanos> {
    (ns.is_finite() && (0.0..1e18).contains(&ns)).then(|| Nanos::new(ns.round() as u64))
}
