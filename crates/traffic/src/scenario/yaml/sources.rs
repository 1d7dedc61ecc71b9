//! Scenarios out of several files: what a file includes lies beneath what it says itself.
//!
//! Files are read by the caller; here they are texts with names. Each is parsed by itself, so that
//! anchors hold within it and messages name its own lines; put together are the parts that they say, not
//! their texts. Ports and flows of all files are those of the scenario, and none may be defined twice.
//! `seed`, the keys of `run` and variables hold as the nearest file says: the including one before the
//! included ones, and of these the later one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use wirebeat_units::{Fault, fault};

use super::filled::Filled;
use super::{MAX_BYTES, Variables, options, syntax, variables};
use crate::scenario::run::RunPart;
use crate::scenario::session::Mix;
use crate::scenario::{
    FlowSpec, Invalid, KeyPath, Place, PortSpec, Scenario, ScopedExpectation, SessionSpec,
    SpecError, place,
};
use crate::text::hint::with_hint;
use crate::text::printable;

/// How deep files may include files.
pub const MAX_DEPTH: usize = 8;
/// The most files of a scenario.
pub const MAX_FILES: usize = 64;

/// What is needed to read a scenario beside its text.
pub struct Reading<'a> {
    /// Variables with the values that they are to have, whatever the files say.
    pub set: &'a [(String, String)],
    /// Reads a file that is included, or says why it cannot.
    pub read: &'a mut dyn FnMut(&Path) -> Result<String, Fault>,
}

/// The texts that a scenario was read from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The nearest last.
    files: Vec<Source>,
    variables: Variables,
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    /// Marked, where it uses variables.
    text: String,
    marked: bool,
}

impl Sources {
    /// Reads and checks the scenario `text`, and what it includes. `name` is the path of its file, which
    /// included names are relative to, and what messages call it.
    pub fn read(
        name: &str,
        text: String,
        reading: Reading<'_>,
    ) -> Result<(Scenario, Sources), SpecError> {
        let set = reading.set;
        let mut loader = Loader { reading, files: Vec::new(), chain: Vec::new(), bytes: 0 };
        loader.seen(Path::new(name));
        loader.add(name, text)?;
        let variables = loader.variables(set)?;
        let (mut sources, mut parts) = (Sources { files: Vec::new(), variables }, Vec::new());
        for Loaded { source, part, .. } in loader.files {
            let part = match part {
                Some(part) => part,
                None => source.part(&sources.variables)?,
            };
            sources.files.push(source);
            parts.push(part);
        }
        let scenario = sources.join(parts)?;
        match scenario.check() {
            Ok(()) => Ok((scenario, sources)),
            Err(problem) => Err(sources.invalid(problem)),
        }
    }

    /// The file in which the key at `path` stands, and where; or the last key on the way to it.
    pub fn locate(&self, path: &KeyPath) -> (&str, Option<Place>) {
        let mut best: Option<(usize, &str, Place)> = None;
        for file in self.files.iter().rev() {
            if let Some((depth, place)) = place::locate(&file.text, path, &self.variables)
                && best.is_none_or(|(best, ..)| depth > best)
            {
                best = Some((depth, &file.name, place));
            }
        }
        match best {
            Some((_, name, place)) => (name, Some(place)),
            None => (self.files.last().map_or("", |file| &file.name), None),
        }
    }

    /// With its place, what is wrong with the scenario.
    pub fn invalid(&self, problem: Invalid) -> SpecError {
        let (file, place) = self.locate(&problem.at);
        SpecError::Invalid { file: file.to_owned(), place, problem }
    }

    /// One scenario of all parts, which are in the order of the files.
    fn join(&self, parts: Vec<SourcePart>) -> Result<Scenario, SpecError> {
        let mut scenario = Scenario::default();
        let (mut ports, mut flows, mut sessions) = (None, None, None);
        for (part, number) in parts.into_iter().zip(0..) {
            let twice = |section, key| self.twice(number, section, key);
            merge(&mut ports, part.ports).map_err(|key| twice("ports", key))?;
            merge(&mut flows, part.flows).map_err(|key| twice("flows", key))?;
            merge(&mut sessions, part.sessions).map_err(|key| twice("sessions", key))?;
            scenario.mix = part.mix.or(scenario.mix);
            scenario.expect = part.expect.unwrap_or(scenario.expect);
            scenario.seed = part.seed.unwrap_or(scenario.seed);
            part.run.unwrap_or_default().apply(&mut scenario.run);
        }
        scenario.ports = ports.ok_or_else(|| self.missing("ports"))?;
        // a scenario of sessions needs no flows
        scenario.flows = match (flows, &sessions) {
            (Some(flows), _) => flows,
            (None, Some(_)) => IndexMap::new(),
            (None, None) => return Err(self.missing("flows")),
        };
        scenario.sessions = sessions.unwrap_or_default();
        Ok(scenario)
    }

