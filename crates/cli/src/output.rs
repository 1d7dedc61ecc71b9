//! Where results go: to standard output for people, in other formats to files or instead of that, progress to standard
//! error. Which formats there are is said by [`Format`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde::Serialize;
use wirebeat_archive::new_file::NewFile;
use wirebeat_report::document::{ErrorBody, ErrorReport};
use wirebeat_report::format::{Colour, Format, Presentable, Reader, Rendering, Results};
use wirebeat_report::json;
use wirebeat_report::metrics::RunMetrics;
use wirebeat_report::text::style::clean_page;
use wirebeat_run::{Bins, Exit, Observer, Options, PacketLogOptions, PacketLogRequest, Report};
use wirebeat_traffic::scenario::RunSpec;
use wirebeat_units::printable::printable_lines;
use wirebeat_units::{Fault, Nanos, fault};

use crate::failure::Failure;
use crate::file::is_standard;
use crate::metrics::{MetricsListener, MetricsObserver};
use crate::otlp::OtlpExporter;
use crate::pictures::PictureFolder;
use crate::progress::{self, Show};
use crate::tui::{self, Restore, ViewObserver, ViewedRun};
use crate::values;
use crate::watch::{WatchArgs, Watched, Watchers};

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The file name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// The files that results are written to, each in the format that its flag names.
#[derive(Clone, Debug, Default)]
pub struct ResultFiles(Vec<(&'static Format, PathBuf)>);

impl ResultFiles {
    /// Whether one of them is standard output.
    pub fn take_standard_output(&self) -> bool {
        self.0.iter().any(|(_, path)| is_standard(path))
    }

    /// Fails where two of them are one file.
    fn take_each_once(&self) -> Result<(), Failure> {
        for (place, (format, path)) in self.0.iter().enumerate() {
            let before = self.0[..place].iter().find(|(_, other)| other == path);
            if let Some((other, _)) = before.filter(|_| !is_standard(path)) {
                let why = format!("--{} goes to {} too", other.name, path.display());
                let failure = Failure::usage(why).at(format!("--{}", format.name));
                return Err(failure.hint("name another file for one of them"));
            }
        }
        Ok(())
    }

    /// Fails where several of them are.
    fn take_standard_output_once(&self) -> Result<(), Failure> {
        let mut standard = self.0.iter().filter(|(_, path)| is_standard(path));
        match (standard.next(), standard.next()) {
            (Some((first, _)), Some((second, _))) => {
                let why = format!("--{} goes to standard output too", first.name);
                let failure = Failure::usage(why).at(format!("--{}", second.name));
                Err(failure.hint("name a file for one of them"))
            }
            _ => Ok(()),
        }
    }
}

/// The same for results that are no report of a run.
#[derive(Clone, Debug, Default)]
pub struct AnswerFiles(pub ResultFiles);

/// The flags of these formats.
fn flags(command: Command, formats: impl Iterator<Item = &'static Format>) -> Command {
    command.args(formats.map(|format| {
        let flag = Arg::new(format.name).long(format.name).value_name("FILE").help(format!(
            "Write the result as {} to a file; without one, or with '-', to standard output, with nothing else",
            format.title
        ));
        let flag = flag.num_args(0..=1).default_missing_value(STANDARD_OUTPUT);
        let flag = flag.hide_short_help(format.results == Results::Reports);
        flag.value_parser(value_parser!(PathBuf))
    }))
}

/// The files that are asked for in these formats.
fn files_in(matches: &ArgMatches, formats: impl Iterator<Item = &'static Format>) -> ResultFiles {
    let path = |format: &Format| matches.get_one::<PathBuf>(format.name).cloned();
    ResultFiles(formats.filter_map(|format| Some((format, path(format)?))).collect())
}

/// The formats of results that are no report of a run.
fn of_answers() -> impl Iterator<Item = &'static Format> {
    Format::of_files().filter(|format| format.results == Results::Any)
}

impl FromArgMatches for ResultFiles {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(files_in(matches, Format::of_files()))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|files| *self = files)
    }
}

