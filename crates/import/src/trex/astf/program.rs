//! Programs of T-Rex as steps. A program of T-Rex waits for a total of bytes; ours wait for as many as are missing.
//!
//! What a program does in between, and how its control goes, is kept or it is said plainly: a program whose way cannot be kept (a number
//! that our variables do not have, a jump to before its beginning) is not made into another one, and its templates are left out.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use wirebeat_traffic::scenario::KeyPath;
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::hex::Hex;
use wirebeat_traffic::scenario::session::program::endless::goes_round;
use wirebeat_traffic::scenario::session::program::{Condition, Jump, Numbers, Repeat, Step};
use wirebeat_traffic::scenario::session::{DataSize, Transport};
use wirebeat_traffic::scenario::yaml;
use wirebeat_traffic::values::session::OPS_WITHOUT_WAIT;
use wirebeat_units::{Bytes, Comparison, Fault, Nanos, fault};

use super::Reader;
use crate::ScriptError;
use crate::text::printable;
use crate::trex::nanos;

/// The most bytes of a buffer with what it is filled up with.
const BUFFER_MAX: usize = 64 << 20;
/// The most bytes that stand in a step as hex digits.
const SHORT: usize = 64;
/// The most characters of text that stand in a step.
const TEXT_MAX: usize = 1024;
/// The most commands of a program, as our programs have that many steps.
const COMMANDS_MAX: usize = 10_000;
/// The most variables of an end.
const VARIABLES: usize = wirebeat_traffic::values::session::VARIABLES;
/// So many datagrams are waited for one by one; more are repeated.
const WRITTEN_OUT: u64 = 3;

/// What a program is made of it.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) transport: Transport,
    /// How long it waits for its peer, where it says so.
    pub(super) patience: Option<Nanos>,
    /// The longest that it keeps its peer waiting at a time.
    pub(super) delay: Nanos,
    /// About how many bytes it has in memory.
    pub(super) weight: usize,
}

/// Commands, the keys that each knows beside its name, and what is not done of it; empty where it is.
const COMMANDS: &[(&str, &[&str], &str)] = &[
    // ours begins when it is connected
    ("connect", &[], ""),
    ("accept", &[], ""),
    ("tx", &["buf_index"], ""),
    ("tx_msg", &["buf_index"], ""),
    ("rx", &["min_bytes", "clear"], ""),
    ("rx_msg", &["min_pkts", "clear"], ""),
    ("delay", &["usec"], ""),
    ("delay_rnd", &["min_usec", "max_usec"], ""),
    ("reset", &[], ""),
    ("nc", &[], ""),
    ("close_msg", &[], ""),
    ("keepalive", &["msec", "rx_mode"], ""),
    ("set_var", &["id", "val"], ""),
    ("add_var", &["id", "val"], ""),
    ("jmp_nz", &["id", "offset"], ""),
    ("jmp_cmp", &["id", "offset", "cmp_op", "cmp_val"], ""),
    // how it is told depends on where it goes
    ("jmp_dp", &["id", "offset", "duration"], ""),
    (
        "tx_mode",
        &["flags"],
        "a step that sends is done when its data is queued, as with 1; with 0 T-Rex waits until it is acknowledged",
    ),
    (
        "set_tick_var",
        &["id"],
        "programs have no clock: what jmp_dp and add_tick_stats measure from here is left out with them",
    ),
    (
        "add_tick_var",
        &["id", "duration"],
        "programs have no clock: what jmp_dp and add_tick_stats measure from here is left out with them",
    ),
    (
        "add_stats",
        &["stats_id", "val"],
        "programs count nothing of their own; what is sent and received is the same without it",
    ),
    (
        "add_tick_stats",
        &["stats_id", "var_id"],
        "programs count nothing of their own; 'start' and 'stop' of steps are timers of the report",
    ),
    (
        "set_template",
        &["tg_id"],
        "a session opens no session of another template: see 'exec_template'",
    ),
    (
        "exec_template",
        &[],
        "a session opens no session of another template: that one does not come, and this program goes on without waiting for it",
    ),
];

