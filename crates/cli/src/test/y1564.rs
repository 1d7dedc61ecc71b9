//! `wirebeat test y1564`: the service configuration test and the service performance test of ITU-T Y.1564.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_report::sweep::{Service, ServiceTest};
use wirebeat_run::{Options, RunError};
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::{FlowExpectation, FlowMeasured, Scenario};
use wirebeat_units::{BitRate, Fault, FrameRate, Nanos, Rate, fault, human};

use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile, is_standard};
use crate::output::{Output, ReportArgs, ResultArgs};
use crate::repeat::{Many, OneRun};
use crate::test::TitleArgs;
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat test y1564 services.yaml
  wirebeat test y1564 services.yaml --eir video=20Mbps --performance-time 15m --title 'site 3' --html services.html";

/// Shares of the committed rate that are tried one after the other, in percent (Y.1564 §8.1.1, Appendix I).
const STEPS: [u64; 4] = [25, 50, 75, 100];
/// How long the performance test of Y.1564 takes (§8.2).
const PERFORMANCE: [Nanos; 3] =
    [Nanos::from_secs(15 * 60), Nanos::from_secs(2 * 3600), Nanos::from_secs(24 * 3600)];
/// How much more than its excess rate a service is offered to see whether the network polices it, in percent of the excess rate.
const OVERSHOOT: u64 = 125;
/// How much more than the sum of both rates may come through then: in percent: what a policer lets pass of a burst.
const MARGIN: u64 = 102;

/// Test services by ITU-T Y.1564
///
/// Each flow of the scenario is a service: its rate is the committed information rate (CIR), and what it expects are its service acceptance
/// criteria. The service configuration test offers each service by itself at 25, 50, 75 and 100 % of its rate, then with its excess rate
/// (--eir), then with more than that. The service performance test offers all of them at once. A criterion that is not met ends with exit
/// code 4.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// A scenario with a flow for each service
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// The excess information rate of a service, in the unit of its rate: video=20Mbps; given once for each
    #[arg(long, value_name = "FLOW=RATE", value_parser = excess)]
    eir: Vec<(String, Rate)>,
    /// How long each step of the configuration test takes
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "10s")]
    step_time: Nanos,
    /// How long the performance test takes; Y.1564 has 15m, 2h or 24h
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "15m")]
    performance_time: Nanos,
    /// Leave out the performance test
    #[arg(long)]
    configuration_only: bool,
    /// Keep each step in this file, and go on with those that are in it
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    title: TitleArgs,
    #[command(flatten)]
    result: ResultArgs,
}

fn excess(text: &str) -> Result<(String, Rate), Fault> {
    let wrong = || fault!("'{text}' is not a service with its excess rate"; "write for example video=20Mbps");
    let (name, rate) = text.split_once('=').ok_or_else(wrong)?;
    let rate: Rate = rate.parse().map_err(|_| wrong())?;
    if name.is_empty() || !matches!(rate, Rate::Frames(_) | Rate::Bits(..)) {
        return Err(wrong());
    }
    Ok((name.to_owned(), rate))
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.result)
    }
}

/// One run of a test.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A service by itself, at a share of its rate in percent.
    Committed(String, u64),
    /// With its excess rate, and that in percent.
    Excess(String, Rate, u64),
    /// All services.
    Performance,
}

impl Step {
    /// In words: the test, the service, the load.
    fn words(&self) -> Vec<String> {
        let words: [&str; 3] = match self {
            Step::Committed(name, share) => {
                return vec!["configuration".into(), name.clone(), format!("{share}% of CIR")];
            }
            Step::Excess(name, _, 100) => ["configuration", name, "CIR + EIR"],
            Step::Excess(name, _, share) => {
                return vec!["policing".into(), name.clone(), format!("CIR + {share}% of EIR")];
            }
            Step::Performance => ["performance", "all", "CIR"],
        };
        words.map(str::to_owned).to_vec()
    }
}

/// Tests.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if is_standard(&args.scenario) {
        let why = "standard input can be read once, and the scenario is read for each step";
        return Err(Failure::usage(why).at("-").hint("name a file"));
    }
    let file = ScenarioFile::read(&args.scenario, &args.reading, None)?;
    let steps = steps(&file.scenario, args)?;
    let words: Vec<Vec<String>> = steps.iter().map(Step::words).collect();
    let command_line = output.options().command_line;
    let mut make = |values: &[String], _: Option<Nanos>| {
        let file = ScenarioFile::read(&args.scenario, &args.reading, None)?;
        let step = steps.iter().find(|step| step.words() == values);
        let step = step.unwrap_or(&Step::Performance);
        let scenario = offered(file.scenario.clone(), step, args)?;
        let options =
            file.options(Options { command_line: command_line.clone(), ..Options::default() });
        Ok(OneRun { scenario, options })
    };
    let explain = |error: RunError| match error {
        RunError::Scenario(error) => file.invalid(error.problem()),
        other => Failure::from(other).at(file.name.clone()),
    };
    let variables = ["test", "service", "load"].map(str::to_owned).to_vec();
    let test = Some(("ITU-T Y.1564", services(&file.scenario, args)));
    let (warmup, resume) = (None, args.resume.clone());
    let (values, make, explain) = (words, &mut make, &explain);
    Many { test, variables, values, warmup, resume, make, explain, judges: true }.run(output)
}

