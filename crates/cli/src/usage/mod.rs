//! What is wrong with a command line, in the form that all failures have.
//!
//! clap finds the mistakes; its findings are put into our words here, so that every wrong argument gets
//! one message with what, where and how. A line in the flags of another tool is answered with ours (`foreign.rs`).

mod foreign;
mod iperf;
mod tcpreplay;

use std::error::Error as _;
use std::ffi::OsString;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use wirebeat_archive::time_series::BadTime;
use wirebeat_archive::time_series::device::BadDevice;
use wirebeat_run::MacAddr;
use wirebeat_units::{Fault, UnitError};

use crate::command::NAME;
use crate::failure::Failure;

/// Most words that a hint lists.
const LISTED_MAX: usize = 12;

/// Other words for a subcommand.
const SYNONYMS: &[(&str, &str)] = &[
    ("info", "inspect"),
    ("show", "inspect"),
    ("list", "inspect"),
    ("dump", "export"),
    ("cut", "slice"),
    ("listen", "receive"),
    ("server", "receive"),
    ("client", "send"),
];

/// Flags of other tools (iperf, iperf3, wrk, ab, curl), the command that they are written to, and what says the same there.
const HABITS: &[(&str, &[&str], &str)] = &[
    (
        "load",
        &["-c", "--connections"],
        "write --users 50 for 50 sessions at a time; for a server of iperf3: --iperf3 HOST",
    ),
    ("load", &["-P", "--parallel"], "write --streams 4, with --program bulk or --iperf3"),
    ("load", &["-t", "-d", "--duration", "-z"], "write --time 10s"),
    ("load", &["-b", "--bandwidth", "--bitrate"], "write --rate 100Mbps"),
    ("load", &["-R"], "write --reverse"),
    ("load", &["--bidir"], "write --both-ways"),
    ("load", &["-J"], "write --json FILE"),
    ("load", &["-p", "--port"], "write the port behind the host, as in 10.0.2.9:5201"),
    ("load", &["-n"], "write --count 1000 for 1000 sessions in all"),
    ("load", &["-l", "--len", "--length"], "write --size 1kB"),
    ("load", &["-u"], "write --udp with --iperf3, or --transport udp"),
    ("load", &["-i"], "write --interval 1s"),
    ("load", &["-w", "--window"], "write 'tcp: { send-buffer: 1MB }' of the group in a scenario"),
    ("load", &["--to", "--host", "--dst"], "write the server behind 'load', as in 10.0.2.9:80"),
    ("send", &["--host", "--dst", "--destination", "--dest"], "write --to 10.0.2.9"),
    ("send", &["--duration"], "write --time 10s"),
    ("send", &["--packets", "--num-packets"], "write --count 1000"),
    ("send", &["--pps"], "write --rate 1000pps"),
    ("send", &["--mbps", "--bps"], "write --rate 100Mbps"),
    ("send", &["--tcp"], "TCP is of sessions: wirebeat load HOST:PORT --program bulk"),
    ("serve", &["-p", "--port"], "write the port behind --listen, as in --listen 0.0.0.0:8080"),
    ("serve", &["-D", "--daemon"], "leave it out, and write '&' behind the line"),
    (
        "serve",
        &["-1", "--one-off"],
        "leave it out: it serves until it is told to stop (timeout 60 wirebeat serve …)",
    ),
    ("receive", &["-s", "--server"], "leave it out: receive is the end that receives"),
    ("serve", &["-s"], "leave it out: serve is a server already"),
    (
        "run",
        &["-c", "-b", "-P", "-R", "-u", "-l", "-n", "--bandwidth", "--bitrate", "--parallel"],
        "the scenario says what is sent ('wirebeat send' and 'wirebeat load' have flags, and print the scenario that they mean with \
         --print-scenario)",
    ),
    (
        "test",
        &["-t"],
        "write --trial 10s for each trial (rfc2544), --step-time 10s (y1564) or --time 8h (soak)",
    ),
    ("sweep", &["-t"], "write 'run: { time: 10s }' in the scenario"),
];

/// What says the same as a flag of another tool behind a subcommand.
fn habit(flag: &str, command: &str) -> Option<&'static str> {
    let is_meant = |of: &&(&str, &[&str], &str)| of.0 == command && of.1.contains(&flag);
    HABITS.iter().find(is_meant).map(|(_, _, hint)| *hint)
}

