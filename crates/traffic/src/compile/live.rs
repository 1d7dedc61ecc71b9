//! A compiled scenario whose flows change while they are sent.
//!
//! [`Live`] keeps what the scenario was compiled from, and what each flow sends from when on. A change from
//! outside is compiled by the same code as one that the scenario plans, and it overrides the plan: what was
//! planned for later is dropped. Making a [`Part`] and adding it are two steps, because between them the
//! caller has to win the transmit cores for it. This file does not know how that is done.

use std::sync::Arc;

use wirebeat_units::{Fault, Nanos, fault};

use super::{CompileError, Context, Files, Links, Maker, Memos, Within, departures, same_frames};
use crate::program::{Flow, Program, Stream};
use crate::scenario::change::{Change, Phase};
use crate::scenario::{FlowSpec, KeyPath, Scenario};

/// See the module.
#[derive(Clone, Debug)]
pub struct Live {
    scenario: Scenario,
    links: Links,
    files: Files,
    seed: u64,
    flows: Vec<Flow>,
    /// By flow: what it sends, in the order of time.
    parts: Vec<Vec<Part>>,
    /// By flow: when it was stopped from outside.
    stopped: Vec<Option<Nanos>>,
    /// By flow: from when on its plan no longer holds.
    overridden: Vec<Nanos>,
    /// The ports that were opened for fragments.
    cut: Vec<String>,
}

/// What a flow sends from one change to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What the scenario would say of it.
    pub phase: Phase,
    /// What it was compiled to.
    pub stream: Stream,
}