impl Args for ResultFiles {
    fn augment_args(command: Command) -> Command {
        flags(command, Format::of_files())
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AnswerFiles {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(AnswerFiles(files_in(matches, of_answers())))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|files| *self = files)
    }
}

impl Args for AnswerFiles {
    fn augment_args(command: Command) -> Command {
        flags(command, of_answers())
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// How any result is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Report")]
pub struct ResultArgs {
    #[command(flatten)]
    pub files: ResultFiles,
    /// Write the pictures of the page as SVG files into a folder, which is made if it is not there
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pictures: Option<PathBuf>,
    /// Write each of these pictures as a PNG file too, 1440 pixels wide
    #[arg(long, requires = "pictures", hide_short_help = true)]
    png: bool,
    /// Print every measurement, and where and how it took place, behind the summary
    #[arg(long)]
    details: bool,
    /// Write the histograms behind the percentiles into the JSON too
    #[arg(long)]
    histograms: bool,
}

impl From<&ResultArgs> for ReportArgs {
    fn from(result: &ResultArgs) -> ReportArgs {
        ReportArgs { result: result.clone(), ..ReportArgs::default() }
    }
}

impl From<&ResultFiles> for ReportArgs {
    fn from(files: &ResultFiles) -> ReportArgs {
        ReportArgs::from(&ResultArgs { files: files.clone(), ..ResultArgs::default() })
    }
}

/// How the result of a run is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    #[command(flatten)]
    pub result: ResultArgs,
    /// Count in intervals of this length, and print a line for each: 1s [default: 1s, without lines]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Nanos>,
    /// Print each interval as a line of JSON while it runs, and the report as the last line
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub json_lines: bool,
    /// Count inter-arrival times in bins too, where frames arrive: 100x1us
    ///
    /// Needs received frames: 'receive', 'demo', and scenarios whose flows have a 'to'. With --peer, give it to 'wirebeat
    /// receive' there.
    #[arg(long, value_name = "COUNTxWIDTH", value_parser = values::bins, hide_short_help = true)]
    pub bins: Option<Bins>,
    /// Write a row for each packet that arrives into a file: .parquet, .csv or .csv.zst
    ///
    /// 'wirebeat report' measures it once more, and DuckDB and pandas read it. Where nothing is received here, it has the packets
    /// that are sent.
    #[arg(long, value_name = "FILE", value_parser = packet_log, hide_short_help = true)]
    pub packet_log: Option<PacketLogOptions>,
    /// Put the packets that are sent into the packet log, too
    #[arg(long, requires = "packet_log", hide_short_help = true)]
    pub packet_log_sent: bool,
}

fn packet_log(text: &str) -> Result<PacketLogOptions, Fault> {
    PacketLogOptions::of(PathBuf::from(text))
}

fn interval(text: &str) -> Result<Nanos, Fault> {
    match text.parse::<Nanos>() {
        Ok(time) if time < RunSpec::SHORTEST_INTERVAL => {
            let least = RunSpec::SHORTEST_INTERVAL;
            Err(fault!("'{text}' is too short an interval"; "write {least} or more"))
        }
        read => read.map_err(|error| error.fault()),
    }
}

/// Where a result goes.
#[derive(Debug)]
enum Place {
    Standard,
    /// Standard error, where standard output has something else.
    Error,
    File(ResultFile),
    /// A file that has its result.
    Gone,
}

/// A file for a result.
#[derive(Debug)]
enum ResultFile {
    /// One that is there when it is whole, and not before: nothing is left of it, however the program ends.
    New(NewFile),
    /// One that was there, and cannot be replaced by another: a device, or in a folder of somebody else. It is as it was until the result is
    /// written into it.
    Old(File, PathBuf),
}

/// Where the results of a command go.
#[derive(Debug)]
pub struct Output {
    places: Vec<(&'static Format, Place)>,
    pictures: Option<PictureFolder>,
    /// Where a Prometheus server may look at a run.
    metrics: Option<MetricsListener>,
    /// What pushes to a collector of OpenTelemetry.
    otlp: Option<OtlpExporter>,
    /// Whether there is a live view of a run.
    tui: bool,
    /// Intervals go to standard output, too.
    lines: bool,
    interval: Option<Nanos>,
    bins: Option<Bins>,
    packet_log: Option<PacketLogRequest>,
    rendering: Rendering,
    command_line: Vec<String>,
}

impl Output {
    /// For a command line that cannot be understood.
    pub fn before_parsing(arguments: &[OsString]) -> Output {
        let lines = arguments.iter().any(|argument| argument == "--json-lines");
        let asked = Format::of_files().find(|format| asks_for(format, arguments));
        let asked = if lines { Some(Format::of_lines()) } else { asked };
        let places = vec![(asked.unwrap_or(Format::for_people()), Place::Standard)];
        let rendering = Rendering { one_line: lines, ..Rendering::default() };
        let command_line = recorded(arguments);
        let (interval, bins, packet_log) = (None, None, None);
        let (pictures, metrics, otlp, tui) = (None, None, None, false);
        Output {
            places,
            pictures,
            metrics,
            otlp,
            tui,
            lines,
            interval,
            bins,
            packet_log,
            rendering,
            command_line,
        }
    }

