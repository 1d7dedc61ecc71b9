//! A lab on which flows are sent at any load: the trials of a test, each with what the tester itself did wrong in it.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use wirebeat_report::model::{End, Finding, FindingKind, FlowReport, OFFERED, Report, Verdict};
use wirebeat_report::test_report::TrialReport;
use wirebeat_run::{Lab, Observer, RunError, Stop};
use wirebeat_traffic::compile::CompileError;
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::{FlowSpec, KeyPath, Scenario, Size};
use wirebeat_units::{BitRate, Fault, FrameRate, Nanos, Rate, fault, human};

use crate::attempts::{ATTEMPTS, Attempts, better};

/// A sender that is later than so many packet gaps, at the 99th percentile, is said to be late.
pub(crate) const LATE_GAPS: f64 = 16.0;
/// Bytes that a frame takes on the line beside its own: preamble, start delimiter and gap (IEEE 802.3).
pub(crate) const OVERHEAD: f64 = 20.0;
/// Rates are whole frames in so many seconds.
const RATE_SECONDS: u64 = 1000;

/// What makes the losses of a trial doubtful: the tester, and not what it tests, may have lost frames or sent them in bursts.
const DOUBTS: [FindingKind; 14] = [
    FindingKind::CountersInconsistent,
    FindingKind::Unfinished,
    FindingKind::LinkDown,
    FindingKind::FramesFailed,
    FindingKind::FramesExpired,
    FindingKind::FramesNotReached,
    FindingKind::CardDroppedIn,
    FindingKind::CardDroppedOut,
    FindingKind::SenderPaused,
    FindingKind::CardChanged,
    FindingKind::ReceiverDrops,
    FindingKind::SequenceDoubtful,
    FindingKind::FlowNumberShared,
    FindingKind::NotMeasured,
];

/// Of these, those with which nothing is known of the device, whether frames were lost or not.
const UNSOUND: [FindingKind; 6] = [
    FindingKind::CountersInconsistent,
    FindingKind::Unfinished,
    FindingKind::LinkDown,
    FindingKind::SequenceDoubtful,
    FindingKind::FlowNumberShared,
    FindingKind::NotMeasured,
];

/// The highest load of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxLoad {
    /// What its link carries.
    Link,
    /// This, of each port.
    Rate(Rate),
}

/// Flows that can be sent at any load.
pub(crate) struct Bench {
    lab: Lab,
    flows: IndexMap<String, FlowSpec>,
    /// What each flow sends of the load of its port.
    shares: Vec<f64>,
    /// The ports that send, each with the sum of what its flows send: 1 for the busiest.
    ports: BTreeMap<String, f64>,
}

/// What a load is with frames of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lengths {
    /// Bytes of a frame on average, with FCS.
    pub frame: f64,
    /// Bytes after the headers.
    pub payload: f64,
}

/// An overload and what follows it, as loads of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overload {
    /// The overload.
    pub load: f64,
    /// How long it takes.
    pub time: Nanos,
    /// The load after it.
    pub after: f64,
    /// How long that takes.
    pub window: Nanos,
}

/// A part of the time after an overload, in the times at which frames were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// When it began, from the end of the overload.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Frames of it that were lost.
    pub lost: u64,
}

/// A trial that was made, and the run that it was.
#[derive(Debug)]
pub(crate) struct Made {
    pub trial: TrialReport,
    pub report: Report,
}

/// Why a test goes no further.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It was cut off: by a signal, or because an interface is gone.
    Ended(End),
    /// It cannot be made so.
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Halt {
        Halt::Failed(error)
    }
}

fn of_flow(name: &str, why: Fault) -> RunError {
    RunError::from(CompileError::from(KeyPath::flow(name).invalid(why)))
}

