//! The files that a scenario names, read before it is compiled.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use wirebeat_report::model::MemberKind;
use wirebeat_traffic::compile::{CompileError, Files};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::replay::{FlowOf, Truncated};
use wirebeat_traffic::scenario::{Replay, Scenario};
use wirebeat_units::{Fault, fault};

use crate::error::RunError;
use crate::options::Options;
use crate::recorded;
use crate::regular;
use crate::replay::{
    ArchiveFacts, Numbered, kind, longest_frame, look_into, members, shared_sub_flows, sub_flows,
};

/// What is known of the files that a scenario names.
#[derive(Debug)]
pub struct FilesFound {
    /// What the scenario is compiled with.
    pub files: Files,
    /// By flow: the sub-flows of its replay, where they are known.
    sub_flows: HashMap<String, Numbered>,
}

impl FilesFound {
    /// That sub-flows of replays differ, as far as they are known.
    ///
    /// # Errors
    /// The first flow where some share what they are told apart by, such as source ports.
    pub fn check(&self, program: &Program) -> Result<(), RunError> {
        for (flow, number) in program.flows.iter().zip(0..) {
            let stream = program.streams(number).first();
            let period = stream.and_then(|stream| stream.frames.sub_flow_period());
            let Some((numbered, period)) = self.sub_flows.get(&flow.name).zip(period) else {
                continue;
            };
            let (all, different) = numbered.different(period);
            if all > different {
                let why = shared_sub_flows(all, different);
                return Err(RunError::usage(format!("flow '{}': {why}", flow.name)));
            }
        }
        Ok(())
    }
}

/// Reads what `scenario` names and `options` do not hold already. Names are relative to the directory of the
/// scenario.
pub fn read(scenario: &Scenario, options: &Options) -> Result<Files, RunError> {
    find(scenario, options).map(|found| found.files)
}

/// The same, with what is known of replays beside it.
pub fn find(scenario: &Scenario, options: &Options) -> Result<FilesFound, RunError> {
    let mut files = options.files.clone();
    let path = |name: &str| options.path(name);
    for name in Files::named_in(scenario) {
        if files.holds(name) {
            continue;
        }
        let path = path(name);
        let content = read_one(&path, Files::MAX_BYTES).map_err(|why| {
            let why = format!("the file '{}': {why}", path.display());
            CompileError::Invalid(Files::place_of(scenario, name).invalid(why))
        })?;
        files.insert(name.to_owned(), content);
    }
    for (name, numbers) in Files::sessions_named_in(scenario) {
        if files.holds_sessions(name) {
            continue;
        }
        let read = recorded::sessions(&path(name), &numbers)
            .map_err(|why| CompileError::Invalid(Files::place_of(scenario, name).invalid(why)))?;
        files.insert_sessions(name.to_owned(), read);
    }
    let mut devices = HashMap::new();
    let asked: HashSet<&str> = replays(scenario)
        .filter(|(_, replay)| {
            kind(replay) == Some(MemberKind::Device) || replay.flow_of == Some(FlowOf::Device)
        })
        .flat_map(|(_, replay)| replay.names().iter().map(String::as_str))
        .collect();
    for (name, replay) in replayed(scenario) {
        let known = match replay.is_capture() {
            true => longest_frame(&path(name), replay)
                .map(|longest| ArchiveFacts { longest, ..ArchiveFacts::default() }),
            false => look_into(&path(name), asked.contains(name)),
        };
        let known = known.map_err(RunError::usage)?;
        if let Some(longest) = known.longest {
            files.insert_recording(name.to_owned(), longest);
        }
        devices.insert(name, known.devices);
    }
    let mut all = HashMap::new();
    for (flow, replay) in replays(scenario) {
        let told = |why: Fault| RunError::usage(why.at(format!("flow '{flow}'")));
        let table = replay.table().map(path);
        let count = members(replay, table.as_deref(), &devices).map_err(told)?;
        files.insert_members(flow.to_owned(), count);
        if let Some(numbered) = sub_flows(replay, table.as_deref(), &devices).map_err(told)? {
            all.insert(flow.to_owned(), numbered);
        }
    }
    Ok(FilesFound { files, sub_flows: all })
}

/// The flows of `scenario` that replay something.
fn replays(scenario: &Scenario) -> impl Iterator<Item = (&str, &Replay)> {
    let flows = scenario.flows.iter();
    flows.filter_map(|(name, flow)| Some((name.as_str(), flow.replay.as_deref()?)))
}

/// The files that `scenario` replays, each once, and one who does. Where one of them pads frames and another does
/// not, that is one who does.
fn replayed(scenario: &Scenario) -> BTreeMap<&str, &Replay> {
    let mut all = BTreeMap::new();
    for (_, replay) in replays(scenario) {
        for name in replay.names() {
            let known = all.entry(name.as_str()).or_insert(replay);
            if replay.truncated == Truncated::Pad {
                *known = replay;
            }
        }
    }
    all
}

/// A regular file of at most so many bytes; or why not.
pub fn read_one(path: &Path, most: u64) -> Result<Vec<u8>, Fault> {
    let told = |error: std::io::Error| Fault::from(error.to_string());
    let file = regular::open(path).map_err(told)?;
    let file = file.ok_or_else(|| Fault::from("it is not a regular file"))?;
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content).map_err(told)?;
    if content.len() as u64 > most {
        return Err(fault!("it is longer than {} MiB", most >> 20; "shorten it"));
    }
    Ok(content)
}
