//! Where results go: a text for people to standard output, JSON to a file or instead of the text,
//! progress to standard error.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use wirebeat_report::document::{ErrorBody, ErrorReport};
use wirebeat_report::format::{Colour, Format, Rendering};
use wirebeat_report::text::style::clean_page;
use wirebeat_run::{Bins, Exit, Observer, Options, Report};
use wirebeat_units::Nanos;
use wirebeat_units::printable::{is_active, printable_lines};

use crate::failure::Failure;
use crate::progress::{self, Show};
use crate::values;

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The shortest interval between two lines of progress.
const INTERVAL_MIN: Nanos = Nanos::from_millis(10);
/// The file name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// How a result is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Write the report as JSON to a file; with '-', to standard output, with nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print every measurement of each flow, and where and how the run took place, behind the summary
    #[arg(long)]
    pub details: bool,
    /// Write the histograms behind the percentiles into the JSON too
    #[arg(long)]
    pub histograms: bool,
    /// Print a line of progress at this interval, for example 1s
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Nanos>,
    /// Count inter-arrival times in bins too, where frames arrive: 100x1us
    ///
    /// Needs received frames: 'receive', 'demo', and scenarios whose flows have a 'to'. With --peer, give it to 'wirebeat
    /// receive' there.
    #[arg(long, value_name = "COUNTxWIDTH", value_parser = values::bins)]
    pub bins: Option<Bins>,
}

fn interval(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if time < INTERVAL_MIN => {
            Err(format!("'{text}' is too short an interval; write {INTERVAL_MIN} or more"))
        }
        read => read.map_err(|error| error.to_string()),
    }
}

/// Where the JSON goes.
#[derive(Debug)]
enum Json {
    None,
    Standard,
    File(JsonFile),
}

/// A file for a result.
#[derive(Debug)]
struct JsonFile {
    file: File,
    path: PathBuf,
    /// It was not there before.
    made: bool,
}

/// Where the results of a command go.
#[derive(Debug)]
pub struct Output {
    json: Json,
    interval: Option<Nanos>,
    bins: Option<Bins>,
    rendering: Rendering,
    command_line: Vec<String>,
}

impl Output {
    /// For a command line that cannot be understood.
    pub fn before_parsing(arguments: &[OsString]) -> Output {
        let json = if asks_for_json(arguments) { Json::Standard } else { Json::None };
        let rendering = Rendering::default();
        Output { json, interval: None, bins: None, rendering, command_line: recorded(arguments) }
    }

    /// As `args` ask. The file is made now: that it cannot be written has to be known before traffic
    /// starts, and a report of an earlier run must not be taken for this one's.
    pub fn open(args: ReportArgs, arguments: &[OsString]) -> Result<Output, Failure> {
        let json = match args.json {
            None => Json::None,
            Some(path) if path.as_os_str() == STANDARD_OUTPUT => Json::Standard,
            Some(path) => {
                let made = std::fs::symlink_metadata(&path).is_err();
                let file = File::create(&path).map_err(|error| {
                    Failure::making(&error)
                        .at(format!("--json {}", path.display()))
                        .hint("name a file in a folder that you may write to, or '-'")
                })?;
                Json::File(JsonFile { file, path, made })
            }
        };
        let command_line = recorded(arguments);
        let ReportArgs { details, histograms, interval, bins, .. } = args;
        let rendering = Rendering { details, histograms, colour: Colour::Never };
        Ok(Output { json, interval, bins, rendering, command_line })
    }

