//! Why a recording has nothing to send, and what it has instead: nearest device names, the times of its records.
//!
//! Only looked at when a reader came to the end without a record, so it may read the files once more. It decides nothing.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use wirebeat_archive::capture::Frames;
use wirebeat_archive::select::{DeviceFilter, Pattern, Selection};
use wirebeat_archive::time_series::{self, Reader, Reading, Timestamp};
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::replay::{Side, Truncated};
use wirebeat_traffic::text::hint::nearest;
use wirebeat_units::{Fault, fault, human};

use super::Recording;
use super::source::{SCANNED, index};

/// The number of devices that are named where no two are alike.
const NAMED: usize = 6;
/// The number of devices that are kept to be compared.
const COMPARED: usize = 100_000;

/// What is in the files of a recording.
#[derive(Default)]
struct Content {
    /// Records or frames.
    records: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    devices: BTreeSet<time_series::Device>,
    names: time_series::Names,
    /// A file was too long to be read again for this.
    unknown: bool,
}

/// Why there was nothing to send of `recording`.
pub(super) fn why(recording: &Recording, selection: &Selection) -> Fault {
    let replay = &recording.replay;
    let mut content = Content::default();
    for path in &recording.paths {
        match replay.is_capture() {
            true => content.add_capture(path),
            false => content.add_archive(path),
        }
    }
    let files = match recording.paths.as_slice() {
        [only] => format!("'{}'", only.display()),
        several => format!("any of {} files", several.len()),
    };
    let what = if replay.is_capture() { "frame" } else { "record" };
    if content.records == 0 && !content.unknown {
        return fault!("nothing to send: there is no {what} in {files}");
    }
    match replay.is_capture() {
        true => no_frame(replay, &content, &files),
        false => no_record(replay, selection, &content, &files),
    }
}

fn no_record(replay: &Replay, selection: &Selection, content: &Content, files: &str) -> Fault {
    let wanted = || replay.devices.iter().map(String::as_str);
    if content.unknown {
        let asked = asked(replay).unwrap_or_else(|| "what was asked for".to_owned());
        return fault!(
            "nothing to send: no record in {files} matches {asked}";
            "'wirebeat archive inspect --devices' says what there is"
        );
    }
    let is_there = |name: &str| {
        let pattern = name.parse::<Pattern>().ok().map(|one| DeviceFilter::from_iter([one]));
        pattern.is_some_and(|one| content.devices.iter().any(|device| one.has(*device)))
    };
    let mut missing = wanted().filter(|name| !is_there(name)).peekable();
    // of several devices one may be there, at another time
    if missing.peek().is_some() && wanted().all(|name| !is_there(name)) {
        let name = |device: &time_series::Device| {
            let long = content.names.get(*device).map(str::to_owned);
            long.unwrap_or_else(|| device.to_string())
        };
        let names: Vec<String> = content.devices.iter().map(name).collect();
        let missing: Vec<&str> = missing.collect();
        let what =
            format!("nothing to send: there is no device '{}' in {files}", missing.join("', '"));
        return Fault { what, hint: alike(missing.first().copied().unwrap_or_default(), &names) };
    }
    if selection.from.is_some() || selection.to.is_some() {
        let of = match replay.devices.as_slice() {
            [] => String::new(),
            devices => format!(" of '{}'", devices.join("', '")),
        };
        return fault!(
            "nothing to send: no record{of} in {files} lies {}", span(replay);
            "{}", content.times("its records")
        );
    }
    fault!("nothing to send of {files}")
}

fn no_frame(replay: &Replay, content: &Content, files: &str) -> Fault {
    let frames = match content.unknown {
        true => format!("no frame in {files}"),
        false => format!("none of {} frames in {files}", content.records),
    };
    let asked = asked(replay).unwrap_or_else(|| "what was asked for".to_owned());
    let hint = match (replay.from, replay.to) {
        (None, None) => None,
        _ if content.unknown => None,
        _ => Some(content.times("they")),
    };
    Fault { what: format!("nothing to send: {frames} matches {asked}"), hint }
}

