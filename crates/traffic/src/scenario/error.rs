//! What is wrong with a scenario, and where.

use std::fmt;

use wirebeat_units::{Fault, into_fault};

use crate::text::printable;

/// How much of a key is printed, in characters.
const MAX_KEY: usize = 64;

/// Why a scenario could not be read. Prints file, line and column as compilers do, then what is wrong
/// and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is longer than any scenario.
    #[error(
        "{file}: {bytes} bytes of text are more than the {} that a scenario may have",
        super::yaml::MAX_BYTES
    )]
    TooLarge {
        /// The name of the text.
        file: String,
        /// Its length.
        bytes: usize,
    },
    /// The text is not YAML, or not of the language.
    #[error("{file}{}: {problem}", at(place))]
    Syntax {
        /// The name of the text.
        file: String,
        /// Where, if it is known.
        place: Option<Place>,
        /// What is wrong and what would be right.
        problem: Fault,
    },
    /// It can be read but not meant.
    #[error("{file}{}: {problem}", at(place))]
    Invalid {
        /// The name of the text.
        file: String,
        /// Where, if it is known.
        place: Option<Place>,
        /// What is wrong and what would be right.
        problem: Invalid,
    },
    /// A variable is given a value from outside, and no file has it.
    #[error("{problem}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong and what would be right.
        problem: Fault,
    },
    /// It cannot be written as YAML.
    #[error("the scenario cannot be written as YAML: {0}")]
    Write(String),
}

fn at(place: &Option<Place>) -> String {
    place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default()
}

/// A place in a text, from line 1 and column 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// A value of a scenario that is invalid. Prints its path and why: "flows.voice.size: …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Invalid {
    /// The key it is about.
    pub at: KeyPath,
    /// What is wrong and what would be right.
    pub why: Fault,
}

impl Invalid {
    /// What is wrong and of which key, and what would help.
    pub fn fault(&self) -> Fault {
        self.why.clone().at(&self.at)
    }
}

into_fault!(Invalid);

/// The way to a key: `flows.voice.packet[0].ipv4.ttl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

impl KeyPath {
    /// A top-level key.
    pub fn root(key: &str) -> KeyPath {
        KeyPath::default().key(key)
    }
    /// A flow.
    pub fn flow(name: &str) -> KeyPath {
        Self::root("flows").key(name)
    }
    /// A port.
    pub fn port(name: &str) -> KeyPath {
        Self::root("ports").key(name)
    }
    /// On to a key.
    pub fn key(mut self, key: &str) -> KeyPath {
        self.0.push(PathStep::Key(key.to_owned()));
        self
    }
    /// On to an element of a list, from 0.
    pub fn index(mut self, index: usize) -> KeyPath {
        self.0.push(PathStep::Index(index));
        self
    }
    /// With the reason, what is wrong with it.
    pub fn invalid(self, why: impl Into<Fault>) -> Invalid {
        Invalid { at: self, why: why.into() }
    }

    /// The same key below `to` instead of below `from`; as it is where it is not below that.
    pub(crate) fn below(self, from: &KeyPath, to: KeyPath) -> KeyPath {
        match self.0.strip_prefix(&from.0[..]) {
            Some(rest) => KeyPath(to.0.into_iter().chain(rest.iter().cloned()).collect()),
            None => self,
        }
    }

    /// The place in the top-level list `key`, if it is there.
    pub fn index_below(&self, key: &str) -> Option<usize> {
        match self.0.get(..2)? {
            [PathStep::Key(first), PathStep::Index(index)] if first == key => Some(*index),
            _ => None,
        }
    }

    pub(super) fn steps(&self) -> &[PathStep] {
        &self.0
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if i == 0 => f.write_str(&printable(key, MAX_KEY))?,
                PathStep::Key(key) => write!(f, ".{}", printable(key, MAX_KEY))?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
