//! Switches: on or off.

use serde::{Deserialize, Deserializer};

/// For switches that are on unless they are turned off.
pub(super) fn on() -> bool {
    true
}

/// For switches that are on unless they are turned off.
pub(super) fn is_on(switch: &bool) -> bool {
    *switch
}

/// Reads a switch; YAML's own words for true and false are as good as `on` and `off`.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    bool::deserialize(from)
}
