//! `wirebeat test rfc2544`: throughput, latency, frame loss rate and back-to-back frames of a device.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use wirebeat_methods::MaxLoad;
use wirebeat_methods::rfc2544::{self, BINARY, MLR, Measured, Rfc2544, Watch};
use wirebeat_report::json;
use wirebeat_report::test_report::TestReport;
use wirebeat_run::{MacAddr, RunError};
use wirebeat_traffic::scenario::{EngineChoice, FlowSpec, PortSpec, Scenario, Size};
use wirebeat_units::{BitRate, Fault, Nanos, Rate, fault};

use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile, is_standard};
use crate::output::{Output, ReportArgs, ResultArgs, VERSION, tell};
use crate::packet::PacketArgs;
use crate::signals::Signals;
use crate::test::TitleArgs;
use crate::values::{self, Target};

const EXAMPLES: &str = "\
Examples:
  wirebeat test rfc2544 --from eth1 --to eth2 --destination 10.0.2.9
  wirebeat test rfc2544 --from eth1 --to eth2 --destination 10.0.2.9 --quick --sizes 64B,1518B
  wirebeat test rfc2544 router.yaml --measure all --title 'router 7, port 1 to 2' --html router.html
  wirebeat test rfc2544 router.yaml --at-least 90% --junit router.xml
  wirebeat test rfc2544 router.yaml --mlr --resume router-state.json";

/// The longest file of a test that is gone on with.
const BYTES: u64 = 1 << 28;

/// Find throughput, latency, loss rate and back-to-back frames of a device
///
/// Sends flows through a device at loads that a search picks, for each frame size: the throughput is the highest load of which nothing
/// is lost (RFC 2544). The flows are those of a scenario, whose rates say how they share the load, or one between two interfaces of this
/// machine. Durations and repetitions are those of RFC 2544, which takes hours; shorter ones are marked in the result. docs/rfc2544.md
/// describes the methods.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// A scenario with the flows and the ports; without one, --from, --to and --destination say them
    #[arg(value_name = "SCENARIO", conflicts_with_all = ["ShortArgs", "PacketArgs"])]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    reading: FileArgs,
    #[command(flatten)]
    short: ShortArgs,
    #[command(flatten)]
    packet: PacketArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    title: TitleArgs,
    #[command(flatten)]
    result: ResultArgs,
}

/// One flow between two interfaces.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Flow")]
struct ShortArgs {
    /// The interface that sends
    #[arg(long, value_name = "INTERFACE")]
    from: Option<String>,
    /// The interface that receives
    #[arg(long, value_name = "INTERFACE")]
    to: Option<String>,
    /// Where frames go: an address behind the device, on the side of --to
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    destination: Option<Target>,
    /// Send the other way at the same time, to the address of --source
    #[arg(long, requires = "source")]
    both_ways: bool,
    /// Ethernet address that frames from --from go to: that of the router, where the system cannot find it
    #[arg(long, value_name = "MAC")]
    next_hop: Option<MacAddr>,
    /// The same for frames from --to, with --both-ways
    #[arg(long, value_name = "MAC", requires = "both_ways")]
    next_hop_back: Option<MacAddr>,
    /// How frames are sent and received
    #[arg(long, value_parser = values::engine(), default_value = "auto")]
    engine: EngineChoice,
    /// Speed of the links, for example 10Gbps, where the system does not know it
    #[arg(long, value_name = "RATE")]
    speed: Option<BitRate>,
}

