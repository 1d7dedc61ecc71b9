//! Command lines in the flags of other tools, and the line of ours that does the same.
//!
//! A tool has a table with a row for each of its flags (`iperf.rs`, `tcpreplay.rs`). Here a line is taken apart by that table and by
//! our own definition of the command, and put together again; a line of ours is only told if our own parser takes it. Values
//! of our flags that are written as other tools have them (`--time 10`, `--rate 1G`) are a part of this.

use std::ffi::OsString;

use clap::error::ErrorKind;
use wirebeat_units::{Fault, fault};

use super::{iperf, tcpreplay};
use crate::command::NAME;
use crate::failure::Failure;

/// A flag of another tool.
pub(super) struct ForeignFlag<M> {
    /// Its spellings.
    pub(super) flags: &'static [&'static str],
    /// Whether a value follows.
    pub(super) takes_value: bool,
    /// Notes what it says (`""` without a value), or says why nothing of ours says that.
    pub(super) note: fn(&mut M, &str) -> Result<(), Fault>,
}

/// A row of a table.
pub(super) const fn row<M>(
    flags: &'static [&'static str],
    takes_value: bool,
    note: fn(&mut M, &str) -> Result<(), Fault>,
) -> ForeignFlag<M> {
    ForeignFlag { flags, takes_value, note }
}

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct Scanned<M> {
    /// What flags of the other tool say together.
    pub(super) said: M,
    /// Our flags, with their values.
    pub(super) ours: Vec<String>,
    /// What has no flag.
    pub(super) names: Vec<String>,
    /// The first flag that is not ours.
    pub(super) foreign: Option<String>,
    /// A value of a flag of ours was written as in other tools.
    changed: bool,
}

/// Why a line has no translation: the flag, and what is wrong.
pub(super) type Untranslated = (String, Fault);

/// A line of ours, and what should be known beside it.
pub(super) struct Translation {
    pub(super) line: Vec<String>,
    /// Said before the line, with a colon behind it.
    pub(super) note: String,
}

/// What is said of a command line that clap refuses with `error`, where it is one of another tool.
pub(super) fn answer(
    error: &clap::Error,
    arguments: &[OsString],
    definition: &clap::Command,
) -> Option<Failure> {
    let kinds = [
        ErrorKind::UnknownArgument,
        ErrorKind::ValueValidation,
        ErrorKind::InvalidValue,
        ErrorKind::ArgumentConflict,
        ErrorKind::MissingRequiredArgument,
        // the name of another tool is no command of ours
        ErrorKind::InvalidSubcommand,
    ];
    if !kinds.contains(&error.kind()) {
        return None;
    }
    let words: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    if let Some(line) = trex_line(&words) {
        return Some(of_trex(&line));
    }
    if let Some(failure) = ditg_line(&words) {
        return Some(failure);
    }
    let (command, words) = match words.split_first()? {
        (first, rest) if matches!(first.as_str(), "iperf" | "iperf3") => ("send", rest),
        (first, rest) if matches!(first.as_str(), "tcpreplay" | "tcpreplay-edit") => {
            ("replay", rest)
        }
        (first, rest) if !first.starts_with('-') => (first.as_str(), rest),
        // iperf and tcpreplay have no commands
        _ if words.iter().any(|word| is_iperf(word)) => ("send", words.as_slice()),
        _ if words.iter().any(|word| tcpreplay::OWN.contains(&flag_of(word))) => {
            ("replay", words.as_slice())
        }
        _ => return None,
    };
    let (path, own, words) = deepest(definition, command, words)?;
    let ours = (definition, path.as_slice());
    match command {
        // a number behind -c is one of connections, as wrk and ab have it
        "load" if is_client(words) => {
            let scanned = scan(&[iperf::FLAGS], words, own)?;
            answered(error, ours, "iperf3", scanned, iperf::line_of_load)
        }
        "receive" | "serve" if words.iter().any(|word| iperf::SERVER.contains(&word.as_str())) => {
            let scanned = scan(&[iperf::FLAGS], words, own)?;
            answered(error, ours, "iperf3", scanned, iperf::line)
        }
        "send" => answered(error, ours, "iperf3", scan(&[iperf::FLAGS], words, own)?, iperf::line),
        "replay" => answered(
            error,
            ours,
            "tcpreplay",
            scan(&[tcpreplay::FLAGS], words, own)?,
            tcpreplay::line,
        ),
        // values as other tools write them, and what iperf3 calls the time, the interval and the form of a report
        _ => {
            let own_flags: &[_] = match command {
                "load" => iperf::OF_LOAD,
                "serve" => iperf::OF_SERVE,
                "receive" => iperf::OF_RECEIVE,
                _ => &[],
            };
            let tool = if matches!(command, "load" | "serve") { "other tools" } else { "iperf3" };
            let scanned = scan::<Vec<String>>(&[own_flags, iperf::ANYWHERE], words, own)?;
            answered(error, ours, tool, scanned, |scanned| {
                let Scanned { said, ours, names, .. } = scanned;
                let line = [NAME.to_owned()].into_iter().chain(path.clone()).chain(names);
                let line = line.chain(ours).chain(said).collect();
                Ok(Some(Translation { line, note: "write".to_owned() }))
            })
        }
    }
}