/// All that was asked for, in words.
fn asked(replay: &Replay) -> Option<String> {
    let mut all = Vec::new();
    if !replay.devices.is_empty() {
        all.push(format!("the devices '{}'", replay.devices.join("', '")));
    }
    if let Some(filter) = &replay.filter {
        all.push(format!("the filter '{filter}'"));
    }
    match replay.side {
        Some(Side::Client) => all.push("the side 'client'".to_owned()),
        Some(Side::Server) => all.push("the side 'server'".to_owned()),
        None => {}
    }
    if replay.truncated == Truncated::Skip {
        all.push("frames captured whole".to_owned());
    }
    if replay.from.is_some() || replay.to.is_some() {
        all.push(format!("times {}", span(replay)));
    }
    (!all.is_empty()).then(|| all.join(" and "))
}

/// The times that were asked for.
fn span(replay: &Replay) -> String {
    match (replay.from, replay.to) {
        (Some(from), Some(to)) => format!("from {from} until {to}"),
        (Some(from), None) => format!("at {from} or after it"),
        (None, Some(to)) => format!("before {to}"),
        (None, None) => String::new(),
    }
}

/// The name that is most like `word`, or some there are.
fn alike(word: &str, names: &[String]) -> Option<String> {
    let word = word.strip_suffix('*').unwrap_or(word);
    if let Some(name) = nearest(word, names.iter().map(String::as_str)) {
        return Some(format!("did you mean '{name}'?"));
    }
    match names.len() {
        0 => None,
        1..=NAMED => Some(human::present(names)),
        all => Some(format!("there are {} and {} others", names[..NAMED].join(", "), all - NAMED)),
    }
}

impl Content {
    fn times(&self, what: &str) -> String {
        match (self.first, self.last) {
            (Some(first), Some(last)) => format!("{what} are from {first} to {last}"),
            _ => format!("{what} have no times"),
        }
    }

    fn take(&mut self, time: Timestamp) {
        self.records += 1;
        if self.first.is_none_or(|first| time < first) {
            self.first = Some(time);
        }
        if self.last.is_none_or(|last| time > last) {
            self.last = Some(time);
        }
    }

    /// By its index, or by reading it.
    fn add_archive(&mut self, path: &Path) {
        let Some(file) = self.open(path) else { return };
        if let Ok(Some(index)) = index(path, &file) {
            let survey = index.survey;
            let before = self.records;
            survey.first.into_iter().chain(survey.last).for_each(|time| self.take(time));
            self.records = before + survey.records;
            self.names = survey.devices.names();
            let devices = survey.devices.listed.iter().map(|of| of.device);
            self.devices.extend(devices.take(COMPARED));
            return;
        }
        if file.metadata().map_or(0, |meta| meta.len()) > SCANNED {
            self.unknown = true;
            return;
        }
        let reading =
            Reading { on_bad: time_series::OnBad::Skip, any_order: true, ..Reading::default() };
        let mut reader = Reader::new(file, path.display().to_string(), reading);
        while let Ok(Some(record)) = reader.read() {
            self.take(record.time);
            if self.devices.len() < COMPARED {
                self.devices.insert(record.device);
            }
        }
        self.names = reader.names().clone();
    }

    fn add_capture(&mut self, path: &Path) {
        let Some(file) = self.open(path) else { return };
        if file.metadata().map_or(0, |meta| meta.len()) > SCANNED {
            self.unknown = true;
            return;
        }
        let mut frames = Frames::new(file, path.display().to_string(), time_series::OnBad::Skip);
        while let Ok(true) = frames.advance() {
            match frames.frame().time_ns.map(|ns| Timestamp::utc(ns.div_euclid(1000))) {
                Some(Ok(time)) => self.take(time),
                _ => self.records += 1,
            }
        }
    }

    /// Only what can be read twice.
    fn open(&mut self, path: &Path) -> Option<File> {
        let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
        let file = is_file.then(|| File::open(path).ok()).flatten();
        self.unknown |= file.is_none();
        file
    }
}
