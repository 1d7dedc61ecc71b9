//! Scripts of each dialect become scenarios, held against golden files that a person can review: the
//! scenario, and as comments what is beside it. `UPDATE_GOLDEN=1` writes the files anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/as_the_tool.rs"]
mod as_the_tool;
#[path = "it/astf.rs"]
mod astf;
#[path = "it/contradictions.rs"]
mod contradictions;
#[path = "it/mangled.rs"]
mod mangled;
#[path = "it/packets.rs"]
mod packets;
#[path = "it/recognise.rs"]
mod recognised;
#[path = "it/sessions.rs"]
mod sessions;
#[path = "it/shell.rs"]
mod shell;
#[path = "it/sizes.rs"]
mod sizes;
#[path = "it/stf.rs"]
mod stf;
#[path = "it/warp17.rs"]
mod warp17;

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use wirebeat_import::capture::{SessionFacts, TemplateFacts};
use wirebeat_import::{
    Converted, Dialect, NamedCapture, Options, ScriptError, Source, convert, recognise,
};
use wirebeat_traffic::compile::{CompileError, Files, Link, Links, compile, compile_sessions};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::scenario::session::{SessionSpec, Transport};
use wirebeat_units::{BitRate, Nanos};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The scripts of a dialect. Beside them lie the files that they include, and the golden files.
fn scripts_of(dialect: Dialect) -> Vec<PathBuf> {
    let endings = ["cfg", "mgn", "itg", "sh", "stf"];
    let is_script = |path: &PathBuf| {
        path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
    };
    let entries = fs::read_dir(scripts().join(dialect.name())).unwrap();
    let mut scripts: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(is_script).collect();
    scripts.sort();
    assert!(scripts.len() >= 2, "{dialect} has too few scripts");
    scripts
}

/// What captures hold that scripts name: by their names.
pub(crate) fn captured(name: &str) -> Result<NamedCapture, String> {
    let base = name.rsplit('/').next().unwrap();
    let session = |number: u64, transport: Transport, port: u16, missing: u64| SessionFacts {
        number,
        transport,
        client: "10.0.0.1:5000".parse().unwrap(),
        server: SocketAddr::new([10, 0, 0, 2].into(), port),
        lasted: Nanos::from_millis(3),
        turns: vec![(true, 30), (false, 60)],
        missing,
        is_from_the_start: true,
        repeated: 0,
    };
    let sessions = match base {
        "dns.pcap" => vec![session(1, Transport::Udp, 53, 0)],
        "http.pcap" => vec![session(1, Transport::Tcp, 80, 0)],
        "two.pcap" => vec![session(1, Transport::Tcp, 554, 0), session(2, Transport::Udp, 5000, 0)],
        "cut.pcap" => vec![session(1, Transport::Tcp, 80, 7)],
        _ => return Err("there is no such file".to_owned()),
    };
    let template = TemplateFacts {
        packets: vec![(true, Nanos::ZERO), (false, Nanos::from_millis(3)), (true, Nanos::new(5))],
        client_ports: 1,
        is_ipv6: false,
    };
    Ok(NamedCapture { name: name.to_owned(), sessions, template: Ok(template) })
}

/// Converts a text that stands in place of the script.
fn try_convert(dialect: Dialect, path: &Path, text: &str) -> Result<Converted, ScriptError> {
    let read =
        |name: &str| fs::read(path.parent().unwrap().join(name)).map_err(|error| error.to_string());
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    convert(
        dialect,
        &Source { name: &name, text, read: &read, sessions: &captured },
        &Options::default(),
    )
}