/// A command, and where it stands.
struct Command<'a> {
    keys: &'a Map<String, Value>,
    path: KeyPath,
    at: usize,
}

/// Why a program is not kept, and which key says so.
struct Unkept(KeyPath, Fault);

/// What stops the reading of a command.
enum Stop {
    Wrong(ScriptError),
    Unkept(Unkept),
}

impl From<ScriptError> for Stop {
    fn from(error: ScriptError) -> Stop {
        Stop::Wrong(error)
    }
}

impl From<Unkept> for Stop {
    fn from(unkept: Unkept) -> Stop {
        Stop::Unkept(unkept)
    }
}

impl Command<'_> {
    fn name(&self) -> &str {
        self.keys.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn key(&self, key: &str) -> KeyPath {
        self.path.clone().key(key)
    }

    /// A whole number; 0 where it is not written, as in T-Rex.
    fn count(&self, reader: &Reader<'_, '_, '_>, key: &str) -> Result<u64, ScriptError> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(0),
            // Python writes 1e5 as 100000.0, and T-Rex takes the whole part
            Some(value) => value
                .as_u64()
                .or_else(|| {
                    let whole = value.as_f64().filter(|number| (0.0..1e15).contains(number))?;
                    Some(whole as u64)
                })
                .ok_or_else(|| {
                    reader.wrong(&self.key(key), fault!("'{key}' is a whole number from 0"))
                }),
        }
    }

    /// A number of a variable.
    fn value(&self, key: &str) -> Result<i32, Unkept> {
        let value = match self.keys.get(key) {
            None | Some(Value::Null) => Some(0),
            Some(value) => value.as_i64().and_then(|value| i32::try_from(value).ok()),
        };
        value.ok_or_else(|| {
            Unkept(self.key(key), fault!("variables of programs are whole numbers of 32 bits here"))
        })
    }

    /// The name of its variable.
    fn variable(&self) -> Result<String, Unkept> {
        let known = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            !name.is_empty() && name.len() <= 32 && name.chars().all(plain)
        };
        let name = match self.keys.get("id") {
            None | Some(Value::Null) => Some("n0".to_owned()),
            Some(Value::String(name)) if known(name) => Some(name.clone()),
            Some(id) => id.as_u64().map(|id| format!("n{id}")),
        };
        name.ok_or_else(|| {
            let why = "the name of a variable has 1 to 32 letters, digits and - here";
            Unkept(self.key("id"), why.into())
        })
    }

    /// Where it jumps to in a program of so many commands: to its end if that is further.
    fn target(&self, commands: usize) -> Result<usize, Unkept> {
        let target = self.keys.get("offset").and_then(Value::as_i64).and_then(|offset| {
            let at = i64::try_from(self.at).ok()?.saturating_add(offset);
            usize::try_from(at).ok()
        });
        let target = target.ok_or_else(|| {
            Unkept(self.key("offset"), fault!("it leads to no command of the program"))
        })?;
        Ok(target.min(commands))
    }

    fn jumps(&self) -> bool {
        matches!(self.name(), "jmp_nz" | "jmp_cmp")
    }
}

/// A program that is being made.
struct Making {
    made: Program,
    /// What was waited for so far, in bytes and in datagrams.
    had: [u64; 2],
    commands: usize,
    variables: BTreeSet<String>,
    /// Variables that become smaller, and those whose order with a number decides.
    falling: BTreeSet<String>,
    ordered: BTreeSet<String>,
    /// The command that each step is of.
    origins: Vec<usize>,
}

impl Making {
    fn push(&mut self, step: Step) {
        self.made.weight += 64 + weight(&step);
        self.made.steps.push(step);
    }

    /// Adds a pause of so many µs at most.
    fn pause(&mut self, most: u64, step: Step) {
        self.made.delay = self.made.delay.max(Nanos::new(most.saturating_mul(1000)));
        self.push(step);
    }

