//! A rate that groups of sessions shared, and what each had of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the rate that groups of sessions shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MixReport {
    /// The rate of all groups together, as the scenario has it: "100Mbps".
    pub rate: String,
    /// What was shared.
    pub of: MixShared,
    /// Each group, in the order of the scenario.
    pub groups: Vec<MixShare>,
}

/// What a mix shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixShared {
    /// Bits that both ends sent, as the layer of the rate counts them.
    #[default]
    Bits,
    /// Session starts.
    Starts,
}

/// A group's share of a mix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MixShare {
    /// The group.
    pub name: String,
    /// What it was asked to have of all, of 1.
    pub asked_ratio: f64,
    /// What it had of what all had, of 1; absent where that is not known of every group: bits of frames are counted by our own TCP and UDP
    /// alone, and where both ends are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got_ratio: Option<f64>,
    /// How much that was: bits, or session starts; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<u64>,
    /// What that was in each second in which its sessions started: what a session had, times the sessions opened in a second. That is the
    /// rate once the first sessions of the longest group have ended, and until sessions start no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got_per_second: Option<f64>,
}

impl MixReport {
    /// What all groups had in each second in which sessions started; `None` where it is not known of all.
    pub fn got_per_second(&self) -> Option<f64> {
        self.groups.iter().map(|group| group.got_per_second).sum()
    }
}
