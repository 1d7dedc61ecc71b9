//! `wirebeat sweep`: a scenario with several values of its variables.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::{Options, RunError};
use wirebeat_units::{Fault, Nanos, fault};

use crate::expect::ExpectArgs;
use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile, is_standard};
use crate::output::{Output, ReportArgs, ResultArgs};
use crate::repeat::{Many, OneRun, RUNS, RepeatArgs};
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat sweep lab.yaml --over rate=10kpps,20kpps,50kpps
  wirebeat sweep lab.yaml --over rate=10kpps..100kpps/10 --over size=64B,512B,1518B --html sweep.html
  wirebeat sweep lab.yaml --over size=64B,1518B --repeat 5 --expect 'loss <= 0.1%' --csv sweep.csv";

/// Run a scenario with several values of its variables
///
/// Runs the scenario once for each combination of values, the last variable changing first, and puts what came of it into one table: all
/// flows together, and each group of sessions. With --repeat, each combination runs several times, and the table has means with their 95 %
/// intervals. The scenario declares the variables under 'variables'.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// A variable and its values, or a range of them in so many points; given once for each variable
    #[arg(long = "over", value_name = "NAME=VALUE,...", required = true, value_parser = over)]
    over: Vec<Over>,
    #[command(flatten)]
    reading: FileArgs,
    /// End each run after this time, whatever the scenario says
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    #[command(flatten)]
    repeat: RepeatArgs,
    /// Keep each run in this file, and go on with those that are in it
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    result: ResultArgs,
}

/// A variable and its values.
#[derive(Clone, Debug, PartialEq)]
struct Over {
    name: String,
    values: Vec<String>,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.result)
    }
}

/// Runs.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if is_standard(&args.scenario) {
        let why = "standard input can be read once, and the scenario is read for each run";
        return Err(Failure::usage(why).at("-").hint("name a file"));
    }
    for (place, one) in args.over.iter().enumerate() {
        if args.over[..place].iter().any(|other| other.name == one.name) {
            let why = format!("the variable '{}' is given twice", one.name);
            return Err(Failure::usage(why).at("--over").hint("give all of its values at once"));
        }
    }
    let values = combinations(&args.over, args.repeat.repeat)
        .map_err(|why| Failure::usage(why).at("--over"))?;
    let variables: Vec<String> = args.over.iter().map(|one| one.name.clone()).collect();
    let line = output.options().command_line;
    let abort_on_fail = args.expect.abort.abort_on_fail;
    let mut make = |values: &[String], time: Option<Nanos>| {
        let set = args.over.iter().zip(values).map(|(of, value)| (of.name.clone(), value.clone()));
        let reading = args.reading.with(set);
        let mut file = ScenarioFile::read(&args.scenario, &reading, time.or(args.time))?;
        file.expect(&args.expect.expect)?;
        let options = file.options(Options {
            command_line: line.clone(),
            abort_on_fail,
            ..Options::default()
        });
        Ok(OneRun { scenario: file.scenario, options })
    };
    let name = args.scenario.display().to_string();
    let explain = |error: RunError| match error {
        RunError::Scenario(error) => {
            let problem = error.problem();
            Failure::usage(problem.why.clone()).at(format!("{name}, {}", problem.at))
        }
        other => Failure::from(other).at(name.clone()),
    };
    let warmup = args.repeat.warmup;
    let (test, resume) = (None, args.resume.clone());
    let (make, explain) = (&mut make, &explain);
    Many { test, variables, values, warmup, resume, make, explain, judges: false }.run(output)
}

fn over(text: &str) -> Result<Over, Fault> {
    let Some((name, values)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(fault!(
            "'{text}' is not a variable with its values";
            "write for example rate=10kpps,20kpps, or rate=10kpps..100kpps/10"
        ));
    };
    let values = match range(values)? {
        Some(values) => values,
        None => values.split(',').map(|value| value.trim().to_owned()).collect(),
    };
    let mut seen: Vec<&String> = Vec::new();
    for value in &values {
        if value.is_empty() || seen.contains(&value) {
            return Err(fault!(
                "'{text}' has an empty value, or one twice";
                "give each value once; --repeat runs each of them several times"
            ));
        }
        seen.push(value);
    }
    Ok(Over { name: name.to_owned(), values })
}