/// The innermost command that a line names: its path and its definition, and the words behind it.
fn deepest<'a>(
    definition: &'a clap::Command,
    command: &str,
    mut words: &'a [String],
) -> Option<(Vec<String>, &'a clap::Command, &'a [String])> {
    let mut own = definition.find_subcommand(command)?;
    let mut path = vec![command.to_owned()];
    while let Some((first, rest)) = words.split_first()
        && let Some(inner) = own.find_subcommand(first)
    {
        path.push(first.clone());
        (own, words) = (inner, rest);
    }
    Some((path, own, words))
}

/// A flag without what is joined to it.
fn flag_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(flag, _)| flag)
}

/// What a line of T-Rex runs: `t-rex-64 -f FILE …`, or `start -f FILE …` of its console.
struct TrexLine<'a> {
    profile: &'a str,
    /// `-m`, and `-d`.
    multiplier: Option<&'a str>,
    duration: Option<&'a str>,
}

fn trex_line(words: &[String]) -> Option<TrexLine<'_>> {
    let (first, rest) = words.split_first()?;
    let words = match first.as_str() {
        "start" | "t-rex-64" | "trex" | "run" => rest,
        // iperf3 has a flag -f as well
        first if first.starts_with('-') && !words.iter().any(|word| is_iperf(word)) => words,
        _ => return None,
    };
    let value = |flag: &str| {
        words.windows(2).find(|pair| pair.first().is_some_and(|word| word == flag))?.get(1)
    };
    let text = |flag| value(flag).map(String::as_str);
    let profile = text("-f").filter(|file| first != "run" || file.contains('.'))?;
    Some(TrexLine { profile, multiplier: text("-m"), duration: text("-d") })
}

/// What is said to those who have a profile of T-Rex.
fn of_trex(line: &TrexLine<'_>) -> Failure {
    let TrexLine { profile, multiplier, duration } = *line;
    let failure =
        Failure::usage("a profile of T-Rex is converted first").at(format!("-f {profile}"));
    if profile.ends_with(".py") && profile.split('/').any(|part| part == "stl") {
        return failure.hint(
            "a stateless profile (STL) is Python, which is not run: write its streams as flows of a scenario ('wirebeat examples' has some; \
             docs/scenario.md)",
        );
    }
    if profile.ends_with(".py") {
        return failure.hint(
            "Python is not run: write the profile as JSON by T-Rex's own 'astf-sim -f PROFILE --json', and convert that",
        );
    }
    let mut convert = format!("{NAME} convert {}", quoted(profile));
    if let Some(times) = multiplier.filter(|times| whole(times).is_ok()) {
        convert += &format!(" --multiply {times}");
    }
    let time = duration.and_then(seconds).map_or(String::new(), |time| format!(" --time {time}"));
    failure.hint(format!(
        "write: {convert} --output scenario.yaml && {NAME} run scenario.yaml{time} (docs/scripts.md says what is carried over; with \
         --packets it is played packet by packet, as T-Rex does)"
    ))
}