impl Bench {
    /// With the flows of a scenario. Their rates say how they share the load of a port: as 2 to 1 where one has 200 pps and the other
    /// 100 pps, and all alike where none has a rate.
    ///
    /// # Errors
    /// Flows whose load cannot be changed, and a lab that cannot be opened.
    pub(crate) fn open(
        scenario: &Scenario,
        options: wirebeat_run::Options,
    ) -> Result<Bench, RunError> {
        if scenario.flows.is_empty() || !scenario.sessions.is_empty() {
            return Err(RunError::Usage(fault!(
                "the scenario has no flows, or has sessions";
                "a test of a device sends flows of frames: give it a scenario with flows alone"
            )));
        }
        let limited = scenario.flows.values().filter(|flow| !flow.rate.is_unlimited()).count();
        let mut weights = Vec::new();
        for (name, flow) in &scenario.flows {
            weights.push(weight(name, flow, limited > 0)?);
        }
        let mut ports: BTreeMap<String, f64> = BTreeMap::new();
        for (flow, weight) in scenario.flows.values().zip(&weights) {
            *ports.entry(flow.from.clone()).or_default() += weight;
        }
        let busiest = ports.values().copied().fold(0.0, f64::max);
        ports.values_mut().for_each(|sum| *sum /= busiest);
        let shares = weights.iter().map(|weight| weight / busiest).collect();
        let lab = Lab::open(scenario, options)?;
        Ok(Bench { lab, flows: scenario.flows.clone(), shares, ports })
    }

    /// How many ports send.
    pub(crate) fn sending_ports(&self) -> u32 {
        u32::try_from(self.ports.len()).unwrap_or(u32::MAX)
    }

    /// The highest load in words.
    ///
    /// # Errors
    /// A link whose speed is not known.
    pub(crate) fn named(&self, max: MaxLoad) -> Result<String, RunError> {
        match max {
            MaxLoad::Rate(rate) => Ok(rate.to_string()),
            MaxLoad::Link => Ok(format!("{}, the speed of the link", self.link()?)),
        }
    }

    /// The speed of the slowest link that sends.
    fn link(&self) -> Result<BitRate, RunError> {
        let mut slowest: Option<BitRate> = None;
        for port in self.ports.keys() {
            let Some(speed) = self.lab.link_speed(port) else {
                return Err(RunError::Usage(fault!(
                    "the speed of the link of port '{port}' is not known, so that there is no highest load";
                    "give one with --max-rate, for example --max-rate 1Mpps"
                )));
            };
            slowest =
                Some(slowest.map_or(speed, |other| if speed.0 < other.0 { speed } else { other }));
        }
        slowest.ok_or_else(|| RunError::Usage("no port sends".into()))
    }

    /// The port with the smallest MTU, of those that flows pass, and that.
    pub(crate) fn smallest_mtu(&self) -> Option<(&str, u32)> {
        let ends = self.flows.values().flat_map(|flow| [Some(&flow.from), flow.to.as_ref()]);
        let mtus = ends.flatten().filter_map(|port| Some((port.as_str(), self.lab.mtu(port)?)));
        mtus.min_by_key(|(_, mtu)| *mtu)
    }

    /// The highest load of a port, in frames per second.
    ///
    /// # Errors
    /// A rate that says nothing here.
    pub(crate) fn max(&self, max: MaxLoad, of: Lengths) -> Result<f64, RunError> {
        let rate = match max {
            MaxLoad::Link => {
                return Ok(self.link()?.0 as f64 / ((of.frame + OVERHEAD) * 8.0));
            }
            MaxLoad::Rate(rate) => rate,
        };
        // per 1000 frames, so that a mean need not be whole
        let bytes = |each: f64| (each * 1000.0).round().max(1.0) as u64;
        let lengths = [bytes(of.frame + OVERHEAD), bytes(of.frame), bytes(of.payload)];
        let link = match rate {
            Rate::LinkShare(_) => Some(self.link()?),
            _ => None,
        };
        match rate.frames_of(1000, lengths, link) {
            Ok(Some((frames, ns))) => Ok(frames as f64 * 1e9 / ns.max(1) as f64),
            Ok(None) => Err(RunError::Usage(fault!(
                "there is no end to 'unlimited', and so no highest load";
                "give a rate, for example 1Mpps; a tester that cannot offer it says so"
            ))),
            Err(error) => Err(RunError::Usage(fault!(
                "{error}"; "give the highest load in frames per second, for example 1Mpps"
            ))),
        }
    }

