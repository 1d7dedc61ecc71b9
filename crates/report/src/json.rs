//! JSON: the model as it is, indented, with one array of numbers on one line.
//!
//! Numbers are plain decimals: no exponents, and nothing that is not a number. `docs/report.schema.json`
//! describes the document.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use wirebeat_units::printable::is_active;

use crate::document::ErrorReport;
use crate::format::Rendering;
use crate::model::{Interval, Report};
use crate::several_runs::{NamedRun, SeveralRuns};
use crate::stats::StatsLine;
use crate::test_report::{TEST_SCHEMA_VERSION, TestReport};

/// With more flows than this each takes one line, which halves the text.
const FLOWS: usize = 100;
/// How deep the elements of a list of flows are.
const FLOW_DEPTH: usize = 2;

/// Writes a report.
pub(crate) fn report(report: &Report, rendering: Rendering) -> String {
    let deepest = match report.flows.len() {
        _ if rendering.one_line => 0,
        flows if flows > FLOWS => FLOW_DEPTH,
        _ => usize::MAX,
    };
    match rendering.histograms {
        true => write_lines(report, deepest),
        false => write_lines(&report.clone().without_histograms(), deepest),
    }
}

/// Writes runs side by side.
pub(crate) fn several_runs(several_runs: &SeveralRuns, rendering: Rendering) -> String {
    let without = |run: &NamedRun| NamedRun {
        name: run.name.clone(),
        report: run.report.clone().without_histograms(),
    };
    let deepest = if rendering.one_line { 0 } else { usize::MAX };
    if rendering.histograms {
        return write_lines(several_runs, deepest);
    }
    let runs = several_runs.runs.iter().map(without).collect();
    write_lines(&SeveralRuns::new(several_runs.wirebeat_version.clone(), runs), deepest)
}

/// Writes an interval, as one line, without the histograms that one who watches a run may ask for; of one of several runs with its number.
pub fn interval(interval: &Interval, run: Option<usize>) -> String {
    #[derive(serde::Serialize)]
    struct Line<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        run: Option<usize>,
        #[serde(flatten)]
        interval: &'a Interval,
    }
    match interval.has_histograms() {
        true => write_lines(&Line { run, interval: &interval.clone().without_histograms() }, 0),
        false => write_lines(&Line { run, interval }, 0),
    }
}

/// Reads a test that was written as JSON.
///
/// # Errors
/// Why it is none, in a sentence.
pub fn parse_test(json: &[u8]) -> Result<TestReport, String> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema_version: String,
        #[serde(default)]
        test: Option<String>,
    }
    match serde_json::from_slice::<Head>(json) {
        Ok(Head { schema_version, test: Some(_) }) if schema_version != TEST_SCHEMA_VERSION => {
            Err(format!(
                "it is a test of schema version '{schema_version}', and this program reads {TEST_SCHEMA_VERSION}"
            ))
        }
        _ => serde_json::from_slice(json)
            .map_err(|error| format!("it is not the JSON of a test: {error}")),
    }
}

/// Writes a line of the statistics of a run that goes on.
pub fn stats_line(line: &StatsLine) -> String {
    write_lines(line, 0)
}

/// Writes an error.
pub(crate) fn error(error: &ErrorReport, rendering: Rendering) -> String {
    write_lines(error, if rendering.one_line { 0 } else { usize::MAX })
}

/// `value` as JSON text that ends with a newline, in the usual layout.
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).map_or_else(|_| nothing(), |text| finished(&text))
}

/// The same, or one line where that is wanted.
pub(crate) fn pretty_or_line(value: &impl Serialize, rendering: Rendering) -> String {
    if rendering.one_line { write_lines(value, 0) } else { pretty(value) }
}

/// `value` as JSON text that ends with a newline.
#[cfg(test)]
pub(crate) fn write(value: &impl Serialize) -> String {
    write_lines(value, usize::MAX)
}