/// What is said to those who write a line of ITGSend: as a line of a script it is read.
fn ditg_line(words: &[String]) -> Option<Failure> {
    let (_, flags) =
        words.split_first().filter(|(first, _)| first.eq_ignore_ascii_case("ITGSend"))?;
    let flags: Vec<String> = flags.iter().map(|flag| quoted(flag)).collect();
    let script = quoted(&flags.join(" "));
    Some(Failure::usage("a line of ITGSend is a script of D-ITG").hint(format!(
        "write: printf '%s\\n' {script} > flow.ditg && {NAME} run flow.ditg --dialect d-itg (for an ITGRecv that is to say what it received: \
         {NAME} load --ditg HOST)"
    )))
}

/// Whether a word asks for a client or a server of iperf.
fn is_iperf(word: &str) -> bool {
    let joined = word.strip_prefix("-c").is_some_and(|host| !host.is_empty());
    joined || [iperf::CLIENT, iperf::SERVER].iter().any(|flags| flags.contains(&word))
}

/// Whether words ask for a client of iperf.
fn is_client(words: &[String]) -> bool {
    words.windows(2).any(|pair| match pair {
        [flag, host] => iperf::CLIENT.contains(&flag.as_str()) && host.parse::<u64>().is_err(),
        _ => false,
    })
}

fn answered<M>(
    error: &clap::Error,
    (definition, path): (&clap::Command, &[String]),
    tool: &str,
    scanned: Result<Scanned<M>, Untranslated>,
    line: impl FnOnce(Scanned<M>) -> Result<Option<Translation>, Untranslated>,
) -> Option<Failure> {
    let of_tool = |flag: &str| format!("'{flag}' is a flag of {tool}");
    let scanned = match scanned {
        Ok(scanned) => scanned,
        Err((flag, fault)) => return Some(Failure::usage(fault).at(of_tool(&flag))),
    };
    let foreign = scanned.foreign.clone();
    if foreign.is_none() && !scanned.changed {
        return None;
    }
    let translation = match line(scanned) {
        Ok(translation) => translation,
        Err((flag, fault)) => return Some(Failure::usage(fault).at(of_tool(&flag))),
    };
    let parses = |translation: &Translation| {
        definition.clone().try_get_matches_from(&translation.line).is_ok()
    };
    let hint = translation.filter(parses).map(|Translation { line, note }| {
        let words: Vec<String> = line.iter().map(|word| quoted(word)).collect();
        let note = if foreign.is_some() { note } else { "write".to_owned() };
        format!("{note}: {}", words.join(" "))
    });
    match (foreign, hint) {
        (Some(flag), Some(hint)) => Some(Failure::usage(of_tool(&flag)).hint(hint)),
        (Some(flag), None) => {
            let (command, first) = (path.join(" "), path.first().map_or("", String::as_str));
            let hint = super::habit(&flag, first).map(str::to_owned);
            let hint = hint.unwrap_or_else(|| format!("ours: {NAME} {command} --help"));
            Some(Failure::usage(of_tool(&flag)).hint(hint))
        }
        // what is wrong with a value is known better by the one who reads it
        (None, Some(hint)) => Some(super::explain(error).with_hint(hint)),
        (None, None) => None,
    }
}

