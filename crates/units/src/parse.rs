//! Numbers with units, as people write them.

/// Why a quantity could not be read. Prints what was given, what is wrong and an example that works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not {what}: {why}; write for example {example}")]
pub struct UnitError {
    /// The text as it was given (cut to 64 characters).
    pub given: String,
    /// What was expected: "a rate", "a frame length".
    pub what: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// A value that would be right.
    pub example: &'static str,
}