    /// As `args` ask, with those who `watch` a run. Files are made and ports are taken now: that one cannot be had has to be known
    /// before traffic starts. A report of an earlier run stays until this one's is whole.
    pub fn open(
        args: ReportArgs,
        watch: WatchArgs,
        arguments: &[OsString],
    ) -> Result<Output, Failure> {
        let ReportArgs { result, interval, json_lines: lines, bins, .. } = args;
        let ResultArgs { files, pictures, png, details, histograms } = result;
        let for_people = !files.take_standard_output();
        files.take_standard_output_once()?;
        files.take_each_once()?;
        if watch.tui {
            tui::check()?;
            lines_beside_a_view(lines, "--json-lines")?;
        }
        let mut places = Vec::new();
        let otlp = OtlpExporter::of(&watch.otlp)?;
        let metrics = MetricsListener::of(&watch.metrics)?;
        let pictures = pictures.map(|path| PictureFolder::open(path, png)).transpose()?;
        let sent = args.packet_log_sent;
        let packet_log = args.packet_log.map(|options| PacketLogRequest { options, sent });
        for (format, path) in files.0 {
            places.push((format, Place::open(format, path)?));
        }
        if lines {
            places.push((Format::of_lines(), Place::Standard));
        } else if for_people {
            places.push((Format::for_people(), Place::Standard));
        }
        let command_line = recorded(arguments);
        let rendering = Rendering { details, histograms, one_line: lines, colour: Colour::Never };
        Ok(Output {
            places,
            pictures,
            metrics,
            otlp,
            tui: watch.tui,
            lines,
            interval,
            bins,
            packet_log,
            rendering,
            command_line,
        })
    }

    /// Fails where a result would replace a file that the command reads, whatever it is called there.
    pub fn spares(&mut self, read: &Path) -> Result<(), Failure> {
        let id = |path: &Path| std::fs::metadata(path).ok().map(|of| (of.dev(), of.ino()));
        let Some(own) = id(read).filter(|_| !is_standard(read)) else { return Ok(()) };
        for (format, place) in &mut self.places {
            if let Place::File(file) = place
                && id(file.path()) == Some(own)
            {
                // nor does it get what is said of the failure
                *place = Place::Gone;
                let why = format!("the result would replace {}, which is read", read.display());
                let failure = Failure::usage(why).at(format!("--{}", format.name));
                return Err(failure.hint("write it to another file"));
            }
        }
        Ok(())
    }

    /// Whether standard output is read by a program, and nobody reads beside it.
    fn is_quiet(&self) -> bool {
        let for_people = |(format, _): &(&Format, Place)| format.reader == Reader::Person;
        !self.places.iter().any(for_people)
    }