    /// What a run has to know of how it is asked.
    pub fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            command_line: self.command_line.clone(),
            interval: self.interval.unwrap_or(usual.interval),
            bins: self.bins,
            ..usual
        }
    }

    /// What shows the progress of a run.
    pub fn observer(&self) -> Box<dyn Observer> {
        let quiet = matches!(self.json, Json::Standard);
        progress::observer(match self.interval {
            Some(_) => Show::Lines,
            None if quiet => Show::Nothing,
            None if io::stderr().is_terminal() => Show::Bar,
            None => Show::Notices,
        })
    }

    /// A line for the person who waits.
    pub fn notice(&self, line: &str) {
        if !matches!(self.json, Json::Standard) {
            tell(&format!("{line}\n"));
        }
    }

    /// Gives the report of a run, and says with what the program ends.
    pub fn report(&mut self, report: &Report) -> u8 {
        let json = self.rendering;
        self.result(
            report.exit_code,
            || Format::Text.report(report, Rendering { colour: colour(), ..json }),
            || Format::Json.report(report, json),
        )
    }

    /// Gives a result in the form, or the forms, that were asked for, whatever becomes of each; says with what a
    /// program ends that would end with `code`. A result that has reached no output goes to standard error as text.
    pub fn result(
        &mut self,
        code: u8,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> String,
    ) -> u8 {
        let (written, text) = match &mut self.json {
            Json::Standard => (vec![print_document(&json())], Unprinted::Yes(text)),
            Json::None => {
                let text = text();
                (vec![print(&text)], Unprinted::Text(text))
            }
            Json::File(file) => {
                let saved = file.save(&json());
                let text = text();
                (vec![saved, print(&text)], Unprinted::Text(text))
            }
        };
        let failures: Vec<&Failure> =
            written.iter().filter_map(|written| written.as_ref().err()).collect();
        failures.iter().for_each(|failure| tell(&failure.to_string()));
        if failures.len() == written.len() {
            tell_page(&text.text());
        }
        let exit = if failures.is_empty() { Exit::Done } else { Exit::Output };
        Exit::of(code).map_or(code, |own| own.and(exit).code())
    }

    /// Says why there is no result.
    pub fn failure(&mut self, failure: &Failure) {
        let body = ErrorBody { message: failure.sentence(), exit_code: failure.exit_code() };
        let error = ErrorReport::new(VERSION.to_owned(), self.command_line.clone(), body);
        let json = Format::Json.error(&error, Colour::Never);
        match &mut self.json {
            Json::Standard => {
                if print(&json).is_err() {
                    tell(&failure.to_string());
                }
            }
            Json::None => tell(&failure.to_string()),
            Json::File(file) => {
                tell(&failure.to_string());
                drop(file.save(&json));
            }
        }
    }
}

impl JsonFile {
    /// Writes it. A part of a result is none: one that cannot be written whole is removed, if there was no such file before.
    fn save(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| {
            if self.made {
                // that it cannot be removed either is no worse
                let _ = std::fs::remove_file(&self.path);
            }
            Failure::output(&format!("cannot write the result: {error}"))
                .at(self.path.display().to_string())
        })
    }
}

/// The text of a result, made or not yet.
enum Unprinted<F> {
    Yes(F),
    Text(String),
}

impl<F: FnOnce() -> String> Unprinted<F> {
    fn text(self) -> String {
        match self {
            Unprinted::Yes(make) => make(),
            Unprinted::Text(text) => text,
        }
    }
}

/// Writes a text to standard output, harmless whatever names are in it. That a person reads no further is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    told(&clean_page(text, colour()))
}

/// Writes a text that a program may read to standard output: as it is, but on a terminal.
pub fn print_data(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(text) } else { told(text) }
}

fn told(text: &str) -> Result<(), Failure> {
    match written(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unprinted(&error)),
        _ => Ok(()),
    }
}

/// Writes a document to standard output: a program that has only a part of it has nothing.
fn print_document(json: &str) -> Result<(), Failure> {
    written(&escaped(json)).map_err(|error| unprinted(&error))
}

/// JSON that is the same, with everything in its texts escaped that would act on a terminal.
fn escaped(json: &str) -> Cow<'_, str> {
    let acts = |c: char| is_active(c) && !matches!(c, '\n' | '\t');
    if !json.contains(acts) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // all of them have sixteen bits
        if acts(c) { out += &format!("\\u{:04x}", u32::from(c)) } else { out.push(c) }
    }
    out.into()
}

