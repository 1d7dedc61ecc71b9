//! The files that a scenario names, read before it is compiled.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use wirebeat_trace::archive::{OnBad, Reader, Reading};
use wirebeat_traffic::compile::Files;
use wirebeat_traffic::spec::Scenario;

use crate::error::RunError;
use crate::options::Options;

/// An archive up to this length is looked through for its longest record: a quarter of a second.
const SCANNED: u64 = 256 << 20;

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
    for name in replayed(scenario) {
        if let Some(longest) = longest_record(&path(name))? {
            files.insert_archive(name.to_owned(), longest);
        }
    }
    Ok(files)
}

/// The archives that `scenario` replays, each once.
fn replayed(scenario: &Scenario) -> BTreeSet<&str> {
    let replays = scenario.flows.values().filter_map(|flow| flow.replay.as_ref());
    replays.flat_map(|replay| replay.archive.names()).map(String::as_str).collect()
}

/// The length of the longest data in an archive that is read in a moment; of a longer one it is not known.
fn longest_record(path: &Path) -> Result<Option<u32>, RunError> {
    let told = |error: &dyn std::fmt::Display| {
        RunError::Usage(format!("the archive '{}': {error}", path.display()))
    };
    let metadata = std::fs::metadata(path).map_err(|error| told(&error))?;
    if !metadata.is_file() {
        return Err(told(&"it is not a regular file"));
    }
    if metadata.len() > SCANNED {
        return Ok(None);
    }
    let file = File::open(path).map_err(|error| told(&error))?;
    // What is wrong with it is told when it is sent.
    let reading = Reading { on_bad: OnBad::Skip, any_order: true, ..Reading::default() };
    let mut reader = Reader::new(file, path.display().to_string(), reading);
    let mut longest = 0;
    while let Ok(Some(record)) = reader.read() {
        longest = longest.max(record.data.len() as u32);
    }
    Ok(Some(longest))
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
