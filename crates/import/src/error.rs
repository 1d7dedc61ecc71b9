//! What is wrong with a script, and where.

use wirebeat_units::{Fault, into_fault};

use crate::Line;

/// Why a script could not be converted. Prints file and line as compilers do, then what is wrong and how
/// to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The text is longer than any script.
    #[error(
        "{file}: {bytes} bytes of text are more than the {} that a script may have",
        crate::MAX_BYTES
    )]
    TooLarge {
        /// The name of the text.
        file: String,
        /// Its length.
        bytes: usize,
    },
    /// A line cannot be read, or contradicts another.
    #[error("{line}: {problem}")]
    At {
        /// Where.
        line: Line,
        /// What is wrong and what would be right.
        problem: Fault,
    },
    /// The script as a whole asks for what cannot be.
    #[error("{file}: {problem}")]
    Whole {
        /// The name of the text.
        file: String,
        /// What is wrong and what would be right.
        problem: Fault,
    },
}

impl ScriptError {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ScriptError::TooLarge { .. } => self.to_string().into(),
            ScriptError::At { line, problem } => problem.clone().at(line),
            ScriptError::Whole { file, problem } => problem.clone().at(file),
        }
    }
}

into_fault!(ScriptError);