    /// A port or flow that file `number` defines, and one before it as well.
    fn twice(&self, number: usize, section: &str, key: String) -> SpecError {
        let path = KeyPath::root(section).key(&key);
        let place_in = |file: &Source| {
            let (depth, place) = place::locate(&file.text, &path, &self.variables)?;
            (depth == 2).then_some(place)
        };
        let mut before = self.files.iter().take(number);
        let first = before.find_map(|file| Some((&file.name, place_in(file)?)));
        let first = match first {
            Some((name, place)) => format!("{name}:{}:{}", place.line, place.column),
            None => "a file before".to_owned(),
        };
        let here = self.files.get(number);
        SpecError::Syntax {
            file: here.map_or(String::new(), |file| file.name.clone()),
            place: here.and_then(place_in),
            problem: fault!(
                "'{}' of the {section} is defined in {first} already", printable(&key, 64);
                "give each a name of its own"
            ),
        }
    }

    fn missing(&self, key: &str) -> SpecError {
        let keys =
            ["include", "variables", "seed", "ports", "flows", "sessions", "mix", "expect", "run"];
        let root = self.files.last();
        let place = root.and_then(|root| {
            let of = |key| place::locate(&root.text, &KeyPath::root(key), &self.variables);
            keys.into_iter().filter_map(of).map(|(_, place)| place).min_by_key(|place| place.line)
        });
        let file = root.map_or(String::new(), |root| root.name.clone());
        let says_nothing =
            |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if root.is_some_and(|root| root.text.lines().all(says_nothing)) {
            let problem = fault!("the text ends here"; "a scenario has the keys ports and flows");
            return SpecError::Syntax { file, place: Some(Place { line: 1, column: 1 }), problem };
        }
        let problem = match key {
            // that there are sessions makes it needless
            "flows" => {
                fault!("the key 'flows' is missing, and so is 'sessions'"; "write at least one of them")
            }
            _ => fault!("the key '{key}' is missing"),
        };
        SpecError::Syntax { file, place, problem }
    }
}

/// Adds what a file defines; the key that is there already is an error.
fn merge<T>(
    all: &mut Option<IndexMap<String, T>>,
    part: Option<IndexMap<String, T>>,
) -> Result<(), String> {
    let Some(part) = part else { return Ok(()) };
    let all = all.get_or_insert_default();
    for (key, value) in part {
        if all.contains_key(&key) {
            return Err(key);
        }
        all.insert(key, value);
    }
    Ok(())
}

/// What a file says of the scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SourcePart {
    #[serde(default)]
    include: Option<IgnoredAny>,
    #[serde(default)]
    variables: Option<IgnoredAny>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    ports: Option<IndexMap<String, PortSpec>>,
    #[serde(default)]
    flows: Option<IndexMap<String, FlowSpec>>,
    #[serde(default)]
    sessions: Option<IndexMap<String, SessionSpec>>,
    #[serde(default)]
    mix: Option<Mix>,
    #[serde(default)]
    expect: Option<Vec<ScopedExpectation>>,
    #[serde(default)]
    run: Option<RunPart>,
}

/// What a file says of others, and of variables.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    include: Option<Spanned<Names>>,
    variables: IndexMap<String, Spanned<String>>,
}

impl Source {
    fn part(&self, variables: &Variables) -> Result<SourcePart, SpecError> {
        let read = match self.marked {
            false => serde_saphyr::from_str_with_options(&self.text, options()),
            true => serde_saphyr::with_deserializer_from_str_with_options(
                &self.text,
                options(),
                |yaml| SourcePart::deserialize(Filled::new(yaml, variables)),
            ),
        };
        read.map_err(|error| syntax(self.name.clone(), &self.text, &error))
    }

    fn head(&self) -> Result<Head, SpecError> {
        serde_saphyr::from_str_with_options(&self.text, options())
            .map_err(|error| syntax(self.name.clone(), &self.text, &error))
    }

    fn wrong(&self, place: Option<Place>, problem: impl Into<Fault>) -> SpecError {
        SpecError::Syntax { file: self.name.clone(), place, problem: problem.into() }
    }
}

/// A file as far as it can be read without those of others.
struct Loaded {
    source: Source,
    /// Where it uses no variables.
    part: Option<SourcePart>,
    variables: IndexMap<String, Spanned<String>>,
}

/// Reads a file and those it includes.
struct Loader<'a> {
    reading: Reading<'a>,
    /// The included before the including.
    files: Vec<Loaded>,
    /// From the first file to the one that is being read: what messages call it, and what it is known by.
    chain: Vec<(String, PathBuf)>,
    bytes: usize,
}

