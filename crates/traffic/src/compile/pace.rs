//! How the departures of a flow follow one another: its rate and its distribution become one pace.

use std::sync::Arc;

use wirebeat_units::{BitRate, FrameRate, Nanos, Rate, RateError};

use super::mean::Mean;
use super::{CompileError, Context};
use crate::law::draw::{Key, Purpose};
use crate::law::{Bounds, Deviation, Sampler};
use crate::program::Frames;
use crate::program::pace::{Curve, Gaps, Jittered, Lasting, Line, OnOff, Pace, Pause, Profile};
use crate::spec::departures::{self, Drawn, Duration};
use crate::spec::rate::{Ramp, Sine, Steps};
use crate::spec::{Departures, FlowRate, FlowSpec, KeyPath};

/// Where a phase stands among what came before it.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// How many phases of the flow came before.
    pub(super) number: u64,
    /// For how long its rate has been in force.
    pub(super) rate_age: Nanos,
}

/// Draws that a phase has to itself: more than it can use up, and few enough for all phases of a flow.
const DRAWS_OF_PHASE: u64 = 1 << 48;

/// The pace of the flow `name` with these frames, on a link of `speed`.
pub(super) fn pace(
    context: &Context<'_>,
    (name, flow): (&str, &FlowSpec),
    frames: &Frames,
    speed: Option<BitRate>,
    since: Since,
) -> Result<Pace, CompileError> {
    let maker = Maker { context, since, name, port: &flow.from, mean: Mean::of(frames), speed };
    maker.pace(&flow.departures, &flow.rate, 0)
}

struct Maker<'a> {
    context: &'a Context<'a>,
    since: Since,
    name: &'a str,
    port: &'a str,
    mean: Mean,
    speed: Option<BitRate>,
}

