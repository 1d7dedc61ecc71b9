//! `wirebeat run`: a scenario from a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::RunError;
use wirebeat_traffic::spec::{Invalid, Scenario, SpecError, locate, yaml};
use wirebeat_units::Nanos;

use crate::execute::execute;
use crate::failure::Failure;
use crate::output::{Output, ReportArgs};
use crate::values;

/// The file name that stands for standard input.
const STANDARD_INPUT: &str = "-";

const EXAMPLES: &str = "\
Examples:
  wirebeat run scenario.yaml
  wirebeat run scenario.yaml --time 60s --json report.json
  wirebeat send --to 10.0.0.2 --rate 100kpps --print-scenario | wirebeat run -";

/// Run a scenario from a file
///
/// Runs the flows of a scenario between its ports and reports them. What a scenario can say is described
/// in docs/scenario.md.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// End after this time, whatever the scenario says
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Runs.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let text = Text::read(args)?;
    let mut scenario = Scenario::from_yaml(&text.content, &text.name).map_err(unreadable)?;
    if args.time.is_some() {
        scenario.run.time = args.time;
        // A flow may start after the new end.
        scenario.check().map_err(|problem| text.invalid(&problem))?;
    }
    execute(&scenario, output.options(), output, |error| match error {
        RunError::Scenario(error) => text.invalid(error.problem()),
        other => Failure::from(other).at(text.name.clone()),
    })
}

/// The text of a scenario, and what it is called.
struct Text {
    name: String,
    content: String,
}

impl Text {
    fn read(args: &Args) -> Result<Text, Failure> {
        let standard = args.scenario.as_os_str() == STANDARD_INPUT;
        let name = match standard {
            true => "standard input".to_owned(),
            false => args.scenario.display().to_string(),
        };
        let failed = |why: String, hint: &str| Failure::usage(&why).at(name.clone()).hint(hint);
        let source: io::Result<Box<dyn Read>> = match standard {
            true => Ok(Box::new(io::stdin())),
            false => File::open(&args.scenario).map(|file| Box::new(file) as Box<dyn Read>),
        };
        let mut bytes = Vec::new();
        // One byte more than is allowed, so that the parser can say that it is too much.
        source
            .and_then(|source| source.take(yaml::MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| {
            failed(format!("cannot read the scenario: {error}"), "check the name of the file")
        })?;
        let content = String::from_utf8(bytes)
            .map_err(|_| failed("this is no text in UTF-8".to_owned(), "name a file in YAML"))?;
        Ok(Text { name, content })
    }

    /// A problem found behind the parser, with its place in the text.
    fn invalid(&self, problem: &Invalid) -> Failure {
        let place = locate(&self.content, &problem.at);
        let place = place.map(|place| format!(":{}:{}", place.line, place.column));
        let at = format!("{}{}, {}", self.name, place.unwrap_or_default(), problem.at);
        Failure::usage(&problem.why).at(at)
    }
}

fn unreadable(error: SpecError) -> Failure {
    let at = |file: &str, place: Option<wirebeat_traffic::spec::Place>| match place {
        Some(place) => format!("{file}:{}:{}", place.line, place.column),
        None => file.to_owned(),
    };
    match error {
        SpecError::Syntax { file, place, problem } => Failure::usage(&problem).at(at(&file, place)),
        SpecError::Invalid { file, place, problem } => {
            Failure::usage(&problem.why).at(format!("{}, {}", at(&file, place), problem.at))
        }
        other => Failure::usage(&other.to_string()),
    }
}