/// `value` as JSON text that ends with a newline; what lies deeper than `deepest` begins no line.
fn write_lines(value: &impl Serialize, deepest: usize) -> String {
    let mut out = Vec::new();
    let layout = Layout { depth: 0, deepest, open: Vec::new() };
    let mut serializer = Serializer::with_formatter(&mut out, layout);
    let written = value.serialize(&mut serializer);
    let text = written.ok().and_then(|()| String::from_utf8(out).ok());
    text.map_or_else(nothing, |text| finished(&text))
}

/// Memory takes all that is written to it, the models have no maps with odd keys and JSON is UTF-8, so no step can fail. If
/// one did, `null` would be better than half a document.
fn nothing() -> String {
    "null\n".to_owned()
}

/// JSON that says the same, with everything in its texts escaped that would act on a terminal, and the end of its line.
fn finished(json: &str) -> String {
    let acts = |c: char| is_active(c) && !matches!(c, '\n' | '\t');
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        // all of them have sixteen bits
        if acts(c) { out += &format!("\\u{:04x}", u32::from(c)) } else { out.push(c) }
    }
    out + "\n"
}

/// Objects over several lines, arrays of plain values on one.
#[derive(Debug)]
struct Layout {
    depth: usize,
    deepest: usize,
    open: Vec<Open>,
}

/// What has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Object,
    /// An array that is on one line so far.
    Line,
    /// An array of objects.
    Lines,
}

impl Layout {
    fn new_line<W: ?Sized + io::Write>(&self, to: &mut W) -> io::Result<()> {
        if self.depth > self.deepest {
            return Ok(());
        }
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Layout {
    /// What is inside has ended: what closes it stands on a line of its own if that did.
    fn close<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        let inside = self.depth;
        self.depth -= 1;
        if inside > self.deepest { Ok(()) } else { self.new_line(to) }
    }
}

impl Formatter for Layout {
    fn write_f64<W: ?Sized + io::Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        write!(to, "{value}")
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open.push(Open::Line);
        to.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        match self.open.last() {
            _ if first => Ok(()),
            Some(Open::Lines) => to.write_all(b","),
            _ => to.write_all(b", "),
        }
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.open.pop() == Some(Open::Lines) {
            self.close(to)?;
        }
        to.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        if let Some(array) = self.open.last_mut().filter(|open| **open != Open::Object) {
            if *array == Open::Line {
                *array = Open::Lines;
                self.depth += 1;
            }
            self.new_line(to)?;
        }
        self.open.push(Open::Object);
        self.depth += 1;
        to.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.new_line(to)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open.pop();
        self.close(to)?;
        to.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn arrays_of_plain_values_are_on_one_line() {
        let value = json!({ "a": [[1, 2], [3, 4]], "b": [{ "c": [] }, { "d": { "e": null } }] });
        let expected = r#"{
  "a": [[1, 2], [3, 4]],
  "b": [
    {
      "c": []
    },
    {
      "d": {
        "e": null
      }
    }
  ]
}
"#;
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn what_lies_deep_is_on_one_line() {
        let value =
            json!({ "flows": [{ "a": [{ "b": 1, "c": {} }] }, { "a": 2 }], "d": { "e": 1 } });
        let expected = r#"{
  "d": {
    "e": 1
  },
  "flows": [
    {"a": [{"b": 1,"c": {}}]},
    {"a": 2}
  ]
}
"#;
        let text = write_lines(&value, FLOW_DEPTH);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_are_plain_decimals() {
        let numbers = [1e-9, 1e21, 0.0, -2.5, f64::NAN, f64::INFINITY];
        let text = write(&numbers);
        assert_eq!(text, "[0.000000001, 1000000000000000000000, 0, -2.5, null, null]\n");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(write(&"a\"\n\u{1b}é"), "\"a\\\"\\n\\u001bé\"\n");
    }

    #[test]
    fn json_on_a_terminal_says_the_same_and_does_nothing() {
        let text = "x\u{9b}2J\u{202e}";
        let harmless = write(&json!({ "a": text }));
        assert!(!harmless.contains(|c| is_active(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&harmless).unwrap()["a"], text);
    }
}
