//! Programs that are written out step by step, for either end.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::session::size::DataSize;

/// The most steps of an end, those that are repeated counted once.
const STEPS_MAX: usize = 10_000;
/// How deep steps may be repeated within steps.
const DEPTH_MAX: usize = 4;
/// The longest text that is sent or waited for, in bytes.
const TEXT_MAX: usize = 65_536;

/// What each end does, step by step. The client begins when the connection is established, the server likewise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Steps {
    /// What the client does.
    #[serde(skip_serializing_if = "is_default")]
    pub client: Vec<Step>,
    /// What the server does.
    #[serde(skip_serializing_if = "is_default")]
    pub server: Vec<Step>,
}

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Step {
    /// Sends so many bytes of generated data.
    Send(DataSize),
    /// Sends this text.
    SendText(String),
    /// Waits for so many bytes.
    Receive(DataSize),
    /// Waits until this text has come.
    ReceiveUntil(String),
    /// Waits for so long.
    Think(Duration),
    /// Begins a request: what follows until `response` is measured as one.
    Request,
    /// The response that belongs to the last `request` is complete.
    Response,
    /// Starts the timer of this name.
    Start(String),
    /// Stops the timer of this name, and records how long it ran.
    Stop(String),
    /// Does steps several times.
    Repeat(Repeat),
    /// Sends nothing more (FIN), and goes on receiving.
    Shutdown,
    /// Waits until the peer has closed its side.
    WaitClose,
    /// Ends the session with RST.
    Reset,
}

/// Steps that are done several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repeat {
    /// How often.
    pub times: NonZeroU32,
    /// What.
    pub steps: Vec<Step>,
}

impl Steps {
    pub(super) fn check(&self) -> Result<(), (String, Fault)> {
        for (end, steps) in [("client", &self.client), ("server", &self.server)] {
            let mut seen = Seen::default();
            check(steps, 0, &mut seen).map_err(|why| (end.to_owned(), why))?;
        }
        if self.timers().len() > 64 {
            return Err(("client".to_owned(), fault!("a program has 64 timers at most")));
        }
        Ok(())
    }

    /// The timers that steps start, in the order of their first start.
    pub(super) fn timers(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect(&self.client, &mut names);
        collect(&self.server, &mut names);
        names
    }
}

fn collect(steps: &[Step], names: &mut Vec<String>) {
    for step in steps {
        match step {
            Step::Start(name) if !names.contains(name) => names.push(name.clone()),
            Step::Repeat(repeat) => collect(&repeat.steps, names),
            _ => {}
        }
    }
}

/// What came before in a program.
#[derive(Default)]
struct Seen {
    steps: usize,
    timers: Vec<String>,
    request: bool,
    ended: Option<&'static str>,
}

fn check(steps: &[Step], depth: usize, seen: &mut Seen) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        return Err(fault!("steps are repeated within steps {DEPTH_MAX} deep at most"));
    }
    for step in steps {
        seen.steps += 1;
        if seen.steps > STEPS_MAX {
            return Err(fault!("a program has {STEPS_MAX} steps at most"));
        }
        if seen.ended == Some("reset") {
            return Err(fault!("nothing follows 'reset'"; "leave the steps after it out"));
        }
        match step {
            Step::Send(_) | Step::SendText(_) if seen.ended.is_some() => {
                return Err(fault!("nothing is sent after 'shutdown'"));
            }
            Step::Send(size) | Step::Receive(size) => size.check()?,
            Step::SendText(text) | Step::ReceiveUntil(text)
                if text.is_empty() || text.len() > TEXT_MAX =>
            {
                return Err(fault!("a text has 1 to {TEXT_MAX} bytes"));
            }
            Step::SendText(_) | Step::ReceiveUntil(_) | Step::WaitClose => {}
            Step::Think(time) => time.check()?,
            Step::Request => seen.request = true,
            Step::Response if !seen.request => {
                return Err(fault!("there is no 'request' before this 'response'"));
            }
            Step::Response => {}
            Step::Start(name) => {
                let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
                if name.is_empty() || name.len() > 32 || !name.chars().all(known) {
                    let why = "the name of a timer has 1 to 32 letters, digits and -";
                    return Err(why.into());
                }
                seen.timers.push(name.clone());
            }
            Step::Stop(name) if !seen.timers.contains(name) => {
                let name = crate::text::printable(name, 64);
                return Err(fault!("the timer '{name}' is not started before"));
            }
            Step::Stop(_) => {}
            Step::Repeat(repeat) if repeat.steps.is_empty() => {
                return Err(fault!("there is nothing to repeat"));
            }
            Step::Repeat(repeat) => check(&repeat.steps, depth + 1, seen)?,
            Step::Shutdown if depth > 0 => return Err(fault!("'shutdown' is not repeated")),
            Step::Shutdown => seen.ended = Some("shutdown"),
            Step::Reset if depth > 0 => return Err(fault!("'reset' is not repeated")),
            Step::Reset => seen.ended = Some("reset"),
        }
    }
    Ok(())
}
