//! What changes in a flow at a time: `at: { 10s: { rate: 4Gbps }, 20s: pause, 25s: resume }`.

use std::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, Nanos, fault};

use super::departures::Departures;
use super::header::Header;
use super::is_default;
use super::rate::FlowRate;
use super::shared::Shared;
use super::size::Size;
use super::{FlowSpec, Invalid, KeyPath, Replay};

/// The most changes of a flow.
pub const MAX_CHANGES: usize = 10_000;

/// A change of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It sends nothing until it is resumed.
    Pause,
    /// It goes on as before the pause.
    Resume,
    /// From now on it has these settings; those that are left out stay as they are.
    To(Box<Settings>),
}

/// What can change while a flow sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// How fast.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: Option<FlowRate>,
    /// How the times between frames vary.
    #[serde(skip_serializing_if = "is_default")]
    pub departures: Option<Departures>,
    /// How long frames are.
    #[serde(skip_serializing_if = "is_default")]
    pub size: Option<Size>,
    /// The headers and the payload.
    #[serde(skip_serializing_if = "is_default")]
    pub packet: Option<Shared<Vec<Header>>>,
    /// Of what is replayed: records of the first so many sub-flows alone.
    #[serde(skip_serializing_if = "is_default")]
    pub sub_flows: Option<NonZeroU32>,
}

/// A flow from one change to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How many there were before.
    pub number: u32,
    /// From when on.
    pub from: Nanos,
    /// The flow as it is then.
    pub flow: FlowSpec,
    /// For how long its rate has been in force: a profile goes on when something else changes.
    pub rate_age: Nanos,
    /// Whether it pauses.
    pub paused: bool,
}

impl FlowSpec {
    /// The flow from its start to its first change, from there to the next, and so on.
    pub fn phases(&self) -> Vec<Phase> {
        let begin = FlowSpec { at: IndexMap::new(), ..self.clone() };
        let mut phases = vec![Phase::first(self.start, begin)];
        for (&from, change) in &self.at {
            let Some(last) = phases.last() else { break };
            let phase = last.after(from, change);
            phases.push(phase);
        }
        phases
    }

    /// What is invalid of the times of changes.
    pub(super) fn check_changes(&self, name: &str) -> Result<(), Invalid> {
        let at = || KeyPath::flow(name).key("at");
        if self.at.len() > MAX_CHANGES {
            let why = format!("there are {} changes, and {MAX_CHANGES} is the most", self.at.len());
            return Err(at().invalid(why));
        }
        if self.at.is_empty() {
            return Ok(());
        }
        if self.is_unlimited() {
            let why = match self.replay {
                None => {
                    fault!(
                        "a flow that is as fast as the engine can does not change";
                        "give it a 'rate'"
                    )
                }
                Some(_) => {
                    fault!(
                        "what is replayed as fast as the engine can does not change";
                        "give 'tight-loop' a time"
                    )
                }
            };
            return Err(at().invalid(why));
        }
        if self.bytes.is_some() {
            let why =
                fault!("what changes has no simple end by bytes"; "give it a 'count' or a 'stop'");
            return Err(KeyPath::flow(name).key("bytes").invalid(why));
        }
        let (mut before, mut what) = (self.start, "the flow starts");
        let begin = FlowSpec { at: IndexMap::new(), ..self.clone() };
        let mut phase = Phase::first(self.start, begin);
        for (&time, change) in &self.at {
            let here = || at().key(&time.to_string());
            if time <= before {
                return Err(here().invalid(fault!(
                    "it is not after {before}, when {what}";
                    "write changes in the order of time"
                )));
            }
            if self.stop.is_some_and(|stop| time >= stop) {
                return Err(
                    here().invalid(fault!("the flow has stopped by then"; "make 'stop' later"))
                );
            }
            phase = phase.changed(name, time, change).map_err(|why| here().invalid(why))?;
            (before, what) = (time, "it changed last");
        }
        Ok(())
    }
}

impl Phase {
    fn first(from: Nanos, flow: FlowSpec) -> Phase {
        Phase { number: 0, from, flow, rate_age: Nanos::ZERO, paused: false }
    }

