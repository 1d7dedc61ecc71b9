//! How fast a flow sends, and how that changes with time.

use std::str::FromStr;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, Nanos, Rate, fault};

use super::different;
use super::is_default;
use super::schema::{RateText, TimeText};
use super::shared::Shared;
use super::tagged::{self, Tagged, described, keyed, kinds};

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

    /// Looks at each rate that it has.
    pub(crate) fn each(&self, look: impl Fn(&Rate) -> Result<(), Fault>) -> Result<(), Fault> {
        match self {
            FlowRate::Fixed(rate) => look(rate),
            FlowRate::Steps(steps) => steps.rates.values().try_for_each(look),
            FlowRate::Ramp(ramp) => [&ramp.from, &ramp.to].into_iter().try_for_each(look),
            FlowRate::Sine(sine) => [&sine.mean, &sine.amplitude].into_iter().try_for_each(look),
        }
    }

    /// What is invalid, whatever the link is.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let limited = |rate: &Rate| match rate {
            Rate::Unlimited => Err(fault!("a rate that changes with time has a limit"; "write it")),
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
                        Err(fault!("a ramp takes some time"; "make 'over' longer"))
                    }
                    Some(every) if every < ramp.over => Err(fault!(
                        "the ramp takes {} and begins again after {every}", ramp.over;
                        "make 'every' at least as long"
                    )),
                    _ => Ok(()),
                }
            }
            FlowRate::Sine(sine) => {
                limited(&sine.mean)?;
                limited(&sine.amplitude)?;
                match sine.period {
                    Nanos::ZERO => Err(fault!("a period takes some time"; "make it longer")),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Steps {
    fn check(&self) -> Result<(), Fault> {
        let times: Vec<Nanos> = self.rates.keys().copied().collect();
        match times.first() {
            None => return Err("there is at least one step".into()),
            Some(&Nanos::ZERO) => {}
            Some(first) => {
                return Err(fault!("the first step is at {first}"; "say what holds from 0s on"));
            }
        }
        if times.len() > MAX_STEPS {
            return Err(fault!("there are {} steps, and {MAX_STEPS} is the most", times.len()));
        }
        if let Some([before, after]) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(fault!("{after} comes after {before}"; "write steps in the order of time"));
        }
        match (self.every, times.last()) {
            (Some(every), Some(last)) if every <= *last => Err(fault!(
                "the last step is at {last} and they begin again after {every}";
                "make 'every' longer"
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

kinds! {
    FlowRate:
    "ramp" Ramp Ramp::deserialize, described::<Ramp>;
    "sine" Sine Sine::deserialize, described::<Sine>;
}

/// The key of rates by time.
const STEPS: &str = "steps";
const ALL_KINDS: [&str; FlowRate::PLAIN.len() + 1] = tagged::joined(&[STEPS], &FlowRate::PLAIN);

impl Serialize for FlowRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match self {
            FlowRate::Fixed(rate) => rate.serialize(serializer),
            FlowRate::Steps(steps) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry(STEPS, &steps.rates)?;
                if let Some(every) = &steps.every {
                    map.serialize_entry("every", every)?;
                }
                map.end()
            }
            plain => plain.write_plain(serializer)?.or_else(S::serialize_none),
        }
    }
}

impl<'de> Deserialize<'de> for FlowRate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |rate: Rate| Ok(FlowRate::Fixed(rate)))
    }
}

impl<'de> Tagged<'de> for FlowRate {
    const KINDS: &'static [&'static str] = &ALL_KINDS;
    const WHAT: &'static str = "a rate, or how it changes with time";
    const OTHERS: &'static [&'static str] = &["every"];
    type Beside = Option<Nanos>;

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        match FlowRate::read_plain(key, value)? {
            Ok(rate) => Ok(rate),
            Err(value) => {
                different::map(value).map(|rates| FlowRate::Steps(Steps { rates, every: None }))
            }
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

    fn join(self, every: Option<Nanos>) -> Result<Self, Fault> {
        match (self, every) {
            (FlowRate::Steps(steps), every) => Ok(FlowRate::Steps(Steps { every, ..steps })),
            (other, None) => Ok(other),
            _ => Err(fault!("'every' goes with 'steps'"; "write that of a ramp within it")),
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
        let [ramp, sine] = FlowRate::plain_schemas(generator);
        let steps = json_schema!({
            "description": "Rates by the time from which they hold, from the flow's start.",
            "type": "object", "additionalProperties": rate
        });
        json_schema!({
            "description": "How fast, or how that changes with time.",
            "anyOf": [
                rate,
                keyed(STEPS, &steps, &[("every", &time)]),
                ramp,
                sine
            ]
        })
    }
}