/// The failure that `error` about the whole command line of `command` stands for.
pub fn explain_line(
    error: &clap::Error,
    arguments: &[OsString],
    command: &clap::Command,
) -> Failure {
    if let Some(failure) = foreign::answer(error, arguments, command) {
        return failure;
    }
    match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(error, arguments, command),
        ErrorKind::UnknownArgument => match negative(error, arguments) {
            Some(failure) => failure,
            None => {
                let flag = text(error, ContextKind::InvalidArg);
                let command = arguments.iter().skip(1).find_map(|word| word.to_str());
                match command.and_then(|command| habit(&flag, command)) {
                    Some(hint) => Failure::usage(format!("unknown flag '{flag}'")).hint(hint),
                    None if !flag.starts_with('-') && lacks_destination(command, arguments) => {
                        Failure::usage(format!("unexpected argument '{flag}'"))
                            .hint(format!("write --to {flag} for where frames go"))
                    }
                    None => explain(error),
                }
            }
        },
        _ => explain(error),
    }
}

/// Whether a line of `send` does not say where frames go.
fn lacks_destination(command: Option<&str>, arguments: &[OsString]) -> bool {
    let is_to =
        |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some("--to"));
    command == Some("send") && !arguments.iter().any(is_to)
}

/// A word that is not a subcommand, with those that are in its place.
fn unknown_command(
    error: &clap::Error,
    arguments: &[OsString],
    command: &clap::Command,
) -> Failure {
    let wrong = text(error, ContextKind::InvalidSubcommand);
    let (mut path, mut command) = (String::from(NAME), command);
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(inner) = command.find_subcommand(word).filter(|_| word != wrong) else { continue };
        (path, command) = (format!("{path} {word}"), inner);
    }
    let at_top = path == NAME;
    if wrong == "help" && at_top {
        return Failure::usage("unknown command 'help'")
            .hint(format!("write {NAME} --help, or for one command: {NAME} run --help"));
    }
    if let Some(line) = of_file(&wrong).filter(|_| at_top) {
        return Failure::usage(format!("'{wrong}' is no command")).hint(format!("write: {line}"));
    }
    let known = text(error, ContextKind::SuggestedSubcommand);
    let other = SYNONYMS.iter().find(|(word, _)| *word == wrong).map(|(_, command)| *command);
    let other = other.filter(|other| command.find_subcommand(other).is_some());
    let meant = match other {
        _ if !known.is_empty() => format!("did you mean '{known}'? "),
        Some(other) => format!("did you mean '{other}'? "),
        None => String::new(),
    };
    Failure::usage(format!("unknown command '{wrong}'"))
        .hint(format!("{meant}{path} --help lists all of them"))
}

/// The line for a file that stands where a command is to be.
fn of_file(name: &str) -> Option<String> {
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    let name = foreign::quoted(name);
    let line = match ending.as_str() {
        "pcap" | "pcapng" | "cap" => format!("{NAME} replay {name} --interface eth1"),
        "wbar" => format!("{NAME} inspect {name}"),
        "yaml" | "yml" | "mgn" | "cfg" | "ditg" => format!("{NAME} run {name}"),
        "json" => format!("{NAME} report {name}"),
        _ => return None,
    };
    Some(line)
}

/// A value that looks like a flag because it is negative: clap names its first letters alone.
fn negative(error: &clap::Error, arguments: &[OsString]) -> Option<Failure> {
    let found = text(error, ContextKind::InvalidArg);
    let digits = found.strip_prefix('-')?;
    digits.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let place = words.windows(2).find_map(|pair| match pair {
        [flag, value] if flag.starts_with("--") && value.starts_with(&found) => {
            Some(format!("{flag} {value}"))
        }
        _ => None,
    })?;
    Some(Failure::usage("a negative value is not valid here").at(place).hint("leave out the '-'"))
}

