//! Programs that go round and round without a step that waits: such a session would take a core until its program gives it up.
//!
//! What a program does depends on nothing but its steps: no variable takes a value from the network. So an end is walked through before
//! the run, step by step, as the interpreter does it.

use std::collections::BTreeMap;

use super::steps::Step;
use crate::scenario::departures::Duration;
use crate::scenario::session::size::DataSize;
use crate::values::session::OPS_WITHOUT_WAIT;

/// The most steps that are walked through: a program that waits may go on for as long as the run.
const WALKED_MAX: u32 = 250_000;

/// How a walk goes on.
enum Walk {
    On,
    /// To the label of this name.
    To(usize),
    /// Too many steps in a row did not wait.
    Round,
    /// Far enough, or at the end of the session.
    Over,
}

struct Walker<'a> {
    walked: u32,
    /// Steps since the last one that waited.
    unwaited: u32,
    /// Whether the peer has closed: that is waited for once.
    closed: bool,
    variables: BTreeMap<&'a str, i32>,
    labels: BTreeMap<&'a str, usize>,
}

/// The step, from 0, that makes an end go round more than [`OPS_WITHOUT_WAIT`] steps without one that waits; `None` where none does.
pub fn goes_round(steps: &[Step]) -> Option<usize> {
    let labels = steps.iter().enumerate().filter_map(|(at, step)| match step {
        Step::Label(name) => Some((name.as_str(), at)),
        _ => None,
    });
    let mut walker = Walker {
        walked: 0,
        unwaited: 0,
        closed: false,
        variables: BTreeMap::new(),
        labels: labels.collect(),
    };
    let (mut at, mut turned) = (0, 0);
    while let Some(step) = steps.get(at) {
        if matches!(step, Step::Jump(_) | Step::Repeat(_)) {
            turned = at;
        }
        at = match walker.step(step) {
            Walk::On => at + 1,
            Walk::To(label) => label,
            Walk::Round => return Some(turned),
            Walk::Over => return None,
        };
    }
    None
}

impl<'a> Walker<'a> {
    fn step(&mut self, step: &'a Step) -> Walk {
        let mut waits = false;
        let mut ops = 1;
        let mut goes_on = Walk::On;
        match step {
            Step::Send(size) | Step::Receive(size) => {
                waits = !matches!(size, DataSize::Fixed(bytes) if bytes.get() == 0);
            }
            Step::Think(time) => {
                waits = !matches!(time, Duration::Fixed(time) if time.get() == 0);
            }
            // what sends waits for room before long
            Step::SendText(_)
            | Step::SendHex(_)
            | Step::SendFile(_)
            | Step::ReceiveUntil(_)
            | Step::ReceiveUntilHex(_)
            | Step::ReceiveHttp(_)
            | Step::Expect(_)
            | Step::ExpectHex(_) => waits = true,
            Step::WaitClose => waits = !std::mem::replace(&mut self.closed, true),
            Step::Set(numbers) | Step::Add(numbers) => {
                ops = numbers.0.len() as u32;
                for (name, value) in &numbers.0 {
                    let variable = self.variables.entry(name).or_default();
                    *variable = match step {
                        Step::Set(_) => *value,
                        _ => variable.wrapping_add(*value),
                    };
                }
            }
            // no step of its own for the interpreter; a round of labels alone has its jump
            Step::Label(_) => ops = 0,
            Step::Jump(jump) => {
                let holds = jump.condition.as_ref().is_none_or(|condition| {
                    let variable = self.variables.get(condition.variable.as_str());
                    let variable = variable.copied().unwrap_or(0);
                    condition.comparison.holds(variable, condition.value)
                });
                if let Some(&label) = self.labels.get(jump.to.as_str()).filter(|_| holds) {
                    goes_on = Walk::To(label);
                }
            }
            Step::Repeat(repeat) => {
                for _ in 0..repeat.times.get() {
                    for step in &repeat.steps {
                        match self.step(step) {
                            Walk::On | Walk::To(_) => {}
                            ends => return ends,
                        }
                    }
                    if let Some(ends) = self.count(1) {
                        return ends;
                    }
                }
                return Walk::On;
            }
            Step::Reset => return Walk::Over,
            Step::Request | Step::Response | Step::Start(_) | Step::Stop(_) | Step::Shutdown => {}
        }
        if waits {
            self.unwaited = 0;
        }
        self.count(ops).unwrap_or(goes_on)
    }

    /// Counts steps; says where the walk ends.
    fn count(&mut self, ops: u32) -> Option<Walk> {
        self.walked += ops.max(1);
        self.unwaited += ops;
        match () {
            _ if self.unwaited > OPS_WITHOUT_WAIT => Some(Walk::Round),
            _ if self.walked > WALKED_MAX => Some(Walk::Over),
            _ => None,
        }
    }
}
