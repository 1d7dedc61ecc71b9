//! `wirebeat examples`: the examples of the repository, which the program has with it, listed, printed and written.
//!
//! The table is here, the files are in `examples/`. A variable that is set is written into the text, as a value of its `variables`,
//! so that the rest, comments too, stays as it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::fault;

use crate::failure::Failure;
use crate::file::assignment;
use crate::output::{print, print_data, tell};

/// Has the files of the repository in the program: the scenario of each example, and files that it names.
macro_rules! examples {
    ($(($name:literal, $about:literal $(, $file:literal)*),)*) => {
        &[$(Example {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../examples/", $name, ".yaml")),
            files: &[$(($file, include_bytes!(concat!("../../../examples/", $file)))),*],
        }),*]
    };
}

/// All examples, in the order of `docs/scenario.md`.
const ALL: &[Example] = examples![
    ("single", "A first look at a cable, switch or router"),
    ("voice-over-bulk", "Delay of calls beside a bulk transfer"),
    ("verdict", "A yes or no for a build server"),
    ("sweep", "Delay and loss over rates and frame sizes: for 'wirebeat sweep'"),
    ("services", "Services with committed rates: for 'wirebeat test y1564'"),
    ("ipv6", "Flow label, traffic class, short and long frames"),
    ("both-ways", "Full duplex"),
    ("bursts", "The buffer of a switch"),
    ("flat-out", "As fast as the kernel engine goes"),
    ("sizes", "The frame sizes of RFC 2544 side by side"),
    ("classes", "Classes of service, late frames dropped"),
    ("far-host", "From a namespace through a given router"),
    ("unprivileged", "Sockets, no root"),
    ("dry-run", "Frames into a file"),
    ("imix-router", "The Internet's mix of sizes through a router, both ways"),
    ("poisson", "A Poisson process at 80 % load"),
    ("calls", "Calls with talk spurts and silences"),
    ("syn-flood", "A flood from random addresses against a firewall"),
    ("flow-table", "A million sub-flows through an address translator"),
    ("provider", "QinQ and MPLS"),
    ("vxlan", "IPv6 in VXLAN"),
    ("ping-sweep", "Echo requests to a whole network"),
    ("bad-checksums", "Frames that are wrong in one place"),
    ("day", "A load that goes up and down as a sine"),
    ("knee", "A ramp to the full line"),
    ("heavy-tails", "Self-similar traffic from Pareto on/off sources"),
    ("nested-bursts", "Sessions, pages and objects of the web"),
    ("trace", "Sizes and times from a file", "game.txt"),
    ("replay", "Recorded sensors again, at twice their pace", "sensors.wbar"),
    ("maintenance", "A schedule of changes, with a pause"),
    ("other-tools", "To the receivers of MGEN and iperf 2"),
    ("multicast", "Channels to groups, and their membership reports"),
    ("broadcast", "ARP requests, and a frame byte by byte"),
    ("fragments", "Fragments by hand"),
    ("large-datagrams", "Packets longer than the link carries"),
    ("web-load", "Sessions: a load that rises on somebody's web server"),
    ("tcp-throughput", "Sessions: throughput both ways, as iperf asks for it"),
    ("session-mix", "Sessions: a mix of applications at a total bandwidth, in no time"),
    (
        "templates",
        "Conversations of a capture as templates, packet by packet from both sides",
        "office.pcap"
    ),
    ("office", "Sessions: those of a capture, said again", "office.pcap"),
    (
        "mix-provider",
        "Sessions: applications of a provider, in the shape of T-Rex's SFR, at any bandwidth"
    ),
    ("mix-enterprise", "Sessions: applications of an enterprise, at any bandwidth"),
    ("mix-mobile", "Sessions: applications of a mobile network, at any bandwidth"),
    ("mix-iot", "Sessions: many small devices, at any bandwidth"),
    ("idle-million", "Sessions: a million that are open at a time, in memory"),
    ("firewall-table", "Sessions: how many a firewall has room for"),
    (
        "session-capture",
        "Sessions: both ends on paper, over a cable that loses frames, in a capture file"
    ),
    ("round-trips", "Sessions: round trips by TCP, planned every 10 ms"),
    ("dns-load", "Sessions: queries of DNS over UDP and TCP"),
    ("slowloris", "Sessions: slow clients that a web server holds, and others that ask meanwhile"),
    ("warp17", "Sessions: a configuration of WARP17, and what it becomes", "warp17.cfg"),
    (
        "t-rex",
        "Sessions: a profile of T-Rex (STF), and what it becomes",
        "t-rex.stf",
        "office.pcap"
    ),
    ("t-rex-astf", "Sessions: an ASTF profile of T-Rex, and what it becomes", "t-rex-astf.json"),
];