fn convert_file(dialect: Dialect, path: &Path) -> Converted {
    let text = fs::read_to_string(path).unwrap();
    try_convert(dialect, path, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// What a person reviews.
fn describe(converted: &Converted) -> String {
    let mut out = String::new();
    if let Some(starts) = converted.starts {
        let zone = if starts.utc { "UTC" } else { "local time" };
        writeln!(out, "# starts {} after midnight, {zone}", starts.since_midnight).unwrap();
    }
    for listen in &converted.listens {
        writeln!(out, "# {}: at {}: {:?}", listen.line, listen.at, listen.what).unwrap();
    }
    for left_out in &converted.left_out {
        writeln!(out, "# {left_out}").unwrap();
    }
    for (name, content) in &converted.files {
        writeln!(out, "# file {name}:").unwrap();
        match std::str::from_utf8(content) {
            Ok(text) if text.chars().all(|c| c == '\n' || !c.is_control()) => {
                text.lines().take(12).for_each(|line| writeln!(out, "#   {line}").unwrap());
            }
            _ => {
                let hex: Vec<String> = content.iter().map(|byte| format!("{byte:02x}")).collect();
                hex.chunks(32).for_each(|line| writeln!(out, "#   {}", line.join(" ")).unwrap());
            }
        }
    }
    out + &converted.scenario.to_yaml().unwrap()
}

#[test]
fn every_script_becomes_its_golden_scenario() {
    for dialect in Dialect::ALL {
        for path in scripts_of(*dialect) {
            let converted = convert_file(*dialect, &path);
            let described = describe(&converted);
            let golden = PathBuf::from(format!("{}.yaml", path.display()));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&golden, &described).unwrap();
            }
            let expected = fs::read_to_string(&golden).unwrap_or_default();
            assert!(
                expected == described,
                "{} differs; look at it with UPDATE_GOLDEN=1 and git diff. It should be:\n{described}",
                golden.display()
            );
            // What was written is what is read.
            let again = Scenario::from_yaml(&described, "golden").unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(again, converted.scenario, "{}", path.display());
        }
    }
}

#[test]
fn every_script_is_recognised() {
    for dialect in Dialect::ALL {
        for path in scripts_of(*dialect) {
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(recognise(&text), Some(*dialect), "{}", path.display());
        }
    }
}

/// A capture of two frames of 100 bytes, 10 ms apart, where a script names one.
const CAPTURE: &[u8] = include_bytes!("scripts/mgen/day.pcap");

/// Compiles it for imaginary links.
fn compiled(converted: Converted) -> Result<Program, CompileError> {
    let link = |number| Link { speed: Some(BitRate(100_000_000_000)), ..Link::imaginary(number) };
    let ports = converted.scenario.ports.keys().cloned();
    let links = Links { ports: ports.zip((0..).map(link)).collect() };
    let mut files = Files::default();
    for (name, content) in converted.files {
        files.insert(name, content);
    }
    for name in ["day.pcap", "words.txt"] {
        files.insert(name.to_owned(), CAPTURE.to_vec());
    }
    // the captures that sessions say again are read by others
    let is_captured = |group: &SessionSpec| group.program.capture().is_some();
    if !converted.scenario.sessions.values().any(is_captured) {
        compile_sessions(&converted.scenario, &files)?;
    }
    compile(&converted.scenario, &links, &files)
}

#[test]
fn every_scenario_compiles() {
    for dialect in Dialect::ALL {
        for path in scripts_of(*dialect) {
            let converted = convert_file(*dialect, &path);
            let flows = converted.scenario.flows.len();
            let program = compiled(converted);
            let program = program.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(program.flows.len(), flows);
        }
    }
}

/// What only the link and the files can decide: a scenario with it is compiled in vain.
const NOT_OF_THE_SCRIPT: [&str; 3] = [
    "and its link carries",
    "was not read",
    // A capture's packets, with headers that are longer than its own.
    "are too short for the headers and the probe",
];

/// Where the words and numbers of a text are.
fn words_of(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut words, mut begun) = (Vec::new(), 0);
    for (at, sign) in
        text.match_indices(|c: char| c.is_whitespace() || "[](){}\"'`;:=/@,$<>|&".contains(c))
    {
        words.push(begun..at);
        begun = at + sign.len();
    }
    words.retain(|word| !word.is_empty());
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What is invalid is said with a line of the script, and not when it is too late for one.
    #[test]
    fn whatever_value_stands_in_a_script_it_is_refused_or_compiles(
        dialect in select(Dialect::ALL.to_vec()),
        which: Index,
        word: Index,
        value in select(vec!["0", "1", "7", "255", "256", "1500", "9000", "65535", "100000", "2147483647", "4294967296", "1e9", "0.001", "", "-1", "::", "ff02::1", "0.0.0.0", "ff", "x"]),
    ) {
        let scripts = scripts_of(dialect);
        let path = which.get(&scripts);
        let mut text = fs::read_to_string(path).unwrap();
        let words = words_of(&text);
        text.replace_range(word.get(&words).clone(), value);
        if let Ok(converted) = try_convert(dialect, path, &text)
            && let Err(error) = compiled(converted)
        {
            let why = error.to_string();
            prop_assert!(NOT_OF_THE_SCRIPT.iter().any(|known| why.contains(known)), "{why}\n{text}");
        }
    }
}
