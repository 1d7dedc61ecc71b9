//! One engine in one mode: two runs on one lab, and what they have to hold.

use std::net::Ipv4Addr;

use serde::Serialize;
use wirebeat_report::model::{End, Equation, FlowReport, Received, Report, Station};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::ethernet::Ethernet;
use wirebeat_traffic::scenario::header::ipv4::Ipv4;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::number::Number;
use wirebeat_traffic::scenario::pattern::{Field, Mac};
use wirebeat_traffic::scenario::{
    FlowSpec, OnLinkDown, PortSpec, RunSpec, Scenario, Size, TimestampsChoice,
};
use wirebeat_units::{Fault, FrameLen, FrameRate, Nanos, Rate};

use super::super::engines::sentence;
use super::{Bench, FAR, How, NEAR, mode_name, ports_of};
use crate::error::RunError;
use crate::lab::Lab;
use crate::observe::{Observer, Progress, Stop};
use crate::options::Options;

/// Where packets go: an address of the networks for benchmarks (RFC 2544 appendix C.2.2).
const DESTINATION: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Where they come from: no host's address, so that a stack which gets them drops them and answers nobody (RFC 1122 §3.2.1.3).
const SOURCE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
/// The rate of the second run, and how long it lasts: slow enough for any engine to be exact.
const PACED: FrameRate = FrameRate { frames: 1000, per: Nanos::from_secs(1) };
const PACED_FOR: Nanos = Nanos::from_millis(500);
/// How long a card may take to come up again after a program was attached.
const LINK_TIMEOUT: Nanos = Nanos::from_secs(15);

/// An engine in one mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Its name.
    pub engine: &'static str,
    /// How it uses the driver, where that can be chosen: "zero-copy", "copy", "generic".
    pub mode: Option<&'static str>,
    /// The driver says that it offers this mode.
    pub offered: bool,
    /// Who was asked to stamp frames: "system", "card".
    pub timestamps: &'static str,
    /// What became of it.
    #[serde(flatten)]
    pub result: TrialResult,
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialResult {
    /// It could not be tried.
    Refused {
        /// What is missing, and what would mend it.
        #[serde(serialize_with = "sentence")]
        why: Fault,
    },
    /// Its runs: as fast as it can, then paced. Fewer where it was stopped, or the second one was refused.
    Ran(Vec<Measured>),
}

/// How a run loads the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// As fast as the engine sends.
    FlatOut,
    /// A thousand frames a second.
    Paced,
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// How it was loaded.
    pub load: Load,
    /// How the engine sent: "AF_XDP, zero copy".
    pub sender_mode: String,
    /// How it received.
    pub receiver_mode: Option<String>,
    /// The clock that stamped: "CLOCK_MONOTONIC", "/dev/ptp0".
    pub clock: String,
    /// Frames that left.
    pub sent: u64,
    /// Frames that the device refused, or that were not reached.
    pub failed: u64,
    /// Frames in a second, and what they took of the line in bits per second.
    pub frames_per_second: Option<f64>,
    /// See `frames_per_second`.
    pub line_bits_per_second: Option<f64>,
    /// Frames that arrived, copies left out; `None` without a peer.
    pub received: Option<u64>,
    /// Frames that left and did not arrive.
    pub lost: Option<u64>,
    /// Frames that overtook others.
    pub reordered: Option<u64>,
    /// The shortest one-way delay in nanoseconds, and that which half of the frames did not exceed.
    pub delay_min_ns: Option<i64>,
    /// See `delay_min_ns`.
    pub delay_p50_ns: Option<i64>,
    /// What it has to hold and did not, a sentence each.
    pub failures: Vec<String>,
}

impl Trial {
    /// Whether a run did not hold what it has to, or the driver offers what it then refused.
    pub fn has_failed(&self) -> bool {
        match &self.result {
            TrialResult::Refused { .. } => self.offered,
            TrialResult::Ran(runs) => runs.iter().any(|run| !run.failures.is_empty()),
        }
    }
}

/// Notices of a run are for the person who waits; its progress is not.
struct NoticesOnly<'a>(&'a mut dyn Observer);

impl Observer for NoticesOnly<'_> {
    fn progress(&mut self, _progress: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn notice(&mut self, message: &str) {
        self.0.notice(message);
    }
}

