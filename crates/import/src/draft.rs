//! What a dialect fills in while it reads: the scenario with its ports and flows, and what is beside it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wirebeat_traffic::scenario::session::{MAX_GROUPS, SessionSpec};
use wirebeat_traffic::scenario::size::MAX_LENGTHS;
use wirebeat_traffic::scenario::{
    Carried, FlowSpec, MAX_FLOWS, PortSpec, Probe, Scenario, StaggerChoice, is_datagram,
};
use wirebeat_units::{Fault, Nanos, fault};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use crate::datagram::smallest;
use crate::text::{name, printable};
use crate::{
    Converted, LeftOut, Line, Listen, MAX_BYTES, MAX_EVENTS, MAX_LEFT_OUT, Options, ScriptError,
    Source, TimeOfDay,
};

/// The most bytes of files that are made for a scenario.
const MAX_MADE: usize = 4 * MAX_BYTES;
/// The most sizes that are listed one by one, of all flows together.
const MAX_SIZES: usize = 1 << 22;
/// The port that sends, where the script names no interface.
const SENDER: &str = "sender";
/// The port whose servers accept connections.
const RECEIVER: &str = "receiver";

pub(crate) struct Draft<'a> {
    pub source: &'a Source<'a>,
    pub options: &'a Options,
    pub scenario: Scenario,
    pub listens: Vec<Listen>,
    pub starts: Option<TimeOfDay>,
    files: Vec<(String, Vec<u8>)>,
    left_out: Vec<LeftOut>,
    /// The same, to be looked up.
    named: HashSet<LeftOut>,
    /// How many more there are than are kept, and the last of them.
    beyond: Option<(u64, Line)>,
    /// The line that each flow and each group of sessions comes from.
    lines: HashMap<String, Line>,
    /// Bytes of included files that are still allowed.
    allowance: usize,
    /// The names of files by what they are made from and hold.
    made: HashMap<(String, Vec<u8>), String>,
    names: Names,
    /// The ports by their interfaces.
    ports: HashMap<Option<String>, String>,
    port_names: Names,
    /// Bytes of files that may still be made.
    room: usize,
    /// Changes that flows may still have.
    changes: usize,
    /// Sizes that lists may still have.
    sizes: usize,
}