    /// What a run has to know of how it is asked.
    pub fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            command_line: self.command_line.clone(),
            interval: self.interval,
            bins: self.bins,
            packet_log: self.packet_log.clone(),
            ..usual
        }
    }

    /// What shows the progress of a run to all who watch it. It may start threads, and take the terminal: call it last.
    ///
    /// # Errors
    /// This machine has no room for a thread, or the terminal does not do what it is asked for.
    pub fn observer(&mut self, run: Watched<'_>) -> Result<Box<dyn Observer>, Failure> {
        let mut watchers = Watchers::default();
        if let Some(listener) = self.metrics.take() {
            let metrics = RunMetrics::new(VERSION, run.seed);
            let metrics = MetricsObserver::start(listener, metrics)?;
            self.notice(&format!("metrics: {}", metrics.url()));
            watchers.observers.push(Box::new(metrics));
        }
        if let Some(exporter) = self.otlp.take() {
            self.notice(&format!("otlp: {}", exporter.target()));
            watchers.exporter = Some(exporter.start(RunMetrics::new(VERSION, run.seed))?);
        }
        if self.tui {
            let restore = Restore::default();
            run.signals.restore_at_end(restore.clone());
            let (stop, coloured) = (run.signals.stop().clone(), !is_plain());
            let (control, ports) = (run.control, run.ports);
            let viewed = ViewedRun { control, ports, stop, restore, coloured };
            watchers.observers.push(Box::new(ViewObserver::start(viewed)?));
        }
        match watchers.observers.is_empty() && watchers.exporter.is_none() {
            true => Ok(self.shown()),
            false => {
                watchers.observers.push(self.shown());
                Ok(Box::new(watchers))
            }
        }
    }

    /// Whether a live view is on the terminal, so that nothing else may be written there.
    pub fn has_view(&self) -> bool {
        self.tui
    }

    /// What shows it to the one who started it, and to nobody else.
    pub fn shown(&self) -> Box<dyn Observer> {
        self.shown_of(None)
    }

    /// The same of one of several runs, by its number from 1.
    pub fn shown_of(&self, run: Option<usize>) -> Box<dyn Observer> {
        progress::observer(match self.interval {
            _ if self.lines => Show::JsonLines(run),
            _ if self.tui => Show::Nothing,
            Some(_) => Show::Lines,
            None if self.is_quiet() => Show::Nothing,
            None if io::stderr().is_terminal() => Show::Bar,
            None => Show::Notices,
        })
    }

    /// A line for the person who waits.
    pub fn notice(&self, line: &str) {
        if !self.is_quiet() {
            tell(&format!("{line}\n"));
        }
    }

    /// Gives the report of a run, and says with what the program ends.
    pub fn report(&mut self, report: &Report) -> u8 {
        self.result(report.exit_code, report)
    }

    /// Gives a result in the formats that were asked for, whatever becomes of each; says with what a program ends that
    /// would end with `code`. A result that has reached no output goes to standard error, for people.
    pub fn result(&mut self, code: u8, result: &dyn Presentable) -> u8 {
        let rendering = self.rendering;
        let write = |(format, place): &mut (&Format, Place)| place.write(format, result, rendering);
        let written = self.places.iter_mut().map(write);
        let failures: Vec<Failure> = written.filter_map(Result::err).collect();
        failures.iter().for_each(|failure| tell(&failure.to_string()));
        if failures.len() == self.places.len() {
            let here = Rendering { colour: colour(), ..self.rendering };
            let page = Format::for_people().write(result, here);
            let _ = io::stderr().write_all(&page);
        }
        let pictures = self.pictures.as_ref().map(|folder| folder.write(&result.pictures()));
        let unpictured = pictures.and_then(Result::err);
        unpictured.iter().for_each(|failure| tell(&failure.to_string()));
        let all = failures.is_empty() && unpictured.is_none();
        let exit = if all { Exit::Done } else { Exit::Output };
        Exit::of(code).map_or(code, |own| own.and(exit).code())
    }

