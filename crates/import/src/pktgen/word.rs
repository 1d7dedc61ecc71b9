//! A word of a shell script: its text, and what is to be put into it.

/// A word; it may become several, or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub pieces: Vec<Piece>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub part: Part,
    /// What is quoted stays one word, however many blanks it has, and its braces are braces.
    pub quoted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// `$NAME`, `${NAME}`, `${NAME:-default}`.
    Variable {
        name: String,
        otherwise: Option<Otherwise>,
    },
    /// `$(( … ))`.
    Arithmetic(String),
    /// `$( … )` or backquotes.
    Command(String),
    /// What is not read.
    Unknown(String),
}

/// What stands for a variable that is not set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Otherwise {
    pub word: Word,
    /// `:-`, `:=`: for an empty one as well.
    pub if_empty: bool,
    /// `=`: the variable is set to it.
    pub assigns: bool,
}

/// `NAME=value`.
pub(super) struct Assignment<'a> {
    pub name: &'a str,
    /// `+=`: the value comes behind the one before.
    pub adds: bool,
    /// What the value begins with, and the rest of it.
    pub value: &'a str,
    pub rest: &'a [Piece],
}

impl Word {
    /// Text that is quoted.
    pub fn quoted(text: &str) -> Word {
        let mut word = Word::default();
        word.add(text, true);
        word
    }

    /// An operator of `[[` as a word.
    pub fn bare(text: &str) -> Word {
        let mut word = Word::default();
        word.add(text, false);
        word
    }

    pub fn push(&mut self, part: Part, quoted: bool) {
        self.pieces.push(Piece { part, quoted });
    }

    /// Adds text at its end.
    pub fn add(&mut self, text: &str, quoted: bool) {
        match self.pieces.last_mut() {
            Some(Piece { part: Part::Text(last), quoted: of }) if *of == quoted => {
                last.push_str(text);
            }
            _ => self.push(Part::Text(text.to_owned()), quoted),
        }
    }

    /// Whether it may stand for names of files, or be a pattern that is compared.
    pub fn is_pattern(&self) -> bool {
        self.pieces.iter().any(|piece| match &piece.part {
            Part::Text(text) => !piece.quoted && text.contains(['*', '?', '[']),
            _ => false,
        })
    }

    /// The word, if nothing is to be put into it and nothing of it is quoted.
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece { part: Part::Text(text), quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// The assignment that it is, if it is one.
    pub fn assignment(&self) -> Option<Assignment<'_>> {
        let (first, rest) = self.pieces.split_first()?;
        let Piece { part: Part::Text(text), quoted: false } = first else { return None };
        let (name, value) = text.split_once('=')?;
        let (name, adds) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        is_variable(name).then_some(Assignment { name, adds, value, rest })
    }

    /// What is written in it, whatever is put into it: the last of it at least is often known.
    pub fn text(&self) -> String {
        self.written(usize::MAX)
    }

    /// The beginning of [`Word::text`], enough for any message.
    pub fn shown(&self) -> String {
        self.written(100)
    }

    /// What is written, of each of its first pieces so many characters at most.
    fn written(&self, most: usize) -> String {
        let mut written = String::new();
        for Piece { part, .. } in self.pieces.iter().take(most) {
            let (before, inside, after) = match part {
                Part::Text(text) | Part::Unknown(text) => ("", text, ""),
                Part::Variable { name, .. } => ("$", name, ""),
                Part::Arithmetic(inside) => ("$((", inside, "))"),
                Part::Command(inside) => ("$(", inside, ")"),
            };
            written.push_str(before);
            written.extend(inside.chars().take(most));
            written.push_str(after);
        }
        written
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a variable may be called so.
pub(super) fn is_variable(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    begins && name.chars().all(is_name)
}
