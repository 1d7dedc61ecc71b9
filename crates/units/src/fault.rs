//! What is wrong, and apart from it what would help: what every message for a person is made of.
//!
//! Errors keep both apart from where they arise to the program's output, so that nobody has to find the remedy in a sentence.
//! Where it is wrong (a file with its line, a flow, a flag) is known to the error that holds the fault.

use std::fmt;

/// What separates the two where only text passes, as through serde's errors: ASCII's unit separator, which no message has.
const SEPARATOR: char = '\u{1f}';

/// What is wrong, and what would help: each a sentence that begins in lower case, without a full stop. Prints "what; hint".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// What would help, where that is known.
    pub hint: Option<String>,
}

/// A [`Fault`](crate::Fault) from the format of what is wrong, and behind a semicolon that of what would help.
///
/// ```
/// let file = "a.yaml";
/// let fault = wirebeat_units::fault!("'{file}' is empty"; "write {} into it", "a flow");
/// assert_eq!(fault.to_string(), "'a.yaml' is empty; write a flow into it");
/// ```
#[macro_export]
macro_rules! fault {
    ($what:literal $(, $of_what:expr)* ; $hint:literal $(, $of_hint:expr)* $(,)?) => {
        $crate::Fault {
            what: ::std::format!($what $(, $of_what)*),
            hint: ::std::option::Option::Some(::std::format!($hint $(, $of_hint)*)),
        }
    };
    ($what:literal $(, $of_what:expr)* $(,)?) => {
        $crate::Fault {
            what: ::std::format!($what $(, $of_what)*),
            hint: ::std::option::Option::None,
        }
    };
}

/// Turns errors with a method `fault` into a [`Fault`](crate::Fault).
#[macro_export]
macro_rules! into_fault {
    ($($error:ty),* $(,)?) => {
        $(
            impl From<&$error> for $crate::Fault {
                fn from(error: &$error) -> $crate::Fault {
                    error.fault()
                }
            }
            impl From<$error> for $crate::Fault {
                fn from(error: $error) -> $crate::Fault {
                    error.fault()
                }
            }
        )*
    };
}

impl Fault {
    /// Says what would help, unless that is said already.
    #[must_use]
    pub fn or_hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Says what would help instead of what was said before.
    #[must_use]
    pub fn and_hint(self, hint: impl Into<String>) -> Fault {
        self.join_hint(", or ", hint.into())
    }

    /// Says what would help beside what was said before.
    #[must_use]
    pub fn then_hint(self, hint: impl Into<String>) -> Fault {
        self.join_hint("; ", hint.into())
    }

    fn join_hint(mut self, by: &str, hint: String) -> Fault {
        self.hint = Some(match self.hint {
            Some(first) => format!("{first}{by}{hint}"),
            None => hint,
        });
        self
    }

    /// With a place before what is wrong: "place: what".
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Fault {
        self.what = format!("{place}: {}", self.what);
        self
    }

    /// Both parts with `change` made to each.
    #[must_use]
    pub fn map(self, change: impl Fn(&str) -> String) -> Fault {
        Fault { what: change(&self.what), hint: self.hint.as_deref().map(change) }
    }

    /// As one text that [`Fault::unpacked`] takes apart again: for errors of serde, which pass text alone.
    pub fn packed(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}{SEPARATOR}{hint}", self.what),
            None => self.what.clone(),
        }
    }

    /// What [`Fault::packed`] made, or another text, which says what is wrong.
    pub fn unpacked(text: &str) -> Fault {
        match text.split_once(SEPARATOR) {
            Some((what, hint)) => Fault { what: what.to_owned(), hint: Some(hint.to_owned()) },
            None => text.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for Fault {}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault { what, hint: None }
    }
}

impl From<&str> for Fault {
    fn from(what: &str) -> Fault {
        what.to_owned().into()
    }
}

impl From<&String> for Fault {
    fn from(what: &String) -> Fault {
        what.clone().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_come_through_a_text() {
        let whole = fault!("no {}", "unit"; "write {}pps", 5);
        assert_eq!((whole.what.as_str(), whole.hint.as_deref()), ("no unit", Some("write 5pps")));
        assert_eq!(Fault::unpacked(&whole.packed()), whole);
        let bare = fault!("no unit; none at all");
        assert_eq!(Fault::unpacked(&bare.packed()), bare);
        assert_eq!(bare.hint, None);
    }

    #[test]
    fn the_first_hint_stays() {
        let fault = Fault::from("no rights").or_hint("run as root").or_hint("other");
        assert_eq!(fault.at("eth0").to_string(), "eth0: no rights; run as root");
    }
}