    /// How much is missing up to a total.
    fn missing(&mut self, command: &Command<'_>, which: usize, total: u64) -> u64 {
        let Some(had) = self.had.get_mut(which) else { return total };
        let missing = total.saturating_sub(*had);
        let clears = command.keys.get("clear").and_then(Value::as_bool).unwrap_or(false);
        *had = if clears { 0 } else { total.max(*had) };
        missing
    }

    /// The name of a variable, which is one of so many.
    fn variable(&mut self, command: &Command<'_>) -> Result<String, Unkept> {
        let name = command.variable()?;
        self.variables.insert(name.clone());
        match self.variables.len() > VARIABLES {
            true => {
                let why = fault!("an end of a session has {VARIABLES} variables at most");
                Err(Unkept(command.key("id"), why))
            }
            false => Ok(name),
        }
    }

    fn jump(&mut self, to: usize, condition: Option<Condition>) {
        self.push(Step::Jump(Jump { to: label(to), condition }));
    }
}

impl Reader<'_, '_, '_> {
    /// Program number `index`; `None` where it cannot be kept, which is told.
    pub(super) fn program(&mut self, index: usize) -> Result<Option<Program>, ScriptError> {
        if let Some(known) = self.programs.get(&index) {
            return Ok(known.clone());
        }
        let path = KeyPath::root("program_list").index(index);
        let Some(program) = self.list("program_list").get(index) else {
            let why = fault!("there is no program {index}"; "count from 0");
            return Err(self.wrong(&KeyPath::root("program_list"), why));
        };
        let commands = program.get("commands").and_then(Value::as_array);
        let commands =
            commands.ok_or_else(|| self.wrong(&path, fault!("it has no list 'commands'")))?;
        let is_stream = program.get("stream").and_then(Value::as_bool).unwrap_or(true);
        let made = match self.commands(&path, commands, is_stream) {
            Ok(program) => Some(program),
            Err(Stop::Wrong(error)) => return Err(error),
            Err(Stop::Unkept(Unkept(key, why))) => {
                let why = format!("{}: templates with this program are left out", why.what);
                self.leave_out(&key, why);
                None
            }
        };
        self.programs.insert(index, made.clone());
        Ok(made)
    }

    fn commands(
        &mut self,
        path: &KeyPath,
        commands: &[Value],
        is_stream: bool,
    ) -> Result<Program, Stop> {
        let list = path.clone().key("commands");
        if commands.len() > COMMANDS_MAX {
            let why = fault!("a program has {COMMANDS_MAX} steps at most");
            return Err(Unkept(list, why).into());
        }
        let mut all = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let path = list.clone().index(at);
            match command {
                Value::Object(keys) => all.push(Command { keys, path, at }),
                _ => return Err(self.wrong(&path, fault!("it is no command")).into()),
            }
        }
        let targets: BTreeSet<usize> = all
            .iter()
            .filter(|command| command.jumps())
            .filter_map(|command| command.target(all.len()).ok())
            .collect();
        let of_udp = ["tx_msg", "rx_msg", "keepalive", "close_msg"];
        let is_udp = !is_stream || all.iter().any(|command| of_udp.contains(&command.name()));
        let mut making = Making {
            made: Program {
                steps: Vec::new(),
                transport: if is_udp { Transport::Udp } else { Transport::Tcp },
                patience: None,
                delay: Nanos::ZERO,
                weight: 0,
            },
            had: [0, 0],
            commands: all.len(),
            variables: BTreeSet::new(),
            falling: BTreeSet::new(),
            ordered: BTreeSet::new(),
            origins: Vec::new(),
        };
        let mut needs_end = targets.contains(&all.len());
        for command in &all {
            if targets.contains(&command.at) {
                making.push(Step::Label(label(command.at)));
            }
            self.command(command, &mut making)?;
            making.origins.resize(making.made.steps.len(), command.at);
            // nothing that follows is done, but what is jumped to
            let goes_on = targets.range(command.at + 1..).next().is_some();
            match command.name() {
                "reset" if goes_on => {
                    let why = fault!("nothing follows 'reset' here, and this program jumps there");
                    return Err(Unkept(command.path.clone(), why).into());
                }
                "reset" | "nc" if !goes_on => break,
                "nc" => {
                    needs_end = true;
                    making.jump(making.commands, None);
                }
                _ => {}
            }
        }
        if needs_end {
            making.push(Step::Label(label(all.len())));
        }
        let turn = goes_round(&making.made.steps).and_then(|step| making.origins.get(step));
        if let Some(&at) = turn {
            let why = fault!(
                "from here on more than {OPS_WITHOUT_WAIT} commands follow each other without one that waits"
            );
            return Err(Unkept(list.index(at), why).into());
        }
        if let Some(variable) = making.falling.intersection(&making.ordered).next() {
            let why = format!(
                "'{variable}' that falls below 0 is a very large number in T-Rex, and below 0 here"
            );
            self.leave_out(&list, why);
        }
        Ok(making.made)
    }

    /// What a command does.
    fn command(&mut self, command: &Command<'_>, making: &mut Making) -> Result<(), Stop> {
        self.tell_command(command, making.commands);
        let wait = |us: u64| Step::Think(Duration::Fixed(Nanos::new(us.saturating_mul(1000))));
        match command.name() {
            "tx" | "tx_msg" => {
                let index = command.count(self, "buf_index")?;
                making.push(self.send(&command.key("buf_index"), index)?);
            }
            "rx" => {
                let total = command.count(self, "min_bytes")?;
                match making.missing(command, 0, total) {
                    0 => {}
                    bytes => making.push(Step::Receive(DataSize::Fixed(Bytes::new(bytes)))),
                }
            }
            "rx_msg" => {
                let total = command.count(self, "min_pkts")?;
                let missing = making.missing(command, 1, total);
                self.receive_datagrams(command, missing, making)?;
            }
            "delay" => match command.count(self, "usec")? {
                0 => {}
                us => making.pause(us, wait(us)),
            },
            "delay_rnd" => {
                let least = command.count(self, "min_usec")?;
                let most = command.count(self, "max_usec")?;
                let text = format!("{{ uniform: {{ min: {least}us, max: {most}us }} }}");
                let step = match least < most {
                    true => Step::Think(
                        yaml::value(&text).map_err(|why| self.wrong(&command.path, why))?,
                    ),
                    false => wait(most),
                };
                making.pause(most, step);
            }
            "reset" => making.push(Step::Reset),
            "nc" => making.push(Step::WaitClose),
            "close_msg" if command.at + 1 < making.commands => {
                self.leave_out(
                    &command.path,
                    "the session ends when its program does: what follows is done",
                );
            }
            "keepalive" => self.keep_alive(command, making)?,
            "set_var" => {
                let numbers = (making.variable(command)?, command.value("val")?);
                making.push(Step::Set(Numbers(IndexMap::from([numbers]))));
            }
            "add_var" => {
                let (name, value) = (making.variable(command)?, command.value("val")?);
                if value < 0 {
                    making.falling.insert(name.clone());
                }
                making.push(Step::Add(Numbers(IndexMap::from([(name, value)]))));
            }
            "jmp_nz" => {
                let (variable, to) = (making.variable(command)?, command.target(making.commands)?);
                making.push(Step::Add(Numbers(IndexMap::from([(variable.clone(), -1)]))));
                let comparison = Comparison::Unequal;
                making.falling.insert(variable.clone());
                making.jump(to, Some(Condition { variable, comparison, value: 0 }));
            }
            "jmp_cmp" => self.compare(command, making)?,
            _ => {}
        }
        Ok(())
    }

    /// A jump that depends on a variable, or on nothing.
    fn compare(&mut self, command: &Command<'_>, making: &mut Making) -> Result<(), Stop> {
        let to = command.target(making.commands)?;
        let comparison = match command.keys.get("cmp_op") {
            None | Some(Value::Null) => {
                making.jump(to, None);
                return Ok(());
            }
            Some(word) => match word.as_str() {
                Some("lt") => Comparison::Less,
                Some("gt") => Comparison::Greater,
                Some("eq") => Comparison::Equal,
                Some("ge") => Comparison::AtLeast,
                Some("le") => Comparison::AtMost,
                Some("ne") => Comparison::Unequal,
                _ => {
                    let why = fault!("it is not one of lt, gt, eq, ge, le, ne");
                    return Err(self.wrong(&command.key("cmp_op"), why).into());
                }
            },
        };
        let value = command.value("cmp_val")?;
        if value < 0 {
            let why = fault!("T-Rex compares with whole numbers from 0"; "write one of these");
            return Err(self.wrong(&command.key("cmp_val"), why).into());
        }
        let variable = making.variable(command)?;
        match (comparison, value) {
            // no number of T-Rex is below 0
            (Comparison::AtLeast, 0) => making.jump(to, None),
            (Comparison::Less, 0) => {}
            _ => {
                if !matches!(comparison, Comparison::Equal | Comparison::Unequal) {
                    making.ordered.insert(variable.clone());
                }
                making.jump(to, Some(Condition { variable, comparison, value }));
            }
        }
        Ok(())
    }

    /// Waits for so many datagrams, of any length.
    fn receive_datagrams(
        &self,
        command: &Command<'_>,
        count: u64,
        making: &mut Making,
    ) -> Result<(), Stop> {
        if count == 0 {
            return Ok(());
        }
        let any: DataSize = yaml::value("{ uniform: { min: 1B, max: 65507B } }")
            .map_err(|why| self.wrong(&command.path, why))?;
        if count <= WRITTEN_OUT {
            (0..count).for_each(|_| making.push(Step::Receive(any.clone())));
            return Ok(());
        }
        match u32::try_from(count).ok().and_then(NonZeroU32::new) {
            Some(times) => {
                making.push(Step::Repeat(Repeat { times, steps: vec![Step::Receive(any)] }));
                Ok(())
            }
            None => {
                let why = fault!("steps are repeated {} times at most", u32::MAX);
                Err(Unkept(command.key("min_pkts"), why).into())
            }
        }
    }

    fn keep_alive(&mut self, command: &Command<'_>, making: &mut Making) -> Result<(), Stop> {
        let ms = command.count(self, "msec")?;
        match nanos(ms as f64 * 1e6) {
            Some(time) => making.made.patience = Some(time),
            None => self.leave_out(&command.key("msec"), "a session waits some time for its peer"),
        }
        if command.keys.get("rx_mode").and_then(Value::as_bool) == Some(false) {
            return Ok(());
        }
        if command.keys.contains_key("rx_mode") {
            let why = "'timeout' counts from whatever a session waits for, not from the last datagram that came";
            self.leave_out(&command.key("rx_mode"), why);
        }
        Ok(())
    }

    /// Tells what is not done of a command.
    fn tell_command(&mut self, command: &Command<'_>, commands: usize) {
        let what = format!("{} ({})", command.path, printable(command.name()));
        let known = COMMANDS.iter().find(|(name, _, _)| *name == command.name());
        let Some((name, keys, why)) = known else {
            let why = "it is not a command of T-Rex; the rest of the program goes on without it";
            let line = self.line(&command.path);
            return self.draft.leave_out(&line, &what, why);
        };
        if *name == "jmp_dp" {
            let time = command.keys.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
            let why = match command.target(commands) {
                Ok(to) if to <= command.at => format!(
                    "programs have no clock: commands {to} to {} are done once, and T-Rex repeats them for {time} s",
                    command.at
                ),
                _ => format!(
                    "programs have no clock: it never jumps here, and in T-Rex it does for the first {time} s"
                ),
            };
            let line = self.line(&command.path);
            self.draft.leave_out(&line, &what, why);
        } else if !why.is_empty() {
            let line = self.line(&command.path);
            self.draft.leave_out(&line, &what, *why);
        }
        let others =
            command.keys.keys().filter(|key| *key != "name" && !keys.contains(&key.as_str()));
        for key in others {
            self.leave_out(&command.key(key), "it has no meaning here");
        }
    }

    /// A step that sends a buffer. `path` is who asks for it.
    fn send(&mut self, path: &KeyPath, index: u64) -> Result<Step, ScriptError> {
        if let Some(known) = self.buffers.get(&index) {
            return Ok(known.clone());
        }
        let step = match String::from_utf8(self.buffer(path, index)?) {
            // text stays readable
            Ok(text) if (1..=TEXT_MAX).contains(&text.len()) && text.chars().all(is_plain) => {
                Step::SendText(text)
            }
            Ok(text) => self.bytes(path, index, text.into_bytes())?,
            Err(error) => self.bytes(path, index, error.into_bytes())?,
        };
        self.buffers.insert(index, step.clone());
        Ok(step)
    }

    /// The bytes of a buffer.
    fn buffer(&self, path: &KeyPath, index: u64) -> Result<Vec<u8>, ScriptError> {
        let at = usize::try_from(index).ok();
        let Some((at, buffer)) = at.and_then(|at| Some((at, self.list("buf_list").get(at)?)))
        else {
            let why = fault!("there is no buffer {index}"; "count from 0");
            return Err(self.wrong(path, why));
        };
        let place = KeyPath::root("buf_list").index(at);
        let wrong = |why: Fault| self.wrong(&place, why.at(format!("buffer {index}")));
        let decode = |text: Option<&str>| -> Result<Vec<u8>, ScriptError> {
            let text = text.ok_or_else(|| wrong(fault!("it is no text in base64")))?;
            STANDARD.decode(text).map_err(|error| wrong(fault!("it is no base64: {error}")))
        };
        let Value::Object(parts) = buffer else { return decode(buffer.as_str()) };
        let mut bytes = decode(parts.get("base").and_then(Value::as_str))?;
        let size = match parts.get("size") {
            None | Some(Value::Null) => bytes.len(),
            Some(size) => size
                .as_u64()
                .and_then(|size| usize::try_from(size).ok())
                .ok_or_else(|| wrong(fault!("'size' is a whole number of bytes")))?,
        };
        if size > BUFFER_MAX {
            return Err(wrong(fault!(
                "it has {size} bytes, and {BUFFER_MAX} is the most that a step sends"
            )));
        }
        // what is missing is filled with this, or with the beginning over and over
        let fill = match parts.get("fill") {
            None | Some(Value::Null) => bytes.clone(),
            Some(fill) => decode(fill.as_str())?,
        };
        if bytes.len() < size && fill.is_empty() {
            return Err(wrong(fault!("it is shorter than its 'size', and nothing fills it")));
        }
        while bytes.len() < size {
            let missing = (size - bytes.len()).min(fill.len());
            bytes.extend(fill.iter().take(missing));
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    /// A step that sends bytes which are no text for readers: short ones stand in it, others in a file.
    fn bytes(&mut self, path: &KeyPath, index: u64, bytes: Vec<u8>) -> Result<Step, ScriptError> {
        if let Some(hex) = Hex::new(bytes.clone()).filter(|hex| hex.bytes().len() <= SHORT) {
            return Ok(Step::SendHex(hex));
        }
        let line = self.line(path);
        self.draft.add_file(&line, &format!("buffer-{index}"), bytes).map(Step::SendFile)
    }
}

/// About how many bytes a step has beside itself.
fn weight(step: &Step) -> usize {
    match step {
        Step::SendText(text) => text.len(),
        Step::SendHex(hex) => hex.bytes().len(),
        _ => 64,
    }
}

/// The name of the place before a command.
fn label(at: usize) -> String {
    format!("command-{at}")
}

fn is_plain(c: char) -> bool {
    !c.is_control() || matches!(c, '\r' | '\n' | '\t')
}
