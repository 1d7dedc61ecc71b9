//! Variables of a program that is written out, and jumps that depend on them.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Comparison, Fault, fault};

use crate::scenario::is_default;
use crate::text::printable;

/// Whole numbers by the names of variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Numbers(
    #[serde(deserialize_with = "crate::scenario::different::map")]
    #[schemars(with = "std::collections::BTreeMap<String, i32>")]
    pub IndexMap<String, i32>,
);

/// A jump to a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Jump {
    /// The name of the label.
    pub to: String,
    /// When: a comparison of a variable with a number, `n < 3`. Default: always.
    #[serde(default, rename = "if", skip_serializing_if = "is_default")]
    #[schemars(with = "Option<String>")]
    pub condition: Option<Condition>,
}

/// A comparison of a variable with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    /// The variable.
    pub variable: String,
    /// How they are compared.
    pub comparison: Comparison,
    /// The number.
    pub value: i32,
}

/// Whether a label or a variable may have this name.
pub(super) fn check_name(name: &str) -> Result<(), Fault> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match !name.is_empty() && name.len() <= 32 && name.chars().all(known) {
        true => Ok(()),
        false => {
            Err(fault!("'{}' is not a name: 1 to 32 letters, digits and -", printable(name, 64)))
        }
    }
}

impl FromStr for Condition {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{}' is not a comparison with a number", printable(text, 64);
                "write for example 'n < 3'"
            )
        };
        let sign = |c: char| "=!<>".contains(c);
        let begin = text.find(sign).ok_or_else(wrong)?;
        let (variable, rest) = text.split_at(begin);
        let end = rest.find(|c: char| !sign(c)).ok_or_else(wrong)?;
        let (comparison, value) = rest.split_at(end);
        let variable = variable.trim().to_owned();
        check_name(&variable)?;
        let comparison = Comparison::of(comparison).ok_or_else(wrong)?;
        let value = value.trim().parse().map_err(|_| wrong())?;
        Ok(Condition { variable, comparison, value })
    }
}

impl TryFrom<String> for Condition {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> String {
        condition.to_string()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.variable, self.comparison, self.value)
    }
}