/// Takes a line apart by `tables`: words behind a command that `own` defines. `None` where a flag is neither ours nor the tool's.
fn scan<M: Default>(
    tables: &[&[ForeignFlag<M>]],
    words: &[String],
    own: &clap::Command,
) -> Option<Result<Scanned<M>, Untranslated>> {
    let mut scanned = Scanned {
        said: M::default(),
        ours: Vec::new(),
        names: Vec::new(),
        foreign: None,
        changed: false,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let noted = if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            match (find(own, name), find_foreign(tables, &format!("--{name}"))) {
                (Some(flag), _) => {
                    let behind = if value.is_none() { value_of(flag, &mut rest) } else { None };
                    scanned.add_ours((name, flag, own), value, behind);
                    Ok(())
                }
                (None, Some(flag)) => {
                    let next = || rest.next().map(String::as_str);
                    let value = if flag.takes_value { value.or_else(next)? } else { "" };
                    scanned.note(flag, &format!("--{name}"), value)
                }
                (None, None) => return None,
            }
        } else if word.len() > 1 && word.starts_with('-') {
            scanned.note_short((tables, own), word, &mut rest)?
        } else {
            scanned.names.push(word.clone());
            Ok(())
        };
        if let Err(untranslated) = noted {
            return Some(Err(untranslated));
        }
    }
    Some(Ok(scanned))
}

impl<M> Scanned<M> {
    fn note(&mut self, row: &ForeignFlag<M>, flag: &str, value: &str) -> Result<(), Untranslated> {
        self.foreign.get_or_insert_with(|| flag.to_owned());
        (row.note)(&mut self.said, value).map_err(|fault| (flag.to_owned(), fault))
    }

    /// Notes what stands behind one dash: `-u`, `-b100M`, `-uR`. `None` where one of these is no flag of the tool.
    fn note_short<'a>(
        &mut self,
        (tables, own): (&[&[ForeignFlag<M>]], &clap::Command),
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Option<Result<(), Untranslated>> {
        let mut letters = word.strip_prefix('-')?;
        while let Some(letter) = letters.chars().next() {
            let behind = letters.get(letter.len_utf8()..).unwrap_or_default();
            let flag = format!("-{letter}");
            let ours = own.get_arguments().find(|arg| arg.get_short() == Some(letter));
            let ours = ours.filter(|arg| arg.get_action().takes_values());
            if let Some((arg, long)) = ours.and_then(|arg| Some((arg, arg.get_long()?))) {
                let value =
                    if behind.is_empty() { rest.next()?.clone() } else { behind.to_owned() };
                self.add_ours((long, arg, own), None, Some(value));
                return Some(Ok(()));
            }
            let row = find_foreign(tables, &flag)?;
            if !row.takes_value {
                if let Err(untranslated) = self.note(row, &flag, "") {
                    return Some(Err(untranslated));
                }
                letters = behind;
                continue;
            }
            let value = if behind.is_empty() { rest.next()?.as_str() } else { behind };
            return Some(self.note(row, &flag, value));
        }
        Some(Ok(()))
    }

    /// A flag of ours, with the value that is `joined` to it or stands `behind` it, stays as it is, but for a value that is
    /// written as in other tools.
    fn add_ours(
        &mut self,
        (name, flag, own): (&str, &clap::Arg, &clap::Command),
        joined: Option<&str>,
        behind: Option<String>,
    ) {
        let kind = flag.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
        let mut ours = |value: &str| {
            let other = match kind {
                Some("TIME" | "DURATION") => seconds(value),
                // the rate of sessions is one of starts
                Some("RATE") if own.get_name() == "load" => {
                    bit_rate(value).or_else(|| positive(value).map(|_| format!("{value}/s")))
                }
                Some("RATE") => bit_rate(value),
                _ => None,
            };
            self.changed |= other.is_some();
            other.unwrap_or_else(|| value.to_owned())
        };
        let joined = joined.map(|value| format!("--{name}={}", ours(value)));
        let behind = behind.map(|value| ours(&value));
        self.ours.push(joined.unwrap_or_else(|| format!("--{name}")));
        self.ours.extend(behind);
    }
}

/// Our flag of this name.
fn find<'a>(own: &'a clap::Command, name: &str) -> Option<&'a clap::Arg> {
    own.get_arguments().find(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(name) || aliases.contains(&name)
    })
}

