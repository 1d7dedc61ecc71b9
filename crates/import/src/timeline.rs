//! A flow that changes with time, from what is true at each time to the changes that a scenario writes.
//!
//! Scripts say anew what holds from a time on. A scenario says what a flow is and then what changes. Some
//! things cannot change within a flow there, such as going from a rate to a trace: such a flow is divided,
//! and its later parts bear the time in their names.

use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_traffic::scenario::change::{MAX_CHANGES, Settings};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_traffic::scenario::{Change, Departures, FlowRate, FlowSpec, Probe};
use wirebeat_units::{Nanos, fault};

use crate::draft::Draft;
use crate::{Line, ScriptError};

/// A flow, from its beginning to its end.
pub(crate) struct Timeline {
    pub name: String,
    pub line: Line,
    pub port: String,
    pub probe: Probe,
    /// In the order of time; the first is the beginning.
    pub phases: Vec<Phase>,
    pub stop: Option<Nanos>,
}

/// What is true from a time on.
#[derive(Clone)]
pub(crate) struct Phase {
    pub from: Nanos,
    /// `None`: it is silent.
    pub sends: Option<Sends>,
    /// Counting its packets begins anew: up to so many.
    pub count: Option<NonZeroU64>,
}

/// How it sends.
#[derive(Clone, PartialEq)]
pub(crate) struct Sends {
    pub packet: Vec<Header>,
    pub size: Option<Size>,
    pub rate: FlowRate,
    pub departures: Departures,
    pub burst: NonZeroU32,
}

/// What cannot change within a flow of a scenario.
#[derive(PartialEq)]
enum FlowIdentity {
    Paced(NonZeroU32),
    Unlimited(NonZeroU32),
    /// The file says how long frames are; such a flow has no size, and cannot get rid of one.
    Trace,
}

impl Sends {
    fn kind(&self) -> FlowIdentity {
        match &self.departures {
            Departures::Trace(_) | Departures::Capture(_) => FlowIdentity::Trace,
            Departures::Constant if self.rate.is_unlimited() => FlowIdentity::Unlimited(self.burst),
            _ => FlowIdentity::Paced(self.burst),
        }
    }
}

/// Phases that one flow of a scenario can hold.
struct PhaseGroup {
    /// Of all its phases that send.
    kind: FlowIdentity,
    phases: Vec<Phase>,
    stop: Option<Nanos>,
}

impl Timeline {
    /// Adds it to the scenario, as one flow or several.
    pub fn add(self, draft: &mut Draft<'_>) -> Result<(), ScriptError> {
        if self.phases.len() > MAX_CHANGES {
            let why = fault!(
                "there are more than {MAX_CHANGES} changes of this flow";
                "divide the script"
            );
            return Err(self.line.wrong(why));
        }
        draft.allow_changes(&self.line, self.phases.len())?;
        let parts = divide(&self.phases, self.stop);
        if parts.is_empty() {
            draft.leave_out(&self.line, &self.name, "it never sends anything");
        }
        for (number, part) in parts.iter().enumerate() {
            let Some(first) = part.phases.first() else { continue };
            let name = match number {
                0 => self.name.clone(),
                _ => format!("{}@{}", self.name, first.from),
            };
            if let Some(flow) = self.flow(part) {
                draft.flow(&self.line, name, flow)?;
            }
        }
        if parts.len() > 1 {
            let why = "what changes in it cannot change within a flow of a scenario, so that it is several \
                       flows; each numbers its packets from the beginning";
            draft.leave_out(&self.line, &self.name, why);
            let counted =
                |part: &PhaseGroup| part.phases.first().is_some_and(|phase| phase.count.is_some());
            if parts.iter().zip(parts.iter().skip(1)).any(|(a, b)| counted(a) && !counted(b)) {
                let why = "its count holds until the first such change, and not for what follows";
                draft.leave_out(&self.line, &self.name, why);
            }
        }
        Ok(())
    }

    fn flow(&self, part: &PhaseGroup) -> Option<FlowSpec> {
        let (first, rest) = part.phases.split_first()?;
        let mut current = first.sends.clone()?;
        let mut flow = FlowSpec {
            packet: current.packet.clone().into(),
            size: current.size.clone(),
            rate: current.rate.clone(),
            departures: current.departures.clone(),
            burst: current.burst,
            start: first.from,
            stop: part.stop,
            count: first.count,
            probe: self.probe,
            ..FlowSpec::from_port(self.port.clone())
        };
        let mut paused = None;
        for phase in rest {
            match (&phase.sends, paused) {
                (None, None) => {
                    paused = Some(phase.from);
                    flow.at.insert(phase.from, Change::Pause);
                }
                (None, Some(_)) => {}
                (Some(sends), mut since) => {
                    // A pause that leaves no time between its ends is none.
                    let short = |since: &Nanos| phase.from.saturating_sub(*since) < Nanos::new(2);
                    if let Some(none) = since.take_if(|since| short(since)) {
                        flow.at.shift_remove(&none);
                    }
                    let settings = difference(&current, sends);
                    let changes = settings != Settings::default();
                    // Two changes cannot stand at one time. Within the pause any time is as good.
                    let at = since.map_or(phase.from, |since| middle(since, phase.from));
                    if changes {
                        flow.at.insert(at, Change::To(Box::new(settings)));
                    }
                    if since.is_some() {
                        flow.at.insert(phase.from, Change::Resume);
                    }
                    (current, paused) = (sends.clone(), None);
                }
            }
        }
        Some(flow)
    }
}