/// How it is tested.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Method")]
struct MethodArgs {
    /// What is measured, of: throughput, latency, loss-rate, back-to-back, recovery, reset, all [default: throughput]
    ///
    /// 'reset' asks you to reset the device while frames are sent; 'all' is all the others.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_parser = measure)]
    measure: Vec<Measure>,
    /// Frame sizes, FCS included: 64B,512B,1518B, imix, or 'scenario' for its own [default: those of RFC 2544]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = size)]
    sizes: Vec<NamedSize>,
    /// The highest load of a port: 1Mpps, 5Gbps@line, 80% [default: what its link carries]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// The throughput that is required of every size: 90%, 1Mpps; a lower one ends with exit code 4
    #[arg(long, value_name = "RATE")]
    at_least: Option<Rate>,
    /// Trials of 2 s and few of them, hardly a pause, and learning frames once for each size
    #[arg(long)]
    quick: bool,
    /// How long a trial takes [default: 60s, with --quick 2s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    trial: Option<Nanos>,
    /// How long to go on receiving after the last frame of a trial [default: 2s, with --quick 200ms]
    #[arg(long, value_name = "TIME")]
    settle: Option<Nanos>,
    /// How long the device is left alone between trials [default: 5s, with --quick none]
    #[arg(long, value_name = "TIME")]
    pause: Option<Nanos>,
    /// How close the bounds of the throughput come [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = values::share)]
    width: Option<f64>,
    /// How many times the throughput is searched for; several give its mean within 95 % [default: 1]
    ///
    /// The lowest is the throughput, at which the other measurements are made.
    #[arg(long, value_name = "N", value_parser = searches)]
    repeat: Option<u32>,
    /// What a trial may lose and still be good [default: 0%]
    #[arg(long, value_name = "PERCENT", value_parser = values::share, conflicts_with = "mlr")]
    loss_tolerance: Option<f64>,
    /// Search by RFC 9971 (MLRsearch) for the throughput without loss and with 0.5 %
    ///
    /// Trials of 1 s, 21 s of them at a load, of which half may lose more. --goal sets others.
    #[arg(long)]
    mlr: bool,
    /// A goal of RFC 9971, given once for each: loss=0.5%,exceed=50%,trial=1s,sum=21s,initial=1s,width=0.5%
    #[arg(
        long = "goal",
        value_name = "KEY=VALUE,...",
        requires = "mlr",
        conflicts_with_all = ["width", "trial"],
        value_parser = goal
    )]
    goals: Vec<Goal>,
    /// How long a latency trial takes [default: 120s, with --quick 2s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    latency_time: Option<Nanos>,
    /// How many latency trials there are [default: 20, with --quick 3]
    #[arg(long, value_name = "N", value_parser = count)]
    latency_trials: Option<u32>,
    /// The JSON of a latency test with a cable in the place of the device: the latency of the tester itself
    ///
    /// It is shown beside that of the device, by frame size, and subtracted from nothing.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// A step of the frame loss rate, of the highest load [default: 10%]
    #[arg(long, value_name = "PERCENT", value_parser = step)]
    loss_step: Option<f64>,
    /// The longest burst that is tried [default: 2s, with --quick 200ms]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    burst_time: Option<Nanos>,
    /// How many times the longest burst is looked for [default: 50, with --quick 3]
    #[arg(long, value_name = "N", value_parser = count)]
    burst_trials: Option<u32>,
    /// How long the device is overloaded before it has to recover [default: 60s, with --quick 2s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    overload_time: Option<Nanos>,
    /// How long it may take to recover [default: 10s, with --quick 2s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    recovery_time: Option<Nanos>,
    /// How many times it is overloaded [default: 10, with --quick 3]
    #[arg(long, value_name = "N", value_parser = count)]
    recovery_trials: Option<u32>,
    /// How long frames are sent while you reset the device
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "2m")]
    reset_time: Nanos,
    /// Keep each trial in this file, and go on with those that are in it
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    Throughput,
    Latency,
    LossRate,
    BackToBack,
    Recovery,
    Reset,
    All,
}

/// A size as it was written.
#[derive(Clone, Debug)]
struct NamedSize(String, Option<Size>);

/// A goal as it was written; what it does not say is that of RFC 9971's example.
#[derive(Clone, Copy, Debug)]
struct Goal(wirebeat_methods::Goal);

fn measure(text: &str) -> Result<Measure, Fault> {
    Ok(match text {
        "throughput" => Measure::Throughput,
        "latency" => Measure::Latency,
        "loss-rate" => Measure::LossRate,
        "back-to-back" => Measure::BackToBack,
        "recovery" => Measure::Recovery,
        "reset" => Measure::Reset,
        "all" => Measure::All,
        _ => {
            return Err(fault!(
                "unknown measurement '{text}'";
                "there are throughput, latency, loss-rate, back-to-back, recovery, reset, and all but reset"
            ));
        }
    })
}

fn size(text: &str) -> Result<NamedSize, Fault> {
    match text {
        "scenario" => Ok(NamedSize(text.to_owned(), None)),
        other => Ok(NamedSize(text.to_owned(), Some(values::size(other)?))),
    }
}

/// A share that something moves by.
fn step(text: &str) -> Result<f64, Fault> {
    match values::share(text)? {
        step if step >= 0.001 => Ok(step),
        _ => Err(fault!("'{text}' is too short a step"; "write 0.1% or more")),
    }
}

