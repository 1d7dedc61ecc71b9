//! Scenarios as YAML, and so as JSON, which is YAML too.
//!
//! A file may include others and use variables: `sources.rs` puts files together, `variables.rs` has what
//! stands for what, and `filled.rs` puts it in.
//!
//! Time and memory are bounded whatever the text is: see [`MAX_BYTES`], [`MAX_NODES`], [`MAX_DEPTH`],
//! [`MAX_ANCHORED`] and [`MAX_REPLAYED`]. `message.rs` puts the messages of the parser into
//! the words of the language.

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};
use wirebeat_units::{Fault, fault};

use std::path::Path;

use self::sources::Reading;
use super::full::Full;
use super::{Place, Scenario, SpecError};
use crate::text::printable;
pub(super) use variables::Variables;

mod filled;
mod lines;
mod message;
pub mod sources;
mod variables;

pub use lines::Lines;
pub use variables::{MAX_NESTED, MAX_VALUE};

/// The longest text, in bytes: 65,535 flows take about 250 bytes each.
pub const MAX_BYTES: usize = 16 << 20;
/// The most keys and values, aliases not counted: about 60 for each of 65,535 flows.
pub const MAX_NODES: usize = 4_000_000;
/// How deep lists and maps may be nested. The language needs 7 levels.
pub const MAX_DEPTH: usize = 32;
/// The most keys and values that aliases (`*name`) may stand for, all together.
pub const MAX_REPLAYED: usize = 4_000_000;
/// The longest message, in characters: what a text can put into one is bounded too.
const MAX_MESSAGE: usize = 600;
/// The most keys and values that anchors may hold, all together and counted again for an anchor within
/// an anchor: they are kept in memory until the end.
pub const MAX_ANCHORED: usize = 500_000;
/// The most anchors, aliases and merge keys, each: two for every flow.
const MAX_ALIASES: usize = 2 * super::MAX_FLOWS;

impl Scenario {
    /// Reads a scenario from YAML or JSON and checks it. `name` is what messages call the text: the
    /// name of its file. It cannot include others: [`Sources::read`](sources::Sources::read) can.
    pub fn from_yaml(text: &str, name: &str) -> Result<Scenario, SpecError> {
        let nothing =
            |_: &Path| Err(fault!("only a file can include others"; "give the scenario as one"));
        let reading = Reading { set: &[], read: &mut { nothing } };
        sources::Sources::read(name, text.to_owned(), reading).map(|(scenario, _)| scenario)
    }

    /// Writes it as YAML, without what is at its default.
    pub fn to_yaml(&self) -> Result<String, SpecError> {
        let text = serde_saphyr::to_string(self);
        text.map(variables::escaped).map_err(|error| SpecError::Write(error.to_string()))
    }

    /// Writes it as JSON on one line, with what is at its default.
    pub fn to_json(&self) -> Result<String, SpecError> {
        let text = serde_json::to_string(&Full(self));
        text.map(variables::escaped).map_err(|error| SpecError::Write(error.to_string()))
    }
}

/// Reads a part of the language by itself, for example `{ mix: { 64B: 7, 1518B: 1 } }`. It has no variables.
pub fn value<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let read = serde_saphyr::from_str_with_options(text, options());
    read.map_err(|error| {
        message::problem(error.without_snippet(), None).map(|text| printable(text, MAX_MESSAGE))
    })
}

/// How the text is parsed.
pub(crate) fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            // Lists and maps have an end as well as a beginning.
            max_events: 2 * MAX_NODES,
            max_depth: MAX_DEPTH,
            // One more than is allowed, so that the second has a message of its own.
            max_documents: 2,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_recorded_anchor_events: 2 * MAX_ANCHORED,
            max_recorded_anchor_bytes: 2 * MAX_BYTES,
            // One anchor for the defaults of ten thousand flows is good style.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: MAX_DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The parser's error about `text` in the words of the language.
fn syntax(file: String, text: &str, error: &Error) -> SpecError {
    let error = error.without_snippet();
    let place = error
        .location()
        .filter(|location| location.line() > 0)
        .map(|location| Place { line: location.line(), column: location.column() });
    let problem = message::problem(error, place.map(|place| (text, place)));
    let problem = problem.map(|text| printable(&variables::unmarked(text), MAX_MESSAGE));
    SpecError::Syntax { file, place, problem }
}

#[cfg(test)]
mod tests;
