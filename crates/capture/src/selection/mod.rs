//! Which frames are meant, by what a measurement found of them: `flow == voip and delay > 1ms`.
//!
//! `parse` reads the text; here is what it means, and each word stands in one table. `and` binds more closely than `or`. A
//! condition on something that a frame does not have (the delay of a frame without a probe) does not hold, and so its `not`
//! does.

mod parse;

use std::fmt;

use wirebeat_meter::observation::Standing;
use wirebeat_units::{Comparison, Fault, fault, into_fault};

use crate::history::Before;
use crate::seen::{Opening, Outcome, Seen};

/// The longest text, in bytes.
const TEXT_MAX: usize = 4096;
/// How deep parentheses are. Each level may hold back two truths (`a or b and (`), and 128 find room in a word.
const DEPTH_MAX: usize = 60;

/// Which frames are meant; flows and ports by the names in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<Node<Named>>);

/// The same for a run, with the numbers of its flows and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSelection(Vec<Node<Bound>>);

/// An expression in the order in which it is worked out: what a node joins stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node<P> {
    Is(Flag),
    Compare(Quantity, Comparison, i64),
    Place(P),
    Not,
    And,
    Or,
}

/// A flow or a port, by name and where that stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    what: What,
    equal: bool,
    name: String,
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Flow,
    Port,
}

/// The same by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    what: What,
    equal: bool,
    number: u16,
}

/// Something that a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Standing(Standing),
    Received,
    Sent,
    Failed,
    Expired,
    Odd,
    LostBefore,
}

/// The words for what a frame is.
const FLAGS: [(&str, Flag); 17] = [
    ("in-order", Flag::Standing(Standing::New)),
    ("reordered", Flag::Standing(Standing::Reordered)),
    ("beyond-window", Flag::Standing(Standing::BeyondWindow)),
    ("duplicate", Flag::Standing(Standing::Duplicate)),
    ("doubtful", Flag::Standing(Standing::Doubtful)),
    ("without-probe", Flag::Standing(Standing::WithoutProbe)),
    ("unknown-flow", Flag::Standing(Standing::UnknownFlow)),
    ("stale", Flag::Standing(Standing::Stale)),
    ("fragment", Flag::Standing(Standing::Fragment)),
    ("malformed", Flag::Standing(Standing::Malformed)),
    ("foreign", Flag::Standing(Standing::Foreign)),
    ("received", Flag::Received),
    ("sent", Flag::Sent),
    ("failed", Flag::Failed),
    ("expired", Flag::Expired),
    ("odd", Flag::Odd),
    ("lost-before", Flag::LostBefore),
];

/// Something of a frame that has a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Delay,
    Gap,
    SendLateness,
    LostBefore,
    Length,
    Sequence,
    Queue,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Time,
    Bytes,
    Number,
}

/// The words for what has a size.
const QUANTITIES: [(&str, Quantity, ValueKind); 7] = [
    ("delay", Quantity::Delay, ValueKind::Time),
    ("gap", Quantity::Gap, ValueKind::Time),
    ("send-lateness", Quantity::SendLateness, ValueKind::Time),
    ("lost-before", Quantity::LostBefore, ValueKind::Number),
    ("length", Quantity::Length, ValueKind::Bytes),
    ("sequence", Quantity::Sequence, ValueKind::Number),
    ("queue", Quantity::Queue, ValueKind::Number),
];

/// A text that is not a selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct SelectionError {
    /// Where, in characters from 1.
    pub at: usize,
    /// Why, and what could stand there.
    pub why: Fault,
}

impl SelectionError {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        self.why.clone().at(format!("at character {}", self.at))
    }
}

into_fault!(SelectionError);

impl Selection {
    /// Reads a selection.
    ///
    /// # Errors
    /// Where it is not understood, with the place and what could stand there.
    pub fn new(text: &str) -> Result<Selection, SelectionError> {
        if text.len() > TEXT_MAX {
            let why = fault!("a selection has {TEXT_MAX} bytes at most");
            return Err(SelectionError { at: TEXT_MAX, why });
        }
        parse::selection(text).map(Selection)
    }

    /// Whether it asks for frames that did not leave.
    pub fn names_unsent(&self) -> bool {
        self.0.iter().any(|node| matches!(node, Node::Is(Flag::Failed | Flag::Expired)))
    }

    /// Whether it asks for one-way delays.
    pub fn names_delay(&self) -> bool {
        self.0.iter().any(|node| matches!(node, Node::Compare(Quantity::Delay, ..)))
    }

