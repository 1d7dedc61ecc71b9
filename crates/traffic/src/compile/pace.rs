//! How the departures of a flow follow one another: its rate and its distribution become one pace.

use std::sync::Arc;

use wirebeat_units::{BitRate, Fault, FrameRate, Nanos, Rate, RateError, fault};

use super::mean::Mean;
use super::memo::Meaning;
use super::{CompileError, Context};
use crate::distribution::draw::{Key, Purpose};
use crate::distribution::exponential::Exponential;
use crate::distribution::{Bounded, Deviation, Distribution};
use crate::program::Frames;
use crate::program::curve::{Curve, Line, Lines, Sine};
use crate::program::pace::{Gaps, Jittered, Lasting, OnOff, Pace, Pause, Profile};
use crate::scenario::departures::{self, Duration};
use crate::scenario::rate::{self, Ramp, Steps};
use crate::scenario::{Departures, FlowRate, FlowSpec, KeyPath};

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

/// The pace of a flow with these frames, on a link of `speed`.
pub(super) fn pace(
    context: &Context<'_>,
    flow: &FlowSpec,
    frames: &Frames,
    speed: Option<BitRate>,
    since: Since,
) -> Result<Pace, CompileError> {
    let maker = PaceMaker { context, since, port: &flow.from, mean: Mean::of(frames), speed };
    maker.pace(&flow.departures, &flow.rate, 0)
}

/// How fast frames are to follow one another.
enum Speed {
    /// As fast as the engine can, or as departures say.
    Unlimited,
    Constant(FrameRate),
    Along(Curve),
}

/// Why other departures do not.
const NOT_ALONG: &str =
    "a rate that changes with time goes with constant departures or with a distribution";

struct PaceMaker<'a> {
    context: &'a Context<'a>,
    since: Since,
    port: &'a str,
    mean: Mean,
    speed: Option<BitRate>,
}