impl Live {
    /// Of a scenario, what it was compiled with, and the program that came of it.
    pub fn new(scenario: Scenario, links: Links, files: Files, program: &Program) -> Live {
        let parts = |(flow, spec): (u32, &FlowSpec)| {
            let streams = program.streams(flow).iter().cloned();
            let parts = spec.phases().into_iter().zip(streams);
            parts.map(|(phase, stream)| Part { phase, stream }).collect()
        };
        let parts: Vec<Vec<Part>> = (0..).zip(scenario.flows.values()).map(parts).collect();
        let stopped = vec![None; parts.len()];
        let overridden = vec![Nanos::MAX; parts.len()];
        let (seed, flows) = (program.seed, program.flows.clone());
        let is_cut = |flow: &&Flow| {
            program.streams(flow.id.into()).iter().any(|stream| stream.frames.is_cut())
        };
        let cut = flows.iter().filter(is_cut).map(|flow| flow.from.clone()).collect();
        Live { scenario, links, files, seed, flows, parts, stopped, overridden, cut }
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The number of the flow called `name`.
    pub fn find(&self, name: &str) -> Option<u32> {
        (0..).zip(&self.flows).find(|(_, flow)| flow.name == name).map(|(number, _)| number)
    }

    /// What a flow sends at a time; its first part before it starts. `None` for a flow that is over by then.
    pub fn part(&self, flow: u32, at: Nanos) -> Option<&Part> {
        let parts = self.parts.get(flow as usize)?;
        let stopped = self.stopped.get(flow as usize)?;
        if stopped.is_some_and(|stopped| at >= stopped) {
            return None;
        }
        let begun = parts.iter().take_while(|part| part.phase.from <= at).last();
        begun.or(parts.first()).filter(|_| at < self.end(flow))
    }

    /// When a flow ends by its time, as the scenario has it.
    fn end(&self, flow: u32) -> Nanos {
        let spec = self.scenario.flows.get_index(flow as usize);
        spec.map_or(Nanos::ZERO, |(_, spec)| departures::stop(&self.scenario.run, spec))
    }

    /// What a flow is to send from `at` on, or from its start where that is later, with a change from outside;
    /// or why it cannot be: what the scenario could not say either, and what more than its link carries.
    pub fn change(&self, flow: u32, at: Nanos, change: &Change) -> Result<Part, CompileError> {
        let Some((name, spec)) = self.scenario.flows.get_index(flow as usize) else {
            return Err(KeyPath::root("flows").invalid("there is no such flow").into());
        };
        let invalid = |why: Fault| -> CompileError { KeyPath::flow(name).invalid(why).into() };
        let at = at.max(spec.start);
        let part = self.part(flow, at).ok_or_else(|| invalid("it has ended".into()))?;
        if part.phase.flow.is_unlimited() {
            return Err(invalid(fault!(
                "a flow that is as fast as the engine can does not change";
                "it can be stopped"
            )));
        }
        let phase = part.phase.changed(name, at, change).map_err(invalid)?;
        let same = same_frames(&part.phase.flow, &phase.flow);
        if spec.bytes.is_some() && !same {
            return Err(invalid(
                fault!("a flow that ends by its bytes keeps its frames"; "change its rate"),
            ));
        }
        let memos = Memos::default();
        let context = Context {
            name,
            seed: self.seed,
            id: flow as u16,
            number: flow as u16,
            files: &self.files,
            memos: &memos,
        };
        let maker = Maker { scenario: &self.scenario, links: &self.links, context };
        let frames = match same {
            true => Arc::clone(&part.stream.frames),
            false => maker.frames(&phase.flow)?.0,
        };
        if frames.is_cut() && !self.cut.contains(&spec.from) {
            return Err(invalid(fault!(
                "its packets would be longer than the link carries, and the port was opened \
                 for none that leave as fragments";
                "make them shorter"
            )));
        }
        let within = Within { stop: self.end(flow), count: part.stream.departures.count };
        let stream = maker.stream(&phase, frames, within)?;
        self.check_load(flow, &stream)?;
        Ok(Part { phase, stream })
    }

    /// Whether the link carries all that is sent once `flow` sends `stream`.
    fn check_load(&self, flow: u32, stream: &Stream) -> Result<(), CompileError> {
        let at = stream.departures.start;
        let others = (0..).zip(&self.parts).filter(|(other, _)| *other != flow);
        let others = others.flat_map(|(_, parts)| parts).map(|part| &part.stream);
        // What is past was allowed.
        let before = |other: &&Stream| other.departures.stop > at;
        departures::check_load(
            &self.scenario,
            &self.links,
            &self.flows,
            &mut others.filter(before).chain([stream]),
        )?;
        Ok(())
    }

    /// From its beginning on a flow sends this part, and nothing that was to come.
    pub fn add(&mut self, part: Part) {
        let (flow, at) = (part.stream.flow, part.phase.from);
        self.override_plan(flow, at);
        if let Some(parts) = self.parts.get_mut(flow as usize) {
            parts.retain(|part| part.stream.departures.start < at);
            end_at(parts, at);
            parts.push(part);
        }
    }

    /// A flow ends at `at`.
    pub fn stop(&mut self, flow: u32, at: Nanos) {
        self.override_plan(flow, at);
        if let Some(parts) = self.parts.get_mut(flow as usize) {
            // One that never began still has a name and a kind of frames.
            match parts.iter().any(|part| part.stream.departures.start < at) {
                true => parts.retain(|part| part.stream.departures.start < at),
                false => parts.truncate(1),
            }
            end_at(parts, at);
        }
        if let Some(stopped) = self.stopped.get_mut(flow as usize) {
            *stopped = Some(stopped.map_or(at, |before| before.min(at)));
        }
    }

    /// What is planned for a flow from `at` on no longer holds.
    fn override_plan(&mut self, flow: u32, at: Nanos) {
        if let Some(overridden) = self.overridden.get_mut(flow as usize) {
            *overridden = at.min(*overridden);
        }
    }

    /// The changes that the scenario planned and that nothing from outside overrode, by flow and time.
    pub fn planned(&self) -> impl Iterator<Item = (u32, Nanos, &Change)> {
        let flows = self.scenario.flows.values().zip(&self.overridden);
        (0..).zip(flows).flat_map(|(flow, (spec, &overridden))| {
            let kept = spec.at.iter().take_while(move |(at, _)| **at < overridden);
            kept.map(move |(&at, change)| (flow, at, change))
        })
    }

    /// The program as it was in the end.
    pub fn program(&self) -> Program {
        let mut flows = self.flows.clone();
        let mut streams = Vec::new();
        for (flow, parts) in flows.iter_mut().zip(&self.parts) {
            let first = streams.len() as u32;
            streams.extend(parts.iter().map(|part| part.stream.clone()));
            flow.streams = first..streams.len() as u32;
        }
        Program { seed: self.seed, flows, streams }
    }
}

/// The last of them ends at `at`, or at once where it begins later.
fn end_at(parts: &mut [Part], at: Nanos) {
    if let Some(Part { stream: Stream { departures, .. }, .. }) = parts.last_mut() {
        departures.stop = departures.stop.min(at).max(departures.start);
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::compile::{Link, compile};

    fn scenario(at: &str) -> Scenario {
        let text = format!(
            "ports: {{ a: {{ speed: 100Mbps }} }}\nflows:\n  y: {{ from: a, to: a, rate: 10Mbps }}\n  x: {{ from: a, to: a, rate: \
             1kpps, size: {{ mix: {{ 64B: 1, 512B: 1 }} }}{at} }}\n  flood: {{ from: a, to: a, start: 8s, stop: 9s, rate: \
             10% }}\nrun: {{ time: 10s }}"
        );
        Scenario::from_yaml(&text, "").unwrap()
    }

    fn live(at: &str) -> Live {
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let scenario = scenario(at);
        let program = compile(&scenario, &links, &Files::default()).unwrap();
        Live::new(scenario, links, Files::default(), &program)
    }

    fn change(yaml: &str) -> Change {
        serde_json::from_str(yaml).unwrap()
    }

    #[test]
    fn changes_from_outside_come_to_the_program_that_a_scenario_with_them_has() {
        let mut changed = live("");
        let changes = [
            (2, r#"{ "rate": "3kpps", "departures": "exponential", "size": "100B" }"#),
            (3, r#""pause""#),
            (4, r#""resume""#),
            (5, r#"{ "size": { "mix": { "64B": 1, "512B": 1 } } }"#),
        ];
        for (second, to) in changes {
            let part = changed.change(1, Nanos::from_secs(second), &change(to)).unwrap();
            changed.add(part);
        }
        let planned = live(
            ", at: { 2s: { rate: 3kpps, departures: exponential, size: 100B }, 3s: pause, 4s: resume, \
             5s: { size: { mix: { 64B: 1, 512B: 1 } } } }",
        );
        assert_eq!(changed.program(), planned.program());
        assert_eq!(changed.planned().count(), 0);
        assert_eq!(planned.planned().count(), 4);
    }

    #[test]
    fn a_change_from_outside_overrides_the_plan() {
        let mut live = live(", at: { 2s: { rate: 3kpps }, 6s: { rate: 4kpps }, 7s: pause }");
        let part = live.change(1, Nanos::from_secs(4), &change(r#"{ "size": "100B" }"#)).unwrap();
        live.add(part);
        let at: Vec<_> = live.planned().map(|(_, at, _)| at).collect();
        assert_eq!(at, [Nanos::from_secs(2)]);
        let later = live.part(1, Nanos::from_secs(8)).unwrap();
        assert_eq!((later.phase.from, later.phase.paused), (Nanos::from_secs(4), false));
        assert_eq!(later.phase.flow.rate, wirebeat_units::Rate::from_str("3kpps").unwrap().into());
    }

    #[test]
    fn a_flow_that_is_over_or_was_stopped_does_not_change() {
        let mut live = live("");
        let pause = Change::Pause;
        assert!(live.change(1, Nanos::from_secs(10), &pause).is_err());
        assert!(live.change(7, Nanos::ZERO, &pause).is_err());
        live.stop(1, Nanos::from_secs(3));
        assert!(live.part(1, Nanos::from_millis(2999)).is_some());
        let why = live.change(1, Nanos::from_secs(3), &pause).unwrap_err().to_string();
        assert_eq!(why, "flows.x: it has ended");
        // one that has not begun keeps its name and its frames
        live.stop(2, Nanos::from_secs(3));
        let program = live.program();
        let [never] = program.streams(2) else { panic!("{:?}", program.streams(2)) };
        assert_eq!(never.departures.start, never.departures.stop);
    }

    #[test]
    fn the_link_carries_what_is_sent_after_a_change() {
        let mut live = live("");
        let too_much = change(r#"{ "rate": "85Mbps@line" }"#);
        let why = live.change(1, Nanos::from_secs(2), &too_much).unwrap_err().to_string();
        assert!(why.contains("and its link carries 100Mbps"), "{why}");
        // the flow that comes later is over by then, and the other is stopped
        live.stop(0, Nanos::from_secs(2));
        assert!(live.change(1, Nanos::from_secs(9), &too_much).is_ok());
    }
}