    /// A few frames of each flow, for devices that learn where to send them (RFC 2544 §23), and how long frames are.
    ///
    /// # Errors
    /// Frames that cannot have this size.
    pub(crate) fn learn(
        &mut self,
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<Report, RunError> {
        const FRAMES: u64 = 10;
        let mut flows = self.sized(size);
        for flow in flows.values_mut() {
            flow.rate = FlowRate::from(Rate::Frames(rate(100.0)));
            flow.count = std::num::NonZeroU64::new(FRAMES);
        }
        self.lab.run(flows, None, observer, stop)
    }

    /// How long the frames of the busiest port are, by the report of a run with them.
    pub(crate) fn lengths(&self, report: &Report) -> Option<Lengths> {
        let (busiest, _) = self.ports.iter().find(|(_, sum)| **sum >= 1.0)?;
        let mut lengths = Lengths { frame: 0.0, payload: 0.0 };
        for ((name, flow), share) in self.flows.iter().zip(&self.shares) {
            if flow.from != *busiest {
                continue;
            }
            let of = report.flows.iter().find(|of| of.name == *name)?;
            let sizes = of.sizes.as_ref()?;
            let sent = of.sent.as_ref().map(|sent| sent.sent).unwrap_or_default();
            let measured = |bytes: u64| bytes as f64 / sent.frames.max(1) as f64;
            let mean = |range: wirebeat_report::model::LengthRange, bytes: u64| match range.mean {
                Some(mean) => mean,
                None if range.min == range.max => f64::from(range.min),
                None => measured(bytes),
            };
            lengths.frame += share * mean(sizes.frame_bytes, sent.frame_bytes);
            lengths.payload += share * mean(sizes.payload_bytes, sent.payload_bytes);
        }
        (lengths.frame > 0.0).then_some(lengths)
    }

    /// Offers `load` for `time`, again where the tester may have lost frames itself (see [`Attempts`]).
    ///
    /// # Errors
    /// Flows that cannot be sent so, and trials of which none is sound.
    pub(crate) fn offer(
        &mut self,
        (purpose, load, time): (&str, f64, Nanos),
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<Box<Made>, Halt> {
        let (mut attempts, mut unsound) = (Attempts::new(), None);
        loop {
            let report = whole(self.lab.run(self.at(load, size), Some(time), observer, stop)?)?;
            let why = report.findings.iter().find(|of| UNSOUND.contains(&of.kind)).cloned();
            let last = match why {
                Some(why) => {
                    unsound = Some(why);
                    attempts.unsound()
                }
                None => {
                    let trial = self.measured(&report, (purpose, load, time));
                    let of_burst = may_be_of_burst(&trial, &report);
                    attempts.take(trial, report, of_burst)
                }
            };
            if last {
                break;
            }
        }
        let counts = attempts.counts().map(|(trial, report)| Box::new(Made { trial, report }));
        counts.ok_or_else(|| {
            let why = unsound.map_or_else(String::new, |of: Finding| of.message);
            Halt::Ended(End::Failed {
                message: format!("a trial was made {ATTEMPTS} times and is sound in none: {why}"),
            })
        })
    }

    /// The flows at a load, with one more that sends a single frame in the middle of `time`: the tagged frame of RFC 2544 §26.2. Up to
    /// [`ATTEMPTS`] times where the tester could not offer the load. With the delay of the tagged frame, unless that was lost.
    ///
    /// # Errors
    /// Flows that cannot be sent so.
    pub(crate) fn tag(
        &mut self,
        (load, time): (f64, Nanos),
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<(Box<Made>, Option<i64>), Halt> {
        const NAME: &str = "tagged frame";
        let mut flows = self.at(load, size);
        let Some(first) = flows.values().next().cloned() else {
            return Err(Halt::Failed(RunError::Usage("there are no flows".into())));
        };
        let one = std::num::NonZeroU64::new(1);
        let start = Nanos::new(time.get() / 2);
        flows.insert(NAME.to_owned(), FlowSpec { count: one, start, ..first });
        let mut best: Option<(Box<Made>, Option<i64>)> = None;
        for attempt in 0..ATTEMPTS {
            let report = whole(self.lab.run(flows.clone(), Some(time), observer, stop)?)?;
            let tagged = report.flows.iter().find(|flow| flow.name == NAME).and_then(delay_of_one);
            let mut trial = self.measured(&report, ("latency", load, time));
            trial.repeated = attempt;
            let limited = trial.is_limited();
            match &mut best {
                Some((before, _)) if !better(&trial, &before.trial) => {
                    before.trial.repeated = attempt;
                }
                _ => best = Some((Box::new(Made { trial, report }), tagged)),
            }
            if !limited {
                break;
            }
        }
        best.ok_or(Halt::Ended(End::Stopped { signal: String::new() }))
    }

    /// Offers a load once, whatever becomes of it.
    ///
    /// # Errors
    /// Flows that cannot be sent so.
    pub(crate) fn once(
        &mut self,
        (purpose, load, time): (&str, f64, Nanos),
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<Box<Made>, Halt> {
        let report = whole(self.lab.run(self.at(load, size), Some(time), observer, stop)?)?;
        let trial = self.measured(&report, (purpose, load, time));
        Ok(Box::new(Made { trial, report }))
    }

    /// Overloads the device, and sends less after that. What is lost then is told by parts of that time, which become longer: each is
    /// a flow of its own, so that its frames are counted to the last.
    ///
    /// # Errors
    /// Flows that cannot be sent so.
    pub(crate) fn overload(
        &mut self,
        (purpose, of): (&str, Overload),
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<(Box<Made>, Vec<Part>), Halt> {
        let name = |flow: &str, part: usize| format!("{flow}, part {part} after the overload");
        let mut flows = self.at(of.load, size);
        flows.values_mut().for_each(|flow| flow.stop = Some(of.time));
        let all = of.time.saturating_add(of.window);
        for ((flow, spec), share) in self.sized(size).into_iter().zip(&self.shares) {
            let each = rate(of.after * share);
            let number = |at: u64| (at as f64 / 1e9 * each.per_second()).ceil() as u64;
            for (part, (from, to)) in parts(of.window, self.flows.len()).enumerate() {
                let (first, end) = (number(from), number(to));
                let Some(count) = std::num::NonZeroU64::new(end.saturating_sub(first)) else {
                    continue;
                };
                let due = Nanos::new((first as f64 / each.per_second() * 1e9) as u64);
                let spec = FlowSpec {
                    rate: FlowRate::from(Rate::Frames(each)),
                    start: of.time.saturating_add(due),
                    count: Some(count),
                    ..spec.clone()
                };
                flows.insert(name(&flow, part), spec);
            }
        }
        let report = whole(self.lab.run(flows, Some(all), observer, stop)?)?;
        let losses: BTreeMap<&str, u64> = report
            .flows
            .iter()
            .filter_map(|flow| Some((flow.name.as_str(), flow.loss?.frames)))
            .collect();
        let lost = |part: usize| {
            let of_part = self.flows.keys().map(|flow| name(flow, part));
            let lost = of_part.filter_map(|name| losses.get(name.as_str()).copied());
            lost.fold(0, u64::saturating_add)
        };
        let parts = parts(of.window, self.flows.len())
            .enumerate()
            .map(|(part, (from_ns, to_ns))| Part { from_ns, to_ns, lost: lost(part) })
            .collect();
        let [over, after, whole] = [of.time, of.window, all].map(|time| time.get() as f64);
        let mean = (of.load * over + of.after * after) / whole.max(1.0);
        let mut trial = self.measured(&report, (purpose, mean, all));
        (trial.intended, trial.offered) = (of.load, of.load * (trial.offered / mean).min(1.0));
        Ok((Box::new(Made { trial, report }), parts))
    }

    /// Sends a burst of `frames` frames by each port, at `load`: up to [`ATTEMPTS`] times where the tester disturbed itself and frames
    /// were lost. Where none of them is in time, the burst is doubtful.
    ///
    /// # Errors
    /// Flows that cannot be sent so.
    pub(crate) fn burst(
        &mut self,
        (frames, load): (u64, f64),
        size: Option<&Size>,
        (observer, stop): (&mut dyn Observer, &Stop),
    ) -> Result<Box<Made>, Halt> {
        let mut flows = self.at(load, size);
        for (flow, share) in flows.values_mut().zip(&self.shares) {
            let count = (frames as f64 * share).round().max(1.0) as u64;
            flow.count = std::num::NonZeroU64::new(count);
        }
        let time = Nanos::new((frames as f64 / load * 1e9) as u64);
        let all: f64 = self.ports.values().sum();
        let mut best: Option<Box<Made>> = None;
        for attempt in 0..ATTEMPTS {
            let report = whole(self.lab.run(flows.clone(), None, observer, stop)?)?;
            let mut trial = self.measured(&report, ("back-to-back", load, time));
            // how fast they left says the time between the first and the last
            let rates = report.total.sent.as_ref().and_then(|sent| sent.rates);
            let left = rates.map_or(load, |rates| rates.frames_per_second / all);
            trial.offered = if left < load * OFFERED { left } else { load };
            let again =
                trial.lost > 0 && (trial.doubt.is_some() || may_be_of_burst(&trial, &report));
            if again && trial.doubt.is_none() {
                trial.doubt = lateness_doubt(&trial);
            }
            trial.repeated = attempt;
            match &mut best {
                Some(before) if !says_more_of_burst(&trial, &before.trial) => {
                    before.trial.repeated = attempt;
                }
                _ => best = Some(Box::new(Made { trial, report })),
            }
            if !again {
                break;
            }
        }
        best.ok_or(Halt::Ended(End::Stopped { signal: String::new() }))
    }

    /// The flows with frames of a size.
    fn sized(&self, size: Option<&Size>) -> IndexMap<String, FlowSpec> {
        let mut flows = self.flows.clone();
        if let Some(size) = size {
            flows.values_mut().for_each(|flow| flow.size = Some(size.clone()));
        }
        flows
    }

    /// The flows at a load.
    fn at(&self, load: f64, size: Option<&Size>) -> IndexMap<String, FlowSpec> {
        let mut flows = self.sized(size);
        for (flow, share) in flows.values_mut().zip(&self.shares) {
            flow.rate = FlowRate::from(Rate::Frames(rate(load * share)));
        }
        flows
    }

    /// What a run says of a trial.
    fn measured(&self, report: &Report, (purpose, load, time): (&str, f64, Nanos)) -> TrialReport {
        let of_sent = report.total.sent.clone().unwrap_or_default();
        let of_received = report.total.received.clone().unwrap_or_default();
        let (sent, requested) = (of_sent.sent.frames, of_sent.requested.frames);
        let lost = report.total.loss.map_or(sent, |loss| loss.frames);
        let loss_ratio = if sent > 0 { lost as f64 / sent as f64 } else { 1.0 };
        let all: f64 = self.ports.values().sum();
        let asked = load * all * time.get() as f64 / 1e9;
        // a frame more or less is no other load
        let missing = requested.max(asked as u64).saturating_sub(sent);
        let short = missing > self.flows.len() as u64 && (sent as f64) < asked * OFFERED;
        let offered = if short { load * sent as f64 / asked.max(1.0) } else { load };
        let doubt = report.findings.iter().find(|finding| doubtful(finding));
        let percentiles = of_received.one_way_delay_ns.as_ref().map(|stats| stats.percentiles);
        TrialReport {
            purpose: purpose.to_owned(),
            intended: load,
            offered,
            trial_ns: time.get(),
            sent,
            received: of_received.received.frames,
            unique: sent.saturating_sub(lost),
            lost,
            loss_ratio,
            duplicates: of_received.duplicates,
            reordered: of_received.reordered,
            delay_p50_ns: percentiles.and_then(|of| of.p50),
            delay_p99_ns: percentiles.and_then(|of| of.p99),
            lateness_p99_ns: of_sent.send_lateness_ns.percentiles.p99,
            doubt: doubt.map(|finding| finding.message.clone()),
            repeated: 0,
        }
    }
}

/// Parts of a time that become longer with the square of their number: of 48, the first is a hundred-thousandth of it, the last a
/// sixteenth. Fewer where there are many flows, each of which is divided so.
fn parts(time: Nanos, flows: usize) -> impl Iterator<Item = (u64, u64)> {
    const FLOWS: u64 = 4096;
    let parts = (FLOWS / (flows as u64).max(1)).clamp(6, 48);
    let at = move |number: u64| {
        let part = number as f64 / parts as f64;
        (time.get() as f64 * part.powi(3)) as u64
    };
    (0..parts).map(move |number| (at(number), at(number + 1)))
}

/// What a flow weighs beside the others of its port.
fn weight(name: &str, flow: &FlowSpec, some_have_rates: bool) -> Result<f64, RunError> {
    let fixed = match &flow.rate {
        FlowRate::Fixed(Rate::Frames(rate)) => Some(rate.per_second()),
        FlowRate::Fixed(Rate::Unlimited) if !some_have_rates => Some(1.0),
        _ => None,
    };
    if flow.replay.is_some() || !flow.at.is_empty() || flow.count.is_some() || flow.bytes.is_some()
    {
        let why = fault!(
            "its load cannot be changed: it replays, changes while it is sent, or ends after a count";
            "give it a rate and a size, and leave the rest to the test"
        );
        return Err(of_flow(name, why));
    }
    if flow.to.is_none() {
        let why = fault!("nobody receives it, so that its loss is not known"; "give it a 'to'");
        return Err(of_flow(name, why));
    }
    fixed.ok_or_else(|| {
        of_flow(
            name,
            fault!(
                "its rate does not say how it shares the load with other flows";
                "give all flows rates in frames per second, for example 100pps, or none a rate"
            ),
        )
    })
}

/// A rate, to a thousandth of a frame per second; never more.
fn rate(frames_per_second: f64) -> FrameRate {
    let frames = (frames_per_second * RATE_SECONDS as f64).floor().max(1.0) as u64;
    FrameRate { frames, per: Nanos::from_secs(RATE_SECONDS) }
}

/// The delay of a flow of one frame.
fn delay_of_one(flow: &FlowReport) -> Option<i64> {
    let delay = flow.received.as_ref()?.one_way_delay_ns.as_ref()?;
    (delay.count == 1).then_some(delay.min).flatten()
}

/// Whether a finding makes losses doubtful.
pub(crate) fn doubtful(finding: &Finding) -> bool {
    DOUBTS.contains(&finding.kind)
}

/// A run that went to its end.
fn whole(report: Report) -> Result<Report, Halt> {
    match report.verdict == Verdict::Unfinished || matches!(report.end, End::Stopped { .. }) {
        true => Err(Halt::Ended(report.end)),
        false => Ok(report),
    }
}

/// Whether no more was lost than left at once after the sender was late: a device need not bear such a burst.
fn may_be_of_burst(trial: &TrialReport, report: &Report) -> bool {
    let sent = report.total.sent.as_ref();
    let late = sent.and_then(|sent| sent.send_lateness_ns.max).unwrap_or(0).max(0);
    let per_ns = trial.sent as f64 / trial.trial_ns.max(1) as f64;
    trial.lost as f64 <= late as f64 * per_ns
}

/// What makes a burst doubtful of which no more frames were lost than left at once; `None` where the sender was late for a moment only,
/// at less than one frame in a hundred: a device that loses such bursts each time loses them all the same.
fn lateness_doubt(trial: &TrialReport) -> Option<String> {
    let late = trial.lateness_p99_ns.unwrap_or(0).max(0) as f64;
    let at_once = late * trial.intended / 1e9;
    (at_once > LATE_GAPS).then(|| {
        format!(
            "the sender was late by up to {} (p99), so that some {} frames left at once, and no more were lost",
            human::time(late),
            human::number(at_once)
        )
    })
}

/// Whether a burst says more than the one before it: it is not doubtful, then it lost less.
fn says_more_of_burst(trial: &TrialReport, before: &TrialReport) -> bool {
    let doubtful = |trial: &TrialReport| trial.lost > 0 && trial.doubt.is_some();
    (doubtful(trial), trial.lost) < (doubtful(before), before.lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of 6,000 frames at 30 kpps.
    fn burst(lost: u64, lateness_p99_ns: i64) -> TrialReport {
        TrialReport {
            purpose: "back-to-back".to_owned(),
            intended: 30_000.0,
            offered: 30_000.0,
            trial_ns: 200_000_000,
            sent: 6_000,
            received: 6_000 - lost,
            unique: 6_000 - lost,
            lost,
            loss_ratio: lost as f64 / 6_000.0,
            duplicates: 0,
            reordered: 0,
            delay_p50_ns: None,
            delay_p99_ns: None,
            lateness_p99_ns: Some(lateness_p99_ns),
            doubt: None,
            repeated: 0,
        }
    }

    /// 197 frames were lost of a burst of which some 2,587 left at once, and the device was charged with them.
    #[test]
    fn a_burst_that_left_late_is_doubtful_and_one_in_time_says_more() {
        let mut late = burst(197, 86_245_375);
        late.doubt = lateness_doubt(&late);
        assert!(late.doubt.as_deref().is_some_and(|doubt| doubt.contains("2,587")), "{late:?}");
        assert_eq!(lateness_doubt(&burst(197, 500_000)), None);
        let in_time = burst(900, 10_000);
        assert!(says_more_of_burst(&in_time, &late) && !says_more_of_burst(&late, &in_time));
        assert!(says_more_of_burst(&burst(0, 86_245_375), &in_time));
        assert!(says_more_of_burst(&burst(3, 10_000), &in_time));
    }
}