    /// What a change at `from` makes of it; or why it is invalid.
    pub(crate) fn changed(&self, name: &str, from: Nanos, change: &Change) -> Result<Phase, Fault> {
        match change {
            Change::Pause if self.paused => return Err("it pauses already".into()),
            Change::Resume if !self.paused => return Err("it does not pause".into()),
            Change::To(settings) if **settings == Settings::default() => {
                return Err(fault!("nothing changes"; "write what does, or 'pause'"));
            }
            Change::To(settings) => {
                settings.check_kind(self.flow.replay.as_deref())?;
            }
            _ => {}
        }
        let phase = self.after(from, change);
        if let Change::To(settings) = change {
            phase
                .flow
                .check_settings(name, settings)
                .map_err(|problem| problem.why.at(problem.at))?;
            if phase.flow.is_unlimited() {
                return Err(fault!("a flow with a rate keeps one"; "give it a 'rate'"));
            }
        }
        Ok(phase)
    }

    /// The same, of a change that was checked.
    fn after(&self, from: Nanos, change: &Change) -> Phase {
        let mut phase = Phase { number: self.number.saturating_add(1), from, ..self.clone() };
        phase.rate_age = self.rate_age.saturating_add(from.saturating_sub(self.from));
        match change {
            Change::Pause => phase.paused = true,
            Change::Resume => phase.paused = false,
            Change::To(settings) => {
                settings.apply(&mut phase.flow);
                if settings.rate.is_some() {
                    phase.rate_age = Nanos::ZERO;
                }
            }
        }
        phase
    }
}

impl Settings {
    /// Whether what is replayed, or not, can have them; or why not.
    fn check_kind(&self, replay: Option<&Replay>) -> Result<(), Fault> {
        let Settings { rate, departures, size, packet, sub_flows } = self;
        let others = rate.is_some() || departures.is_some() || size.is_some() || packet.is_some();
        match replay {
            Some(_) if others => Err(fault!(
                "what is replayed has times, sizes and headers of its own";
                "what changes is 'sub-flows', or it pauses"
            )),
            Some(replay) if sub_flows.is_some() && replay.flow_of.is_none() => Err(
                fault!("there are no sub-flows without 'flow-of' in 'replay'"; "write that too"),
            ),
            None if sub_flows.is_some() => Err(
                fault!("only what is replayed changes the number of its sub-flows"; "leave it out"),
            ),
            _ => Ok(()),
        }
    }

    fn apply(&self, flow: &mut FlowSpec) {
        if let Some(rate) = &self.rate {
            flow.rate = rate.clone();
        }
        if let Some(departures) = &self.departures {
            flow.departures = departures.clone();
        }
        if let Some(size) = &self.size {
            flow.size = Some(size.clone());
        }
        if let Some(packet) = &self.packet {
            flow.packet = packet.clone();
        }
        if let (Some(_), Some(replay)) = (self.sub_flows, &flow.replay) {
            flow.replay =
                Some(Replay { sub_flows: self.sub_flows, ..Replay::clone(replay) }.into());
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Change::Pause => serializer.serialize_str("pause"),
            Change::Resume => serializer.serialize_str("resume"),
            Change::To(settings) => settings.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordOrSettings)
    }
}

struct WordOrSettings;

impl<'de> Visitor<'de> for WordOrSettings {
    type Value = Change;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("'pause', 'resume', or what changes")
    }
    fn visit_str<E: Error>(self, word: &str) -> Result<Change, E> {
        match word {
            "pause" => Ok(Change::Pause),
            "resume" => Ok(Change::Resume),
            other => Err(crate::text::custom(crate::text::hint::with_hint(
                "unknown change",
                other,
                ["pause", "resume"],
            ))),
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Change, A::Error> {
        let settings = Settings::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Change::To(Box::new(settings)))
    }
}

impl JsonSchema for Change {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "change".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let settings = generator.subschema_for::<Settings>();
        json_schema!({
            "description": "What changes: 'pause', 'resume', or new settings.",
            "anyOf": [{ "enum": ["pause", "resume"] }, settings]
        })
    }
}