    /// Finds the flows and ports that it names.
    ///
    /// # Errors
    /// A flow or a port that is not there.
    pub fn bind(&self, opening: &Opening) -> Result<BoundSelection, SelectionError> {
        let bound = self.0.iter().map(|node| {
            Ok(match node {
                Node::Is(flag) => Node::Is(*flag),
                Node::Compare(quantity, comparison, value) => {
                    Node::Compare(*quantity, *comparison, *value)
                }
                Node::Place(named) => Node::Place(named.bind(opening)?),
                Node::Not => Node::Not,
                Node::And => Node::And,
                Node::Or => Node::Or,
            })
        });
        bound.collect::<Result<_, _>>().map(BoundSelection)
    }
}

impl Named {
    fn bind(&self, opening: &Opening) -> Result<Bound, SelectionError> {
        let Named { what, equal, name, at } = self;
        let known: Vec<(u16, &str)> = match what {
            What::Flow => {
                opening.flows.iter().map(|(number, name)| (*number, name.as_str())).collect()
            }
            What::Port => {
                let ports = (0_u16..).zip(&opening.interfaces);
                let named = ports.flat_map(|(number, interface)| {
                    let names = [&interface.port, &interface.name];
                    names.into_iter().flatten().map(move |name| (number, name.as_str()))
                });
                named.collect()
            }
        };
        let named = known.iter().find(|(_, known)| known == name).map(|(number, _)| *number);
        // a flow that only the sender has a name for
        let numbered = || name.parse().ok().filter(|_| *what == What::Flow);
        let number = named.or_else(numbered).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(_, name)| *name).take(20).collect();
            let why = fault!("there is no {what} '{name}'");
            let why = match names.as_slice() {
                [] if *what == What::Flow => {
                    why.or_hint("no flow has a name here; write its number")
                }
                [] => why,
                names => why.or_hint(format!("write one of {}", names.join(", "))),
            };
            SelectionError { at: *at, why }
        })?;
        Ok(Bound { what: *what, equal: *equal, number })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Flow => "flow",
            What::Port => "port",
        })
    }
}

impl BoundSelection {
    /// Whether a frame is meant, before which this came.
    #[inline]
    pub fn means(&self, seen: &Seen<'_>, before: Before) -> bool {
        // a stack of truths, the latest in the lowest bit: no deeper than an expression (`parse` sees to it)
        let mut stack = 0_u128;
        for node in &self.0 {
            let holds = match node {
                Node::Is(flag) => flag.holds(seen, before),
                Node::Compare(quantity, comparison, value) => {
                    quantity.of(seen, before).is_some_and(|found| comparison.holds(found, *value))
                }
                Node::Place(bound) => bound.holds(seen),
                Node::Not => {
                    stack ^= 1;
                    continue;
                }
                Node::And => {
                    stack = stack >> 1 & (stack | !1);
                    continue;
                }
                Node::Or => {
                    stack = stack >> 1 | stack & 1;
                    continue;
                }
            };
            stack = stack << 1 | u128::from(holds);
        }
        stack & 1 == 1
    }
}

impl Flag {
    #[inline]
    fn holds(self, seen: &Seen<'_>, before: Before) -> bool {
        match self {
            Flag::Standing(standing) => seen.outcome == Outcome::Received(standing),
            Flag::Received => seen.outcome.is_received(),
            Flag::Sent => seen.outcome == Outcome::Sent,
            Flag::Failed => seen.outcome == Outcome::Failed,
            Flag::Expired => seen.outcome == Outcome::Expired,
            Flag::Odd => before.missing > 0 || seen.outcome.is_odd(),
            Flag::LostBefore => before.missing > 0,
        }
    }
}

impl Quantity {
    #[inline]
    fn of(self, seen: &Seen<'_>, before: Before) -> Option<i64> {
        match self {
            Quantity::Delay => seen.delay_ns(),
            Quantity::Gap => before.gap.map(|gap| gap.get().cast_signed()),
            Quantity::SendLateness => {
                let due = seen.due.filter(|_| !seen.outcome.is_received())?;
                Some(seen.at.signed_sub(due))
            }
            Quantity::LostBefore => Some(before.missing.into()),
            Quantity::Length => Some(seen.frame_len.into()),
            Quantity::Sequence => seen.sequence.map(i64::from),
            Quantity::Queue => Some(seen.queue.into()),
        }
    }
}

impl Bound {
    #[inline]
    fn holds(self, seen: &Seen<'_>) -> bool {
        let found = match self.what {
            What::Flow => seen.flow,
            What::Port => Some(seen.interface),
        };
        // of a frame of no flow neither holds
        found.is_some_and(|found| (found == self.number) == self.equal)
    }
}

#[cfg(test)]
mod tests;