fn count(text: &str) -> Result<u32, Fault> {
    values::within(text, 1..=10_000).map(|count| count as u32)
}

fn searches(text: &str) -> Result<u32, Fault> {
    values::within(text, 1..=100).map(|count| count as u32)
}

fn goal(text: &str) -> Result<Goal, Fault> {
    let mut goal = ndr();
    let mut initial = None;
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            return Err(
                fault!("'{part}' is not a key with a value"; "write for example loss=0.5%"),
            );
        };
        let seconds = || values::time(value).map(|time| time.get() as f64 / 1e9);
        match key {
            "loss" => goal.loss_ratio = values::share(value)?,
            "exceed" => goal.exceed_ratio = values::share(value)?,
            "trial" => goal.final_seconds = seconds()?,
            "sum" => goal.duration_sum = seconds()?,
            "initial" => initial = Some(seconds()?),
            "width" => goal.width = step(value)?,
            _ => {
                return Err(fault!(
                    "unknown key '{key}' of a goal";
                    "there are loss, exceed, trial, sum, initial and width"
                ));
            }
        }
    }
    goal.initial_seconds = initial.unwrap_or(goal.final_seconds).min(goal.final_seconds);
    if goal.duration_sum < goal.final_seconds {
        return Err(fault!(
            "all trials at a load take less time than one of them";
            "make 'sum' at least as long as 'trial'"
        ));
    }
    Ok(Goal(goal))
}

/// No loss in half of the time: the goals that FD.io's labs use.
fn ndr() -> wirebeat_methods::Goal {
    wirebeat_methods::Goal {
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        final_seconds: 1.0,
        duration_sum: 21.0,
        initial_seconds: 1.0,
        width: 0.005,
    }
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.result)
    }
}

/// Tests.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let file = match &args.scenario {
        Some(path) => Some(ScenarioFile::read(path, &args.reading, None)?),
        None if args.reading.is_asked_for() => {
            let why = "--set, --dialect and --interface are about a scenario, and there is none";
            return Err(Failure::usage(why).hint("name the file of the scenario"));
        }
        None => None,
    };
    let mut scenario = match &file {
        Some(file) => file.scenario.clone(),
        None => short(args)?,
    };
    let quick = args.method.quick;
    let usual = if quick { Nanos::from_millis(200) } else { rfc2544::SETTLE };
    scenario.run.settle = args.method.settle.unwrap_or(usual);
    let test =
        Rfc2544 { title: args.title.title.clone(), ..method(&args.method, scenario, output)? };
    let read = args.method.resume.iter().chain(&args.method.baseline);
    read.into_iter().try_for_each(|path| output.spares(path))?;
    let before = args.method.resume.as_deref();
    let before = before.map(|path| kept(path, "--resume", CUT_OFF)).transpose()?.flatten();
    args.method.resume.as_deref().map(probe).transpose()?;
    let signals = Signals::watch()?;
    let mut observer = output.shown();
    let stop = signals.running();
    let mut failed = None;
    let mut keep = |report: &TestReport| {
        let kept = args.method.resume.as_deref().map(|path| write(path, report));
        if let Some(Err(failure)) = kept {
            // at once: whoever waits for hours believes that trials are kept
            if failed.is_none() {
                tell(&failure.to_string());
            }
            failed.get_or_insert(failure);
        }
    };
    let options = match &file {
        Some(file) => file.options(output.options()),
        None => output.options(),
    };
    let watch = Watch { observer: &mut *observer, stop, keep: &mut keep };
    let result = test.run(options, before, watch);
    drop(observer);
    let report = result.map_err(|error| explained(error, file.as_ref()))?;
    match (output.result(report.exit_code, &report), failed) {
        (0, Some(failure)) => Ok(failure.exit_code()),
        (code, _) => Ok(code),
    }
}

/// What is wrong, in the words of the scenario where there is one.
fn explained(error: RunError, file: Option<&ScenarioFile>) -> Failure {
    match (error, file) {
        (RunError::Scenario(error), Some(file)) => file.invalid(error.problem()),
        (RunError::Scenario(error), None) => Failure::usage(error.problem().why.clone()),
        (other, _) => Failure::from(other),
    }
}