/// Names, each of which is given once.
#[derive(Default)]
struct Names {
    given: HashSet<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    /// `base` with `end`, or with a number between them.
    fn free(&mut self, base: &str, end: &str) -> String {
        let number = self.numbers.entry(base.to_owned()).or_insert(0);
        loop {
            *number += 1;
            let name = match *number {
                1 => format!("{base}{end}"),
                number => format!("{base}-{number}{end}"),
            };
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

impl<'a> Draft<'a> {
    pub fn new(source: &'a Source<'a>, options: &'a Options) -> Draft<'a> {
        let mut scenario = Scenario::default();
        scenario.run.time = options.time;
        // A script says when its flows begin.
        scenario.run.stagger = StaggerChoice::Off;
        Draft {
            source,
            options,
            scenario,
            listens: Vec::new(),
            starts: None,
            files: Vec::new(),
            left_out: Vec::new(),
            named: HashSet::new(),
            beyond: None,
            lines: HashMap::new(),
            allowance: MAX_BYTES,
            made: HashMap::new(),
            names: Names::default(),
            ports: HashMap::new(),
            port_names: Names::default(),
            room: MAX_MADE,
            changes: MAX_EVENTS,
            sizes: MAX_SIZES,
        }
    }

    /// The script's lines, with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (Line, &'a str)> + use<'a> {
        let file: Arc<str> = self.source.name.into();
        let numbered = (1u64..).zip(self.source.text.lines());
        numbered.map(move |(number, text)| (Line { file: file.clone(), number }, text))
    }

    /// Names something that is not carried over.
    pub fn leave_out(&mut self, line: &Line, what: &str, why: impl Into<String>) {
        let left_out = LeftOut { line: line.clone(), what: printable(what), why: why.into() };
        // What stands in a loop is named once.
        if self.named.contains(&left_out) {
            return;
        }
        if self.left_out.len() >= MAX_LEFT_OUT {
            let count = self.beyond.take().map_or(0, |(count, _)| count);
            self.beyond = Some((count + 1, line.clone()));
            return;
        }
        self.named.insert(left_out.clone());
        self.left_out.push(left_out);
    }

    /// What is not carried over so far.
    pub fn told(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The content of a file that a line names.
    pub fn include(&mut self, line: &Line, file: &str) -> Result<Vec<u8>, ScriptError> {
        let content = (self.source.read)(file)
            .map_err(|why| line.wrong(format!("'{}' cannot be read: {why}", printable(file))))?;
        self.allowance = self.allowance.checked_sub(content.len()).ok_or_else(|| {
            line.wrong(format!("the included files have more than {MAX_BYTES} bytes in all"))
        })?;
        Ok(content)
    }

    /// As text.
    pub fn include_text(&mut self, line: &Line, file: &str) -> Result<String, ScriptError> {
        String::from_utf8(self.include(line, file)?)
            .map_err(|_| line.wrong(format!("'{}' is not text", printable(file))))
    }

    /// What a file says that a line names, line by line; lines without anything say nothing.
    pub fn entries<T>(
        &mut self,
        line: &Line,
        file: &str,
        read: impl Fn(&Line, &str) -> Result<T, ScriptError>,
    ) -> Result<Vec<T>, ScriptError> {
        let text = self.include_text(line, file)?;
        let mut entries = Vec::new();
        let name: Arc<str> = file.into();
        let lines = (1u64..).zip(text.lines().map(str::trim));
        for (number, text) in lines.filter(|(_, text)| !text.is_empty()) {
            let here = Line { file: name.clone(), number };
            entries.push(read(&here, text)?);
            if entries.len() > MAX_LENGTHS {
                let why = fault!("a file has at most {MAX_LENGTHS} lines"; "shorten it");
                return Err(here.wrong(why));
            }
        }
        match entries.is_empty() {
            true => Err(line.wrong(format!("there is nothing in '{}'", printable(file)))),
            false => Ok(entries),
        }
    }

    /// Adds a file that is made from the script's file `original`; gives its name.
    pub fn add_file(
        &mut self,
        line: &Line,
        original: &str,
        content: Vec<u8>,
    ) -> Result<String, ScriptError> {
        let base = name(original.rsplit(['/', '\\']).next().unwrap_or(original));
        let key = (base, content);
        if let Some(made) = self.made.get(&key) {
            return Ok(made.clone());
        }
        let left = self.room.checked_sub(key.1.len());
        self.room = left.ok_or_else(|| {
            line.wrong(format!("the files that are made have more than {MAX_MADE} bytes in all"))
        })?;
        let made = self.names.free(&key.0, ".wirebeat");
        self.files.push((made.clone(), key.1.clone()));
        self.made.insert(key, made.clone());
        Ok(made)
    }

    /// Allows a flow so many changes.
    pub fn allow_changes(&mut self, line: &Line, changes: usize) -> Result<(), ScriptError> {
        self.changes = self.changes.checked_sub(changes).ok_or_else(|| {
            line.wrong(fault!("the flows change more than {MAX_EVENTS} times"; "divide the script"))
        })?;
        Ok(())
    }

    /// Allows a flow a list of so many sizes.
    pub fn allow_sizes(&mut self, line: &Line, sizes: usize) -> Result<(), ScriptError> {
        self.sizes = self.sizes.checked_sub(sizes).ok_or_else(|| {
            line.wrong(
                fault!("the flows have more than {MAX_SIZES} sizes in all"; "divide the script"),
            )
        })?;
        Ok(())
    }

    /// The name of the port that sends on an interface; `None`: on that of the options.
    pub fn port(&mut self, interface: Option<&str>) -> String {
        let interface = interface.or(self.options.interface.as_deref()).map(str::to_owned);
        if let Some(port) = self.ports.get(&interface) {
            return port.clone();
        }
        let port = self.port_names.free(&name(interface.as_deref().unwrap_or(SENDER)), "");
        let spec = PortSpec { interface: interface.clone(), ..PortSpec::default() };
        self.scenario.ports.insert(port.clone(), spec);
        self.ports.insert(interface, port.clone());
        port
    }

    /// Adds a flow.
    pub fn flow(
        &mut self,
        line: &Line,
        name: String,
        mut flow: FlowSpec,
    ) -> Result<(), ScriptError> {
        if self.scenario.flows.len() >= MAX_FLOWS {
            return Err(
                line.wrong(fault!("there are more than {MAX_FLOWS} flows"; "divide the script"))
            );
        }
        self.choose_probe(line, &name, &mut flow);
        self.drop_probe_without_room(line, &name, &mut flow);
        if self.scenario.flows.contains_key(&name) {
            return Err(
                line.wrong(fault!("there is another '{name}'"; "give each flow its own number"))
            );
        }
        let limited = flow.stop.or(self.options.time).is_some()
            || flow.count.is_some()
            || flow.bytes.is_some();
        if !limited {
            let why = "the script never ends this flow; it sends for 10s, or until the 'run.time' that \
                       you set";
            self.leave_out(line, &name, why);
        }
        self.lines.insert(name.clone(), line.clone());
        self.scenario.flows.insert(name, flow);
        Ok(())
    }

    /// The name of a port of servers.
    pub fn receiver(&mut self) -> String {
        let port = self.port_names.free(RECEIVER, "");
        self.scenario.ports.insert(port.clone(), PortSpec::default());
        port
    }

    /// Adds a group of sessions.
    pub fn session(
        &mut self,
        line: &Line,
        name: String,
        group: SessionSpec,
    ) -> Result<(), ScriptError> {
        if self.scenario.sessions.len() >= MAX_GROUPS {
            return Err(line.wrong(
                fault!("there are more than {MAX_GROUPS} groups of sessions"; "divide the script"),
            ));
        }
        if self.scenario.sessions.contains_key(&name) {
            return Err(
                line.wrong(fault!("there is another '{name}'"; "give each flow its own number"))
            );
        }
        self.lines.insert(name.clone(), line.clone());
        self.scenario.sessions.insert(name, group);
        Ok(())
    }

    /// Another tool's header is read behind UDP over IP alone. Elsewhere Wirebeat's own takes its place.
    pub fn choose_probe(&mut self, line: &Line, name: &str, flow: &mut FlowSpec) {
        let Probe::Carried(Carried { codec, .. }) = flow.probe else { return };
        if codec != Codec::Wirebeat && !is_datagram(&flow.packet) {
            let why = format!(
                "its packets bear Wirebeat's own header: that of {codec} is read behind UDP over IP alone"
            );
            self.leave_out(line, name, why);
            flow.probe = Probe::of(Codec::Wirebeat);
        }
    }

    /// Other tools send what is shorter than their own header, cut off. A probe is whole or none.
    fn drop_probe_without_room(&mut self, line: &Line, name: &str, flow: &mut FlowSpec) {
        use wirebeat_traffic::scenario::Change;
        let Probe::Carried(carried) = flow.probe else { return };
        let version = flow.headers(name).ok().and_then(|packet| Some(packet.network?.version()));
        let needed = carried.codec.min_len(version.unwrap_or(Version::V4)) as u64;
        let changed = flow.at.values().filter_map(|change| match change {
            Change::To(settings) => settings.size.as_ref(),
            _ => None,
        });
        let smallest = changed.chain(&flow.size).filter_map(smallest).min();
        if let Some(short) = smallest.filter(|short| *short < needed) {
            flow.probe = Probe::Off;
            self.leave_out_probe(line, name, short, needed);
        }
    }

    /// Names a flow whose packets are too short for the probe.
    pub fn leave_out_probe(&mut self, line: &Line, name: &str, short: u64, needed: u64) {
        let why = format!(
            "{short} bytes have no room for the {needed} of its header, which numbers its packets; it sends \
             them without, and a receiver only counts them"
        );
        self.leave_out(line, name, why);
    }

    /// The scenario, checked.
    pub fn finish(mut self) -> Result<Converted, ScriptError> {
        self.part_the_unlimited();
        let ends = self.scenario.sessions.values().flat_map(|group| [&group.from, &group.to]);
        let ends = ends.flatten().map(String::as_str);
        let of_flows = |flow: &'_ FlowSpec| [Some(flow.from.clone()), flow.to.clone()];
        let of_flows = self.scenario.flows.values().flat_map(of_flows).flatten();
        let used: HashSet<String> = of_flows.chain(ends.map(str::to_owned)).collect();
        self.scenario.ports.retain(|port, _| used.contains(port));
        if let Err(problem) = self.scenario.check() {
            let text = problem.why.clone().at(&problem.at);
            let of = |name: &str| {
                let of = ["flows.", "sessions."].iter();
                of.filter_map(|key| text.what.strip_prefix(key))
                    .find_map(|rest| rest.strip_prefix(name)?.strip_prefix('.'))
            };
            let about = self.lines.iter().filter(|(name, _)| of(name).is_some());
            return Err(match about.max_by_key(|(name, _)| name.len()) {
                Some((_, line)) => line.wrong(text),
                None => ScriptError::Whole { file: self.source.name.to_owned(), problem: text },
            });
        }
        if let Some((count, line)) = self.beyond {
            let why =
                "these are too many to be listed one by one; mend the first ones and convert again";
            self.left_out.push(LeftOut {
                line,
                what: format!("{count} more"),
                why: why.to_owned(),
            });
        }
        self.listens.sort_by_key(|listen| listen.at);
        Ok(Converted {
            scenario: self.scenario,
            files: self.files,
            left_out: self.left_out,
            listens: self.listens,
            starts: self.starts,
        })
    }

    /// Flows that are as fast as the engine can leave from a port of their own, on the same interface:
    /// together with others they leave those no time.
    fn part_the_unlimited(&mut self) {
        let mut paced: HashSet<&str> = HashSet::new();
        for flow in self.scenario.flows.values().filter(|flow| !flow.is_unlimited()) {
            paced.insert(&flow.from);
        }
        let given = self.scenario.ports.keys().cloned().collect();
        let mut ports = Names { given, ..Names::default() };
        let mut taken: HashMap<(String, Times), String> = HashMap::new();
        let mut moved: Vec<(String, String)> = Vec::new();
        let mut whole: HashSet<&str> = HashSet::new();
        for (name, flow) in self.scenario.flows.iter().filter(|(_, flow)| flow.is_unlimited()) {
            let key = (flow.from.clone(), times(flow));
            let port = match taken.get(&key) {
                Some(port) => port.clone(),
                // The first ones may stay where nothing else is.
                None if !paced.contains(flow.from.as_str()) && whole.insert(&flow.from) => {
                    flow.from.clone()
                }
                None => ports.free(&flow.from, ""),
            };
            taken.insert(key, port.clone());
            moved.push((name.clone(), port));
        }
        for (name, port) in moved {
            let Some(flow) = self.scenario.flows.get_mut(&name) else { continue };
            if let Some(spec) = self.scenario.ports.get(&flow.from).cloned() {
                self.scenario.ports.entry(port.clone()).or_insert(spec);
            }
            flow.from = port;
        }
    }
}

/// What flows that share a port as the unlimited do have in common.
type Times = (Nanos, Option<Nanos>, bool, bool);

fn times(flow: &FlowSpec) -> Times {
    (flow.start, flow.stop, flow.count.is_some(), flow.bytes.is_some())
}

impl Line {
    /// What is wrong with it.
    pub(crate) fn wrong(&self, problem: impl Into<Fault>) -> ScriptError {
        ScriptError::At { line: self.clone(), problem: problem.into() }
    }
}
