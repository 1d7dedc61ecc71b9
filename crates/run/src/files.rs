//! The files that a scenario names, read before it is compiled.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use wirebeat_traffic::compile::Files;
use wirebeat_traffic::spec::Scenario;

use crate::error::RunError;
use crate::options::Options;

/// Reads what `scenario` names and `options` do not hold already. Names are relative to the directory of the
/// scenario.
pub fn read(scenario: &Scenario, options: &Options) -> Result<Files, RunError> {
    let mut files = options.files.clone();
    for name in Files::named_in(scenario) {
        if files.holds(name) {
            continue;
        }
        let path = match &options.directory {
            Some(directory) => directory.join(name),
            None => Path::new(name).to_owned(),
        };
        let content = read_one(&path, Files::MAX_BYTES)
            .map_err(|why| RunError::Usage(format!("the file '{}': {why}", path.display())))?;
        files.insert(name.to_owned(), content);
    }
    Ok(files)
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