/// The phases, as often as something begins that a flow cannot change to.
fn divide(phases: &[Phase], stop: Option<Nanos>) -> Vec<PhaseGroup> {
    let mut parts: Vec<PhaseGroup> = Vec::new();
    let mut pending = None;
    for mut phase in in_force(phases, stop) {
        // What is counted begins when it sends.
        pending = phase.count.take().or(pending);
        let Some(kind) = phase.sends.as_ref().map(Sends::kind) else {
            // silence before anything is no flow yet.
            parts.last_mut().into_iter().for_each(|part| part.phases.push(phase.clone()));
            continue;
        };
        phase.count = pending.take();
        match parts.last_mut() {
            Some(part) if phase.count.is_none() && kind == part.kind => part.phases.push(phase),
            last => {
                if let Some(part) = last {
                    part.stop = Some(phase.from);
                }
                parts.push(PhaseGroup { kind, phases: vec![phase], stop });
            }
        }
    }
    for part in &mut parts {
        // Silence to the end is the end.
        while part.phases.last().is_some_and(|phase| phase.sends.is_none()) {
            part.stop = part.phases.pop().map(|phase| phase.from);
        }
    }
    parts.retain(|part| {
        let first = part.phases.first().map(|phase| phase.from);
        first.is_some_and(|from| part.stop.is_none_or(|stop| from < stop))
    });
    parts
}

/// Those that hold for any time at all. Of several at one time the last is in force.
fn in_force(phases: &[Phase], stop: Option<Nanos>) -> Vec<Phase> {
    let mut held: Vec<Phase> = Vec::new();
    for phase in phases.iter().filter(|phase| stop.is_none_or(|stop| phase.from < stop)) {
        match held.last_mut() {
            Some(last) if last.from == phase.from => {
                *last = Phase { count: phase.count.or(last.count), ..phase.clone() };
            }
            _ => held.push(phase.clone()),
        }
    }
    held
}

fn difference(before: &Sends, after: &Sends) -> Settings {
    fn changed<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
        (before != after).then(|| after.clone())
    }
    Settings {
        rate: changed(&before.rate, &after.rate),
        departures: changed(&before.departures, &after.departures),
        size: changed(&before.size, &after.size).flatten(),
        packet: changed(&before.packet, &after.packet).map(Into::into),
        sub_flows: None,
    }
}

/// Halfway between two times.
fn middle(from: Nanos, to: Nanos) -> Nanos {
    from.saturating_add(Nanos::new(to.saturating_sub(from).get() / 2))
}

#[cfg(test)]
mod tests {
    use wirebeat_units::{FrameRate, Rate};

    use super::*;

    fn sends(frames: u64) -> Option<Sends> {
        let rate = match frames {
            0 => Rate::Unlimited,
            frames => Rate::Frames(FrameRate { frames, per: Nanos::from_secs(1) }),
        };
        Some(Sends {
            packet: Vec::new(),
            size: None,
            rate: FlowRate::Fixed(rate),
            departures: Departures::Constant,
            burst: NonZeroU32::MIN,
        })
    }

    fn phase(from: u64, sends: Option<Sends>, count: u64) -> Phase {
        Phase { from: Nanos::from_secs(from), sends, count: NonZeroU64::new(count) }
    }

    /// The parts: when each begins and stops, its phases, and its count.
    fn parts(phases: &[Phase], stop: u64) -> Vec<(u64, Option<u64>, usize, u64)> {
        let secs = |time: Nanos| time.get() / 1_000_000_000;
        let of = |part: &PhaseGroup| {
            let first = &part.phases[0];
            let count = first.count.map_or(0, NonZeroU64::get);
            (secs(first.from), part.stop.map(secs), part.phases.len(), count)
        };
        divide(phases, Some(Nanos::from_secs(stop))).iter().map(of).collect()
    }

    #[test]
    fn changes_of_rate_stay_in_one_flow() {
        let phases = [phase(1, sends(5), 0), phase(2, sends(6), 0), phase(3, sends(7), 0)];
        assert_eq!(parts(&phases, 9), [(1, Some(9), 3, 0)]);
        assert_eq!(parts(&phases, 3), [(1, Some(3), 2, 0)]);
        assert_eq!(parts(&phases, 1), []);
    }

    #[test]
    fn going_over_to_no_rate_is_another_flow() {
        let phases = [phase(1, sends(5), 0), phase(2, sends(0), 0), phase(3, sends(5), 0)];
        let expected = [(1, Some(2), 1, 0), (2, Some(3), 1, 0), (3, Some(9), 1, 0)];
        assert_eq!(parts(&phases, 9), expected);
    }

    #[test]
    fn silence_is_no_flow_and_does_not_count() {
        let phases =
            [phase(1, None, 8), phase(2, sends(5), 0), phase(3, None, 0), phase(4, None, 0)];
        assert_eq!(parts(&phases, 9), [(2, Some(3), 1, 8)]);
        assert_eq!(parts(&[phase(1, None, 0)], 9), []);
        let phases = [phase(1, sends(5), 0), phase(2, None, 7), phase(3, sends(5), 0)];
        assert_eq!(parts(&phases, 9), [(1, Some(2), 1, 0), (3, Some(9), 1, 7)]);
    }

    #[test]
    fn of_what_is_said_at_one_time_the_last_holds() {
        let phases = [
            phase(1, sends(5), 4),
            phase(1, sends(6), 0),
            phase(1, None, 0),
            phase(1, sends(7), 0),
        ];
        assert_eq!(parts(&phases, 9), [(1, Some(9), 1, 4)]);
        assert_eq!(
            in_force(&phases, None)[0].sends.as_ref().map(|sends| sends.rate.clone()),
            sends(7).map(|sends| sends.rate)
        );
    }

    #[test]
    fn a_change_within_a_pause_lies_within_it() {
        let at = |from: u64, to: u64| middle(Nanos::new(from), Nanos::new(to)).get();
        assert_eq!(at(10, 20), 15);
        assert_eq!(at(10, 12), 11);
    }
}
