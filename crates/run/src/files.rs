//! The files that a scenario names, read before it is compiled.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use wirebeat_traffic::compile::Files;
use wirebeat_traffic::spec::replay::Truncated;
use wirebeat_traffic::spec::{Replay, Scenario};

use crate::error::RunError;
use crate::options::Options;
use crate::replay::{longest_frame, longest_record};

/// Reads what `scenario` names and `options` do not hold already. Names are relative to the directory of the
/// scenario.
pub fn read(scenario: &Scenario, options: &Options) -> Result<Files, RunError> {
    let mut files = options.files.clone();
    let path = |name: &str| match &options.directory {
        Some(directory) => directory.join(name),
        None => Path::new(name).to_owned(),
    };
    for name in Files::named_in(scenario) {
        if files.holds(name) {
            continue;
        }
        let path = path(name);
        let content = read_one(&path, Files::MAX_BYTES)
            .map_err(|why| RunError::Usage(format!("the file '{}': {why}", path.display())))?;
        files.insert(name.to_owned(), content);
    }
    for (name, replay) in replayed(scenario) {
        let longest = match replay.is_capture() {
            true => longest_frame(&path(name), replay),
            false => longest_record(&path(name)),
        };
        if let Some(longest) = longest.map_err(RunError::Usage)? {
            files.insert_recording(name.to_owned(), longest);
        }
    }
    Ok(files)
}

/// The files that `scenario` replays, each once, and one who does. Where one of them pads frames and another does
/// not, that is one who does.
fn replayed(scenario: &Scenario) -> BTreeMap<&str, &Replay> {
    let replays = scenario.flows.values().filter_map(|flow| flow.replay.as_deref());
    let mut all = BTreeMap::new();
    for replay in replays {
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
pub fn read_one(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| error.to_string();
    let metadata = std::fs::metadata(path).map_err(told)?;
    // A pipe or a device might never end.
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    let file = File::open(path).map_err(told)?;
    file.take(most + 1).read_to_end(&mut content).map_err(told)?;
    if content.len() as u64 > most {
        return Err(format!("it is longer than {} MiB; shorten it", most >> 20));
    }
    Ok(content)
}