/// The value that follows a flag of ours, as clap would take it.
fn value_of<'a>(
    flag: &clap::Arg,
    rest: &mut (impl Iterator<Item = &'a String> + Clone),
) -> Option<String> {
    if !flag.get_action().takes_values() || flag.is_require_equals_set() {
        return None;
    }
    let needed = flag.get_num_args().is_none_or(|count| count.min_values() > 0);
    let next = rest.clone().next()?;
    (needed || !next.starts_with('-')).then(|| rest.next().cloned())?
}

/// The first row for a flag: what stands behind one command before what says the same everywhere.
fn find_foreign<'a, M>(tables: &[&'a [ForeignFlag<M>]], flag: &str) -> Option<&'a ForeignFlag<M>> {
    tables.iter().flat_map(|table| table.iter()).find(|row| row.flags.contains(&flag))
}

/// A time in bare seconds, with its unit.
pub(super) fn seconds(text: &str) -> Option<String> {
    positive(text).map(|_| format!("{text}s"))
}

/// A bit rate with a letter for its unit (`1.5G`), as we write it. A number alone has no unit.
fn bit_rate(text: &str) -> Option<String> {
    let (number, letter) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match letter {
        "k" | "K" => "kbps",
        "m" | "M" => "Mbps",
        "g" | "G" => "Gbps",
        "t" | "T" => "Tbps",
        _ => return None,
    };
    positive(number).map(|_| format!("{number}{unit}"))
}

/// The same of a number of bits a second, too; 0 is as fast as possible.
pub(super) fn any_bit_rate(text: &str) -> Option<String> {
    match text.parse::<f64>() {
        Ok(0.0) => Some("unlimited".to_owned()),
        _ => bit_rate(text).or_else(|| positive(text).map(|_| format!("{text}bps"))),
    }
}

/// Notes a value.
pub(super) fn set<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    *place = Some(value);
    Ok(())
}

/// Notes a flag of ours, with its value.
pub(super) fn put(flags: &mut Vec<String>, flag: &str, value: &str) -> Result<(), Fault> {
    flags.extend([flag.to_owned(), value.to_owned()]);
    Ok(())
}

/// Notes a flag of ours without a value.
pub(super) fn put_flag(flags: &mut Vec<String>, flag: &str) -> Result<(), Fault> {
    flags.push(flag.to_owned());
    Ok(())
}

/// A number above zero, in plain decimals.
pub(super) fn positive(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| plain && *number > 0.0)
}

/// A whole number above zero.
pub(super) fn whole(text: &str) -> Result<u64, Fault> {
    let read = text.parse().ok().filter(|number| *number > 0);
    read.ok_or_else(|| fault!("'{text}' is not a count"; "write a whole number from 1 on"))
}

