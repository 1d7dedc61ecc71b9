//! Scenarios from files: what `run`, `check` and `explain` have in common.
//!
//! A file is named, or is standard input. It may include others, and have variables that are set here. Or it
//! is a script of another tool, and becomes a scenario here.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use wirebeat_import::Dialect;
use wirebeat_run::Options;
use wirebeat_traffic::scenario::{
    FlowSpec, Invalid, Place, Reading, Scenario, ScopedExpectation, Sources, SpecError, yaml,
};
use wirebeat_units::human::counted;
use wirebeat_units::{Fault, Nanos, fault};

use crate::failure::Failure;
use crate::output::tell;
use crate::script::{self, How};
use crate::values;

/// The file name that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// How a file is read.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct FileArgs {
    /// Give a variable of the scenario this value, whatever its files say; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// The file is a script of pktgen, rude, mgen, d-itg, t-rex or warp17 [default: as it looks]
    #[arg(long, value_name = "NAME", value_parser = values::dialect, conflicts_with = "set")]
    dialect: Option<Dialect>,
    /// The interface that flows of a script leave by, unless it names one
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

impl FileArgs {
    /// Whether it says anything.
    pub fn is_asked_for(&self) -> bool {
        *self != FileArgs::default()
    }

    /// The same with more variables set.
    pub fn with(&self, set: impl IntoIterator<Item = (String, String)>) -> FileArgs {
        let mut more = self.clone();
        more.set.extend(set);
        more
    }
}

/// Reads a name with a value: `rate=10kpps`.
pub fn assignment(text: &str) -> Result<(String, String), Fault> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(fault!("'{text}' is not a name with a value"; "write for example rate=10kpps")),
    }
}

/// A scenario that was read from a file.
#[derive(Debug)]
pub struct ScenarioFile {
    /// What messages call it.
    pub name: String,
    /// What it says.
    pub scenario: Scenario,
    /// What the names of files in it are relative to.
    directory: Option<PathBuf>,
    /// Files that it names and that were made out of a script: name and content.
    made: Vec<(String, Vec<u8>)>,
    /// Of a scenario that is not a script.
    sources: Option<Sources>,
}

impl ScenarioFile {
    /// Reads and checks the scenario in the file `path`, which ends after `time` if that is given.
    pub fn read(path: &Path, how: &FileArgs, time: Option<Nanos>) -> Result<ScenarioFile, Failure> {
        ScenarioFile::read_with(path, how, time, &[])
    }

    /// The same of a script that is called with `arguments`.
    pub fn read_with(
        path: &Path,
        how: &FileArgs,
        time: Option<Nanos>,
        arguments: &[String],
    ) -> Result<ScenarioFile, Failure> {
        let (name, text) = text("the scenario", path)?;
        let directory = path.parent().filter(|_| !is_standard(path)).map(Path::to_owned);
        let script = How {
            dialect: how.dialect,
            interface: how.interface.clone(),
            time,
            arguments: arguments.to_vec(),
            ..How::default()
        };
        if let Some(converted) = script::read((&name, &text), directory.as_deref(), &script)? {
            if !how.set.is_empty() {
                let why = "a script has no variables";
                let hint = "turn it into a scenario with 'wirebeat convert', and give that some";
                return Err(Failure::usage(why).at("--set").hint(hint));
            }
            script::notices(&converted).iter().for_each(|notice| tell(notice));
            let (scenario, made) = (converted.scenario, converted.files);
            return Ok(ScenarioFile { name, scenario, directory, made, sources: None });
        }
        if let Some(first) = arguments.first() {
            let why = "this is a scenario, and only a shell script for pktgen takes arguments";
            let hint = "give its variables values with --set";
            return Err(Failure::usage(why).at(format!("-- {first}")).hint(hint));
        }
        if how.interface.is_some() {
            let why = "this is a scenario, and its ports name the interfaces";
            let hint = "give the port an 'interface'; it can be a variable, for --set";
            return Err(Failure::usage(why).at("--interface").hint(hint));
        }
        let reading = Reading { set: &how.set, read: &mut |path| text_of_include(path) };
        let (scenario, sources) =
            Sources::read(&name, text, reading).map_err(|error| unreadable(error, &how.set))?;
        let (made, sources) = (Vec::new(), Some(sources));
        let mut file = ScenarioFile { name, scenario, directory, made, sources };
        if let Some(time) = time {
            file.end_after(time)?;
            // What the scenario says may not go with the new end.
            file.scenario.check().map_err(|problem| file.invalid(&problem))?;
        }
        Ok(file)
    }

