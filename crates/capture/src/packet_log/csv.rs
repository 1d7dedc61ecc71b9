//! The log as text, a row for each packet (RFC 4180): for logs of some hundred thousand packets, and for programs without
//! Parquet. The first line names the columns; no value is an empty field. Names come from users, so that no field acts in a
//! spreadsheet or a terminal, as in the CSV of reports.

use std::io::{self, Write};
use std::path::PathBuf;

use wirebeat_units::printable::csv_field as field;
use wirebeat_units::{Nanos, WallTime};

use super::columns::{COLUMNS, NOTES, outcome_names, outcome_number};
use super::logged_run::LogHead;
use super::rows::Measures;
use super::{whole_lines, write_text};
use crate::seen::{InterfaceCounts, Seen};
use crate::sink::{Sink, Written};

/// Bytes of text that are written at once; packed, they are a frame of Zstandard (RFC 8878) by themselves.
const GATHERED: usize = 1 << 20;
/// How long lines are gathered, so that a program that is killed loses no more.
const GATHERED_NS: u64 = 1_000_000_000;
const ZSTD_LEVEL: i32 = 3;
const SECOND_NS: u64 = 1_000_000_000;

/// How the text lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zstd,
}

/// Writes the log.
pub(super) struct CsvLog {
    to: Box<dyn Write + Send>,
    path: Option<PathBuf>,
    packing: Packing,
    ports: Vec<String>,
    /// By flow number, quoted where that is needed.
    flows: Vec<Option<Box<str>>>,
    outcomes: Vec<&'static str>,
    text: Vec<u8>,
    lines: u64,
    written: Written,
    /// When text was written last, in nanoseconds since 1970.
    written_ns: u64,
    second: Second,
    broken: bool,
}

/// A second as text, which most lines share with the one before.
#[derive(Debug, Default)]
struct Second {
    unix: Option<u64>,
    text: String,
}

impl Second {
    /// Appends a moment: RFC 3339 with nine digits behind the second, in all lines.
    fn write(&mut self, unix_ns: u64, to: &mut Vec<u8>) -> io::Result<()> {
        let second = unix_ns / SECOND_NS;
        if self.unix != Some(second) {
            self.unix = Some(second);
            self.text = WallTime::from_unix(Nanos::new(second * SECOND_NS)).to_string();
            self.text.truncate(self.text.trim_end_matches('Z').len());
        }
        write!(to, "{}.{:09}Z", self.text, unix_ns % SECOND_NS)
    }
}

impl CsvLog {
    /// Begins the log: the names of the columns.
    pub(super) fn new(
        to: Box<dyn Write + Send>,
        path: Option<PathBuf>,
        packing: Packing,
        head: &LogHead,
    ) -> CsvLog {
        let mut flows = vec![None; 1 << 16];
        for (number, name) in &head.flows {
            flows[usize::from(*number)] = Some(field(name).into());
        }
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        CsvLog {
            to,
            packing,
            ports: head.ports.iter().map(|port| field(&port.name)).collect(),
            flows,
            outcomes: outcome_names().collect(),
            text: format!("{}\n", names.join(",")).into_bytes(),
            lines: 0,
            written: Written { files: path.iter().cloned().collect(), ..Written::default() },
            path,
            written_ns: head.started_unix_ns,
            second: Second::default(),
            broken: false,
        }
    }

    fn line(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let text = &mut self.text;
        self.second.write(seen.unix_ns, text)?;
        let port = self.ports.get(usize::from(seen.interface)).map_or("", String::as_str);
        let outcome = self.outcomes.get(usize::from(outcome_number(seen.outcome)));
        let outcome = outcome.copied().unwrap_or_default();
        write!(text, ",{},{port},{},{outcome},", seen.at.get().cast_signed(), seen.queue)?;
        let name = seen.flow.and_then(|number| self.flows[usize::from(number)].as_deref());
        text.extend_from_slice(name.unwrap_or_default().as_bytes());
        let signed = |time: Nanos| time.get().cast_signed();
        let Measures { payload, packet_size, fragments, note } = Measures::of(seen);
        optional(text, seen.flow)?;
        optional(text, seen.sequence)?;
        optional(text, seen.sent.map(signed))?;
        optional(text, seen.due.map(signed))?;
        optional(text, seen.delay_ns())?;
        write!(text, ",{}", seen.frame_len)?;
        optional(text, payload)?;
        optional(text, packet_size)?;
        optional(text, fragments)?;
        optional(text, note.and_then(|note| NOTES.get(usize::from(note))))?;
        text.push(b'\n');
        Ok(())
    }

    /// Writes what was gathered.
    fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() || self.broken {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let head = u64::from(self.written.bytes == 0);
        let (bytes, kept, written) = match self.packing {
            Packing::None => {
                let (bytes, written) = write_text(&mut *self.to, &self.text);
                // the names of the columns stand before the first
                let kept = whole_lines(&self.text, bytes).saturating_sub(head).min(lines);
                (bytes, kept, written)
            }
            Packing::Zstd => match zstd::bulk::compress(&self.text, ZSTD_LEVEL) {
                Ok(packed) => {
                    let (bytes, written) = write_text(&mut *self.to, &packed);
                    // a part of a frame of Zstandard is not read
                    (bytes, if bytes == packed.len() { lines } else { 0 }, written)
                }
                Err(error) => (0, 0, Err(error)),
            },
        };
        self.text.clear();
        self.written.bytes += bytes as u64;
        self.written.frames += kept;
        self.written.lost += lines - kept;
        self.broken = written.is_err();
        written
    }
}

/// Appends a field that may be empty.
fn optional(text: &mut Vec<u8>, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(text, ",{value}"),
        None => {
            text.push(b',');
            Ok(())
        }
    }
}

impl Sink for CsvLog {
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        if self.broken {
            self.written.lost += 1;
            return Ok(());
        }
        self.line(seen)?;
        self.lines += 1;
        if self.text.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn pause(&mut self, unix_ns: u64, _counts: &[InterfaceCounts]) -> io::Result<()> {
        // who reads a pipe waits for lines
        let waits = self.path.is_none() || unix_ns.saturating_sub(self.written_ns) >= GATHERED_NS;
        if !waits {
            return Ok(());
        }
        self.written_ns = unix_ns;
        self.flush()
    }

    fn written(&self) -> Written {
        self.written.clone()
    }

    fn finish(&mut self, _unix_ns: u64, _counts: &[InterfaceCounts]) -> io::Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_nine_digits() {
        let (mut second, mut text) = (Second::default(), Vec::new());
        for unix_ns in [0, 1, SECOND_NS - 1, SECOND_NS, 1_795_404_317_000_000_000] {
            second.write(unix_ns, &mut text).unwrap();
            text.push(b' ');
        }
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "1970-01-01T00:00:00.000000000Z 1970-01-01T00:00:00.000000001Z \
             1970-01-01T00:00:00.999999999Z 1970-01-01T00:00:01.000000000Z \
             2026-11-23T03:25:17.000000000Z "
        );
    }
}