fn method(args: &MethodArgs, scenario: Scenario, output: &Output) -> Result<Rfc2544, Failure> {
    let quick = |short: Nanos, long: Nanos| if args.quick { short } else { long };
    let fewer = |few: u32, many: u32| if args.quick { few } else { many };
    let two = Nanos::from_secs(2);
    let measured: BTreeSet<Measure> = args.measure.iter().copied().collect();
    let has = |one| measured.contains(&one) || measured.contains(&Measure::All);
    let trial = args.trial.unwrap_or(quick(two, rfc2544::TRIAL));
    let width = args.width.unwrap_or(0.005).max(1e-6);
    let seconds = trial.get() as f64 / 1e9;
    let tolerance = args.loss_tolerance.unwrap_or(0.0);
    let (search, goals) = match (args.mlr, args.goals.is_empty()) {
        (false, _) => (BINARY, vec![wirebeat_methods::Goal::rfc2544(tolerance, seconds, width)]),
        (true, false) => (MLR, args.goals.iter().map(|goal| goal.0).collect()),
        (true, true) => {
            let ndr = wirebeat_methods::Goal { width, ..ndr() };
            (MLR, vec![ndr, wirebeat_methods::Goal { loss_ratio: 0.005, ..ndr }])
        }
    };
    let trial = match args.mlr {
        // loss rates are measured by trials as long
        true if args.trial.is_none() => {
            let longest = goals.iter().map(|goal| goal.final_seconds).fold(0.0, f64::max);
            Nanos::new((longest * 1e9) as u64)
        }
        _ => trial,
    };
    let sizes = match args.sizes.is_empty() {
        true => rfc2544::standard_sizes(&scenario),
        false => args.sizes.iter().map(|size| (size.0.clone(), size.1.clone())).collect(),
    };
    Ok(Rfc2544 {
        scenario,
        sizes,
        max: args.max_rate.map_or(MaxLoad::Link, MaxLoad::Rate),
        required: args.at_least,
        goals,
        search,
        searches: args.repeat.unwrap_or(1),
        trial,
        pause: args.pause.unwrap_or(quick(Nanos::ZERO, rfc2544::PAUSE)),
        learn_each: !args.quick,
        measured: Measured {
            loss_rate: has(Measure::LossRate),
            latency: has(Measure::Latency),
            back_to_back: has(Measure::BackToBack),
            recovery: has(Measure::Recovery),
            reset: measured.contains(&Measure::Reset),
        },
        latency: (
            args.latency_time.unwrap_or(quick(two, rfc2544::LATENCY.0)),
            args.latency_trials.unwrap_or(fewer(3, rfc2544::LATENCY.1)),
        ),
        loss_step: args.loss_step.unwrap_or(rfc2544::LOSS_STEP),
        bursts: (
            args.burst_time.unwrap_or(quick(Nanos::from_millis(200), rfc2544::BURSTS.0)),
            args.burst_trials.unwrap_or(fewer(3, rfc2544::BURSTS.1)),
        ),
        recovery: (
            args.overload_time.unwrap_or(quick(two, rfc2544::RECOVERY.0)),
            args.recovery_time.unwrap_or(quick(two, rfc2544::RECOVERY.1)),
            args.recovery_trials.unwrap_or(fewer(3, rfc2544::RECOVERY.2)),
        ),
        reset: args.reset_time,
        baseline: args
            .baseline
            .as_deref()
            .map(|path| baseline(path, has(Measure::Latency)))
            .transpose()?,
        title: None,
        version: VERSION.to_owned(),
        command_line: output.options().command_line,
    })
}

/// The scenario of the short form: a flow from one interface to another, and one back by choice.
fn short(args: &Args) -> Result<Scenario, Failure> {
    let missing = |flag: &str, example: &str| {
        let why = format!("{flag} is missing");
        let hint = format!("give {flag}, for example {flag} {example}, or a scenario");
        Failure::usage(why).hint(hint)
    };
    let ShortArgs { from, to, destination, both_ways, engine, speed, .. } = &args.short;
    let from = from.as_ref().ok_or_else(|| missing("--from", "eth1"))?;
    let to = to.as_ref().ok_or_else(|| missing("--to", "eth2"))?;
    let there = destination.ok_or_else(|| missing("--destination", "10.0.2.9"))?;
    if from == to {
        let why = "--from and --to are one interface: there is no device between them";
        return Err(Failure::usage(why).hint("give the interfaces on both sides of the device"));
    }
    let port = |interface: &String, next_hop: Option<MacAddr>| PortSpec {
        interface: Some(interface.clone()),
        engine: *engine,
        speed: *speed,
        next_hop,
        ..PortSpec::default()
    };
    let mut scenario = Scenario::default();
    // ports have the names of their interfaces, which messages then name
    scenario.ports.insert(from.clone(), port(from, args.short.next_hop));
    scenario.ports.insert(to.clone(), port(to, args.short.next_hop_back));
    let flow = |from: &str, to: &str, packet: &PacketArgs, there: Target| {
        let headers = packet.headers(there)?;
        Ok::<_, Failure>(FlowSpec {
            to: Some(to.to_owned()),
            packet: headers.into(),
            ..FlowSpec::from_port(from)
        })
    };
    scenario.flows.insert("there".to_owned(), flow(from, to, &args.packet, there)?);
    if let (true, Some(source)) = (*both_ways, args.packet.source) {
        let mut back = args.packet.clone();
        back.source = Some(there.address);
        (back.source_mac, back.destination_mac) = (None, None);
        let target = Target { address: source, port: there.port };
        scenario.flows.insert("back".to_owned(), flow(to, from, &back, target)?);
    }
    scenario.check().map_err(|problem| Failure::usage(problem.why.clone()))?;
    Ok(scenario)
}

