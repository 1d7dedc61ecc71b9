//! When the frames of a flow leave: how the times between them vary.
//!
//! How fast they follow one another on average is the flow's rate, or a parameter here.

use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, Nanos, UnitError, fault, human};

use super::is_default;
use super::schema::TimeText;
use super::tagged::{self, Tagged, described, keyed, kinds};
use crate::distribution::exponential::Exponential;
use crate::distribution::{Bounded, Deviation, Distribution};
use crate::text::hint::nearest;
use crate::text::printable;

/// How deep bursts may be nested within bursts.
pub const MAX_NESTED: usize = 8;

/// How the times between departures vary.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Departures {
    /// They do not.
    #[default]
    Constant,
    /// Each frame leaves up to so much before or after its time in a constant schedule, every such time as
    /// likely as any other; what one frame is late, the next is not.
    Jitter(Deviation<Nanos>),
    /// On and off in turn.
    OnOff(Box<OnOff>),
    /// Times and sizes of a text file: in each line a size and the time until the next frame.
    Trace(String),
    /// Times and sizes of the frames of a capture.
    Capture(String),
    /// A Poisson process: exponential gaps, whose mean is given here or follows from the rate.
    Poisson(Exponential<Nanos>),
    /// Drawn from a distribution.
    Drawn(Bounded<Nanos>),
}

/// Bursts with pauses between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnOff {
    /// How long a burst lasts.
    pub on: Duration,
    /// How long the pause after it lasts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub off: Option<Duration>,
    /// Instead of `off`: how long it is from the beginning of a burst to that of the next, at least.
    #[serde(default, skip_serializing_if = "is_default")]
    pub every: Option<Duration>,
    /// How frames leave within a burst, at the flow's rate. Default: constant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub departures: Departures,
}

/// A time, or how it varies.
#[derive(Clone, Debug, PartialEq)]
pub enum Duration {
    /// Always the same.
    Fixed(Nanos),
    /// Drawn.
    Drawn(Distribution<Nanos>),
}

impl Departures {
    /// What is invalid, whatever the rate is.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_at(0)
    }

    fn check_at(&self, level: usize) -> Result<(), Fault> {
        match self {
            Departures::Constant => Ok(()),
            Departures::Jitter(jitter) => match jitter {
                Deviation::Percent(share) if !(0.0..=100.0).contains(share) => {
                    Err("a jitter is 0 to 100% of the time between frames".into())
                }
                _ => Ok(()),
            },
            Departures::OnOff(on_off) => {
                if level == MAX_NESTED {
                    return Err(fault!("bursts are nested at most {MAX_NESTED} deep"));
                }
                on_off.on.check()?;
                match (&on_off.off, &on_off.every) {
                    (Some(pause), None) | (None, Some(pause)) => pause.check()?,
                    (Some(_), Some(_)) => {
                        return Err(fault!(
                            "'off' and 'every' both say when the next burst begins";
                            "give one of them"
                        ));
                    }
                    (None, None) => {
                        return Err("bursts have a pause after them: give 'off', or 'every'".into());
                    }
                }
                if let Duration::Fixed(Nanos::ZERO) = on_off.on {
                    return Err(fault!("a burst of no time sends nothing"; "make 'on' longer"));
                }
                on_off.departures.check_at(level + 1)
            }
            Departures::Trace(name) | Departures::Capture(name) if name.is_empty() => {
                Err("the name of a file is not empty".into())
            }
            Departures::Trace(_) | Departures::Capture(_) if level > 0 => {
                Err("a file of times stands alone, not within bursts".into())
            }
            Departures::Trace(_) | Departures::Capture(_) => Ok(()),
            Departures::Poisson(gaps) => {
                Distribution::Exponential(gaps.clone()).check().map_err(|(key, why)| why.at(key))
            }
            Departures::Drawn(drawn) => drawn.check(),
        }
    }

    /// The file that says when frames leave and how long they are.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Departures::Trace(name) | Departures::Capture(name) => Some(name),
            _ => None,
        }
    }
}

impl Duration {
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self {
            Duration::Fixed(_) => Ok(()),
            Duration::Drawn(distribution) => distribution.check().map_err(|(key, why)| why.at(key)),
        }
    }
}

impl FromStr for Departures {
    type Err = Fault;

    /// The word for a kind that needs no parameters.
    fn from_str(word: &str) -> Result<Self, Fault> {
        match word {
            CONSTANT => Ok(Departures::Constant),
            POISSON => Ok(Departures::Poisson(Exponential { mean: None })),
            distribution if Distribution::<Nanos>::NAMES.contains(&distribution) => {
                Ok(Departures::Drawn(Distribution::from_bare_word(distribution)?.into()))
            }
            other => Err(unknown(other)),
        }
    }
}

/// That a word is none of departures: the nearest of those there are, and all.
fn unknown(word: &str) -> Fault {
    let example = match word {
        "jitter" => "{ jitter: 10% }",
        "on-off" => "{ on-off: { on: 10ms, off: 90ms } }",
        "trace" => "{ trace: times.txt }",
        "capture" => "{ capture: day.pcap }",
        _ => {
            let words = || {
                [CONSTANT, POISSON].into_iter().chain(Distribution::<Nanos>::NAMES.iter().copied())
            };
            let all: Vec<&str> = words().collect();
            let meant = match nearest(word, words()) {
                Some(nearest) => format!("did you mean '{nearest}'? "),
                None => String::new(),
            };
            let word = printable(word, 64);
            return fault!("unknown word '{word}'"; "{meant}{}", human::present(&all));
        }
    };
    fault!("'{word}' has a value"; "write for example '{example}'")
}

