//! What a shell script is made of: pipes of commands, loops, conditions and functions.

use std::rc::Rc;

use super::word::Word;

/// One after the other.
pub(super) type List = Vec<Item>;

/// A step, and when it is taken.
#[derive(Debug)]
pub(super) struct Item {
    pub number: u64,
    pub when: When,
    /// `!`: it succeeds where it fails.
    pub negated: bool,
    /// Commands of which each reads what the one before writes. At least one.
    pub stages: Vec<Stage>,
    /// Whether leaving it out may change what is sent.
    pub concerns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    Always,
    /// After `&&`.
    Succeeded,
    /// After `||`.
    Failed,
}

/// A command, and where its input and output were sent elsewhere.
#[derive(Debug)]
pub(super) struct Stage {
    pub node: Node,
    pub to: Redirections,
}

#[derive(Debug, Default)]
pub(super) struct Redirections {
    pub out: Option<Out>,
    pub input: Option<Input>,
}

#[derive(Debug)]
pub(super) enum Out {
    File(Word),
    /// `>&2`: where messages go.
    Messages,
}

#[derive(Debug)]
pub(super) enum Input {
    /// `<<< word`, or a document and the number of its first line.
    Text(Option<u64>, Word),
    File,
}

#[derive(Debug)]
pub(super) enum Node {
    /// Assignments, and a command with its arguments.
    Simple(Vec<Word>),
    /// `(( … ))`.
    Arithmetic(String),
    /// `for NAME in WORDS`; without words it is the arguments.
    For {
        variable: String,
        words: Option<Vec<Word>>,
        body: List,
    },
    /// `for ((first; while; then))`.
    Count {
        header: String,
        body: List,
    },
    /// Conditions with what follows, and what follows otherwise.
    If {
        arms: Vec<(List, List)>,
        otherwise: List,
    },
    Function {
        name: String,
        body: Rc<List>,
    },
    /// `{ … }`.
    Group(List),
    /// `( … )`.
    Subshell(List),
    /// What is not read: its first word.
    Unknown(&'static str),
}

impl Item {
    /// What it begins with, for a message.
    pub fn shown(&self) -> String {
        match self.stages.first().map(|stage| &stage.node) {
            Some(Node::Simple(words)) => words.first().map_or(String::new(), Word::shown),
            Some(Node::Arithmetic(inside)) => {
                format!("(({}))", inside.chars().take(100).collect::<String>())
            }
            Some(Node::For { .. } | Node::Count { .. }) => "for".to_owned(),
            Some(Node::If { .. }) => "if".to_owned(),
            Some(Node::Function { name, .. }) => name.clone(),
            Some(Node::Group(_)) => "{".to_owned(),
            Some(Node::Subshell(_)) => "(".to_owned(),
            Some(Node::Unknown(word)) => (*word).to_owned(),
            None => String::new(),
        }
    }
}