/// Fails where no test could be kept in this file.
fn probe(path: &Path) -> Result<(), Failure> {
    let at = || format!("--resume {}", path.display());
    if is_standard(path) {
        return Err(Failure::usage("a test cannot be kept in '-'").at(at()).hint("name a file"));
    }
    let beside = beside(path);
    let made = fs::File::create(&beside).and_then(|_| fs::remove_file(&beside));
    made.map_err(|error| {
        Failure::usage(format!("the test cannot be kept: {error}"))
            .at(at())
            .hint("name a file in a folder that may be written")
    })
}

/// Where it is written before it takes the place of the one before.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    PathBuf::from(beside)
}

/// The latency test without a device.
fn baseline(path: &Path, latency: bool) -> Result<Box<TestReport>, Failure> {
    let at = || format!("--baseline {}", path.display());
    if !latency {
        let why = "the latency is not measured, and nothing would be shown beside it";
        return Err(Failure::usage(why).at(at()).hint("add --measure latency"));
    }
    let hint =
        "give what '--measure latency --json FILE' wrote with a cable in the place of the device";
    fs::metadata(path).map_err(|error| {
        Failure::usage(format!("it cannot be read: {error}")).at(at()).hint(hint)
    })?;
    let test = kept(path, "--baseline", hint)?
        .filter(|test| test.sizes.iter().any(|size| size.latency.is_some()));
    let test = test.ok_or_else(|| {
        Failure::usage("there is no test in it that measured a latency").at(at()).hint(hint)
    });
    test.map(Box::new)
}

/// What --resume has to name.
const CUT_OFF: &str = "give the file of a test that was cut off, or a new name";

/// A test as it was kept, as far as it went, in the file of a flag; `None` where there is no such file yet.
fn kept(path: &Path, flag: &str, hint: &'static str) -> Result<Option<TestReport>, Failure> {
    let at = || format!("{flag} {}", path.display());
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(about) if !about.is_file() => {
            let failure = Failure::usage("it is not a regular file");
            return Err(failure.at(at()).hint("name a file"));
        }
        Ok(about) if about.len() > BYTES => {
            return Err(Failure::usage("it is too long for a test").at(at()));
        }
        _ => fs::read(path),
    };
    let bytes =
        bytes.map_err(|error| Failure::usage(format!("it cannot be read: {error}")).at(at()))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let test = rfc2544::read(&bytes).map_err(|why| Failure::usage(why).at(at()).hint(hint))?;
    Ok(Some(test))
}

/// Replaces the file as a whole: a program that is killed leaves the one before.
fn write(path: &Path, report: &TestReport) -> Result<(), Failure> {
    let beside = beside(path);
    let text = json::pretty(report);
    let written = fs::File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Failure::output(format!("the test cannot be kept: {error}"))
            .at(format!("--resume {}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_says_what_it_differs_in() {
        let Goal(goal) = goal("loss=0.5%,trial=4s,initial=1s").unwrap();
        assert!((goal.loss_ratio - 0.005).abs() < 1e-12 && goal.exceed_ratio == 0.5);
        assert_eq!((goal.final_seconds, goal.initial_seconds), (4.0, 1.0));
        for text in ["", "loss", "loss=1", "exceed=100%", "sum=1s,trial=2s", "width=0%", "x=1"] {
            assert!(super::goal(text).is_err(), "{text}");
        }
    }
}