/// The steps of a test, in their order.
fn steps(scenario: &Scenario, args: &Args) -> Result<Vec<Step>, Failure> {
    if scenario.flows.is_empty() || !scenario.sessions.is_empty() {
        let why = "the scenario has no flows, or has sessions";
        return Err(Failure::usage(why).hint("give it a flow for each service, and nothing else"));
    }
    if let Some((name, _)) = args.eir.iter().find(|(name, _)| !scenario.flows.contains_key(name)) {
        let why = format!("unknown flow '{name}'");
        let hint = wirebeat_units::human::present(&scenario.flows.keys().collect::<Vec<_>>());
        return Err(Failure::usage(why).at("--eir").hint(hint));
    }
    for (place, (name, _)) in args.eir.iter().enumerate() {
        if args.eir[..place].iter().any(|(other, _)| other == name) {
            let why = format!("the excess rate of '{name}' is given twice");
            return Err(Failure::usage(why).at("--eir").hint("give it once"));
        }
    }
    let mut steps = Vec::new();
    for (name, flow) in &scenario.flows {
        let committed = match &flow.rate {
            FlowRate::Fixed(rate @ (Rate::Frames(_) | Rate::Bits(..))) => *rate,
            _ => {
                let why = format!("flow '{name}' has no committed rate");
                let hint = "give it a rate in frames or bits per second";
                return Err(Failure::usage(why).hint(hint));
            }
        };
        if scenario.expected_of_flow(name).is_empty() {
            let why = format!("flow '{name}' has no acceptance criteria");
            let hint =
                "say what it expects, for example: expect: [ 'loss <= 0.01%', 'delay.p99 < 5ms' ]";
            return Err(Failure::usage(why).hint(hint));
        }
        steps.extend(STEPS.map(|share| Step::Committed(name.clone(), share)));
        for (_, excess) in args.eir.iter().filter(|(of, _)| of == name) {
            if sum(committed, *excess, 100).is_none() {
                let why = format!("the excess rate of '{name}' is in another unit than its rate");
                return Err(Failure::usage(why)
                    .at("--eir")
                    .hint(format!("its rate is {committed}")));
            }
            steps.push(Step::Excess(name.clone(), *excess, 100));
            steps.push(Step::Excess(name.clone(), *excess, OVERSHOOT));
        }
    }
    if !args.configuration_only {
        steps.push(Step::Performance);
    }
    Ok(steps)
}

/// What the services were promised, and how they are tested.
fn services(scenario: &Scenario, args: &Args) -> ServiceTest {
    let service = |(name, flow): (&String, &wirebeat_traffic::scenario::FlowSpec)| {
        let excess = args.eir.iter().find(|(of, _)| of == name);
        let criteria = scenario.expected_of_flow(name);
        Service {
            name: name.clone(),
            committed: match &flow.rate {
                FlowRate::Fixed(rate) => rate.to_string(),
                _ => "-".to_owned(),
            },
            excess: excess.map(|(_, rate)| rate.to_string()),
            criteria: criteria.iter().map(ToString::to_string).collect(),
        }
    };
    let performance = (!args.configuration_only).then_some(args.performance_time);
    ServiceTest {
        title: args.title.title.clone(),
        services: scenario.flows.iter().map(service).collect(),
        step_ns: args.step_time.get(),
        performance_ns: performance.map(Nanos::get),
        deviations: deviations(performance, !args.eir.is_empty()),
    }
}

/// In what a test is not what Y.1564 describes, each in a sentence.
fn deviations(performance: Option<Nanos>, has_excess: bool) -> Vec<String> {
    const HAS: &str = "Y.1564 has 15 min, 2 h or 24 h";
    let mut all = Vec::new();
    match performance {
        None => all.push(format!("no performance test; {HAS}")),
        Some(time) if !PERFORMANCE.contains(&time) => {
            all.push(format!("performance test of {}; {HAS}", human::long_time(time.get())));
        }
        Some(_) => {}
    }
    if has_excess {
        all.push(
            "frames are not marked by colour; with an excess rate, what arrives is held against the rates alone"
                .to_owned(),
        );
    }
    all
}