const EXAMPLES: &str = "\
Examples:
  wirebeat examples
  wirebeat examples single
  wirebeat examples single --set a=enp1s0 --set b=enp2s0 | wirebeat run -
  wirebeat examples --write lab --set a=enp1s0 --set b=enp2s0
  wirebeat examples --write lab single replay";

/// How a line of `variables` begins and ends in an example.
const VARIABLES: (&str, &str) = ("variables: { ", " }");

/// A scenario for a real use.
#[derive(Debug)]
struct Example {
    name: &'static str,
    about: &'static str,
    text: &'static str,
    /// Files that it names, which lie beside it.
    files: &'static [(&'static str, &'static [u8])],
}

/// List, print and write example scenarios
///
/// Lists the examples with what they are for, prints one, or writes them into a folder. Interfaces are the variables a, b and c,
/// with eth1, eth2 and eth3 as their values: give yours with --set here, or to 'wirebeat run'. The comment at the beginning of an
/// example says what else it needs: addresses, routes, namespaces.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The example to print; with --write those to write [default: all]
    #[arg(value_name = "NAME", value_parser = name())]
    names: Vec<&'static str>,
    /// Write them into this folder, which is made if it is not there, and replace no file
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Give a variable this value, for example an interface: a=eth3; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

/// Reads the name of an example.
fn name() -> impl TypedValueParser<Value = &'static str> {
    let words = ALL.iter().map(|example| PossibleValue::new(example.name).help(example.about));
    PossibleValuesParser::new(words).try_map(|given| {
        let found = ALL.iter().find(|example| example.name == given);
        found.map(|example| example.name).ok_or("there is no such example")
    })
}

/// Lists, prints or writes examples.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let is_named = |example: &&Example| args.names.is_empty() || args.names.contains(&example.name);
    let chosen: Vec<&Example> = ALL.iter().filter(is_named).collect();
    let notices = match args.write.is_none() && args.names.is_empty() {
        true => Vec::new(),
        false => unused(&chosen, &args.set)?,
    };
    match (&args.write, args.names.as_slice()) {
        (Some(folder), _) => {
            let texts = texts(&chosen, &args.set)?;
            write(folder, &chosen, &texts)?;
            print(&format!("{} in {}\n", counted(chosen.len()), folder.display()))?;
        }
        (None, []) if !args.set.is_empty() => {
            let why = fault!("a list of examples has no variables"; "name an example to print, or add --write FOLDER");
            return Err(Failure::usage(why).at("--set"));
        }
        (None, []) => print(&list())?,
        (None, [_]) => {
            for text in texts(&chosen, &args.set)? {
                print_data(&text)?;
            }
        }
        (None, _) => {
            let why = fault!("several examples are not one scenario"; "print one at a time, or add --write FOLDER");
            return Err(Failure::usage(why));
        }
    }
    notices.iter().for_each(|notice| tell(notice));
    Ok(0)
}

fn counted(examples: usize) -> String {
    wirebeat_units::human::counted(examples as u64, "example")
}

/// A line for each: its name, and what it is for.
fn list() -> String {
    let width = ALL.iter().map(|example| example.name.len()).max().unwrap_or(0);
    let line = |example: &Example| format!("{:width$}  {}\n", example.name, example.about);
    ALL.iter().map(line).collect()
}

