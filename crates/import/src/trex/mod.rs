//! Profiles of T-Rex: stateful ones, in YAML (`stf.rs`, and `packets.rs` packet by packet), and advanced stateful ones, as JSON
//! (`astf/`).

mod astf;
mod packets;
mod shares;
mod stf;

use wirebeat_units::Nanos;

use crate::ScriptError;
use crate::draft::Draft;

/// The key that all stateful profiles have.
pub(crate) fn hint(line: &str) -> bool {
    stf::key(line) == Some("cap_info")
}

/// Whether a text in JSON is a profile.
pub(crate) fn is_profile(text: &str) -> bool {
    astf::is_profile(text)
}

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    match is_profile(draft.source.text) {
        true => astf::read(draft),
        false => stf::read(draft),
    }
}

/// So many in a second, as a rate is written; with no more digits than people write.
fn per_second(rate: f64) -> String {
    let text = format!("{rate:.4}");
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Nanoseconds, where they are a time.
fn nanos(ns: f64) -> Option<Nanos> {
    (ns.is_finite() && (1.0..1e18).contains(&ns)).then(|| Nanos::new(ns.round() as u64))
}