/// The scenario of a step.
fn offered(mut scenario: Scenario, step: &Step, args: &Args) -> Result<Scenario, Failure> {
    let committed = |rate: &FlowRate| match rate {
        FlowRate::Fixed(rate) => *rate,
        _ => Rate::Unlimited,
    };
    match step {
        Step::Performance => scenario.run.time = Some(args.performance_time),
        Step::Committed(name, share) => {
            let mut criteria = scenario.expected_of_flow(name);
            // at a step below the committed rate, nobody receives that rate
            criteria.retain(|of| *share == 100 || !matches!(of.measured, FlowMeasured::Rate(..)));
            scenario.flows.retain(|flow, _| flow == name);
            scenario.expect.clear();
            scenario.run.time = Some(args.step_time);
            for flow in scenario.flows.values_mut() {
                flow.rate = FlowRate::from(scaled(committed(&flow.rate), *share));
                flow.expect = criteria.clone();
            }
        }
        Step::Excess(name, excess, share) => {
            scenario.flows.retain(|flow, _| flow == name);
            scenario.expect.clear();
            scenario.run.time = Some(args.step_time);
            for flow in scenario.flows.values_mut() {
                let rate = committed(&flow.rate);
                let all = sum(rate, *excess, *share);
                flow.rate = FlowRate::from(all.unwrap_or(rate));
                flow.expect = match share {
                    // what is beyond the committed rate may be lost; the committed rate itself must come through
                    100 => vec![expected(&format!("rate.received >= {}", scaled(rate, 99)))?],
                    _ => {
                        let most = sum(rate, *excess, 100).unwrap_or(rate);
                        vec![expected(&format!("rate.received <= {}", scaled(most, MARGIN)))?]
                    }
                };
            }
        }
    }
    scenario.check().map_err(|problem| Failure::usage(problem.why.clone()))?;
    Ok(scenario)
}

fn expected(text: &str) -> Result<FlowExpectation, Failure> {
    text.parse().map_err(|why: Fault| Failure::usage(why.at(text.to_owned())))
}

/// A share of a rate, in percent.
fn scaled(rate: Rate, percent: u64) -> Rate {
    match rate {
        Rate::Frames(FrameRate { frames, per }) => {
            let per = Nanos::new(per.get().saturating_mul(100));
            Rate::Frames(FrameRate { frames: frames.saturating_mul(percent), per })
        }
        Rate::Bits(BitRate(bits), layer) => {
            let bits = u128::from(bits) * u128::from(percent) / 100;
            Rate::Bits(BitRate(u64::try_from(bits).unwrap_or(u64::MAX)), layer)
        }
        other => other,
    }
}

/// A rate and a share of another one, in percent; `None` where they count other things.
fn sum(rate: Rate, more: Rate, percent: u64) -> Option<Rate> {
    match (rate, scaled(more, percent)) {
        (Rate::Bits(BitRate(a), layer), Rate::Bits(BitRate(b), of)) if layer == of => {
            Some(Rate::Bits(BitRate(a.saturating_add(b)), layer))
        }
        (Rate::Frames(a), Rate::Frames(b)) => {
            // to a thousandth of a frame per second
            let frames = ((a.per_second() + b.per_second()) * 1000.0).round() as u64;
            Some(Rate::Frames(FrameRate { frames, per: Nanos::from_secs(1000) }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_standard_is_said() {
        let minutes = |minutes: u64| Some(Nanos::from_secs(minutes * 60));
        assert_eq!(deviations(minutes(15), false), Vec::<String>::new());
        assert_eq!(
            deviations(minutes(5), false),
            ["performance test of 5 min; Y.1564 has 15 min, 2 h or 24 h"]
        );
        assert_eq!(deviations(None, true).len(), 2);
    }

    #[test]
    fn rates_are_scaled_and_added() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(scaled(rate("100Mbps"), 75), rate("75Mbps"));
        assert_eq!(scaled(rate("100pps"), 25), rate("25pps"));
        assert_eq!(sum(rate("100Mbps"), rate("20Mbps"), 125), Some(rate("125Mbps")));
        assert_eq!(sum(rate("1kpps"), rate("1kpps"), 100), Some(rate("2kpps")));
        assert_eq!(sum(rate("1kpps"), rate("20Mbps"), 100), None);
        assert!(excess("video=20Mbps").is_ok());
        for text in ["video", "=1Mbps", "video=x", "video=50%", "video=unlimited"] {
            assert!(excess(text).is_err(), "{text}");
        }
    }
}