kinds! {
    Departures:
    "jitter" Jitter Deviation::deserialize, described::<Deviation<Nanos>>;
    "on-off" OnOff Box::deserialize, described::<OnOff>;
    "trace" Trace String::deserialize, described::<String>;
    "capture" Capture String::deserialize, described::<String>;
}

impl Serialize for Departures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Departures::Constant => serializer.serialize_str(CONSTANT),
            Departures::Poisson(Exponential { mean: None }) => serializer.serialize_str(POISSON),
            Departures::Poisson(gaps) => serializer.collect_map([(POISSON, gaps)]),
            Departures::Drawn(drawn) if drawn.min.is_none() && drawn.max.is_none() => {
                drawn.distribution.serialize(serializer)
            }
            Departures::Drawn(drawn) => {
                let mut map = serializer.serialize_map(None)?;
                drawn.write_entries(&mut map)?;
                map.end()
            }
            plain => plain.write_plain(serializer)?.or_else(S::serialize_none),
        }
    }
}

impl<'de> Deserialize<'de> for Departures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |word: String| word.parse())
    }
}

/// The word for times that do not vary.
const CONSTANT: &str = "constant";
/// The word for a Poisson process.
const POISSON: &str = "poisson";
const WITH_POISSON: [&str; Departures::PLAIN.len() + 1] =
    tagged::joined(&Departures::PLAIN, &[POISSON]);
const ALL_KINDS: [&str; WITH_POISSON.len() + Distribution::<Nanos>::NAMES.len()] =
    tagged::joined(&WITH_POISSON, Distribution::<Nanos>::NAMES);

impl<'de> Tagged<'de> for Departures {
    const KINDS: &'static [&'static str] = &ALL_KINDS;
    const WHAT: &'static str = "'constant', or how the times between frames vary";
    const OTHERS: &'static [&'static str] = &["min", "max"];
    type Beside = (Option<Nanos>, Option<Nanos>);

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        let value = match Departures::read_plain(key, value)? {
            Ok(departures) => return Ok(departures),
            Err(value) => value,
        };
        match key {
            POISSON => Exponential::deserialize(value).map(Departures::Poisson),
            distribution => {
                let drawn: Distribution<Nanos> = tagged::variant(distribution, value)?;
                Ok(Departures::Drawn(drawn.into()))
            }
        }
    }

    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Self::Beside,
    ) -> Result<bool, A::Error> {
        match key {
            "min" => beside.0 = Some(map.next_value()?),
            "max" => beside.1 = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn join(self, (min, max): Self::Beside) -> Result<Self, Fault> {
        match self {
            Departures::Drawn(drawn) => Ok(Departures::Drawn(Bounded { min, max, ..drawn })),
            other if min.is_none() && max.is_none() => Ok(other),
            Departures::Poisson(_) => Err(fault!(
                "with 'min' or 'max' it is not a Poisson process any more";
                "write 'exponential' for gaps with bounds"
            )),
            _ => Err("'min' and 'max' go with a distribution".into()),
        }
    }
}

impl JsonSchema for Departures {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "departures".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<TimeText>();
        let [jitter, on_off, trace, capture] = Departures::plain_schemas(generator);
        let distribution = generator.subschema_for::<Distribution<Nanos>>();
        let bounded = super::schema::bounded::<Nanos>(generator, &time, None);
        let poisson = generator.subschema_for::<Exponential<Nanos>>();
        json_schema!({
            "description": "How the times between frames vary.",
            "anyOf": [
                { "const": "constant" },
                jitter,
                on_off,
                trace,
                capture,
                { "const": POISSON, "description": "A Poisson process: exponential gaps." },
                keyed(POISSON, &poisson, &[]),
                distribution,
                bounded
            ]
        })
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Duration::Fixed(time) => time.serialize(serializer),
            Duration::Drawn(distribution) => distribution.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |word: String| {
            match Distribution::<Nanos>::NAMES.contains(&&*word) {
                true => Distribution::from_bare_word(&word).map(Duration::Drawn),
                false => {
                    word.parse().map(Duration::Fixed).map_err(|error: UnitError| error.fault())
                }
            }
        })
    }
}

impl<'de> Tagged<'de> for Duration {
    const KINDS: &'static [&'static str] = Distribution::<Nanos>::NAMES;
    const WHAT: &'static str = "a time such as 10ms, or a distribution";
    const OTHERS: &'static [&'static str] = &[];
    type Beside = ();

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        tagged::variant(key, value).map(Duration::Drawn)
    }
    fn beside<A: MapAccess<'de>>(_: &str, _: &mut A, (): &mut ()) -> Result<bool, A::Error> {
        Ok(false)
    }
    fn join(self, (): ()) -> Result<Self, Fault> {
        Ok(self)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "duration".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<TimeText>();
        let distribution = generator.subschema_for::<Distribution<Nanos>>();
        json_schema!({ "description": "A time, or how it varies.", "anyOf": [time, distribution] })
    }
}