/// Where a variable is set.
fn place(name: &str, value: &str) -> String {
    format!("--set {name}={value}")
}

/// Notices of variables that none of these examples has, so that one line suits all of them. One that no example at all has is a
/// mistake.
fn unused(examples: &[&Example], set: &[(String, String)]) -> Result<Vec<String>, Failure> {
    let has = |example: &Example, name: &str| variables(example.text).any(|(own, _)| own == name);
    let mut notices = Vec::new();
    for (name, value) in set {
        if examples.iter().any(|example| has(example, name)) {
            continue;
        }
        if ALL.iter().any(|example| has(example, name)) {
            let place = place(name, value);
            notices.push(format!("note: {place}: only other examples have this variable"));
            continue;
        }
        let mut known: Vec<&str> =
            examples.iter().flat_map(|one| variables(one.text).map(|(name, _)| name)).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match known.as_slice() {
            [] => "leave it out: they have none".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        let failure = Failure::usage(format!("no variable of these examples is '{name}'"));
        return Err(failure.at(place(name, value)).hint(hint));
    }
    Ok(notices)
}

/// The texts of these examples, with those of their variables set that they have.
fn texts(examples: &[&Example], set: &[(String, String)]) -> Result<Vec<String>, Failure> {
    let text = |example: &&Example| {
        let text = with_variables(example.text, set);
        match Scenario::from_yaml(&text, example.name) {
            Ok(_) => Ok(text),
            Err(error) => {
                let all = set.iter().map(|(name, value)| place(name, value));
                Err(Failure::usage(error.to_string()).at(all.collect::<Vec<_>>().join(" ")))
            }
        }
    };
    examples.iter().map(text).collect()
}

/// The variables of an example and their values as they are written: examples have them on one line.
fn variables(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let line = text.lines().find_map(|line| {
        line.strip_prefix(VARIABLES.0).and_then(|line| line.strip_suffix(VARIABLES.1))
    });
    line.into_iter().flat_map(|line| line.split(", ")).filter_map(|one| one.split_once(": "))
}

/// The text with other values of those variables that it has.
fn with_variables(text: &str, set: &[(String, String)]) -> String {
    let line = |line: &str| {
        let Some(rest) =
            line.strip_prefix(VARIABLES.0).and_then(|line| line.split_once(VARIABLES.1))
        else {
            return line.to_owned();
        };
        let written = variables(line.trim_end()).map(|(name, old)| {
            let value = set.iter().rfind(|(set, _)| set == name).map(|(_, value)| quoted(value));
            format!("{name}: {}", value.unwrap_or_else(|| old.to_owned()))
        });
        let written = written.collect::<Vec<_>>().join(", ");
        format!("{}{written}{}{}", VARIABLES.0, VARIABLES.1, rest.1)
    };
    text.split_inclusive('\n').map(line).collect()
}

/// A value in YAML: a text in JSON is one, whatever is in it; a dollar and a brace would be another variable.
fn quoted(value: &str) -> String {
    serde_json::to_string(&value.replace("${", "$${")).unwrap_or_default()
}

/// Writes examples and the files that they name, unless one of them is there.
fn write(folder: &Path, examples: &[&Example], texts: &[String]) -> Result<(), Failure> {
    let mut files: Vec<(PathBuf, &[u8])> = Vec::new();
    for (example, text) in examples.iter().zip(texts) {
        files.push((folder.join(format!("{}.yaml", example.name)), text.as_bytes()));
        let named = example.files.iter().map(|(name, content)| (folder.join(name), *content));
        // some are of several examples
        let other = |(path, _): &(PathBuf, &[u8])| files.iter().all(|(known, _)| known != path);
        let new: Vec<(PathBuf, &[u8])> = named.filter(other).collect();
        files.extend(new);
    }
    let there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    let failed = |path: &Path, error: io::Error| {
        let place = format!("--write {}", folder.display());
        match there(&error) {
            true => Failure::usage(fault!(
                "there is a file '{}' already", path.display();
                "name another folder, or remove it first"
            )),
            false => Failure::making(&error).hint("name a folder that you may write to"),
        }
        .at(place)
    };
    // all or nothing, as far as that is known before
    if let Some((path, _)) = files.iter().find(|(path, _)| fs::symlink_metadata(path).is_ok()) {
        return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (path, content) in &files {
        let written = File::create_new(path).and_then(|mut file| file.write_all(content));
        written.map_err(|error| failed(path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn folder() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
    }

    #[test]
    fn the_table_has_every_file_of_the_folder() {
        let here = fs::read_dir(folder()).unwrap().flatten();
        let here: BTreeSet<String> =
            here.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let files = ALL.iter().flat_map(|one| one.files.iter().map(|(name, _)| (*name).to_owned()));
        let known: BTreeSet<String> =
            ALL.iter().map(|one| format!("{}.yaml", one.name)).chain(files).collect();
        assert_eq!(known, here);
        let lines = list();
        assert!(lines.lines().all(|line| line.chars().count() <= 100), "{lines}");
    }

    #[test]
    fn interfaces_are_variables_and_these_are_named_after_their_ports() {
        for example in ALL {
            let scenario = Scenario::from_yaml(example.text, example.name).unwrap();
            let named = scenario
                .ports
                .iter()
                .filter_map(|(name, port)| Some((name.clone(), port.interface.clone()?)));
            // there are others that are no interfaces
            let written = variables(example.text)
                .filter(|(name, _)| scenario.ports.contains_key(*name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(named.collect::<Vec<_>>(), written.collect::<Vec<_>>(), "{}", example.name);
        }
    }

    #[test]
    fn a_variable_may_have_any_value() {
        for value in ["enp3s0", "on", "0x10", "a, b: c }", "\"", "\\", "é # x", "${b}"] {
            let set = [("a".to_owned(), value.to_owned()), ("b".to_owned(), "x".to_owned())];
            for example in ALL.iter().filter(|one| variables(one.text).any(|(name, _)| name == "a"))
            {
                let text = with_variables(example.text, &set);
                let scenario = Scenario::from_yaml(&text, example.name).unwrap();
                let interface = scenario.ports["a"].interface.as_deref();
                assert_eq!(interface, Some(value), "{}: {text}", example.name);
                let lines = |text: &str| text.lines().count();
                assert_eq!(lines(&text), lines(example.text));
            }
        }
    }

    #[test]
    fn a_variable_that_none_has_is_told_with_those_there_are() {
        let bursts: Vec<&Example> = ALL.iter().filter(|one| one.name == "bursts").collect();
        let set = [("d".to_owned(), "x".to_owned())];
        let told = unused(&bursts, &set).unwrap_err().sentence();
        assert_eq!(told, "--set d=x: no variable of these examples is 'd'; there are a, b, c");
        assert_eq!(texts(&bursts, &[]).unwrap(), [bursts[0].text]);
    }

    /// A loop over all examples sets the same variables for each.
    #[test]
    fn a_variable_that_only_others_have_is_no_mistake() {
        let dry_run: Vec<&Example> = ALL.iter().filter(|one| one.name == "dry-run").collect();
        let set = [("a".to_owned(), "x".to_owned()), ("c".to_owned(), "y".to_owned())];
        let notices = unused(&dry_run, &set).unwrap();
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert_eq!(notices[1], "note: --set c=y: only other examples have this variable");
        assert_eq!(texts(&dry_run, &set).unwrap(), [dry_run[0].text]);
        let all: Vec<&Example> = ALL.iter().collect();
        assert_eq!(unused(&all, &set).unwrap(), [""; 0]);
    }

    #[test]
    fn variables_of_interfaces_are_named_in_the_order_of_the_alphabet() {
        for example in ALL {
            let scenario = Scenario::from_yaml(example.text, example.name).unwrap();
            let names = variables(example.text).map(|(name, _)| name);
            let of_ports: Vec<&str> =
                names.filter(|name| scenario.ports.contains_key(*name)).collect();
            assert!(["a", "b", "c"].starts_with(&of_ports), "{}: {of_ports:?}", example.name);
        }
    }
}