/// A word as a shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::definition;

    /// What is said of a line, whose words are separated by blanks.
    pub(in crate::usage) fn told(line: &str) -> Failure {
        let words: Vec<OsString> =
            [NAME].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        let error = definition().try_get_matches_from(&words).unwrap_err();
        super::super::explain_line(&error, &words, &definition())
    }

    /// Each row of a table is in one of these lines.
    pub(in crate::usage) fn assert_each_is_tried<'a, M>(
        table: &[ForeignFlag<M>],
        lines: impl Iterator<Item = &'a str>,
    ) {
        let tried: BTreeSet<String> = lines
            .flat_map(|line| line.split(' '))
            .filter(|word| word.starts_with('-'))
            .map(|word| match word.starts_with("--") {
                true => word.split('=').next().unwrap_or_default().to_owned(),
                false => word.chars().take(2).collect(),
            })
            .collect();
        for row in table {
            assert!(row.flags.iter().any(|flag| tried.contains(*flag)), "{:?}", row.flags);
        }
    }

    /// The line of ours in what is said.
    pub(in crate::usage) fn line_of_ours(line: &str) -> String {
        let said = told(line).sentence();
        let at = said.find(": wirebeat ").unwrap_or_else(|| panic!("{line}: {said}"));
        said[at + ": wirebeat ".len()..].to_owned()
    }

    #[test]
    fn values_of_our_flags_in_the_manner_of_others_are_put_right() {
        for (line, ours) in [
            ("send --to 10.0.0.2 --rate 1G", "send --to 10.0.0.2 --rate 1Gbps"),
            ("send --to lab2 --rate=1.5m --time 10", "send --to lab2 --rate=1.5Mbps --time 10s"),
            (
                "send --to 10.0.0.2 --rate 100K --interval 1 --json --flow name=a",
                "send --to 10.0.0.2 --rate 100kbps --interval 1s --json --flow name=a",
            ),
            ("replay a.pcap --interface lo --time 2.5", "replay a.pcap --interface lo --time 2.5s"),
            ("run a.yaml --time 5", "run a.yaml --time 5s"),
            ("receive --interface lo --interval 1", "receive --interface lo --interval 1s"),
            (
                "capture -i lo --write x.pcap --time 5",
                "capture --interface lo --write x.pcap --time 5s",
            ),
            (
                "load http://10.0.0.2/ --rate 10 --time 10s",
                "load http://10.0.0.2/ --rate 10/s --time 10s",
            ),
            (
                "test rfc2544 --from a --to b --destination 10.0.0.2 --max-rate 1G --trial 2",
                "test rfc2544 --from a --to b --destination 10.0.0.2 --max-rate 1Gbps --trial 2s",
            ),
        ] {
            assert_eq!(line_of_ours(line), ours, "{line}");
        }
        let failure = told("send --to 10.0.0.2 --time 10").to_string();
        assert!(
            failure.contains("it has no unit") && failure.contains("  --time 10\n"),
            "{failure}"
        );
    }

    /// What iperf3 calls the time, the interval and the form of a report, behind every command of ours.
    #[test]
    fn flags_of_iperf3_are_known_behind_every_command() {
        for (line, ours) in [
            ("run a.yaml -t 10 -J", "run a.yaml --time 10s --json"),
            (
                "receive --interface lo -t 10 -i 1",
                "receive --interface lo --time 10s --interval 1s",
            ),
            ("run a.yaml --json-stream", "run a.yaml --json-lines"),
            ("receive --json-stream -p 5001", "receive --json-lines --port 5001"),
            (
                "serve --iperf3 -p 5201 -t 60 -i 2 -J",
                "serve --iperf3 --listen 0.0.0.0:5201 --time 60s --interval 2s --json",
            ),
            (
                "serve --ditg --json-stream -p 9000",
                "serve --ditg --json-lines --listen 0.0.0.0:9000",
            ),
        ] {
            assert_eq!(line_of_ours(line), ours, "{line}");
        }
        // clients of iperf, wrk and ab
        for (line, ours) in [
            ("http://x/ --rate 100/s -t 5", "http://x/ --rate 100/s --time 5s"),
            ("http://x/ -c 50 -d 10s", "http://x/ --users 50 --time 10s"),
            ("http://x/ -t12 -c400 -d30s", "http://x/ --users 400 --time 30s"),
            ("--iperf3 x -t 5 -P 4 -R -J", "--iperf3 x --time 5s --streams 4 --reverse --json"),
            (
                "x:5201 --program bulk -b 1G --bidir -l 8K -i 2",
                "x:5201 --program bulk --rate 1Gbps --both-ways --size 8192B --interval 2s",
            ),
            ("http://x/ --users 5 --json-stream", "http://x/ --users 5 --json-lines"),
        ] {
            let line = format!("load {line}");
            assert_eq!(line_of_ours(&line), format!("load {ours}"), "{line}");
        }
        for (line, says) in [
            ("run a.yaml -P 4", "the scenario says what is sent"),
            ("run a.yaml -b 1G", "the scenario says what is sent"),
            ("test rfc2544 --from a --to b --destination x --max-rate 1Gbps -t 10", "--trial 10s"),
            ("load http://x/ -p 80", "behind the host"),
            ("send 10.0.0.2", "write --to 10.0.0.2"),
            ("send --to 10.0.0.2 --pps 1000", "write --rate 1000pps"),
            ("send --dst 10.0.0.2 --rate 1kpps", "write --to 10.0.2.9"),
            ("send --to 10.0.0.2 --rate 1kpps --tcp", "wirebeat load HOST:PORT --program bulk"),
            ("help", "write wirebeat --help"),
            ("day.pcap", "write: wirebeat replay day.pcap --interface eth1"),
            ("lab.yaml", "write: wirebeat run lab.yaml"),
            ("-f stl/bench.py -m 1", "a stateless profile"),
            ("-f astf/http.py -m 1", "astf-sim"),
            ("run -f lab/t-rex.stf -m 10", "wirebeat convert lab/t-rex.stf --multiply 10"),
            ("-c10.0.0.2 -t5 -f m", "wirebeat load --iperf3 10.0.0.2 --time 5s"),
            ("replay a.pcap --interface lo -t 10", "write --time 10s"),
            ("replay -i lo --topspeed --loop 0 a.pcap", "write a large number"),
            ("replay -i lo --topspeed --mbps=100 a.pcap", "given twice"),
        ] {
            let said = told(line).sentence();
            assert!(said.contains(says), "{line}: {said}");
        }
        let said = told("send --to 10.0.0.2 --rate 1kpps -R").sentence();
        assert!(said.contains("wirebeat load --iperf3 HOST --udp --reverse"), "{said}");
    }

    /// Lines that begin as those of another tool do.
    #[test]
    fn a_line_without_a_command_of_ours_is_answered() {
        for (line, ours) in [
            ("iperf3 -c lab2 -t 5", line_of_ours("-c lab2 -t 5")),
            (
                "tcpreplay -i eth1 --topspeed a.pcap",
                line_of_ours("replay -i eth1 --topspeed a.pcap"),
            ),
            ("--topspeed -i eth1 a.pcap", line_of_ours("replay -i eth1 --topspeed a.pcap")),
        ] {
            assert_eq!(line_of_ours(line), ours, "{line}");
        }
        for line in [
            "-f cap2/http.yaml -m 10 -d 60",
            "start -f cap2/http.yaml",
            "t-rex-64 -f cap2/http.yaml",
        ] {
            let said = told(line).sentence();
            assert!(said.contains("wirebeat convert cap2/http.yaml "), "{said}");
            assert!(
                said.contains("--output scenario.yaml && wirebeat run scenario.yaml"),
                "{said}"
            );
        }
        let said = told("-f cap2/http.yaml -m 10 -d 60").sentence();
        assert!(said.contains("convert cap2/http.yaml --multiply 10 --output"), "{said}");
        assert!(said.contains("run scenario.yaml --time 60s"), "{said}");
        assert!(told("-f http_simple.py -m 2").sentence().contains("astf-sim"));
        let said = told("ITGSend -a 10.0.0.2 -C 1000 -c 512 -t 1000").sentence();
        let ours = "printf '%s\\n' '-a 10.0.0.2 -C 1000 -c 512 -t 1000' > flow.ditg && wirebeat run flow.ditg --dialect d-itg";
        assert!(said.contains(ours) && said.contains("wirebeat load --ditg HOST"), "{said}");
        // what a command has not is told with what it has, or where it says so
        let said = told("test y1564 s.yaml -t 10").sentence();
        assert!(said.contains("--step-time 10s (y1564)"), "{said}");
        let said = told("check a.yaml -J -t 1").sentence();
        assert!(said.contains("ours: wirebeat check --help"), "{said}");
    }

    #[test]
    fn what_is_no_line_of_another_tool_is_told_as_before() {
        for line in [
            "send --to 10.0.0.2 --rate 5",
            "send --to 10.0.0.2 --rat 1G",
            "send --to 10.0.0.2 -y",
            "send --to 10.0.0.2 --burst -1",
            "send --to 10.0.0.2 --time 0",
            "replay a.pcap --xyzzy",
        ] {
            let said = told(line).sentence();
            assert!(!said.contains(": wirebeat ") && !said.contains("iperf"), "{line}: {said}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, shown) in
            [("a=b,c", "a=b,c"), ("", "''"), ("{ a: 1 }", "'{ a: 1 }'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), shown);
        }
    }
}