impl Maker<'_> {
    fn pace(
        &self,
        departures: &Departures,
        rate: &FlowRate,
        level: u8,
    ) -> Result<Pace, CompileError> {
        let contradiction =
            |why: &str| -> CompileError { self.at("departures").invalid(why).into() };
        if let Some(file) = departures.file() {
            return match rate.is_unlimited() {
                true => self.trace(file),
                false => Err(contradiction(
                    "the file says when frames leave, and so does 'rate'; leave one of them out",
                )),
            };
        }
        let rate = match rate {
            FlowRate::Fixed(rate) => self.frame_rate(*rate)?,
            changing => return self.profile(departures, changing),
        };
        match (departures, rate) {
            (Departures::Constant, None) if level > 0 => Err(contradiction(
                "frames leave at a rate within bursts; give the flow a 'rate', or bursts a \
                 distribution of times",
            )),
            (Departures::Constant, None) => Ok(Pace::Unlimited),
            (Departures::Constant, Some(rate)) => Ok(Pace::Constant(rate)),
            (Departures::Drawn(drawn), rate) => {
                let mean = rate.map(|rate| 1e9 / rate.per_second());
                let gaps = self.gaps(drawn, mean, Purpose::Gap)?;
                self.check_moves(&gaps).map(|()| Pace::Drawn(gaps))
            }
            (Departures::Jitter(_), None) => {
                Err(contradiction("jitter is about the times of a rate; give the flow a 'rate'"))
            }
            (Departures::Jitter(jitter), Some(rate)) => {
                let gap = 1e9 / rate.per_second();
                let reach = match jitter {
                    Deviation::Amount(time) => time.get() as f64,
                    Deviation::Percent(share) => gap * share / 100.0,
                };
                if reach > gap {
                    return Err(contradiction(
                        "a jitter of more than the time between two frames has no meaning; make it \
                         smaller",
                    ));
                }
                Ok(Pace::Jittered(Jittered { rate, reach, key: self.key(Purpose::Gap) }))
            }
            (Departures::OnOff(on_off), rate) => self.on_off(on_off, rate, level),
            (Departures::Trace(_) | Departures::Capture(_), _) => Ok(Pace::Silent),
        }
    }

    fn on_off(
        &self,
        on_off: &departures::OnOff,
        rate: Option<FrameRate>,
        level: u8,
    ) -> Result<Pace, CompileError> {
        let rate = rate.map_or(Rate::Unlimited, Rate::Frames);
        let within = self.pace(&on_off.departures, &FlowRate::Fixed(rate), level + 1)?;
        let on = self.lasting(&on_off.on, Purpose::OnTime(level))?;
        let off = |time| self.lasting(time, Purpose::OffTime(level));
        let pause = match (&on_off.off, &on_off.every) {
            (Some(time), _) => Pause::After(off(time)?),
            (None, Some(time)) => Pause::Every(off(time)?),
            (None, None) => Pause::After(Lasting::Fixed(Nanos::ZERO)),
        };
        Ok(Pace::OnOff(Box::new(OnOff { on, pause, within })))
    }

    fn lasting(&self, time: &Duration, purpose: Purpose) -> Result<Lasting, CompileError> {
        match time {
            Duration::Fixed(time) => Ok(Lasting::Fixed(*time)),
            Duration::Drawn(law) => {
                let drawn = Drawn { law: law.clone(), min: None, max: None };
                self.gaps(&drawn, None, purpose).map(Lasting::Drawn)
            }
        }
    }

    fn profile(&self, departures: &Departures, rate: &FlowRate) -> Result<Pace, CompileError> {
        let gaps = match departures {
            Departures::Constant => None,
            Departures::Drawn(drawn) => {
                Some(self.gaps(drawn, Some(Profile::UNIT), Purpose::Gap)?)
            }
            _ => {
                let why = "a rate that changes with time goes with constant departures or with a \
                           distribution";
                return Err(self.at("departures").invalid(why).into());
            }
        };
        let curve = match rate {
            FlowRate::Fixed(_) => return Ok(Pace::Unlimited),
            FlowRate::Steps(steps) => self.steps(steps)?,
            FlowRate::Ramp(ramp) => self.ramp(ramp)?,
            FlowRate::Sine(sine) => self.sine(sine)?,
        };
        Ok(Pace::Profile(Profile { curve, gaps, begin: self.since.rate_age.get() as f64 }))
    }

    fn steps(&self, steps: &Steps) -> Result<Curve, CompileError> {
        let mut lines = Vec::with_capacity(steps.rates.len());
        let mut rates = steps.rates.iter().peekable();
        while let Some((from, rate)) = rates.next() {
            let end = rates.peek().map(|(time, _)| **time).or(steps.every);
            let time = end.map_or(f64::INFINITY, |end| end.saturating_sub(*from).get() as f64);
            let rate = self.per_nano(*rate)?;
            lines.push(Line { time, from: rate, to: rate });
        }
        Ok(Curve::Lines { lines: lines.into(), again: steps.every.is_some() })
    }

    fn ramp(&self, ramp: &Ramp) -> Result<Curve, CompileError> {
        let (from, to) = (self.per_nano(ramp.from)?, self.per_nano(ramp.to)?);
        let over = ramp.over.get() as f64;
        let rest = ramp.every.map_or(f64::INFINITY, |every| every.get() as f64 - over);
        let lines = [Line { time: over, from, to }, Line { time: rest, from: to, to }];
        Ok(Curve::Lines { lines: Arc::new(lines), again: ramp.every.is_some() })
    }

    fn sine(&self, sine: &Sine) -> Result<Curve, CompileError> {
        let (mean, amplitude) = (self.per_nano(sine.mean)?, self.per_nano(sine.amplitude)?);
        if amplitude > mean {
            let why =
                "the amplitude is more than the mean, and no rate is below zero; make it smaller";
            return Err(self.at("rate").key("sine").key("amplitude").invalid(why).into());
        }
        Ok(Curve::Sine { mean, amplitude, period: sine.period.get() as f64 })
    }

    /// Frames per nanosecond.
    fn per_nano(&self, rate: Rate) -> Result<f64, CompileError> {
        Ok(self.frame_rate(rate)?.map_or(0.0, |rate| rate.per_second() / 1e9))
    }

    fn frame_rate(&self, rate: Rate) -> Result<Option<FrameRate>, CompileError> {
        self.mean.frame_rate(rate, self.speed).map_err(|error| {
            let at = self.at("rate");
            match error {
                RateError::NoLinkSpeed => CompileError::Unknown(
                    at.invalid(format!("{error}, or give port '{}' its 'speed'", self.port)),
                ),
                RateError::NoPayload => at.invalid(error.to_string()).into(),
            }
        })
    }

    fn gaps(
        &self,
        drawn: &Drawn,
        mean: Option<f64>,
        purpose: Purpose,
    ) -> Result<Gaps, CompileError> {
        let bounds = Bounds {
            min: drawn.min.map(|min| min.get() as f64),
            max: drawn.max.map(|max| max.get() as f64),
        };
        let sampler: Sampler = drawn
            .law
            .sampler(mean, bounds)
            .map_err(|error| self.at("departures").invalid(error.to_string()))?;
        Ok(Gaps { sampler: Arc::new(sampler), key: self.key(purpose) })
    }

    /// Times that are all zero would never get on.
    fn check_moves(&self, gaps: &Gaps) -> Result<(), CompileError> {
        match gaps.sampler.mean() {
            Some(mean) if mean < 0.5 => Err(self
                .at("departures")
                .invalid(
                    "frames follow one another in less than a nanosecond; make the times longer",
                )
                .into()),
            _ => Ok(()),
        }
    }

    fn trace(&self, file: &str) -> Result<Pace, CompileError> {
        let gaps = self.context.files.gaps(file);
        let gaps = gaps.map_err(|why| self.at("departures").invalid(why))?;
        if gaps.iter().all(|gap| *gap == 0) {
            let why =
                format!("no time passes in '{file}'; it would be sent all at once and for ever");
            return Err(self.at("departures").invalid(why).into());
        }
        Ok(Pace::Trace(gaps.into()))
    }

    fn key(&self, purpose: Purpose) -> Key {
        // A phase does not repeat the draws of the one before it.
        let drawn = self.since.number.wrapping_mul(DRAWS_OF_PHASE);
        Key::new(self.context.seed, self.context.id.into(), purpose).after(drawn)
    }

    fn at(&self, key: &str) -> KeyPath {
        KeyPath::flow(self.name).key(key)
    }
}
