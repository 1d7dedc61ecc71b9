//! How fast a flow sends, and how that changes with time.

use std::str::FromStr;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Nanos, Rate};

use super::different;
use super::is_default;
use super::schema::{RateText, TimeText};
use super::shared::Shared;
use super::tagged::{self, Tagged, keyed};

/// The most steps of a profile.
pub const MAX_STEPS: usize = 100_000;

/// How fast a flow sends.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowRate {
    /// Always as fast.
    Fixed(Rate),
    /// From each of these times on, counted from the flow's start, at another rate.
    Steps(Steps),
    /// From one rate to another.
    Ramp(Ramp),
    /// Up and down.
    Sine(Sine),
}

/// Rates by the time from which they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// In the order of their times; the first is 0.
    pub rates: Shared<IndexMap<Nanos, Rate>>,
    /// After how long they begin again; `None`: the last one goes on.
    pub every: Option<Nanos>,
}

/// From one rate to another, linearly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ramp {
    /// The rate at the flow's start.
    #[schemars(with = "RateText")]
    pub from: Rate,
    /// The rate at the end.
    #[schemars(with = "RateText")]
    pub to: Rate,
    /// How long it takes. After it the last rate goes on.
    #[schemars(with = "TimeText")]
    pub over: Nanos,
    /// After how long it begins again; at least `over`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub every: Option<Nanos>,
}

/// `mean + amplitude * sin(2 pi t / period)`, with t from the flow's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sine {
    /// The rate in the middle.
    #[schemars(with = "RateText")]
    pub mean: Rate,
    /// How far it goes up and down; at most `mean`.
    #[schemars(with = "RateText")]
    pub amplitude: Rate,
    /// How long it takes until it begins again.
    #[schemars(with = "TimeText")]
    pub period: Nanos,
}

impl Default for FlowRate {
    fn default() -> Self {
        FlowRate::Fixed(Rate::Unlimited)
    }
}

impl From<Rate> for FlowRate {
    fn from(rate: Rate) -> Self {
        FlowRate::Fixed(rate)
    }
}

impl FlowRate {
    /// Whether it leaves open how fast frames follow one another.
    pub fn is_unlimited(&self) -> bool {
        *self == FlowRate::default()
    }

    /// What is invalid, whatever the link is.
    pub(super) fn check(&self) -> Result<(), String> {
        let limited = |rate: &Rate| match rate {
            Rate::Unlimited => {
                Err("a rate that changes with time has a limit; write it".to_owned())
            }
            _ => Ok(()),
        };
        match self {
            FlowRate::Fixed(_) => Ok(()),
            FlowRate::Steps(steps) => {
                steps.rates.values().try_for_each(limited)?;
                steps.check()
            }
            FlowRate::Ramp(ramp) => {
                limited(&ramp.from)?;
                limited(&ramp.to)?;
                match ramp.every {
                    _ if ramp.over == Nanos::ZERO => {
                        Err("a ramp takes some time; make 'over' longer".to_owned())
                    }
                    Some(every) if every < ramp.over => Err(format!(
                        "the ramp takes {} and begins again after {every}; make 'every' at least as long",
                        ramp.over
                    )),
                    _ => Ok(()),
                }
            }
            FlowRate::Sine(sine) => {
                limited(&sine.mean)?;
                limited(&sine.amplitude)?;
                match sine.period {
                    Nanos::ZERO => Err("a period takes some time; make it longer".to_owned()),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Steps {
    fn check(&self) -> Result<(), String> {
        let times: Vec<Nanos> = self.rates.keys().copied().collect();
        match times.first() {
            None => return Err("there is at least one step".to_owned()),
            Some(&Nanos::ZERO) => {}
            Some(first) => {
                return Err(format!("the first step is at {first}; say what holds from 0s on"));
            }
        }
        if times.len() > MAX_STEPS {
            return Err(format!("there are {} steps, and {MAX_STEPS} is the most", times.len()));
        }
        if let Some([before, after]) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("{after} comes after {before}; write steps in the order of time"));
        }
        match (self.every, times.last()) {
            (Some(every), Some(last)) if every <= *last => Err(format!(
                "the last step is at {last} and they begin again after {every}; make 'every' longer"
            )),
            _ => Ok(()),
        }
    }
}

impl FromStr for FlowRate {
    type Err = wirebeat_units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(FlowRate::Fixed)
    }
}

impl Serialize for FlowRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            FlowRate::Fixed(rate) => rate.serialize(serializer),
            FlowRate::Steps(steps) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("steps", &steps.rates)?;
                if let Some(every) = &steps.every {
                    map.serialize_entry("every", every)?;
                }
                map.end()
            }
            FlowRate::Ramp(ramp) => serializer.collect_map([("ramp", ramp)]),
            FlowRate::Sine(sine) => serializer.collect_map([("sine", sine)]),
        }
    }
}

impl<'de> Deserialize<'de> for FlowRate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |rate: Rate| Ok(FlowRate::Fixed(rate)))
    }
}

impl<'de> Tagged<'de> for FlowRate {
    const KINDS: &'static [&'static str] = &["steps", "ramp", "sine"];
    const WHAT: &'static str = "a rate, or how it changes with time";
    const OTHERS: &'static [&'static str] = &["every"];
    type Beside = Option<Nanos>;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        match key {
            "steps" => {
                different::map(value).map(|rates| FlowRate::Steps(Steps { rates, every: None }))
            }
            "ramp" => Ramp::deserialize(value).map(FlowRate::Ramp),
            _ => Sine::deserialize(value).map(FlowRate::Sine),
        }
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        every: &mut Option<Nanos>,
    ) -> Result<bool, A::Error> {
        if key == "every" {
            *every = Some(map.next_value()?);
        }
        Ok(key == "every")
    }

    fn join(self, every: Option<Nanos>) -> Result<Self, String> {
        match (self, every) {
            (FlowRate::Steps(steps), every) => Ok(FlowRate::Steps(Steps { every, ..steps })),
            (other, None) => Ok(other),
            _ => Err("'every' goes with 'steps'; write that of a ramp within it".to_owned()),
        }
    }
}

impl JsonSchema for FlowRate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "flow-rate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rate = generator.subschema_for::<RateText>();
        let time = generator.subschema_for::<TimeText>();
        let ramp = generator.subschema_for::<Ramp>();
        let sine = generator.subschema_for::<Sine>();
        let steps = json_schema!({
            "description": "Rates by the time from which they hold, from the flow's start.",
            "type": "object", "additionalProperties": rate
        });
        json_schema!({
            "description": "How fast, or how that changes with time.",
            "anyOf": [
                rate,
                keyed("steps", &steps, &[("every", &time)]),
                keyed("ramp", &ramp, &[]),
                keyed("sine", &sine, &[])
            ]
        })
    }
}