    /// Ends the run after `time`, whatever the scenario says: a flow that would start at or after that is not sent.
    fn end_after(&mut self, time: Nanos) -> Result<(), Failure> {
        self.scenario.run.time = Some(time);
        let flows = &mut self.scenario.flows;
        let starts =
            |(name, flow): (&String, &FlowSpec)| format!("flow '{name}' starts at {}", flow.start);
        let late: Vec<String> =
            flows.iter().filter(|(_, flow)| flow.start >= time).map(starts).collect();
        if late.len() == flows.len()
            && let Some(first) = late.first()
        {
            let why =
                format!("{first}, and no flow starts before {time}, so nothing would be sent");
            let failure = Failure::usage(&why).at(format!("--time {time}"));
            return Err(failure.hint("give a longer time"));
        }
        flows.retain(|_, flow| flow.start < time);
        match late.as_slice() {
            [] => {}
            [one] => tell(&format!("{one} and is not sent: the run ends after {time} (--time)")),
            [first, others @ ..] => tell(&format!(
                "{first} and is not sent, nor {}: the run ends after {time} (--time)",
                counted(others.len() as u64, "other flow")
            )),
        }
        Ok(())
    }

    /// Expects this, too, in the words of the command line.
    pub fn expect(&mut self, more: &[ScopedExpectation]) -> Result<(), Failure> {
        let first = self.scenario.expect.len();
        if more.is_empty() {
            return Ok(());
        }
        self.scenario.expect.extend(more.iter().cloned());
        self.scenario.check().map_err(|problem| match problem.at.index_below("expect") {
            // it stands in no file
            Some(place) if place >= first => Failure::usage(problem.why.clone()).at("--expect"),
            _ => self.invalid(&problem),
        })
    }

    /// `options` with what the names of files in it mean.
    pub fn options(&self, options: Options) -> Options {
        let mut options = Options { directory: self.directory.clone(), ..options };
        for (name, content) in &self.made {
            options.files.insert(name.clone(), content.clone());
        }
        options
    }

    /// A problem found behind the parser, with its place in the text.
    pub fn invalid(&self, problem: &Invalid) -> Failure {
        let (file, place) = match &self.sources {
            Some(sources) => sources.locate(&problem.at),
            None => (self.name.as_str(), None),
        };
        Failure::usage(problem.why.clone()).at(format!("{}, {}", at(file, place), problem.at))
    }
}

/// Whether this stands for standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// What messages call the file `path`, and the text in it: `what`, at most a byte more than the longest
/// scenario has.
pub fn text(what: &str, path: &Path) -> Result<(String, String), Failure> {
    let (name, text) = match is_standard(path) {
        true => ("standard input".to_owned(), text_of(io::stdin())),
        false => (path.display().to_string(), text_of_file(path)),
    };
    let text = text.map_err(|why| {
        let failure = Failure::usage(why.at(format!("cannot read {what}")));
        failure.at(name.clone()).hint("check the name of the file")
    })?;
    Ok((name, text))
}

fn text_of_file(path: &Path) -> Result<String, Fault> {
    text_of(File::open(path).map_err(|error| error.to_string())?)
}

/// What a scenario includes is read where the scenario is meant, so nothing there may make it wait.
fn text_of_include(path: &Path) -> Result<String, Fault> {
    let file = wirebeat_run::open_regular(path).map_err(|error| error.to_string())?;
    text_of(file.ok_or(fault!("it is not a regular file"; "write its text into one"))?)
}

fn text_of(source: impl Read) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that the parser can say that it is too much.
    let read = source.take(yaml::MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    let is_wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    String::from_utf8(bytes).map_err(|_| match is_wide {
        true => fault!("this is text in UTF-16"; "save it as UTF-8"),
        false => "this is not text in UTF-8".into(),
    })
}

fn at(file: &str, place: Option<Place>) -> String {
    match place {
        Some(place) => format!("{file}:{}:{}", place.line, place.column),
        None => file.to_owned(),
    }
}

fn unreadable(error: SpecError, set: &[(String, String)]) -> Failure {
    match error {
        SpecError::Syntax { file, place, problem } => Failure::usage(problem).at(at(&file, place)),
        SpecError::Invalid { file, place, problem } => {
            Failure::usage(problem.why.clone()).at(format!("{}, {}", at(&file, place), problem.at))
        }
        SpecError::Variable { name, problem } => {
            let value = set.iter().find(|(set, _)| *set == name).map_or("", |(_, value)| value);
            Failure::usage(problem)
                .at(format!("--set {name}={value}"))
                .hint("declare it under 'variables', or leave it out")
        }
        other => Failure::usage(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_anything_in_it() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(assignment("rate=10kpps"), pair("rate", "10kpps"));
        assert_eq!(assignment("a=b=c"), pair("a", "b=c"));
        assert_eq!(assignment("a="), pair("a", ""));
        assert!(assignment("rate").is_err() && assignment("=5").is_err());
    }
}