/// Tries an engine.
pub(super) fn run(bench: &Bench<'_>, how: How, observer: &mut dyn Observer, stop: &Stop) -> Trial {
    let result = match measure(bench, how, &mut NoticesOnly(observer), stop) {
        Ok(runs) => TrialResult::Ran(runs),
        Err(error) => TrialResult::Refused { why: error.fault() },
    };
    let card = how.timestamps == TimestampsChoice::Hardware;
    Trial {
        engine: how.engine.name(),
        mode: mode_name(how),
        offered: how.offered,
        timestamps: if card { "card" } else { "system" },
        result,
    }
}

/// Both runs, on one lab.
fn measure(
    bench: &Bench<'_>,
    how: How,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Vec<Measured>, RunError> {
    let loads = [
        (Load::FlatOut, Rate::Unlimited, bench.request.time),
        (Load::Paced, Rate::Frames(PACED), PACED_FOR),
    ];
    let of = |rate: Rate| scenario(bench, how, rate);
    let options = Options { namespaces: bench.request.namespaces.clone(), ..Options::default() };
    let mut lab = Lab::open(&of(Rate::Unlimited), options)?;
    let mut runs = Vec::new();
    for (load, rate, time) in loads {
        if stop.asked() {
            break;
        }
        let report = lab.run(of(rate).flows, Some(time), observer, stop)?;
        runs.push(Measured::of(load, &report));
    }
    Ok(runs)
}

/// One flow of the shortest frames, from the interface to its peer.
fn scenario(bench: &Bench<'_>, how: How, rate: Rate) -> Scenario {
    let packet = vec![
        Header::Ethernet(Ethernet {
            destination: Some(Field::Fixed(Mac(bench.destination()))),
            ..Ethernet::default()
        }),
        Header::Ipv4(Ipv4 {
            source: Some(Field::Fixed(SOURCE)),
            destination: Some(Field::Fixed(DESTINATION)),
            ttl: Field::Fixed(Number::new(1)),
            ..Ipv4::default()
        }),
        Header::Udp(Udp::default()),
    ];
    let flow = FlowSpec {
        to: bench.has_peer().then(|| FAR.to_owned()),
        packet: packet.into(),
        size: Some(Size::frame(FrameLen::MIN)),
        rate: rate.into(),
        ..FlowSpec::from_port(NEAR)
    };
    let port = |spec| PortSpec { engine: how.engine.into(), xdp_mode: how.mode, ..spec };
    Scenario {
        ports: ports_of(bench.request, port),
        flows: [("test".to_owned(), flow)].into(),
        run: RunSpec {
            timestamps: how.timestamps,
            link_timeout: LINK_TIMEOUT,
            on_link_down: OnLinkDown::End,
            ..RunSpec::default()
        },
        ..Scenario::default()
    }
}

/// The clock that stamped at a port.
fn clock(station: &Station) -> String {
    let card = station.hardware_timestamps.as_ref();
    card.map_or_else(|| station.clock.name.clone(), |stamps| stamps.clock.clone())
}

impl Measured {
    fn of(load: Load, report: &Report) -> Measured {
        let total = &report.total;
        let sent = total.sent.as_ref();
        let received = total.received.as_ref();
        let rates = sent.and_then(|sent| sent.rates.as_ref());
        let delay = received.and_then(|received| received.one_way_delay_ns.as_ref());
        let stamps = report.receivers.first().or(report.senders.first());
        Measured {
            load,
            sender_mode: report.senders.first().map_or(String::new(), |one| one.mode.clone()),
            receiver_mode: report.receivers.first().map(|one| one.mode.clone()),
            clock: stamps.map_or_else(String::new, clock),
            sent: sent.map_or(0, |sent| sent.sent.frames),
            failed: sent.map_or(0, |sent| sent.failed),
            frames_per_second: rates.map(|rates| rates.frames_per_second),
            line_bits_per_second: rates.map(|rates| rates.line_bits_per_second),
            received: received.map(|received| received.unique),
            lost: total.loss.as_ref().map(|loss| loss.frames),
            reordered: received.map(|received| received.reordered),
            delay_min_ns: delay.and_then(|delay| delay.min),
            delay_p50_ns: delay.and_then(|delay| delay.percentiles.p50),
            failures: failures(load, &report.end, &report.consistency_checks, total),
        }
    }
}

/// What a run has to hold and did not.
fn failures(load: Load, end: &End, checks: &[Equation], total: &FlowReport) -> Vec<String> {
    let mut failures = Vec::new();
    match end {
        // who stops it knows that
        End::Completed | End::Stopped { .. } => {}
        End::InterfaceGone { interface } => failures.push(format!("{interface} went down")),
        End::PeerGone { peer } => failures.push(format!("{peer} is gone")),
        End::Failed { message } => failures.push(message.clone()),
    }
    let wrong = checks.iter().filter(|check| !check.balances()).count();
    if wrong > 0 || checks.is_empty() {
        failures.push(format!("its counters are inconsistent, in {wrong} sums"));
    }
    let sent = total.sent.as_ref().map_or(0, |sent| sent.sent.frames);
    if sent == 0 {
        failures.push("nothing left".to_owned());
    }
    if let Some(received) = &total.received {
        failures.extend(of_received(load, received, sent));
        let lost = total.loss.as_ref().map_or(0, |loss| loss.frames);
        if received.unique.saturating_add(lost) != sent {
            failures.push(format!(
                "{sent} frames left, {} arrived, and {lost} are said to be lost",
                received.unique
            ));
        }
    }
    failures
}

/// What is wrong of frames that arrived.
fn of_received(load: Load, received: &Received, sent: u64) -> Vec<String> {
    let mut failures = Vec::new();
    if received.unique == 0 && sent > 0 {
        failures.push("nothing arrived".to_owned());
        return failures;
    }
    if received.inter_arrival_ns.min.is_some_and(|min| min < 0) {
        failures.push("times of arrival go back".to_owned());
    }
    let delay = received.one_way_delay_ns.as_ref();
    if delay.and_then(|delay| delay.min).is_some_and(|min| min < 0) {
        failures.push("frames arrived before they left".to_owned());
    }
    let timed = delay.map_or(0, |delay| delay.count);
    let arrived = received.unique.saturating_add(received.duplicates);
    if timed.saturating_add(received.unstamped) < received.unique || timed > arrived {
        failures.push(format!("of {} frames {timed} have a delay", received.unique));
    }
    if load == Load::Paced && received.reordered > 0 {
        failures.push(format!("{} frames overtook others", received.reordered));
    }
    failures
}

#[cfg(test)]
mod tests {
    use wirebeat_report::model::{Loss, LossBasis, Sent, Stats, Term, Volume};

    use super::*;

    /// How a run ended, by how much a sum is wrong, and what its flow counted.
    struct Ran {
        end: End,
        difference: i64,
        total: FlowReport,
    }

    /// Ten frames were sent and eight arrived.
    fn ran() -> Ran {
        let volume = Volume { frames: 10, ..Volume::default() };
        let delay = Stats { count: 8, min: Some(5), ..Stats::default() };
        let received = Received { unique: 8, one_way_delay_ns: Some(delay), ..Received::default() };
        let total = FlowReport {
            sent: Some(Sent { sent: volume, ..Sent::default() }),
            received: Some(received),
            loss: Some(lost(2)),
            ..FlowReport::default()
        };
        Ran { end: End::Completed, difference: 0, total }
    }

    fn lost(frames: u64) -> Loss {
        Loss { frames, at_most: None, ratio: None, basis: LossBasis::SentLessUnique }
    }

    fn found(load: Load, ran: &Ran) -> Vec<String> {
        let left = Term { name: "sent".to_owned(), value: 10 };
        let difference = ran.difference;
        let check = Equation { scope: String::new(), left, right: Vec::new(), difference };
        failures(load, &ran.end, &[check], &ran.total)
    }

    fn received(ran: &mut Ran) -> &mut Received {
        ran.total.received.as_mut().unwrap()
    }

    fn delay(ran: &mut Ran) -> &mut Stats {
        received(ran).one_way_delay_ns.as_mut().unwrap()
    }

    #[test]
    fn what_a_run_has_to_hold_is_held_against_its_report() {
        assert_eq!(found(Load::Paced, &ran()), Vec::<String>::new());
        type Change = fn(&mut Ran);
        let wrong: [(Change, &str); 7] = [
            (|ran| ran.difference = 1, "inconsistent"),
            (|ran| ran.end = End::Failed { message: "it broke".to_owned() }, "it broke"),
            (|ran| ran.total.loss = Some(lost(1)), "1 are said to be lost"),
            (|ran| received(ran).inter_arrival_ns.min = Some(-1), "go back"),
            (|ran| delay(ran).min = Some(-1), "before they left"),
            (|ran| delay(ran).count = 7, "7 have a delay"),
            (|ran| received(ran).reordered = 1, "overtook"),
        ];
        for (change, told) in wrong {
            let mut ran = ran();
            change(&mut ran);
            let found = found(Load::Paced, &ran);
            assert!(found.len() == 1 && found[0].contains(told), "{told}: {found:?}");
        }
        let mut nothing = ran();
        nothing.total.received = Some(Received::default());
        nothing.total.loss = Some(lost(10));
        assert_eq!(found(Load::FlatOut, &nothing), ["nothing arrived"]);
    }
}