impl PaceMaker<'_> {
    fn pace(
        &self,
        departures: &Departures,
        rate: &FlowRate,
        level: u8,
    ) -> Result<Pace, CompileError> {
        match departures {
            Departures::Constant => match self.speed(rate)? {
                Speed::Unlimited if level > 0 => Err(self.contradiction(fault!(
                    "frames leave at a rate within bursts";
                    "give the flow a 'rate', or bursts a distribution of times"
                ))),
                Speed::Unlimited => Ok(Pace::Unlimited),
                Speed::Constant(rate) => Ok(Pace::Constant(rate)),
                Speed::Along(curve) => Ok(self.profile(curve, None)),
            },
            Departures::Poisson(Exponential { mean: None }) if rate.is_unlimited() => {
                let why = fault!(
                    "nothing says how fast the frames of 'poisson' follow one another";
                    "give the flow a 'rate', or write {{ poisson: {{ mean: 1ms }} }}"
                );
                Err(self.contradiction(why))
            }
            Departures::Poisson(gaps) => {
                let distribution = Distribution::Exponential(gaps.clone());
                self.pace(&Departures::Drawn(distribution.into()), rate, level)
            }
            Departures::Drawn(drawn) => {
                let gaps = |mean| self.gaps(drawn, mean, Purpose::Gap);
                let gaps = match self.speed(rate)? {
                    Speed::Unlimited => gaps(None)?,
                    Speed::Constant(rate) => gaps(Some(1e9 / rate.per_second()))?,
                    Speed::Along(curve) => {
                        return Ok(self.profile(curve, Some(gaps(Some(Profile::UNIT))?)));
                    }
                };
                self.check_moves(&gaps).map(|()| Pace::Drawn(gaps))
            }
            Departures::Jitter(jitter) => self.jittered(jitter, rate),
            Departures::OnOff(on_off) => self.on_off(on_off, rate, level),
            Departures::Trace(file) | Departures::Capture(file) if rate.is_unlimited() => {
                self.trace(file)
            }
            Departures::Trace(_) | Departures::Capture(_) => Err(self.contradiction(fault!(
                "the file says when frames leave, and so does 'rate'";
                "leave one of them out"
            ))),
        }
    }

    fn jittered(&self, jitter: &Deviation<Nanos>, rate: &FlowRate) -> Result<Pace, CompileError> {
        let rate = match self.speed(rate)? {
            Speed::Constant(rate) => rate,
            Speed::Unlimited => {
                let why = fault!("jitter is about the times of a rate"; "give the flow a 'rate'");
                return Err(self.contradiction(why));
            }
            Speed::Along(_) => return Err(self.contradiction(NOT_ALONG)),
        };
        let gap = 1e9 / rate.per_second();
        let reach = match jitter {
            Deviation::Amount(time) => time.get() as f64,
            Deviation::Percent(share) => gap * share / 100.0,
        };
        if reach > gap {
            return Err(self.contradiction(fault!(
                "a jitter of more than the time between two frames has no meaning";
                "make it smaller"
            )));
        }
        Ok(Pace::Jittered(Jittered { rate, reach, key: self.key(Purpose::Gap) }))
    }

    fn on_off(
        &self,
        on_off: &departures::OnOff,
        rate: &FlowRate,
        level: u8,
    ) -> Result<Pace, CompileError> {
        if !matches!(rate, FlowRate::Fixed(_)) {
            return Err(self.contradiction(NOT_ALONG));
        }
        let within = self.pace(&on_off.departures, rate, level + 1)?;
        let on = self.lasting(&on_off.on, Purpose::OnTime(level))?;
        check_jitter(&within, &on).map_err(|why| self.contradiction(why))?;
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
            Duration::Drawn(distribution) => {
                let drawn = distribution.clone().into();
                self.gaps(&drawn, None, purpose).map(Lasting::Drawn)
            }
        }
    }

    fn profile(&self, curve: Curve, gaps: Option<Gaps>) -> Pace {
        Pace::Profile(Profile { curve, gaps, begin: self.since.rate_age.get() as f64 })
    }

    fn speed(&self, rate: &FlowRate) -> Result<Speed, CompileError> {
        Ok(match rate {
            FlowRate::Fixed(rate) => {
                self.frame_rate(*rate)?.map_or(Speed::Unlimited, Speed::Constant)
            }
            FlowRate::Steps(steps) => Speed::Along(self.steps(steps)?),
            FlowRate::Ramp(ramp) => Speed::Along(self.ramp(ramp)?),
            FlowRate::Sine(sine) => Speed::Along(self.sine(sine)?),
        })
    }

    fn steps(&self, steps: &Steps) -> Result<Curve, CompileError> {
        let (rates, memos) = (&steps.rates, self.context.memos);
        let full = || {
            let why = "there are too many different steps in all flows and changes";
            self.at("rate").invalid(why).into()
        };
        let in_frames = || Ok(rates.values().all(|rate| matches!(rate, Rate::Frames(_))));
        let bits = match memos.in_frames.of((rates, 0), (), full, in_frames)? {
            true => None,
            false => Some((self.mean, self.speed)),
        };
        let with = Meaning { every: steps.every, bits };
        let make = || self.lines(steps);
        memos.steps.of((rates, rates.len()), with, full, make).map(Curve::Lines)
    }

    fn lines(&self, steps: &Steps) -> Result<Lines, CompileError> {
        let mut lines = Vec::with_capacity(steps.rates.len());
        let mut rates = steps.rates.iter().peekable();
        while let Some((from, rate)) = rates.next() {
            let end = rates.peek().map(|(time, _)| **time).or(steps.every);
            let time = end.map_or(f64::INFINITY, |end| end.saturating_sub(*from).get() as f64);
            let rate = self.per_nano(*rate)?;
            lines.push(Line { time, from: rate, to: rate });
        }
        Ok(Lines::new(lines, steps.every.is_some()))
    }

    fn ramp(&self, ramp: &Ramp) -> Result<Curve, CompileError> {
        let (from, to) = (self.per_nano(ramp.from)?, self.per_nano(ramp.to)?);
        let over = ramp.over.get() as f64;
        let rest = ramp.every.map_or(f64::INFINITY, |every| every.get() as f64 - over);
        let lines = vec![Line { time: over, from, to }, Line { time: rest, from: to, to }];
        Ok(Curve::Lines(Lines::new(lines, ramp.every.is_some())))
    }

    fn sine(&self, sine: &rate::Sine) -> Result<Curve, CompileError> {
        let (mean, amplitude) = (self.per_nano(sine.mean)?, self.per_nano(sine.amplitude)?);
        if amplitude > mean {
            let why = fault!(
                "the amplitude is more than the mean, and no rate is below zero";
                "make it smaller"
            );
            return Err(self.at("rate").key("sine").key("amplitude").invalid(why).into());
        }
        Ok(Curve::Sine(Sine { mean, amplitude, period: sine.period.get() as f64 }))
    }

    /// Frames per nanosecond.
    fn per_nano(&self, rate: Rate) -> Result<f64, CompileError> {
        Ok(self.frame_rate(rate)?.map_or(0.0, |rate| rate.per_second() / 1e9))
    }

    fn frame_rate(&self, rate: Rate) -> Result<Option<FrameRate>, CompileError> {
        self.mean.frame_rate(rate, self.speed).map_err(|error| {
            let at = self.at("rate");
            match error {
                RateError::NoLinkSpeed => CompileError::Unknown(at.invalid(fault!(
                    "{error}";
                    "give the rate in bps or pps, or give port '{}' its 'speed'", self.port
                ))),
                RateError::NoPayload => at.invalid(error.to_string()).into(),
            }
        })
    }

    fn gaps(
        &self,
        drawn: &Bounded<Nanos>,
        mean: Option<f64>,
        purpose: Purpose,
    ) -> Result<Gaps, CompileError> {
        let sampler =
            drawn.sampler(mean).map_err(|error| self.at("departures").invalid(error.fault()))?;
        Ok(Gaps { sampler: Arc::new(sampler), key: self.key(purpose) })
    }

    /// Times that are all zero would never get on.
    fn check_moves(&self, gaps: &Gaps) -> Result<(), CompileError> {
        match gaps.sampler.mean() {
            Some(mean) if mean < 0.5 => Err(self.contradiction(fault!(
                "frames follow one another in less than a nanosecond";
                "make the times longer"
            ))),
            _ => Ok(()),
        }
    }

    fn trace(&self, file: &str) -> Result<Pace, CompileError> {
        let gaps = self.context.files.gaps(file);
        let gaps = gaps.map_err(|why| self.at("departures").invalid(why))?;
        if gaps.iter().all(|gap| *gap == 0) {
            let why =
                fault!("no time passes in '{file}'"; "it would be sent all at once and for ever");
            return Err(self.contradiction(why));
        }
        Ok(Pace::Trace(gaps))
    }

    fn contradiction(&self, why: impl Into<Fault>) -> CompileError {
        self.at("departures").invalid(why).into()
    }

    fn key(&self, purpose: Purpose) -> Key {
        // A phase does not repeat the draws of the one before it.
        let drawn = self.since.number.wrapping_mul(DRAWS_OF_PHASE);
        Key::new(self.context.seed, self.context.number.into(), purpose).after(drawn)
    }

    fn at(&self, key: &str) -> KeyPath {
        KeyPath::flow(self.context.name).key(key)
    }
}