/// The failure that `error` stands for.
pub fn explain(error: &clap::Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidValue => invalid_value(error),
        ErrorKind::ValueValidation => {
            let why = error.source().map(fault).unwrap_or_default();
            let hint = format!("--help describes {}", flag(error));
            Failure::usage(why).at(place(error)).hint(hint)
        }
        ErrorKind::UnknownArgument => unknown_argument(error),
        ErrorKind::InvalidSubcommand => {
            let command = text(error, ContextKind::InvalidSubcommand);
            let known = text(error, ContextKind::SuggestedSubcommand);
            Failure::usage(format!("unknown command '{command}'")).hint(if known.is_empty() {
                "wirebeat --help lists all of them".to_owned()
            } else {
                format!("did you mean '{known}'?")
            })
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = text(error, ContextKind::InvalidArg);
            Failure::usage(format!("{missing} is missing")).hint("--help shows how it is used")
        }
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::InvalidUtf8 => {
            Failure::usage("an argument is not valid UTF-8").hint("write names and values in UTF-8")
        }
        _ => first_line(error),
    }
}

/// What is wrong with a value, and what would help: of every type that reads one.
fn fault(error: &(dyn std::error::Error + 'static)) -> Fault {
    macro_rules! first_of {
        ($($error:ty),*) => {
            $(if let Some(error) = error.downcast_ref::<$error>() {
                return error.into();
            })*
        };
    }
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return fault.clone();
    }
    first_of!(UnitError, <MacAddr as FromStr>::Err, BadTime, BadDevice);
    error.to_string().into()
}

fn unknown_argument(error: &clap::Error) -> Failure {
    let argument = text(error, ContextKind::InvalidArg);
    if argument.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Failure::usage("a negative value is not valid here")
            .at(argument)
            .hint("leave out the '-'");
    }
    let what = if argument.starts_with('-') { "unknown flag" } else { "unexpected argument" };
    let known = text(error, ContextKind::SuggestedArg);
    Failure::usage(format!("{what} '{argument}'")).hint(match known.is_empty() {
        true => "--help lists all of them".to_owned(),
        false => format!("did you mean '{known}'?"),
    })
}

fn invalid_value(error: &clap::Error) -> Failure {
    let value = text(error, ContextKind::InvalidValue);
    let known = list(error, ContextKind::ValidValue);
    if value.is_empty() {
        let missing = Failure::usage("a value is missing").at(flag(error));
        return match known.is_empty() {
            true => missing.hint(format!("write {}", text(error, ContextKind::InvalidArg))),
            false => missing.hint(one_of(&known)),
        };
    }
    let near = text(error, ContextKind::SuggestedValue);
    let meant = match known.len() > LISTED_MAX && !near.is_empty() {
        true => format!("did you mean '{near}'? "),
        false => String::new(),
    };
    Failure::usage(format!("'{value}' is not one of the choices"))
        .at(place(error))
        .hint(format!("{meant}{}", one_of(&known)))
}

fn conflict(error: &clap::Error) -> Failure {
    let (one, other) = (flag(error), list(error, ContextKind::PriorArg));
    let other: Vec<&str> = other.iter().map(|other| name(other)).collect();
    let other = other.join(", ");
    if other.is_empty() || other == one {
        return Failure::usage(format!("{one} is given twice")).hint("give it once");
    }
    Failure::usage(format!("{one} and {other} do not go together")).hint("leave one of them out")
}

/// For what has no words of its own: clap's.
fn first_line(error: &clap::Error) -> Failure {
    let rendered = error.render().to_string();
    let line = rendered.lines().next().unwrap_or_default();
    Failure::usage(line.strip_prefix("error: ").unwrap_or(line)).hint("--help shows how it is used")
}

/// The flag and its value, as they were given.
fn place(error: &clap::Error) -> String {
    format!("{} {}", flag(error), text(error, ContextKind::InvalidValue))
}

/// The flag that the error is about, without the form of its value.
fn flag(error: &clap::Error) -> String {
    name(&text(error, ContextKind::InvalidArg)).to_owned()
}

/// `--rate` of `--rate <RATE>`; an argument by its place stays `<SCENARIO>`.
fn name(usage: &str) -> &str {
    usage.split_once(' ').map_or(usage, |(name, _)| name)
}

fn one_of(known: &[String]) -> String {
    match known.split_last() {
        Some((last, rest)) if !rest.is_empty() && known.len() <= LISTED_MAX => {
            format!("write {} or {last}", rest.join(", "))
        }
        _ => "--help lists all of them".to_owned(),
    }
}

/// What the error says of `kind`, as one text.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    list(error, kind).join(", ")
}

fn list(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