impl Loader<'_> {
    fn add(&mut self, name: &str, text: String) -> Result<(), SpecError> {
        self.bytes += text.len();
        if self.bytes > MAX_BYTES {
            return Err(SpecError::TooLarge { file: name.to_owned(), bytes: self.bytes });
        }
        let mut source = Source { name: name.to_owned(), text, marked: false };
        if variables::uses_variables(&source.text) {
            let reserved = |place| {
                let why =
                    fault!("this character cannot stand in a file with variables"; "remove it");
                source.wrong(Some(place), why)
            };
            source.text = variables::marked(&source.text).map_err(reserved)?;
            source.marked = true;
        }
        let part = match source.marked {
            true => None,
            false => Some(source.part(&Variables::default())?),
        };
        let head = match &part {
            Some(SourcePart { include: None, variables: None, .. }) => Head::default(),
            _ => source.head()?,
        };
        if let Some(Spanned { value: Names(names), referenced, .. }) = head.include {
            for (included, place) in names {
                let place = place.or(place_of(&referenced));
                self.include(&source, &included, place)?;
            }
        }
        self.files.push(Loaded { source, part, variables: head.variables });
        Ok(())
    }

    fn include(&mut self, by: &Source, name: &str, place: Option<Place>) -> Result<(), SpecError> {
        let shown = printable(&variables::unmarked(name), 256);
        if variables::unmarked(name) != name {
            let why =
                fault!("the name of an included file, '{shown}', has no variables"; "write it out");
            return Err(by.wrong(place, why));
        }
        if name.is_empty() {
            return Err(by.wrong(place, "the name of a file is not empty".to_owned()));
        }
        let path = Path::new(&by.name).parent().unwrap_or(Path::new("")).join(name);
        let known_by = plain(&path);
        let called = path.to_string_lossy().into_owned();
        let chain = |end: &str| {
            let names = self.chain.iter().map(|(name, _)| name.as_str()).chain([end]);
            names.collect::<Vec<_>>().join(" > ")
        };
        if self.chain.iter().any(|(_, path)| *path == known_by) {
            let why = fault!("this file includes itself: {}", chain(&called); "leave it out here");
            return Err(by.wrong(place, why));
        }
        if self.files.iter().any(|file| plain(Path::new(&file.source.name)) == known_by) {
            let why =
                fault!("'{shown}' is included already"; "once is enough ({})", chain(&called));
            return Err(by.wrong(place, why));
        }
        if self.chain.len() > MAX_DEPTH {
            let why = format!("files are included at most {MAX_DEPTH} deep: {}", chain(&called));
            return Err(by.wrong(place, why));
        }
        if self.files.len() + self.chain.len() >= MAX_FILES {
            let why = fault!("a scenario has at most {MAX_FILES} files"; "put some together");
            return Err(by.wrong(place, why));
        }
        let text = (self.reading.read)(&path)
            .map_err(|why| by.wrong(place, why.at(format!("cannot include '{shown}'"))))?;
        self.chain.push((called.clone(), known_by));
        let added = self.add(&called, text);
        self.chain.pop();
        added
    }

    /// The first file is being read.
    fn seen(&mut self, path: &Path) {
        self.chain.push((path.to_string_lossy().into_owned(), plain(path)));
    }

    /// The values of all variables.
    fn variables(&self, set: &[(String, String)]) -> Result<Variables, SpecError> {
        let mut written = HashMap::new();
        let mut declared = HashMap::new();
        for file in &self.files {
            for (name, value) in &file.variables {
                written.insert(name.clone(), value.value.clone());
                declared.insert(name.as_str(), (&file.source, place_of(&value.referenced)));
            }
        }
        let mut given = HashSet::new();
        for (name, _) in set {
            let mut known: Vec<&str> = declared.keys().copied().collect();
            known.sort_unstable();
            let problem = match declared.contains_key(name.as_str()) {
                false if known.is_empty() => {
                    fault!("the scenario declares no variables"; "leave it out")
                }
                false => with_hint("the scenario declares no variable", name, known),
                true if !given.insert(name) => fault!("'{name}' is given twice"; "give it once"),
                true => continue,
            };
            return Err(SpecError::Variable { name: name.clone(), problem });
        }
        Variables::resolve(&written, set).map_err(|(name, why)| match declared.get(name.as_str()) {
            Some((source, place)) => source.wrong(*place, why),
            None => SpecError::Variable { name, problem: why },
        })
    }
}

fn place_of(location: &serde_saphyr::Location) -> Option<Place> {
    let place = Place { line: location.line(), column: location.column() };
    (place.line > 0).then_some(place)
}

/// A path without detours, so that a file is recognised whatever the way to it. Links are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The name of a file, or a list of them.
#[derive(Debug)]
struct Names(Vec<(String, Option<Place>)>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a file, or a list of names")
            }
            fn visit_str<E>(self, name: &str) -> Result<Names, E> {
                Ok(Names(vec![(name.to_owned(), None)]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element::<Spanned<String>>()? {
                    names.push((name.value, place_of(&name.referenced)));
                }
                Ok(Names(names))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

#[cfg(test)]
mod tests;