/// The values of "10kpps..100kpps/10": so many, equally far apart; `None` where it is no range.
fn range(text: &str) -> Result<Option<Vec<String>>, Fault> {
    let Some((from, (to, points))) =
        text.split_once("..").and_then(|(from, rest)| Some((from, rest.split_once('/')?)))
    else {
        return Ok(None);
    };
    let wrong = || {
        fault!(
            "'{text}' is not a range";
            "write the first and the last value in one unit, and in how many points: 10kpps..100kpps/10"
        )
    };
    let split = |value: &str| {
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        let (number, unit) = value.split_at(end);
        number.parse::<f64>().ok().map(|number| (number, unit.to_owned()))
    };
    let (Some((low, unit)), Some((high, other))) = (split(from.trim()), split(to.trim())) else {
        return Err(wrong());
    };
    let points: usize = points.trim().parse().map_err(|_| wrong())?;
    if !(2..=1000).contains(&points) {
        return Err(fault!("'{text}' has {points} points"; "a range has 2 to 1,000"));
    }
    if unit != other {
        return Err(
            fault!("'{text}' has two units"; "write both ends in one: {low}{other}..{high}{other}/{points}"),
        );
    }
    if low >= high {
        return Err(fault!("'{text}' does not rise"; "write the smaller value first"));
    }
    let step = (high - low) / (points - 1) as f64;
    // enough places to tell the values apart, and no noise of binary fractions
    let places = (3.0 - step.log10().floor()).clamp(0.0, 12.0) as usize;
    let value = |point: usize| {
        let value = format!("{:.places$}", low + step * point as f64);
        let value = match value.contains('.') {
            true => value.trim_end_matches('0').trim_end_matches('.'),
            false => &value,
        };
        format!("{value}{unit}")
    };
    Ok(Some((0..points).map(value).collect()))
}

/// All combinations of values, each `repeat` times in a row.
fn combinations(over: &[Over], repeat: usize) -> Result<Vec<Vec<String>>, Fault> {
    let count = over.iter().try_fold(repeat, |count, one| count.checked_mul(one.values.len()));
    if count.is_none_or(|count| count > RUNS) {
        return Err(fault!(
            "these are more than {RUNS} runs"; "give fewer values, or make several sweeps"
        ));
    }
    let mut all = vec![Vec::new()];
    for one in over {
        let with = |before: &Vec<String>| {
            let before = before.clone();
            one.values.iter().map(move |value| [&before[..], std::slice::from_ref(value)].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all.into_iter().flat_map(|values| vec![values; repeat]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_or_a_range() {
        let values = |text: &str| over(text).unwrap().values;
        assert_eq!(values("rate=10kpps,20kpps"), ["10kpps", "20kpps"]);
        assert_eq!(values("size=64B..128B/3"), ["64B", "96B", "128B"]);
        assert_eq!(values("n=0..1/4"), ["0", "0.3333", "0.6667", "1"]);
        assert_eq!(values("rate=10kpps..1000kpps/2"), ["10kpps", "1000kpps"]);
        for text in ["rate", "=1", "rate=", "rate=1,1", "rate=1..2kpps/3", "r=2..1/3", "r=1..2/1"] {
            assert!(over(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_variable_changes_first() {
        let of = |name: &str, values: &[&str]| Over {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let all = combinations(&[of("a", &["1", "2"]), of("b", &["x", "y"])], 1).unwrap();
        let all: Vec<String> = all.iter().map(|values| values.concat()).collect();
        assert_eq!(all, ["1x", "1y", "2x", "2y"]);
        assert_eq!(combinations(&[of("a", &["1", "2"])], 3).unwrap().len(), 6);
        assert!(combinations(&[of("a", &["1", "2"])], 6000).is_err());
    }
}
