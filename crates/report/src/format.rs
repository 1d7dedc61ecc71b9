//! The forms that a report can be written in. A new one is a file beside `json.rs` and a line in
//! `Format::TABLE`.

use std::fmt;
use std::str::FromStr;

use crate::document::ErrorReport;
use crate::model::Report;
use crate::{json, text};

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI escape sequences, for terminals.
    Ansi,
}

/// How much of a report is written, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    /// Whether text may carry colours.
    pub colour: Colour,
    /// Text: every measurement of the flows, and where and how the run took place, behind the summary.
    pub details: bool,
    /// JSON: the histograms behind the percentiles.
    pub histograms: bool,
}

/// How a format writes.
struct Row {
    format: Format,
    name: &'static str,
    report: fn(&Report, Rendering) -> String,
    error: fn(&ErrorReport, Colour) -> String,
}

impl Format {
    /// Every format.
    const TABLE: &'static [Row] = &[
        Row { format: Format::Text, name: "text", report: text::report, error: text::error },
        Row { format: Format::Json, name: "json", report: json::report, error: json::error },
    ];

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Format::TABLE.iter().map(|row| row.name)
    }

    /// The format's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Writes a report. Ends with a newline.
    pub fn report(self, report: &Report, rendering: Rendering) -> String {
        (self.row().report)(report, rendering)
    }

    /// Writes an error. Ends with a newline.
    pub fn error(self, error: &ErrorReport, colour: Colour) -> String {
        (self.row().error)(error, colour)
    }

    fn row(self) -> &'static Row {
        // The table is in the order of the variants; a test holds it to that.
        &Format::TABLE[self as usize]
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A format that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Format::names().collect();
        write!(f, "there is no report format '{}'; choose one of {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Format::TABLE
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.format)
            .ok_or_else(|| UnknownFormat(name.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name_and_in_its_place() {
        for row in Format::TABLE {
            assert_eq!(row.name.parse(), Ok(row.format));
            assert_eq!(row.format.name(), row.name);
        }
    }

    #[test]
    fn an_unknown_format_is_told_which_there_are() {
        assert_eq!(
            "yaml".parse::<Format>().unwrap_err().to_string(),
            "there is no report format 'yaml'; choose one of text, json"
        );
    }
}