/// Bursts whose first frame may come after their end have none; where that were most of them, many would be gone
/// through for a frame.
fn check_jitter(within: &Pace, on: &Lasting) -> Result<(), Fault> {
    /// The share of bursts that are at least as long as a frame may be off.
    const LEAST: f64 = 0.01;
    let reach = within.reach();
    let long = match on {
        Lasting::Fixed(time) => time.get() as f64 >= reach,
        Lasting::Drawn(gaps) => 1.0 - gaps.sampler.cdf(reach) >= LEAST,
    };
    if reach == 0.0 || long {
        return Ok(());
    }
    Err(fault!(
        "bursts are shorter than the jitter within them, so that most would have no frame";
        "make 'on' longer, or the jitter smaller"
    ))
}

#[cfg(test)]
mod tests {
    use crate::compile::{Files, Link, Links, compile};
    use crate::program::Program;
    use crate::scenario::Scenario;
    use crate::schedule::{Schedule, Shard};

    fn compiled(keys: &str) -> Result<Program, String> {
        let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, to: a, {keys} }} }}\n");
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let mut files = Files::default();
        files.insert("trace".to_owned(), b"64B 1us\n".to_vec());
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|e| panic!("{e}"));
        compile(&scenario, &links, &files).map_err(|error| error.to_string())
    }

    #[test]
    fn departures_that_do_not_go_with_their_rate() {
        let twice = "the file says when frames leave, and so does 'rate'; leave one of them out";
        let along =
            "a rate that changes with time goes with constant departures or with a distribution";
        let ramp = "rate: { ramp: { from: 1kpps, to: 2kpps, over: 1s } }";
        for (keys, expected) in [
            ("rate: 1kpps, departures: { trace: trace }".to_owned(), twice),
            (format!("{ramp}, departures: {{ trace: trace }}"), twice),
            (format!("{ramp}, departures: {{ jitter: 10us }}"), along),
            (format!("{ramp}, departures: {{ on-off: {{ on: 1s, off: 1s }} }}"), along),
            (
                "departures: { jitter: 10us }".to_owned(),
                "jitter is about the times of a rate; give the flow a 'rate'",
            ),
            (
                "departures: poisson".to_owned(),
                "nothing says how fast the frames of 'poisson' follow one another; give the flow a 'rate', or write { \
                 poisson: { mean: 1ms } }",
            ),
            (
                "departures: { on-off: { on: 1s, off: 1s } }".to_owned(),
                "frames leave at a rate within bursts; give the flow a 'rate', or bursts a distribution \
                 of times",
            ),
        ] {
            let why = compiled(&keys).unwrap_err();
            assert_eq!(why, format!("flows.x.departures: {expected}"), "{keys}");
        }
    }

    #[test]
    fn bursts_that_are_too_short_for_their_jitter_are_refused() {
        let bursts = |on: &str, within: &str| {
            compiled(&format!(
                "rate: 1kpps, departures: {{ on-off: {{ on: {on}, off: 1us, departures: {within} }} }}"
            ))
        };
        let nested = "{ on-off: { on: 1ms, off: 1ms, departures: { jitter: 500us } } }";
        for (on, within) in [
            ("1ns", "{ jitter: 100us }"),
            ("99us", "{ jitter: 100us }"),
            ("{ exponential: { mean: 10us } }", "{ jitter: 100us }"),
            ("1us", nested),
        ] {
            let why = bursts(on, within).unwrap_err();
            assert!(why.contains("bursts are shorter than the jitter within them"), "{on}: {why}");
        }
        for (on, within) in [
            ("100us", "{ jitter: 100us }"),
            ("{ exponential: { mean: 50us } }", "{ jitter: 100us }"),
            ("1ms", nested),
        ] {
            let program = bursts(on, within).unwrap();
            let departures = Schedule::new(&program, &[0], Shard::WHOLE).take(1000);
            assert_eq!(departures.count(), 1000, "{on}");
        }
    }

    #[test]
    fn a_frame_that_is_late_for_its_burst_does_not_leave_in_the_pause() {
        let within = "{ on-off: { on: 1ms, off: 9ms, departures: { jitter: 1ms } } }";
        for departures in [
            within.to_owned(),
            format!("{{ on-off: {{ on: 1s, off: 1s, departures: {within} }} }}"),
        ] {
            let program = compiled(&format!("rate: 1kpps, departures: {departures}")).unwrap();
            for departure in Schedule::new(&program, &[0], Shard::WHOLE).take(1000) {
                let at = departure.at.get() % 1_000_000_000;
                assert!(at % 10_000_000 < 1_000_000, "{departures}: {at}");
            }
        }
    }
}
