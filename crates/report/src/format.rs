//! The formats that results are written in, and who writes what: a new one is a file beside `json.rs` and a line in
//! [`Format::ALL`]. Nobody else names a format.

use crate::document::ErrorReport;
use crate::model::Report;
use crate::pictures::Picture;
use crate::several_runs::SeveralRuns;
use crate::text::style::clean_page;
use crate::{csv, figures, html, json, junit, markdown, text};

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI escape sequences, for terminals.
    Ansi,
}

/// How much of a result is written, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    /// Whether text may carry colours.
    pub colour: Colour,
    /// Text: every measurement of the flows, and where and how the run took place, behind the summary.
    pub details: bool,
    /// JSON: the histograms behind the percentiles.
    pub histograms: bool,
    /// JSON: all of it on one line.
    pub one_line: bool,
}

/// Who reads a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person, at the terminal. Reads as much as they like.
    Person,
    /// A program (a browser, a spreadsheet), of a file that is asked for by the format's name or of standard output. A part of
    /// it is nothing to it.
    Program,
}

/// A result that can be written in every format.
pub trait Presentable {
    /// For people.
    fn text(&self, rendering: Rendering) -> String;
    /// For programs, with a newline at the end.
    fn json(&self, rendering: Rendering) -> String;
    /// A page for browsers.
    fn html(&self, rendering: Rendering) -> String {
        html::plain(&self.text(Rendering { colour: Colour::Never, ..rendering }))
    }
    /// Tables for spreadsheets; `None` where there is none.
    fn csv(&self) -> Option<String> {
        None
    }
    /// For build servers; `None` where there is nothing to pass or fail.
    fn junit(&self) -> Option<String> {
        None
    }
    /// The pictures of the page.
    fn pictures(&self) -> Vec<Picture> {
        Vec::new()
    }
    /// For documents in Markdown.
    fn markdown(&self, rendering: Rendering) -> String {
        markdown::plain(&self.text(Rendering { colour: Colour::Never, ..rendering }))
    }
}

/// Which results a format is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// All of them.
    Any,
    /// Reports of runs.
    Reports,
}

/// A format of results.
#[derive(Debug)]
pub struct Format {
    /// What it is called, also by the flag that asks for it.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Who reads it.
    pub reader: Reader,
    /// Which results can be written in it.
    pub results: Results,
    write: fn(&dyn Presentable, Rendering) -> Vec<u8>,
    /// What every result in it has in its first [`Format::HEAD`] bytes.
    mark: &'static str,
}

impl Format {
    /// Every format; the first is what a person gets who asks for none.
    pub const ALL: &'static [Format] = &[
        Format {
            name: "text",
            title: "text",
            reader: Reader::Person,
            results: Results::Any,
            write: |result, rendering| {
                clean_page(&result.text(rendering), rendering.colour).into_bytes()
            },
            mark: "",
        },
        Format {
            name: "json",
            title: "JSON",
            reader: Reader::Program,
            results: Results::Any,
            write: |result, rendering| result.json(rendering).into_bytes(),
            mark: "\"schema_version\"",
        },
        Format {
            name: "html",
            title: "one HTML page with pictures",
            reader: Reader::Program,
            results: Results::Reports,
            write: |result, rendering| result.html(rendering).into_bytes(),
            mark: html::MARK,
        },
        Format {
            name: "csv",
            title: "CSV",
            reader: Reader::Program,
            results: Results::Reports,
            write: |result, _| result.csv().unwrap_or_default().into_bytes(),
            mark: csv::MARK,
        },
        Format {
            name: "markdown",
            title: "Markdown",
            reader: Reader::Program,
            results: Results::Reports,
            write: |result, rendering| result.markdown(rendering).into_bytes(),
            mark: markdown::MARK,
        },
        Format {
            name: "junit",
            title: "JUnit XML",
            reader: Reader::Program,
            results: Results::Reports,
            write: |result, _| result.junit().unwrap_or_default().into_bytes(),
            mark: junit::MARK,
        },
    ];

    /// Bytes that [`Format::may_replace`] looks at.
    pub const HEAD: usize = 64;

    /// Whether a file that begins so is empty or a result in this format, which another one may replace.
    pub fn may_replace(&self, head: &[u8]) -> bool {
        let mark = self.mark.as_bytes();
        head.is_empty() || mark.is_empty() || head.windows(mark.len()).any(|part| part == mark)
    }

    /// Those that are asked for by name, with a file.
    pub fn of_files() -> impl Iterator<Item = &'static Format> {
        Format::ALL.iter().filter(|format| format.reader == Reader::Program)
    }

    /// What is written line by line, while a run goes on.
    pub fn of_lines() -> &'static Format {
        &Format::ALL[1]
    }

    /// What a person gets.
    pub fn for_people() -> &'static Format {
        &Format::ALL[0]
    }

    /// The result in this format. Nothing in it but the emphasis that is allowed acts on a terminal.
    pub fn write(&self, result: &dyn Presentable, rendering: Rendering) -> Vec<u8> {
        (self.write)(result, rendering)
    }
}

impl Presentable for Report {
    fn text(&self, rendering: Rendering) -> String {
        text::report(self, rendering)
    }
    fn json(&self, rendering: Rendering) -> String {
        json::report(self, rendering)
    }
    fn html(&self, rendering: Rendering) -> String {
        html::report(self, rendering)
    }
    fn csv(&self) -> Option<String> {
        Some(csv::reports([("", self)]))
    }
    fn pictures(&self) -> Vec<Picture> {
        figures::pictures(figures::of(self))
    }
    fn markdown(&self, _: Rendering) -> String {
        markdown::report(self)
    }
    fn junit(&self) -> Option<String> {
        Some(junit::reports([("", self)]))
    }
}

impl Presentable for SeveralRuns {
    fn text(&self, rendering: Rendering) -> String {
        text::side_by_side::several_runs(self, rendering)
    }
    fn json(&self, rendering: Rendering) -> String {
        json::several_runs(self, rendering)
    }
    fn html(&self, _: Rendering) -> String {
        html::several_runs(self)
    }
    fn csv(&self) -> Option<String> {
        Some(csv::reports(self.named()))
    }
    fn pictures(&self) -> Vec<Picture> {
        let runs: Vec<(&str, &Report)> = self.named().collect();
        figures::pictures(figures::side_by_side::of(&runs))
    }
    fn markdown(&self, _: Rendering) -> String {
        markdown::several_runs(self)
    }
    fn junit(&self) -> Option<String> {
        Some(junit::reports(self.named()))
    }
}

impl Presentable for ErrorReport {
    fn text(&self, rendering: Rendering) -> String {
        text::error(self, rendering.colour)
    }
    fn json(&self, rendering: Rendering) -> String {
        json::error(self, rendering)
    }
    fn csv(&self) -> Option<String> {
        Some(csv::error(self))
    }
    fn markdown(&self, _: Rendering) -> String {
        markdown::error(self)
    }
    fn junit(&self) -> Option<String> {
        Some(junit::error(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_of_files_is_asked_for_by_a_name_of_its_own() {
        let mut names: Vec<_> = Format::ALL.iter().map(|format| format.name).collect();
        names.dedup();
        assert_eq!(names, ["text", "json", "html", "csv", "markdown", "junit"]);
        assert!(Format::of_files().all(|format| format.reader == Reader::Program));
        assert_eq!(Format::for_people().reader, Reader::Person);
    }
}
