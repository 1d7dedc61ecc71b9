//! JSON: the model as it is, indented, with one array of numbers on one line.
//!
//! Numbers are plain decimals: no exponents, and nothing that is no number. `docs/report.schema.json`
//! describes the document.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::document::ErrorReport;
use crate::format::Colour;
use crate::model::Report;

/// Writes a report.
pub fn report(report: &Report, _: Colour) -> String {
    write(report)
}

/// Writes an error.
pub fn error(error: &ErrorReport, _: Colour) -> String {
    write(error)
}

/// `value` as JSON text that ends with a newline.
pub(crate) fn write(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Layout::default());
    let written = value.serialize(&mut serializer);
    // Memory takes all that is written to it, the model has no maps and JSON is UTF-8, so neither step
    // can fail. If one did, `null` would be better than half a document.
    let text = written.ok().and_then(|()| String::from_utf8(out).ok());
    text.unwrap_or_else(|| "null".to_owned()) + "\n"
}

/// Objects over several lines, arrays of plain values on one.
#[derive(Debug, Default)]
struct Layout {
    depth: usize,
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
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
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
            self.depth -= 1;
            self.new_line(to)?;
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
        self.depth -= 1;
        self.new_line(to)?;
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
}
