//! How many sessions of a group may be open at a time, and how fast they open, close and send.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, Rate, fault};

use super::is_default;
use crate::text::schema::RateText;

/// How many sessions may be open at a time, and how fast they open, close and send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Limit {
    /// The most sessions that are open at a time. Default: no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub open: Option<NonZeroU32>,
    /// What becomes of a session that is due when so many are open.
    #[serde(skip_serializing_if = "is_default")]
    pub beyond: Beyond,
    /// How many sessions open in a second at most, at even distances: those that are due sooner wait. Default: no limit.
    #[serde(skip_serializing_if = "is_default", serialize_with = "per_second")]
    #[schemars(with = "Option<RateText>")]
    pub opening: Option<Rate>,
    /// How many sessions our clients close in a second at most, at even distances. Default: no limit.
    #[serde(skip_serializing_if = "is_default", serialize_with = "per_second")]
    #[schemars(with = "Option<RateText>")]
    pub closing: Option<Rate>,
    /// How many messages our clients send in a second at most, at even distances, those of all sessions together. Default: no limit.
    #[serde(skip_serializing_if = "is_default", serialize_with = "per_second")]
    #[schemars(with = "Option<RateText>")]
    pub sending: Option<Rate>,
}

/// What becomes of a session that is due when as many as may be are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// It does not start, and is counted as expired.
    #[default]
    Expire,
    /// It starts as soon as another has ended; its planned start stays what it was.
    Queue,
}

impl Limit {
    /// The most sessions that are open at a time, where that is limited.
    pub fn most_open(&self) -> Option<u32> {
        self.open.map(NonZeroU32::get)
    }

    /// What is limited by a rate, by the names of the keys.
    pub fn rates(&self) -> [(&'static str, Option<Rate>); 3] {
        [("opening", self.opening), ("closing", self.closing), ("sending", self.sending)]
    }

    pub(crate) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.beyond != Beyond::default() && self.open.is_none() {
            return Err((
                "beyond",
                fault!("there is no limit to be beyond"; "add for example 'open: 1000'"),
            ));
        }
        for (key, rate) in self.rates() {
            let why = match rate {
                None => continue,
                Some(Rate::Frames(rate)) if rate.per_second() > 0.0 => continue,
                Some(Rate::Frames(_)) => fault!("at 0/s nothing goes on"; "ask for more"),
                Some(rate) => {
                    fault!("'{rate}' does not count sessions or messages"; "write for example 1000/s")
                }
            };
            return Err((key, why));
        }
        Ok(())
    }
}

/// The distance between two events of this rate, on each of `cores` that share it; zero where there is none.
pub fn gap(rate: Option<Rate>, cores: u32) -> Nanos {
    match rate {
        Some(Rate::Frames(rate)) if rate.per_second() > 0.0 => {
            let gap = 1e9 * f64::from(cores.max(1)) / rate.per_second();
            Nanos::new((gap.round() as u64).max(1))
        }
        _ => Nanos::ZERO,
    }
}

fn per_second<S: serde::Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    match rate {
        Some(rate) => super::per_second(rate, serializer),
        None => serializer.serialize_none(),
    }
}
