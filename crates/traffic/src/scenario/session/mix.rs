//! A rate that groups of sessions share.

use std::borrow::Cow;
use std::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, FrameRate, Nanos, Rate, fault};

use super::SessionSpec;
use crate::scenario::rate::FlowRate;
use crate::scenario::schema::RateText;
use crate::scenario::{Invalid, KeyPath, Scenario};
use crate::text::hint::with_hint;
use crate::values::session::per_second;

/// The largest share.
const SHARE_MAX: u32 = 1_000_000;

/// A rate that groups of sessions share: of a bit rate each has its share of the bits, of session starts its share of the starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mix {
    /// The rate of all groups together: `1Gbps`, or `1000/s`.
    #[serde(serialize_with = "per_second")]
    #[schemars(with = "RateText")]
    pub rate: Rate,
    /// How much each group has of it, by their names, in parts of the sum.
    #[serde(deserialize_with = "crate::scenario::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, NonZeroU32>")]
    pub shares: IndexMap<String, NonZeroU32>,
}

impl Mix {
    /// The rate of the group `name`.
    fn rate_of(&self, name: &str) -> Option<Rate> {
        let share = u64::from(self.shares.get(name)?.get());
        // at most 1000 groups with a million each
        let sum: u64 = self.shares.values().map(|share| u64::from(share.get())).sum();
        let part = |of: u64| (u128::from(of) * u128::from(share) / u128::from(sum)) as u64;
        Some(match self.rate {
            Rate::Bits(rate, layer) => Rate::Bits(BitRate(part(rate.0)), layer),
            // in a time that is long enough for the share to be a whole number
            Rate::Frames(FrameRate { frames, per }) => {
                let whole = frames.checked_mul(share).zip(per.get().checked_mul(sum));
                match whole {
                    Some((frames, per)) => Rate::Frames(FrameRate { frames, per: Nanos::new(per) }),
                    None => Rate::Frames(FrameRate { frames: part(frames).max(1), per }),
                }
            }
            other => other,
        })
    }
}

impl Scenario {
    /// The group `name` with the rate that it has by the mix.
    pub fn with_share<'a>(&self, name: &str, spec: &'a SessionSpec) -> Cow<'a, SessionSpec> {
        match self.mix.as_ref().and_then(|mix| mix.rate_of(name)) {
            Some(rate) => Cow::Owned(SessionSpec { rate: FlowRate::Fixed(rate), ..spec.clone() }),
            None => Cow::Borrowed(spec),
        }
    }

    /// What is invalid of the mix.
    pub(super) fn check_mix(&self) -> Result<(), Invalid> {
        let Some(mix) = &self.mix else { return Ok(()) };
        let at = |key: &str| KeyPath::root("mix").key(key);
        match mix.rate {
            Rate::Bits(rate, _) if rate.0 > 0 => {}
            Rate::Frames(rate) if rate.per_second() > 0.0 => {}
            rate => {
                return Err(at("rate").invalid(fault!(
                    "'{rate}' cannot be shared among groups"; "write for example 1Gbps or 1000/s"
                )));
            }
        }
        if mix.shares.is_empty() {
            return Err(at("shares").invalid(fault!("no group has a share"; "name some")));
        }
        for (name, share) in &mix.shares {
            let here = || at("shares").key(name);
            let Some(group) = self.sessions.get(name) else {
                let groups = self.sessions.keys().map(String::as_str);
                return Err(here().invalid(with_hint("there is no group", name, groups)));
            };
            if share.get() > SHARE_MAX {
                return Err(here().invalid(fault!("a share has at most {SHARE_MAX} parts")));
            }
            if group.rate != FlowRate::default() || group.users.is_some() || group.from.is_none() {
                let key = if group.users.is_some() { "users" } else { "rate" };
                let why = match group.from {
                    Some(_) => fault!("the group has '{key}' of its own"; "leave one of them out"),
                    None => fault!("the clients are somebody else's"; "leave the group out"),
                };
                return Err(here().invalid(why));
            }
        }
        Ok(())
    }
}
