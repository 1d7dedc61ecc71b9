//! Programs that are written out step by step, for either end.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};

use super::endless::goes_round;
use super::http_message::ReceiveHttp;
use super::variables::{Jump, Numbers, check_name};
use crate::scenario::departures::Duration;
use crate::scenario::header::hex::Hex;
use crate::scenario::schema::HexText;
use crate::scenario::session::size::DataSize;
use crate::scenario::{KeyPath, is_default};
use crate::text::hint::with_hint;
use crate::values::session::{OPS_WITHOUT_WAIT, VARIABLES};

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
    /// Sends these bytes, which need not be text.
    SendHex(#[schemars(with = "HexText")] Hex),
    /// Sends the content of this file.
    SendFile(String),
    /// Waits for so many bytes.
    Receive(DataSize),
    /// Waits until this text has come.
    ReceiveUntil(String),
    /// Waits until these bytes have come.
    ReceiveUntilHex(#[schemars(with = "HexText")] Hex),
    /// Waits for a message of HTTP/1.1, whole.
    ReceiveHttp(ReceiveHttp),
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
    /// Waits for as many bytes as this text has. If they are others, they are counted as unexpected, and the session goes on.
    Expect(String),
    /// The same with bytes that need not be text.
    ExpectHex(#[schemars(with = "HexText")] Hex),
    /// Gives variables these values. Each is 0 before.
    Set(Numbers),
    /// Adds these numbers to variables.
    Add(Numbers),
    /// A place to jump to, by this name.
    Label(String),
    /// Goes on at a label, always or while a condition holds.
    Jump(Jump),
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
    pub(super) fn check(&self) -> Result<(), (KeyPath, Fault)> {
        for (end, steps) in [("client", &self.client), ("server", &self.server)] {
            let mut seen = Seen { of_server: end == "server", ..Seen::default() };
            let end = KeyPath::root(end);
            for (at, step) in steps.iter().enumerate() {
                let checked = check(std::slice::from_ref(step), 0, &mut seen);
                checked.map_err(|why| (end.clone().index(at), why))?;
            }
            seen.check_jumps(steps).map_err(|(at, why)| (end.clone().index(at), why))?;
            if let Some(at) = goes_round(steps) {
                let why = fault!(
                    "from here on more than {OPS_WITHOUT_WAIT} steps follow each other without one that waits";
                    "put one between that does: think, receive, expect or send"
                );
                return Err((end.index(at), why));
            }
        }
        if self.timers().len() > 64 {
            let why = fault!("a program has 64 timers at most"; "use one for several steps");
            return Err((KeyPath::root("client"), why));
        }
        Ok(())
    }

    /// The files that steps send.
    pub(super) fn files(&self) -> Vec<&str> {
        fn collect<'a>(steps: &'a [Step], names: &mut Vec<&'a str>) {
            for step in steps {
                match step {
                    Step::SendFile(name) => names.push(name),
                    Step::Repeat(repeat) => collect(&repeat.steps, names),
                    _ => {}
                }
            }
        }
        let mut names = Vec::new();
        collect(&self.client, &mut names);
        collect(&self.server, &mut names);
        names
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
    of_server: bool,
    steps: usize,
    timers: Vec<String>,
    request: bool,
    ended: Option<&'static str>,
    variables: Vec<String>,
    labels: Vec<String>,
}

impl Seen {
    /// Notes a variable.
    fn variable(&mut self, name: &str) -> Result<(), Fault> {
        check_name(name)?;
        if !self.variables.iter().any(|known| known == name) {
            if self.variables.len() == VARIABLES {
                return Err(fault!("an end of a session has {VARIABLES} variables at most"));
            }
            self.variables.push(name.to_owned());
        }
        Ok(())
    }

    /// That all labels are there that are jumped to.
    fn check_jumps(&self, steps: &[Step]) -> Result<(), (usize, Fault)> {
        for (at, step) in steps.iter().enumerate() {
            if let Step::Jump(Jump { to, .. }) = step
                && !self.labels.contains(to)
            {
                let labels = self.labels.iter().map(String::as_str);
                return Err((at, with_hint("there is no label", to, labels)));
            }
        }
        Ok(())
    }
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
            Step::Label(_) | Step::Jump(_) if depth > 0 => {
                return Err(fault!(
                    "labels and jumps do not stand within 'repeat'"; "write them among the steps of the end itself"
                ));
            }
            Step::Jump(_) | Step::Label(_) if seen.ended.is_some() => {
                return Err(fault!("nothing is repeated after 'shutdown'"; "jump before it"));
            }
            Step::Label(name) => {
                check_name(name)?;
                if seen.labels.contains(name) {
                    return Err(fault!("the label '{name}' is there twice"; "call one otherwise"));
                }
                seen.labels.push(name.clone());
            }
            Step::Jump(jump) => {
                check_name(&jump.to)?;
                if let Some(condition) = &jump.condition {
                    seen.variable(&condition.variable)?;
                }
            }
            Step::Set(numbers) | Step::Add(numbers) => {
                if numbers.0.is_empty() {
                    return Err(fault!("no variable is named"; "write for example {{ n: 1 }}"));
                }
                numbers.0.keys().try_for_each(|name| seen.variable(name))?;
            }
            Step::SendFile(name) if name.is_empty() || name.len() > 4096 => {
                return Err(fault!("the name of a file has 1 to 4096 bytes"));
            }
            Step::Send(_) | Step::SendText(_) | Step::SendHex(_) | Step::SendFile(_)
                if seen.ended.is_some() =>
            {
                return Err(fault!("nothing is sent after 'shutdown'"));
            }
            Step::Send(size) | Step::Receive(size) => size.check()?,
            Step::SendText(text) | Step::ReceiveUntil(text) | Step::Expect(text)
                if text.is_empty() || text.len() > TEXT_MAX =>
            {
                return Err(fault!("a text has 1 to {TEXT_MAX} bytes"));
            }
            Step::SendHex(hex) | Step::ReceiveUntilHex(hex) | Step::ExpectHex(hex)
                if hex.bytes().len() > TEXT_MAX =>
            {
                return Err(
                    fault!("these are more than {TEXT_MAX} bytes"; "use send-file for them"),
                );
            }
            Step::SendText(_)
            | Step::SendFile(_)
            | Step::SendHex(_)
            | Step::ReceiveUntil(_)
            | Step::ReceiveUntilHex(_)
            | Step::Expect(_)
            | Step::ExpectHex(_)
            | Step::WaitClose => {}
            Step::ReceiveHttp(message) => message.check(seen.of_server)?,
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