    /// Leaves standard output to something else: what would have gone there goes to standard error.
    pub fn spare_standard_output(&mut self) {
        for (_, place) in &mut self.places {
            if matches!(place, Place::Standard) {
                *place = Place::Error;
            }
        }
    }

    /// Says why there is no result.
    pub fn failure(&mut self, failure: &Failure) {
        let body = ErrorBody { message: failure.sentence(), exit_code: failure.exit_code() };
        let error = ErrorReport::new(VERSION.to_owned(), self.command_line.clone(), body);
        let of_programs = |(format, _): &&mut (&Format, Place)| format.reader == Reader::Program;
        let mut told = !self.is_quiet();
        for (format, place) in self.places.iter_mut().filter(of_programs) {
            told |= place.write(format, &error, self.rendering).is_err();
        }
        if told {
            tell(&failure.to_string());
        }
    }
}

/// Whether what a file holds may be replaced by a result: a scenario or an archive is not lost by a slip. What cannot be read is
/// left to the one who opens it.
fn may_replace(format: &Format, path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let head_of = |path: &Path| {
        let mut head = Vec::new();
        File::open(path)?.take(Format::HEAD as u64).read_to_end(&mut head).map(|_| head)
    };
    !is_file || head_of(path).map_or(true, |head| format.may_replace(&head))
}

impl Place {
    fn open(format: &Format, path: PathBuf) -> Result<Place, Failure> {
        if is_standard(&path) {
            return Ok(Place::Standard);
        }
        if !may_replace(format, &path) {
            let what = format!("there is a file already, which is no result in {}", format.name);
            return Err(Failure::usage(what)
                .at(format!("--{} {}", format.name, path.display()))
                .hint("name another file, or remove it first"));
        }
        let opened = match std::fs::symlink_metadata(&path).is_err() {
            true => NewFile::create(&path).map(ResultFile::New),
            false => NewFile::replace(&path).map(ResultFile::New).or_else(|_| {
                // of a link that leads nowhere, the file that it is to lead to
                let how = File::options().write(true).create(true).truncate(false).open(&path);
                how.map(|file| ResultFile::Old(file, path.clone()))
            }),
        };
        let file = opened.map_err(|error| {
            Failure::making(&error)
                .at(format!("--{} {}", format.name, path.display()))
                .hint("name a file in a folder that you may write to, or '-'")
        })?;
        Ok(Place::File(file))
    }

    /// That a person reads no further is no failure; a program that has only a part of a result has nothing.
    fn write(
        &mut self,
        format: &Format,
        result: &dyn Presentable,
        rendering: Rendering,
    ) -> Result<(), Failure> {
        let here = Rendering { colour: colour(), ..rendering };
        match self {
            Place::File(file) => {
                let saved = file.save(&format.write(result, rendering));
                // it has its name now
                if let ResultFile::New(_) = file {
                    *self = Place::Gone;
                }
                saved
            }
            // there is one result
            Place::Gone => Ok(()),
            Place::Error => {
                // nobody is left to be told that it cannot be written
                let _ = io::stderr().write_all(&format.write(result, here));
                Ok(())
            }
            Place::Standard => match written(&format.write(result, here)) {
                Err(error)
                    if format.reader == Reader::Program
                        || error.kind() != ErrorKind::BrokenPipe =>
                {
                    Err(unprinted(&error))
                }
                _ => Ok(()),
            },
        }
    }
}

impl ResultFile {
    fn path(&self) -> &Path {
        match self {
            ResultFile::New(file) => file.path(),
            ResultFile::Old(_, path) => path,
        }
    }

    /// Writes it. A part of a result is none: of a new one that cannot be written whole nothing is left.
    fn save(&mut self, result: &[u8]) -> Result<(), Failure> {
        let (written, path) = match self {
            ResultFile::New(file) => {
                (file.write_all(result).and_then(|()| file.keep()), file.path().to_owned())
            }
            ResultFile::Old(file, path) => {
                // a device has no length
                let _ = file.set_len(0);
                (file.write_all(result), path.clone())
            }
        };
        written.map_err(|error| {
            Failure::output(format!("cannot write the result: {error}"))
                .at(path.display().to_string())
        })
    }
}