/// Fails where the program was started without a standard output (`>&-`): what is written there is lost without an error.
pub fn has_standard_output() -> io::Result<()> {
    match wirebeat_run::had_standard_output() {
        true => Ok(()),
        false => Err(io::Error::other("it is closed")),
    }
}

fn written(text: &str) -> io::Result<()> {
    has_standard_output()?;
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn unprinted(error: &io::Error) -> Failure {
    Failure::output(&format!("cannot write the result: {error}")).at("standard output")
}

/// Writes to standard error, harmless whatever names are in it, and ends the line. If nobody reads it, nothing is lost.
pub fn tell(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = io::stderr().write_all(format!("{}{end}", printable_lines(text)).as_bytes());
}

/// A page that was made for standard output.
fn tell_page(text: &str) {
    let _ = io::stderr().write_all(clean_page(text, colour()).as_bytes());
}

/// Colours on a terminal, unless the reader wants none (<https://no-color.org>).
pub fn colour() -> Colour {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let plain = set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !plain { Colour::Ansi } else { Colour::Never }
}

/// Whether JSON is asked for on standard output, by the words alone.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().enumerate().any(|(place, argument)| {
        argument == "--json=-"
            || (argument == "--json"
                && arguments.get(place + 1).is_none_or(|next| next == STANDARD_OUTPUT))
    })
}

/// The command line as it may be shown to anybody: a key is a secret.
fn recorded(arguments: &[OsString]) -> Vec<String> {
    const HIDDEN: &str = "***";
    let mut secret = false;
    let record = |argument: &OsStr| {
        let argument = argument.to_string_lossy();
        if std::mem::replace(&mut secret, argument == "--key") {
            return HIDDEN.to_owned();
        }
        match argument.strip_prefix("--key=") {
            Some(_) => format!("--key={HIDDEN}"),
            None => argument.into_owned(),
        }
    };
    arguments.iter().map(OsString::as_os_str).map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn json_on_a_terminal_says_the_same_and_does_nothing() {
        let json = "{\n  \"a\": \"x\u{9b}2J\u{202e}\"\n}\n";
        let harmless = escaped(json);
        assert!(!harmless.contains(|c| is_active(c) && c != '\n'));
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&harmless), read(json));
    }

    /// On a full disk a file of no bytes remained.
    #[test]
    fn a_result_that_cannot_be_written_leaves_no_file_of_its_own() {
        let path = std::env::temp_dir().join(format!("wirebeat-json-{}", std::process::id()));
        for made in [true, false] {
            std::fs::write(&path, "").unwrap();
            // not open for writing, so that nothing can be written
            let file = File::open(&path).unwrap();
            let mut json = JsonFile { file, path: path.clone(), made };
            assert!(json.save("{}").is_err());
            assert_eq!(path.exists(), !made);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn keys_are_not_recorded() {
        for (given, shown) in [
            ("wirebeat send --key s3cret --to x", "wirebeat send --key *** --to x"),
            ("wirebeat send --key=s3cret", "wirebeat send --key=***"),
            ("wirebeat send --key-file f", "wirebeat send --key-file f"),
        ] {
            assert_eq!(recorded(&words(given)).join(" "), shown);
        }
    }

    #[test]
    fn json_is_recognised_in_a_command_line_that_is_wrong() {
        for (line, asked) in [
            ("wirebeat send --json - --bad", true),
            ("wirebeat send --bad --json=-", true),
            ("wirebeat doctor --json", true),
            ("wirebeat send --json out.json --bad", false),
            ("wirebeat send --bad -", false),
        ] {
            assert_eq!(asks_for_json(&words(line)), asked, "{line}");
        }
    }

    #[test]
    fn intervals_leave_time_to_read() {
        assert_eq!(interval("1s"), Ok(Nanos::from_secs(1)));
        for text in ["0", "1ms", "1", "x"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