/// The result of a command that makes no report.
pub struct Answer<T, F> {
    /// For programs.
    pub document: T,
    /// For people.
    pub text: F,
}

impl<T: Serialize, F: Fn(Colour) -> String> Presentable for Answer<T, F> {
    fn text(&self, rendering: Rendering) -> String {
        (self.text)(rendering.colour)
    }
    fn json(&self, _: Rendering) -> String {
        /// One version for the documents of all commands.
        #[derive(Serialize)]
        struct Versioned<'a, T> {
            schema_version: &'static str,
            wirebeat_version: &'static str,
            #[serde(flatten)]
            document: &'a T,
        }
        let (schema_version, wirebeat_version) = ("1", VERSION);
        json::pretty(&Versioned { schema_version, wirebeat_version, document: &self.document })
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
    match written(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unprinted(&error)),
        _ => Ok(()),
    }
}

/// Fails where the program was started without a standard output (`>&-`): what is written there is lost without an error.
pub fn has_standard_output() -> io::Result<()> {
    match wirebeat_run::had_standard_output() {
        true => Ok(()),
        false => Err(io::Error::other("it is closed")),
    }
}

/// Writes to standard output, at once.
pub fn written(bytes: &[u8]) -> io::Result<()> {
    has_standard_output()?;
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// What is said where standard output cannot be written.
pub fn unprinted(error: &io::Error) -> Failure {
    Failure::output(format!("cannot write the result: {error}")).at("standard output")
}

/// Writes to standard error, harmless whatever names are in it, and ends the line. If nobody reads it, nothing is lost.
pub fn tell(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = io::stderr().write_all(format!("{}{end}", printable_lines(text)).as_bytes());
}

/// Colours on a terminal, unless the reader wants none.
pub fn colour() -> Colour {
    if io::stdout().is_terminal() && !is_plain() { Colour::Ansi } else { Colour::Never }
}

/// Whether the reader wants no colours (<https://no-color.org>), or the terminal has none.
fn is_plain() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb")
}

/// Fails where lines that a flag asks for would be written into a live view.
pub fn lines_beside_a_view(asked: bool, flag: &str) -> Result<(), Failure> {
    if asked && io::stdout().is_terminal() {
        let why = "its lines go to the terminal, where the live view is";
        return Err(Failure::usage(why)
            .at(flag)
            .hint("write them to a file with '>', or leave --tui out"));
    }
    Ok(())
}

/// Whether a format is asked for on standard output, by the words alone.
fn asks_for(format: &Format, arguments: &[OsString]) -> bool {
    let flag = format!("--{}", format.name);
    let no_file = |word: Option<&OsString>| {
        word.is_none_or(|word| word.as_encoded_bytes().starts_with(STANDARD_OUTPUT.as_bytes()))
    };
    arguments.iter().enumerate().any(|(place, word)| {
        *word == *format!("{flag}={STANDARD_OUTPUT}")
            || *word == *flag && no_file(arguments.get(place + 1))
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

    /// On a full disk, or when the program was killed, a file of no bytes remained.
    #[test]
    fn a_new_file_is_there_when_its_result_is_whole_and_not_before() {
        let path = std::env::temp_dir().join(format!("wirebeat-json-{}", std::process::id()));
        let mut made = ResultFile::New(NewFile::create(&path).unwrap());
        assert!(!path.exists());
        made.save(b"{}").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        // not open for writing, so that nothing can be written
        let mut old = ResultFile::Old(File::open(&path).unwrap(), path.clone());
        assert!(old.save(b"[]").is_err() && path.exists());
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
            let asks = |format| asks_for(format, &words(line));
            assert_eq!(Format::of_files().any(asks), asked, "{line}");
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
